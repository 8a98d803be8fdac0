// SPDX-License-Identifier: Apache-2.0
/* store_idle.c - idle work, between two turns: the executor takes in what other threads finished
 * and evicts what is clean and unused.
 *
 * Invariant: no idle work runs while a change could still be undone (an undo entry would point into
 * what a load or an eviction moves). */
#include "store/rows/store_int.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    DIRTY_PERCENT_MAX = 60,     /* of hot-memory: beyond it writers wait */
    DIRTY_PERCENT_DELETES = 80, /* beyond it who deletes waits, too */
    DIRTY_PERCENT_ASK = 40,     /* beyond it a flush is asked for */
    UNFLUSHED_UNITS_MAX = 2,    /* sealed: that bounds the time of a start */
    UNFLUSHED_UNITS_DELETES = 3,
    PINNED_PERCENT_MAX = 25,
    WINDOW_PART = 16,    /* of hot-memory */
    KNOWN_WAITS_MAX = 4, /* a meta row, both ends of a group, a range */
    EVICT_VISITS = 4096, /* entries and blocks a poll, so that a turn stays short */
    SWEEP_BUCKETS = 256,
    PURGE_BUCKETS = 16, /* about a hundred entries, each a cache miss */
    JOURNAL_TRY_NS = 1000 * 1000 * 1000,
    SHRINK_NS = 1000 * 1000 * 1000,
};

void store__notify(void *arg)
{
    struct store *store = arg;
    atomic_store(&store->notified, true);
    if (store->options.wake)
        store->options.wake(store->options.wake_arg);
}

static uint64_t percent(const struct store *store, unsigned part)
{
    return store->options.hot_memory_bytes / 100 * part;
}

/* ---- cold things ---- */

void store_want(struct store *store, struct store_group group, struct bytes suffix,
                enum store_want_kind kind)
{
    struct err ignored = {0}; /* without memory the read itself will tell */
    enum rc rc = store__cold(store, group, suffix, kind, 0, &ignored);
    (void)rc;
}

void store_want_rows(struct store *store, struct store_group group, struct bytes suffix,
                     uint64_t row_count)
{
    struct err ignored = {0};
    enum rc rc = store__cold(store, group, suffix, STORE_WANT_PAGE, row_count, &ignored);
    (void)rc;
}

/* What is worth to be read at once, and is not evicted before it is used. */
static uint32_t window_pages(const struct store *store)
{
    uint64_t pages = store->options.hot_memory_bytes / WINDOW_PART / LOAD_PAGE_BYTES_MAX;
    return pages < LOAD_BULK_FACTOR ? (uint32_t)pages : LOAD_BULK_FACTOR;
}

static struct load_want want_of(const struct store *store, const struct store_want_row *row)
{
    struct load_want want = {.kind = row->kind == STORE_WANT_ROW ? LOAD_ROW : LOAD_PAGE,
                             .slot = store->hot.prefix[row->prefix].slot,
                             .key = row->key,
                             .row_count = row->row_count};
    want.reverse = row->kind == STORE_WANT_PAGE_REVERSE || row->kind == STORE_WANT_LAST;
    want.has_from = row->kind != STORE_WANT_FIRST && row->kind != STORE_WANT_LAST;
    if (row->once || row->kind == STORE_WANT_WINDOW)
        want.page_count = window_pages(store);
    if (row->kind == STORE_WANT_KEYS) {
        want.kind = LOAD_KEYS;
        want.has_from = row->match != NULL;
        want.match = row->match;
        want.look_count_max = row->look_count_max;
    } else if (hot_slot_whole(&store->hot, want.slot)) { /* one row a group: no suffix */
        want.kind = LOAD_ROW;
        want.has_from = want.reverse = false;
    }
    if (want.has_from)
        want.from = row->suffix;
    return want;
}

/* How many rows are read at least for a walk that comes to something cold. Its command begins again
 * when they are there, so it gets three times as many as it had before: all beginnings together
 * cost a third of the last. Where that is a large part of the memory, as many as it had. A walk
 * that knows how far it goes gets that, unless it comes again and again: rows that it passes may be
 * deleted ones. */
static uint64_t walk_rows(const struct store *store, const struct load_waiter *waiter,
                          uint64_t known_count)
{
    bool scarce = store->loads.pinned_bytes > percent(store, PINNED_PERCENT_MAX);
    uint64_t guess = waiter->brought_row_count * (scarce ? 1 : 3);
    bool is_known = known_count > 0 && waiter->wait_count < KNOWN_WAITS_MAX;
    return is_known || guess < known_count ? known_count : guess;
}

bool store_wait(struct store *store, struct load_waiter *waiter)
{
    ASSERT(!store->open);
    for (size_t i = 0; i < store->want_count; i++) {
        struct load_want want = want_of(store, &store->want[i]);
        if (store->hot.slot[want.slot].complete && hot_slot_whole(&store->hot, want.slot))
            continue; /* a row that is not in the table does not exist */
        bool is_enough = store->want[i].once && waiter->wait_count < KNOWN_WAITS_MAX;
        if (store->want[i].walks && !is_enough)
            want.row_count = walk_rows(store, waiter, want.row_count);
        load_start(&store->loads, &want, store->hot.meter.mark, waiter);
    }
    store->want_count = 0;
    waiter->wait_count++;
    return waiter->pending_count > 0;
}

void store_wait_release(struct store *store, struct load_waiter *waiter)
{
    load_waiter_release(&store->loads, waiter);
}

/* ---- room ---- */

/* Seals what was written so far. The journal may have to sync the segment before first: then
 * store_poll() tries again. */
static uint64_t seal_ask(struct store *store)
{
    uint64_t segment = journal_rotate(store->journal);
    store->stamp = (uint32_t)journal_segment(store->journal);
    if (segment > store->asked_segment)
        store->asked_segment = segment;
    return segment;
}

uint64_t store_flush_ask(struct store *store)
{
    ASSERT(!store->open && store->writer.commit_count == 0);
    uint64_t segment = seal_ask(store);
    flush_ask(store->flush, store->asked_segment);
    return segment;
}

uint64_t store_flush_mark(const struct store *store)
{
    return store->hot.meter.mark;
}

/* Changes that were taken back have stamped what they touched with the segment being written. If
 * that holds nothing it is never flushed and they stay dirty: a turn that changes nothing lets it
 * be sealed. */
static void empty_turn_write(struct store *store)
{
    struct err ignored = {0};
    struct bytes name = store->counter_count ? store->counter[0].name : BYTES("");
    if (!record_commit_begin(&store->writer))
        return;
    if (!record_add(&store->writer, RECORD_COUNTER_ADD, SPACE_SYS, name, bytes_of("", 0),
                    bytes_of("", 0), bytes_of("", 0), 0)) {
        record_commit_undo(&store->writer);
        return;
    }
    record_commit_end(&store->writer);
    store->commit_lsn = store->turn_first_lsn = ++store->last_lsn;
    enum rc rc = store_write(store, &ignored);
    (void)rc; /* then there is no room yet, and the next store_room() tries again */
}

/* A flush that makes room, unless one is on its way. */
static void room_ask(struct store *store)
{
    if (store->hot.meter.mark < store->asked_segment || store->writer.commit_count > 0)
        return;
    if (store_flush_ask(store) > store->hot.meter.mark)
        return;
    empty_turn_write(store);
    store_flush_ask(store);
}

/* Sealed and not in the engine. Flushed segments whose files stay for a while (a backup pins them,
 * or they could not be removed) do not count: nobody could make that room by waiting. */
static uint64_t unflushed_bytes(struct store *store)
{
    struct journal_sealed sealed;
    uint64_t bytes = 0, after = store->hot.meter.mark;
    for (; journal_sealed_next(store->journal, after, &sealed); after = sealed.number)
        bytes += sealed.bytes;
    return bytes;
}

/* Deletions are dirty rows, too, until they are flushed. */
bool store__deletes_over(const struct store *store)
{
    return meter_dirty(&store->hot.meter) > percent(store, DIRTY_PERCENT_DELETES) ||
           store->unflushed_bytes > UNFLUSHED_UNITS_DELETES * store->options.flush_unit_bytes;
}

/* A full disk or an error of the engine may keep the flush from making room for as long as it
 * likes: then, and while changes are refused anyhow, who asks gets that answer. */
static void no_room_look(struct store *store)
{
    struct err why;
    bool failed = flush_failed(store->flush, &why);
    if (flush_disk_full(store->flush))
        store->no_room = err_set(&store->no_room_err, RC_FULL,
                                 "the disk is full and memory too; only deleting commands run");
    else if (failed)
        store->no_room =
            err_set(&store->no_room_err, RC_IO,
                    "memory is full, and the flush that makes room fails: %.300s", why.text);
    if (store->no_room != RC_OK)
        err_set(&store->no_room_to_delete_err, store->no_room,
                "memory is full of changes that cannot be flushed, deletions among them: %.300s",
                failed ? why.text : "no space left");
}

bool store_room(struct store *store)
{
    uint64_t dirty = meter_dirty(&store->hot.meter);
    bool full = dirty > percent(store, DIRTY_PERCENT_MAX) ||
                (store->stuck && hot_bytes(&store->hot) > store->options.hot_memory_bytes);
    if (full || dirty > percent(store, DIRTY_PERCENT_ASK))
        room_ask(store);
    uint64_t unit = store->options.flush_unit_bytes;
    store->unflushed_bytes = unflushed_bytes(store);
    if (store->unflushed_bytes > flush_hurry_bytes(unit))
        flush_hurry(store->flush);
    store->no_room = RC_OK;
    if (!full && store->unflushed_bytes <= UNFLUSHED_UNITS_MAX * unit)
        return true;
    no_room_look(store);
    return store_is_short(store);
}

bool store_is_short(const struct store *store)
{
    return store->no_room != RC_OK || journal_read_only(store->journal) ||
           journal_disk_low(store->journal);
}

bool store_room_to_delete(struct store *store)
{
    return !store__deletes_over(store) || store->no_room != RC_OK ||
           journal_read_only(store->journal);
}

/* What has to leave. A command that needs more than hot-memory at once would drive out everything
 * else, and have no more room for it: half of hot-memory is left to the others. */
static uint64_t evict_want(const struct store *store)
{
    uint64_t bytes = hot_bytes(&store->hot), max = store->options.hot_memory_bytes;
    uint64_t pinned = store->loads.pinned_bytes, kept = max / 2 + pinned;
    if (bytes <= max || bytes <= kept)
        return 0;
    return pinned <= max / 2 ? bytes - max : bytes - kept;
}

static void evict(struct store *store)
{
    uint64_t want = evict_want(store), max = hot_bytes(&store->hot) - want;
    if (want == 0) {
        store->stuck = false;
        return;
    }
    uint32_t horizon = loads_horizon(&store->loads, store->hot.meter.mark);
    uint64_t before = store->hot.meter.total_bytes;
    uint32_t laps = 0;
    /* Far over it, loads of large rows bring more than the hand finds among small ones that stay.
     */
    uint32_t visits = want > max / 16 ? 8 * EVICT_VISITS : EVICT_VISITS;
    struct hot_evict_result result = hot_evict(&store->hot, horizon, want, visits);
    /* The first lap takes the reference bits, the second takes what kept none. */
    while (result.lap && store->hot.meter.total_bytes > max && laps++ < 2)
        result = hot_evict(&store->hot, horizon, store->hot.meter.total_bytes - max, visits);
    store->stuck = result.lap && store->hot.meter.total_bytes == before && !store_busy(store);
    store__trees_changed(store);
}

bool store_busy(const struct store *store)
{
    return store->hot.dead_tree_count > 0;
}

static bool mark_take(struct store *store)
{
    uint64_t mark = flush_mark_segment(store->flush);
    if (mark <= store->hot.meter.mark)
        return false;
    meter_mark(&store->hot.meter, (uint32_t)mark);
    store->stuck = false;
    return true;
}

/* A journal that went read-only is tried again, at most once a second. */
static bool journal_try(struct store *store)
{
    struct err ignored = {0}; /* it is in the journal's status */
    if (LIKELY(!journal_read_only(store->journal)))
        return false;
    uint64_t now_ns = clock_mono_ns(store->clock);
    if (now_ns < store->journal_try_ns)
        return false;
    store->journal_try_ns = now_ns + JOURNAL_TRY_NS;
    if (journal_retry(store->journal, &ignored) != RC_OK)
        return false;
    store->stamp = (uint32_t)journal_segment(store->journal);
    return true;
}

/* Deletions free disk when they are flushed: while it is full that does not wait for a unit. */
static void shrink_look(struct store *store)
{
    if (LIKELY(reserve_is_whole(store->reserve)) || store->writer.commit_count > 0)
        return;
    uint64_t now_ns = clock_mono_ns(store->clock);
    if (now_ns < store->shrink_ns)
        return;
    store->shrink_ns = now_ns + SHRINK_NS;
    if (store->hot.meter.mark >= store->asked_segment)
        store_flush_ask(store);
}

bool store_poll(struct store *store)
{
    ASSERT(!store->open && store->undo_count == 0);
    bool any = atomic_exchange(&store->notified, false);
    any = journal_try(store) || any;
    if (mark_take(store)) {
        hot_purge_begin(&store->hot);
        any = true;
    }
    shrink_look(store);
    if (store->asked_segment >= journal_segment(store->journal))
        seal_ask(store);
    any = loads_poll(&store->loads) || any;
    loads_pin_limit(&store->loads, percent(store, PINNED_PERCENT_MAX));
    if (store->hot.dead_count || store->hot.dead_tree_count) {
        hot_sweep(&store->hot, SWEEP_BUCKETS);
        store__trees_changed(store);
    }
    if (store->hot.purging) {
        hot_purge(&store->hot, loads_horizon(&store->loads, store->hot.meter.mark), PURGE_BUCKETS);
        store__trees_changed(store);
    }
    evict(store);
    if (any)
        store__trees_changed(store);
    return any;
}

void store_evict_all(struct store *store)
{
    ASSERT(!store->open && store->undo_count == 0);
    mark_take(store);
    uint32_t horizon = loads_horizon(&store->loads, store->hot.meter.mark);
    hot_sweep(&store->hot, UINT32_MAX); /* the rest of a round */
    hot_sweep(&store->hot, UINT32_MAX);
    /* From wherever the hand stands: a rest of a lap, one for the bits, one to go. */
    for (int laps = 0; laps < 3;)
        laps += hot_evict(&store->hot, horizon, UINT64_MAX, UINT32_MAX).lap;
    store__trees_changed(store);
}

/* ---- freeze and backup ---- */

struct store_freeze {
    struct store *store;
    struct flush_request request;
    char *dir; /* backup: where to */
    bool finished;
};

static enum rc freeze_start(struct store *store, enum flush_request_kind kind, const char *dir,
                            struct store_freeze **ret_freeze, struct err *err)
{
    if (store->open || store->writer.commit_count > 0)
        return err_set(err, RC_INVALID, "a turn is open");
    struct store_freeze *freeze = mem_zalloc(sizeof *freeze);
    freeze->store = store;
    freeze->request.kind = kind;
    if (dir)
        freeze->dir = mem_dup(dir, strlen(dir) + 1);
    freeze->request.backup_dir = freeze->dir;
    freeze->request.segment = seal_ask(store);
    if (kind == FLUSH_REQUEST_VIEW)
        flush_ask(store->flush, freeze->request.segment);
    flush_request(store->flush, &freeze->request);
    *ret_freeze = freeze;
    return RC_OK;
}

enum rc store_freeze_start(struct store *store, struct store_freeze **ret_freeze, struct err *err)
{
    if (!store->engine->ops->has_views)
        return err_set(err, RC_INVALID, "engine \"%s\" has no views", store->engine->ops->name);
    return freeze_start(store, FLUSH_REQUEST_VIEW, NULL, ret_freeze, err);
}

enum rc store_backup_start(struct store *store, const char *dir, struct store_freeze **ret_backup,
                           struct err *err)
{
    return freeze_start(store, FLUSH_REQUEST_BACKUP, dir, ret_backup, err);
}

enum rc store_freeze_ready(struct store_freeze *freeze, struct engine_view **ret_view,
                           uint64_t *ret_lsn, struct err *err)
{
    if (!atomic_load(&freeze->request.done))
        return RC_WAIT;
    if (freeze->request.rc != RC_OK) {
        if (err)
            *err = freeze->request.err;
        return freeze->request.rc;
    }
    if (freeze->dir && !freeze->finished) {
        /* The catalogue comes last: a directory without it is not a backup. */
        enum rc rc = catalog_write(&freeze->store->catalog, freeze->store->files, freeze->dir, err);
        if (rc != RC_OK)
            return rc;
        freeze->finished = true;
    }
    *ret_view = freeze->request.view;
    *ret_lsn = freeze->request.mark.lsn;
    return RC_OK;
}

void store_freeze_end(struct store *store, struct store_freeze *freeze)
{
    if (!freeze)
        return;
    flush_request_take_back(store->flush, &freeze->request);
    if (freeze->request.view)
        store->engine->ops->view_close(store->engine, freeze->request.view);
    mem_free(freeze->dir);
    mem_free(freeze);
}

bool store_journal_failed(struct store *store, struct err *ret_why)
{
    struct journal_status journal;
    if (!journal_read_only(store->journal))
        return false;
    journal_status(store->journal, &journal);
    (void)err_set(ret_why, RC_READONLY, "the journal cannot be written: %.400s", journal.reason);
    return true;
}

/* A journal that cannot be written cannot seal its segment, so nobody flushes it. */
bool store_flush_failed(struct store *store, struct err *ret_why)
{
    return flush_failed(store->flush, ret_why) || store_journal_failed(store, ret_why);
}

struct engine *store_engine(struct store *store)
{
    return store->engine;
}

const struct space_set *store_spaces(const struct store *store)
{
    return &store->catalog.spaces;
}

/* ---- watching and tests ---- */

size_t store_cuts(const struct store *store, const struct journal_cut **ret_cut)
{
    *ret_cut = store->cut;
    return store->cut_count;
}

static void flush_stats(struct store *store, struct store_stats *stats)
{
    struct flush_status flush;
    flush_status(store->flush, &flush);
    stats->flush_unit_count = flush.unit_count;
    stats->flush_row_count = flush.row_count;
    stats->flush_range_delete_count = flush.range_delete_count;
    stats->flush_failure_count = flush.failure_count;
    stats->flush_pending_bytes = flush.pending_bytes;
    stats->flush_braked = flush.braked;
    stats->engine_closed = flush.engine_closed;
    stats->engine_reopen_count = flush.reopen_count;
    snprintf(stats->engine_reopen_reason, sizeof stats->engine_reopen_reason, "%s",
             flush.reopen_reason);
    snprintf(stats->flush_reason, sizeof stats->flush_reason, "%s", flush.reason);
}

void store_stats(struct store *store, struct store_stats *ret_stats)
{
    const struct hot *hot = &store->hot;
    const struct loads *loads = &store->loads;
    *ret_stats = (struct store_stats){
        .hot_bytes = hot_bytes(hot),
        .hot_bytes_max = store->options.hot_memory_bytes,
        .dirty_bytes = meter_dirty(&hot->meter),
        .pinned_bytes = loads->pinned_bytes,
        .hot_entry_count = hot->table.entry_count,
        .evicted_block_count = hot->evicted_block_count,
        .evicted_row_count = hot->evicted_row_count,
        .purged_count = hot->purged_count,
        .load_count = loads->started_count,
        .load_row_count = loads->row_count,
        .load_failed_count = loads->failed_count,
        .loads_in_flight = loads->flight_count,
        .preempted_count = loads->preempted_count,
        .cold_count = store->cold_count,
        .cold_injected_count = store->cold_injected_count,
        .gap_search_count = store->loads.gap_search_count,
        .commit_count = store->commit_count,
        .turn_count = store->turn_count,
        .undo_count = store->undo_total,
        .recovered_turn_count = store->recovered_turn_count,
        .recovered_bytes = store->recovered_bytes,
    };
    for (size_t i = 0; i < store->cut_count; i++) {
        ret_stats->recovered_cut_bytes += store->cut[i].bytes;
        ret_stats->recovered_cut_turn_count += store->cut[i].turn_count;
    }
    snprintf(ret_stats->load_failed_reason, sizeof ret_stats->load_failed_reason, "%s",
             loads->failed_err.text);
    ret_stats->full_reserve_bytes = reserve_bytes(store->reserve);
    ret_stats->full_reserve_bytes_max = reserve_size(store->reserve);
    journal_status(store->journal, &ret_stats->journal);
    flush_stats(store, ret_stats);
    store->engine->ops->pressure(store->engine, &ret_stats->pressure);
    store->engine->ops->stats(store->engine, &ret_stats->engine);
}

bool store_step(struct store *store, enum store_step step)
{
    bool worked = false;
    ASSERT(store->options.manual);
    switch (step) {
    case STORE_STEP_JOURNAL:
        journal_step(store->journal, &worked);
        break;
    case STORE_STEP_FLUSH:
        flush_step(store->flush, &worked);
        break;
    case STORE_STEP_LOAD:
        worked = loads_step(&store->loads);
        break;
    }
    return worked;
}

void store_cold_inject(struct store *store, uint64_t count)
{
    store->cold_inject = count;
}

static void entry_check(void *entry, void *arg)
{
    struct store *store = arg;
    struct hot_head *head = entry;
    uint32_t slot = hot_head_slot(head);
    ASSERT(slot < store->hot.slot_count && store->hot.slot[slot].used);
    if (hot_slot_whole(&store->hot, slot))
        return;
    struct hot_group *group = entry;
    tree_check(&group->tree);
}

void store_check(struct store *store)
{
    uint64_t cursor = 0;
    do {
        cursor = table_scan(&store->hot.table, cursor, entry_check, store);
    } while (cursor);
}

void store_hot_memory_set(struct store *store, size_t bytes)
{
    store->options.hot_memory_bytes = bytes;
}

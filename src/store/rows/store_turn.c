// SPDX-License-Identifier: Apache-2.0
/* store_turn.c - commits and turns.
 *
 * Invariants:
 *   (1) Every change since the last store_write() has its undo entry, in order.
 *   (2) Undo entries are released only when their records are in the journal, or applied only when
 *       they are not.
 *   (3) LSNs of a turn are consecutive; a commit without records has none. */
#include "store/rows/store_int.h"

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

struct undo *store__undo_add(struct store *store, enum undo_kind kind)
{
    if (store->undo_count == store->undo_cap) {
        store->undo_cap = store->undo_cap ? store->undo_cap * 2 : 64;
        store->undo = mem_realloc(store->undo, store->undo_cap * sizeof *store->undo);
    }
    struct undo *undo = &store->undo[store->undo_count++];
    undo->kind = kind;
    return undo;
}

static void undo_row(struct store *store, struct undo *undo)
{
    struct hot_row *new = undo->as.row.new, *old = undo->as.row.old;
    uint64_t hash = hot_hash(&store->hot, hot_head_slot(&new->head), hot_row_key(new));
    if (old) {
        struct hot_row *gone = hot_row_swap(&store->hot, old, hash);
        ASSERT(gone == new);
    } else {
        hot_row_remove(&store->hot, new, hash);
    }
    hot_row_free(new);
}

static void undo_row_value(struct store *store, struct hot_row *row, size_t keep_offset)
{
    struct bytes old = bytes_of(store->keep.ptr + keep_offset, row->value_bits & HOT_ROW_LEN);
    hot_row_rewrite(&store->hot, row, old, row->head.segment);
}

static void undo_one(struct store *store, struct undo *undo)
{
    struct meter *meter = &store->hot.meter;
    switch (undo->kind) {
    case UNDO_ROW:
        undo_row(store, undo);
        break;
    case UNDO_ROW_VALUE:
        undo_row_value(store, undo->as.row_value.row, undo->as.row_value.keep_offset);
        break;
    case UNDO_TREE:
        tree_undo(&undo->as.tree.group->tree, meter, store->stamp,
                  bytes_of(store->writer.body.ptr + undo->as.tree.suffix_offset,
                           undo->as.tree.suffix_len),
                  &undo->as.tree.old, &store->keep);
        break;
    case UNDO_GROUP_DROP:
        tree_done(&undo->as.group_drop.group->tree, meter);
        undo->as.group_drop.group->tree = undo->as.group_drop.tree;
        break;
    case UNDO_PREFIX_DROP:
        hot_prefix_undrop(&store->hot, undo->as.prefix_drop.prefix, undo->as.prefix_drop.slot);
        store->prefix_drop_count--;
        break;
    case UNDO_COUNTER:
        store->counter[undo->as.counter.counter].value -= undo->as.counter.delta;
        break;
    }
}

static void undo_to(struct store *store, size_t count)
{
    while (store->undo_count > count)
        undo_one(store, &store->undo[--store->undo_count]);
    store__trees_changed(store);
}

void store__undo_release(struct store *store)
{
    for (size_t i = 0; i < store->undo_count; i++) {
        struct undo *undo = &store->undo[i];
        switch (undo->kind) {
        case UNDO_ROW:
            hot_row_free(undo->as.row.old);
            break;
        case UNDO_TREE:
            block_out_free(undo->as.tree.old.out, &store->hot.meter);
            break;
        case UNDO_GROUP_DROP:
            hot_tree_free(&store->hot, &undo->as.group_drop.tree);
            break;
        case UNDO_PREFIX_DROP:
            hot_slot_release(&store->hot, undo->as.prefix_drop.slot);
            break;
        case UNDO_ROW_VALUE:
        case UNDO_COUNTER:
            break;
        }
    }
    store->undo_count = 0;
    store->prefix_drop_count = 0;
    store__trees_changed(store);
    buf_cut(&store->keep, 0);
}

void store_begin(struct store *store, unsigned flags)
{
    ASSERT(!store->open);
    store->open = true;
    store->begin_flags = flags;
    store->commit_undo_count = store->undo_count;
    store->commit_keep_len = store->keep.len;
    store->want_count = 0;
    arena_clear(&store->want_arena);
    store->begin_failed = store->refused != RC_OK || !record_commit_begin(&store->writer);
}

static void counters_forget(struct store *store, bool undo)
{
    for (size_t i = 0; i < store->changed_counter_count; i++) {
        struct store_counter *counter = &store->counter[store->changed_counter[i]];
        if (undo)
            counter->value -= counter->commit_delta;
        counter->commit_delta = 0;
    }
    store->changed_counter_count = 0;
}

/* One record a counter and commit, whatever the number of additions. */
static void counters_record(struct store *store)
{
    for (size_t i = 0; i < store->changed_counter_count; i++) {
        struct store_counter *counter = &store->counter[store->changed_counter[i]];
        if (counter->commit_delta == 0)
            continue;
        record_counter_add(&store->writer, SPACE_SYS, counter->name, counter->commit_delta);
        struct undo *undo = store__undo_add(store, UNDO_COUNTER);
        undo->as.counter.counter = store->changed_counter[i];
        undo->as.counter.delta = counter->commit_delta;
        counter->commit_delta = 0;
    }
    counters_forget(store, false);
}

void store_commit(struct store *store)
{
    ASSERT(store->open);
    store->open = false;
    if (store->begin_failed) /* every change was refused: there is nothing to close */
        return;
    counters_record(store);
    uint32_t before = store->writer.commit_count;
    record_commit_end(&store->writer);
    if (store->writer.commit_count == before)
        return;
    store->commit_lsn = ++store->last_lsn;
    store->commit_count++;
    if (before == 0)
        store->turn_first_lsn = store->last_lsn;
}

void store_undo(struct store *store)
{
    ASSERT(store->open);
    undo_to(store, store->commit_undo_count);
    counters_forget(store, true);
    if (!store->begin_failed)
        record_commit_undo(&store->writer);
    buf_cut(&store->keep, store->commit_keep_len);
    store->open = false;
    store->undo_total++;
}

void store_save(struct store *store)
{
    struct store_saved *saved = &store->saved;
    ASSERT(store->open);
    saved->undo_count = store->undo_count;
    saved->keep_len = store->keep.len;
    saved->place = record_place(&store->writer);
    saved->counter_count = store->changed_counter_count;
    if (saved->counter_count > saved->delta_cap) {
        saved->delta_cap = 2 * saved->counter_count;
        saved->delta = mem_realloc(saved->delta, saved->delta_cap * sizeof *saved->delta);
    }
    for (size_t i = 0; i < saved->counter_count; i++)
        saved->delta[i] = store->counter[store->changed_counter[i]].commit_delta;
}

void store_undo_saved(struct store *store)
{
    const struct store_saved *saved = &store->saved;
    ASSERT(store->open && store->undo_count >= saved->undo_count);
    if (store->begin_failed)
        return; /* every change was refused */
    undo_to(store, saved->undo_count);
    for (size_t i = 0; i < store->changed_counter_count; i++) {
        struct store_counter *counter = &store->counter[store->changed_counter[i]];
        int64_t delta = i < saved->counter_count ? saved->delta[i] : 0;
        counter->value -= counter->commit_delta - delta;
        counter->commit_delta = delta;
    }
    store->changed_counter_count = saved->counter_count;
    record_cut(&store->writer, saved->place);
    buf_cut(&store->keep, saved->keep_len);
}

/* The records stay until store_write(): a turn with commits is written by nobody else. */
static void turn_undo(struct store *store)
{
    undo_to(store, 0);
    buf_cut(&store->keep, 0);
    store->commit_lsn = store->written_lsn; /* the LSNs between are never used */
}

void store_turn_refuse(struct store *store, enum rc rc, const struct err *err)
{
    ASSERT(!store->open);
    ASSERT(rc != RC_OK);
    store->refused = rc;
    store->refused_err = *err;
    turn_undo(store);
}

static enum rc turn_write(struct store *store, struct err *err)
{
    if (UNLIKELY(store->refused != RC_OK)) {
        enum rc rc = store->refused;
        store->refused = RC_OK;
        return err_set(err, rc, "%s", store->refused_err.text);
    }
    return journal_write(store->journal, store->turn_first_lsn, store->writer.commit_count,
                         buf_bytes(&store->writer.body), err);
}

enum rc store_write(struct store *store, struct err *err)
{
    ASSERT(!store->open);
    if (store->writer.commit_count == 0 && LIKELY(store->refused == RC_OK))
        return RC_OK;
    enum rc rc = turn_write(store, err);
    if (rc == RC_OK) {
        store->turn_count++;
        store->written_lsn = store->commit_lsn;
        store__undo_release(store);
    } else {
        turn_undo(store);
    }
    record_writer_clear(&store->writer);
    store->stamp = (uint32_t)journal_segment(store->journal);
    ASSERT(journal_segment(store->journal) < UINT32_MAX);
    return rc;
}

size_t store_turn_bytes(const struct store *store)
{
    return store->writer.body.len;
}

uint64_t store_lsn(const struct store *store)
{
    return store->last_lsn + 1;
}

uint64_t store_lsn_of_ms(uint64_t unix_ms)
{
    const uint64_t ms_max = UINT64_C(1) << 42; /* in the year 2109 */
    return (unix_ms < ms_max ? unix_ms : 0) << 20;
}

uint64_t store_last_lsn(const struct store *store)
{
    return store->last_lsn;
}

uint64_t store_commit_lsn(const struct store *store)
{
    return store->commit_lsn;
}

uint64_t store_durable_lsn(const struct store *store)
{
    return journal_durable_lsn(store->journal);
}

uint32_t store_incarnation(const struct store *store)
{
    return store->catalog.incarnation;
}

enum rc store_lsn_raise(struct store *store, uint64_t lsn, struct err *err)
{
    enum { DAY_MS = 24 * 3600 * 1000 };
    ASSERT(!store->open && store->writer.commit_count == 0);
    if (lsn > (clock_unix_ms(store->clock) + DAY_MS) << 20)
        return err_set(err, RC_INVALID, "version %llu is more than a day ahead of the clock",
                       (unsigned long long)lsn);
    if (lsn > store->last_lsn)
        store->last_lsn = lsn;
    return RC_OK;
}

void store_durability_set(struct store *store, enum durability durability)
{
    journal_durability_set(store->journal, durability);
}

void store_sync_ask(struct store *store)
{
    journal_sync_ask(store->journal);
}

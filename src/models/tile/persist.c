// SPDX-License-Identifier: Apache-2.0
/* persist.c - the job that brings what is marked into shards, and clears it.
 *
 * Rounds: a round walks all marks of all types in key order, from the first to the last, in
 * batches. While the writer applies one batch the job reads the next one. A batch is read, waits
 * until the newest of it is durable, is applied, and what is still the version that was read is
 * cleared.
 *
 * Invariants:
 *   (1) An entry of a batch is of one type and one key, with its own epoch and provider.
 *   (2) Nothing newer than the durable LSN is given to the writer.
 *   (3) A mark leaves, and its row with it (tile-clear), only if it is still the version that was
 *       applied and every kind of shard of the type has it on disk.
 *   (4) Batches are applied in the order in which they were read: a later version is never
 *       replaced by an earlier one.
 *   (5) What could not be applied keeps its mark, and is read again by a later round.
 *   (6) What was read in a turn that could not be written is thrown away: it never was.
 *   (7) A mark or row that cannot be understood is passed over and told: it stops no other.
 *   (8) A damaged file of a type whose rows stay is set aside only when all of its rows that are in
 *       the store are marked again, durably: the new file gets them, whoever is killed. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "models/tile/tile_int.h"

#include "base/banned.h"

enum {
    BATCH_ENTRIES_MAX = 8192,
    BATCH_BYTES_MAX = 8 * 1024 * 1024, /* two are in memory; SQLite gains nothing by more */
    STEP_ENTRIES = 128,                /* read or cleared in one commit */
    STEP_BYTES = 512 * 1024,
    RETRY_MS_MIN = 1000,
    RETRY_MS_MAX = 30 * 1000,
    BUSY_ROUNDS_MAX = 4,           /* in which locks were in the way, before that is told */
    AFTER_BYTES_MAX = 1024 * 1024, /* any suffix that the store has */
    REST_TIMES = 7,                /* as long as the step before it took */
};
#define NS_A_MS UINT64_C(1000000)

struct persist_entry {
    struct shard_change change;
    struct tile_type *type;
    uint64_t version;
    bool failed; /* the writer's answer */
};

enum batch_state { BATCH_EMPTY, BATCH_FILLING, BATCH_FULL, BATCH_WRITING, BATCH_WRITTEN };

struct damaged_file {       /* (8) */
    struct tile_type *type; /* NULL: none */
    struct tile_place place;
};

struct batch {
    struct tile_work work;
    struct persist *persist;
    enum batch_state state;
    struct persist_entry *entry;
    size_t count, cap;
    struct arena arena; /* the data */
    uint64_t bytes;
    uint64_t lsn; /* has to be durable */
    size_t cleared;
    uint64_t seq; /* (4) */
    bool ends_round;
    struct damaged_file may; /* be set aside, of those whose rows stay */
    /* the writer's answer */
    struct damaged_file damaged; /* of those, and may not yet */
    size_t failed_count;
    bool failed_for_good;                /* not only for the locks of others */
    struct err err;                      /* the first failure */
    uint32_t set_aside;                  /* files */
    char set_aside_path[PATH_BYTES_MAX]; /* the last of them */
    uint64_t write_ns;
};

struct persist {
    struct task task;
    struct tiles *tiles;
    struct batch batch[2];
    uint64_t seq;
    /* the round */
    bool in_round;
    size_t type; /* whose marks are walked */
    bool has_after;
    struct buf after; /* the suffix of the last one */
    uint64_t round_lsn;
    bool round_failed, round_failed_for_good;
    uint64_t busy_rounds;        /* the last so many failed for the locks of others only */
    uint64_t round_damaged;      /* (7) */
    struct err damage;           /* the first of them */
    struct damaged_file marking; /* (8): its rows are being marked, behind `marked_key` */
    struct damaged_file may;     /* they are */
    uint64_t marked_lsn;         /* the last of these marks */
    bool has_marked_key;
    struct tilekey marked_key;
    bool again; /* the round begins anew */
    /* when */
    uint64_t marks;         /* since the last round began; a hint */
    uint64_t marks_seen;    /* by the last step */
    uint64_t first_mark_ns; /* of them */
    uint64_t synced_lsn, ask_lsn;
    uint64_t retry_ns, retry_ms; /* not before; 0: nothing has failed */
    uint64_t failed_rounds;
    struct dlist waiters; /* for the end of a round */
    bool draining;
    struct err trouble; /* of the last round that failed */
    bool has_trouble;
    struct persist_stats stats;
};

/* ---- when ---- */

void persist_marked(struct persist *persist)
{
    if (persist->marks++ == 0)
        persist->first_mark_ns = clock_mono_ns(persist->tiles->options.clock);
}

static bool is_due(const struct persist *persist)
{
    const struct tiles_options *options = &persist->tiles->options;
    if (persist->ask_lsn > persist->synced_lsn || (persist->draining && persist->marks > 0))
        return true;
    return persist->marks >= options->batch_count ||
           (persist->marks > 0 && clock_mono_ns(options->clock) >=
                                      persist->first_mark_ns + options->interval_ms * NS_A_MS);
}

void tiles_sync_ask(struct tiles *tiles, uint64_t lsn)
{
    if (!tiles->persist || lsn <= tiles->persist->ask_lsn)
        return;
    tiles->persist->ask_lsn = lsn;
    tiles->persist->retry_ns = 0;
}

static void waiters_wake(struct persist *persist)
{
    while (persist->waiters.first) {
        struct tile_waiter *waiter =
            DLIST_ITEM(persist->waiters.first, struct tile_waiter, round_link);
        task_wake(waiter->task);
        persist__waiter_end(waiter);
    }
}

void tiles_sync_wait(struct tiles *tiles, void **to, struct task *task)
{
    struct tile_waiter *waiter = tile__waiter(to);
    persist__waiter_end(waiter);
    waiter->task = task;
    waiter->round_list = &tiles->persist->waiters;
    dlist_add_first(waiter->round_list, &waiter->round_link);
}

void persist__waiter_end(struct tile_waiter *waiter)
{
    if (!waiter->round_list)
        return;
    dlist_remove(waiter->round_list, &waiter->round_link);
    waiter->round_list = NULL;
}

uint64_t tiles_failed_rounds(const struct tiles *tiles)
{
    return tiles->persist ? tiles->persist->failed_rounds : 0;
}

bool tiles_is_synced(const struct tiles *tiles, uint64_t lsn)
{
    return !tiles->persist || tiles->persist->synced_lsn >= lsn;
}

const char *tiles_trouble(const struct tiles *tiles)
{
    return tiles->persist && tiles->persist->has_trouble ? tiles->persist->trouble.text : NULL;
}

const struct persist_stats *persist_stats(const struct persist *persist)
{
    return &persist->stats;
}

uint64_t persist_in_flight(const struct persist *persist)
{
    uint64_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++)
        if (persist->batch[i].state == BATCH_WRITING)
            count += persist->batch[i].count;
    return count;
}

static bool is_idle(const struct persist *persist)
{
    return !persist->in_round && persist->batch[0].state == BATCH_EMPTY &&
           persist->batch[1].state == BATCH_EMPTY;
}

bool tiles_drained(struct tiles *tiles)
{
    struct persist *persist = tiles->persist;
    if (!persist)
        return true;
    if (!persist->draining) {
        persist->draining = true;
        persist->retry_ns = 0;
        persist->marks++; /* of an earlier run, perhaps */
        return false;
    }
    return is_idle(persist) && (persist->marks == 0 || persist->has_trouble);
}

/* ---- reading ---- */

static void round_begin(struct persist *persist)
{
    persist->in_round = true;
    persist->type = 0;
    persist->has_after = false;
    persist->round_lsn = store_last_lsn(persist->tiles->store);
    persist->round_failed = persist->round_failed_for_good = false;
    persist->round_damaged = 0;
    persist->again = false;
    persist->marks = 0;
}

static void batch_reset(struct batch *batch)
{
    batch->state = BATCH_EMPTY;
    batch->count = batch->cleared = 0;
    batch->bytes = batch->lsn = 0;
    batch->ends_round = false;
    batch->failed_count = batch->set_aside = 0;
    batch->failed_for_good = false;
    batch->may = batch->damaged = (struct damaged_file){0};
    batch->err.text[0] = 0;
    arena_clear(&batch->arena);
}

static enum rc entry_add(struct batch *batch, struct tile_type *type, struct tilekey key,
                         const struct tile_mark *mark, struct bytes row, struct err *err)
{
    struct persist_entry entry = {.type = type, .version = mark->version};
    entry.change.key = key;
    entry.change.removed = mark->op == TILE_MARK_DEL;
    if (!entry.change.removed) {
        uint8_t *copy = arena_try_alloc(&batch->arena, row.len);
        if (!copy)
            return err_set(err, RC_NOMEM, "could not allocate memory for a tile to persist");
        if (row.len > 0)
            memcpy(copy, row.ptr, row.len);
        row.ptr = copy;
        enum rc rc = RC_OK;
        if (type->kind != TILE_META) {
            rc = tile_value_decode(row, &entry.change.value, err);
        } else if (row.len > 0) {
            entry.change.status = row.ptr[0];
            entry.change.value.data = bytes_from(row, 1);
        }
        if (rc != RC_OK || row.len == 0)
            return err_set(err, RC_CORRUPT, "a stored tile is damaged");
    }
    if (batch->count == batch->cap) {
        batch->cap = batch->cap ? 2 * batch->cap : 256;
        batch->entry = mem_realloc(batch->entry, batch->cap * sizeof *batch->entry);
    }
    batch->entry[batch->count++] = entry;
    batch->bytes += row.len;
    if (mark->version > batch->lsn)
        batch->lsn = mark->version;
    return RC_OK;
}

/* What a mark is about. RC_CORRUPT: (7). */
static enum rc mark_read(struct tile_type *type, struct bytes suffix, struct bytes value,
                         struct tilekey *ret_key, struct tile_mark *ret_mark, struct bytes *ret_row,
                         struct err *err)
{
    if (!tilekey_get(suffix, type->kind == TILE_TM, ret_key))
        return err_set(err, RC_CORRUPT, "the key of a mark is damaged");
    enum rc rc = tile__mark_decode(value, ret_mark, err);
    if (rc == RC_OK && ret_mark->op == TILE_MARK_SET)
        rc = store_get(type->tiles->store, tile__rows(type), suffix, ret_row, err);
    return rc == RC_NOT_FOUND ? err_set(err, RC_CORRUPT, "it is marked, but it is not there") : rc;
}

static void damage_note(struct persist *persist, const struct tile_type *type, struct bytes suffix,
                        const struct err *why)
{
    char text[TILEKEY_TEXT_BYTES] = "with a damaged key";
    struct tilekey key;
    if (tilekey_get(suffix, type->kind == TILE_TM, &key))
        text[tile_key_print(type, key, text)] = 0;
    if (persist->round_damaged++ == 0)
        (void)err_set(&persist->damage, RC_CORRUPT,
                      "the tile %s of type %s is damaged and not persisted, set it again: %s", text,
                      type->name, why->text);
}

static enum rc after_set(struct persist *persist, struct bytes suffix, struct err *err)
{
    buf_cut(&persist->after, 0);
    persist->has_after = true;
    return buf_add_bytes(&persist->after, suffix)
               ? RC_OK
               : err_set(err, RC_NOMEM, "could not allocate memory to persist tiles");
}

/* Marks of one type, from where the round stands, a step of them. All that is cold is asked for at
 * once. RC_NOT_FOUND: that was the last. */
static enum rc marks_read(struct persist *persist, struct batch *batch, struct tile_type *type,
                          struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct store *store = persist->tiles->store;
    struct bytes suffix, value, row = {0};
    bool cold = false;
    size_t bytes = 0;
    enum rc rc = RC_OK;
    store_walk_init(&walk, store, tile__marks(type), false);
    if (persist->has_after)
        rc = store_walk_seek(&walk, buf_bytes(&persist->after), err);
    for (size_t n = 0; rc == RC_OK && n < STEP_ENTRIES && bytes < STEP_BYTES; n++) {
        struct tile_mark mark = {0};
        struct tilekey key = {0};
        rc = store_walk_next(&walk, &suffix, &value, err);
        if (rc != RC_OK)
            break;
        if (persist->has_after && bytes_eq(suffix, buf_bytes(&persist->after)))
            continue;
        rc = mark_read(type, suffix, value, &key, &mark, &row, err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_OK && !cold)
            rc = entry_add(batch, type, key, &mark, row, err);
        bytes += mark.bytes; /* also of what is cold: it has to fit into memory at once */
        if (rc == RC_CORRUPT && !cold)
            damage_note(persist, type, suffix, err);
        rc = rc == RC_COLD || rc == RC_CORRUPT ? RC_OK : rc;
        if (rc == RC_OK && !cold)
            rc = after_set(persist, suffix, err);
    }
    return cold && (rc == RC_OK || rc == RC_NOT_FOUND) ? RC_COLD : rc;
}

/* From now on it cannot be said any more that nothing was persisted. */
static enum rc complete_note(struct batch *batch, struct tile_type *type, struct store *store,
                             struct err *err)
{
    if (type->stored_complete == type->complete)
        return RC_OK;
    enum rc rc = tile__binding_put(type, type->complete, err);
    if (rc == RC_OK)
        batch->lsn = store_lsn(store);
    return rc;
}

static enum rc batch_fill(struct persist *persist, struct batch *batch, struct err *err)
{
    struct tiles *tiles = persist->tiles;
    while (persist->type < tiles->type_count && !tiles->type[persist->type].shards)
        persist->type++;
    if (persist->type == tiles->type_count) {
        persist->in_round = false;
        batch->ends_round = true;
        batch->state = BATCH_FULL;
        return RC_OK;
    }
    struct tile_type *type = &tiles->type[persist->type];
    batch->state = BATCH_FILLING;
    enum rc rc = marks_read(persist, batch, type, err);
    bool has = batch->count > 0 && batch->entry[batch->count - 1].type == type;
    if (has && (rc == RC_OK || rc == RC_NOT_FOUND)) {
        enum rc noted = complete_note(batch, type, tiles->store, err);
        rc = noted != RC_OK ? noted : rc;
    }
    if (rc == RC_NOT_FOUND) {
        persist->type++;
        persist->has_after = false;
        return RC_OK;
    }
    if (batch->count >= BATCH_ENTRIES_MAX || batch->bytes >= BATCH_BYTES_MAX)
        batch->state = BATCH_FULL;
    return rc;
}

/* ---- writing: on the writer's thread ---- */

struct file_part { /* entries of one file, which stand together once they are sorted */
    const struct shard_change **change;
    struct persist_entry **entry;
    size_t count;
};

static enum rc file_apply(struct pool *pool, const struct pool_key *key,
                          const struct file_part *part, struct err *err)
{
    struct pool_use use;
    enum rc rc = pool_take(pool, key, SHARD_WRITE, &use, err);
    if (rc != RC_OK)
        return rc;
    rc = use.shard->ops->apply(use.shard, part->change, part->count, err);
    if (rc == RC_OK)
        rc = pool_confirm(pool, key, &use, err);
    pool_give(pool, &use);
    return rc;
}

static bool damaged_is(const struct damaged_file *file, const struct tile_type *type,
                       struct tile_place place)
{
    return file->type == type && file->place.folder == place.folder &&
           file->place.prefix4 == place.prefix4;
}

/* A file that is damaged for sure is set aside, and a new one begun. */
static enum rc file_apply_surely(struct batch *batch, struct pool *pool, const struct pool_key *key,
                                 const struct file_part *part, struct err *err)
{
    struct err proof = {0};
    struct tile_type *type = part->entry[0]->type;
    enum rc rc = file_apply(pool, key, part, err);
    if (rc != RC_CORRUPT)
        return rc;
    pool_damage_note(pool, key, err);
    if (tile__keeps_rows(type) && !damaged_is(&batch->may, type, key->place)) { /* (8) */
        if (pool_prove(pool, key, &proof) == RC_OK)
            batch->damaged = (struct damaged_file){type, key->place};
        return rc;
    }
    enum rc proven = pool_set_aside(pool, key, batch->set_aside_path, &proof);
    if (proven == RC_NOT_FOUND)
        return rc;
    if (proven != RC_OK) {
        *err = proof;
        return proven;
    }
    batch->set_aside++;
    return file_apply(pool, key, part, err);
}

/* (3): one kind that fails is enough. */
static void part_apply(struct batch *batch, struct pool *pool, const struct file_part *part)
{
    const struct tile_type *type = part->entry[0]->type;
    static const struct {
        enum tile_shards bit;
        const struct shard_ops *ops;
    } kinds[] = {{TILE_SHARDS_SQLITE, &shard_sqlite_ops}, {TILE_SHARDS_KV, &shard_lmdb_ops}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err err = {0};
        if (!(type->shards & kinds[i].bit))
            continue;
        struct pool_key key = {kinds[i].ops, type->number,
                               tilekey_place(part->entry[0]->change.key.packed)};
        if (file_apply_surely(batch, pool, &key, part, &err) == RC_OK)
            continue;
        if (batch->failed_count == 0)
            batch->err = err;
        batch->failed_count += part->count;
        batch->failed_for_good = batch->failed_for_good || err.rc != RC_BUSY;
        for (size_t e = 0; e < part->count; e++)
            part->entry[e]->failed = true;
        return;
    }
}

static int entry_order(const void *a, const void *b)
{
    const struct persist_entry *x = *(struct persist_entry *const *)a,
                               *y = *(struct persist_entry *const *)b;
    struct tile_place px = tilekey_place(x->change.key.packed);
    struct tile_place py = tilekey_place(y->change.key.packed);
    if (x->type != y->type)
        return x->type->number < y->type->number ? -1 : 1;
    if (px.folder != py.folder)
        return px.folder < py.folder ? -1 : 1;
    if (px.prefix4 != py.prefix4)
        return px.prefix4 < py.prefix4 ? -1 : 1;
    return tilekey_cmp(x->change.key, y->change.key);
}

static bool same_file(const struct persist_entry *a, const struct persist_entry *b)
{
    struct tile_place pa = tilekey_place(a->change.key.packed);
    struct tile_place pb = tilekey_place(b->change.key.packed);
    return a->type == b->type && pa.folder == pb.folder && pa.prefix4 == pb.prefix4;
}

static void batch_run(struct tile_work *work, struct pool *pool)
{
    struct batch *batch = (struct batch *)work;
    uint64_t start_ns = clock_mono_ns(batch->persist->tiles->options.clock);
    struct persist_entry **order = mem_alloc(batch->count * sizeof *order + 1);
    const struct shard_change **change = mem_alloc(batch->count * sizeof *change + 1);
    for (size_t i = 0; i < batch->count; i++)
        order[i] = &batch->entry[i];
    qsort(order, batch->count, sizeof *order, entry_order);
    for (size_t i = 0, end; i < batch->count; i = end) {
        for (end = i; end < batch->count && same_file(order[i], order[end]); end++)
            change[end] = &order[end]->change;
        struct file_part part = {change + i, order + i, end - i};
        part_apply(batch, pool, &part);
    }
    mem_free(order);
    mem_free((void *)change);
    batch->write_ns = clock_mono_ns(batch->persist->tiles->options.clock) - start_ns;
}

static void batch_done(struct tile_work *work)
{
    struct batch *batch = (struct batch *)work;
    batch->state = BATCH_WRITTEN;
}

/* ---- clearing ---- */

/* (3) */
static enum rc entry_clear(struct persist *persist, const struct persist_entry *entry,
                           struct err *err)
{
    struct store *store = persist->tiles->store;
    struct tile_suffix suffix = tile__suffix(entry->type, entry->change.key);
    struct store_group marks = tile__marks(entry->type);
    struct tile_mark mark;
    struct bytes value;
    if (entry->failed) /* (5) */
        return RC_OK;
    enum rc rc = store_get(store, marks, tile__suffix_bytes(&suffix), &value, err);
    if (rc == RC_OK)
        rc = tile__mark_decode(value, &mark, err);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && mark.version != entry->version))
        return RC_OK;                                                     /* it is newer */
    cache_forget(&persist->tiles->cache, entry->type, entry->change.key); /* what a mark hid */
    if (rc == RC_OK)
        rc = store_delete(store, marks, tile__suffix_bytes(&suffix), err);
    if (rc == RC_OK && !tile__keeps_rows(entry->type) && !entry->change.removed)
        rc = store_delete(store, tile__rows(entry->type), tile__suffix_bytes(&suffix), err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Who asked for it is told of the trouble. */
static void round_give_up(struct persist *persist)
{
    persist->ask_lsn = persist->synced_lsn;
    persist->failed_rounds++;
}

/* (7): nothing is tried again for those alone. */
static void round_damaged(struct persist *persist)
{
    if (!persist->has_trouble)
        log_error("tile: %s; %llu are like that", persist->damage.text,
                  (unsigned long long)persist->round_damaged);
    persist->trouble = persist->damage;
    persist->has_trouble = true;
    persist->retry_ms = persist->retry_ns = 0;
    round_give_up(persist);
}

/* Another program has a shard for a moment, or a checkpoint of ours is slow on a busy machine: who
 * asked waits on. A program that keeps its lock is told. */
static bool round_was_busy(struct persist *persist)
{
    bool busy = persist->round_failed && !persist->round_failed_for_good && !persist->draining;
    persist->busy_rounds = busy ? persist->busy_rounds + 1 : 0;
    if (persist->busy_rounds >= BUSY_ROUNDS_MAX)
        persist->busy_rounds = 0;
    return persist->busy_rounds > 0;
}

static void round_over(struct persist *persist)
{
    if (persist->marking.type) { /* nobody is told before the rows of the file were marked */
        persist->again = true;
        return;
    }
    if (round_was_busy(persist)) {
        persist->retry_ns = clock_mono_ns(persist->tiles->options.clock) + RETRY_MS_MIN * NS_A_MS;
        persist->marks++;
        return;
    }
    if (persist->round_failed) {
        persist->retry_ms = persist->retry_ms ? 2 * persist->retry_ms : RETRY_MS_MIN;
        if (persist->retry_ms > RETRY_MS_MAX)
            persist->retry_ms = RETRY_MS_MAX;
        persist->retry_ns =
            clock_mono_ns(persist->tiles->options.clock) + persist->retry_ms * NS_A_MS;
        persist->marks++; /* there is something left */
        round_give_up(persist);
    } else if (persist->round_damaged > 0) {
        round_damaged(persist);
    } else {
        if (persist->has_trouble)
            log_info("tile: everything is persisted again");
        persist->synced_lsn = persist->round_lsn;
        persist->has_trouble = false;
        persist->retry_ms = persist->retry_ns = 0;
    }
    persist->stats.damaged = persist->round_damaged;
    waiters_wake(persist);
}

static void batch_over(struct persist *persist, struct batch *batch)
{
    struct persist_stats *stats = &persist->stats;
    for (size_t i = 0; i < batch->count; i++) {
        const struct persist_entry *entry = &batch->entry[i];
        entry->type->stored_complete = entry->type->complete;
        stats->persisted += !entry->failed && !entry->change.removed;
        stats->removed += !entry->failed && entry->change.removed;
    }
    if (batch->damaged.type && !persist->marking.type) {
        persist->marking = batch->damaged;
        persist->has_marked_key = false;
    }
    if (batch->may.type)
        persist->may = (struct damaged_file){0};
    stats->batches += batch->count > 0;
    stats->failures += batch->failed_count > 0;
    stats->set_aside += batch->set_aside;
    stats->write_ns += batch->write_ns;
    if (batch->set_aside > 0)
        log_error("tile: a damaged shard was set aside as \"%s\", and a new one begun",
                  batch->set_aside_path);
    if (batch->failed_count > 0) {
        if (!persist->has_trouble)
            log_warn("tile: could not persist %zu tiles, trying again until it works: %s",
                     batch->failed_count, batch->err.text);
        persist->round_failed = true;
        persist->round_failed_for_good = persist->round_failed_for_good || batch->failed_for_good;
        persist->trouble = batch->err;
        persist->has_trouble = true;
    }
    if (batch->ends_round)
        round_over(persist);
    batch_reset(batch);
}

static enum rc batch_clear(struct persist *persist, struct batch *batch, struct err *err)
{
    size_t end = batch->cleared + STEP_ENTRIES;
    bool cold = false;
    if (end > batch->count)
        end = batch->count;
    for (size_t i = batch->cleared; i < end; i++) {
        enum rc rc = entry_clear(persist, &batch->entry[i], err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    if (cold)
        return RC_COLD;
    batch->cleared = end;
    if (end == batch->count)
        batch_over(persist, batch);
    return RC_OK;
}

/* ---- marking the rows of a damaged file again: (8) ---- */

/* Of a row that has none. */
static enum rc mark_again(struct persist *persist, struct bytes suffix, struct bytes row,
                          struct err *err)
{
    struct tile_type *type = persist->marking.type;
    struct store *store = persist->tiles->store;
    struct tile_value value = {.data = row.len > 0 ? bytes_from(row, 1) : row};
    struct tile_mark mark = {.op = TILE_MARK_SET, .version = store_lsn(store)};
    uint8_t bytes[TILE_MARK_BYTES_MAX];
    struct bytes found;
    enum rc rc = store_get(store, tile__marks(type), suffix, &found, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    if (type->kind != TILE_META && tile_value_decode(row, &value, err) != RC_OK)
        value.data = row; /* (7) */
    mark.bytes = value.data.len;
    persist->marked_lsn = mark.version;
    return store_put(store, tile__marks(type), suffix,
                     bytes_of(bytes, tile__mark_put(&mark, bytes)), err);
}

/* A step of them. */
static enum rc damaged_mark(struct persist *persist, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct tile_type *type = persist->marking.type;
    bool tm = type->kind == TILE_TM;
    struct tilekey key = {0}, done = persist->marked_key;
    struct bytes suffix, row;
    bool over = false;
    if (persist->has_marked_key)
        key = done;
    else if (persist->marking.place.folder != 0)
        key.packed = (uint64_t)persist->marking.place.prefix4 << 56;
    struct tile_suffix from = tile__suffix(type, key);
    store_walk_init(&walk, persist->tiles->store, tile__rows(type), false);
    enum rc rc = store_walk_seek(&walk, tile__suffix_bytes(&from), err);
    for (size_t n = 0; rc == RC_OK && !over && n < STEP_ENTRIES; n++) {
        rc = store_walk_next(&walk, &suffix, &row, err);
        over = rc == RC_NOT_FOUND;
        if (rc != RC_OK || !tilekey_get(suffix, tm, &key))
            continue;
        over = persist->marking.place.folder != 0 &&
               tilekey_prefix4(key.packed) > persist->marking.place.prefix4;
        struct tile_place place = tilekey_place(key.packed);
        if (!over && damaged_is(&persist->marking, type, place))
            rc = mark_again(persist, suffix, row, err);
        done = key;
    }
    if (rc != RC_OK && !over)
        return rc;
    persist->has_marked_key = true;
    persist->marked_key = done;
    if (over) {
        persist->may = persist->marking;
        persist->marking.type = NULL;
    }
    return RC_OK;
}

/* ---- the job ---- */

static struct batch *batch_in(struct persist *persist, enum batch_state state)
{
    struct batch *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++) {
        struct batch *batch = &persist->batch[i];
        if (batch->state == state && (!found || batch->seq < found->seq))
            found = batch;
    }
    return found;
}

/* The next batch that the writer may have. */
static struct batch *batch_ready(struct persist *persist)
{
    struct batch *batch = batch_in(persist, BATCH_FULL);
    const struct batch *written = batch_in(persist, BATCH_WRITTEN);
    if (!batch || batch_in(persist, BATCH_WRITING) ||
        batch->lsn > store_durable_lsn(persist->tiles->store)) /* (2), (4) */
        return NULL;
    if (persist->marking.type && !persist->in_round)
        return NULL;                                                               /* (8) */
    return written && (written->may.type || written->damaged.type) ? NULL : batch; /* (8) */
}

static void batch_give(struct persist *persist, struct batch *batch)
{
    uint64_t durable_lsn = store_durable_lsn(persist->tiles->store);
    batch->state = BATCH_WRITING;
    batch->may = persist->marked_lsn <= durable_lsn ? persist->may : (struct damaged_file){0};
    workers_give(persist->tiles->workers, TILE_WRITER, &batch->work);
}

/* What can be done now; first of all that the writer has something to do. RC_NOT_FOUND: nothing. */
static enum rc persist_step(struct persist *persist, struct err *err)
{
    struct batch *batch = batch_ready(persist);
    if (batch)
        batch_give(persist, batch);
    batch = batch_in(persist, BATCH_WRITTEN);
    if (batch)
        return batch_clear(persist, batch, err);
    if (persist->marking.type && !persist->in_round)
        return damaged_mark(persist, err);
    batch = batch_in(persist, BATCH_FILLING);
    if (!batch && persist->in_round && (batch = batch_in(persist, BATCH_EMPTY)))
        batch->seq = ++persist->seq;
    if (batch)
        return batch_fill(persist, batch, err);
    return RC_NOT_FOUND;
}

static bool may_begin(const struct persist *persist)
{
    if (persist->marking.type || persist->again)
        return is_idle(persist) && !persist->marking.type &&
               persist->marked_lsn <= store_durable_lsn(persist->tiles->store);
    return is_idle(persist) && is_due(persist) &&
           (persist->retry_ns == 0 ||
            clock_mono_ns(persist->tiles->options.clock) >= persist->retry_ns);
}

/* (6): between turns the last commit that was not taken back is at or behind all that was read. */
static void taken_back_look(struct persist *persist)
{
    uint64_t lsn = store_commit_lsn(persist->tiles->store);
    bool any = false;
    if (UNLIKELY(persist->marked_lsn > lsn)) { /* (8): the file is found damaged once more */
        persist->marking = persist->may = (struct damaged_file){0};
        persist->marked_lsn = 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++)
        any = any || persist->batch[i].lsn > lsn;
    if (LIKELY(!any))
        return;
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++)
        if (persist->batch[i].state == BATCH_FILLING || persist->batch[i].state == BATCH_FULL)
            batch_reset(&persist->batch[i]);
    persist->in_round = false;
    persist->marks++; /* the round begins anew */
}

/* Its task waits for events only; this is where time passes and LSNs become durable. */
bool persist_turn(struct persist *persist)
{
    taken_back_look(persist);
    const struct batch *full = batch_in(persist, BATCH_FULL);
    bool writing = batch_in(persist, BATCH_WRITING) != NULL;
    bool go = batch_in(persist, BATCH_WRITTEN) || may_begin(persist) ||
              (persist->marking.type && !persist->in_round && !writing);
    if (persist->again && persist->marked_lsn > store_durable_lsn(persist->tiles->store))
        store_sync_ask(persist->tiles->store);
    if (full && !writing && full->lsn <= store_durable_lsn(persist->tiles->store))
        go = true;
    else if (full && !writing)
        store_sync_ask(persist->tiles->store);
    if (go)
        task_wake(&persist->task);
    return go;
}

/* While clients set tiles they have seven eighths of the executor, and with it of the disk: what a
 * round does can wait, but not for ever. Whoever waits for the round waits for nothing else. */
static void persist_rest(struct persist *persist, uint64_t begin_ns)
{
    uint64_t now_ns = clock_mono_ns(persist->tiles->options.clock);
    bool sets = persist->marks != persist->marks_seen;
    persist->marks_seen = persist->marks;
    if (sets && persist->ask_lsn <= persist->synced_lsn && !persist->draining)
        task_wait_until(&persist->task, now_ns + REST_TIMES * (now_ns - begin_ns));
}

static enum rc persist_run(struct task *task, struct store *store, struct err *err)
{
    struct persist *persist = (struct persist *)task;
    uint64_t begin_ns = clock_mono_ns(persist->tiles->options.clock);
    (void)store;
    if (may_begin(persist))
        round_begin(persist);
    enum rc rc = persist_step(persist, err);
    if (rc == RC_OK) {
        persist_rest(persist, begin_ns);
        return RC_WAIT; /* and more in a later turn */
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    task_wait_event(task); /* persist_turn() */
    return RC_WAIT;
}

/* It never ends well: a row could not be read, or a change not be made. It begins anew. */
static void persist_ended(struct task *task, enum rc rc, const struct err *err)
{
    struct persist *persist = (struct persist *)task;
    (void)rc;
    if (!persist->has_trouble)
        log_warn("tile: could not persist, trying again: %s", err->text);
    persist->trouble = *err;
    persist->has_trouble = persist->round_failed = true;
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++)
        if (persist->batch[i].state != BATCH_WRITING)
            batch_reset(&persist->batch[i]);
    persist->in_round = persist->again = false;
    persist->marking = persist->may = (struct damaged_file){0};
    persist->retry_ns = clock_mono_ns(persist->tiles->options.clock) + RETRY_MS_MAX * NS_A_MS;
    persist->marks++;
    round_give_up(persist);
    waiters_wake(persist);
    task_start(persist->tiles->options.tasks, task);
}

enum rc persist_new(struct tiles *tiles, struct persist **ret_persist, struct err *err)
{
    (void)err;
    struct persist *persist = mem_zalloc(sizeof *persist);
    persist->tiles = tiles;
    buf_init(&persist->after, AFTER_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++) {
        struct batch *batch = &persist->batch[i];
        batch->persist = persist;
        batch->work = (struct tile_work){.run = batch_run, .done = batch_done};
        arena_init(&batch->arena);
    }
    persist->marks = tiles->options.batch_count; /* what an earlier run has left */
    persist->task.run = persist_run;
    persist->task.done = persist_ended;
    persist->task.flags = TASK_JOB | TASK_WRITES | TASK_DELETES;
    task_start(tiles->options.tasks, &persist->task);
    *ret_persist = persist;
    return RC_OK;
}

void persist_free(struct persist *persist)
{
    if (!persist)
        return;
    task_cancel(&persist->task);
    while (persist->waiters.first)
        persist__waiter_end(DLIST_ITEM(persist->waiters.first, struct tile_waiter, round_link));
    for (size_t i = 0; i < ARRAY_LEN(persist->batch); i++) {
        arena_done(&persist->batch[i].arena);
        mem_free(persist->batch[i].entry);
    }
    buf_done(&persist->after);
    mem_free(persist);
}

// SPDX-License-Identifier: Apache-2.0
/* store_open.c - opening: the directory, the engine, the journal above the mark; and closing.
 *
 * Order of opening, each step may be the last before a crash:
 *   lock       one process a directory
 *   reserve    filled; where the disk is full, a part is given back for the steps below
 *   catalogue  read, or made for a new directory; new spaces are added before anything uses them
 *   engine     opened; its mark must be of this store
 *   recovery   segments above the mark are replayed into the hot tier by the code of a commit
 *   journal    goes on in a new segment; with a full disk it starts read-only
 *   threads    journal, flusher, loaders */
#include "store/rows/store_int.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    MIB = 1024 * 1024,
    SEGMENT_BYTES_DEFAULT = 16 * MIB,
    CACHE_BYTES_DEFAULT = 64 * MIB,
    FLUSH_AGE_MS_DEFAULT = 60 * 1000,
    L0_FILES_MAX = 6, /* a seek reads each: at 8 it cost up to six times an idle one */
    WRITER_BYTES_FIRST = 64 * 1024,
    SEGMENT_RESERVE_PART = 4,
};
#define HOT_BYTES_DEFAULT ((size_t)1024 * MIB)
#define DEBT_BYTES_MAX (UINT64_C(4096) * MIB)

/* ---- options ---- */

static size_t clamp(size_t value, size_t low, size_t high)
{
    return value < low ? low : value > high ? high : value;
}

static char *path_new(const char *dir, const char *name)
{
    size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

static void options_resolve(struct store *store, const struct store_options *options)
{
    struct store_options *own = &store->options;
    *own = *options;
    if (!own->engine)
        own->engine = &engine_rocksdb_ops;
    if (!own->hot_memory_bytes)
        own->hot_memory_bytes = HOT_BYTES_DEFAULT;
    if (own->disk_reserve_bytes == UINT64_MAX)
        own->disk_reserve_bytes = HOT_BYTES_DEFAULT;
    if (!own->flush_unit_bytes)
        own->flush_unit_bytes =
            clamp(own->hot_memory_bytes / 4, 64 * (size_t)MIB, 512 * (size_t)MIB);
    if (!own->segment_bytes)
        own->segment_bytes = clamp(own->flush_unit_bytes / 4, MIB, SEGMENT_BYTES_DEFAULT);
    if (!own->flush_age_ms)
        own->flush_age_ms = FLUSH_AGE_MS_DEFAULT;
    if (!own->cache_bytes)
        own->cache_bytes = CACHE_BYTES_DEFAULT;
    if (!own->loader_count)
        own->loader_count = 1;
    store->files = own->files ? own->files : (struct files *)(uintptr_t)&files_real;
    clock_init(&store->own_clock);
    store->clock = own->clock ? own->clock : &store->own_clock;
    if (own->seed)
        rand_init_seed(&store->rand, own->seed);
    else
        rand_init_os(&store->rand);
    store->dir = mem_dup(options->dir, strlen(options->dir) + 1);
    own->dir = store->dir;
    store->journal_dir = path_new(store->dir, "journal");
    store->engine_dir = path_new(store->dir, "engine");
    store->scratch_dir = path_new(store->dir, "flush");
}

/* ---- directory and catalogue ---- */

static enum rc dir_lock(struct store *store, struct err *err)
{
    enum rc rc = files_make_dir(store->files, store->dir, err);
    if (rc != RC_OK)
        return rc;
    char *path = path_new(store->dir, "LOCK");
    rc = file_open(store->files, path, FILE_READ | FILE_WRITE | FILE_CREATE, &store->lock, err);
    mem_free(path);
    if (rc == RC_OK)
        rc = file_lock(store->lock, err);
    if (rc == RC_BUSY)
        return err_set(err, RC_BUSY, "directory \"%s\" is in use by another process", store->dir);
    return rc;
}

/* What follows writes a catalogue, the engine's manifest and log, a segment. Of a segment the
 * reserve holds a few: a unit of one has to find room in it. */
static void start_room(struct store *store)
{
    uint64_t free_bytes = 0;
    store->reserve = reserve_open(&(struct reserve_options){
        .files = store->files, .dir = store->dir, .bytes = store->options.full_reserve_bytes});
    size_t part = (size_t)(reserve_size(store->reserve) / SEGMENT_RESERVE_PART);
    if (part > 0 && store->options.segment_bytes > part)
        store->options.segment_bytes = part > MIB ? part : MIB;
    if (files_free_bytes(store->files, store->dir, &free_bytes, NULL) != RC_OK ||
        free_bytes >= RESERVE_START_BYTES)
        return;
    enum rc rc = flush_scratch_empty(store->files, store->scratch_dir, NULL);
    if (rc == RC_OK && files_free_bytes(store->files, store->dir, &free_bytes, NULL) != RC_OK)
        return;
    if (free_bytes < RESERVE_START_BYTES)
        store->start_bytes = reserve_take(store->reserve, RESERVE_START_BYTES - free_bytes, 0);
}

static enum rc name_forbid(const char *name, void *arg, struct err *err)
{
    uint64_t number;
    const char *dir = arg;
    if (segment_name_parse(name, &number) == RC_OK)
        return err_set(
            err, RC_CORRUPT,
            "\"%s\" holds journal segments but \"TERRACE\" is missing beside it; put the "
            "file back from a backup",
            dir);
    return RC_OK;
}

/* A new directory must not vanish at a power cut: its name is synced before its catalogue is
 * written, so that a directory with a catalogue is known to stay. */
static enum rc dir_entry_sync(struct store *store, struct err *err)
{
    char *parent = path_new(store->dir, "..");
    size_t len = strlen(store->dir);
    while (len > 1 && parent[len - 1] == '/')
        len--;
    while (len > 0 && parent[len - 1] != '/')
        len--;
    if (len > 0)
        parent[len > 1 ? len - 1 : len] = '\0';
    enum rc rc = files_sync_dir(store->files, len > 0 ? parent : ".", err);
    mem_free(parent);
    return rc;
}

/* A directory without a catalogue must not hold a journal: it would be taken for a new store. */
static enum rc catalog_create(struct store *store, struct err *err)
{
    enum rc rc = files_list(store->files, store->journal_dir, name_forbid, store->journal_dir, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    rc = dir_entry_sync(store, err);
    if (rc != RC_OK)
        return rc;
    catalog_init(&store->catalog, &store->rand);
    return RC_OK;
}

static enum rc spaces_agree(struct store *store, bool *ret_added, struct err *err)
{
    for (size_t i = 0; i < store->options.space_count; i++) {
        const struct store_space *mine = &store->options.spaces[i];
        const struct store_space *theirs = &store->catalog.spaces.space[mine->number];
        if (theirs->kind == SPACE_NONE)
            *ret_added = true;
        else if (theirs->kind != mine->kind || theirs->fixed_bytes != mine->fixed_bytes)
            return err_set(err, RC_VERSION,
                           "\"%s\" has space %u as \"%s\", declared differently by this program",
                           store->dir, mine->number, theirs->name);
        if (theirs->kind != SPACE_NONE) { /* the functions are not in the file */
            store->catalog.spaces.space[mine->number] = *mine;
            continue;
        }
        enum rc rc = space_set_add(&store->catalog.spaces, mine, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc catalog_open(struct store *store, struct err *err)
{
    bool added = false;
    enum rc rc = catalog_read(&store->catalog, store->files, store->dir, err);
    if (rc == RC_NOT_FOUND) {
        added = true;
        rc = catalog_create(store, err);
    }
    if (rc == RC_OK)
        rc = spaces_agree(store, &added, err);
    if (rc == RC_OK && added)
        rc = catalog_write(&store->catalog, store->files, store->dir, err);
    return rc;
}

/* ---- prefixes ---- */

static enum rc range_is_empty(struct store *store, struct bytes lower, struct bytes upper,
                              bool *ret_empty, struct err *err)
{
    const struct engine_ops *ops = store->engine->ops;
    struct engine_range range = {.lower = lower, .upper = upper};
    struct engine_iter *iter;
    struct bytes key, value;
    enum rc rc = ops->iter_open(store->engine, NULL, &range, &iter, err);
    if (rc != RC_OK)
        return rc;
    rc = ops->iter_next(iter, &key, &value, err);
    ops->iter_close(iter);
    *ret_empty = rc == RC_NOT_FOUND;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* A prefix without rows in the engine is complete: what is not in memory does not exist. */
static enum rc prefix_complete(struct store *store, uint32_t prefix, struct err *err)
{
    const struct hot_prefix *what = &store->hot.prefix[prefix];
    CLEANUP(buf_done) struct buf lower;
    CLEANUP(buf_done) struct buf upper;
    buf_init(&lower, SIZE_MAX);
    buf_init(&upper, SIZE_MAX);
    bool ok = buf_add(&lower, &what->space, 1);
    /* With a length byte in front, the rows of a prefix are not one range: ask for the space. */
    if (store->catalog.spaces.space[what->space].kind != SPACE_LENGTH)
        ok = ok && buf_add_bytes(&lower, what->bytes);
    if (!ok)
        return err_set(err, RC_NOMEM, "could not allocate memory for a prefix");
    if (!space_successor_add(buf_bytes(&lower), &upper))
        upper.len = 0;
    bool empty = false;
    enum rc rc = range_is_empty(store, buf_bytes(&lower), buf_bytes(&upper), &empty, err);
    if (rc == RC_OK)
        store->hot.slot[what->slot].complete = empty;
    return rc;
}

static enum rc prefixes_open(struct store *store, struct err *err)
{
    for (size_t i = 0; i < store->catalog.prefix_count; i++) {
        uint32_t handle;
        enum rc rc = hot_prefix_add(&store->hot, store->catalog.prefix[i].space,
                                    store->catalog.prefix[i].bytes, &handle, err);
        if (rc == RC_OK)
            rc = prefix_complete(store, handle, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc store_prefix(struct store *store, uint8_t space, struct bytes prefix, uint32_t *ret_prefix,
                     struct err *err)
{
    ASSERT(!store->open);
    size_t before = store->hot.prefix_count;
    if (store->catalog.spaces.space[space].kind == SPACE_FIXED &&
        prefix.len > store->catalog.spaces.space[space].fixed_bytes)
        return err_set(err, RC_INVALID, "a prefix of %zu bytes is longer than the group keys",
                       prefix.len);
    enum rc rc = hot_prefix_add(&store->hot, space, prefix, ret_prefix, err);
    if (rc != RC_OK || store->hot.prefix_count == before)
        return rc;
    rc = prefix_complete(store, *ret_prefix, err);
    if (rc == RC_OK) {
        catalog_prefix_add(&store->catalog, space, prefix);
        rc = catalog_write(&store->catalog, store->files, store->dir, err);
        if (rc != RC_OK)
            catalog_prefix_drop_last(&store->catalog);
    }
    if (rc != RC_OK)
        hot_prefix_drop_last(&store->hot);
    return rc;
}

/* ---- recovery ---- */

struct replay {
    struct store *store;
    struct journal_sealed *sealed;
    size_t sealed_count;
    uint32_t last_prefix;
    uint64_t last_lsn;
};

static enum rc replay_prefix(struct replay *replay, const struct record *record,
                             struct bytes *ret_key, struct err *err)
{
    const struct hot *hot = &replay->store->hot;
    const struct hot_prefix *last =
        replay->last_prefix < hot->prefix_count ? &hot->prefix[replay->last_prefix] : NULL;
    if (!last || last->space != record->space || !bytes_start_with(record->group, last->bytes)) {
        if (hot_prefix_match(hot, record->space, record->group, &replay->last_prefix) != RC_OK)
            return err_set(
                err, RC_CORRUPT,
                "the journal has a row of space %u under a prefix that the catalogue does "
                "not know",
                record->space);
        last = &hot->prefix[replay->last_prefix];
    }
    *ret_key = bytes_from(record->group, last->bytes.len);
    return RC_OK;
}

/* A change of a row, or of all rows of a group: a checksum does not say that it makes sense. */
static enum rc replay_row(struct replay *replay, const struct record *record, struct err *err)
{
    struct store *store = replay->store;
    const struct store_space *space = &store->catalog.spaces.space[record->space];
    struct bytes key = {0};
    enum rc rc =
        space_check(&store->catalog.spaces, record->space, record->group, record->suffix, err);
    if (rc == RC_OK)
        rc = replay_prefix(replay, record, &key, err);
    if (rc == RC_OK && key.len > STORE_GROUP_KEY_BYTES_MAX)
        rc = err_set(err, RC_TOO_BIG, "a key of %zu bytes is over the limit", key.len);
    if (rc != RC_OK)
        return err_set(err, RC_CORRUPT, "the journal holds a row that does not fit its space: %s",
                       err->text);
    bool tomb = record->kind != RECORD_PUT;
    if (space->kind == SPACE_WHOLE)
        return store__row_put(store, replay->last_prefix, key, record->value, tomb, err);
    if (record->kind == RECORD_DROP_GROUP) {
        store__group_drop(store, replay->last_prefix, key);
        return RC_OK;
    }
    if (tomb) {
        rc = store__tree_delete(store, replay->last_prefix, key, record->suffix, 0, NULL, err);
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    return store__tree_put(store, replay->last_prefix, key, record->suffix, 0, record->value, NULL,
                           err);
}

static enum rc replay_counter(struct store *store, const struct record *record, struct err *err)
{
    uint32_t number;
    int64_t sum;
    enum rc rc = store_counter(store, record->group, &number, err);
    if (rc != RC_OK)
        return err_set(err, RC_CORRUPT, "the journal changes a counter: %s", err->text);
    if (__builtin_add_overflow(store->counter[number].value, record->delta, &sum))
        return err_set(err, RC_CORRUPT, "the journal makes a counter overflow");
    store__counter_add(store, number, record->delta);
    return RC_OK;
}

static enum rc replay_record(struct replay *replay, const struct record *record, struct err *err)
{
    struct store *store = replay->store;
    struct bytes key;
    enum rc rc;
    switch (record->kind) {
    case RECORD_PUT:
    case RECORD_DELETE:
    case RECORD_DROP_GROUP:
        return replay_row(replay, record, err);
    case RECORD_DROP_PREFIX:
        rc = replay_prefix(replay, record, &key, err);
        if (rc == RC_OK && key.len > 0)
            return err_set(err, RC_CORRUPT,
                           "the journal drops a prefix that the catalogue does not know");
        if (rc == RC_OK)
            store__prefix_drop(store, replay->last_prefix);
        return rc;
    case RECORD_COUNTER_ADD:
        return replay_counter(store, record, err);
    }
    return err_set(err, RC_VERSION, "unknown record kind %d", record->kind);
}

static enum rc replay_turn(const struct segment_turn *turn, uint64_t segment, void *arg,
                           struct err *err)
{
    struct replay *replay = arg;
    struct store *store = replay->store;
    struct record_reader reader;
    struct record record;
    uint64_t commit_count = 0;
    store->stamp = (uint32_t)segment;
    record_reader_init(&reader, turn->body);
    enum rc rc;
    for (; (rc = record_next_commit(&reader, err)) == RC_OK; commit_count++) {
        while ((rc = record_next(&reader, &record, err)) == RC_OK) {
            rc = replay_record(replay, &record, err);
            if (rc != RC_OK)
                return rc;
        }
        if (rc != RC_NOT_FOUND)
            return rc;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    if (commit_count != turn->commit_count)
        return err_set(err, RC_CORRUPT, "a turn of %u commits holds %llu", turn->commit_count,
                       (unsigned long long)commit_count);
    store__undo_release(store);
    if (store_busy(store)) {
        hot_sweep(&store->hot, UINT32_MAX);
        store__trees_changed(store);
    }
    store->recovered_turn_count++;
    store->recovered_bytes += turn->body.len;
    replay->last_lsn = turn->first_lsn + turn->commit_count - 1;
    return RC_OK;
}

static void replay_sealed(const struct journal_sealed *sealed, void *arg)
{
    struct replay *replay = arg;
    replay->sealed =
        mem_realloc(replay->sealed, (replay->sealed_count + 1) * sizeof *replay->sealed);
    replay->sealed[replay->sealed_count++] = *sealed;
}

static void replay_cut(const struct journal_cut *cut, void *arg)
{
    struct store *store = ((struct replay *)arg)->store;
    store->cut = mem_realloc(store->cut, (store->cut_count + 1) * sizeof *store->cut);
    store->cut[store->cut_count++] = *cut;
}

static enum rc counter_open(struct bytes name, int64_t value, void *arg, struct err *err)
{
    struct store *store = arg;
    uint32_t number;
    enum rc rc = store_counter(store, name, &number, err);
    if (rc == RC_OK)
        store->counter[number].value = value;
    return rc;
}

static bool counters_encode(void *arg, struct buf *to)
{
    const struct store *store = arg;
    for (size_t i = 0; i < store->counter_count; i++)
        if (!segment_counter_add(to, store->counter[i].name, store->counter[i].value))
            return false;
    return true;
}

/* ---- the parts ---- */

/* The engine may go back by a unit that failed: its segments are still in the journal. Any older
 * state is one of an engine that has lost tables. Of the store only what never changes is used. */
static enum rc back_fits(void *arg, struct engine *before, struct err *err)
{
    const struct store *store = arg;
    struct sys_mark mark = {0};
    enum rc rc = sys_mark_get(before, NULL, &mark, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    return journal_follows(store->files, store->journal_dir, store->catalog.uuid, mark.segment,
                           err);
}

static enum rc engine_start(struct store *store, struct sys_mark *ret_mark, struct err *err)
{
    enum rc rc = files_make_dir(store->files, store->scratch_dir, err);
    if (rc != RC_OK)
        return rc;
    struct engine_options options = {.dir = store->engine_dir,
                                     .scratch_dir = store->scratch_dir,
                                     .spaces = &store->catalog.spaces,
                                     .cache_bytes = store->options.cache_bytes,
                                     .back_fits = back_fits,
                                     .back_arg = store,
                                     .memory = store->options.engine_memory};
    rc = store->options.engine->open(&options, &store->engine, err);
    if (rc == RC_OK)
        rc = sys_mark_get(store->engine, NULL, ret_mark, err);
    if (rc == RC_CORRUPT) {
        char text[ERR_TEXT_BYTES];
        snprintf(text, sizeof text, "%s", err->text);
        return err_set(err, RC_CORRUPT,
                       "the engine is damaged: %.300s; to see all that is run: terrace repair %s",
                       text, store->dir);
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_NOT_FOUND) {
        *ret_mark = (struct sys_mark){0};
        memcpy(ret_mark->uuid, store->catalog.uuid, sizeof ret_mark->uuid);
        rc = RC_OK;
    }
    if (rc == RC_OK && memcmp(ret_mark->uuid, store->catalog.uuid, sizeof ret_mark->uuid) != 0)
        rc = err_set(err, RC_CORRUPT, "\"%s\" belongs to another store than \"%s/TERRACE\"",
                     store->engine_dir, store->dir);
    if (rc == RC_OK && ret_mark->segment >= UINT32_MAX)
        rc = err_set(err, RC_VERSION, "segment numbers are used up");
    ret_mark->incarnation = store->catalog.incarnation;
    return rc;
}

static enum rc journal_start(struct store *store, const struct sys_mark *mark, struct err *err)
{
    struct replay replay = {.store = store, .last_prefix = UINT32_MAX, .last_lsn = mark->lsn};
    struct journal_recover_options recover = {.files = store->files,
                                              .dir = store->journal_dir,
                                              .mark_segment = mark->segment,
                                              .mark_lsn = mark->lsn,
                                              .turn = replay_turn,
                                              .sealed = replay_sealed,
                                              .cut = replay_cut,
                                              .arg = &replay};
    memcpy(recover.uuid, store->catalog.uuid, sizeof recover.uuid);
    struct journal_start start;
    enum rc rc = journal_recover(&recover, &start, err);
    if (rc != RC_OK) {
        mem_free(replay.sealed);
        return rc;
    }
    store->last_lsn = start.last_lsn > mark->lsn ? start.last_lsn : mark->lsn;
    store->commit_lsn = store->written_lsn = store->last_lsn;
    uint64_t now = store_lsn_of_ms(clock_unix_ms(store->clock));
    if (now > store->last_lsn + 1)
        store->last_lsn = now - 1;

    struct journal_options options = {.files = store->files,
                                      .dir = store->journal_dir,
                                      .clock = store->clock,
                                      .rand = &store->rand,
                                      .incarnation = store->catalog.incarnation,
                                      .durability = store->options.durability,
                                      .segment_bytes = store->options.segment_bytes,
                                      .unsynced_bytes_max = JOURNAL_UNSYNCED_BYTES_MAX,
                                      .disk_reserve_bytes = store->options.disk_reserve_bytes,
                                      .reserve = store->reserve,
                                      .manual = store->options.manual,
                                      .notify = store__notify,
                                      .notify_arg = store,
                                      .counters = counters_encode,
                                      .counters_arg = store};
    memcpy(options.uuid, store->catalog.uuid, sizeof options.uuid);
    rc = journal_open(&options, &start, &store->journal, err);
    for (size_t i = 0; rc == RC_OK && i < replay.sealed_count; i++)
        journal_adopt(store->journal, &replay.sealed[i]);
    mem_free(replay.sealed);
    if (rc == RC_OK)
        store->stamp = (uint32_t)journal_segment(store->journal);
    return rc;
}

static enum rc flush_start(struct store *store, const struct sys_mark *mark, struct err *err)
{
    struct flush_options options = {.files = store->files,
                                    .scratch_dir = store->scratch_dir,
                                    .journal = store->journal,
                                    .journal_dir = store->journal_dir,
                                    .engine = store->engine,
                                    .spaces = &store->catalog.spaces,
                                    .clock = store->clock,
                                    .mark = *mark,
                                    .unit_bytes = store->options.flush_unit_bytes,
                                    .age_ms_max = store->options.flush_age_ms,
                                    .l0_file_count_max = L0_FILES_MAX,
                                    .debt_bytes_max = DEBT_BYTES_MAX,
                                    .reserve = store->reserve,
                                    .manual = store->options.manual,
                                    .notify = store__notify,
                                    .notify_arg = store};
    return flush_open(&options, &store->flush, err);
}

static enum rc buffers_init(struct store *store, struct err *err)
{
    record_writer_init(&store->writer, STORE_COMMIT_BYTES_MAX);
    buf_init(&store->keep, STORE_COMMIT_BYTES_MAX);
    buf_init(&store->value, STORE_VALUE_BYTES_MAX);
    buf_init(&store->pack, STORE_VALUE_BYTES_MAX);
    buf_init(&store->key, SIZE_MAX);
    arena_init(&store->want_arena);
    if (!buf_reserve(&store->writer.body, WRITER_BYTES_FIRST))
        return err_set(err, RC_NOMEM, "could not allocate memory for the journal's records");
    return RC_OK;
}

static enum rc store_start(struct store *store, struct err *err)
{
    struct sys_mark mark = {0};
    enum rc rc = buffers_init(store, err);
    if (rc == RC_OK)
        rc = dir_lock(store, err);
    if (rc == RC_OK)
        start_room(store);
    if (rc == RC_OK)
        rc = catalog_open(store, err);
    if (rc == RC_OK)
        rc = engine_start(store, &mark, err);
    if (rc != RC_OK)
        return rc;
    hot_init(&store->hot, &store->catalog.spaces, rand_u64(&store->rand), (uint32_t)mark.segment);
    store->hot.purge_count = store->options.purge_count;
    rc = sys_counters_walk(store->engine, NULL, counter_open, store, err);
    if (rc == RC_OK)
        rc = prefixes_open(store, err);
    if (rc == RC_OK)
        rc = journal_start(store, &mark, err);
    if (rc == RC_OK)
        rc = flush_start(store, &mark, err);
    if (rc == RC_OK)
        rc = loads_init(&store->loads, &store->hot, store->engine, &store->catalog.spaces,
                        store->options.manual ? 0 : store->options.loader_count, store__notify,
                        store, err);
    if (rc == RC_OK && store->start_bytes > 0)
        reserve_untake(store->reserve, store->start_bytes);
    return rc;
}

static void store_free(struct store *store)
{
    loads_done(&store->loads);
    if (store->engine)
        store->engine->ops->close(store->engine);
    store__undo_release(store);
    hot_done(&store->hot);
    record_writer_done(&store->writer);
    buf_done(&store->walk_at);
    buf_done(&store->keep);
    buf_done(&store->value);
    buf_done(&store->pack);
    buf_done(&store->key);
    arena_done(&store->want_arena);
    for (size_t i = 0; i < store->counter_count; i++)
        mem_free((void *)(uintptr_t)store->counter[i].name.ptr);
    mem_free(store->counter);
    mem_free(store->changed_counter);
    mem_free(store->saved.delta);
    mem_free(store->undo);
    mem_free(store->want);
    mem_free(store->cut);
    catalog_done(&store->catalog);
    reserve_close(store->reserve);
    file_close(store->lock);
    mem_free(store->dir);
    mem_free(store->journal_dir);
    mem_free(store->engine_dir);
    mem_free(store->scratch_dir);
    mem_free(store);
}

enum rc store_open(const struct store_options *options, struct store **ret_store, struct err *err)
{
    struct err local = {0};
    struct store *store = mem_zalloc(sizeof *store);
    err = err ? err : &local;
    options_resolve(store, options);
    enum rc rc = store_start(store, err);
    if (rc != RC_OK) {
        store_abandon(store);
        return rc;
    }
    *ret_store = store;
    return RC_OK;
}

void store_abandon(struct store *store)
{
    if (!store)
        return;
    flush_close(store->flush);
    journal_abandon(store->journal);
    store_free(store);
}

enum rc store_close(struct store *store, struct err *err)
{
    if (!store)
        return RC_OK;
    ASSERT(!store->open);
    enum rc rc = store_write(store, err);
    flush_close(store->flush);
    enum rc closed = journal_close(store->journal, rc == RC_OK ? err : NULL);
    store_free(store);
    return rc == RC_OK ? closed : rc;
}

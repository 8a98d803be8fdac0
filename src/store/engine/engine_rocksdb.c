// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb.c - RocksDB as an engine: options, units, checkpoints, reopening. */
#include "store/engine/engine_rocksdb_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/engine/engine_rocksdb_quiet.h"

#include "base/banned.h"

enum {
    OPEN_BYTES_MIN = 512 * 1024,
    CACHE_BYTES_DEFAULT = 64 * 1024 * 1024,
    BEFORE_CACHE_BYTES = 1024 * 1024,
    OPEN_FILES_MAX = 512, /* each table reader costs memory outside the cache */
    BLOCK_BYTES = 16 * 1024,
    FILTER_BITS = 10,
    FILE_BYTES_MAX = 64 * 1024 * 1024,
    FILE_BYTES_MIN = 2 * 1024 * 1024,
    FILE_DISK_PART = 512, /* a file is at most this part of the disk */
    LEVEL_BASE_FILES = 8,
    LEVELS = 7,
    L0_COMPACTION_FILES = 4, /* at most the flusher's limit, or its wait would never end */
    NEVER = 1 << 20,         /* a number of L0 files that is not reached */
    READAHEAD_BYTES = 2 * 1024 * 1024,
    SYNC_STEP_BYTES = 1024 * 1024,
    SETTLE_STEP_NS = 2 * 1000 * 1000,
    UNIT_FILES_MAX = STORE_SPACES_MAX,
};

static const char unit_file_prefix[] = "unit-";

struct rocks_unit {
    struct engine_unit unit;
    struct engine_order order;
    rocksdb_sstfilewriter_t *writer; /* NULL: no file is open */
    uint8_t space;                   /* of the open file */
    char *path[UNIT_FILES_MAX];
    int path_count;
    enum rc broken; /* a file could not be written: the unit cannot be applied */
    bool has_range_deletes;
    bool applied;
};

/* ---- errors ---- */

static bool text_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static enum rc status_rc(const char *text)
{
    if (text_has(text, "Result incomplete"))
        return RC_COLD;
    if (text_has(text, "newer version of RocksDB") || text_has(text, "Not implemented"))
        return RC_VERSION;
    if (text_has(text, "Corruption"))
        return RC_CORRUPT;
    if (text_has(text, "No space left") || text_has(text, "Disk quota exceeded"))
        return RC_FULL;
    if (text_has(text, "While lock file") || text_has(text, "lock hold by current process") ||
        text_has(text, "Resource busy"))
        return RC_BUSY;
    if (text_has(text, "Invalid argument") && !text_has(text, "IO error"))
        return RC_INVALID;
    return RC_IO;
}

enum rc rocks__status_take(char *status, const char *what, struct err *err)
{
    if (!status)
        return RC_OK;
    enum rc rc = err_set(err, status_rc(status), "could not %s: %s", what, status);
    rocksdb_free(status);
    return rc;
}

/* ---- options ---- */

static char *group_transform(void *state, const char *key, size_t len, size_t *ret_len)
{
    *ret_len = space_group_len(state, bytes_of(key, len));
    return (char *)(uintptr_t)key; /* RocksDB only reads it */
}

bool rocks__key_is_grouped(const struct space_set *spaces, const char *key, size_t len)
{
    if (len == 0)
        return false;
    enum space_kind kind = spaces->space[(uint8_t)key[0]].kind;
    return kind == SPACE_FIXED || kind == SPACE_LENGTH;
}

static unsigned char group_in_domain(void *state, const char *key, size_t len)
{
    return rocks__key_is_grouped(state, key, len);
}

static unsigned char group_in_range(void *state, const char *key, size_t len)
{
    (void)state;
    (void)key;
    (void)len;
    return 1;
}

static const char *group_name(void *state)
{
    (void)state;
    return "terrace.group.1"; /* on disk: another rule needs another name */
}

static void group_done(void *state)
{
    (void)state;
}

static void options_set_table(rocksdb_options_t *options, rocksdb_cache_t *cache)
{
    enum { CHECKSUM_XXH3 = 4, FORMAT_VERSION = 5 };
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    rocksdb_block_based_options_set_checksum(table, CHECKSUM_XXH3);
    rocksdb_block_based_options_set_format_version(table, FORMAT_VERSION);
    rocksdb_block_based_options_set_index_type(
        table, rocksdb_block_based_table_index_type_two_level_index_search);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(FILTER_BITS)); /* takes */
    rocksdb_block_based_options_set_partition_filters(table, 1);
    rocksdb_block_based_options_set_whole_key_filtering(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    rocksdb_block_based_options_set_pin_top_level_index_and_filter(table, 1);
    rocksdb_options_set_block_based_table_factory(options, table); /* copies */
    rocksdb_block_based_options_destroy(table);
}

static void options_set_levels(rocksdb_options_t *options)
{
    rocksdb_options_set_num_levels(options, LEVELS);
    rocksdb_options_set_compression(options, rocksdb_lz4_compression); /* 0.1 us a row */
    rocksdb_options_set_compaction_style(options, rocksdb_level_compaction);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, L0_COMPACTION_FILES);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, NEVER);
    rocksdb_options_set_level0_stop_writes_trigger(options, NEVER);
    rocksdb_options_set_soft_pending_compaction_bytes_limit(options, 0);
    rocksdb_options_set_hard_pending_compaction_bytes_limit(options, 0);
}

/* A compaction writes its files beside those it replaces. On a small disk they are small, so that
 * this room is a small part of the disk, too. */
static void options_set_files(rocksdb_options_t *options, const char *dir)
{
    uint64_t total = 0, bytes = FILE_BYTES_MAX;
    enum rc rc = files_total_bytes((struct files *)(uintptr_t)&files_real, dir, &total, NULL);
    if (rc == RC_OK && total / FILE_DISK_PART < bytes)
        bytes = total / FILE_DISK_PART;
    bytes = bytes < FILE_BYTES_MIN ? FILE_BYTES_MIN : bytes;
    rocksdb_options_set_target_file_size_base(options, bytes);
    rocksdb_options_set_max_bytes_for_level_base(options, LEVEL_BASE_FILES * bytes);
    if (bytes < FILE_BYTES_MAX)
        rocksdb_options_set_max_compaction_bytes(options, LEVEL_BASE_FILES * bytes);
}

static void options_set_system(rocksdb_options_t *options, rocksdb_env_t *env)
{
    enum { BACKGROUND_JOBS = 2 };

    rocksdb_options_set_env(options, env);
    rocksdb_options_set_max_background_jobs(options, BACKGROUND_JOBS);
    rocksdb_options_set_max_open_files(options, OPEN_FILES_MAX);
    rocksdb_options_set_max_file_opening_threads(options, 1);
    rocksdb_options_set_skip_stats_update_on_db_open(options, 1);
    rocksdb_options_set_write_buffer_size(options, SYNC_STEP_BYTES); /* (1) */
    rocksdb_options_compaction_readahead_size(options, READAHEAD_BYTES);
    rocksdb_options_set_bytes_per_sync(options, SYNC_STEP_BYTES);
    rocksdb_options_set_avoid_unnecessary_blocking_io(options, 1); /* readers delete no files */
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    rocks__options_set_quiet(options);
}

static rocksdb_options_t *options_new(const struct rocks *rocks)
{
    rocksdb_options_t *options = rocksdb_options_create();
    void *state = (void *)(uintptr_t)rocks->spaces; /* the callbacks only read */

    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    options_set_system(options, rocks->env);
    options_set_levels(options);
    options_set_table(options, rocks->cache);
    rocksdb_options_set_prefix_extractor(
        options, rocksdb_slicetransform_create(state, group_done, group_transform, group_in_domain,
                                               group_in_range, group_name)); /* takes */
    return options;
}

/* ---- life ---- */

static enum rc scratch_remove(const char *name, void *arg, struct err *err)
{
    const char *dir = arg;
    char path[PATH_BYTES_MAX];

    if (strncmp(name, unit_file_prefix, sizeof unit_file_prefix - 1) != 0)
        return RC_OK; /* not ours */
    enum rc rc = path_join(path, dir, name, err);
    return rc == RC_OK ? files_remove((struct files *)(uintptr_t)&files_real, path, err) : rc;
}

static void rocks_close(struct engine *engine)
{
    struct rocks *rocks = (struct rocks *)engine;
    if (!rocks)
        return;
    ASSERT(!rocks->unit_is_open);
    ASSERT(!rocks->shelter);
    rocks__views_release(rocks);
    ASSERT(!rocks->views.first && !rocks->iters.first);
    if (rocks->db)
        rocksdb_close(rocks->db);
    for (size_t i = 0; i < ROCKS_TIERS; i++)
        if (rocks->read[i])
            rocksdb_readoptions_destroy(rocks->read[i]);
    if (rocks->env_options)
        rocksdb_envoptions_destroy(rocks->env_options);
    if (rocks->options)
        rocksdb_options_destroy(rocks->options);
    if (rocks->cache)
        rocksdb_cache_destroy(rocks->cache);
    if (rocks->env)
        rocksdb_env_destroy(rocks->env);
    pthread_rwlock_destroy(&rocks->gate);
    pthread_mutex_destroy(&rocks->apply_lock);
    pthread_mutex_destroy(&rocks->view_lock);
    pthread_cond_destroy(&rocks->bare_gone);
    pthread_mutex_destroy(&rocks->depth_lock);
    mem_free(rocks->scratch_dir);
    mem_free(rocks->dir);
    mem_free(rocks);
}

static void rocks_closep(struct rocks **rocks)
{
    if (*rocks)
        rocks_close(&(*rocks)->engine);
}

static void rocks_set_options(struct rocks *rocks, const struct engine_options *options)
{
    size_t cache_bytes = options->cache_bytes ? options->cache_bytes : CACHE_BYTES_DEFAULT;

    rocks->cache = rocksdb_cache_create_lru(cache_bytes);
    rocks->env = rocksdb_create_default_env(); /* one for the process */
    rocksdb_env_lower_thread_pool_cpu_priority(rocks->env);
    rocksdb_env_lower_thread_pool_io_priority(rocks->env);
    rocks->options = options_new(rocks);
    rocks->env_options = rocksdb_envoptions_create();
    for (size_t i = 0; i < ROCKS_TIERS; i++)
        rocks->read[i] = rocks__read_options_new((enum engine_tier)i);
}

/* The parent keeps the name of a new directory only once it is synced. */
static enum rc dir_make(const char *dir, struct err *err)
{
    struct files *files = (struct files *)(uintptr_t)&files_real;
    const char *slash = strrchr(dir, '/');
    char parent[PATH_BYTES_MAX] = ".";

    enum rc rc = files_make_dir(files, dir, err);
    if (rc != RC_OK)
        return rc;
    if (slash && (size_t)(slash - dir) >= sizeof parent)
        return err_set(err, RC_TOO_BIG, "the path of \"%s\" is too long", dir);
    if (slash)
        snprintf(parent, sizeof parent, "%.*s", slash == dir ? 1 : (int)(slash - dir), dir);
    return files_sync_dir(files, parent, err);
}

/* Opening writes a log and a manifest, and this build aborts where a second write follows one that
 * failed. */
static enum rc room_check(const struct rocks *rocks, const char *dir, struct err *err)
{
    uint64_t free_bytes;
    if (rocks->read_only ||
        files_free_bytes((struct files *)(uintptr_t)&files_real, dir, &free_bytes, NULL) != RC_OK ||
        free_bytes >= OPEN_BYTES_MIN)
        return RC_OK;
    return err_set(err, RC_FULL,
                   "the disk of %s has %llu bytes free, and opening the engine needs %d: make room",
                   dir, (unsigned long long)free_bytes, OPEN_BYTES_MIN);
}

/* The same by writing: quotas and reserved blocks are not in what the file system calls free.
 * RocksDB removes files of such a name, so one that stays behind does no harm. */
static enum rc room_try(const struct rocks *rocks, struct err *err)
{
    struct files *files = (struct files *)(uintptr_t)&files_real;
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];

    enum rc rc = room_check(rocks, rocks->dir, err);
    if (rc != RC_OK)
        return rc;
    if (snprintf(path, sizeof path, "%s/000000.dbtmp", rocks->dir) >= PATH_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "the path of \"%s\" is too long", rocks->dir);
    rc = file_open(files, path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file, err);
    if (rc != RC_OK)
        return rc;
    uint8_t *zeros = mem_zalloc(OPEN_BYTES_MIN);
    rc = file_write(file, 0, bytes_of(zeros, OPEN_BYTES_MIN), err);
    mem_free(zeros);
    if (rc == RC_OK)
        rc = file_sync(file, err);
    enum rc removed = files_remove(files, path, NULL);
    (void)removed; /* RocksDB may have been faster */
    return rc;
}

static enum rc log_drop(const char *name, void *arg, struct err *err)
{
    struct files *files = (struct files *)(uintptr_t)&files_real;
    const struct rocks *rocks = arg;
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    uint64_t len;
    const char *dot = strrchr(name, '.');
    bool is_text = strcmp(name, "LOG") == 0 || strncmp(name, "LOG.old.", strlen("LOG.old.")) == 0;
    if (!is_text && (!dot || strcmp(dot, ".log") != 0))
        return RC_OK;
    enum rc rc = path_join(path, rocks->dir, name, err);
    if (rc == RC_OK && is_text)
        return files_remove(files, path, err);
    if (rc == RC_OK)
        rc = file_open(files, path, FILE_READ, &file, err);
    if (rc == RC_OK)
        rc = file_size(file, &len, err);
    if (rc == RC_OK && len == 0)
        rc = files_remove(files, path, err);
    return rc;
}

/* Nothing is ever written to RocksDB's own log (1), and every opening begins another one. RocksDB
 * keeps them all, because no flush of a memtable says that they are over. Versions before this one
 * wrote LOG, a file of text, as well. */
static void logs_drop(const struct rocks *rocks)
{
    struct err ignored;
    enum rc rc = RC_OK;
    if (!rocks->read_only)
        rc = files_list((struct files *)(uintptr_t)&files_real, rocks->dir, log_drop,
                        (void *)(uintptr_t)rocks, &ignored);
    (void)rc; /* those that stay are as good as nothing */
}

static enum rc db_open(struct rocks *rocks, struct err *err)
{
    char *status = NULL;
    rocks->db = rocks->read_only
                    ? rocksdb_open_for_read_only(rocks->options, rocks->dir, 0, &status)
                    : rocksdb_open(rocks->options, rocks->dir, &status);
    return rocks__status_take(status, "open the engine", err);
}

static enum rc rocks_open_db(struct rocks *rocks, struct err *err)
{
    struct err why = {0};
    enum rc rc = room_check(rocks, rocks->dir, err);
    if (rc != RC_OK)
        return rc;
    rc = rocks__manifest_restore(rocks, err);
    if (rc != RC_OK)
        return rc;
    logs_drop(rocks);
    rc = db_open(rocks, &why);
    if (rocks__misses_a_table(rocks, rc, &why)) {
        rc = rocks__go_back(rocks, &why);
        if (rc == RC_OK)
            rc = db_open(rocks, &why);
    }
    if (rc == RC_OK)
        rocks__manifest_keep(rocks);
    if (err)
        *err = why;
    if (rc != RC_INVALID)
        return rc;
    if (err)
        err->rc = RC_VERSION; /* what this build does not know, it calls an invalid argument */
    return RC_VERSION;
}

/* ---- units ---- */

static enum rc rocks_unit_open(struct engine *engine, struct engine_unit **ret_unit,
                               struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;

    if (rocks->read_only)
        return err_set(err, RC_READONLY, "the engine was opened for reading");
    if (!rocks->db)
        return err_set(err, RC_IO, "the engine is closed after an error");
    if (rocks->unit_is_open)
        return err_set(err, RC_BUSY, "another unit is being built");
    struct rocks_unit *unit = mem_zalloc(sizeof *unit);
    unit->unit.engine = engine;
    unit->broken = RC_OK;
    engine__order_init(&unit->order);
    rocks->unit_is_open = true;
    *ret_unit = &unit->unit;
    return RC_OK;
}

/* After a failed write no file of the unit is complete: the unit stays broken. */
static enum rc unit_status(struct rocks_unit *unit, char *status, struct err *err)
{
    enum rc rc = rocks__status_take(status, "write a file of the unit", err);
    if (rc != RC_OK)
        unit->broken = rc;
    return rc;
}

static enum rc file_begin(struct rocks_unit *unit, uint8_t space, struct err *err)
{
    struct rocks *rocks = (struct rocks *)unit->unit.engine;
    char path[PATH_BYTES_MAX];
    char *status = NULL;

    int len = snprintf(path, sizeof path, "%s/%s%" PRIu64 "-%u.sst", rocks->scratch_dir,
                       unit_file_prefix, rocks->file_number++, space);
    if (len < 0 || (size_t)len >= sizeof path)
        return err_set(err, RC_TOO_BIG, "\"%s\" is too long", rocks->scratch_dir);
    enum rc rc = files_remove((struct files *)(uintptr_t)&files_real, path, err); /* (5) */
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    ASSERT(unit->path_count < UNIT_FILES_MAX);
    unit->path[unit->path_count++] = mem_dup(path, (size_t)len + 1);
    unit->writer = rocksdb_sstfilewriter_create(rocks->env_options, rocks->options);
    unit->space = space;
    rocksdb_sstfilewriter_open(unit->writer, path, &status);
    return unit_status(unit, status, err);
}

static void file_drop(struct rocks_unit *unit)
{
    if (unit->writer)
        rocksdb_sstfilewriter_destroy(unit->writer);
    unit->writer = NULL;
}

/* Syncs and closes the open file, if there is one. */
static enum rc file_end(struct rocks_unit *unit, struct err *err)
{
    char *status = NULL;

    if (!unit->writer)
        return RC_OK;
    rocksdb_sstfilewriter_finish(unit->writer, &status);
    file_drop(unit);
    return unit_status(unit, status, err);
}

/* Makes the file of this space the open one. */
static enum rc file_turn(struct rocks_unit *unit, uint8_t space, struct err *err)
{
    if (unit->writer && unit->space == space)
        return RC_OK;
    enum rc rc = file_end(unit, err);
    if (rc != RC_OK)
        return rc;
    return file_begin(unit, space, err);
}

static enum rc unit_check(const struct rocks_unit *unit, struct err *err)
{
    if (unit->applied)
        return err_set(err, RC_INVALID, "the unit has been applied");
    if (unit->broken != RC_OK)
        return err_set(err, unit->broken, "a file of the unit could not be written before");
    return RC_OK;
}

static enum rc unit_key(struct rocks_unit *unit, struct bytes key, struct bytes value,
                        struct err *err)
{
    enum rc rc = unit_check(unit, err);
    if (rc == RC_OK)
        rc = engine__order_key(&unit->order, key, value, err);
    if (rc == RC_OK)
        rc = file_turn(unit, key.ptr[0], err);
    return rc;
}

static enum rc rocks_unit_put(struct engine_unit *unit, struct bytes key, struct bytes value,
                              struct err *err)
{
    struct rocks_unit *self = (struct rocks_unit *)unit;
    char *status = NULL;

    enum rc rc = unit_key(self, key, value, err);
    if (rc != RC_OK)
        return rc;
    rocksdb_sstfilewriter_put(self->writer, (const char *)key.ptr, key.len, (const char *)value.ptr,
                              value.len, &status);
    return unit_status(self, status, err);
}

static enum rc rocks_unit_delete(struct engine_unit *unit, struct bytes key, struct err *err)
{
    struct rocks_unit *self = (struct rocks_unit *)unit;
    char *status = NULL;

    enum rc rc = unit_key(self, key, BYTES(""), err);
    if (rc != RC_OK)
        return rc;
    rocksdb_sstfilewriter_delete(self->writer, (const char *)key.ptr, key.len, &status);
    return unit_status(self, status, err);
}

static enum rc rocks_unit_delete_range(struct engine_unit *unit, struct bytes from, struct bytes to,
                                       struct err *err)
{
    struct rocks_unit *self = (struct rocks_unit *)unit;
    char *status = NULL;

    enum rc rc = unit_check(self, err);
    if (rc == RC_OK)
        rc = engine__order_range(&self->order, from, to, err);
    if (rc == RC_OK)
        rc = file_turn(self, from.ptr[0], err);
    if (rc != RC_OK)
        return rc;
    self->has_range_deletes = true;
    rocksdb_sstfilewriter_delete_range(self->writer, (const char *)from.ptr, from.len,
                                       (const char *)to.ptr, to.len, &status);
    return unit_status(self, status, err);
}

static enum rc unit_ingest(struct rocks_unit *unit, struct err *err)
{
    struct rocks *rocks = (struct rocks *)unit->unit.engine;
    rocksdb_ingestexternalfileoptions_t *ingest = rocksdb_ingestexternalfileoptions_create();
    char *status = NULL;

    rocksdb_ingestexternalfileoptions_set_move_files(ingest, 1);
    rocksdb_ingestexternalfileoptions_set_snapshot_consistency(ingest, 1);
    rocksdb_ingestexternalfileoptions_set_allow_global_seqno(ingest, 1);
    rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(ingest, 0); /* (1) */
    rocks__views_release(rocks);                                           /* (8) */
    pthread_mutex_lock(&rocks->apply_lock);
    if (unit->has_range_deletes)
        rocks__shelter_begin(rocks);
    atomic_store(&rocks->ingesting, true);
    rocksdb_ingest_external_file(rocks->db, (const char *const *)unit->path,
                                 (size_t)unit->path_count, ingest, &status); /* (2) */
    atomic_store(&rocks->ingesting, false);
    if (unit->has_range_deletes)
        rocks__shelter_end(rocks);
    pthread_mutex_unlock(&rocks->apply_lock);
    rocksdb_ingestexternalfileoptions_destroy(ingest);
    return rocks__status_take(status, "ingest a unit", err);
}

static enum rc rocks_unit_apply(struct engine_unit *unit, struct err *err)
{
    struct rocks_unit *self = (struct rocks_unit *)unit;
    struct rocks *rocks = (struct rocks *)unit->engine;

    if (self->applied)
        return RC_OK; /* nothing newer can have come in between */
    enum rc rc = unit_check(self, err);
    if (rc == RC_OK)
        rc = file_end(self, err);
    rocks__manifest_keep(rocks);
    if (rc == RC_OK && self->path_count > 0)
        rc = unit_ingest(self, err);
    rocks__manifest_keep(rocks);
    if (rc != RC_OK)
        return rc;
    self->applied = true;
    atomic_fetch_add(&rocks->unit_count, 1);
    return RC_OK;
}

static void rocks_unit_close(struct engine_unit *unit)
{
    struct rocks_unit *self = (struct rocks_unit *)unit;
    if (!self)
        return;
    struct rocks *rocks = (struct rocks *)unit->engine;
    file_drop(self);
    for (int i = 0; i < self->path_count; i++) {
        /* Ingestion has taken it, or the next open removes it. */
        enum rc rc = files_remove((struct files *)(uintptr_t)&files_real, self->path[i], NULL);
        (void)rc;
        mem_free(self->path[i]);
    }
    engine__order_done(&self->order);
    rocks->unit_is_open = false;
    mem_free(self);
}

/* ---- state, copies, repair, compaction ---- */

static uint64_t property(struct rocks *rocks, const char *name)
{
    uint64_t value = 0;
    return rocksdb_property_int(rocks->db, name, &value) == 0 ? value : 0;
}

/* This one is offered as text only. */
static uint64_t l0_file_count(struct rocks *rocks)
{
    char *text = rocksdb_property_value(rocks->db, "rocksdb.num-files-at-level0");
    uint64_t value = text ? strtoull(text, NULL, 10) : 0;
    rocksdb_free(text);
    return value;
}

/* Files of level 0 that lie over one another: those of the space that has most. Files of different
 * spaces share no key. */
static uint64_t depth_compute(struct rocks *rocks)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(rocks->db);
    uint64_t count[STORE_SPACES_MAX] = {0};
    uint64_t depth = 0;

    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        size_t len = 0;
        const char *key = rocksdb_livefiles_smallestkey(files, i, &len);
        if (rocksdb_livefiles_level(files, i) != 0 || len == 0)
            continue;
        uint64_t files_count = ++count[(uint8_t)key[0]];
        depth = files_count > depth ? files_count : depth;
    }
    rocksdb_livefiles_destroy(files);
    return depth;
}

static void rocks_pressure(struct engine *engine, struct engine_pressure *ret_pressure)
{
    struct rocks *rocks = (struct rocks *)engine;

    *ret_pressure = (struct engine_pressure){.closed = true};
    if (!rocks__gate_try(rocks))
        return;
    uint64_t file_count = l0_file_count(rocks);
    uint64_t unit_count = atomic_load(&rocks->unit_count);

    pthread_mutex_lock(&rocks->depth_lock);
    if (file_count != rocks->depth_file_count || unit_count != rocks->depth_unit_count) {
        rocks->depth = file_count > 1 ? depth_compute(rocks) : file_count;
        rocks->depth_file_count = file_count;
        rocks->depth_unit_count = unit_count;
    }
    uint64_t depth = rocks->depth;
    pthread_mutex_unlock(&rocks->depth_lock);
    *ret_pressure = (struct engine_pressure){
        .l0_file_count = depth,
        .debt_bytes = property(rocks, "rocksdb.estimate-pending-compaction-bytes"),
        .compacting = property(rocks, "rocksdb.num-running-compactions") > 0};
    ret_pressure->error_count = property(rocks, "rocksdb.background-errors");
    ret_pressure->failed = !ret_pressure->compacting && ret_pressure->error_count > 0;
    rocks__gate_leave(rocks);
}

static void rocks_stats(struct engine *engine, struct engine_stats *ret_stats)
{
    struct rocks *rocks = (struct rocks *)engine;

    *ret_stats = (struct engine_stats){.unit_count = atomic_load(&rocks->unit_count)};
    if (!rocks__gate_try(rocks))
        return;
    *ret_stats = (struct engine_stats){
        .row_count_estimate = property(rocks, "rocksdb.estimate-num-keys"),
        .disk_bytes = property(rocks, "rocksdb.total-sst-files-size"),
        .cache_bytes = rocksdb_cache_get_usage(rocks->cache),
        .index_bytes = property(rocks, "rocksdb.estimate-table-readers-mem"),
        .unit_count = atomic_load(&rocks->unit_count),
        .back_count = atomic_load(&rocks->back_count),
    };
    rocks__gate_leave(rocks);
}

static enum rc rocks_checkpoint(struct engine *engine, const char *dir, struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;
    char *status = NULL;

    if (!rocks->db)
        return err_set(err, RC_IO, "the engine is closed after an error");
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(rocks->db, &status);
    if (status)
        return rocks__status_take(status, "prepare a checkpoint", err);
    rocksdb_checkpoint_create(checkpoint, dir, UINT64_MAX, &status); /* (1): flush nothing */
    rocksdb_checkpoint_object_destroy(checkpoint);
    enum rc rc = rocks__status_take(status, "make a checkpoint", err);
    if (rc != RC_OK)
        return rc;
    return dir_make(dir, err); /* it is there: syncs its name */
}

/* Deleted rows go when their deletion meets the last level. RocksDB compacts a level when it is too
 * large, which one of deletions seldom is: files that hold some are marked. Those of level 0 come
 * first, because all that lies over one another there is compacted at once. */
static bool rocks_shrink(struct engine *engine)
{
    struct rocks *rocks = (struct rocks *)engine;
    int level_least = LEVELS - 1;
    bool any = false;

    if (rocks->read_only || !rocks__gate_try(rocks))
        return false;
    const rocksdb_livefiles_t *files = rocksdb_livefiles(rocks->db);
    int count = rocksdb_livefiles_count(files);
    for (int i = 0; i < count; i++) {
        int level = rocksdb_livefiles_level(files, i);
        bool has_deletes = level == 0 || rocksdb_livefiles_deletions(files, i) > 0;
        if (has_deletes && level < level_least)
            level_least = level;
    }
    for (int i = 0; i < count; i++) {
        size_t small_len = 0, large_len = 0;
        char *status = NULL;
        if (rocksdb_livefiles_level(files, i) != level_least ||
            (level_least > 0 && rocksdb_livefiles_deletions(files, i) == 0))
            continue;
        const char *small = rocksdb_livefiles_smallestkey(files, i, &small_len);
        const char *large = rocksdb_livefiles_largestkey(files, i, &large_len);
        rocksdb_suggest_compact_range(rocks->db, small, small_len, large, large_len, &status);
        rocksdb_free(status); /* it is asked for again */
        any = level_least < LEVELS - 1;
    }
    rocksdb_livefiles_destroy(files);
    rocks__gate_leave(rocks);
    return any;
}

/* Waits for the background work instead of asking for a compaction of everything: the latter
 * rewrites the last level, which is most of the data, to no use. */
static enum rc rocks_compact_all(struct engine *engine, struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;
    const struct timespec step = {.tv_nsec = SETTLE_STEP_NS};

    if (rocks->read_only || !rocks->db)
        return RC_OK;
    rocks__views_release(rocks);
    while (property(rocks, "rocksdb.compaction-pending") > 0 ||
           property(rocks, "rocksdb.num-running-compactions") > 0) {
        if (property(rocks, "rocksdb.background-errors") > 0)
            return err_set(err, RC_IO, "could not compact: the engine had an error before");
        nanosleep(&step, NULL);
    }
    return RC_OK;
}

/* ---- open ---- */

/* (4) Into an empty database a file would be ingested with the number 0. A snapshot makes RocksDB
 * draw a new number for it; the row it deletes is not there. */
static enum rc rocks_begin(struct rocks *rocks, struct err *err)
{
    struct engine_unit *unit = NULL;

    if (rocksdb_get_latest_sequence_number(rocks->db) > 0)
        return RC_OK;
    enum rc rc = rocks_unit_open(&rocks->engine, &unit, err);
    if (rc != RC_OK)
        return rc;
    const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(rocks->db);
    rc = rocks_unit_delete(unit, BYTES("\0"), err);
    if (rc == RC_OK)
        rc = rocks_unit_apply(unit, err);
    rocksdb_release_snapshot(rocks->db, snapshot);
    rocks_unit_close(unit);
    atomic_store(&rocks->unit_count, 0);
    if (rc == RC_OK && rocksdb_get_latest_sequence_number(rocks->db) == 0)
        return err_set(err, RC_IO, "could not begin: the engine numbers nothing");
    return rc;
}

/* (10): nobody else is at the database between the two locks of the gate. */
static enum rc rocks_reopen(struct engine *engine, struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;

    ASSERT(!rocks->unit_is_open && !rocks->read_only);
    enum rc rc = room_try(rocks, err); /* what is open can at least be read */
    if (rc != RC_OK)
        return rc;
    pthread_rwlock_wrlock(&rocks->gate);
    if (rocks->db) {
        rocks__detach(rocks);
        rocksdb_close(rocks->db);
        rocks->db = NULL;
    }
    rc = rocks_open_db(rocks, err);
    if (rc == RC_OK) {
        rc = rocks_begin(rocks, err);
        if (rc != RC_OK)
            rocksdb_close(rocks->db);
        if (rc != RC_OK)
            rocks->db = NULL;
    }
    pthread_rwlock_unlock(&rocks->gate);
    return rc;
}

/* Who opens the engine again does not wait for ever behind readers that come and go. */
static void gate_init(pthread_rwlock_t *gate)
{
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(gate, &attr);
    pthread_rwlockattr_destroy(&attr);
}

static struct rocks *rocks_new(const struct engine_options *options)
{
    struct rocks *rocks = mem_zalloc(sizeof *rocks);
    rocks->engine.ops = &engine_rocksdb_ops;
    rocks->spaces = options->spaces;
    rocks->read_only = options->read_only;
    rocks->back_fits = options->back_fits;
    rocks->back_arg = options->back_arg;
    gate_init(&rocks->gate);
    pthread_mutex_init(&rocks->apply_lock, NULL);
    pthread_mutex_init(&rocks->view_lock, NULL);
    pthread_cond_init(&rocks->bare_gone, NULL);
    pthread_mutex_init(&rocks->depth_lock, NULL);
    rocks_set_options(rocks, options);
    return rocks;
}

enum rc rocks__open_before(const struct rocks *rocks, rocksdb_options_t *options,
                           struct engine **ret_engine, struct err *err)
{
    struct rocks *before = rocks_new(&(struct engine_options){
        .spaces = rocks->spaces, .cache_bytes = BEFORE_CACHE_BYTES, .read_only = true});
    rocksdb_options_destroy(before->options);
    before->options = options;
    before->dir = mem_dup(rocks->dir, strlen(rocks->dir) + 1);
    enum rc rc = db_open(before, err);
    if (rc == RC_OK)
        *ret_engine = &before->engine;
    else
        rocks_close(&before->engine);
    return rc;
}

static enum rc rocks_open(const struct engine_options *options, struct engine **ret_engine,
                          struct err *err)
{
    CLEANUP(rocks_closep) struct rocks *rocks = NULL;
    enum rc rc = rocks__version_check(err);

    if (rc != RC_OK)
        return rc;
    if (!options->dir || !options->spaces || (!options->scratch_dir && !options->read_only))
        return err_set(err, RC_INVALID,
                       "the engine needs a directory, a scratch directory and "
                       "spaces");
    rocks = rocks_new(options);
    if (!options->read_only) {
        rocks->scratch_dir = mem_dup(options->scratch_dir, strlen(options->scratch_dir) + 1);
        rc = dir_make(options->dir, err);
        if (rc == RC_OK)
            rc = dir_make(options->scratch_dir, err);
        if (rc != RC_OK)
            return rc;
    }
    rocks->dir = mem_dup(options->dir, strlen(options->dir) + 1);
    options_set_files(rocks->options, rocks->dir);
    rc = rocks_open_db(rocks, err);
    if (rc != RC_OK)
        return rc;
    if (!options->read_only) /* not before the lock of the directory is ours */
        rc = files_list((struct files *)(uintptr_t)&files_real, rocks->scratch_dir, scratch_remove,
                        rocks->scratch_dir, err);
    if (rc == RC_OK && !options->read_only)
        rc = rocks_begin(rocks, err);
    if (rc != RC_OK)
        return rc;
    *ret_engine = &rocks->engine;
    rocks = NULL;
    return RC_OK;
}

const struct engine_ops engine_rocksdb_ops = {
    .name = "rocksdb",
    .has_views = true,
    .open = rocks_open,
    .close = rocks_close,
    .get = rocks__get,
    .may_have = rocks__may_have,
    .iter_open = rocks__iter_open,
    .iter_next = rocks__iter_next,
    .iter_close = rocks__iter_close,
    .view_open = rocks__view_open,
    .view_close = rocks__view_close,
    .unit_open = rocks_unit_open,
    .unit_put = rocks_unit_put,
    .unit_delete = rocks_unit_delete,
    .unit_delete_range = rocks_unit_delete_range,
    .unit_apply = rocks_unit_apply,
    .unit_close = rocks_unit_close,
    .pressure = rocks_pressure,
    .stats = rocks_stats,
    .checkpoint = rocks_checkpoint,
    .reopen = rocks_reopen,
    .verify = rocks__verify,
    .shrink = rocks_shrink,
    .compact_all = rocks_compact_all,
};

// SPDX-License-Identifier: Apache-2.0
/* restore.c - opens, checks, repairs and restores directories of stopped stores. */
#include "store/restore.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/journal/journal_int.h"
#include "store/journal/recover.h"

#include "base/banned.h"

enum { COPY_BYTES = 1024 * 1024, INSPECT_CACHE_BYTES = 16 * 1024 * 1024 };

/* ---- opening ---- */

/* A backup has no lock file. */
static enum rc dir_lock(struct store_dir *dir, const char *path, struct err *err)
{
    char lock[PATH_BYTES_MAX];
    enum rc rc = path_join(lock, path, "LOCK", err);
    if (rc == RC_OK)
        rc = file_open(dir->files, lock, FILE_READ | FILE_WRITE, &dir->lock, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK)
        rc = file_lock(dir->lock, err);
    if (rc == RC_BUSY)
        return err_set(err, RC_BUSY, "directory \"%s\" is in use by another process; stop it first",
                       path);
    return rc;
}

static enum rc engine_look(struct store_dir *dir, const struct engine_ops *ops, struct err *err)
{
    struct engine_options options = {.dir = dir->engine_dir,
                                     .spaces = &dir->catalog.spaces,
                                     .cache_bytes = INSPECT_CACHE_BYTES,
                                     .read_only = true};
    enum rc rc = ops->open(&options, &dir->engine, err);
    if (rc != RC_OK)
        return rc;
    rc = sys_mark_get(dir->engine, NULL, &dir->mark, err);
    dir->has_mark = rc == RC_OK;
    if (rc == RC_NOT_FOUND) {
        dir->mark = (struct sys_mark){0};
        memcpy(dir->mark.uuid, dir->catalog.uuid, sizeof dir->mark.uuid);
        return RC_OK;
    }
    if (rc == RC_OK && memcmp(dir->mark.uuid, dir->catalog.uuid, sizeof dir->mark.uuid) != 0)
        rc = err_set(err, RC_CORRUPT, "\"%s\" belongs to another store than \"TERRACE\" beside it",
                     dir->engine_dir);
    return rc;
}

/* Lock and catalogue. */
static enum rc dir_begin(struct store_dir *dir, struct files *files, const char *path,
                         struct err *err)
{
    *dir = (struct store_dir){.files = files};
    enum rc rc = path_join(dir->engine_dir, path, "engine", err);
    if (rc == RC_OK)
        rc = path_join(dir->journal_dir, path, "journal", err);
    if (rc == RC_OK)
        rc = dir_lock(dir, path, err);
    if (rc == RC_OK)
        rc = catalog_read(&dir->catalog, files, path, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_NOT_FOUND,
                       "\"%s\" is not a Terrace directory: it has no \"TERRACE\"", path);
    return rc;
}

enum rc store_dir_open(struct store_dir *dir, struct files *files, const struct engine_ops *engine,
                       const char *path, struct err *err)
{
    enum rc rc = dir_begin(dir, files, path, err);
    if (rc == RC_OK)
        rc = engine_look(dir, engine, err);
    if (rc != RC_OK)
        store_dir_done(dir);
    return rc;
}

void store_dir_done(struct store_dir *dir)
{
    if (!dir)
        return;
    if (dir->engine)
        dir->engine->ops->close(dir->engine);
    catalog_done(&dir->catalog);
    file_close(dir->lock);
    *dir = (struct store_dir){0};
}

/* ---- the journal above the mark ---- */

static enum rc turn_count(const struct segment_turn *turn, uint64_t segment, void *arg,
                          struct err *err)
{
    struct store_repair_result *result = arg;
    (void)turn;
    (void)segment;
    (void)err;
    result->turn_count++;
    return RC_OK;
}

static void sealed_count(const struct journal_sealed *sealed, void *arg)
{
    struct store_repair_result *result = arg;
    (void)sealed;
    result->segment_count++;
}

static enum rc journal_check(struct store_dir *dir, bool repair, struct buf *report,
                             struct store_repair_result *ret_result, struct err *err)
{
    struct store_repair_result result = {0};
    struct journal_start start = {0};
    struct journal_recover_options options = {.files = dir->files,
                                              .dir = dir->journal_dir,
                                              .mark_segment = dir->mark.segment,
                                              .mark_lsn = dir->mark.lsn,
                                              .repair = repair,
                                              .report = report,
                                              .turn = turn_count,
                                              .sealed = sealed_count,
                                              .arg = &result};
    memcpy(options.uuid, dir->catalog.uuid, sizeof options.uuid);
    enum rc rc = journal_recover(&options, &start, err);
    if (rc != RC_OK)
        return rc;
    result.last_lsn = start.last_lsn;
    *ret_result = result;
    return RC_OK;
}

/* ---- repair ---- */

struct damage {
    struct buf *report;
    uint64_t count;
};

static void damage_tell(void *arg, const char *text)
{
    struct damage *damage = arg;
    damage->count++;
    bool added = buf_printf(damage->report, "the engine is damaged: %s\n", text);
    (void)added; /* full: they are counted all the same */
}

enum rc store_repair(struct files *files, const struct engine_ops *engine, const char *path,
                     struct buf *report, struct store_repair_result *ret_result, struct err *err)
{
    CLEANUP(store_dir_done) struct store_dir dir = {0};
    enum rc rc = dir_begin(&dir, files, path, err);
    if (rc == RC_CORRUPT) {
        char text[ERR_TEXT_BYTES];
        snprintf(text, sizeof text, "%s", err->text);
        return err_set(err, RC_CORRUPT,
                       "%s; it says which store this is and what its spaces are and cannot be made "
                       "from the rest: copy \"TERRACE\" from any backup of this store, then repair",
                       text);
    }
    if (rc != RC_OK)
        return rc;
    rc = engine_look(&dir, engine, err);
    if (rc != RC_OK)
        return err_prefix(err, "only the journal can be repaired, and the engine under it is not "
                               "whole; restore a backup: ");
    struct damage damage = {.report = report};
    if (engine->verify)
        rc = engine->verify(dir.engine, damage_tell, &damage, err);
    if (rc == RC_OK)
        rc = journal_check(&dir, true, report, ret_result, err);
    if (rc == RC_OK)
        ret_result->damaged_count = damage.count;
    return rc;
}

/* ---- restore ---- */

struct copy {
    const struct store_restore_options *options;
    const char *name; /* "engine" or "journal" */
    uint64_t file_count;
};

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static enum rc file_copy(struct files *files, const char *from, const char *to, struct err *err)
{
    CLEANUP(file_closep) struct file *source = NULL;
    CLEANUP(file_closep) struct file *target = NULL;
    enum rc rc = file_open(files, from, FILE_READ, &source, err);
    if (rc == RC_OK)
        rc = file_open(files, to, FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &target, err);
    if (rc != RC_OK)
        return rc;
    uint8_t *part = mem_alloc(COPY_BYTES);
    uint64_t at = 0;
    size_t got = 0;
    do {
        rc = file_read(source, at, part, COPY_BYTES, &got, err);
        if (rc == RC_OK && got > 0)
            rc = file_write(target, at, bytes_of(part, got), err);
        at += got;
    } while (rc == RC_OK && got > 0);
    mem_free(part);
    return rc == RC_OK ? file_sync(target, err) : rc;
}

static enum rc copy_name(const char *name, void *arg, struct err *err)
{
    struct copy *copy = arg;
    const struct store_restore_options *options = copy->options;
    char from[PATH_BYTES_MAX], to[PATH_BYTES_MAX];
    uint64_t number;
    bool is_engine = strcmp(copy->name, "engine") == 0;
    if (is_engine && (strcmp(name, "LOCK") == 0 || strncmp(name, "LOG", 3) == 0))
        return RC_OK; /* RocksDB's own, made anew */
    if (!is_engine && segment_name_parse(name, &number) != RC_OK)
        return RC_OK;
    int from_len = snprintf(from, sizeof from, "%s/%s/%s", options->from, copy->name, name);
    int to_len = snprintf(to, sizeof to, "%s/%s/%s", options->to, copy->name, name);
    if (from_len < 0 || from_len >= PATH_BYTES_MAX || to_len < 0 || to_len >= PATH_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "the path of \"%s\" is too long", name);
    copy->file_count++;
    if (is_engine && ends_with(name, ".sst"))
        return files_link(options->files, from, to, err);
    return file_copy(options->files, from, to, err);
}

static enum rc copy_dir(const struct store_restore_options *options, const char *name,
                        uint64_t *file_count, struct err *err)
{
    char from[PATH_BYTES_MAX], to[PATH_BYTES_MAX];
    struct copy copy = {.options = options, .name = name};
    enum rc rc = path_join(from, options->from, name, err);
    if (rc == RC_OK)
        rc = path_join(to, options->to, name, err);
    if (rc == RC_OK)
        rc = files_make_dir(options->files, to, err);
    if (rc == RC_OK)
        rc = files_list(options->files, from, copy_name, &copy, err);
    if (rc == RC_OK)
        rc = files_sync_dir(options->files, to, err);
    *file_count += copy.file_count;
    return rc;
}

/* Reads every row, so that every checksum of the engine is looked at. */
static enum rc engine_check(const struct store_dir *dir, uint64_t *ret_count, struct err *err)
{
    const struct engine_ops *ops = dir->engine->ops;
    struct engine_range range = {.lower = BYTES(""), .upper = BYTES(""), .once = true};
    struct engine_iter *iter = NULL;
    struct bytes key, value, group, suffix;
    uint64_t count = 0;
    uint8_t space;
    enum rc rc = ops->iter_open(dir->engine, NULL, &range, &iter, err);
    if (rc != RC_OK)
        return rc;
    while ((rc = ops->iter_next(iter, &key, &value, err)) == RC_OK) {
        rc = space_key_split(&dir->catalog.spaces, key, &space, &group, &suffix, err);
        if (rc != RC_OK)
            break;
        count++;
    }
    ops->iter_close(iter);
    *ret_count = count;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

struct strict { /* the segments of a backup, in order */
    const struct store_dir *dir;
    bool has_before;
    uint64_t bytes, lsn;
    uint32_t chain;
};

static enum rc segment_damage(const char *path, uint64_t offset, const char *why, const char *dir,
                              struct err *err)
{
    return err_set(err, RC_CORRUPT,
                   "the journal of the backup is damaged: \"%s\" at offset %llu: %s; to give up "
                   "what follows run: terrace repair %s",
                   path, (unsigned long long)offset, why, dir);
}

/* A backup holds sealed segments, which were synced whole. So what would pass for a torn tail after
 * a crash is damage here. */
static enum rc segment_strict(const char *name, void *arg, struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    struct strict *strict = arg;
    char path[PATH_BYTES_MAX], dir[PATH_BYTES_MAX];
    struct segment_turn turn;
    struct err bad = {0};
    uint64_t number;
    if (segment_name_parse(name, &number) != RC_OK || number <= strict->dir->mark.segment)
        return RC_OK;
    segment_path(path, strict->dir->journal_dir, number);
    journal__parent_path(dir, strict->dir->journal_dir);
    enum rc rc = segment_open(strict->dir->files, path, &reader, &bad);
    if (rc == RC_CORRUPT)
        return segment_damage(path, 0, bad.text, dir, err);
    if (rc != RC_OK)
        return err_set(err, rc, "%s", bad.text);
    const struct segment_header *header = segment_reader_header(reader);
    if (strict->has_before &&
        (header->bytes_before != strict->bytes || header->chain_before != strict->chain ||
         header->last_lsn_before != strict->lsn))
        return segment_damage(path, 0, "it does not follow the segment before it", dir, err);
    while (rc == RC_OK)
        rc = segment_next(reader, &turn, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    if (segment_reader_end(reader) != SEGMENT_END_CLEAN)
        return segment_damage(path, segment_reader_offset(reader), segment_reader_reason(reader),
                              dir, err);
    strict->has_before = true;
    strict->bytes = segment_reader_offset(reader);
    strict->lsn = segment_reader_last_lsn(reader);
    strict->chain = segment_reader_chain(reader);
    return RC_OK;
}

static enum rc copy_check(const struct store_restore_options *options, const struct store_dir *from,
                          struct store_restore_result *result, struct err *err)
{
    CLEANUP(store_dir_done) struct store_dir dir = {.files = options->files};
    struct store_repair_result journal = {0};
    catalog_init(&dir.catalog, options->rand);
    dir.catalog.spaces = from->catalog.spaces;
    memcpy(dir.catalog.uuid, from->catalog.uuid, sizeof dir.catalog.uuid);
    for (size_t i = 0; i < from->catalog.prefix_count; i++)
        catalog_prefix_add(&dir.catalog, from->catalog.prefix[i].space,
                           from->catalog.prefix[i].bytes);
    enum rc rc = path_join(dir.engine_dir, options->to, "engine", err);
    if (rc == RC_OK)
        rc = path_join(dir.journal_dir, options->to, "journal", err);
    if (rc == RC_OK)
        rc = engine_look(&dir, options->engine, err);
    if (rc == RC_OK)
        rc = engine_check(&dir, &result->row_count, err);
    struct strict strict = {.dir = &dir};
    if (rc == RC_OK && !from->lock)
        rc = files_list(dir.files, dir.journal_dir, segment_strict, &strict, err);
    if (rc == RC_OK)
        rc = journal_check(&dir, false, NULL, &journal, err);
    if (rc != RC_OK)
        return rc;
    result->segment_count = journal.segment_count;
    result->turn_count = journal.turn_count;
    result->last_lsn = journal.last_lsn;
    result->incarnation = dir.catalog.incarnation;
    return catalog_write(&dir.catalog, options->files, options->to, err);
}

/* The copy goes away, so an error names the same file where it came from. */
static void err_of_source(const struct store_restore_options *options, struct err *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, (size_t)8 * ERR_TEXT_BYTES);
    const char *at = err->text, *found;
    bool ok = true;
    while (ok && (found = strstr(at, options->to))) {
        ok = buf_add(&text, at, (size_t)(found - at)) && buf_printf(&text, "%s", options->from);
        at = found + strlen(options->to);
    }
    ok = ok && buf_add(&text, at, strlen(at) + 1);
    if (ok)
        snprintf(err->text, sizeof err->text, "%s", (const char *)text.ptr);
}

static enum rc name_found(const char *name, void *arg, struct err *err)
{
    (void)name;
    (void)arg;
    (void)err;
    return RC_OK;
}

static enum rc to_make(const struct store_restore_options *options, struct err *err)
{
    struct err ignored = {0};
    enum rc rc = files_list(options->files, options->to, name_found, NULL, &ignored);
    if (rc == RC_OK)
        return err_set(err, RC_BUSY, "\"%s\" exists", options->to);
    if (rc != RC_NOT_FOUND)
        return err_set(err, rc, "%s", ignored.text);
    return files_make_dir(options->files, options->to, err);
}

static enum rc name_remove(const char *name, void *arg, struct err *err)
{
    const struct copy *dir = arg;
    char path[PATH_BYTES_MAX];
    if (snprintf(path, sizeof path, "%s/%s/%s", dir->options->to, dir->name, name) < PATH_BYTES_MAX)
        return files_remove(dir->options->files, path, err);
    return RC_OK;
}

/* What was made, and nothing else. */
static void to_remove(const struct store_restore_options *options)
{
    static const char *const names[] = {"engine", "journal"};
    struct err ignored = {0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct copy dir = {.options = options, .name = names[i]};
        char path[PATH_BYTES_MAX];
        if (path_join(path, options->to, names[i], &ignored) != RC_OK)
            continue;
        enum rc listed = files_list(options->files, path, name_remove, &dir, &ignored);
        if (listed == RC_OK && files_remove(options->files, path, &ignored) != RC_OK)
            return;
    }
    enum rc rc = files_remove(options->files, options->to, &ignored);
    (void)rc; /* without a catalogue what is left is not taken for a store */
}

enum rc store_restore(const struct store_restore_options *options,
                      struct store_restore_result *ret_result, struct err *err)
{
    CLEANUP(store_dir_done) struct store_dir from = {0};
    struct store_restore_result result = {0};
    enum rc rc = dir_begin(&from, options->files, options->from, err);
    if (rc != RC_OK)
        return rc;
    rc = to_make(options, err);
    if (rc != RC_OK)
        return rc;
    rc = copy_dir(options, "engine", &result.file_count, err);
    if (rc == RC_OK)
        rc = copy_dir(options, "journal", &result.file_count, err);
    if (rc == RC_OK)
        rc = copy_check(options, &from, &result, err);
    if (rc != RC_OK) {
        to_remove(options);
        if (rc == RC_CORRUPT && err)
            err_of_source(options, err);
        return rc;
    }
    *ret_result = result;
    return RC_OK;
}

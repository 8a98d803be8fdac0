// SPDX-License-Identifier: Apache-2.0
/* fs.c - rows of inodes and edges read and written in a commit, and the counters over them. */
#include "models/fs/fs_int.h"

#include <inttypes.h>

#include "base/mem.h"
#include "models/fs/job.h"
#include "types/spaces.h"

#include "base/banned.h"

enum { IDS_RESERVED = 1000, REFUSED_BYTES_SHOWN = 200 };

/* ---- life ---- */

static enum rc counters_open(struct fs *fs, struct err *err)
{
    const struct {
        struct bytes name;
        uint32_t *number;
    } counter[] = {{BYTES(FS_COUNTER_FILES), &fs->file_count},
                   {BYTES(FS_COUNTER_DIRS), &fs->dir_count},
                   {BYTES(FS_COUNTER_BYTES), &fs->bytes},
                   {BYTES(FS_COUNTER_GRAVES), &fs->graves}};
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(counter); i++)
        rc = store_counter(fs->store, counter[i].name, counter[i].number, err);
    return rc;
}

enum rc fs_open(const struct fs_options *options, struct fs **ret_fs, struct err *err)
{
    struct fs *fs = mem_zalloc(sizeof *fs);
    fs->store = options->store;
    fs->tasks = options->tasks;
    fs->clock = options->clock;
    fs->wake = options->wake;
    fs->wake_arg = options->wake_arg;
    arena_init(&fs->arena);
    enum rc rc = store_prefix(fs->store, SPACE_INODE, BYTES(""), &fs->inode, err);
    if (rc == RC_OK)
        rc = store_prefix(fs->store, SPACE_EDGE, BYTES(""), &fs->edge, err);
    if (rc == RC_OK)
        rc = counters_open(fs, err);
    if (rc != RC_OK) {
        fs_close(fs);
        return rc;
    }
    if (fs->tasks)
        fs->sweep = fs__sweep_new(fs);
    *ret_fs = fs;
    return RC_OK;
}

void fs_close(struct fs *fs)
{
    if (!fs)
        return;
    fs__jobs_close(fs);
    fs__sweep_free(fs->sweep);
    arena_done(&fs->arena);
    mem_free(fs);
}

void fs_turn(struct fs *fs)
{
    fs__sweep_wake(fs->sweep);
    fs__jobs_turn(fs);
}

struct fs_counts fs_counts(const struct fs *fs)
{
    return (struct fs_counts){.files = store_counter_get(fs->store, fs->file_count),
                              .dirs = store_counter_get(fs->store, fs->dir_count),
                              .bytes = store_counter_get(fs->store, fs->bytes),
                              .graves = store_counter_get(fs->store, fs->graves),
                              .swept_count = fs__sweep_count(fs->sweep)};
}

/* ---- errors ---- */

enum rc fs__refuse(struct err *err, const char *code, const char *text, struct bytes what)
{
    int len = what.len < REFUSED_BYTES_SHOWN ? (int)what.len : REFUSED_BYTES_SHOWN;
    return err_set(err, RC_REPLY, "%s %s: %.*s%s", code, text, len, (const char *)what.ptr,
                   what.len > REFUSED_BYTES_SHOWN ? "..." : "");
}

enum rc fs__corrupt(struct err *err, uint64_t id)
{
    struct err why = *err;
    return err_set(err, RC_REPLY, "CORRUPT inode %" PRIu64 ": %.300s; FS.CHECK REPAIR heals it", id,
                   why.text);
}

/* ---- rows ---- */

static enum rc entry_read(struct fs *fs, uint64_t id, struct bytes value,
                          struct fs_entry *ret_entry, struct err *err)
{
    struct err why;
    if (fs_entry_decode(value, ret_entry, &why) == RC_OK)
        return RC_OK;
    (void)fs;
    *err = why;
    return fs__corrupt(err, id);
}

enum rc fs__entry_get(struct fs *fs, uint64_t id, struct fs_entry *ret_entry, struct err *err)
{
    struct fs_key key = fs__key(id);
    struct bytes value;
    enum rc rc = store_get(fs->store, fs__inode(fs, &key), BYTES(""), &value, err);
    if (rc == RC_OK)
        return entry_read(fs, id, value, ret_entry, err);
    if (rc == RC_NOT_FOUND && id == FS_ID_ROOT) {
        fs_entry_root(0, ret_entry);
        return RC_OK;
    }
    return rc;
}

enum rc fs__entry_put(struct fs *fs, uint64_t id, const struct fs_entry *entry, struct err *err)
{
    uint8_t value[FS_ENTRY_BYTES_MAX];
    struct fs_key key = fs__key(id);
    return store_put(fs->store, fs__inode(fs, &key), BYTES(""),
                     bytes_of(value, fs_entry_encode(entry, value)), err);
}

static enum rc deleted(enum rc rc)
{
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc fs__entry_delete(struct fs *fs, uint64_t id, struct err *err)
{
    struct fs_key key = fs__key(id);
    return deleted(store_delete(fs->store, fs__inode(fs, &key), BYTES(""), err));
}

enum rc fs__edge_get(struct fs *fs, uint64_t parent, struct bytes name, uint64_t *ret_child,
                     struct err *err)
{
    struct fs_key key = fs__key(parent);
    struct bytes value;
    enum rc rc = store_get(fs->store, fs__edges(fs, &key), name, &value, err);
    if (rc != RC_OK)
        return rc;
    if (fs_edge_decode(value, ret_child, err) != RC_OK)
        return fs__corrupt(err, parent);
    return RC_OK;
}

enum rc fs__edge_put(struct fs *fs, uint64_t parent, struct bytes name, uint64_t child,
                     struct err *err)
{
    struct fs_key key = fs__key(parent), value = fs__key(child);
    return store_put(fs->store, fs__edges(fs, &key), name, bytes_of(value.bytes, FS_ID_BYTES), err);
}

enum rc fs__edge_delete(struct fs *fs, uint64_t parent, struct bytes name, struct err *err)
{
    struct fs_key key = fs__key(parent);
    return deleted(store_delete(fs->store, fs__edges(fs, &key), name, err));
}

enum rc fs__has_children(struct fs *fs, uint64_t id, bool *ret_has, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct fs_key key = fs__key(id);
    struct bytes name, value;
    store_walk_init(&walk, fs->store, fs__edges(fs, &key), false);
    enum rc rc = store_walk_next(&walk, &name, &value, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_has = rc == RC_OK;
    return RC_OK;
}

/* ---- ids ---- */

static bool is_empty(const struct fs *fs)
{
    return store_counter_get(fs->store, fs->file_count) == 0 &&
           store_counter_get(fs->store, fs->dir_count) == 0;
}

/* The first id that no row reserves; a tree that has reserved none holds nothing. */
static enum rc next_id_read(struct fs *fs, uint64_t *ret_id, bool *ret_new, struct err *err)
{
    struct fs_key key = fs__key(FS_KEY_NEXT_ID);
    struct bytes value;
    enum rc rc = store_get(fs->store, fs__inode(fs, &key), BYTES(""), &value, err);
    *ret_new = rc == RC_NOT_FOUND;
    if (rc == RC_NOT_FOUND && !is_empty(fs)) { /* ids would be used twice */
        (void)err_set(err, RC_CORRUPT, "the row of the next inode id is lost");
        return fs__corrupt(err, FS_KEY_NEXT_ID);
    }
    if (rc == RC_NOT_FOUND) {
        *ret_id = FS_ID_FIRST;
        return RC_OK;
    }
    if (rc == RC_OK && fs_next_id_decode(value, ret_id, err) != RC_OK)
        return fs__corrupt(err, FS_KEY_NEXT_ID);
    return rc;
}

static enum rc root_put(struct fs *fs, uint64_t now_ms, struct err *err)
{
    struct fs_key key = fs__key(FS_ID_ROOT);
    struct fs_entry root;
    struct bytes value;
    enum rc rc = store_get(fs->store, fs__inode(fs, &key), BYTES(""), &value, err);
    if (rc != RC_NOT_FOUND)
        return rc; /* CHMOD has written it before */
    fs_entry_root(now_ms, &root);
    return fs__entry_put(fs, FS_ID_ROOT, &root, err);
}

enum rc fs__id_new(struct fs *fs, uint64_t now_ms, uint64_t *ret_id, struct err *err)
{
    uint64_t first;
    bool is_new;
    enum rc rc = next_id_read(fs, &first, &is_new, err);
    if (rc != RC_OK)
        return rc;
    if (first != fs->ids_end || fs->next_id == fs->ids_end) {
        struct fs_key key = fs__key(FS_KEY_NEXT_ID);
        uint8_t value[FS_ID_BYTES];
        uint64_t end = FS_ID_END - first < IDS_RESERVED ? FS_ID_END : first + IDS_RESERVED;
        if (first >= FS_ID_END)
            return err_set(err, RC_REPLY, "RESOURCE all inode ids are used");
        if (is_new)
            rc = root_put(fs, now_ms, err);
        le64_put(value, end);
        if (rc == RC_OK)
            rc = store_put(fs->store, fs__inode(fs, &key), BYTES(""), bytes_of(value, sizeof value),
                           err);
        if (rc != RC_OK)
            return rc;
        fs->next_id = first;
        fs->ids_end = end;
    }
    *ret_id = fs->next_id++;
    return RC_OK;
}

/* ---- counters ---- */

enum rc fs__count(struct fs *fs, const struct fs_entry *entry, int sign, struct err *err)
{
    bool is_dir = fs_entry_is_dir(entry);
    enum rc rc = store_counter_add(fs->store, is_dir ? fs->dir_count : fs->file_count, sign, err);
    if (rc == RC_OK)
        rc = fs__count_bytes(fs, sign < 0 ? entry->size : 0, sign < 0 ? 0 : entry->size, err);
    return rc;
}

enum rc fs__count_bytes(struct fs *fs, uint64_t from, uint64_t to, struct err *err)
{
    int64_t bytes = store_counter_get(fs->store, fs->bytes);
    int64_t delta = (int64_t)to - (int64_t)from;
    if (delta > 0 && bytes > INT64_MAX - delta)
        return err_set(err, RC_REPLY, "RESOURCE all files together would be over %" PRIi64 " bytes",
                       INT64_MAX);
    if (delta < 0 && bytes < -delta) /* the size was damaged: it stops nobody */
        delta = bytes > 0 ? -bytes : 0;
    return store_counter_add(fs->store, fs->bytes, delta, err);
}

/* ---- both rows ---- */

enum rc fs__erase(struct fs *fs, uint64_t id, const struct fs_entry *entry, struct err *err)
{
    enum rc rc = fs__count(fs, entry, -1, err);
    if (rc == RC_OK)
        rc = fs__edge_delete(fs, entry->parent, entry->name, err);
    if (rc == RC_OK)
        rc = fs__entry_delete(fs, id, err);
    return rc;
}

enum rc fs__bury(struct fs *fs, uint64_t id, const struct fs_entry *entry, struct err *err)
{
    struct fs_entry grave = *entry;
    struct fs_key name = fs__key(id);
    struct err why;
    grave.name = arena_copy(&fs->arena, entry->name); /* it is borrowed from the row that changes */
    grave.parent = FS_ID_GRAVEYARD;
    enum rc rc = fs__edge_delete(fs, entry->parent, grave.name, err);
    if (fs_name_check(grave.name, &why) != RC_OK) /* that of a damaged edge */
        grave.name = BYTES("lost");
    if (rc == RC_OK)
        rc = fs__edge_put(fs, FS_ID_GRAVEYARD, bytes_of(name.bytes, FS_ID_BYTES), id, err);
    if (rc == RC_OK)
        rc = fs__entry_put(fs, id, &grave, err);
    if (rc == RC_OK)
        rc = store_counter_add(fs->store, fs->graves, 1, err);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* shard.h - what a kind of shard file does. One const table a kind: shard_sqlite.c, shard_lmdb.c.
 *
 * A shard is one file with the tiles of one type that tilekey_place() puts there. A file carries a
 * mark of its format; what is in it is never guessed.
 *
 * Errors: RC_CORRUPT, the file is not what it should be, and prove() may say whether that is sure;
 * RC_VERSION, another format or schema; RC_BUSY, locked by somebody; RC_FULL, RC_IO. Only
 * RC_CORRUPT is ever a reason to set a file aside.
 *
 * Ownership: what get() and scan() give is copied or good until the callback returns.
 * Threads: any; a shard locks itself. Never the executor. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "models/tile/tile.h"

struct shard_table { /* what is in the file */
    char name[TILE_TYPE_NAME_BYTES_MAX + 1];
    enum tile_kind kind;
    bool bare; /* values of KV shards have no header */
};

struct shard_change {
    struct tilekey key;
    bool removed;
    uint8_t status; /* TILE_META */
    struct tile_value value;
};

struct shard_range {
    struct tilekey from, to; /* both included */
    unsigned level_from, level_to;
    uint64_t ms_from, ms_to;
    int status; /* TILE_META; -1: any */
    bool bytes; /* count(): those of data as well */
};

struct shard_look { /* whether a key is there */
    struct tilekey key;
    bool found;
    struct tile_scan_row row;
};

struct shard_count {
    uint64_t count, bytes;
    uint64_t by_status[TILE_STATUS_COUNT]; /* TILE_META */
};

enum shard_open { SHARD_READ, SHARD_WRITE };

struct shard_file { /* a file as it is at a moment: another one, or a changed one, differs */
    uint64_t device, inode, bytes, changed_ns;
};

static inline struct shard_file shard_file_of(const struct stat *stat_of)
{
    return (struct shard_file){.device = (uint64_t)stat_of->st_dev,
                               .inode = (uint64_t)stat_of->st_ino,
                               .bytes = (uint64_t)stat_of->st_size,
                               .changed_ns = (uint64_t)stat_of->st_ctim.tv_sec * 1000000000 +
                                             (uint64_t)stat_of->st_ctim.tv_nsec};
}
static inline bool shard_file_is_same(const struct shard_file *a, const struct shard_file *b)
{
    return a->device == b->device && a->inode == b->inode;
}
static inline bool shard_file_is_unchanged(const struct shard_file *a, const struct shard_file *b)
{
    return shard_file_is_same(a, b) && a->bytes == b->bytes && a->changed_ns == b->changed_ns;
}

struct shard_seen { /* a file that was looked through and found whole; zeroed: never */
    struct shard_file file;
    enum shard_open how; /* what may be done with it */
};

struct shard { /* embedded first in a kind's own struct */
    const struct shard_ops *ops;
    struct shard_table table;
    struct shard_seen seen; /* of kinds that look files through */
    _Atomic bool broken;    /* shared: the handle cannot be used any more */
};

/* False: enough. */
typedef bool shard_scan_fn(void *arg, const struct tile_scan_row *row);

struct shard_ops {
    const char *name;
    bool shared; /* readers and the writer must use one handle */
    /* SHARD_READ: RC_NOT_FOUND if there is no file, or nothing was ever written to it. SHARD_WRITE:
     * made if it is missing; its directory exists. */
    enum rc (*open)(const char *path, const struct shard_table *table, enum shard_open how,
                    const struct shard_seen *seen, struct shard **ret_shard, struct err *err);
    void (*close)(struct shard *shard);
    /* Before each use of a handle whose file is `now`: that nobody else has changed it, or that it
     * is whole again. NULL: the kind finds damage itself. */
    enum rc (*look)(struct shard *shard, enum shard_open how, const struct shard_file *now,
                    struct err *err);
    /* All or none, and on disk when it returns. */
    enum rc (*apply)(struct shard *shard, const struct shard_change *const *change, size_t count,
                     struct err *err);
    /* Appends the row as the store has it: header ‖ data, or status ‖ data. `at`: the newest of
     * this tile that is not after key.ms. RC_NOT_FOUND. */
    enum rc (*get)(struct shard *shard, struct tilekey key, bool at, struct buf *to,
                   struct tilekey *ret_key, struct err *err);
    /* Keys in their order, from range->from on. */
    enum rc (*scan)(struct shard *shard, const struct shard_range *range, shard_scan_fn *fn,
                    void *arg, struct err *err);
    /* How many there are in the range, and whether these are there, as of one moment. */
    enum rc (*count)(struct shard *shard, const struct shard_range *range, struct shard_look *look,
                     size_t look_count, struct shard_count *ret_count, struct err *err);
    /* After RC_CORRUPT, with no handle of ours open: whether the file is damaged for sure. */
    enum rc (*prove)(const char *path, const struct shard_table *table, bool *ret_damaged,
                     struct err *err);
    /* Files beside it that belong to it: "-wal"; up to NULL. */
    const char *const *beside;
    /* The first of them has changes that the file itself lacks: it must not meet another file. */
    bool beside_has_changes;
};

extern const struct shard_ops shard_sqlite_ops;
extern const struct shard_ops shard_lmdb_ops;

/* RC_VERSION: the file is another program's, and stays what it is. */
static inline enum rc shard_foreign(const char *path, const char *format, const char *own,
                                    struct err *err)
{
    return err_set(err, RC_VERSION,
                   "shard \"%s\" is a file of another program: its format is %s, not %s; move it "
                   "elsewhere, or give this kind of shards another directory",
                   path, format, own);
}

/* False: there is no such file, or it cannot be looked at. */
static inline bool shard_file_look(const char *path, struct shard_file *ret_file)
{
    struct stat stat_of;
    if (stat(path, &stat_of) != 0)
        return false;
    *ret_file = shard_file_of(&stat_of);
    return true;
}

/* Whether a row that was found is in the range; for kinds that filter themselves. */
static inline bool shard_range_takes(const struct shard_range *range, bool tm,
                                     const struct tile_scan_row *row)
{
    unsigned level = tilekey_level(row->key.packed);
    return level >= range->level_from && level <= range->level_to &&
           (!tm || (row->key.ms >= range->ms_from && row->key.ms <= range->ms_to)) &&
           (range->status < 0 || row->status == range->status);
}

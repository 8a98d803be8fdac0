// SPDX-License-Identifier: Apache-2.0
/* fs_int.h - the file system's struct, for the files of this folder.
 *
 * Threads: the executor, except where a field says otherwise. */
#pragma once

#include "base/codec.h"
#include "models/fs/fs.h"
#include "models/fs/path.h"

#define FS_COUNTER_FILES "fs:files"
#define FS_COUNTER_DIRS "fs:dirs"
#define FS_COUNTER_BYTES "fs:bytes"
#define FS_COUNTER_GRAVES "fs:graves"

struct fs_sweep;
struct fs_job;

/* Where a directory was when it was last passed, by the hash of its path. Only for fs_prefetch():
 * it may be anything. */
enum { FS_HINTS = 256 };
struct fs_hint {
    uint64_t hash, id;
};

/* Where the last path was: its directory need not be looked up again while no edge changes. */
enum { FS_LAST_BYTES = 256 };
struct fs_last {
    uint64_t changes;            /* store_group_changes() then */
    uint64_t id;                 /* of the directory */
    size_t len;                  /* 0: nothing is known */
    uint8_t path[FS_LAST_BYTES]; /* of the directory, with a slash at its end */
};

struct fs {
    struct store *store;
    struct tasks *tasks;
    const struct clock *clock;
    uint32_t inode, edge;                          /* prefixes */
    uint32_t file_count, dir_count, bytes, graves; /* numbers of counters */
    /* Ids that are reserved and not used; good while ids_end is what the row says (design,
     * invariant 3). */
    uint64_t next_id, ids_end;
    uint64_t repair_lsn; /* of the last commit that has set counters right */
    struct arena arena;  /* of the call that runs */
    bool missing;        /* the call was refused because nothing is there */
    struct fs_sweep *sweep;
    struct fs_job *jobs; /* in order of arrival */
    void (*wake)(void *arg);
    void *wake_arg;
    struct fs_last last;
    struct fs_hint hint[FS_HINTS];
};

/* ---- errors ---- */

/* "CODE text: what" */
enum rc fs__refuse(struct err *err, const char *code, const char *text, struct bytes what);
/* A row that could not be decoded: `err` says why. */
enum rc fs__corrupt(struct err *err, uint64_t id);

/* ---- rows ---- */

struct fs_key { /* of an inode, or of a group of edges */
    uint8_t bytes[FS_ID_BYTES];
};
static inline struct fs_key fs__key(uint64_t id)
{
    struct fs_key key;
    be64_put(key.bytes, id);
    return key;
}
static inline struct store_group fs__inode(const struct fs *fs, const struct fs_key *key)
{
    return (struct store_group){fs->inode, bytes_of(key->bytes, FS_ID_BYTES)};
}
static inline struct store_group fs__edges(const struct fs *fs, const struct fs_key *key)
{
    return (struct store_group){fs->edge, bytes_of(key->bytes, FS_ID_BYTES)};
}

/* RC_NOT_FOUND: there is no such row. The root of an empty tree is there. */
enum rc fs__entry_get(struct fs *fs, uint64_t id, struct fs_entry *ret_entry,
                      struct err *err) NODISCARD;
enum rc fs__entry_put(struct fs *fs, uint64_t id, const struct fs_entry *entry,
                      struct err *err) NODISCARD;
enum rc fs__entry_delete(struct fs *fs, uint64_t id, struct err *err) NODISCARD;
/* RC_NOT_FOUND. */
enum rc fs__edge_get(struct fs *fs, uint64_t parent, struct bytes name, uint64_t *ret_child,
                     struct err *err) NODISCARD;
enum rc fs__edge_put(struct fs *fs, uint64_t parent, struct bytes name, uint64_t child,
                     struct err *err) NODISCARD;
enum rc fs__edge_delete(struct fs *fs, uint64_t parent, struct bytes name,
                        struct err *err) NODISCARD;
enum rc fs__has_children(struct fs *fs, uint64_t id, bool *ret_has, struct err *err) NODISCARD;
/* An id that no inode has had. RESOURCE: all are used. */
enum rc fs__id_new(struct fs *fs, uint64_t now_ms, uint64_t *ret_id, struct err *err) NODISCARD;
/* The counters follow an entry that came (sign 1) or goes (sign -1). */
enum rc fs__count(struct fs *fs, const struct fs_entry *entry, int sign, struct err *err) NODISCARD;
/* The counter of bytes follows a size. RESOURCE: no number could hold it. */
enum rc fs__count_bytes(struct fs *fs, uint64_t from, uint64_t to, struct err *err) NODISCARD;
/* Cuts a subtree off: its top goes to the graveyard. */
enum rc fs__bury(struct fs *fs, uint64_t id, const struct fs_entry *entry,
                 struct err *err) NODISCARD;
/* Both rows of something without children. */
enum rc fs__erase(struct fs *fs, uint64_t id, const struct fs_entry *entry,
                  struct err *err) NODISCARD;

/* ---- lookup ---- */

struct fs_place {
    uint64_t parent;   /* 0: it is the root */
    struct bytes name; /* borrowed from the path */
    uint64_t id;       /* 0: nothing is there, but its parent is */
    bool passed;       /* the id of `past` is on the way, above it */
};
/* past: 0, or an id whose place on the way is to be known. NOTFOUND, NOTDIR: of what is above. */
enum rc fs__place(struct fs *fs, struct bytes text, uint64_t past, struct fs_place *ret_place,
                  struct err *err) NODISCARD;
/* The directory part of a path leads to this inode. */
void fs__hint_set(struct fs *fs, struct bytes text, struct bytes name, uint64_t id);
/* The entry of what is at the place. CORRUPT: there is none, or it says that it stands elsewhere.
 */
enum rc fs__entry_at(struct fs *fs, const struct fs_place *place, struct fs_entry *ret_entry,
                     struct err *err) NODISCARD;
/* Nothing is at the place: NOTFOUND, or NOTDIR if its parent is a file. */
enum rc fs__missing(struct fs *fs, uint64_t parent, struct bytes text, struct err *err) NODISCARD;
/* NOTDIR: the inode that the path names, or whose child it names, is a file. */
enum rc fs__dir_check(struct fs *fs, uint64_t id, struct bytes text, struct err *err) NODISCARD;
/* Something is there, and its entry. */
enum rc fs__target(struct fs *fs, struct bytes target, uint64_t *ret_id, struct fs_entry *ret_entry,
                   struct err *err) NODISCARD;

/* ---- owners and groups ---- */

/* The id of a name, which is added if it is new. */
enum rc fs__dict_id(struct fs *fs, uint64_t dict, struct bytes name, uint8_t *ret_id,
                    struct err *err) NODISCARD;
/* Copied to fs->arena. */
enum rc fs__dict_name(struct fs *fs, uint64_t dict, uint8_t id, struct bytes *ret_name,
                      struct err *err) NODISCARD;

/* ---- the sweep ---- */

struct fs_sweep *fs__sweep_new(struct fs *fs);
void fs__sweep_free(struct fs_sweep *sweep);
void fs__sweep_wake(struct fs_sweep *sweep); /* if it sleeps, and there is something */
uint64_t fs__sweep_count(const struct fs_sweep *sweep);

// SPDX-License-Identifier: Apache-2.0
/* fs.h - the metadata of a file system: one tree of directories and files, on rows of the store.
 *
 * Functions run inside a commit and may answer RC_COLD at any read; then they leave nothing behind.
 * Errors of the tree are RC_REPLY with a text whose first word names them:
 *   NOTFOUND EXISTS NOTDIR ISDIR NOTEMPTY ROOT SUBTREE RESOURCE CORRUPT
 * Malformed paths, names and numbers are RC_INVALID.
 *
 * "target" is a path, which begins with a slash, or an inode's id in decimal digits.
 *
 * Ownership: the caller owns what fs_open() gives; the store and the tasks are borrowed for its
 * life. What a call gives is borrowed until the next one.
 * Threads: the executor. */
#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "models/fs/entry.h"
#include "store/store.h"
#include "store/task.h"

struct fs; /* defined in models/fs/fs_int.h */

struct fs_options {
    struct store *store;
    struct tasks *tasks; /* NULL: removed subtrees are not swept, long commands are refused */
    const struct clock *clock;
    /* From any thread: fs_turn() has something to do. May be NULL. */
    void (*wake)(void *arg);
    void *wake_arg;
};

/* Outside commits. Registers the spaces' prefixes; reads no row. */
enum rc fs_open(const struct fs_options *options, struct fs **ret_fs, struct err *err) NODISCARD;
void fs_close(struct fs *fs); /* NULL is allowed */
/* Once a turn, outside commits: long commands go on. */
void fs_turn(struct fs *fs);

struct fs_counts {
    int64_t files, dirs, bytes; /* of everything that has rows; dirs without the root */
    int64_t graves;             /* subtrees that are removed and not swept yet */
    uint64_t swept_count;       /* inodes removed by the sweep since the start */
};
struct fs_counts fs_counts(const struct fs *fs);

/* These paths will be looked up in a moment: brings what is hot of them into the processor's cache,
 * all at once. Changes nothing, answers nothing; outside commits. */
void fs_prefetch(struct fs *fs, const struct bytes *path, size_t count);

/* ---- changing ---- */

struct fs_attrs { /* of something new, or of CHMOD, CHOWN and UTIME: only what `has_` says */
    uint64_t now_ms;
    bool has_mode, has_owner, has_group;
    uint32_t mode;
    struct bytes owner, group; /* names; empty: none */
    uint64_t block_size;       /* of a new file */
    bool has_create, has_modify;
    uint64_t create_ms, modify_ms;
};

/* parents: what is missing above it is made as well, and a directory that is there is given. */
enum rc fs_mkdir(struct fs *fs, struct bytes path, bool parents, const struct fs_attrs *attrs,
                 uint64_t *ret_id, struct err *err) NODISCARD;
enum rc fs_create(struct fs *fs, struct bytes path, const struct fs_attrs *attrs, uint64_t *ret_id,
                  struct err *err) NODISCARD;
/* Sets the size and the time of modification of a file; `complete`: it is complete from now on. */
enum rc fs_resize(struct fs *fs, struct bytes target, uint64_t size, bool complete, uint64_t now_ms,
                  struct err *err) NODISCARD;
enum rc fs_attrs_set(struct fs *fs, struct bytes target, const struct fs_attrs *attrs,
                     struct err *err) NODISCARD;
enum rc fs_move(struct fs *fs, struct bytes from, struct bytes to, bool replace,
                struct err *err) NODISCARD;
enum rc fs_remove(struct fs *fs, struct bytes path, bool recursive, struct err *err) NODISCARD;

/* ---- reading ---- */

struct fs_stat {
    uint64_t id;
    struct fs_entry entry;
    struct bytes owner, group;
    struct bytes path; /* empty: nobody has asked for it */
};
/* with_path: of an id as well, which walks up to the root. */
enum rc fs_stat(struct fs *fs, struct bytes target, bool with_path, struct fs_stat *ret_stat,
                struct err *err) NODISCARD;
/* The same for what may be missing: *ret_found false. */
enum rc fs_stat_try(struct fs *fs, struct bytes path, bool *ret_found, struct fs_stat *ret_stat,
                    struct err *err) NODISCARD;

struct fs_page { /* of a directory, in order of names */
    struct fs_page_entry {
        struct bytes name;
        uint64_t id;
    } * entry;
    size_t count;
    bool more;
    struct bytes next; /* more: the name that comes behind the page */
};
/* From the first name at or behind `from` on. */
enum rc fs_list(struct fs *fs, struct bytes path, struct bytes from, size_t count_max,
                struct fs_page *ret_page, struct err *err) NODISCARD;
/* The inodes of a page will be read. */
enum rc fs_list_warm(struct fs *fs, const struct fs_page *page, struct err *err) NODISCARD;
enum rc fs_list_stat(struct fs *fs, const struct fs_page_entry *entry, struct fs_stat *ret_stat,
                     struct err *err) NODISCARD;

static inline uint64_t fs_block_count(const struct fs_entry *entry)
{
    return entry->block_size == 0 ? 0 : (entry->size + entry->block_size - 1) / entry->block_size;
}
static inline uint64_t fs_block_id(uint64_t inode, uint64_t index)
{
    return inode << 24 | index;
}
/* A FileInfo, as protocol-buffers have it; appended. RC_REPLY: RESOURCE, too many blocks. */
enum rc fs_info_encode(const struct fs_stat *stat, struct buf *to, struct err *err) NODISCARD;

/* ---- mounts ---- */

struct fs_mount {
    struct bytes path, uri;
};
enum rc fs_mount(struct fs *fs, struct bytes path, struct bytes uri, struct err *err) NODISCARD;
enum rc fs_unmount(struct fs *fs, struct bytes path, struct err *err) NODISCARD;
struct fs_mounts { /* a page of them, in order of paths */
    struct fs_mount *mount;
    size_t count;
    bool more;
    struct bytes next; /* more: the path that comes behind the page */
};
/* From the first path at or behind `from` on. */
enum rc fs_mounts(struct fs *fs, struct bytes from, size_t count_max, struct fs_mounts *ret_mounts,
                  struct err *err) NODISCARD;
/* The mount with the longest path that holds this one. NOTFOUND: there is none. *ret_rest: what
 * comes behind the mount, without a slash in front. */
enum rc fs_resolve(struct fs *fs, struct bytes path, struct fs_mount *ret_mount,
                   struct bytes *ret_rest, struct err *err) NODISCARD;

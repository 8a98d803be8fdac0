// SPDX-License-Identifier: Apache-2.0
/* source.h - rows of the file system to be read: those of the open commit, or those of a frozen
 * view.
 *
 * Over a commit every call may answer RC_COLD. Over a view it waits for the disk.
 *
 * Ownership: the caller owns the struct; what is given lives until the next call of the same kind.
 * Threads: over a commit the executor, over a view whoever has it. */
#pragma once

#include "models/fs/fs.h"

struct fs_source {
    struct fs *fs;                  /* over a commit; NULL over a view */
    struct engine *engine;          /* over a view */
    const struct engine_view *view; /* over a view */
    const struct space_set *spaces; /* over a view */
    struct buf key, end, value;     /* over a view: scratch */
    uint64_t row_count;             /* edges given so far */
};

void fs_source_init_commit(struct fs_source *source, struct fs *fs);
void fs_source_init_view(struct fs_source *source, struct store *store,
                         const struct engine_view *view);
void fs_source_done(struct fs_source *source);

/* RC_NOT_FOUND; CORRUPT as RC_REPLY. */
enum rc fs_source_entry(struct fs_source *source, uint64_t id, struct fs_entry *ret_entry,
                        struct err *err) NODISCARD;
enum rc fs_source_edge(struct fs_source *source, uint64_t parent, struct bytes name,
                       uint64_t *ret_child, struct err *err) NODISCARD;
/* The inode at a path, as fs__place() finds it. */
enum rc fs_source_path(struct fs_source *source, struct bytes path, uint64_t *ret_id,
                       struct fs_entry *ret_entry, struct err *err) NODISCARD;

enum { FS_DIR_PAGE_ITEMS = 256 };
struct fs_dir_item {
    struct bytes name;
    uint64_t id;
    struct fs_entry entry; /* its name is `name` */
};
struct fs_dir_page {
    struct fs_dir_item *item; /* owned */
    size_t count, cap;
    struct arena arena; /* names */
    bool more;
};
void fs_dir_page_init(struct fs_dir_page *page);
void fs_dir_page_done(struct fs_dir_page *page);
/* The entries of a directory behind a name (empty: from the first on), with their inodes. */
enum rc fs_source_page(struct fs_source *source, uint64_t dir, struct bytes after,
                       struct fs_dir_page *page, struct err *err) NODISCARD;

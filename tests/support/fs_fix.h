// SPDX-License-Identifier: Apache-2.0
/* fs_fix.h - a file system on a store in memory without threads, whose rows can be made cold, and
 * damaged.
 *
 * Ownership: the test owns the fixture.
 * Threads: the test's, and those of long commands. */
#pragma once

#include "models/fs/check.h"
#include "models/fs/query.h"
#include "support/kv_fix.h"

struct fs_fix {
    struct kv_fix kv;
    struct tasks *tasks;
    struct fs *fs;
    uint32_t inode, edge; /* prefixes */
    struct err err;
};

void fs_fix_init(struct fs_fix *fix);
void fs_fix_done(struct fs_fix *fix);
void fs_fix_reopen(struct fs_fix *fix);

/* One commit each; RC_COLD is answered by loading. */
enum rc fs_fix_mkdir(struct fs_fix *fix, const char *path, uint64_t *ret_id);
enum rc fs_fix_create(struct fs_fix *fix, const char *path, uint64_t *ret_id);
enum rc fs_fix_remove(struct fs_fix *fix, const char *path, bool recursive);
enum rc fs_fix_move(struct fs_fix *fix, const char *from, const char *to);
enum rc fs_fix_resize(struct fs_fix *fix, const char *path, uint64_t size);
enum rc fs_fix_chown(struct fs_fix *fix, const char *path, const char *owner);
/* The id; 0: not there, and fix->err says why. */
uint64_t fs_fix_id(struct fs_fix *fix, const char *target);
/* Of what is there. */
struct fs_entry fs_fix_stat(struct fs_fix *fix, const char *target);

/* Rows as they are. A value of NULL: the row is deleted. */
void fs_fix_inode_put(struct fs_fix *fix, uint64_t id, const void *value, size_t len);
void fs_fix_edge_put(struct fs_fix *fix, uint64_t parent, struct bytes name, const void *value,
                     size_t len);

/* Turns until nothing happens any more: sweeps, and long commands. */
void fs_fix_turns(struct fs_fix *fix);
struct fs_check_result fs_fix_check(struct fs_fix *fix, bool repair);
/* As a job, over a view. */
enum rc fs_fix_query(struct fs_fix *fix, const struct fs_query *query, struct fs_answer *answer);

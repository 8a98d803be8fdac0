// SPDX-License-Identifier: Apache-2.0
/* check.h - FS.CHECK: whether all rows fit together, and REPAIR.
 *
 * The rows of a frozen view are read by a thread (job.h); what does not fit is a finding. REPAIR
 * takes the findings, in order of their kinds, to the rows of now and heals what is still wrong
 * there (heal.c); then everything is read again, until nothing is found.
 *
 * Ownership: the caller owns what fs_check_new() gives.
 * Threads: the executor. */
#pragma once

#include "models/fs/fs.h"

enum fs_finding_kind {                      /* in the order in which they are healed */
                       FS_FOUND_NEXT_ID,    /* id: what it has to be at least */
                       FS_FOUND_DICTIONARY, /* id: its key */
                       FS_FOUND_FAR,        /* an inode whose id no server of ours has given */
                       FS_FOUND_EDGE,       /* damaged, or it and its inode do not fit */
                       FS_FOUND_BELOW,      /* an edge below something that is no directory */
                       FS_FOUND_INODE,  /* damaged, or no edge leads to it, or an owner that is not
                                           known */
                       FS_FOUND_CIRCLE, /* a directory that does not lead to the root */
                       FS_FOUND_ROW,    /* a row that nothing of ours has written; left as it is */
};

struct fs_finding {
    enum fs_finding_kind kind;
    uint64_t id;       /* of the inode, or of the edge's parent */
    struct bytes name; /* of the edge */
};

enum fs_counters {
    FS_COUNTERS_EXACT,
    FS_COUNTERS_CHANGING,
    FS_COUNTERS_WRONG,
    FS_COUNTERS_REPAIRED
};

struct fs_check_result {
    uint64_t inodes, edges; /* with the root, without mounts */
    uint64_t files, dirs, bytes, graves;
    uint64_t mounts;
    uint64_t problems; /* that the first reading has found */
    uint64_t repaired; /* rows healed */
    uint64_t left;     /* that the last reading has found */
    enum fs_counters counters;
    char example[FS_CHECK_EXAMPLES_MAX][160]; /* of the first reading */
    size_t example_count;
};

struct fs_check; /* defined in models/fs/check.c */
struct fs_check *fs_check_new(struct fs *fs, bool repair);
void fs_check_free(void *check);
/* A step, inside a commit of the task. RC_WAIT: call it again in another; RC_OK: it is through. */
enum rc fs_check_step(struct fs_check *check, struct task *task, struct err *err) NODISCARD;
const struct fs_check_result *fs_check_result(const struct fs_check *check);

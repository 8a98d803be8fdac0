// SPDX-License-Identifier: Apache-2.0
/* query.h - DU, TREE and FIND: commands that may meet millions of rows.
 *
 * A query that meets few rows, all in memory, is answered inside one commit. A longer one becomes a
 * job: it waits for a frozen view and is answered by a thread that reads it (job.h). Either way the
 * answer is exact: that of one moment.
 *
 * Ownership: an answer owns its buffers.
 * Threads: the executor, and a job's thread. */
#pragma once

#include <stdatomic.h>

#include "models/fs/source.h"

enum fs_query_kind { FS_QUERY_DU, FS_QUERY_TREE, FS_QUERY_FIND };

struct fs_query {
    enum fs_query_kind kind;
    struct bytes path;
    struct bytes pattern;    /* FIND: of a name; with a slash in it of the path */
    uint64_t depth_max;      /* TREE: deeper lines are not told, but counted */
    uint64_t line_count_max; /* FIND */
};

struct fs_totals {
    uint64_t bytes, files, dirs;
};

struct fs_line { /* TREE: one of the tree, above what is in it; FIND: a path */
    uint64_t depth;
    size_t name_at, name_len; /* in `names` */
    bool is_dir;
    struct fs_totals totals;
};

struct fs_answer {
    struct fs_totals totals; /* directories with the top */
    struct fs_line *line;
    size_t line_count, line_cap;
    struct buf names;
};

void fs_answer_init(struct fs_answer *answer);
void fs_answer_done(struct fs_answer *answer);

struct fs_walk_limits {
    uint64_t row_count_max;      /* 0: none. RC_WAIT: there are more */
    const _Atomic bool *stopped; /* may be NULL; RC_TIMEOUT: nobody wants to know any more */
};
enum rc fs_query_run(const struct fs_query *query, struct fs_source *source,
                     const struct fs_walk_limits *limits, struct fs_answer *answer,
                     struct err *err) NODISCARD;
/* Inside a commit. RC_WAIT: there is too much: it has to become a job. RC_COLD: a little of it is
 * cold, or a lot; who has waited often enough makes it a job. */
enum rc fs_query_try(struct fs *fs, const struct fs_query *query, struct fs_answer *answer,
                     struct err *err) NODISCARD;

struct fs_query_job; /* defined in models/fs/query.c */
struct fs_query_job *fs_query_start(struct fs *fs, const struct fs_query *query); /* copies */
void fs_query_end(void *job);
/* RC_WAIT: the task waits for it. The answer is borrowed from the job. */
enum rc fs_query_result(struct fs_query_job *job, struct task *task,
                        const struct fs_answer **ret_answer, struct err *err) NODISCARD;

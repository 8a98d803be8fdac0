// SPDX-License-Identifier: Apache-2.0
/* check_int.h - what check.c, check_read.c and heal.c share.
 *
 * Threads: fs__check_read() a job's thread, the others the executor. */
#pragma once

#include "models/fs/check.h"
#include "models/fs/fs_int.h"
#include "models/fs/job.h"

struct fs_reading { /* one pass over a view */
    struct fs_check_result seen;
    struct fs_finding *finding;
    size_t finding_count, finding_cap;
    size_t kept_count[FS_FOUND_ROW];
    enum fs_finding_kind kind_last; /* findings of kinds behind it are not kept */
    uint64_t problem_count;         /* with those that are not kept */
    struct fs_counts counts;        /* the counters of the view */
    struct arena arena;             /* names of findings */
};

void fs__reading_init(struct fs_reading *reading);
void fs__reading_done(struct fs_reading *reading);
enum rc fs__check_read(struct fs_source *source, const _Atomic bool *stopped,
                       struct fs_reading *reading, struct err *err) NODISCARD;
/* Inside a commit: what is still wrong with it is put right. *ret_changed: something was. */
enum rc fs__heal(struct fs *fs, const struct fs_finding *finding, uint64_t now_ms,
                 bool *ret_changed, struct err *err) NODISCARD;

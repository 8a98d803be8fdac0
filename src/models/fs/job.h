// SPDX-License-Identifier: Apache-2.0
/* job.h - a long command: a frozen view, and a thread that reads it.
 *
 *   NEW ──► FREEZING ──► READING ──► OVER
 *
 * Jobs take turns: only the first of the list freezes and reads. fs_turn() moves it on.
 *
 * Ownership: a job lives while whoever started it holds it, and until its thread has ended.
 * Threads: the executor; job->read() is called by the job's own thread. */
#pragma once

#include <stdatomic.h>

#include "base/thread.h"
#include "models/fs/source.h"
#include "store/turns.h"

enum fs_job_state { FS_JOB_NEW, FS_JOB_FREEZING, FS_JOB_READING, FS_JOB_OVER };

struct fs_job { /* embedded by what is asked for */
    /* Set before fs_job_start(). read() leaves its result in what it is embedded in. */
    enum rc (*read)(struct fs_job *job, struct fs_source *source, struct err *err);
    void (*free)(struct fs_job *job); /* nobody holds it any more */

    /* for job.c */
    struct fs *fs;
    struct fs_job *next;
    enum fs_job_state state;
    bool held;
    struct task *waiter; /* woken when it is over; NULL: none */
    struct store_freeze *freeze;
    const struct engine_view *view;
    uint64_t lsn; /* of the view */
    struct thread thread;
    _Atomic bool stopped;    /* shared: atomic; read() should end */
    _Atomic bool read_ended; /* shared: atomic; rc and err are set */
    enum rc rc;
    struct err err;
};

void fs_job_start(struct fs *fs, struct fs_job *job);
void fs_job_end(struct fs_job *job); /* whoever started it lets it go, over or not */
/* RC_WAIT: not over, and the task waits for its end. Else what read() has returned. */
enum rc fs_job_result(struct fs_job *job, struct task *task, struct err *err) NODISCARD;
void fs__jobs_turn(struct fs *fs);
void fs__jobs_close(struct fs *fs);

// SPDX-License-Identifier: Apache-2.0
/* job.c - starts the thread of a long command, and ends what is over once a turn. */
#include "models/fs/job.h"

#include "models/fs/fs_int.h"
#include "store/turns.h"

#include "base/banned.h"

void fs_job_start(struct fs *fs, struct fs_job *job)
{
    struct fs_job **at = &fs->jobs;
    job->fs = fs;
    job->state = FS_JOB_NEW;
    job->held = true;
    while (*at)
        at = &(*at)->next;
    *at = job;
}

enum rc fs_job_result(struct fs_job *job, struct task *task, struct err *err)
{
    if (job->state == FS_JOB_OVER) {
        if (job->rc != RC_OK)
            *err = job->err;
        return job->rc;
    }
    job->waiter = task;
    task_wait_event(task);
    return RC_WAIT;
}

/* It leaves the list, and goes if nobody holds it. */
static void job_over(struct fs_job *job, enum rc rc)
{
    struct fs_job **at = &job->fs->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    store_freeze_end(job->fs->store, job->freeze);
    job->freeze = NULL;
    job->rc = rc;
    job->state = FS_JOB_OVER;
    if (job->waiter)
        task_wake(job->waiter);
    job->waiter = NULL;
    if (!job->held)
        job->free(job);
}

void fs_job_end(struct fs_job *job)
{
    job->held = false;
    job->waiter = NULL;
    atomic_store(&job->stopped, true);
    if (job->state == FS_JOB_OVER)
        job->free(job);
    else if (job->state != FS_JOB_READING)
        job_over(job, RC_TIMEOUT);
}

static void *job_thread(void *arg)
{
    struct fs_job *job = arg;
    struct fs *fs = job->fs;
    struct fs_source source;
    fs_source_init_view(&source, fs->store, job->view);
    job->rc = job->read(job, &source, &job->err);
    fs_source_done(&source);
    void (*wake)(void *wake_arg) = fs->wake;
    void *wake_arg = fs->wake_arg;
    atomic_store(&job->read_ended, true); /* the job may be gone from here on */
    if (wake)
        wake(wake_arg);
    return NULL;
}

/* A view is there, or an error. */
static void job_read(struct fs_job *job)
{
    struct engine_view *view = NULL;
    struct err why;
    enum rc rc = store_freeze_ready(job->freeze, &view, &job->lsn, &job->err);
    if (rc == RC_WAIT && store_flush_failed(job->fs->store, &why)) /* nobody knows how long */
        rc = err_set(&job->err, RC_IO, "no view of the tree can be made: %.300s", why.text);
    if (rc == RC_WAIT)
        return;
    if (rc != RC_OK) {
        job_over(job, rc);
        return;
    }
    job->view = view;
    job->state = FS_JOB_READING;
    rc = thread_start(&job->thread, "fs", job_thread, job, &job->err);
    if (rc != RC_OK)
        job_over(job, rc);
}

void fs__jobs_turn(struct fs *fs)
{
    struct fs_job *job = fs->jobs;
    if (!job)
        return;
    enum rc rc;
    switch (job->state) {
    case FS_JOB_NEW:
        rc = store_freeze_start(fs->store, &job->freeze, &job->err);
        job->state = FS_JOB_FREEZING;
        if (rc != RC_OK)
            job_over(job, rc);
        break;
    case FS_JOB_FREEZING:
        job_read(job);
        break;
    case FS_JOB_READING:
        if (!atomic_load(&job->read_ended))
            break;
        thread_join(&job->thread);
        job_over(job, job->rc);
        break;
    case FS_JOB_OVER:
        break;
    }
}

void fs__jobs_close(struct fs *fs)
{
    while (fs->jobs) {
        struct fs_job *job = fs->jobs;
        atomic_store(&job->stopped, true);
        thread_join(&job->thread);
        job_over(job, RC_TIMEOUT);
    }
}

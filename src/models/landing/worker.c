// SPDX-License-Identifier: Apache-2.0
/* worker.c - a thread with one queue of work and one database. */
#include "models/landing/worker.h"

#include "base/mem.h"
#include "base/thread.h"

#include "base/banned.h"

struct worker {
    struct shape_db *db; /* the thread's, except shape_interrupt() and shape_name() */
    struct thread thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct dlist waiting; /* shared: under lock */
    bool closing, ended;  /* shared: under lock */
};

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->waiting.first && !worker->closing)
            pthread_cond_wait(&worker->given, &worker->lock);
        if (worker->closing)
            break;
        struct work *work = DLIST_ITEM(dlist_take_first(&worker->waiting), struct work, link);
        pthread_mutex_unlock(&worker->lock);
        work->run(work, worker->db);
        pthread_mutex_lock(&worker->lock);
        work->done = true;
        if (!worker->closing) /* else its task may be gone */
            task_post(work->task);
    }
    worker->ended = true;
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

enum rc worker_new(const struct rule_spec *spec, struct identity *identity,
                   struct worker **ret_worker, struct err *err)
{
    struct shape_db *db;
    enum rc rc = shape_open(spec, identity, &db, err);
    if (rc != RC_OK)
        return rc;
    struct worker *worker = mem_zalloc(sizeof *worker);
    worker->db = db;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->given, NULL);
    rc = thread_start(&worker->thread, "landing", worker_run, worker, err);
    if (rc != RC_OK) {
        worker_free(worker);
        return rc;
    }
    *ret_worker = worker;
    return RC_OK;
}

void worker_stop(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->closing = true;
    pthread_cond_signal(&worker->given);
    pthread_mutex_unlock(&worker->lock);
    shape_interrupt(worker->db);
}

bool worker_has_ended(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->ended;
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    worker_stop(worker);
    thread_join(&worker->thread);
    pthread_cond_destroy(&worker->given);
    pthread_mutex_destroy(&worker->lock);
    shape_close(worker->db);
    mem_free(worker);
}

void worker_give(struct worker *worker, struct work *work)
{
    pthread_mutex_lock(&worker->lock);
    work->done = false;
    dlist_add_last(&worker->waiting, &work->link);
    pthread_cond_signal(&worker->given);
    pthread_mutex_unlock(&worker->lock);
}

bool work_is_done(struct worker *worker, const struct work *work)
{
    pthread_mutex_lock(&worker->lock);
    bool done = work->done;
    pthread_mutex_unlock(&worker->lock);
    return done;
}

const char *worker_name(const struct worker *worker)
{
    return shape_name(worker->db);
}

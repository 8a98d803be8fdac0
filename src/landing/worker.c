#include "landing/worker.h"

#include <errno.h>
#include <pthread.h>

#include "base/mem.h"

#include "base/banned.h"

struct worker {
    struct shape_db *db; /* the thread's, except shape_interrupt() and shape_name() */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct work *first, *last; /* shared: under lock */
    bool closing, ended;       /* shared: under lock */
};

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->first && !worker->closing)
            pthread_cond_wait(&worker->given, &worker->lock);
        if (worker->closing)
            break;
        struct work *work = worker->first;
        worker->first = work->next;
        if (!worker->first)
            worker->last = NULL;
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

enum rc worker_new(const struct rule_spec *spec, struct worker **ret_worker, struct err *err)
{
    struct shape_db *db;
    enum rc rc = shape_open(spec, &db, err);
    if (rc != RC_OK)
        return rc;
    struct worker *worker = mem_zalloc(sizeof *worker);
    worker->db = db;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->given, NULL);
    int error = pthread_create(&worker->thread, NULL, worker_run, worker);
    if (error != 0) {
        pthread_cond_destroy(&worker->given);
        pthread_mutex_destroy(&worker->lock);
        shape_close(db);
        mem_free(worker);
        return err_set(err, RC_NOMEM, "could not start a thread: %s", strerror(error));
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
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->given);
    pthread_mutex_destroy(&worker->lock);
    shape_close(worker->db);
    mem_free(worker);
}

void worker_give(struct worker *worker, struct work *work)
{
    pthread_mutex_lock(&worker->lock);
    work->done = false;
    work->next = NULL;
    if (worker->last)
        worker->last->next = work;
    else
        worker->first = work;
    worker->last = work;
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

// SPDX-License-Identifier: Apache-2.0
/* worker.c - one writing and several reading threads with their queues. */
#include "models/tile/worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"

#include "base/banned.h"

enum {
    READERS_MAX = 16,
    TAKE_MAX = 32,
    WRITER_NICE = 10, /* as the flusher: nobody waits for it while it keeps up */
};

struct workers {
    struct workers_options options;
    pthread_mutex_t lock;
    pthread_cond_t given[TILE_WORKERS];
    struct dlist list[TILE_WORKERS]; /* shared: under lock, as all below */
    struct dlist done;
    bool closing;
    struct thread thread[1 + READERS_MAX]; /* the first one writes */
};

static struct tile_work *work_of(struct dlink *link)
{
    return DLIST_ITEM(link, struct tile_work, link);
}

/* Several at once: a lock and a wake-up for each would cost more than a read does. */
static void works_run(struct workers *workers, enum tile_worker kind)
{
    struct tile_work *work[TAKE_MAX];
    size_t count = 0;
    size_t max = kind == TILE_WRITER ? 1 : TAKE_MAX;
    while (count < max && workers->list[kind].first)
        work[count++] = work_of(dlist_take_first(&workers->list[kind]));
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < count; i++)
        work[i]->run(work[i], workers->options.pool);
    pthread_mutex_lock(&workers->lock);
    bool was_empty = !workers->done.first;
    for (size_t i = 0; i < count; i++)
        dlist_add_last(&workers->done, &work[i]->link);
    if (was_empty && !workers->closing)
        workers->options.wake(workers->options.wake_arg);
}

static void worker_loop(struct workers *workers, enum tile_worker kind)
{
    pthread_mutex_lock(&workers->lock);
    while (!workers->closing) {
        if (workers->list[kind].first)
            works_run(workers, kind);
        else
            pthread_cond_wait(&workers->given[kind], &workers->lock);
    }
    pthread_mutex_unlock(&workers->lock);
}

static void *writer_run(void *arg)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), WRITER_NICE); /* where it is refused: as it is */
    worker_loop(arg, TILE_WRITER);
    return NULL;
}

static void *reader_run(void *arg)
{
    worker_loop(arg, TILE_READER);
    return NULL;
}

enum rc workers_new(const struct workers_options *options, struct workers **ret_workers,
                    struct err *err)
{
    struct workers *workers = mem_zalloc(sizeof *workers);
    workers->options = *options;
    ASSERT(options->reader_count <= READERS_MAX);
    pthread_mutex_init(&workers->lock, NULL);
    for (int i = 0; i < TILE_WORKERS; i++)
        pthread_cond_init(&workers->given[i], NULL);
    enum rc rc = thread_start(&workers->thread[0], "tile writer", writer_run, workers, err);
    for (uint32_t i = 1; i <= options->reader_count && rc == RC_OK; i++)
        rc = thread_start(&workers->thread[i], "tile reader", reader_run, workers, err);
    if (rc != RC_OK) {
        workers_free(workers);
        return rc;
    }
    *ret_workers = workers;
    return RC_OK;
}

void workers_free(struct workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->lock);
    workers->closing = true;
    for (int i = 0; i < TILE_WORKERS; i++)
        pthread_cond_broadcast(&workers->given[i]);
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < ARRAY_LEN(workers->thread); i++)
        thread_join(&workers->thread[i]);
    for (int i = 0; i < TILE_WORKERS; i++)
        pthread_cond_destroy(&workers->given[i]);
    pthread_mutex_destroy(&workers->lock);
    mem_free(workers);
}

void workers_give(struct workers *workers, enum tile_worker kind, struct tile_work *work)
{
    pthread_mutex_lock(&workers->lock);
    dlist_add_last(&workers->list[kind], &work->link);
    pthread_cond_signal(&workers->given[kind]);
    pthread_mutex_unlock(&workers->lock);
}

bool workers_turn(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    struct dlist done = workers->done;
    workers->done = (struct dlist){0};
    pthread_mutex_unlock(&workers->lock);
    bool any = done.first != NULL;
    for (struct dlink *link; (link = dlist_take_first(&done));)
        work_of(link)->done(work_of(link));
    return any;
}

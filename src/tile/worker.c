#include "tile/worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

#include "base/banned.h"

enum {
    READERS_MAX = 16,
    TAKE_MAX = 32,
    WRITER_NICE = 10, /* as the flusher: nobody waits for it while it keeps up */
};

struct work_list {
    struct tile_work *first, *last;
};

struct workers {
    struct workers_options options;
    pthread_mutex_t lock;
    pthread_cond_t given[TILE_WORKERS];
    struct work_list list[TILE_WORKERS]; /* shared: under lock, as all below */
    struct work_list done;
    bool closing;
    pthread_t thread[1 + READERS_MAX];
    uint32_t thread_count;
};

static void list_add(struct work_list *list, struct tile_work *work)
{
    work->next = NULL;
    if (list->last)
        list->last->next = work;
    else
        list->first = work;
    list->last = work;
}

static struct tile_work *list_take(struct work_list *list)
{
    struct tile_work *work = list->first;
    list->first = work->next;
    if (!list->first)
        list->last = NULL;
    return work;
}

/* Several at once: a lock and a wake-up for each would cost more than a read does. */
static void works_run(struct workers *workers, enum tile_worker kind)
{
    struct tile_work *work[TAKE_MAX];
    size_t count = 0;
    size_t max = kind == TILE_WRITER ? 1 : TAKE_MAX;
    while (count < max && workers->list[kind].first)
        work[count++] = list_take(&workers->list[kind]);
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < count; i++)
        work[i]->run(work[i], workers->options.pool);
    pthread_mutex_lock(&workers->lock);
    bool was_empty = !workers->done.first;
    for (size_t i = 0; i < count; i++)
        list_add(&workers->done, work[i]);
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
    for (uint32_t i = 0; i <= options->reader_count; i++) {
        int error =
            pthread_create(&workers->thread[i], NULL, i == 0 ? writer_run : reader_run, workers);
        if (error != 0) {
            workers_free(workers);
            return err_set(err, RC_NOMEM, "could not start a thread: %s", strerror(error));
        }
        pthread_setname_np(workers->thread[i], i == 0 ? "tile writer" : "tile reader");
        workers->thread_count++;
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
    for (uint32_t i = 0; i < workers->thread_count; i++)
        pthread_join(workers->thread[i], NULL);
    for (int i = 0; i < TILE_WORKERS; i++)
        pthread_cond_destroy(&workers->given[i]);
    pthread_mutex_destroy(&workers->lock);
    mem_free(workers);
}

void workers_give(struct workers *workers, enum tile_worker kind, struct tile_work *work)
{
    pthread_mutex_lock(&workers->lock);
    list_add(&workers->list[kind], work);
    pthread_cond_signal(&workers->given[kind]);
    pthread_mutex_unlock(&workers->lock);
}

bool workers_turn(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    struct tile_work *work = workers->done.first;
    workers->done = (struct work_list){0};
    pthread_mutex_unlock(&workers->lock);
    bool any = work != NULL;
    while (work) {
        struct tile_work *next = work->next;
        work->done(work);
        work = next;
    }
    return any;
}

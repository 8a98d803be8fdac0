// SPDX-License-Identifier: Apache-2.0
/* http_ask.c - questions of the HTTP thread, answered on the executor.
 *
 * All that came together is answered in one run of a job, which changes nothing. An ask that meets
 * something cold becomes a task of its own. Answers leave as replies do: when the turn they were
 * given in is in the journal (durability always: on disk), because they may have seen its changes.
 * Only figures about the server leave at once: they are wanted most when nothing can be written. */
#include "base/mem.h"
#include "server/http_int.h"
#include "server/metrics.h"
#include "server/server_int.h"

#include "base/banned.h"

#define ANSWER_WAIT_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/* ---- answers ---- */

static bool is_metrics(const struct ask *ask)
{
    return ask->model == MODEL_COUNT;
}

static void say(struct ask *ask, unsigned status, const char *text)
{
    ask->page.status = status;
    buf_cut(&ask->page.data, 0);
    if (!buf_printf(&ask->page.data, "%s\n", text))
        buf_cut(&ask->page.data, 0);
}

/* RC_COLD, or the answer is there. */
static enum rc ask_try(struct ask *ask, struct err *err)
{
    struct server *server = ask->http->server;
    enum rc rc = RC_OK;
    struct run run;
    ask->page.status = MHD_HTTP_OK;
    ask->page.type = "text/plain; version=0.0.4"; /* of /metrics */
    ask->page.cached = NULL;
    run_begin(&run, &server->kv, NULL, RUN_QUIET | RUN_NO_LIFT);
    buf_cut(&ask->page.data, 0);
    if (!is_metrics(ask))
        rc = models[ask->model]->page_make(server->host.model[ask->model], &run, &ask->page, err);
    else if (!metrics_add(server, &ask->page.data))
        rc = err_set(err, RC_NOMEM, "could not allocate memory for the answer");
    (void)run_end(&run, rc);
    if (rc != RC_OK && rc != RC_COLD)
        say(ask, MHD_HTTP_SERVICE_UNAVAILABLE, err->text);
    return rc == RC_COLD ? RC_COLD : RC_OK;
}

/* ---- those that wait ---- */

void http__ask_count(struct ask *ask)
{
    size_t before = ask->counted_bytes;
    ask->counted_bytes = ask->page.data.cap;
    atomic_fetch_add(&ask->http->waiting_bytes, ask->counted_bytes - before);
}

static void answers_give(struct http *http, struct ask *first, struct ask **end)
{
    pthread_mutex_lock(&http->lock);
    *http->answers_end = first;
    http->answers_end = end;
    pthread_mutex_unlock(&http->lock);
    loop_wake(http->loop);
}

static void waiting_remove(struct ask *ask)
{
    struct http *http = ask->http;
    models_wait_end(ask->waiter);
    if (ask->waiting_prev)
        ask->waiting_prev->waiting_next = ask->waiting_next;
    else
        http->waiting = ask->waiting_next;
    if (ask->waiting_next)
        ask->waiting_next->waiting_prev = ask->waiting_prev;
}

static enum rc waiting_run(struct task *task, struct store *store, struct err *err)
{
    struct ask *ask = (struct ask *)task;
    struct server *server = ask->http->server;
    (void)store;
    enum rc rc = ask_try(ask, err);
    if (rc == RC_COLD && models_wait(server, ask->waiter, task))
        task_wait_event(task);
    return rc;
}

static void waiting_done(struct task *task, enum rc rc, const struct err *err)
{
    struct ask *ask = (struct ask *)task;
    waiting_remove(ask);
    if (rc != RC_OK)
        say(ask, MHD_HTTP_SERVICE_UNAVAILABLE,
            rc == RC_TIMEOUT       ? "the server is busy"
            : err->text[0] != '\0' ? err->text
                                   : rc_text(rc));
    ask->next = NULL;
    http__ask_count(ask);
    answers_give(ask->http, ask, &ask->next);
}

static void waiting_start(struct ask *ask)
{
    struct http *http = ask->http;
    ask->waiting_prev = NULL;
    ask->waiting_next = http->waiting;
    if (http->waiting)
        http->waiting->waiting_prev = ask;
    http->waiting = ask;
    ask->task = (struct task){.run = waiting_run,
                              .done = waiting_done,
                              .deadline_ns = clock_mono_ns(http->server->clock) + ANSWER_WAIT_NS};
    task_start(http->server->tasks, &ask->task);
}

/* ---- the job ---- */

static struct ask *asks_take(struct http *http)
{
    pthread_mutex_lock(&http->lock);
    struct ask *first = http->asks;
    http->asks = NULL;
    http->asks_end = &http->asks;
    pthread_mutex_unlock(&http->lock);
    return first;
}

/* Clients that take large tiles slowly must not fill the memory: the others wait for them. */
static bool is_starved(struct http *http)
{
    if (atomic_load(&http->waiting_bytes) < HTTP_WAITING_BYTES_MAX)
        return false;
    atomic_store(&http->starved, true); /* whoever frees an answer from here on wakes us */
    if (atomic_load(&http->waiting_bytes) >= HTTP_WAITING_BYTES_MAX)
        return true;
    atomic_store(&http->starved, false);
    return false;
}

/* Answers what is in `taken`: all of it, or up to the first page that takes long. */
static void taken_answer(struct http *http, struct err *err)
{
    bool is_long = false;
    while (http->taken && !is_long && !is_starved(http)) {
        struct ask *ask = http->taken;
        http->taken = ask->next;
        ask->next = NULL;
        is_long = !ask->page.is_quick;
        if (ask_try(ask, err) == RC_COLD) {
            waiting_start(ask);
            continue;
        }
        http__ask_count(ask);
        if (is_metrics(ask)) {
            answers_give(http, ask, &ask->next);
            continue;
        }
        *http->answered_end = ask;
        http->answered_end = &ask->next;
    }
}

static struct ask *answered_take(struct http *http)
{
    struct ask *first = http->answered;
    http->answered = NULL;
    http->answered_end = &http->answered;
    http->answered_lsn = 0;
    return first;
}

static void refuse(struct http *http, struct ask *first, const char *text)
{
    for (struct ask *ask = first, *next; ask; ask = next) {
        next = ask->next;
        ask->next = NULL;
        say(ask, MHD_HTTP_SERVICE_UNAVAILABLE, text);
        http__ask_count(ask);
        answers_give(http, ask, &ask->next);
    }
}

static void answered_give(struct http *http)
{
    struct ask **end = http->answered_end;
    answers_give(http, answered_take(http), end);
}

/* They have seen what was taken back: they are answered again. */
static void answered_return(struct http *http)
{
    for (struct ask *ask = http->answered; ask; ask = ask->next) {
        atomic_fetch_sub(&http->waiting_bytes, ask->counted_bytes);
        ask->counted_bytes = 0;
    }
    *http->answered_end = http->taken;
    http->taken = answered_take(http);
    task_wake(&http->task);
}

void http_turn_end(struct http *http, enum rc rc, uint64_t lsn)
{
    if (!http->answered)
        return;
    http->answered_lsn = lsn;
    if (rc != RC_OK)
        answered_return(http);
    else if (lsn == 0)
        answered_give(http);
}

void http_durable(struct http *http, uint64_t lsn)
{
    if (http->answered && http->answered_lsn <= lsn)
        answered_give(http);
}

/* Takes those that wait by themselves: for a load, or for the sync of the turn they ended in. */
static void waiting_say(struct http *http, const char *text)
{
    while (http->waiting) {
        struct ask *ask = http->waiting;
        task_cancel(&ask->task);
        waiting_remove(ask);
        ask->next = NULL;
        refuse(http, ask, text);
    }
}

void http_give_up(struct http *http, const char *text)
{
    if (http->answered && http->answered_lsn > 0)
        refuse(http, answered_take(http), text);
    waiting_say(http, text);
}

static enum rc asks_answer(struct task *task, struct store *store, struct err *err)
{
    struct http *http = (struct http *)((char *)task - offsetof(struct http, task));
    (void)store;
    struct ask **end = &http->taken; /* who was woken for them may have been busy with these */
    while (*end)
        end = &(*end)->next;
    *end = asks_take(http);
    taken_answer(http, err);
    if (!http->taken || http->starved)
        task_wait_event(task);
    return RC_WAIT; /* without an event: in a later turn */
}

static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    (void)task;
    (void)rc;
    (void)err;
    ASSERT(false); /* it changes nothing, and so outlives every turn that fails */
}

void http__asks_start(struct http *http)
{
    http->answered_end = &http->answered;
    http->task = (struct task){.run = asks_answer, .done = job_done, .flags = TASK_JOB};
    task_start(http->server->tasks, &http->task);
}

void http__asks_end(struct http *http)
{
    const char *text = "the server is stopping";
    task_cancel(&http->task);
    refuse(http, answered_take(http), text);
    refuse(http, http->taken, text);
    http->taken = NULL;
    refuse(http, asks_take(http), text);
    waiting_say(http, text);
}

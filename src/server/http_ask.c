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

static void say(struct ask *ask, unsigned status, const char *text)
{
    ask->status = status;
    buf_cut(&ask->data, 0);
    if (!buf_printf(&ask->data, "%s\n", text))
        buf_cut(&ask->data, 0);
}

static enum rc data_say(struct ask *ask, struct bytes data, struct err *err)
{
    if (!buf_add_bytes(&ask->data, data))
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a tile", data.len);
    ask->status = MHD_HTTP_OK;
    return RC_OK;
}

static enum rc tile_find(struct tiles *tiles, struct tile_type *type, const struct http_url *url,
                         struct bytes *ret_data, struct err *err)
{
    struct tile_found found;
    struct tile_meta_found meta;
    struct tilekey key = {.packed = url->packed};
    enum rc rc = RC_OK;
    switch (tile_type_kind(type)) {
    case TILE_PLAIN:
        rc = tile_get(tiles, type, key, &found, err);
        break;
    case TILE_TM:
        key.ms = url->has_ms ? url->ms : TILE_MS_MAX;
        rc = tile_get_at(tiles, type, key, &found, err);
        break;
    case TILE_META:
        rc = tile_meta_get(tiles, type, url->packed, &meta, err);
        found.value.data = meta.data;
        break;
    }
    if (rc == RC_OK)
        *ret_data = found.value.data;
    return rc;
}

static enum rc tile_answer(struct server *server, const struct run *run, struct ask *ask,
                           struct err *err)
{
    struct bytes data;
    struct tile_type *type =
        tiles_type(server->tiles, bytes_of(ask->url.type, strlen(ask->url.type)));
    if (!type) {
        say(ask, MHD_HTTP_NOT_FOUND, "there is no such type of tiles");
        return RC_OK;
    }
    if (ask->url.has_ms && tile_type_kind(type) != TILE_TM) {
        say(ask, MHD_HTTP_BAD_REQUEST, "tiles of this type have no times");
        return RC_OK;
    }
    if (ask->url.page == HTTP_TILEJSON) {
        enum rc rc = http__tilejson(run, type, ask, &ask->data, err);
        ask->status = MHD_HTTP_OK;
        return rc;
    }
    enum rc rc = tile_find(server->tiles, type, &ask->url, &data, err);
    if (rc == RC_OK)
        return data_say(ask, data, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    say(ask, MHD_HTTP_NOT_FOUND, "there is no such tile");
    return RC_OK;
}

/* RC_COLD, or the answer is there. */
static enum rc ask_try(struct ask *ask, struct err *err)
{
    struct server *server = ask->http->server;
    enum rc rc = RC_OK;
    struct run run;
    run_begin(&run, &server->kv, NULL, RUN_QUIET | RUN_NO_LIFT);
    buf_cut(&ask->data, 0);
    if (ask->url.page != HTTP_METRICS)
        rc = tile_answer(server, &run, ask, err);
    else if (metrics_add(server, &ask->data))
        ask->status = MHD_HTTP_OK;
    else
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
    ask->counted_bytes = ask->data.cap;
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
    models_wait_end(http->server, ask->waiter);
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
        is_long = ask->url.page != HTTP_TILE;
        if (ask_try(ask, err) == RC_COLD) {
            waiting_start(ask);
            continue;
        }
        http__ask_count(ask);
        if (ask->url.page == HTTP_METRICS) {
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

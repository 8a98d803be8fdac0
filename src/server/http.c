// SPDX-License-Identifier: Apache-2.0
/* http.c - the thread: connections, requests, handing over.
 *
 * A round: wait until a connection or the executor has something, resume the connections whose
 * answers are there, let libmicrohttpd read, call request_take() and write, and hand what was asked
 * in this round to the executor at once. */
#include "server/http_int.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/server_int.h"

#include "base/banned.h"

#define NS_A_MS UINT64_C(1000000)
#define ROUND_NS_MAX (1000 * NS_A_MS)
enum { IDLE_S = 30, PAGES_TEXT_BYTES_MAX = 1024 };

/* ---- asking ---- */

static struct ask *ask_new(struct http *http, struct MHD_Connection *connection)
{
    struct ask *ask = mem_zalloc(sizeof *ask);
    ask->http = http;
    ask->connection = connection;
    buf_init(&ask->page.data, HTTP_ANSWER_BYTES_MAX);
    return ask;
}

static void ask_free(struct ask *ask)
{
    struct http *http = ask->http;
    atomic_fetch_sub(&http->waiting_bytes, ask->counted_bytes);
    if (ask->counted_bytes > 0 && atomic_exchange(&http->starved, false) && !http->closing)
        task_post(&http->task);
    buf_done(&ask->page.data);
    mem_free(ask->page.of);
    mem_free(ask);
}

static void request_over(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)why;
    http__conn_asks(arg, connection, false);
    if (*state)
        ask_free(*state);
    *state = NULL;
}

struct looked { /* a request, as models look at it */
    struct page_asked asked;
    struct MHD_Connection *connection;
};

static const char *argument_of(const struct page_asked *asked, const char *name)
{
    const struct looked *looked = (const struct looked *)asked;
    return MHD_lookup_connection_value(looked->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Whose page it is: ask->model. */
static enum page_found page_find(struct ask *ask, const char *path)
{
    struct looked looked = {
        .asked = {.path = bytes_of(path, strlen(path)), .argument = argument_of},
        .connection = ask->connection};
    looked.asked.host =
        MHD_lookup_connection_value(ask->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    ask->model = MODEL_COUNT;
    if (strcmp(path, "/metrics") == 0)
        return PAGE_IS;
    for (ask->model = 0; ask->model < MODEL_COUNT; ask->model++) {
        if (!models[ask->model]->page_find)
            continue;
        enum page_found found = models[ask->model]->page_find(&looked.asked, &ask->page);
        if (found != PAGE_NONE)
            return found;
    }
    return PAGE_NONE;
}

static enum MHD_Result none_reply(struct ask *ask)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, PAGES_TEXT_BYTES_MAX);
    bool good = buf_printf(&text, "there is /metrics");
    for (size_t i = 0; i < MODEL_COUNT; i++)
        good = good && (!models[i]->pages || buf_printf(&text, ", %s", models[i]->pages));
    good = good && buf_printf(&text, "\n");
    ASSERT(good);
    return http__reply_text(ask->http, ask->connection, MHD_HTTP_NOT_FOUND, buf_bytes(&text));
}

static enum MHD_Result ask_start(struct ask *ask, const char *path)
{
    struct http *http = ask->http;
    struct MHD_Connection *connection = ask->connection;
    enum page_found found = page_find(ask, path);
    if (found == PAGE_NONE)
        return none_reply(ask);
    if (found == PAGE_BAD)
        return http__reply_text(http, connection, MHD_HTTP_BAD_REQUEST,
                                bytes_of(ask->page.text, strlen(ask->page.text)));
    if (http->closing)
        return http__reply_text(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                                BYTES("the server is stopping\n"));
    *http->fresh_end = ask;
    http->fresh_end = &ask->next;
    MHD_suspend_connection(connection);
    return MHD_YES;
}

/* Called with the headers, for every part of a body, at the end, and again when an answer is there.
 */
static enum MHD_Result request_take(void *arg, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *data_len, void **state)
{
    struct http *http = arg;
    struct ask *ask = *state;
    (void)version;
    (void)data;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http__reply_text(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, BYTES("GET only\n"));
    /* An answer before the end of the request would cost the connection. */
    if (!ask || *data_len > 0) {
        if (!ask)
            *state = ask_new(http, connection);
        *data_len = 0; /* nobody reads a body */
        return MHD_YES;
    }
    if (ask->answered)
        return http__reply(ask);
    http__conn_asks(http, connection, true);
    return ask_start(ask, url);
}

/* ---- handing over ---- */

static void fresh_hand_over(struct http *http)
{
    if (!http->fresh)
        return;
    pthread_mutex_lock(&http->lock);
    *http->asks_end = http->fresh;
    http->asks_end = http->fresh_end;
    pthread_mutex_unlock(&http->lock);
    http->fresh = NULL;
    http->fresh_end = &http->fresh;
    task_post(&http->task);
}

static void answers_take(struct http *http)
{
    pthread_mutex_lock(&http->lock);
    struct ask *first = http->answers;
    http->answers = NULL;
    http->answers_end = &http->answers;
    pthread_mutex_unlock(&http->lock);
    for (struct ask *ask = first, *next; ask; ask = next) {
        next = ask->next;
        ask->next = NULL;
        ask->answered = true;
        MHD_resume_connection(ask->connection);
    }
}

static void daemon_ready(struct loop_source *source, unsigned events)
{
    (void)source;
    (void)events; /* every round looks at it */
}

static void *thread_run(void *arg)
{
    struct http *http = arg;
    struct err err = {0};
    while (!http->closing) {
        MHD_UNSIGNED_LONG_LONG timeout_ms;
        uint64_t wait_ns = ROUND_NS_MAX;
        if (MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES && timeout_ms * NS_A_MS < wait_ns)
            wait_ns = timeout_ms * NS_A_MS;
        if (loop_wait(http->loop, wait_ns, &err) != RC_OK) {
            log_error("HTTP stops: %s", err.text);
            break;
        }
        answers_take(http);
        http__conns_look(http);
        (void)MHD_run(http->daemon);
        fresh_hand_over(http);
    }
    return NULL;
}

/* ---- life ---- */

/* No page of ours has a name that would need decoding, and a decoded one could hide a NUL. */
static size_t url_keep(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

static enum rc daemon_start(struct http *http, int *fd, struct err *err)
{
    const struct config *config = http->server->config;
    if (listen(*fd, SOMAXCONN) != 0)
        return err_set(err, RC_IO, "could not listen for HTTP on %s:%u: %s", config->http_bind,
                       config->http_port, strerror(errno));
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, request_take, http,
        MHD_OPTION_LISTEN_SOCKET, *fd, MHD_OPTION_NOTIFY_COMPLETED, request_over, http,
        MHD_OPTION_UNESCAPE_CALLBACK, url_keep, http, MHD_OPTION_NOTIFY_CONNECTION,
        http__conn_notify, http, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    if (!http->daemon)
        return err_set(err, RC_IO, "could not start HTTP on %s:%u", config->http_bind,
                       config->http_port);
    *fd = -1; /* the daemon closes it */
    return RC_OK;
}

static enum rc daemon_watch(struct http *http, struct err *err)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return err_set(err, RC_IO, "could not listen for HTTP: libmicrohttpd has no epoll");
    http->daemon_fd = (struct loop_source){
        .fd = info->epoll_fd, .events = LOOP_READ, .ready = daemon_ready, .arg = http};
    return loop_add(http->loop, &http->daemon_fd, err);
}

enum rc http_open(struct server *server, int *fd, struct http **ret_http, struct err *err)
{
    struct http *http = mem_zalloc(sizeof *http);
    http->server = server;
    http->max_age_s = server->config->http_max_age_s;
    http->fresh_end = &http->fresh;
    http->asks_end = &http->asks;
    http->answers_end = &http->answers;
    pthread_mutex_init(&http->lock, NULL);
    http__asks_start(http);
    enum rc rc = loop_open(&http->loop, err);
    if (rc == RC_OK)
        rc = daemon_start(http, fd, err);
    if (rc == RC_OK)
        rc = daemon_watch(http, err);
    if (rc == RC_OK)
        rc = thread_start(&http->thread, "http", thread_run, http, err);
    if (rc != RC_OK) {
        http_close(http);
        return rc;
    }
    *ret_http = http;
    return RC_OK;
}

void http_close(struct http *http)
{
    if (!http)
        return;
    http->closing = true;
    if (http->thread.is_started)
        loop_wake(http->loop);
    thread_join(&http->thread);
    /* From here on everything is this thread's. */
    http__asks_end(http);
    answers_take(http);
    if (http->daemon) {
        (void)MHD_run(http->daemon);
        MHD_stop_daemon(http->daemon);
    }
    loop_close(http->loop);
    pthread_mutex_destroy(&http->lock);
    mem_free(http);
}

void http_stats(const struct http *http, struct http_stats *ret_stats)
{
    const struct http_counts *counts = &http->counts;
    *ret_stats = (struct http_stats){.ok = counts->ok,
                                     .not_modified = counts->not_modified,
                                     .bad = counts->bad,
                                     .not_found = counts->not_found,
                                     .not_allowed = counts->not_allowed,
                                     .unavailable = counts->unavailable};
}

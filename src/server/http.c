#include "server/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "server/metrics.h"
#include "server/server_int.h"

#include "base/banned.h"

enum { ANSWER_WAIT_S = 10 };

struct ask { /* a request that waits for the executor; on its thread's stack */
    struct ask *next;
    struct buf text;
    bool done, good;
};

struct http {
    struct server *server;
    struct MHD_Daemon *daemon;
    struct task task;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct ask *asks; /* shared: under lock */
    bool closing;     /* shared: under lock */
};

/* ---- the executor's side ---- */

static enum rc asks_answer(struct task *task, struct store *store, struct err *err)
{
    struct http *http = (struct http *)((char *)task - offsetof(struct http, task));
    (void)store;
    (void)err;
    pthread_mutex_lock(&http->lock);
    while (http->asks) {
        struct ask *ask = http->asks;
        http->asks = ask->next;
        ask->good = metrics_add(http->server, &ask->text);
        ask->done = true;
    }
    pthread_cond_broadcast(&http->answered);
    pthread_mutex_unlock(&http->lock);
    task_wait_event(task);
    return RC_WAIT;
}

static void task_done(struct task *task, enum rc rc, const struct err *err)
{
    (void)task;
    (void)rc;
    (void)err;
    ASSERT(false); /* it changes nothing, and so outlives every turn that fails */
}

/* ---- the thread's side ---- */

static void ask_remove(struct http *http, struct ask *ask)
{
    for (struct ask **at = &http->asks; *at; at = &(*at)->next) {
        if (*at == ask) {
            *at = ask->next;
            return;
        }
    }
}

static bool metrics_ask(struct http *http, struct ask *ask)
{
    struct timespec end;
    int waited = 0;
    uint64_t end_ns = clock_mono_ns(http->server->clock) + ANSWER_WAIT_S * UINT64_C(1000000000);
    end.tv_sec = (time_t)(end_ns / 1000000000);
    end.tv_nsec = (long)(end_ns % 1000000000);
    pthread_mutex_lock(&http->lock);
    ask->next = http->asks;
    http->asks = ask;
    task_post(&http->task);
    while (!ask->done && !http->closing && waited == 0)
        waited = pthread_cond_clockwait(&http->answered, &http->lock, CLOCK_MONOTONIC, &end);
    if (!ask->done)
        ask_remove(http, ask);
    pthread_mutex_unlock(&http->lock);
    return ask->done && ask->good;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type,
                             struct bytes text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text.len, (void *)text.ptr, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result request_answer(void *arg, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_len, void **state)
{
    struct http *http = arg;
    (void)version;
    (void)data;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", BYTES("GET only\n"));
    /* Called with the headers, for every part of a body, and at the end: an answer before the end
     * would cost the connection. */
    if (!*state || *data_len > 0) {
        *state = http;
        *data_len = 0; /* nobody reads a body */
        return MHD_YES;
    }
    if (strcmp(url, "/metrics") != 0)
        return reply(connection, MHD_HTTP_NOT_FOUND, "text/plain", BYTES("there is /metrics\n"));
    struct ask ask = {0};
    buf_init(&ask.text, HTTP_ANSWER_BYTES_MAX);
    enum MHD_Result result =
        metrics_ask(http, &ask)
            ? reply(connection, MHD_HTTP_OK, "text/plain; version=0.0.4", buf_bytes(&ask.text))
            : reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
                    BYTES("the server is busy\n"));
    buf_done(&ask.text);
    return result;
}

/* ---- life ---- */

enum rc http_open(struct server *server, struct http **ret_http, struct err *err)
{
    const struct config *config = server->config;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *address = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", config->http_port);
    int found = getaddrinfo(config->http_bind, port, &hints, &address);
    if (found != 0)
        return err_set(err, RC_INVALID, "could not understand http-bind \"%s\": %s",
                       config->http_bind, gai_strerror(found));
    struct http *http = mem_zalloc(sizeof *http);
    http->server = server;
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->answered, NULL);
    http->task.run = asks_answer;
    http->task.done = task_done;
    http->task.flags = TASK_JOB;
    task_start(server->tasks, &http->task);
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO;
    if (address->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    http->daemon = MHD_start_daemon(flags, (uint16_t)config->http_port, NULL, NULL, request_answer,
                                    http, MHD_OPTION_SOCK_ADDR, address->ai_addr,
                                    MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
                                    MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_END);
    int error = errno;
    freeaddrinfo(address);
    if (!http->daemon) {
        http_close(http);
        return err_set(err, RC_IO, "could not listen for HTTP on %s:%s: %s", config->http_bind,
                       port, strerror(error));
    }
    *ret_http = http;
    return RC_OK;
}

void http_close(struct http *http)
{
    if (!http)
        return;
    pthread_mutex_lock(&http->lock);
    http->closing = true;
    pthread_cond_broadcast(&http->answered);
    pthread_mutex_unlock(&http->lock);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    task_cancel(&http->task);
    pthread_cond_destroy(&http->answered);
    pthread_mutex_destroy(&http->lock);
    mem_free(http);
}

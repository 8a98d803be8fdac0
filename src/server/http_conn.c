// SPDX-License-Identifier: Apache-2.0
/* http_conn.c - connections of the HTTP port: who asks nothing gives way to who comes.
 *
 * libmicrohttpd takes HTTP_CONNECTIONS_MAX connections and then no more. A connection on which no
 * whole request has come is therefore closed after WAIT_S, however slowly its bytes arrive, and,
 * when connections become many, at once: the one that has waited for the longest. If nobody waits,
 * the one goes that has been answered for the longest. So there is always room for one more. */
#include "server/http_int.h"

#include <sys/socket.h>

#include "base/mem.h"
#include "server/server_int.h"

#include "base/banned.h"

#define NS_A_S UINT64_C(1000000000)
enum {
    WAIT_S = 10,
    CONNECTIONS_KEPT = HTTP_CONNECTIONS_MAX - 100, /* more may come before those that go are gone */
};

static void list_remove(struct http_conns *list, struct http_conn *conn)
{
    *(conn->prev ? &conn->prev->next : &list->first) = conn->next;
    *(conn->next ? &conn->next->prev : &list->last) = conn->prev;
    list->count--;
}

/* Last: the lists are in order of time. */
static void list_add(struct http *http, enum http_conn_state state, struct http_conn *conn)
{
    struct http_conns *list = &http->conns[state];
    conn->state = state;
    conn->since_ns = clock_mono_ns(http->server->clock);
    conn->next = NULL;
    conn->prev = list->last;
    *(conn->prev ? &conn->prev->next : &list->first) = conn;
    list->last = conn;
    list->count++;
}

static void conn_move(struct http *http, struct http_conn *conn, enum http_conn_state state)
{
    if (conn->state == HTTP_CONN_ENDING)
        return;
    list_remove(&http->conns[conn->state], conn);
    list_add(http, state, conn);
}

/* libmicrohttpd finds the end of the stream, and closes it. */
static void conn_end(struct http *http, struct http_conn *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    conn_move(http, conn, HTTP_CONN_ENDING);
    if (info)
        (void)shutdown(info->connect_fd, SHUT_RDWR);
}

static void one_gives_way(struct http *http)
{
    struct http_conn *first = http->conns[HTTP_CONN_WAITING].first;
    if (!first || !first->next) /* the newest is not the one */
        first = http->conns[HTTP_CONN_ASKING].first;
    if (first)
        conn_end(http, first);
}

void http__conn_notify(void *arg, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode code)
{
    struct http *http = arg;
    struct http_conn *conn = *context;
    switch (code) {
    case MHD_CONNECTION_NOTIFY_STARTED:
        *context = conn = mem_zalloc(sizeof *conn);
        conn->connection = connection;
        list_add(http, HTTP_CONN_WAITING, conn);
        if (http->conns[HTTP_CONN_WAITING].count + http->conns[HTTP_CONN_ASKING].count >
            CONNECTIONS_KEPT)
            one_gives_way(http);
        return;
    case MHD_CONNECTION_NOTIFY_CLOSED:
        list_remove(&http->conns[conn->state], conn);
        mem_free(conn);
        *context = NULL;
        return;
    }
}

void http__conn_asks(struct http *http, struct MHD_Connection *connection, bool asks)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info && info->socket_context)
        conn_move(http, info->socket_context, asks ? HTTP_CONN_ASKING : HTTP_CONN_WAITING);
}

void http__conns_look(struct http *http)
{
    uint64_t now_ns = clock_mono_ns(http->server->clock);
    struct http_conns *list = &http->conns[HTTP_CONN_WAITING];
    while (list->first && now_ns - list->first->since_ns > WAIT_S * NS_A_S)
        conn_end(http, list->first);
}

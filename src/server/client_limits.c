// SPDX-License-Identifier: Apache-2.0
/* client_limits.c - how much a client may hold: replies that wait for it, and everything else.
 *
 * client-output-buffer-limit is obeyed while a reply is written, not only when it waits: a buffer
 * ends where the limit is, and what has found its end closes the client.
 *
 * maxmemory-clients is one budget for everything that all clients hold: requests that are not whole
 * yet, commands that wait, MULTIs, replies and messages. A connection is counted when one of these
 * has changed: after input, after a push, after a run of its command, at the end of its turn. When
 * the sum is over the budget whoever holds the most is closed, and gives back its memory at once.
 * Its commands that have been committed stay. */
#include "server/server_int.h"

#include "base/log.h"

#include "base/banned.h"

static size_t out_waiting(const struct conn *conn)
{
    return conn->out.buf.len - conn->out_sent;
}

static const struct config_output_limit *out_limit(const struct conn *conn)
{
    const struct subs *subs = &conn->subs;
    bool subscribed =
        subs->count[SUB_CHANNEL] + subs->count[SUB_PATTERN] + subs->count[SUB_SHARD] > 0;
    enum config_client_class class = subscribed ? CONFIG_CLIENT_PUBSUB : CONFIG_CLIENT_NORMAL;
    return &conn->server->config->client_output_buffer_limit[class];
}

size_t server__conn_out_room(const struct conn *conn)
{
    uint64_t hard = out_limit(conn)->hard_bytes;
    size_t waiting = out_waiting(conn);
    if (LIKELY(hard == 0))
        return CONN_REPLY_ONE_BYTES_MAX;
    if (waiting >= hard - 1) /* as in Redis, who reaches the limit is over it */
        return 0;
    size_t room = (size_t)(hard - 1 - waiting);
    return room < CONN_REPLY_ONE_BYTES_MAX ? room : CONN_REPLY_ONE_BYTES_MAX;
}

bool server__conn_out_over(struct conn *conn)
{
    const struct config_output_limit *limit = out_limit(conn);
    size_t waiting = out_waiting(conn);
    if (limit->hard_bytes > 0 && waiting >= limit->hard_bytes)
        return true;
    if (limit->soft_bytes == 0 || waiting < limit->soft_bytes) {
        conn->soft_since_ms = 0;
        return false;
    }
    uint64_t now_ms = conn->server->now_ms;
    if (conn->soft_since_ms == 0 || conn->soft_since_ms > now_ms)
        conn->soft_since_ms = now_ms;
    return now_ms - conn->soft_since_ms > limit->soft_s * 1000;
}

void server__conn_out_end_over(struct conn *conn, size_t bytes)
{
    uint64_t hard = out_limit(conn)->hard_bytes;
    if (conn->broken)
        return;
    conn->server->stats.output_limit_count++;
    if (hard == 0 && bytes >= CONN_REPLY_ONE_BYTES_MAX)
        log_warn("client %s was closed: a reply is over the limit of %d bytes", conn->peer,
                 CONN_REPLY_ONE_BYTES_MAX);
    else
        log_warn("client %s was closed: %zu bytes of replies are over its "
                 "client-output-buffer-limit",
                 conn->peer, bytes);
    conn->broken = true;
    server__conn_touch(conn);
}

/* ---- all of it ---- */

size_t server__multi_bytes(const struct multi *multi)
{
    return multi->bytes + multi->cap * sizeof *multi->queued + multi->watching_bytes;
}

size_t server__conn_bytes(const struct conn *conn)
{
    const struct request *request = conn->parked;
    size_t out = conn->out.buf.cap - conn->out_released;
    size_t bytes = sizeof *conn + conn->in.cap + out + conn->subs.bytes +
                   conn->parser.arg_cap * sizeof *conn->parser.arg +
                   conn->unsafe_cap * sizeof *conn->unsafe + conn->name.len +
                   server__multi_bytes(&conn->multi);
    if (request)
        bytes += sizeof *request + request->argv_bytes + request->reply.buf.cap +
                 (request->slow ? request->slow->saved.cap + request->slow->work_bytes : 0);
    return bytes;
}

void server__conn_count(struct conn *conn)
{
    size_t bytes = server__conn_bytes(conn);
    conn->server->clients_bytes += bytes - conn->counted_bytes;
    conn->counted_bytes = bytes;
}

/* A command that has ended waits until it is safe; nobody will get its reply. */
static void reply_free(struct request *request)
{
    resp_out_clear(&request->reply);
    buf_shrink(&request->reply.buf, 0);
    if (request->slow)
        buf_shrink(&request->slow->saved, 0);
}

/* Nothing of it is read or sent any more. */
static void buffers_free(struct conn *conn)
{
    if (conn->parked)
        reply_free(conn->parked);
    resp_parser_done(&conn->parser);
    conn->parsed = false;
    buf_shrink(&conn->in, 0);
    conn->out_base += conn->out.buf.len;
    conn->out_sent = conn->out_released = 0;
    buf_shrink(&conn->out.buf, 0);
    server__multi_end(conn);
    server__conn_count(conn);
}

void server__clients_obey(struct server *server)
{
    while (server__clients_over(server)) {
        struct conn *worst = NULL;
        for (struct conn *conn = server->conns; conn; conn = conn->next)
            if (!conn->broken && !conn->no_evict &&
                (!worst || conn->counted_bytes > worst->counted_bytes))
                worst = conn;
        if (!worst)
            return;
        log_warn("client %s was closed: it holds %zu of %llu bytes of all clients, which are over "
                 "maxmemory-clients",
                 worst->peer, worst->counted_bytes, (unsigned long long)server->clients_bytes);
        server->stats.evicted_client_count++;
        server__conn_end(worst);
        buffers_free(worst);
    }
}

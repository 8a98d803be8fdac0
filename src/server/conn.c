/* conn.c - a client's connection: bytes in, requests, bytes out. */
#include "server/server_int.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    READ_BYTES_MIN = 16 * 1024,
    IN_KEPT_BYTES = 64 * 1024,
    OUT_KEPT_BYTES = 64 * 1024,
    OUT_SWAP_BYTES = 16 * 1024,      /* a reply this large is not copied if it can be moved */
    OUT_WAITING_BYTES = 1024 * 1024, /* not taken by the client: nothing more is read from it */
};

/* ---- life ---- */

static void conn_ready(struct loop_watch *watch, unsigned events);

void server__conn_new(struct server *server, int fd)
{
    struct err err = {0};
    struct conn *conn = mem_zalloc(sizeof *conn);
    conn->server = server;
    conn->watch =
        (struct loop_watch){.fd = fd, .events = LOOP_READ, .ready = conn_ready, .arg = conn};
    resp_parser_init(&conn->parser);
    buf_init(&conn->in, CONN_IN_BYTES_MAX);
    buf_init(&conn->out, SIZE_MAX); /* bounded by reply_bytes */
    if (loop_add(server->loop, &conn->watch, &err) != RC_OK) {
        log_warn("a connection was closed: %s", err.text);
        close(fd);
        mem_free(conn);
        return;
    }
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->conn_count++;
    server->stats.connection_count++;
}

static void conn_untouch(struct conn *conn)
{
    struct conn **at = &conn->server->touched;
    while (conn->touched && *at) {
        if (*at == conn) {
            *at = conn->touched_next;
            conn->touched = false;
        } else {
            at = &(*at)->touched_next;
        }
    }
}

void server__conn_close(struct conn *conn)
{
    struct server *server = conn->server;
    conn->runnable = NULL;
    while (conn->first) {
        struct request *request = conn->first;
        conn->first = request->next;
        server__request_cancel(request);
    }
    conn_untouch(conn);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    server->conn_count--;
    loop_del(server->loop, &conn->watch);
    close(conn->watch.fd);
    resp_parser_done(&conn->parser);
    buf_done(&conn->in);
    buf_done(&conn->out);
    mem_free(conn);
}

void server__conn_quit(struct conn *conn)
{
    conn->quit = true;
    conn->deaf = true;
}

/* ---- out ---- */

static size_t out_waiting(const struct conn *conn)
{
    return conn->out.len - conn->out_sent;
}

static void out_add(struct conn *conn, struct resp_out *reply)
{
    if (conn->out.len == 0 && reply->buf.len >= OUT_SWAP_BYTES) {
        struct buf empty = conn->out;
        conn->out = reply->buf;
        conn->out.bytes_max = SIZE_MAX;
        empty.bytes_max = CONN_REPLY_ONE_BYTES_MAX;
        reply->buf = empty;
    } else if (!buf_add_bytes(&conn->out, buf_bytes(&reply->buf))) {
        log_warn("a connection was closed: no memory for %zu bytes of replies", reply->buf.len);
        conn->broken = true;
    }
}

/* Replies that are final and whose turn it is. Those whose task is not done yet stay. */
static void replies_collect(struct conn *conn)
{
    while (conn->first && conn->first->answered && conn->first->task.state == TASK_IDLE) {
        struct request *request = conn->first;
        conn->first = request->next;
        if (!conn->first)
            conn->last = NULL;
        conn->request_count--;
        out_add(conn, &request->reply);
        server__request_free(request);
    }
}

static void conn_send(struct conn *conn)
{
    while (!conn->broken && out_waiting(conn) > 0) {
        ssize_t sent = send(conn->watch.fd, conn->out.ptr + conn->out_sent, out_waiting(conn),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            conn->broken = errno != EAGAIN && errno != EWOULDBLOCK;
            return;
        }
        conn->out_sent += (size_t)sent;
        conn->reply_bytes -= (uint64_t)sent;
        conn->server->stats.output_bytes += (uint64_t)sent;
    }
    conn->out_sent = 0;
    buf_shrink(&conn->out, OUT_KEPT_BYTES);
}

/* ---- in ---- */

static void conn_refuse(struct conn *conn, const char *prefix, const char *text)
{
    conn->quit = true;
    if (!server__request_refuse(conn, prefix, text))
        conn->broken = true;
}

/* Starts the requests that are whole. */
static void conn_parse(struct conn *conn)
{
    struct err err = {0};
    while (!conn->quit && conn->request_count < CONN_REQUESTS_MAX) {
        switch (resp_parse(&conn->parser, conn->in.ptr, conn->in.len, &err)) {
        case RESP_MORE:
            return;
        case RESP_REQUEST:
            if (!server__request_start(conn, conn->in.ptr, &conn->parser))
                conn_refuse(conn, "ERR", "out of memory for the arguments of a command");
            break;
        case RESP_BAD:
            conn_refuse(conn, "ERR", err.text);
            break;
        }
    }
}

/* Nothing points into the input: what was used is removed. */
static void in_compact(struct conn *conn)
{
    ASSERT(conn->request_count == 0);
    size_t cut = resp_parser_rewind(&conn->parser);
    size_t left = conn->in.len - cut;
    if (left == 0) {
        buf_shrink(&conn->in, IN_KEPT_BYTES);
        return;
    }
    if (cut > 0)
        memmove(conn->in.ptr, conn->in.ptr + cut, left);
    buf_cut(&conn->in, left);
}

/* Room grows with what has arrived, so an announced length alone costs no memory. */
static bool in_reserve(struct conn *conn)
{
    size_t want = resp_parser_need(&conn->parser, conn->in.len);
    if (want > conn->in.len)
        want = conn->in.len;
    if (want < READ_BYTES_MIN)
        want = READ_BYTES_MIN;
    if (want > conn->in.bytes_max - conn->in.len)
        want = conn->in.bytes_max - conn->in.len;
    return want > 0 && buf_reserve(&conn->in, want);
}

static void conn_read(struct conn *conn)
{
    if (!in_reserve(conn)) {
        conn_refuse(conn, "ERR", "the request is over the limit or there is no memory for it");
        return;
    }
    ssize_t got = recv(conn->watch.fd, conn->in.ptr + conn->in.len, conn->in.cap - conn->in.len,
                       MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got <= 0) {
        conn->eof = true;
        conn->broken = conn->broken || got < 0;
        return;
    }
    conn->in.len += (size_t)got;
    conn->server->stats.input_bytes += (uint64_t)got;
    conn_parse(conn);
}

/* ---- between ---- */

/* Whether the connection is over. */
static bool conn_is_over(const struct conn *conn)
{
    if (conn->broken)
        return true;
    return (conn->eof || conn->quit) && conn->request_count == 0 && out_waiting(conn) == 0;
}

static void conn_settle(struct conn *conn)
{
    replies_collect(conn);
    conn_send(conn);
    if (conn->request_count == 0 && !conn->quit && !conn->broken) {
        in_compact(conn);
        if (out_waiting(conn) < OUT_WAITING_BYTES && conn->in.len > 0)
            conn_parse(conn);
    }
    if (conn_is_over(conn)) {
        server__conn_close(conn);
        return;
    }
    server__runnable_wake(conn);
    bool reads = conn->request_count == 0 && !conn->eof && !conn->quit &&
                 out_waiting(conn) < OUT_WAITING_BYTES;
    unsigned events = reads ? LOOP_READ : 0;
    if (out_waiting(conn) > 0)
        events |= LOOP_WRITE;
    loop_mod(conn->server->loop, &conn->watch, events);
}

static void conn_ready(struct loop_watch *watch, unsigned events)
{
    struct conn *conn = watch->arg;
    if (events & LOOP_READ && conn->request_count == 0)
        conn_read(conn);
    else if (events & LOOP_HANGUP)
        conn->broken = true;
    else if (events & LOOP_READ) /* a request waits, and the input may not move (3) */
        loop_mod(conn->server->loop, watch, watch->events & ~(unsigned)LOOP_READ);
    /* A request that was started is settled after the turn it runs in, with its reply. */
    if (events & LOOP_WRITE || conn->request_count == 0 || conn->broken)
        conn_settle(conn);
}

void server__conns_settle(struct server *server)
{
    struct conn *conn = server->touched;
    server->touched = NULL;
    while (conn) {
        struct conn *next = conn->touched_next;
        conn->touched = false;
        conn_settle(conn);
        conn = next;
    }
}

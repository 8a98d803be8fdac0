// SPDX-License-Identifier: Apache-2.0
/* conn.c - a client's connection: bytes in, bytes out. */
#include "server/server_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/http.h"
#include "store/turns.h"

#include "base/banned.h"

enum {
    READ_BYTES_MIN = 16 * 1024,
    IN_KEPT_BYTES = 64 * 1024,
    IN_WAITING_BYTES = 1024 * 1024, /* taken from a client whose commands wait for their turn */
    IN_AHEAD_SHARE = 2,             /* of its limit, from one that does not take its replies */
    IN_TAKEN_BYTES_MIN = 64 * 1024, /* of arguments that are not copied for who waits */
    OUT_KEPT_BYTES = 64 * 1024,
    OUT_SPARE_BYTES_MAX = 1024 * 1024,
    OUT_COMPACT_BYTES_MIN = 1024 * 1024, /* shorter outputs are sent before it pays */
    OUT_SEND_BYTES_MAX = 1024 * 1024,    /* at once to one client: others wait meanwhile */
    OUT_RELEASE_BYTES_MIN = 1024 * 1024,
    CONNS_CRON_MS = 1000,
    BUFFERS_KEPT_MS = 5000,
};

/* ---- life ---- */

static void conn_ready(struct loop_source *source, unsigned events);

static void address_text(char *to, size_t cap, const struct sockaddr *address)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(to, cap, "%s:%u", host, ntohs(in->sin_port));
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(to, cap, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

static void conn_names(struct conn *conn)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (conn->is_unix) {
        snprintf(conn->peer, sizeof conn->peer, "%s:0", conn->server->config->unixsocket);
        snprintf(conn->local, sizeof conn->local, "%s:0", conn->server->config->unixsocket);
        return;
    }
    if (getpeername(conn->source.fd, (struct sockaddr *)&address, &len) == 0)
        address_text(conn->peer, sizeof conn->peer, (struct sockaddr *)&address);
    len = sizeof address;
    if (getsockname(conn->source.fd, (struct sockaddr *)&address, &len) == 0)
        address_text(conn->local, sizeof conn->local, (struct sockaddr *)&address);
}

void server__conn_new(struct server *server, int fd, bool is_unix)
{
    struct err err = {0};
    struct conn *conn = mem_zalloc(sizeof *conn);
    conn->server = server;
    conn->source =
        (struct loop_source){.fd = fd, .events = LOOP_READ, .ready = conn_ready, .arg = conn};
    conn->is_unix = is_unix;
    conn->id = ++server->next_conn_id;
    conn->ns = kv_ns(&server->kv, 0);
    conn->authed = server->config->requirepass.len == 0;
    conn->start_ms = conn->last_ms = clock_unix_ms(server->clock);
    resp_parser_init(&conn->parser);
    conn->parser.limited = !conn->authed;
    conn->parser.bulk_bytes_max = (int64_t)server->config->proto_max_bulk_len;
    buf_init(&conn->in, CONN_IN_BYTES_MAX);
    resp_out_init(&conn->out, SIZE_MAX);
    conn_names(conn);
    if (loop_add(server->loop, &conn->source, &err) != RC_OK) {
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
    server__conn_count(conn);
    server->stats.connection_count++;
}

static void conn_unlist(struct conn *conn)
{
    struct server *server = conn->server;
    for (struct conn **at = &server->touched; conn->touched && *at; at = &(*at)->touched_next) {
        if (*at == conn) {
            *at = conn->touched_next;
            break;
        }
    }
    struct conn *before = NULL;
    for (struct conn *at = server->queued_first; conn->queued && at; at = at->queued_next) {
        if (at == conn) {
            *(before ? &before->queued_next : &server->queued_first) = conn->queued_next;
            if (server->queued_last == conn)
                server->queued_last = before;
            break;
        }
        before = at;
    }
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
}

static void unsafe_remove(struct conn *conn)
{
    *(conn->unsafe_prev ? &conn->unsafe_prev->unsafe_next : &conn->server->unsafe) =
        conn->unsafe_next;
    if (conn->unsafe_next)
        conn->unsafe_next->unsafe_prev = conn->unsafe_prev;
}

void server__conn_close(struct conn *conn)
{
    struct server *server = conn->server;
    ASSERT(conn->batch_calls == 0 && server->turn_call_count == 0);
    if (conn->parked)
        server__request_cancel(conn->parked);
    server__multi_end(conn);
    server__subs_done(conn);
    conn_unlist(conn);
    if (conn->unsafe_count > 0)
        unsafe_remove(conn);
    server->monitor_count -= conn->monitor;
    server->conn_count--;
    server->clients_bytes -= conn->counted_bytes;
    loop_del(server->loop, &conn->source);
    if (conn->source.fd >= 0)
        close(conn->source.fd);
    resp_parser_done(&conn->parser);
    buf_done(&conn->in);
    resp_out_done(&conn->out);
    mem_free(conn->unsafe);
    mem_free((void *)conn->name.ptr);
    mem_free((void *)conn->lib_name.ptr);
    mem_free((void *)conn->lib_ver.ptr);
    mem_free(conn);
    server__accept_again(server);
}

void server__conn_end(struct conn *conn)
{
    conn->broken = true;
    if (conn->parked && conn->parked->base.task.state != TASK_ENDED)
        server__request_cancel(conn->parked);
    server__conn_touch(conn);
}

void server__conn_quit(struct conn *conn)
{
    conn->quit = true;
    server__conn_touch(conn);
}

void server__conn_touch(struct conn *conn)
{
    if (conn->touched)
        return;
    conn->touched = true;
    conn->touched_next = conn->server->touched;
    conn->server->touched = conn;
}

void server__conn_queue(struct conn *conn)
{
    struct server *server = conn->server;
    if (conn->queued)
        return;
    conn->queued = true;
    conn->queued_next = NULL;
    if (server->queued_last)
        server->queued_last->queued_next = conn;
    else
        server->queued_first = conn;
    server->queued_last = conn;
}

/* ---- out ---- */

uint64_t server__conn_out_end(const struct conn *conn)
{
    return conn->out_base + conn->out.buf.len;
}

static size_t out_waiting(const struct conn *conn)
{
    return conn->out.buf.len - conn->out_sent;
}

void server__conn_error(struct conn *conn, const char *prefix, const char *text)
{
    resp_add_error(&conn->out, prefix, text);
    conn->server->stats.error_count++;
    server__conn_touch(conn);
}

bool server__reply_is_wanted(struct conn *conn, const struct cmd *cmd)
{
    const unsigned pushes = CMD_PUBSUB | CMD_SUBSCRIBED; /* what they write is no reply */
    bool wanted = conn->reply_mode == REPLY_ON || (cmd && (cmd->flags & pushes) == pushes);
    if (conn->reply_mode == REPLY_SKIP_NEXT)
        conn->reply_mode = REPLY_SKIP; /* this was CLIENT REPLY SKIP itself */
    else if (conn->reply_mode == REPLY_SKIP)
        conn->reply_mode = REPLY_ON;
    return wanted;
}

void server__conn_push(struct conn *conn, struct bytes bytes)
{
    if (conn->broken || conn->quit)
        return;
    if (bytes.len > server__conn_out_room(conn)) {
        server__conn_out_end_over(conn, out_waiting(conn) + bytes.len);
        return;
    }
    conn->out.buf.bytes_max = SIZE_MAX;
    resp_add_raw(&conn->out, bytes);
    server__conn_touch(conn);
    server__conn_count(conn);
    if (server__clients_over(conn->server))
        server__clients_obey(conn->server);
}

static void unsafe_add(struct conn *conn)
{
    conn->unsafe_prev = NULL;
    conn->unsafe_next = conn->server->unsafe;
    if (conn->unsafe_next)
        conn->unsafe_next->unsafe_prev = conn;
    conn->server->unsafe = conn;
}

void server__conn_unsafe(struct conn *conn, uint64_t lsn, uint64_t start)
{
    if (conn->unsafe_count == conn->unsafe_cap) {
        conn->unsafe_cap = conn->unsafe_cap ? 2 * conn->unsafe_cap : 4;
        conn->unsafe = mem_realloc(conn->unsafe, conn->unsafe_cap * sizeof *conn->unsafe);
    }
    if (conn->unsafe_count == 0)
        unsafe_add(conn);
    conn->unsafe[conn->unsafe_count++] = (struct unsafe){lsn, start};
}

static void unsafe_drop(struct conn *conn, uint64_t durable_lsn)
{
    size_t count = 0;
    while (count < conn->unsafe_count && conn->unsafe[count].lsn <= durable_lsn)
        count++;
    if (count == 0)
        return;
    conn->unsafe_count -= count;
    memmove(conn->unsafe, conn->unsafe + count, conn->unsafe_count * sizeof *conn->unsafe);
    if (conn->unsafe_count == 0)
        unsafe_remove(conn);
    server__conn_touch(conn);
}

/* Nobody knows when a journal that cannot be synced will be. The replies cannot leave, and no error
 * can stand in their place, because the changes may still stay: whoever waits for an answer is
 * closed, as by a crash. The log has a line when that begins, and one when it is over. */
static void unsafe_give_up(struct server *server)
{
    struct unsafe_since *since = &server->unsafe_since;
    struct err why;
    uint64_t now_ns = clock_mono_ns(server->clock);
    if (!store_journal_failed(server->store, &why)) {
        if (since->closed_count > 0)
            log_warn("%zu clients were closed while the journal could not be synced",
                     since->closed_count);
        *since = (struct unsafe_since){0};
        return;
    }
    if (since->mono_ns == 0)
        since->mono_ns = now_ns;
    if (now_ns - since->mono_ns < UNSAFE_MS_MAX * UINT64_C(1000000))
        return;
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        if (conn->broken || (conn->unsafe_count == 0 && !conn->parked))
            continue;
        if (since->closed_count++ == 0)
            log_warn("clients are closed without their replies: %s", why.text);
        conn->broken = true;
        server__conn_touch(conn);
    }
    if (server->http)
        http_give_up(server->http, why.text);
}

void server__unsafe_look(struct server *server)
{
    uint64_t lsn = store_durable_lsn(server->store);
    if (server->config->durability == DURABILITY_ALWAYS)
        unsafe_give_up(server);
    if (!server->unsafe || lsn == server->durable_seen_lsn)
        return;
    server->durable_seen_lsn = lsn;
    for (struct conn *conn = server->unsafe, *next; conn; conn = next) {
        next = conn->unsafe_next;
        unsafe_drop(conn, lsn);
    }
}

/* What may leave now. */
static size_t out_free(const struct conn *conn)
{
    if (conn->unsafe_count == 0)
        return out_waiting(conn);
    return (size_t)(conn->unsafe[0].start - conn->out_base) - conn->out_sent;
}

/* Both are empty; `to` has no memory. Limits stay where they are. */
static void memory_move(struct buf *to, struct buf *from)
{
    ASSERT(to->cap == 0 && from->len == 0);
    to->ptr = from->ptr;
    to->cap = from->cap;
    from->ptr = NULL;
    from->cap = 0;
}

/* A large buffer goes to whoever has a reply next: it need not grow again, and is still in the
 * processor's cache, which those of fifty clients would not be. */
static void out_emptied(struct conn *conn)
{
    struct server *server = conn->server;
    struct buf *buf = &conn->out.buf;
    buf_cut(buf, 0);
    if (buf->cap > OUT_KEPT_BYTES && buf->cap <= OUT_SPARE_BYTES_MAX &&
        server->out_spare_count < OUT_SPARES_MAX)
        memory_move(&server->out_spare[server->out_spare_count++], buf);
    buf_shrink(buf, OUT_KEPT_BYTES);
}

void server__conn_out_ready(struct conn *conn)
{
    struct server *server = conn->server;
    if (conn->out.buf.cap == 0 && server->out_spare_count > 0)
        memory_move(&conn->out.buf, &server->out_spare[--server->out_spare_count]);
}

void server__out_spares_free(struct server *server, size_t count)
{
    for (; count > 0 && server->out_spare_count > 0; count--)
        buf_shrink(&server->out_spare[--server->out_spare_count], 0);
}

/* Who never takes the last of his replies, because there is always another, does not keep the ones
 * he took: what is left moves to the front when it is no longer than what was sent. The pages of a
 * long reply are given back as it is taken: all of them at its end would be a long wait for others.
 */
static void out_compact(struct conn *conn)
{
    size_t waiting = out_waiting(conn);
    if (waiting > CONN_OUT_WAITING_BYTES) { /* it gets no more replies, and moving would be long */
        if (conn->out_sent - conn->out_released >= OUT_RELEASE_BYTES_MIN)
            conn->out_released = mem_release(conn->out.buf.ptr, conn->out_released, conn->out_sent);
        return;
    }
    if (conn->out_sent < OUT_COMPACT_BYTES_MIN || conn->out_sent < waiting)
        return;
    conn->out_released = 0;
    memmove(conn->out.buf.ptr, conn->out.buf.ptr + conn->out_sent, waiting);
    buf_cut(&conn->out.buf, waiting);
    conn->out_base += conn->out_sent;
    conn->out_sent = 0;
}

struct bytes server__conn_out(const struct conn *conn)
{
    size_t len = out_free(conn);
    return len > 0 ? bytes_of(conn->out.buf.ptr + conn->out_sent, len) : (struct bytes){0};
}

void server__conn_out_sent(struct conn *conn, size_t bytes)
{
    conn->out_sent += bytes;
    conn->last_ms = conn->server->now_ms; /* who is being answered is not idle */
    conn->server->stats.output_bytes += bytes;
    conn->server->stats.send_count++;
}

void server__conn_send(struct conn *conn)
{
    size_t left = conn->source.fd < 0 ? 0 : OUT_SEND_BYTES_MAX;
    while (!conn->broken && out_free(conn) > 0 && left > 0) {
        struct bytes out = server__conn_out(conn);
        ssize_t sent = send(conn->source.fd, out.ptr, out.len < left ? out.len : left,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            conn->broken = errno != EAGAIN && errno != EWOULDBLOCK;
            break;
        }
        server__conn_out_sent(conn, (size_t)sent);
        left -= (size_t)sent;
    }
    if (out_waiting(conn) > 0) {
        out_compact(conn);
        return;
    }
    conn->out_base += conn->out.buf.len;
    conn->out_sent = conn->out_released = 0;
    out_emptied(conn);
}

/* ---- in ---- */

static size_t in_limit(const struct conn *conn)
{
    size_t limit = conn->server->config->client_query_buffer_limit;
    return limit < conn->in.bytes_max ? limit : conn->in.bytes_max;
}

/* What was used can be removed, unless the parser holds a command that points into it. */
static size_t in_spent(const struct conn *conn)
{
    return conn->parsed ? 0 : resp_parser_spent(&conn->parser);
}

/* The rest moves when it is no longer than what was used, or has to: a long pipeline that waits
 * would move again with every part of it that arrives. */
static void in_compact(struct conn *conn)
{
    ASSERT(conn->batch_calls == 0);
    size_t spent = in_spent(conn), left = conn->in.len - spent;
    if (spent == 0 || (spent < left && conn->in.len < in_limit(conn)))
        return;
    resp_parser_rewind(&conn->parser, spent);
    if (left == 0) {
        buf_shrink(&conn->in, IN_KEPT_BYTES);
        return;
    }
    memmove(conn->in.ptr, conn->in.ptr + spent, left);
    buf_cut(&conn->in, left);
}

/* A long argument gets as much as it needs, and not the double of what was there. */
static bool in_grow(struct conn *conn, size_t want)
{
    size_t need = resp_parser_need(&conn->parser, conn->in.len);
    if (need >= READ_BYTES_MIN)
        conn->in.bytes_max = conn->in.len + need;
    bool good = buf_reserve(&conn->in, want);
    conn->in.bytes_max = CONN_IN_BYTES_MAX;
    return good;
}

bool server__conn_in_take(struct conn *conn, size_t arg_bytes, struct buf *ret_in)
{
    struct buf rest;
    size_t spent = in_spent(conn);
    if (conn->batch_calls > 0 || arg_bytes < IN_TAKEN_BYTES_MIN || spent < conn->in.len / 2)
        return false;
    buf_init(&rest, conn->in.bytes_max);
    if (!buf_add(&rest, conn->in.ptr + spent, conn->in.len - spent))
        return false;
    resp_parser_rewind(&conn->parser, spent);
    *ret_in = conn->in;
    conn->in = rest;
    return true;
}

/* Room grows with what has arrived, so an announced length alone costs no memory. Why there is
 * none; NULL: there is. */
static const char *in_reserve(struct conn *conn)
{
    size_t limit = in_limit(conn);
    if (conn->in.len >= limit)
        return "its request is over client-query-buffer-limit";
    size_t want = resp_parser_need(&conn->parser, conn->in.len);
    if (want > conn->in.len)
        want = conn->in.len;
    if (want < READ_BYTES_MIN)
        want = READ_BYTES_MIN;
    if (want > limit - conn->in.len)
        want = limit - conn->in.len;
    return in_grow(conn, want) ? NULL : "there is no memory for its request";
}

static void conn_read(struct conn *conn)
{
    in_compact(conn);
    const char *why = in_reserve(conn);
    if (why) {
        log_warn("client %s was closed: %s", conn->peer, why);
        conn->server->stats.query_limit_count++;
        conn->broken = true;
        return;
    }
    size_t room = conn->in.cap < in_limit(conn) ? conn->in.cap : in_limit(conn);
    ssize_t got =
        recv(conn->source.fd, conn->in.ptr + conn->in.len, room - conn->in.len, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got <= 0) {
        conn->eof = true;
        conn->broken = conn->broken || got < 0;
        return;
    }
    conn->in.len += (size_t)got;
    server__conn_count(conn);
    conn->last_ms = conn->server->now_ms;
    conn->server->stats.input_bytes += (uint64_t)got;
    conn->server->stats.read_count++;
    server__conn_queue(conn);
    conn->server->busy = true;
}

void server__conn_finish(struct conn *conn)
{
    const int unsent = 0; /* no limit of ours: who reads later reads from the kernel */
    size_t before;
    if (!conn->is_unix)
        (void)setsockopt(conn->source.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    do {
        before = conn->in.len - in_spent(conn);
        if (!conn->eof && !conn->broken && before < in_limit(conn) / IN_AHEAD_SHARE)
            conn_read(conn);
    } while (conn->in.len - in_spent(conn) > before);
    conn->eof = true;
    server__conn_touch(conn);
}

/* ---- between ---- */

static bool conn_is_over(const struct conn *conn)
{
    if (conn->broken)
        return true;
    if (conn->eof && conn->parked && server__request_is_long(conn->parked))
        return true; /* nobody waits for what it waits for */
    return (conn->quit || (conn->eof && !conn->queued)) && !conn->parked && out_waiting(conn) == 0;
}

/* Whole requests wait in the input only so far: who reaches client-query-buffer-limit has sent one
 * that is too long. But who does not take his replies is not served, and still heard: many a client
 * sends all of its pipeline before it reads, and would wait for us as we for it. Requests are what
 * they cost him to send; their replies would have no limit. */
static bool conn_reads(const struct conn *conn)
{
    size_t left = conn->in.len - in_spent(conn), most = in_limit(conn) / IN_AHEAD_SHARE;
    if (conn->eof || conn->quit)
        return false;
    if (!conn->parked && out_waiting(conn) >= CONN_OUT_WAITING_BYTES)
        return conn->authed && left < most;
    if (conn->parked || conn->queued || conn->parsed)
        return left < (most < IN_WAITING_BYTES ? most : IN_WAITING_BYTES);
    return true;
}

static void conn_update(struct conn *conn)
{
    conn->broken = conn->broken || conn->out.failed;
    conn->out_peak = conn->out_peak > out_waiting(conn) ? conn->out_peak : out_waiting(conn);
    server__conn_send(conn);
    if (out_waiting(conn) > 0 && server__conn_out_over(conn))
        server__conn_out_end_over(conn, out_waiting(conn));
    if (conn->throttled && out_waiting(conn) < CONN_OUT_WAITING_BYTES) {
        conn->throttled = false;
        server__conn_queue(conn);
        conn->server->busy = true;
    }
    if (conn_is_over(conn)) {
        server__conn_close(conn);
        return;
    }
    server__conn_count(conn);
    unsigned events = conn_reads(conn) ? LOOP_READ : 0;
    if (out_free(conn) > 0)
        events |= LOOP_WRITE;
    loop_mod(conn->server->loop, &conn->source, events);
}

static void conn_ready(struct loop_source *source, unsigned events)
{
    struct conn *conn = source->arg;
    if (UNLIKELY(conn->server->is_script_busy)) { /* a turn is open: nothing is settled */
        if (events & LOOP_READ && server__busy_reads(conn) && conn_reads(conn))
            conn_read(conn);
        server__conn_touch(conn);
        return;
    }
    if (events & LOOP_READ && conn_reads(conn)) {
        conn_read(conn);
        if (server__clients_over(conn->server))
            server__clients_obey(conn->server);
    } else if (events & LOOP_HANGUP) {
        conn->broken = true;
    }
    /* One with new input is updated after the turn it runs in, with its replies. */
    if (!conn->queued || conn->broken || events & LOOP_WRITE)
        conn_update(conn);
}

void server__conns_update(struct server *server)
{
    struct conn *conn = server->touched;
    server->touched = NULL;
    while (conn) {
        struct conn *next = conn->touched_next;
        conn->touched = false;
        conn_update(conn);
        conn = next;
    }
}

/* The clock may have been set back. */
static uint64_t idle_ms(const struct conn *conn)
{
    uint64_t now_ms = conn->server->now_ms;
    return now_ms > conn->last_ms ? now_ms - conn->last_ms : 0;
}

/* Ten thousand clients that only stay connected should not cost ten thousand buffers. */
static void conn_rest(struct conn *conn)
{
    if (conn->parked || conn->queued || conn->parsed || conn->parser.at < conn->in.len)
        return;
    in_compact(conn);
    if (conn->in.len == 0)
        buf_shrink(&conn->in, 0);
    if (out_waiting(conn) == 0 && conn->unsafe_count == 0)
        buf_shrink(&conn->out.buf, 0);
}

/* Once a second: idle clients, and limits of those who do not read. */
void server__conns_cron(struct server *server)
{
    uint64_t timeout_ms = (uint64_t)server->config->timeout_s * 1000;
    if (server->now_ms >= server->conns_cron_ms &&
        server->now_ms - server->conns_cron_ms < CONNS_CRON_MS)
        return;
    server->conns_cron_ms = server->now_ms;
    server__out_spares_free(server, 1);
    for (struct conn *conn = server->conns, *next; conn; conn = next) {
        next = conn->next;
        bool subscribed = conn->subs.first != NULL;
        bool idle = timeout_ms > 0 && !conn->parked && !subscribed && !conn->monitor &&
                    idle_ms(conn) > timeout_ms;
        conn->broken = conn->broken || idle;
        if (idle_ms(conn) > BUFFERS_KEPT_MS)
            conn_rest(conn);
        conn->out_peak = out_waiting(conn);
        server__conn_count(conn);
        if (conn->broken || out_waiting(conn) > 0)
            conn_update(conn);
    }
}

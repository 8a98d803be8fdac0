// SPDX-License-Identifier: Apache-2.0
/* cmd_client.c - CLIENT: who is connected, and what may be done to them. */
#include "server/server_int.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "types/number.h"

#include "base/banned.h"

enum { OUT_BLOCK_BYTES = 16 * 1024 }; /* Redis's PROTO_REPLY_CHUNK_BYTES */

static bool is_subscribed(const struct conn *conn)
{
    return conn->subs.first != NULL;
}

/* ---- LIST, INFO ---- */

static void flags_text(const struct conn *conn, char to[16])
{
    size_t len = 0;
    if (conn->monitor)
        to[len++] = 'O';
    if (is_subscribed(conn))
        to[len++] = 'P';
    if (conn->multi.open)
        to[len++] = 'x';
    if (server__conn_blocked(conn))
        to[len++] = 'b';
    if (conn->multi.touched)
        to[len++] = 'd';
    if (conn->quit)
        to[len++] = 'c';
    if (conn->is_unix)
        to[len++] = 'U';
    if (conn->no_evict)
        to[len++] = 'e';
    if (len == 0)
        to[len++] = 'N';
    to[len] = 0;
}

static const char *chars_of(struct bytes word)
{
    return word.len > 0 ? (const char *)word.ptr : "";
}

/* What a client's buffers hold, in Redis's words. Replies that wait are one buffer here; Redis has
 * a small one (obl of rbs bytes, rbp at most lately) and, above it, a list of blocks (oll, omem).
 */
struct memory_text {
    size_t qbuf, qbuf_free, argv, multi, rbs, rbp, obl, oll, omem, total;
};

/* self: what asks, of which the command that runs is still in the input. */
static struct memory_text memory_of(const struct conn *conn, const struct cmd_ctx *self)
{
    const struct request *request = conn->parked;
    size_t out = conn->out.buf.len - conn->out_sent, block = OUT_BLOCK_BYTES;
    size_t from = resp_parser_spent(&conn->parser);
    struct memory_text text = {.multi = server__multi_bytes(&conn->multi),
                               .argv = request ? request->argv_bytes : 0,
                               .total = server__conn_bytes(conn)};
    if (self && !self->request) {
        from = conn->call_start;
        for (size_t i = 0; i < self->argc; i++)
            text.argv += self->argv[i].len;
    }
    text.qbuf = conn->in.len - from;
    text.qbuf_free = conn->in.cap - conn->in.len;
    text.rbs = conn->out.buf.cap < block ? conn->out.buf.cap : block;
    text.rbp = conn->out_peak < block ? conn->out_peak : block;
    text.obl = out < block ? out : block;
    text.omem = out - text.obl;
    text.oll = (text.omem + block - 1) / block;
    return text;
}

static bool client_add(struct buf *to, const struct conn *conn, const struct cmd_ctx *ctx)
{
    char flags[16], name[CMD_NAME_BYTES] = "NULL";
    const struct cmd *cmd = conn->parked ? conn->parked->cmd : conn->last_cmd;
    flags_text(conn, flags);
    if (cmd)
        (void)cmd_name_lower(cmd, name);
    uint64_t now_ms = ctx->run->now_ms;
    struct memory_text mem = memory_of(conn, conn == ctx->conn ? ctx : NULL);
    return buf_printf(
        to,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%.*s age=%" PRIu64 " idle=%" PRIu64
        " flags=%s db=%u sub=%zu psub=%zu ssub=%zu multi=%d qbuf=%zu qbuf-free=%zu "
        "argv-mem=%zu multi-mem=%zu rbs=%zu rbp=%zu obl=%zu oll=%zu omem=%zu tot-mem=%zu "
        "events=%s%s "
        "cmd=%s user=default redir=-1 resp=%u lib-name=%.*s lib-ver=%.*s\n",
        conn->id, conn->peer, conn->local, conn->source.fd, (int)conn->name.len,
        chars_of(conn->name), (now_ms - conn->start_ms) / 1000,
        now_ms > conn->last_ms ? (now_ms - conn->last_ms) / 1000 : 0, flags, conn->ns->index,
        conn->subs.count[SUB_CHANNEL], conn->subs.count[SUB_PATTERN], conn->subs.count[SUB_SHARD],
        conn->multi.open ? (int)conn->multi.count : -1, mem.qbuf, mem.qbuf_free, mem.argv,
        mem.multi, mem.rbs, mem.rbp, mem.obl, mem.oll, mem.omem, mem.total,
        conn->source.events & LOOP_READ ? "r" : "", conn->source.events & LOOP_WRITE ? "w" : "",
        name, conn->out.proto, (int)conn->lib_name.len, chars_of(conn->lib_name),
        (int)conn->lib_ver.len, chars_of(conn->lib_ver));
}

enum rc cmd_client_info(struct cmd_ctx *ctx)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, CLIENT_LIST_BYTES_MAX);
    ctx->conn->last_cmd = ctx->cmd;
    if (!client_add(&text, ctx->conn, ctx))
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    resp_add_verbatim(ctx->reply, buf_bytes(&text));
    return RC_OK;
}

enum client_type { CLIENT_ANY, CLIENT_NORMAL, CLIENT_PUBSUB, CLIENT_OTHER };

static bool type_parse(struct bytes word, enum client_type *ret_type)
{
    if (cmd_arg_is(word, "normal"))
        *ret_type = CLIENT_NORMAL;
    else if (cmd_arg_is(word, "pubsub"))
        *ret_type = CLIENT_PUBSUB;
    else if (cmd_arg_is(word, "master") || cmd_arg_is(word, "replica") || cmd_arg_is(word, "slave"))
        *ret_type = CLIENT_OTHER;
    else
        return false;
    return true;
}

static bool type_fits(const struct conn *conn, enum client_type type)
{
    if (type == CLIENT_ANY)
        return true;
    return type == (is_subscribed(conn) ? CLIENT_PUBSUB : CLIENT_NORMAL);
}

static struct conn *client_find(struct server *server, uint64_t id)
{
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        if (conn->id == id && !conn->broken)
            return conn;
    return NULL;
}

/* Clients are listed in the order in which they came. */
static struct conn *oldest(struct server *server)
{
    struct conn *conn = server->conns;
    while (conn && conn->next)
        conn = conn->next;
    return conn;
}

static enum rc list_by_id(struct cmd_ctx *ctx, struct buf *to)
{
    for (size_t i = 3; i < ctx->argc; i++) {
        int64_t id;
        if (!number_int(ctx->argv[i], &id))
            return cmd_error(ctx, "Invalid client ID");
        struct conn *conn = client_find(ctx->server, (uint64_t)id);
        if (conn && !client_add(to, conn, ctx))
            return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    }
    return RC_OK;
}

enum rc cmd_client_list(struct cmd_ctx *ctx)
{
    CLEANUP(buf_done) struct buf text;
    enum client_type type = CLIENT_ANY;
    buf_init(&text, CLIENT_LIST_BYTES_MAX);
    ctx->conn->last_cmd = ctx->cmd;
    if (ctx->argc > 3 && cmd_arg_is(ctx->argv[2], "ID")) {
        enum rc rc = list_by_id(ctx, &text);
        if (rc != RC_OK)
            return rc;
    } else {
        if (ctx->argc == 4 && cmd_arg_is(ctx->argv[2], "TYPE")) {
            if (!type_parse(ctx->argv[3], &type))
                return err_set(ctx->err, RC_INVALID, "Unknown client type '%.*s'",
                               (int)(ctx->argv[3].len < 128 ? ctx->argv[3].len : 128),
                               (const char *)ctx->argv[3].ptr);
        } else if (ctx->argc != 2) {
            return cmd_syntax_error(ctx);
        }
        for (struct conn *conn = oldest(ctx->server); conn; conn = conn->prev)
            if (type_fits(conn, type) && !conn->broken && !client_add(&text, conn, ctx))
                return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    }
    resp_add_verbatim(ctx->reply, buf_bytes(&text));
    return RC_OK;
}

/* ---- KILL ---- */

struct kill {   /* which clients; all that is given must fit */
    int64_t id; /* 0: any */
    const struct bytes *addr, *laddr;
    enum client_type type;
    bool skip_me;
};

static enum rc kill_parse(struct cmd_ctx *ctx, struct kill *ret_kill)
{
    for (size_t i = 2; i < ctx->argc; i += 2) {
        if (i + 1 >= ctx->argc)
            return cmd_syntax_error(ctx);
        const struct bytes *value = &ctx->argv[i + 1];
        if (cmd_arg_is(ctx->argv[i], "ID")) {
            if (!number_int(*value, &ret_kill->id) || ret_kill->id < 1)
                return cmd_error(ctx, "client-id should be greater than 0");
        } else if (cmd_arg_is(ctx->argv[i], "TYPE")) {
            if (!type_parse(*value, &ret_kill->type))
                return err_set(ctx->err, RC_INVALID, "Unknown client type '%.*s'",
                               (int)(value->len < 128 ? value->len : 128),
                               (const char *)value->ptr);
        } else if (cmd_arg_is(ctx->argv[i], "ADDR")) {
            ret_kill->addr = value;
        } else if (cmd_arg_is(ctx->argv[i], "LADDR")) {
            ret_kill->laddr = value;
        } else if (cmd_arg_is(ctx->argv[i], "USER")) {
            if (!bytes_eq(*value, BYTES("default")))
                return err_set(ctx->err, RC_INVALID, "No such user '%.*s'",
                               (int)(value->len < 128 ? value->len : 128),
                               (const char *)value->ptr);
        } else if (cmd_arg_is(ctx->argv[i], "SKIPME") &&
                   (cmd_arg_is(*value, "yes") || cmd_arg_is(*value, "no"))) {
            ret_kill->skip_me = cmd_arg_is(*value, "yes");
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    return RC_OK;
}

static bool text_is(const struct bytes *wanted, const char *text)
{
    return !wanted || bytes_eq(*wanted, bytes_of(text, strlen(text)));
}

/* Messages that are sent until it is closed are for the others. */
static void client_end(struct conn *conn)
{
    server__conn_end(conn);
    server__subs_done(conn);
}

static int64_t clients_kill(struct cmd_ctx *ctx, const struct kill *kill)
{
    int64_t count = 0;
    for (struct conn *conn = ctx->server->conns; conn; conn = conn->next) {
        if (conn->broken || (kill->id != 0 && conn->id != (uint64_t)kill->id) ||
            !text_is(kill->addr, conn->peer) || !text_is(kill->laddr, conn->local) ||
            !type_fits(conn, kill->type) || (kill->skip_me && conn == ctx->conn))
            continue;
        count++;
        if (conn == ctx->conn) {
            server__conn_quit(conn); /* after this reply */
        } else {
            client_end(conn);
        }
    }
    return count;
}

enum rc cmd_client_kill(struct cmd_ctx *ctx)
{
    struct kill kill = {.skip_me = true};
    if (ctx->argc == 3) { /* the old form: CLIENT KILL addr:port */
        kill.addr = &ctx->argv[2];
        kill.skip_me = false;
        if (clients_kill(ctx, &kill) == 0)
            return cmd_error(ctx, "No such client");
        resp_add_status(ctx->reply, "OK");
        return RC_OK;
    }
    enum rc rc = kill_parse(ctx, &kill);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, clients_kill(ctx, &kill));
    return rc;
}

/* ---- small ones ---- */

enum rc cmd_client_id(struct cmd_ctx *ctx)
{
    resp_add_int(ctx->reply, (int64_t)ctx->conn->id);
    return RC_OK;
}

enum rc cmd_client_getname(struct cmd_ctx *ctx)
{
    if (ctx->conn->name.len > 0)
        resp_add_bulk(ctx->reply, ctx->conn->name);
    else
        resp_add_null(ctx->reply);
    return RC_OK;
}

enum rc cmd_client_setname(struct cmd_ctx *ctx)
{
    enum rc rc = server__client_name_set(ctx, ctx->argv[2]);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* Redis 7.2 has it, and clients of today send it when they connect. */
enum rc cmd_client_setinfo(struct cmd_ctx *ctx)
{
    struct conn *conn = ctx->conn;
    bool is_name = cmd_arg_is(ctx->argv[2], "LIB-NAME");
    char what[16];
    if (!is_name && !cmd_arg_is(ctx->argv[2], "LIB-VER"))
        return err_set(ctx->err, RC_INVALID, "Unrecognized option '%.*s'",
                       (int)(ctx->argv[2].len < 128 ? ctx->argv[2].len : 128),
                       (const char *)ctx->argv[2].ptr);
    snprintf(what, sizeof what, "%.*s", (int)ctx->argv[2].len, (const char *)ctx->argv[2].ptr);
    enum rc rc = server__client_word_set(ctx, what, ctx->argv[3],
                                         is_name ? &conn->lib_name : &conn->lib_ver);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_client_reply(struct cmd_ctx *ctx)
{
    struct conn *conn = ctx->conn;
    if (cmd_arg_is(ctx->argv[2], "ON")) {
        conn->reply_mode = REPLY_ON;
        resp_add_status(ctx->reply, "OK");
    } else if (cmd_arg_is(ctx->argv[2], "OFF")) {
        conn->reply_mode = REPLY_OFF;
    } else if (cmd_arg_is(ctx->argv[2], "SKIP")) {
        if (conn->reply_mode != REPLY_OFF)
            conn->reply_mode = REPLY_SKIP_NEXT;
    } else {
        return cmd_syntax_error(ctx);
    }
    return RC_OK;
}

static enum rc on_off(struct cmd_ctx *ctx, bool *ret_on)
{
    if (!cmd_arg_is(ctx->argv[2], "ON") && !cmd_arg_is(ctx->argv[2], "OFF"))
        return cmd_syntax_error(ctx);
    *ret_on = cmd_arg_is(ctx->argv[2], "ON");
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_client_no_evict(struct cmd_ctx *ctx)
{
    return on_off(ctx, &ctx->conn->no_evict);
}

enum rc cmd_client_pause(struct cmd_ctx *ctx)
{
    struct server *server = ctx->server;
    int64_t ms;
    bool writes = false;
    if (ctx->argc == 4) {
        writes = cmd_arg_is(ctx->argv[3], "WRITE");
        if (!writes && !cmd_arg_is(ctx->argv[3], "ALL"))
            return cmd_error(ctx, "CLIENT PAUSE mode must be WRITE or ALL");
    } else if (ctx->argc > 4) {
        return cmd_sub_arity_error(ctx);
    }
    if (!number_int(ctx->argv[2], &ms) || ms > INT64_MAX - (int64_t)ctx->run->now_ms)
        return cmd_error(ctx, "timeout is not an integer or out of range");
    if (ms < 0)
        return cmd_error(ctx, "timeout is negative");
    uint64_t end_ms = ctx->run->now_ms + (uint64_t)ms;
    bool active = server->pause_end_ms > ctx->run->now_ms;
    /* The longer and the stricter of two pauses holds. */
    server->pause_writes_only = writes && (!active || server->pause_writes_only);
    if (!active || end_ms > server->pause_end_ms)
        server->pause_end_ms = end_ms;
    server__sweep_set(server);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_client_unpause(struct cmd_ctx *ctx)
{
    server__pause_end(ctx->server);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_client_unblock(struct cmd_ctx *ctx)
{
    bool error = false;
    int64_t id;
    if (ctx->argc == 4) {
        error = cmd_arg_is(ctx->argv[3], "ERROR");
        if (!error && !cmd_arg_is(ctx->argv[3], "TIMEOUT"))
            return cmd_error(ctx, "CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    } else if (ctx->argc > 4) {
        return cmd_arity_error(ctx);
    }
    enum rc rc = cmd_int(ctx, 2, &id);
    if (rc != RC_OK)
        return rc;
    struct conn *conn = client_find(ctx->server, (uint64_t)id);
    bool done = conn && conn->parked && server__request_unblock(conn->parked, error);
    resp_add_int(ctx->reply, done);
    return RC_OK;
}

/* Without client tracking: what a client that never asked for it is told. */
enum rc cmd_client_getredir(struct cmd_ctx *ctx)
{
    resp_add_int(ctx->reply, -1);
    return RC_OK;
}

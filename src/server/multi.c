// SPDX-License-Identifier: Apache-2.0
/* multi.c - MULTI, EXEC, DISCARD, WATCH.
 *
 * EXEC runs everything that was queued inside its own commit: all of it is in one frame, or none.
 * A command that fails leaves its error in the reply and the others go on, as in Redis: handlers
 * check before they change. What is not the command's own fault (memory, disk, a cold row) ends the
 * whole EXEC, and its commit is taken back. So does any error of a command that guards the others
 * (cmd_ctx.guards), and EXEC answers that error. A guard is never CMD_OUTSIDE: those run when it is
 * certain that the commit stays. No queued command waits (RC_WAIT) once EXEC is a request: the
 * commit of a request that waits stays, with half of the queue in it.
 *
 * What happens outside the store cannot be taken back (CMD_OUTSIDE: SUBSCRIBE, CLIENT KILL, CONFIG
 * SET ...): such commands run when all the others have, in their order, and their replies are put
 * where they belong. */
#include "server/server_int.h"

#include "base/mem.h"

#include "base/banned.h"

/* ---- the queue ---- */

static void queue_clear(struct multi *multi)
{
    for (size_t i = 0; i < multi->count; i++)
        mem_free(multi->queued[i].argv);
    mem_free(multi->queued);
    multi->queued = NULL;
    multi->count = multi->cap = 0;
    multi->bytes = 0;
    multi->open = multi->refused = false;
    multi->flags = 0;
}

static void unwatch(struct conn *conn)
{
    server__waiters_free(conn->server, &conn->multi.watching);
    conn->multi.touched = false;
    conn->multi.watching_bytes = 0;
}

void server__multi_end(struct conn *conn)
{
    queue_clear(&conn->multi);
    unwatch(conn);
}

static enum rc queue_refuse(struct cmd_ctx *ctx, const char *text)
{
    ctx->conn->multi.refused = true;
    return cmd_error(ctx, text);
}

enum rc server__multi_queue(struct cmd_ctx *ctx)
{
    struct multi *multi = &ctx->conn->multi;
    size_t bytes = server__args_bytes(ctx->argv, ctx->argc);
    if (bytes > MULTI_BYTES_MAX - multi->bytes)
        return queue_refuse(ctx, "the commands of a MULTI are over the limit");
    if (multi->refused) { /* it will not run: nothing has to be kept */
        resp_add_status(ctx->reply, "QUEUED");
        return RC_OK;
    }
    if (multi->count == multi->cap) {
        size_t cap = multi->cap ? 2 * multi->cap : 8;
        struct queued *queued = mem_try_realloc(multi->queued, cap * sizeof *queued);
        if (!queued)
            return queue_refuse(ctx, "out of memory for a MULTI");
        multi->queued = queued;
        multi->cap = cap;
    }
    struct bytes *argv = server__args_copy(ctx->argv, ctx->argc);
    if (!argv)
        return queue_refuse(ctx, "out of memory for a MULTI");
    multi->queued[multi->count++] =
        (struct queued){.cmd = ctx->cmd, .argv = argv, .argc = ctx->argc};
    multi->bytes += bytes;
    unsigned flags = ctx->cmd->flags;
    if (flags & CMD_SCRIPT && server__script_writes(ctx->server, ctx->cmd, ctx->argv, ctx->argc))
        flags |= CMD_WRITE;
    multi->flags |= flags & (CMD_READ | CMD_WRITE);
    if ((flags & (CMD_WRITE | CMD_DELETES)) == CMD_WRITE)
        multi->flags &= ~(unsigned)CMD_DELETES;
    resp_add_status(ctx->reply, "QUEUED");
    return RC_OK;
}

void server__multi_want(struct conn *conn)
{
    size_t index[REQUEST_WANT_KEYS_MAX];
    for (size_t i = 0; i < conn->multi.count; i++) {
        const struct queued *queued = &conn->multi.queued[i];
        size_t count =
            cmd_keys(queued->cmd, queued->argv, queued->argc, index, REQUEST_WANT_KEYS_MAX);
        for (size_t k = 0; k < count && k < REQUEST_WANT_KEYS_MAX; k++)
            key_want(conn->ns, &queued->argv[index[k]], 1);
    }
}

/* ---- commands ---- */

enum rc cmd_multi(struct cmd_ctx *ctx)
{
    if (ctx->conn->multi.open)
        return cmd_error(ctx, "MULTI calls can not be nested");
    ctx->conn->multi.open = true;
    ctx->conn->multi.flags = CMD_DELETES;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_discard(struct cmd_ctx *ctx)
{
    if (!ctx->conn->multi.open)
        return cmd_error(ctx, "DISCARD without MULTI");
    server__multi_end(ctx->conn);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

/* A key that was alive at WATCH and whose time is over now has changed, swept or not. */
static enum rc watched_check(struct cmd_ctx *ctx)
{
    struct key key;
    for (struct key_waiter *at = ctx->conn->multi.watching; at; at = at->owner_next) {
        struct ns *ns;
        struct bytes name = server__waiter_key(at, &ns);
        struct run part = run_with(ctx->run, ns, 0);
        enum rc rc = key_write(&part, name, KEY_ANY, &key, ctx->err);
        if (rc != RC_OK)
            return rc;
        if (key.dead && !at->was_dead)
            ctx->conn->multi.touched = true;
    }
    return RC_OK;
}

bool server__is_own_fault(enum rc rc)
{
    return rc == RC_INVALID || rc == RC_WRONGTYPE || rc == RC_REPLY || rc == RC_NOT_FOUND ||
           rc == RC_BUSY;
}

struct ran { /* how a queued command ended */
    uint64_t usec;
    enum rc rc;
    size_t reply_len;
    /* as it was at its place in the queue, for one that runs later */
    struct ns *ns;
    uint8_t proto;
    uint64_t message_seq;
};

static void reply_cut(struct resp_out *reply, size_t len)
{
    if (!reply->failed) /* one that was too long stays it */
        resp_out_cut(reply, len);
}

static enum rc queued_run(struct cmd_ctx *ctx, const struct queued *queued, bool late,
                          struct ran *ran)
{
    size_t from = ctx->reply->buf.len;
    struct nested nested = {.cmd = queued->cmd,
                            .argv = queued->argv,
                            .argc = queued->argc,
                            .reply = ctx->reply,
                            .late = late,
                            .message_seq = ran->message_seq};
    enum rc rc = server__nested(ctx, &nested);
    ASSERT(rc != RC_WAIT || !ctx->request);
    if (rc != RC_OK)
        return rc;
    ran->usec = nested.usec;
    ran->rc = nested.rc;
    ran->reply_len = ctx->reply->buf.len - from;
    return RC_OK;
}

/* Every command has run for the last time. */
static void queue_note(struct cmd_ctx *ctx, const struct ran *ran)
{
    struct server *server = ctx->server;
    struct conn *conn = ctx->conn;
    struct ns *ns = conn->ns;
    for (size_t i = 0; i < conn->multi.count; i++) {
        const struct queued *queued = &conn->multi.queued[i];
        conn->ns = i + 1 < conn->multi.count ? ran[i + 1].ns : ns; /* as it was after it */
        struct cmd_ctx sub = *ctx;
        sub.cmd = queued->cmd;
        sub.argv = queued->argv;
        sub.argc = queued->argc;
        server__call_note(&sub, ran[i].usec, ran[i].rc);
        server->stats.error_count += ran[i].rc != RC_OK;
        if (server->monitor_count > 0 && !(queued->cmd->flags & (CMD_ADMIN | CMD_SCRIPT)))
            monitor_feed(server, conn, queued->argv, queued->argc);
    }
}

/* Those that can be taken back. *ret_outside: there are others. */
static enum rc inside_run(struct cmd_ctx *ctx, struct ran *ran, bool *ret_outside)
{
    struct conn *conn = ctx->conn;
    for (size_t i = 0; i < conn->multi.count; i++) {
        const struct queued *queued = &conn->multi.queued[i];
        ran[i].ns = conn->ns;
        ran[i].proto = ctx->reply->proto;
        ran[i].message_seq = ctx->server->message_seq;
        bool outside = queued->cmd->flags & CMD_OUTSIDE;
        bool publishes = queued->cmd->flags & CMD_PUBLISH;
        *ret_outside = *ret_outside || outside;
        if (outside && !publishes)
            continue;
        size_t from = ctx->reply->buf.len;
        enum rc rc = queued_run(ctx, queued, false, &ran[i]);
        if (rc != RC_OK)
            return rc;
        if (publishes)
            reply_cut(ctx->reply, from);
    }
    return RC_OK;
}

/* The others; the replies, from `from` on, are written again with theirs among them. */
static enum rc outside_run(struct cmd_ctx *ctx, struct ran *ran, size_t from)
{
    struct conn *conn = ctx->conn;
    struct ns *ns = conn->ns;
    uint8_t proto = ctx->reply->proto;
    CLEANUP(buf_done) struct buf inside;
    buf_init(&inside, SIZE_MAX);
    bool good = !ctx->reply->failed || ctx->reply->over;
    if (!good || !buf_add(&inside, ctx->reply->buf.ptr + from, ctx->reply->buf.len - from))
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for an EXEC");
    reply_cut(ctx->reply, from);
    size_t at = 0;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < conn->multi.count && rc == RC_OK; i++) {
        const struct queued *queued = &conn->multi.queued[i];
        if (queued->cmd->flags & CMD_OUTSIDE) {
            conn->ns = ran[i].ns;
            conn->out.proto = ctx->reply->proto = ran[i].proto;
            rc = queued_run(ctx, queued, true, &ran[i]);
        } else {
            if (!ctx->reply->failed)
                resp_add_raw(ctx->reply, bytes_of(inside.ptr + at, ran[i].reply_len));
            at += ran[i].reply_len;
        }
    }
    conn->ns = ns;
    conn->out.proto = ctx->reply->proto = proto;
    return rc;
}

static enum rc queue_run(struct cmd_ctx *ctx)
{
    struct conn *conn = ctx->conn;
    struct ns *ns = conn->ns;
    uint8_t proto = ctx->reply->proto;
    bool outside = false;
    size_t monitor_from = ctx->server->monitor_feed.len;
    struct ran *ran = arena_try_alloc(ctx->run->arena, conn->multi.count * sizeof *ran);
    if (!ran)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for an EXEC");
    resp_add_array(ctx->reply, conn->multi.count);
    size_t from = ctx->reply->buf.len;
    enum rc rc = inside_run(ctx, ran, &outside);
    if (rc == RC_OK && outside)
        rc = outside_run(ctx, ran, from);
    if (rc != RC_OK) { /* it runs again from its start, or not at all */
        conn->ns = ns;
        conn->out.proto = ctx->reply->proto = proto;
        buf_cut(&ctx->server->monitor_feed, monitor_from); /* of scripts among them */
        return rc;
    }
    queue_note(ctx, ran);
    return RC_OK;
}

enum rc cmd_exec(struct cmd_ctx *ctx)
{
    struct conn *conn = ctx->conn;
    if (!conn->multi.open)
        return cmd_error(ctx, "EXEC without MULTI");
    if (conn->multi.refused) {
        server__multi_end(conn);
        return err_set(ctx->err, RC_REPLY,
                       "EXECABORT Transaction discarded because of previous errors.");
    }
    enum rc rc = watched_check(ctx);
    if (rc != RC_OK)
        return rc;
    if (conn->multi.touched) {
        server__multi_end(conn);
        resp_add_null_array(ctx->reply);
        return RC_OK;
    }
    rc = queue_run(ctx);
    if (rc != RC_COLD && rc != RC_WAIT) /* then it runs again */
        server__multi_end(conn);
    return rc;
}

enum rc cmd_watch(struct cmd_ctx *ctx)
{
    struct conn *conn = ctx->conn;
    struct key key;
    bool cold = false;
    if (conn->multi.open)
        return cmd_error(ctx, "WATCH inside MULTI is not allowed");
    for (size_t i = 1; i < ctx->argc; i++) {
        enum rc rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    if (cold)
        return RC_COLD;
    for (size_t i = 1; i < ctx->argc; i++) {
        if (server__waiter_has(ctx->server, WAITER_WATCH, conn, ctx->run->ns, ctx->argv[i]))
            continue;
        enum rc rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc == RC_OK)
            rc = server__waiter_add(ctx->server, ctx->run->ns, ctx->argv[i], WAITER_WATCH, conn,
                                    &conn->multi.watching, ctx->err);
        if (rc != RC_OK)
            return rc;
        conn->multi.watching_bytes += sizeof *conn->multi.watching + ctx->argv[i].len;
        conn->multi.watching->touched = &conn->multi.touched;
        conn->multi.watching->existed = key.exists;
        conn->multi.watching->was_dead = key.dead;
    }
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_unwatch(struct cmd_ctx *ctx)
{
    unwatch(ctx->conn);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

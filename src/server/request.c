// SPDX-License-Identifier: Apache-2.0
/* request.c - a command that waits: for cold rows, for room in memory, for keys, for a pause's end.
 *
 * It is a task with copies of its arguments. Its reply stays with it until it is done, and only
 * then goes to the connection, which meanwhile runs nothing else. */
#include "server/server_int.h"

#include "base/mem.h"
#include "store/turns.h"

#include "base/banned.h"

enum { REPLY_MOVED_BYTES_MIN = 64 * 1024 }; /* shorter ones are copied to the connection */

/* ---- life ---- */

static struct request *request_new(struct conn *conn)
{
    struct server *server = conn->server;
    struct request *request = server->spare;
    if (request) {
        server->spare = (struct request *)request->base.task.next;
        server->spare_count--;
    } else {
        request = mem_zalloc(sizeof *request);
        resp_out_init(&request->reply, SIZE_MAX);
    }
    request->base.task.next = NULL;
    request->base.task.deadline_ns = 0;
    request->conn = conn;
    request->base.give_up = NULL;
    request->paused = request->blocked = request->counted = false;
    request->unblocked = request->unblock_error = false;
    request->base.step = 0;
    request->since_ms = 0;
    request->base.state = NULL;
    request->build = NULL;
    request->slow = NULL;
    request->run_ns = 0;
    request->reply.proto = conn->out.proto;
    return request;
}

static void request_destroy(struct request *request)
{
    resp_out_done(&request->reply);
    mem_free(request);
}

static void ahead_forget(struct request *request)
{
    mem_free(request->ahead);
    request->ahead = NULL;
    request->ahead_count = 0;
}

void server__request_free(struct request *request)
{
    struct server *server = request->conn->server;
    server__waiters_free(server, &request->listening);
    models_wait_end(request->base.waiter);
    server__request_build_free(request->build);
    server__request_long_free(request->slow);
    if (request->base.state)
        request->base.state_free(request->base.state);
    ahead_forget(request);
    mem_free(request->argv);
    request->argv = NULL;
    buf_done(&request->in);
    resp_out_clear(&request->reply);
    if (server->spare_count >= REQUEST_SPARE_COUNT_MAX) {
        request_destroy(request);
        return;
    }
    request->base.task.next = (struct task *)server->spare;
    server->spare = request;
    server->spare_count++;
}

void server__requests_done(struct server *server)
{
    while (server->spare) {
        struct request *request = server->spare;
        server->spare = (struct request *)request->base.task.next;
        request_destroy(request);
    }
}

void server__request_cancel(struct request *request)
{
    task_cancel(&request->base.task);
    request->conn->parked = NULL;
    server__request_free(request);
}

size_t server__args_bytes(const struct bytes *argv, size_t argc)
{
    size_t bytes = argc * sizeof *argv;
    for (size_t i = 0; i < argc; i++)
        bytes += argv[i].len;
    return bytes;
}

/* Arguments and their bytes in one allocation. */
struct bytes *server__args_copy(const struct bytes *argv, size_t argc)
{
    struct bytes *copy = mem_try_alloc(server__args_bytes(argv, argc));
    if (!copy)
        return NULL;
    uint8_t *at = (uint8_t *)(copy + argc);
    for (size_t i = 0; i < argc; i++) {
        if (argv[i].len > 0)
            memcpy(at, argv[i].ptr, argv[i].len);
        copy[i] = bytes_of(at, argv[i].len);
        at += argv[i].len;
    }
    return copy;
}

/* ---- blocking ---- */

bool server__conn_blocked(const struct conn *conn)
{
    return conn->parked && (conn->parked->blocked || conn->parked->paused);
}

bool server__request_is_long(const struct request *request)
{
    return request->blocked || request->base.state || request->paused;
}

bool cmd_has_waited(const struct cmd_ctx *ctx)
{
    return ctx->request && server__request(ctx)->blocked;
}

bool server__key_try(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                     struct bytes *ret_key)
{
    const struct request *request = server__request(ctx);
    *ret_key = n > 0 ? key[n - 1] : request ? request->serving_key : (struct bytes){0};
    if (n == 0)
        return ret_key->ptr != NULL;
    return ctx->in_exec || !(ctx->cmd->flags & CMD_BLOCKING) ||
           !server__serving_is_others(ctx->server, request, ctx->run->ns, *ret_key);
}

static enum rc keys_wait(struct cmd_ctx *ctx, const struct cmd_blocking *wait)
{
    struct request *request = server__request(ctx);
    struct server *server = ctx->server;
    for (size_t i = 0; i < wait->key_count; i++) {
        if (server__waiter_has(server, WAITER_BLOCK, request, ctx->run->ns, wait->key[i]))
            continue;
        enum rc rc = server__waiter_add(server, ctx->run->ns, wait->key[i], WAITER_BLOCK, request,
                                        &request->listening, ctx->err);
        if (rc != RC_OK) {
            server__waiters_free(server, &request->listening);
            return rc;
        }
        request->listening->wants = wait->type;
    }
    return RC_OK;
}

enum rc server__block(struct cmd_ctx *ctx, const struct cmd_blocking *wait)
{
    struct request *request = server__request(ctx);
    struct server *server = ctx->server;
    if (ctx->in_exec) {
        wait->give_up(ctx->reply);
        return RC_OK;
    }
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    if (request->blocked)
        return RC_WAIT; /* it keeps its place */
    enum rc rc = keys_wait(ctx, wait);
    if (rc != RC_OK)
        return rc;
    request->base.give_up = wait->give_up;
    request->blocked = true;
    if (server->monitor_count > 0)
        monitor_feed(server, ctx->conn, ctx->argv, ctx->argc);
    if (wait->timeout_ms > 0)
        request->base.task.deadline_ns = clock_mono_ns(server->clock) + wait->timeout_ms * 1000000;
    return RC_WAIT;
}

bool server__request_unblock(struct request *request, bool error)
{
    if (!request->blocked)
        return false;
    request->unblock_error = error;
    request->unblocked = true;
    request->blocked = false;
    server__waiters_free(request->conn->server, &request->listening);
    task_wake(&request->base.task);
    return true;
}

/* ---- the flush ---- */

static enum rc flush_ended(struct cmd_ctx *ctx, uint64_t segment)
{
    struct err why;
    if (store_flush_mark(ctx->server->store) >= segment)
        return RC_OK;
    if (store_flush_failed(ctx->server->store, &why))
        return err_set(ctx->err, why.rc, "could not flush, it is tried again: %.400s", why.text);
    task_wait_mark(&ctx->request->task, segment);
    return RC_WAIT;
}

enum rc cmd_flush_wait(struct cmd_ctx *ctx)
{
    struct request *request = server__request(ctx);
    if (ctx->in_exec)
        return cmd_error(ctx, "this command can not be part of a MULTI");
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    switch (request->base.step++) {
    case 0:
        ctx->server->flush_asked = true; /* after this turn, which may hold commits */
        return RC_WAIT;
    case 1:
        task_wait_mark(&request->base.task, ctx->server->flush_segment);
        return RC_WAIT;
    default:
        return flush_ended(ctx, request->base.task.wait_value);
    }
}

/* CLIENT UNBLOCK has taken its keys away: the answer is an error, or that of a timeout. Redis
 * counts both as a call that failed. */
static enum rc unblocked_run(struct request *request, struct err *err)
{
    server__call_stats(request->conn->server, request->cmd, true, 0, RC_REPLY);
    if (request->unblock_error)
        return err_set(err, RC_REPLY, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    request->base.give_up(&request->reply);
    return RC_OK;
}

/* ---- the task ---- */

/* Everything that is known to be needed is asked for at once. */
static void request_want(struct request *request)
{
    size_t index[REQUEST_WANT_KEYS_MAX];
    struct conn *conn = request->conn;
    key_want(conn->ns, request->ahead, request->ahead_count);
    if (request->cmd->flags & CMD_EXEC) {
        server__multi_want(conn);
        return;
    }
    size_t count =
        cmd_keys(request->cmd, request->argv, request->argc, index, REQUEST_WANT_KEYS_MAX);
    for (size_t i = 0; i < count && i < REQUEST_WANT_KEYS_MAX; i++)
        key_want(conn->ns, &request->argv[index[i]], 1);
}

/* What is counted is the run that came to an end, not the waiting before it. A command that blocks
 * is counted when it begins to, as in Redis: what it does when it is served adds to that. */
static void block_note(struct request *request, uint64_t usec)
{
    struct server *server = request->conn->server;
    request->counted = true;
    server->stats.command_count++;
    server__call_stats(server, request->cmd, false, usec, RC_OK);
}

/* The run found something cold. True: a model wakes the request when it is there. Who waits for a
 * lift asks for no rows: they would be here before the lift, and it would run again for nothing. */
static bool request_cold(struct request *request)
{
    struct server *server = request->conn->server;
    if (!models_wait(server, request->base.waiter, &request->base.task)) {
        request_want(request);
        return false;
    }
    if (request->since_ms == 0)
        request->since_ms = clock_unix_ms(server->clock);
    return true;
}

/* The request has run: what it needs is asked for, and it waits for that. */
static void request_wait(struct request *request, enum rc rc)
{
    struct server *server = request->conn->server;
    if (rc == RC_COLD) {
        /* A request that a key serves goes on being served. */
        if (request_cold(request))
            task_wait_event(&request->base.task);
    } else if (rc != RC_WAIT) {
        models_wait_end(request->base.waiter);
        server__waiters_free(server, &request->listening); /* it has what it waited for */
        request->blocked = false;
    } else if (request->paused) {
        task_wait_event(&request->base.task);
    } else if (request->blocked && !server__serving_pass(server, request->listening)) {
        task_wait_event(&request->base.task);
    } else {
        server->busy = true; /* what the handler has asked for may be nothing but another turn */
    }
}

static enum rc request_run(struct task *task, struct store *store, struct err *err)
{
    struct request *request = (struct request *)task;
    struct conn *conn = request->conn;
    struct server *server = conn->server;
    (void)store;
    struct run run;
    struct cmd_ctx ctx = {.host = &server->host,
                          .server = server,
                          .conn = conn,
                          .run = &run,
                          .cmd = request->cmd,
                          .argv = request->argv,
                          .argc = request->argc,
                          .reply = &request->reply,
                          .err = err,
                          .request = &request->base};
    server__request_reply_begin(request);
    request->reply.buf.bytes_max = server__conn_out_room(conn);
    if (request->unblocked)
        return unblocked_run(request, err);
    if (!server__serving_key(request->listening, &request->serving_key))
        request->serving_key = (struct bytes){0};
    server->stats.blocked_runs += request->blocked;
    uint64_t start_ns = clock_mono_ns(server->clock);
    run_begin(&run, &server->kv, conn->ns, 0);
    run.since_ms = request->since_ms;
    enum rc rc = run_end(&run, server__execute(&ctx));
    request->run_ns =
        (request->slow ? request->run_ns : 0) + clock_mono_ns(server->clock) - start_ns;
    uint64_t usec = request->run_ns / 1000; /* of all slices of a long reply */
    if (rc != RC_COLD && rc != RC_WAIT)
        server__call_note(&ctx, usec, rc);
    if (rc == RC_WAIT && request->blocked && !request->counted)
        block_note(request, usec);
    request_wait(request, rc);
    server__conn_count(conn);
    if (rc == RC_WAIT && conn->eof)
        server__conn_touch(conn); /* it left before this was known to take long */
    return rc;
}

/* To the connection, or the connection ends: what the command has done stays done, as in Redis. */
static void reply_give(struct request *request)
{
    struct conn *conn = request->conn;
    struct resp_out *reply = &request->reply;
    if (conn->broken)
        return;
    if (reply->over || reply->buf.len > server__conn_out_room(conn)) {
        size_t bytes = reply->over ? reply->buf.bytes_max : reply->buf.len;
        server__conn_out_end_over(conn, conn->out.buf.len - conn->out_sent + bytes);
        return;
    }
    if (reply->buf.len >= REPLY_MOVED_BYTES_MIN && conn->out.buf.len == 0) {
        buf_done(&conn->out.buf);
        conn->out.buf = reply->buf;
        buf_init(&reply->buf, SIZE_MAX);
    } else {
        conn->out.buf.bytes_max = SIZE_MAX; /* it has had its own limit */
        resp_add_raw(&conn->out, buf_bytes(&reply->buf));
    }
}

static void request_done(struct task *task, enum rc rc, const struct err *err)
{
    struct request *request = (struct request *)task;
    struct conn *conn = request->conn;
    struct server *server = conn->server;
    if (request->ahead_count > 0 && (rc == RC_IO || rc == RC_CORRUPT)) {
        /* It may be a row of a command behind it that cannot be read: that is not its fault. */
        ahead_forget(request);
        task_start(server->tasks, task);
        server->busy = true;
        return;
    }
    if (rc != RC_OK) {
        if (request->cmd->flags & CMD_EXEC)
            server__multi_end(conn); /* a load may have failed before it ran */
        conn->script = (struct conn_script){0};
        resp_out_clear(&request->reply);
        if (rc == RC_TIMEOUT && request->base.give_up)
            request->base.give_up(&request->reply);
        else
            server__error_add(&request->reply, rc, err);
        server->stats.error_count += rc != RC_TIMEOUT;
        if (request->base.give_up && rc != RC_TIMEOUT && !server__is_own_fault(rc))
            server__waiters_wake(server); /* what it took is there again */
    }
    conn->parked = NULL;
    if (server__reply_is_wanted(conn, request->cmd))
        reply_give(request);
    conn->last_cmd = request->cmd;
    if (!request->counted) {
        server->stats.command_count++;
        if (rc == RC_TIMEOUT)
            server__call_stats(server, request->cmd, false, 0, RC_OK);
    }
    server__request_free(request);
    server__conn_touch(conn);
    if (conn->in.len > conn->parser.at || conn->parsed) {
        server__conn_queue(conn);
        server->busy = true;
    }
}

static unsigned task_flags(const struct conn *conn, const struct cmd *cmd)
{
    unsigned flags = server__call_flags(conn, cmd);
    return (flags & CMD_WRITE ? TASK_WRITES : 0u) | (flags & CMD_DELETES ? TASK_DELETES : 0u);
}

/* A copy of the arguments, or the input itself if they are most of it. */
static bool args_take(struct request *request, const struct call *call)
{
    size_t bytes = server__args_bytes(call->argv, call->argc);
    request->argc = call->argc;
    if (!server__conn_in_take(request->conn, bytes, &request->in)) {
        request->argv = server__args_copy(call->argv, call->argc);
        request->argv_bytes = bytes;
        return request->argv != NULL;
    }
    request->argv = mem_alloc(call->argc * sizeof *call->argv);
    memcpy(request->argv, call->argv, call->argc * sizeof *call->argv);
    request->argv_bytes = call->argc * sizeof *call->argv + request->in.cap;
    return true;
}

bool server__request_park(const struct call *call, enum rc rc, const struct bytes *ahead,
                          size_t ahead_count)
{
    struct conn *conn = call->conn;
    struct server *server = conn->server;
    struct request *request = request_new(conn);
    request->cmd = call->cmd;
    if (!args_take(request, call)) {
        server__request_free(request);
        return false;
    }
    request->base.task.run = request_run;
    request->base.task.done = request_done;
    request->base.task.flags = task_flags(conn, call->cmd);
    if (ahead_count > 0) /* without memory it is slower, no more */
        request->ahead = server__args_copy(ahead, ahead_count);
    request->ahead_count = request->ahead ? ahead_count : 0;
    conn->parked = request;
    if (rc == RC_COLD)
        task_start_cold(server->tasks, &request->base.task, request_cold(request));
    else
        task_start(server->tasks, &request->base.task);
    server->busy = true;
    return true;
}

void server__pause_end(struct server *server)
{
    server->pause_end_ms = 0;
    server__sweep_set(server);
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        if (conn->parked && conn->parked->paused) {
            conn->parked->paused = false;
            task_wake(&conn->parked->base.task);
        }
    }
}

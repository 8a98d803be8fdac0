/* request.c - a command that waits: for cold rows, for room in memory, for keys, for a pause's end.
 *
 * It is a task with copies of its arguments. Its reply stays with it until it is done, and only
 * then goes to the connection, which meanwhile runs nothing else. */
#include "server/server_int.h"

#include "base/mem.h"

#include "base/banned.h"

/* ---- life ---- */

static struct request *request_new(struct conn *conn)
{
    struct server *server = conn->server;
    struct request *request = server->spare;
    if (request) {
        server->spare = (struct request *)request->task.next;
        server->spare_count--;
    } else {
        request = mem_zalloc(sizeof *request);
        resp_out_init(&request->reply, CONN_REPLY_ONE_BYTES_MAX);
    }
    request->task.next = NULL;
    request->task.deadline_ns = 0;
    request->conn = conn;
    request->give_up = NULL;
    request->blocked = request->unblocked = request->unblock_error = false;
    request->step = 0;
    request->land = (struct land_waiter){0};
    request->state = NULL;
    request->aside = NULL;
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
    server__ears_free(server, &request->listening);
    land_waiter_end(&request->land);
    tile_waiter_end(request->conn->server->tiles, &request->tile);
    server__request_aside_free(request->aside);
    if (request->state)
        request->state_free(request->state);
    ahead_forget(request);
    mem_free(request->argv);
    request->argv = NULL;
    resp_out_clear(&request->reply);
    if (server->spare_count >= REQUEST_SPARE_COUNT_MAX) {
        request_destroy(request);
        return;
    }
    request->task.next = (struct task *)server->spare;
    server->spare = request;
    server->spare_count++;
}

void server__requests_done(struct server *server)
{
    while (server->spare) {
        struct request *request = server->spare;
        server->spare = (struct request *)request->task.next;
        request_destroy(request);
    }
}

void server__request_cancel(struct request *request)
{
    task_cancel(&request->task);
    request->conn->parked = NULL;
    server__request_free(request);
}

/* Arguments and their bytes in one allocation. */
struct bytes *server__args_copy(const struct bytes *argv, size_t argc)
{
    size_t bytes = argc * sizeof *argv;
    for (size_t i = 0; i < argc; i++)
        bytes += argv[i].len;
    struct bytes *copy = mem_try_alloc(bytes);
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

bool server__request_blocked(const struct request *request)
{
    return request->blocked;
}

bool server__request_is_long(const struct request *request)
{
    return request->blocked || request->state;
}

bool cmd_has_waited(const struct cmd_ctx *ctx)
{
    return ctx->request && ctx->request->blocked;
}

bool cmd_key_try(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                 struct bytes *ret_key)
{
    const struct request *request = ctx->request;
    *ret_key = n > 0 ? key[n - 1] : request ? request->turn_key : (struct bytes){0};
    if (n == 0)
        return ret_key->ptr != NULL;
    return ctx->in_exec || !(ctx->cmd->flags & CMD_BLOCKING) ||
           !server__turn_is_others(ctx->server, request, ctx->ns, *ret_key);
}

static enum rc keys_listen(struct cmd_ctx *ctx, const struct cmd_blocking *wait)
{
    struct request *request = ctx->request;
    struct server *server = ctx->server;
    for (size_t i = 0; i < wait->key_count; i++) {
        if (server__ear_has(server, EAR_BLOCK, request, ctx->ns, wait->key[i]))
            continue;
        enum rc rc = server__ear_add(server, ctx->ns, wait->key[i], EAR_BLOCK, request,
                                     &request->listening, ctx->err);
        if (rc != RC_OK) {
            server__ears_free(server, &request->listening);
            return rc;
        }
        request->listening->wants = wait->type;
    }
    return RC_OK;
}

enum rc cmd_block(struct cmd_ctx *ctx, const struct cmd_blocking *wait)
{
    struct request *request = ctx->request;
    struct server *server = ctx->server;
    if (ctx->in_exec) {
        wait->give_up(ctx->reply);
        return RC_OK;
    }
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    if (request->blocked)
        return RC_WAIT; /* it keeps its place */
    enum rc rc = keys_listen(ctx, wait);
    if (rc != RC_OK)
        return rc;
    request->give_up = wait->give_up;
    request->blocked = true;
    if (server->monitor_count > 0)
        monitor_feed(server, ctx->conn, ctx->argv, ctx->argc);
    if (wait->timeout_ms > 0)
        request->task.deadline_ns = clock_mono_ns(server->clock) + wait->timeout_ms * 1000000;
    return RC_WAIT;
}

bool server__request_unblock(struct request *request, bool error)
{
    if (!server__request_blocked(request))
        return false;
    request->unblock_error = error;
    request->unblocked = true;
    request->blocked = false;
    server__ears_free(request->conn->server, &request->listening);
    task_wake(&request->task);
    return true;
}

/* ---- the flush ---- */

enum rc cmd_flush_wait(struct cmd_ctx *ctx)
{
    struct request *request = ctx->request;
    if (ctx->in_exec)
        return cmd_error(ctx, "this command can not be part of a MULTI");
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    switch (request->step++) {
    case 0:
        ctx->server->flush_asked = true; /* after this turn, which may hold commits */
        return RC_WAIT;
    case 1:
        task_wait_mark(&request->task, ctx->server->flush_segment);
        return RC_WAIT;
    default:
        return RC_OK;
    }
}

/* CLIENT UNBLOCK has taken its keys away: the answer is an error, or that of a timeout. */
static enum rc unblocked_run(struct request *request, struct err *err)
{
    if (request->unblock_error)
        return err_set(err, RC_REPLY, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    request->give_up(&request->reply);
    return RC_OK;
}

/* ---- the task ---- */

/* Everything that is known to be needed is asked for at once. */
static void request_want(struct request *request)
{
    size_t index[REQUEST_WANT_KEYS_MAX];
    struct conn *conn = request->conn;
    key_want(conn->ns, request->ahead, request->ahead_count);
    if (request->cmd->run == cmd_exec) {
        server__multi_want(conn);
        return;
    }
    size_t count =
        cmd_keys(request->cmd, request->argv, request->argc, index, REQUEST_WANT_KEYS_MAX);
    for (size_t i = 0; i < count && i < REQUEST_WANT_KEYS_MAX; i++)
        key_want(conn->ns, &request->argv[index[i]], 1);
}

/* What is counted is the run that came to an end, not the waiting before it. */
static void run_note(const struct request *request, uint64_t usec, enum rc rc)
{
    struct server *server = request->conn->server;
    server__call_stats(server, request->cmd, usec, rc);
    if ((int64_t)usec >= server->config->slowlog_log_slower_than_us &&
        request->cmd->run != cmd_exec)
        slowlog_note(server, request->conn, request->argv, request->argc, usec);
}

/* It has run: what it did is told, what it needs is asked for. */
static void request_settle(struct request *request, size_t effects, enum rc rc)
{
    struct conn *conn = request->conn;
    struct server *server = conn->server;
    if (rc == RC_OK)
        server__effects_touch(server, effects);
    else
        buf_cut(&server->effects.buf, effects);
    if (rc == RC_COLD) {
        /* If it has the turn of a key it keeps it. Who waits for a lift asks for no rows: they
         * would be here before the lift, and it would run again for nothing. */
        if (landing_wait(server->landing, &request->land, &request->task))
            task_wait_event(&request->task);
        else if (tiles_wait(server->tiles, &request->tile, &request->task))
            task_wait_event(&request->task);
        else
            request_want(request);
    } else if (rc != RC_WAIT) {
        tile_waiter_end(server->tiles, &request->tile);
        server__ears_free(server, &request->listening); /* it has what it waited for */
        request->blocked = false;
    } else if (conn->paused) {
        task_wait_event(&request->task);
    } else if (request->blocked && !server__turns_pass(server, request->listening)) {
        task_wait_event(&request->task);
    } else {
        if (request->aside)
            task_room_again(&request->task);
        server->busy = true; /* what the handler has asked for may be nothing but another turn */
    }
}

static enum rc request_run(struct task *task, struct store *store, struct err *err)
{
    struct request *request = (struct request *)task;
    struct conn *conn = request->conn;
    struct server *server = conn->server;
    (void)store;
    struct cmd_ctx ctx = {.server = server,
                          .conn = conn,
                          .kv = &server->kv,
                          .ns = conn->ns,
                          .cmd = request->cmd,
                          .argv = request->argv,
                          .argc = request->argc,
                          .reply = &request->reply,
                          .err = err,
                          .request = request};
    resp_out_clear(&request->reply);
    if (request->unblocked)
        return unblocked_run(request, err);
    if (!server__turn_key(request->listening, &request->turn_key))
        request->turn_key = (struct bytes){0};
    server->stats.blocked_runs += request->blocked;
    kv_begin(&server->kv, clock_unix_ms(server->clock));
    uint64_t start_ns = clock_mono_ns(server->clock);
    size_t effects = server->effects.buf.len;
    landing_run_begin(server->landing, &request->land);
    tiles_run_begin(server->tiles);
    server->collecting = true; /* the turn's: they leave in the order of commits */
    enum rc rc = server__dispatch(&ctx);
    server->collecting = false;
    landing_run_end(server->landing);
    if (rc == RC_COLD || rc == RC_WAIT)
        kv_again(&server->kv);
    else if (ctx.cmd)
        run_note(request, (clock_mono_ns(server->clock) - start_ns) / 1000, rc);
    if (rc == RC_OK && request->reply.failed)
        rc = err_set(err, RC_NOMEM, "could not allocate memory for the reply");
    request_settle(request, effects, rc);
    if (rc == RC_WAIT && conn->eof)
        server__conn_touch(conn); /* it left before this was known to take long */
    return rc;
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
        if (request->cmd->run == cmd_exec)
            server__multi_end(conn); /* a load may have failed before it ran */
        resp_out_clear(&request->reply);
        if (rc == RC_TIMEOUT && request->give_up)
            request->give_up(&request->reply);
        else
            resp_add_error(&request->reply, rc_prefix(rc), err->text[0] ? err->text : rc_text(rc));
        server->stats.error_count += rc != RC_TIMEOUT;
        if (request->give_up && rc != RC_TIMEOUT && !server__is_own_fault(rc))
            server__ears_wake(server); /* what it took is there again */
    }
    conn->parked = NULL;
    conn->paused = false;
    conn->out.buf.bytes_max = SIZE_MAX; /* it has had its own limit */
    if (server__reply_is_wanted(conn, request->cmd))
        resp_add_raw(&conn->out, buf_bytes(&request->reply.buf));
    conn->last_cmd = request->cmd;
    server->stats.command_count++;
    if (rc == RC_TIMEOUT)
        server__call_stats(server, request->cmd, 0, RC_OK);
    server__request_free(request);
    server__conn_touch(conn);
    if (conn->in.len > conn->parser.at || conn->parsed) {
        server__conn_queue(conn);
        server->busy = true;
    }
}

static unsigned task_flags_of(unsigned flags)
{
    return (flags & CMD_WRITE ? TASK_WRITES : 0u) | (flags & CMD_DELETES ? TASK_DELETES : 0u);
}

/* EXEC is as heavy as the commands it runs, and deletes if all that write do. */
static unsigned task_flags(const struct conn *conn, const struct cmd *cmd)
{
    unsigned flags = TASK_DELETES;
    if (cmd->run != cmd_exec)
        return task_flags_of(cmd->flags);
    for (size_t i = 0; i < conn->multi.count; i++) {
        unsigned one = task_flags_of(conn->multi.queued[i].cmd->flags);
        flags |= one & TASK_WRITES;
        if (one == TASK_WRITES)
            flags &= ~(unsigned)TASK_DELETES;
    }
    return flags;
}

bool server__request_park(struct conn *conn, const struct call *call)
{
    struct bytes *argv = server__args_copy(call->argv, call->argc);
    if (!argv)
        return false;
    struct request *request = request_new(conn);
    request->cmd = call->cmd;
    request->argv = argv;
    request->argc = call->argc;
    request->task.run = request_run;
    request->task.done = request_done;
    request->task.flags = task_flags(conn, call->cmd);
    conn->parked = request;
    task_start(conn->server->tasks, &request->task);
    conn->server->busy = true;
    return true;
}

void server__request_ahead(struct request *request, const struct bytes *key, size_t count)
{
    request->ahead = server__args_copy(key, count); /* without memory it is slower, no more */
    request->ahead_count = request->ahead ? count : 0;
}

void server__pause_end(struct server *server)
{
    server->pause_end_ms = 0;
    server__sweep_set(server);
    for (struct conn *conn = server->conns; conn; conn = conn->next) {
        if (conn->paused && conn->parked)
            task_wake(&conn->parked->task);
        conn->paused = false;
    }
}

/* request.c - a command of a connection as a task. */
#include "server/server_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum { SPARE_MAX = 4 * CONN_REQUESTS_MAX };

static void conn_touch(struct conn *conn)
{
    if (conn->touched)
        return;
    conn->touched = true;
    conn->touched_next = conn->server->touched;
    conn->server->touched = conn;
}

/* ---- order ---- */

static bool has_reply_room(const struct conn *conn)
{
    return conn->reply_bytes <= CONN_REPLY_BYTES_MAX;
}

void server__runnable_wake(struct conn *conn)
{
    if (conn->runnable && has_reply_room(conn))
        task_wake(&conn->runnable->task);
}

/* The request has its reply: the next one may run. */
static void request_answered(struct request *request)
{
    struct conn *conn = request->conn;
    request->answered = true;
    conn->reply_bytes += request->reply.buf.len;
    while (conn->runnable && conn->runnable->answered)
        conn->runnable = conn->runnable->next;
    server__runnable_wake(conn);
}

/* ---- the task ---- */

static enum rc request_run(struct task *task, struct store *store, struct err *err)
{
    struct request *request = (struct request *)task;
    struct conn *conn = request->conn;
    (void)store;
    if (conn->runnable != request || !has_reply_room(conn)) {
        task_wait_event(task);
        return RC_WAIT;
    }
    if (conn->deaf) {
        request_answered(request); /* with nothing */
        return RC_OK;
    }
    struct cmd_ctx ctx = {.server = conn->server,
                          .conn = conn,
                          .ns = &conn->server->ns,
                          .cmd = request->cmd,
                          .argv = request->argv,
                          .argc = request->argc,
                          .reply = &request->reply,
                          .err = err};
    enum rc rc = cmd_run(&ctx);
    if (rc == RC_OK && request->reply.failed)
        rc = err_set(err, RC_NOMEM, "could not allocate memory for the reply");
    if (rc == RC_OK)
        request_answered(request);
    else
        resp_out_clear(&request->reply);
    return rc;
}

static void reply_error(struct request *request, enum rc rc, const char *text)
{
    struct conn *conn = request->conn;
    if (request->answered) /* the turn could not be written: it did not happen */
        conn->reply_bytes -= request->reply.buf.len;
    resp_out_clear(&request->reply);
    resp_add_error(&request->reply, rc_prefix(rc), text[0] ? text : rc_text(rc));
    if (request->answered)
        conn->reply_bytes += request->reply.buf.len;
    else
        request_answered(request);
    conn->server->stats.error_count++;
}

static void request_done(struct task *task, enum rc rc, const struct err *err)
{
    struct request *request = (struct request *)task;
    if (rc != RC_OK)
        reply_error(request, rc, err->text);
    request->conn->server->stats.command_count++;
    conn_touch(request->conn);
}

/* ---- life ---- */

static struct request *request_new(struct conn *conn)
{
    struct server *server = conn->server;
    struct request *request = server->spare;
    if (request) {
        server->spare = request->next;
        server->spare_count--;
    } else {
        request = mem_zalloc(sizeof *request);
        resp_out_init(&request->reply, CONN_REPLY_ONE_BYTES_MAX);
    }
    request->conn = conn;
    request->cmd = NULL;
    request->argv = request->argv_few;
    request->argc = 0;
    request->answered = false;
    request->next = NULL;
    return request;
}

void server__request_free(struct request *request)
{
    struct server *server = request->conn->server;
    if (request->argv != request->argv_few)
        mem_free(request->argv);
    if (server->spare_count >= SPARE_MAX) {
        resp_out_done(&request->reply);
        mem_free(request);
        return;
    }
    resp_out_clear(&request->reply);
    request->next = server->spare;
    server->spare = request;
    server->spare_count++;
}

void server__request_cancel(struct request *request)
{
    task_cancel(&request->task);
    server__request_free(request);
}

static void request_queue(struct conn *conn, struct request *request)
{
    if (conn->last)
        conn->last->next = request;
    else
        conn->first = request;
    conn->last = request;
    conn->request_count++;
    if (!conn->runnable && !request->answered)
        conn->runnable = request;
}

bool server__request_start(struct conn *conn, const uint8_t *in, const struct resp_parser *parser)
{
    struct request *request = request_new(conn);
    if (parser->arg_count > REQUEST_ARGS_FEW) {
        struct bytes *argv = mem_try_alloc(parser->arg_count * sizeof *argv);
        if (!argv) {
            server__request_free(request);
            return false;
        }
        request->argv = argv;
    }
    request->argc = parser->arg_count;
    for (size_t i = 0; i < request->argc; i++)
        request->argv[i] = bytes_of(in + parser->arg[i].offset, parser->arg[i].len);
    request->cmd = cmd_find(request->argv[0]);
    unsigned flags = request->cmd ? request->cmd->flags : 0;
    request->task.run = request_run;
    request->task.done = request_done;
    request->task.flags =
        (flags & CMD_WRITE ? TASK_WRITES : 0u) | (flags & CMD_DELETES ? TASK_DELETES : 0u);
    request_queue(conn, request);
    task_start(conn->server->tasks, &request->task);
    conn->server->busy = true;
    return true;
}

bool server__request_refuse(struct conn *conn, const char *prefix, const char *text)
{
    struct request *request = request_new(conn);
    resp_add_error(&request->reply, prefix, text);
    bool failed = request->reply.failed;
    request->answered = true;
    conn->reply_bytes += request->reply.buf.len;
    conn->server->stats.error_count++;
    conn->server->busy = true;
    request_queue(conn, request);
    conn_touch(conn);
    return !failed;
}

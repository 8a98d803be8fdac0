// SPDX-License-Identifier: Apache-2.0
/* busy.c - a script that takes long: the others hear BUSY, and may end it.
 *
 * All of this happens inside the script's run, from the interpreter's hook. The turn is open, so:
 *   (1) Nothing is run that touches rows, and no connection is closed.
 *   (2) A connection with replies of this turn sends nothing before the turn is written: what it
 *       asks is looked at, the answer waits.
 *   (3) The input of the script's own connection does not move: its arguments may be there. */
#include "server/scripts.h"

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

#define NS_A_MS UINT64_C(1000000)

static const char *busy_text(const struct script_work *work)
{
    return work->is_function ? "Redis is busy running a script. You can only call FUNCTION KILL or "
                               "SHUTDOWN NOSAVE."
                             : "Redis is busy running a script. You can only call SCRIPT KILL or "
                               "SHUTDOWN NOSAVE.";
}

/* ---- what is answered ---- */

static void kill_answer(struct scripts *scripts, struct conn *conn, bool for_function)
{
    struct script_work *work = &scripts->work;
    if (work->wrote)
        server__conn_error(conn, "UNKILLABLE",
                           "Sorry the script already executed write commands against the dataset. "
                           "You can either wait the script termination or kill the server in a "
                           "hard way using the SHUTDOWN NOSAVE command.");
    else if (for_function != work->is_function)
        server__conn_error(conn, "BUSY", busy_text(work));
    else {
        work->is_killed = true;
        resp_add_status(&conn->out, "OK");
    }
}

static bool is_nosave(const struct bytes *argv, size_t argc)
{
    for (size_t i = 1; i < argc; i++)
        if (cmd_arg_is(argv[i], "NOSAVE"))
            return true;
    return false;
}

/* Commands of the connection itself, which need no row. */
static bool is_own(const struct cmd *cmd)
{
    return cmd->run == cmd_auth || cmd->run == cmd_hello || cmd->run == cmd_quit;
}

static void own_run(struct scripts *scripts, struct conn *conn, const struct cmd *cmd,
                    const struct bytes *argv, size_t argc)
{
    struct err err = {0};
    struct cmd_ctx ctx = {.host = scripts->work.ctx->host,
                          .server = scripts->server,
                          .conn = conn,
                          .run = scripts->work.ctx->run,
                          .cmd = cmd,
                          .argv = argv,
                          .argc = argc,
                          .reply = &conn->out,
                          .err = &err};
    size_t from = conn->out.buf.len;
    enum rc rc = cmd_check(&ctx);
    if (rc == RC_OK)
        rc = cmd->run(&ctx);
    if (rc == RC_OK)
        return;
    resp_out_cut(&conn->out, from);
    server__error_add(&conn->out, rc, &err);
}

static void request_answer(struct scripts *scripts, struct conn *conn, const struct bytes *argv,
                           size_t argc)
{
    struct server *server = scripts->server;
    const struct cmd *cmd = cmd_find(server->cmds, argv, argc);
    size_t count;
    conn->out.buf.bytes_max = SIZE_MAX;
    if (cmd && is_own(cmd))
        own_run(scripts, conn, cmd, argv, argc);
    else if (!conn->authed && server->config->requirepass.len > 0)
        server__conn_error(conn, "NOAUTH", "Authentication required.");
    else if (cmd && cmd->run == cmd_script_kill && argc == 2)
        kill_answer(scripts, conn, false);
    else if (cmd && cmd->run == cmd_function_kill && argc == 2)
        kill_answer(scripts, conn, true);
    else if (cmd && cmd->run == cmd_function_stats && argc == 2 && scripts->work.is_function)
        functions_stats_reply(scripts, &conn->out);
    else if (cmd && cmd->run == cmd_shutdown && is_nosave(argv, argc))
        server->signal_count++;
    else {
        conn->multi.refused = conn->multi.refused || conn->multi.open;
        if (cmd)
            server->cmd_stats[cmd - cmd_list(&count)].rejected++;
        server__conn_error(conn, "BUSY", busy_text(&scripts->work));
    }
    server__conn_touch(conn);
}

/* ---- connections ---- */

static bool is_of_script(const struct server *server, const struct conn *conn)
{
    return conn == server->scripts->work.ctx->conn || conn->batch_calls > 0;
}

/* (3) */
bool server__busy_reads(const struct conn *conn)
{
    return !is_of_script(conn->server, conn);
}

static void requests_answer(struct scripts *scripts, struct conn *conn)
{
    struct err err = {0};
    while (!conn->quit && !conn->broken) {
        enum resp_result result = RESP_REQUEST;
        if (!conn->parsed)
            result = resp_parse(&conn->parser, conn->in.ptr, conn->in.len, &err);
        conn->parsed = false;
        if (result == RESP_MORE)
            return;
        if (result == RESP_BAD) {
            server__conn_error(conn, "ERR", err.text);
            server__conn_quit(conn);
            return;
        }
        size_t argc = conn->parser.arg_count;
        struct bytes *argv = mem_alloc(argc * sizeof *argv);
        for (size_t i = 0; i < argc; i++)
            argv[i] = bytes_of(conn->in.ptr + conn->parser.arg[i].offset, conn->parser.arg[i].len);
        request_answer(scripts, conn, argv, argc);
        mem_free(argv);
    }
}

/* Those with input that can be answered; the others stay in the queue. */
static void queue_answer(struct scripts *scripts)
{
    struct server *server = scripts->server;
    struct conn *conn = server->queued_first;
    server->queued_first = server->queued_last = NULL;
    while (conn) {
        struct conn *next = conn->queued_next;
        conn->queued = false;
        if (is_of_script(server, conn) || conn->parked || conn->quit || conn->broken)
            server__conn_queue(conn);
        else
            requests_answer(scripts, conn);
        conn = next;
    }
}

static void answers_send(struct server *server)
{
    for (struct conn *conn = server->touched; conn; conn = conn->touched_next) {
        bool has_turn = conn->turn == server->turn && /* (2) */
                        server__conn_out_end(conn) > conn->turn_start;
        if (!has_turn && !is_of_script(server, conn))
            server__conn_send(conn);
    }
}

/* ---- the script's side ---- */

static void busy_begin(struct scripts *scripts)
{
    struct server *server = scripts->server;
    server->is_script_busy = true;
    server__batch_give_back(server, scripts->work.ctx->conn);
    log_warn("a slow script: %s is still running after %u ms, others are answered BUSY",
             scripts->work.name, server->config->busy_reply_threshold_ms);
}

void server__busy_end(struct scripts *scripts)
{
    scripts->server->is_script_busy = false;
}

static enum rc stopped(const struct script_work *work, struct err *err)
{
    return err_set(err, RC_INVALID, "Script killed by user with %s... script: %s",
                   work->is_function ? "FUNCTION KILL" : "SCRIPT KILL", work->name);
}

enum rc server__busy_look(struct scripts *scripts, struct err *err)
{
    struct server *server = scripts->server;
    struct script_work *work = &scripts->work;
    uint64_t now_ns = clock_steps_look(&server->steps);
    uint64_t ran_ns = now_ns > work->start_ns ? now_ns - work->start_ns : 0;
    uint64_t threshold_ns = server->config->busy_reply_threshold_ms * NS_A_MS;
    if (work->limit_ns > 0)
        return ran_ns <= work->limit_ns ? RC_OK : err_set(err, RC_INVALID, "FUNCTION LOAD timeout");
    if (!work->ctx || threshold_ns == 0 || ran_ns < threshold_ns)
        return RC_OK;
    if (!server->is_script_busy)
        busy_begin(scripts);
    struct err ignored;
    if (loop_wait(server->loop, 0, &ignored) == RC_OK) {
        queue_answer(scripts);
        answers_send(server);
    }
    if (work->is_killed)
        return stopped(work, err);
    if (server->signal_count > 0)
        return err_set(err, RC_INVALID, "the server is stopping: the script was taken back");
    return RC_OK;
}

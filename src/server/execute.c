// SPDX-License-Identifier: Apache-2.0
/* execute.c - one run of a command, and what is kept of it: statistics, the slow log, its error.
 *
 * Three callers run commands: batch.c directly in the turn, request.c as a task, multi.c those that
 * were queued. Each has a commit and a run (types/run.h); what they share is here. */
#include "server/server_int.h"

#include "base/banned.h"

enum rc server__execute(struct cmd_ctx *ctx)
{
    enum rc rc = server__dispatch(ctx);
    if (rc == RC_OK && ctx->reply->failed && !ctx->reply->over)
        rc = err_set(ctx->err, RC_NOMEM, "could not allocate memory for the reply");
    return rc;
}

/* A reply that was too long stays it: the run goes to its end, and then the client is closed. */
static void reply_cut(struct resp_out *reply, size_t len)
{
    if (!reply->failed)
        resp_out_cut(reply, len);
}

enum rc server__nested(const struct cmd_ctx *ctx, struct nested *nested)
{
    struct server *server = ctx->server;
    size_t from = nested->reply->buf.len, effects = server->effects.buf.len;
    struct run part = run_with(ctx->run, ctx->conn->ns, 0); /* SELECT may have been before it */
    struct cmd_ctx sub = *ctx;
    sub.run = &part;
    sub.cmd = nested->cmd;
    sub.argv = nested->argv;
    sub.argc = nested->argc;
    sub.reply = nested->reply;
    sub.in_exec = true;
    sub.late = nested->late;
    sub.message_seq = nested->message_seq;
    sub.failed = sub.guards = false;
    ctx->err->text[0] = 0;
    uint64_t start_ns = clock_steps_ns(&server->steps);
    store_save(ctx->run->kv->store);
    enum rc rc = server__cmd_run(&sub);
    if (rc != RC_OK && (!server__is_own_fault(rc) || (sub.guards && !sub.late)))
        return rc;
    nested->usec = (clock_steps_ns(&server->steps) - start_ns) / 1000;
    nested->rc = rc == RC_OK && sub.failed ? RC_REPLY : rc;
    if (rc != RC_OK) { /* it has done nothing, and the others go on */
        store_undo_saved(ctx->run->kv->store);
        buf_cut(&server->effects.buf, effects);
        reply_cut(nested->reply, from);
        server__error_add(nested->reply, rc, ctx->err);
    }
    return RC_OK;
}

void server__call_stats(struct server *server, const struct cmd *cmd, bool more, uint64_t usec,
                        enum rc rc)
{
    size_t count;
    struct cmd_stats *stats = &server->cmd_stats[cmd - cmd_list(&count)];
    stats->calls += !more;
    stats->usec += usec;
    stats->failed += rc != RC_OK;
}

void server__call_note(const struct cmd_ctx *ctx, uint64_t usec, enum rc rc)
{
    struct server *server = ctx->server;
    bool is_counted = ctx->request && server__request(ctx)->counted;
    if (!ctx->cmd) /* it was refused, or queued */
        return;
    server__call_stats(server, ctx->cmd, is_counted, usec, ctx->failed ? RC_REPLY : rc);
    if (UNLIKELY((int64_t)usec >= server->config->slowlog_log_slower_than_us) &&
        !(ctx->cmd->flags & CMD_EXEC)) /* its commands are noted one by one */
        slowlog_note(server, ctx->conn, ctx->argv, ctx->argc, usec);
}

void server__error_add(struct resp_out *reply, enum rc rc, const struct err *err)
{
    resp_add_error(reply, rc_prefix(rc), err->text[0] ? err->text : rc_text(rc));
}

void server_stats_reset(struct server *server)
{
    size_t count;
    (void)cmd_list(&count);
    memset(server->cmd_stats, 0, count * sizeof *server->cmd_stats);
    memset(&server->stats, 0, sizeof server->stats);
    server->kv.counts = (struct run_counts){0};
}

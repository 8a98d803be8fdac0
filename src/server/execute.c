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
    server__call_stats(server, ctx->cmd, is_counted, usec, rc);
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

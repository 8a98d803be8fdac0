/* dispatch.c - what stands between a parsed command and its handler. */
#include "server/server_int.h"

#include "base/banned.h"

/* Whether the command can be run at all; with a text as Redis gives it. */
static enum rc command_check(struct cmd_ctx *ctx)
{
    const struct cmd *cmd = ctx->cmd;
    if (!cmd || (cmd->flags & CMD_CONTAINER && ctx->argc >= 2) ||
        (cmd->arity >= 0 ? ctx->argc != (size_t)cmd->arity : ctx->argc < (size_t)-cmd->arity))
        return cmd_run(ctx); /* writes the error */
    const struct conn *conn = ctx->conn;
    if (!conn->authed && !(cmd->flags & CMD_NOAUTH))
        return err_set(ctx->err, RC_REPLY, "NOAUTH Authentication required.");
    const struct subs *subs = &conn->subs;
    if (ctx->reply->proto < 3 && !(cmd->flags & CMD_SUBSCRIBED) &&
        subs->count[SUB_CHANNEL] + subs->count[SUB_PATTERN] + subs->count[SUB_SHARD] > 0)
        return err_set(ctx->err, RC_INVALID,
                       "Can't execute '%.*s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT "
                       "/ RESET are allowed in this context",
                       (int)(ctx->argv[0].len < 64 ? ctx->argv[0].len : 64),
                       (const char *)ctx->argv[0].ptr);
    return RC_OK;
}

static bool is_paused(const struct server *server, const struct cmd_ctx *ctx)
{
    if (server->pause_end_ms <= server->kv.now_ms || ctx->cmd->flags & CMD_NOPAUSE)
        return false;
    if (!server->pause_writes_only)
        return true;
    if (ctx->cmd->run == cmd_exec) {
        for (size_t i = 0; i < ctx->conn->multi.count; i++)
            if (ctx->conn->multi.queued[i].cmd->flags & CMD_WRITE)
                return true;
        return false;
    }
    return ctx->cmd->flags & (CMD_WRITE | CMD_PUBSUB);
}

/* An EXEC that cannot run ends the MULTI. */
static enum rc exec_refuse(struct cmd_ctx *ctx)
{
    server__multi_end(ctx->conn);
    (void)err_prefix(ctx->err, "EXECABORT Transaction discarded because of: ");
    return RC_REPLY;
}

enum rc server__dispatch(struct cmd_ctx *ctx)
{
    struct server *server = ctx->server;
    struct multi *multi = &ctx->conn->multi;
    enum rc rc = command_check(ctx);
    if (UNLIKELY(rc != RC_OK)) {
        if (multi->open)
            multi->refused = true;
        if (ctx->cmd && ctx->cmd->run == cmd_exec)
            return exec_refuse(ctx);
        return rc;
    }
    if (UNLIKELY(multi->open && !(ctx->cmd->flags & CMD_NOMULTI)))
        return server__multi_queue(ctx);
    if (UNLIKELY(server->pause_end_ms != 0) && is_paused(server, ctx)) {
        ctx->conn->paused = true;
        return RC_WAIT;
    }
    if (UNLIKELY(server->monitor_count > 0) && !ctx->request && ctx->cmd->run != cmd_exec)
        monitor_feed(server, ctx->conn, ctx->argv, ctx->argc);
    return ctx->cmd->run(ctx);
}

void server__call_stats(struct server *server, const struct cmd *cmd, uint64_t usec, enum rc rc)
{
    size_t count;
    struct cmd_stats *stats = &server->cmd_stats[cmd - cmd_list(&count)];
    stats->calls++;
    stats->usec += usec;
    stats->failed += rc != RC_OK;
}

void server_stats_reset(struct server *server)
{
    size_t count;
    (void)cmd_list(&count);
    memset(server->cmd_stats, 0, count * sizeof *server->cmd_stats);
    memset(&server->stats, 0, sizeof server->stats);
    server->kv.hit_count = server->kv.miss_count = server->kv.expired_count = 0;
}

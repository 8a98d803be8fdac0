// SPDX-License-Identifier: Apache-2.0
/* dispatch.c - what stands between a parsed command and its handler. */
#include "server/server_int.h"

#include "base/log.h"

#include "base/banned.h"

enum { WEB_WARN_MS = 60 * 1000 };

static RARE enum rc subscribed_error(struct cmd_ctx *ctx)
{
    char name[CMD_NAME_BYTES];
    (void)cmd_name_lower(ctx->cmd, name);
    return err_set(ctx->err, RC_INVALID,
                   "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT "
                   "/ RESET are allowed in this context",
                   name);
}

/* A password that is not asked for any more lets in who was waiting to give it. */
static bool is_authed(struct conn *conn)
{
    if (UNLIKELY(!conn->authed) && conn->server->config->requirepass.len == 0) {
        conn->authed = true;
        conn->parser.limited = false;
    }
    return conn->authed;
}

/* A page in somebody's browser can make it send any text to a port of his machine, behind these
 * words of HTTP. Nothing of it is run, and nothing answered. */
static bool is_from_a_browser(const struct cmd_ctx *ctx)
{
    return cmd_arg_is(ctx->argv[0], "POST") || cmd_arg_is(ctx->argv[0], "HOST:");
}

static RARE void browser_refuse(struct cmd_ctx *ctx)
{
    struct server *server = ctx->server;
    uint64_t now_ms = server->now_ms;
    server__conn_quit(ctx->conn);
    if (server->web_warned_ms != 0 && now_ms - server->web_warned_ms < WEB_WARN_MS)
        return;
    server->web_warned_ms = now_ms;
    log_warn("client %s was closed: it sent POST or Host:, as a browser does that was made to "
             "attack this server",
             ctx->conn->peer);
}

/* Whether the command can be run at all; with a text as Redis gives it. */
static enum rc command_check(struct cmd_ctx *ctx)
{
    enum rc rc = cmd_check(ctx);
    if (rc != RC_OK)
        return rc;
    const struct cmd *cmd = ctx->cmd;
    if (!is_authed(ctx->conn) && !(cmd->flags & CMD_NOAUTH))
        return err_set(ctx->err, RC_REPLY, "NOAUTH Authentication required.");
    if (ctx->conn->multi.open && cmd->flags & CMD_ALONE)
        return cmd_error(ctx, "Command not allowed inside a transaction");
    const struct subs *subs = &ctx->conn->subs;
    if (ctx->reply->proto < 3 && !(cmd->flags & CMD_SUBSCRIBED) &&
        subs->count[SUB_CHANNEL] + subs->count[SUB_PATTERN] + subs->count[SUB_SHARD] > 0)
        return subscribed_error(ctx);
    return RC_OK;
}

unsigned server__call_flags(const struct conn *conn, const struct cmd *cmd)
{
    const unsigned own = CMD_READ | CMD_WRITE | CMD_DELETES;
    if (UNLIKELY(cmd->flags & CMD_SCRIPT))
        return cmd->flags | (conn->script.flags & own);
    return cmd->flags & CMD_EXEC ? (cmd->flags & ~own) | (conn->multi.flags & own) : cmd->flags;
}

static RARE bool is_paused(const struct server *server, const struct cmd_ctx *ctx)
{
    if (server->pause_end_ms <= ctx->run->now_ms || ctx->cmd->flags & CMD_NOPAUSE)
        return false;
    if (server->pause_writes_only && ctx->cmd->flags & CMD_SCRIPT)
        return server__script_writes(ctx->server, ctx->cmd, ctx->argv, ctx->argc);
    return !server->pause_writes_only ||
           server__call_flags(ctx->conn, ctx->cmd) & (CMD_WRITE | CMD_PUBSUB);
}

/* An EXEC that cannot run ends the MULTI. */
static enum rc exec_refuse(struct cmd_ctx *ctx)
{
    server__multi_end(ctx->conn);
    (void)err_prefix(ctx->err, "EXECABORT Transaction discarded because of: ");
    return RC_REPLY;
}

static RARE enum rc command_refuse(struct cmd_ctx *ctx, enum rc rc)
{
    const struct cmd *cmd = ctx->cmd;
    size_t count;
    if (ctx->conn->multi.open)
        ctx->conn->multi.refused = true;
    if (cmd)
        ctx->server->cmd_stats[cmd - cmd_list(&count)].rejected++;
    ctx->cmd = NULL; /* it was not called */
    return cmd && cmd->flags & CMD_EXEC ? exec_refuse(ctx) : rc;
}

/* As Redis does: after it has run, and once. One that blocks was shown when it began to. */
static RARE void monitor_note(struct cmd_ctx *ctx, bool was_blocked, enum rc rc)
{
    if (rc != RC_COLD && rc != RC_WAIT && !was_blocked &&
        !(ctx->cmd->flags & (CMD_ADMIN | CMD_SCRIPT))) /* that has shown itself, and its calls */
        monitor_feed(ctx->server, ctx->conn, ctx->argv, ctx->argc);
}

enum rc server__dispatch(struct cmd_ctx *ctx)
{
    struct server *server = ctx->server;
    if (UNLIKELY(!ctx->cmd) && is_from_a_browser(ctx)) {
        browser_refuse(ctx);
        return RC_OK;
    }
    enum rc rc = command_check(ctx);
    if (UNLIKELY(rc != RC_OK))
        return command_refuse(ctx, rc);
    if (UNLIKELY(ctx->conn->multi.open && !(ctx->cmd->flags & CMD_NOMULTI))) {
        rc = server__multi_queue(ctx);
        ctx->cmd = NULL; /* EXEC will call it */
        return rc;
    }
    bool paused = UNLIKELY(server->pause_end_ms != 0) && is_paused(server, ctx);
    if (ctx->request)
        server__request(ctx)->paused = paused;
    if (UNLIKELY(paused))
        return RC_WAIT;
    bool was_blocked = ctx->request && ctx->request->give_up;
    rc = server__cmd_run(ctx);
    if (UNLIKELY(server->monitor_count > 0))
        monitor_note(ctx, was_blocked, rc);
    return rc;
}

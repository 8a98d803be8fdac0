// SPDX-License-Identifier: Apache-2.0
/* cmd_persist.c - SAVE and its relatives answer from the flush: everything acknowledged is in the
 * journal anyway. */
#include "server/server_int.h"

#include "base/banned.h"

enum rc cmd_save(struct cmd_ctx *ctx)
{
    enum rc rc = cmd_flush_wait(ctx);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_bgsave(struct cmd_ctx *ctx)
{
    if (ctx->argc > 2 || (ctx->argc == 2 && !cmd_arg_is(ctx->argv[1], "SCHEDULE")))
        return cmd_syntax_error(ctx);
    ctx->server->flush_asked = true;
    resp_add_status(ctx->reply, "Background saving started");
    return RC_OK;
}

enum rc cmd_bgrewriteaof(struct cmd_ctx *ctx)
{
    ctx->server->flush_asked = true; /* segments that are flushed are removed */
    resp_add_status(ctx->reply, "Background append only file rewriting started");
    return RC_OK;
}

enum rc cmd_lastsave(struct cmd_ctx *ctx)
{
    resp_add_int(ctx->reply, (int64_t)(ctx->server->last_save_ms / 1000));
    return RC_OK;
}

enum rc cmd_time(struct cmd_ctx *ctx)
{
    uint64_t now_us = clock_unix_us(ctx->server->clock);
    resp_add_array(ctx->reply, 2);
    resp_add_int_text(ctx->reply, (int64_t)(now_us / 1000000));
    resp_add_int_text(ctx->reply, (int64_t)(now_us % 1000000));
    return RC_OK;
}

enum rc cmd_role(struct cmd_ctx *ctx)
{
    resp_add_array(ctx->reply, 3);
    resp_add_text(ctx->reply, "master");
    resp_add_int(ctx->reply, 0);
    resp_add_array(ctx->reply, 0);
    return RC_OK;
}

/* Always saves: NOSAVE would have nothing to leave out. */
enum rc cmd_shutdown(struct cmd_ctx *ctx)
{
    if (ctx->argc == 2 && cmd_arg_is(ctx->argv[1], "ABORT"))
        return cmd_error(ctx, "No shutdown in progress.");
    bool save = false, nosave = false;
    for (size_t i = 1; i < ctx->argc; i++) {
        save = save || cmd_arg_is(ctx->argv[i], "SAVE");
        nosave = nosave || cmd_arg_is(ctx->argv[i], "NOSAVE");
        if ((save && nosave) ||
            (!cmd_arg_is(ctx->argv[i], "SAVE") && !cmd_arg_is(ctx->argv[i], "NOSAVE") &&
             !cmd_arg_is(ctx->argv[i], "NOW") && !cmd_arg_is(ctx->argv[i], "FORCE")))
            return cmd_syntax_error(ctx);
    }
    ctx->server->signal_count++; /* as SIGTERM: no reply but the end of the connection */
    ctx->conn->broken = true;
    server__conn_touch(ctx->conn);
    return RC_OK;
}

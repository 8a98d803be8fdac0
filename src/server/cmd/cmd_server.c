/* Commands about the server and the connection. */
#include "server/cmd.h"

#include <ctype.h>

#include "server/info.h"
#include "server/server_int.h"

#include "base/banned.h"

enum rc cmd_ping(struct cmd_ctx *ctx)
{
    if (ctx->argc > 2)
        return cmd_arity_error(ctx);
    if (ctx->argc == 2)
        resp_add_bulk(ctx->reply, ctx->argv[1]);
    else
        resp_add_status(ctx->reply, "PONG");
    return RC_OK;
}

enum rc cmd_quit(struct cmd_ctx *ctx)
{
    server__conn_quit(ctx->conn);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_info(struct cmd_ctx *ctx)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, INFO_BYTES_MAX);
    if (!info_add(ctx->server, ctx->argv + 1, ctx->argc - 1, &text))
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    resp_add_bulk(ctx->reply, buf_bytes(&text));
    return RC_OK;
}

static void name_add(struct resp_out *reply, const char *name)
{
    char lower[32];
    size_t len = strnlen(name, sizeof lower);
    for (size_t i = 0; i < len; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    resp_add_bulk(reply, bytes_of(lower, len));
}

/* The first six fields of Redis's answer: name, arity, flags, first key, last key, step. */
static void cmd_describe(struct resp_out *reply, const struct cmd *cmd)
{
    resp_add_array(reply, 6);
    name_add(reply, cmd->name);
    resp_add_int(reply, cmd->arity);
    bool has_flag = cmd->flags & (CMD_READ | CMD_WRITE);
    resp_add_array(reply, has_flag ? 1 : 0);
    if (has_flag)
        resp_add_status(reply, cmd->flags & CMD_WRITE ? "write" : "readonly");
    resp_add_int(reply, cmd->key_first);
    resp_add_int(reply, cmd->key_last);
    resp_add_int(reply, cmd->key_step);
}

enum rc cmd_command(struct cmd_ctx *ctx)
{
    size_t count;
    const struct cmd *cmd = cmd_list(&count);
    if (ctx->argc == 2 && cmd_arg_is(ctx->argv[1], "COUNT")) {
        resp_add_int(ctx->reply, (int64_t)count);
        return RC_OK;
    }
    if (ctx->argc > 1)
        return err_set(ctx->err, RC_INVALID, "unknown subcommand '%.*s'. Try COMMAND COUNT.",
                       (int)(ctx->argv[1].len < 128 ? ctx->argv[1].len : 128),
                       (const char *)ctx->argv[1].ptr);
    resp_add_array(ctx->reply, count);
    for (size_t i = 0; i < count; i++)
        cmd_describe(ctx->reply, &cmd[i]);
    return RC_OK;
}

// SPDX-License-Identifier: Apache-2.0
/* cmd_server.c - commands about the server and the connection. */
#include "server/cmd.h"

#include <stdio.h>

#include "server/info.h"
#include "server/server_int.h"

#include "base/banned.h"

/* HELP of a container, from the rows of its subcommands. */
enum rc cmd_help(struct cmd_ctx *ctx)
{
    size_t count, lines = 1, len = strcspn(ctx->cmd->name, "|");
    const struct cmd *cmd = cmd_list(&count);
    char line[256];
    size_t mark = resp_open(ctx->reply);
    snprintf(line, sizeof line,
             "%.*s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", (int)len,
             ctx->cmd->name);
    resp_add_status(ctx->reply, line);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(cmd[i].name, ctx->cmd->name, len) != 0 || cmd[i].name[len] != '|')
            continue;
        snprintf(line, sizeof line, "%s %s", cmd[i].name + len + 1, cmd[i].syntax);
        line[strlen(line) - (cmd[i].syntax[0] == 0)] = 0;
        resp_add_status(ctx->reply, line);
        snprintf(line, sizeof line, "    %s.", cmd[i].summary);
        resp_add_status(ctx->reply, line);
        lines += 2;
    }
    resp_close_array(ctx->reply, mark, lines);
    return RC_OK;
}

enum rc cmd_info(struct cmd_ctx *ctx)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, INFO_BYTES_MAX);
    if (!info_add(ctx->server, ctx->argv + 1, ctx->argc - 1, &text))
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    resp_add_verbatim(ctx->reply, buf_bytes(&text));
    return RC_OK;
}

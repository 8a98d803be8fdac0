// SPDX-License-Identifier: Apache-2.0
/* cmd_config.c - CONFIG. Running one of these again changes nothing more, so a MULTI that has to
 * wait for the engine may. */
#include "server/config.h"
#include "server/server_int.h"

#include "base/banned.h"

struct get {
    struct resp_out *reply;
    size_t count;
};

static void get_add(void *arg, struct bytes name, struct bytes value)
{
    struct get *get = arg;
    resp_add_bulk(get->reply, name);
    resp_add_bulk(get->reply, value);
    get->count++;
}

enum rc cmd_config_get(struct cmd_ctx *ctx)
{
    struct get get = {.reply = ctx->reply};
    size_t mark = resp_open(ctx->reply);
    config_get(ctx->server->config, ctx->argv + 2, ctx->argc - 2, get_add, &get);
    resp_close_map(ctx->reply, mark, get.count);
    return RC_OK;
}

enum rc cmd_config_set(struct cmd_ctx *ctx)
{
    if (ctx->argc % 2 != 0)
        return cmd_syntax_error(ctx);
    enum rc rc = config_set(ctx->server->config, ctx->argv + 2, ctx->argc / 2 - 1, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_config_rewrite(struct cmd_ctx *ctx)
{
    enum rc rc = config_rewrite(ctx->server->config, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_config_resetstat(struct cmd_ctx *ctx)
{
    server_stats_reset(ctx->server);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

// SPDX-License-Identifier: Apache-2.0
/* cmd_function.c - FUNCTION FLUSH: suites and frameworks send it to begin with an empty server.
 * There are no functions, so none is left. */
#include "server/cmd.h"

#include "base/banned.h"

static bool is_sync_or_async(struct bytes word)
{
    return cmd_arg_is(word, "SYNC") || cmd_arg_is(word, "ASYNC");
}

enum rc cmd_function_flush(struct cmd_ctx *ctx)
{
    if (ctx->argc > 3)
        return cmd_sub_arity_error(ctx);
    if (ctx->argc == 3 && !is_sync_or_async(ctx->argv[2]))
        return cmd_error(ctx, "FUNCTION FLUSH only supports SYNC|ASYNC option");
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

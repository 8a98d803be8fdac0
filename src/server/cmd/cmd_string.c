/* GET and SET. */
#include "server/cmd.h"

#include "types/string.h"

#include "base/banned.h"

enum rc cmd_get(struct cmd_ctx *ctx)
{
    struct bytes value;
    enum rc rc = string_get(ctx->ns, ctx->argv[1], &value, ctx->err);
    if (rc == RC_NOT_FOUND)
        resp_add_null(ctx->reply);
    else if (rc != RC_OK)
        return rc;
    else
        resp_add_bulk(ctx->reply, value);
    return RC_OK;
}

enum rc cmd_set(struct cmd_ctx *ctx)
{
    if (ctx->argc > 3)
        return cmd_syntax_error(ctx);
    enum rc rc = string_set(ctx->ns, ctx->argv[1], ctx->argv[2], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

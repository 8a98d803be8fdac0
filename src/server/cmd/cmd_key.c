/* Commands on keys of any type. */
#include "server/cmd.h"

#include "base/banned.h"

enum rc cmd_del(struct cmd_ctx *ctx)
{
    int64_t count;
    enum rc rc = ns_delete(ctx->ns, ctx->argv + 1, ctx->argc - 1, &count, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, count);
    return rc;
}

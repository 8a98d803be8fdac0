// SPDX-License-Identifier: Apache-2.0
/* cmd_namespace.c - NAMESPACE: databases by name. */
#include "server/cmd.h"

#include "server/server_int.h"
#include "types/names.h"

#include "base/banned.h"

enum rc cmd_namespace_register(struct cmd_ctx *ctx)
{
    int64_t index;
    enum rc rc = cmd_int_range(ctx, 3, 0, KV_NS_MAX - 1, "DB index is out of range", &index);
    if (rc == RC_OK)
        rc = names_register(ctx->run->kv, ctx->argv[2], (uint32_t)index, ctx->err);
    if (rc == RC_BUSY) /* to a client that word speaks of scripts */
        return RC_INVALID;
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

static void namespace_describe(struct resp_out *reply, const struct ns *ns)
{
    resp_add_map(reply, 4);
    resp_add_text(reply, "name");
    resp_add_bulk(reply, ns->name);
    resp_add_text(reply, "index");
    resp_add_int(reply, ns->index);
    resp_add_text(reply, "keys");
    resp_add_int(reply, ns_key_count(ns));
    resp_add_text(reply, "expires");
    resp_add_int(reply, ns_expire_count(ns));
}

enum rc cmd_namespace_list(struct cmd_ctx *ctx)
{
    size_t mark = resp_open(ctx->reply), count = 0;
    for (size_t i = 0; i < ctx->run->kv->ns_count; i++) {
        const struct ns *ns = kv_ns(ctx->run->kv, i);
        if (!ns)
            continue;
        namespace_describe(ctx->reply, ns);
        count++;
    }
    resp_close_array(ctx->reply, mark, count);
    return RC_OK;
}

enum rc cmd_namespace_drop(struct cmd_ctx *ctx)
{
    struct ns *ns = names_find(ctx->run->kv, ctx->argv[2]);
    if (!ns)
        return cmd_error(ctx, "no such namespace");
    for (const struct conn *conn = ctx->server->conns; conn; conn = conn->next)
        if (conn->ns == ns)
            return cmd_error(ctx, "a client has selected the namespace");
    struct run part = run_with(ctx->run, ns, 0);
    enum rc rc = names_drop(&part, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

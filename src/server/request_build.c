// SPDX-License-Identifier: Apache-2.0
/* request_build.c - commands whose results are built aside (types/build.h): a commit a turn. */
#include "server/server_int.h"

#include "base/mem.h"

#include "base/banned.h"

struct request_build {
    struct build build;
    struct request *request;
    size_t target_arg;
};

void server__request_build_free(struct request_build *own)
{
    if (!own)
        return;
    build_done(&own->build);
    mem_free(own);
}

enum rc server__request_watch(struct request *request, size_t target_arg, bool *touched,
                              struct err *err)
{
    struct conn *conn = request->conn;
    size_t index[REQUEST_WANT_KEYS_MAX];
    size_t count =
        cmd_keys(request->cmd, request->argv, request->argc, index, REQUEST_WANT_KEYS_MAX);
    ASSERT(count <= REQUEST_WANT_KEYS_MAX); /* who asks has looked */
    for (size_t i = 0; i < count; i++) {
        if (index[i] == target_arg && target_arg > 0)
            continue;
        enum rc rc = server__waiter_add(conn->server, conn->ns, request->argv[index[i]],
                                        WAITER_WATCH, request, &request->listening, err);
        if (rc != RC_OK)
            return rc;
        request->listening->touched = touched;
        request->listening->existed = true; /* whoever empties the database is heard as well */
    }
    return RC_OK;
}

static enum rc keys_wait(struct build *build, struct err *err)
{
    const struct request_build *own = (const struct request_build *)build;
    return server__request_watch(own->request, own->target_arg, &build->touched, err);
}

struct build *cmd_build(struct cmd_ctx *ctx, size_t target_arg)
{
    struct request *request = server__request(ctx);
    if (ctx->in_exec || cmd_keys(ctx->cmd, ctx->argv, ctx->argc, NULL, 0) > REQUEST_WANT_KEYS_MAX)
        return NULL;
    if (!request) {
        ctx->asked->build = (struct build){0}; /* for RC_WAIT: it becomes a request */
        return &ctx->asked->build;
    }
    if (!request->build) {
        request->build = mem_zalloc(sizeof *request->build);
        request->build->build.lasts = true;
        request->build->build.listen = keys_wait;
        request->build->request = request;
        request->build->target_arg = target_arg;
    }
    return &request->build->build;
}

/* request_aside.c - commands whose results are built aside (types/aside.h): a commit a turn. */
#include "server/server_int.h"

#include "base/mem.h"

#include "base/banned.h"

struct request_aside {
    struct aside aside;
    struct request *request;
    size_t target_arg;
};

void server__request_aside_free(struct request_aside *own)
{
    if (!own)
        return;
    aside_done(&own->aside);
    mem_free(own);
}

/* All keys that are read. Whoever empties or swaps the database is heard as well, as if every key
 * had been there. */
static enum rc keys_listen(struct aside *aside, struct err *err)
{
    const struct request_aside *own = (const struct request_aside *)aside;
    struct request *request = own->request;
    struct conn *conn = request->conn;
    size_t index[REQUEST_WANT_KEYS_MAX];
    size_t count =
        cmd_keys(request->cmd, request->argv, request->argc, index, REQUEST_WANT_KEYS_MAX);
    ASSERT(count <= REQUEST_WANT_KEYS_MAX); /* cmd_aside() has looked */
    for (size_t i = 0; i < count; i++) {
        if (index[i] == own->target_arg)
            continue;
        enum rc rc = server__ear_add(conn->server, conn->ns, request->argv[index[i]], EAR_WATCH,
                                     request, &request->listening, err);
        if (rc != RC_OK)
            return rc;
        request->listening->touched = &aside->touched;
        request->listening->existed = true;
    }
    return RC_OK;
}

struct aside *cmd_aside(struct cmd_ctx *ctx, size_t target_arg)
{
    struct request *request = ctx->request;
    if (ctx->in_exec || cmd_keys(ctx->cmd, ctx->argv, ctx->argc, NULL, 0) > REQUEST_WANT_KEYS_MAX)
        return NULL;
    if (!request) {
        ctx->server->aside_asked = (struct aside){0}; /* for RC_WAIT: it becomes a request */
        return &ctx->server->aside_asked;
    }
    if (!request->aside) {
        request->aside = mem_zalloc(sizeof *request->aside);
        request->aside->aside.lasts = true;
        request->aside->aside.listen = keys_listen;
        request->aside->request = request;
        request->aside->target_arg = target_arg;
    }
    return &request->aside->aside;
}

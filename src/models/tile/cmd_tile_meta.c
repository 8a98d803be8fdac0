// SPDX-License-Identifier: Apache-2.0
/* cmd_tile_meta.c - TILE.META: sets of metadata. */
#include "models/tile/cmd_tile.h"

#include "base/banned.h"

static enum rc args_parse(struct cmd_ctx *ctx, struct tile_type **ret_type, uint64_t *ret_packed)
{
    enum rc rc = cmd_tile_type(ctx, 2, ret_type);
    return rc == RC_OK ? tilekey_parse(ctx->argv[3], ret_packed, ctx->err) : rc;
}

enum rc cmd_tile_meta_set(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    uint64_t packed;
    bool changed;
    enum rc rc = args_parse(ctx, &type, &packed);
    if (rc == RC_OK)
        rc = tile_meta_set(cmd_model(ctx), type, packed, ctx->argv[4], &changed, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, changed);
    return rc;
}

static enum rc found_reply(struct cmd_ctx *ctx, struct tile_type *type, uint64_t packed)
{
    struct tile_meta_found found;
    char text[TILEKEY_TEXT_BYTES];
    enum rc rc = tile_meta_get(cmd_model(ctx), type, packed, &found, ctx->err);
    if (rc == RC_NOT_FOUND) {
        resp_add_null_array(ctx->reply);
        return RC_OK;
    }
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, 3);
    resp_add_bulk(ctx->reply, bytes_of(text, tilekey_print(found.anchor, text)));
    resp_add_text(ctx->reply, tile_status_name(found.status));
    resp_add_bulk(ctx->reply, found.data);
    return RC_OK;
}

enum rc cmd_tile_meta_get(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    uint64_t packed;
    enum rc rc = args_parse(ctx, &type, &packed);
    return rc == RC_OK ? found_reply(ctx, type, packed) : rc;
}

enum rc cmd_tile_meta_for(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    uint64_t packed;
    enum rc rc = args_parse(ctx, &type, &packed);
    return rc == RC_OK ? found_reply(ctx, type, tilekey_anchor_for(packed)) : rc;
}

static enum rc status_move(struct cmd_ctx *ctx, struct tile_type *type, uint64_t packed)
{
    enum tile_status status;
    if (!tile_status_parse(ctx->argv[4], &status))
        return cmd_error(ctx, "a status is PENDING, IN_PROGRESS, DONE or ERROR");
    enum rc rc = tile_meta_move(cmd_model(ctx), ctx->run, type, packed, status, ctx->err);
    if (rc == RC_NOT_FOUND)
        return cmd_error(ctx, "no such set of metadata");
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_tile_meta_status(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    struct tile_meta_found found;
    uint64_t packed;
    if (ctx->argc > 5)
        return cmd_arity_error(ctx);
    enum rc rc = args_parse(ctx, &type, &packed);
    if (rc == RC_OK && ctx->argc == 5)
        return status_move(ctx, type, packed);
    if (rc == RC_OK)
        rc = tile_meta_get(cmd_model(ctx), type, packed, &found, ctx->err);
    if (rc == RC_OK)
        resp_add_text(ctx->reply, tile_status_name(found.status));
    else if (rc == RC_NOT_FOUND)
        resp_add_null(ctx->reply);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc cmd_tile_meta_del(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    int64_t count = 0;
    enum rc rc = cmd_tile_type(ctx, 2, &type);
    for (size_t i = 3; rc == RC_OK && i < ctx->argc; i++) {
        uint64_t packed;
        bool existed = false;
        rc = tilekey_parse(ctx->argv[i], &packed, ctx->err);
        if (rc == RC_OK)
            rc = tile_meta_del(cmd_model(ctx), type, packed, &existed, ctx->err);
        count += existed;
    }
    if (rc == RC_OK)
        resp_add_int(ctx->reply, count);
    return rc;
}

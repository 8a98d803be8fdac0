// SPDX-License-Identifier: Apache-2.0
/* cmd_tile.c - TILE.*: single tiles. */
#include "models/tile/cmd_tile.h"

#include "base/banned.h"

/* With those that there are: not all of them have to be in tile-types. */
static enum rc type_error(struct cmd_ctx *ctx, struct bytes name)
{
    CLEANUP(buf_done) struct buf list;
    const struct tile_type *type;
    bool good = true;
    buf_init(&list, ERR_TEXT_BYTES);
    for (size_t i = 0; good && (type = tiles_type_at(cmd_model(ctx), i)); i++)
        good = buf_printf(&list, " %s=%u%s", tile_type_name(type), tile_type_db(type),
                          tile_type_is_bare(type) ? ":bare" : "");
    return err_set(ctx->err, RC_INVALID, "there is no tile type \"%.*s\"; there are:%.*s",
                   (int)(name.len < 64 ? name.len : 64), (const char *)name.ptr,
                   list.len > 0 ? (int)list.len : 5,
                   list.len > 0 ? (const char *)list.ptr : " none");
}

enum rc cmd_tile_type(struct cmd_ctx *ctx, size_t arg, struct tile_type **ret_type)
{
    *ret_type = tiles_type(cmd_model(ctx), ctx->argv[arg]);
    return LIKELY(*ret_type != NULL) ? RC_OK : type_error(ctx, ctx->argv[arg]);
}

enum rc cmd_tile_number(struct cmd_ctx *ctx, size_t arg, uint64_t *ret_value)
{
    int64_t value;
    enum rc rc =
        cmd_int_range(ctx, arg, 0, INT64_MAX,
                      "epoch and provider are numbers from 0 to 9223372036854775807", &value);
    if (rc == RC_OK)
        *ret_value = (uint64_t)value;
    return rc;
}

/* ---- SET ---- */

struct set_options {
    struct tile_value value;
    bool has_ms;
    uint64_t ms;
};

static enum rc set_options_parse(struct cmd_ctx *ctx, struct set_options *options)
{
    for (size_t i = 4; i < ctx->argc; i += 2) {
        enum rc rc;
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[i], "EPOCH")) {
            rc = cmd_tile_number(ctx, i + 1, &options->value.epoch);
        } else if (cmd_arg_is(ctx->argv[i], "PROVIDER")) {
            rc = cmd_tile_number(ctx, i + 1, &options->value.provider);
        } else if (cmd_arg_is(ctx->argv[i], "TM")) {
            options->has_ms = true;
            rc = tilekey_parse_ms(ctx->argv[i + 1], &options->ms, ctx->err);
        } else {
            return cmd_syntax_error(ctx);
        }
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* A key, and its time if that is an argument of its own. */
static enum rc key_parse(struct cmd_ctx *ctx, const struct tile_type *type, struct bytes text,
                         bool has_ms, uint64_t ms, struct tilekey *ret_key)
{
    if (!has_ms)
        return tile_key_parse(type, text, ret_key, ctx->err);
    if (tile_type_kind(type) != TILE_TM)
        return err_set(ctx->err, RC_INVALID, "tiles of type %s have no time", tile_type_name(type));
    ret_key->ms = ms;
    return tilekey_parse(text, &ret_key->packed, ctx->err);
}

enum rc cmd_tile_set(struct cmd_ctx *ctx)
{
    struct set_options options = {.value.data = ctx->argv[3]};
    struct tile_type *type;
    struct tilekey key;
    enum rc rc = cmd_tile_type(ctx, 1, &type);
    if (rc == RC_OK && ctx->argc > 4)
        rc = set_options_parse(ctx, &options);
    if (rc == RC_OK)
        rc = key_parse(ctx, type, ctx->argv[2], options.has_ms, options.ms, &key);
    if (rc == RC_OK)
        rc = tile_set(cmd_model(ctx), type, key, &options.value, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_tile_mset(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    if (ctx->argc % 4 != 2)
        return cmd_arity_error(ctx);
    enum rc rc = cmd_tile_type(ctx, 1, &type);
    for (size_t i = 2; rc == RC_OK && i < ctx->argc; i += 4) {
        struct tile_value value = {.data = ctx->argv[i + 3]};
        struct tilekey key;
        rc = tile_key_parse(type, ctx->argv[i], &key, ctx->err);
        if (rc == RC_OK)
            rc = cmd_tile_number(ctx, i + 1, &value.epoch);
        if (rc == RC_OK)
            rc = cmd_tile_number(ctx, i + 2, &value.provider);
        if (rc == RC_OK)
            rc = tile_set(cmd_model(ctx), type, key, &value, ctx->err);
    }
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* ---- GET ---- */

struct get_options {
    bool meta;
    bool has_ms, at; /* of TM or AT; neither: the newest */
    uint64_t ms;
};

static enum rc get_options_parse(struct cmd_ctx *ctx, struct get_options *options)
{
    for (size_t i = 3; i < ctx->argc; i++) {
        if (cmd_arg_is(ctx->argv[i], "META")) {
            options->meta = true;
            continue;
        }
        options->at = cmd_arg_is(ctx->argv[i], "AT");
        if ((!options->at && !cmd_arg_is(ctx->argv[i], "TM")) || options->has_ms ||
            ++i == ctx->argc)
            return cmd_syntax_error(ctx);
        options->has_ms = true;
        enum rc rc = tilekey_parse_ms(ctx->argv[i], &options->ms, ctx->err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc get(struct cmd_ctx *ctx, struct tile_type *type, const struct get_options *options,
                   struct tile_found *ret_found)
{
    struct tiles *tiles = cmd_model(ctx);
    struct tilekey key;
    struct bytes text = ctx->argv[2];
    bool has_time = options->has_ms || (text.len && memchr(text.ptr, ':', text.len));
    if (tile_type_kind(type) == TILE_TM && !has_time) { /* the newest of all */
        key.ms = TILE_MS_MAX;
        enum rc rc = tilekey_parse(text, &key.packed, ctx->err);
        return rc == RC_OK ? tile_get_at(tiles, type, key, ret_found, ctx->err) : rc;
    }
    enum rc rc = key_parse(ctx, type, text, options->has_ms, options->ms, &key);
    if (rc != RC_OK)
        return rc;
    return options->at ? tile_get_at(tiles, type, key, ret_found, ctx->err)
                       : tile_get(tiles, type, key, ret_found, ctx->err);
}

static void meta_reply(struct resp_out *reply, const struct tile_type *type,
                       const struct tile_found *found)
{
    bool tm = tile_type_kind(type) == TILE_TM;
    resp_add_array(reply, tm ? 4 : 3);
    resp_add_bulk(reply, found->value.data);
    resp_add_int(reply, (int64_t)found->value.epoch);
    resp_add_int(reply, (int64_t)found->value.provider);
    if (tm)
        resp_add_int(reply, (int64_t)found->key.ms);
}

enum rc cmd_tile_get(struct cmd_ctx *ctx)
{
    struct get_options options = {0};
    struct tile_type *type;
    struct tile_found found;
    enum rc rc = cmd_tile_type(ctx, 1, &type);
    if (rc == RC_OK && ctx->argc > 3)
        rc = get_options_parse(ctx, &options);
    if (rc == RC_OK)
        rc = get(ctx, type, &options, &found);
    if (rc == RC_NOT_FOUND) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    if (rc != RC_OK)
        return rc;
    if (options.meta)
        meta_reply(ctx->reply, type, &found);
    else
        resp_add_bulk(ctx->reply, found.value.data);
    return RC_OK;
}

enum rc cmd_tile_mget(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    bool cold = false;
    enum rc rc = cmd_tile_type(ctx, 1, &type);
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, ctx->argc - 2);
    for (size_t i = 2; i < ctx->argc; i++) {
        struct tilekey key;
        struct tile_found found;
        rc = tile_key_parse(type, ctx->argv[i], &key, ctx->err);
        if (rc == RC_OK)
            rc = tile_get(cmd_model(ctx), type, key, &found, ctx->err);
        if (rc == RC_OK)
            resp_add_bulk(ctx->reply, found.value.data);
        else if (rc == RC_NOT_FOUND)
            resp_add_null(ctx->reply);
        else if (rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD; /* the others are asked for as well */
    }
    return cold ? RC_COLD : RC_OK;
}

/* ---- DEL, EXISTS ---- */

/* What may have to be read from shards is asked for all at once, before the first change. */
static enum rc exist_count(struct cmd_ctx *ctx, struct tile_type *type, bool del)
{
    struct tiles *tiles = cmd_model(ctx);
    int64_t count = 0;
    bool cold = false;
    for (size_t i = 2; i < ctx->argc; i++) {
        struct tilekey key;
        bool exists;
        enum rc rc = tile_key_parse(type, ctx->argv[i], &key, ctx->err);
        if (rc == RC_OK)
            rc = del && !cold ? tile_del(tiles, type, key, &exists, ctx->err)
                              : tile_exists(tiles, type, key, &exists, ctx->err);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD;
        count += rc == RC_OK && exists;
    }
    if (cold)
        return RC_COLD;
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

enum rc cmd_tile_del(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    enum rc rc = cmd_tile_type(ctx, 1, &type);
    return rc == RC_OK ? exist_count(ctx, type, true) : rc;
}

enum rc cmd_tile_exists(struct cmd_ctx *ctx)
{
    struct tile_type *type;
    enum rc rc = cmd_tile_type(ctx, 1, &type);
    return rc == RC_OK ? exist_count(ctx, type, false) : rc;
}

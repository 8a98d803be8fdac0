// SPDX-License-Identifier: Apache-2.0
/* cmd_hash.c - commands on hashes. */
#include <math.h>

#include "server/cmd/cmd_rows.h"
#include "types/hash.h"

#include "base/banned.h"

/* ---- reading ---- */

enum rc cmd_hget(struct cmd_ctx *ctx)
{
    struct bytes value;
    enum rc rc = hash_get(ctx->run, ctx->argv[1], ctx->argv[2], &value, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, value);
    else if (rc == RC_NOT_FOUND)
        resp_add_null(ctx->reply);
    else
        return rc;
    return RC_OK;
}

enum rc cmd_hmget(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read_part(ctx->run, ctx->argv[1], TYPE_HASH, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool cold = false; /* all cold fields are asked for before the command waits */
    resp_add_array(ctx->reply, ctx->argc - 2);
    for (size_t i = 2; i < ctx->argc; i++) {
        struct bytes value;
        rc = hash_field(&key, ctx->argv[i], &value, ctx->err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_OK)
            resp_add_bulk(ctx->reply, value);
        else if (rc == RC_NOT_FOUND)
            resp_add_null(ctx->reply);
        else if (rc != RC_COLD)
            return rc;
    }
    return cold ? RC_COLD : RC_OK;
}

/* The length of a value, or -1. */
static enum rc value_len(struct cmd_ctx *ctx, int64_t *ret_len)
{
    struct bytes value;
    enum rc rc = hash_get(ctx->run, ctx->argv[1], ctx->argv[2], &value, ctx->err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_len = rc == RC_OK ? (int64_t)value.len : -1;
    return RC_OK;
}

enum rc cmd_hexists(struct cmd_ctx *ctx)
{
    int64_t len;
    enum rc rc = value_len(ctx, &len);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, len >= 0);
    return rc;
}

enum rc cmd_hstrlen(struct cmd_ctx *ctx)
{
    int64_t len;
    enum rc rc = value_len(ctx, &len);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, len >= 0 ? len : 0);
    return rc;
}

enum rc cmd_hlen(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_HASH, &key, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, key.exists ? (int64_t)key.meta.count : 0);
    return rc;
}

static enum rc all_reply(struct cmd_ctx *ctx, enum cmd_rows_part part)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_HASH, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    uint64_t count = key.exists ? key.meta.count : 0;
    if (part == ROWS_BOTH)
        resp_add_map(ctx->reply, count);
    else
        resp_add_array(ctx->reply, count);
    if (!key.exists)
        return RC_OK;
    struct cmd_long *slow;
    rc = cmd_long_begin(ctx, build_input(0, &key), key.meta.count, &slow);
    return rc == RC_OK ? cmd_rows_add(ctx, &key, part, slow) : rc;
}

enum rc cmd_hgetall(struct cmd_ctx *ctx)
{
    return all_reply(ctx, ROWS_BOTH);
}

enum rc cmd_hkeys(struct cmd_ctx *ctx)
{
    return all_reply(ctx, ROWS_SUFFIX);
}

enum rc cmd_hvals(struct cmd_ctx *ctx)
{
    return all_reply(ctx, ROWS_VALUE);
}

enum rc cmd_hscan(struct cmd_ctx *ctx)
{
    return cmd_rows_scan(ctx, TYPE_HASH, ROWS_BOTH);
}

enum rc cmd_hrandfield(struct cmd_ctx *ctx)
{
    int64_t count;
    if (ctx->argc == 2)
        return cmd_rows_random(ctx, TYPE_HASH);
    enum rc rc = cmd_rows_random_count(ctx, &count);
    if (rc != RC_OK)
        return rc;
    if (ctx->argc == 3)
        return cmd_rows_random_some(ctx, TYPE_HASH, count, ROWS_SUFFIX);
    if (ctx->argc > 4 || !cmd_arg_is(ctx->argv[3], "WITHVALUES"))
        return cmd_syntax_error(ctx);
    if (count < -INT64_MAX / 2 || count > INT64_MAX / 2) /* the reply's length would overflow */
        return cmd_error(ctx, "value is out of range");
    return cmd_rows_random_some(ctx, TYPE_HASH, count, ROWS_BOTH);
}

/* ---- writing ---- */

static enum rc pairs_set(struct cmd_ctx *ctx, size_t *ret_added)
{
    if (ctx->argc % 2 != 0)
        return cmd_arity_error(ctx);
    return hash_set(ctx->run, ctx->argv[1], ctx->argv + 2, (ctx->argc - 2) / 2, ret_added,
                    ctx->err);
}

enum rc cmd_hset(struct cmd_ctx *ctx)
{
    size_t added;
    enum rc rc = pairs_set(ctx, &added);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)added);
    return rc;
}

enum rc cmd_hmset(struct cmd_ctx *ctx)
{
    enum rc rc = pairs_set(ctx, NULL);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_hsetnx(struct cmd_ctx *ctx)
{
    bool added;
    enum rc rc = hash_set_new(ctx->run, ctx->argv[1], ctx->argv[2], ctx->argv[3], &added, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, added);
    return rc;
}

enum rc cmd_hdel(struct cmd_ctx *ctx)
{
    size_t deleted;
    enum rc rc =
        hash_delete(ctx->run, ctx->argv[1], ctx->argv + 2, ctx->argc - 2, &deleted, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)deleted);
    return rc;
}

enum rc cmd_hincrby(struct cmd_ctx *ctx)
{
    int64_t delta, value;
    enum rc rc = cmd_int(ctx, 3, &delta);
    if (rc == RC_OK)
        rc = hash_incr(ctx->run, ctx->argv[1], ctx->argv[2], delta, &value, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, value);
    return rc;
}

enum rc cmd_hincrbyfloat(struct cmd_ctx *ctx)
{
    long double delta;
    char text[NUMBER_LONG_DOUBLE_BYTES];
    size_t len;
    if (!number_long_double(ctx->argv[3], &delta))
        return cmd_error(ctx, "value is not a valid float");
    if (isinf(delta))
        return cmd_error(ctx, "value is NaN or Infinity");
    enum rc rc = hash_incr_float(ctx->run, ctx->argv[1], ctx->argv[2], delta, text, &len, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, bytes_of(text, len));
    return rc;
}

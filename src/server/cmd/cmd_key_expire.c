// SPDX-License-Identifier: Apache-2.0
/* cmd_key_expire.c - deadlines of keys. */
#include "server/cmd.h"
#include "types/guard.h"

#include "base/banned.h"

/* ---- setting ---- */

enum expire_flags { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };

static enum rc flags_parse(struct cmd_ctx *ctx, unsigned *ret_flags)
{
    unsigned flags = 0;
    for (size_t i = 3; i < ctx->argc; i++) {
        struct bytes arg = ctx->argv[i];
        if (cmd_arg_is(arg, "NX"))
            flags |= EXPIRE_NX;
        else if (cmd_arg_is(arg, "XX"))
            flags |= EXPIRE_XX;
        else if (cmd_arg_is(arg, "GT"))
            flags |= EXPIRE_GT;
        else if (cmd_arg_is(arg, "LT"))
            flags |= EXPIRE_LT;
        else
            return err_set(ctx->err, RC_INVALID, "Unsupported option %.*s",
                           (int)(arg.len < ERR_TEXT_BYTES ? arg.len : ERR_TEXT_BYTES),
                           (const char *)arg.ptr);
    }
    if (flags & EXPIRE_NX && flags & (EXPIRE_XX | EXPIRE_GT | EXPIRE_LT))
        return cmd_error(ctx, "NX and XX, GT or LT options at the same time are not compatible");
    if (flags & EXPIRE_GT && flags & EXPIRE_LT)
        return cmd_error(ctx, "GT and LT options at the same time are not compatible");
    *ret_flags = flags;
    return RC_OK;
}

static enum rc time_error(struct cmd_ctx *ctx)
{
    char name[CMD_NAME_BYTES];
    (void)cmd_name_lower(ctx->cmd, name);
    return err_set(ctx->err, RC_INVALID, "invalid expire time in '%s' command", name);
}

/* Unix milliseconds; may well be in the past, or below 0. */
static enum rc time_parse(struct cmd_ctx *ctx, uint64_t base_ms, int64_t unit_ms,
                          int64_t *ret_time_ms)
{
    int64_t number, product, sum;
    enum rc rc = cmd_int(ctx, 2, &number);
    if (rc != RC_OK)
        return rc;
    if (__builtin_mul_overflow(number, unit_ms, &product) ||
        __builtin_add_overflow(product, (int64_t)base_ms, &sum))
        return time_error(ctx);
    *ret_time_ms = sum;
    return RC_OK;
}

/* A key without a deadline counts as one that is infinitely late. */
static bool flags_allow(unsigned flags, uint64_t old_ms, int64_t new_ms)
{
    bool has = old_ms != 0;
    if ((flags & EXPIRE_NX && has) || (flags & EXPIRE_XX && !has))
        return false;
    if (flags & EXPIRE_GT && (!has || new_ms <= (int64_t)old_ms))
        return false;
    return !(flags & EXPIRE_LT && has && new_ms >= (int64_t)old_ms);
}

/* A deadline that is over removes the key at once; a guard that hears of changes hears of this end
 * from the sweep: it may be that of a local copy only. */
static enum rc deadline_set(struct cmd_ctx *ctx, struct key *key, int64_t time_ms)
{
    bool over = time_ms <= (int64_t)ctx->run->now_ms;
    if (over && key_is_heard(key)) {
        over = false;
        time_ms = (int64_t)ctx->run->now_ms + 1;
    }
    key->meta.expire_ms = (uint64_t)time_ms;
    enum rc rc = over ? key_remove(key, ctx->err) : key_save(key, key->meta.extra, ctx->err);
    if (rc == RC_OK)
        key_changed(key, KV_EVENT_GENERIC, over ? "del" : "expire");
    return rc;
}

static enum rc expire_run(struct cmd_ctx *ctx, uint64_t base_ms, int64_t unit_ms)
{
    unsigned flags = 0;
    int64_t time_ms = 0;
    struct key key;
    enum rc rc = flags_parse(ctx, &flags);
    if (rc == RC_OK)
        rc = time_parse(ctx, base_ms, unit_ms, &time_ms);
    if (rc == RC_OK)
        rc = key_write(ctx->run, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool sets = key.exists && flags_allow(flags, key.meta.expire_ms, time_ms);
    if (sets)
        rc = deadline_set(ctx, &key, time_ms);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, sets);
    return rc;
}

enum rc cmd_expire(struct cmd_ctx *ctx)
{
    return expire_run(ctx, ctx->run->now_ms, 1000);
}

enum rc cmd_pexpire(struct cmd_ctx *ctx)
{
    return expire_run(ctx, ctx->run->now_ms, 1);
}

enum rc cmd_expireat(struct cmd_ctx *ctx)
{
    return expire_run(ctx, 0, 1000);
}

enum rc cmd_pexpireat(struct cmd_ctx *ctx)
{
    return expire_run(ctx, 0, 1);
}

enum rc cmd_persist(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_write(ctx->run, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool had = key.exists && key.meta.expire_ms != 0;
    if (had) {
        key.meta.expire_ms = 0;
        rc = key_save(&key, key.meta.extra, ctx->err);
        if (rc != RC_OK)
            return rc;
        key_changed(&key, KV_EVENT_GENERIC, "persist");
    }
    resp_add_int(ctx->reply, had);
    return RC_OK;
}

/* ---- asking ---- */

/* The deadline less base_ms, in units rounded to the nearest; -1: it has none, -2: no such key. */
static enum rc deadline_reply(struct cmd_ctx *ctx, uint64_t base_ms, int64_t unit_ms)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    int64_t answer = -2;
    if (key.exists)
        answer = key.meta.expire_ms == 0
                     ? -1
                     : (int64_t)((key.meta.expire_ms - base_ms + (uint64_t)unit_ms / 2) /
                                 (uint64_t)unit_ms);
    resp_add_int(ctx->reply, answer);
    return RC_OK;
}

enum rc cmd_ttl(struct cmd_ctx *ctx)
{
    return deadline_reply(ctx, ctx->run->now_ms, 1000);
}

enum rc cmd_pttl(struct cmd_ctx *ctx)
{
    return deadline_reply(ctx, ctx->run->now_ms, 1);
}

enum rc cmd_expiretime(struct cmd_ctx *ctx)
{
    return deadline_reply(ctx, 0, 1000);
}

enum rc cmd_pexpiretime(struct cmd_ctx *ctx)
{
    return deadline_reply(ctx, 0, 1);
}

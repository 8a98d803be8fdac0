// SPDX-License-Identifier: Apache-2.0
/* cmd_list_move.c - commands that take from the first of several lists, or wait for one. */
#include "server/cmd/cmd_list.h"

#include "server/server_int.h"

#include "base/banned.h"

static enum rc end_parse(struct cmd_ctx *ctx, size_t arg, enum list_end *ret_end)
{
    if (cmd_arg_is(ctx->argv[arg], "LEFT"))
        *ret_end = LIST_HEAD;
    else if (cmd_arg_is(ctx->argv[arg], "RIGHT"))
        *ret_end = LIST_TAIL;
    else
        return cmd_syntax_error(ctx);
    return RC_OK;
}

/* The first of the keys that is a list. RC_NOT_FOUND: none is. */
static enum rc first_list(struct cmd_ctx *ctx, const struct bytes *key, size_t key_count,
                          struct list *ret_list)
{
    struct bytes name;
    for (size_t i = 0; i <= key_count; i++) {
        if (!cmd_key_try(ctx, key, i, &name))
            continue;
        enum rc rc = list_write(ctx->run, name, ret_list, ctx->err);
        if (rc == RC_WRONGTYPE && cmd_has_waited(ctx))
            continue;
        if (rc != RC_OK || ret_list->key.exists)
            return rc;
    }
    return RC_NOT_FOUND;
}

/* ---- LMPOP ---- */

struct mpop {
    const struct bytes *key;
    size_t key_count;
    enum list_end end;
    int64_t count;
};

/* numkeys key ... LEFT|RIGHT [COUNT count], from argument `arg` on. */
static enum rc mpop_parse(struct cmd_ctx *ctx, size_t arg, struct mpop *ret_mpop)
{
    int64_t key_count, count = 1;
    enum list_end end;
    enum rc rc =
        cmd_int_range(ctx, arg, 1, INT64_MAX, "numkeys should be greater than 0", &key_count);
    if (rc != RC_OK)
        return rc;
    if ((uint64_t)key_count >= ctx->argc - arg - 1)
        return cmd_syntax_error(ctx);
    size_t at = arg + 1 + (size_t)key_count;
    rc = end_parse(ctx, at, &end);
    if (rc != RC_OK)
        return rc;
    at++;
    if (at < ctx->argc) {
        if (at + 1 == ctx->argc || !cmd_arg_is(ctx->argv[at], "COUNT"))
            return cmd_syntax_error(ctx);
        rc = cmd_int_range(ctx, at + 1, 1, INT64_MAX, "count should be greater than 0", &count);
        if (rc != RC_OK)
            return rc;
        if (at + 2 < ctx->argc)
            return cmd_syntax_error(ctx);
    }
    *ret_mpop = (struct mpop){ctx->argv + arg + 1, (size_t)key_count, end, count};
    return RC_OK;
}

/* RC_NOT_FOUND: there is nothing to take. */
static enum rc mpop_run(struct cmd_ctx *ctx, const struct mpop *mpop)
{
    struct list list;
    enum rc rc = first_list(ctx, mpop->key, mpop->key_count, &list);
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, 2);
    resp_add_bulk(ctx->reply, list.key.name);
    return cmd_list__pop_some(ctx, &list, mpop->end, (uint64_t)mpop->count);
}

enum rc cmd_lmpop(struct cmd_ctx *ctx)
{
    struct mpop mpop;
    enum rc rc = mpop_parse(ctx, 1, &mpop);
    if (rc == RC_OK)
        rc = mpop_run(ctx, &mpop);
    if (rc != RC_NOT_FOUND)
        return rc;
    resp_add_null_array(ctx->reply);
    return RC_OK;
}

enum rc cmd_blmpop(struct cmd_ctx *ctx)
{
    struct mpop mpop;
    uint64_t timeout_ms;
    enum rc rc = mpop_parse(ctx, 2, &mpop);
    if (rc == RC_OK)
        rc = cmd_timeout(ctx, 1, &timeout_ms);
    if (rc != RC_OK)
        return rc;
    rc = mpop_run(ctx, &mpop);
    if (rc != RC_NOT_FOUND)
        return rc;
    return cmd_block(ctx, &(struct cmd_blocking){mpop.key, mpop.key_count, KV_EVENT_LIST,
                                                 timeout_ms, resp_add_null_array});
}

/* ---- BLPOP ---- */

static enum rc blocking_pop(struct cmd_ctx *ctx, enum list_end end)
{
    const struct bytes *key = ctx->argv + 1;
    size_t key_count = ctx->argc - 2;
    uint64_t timeout_ms;
    struct list list;
    enum rc rc = cmd_timeout(ctx, ctx->argc - 1, &timeout_ms);
    if (rc == RC_OK)
        rc = first_list(ctx, key, key_count, &list);
    if (rc == RC_NOT_FOUND)
        return cmd_block(ctx, &(struct cmd_blocking){key, key_count, KV_EVENT_LIST, timeout_ms,
                                                     resp_add_null_array});
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, 2);
    resp_add_bulk(ctx->reply, list.key.name);
    return cmd_list__pop_one(ctx, &list, end);
}

enum rc cmd_blpop(struct cmd_ctx *ctx)
{
    return blocking_pop(ctx, LIST_HEAD);
}

enum rc cmd_brpop(struct cmd_ctx *ctx)
{
    return blocking_pop(ctx, LIST_TAIL);
}

/* ---- LMOVE ---- */

static enum rc move_within(struct cmd_ctx *ctx, struct list *list, enum list_end from,
                           enum list_end to)
{
    struct bytes element;
    enum rc rc = list_peek(list, from, &element, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_bulk(ctx->reply, element);
    return list_rotate(list, from, to, element, ctx->err);
}

/* From `source`, which exists, to the list in argument 2. */
static enum rc move_one(struct cmd_ctx *ctx, struct list *source, enum list_end from,
                        enum list_end to)
{
    struct list target;
    struct bytes element;
    if (bytes_eq(source->key.name, ctx->argv[2]))
        return move_within(ctx, source, from, to);
    enum rc rc = list_write(ctx->run, ctx->argv[2], &target, ctx->err);
    enum rc peek_rc = list_peek(source, from, &element, ctx->err); /* both may be cold */
    if (rc != RC_OK || peek_rc != RC_OK)
        return rc != RC_OK ? rc : peek_rc;
    resp_add_bulk(ctx->reply, element);
    if (!target.key.exists) {
        rc = list_make(&target, ctx->err);
        if (rc == RC_OK)
            rc = list_peek(source, from, &element, ctx->err);
    }
    if (rc == RC_OK)
        rc = list_push(&target, to, &element, 1, ctx->err);
    if (rc == RC_OK)
        rc = list_pop(source, from, 1, ctx->err);
    return rc;
}

/* RC_NOT_FOUND: there is nothing to take. */
static enum rc move_run(struct cmd_ctx *ctx, enum list_end from, enum list_end to)
{
    struct list source;
    enum rc rc = first_list(ctx, ctx->argv + 1, 1, &source);
    return rc == RC_OK ? move_one(ctx, &source, from, to) : rc;
}

static enum rc move_now(struct cmd_ctx *ctx, enum list_end from, enum list_end to)
{
    enum rc rc = move_run(ctx, from, to);
    if (rc != RC_NOT_FOUND)
        return rc;
    resp_add_null(ctx->reply);
    return RC_OK;
}

/* Redis has a null for a move that may not wait, and a null array for one that waited in vain. */
static enum rc move_blocking(struct cmd_ctx *ctx, enum list_end from, enum list_end to,
                             size_t timeout_arg)
{
    uint64_t timeout_ms;
    enum rc rc = cmd_timeout(ctx, timeout_arg, &timeout_ms);
    if (rc == RC_OK)
        rc = move_run(ctx, from, to);
    if (rc != RC_NOT_FOUND)
        return rc;
    return cmd_block(ctx,
                     &(struct cmd_blocking){ctx->argv + 1, 1, KV_EVENT_LIST, timeout_ms,
                                            ctx->in_exec ? resp_add_null : resp_add_null_array});
}

enum rc cmd_lmove(struct cmd_ctx *ctx)
{
    enum list_end from, to;
    enum rc rc = end_parse(ctx, 3, &from);
    if (rc == RC_OK)
        rc = end_parse(ctx, 4, &to);
    return rc == RC_OK ? move_now(ctx, from, to) : rc;
}

enum rc cmd_blmove(struct cmd_ctx *ctx)
{
    enum list_end from, to;
    enum rc rc = end_parse(ctx, 3, &from);
    if (rc == RC_OK)
        rc = end_parse(ctx, 4, &to);
    return rc == RC_OK ? move_blocking(ctx, from, to, 5) : rc;
}

enum rc cmd_rpoplpush(struct cmd_ctx *ctx)
{
    return move_now(ctx, LIST_TAIL, LIST_HEAD);
}

enum rc cmd_brpoplpush(struct cmd_ctx *ctx)
{
    return move_blocking(ctx, LIST_TAIL, LIST_HEAD, 3);
}

/* cmd_zset_op.c - union, intersection and difference of sorted sets. */
#include "server/cmd/cmd_zset.h"

#include <stdlib.h>

#include "types/number.h"
#include "types/zset_op.h"

#include "base/banned.h"

struct op_call {
    struct zset_op_options options;
    size_t numkeys_arg;
    bool count_only; /* ZINTERCARD */
    const char *name;
    bool with_scores;
    struct zset_source *source;
    size_t source_count;
};

/* ---- arguments ---- */

static enum rc sources_read(struct cmd_ctx *ctx, struct op_call *call)
{
    const struct bytes *name = ctx->argv + call->numkeys_arg + 1;
    call->source = arena_try_alloc(&ctx->kv->arena, call->source_count * sizeof *call->source);
    if (!call->source)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu keys",
                       call->source_count);
    for (size_t i = 0; i < call->source_count; i++) {
        struct key *key = &call->source[i].key;
        call->source[i].weight = 1;
        enum rc rc = key_read(ctx->ns, name[i], KEY_ANY, key, ctx->err);
        if (rc == RC_COLD)
            key_want(ctx->ns, name + i, call->source_count - i);
        if (rc != RC_OK)
            return rc;
        if (key->exists && key->meta.type != TYPE_ZSET && key->meta.type != TYPE_SET)
            return err_set(ctx->err, RC_WRONGTYPE, "%s", rc_text(RC_WRONGTYPE));
    }
    return RC_OK;
}

static enum rc weights_parse(struct cmd_ctx *ctx, size_t arg, struct op_call *call)
{
    for (size_t i = 0; i < call->source_count; i++)
        if (!number_double(ctx->argv[arg + i], &call->source[i].weight))
            return cmd_error(ctx, "weight value is not a float");
    return RC_OK;
}

static enum rc aggregate_parse(struct cmd_ctx *ctx, size_t arg, enum zset_aggregate *ret_aggregate)
{
    if (cmd_arg_is(ctx->argv[arg], "SUM"))
        *ret_aggregate = ZSET_SUM;
    else if (cmd_arg_is(ctx->argv[arg], "MIN"))
        *ret_aggregate = ZSET_MIN;
    else if (cmd_arg_is(ctx->argv[arg], "MAX"))
        *ret_aggregate = ZSET_MAX;
    else
        return cmd_syntax_error(ctx);
    return RC_OK;
}

/* The option at *arg, which is moved behind it. */
static enum rc option_parse(struct cmd_ctx *ctx, size_t *arg, struct op_call *call)
{
    size_t at = *arg, left = ctx->argc - at;
    bool weighs = call->options.op != ZSET_DIFF && !call->count_only;
    bool stores = call->numkeys_arg > 1;
    if (weighs && left > call->source_count && cmd_arg_is(ctx->argv[at], "WEIGHTS")) {
        *arg += 1 + call->source_count;
        return weights_parse(ctx, at + 1, call);
    }
    if (weighs && left >= 2 && cmd_arg_is(ctx->argv[at], "AGGREGATE")) {
        *arg += 2;
        return aggregate_parse(ctx, at + 1, &call->options.aggregate);
    }
    if (!stores && !call->count_only && cmd_arg_is(ctx->argv[at], "WITHSCORES")) {
        *arg += 1;
        call->with_scores = true;
        return RC_OK;
    }
    if (call->count_only && left >= 2 && cmd_arg_is(ctx->argv[at], "LIMIT")) {
        int64_t limit = 0;
        enum rc rc = cmd_int_range(ctx, at + 1, 0, INT64_MAX, "LIMIT can't be negative", &limit);
        *arg += 2;
        call->options.count_max = (uint64_t)limit;
        return rc;
    }
    return cmd_syntax_error(ctx);
}

static enum rc call_parse(struct cmd_ctx *ctx, struct op_call *call)
{
    int64_t count;
    enum rc rc = cmd_int(ctx, call->numkeys_arg, &count);
    if (rc != RC_OK)
        return rc;
    if (count < 1)
        return err_set(ctx->err, RC_INVALID, "at least 1 input key is needed for '%s' command",
                       call->name);
    if ((uint64_t)count > ctx->argc - call->numkeys_arg - 1)
        return cmd_syntax_error(ctx);
    call->source_count = (size_t)count;
    rc = sources_read(ctx, call);
    for (size_t arg = call->numkeys_arg + 1 + call->source_count; arg < ctx->argc && rc == RC_OK;)
        rc = option_parse(ctx, &arg, call);
    return rc;
}

static enum rc call_combine(struct cmd_ctx *ctx, struct op_call *call, struct zset_items *items)
{
    return zset_combine(ctx->kv, call->source, call->source_count, &call->options, items, ctx->err);
}

static enum rc call_run(struct cmd_ctx *ctx, struct op_call *call, struct zset_items *items)
{
    enum rc rc = call_parse(ctx, call);
    return rc == RC_OK ? call_combine(ctx, call, items) : rc;
}

/* ---- commands ---- */

static enum rc op_reply(struct cmd_ctx *ctx, enum zset_op op, const char *name)
{
    struct op_call call = {.options.op = op, .numkeys_arg = 1, .name = name};
    struct zset_items items;
    enum rc rc = call_run(ctx, &call, &items);
    if (rc != RC_OK)
        return rc;
    if (items.count > 0)
        qsort(items.item, items.count, sizeof *items.item, zset_item_cmp);
    resp_add_array(ctx->reply, cmd_zset__len(ctx->reply, items.count, call.with_scores));
    for (size_t i = 0; i < items.count; i++)
        cmd_zset__item(ctx->reply, items.item[i], call.with_scores);
    return RC_OK;
}

static enum rc store_aside(struct cmd_ctx *ctx, struct op_call *call, struct aside *aside)
{
    struct zset_items items;
    struct bytes at;
    uint64_t inputs = 0;
    for (size_t i = 0; i < call->source_count; i++)
        inputs = aside_input(inputs, &call->source[i].key);
    enum rc rc = aside_step(aside, ctx->ns, TYPE_ZSET, inputs, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (aside->phase == ASIDE_FULL)
        return cmd_zset__store_aside(ctx, 1, aside, call->name);
    struct aside_piece piece = aside_piece(aside);
    piece.count_max /= 2; /* an element has two rows */
    rc = zset_combine_piece(ctx->kv, call->source, call->source_count, &call->options, &piece,
                            &items, &at, ctx->err);
    return rc == RC_OK ? cmd_zset__piece(ctx, aside, &items, at, piece.ended) : rc;
}

static enum rc op_store(struct cmd_ctx *ctx, enum zset_op op, const char *name)
{
    struct op_call call = {.options.op = op, .numkeys_arg = 2, .name = name};
    struct zset_items items;
    struct aside *aside = cmd_aside(ctx, 1);
    enum rc rc = call_parse(ctx, &call);
    if (rc == RC_OK &&
        aside_wanted(aside, ctx->ns, 2 * zset_combine_max(call.source, call.source_count, op)))
        return store_aside(ctx, &call, aside);
    if (rc == RC_OK)
        rc = call_combine(ctx, &call, &items);
    if (rc == RC_COLD)
        key_want(ctx->ns, &ctx->argv[1], 1);
    return rc == RC_OK ? cmd_zset__store(ctx, 1, &items, name) : rc;
}

enum rc cmd_zunion(struct cmd_ctx *ctx)
{
    return op_reply(ctx, ZSET_UNION, "zunion");
}

enum rc cmd_zinter(struct cmd_ctx *ctx)
{
    return op_reply(ctx, ZSET_INTER, "zinter");
}

enum rc cmd_zdiff(struct cmd_ctx *ctx)
{
    return op_reply(ctx, ZSET_DIFF, "zdiff");
}

enum rc cmd_zunionstore(struct cmd_ctx *ctx)
{
    return op_store(ctx, ZSET_UNION, "zunionstore");
}

enum rc cmd_zinterstore(struct cmd_ctx *ctx)
{
    return op_store(ctx, ZSET_INTER, "zinterstore");
}

enum rc cmd_zdiffstore(struct cmd_ctx *ctx)
{
    return op_store(ctx, ZSET_DIFF, "zdiffstore");
}

enum rc cmd_zintercard(struct cmd_ctx *ctx)
{
    struct op_call call = {
        .options.op = ZSET_INTER, .numkeys_arg = 1, .count_only = true, .name = "zintercard"};
    struct zset_items items;
    enum rc rc = call_run(ctx, &call, &items);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)items.count);
    return rc;
}

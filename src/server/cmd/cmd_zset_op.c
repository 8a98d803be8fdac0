// SPDX-License-Identifier: Apache-2.0
/* cmd_zset_op.c - union, intersection and difference of sorted sets. */
#include "server/cmd/cmd_zset.h"

#include <stdlib.h>

#include "types/number.h"
#include "types/sort.h"
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
    call->source = arena_try_alloc(ctx->run->arena, call->source_count * sizeof *call->source);
    if (!call->source)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu keys",
                       call->source_count);
    for (size_t i = 0; i < call->source_count; i++) {
        struct key *key = &call->source[i].key;
        call->source[i].weight = 1;
        enum rc rc = key_read(ctx->run, name[i], KEY_ANY, key, ctx->err);
        if (rc == RC_COLD)
            key_want(ctx->run->ns, name + i, call->source_count - i);
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
    return zset_combine(ctx->run, call->source, call->source_count, &call->options, items,
                        ctx->err);
}

static uint64_t call_inputs(const struct op_call *call)
{
    uint64_t inputs = 0;
    for (size_t i = 0; i < call->source_count; i++)
        inputs = build_input(inputs, &call->source[i].key);
    return inputs;
}

/* ---- replies ---- */

/* A piece of the result, from where the slices before have stopped. RC_WAIT: it is kept, and there
 * is more; RC_OK: that was the last. */
static enum rc slice_read(struct cmd_ctx *ctx, struct op_call *call, struct cmd_long *slow,
                          struct zset_items *items)
{
    struct bytes at;
    struct build_piece piece = {.has_after = slow->has_at,
                                .after = buf_bytes(&slow->at),
                                .count_max = cmd_long_count(slow),
                                .bytes_max = BUILD_PIECE_BYTES};
    enum rc rc = zset_combine_piece(ctx->run, call->source, call->source_count, &call->options,
                                    &piece, items, &at, ctx->err);
    if (rc != RC_OK)
        return cmd_long_keep(ctx, slow, buf_bytes(&slow->at), rc);
    if (piece.ended)
        return RC_OK;
    slow->has_at = true; /* also behind a member without a name */
    return cmd_long_keep(ctx, slow, at, RC_WAIT);
}

static enum rc slice_gather(struct cmd_ctx *ctx, struct op_call *call, struct cmd_long *slow)
{
    struct zset_items items = {0};
    enum rc rc = slice_read(ctx, call, slow, &items);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    for (size_t i = 0; i < items.count; i++) {
        enum rc add_rc =
            sort_work_add(slow->work, items.item[i].member, items.item[i].score, ctx->err);
        if (add_rc != RC_OK)
            return add_rc;
    }
    if (rc == RC_WAIT)
        return rc;
    sort_work_gathered(slow->work);
    return cmd_long_keep(ctx, slow, buf_bytes(&slow->at), RC_WAIT);
}

static enum rc slice_write(struct cmd_ctx *ctx, const struct op_call *call, struct cmd_long *slow)
{
    const struct sort_item *item = sort_work_items(slow->work);
    size_t count = sort_work_count(slow->work);
    enum rc rc = RC_OK;
    if (slow->done == 0)
        resp_add_array(ctx->reply, cmd_zset__len(ctx->reply, count, call->with_scores));
    while (rc == RC_OK && slow->done < count && !ctx->reply->failed) {
        struct zset_item one = {item[slow->done].element, item[slow->done].score};
        cmd_zset__item(ctx->reply, one, call->with_scores);
        slow->done++;
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    return cmd_long_keep(ctx, slow, buf_bytes(&slow->at), rc);
}

/* Elements are gathered in order of members, sorted and written, all in slices. */
static enum rc reply_in_slices(struct cmd_ctx *ctx, struct op_call *call, struct cmd_long *slow,
                               uint64_t count_max)
{
    const struct sort_options by_score = {0};
    if (!slow->work) {
        struct sort_work *work;
        enum rc rc = sort_work_new(count_max, &work, ctx->err);
        if (rc != RC_OK)
            return rc;
        slow->work = work;
        slow->work_free = sort_work_free;
    }
    if (sort_work_is_gathering(slow->work))
        return slice_gather(ctx, call, slow);
    enum rc rc = sort_work_step(slow->work, NULL, &by_score, ctx->err);
    if (rc == RC_OK)
        return slice_write(ctx, call, slow);
    return cmd_long_keep(ctx, slow, buf_bytes(&slow->at), rc);
}

static enum rc op_reply(struct cmd_ctx *ctx, enum zset_op op, const char *name)
{
    struct op_call call = {.options.op = op, .numkeys_arg = 1, .name = name};
    struct zset_items items;
    struct cmd_long *slow = NULL;
    enum rc rc = call_parse(ctx, &call);
    if (rc != RC_OK)
        return rc;
    uint64_t count_max = zset_combine_max(call.source, call.source_count, op);
    rc = cmd_long_begin(ctx, call_inputs(&call), count_max, &slow);
    if (rc == RC_OK && slow && count_max > cmd_long_count(slow))
        return reply_in_slices(ctx, &call, slow, count_max);
    if (rc == RC_OK)
        rc = call_combine(ctx, &call, &items);
    if (rc != RC_OK)
        return rc;
    if (items.count > 0)
        qsort(items.item, items.count, sizeof *items.item, zset_item_cmp);
    resp_add_array(ctx->reply, cmd_zset__len(ctx->reply, items.count, call.with_scores));
    for (size_t i = 0; i < items.count; i++)
        cmd_zset__item(ctx->reply, items.item[i], call.with_scores);
    return RC_OK;
}

/* Slices write nothing: they count. */
static enum rc card_in_slices(struct cmd_ctx *ctx, struct op_call *call, struct cmd_long *slow)
{
    struct zset_items items = {0};
    uint64_t limit = call->options.count_max;
    enum rc rc = slice_read(ctx, call, slow, &items);
    if (rc != RC_OK && rc != RC_WAIT)
        return rc;
    slow->done += items.count;
    if (rc == RC_WAIT && (limit == 0 || slow->done < limit))
        return rc;
    resp_add_int(ctx->reply, (int64_t)(limit > 0 && slow->done > limit ? limit : slow->done));
    return RC_OK;
}

enum rc cmd_zintercard(struct cmd_ctx *ctx)
{
    struct op_call call = {
        .options.op = ZSET_INTER, .numkeys_arg = 1, .count_only = true, .name = "zintercard"};
    struct zset_items items;
    struct cmd_long *slow = NULL;
    enum rc rc = call_parse(ctx, &call);
    if (rc != RC_OK)
        return rc;
    uint64_t count_max = zset_combine_max(call.source, call.source_count, ZSET_INTER);
    rc = cmd_long_begin(ctx, call_inputs(&call), count_max, &slow);
    if (rc == RC_OK && slow && count_max > cmd_long_count(slow))
        return card_in_slices(ctx, &call, slow);
    if (rc == RC_OK)
        rc = call_combine(ctx, &call, &items);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)items.count);
    return rc;
}

/* ---- stores ---- */

static enum rc store_build(struct cmd_ctx *ctx, struct op_call *call, struct build *build)
{
    struct zset_items items;
    struct bytes at;
    enum rc rc = build_step(build, ctx->run, TYPE_ZSET, call_inputs(call), ctx->err);
    if (rc != RC_OK)
        return rc;
    if (build->phase == BUILD_FULL)
        return cmd_zset__store_build(ctx, 1, build, call->name);
    struct build_piece piece = build_piece(build);
    piece.count_max /= 2; /* an element has two rows */
    rc = zset_combine_piece(ctx->run, call->source, call->source_count, &call->options, &piece,
                            &items, &at, ctx->err);
    return rc == RC_OK ? cmd_zset__piece(ctx, build, &items, at, piece.ended) : rc;
}

static enum rc op_store(struct cmd_ctx *ctx, enum zset_op op, const char *name)
{
    struct op_call call = {.options.op = op, .numkeys_arg = 2, .name = name};
    struct zset_items items;
    struct build *build = cmd_build(ctx, 1);
    enum rc rc = call_parse(ctx, &call);
    if (rc == RC_OK &&
        build_wanted(build, ctx->run, 2 * zset_combine_max(call.source, call.source_count, op)))
        return store_build(ctx, &call, build);
    if (rc == RC_OK)
        rc = call_combine(ctx, &call, &items);
    if (rc == RC_COLD)
        key_want(ctx->run->ns, &ctx->argv[1], 1);
    return rc == RC_OK ? cmd_zset__store(ctx, 1, &items, name) : rc;
}

/* ---- commands ---- */

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

// SPDX-License-Identifier: Apache-2.0
/* cmd_list.c - commands of one list. */
#include "server/cmd/cmd_list.h"

#include "types/rows.h"

#include "base/banned.h"

/* ---- pushing ---- */

static enum rc push(struct cmd_ctx *ctx, enum list_end end, bool must_exist)
{
    struct list list;
    enum rc rc = list_write(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK && (list.key.exists || !must_exist))
        rc = list_push(&list, end, ctx->argv + 2, ctx->argc - 2, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)list_count(&list));
    return rc;
}

enum rc cmd_lpush(struct cmd_ctx *ctx)
{
    return push(ctx, LIST_HEAD, false);
}

enum rc cmd_rpush(struct cmd_ctx *ctx)
{
    return push(ctx, LIST_TAIL, false);
}

enum rc cmd_lpushx(struct cmd_ctx *ctx)
{
    return push(ctx, LIST_HEAD, true);
}

enum rc cmd_rpushx(struct cmd_ctx *ctx)
{
    return push(ctx, LIST_TAIL, true);
}

/* ---- popping ---- */

static enum rc range_reply(struct cmd_ctx *ctx, const struct list *list, uint64_t position,
                           uint64_t count, bool reverse)
{
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes element;
    resp_add_array(ctx->reply, count);
    enum rc rc = list_walk_init(&walk, list, position, count, reverse, ctx->err);
    while (rc == RC_OK) {
        rc = list_walk_next(&walk, &element, ctx->err);
        if (rc == RC_OK)
            resp_add_bulk(ctx->reply, element);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* The same for who only reads: in slices. */
static enum rc long_range_reply(struct cmd_ctx *ctx, const struct list *list, uint64_t position,
                                uint64_t count)
{
    CLEANUP(list_walk_done) struct list_walk walk = {0};
    struct bytes element;
    struct cmd_long *slow;
    resp_add_array(ctx->reply, count);
    enum rc rc = cmd_long_begin(ctx, build_input(0, &list->key), count, &slow);
    if (rc != RC_OK)
        return rc;
    uint64_t done = slow ? slow->done : 0;
    if (slow && ctx->request && count > ROWS_WHOLE_MAX)
        rc = list_walk_init_once(&walk, list, position + done, count - done, ctx->err);
    else
        rc = list_walk_init(&walk, list, position + done, count - done, false, ctx->err);
    while (rc == RC_OK && !ctx->reply->failed) {
        rc = list_walk_next(&walk, &element, ctx->err);
        if (rc != RC_OK)
            break;
        resp_add_bulk(ctx->reply, element);
        done++;
        if (cmd_long_full(ctx, slow) && done < count)
            rc = RC_WAIT;
    }
    if (slow)
        slow->done = done;
    return rc == RC_NOT_FOUND ? RC_OK : cmd_long_keep(ctx, slow, BYTES(""), rc);
}

enum rc cmd_list__pop_one(struct cmd_ctx *ctx, struct list *list, enum list_end end)
{
    struct bytes element;
    enum rc rc = list_peek(list, end, &element, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_bulk(ctx->reply, element);
    return list_pop(list, end, 1, ctx->err);
}

enum rc cmd_list__pop_some(struct cmd_ctx *ctx, struct list *list, enum list_end end,
                           uint64_t count_max)
{
    uint64_t all_count = list_count(list);
    uint64_t count = count_max < all_count ? count_max : all_count;
    enum rc rc =
        range_reply(ctx, list, end == LIST_HEAD ? 0 : all_count - 1, count, end == LIST_TAIL);
    return rc == RC_OK ? list_pop(list, end, count, ctx->err) : rc;
}

static enum rc pop(struct cmd_ctx *ctx, enum list_end end)
{
    struct list list;
    bool has_count = ctx->argc == 3;
    int64_t count = 1;
    enum rc rc = RC_OK;
    if (ctx->argc > 3)
        return cmd_arity_error(ctx);
    if (has_count)
        rc = cmd_int_range(ctx, 2, 0, INT64_MAX, "value is out of range, must be positive", &count);
    if (rc == RC_OK)
        rc = list_write(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!has_count && list.key.exists)
        return cmd_list__pop_one(ctx, &list, end);
    if (!has_count)
        resp_add_null(ctx->reply);
    else if (!list.key.exists)
        resp_add_null_array(ctx->reply);
    else if (count == 0)
        resp_add_array(ctx->reply, 0);
    else
        return cmd_list__pop_some(ctx, &list, end, (uint64_t)count);
    return RC_OK;
}

enum rc cmd_lpop(struct cmd_ctx *ctx)
{
    return pop(ctx, LIST_HEAD);
}

enum rc cmd_rpop(struct cmd_ctx *ctx)
{
    return pop(ctx, LIST_TAIL);
}

/* ---- reading ---- */

enum rc cmd_llen(struct cmd_ctx *ctx)
{
    struct list list;
    enum rc rc = list_read(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)list_count(&list));
    return rc;
}

/* Negative indexes count from the tail. False: there is no such element. */
static bool index_find(const struct list *list, int64_t index, uint64_t *ret_position)
{
    uint64_t count = list_count(list);
    *ret_position = index < 0 ? count + (uint64_t)index : (uint64_t)index;
    return *ret_position < count; /* what went below 0 is huge */
}

enum rc cmd_lindex(struct cmd_ctx *ctx)
{
    struct list list;
    struct bytes element;
    int64_t index;
    uint64_t position;
    enum rc rc = list_read(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK && list.key.exists)
        rc = cmd_int(ctx, 2, &index);
    if (rc != RC_OK)
        return rc;
    if (!list.key.exists || !index_find(&list, index, &position)) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    rc = list_get(&list, position, &element, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, element);
    return rc;
}

/* The elements from index `first` to index `last`, both included; *ret_count may be 0. */
static void range_find(const struct list *list, int64_t first, int64_t last, uint64_t *ret_position,
                       uint64_t *ret_count)
{
    int64_t count = (int64_t)list_count(list);
    first += first < 0 ? count : 0;
    last += last < 0 ? count : 0;
    first = first < 0 ? 0 : first;
    last = last >= count ? count - 1 : last;
    *ret_position = first <= last ? (uint64_t)first : 0;
    *ret_count = first <= last ? (uint64_t)(last - first) + 1 : 0;
}

enum rc cmd_lrange(struct cmd_ctx *ctx)
{
    struct list list;
    int64_t first, last;
    uint64_t position, count;
    enum rc rc = cmd_int(ctx, 2, &first);
    if (rc == RC_OK)
        rc = cmd_int(ctx, 3, &last);
    if (rc == RC_OK)
        rc = list_read(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc != RC_OK)
        return rc;
    range_find(&list, first, last, &position, &count);
    if (count > 0)
        return long_range_reply(ctx, &list, position, count);
    resp_add_array(ctx->reply, 0);
    return RC_OK;
}

/* ---- LPOS ---- */

struct pos_options {
    int64_t rank;
    int64_t count; /* -1: not given, one number is the answer */
    int64_t maxlen;
};

static enum rc pos_rank(struct cmd_ctx *ctx, size_t arg, int64_t *ret_rank)
{
    enum rc rc = cmd_int(ctx, arg, ret_rank);
    if (rc != RC_OK)
        return rc;
    if (*ret_rank == INT64_MIN) /* Redis cannot turn its sign either, and takes the first match */
        *ret_rank = -1;
    if (*ret_rank == 0)
        return cmd_error(ctx, "RANK can't be zero: use 1 to start from the first match, 2 from the "
                              "second ... or use negative to start from the end of the list");
    return RC_OK;
}

static enum rc pos_parse(struct cmd_ctx *ctx, struct pos_options *options)
{
    for (size_t i = 3; i < ctx->argc; i += 2) {
        enum rc rc;
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[i], "RANK"))
            rc = pos_rank(ctx, i + 1, &options->rank);
        else if (cmd_arg_is(ctx->argv[i], "COUNT"))
            rc =
                cmd_int_range(ctx, i + 1, 0, INT64_MAX, "COUNT can't be negative", &options->count);
        else if (cmd_arg_is(ctx->argv[i], "MAXLEN"))
            rc = cmd_int_range(ctx, i + 1, 0, INT64_MAX, "MAXLEN can't be negative",
                               &options->maxlen);
        else
            rc = cmd_syntax_error(ctx);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc pos_reply(struct cmd_ctx *ctx, const struct list *list,
                         const struct pos_options *options, uint64_t *ret_found_count)
{
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes element;
    bool reverse = options->rank < 0;
    uint64_t rank = (uint64_t)(reverse ? -options->rank : options->rank);
    uint64_t all_count = list_count(list), match_count = 0, found_count = 0;
    uint64_t found_max = options->count < 0    ? 1
                         : options->count == 0 ? UINT64_MAX
                                               : (uint64_t)options->count;
    enum rc rc =
        list_walk_init(&walk, list, reverse ? all_count - 1 : 0,
                       options->maxlen ? (uint64_t)options->maxlen : UINT64_MAX, reverse, ctx->err);
    if (options->count != 0)
        list_walk_searches(&walk);
    for (uint64_t i = 0; rc == RC_OK && found_count < found_max; i++) {
        rc = list_walk_next(&walk, &element, ctx->err);
        if (rc != RC_OK || !bytes_eq(element, ctx->argv[2]) || ++match_count < rank)
            continue;
        resp_add_int(ctx->reply, (int64_t)(reverse ? all_count - 1 - i : i));
        found_count++;
    }
    *ret_found_count = found_count;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc cmd_lpos(struct cmd_ctx *ctx)
{
    struct list list;
    struct pos_options options = {.rank = 1, .count = -1};
    uint64_t found_count = 0;
    enum rc rc = pos_parse(ctx, &options);
    if (rc == RC_OK)
        rc = list_read(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc != RC_OK)
        return rc;
    size_t mark = resp_open(ctx->reply);
    if (list.key.exists)
        rc = pos_reply(ctx, &list, &options, &found_count);
    if (options.count >= 0)
        resp_close_array(ctx->reply, mark, found_count);
    else if (found_count == 0)
        resp_add_null(ctx->reply);
    return rc;
}

/* ---- changing the middle ---- */

enum rc cmd_lset(struct cmd_ctx *ctx)
{
    struct list list;
    int64_t index;
    uint64_t position;
    enum rc rc = list_write(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK && !list.key.exists)
        return cmd_error(ctx, "no such key");
    if (rc == RC_OK)
        rc = cmd_int(ctx, 2, &index);
    if (rc != RC_OK)
        return rc;
    if (!index_find(&list, index, &position))
        return cmd_error(ctx, "index out of range");
    rc = list_set(&list, position, ctx->argv[3], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* For who may have to move very many rows. */
static struct build *list_build(struct cmd_ctx *ctx, const struct list *list)
{
    return list_count(list) >= ctx->run->kv->build_rows_min ? cmd_build(ctx, 0) : NULL;
}

enum rc cmd_linsert(struct cmd_ctx *ctx)
{
    struct list list;
    bool before = cmd_arg_is(ctx->argv[2], "BEFORE");
    if (!before && !cmd_arg_is(ctx->argv[2], "AFTER"))
        return cmd_syntax_error(ctx);
    enum rc rc = list_write(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK && list.key.exists)
        rc = list_insert(&list, ctx->argv[3], before, ctx->argv[4], list_build(ctx, &list),
                         ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)list_count(&list));
    else if (rc == RC_NOT_FOUND)
        resp_add_int(ctx->reply, -1);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc cmd_lrem(struct cmd_ctx *ctx)
{
    struct list list;
    int64_t count;
    uint64_t removed_count = 0;
    enum rc rc = cmd_int(ctx, 2, &count);
    if (rc == RC_OK)
        rc = list_write(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK && list.key.exists)
        rc = list_remove(&list, count < 0 ? LIST_TAIL : LIST_HEAD,
                         count < 0 ? 0 - (uint64_t)count : (uint64_t)count, ctx->argv[3],
                         list_build(ctx, &list), &removed_count, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)removed_count);
    return rc;
}

enum rc cmd_ltrim(struct cmd_ctx *ctx)
{
    struct list list;
    int64_t first, last;
    uint64_t position, count;
    enum rc rc = cmd_int(ctx, 2, &first);
    if (rc == RC_OK)
        rc = cmd_int(ctx, 3, &last);
    if (rc == RC_OK)
        rc = list_write(ctx->run, ctx->argv[1], &list, ctx->err);
    if (rc == RC_OK && list.key.exists) {
        range_find(&list, first, last, &position, &count);
        rc = list_trim(&list, position, count, ctx->err);
    }
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* cmd_task.c - TASK.*: arguments and replies around models/tile/queue.h. */
#include "models/tile/cmd_tile.h"
#include "models/tile/queue.h"
#include "models/tile/queue_lease.h"

#include "base/banned.h"

static enum rc queue_of(struct cmd_ctx *ctx, struct queue *ret_queue)
{
    struct tile_type *type = tiles_type_of(ctx->run->ns);
    if (!type)
        return cmd_error(ctx, "tasks belong to the database of a tile type: SELECT one of "
                              "tile-types");
    *ret_queue = (struct queue){ctx->run, cmd_model(ctx), type};
    return RC_OK;
}

static enum rc id_check(struct cmd_ctx *ctx, struct bytes id)
{
    if (queue_id_is(id))
        return RC_OK;
    return err_set(ctx->err, RC_INVALID,
                   "a task is a tilekey, 1 to %d digits, each 0 to 3, with its kind in front if "
                   "it has one, as imagery:0123",
                   TILE_LEVEL_MAX);
}

/* Room for what a client chose the number of. */
static enum rc room_for(struct cmd_ctx *ctx, size_t count, size_t size, void **ret_room)
{
    *ret_room = arena_try_alloc(ctx->run->arena, count * size);
    if (!*ret_room)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu tasks", count);
    return RC_OK;
}

enum rc cmd_task_add(struct cmd_ctx *ctx)
{
    struct queue queue;
    void *room;
    size_t count = ctx->argc - 1, added;
    enum rc rc = queue_of(ctx, &queue);
    if (rc == RC_OK && count > QUEUE_ADD_MAX)
        return err_set(ctx->err, RC_INVALID, "at most %d tasks a command", QUEUE_ADD_MAX);
    if (rc == RC_OK)
        rc = room_for(ctx, count, sizeof(struct queue_item), &room);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = queue_item_parse(ctx->argv[i + 1], (struct queue_item *)room + i, ctx->err);
    if (rc == RC_OK)
        rc = queue_add(&queue, room, count, &added, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)added);
    return rc;
}

/* ---- TAKE ---- */

struct take_args {
    int64_t count, lease_ms, block_ms;
    bool blocks;
};

static enum rc take_parse(struct cmd_ctx *ctx, struct take_args *args)
{
    *args = (struct take_args){.count = 1, .lease_ms = QUEUE_LEASE_MS};
    for (size_t at = 1; at < ctx->argc; at += 2) {
        enum rc rc;
        if (at + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[at], "COUNT")) {
            rc = cmd_int_range(ctx, at + 1, 1, QUEUE_TAKE_MAX, "COUNT is 1 to 1000", &args->count);
        } else if (cmd_arg_is(ctx->argv[at], "LEASE")) {
            rc = cmd_int_range(ctx, at + 1, 1, QUEUE_LEASE_MS_MAX,
                               "LEASE is 1 millisecond to a year", &args->lease_ms);
        } else if (cmd_arg_is(ctx->argv[at], "BLOCK")) {
            rc = cmd_int_range(ctx, at + 1, 0, INT32_MAX, "timeout is negative", &args->block_ms);
            args->blocks = true;
        } else {
            return cmd_syntax_error(ctx);
        }
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static void nothing_taken(struct resp_out *reply)
{
    resp_add_array(reply, 0);
}

static void taken_reply(struct cmd_ctx *ctx, const struct queue_take *take)
{
    resp_add_array(ctx->reply, take->taken_count);
    for (size_t i = 0; i < take->taken_count; i++) {
        resp_add_array(ctx->reply, 4);
        resp_add_bulk(ctx->reply, take->taken[i].id);
        resp_add_int(ctx->reply, take->taken[i].attempt);
        resp_add_int(ctx->reply, take->taken[i].lease_ms);
        resp_add_bulk(ctx->reply, take->taken[i].item);
    }
}

enum rc cmd_task_take(struct cmd_ctx *ctx)
{
    struct queue queue;
    struct take_args args;
    struct queue_take take = {0};
    struct bytes key;
    void *room;
    enum rc rc = take_parse(ctx, &args);
    if (rc == RC_OK)
        rc = queue_of(ctx, &queue);
    if (rc == RC_OK)
        rc = room_for(ctx, (size_t)args.count, sizeof *take.taken, &room);
    if (rc != RC_OK)
        return rc;
    take.count = (size_t)args.count;
    take.lease_ms = args.lease_ms;
    take.taken = room;
    bool is_mine = !args.blocks || cmd_key_try(ctx, &queue_key, 0, &key) ||
                   cmd_key_try(ctx, &queue_key, 1, &key);
    if (is_mine)
        rc = queue_take(&queue, &take, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (take.taken_count == 0 && !take.more && args.blocks)
        return cmd_block(ctx, &(struct cmd_blocking){&queue_key, 1, KV_EVENT_LIST,
                                                     (uint64_t)args.block_ms, nothing_taken});
    if (take.taken_count > 0) /* also if this is taken back: it finds nothing then */
        queue_lease_deadline_set(cmd_model(ctx), take.taken[0].lease_ms);
    taken_reply(ctx, &take);
    return RC_OK;
}

/* ---- DONE, FAIL ---- */

/* id [ATTEMPT n], from argument *at on. */
static enum rc end_parse(struct cmd_ctx *ctx, size_t *at, struct queue_end *ret_end)
{
    *ret_end = (struct queue_end){.id = ctx->argv[*at]};
    enum rc rc = id_check(ctx, ctx->argv[(*at)++]);
    if (rc != RC_OK || *at == ctx->argc || !cmd_arg_is(ctx->argv[*at], "ATTEMPT"))
        return rc;
    if (*at + 1 == ctx->argc)
        return cmd_syntax_error(ctx);
    *at += 2;
    return cmd_int_range(ctx, *at - 1, 1, INT64_MAX, "attempts count from 1", &ret_end->attempt);
}

enum rc cmd_task_done(struct cmd_ctx *ctx)
{
    struct queue queue;
    void *room;
    size_t count = 0, done;
    enum rc rc = queue_of(ctx, &queue);
    if (rc == RC_OK)
        rc = room_for(ctx, ctx->argc, sizeof(struct queue_end), &room);
    for (size_t at = 1; at < ctx->argc && rc == RC_OK;)
        rc = end_parse(ctx, &at, (struct queue_end *)room + count++);
    if (rc == RC_OK)
        rc = queue_done(&queue, room, count, &done, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)done);
    return rc;
}

/* id argument [ATTEMPT n] */
static enum rc one_end_parse(struct cmd_ctx *ctx, struct queue_end *ret_end)
{
    *ret_end = (struct queue_end){.id = ctx->argv[1]};
    enum rc rc = id_check(ctx, ctx->argv[1]);
    if (rc != RC_OK || ctx->argc == 3)
        return rc;
    if (ctx->argc != 5 || !cmd_arg_is(ctx->argv[3], "ATTEMPT"))
        return cmd_syntax_error(ctx);
    return cmd_int_range(ctx, 4, 1, INT64_MAX, "attempts count from 1", &ret_end->attempt);
}

enum rc cmd_task_fail(struct cmd_ctx *ctx)
{
    struct queue queue;
    struct queue_end end;
    enum rc rc = one_end_parse(ctx, &end);
    if (rc == RC_OK)
        rc = queue_of(ctx, &queue);
    if (rc == RC_OK)
        rc = queue_fail(&queue, &end, ctx->argv[2], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_task_extend(struct cmd_ctx *ctx)
{
    struct queue queue;
    struct queue_end end;
    int64_t lease_ms, end_ms;
    enum rc rc = one_end_parse(ctx, &end);
    if (rc == RC_OK)
        rc = cmd_int_range(ctx, 2, 1, QUEUE_LEASE_MS_MAX, "a lease is 1 millisecond to a year",
                           &lease_ms);
    if (rc == RC_OK)
        rc = queue_of(ctx, &queue);
    if (rc == RC_OK)
        rc = queue_extend(&queue, &end, lease_ms, &end_ms, ctx->err);
    if (rc != RC_OK)
        return rc;
    queue_lease_deadline_set(cmd_model(ctx), end_ms); /* it may be earlier than before */
    resp_add_int(ctx->reply, end_ms);
    return RC_OK;
}

/* ---- RETRY, STATS ---- */

enum rc cmd_task_retry(struct cmd_ctx *ctx)
{
    struct queue queue;
    size_t retried;
    int64_t count = QUEUE_RETRY_MAX;
    enum rc rc = queue_of(ctx, &queue);
    if (rc != RC_OK)
        return rc;
    if (cmd_arg_is(ctx->argv[1], "ALL")) {
        if (ctx->argc != 2 && (ctx->argc != 4 || !cmd_arg_is(ctx->argv[2], "COUNT")))
            return cmd_syntax_error(ctx);
        if (ctx->argc == 4)
            rc = cmd_int_range(ctx, 3, 1, QUEUE_RETRY_MAX, "COUNT is 1 to 1000", &count);
        if (rc == RC_OK)
            rc = queue_retry_all(&queue, (size_t)count, &retried, ctx->err);
    } else {
        for (size_t i = 1; i < ctx->argc && rc == RC_OK; i++)
            rc = id_check(ctx, ctx->argv[i]);
        if (rc == RC_OK)
            rc = queue_retry(&queue, ctx->argv + 1, ctx->argc - 1, &retried, ctx->err);
    }
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)retried);
    return rc;
}

enum rc cmd_task_stats(struct cmd_ctx *ctx)
{
    struct queue queue;
    struct queue_stats stats;
    enum rc rc = queue_of(ctx, &queue);
    if (rc == RC_OK)
        rc = queue_stats(&queue, &stats, ctx->err);
    if (rc != RC_OK)
        return rc;
    int64_t now_ms = (int64_t)ctx->run->now_ms;
    int64_t since_ms = stats.pending_since_ms;
    const struct {
        const char *name;
        int64_t value;
    } line[] = {
        {"pending", (int64_t)stats.count[QUEUE_PENDING]},
        {"in_progress", (int64_t)stats.count[QUEUE_IN_PROGRESS]},
        {"done", (int64_t)stats.count[QUEUE_DONE]},
        {"error", (int64_t)stats.count[QUEUE_ERROR]},
        {"queued", (int64_t)stats.queued},
        {"bad", (int64_t)stats.bad},
        {"oldest_pending_ms", since_ms != 0 && since_ms < now_ms ? now_ms - since_ms : 0},
        {"next_lease_ms", stats.next_lease_ms},
    };
    resp_add_map(ctx->reply, ARRAY_LEN(line));
    for (size_t i = 0; i < ARRAY_LEN(line); i++) {
        resp_add_text(ctx->reply, line[i].name);
        resp_add_int(ctx->reply, line[i].value);
    }
    return RC_OK;
}

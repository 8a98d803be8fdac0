// SPDX-License-Identifier: Apache-2.0
/* cmd_set.c - commands on sets. */
#include "server/cmd/cmd_rows.h"

#include "base/mem.h"
#include "types/set.h"
#include "types/set_op.h"
#include "types/set_renew.h"

#include "base/banned.h"

/* ---- reading ---- */

enum rc cmd_scard(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_SET, &key, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, key.exists ? (int64_t)key.meta.count : 0);
    return rc;
}

/* A 1 or a 0 for every member that was named. */
static enum rc members_reply(struct cmd_ctx *ctx, const struct key *key)
{
    bool cold = false; /* all cold members are asked for before the command waits */
    for (size_t i = 2; i < ctx->argc; i++) {
        enum rc rc = set_has(key, ctx->argv[i], ctx->err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_COLD)
            return rc;
        resp_add_int(ctx->reply, rc == RC_OK);
    }
    return cold ? RC_COLD : RC_OK;
}

enum rc cmd_sismember(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_SET, &key, ctx->err);
    return rc == RC_OK ? members_reply(ctx, &key) : rc;
}

enum rc cmd_smismember(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_SET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, ctx->argc - 2);
    return members_reply(ctx, &key);
}

/* The reply is a set: all members. */
static enum rc all_reply(struct cmd_ctx *ctx, const struct key *key)
{
    struct cmd_long *slow = NULL;
    resp_add_set(ctx->reply, key->exists ? key->meta.count : 0);
    if (!key->exists)
        return RC_OK;
    enum rc rc = cmd_long_begin(ctx, build_input(0, key), key->meta.count, &slow);
    return rc == RC_OK ? cmd_rows_add(ctx, key, ROWS_SUFFIX, slow) : rc;
}

enum rc cmd_smembers(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_SET, &key, ctx->err);
    return rc == RC_OK ? all_reply(ctx, &key) : rc;
}

enum rc cmd_sscan(struct cmd_ctx *ctx)
{
    return cmd_rows_scan(ctx, TYPE_SET, ROWS_SUFFIX);
}

enum rc cmd_srandmember(struct cmd_ctx *ctx)
{
    int64_t count;
    if (ctx->argc == 2)
        return cmd_rows_random(ctx, TYPE_SET);
    if (ctx->argc > 3)
        return cmd_syntax_error(ctx);
    enum rc rc = cmd_rows_random_count(ctx, &count);
    return rc == RC_OK ? cmd_rows_random_some(ctx, TYPE_SET, count, ROWS_SUFFIX) : rc;
}

/* ---- writing ---- */

enum rc cmd_sadd(struct cmd_ctx *ctx)
{
    size_t added;
    enum rc rc = set_add(ctx->run, ctx->argv[1], ctx->argv + 2, ctx->argc - 2, &added, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)added);
    return rc;
}

enum rc cmd_srem(struct cmd_ctx *ctx)
{
    size_t removed;
    enum rc rc =
        set_remove(ctx->run, ctx->argv[1], ctx->argv + 2, ctx->argc - 2, &removed, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)removed);
    return rc;
}

enum rc cmd_smove(struct cmd_ctx *ctx)
{
    bool moved;
    enum rc rc = set_move(ctx->run, ctx->argv[1], ctx->argv[2], ctx->argv[3], &moved, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, moved);
    return rc;
}

static enum rc pop_one(struct cmd_ctx *ctx, struct key *key)
{
    CLEANUP(rows_pick_done) struct rows_pick pick = {0};
    struct bytes member;
    if (!key->exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    enum rc rc = rows_take_init(&pick, key, 1, ctx->err);
    if (rc == RC_OK)
        rc = set_pop(key, &pick, &member, ctx->err);
    if (rc == RC_OK)
        rc = set_pop_end(key, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, member);
    return rc;
}

/* Members that were drawn in earlier commits, as they will be answered. */
static void taken_add(void *arg, struct bytes member)
{
    resp_add_bulk(arg, member);
}

static void taken_free(void *arg)
{
    resp_out_done(arg);
    mem_free(arg);
}

/* Very many: in many commits, and they go in the last one. */
static enum rc pop_many(struct cmd_ctx *ctx, struct key *key, uint64_t count, struct build *build)
{
    if (!set_renew_is_begun(build)) {
        bool is_taken;
        struct resp_out *taken = mem_zalloc(sizeof *taken);
        resp_out_init(taken, ctx->reply->buf.bytes_max);
        struct set_gone gone = {
            .count = count, .tell = taken_add, .arg = taken, .arg_free = taken_free};
        enum rc rc = set_renew_begin(key, &gone, build, &is_taken, ctx->err);
        if (!is_taken)
            taken_free(taken);
        return rc;
    }
    void *taken;
    enum rc rc = set_renew_step(key, build, &taken, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_set(ctx->reply, count);
    resp_add_out(ctx->reply, taken);
    return set_pop_end(key, ctx->err);
}

static enum rc pop_some(struct cmd_ctx *ctx, struct key *key, uint64_t count)
{
    CLEANUP(rows_pick_done) struct rows_pick pick = {0};
    if (!key->exists || count == 0) {
        resp_add_set(ctx->reply, 0);
        return RC_OK;
    }
    if (count > key->meta.count)
        count = key->meta.count;
    struct build *build = count >= ctx->run->kv->build_rows_min ? cmd_build(ctx, 0) : NULL;
    if (set_renew_is_begun(build) || renew_wanted(build, key->run, key->meta.count, count))
        return pop_many(ctx, key, count, build);
    enum rc rc = RC_OK;
    if (count >= key->meta.count) {
        resp_add_set(ctx->reply, key->meta.count);
        rc = cmd_rows_add(ctx, key, ROWS_SUFFIX, NULL); /* it goes in the same commit */
        key->meta.count = 0;                            /* the rows go with the key */
        count = 0;
    } else {
        resp_add_set(ctx->reply, count);
        rc = rows_take_init(&pick, key, count, ctx->err);
    }
    for (; rc == RC_OK && count > 0; count--) {
        struct bytes member;
        rc = set_pop(key, &pick, &member, ctx->err);
        if (rc == RC_OK)
            resp_add_bulk(ctx->reply, member);
    }
    return rc == RC_OK ? set_pop_end(key, ctx->err) : rc;
}

enum rc cmd_spop(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t count = 0;
    enum rc rc = RC_OK;
    if (ctx->argc > 3)
        return cmd_syntax_error(ctx);
    if (ctx->argc == 3)
        rc = cmd_int_range(ctx, 2, 0, INT64_MAX, "value is out of range, must be positive", &count);
    if (rc == RC_OK)
        rc = key_write(ctx->run, ctx->argv[1], TYPE_SET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    return ctx->argc == 2 ? pop_one(ctx, &key) : pop_some(ctx, &key, (uint64_t)count);
}

/* ---- several sets ---- */

/* From where the slices before have stopped. */
static enum rc op_begin(struct cmd_ctx *ctx, struct set_op *op, const struct cmd_long *slow)
{
    if (!slow || !ctx->request)
        return set_op_start(op, NULL, ctx->err);
    struct build_piece piece = {.has_after = slow->has_at,
                                .after = buf_bytes(&slow->at),
                                .count_max = cmd_long_count(slow),
                                .bytes_max = SIZE_MAX};
    return set_op_start(op, &piece, ctx->err);
}

/* The slice ends with rc. What is decided stays decided. */
static enum rc op_keep(struct cmd_ctx *ctx, const struct set_op *op, struct cmd_long *slow,
                       enum rc rc)
{
    if (!slow || op->decided_count == 0)
        return rc;
    slow->has_at = true; /* also behind a member without a name */
    return cmd_long_keep(ctx, slow, op->decided, rc);
}

static enum rc op_reply(struct cmd_ctx *ctx, enum set_op_kind kind)
{
    CLEANUP(set_op_done) struct set_op op;
    struct bytes member;
    struct cmd_long *slow = NULL;
    size_t mark = resp_open(ctx->reply);
    enum rc rc = set_op_find(&op, ctx->run, kind, ctx->argv + 1, ctx->argc - 1, ctx->err);
    if (rc == RC_OK)
        rc = cmd_long_begin(ctx, op.inputs, op.count_max, &slow);
    if (rc != RC_OK)
        return rc;
    uint64_t count = slow ? slow->done : 0;
    rc = op_begin(ctx, &op, slow);
    while (rc == RC_OK && !ctx->reply->failed &&
           (rc = set_op_next(&op, &member, ctx->err)) == RC_OK) {
        resp_add_bulk(ctx->reply, member);
        count++;
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    if (slow)
        slow->done = count;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return op_keep(ctx, &op, slow, rc);
    resp_close_set(ctx->reply, mark, count);
    return RC_OK;
}

enum rc cmd_sunion(struct cmd_ctx *ctx)
{
    return op_reply(ctx, SET_UNION);
}

enum rc cmd_sinter(struct cmd_ctx *ctx)
{
    return op_reply(ctx, SET_INTER);
}

enum rc cmd_sdiff(struct cmd_ctx *ctx)
{
    return op_reply(ctx, SET_DIFF);
}

static enum rc op_store(struct cmd_ctx *ctx, enum set_op_kind kind, const char *event)
{
    const struct set_store store = {.kind = kind,
                                    .to = ctx->argv[1],
                                    .name = ctx->argv + 2,
                                    .name_count = ctx->argc - 2,
                                    .event = event};
    uint64_t count;
    enum rc rc = set_op_store(ctx->run, &store, cmd_build(ctx, 1), &count, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

enum rc cmd_sunionstore(struct cmd_ctx *ctx)
{
    return op_store(ctx, SET_UNION, "sunionstore");
}

enum rc cmd_sinterstore(struct cmd_ctx *ctx)
{
    return op_store(ctx, SET_INTER, "sinterstore");
}

enum rc cmd_sdiffstore(struct cmd_ctx *ctx)
{
    return op_store(ctx, SET_DIFF, "sdiffstore");
}

/* [LIMIT limit]...; 0: none */
static enum rc card_options(struct cmd_ctx *ctx, size_t from, int64_t *ret_limit)
{
    *ret_limit = 0;
    for (size_t i = from; i < ctx->argc; i += 2) {
        if (!cmd_arg_is(ctx->argv[i], "LIMIT") || i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        enum rc rc = cmd_int_range(ctx, i + 1, 0, INT64_MAX, "LIMIT can't be negative", ret_limit);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* limit 0: none. A slice writes nothing: it counts. */
static enum rc card_reply(struct cmd_ctx *ctx, const struct bytes *name, size_t name_count,
                          uint64_t limit)
{
    CLEANUP(set_op_done) struct set_op op;
    struct bytes member;
    struct cmd_long *slow = NULL;
    enum rc rc = set_op_find(&op, ctx->run, SET_INTER, name, name_count, ctx->err);
    if (rc == RC_OK)
        rc = cmd_long_begin(ctx, op.inputs, op.count_max, &slow);
    if (rc != RC_OK)
        return rc;
    uint64_t count = slow ? slow->done : 0;
    rc = op_begin(ctx, &op, slow);
    while (rc == RC_OK && (limit == 0 || count < limit)) {
        rc = set_op_next(&op, &member, ctx->err);
        count += rc == RC_OK;
    }
    if (slow)
        slow->done = count;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return op_keep(ctx, &op, slow, rc);
    resp_add_int(ctx->reply, (int64_t)count);
    return RC_OK;
}

enum rc cmd_sintercard(struct cmd_ctx *ctx)
{
    int64_t key_count, limit;
    enum rc rc =
        cmd_int_range(ctx, 1, 1, INT64_MAX, "numkeys should be greater than 0", &key_count);
    if (rc != RC_OK)
        return rc;
    if ((uint64_t)key_count > ctx->argc - 2)
        return cmd_error(ctx, "Number of keys can't be greater than number of args");
    rc = card_options(ctx, (size_t)key_count + 2, &limit);
    if (rc != RC_OK)
        return rc;
    return card_reply(ctx, ctx->argv + 2, (size_t)key_count, (uint64_t)limit);
}

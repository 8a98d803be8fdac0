/* Commands on sets. */
#include "server/cmd/cmd_rows.h"
#include "types/set.h"
#include "types/set_op.h"

#include "base/banned.h"

/* ---- reading ---- */

enum rc cmd_scard(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->ns, ctx->argv[1], TYPE_SET, &key, ctx->err);
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
    enum rc rc = key_read(ctx->ns, ctx->argv[1], TYPE_SET, &key, ctx->err);
    return rc == RC_OK ? members_reply(ctx, &key) : rc;
}

enum rc cmd_smismember(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->ns, ctx->argv[1], TYPE_SET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, ctx->argc - 2);
    return members_reply(ctx, &key);
}

/* The reply is a set: all members. */
static enum rc all_reply(struct cmd_ctx *ctx, const struct key *key)
{
    resp_add_set(ctx->reply, key->exists ? key->meta.count : 0);
    return key->exists ? cmd_rows_add(ctx, key, ROWS_SUFFIX) : RC_OK;
}

enum rc cmd_smembers(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->ns, ctx->argv[1], TYPE_SET, &key, ctx->err);
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
    enum rc rc = set_add(ctx->ns, ctx->argv[1], ctx->argv + 2, ctx->argc - 2, &added, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)added);
    return rc;
}

enum rc cmd_srem(struct cmd_ctx *ctx)
{
    size_t removed;
    enum rc rc =
        set_remove(ctx->ns, ctx->argv[1], ctx->argv + 2, ctx->argc - 2, &removed, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)removed);
    return rc;
}

enum rc cmd_smove(struct cmd_ctx *ctx)
{
    bool moved;
    enum rc rc = set_move(ctx->ns, ctx->argv[1], ctx->argv[2], ctx->argv[3], &moved, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, moved);
    return rc;
}

static enum rc pop_one(struct cmd_ctx *ctx, struct key *key)
{
    struct bytes member;
    if (!key->exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    enum rc rc = set_pop(key, &member, ctx->err);
    if (rc == RC_OK)
        rc = set_pop_end(key, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, member);
    return rc;
}

static enum rc pop_some(struct cmd_ctx *ctx, struct key *key, uint64_t count)
{
    if (!key->exists || count == 0) {
        resp_add_set(ctx->reply, 0);
        return RC_OK;
    }
    enum rc rc = RC_OK;
    if (count >= key->meta.count) {
        rc = all_reply(ctx, key);
        key->meta.count = 0; /* the rows go with the key */
        count = 0;
    } else {
        resp_add_set(ctx->reply, count);
    }
    for (; rc == RC_OK && count > 0; count--) {
        struct bytes member;
        rc = set_pop(key, &member, ctx->err);
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
        rc = key_write(ctx->ns, ctx->argv[1], TYPE_SET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    return ctx->argc == 2 ? pop_one(ctx, &key) : pop_some(ctx, &key, (uint64_t)count);
}

/* ---- several sets ---- */

static enum rc op_reply(struct cmd_ctx *ctx, enum set_op_kind kind)
{
    CLEANUP(set_op_done) struct set_op op;
    struct bytes member;
    uint64_t count = 0;
    size_t mark = resp_open(ctx->reply);
    enum rc rc = set_op_init(&op, ctx->ns, kind, ctx->argv + 1, ctx->argc - 1, ctx->err);
    while (rc == RC_OK && (rc = set_op_next(&op, &member, ctx->err)) == RC_OK) {
        resp_add_bulk(ctx->reply, member);
        count++;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
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
    enum rc rc = set_op_store(ctx->ns, &store, cmd_aside(ctx, 1), &count, ctx->err);
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

enum rc cmd_sintercard(struct cmd_ctx *ctx)
{
    int64_t key_count, limit, count = 0;
    enum rc rc =
        cmd_int_range(ctx, 1, 1, INT64_MAX, "numkeys should be greater than 0", &key_count);
    if (rc != RC_OK)
        return rc;
    if ((uint64_t)key_count > ctx->argc - 2)
        return cmd_error(ctx, "Number of keys can't be greater than number of args");
    rc = card_options(ctx, (size_t)key_count + 2, &limit);
    if (rc != RC_OK)
        return rc;
    CLEANUP(set_op_done) struct set_op op;
    struct bytes member;
    rc = set_op_init(&op, ctx->ns, SET_INTER, ctx->argv + 2, (size_t)key_count, ctx->err);
    while (rc == RC_OK && (limit == 0 || count < limit)) {
        rc = set_op_next(&op, &member, ctx->err);
        count += rc == RC_OK;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

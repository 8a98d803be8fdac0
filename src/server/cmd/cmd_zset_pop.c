// SPDX-License-Identifier: Apache-2.0
/* cmd_zset_pop.c - commands that take the lowest or highest elements, or wait for some. */
#include "server/cmd/cmd_zset.h"

#include "base/mem.h"
#include "server/server_int.h"
#include "types/zset_renew.h"

#include "base/banned.h"

/* Elements as they are answered; pairs: each is an array of its own. */
struct taken {
    struct resp_out out;
    bool pairs;
};

static void item_add(struct resp_out *reply, struct zset_item item, bool pairs)
{
    if (pairs)
        resp_add_array(reply, 2);
    resp_add_bulk(reply, item.member);
    resp_add_double(reply, item.score);
}

static void taken_add(void *arg, struct zset_item item)
{
    struct taken *taken = arg;
    item_add(&taken->out, item, taken->pairs);
}

static void taken_free(void *arg)
{
    struct taken *taken = arg;
    resp_out_done(&taken->out);
    mem_free(taken);
}

static enum rc pop_end(struct cmd_ctx *ctx, struct key *key, bool highest)
{
    key_changed(key, KV_EVENT_ZSET, highest ? "zpopmax" : "zpopmin");
    return zset_save(key, ctx->err);
}

/* Very many: in many commits, and they go in the last one. */
static enum rc pop_many(struct cmd_ctx *ctx, struct key *key, const struct zset_gone *what,
                        bool pairs, struct build *build)
{
    if (!zset_renew_is_begun(build)) {
        struct zset_gone gone = *what;
        struct taken *taken = mem_zalloc(sizeof *taken);
        bool is_taken;
        resp_out_init(&taken->out, ctx->reply->buf.bytes_max);
        taken->out.proto = ctx->reply->proto;
        taken->pairs = pairs;
        gone.tell = taken_add;
        gone.arg = taken;
        gone.arg_free = taken_free;
        enum rc rc = zset_renew_begin(key, &gone, build, &is_taken, ctx->err);
        if (!is_taken)
            taken_free(taken);
        return rc;
    }
    void *taken;
    uint64_t count;
    enum rc rc = zset_renew_step(key, build, &count, &taken, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_out(ctx->reply, &((struct taken *)taken)->out);
    return pop_end(ctx, key, what->reverse);
}

/* Takes up to count elements and saves the key. Who may block has keys of his own to listen to, and
 * takes them at once. */
static enum rc pop(struct cmd_ctx *ctx, struct key *key, uint64_t count, bool highest, bool pairs)
{
    CLEANUP(zset_walk_done) struct zset_walk walk = {0};
    struct zset_item item;
    struct build *build = NULL;
    bool all = count >= key->meta.count;
    if (all)
        count = key->meta.count;
    if (2 * count >= ctx->run->kv->build_rows_min && !(ctx->cmd->flags & CMD_BLOCKING))
        build = cmd_build(ctx, 0);
    if (zset_renew_is_begun(build) || zset_renew_wanted(build, key, count)) {
        struct zset_gone gone = {.count = count, .reverse = highest};
        return pop_many(ctx, key, &gone, pairs, build);
    }
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_score(), highest, ctx->err);
    zset_walk_expect(&walk, count);
    for (uint64_t i = 0; i < count && rc == RC_OK; i++) {
        rc = all ? zset_walk_next(&walk, &item, ctx->err)
                 : zset_walk_take(&walk, key, &item, ctx->err);
        if (rc == RC_OK)
            item_add(ctx->reply, item, pairs);
    }
    if (rc == RC_NOT_FOUND)
        return err_set(ctx->err, RC_CORRUPT, "a sorted set has fewer rows than its count says");
    if (rc != RC_OK)
        return rc;
    if (all)
        key->meta.count = 0; /* the rows go with the key */
    return pop_end(ctx, key, highest);
}

static enum rc pop_key(struct cmd_ctx *ctx, bool highest)
{
    int64_t count = 1;
    struct key key;
    bool has_count = ctx->argc == 3;
    if (ctx->argc > 3)
        return cmd_syntax_error(ctx);
    enum rc rc = RC_OK;
    if (has_count)
        rc = cmd_int_range(ctx, 2, 0, INT64_MAX, "value is out of range, must be positive", &count);
    if (rc == RC_OK)
        rc = key_write(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists || count == 0) {
        resp_add_array(ctx->reply, 0);
        return RC_OK;
    }
    bool pairs = has_count && ctx->reply->proto >= 3;
    uint64_t taken = (uint64_t)count < key.meta.count ? (uint64_t)count : key.meta.count;
    resp_add_array(ctx->reply, pairs ? taken : 2 * taken);
    return pop(ctx, &key, taken, highest, pairs);
}

enum rc cmd_zpopmin(struct cmd_ctx *ctx)
{
    return pop_key(ctx, false);
}

enum rc cmd_zpopmax(struct cmd_ctx *ctx)
{
    return pop_key(ctx, true);
}

/* ---- the first of several keys ---- */

/* The first of the keys that is a sorted set. RC_NOT_FOUND: none is. */
static enum rc first_zset(struct cmd_ctx *ctx, const struct bytes *name, size_t count,
                          struct key *ret_key)
{
    struct bytes one;
    for (size_t i = 0; i <= count; i++) {
        if (!cmd_key_try(ctx, name, i, &one))
            continue;
        enum rc rc = key_write(ctx->run, one, TYPE_ZSET, ret_key, ctx->err);
        if (rc == RC_WRONGTYPE && cmd_has_waited(ctx))
            continue;
        if (rc == RC_COLD)
            key_want(ctx->run->ns, name, count);
        if (rc != RC_OK || ret_key->exists)
            return rc;
    }
    return RC_NOT_FOUND;
}

static enum rc pop_blocking(struct cmd_ctx *ctx, bool highest)
{
    const struct bytes *name = ctx->argv + 1;
    size_t count = ctx->argc - 2;
    uint64_t timeout_ms;
    struct key key;
    enum rc rc = cmd_timeout(ctx, ctx->argc - 1, &timeout_ms);
    if (rc == RC_OK)
        rc = first_zset(ctx, name, count, &key);
    if (rc == RC_NOT_FOUND)
        return cmd_block(ctx, &(struct cmd_blocking){name, count, KV_EVENT_ZSET, timeout_ms,
                                                     resp_add_null_array});
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, 3);
    resp_add_bulk(ctx->reply, key.name);
    return pop(ctx, &key, 1, highest, false);
}

enum rc cmd_bzpopmin(struct cmd_ctx *ctx)
{
    return pop_blocking(ctx, false);
}

enum rc cmd_bzpopmax(struct cmd_ctx *ctx)
{
    return pop_blocking(ctx, true);
}

/* ---- ZMPOP ---- */

struct zmpop {
    const struct bytes *name;
    size_t name_count;
    bool highest;
    int64_t count;
};

/* numkeys key ... MIN|MAX [COUNT count], from argument `arg` on. */
static enum rc zmpop_parse(struct cmd_ctx *ctx, size_t arg, struct zmpop *zmpop)
{
    int64_t name_count;
    enum rc rc =
        cmd_int_range(ctx, arg, 1, INT64_MAX, "numkeys should be greater than 0", &name_count);
    if (rc != RC_OK)
        return rc;
    if ((uint64_t)name_count >= ctx->argc - arg - 1)
        return cmd_syntax_error(ctx);
    size_t at = arg + 1 + (size_t)name_count;
    bool highest = cmd_arg_is(ctx->argv[at], "MAX");
    if (!highest && !cmd_arg_is(ctx->argv[at], "MIN"))
        return cmd_syntax_error(ctx);
    *zmpop = (struct zmpop){ctx->argv + arg + 1, (size_t)name_count, highest, 1};
    at++;
    if (at == ctx->argc)
        return RC_OK;
    if (at + 1 == ctx->argc || !cmd_arg_is(ctx->argv[at], "COUNT"))
        return cmd_syntax_error(ctx);
    rc = cmd_int_range(ctx, at + 1, 1, INT64_MAX, "count should be greater than 0", &zmpop->count);
    if (rc == RC_OK && at + 2 < ctx->argc)
        return cmd_syntax_error(ctx);
    return rc;
}

/* RC_NOT_FOUND: there is nothing to take. */
static enum rc zmpop_run(struct cmd_ctx *ctx, const struct zmpop *zmpop)
{
    struct key key;
    enum rc rc = first_zset(ctx, zmpop->name, zmpop->name_count, &key);
    if (rc != RC_OK)
        return rc;
    uint64_t count = (uint64_t)zmpop->count;
    if (count > key.meta.count)
        count = key.meta.count;
    resp_add_array(ctx->reply, 2);
    resp_add_bulk(ctx->reply, key.name);
    resp_add_array(ctx->reply, count);
    return pop(ctx, &key, count, zmpop->highest, true);
}

enum rc cmd_zmpop(struct cmd_ctx *ctx)
{
    struct zmpop zmpop;
    enum rc rc = zmpop_parse(ctx, 1, &zmpop);
    if (rc == RC_OK)
        rc = zmpop_run(ctx, &zmpop);
    if (rc != RC_NOT_FOUND)
        return rc;
    resp_add_null_array(ctx->reply);
    return RC_OK;
}

enum rc cmd_bzmpop(struct cmd_ctx *ctx)
{
    struct zmpop zmpop;
    uint64_t timeout_ms;
    enum rc rc = zmpop_parse(ctx, 2, &zmpop);
    if (rc == RC_OK)
        rc = cmd_timeout(ctx, 1, &timeout_ms);
    if (rc != RC_OK)
        return rc;
    rc = zmpop_run(ctx, &zmpop);
    if (rc != RC_NOT_FOUND)
        return rc;
    return cmd_block(ctx, &(struct cmd_blocking){zmpop.name, zmpop.name_count, KV_EVENT_ZSET,
                                                 timeout_ms, resp_add_null_array});
}

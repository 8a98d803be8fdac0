// SPDX-License-Identifier: Apache-2.0
/* cmd_zset.c - sorted sets: single members, random ones, scans. Ranges, pops and combinations have
 * files of their own. */
#include "server/cmd/cmd_zset.h"

#include "server/cmd/cmd_rows.h"
#include "types/glob.h"
#include "types/number.h"
#include "types/rows.h"
#include "types/scan.h"

#include "base/banned.h"

/* ---- shared ---- */

void cmd_zset__item(struct resp_out *reply, struct zset_item item, bool with_scores)
{
    if (with_scores && reply->proto >= 3)
        resp_add_array(reply, 2);
    resp_add_bulk(reply, item.member);
    if (with_scores)
        resp_add_double(reply, item.score);
}

size_t cmd_zset__len(const struct resp_out *reply, size_t count, bool with_scores)
{
    return with_scores && reply->proto < 3 ? 2 * count : count;
}

enum rc cmd_zset__store(struct cmd_ctx *ctx, size_t arg, struct zset_items *items,
                        const char *event)
{
    struct key key;
    enum rc rc = key_write(ctx->run, ctx->argv[arg], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_int(ctx->reply, (int64_t)items->count);
    if (items->count == 0) {
        if (!key.exists)
            return RC_OK;
        rc = key_remove(&key, ctx->err);
        key_changed(&key, KV_EVENT_GENERIC, "del");
        return rc;
    }
    rc = key_replace(&key, TYPE_ZSET, ctx->err);
    if (rc != RC_OK)
        return rc;
    key.meta.expire_ms = 0;
    rc = zset_fill(&key, items, ctx->err);
    if (rc != RC_OK)
        return rc;
    key_changed(&key, KV_EVENT_ZSET, event);
    return zset_save(&key, ctx->err);
}

enum rc cmd_zset__store_build(struct cmd_ctx *ctx, size_t arg, struct build *build,
                              const char *event)
{
    uint64_t count = build->key.meta.count;
    enum rc rc = build_store(build, ctx->run, ctx->argv[arg], KV_EVENT_ZSET, event, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

enum rc cmd_zset__piece(struct cmd_ctx *ctx, struct build *build, struct zset_items *items,
                        struct bytes at, bool ended)
{
    struct key key = build->key; /* what it counts is noted when the piece ends */
    enum rc rc = zset_fill(&key, items, ctx->err);
    return rc == RC_OK ? build_piece_end(build, items->count, at, ended, ctx->err) : rc;
}

/* ---- ZADD and ZINCRBY ---- */

struct zadd {
    unsigned flags;
    bool changed_counted;     /* CH */
    const struct bytes *pair; /* score, member, score, ... */
    size_t pair_count;
    double *score;
    int64_t added_count, updated_count;
    struct zset_change last;
};

static unsigned zadd_flag(struct bytes word)
{
    static const struct {
        const char *word;
        unsigned flag;
    } options[] = {
        {"NX", ZSET_NX}, {"XX", ZSET_XX}, {"INCR", ZSET_INCR}, {"GT", ZSET_GT}, {"LT", ZSET_LT}};
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (cmd_arg_is(word, options[i].word))
            return options[i].flag;
    return 0;
}

static enum rc zadd_check(struct cmd_ctx *ctx, const struct zadd *zadd, size_t arg_count)
{
    unsigned flags = zadd->flags;
    if (arg_count == 0 || arg_count % 2 != 0)
        return cmd_syntax_error(ctx);
    if ((flags & ZSET_NX) && (flags & ZSET_XX))
        return cmd_error(ctx, "XX and NX options at the same time are not compatible");
    if (((flags & ZSET_NX) && (flags & (ZSET_GT | ZSET_LT))) ||
        ((flags & ZSET_GT) && (flags & ZSET_LT)))
        return cmd_error(ctx, "GT, LT, and/or NX options at the same time are not compatible");
    if ((flags & ZSET_INCR) && arg_count > 2)
        return cmd_error(ctx, "INCR option supports a single increment-element pair");
    return RC_OK;
}

static enum rc zadd_parse(struct cmd_ctx *ctx, struct zadd *zadd)
{
    size_t at = 2;
    for (; at < ctx->argc; at++) {
        unsigned flag = zadd_flag(ctx->argv[at]);
        bool is_ch = flag == 0 && cmd_arg_is(ctx->argv[at], "CH");
        if (flag == 0 && !is_ch)
            break;
        zadd->flags |= flag;
        zadd->changed_counted = zadd->changed_counted || is_ch;
    }
    enum rc rc = zadd_check(ctx, zadd, ctx->argc - at);
    if (rc != RC_OK)
        return rc;
    zadd->pair = ctx->argv + at;
    zadd->pair_count = (ctx->argc - at) / 2;
    zadd->score = arena_try_alloc(ctx->run->arena, zadd->pair_count * sizeof *zadd->score);
    if (!zadd->score)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu scores",
                       zadd->pair_count);
    for (size_t i = 0; i < zadd->pair_count && rc == RC_OK; i++)
        rc = cmd_double(ctx, at + 2 * i, &zadd->score[i]);
    return rc;
}

static enum rc zadd_run(struct cmd_ctx *ctx, struct zadd *zadd, struct key *key)
{
    for (size_t i = 0; i < zadd->pair_count; i++) {
        struct zset_item item = {zadd->pair[2 * i + 1], zadd->score[i]};
        enum rc rc = zset_add(key, item, zadd->flags, &zadd->last, ctx->err);
        if (rc == RC_COLD)
            zset_want(key, &zadd->pair[2 * i + 1], zadd->pair_count - i, 2);
        if (rc != RC_OK)
            return rc;
        zadd->added_count += zadd->last.what == ZSET_ADDED;
        zadd->updated_count += zadd->last.what == ZSET_UPDATED;
    }
    if (zadd->added_count + zadd->updated_count == 0)
        return RC_OK;
    key_changed(key, KV_EVENT_ZSET, zadd->flags & ZSET_INCR ? "zincr" : "zadd");
    return zadd->added_count > 0 ? zset_save(key, ctx->err) : RC_OK;
}

static enum rc zadd_reply(struct cmd_ctx *ctx, const struct zadd *zadd)
{
    if (!(zadd->flags & ZSET_INCR))
        resp_add_int(ctx->reply,
                     zadd->added_count + (zadd->changed_counted ? zadd->updated_count : 0));
    else if (zadd->last.what == ZSET_SKIPPED)
        resp_add_null(ctx->reply);
    else
        resp_add_double(ctx->reply, zadd->last.score);
    return RC_OK;
}

static enum rc zadd_with(struct cmd_ctx *ctx, unsigned flags)
{
    struct zadd zadd = {.flags = flags, .last.what = ZSET_SKIPPED};
    struct key key;
    enum rc rc = zadd_parse(ctx, &zadd);
    if (rc == RC_OK)
        rc = key_write(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists) {
        if (zadd.flags & ZSET_XX)
            return zadd_reply(ctx, &zadd);
        rc = key_create(&key, TYPE_ZSET, ctx->err);
    }
    if (rc == RC_OK)
        rc = zadd_run(ctx, &zadd, &key);
    return rc == RC_OK ? zadd_reply(ctx, &zadd) : rc;
}

enum rc cmd_zadd(struct cmd_ctx *ctx)
{
    return zadd_with(ctx, 0);
}

enum rc cmd_zincrby(struct cmd_ctx *ctx)
{
    return zadd_with(ctx, ZSET_INCR);
}

/* ---- members ---- */

enum rc cmd_zrem(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t removed_count = 0;
    enum rc rc = key_write(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 2; i < ctx->argc && key.exists && key.meta.count > 0; i++) {
        rc = zset_remove(&key, ctx->argv[i], ctx->err);
        if (rc == RC_COLD)
            zset_want(&key, &ctx->argv[i], ctx->argc - i, 1);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        removed_count += rc == RC_OK;
    }
    resp_add_int(ctx->reply, removed_count);
    if (removed_count == 0)
        return RC_OK;
    key_changed(&key, KV_EVENT_ZSET, "zrem");
    return zset_save(&key, ctx->err);
}

enum rc cmd_zcard(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, key.exists ? (int64_t)key.meta.count : 0);
    return rc;
}

static enum rc score_reply(struct cmd_ctx *ctx, const struct key *key, struct bytes member)
{
    double score;
    enum rc rc = key->exists ? zset_score(key, member, &score, ctx->err) : RC_NOT_FOUND;
    if (rc == RC_OK)
        resp_add_double(ctx->reply, score);
    else if (rc == RC_NOT_FOUND)
        resp_add_null(ctx->reply);
    else
        return rc;
    return RC_OK;
}

enum rc cmd_zscore(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    return rc == RC_OK ? score_reply(ctx, &key, ctx->argv[2]) : rc;
}

enum rc cmd_zmscore(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_array(ctx->reply, ctx->argc - 2);
    for (size_t i = 2; i < ctx->argc && rc == RC_OK; i++) {
        rc = score_reply(ctx, &key, ctx->argv[i]);
        if (rc == RC_COLD)
            zset_want(&key, &ctx->argv[i], ctx->argc - i, 1);
    }
    return rc;
}

static enum rc rank_reply(struct cmd_ctx *ctx, bool reverse)
{
    struct key key;
    uint64_t rank;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    rc = key.exists ? zset_rank(&key, ctx->argv[2], reverse, &rank, ctx->err) : RC_NOT_FOUND;
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)rank);
    else if (rc == RC_NOT_FOUND)
        resp_add_null(ctx->reply);
    else
        return rc;
    return RC_OK;
}

enum rc cmd_zrank(struct cmd_ctx *ctx)
{
    return rank_reply(ctx, false);
}

enum rc cmd_zrevrank(struct cmd_ctx *ctx)
{
    return rank_reply(ctx, true);
}

/* ---- ZRANDMEMBER ---- */

static enum rc random_one(struct cmd_ctx *ctx, const struct key *key)
{
    struct bytes suffix, value;
    struct zset_item item;
    if (!key->exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    enum rc rc = rows_random(key, &suffix, &value, ctx->err);
    if (rc == RC_OK)
        rc = zset_item_of_row(suffix, value, &item, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, item.member);
    return rc;
}

/* The first rows of a sorted set, as many as it has members, are one for each of them. */
static enum rc random_some(struct cmd_ctx *ctx, const struct key *key, int64_t count,
                           bool with_scores)
{
    struct bytes suffix, value;
    struct zset_item item;
    if (!key->exists || count == 0) {
        resp_add_array(ctx->reply, 0);
        return RC_OK;
    }
    uint64_t row_count = cmd_rows_pick_count(key, count);
    resp_add_array(ctx->reply, cmd_zset__len(ctx->reply, row_count, with_scores));
    struct cmd_long *slow;
    enum rc rc = cmd_long_begin(ctx, build_input(0, key), row_count, &slow);
    if (rc != RC_OK)
        return rc;
    CLEANUP(rows_pick_done) struct rows_pick pick;
    rc = cmd_rows_pick_begin(ctx, key, count, &slow, &pick);
    while (rc == RC_OK && !ctx->reply->failed &&
           (rc = rows_pick_next(&pick, &suffix, &value, ctx->err)) == RC_OK) {
        rc = zset_item_of_row(suffix, value, &item, ctx->err);
        if (rc != RC_OK)
            return rc;
        cmd_zset__item(ctx->reply, item, with_scores);
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    return cmd_rows_pick_end(ctx, slow, &pick, rc);
}

enum rc cmd_zrandmember(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t count = 1;
    enum rc rc = ctx->argc > 2 ? cmd_rows_random_count(ctx, &count) : RC_OK;
    if (rc != RC_OK)
        return rc;
    if (ctx->argc > 4 || (ctx->argc == 4 && !cmd_arg_is(ctx->argv[3], "WITHSCORES")))
        return cmd_syntax_error(ctx);
    if (ctx->argc == 4 && (count < -INT64_MAX / 2 || count > INT64_MAX / 2))
        return cmd_error(ctx, "value is out of range");
    rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    return ctx->argc == 2 ? random_one(ctx, &key) : random_some(ctx, &key, count, ctx->argc == 4);
}

/* ---- ZSCAN ---- */

/* As text for RESP3 clients as well. What Redis keeps in a listpack it answers as integers where it
 * can, also where other commands write an exponent. */
static void zscan_score_add(struct resp_out *reply, double score, bool from_listpack)
{
    const double integer_max = (double)(INT64_MAX / 2);
    char text[NUMBER_DOUBLE_BYTES];
    if (from_listpack && score >= -integer_max && score <= integer_max &&
        score == (double)(int64_t)score) {
        resp_add_int_text(reply, (int64_t)score);
        return;
    }
    resp_add_bulk(reply, bytes_of(text, number_double_text(text, score)));
}

static void zscan_reply(struct cmd_ctx *ctx, uint64_t cursor, const struct zset_items *items,
                        bool from_listpack)
{
    resp_add_array(ctx->reply, 2);
    resp_add_int_text(ctx->reply, (int64_t)cursor);
    resp_add_array(ctx->reply, 2 * items->count);
    for (size_t i = 0; i < items->count; i++) {
        resp_add_bulk(ctx->reply, items->item[i].member);
        zscan_score_add(ctx->reply, items->item[i].score, from_listpack);
    }
}

static enum rc zscan_page(struct cmd_ctx *ctx, const struct cmd_scan *scan, const struct key *key,
                          struct zset_span span, bool whole)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_items items = {0};
    struct zset_item item = {0};
    struct bytes last = BYTES("");
    enum rc rc = zset_walk_init(&walk, key, span, false, ctx->err);
    zset_walk_expect(&walk, scan->count_max);
    for (uint64_t seen = 0; seen < scan->count_max && rc == RC_OK; seen++) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc != RC_OK)
            break;
        last = item.member;
        if (!scan->has_pattern || glob_match(scan->pattern, item.member, false))
            rc = zset_items_add(ctx->run, &items, item, ctx->err);
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    bool has_more = rc == RC_OK && zset_walk_next(&walk, &item, ctx->err) != RC_NOT_FOUND;
    zscan_reply(ctx, has_more ? scan_cursor_keep(ctx->run->kv, last) : 0, &items, whole);
    return RC_OK;
}

enum rc cmd_zscan(struct cmd_ctx *ctx)
{
    enum { COUNT_USUAL = 10 };
    struct cmd_scan scan = {.count_max = COUNT_USUAL};
    struct bytes position;
    struct key key;
    if (!scan_cursor_parse(ctx->argv[2], &scan.cursor))
        return cmd_error(ctx, "invalid cursor");
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists) { /* Redis looks at the options only if there is something to scan */
        zscan_reply(ctx, 0, &(struct zset_items){0}, false);
        return RC_OK;
    }
    rc = cmd_scan_options(ctx, &scan);
    if (rc != RC_OK)
        return rc;
    /* As Redis scans a listpack: all at once, in order of scores. */
    if (key.meta.count <= ctx->run->kv->encodings.zset_listpack_count) {
        scan.count_max = UINT64_MAX;
        return zscan_page(ctx, &scan, &key, zset_span_by_score(), true);
    }
    struct zset_span span = zset_span_by_member(); /* scores may change between two pages */
    if (scan.cursor != 0)
        rc = scan_cursor_find(ctx->run->kv, scan.cursor, &position, ctx->err);
    if (rc == RC_OK && scan.cursor != 0)
        rc = zset_span_after(ctx->run, position, &span, ctx->err);
    return rc == RC_OK ? zscan_page(ctx, &scan, &key, span, false) : rc;
}

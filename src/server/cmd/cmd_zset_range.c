/* cmd_zset_range.c - sorted sets: ranges by rank, score and member; read, counted, stored,
 * removed. */
#include "server/cmd/cmd_zset.h"

#include <math.h>
#include <stdlib.h>

#include "base/banned.h"

enum range_kind { RANGE_AUTO, RANGE_RANK, RANGE_SCORE, RANGE_LEX };

struct range {
    enum range_kind kind;
    bool reverse;
    bool with_scores;
    int64_t offset, limit; /* of LIMIT; limit < 0: all */
    union {
        struct {
            int64_t start, stop;
        } rank;
        struct zset_scores scores;
        struct zset_lex lex;
    } as;
};

/* ---- bounds ---- */

/* What strtod() takes, spaces before it, nothing at all and what overflows included. */
static enum rc score_bound(struct cmd_ctx *ctx, struct bytes text, double *ret_score,
                           bool *ret_open)
{
    *ret_open = text.len > 0 && text.ptr[0] == '(';
    text = bytes_from(text, *ret_open);
    char *copy = arena_try_alloc(&ctx->kv->arena, text.len + 1), *end;
    if (!copy)
        return err_set(ctx->err, RC_NOMEM, "could not allocate %zu bytes for a bound", text.len);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    *ret_score = strtod(copy, &end);
    if (*end != 0 || isnan(*ret_score))
        return cmd_error(ctx, "min or max is not a float");
    return RC_OK;
}

static enum rc scores_parse(struct cmd_ctx *ctx, size_t min, size_t max, struct zset_scores *scores)
{
    enum rc rc = score_bound(ctx, ctx->argv[min], &scores->min, &scores->min_open);
    if (rc == RC_OK)
        rc = score_bound(ctx, ctx->argv[max], &scores->max, &scores->max_open);
    return rc;
}

static bool lex_bound(struct bytes text, struct bytes *ret_member, enum zset_lex_kind *ret_kind)
{
    if (text.len == 0)
        return false;
    *ret_member = bytes_from(text, 1);
    switch (text.ptr[0]) {
    case '[':
        *ret_kind = ZSET_LEX_CLOSED;
        return true;
    case '(':
        *ret_kind = ZSET_LEX_OPEN;
        return true;
    case '-':
        *ret_kind = ZSET_LEX_FIRST;
        return text.len == 1;
    case '+':
        *ret_kind = ZSET_LEX_LAST;
        return text.len == 1;
    }
    return false;
}

static enum rc lex_parse(struct cmd_ctx *ctx, size_t min, size_t max, struct zset_lex *lex)
{
    if (!lex_bound(ctx->argv[min], &lex->min, &lex->min_kind) ||
        !lex_bound(ctx->argv[max], &lex->max, &lex->max_kind))
        return cmd_error(ctx, "min or max not valid string range item");
    return RC_OK;
}

/* The two arguments from `arg` on; reversed score and lex ranges name the upper end first. */
static enum rc bounds_parse(struct cmd_ctx *ctx, size_t arg, struct range *range)
{
    size_t min = arg + range->reverse, max = arg + !range->reverse;
    enum rc rc = RC_OK;
    switch (range->kind) {
    case RANGE_AUTO:
    case RANGE_RANK:
        rc = cmd_int(ctx, arg, &range->as.rank.start);
        if (rc == RC_OK)
            rc = cmd_int(ctx, arg + 1, &range->as.rank.stop);
        break;
    case RANGE_SCORE:
        rc = scores_parse(ctx, min, max, &range->as.scores);
        break;
    case RANGE_LEX:
        rc = lex_parse(ctx, min, max, &range->as.lex);
        break;
    }
    return rc;
}

/* Ranks from 0 on: false, if there are none in the range. */
static bool ranks_clamp(const struct range *range, uint64_t count, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    int64_t start = range->as.rank.start, stop = range->as.rank.stop, len = (int64_t)count;
    if (start < 0)
        start += len;
    if (stop < 0)
        stop += len;
    if (start < 0)
        start = 0;
    if (stop >= len)
        stop = len - 1;
    if (start > stop)
        return false;
    *ret_first = (uint64_t)start;
    *ret_count = (uint64_t)(stop - start) + 1;
    return true;
}

static enum rc range_span(const struct key *key, const struct range *range,
                          struct zset_span *ret_span, struct err *err)
{
    if (range->kind == RANGE_SCORE)
        return zset_span_scores(key->ns->kv, &range->as.scores, ret_span, err);
    return zset_span_lex(key, &range->as.lex, range->reverse, ret_span, err);
}

/* ---- reading ---- */

/* key min max [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES], the key being argument
 * `arg`. What the command has fixed is no option. */
static enum rc range_parse(struct cmd_ctx *ctx, size_t arg, bool store, struct range *range)
{
    bool kind_free = range->kind == RANGE_AUTO, reverse_free = kind_free;
    range->offset = 0;
    range->limit = -1;
    for (size_t i = arg + 3; i < ctx->argc; i++) {
        struct bytes word = ctx->argv[i];
        enum rc rc = RC_OK;
        if (!store && cmd_arg_is(word, "WITHSCORES")) {
            range->with_scores = true;
        } else if (cmd_arg_is(word, "LIMIT") && ctx->argc - i > 2) {
            rc = cmd_int(ctx, ++i, &range->offset);
            if (rc == RC_OK)
                rc = cmd_int(ctx, ++i, &range->limit);
        } else if (reverse_free && cmd_arg_is(word, "REV")) {
            range->reverse = true;
            reverse_free = false;
        } else if (kind_free && cmd_arg_is(word, "BYLEX")) {
            range->kind = RANGE_LEX;
            kind_free = false;
        } else if (kind_free && cmd_arg_is(word, "BYSCORE")) {
            range->kind = RANGE_SCORE;
            kind_free = false;
        } else {
            return cmd_syntax_error(ctx);
        }
        if (rc != RC_OK)
            return rc;
    }
    if (kind_free)
        range->kind = RANGE_RANK;
    if (range->limit != -1 && range->kind == RANGE_RANK)
        return cmd_error(ctx, "syntax error, LIMIT is only supported in combination with either "
                              "BYSCORE or BYLEX");
    if (range->with_scores && range->kind == RANGE_LEX)
        return cmd_error(ctx, "syntax error, WITHSCORES not supported in combination with BYLEX");
    return bounds_parse(ctx, arg + 1, range);
}

/* A walk from the range's first element on; *ret_count: no more than these. zset_walk_done() it
 * also after an error. */
static enum rc range_walk(struct cmd_ctx *ctx, const struct key *key, const struct range *range,
                          struct zset_walk *walk, uint64_t *ret_count)
{
    struct zset_span span = zset_span_by_score();
    enum rc span_rc = RC_OK;
    if (range->kind != RANGE_RANK)
        span_rc = range_span(key, range, &span, ctx->err);
    enum rc rc = zset_walk_init(walk, key, span, range->reverse, ctx->err);
    if (rc == RC_OK)
        rc = span_rc;
    if (rc != RC_OK)
        return rc;
    uint64_t first;
    *ret_count = 0;
    if (range->kind == RANGE_RANK)
        return ranks_clamp(range, key->meta.count, &first, ret_count)
                   ? zset_walk_rank(walk, first, ctx->err)
                   : RC_OK;
    if (range->offset < 0 || (uint64_t)range->offset >= key->meta.count)
        return RC_OK;
    *ret_count = range->limit < 0 ? UINT64_MAX : (uint64_t)range->limit;
    return zset_walk_skip(walk, (uint64_t)range->offset, ctx->err);
}

static enum rc range_reply(struct cmd_ctx *ctx, const struct key *key, const struct range *range)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_item item;
    size_t mark = resp_open(ctx->reply), count = 0;
    uint64_t count_max;
    enum rc rc = range_walk(ctx, key, range, &walk, &count_max);
    while (rc == RC_OK && count < count_max) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc != RC_OK)
            break;
        cmd_zset__item(ctx->reply, item, range->with_scores);
        count++;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    resp_close_array(ctx->reply, mark, cmd_zset__len(ctx->reply, count, range->with_scores));
    return RC_OK;
}

static enum rc range_run(struct cmd_ctx *ctx, enum range_kind kind, bool reverse)
{
    struct range range = {.kind = kind, .reverse = reverse};
    struct key key;
    enum rc rc = range_parse(ctx, 1, false, &range);
    if (rc == RC_OK)
        rc = key_read(ctx->ns, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (key.exists)
        return range_reply(ctx, &key, &range);
    resp_add_array(ctx->reply, 0);
    return RC_OK;
}

enum rc cmd_zrange(struct cmd_ctx *ctx)
{
    return range_run(ctx, RANGE_AUTO, false);
}

enum rc cmd_zrevrange(struct cmd_ctx *ctx)
{
    return range_run(ctx, RANGE_RANK, true);
}

enum rc cmd_zrangebyscore(struct cmd_ctx *ctx)
{
    return range_run(ctx, RANGE_SCORE, false);
}

enum rc cmd_zrevrangebyscore(struct cmd_ctx *ctx)
{
    return range_run(ctx, RANGE_SCORE, true);
}

enum rc cmd_zrangebylex(struct cmd_ctx *ctx)
{
    return range_run(ctx, RANGE_LEX, false);
}

enum rc cmd_zrevrangebylex(struct cmd_ctx *ctx)
{
    return range_run(ctx, RANGE_LEX, true);
}

/* ---- storing ---- */

static enum rc range_items(struct cmd_ctx *ctx, const struct key *key, const struct range *range,
                           struct zset_items *items)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_item item;
    uint64_t count_max;
    enum rc rc = range_walk(ctx, key, range, &walk, &count_max);
    while (rc == RC_OK && items->count < count_max) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc == RC_OK)
            rc = zset_items_add(ctx->kv, items, item, ctx->err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* No more elements than this. */
static uint64_t range_max(const struct range *range, const struct key *key)
{
    uint64_t first, count = 0;
    if (range->kind == RANGE_RANK)
        return ranks_clamp(range, key->meta.count, &first, &count) ? count : 0;
    if (range->limit < 0 || (uint64_t)range->limit > key->meta.count)
        return key->meta.count;
    return (uint64_t)range->limit;
}

/* From where the piece before ended. *ret_left: no more than these. */
static enum rc piece_walk(struct cmd_ctx *ctx, const struct key *key, const struct range *range,
                          const struct aside *aside, struct zset_walk *walk, uint64_t *ret_left)
{
    struct zset_span span = zset_span_by_score();
    enum rc span_rc = RC_OK;
    if (!aside->has_at)
        return range_walk(ctx, key, range, walk, ret_left);
    if (range->kind != RANGE_RANK)
        span_rc = range_span(key, range, &span, ctx->err);
    enum rc rc = zset_walk_init(walk, key, span, range->reverse, ctx->err);
    if (rc == RC_OK)
        rc = span_rc;
    *ret_left = aside->left;
    return rc == RC_OK ? zset_walk_resume(walk, buf_bytes(&aside->at), ctx->err) : rc;
}

static enum rc range_piece(struct cmd_ctx *ctx, const struct key *key, const struct range *range,
                           struct aside *aside)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_items items = {0};
    struct zset_item item;
    uint64_t left = 0;
    size_t bytes = 0;
    enum rc rc = piece_walk(ctx, key, range, aside, &walk, &left);
    while (rc == RC_OK && left > 0 && items.count < ASIDE_PIECE_ROWS / 2 &&
           bytes < ASIDE_PIECE_BYTES) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc != RC_OK)
            break;
        rc = zset_items_add(ctx->kv, &items, item, ctx->err);
        bytes += item.member.len;
        left--;
    }
    bool ended = rc == RC_NOT_FOUND || (rc == RC_OK && left == 0);
    if (ended || (rc == RC_COLD && items.count > 0))
        rc = RC_OK; /* the next piece begins with what is cold */
    if (rc != RC_OK)
        return rc;
    rc = cmd_zset__piece(ctx, aside, &items, zset_walk_at(&walk), ended);
    if (rc == RC_WAIT)
        aside->left = left;
    return rc;
}

/* Lexical ranges are not built aside: where scores differ every piece would search for its place.
 */
static enum rc range_aside(struct cmd_ctx *ctx, const struct key *key, const struct range *range,
                           struct aside *aside)
{
    enum rc rc = aside_step(aside, ctx->ns, TYPE_ZSET, aside_input(0, key), ctx->err);
    if (rc != RC_OK)
        return rc;
    if (aside->phase == ASIDE_FULL)
        return cmd_zset__store_aside(ctx, 1, aside, "zrangestore");
    return range_piece(ctx, key, range, aside);
}

enum rc cmd_zrangestore(struct cmd_ctx *ctx)
{
    struct range range = {.kind = RANGE_AUTO};
    struct zset_items items = {0};
    struct aside *aside = cmd_aside(ctx, 1);
    struct key key;
    enum rc rc = range_parse(ctx, 2, true, &range);
    if (rc == RC_OK)
        rc = key_read(ctx->ns, ctx->argv[2], TYPE_ZSET, &key, ctx->err);
    if (rc == RC_OK && key.exists && range.kind != RANGE_LEX &&
        aside_wanted(aside, ctx->ns, 2 * range_max(&range, &key)))
        return range_aside(ctx, &key, &range, aside);
    if (rc == RC_OK && key.exists)
        rc = range_items(ctx, &key, &range, &items);
    if (rc == RC_COLD)
        key_want(ctx->ns, &ctx->argv[1], 1);
    return rc == RC_OK ? cmd_zset__store(ctx, 1, &items, "zrangestore") : rc;
}

/* ---- counting and removing ---- */

static enum rc count_run(struct cmd_ctx *ctx, enum range_kind kind)
{
    struct range range = {.kind = kind};
    struct zset_span span;
    struct key key;
    uint64_t count = 0;
    enum rc rc = bounds_parse(ctx, 2, &range);
    if (rc == RC_OK)
        rc = key_read(ctx->ns, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc == RC_OK && key.exists) {
        rc = range_span(&key, &range, &span, ctx->err);
        if (rc == RC_OK)
            rc = zset_count(&key, span, &count, ctx->err);
    }
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

enum rc cmd_zcount(struct cmd_ctx *ctx)
{
    return count_run(ctx, RANGE_SCORE);
}

enum rc cmd_zlexcount(struct cmd_ctx *ctx)
{
    return count_run(ctx, RANGE_LEX);
}

static enum rc range_remove(struct key *key, const struct range *range, uint64_t *ret_count,
                            struct err *err)
{
    uint64_t first;
    struct zset_span span;
    *ret_count = 0;
    if (range->kind != RANGE_RANK) {
        enum rc rc = range_span(key, range, &span, err);
        return rc == RC_OK ? zset_remove_span(key, span, ret_count, err) : rc;
    }
    if (!ranks_clamp(range, key->meta.count, &first, ret_count))
        return RC_OK;
    return zset_remove_ranks(key, first, *ret_count, err);
}

static enum rc remove_run(struct cmd_ctx *ctx, enum range_kind kind, const char *event)
{
    struct range range = {.kind = kind};
    struct key key;
    uint64_t count = 0;
    enum rc rc = bounds_parse(ctx, 2, &range);
    if (rc == RC_OK)
        rc = key_write(ctx->ns, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc == RC_OK && key.exists)
        rc = range_remove(&key, &range, &count, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_int(ctx->reply, (int64_t)count);
    if (count == 0)
        return RC_OK;
    key_changed(&key, KV_EVENT_ZSET, event);
    return zset_save(&key, ctx->err);
}

enum rc cmd_zremrangebyrank(struct cmd_ctx *ctx)
{
    return remove_run(ctx, RANGE_RANK, "zremrangebyrank");
}

enum rc cmd_zremrangebyscore(struct cmd_ctx *ctx)
{
    return remove_run(ctx, RANGE_SCORE, "zremrangebyscore");
}

enum rc cmd_zremrangebylex(struct cmd_ctx *ctx)
{
    return remove_run(ctx, RANGE_LEX, "zremrangebylex");
}

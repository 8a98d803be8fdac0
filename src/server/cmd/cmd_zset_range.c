// SPDX-License-Identifier: Apache-2.0
/* cmd_zset_range.c - sorted sets: ranges by rank, score and member; read, counted, stored,
 * removed. */
#include "server/cmd/cmd_zset.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "types/rows.h"
#include "types/zset_renew.h"

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
    bool has_span; /* of a score or lex range: it is known */
    struct zset_span span;
};

/* ---- bounds ---- */

/* What strtod() takes, spaces before it, nothing at all and what overflows included. */
static enum rc score_bound(struct cmd_ctx *ctx, struct bytes text, double *ret_score,
                           bool *ret_open)
{
    *ret_open = text.len > 0 && text.ptr[0] == '(';
    text = bytes_from(text, *ret_open);
    char *copy = arena_try_alloc(ctx->run->arena, text.len + 1), *end;
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

static enum rc range_span(const struct key *key, struct range *range, struct zset_span *ret_span,
                          struct err *err)
{
    enum rc rc = RC_OK;
    if (!range->has_span && range->kind == RANGE_SCORE)
        rc = zset_span_scores(key->run, &range->as.scores, &range->span, err);
    else if (!range->has_span)
        rc = zset_span_lex(key, &range->as.lex, range->reverse, &range->span, err);
    range->has_span = rc == RC_OK;
    *ret_span = range->span;
    return rc;
}

/* Where the elements of a lex range begin and end, for the commits that follow: where scores differ
 * each of them would search from the start. */
struct kept_span {
    struct buf low, high;
};

static void kept_span_free(void *arg)
{
    struct kept_span *kept = arg;
    buf_done(&kept->low);
    buf_done(&kept->high);
    mem_free(kept);
}

static enum rc span_keep(const struct range *range, void **work, void (**work_free)(void *),
                         struct err *err)
{
    if (range->kind != RANGE_LEX || !range->has_span || *work)
        return RC_OK;
    struct kept_span *kept = mem_zalloc(sizeof *kept);
    buf_init(&kept->low, STORE_SUFFIX_BYTES_MAX + 1);
    buf_init(&kept->high, STORE_SUFFIX_BYTES_MAX + 1);
    if (!buf_add_bytes(&kept->low, range->span.low) ||
        !buf_add_bytes(&kept->high, range->span.high)) {
        kept_span_free(kept);
        return err_set(err, RC_NOMEM, "could not allocate memory for a range");
    }
    *work = kept;
    *work_free = kept_span_free;
    return RC_OK;
}

static void span_kept(struct range *range, const void *work)
{
    const struct kept_span *kept = work;
    if (!kept)
        return;
    range->span = (struct zset_span){buf_bytes(&kept->low), buf_bytes(&kept->high)};
    range->has_span = true;
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

/* No more elements than these; asks nothing of the store. */
static uint64_t range_count(const struct key *key, const struct range *range, uint64_t *ret_first)
{
    uint64_t count;
    *ret_first = 0;
    if (range->kind == RANGE_RANK)
        return ranks_clamp(range, key->meta.count, ret_first, &count) ? count : 0;
    if (range->offset < 0 || (uint64_t)range->offset >= key->meta.count)
        return 0;
    return range->limit < 0 ? UINT64_MAX : (uint64_t)range->limit;
}

/* once: it goes on in other commits. zset_walk_done() it also after an error. */
static enum rc range_open(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                          bool once, struct zset_walk *walk)
{
    struct zset_span span = zset_span_by_score();
    enum rc span_rc = RC_OK;
    if (range->kind != RANGE_RANK)
        span_rc = range_span(key, range, &span, ctx->err);
    enum rc rc = zset_walk_init(walk, key, span, range->reverse, ctx->err);
    if (rc == RC_OK)
        rc = span_rc;
    walk->rows.once = once;
    return rc;
}

/* A walk from the range's first element on, as range_open(). *ret_count: no more than these. */
static enum rc range_walk(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                          bool once, struct zset_walk *walk, uint64_t *ret_count)
{
    uint64_t first;
    enum rc rc = range_open(ctx, key, range, once, walk);
    if (rc != RC_OK)
        return rc;
    *ret_count = range_count(key, range, &first);
    if (*ret_count == 0)
        return RC_OK;
    if (range->kind != RANGE_RANK)
        return zset_walk_skip(walk, (uint64_t)range->offset, ctx->err);
    zset_walk_expect(walk, once ? first : first + *ret_count);
    return zset_walk_rank(walk, first, ctx->err);
}

/* A walk that goes on behind `at`, in another commit. */
static enum rc range_resume(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                            struct bytes at, struct zset_walk *walk)
{
    enum rc rc = range_open(ctx, key, range, true, walk);
    return rc == RC_OK ? zset_walk_resume(walk, at, ctx->err) : rc;
}

/* How many elements there may be: what is between two scores is not known before it is walked. */
static uint64_t range_likely(const struct key *key, const struct range *range, uint64_t count_max)
{
    bool known = range->kind == RANGE_RANK || count_max < key->meta.count;
    return known ? count_max : 0;
}

static enum rc range_reply(struct cmd_ctx *ctx, const struct key *key, struct range *range)
{
    CLEANUP(zset_walk_done) struct zset_walk walk = {0};
    struct zset_item item;
    size_t mark = resp_open(ctx->reply), count = 0;
    uint64_t first, count_max = range_count(key, range, &first);
    struct cmd_long *slow = NULL;
    bool slices = ctx->request && !ctx->in_exec && key->meta.count > ROWS_WHOLE_MAX;
    enum rc rc =
        cmd_long_begin(ctx, build_input(0, key), range_likely(key, range, count_max), &slow);
    if (rc == RC_OK && slow)
        span_kept(range, slow->work);
    if (rc == RC_OK && slow && slow->has_at) { /* else the rank would be sought in every slice */
        count = slow->done;
        rc = range_resume(ctx, key, range, buf_bytes(&slow->at), &walk);
    } else if (rc == RC_OK) {
        rc = range_walk(ctx, key, range, slices, &walk, &count_max);
    }
    while (rc == RC_OK && count < count_max && !ctx->reply->failed) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc != RC_OK)
            break;
        cmd_zset__item(ctx->reply, item, range->with_scores);
        count++;
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    if (rc == RC_OK || rc == RC_NOT_FOUND) {
        resp_close_array(ctx->reply, mark, cmd_zset__len(ctx->reply, count, range->with_scores));
        return RC_OK;
    }
    if (!slow || !ctx->request || count == 0)
        return rc;
    slow->done = count;
    enum rc keep_rc = span_keep(range, &slow->work, &slow->work_free, ctx->err);
    return keep_rc == RC_OK ? cmd_long_keep(ctx, slow, zset_walk_at(&walk), rc) : keep_rc;
}

static enum rc range_run(struct cmd_ctx *ctx, enum range_kind kind, bool reverse)
{
    struct range range = {.kind = kind, .reverse = reverse};
    struct key key;
    enum rc rc = range_parse(ctx, 1, false, &range);
    if (rc == RC_OK)
        rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
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

static enum rc range_items(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                           struct zset_items *items)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_item item;
    uint64_t count_max;
    enum rc rc = range_walk(ctx, key, range, false, &walk, &count_max);
    while (rc == RC_OK && items->count < count_max) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc == RC_OK)
            rc = zset_items_add(ctx->run, items, item, ctx->err);
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
static enum rc piece_walk(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                          const struct build *build, struct zset_walk *walk, uint64_t *ret_left)
{
    span_kept(range, build->work);
    if (!build->has_at)
        return range_walk(ctx, key, range, true, walk, ret_left);
    *ret_left = build->left;
    return range_resume(ctx, key, range, buf_bytes(&build->at), walk);
}

static enum rc range_piece(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                           struct build *build)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_items items = {0};
    struct zset_item item;
    uint64_t left = 0;
    size_t bytes = 0;
    enum rc rc = piece_walk(ctx, key, range, build, &walk, &left);
    while (rc == RC_OK && left > 0 && items.count < BUILD_PIECE_ROWS / 2 &&
           bytes < BUILD_PIECE_BYTES) {
        rc = zset_walk_next(&walk, &item, ctx->err);
        if (rc != RC_OK)
            break;
        rc = zset_items_add(ctx->run, &items, item, ctx->err);
        bytes += item.member.len;
        left--;
    }
    bool ended = rc == RC_NOT_FOUND || (rc == RC_OK && left == 0);
    if (ended || (rc == RC_COLD && items.count > 0))
        rc = RC_OK; /* the next piece begins with what is cold */
    if (rc != RC_OK)
        return rc;
    rc = span_keep(range, &build->work, &build->work_free, ctx->err);
    if (rc == RC_OK)
        rc = cmd_zset__piece(ctx, build, &items, zset_walk_at(&walk), ended);
    if (rc == RC_WAIT)
        build->left = left;
    return rc;
}

static enum rc range_build(struct cmd_ctx *ctx, const struct key *key, struct range *range,
                           struct build *build)
{
    enum rc rc = build_step(build, ctx->run, TYPE_ZSET, build_input(0, key), ctx->err);
    if (rc != RC_OK)
        return rc;
    if (build->phase == BUILD_FULL)
        return cmd_zset__store_build(ctx, 1, build, "zrangestore");
    return range_piece(ctx, key, range, build);
}

enum rc cmd_zrangestore(struct cmd_ctx *ctx)
{
    struct range range = {.kind = RANGE_AUTO};
    struct zset_items items = {0};
    struct build *build = cmd_build(ctx, 1);
    struct key key;
    enum rc rc = range_parse(ctx, 2, true, &range);
    if (rc == RC_OK)
        rc = key_read(ctx->run, ctx->argv[2], TYPE_ZSET, &key, ctx->err);
    if (rc == RC_OK && key.exists && build_wanted(build, ctx->run, 2 * range_max(&range, &key)))
        return range_build(ctx, &key, &range, build);
    if (rc == RC_OK && key.exists)
        rc = range_items(ctx, &key, &range, &items);
    if (rc == RC_COLD)
        key_want(ctx->run->ns, &ctx->argv[1], 1);
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
        rc = key_read(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
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

/* Which elements go, if they may be so many that nobody is to wait for them. RC_NOT_FOUND: they are
 * not. */
static enum rc gone_find(struct key *key, struct range *range, const struct build *build,
                         struct zset_gone *ret_gone, struct err *err)
{
    uint64_t first, count = key->meta.count;
    if (!zset_renew_wanted(build, key, count)) /* not even if all of them went */
        return RC_NOT_FOUND;
    *ret_gone = (struct zset_gone){0};
    if (range->kind == RANGE_RANK) {
        if (!ranks_clamp(range, count, &first, &ret_gone->count))
            return RC_NOT_FOUND;
        uint64_t behind = count - first - ret_gone->count;
        ret_gone->reverse = behind < first;
        ret_gone->skip = ret_gone->reverse ? behind : first;
    } else {
        ret_gone->has_span = true;
        enum rc rc = range_span(key, range, &ret_gone->span, err);
        if (rc == RC_OK)
            rc = zset_count(key, ret_gone->span, &ret_gone->count, err);
        if (rc != RC_OK)
            return rc;
    }
    bool all = ret_gone->count == count; /* that is one drop */
    return !all && zset_renew_wanted(build, key, ret_gone->count) ? RC_OK : RC_NOT_FOUND;
}

static enum rc range_remove(struct key *key, struct range *range, struct build *build,
                            uint64_t *ret_count, struct err *err)
{
    uint64_t first;
    struct zset_span span;
    struct zset_gone gone;
    void *told;
    bool is_taken;
    *ret_count = 0;
    if (zset_renew_is_begun(build))
        return zset_renew_step(key, build, ret_count, &told, err);
    enum rc rc = gone_find(key, range, build, &gone, err);
    if (rc == RC_OK)
        return zset_renew_begin(key, &gone, build, &is_taken, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    if (range->kind != RANGE_RANK) {
        rc = range_span(key, range, &span, err);
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
        rc = key_write(ctx->run, ctx->argv[1], TYPE_ZSET, &key, ctx->err);
    if (rc == RC_OK && key.exists) {
        bool is_large = 2 * key.meta.count >= ctx->run->kv->build_rows_min;
        struct build *build = is_large ? cmd_build(ctx, 0) : NULL;
        rc = range_remove(&key, &range, build, &count, ctx->err);
    }
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

// SPDX-License-Identifier: Apache-2.0
/* zset_range.c - spans of a sorted set by score, by member, by rank. */
#include "types/zset_int.h"

#include "base/codec.h"
#include "store/prefetch.h"
#include "types/rows.h"

#include "base/banned.h"

static const uint8_t first_bytes[] = {ZSET_MEMBER_ROWS, ZSET_SCORE_ROWS, ZSET_ROWS_END};

static struct bytes edge(uint8_t first_byte)
{
    return bytes_of(&first_bytes[first_byte], 1);
}

/* ---- spans ---- */

struct zset_span zset_span_by_score(void)
{
    return (struct zset_span){edge(ZSET_SCORE_ROWS), edge(ZSET_ROWS_END)};
}

struct zset_span zset_span_by_member(void)
{
    return (struct zset_span){edge(ZSET_MEMBER_ROWS), edge(ZSET_SCORE_ROWS)};
}

/* head ‖ member, and a zero byte behind it when `behind`: the first suffix after it. */
static enum rc bound(const struct run *run, struct bytes head, struct bytes member, bool behind,
                     struct bytes *ret_bound, struct err *err)
{
    size_t len = head.len + member.len + behind;
    uint8_t *ptr = arena_try_alloc(run->arena, len);
    if (!ptr)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a range", len);
    memcpy(ptr, head.ptr, head.len);
    if (member.len > 0)
        memcpy(ptr + head.len, member.ptr, member.len);
    if (behind)
        ptr[len - 1] = 0;
    *ret_bound = bytes_of(ptr, len);
    return RC_OK;
}

static void head_put(uint8_t head[ZSET_HEAD_BYTES], uint64_t code)
{
    head[0] = ZSET_SCORE_ROWS;
    be64_put(head + 1, code);
}

enum rc zset_span_after(const struct run *run, struct bytes member, struct zset_span *ret_span,
                        struct err *err)
{
    ret_span->high = edge(ZSET_SCORE_ROWS);
    return bound(run, edge(ZSET_MEMBER_ROWS), member, true, &ret_span->low, err);
}

/* The code after a score's is that of the next greater double: an open end is the closed one of its
 * neighbour. */
enum rc zset_span_scores(const struct run *run, const struct zset_scores *scores,
                         struct zset_span *ret_span, struct err *err)
{
    uint8_t head[ZSET_HEAD_BYTES];
    head_put(head, order_from_double(scores->min) + scores->min_open);
    enum rc rc = bound(run, bytes_of(head, sizeof head), BYTES(""), false, &ret_span->low, err);
    if (rc != RC_OK)
        return rc;
    head_put(head, order_from_double(scores->max) + !scores->max_open);
    return bound(run, bytes_of(head, sizeof head), BYTES(""), false, &ret_span->high, err);
}

static enum rc count_corrupt(struct err *err)
{
    return err_set(err, RC_CORRUPT, "a sorted set has other rows than its count says");
}

static enum rc end_item(const struct key *key, bool last, struct zset_item *ret_item,
                        struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_score(), last, err);
    if (rc == RC_OK)
        rc = zset_walk_next(&walk, ret_item, err);
    return rc == RC_NOT_FOUND ? count_corrupt(err) : rc;
}

/* ---- lex ranges ---- */

static bool is_below(const struct zset_lex *lex, struct bytes member)
{
    int order = bytes_cmp(member, lex->min);
    return lex->min_kind == ZSET_LEX_LAST || (lex->min_kind == ZSET_LEX_CLOSED && order < 0) ||
           (lex->min_kind == ZSET_LEX_OPEN && order <= 0);
}

static bool is_above(const struct zset_lex *lex, struct bytes member)
{
    int order = bytes_cmp(member, lex->max);
    return lex->max_kind == ZSET_LEX_FIRST || (lex->max_kind == ZSET_LEX_CLOSED && order > 0) ||
           (lex->max_kind == ZSET_LEX_OPEN && order >= 0);
}

/* All scores are equal. */
static enum rc lex_bounds(const struct run *run, const struct zset_lex *lex, double score,
                          struct zset_span *ret_span, struct err *err)
{
    uint8_t bytes[ZSET_HEAD_BYTES];
    struct bytes head = bytes_of(bytes, sizeof bytes);
    enum rc rc = RC_OK;
    head_put(bytes, order_from_double(score));
    ret_span->low = edge(lex->min_kind == ZSET_LEX_LAST ? ZSET_ROWS_END : ZSET_SCORE_ROWS);
    ret_span->high = edge(lex->max_kind == ZSET_LEX_FIRST ? ZSET_SCORE_ROWS : ZSET_ROWS_END);
    if (lex->min_kind <= ZSET_LEX_OPEN)
        rc = bound(run, head, lex->min, lex->min_kind == ZSET_LEX_OPEN, &ret_span->low, err);
    if (rc == RC_OK && lex->max_kind <= ZSET_LEX_OPEN)
        rc = bound(run, head, lex->max, lex->max_kind == ZSET_LEX_CLOSED, &ret_span->high, err);
    return rc;
}

/* Scores differ, and members are in no order: what Redis answers for a listpack, the elements from
 * the first that is not before the range up to the first that is behind it, seen from where the
 * command begins. */
static enum rc lex_search(const struct key *key, const struct zset_lex *lex, bool reverse,
                          struct zset_span *ret_span, struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_item item;
    bool inside = false;
    struct bytes *begin = reverse ? &ret_span->high : &ret_span->low;
    struct bytes *end = reverse ? &ret_span->low : &ret_span->high;
    *ret_span = (struct zset_span){edge(ZSET_SCORE_ROWS), edge(ZSET_SCORE_ROWS)};
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_score(), reverse, err);
    while (rc == RC_OK) {
        rc = zset_walk_next(&walk, &item, err);
        if (rc != RC_OK)
            break;
        bool below = is_below(lex, item.member), above = is_above(lex, item.member);
        struct bytes suffix = buf_bytes(&walk.rows.at);
        if (!inside && !(reverse ? above : below)) {
            if (reverse ? below : above)
                return RC_OK; /* none */
            inside = true;
            rc = bound(key->run, suffix, BYTES(""), reverse, begin, err);
        } else if (inside && (reverse ? below : above)) {
            return bound(key->run, suffix, BYTES(""), reverse, end, err);
        }
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    if (inside)
        *end = edge(reverse ? ZSET_SCORE_ROWS : ZSET_ROWS_END);
    return RC_OK;
}

enum rc zset_span_lex(const struct key *key, const struct zset_lex *lex, bool reverse,
                      struct zset_span *ret_span, struct err *err)
{
    struct zset_item first, last;
    enum rc first_rc = end_item(key, false, &first, err);
    enum rc rc = end_item(key, true, &last, err); /* both are asked for before RC_COLD */
    if (first_rc != RC_OK)
        return first_rc;
    if (rc != RC_OK)
        return rc;
    if (first.score == last.score)
        return lex_bounds(key->run, lex, first.score, ret_span, err);
    if (!is_below(lex, last.member) && !is_above(lex, first.member))
        return lex_search(key, lex, reverse, ret_span, err);
    *ret_span = (struct zset_span){edge(ZSET_SCORE_ROWS), edge(ZSET_SCORE_ROWS)};
    return RC_OK;
}

/* ---- walks ---- */

static bool is_complete(const struct key *key)
{
    return store_group_state(key->ns->kv->store, key_rows(key)).complete;
}

enum rc zset_walk_init(struct zset_walk *walk, const struct key *key, struct zset_span span,
                       bool reverse, struct err *err)
{
    walk->key = key;
    walk->span = span;
    walk->ended = false;
    store_walk_init(&walk->rows, key->ns->kv->store, key_rows(key), reverse);
    return store_walk_seek(&walk->rows, reverse ? span.high : span.low, err);
}

void zset_walk_done(struct zset_walk *walk)
{
    if (walk)
        store_walk_done(&walk->rows);
}

void zset_walk_expect(struct zset_walk *walk, uint64_t count)
{
    uint64_t max = walk->key->meta.count;
    walk->rows.row_count = count < max ? count : max;
}

enum rc zset_walk_next(struct zset_walk *walk, struct zset_item *ret_item, struct err *err)
{
    struct bytes suffix, value;
    if (walk->ended)
        return RC_NOT_FOUND;
    enum rc rc = store_walk_next(&walk->rows, &suffix, &value, err);
    /* A walk back may have begun at the row where the span ends. */
    if (rc == RC_OK && walk->rows.reverse && bytes_cmp(suffix, walk->span.high) >= 0)
        rc = store_walk_next(&walk->rows, &suffix, &value, err);
    if (rc != RC_OK)
        return rc;
    walk->ended = walk->rows.reverse ? bytes_cmp(suffix, walk->span.low) < 0
                                     : bytes_cmp(suffix, walk->span.high) >= 0;
    if (walk->ended)
        return RC_NOT_FOUND;
    return zset_item_of_row(suffix, value, ret_item, err);
}

struct bytes zset_walk_at(const struct zset_walk *walk)
{
    return buf_bytes(&walk->rows.at);
}

enum rc zset_walk_resume(struct zset_walk *walk, struct bytes at, struct err *err)
{
    return store_walk_seek_behind(&walk->rows, at, err);
}

/* Goes on with the row of this number. */
static enum rc walk_row(struct zset_walk *walk, uint64_t row, struct err *err)
{
    struct bytes suffix, value;
    enum rc rc =
        store_nth(walk->key->ns->kv->store, key_rows(walk->key), row, &suffix, &value, err);
    if (rc == RC_OK)
        return store_walk_seek(&walk->rows, suffix, err);
    walk->ended = true;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc walk_steps(struct zset_walk *walk, uint64_t count, struct err *err)
{
    struct zset_item item;
    enum rc rc = RC_OK;
    for (uint64_t i = 0; i < count && rc == RC_OK; i++)
        rc = zset_walk_next(walk, &item, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc zset_walk_skip(struct zset_walk *walk, uint64_t count, struct err *err)
{
    uint64_t rank;
    bool reverse = walk->rows.reverse;
    if (count == 0)
        return RC_OK;
    if (count <= ZSET_WALK_MAX && !is_complete(walk->key))
        return walk_steps(walk, count, err);
    enum rc rc = store_rank(walk->key->ns->kv->store, key_rows(walk->key),
                            reverse ? walk->span.high : walk->span.low, &rank, err);
    if (rc != RC_OK)
        return rc;
    if (reverse && rank <= count) {
        walk->ended = true;
        return RC_OK;
    }
    return walk_row(walk, reverse ? rank - 1 - count : rank + count, err);
}

/* The rank is nearer to where the walk ends: goes there from the other side. */
static enum rc walk_rank_from_end(struct zset_walk *walk, uint64_t rank_from_end, struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk other;
    struct zset_item item;
    enum rc rc = zset_walk_init(&other, walk->key, walk->span, !walk->rows.reverse, err);
    if (rc == RC_OK)
        rc = walk_steps(&other, rank_from_end, err);
    if (rc == RC_OK)
        rc = zset_walk_next(&other, &item, err);
    if (rc == RC_OK)
        rc = store_walk_seek(&walk->rows, buf_bytes(&other.rows.at), err);
    return rc == RC_NOT_FOUND ? count_corrupt(err) : rc;
}

enum rc zset_walk_rank(struct zset_walk *walk, uint64_t rank, struct err *err)
{
    uint64_t count = walk->key->meta.count;
    ASSERT(rank < count);
    if (rank == 0)
        return RC_OK;
    if (!is_complete(walk->key)) {
        if (rank <= ZSET_WALK_MAX)
            return walk_steps(walk, rank, err);
        if (count - 1 - rank <= ZSET_WALK_MAX)
            return walk_rank_from_end(walk, count - 1 - rank, err);
    }
    return walk_row(walk, walk->rows.reverse ? 2 * count - 1 - rank : count + rank, err);
}

enum rc zset_walk_take(struct zset_walk *walk, struct key *key, struct zset_item *ret_item,
                       struct err *err)
{
    struct zset_suffix suffix;
    struct zset_item item;
    enum rc rc = zset_walk_next(walk, &item, err);
    if (rc == RC_OK)
        rc = zset__suffix(key->ns->kv, item.member, &suffix, err);
    if (rc == RC_OK)
        rc = zset__rows_remove(key, suffix, item.score, err);
    if (rc != RC_OK)
        return rc;
    ret_item->member = bytes_of(suffix.ptr + ZSET_HEAD_BYTES, suffix.member_len);
    ret_item->score = item.score;
    return RC_OK;
}

size_t zset_peek_ends(struct ns *ns, struct store_group rows, bool highest,
                      struct bytes *ret_member, size_t max)
{
    struct zset_span span = zset_span_by_score();
    size_t found = store_peek_suffixes(ns->kv->store, rows, highest ? span.high : span.low, highest,
                                       ret_member, max);
    size_t count = 0;
    for (; count < found && ret_member[count].len >= ZSET_HEAD_BYTES &&
           ret_member[count].ptr[0] == ZSET_SCORE_ROWS;
         count++)
        ret_member[count] = bytes_from(ret_member[count], ZSET_HEAD_BYTES);
    return count;
}

/* ---- many at once ---- */

enum rc zset_count(const struct key *key, struct zset_span span, uint64_t *ret_count,
                   struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_item item;
    uint64_t count = 0;
    enum rc rc = zset_walk_init(&walk, key, span, false, err);
    if (rc == RC_OK && is_complete(key))
        return store_range_count(key->ns->kv->store, key_rows(key), span.low, true, span.high,
                                 ret_count, err);
    while (rc == RC_OK) {
        rc = zset_walk_next(&walk, &item, err);
        count += rc == RC_OK;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    *ret_count = count;
    return RC_OK;
}

static enum rc take_all(struct zset_walk *walk, struct key *key, uint64_t count, struct err *err)
{
    struct zset_item item;
    enum rc rc = RC_OK;
    for (uint64_t i = 0; i < count && rc == RC_OK; i++)
        rc = zset_walk_take(walk, key, &item, err);
    return rc == RC_NOT_FOUND ? count_corrupt(err) : rc;
}

enum rc zset_remove_span(struct key *key, struct zset_span span, uint64_t *ret_count,
                         struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    uint64_t count;
    enum rc rc = zset_walk_init(&walk, key, span, false, err);
    if (rc == RC_OK)
        rc = zset_count(key, span, &count, err); /* also loads what will be removed */
    if (rc != RC_OK)
        return rc;
    *ret_count = count;
    if (count < key->meta.count)
        return take_all(&walk, key, count, err);
    key->meta.count = 0;
    return RC_OK;
}

enum rc zset_remove_ranks(struct key *key, uint64_t rank, uint64_t count, struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_score(), false, err);
    if (rc != RC_OK)
        return rc;
    if (count == key->meta.count) {
        key->meta.count = 0;
        return RC_OK;
    }
    zset_walk_expect(&walk, rank + count);
    rc = zset_walk_rank(&walk, rank, err);
    if (rc == RC_OK)
        rc = take_all(&walk, key, count, err);
    return rc;
}

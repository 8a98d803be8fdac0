// SPDX-License-Identifier: Apache-2.0
#include "types/zset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/kv_fix.h"
#include "test.h"

#include "base/banned.h"

/* ---- one command each ---- */

struct call {
    const char *name;
    struct zset_item item;
    unsigned flags;
    bool reverse;
    struct zset_span span;
    const struct zset_scores *scores; /* instead of a span */
    const struct zset_lex *lex;       /* instead of a span */
    uint64_t rank, count;
    /* what came out */
    struct zset_change change;
    uint64_t number;
    char text[4096]; /* "member:score ..." */
    const char *encoding;
};

static enum rc call_find(struct kv_fix *fix, struct call *call, struct key *ret_key)
{
    enum rc rc = key_write(&fix->run, bytes_of(call->name, strlen(call->name)), TYPE_ZSET, ret_key,
                           &fix->err);
    if (rc == RC_OK && !ret_key->exists)
        return RC_NOT_FOUND;
    return rc;
}

static enum rc add_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_NOT_FOUND)
        rc = key_create(&key, TYPE_ZSET, &fix->err);
    if (rc == RC_OK)
        rc = zset_add(&key, call->item, call->flags, &call->change, &fix->err);
    if (rc == RC_OK)
        rc = zset_save(&key, &fix->err);
    return rc;
}

static enum rc score_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_score(&key, call->item.member, &call->item.score, &fix->err);
    return rc;
}

static enum rc rank_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_rank(&key, call->item.member, call->reverse, &call->number, &fix->err);
    return rc;
}

static enum rc remove_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_remove(&key, call->item.member, &fix->err);
    if (rc == RC_OK)
        rc = zset_save(&key, &fix->err);
    return rc;
}

static enum rc call_span(struct kv_fix *fix, struct call *call, const struct key *key)
{
    if (call->scores)
        return zset_span_scores(&fix->run, call->scores, &call->span, &fix->err);
    if (call->lex)
        return zset_span_lex(key, call->lex, call->reverse, &call->span, &fix->err);
    if (!call->span.low.ptr)
        call->span = zset_span_by_score();
    return RC_OK;
}

static void call_write(struct call *call, struct zset_item item)
{
    size_t len = strlen(call->text);
    snprintf(call->text + len, sizeof call->text - len, "%s%.*s:%.17g", len ? " " : "",
             (int)item.member.len, (const char *)item.member.ptr, item.score);
}

/* Skips `rank`, writes `count`. */
static enum rc range_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    struct zset_walk walk;
    struct zset_item item;
    call->text[0] = 0;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = call_span(fix, call, &key);
    if (rc != RC_OK)
        return rc;
    rc = zset_walk_init(&walk, &key, call->span, call->reverse, &fix->err);
    if (rc == RC_OK)
        rc = zset_walk_skip(&walk, call->rank, &fix->err);
    for (uint64_t i = 0; i < call->count && rc == RC_OK; i++) {
        rc = zset_walk_next(&walk, &item, &fix->err);
        if (rc == RC_OK)
            call_write(call, item);
    }
    zset_walk_done(&walk);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc ranks_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    struct zset_walk walk;
    struct zset_item item;
    call->text[0] = 0;
    enum rc rc = call_find(fix, call, &key);
    if (rc != RC_OK)
        return rc;
    rc = zset_walk_init(&walk, &key, zset_span_by_score(), call->reverse, &fix->err);
    if (rc == RC_OK)
        rc = zset_walk_rank(&walk, call->rank, &fix->err);
    for (uint64_t i = 0; i < call->count && rc == RC_OK; i++) {
        rc = zset_walk_next(&walk, &item, &fix->err);
        if (rc == RC_OK)
            call_write(call, item);
    }
    zset_walk_done(&walk);
    return rc;
}

static enum rc count_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = call_span(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_count(&key, call->span, &call->number, &fix->err);
    return rc;
}

static enum rc remove_span_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = call_span(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_remove_span(&key, call->span, &call->number, &fix->err);
    if (rc == RC_OK)
        rc = zset_save(&key, &fix->err);
    return rc;
}

static enum rc remove_ranks_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_remove_ranks(&key, call->rank, call->count, &fix->err);
    if (rc == RC_OK)
        rc = zset_save(&key, &fix->err);
    return rc;
}

static enum rc take_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    struct zset_walk walk;
    struct zset_item item;
    call->text[0] = 0;
    enum rc rc = call_find(fix, call, &key);
    if (rc != RC_OK)
        return rc;
    rc = zset_walk_init(&walk, &key, zset_span_by_score(), call->reverse, &fix->err);
    for (uint64_t i = 0; i < call->count && key.meta.count > 0 && rc == RC_OK; i++) {
        rc = zset_walk_take(&walk, &key, &item, &fix->err);
        if (rc == RC_OK)
            call_write(call, item);
    }
    zset_walk_done(&walk);
    if (rc == RC_OK)
        rc = zset_save(&key, &fix->err);
    return rc;
}

static enum rc encoding_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = call_find(fix, call, &key);
    if (rc == RC_OK)
        rc = zset_encoding(&key, &call->encoding, &fix->err);
    return rc;
}

/* ---- shorter ---- */

static struct bytes text_bytes(const char *text)
{
    return bytes_of(text, strlen(text));
}

static struct zset_change add(struct kv_fix *fix, const char *member, double score, unsigned flags)
{
    struct call call = {.name = "z", .item = {text_bytes(member), score}, .flags = flags};
    ASSERT_OK(kv_fix_run(fix, add_body, &call), &fix->err);
    return call.change;
}

static const char *range(struct kv_fix *fix, struct call *call)
{
    call->name = "z";
    if (call->count == 0)
        call->count = UINT64_MAX;
    enum rc rc = kv_fix_run(fix, range_body, call);
    if (rc == RC_NOT_FOUND)
        return "(none)";
    ASSERT_OK(rc, &fix->err);
    return call->text;
}

static const char *all(struct kv_fix *fix, struct call *call)
{
    *call = (struct call){0};
    return range(fix, call);
}

static uint64_t count_scores(struct kv_fix *fix, struct zset_scores scores)
{
    struct call call = {.name = "z", .scores = &scores};
    ASSERT_OK(kv_fix_run(fix, count_body, &call), &fix->err);
    return call.number;
}

static void add_many(struct kv_fix *fix, int count)
{
    for (int i = 0; i < count; i++) {
        char member[16];
        snprintf(member, sizeof member, "m%05d", i);
        add(fix, member, i, 0);
    }
}

/* ---- claims ---- */

TEST(members_are_in_order_of_score_then_of_bytes)
{
    struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    add(&fix, "b", 1, 0);
    add(&fix, "a", 1, 0);
    add(&fix, "c", -2.5, 0);
    add(&fix, "", 1, 0);
    add(&fix, "d", INFINITY, 0);
    ASSERT_STR(all(&fix, &call), "c:-2.5 :1 a:1 b:1 d:inf");
    call = (struct call){.reverse = true};
    ASSERT_STR(range(&fix, &call), "d:inf b:1 a:1 :1 c:-2.5");
    call = (struct call){.span = zset_span_by_member()};
    ASSERT_STR(range(&fix, &call), ":1 a:1 b:1 c:-2.5 d:inf");
    kv_fix_done(&fix);
}

TEST(adding_says_what_it_did)
{
    struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    ASSERT_EQ(add(&fix, "a", 1, 0).what, ZSET_ADDED);
    ASSERT_EQ(add(&fix, "a", 1, 0).what, ZSET_SAME);
    ASSERT_EQ(add(&fix, "a", 2, 0).what, ZSET_UPDATED);
    ASSERT_EQ(add(&fix, "a", 3, ZSET_NX).what, ZSET_SKIPPED);
    ASSERT_EQ(add(&fix, "b", 3, ZSET_XX).what, ZSET_SKIPPED);
    ASSERT_EQ(add(&fix, "a", 1, ZSET_GT).what, ZSET_SKIPPED);
    ASSERT_EQ(add(&fix, "a", 5, ZSET_GT).what, ZSET_UPDATED);
    ASSERT_EQ(add(&fix, "a", 6, ZSET_LT).what, ZSET_SKIPPED);
    ASSERT_EQ(add(&fix, "a", 4, ZSET_LT | ZSET_XX).what, ZSET_UPDATED);
    ASSERT_TRUE(add(&fix, "a", -1.5, ZSET_INCR).score == 2.5);
    ASSERT_TRUE(add(&fix, "new", 7, ZSET_INCR).score == 7);
    ASSERT_STR(all(&fix, &call), "a:2.5 new:7");
    kv_fix_done(&fix);
}

TEST(a_sum_that_is_no_number_is_refused)
{
    struct kv_fix fix;
    struct call call = {.name = "z", .item = {BYTES("a"), -INFINITY}, .flags = ZSET_INCR};
    kv_fix_init(&fix);
    add(&fix, "a", INFINITY, 0);
    ASSERT_RC(kv_fix_run(&fix, add_body, &call), RC_INVALID);
    ASSERT_STR(fix.err.text, "resulting score is not a number (NaN)");
    ASSERT_STR(all(&fix, &call), "a:inf");
    kv_fix_done(&fix);
}

TEST(minus_zero_is_zero)
{
    struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    add(&fix, "b", -0.0, 0);
    add(&fix, "a", 0, 0);
    ASSERT_STR(all(&fix, &call), "a:0 b:0");
    call = (struct call){.name = "z", .item = {BYTES("b"), 1}};
    ASSERT_OK(kv_fix_run(&fix, score_body, &call), &fix.err);
    ASSERT_FALSE(signbit(call.item.score));
    kv_fix_done(&fix);
}

TEST(the_last_member_takes_the_key_along)
{
    struct kv_fix fix;
    struct call call = {.name = "z", .item = {BYTES("a"), 0}};
    kv_fix_init(&fix);
    add(&fix, "a", 1, 0);
    ASSERT_RC(kv_fix_run(&fix, remove_body, &call), RC_OK);
    ASSERT_RC(kv_fix_run(&fix, score_body, &call), RC_NOT_FOUND);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    add(&fix, "b", 2, 0);
    ASSERT_STR(all(&fix, &call), "b:2");
    kv_fix_done(&fix);
}

TEST(score_ranges_are_open_or_closed_at_each_end)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    for (int i = 1; i <= 4; i++)
        add(&fix, &"1\0002\0003\0004"[2 * (i - 1)], i, 0);
    add(&fix, "", 3, 0); /* the empty member stands first among its score's */
    for (int cold = 0; cold < 2; cold++) {
        struct zset_scores closed = {2, 3, false, false}, open = {2, 3, true, true};
        struct zset_scores low = {2, 3, false, true}, none = {3, 2, false, false};
        struct call call = {.scores = &closed};
        if (cold)
            kv_fix_freeze_out(&fix);
        ASSERT_STR(range(&fix, &call), "2:2 :3 3:3");
        call = (struct call){.scores = &low, .reverse = true};
        ASSERT_STR(range(&fix, &call), "2:2");
        call = (struct call){.scores = &open};
        ASSERT_STR(range(&fix, &call), "");
        call = (struct call){.scores = &none, .reverse = true};
        ASSERT_STR(range(&fix, &call), "");
        ASSERT_EQ(count_scores(&fix, closed), 3);
        ASSERT_EQ(count_scores(&fix, open), 0);
        ASSERT_EQ(count_scores(&fix, none), 0);
        ASSERT_EQ(count_scores(&fix, (struct zset_scores){-INFINITY, INFINITY, 0, 0}), 5);
    }
    kv_fix_done(&fix);
}

TEST(lex_ranges_are_open_or_closed_or_without_end)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    add(&fix, "a", 0, 0);
    add(&fix, "b", 0, 0);
    add(&fix, "ba", 0, 0);
    add(&fix, "c", 0, 0);
    struct zset_lex lex = {BYTES("b"), BYTES("c"), ZSET_LEX_CLOSED, ZSET_LEX_OPEN};
    struct call call = {.lex = &lex};
    ASSERT_STR(range(&fix, &call), "b:0 ba:0");
    lex = (struct zset_lex){BYTES("b"), BYTES("c"), ZSET_LEX_OPEN, ZSET_LEX_CLOSED};
    call = (struct call){.lex = &lex, .reverse = true};
    ASSERT_STR(range(&fix, &call), "c:0 ba:0");
    lex = (struct zset_lex){.min_kind = ZSET_LEX_FIRST, .max_kind = ZSET_LEX_LAST};
    call = (struct call){.lex = &lex};
    ASSERT_STR(range(&fix, &call), "a:0 b:0 ba:0 c:0");
    lex = (struct zset_lex){.min_kind = ZSET_LEX_LAST, .max_kind = ZSET_LEX_FIRST};
    call = (struct call){.lex = &lex};
    ASSERT_STR(range(&fix, &call), "");
    lex = (struct zset_lex){BYTES("a"), BYTES("b"), ZSET_LEX_CLOSED, ZSET_LEX_CLOSED};
    call = (struct call){.name = "z", .lex = &lex};
    ASSERT_OK(kv_fix_run(&fix, remove_span_body, &call), &fix.err);
    ASSERT_EQ(call.number, 2);
    ASSERT_STR(all(&fix, &call), "ba:0 c:0");
    kv_fix_done(&fix);
}

TEST(a_lex_range_over_different_scores_ends_at_the_first_member_outside)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    add(&fix, "a", 0, 0);
    add(&fix, "c", 1, 0);
    add(&fix, "b", 2, 0);
    add(&fix, "d", 3, 0);
    struct zset_lex lex = {BYTES("a"), BYTES("b"), ZSET_LEX_CLOSED, ZSET_LEX_CLOSED};
    struct call call = {.lex = &lex};
    ASSERT_STR(range(&fix, &call), "a:0");
    call = (struct call){.lex = &lex, .reverse = true};
    ASSERT_STR(range(&fix, &call), "b:2 c:1 a:0"); /* only the lower end is looked at */
    lex = (struct zset_lex){.min_kind = ZSET_LEX_FIRST, .max_kind = ZSET_LEX_LAST};
    call = (struct call){.lex = &lex};
    ASSERT_STR(range(&fix, &call), "a:0 c:1 b:2 d:3");
    lex = (struct zset_lex){BYTES("e"), BYTES("f"), ZSET_LEX_CLOSED, ZSET_LEX_CLOSED};
    call = (struct call){.lex = &lex};
    ASSERT_STR(range(&fix, &call), "");
    kv_fix_done(&fix);
}

TEST(removing_every_rank_removes_the_key)
{
    struct kv_fix fix;
    struct call call = {.name = "z", .rank = 0, .count = 5};
    kv_fix_init(&fix);
    add_many(&fix, 5);
    kv_fix_freeze_out(&fix);
    ASSERT_OK(kv_fix_run(&fix, remove_ranks_body, &call), &fix.err);
    ASSERT_STR(all(&fix, &call), "(none)");
    kv_fix_reopen(&fix);
    ASSERT_STR(all(&fix, &call), "(none)");
    kv_fix_done(&fix);
}

TEST(an_expired_key_gives_its_name_to_a_new_set)
{
    struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    add(&fix, "old", 1, 0);
    store_begin(fix.store, 0);
    struct key key;
    ASSERT_OK(key_write(kv_fix_now(&fix), BYTES("z"), TYPE_ZSET, &key, &fix.err), &fix.err);
    key.meta.expire_ms = fix.run.now_ms + 10;
    ASSERT_OK(zset_save(&key, &fix.err), &fix.err);
    store_commit(fix.store);
    ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
    clock_advance_ms(&fix.clock, 10);
    ASSERT_STR(all(&fix, &call), "(none)");
    add(&fix, "new", 2, 0);
    ASSERT_STR(all(&fix, &call), "new:2");
    kv_fix_done(&fix);
}

TEST(the_encoding_is_that_of_redis)
{
    struct kv_fix fix;
    struct call call = {.name = "z"};
    char member[66];
    kv_fix_init(&fix);
    add_many(&fix, 127);
    memset(member, 'x', sizeof member);
    member[64] = 0;
    add(&fix, member, 0, 0);
    ASSERT_OK(kv_fix_run(&fix, encoding_body, &call), &fix.err);
    ASSERT_STR(call.encoding, "listpack");
    add(&fix, "one more", 0, 0);
    ASSERT_OK(kv_fix_run(&fix, encoding_body, &call), &fix.err);
    ASSERT_STR(call.encoding, "skiplist");
    call.item.member = BYTES("one more");
    ASSERT_OK(kv_fix_run(&fix, remove_body, &call), &fix.err);
    call.item.member = text_bytes(member);
    ASSERT_OK(kv_fix_run(&fix, remove_body, &call), &fix.err);
    member[64] = 'x';
    member[65] = 0;
    add(&fix, member, 0, 0);
    ASSERT_OK(kv_fix_run(&fix, encoding_body, &call), &fix.err);
    ASSERT_STR(call.encoding, "skiplist");
    kv_fix_done(&fix);
}

enum { LARGE = 40000 };

static enum rc fill_body(struct kv_fix *fix, void *arg)
{
    struct zset_items items = {0};
    struct key key;
    (void)arg;
    enum rc rc = key_write(&fix->run, BYTES("z"), TYPE_ZSET, &key, &fix->err);
    if (rc == RC_OK)
        rc = key_replace(&key, TYPE_ZSET, &fix->err);
    for (int i = 0; i < LARGE && rc == RC_OK; i++) {
        char member[16];
        int number = (i * 7919) % LARGE; /* in no order */
        snprintf(member, sizeof member, "m%05d", number);
        rc = zset_items_add(&fix->run, &items, (struct zset_item){text_bytes(member), number},
                            &fix->err);
    }
    if (rc == RC_OK)
        rc = zset_fill(&key, &items, &fix->err);
    if (rc == RC_OK)
        rc = zset_save(&key, &fix->err);
    return rc;
}

static const char *ranks(struct kv_fix *fix, uint64_t rank, bool reverse, struct call *call)
{
    *call = (struct call){.name = "z", .rank = rank, .count = 1, .reverse = reverse};
    ASSERT_OK(kv_fix_run(fix, ranks_body, call), &fix->err);
    return call->text;
}

TEST(short_walks_do_not_load_a_whole_set)
{
    struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    ASSERT_OK(kv_fix_run(&fix, fill_body, NULL), &fix.err);
    kv_fix_freeze_out(&fix);
    call = (struct call){.count = 2};
    ASSERT_STR(range(&fix, &call), "m00000:0 m00001:1");
    call = (struct call){.count = 2, .reverse = true};
    ASSERT_STR(range(&fix, &call), "m39999:39999 m39998:39998");
    ASSERT_STR(ranks(&fix, LARGE - 3, false, &call), "m39997:39997");
    ASSERT_STR(ranks(&fix, LARGE - 3, true, &call), "m00002:2");
    ASSERT_STR(ranks(&fix, 300, false, &call), "m00300:300");
    struct zset_scores scores = {20000, INFINITY, true, false};
    call = (struct call){.scores = &scores, .count = 1, .rank = 10};
    ASSERT_STR(range(&fix, &call), "m20011:20011");
    call = (struct call){.name = "z", .count = 1};
    ASSERT_OK(kv_fix_run(&fix, take_body, &call), &fix.err);
    ASSERT_STR(call.text, "m00000:0");
    struct store_stats stats;
    store_stats(fix.store, &stats);
    ASSERT_LT(stats.load_row_count, 2500);                        /* of 80000 */
    ASSERT_STR(ranks(&fix, 19999, false, &call), "m20000:20000"); /* this one needs all */
    store_stats(fix.store, &stats);
    ASSERT_GT(stats.load_row_count, 70000);
    kv_fix_done(&fix);
}

TEST(a_long_walk_loads_in_few_steps)
{
    struct kv_fix fix;
    struct call call = {.name = "z"};
    kv_fix_init(&fix);
    ASSERT_OK(kv_fix_run(&fix, fill_body, NULL), &fix.err);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    ASSERT_EQ(count_scores(&fix, (struct zset_scores){-INFINITY, INFINITY, 0, 0}), LARGE);
    ASSERT_LT(fix.cold_count, ZSET_WALK_MAX / 256 + 2 * LARGE / 8192 + 4);
    call.item.member = BYTES("m01234");
    ASSERT_OK(kv_fix_run(&fix, rank_body, &call), &fix.err);
    ASSERT_EQ(call.number, 1234);
    kv_fix_done(&fix);
}

/* ---- against a model ---- */

enum { MODEL_MEMBERS = 60 };

struct model {
    struct kv_fix fix;
    struct rand rand;
    bool has[MODEL_MEMBERS];
    double score[MODEL_MEMBERS];
    int sorted[MODEL_MEMBERS];
    int count;
};

static const char *model_member(int index, char to[8])
{
    snprintf(to, 8, "%02d", index);
    return to;
}

static void model_sort(struct model *model)
{
    model->count = 0;
    for (int i = 0; i < MODEL_MEMBERS; i++) {
        if (!model->has[i])
            continue;
        int at = model->count++;
        for (; at > 0 && model->score[model->sorted[at - 1]] > model->score[i]; at--)
            model->sorted[at] = model->sorted[at - 1];
        model->sorted[at] = i;
    }
}

/* Elements [from, from + count) of the model as text. */
static const char *model_text(const struct model *model, int from, int count, bool reverse,
                              struct call *to)
{
    char member[8];
    to->text[0] = 0;
    for (int i = from; i < from + count && i < model->count; i++) {
        int index = model->sorted[reverse ? model->count - 1 - i : i];
        call_write(
            to, (struct zset_item){text_bytes(model_member(index, member)), model->score[index]});
    }
    return to->text;
}

static void model_remove(struct model *model, int rank, int count)
{
    for (int i = rank; i < rank + count; i++)
        model->has[model->sorted[i]] = false;
    model_sort(model);
}

static void model_change(struct model *model)
{
    struct rand *rand = &model->rand;
    char member[8];
    struct call call = {.name = "z"}, expected;
    int index = (int)rand_below(rand, MODEL_MEMBERS);
    switch (rand_below(rand, model->count > 0 ? 7 : 1)) {
    default:
        model->score[index] = (double)rand_below(rand, 8) / 4 - 1;
        model->has[index] = true;
        add(&model->fix, model_member(index, member), model->score[index], 0);
        break;
    case 4:
        call.item.member = text_bytes(model_member(index, member));
        ASSERT_RC(kv_fix_run(&model->fix, remove_body, &call),
                  model->has[index] ? RC_OK : RC_NOT_FOUND);
        model->has[index] = false;
        break;
    case 5:
        call.count = 1 + rand_below(rand, 3);
        call.reverse = rand_below(rand, 2);
        ASSERT_OK(kv_fix_run(&model->fix, take_body, &call), &model->fix.err);
        ASSERT_STR(call.text, model_text(model, 0, (int)call.count, call.reverse, &expected));
        if ((int)call.count > model->count)
            call.count = (uint64_t)model->count;
        model_remove(model, call.reverse ? model->count - (int)call.count : 0, (int)call.count);
        break;
    case 6:
        call.rank = rand_below(rand, (uint64_t)model->count);
        call.count = 1 + rand_below(rand, (uint64_t)model->count - call.rank);
        if (call.count > 10)
            break;
        ASSERT_OK(kv_fix_run(&model->fix, remove_ranks_body, &call), &model->fix.err);
        model_remove(model, (int)call.rank, (int)call.count);
        break;
    }
    model_sort(model);
}

static void model_look(struct model *model)
{
    struct call call = {.name = "z"}, expected;
    if (model->count == 0) {
        ASSERT_STR(all(&model->fix, &call), "(none)");
        return;
    }
    call.rank = rand_below(&model->rand, (uint64_t)model->count);
    call.count = 1 + rand_below(&model->rand, (uint64_t)model->count - call.rank);
    call.reverse = rand_below(&model->rand, 2);
    ASSERT_OK(kv_fix_run(&model->fix, ranks_body, &call), &model->fix.err);
    ASSERT_STR(call.text,
               model_text(model, (int)call.rank, (int)call.count, call.reverse, &expected));
    call.span = zset_span_by_score();
    ASSERT_STR(range(&model->fix, &call), expected.text);
    for (int i = 0; i < model->count; i++) {
        char member[8];
        call.item.member = text_bytes(model_member(model->sorted[i], member));
        call.reverse = i % 2;
        ASSERT_OK(kv_fix_run(&model->fix, rank_body, &call), &model->fix.err);
        ASSERT_EQ(call.number, i % 2 ? model->count - 1 - i : i);
        ASSERT_OK(kv_fix_run(&model->fix, score_body, &call), &model->fix.err);
        ASSERT_TRUE(call.item.score == model->score[model->sorted[i]]);
    }
}

TEST(a_set_is_what_a_sorted_array_is)
{
    struct model *model = calloc(1, sizeof *model);
    kv_fix_init(&model->fix);
    rand_init_seed(&model->rand, 3);
    for (int i = 0; i < (test_is_long() ? 20000 : 1500); i++) {
        model_change(model);
        if (i % 5 == 0)
            model_look(model);
        if (rand_below(&model->rand, 20) == 0)
            kv_fix_freeze_out(&model->fix);
        if (rand_below(&model->rand, 100) == 0)
            kv_fix_reopen(&model->fix);
        store_cold_inject(model->fix.store, rand_below(&model->rand, 8));
    }
    kv_fix_done(&model->fix);
    free(model);
}

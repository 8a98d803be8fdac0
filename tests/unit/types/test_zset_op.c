// SPDX-License-Identifier: Apache-2.0
#include "types/zset_op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/kv_fix.h"
#include "test.h"

#include "base/banned.h"

enum { SOURCES_MAX = 4 };

struct combine {
    struct zset_op_options options;
    const char *name[SOURCES_MAX];
    double weight[SOURCES_MAX];
    size_t count;
    char text[512]; /* "member:score ...", in order of scores */
};

struct element {
    const char *key;
    uint8_t type;
    const char *member;
    double score;
};

static enum rc put_body(struct kv_fix *fix, void *arg)
{
    const struct element *element = arg;
    struct zset_change change;
    struct key key;
    struct bytes member = bytes_of(element->member, strlen(element->member));
    enum rc rc = key_write(&fix->run, bytes_of(element->key, strlen(element->key)), element->type,
                           &key, &fix->err);
    if (rc == RC_OK && !key.exists)
        rc = key_create(&key, element->type, &fix->err);
    if (rc == RC_OK && element->type == TYPE_ZSET)
        rc = zset_add(&key, (struct zset_item){member, element->score}, 0, &change, &fix->err);
    if (rc == RC_OK && element->type == TYPE_SET) {
        rc = store_put(fix->store, key_rows(&key), member, member, &fix->err);
        key.meta.count++;
    }
    if (rc == RC_OK)
        rc = key_save(&key, BYTES(""), &fix->err);
    return rc;
}

static enum rc combine_body(struct kv_fix *fix, void *arg)
{
    struct combine *combine = arg;
    struct zset_source source[SOURCES_MAX];
    struct zset_items items;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < combine->count && rc == RC_OK; i++) {
        struct bytes name = bytes_of(combine->name[i], strlen(combine->name[i]));
        rc = key_read(&fix->run, name, KEY_ANY, &source[i].key, &fix->err);
        source[i].weight = combine->weight[i] == 0 ? 1 : combine->weight[i];
    }
    if (rc == RC_OK)
        rc = zset_combine(&fix->run, source, combine->count, &combine->options, &items, &fix->err);
    if (rc != RC_OK)
        return rc;
    if (items.count > 0)
        qsort(items.item, items.count, sizeof *items.item, zset_item_cmp);
    combine->text[0] = 0;
    for (size_t i = 0; i < items.count; i++) {
        size_t len = strlen(combine->text);
        snprintf(combine->text + len, sizeof combine->text - len, "%s%.*s:%g", i ? " " : "",
                 (int)items.item[i].member.len, (const char *)items.item[i].member.ptr,
                 items.item[i].score);
    }
    return RC_OK;
}

static const char *run(struct kv_fix *fix, struct combine *combine)
{
    while (combine->count < SOURCES_MAX && combine->name[combine->count])
        combine->count++;
    ASSERT_OK(kv_fix_run(fix, combine_body, combine), &fix->err);
    return combine->text;
}

static void fix_start(struct kv_fix *fix)
{
    static struct element elements[] = {
        {"a", TYPE_ZSET, "x", 1},   {"a", TYPE_ZSET, "y", 2},
        {"a", TYPE_ZSET, "z", 3},   {"b", TYPE_ZSET, "y", 20},
        {"b", TYPE_ZSET, "z", 10},  {"s", TYPE_SET, "y", 0},
        {"s", TYPE_SET, "w", 0},    {"inf", TYPE_ZSET, "y", INFINITY},
        {"inf", TYPE_ZSET, "q", 1}, {"ninf", TYPE_ZSET, "y", -INFINITY}};
    kv_fix_init(fix);
    for (size_t i = 0; i < ARRAY_LEN(elements); i++)
        ASSERT_OK(kv_fix_run(fix, put_body, &elements[i]), &fix->err);
}

TEST(a_union_has_every_member_once)
{
    struct kv_fix fix;
    fix_start(&fix);
    struct combine combine = {.options.op = ZSET_UNION, .name = {"a", "b"}};
    ASSERT_STR(run(&fix, &combine), "x:1 z:13 y:22");
    combine = (struct combine){.options = {ZSET_UNION, ZSET_MAX, 0}, .name = {"a", "b", "s"}};
    ASSERT_STR(run(&fix, &combine), "w:1 x:1 z:10 y:20");
    combine = (struct combine){
        .options = {ZSET_UNION, ZSET_MIN, 0}, .name = {"a", "b"}, .weight = {10, -1}};
    ASSERT_STR(run(&fix, &combine), "y:-20 z:-10 x:10");
    combine = (struct combine){.options.op = ZSET_UNION, .name = {"none", "a", "none", "a"}};
    ASSERT_STR(run(&fix, &combine), "x:2 y:4 z:6");
    combine = (struct combine){.options.op = ZSET_UNION, .name = {"none"}};
    ASSERT_STR(run(&fix, &combine), "");
    kv_fix_done(&fix);
}

TEST(an_intersection_has_what_all_have)
{
    struct kv_fix fix;
    fix_start(&fix);
    struct combine combine = {.options.op = ZSET_INTER, .name = {"a", "b"}};
    ASSERT_STR(run(&fix, &combine), "z:13 y:22");
    combine = (struct combine){.options.op = ZSET_INTER, .name = {"a", "b", "s"}, .weight = {2}};
    ASSERT_STR(run(&fix, &combine), "y:25");
    combine = (struct combine){.options.op = ZSET_INTER, .name = {"a", "none"}};
    ASSERT_STR(run(&fix, &combine), "");
    combine = (struct combine){.options = {ZSET_INTER, ZSET_SUM, 1}, .name = {"a", "a"}};
    ASSERT_STR(run(&fix, &combine), "x:2");
    kv_fix_done(&fix);
}

TEST(a_difference_has_what_only_the_first_has)
{
    struct kv_fix fix;
    fix_start(&fix);
    struct combine combine = {.options.op = ZSET_DIFF, .name = {"a", "s"}};
    ASSERT_STR(run(&fix, &combine), "x:1 z:3");
    combine = (struct combine){.options.op = ZSET_DIFF, .name = {"a", "s", "b"}};
    ASSERT_STR(run(&fix, &combine), "x:1");
    combine = (struct combine){.options.op = ZSET_DIFF, .name = {"a", "none"}};
    ASSERT_STR(run(&fix, &combine), "x:1 y:2 z:3");
    combine = (struct combine){.options.op = ZSET_DIFF, .name = {"none", "a"}};
    ASSERT_STR(run(&fix, &combine), "");
    combine = (struct combine){.options.op = ZSET_DIFF, .name = {"s", "a"}};
    ASSERT_STR(run(&fix, &combine), "w:1");
    kv_fix_done(&fix);
}

TEST(infinite_scores_that_cancel_out_are_zero)
{
    struct kv_fix fix;
    fix_start(&fix);
    struct combine combine = {.options.op = ZSET_UNION, .name = {"inf", "ninf"}};
    ASSERT_STR(run(&fix, &combine), "y:0 q:1");
    combine = (struct combine){.options.op = ZSET_INTER, .name = {"inf", "ninf"}};
    ASSERT_STR(run(&fix, &combine), "y:0");
    kv_fix_done(&fix);
}

TEST(cold_sources_are_asked_for_together)
{
    struct kv_fix fix;
    fix_start(&fix);
    for (int op = ZSET_UNION; op <= ZSET_DIFF; op++) {
        struct combine hot = {.options.op = (enum zset_op)op, .name = {"a", "b", "s", "inf"}};
        struct combine cold = hot;
        run(&fix, &hot);
        kv_fix_freeze_out(&fix);
        fix.cold_count = 0;
        ASSERT_STR(run(&fix, &cold), hot.text);
        ASSERT_LE(fix.cold_count, 5); /* four meta rows, one after the other, and all elements */
    }
    kv_fix_done(&fix);
}

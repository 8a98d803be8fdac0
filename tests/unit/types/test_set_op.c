// SPDX-License-Identifier: Apache-2.0
#include "types/set_op.h"

#include <stdio.h>

#include "store/testing.h"
#include "support/kv_events.h"
#include "test.h"
#include "types/rows.h"
#include "types/set.h"

#include "base/banned.h"

enum { SETS_MAX = 8, UNIVERSE = 64, TEXT_BYTES = 4096 };

/* ---- one command, as kv_fix_run() runs it ---- */

struct call {
    enum set_op_kind kind;
    struct bytes to;
    struct bytes name[SETS_MAX];
    size_t name_count;
    struct build *build; /* NULL: in one commit */
    /* results */
    uint64_t count;
    char text[TEXT_BYTES];
    size_t text_len;
};

static void names_split(struct call *call, const char *words)
{
    call->name_count = kv_fix_words(words, call->name, SETS_MAX);
}

static enum rc run_op(struct kv_fix *fix, void *arg)
{
    CLEANUP(set_op_done) struct set_op op;
    struct call *call = arg;
    struct bytes member;
    call->count = 0;
    call->text_len = 0;
    call->text[0] = 0;
    enum rc rc = set_op_find(&op, &fix->run, call->kind, call->name, call->name_count, &fix->err);
    if (rc == RC_OK)
        rc = set_op_start(&op, NULL, &fix->err);
    while (rc == RC_OK && (rc = set_op_next(&op, &member, &fix->err)) == RC_OK) {
        ASSERT_LT(call->text_len + member.len + 2, TEXT_BYTES);
        if (call->count++ > 0)
            call->text[call->text_len++] = ' ';
        memcpy(call->text + call->text_len, member.ptr, member.len);
        call->text_len += member.len;
        call->text[call->text_len] = 0;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc run_store(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    const struct set_store store = {.kind = call->kind,
                                    .to = call->to,
                                    .name = call->name,
                                    .name_count = call->name_count,
                                    .event = "stored"};
    return set_op_store(&fix->run, &store, call->build, &call->count, &fix->err);
}

static enum rc run_add(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return set_add(&fix->run, call->to, call->name, call->name_count, NULL, &fix->err);
}

static enum rc run_expire(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->to, TYPE_SET, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    key.meta.expire_ms = fix->run.now_ms + 1000;
    return key_save(&key, BYTES(""), &fix->err);
}

static enum rc run_string(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->to, KEY_ANY, &key, &fix->err);
    if (rc == RC_OK)
        rc = key_replace(&key, TYPE_STRING, &fix->err);
    if (rc == RC_OK)
        rc = key_save(&key, BYTES("v"), &fix->err);
    return rc;
}

/* ---- short forms ---- */

static struct bytes text_bytes(const char *text)
{
    return bytes_of(text, strlen(text));
}

static void add(struct kv_fix *fix, const char *name, const char *members)
{
    struct call call = {.to = text_bytes(name)};
    names_split(&call, members);
    ASSERT_OK(kv_fix_run(fix, run_add, &call), &fix->err);
}

/* "name 0", "name 1" ... */
static void add_numbers(struct kv_fix *fix, const char *name, int count)
{
    for (int i = 0; i < count; i++) {
        char text[16];
        snprintf(text, sizeof text, "%06d", i);
        add(fix, name, text);
    }
}

static void expect(struct kv_fix *fix, enum set_op_kind kind, const char *names, const char *text)
{
    struct call call = {.kind = kind};
    names_split(&call, names);
    ASSERT_OK(kv_fix_run(fix, run_op, &call), &fix->err);
    ASSERT_STR(call.text, text);
}

static uint64_t store(struct kv_fix *fix, enum set_op_kind kind, const char *to, const char *names)
{
    struct call call = {.kind = kind, .to = text_bytes(to)};
    names_split(&call, names);
    ASSERT_OK(kv_fix_run(fix, run_store, &call), &fix->err);
    return call.count;
}

static void make_string(struct kv_fix *fix, const char *name)
{
    struct call call = {.to = text_bytes(name)};
    ASSERT_OK(kv_fix_run(fix, run_string, &call), &fix->err);
}

/* ---- claims ---- */

TEST(a_union_has_each_member_once_in_order)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    add(&fix, "a", "5 1 9");
    add(&fix, "b", "9 2 5");
    add(&fix, "c", "3");
    expect(&fix, SET_UNION, "a b c", "1 2 3 5 9");
    expect(&fix, SET_UNION, "a a none a", "1 5 9");
    expect(&fix, SET_UNION, "none", "");
}

TEST(an_intersection_has_what_all_have)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    add(&fix, "a", "5 1 9 7");
    add(&fix, "b", "9 2 5");
    add(&fix, "c", "0 9 5 6 8 4");
    expect(&fix, SET_INTER, "a b", "5 9");
    expect(&fix, SET_INTER, "a b c a", "5 9");
    expect(&fix, SET_INTER, "a b none", "");
    expect(&fix, SET_INTER, "a", "1 5 7 9");
}

TEST(a_difference_has_what_only_the_first_has)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    add(&fix, "a", "5 1 9 7");
    add(&fix, "b", "9 2");
    add(&fix, "c", "0 5 6");
    expect(&fix, SET_DIFF, "a b c", "1 7");
    expect(&fix, SET_DIFF, "a none", "1 5 7 9");
    expect(&fix, SET_DIFF, "none a", "");
    expect(&fix, SET_DIFF, "a a", "");
}

TEST(the_keys_are_checked_before_anything_is_empty)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    make_string(&fix, "text");
    for (int cold = 0; cold < 2; cold++) {
        for (int kind = SET_UNION; kind <= SET_DIFF; kind++) {
            struct call call = {.kind = (enum set_op_kind)kind, .to = BYTES("d")};
            names_split(&call, "none text");
            ASSERT_RC(kv_fix_run(&fix, run_op, &call), RC_WRONGTYPE);
            ASSERT_RC(kv_fix_run(&fix, run_store, &call), RC_WRONGTYPE);
        }
        kv_fix_freeze_out(&fix);
    }
}

TEST(a_large_set_is_asked_and_stays_cold)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    add_numbers(&fix, "large", 2000);
    add(&fix, "few", "000003 001000 x");
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    expect(&fix, SET_INTER, "large few", "000003 001000");
    ASSERT_EQ(fix.cold_count, 3); /* both keys, the small set, its members in the large one */
    expect(&fix, SET_DIFF, "few large", "x");
    struct key key;
    store_begin(fix.store, 0);
    ASSERT_OK(key_read(kv_fix_now(&fix), BYTES("large"), TYPE_SET, &key, &fix.err), &fix.err);
    ASSERT_LE(store_group_state(fix.store, key_rows(&key)).row_count, 3);
    store_undo(fix.store);
}

TEST(cold_sets_are_loaded_together)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.kind = SET_UNION};
    kv_fix_init(&fix);
    add_numbers(&fix, "a", 500);
    add_numbers(&fix, "b", 400);
    add_numbers(&fix, "c", 300);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    names_split(&call, "a b c");
    ASSERT_OK(kv_fix_run(&fix, run_store, &call), &fix.err);
    ASSERT_EQ(call.count, 500);
    ASSERT_LE(fix.cold_count, 3); /* the keys; the rows; the target */
}

TEST(the_result_takes_the_place_of_any_key)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct kv_events events;
    kv_fix_init(&fix);
    add(&fix, "a", "1 2 3");
    add(&fix, "b", "2 3 4");
    make_string(&fix, "d");
    kv_events_listen(&events, &fix);
    ASSERT_EQ(store(&fix, SET_INTER, "d", "a b"), 2);
    kv_events_expect(&events, "stored d");
    expect(&fix, SET_UNION, "d", "2 3");
    ASSERT_EQ(store(&fix, SET_UNION, "new", "a b"), 4);
    kv_events_expect(&events, "stored new");
    expect(&fix, SET_UNION, "new", "1 2 3 4");
    ASSERT_EQ(ns_key_count(fix.ns), 4);
}

TEST(an_empty_result_removes_the_target)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct kv_events events;
    kv_fix_init(&fix);
    add(&fix, "a", "1 2 3");
    add(&fix, "d", "9");
    kv_events_listen(&events, &fix);
    ASSERT_EQ(store(&fix, SET_DIFF, "d", "a a"), 0);
    kv_events_expect(&events, "del d");
    ASSERT_EQ(store(&fix, SET_DIFF, "d", "a a"), 0);
    kv_events_expect(&events, "");
    expect(&fix, SET_UNION, "d", "");
    ASSERT_EQ(ns_key_count(fix.ns), 1);
}

TEST(the_target_may_be_one_of_the_sets_and_loses_its_deadline)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.to = BYTES("a")};
    kv_fix_init(&fix);
    add(&fix, "a", "1 2 3");
    add(&fix, "b", "2 5");
    ASSERT_OK(kv_fix_run(&fix, run_expire, &call), &fix.err);
    ASSERT_EQ(ns_expire_count(fix.ns), 1);
    kv_fix_freeze_out(&fix);
    ASSERT_EQ(store(&fix, SET_UNION, "a", "b a"), 4);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    clock_advance_ms(&fix.clock, 2000);
    kv_fix_freeze_out(&fix);
    kv_fix_reopen(&fix);
    expect(&fix, SET_UNION, "a", "1 2 3 5");
}

/* ---- against a model ---- */

static const char *const model_names[SETS_MAX] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};

static void model_text(uint64_t members, char *to)
{
    size_t len = 0;
    to[0] = 0;
    for (int i = 0; i < UNIVERSE; i++)
        if (members >> i & 1)
            len += (size_t)snprintf(to + len, TEXT_BYTES - len, "%s%02d", len > 0 ? " " : "", i);
}

static uint64_t model_op(enum set_op_kind kind, const uint64_t *set, const size_t *which,
                         size_t count)
{
    uint64_t result = set[which[0]];
    for (size_t i = 1; i < count; i++) {
        if (kind == SET_UNION)
            result |= set[which[i]];
        else
            result &= kind == SET_INTER ? set[which[i]] : ~set[which[i]];
    }
    return result;
}

TEST(random_sets_give_what_bit_sets_give)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct rand rand;
    uint64_t set[SETS_MAX];
    kv_fix_init(&fix);
    rand_init_seed(&rand, 7);
    for (int i = 0; i < SETS_MAX; i++) {
        set[i] = 0;
        for (uint64_t size = UINT64_C(1) << i; size > 1; size--) { /* from none to nearly all */
            uint64_t member = rand_below(&rand, UNIVERSE);
            char text[8];
            snprintf(text, sizeof text, "%02d", (int)member);
            add(&fix, model_names[i], text);
            set[i] |= UINT64_C(1) << member;
        }
    }
    for (int round = 0; round < 600; round++) {
        struct call call = {.kind = (enum set_op_kind)rand_below(&rand, 3), .to = BYTES("d")};
        size_t which[4];
        char text[TEXT_BYTES];
        call.name_count = 1 + rand_below(&rand, 4);
        for (size_t i = 0; i < call.name_count; i++) {
            which[i] = rand_below(&rand, SETS_MAX);
            call.name[i] = text_bytes(model_names[which[i]]);
        }
        if (round % 50 == 0)
            kv_fix_freeze_out(&fix);
        store_cold_inject(fix.store, rand_below(&rand, 40));
        model_text(model_op(call.kind, set, which, call.name_count), text);
        ASSERT_OK(kv_fix_run(&fix, run_op, &call), &fix.err);
        ASSERT_STR(call.text, text);
        uint64_t count = call.count;
        ASSERT_OK(kv_fix_run(&fix, run_store, &call), &fix.err);
        ASSERT_EQ(call.count, count);
        store_cold_inject(fix.store, 0);
        expect(&fix, SET_UNION, "d", text);
    }
}

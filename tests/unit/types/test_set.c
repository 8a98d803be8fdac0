// SPDX-License-Identifier: Apache-2.0
#include "types/set.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/kv_events.h"
#include "test.h"
#include "types/rows.h"

#include "base/banned.h"

enum { ARGS_MAX = 8, TEXT_BYTES = 4096 };

/* ---- one command, as kv_fix_run() runs it ---- */

struct call {
    struct bytes name, to;
    struct bytes arg[ARGS_MAX];
    size_t arg_count;
    uint64_t number;
    /* results */
    size_t changed_count;
    bool changed;
    char text[TEXT_BYTES];
    size_t text_len;
};

static void args_split(struct call *call, const char *words)
{
    call->arg_count = kv_fix_words(words, call->arg, ARGS_MAX);
}

static void text_add(struct call *call, struct bytes bytes)
{
    ASSERT_LT(call->text_len + bytes.len + 1, TEXT_BYTES);
    if (call->text_len > 0)
        call->text[call->text_len++] = ' ';
    memcpy(call->text + call->text_len, bytes.ptr, bytes.len);
    call->text_len += bytes.len;
    call->text[call->text_len] = 0;
}

static enum rc run_add(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return set_add(&fix->run, call->name, call->arg, call->arg_count, &call->changed_count,
                   &fix->err);
}

static enum rc run_remove(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return set_remove(&fix->run, call->name, call->arg, call->arg_count, &call->changed_count,
                      &fix->err);
}

static enum rc run_move(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return set_move(&fix->run, call->name, call->to, call->arg[0], &call->changed, &fix->err);
}

/* Takes `number` members out. */
static enum rc run_pop(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    CLEANUP(rows_pick_done) struct rows_pick pick = {0};
    struct bytes member;
    call->text_len = 0;
    enum rc rc = key_write(&fix->run, call->name, TYPE_SET, &key, &fix->err);
    if (rc == RC_OK)
        rc = rows_take_init(&pick, &key, call->number, &fix->err);
    for (uint64_t i = 0; rc == RC_OK && i < call->number; i++) {
        rc = set_pop(&key, &pick, &member, &fix->err);
        if (rc == RC_OK)
            text_add(call, member);
    }
    return rc == RC_OK ? set_pop_end(&key, &fix->err) : rc;
}

/* All members by their suffix, which is their value, or "none". */
static enum rc run_all(struct kv_fix *fix, void *arg)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct call *call = arg;
    struct bytes member, value;
    struct key key;
    uint64_t count = 0;
    call->text_len = 0;
    enum rc rc = key_read(&fix->run, call->name, TYPE_SET, &key, &fix->err);
    if (rc == RC_OK && !key.exists) {
        text_add(call, BYTES("none"));
        return RC_OK;
    }
    if (rc == RC_OK)
        rc = rows_need_all(&key, &fix->err);
    if (rc != RC_OK)
        return rc;
    store_walk_init(&walk, fix->store, key_rows(&key), false);
    while ((rc = store_walk_next(&walk, &member, &value, &fix->err)) == RC_OK) {
        ASSERT_BYTES(member, value);
        text_add(call, member);
        count++;
    }
    ASSERT_RC(rc, RC_NOT_FOUND);
    ASSERT_EQ(count, key.meta.count);
    return RC_OK;
}

static enum rc run_has(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = key_read(&fix->run, call->name, TYPE_SET, &key, &fix->err);
    return rc == RC_OK ? set_has(&key, call->arg[0], &fix->err) : rc;
}

static enum rc run_encoding(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    const char *name;
    call->text_len = 0;
    enum rc rc = key_read(&fix->run, call->name, TYPE_SET, &key, &fix->err);
    if (rc == RC_OK)
        rc = set_encoding(&key, &name, &fix->err);
    if (rc == RC_OK)
        text_add(call, bytes_of(name, strlen(name)));
    return rc;
}

static enum rc run_expire(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->name, TYPE_SET, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    key.meta.expire_ms = fix->run.now_ms + call->number;
    return key_save(&key, BYTES(""), &fix->err);
}

static enum rc run_string(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->name, KEY_ANY, &key, &fix->err);
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

static size_t add(struct kv_fix *fix, const char *name, const char *members)
{
    struct call call = {.name = text_bytes(name)};
    args_split(&call, members);
    ASSERT_OK(kv_fix_run(fix, run_add, &call), &fix->err);
    return call.changed_count;
}

static size_t rem(struct kv_fix *fix, const char *name, const char *members)
{
    struct call call = {.name = text_bytes(name)};
    args_split(&call, members);
    ASSERT_OK(kv_fix_run(fix, run_remove, &call), &fix->err);
    return call.changed_count;
}

static bool move(struct kv_fix *fix, const char *from, const char *to, const char *member)
{
    struct call call = {.name = text_bytes(from), .to = text_bytes(to)};
    args_split(&call, member);
    ASSERT_OK(kv_fix_run(fix, run_move, &call), &fix->err);
    return call.changed;
}

static void expect_all(struct kv_fix *fix, const char *name, const char *text)
{
    struct call call = {.name = text_bytes(name)};
    ASSERT_OK(kv_fix_run(fix, run_all, &call), &fix->err);
    ASSERT_STR(call.text, text);
}

static void expect_encoding(struct kv_fix *fix, const char *name)
{
    struct call call = {.name = BYTES("s")};
    ASSERT_OK(kv_fix_run(fix, run_encoding, &call), &fix->err);
    ASSERT_STR(call.text, name);
}

/* ---- claims ---- */

TEST(adding_counts_new_members_only)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    expect_all(&fix, "s", "none");
    ASSERT_EQ(add(&fix, "s", "b a b"), 2);
    ASSERT_EQ(add(&fix, "s", "a"), 0);
    expect_all(&fix, "s", "a b");
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    ASSERT_EQ(add(&fix, "s", "c a d b"), 2);
    ASSERT_EQ(fix.cold_count, 2); /* the meta row, then all members */
    kv_fix_reopen(&fix);
    expect_all(&fix, "s", "a b c d");
}

TEST(the_last_member_takes_the_key_along)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    for (int i = 0; i < 2; i++) {
        add(&fix, "s", "a b c");
        if (i > 0)
            kv_fix_freeze_out(&fix);
        ASSERT_EQ(rem(&fix, "s", "x"), 0);
        ASSERT_EQ(rem(&fix, "s", "a x b a"), 2);
        expect_all(&fix, "s", "c");
        ASSERT_EQ(rem(&fix, "s", "c c"), 1);
        expect_all(&fix, "s", "none");
        ASSERT_EQ(ns_key_count(fix.ns), 0);
        ASSERT_EQ(rem(&fix, "s", "c"), 0);
    }
}

TEST(membership_is_known_hot_and_cold)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("s")};
    kv_fix_init(&fix);
    add(&fix, "s", "a c");
    for (int i = 0; i < 2; i++) {
        args_split(&call, "a");
        ASSERT_RC(kv_fix_run(&fix, run_has, &call), RC_OK);
        args_split(&call, "b");
        ASSERT_RC(kv_fix_run(&fix, run_has, &call), RC_NOT_FOUND);
        kv_fix_freeze_out(&fix);
    }
    call.name = BYTES("none");
    ASSERT_RC(kv_fix_run(&fix, run_has, &call), RC_NOT_FOUND);
}

TEST(a_member_moves_and_keys_come_and_go_with_it)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct kv_events events;
    kv_fix_init(&fix);
    kv_events_listen(&events, &fix);
    add(&fix, "a", "1 2");
    kv_events_expect(&events, "sadd a");
    ASSERT_TRUE(move(&fix, "a", "b", "1"));
    kv_events_expect(&events, "srem a, sadd b");
    ASSERT_FALSE(move(&fix, "a", "b", "1"));
    ASSERT_TRUE(move(&fix, "a", "a", "2"));
    ASSERT_FALSE(move(&fix, "a", "a", "3"));
    ASSERT_FALSE(move(&fix, "none", "a", "3"));
    kv_events_expect(&events, "");
    add(&fix, "b", "2");
    kv_events_expect(&events, "sadd b");
    ASSERT_TRUE(move(&fix, "a", "b", "2"));
    kv_events_expect(&events, "srem a, del a");
    expect_all(&fix, "a", "none");
    expect_all(&fix, "b", "1 2");
    kv_fix_freeze_out(&fix);
    ASSERT_TRUE(move(&fix, "b", "a", "2"));
    expect_all(&fix, "a", "2");
    expect_all(&fix, "b", "1");
}

TEST(a_target_of_another_type_counts_only_if_there_is_a_source)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("text")};
    kv_fix_init(&fix);
    ASSERT_OK(kv_fix_run(&fix, run_string, &call), &fix.err);
    ASSERT_FALSE(move(&fix, "none", "text", "1"));
    add(&fix, "s", "1");
    call = (struct call){.name = BYTES("s"), .to = BYTES("text"), .arg = {BYTES("x")}};
    ASSERT_RC(kv_fix_run(&fix, run_move, &call), RC_WRONGTYPE);
    call = (struct call){.name = BYTES("text"), .to = BYTES("s"), .arg = {BYTES("x")}};
    ASSERT_RC(kv_fix_run(&fix, run_move, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_add, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_remove, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_pop, &call), RC_WRONGTYPE);
}

TEST(popping_takes_each_member_once)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct kv_events events;
    struct call call = {.name = BYTES("s")};
    kv_fix_init(&fix);
    for (int i = 0; i < 2; i++) {
        add(&fix, "s", "a b c d");
        if (i > 0)
            kv_fix_freeze_out(&fix);
        int seen[4] = {0};
        kv_events_listen(&events, &fix);
        for (uint64_t count = 1; count <= 3; count += 2) {
            call.number = count;
            ASSERT_OK(kv_fix_run(&fix, run_pop, &call), &fix.err);
            ASSERT_EQ(call.text_len, 2 * count - 1);
            for (size_t at = 0; at < call.text_len; at += 2)
                seen[call.text[at] - 'a']++;
            kv_events_expect(&events, count == 1 ? "spop s" : "spop s, del s");
        }
        for (int letter = 0; letter < 4; letter++)
            ASSERT_EQ(seen[letter], 1);
        expect_all(&fix, "s", "none");
    }
}

TEST(an_expired_set_is_gone)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("s"), .number = 1000};
    kv_fix_init(&fix);
    add(&fix, "s", "a b");
    ASSERT_OK(kv_fix_run(&fix, run_expire, &call), &fix.err);
    clock_advance_ms(&fix.clock, 1000);
    expect_all(&fix, "s", "none");
    ASSERT_EQ(rem(&fix, "s", "a"), 0);
    ASSERT_FALSE(move(&fix, "s", "t", "a"));
    ASSERT_EQ(add(&fix, "s", "a"), 1);
    expect_all(&fix, "s", "a");
}

TEST(rows_lie_in_the_engine_as_they_are_drawn)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    CLEANUP(buf_done) struct buf key_bytes;
    CLEANUP(buf_done) struct buf value;
    struct key key;
    kv_fix_init(&fix);
    add(&fix, "s", "member");
    kv_fix_freeze_out(&fix);
    add(&fix, "s", "other"); /* loads the meta row */
    store_begin(fix.store, 0);
    ASSERT_OK(key_read(kv_fix_now(&fix), BYTES("s"), TYPE_SET, &key, &fix.err), &fix.err);
    store_undo(fix.store);

    buf_init(&key_bytes, 1024);
    buf_init(&value, 1024);
    static const uint8_t head[] = {2, 34}; /* the space, the length of the group key */
    ASSERT_TRUE(buf_add(&key_bytes, head, sizeof head));
    ASSERT_TRUE(buf_add_bytes(&key_bytes, BYTES("kvdefault.defaultd")));
    ASSERT_TRUE(buf_add(&key_bytes, key.meta.id, KEY_ID_BYTES));
    ASSERT_TRUE(buf_add_bytes(&key_bytes, BYTES("member")));
    struct engine *engine = store_engine(fix.store);
    ASSERT_OK(
        engine->ops->get(engine, NULL, buf_bytes(&key_bytes), ENGINE_TIER_ALL, &value, &fix.err),
        &fix.err);
    ASSERT_BYTES(buf_bytes(&value), BYTES("member"));
}

TEST(encoding_is_intset_up_to_512_integers)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    for (int i = 0; i < 512; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i - 100);
        add(&fix, "s", text);
    }
    expect_encoding(&fix, "intset");
    kv_fix_freeze_out(&fix);
    expect_encoding(&fix, "intset");
    add(&fix, "s", "1000");
    expect_encoding(&fix, "hashtable");
    rem(&fix, "s", "1000 1");
    expect_encoding(&fix, "intset");
    add(&fix, "s", "01");
    expect_encoding(&fix, "hashtable");
}

TEST(every_read_may_be_cold)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("s"), .number = 2};
    kv_fix_init(&fix);
    for (uint64_t at = 1; at < 16; at++) {
        add(&fix, "s", "a b");
        store_cold_inject(fix.store, at);
        ASSERT_EQ(add(&fix, "s", "b c d"), 2);
        ASSERT_EQ(rem(&fix, "s", "a x"), 1);
        ASSERT_TRUE(move(&fix, "s", "t", "d"));
        ASSERT_OK(kv_fix_run(&fix, run_pop, &call), &fix.err);
        ASSERT_EQ(call.text_len, 3);
        ASSERT_EQ(rem(&fix, "t", "d"), 1);
        store_cold_inject(fix.store, 0);
        expect_all(&fix, "s", "none");
        expect_all(&fix, "t", "none");
    }
}

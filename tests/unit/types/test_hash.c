// SPDX-License-Identifier: Apache-2.0
#include "types/hash.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/kv_events.h"
#include "test.h"
#include "types/rows.h"

#include "base/banned.h"

enum { ARGS_MAX = 8, TEXT_BYTES = 64 * 1024 };

/* ---- one command, as kv_fix_run() runs it ---- */

struct call {
    struct bytes name;
    struct bytes arg[ARGS_MAX];
    size_t arg_count;
    int64_t delta;
    long double delta_float;
    /* results */
    size_t changed_count;
    bool changed;
    int64_t number;
    char text[TEXT_BYTES];
    size_t text_len;
};

static void args_split(struct call *call, const char *words)
{
    call->arg_count = kv_fix_words(words, call->arg, ARGS_MAX);
}

static void text_add(struct call *call, struct bytes bytes)
{
    ASSERT_LT(call->text_len + bytes.len, TEXT_BYTES);
    memcpy(call->text + call->text_len, bytes.ptr, bytes.len);
    call->text_len += bytes.len;
    call->text[call->text_len] = 0;
}

static enum rc run_set(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return hash_set(&fix->run, call->name, call->arg, call->arg_count / 2, &call->changed_count,
                    &fix->err);
}

static enum rc run_set_new(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return hash_set_new(&fix->run, call->name, call->arg[0], call->arg[1], &call->changed,
                        &fix->err);
}

static enum rc run_delete(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return hash_delete(&fix->run, call->name, call->arg, call->arg_count, &call->changed_count,
                       &fix->err);
}

static enum rc run_incr(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return hash_incr(&fix->run, call->name, call->arg[0], call->delta, &call->number, &fix->err);
}

static enum rc run_incr_float(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    return hash_incr_float(&fix->run, call->name, call->arg[0], call->delta_float, call->text,
                           &call->text_len, &fix->err);
}

/* "field=value ..." of all rows, or "none". */
static enum rc run_all(struct kv_fix *fix, void *arg)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct call *call = arg;
    struct bytes field, value;
    struct key key;
    uint64_t count = 0;
    call->text_len = 0;
    enum rc rc = key_read(&fix->run, call->name, TYPE_HASH, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists) {
        text_add(call, BYTES("none"));
        return RC_OK;
    }
    rc = rows_need_all(&key, &fix->err);
    if (rc != RC_OK)
        return rc;
    store_walk_init(&walk, fix->store, key_rows(&key), false);
    while ((rc = store_walk_next(&walk, &field, &value, &fix->err)) == RC_OK) {
        if (count++ > 0)
            text_add(call, BYTES(" "));
        text_add(call, field);
        text_add(call, BYTES("="));
        text_add(call, value);
    }
    ASSERT_RC(rc, RC_NOT_FOUND);
    ASSERT_EQ(count, key.meta.count);
    return RC_OK;
}

static enum rc run_get(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct bytes value;
    call->text_len = 0;
    enum rc rc = hash_get(&fix->run, call->name, call->arg[0], &value, &fix->err);
    if (rc == RC_OK)
        text_add(call, value);
    return rc;
}

static enum rc run_encoding(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    const char *name;
    call->text_len = 0;
    enum rc rc = key_read(&fix->run, call->name, TYPE_HASH, &key, &fix->err);
    if (rc == RC_OK)
        rc = hash_encoding(&key, &name, &fix->err);
    if (rc == RC_OK)
        text_add(call, bytes_of(name, strlen(name)));
    return rc;
}

static enum rc run_expire(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->name, TYPE_HASH, &key, &fix->err);
    if (rc != RC_OK)
        return rc;
    key.meta.expire_ms = fix->run.now_ms + (uint64_t)call->delta;
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

/* ---- short forms, all for the key "h" ---- */

static size_t set(struct kv_fix *fix, const char *pairs)
{
    struct call call = {.name = BYTES("h")};
    args_split(&call, pairs);
    ASSERT_OK(kv_fix_run(fix, run_set, &call), &fix->err);
    return call.changed_count;
}

static size_t del(struct kv_fix *fix, const char *fields)
{
    struct call call = {.name = BYTES("h")};
    args_split(&call, fields);
    ASSERT_OK(kv_fix_run(fix, run_delete, &call), &fix->err);
    return call.changed_count;
}

static enum rc incr(struct kv_fix *fix, const char *field, int64_t delta, int64_t *ret_value)
{
    struct call call = {.name = BYTES("h"), .delta = delta};
    args_split(&call, field);
    enum rc rc = kv_fix_run(fix, run_incr, &call);
    *ret_value = call.number;
    return rc;
}

static void expect_all(struct kv_fix *fix, const char *text)
{
    struct call call = {.name = BYTES("h")};
    ASSERT_OK(kv_fix_run(fix, run_all, &call), &fix->err);
    ASSERT_STR(call.text, text);
}

static void expect_encoding(struct kv_fix *fix, const char *name)
{
    struct call call = {.name = BYTES("h")};
    ASSERT_OK(kv_fix_run(fix, run_encoding, &call), &fix->err);
    ASSERT_STR(call.text, name);
}

/* A field of this length and value. */
static void set_bytes(struct kv_fix *fix, struct bytes field, struct bytes value)
{
    struct call call = {.name = BYTES("h"), .arg = {field, value}, .arg_count = 2};
    ASSERT_OK(kv_fix_run(fix, run_set, &call), &fix->err);
}

static void set_many(struct kv_fix *fix, int count)
{
    for (int i = 0; i < count; i++) {
        char field[16];
        int len = snprintf(field, sizeof field, "f%06d", i);
        set_bytes(fix, bytes_of(field, (size_t)len), BYTES("v"));
    }
}

/* ---- claims ---- */

TEST(setting_counts_new_fields_only)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    expect_all(&fix, "none");
    ASSERT_EQ(set(&fix, "b 1 a 2"), 2);
    ASSERT_EQ(set(&fix, "b 3"), 0);
    ASSERT_EQ(set(&fix, "c 1 c 2 b 4"), 1);
    expect_all(&fix, "a=2 b=4 c=2");
    ASSERT_EQ(ns_key_count(fix.ns), 1);
}

TEST(setting_counts_cold_fields_right_and_asks_for_all_at_once)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    set(&fix, "a 1 b 2 c 3");
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    ASSERT_EQ(set(&fix, "c 4 x 5 a 6 x 7"), 1);
    ASSERT_EQ(fix.cold_count, 2); /* the meta row, then all fields */
    expect_all(&fix, "a=6 b=2 c=4 x=7");
    kv_fix_freeze_out(&fix);
    kv_fix_reopen(&fix);
    expect_all(&fix, "a=6 b=2 c=4 x=7");
}

TEST(a_field_is_set_once_by_set_new)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("h")};
    kv_fix_init(&fix);
    for (int i = 0; i < 3; i++) {
        args_split(&call, i == 0 ? "a 1" : "a 2");
        ASSERT_OK(kv_fix_run(&fix, run_set_new, &call), &fix.err);
        ASSERT_EQ(call.changed, i == 0);
        kv_fix_freeze_out(&fix);
    }
    expect_all(&fix, "a=1");
}

TEST(the_last_field_takes_the_key_along)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    kv_fix_init(&fix);
    for (int i = 0; i < 2; i++) {
        set(&fix, "a 1 b 2 c 3");
        if (i > 0)
            kv_fix_freeze_out(&fix);
        ASSERT_EQ(del(&fix, "x"), 0);
        ASSERT_EQ(del(&fix, "a x b a"), 2);
        expect_all(&fix, "c=3");
        ASSERT_EQ(del(&fix, "c a"), 1);
        expect_all(&fix, "none");
        ASSERT_EQ(ns_key_count(fix.ns), 0);
        ASSERT_EQ(del(&fix, "c"), 0);
    }
    kv_fix_freeze_out(&fix);
    kv_fix_reopen(&fix);
    expect_all(&fix, "none");
    set(&fix, "a 9");
    expect_all(&fix, "a=9");
}

TEST(numbers_grow_and_refuse_to_overflow)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    int64_t value;
    kv_fix_init(&fix);
    ASSERT_OK(incr(&fix, "n", 5, &value), &fix.err);
    ASSERT_EQ(value, 5);
    ASSERT_OK(incr(&fix, "n", -7, &value), &fix.err);
    ASSERT_EQ(value, -2);
    set(&fix, "big 9223372036854775807 text 1x empty=no 0");
    ASSERT_RC(incr(&fix, "big", 1, &value), RC_INVALID);
    ASSERT_STR(fix.err.text, "increment or decrement would overflow");
    ASSERT_RC(incr(&fix, "text", 1, &value), RC_INVALID);
    ASSERT_STR(fix.err.text, "hash value is not an integer");
    expect_all(&fix, "big=9223372036854775807 empty=no=0 n=-2 text=1x");
}

TEST(floats_are_written_as_redis_does)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("h"), .delta_float = 0.1L};
    kv_fix_init(&fix);
    args_split(&call, "f");
    for (int i = 0; i < 3; i++)
        ASSERT_OK(kv_fix_run(&fix, run_incr_float, &call), &fix.err);
    ASSERT_STR(call.text, "0.3");
    expect_all(&fix, "f=0.3");
    set(&fix, "f abc");
    ASSERT_RC(kv_fix_run(&fix, run_incr_float, &call), RC_INVALID);
    ASSERT_STR(fix.err.text, "hash value is not a float");
    set(&fix, "f 1.1e4932");
    call.delta_float = 1.1e4932L;
    ASSERT_RC(kv_fix_run(&fix, run_incr_float, &call), RC_INVALID);
    ASSERT_STR(fix.err.text, "increment would produce NaN or Infinity");
}

TEST(another_type_is_refused_and_stays)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("h")};
    kv_fix_init(&fix);
    args_split(&call, "a 1");
    ASSERT_OK(kv_fix_run(&fix, run_string, &call), &fix.err);
    ASSERT_RC(kv_fix_run(&fix, run_set, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_set_new, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_delete, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_get, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_incr, &call), RC_WRONGTYPE);
    ASSERT_RC(kv_fix_run(&fix, run_incr_float, &call), RC_WRONGTYPE);
}

TEST(an_expired_hash_is_gone_and_a_new_one_starts_empty)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call = {.name = BYTES("h"), .delta = 1000};
    kv_fix_init(&fix);
    set(&fix, "a 1 b 2");
    ASSERT_OK(kv_fix_run(&fix, run_expire, &call), &fix.err);
    clock_advance_ms(&fix.clock, 999);
    expect_all(&fix, "a=1 b=2");
    clock_advance_ms(&fix.clock, 1);
    expect_all(&fix, "none");
    args_split(&call, "a");
    ASSERT_RC(kv_fix_run(&fix, run_get, &call), RC_NOT_FOUND);
    ASSERT_EQ(del(&fix, "a"), 0);
    ASSERT_EQ(set(&fix, "c 3"), 1);
    expect_all(&fix, "c=3");
    clock_advance_ms(&fix.clock, 100000);
    expect_all(&fix, "c=3");
}

TEST(events_name_the_change_and_the_end)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct kv_events events;
    int64_t value;
    kv_fix_init(&fix);
    kv_events_listen(&events, &fix);
    set(&fix, "a 1 b 2");
    set(&fix, "a 1");
    kv_events_expect(&events, "hset h, hset h");
    ASSERT_OK(incr(&fix, "a", 1, &value), &fix.err);
    struct call call = {.name = BYTES("h"), .delta_float = 1};
    args_split(&call, "a");
    ASSERT_OK(kv_fix_run(&fix, run_incr_float, &call), &fix.err);
    kv_events_expect(&events, "hincrby h, hincrbyfloat h");
    args_split(&call, "a 9");
    ASSERT_OK(kv_fix_run(&fix, run_set_new, &call), &fix.err);
    del(&fix, "x");
    kv_events_expect(&events, "");
    del(&fix, "a");
    kv_events_expect(&events, "hdel h");
    del(&fix, "b");
    kv_events_expect(&events, "hdel h, del h");
}

TEST(rows_lie_in_the_engine_as_they_are_drawn)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    CLEANUP(buf_done) struct buf key_bytes;
    CLEANUP(buf_done) struct buf value;
    struct key key;
    kv_fix_init(&fix);
    set(&fix, "field value");
    kv_fix_freeze_out(&fix);
    set(&fix, "field2 x"); /* loads the meta row */
    store_begin(fix.store, 0);
    ASSERT_OK(key_read(kv_fix_now(&fix), BYTES("h"), TYPE_HASH, &key, &fix.err), &fix.err);
    store_undo(fix.store);

    buf_init(&key_bytes, 1024);
    buf_init(&value, 1024);
    static const uint8_t head[] = {2, 34}; /* the space, the length of the group key */
    ASSERT_TRUE(buf_add(&key_bytes, head, sizeof head));
    ASSERT_TRUE(buf_add_bytes(&key_bytes, BYTES("kvdefault.defaultd")));
    ASSERT_TRUE(buf_add(&key_bytes, key.meta.id, KEY_ID_BYTES));
    ASSERT_TRUE(buf_add_bytes(&key_bytes, BYTES("field")));
    struct engine *engine = store_engine(fix.store);
    ASSERT_OK(
        engine->ops->get(engine, NULL, buf_bytes(&key_bytes), ENGINE_TIER_ALL, &value, &fix.err),
        &fix.err);
    ASSERT_BYTES(buf_bytes(&value), BYTES("value"));
}

TEST(encoding_is_listpack_up_to_512_short_fields)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    uint8_t text[65] = {0};
    kv_fix_init(&fix);
    set_many(&fix, 512);
    expect_encoding(&fix, "listpack");
    kv_fix_freeze_out(&fix);
    expect_encoding(&fix, "listpack");
    set(&fix, "f 1");
    expect_encoding(&fix, "hashtable");
    del(&fix, "f");
    set_bytes(&fix, bytes_of(text, 64), bytes_of(text, 64));
    del(&fix, "f000001");
    expect_encoding(&fix, "listpack");
    set_bytes(&fix, BYTES("long"), bytes_of(text, 65));
    del(&fix, "f000002");
    expect_encoding(&fix, "hashtable");
}

TEST(empty_fields_and_every_byte_are_kept)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    uint8_t every[256];
    kv_fix_init(&fix);
    for (int i = 0; i < 256; i++)
        every[i] = (uint8_t)i;
    set_bytes(&fix, BYTES(""), BYTES("nothing"));
    set_bytes(&fix, bytes_of(every, 256), bytes_of(every, 256));
    set_bytes(&fix, BYTES("no value"), BYTES(""));
    kv_fix_freeze_out(&fix);
    struct call call = {.name = BYTES("h"), .arg = {bytes_of(every, 256)}};
    ASSERT_OK(kv_fix_run(&fix, run_get, &call), &fix.err);
    ASSERT_BYTES(bytes_of(call.text, call.text_len), bytes_of(every, 256));
    call.arg[0] = BYTES("");
    ASSERT_OK(kv_fix_run(&fix, run_get, &call), &fix.err);
    ASSERT_BYTES(bytes_of(call.text, call.text_len), BYTES("nothing"));
    call.arg[0] = BYTES("no value");
    ASSERT_OK(kv_fix_run(&fix, run_get, &call), &fix.err);
    ASSERT_EQ(call.text_len, 0);
}

TEST(every_read_may_be_cold)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    int64_t value;
    kv_fix_init(&fix);
    for (uint64_t at = 1; at < 12; at++) {
        set(&fix, "a 1 b 2");
        store_cold_inject(fix.store, at);
        ASSERT_EQ(set(&fix, "a 3 c 4 c 5"), 1);
        ASSERT_EQ(del(&fix, "a b x"), 2);
        ASSERT_OK(incr(&fix, "c", 1, &value), &fix.err);
        expect_all(&fix, "c=6");
        ASSERT_EQ(del(&fix, "c"), 1);
        store_cold_inject(fix.store, 0);
        expect_all(&fix, "none");
    }
}

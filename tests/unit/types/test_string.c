// SPDX-License-Identifier: Apache-2.0
/* test_string.c - strings: plain and chunked, hot and cold. */
#include "types/string.h"

#include <stdio.h>

#include "base/mem.h"
#include "support/kv_fix.h"
#include "test.h"

#include "base/banned.h"

enum { CHUNK = STRING_CHUNK_BYTES };

/* What one run does, and what it found. */
struct call {
    const char *name;
    struct bytes value;
    uint64_t at, end;
    uint64_t expire_ms;
    uint8_t type; /* found, or 0 */
    uint8_t id[KEY_ID_BYTES];
    uint64_t found_expire_ms;
    uint8_t *got; /* owned */
    size_t got_len;
    int64_t number;
    const char *encoding;
};

static void call_done(struct call *call)
{
    mem_free(call->got);
}

static enum rc open_key(struct kv_fix *fix, struct call *call, struct key *key)
{
    enum rc rc =
        key_write(&fix->run, bytes_of(call->name, strlen(call->name)), TYPE_STRING, key, &fix->err);
    if (rc != RC_OK)
        return rc;
    call->type = key->exists ? key->meta.type : 0;
    call->found_expire_ms = key->exists ? key->meta.expire_ms : 0;
    if (key->exists)
        memcpy(call->id, key->meta.id, KEY_ID_BYTES);
    return RC_OK;
}

static enum rc set_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc =
        key_write(&fix->run, bytes_of(call->name, strlen(call->name)), KEY_ANY, &key, &fix->err);
    return rc == RC_OK ? string_set(&key, call->value, call->expire_ms, &fix->err) : rc;
}

static enum rc write_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, call, &key);
    return rc == RC_OK ? string_write(&key, call->at, call->value, &fix->err) : rc;
}

static enum rc append_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, call, &key);
    if (rc == RC_OK)
        rc = string_len(&key, &call->at, &fix->err);
    return rc == RC_OK ? string_write(&key, call->at, call->value, &fix->err) : rc;
}

static enum rc get_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    struct bytes value;
    uint64_t len;
    enum rc rc = open_key(fix, call, &key);
    if (rc == RC_OK)
        rc = string_len(&key, &len, &fix->err);
    if (rc == RC_OK)
        rc = string_get_range(&key, call->at, call->end == UINT64_MAX ? len : call->end, &value,
                              &fix->err);
    if (rc != RC_OK)
        return rc;
    call->got = mem_realloc(call->got, value.len);
    call->got_len = value.len;
    if (value.len)
        memcpy(call->got, value.ptr, value.len);
    call->encoding = key.exists ? string_encoding(&key) : NULL;
    return RC_OK;
}

static enum rc add_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, call, &key);
    return rc == RC_OK ? string_add_int(&key, call->number, &call->number, &fix->err) : rc;
}

static enum rc hash_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc =
        key_write(&fix->run, bytes_of(call->name, strlen(call->name)), KEY_ANY, &key, &fix->err);
    if (rc == RC_OK)
        rc = key_replace(&key, TYPE_HASH, &fix->err);
    if (rc == RC_OK)
        rc = store_put(fix->store, key_rows(&key), BYTES("field"), BYTES("v"), &fix->err);
    key.meta.count = 1;
    return rc == RC_OK ? key_save(&key, BYTES(""), &fix->err) : rc;
}

static void set_until(struct kv_fix *fix, const char *name, struct bytes value, uint64_t expire_ms)
{
    struct call call = {.name = name, .value = value, .expire_ms = expire_ms};
    ASSERT_OK(kv_fix_run(fix, set_body, &call), &fix->err);
}

static void set(struct kv_fix *fix, const char *name, struct bytes value)
{
    set_until(fix, name, value, 0);
}

static void write_at(struct kv_fix *fix, const char *name, uint64_t at, struct bytes part)
{
    struct call call = {.name = name, .at = at, .value = part};
    ASSERT_OK(kv_fix_run(fix, write_body, &call), &fix->err);
}

static void append(struct kv_fix *fix, const char *name, struct bytes part)
{
    struct call call = {.name = name, .value = part};
    ASSERT_OK(kv_fix_run(fix, append_body, &call), &fix->err);
}

/* The caller ends it with call_done(). */
static struct call get_range(struct kv_fix *fix, const char *name, uint64_t at, uint64_t end)
{
    struct call call = {.name = name, .at = at, .end = end};
    ASSERT_OK(kv_fix_run(fix, get_body, &call), &fix->err);
    return call;
}

static void assert_value(struct kv_fix *fix, const char *name, struct bytes value)
{
    struct call call = get_range(fix, name, 0, UINT64_MAX);
    ASSERT_BYTES(bytes_of(call.got, call.got_len), value);
    call_done(&call);
}

static uint8_t type_of(struct kv_fix *fix, const char *name)
{
    struct call call = get_range(fix, name, 0, 0);
    call_done(&call);
    return call.type;
}

static const char *encoding_of(struct kv_fix *fix, const char *name)
{
    struct call call = get_range(fix, name, 0, 0);
    call_done(&call);
    return call.encoding;
}

/* len bytes that are not periodic in 4 KiB. The caller frees them. */
static struct bytes pattern_new(size_t len)
{
    uint8_t *bytes = mem_alloc(len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(1 + (i * 7 + i / CHUNK * 3) % 255);
    return bytes_of(bytes, len);
}

static void pattern_free(struct bytes pattern)
{
    mem_free((void *)(uintptr_t)pattern.ptr);
}

static size_t row_count(struct kv_fix *fix, const char *name)
{
    struct call call = get_range(fix, name, 0, 0);
    call_done(&call);
    return store_group_state(fix->store,
                             (struct store_group){fix->ns->data, bytes_of(call.id, KEY_ID_BYTES)})
        .row_count;
}

/* ---- values ---- */

TEST(string_is_read_as_it_was_set_hot_cold_and_reopened)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes lengths = pattern_new(3 * CHUNK + 5);
    const size_t lens[] = {0, 1, 44, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 12288, 12293};
    char name[8];
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        snprintf(name, sizeof name, "k%zu", i);
        set(&fix, name, bytes_of(lengths.ptr, lens[i]));
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
            snprintf(name, sizeof name, "k%zu", i);
            assert_value(&fix, name, bytes_of(lengths.ptr, lens[i]));
            ASSERT_EQ(type_of(&fix, name), lens[i] > CHUNK ? TYPE_STRING_CHUNKED : TYPE_STRING);
        }
        if (round == 0)
            kv_fix_freeze_out(&fix);
        else
            kv_fix_reopen(&fix);
    }
    ASSERT_GT(fix.cold_count, 0);
    pattern_free(lengths);
    kv_fix_done(&fix);
}

TEST(string_over_another_keeps_its_id_only_if_both_are_plain)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes long_value = pattern_new(CHUNK + 1);
    set(&fix, "k", BYTES("one"));
    struct call first = get_range(&fix, "k", 0, 0);
    set(&fix, "k", BYTES("two"));
    struct call second = get_range(&fix, "k", 0, 0);
    ASSERT_BYTES(bytes_of(first.id, KEY_ID_BYTES), bytes_of(second.id, KEY_ID_BYTES));
    set(&fix, "k", long_value);
    struct call third = get_range(&fix, "k", 0, 0);
    ASSERT_FALSE(memcmp(second.id, third.id, KEY_ID_BYTES) == 0);
    set(&fix, "k", BYTES("short"));
    ASSERT_EQ(type_of(&fix, "k"), TYPE_STRING);
    struct call fourth = get_range(&fix, "k", 0, 0);
    ASSERT_FALSE(memcmp(third.id, fourth.id, KEY_ID_BYTES) == 0);
    assert_value(&fix, "k", BYTES("short"));
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    call_done(&first);
    call_done(&second);
    call_done(&third);
    call_done(&fourth);
    pattern_free(long_value);
    kv_fix_done(&fix);
}

TEST(string_set_replaces_another_type)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct call call = {.name = "k"};
    ASSERT_OK(kv_fix_run(&fix, hash_body, &call), &fix.err);
    ASSERT_RC(kv_fix_run(&fix, get_body, &call), RC_WRONGTYPE);
    set(&fix, "k", BYTES("v"));
    assert_value(&fix, "k", BYTES("v"));
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    kv_fix_done(&fix);
}

TEST(string_chunks_of_zeros_have_no_rows)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    uint8_t *bytes = mem_zalloc(4 * CHUNK);
    bytes[2 * CHUNK + 7] = 1;
    set(&fix, "k", bytes_of(bytes, 4 * CHUNK));
    ASSERT_EQ(row_count(&fix, "k"), 1);
    assert_value(&fix, "k", bytes_of(bytes, 4 * CHUNK));
    kv_fix_freeze_out(&fix);
    assert_value(&fix, "k", bytes_of(bytes, 4 * CHUNK));
    mem_free(bytes);
    kv_fix_done(&fix);
}

TEST(string_deadline_is_set_kept_and_cleared)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    uint64_t then = clock_unix_ms(&fix.clock) + 5000;
    struct bytes long_value = pattern_new(CHUNK + 1);
    const struct bytes values[] = {BYTES("plain"), long_value};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        set_until(&fix, "k", values[i], then);
        set_until(&fix, "k", values[1 - i], STRING_KEEP_DEADLINE);
        struct call call = get_range(&fix, "k", 0, 0);
        ASSERT_EQ(call.found_expire_ms, then);
        ASSERT_EQ(ns_expire_count(fix.ns), 1);
        call_done(&call);
        set(&fix, "k", values[i]);
        call = get_range(&fix, "k", 0, 0);
        ASSERT_EQ(call.found_expire_ms, 0);
        ASSERT_EQ(ns_expire_count(fix.ns), 0);
        call_done(&call);
    }
    pattern_free(long_value);
    kv_fix_done(&fix);
}

TEST(string_with_a_deadline_that_has_passed_is_removed)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    set_until(&fix, "new", BYTES("v"), 1);
    set(&fix, "old", BYTES("v"));
    set_until(&fix, "old", BYTES("v"), clock_unix_ms(&fix.clock));
    ASSERT_EQ(type_of(&fix, "new"), 0);
    ASSERT_EQ(type_of(&fix, "old"), 0);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    kv_fix_done(&fix);
}

TEST(string_that_expired_is_empty_and_a_change_begins_anew)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes long_value = pattern_new(2 * CHUNK);
    set_until(&fix, "k", long_value, clock_unix_ms(&fix.clock) + 10);
    clock_advance_ms(&fix.clock, 10);
    assert_value(&fix, "k", BYTES(""));
    append(&fix, "k", BYTES("new"));
    assert_value(&fix, "k", BYTES("new"));
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    pattern_free(long_value);
    kv_fix_done(&fix);
}

TEST(string_encoding_follows_the_content)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes long_value = pattern_new(CHUNK + 1);
    const struct {
        struct bytes value;
        const char *encoding;
    } cases[] = {
        {BYTES("12"), "int"},
        {BYTES("-9223372036854775808"), "int"},
        {BYTES("9223372036854775808"), "embstr"},
        {BYTES("012"), "embstr"},
        {BYTES(""), "embstr"},
        {bytes_of(long_value.ptr, 44), "embstr"},
        {bytes_of(long_value.ptr, 45), "raw"},
        {long_value, "raw"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        set(&fix, "k", cases[i].value);
        ASSERT_STR(encoding_of(&fix, "k"), cases[i].encoding);
    }
    pattern_free(long_value);
    kv_fix_done(&fix);
}

/* ---- numbers ---- */

TEST(string_add_counts_from_nothing_and_refuses_what_is_no_number)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct call call = {.name = "n", .number = 5};
    ASSERT_OK(kv_fix_run(&fix, add_body, &call), &fix.err);
    ASSERT_EQ(call.number, 5);
    kv_fix_freeze_out(&fix);
    call.number = -7;
    ASSERT_OK(kv_fix_run(&fix, add_body, &call), &fix.err);
    ASSERT_EQ(call.number, -2);
    assert_value(&fix, "n", BYTES("-2"));
    call.number = INT64_MIN;
    ASSERT_RC(kv_fix_run(&fix, add_body, &call), RC_INVALID);
    ASSERT_STR(fix.err.text, "increment or decrement would overflow");
    set(&fix, "n", BYTES("1 "));
    ASSERT_RC(kv_fix_run(&fix, add_body, &call), RC_INVALID);
    ASSERT_STR(fix.err.text, "value is not an integer or out of range");
    kv_fix_done(&fix);
}

TEST(string_add_keeps_the_deadline)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    uint64_t then = clock_unix_ms(&fix.clock) + 5000;
    set_until(&fix, "n", BYTES("1"), then);
    struct call call = {.name = "n", .number = 1};
    ASSERT_OK(kv_fix_run(&fix, add_body, &call), &fix.err);
    call = get_range(&fix, "n", 0, 0);
    ASSERT_EQ(call.found_expire_ms, then);
    call_done(&call);
    kv_fix_done(&fix);
}

/* ---- parts ---- */

TEST(string_grows_from_plain_to_chunked_under_its_id)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes all = pattern_new(CHUNK + 100);
    set_until(&fix, "k", bytes_of(all.ptr, 100), clock_unix_ms(&fix.clock) + 5000);
    struct call before = get_range(&fix, "k", 0, 0);
    append(&fix, "k", bytes_of(all.ptr + 100, CHUNK - 100));
    ASSERT_EQ(type_of(&fix, "k"), TYPE_STRING);
    append(&fix, "k", bytes_of(all.ptr + CHUNK, 100));
    struct call after = get_range(&fix, "k", 0, 0);
    ASSERT_EQ(after.type, TYPE_STRING_CHUNKED);
    ASSERT_BYTES(bytes_of(before.id, KEY_ID_BYTES), bytes_of(after.id, KEY_ID_BYTES));
    ASSERT_EQ(before.found_expire_ms, after.found_expire_ms);
    assert_value(&fix, "k", all);
    kv_fix_freeze_out(&fix);
    assert_value(&fix, "k", all);
    call_done(&before);
    call_done(&after);
    pattern_free(all);
    kv_fix_done(&fix);
}

TEST(string_written_far_out_costs_one_row)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    uint64_t far = STRING_BYTES_MAX - 3;
    set(&fix, "k", BYTES("abc"));
    write_at(&fix, "k", far, BYTES("xyz"));
    ASSERT_EQ(row_count(&fix, "k"), 2); /* what was there, and what came */
    write_at(&fix, "new", far, BYTES("xyz"));
    ASSERT_EQ(row_count(&fix, "new"), 1);
    for (int round = 0; round < 2; round++) {
        struct call call = get_range(&fix, "k", far - 2, far + 3);
        ASSERT_BYTES(bytes_of(call.got, call.got_len), BYTES("\0\0xyz"));
        call_done(&call);
        call = get_range(&fix, "k", 0, 5);
        ASSERT_BYTES(bytes_of(call.got, call.got_len), BYTES("abc\0\0"));
        call_done(&call);
        call = get_range(&fix, "new", 10 * CHUNK, 10 * CHUNK + 2);
        ASSERT_BYTES(bytes_of(call.got, call.got_len), BYTES("\0\0"));
        call_done(&call);
        kv_fix_freeze_out(&fix);
    }
    kv_fix_done(&fix);
}

TEST(string_over_the_limit_is_refused)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct call call = {.name = "k", .at = STRING_BYTES_MAX, .value = BYTES("x")};
    ASSERT_RC(kv_fix_run(&fix, write_body, &call), RC_INVALID);
    ASSERT_STR(fix.err.text, STRING_TOO_LONG);
    call.at = UINT64_MAX;
    ASSERT_RC(kv_fix_run(&fix, write_body, &call), RC_INVALID);
    ASSERT_EQ(type_of(&fix, "k"), 0);
    kv_fix_done(&fix);
}

TEST(string_write_within_asks_for_the_chunks_it_cuts_at_once)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes all = pattern_new(8 * CHUNK), part = pattern_new(5 * CHUNK);
    set(&fix, "k", all);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    write_at(&fix, "k", CHUNK + 10, part);
    ASSERT_EQ(fix.cold_count, 2); /* the meta row, then both ends */
    memcpy((uint8_t *)(uintptr_t)all.ptr + CHUNK + 10, part.ptr, part.len);
    assert_value(&fix, "k", all);
    pattern_free(all);
    pattern_free(part);
    kv_fix_done(&fix);
}

TEST(string_is_loaded_in_one_round_however_long)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes all = pattern_new(200 * CHUNK + 1);
    set(&fix, "k", all);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    assert_value(&fix, "k", all);
    ASSERT_EQ(fix.cold_count, 2);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    struct call call = get_range(&fix, "k", 5 * CHUNK - 1, 5 * CHUNK + 1);
    ASSERT_BYTES(bytes_of(call.got, call.got_len), bytes_of(all.ptr + 5 * CHUNK - 1, 2));
    ASSERT_EQ(fix.cold_count, 2);
    call_done(&call);
    pattern_free(all);
    kv_fix_done(&fix);
}

TEST(string_with_holes_is_loaded_in_one_round)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    enum { LEN = 400 * CHUNK };
    uint8_t *all = mem_zalloc(LEN);
    all[5] = all[90 * CHUNK] = all[91 * CHUNK + 17] = all[300 * CHUNK - 1] = all[LEN - 1] = 9;
    set(&fix, "k", bytes_of(all, LEN));
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    assert_value(&fix, "k", bytes_of(all, LEN));
    ASSERT_EQ(fix.cold_count, 2);
    mem_free(all);
    kv_fix_done(&fix);
}

TEST(string_unchanged_by_an_empty_write_makes_no_key)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    write_at(&fix, "k", 0, BYTES(""));
    ASSERT_EQ(type_of(&fix, "k"), 0);
    kv_fix_done(&fix);
}

static enum rc damage_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, call, &key);
    return rc == RC_OK ? key_save(&key, call->value, &fix->err) : rc;
}

TEST(string_with_a_damaged_length_is_corrupt)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes all = pattern_new(2 * CHUNK);
    const struct bytes lengths[] = {BYTES("\0\0\0\0\0\0\x10"), BYTES("\0\0\0\0\0\0\x10\0"),
                                    BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"),
                                    BYTES("\0\0\0\0\0\0\x10\x01")}; /* shorter than its rows */
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        set(&fix, "k", all);
        struct call call = {.name = "k", .value = lengths[i], .end = UINT64_MAX};
        ASSERT_OK(kv_fix_run(&fix, damage_body, &call), &fix.err);
        ASSERT_RC(kv_fix_run(&fix, get_body, &call), RC_CORRUPT);
        call_done(&call);
    }
    set(&fix, "k", BYTES("plain"));
    struct call call = {.name = "k", .value = all, .end = UINT64_MAX};
    ASSERT_OK(kv_fix_run(&fix, damage_body, &call), &fix.err);
    ASSERT_RC(kv_fix_run(&fix, get_body, &call), RC_CORRUPT);
    call.value = BYTES("x");
    ASSERT_RC(kv_fix_run(&fix, write_body, &call), RC_CORRUPT);
    pattern_free(all);
    kv_fix_done(&fix);
}

/* Random sets, writes, appends and reads against an array of bytes. */
TEST(string_agrees_with_an_array_of_bytes)
{
    struct kv_fix fix;
    struct rand rand;
    kv_fix_init(&fix);
    rand_init_seed(&rand, 7);
    enum { LEN_MAX = 12 * CHUNK, ROUNDS = 600 };
    uint8_t *model = mem_zalloc(2 * LEN_MAX);
    struct bytes source = pattern_new(2 * LEN_MAX);
    uint64_t len = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t scale = rand_below(&rand, 2) ? 3 * CHUNK : 50;
        struct bytes part =
            bytes_of(source.ptr + rand_below(&rand, LEN_MAX), rand_below(&rand, scale + 1));
        uint64_t at = len;
        switch (rand_below(&rand, 12)) {
        case 0:
            set(&fix, "k", part);
            at = len = 0;
            break;
        case 1:
            kv_fix_freeze_out(&fix);
            continue;
        case 2:
            kv_fix_reopen(&fix);
            continue;
        case 3:
        case 4:
        case 5:
            append(&fix, "k", part);
            break;
        default:
            at = rand_below(&rand, len + CHUNK);
            write_at(&fix, "k", at, part);
        }
        if (len > 0 && at + part.len > LEN_MAX) {
            set(&fix, "k", BYTES(""));
            len = 0;
            continue;
        }
        if (part.len > 0 && at > len)
            memset(model + len, 0, at - len);
        memcpy(model + at, part.ptr, part.len);
        if (part.len > 0 && at + part.len > len)
            len = at + part.len;
        uint64_t from = rand_below(&rand, len + 1), end = from + rand_below(&rand, len - from + 1);
        struct call call = get_range(&fix, "k", from, end);
        ASSERT_BYTES(bytes_of(call.got, call.got_len), bytes_of(model + from, end - from));
        call_done(&call);
        assert_value(&fix, "k", bytes_of(model, len));
    }
    mem_free(model);
    pattern_free(source);
    kv_fix_done(&fix);
}

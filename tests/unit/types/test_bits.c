// SPDX-License-Identifier: Apache-2.0
/* test_bits.c - strings as bits. */
#include "types/bits.h"

#include "base/mem.h"
#include "support/kv_fix.h"
#include "test.h"

#include "base/banned.h"

enum { CHUNK = STRING_CHUNK_BYTES, FIELDS_MAX = 8, SOURCES_MAX = 4 };

struct call {
    uint64_t at, end;
    bool bit, old, changed;
    uint64_t result;
    enum bits_op op;
    size_t count;
    struct bits_field field[FIELDS_MAX];
    struct bytes value;
    uint8_t *got; /* owned */
    size_t got_len;
};

static enum rc open_key(struct kv_fix *fix, const char *name, struct key *key)
{
    return key_write(&fix->run, bytes_of(name, strlen(name)), TYPE_STRING, key, &fix->err);
}

static enum rc value_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    return rc == RC_OK ? string_set(&key, call->value, 0, &fix->err) : rc;
}

static enum rc get_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    return rc == RC_OK ? bits_get(&key, call->at, &call->bit, &fix->err) : rc;
}

static enum rc set_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    if (rc == RC_OK)
        rc = bits_set(&key, call->at, call->bit, &call->old, &call->changed, &fix->err);
    return rc;
}

static enum rc count_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    return rc == RC_OK ? bits_count(&key, call->at, call->end, &call->result, &fix->err) : rc;
}

static enum rc find_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    if (rc == RC_OK)
        rc = bits_find(&key, call->bit, call->at, call->end, &call->result, &fix->err);
    return rc;
}

static enum rc fields_body(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    if (rc == RC_OK)
        rc = bits_fields_run(&key, call->field, call->count, &call->changed, &fix->err);
    return rc;
}

static enum rc combine_body(struct kv_fix *fix, void *arg)
{
    static const char *const names[SOURCES_MAX] = {"a", "b", "c", "none"};
    struct call *call = arg;
    struct key key[SOURCES_MAX];
    struct bytes result;
    bool cold = false;
    for (size_t i = 0; i < call->count; i++)
        cold |= open_key(fix, names[i], &key[i]) == RC_COLD;
    if (cold)
        return RC_COLD;
    uint64_t len;
    enum rc rc = bits_combined_len(key, call->count, &len, &fix->err);
    if (rc == RC_OK)
        rc = bits_combine(&fix->run, call->op, key, call->count, 0, len, &result, &fix->err);
    if (rc != RC_OK)
        return rc;
    call->got = mem_realloc(call->got, result.len);
    memcpy(call->got, result.ptr, result.len);
    call->got_len = result.len;
    return RC_OK;
}

static enum rc sources_body(struct kv_fix *fix, void *arg)
{
    const struct bytes *value = arg;
    const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct key key;
        enum rc rc = open_key(fix, names[i], &key);
        if (rc == RC_OK)
            rc = string_set(&key, value[i], 0, &fix->err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc len_body(struct kv_fix *fix, void *arg)
{
    struct key key;
    enum rc rc = open_key(fix, "k", &key);
    return rc == RC_OK ? string_len(&key, arg, &fix->err) : rc;
}

static void run(struct kv_fix *fix, enum rc (*body)(struct kv_fix *, void *), void *arg)
{
    ASSERT_OK(kv_fix_run(fix, body, arg), &fix->err);
}

static void value_set(struct kv_fix *fix, struct bytes value)
{
    struct call call = {.value = value};
    run(fix, value_body, &call);
}

static bool bit_get(struct kv_fix *fix, uint64_t at)
{
    struct call call = {.at = at};
    run(fix, get_body, &call);
    return call.bit;
}

static bool bit_set(struct kv_fix *fix, uint64_t at, bool bit)
{
    struct call call = {.at = at, .bit = bit};
    run(fix, set_body, &call);
    return call.old;
}

static uint64_t count(struct kv_fix *fix, uint64_t from, uint64_t end)
{
    struct call call = {.at = from, .end = end};
    run(fix, count_body, &call);
    return call.result;
}

static int64_t find(struct kv_fix *fix, bool bit, uint64_t from, uint64_t end)
{
    struct call call = {.at = from, .end = end, .bit = bit};
    enum rc rc = kv_fix_run(fix, find_body, &call);
    if (rc == RC_NOT_FOUND)
        return -1;
    ASSERT_OK(rc, &fix->err);
    return (int64_t)call.result;
}

static struct bits_field field_run(struct kv_fix *fix, struct bits_field field)
{
    struct call call = {.count = 1, .field = {field}};
    run(fix, fields_body, &call);
    return call.field[0];
}

static uint64_t len(struct kv_fix *fix)
{
    uint64_t found;
    run(fix, len_body, &found);
    return found;
}

/* ---- bits ---- */

TEST(bits_are_counted_from_the_highest_of_the_first_byte)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    ASSERT_FALSE(bit_get(&fix, 0));
    ASSERT_FALSE(bit_set(&fix, 7, true));
    ASSERT_TRUE(bit_get(&fix, 7));
    ASSERT_EQ(len(&fix), 1);
    ASSERT_TRUE(bit_set(&fix, 7, true));
    ASSERT_TRUE(bit_set(&fix, 7, false));
    ASSERT_FALSE(bit_get(&fix, 7));
    kv_fix_done(&fix);
}

TEST(bits_set_far_out_make_a_long_string_of_few_rows)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    uint64_t last = UINT64_C(8) * STRING_BYTES_MAX - 1;
    bit_set(&fix, 3, true);
    bit_set(&fix, last, true);
    kv_fix_freeze_out(&fix);
    ASSERT_TRUE(bit_get(&fix, 3));
    ASSERT_TRUE(bit_get(&fix, last));
    ASSERT_FALSE(bit_get(&fix, last - 1));
    ASSERT_FALSE(bit_get(&fix, last / 2));
    ASSERT_EQ(len(&fix), STRING_BYTES_MAX);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    ASSERT_EQ(count(&fix, 0, last + 1), 2);
    ASSERT_EQ(fix.cold_count, 2);
    ASSERT_EQ(find(&fix, true, 4, last + 1), last);
    kv_fix_done(&fix);
}

TEST(bits_set_as_they_were_change_nothing)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct call call = {.at = 9, .bit = false};
    run(&fix, set_body, &call);
    ASSERT_TRUE(call.changed); /* it grew */
    run(&fix, set_body, &call);
    ASSERT_FALSE(call.changed);
    call.bit = true;
    run(&fix, set_body, &call);
    ASSERT_TRUE(call.changed);
    kv_fix_done(&fix);
}

static bool model_bit(const uint8_t *bytes, uint64_t at)
{
    return bytes[at / 8] >> (7 - at % 8) & 1;
}

TEST(bits_counted_and_found_agree_with_one_by_one)
{
    struct kv_fix fix;
    struct rand rand;
    kv_fix_init(&fix);
    rand_init_seed(&rand, 3);
    enum { LEN_MAX = 3 * CHUNK, ROUNDS = 300 };
    uint8_t *bytes = mem_zalloc(LEN_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes_len = 1 + rand_below(&rand, round % 2 ? 20 : LEN_MAX);
        memset(bytes, rand_below(&rand, 2) ? 0xff : 0, bytes_len); /* long runs, few exceptions */
        for (uint64_t i = rand_below(&rand, 6); i > 0; i--)
            bytes[rand_below(&rand, bytes_len)] = (uint8_t)rand_u64(&rand);
        value_set(&fix, bytes_of(bytes, bytes_len));
        if (round % 7 == 0)
            kv_fix_freeze_out(&fix);
        uint64_t from = rand_below(&rand, 8 * bytes_len);
        uint64_t end = from + 1 + rand_below(&rand, 8 * bytes_len - from);
        uint64_t ones = 0;
        int64_t first[2] = {-1, -1};
        for (uint64_t at = end; at-- > from;) {
            ones += model_bit(bytes, at);
            first[model_bit(bytes, at)] = (int64_t)at;
        }
        ASSERT_EQ(count(&fix, from, end), ones);
        ASSERT_EQ(find(&fix, false, from, end), first[0]);
        ASSERT_EQ(find(&fix, true, from, end), first[1]);
    }
    mem_free(bytes);
    kv_fix_done(&fix);
}

/* ---- combining ---- */

static void assert_combined(struct kv_fix *fix, enum bits_op op, size_t source_count,
                            struct bytes expected)
{
    struct call call = {.op = op, .count = source_count};
    run(fix, combine_body, &call);
    ASSERT_BYTES(bytes_of(call.got, call.got_len), expected);
    mem_free(call.got);
}

TEST(bits_combined_are_as_long_as_the_longest)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    const struct bytes values[] = {BYTES("\xf0\x0f\xff"), BYTES("\xff\x01"),
                                   BYTES("\x81\x80\x01\x02\x03\x04\x05\x06\x07\x08")};
    run(&fix, sources_body, (void *)(uintptr_t)values);
    assert_combined(&fix, BITS_AND, 2, BYTES("\xf0\x01\x00"));
    assert_combined(&fix, BITS_OR, 2, BYTES("\xff\x0f\xff"));
    assert_combined(&fix, BITS_XOR, 2, BYTES("\x0f\x0e\xff"));
    assert_combined(&fix, BITS_NOT, 1, BYTES("\x0f\xf0\x00"));
    assert_combined(&fix, BITS_OR, 3, BYTES("\xff\x8f\xff\x02\x03\x04\x05\x06\x07\x08"));
    assert_combined(&fix, BITS_AND, 3, BYTES("\x80\0\0\0\0\0\0\0\0\0"));
    assert_combined(&fix, BITS_AND, 4, BYTES("\0\0\0\0\0\0\0\0\0\0"));
    kv_fix_done(&fix);
}

TEST(bits_of_long_cold_strings_are_combined_after_two_loads)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    enum { LEN = 20 * CHUNK + 3 };
    uint8_t *a = mem_zalloc(LEN), *b = mem_zalloc(LEN), *both = mem_zalloc(LEN);
    for (size_t i = 0; i < LEN; i++) {
        a[i] = (uint8_t)(i * 31);
        b[i] = i < LEN / 2 ? (uint8_t)(i / 7) : 0;
        both[i] = a[i] ^ b[i];
    }
    const struct bytes values[] = {bytes_of(a, LEN), bytes_of(b, LEN / 2), BYTES("")};
    run(&fix, sources_body, (void *)(uintptr_t)values);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    assert_combined(&fix, BITS_XOR, 4, bytes_of(both, LEN));
    ASSERT_EQ(fix.cold_count, 2); /* the meta rows, then all chunks */
    mem_free(a);
    mem_free(b);
    mem_free(both);
    kv_fix_done(&fix);
}

/* ---- fields ---- */

static struct bits_field field_of(enum bits_field_op op, bool is_signed, unsigned bits, uint64_t at,
                                  int64_t value, enum bits_overflow overflow)
{
    return (struct bits_field){.op = op,
                               .is_signed = is_signed,
                               .bits = bits,
                               .at = at,
                               .value = value,
                               .overflow = overflow};
}

TEST(bits_field_got_from_nothing_is_zero_and_makes_no_key)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bits_field field =
        field_run(&fix, field_of(BITS_FIELD_GET, true, 64, 1000, 0, BITS_WRAP));
    ASSERT_EQ(field.result, 0);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    kv_fix_done(&fix);
}

TEST(bits_field_overflows_as_it_was_told)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    const struct {
        bool is_signed;
        unsigned bits;
        int64_t old, delta;
        int64_t wrapped, saturated;
    } cases[] = {
        {false, 8, 250, 10, 4, 255},
        {false, 8, 5, -10, 251, 0},
        {false, 63, INT64_MAX, 1, 0, INT64_MAX},
        {false, 1, 1, 1, 0, 1},
        {true, 8, 127, 1, -128, 127},
        {true, 8, -128, -1, 127, -128},
        {true, 1, 0, 1, -1, 0},
        {true, 1, -1, -1, 0, -1},
        {true, 64, INT64_MAX, 1, INT64_MIN, INT64_MAX},
        {true, 64, INT64_MIN, -1, INT64_MAX, INT64_MIN},
        {true, 63, INT64_MIN / 2, INT64_MIN, INT64_MIN / 2, INT64_MIN / 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool is_signed = cases[i].is_signed;
        unsigned bits = cases[i].bits;
        for (unsigned overflow = BITS_WRAP; overflow <= BITS_FAIL; overflow++) {
            field_run(&fix, field_of(BITS_FIELD_SET, is_signed, bits, 3, cases[i].old, BITS_WRAP));
            struct bits_field got = field_run(
                &fix, field_of(BITS_FIELD_ADD, is_signed, bits, 3, cases[i].delta, overflow));
            ASSERT_EQ(got.failed, overflow == BITS_FAIL);
            if (overflow == BITS_WRAP)
                ASSERT_EQ(got.result, cases[i].wrapped);
            if (overflow == BITS_SATURATE)
                ASSERT_EQ(got.result, cases[i].saturated);
            got = field_run(&fix, field_of(BITS_FIELD_GET, is_signed, bits, 3, 0, BITS_WRAP));
            ASSERT_EQ(got.result, overflow == BITS_WRAP       ? cases[i].wrapped
                                  : overflow == BITS_SATURATE ? cases[i].saturated
                                                              : cases[i].old);
        }
    }
    kv_fix_done(&fix);
}

TEST(bits_field_that_fails_still_grows_the_string)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bits_field field =
        field_run(&fix, field_of(BITS_FIELD_SET, false, 8, 80, 300, BITS_FAIL));
    ASSERT_TRUE(field.failed);
    ASSERT_EQ(len(&fix), 11);
    kv_fix_done(&fix);
}

TEST(bits_fields_across_chunks_are_loaded_together)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    enum { FAR = 8 * 5 * CHUNK };
    struct call call = {
        .count = 3,
        .field = {field_of(BITS_FIELD_SET, true, 64, 8 * CHUNK - 20, -12345678901234, BITS_WRAP),
                  field_of(BITS_FIELD_SET, false, 63, FAR - 31, 987654321098, BITS_WRAP),
                  field_of(BITS_FIELD_ADD, true, 9, 5, -17, BITS_WRAP)}};
    run(&fix, fields_body, &call);
    kv_fix_freeze_out(&fix);
    for (size_t i = 0; i < call.count; i++)
        call.field[i].op = BITS_FIELD_GET;
    fix.cold_count = 0;
    run(&fix, fields_body, &call);
    ASSERT_EQ(fix.cold_count, 2);
    ASSERT_FALSE(call.changed);
    ASSERT_EQ(call.field[0].result, -12345678901234);
    ASSERT_EQ(call.field[1].result, 987654321098);
    ASSERT_EQ(call.field[2].result, -17);
    kv_fix_done(&fix);
}

static uint64_t model_field(const uint8_t *bytes, const struct bits_field *field)
{
    uint64_t value = 0;
    for (uint64_t at = field->at; at < field->at + field->bits; at++)
        value = value << 1 | model_bit(bytes, at);
    return value;
}

static void model_field_set(uint8_t *bytes, const struct bits_field *field, uint64_t value)
{
    for (unsigned i = 0; i < field->bits; i++) {
        uint64_t at = field->at + field->bits - 1 - i;
        bytes[at / 8] =
            (uint8_t)((bytes[at / 8] & ~(0x80u >> (at % 8))) | (value >> i & 1) << (7 - at % 8));
    }
}

TEST(bits_fields_wrap_like_bits_set_one_by_one)
{
    struct kv_fix fix;
    struct rand rand;
    kv_fix_init(&fix);
    rand_init_seed(&rand, 11);
    enum { LEN_MAX = 3 * CHUNK, ROUNDS = 400 };
    uint8_t *bytes = mem_zalloc(LEN_MAX + 16);
    for (int round = 0; round < ROUNDS; round++) {
        struct call call = {.count = FIELDS_MAX};
        uint64_t expected[FIELDS_MAX];
        for (size_t i = 0; i < FIELDS_MAX; i++) {
            struct bits_field *field = &call.field[i];
            bool is_signed = rand_below(&rand, 2);
            unsigned bits = 1 + (unsigned)rand_below(&rand, is_signed ? 64 : 63);
            uint64_t at = rand_below(&rand, 8 * (round % 3 ? LEN_MAX : 24));
            *field = field_of((enum bits_field_op)rand_below(&rand, 3), is_signed, bits, at,
                              (int64_t)rand_u64(&rand) >> rand_below(&rand, 64), BITS_WRAP);
            uint64_t mask = UINT64_MAX >> (64 - bits), old = model_field(bytes, field);
            uint64_t new = (field->op == BITS_FIELD_ADD ? old : 0) + (uint64_t)field->value;
            if (field->op != BITS_FIELD_GET)
                model_field_set(bytes, field, new);
            expected[i] = field->op == BITS_FIELD_ADD ? new &mask : old;
        }
        if (round % 5 == 0)
            kv_fix_freeze_out(&fix);
        run(&fix, fields_body, &call);
        for (size_t i = 0; i < FIELDS_MAX; i++) {
            uint64_t mask = UINT64_MAX >> (64 - call.field[i].bits);
            ASSERT_EQ((uint64_t)call.field[i].result & mask, expected[i]);
        }
    }
    mem_free(bytes);
    kv_fix_done(&fix);
}

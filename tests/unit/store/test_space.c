// SPDX-License-Identifier: Apache-2.0
#include "store/engine/space.h"

#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

enum { WHOLE = 1, FIXED = 2, LENGTH = 3, LAST = 254 };

static enum space_packed pack_copy(struct bytes group, struct bytes suffix, struct bytes value,
                                   struct buf *to)
{
    (void)group;
    (void)suffix;
    return space_packed(buf_add_bytes(to, value));
}

static enum space_packed pack_same(struct bytes group, struct bytes suffix, struct bytes value,
                                   struct buf *to)
{
    (void)group;
    (void)suffix;
    (void)value;
    (void)to;
    return SPACE_PACKED_SAME;
}

TEST(a_value_that_packing_does_not_change_is_not_copied)
{
    const struct store_space none = {0}, same = {.pack = pack_same, .unpack = pack_same},
                             copy = {.pack = pack_copy, .unpack = pack_copy};
    CLEANUP(buf_done) struct buf scratch;
    struct bytes value = BYTES("value"), other;
    buf_init(&scratch, value.len);
    ASSERT_TRUE(space_pack(&none, BYTES(""), BYTES(""), value, &scratch, &other));
    ASSERT_EQ(other.ptr, value.ptr);
    ASSERT_TRUE(space_unpack(&same, BYTES(""), BYTES(""), value, &scratch, &other));
    ASSERT_EQ(other.ptr, value.ptr);
    ASSERT_TRUE(space_pack(&copy, BYTES(""), BYTES(""), value, &scratch, &other));
    ASSERT_NE(other.ptr, value.ptr);
    ASSERT_BYTES(other, value);
    ASSERT_FALSE(space_pack(&copy, BYTES(""), BYTES(""), BYTES("longer"), &scratch, &other));
}

static void set_make(struct space_set *set)
{
    static const struct store_space spaces[] = {
        {.number = WHOLE, .kind = SPACE_WHOLE, .name = "whole"},
        {.number = FIXED, .kind = SPACE_FIXED, .fixed_bytes = 4, .name = "fixed"},
        {.number = LENGTH, .kind = SPACE_LENGTH, .name = "length"},
        {.number = LAST, .kind = SPACE_FIXED, .fixed_bytes = 2, .name = "last"},
    };
    struct err err = {0};
    space_set_init(set);
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        ASSERT_OK(space_set_add(set, &spaces[i], &err), &err);
}

static struct buf key_of(const struct space_set *set, uint8_t space, struct bytes group,
                         struct bytes suffix)
{
    struct buf key;
    buf_init(&key, 1 << 20);
    ASSERT_TRUE(space_key_add(set, space, group, suffix, &key));
    return key;
}

struct range {
    struct buf from;
    struct buf to;
};

static struct range range_of(const struct space_set *set, uint8_t space, struct bytes group)
{
    struct range range;
    buf_init(&range.from, 1 << 20);
    buf_init(&range.to, 1 << 20);
    ASSERT_TRUE(space_group_range_add(set, space, group, &range.from, &range.to));
    return range;
}

static void range_done(struct range *range)
{
    buf_done(&range->from);
    buf_done(&range->to);
}

static bool range_has(const struct range *range, struct bytes key)
{
    return bytes_cmp(buf_bytes(&range->from), key) <= 0 &&
           bytes_cmp(key, buf_bytes(&range->to)) < 0;
}

TEST(a_new_set_has_the_sys_space_only)
{
    struct space_set set;
    struct err err;
    space_set_init(&set);
    ASSERT_RC(space_check(&set, SPACE_SYS, BYTES("mark"), BYTES(""), &err), RC_OK);
    for (int i = 1; i < STORE_SPACES_MAX; i++)
        ASSERT_RC(space_check(&set, (uint8_t)i, BYTES("a"), BYTES(""), &err), RC_INVALID);
}

TEST(add_refuses_what_cannot_be_a_space)
{
    static const struct store_space bad[] = {
        {.number = 0, .kind = SPACE_WHOLE, .name = "zero"},
        {.number = 255, .kind = SPACE_WHOLE, .name = "no_next"},
        {.number = 1, .kind = SPACE_NONE, .name = "none"},
        {.number = 1, .kind = (enum space_kind)9, .name = "nine"},
        {.number = 1, .kind = SPACE_FIXED, .fixed_bytes = 0, .name = "short"},
        {.number = 1, .kind = SPACE_WHOLE, .fixed_bytes = 3, .name = "whole"},
        {.number = 1, .kind = SPACE_LENGTH, .fixed_bytes = 3, .name = "length"},
        {.number = 1, .kind = SPACE_WHOLE, .name = ""},
        {.number = 1, .kind = SPACE_WHOLE, .name = "p", .pack = pack_copy},
        {.number = 1, .kind = SPACE_WHOLE, .name = "u", .unpack = pack_copy},
    };
    struct space_set set;
    struct err err;
    space_set_init(&set);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ASSERT_RC(space_set_add(&set, &bad[i], &err), RC_INVALID);
    struct store_space endless = {.number = 1, .kind = SPACE_WHOLE};
    memset(endless.name, 'x', sizeof endless.name);
    ASSERT_RC(space_set_add(&set, &endless, &err), RC_INVALID);
    ASSERT_EQ(set.space[1].kind, SPACE_NONE);
}

TEST(add_accepts_the_same_declaration_again_and_no_other)
{
    struct space_set set;
    struct err err;
    struct store_space space = {
        .number = 9, .kind = SPACE_FIXED, .fixed_bytes = 255, .name = "nine"};
    space_set_init(&set);
    ASSERT_RC(space_set_add(&set, &space, &err), RC_OK);
    ASSERT_RC(space_set_add(&set, &space, &err), RC_OK);
    space.fixed_bytes = 254;
    ASSERT_RC(space_set_add(&set, &space, &err), RC_INVALID);
    space = (struct store_space){.number = 9, .kind = SPACE_WHOLE, .name = "nine"};
    ASSERT_RC(space_set_add(&set, &space, &err), RC_INVALID);
    ASSERT_EQ(set.space[9].fixed_bytes, 255);
}

TEST(check_knows_kinds_and_limits)
{
    struct space_set set;
    struct err err;
    size_t big_len = STORE_SUFFIX_BYTES_MAX + 1;
    struct bytes big = bytes_of(mem_zalloc(big_len), big_len);
    set_make(&set);
    ASSERT_RC(space_check(&set, WHOLE, BYTES(""), BYTES(""), &err), RC_OK);
    ASSERT_RC(space_check(&set, WHOLE, BYTES("a"), BYTES("b"), &err), RC_INVALID);
    ASSERT_RC(space_check(&set, WHOLE, bytes_of(big.ptr, 65536 + 255), BYTES(""), &err), RC_OK);
    ASSERT_RC(space_check(&set, WHOLE, bytes_of(big.ptr, 65536 + 256), BYTES(""), &err),
              RC_TOO_BIG);
    ASSERT_RC(space_check(&set, FIXED, BYTES("abcd"), BYTES(""), &err), RC_OK);
    ASSERT_RC(space_check(&set, FIXED, BYTES("abc"), BYTES(""), &err), RC_INVALID);
    ASSERT_RC(space_check(&set, FIXED, BYTES("abcde"), BYTES(""), &err), RC_INVALID);
    ASSERT_RC(space_check(&set, FIXED, BYTES("abcd"), bytes_of(big.ptr, big.len - 1), &err), RC_OK);
    ASSERT_RC(space_check(&set, FIXED, BYTES("abcd"), big, &err), RC_TOO_BIG);
    ASSERT_RC(space_check(&set, LENGTH, BYTES(""), BYTES("x"), &err), RC_OK);
    ASSERT_RC(space_check(&set, LENGTH, bytes_of(big.ptr, 255), BYTES("x"), &err), RC_OK);
    ASSERT_RC(space_check(&set, LENGTH, bytes_of(big.ptr, 256), BYTES("x"), &err), RC_TOO_BIG);
    ASSERT_RC(space_check(&set, 99, BYTES("a"), BYTES(""), &err), RC_INVALID);
    mem_free((void *)(uintptr_t)big.ptr);
}

TEST(keys_look_as_the_header_draws_them)
{
    struct space_set set;
    set_make(&set);
    struct buf whole = key_of(&set, WHOLE, BYTES("abc"), BYTES(""));
    struct buf fixed = key_of(&set, FIXED, BYTES("abcd"), BYTES("ef"));
    struct buf length = key_of(&set, LENGTH, BYTES("abc"), BYTES("ef"));
    ASSERT_BYTES(buf_bytes(&whole), BYTES("\x01"
                                          "abc"));
    ASSERT_BYTES(buf_bytes(&fixed), BYTES("\x02"
                                          "abcdef"));
    ASSERT_BYTES(buf_bytes(&length), BYTES("\x03\x03"
                                           "abcef"));
    buf_done(&whole);
    buf_done(&fixed);
    buf_done(&length);
}

TEST(a_full_buffer_is_told_and_left_alone)
{
    struct space_set set;
    struct buf small, room;
    set_make(&set);
    buf_init(&small, 6);
    buf_init(&room, 100);
    ASSERT_FALSE(space_key_add(&set, FIXED, BYTES("abcd"), BYTES("ef"), &small));
    ASSERT_EQ(small.len, 0);
    ASSERT_TRUE(space_key_add(&set, FIXED, BYTES("abcd"), BYTES("e"), &small));
    ASSERT_FALSE(space_group_range_add(&set, FIXED, BYTES("abcd"), &room, &small));
    ASSERT_EQ(room.len, 0);
    buf_done(&small);
    buf_done(&room);
}

TEST(successor_is_the_next_prefix)
{
    struct buf to;
    buf_init(&to, 100);
    ASSERT_TRUE(space_successor_add(BYTES("ab"), &to));
    ASSERT_BYTES(buf_bytes(&to), BYTES("ac"));
    buf_cut(&to, 0);
    ASSERT_TRUE(space_successor_add(BYTES("a\xff\xff"), &to));
    ASSERT_BYTES(buf_bytes(&to), BYTES("b"));
    ASSERT_FALSE(space_successor_add(BYTES("\xff\xff"), &to));
    ASSERT_FALSE(space_successor_add(BYTES(""), &to));
    ASSERT_BYTES(buf_bytes(&to), BYTES("b"));
    buf_done(&to);
}

TEST(a_group_of_last_bytes_ends_where_the_next_begins)
{
    static uint8_t ff[255];
    struct space_set set;
    memset(ff, 0xff, sizeof ff);
    set_make(&set);
    struct range fixed = range_of(&set, FIXED, bytes_of(ff, 4));
    struct range last = range_of(&set, LAST, bytes_of(ff, 2));
    struct range length = range_of(&set, LENGTH, bytes_of(ff, 7));
    struct range longest = range_of(&set, LENGTH, bytes_of(ff, 255));
    struct range whole = range_of(&set, WHOLE, bytes_of(ff, 3));
    ASSERT_BYTES(buf_bytes(&fixed.to), BYTES("\x03"));
    ASSERT_BYTES(buf_bytes(&last.to), BYTES("\xff"));
    ASSERT_BYTES(buf_bytes(&length.to), BYTES("\x03\x08"));
    ASSERT_BYTES(buf_bytes(&longest.to), BYTES("\x04"));
    ASSERT_BYTES(buf_bytes(&whole.to), BYTES("\x01\xff\xff\xff\x00"));
    range_done(&fixed);
    range_done(&last);
    range_done(&length);
    range_done(&longest);
    range_done(&whole);
}

/* Few different bytes, so that groups are prefixes of one another and meet the ends. */
static struct bytes random_bytes(struct rand *rand, uint8_t *to, size_t len)
{
    static const uint8_t some[] = {0, 1, 2, 'a', 0xfe, 0xff};
    for (size_t i = 0; i < len; i++)
        to[i] = some[rand_below(rand, ARRAY_LEN(some))];
    return bytes_of(to, len);
}

static uint8_t random_group(struct rand *rand, uint8_t *to, struct bytes *ret_group)
{
    static const uint8_t spaces[] = {SPACE_SYS, WHOLE, FIXED, LENGTH, LAST};
    uint8_t space = spaces[rand_below(rand, ARRAY_LEN(spaces))];
    size_t len = rand_below(rand, 6);
    if (space == FIXED)
        len = 4;
    if (space == LAST)
        len = 2;
    *ret_group = random_bytes(rand, to, len);
    return space;
}

TEST(random_keys_come_back_and_lie_in_their_group_only)
{
    struct space_set set;
    struct rand rand;
    struct err err;
    uint8_t bytes[3][8];
    set_make(&set);
    rand_init_seed(&rand, 7);
    for (int i = 0; i < 20000; i++) {
        struct bytes group, other, suffix, got_group, got_suffix;
        uint8_t got_space = 99;
        uint8_t space = random_group(&rand, bytes[0], &group);
        uint8_t other_space = random_group(&rand, bytes[1], &other);
        bool has_suffix = set.space[space].kind != SPACE_WHOLE;
        suffix = random_bytes(&rand, bytes[2], has_suffix ? rand_below(&rand, 5) : 0);
        ASSERT_RC(space_check(&set, space, group, suffix, &err), RC_OK);
        struct buf key = key_of(&set, space, group, suffix);
        ASSERT_RC(space_key_split(&set, buf_bytes(&key), &got_space, &got_group, &got_suffix, &err),
                  RC_OK);
        ASSERT_EQ(got_space, space);
        ASSERT_BYTES(got_group, group);
        ASSERT_BYTES(got_suffix, suffix);
        ASSERT_EQ(space_group_len(&set, buf_bytes(&key)), key.len - suffix.len);
        struct range own = range_of(&set, space, group);
        struct range foreign = range_of(&set, other_space, other);
        bool same = space == other_space && bytes_eq(group, other);
        ASSERT_TRUE(range_has(&own, buf_bytes(&key)));
        ASSERT_EQ(range_has(&foreign, buf_bytes(&key)), same);
        bool apart = bytes_cmp(buf_bytes(&own.to), buf_bytes(&foreign.from)) <= 0 ||
                     bytes_cmp(buf_bytes(&foreign.to), buf_bytes(&own.from)) <= 0;
        ASSERT_EQ(apart, !same);
        range_done(&own);
        range_done(&foreign);
        buf_done(&key);
    }
}

TEST(hostile_keys_are_corrupt_and_their_group_is_inside)
{
    struct space_set set;
    struct rand rand;
    struct err err;
    struct bytes group, suffix;
    uint8_t space;
    set_make(&set);
    ASSERT_RC(space_key_split(&set, BYTES(""), &space, &group, &suffix, &err), RC_CORRUPT);
    ASSERT_RC(space_key_split(&set,
                              BYTES("\x09"
                                    "a"),
                              &space, &group, &suffix, &err),
              RC_CORRUPT);
    ASSERT_RC(space_key_split(&set,
                              BYTES("\x02"
                                    "abc"),
                              &space, &group, &suffix, &err),
              RC_CORRUPT);
    ASSERT_RC(space_key_split(&set, BYTES("\x03"), &space, &group, &suffix, &err), RC_CORRUPT);
    ASSERT_RC(space_key_split(&set,
                              BYTES("\x03\x02"
                                    "a"),
                              &space, &group, &suffix, &err),
              RC_CORRUPT);
    ASSERT_EQ(space_group_len(&set, BYTES("")), 0);
    ASSERT_EQ(space_group_len(&set, BYTES("\x09"
                                          "abc")),
              4);
    ASSERT_EQ(space_group_len(&set, BYTES("\x03\xff"
                                          "abc")),
              5);
    rand_init_seed(&rand, 8);
    for (int i = 0; i < 20000; i++) {
        uint8_t raw[16];
        struct bytes key = bytes_of(raw, rand_below(&rand, sizeof raw));
        rand_bytes(&rand, raw, sizeof raw);
        raw[0] %= 5;
        size_t len = space_group_len(&set, key);
        ASSERT_LE(len, key.len);
        ASSERT_EQ(space_group_len(&set, bytes_of(raw, len)), len);
        enum rc rc = space_key_split(&set, key, &space, &group, &suffix, &err);
        ASSERT_TRUE(rc == RC_OK || rc == RC_CORRUPT);
        if (rc == RC_OK)
            ASSERT_EQ(len + suffix.len, key.len);
    }
}

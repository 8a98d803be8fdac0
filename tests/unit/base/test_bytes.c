// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include "test.h"

#include "base/banned.h"

TEST(a_prefix_sorts_before_what_it_is_a_prefix_of)
{
    ASSERT_LT(bytes_cmp(BYTES("a"), BYTES("ab")), 0);
    ASSERT_GT(bytes_cmp(BYTES("b"), BYTES("ab")), 0);
    ASSERT_EQ(bytes_cmp(BYTES("ab"), BYTES("ab")), 0);
    ASSERT_LT(bytes_cmp(BYTES(""), BYTES("a")), 0);
    ASSERT_LT(bytes_cmp(BYTES("\x7f"), BYTES("\x80")), 0);
}

TEST(nothing_is_equal_to_nothing_whatever_it_points_to)
{
    ASSERT_TRUE(bytes_eq(bytes_of(NULL, 0), BYTES("")));
    ASSERT_EQ(bytes_cmp(bytes_of(NULL, 0), BYTES("")), 0);
    ASSERT_TRUE(bytes_start_with(BYTES("a"), bytes_of(NULL, 0)));
}

TEST(nul_is_a_byte_like_others)
{
    ASSERT_FALSE(bytes_eq(BYTES("a\0b"), BYTES("a\0c")));
    ASSERT_TRUE(bytes_start_with(BYTES("a\0b"), BYTES("a\0")));
    ASSERT_FALSE(bytes_start_with(BYTES("a"), BYTES("a\0")));
    ASSERT_EQ(bytes_shared_len(BYTES("a\0bc"), BYTES("a\0bd")), 3);
    ASSERT_BYTES(bytes_from(BYTES("a\0b"), 1), BYTES("\0b"));
}

TEST(a_difference_in_any_byte_of_any_length_is_seen)
{
    uint8_t a[48], b[48];
    for (size_t len = 0; len <= sizeof a; len++) {
        for (size_t i = 0; i < len; i++)
            a[i] = b[i] = (uint8_t)(i * 37);
        ASSERT_TRUE(bytes_eq(bytes_of(a, len), bytes_of(b, len)));
        ASSERT_TRUE(bytes_start_with(bytes_of(a, len), bytes_of(b, len / 2)));
        for (size_t i = 0; i < len; i++) {
            b[i] ^= 0x80;
            ASSERT_FALSE(bytes_eq(bytes_of(a, len), bytes_of(b, len)));
            ASSERT_EQ(bytes_start_with(bytes_of(a, len), bytes_of(b, len / 2)), i >= len / 2);
            b[i] ^= 0x80;
        }
    }
}

TEST(a_move_takes_any_length_to_any_place_near_it)
{
    enum { LEN_MAX = 48, ROOM = 3 * LEN_MAX };
    for (size_t len = 0; len <= LEN_MAX; len++) {
        for (size_t to = 0; to + len <= ROOM; to++) {
            uint8_t moved[ROOM], expected[ROOM];
            for (size_t i = 0; i < ROOM; i++)
                moved[i] = expected[i] = (uint8_t)(i * 37);
            memmove(expected + to, expected + LEN_MAX, len);
            bytes_move(moved + to, moved + LEN_MAX, len);
            ASSERT_BYTES(bytes_of(moved, ROOM), bytes_of(expected, ROOM));
        }
    }
    bytes_move(NULL, NULL, 0);
}

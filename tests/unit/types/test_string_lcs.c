// SPDX-License-Identifier: Apache-2.0
/* test_string_lcs.c - the longest common subsequence. */
#include "types/string_lcs.h"

#include "base/rand.h"
#include "test.h"
#include "types/string.h"

#include "base/banned.h"

TEST(lcs_gives_its_matches_from_the_end)
{
    struct arena arena;
    struct err err = {0};
    struct lcs lcs;
    struct lcs_match match;
    arena_init(&arena);
    ASSERT_OK(lcs_init(&lcs, &arena, BYTES("ohmytext"), BYTES("mynewtext"), &err), &err);
    ASSERT_EQ(lcs_len(&lcs), 6);
    ASSERT_TRUE(lcs_next(&lcs, &match));
    ASSERT_EQ(match.a_from, 4);
    ASSERT_EQ(match.b_from, 5);
    ASSERT_EQ(match.len, 4);
    ASSERT_TRUE(lcs_next(&lcs, &match));
    ASSERT_EQ(match.a_from, 2);
    ASSERT_EQ(match.b_from, 0);
    ASSERT_EQ(match.len, 2);
    ASSERT_FALSE(lcs_next(&lcs, &match));
    arena_done(&arena);
}

TEST(lcs_with_an_empty_string_is_empty)
{
    struct arena arena;
    struct err err = {0};
    struct lcs lcs;
    struct lcs_match match;
    arena_init(&arena);
    ASSERT_OK(lcs_init(&lcs, &arena, BYTES(""), BYTES("abc"), &err), &err);
    ASSERT_EQ(lcs_len(&lcs), 0);
    ASSERT_FALSE(lcs_next(&lcs, &match));
    arena_done(&arena);
}

TEST(lcs_over_the_limit_is_refused)
{
    struct err err = {0};
    ASSERT_OK(lcs_check(11584, 11584, &err), &err);
    ASSERT_RC(lcs_check(11585, 11585, &err), RC_INVALID);
    ASSERT_RC(lcs_check(STRING_BYTES_MAX, STRING_BYTES_MAX, &err), RC_INVALID);
}

TEST(lcs_matches_add_up_to_its_length_and_are_in_both)
{
    struct rand rand;
    struct arena arena;
    struct err err = {0};
    rand_init_seed(&rand, 5);
    arena_init(&arena);
    for (int round = 0; round < 300; round++) {
        uint8_t a[40], b[40];
        struct bytes a_text = bytes_of(a, rand_below(&rand, sizeof a));
        struct bytes b_text = bytes_of(b, rand_below(&rand, sizeof b));
        for (size_t i = 0; i < sizeof a; i++) {
            a[i] = (uint8_t)('a' + rand_below(&rand, 3));
            b[i] = (uint8_t)('a' + rand_below(&rand, 3));
        }
        struct lcs lcs;
        struct lcs_match match, later = {.a_from = a_text.len, .b_from = b_text.len};
        size_t total = 0;
        ASSERT_OK(lcs_init(&lcs, &arena, a_text, b_text, &err), &err);
        while (lcs_next(&lcs, &match)) {
            ASSERT_LE(match.a_from + match.len, later.a_from);
            ASSERT_LE(match.b_from + match.len, later.b_from);
            ASSERT_BYTES(bytes_of(a + match.a_from, match.len),
                         bytes_of(b + match.b_from, match.len));
            total += match.len;
            later = match;
        }
        ASSERT_EQ(total, lcs_len(&lcs));
        arena_clear(&arena);
    }
    arena_done(&arena);
}

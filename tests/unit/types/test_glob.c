// SPDX-License-Identifier: Apache-2.0
#include "types/glob.h"

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

static bool match(const char *pattern, const char *text)
{
    return glob_match(bytes_of(pattern, strlen(pattern)), bytes_of(text, strlen(text)), false);
}

static bool match_nocase(const char *pattern, const char *text)
{
    return glob_match(bytes_of(pattern, strlen(pattern)), bytes_of(text, strlen(text)), true);
}

TEST(a_plain_pattern_matches_itself_only)
{
    ASSERT_TRUE(match("key", "key"));
    ASSERT_FALSE(match("key", "keys"));
    ASSERT_FALSE(match("keys", "key"));
    ASSERT_FALSE(match("key", "KEY"));
    ASSERT_TRUE(match_nocase("key", "KEY"));
}

TEST(a_star_matches_any_bytes)
{
    ASSERT_TRUE(match("*", "anything"));
    ASSERT_TRUE(match("a*", "a"));
    ASSERT_TRUE(match("a**", "a"));
    ASSERT_TRUE(match("*a", "bca"));
    ASSERT_TRUE(match("a*b*c", "a--b--b--c"));
    ASSERT_FALSE(match("a*b*c", "a--c--b"));
    ASSERT_TRUE(match("*ab", "aab"));
    ASSERT_TRUE(match("foo*bar*", "foobar"));
}

TEST(a_question_mark_matches_one_byte)
{
    ASSERT_TRUE(match("h?llo", "hello"));
    ASSERT_FALSE(match("h?llo", "hllo"));
    ASSERT_FALSE(match("?", ""));
    ASSERT_TRUE(match("*?", "a"));
}

TEST(a_class_matches_one_of_its_bytes)
{
    ASSERT_TRUE(match("h[ae]llo", "hallo"));
    ASSERT_FALSE(match("h[ae]llo", "hillo"));
    ASSERT_TRUE(match("h[^e]llo", "hallo"));
    ASSERT_FALSE(match("h[^e]llo", "hello"));
    ASSERT_TRUE(match("h[a-c]llo", "hbllo"));
    ASSERT_TRUE(match("h[c-a]llo", "hbllo"));
    ASSERT_TRUE(match("[\\]]", "]"));
    ASSERT_TRUE(match("[\\-x]", "-"));
    ASSERT_TRUE(match_nocase("h[a-c]llo", "hBllo"));
    ASSERT_FALSE(match("[a-]", "-")); /* from ']' to 'a' */
    ASSERT_TRUE(match("[a-]", "_"));
}

TEST(an_open_class_ends_with_the_pattern)
{
    ASSERT_FALSE(match("[", "a"));
    ASSERT_TRUE(match("[a", "a"));
    ASSERT_TRUE(match("[^", "a"));
    ASSERT_FALSE(match("[a-", "b"));
    ASSERT_TRUE(match("x[ab\\", "xa"));
    ASSERT_TRUE(match("[\\", "\\"));
}

TEST(a_backslash_takes_the_next_byte_as_it_is)
{
    ASSERT_TRUE(match("\\*", "*"));
    ASSERT_FALSE(match("\\*", "a"));
    ASSERT_TRUE(match("a\\", "a\\"));
    ASSERT_TRUE(match("\\a", "a"));
}

TEST(bytes_of_a_range_are_signed)
{
    ASSERT_TRUE(match("[a-\xff]", "A")); /* -1..97 */
    ASSERT_FALSE(match("[a-\xff]", "b"));
    ASSERT_TRUE(match("[\x80-\xff]", "\xc3"));
}

TEST(an_empty_text_is_matched_by_the_empty_pattern_only)
{
    ASSERT_TRUE(match("", ""));
    ASSERT_FALSE(match("*", ""));
    ASSERT_FALSE(match("", "a"));
    ASSERT_TRUE(glob_is_all(BYTES("*")));
    ASSERT_FALSE(glob_is_all(BYTES("**")));
}

TEST(zero_bytes_are_bytes)
{
    ASSERT_TRUE(glob_match(BYTES("a\0*"), BYTES("a\0b"), false));
    ASSERT_FALSE(glob_match(BYTES("a\0c"), BYTES("a\0b"), false));
}

TEST(many_stars_take_no_longer_than_pattern_times_text)
{
    char pattern[4001], text[8001];
    for (size_t i = 0; i < 4000; i += 2)
        memcpy(pattern + i, "a*", 2);
    memcpy(pattern + 3999, "b", 2);
    memset(text, 'a', 8000);
    text[8000] = 0;
    ASSERT_FALSE(match(pattern, text));
}

/* The definition, without classes: short texts only. */
static bool naive(const char *pattern, const char *text)
{
    if (*pattern == 0)
        return *text == 0;
    if (*pattern == '*')
        return naive(pattern + 1, text) || (*text && naive(pattern, text + 1));
    return *text && (*pattern == '?' || *pattern == *text) && naive(pattern + 1, text + 1);
}

TEST(random_patterns_match_what_the_definition_says)
{
    static const char letters[] = "ab*?";
    struct rand rand;
    rand_init_seed(&rand, 7);
    for (int round = 0; round < 100000; round++) {
        char pattern[8] = "", text[10] = "";
        size_t pattern_len = rand_below(&rand, 7), text_len = 1 + rand_below(&rand, 8);
        for (size_t i = 0; i < pattern_len; i++)
            pattern[i] = letters[rand_below(&rand, 4)];
        for (size_t i = 0; i < text_len; i++)
            text[i] = letters[rand_below(&rand, 2)];
        ASSERT_EQ(match(pattern, text), naive(pattern, text));
    }
}

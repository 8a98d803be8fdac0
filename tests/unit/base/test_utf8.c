// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include "test.h"

#include "base/banned.h"

static size_t count(const char *text)
{
    return utf8_count(bytes_of(text, strlen(text)));
}

TEST(characters_of_every_length_are_counted)
{
    ASSERT_EQ(utf8_count(BYTES("")), 0);
    ASSERT_EQ(count("abc"), 3);
    ASSERT_EQ(count("\xc3\xa9t\xc3\xa9"), 3);
    ASSERT_EQ(count("\xe4\xb8\xad\xe6\x96\x87"), 2);
    ASSERT_EQ(count("\xf0\x9f\x98\x80"), 1);
    ASSERT_EQ(utf8_count(BYTES("a\0b")), 3);
}

TEST(the_limits_of_each_length_are_valid)
{
    ASSERT_EQ(count("\xc2\x80\xdf\xbf"), 2);
    ASSERT_EQ(count("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"), 4);
    ASSERT_EQ(count("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), 2);
}

TEST(what_no_encoder_writes_is_refused)
{
    static const char *const bad[] = {
        "\x80",             /* begins with a continuation */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3",
        "\xe4\xb8",
        "\xf0\x9f\x98",
        "\xc3(",
        "\xe4\xb8(",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ASSERT_EQ(count(bad[i]), SIZE_MAX);
        ASSERT_TRUE(!utf8_is_valid(bytes_of(bad[i], strlen(bad[i]))));
    }
}

/* Words of eight are looked at together: an odd byte is found wherever it stands. */
TEST(a_bad_byte_is_found_at_every_place_of_long_text)
{
    char text[40];
    for (size_t len = 1; len <= sizeof text; len++) {
        memset(text, 'a', sizeof text);
        ASSERT_EQ(utf8_count(bytes_of(text, len)), len);
        for (size_t at = 0; at < len; at++) {
            text[at] = '\xff';
            ASSERT_EQ(utf8_count(bytes_of(text, len)), SIZE_MAX);
            text[at] = 'a';
        }
    }
}

TEST(what_is_no_character_becomes_a_question_mark)
{
    static const struct {
        const char *from, *to;
    } pairs[] = {{"", ""},
                 {"abc", "abc"},
                 {"\xc3\xa9", "\xc3\xa9"},
                 {"a\xe4\xb8", "a??"},
                 {"\xff"
                  "b\xe4\xb8\xad\xf0\x9f",
                  "?b\xe4\xb8\xad??"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        char text[16];
        memcpy(text, pairs[i].from, strlen(pairs[i].from) + 1);
        utf8_repair((uint8_t *)text, strlen(text));
        ASSERT_STR(text, pairs[i].to);
    }
}

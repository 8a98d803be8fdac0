// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/mem.h"
#include "server/resp.h"
#include "test.h"

#include "base/banned.h"

enum { TEXT_BYTES_MAX = 4096 };

/* Feeds the bytes in pieces that end at `cut` and at the end, as a connection does: what was used
 * is removed whenever bytes are missing. Requests go to `to` as "[arg|arg]", an error as "!text".
 */
static void play(struct bytes input, size_t cut, struct buf *to)
{
    struct resp_parser parser;
    struct err err = {0};
    size_t ends[] = {cut, input.len};
    /* Exactly as large as what has arrived: a sanitizer sees a read beyond it. */
    uint8_t *in = mem_alloc(0);
    size_t len = 0, fed = 0;
    bool ok = true;

    resp_parser_init(&parser);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        in = mem_realloc(in, len + ends[i] - fed);
        if (ends[i] > fed)
            memcpy(in + len, input.ptr + fed, ends[i] - fed);
        len += ends[i] - fed;
        fed = ends[i];
        enum resp_result result;
        while ((result = resp_parse(&parser, in, len, &err)) == RESP_REQUEST) {
            ok = ok && buf_printf(to, "[");
            for (size_t n = 0; n < parser.arg_count; n++) {
                ASSERT_LE(parser.arg[n].offset + parser.arg[n].len, len);
                ok = ok && buf_printf(to, n ? "|" : "") &&
                     buf_add(to, in + parser.arg[n].offset, parser.arg[n].len);
            }
            ok = ok && buf_printf(to, "]");
        }
        if (result == RESP_BAD) {
            ok = ok && buf_printf(to, "!%s", err.text);
            break;
        }
        ASSERT_GE(resp_parser_need(&parser, len), 1);
        size_t used = resp_parser_spent(&parser);
        ASSERT_LE(used, len);
        resp_parser_rewind(&parser, used);
        memmove(in, in + used, len - used);
        len -= used;
    }
    ASSERT_TRUE(ok);
    resp_parser_done(&parser);
    mem_free(in);
}

/* The same requests wherever the bytes are split. */
static void expect(struct bytes input, const char *expected)
{
    for (size_t cut = 0; cut <= input.len; cut++) {
        CLEANUP(buf_done) struct buf text;
        buf_init(&text, TEXT_BYTES_MAX);
        play(input, cut, &text);
        ASSERT_BYTES(buf_bytes(&text), bytes_of(expected, strlen(expected)));
    }
}

TEST(arrays_of_bulks_are_requests_at_every_split)
{
    expect(BYTES("*1\r\n$4\r\nPING\r\n"), "[PING]");
    expect(BYTES("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
           "[SET|k|hello][GET|k]");
    expect(BYTES("*2\r\n$3\r\nGET\r\n$0\r\n\r\n"), "[GET|]");
    expect(BYTES("*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"), "[GET|a\r\nb]");
}

TEST(lengths_of_one_to_four_digits_are_read)
{
    CLEANUP(buf_done) struct buf input;
    CLEANUP(buf_done) struct buf expected;
    static const char x[1000];
    buf_init(&input, 1 << 20);
    buf_init(&expected, 1 << 20);
    const int lens[] = {0, 1, 9, 10, 99, 100, 999, 1000};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++)
        ASSERT_TRUE(buf_printf(&input, "*2\r\n$1\r\na\r\n$%d\r\n", lens[i]) &&
                    buf_add(&input, x, (size_t)lens[i]) && buf_printf(&input, "\r\n") &&
                    buf_printf(&expected, "[a|") && buf_add(&expected, x, (size_t)lens[i]) &&
                    buf_printf(&expected, "]"));
    for (size_t cut = 0; cut <= input.len; cut++) {
        CLEANUP(buf_done) struct buf got;
        buf_init(&got, 1 << 20);
        play(buf_bytes(&input), cut, &got);
        ASSERT_BYTES(buf_bytes(&got), buf_bytes(&expected));
    }
}

TEST(empty_arrays_and_lines_are_passed_over)
{
    expect(BYTES("*0\r\n*-1\r\n\r\n\n   \r\n*1\r\n$4\r\nPING\r\n"), "[PING]");
    expect(BYTES("*0\r\n"), "");
}

TEST(lines_are_requests_at_every_split)
{
    expect(BYTES("PING\r\n"), "[PING]");
    expect(BYTES("PING\n*1\r\n$1\r\na\r\nGET k\n"), "[PING][a][GET|k]");
    expect(BYTES("  SET  k\tv \r\n"), "[SET|k|v]");
}

TEST(quotes_of_lines_are_undone)
{
    expect(BYTES("SET k \"a b\"\r\n"), "[SET|k|a b]");
    expect(BYTES("SET k 'a b' \"\" ''\r\n"), "[SET|k|a b||]");
    expect(BYTES("ECHO \"\\x41\\x4a\\n\\t\\\\\\\"\\q\"\r\n"), "[ECHO|AJ\n\t\\\"q]");
    expect(BYTES("ECHO '\\'x\\n'\r\n"), "[ECHO|'x\\n]");
    expect(BYTES("ECHO a\"b c\" d\r\n"), "[ECHO|ab c|d]");
    expect(BYTES("ECHO \"\\x4\"\r\n"), "[ECHO|x4]");
    expect(BYTES("ECHO a\0b\r\n"), "[ECHO|a]");
}

TEST(quotes_that_do_not_fit_are_refused)
{
    const char *text = "!Protocol error: unbalanced quotes in request";
    expect(BYTES("SET k \"a\r\n"), text);
    expect(BYTES("SET k 'a\r\n"), text);
    expect(BYTES("SET k \"a\"b\r\n"), text);
    expect(BYTES("SET k 'a'b\r\n"), text);
    expect(BYTES("SET k \"a\\\r\n"), text);
}

TEST(lengths_that_are_no_numbers_are_refused)
{
    const char *multi = "!Protocol error: invalid multibulk length";
    const char *bulk = "!Protocol error: invalid bulk length";
    expect(BYTES("*x\r\n"), multi);
    expect(BYTES("*\r\n"), multi);
    expect(BYTES("*+1\r\n"), multi);
    expect(BYTES("*01\r\n"), multi);
    expect(BYTES("*1 \r\n"), multi);
    expect(BYTES("*1048577\r\n"), multi);
    expect(BYTES("*9223372036854775808\r\n"), multi);
    expect(BYTES("*99999999999999999999999999\r\n"), multi);
    expect(BYTES("*1\r\n$x\r\n"), bulk);
    expect(BYTES("*1\r\n$-1\r\n"), bulk);
    expect(BYTES("*1\r\n$\r\n"), bulk);
    expect(BYTES("*1\r\n$536870913\r\n"), bulk);
    expect(BYTES("*1\r\n$-9223372036854775808\r\n"), bulk);
}

TEST(another_mark_than_a_dollar_is_named)
{
    expect(BYTES("*1\r\n:4\r\nPING\r\n"), "!Protocol error: expected '$', got ':'");
    expect(BYTES("*1\r\n4\r\nPING\r\n"), "!Protocol error: expected '$', got '4'");
    expect(BYTES("*1\r\n\r\n\r\n"), "!Protocol error: expected '$', got '\r'");
    expect(BYTES("PING\r\n*1\r\n!4\r\n"), "[PING]!Protocol error: expected '$', got '!'");
}

/* `start`, then `count` times `fill`. */
static void long_line(const char *start, size_t count, char fill, const char *expected)
{
    size_t start_len = strlen(start);
    uint8_t *bytes = mem_alloc(start_len + count);
    memcpy(bytes, start, start_len);
    memset(bytes + start_len, fill, count);
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    play(bytes_of(bytes, start_len + count), 7, &text);
    mem_free(bytes);
    ASSERT_BYTES(buf_bytes(&text), bytes_of(expected, strlen(expected)));
}

TEST(lines_without_an_end_are_refused_at_the_limit)
{
    long_line("", RESP_LINE_BYTES_MAX, 'x', "");
    long_line("", RESP_LINE_BYTES_MAX + 1, 'x', "!Protocol error: too big inline request");
    long_line("*", RESP_LINE_BYTES_MAX, '1', "!Protocol error: too big mbulk count string");
    long_line("*1\r\n$", RESP_LINE_BYTES_MAX, '1', "!Protocol error: too big bulk count string");
}

TEST(an_announced_length_costs_nothing)
{
    struct resp_parser parser;
    struct err err = {0};
    uint8_t in[] = "*1048576\r\n$536870912\r\nabc";
    resp_parser_init(&parser);
    ASSERT_EQ(resp_parse(&parser, in, sizeof in - 1, &err), RESP_MORE);
    ASSERT_EQ(parser.arg_cap, 0);
    ASSERT_EQ(resp_parser_need(&parser, sizeof in - 1), 536870912 + 2 - 3);
    ASSERT_EQ(resp_parser_spent(&parser), sizeof in - 1 - 3);
    resp_parser_done(&parser);
}

TEST(arguments_without_memory_are_an_error)
{
#ifdef TERRACE_FAULTS
    struct resp_parser parser;
    struct err err = {0};
    uint8_t in[] = "*1\r\n$4\r\nPING\r\n";
    resp_parser_init(&parser);
    mem_fail_after(1);
    enum resp_result result = resp_parse(&parser, in, sizeof in - 1, &err);
    mem_fail_after(-1);
    ASSERT_EQ(result, RESP_BAD);
    resp_parser_done(&parser);
#endif
}

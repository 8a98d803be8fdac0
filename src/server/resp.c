// SPDX-License-Identifier: Apache-2.0
/* resp.c - parses requests, arrays and inline, however they arrive. */
#include "server/resp.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"

#include "base/banned.h"

enum { ARGS_KEPT = 1024, ARGS_FIRST = 8, NUMBER_BYTES_MAX = 20 };
_Static_assert(RESP_ARG_COUNT_MAX >= 999, "a count of three digits needs no check");

void resp_parser_init(struct resp_parser *parser)
{
    *parser = (struct resp_parser){.bulk_len = -1, .bulk_bytes_max = RESP_BULK_BYTES_MAX};
}

void resp_parser_done(struct resp_parser *parser)
{
    if (!parser)
        return;
    mem_free(parser->arg);
    *parser = (struct resp_parser){.bulk_len = -1, .bulk_bytes_max = RESP_BULK_BYTES_MAX};
}

static enum resp_result bad(struct err *err, const char *text)
{
    (void)err_set(err, RC_INVALID, "Protocol error: %s", text);
    return RESP_BAD;
}

/* The list grows with what has arrived, not with what was announced. */
static bool arg_add(struct resp_parser *parser, size_t offset, size_t len)
{
    if (parser->arg_count == parser->arg_cap) {
        size_t cap = parser->arg_cap ? parser->arg_cap * 2 : ARGS_FIRST;
        struct resp_arg *arg = mem_try_realloc(parser->arg, cap * sizeof *arg);
        if (!arg)
            return false;
        parser->arg = arg;
        parser->arg_cap = cap;
    }
    parser->arg[parser->arg_count++] = (struct resp_arg){offset, len};
    return true;
}

static void args_clear(struct resp_parser *parser)
{
    parser->arg_count = 0;
    if (parser->arg_cap <= ARGS_KEPT)
        return;
    mem_free(parser->arg);
    parser->arg = NULL;
    parser->arg_cap = 0;
}

/* As strict as Redis: no plus sign, no spaces, no leading zeros, nothing behind the digits. */
static bool number_parse(const uint8_t *text, size_t len, int64_t *ret_number)
{
    bool negative = len > 0 && text[0] == '-';
    size_t i = negative ? 1 : 0;
    uint64_t number = 0;

    if (len == i || len > NUMBER_BYTES_MAX)
        return false;
    if (text[i] == '0' && (len > 1))
        return false;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (number > (uint64_t)(INT64_MAX - (text[i] - '0')) / 10)
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_number = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

/* A line "<mark><number>\r\n" at parser->at. Like Redis it does not look at the byte after '\r'. */
static enum resp_result length_line(struct resp_parser *parser, const uint8_t *in, size_t len,
                                    const char *too_big, int64_t *ret_number, bool *ret_is_number,
                                    struct err *err)
{
    const uint8_t *start = in + parser->at;
    size_t left = len - parser->at;
    size_t look = left < RESP_LINE_BYTES_MAX ? left : RESP_LINE_BYTES_MAX;
    const uint8_t *end = memchr(start, '\r', look);
    if (!end)
        return left > RESP_LINE_BYTES_MAX ? bad(err, too_big) : RESP_MORE;
    if ((size_t)(end - start) + 2 > left)
        return RESP_MORE;
    *ret_is_number = end > start && number_parse(start + 1, (size_t)(end - start) - 1, ret_number);
    parser->at += (size_t)(end - start) + 2;
    return RESP_REQUEST;
}

/* Almost every line is a mark and one to three digits. Returns the bytes of such a line, or 0:
 * length_line() has to look at it. */
static inline size_t short_line(const uint8_t *line, size_t left, int64_t *ret_number)
{
    enum { DIGITS_MAX = 3 };
    if (UNLIKELY(left < 1 + DIGITS_MAX + 2 || line[1] < '1' || line[1] > '9'))
        return 0;
    int64_t number = line[1] - '0';
    for (size_t i = 2; i < 2 + DIGITS_MAX; i++) {
        if (line[i] == '\r') {
            *ret_number = number;
            return i + 2;
        }
        if (line[i] < '0' || line[i] > '9')
            return 0;
        number = number * 10 + (line[i] - '0');
    }
    return 0;
}

static enum resp_result bulk_length(struct resp_parser *parser, const uint8_t *in, size_t len,
                                    struct err *err)
{
    int64_t number = 0;
    bool is_number = false;
    if (parser->at >= len)
        return RESP_MORE;
    size_t before = parser->at;
    enum resp_result result =
        length_line(parser, in, len, "too big bulk count string", &number, &is_number, err);
    if (result != RESP_REQUEST)
        return result;
    if (in[before] != '$') {
        char text[] = "expected '$', got '?'";
        text[sizeof text - 3] = (char)in[before];
        return bad(err, text);
    }
    if (!is_number || number < 0 || number > parser->bulk_bytes_max)
        return bad(err, "invalid bulk length");
    if (parser->limited && number > RESP_LIMITED_BULK_BYTES_MAX)
        return bad(err, "unauthenticated bulk length");
    parser->bulk_len = number;
    return RESP_REQUEST;
}

/* Takes arguments as long as they are ordinary and whole; the rest is array_parse()'s. */
static void args_take(struct resp_parser *parser, const uint8_t *in, size_t len)
{
    size_t at = parser->at, count = parser->arg_count;
    size_t end = count + (size_t)parser->args_left;
    if (end > parser->arg_cap)
        end = parser->arg_cap;
    while (count < end && at < len && in[at] == '$') {
        int64_t number = 0;
        size_t line = short_line(in + at, len - at, &number);
        if (line == 0 || number > parser->bulk_bytes_max || len - at - line < (size_t)number + 2)
            break;
        parser->arg[count++] = (struct resp_arg){at + line, (size_t)number};
        at += line + (size_t)number + 2;
    }
    parser->args_left -= (int64_t)(count - parser->arg_count);
    parser->arg_count = count;
    parser->at = at;
}

static enum resp_result array_parse(struct resp_parser *parser, const uint8_t *in, size_t len,
                                    struct err *err)
{
    if (LIKELY(parser->bulk_len < 0 && !parser->limited))
        args_take(parser, in, len);
    while (parser->args_left > 0) {
        if (parser->bulk_len < 0) {
            enum resp_result result = bulk_length(parser, in, len, err);
            if (result != RESP_REQUEST)
                return result;
        }
        size_t bulk_len = (size_t)parser->bulk_len;
        if (len - parser->at < bulk_len + 2)
            return RESP_MORE;
        if (!arg_add(parser, parser->at, bulk_len)) {
            (void)err_set(err, RC_NOMEM, "out of memory for the arguments of a command");
            return RESP_BAD;
        }
        parser->at += bulk_len + 2;
        parser->bulk_len = -1;
        parser->args_left--;
    }
    return RESP_REQUEST;
}

/* ---- inline commands ---- */

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct unquote { /* a line that is read and written in place */
    uint8_t *in;
    size_t at;
    size_t end;
    size_t to;
};

/* After a backslash between double quotes. */
static void escape_take(struct unquote *line)
{
    const char *from = "nrtba", *into = "\n\r\t\b\a";
    uint8_t c = line->in[line->at++];
    bool has_two = line->end - line->at >= 2;
    int high = has_two ? hex_digit(line->in[line->at]) : -1;
    int low = has_two ? hex_digit(line->in[line->at + 1]) : -1;
    if (c == 'x' && high >= 0 && low >= 0) {
        c = (uint8_t)(high * 16 + low);
        line->at += 2;
    } else if (c != 0 && strchr(from, c)) {
        c = (uint8_t)into[strchr(from, c) - from];
    }
    line->in[line->to++] = c;
}

/* One word that may have quoted parts; false: a quote is not closed, or something is glued to it.
 */
static bool word_take(struct unquote *line)
{
    uint8_t quote = 0;
    while (line->at < line->end) {
        uint8_t c = line->in[line->at++];
        if (quote == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n'))
            return true;
        if (quote == 0 && (c == '"' || c == '\'')) {
            quote = c;
        } else if (quote != 0 && c == quote) {
            return line->at == line->end || is_space(line->in[line->at]);
        } else if (quote == '"' && c == '\\' && line->at < line->end) {
            escape_take(line);
        } else if (quote == '\'' && c == '\\' && line->at < line->end &&
                   line->in[line->at] == '\'') {
            line->in[line->to++] = line->in[line->at++];
        } else {
            line->in[line->to++] = c;
        }
    }
    return quote == 0;
}

static enum resp_result inline_parse(struct resp_parser *parser, uint8_t *in, size_t len,
                                     struct err *err)
{
    uint8_t *start = in + parser->at;
    size_t left = len - parser->at;
    size_t look = left < RESP_LINE_BYTES_MAX ? left : RESP_LINE_BYTES_MAX;
    uint8_t *end = memchr(start, '\n', look);
    if (!end)
        return left > RESP_LINE_BYTES_MAX ? bad(err, "too big inline request") : RESP_MORE;
    struct unquote line = {.in = in, .at = parser->at, .end = (size_t)(end - in)};
    parser->at = line.end + 1;
    if (line.end > line.at && in[line.end - 1] == '\r')
        line.end--;
    const uint8_t *nul = memchr(in + line.at, 0, line.end - line.at);
    if (nul) /* Redis reads the line as a C string */
        line.end = (size_t)(nul - in);
    for (;;) {
        while (line.at < line.end && is_space(in[line.at]))
            line.at++;
        if (line.at == line.end)
            return RESP_REQUEST;
        size_t from = line.to = line.at;
        if (!word_take(&line))
            return bad(err, "unbalanced quotes in request");
        if (!arg_add(parser, from, line.to - from)) {
            (void)err_set(err, RC_NOMEM, "out of memory for the arguments of a command");
            return RESP_BAD;
        }
    }
}

/* ---- requests ---- */

static enum resp_result array_begin(struct resp_parser *parser, const uint8_t *in, size_t len,
                                    struct err *err)
{
    int64_t number = 0;
    bool is_number = false;
    size_t line = short_line(in + parser->at, len - parser->at, &number);
    if (LIKELY(line > 0 && !parser->limited)) {
        parser->at += line;
        parser->args_left = number;
        parser->bulk_len = -1;
        return RESP_REQUEST;
    }
    enum resp_result result =
        length_line(parser, in, len, "too big mbulk count string", &number, &is_number, err);
    if (result != RESP_REQUEST)
        return result;
    if (!is_number || number > RESP_ARG_COUNT_MAX)
        return bad(err, "invalid multibulk length");
    if (parser->limited && number > RESP_LIMITED_ARG_COUNT_MAX)
        return bad(err, "unauthenticated multibulk length");
    parser->args_left = number > 0 ? number : 0;
    parser->bulk_len = -1;
    return RESP_REQUEST;
}

enum resp_result resp_parse(struct resp_parser *parser, uint8_t *in, size_t len, struct err *err)
{
    if (parser->args_left == 0)
        args_clear(parser);
    do {
        enum resp_result result = RESP_REQUEST;
        if (parser->args_left == 0) {
            if (parser->at >= len)
                return RESP_MORE;
            if (in[parser->at] == '*')
                result = array_begin(parser, in, len, err);
            else
                result = inline_parse(parser, in, len, err);
        }
        if (result == RESP_REQUEST && parser->args_left > 0)
            result = array_parse(parser, in, len, err);
        if (result != RESP_REQUEST)
            return result;
    } while (parser->arg_count == 0); /* empty arrays and lines are passed over */
    return RESP_REQUEST;
}

size_t resp_parser_spent(const struct resp_parser *parser)
{
    return parser->args_left > 0 && parser->arg_count > 0 ? parser->arg[0].offset : parser->at;
}

void resp_parser_rewind(struct resp_parser *parser, size_t count)
{
    ASSERT(count <= resp_parser_spent(parser));
    for (size_t i = 0; i < parser->arg_count && parser->args_left > 0; i++)
        parser->arg[i].offset -= count;
    parser->at -= count;
}

size_t resp_parser_need(const struct resp_parser *parser, size_t len)
{
    if (parser->args_left == 0 || parser->bulk_len < 0)
        return 1;
    size_t end = parser->at + (size_t)parser->bulk_len + 2;
    return end > len ? end - len : 1;
}

// SPDX-License-Identifier: Apache-2.0
/* resp_out.c - writes replies in either protocol. */
#include "command/resp_out.h"

#include <inttypes.h>
#include <stdio.h>

#include "types/number.h"

#include "base/banned.h"

enum { OUT_KEPT_BYTES = 4 * 1024, LINE_BYTES_MAX = NUMBER_DOUBLE_BYTES + 4 };

void resp_out_init(struct resp_out *out, size_t bytes_max)
{
    buf_init(&out->buf, bytes_max);
    out->proto = 2;
    out->failed = out->over = false;
}

void resp_out_done(struct resp_out *out)
{
    if (out)
        buf_done(&out->buf);
}

void resp_out_clear(struct resp_out *out)
{
    buf_shrink(&out->buf, OUT_KEPT_BYTES);
    out->failed = out->over = false;
}

void resp_out_cut(struct resp_out *out, size_t len)
{
    buf_cut(&out->buf, len);
    out->failed = out->over = false;
}

static bool reserve(struct resp_out *out, size_t len)
{
    if (LIKELY(!out->failed && buf_reserve(&out->buf, len)))
        return true;
    size_t room = out->buf.bytes_max > out->buf.len ? out->buf.bytes_max - out->buf.len : 0;
    out->over = out->over || (!out->failed && len > room);
    out->failed = true;
    return false;
}

static void add(struct resp_out *out, const void *ptr, size_t len)
{
    if (!reserve(out, len) || len == 0)
        return;
    memcpy(out->buf.ptr + out->buf.len, ptr, len);
    out->buf.len += len;
}

static size_t line_end_put(char *to)
{
    to[0] = '\r';
    to[1] = '\n';
    return 2;
}

/* mark, number, line end */
static size_t line_put(char to[LINE_BYTES_MAX], char mark, int64_t number)
{
    to[0] = mark;
    size_t len = 1 + number_int_text(to + 1, number);
    return len + line_end_put(to + len);
}

static void add_line(struct resp_out *out, char mark, int64_t number)
{
    char line[LINE_BYTES_MAX];
    add(out, line, line_put(line, mark, number));
}

/* ---- one value ---- */

void resp_add_status(struct resp_out *out, const char *text)
{
    add(out, "+", 1);
    add(out, text, strlen(text));
    add(out, "\r\n", 2);
}

void resp_add_error(struct resp_out *out, const char *prefix, const char *text)
{
    add(out, "-", 1);
    add(out, prefix, strlen(prefix));
    if (prefix[0])
        add(out, " ", 1);
    size_t from = out->buf.len;
    add(out, text, strlen(text));
    for (size_t i = from; i < out->buf.len; i++)
        if (out->buf.ptr[i] == '\r' || out->buf.ptr[i] == '\n')
            out->buf.ptr[i] = ' ';
    add(out, "\r\n", 2);
}

void resp_add_int(struct resp_out *out, int64_t value)
{
    add_line(out, ':', value);
}

void resp_add_uint(struct resp_out *out, uint64_t value)
{
    char line[LINE_BYTES_MAX];
    if (value <= INT64_MAX) {
        resp_add_int(out, (int64_t)value);
        return;
    }
    int len = snprintf(line, sizeof line, "(%" PRIu64 "\r\n", value);
    if (out->proto < 3)
        resp_add_bulk(out, bytes_of(line + 1, (size_t)len - 3));
    else
        add(out, line, (size_t)len);
}

void resp_add_bulk(struct resp_out *out, struct bytes bytes)
{
    if (!reserve(out, bytes.len + 2 * (size_t)LINE_BYTES_MAX))
        return;
    char *to = (char *)out->buf.ptr + out->buf.len;
    size_t len = line_put(to, '$', (int64_t)bytes.len);
    if (bytes.len > 0)
        memcpy(to + len, bytes.ptr, bytes.len);
    len += bytes.len;
    out->buf.len += len + line_end_put(to + len);
}

void resp_add_bulk_begin(struct resp_out *out, size_t len)
{
    add_line(out, '$', (int64_t)len);
    (void)reserve(out, len + 2); /* all at once: what is there is not copied again and again */
}

void resp_add_bulk_end(struct resp_out *out)
{
    add(out, "\r\n", 2);
}

void resp_add_text(struct resp_out *out, const char *text)
{
    resp_add_bulk(out, bytes_of(text, strlen(text)));
}

void resp_add_int_text(struct resp_out *out, int64_t value)
{
    char text[NUMBER_INT_BYTES];
    resp_add_bulk(out, bytes_of(text, number_int_text(text, value)));
}

void resp_add_double(struct resp_out *out, double value)
{
    char text[LINE_BYTES_MAX];
    if (out->proto < 3) {
        resp_add_bulk(out, bytes_of(text, number_double_text(text, value)));
        return;
    }
    text[0] = ',';
    size_t len = 1 + number_double_text(text + 1, value);
    add(out, text, len + line_end_put(text + len));
}

void resp_add_bool(struct resp_out *out, bool value)
{
    if (out->proto < 3)
        resp_add_int(out, value);
    else
        add(out, value ? "#t\r\n" : "#f\r\n", 4);
}

void resp_add_verbatim(struct resp_out *out, struct bytes text)
{
    if (out->proto < 3) {
        resp_add_bulk(out, text);
        return;
    }
    add_line(out, '=', (int64_t)text.len + 4);
    add(out, "txt:", 4);
    add(out, text.ptr, text.len);
    add(out, "\r\n", 2);
}

void resp_add_null(struct resp_out *out)
{
    if (out->proto < 3)
        add(out, "$-1\r\n", 5);
    else
        add(out, "_\r\n", 3);
}

void resp_add_null_array(struct resp_out *out)
{
    if (out->proto < 3)
        add(out, "*-1\r\n", 5);
    else
        add(out, "_\r\n", 3);
}

void resp_add_pair(struct resp_out *out, const char *label, uint64_t value)
{
    resp_add_text(out, label);
    resp_add_uint(out, value);
}

void resp_add_raw(struct resp_out *out, struct bytes bytes)
{
    add(out, bytes.ptr, bytes.len);
}

void resp_add_out(struct resp_out *out, const struct resp_out *part)
{
    out->over = out->over || part->over;
    out->failed = out->failed || part->failed;
    resp_add_raw(out, buf_bytes(&part->buf));
}

/* ---- many ---- */

void resp_add_array(struct resp_out *out, size_t count)
{
    add_line(out, '*', (int64_t)count);
}

void resp_add_map(struct resp_out *out, size_t count)
{
    if (out->proto < 3)
        add_line(out, '*', 2 * (int64_t)count);
    else
        add_line(out, '%', (int64_t)count);
}

void resp_add_set(struct resp_out *out, size_t count)
{
    add_line(out, out->proto < 3 ? '*' : '~', (int64_t)count);
}

void resp_add_push(struct resp_out *out, size_t count)
{
    add_line(out, out->proto < 3 ? '*' : '>', (int64_t)count);
}

size_t resp_open(const struct resp_out *out)
{
    return out->buf.len;
}

/* A header is put in front of what was written since. */
static void put_before(struct resp_out *out, size_t mark, const char *header, size_t len)
{
    size_t body = out->buf.len - mark;
    add(out, header, len); /* makes the room */
    if (out->failed)
        return;
    memmove(out->buf.ptr + mark + len, out->buf.ptr + mark, body);
    memcpy(out->buf.ptr + mark, header, len);
}

static void close_with(struct resp_out *out, size_t mark, char type, int64_t count)
{
    char line[LINE_BYTES_MAX];
    put_before(out, mark, line, line_put(line, type, count));
}

void resp_close_page(struct resp_out *out, size_t mark, int64_t cursor, size_t count)
{
    char text[NUMBER_INT_BYTES], header[4 * LINE_BYTES_MAX];
    size_t digits = number_int_text(text, cursor);
    size_t len = line_put(header, '*', 2);
    len += line_put(header + len, '$', (int64_t)digits);
    memcpy(header + len, text, digits);
    len += digits;
    len += line_end_put(header + len);
    len += line_put(header + len, '*', (int64_t)count);
    put_before(out, mark, header, len);
}

void resp_close_array(struct resp_out *out, size_t mark, size_t count)
{
    close_with(out, mark, '*', (int64_t)count);
}

void resp_close_map(struct resp_out *out, size_t mark, size_t count)
{
    if (out->proto < 3)
        close_with(out, mark, '*', 2 * (int64_t)count);
    else
        close_with(out, mark, '%', (int64_t)count);
}

void resp_close_set(struct resp_out *out, size_t mark, size_t count)
{
    close_with(out, mark, out->proto < 3 ? '*' : '~', (int64_t)count);
}

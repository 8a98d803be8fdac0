// SPDX-License-Identifier: Apache-2.0
/* show.c - prints replies as redis-cli does, without holding one whole. */
#include "cli/show.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "cli/print.h"

#include "base/banned.h"

enum {
    LINE_BYTES_MAX = 64 * 1024,
    DEPTH_MAX = 16,
    ITEM_COUNT_MAX = INT32_MAX,
    VERBATIM_HEAD_BYTES = 4, /* "txt:" */
};

/* ---- reading ---- */

static enum rc line_read(struct show *show, char line[LINE_BYTES_MAX], struct err *err)
{
    if (!fgets(line, LINE_BYTES_MAX, show->stream))
        return err_set(err, RC_IO, "the server closed the connection");
    show->has_begun = true;
    size_t len = strcspn(line, "\r\n");
    if (len == 0 || line[len] != '\r')
        return err_set(err, RC_INVALID, "the server does not speak RESP");
    line[len] = 0;
    return RC_OK;
}

/* Of a line that announces a length, a count or a number. */
static enum rc number_read(const char *line, long long *ret_number, struct err *err)
{
    char *end = NULL;
    errno = 0;
    *ret_number = strtoll(line + 1, &end, 10);
    if (errno != 0 || end == line + 1 || *end)
        return err_set(err, RC_INVALID, "the server does not speak RESP");
    return RC_OK;
}

/* The caller frees the bytes, behind which the line end stands. */
static enum rc bulk_read(struct show *show, long long len, uint8_t **ret_bytes, struct err *err)
{
    if (len > RESP_BULK_BYTES_MAX)
        return err_set(err, RC_INVALID, "the server announced a reply of %lld bytes", len);
    uint8_t *bytes = mem_try_alloc((size_t)len + 2);
    if (!bytes)
        return err_set(err, RC_NOMEM, "could not allocate %lld bytes for the reply", len);
    if (fread(bytes, 1, (size_t)len + 2, show->stream) != (size_t)len + 2) {
        mem_free(bytes);
        return err_set(err, RC_IO, "the server closed the connection");
    }
    *ret_bytes = bytes;
    return RC_OK;
}

/* ---- printing; no function prints the line end behind its reply ---- */

static enum rc item_print(struct show *show, int indent, int depth, struct err *err);

static void nil_print(const struct show *show)
{
    if (!show->raw)
        fprintf(show->to, "(nil)");
}

static void error_print(struct show *show, struct bytes text)
{
    show->had_error = true;
    if (!show->raw)
        fprintf(show->to, "(error) ");
    fwrite(text.ptr, 1, text.len, show->to);
    if (show->raw)
        fputc('\n', show->to); /* redis-cli adds it to the one behind every reply */
}

static enum rc bulk_print(struct show *show, char kind, long long len, struct err *err)
{
    uint8_t *bytes = NULL;
    if (len < 0) {
        nil_print(show);
        return RC_OK;
    }
    enum rc rc = bulk_read(show, len, &bytes, err);
    if (rc != RC_OK)
        return rc;
    struct bytes text = bytes_of(bytes, (size_t)len);
    if (kind == '=' && text.len >= VERBATIM_HEAD_BYTES)
        text = bytes_from(text, VERBATIM_HEAD_BYTES);
    if (kind == '!')
        error_print(show, text);
    else if (kind == '=' || show->raw)
        fwrite(text.ptr, 1, text.len, show->to);
    else
        print_quoted_to(show->to, text);
    mem_free(bytes);
    return RC_OK;
}

static void empty_print(const struct show *show, char kind)
{
    const char *what = kind == '%' ? "hash" : kind == '~' ? "set" : kind == '>' ? "push" : "array";
    if (!show->raw)
        fprintf(show->to, "(empty %s)", what);
}

static int digit_count(long long number)
{
    int count = 1;
    while ((number /= 10) > 0)
        count++;
    return count;
}

/* Behind the key of a map. What has several lines begins on a line of its own, and that is known
 * only when all of it is there. */
static enum rc value_print(struct show *show, int indent, int depth, struct err *err)
{
    FILE *to = show->to;
    char *text = NULL;
    size_t len = 0;
    fprintf(to, show->raw ? " " : " => ");
    if (show->raw)
        return item_print(show, indent, depth, err);
    show->to = open_memstream(&text, &len);
    if (!show->to) {
        show->to = to;
        return err_set(err, RC_NOMEM, "could not allocate memory for the reply");
    }
    enum rc rc = item_print(show, indent, depth, err);
    bool whole = fclose(show->to) == 0;
    show->to = to;
    if (rc == RC_OK && !whole)
        rc = err_set(err, RC_NOMEM, "could not allocate memory for the reply");
    if (rc == RC_OK && memchr(text, '\n', len))
        fprintf(to, "\n%*s", indent, "");
    if (rc == RC_OK)
        fwrite(text, 1, len, to);
    free(text); /* of open_memstream() */
    return rc;
}

static enum rc items_print(struct show *show, char kind, long long count, int indent, int depth,
                           struct err *err)
{
    int width = digit_count(count);
    int inner = indent + width + 2; /* behind "12) " */
    char mark = kind == '%' ? '#' : kind == '~' ? '~' : ')';
    if (depth == DEPTH_MAX)
        return err_set(err, RC_INVALID, "the reply is nested too deep");
    for (long long i = 0; i < count; i++) {
        if (i > 0)
            fputc('\n', show->to);
        if (!show->raw)
            fprintf(show->to, "%*s%*lld%c ", i == 0 ? 0 : indent, "", width, i + 1, mark);
        enum rc rc = item_print(show, inner, depth + 1, err);
        if (rc == RC_OK && kind == '%')
            rc = value_print(show, inner, depth + 1, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* A reply whose line announces a number. */
static enum rc numbered_print(struct show *show, const char *line, int indent, int depth,
                              struct err *err)
{
    long long number = 0;
    char kind = line[0];
    enum rc rc = number_read(line, &number, err);
    if (rc != RC_OK)
        return rc;
    if (kind == '$' || kind == '=' || kind == '!')
        return bulk_print(show, kind, number, err);
    if (kind == ':')
        fprintf(show->to, show->raw ? "%lld" : "(integer) %lld", number);
    else if (number < 0)
        nil_print(show);
    else if (number == 0)
        empty_print(show, kind);
    else
        return items_print(show, kind, number, indent, depth, err);
    return RC_OK;
}

/* A reply that is one line, the kinds of numbered_print() left out. */
static enum rc line_print(struct show *show, const char *line, struct err *err)
{
    const char *text = line + 1;
    switch (line[0]) {
    case '+':
        fprintf(show->to, "%s", text);
        return RC_OK;
    case '-':
        error_print(show, bytes_of(text, strlen(text)));
        return RC_OK;
    case '_':
        nil_print(show);
        return RC_OK;
    case '#':
        fprintf(show->to, text[0] == 't' ? "(true)" : "(false)");
        return RC_OK;
    case ',':
        fprintf(show->to, show->raw ? "%s" : "(double) %s", text);
        return RC_OK;
    case '(':
        fprintf(show->to, show->raw ? "%s" : "(big number) %s", text);
        return RC_OK;
    default:
        return err_set(err, RC_INVALID, "the server does not speak RESP");
    }
}

static enum rc item_print(struct show *show, int indent, int depth, struct err *err)
{
    char *line = mem_alloc(LINE_BYTES_MAX);
    enum rc rc = line_read(show, line, err);
    if (rc == RC_OK && strchr("$=!:*~>%", line[0]))
        rc = numbered_print(show, line, indent, depth, err);
    else if (rc == RC_OK)
        rc = line_print(show, line, err);
    mem_free(line);
    return rc;
}

enum rc show_reply(struct show *show, struct err *err)
{
    show->to = stdout;
    enum rc rc = item_print(show, 0, 0, err);
    if (rc != RC_OK)
        return rc;
    if (!show->no_end)
        putchar('\n');
    if (fflush(stdout) != 0)
        return err_set(err, RC_IO, "could not write the reply: %s", strerror(errno));
    return RC_OK;
}

/* ---- what is not printed ---- */

/* The rest of a reply behind its line; *ret_count: of the replies that stand in it. */
static enum rc rest_skip(struct show *show, const char *line, long long *ret_count, struct err *err)
{
    long long number = 0;
    *ret_count = 0;
    if (!strchr("$=!*~>%", line[0]))
        return RC_OK;
    enum rc rc = number_read(line, &number, err);
    if (rc != RC_OK || number < 0)
        return rc;
    if (strchr("$=!", line[0])) {
        uint8_t *bytes = NULL;
        rc = bulk_read(show, number, &bytes, err);
        mem_free(bytes);
        return rc;
    }
    if (number > ITEM_COUNT_MAX)
        return err_set(err, RC_INVALID, "the server announced a reply of %lld parts", number);
    *ret_count = line[0] == '%' ? 2 * number : number;
    return RC_OK;
}

enum rc show_skip(struct show *show, struct err *err)
{
    char *line = mem_alloc(LINE_BYTES_MAX);
    enum rc rc = RC_OK;
    for (long long left = 1; left > 0 && rc == RC_OK; left--) {
        long long count = 0;
        rc = line_read(show, line, err);
        if (rc == RC_OK && line[0] == '-')
            rc = err_set(err, RC_REPLY, "%s", line + 1);
        if (rc == RC_OK)
            rc = rest_skip(show, line, &count, err);
        left += count;
    }
    mem_free(line);
    return rc;
}

bool show_push_is_next(struct show *show)
{
    int kind = getc(show->stream);
    if (kind != EOF)
        ungetc(kind, show->stream);
    return kind == '>';
}

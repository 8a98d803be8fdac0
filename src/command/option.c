// SPDX-License-Identifier: Apache-2.0
/* option.c - the kinds of options: how a value is read, written, copied and freed.
 *
 * Error texts are Redis's where Redis has one. */
#include "command/option.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "types/number.h"

#include "base/banned.h"

enum { SMALL_BYTES = OPTION_SMALL_BYTES };

/* What strings of our own can be compared with. False: too long to be one of them. */
bool option_small_text(struct bytes word, char to[SMALL_BYTES])
{
    if (word.len >= SMALL_BYTES)
        return false;
    if (word.len > 0)
        memcpy(to, word.ptr, word.len);
    to[word.len] = 0;
    return true;
}

char *option_text_new(struct bytes word)
{
    char *text = mem_alloc(word.len + 1);
    if (word.len > 0)
        memcpy(text, word.ptr, word.len);
    text[word.len] = 0;
    return text;
}

void option_add(struct buf *to, const char *format, ...)
{
    char line[CONFIG_VALUE_BYTES_MAX + SMALL_BYTES];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ASSERT(len >= 0 && (size_t)len < sizeof line);
    bool added = buf_add(to, line, (size_t)len);
    ASSERT(added);
}

static bool word_is_plain(struct bytes word)
{
    for (size_t i = 0; i < word.len; i++)
        if (!isgraph(word.ptr[i]) || strchr("\"'\\#", word.ptr[i]))
            return false;
    return word.len > 0;
}

void option_word_quote(struct bytes word, struct buf *to)
{
    if (word_is_plain(word)) {
        option_add(to, "%.*s", (int)word.len, (const char *)word.ptr);
        return;
    }
    option_add(to, "\"");
    for (size_t i = 0; i < word.len; i++) {
        uint8_t c = word.ptr[i];
        if (c == '"' || c == '\\')
            option_add(to, "\\%c", c);
        else if (isprint(c))
            option_add(to, "%c", c);
        else
            option_add(to, "\\x%02x", c);
    }
    option_add(to, "\"");
}

static void text_add(const char *text, enum option_style style, struct buf *to)
{
    if (style == OPTION_FILE)
        option_word_quote(bytes_of(text, strlen(text)), to);
    else
        option_add(to, "%s", text);
}

/* ---- numbers ---- */

void option_number_put(const struct option *row, void *field, int64_t value)
{
    switch (row->width) {
    case sizeof(uint16_t):
        *(uint16_t *)field = (uint16_t)value;
        return;
    case sizeof(uint32_t):
        *(uint32_t *)field = (uint32_t)value;
        return;
    default:
        ASSERT(row->width == sizeof(uint64_t));
        *(uint64_t *)field = (uint64_t)value;
    }
}

int64_t option_number(const struct option *row, const void *field)
{
    switch (row->width) {
    case sizeof(uint16_t):
        return *(const uint16_t *)field;
    case sizeof(uint32_t):
        return row->min < 0 ? *(const int32_t *)field : (int64_t) * (const uint32_t *)field;
    default:
        return *(const int64_t *)field;
    }
}

static enum rc number_set(const struct option *row, void *field, int64_t value, struct err *err)
{
    if (value < row->min || value > row->max)
        return err_set(err, RC_INVALID, "argument must be between %lld and %lld inclusive",
                       (long long)row->min, (long long)row->max);
    option_number_put(row, field, value);
    return RC_OK;
}

static enum rc int_set(const struct option *row, void *field, const struct bytes *word,
                       size_t word_count, struct err *err)
{
    (void)word_count;
    int64_t value;
    if (!number_int(*word, &value))
        return err_set(err, RC_INVALID, "argument couldn't be parsed into an integer");
    return number_set(row, field, value, err);
}

static void int_text(const struct option *row, const void *field, enum option_style style,
                     struct buf *to)
{
    (void)style;
    option_add(to, "%lld", (long long)option_number(row, field));
}

static enum rc octal_set(const struct option *row, void *field, const struct bytes *word,
                         size_t word_count, struct err *err)
{
    (void)word_count;
    int64_t value = 0;
    bool good = word->len > 0 && word->len <= 6;
    for (size_t i = 0; good && i < word->len; i++) {
        good = word->ptr[i] >= '0' && word->ptr[i] <= '7';
        value = value * 8 + (word->ptr[i] - '0');
    }
    if (!good || value > row->max)
        return err_set(err, RC_INVALID, "argument must be octal, at most %llo",
                       (unsigned long long)row->max);
    option_number_put(row, field, value);
    return RC_OK;
}

static void octal_text(const struct option *row, const void *field, enum option_style style,
                       struct buf *to)
{
    (void)style;
    option_add(to, "%llo", (unsigned long long)option_number(row, field));
}

/* ---- sizes and times ---- */

static bool digits_parse(const char **text, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (**text < '0' || **text > '9')
        return false;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        if (number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(**text - '0');
    }
    *ret_number = number;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static bool unit_parse(const char *text, const struct unit *unit, size_t unit_count,
                       uint64_t *ret_number)
{
    uint64_t number;
    if (!digits_parse(&text, &number))
        return false;
    for (size_t i = 0; i < unit_count; i++)
        if (strcasecmp(text, unit[i].name) == 0)
            return !__builtin_mul_overflow(number, unit[i].factor, ret_number);
    return false;
}

bool size_parse(const char *text, uint64_t *ret_bytes)
{
    static const struct unit unit[] = {{"", 1},           {"b", 1},       {"k", 1000},
                                       {"kb", 1024},      {"m", 1000000}, {"mb", 1 << 20},
                                       {"g", 1000000000}, {"gb", 1 << 30}};
    return unit_parse(text, unit, ARRAY_LEN(unit), ret_bytes);
}

bool option_size_parse(struct bytes word, uint64_t *ret_bytes)
{
    char text[SMALL_BYTES];
    return option_small_text(word, text) && size_parse(text, ret_bytes) && *ret_bytes <= INT64_MAX;
}

void option_size_add(uint64_t bytes, enum option_style style, struct buf *to)
{
    static const struct unit unit[] = {{"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1024}};
    for (size_t i = 0; style == OPTION_FILE && bytes > 0 && i < ARRAY_LEN(unit); i++) {
        if (bytes % unit[i].factor != 0)
            continue;
        option_add(to, "%llu%s", (unsigned long long)(bytes / unit[i].factor), unit[i].name);
        return;
    }
    option_add(to, "%llu", (unsigned long long)bytes);
}

static enum rc size_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    (void)word_count;
    uint64_t bytes;
    if (!option_size_parse(*word, &bytes))
        return err_set(err, RC_INVALID, "argument must be a memory value");
    return number_set(row, field, (int64_t)bytes, err);
}

static void size_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to)
{
    option_size_add((uint64_t)option_number(row, field), style, to);
}

static enum rc share_set(const struct option *row, void *field, const struct bytes *word,
                         size_t word_count, struct err *err)
{
    static const struct unit percent = {"%", 1};
    (void)word_count;
    char text[SMALL_BYTES];
    uint64_t number;
    if (!option_small_text(*word, text))
        return err_set(err, RC_INVALID, "argument must be a memory or percent value");
    if (strcasecmp(text, "auto") == 0) {
        option_number_put(row, field, OPTION_SHARE_AUTO);
    } else if (unit_parse(text, &percent, 1, &number) && number <= INT32_MAX) {
        option_number_put(row, field, -(int64_t)number);
    } else if (option_size_parse(*word, &number) && number <= (uint64_t)row->max) {
        option_number_put(row, field, (int64_t)number);
    } else {
        return err_set(err, RC_INVALID, "argument must be a memory or percent value");
    }
    return RC_OK;
}

static void share_text(const struct option *row, const void *field, enum option_style style,
                       struct buf *to)
{
    int64_t value = option_number(row, field);
    if (value == OPTION_SHARE_AUTO)
        option_add(to, "auto");
    else if (value < 0)
        option_add(to, "%lld%%", (long long)-value);
    else
        option_size_add((uint64_t)value, style, to);
}

static enum rc time_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    static const struct unit unit[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    (void)word_count;
    char text[SMALL_BYTES];
    uint64_t ms;
    if (!option_small_text(*word, text) || !unit_parse(text, unit, ARRAY_LEN(unit), &ms))
        return err_set(err, RC_INVALID, "argument must be a time, such as 60s, 500ms or 24h");
    if (ms < (uint64_t)row->min || ms > (uint64_t)row->max)
        return err_set(err, RC_INVALID, "argument must be between %lldms and %lldms inclusive",
                       (long long)row->min, (long long)row->max);
    option_number_put(row, field, (int64_t)ms);
    return RC_OK;
}

static void time_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to)
{
    (void)style;
    long long ms = (long long)option_number(row, field);
    if (ms % 1000 == 0)
        option_add(to, "%llds", ms / 1000);
    else
        option_add(to, "%lldms", ms);
}

/* ---- words ---- */

static enum rc bool_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    (void)row;
    (void)word_count;
    char text[SMALL_BYTES];
    bool small = option_small_text(*word, text);
    bool yes = small && strcasecmp(text, "yes") == 0;
    if (!yes && (!small || strcasecmp(text, "no") != 0))
        return err_set(err, RC_INVALID, "argument must be 'yes' or 'no'");
    *(bool *)field = yes;
    return RC_OK;
}

static void bool_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to)
{
    (void)row;
    (void)style;
    option_add(to, "%s", *(const bool *)field ? "yes" : "no");
}

static enum rc word_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    (void)word_count;
    char text[SMALL_BYTES];
    bool small = option_small_text(*word, text);
    for (size_t i = 0; small && row->words[i]; i++) {
        if (strcasecmp(text, row->words[i]) != 0)
            continue;
        option_number_put(row, field, (int64_t)i);
        return RC_OK;
    }
    char list[256] = "";
    size_t len = 0;
    for (size_t i = 0; row->words[i]; i++)
        len +=
            (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", row->words[i]);
    return err_set(err, RC_INVALID, "argument(s) must be one of the following: %s", list);
}

static void word_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to)
{
    (void)style;
    option_add(to, "%s", row->words[option_number(row, field)]);
}

/* Its value may be several words. */
static enum rc fixed_set(const struct option *row, void *field, const struct bytes *word,
                         size_t word_count, struct err *err)
{
    (void)field;
    const char *at = row->start;
    bool same = true;
    for (size_t i = 0; i < word_count && same; i++) {
        same = word[i].len == 0 || strncasecmp(at, (const char *)word[i].ptr, word[i].len) == 0;
        at += same ? word[i].len : 0;
        if (same && i + 1 < word_count)
            same = *at++ == ' ';
    }
    if (same && *at == 0)
        return RC_OK;
    return err_set(err, RC_INVALID, "%s", row->why);
}

static void fixed_text(const struct option *row, const void *field, enum option_style style,
                       struct buf *to)
{
    (void)field;
    text_add(row->start, style, to);
}

/* ---- texts and lists ---- */

static enum rc len_check(const struct option *row, struct bytes word, struct err *err)
{
    if (word.len < (size_t)row->min)
        return err_set(err, RC_INVALID, "argument must not be empty");
    if (word.len > (size_t)row->max)
        return err_set(err, RC_INVALID, "argument must not be longer than %lld bytes",
                       (long long)row->max);
    return RC_OK;
}

static enum rc text_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    (void)word_count;
    char **text = field;
    enum rc rc = len_check(row, *word, err);
    if (rc != RC_OK)
        return rc;
    mem_free(*text);
    *text = option_text_new(*word);
    return RC_OK;
}

static enum rc name_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    if (word->len > 0 && memchr(word->ptr, '/', word->len))
        return err_set(err, RC_INVALID, "%s can't be a path, just a filename", row->name);
    return text_set(row, field, word, word_count, err);
}

static void text_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to)
{
    (void)row;
    text_add(*(char *const *)field, style, to);
}

static void text_dup(void *field)
{
    char **text = field;
    *text = option_text_new(bytes_of(*text, strlen(*text)));
}

static void text_done(void *field)
{
    char **text = field;
    mem_free(*text);
    *text = NULL;
}

static enum rc bytes_set(const struct option *row, void *field, const struct bytes *word,
                         size_t word_count, struct err *err)
{
    (void)word_count;
    struct bytes *bytes = field;
    enum rc rc = len_check(row, *word, err);
    if (rc != RC_OK)
        return rc;
    mem_free((void *)bytes->ptr);
    *bytes = bytes_of(option_text_new(*word), word->len);
    return RC_OK;
}

static void bytes_text(const struct option *row, const void *field, enum option_style style,
                       struct buf *to)
{
    (void)row;
    struct bytes value = *(const struct bytes *)field;
    if (style == OPTION_FILE) {
        option_word_quote(value, to);
        return;
    }
    bool added = buf_add_bytes(to, value);
    ASSERT(added);
}

static void bytes_dup(void *field)
{
    struct bytes *bytes = field;
    bytes->ptr = (const uint8_t *)option_text_new(*bytes);
}

static void bytes_done(void *field)
{
    struct bytes *bytes = field;
    mem_free((void *)bytes->ptr);
    *bytes = (struct bytes){0};
}

void option_list_dup(void *field)
{
    struct option_list *list = field;
    list->text = mem_dup(list->text, list->count * sizeof *list->text);
    for (size_t i = 0; i < list->count; i++)
        text_dup(&list->text[i]);
}

void option_list_done(void *field)
{
    struct option_list *list = field;
    for (size_t i = 0; i < list->count; i++)
        mem_free(list->text[i]);
    mem_free(list->text);
    *list = (struct option_list){0};
}

enum rc option_list_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err)
{
    (void)row;
    struct option_list *list = field;
    if (word_count > CONFIG_LIST_MAX)
        return err_set(err, RC_INVALID, "there must not be more than %d of them", CONFIG_LIST_MAX);
    for (size_t i = 0; i < word_count; i++)
        if (word[i].len == 0 || word[i].len > CONFIG_LIST_TEXT_BYTES_MAX)
            return err_set(err, RC_INVALID, "argument must not be empty, or longer than %d bytes",
                           CONFIG_LIST_TEXT_BYTES_MAX);
    option_list_done(list);
    list->text = mem_alloc(word_count * sizeof *list->text);
    for (size_t i = 0; i < word_count; i++)
        list->text[i] = option_text_new(word[i]);
    list->count = word_count;
    return RC_OK;
}

void option_list_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to)
{
    (void)row;
    const struct option_list *list = field;
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            option_add(to, " ");
        text_add(list->text[i], style, to);
    }
}

/* ---- all of them ---- */

const struct option_kind option_int = {"N", .set = int_set, .text = int_text};
const struct option_kind option_size = {"SIZE", .set = size_set, .text = size_text};
const struct option_kind option_share = {"SIZE, N% or auto", .set = share_set, .text = share_text};
const struct option_kind option_time = {"TIME", .set = time_set, .text = time_text};
const struct option_kind option_octal = {"OCTAL", .set = octal_set, .text = octal_text};
const struct option_kind option_bool = {"yes|no", .set = bool_set, .text = bool_text};
const struct option_kind option_word = {"WORD", .set = word_set, .text = word_text};
const struct option_kind option_text = {"TEXT", .set = text_set, .text = text_text, .dup = text_dup,
                                        .done = text_done};
const struct option_kind option_name = {"NAME", .set = name_set, .text = text_text, .dup = text_dup,
                                        .done = text_done};
const struct option_kind option_bytes = {"TEXT",           .zeros = true,
                                         .set = bytes_set, .text = bytes_text,
                                         .dup = bytes_dup, .done = bytes_done};
const struct option_kind option_list = {"ADDR...",
                                        .many = true,
                                        .set = option_list_set,
                                        .text = option_list_text,
                                        .dup = option_list_dup,
                                        .done = option_list_done};
const struct option_kind option_fixed = {"WORD", .many = true, .set = fixed_set,
                                         .text = fixed_text};

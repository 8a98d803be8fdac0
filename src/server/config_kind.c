// SPDX-License-Identifier: Apache-2.0
/* config_kind.c - the kinds of options: how a value is read, written, copied and freed.
 *
 * Error texts are Redis's where Redis has one. */
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "models/landing/rule.h"
#include "models/tile/tile.h"
#include "server/config_int.h"
#include "types/kv.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    SMALL_BYTES = 64, /* no number, word or size is longer */
    EVENTS_ALL = KV_EVENT_GENERIC | KV_EVENT_STRING | KV_EVENT_LIST | KV_EVENT_SET | KV_EVENT_HASH |
                 KV_EVENT_ZSET | KV_EVENT_EXPIRED | KV_EVENT_EVICTED | KV_EVENT_STREAM |
                 CONFIG_NOTIFY_MODULE, /* A */
};

static void *field_of(const struct config_row *row, struct config *config)
{
    return (uint8_t *)config + row->offset;
}

static const void *field_in(const struct config_row *row, const struct config *config)
{
    return (const uint8_t *)config + row->offset;
}

/* What strings of our own can be compared with. False: too long to be one of them. */
static bool small_text(struct bytes word, char to[SMALL_BYTES])
{
    if (word.len >= SMALL_BYTES)
        return false;
    if (word.len > 0)
        memcpy(to, word.ptr, word.len);
    to[word.len] = 0;
    return true;
}

static char *text_new(struct bytes word)
{
    char *text = mem_alloc(word.len + 1);
    if (word.len > 0)
        memcpy(text, word.ptr, word.len);
    text[word.len] = 0;
    return text;
}

void config__add(struct buf *to, const char *format, ...)
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

static void text_add(const char *text, enum config_style style, struct buf *to)
{
    if (style == CONFIG_FILE)
        config__word_quote(bytes_of(text, strlen(text)), to);
    else
        config__add(to, "%s", text);
}

/* ---- numbers ---- */

static void number_put(const struct config_row *row, struct config *config, int64_t value)
{
    void *field = field_of(row, config);
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

static int64_t number_of(const struct config_row *row, const struct config *config)
{
    const void *field = field_in(row, config);
    switch (row->width) {
    case sizeof(uint16_t):
        return *(const uint16_t *)field;
    case sizeof(uint32_t):
        return row->min < 0 ? *(const int32_t *)field : (int64_t) * (const uint32_t *)field;
    default:
        return *(const int64_t *)field;
    }
}

static enum rc number_set(const struct config_row *row, struct config *config, int64_t value,
                          struct err *err)
{
    if (value < row->min || value > row->max)
        return err_set(err, RC_INVALID, "argument must be between %lld and %lld inclusive",
                       (long long)row->min, (long long)row->max);
    number_put(row, config, value);
    return RC_OK;
}

static enum rc int_set(const struct config_row *row, struct config *config,
                       const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    int64_t value;
    if (!number_int(*word, &value))
        return err_set(err, RC_INVALID, "argument couldn't be parsed into an integer");
    return number_set(row, config, value, err);
}

static void int_text(const struct config_row *row, const struct config *config,
                     enum config_style style, struct buf *to)
{
    (void)style;
    config__add(to, "%lld", (long long)number_of(row, config));
}

static enum rc octal_set(const struct config_row *row, struct config *config,
                         const struct bytes *word, size_t word_count, struct err *err)
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
    number_put(row, config, value);
    return RC_OK;
}

static void octal_text(const struct config_row *row, const struct config *config,
                       enum config_style style, struct buf *to)
{
    (void)style;
    config__add(to, "%llo", (unsigned long long)number_of(row, config));
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

static bool size_word_parse(struct bytes word, uint64_t *ret_bytes)
{
    char text[SMALL_BYTES];
    return small_text(word, text) && size_parse(text, ret_bytes) && *ret_bytes <= INT64_MAX;
}

static void size_add(uint64_t bytes, enum config_style style, struct buf *to)
{
    static const struct unit unit[] = {{"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1024}};
    for (size_t i = 0; style == CONFIG_FILE && bytes > 0 && i < ARRAY_LEN(unit); i++) {
        if (bytes % unit[i].factor != 0)
            continue;
        config__add(to, "%llu%s", (unsigned long long)(bytes / unit[i].factor), unit[i].name);
        return;
    }
    config__add(to, "%llu", (unsigned long long)bytes);
}

static enum rc size_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    uint64_t bytes;
    if (!size_word_parse(*word, &bytes))
        return err_set(err, RC_INVALID, "argument must be a memory value");
    return number_set(row, config, (int64_t)bytes, err);
}

static void size_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    size_add((uint64_t)number_of(row, config), style, to);
}

static enum rc share_set(const struct config_row *row, struct config *config,
                         const struct bytes *word, size_t word_count, struct err *err)
{
    static const struct unit percent = {"%", 1};
    (void)word_count;
    char text[SMALL_BYTES];
    uint64_t number;
    if (!small_text(*word, text))
        return err_set(err, RC_INVALID, "argument must be a memory or percent value");
    if (strcasecmp(text, "auto") == 0) {
        number_put(row, config, CONFIG_CLIENTS_AUTO);
    } else if (unit_parse(text, &percent, 1, &number) && number <= INT32_MAX) {
        number_put(row, config, -(int64_t)number);
    } else if (size_word_parse(*word, &number) && number <= (uint64_t)row->max) {
        number_put(row, config, (int64_t)number);
    } else {
        return err_set(err, RC_INVALID, "argument must be a memory or percent value");
    }
    return RC_OK;
}

static void share_text(const struct config_row *row, const struct config *config,
                       enum config_style style, struct buf *to)
{
    int64_t value = number_of(row, config);
    if (value == CONFIG_CLIENTS_AUTO)
        config__add(to, "auto");
    else if (value < 0)
        config__add(to, "%lld%%", (long long)-value);
    else
        size_add((uint64_t)value, style, to);
}

static enum rc time_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    static const struct unit unit[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    (void)word_count;
    char text[SMALL_BYTES];
    uint64_t ms;
    if (!small_text(*word, text) || !unit_parse(text, unit, ARRAY_LEN(unit), &ms))
        return err_set(err, RC_INVALID, "argument must be a time, such as 60s, 500ms or 24h");
    if (ms < (uint64_t)row->min || ms > (uint64_t)row->max)
        return err_set(err, RC_INVALID, "argument must be between %lldms and %lldms inclusive",
                       (long long)row->min, (long long)row->max);
    number_put(row, config, (int64_t)ms);
    return RC_OK;
}

static void time_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    (void)style;
    long long ms = (long long)number_of(row, config);
    if (ms % 1000 == 0)
        config__add(to, "%llds", ms / 1000);
    else
        config__add(to, "%lldms", ms);
}

/* ---- words ---- */

static enum rc bool_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    char text[SMALL_BYTES];
    bool small = small_text(*word, text);
    bool yes = small && strcasecmp(text, "yes") == 0;
    if (!yes && (!small || strcasecmp(text, "no") != 0))
        return err_set(err, RC_INVALID, "argument must be 'yes' or 'no'");
    *(bool *)field_of(row, config) = yes;
    return RC_OK;
}

static void bool_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    (void)style;
    config__add(to, "%s", *(const bool *)field_in(row, config) ? "yes" : "no");
}

static enum rc word_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    char text[SMALL_BYTES];
    bool small = small_text(*word, text);
    for (size_t i = 0; small && row->words[i]; i++) {
        if (strcasecmp(text, row->words[i]) != 0)
            continue;
        number_put(row, config, (int64_t)i);
        return RC_OK;
    }
    char list[256] = "";
    size_t len = 0;
    for (size_t i = 0; row->words[i]; i++)
        len +=
            (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", row->words[i]);
    return err_set(err, RC_INVALID, "argument(s) must be one of the following: %s", list);
}

static void word_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    (void)style;
    config__add(to, "%s", row->words[number_of(row, config)]);
}

/* Its value may be several words. */
static enum rc fixed_set(const struct config_row *row, struct config *config,
                         const struct bytes *word, size_t word_count, struct err *err)
{
    (void)config;
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

static void fixed_text(const struct config_row *row, const struct config *config,
                       enum config_style style, struct buf *to)
{
    (void)config;
    text_add(row->start, style, to);
}

/* The engine in memory is for tests: what is flushed to it would be lost with the process. */
static enum rc engine_set(const struct config_row *row, struct config *config,
                          const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    char text[SMALL_BYTES];
    const struct engine_ops *engine = small_text(*word, text) ? engine_find(text) : NULL;
    if (!engine || engine == &engine_memory_ops)
        return err_set(err, RC_INVALID, "argument must be the name of an engine: %s",
                       engine_rocksdb_ops.name);
    *(const struct engine_ops **)field_of(row, config) = engine;
    return RC_OK;
}

static void engine_text(const struct config_row *row, const struct config *config,
                        enum config_style style, struct buf *to)
{
    (void)style;
    config__add(to, "%s", (*(const struct engine_ops *const *)field_in(row, config))->name);
}

/* ---- texts and lists ---- */

static enum rc len_check(const struct config_row *row, struct bytes word, struct err *err)
{
    if (word.len < (size_t)row->min)
        return err_set(err, RC_INVALID, "argument must not be empty");
    if (word.len > (size_t)row->max)
        return err_set(err, RC_INVALID, "argument must not be longer than %lld bytes",
                       (long long)row->max);
    return RC_OK;
}

static enum rc text_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    char **field = field_of(row, config);
    enum rc rc = len_check(row, *word, err);
    if (rc != RC_OK)
        return rc;
    mem_free(*field);
    *field = text_new(*word);
    return RC_OK;
}

static enum rc name_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    if (word->len > 0 && memchr(word->ptr, '/', word->len))
        return err_set(err, RC_INVALID, "%s can't be a path, just a filename", row->name);
    return text_set(row, config, word, word_count, err);
}

static void text_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    text_add(*(char *const *)field_in(row, config), style, to);
}

static void text_dup(void *field)
{
    char **text = field;
    *text = text_new(bytes_of(*text, strlen(*text)));
}

static void text_done(void *field)
{
    char **text = field;
    mem_free(*text);
    *text = NULL;
}

static enum rc bytes_set(const struct config_row *row, struct config *config,
                         const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    struct bytes *field = field_of(row, config);
    enum rc rc = len_check(row, *word, err);
    if (rc != RC_OK)
        return rc;
    mem_free((void *)field->ptr);
    *field = bytes_of(text_new(*word), word->len);
    return RC_OK;
}

static void bytes_text(const struct config_row *row, const struct config *config,
                       enum config_style style, struct buf *to)
{
    struct bytes value = *(const struct bytes *)field_in(row, config);
    if (style == CONFIG_FILE) {
        config__word_quote(value, to);
        return;
    }
    bool added = buf_add_bytes(to, value);
    ASSERT(added);
}

static void bytes_dup(void *field)
{
    struct bytes *bytes = field;
    bytes->ptr = (const uint8_t *)text_new(*bytes);
}

static void bytes_done(void *field)
{
    struct bytes *bytes = field;
    mem_free((void *)bytes->ptr);
    *bytes = (struct bytes){0};
}

static void list_dup(void *field)
{
    struct config_list *list = field;
    list->text = mem_dup(list->text, list->count * sizeof *list->text);
    for (size_t i = 0; i < list->count; i++)
        text_dup(&list->text[i]);
}

static void list_done(void *field)
{
    struct config_list *list = field;
    for (size_t i = 0; i < list->count; i++)
        mem_free(list->text[i]);
    mem_free(list->text);
    *list = (struct config_list){0};
}

static enum rc list_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    struct config_list *list = field_of(row, config);
    if (word_count > CONFIG_LIST_MAX)
        return err_set(err, RC_INVALID, "there must not be more than %d of them", CONFIG_LIST_MAX);
    for (size_t i = 0; i < word_count; i++)
        if (word[i].len == 0 || word[i].len > CONFIG_LIST_TEXT_BYTES_MAX)
            return err_set(err, RC_INVALID, "argument must not be empty, or longer than %d bytes",
                           CONFIG_LIST_TEXT_BYTES_MAX);
    list_done(list);
    list->text = mem_alloc(word_count * sizeof *list->text);
    for (size_t i = 0; i < word_count; i++)
        list->text[i] = text_new(word[i]);
    list->count = word_count;
    return RC_OK;
}

static void list_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    const struct config_list *list = field_in(row, config);
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            config__add(to, " ");
        text_add(list->text[i], style, to);
    }
}

/* ---- tiles ---- */

static enum rc types_set(const struct config_row *row, struct config *config,
                         const struct bytes *word, size_t word_count, struct err *err)
{
    struct tile_binding binding;
    if (word_count == 1 && word[0].len == 0) {
        list_done(field_of(row, config));
        return RC_OK;
    }
    for (size_t i = 0; i < word_count; i++) {
        enum rc rc = tile_binding_parse(word[i], &binding, err);
        if (rc != RC_OK)
            return rc;
    }
    return list_set(row, config, word, word_count, err);
}

/* ---- landing ---- */

static enum rc rules_set(const struct config_row *row, struct config *config,
                         const struct bytes *word, size_t word_count, struct err *err)
{
    struct config_list *list = field_of(row, config);
    struct rule_spec *spec;
    if (word_count == 1 && word[0].len == 0) {
        list_done(list);
        return RC_OK;
    }
    if (list->count == CONFIG_RULES_MAX)
        return err_set(err, RC_INVALID, "there must not be more than %d of them", CONFIG_RULES_MAX);
    enum rc rc = rule_parse(word, word_count, &spec, err);
    if (rc != RC_OK)
        return rc;
    list->text = mem_realloc(list->text, (list->count + 1) * sizeof *list->text);
    list->text[list->count++] = text_new(spec->text);
    rule_free(spec);
    return RC_OK;
}

/* In a file every rule has a line of its own. */
static void rules_text(const struct config_row *row, const struct config *config,
                       enum config_style style, struct buf *to)
{
    const struct config_list *list = field_in(row, config);
    for (size_t i = 0; i < list->count; i++) {
        CLEANUP(buf_done) struct buf bare;
        buf_init(&bare, LAND_RULE_BYTES_MAX);
        struct bytes text = bytes_of(list->text[i], strlen(list->text[i]));
        if (style != CONFIG_FILE && rule_text_bare(text, &bare)) /* clients see no password */
            text = buf_bytes(&bare);
        config__add(to, "%s%.*s",
                    i == 0                 ? ""
                    : style == CONFIG_FILE ? "\nland "
                                           : "\n",
                    (int)text.len, (const char *)text.ptr);
    }
    if (list->count == 0 && style == CONFIG_FILE)
        config__add(to, "\"\"");
}

/* ---- keyspace events ---- */

static const struct event_flag {
    uint8_t letter;
    unsigned flags;
} event_flags[] = {
    /* in the order in which Redis writes them */
    {'g', KV_EVENT_GENERIC},       {'$', KV_EVENT_STRING},  {'l', KV_EVENT_LIST},
    {'s', KV_EVENT_SET},           {'h', KV_EVENT_HASH},    {'z', KV_EVENT_ZSET},
    {'x', KV_EVENT_EXPIRED},       {'e', KV_EVENT_EVICTED}, {'t', KV_EVENT_STREAM},
    {'d', CONFIG_NOTIFY_MODULE},   {'n', KV_EVENT_NEW},     {'K', CONFIG_NOTIFY_KEYSPACE},
    {'E', CONFIG_NOTIFY_KEYEVENT}, {'m', KV_EVENT_MISS},
};

static unsigned event_of(uint8_t letter)
{
    if (letter == 'A')
        return EVENTS_ALL;
    for (size_t i = 0; i < ARRAY_LEN(event_flags); i++)
        if (event_flags[i].letter == letter)
            return event_flags[i].flags;
    return 0;
}

static enum rc events_set(const struct config_row *row, struct config *config,
                          const struct bytes *word, size_t word_count, struct err *err)
{
    (void)word_count;
    unsigned flags = 0;
    for (size_t i = 0; i < word->len; i++) {
        unsigned flag = event_of(word->ptr[i]);
        if (flag == 0)
            return err_set(err, RC_INVALID,
                           "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
        flags |= flag;
    }
    number_put(row, config, flags);
    return RC_OK;
}

static void events_text(const struct config_row *row, const struct config *config,
                        enum config_style style, struct buf *to)
{
    unsigned flags = (unsigned)number_of(row, config);
    if (flags == 0 && style == CONFIG_FILE)
        config__add(to, "\"\"");
    if ((flags & EVENTS_ALL) == EVENTS_ALL) {
        config__add(to, "A");
        flags &= ~(unsigned)EVENTS_ALL;
    }
    for (size_t i = 0; i < ARRAY_LEN(event_flags); i++)
        if (flags & event_flags[i].flags)
            config__add(to, "%c", event_flags[i].letter);
}

/* ---- output limits ---- */

static bool class_parse(struct bytes word, enum config_client_class *ret_class)
{
    static const struct {
        const char *name;
        enum config_client_class class;
    } names[] = {{"normal", CONFIG_CLIENT_NORMAL},
                 {"slave", CONFIG_CLIENT_REPLICA},
                 {"replica", CONFIG_CLIENT_REPLICA},
                 {"pubsub", CONFIG_CLIENT_PUBSUB}};
    char text[SMALL_BYTES];
    for (size_t i = 0; small_text(word, text) && i < ARRAY_LEN(names); i++) {
        if (strcasecmp(text, names[i].name) != 0)
            continue;
        *ret_class = names[i].class;
        return true;
    }
    return false;
}

/* Classes that are not named keep what they have. */
static enum rc limits_set(const struct config_row *row, struct config *config,
                          const struct bytes *word, size_t word_count, struct err *err)
{
    struct config_output_limit limits[CONFIG_CLIENT_CLASSES];
    memcpy(limits, field_of(row, config), sizeof limits);
    if (word_count == 0 || word_count % 4 != 0)
        return err_set(err, RC_INVALID, "Wrong number of arguments in buffer limit configuration.");
    for (; word_count > 0; word += 4, word_count -= 4) {
        enum config_client_class class;
        struct config_output_limit limit;
        int64_t soft_s;
        if (!class_parse(word[0], &class))
            return err_set(err, RC_INVALID,
                           "Invalid client class specified in buffer limit configuration.");
        if (!size_word_parse(word[1], &limit.hard_bytes) ||
            !size_word_parse(word[2], &limit.soft_bytes) || !number_int(word[3], &soft_s) ||
            soft_s < 0)
            return err_set(
                err, RC_INVALID,
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        limit.soft_s = (uint64_t)soft_s;
        limits[class] = limit;
    }
    memcpy(field_of(row, config), limits, sizeof limits);
    return RC_OK;
}

static void limits_text(const struct config_row *row, const struct config *config,
                        enum config_style style, struct buf *to)
{
    const struct config_output_limit *limit = field_in(row, config);
    const char *const names[CONFIG_CLIENT_CLASSES] = {
        [CONFIG_CLIENT_NORMAL] = "normal",
        [CONFIG_CLIENT_REPLICA] = style == CONFIG_FILE ? "replica" : "slave",
        [CONFIG_CLIENT_PUBSUB] = "pubsub",
    };
    for (size_t i = 0; i < CONFIG_CLIENT_CLASSES; i++) {
        config__add(to, "%s%s ", i ? " " : "", names[i]);
        size_add(limit[i].hard_bytes, style, to);
        config__add(to, " ");
        size_add(limit[i].soft_bytes, style, to);
        config__add(to, " %llu", (unsigned long long)limit[i].soft_s);
    }
}

/* ---- all of them ---- */

const struct config_kind_ops *config__kind(const struct config_row *row)
{
    static const struct config_kind_ops kinds[] = {
        [CONFIG_INT] = {"N", .set = int_set, .text = int_text},
        [CONFIG_SIZE] = {"SIZE", .set = size_set, .text = size_text},
        [CONFIG_SHARE] = {"SIZE, N% or auto", .set = share_set, .text = share_text},
        [CONFIG_TIME] = {"TIME", .set = time_set, .text = time_text},
        [CONFIG_OCTAL] = {"OCTAL", .set = octal_set, .text = octal_text},
        [CONFIG_BOOL] = {"yes|no", .set = bool_set, .text = bool_text},
        [CONFIG_WORD] = {"WORD", .set = word_set, .text = word_text},
        [CONFIG_TEXT] = {"TEXT", .set = text_set, .text = text_text, .dup = text_dup,
                         .done = text_done},
        [CONFIG_NAME] = {"NAME", .set = name_set, .text = text_text, .dup = text_dup,
                         .done = text_done},
        [CONFIG_BYTES] = {"TEXT", .zeros = true, .set = bytes_set, .text = bytes_text,
                          .dup = bytes_dup, .done = bytes_done},
        [CONFIG_LIST] = {"ADDR...", .many = true, .set = list_set, .text = list_text,
                         .dup = list_dup, .done = list_done},
        [CONFIG_FIXED] = {"WORD", .many = true, .set = fixed_set, .text = fixed_text},
        [CONFIG_ENGINE] = {"NAME", .set = engine_set, .text = engine_text},
        [CONFIG_EVENTS] = {"FLAGS", .set = events_set, .text = events_text},
        [CONFIG_RULES] = {"RULE", .many = true, .set = rules_set, .text = rules_text,
                          .dup = list_dup, .done = list_done},
        [CONFIG_TYPES] = {"TYPE=DB...", .many = true, .set = types_set, .text = list_text,
                          .dup = list_dup, .done = list_done},
        [CONFIG_LIMITS] = {"LIMITS", .many = true, .set = limits_set, .text = limits_text},
    };
    return &kinds[row->kind];
}

enum rc config__row_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err)
{
    const struct config_kind_ops *kind = config__kind(row);
    if (word_count == 0 || (word_count > 1 && !kind->many))
        return err_set(err, RC_INVALID, "wrong number of arguments");
    for (size_t i = 0; i < word_count; i++)
        if (!kind->zeros && word[i].len > 0 && memchr(word[i].ptr, 0, word[i].len))
            return err_set(err, RC_INVALID, "argument must not contain a zero byte");
    return kind->set(row, config, word, word_count, err);
}

void config__row_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to)
{
    config__kind(row)->text(row, config, style, to);
}

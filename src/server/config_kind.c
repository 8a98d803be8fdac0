// SPDX-License-Identifier: Apache-2.0
/* config_kind.c - kinds of options that only the server has: engine, keyspace events, limits. */
#include <strings.h>

#include "server/config_int.h"
#include "types/kv.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    EVENTS_ALL = KV_EVENT_GENERIC | KV_EVENT_STRING | KV_EVENT_LIST | KV_EVENT_SET | KV_EVENT_HASH |
                 KV_EVENT_ZSET | KV_EVENT_EXPIRED | KV_EVENT_EVICTED | KV_EVENT_STREAM |
                 CONFIG_NOTIFY_MODULE, /* A */
};

/* The engine in memory is for tests: what is flushed to it would be lost with the process. */
static enum rc engine_set(const struct option *row, void *field, const struct bytes *word,
                          size_t word_count, struct err *err)
{
    (void)row;
    (void)word_count;
    char text[OPTION_SMALL_BYTES];
    const struct engine_ops *engine = option_small_text(*word, text) ? engine_find(text) : NULL;
    if (!engine || engine == &engine_memory_ops)
        return err_set(err, RC_INVALID, "argument must be the name of an engine: %s",
                       engine_rocksdb_ops.name);
    *(const struct engine_ops **)field = engine;
    return RC_OK;
}

static void engine_text(const struct option *row, const void *field, enum option_style style,
                        struct buf *to)
{
    (void)row;
    (void)style;
    option_add(to, "%s", (*(const struct engine_ops *const *)field)->name);
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

static enum rc events_set(const struct option *row, void *field, const struct bytes *word,
                          size_t word_count, struct err *err)
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
    option_number_put(row, field, flags);
    return RC_OK;
}

static void events_text(const struct option *row, const void *field, enum option_style style,
                        struct buf *to)
{
    unsigned flags = (unsigned)option_number(row, field);
    if (flags == 0 && style == OPTION_FILE)
        option_add(to, "\"\"");
    if ((flags & EVENTS_ALL) == EVENTS_ALL) {
        option_add(to, "A");
        flags &= ~(unsigned)EVENTS_ALL;
    }
    for (size_t i = 0; i < ARRAY_LEN(event_flags); i++)
        if (flags & event_flags[i].flags)
            option_add(to, "%c", event_flags[i].letter);
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
    char text[OPTION_SMALL_BYTES];
    for (size_t i = 0; option_small_text(word, text) && i < ARRAY_LEN(names); i++) {
        if (strcasecmp(text, names[i].name) != 0)
            continue;
        *ret_class = names[i].class;
        return true;
    }
    return false;
}

/* Classes that are not named keep what they have. */
static enum rc limits_set(const struct option *row, void *field, const struct bytes *word,
                          size_t word_count, struct err *err)
{
    struct config_output_limit limits[CONFIG_CLIENT_CLASSES];
    (void)row;
    memcpy(limits, field, sizeof limits);
    if (word_count == 0 || word_count % 4 != 0)
        return err_set(err, RC_INVALID, "Wrong number of arguments in buffer limit configuration.");
    for (; word_count > 0; word += 4, word_count -= 4) {
        enum config_client_class class;
        struct config_output_limit limit;
        int64_t soft_s;
        if (!class_parse(word[0], &class))
            return err_set(err, RC_INVALID,
                           "Invalid client class specified in buffer limit configuration.");
        if (!option_size_parse(word[1], &limit.hard_bytes) ||
            !option_size_parse(word[2], &limit.soft_bytes) || !number_int(word[3], &soft_s) ||
            soft_s < 0)
            return err_set(
                err, RC_INVALID,
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        limit.soft_s = (uint64_t)soft_s;
        limits[class] = limit;
    }
    memcpy(field, limits, sizeof limits);
    return RC_OK;
}

static void limits_text(const struct option *row, const void *field, enum option_style style,
                        struct buf *to)
{
    const struct config_output_limit *limit = field;
    (void)row;
    const char *const names[CONFIG_CLIENT_CLASSES] = {
        [CONFIG_CLIENT_NORMAL] = "normal",
        [CONFIG_CLIENT_REPLICA] = style == OPTION_FILE ? "replica" : "slave",
        [CONFIG_CLIENT_PUBSUB] = "pubsub",
    };
    for (size_t i = 0; i < CONFIG_CLIENT_CLASSES; i++) {
        option_add(to, "%s%s ", i ? " " : "", names[i]);
        option_size_add(limit[i].hard_bytes, style, to);
        option_add(to, " ");
        option_size_add(limit[i].soft_bytes, style, to);
        option_add(to, " %llu", (unsigned long long)limit[i].soft_s);
    }
}

const struct option_kind config__engine = {"NAME", .set = engine_set, .text = engine_text};
const struct option_kind config__events = {"FLAGS", .set = events_set, .text = events_text};
const struct option_kind config__limits = {"LIMITS", .many = true, .set = limits_set,
                                           .text = limits_text};

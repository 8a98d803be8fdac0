// SPDX-License-Identifier: Apache-2.0
/* config_int.h - the table of options, for the files config*.c.
 *
 * Threads: as config.h. */
#pragma once

#include "base/limits.h"
#include "server/config.h"

enum { CONFIG_ROWS_MAX = 256 };

/* The groups of config_redis.def: what a person who sets up a server need not read. */
#define CONFIG_GROUP_KEPT "Options of Redis that change nothing"
#define CONFIG_GROUP_ONLY "Options of Redis with one value"

enum config_kind {
    CONFIG_INT,
    CONFIG_SIZE,  /* 512mb */
    CONFIG_SHARE, /* 512mb, 5%, auto; 0: no limit */
    CONFIG_TIME,  /* 60s, 500ms; the field counts milliseconds */
    CONFIG_OCTAL, /* permissions */
    CONFIG_BOOL,
    CONFIG_WORD,
    CONFIG_TEXT,
    CONFIG_NAME,  /* of a file, without a directory */
    CONFIG_BYTES, /* struct bytes: a text that may hold NUL */
    CONFIG_LIST,
    CONFIG_FIXED,  /* Redis has it; here it has one value, and no field */
    CONFIG_ENGINE, /* const struct engine_ops * */
    CONFIG_EVENTS, /* flags of notify-keyspace-events */
    CONFIG_LIMITS, /* client-output-buffer-limit */
    CONFIG_RULES,  /* land: every line adds one */
    CONFIG_TYPES,  /* tile-types */
};

struct config_row {
    const char *name;
    const char *alias; /* Redis's name for it, or its older one there; NULL: none */
    const char *group; /* rows of a group stand together */
    enum config_kind kind;
    bool live; /* CONFIG SET may change it */
    uint16_t offset, width;
    const char *start;        /* the default, as a file would say it */
    int64_t min, max;         /* of the number; of a text's length */
    const char *const *words; /* CONFIG_WORD: up to NULL, in the order of the enum */
    const char *help;
    const char *why; /* CONFIG_FIXED: why there is no other value */
};

/* How a value is written: as CONFIG GET answers, or as a person writes it in a file. */
enum config_style { CONFIG_PLAIN, CONFIG_FILE };

struct config_kind_ops {
    const char *value; /* what stands for it in --help */
    bool many;         /* takes any number of words */
    bool zeros;        /* takes NUL */
    enum rc (*set)(const struct config_row *row, struct config *config, const struct bytes *word,
                   size_t word_count, struct err *err);
    /* Several words are separated by spaces. */
    void (*text)(const struct config_row *row, const struct config *config, enum config_style style,
                 struct buf *to);
    /* NULL where the field owns nothing: replaces what was copied from another config by its own.
     */
    void (*dup)(void *field);
    void (*done)(void *field);
};

const struct config_row *config__rows(size_t *ret_count);
/* Whether the row is one of config_redis.def. */
bool config__row_is_redis_only(const struct config_row *row);
/* By name or alias, whatever the case; *ret_name (may be NULL) is the one that fits. NULL: none. */
const struct config_row *config__row_find(struct bytes name, const char **ret_name);
const struct config_kind_ops *config__kind(const struct config_row *row);

/* RC_INVALID: the text begins with "argument" or says what was wrong, without the name. */
enum rc config__row_set(const struct config_row *row, struct config *config,
                        const struct bytes *word, size_t word_count, struct err *err) NODISCARD;
/* Adds the value. */
void config__row_text(const struct config_row *row, const struct config *config,
                      enum config_style style, struct buf *to);
bool config__row_same(const struct config_row *row, const struct config *a, const struct config *b);
/* For texts that are bounded by what config__row_set() lets in: aborts without memory. */
void config__add(struct buf *to, const char *format, ...) PRINTF_LIKE(2, 3);

struct config_words { /* of a line, without their quotes */
    struct bytes word[CONFIG_WORDS_MAX];
    size_t count;
    struct buf text; /* what the words point into */
};
void config__words_init(struct config_words *words);
void config__words_done(struct config_words *words);
/* Redis's quoting: "a\n\x41", 'a', and a quote ends a word. RC_INVALID: it does not, or there are
 * too many words. */
enum rc config__words_split(struct config_words *words, struct bytes line,
                            struct err *err) NODISCARD;
/* A word as a file would have it: in quotes if it has to be. */
void config__word_quote(struct bytes word, struct buf *to);

/* A name and its values; an include reads a file, `depth` files deep already. */
enum rc config__line_apply(struct config *config, const struct config_words *words, unsigned depth,
                           struct err *err) NODISCARD;
enum rc config__read(struct config *config, const char *path, unsigned depth,
                     struct err *err) NODISCARD;

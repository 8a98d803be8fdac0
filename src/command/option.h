// SPDX-License-Identifier: Apache-2.0
/* option.h - options: a row each, and the kinds of values.
 *
 * A row says name, kind, default, limits, whether the option can change while the server runs, what
 * has to happen then, and what it is for. Its value is a field of its owner's struct, the server's
 * or a model's. The command line, files, CONFIG and docs/configuration.md are made from the rows
 * (server/config.h).
 *
 * Ownership: texts and lists belong to their field.
 * Threads: the executor; before it starts, any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

enum { OPTION_SMALL_BYTES = 64 /* no number, word or size is longer */ };
#define OPTION_SHARE_AUTO INT64_MIN /* of option_share */

/* How a value is written: as CONFIG GET answers, or as a person writes it in a file. */
enum option_style { OPTION_PLAIN, OPTION_FILE };

struct option;
struct option_kind {
    const char *value; /* what stands for it in --help */
    bool many;         /* takes any number of words */
    bool zeros;        /* takes NUL */
    /* RC_INVALID: the text begins with "argument" or says what was wrong, without the name. */
    enum rc (*set)(const struct option *row, void *field, const struct bytes *word,
                   size_t word_count, struct err *err);
    /* Several words are separated by spaces. */
    void (*text)(const struct option *row, const void *field, enum option_style style,
                 struct buf *to);
    /* NULL where the field owns nothing: replaces what was copied from another by its own. */
    void (*dup)(void *field);
    void (*done)(void *field);
};

struct option {
    const char *name;
    const char *alias; /* Redis's name for it, or its older one there; NULL: none */
    const char *group; /* rows of a group stand together */
    const struct option_kind *kind;
    bool live; /* CONFIG SET may change it */
    uint16_t offset, width;
    const char *start;        /* the default, as a file would say it */
    int64_t min, max;         /* of the number; of a text's length */
    const char *const *words; /* option_word: up to NULL, in the order of the enum */
    const char *help;
    const char *why; /* option_fixed: why there is no other value */
    /* CONFIG SET has changed it, and the other options of the same command: what else has to
     * happen. Gets the owner (the server, or a model's object) and its options. NULL: nothing. */
    void (*changed)(void *owner, const void *options);
    /* CONFIG SET: what the system cannot do is refused before anything is changed. NULL: it can. */
    enum rc (*possible)(const void *options, struct err *err);
};

#define OPTION_FIELD(type, member) \
    .offset = offsetof(type, member), .width = sizeof(((type *)0)->member)
enum { OPTION_LIVE_NO = false, OPTION_LIVE = true };
#define OPTION_KB INT64_C(1024)
#define OPTION_MB (OPTION_KB * 1024)
#define OPTION_GB (OPTION_MB * 1024)
#define OPTION_TB (OPTION_GB * 1024)

extern const struct option_kind option_int;
extern const struct option_kind option_size;  /* 512mb */
extern const struct option_kind option_share; /* 512mb, 5%, auto; 0: no limit */
extern const struct option_kind option_time;  /* 60s, 500ms; the field counts milliseconds */
extern const struct option_kind option_octal; /* permissions */
extern const struct option_kind option_bool;
extern const struct option_kind option_word;
extern const struct option_kind option_text;
extern const struct option_kind option_name;  /* of a file, without a directory */
extern const struct option_kind option_bytes; /* struct bytes: a text that may hold NUL */
extern const struct option_kind option_list;
extern const struct option_kind
    option_fixed; /* Redis has it; here it has one value, and no field */

struct option_list {
    char **text;
    size_t count;
};
/* As option_kind has them, for kinds that are lists. */
enum rc option_list_set(const struct option *row, void *field, const struct bytes *word,
                        size_t word_count, struct err *err) NODISCARD;
void option_list_text(const struct option *row, const void *field, enum option_style style,
                      struct buf *to);
void option_list_dup(void *field);
void option_list_done(void *field);

/* ---- for kinds ---- */

/* For texts that are bounded by what set() lets in: aborts without memory. */
void option_add(struct buf *to, const char *format, ...) PRINTF_LIKE(2, 3);
/* A word as a file would have it: in quotes if it has to be. */
void option_word_quote(struct bytes word, struct buf *to);
char *option_text_new(struct bytes word);
/* What strings of our own can be compared with. False: too long to be one of them. */
bool option_small_text(struct bytes word, char to[OPTION_SMALL_BYTES]);
void option_number_put(const struct option *row, void *field, int64_t value);
int64_t option_number(const struct option *row, const void *field);
/* "512mb" as Redis reads it: b, k (1000), kb (1024), m, mb, g, gb. */
bool size_parse(const char *text, uint64_t *ret_bytes) NODISCARD;
bool option_size_parse(struct bytes word, uint64_t *ret_bytes) NODISCARD;
void option_size_add(uint64_t bytes, enum option_style style, struct buf *to);

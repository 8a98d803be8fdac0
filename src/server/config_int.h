// SPDX-License-Identifier: Apache-2.0
/* config_int.h - the table of options, for the files config*.c.
 *
 * Threads: as config.h. */
#pragma once

#include "base/limits.h"
#include "command/option.h"
#include "server/config.h"

enum { CONFIG_ROWS_MAX = 256 };

/* The groups of config_redis.def: what a person who sets up a server need not read. */
#define CONFIG_GROUP_KEPT "Options of Redis that change nothing"
#define CONFIG_GROUP_ONLY "Options of Redis with one value"

extern const struct option_kind config__engine; /* const struct engine_ops * */
extern const struct option_kind config__events; /* flags of notify-keyspace-events */
extern const struct option_kind config__limits; /* client-output-buffer-limit */

/* The rows of the server and of all models, in the order in which people see them. NULL: that was
 * the last. */
const struct option *config__row(size_t index);
/* Where the row's value is in a struct config, or in the options of a model that it holds. */
void *config__field(const struct option *row, const struct config *config);
size_t config__row_index(const struct option *row);
size_t config__row_model(const struct option *row); /* MODEL_COUNT: it is the server's */
/* Whether the row is one of config_redis.def. */
bool config__row_is_redis_only(const struct option *row);
/* By name or alias, whatever the case; *ret_name (may be NULL) is the one that fits. NULL: none. */
const struct option *config__row_find(struct bytes name, const char **ret_name);

/* RC_INVALID: see option_kind.set(). */
enum rc config__row_set(const struct option *row, struct config *config, const struct bytes *word,
                        size_t word_count, struct err *err) NODISCARD;
/* Adds the value. */
void config__row_text(const struct option *row, const struct config *config,
                      enum option_style style, struct buf *to);
bool config__row_same(const struct option *row, const struct config *a, const struct config *b);

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

/* A name and its values; an include reads a file, `depth` files deep already. */
enum rc config__line_apply(struct config *config, const struct config_words *words, unsigned depth,
                           struct err *err) NODISCARD;
enum rc config__read(struct config *config, const char *path, unsigned depth,
                     struct err *err) NODISCARD;

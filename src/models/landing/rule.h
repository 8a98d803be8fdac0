// SPDX-License-Identifier: Apache-2.0
/* rule.h - a rule: which keys land where, and how.
 *
 *   NAME PATTERN SINK [shape object | shape columns table T key K] [db N] [tables N] [batch N]
 *        [delay MS] [keep MS] [password-file PATH] [flush store-only] [expire delete]
 *
 * The pattern has one `*`. Shape object takes keys slug-data:{app:region:logicType:ownerId} only.
 *
 * Ownership: a rule owns its words.
 * Threads: never changed once it is made. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum land_shape { LAND_OBJECT, LAND_COLUMNS };
enum {
    LAND_TABLES_MAX = 64,
    LAND_BATCH_MAX = 10000,
    LAND_NAME_BYTES_MAX = 64,
    LAND_RULE_WORDS_MAX = 32,
    LAND_RULE_BYTES_MAX = 16 * 1024,
};

struct rule_spec {
    struct bytes text; /* all words, as they are written in a config file */
    const char *name;
    struct bytes prefix, suffix; /* of the pattern, around its star */
    const char *url;             /* the sink, as it was given */
    const char *sink;            /* as it is opened: place.h */
    const char *password_file;   /* as it is opened; "": none */
    bool is_stored; /* it was read from the store at a start, which nothing of it may prevent */
    enum land_shape shape;
    struct bytes table, key; /* shape columns */
    uint32_t db;
    uint32_t tables;
    uint32_t batch;
    uint64_t delay_ms;
    uint64_t keep_ms; /* 0: for ever */
    bool flush_store_only;
    bool expire_delete;
};

/* RC_INVALID: what is wrong with it. */
enum rc rule_parse(const struct bytes *word, size_t count, struct rule_spec **ret_spec,
                   struct err *err) NODISCARD;
/* Words separated by blanks, as rule_spec.text has them. */
enum rc rule_parse_text(struct bytes text, struct rule_spec **ret_spec, struct err *err) NODISCARD;
void rule_free(struct rule_spec *spec); /* NULL is allowed */

/* What is opened: the text of the scheme, and what is behind it. */
void rule_sink_set(struct rule_spec *spec, const char *scheme, const char *rest);
void rule_password_file_set(struct rule_spec *spec, const char *path);
/* Words of a rule need no quotes in a configuration file. */
bool rule_word_is_plain(struct bytes word);
/* The text with another word for the sink: passwords are not shown. */
bool rule_text_shown(const struct rule_spec *spec, const char *sink, struct buf *to) NODISCARD;

/* The text without the password in its URL. False: it has none, or is no rule. */
bool rule_text_bare(struct bytes text, struct buf *to);

/* The part matched by the star is borrowed from the key; ret_star may be NULL. */
bool rule_takes(const struct rule_spec *spec, struct bytes key, struct bytes *ret_star);
/* Whether one key can be taken by both. */
bool rules_overlap(const struct rule_spec *one, const struct rule_spec *other);
/* Whether two keys can have one row: the same id in both. */
bool rules_share_table(const struct rule_spec *one, const struct rule_spec *other);

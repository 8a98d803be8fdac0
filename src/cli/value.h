// SPDX-License-Identifier: Apache-2.0
/* value.h - a whole reply as a value: arrays with what is in them.
 *
 * Ownership: a value lives in the arena it was read to.
 * Threads: one. */
#pragma once

#include "base/arena.h"
#include "cli/link.h"

struct value {
    enum reply_kind kind;
    int64_t number;     /* REPLY_INT */
    struct bytes text;  /* REPLY_STATUS, REPLY_BULK */
    struct value *item; /* REPLY_ARRAY */
    size_t item_count;
};

/* A command and its reply. RC_REPLY: the reply is an error, whose text it is. */
enum rc value_ask(struct link *link, const struct bytes *word, size_t count, struct arena *arena,
                  struct value *ret_value, struct err *err) NODISCARD;
/* What a label of a map has. NULL: there is none. */
const struct value *value_field(const struct value *map, const char *label);

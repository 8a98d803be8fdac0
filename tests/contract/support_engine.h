// SPDX-License-Identifier: Apache-2.0
/* support_engine.h - an engine of either kind in a directory of its own, and short ways to use it.
 *
 * Spaces have printable numbers, so that keys of tests are text: 'w' is a space of whole keys, 'f'
 * and 'g' have group keys of two bytes, 'l' stores a length byte.
 *
 * Ownership: engine_fix_done() closes and frees all.
 * Threads: one. */
#pragma once

#include "store/engine/engine.h"
#include "store/engine/engine_memory.h"
#include "test.h"

struct engine_fix {
    const struct engine_ops *ops;
    struct engine_memory *memory; /* engine_memory only */
    struct space_set spaces;
    char top[256];
    char dir[300];
    char scratch[300];
    struct engine *engine;
    struct engine_unit *unit; /* between engine_fix_begin() and engine_fix_apply() */
    struct err err;
    struct buf text; /* of the last engine_fix_rows() or engine_fix_get() */
};

void engine_fix_init(struct engine_fix *fix, const struct engine_ops *ops);
void engine_fix_done(struct engine_fix *fix);
/* Runs fn with a fresh engine of each kind. */
void engine_fix_each(void (*fn)(struct engine_fix *fix));

struct engine_options engine_fix_options(struct engine_fix *fix);
void engine_fix_reopen(struct engine_fix *fix);

/* One unit from a script of words: "+key=value" puts, "-key" deletes, "~from:to" deletes a range.
 */
void engine_fix_unit(struct engine_fix *fix, const char *script);
void engine_fix_begin(struct engine_fix *fix);
void engine_fix_add(struct engine_fix *fix, const char *script);
void engine_fix_apply(struct engine_fix *fix); /* and closes */
void engine_fix_drop(struct engine_fix *fix);  /* closes without applying */

/* The value as text, or the name of the code. Borrowed until the next call. */
const char *engine_fix_get(struct engine_fix *fix, const struct engine_view *view, const char *key);
/* "key=value key=value" of a range; an empty upper has no end. Borrowed until the next call. */
struct engine_fix_range {
    const struct engine_view *view;
    const char *lower;
    const char *upper;
    bool reverse;
    bool one_group;
};
const char *engine_fix_rows(struct engine_fix *fix, struct engine_fix_range range);
const char *engine_fix_all(struct engine_fix *fix); /* everything, forward */

// SPDX-License-Identifier: Apache-2.0
/* scan_keys.h - all keys of a namespace, wherever they are: SCAN, KEYS, RANDOMKEY.
 *
 * SCAN walks the table of what is in memory, in hash order, then the engine in key order. Keys go
 * from memory to the engine only (a loaded key stays in the engine as well), so a key that is there
 * from start to end is met, at the latest in the engine; one that is in both is met twice. Memory
 * alone is walked while everything is in it.
 *
 * KEYS in one commit is exact: every key once, as the commit sees them. In many commits it is a
 * SCAN whose caller leaves out what came before.
 *
 * A position, which a cursor stands for: 'h' ‖ cursor of the table(8), or 'e' ‖ the first key to
 * look at.
 *
 * Ownership: names are borrowed until the callback returns.
 * Threads: the executor. */
#pragma once

#include "types/kv.h"

typedef void scan_keys_fn(void *arg, struct bytes name);

struct scan_keys {
    uint64_t cursor; /* 0: the start */
    uint64_t count;  /* how many keys to look at, more or less; at least 1 */
    bool has_pattern;
    struct bytes pattern;
    bool has_type;
    struct bytes type; /* as TYPE answers; an unknown one is that of no key */
    bool takes_dead;   /* those whose time is over and that were not swept, too */
};
/* *ret_cursor 0: that was the end. RC_INVALID: an unknown cursor. RC_COLD: fn may have been called,
 * and is called again. */
enum rc scan_keys(const struct run *run, const struct scan_keys *scan, scan_keys_fn *fn, void *arg,
                  uint64_t *ret_cursor, struct err *err) NODISCARD;
/* The same between positions; scan->cursor is not looked at. An empty one is the start, *ret_next
 * empty the end. RC_COLD: fn has not been called. */
enum rc scan_keys_step(const struct run *run, const struct scan_keys *scan, struct bytes position,
                       scan_keys_fn *fn, void *arg, struct buf *ret_next,
                       struct err *err) NODISCARD;
enum rc scan_keys_all(const struct run *run, struct bytes pattern, scan_keys_fn *fn, void *arg,
                      struct err *err) NODISCARD;
/* Calls fn for one key, or not at all if there is none. Keys in memory have about the same chance;
 * others have one only when none is found there. */
enum rc scan_keys_random(const struct run *run, scan_keys_fn *fn, void *arg,
                         struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* engine_int.h - what the engines share: the checks of a unit's calls.
 *
 * Every engine answers a caller's mistake alike, before any of its own state is touched.
 *
 * Ownership: the caller owns the struct; keys are copied.
 * Threads: one owner. */
#pragma once

#include "store/engine/engine.h"

enum {
    ENGINE_KEY_BYTES_MAX =
        2 + STORE_PREFIX_BYTES_MAX + STORE_GROUP_KEY_BYTES_MAX + STORE_SUFFIX_BYTES_MAX,
};

struct engine_order {
    struct buf last; /* the last key; empty: none yet */
    struct buf from; /* the largest start of a range delete; empty: none yet */
};

void engine__order_init(struct engine_order *order);
void engine__order_done(struct engine_order *order);
/* RC_INVALID where engine.h does not allow this call now; nothing changes then. */
enum rc engine__order_key(struct engine_order *order, struct bytes key, struct bytes value,
                          struct err *err) NODISCARD;
enum rc engine__order_range(struct engine_order *order, struct bytes from, struct bytes to,
                            struct err *err) NODISCARD;
/* Appends a value that was read. RC_TOO_BIG: over the limit of `to`; RC_NOMEM. */
enum rc engine__value_add(struct buf *to, struct bytes value, struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* sys.h - the rows of the sys space: what a flush unit says about itself.
 *
 *   key (after the space byte 0)   value, integers little-endian
 *   "mark"                         format u32, features u32, uuid 16 bytes, incarnation u32,
 *                                  segment u64, lsn u64
 *   "counter:" ‖ name              value i64
 * All of them are written by every unit that changes them, in the unit itself, so the engine always
 * holds a mark and the counters of exactly the same moment.
 *
 * Threads: any. */
#pragma once

#include "store/engine/engine.h"

enum { SYS_FORMAT = 1 };

struct sys_mark {
    uint8_t uuid[16];
    uint32_t incarnation;
    uint64_t segment; /* every commit of segments up to this one is in the engine */
    uint64_t lsn;     /* the last LSN among them */
};

/* RC_NOT_FOUND: an engine that was never flushed to. RC_VERSION, RC_CORRUPT. */
enum rc sys_mark_get(struct engine *engine, const struct engine_view *view,
                     struct sys_mark *ret_mark, struct err *err) NODISCARD;
bool sys_mark_add(const struct sys_mark *mark, struct buf *key, struct buf *value) NODISCARD;
bool sys_counter_add(struct bytes name, int64_t count, struct buf *key,
                     struct buf *value) NODISCARD;
enum rc sys_counters_walk(struct engine *engine, const struct engine_view *view,
                          enum rc (*fn)(struct bytes name, int64_t value, void *arg,
                                        struct err *err),
                          void *arg, struct err *err) NODISCARD;

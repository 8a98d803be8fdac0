// SPDX-License-Identifier: Apache-2.0
/* engine_memory.h - the test controls of the engine in memory.
 *
 * The contents live in a struct engine_memory that the test owns and that outlives engines (a
 * "disk"). It can refuse or delay at every call.
 * Threads: any (one lock). */
#pragma once

#include "store/engine/engine.h"

struct engine_memory;

enum engine_memory_op {
    ENGINE_MEMORY_ANY,
    ENGINE_MEMORY_OPEN,
    ENGINE_MEMORY_GET,
    ENGINE_MEMORY_ITER_OPEN,
    ENGINE_MEMORY_ITER_NEXT,
    ENGINE_MEMORY_VIEW,
    ENGINE_MEMORY_UNIT_OPEN,
    ENGINE_MEMORY_UNIT_ADD,   /* put, delete, delete_range */
    ENGINE_MEMORY_APPLY,      /* refused: not applied */
    ENGINE_MEMORY_APPLY_LATE, /* applied, and then an error is returned */
    ENGINE_MEMORY_CHECKPOINT,
    ENGINE_MEMORY_APPLY_HIDDEN, /* an error, and what was applied shows after a reopen */
    ENGINE_MEMORY_REOPEN,       /* refused: the engine is closed */
};

struct engine_memory *engine_memory_new(void);
void engine_memory_free(struct engine_memory *memory);
/* The count-th such call from now (1 = the next) fails with rc, `times` in a row (-1: for ever).
 * count 0 disarms. One fault an op; ENGINE_MEMORY_ANY meets each of the others, APPLY_LATE and
 * APPLY_HIDDEN too. */
void engine_memory_arm(struct engine_memory *memory, enum engine_memory_op op, uint64_t count,
                       int64_t times, enum rc rc);
uint64_t engine_memory_op_count(struct engine_memory *memory, enum engine_memory_op op);
/* ENGINE_TIER_MEMORY answers RC_COLD for every key (true) or never (false, the default). */
void engine_memory_cold(struct engine_memory *memory, bool cold);
/* What pressure() reports. */
void engine_memory_pressure(struct engine_memory *memory, const struct engine_pressure *pressure);
/* Between gate(true) and gate(false) every get, iter_open and apply waits: a slow engine. Only
 * ENGINE_TIER_MEMORY never waits. */
void engine_memory_gate(struct engine_memory *memory, bool closed);
/* An error in the background: units are refused until the engine is opened again. */
void engine_memory_break(struct engine_memory *memory);
/* Rows of the directory that was opened first. */
uint64_t engine_memory_row_count(struct engine_memory *memory);

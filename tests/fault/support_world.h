// SPDX-License-Identifier: Apache-2.0
/* support_world.h - a store without threads on simulated files, and what it must hold.
 *
 * The rows that can exist are few and numbered: a cell is (prefix, group, suffix), its content a
 * value number, 0 where there is no row. Every turn puts its own number into one more row, so that
 * after a crash the state that is there can be told and compared as a whole.
 *
 * Calls on a world may meet the fault that a test has armed: they then check that the error has a
 * text, and go on. What was acknowledged is in `history`.
 *
 * Ownership: the caller owns the struct.
 * Threads: one. */
#pragma once

#include "base/file_sim.h"
#include "store/engine/engine_memory.h"
#include "store/store.h"
#include "store/testing.h"

enum {
    WORLD_PREFIXES = 4,
    WORLD_GROUPS_MAX = 16,
    WORLD_SUFFIXES_MAX = 72, /* in the first group of a prefix */
    WORLD_SUFFIXES = 10,     /* in the others */
    WORLD_GROUPS = 4,        /* of a prefix, except the first: its groups have one row */
    WORLD_CELLS_OF_PREFIX = WORLD_SUFFIXES_MAX + (WORLD_GROUPS - 1) * WORLD_SUFFIXES,
    WORLD_CELLS = WORLD_GROUPS_MAX + (WORLD_PREFIXES - 1) * WORLD_CELLS_OF_PREFIX,
    WORLD_TURNS_MAX = 256,
    WORLD_VALUE_BYTES_MAX = 64 * 1024,
};

struct world_state {
    uint32_t turn; /* the last one that is in it */
    uint64_t lsn;  /* of its last commit */
    int64_t row_count;
    uint32_t cell[WORLD_CELLS];
};

struct world {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock;
    struct store *store; /* NULL: closed, or it could not be opened */
    enum durability durability;
    const char *dir;
    uint32_t prefix[WORLD_PREFIXES];
    uint32_t turn_prefix;
    uint32_t counter;
    bool small;          /* short values and few of them: every byte of the journal will be tried */
    uint64_t closed_lsn; /* everything up to it was synced by store_close() */
    struct err err;
    uint32_t next_turn;
    uint32_t next_value;
    uint64_t error_count;        /* calls that answered with an error */
    struct world_state now;      /* as a reader must see it: acknowledged, and the open turn */
    struct world_state acked;    /* as of the last written turn */
    struct world_state failed;   /* a turn that was refused and perhaps could not be taken back */
    bool has_failed;             /* it may be seen after a crash */
    struct world_state *history; /* acknowledged states, oldest first */
    size_t history_count;
    uint8_t *value; /* room for one */
};

void world_init(struct world *world, enum durability durability); /* not open */
void world_done(struct world *world);

size_t world_group_count(int prefix);
size_t world_suffix_count(int prefix, int group);

/* Opens and names the prefixes. False: an error with a text; the store may be NULL then. */
bool world_open(struct world *world);
/* As world_open(), for directories that may be refused: any answer is right. The text is also left
 * in world->err. */
enum rc world_try(struct world *world, struct err *ret_err);
void world_close(struct world *world); /* store_close(); what it answers is only looked at */

/* One turn of some commits, by the seed: puts, deletes, drops, reads, undone commits. */
void world_turn(struct world *world, uint64_t seed);
/* Reads some cells, cold or not. */
void world_read(struct world *world, uint64_t seed);
/* Walks some groups, in both directions. */
void world_walk(struct world *world, uint64_t seed);
/* A frozen view is made and compared; a backup is made, opened and compared. */
void world_freeze(struct world *world);
void world_backup(struct world *world, uint64_t number);

/* Up to `count` pieces of background work. */
void world_steps(struct world *world, enum store_step step, int count);
/* Until everything written is in the engine. Nothing may fail any more. */
void world_flush(struct world *world);
/* The journal can be written again, by itself, after the fault has gone. */
void world_recover(struct world *world);
/* Every row, every group in order, the counter; nothing may fail. */
void world_check(struct world *world);

/* As kill -9: then world_open() must show what was acknowledged. */
void world_process_end(struct world *world);
void world_power_cut(struct world *world, bool torn, uint64_t seed);
/* After a crash and world_open(): takes the state that is there for the one to go on with. It must
 * be one that was acknowledged, at or above `lsn`, or the refused turn. */
void world_settle(struct world *world, uint64_t lsn);

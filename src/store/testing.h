// SPDX-License-Identifier: Apache-2.0
/* testing.h - what tests, and DEBUG commands, do with a store.
 *
 * Ownership: store_abandon() frees the store; nothing else here keeps or hands out anything.
 * Threads: the executor. */
#pragma once

#include "store/turns.h"

/* Closes the store and leaves its directory as kill -9 would. */
void store_abandon(struct store *store);

enum store_step { STORE_STEP_JOURNAL, STORE_STEP_FLUSH, STORE_STEP_LOAD };
/* Manual mode: one piece of a thread's work. False: there was none. */
bool store_step(struct store *store, enum store_step step);
/* Evicts all that may leave the hot tier. */
void store_evict_all(struct store *store);
/* The count-th read from now that could be answered answers RC_COLD instead. 0: off. */
void store_cold_inject(struct store *store, uint64_t count);
void store_check(struct store *store); /* asserts the invariants of the hot tier; slow */

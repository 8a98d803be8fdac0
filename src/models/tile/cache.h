// SPDX-License-Identifier: Apache-2.0
/* cache.h - what shards were asked for: reads under way, and answers that are kept.
 *
 * An answer (a tile, or that there is none) is found by type, key and time. A read is opened by the
 * command that misses the tile; everybody else who misses it waits for the same read.
 *
 * Invariants:
 *   (1) A key has at most one read in the table.
 *   (2) A change of a key takes its read out of the table: what was read before the change is
 *       nobody's answer after it, except of those who have run already.
 *   (3) Answers that a waiter holds stay, whatever the limit; others are within it, those used
 *       last.
 *
 * Threads: the executor; the shard is read by a reader. */
#pragma once

#include "base/dlist.h"
#include "base/table.h"
#include "models/tile/worker.h"

struct tile_read; /* defined in models/tile/cache.c */
struct cache {
    struct tiles *tiles;
    struct table table;
    struct dlist lru;  /* used last first; those that nobody holds */
    struct dlist ats;  /* reads of "the newest not after", never kept */
    struct dlist open; /* to be started after this turn */
    struct dlist all;
    struct tile_read **wanted; /* by the run of this number */
    size_t wanted_count, wanted_cap;
    uint64_t wanted_run;
    uint64_t bytes, bytes_max;
    uint64_t hits, misses, reads, failures; /* counted */
};

void cache_init(struct cache *cache, struct tiles *tiles, uint64_t bytes_max);
void cache_done(struct cache *cache); /* the readers have ended */
void cache_turn(struct cache *cache); /* starts what was opened */

struct cache_answer {
    struct bytes row;
    struct tilekey key;
};
/* RC_OK, RC_NOT_FOUND; RC_COLD: it is being read. RC_IO and others: it could not be. */
enum rc cache_find(struct cache *cache, struct tile_type *type, struct tilekey key, bool at,
                   struct cache_answer *ret_answer, struct err *err) NODISCARD;
/* The same, without asking: RC_COLD says that nothing is known. */
enum rc cache_peek(struct cache *cache, struct tile_type *type, struct tilekey key,
                   struct cache_answer *ret_answer) NODISCARD;
/* (2) */
void cache_forget(struct cache *cache, const struct tile_type *type, struct tilekey key);

// SPDX-License-Identifier: Apache-2.0
/* worker.h - the threads that touch shards: one writes, others read.
 *
 *   work->run = ...; work->done = ...;
 *   workers_give(workers, TILE_WRITER, work);     run() on a thread of that kind
 *   ... workers_turn(workers) ...                 done() on the executor
 *
 * Works of the writer run in the order in which they were given.
 *
 * Ownership: a work is embedded by its owner and must live until done(), or workers_free().
 * Threads: the executor, except run(). */
#pragma once

#include "base/dlist.h"
#include "models/tile/pool.h"

struct workers; /* defined in models/tile/worker.c */

struct tile_work {
    void (*run)(struct tile_work *work, struct pool *pool);
    void (*done)(struct tile_work *work);
    struct dlink link; /* for worker.c */
};

enum tile_worker { TILE_WRITER, TILE_READER };
enum { TILE_WORKERS = 2 };

struct workers_options {
    struct pool *pool; /* borrowed */
    uint32_t reader_count;
    void (*wake)(void *arg); /* from any thread: workers_turn() has something to do */
    void *wake_arg;
};
enum rc workers_new(const struct workers_options *options, struct workers **ret_workers,
                    struct err *err) NODISCARD;
/* Ends what runs; what waits is dropped, and no done() is called any more. NULL is allowed. */
void workers_free(struct workers *workers);
void workers_give(struct workers *workers, enum tile_worker kind, struct tile_work *work);
/* Calls done() of what has been done. True: something was. */
bool workers_turn(struct workers *workers);

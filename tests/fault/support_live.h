// SPDX-License-Identifier: Apache-2.0
/* support_live.h - a store with threads, RocksDB and real files, driven by a child process.
 *
 * What goes wrong ends the child, with a text.
 * Threads: the store's executor. */
#pragma once

#include "store/store.h"
#include "store/turns.h"

struct live {
    struct store *store;
    int wake_fd; /* an eventfd: store_poll() has something to do */
    struct err err;
};

/* Sets options.wake and opens. */
void live_open(struct live *live, struct store_options *options);
void live_close(struct live *live);

/* Waits for something to happen, and takes it in. */
void live_wait(struct live *live);
/* Waits until a writer may start. */
void live_room(struct live *live);
/* Waits until everything written so far is in the engine. */
void live_flush(struct live *live);
/* Within a commit that has changed nothing: waits for what the last RC_COLD wanted. */
void live_load(struct live *live);
/* store_get() that waits for cold rows; RC_OK or RC_NOT_FOUND. */
enum rc live_get(struct live *live, struct store_group group, struct bytes suffix,
                 struct bytes *ret_value);
/* store_walk_next() that waits; RC_OK or RC_NOT_FOUND. */
enum rc live_next(struct live *live, struct store_walk *walk, struct bytes *ret_suffix,
                  struct bytes *ret_value);
/* store_commit(); store_write() and store_poll(). */
void live_commit(struct live *live);
void live_write(struct live *live);
/* Ends the child with the text of live->err unless rc is RC_OK. */
void live_ok(struct live *live, enum rc rc);

// SPDX-License-Identifier: Apache-2.0
/* queue_lease.h - the job that puts tasks back whose takers have not come back in time.
 *
 * It looks at the database of every tile type and sleeps until the next lease ends, a second at
 * most; TASK.TAKE looks by itself, so nothing depends on when it wakes.
 *
 * Ownership: the caller owns what queue_lease_new() gives and frees it before its tiles and tasks.
 * Threads: the executor. */
#pragma once

#include "store/task.h"
#include "models/tile/tile.h"

struct queue_lease; /* defined in models/tile/queue_lease.c */

struct queue_lease_options {
    struct kv *kv;
    struct tiles *tiles;
    struct tasks *tasks;
};

struct queue_lease *queue_lease_new(const struct queue_lease_options *options); /* starts the job */
void queue_lease_free(struct queue_lease *lease); /* NULL is allowed */
/* A lease ends at this time: the job does not sleep past it. */
void queue_lease_deadline_set(struct queue_lease *lease, int64_t lease_ms);

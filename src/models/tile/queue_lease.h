// SPDX-License-Identifier: Apache-2.0
/* queue_lease.h - the job that puts tasks back whose takers have not come back in time.
 *
 * It looks at the database of every tile type and sleeps until the next lease ends, a second at
 * most; TASK.TAKE looks by itself, so nothing depends on when it wakes.
 *
 * Ownership: it belongs to its tiles, and ends before them.
 * Threads: the executor. */
#pragma once

#include "store/task.h"
#include "models/tile/tile.h"

void queue_lease_start(struct tiles *tiles);
void queue_lease_end(struct tiles *tiles); /* also if it was not started */
/* A lease ends at this time: the job does not sleep past it. */
void queue_lease_deadline_set(struct tiles *tiles, int64_t lease_ms);

// SPDX-License-Identifier: Apache-2.0
/* metrics.h - the server's figures in Prometheus's text format.
 *
 * Threads: the executor. */
#pragma once

#include "base/buf.h"
#include "models/partition/part.h"

struct server;

/* False: no memory. */
bool metrics_add(struct server *server, struct buf *to) NODISCARD;

/* ---- partitions (metrics_part.c) ---- */

struct metrics_part { /* of all jobs */
    uint64_t job_count, active, completed, simple, packed, batches, bytes, raw_bytes, waiting;
    uint64_t encode_us, decode_us; /* a batch, on average */
    uint64_t done_p99_us;          /* at most */
    struct part_watch watch;
};
void metrics_part_sum(const struct server *server, struct metrics_part *ret_sum);

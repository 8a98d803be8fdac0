// SPDX-License-Identifier: Apache-2.0
/* meter.h - how many bytes of the hot tier are clean, and how many belong to which journal segment.
 *
 * Everything in the hot tier carries the number of the segment that holds its last change. Once the
 * flush mark reaches that number the thing is clean: it may be dropped and read back.
 *
 * Ownership: plain value, meter_done() frees the ring.
 * Threads: the executor. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct meter {
    uint64_t total_bytes;
    uint64_t clean_bytes;
    uint32_t mark;        /* segments up to this one are flushed */
    uint64_t *segment;    /* bytes of segment mark+1, mark+2, ... */
    size_t segment_count; /* allocated */
};

void meter_init(struct meter *meter, uint32_t mark);
void meter_done(struct meter *meter);
void meter_add(struct meter *meter, uint32_t segment, size_t bytes);
void meter_sub(struct meter *meter, uint32_t segment, size_t bytes);
/* The flush mark moved: what belonged to these segments is clean now. */
void meter_mark(struct meter *meter, uint32_t mark);

static inline void meter_move(struct meter *meter, uint32_t from, uint32_t to, size_t bytes)
{
    if (from == to)
        return;
    meter_sub(meter, from, bytes);
    meter_add(meter, to, bytes);
}

static inline uint64_t meter_dirty(const struct meter *meter)
{
    return meter->total_bytes - meter->clean_bytes;
}

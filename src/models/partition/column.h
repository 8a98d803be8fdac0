// SPDX-License-Identifier: Apache-2.0
/* column.h - a run of 64-bit integers, packed, any of which can be read alone.
 *
 * A column is a transform (what is predicted) around a kind (how the rest is stored). Arithmetic
 * wraps at 64 bits, so every value comes back, whatever was predicted. Numbers are little-endian
 * bit fields, `v` is a uvarint, `z` a zigzag uvarint:
 *
 *   SIZE  WHAT
 *   1     kind (low 4 bits), transform (high 4 bits)
 *   LINEAR: value[i] = (slope * i >> 16) + inner[i]
 *     z     slope, with 16 bits of fraction
 *   DELTA: value[i] = value[i-1] + inner[i-1]
 *     z     value[0]
 *     p     value[256], value[512], ...: sync points
 *   DELTA2: delta[i] = delta[i-1] + inner[i-1], delta[i] = value[i+1] - value[i]
 *     z z   value[0], delta[0]
 *     p p   value[256 * j], delta[256 * j]
 *   p is nothing if there is no such value, else: z base, 1 width, bit fields.
 *
 *   CONST   z value
 *   BITS    z base, 1 width, bit fields of value - base
 *   RADIX   z base, v radix, 1 codes a group, 1 bytes a group; a group is a number in base radix,
 *           its first code the lowest digit
 *   RICE    z base, 1 low, v bytes of high, then: 4 bytes for every 1024th value but the first
 *           (the bit in high where its code begins), bit fields with the low bits of
 *           value - base, high: each value's upper part in unary, zeros and a one
 *   RUNS    v runs, column of values, column of ends (index behind the run)
 *   PATCH   v exceptions, column of all values, column of positions, column of what is there
 *   DICT    v entries, column of entries, column of codes
 *
 * Columns inside RUNS, PATCH and DICT are of the first four kinds.
 * Numbers of kinds and transforms are for ever.
 *
 * Ownership: an opened column borrows the bytes.
 * Threads: any; nothing changes after the open. */
#pragma once

#include "base/buf.h"
#include "base/bytes.h"

enum { COLUMN_SYNC = 256, COLUMN_SAMPLE = 1024, COLUMN_RADIX_MAX = 1 << 14 };

struct column_sync { /* bit fields, one a sync point */
    int64_t base;
    unsigned width;
    struct bytes data;
};

struct column {
    uint8_t kind;
    uint8_t transform;
    uint8_t width;       /* BITS; RICE: of the low part */
    uint8_t group_codes; /* RADIX */
    uint8_t group_bytes;
    uint32_t count;       /* values of the column */
    uint32_t inner_count; /* what the kind stores: fewer for deltas */
    uint32_t child_count; /* runs, exceptions or entries */
    int64_t base;
    int64_t slope;
    int64_t first;
    int64_t first_delta;
    uint64_t radix;
    uint64_t inverse; /* 2^64 / radix, rounded up */
    struct bytes data;
    struct bytes high;
    struct bytes samples;
    struct column_sync sync;
    struct column_sync sync_delta;
    struct column *child[3];
};

struct column_pool { /* where opened columns are put */
    struct column *column;
    size_t count;
    size_t max;
};

/* The smallest form that was found. False: the buffer is full. */
bool column_encode(const int64_t *values, size_t count, struct buf *to) NODISCARD;

/* Reads one column of `count` values, moves *from behind it. NULL: damaged, or the pool is full.
 * Reading an opened column cannot leave its bytes, whatever they say. */
struct column *column_open(struct column_pool *pool, const uint8_t **from, const uint8_t *end,
                           size_t count);
void column_read(const struct column *column, size_t from, size_t count, int64_t *to);
int64_t column_get(const struct column *column, size_t index);
/* Values at ascending indexes: what lies between them is passed over, not read. */
void column_gather(const struct column *column, const uint32_t *index, size_t count, int64_t *to);
/* Of an ascending column: the first index whose value is at least this. */
size_t column_lower_bound(const struct column *column, int64_t value);
/* Positions and ends ascend, codes are in the dictionary, samples are right: what opening leaves
 * out because the frame's checksum vouches for it. One value read alone is then the one of a run.
 */
bool column_check(const struct column *column);
/* Sums of the values before each of ascending indexes, if that is quick: of CONST and PATCH over
 * it.
 */
bool column_sums_quickly(const struct column *column);
void column_sums(const struct column *column, const uint32_t *index, size_t count, int64_t *to);

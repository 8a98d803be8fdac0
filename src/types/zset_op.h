// SPDX-License-Identifier: Apache-2.0
/* zset_op.h - union, intersection and difference of sorted sets, and of sets: their members have
 * score 1.
 *
 * Ownership: results are in the arena of the command that runs.
 * Threads: the executor. */
#pragma once

#include "types/build.h"
#include "types/zset.h"

enum zset_op { ZSET_UNION, ZSET_INTER, ZSET_DIFF };
enum zset_aggregate { ZSET_SUM, ZSET_MIN, ZSET_MAX };

struct zset_source {
    struct key key; /* a set, a sorted set, or nothing */
    double weight;
};

struct zset_op_options {
    enum zset_op op;
    enum zset_aggregate aggregate;
    uint64_t count_max; /* ZSET_INTER: this many are enough; 0: all */
};

/* Distinct members in no order. Sources are read, and may be sorted. */
enum rc zset_combine(const struct run *run, struct zset_source *source, size_t count,
                     const struct zset_op_options *options, struct zset_items *ret_items,
                     struct err *err) NODISCARD;
/* A part of that. *ret_at: every member up to it is decided, in the arena. */
enum rc zset_combine_piece(const struct run *run, struct zset_source *source, size_t count,
                           const struct zset_op_options *options, struct build_piece *piece,
                           struct zset_items *ret_items, struct bytes *ret_at,
                           struct err *err) NODISCARD;
/* No more elements than this. */
uint64_t zset_combine_max(const struct zset_source *source, size_t count, enum zset_op op);

// SPDX-License-Identifier: Apache-2.0
/* column_int.h - what writing and reading a column share. */
#pragma once

#include "models/partition/column.h"

enum column_kind { /* on disk: append, never renumber */
                   COLUMN_CONST = 0,
                   COLUMN_BITS = 1,
                   COLUMN_RADIX = 2,
                   COLUMN_RICE = 3,
                   COLUMN_RUNS = 4,
                   COLUMN_PATCH = 5,
                   COLUMN_DICT = 6,
};
enum column_transform { /* on disk: append, never renumber */
                        COLUMN_PLAIN = 0,
                        COLUMN_LINEAR = 1,
                        COLUMN_DELTA = 2,
                        COLUMN_DELTA2 = 3,
};
enum { COLUMN_SLOPE_BITS = 16 };

/* Differences and sums that wrap, as signed numbers. */
static inline int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline int64_t column_slope_at(int64_t slope, size_t index)
{
    return (int64_t)(((__int128)slope * (__int128)index) >> COLUMN_SLOPE_BITS);
}

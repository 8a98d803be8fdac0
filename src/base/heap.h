// SPDX-License-Identifier: Apache-2.0
/* heap.h - a binary heap of pointers, the one that comes first in [0].
 *
 * Ownership: the caller's array.
 * Threads: one owner. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef bool heap_before_fn(const void *a, const void *b);

/* The one at `at` may be too large for its place. */
static inline void heap_sink(void **item, size_t count, size_t at, heap_before_fn *before)
{
    void *sinking = item[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(item[child + 1], item[child]))
            child++;
        if (!before(item[child], sinking))
            break;
        item[at] = item[child];
    }
    item[at] = sinking;
}

static inline void heap_make(void **item, size_t count, heap_before_fn *before)
{
    for (size_t i = count / 2; i-- > 0;)
        heap_sink(item, count, i, before);
}

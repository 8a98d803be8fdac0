// SPDX-License-Identifier: Apache-2.0
/* arena.h - memory that is freed all at once.
 *
 * Ownership: what arena_alloc() returns lives until arena_clear() or arena_done().
 * Threads: one owner. */
#pragma once

#include "base/bytes.h"
#include "base/macros.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t used;               /* of the newest */
    size_t total_bytes;        /* held by all chunks */
};

void arena_init(struct arena *arena);
void arena_done(struct arena *arena);
void arena_clear(struct arena *arena); /* keeps one chunk for the next use */
void *arena_alloc(struct arena *arena, size_t bytes) __attribute__((returns_nonnull));
void *arena_alloc_array(struct arena *arena, size_t count, size_t size)
    __attribute__((returns_nonnull));
/* For sizes a client chose: NULL when there is no memory. */
void *arena_try_alloc(struct arena *arena, size_t bytes) NODISCARD;
struct bytes arena_copy(struct arena *arena, struct bytes bytes);

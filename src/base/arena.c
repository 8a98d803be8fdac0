// SPDX-License-Identifier: Apache-2.0
/* arena.c - cuts pieces from chunks; arena_clear() keeps the newest chunk. */
#include "base/arena.h"

#include "base/mem.h"

#include "base/banned.h"

/* Small pieces are cut from the newest chunk; chunks double in size from the first to the largest.
 * A piece that would waste much of a chunk gets one of its own, put behind the newest, so that the
 * room in the newest is not lost. */
enum {
    ARENA_ALIGN = 16,
    ARENA_CHUNK_BYTES_MIN = 4 * 1024, /* with its header, so that size classes are filled */
    ARENA_CHUNK_BYTES_MAX = 64 * 1024,
    ARENA_OWN_CHUNK_BYTES = ARENA_CHUNK_BYTES_MAX / 4,
};

struct arena_chunk {
    struct arena_chunk *next;
    size_t cap; /* of data */
    _Alignas(ARENA_ALIGN) uint8_t data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

static size_t chunk_bytes(const struct arena_chunk *chunk)
{
    return mem_class_bytes(sizeof *chunk + chunk->cap);
}

static void free_from(struct arena *arena, struct arena_chunk *chunk)
{
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        arena->total_bytes -= chunk_bytes(chunk);
        mem_free(chunk);
        chunk = next;
    }
}

void arena_done(struct arena *arena)
{
    if (!arena)
        return;
    free_from(arena, arena->chunk);
    *arena = (struct arena){0};
}

void arena_clear(struct arena *arena)
{
    struct arena_chunk *kept = arena->chunk;
    if (kept && sizeof *kept + kept->cap > ARENA_CHUNK_BYTES_MAX) {
        arena_done(arena); /* one large request must not keep its memory for ever */
        return;
    }
    if (kept) {
        free_from(arena, kept->next);
        kept->next = NULL;
    }
    arena->used = 0;
}

static struct arena_chunk *chunk_new(size_t cap, bool may_fail)
{
    struct arena_chunk *chunk =
        may_fail ? mem_try_alloc(sizeof *chunk + cap) : mem_alloc(sizeof *chunk + cap);
    if (chunk)
        chunk->cap = cap;
    return chunk;
}

static size_t next_chunk_cap(const struct arena *arena, size_t bytes)
{
    size_t cap = ARENA_CHUNK_BYTES_MIN - sizeof(struct arena_chunk);
    while (cap < bytes || (arena->chunk && cap <= arena->chunk->cap &&
                           cap < ARENA_CHUNK_BYTES_MAX - sizeof(struct arena_chunk)))
        cap = 2 * (cap + sizeof(struct arena_chunk)) - sizeof(struct arena_chunk);
    return cap;
}

static void *alloc_slow(struct arena *arena, size_t bytes, bool may_fail)
{
    bool own = bytes > ARENA_OWN_CHUNK_BYTES;
    struct arena_chunk *chunk = chunk_new(own ? bytes : next_chunk_cap(arena, bytes), may_fail);
    if (!chunk)
        return NULL;
    arena->total_bytes += chunk_bytes(chunk);
    if (own && arena->chunk) {
        chunk->next = arena->chunk->next;
        arena->chunk->next = chunk;
        return chunk->data;
    }
    chunk->next = arena->chunk;
    arena->chunk = chunk;
    arena->used = bytes;
    return chunk->data;
}

static inline void *alloc(struct arena *arena, size_t bytes, bool may_fail)
{
    bytes = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct arena_chunk *chunk = arena->chunk;
    if (UNLIKELY(!chunk || bytes > chunk->cap - arena->used))
        return alloc_slow(arena, bytes, may_fail);
    void *ptr = chunk->data + arena->used;
    arena->used += bytes;
    return ptr;
}

void *arena_try_alloc(struct arena *arena, size_t bytes)
{
    if (bytes > PTRDIFF_MAX - ARENA_CHUNK_BYTES_MAX)
        return NULL;
    return alloc(arena, bytes, true);
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    /* Sizes that somebody else chose go through arena_try_alloc(). */
    ASSERT(bytes <= PTRDIFF_MAX - ARENA_CHUNK_BYTES_MAX);
    return alloc(arena, bytes, false);
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    bool overflows = __builtin_mul_overflow(count, size, &bytes);
    ASSERT(!overflows);
    return arena_alloc(arena, bytes);
}

struct bytes arena_copy(struct arena *arena, struct bytes bytes)
{
    uint8_t *copy = arena_alloc(arena, bytes.len);
    if (bytes.len)
        memcpy(copy, bytes.ptr, bytes.len);
    return bytes_of(copy, bytes.len);
}

/* bytes.h - a borrowed run of bytes: the length travels with the pointer.
 *
 * Ownership: nothing here owns memory. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes { /* borrowed, never freed, may hold NUL */
    const uint8_t *ptr;
    size_t len;
};

#define BYTES(lit) ((struct bytes){(const uint8_t *)(lit), sizeof(lit) - 1})
#define BYTES_INIT(lit)                         \
    {                                           \
        (const uint8_t *)(lit), sizeof(lit) - 1 \
    } /* where a constant is needed */
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

static inline struct bytes bytes_of(const void *ptr, size_t len)
{
    return (struct bytes){ptr, len};
}

static inline struct bytes bytes_from(struct bytes bytes, size_t offset)
{
    return (struct bytes){bytes.ptr + offset, bytes.len - offset};
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Byte order; a prefix sorts before what it is a prefix of. */
static inline int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

static inline bool bytes_start_with(struct bytes bytes, struct bytes prefix)
{
    return bytes.len >= prefix.len &&
           (prefix.len == 0 || memcmp(bytes.ptr, prefix.ptr, prefix.len) == 0);
}

static inline size_t bytes_shared_len(struct bytes a, struct bytes b)
{
    size_t max = a.len < b.len ? a.len : b.len, i = 0;
    while (i < max && a.ptr[i] == b.ptr[i])
        i++;
    return i;
}

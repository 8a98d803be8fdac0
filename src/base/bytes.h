// SPDX-License-Identifier: Apache-2.0
/* bytes.h - a borrowed run of bytes: the length travels with the pointer.
 *
 * Ownership: nothing here owns memory.
 * Threads: any. */
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

enum { BYTES_SHORT = 32 };

static inline uint64_t bytes_word(const uint8_t *from, size_t len) /* 2, 4 or 8 */
{
    uint64_t word = 0;
    memcpy(&word, from, len);
    return word;
}

/* Whether the first `word` bytes are the same, and the last ones: of up to twice as many, all. */
static inline bool bytes_eq_ends(const uint8_t *a, const uint8_t *b, size_t len, size_t word)
{
    return ((bytes_word(a, word) ^ bytes_word(b, word)) |
            (bytes_word(a + len - word, word) ^ bytes_word(b + len - word, word))) == 0;
}

/* Whether `len` bytes are the same. Keys and suffixes are short: this ends before a call of
 * memcmp() has begun. */
static inline bool bytes_eq_at(const uint8_t *a, const uint8_t *b, size_t len)
{
    if (len > BYTES_SHORT)
        return memcmp(a, b, len) == 0;
    if (len > 16)
        return bytes_eq_ends(a, b, 16, 8) && bytes_eq_ends(a + len - 16, b + len - 16, 16, 8);
    if (len >= 8)
        return bytes_eq_ends(a, b, len, 8);
    if (len >= 4)
        return bytes_eq_ends(a, b, len, 4);
    if (len >= 2)
        return bytes_eq_ends(a, b, len, 2);
    return len == 0 || *a == *b;
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && bytes_eq_at(a.ptr, b.ptr, a.len);
}

/* Moves `word` bytes from both ends: of up to twice as many, all. */
static inline void bytes_move_ends(uint8_t *to, const uint8_t *from, size_t len, size_t word)
{
    uint64_t first = bytes_word(from, word), last = bytes_word(from + len - word, word);
    memcpy(to, &first, word);
    memcpy(to + len - word, &last, word);
}

/* memmove(), for the same reason. Also of nothing, from nowhere. */
static inline void bytes_move(uint8_t *to, const uint8_t *from, size_t len)
{
    if (len > BYTES_SHORT) {
        memmove(to, from, len);
    } else if (len > 16) {
        uint64_t first[2], last[2];
        memcpy(first, from, sizeof first);
        memcpy(last, from + len - sizeof last, sizeof last);
        memcpy(to, first, sizeof first);
        memcpy(to + len - sizeof last, last, sizeof last);
    } else if (len >= 8) {
        bytes_move_ends(to, from, len, 8);
    } else if (len >= 4) {
        bytes_move_ends(to, from, len, 4);
    } else if (len >= 2) {
        bytes_move_ends(to, from, len, 2);
    } else if (len > 0) {
        *to = *from;
    }
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
    return bytes.len >= prefix.len && bytes_eq_at(bytes.ptr, prefix.ptr, prefix.len);
}

static inline size_t bytes_shared_len(struct bytes a, struct bytes b)
{
    size_t max = a.len < b.len ? a.len : b.len, i = 0;
    while (i < max && a.ptr[i] == b.ptr[i])
        i++;
    return i;
}

// SPDX-License-Identifier: Apache-2.0
/* bits.h - fields of 0 to 64 bits in a run of bytes, lowest bit first.
 *
 * Reading never passes the end that is given; the caller has checked once that the fields are
 * there.
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/codec.h"

static inline uint64_t bits_mask(unsigned width)
{
    return width >= 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
}

static inline unsigned bits_width(uint64_t value)
{
    return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* Ones in a word, inline: without a machine flag compilers call a function with a table. */
static inline unsigned bits_ones(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(word * UINT64_C(0x0101010101010101) >> 56);
}

static inline size_t bits_bytes(size_t count, unsigned width)
{
    return (count * width + 7) / 8;
}

/* Up to eight bytes from an offset, zeros behind the end. */
static inline uint64_t bits_word(struct bytes data, size_t offset)
{
    uint64_t word = 0;
    if (LIKELY(offset + 8 <= data.len))
        return le64_get(data.ptr + offset);
    if (offset < data.len)
        memcpy(&word, data.ptr + offset, data.len - offset);
    return word;
}

static inline uint64_t bits_get(struct bytes data, uint64_t bit, unsigned width)
{
    size_t offset = (size_t)(bit >> 3);
    unsigned shift = (unsigned)bit & 7;
    if (width == 0)
        return 0;
    uint64_t value = bits_word(data, offset) >> shift;
    if (UNLIKELY(shift + width > 64) && offset + 8 < data.len)
        value |= (uint64_t)data.ptr[offset + 8] << (64 - shift);
    return value & bits_mask(width);
}

struct bits_out {
    struct buf *buf;
    uint64_t word;
    unsigned used; /* bits of word */
    bool failed;
};

static inline void bits_out_flush(struct bits_out *out)
{
    uint8_t bytes[8];
    le64_put(bytes, out->word);
    if (!buf_add(out->buf, bytes, (out->used + 7) / 8))
        out->failed = true;
    out->word = 0;
    out->used = 0;
}

static inline void bits_put(struct bits_out *out, uint64_t value, unsigned width)
{
    value &= bits_mask(width);
    if (width == 0)
        return;
    out->word |= value << out->used;
    if (out->used + width < 64) {
        out->used += width;
        return;
    }
    unsigned kept = 64 - out->used;
    out->used = 64;
    bits_out_flush(out);
    if (width > kept) {
        out->word = value >> kept;
        out->used = width - kept;
    }
}

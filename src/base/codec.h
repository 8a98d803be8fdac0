// SPDX-License-Identifier: Apache-2.0
/* codec.h - numbers as bytes: big-endian, little-endian, uvarint, order-preserving.
 *
 * Encoders write into room the caller has; decoders check every byte and never read past end.
 * Threads: any. */
#pragma once

#include "base/bytes.h"

enum { UVARINT_BYTES_MAX = 10 };

static inline void be16_put(uint8_t *to, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(to, &value, sizeof value);
}
static inline void be32_put(uint8_t *to, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(to, &value, sizeof value);
}
static inline void be64_put(uint8_t *to, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(to, &value, sizeof value);
}
static inline uint16_t be16_get(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return __builtin_bswap16(value);
}
static inline uint32_t be32_get(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return __builtin_bswap32(value);
}
static inline uint64_t be64_get(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return __builtin_bswap64(value);
}
/* The eight bytes behind `skip` (at most all) as a number that orders as they do, as if zeros
 * followed the last. */
static inline uint64_t be64_head(struct bytes bytes, size_t skip)
{
    const uint8_t *from = bytes.ptr + skip;
    size_t len = bytes.len - skip;
    if (len >= 8)
        return be64_get(from);
    if (len == 0)
        return 0;
    if (bytes.len >= 8) /* some of them, behind others */
        return be64_get(from + len - 8) << (64 - 8 * len);
    if (len >= 4)
        return (uint64_t)be32_get(from) << 32 | (uint64_t)be32_get(from + len - 4)
                                                    << (64 - 8 * len);
    return (uint64_t)from[0] << 56 | (uint64_t)from[len / 2] << (56 - 8 * (len / 2)) |
           (uint64_t)from[len - 1] << (64 - 8 * len);
}
static inline void le16_put(uint8_t *to, uint16_t value)
{
    memcpy(to, &value, sizeof value);
}
static inline void le32_put(uint8_t *to, uint32_t value)
{
    memcpy(to, &value, sizeof value);
}
static inline void le64_put(uint8_t *to, uint64_t value)
{
    memcpy(to, &value, sizeof value);
}
static inline uint16_t le16_get(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}
static inline uint32_t le32_get(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}
static inline uint64_t le64_get(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "le*_put copy memory as it is");

size_t uvarint_len(uint64_t value);
/* Writes 1..10 bytes, returns how many. */
size_t uvarint_put(uint8_t *to, uint64_t value);
/* Reads from *from, moves it past what was read. False: cut short or more than 64 bits; over-long
 * encodings are accepted. */
bool uvarint_get(const uint8_t **from, const uint8_t *end, uint64_t *ret_value);

static inline uint64_t zigzag_encode(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}
static inline int64_t zigzag_decode(uint64_t code)
{
    return (int64_t)(code >> 1) ^ -(int64_t)(code & 1);
}

/* Codes whose unsigned (big-endian) order is the order of the values. */
static inline uint64_t order_from_int64(int64_t value)
{
    return (uint64_t)value ^ (UINT64_C(1) << 63);
}
static inline int64_t order_to_int64(uint64_t code)
{
    return (int64_t)(code ^ (UINT64_C(1) << 63));
}
uint64_t order_from_double(double value); /* -0.0 as +0.0; nan is the caller's mistake */
double order_to_double(uint64_t code);

// SPDX-License-Identifier: Apache-2.0
/* codec.c - uvarints, and doubles as integers of the same order. */
#include "base/codec.h"

#include "base/macros.h"

#include "base/banned.h"

size_t uvarint_len(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

size_t uvarint_put(uint8_t *to, uint64_t value)
{
    size_t len = 0;
    while (value >= 0x80) {
        to[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    to[len++] = (uint8_t)value;
    return len;
}

bool uvarint_get(const uint8_t **from, const uint8_t *end, uint64_t *ret_value)
{
    const uint8_t *at = *from;
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 7 * UVARINT_BYTES_MAX; shift += 7) {
        if (at >= end)
            return false;
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return false; /* bits 65 and up, or an eleventh byte */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *from = at;
            *ret_value = value;
            return true;
        }
    }
    return false;
}

uint64_t order_from_double(double value)
{
    uint64_t bits;
    ASSERT(value == value);
    value += 0.0; /* -0.0 becomes +0.0 */
    memcpy(&bits, &value, sizeof bits);
    /* Negative numbers: all bits turned, so that larger magnitudes sort first. */
    return bits >> 63 ? ~bits : bits | (UINT64_C(1) << 63);
}

double order_to_double(uint64_t code)
{
    double value;
    uint64_t bits = code >> 63 ? code & ~(UINT64_C(1) << 63) : ~code;
    memcpy(&value, &bits, sizeof value);
    return value;
}

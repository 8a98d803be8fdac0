// SPDX-License-Identifier: Apache-2.0
/* double_text.c - prints doubles with 17 digits by 128-bit integers. */
#include "types/double_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"

#include "base/banned.h"

/* A double is m * 2^e with m < 2^53. Its first 17 digits are the integer m * 2^e * 10^k, rounded,
 * for the k that makes it 17 digits long. 5^27 < 2^63: up to k = 27 the product m * 5^k fits 128
 * bits, nothing is lost, and halves are seen as halves. */

enum {
    DIGITS = 17,
    MANTISSA_BITS = 52,
    EXPONENT_BIAS = 1075, /* of m, not of m / 2^52 */
    SCALE_MAX = 27,
    FIXED_EXPONENT_MIN = -4, /* below, %g writes an exponent */
};
static const uint64_t digits_min = UINT64_C(10000000000000000); /* 10^16 */

/* m * 2^e * 10^scale, halves to even. */
static uint64_t scaled(uint64_t m, int e, int scale)
{
    static const uint64_t five[SCALE_MAX + 1] = {1u,
                                                 5u,
                                                 25u,
                                                 125u,
                                                 625u,
                                                 3125u,
                                                 15625u,
                                                 78125u,
                                                 390625u,
                                                 1953125u,
                                                 9765625u,
                                                 48828125u,
                                                 244140625u,
                                                 1220703125u,
                                                 6103515625u,
                                                 30517578125u,
                                                 152587890625u,
                                                 762939453125u,
                                                 3814697265625u,
                                                 19073486328125u,
                                                 95367431640625u,
                                                 476837158203125u,
                                                 2384185791015625u,
                                                 11920928955078125u,
                                                 59604644775390625u,
                                                 298023223876953125u,
                                                 1490116119384765625u,
                                                 7450580596923828125u};
    unsigned __int128 product = (unsigned __int128)m * five[scale];
    int shift = e + scale;
    if (shift >= 0)
        return (uint64_t)(product << shift);
    unsigned __int128 half = (unsigned __int128)1 << (-shift - 1);
    unsigned __int128 rest = product & (2 * half - 1);
    uint64_t whole = (uint64_t)(product >> -shift);
    return whole + (rest > half || (rest == half && (whole & 1)));
}

/* The 17 digits, without zeros at the end; how many. */
static size_t digits_put(char to[DIGITS], uint64_t number)
{
    for (int i = DIGITS - 1; i >= 0; i--) {
        to[i] = (char)('0' + number % 10);
        number /= 10;
    }
    size_t count = DIGITS;
    while (to[count - 1] == '0')
        count--;
    return count;
}

/* digits[0].digits[1]... * 10^exponent as %g writes it. */
static size_t layout(char *to, const char *digits, size_t count, int exponent)
{
    char *at = to;
    if (exponent >= 0) {
        size_t whole = (size_t)exponent + 1;
        for (size_t i = 0; i < whole; i++)
            *at++ = i < count ? digits[i] : '0';
        if (count > whole) {
            *at++ = '.';
            memcpy(at, digits + whole, count - whole);
            at += count - whole;
        }
        return (size_t)(at - to);
    }
    if (exponent >= FIXED_EXPONENT_MIN) {
        *at++ = '0';
        *at++ = '.';
        for (int i = -1; i > exponent; i--)
            *at++ = '0';
        memcpy(at, digits, count);
        return (size_t)(at - to) + count;
    }
    *at++ = digits[0];
    if (count > 1) {
        *at++ = '.';
        memcpy(at, digits + 1, count - 1);
        at += count - 1;
    }
    *at++ = 'e';
    *at++ = '-';
    *at++ = (char)('0' + -exponent / 10);
    *at++ = (char)('0' + -exponent % 10);
    return (size_t)(at - to);
}

size_t double_text(char to[DOUBLE_TEXT_BYTES], double value)
{
    uint64_t bits;
    char digits[DIGITS];
    bool minus = value < 0;
    double magnitude = minus ? -value : value;
    if (!(magnitude >= 1e-10 && magnitude < 1e16))
        return 0;
    memcpy(&bits, &magnitude, sizeof bits);
    int e = (int)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
    uint64_t m = (bits & ((UINT64_C(1) << MANTISSA_BITS) - 1)) | UINT64_C(1) << MANTISSA_BITS;
    /* log10(2) = 1233 / 4096: the decimal exponent, or one less. */
    int exponent = (int)((e + MANTISSA_BITS) * 1233L >> 12);
    uint64_t number = scaled(m, e, DIGITS - 1 - exponent);
    if (number >= 10 * digits_min)
        number = scaled(m, e, DIGITS - 1 - ++exponent);
    ASSERT(number >= digits_min && number <= 10 * digits_min);
    if (number == 10 * digits_min) { /* rounded up to 1 and zeros */
        number = digits_min;
        exponent++;
    }
    to[0] = '-';
    return minus + layout(to + minus, digits, digits_put(digits, number), exponent);
}

// SPDX-License-Identifier: Apache-2.0
/* number.c - parses and prints integers and doubles as Redis does. */
#include "types/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "types/double_text.h"

#include "base/banned.h"

enum { INT_TEXT_BYTES_MAX = 20, FLOAT_TEXT_BYTES_MAX = 5 * 1024 - 1 };

bool number_int(struct bytes text, int64_t *ret_value)
{
    bool minus = text.len > 0 && text.ptr[0] == '-';
    size_t at = minus;
    if (text.len == at || text.len > INT_TEXT_BYTES_MAX)
        return false;
    if (text.ptr[at] == '0') {
        *ret_value = 0;
        return text.len == 1;
    }
    uint64_t value = 0;
    for (; at < text.len; at++) {
        unsigned digit = (unsigned)text.ptr[at] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    if (value > (uint64_t)INT64_MAX + minus)
        return false;
    *ret_value = (int64_t)(minus ? 0 - value : value);
    return true;
}

/* A copy with its NUL, for strtod. */
static bool text_copy(struct bytes text, char to[FLOAT_TEXT_BYTES_MAX + 1])
{
    if (text.len == 0 || text.len > FLOAT_TEXT_BYTES_MAX || isspace(text.ptr[0]))
        return false;
    memcpy(to, text.ptr, text.len);
    to[text.len] = 0;
    return true;
}

bool number_double(struct bytes text, double *ret_value)
{
    char copy[FLOAT_TEXT_BYTES_MAX + 1];
    char *end;
    if (!text_copy(text, copy))
        return false;
    errno = 0;
    double value = strtod(copy, &end);
    if (end != copy + text.len || isnan(value) ||
        (errno == ERANGE && (isinf(value) || fpclassify(value) == FP_ZERO)))
        return false;
    *ret_value = value;
    return true;
}

bool number_long_double(struct bytes text, long double *ret_value)
{
    char copy[FLOAT_TEXT_BYTES_MAX + 1];
    char *end;
    if (!text_copy(text, copy))
        return false;
    errno = 0;
    long double value = strtold(copy, &end);
    if (end != copy + text.len || isnan(value) ||
        (errno == ERANGE && (isinf(value) || fpclassify(value) == FP_ZERO)))
        return false;
    *ret_value = value;
    return true;
}

static size_t digit_count(uint64_t value)
{
    static const uint64_t power[] = {0,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                     1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned least = bits * 1233 >> 12; /* log10(2) is a little more: the count, or one below it */
    return least + (value >= power[least]);
}

size_t number_int_text(char to[NUMBER_INT_BYTES], int64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    if ((uint64_t)value < 100) { /* most lengths */
        size_t one = value < 10;
        memcpy(to, pairs + 2 * value + one, 2);
        to[2 - one] = 0;
        return 2 - one;
    }
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t len = digit_count(rest) + (value < 0);
    char *at = to + len;
    *at = 0;
    for (; rest >= 10; rest /= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (rest % 100), 2);
    }
    if (rest > 0 || value == 0)
        *--at = (char)('0' + rest);
    if (value < 0)
        to[0] = '-';
    return len;
}

size_t number_double_text(char to[NUMBER_DOUBLE_BYTES], double value)
{
    enum { SAFE = 1 << 30 }; /* small integers are the usual scores */
    if (value > -SAFE && value < SAFE && value == (double)(int64_t)value &&
        !(value == 0 && signbit(value)))
        return number_int_text(to, (int64_t)value);
    size_t exact = double_text(to, value);
    if (exact > 0) {
        to[exact] = 0;
        return exact;
    }
    int len = isinf(value) ? snprintf(to, NUMBER_DOUBLE_BYTES, value > 0 ? "inf" : "-inf")
                           : snprintf(to, NUMBER_DOUBLE_BYTES, "%.17g", value);
    ASSERT(len > 0 && len < NUMBER_DOUBLE_BYTES);
    return (size_t)len;
}

size_t number_long_double_text(char to[NUMBER_LONG_DOUBLE_BYTES], long double value)
{
    int printed = snprintf(to, NUMBER_LONG_DOUBLE_BYTES, "%.17Lf", value);
    ASSERT(printed > 0 && printed < NUMBER_LONG_DOUBLE_BYTES);
    size_t len = (size_t)printed;
    if (memchr(to, '.', len)) {
        while (to[len - 1] == '0')
            len--;
        if (to[len - 1] == '.')
            len--;
    }
    if (len == 2 && to[0] == '-' && to[1] == '0') {
        to[0] = '0';
        len = 1;
    }
    to[len] = 0;
    return len;
}

// SPDX-License-Identifier: Apache-2.0
#include "types/number.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test.h"

#include "base/banned.h"

static void assert_text(int64_t value)
{
    char text[NUMBER_INT_BYTES], wanted[NUMBER_INT_BYTES];
    int64_t again;
    int len = snprintf(wanted, sizeof wanted, "%" PRIi64, value);
    ASSERT_EQ(number_int_text(text, value), len);
    ASSERT_STR(text, wanted);
    ASSERT_TRUE(number_int(bytes_of(text, (size_t)len), &again));
    ASSERT_EQ(again, value);
}

/* Where the count of digits changes, and where that of bits does. */
TEST(an_integer_is_written_as_printf_writes_it)
{
    for (int64_t power = 1;; power *= 10) {
        for (int64_t near = power - 2; near <= power + 2; near++) {
            assert_text(near);
            assert_text(-near);
        }
        if (power > INT64_MAX / 10)
            break;
    }
    for (int bit = 0; bit < 63; bit++) {
        assert_text((INT64_C(1) << bit) - 1);
        assert_text(INT64_C(1) << bit);
        assert_text(-(INT64_C(1) << bit));
    }
    assert_text(INT64_MAX);
    assert_text(INT64_MIN);
}

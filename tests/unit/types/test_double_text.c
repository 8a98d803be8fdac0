// SPDX-License-Identifier: Apache-2.0
#include "types/double_text.h"

#include <math.h>
#include <stdio.h>

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

static void same(double value)
{
    char text[DOUBLE_TEXT_BYTES], expected[64];
    size_t len = double_text(text, value);
    int expected_len = snprintf(expected, sizeof expected, "%.17g", value);
    if (len > 0)
        ASSERT_BYTES(bytes_of(text, len), bytes_of(expected, (size_t)expected_len));
}

static double random_double(struct rand *rand)
{
    uint64_t bits = rand_u64(rand);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(ordinary_doubles_have_a_fast_text)
{
    const double values[] = {0.1,     -0.1,        1,      1.5,     1e-10, 9999999999999998.0,
                             3.14159, -123456.789, 0.0001, 0.00001, 1e15,  100,
                             1e-5};
    char text[DOUBLE_TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        ASSERT_GT(double_text(text, values[i]), 0);
        same(values[i]);
    }
}

TEST(others_have_none)
{
    const double values[] = {0, -0.0, 1e16, 1e17, 1e-11, INFINITY, -INFINITY, NAN, 5e-324};
    char text[DOUBLE_TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        ASSERT_EQ(double_text(text, values[i]), 0);
}

TEST(powers_of_ten_and_two_and_their_neighbours_are_written_as_printf_does)
{
    for (int e = -12; e <= 17; e++) {
        double value = pow(10, e);
        same(value);
        same(nextafter(value, 0));
        same(nextafter(value, INFINITY));
        same(-value * 9.9999999999999999);
    }
    for (int e = -40; e <= 60; e++)
        for (int add = -1; add <= 1; add++) {
            same(ldexp(1, e) + add);
            same(nextafter(ldexp(1, e), add * INFINITY));
        }
}

TEST(halves_are_rounded_as_printf_does)
{
    for (int i = 1; i < 4000; i += 2) {
        same(1e15 + i / 16.0);
        same(1e15 + i / 8.0);
        same(4503599627370496.0 + i / 2.0);
        same(i / 1048576.0);
    }
}

TEST(random_doubles_are_written_as_printf_does)
{
    struct rand rand;
    rand_init_seed(&rand, 11);
    for (int i = 0; i < (test_is_long() ? 50000000 : 200000); i++) {
        double value = random_double(&rand);
        int exponent;
        double mantissa = frexp(value, &exponent);
        same(value);
        same(ldexp(mantissa, (int)rand_below(&rand, 90) - 35)); /* within the fast range */
        same((double)rand_below(&rand, 1000000000) / 100);
    }
}

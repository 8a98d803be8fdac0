// SPDX-License-Identifier: Apache-2.0
#include "base/codec.h"

#include <math.h>
#include <stdlib.h>

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

TEST(big_and_little_endian_numbers_have_their_bytes_in_order)
{
    uint8_t to[8];
    be16_put(to, 0x0102);
    ASSERT_BYTES(bytes_of(to, 2), BYTES("\x01\x02"));
    be32_put(to, 0x01020304);
    ASSERT_BYTES(bytes_of(to, 4), BYTES("\x01\x02\x03\x04"));
    be64_put(to, 0x0102030405060708);
    ASSERT_BYTES(bytes_of(to, 8), BYTES("\x01\x02\x03\x04\x05\x06\x07\x08"));
    ASSERT_EQ(be64_get(to), 0x0102030405060708);
    ASSERT_EQ(be32_get(to), 0x01020304);
    ASSERT_EQ(be16_get(to), 0x0102);
    le32_put(to, 0x01020304);
    ASSERT_BYTES(bytes_of(to, 4), BYTES("\x04\x03\x02\x01"));
    ASSERT_EQ(le32_get(to), 0x01020304);
    le64_put(to, UINT64_MAX - 1);
    ASSERT_EQ(le64_get(to), UINT64_MAX - 1);
    le16_put(to, 0xfffe);
    ASSERT_EQ(le16_get(to), 0xfffe);
}

TEST(heads_order_as_the_bytes_behind_what_is_skipped)
{
    const uint8_t text[] = "\xff\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a";
    for (size_t len = 0; len < sizeof text; len++)
        for (size_t skip = 0; skip <= len; skip++) {
            uint8_t padded[8] = {0};
            memcpy(padded, text + skip, len - skip < 8 ? len - skip : 8);
            uint8_t *exact = malloc(len ? len : 1); /* nothing beside it may be read */
            memcpy(exact, text, len);
            ASSERT_EQ(be64_head(bytes_of(exact, len), skip), be64_get(padded));
            free(exact);
        }
}

TEST(uvarints_come_back_and_have_the_length_that_was_foretold)
{
    struct rand rand;
    rand_init_seed(&rand, 1);
    for (int i = 0; i < 200000; i++) {
        uint64_t value = rand_u64(&rand) >> rand_below(&rand, 64);
        uint8_t code[UVARINT_BYTES_MAX];
        size_t len = uvarint_put(code, value);
        ASSERT_EQ(len, uvarint_len(value));
        const uint8_t *from = code;
        uint64_t read = 0;
        ASSERT_TRUE(uvarint_get(&from, code + len, &read));
        ASSERT_EQ(read, value);
        ASSERT_EQ(from - code, len);
    }
    ASSERT_EQ(uvarint_len(0), 1);
    ASSERT_EQ(uvarint_len(127), 1);
    ASSERT_EQ(uvarint_len(128), 2);
    ASSERT_EQ(uvarint_len(UINT64_MAX), UVARINT_BYTES_MAX);
}

static bool get_fails(struct bytes code)
{
    const uint8_t *from = code.ptr;
    uint64_t value = 77;
    bool read = uvarint_get(&from, code.ptr + code.len, &value);
    ASSERT_TRUE(read || (from == code.ptr && value == 77)); /* nothing moves on failure */
    return !read;
}

TEST(uvarints_cut_short_are_refused)
{
    uint8_t code[UVARINT_BYTES_MAX];
    size_t len = uvarint_put(code, UINT64_MAX);
    for (size_t i = 0; i < len; i++)
        ASSERT_TRUE(get_fails(bytes_of(code, i)));
    ASSERT_FALSE(get_fails(bytes_of(code, len)));
}

TEST(uvarints_of_more_than_64_bits_are_refused)
{
    ASSERT_FALSE(get_fails(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")));
    ASSERT_TRUE(get_fails(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")));
    ASSERT_TRUE(get_fails(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")));
    ASSERT_TRUE(get_fails(BYTES("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80")));
    ASSERT_TRUE(get_fails(BYTES("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00")));
}

TEST(over_long_uvarints_are_accepted)
{
    struct bytes code = BYTES("\x81\x80\x80\x00");
    const uint8_t *from = code.ptr;
    uint64_t value = 0;
    ASSERT_TRUE(uvarint_get(&from, code.ptr + code.len, &value));
    ASSERT_EQ(value, 1);
    ASSERT_EQ(from - code.ptr, 4);
}

TEST(zigzag_gives_small_codes_to_small_numbers)
{
    ASSERT_EQ(zigzag_encode(0), 0);
    ASSERT_EQ(zigzag_encode(-1), 1);
    ASSERT_EQ(zigzag_encode(1), 2);
    ASSERT_EQ(zigzag_decode(zigzag_encode(INT64_MIN)), INT64_MIN);
    ASSERT_EQ(zigzag_decode(zigzag_encode(INT64_MAX)), INT64_MAX);
}

TEST(integer_codes_sort_as_the_integers)
{
    const int64_t sorted[] = {INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 2, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
        ASSERT_EQ(order_to_int64(order_from_int64(sorted[i])), sorted[i]);
        if (i > 0)
            ASSERT_TRUE(order_from_int64(sorted[i - 1]) < order_from_int64(sorted[i]));
    }
}

TEST(double_codes_sort_as_the_doubles)
{
    const double sorted[] = {-INFINITY, -1e308, -1.5, -1,  -5e-324, 0,
                             5e-324,    1e-9,   1,    1.5, 1e308,   INFINITY};
    for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
        ASSERT_TRUE(order_to_double(order_from_double(sorted[i])) == sorted[i]);
        if (i > 0)
            ASSERT_TRUE(order_from_double(sorted[i - 1]) < order_from_double(sorted[i]));
    }
}

TEST(minus_zero_has_the_code_of_zero_and_nan_is_a_mistake)
{
    ASSERT_EQ(order_from_double(-0.0), order_from_double(0.0));
    ASSERT_ABORTS(order_from_double(NAN));
}

// SPDX-License-Identifier: Apache-2.0
#include "models/tile/value.h"

#include "test.h"

#include "base/banned.h"

TEST(a_value_is_two_uvarints_and_the_data)
{
    static const uint8_t expected[] = {0x85, 0x08, 0x7c, 0x41, 0x42};
    struct tile_value value = {.epoch = 1029, .provider = 124, .data = BYTES("AB")}, back;
    uint8_t header[TILE_HEADER_BYTES_MAX];
    struct err err = {0};
    ASSERT_EQ(tile_header_put(&value, header), 3);
    ASSERT_BYTES(bytes_of(header, 3), bytes_of(expected, 3));
    ASSERT_OK(tile_value_decode(bytes_of(expected, sizeof expected), &back, &err), &err);
    ASSERT_EQ(back.epoch, 1029);
    ASSERT_EQ(back.provider, 124);
    ASSERT_BYTES(back.data, BYTES("AB"));
}

TEST(over_long_uvarints_are_read_and_numbers_over_63_bits_are_not)
{
    struct tile_value value;
    struct err err = {0};
    ASSERT_OK(tile_value_decode(BYTES("\x85\x80\x00\xfc\x80\x80\x00x"), &value, &err), &err);
    ASSERT_TRUE(value.epoch == 5 && value.provider == 124 && value.data.len == 1);
    ASSERT_RC(tile_value_decode(BYTES(""), &value, &err), RC_INVALID);
    ASSERT_RC(tile_value_decode(BYTES("\x01"), &value, &err), RC_INVALID);
    ASSERT_RC(tile_value_decode(BYTES("\x01\x80"), &value, &err), RC_INVALID);
    ASSERT_RC(
        tile_value_decode(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), &value, &err),
        RC_INVALID); /* 64 bits */
    ASSERT_OK(tile_value_decode(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00"), &value, &err),
              &err); /* 63 */
    ASSERT_RC(
        tile_value_decode(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00"), &value, &err),
        RC_INVALID); /* more than 64 */
}

/* Two of the original's losses: a bare JPEG parses as two uvarints and loses its first bytes, and
 * bare and headered values lie mixed in one shard. The mark of the shard decides, not the data. */
TEST(a_bare_jpeg_keeps_its_first_bytes_where_the_shard_is_marked_legacy)
{
    struct bytes jpeg = BYTES("\xff\xd8\xff\xe0\x00\x10JFIF");
    struct tile_value value = tile_value_of_shard(jpeg, true);
    ASSERT_TRUE(value.epoch == 0 && value.provider == 0);
    ASSERT_BYTES(value.data, jpeg);
    value = tile_value_of_shard(BYTES("\x85\x08\x7c\x41\x42"), false);
    ASSERT_TRUE(value.epoch == 1029 && value.provider == 124);
    value = tile_value_of_shard(BYTES("\xff\xff"), false); /* no uvarints at all */
    ASSERT_TRUE(value.epoch == 0 && value.provider == 0 && value.data.len == 2);
}

TEST(the_fixed_header_of_other_programs_is_read)
{
    struct tile_value value;
    ASSERT_TRUE(
        tile_value_decode_fixed(BYTES("\x01\x00\x00\x04\x05\x01\x00\x00\x00\x7c\x00\x00\x00\x02"
                                      "AB"),
                                &value));
    ASSERT_TRUE(value.epoch == 1029 && value.provider == 124);
    ASSERT_BYTES(value.data, BYTES("AB"));
    ASSERT_TRUE(tile_value_decode_fixed(BYTES("\x01\x00\x00\x04\x05\x00\x00\x00\x00\x02"
                                              "AB"),
                                        &value));
    ASSERT_TRUE(value.provider == 0 && value.data.len == 2);
    ASSERT_TRUE(
        tile_value_decode_fixed(BYTES("\x01\x00\x00\x04\x05\x00\x00\x00\x00\x00\x00\x00\x00\x02"
                                      "AB"),
                                &value));
    ASSERT_TRUE(value.provider == 0 && value.data.len == 2);
    ASSERT_FALSE(tile_value_decode_fixed(BYTES("\x01\x00\x00\x04\x05\x00\x00\x00\x00\x03"
                                               "AB"),
                                         &value));
    ASSERT_FALSE(tile_value_decode_fixed(BYTES("\x01\x00"), &value));
}

// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

/* RFC 3720, B.4. */
TEST(crc32c_gives_the_published_values)
{
    uint8_t data[32] = {0};
    ASSERT_EQ(crc32c(0, "123456789", 9), 0xe3069283);
    ASSERT_EQ(crc32c(0, data, 32), 0x8a9136aa);
    memset(data, 0xff, 32);
    ASSERT_EQ(crc32c(0, data, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        data[i] = (uint8_t)i;
    ASSERT_EQ(crc32c(0, data, 32), 0x46dd794e);
    ASSERT_EQ(crc32c_portable(0, data, 32), 0x46dd794e);
    ASSERT_EQ(crc32c(0, NULL, 0), 0);
}

TEST(both_forms_agree_for_every_length_alignment_and_start)
{
    struct rand rand;
    rand_init_seed(&rand, 2);
    uint8_t *data = mem_alloc(16384);
    rand_bytes(&rand, data, 16384);
    for (size_t len = 0; len < 3300; len++) {
        size_t at = rand_below(&rand, 64);
        uint32_t start = (uint32_t)rand_u64(&rand);
        ASSERT_EQ(crc32c(start, data + at, len), crc32c_portable(start, data + at, len));
    }
    for (int i = 0; i < 300; i++) {
        size_t at = rand_below(&rand, 8192);
        size_t len = rand_below(&rand, 16384 - at);
        ASSERT_EQ(crc32c(7, data + at, len), crc32c_portable(7, data + at, len));
    }
    mem_free(data);
}

TEST(a_crc_can_be_continued_at_any_point)
{
    struct rand rand;
    rand_init_seed(&rand, 3);
    uint8_t data[5000];
    rand_bytes(&rand, data, sizeof data);
    uint32_t whole = crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut += 7)
        ASSERT_EQ(crc32c(crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
}

TEST(every_flipped_bit_is_seen)
{
    uint8_t data[400] = {0};
    uint32_t whole = crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ASSERT_NE(crc32c(0, data, sizeof data), whole);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

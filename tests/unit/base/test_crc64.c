// SPDX-License-Identifier: Apache-2.0
#include "base/crc64.h"

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

TEST(crc64_gives_the_published_value)
{
    ASSERT_EQ(crc64(0, "123456789", 9), UINT64_C(0xe9c6d914c4b8d9ca));
    ASSERT_EQ(crc64(0, NULL, 0), 0);
}

TEST(crc64_of_parts_is_that_of_the_whole)
{
    uint8_t data[300];
    struct rand rand;
    rand_init_seed(&rand, 1);
    rand_bytes(&rand, data, sizeof data);
    uint64_t single = 0; /* a byte at a time: the tables of eight bytes are not used */
    for (size_t i = 0; i < sizeof data; i++)
        single = crc64(single, data + i, 1);
    for (size_t cut = 0; cut <= sizeof data; cut++)
        ASSERT_EQ(crc64(crc64(0, data, cut), data + cut, sizeof data - cut), single);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/rand.h"

#include "test.h"

#include "base/banned.h"

TEST(a_seed_gives_its_sequence_again)
{
    struct rand a;
    struct rand b;
    rand_init_seed(&a, 42);
    rand_init_seed(&b, 42);
    for (int i = 0; i < 100; i++)
        ASSERT_EQ(rand_u64(&a), rand_u64(&b));
    rand_init_seed(&b, 43);
    ASSERT_NE(rand_u64(&a), rand_u64(&b));
}

/* The first outputs for state {1, 2, 3, 4}, from the authors' reference code. */
TEST(the_generator_is_xoshiro256_star_star)
{
    struct rand rand = {{1, 2, 3, 4}};
    ASSERT_EQ(rand_u64(&rand), 11520);
    ASSERT_EQ(rand_u64(&rand), 0);
    ASSERT_EQ(rand_u64(&rand), 1509978240);
    ASSERT_EQ(rand_u64(&rand), 1215971899390074240);
}

TEST(below_stays_below_and_is_even)
{
    struct rand rand;
    unsigned count[7] = {0};
    rand_init_seed(&rand, 5);
    for (int i = 0; i < 70000; i++) {
        uint64_t value = rand_below(&rand, 7);
        ASSERT_LT(value, 7);
        count[value]++;
    }
    for (int i = 0; i < 7; i++) {
        ASSERT_GT(count[i], 9500);
        ASSERT_LT(count[i], 10500);
    }
    ASSERT_EQ(rand_below(&rand, 1), 0);
    uint64_t limit = UINT64_MAX / 3 * 2; /* a third of the draws is drawn again */
    for (int i = 0; i < 1000; i++)
        ASSERT_TRUE(rand_below(&rand, limit) < limit);
    ASSERT_ABORTS(rand_below(&rand, 0));
}

TEST(bytes_fill_exactly_what_was_asked)
{
    struct rand rand;
    uint8_t data[40] = {0};
    rand_init_os(&rand);
    rand_bytes(&rand, data, 0);
    ASSERT_EQ(data[0], 0);
    rand_bytes(&rand, data, 37);
    ASSERT_EQ(data[37] | data[38] | data[39], 0);
    unsigned set = 0;
    for (int i = 0; i < 37; i++)
        set += data[i] != 0;
    ASSERT_GT(set, 20);
}

TEST(two_generators_of_the_system_differ)
{
    struct rand a;
    struct rand b;
    rand_init_os(&a);
    rand_init_os(&b);
    ASSERT_NE(rand_u64(&a), rand_u64(&b));
}

// SPDX-License-Identifier: Apache-2.0
#include "store/hot/meter.h"

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

TEST(bytes_of_flushed_segments_are_clean)
{
    struct meter meter;
    meter_init(&meter, 10);
    meter_add(&meter, 0, 1);
    meter_add(&meter, 10, 2);
    meter_add(&meter, 11, 4);
    ASSERT_EQ(meter.total_bytes, 7);
    ASSERT_EQ(meter_dirty(&meter), 4);
    meter_done(&meter);
}

TEST(a_mark_makes_clean_what_belongs_to_the_segments_below_it)
{
    struct meter meter;
    meter_init(&meter, 0);
    for (uint32_t segment = 1; segment <= 100; segment++)
        meter_add(&meter, segment, segment);
    meter_mark(&meter, 40);
    ASSERT_EQ(meter_dirty(&meter), 5050 - 820);
    meter_mark(&meter, 40);
    meter_mark(&meter, 3); /* it never goes back */
    ASSERT_EQ(meter_dirty(&meter), 5050 - 820);
    meter_add(&meter, 41, 1000);
    meter_sub(&meter, 7, 7);
    ASSERT_EQ(meter_dirty(&meter), 5050 - 820 + 1000);
    meter_mark(&meter, 100000);
    ASSERT_EQ(meter_dirty(&meter), 0);
    ASSERT_EQ(meter.total_bytes, 5050 + 1000 - 7);
    meter_add(&meter, 100001, 9);
    ASSERT_EQ(meter_dirty(&meter), 9);
    meter_done(&meter);
}

TEST(moving_bytes_keeps_the_sum)
{
    struct meter meter;
    meter_init(&meter, 5);
    meter_add(&meter, 3, 100);
    meter_move(&meter, 3, 3, 100);
    ASSERT_EQ(meter_dirty(&meter), 0);
    meter_move(&meter, 3, 60, 40);
    ASSERT_EQ(meter.total_bytes, 100);
    ASSERT_EQ(meter_dirty(&meter), 40);
    meter_done(&meter);
}

TEST(more_bytes_than_there_are_cannot_be_taken)
{
    struct meter meter;
    meter_init(&meter, 0);
    meter_add(&meter, 1, 10);
    meter_add(&meter, 2, 10);
    ASSERT_ABORTS(meter_sub(&meter, 1, 11));
    ASSERT_ABORTS(meter_sub(&meter, 0, 1));
    meter_done(&meter);
}

TEST(a_meter_agrees_with_a_plain_array)
{
    enum { SEGMENTS = 200 };
    struct meter meter;
    struct rand rand;
    uint64_t bytes[SEGMENTS] = {0};
    uint32_t mark = 0;
    rand_init_seed(&rand, 1);
    meter_init(&meter, 0);
    for (int i = 0; i < 20000; i++) {
        uint32_t segment = (uint32_t)rand_below(&rand, SEGMENTS);
        uint64_t amount = rand_below(&rand, 100);
        if (rand_below(&rand, 100) == 0) {
            mark = segment > mark ? mark + (segment - mark) / 16 : mark;
            meter_mark(&meter, mark);
        } else if (rand_below(&rand, 2)) {
            meter_add(&meter, segment, amount);
            bytes[segment] += amount;
        } else if (bytes[segment] >= amount) {
            meter_sub(&meter, segment, amount);
            bytes[segment] -= amount;
        }
        uint64_t total = 0, dirty = 0;
        for (uint32_t n = 0; n < SEGMENTS; n++) {
            total += bytes[n];
            dirty += n > mark ? bytes[n] : 0;
        }
        ASSERT_EQ(meter.total_bytes, total);
        ASSERT_EQ(meter_dirty(&meter), dirty);
    }
    ASSERT_GT(mark, 20);
    meter_done(&meter);
    meter_done(&meter); /* twice is allowed */
    meter_done(NULL);
}

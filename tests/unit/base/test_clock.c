// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include "test.h"

#include "base/banned.h"

TEST(a_manual_clock_moves_only_by_hand)
{
    struct clock clock;
    clock_init_manual(&clock, 1000);
    uint64_t mono_ns = clock_mono_ns(&clock);
    ASSERT_EQ(clock_unix_ms(&clock), 1000);
    ASSERT_EQ(clock_unix_ms(&clock), 1000);
    clock_advance_ms(&clock, 25);
    ASSERT_EQ(clock_unix_ms(&clock), 1025);
    ASSERT_EQ(clock_mono_ns(&clock), mono_ns + 25000000);
}

TEST(the_real_clock_is_real_and_does_not_go_back)
{
    struct clock clock;
    clock_init(&clock);
    ASSERT_GT(clock_unix_ms(&clock), 1600000000000); /* September 2020 */
    uint64_t before = clock_mono_ns(&clock);
    ASSERT_GE(clock_mono_ns(&clock), before);
    ASSERT_ABORTS(clock_advance_ms(&clock, 1));
}

TEST(cpu_clocks_count_work)
{
    uint64_t thread_ns = clock_thread_cpu_ns();
    uint64_t process_ns = clock_process_cpu_ns();
    volatile uint64_t sum = 0;
    for (int i = 0; i < 1000000; i++)
        sum = sum + (uint64_t)i;
    ASSERT_GT(sum, 0);
    ASSERT_GT(clock_thread_cpu_ns(), thread_ns);
    ASSERT_GT(clock_process_cpu_ns(), process_ns);
}

TEST(steps_of_a_manual_clock_move_only_by_hand)
{
    struct clock clock;
    struct clock_steps steps;
    clock_init_manual(&clock, 1000);
    clock_steps_init(&steps, &clock);
    uint64_t start_ns = clock_steps_ns(&steps);
    ASSERT_EQ(clock_steps_ns(&steps), start_ns);
    clock_advance_ms(&clock, 25);
    ASSERT_EQ(clock_steps_ns(&steps), start_ns + 25000000);
    ASSERT_EQ(clock_steps_look(&steps), start_ns + 25000000);
}

/* Every step lies between two looks at the clock, but for some microseconds of its own look, and
 * for what the rate, measured between two such looks, is wrong by in a millisecond; and none goes
 * back. */
TEST(steps_follow_the_real_clock)
{
    struct clock clock;
    struct clock_steps steps;
    clock_init(&clock);
    clock_steps_init(&steps, &clock);
    uint64_t last_ns = 0, end_ns = clock_mono_ns(&clock) + 60 * 1000 * 1000;
    for (uint64_t before = 0, count = 0; before < end_ns; count++) {
        before = clock_mono_ns(&clock);
        uint64_t ns = count % 32 ? clock_steps_ns(&steps) : clock_steps_look(&steps);
        ASSERT_GE(ns + 100 * 1000, before);
        ASSERT_LE(ns, clock_mono_ns(&clock) + 100 * 1000);
        ASSERT_GE(ns, last_ns);
        last_ns = ns;
    }
}

/* Ten milliseconds at most are made up: a rate that is just possible, over the longest step. */
TEST(steps_survive_a_counter_that_jumps)
{
    struct clock clock;
    struct clock_steps steps;
    clock_init(&clock);
    clock_steps_init(&steps, &clock);
    uint64_t jumps[] = {UINT64_C(1) << 40, -(UINT64_C(1) << 40), 1 << 30, UINT64_MAX / 2};
    for (size_t i = 0; i < 400; i++) {
        uint64_t before = clock_mono_ns(&clock);
        if (i % 100 == 99) /* another host */
            steps.tick += jumps[i / 100];
        if (i % 100 == 50)
            steps.rate_tick += jumps[i / 100];
        uint64_t ns = clock_steps_ns(&steps);
        ASSERT_GE(ns + 20 * 1000 * 1000, before);
        ASSERT_LE(ns, clock_mono_ns(&clock) + 20 * 1000 * 1000);
        clock_steps_look(&steps);
    }
}

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

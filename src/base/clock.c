#include "base/clock.h"

#include <time.h>

#include "base/macros.h"

#include "base/banned.h"

enum { NS_PER_MS = 1000 * 1000, NS_PER_S = 1000 * 1000 * 1000 };

static uint64_t read_ns(clockid_t id)
{
    struct timespec now;
    int failed = clock_gettime(id, &now);
    ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void clock_init(struct clock *clock)
{
    clock->manual = false;
    atomic_init(&clock->unix_ms, 0);
    atomic_init(&clock->mono_ns, 0);
}

void clock_init_manual(struct clock *clock, uint64_t unix_ms)
{
    clock->manual = true;
    atomic_init(&clock->unix_ms, unix_ms);
    atomic_init(&clock->mono_ns, 0);
}

void clock_advance_ms(struct clock *clock, uint64_t ms)
{
    ASSERT(clock->manual);
    atomic_fetch_add(&clock->unix_ms, ms);
    atomic_fetch_add(&clock->mono_ns, ms * NS_PER_MS);
}

uint64_t clock_unix_ms(const struct clock *clock)
{
    if (clock->manual)
        return atomic_load(&clock->unix_ms);
    return read_ns(CLOCK_REALTIME) / NS_PER_MS;
}

uint64_t clock_unix_us(const struct clock *clock)
{
    if (clock->manual)
        return 1000 * atomic_load(&clock->unix_ms);
    return read_ns(CLOCK_REALTIME) / 1000;
}

uint64_t clock_mono_ns(const struct clock *clock)
{
    if (clock->manual)
        return atomic_load(&clock->mono_ns);
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_process_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

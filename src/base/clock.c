// SPDX-License-Identifier: Apache-2.0
/* clock.c - reads the system's clocks and the processor's steady tick counter. */
#include "base/clock.h"

#include <cpuid.h>
#include <time.h>
#include <x86intrin.h>

#include "base/macros.h"

#include "base/banned.h"

enum { NS_PER_MS = 1000 * 1000, NS_PER_S = 1000 * 1000 * 1000 };
enum {
    RATE_SHIFT = 32,
    TICK_NS_MAX = 10,
    RATE_NS_MIN = 10 * NS_PER_MS,
    RATE_NS_MAX = NS_PER_S, /* shifted it still fits; longer ago says nothing */
    LOOK_TICKS_MAX = 5000,  /* a microsecond or two */
    LOOKS_MAX = 3,
    STEP_TICKS_MAX = 1000 * 1000, /* a millisecond at 1 GHz; times any rate it fits */
};

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

/* ---- steps ---- */

/* A counter of constant rate that stops for no sleep of the processor. */
static bool ticks_are_steady(void)
{
    unsigned a, b, c, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

void clock_steps_init(struct clock_steps *steps, const struct clock *clock)
{
    *steps = (struct clock_steps){.clock = clock};
    steps->has_ticks = !clock->manual && ticks_are_steady();
    clock_steps_look(steps);
}

/* Neither a look in the middle of which the thread was put to sleep nor one on another host, to
 * which a virtual machine has moved, says what the count was when the clock was read: then every
 * step is a look until the rate was measured anew. */
static void rate_measure(struct clock_steps *steps, bool is_good)
{
    uint64_t ns = steps->ns - steps->rate_ns, ticks = steps->tick - steps->rate_tick;
    if (!is_good || steps->tick <= steps->rate_tick) {
        steps->rate = steps->rate_tick = 0;
        return;
    }
    if (steps->rate_tick > 0 && ns < RATE_NS_MIN)
        return;
    if (steps->rate_tick > 0 && ns <= RATE_NS_MAX)
        steps->rate = (ns << RATE_SHIFT) / ticks;
    if (steps->rate >> RATE_SHIFT >= TICK_NS_MAX)
        steps->rate = 0; /* no processor is so slow */
    steps->rate_tick = steps->tick;
    steps->rate_ns = steps->ns;
}

uint64_t clock_steps_look(struct clock_steps *steps)
{
    bool is_good = false;
    for (int i = 0; i < LOOKS_MAX && !is_good; i++) { /* mostly one */
        uint64_t before = steps->has_ticks ? __rdtsc() : 0;
        steps->ns = clock_mono_ns(steps->clock);
        steps->tick = steps->has_ticks ? __rdtsc() : 0;
        is_good = steps->tick - before <= LOOK_TICKS_MAX;
    }
    if (steps->has_ticks)
        rate_measure(steps, is_good);
    if (steps->ns > steps->last_ns)
        steps->last_ns = steps->ns;
    return steps->last_ns;
}

uint64_t clock_steps_ns(struct clock_steps *steps)
{
    if (UNLIKELY(steps->rate == 0))
        return clock_steps_look(steps);
    uint64_t ticks = __rdtsc() - steps->tick;
    if (UNLIKELY(ticks > STEP_TICKS_MAX)) /* or the counter went back */
        return clock_steps_look(steps);
    uint64_t ns = steps->ns + (ticks * steps->rate >> RATE_SHIFT);
    if (ns > steps->last_ns)
        steps->last_ns = ns;
    return steps->last_ns;
}

uint64_t clock_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_process_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

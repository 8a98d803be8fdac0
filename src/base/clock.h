// SPDX-License-Identifier: Apache-2.0
/* clock.h - the one place that reads a clock; a test turns it by hand.
 *
 * Threads: reading is safe from any; a test that sets a manual clock does so while nobody reads
 * (the fields are atomic, so a race is only a question of which value is seen). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct clock {
    bool manual;
    _Atomic uint64_t unix_ms; /* shared: atomic; used when manual */
    _Atomic uint64_t mono_ns; /* shared: atomic; used when manual */
};

void clock_init(struct clock *clock); /* the real one */
void clock_init_manual(struct clock *clock, uint64_t unix_ms);
void clock_advance_ms(struct clock *clock, uint64_t ms); /* manual only; both times */
uint64_t clock_unix_ms(const struct clock *clock);
uint64_t clock_unix_us(const struct clock *clock);
uint64_t clock_mono_ns(const struct clock *clock);

/* clock_mono_ns() for many short steps: between looks at the clock, which cost 30 ns and wait for
 * everything before them, the processor's counter goes on. After a millisecond, without a counter
 * that runs at one rate, or with a clock turned by hand, every step is a look. It never goes back.
 * One thread. */
struct clock_steps {
    const struct clock *clock;   /* borrowed */
    uint64_t tick, ns;           /* of the last look */
    uint64_t rate_tick, rate_ns; /* where the rate is measured from; tick 0: nowhere */
    uint64_t rate;               /* ns a tick, 32 bits of it behind the point; 0: not known */
    uint64_t last_ns;            /* what was answered last */
    bool has_ticks;
};
void clock_steps_init(struct clock_steps *steps, const struct clock *clock);
uint64_t clock_steps_look(struct clock_steps *steps);
uint64_t clock_steps_ns(struct clock_steps *steps);

uint64_t clock_thread_cpu_ns(void);  /* CPU of the calling thread, for bench and slices */
uint64_t clock_process_cpu_ns(void); /* CPU of all threads */

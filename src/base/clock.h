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
uint64_t clock_thread_cpu_ns(void);  /* CPU of the calling thread, for bench and slices */
uint64_t clock_process_cpu_ns(void); /* CPU of all threads */

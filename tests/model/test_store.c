// SPDX-License-Identifier: Apache-2.0
/* test_store.c - the store against a naive map, every event of every thread in an order that a seed
 * decides.
 *
 *   TERRACE_SEED=n     exactly that seed, with its events counted as in the long run
 *   TERRACE_EVENTS=n   events a seed
 *   TERRACE_LONG=1     ten times the seeds */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/support_store_sim.h"
#include "test.h"

#include "base/banned.h"

enum { SEEDS = 300, EVENTS = 21000 };

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* A handler gets no argument, so what it prints has to stand here. */
static struct {
    const struct sim *sim;
    void (*before)(int number);
} running;

static void on_abort(int number)
{
    char text[96];
    int len =
        snprintf(text, sizeof text, "seed %llu, event %llu: stopped\n",
                 (unsigned long long)running.sim->seed, (unsigned long long)running.sim->event);
    ssize_t written = write(STDOUT_FILENO, text, (size_t)len);
    (void)written;
    signal(number, running.before);
    raise(number);
}

struct totals {
    uint64_t event_count, commit_count, cold_count, give_up_count, crash_count, freeze_count;
    uint64_t failed_turn_count, evicted_count, purged_count, load_count, unit_count,
        preempted_count;
    uint64_t open_failed_count, reopen_count;
};

static void seed_run(uint64_t seed, uint64_t event_count, struct totals *totals)
{
    struct sim sim;
    running.sim = &sim;
    sim.seed = seed;
    sim.event = 0;
    sim_init(&sim, seed);
    while (sim.event < event_count)
        sim_event(&sim);
    sim_finish(&sim);
    totals->event_count += sim.event;
    totals->commit_count += sim.commit_count;
    totals->cold_count += sim.cold_count;
    totals->give_up_count += sim.give_up_count;
    totals->crash_count += sim.crash_count;
    totals->freeze_count += sim.freeze_count;
    totals->failed_turn_count += sim.failed_turn_count;
    totals->open_failed_count += sim.open_failed_count;
    sim_done(&sim);
    totals->evicted_count += sim.evicted_count;
    totals->purged_count += sim.purged_count;
    totals->load_count += sim.load_count;
    totals->unit_count += sim.unit_count;
    totals->preempted_count += sim.preempted_count;
    totals->reopen_count += sim.reopen_count;
}

TEST(the_store_answers_as_a_naive_map_whatever_is_hot_cold_flushed_or_lost)
{
    uint64_t first = env_number("TERRACE_SEED", 1);
    uint64_t count = getenv("TERRACE_SEED") ? 1 : SEEDS * (test_is_long() ? 10u : 1u);
    uint64_t events = env_number("TERRACE_EVENTS", EVENTS);
    struct totals totals = {0};
    uint64_t start_ns = clock_process_cpu_ns();
    running.before = signal(SIGABRT, on_abort);
    for (uint64_t seed = first; seed < first + count; seed++)
        seed_run(seed, events, &totals);
    signal(SIGABRT, running.before);
    double seconds = (double)(clock_process_cpu_ns() - start_ns) / 1e9;
    printf("seeds %llu..%llu: %llu events, %.0f a second of CPU; %llu commits, %llu cold, %llu "
           "gave up, "
           "%llu crashes, %llu failed opens, %llu failed turns, %llu views, %llu evictions, "
           "%llu purged, %llu loads, %llu units, %llu preempted, %llu reopens\n",
           (unsigned long long)first, (unsigned long long)(first + count - 1),
           (unsigned long long)totals.event_count, (double)totals.event_count / seconds,
           (unsigned long long)totals.commit_count, (unsigned long long)totals.cold_count,
           (unsigned long long)totals.give_up_count, (unsigned long long)totals.crash_count,
           (unsigned long long)totals.open_failed_count,
           (unsigned long long)totals.failed_turn_count, (unsigned long long)totals.freeze_count,
           (unsigned long long)totals.evicted_count, (unsigned long long)totals.purged_count,
           (unsigned long long)totals.load_count, (unsigned long long)totals.unit_count,
           (unsigned long long)totals.preempted_count, (unsigned long long)totals.reopen_count);
}

// SPDX-License-Identifier: Apache-2.0
/* test_nth.c - the Nth call of every kind fails, for every N of a scripted scenario over a whole
 * store: nothing crashes, no wrong row is served, errors have a text, everything acknowledged is
 * there afterwards, in this process and in the next, and the store comes back by itself when the
 * fault has gone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/testing.h"
#include "store/turns.h"
#include "support_world.h"
#include "test.h"

#include "base/banned.h"

enum { SCRIPT_STEPS = 90 };

enum target { TARGET_NOTHING, TARGET_MEMORY, TARGET_FILES, TARGET_ENGINE };

struct fault {
    enum target target;
    int op; /* of file_sim or engine_memory */
    uint64_t count;
    int64_t times;
    enum rc rc;
    size_t short_bytes;
};

/* ---- the scenario ---- */

static void script_step(struct world *world, int step)
{
    uint64_t seed = 1000 + (uint64_t)step;
    switch (step % 18) {
    case 2:
    case 12:
        world_steps(world, STORE_STEP_JOURNAL, 4);
        break;
    case 5:
    case 14:
        world_steps(world, STORE_STEP_JOURNAL, 2);
        world_steps(world, STORE_STEP_FLUSH, 6);
        break;
    case 7:
        store_flush_ask(world->store);
        world_steps(world, STORE_STEP_JOURNAL, 3);
        world_steps(world, STORE_STEP_FLUSH, 20);
        break;
    case 8:
        store_poll(world->store);
        store_evict_all(world->store);
        world_read(world, seed);
        break;
    case 10:
        world_walk(world, seed);
        break;
    case 15:
        clock_advance_ms(&world->clock, 700);
        (void)store_room(world->store);
        world_read(world, seed);
        break;
    default:
        world_turn(world, seed);
        break;
    }
    store_poll(world->store);
}

/* Steps that come once. */
static void script_special(struct world *world, int step)
{
    if (step == 25)
        world_freeze(world);
    if (step == 48)
        world_backup(world, 1);
    if (step == 60)
        world_close(world);
}

/* The first steps; where the store cannot be opened, it is tried again at the next step. */
static void script_run(struct world *world, int step_count)
{
    for (int step = 0; step < step_count; step++) {
        if (!world->store && !world_open(world))
            continue;
        script_step(world, step);
        script_special(world, step);
    }
}

/* ---- faults ---- */

static void fault_arm(struct world *world, const struct fault *fault)
{
    struct file_sim_fault file = {.op = (enum file_sim_op)fault->op,
                                  .count = fault->count,
                                  .times = fault->times,
                                  .rc = fault->rc,
                                  .short_bytes = fault->short_bytes};
    switch (fault->target) {
    case TARGET_NOTHING:
        break;
    case TARGET_MEMORY:
        mem_fail_after((int64_t)fault->count);
        break;
    case TARGET_FILES:
        file_sim_arm(world->sim, &file);
        break;
    case TARGET_ENGINE:
        engine_memory_arm(world->memory, (enum engine_memory_op)fault->op, fault->count,
                          fault->times, fault->rc);
        break;
    }
}

static void fault_disarm(struct world *world, const struct fault *fault)
{
    struct fault none = *fault;
    none.count = 0;
    mem_fail_after(-1);
    if (fault->target != TARGET_MEMORY)
        fault_arm(world, &none);
}

static uint64_t fault_calls(struct world *world, enum target target, int op)
{
    switch (target) {
    case TARGET_NOTHING:
        return 0;
    case TARGET_MEMORY:
        return (uint64_t)mem_try_count();
    case TARGET_FILES:
        return file_sim_op_count(world->sim, (enum file_sim_op)op);
    case TARGET_ENGINE:
        return engine_memory_op_count(world->memory, (enum engine_memory_op)op);
    }
    return 0;
}

/* How often the scenario makes this call when nothing fails. */
static uint64_t script_calls(enum target target, int op)
{
    struct world world;
    world_init(&world, DURABILITY_EVERYSEC);
    uint64_t before = fault_calls(&world, target, op);
    script_run(&world, SCRIPT_STEPS);
    uint64_t count = fault_calls(&world, target, op) - before;
    ASSERT_EQ(world.error_count, 0);
    world_done(&world);
    return count;
}

/* ---- claims ---- */

/* A process that ends loses nothing that was acknowledged; what follows works as ever. */
static void check_after_end(struct world *world, bool settle)
{
    uint64_t lsn = world->acked.lsn;
    world_process_end(world);
    ASSERT_TRUE(world_open(world));
    if (settle)
        world_settle(world, lsn);
    world_check(world);
    for (uint64_t i = 0; i < 4; i++)
        world_turn(world, 5000 + i);
    ASSERT_GT(world->acked.lsn, lsn);
    world_flush(world);
    store_evict_all(world->store);
    world_check(world);
}

/* How many errors were met. */
static uint64_t play(const struct fault *fault)
{
    struct world world;
    world_init(&world, DURABILITY_EVERYSEC);
    fault_arm(&world, fault);
    script_run(&world, SCRIPT_STEPS);
    fault_disarm(&world, fault);
    if (!world.store) {
        ASSERT_TRUE(world_open(&world));
        world_settle(&world, world.acked.lsn);
    }
    uint64_t errors = world.error_count;
    world_recover(&world);
    world_check(&world);
    world_turn(&world, 4000);
    ASSERT_EQ(world.error_count, errors);
    check_after_end(&world, false);
    ASSERT_EQ(world.error_count, errors);
    world_done(&world);
    return errors;
}

/* As before, but the process ends while the fault is there. */
static void play_end(const struct fault *fault)
{
    struct world world;
    world_init(&world, DURABILITY_EVERYSEC);
    fault_arm(&world, fault);
    script_run(&world, SCRIPT_STEPS);
    world_process_end(&world);
    fault_disarm(&world, fault);
    check_after_end(&world, true);
    world_done(&world);
}

static void say(const struct fault *fault)
{
    const char *part = getenv("TERRACE_NTH_SHOW");
    if (!part)
        return;
    printf("target %d op %d count %llu times %lld\n", fault->target, fault->op,
           (unsigned long long)fault->count, (long long)fault->times);
    fflush(stdout);
}

/* Every N, except where a sanitizer makes it slow: there, a prime step over the many. */
static uint64_t stride(uint64_t count)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return count > 100 && !test_is_long() ? 7 : 1;
#else
    (void)count;
    return 1;
#endif
}

/* Errors that somebody saw. What only the background meets is tried again and seen by nobody. */
static uint64_t fail_every(enum target target, int op, enum rc rc)
{
    uint64_t count = script_calls(target, op);
    ASSERT_GT(count, 0);
    uint64_t errors = 0;
    for (uint64_t n = 1; n <= count; n += stride(count)) {
        struct fault fault = {target, op, n, 1, rc, (size_t)(n * 31 % 120)};
        say(&fault);
        errors += play(&fault);
        if (target == TARGET_MEMORY)
            continue;
        /* A fault that stays is played for some of the calls where there are many. */
        if (!test_is_long() && n % (1 + count / 50) != 0)
            continue;
        fault.times = n % 2 ? -1 : 3;
        say(&fault);
        errors += play(&fault);
        play_end(&fault);
    }
    return errors;
}

TEST(the_scenario_without_a_fault_ends_as_it_must)
{
    struct fault none = {0};
    play(&none);
    play_end(&none);
}

TEST(any_allocation_may_fail)
{
    ASSERT_GT(fail_every(TARGET_MEMORY, 0, RC_NOMEM), 0);
}

TEST(any_open_may_fail)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_OPEN, RC_IO), 0);
}

TEST(any_write_may_fail_after_a_part)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_WRITE, RC_IO), 0);
}

TEST(any_write_may_meet_a_full_disk)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_WRITE, RC_FULL), 0);
}

TEST(any_sync_may_fail)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_SYNC, RC_IO), 0);
}

TEST(any_truncate_may_fail)
{
    fail_every(TARGET_FILES, FILE_SIM_TRUNCATE, RC_IO);
}

TEST(any_rename_may_fail)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_RENAME, RC_IO), 0);
}

TEST(any_link_may_fail)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_LINK, RC_IO), 0);
}

TEST(any_remove_may_fail)
{
    fail_every(TARGET_FILES, FILE_SIM_REMOVE, RC_IO);
}

TEST(any_directory_sync_may_fail)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_SYNC_DIR, RC_IO), 0);
}

TEST(any_allocation_of_room_may_fail)
{
    fail_every(TARGET_FILES, FILE_SIM_ALLOCATE, RC_FULL);
}

TEST(any_read_may_fail)
{
    ASSERT_GT(fail_every(TARGET_FILES, FILE_SIM_READ, RC_IO), 0);
}

TEST(any_open_of_the_engine_may_fail)
{
    ASSERT_GT(fail_every(TARGET_ENGINE, ENGINE_MEMORY_OPEN, RC_IO), 0);
}

TEST(any_get_of_the_engine_may_fail)
{
    ASSERT_GT(fail_every(TARGET_ENGINE, ENGINE_MEMORY_GET, RC_IO), 0);
}

TEST(any_iterator_of_the_engine_may_fail)
{
    ASSERT_GT(fail_every(TARGET_ENGINE, ENGINE_MEMORY_ITER_OPEN, RC_IO), 0);
    ASSERT_GT(fail_every(TARGET_ENGINE, ENGINE_MEMORY_ITER_NEXT, RC_IO), 0);
}

TEST(any_view_of_the_engine_may_fail)
{
    ASSERT_GT(fail_every(TARGET_ENGINE, ENGINE_MEMORY_VIEW, RC_IO), 0);
}

TEST(any_unit_may_fail_while_it_is_built)
{
    fail_every(TARGET_ENGINE, ENGINE_MEMORY_UNIT_OPEN, RC_IO);
    fail_every(TARGET_ENGINE, ENGINE_MEMORY_UNIT_ADD, RC_FULL);
}

TEST(any_apply_may_fail_done_or_not)
{
    fail_every(TARGET_ENGINE, ENGINE_MEMORY_APPLY, RC_IO);
    fail_every(TARGET_ENGINE, ENGINE_MEMORY_APPLY_LATE, RC_IO);
}

TEST(any_checkpoint_may_fail)
{
    ASSERT_GT(fail_every(TARGET_ENGINE, ENGINE_MEMORY_CHECKPOINT, RC_IO), 0);
}

/* ---- power ---- */

/* The power goes at the Nth call to the file system: from there on every call fails. */
static void play_power(uint64_t count, bool torn, uint64_t seed)
{
    struct world world;
    struct fault dead = {TARGET_FILES, FILE_SIM_ANY, count, -1, RC_IO, (size_t)(seed * 37 % 200)};
    world_init(&world, DURABILITY_ALWAYS);
    fault_arm(&world, &dead);
    for (int step = 0; step < SCRIPT_STEPS; step++) {
        if (file_sim_op_count(world.sim, FILE_SIM_ANY) >= count)
            break;
        if (!world.store && !world_open(&world))
            continue;
        script_step(&world, step);
        script_special(&world, step);
        if (world.store)
            world_steps(&world, STORE_STEP_JOURNAL, step % 3);
    }
    uint64_t durable = world.store ? store_durable_lsn(world.store) : world.closed_lsn;
    if (durable > world.acked.lsn)
        durable = world.acked.lsn; /* of the open turn nothing is promised */
    world_power_cut(&world, torn, seed);
    fault_disarm(&world, &dead);
    ASSERT_TRUE(world_open(&world));
    world_settle(&world, durable);
    world_check(&world);
    check_after_end(&world, false);
    world_done(&world);
}

TEST(a_power_cut_at_any_call_loses_nothing_durable)
{
    struct world world;
    world_init(&world, DURABILITY_ALWAYS);
    script_run(&world, SCRIPT_STEPS);
    uint64_t count = file_sim_op_count(world.sim, FILE_SIM_ANY);
    world_done(&world);
    uint64_t seed_count = test_is_long() ? 20 : 2;
    for (uint64_t n = 1; n <= count; n += stride(count)) {
        struct fault shown = {TARGET_FILES, FILE_SIM_ANY, n, -1, RC_IO, 0};
        say(&shown);
        play_power(n, false, n);
        for (uint64_t i = 0; i < seed_count; i++)
            play_power(n, true, n * 100 + i);
    }
}

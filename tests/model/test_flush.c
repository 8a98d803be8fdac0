// SPDX-License-Identifier: Apache-2.0
/* test_flush.c - random changes of all kinds, flushed in random units, against a naive map. */
#include "support/flush_fix.h"

#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

static void units_random(struct flush_fix *fix, int unit_count)
{
    for (int unit = 0; unit < unit_count; unit++) {
        uint64_t segment_count = 1 + rand_below(&fix->rand, 4);
        for (uint64_t i = 0; i < segment_count; i++) {
            uint64_t change_count = rand_below(&fix->rand, 30);
            for (uint64_t change = 0; change < change_count; change++)
                fix_change_random(fix);
            fix_seal(fix);
        }
        fix_flush(fix);
        ASSERT_STR(fix_status(fix).reason, "");
        ASSERT_EQ(flush_mark_segment(fix->flush), fix->segment_count);
        fix_check(fix);
    }
}

TEST(flush_of_random_units_equals_a_replay)
{
    uint64_t range_delete_count = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 40 : 8); seed++) {
        CLEANUP(fix_done) struct flush_fix fix;
        fix_init(&fix, seed);
        fix_open(&fix);
        units_random(&fix, 500);
        range_delete_count += fix_status(&fix).range_delete_count;
    }
    ASSERT_GT(range_delete_count, 10);
}

TEST(flush_of_random_units_into_rocksdb_equals_a_replay)
{
    if (!fix_has_rocksdb())
        return;
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init_rocksdb(&fix, 99);
    fix_open(&fix);
    units_random(&fix, test_is_long() ? 200 : 60);
}

/* Everything from one start to the next is one unit or several, by the sizes drawn. */
TEST(flush_cut_into_units_of_any_size_gives_the_same)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        CLEANUP(fix_done) struct flush_fix fix;
        fix_init(&fix, seed);
        fix.options.unit_bytes = 1 + rand_below(&fix.rand, 4000);
        fix_open(&fix);
        for (int segment = 0; segment < 40; segment++) {
            for (int i = 0; i < 20; i++)
                fix_change_random(&fix);
            fix_seal(&fix);
        }
        fix_flush(&fix);
        ASSERT_EQ(flush_mark_segment(fix.flush), 40);
        fix_check(&fix);
    }
}

/* After every step the process ends; the next one goes on from what is on disk. */
TEST(flush_that_ends_after_any_step_goes_on_at_the_next_start)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        CLEANUP(fix_done) struct flush_fix fix;
        fix_init(&fix, seed);
        fix.options.unit_bytes = 1500;
        for (int segment = 0; segment < 12; segment++) {
            for (int i = 0; i < 25; i++)
                fix_change_random(&fix);
            fix_seal(&fix);
        }
        bool worked = true;
        uint64_t mark = 0;
        for (int step_count = 1; worked && mark < 12; step_count++) {
            fix_open(&fix);
            flush_ask(fix.flush, 12);
            for (int step = 0; worked && step < 1 + step_count % 9; step++)
                flush_step(fix.flush, &worked);
            for (uint64_t number = flush_mark_segment(fix.flush) + 1; number <= 12; number++)
                ASSERT_TRUE(fix_segment_exists(&fix, number));
            mark = flush_mark_segment(fix.flush);
            file_sim_process_end(fix.sim);
            fix_close(&fix);
        }
        fix_open(&fix);
        fix_flush(&fix);
        ASSERT_EQ(flush_mark_segment(fix.flush), 12);
        fix_check(&fix);
    }
}

/* The segments above the mark that the engine holds are all there. */
static void segments_check(struct flush_fix *fix)
{
    struct sys_mark mark = {0};
    enum rc rc = sys_mark_get(fix->engine, NULL, &mark, &fix->err);
    ASSERT_TRUE(rc == RC_OK || rc == RC_NOT_FOUND);
    ASSERT_LE(flush_mark_segment(fix->flush), mark.segment);
    for (uint64_t number = mark.segment + 1; number <= fix->segment_count; number++)
        ASSERT_TRUE(fix_segment_exists(fix, number));
}

static void fault_fixture(struct flush_fix *fix, uint64_t seed)
{
    fix_init(fix, seed);
    fix->options.unit_bytes = 3000;
    fix_open(fix);
    for (int unit = 0; unit < 2; unit++) {
        for (int segment = 0; segment < 4; segment++) {
            for (int i = 0; i < 30; i++)
                fix_change_random(fix);
            fix_seal(fix);
        }
        if (unit == 0)
            fix_flush(fix);
    }
}

/* Steps until everything is flushed; a fault shows as steps that did not work. */
static void fault_run(struct flush_fix *fix)
{
    flush_ask(fix->flush, 8);
    for (int calls = 0; flush_mark_segment(fix->flush) < 8; calls++) {
        bool worked;
        flush_step(fix->flush, &worked);
        if (fix_status(fix).failure_count > 0)
            segments_check(fix);
        ASSERT_LT(calls, 1000);
    }
    file_sim_arm(fix->sim, &(struct file_sim_fault){.op = FILE_SIM_ANY});
    for (int op = ENGINE_MEMORY_ANY; op <= ENGINE_MEMORY_REOPEN; op++)
        engine_memory_arm(fix->memory, (enum engine_memory_op)op, 0, 0, RC_OK);
    fix_check(fix);
}

TEST(flush_survives_the_failure_of_any_file_call)
{
    static const enum rc answers[] = {RC_IO, RC_FULL, RC_CORRUPT};
    bool struck = true;
    for (uint64_t count = 1; struck; count++) {
        CLEANUP(fix_done) struct flush_fix fix;
        fault_fixture(&fix, 5);
        file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_ANY,
                                                       .count = count,
                                                       .times = 1 + (int64_t)(count % 3),
                                                       .rc = answers[count % 3]});
        fault_run(&fix);
        struck = fix_status(&fix).failure_count > 0 || count < 60;
    }
}

TEST(flush_survives_the_failure_of_any_engine_call)
{
    for (int op = ENGINE_MEMORY_GET; op <= ENGINE_MEMORY_APPLY_LATE; op++) {
        bool struck = true;
        for (uint64_t count = 1; struck; count += 1 + count / 20) {
            CLEANUP(fix_done) struct flush_fix fix;
            fault_fixture(&fix, 6);
            uint64_t failures = fix_status(&fix).failure_count;
            engine_memory_arm(fix.memory, (enum engine_memory_op)op, count, 1,
                              count % 2 ? RC_IO : RC_FULL);
            fault_run(&fix);
            struck = fix_status(&fix).failure_count > failures;
        }
    }
}

#ifdef TERRACE_FAULTS
TEST(flush_survives_the_failure_of_any_allocation_that_may_fail)
{
    bool struck = true;
    for (int64_t count = 1; struck; count++) {
        CLEANUP(fix_done) struct flush_fix fix;
        fault_fixture(&fix, 7);
        uint64_t failures = fix_status(&fix).failure_count;
        int64_t before = mem_try_count();
        mem_fail_after(count);
        flush_ask(fix.flush, 8);
        while (flush_mark_segment(fix.flush) < 8) {
            bool worked;
            flush_step(fix.flush, &worked);
            ASSERT_LE(fix_status(&fix).failure_count, failures + 1);
        }
        struck = mem_try_count() - before >= count;
        mem_fail_after(-1);
        fix_check(&fix);
    }
}
#endif

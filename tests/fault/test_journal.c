// SPDX-License-Identifier: Apache-2.0
/* test_journal.c - every Nth call of the file system fails, for every N, over a script of writes
 * and rotations; then the process or the power ends, and recovery has to find what was promised. */
#include "support/journal_fix.h"

#include "test.h"

#include "base/banned.h"

enum { SCRIPT_STEPS = 40 };

static size_t script_len(int step)
{
    if (step % 13 == 12)
        return 4000; /* more than may be kept: synced before it counts */
    return 20 + (size_t)(step * 37 % 400);
}

/* Runs the first steps. What fails is tried again once, and the journal brought back if it can. */
static void script_run(struct journal_fix *fix, int step_count)
{
    struct err err = {0};
    bool worked;

    for (int step = 0; step < step_count; step++) {
        enum rc rc = journal_fix_write(fix, script_len(step), &err);
        ASSERT_TRUE(rc == RC_OK || rc == RC_IO || rc == RC_FULL || rc == RC_READONLY);
        if (rc == RC_READONLY) {
            ASSERT_TRUE(journal_read_only(fix->journal));
            if (journal_retry(fix->journal, &err) == RC_OK)
                ASSERT_FALSE(journal_read_only(fix->journal));
        }
        clock_advance_ms(&fix->clock, 300);
        if (step % 3 == 0)
            journal_step(fix->journal, &worked);
        if (step % 5 == 0)
            journal_step(fix->journal, &worked);
        if (step % 7 == 6)
            (void)journal_rotate(fix->journal);
        ASSERT_LE(journal_durable_lsn(fix->journal), fix->next_lsn - 1);
    }
}

/* What is there after the crash goes on living. */
static void script_again(struct journal_fix *fix, enum journal_fix_crash how)
{
    struct err err = {0};

    journal_fix_check(fix, how);
    size_t before = fix->acked_count;
    fix->durable_lsn = fix->start.last_lsn;
    journal_fix_check(fix, JOURNAL_FIX_PROCESS_END); /* recovering again changes nothing */
    ASSERT_EQ(fix->acked_count, before);

    journal_fix_open(fix);
    for (int i = 0; i < 12; i++) {
        ASSERT_OK(journal_fix_write(fix, 300, &err), &err);
        if (i == 5)
            journal_fix_drain(fix);
    }
    journal_fix_crash(fix, JOURNAL_FIX_POWER_CUT, 1);
    ASSERT_GE(fix->durable_lsn, fix->acked[before].first_lsn);
    journal_fix_check(fix, JOURNAL_FIX_POWER_CUT);
}

static void play(const struct file_sim_fault *fault, enum journal_fix_crash how, uint64_t seed,
                 int step_count)
{
    struct journal_fix fix;

    journal_fix_init(&fix);
    journal_fix_open(&fix);
    if (fault)
        file_sim_arm(fix.sim, fault);
    script_run(&fix, step_count);
    journal_fix_crash(&fix, how, seed);
    script_again(&fix, how);
    journal_fix_done(&fix);
}

static void play_all(const struct file_sim_fault *fault, int step_count)
{
    uint64_t seed_count = test_is_long() ? 100 : 4;

    play(fault, JOURNAL_FIX_PROCESS_END, 0, step_count);
    play(fault, JOURNAL_FIX_POWER_CUT, 0, step_count);
    for (uint64_t seed = 0; seed < seed_count; seed++)
        play(fault, JOURNAL_FIX_TORN, seed + (fault ? fault->count : 0), step_count);
}

/* Every Nth call of this kind, alone, twice in a row and for ever. */
static void fail_every(enum file_sim_op op, enum rc rc)
{
    struct journal_fix fix;

    journal_fix_init(&fix);
    journal_fix_open(&fix);
    uint64_t before = file_sim_op_count(fix.sim, op);
    script_run(&fix, SCRIPT_STEPS);
    uint64_t count = file_sim_op_count(fix.sim, op) - before;
    journal_fix_done(&fix);

    static const int64_t times[] = {1, 2, 3, -1};
    for (uint64_t n = 1; n <= count; n++) {
        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
            struct file_sim_fault fault = {.op = op,
                                           .count = n,
                                           .times = times[i],
                                           .rc = rc,
                                           .short_bytes = n % 4 ? (size_t)(n * 31 % 120) : 1000000};
            play_all(&fault, SCRIPT_STEPS);
        }
    }
}

TEST(a_crash_after_any_step_loses_nothing_that_was_promised)
{
    for (int step_count = 0; step_count <= SCRIPT_STEPS; step_count++)
        play_all(NULL, step_count);
}

TEST(a_torn_power_cut_in_many_ways_leaves_a_first_part)
{
    uint64_t seed_count = test_is_long() ? 5000 : 300;
    for (uint64_t seed = 1000; seed < 1000 + seed_count; seed++)
        play(NULL, JOURNAL_FIX_TORN, seed, 1 + (int)(seed % SCRIPT_STEPS));
}

TEST(any_write_may_fail)
{
    fail_every(FILE_SIM_WRITE, RC_IO);
}

TEST(any_write_may_meet_a_full_disk)
{
    fail_every(FILE_SIM_WRITE, RC_FULL);
}

TEST(any_sync_may_fail)
{
    fail_every(FILE_SIM_SYNC, RC_IO);
}

TEST(any_truncate_may_fail)
{
    fail_every(FILE_SIM_TRUNCATE, RC_IO);
}

TEST(any_directory_sync_may_fail)
{
    fail_every(FILE_SIM_SYNC_DIR, RC_IO);
}

TEST(any_open_may_fail)
{
    fail_every(FILE_SIM_OPEN, RC_IO);
}

TEST(any_call_may_fail)
{
    fail_every(FILE_SIM_ANY, RC_IO);
}

/* The answer to a failed sync may fail as well, at each of its steps. */
TEST(a_failed_sync_and_any_call_after_it_may_fail)
{
    for (uint64_t first = 1; first <= 6; first++) {
        for (uint64_t second = 1; second <= 14; second++) {
            for (int how = JOURNAL_FIX_PROCESS_END; how <= JOURNAL_FIX_TORN; how++) {
                struct journal_fix fix;
                journal_fix_init(&fix);
                journal_fix_open(&fix);
                file_sim_arm(fix.sim, &(struct file_sim_fault){
                                          .op = FILE_SIM_SYNC, .count = first, .rc = RC_IO});
                int step = 0;
                struct journal_status status = {0};
                while (step < SCRIPT_STEPS && status.sync_failure_count == 0 &&
                       file_sim_op_count(fix.sim, FILE_SIM_SYNC) < first - 1) {
                    step++;
                    journal_fix_done(&fix);
                    journal_fix_init(&fix);
                    journal_fix_open(&fix);
                    script_run(&fix, step);
                }
                journal_fix_disarm(&fix);
                file_sim_arm(fix.sim, &(struct file_sim_fault){
                                          .op = FILE_SIM_SYNC, .count = 1, .rc = RC_IO});
                file_sim_arm(fix.sim,
                             &(struct file_sim_fault){
                                 .op = FILE_SIM_ANY, .count = second + 1, .times = 2, .rc = RC_IO});
                script_run(&fix, 8);
                journal_fix_crash(&fix, (enum journal_fix_crash)how, first * 100 + second);
                script_again(&fix, (enum journal_fix_crash)how);
                journal_fix_done(&fix);
            }
        }
    }
}

/* A failed write whose truncate fails too, and whose copy may fail. */
TEST(a_failed_write_that_cannot_be_cut_is_never_seen)
{
    for (uint64_t count = 1; count <= 10; count++) {
        for (int64_t times = 1; times <= 4; times++) {
            for (uint64_t seed = 0; seed < 8; seed++) {
                struct journal_fix fix;
                enum journal_fix_crash how = (enum journal_fix_crash)(seed % 3);
                journal_fix_init(&fix);
                journal_fix_open(&fix);
                script_run(&fix, (int)count);
                file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_WRITE,
                                                               .count = 1,
                                                               .times = times,
                                                               .rc = RC_IO,
                                                               .short_bytes = 60});
                file_sim_arm(fix.sim, &(struct file_sim_fault){
                                          .op = FILE_SIM_TRUNCATE, .count = 1, .times = 2});
                script_run(&fix, 6);
                journal_fix_crash(&fix, how, seed);
                script_again(&fix, how);
                journal_fix_done(&fix);
            }
        }
    }
}

/* Recovery is interrupted at every call, and the power goes. */
TEST(recovery_may_be_interrupted_anywhere)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        for (uint64_t count = 1; count < 60; count++) {
            struct journal_fix fix;
            struct err err = {0};
            journal_fix_init(&fix);
            journal_fix_open(&fix);
            script_run(&fix, 5 + (int)(seed % 20));
            journal_fix_crash(&fix, JOURNAL_FIX_TORN, seed);
            file_sim_arm(fix.sim,
                         &(struct file_sim_fault){.op = FILE_SIM_ANY, .count = count, .times = -1});
            enum rc rc = journal_fix_recover(&fix, 0, false, NULL, &err);
            journal_fix_crash(&fix, JOURNAL_FIX_TORN, seed + count);
            script_again(&fix, JOURNAL_FIX_TORN);
            journal_fix_done(&fix);
            if (rc == RC_OK)
                break;
        }
    }
}

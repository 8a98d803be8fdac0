// SPDX-License-Identifier: Apache-2.0
/* test_store_script.c - scripted transactions: every read cold once, every journal write failing
 * once, and tasks that need more memory than may be pinned. */
#include <stdio.h>

#include "base/mem.h"
#include "model/support_store_sim.h"
#include "store/task.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

enum { SCRIPT_COMMITS = 60, SCRIPT_TURN_COMMITS = 3 };

/* The same transactions for the same seed, whatever happens to them. */
static void script_run(struct sim *sim, uint32_t commit_count)
{
    for (uint32_t i = 0; i < commit_count; i++) {
        struct client *client = &sim->client[0];
        sim_client_start(sim, client);
        sim_client_finish(sim, client);
        if (i % SCRIPT_TURN_COMMITS == SCRIPT_TURN_COMMITS - 1)
            sim_turn_end(sim);
        sim->event++;
    }
    sim_turn_end(sim);
}

static uint64_t undo_count(struct sim *sim)
{
    struct store_stats stats;
    store_stats(sim->store, &stats);
    return stats.undo_count;
}

TEST(a_read_that_turns_out_cold_at_any_point_changes_no_result)
{
    uint64_t seed_count = test_is_long() ? 10 : 2, hit_count = 0;
    for (uint64_t seed = 1; seed <= seed_count; seed++) {
        struct sim plain;
        sim_init_quiet(&plain, seed);
        script_run(&plain, SCRIPT_COMMITS);
        uint64_t plain_undo_count = undo_count(&plain);
        for (uint64_t n = 1;; n++) {
            struct sim sim;
            sim_init_quiet(&sim, seed);
            store_cold_inject(sim.store, n);
            script_run(&sim, SCRIPT_COMMITS);
            bool hit = undo_count(&sim) > plain_undo_count;
            store_cold_inject(sim.store, 0);
            sim_verify_all(&sim);
            ASSERT_EQ(sim.commit_count, plain.commit_count);
            ASSERT_EQ(mirror_row_count(&sim.model), mirror_row_count(&plain.model));
            sim_done(&sim);
            if (!hit)
                break;
            hit_count++;
        }
        sim_done(&plain);
    }
    printf("%llu reads were cold once\n", (unsigned long long)hit_count);
    ASSERT_GT(hit_count, 100 * seed_count);
}

/* Turn n cannot be written: `times` writes fail, of the first one `short_bytes` arrive. */
static bool turn_fails(uint64_t seed, uint32_t n, int64_t times, size_t short_bytes)
{
    struct sim sim;
    sim_init_quiet(&sim, seed);
    sim.faulty = sim.armed = true;
    script_run(&sim, n * SCRIPT_TURN_COMMITS);
    for (uint32_t i = 0; i < SCRIPT_TURN_COMMITS; i++) {
        sim_client_start(&sim, &sim.client[0]);
        sim_client_finish(&sim, &sim.client[0]);
    }
    struct file_sim_fault fault = {.op = FILE_SIM_WRITE,
                                   .count = 1,
                                   .times = times,
                                   .rc = n % 3 ? RC_IO : RC_FULL,
                                   .short_bytes = short_bytes,
                                   .path_part = "journal"};
    file_sim_arm(sim.files, &fault);
    sim_turn_end(&sim);
    bool failed = sim.failed_turn_count > 0;
    fault.count = 0;
    file_sim_arm(sim.files, &fault);
    sim.armed = false;
    sim_verify_all(&sim); /* what was acknowledged, and nothing else */
    clock_advance_ms(&sim.clock, 2000);
    store_poll(sim.store); /* a read-only journal is tried again */
    script_run(&sim, 5 * SCRIPT_TURN_COMMITS);
    sim_verify_all(&sim);
    sim_crash(&sim, n % 2 ? SIM_CRASH_KILL : SIM_CRASH_TORN);
    sim_verify_all(&sim);
    sim_done(&sim);
    return failed;
}

TEST(a_turn_that_cannot_be_written_leaves_no_trace_and_the_next_ones_do)
{
    uint32_t turn_count = test_is_long() ? 100 : 25, failed_count = 0;
    for (uint32_t n = 0; n < turn_count; n++) {
        failed_count += turn_fails(3, n, 1, 0);
        failed_count += turn_fails(3, n, 1, 1 + n * 7 % 90);
        failed_count += turn_fails(4, n, 1, SIZE_MAX);
        failed_count += turn_fails(4, n, 3, SIZE_MAX); /* the second copy fails as well */
    }
    ASSERT_GT(failed_count, turn_count * 3); /* a turn of reads writes nothing */
}

/* ---- tasks ---- */

enum { READERS = 4, READER_ROWS = 700 };

struct reader {
    struct task task;
    struct sim *sim;
    uint32_t number;
    uint32_t run_count, row_count;
    enum rc rc;
    bool done;
};

/* Counts all rows of its own group, and then those of the next reader's. */
static enum rc reader_run(struct task *task, struct store *store, struct err *err)
{
    struct reader *reader = (struct reader *)task;
    struct bytes suffix, value;
    enum rc rc = RC_NOT_FOUND;
    reader->run_count++;
    reader->row_count = 0;
    for (uint32_t i = 0; i < 2 && rc == RC_NOT_FOUND; i++) {
        char key[2] = {'g', (char)('0' + (reader->number + i) % READERS)};
        struct store_group group = {reader->sim->prefix[4], bytes_of(key, sizeof key)};
        struct store_walk walk;
        store_walk_init(&walk, store, group, reader->number % 2);
        while ((rc = store_walk_next(&walk, &suffix, &value, err)) == RC_OK)
            reader->row_count++;
        store_walk_done(&walk);
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    struct store_group own = {reader->sim->prefix[0], BYTES("counted")};
    return store_put(store, own, BYTES(""), bytes_of(&reader->number, 1), err);
}

static void reader_done(struct task *task, enum rc rc, const struct err *err)
{
    struct reader *reader = (struct reader *)task;
    (void)err;
    reader->rc = rc;
    reader->done = true;
}

static void work(struct sim *sim)
{
    store_step(sim->store, STORE_STEP_JOURNAL);
    store_step(sim->store, STORE_STEP_FLUSH);
    store_step(sim->store, STORE_STEP_LOAD);
}

static void readers_fill(struct sim *sim)
{
    struct err err = {0};
    for (uint32_t i = 0; i < READERS * READER_ROWS; i++) {
        char key[2] = {'g', (char)('0' + i % READERS)}, suffix[16], value[90] = {0};
        int len = snprintf(suffix, sizeof suffix, "%06u", i);
        struct store_group group = {sim->prefix[4], bytes_of(key, sizeof key)};
        while (!store_room(sim->store)) {
            work(sim);
            store_poll(sim->store);
        }
        store_begin(sim->store, 0);
        ASSERT_OK(store_put(sim->store, group, bytes_of(suffix, (size_t)len),
                            bytes_of(value, sizeof value), &err),
                  &err);
        store_commit(sim->store);
        ASSERT_OK(store_write(sim->store, &err), &err);
    }
    uint64_t segment = store_flush_ask(sim->store);
    while (store_flush_mark(sim->store) < segment) {
        work(sim);
        store_poll(sim->store);
    }
    store_evict_all(sim->store);
}

TEST(tasks_that_each_need_more_than_may_be_pinned_all_finish)
{
    struct sim sim;
    sim_init_quiet(&sim, 5);
    sim.options.hot_memory_bytes = 64 * 1024;
    sim_crash(&sim, SIM_CRASH_KILL); /* with less memory */
    readers_fill(&sim);
    struct tasks_options options = {.store = sim.store, .clock = &sim.clock};
    struct tasks *tasks = tasks_new(&options);
    struct reader reader[READERS] = {0};
    for (uint32_t i = 0; i < READERS; i++) {
        reader[i] = (struct reader){
            .task = {.run = reader_run, .done = reader_done}, .sim = &sim, .number = i};
        reader[i].task.flags = TASK_WRITES;
        task_start(tasks, &reader[i].task);
    }
    int turns = 0;
    for (; tasks_count(tasks) > 0 && turns < 20000; turns++) {
        tasks_turn(tasks);
        work(&sim);
    }
    struct store_stats stats;
    store_stats(sim.store, &stats);
    for (uint32_t i = 0; i < READERS; i++) {
        ASSERT_TRUE(reader[i].done);
        ASSERT_RC(reader[i].rc, RC_OK);
        ASSERT_EQ(reader[i].row_count, 2 * READER_ROWS);
    }
    ASSERT_GT(stats.preempted_count, 0);
    ASSERT_EQ(stats.pinned_bytes, 0);
    printf("%d turns, %llu preempted, %u to %u runs\n", turns,
           (unsigned long long)stats.preempted_count, reader[0].run_count,
           reader[READERS - 1].run_count);
    tasks_free(tasks);
    sim_done(&sim);
}

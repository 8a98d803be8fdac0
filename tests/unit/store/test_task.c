// SPDX-License-Identifier: Apache-2.0
/* test_task.c - how tasks run, over a store without threads, where a test decides what happens
 * when, and over RocksDB with all of them. */
#include "store/task.h"

#include <stdatomic.h>
#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/task_fix.h"
#include "test.h"

#include "base/banned.h"

static struct store_group meta(const struct task_fix *fix, const char *key)
{
    return (struct store_group){fix->meta, bytes_of(key, strlen(key))};
}

/* ---- running ---- */

TEST(a_task_is_done_once_its_turn_is_written)
{
    struct task_fix fix;
    struct work work = {0}, reader = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put, "a");
    work_start(&fix, &reader, 0, work_get, "a");
    ASSERT_EQ(tasks_count(fix.tasks), 2);
    ASSERT_FALSE(tasks_turn(fix.tasks));
    ASSERT_EQ(work.run_count, 1);
    ASSERT_EQ(work.done_count, 1);
    ASSERT_RC(work.rc, RC_OK);
    ASSERT_STR(reader.value, "a"); /* a later task of the turn sees it */
    ASSERT_EQ(tasks_count(fix.tasks), 0);
    ASSERT_EQ(work.task.state, TASK_IDLE);
    task_fix_done(&fix);
}

TEST(an_error_undoes_what_the_task_changed)
{
    struct task_fix fix;
    struct work work = {0}, reader = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put_and_fail, "a");
    work_start(&fix, &reader, 0, work_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_RC(work.rc, RC_INVALID);
    ASSERT_STR(work.text, "on purpose");
    ASSERT_RC(reader.rc, RC_NOT_FOUND);
    task_fix_done(&fix);
}

static void done_again(struct task *task, enum rc rc, const struct err *err)
{
    struct work *work = (struct work *)task;
    work_done(task, rc, err);
    if (work->done_count < 3)
        task_start(task->tasks, task);
    if (work->other)
        task_cancel(&work->other->task);
}

TEST(done_may_start_the_task_again_and_cancel_others)
{
    struct task_fix fix;
    struct work work = {0}, other = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, 0, work_nothing, "");
    work_start(&fix, &other, 0, work_nothing, "");
    work.task.done = done_again;
    work.other = &other;
    while (tasks_turn(fix.tasks))
        continue;
    ASSERT_EQ(work.done_count, 3);
    ASSERT_EQ(other.run_count, 1);
    ASSERT_EQ(other.done_count, 0);
    ASSERT_EQ(tasks_count(fix.tasks), 0);
    task_fix_done(&fix);
}

TEST(a_turn_ends_when_its_frame_is_large)
{
    struct task_fix fix;
    struct work work[4] = {0};
    task_fix_init_with(&fix, 64 << 20, DURABILITY_NO);
    for (int i = 0; i < 4; i++) {
        work[i].value_bytes = 600 * 1000;
        work_start(&fix, &work[i], TASK_WRITES, work_put, "k");
    }
    ASSERT_TRUE(tasks_turn(fix.tasks));
    ASSERT_EQ(work[1].done_count, 1);
    ASSERT_EQ(work[2].run_count, 0);
    ASSERT_FALSE(tasks_turn(fix.tasks));
    ASSERT_EQ(work[3].done_count, 1);
    task_fix_done(&fix);
}

/* ---- cold ---- */

TEST(a_cold_task_is_parked_undone_and_runs_again)
{
    struct task_fix fix;
    struct work cold = {0}, hot = {0};
    struct bytes value;
    task_fix_init(&fix);
    task_fix_cold_rows(&fix, 2);
    work_start(&fix, &cold, TASK_WRITES, work_put_and_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_EQ(cold.task.state, TASK_LOADING);
    ASSERT_EQ(cold.done_count, 0);
    work_start(&fix, &hot, TASK_WRITES, work_put, "c"); /* nobody waits for it */
    tasks_turn(fix.tasks);
    ASSERT_EQ(hot.done_count, 1);
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, meta(&fix, "trace"), BYTES(""), &value, &fix.err), RC_NOT_FOUND);
    store_undo(fix.store);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(cold.run_count, 2);
    ASSERT_EQ(cold.done_count, 1);
    ASSERT_RC(cold.rc, RC_OK);
    ASSERT_STR(cold.value, "a");
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, meta(&fix, "trace"), BYTES(""), &value, &fix.err), RC_OK);
    store_undo(fix.store);
    task_fix_done(&fix);
}

TEST(a_task_that_finds_its_row_loaded_meanwhile_is_not_parked)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init(&fix);
    task_fix_cold_rows(&fix, 1);
    work_start(&fix, &work, 0, work_get, "a");
    store_cold_inject(fix.store, 1); /* cold, and nothing to wait for */
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.task.state, TASK_READY);
    tasks_turn(fix.tasks);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_STR(work.value, "a");
    task_fix_done(&fix);
}

TEST(a_failed_load_is_the_answer_of_who_waited)
{
    struct task_fix fix;
    struct work work = {0}, again = {0};
    task_fix_init(&fix);
    task_fix_cold_rows(&fix, 1);
    work_start(&fix, &work, 0, work_get, "a");
    tasks_turn(fix.tasks);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 1, 1, RC_IO);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.run_count, 1);
    ASSERT_EQ(work.done_count, 1);
    ASSERT_RC(work.rc, RC_IO);
    ASSERT_TRUE(work.text[0] != 0);
    work_start(&fix, &again, 0, work_get, "a");
    tasks_turn(fix.tasks);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_RC(again.rc, RC_OK);
    task_fix_done(&fix);
}

TEST(what_was_loaded_may_leave_when_the_task_is_done)
{
    struct task_fix fix;
    struct work work = {0};
    struct store_stats stats;
    task_fix_init(&fix);
    task_fix_cold_rows(&fix, 1);
    work_start(&fix, &work, 0, work_get, "a");
    tasks_turn(fix.tasks);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    store_stats(fix.store, &stats);
    ASSERT_EQ(stats.pinned_bytes, 0);
    task_fix_done(&fix);
}
/* ---- a turn that fails ---- */

static void fail_write(struct task_fix *fix)
{
    file_sim_arm(
        fix->sim,
        &(struct file_sim_fault){
            .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_IO, .path_part = "journal"});
}

TEST(a_failed_write_reaches_exactly_the_tasks_of_its_turn)
{
    struct task_fix fix;
    struct work before = {0}, put = {0}, get = {0}, wait = {0}, cold = {0}, bad = {0}, after = {0},
                check = {0};
    task_fix_init(&fix);
    task_fix_cold_rows(&fix, 1);
    work_start(&fix, &before, TASK_WRITES, work_put_wait_event, "before");
    tasks_turn(fix.tasks); /* written: it waits with its change safe */
    fail_write(&fix);
    work_start(&fix, &put, TASK_WRITES, work_put, "b");
    work_start(&fix, &get, 0, work_get, "b");
    work_start(&fix, &wait, TASK_WRITES, work_put_wait_event, "c");
    work_start(&fix, &cold, 0, work_get, "a");
    work_start(&fix, &bad, TASK_WRITES, work_put_and_fail, "d");
    tasks_turn(fix.tasks);
    ASSERT_RC(put.rc, RC_IO);
    ASSERT_RC(get.rc, RC_IO); /* it may have seen what did not happen */
    ASSERT_RC(wait.rc, RC_IO);
    ASSERT_RC(bad.rc, RC_INVALID); /* it failed by itself */
    ASSERT_EQ(put.done_count + get.done_count + wait.done_count + bad.done_count, 4);
    ASSERT_TRUE(put.text[0] != 0);
    ASSERT_EQ(before.done_count, 0);
    ASSERT_EQ(cold.done_count, 0);
    work_start(&fix, &after, TASK_WRITES, work_put, "e");
    work_start(&fix, &check, 0, work_get, "b");
    task_wake(&before.task);
    tasks_turn(fix.tasks);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_RC(before.rc, RC_OK);
    ASSERT_EQ(before.done_count, 1);
    ASSERT_RC(cold.rc, RC_OK);
    ASSERT_STR(cold.value, "a");
    ASSERT_RC(after.rc, RC_OK);
    ASSERT_EQ(check.done_count, 1);
    ASSERT_RC(check.rc, RC_NOT_FOUND);
    task_fix_done(&fix);
}

TEST(a_failed_write_reaches_a_task_that_was_woken_within_the_turn)
{
    struct task_fix fix;
    struct work wait = {0}, waker = {.other = &wait}, get = {0};
    task_fix_init(&fix);
    fail_write(&fix);
    work_start(&fix, &wait, TASK_WRITES, work_put_wait_event, "a");
    work_start(&fix, &waker, 0, work_wake_other, "");
    tasks_turn(fix.tasks);
    ASSERT_EQ(wait.done_count, 1);
    ASSERT_RC(wait.rc, RC_IO);
    work_start(&fix, &get, 0, work_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_RC(get.rc, RC_NOT_FOUND);
    task_fix_done(&fix);
}

static bool ready_again(void *arg, bool room)
{
    struct task_fix *fix = arg;
    (void)room;
    tasks_run_ready(fix->tasks);
    return false;
}

TEST(a_failed_write_reaches_a_task_that_waits_for_room_since_the_turn)
{
    struct task_fix fix;
    struct work wait = {.value_bytes = 60000}, waker = {.other = &wait}, get = {0};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    tasks_free(fix.tasks);
    fix.tasks = tasks_new(&(struct tasks_options){.store = fix.store,
                                                  .clock = &fix.clock,
                                                  .durability = DURABILITY_EVERYSEC,
                                                  .clients = ready_again,
                                                  .clients_arg = &fix});
    fail_write(&fix);
    work_start(&fix, &wait, TASK_WRITES, work_put_wait_event, "a");
    work_start(&fix, &waker, 0, work_wake_other, "");
    tasks_turn(fix.tasks);
    ASSERT_EQ(wait.run_count, 1);
    ASSERT_EQ(wait.done_count, 1);
    ASSERT_RC(wait.rc, RC_IO);
    work_start(&fix, &get, 0, work_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_RC(get.rc, RC_NOT_FOUND);
    task_fix_done(&fix);
}

/* ---- durability ---- */

TEST(with_durability_always_a_task_is_done_when_its_turn_is_on_disk)
{
    struct task_fix fix;
    struct work first = {0}, second = {0}, reader = {0};
    task_fix_init_with(&fix, 1 << 20, DURABILITY_ALWAYS);
    work_start(&fix, &reader, 0, work_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_EQ(reader.done_count, 1); /* nothing is on its way to the disk */
    work_start(&fix, &first, TASK_WRITES, work_put, "a");
    tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    ASSERT_EQ(first.run_count, 1);
    ASSERT_EQ(first.done_count, 0);
    ASSERT_LT(store_durable_lsn(fix.store), first.lsn);
    work_start(&fix, &reader, 0, work_get, "a");
    work_start(&fix, &second, TASK_WRITES, work_put, "b"); /* turns overlap one sync */
    tasks_turn(fix.tasks);
    ASSERT_EQ(reader.done_count, 1); /* it saw what is not on disk yet */
    while (store_step(fix.store, STORE_STEP_JOURNAL))
        continue;
    ASSERT_GE(store_durable_lsn(fix.store), second.lsn);
    ASSERT_EQ(first.done_count, 0);
    tasks_turn(fix.tasks);
    ASSERT_EQ(first.done_count, 1);
    ASSERT_EQ(second.done_count, 1);
    ASSERT_EQ(reader.done_count, 2);
    task_fix_done(&fix);
}

TEST(with_durability_always_a_reader_of_an_opened_store_does_not_wait)
{
    struct task_fix fix;
    struct work work = {0}, reader = {0};
    task_fix_init_with(&fix, 1 << 20, DURABILITY_ALWAYS);
    work_start(&fix, &work, TASK_WRITES, work_put, "a");
    tasks_turn(fix.tasks);
    task_fix_flush(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    task_fix_close(&fix);
    task_fix_open(&fix, 1 << 20, DURABILITY_ALWAYS);
    work_start(&fix, &reader, 0, work_get, "a");
    tasks_turn(fix.tasks);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(reader.done_count, 1);
    ASSERT_STR(reader.value, "a");
    task_fix_done(&fix);
}

TEST(a_failed_turn_is_answered_although_durability_is_always)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init_with(&fix, 1 << 20, DURABILITY_ALWAYS);
    fail_write(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put, "a");
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    ASSERT_RC(work.rc, RC_IO);
    task_fix_done(&fix);
}

/* ---- slices ---- */

TEST(clients_get_a_slice_of_a_turn_and_jobs_get_theirs)
{
    enum { COUNT = 60 };
    struct task_fix fix;
    static struct work client[COUNT], job[COUNT];
    task_fix_init(&fix);
    for (int i = 0; i < COUNT; i++) {
        client[i] = (struct work){.number = i, .cost_ns = 1000 * 1000};
        job[i] = (struct work){.number = 1000 + i, .cost_ns = 90 * 1000};
        work_start(&fix, &client[i], 0, work_nothing, "");
        work_start(&fix, &job[i], TASK_JOB, work_nothing, "");
    }
    ASSERT_TRUE(tasks_turn(fix.tasks));
    int clients = 0, jobs = 0;
    for (int i = 0; i < fix.log_count; i++) {
        clients += fix.log[i] < 1000;
        jobs += fix.log[i] >= 1000;
    }
    ASSERT_EQ(clients, 16); /* the clock is looked at after so many */
    ASSERT_EQ(jobs, 3);     /* 200 us and what was begun */
    int turns = 1;
    while (tasks_turn(fix.tasks))
        turns++;
    ASSERT_EQ(tasks_count(fix.tasks), 0);
    ASSERT_LE(turns, 22);
    task_fix_done(&fix);
}

TEST(jobs_run_even_when_the_clock_stands_still)
{
    enum { COUNT = 100 };
    struct task_fix fix;
    static struct work job[COUNT];
    task_fix_init(&fix);
    for (int i = 0; i < COUNT; i++) {
        job[i] = (struct work){0};
        work_start(&fix, &job[i], TASK_JOB, work_nothing, "");
    }
    ASSERT_TRUE(tasks_turn(fix.tasks));
    ASSERT_EQ(fix.log_count, 64);
    ASSERT_FALSE(tasks_turn(fix.tasks));
    ASSERT_EQ(fix.log_count, COUNT);
    task_fix_done(&fix);
}

enum { WALK_ROWS = 40000 };

/* Reads all rows of the group, and changes each: what was read is read again when it begins again.
 */
static enum rc work_walk(struct work *work, struct store *store, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct store_group group = {work->fix->data, BYTES("g")};
    struct bytes suffix, value;
    enum rc rc = RC_OK;
    store_walk_init(&walk, store, group, work->number == 1);
    walk.row_count = work->value_bytes;
    for (work->lsn = 0; rc == RC_OK; work->lsn++) {
        rc = store_walk_next(&walk, &suffix, &value, err);
        if (rc == RC_OK && work->number == 2)
            rc = store_delete(store, group, suffix, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static int walk_cold(struct task_fix *fix, struct work *work)
{
    task_fix_cool(fix);
    work_start(fix, work, 0, work_walk, "");
    while (work->done_count == 0) {
        task_fix_load(fix);
        tasks_turn(fix->tasks);
    }
    ASSERT_RC(work->rc, RC_OK);
    ASSERT_EQ(work->lsn, WALK_ROWS + 1);
    return work->run_count;
}

TEST(a_walk_over_cold_rows_begins_again_a_few_times_however_long_it_is)
{
    static const size_t memory[] = {64 << 20, 1 << 20};
    for (size_t i = 0; i < ARRAY_LEN(memory); i++) {
        struct task_fix fix;
        task_fix_init_with(&fix, 64 << 20, DURABILITY_NO);
        store_begin(fix.store, 0);
        for (int row = 0; row < WALK_ROWS; row++) {
            char suffix[16];
            int len = snprintf(suffix, sizeof suffix, "%08d", row);
            struct store_group group = {fix.data, BYTES("g")};
            ASSERT_OK(
                store_put(fix.store, group, bytes_of(suffix, (size_t)len), BYTES("v"), &fix.err),
                &fix.err);
        }
        store_commit(fix.store);
        ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
        store_hot_memory_set(fix.store, memory[i]);
        int runs_max = memory[i] > 1 << 20 ? 6 : 9; /* by fours, by twos */
        struct work forward = {.number = 0}, back = {.number = 1}, known = {.number = 0},
                    change = {.number = 2};
        known.value_bytes = WALK_ROWS;
        ASSERT_LE(walk_cold(&fix, &forward), runs_max);
        ASSERT_LE(walk_cold(&fix, &back), runs_max);
        ASSERT_LE(walk_cold(&fix, &known), 3);
        ASSERT_LE(walk_cold(&fix, &change), runs_max);
        task_fix_done(&fix);
    }
}

TEST(a_job_may_be_cold_and_stays_a_job)
{
    struct task_fix fix;
    struct work job = {.number = 1}, client = {.number = 2};
    task_fix_init(&fix);
    task_fix_cold_rows(&fix, 1);
    work_start(&fix, &job, TASK_JOB, work_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_EQ(job.task.state, TASK_LOADING);
    task_fix_load(&fix);
    work_start(&fix, &client, 0, work_nothing, "");
    tasks_turn(fix.tasks);
    ASSERT_EQ(fix.log[0], 2);
    ASSERT_EQ(fix.log[1], 1);
    ASSERT_STR(job.value, "a");
    task_fix_done(&fix);
}

/* ---- threads ---- */

struct bell { /* shared, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool is_rung;
};

static void bell_ring(void *arg)
{
    struct bell *bell = arg;
    pthread_mutex_lock(&bell->lock);
    bell->is_rung = true;
    pthread_cond_signal(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

static void bell_wait(struct bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    while (!bell->is_rung)
        pthread_cond_wait(&bell->rung, &bell->lock);
    bell->is_rung = false;
    pthread_mutex_unlock(&bell->lock);
}

static void fix_init_rocksdb(struct task_fix *fix, struct bell *bell)
{
    *fix = (struct task_fix){0};
    *bell = (struct bell){0};
    pthread_mutex_init(&bell->lock, NULL);
    pthread_cond_init(&bell->rung, NULL);
    clock_init(&fix->clock);
    struct store_options options = {.dir = test_temp_dir(),
                                    .spaces = task_fix_spaces,
                                    .space_count = ARRAY_LEN(task_fix_spaces),
                                    .clock = &fix->clock,
                                    .hot_memory_bytes = 1 << 20,
                                    .segment_bytes = 64 * 1024,
                                    .flush_unit_bytes = 1 << 20,
                                    .disk_reserve_bytes = 0,
                                    .durability = DURABILITY_ALWAYS,
                                    .loader_count = 2,
                                    .wake = bell_ring,
                                    .wake_arg = bell};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, META, BYTES("m"), &fix->meta, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, DATA, BYTES("d"), &fix->data, &fix->err), &fix->err);
    fix->tasks = tasks_new(&(struct tasks_options){.store = fix->store,
                                                   .clock = &fix->clock,
                                                   .durability = DURABILITY_ALWAYS,
                                                   .wake = bell_ring,
                                                   .wake_arg = bell});
}

static void fix_done_rocksdb(struct task_fix *fix, struct bell *bell)
{
    task_fix_close(fix);
    pthread_mutex_destroy(&bell->lock);
    pthread_cond_destroy(&bell->rung);
}

static void run_all(struct task_fix *fix, struct bell *bell)
{
    while (tasks_count(fix->tasks) > 0)
        if (!tasks_turn(fix->tasks) && tasks_count(fix->tasks) > 0)
            bell_wait(bell);
}

static void done_durable(struct task *task, enum rc rc, const struct err *err)
{
    struct work *work = (struct work *)task;
    ASSERT_GE(store_durable_lsn(work->fix->store), work->lsn);
    work_done(task, rc, err);
}

TEST(with_threads_and_rocksdb_everything_is_answered_and_right)
{
    enum { COUNT = 400, ROUNDS = 3 };
    struct task_fix fix;
    struct bell bell;
    static struct work work[COUNT];
    static char key[COUNT][16];
    fix_init_rocksdb(&fix, &bell);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            snprintf(key[i], sizeof key[i], "%05d", i);
            work[i] = (struct work){.value_bytes = i % 4 ? 0 : 5000};
            work_start(&fix, &work[i], TASK_WRITES | (i % 3 ? 0 : TASK_JOB), work_put, key[i]);
            work[i].task.done = done_durable;
        }
        run_all(&fix, &bell);
        for (int i = 0; i < COUNT; i++)
            ASSERT_RC(work[i].rc, RC_OK);
        uint64_t segment = store_flush_ask(fix.store);
        while (store_flush_mark(fix.store) < segment)
            if (!store_poll(fix.store))
                bell_wait(&bell);
        store_evict_all(fix.store);
        for (int i = 0; i < COUNT; i++) {
            work[i] = (struct work){0};
            work_start(&fix, &work[i], i % 5 ? 0 : TASK_JOB, work_get, key[i]);
        }
        run_all(&fix, &bell);
        for (int i = 0; i < COUNT; i++) {
            ASSERT_RC(work[i].rc, RC_OK);
            ASSERT_EQ(work[i].done_count, 1);
            if (i % 4)
                ASSERT_STR(work[i].value, key[i]);
        }
    }
    store_check(fix.store);
    fix_done_rocksdb(&fix, &bell);
}

struct poster {
    pthread_t thread;
    struct work *work;
    int work_count;
    _Atomic int *left; /* shared: atomic; posters that are still at it */
};

static void *poster_main(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < 20000; i++)
        task_post(&poster->work[i % poster->work_count].task);
    atomic_fetch_sub(poster->left, 1);
    return NULL;
}

static enum rc work_count_events(struct work *work, struct store *store, struct err *err)
{
    (void)store, (void)err;
    task_wait_event(&work->task);
    return RC_WAIT;
}

TEST(a_post_from_another_thread_is_never_lost)
{
    enum { COUNT = 7, POSTERS = 3 };
    struct task_fix fix;
    struct work work[COUNT] = {0};
    struct poster poster[POSTERS];
    _Atomic int left = POSTERS;
    task_fix_init(&fix);
    for (int i = 0; i < COUNT; i++)
        work_start(&fix, &work[i], 0, work_count_events, "");
    tasks_turn(fix.tasks);
    for (int i = 0; i < POSTERS; i++) {
        poster[i] = (struct poster){.work = work, .work_count = COUNT, .left = &left};
        ASSERT_EQ(pthread_create(&poster[i].thread, NULL, poster_main, &poster[i]), 0);
    }
    while (atomic_load(&left) > 0)
        tasks_turn(fix.tasks);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(poster[i].thread, NULL);
    tasks_turn(fix.tasks);
    for (int i = 0; i < COUNT; i++) { /* whatever happened before: this one arrives */
        int before = work[i].run_count;
        task_post(&work[i].task);
        tasks_turn(fix.tasks);
        ASSERT_EQ(work[i].run_count, before + 1);
        task_cancel(&work[i].task);
    }
    task_fix_done(&fix);
}

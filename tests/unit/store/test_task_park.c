// SPDX-License-Identifier: Apache-2.0
/* test_task_park.c - how tasks wait: for an event, an LSN, a mark, a time, a load, room; until a
 * deadline or a cancel. */
#include "store/task.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/task_fix.h"
#include "test.h"

#include "base/banned.h"

static enum rc work_wait(struct work *work, struct store *store, struct err *err)
{
    (void)store, (void)err;
    return work->run_count < 3 ? RC_WAIT : RC_OK;
}

static enum rc work_put_wait_lsn(struct work *work, struct store *store, struct err *err)
{
    if (work->run_count > 1)
        return RC_OK;
    enum rc rc = work_put(work, store, err);
    task_wait_lsn(&work->task, work->lsn);
    return rc == RC_OK ? RC_WAIT : rc;
}

static enum rc work_wait_mark(struct work *work, struct store *store, struct err *err)
{
    (void)store, (void)err;
    task_wait_mark(&work->task, work->lsn);
    return work->run_count > 1 ? RC_OK : RC_WAIT;
}

static enum rc work_wait_time(struct work *work, struct store *store, struct err *err)
{
    (void)store, (void)err;
    task_wait_until(&work->task, work->lsn);
    return work->run_count > 1 ? RC_OK : RC_WAIT;
}

static enum rc work_cancel_other(struct work *work, struct store *store, struct err *err)
{
    (void)store, (void)err;
    task_cancel(&work->other->task);
    return RC_OK;
}

/* ---- waiting ---- */

TEST(waiting_for_nothing_means_a_later_turn_and_asks_for_it)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, 0, work_wait, "");
    ASSERT_TRUE(tasks_turn(fix.tasks)); /* nobody else would begin the next one */
    ASSERT_EQ(work.run_count, 1);
    ASSERT_TRUE(tasks_turn(fix.tasks));
    ASSERT_EQ(work.run_count, 2);
    ASSERT_EQ(work.done_count, 0);
    ASSERT_FALSE(tasks_turn(fix.tasks));
    ASSERT_EQ(work.done_count, 1);
    task_fix_done(&fix);
}

static enum rc work_put_cold_event(struct work *work, struct store *store, struct err *err)
{
    enum rc rc = work_put(work, store, err);
    if (work->run_count > 1 || rc != RC_OK)
        return rc;
    task_wait_event(&work->task);
    return RC_COLD;
}

TEST(a_cold_task_that_wants_no_row_waits_undone_for_its_event)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put_cold_event, "a");
    uint64_t before = store_commit_lsn(fix.store);
    ASSERT_FALSE(tasks_turn(fix.tasks));
    ASSERT_EQ(work.task.state, TASK_WAITING);
    ASSERT_EQ(store_commit_lsn(fix.store), before);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.run_count, 1);
    task_wake(&work.task);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    ASSERT_TRUE(store_commit_lsn(fix.store) > before);
    task_fix_done(&fix);
}

TEST(an_event_wakes_who_waits_for_it_and_nobody_else)
{
    struct task_fix fix;
    struct work work = {0}, timer = {.lsn = UINT64_MAX}, waker = {.other = &work};
    task_fix_init(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put_wait_event, "a");
    task_wake(&work.task); /* it does not wait yet */
    work_start(&fix, &timer, 0, work_wait_time, "");
    tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.task.state, TASK_WAITING);
    ASSERT_EQ(work.run_count, 1);
    task_wake(&timer.task);
    tasks_turn(fix.tasks);
    ASSERT_EQ(timer.run_count, 1);
    task_wake(&work.task);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    work_start(&fix, &work, TASK_WRITES, work_put_wait_event,
               "a"); /* run_count > 1: through at once */
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 2);
    work.run_count = 0;
    work_start(&fix, &work, TASK_WRITES, work_put_wait_event, "a");
    work_start(&fix, &waker, 0, work_wake_other, "");
    tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 3);
    task_fix_done(&fix);
}

TEST(a_post_is_an_event_of_the_next_turn)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put_wait_event, "a");
    tasks_turn(fix.tasks);
    task_post(&work.task);
    task_post(&work.task);
    ASSERT_EQ(work.task.state, TASK_WAITING);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    task_fix_done(&fix);
}

TEST(a_durable_lsn_is_waited_for)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init(&fix);
    work_start(&fix, &work, TASK_WRITES, work_put_wait_lsn, "a");
    tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.run_count, 1);
    ASSERT_LT(store_durable_lsn(fix.store), work.lsn);
    store_sync_ask(fix.store);
    while (store_step(fix.store, STORE_STEP_JOURNAL))
        continue;
    ASSERT_GE(store_durable_lsn(fix.store), work.lsn);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    task_fix_done(&fix);
}

TEST(a_flush_mark_is_waited_for)
{
    struct task_fix fix;
    struct work put = {0}, work = {0};
    task_fix_init(&fix);
    work_start(&fix, &put, TASK_WRITES, work_put, "a");
    tasks_turn(fix.tasks);
    work.lsn = store_flush_mark(fix.store) + 1;
    work_start(&fix, &work, 0, work_wait_mark, "");
    tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.run_count, 1);
    task_fix_flush(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    task_fix_done(&fix);
}

TEST(a_time_is_waited_for)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init(&fix);
    ASSERT_TRUE(tasks_next_ns(fix.tasks) == UINT64_MAX);
    work.lsn = clock_mono_ns(&fix.clock) + 5000000;
    work_start(&fix, &work, 0, work_wait_time, "");
    tasks_turn(fix.tasks);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 5000000);
    clock_advance_ms(&fix.clock, 4);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 1000000);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.run_count, 1);
    clock_advance_ms(&fix.clock, 2);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 0);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    ASSERT_TRUE(tasks_next_ns(fix.tasks) == UINT64_MAX);
    task_fix_done(&fix);
}

/* ---- deadlines and cancels, in every state ---- */

/* Leaves the works parked: loading, waiting for an event, for room. */
static void park(struct task_fix *fix, struct work work[3], uint64_t deadline_ns)
{
    static const char *const keys[] = {"1", "2", "3", "4", "5", "6", "7", "8"};
    struct work writer[8] = {0};
    for (int i = 0; i < 3; i++)
        work[i] = (struct work){.task = {.deadline_ns = deadline_ns}};
    task_fix_cold_rows(fix, 1);
    work_start(fix, &work[0], 0, work_get, "a");
    work_start(fix, &work[1], TASK_WRITES, work_put_wait_event, "b");
    tasks_turn(fix->tasks);
    for (int i = 0; i < 8; i++) {
        writer[i].value_bytes = 6000;
        work_start(fix, &writer[i], TASK_WRITES, work_put, keys[i]);
        tasks_turn(fix->tasks);
        ASSERT_EQ(writer[i].done_count, 1);
        if (!store_room(fix->store))
            break;
    }
    ASSERT_FALSE(store_room(fix->store));
    work_start(fix, &work[2], TASK_WRITES, work_put, "c");
    tasks_turn(fix->tasks);
    ASSERT_EQ(work[0].task.state, TASK_LOADING);
    ASSERT_EQ(work[1].task.state, TASK_WAITING);
    ASSERT_EQ(work[2].task.state, TASK_ROOM);
}

TEST(a_deadline_ends_who_is_parked)
{
    struct task_fix fix;
    struct work work[3];
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    uint64_t deadline_ns = clock_mono_ns(&fix.clock) + 10 * 1000000;
    park(&fix, work, deadline_ns);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 10 * 1000000);
    clock_advance_ms(&fix.clock, 9);
    tasks_turn(fix.tasks);
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(work[i].done_count, 0);
    clock_advance_ms(&fix.clock, 1);
    tasks_turn(fix.tasks);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(work[i].done_count, 1);
        ASSERT_RC(work[i].rc, RC_TIMEOUT);
        ASSERT_TRUE(work[i].text[0] != 0);
    }
    ASSERT_EQ(tasks_count(fix.tasks), 0);
    task_fix_load(&fix); /* the load ends without its waiter */
    tasks_turn(fix.tasks);
    task_fix_done(&fix);
}

TEST(a_task_can_be_cancelled_in_every_state)
{
    struct task_fix fix;
    struct work work[3], ready = {0}, ended = {0}, idle = {0};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_ALWAYS);
    tasks_durability_set(fix.tasks, DURABILITY_EVERYSEC);
    park(&fix, work, 0);
    tasks_durability_set(fix.tasks, DURABILITY_ALWAYS);
    work_start(&fix, &ended, TASK_WRITES | TASK_DELETES, work_put, "d");
    tasks_turn(fix.tasks);
    ASSERT_EQ(ended.task.state, TASK_ENDED);
    work_start(&fix, &ready, 0, work_nothing, "");
    ASSERT_EQ(tasks_count(fix.tasks), 5);
    task_post(&work[1].task);
    for (int i = 0; i < 3; i++)
        task_cancel(&work[i].task);
    task_cancel(&ready.task);
    task_cancel(&ended.task);
    task_cancel(&idle.task); /* nothing happens */
    task_cancel(&ready.task);
    ASSERT_EQ(tasks_count(fix.tasks), 0);
    task_fix_load(&fix);
    while (store_step(fix.store, STORE_STEP_JOURNAL) || store_step(fix.store, STORE_STEP_FLUSH))
        tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(work[i].done_count, 0);
    ASSERT_EQ(ready.run_count + ready.done_count + ended.done_count, 0);
    task_fix_done(&fix);
}

TEST(a_running_task_may_cancel_others_but_not_itself)
{
    struct task_fix fix;
    struct work killer = {0}, victim = {0}, self = {0};
    task_fix_init(&fix);
    killer.other = &victim;
    self.other = &self;
    work_start(&fix, &killer, 0, work_cancel_other, "");
    work_start(&fix, &victim, 0, work_nothing, "");
    tasks_turn(fix.tasks);
    ASSERT_EQ(killer.done_count, 1);
    ASSERT_EQ(victim.run_count + victim.done_count, 0);
    work_start(&fix, &self, 0, work_cancel_other, "");
    ASSERT_ABORTS(tasks_turn(fix.tasks));
    task_cancel(&self.task);
    task_fix_done(&fix);
}

TEST(the_end_cancels_what_is_left)
{
    struct task_fix fix;
    struct work work[3];
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    park(&fix, work, 0);
    task_post(&work[1].task);
    task_fix_close(&fix);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(work[i].done_count, 0);
        ASSERT_EQ(work[i].task.state, TASK_IDLE);
    }
    engine_memory_free(fix.memory);
    file_sim_free(fix.sim);
}

/* ---- room ---- */

static void fill_up(struct task_fix *fix)
{
    static const char *const keys[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    for (int i = 0; store_room(fix->store); i++) {
        struct work work = {.value_bytes = 6000};
        work_start(fix, &work, TASK_WRITES, work_put, keys[i % 10]);
        tasks_turn(fix->tasks);
        ASSERT_RC(work.rc, RC_OK);
        ASSERT_LT(i, 100);
    }
    fix->log_count = 0;
}

static void make_room(struct task_fix *fix)
{
    for (int i = 0; !store_room(fix->store); i++) {
        bool worked = store_step(fix->store, STORE_STEP_JOURNAL);
        worked = store_step(fix->store, STORE_STEP_FLUSH) || worked;
        store_poll(fix->store);
        ASSERT_TRUE(worked);
        ASSERT_LT(i, 1000);
    }
}

TEST(writers_without_room_wait_in_order_and_deleters_pass)
{
    enum { COUNT = 150 };
    struct task_fix fix;
    static struct work writer[COUNT];
    struct work deleter = {.number = 1000}, reader = {.number = 1001};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    fill_up(&fix);
    for (int i = 0; i < COUNT; i++) {
        writer[i] = (struct work){.number = i};
        work_start(&fix, &writer[i], TASK_WRITES, work_put, "w");
        if (i == COUNT / 2)
            tasks_turn(fix.tasks);
    }
    ASSERT_EQ(writer[0].task.state, TASK_ROOM);
    ASSERT_EQ(writer[COUNT - 1].task.state, TASK_READY); /* came later */
    work_start(&fix, &deleter, TASK_WRITES | TASK_DELETES, work_delete, "1");
    work_start(&fix, &reader, 0, work_get, "2");
    make_room(&fix);
    struct work last = {.number = COUNT};
    work_start(&fix, &last, TASK_WRITES, work_put, "w");
    for (int turns = 0; last.done_count == 0; turns++) {
        tasks_turn(fix.tasks);
        if (!store_room(fix.store))
            make_room(&fix);
        ASSERT_LT(turns, 20);
    }
    int next = 0;
    for (int i = 0; i < fix.log_count; i++)
        if (fix.log[i] < 1000)
            ASSERT_EQ(fix.log[i], next++);
    ASSERT_EQ(next, COUNT + 1);
    ASSERT_EQ(deleter.done_count, 1);
    ASSERT_EQ(reader.done_count, 1);
    for (int i = 0; i < COUNT; i++)
        ASSERT_EQ(writer[i].run_count, 1); /* parked before the first change */
    task_fix_done(&fix);
}

TEST(who_comes_when_there_is_room_again_does_not_overtake)
{
    struct task_fix fix;
    struct work early[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct work late[2] = {{.number = 4}, {.number = 5}};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    fill_up(&fix);
    for (int i = 0; i < 3; i++)
        work_start(&fix, &early[i], TASK_WRITES, work_put, "w");
    tasks_turn(fix.tasks);
    for (int i = 0; i < 2; i++)
        work_start(&fix, &late[i], TASK_WRITES, work_put, "w");
    make_room(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(fix.log_count, 5);
    for (int i = 0; i < 5; i++)
        ASSERT_EQ(fix.log[i], i + 1);
    task_fix_done(&fix);
}

TEST(who_frees_and_who_reads_runs_without_room)
{
    struct task_fix fix;
    struct work writer = {0}, deleter = {0}, reader = {0};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    fill_up(&fix);
    work_start(&fix, &writer, TASK_WRITES, work_put, "w");
    work_start(&fix, &deleter, TASK_WRITES | TASK_DELETES, work_delete, "0");
    work_start(&fix, &reader, 0, work_get, "0");
    ASSERT_FALSE(tasks_turn(fix.tasks)); /* nothing to do at once */
    ASSERT_EQ(writer.run_count, 0);
    ASSERT_EQ(deleter.done_count, 1);
    ASSERT_RC(reader.rc, RC_NOT_FOUND);
    task_fix_done(&fix);
}

TEST(a_job_without_room_waits_and_keeps_nobody_busy)
{
    struct task_fix fix;
    struct work job = {0};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    fill_up(&fix);
    work_start(&fix, &job, TASK_WRITES | TASK_JOB, work_put, "w");
    ASSERT_FALSE(tasks_turn(fix.tasks));
    ASSERT_EQ(job.run_count, 0);
    make_room(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(job.done_count, 1);
    task_fix_done(&fix);
}

TEST(a_writer_that_was_let_in_does_not_queue_again)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    task_fix_cold_rows(&fix, 1);
    work_start(&fix, &work, TASK_WRITES, work_put_and_get, "a");
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.task.state, TASK_LOADING);
    fill_up(&fix);
    task_fix_load(&fix);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    task_fix_done(&fix);
}

enum { MANY = 60 };

/* One commit of many: a row of its own each, and the next one in a later turn. */
static enum rc work_put_many(struct work *work, struct store *store, struct err *err)
{
    char key[16];
    snprintf(key, sizeof key, "m%d", work->run_count);
    work->key = key;
    enum rc rc = work_put(work, store, err);
    return rc != RC_OK || work->run_count == MANY ? rc : RC_WAIT;
}

static uint64_t dirty_bytes(const struct task_fix *fix)
{
    struct store_stats stats;
    store_stats(fix->store, &stats);
    return stats.dirty_bytes;
}

TEST(a_task_of_many_commits_finds_room_before_each)
{
    static const unsigned flags[] = {
        TASK_WRITES, TASK_WRITES | TASK_DELETES, 0, TASK_JOB | TASK_WRITES, TASK_JOB | TASK_DELETES,
        TASK_JOB};
    enum { HOT_BYTES = 64 * 1024, VALUE_BYTES = 2000 };
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct task_fix fix;
        struct work work = {.value_bytes = VALUE_BYTES};
        uint64_t dirty_bytes_max = (uint64_t)HOT_BYTES / 10 * (flags[i] & TASK_DELETES ? 9 : 7);
        task_fix_init_with(&fix, HOT_BYTES, DURABILITY_EVERYSEC);
        work_start(&fix, &work, flags[i], work_put_many, NULL);
        for (int turns = 0; work.done_count == 0; turns++) {
            int ran = work.run_count;
            bool room = store_room(fix.store) ||
                        (flags[i] & TASK_DELETES && store_room_to_delete(fix.store));
            bool more = tasks_turn(fix.tasks);
            ASSERT_LT(dirty_bytes(&fix), dirty_bytes_max);
            ASSERT_LE(work.run_count, ran + room);
            if (work.run_count == ran) {
                ASSERT_FALSE(more); /* nobody is kept busy */
                make_room(&fix);
            }
            ASSERT_LT(turns, 3 * MANY);
        }
        ASSERT_RC(work.rc, RC_OK);
        ASSERT_EQ(work.run_count, MANY);
        task_fix_done(&fix);
    }
}

/* Changes once and then only waits: for its third run it needs no room any more. */
static enum rc work_put_wait_wait(struct work *work, struct store *store, struct err *err)
{
    if (work->run_count == 1) {
        enum rc rc = work_put(work, store, err);
        return rc == RC_OK ? RC_WAIT : rc;
    }
    return work->run_count < 5 ? RC_WAIT : RC_OK;
}

TEST(a_task_that_changed_nothing_keeps_its_place)
{
    struct task_fix fix;
    struct work work = {0};
    task_fix_init_with(&fix, 64 * 1024, DURABILITY_EVERYSEC);
    work_start(&fix, &work, TASK_WRITES, work_put_wait_wait, "a");
    tasks_turn(fix.tasks);
    tasks_turn(fix.tasks);
    ASSERT_EQ(work.run_count, 2);
    fill_up(&fix);
    for (int i = 0; i < 4; i++)
        tasks_turn(fix.tasks);
    ASSERT_EQ(work.done_count, 1);
    task_fix_done(&fix);
}

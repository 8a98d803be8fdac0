// SPDX-License-Identifier: Apache-2.0
/* task_fix.c - tasks over a store in memory, for unit tests. */
#include "support/task_fix.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

const struct store_space task_fix_spaces[2] = {
    {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
};

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static struct store_group meta(const struct task_fix *fix, const char *key)
{
    return (struct store_group){fix->meta, text(key)};
}

static struct store_group data(const struct task_fix *fix, const char *key)
{
    return (struct store_group){fix->data, text(key)};
}

void task_fix_open(struct task_fix *fix, size_t hot_bytes, enum durability durability)
{
    struct store_options options = {.dir = "db",
                                    .spaces = task_fix_spaces,
                                    .space_count = ARRAY_LEN(task_fix_spaces),
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = hot_bytes,
                                    .segment_bytes = 4096,
                                    .flush_unit_bytes = 1 << 20,
                                    .disk_reserve_bytes = 0,
                                    .durability = durability,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, META, BYTES("m"), &fix->meta, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, DATA, BYTES("d"), &fix->data, &fix->err), &fix->err);
    fix->tasks = tasks_new(&(struct tasks_options){
        .store = fix->store, .clock = &fix->clock, .durability = durability});
}

void task_fix_init_with(struct task_fix *fix, size_t hot_bytes, enum durability durability)
{
    *fix = (struct task_fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    task_fix_open(fix, hot_bytes, durability);
}

void task_fix_init(struct task_fix *fix)
{
    task_fix_init_with(fix, 1 << 20, DURABILITY_EVERYSEC);
}

void task_fix_close(struct task_fix *fix)
{
    tasks_free(fix->tasks);
    ASSERT_OK(store_close(fix->store, &fix->err), &fix->err);
}

void task_fix_done(struct task_fix *fix)
{
    task_fix_close(fix);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
}

void task_fix_flush(struct task_fix *fix)
{
    uint64_t segment = store_flush_ask(fix->store);
    while (store_flush_mark(fix->store) < segment) {
        bool worked = store_step(fix->store, STORE_STEP_JOURNAL);
        worked = store_step(fix->store, STORE_STEP_FLUSH) || worked;
        store_poll(fix->store);
        ASSERT_TRUE(worked);
    }
}

/* Everything so far is in the engine only. */
void task_fix_cool(struct task_fix *fix)
{
    task_fix_flush(fix);
    store_evict_all(fix->store);
}

void task_fix_load(struct task_fix *fix)
{
    while (store_step(fix->store, STORE_STEP_LOAD))
        continue;
}

/* ---- works ---- */

static enum rc work_run(struct task *task, struct store *store, struct err *err)
{
    struct work *work = (struct work *)task;
    work->run_count++;
    atomic_fetch_add(&work->fix->clock.mono_ns, work->cost_ns);
    enum rc rc = work->body(work, store, err);
    if (rc == RC_OK && work->fix->log_count < LOG_MAX)
        work->fix->log[work->fix->log_count++] = work->number;
    return rc;
}

void work_done(struct task *task, enum rc rc, const struct err *err)
{
    struct work *work = (struct work *)task;
    work->done_count++;
    work->rc = rc;
    snprintf(work->text, sizeof work->text, "%s", err->text);
}

enum rc work_nothing(struct work *work, struct store *store, struct err *err)
{
    (void)work, (void)store, (void)err;
    return RC_OK;
}

enum rc work_put(struct work *work, struct store *store, struct err *err)
{
    static const uint8_t zeros[1 << 20];
    struct bytes value = work->value_bytes ? bytes_of(zeros, work->value_bytes) : text(work->key);
    work->lsn = store_lsn(store);
    return store_put(store, data(work->fix, "h"), text(work->key), value, err);
}

enum rc work_delete(struct work *work, struct store *store, struct err *err)
{
    return store_delete(store, data(work->fix, "h"), text(work->key), err);
}

enum rc work_put_and_fail(struct work *work, struct store *store, struct err *err)
{
    enum rc rc = work_put(work, store, err);
    return rc == RC_OK ? err_set(err, RC_INVALID, "on purpose") : rc;
}

enum rc work_get(struct work *work, struct store *store, struct err *err)
{
    struct bytes value;
    enum rc rc = store_get(store, data(work->fix, "h"), text(work->key), &value, err);
    if (rc == RC_OK)
        snprintf(work->value, sizeof work->value, "%.*s", (int)value.len, (const char *)value.ptr);
    return rc;
}

/* Changes first and meets the cold row then. */
enum rc work_put_and_get(struct work *work, struct store *store, struct err *err)
{
    enum rc rc = store_put(store, meta(work->fix, "trace"), BYTES(""), BYTES("x"), err);
    return rc == RC_OK ? work_get(work, store, err) : rc;
}

enum rc work_put_wait_event(struct work *work, struct store *store, struct err *err)
{
    if (work->run_count > 1)
        return RC_OK;
    task_wait_event(&work->task);
    enum rc rc = work_put(work, store, err);
    return rc == RC_OK ? RC_WAIT : rc;
}

enum rc work_wake_other(struct work *work, struct store *store, struct err *err)
{
    (void)store, (void)err;
    task_wake(&work->other->task);
    return RC_OK;
}

struct work *work_start(struct task_fix *fix, struct work *work, unsigned flags,
                        enum rc (*body)(struct work *, struct store *, struct err *),
                        const char *key)
{
    work->task.run = work_run;
    work->task.done = work_done;
    work->task.flags = flags;
    work->fix = fix;
    work->body = body;
    work->key = key;
    task_start(fix->tasks, &work->task);
    return work;
}

/* Puts rows by tasks and makes them cold. */
void task_fix_cold_rows(struct task_fix *fix, int count)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    for (int i = 0; i < count; i++) {
        struct work work = {0};
        work_start(fix, &work, TASK_WRITES, work_put, keys[i]);
        tasks_turn(fix->tasks);
        ASSERT_RC(work.rc, RC_OK);
        ASSERT_EQ(work.done_count, 1);
    }
    task_fix_cool(fix);
    fix->log_count = 0;
}

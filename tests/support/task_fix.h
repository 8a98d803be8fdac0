// SPDX-License-Identifier: Apache-2.0
/* task_fix.h - tasks over a store in memory without threads, and tasks that tell what happened to
 * them.
 *
 * Ownership: the test owns the fixture and the works.
 * Threads: the test's. */
#pragma once

#include "base/clock.h"
#include "base/file_sim.h"
#include "store/engine/engine_memory.h"
#include "store/task.h"

enum { META = 1, DATA = 2, LOG_MAX = 512 };

extern const struct store_space task_fix_spaces[2];

struct task_fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock;
    struct store *store;
    struct tasks *tasks;
    uint32_t meta, data;
    int log[LOG_MAX]; /* numbers of works in the order in which they were through */
    int log_count;
    struct err err;
};

/* A task that does what `body` says and remembers what happened to it. */
struct work {
    struct task task;
    struct task_fix *fix;
    enum rc (*body)(struct work *work, struct store *store, struct err *err);
    int number;
    const char *key;
    size_t value_bytes;
    uint64_t cost_ns;
    struct work *other;
    uint64_t lsn;
    int run_count;
    int done_count;
    enum rc rc;
    char text[ERR_TEXT_BYTES];
    char value[32];
};

void task_fix_open(struct task_fix *fix, size_t hot_bytes, enum durability durability);
void task_fix_init_with(struct task_fix *fix, size_t hot_bytes, enum durability durability);
void task_fix_init(struct task_fix *fix);
void task_fix_close(struct task_fix *fix);
void task_fix_done(struct task_fix *fix);
void task_fix_flush(struct task_fix *fix);
void task_fix_cool(struct task_fix *fix);
void task_fix_load(struct task_fix *fix);
void task_fix_cold_rows(struct task_fix *fix, int count);

/* Bodies. */
enum rc work_nothing(struct work *work, struct store *store, struct err *err);
enum rc work_put(struct work *work, struct store *store, struct err *err);
enum rc work_delete(struct work *work, struct store *store, struct err *err);
enum rc work_put_and_fail(struct work *work, struct store *store, struct err *err);
enum rc work_get(struct work *work, struct store *store, struct err *err);
enum rc work_put_and_get(struct work *work, struct store *store, struct err *err);
enum rc work_put_wait_event(struct work *work, struct store *store, struct err *err);
enum rc work_wake_other(struct work *work, struct store *store, struct err *err);

/* Fills in the task and starts it. */
struct work *work_start(struct task_fix *fix, struct work *work, unsigned flags,
                        enum rc (*body)(struct work *, struct store *, struct err *),
                        const char *key);
void work_done(struct task *task, enum rc rc, const struct err *err); /* a done() */

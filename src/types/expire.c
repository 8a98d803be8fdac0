// SPDX-License-Identifier: Apache-2.0
/* expire.c - the job that sweeps the expiry index.
 *
 * Invariants:
 *   (1) A step that changed rows ends the task with RC_OK, and done() starts the next one: what it
 *       told the hooks leaves when its turn is safe.
 *   (2) While the job sleeps no index row is due before wake_ms. */
#include "types/expire.h"

#include "base/codec.h"
#include "base/mem.h"
#include "types/garbage.h"
#include "types/key.h"

#include "base/banned.h"

enum {
    EXPIRE_STEP_ROWS = 32,
    EXPIRE_SLEEP_MS_MAX = 1000, /* the clock of deadlines may be set; the one that wakes is not */
    EXPIRE_WAIT_MS = 50,        /* for who says that a key must not go yet, and wakes the job */
    EXPIRE_RETRY_MS = 1000,     /* after an error: a journal that cannot be written, a full disk */
    NS_PER_MS = 1000 * 1000,
};

struct expire {
    struct task task;
    struct expire_options options;
    bool active;
    bool failed; /* the last step: the next one waits a little */
    bool asleep;
    uint64_t wake_ms;  /* while asleep */
    uint32_t ns_first; /* looked at first: a busy namespace does not keep the others waiting */
};

struct due_row {
    uint64_t time_ms;
    struct bytes name; /* in the run's arena */
};

struct due { /* what is over in one namespace, at most a step of it */
    struct due_row row[EXPIRE_STEP_ROWS];
    size_t count;
    uint64_t next_ms; /* the first deadline behind them; UINT64_MAX: none */
    bool waits;       /* the key of that deadline has to stay for a moment: key_guard.found() */
};

/* ---- one namespace ---- */

static enum rc due_add(struct due *due, const struct run *run, uint64_t time_ms, struct bytes name,
                       struct err *err)
{
    uint8_t *copy = arena_try_alloc(run->arena, name.len);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a key", name.len);
    if (name.len > 0)
        memcpy(copy, name.ptr, name.len);
    due->row[due->count++] = (struct due_row){time_ms, bytes_of(copy, name.len)};
    return RC_OK;
}

/* RC_NOT_FOUND at the end of the index. */
static enum rc due_next(struct store_walk *walk, uint64_t *ret_time_ms, struct bytes *ret_name,
                        struct err *err)
{
    struct bytes suffix, value;
    enum rc rc = store_walk_next(walk, &suffix, &value, err);
    if (rc != RC_OK)
        return rc;
    if (suffix.len < KEY_DEADLINE_BYTES)
        return err_set(err, RC_CORRUPT, "an expiry row has a key of %zu bytes", suffix.len);
    *ret_time_ms = be64_get(suffix.ptr);
    *ret_name = bytes_from(suffix, KEY_DEADLINE_BYTES);
    return RC_OK;
}

static enum rc due_read(const struct run *run, struct due *ret_due, struct err *err)
{
    const struct ns *ns = run->ns;
    struct kv *kv = run->kv;
    CLEANUP(store_walk_done) struct store_walk walk;
    uint8_t mark[KEY_DEADLINE_BYTES];
    be64_put(mark, (uint64_t)store_counter_get(kv->store, ns->sweep_ms));
    store_walk_init(&walk, kv->store, key_index(ns), false);
    ret_due->count = 0;
    ret_due->next_ms = UINT64_MAX;
    enum rc rc = store_walk_seek(&walk, bytes_of(mark, sizeof mark), err);
    while (rc == RC_OK) {
        uint64_t time_ms;
        struct bytes name;
        rc = due_next(&walk, &time_ms, &name, err);
        if (rc != RC_OK)
            break;
        if (time_ms > run->now_ms || ret_due->count == EXPIRE_STEP_ROWS) {
            ret_due->next_ms = time_ms;
            return RC_OK;
        }
        rc = due_add(ret_due, run, time_ms, name, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* All cold keys are asked for before the first is removed. */
static enum rc due_warm(const struct run *run, const struct due *due, struct err *err)
{
    enum rc cold = RC_OK;
    for (size_t i = 0; i < due->count; i++) {
        enum rc rc = key_sweep_look(run, due->row[i].name, err);
        if (rc == RC_COLD)
            cold = rc;
        else if (rc != RC_OK)
            return rc;
    }
    return cold;
}

/* Everything before the next deadline has been seen. */
static enum rc mark_raise(const struct run *run, const struct due *due, struct err *err)
{
    const struct ns *ns = run->ns;
    struct kv *kv = run->kv;
    uint64_t mark = due->next_ms < run->now_ms ? due->next_ms : run->now_ms;
    int64_t delta = (int64_t)mark - store_counter_get(kv->store, ns->sweep_ms);
    return delta > 0 ? store_counter_add(kv->store, ns->sweep_ms, delta, err) : RC_OK;
}

static enum rc ns_sweep(const struct run *run, struct due *ret_due, struct err *err)
{
    enum rc rc = due_read(run, ret_due, err);
    if (rc == RC_OK)
        rc = due_warm(run, ret_due, err);
    for (size_t i = 0; rc == RC_OK && i < ret_due->count; i++) {
        const struct due_row *row = &ret_due->row[i];
        rc = key_sweep(run, row->name, row->time_ms, err);
        if (rc != RC_WAIT)
            continue;
        rc = RC_OK;
        ret_due->waits = true;
        ret_due->next_ms = row->time_ms;
        ret_due->count = i;
    }
    if (rc == RC_OK && ret_due->count > 0)
        rc = mark_raise(run, ret_due, err);
    return rc;
}

/* ---- the job ---- */

static void sleep_until(struct expire *expire, uint64_t now_ms, uint64_t wake_ms)
{
    const struct kv *kv = expire->options.kv;
    uint64_t latest_ms = now_ms + EXPIRE_SLEEP_MS_MAX;
    expire->wake_ms = wake_ms < latest_ms ? wake_ms : latest_ms;
    expire->asleep = true;
    task_wait_until(&expire->task,
                    clock_mono_ns(kv->clock) + (expire->wake_ms - now_ms) * NS_PER_MS);
}

/* A step of one namespace that has anything to do. RC_WAIT: none has. */
static enum rc step(struct expire *expire, const struct run *run, struct err *err)
{
    struct kv *kv = run->kv;
    uint64_t next_ms = UINT64_MAX;
    if (expire->failed || !expire->active) {
        expire->failed = false;
        sleep_until(expire, run->now_ms, run->now_ms + EXPIRE_RETRY_MS);
        return RC_WAIT;
    }
    for (size_t n = 0; n < kv->ns_count; n++) {
        uint32_t index = (uint32_t)(expire->ns_first % kv->ns_count);
        struct run one = run_with(run, kv_ns(kv, index), 0);
        struct due due = {.next_ms = UINT64_MAX};
        size_t garbage_count = 0;
        enum rc rc = one.ns ? ns_sweep(&one, &due, err) : RC_OK;
        if (one.ns && rc == RC_OK && due.count == 0)
            rc = garbage_sweep(one.ns, &garbage_count, err);
        if (rc != RC_COLD)
            expire->ns_first = index + 1;
        if (rc != RC_OK || due.count + garbage_count > 0)
            return rc;
        if (due.waits)
            due.next_ms = run->now_ms + EXPIRE_WAIT_MS;
        if (due.next_ms < next_ms)
            next_ms = due.next_ms;
    }
    sleep_until(expire, run->now_ms, next_ms);
    return RC_WAIT;
}

static enum rc job_run(struct task *task, struct store *store, struct err *err)
{
    struct expire *expire = (struct expire *)task;
    (void)store;
    expire->asleep = false;
    struct run run;
    run_begin(&run, expire->options.kv, NULL, RUN_NO_LIFT);
    return run_end(&run, step(expire, &run, err));
}

static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    struct expire *expire = (struct expire *)task;
    const struct expire_options *options = &expire->options;
    (void)err; /* the journal says what is wrong with it, loads count their failures */
    expire->asleep = false;
    expire->failed = rc != RC_OK;
    if (expire->failed)
        expire->ns_first++; /* what cannot be read in one namespace does not stop the others */
    if (options->safe)
        options->safe(options->arg, rc);
    task_start(options->tasks, task);
}

struct expire *expire_new(const struct expire_options *options)
{
    struct expire *expire = mem_zalloc(sizeof *expire);
    expire->options = *options;
    expire->active = true;
    expire->task.run = job_run;
    expire->task.done = job_done;
    expire->task.flags = TASK_JOB | TASK_WRITES | TASK_DELETES;
    options->kv->expire = expire;
    task_start(options->tasks, &expire->task);
    return expire;
}

void expire_free(struct expire *expire)
{
    if (!expire)
        return;
    task_cancel(&expire->task);
    expire->options.kv->expire = NULL;
    mem_free(expire);
}

static void wake(struct expire *expire)
{
    if (!expire->asleep)
        return;
    expire->asleep = false;
    task_cancel(&expire->task);
    task_start(expire->options.tasks, &expire->task);
}

void expire_active_set(struct expire *expire, bool active)
{
    expire->active = active;
    wake(expire);
}

void expire_deadline_set(struct expire *expire, uint64_t expire_ms)
{
    if (expire_ms < expire->wake_ms)
        wake(expire);
}

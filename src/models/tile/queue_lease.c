// SPDX-License-Identifier: Apache-2.0
/* queue_lease.c - the job that gives tasks back whose lease is over.
 *
 * Invariants:
 *   (1) A step that changed rows ends the task with RC_OK, and done() starts the next one: what it
 *       told the hooks leaves when its turn is safe. */
#include "models/tile/queue_lease.h"

#include "base/mem.h"
#include "models/tile/queue.h"
#include "models/tile/tile_int.h"

#include "base/banned.h"

enum {
    LEASE_STEP_TASKS = 32,
    LEASE_SLEEP_MS = 1000, /* the clock of leases may be set; the one that wakes is not */
    NS_PER_MS = 1000 * 1000,
};

struct queue_lease {
    struct task task;
    struct tiles *tiles;
    size_t type_first; /* looked at first: a busy type does not keep the others waiting */
    bool failed;       /* the last step: the next one waits */
    bool asleep;
    int64_t wake_ms; /* while asleep */
};

static void sleep_until(struct queue_lease *lease, const struct run *run, int64_t next_ms)
{
    int64_t now_ms = (int64_t)run->now_ms, latest_ms = now_ms + LEASE_SLEEP_MS;
    int64_t wake_ms = next_ms < latest_ms ? next_ms : latest_ms;
    uint64_t wait_ms = wake_ms > now_ms ? (uint64_t)(wake_ms - now_ms) : 0;
    lease->wake_ms = wake_ms;
    lease->asleep = true;
    task_wait_until(&lease->task, clock_mono_ns(run->kv->clock) + wait_ms * NS_PER_MS);
}

static size_t type_count(const struct tiles *tiles)
{
    size_t count = 0;
    while (tiles_type_at(tiles, count))
        count++;
    return count;
}

/* A step of one type that has anything to do. RC_WAIT: none has. */
static enum rc step(struct queue_lease *lease, const struct run *run, struct err *err)
{
    struct tiles *tiles = lease->tiles;
    size_t count = type_count(tiles);
    int64_t next_ms = INT64_MAX;
    for (size_t n = 0; n < count && !lease->failed; n++) {
        size_t index = lease->type_first % count, released = 0;
        struct tile_type *type = tiles_type_at(tiles, index);
        struct run one = run_with(run, kv_ns(run->kv, tile_type_db(type)), 0);
        struct queue queue = {&one, tiles, type};
        int64_t type_next_ms = INT64_MAX;
        enum rc rc =
            one.ns ? queue_release(&queue, LEASE_STEP_TASKS, &released, &type_next_ms, err) : RC_OK;
        if (rc != RC_COLD)
            lease->type_first = index + 1;
        if (rc != RC_OK || released > 0)
            return rc;
        next_ms = type_next_ms < next_ms ? type_next_ms : next_ms;
    }
    lease->failed = false;
    sleep_until(lease, run, next_ms);
    return RC_WAIT;
}

static enum rc job_run(struct task *task, struct store *store, struct err *err)
{
    struct queue_lease *lease = (struct queue_lease *)task;
    (void)store;
    lease->asleep = false;
    struct run run;
    run_begin(&run, lease->tiles->kv, NULL, RUN_NO_LIFT);
    return run_end(&run, step(lease, &run, err));
}

/* An error (keys of the queue that were made something else by hand, a journal that cannot be
 * written) is tried again in a second; who asks with TASK.* is told what is wrong. */
static void job_done(struct task *task, enum rc rc, const struct err *err)
{
    struct queue_lease *lease = (struct queue_lease *)task;
    (void)err;
    lease->asleep = false;
    lease->failed = rc != RC_OK;
    task_start(lease->tiles->options.tasks, task);
}

void queue_lease_start(struct tiles *tiles)
{
    struct queue_lease *lease = tiles->lease = mem_zalloc(sizeof *lease);
    lease->tiles = tiles;
    lease->task.run = job_run;
    lease->task.done = job_done;
    lease->task.flags = TASK_JOB | TASK_WRITES | TASK_DELETES;
    task_start(tiles->options.tasks, &lease->task);
}

void queue_lease_end(struct tiles *tiles)
{
    if (tiles->lease)
        task_cancel(&tiles->lease->task);
    mem_free(tiles->lease);
    tiles->lease = NULL;
}

void queue_lease_deadline_set(struct tiles *tiles, int64_t lease_ms)
{
    struct queue_lease *lease = tiles->lease;
    if (!lease->asleep || lease_ms >= lease->wake_ms)
        return;
    lease->asleep = false;
    task_cancel(&lease->task);
    task_start(lease->tiles->options.tasks, &lease->task);
}

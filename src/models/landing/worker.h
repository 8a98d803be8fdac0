// SPDX-License-Identifier: Apache-2.0
/* worker.h - a thread with a database: work goes in, and is done.
 *
 *   work->run = lift_query; work->task = &lift->task;
 *   worker_give(worker, work);              the task waits: task_wait_event()
 *   ... run() is called on the worker's thread, the task is posted ...
 *   if (work_is_done(worker, work)) ...     on the executor again
 *
 * Ownership: work is embedded by its owner and must live until it is done, or the worker has ended.
 * Threads: worker_*() and work_is_done() on the executor; run() on the worker's. */
#pragma once

#include "base/dlist.h"
#include "models/landing/shape.h"
#include "store/task.h"

struct worker; /* defined in models/landing/worker.c */

struct work {
    void (*run)(struct work *work, struct shape_db *db);
    struct task *task; /* posted when it is done */
    bool done;         /* shared: under the worker's lock */
    struct dlink link; /* for worker.c */
};

/* RC_INVALID: the URL or the password file of the rule. Borrows the rule, and the identity of its
 * database. */
enum rc worker_new(const struct rule_spec *spec, struct identity *identity,
                   struct worker **ret_worker, struct err *err) NODISCARD;
/* Ends what runs, as soon as its database lets go of it, and drops what waits: that is never done.
 * No task is posted any more. Does not wait. */
void worker_stop(struct worker *worker);
bool worker_has_ended(struct worker *worker); /* then worker_free() does not wait either */
void worker_free(struct worker *worker);      /* stops it, waits for it. NULL is allowed */
void worker_give(struct worker *worker, struct work *work);
bool work_is_done(struct worker *worker, const struct work *work);
const char *worker_name(const struct worker *worker); /* of its database, for people */

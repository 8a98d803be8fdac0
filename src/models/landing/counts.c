// SPDX-License-Identifier: Apache-2.0
/* counts.c - how many entries the dirty tables hold, for who cannot read the store.
 *
 * /metrics and INFO are answered outside commits and cannot wait for something cold. A job reads
 * the counts once a second while there are rules; counting along with the marks would drift, since
 * a mark may replace another, and a command that is undone has marked nothing. */
#include "base/mem.h"
#include "models/landing/landing_int.h"

#include "base/banned.h"

#define WATCH_NS UINT64_C(1000000000)

struct land_counter {
    struct task task;
    struct landing *landing;
    struct land_count *count, *next; /* those that are shown, those that are being read */
    size_t count_count, cap;
    bool failed;
};

/* Rules of one database share its tables: the first that has the table stands for all. */
static bool is_another_s(const struct landing *landing, const struct land_rule *rule,
                         uint32_t table)
{
    for (const struct land_rule *at = landing->rules; at != rule; at = at->next)
        if (at->ns == rule->ns && table < at->spec->tables)
            return true;
    return false;
}

static void room_make(struct land_counter *counter)
{
    size_t wanted = 0;
    for (const struct land_rule *rule = counter->landing->rules; rule; rule = rule->next)
        wanted += rule->spec->tables;
    if (wanted <= counter->cap)
        return;
    counter->count = mem_realloc(counter->count, wanted * sizeof *counter->count);
    counter->next = mem_realloc(counter->next, wanted * sizeof *counter->next);
    counter->cap = wanted;
}

static enum rc counts_read(struct land_counter *counter, const struct run *run, struct err *err)
{
    struct landing *landing = counter->landing;
    size_t count = 0;
    room_make(counter);
    for (const struct land_rule *rule = landing->rules; rule; rule = rule->next) {
        for (uint32_t n = 0; n < rule->spec->tables; n++) {
            struct land_count *to = &counter->next[count];
            if (is_another_s(landing, rule, n))
                continue;
            *to = (struct land_count){.db = rule->spec->db, .table = n};
            enum rc rc =
                land_rule_backlog(rule, run, n, &to->marked, &to->saving, &to->errors, err);
            if (rc != RC_OK)
                return rc;
            count++;
        }
    }
    struct land_count *shown = counter->count;
    counter->count = counter->next;
    counter->next = shown;
    counter->count_count = count;
    return RC_OK;
}

static enum rc counter_run(struct task *task, struct store *store, struct err *err)
{
    struct land_counter *counter = (struct land_counter *)task;
    struct landing *landing = counter->landing;
    (void)store;
    if (!landing->rules) {
        counter->count_count = 0;
        return RC_OK;
    }
    struct run run;
    run_begin(&run, landing->kv, NULL, RUN_NO_LIFT);
    enum rc rc = counter->failed ? RC_OK : counts_read(counter, &run, err);
    counter->failed = false;
    if (rc != RC_COLD) { /* what cannot be read now is tried again */
        task_wait_until(task, clock_mono_ns(landing->options.clock) + WATCH_NS);
        rc = RC_WAIT;
    }
    return run_end(&run, rc);
}

/* There is no rule, and the next one starts it again; or a load failed. */
static void counter_done(struct task *task, enum rc rc, const struct err *err)
{
    struct land_counter *counter = (struct land_counter *)task;
    (void)err;
    counter->failed = rc != RC_OK;
    if (counter->landing->rules)
        task_start(counter->landing->options.tasks, task);
}

void counter_start(struct landing *landing)
{
    struct land_counter *counter = landing->counter;
    if (!counter) {
        counter = landing->counter = mem_zalloc(sizeof *counter);
        counter->landing = landing;
        counter->task.run = counter_run;
        counter->task.done = counter_done;
        counter->task.flags = TASK_JOB;
    }
    if (counter->task.state == TASK_IDLE)
        task_start(landing->options.tasks, &counter->task);
}

void counter_end(struct landing *landing)
{
    struct land_counter *counter = landing->counter;
    if (!counter)
        return;
    task_cancel(&counter->task);
    mem_free(counter->count);
    mem_free(counter->next);
    mem_free(counter);
    landing->counter = NULL;
}

const struct land_count *landing_counts(const struct landing *landing, size_t *ret_count)
{
    *ret_count = landing->counter ? landing->counter->count_count : 0;
    return landing->counter ? landing->counter->count : NULL;
}

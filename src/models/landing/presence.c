// SPDX-License-Identifier: Apache-2.0
/* presence.c - whether the database of a rule is there: a copy leaves only after it has answered.
 *
 * A mark that has left says that SQL has the row, and the rule's passes notice a database that is
 * gone. A copy may go long before the next pass. So whoever drops a copy needs an answer of the
 * database that was asked for after the copy's time was over: a greeting, a lift, or a ping of the
 * lifter, which is asked here.
 *
 * Invariants:
 *   (1) `answered_ns` is when a question was asked that has been answered, never when the answer
 *       came: the database was there then, or later.
 *   (2) A rule has at most one ping under way. */
#include "models/landing/landing_int.h"
#include "types/expire.h"

#include "base/banned.h"

enum {
    PING_PATIENCE_MS = 200, /* the sweep waits so long for an answer; then the copy outlives it */
    PING_AGAIN_MS = 1000,   /* after one that failed */
};
#define NS_A_MS UINT64_C(1000000)

static uint64_t now_ns(const struct land_rule *rule)
{
    return clock_mono_ns(rule->landing->options.clock);
}

static void work_ping(struct work *work, struct shape_db *db)
{
    struct presence *presence = (struct presence *)((char *)work - offsetof(struct presence, work));
    presence->err.text[0] = 0;
    presence->rc = shape_ping(db, &presence->err);
}

static enum rc ping_run(struct task *task, struct store *store, struct err *err)
{
    struct presence *presence = (struct presence *)task;
    (void)store;
    (void)err;
    if (work_is_done(presence->rule->lifter, &presence->work))
        return RC_OK;
    task_wait_event(task);
    return RC_WAIT;
}

/* The sweep and commands may wait for it. */
static void ping_done(struct task *task, enum rc rc, const struct err *err)
{
    struct presence *presence = (struct presence *)task;
    struct land_rule *rule = presence->rule;
    struct landing *landing = rule->landing;
    (void)rc;
    (void)err;
    presence->is_asked = false;
    presence->failed_ns = presence->rc == RC_OK ? 0 : presence->asked_ns;
    presence->failed_err = presence->err;
    if (presence->rc == RC_OK)
        presence_answered(rule, presence->asked_ns);
    landing__waiters_wake(&landing->pass_waiters);
    if (landing->kv->expire)
        expire_deadline_set(landing->kv->expire, 0);
}

void presence_init(struct land_rule *rule)
{
    struct presence *presence = &rule->presence;
    presence->rule = rule;
    presence->task.run = ping_run;
    presence->task.done = ping_done;
    presence->task.flags = TASK_JOB;
    presence->work.run = work_ping;
    presence->work.task = &presence->task;
}

void presence_end(struct land_rule *rule)
{
    if (rule->presence.is_asked)
        task_cancel(&rule->presence.task);
    rule->presence.is_asked = false;
}

void presence_answered(struct land_rule *rule, uint64_t asked_ns)
{
    if (asked_ns > rule->presence.answered_ns)
        rule->presence.answered_ns = asked_ns;
}

/* (2) */
static void ping_ask(struct land_rule *rule)
{
    struct presence *presence = &rule->presence;
    if (presence->is_asked)
        return;
    presence->is_asked = true;
    presence->asked_ns = now_ns(rule);
    task_start(rule->landing->options.tasks, &presence->task); /* first: the thread wakes it */
    worker_give(rule->lifter, &presence->work);
}

/* When the deadline was, by the clock that only goes on. */
static uint64_t deadline_ns(const struct land_rule *rule, uint64_t now_ms, uint64_t expire_ms)
{
    uint64_t over_ms = now_ms - expire_ms, now = now_ns(rule);
    return over_ms < now / NS_A_MS ? now - over_ms * NS_A_MS : 0;
}

bool presence_since_deadline(const struct land_rule *rule, const struct run *run,
                             uint64_t expire_ms)
{
    uint64_t answered_ns = rule->presence.answered_ns;
    return answered_ns > 0 && answered_ns >= deadline_ns(rule, run->now_ms, expire_ms);
}

bool presence_is_near(struct land_rule *rule)
{
    const struct presence *presence = &rule->presence;
    uint64_t now = now_ns(rule);
    if (presence->is_asked)
        return now - presence->asked_ns < PING_PATIENCE_MS * NS_A_MS;
    if (presence->failed_ns > 0 && now - presence->failed_ns < PING_AGAIN_MS * NS_A_MS)
        return false;
    ping_ask(rule);
    return true;
}

enum rc land_rule_presence(struct land_rule *rule, uint64_t since_ns, struct err *err)
{
    const struct presence *presence = &rule->presence;
    struct err why = {0};
    if (presence->answered_ns >= since_ns) { /* but it may be another database than it was */
        bool is_lost = identity_is_lost(&rule->identity, &why);
        return is_lost ? err_set(err, RC_IO, "%s", why.text) : RC_OK;
    }
    if (presence->failed_ns >= since_ns)
        return err_set(err, RC_IO, "%s", presence->failed_err.text);
    ping_ask(rule);
    return RC_WAIT;
}

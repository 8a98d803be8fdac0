// SPDX-License-Identifier: Apache-2.0
/* sinks.c - what the store remembers of the databases that rules have landed in: identity.h.
 *
 * The hash slug-persist:{sinks} of a rule's database: rule → identity. Invariants:
 *   (1) A mark leaves, and a row is lifted, in a commit after which the identity is remembered. So
 *       a rule whose changes are in SQL only never takes another database for its own.
 *   (2) It is remembered until the rule is deleted, or somebody says that the database is gone.
 * A kill after a database was given its identity and before (1): the next start reads it there. */
#include "base/mem.h"
#include "models/landing/landing_int.h"
#include "types/hash.h"

#include "base/banned.h"

static struct bytes name_of(const struct land_rule *rule)
{
    return bytes_of(rule->spec->name, strlen(rule->spec->name));
}

static enum rc row_get(const struct land_rule *rule, const struct run *own, struct bytes *ret_value,
                       struct err *err)
{
    return hash_get(own, BYTES(LAND_SINKS_KEY), name_of(rule), ret_value, err);
}

/* A rule that a command made, perhaps in a build that kept paths as they were given, is stored with
 * the path that was opened. */
enum rc landing__sink_note(struct land_rule *rule, const struct run *run, struct err *err)
{
    char text[IDENTITY_DIGITS + 1];
    struct bytes value;
    if (rule->sink_is_noted)
        return RC_OK;
    identity_get(&rule->identity, text);
    struct bytes ours = bytes_of(text, strlen(text));
    if (ours.len == 0)
        return RC_OK;
    const struct run own = landing__rule_run(rule, run);
    enum rc rc = row_get(rule, &own, &value, err);
    if (rc == RC_OK && bytes_eq(value, ours)) { /* only what was read: a put may be taken back */
        rule->sink_is_noted = true;
        return RC_OK;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    const struct bytes pair[2] = {name_of(rule), ours};
    rc = hash_set(&own, BYTES(LAND_SINKS_KEY), pair, 1, NULL, err);
    if (rc == RC_OK && !rule->from_config)
        rc = landing__rule_restore(rule, run, err);
    return rc;
}

enum rc landing__sink_forget(struct land_rule *rule, const struct run *run, struct err *err)
{
    const struct run own = landing__rule_run(rule, run);
    const struct bytes name = name_of(rule);
    enum rc rc = hash_delete(&own, BYTES(LAND_SINKS_KEY), &name, 1, NULL, err);
    if (rc == RC_OK)
        rule->sink_is_noted = false;
    return rc;
}

bool land_rule_is_missing(const struct land_rule *rule)
{
    return identity_is_lost(&rule->identity, NULL);
}

enum rc land_rule_sink_new(struct land_rule *rule, const struct run *run, struct err *err)
{
    enum rc rc = landing__sink_forget(rule, run, err);
    if (rc != RC_OK)
        return rc;
    identity_set(&rule->identity, BYTES(""));
    lifts_forget_absence(rule->landing);
    lander_kick(rule->lander, UINT64_MAX, 0);
    return RC_OK;
}

/* ---- at the start ---- */

struct sinks_job {
    struct land_start start;
    struct landing *landing;
};

static enum rc sinks_read(const struct landing *landing, const struct run *run, struct err *err)
{
    for (struct land_rule *rule = landing->rules; rule; rule = rule->next) {
        const struct run own = landing__rule_run(rule, run);
        struct bytes value;
        enum rc rc = row_get(rule, &own, &value, err);
        if (rc == RC_WRONGTYPE) /* it is refused, and named: settle.c */
            continue;
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        identity_set(&rule->identity, rc == RC_OK ? value : BYTES(""));
        rule->sink_is_noted = rc == RC_OK;
        rc = rule->is_rewritten ? landing__rule_restore(rule, run, err) : RC_OK;
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc sinks_run(struct task *task, struct store *store, struct err *err)
{
    const struct landing *landing = ((struct sinks_job *)task)->landing;
    struct run run;
    (void)store;
    run_begin(&run, landing->kv, NULL, RUN_NO_LIFT);
    return run_end(&run, sinks_read(landing, &run, err));
}

enum rc landing__sinks_load(struct landing *landing, struct err *err)
{
    struct sinks_job job = {.landing = landing};
    job.start.task.run = sinks_run;
    job.start.task.flags = TASK_JOB | TASK_DELETES; /* as settle.c */
    return landing__start_run(landing, &job.start, err);
}

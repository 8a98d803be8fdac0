// SPDX-License-Identifier: Apache-2.0
/* adding.c - LAND.RULE ADD: a rule on its way to be in force.
 *
 *   ask its database ──► settle its entries, step by step ──► store it, and it is in force
 *
 * The rule has its threads from the start, and belongs to nobody else until its last step. If the
 * client goes away meanwhile the rule leaves as one that was deleted: nobody waits for a thread
 * that waits for a database. */
#include "base/mem.h"
#include "models/landing/landing_int.h"
#include "models/landing/place.h"

#include "base/banned.h"

struct land_adding {
    struct landing *landing;
    struct land_rule *rule; /* NULL: it is in force */
    struct land_settle *settle;
    bool asked;
};

static void work_ping(struct work *work, struct shape_db *db)
{
    struct land_rule *rule = (struct land_rule *)((char *)work - offsetof(struct land_rule, ping));
    rule->ping_rc = shape_ping(db, &rule->ping_err);
}

enum rc land_adding_new(struct landing *landing, struct rule_spec *spec,
                        struct land_adding **ret_adding, struct err *err)
{
    struct land_rule *rule;
    if (landing->settle) {
        rule_free(spec);
        return err_set(err, RC_BUSY, "another rule is being added: try again");
    }
    const struct place_limits limits = {.data_dir = landing->dir,
                                        .land_dir = landing->land_dir,
                                        .remote = landing->options.land_remote};
    enum rc rc = place_resolve(landing->dir, spec, err);
    if (rc == RC_OK)
        rc = place_check_client(&limits, spec, err);
    if (rc != RC_OK) {
        rule_free(spec);
        return rc;
    }
    rc = landing__rule_new(landing, spec, false, &rule, err);
    if (rc != RC_OK)
        return rc;
    struct land_adding *adding = mem_zalloc(sizeof *adding);
    adding->landing = landing;
    adding->rule = rule;
    adding->settle = land_settle_new(landing);
    *ret_adding = adding;
    return RC_OK;
}

void land_adding_free(void *arg)
{
    struct land_adding *adding = arg;
    if (!adding)
        return;
    land_settle_free(adding->settle);
    if (adding->rule)
        landing__rule_leave(adding->rule);
    mem_free(adding);
}

enum rc land_adding_step(struct land_adding *adding, const struct run *run, struct task *task,
                         struct err *err)
{
    struct land_rule *rule = adding->rule;
    if (!adding->asked) {
        adding->asked = true;
        rule->ping.run = work_ping;
        rule->ping.task = task;
        worker_give(rule->lifter, &rule->ping);
    }
    if (!work_is_done(rule->lifter, &rule->ping)) {
        task_wait_event(task);
        return RC_WAIT;
    }
    if (rule->ping_rc != RC_OK)
        return err_set(err, RC_REPLY, "LANDDOWN the rule is not made: %s", rule->ping_err.text);
    enum rc rc = land_settle_step(adding->settle, run, rule, err);
    if (rc == RC_OK)
        rc = landing_rule_store(rule, run, err);
    if (rc == RC_OK)
        rc = landing__sink_note(rule, run, err);
    if (rc != RC_OK)
        return rc;
    lander_greeted(rule->lander);
    landing__rule_begin(rule);
    adding->rule = NULL;
    return RC_OK;
}

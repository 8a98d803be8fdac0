// SPDX-License-Identifier: Apache-2.0
/* lander_int.h - what lander.c and lander_read.c share: a rule's lander. */
#pragma once

#include "models/landing/landing_int.h"

enum { MANY_MARKS_BATCHES = 10 }; /* so many marks do not wait for the delay */

enum lander_state {
    LANDER_SLEEP,
    LANDER_GREET,
    LANDER_LOCK,
    LANDER_RETRY,
    LANDER_SNAPSHOT,
    LANDER_READ,
    LANDER_DURABLE,
    LANDER_WORK,
    LANDER_NOTE,
    LANDER_UNLOCK,
};

struct retry {        /* of refused entries of a table */
    uint64_t due_ms;  /* none is due before; 0: not known. Entries are looked at no sooner */
    uint64_t next_ms; /* the same, of those that were looked at so far */
    struct buf after; /* the last of these; a pass that marked enough leaves the rest to the next */
};

_Static_assert(LAND_TABLES_MAX <= 64, "lander.locked_before has a bit for each");
struct lander {
    struct task task;
    struct task renew; /* keeps the lock while SQL works */
    struct work work;
    struct land_rule *rule;
    struct worker *worker;
    enum lander_state state;
    bool asleep, kicked;
    bool asked;   /* the database, in this pass */
    bool greeted; /* before the first pass, by who made the rule */
    bool renew_wanted, renew_started;
    uint64_t due_ns;
    uint32_t table;
    uint64_t locked_before; /* a bit a table */
    struct retry retry[LAND_TABLES_MAX];
    size_t retried; /* entries of the table, in this pass */
    /* the pass */
    uint64_t pass_lsn, pass_start_ns;
    uint64_t pass_rows;
    bool pass_failed;  /* the database is away */
    bool pass_held_up; /* something was left out: a table was locked by another */
    /* the table */
    enum dirty_part source;
    struct buf cursor;       /* the last entry that was looked at */
    bool table_too;          /* the snapshot is an old one, or holds entries of other rules */
    uint64_t newer_left;     /* marks that are newer than the pass and still taken from the table */
    uint64_t snapshots_seen; /* of the table, when the walk through it began */
    bool at_end;
    /* a large owner that is landed in several batches */
    bool expanding;
    uint64_t expand_version;
    struct buf expand_after;
    /* the batch */
    struct land_batch batch;
    size_t note_owner, note_field;
    enum rc work_rc;
    struct err work_err;
    struct shape_stats work_stats;
    uint64_t work_ns;
    uint64_t work_start_ns; /* when it was given */
    /* results */
    uint64_t landed_lsn, landed_start_ns; /* of the last pass that went through all tables */
    uint64_t back_off_ms;
    bool away;
    struct err trouble;
    struct land_status status;
};

static inline struct dirty_table lander__table(const struct lander *lander, const struct run *run)
{
    return land_rule_table(lander->rule, run, lander->table);
}
/* The next step, in a later turn. */
static inline enum rc lander__step_to(struct lander *lander, enum lander_state state)
{
    lander->state = state;
    return RC_WAIT;
}

/* lander_read.c: fills the batch from the cursor on. */
enum rc lander__read(struct lander *lander, const struct run *run, struct err *err) NODISCARD;

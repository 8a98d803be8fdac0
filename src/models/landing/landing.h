// SPDX-License-Identifier: Apache-2.0
/* landing.h - write-behind to SQL, and lift on a miss: docs/design/0003-landing.md.
 *
 * The server makes one struct landing; databases with rules have its guard. So every command
 * that changes a key of a rule marks it in its own commit, and a command that misses something of
 * such a key ends with RC_COLD: after that the server calls landing_wait() for the task and lets it
 * wait for an event; it runs again when the lift has ended.
 *
 * Threads: the executor. Landing has its own for SQL (worker.h). */
#pragma once

#include "models/landing/dirty.h"
#include "models/landing/rule.h"
#include "store/task.h"
#include "types/kv.h"

struct landing;
struct land_rule;
struct lift;

struct landing_options {
    struct kv *kv;
    struct tasks *tasks;
    const struct clock *clock;
    const char *dir;      /* of the data; copied, as the next */
    const char *land_dir; /* where files of rules that clients make are; "": dir */
    bool land_remote;     /* clients make rules of remote databases, too */
};
struct landing *landing_new(const struct landing_options *options);
void landing_free(struct landing *landing); /* before its kv and tasks; NULL is allowed */
/* Between two turns: starts what the turn asked for. */
void landing_turn(struct landing *landing);

/* ---- rules ---- */

/* Outside commits. Takes the spec, also when it fails. RC_BUSY: the name is taken, or keys could
 * belong to two rules. RC_INVALID: no such database, a password file that cannot be read. */
enum rc landing_rule_add(struct landing *landing, struct rule_spec *spec, bool from_config,
                         struct err *err) NODISCARD;
void landing_rule_delete(struct land_rule *rule); /* outside commits; its marks stay */
struct land_rule *landing_rule(const struct landing *landing, struct bytes name); /* NULL: none */
struct land_rule *
landing_rule_next(const struct landing *landing,
                  const struct land_rule *rule); /* NULL: from the first; the end */
const struct rule_spec *land_rule_spec(const struct land_rule *rule);
bool land_rule_is_from_config(const struct land_rule *rule);
const char *land_rule_sink(const struct land_rule *rule); /* for people, without its password */
/* The rule that takes this key, NULL if none does. */
struct land_rule *landing_rule_of(const struct landing *landing, const struct ns *ns,
                                  struct bytes key);
/* Rules made by a command are kept in the store: the hash slug-persist:{rules} of database 0.
 * Functions that take a rule and a run do not care in which database the run is. */
enum rc landing_rule_store(const struct land_rule *rule, const struct run *run,
                           struct err *err) NODISCARD;
enum rc landing_rule_unstore(struct land_rule *rule, const struct run *run,
                             struct err *err) NODISCARD;
/* Before the first command: those stored are added, then landing begins. It runs turns. */
enum rc landing_rules_load(struct landing *landing, struct err *err) NODISCARD;

/* LAND.RULE ADD: asks the database of the rule for a sign of life, puts entries that an earlier
 * rule of its keys left where this one looks for them, stores the rule, and then it is in force.
 * Takes the spec, also when it fails. RC_BUSY, RC_INVALID: as landing_rule_add(). */
struct land_adding; /* defined in models/landing/adding.c */
enum rc land_adding_new(struct landing *landing, struct rule_spec *spec,
                        struct land_adding **ret_adding, struct err *err) NODISCARD;
void land_adding_free(
    void *adding); /* NULL is allowed; the rule goes with it unless it is in force */
/* A step inside each of the caller's commits, which are runs of this task. RC_WAIT: there is more,
 * RC_COLD: the same step again, RC_OK: the rule is in force. RC_REPLY: its database cannot be
 * opened. RC_BUSY, RC_INVALID: also because a key of landing's own names is something else. */
enum rc land_adding_step(struct land_adding *adding, const struct run *run, struct task *task,
                         struct err *err) NODISCARD;
/* Entries that no rule takes, as counted at the start and by the steps above. */
uint64_t landing_orphans(const struct landing *landing);

/* ---- waiting ---- */

/* What a command waits for is in *waiter, which is NULL before the first of these. */
/* After RC_COLD of the last run: true if it wants a lift; the task is woken when that has ended. */
bool landing_wait(struct landing *landing, void **waiter, struct task *task);
/* The task is woken after every pass of a lander. */
void landing_wait_pass(struct landing *landing, void **waiter, struct task *task);
void land_waiter_free(void *waiter); /* at any time; NULL is allowed */

/* ---- for people; rule NULL: all rules ---- */

/* Lands now, unless a pass is under way that takes everything up to this LSN with it and began at
 * since_ns or later. */
void landing_kick(struct landing *landing, struct land_rule *rule, uint64_t lsn, uint64_t since_ns);
/* The same; refused entries of the rule have become due. */
void land_rule_retry(struct land_rule *rule);
/* Everything up to the LSN has landed or was refused, and the database has answered since. */
bool landing_is_through(const struct landing *landing, const struct land_rule *rule, uint64_t lsn,
                        uint64_t since_ns);
/* The database that the rule has landed in is gone, or another one is there. */
bool land_rule_is_missing(const struct land_rule *rule);
/* Inside a commit: it is gone for good. The one that is there, or is made, takes its place. Whoever
 * says so marks before what is here (land_sync_step()): it may be the only copy. */
enum rc land_rule_sink_new(struct land_rule *rule, const struct run *run,
                           struct err *err) NODISCARD;
/* The database does not answer: the last pass failed; its text, otherwise NULL. */
const char *land_rule_trouble(const struct land_rule *rule);

struct land_status {
    uint64_t landed_rows, refused_rows, batches, failures; /* since the start */
    uint64_t sql_ns;                                       /* in batches */
    uint64_t rows_per_s;                                   /* of the last pass that landed any */
    uint64_t lifts, lifted_rows, lift_failures, lift_ns;
    uint64_t hits, misses, absences; /* reads answered here, lifted, known to be absent */
    uint64_t oldest_ms;              /* since when something is waiting; 0: nothing is */
    uint64_t last_pass_ms;
    bool away;
    bool missing; /* land_rule_is_missing() */
    char trouble[ERR_TEXT_BYTES];
};
void land_rule_status(const struct land_rule *rule, struct land_status *ret_status);
/* Inside a commit: entries of one dirty table. RC_COLD. */
enum rc land_rule_backlog(const struct land_rule *rule, const struct run *run, uint32_t table,
                          uint64_t *ret_marked, uint64_t *ret_saving, uint64_t *ret_errors,
                          struct err *err) NODISCARD;
struct land_count { /* a dirty table, which all rules of its database share */
    uint32_t db, table;
    uint64_t marked, saving, errors; /* entries */
};
/* The same of all tables, at any time: as they were at most about a second ago. */
const struct land_count *landing_counts(const struct landing *landing, size_t *ret_count);
struct dirty_table land_rule_table(const struct land_rule *rule, const struct run *run,
                                   uint32_t table);
/* Whether the entry is this rule's; its parts are borrowed, or in the run's arena. */
struct land_entry;
bool land_rule_has_entry(const struct land_rule *rule, const struct run *run, struct bytes entry,
                         struct land_entry *ret_entry);
/* The number of the dirty table where such an entry stands. False: no memory. */
bool land_rule_entry_table(const struct land_rule *rule, const struct land_entry *entry,
                           uint32_t *ret_table);

/* Inside a commit: marks the field, or the owner (empty), as if it had just changed. */
enum rc land_mark(struct land_rule *rule, const struct run *run, struct bytes key,
                  struct bytes field, struct err *err) NODISCARD;
/* Whether its database is there, asked at since_ns or later. RC_WAIT: it is being asked, and who
 * waits for a pass is woken. RC_IO: it does not answer. */
enum rc land_rule_presence(struct land_rule *rule, uint64_t since_ns, struct err *err) NODISCARD;
/* LAND.EVICT: drops the local copy of a key that has landed. RC_BUSY: it has not. RC_REPLY: its
 * database has not answered since (land_rule_presence() said RC_OK or RC_IO before). */
enum rc land_evict(struct land_rule *rule, const struct run *run, struct bytes key,
                   uint64_t since_ns, bool *ret_dropped, struct err *err) NODISCARD;

/* ---- care ---- */

/* LAND.SYNC: marks every field that is here of the rule's keys. A step inside each of the caller's
 * commits; RC_WAIT: there is more, RC_COLD: the same step again. The rule is given anew: it may
 * have been deleted between two steps. */
struct land_sync; /* defined in models/landing/sync.c */
struct land_sync *land_sync_new(const struct land_rule *rule);
void land_sync_free(void *sync); /* NULL is allowed */
enum rc land_sync_step(struct land_sync *sync, const struct run *run, struct land_rule *rule,
                       struct err *err) NODISCARD;
/* Fields that were marked; keys and fields that cannot be landed. */
void land_sync_result(const struct land_sync *sync, uint64_t *ret_marked, uint64_t *ret_skipped);

/* LAND.VERIFY: a job of its own. What the caller got from land_verify_start() is his until
 * land_verify_end(), which also makes a job that is not over end soon. */
enum { LAND_VERIFY_EXAMPLES = 100 };
struct land_verify; /* defined in models/landing/verify.c */
struct land_verify_example {
    struct bytes key, field;
    const char *what;
};
struct land_verify_result {
    bool over;
    enum rc rc; /* of the job; its text */
    struct err err;
    uint64_t checked_keys, checked_fields;
    uint64_t different, missing, extra; /* fields */
    uint64_t skipped;                   /* keys: not landed yet, changed meanwhile, never to land */
    uint64_t repaired;                  /* fields */
    struct land_verify_example example[LAND_VERIFY_EXAMPLES];
    size_t example_count;
};
struct land_verify *land_verify_start(struct land_rule *rule, bool repair);
void land_verify_end(void *verify);
/* The task is woken when it is over. */
void land_verify_wait(struct land_verify *verify, void **waiter, struct task *task);
const struct land_verify_result *land_verify_result(const struct land_verify *verify);

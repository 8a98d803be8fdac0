// SPDX-License-Identifier: Apache-2.0
/* landing_int.h - what landing.c, lander.c and lift.c share. */
#pragma once

#include "base/table.h"
#include "models/landing/address.h"
#include "models/landing/landing.h"
#include "models/landing/worker.h"
#include "types/guard.h"

enum {
    LAND_ABSENT_MS = 3000,           /* for so long absence is believed */
    LAND_ABSENT_KEPT_MS = 30 * 1000, /* and longer by a command that has been waiting since then */
    LAND_ABSENT_SLOTS = 1 << 12,     /* at the start; a power of two, as the most is */
    LAND_ABSENT_SLOTS_MAX = 1 << 22,
    LAND_TOKEN_BYTES = 32,
    LAND_STEP_FIELDS = 256, /* read, noted or applied in one commit */
    LAND_LEAVING_MAX = 64,  /* deleted rules whose threads have not ended */
};

struct lander;

struct presence { /* of a rule's database: presence.c */
    struct task task;
    struct work work;
    struct land_rule *rule;
    bool is_asked;         /* a ping is under way */
    uint64_t asked_ns;     /* the last ping */
    uint64_t answered_ns;  /* when the newest question that has an answer was asked; 0: none */
    uint64_t failed_ns;    /* when the last ping was asked, if it failed; otherwise 0 */
    struct err failed_err; /* why it failed */
    enum rc rc;            /* this and err are the lifter's thread's until the ping is over */
    struct err err;
};

struct land_rule {
    struct landing *landing;
    struct rule_spec *spec;
    struct ns *ns;
    bool from_config;
    struct identity identity; /* of its database */
    struct presence presence;
    bool sink_is_noted;    /* the store remembers it */
    bool is_rewritten;     /* its text is another than the one that was loaded */
    bool is_kept_as_given; /* its whole path cannot be stored, which the log has told */
    struct lander *lander;
    struct worker *lifter;
    struct land_rule *next;
    /* LAND.RULE ADD asks the lifter for a sign of life: its work, and the answer. */
    struct work ping;
    enum rc ping_rc;
    struct err ping_err;
    /* It was deleted while its threads may have had these: freed when they have ended. */
    struct lift *left_lifts;
    struct land_verify *left_verifies;
    /* The lifter's thread: when it last found, slowly, that the database is away. */
    uint64_t lift_away_ns;
    struct err lift_away;
    uint64_t marked_since_ms; /* the first mark after the last snapshot; 0: none */
    uint64_t marks;           /* since the last pass began; a hint */
    uint64_t hits, misses, absences, lifts, lifted_rows, lift_failures, lift_ns;
};

struct absence { /* what SQL is known not to have */
    uint64_t hash;
    uint64_t until_ms; /* 0: an empty slot */
};
struct absences { /* open addressing */
    struct absence *slot;
    size_t cap, used;
};

struct pair_known { /* a table of shape object that is known to be this pair's */
    struct pair_known *next;
    const struct land_rule *rule;
    struct bytes pair;
};

struct owner_memo {         /* the key that was marked last: fields of one key come together */
    struct land_rule *rule; /* NULL: none */
    struct buf key;
    struct address address; /* points into key */
    struct buf entry;       /* begins with owner_len bytes that all entries of the key share */
    size_t owner_len;
    uint32_t table;
    bool pair_is_known; /* pair_claim() need not be asked */
};

struct landing {
    struct landing_options options;
    char *dir, *land_dir; /* whole paths */
    struct kv *kv;
    struct dirty dirty;
    uint64_t snapshots[LAND_TABLES_MAX]; /* of each dirty table, whatever its database */
    struct land_rule *rules;
    struct land_rule *leaving; /* deleted, and not freed: a thread waits for its database */
    uint8_t token[LAND_TOKEN_BYTES];
    struct key_guard own_guard; /* of landing's own keys; both are on databases with rules */
    struct key_guard guard;     /* of all others */
    struct buf entry, owner;    /* scratch of the guard */
    struct pair_known *pairs;
    struct owner_memo memo;
    /* lifts */
    struct table lifts;  /* by key */
    struct lift *open;   /* to be started after this turn */
    struct lift *failed; /* kept for a moment: who waited has to hear of it */
    struct lift *wanted; /* by the run of this number, most recently */
    uint64_t wanted_run;
    struct absences absences;
    uint64_t absence_seed;
    uint64_t absence_epoch;       /* what was noted in an earlier one is forgotten */
    uint64_t raise_lsn;           /* LSNs have to be above this one, from the next turn on */
    struct dlist pass_waiters;    /* of struct land_waiter */
    struct land_verify *verifies; /* that are not over */
    struct land_counter *counter;
    struct land_settle *settle; /* that is under way; NULL: none */
    bool settled;               /* landers run */
    uint64_t *alone;            /* entries that no rule takes, by database, when last counted */
    size_t alone_count;
};

/* Keys of landing itself, and of models that have their own, belong to no rule, whatever its
 * pattern. */
static inline bool landing__is_own(struct bytes key)
{
    return bytes_start_with(key, BYTES(LAND_OWN_PREFIX));
}
static inline bool landing__is_reserved(const struct ns *ns, struct bytes key)
{
    return landing__is_own(key) || ns_owns(ns, key);
}

/* The run in the rule's database, as landing's own. */
static inline struct run landing__rule_run(const struct land_rule *rule, const struct run *run)
{
    return run_as(run, rule->ns, rule->landing);
}
/* The key as it is here; the run is landing's. */
enum rc landing__key_find(const struct run *run, struct bytes name, struct key *ret_key,
                          struct err *err) NODISCARD;
/* Some rows of a key in a commit. */
struct land_rows {
    struct bytes after; /* the last that was looked at, in the run's arena; empty: none */
    size_t looked;      /* in this commit */
};
typedef enum rc land_row_fn(void *arg, struct bytes name, struct bytes value, struct err *err);
/* Those behind rows->after, in order. The name is in the run's arena. RC_OK: there are no more, or
 * fn said RC_NOT_FOUND: that is enough. RC_WAIT: LAND_STEP_FIELDS have been looked at. */
enum rc landing__rows_walk(struct land_rows *rows, const struct key *key, land_row_fn *fn,
                           void *arg, struct err *err) NODISCARD;
/* A version above it is an error, never a new LSN: it is more than a day ahead of the clock. After
 * the clock went back our own may be so, too: what is not above them is none. */
uint64_t landing__future_lsn(const struct landing *landing);
void landing__waiters_wake(struct dlist *list);
void landing__waiter_add(struct dlist *list, void **waiter, struct task *task);
/* lander.c */
enum rc lander_new(struct land_rule *rule, struct lander **ret_lander, struct err *err) NODISCARD;
void lander_greeted(struct lander *lander);   /* before its first pass: the database was asked */
void lander_start(struct lander *lander);     /* what it is to land stands where it looks */
void lander_stop(struct lander *lander);      /* nothing of it runs here any more; does not wait */
bool lander_has_ended(struct lander *lander); /* after lander_stop(): its thread has, too */
void lander_free(struct lander *lander);
/* since_ns: a pass that began before does not do, because its greeting was before, too. */
void lander_kick(struct lander *lander, uint64_t lsn, uint64_t since_ns);
void lander_retry(struct lander *lander);  /* refused entries are due: lands now */
void lander_marked(struct lander *lander); /* there are many marks */
bool lander_is_through(const struct lander *lander, uint64_t lsn, uint64_t since_ns);
const char *lander_trouble(const struct lander *lander);
const char *lander_sink(const struct lander *lander);
void lander_status(const struct lander *lander, struct land_status *to);

/* settle.c */
#define LAND_RULES_KEY LAND_OWN_PREFIX "rules}"
#define LAND_TABLES_KEY LAND_OWN_PREFIX "tables}"
#define LAND_SINKS_KEY LAND_OWN_PREFIX "sinks}"
/* Entries that an earlier rule of its keys left are put where this one, which is being added, looks
 * for them. A step inside each of the caller's commits; RC_WAIT: there is more, RC_COLD: the same
 * step again, RC_OK: nothing has changed in this one, and the rule can be added in it. RC_BUSY,
 * RC_INVALID: it cannot. */
struct land_settle *land_settle_new(struct landing *landing); /* none is under way */
void land_settle_free(struct land_settle *settle);            /* NULL is allowed */
enum rc land_settle_step(struct land_settle *settle, const struct run *run, struct land_rule *rule,
                         struct err *err) NODISCARD;
/* Before the first command, when all rules are known; then landers run. It runs turns. */
enum rc landing__settle(struct landing *landing, struct err *err) NODISCARD;
/* landing.c: what landing_rule_add() would say. */
enum rc landing__rule_check(const struct landing *landing, const struct rule_spec *spec,
                            struct err *err) NODISCARD;
/* A rule that is not in force; takes the spec, also when it fails. It begins, or it leaves. */
enum rc landing__rule_new(struct landing *landing, struct rule_spec *spec, bool from_config,
                          struct land_rule **ret_rule, struct err *err) NODISCARD;
void landing__rule_begin(struct land_rule *rule);
void landing__rule_leave(struct land_rule *rule);
/* A task of the start: embedded first in a job; runs turns until it is over. */
struct land_start {
    struct task task; /* its run and flags are set */
    bool over;
    enum rc rc;
    struct err err;
};
/* landing.c: a rule that is stored already. */
enum rc landing__rule_restore(struct land_rule *rule, const struct run *run,
                              struct err *err) NODISCARD;
enum rc landing__start_run(struct landing *landing, struct land_start *start,
                           struct err *err) NODISCARD;

/* passwords.c: a password in the URL of a stored rule moves to a file of the data directory, and
 * the rule is another then, which has to be stored. */
bool passwords_move(const struct landing *landing, struct rule_spec **spec);

/* sinks.c */
/* Inside a commit that relies on the rule's database: its identity is remembered. */
enum rc landing__sink_note(struct land_rule *rule, const struct run *run,
                           struct err *err) NODISCARD;
enum rc landing__sink_forget(struct land_rule *rule, const struct run *run,
                             struct err *err) NODISCARD;
enum rc landing__sinks_load(struct landing *landing, struct err *err) NODISCARD;

/* presence.c */
void presence_init(struct land_rule *rule);
void presence_end(struct land_rule *rule); /* its lifter has been stopped */
/* A question that was asked then has been answered by the database of the rule. */
void presence_answered(struct land_rule *rule, uint64_t asked_ns);
/* It was there after this deadline, which is over. */
bool presence_since_deadline(const struct land_rule *rule, const struct run *run,
                             uint64_t expire_ms);
/* For the sweep: it is being asked, and the sweep may wait for the answer; false: not any longer.
 */
bool presence_is_near(struct land_rule *rule);

/* lift.c */
void lifts_init(struct landing *landing);
void lifts_done(struct landing *landing);
void lifts_start(struct landing *landing); /* those opened in the turn */
void lifts_forget_absence(struct landing *landing);
void lifts_rule_gone(struct land_rule *rule); /* who waited goes on */
void lifts_rule_free(struct land_rule *rule); /* its lifter has ended */
/* Something that SQL may have is missing: field NULL, the whole key. RC_COLD: a lift is under way.
 * RC_OK: SQL has it not, or not any more than is here. */
enum rc lift_need(struct land_rule *rule, const struct key *key, const struct bytes *field,
                  struct err *err) NODISCARD;
/* It lands: SQL has the field, or the key (NULL), from now on. */
void lift_absence_over(struct landing *landing, const struct ns *ns, struct bytes key,
                       const struct bytes *field);
/* What a lift has read or applied of this key is not to be relied on: its copy goes, or something
 * of it was removed and the mark that said so leaves. */
void lift_stale(struct landing *landing, const struct ns *ns, struct bytes key);
void lifts_stale(struct landing *landing, const struct ns *ns); /* all of the namespace */

/* verify.c */
void verifies_rule_gone(struct land_rule *rule);
void verifies_rule_free(struct land_rule *rule); /* its lifter has ended */
void verifies_marked(struct landing *landing, const struct land_rule *rule, struct bytes key);

/* counts.c */
void counter_start(struct landing *landing); /* there is a rule */
void counter_end(struct landing *landing);

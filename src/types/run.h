// SPDX-License-Identifier: Apache-2.0
/* run.h - one run of something in a commit.
 *
 * A command, one of a MULTI's, a request that has waited, a step of a job, a lift: each is a run.
 * It says in which database it works, which time it sees, where its scratch memory is and what it
 * may do, and is passed down to every function that touches keys. None of that is kept anywhere
 * else.
 *
 *   struct run run;
 *   run_begin(&run, kv, ns, 0);                 inside the commit, or just before it
 *   rc = hash_set(&run, name, pairs, 1, NULL, err);
 *   rc = run_end(&run, rc);                     what it told and counted stays, or is taken back
 *
 * A part of a run that works in another database, or may do more or less, has a run derived by
 * run_with(). It shares time, memory and counts with the run it comes from.
 *
 * Ownership: the caller owns a struct run, which must stay where it is until run_end(); a struct
 * key that was found by it must not be used after that. Runs do not overlap: a second run_begin()
 * would free the scratch memory of the first, and aborts.
 * Threads: the executor. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

struct kv;
struct ns;

enum run_flags {
    RUN_QUIET = 1,   /* tells nobody of keys that change: what it puts was there before */
    RUN_NO_LIFT = 2, /* what is in a database behind the store stays there */
    RUN_PART = 4,    /* it was derived by run_with() */
};

struct run_counts {
    uint64_t hit_count, miss_count, expired_count;
};

struct run {
    struct kv *kv;
    struct ns *ns;       /* the database it works in */
    uint64_t now_ms;     /* the time, from its begin to its end */
    struct arena *arena; /* freed when the next run begins */
    unsigned flags;
    const void *model; /* whose run it is: guards of this model are not asked; NULL: nobody's */
    struct run_counts before; /* kv->counts, as they were at its begin */
    uint64_t since_ms; /* what it is a run of has been waiting for a guard since; 0: it has not */
    size_t told_from;  /* where what it tells begins, in kv->hooks.told */
};

/* ns may be NULL for a run that looks at several databases, each by run_with(). */
void run_begin(struct run *run, struct kv *kv, struct ns *ns, unsigned flags);
/* The same at a time that the caller has read from the clock. */
void run_begin_at(struct run *run, struct kv *kv, struct ns *ns, unsigned flags, uint64_t now_ms);
/* RC_OK, RC_WAIT: its changes stay, and what it told has happened; otherwise not. A run that is
 * taken back and will be repeated ends with RC_COLD. Returns rc. */
enum rc run_end(const struct run *run, enum rc rc);

/* The same run in a database, with further flags. */
static inline struct run run_with(const struct run *run, struct ns *ns, unsigned flags)
{
    struct run part = *run;
    part.ns = ns;
    part.flags |= flags | RUN_PART;
    return part;
}

/* The same run as a model's own, in a database. */
static inline struct run run_as(const struct run *run, struct ns *ns, const void *model)
{
    struct run part = run_with(run, ns, 0);
    part.model = model;
    return part;
}

/* Bytes in the run's scratch memory: to outlive the next change. */
enum rc run_copy(const struct run *run, struct bytes bytes, struct bytes *ret_copy,
                 struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* identity.h - which database a rule has landed in.
 *
 * A database has an identity: 32 hex digits in a row of its table terrace_tables (shape_owner.c).
 * The store remembers the identity of each rule's database from the first commit on that relies on
 * it. A file that is gone, or is another one, is found by that: reads fail and changes wait, until
 * the right one is back or somebody says that it is gone for good.
 *
 * Ownership: a rule owns its identity and outlives its workers.
 * Threads: any. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

enum { IDENTITY_DIGITS = 32 };

struct identity {
    const char *rule; /* its name, for the log; borrowed */
    pthread_mutex_t lock;
    /* shared: under lock */
    char text[IDENTITY_DIGITS + 1]; /* "": not known; whoever connects first reads or makes it */
    bool lost;                      /* who connected last found no database, or another one */
    struct err why;
};

void identity_init(struct identity *identity, const char *rule);
void identity_done(struct identity *identity);
void identity_get(struct identity *identity, char to[IDENTITY_DIGITS + 1]);
void identity_set(struct identity *identity, struct bytes text); /* empty: not known; not lost */
/* A database of this identity ("": it has none) was connected to, and this is its name. If ours is
 * not known it becomes ours. RC_IO: it is another one. */
enum rc identity_meet(struct identity *identity, const char *found, const char *name,
                      struct err *err) NODISCARD;
/* There is no database where ours was; why. */
void identity_miss(struct identity *identity, const struct err *err);
bool identity_is_lost(const struct identity *identity, struct err *ret_why); /* NULL is allowed */

// SPDX-License-Identifier: Apache-2.0
/* identity.c - compares the identity of a database with the one its rule has landed in. */
#include "models/landing/identity.h"

#include <stdio.h>

#include "base/log.h"

#include "base/banned.h"

void identity_init(struct identity *identity, const char *rule)
{
    *identity = (struct identity){.rule = rule};
    pthread_mutex_init(&identity->lock, NULL);
}

void identity_done(struct identity *identity)
{
    pthread_mutex_destroy(&identity->lock);
}

void identity_get(struct identity *identity, char to[IDENTITY_DIGITS + 1])
{
    pthread_mutex_lock(&identity->lock);
    memcpy(to, identity->text, sizeof identity->text);
    pthread_mutex_unlock(&identity->lock);
}

void identity_set(struct identity *identity, struct bytes text)
{
    pthread_mutex_lock(&identity->lock);
    snprintf(identity->text, sizeof identity->text, "%.*s", (int)text.len, (const char *)text.ptr);
    identity->lost = false;
    pthread_mutex_unlock(&identity->lock);
}

/* Under the lock. The log has one line each time. */
static void lost_set(struct identity *identity, const struct err *why)
{
    identity->why = *why;
    if (!identity->lost)
        log_warn("landing: rule %s: %s; reads fail and changes wait here until it is back, or "
                 "LAND.RULE SINK %s NEW says that it is gone for good",
                 identity->rule, why->text, identity->rule);
    identity->lost = true;
}

enum rc identity_meet(struct identity *identity, const char *found, const char *name,
                      struct err *err)
{
    struct err why = {0};
    enum rc rc = RC_OK;
    pthread_mutex_lock(&identity->lock);
    if (!identity->text[0])
        snprintf(identity->text, sizeof identity->text, "%s", found);
    if (strcmp(identity->text, found) != 0) {
        rc = err_set(&why, RC_IO, "\"%s\" is not the database that this rule has landed in", name);
        lost_set(identity, &why);
        if (err)
            *err = why;
    } else {
        if (identity->lost)
            log_info("landing: rule %s: its database is back", identity->rule);
        identity->lost = false;
    }
    pthread_mutex_unlock(&identity->lock);
    return rc;
}

void identity_miss(struct identity *identity, const struct err *err)
{
    pthread_mutex_lock(&identity->lock);
    lost_set(identity, err);
    pthread_mutex_unlock(&identity->lock);
}

bool identity_is_lost(const struct identity *identity, struct err *ret_why)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&identity->lock;
    pthread_mutex_lock(lock);
    bool lost = identity->lost;
    if (lost && ret_why)
        *ret_why = identity->why;
    pthread_mutex_unlock(lock);
    return lost;
}

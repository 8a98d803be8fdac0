// SPDX-License-Identifier: Apache-2.0
/* expire.h - the sweep: removes keys whose time is over, whether anybody asks for them or not.
 *
 * A job walks the expiry index of every namespace in time order, a few rows a step, and sleeps
 * until the next deadline, a second at most. Cold index pages and cold keys are loaded like
 * anything else. Where it has been is a counter of the namespace, changed in the commit of the
 * step: nothing is below it. When nothing is due it removes garbage (garbage.h).
 *
 * Ownership: the caller owns what expire_new() gives and frees it before its kv and tasks.
 * Threads: the executor. */
#pragma once

#include "base/err.h"
#include "store/task.h"
#include "types/kv.h"

struct expire; /* defined in types/expire.c */

struct expire_options {
    struct kv *kv; /* kv->expire is set */
    struct tasks *tasks;
    /* May be NULL: the last step's changes are safe; or they were lost (not RC_OK), and are tried
     * again. */
    void (*safe)(void *arg, enum rc rc);
    void *arg;
};

struct expire *expire_new(const struct expire_options *options); /* starts the job */
void expire_free(struct expire *expire);                         /* NULL is allowed */
/* DEBUG SET-ACTIVE-EXPIRE: while it is off dead keys are hidden, and stay. */
void expire_active_set(struct expire *expire, bool active);
/* A key has this deadline now: the job does not sleep past it. */
void expire_deadline_set(struct expire *expire, uint64_t expire_ms);

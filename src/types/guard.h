// SPDX-License-Identifier: Apache-2.0
/* guard.h - what a model has to say about the keys of a database: docs/design/0014-key-guards.md.
 *
 * A model that lands keys elsewhere, owns some, or has something else under their names puts a
 * struct key_guard on the databases it is concerned with. What finds and changes keys asks the
 * guards of the run's database, inside the commit: an error refuses the command; RC_COLD says that
 * somebody else has been asked, and the command runs again when that has answered.
 *
 * Invariants:
 *   (1) A key has one guard at most: the first that takes it (found()), key->guard. Guards with a
 *       prefix are asked first, then the one with a name_check(), then the others as they came.
 *   (2) A name that begins with a guard's prefix is that guard's: no other is asked about it.
 *   (3) A run of a model (run->model) does not ask the model's own guards; others it does.
 *   (4) Guards belong to the number of a database: SWAPDB leaves them where they are.
 *
 * Ownership: guards are borrowed; they stay where they are until they are removed. They come and go
 * outside runs, or at the end of a run that looks for no key any more.
 * Threads: the executor. */
#pragma once

#include "types/key.h"

enum guard_change { /* what happens to a key, or to a field of it */
                    GUARD_SET,
                    GUARD_REMOVED,
                    GUARD_EXPIRED, /* removed: its time was over */
};

enum guard_end { /* what happens to all keys of a database */
                 GUARD_FLUSH,
                 GUARD_SWAP, /* they become another database's */
                 GUARD_DROP, /* and the database is gone */
};

struct cmd_ctx;

/* Functions that a model has no use for are NULL; each gets the model. */
struct key_guard {
    void *model;
    struct bytes prefix; /* of the model's own names; empty: it is asked about all names */
    const char *locked;  /* what whoever changes one of its keys is told; NULL: they may change */

    /* Whether the name can be a key's in this database. RC_INVALID: it is something else, and no
     * row is looked for. One guard of a database at most has such names. */
    enum rc (*name_check)(void *model, struct bytes name, struct err *err);
    /* The key's meta row has been looked at; key->guard is this one. RC_NOT_FOUND: the key is not
     * for this guard. RC_OK: it is, now and until the key is done with, and key->claim is for
     * whatever the guard wants to remember. May hide the key, or bring a dead one back to life.
     * RC_WAIT, to KEY_NEED_TO_SWEEP only: not yet. */
    enum rc (*found)(void *model, struct key *key, enum key_need need, struct err *err);
    /* The field is not here. RC_NOT_FOUND: nor anywhere else. */
    enum rc (*missing)(void *model, const struct key *key, struct bytes field, struct err *err);
    /* Before a field is set or removed; field NULL: before the key becomes something else as a
     * whole, or goes. */
    enum rc (*change)(void *model, const struct key *key, const struct bytes *field,
                      enum guard_change change, struct err *err);
    /* Before all keys of run->ns go, or it gets others. */
    enum rc (*end)(void *model, const struct run *run, enum guard_end end, struct err *err);
    /* After a flush: puts back what is not the client's. */
    enum rc (*flushed)(void *model, const struct run *run, struct err *err);
    /* Runs a command in this database in the place of its handler, which is ctx->cmd->run(). Goes
     * with name_check(): only there some names are no keys. */
    enum rc (*command)(void *model, struct cmd_ctx *ctx);
};

/* Adds it if it is not there. */
void ns_guard_add(struct ns *ns, const struct key_guard *guard);
void ns_guard_remove(struct ns *ns, const struct key_guard *guard);
/* The same on every database, those included that are still to come. */
void kv_guard_add(struct kv *kv, const struct key_guard *guard);
void kv_guard_remove(struct kv *kv, const struct key_guard *guard);

/* Whether the name is one of a model's own. */
bool ns_owns(const struct ns *ns, struct bytes name);
/* Whether guards hear of the changes of keys, for this run: each has to be made on its own. */
bool run_is_heard(const struct run *run);

/* ---- for those who find and change keys ---- */

/* Whether a guard has to be asked about keys of this name. */
static inline bool guards_ask(const struct ns *ns, struct bytes name)
{
    if (!ns->guards)
        return false;
    for (const struct key_guard *const *at = ns->guards; *at; at++)
        if (bytes_start_with(name, (*at)->prefix))
            return true;
    return false;
}

/* Whether the name can be a key's: see key_guard.name_check(). */
static inline enum rc guard_name_check(const struct ns *ns, struct bytes name, struct err *err)
{
    const struct key_guard *guard = ns->name_guard;
    return LIKELY(!guard) ? RC_OK : guard->name_check(guard->model, name, err);
}

/* If guards_ask(): the guard that takes the key is key->guard. */
enum rc guards_found(struct key *key, enum key_need need, struct err *err) NODISCARD;

/* The field is not here. RC_NOT_FOUND: nor anywhere else. */
static inline enum rc guard_missing(const struct key *key, struct bytes field, struct err *err)
{
    const struct key_guard *guard = key->guard;
    if (LIKELY(!guard) || !guard->missing)
        return RC_NOT_FOUND;
    return guard->missing(guard->model, key, field, err);
}

/* Whether a guard hears of changes of the key. */
static inline bool key_is_heard(const struct key *key)
{
    return UNLIKELY(key->guard != NULL) && key->guard->change;
}

/* Before a change: a guard may refuse it, or add to the commit. */
static inline enum rc guard_change(const struct key *key, const struct bytes *field,
                                   enum guard_change change, struct err *err)
{
    enum rc rc = key_may_change(key, err);
    if (rc != RC_OK || !key_is_heard(key))
        return rc;
    return key->guard->change(key->guard->model, key, field, change, err);
}

/* Before run->ns is emptied or becomes another one. */
enum rc guards_end(const struct run *run, enum guard_end end, struct err *err) NODISCARD;
/* After it was emptied. */
enum rc guards_flushed(const struct run *run, struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* guard.c - the guards of a database: in which order they are asked, and by whom. */
#include "types/guard.h"

#include "base/mem.h"

#include "base/banned.h"

/* ---- the list ---- */

static size_t list_count(const struct key_guard *const *list)
{
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

/* In which order guards are asked: (1). */
static int rank(const struct key_guard *guard)
{
    return guard->prefix.len > 0 ? 0 : guard->name_check ? 1 : 2;
}

static void list_add(const struct key_guard ***list, const struct key_guard *guard)
{
    size_t count = list_count(*list), at = 0;
    for (size_t i = 0; i < count; i++)
        if ((*list)[i] == guard)
            return;
    while (at < count && rank((*list)[at]) <= rank(guard))
        at++;
    *list = mem_realloc(*list, (count + 2) * sizeof **list);
    memmove(*list + at + 1, *list + at, (count - at) * sizeof **list);
    (*list)[at] = guard;
    (*list)[count + 1] = NULL;
}

static void list_remove(const struct key_guard ***list, const struct key_guard *guard)
{
    size_t count = list_count(*list), at = 0;
    while (at < count && (*list)[at] != guard)
        at++;
    if (at == count)
        return;
    memmove(*list + at, *list + at + 1, (count - at) * sizeof **list);
    if (count > 1)
        return;
    mem_free(*list); /* who has none is asked by one look at a pointer */
    *list = NULL;
}

void ns_guard_add(struct ns *ns, const struct key_guard *guard)
{
    ASSERT(guard->model); /* NULL is nobody's run */
    ASSERT(!guard->name_check || !ns->name_guard || ns->name_guard == guard);
    list_add(&ns->guards, guard);
    if (guard->name_check)
        ns->name_guard = guard;
}

void ns_guard_remove(struct ns *ns, const struct key_guard *guard)
{
    list_remove(&ns->guards, guard);
    if (ns->name_guard == guard)
        ns->name_guard = NULL;
}

void kv_guard_add(struct kv *kv, const struct key_guard *guard)
{
    list_add(&kv->guards, guard);
    for (size_t i = 0; i < kv->ns_count; i++)
        if (kv->ns[i])
            ns_guard_add(kv->ns[i], guard);
}

void kv_guard_remove(struct kv *kv, const struct key_guard *guard)
{
    list_remove(&kv->guards, guard);
    for (size_t i = 0; i < kv->ns_count; i++)
        if (kv->ns[i])
            ns_guard_remove(kv->ns[i], guard);
}

/* ---- keys ---- */

static bool is_own_run(const struct run *run, const struct key_guard *guard)
{
    return run->model == guard->model;
}

bool ns_owns(const struct ns *ns, struct bytes name)
{
    for (size_t i = 0; ns->guards && ns->guards[i]; i++)
        if (ns->guards[i]->prefix.len > 0 && bytes_start_with(name, ns->guards[i]->prefix))
            return true;
    return false;
}

static enum rc guard_found(const struct key_guard *guard, struct key *key, enum key_need need,
                           struct err *err)
{
    key->guard = guard;
    key->locked = guard->locked;
    enum rc rc = guard->found ? guard->found(guard->model, key, need, err) : RC_OK;
    if (rc != RC_NOT_FOUND)
        return rc;
    key->guard = NULL;
    key->locked = NULL;
    return rc;
}

enum rc guards_found(struct key *key, enum key_need need, struct err *err)
{
    for (size_t i = 0; key->ns->guards[i]; i++) {
        const struct key_guard *guard = key->ns->guards[i];
        bool owns = guard->prefix.len > 0;
        if (!bytes_start_with(key->name, guard->prefix))
            continue;
        enum rc rc =
            is_own_run(key->run, guard) ? RC_NOT_FOUND : guard_found(guard, key, need, err);
        if (rc != RC_NOT_FOUND)
            return rc;
        if (owns) /* (2) */
            break;
    }
    return RC_OK;
}

/* ---- databases ---- */

bool run_is_heard(const struct run *run)
{
    for (size_t i = 0; run->ns->guards && run->ns->guards[i]; i++)
        if (run->ns->guards[i]->change && !is_own_run(run, run->ns->guards[i]))
            return true;
    return false;
}

enum rc guards_end(const struct run *run, enum guard_end end, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && run->ns->guards && run->ns->guards[i]; i++) {
        const struct key_guard *guard = run->ns->guards[i];
        if (guard->end && !is_own_run(run, guard))
            rc = guard->end(guard->model, run, end, err);
    }
    return rc;
}

enum rc guards_flushed(const struct run *run, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && run->ns->guards && run->ns->guards[i]; i++) {
        const struct key_guard *guard = run->ns->guards[i];
        if (guard->flushed && !is_own_run(run, guard))
            rc = guard->flushed(guard->model, run, err);
    }
    return rc;
}

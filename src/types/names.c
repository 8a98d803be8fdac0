// SPDX-License-Identifier: Apache-2.0
/* names.c - the map from SELECT's numbers to namespaces, on disk and in memory. */
#include "types/names.h"

#include <stdio.h>

#include "types/guard.h"

#include "base/banned.h"

enum { START_NAME_BYTES = 16 };
#define PLACE_PREFIX KV_NS_PLACE ":"

/* The name that an index has had from the start. */
static struct bytes start_name(uint32_t index, char to[START_NAME_BYTES])
{
    if (index == 0)
        return BYTES(NS_NAME_DEFAULT);
    int len = snprintf(to, START_NAME_BYTES, "default.%02u", index);
    return bytes_of(to, (size_t)len);
}

static bool is_start_name(struct bytes name)
{
    char text[START_NAME_BYTES];
    for (uint32_t i = 0; i < KV_NS_START; i++)
        if (bytes_eq(name, start_name(i, text)))
            return true;
    return false;
}

/* ---- the start ---- */

/* Registered names are those that have a place and are not there anyhow. Opening one makes
 * counters, at the end of the list that is walked here. */
static enum rc registered_open(struct kv *kv, struct err *err)
{
    struct bytes counter;
    for (uint32_t i = 0; store_counter_name(kv->store, i, &counter); i++) {
        if (!bytes_start_with(counter, BYTES(PLACE_PREFIX)) || store_counter_get(kv->store, i) == 0)
            continue;
        struct bytes name = bytes_from(counter, sizeof PLACE_PREFIX - 1);
        if (is_start_name(name))
            continue;
        enum rc rc = kv_ns_open(kv, KV_NS_NOWHERE, name, NULL, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc names_open(struct kv *kv, struct err *err)
{
    char text[START_NAME_BYTES];
    for (uint32_t i = 0; i < KV_NS_START; i++) {
        enum rc rc = kv_ns_open(kv, i, start_name(i, text), NULL, err);
        if (rc != RC_OK)
            return rc;
    }
    enum rc rc = registered_open(kv, err);
    if (rc == RC_OK)
        kv_ns_place(kv);
    return rc;
}

/* ---- changes ---- */

struct ns *names_find(const struct kv *kv, struct bytes name)
{
    for (size_t i = 0; i < kv->ns_count; i++) {
        struct ns *ns = kv_ns(kv, i);
        if (ns && bytes_eq(ns->name, name))
            return ns;
    }
    return NULL;
}

static enum rc place_set(struct ns *ns, int64_t place, struct err *err)
{
    struct store *store = ns->kv->store;
    ns->kv->moved = true;
    ns->kv->moved_lsn = store_lsn(store);
    return store_counter_add(store, ns->place, place - store_counter_get(store, ns->place), err);
}

/* Letters, digits, '-' and '_', with a dot in the middle. */
static bool name_is_good(struct bytes name)
{
    size_t dots = 0;
    for (size_t i = 0; i < name.len; i++) {
        uint8_t byte = name.ptr[i], letter = byte | 0x20;
        bool edge = i == 0 || i + 1 == name.len;
        if (byte == '.' && !edge)
            dots++;
        else if (!(letter >= 'a' && letter <= 'z') && !(byte >= '0' && byte <= '9') &&
                 byte != '-' && byte != '_')
            return false;
    }
    return dots == 1;
}

enum rc names_register(struct kv *kv, struct bytes name, uint32_t index, struct err *err)
{
    if (!name_is_good(name))
        return err_set(err, RC_INVALID,
                       "a namespace is named group.service, of letters, digits, '-' and '_'");
    enum rc rc = kv_ns_check(kv, index, name, err);
    if (rc != RC_OK)
        return rc;
    struct ns *home;
    store_undo(kv->store);
    rc = kv_ns_open(kv, KV_NS_NOWHERE, name, &home, err);
    store_begin(kv->store, 0);
    if (rc == RC_OK)
        rc = place_set(home, (int64_t)index + 1, err);
    if (rc == RC_OK)
        kv_ns_place(kv);
    return rc;
}

static enum rc swap_check(const struct run *run, struct ns *ns, struct err *err)
{
    struct run part = run_with(run, ns, 0);
    return guards_end(&part, GUARD_SWAP, err);
}

enum rc names_drop(const struct run *run, struct err *err)
{
    struct ns *ns = run->ns;
    if (ns->index < KV_NS_START || is_start_name(ns->name))
        return err_set(err, RC_INVALID, "databases 0 to %d are always there", KV_NS_START - 1);
    enum rc rc = guards_end(run, GUARD_DROP, err);
    if (rc == RC_OK)
        rc = ns_flush(run, err);
    if (rc == RC_OK)
        rc = place_set(ns, 0, err);
    if (rc == RC_OK)
        kv_ns_place(ns->kv);
    return rc;
}

enum rc names_swap(const struct run *run, struct ns *one, struct ns *other, struct err *err)
{
    struct kv *kv = one->kv;
    if (one == other)
        return RC_OK;
    enum rc rc = swap_check(run, one, err);
    if (rc == RC_OK)
        rc = swap_check(run, other, err);
    if (rc == RC_OK)
        rc = place_set(one, (int64_t)other->index + 1, err);
    if (rc == RC_OK)
        rc = place_set(other, (int64_t)one->index + 1, err);
    if (rc != RC_OK)
        return rc;
    kv_ns_place(kv);
    if (kv->hooks.flushed) {
        kv->hooks.flushed(kv->hooks.arg, one, true);
        kv->hooks.flushed(kv->hooks.arg, other, true);
    }
    return RC_OK;
}

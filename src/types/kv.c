// SPDX-License-Identifier: Apache-2.0
/* kv.c - opens the keyspace and its namespaces, and empties them. */
#include "types/kv.h"

#include <inttypes.h>

#include "base/codec.h"
#include "base/mem.h"
#include "types/build.h"
#include "types/guard.h"
#include "types/spaces.h"

#include "base/banned.h"

void kv_init(struct kv *kv, struct store *store, const struct clock *clock)
{
    *kv = (struct kv){.store = store,
                      .clock = clock,
                      .build_rows_min = BUILD_ROWS_MIN,
                      .string_bytes_max = STRING_BYTES_MAX,
                      .encodings = {.hash_listpack_count = 512,
                                    .hash_listpack_bytes = 64,
                                    .set_intset_count = 512,
                                    .zset_listpack_count = 128,
                                    .zset_listpack_bytes = 64}};
    rand_init_os(&kv->rand);
    scan_cursors_init(&kv->cursors, &kv->rand);
    arena_init(&kv->arena);
    buf_init(&kv->row, STORE_VALUE_BYTES_MAX);
}

void kv_done(struct kv *kv)
{
    if (!kv)
        return;
    for (size_t i = 0; i < kv->ns_count; i++) {
        if (kv->ns[i])
            mem_free(kv->ns[i]->guards);
        mem_free(kv->ns[i]);
    }
    mem_free(kv->ns);
    mem_free(kv->guards);
    for (size_t i = 0; i < kv->home_count; i++) {
        mem_free((void *)kv->home[i]->name.ptr);
        mem_free(kv->home[i]);
    }
    mem_free(kv->home);
    scan_cursors_done(&kv->cursors);
    arena_done(&kv->arena);
    buf_done(&kv->row);
    *kv = (struct kv){0};
}

/* A commit that is taken back leaves its LSN to the next one: the ordinal goes on then. */
void kv_id_draw(struct kv *kv, uint8_t to[KEY_ID_BYTES])
{
    uint64_t lsn = store_lsn(kv->store);
    if (kv->id_lsn != lsn) {
        kv->id_lsn = lsn;
        kv->id_ordinal = 0;
    }
    be64_put(to, lsn);
    be32_put(to + 8, store_incarnation(kv->store));
    be32_put(to + 12, kv->id_ordinal++);
}

/* ---- namespaces ---- */

enum rc kv_ns_check(const struct kv *kv, uint32_t index, struct bytes name, struct err *err)
{
    if (name.len == 0 || name.len > NS_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "a namespace name has 1 to %d bytes", NS_NAME_BYTES_MAX);
    if (index >= KV_NS_MAX && index != KV_NS_NOWHERE)
        return err_set(err, RC_INVALID, "a namespace index is below %d", KV_NS_MAX);
    if (kv_ns(kv, index))
        return err_set(err, RC_BUSY, "index %u has a namespace", index);
    for (size_t i = 0; i < kv->ns_count; i++) {
        const struct ns *other = kv_ns(kv, i);
        if (!other)
            continue;
        if (bytes_eq(other->name, name))
            return err_set(err, RC_BUSY, "the namespace exists with index %u", other->index);
        if (bytes_start_with(other->name, name) || bytes_start_with(name, other->name))
            return err_set(err, RC_INVALID,
                           "the name and that of namespace %u begin alike: keys would collide",
                           other->index);
    }
    return RC_OK;
}

static enum rc ns_prefix(struct ns *ns, uint8_t space, char tag, uint32_t *ret_prefix,
                         struct err *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, STORE_PREFIX_BYTES_MAX);
    if (!key_prefix_add(ns->name, tag, &text))
        return err_set(err, RC_NOMEM, "could not allocate memory for a namespace");
    return store_prefix(ns->kv->store, space, buf_bytes(&text), ret_prefix, err);
}

static enum rc ns_counter(struct ns *ns, const char *what, uint32_t *ret_counter, struct err *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, STORE_COUNTER_NAME_BYTES_MAX);
    if (!buf_printf(&text, "%s:", what) || !buf_add_bytes(&text, ns->name))
        return err_set(err, RC_NOMEM, "could not allocate memory for a namespace");
    return store_counter(ns->kv->store, buf_bytes(&text), ret_counter, err);
}

static enum rc ns_register(struct ns *ns, struct err *err)
{
    enum rc rc = ns_prefix(ns, SPACE_META, 'm', &ns->meta, err);
    if (rc == RC_OK)
        rc = ns_prefix(ns, SPACE_DATA, 'd', &ns->data, err);
    if (rc == RC_OK)
        rc = ns_prefix(ns, SPACE_EXPIRY, 'e', &ns->expiry, err);
    if (rc == RC_OK)
        rc = ns_prefix(ns, SPACE_GC, 'g', &ns->garbage, err);
    if (rc == RC_OK)
        rc = ns_counter(ns, "keys", &ns->key_count, err);
    if (rc == RC_OK)
        rc = ns_counter(ns, "expires", &ns->expire_count, err);
    if (rc == RC_OK)
        rc = ns_counter(ns, "swept", &ns->sweep_ms, err);
    if (rc == RC_OK)
        rc = ns_counter(ns, KV_NS_PLACE, &ns->place, err);
    return rc;
}

static struct ns *home_find(const struct kv *kv, struct bytes name)
{
    for (size_t i = 0; i < kv->home_count; i++)
        if (bytes_eq(kv->home[i]->name, name))
            return kv->home[i];
    return NULL;
}

static enum rc home_add(struct kv *kv, uint32_t index, struct bytes name, struct ns **ret_home,
                        struct err *err)
{
    struct ns *home = mem_zalloc(sizeof *home);
    home->kv = kv;
    home->index = index;
    home->name = bytes_of(mem_dup(name.ptr, name.len), name.len);
    enum rc rc = ns_register(home, err);
    if (rc != RC_OK) {
        mem_free((void *)home->name.ptr);
        mem_free(home);
        return rc;
    }
    kv->home = mem_realloc(kv->home, (kv->home_count + 1) * sizeof(struct ns *));
    kv->home[kv->home_count++] = home;
    *ret_home = home;
    return RC_OK;
}

static struct ns *ns_at(struct kv *kv, uint32_t index)
{
    if (index >= kv->ns_count) {
        kv->ns = mem_realloc(kv->ns, (index + 1) * sizeof(struct ns *));
        while (kv->ns_count <= index)
            kv->ns[kv->ns_count++] = NULL;
    }
    if (!kv->ns[index]) {
        kv->ns[index] = mem_zalloc(sizeof(struct ns));
        for (size_t i = 0; kv->guards && kv->guards[i]; i++)
            ns_guard_add(kv->ns[index], kv->guards[i]);
    }
    return kv->ns[index];
}

static void ns_put(struct kv *kv, uint32_t index, const struct ns *home)
{
    struct ns *ns = ns_at(kv, index);
    const struct ns before = *ns;
    *ns = *home;
    ns->index = index;
    ns->guards = before.guards;
    ns->name_guard = before.name_guard;
    ns->open = true;
}

enum rc kv_ns_open(struct kv *kv, uint32_t index, struct bytes name, struct ns **ret_ns,
                   struct err *err)
{
    enum rc rc = kv_ns_check(kv, index, name, err);
    if (rc != RC_OK)
        return rc;
    struct ns *home = home_find(kv, name);
    if (!home)
        rc = home_add(kv, index, name, &home, err);
    if (rc != RC_OK)
        return rc;
    if (index != KV_NS_NOWHERE)
        ns_put(kv, index, home);
    if (ret_ns)
        *ret_ns = index == KV_NS_NOWHERE ? home : kv->ns[index];
    return RC_OK;
}

/* The counters are taken back with their commit, databases are not: so these follow. What is
 * durable stays. */
void kv_ns_place(struct kv *kv)
{
    for (size_t i = 0; i < kv->ns_count; i++)
        if (kv->ns[i])
            kv->ns[i]->open = false;
    for (size_t i = 0; i < kv->home_count; i++) {
        int64_t place = store_counter_get(kv->store, kv->home[i]->place);
        uint32_t index = place > 0 && place <= KV_NS_MAX ? (uint32_t)place - 1 : kv->home[i]->index;
        if (index != KV_NS_NOWHERE)
            ns_put(kv, index, kv->home[i]);
    }
    if (store_durable_lsn(kv->store) >= kv->moved_lsn)
        kv->moved = false;
}

struct ns *kv_ns(const struct kv *kv, uint64_t index)
{
    if (index >= kv->ns_count || !kv->ns[index] || !kv->ns[index]->open)
        return NULL;
    return kv->ns[index];
}

int64_t ns_key_count(const struct ns *ns)
{
    return store_counter_get(ns->kv->store, ns->key_count);
}

int64_t ns_expire_count(const struct ns *ns)
{
    return store_counter_get(ns->kv->store, ns->expire_count);
}

enum rc ns_flush_check(const struct run *run, struct err *err)
{
    return guards_end(run, GUARD_FLUSH, err);
}

enum rc ns_flush(const struct run *run, struct err *err)
{
    struct ns *ns = run->ns;
    struct store *store = run->kv->store;
    const uint32_t prefixes[] = {ns->meta, ns->data, ns->expiry, ns->garbage};
    enum rc rc = ns_flush_check(run, err);
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(prefixes); i++)
        rc = store_prefix_drop(store, prefixes[i], err);
    if (rc == RC_OK)
        rc = store_counter_add(store, ns->key_count, -ns_key_count(ns), err);
    if (rc == RC_OK)
        rc = store_counter_add(store, ns->expire_count, -ns_expire_count(ns), err);
    if (rc == RC_OK && ns->kv->hooks.flushed)
        ns->kv->hooks.flushed(ns->kv->hooks.arg, ns, false);
    return rc == RC_OK ? guards_flushed(run, err) : rc;
}

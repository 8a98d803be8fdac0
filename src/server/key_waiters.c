// SPDX-License-Identifier: Apache-2.0
/* key_waiters.c - clients that wait for changes of keys: WATCH, and commands that block.
 *
 * A waited key is a key of a database that has waiters. They are in one table; the waiters of a key
 * are in the order in which they came.
 *
 * Invariants of the commands that block on a key:
 *   (1) At most one of them is being served: it is woken, and no other takes from the key before
 *       the served one has run to an end, however long it loads.
 *   (2) The served command passes the service to the next one when it goes (it has its element,
 *       timed out, was killed) or has found nothing, as long as the key may have something.
 *   (3) Where no command is being served, every waiter has seen that there is nothing for it. */
#include "server/server_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

#include "base/banned.h"

struct waiters {
    struct key_waiter *first, *last;
};

enum { TAKEN_TYPES = KV_EVENT_LIST | KV_EVENT_ZSET }; /* there are commands that wait for these */

struct waited_key {
    struct ns *ns;
    uint64_t hash;
    struct waiters of[WAITER_KINDS];
    struct key_waiter *served; /* of those who block; NULL: nobody's */
    unsigned ready;            /* types it may have something of, as far as was told; 0: nothing */
    uint64_t ready_seq;        /* keys are emptied in the order in which they were filled */
    bool again;                /* the key changed while a command was being served */
    size_t key_len;
    uint8_t key[];
};

struct waited_name {
    const struct ns *ns;
    struct bytes key;
};

static uint64_t waited_hash(const void *entry, void *arg)
{
    (void)arg;
    return ((const struct waited_key *)entry)->hash;
}

static bool waited_eq(const void *entry, const void *key, void *arg)
{
    const struct waited_key *waited = entry;
    const struct waited_name *name = key;
    (void)arg;
    return waited->ns == name->ns && bytes_eq(bytes_of(waited->key, waited->key_len), name->key);
}

static uint64_t name_hash(const struct waited_name *name)
{
    return XXH3_64bits_withSeed(name->key.ptr, name->key.len, (uint64_t)(uintptr_t)name->ns);
}

void server__waiters_init(struct server *server)
{
    table_init(&server->waited_keys, waited_hash, waited_eq, NULL);
}

void server__waiters_done(struct server *server)
{
    ASSERT(server->waited_keys.entry_count == 0);
    table_done(&server->waited_keys);
}

static struct waited_key *waited_find(struct server *server, struct ns *ns, struct bytes key)
{
    if (server->waited_keys.entry_count == 0)
        return NULL;
    struct waited_name name = {ns, key};
    return table_find(&server->waited_keys, name_hash(&name), &name, NULL);
}

static struct waited_key *waited_new(struct server *server, struct ns *ns, struct bytes key)
{
    struct waited_name name = {ns, key};
    struct waited_key *waited = mem_try_alloc(sizeof *waited + key.len);
    if (!waited)
        return NULL;
    *waited = (struct waited_key){.ns = ns, .hash = name_hash(&name), .key_len = key.len};
    memcpy(waited->key, key.ptr, key.len);
    table_insert(&server->waited_keys, waited->hash, waited);
    return waited;
}

enum rc server__waiter_add(struct server *server, struct ns *ns, struct bytes key,
                           enum waiter_kind kind, void *owner, struct key_waiter **list,
                           struct err *err)
{
    struct waited_key *waited = waited_find(server, ns, key);
    struct key_waiter *waiter = mem_alloc(sizeof *waiter);
    if (!waited)
        waited = waited_new(server, ns, key);
    if (!waited) {
        mem_free(waiter);
        return err_set(err, RC_NOMEM, "could not allocate memory to wait for a key");
    }
    struct waiters *of = &waited->of[kind];
    *waiter = (struct key_waiter){
        .waited = waited, .kind = kind, .owner = owner, .prev = of->last, .owner_next = *list};
    *(of->last ? &of->last->next : &of->first) = waiter;
    of->last = waiter;
    *list = waiter;
    *(kind == WAITER_WATCH ? &server->watch_count : &server->block_count) += 1;
    server__waiting_update(server);
    return RC_OK;
}

static void waited_free(struct server *server, struct waited_key *waited)
{
    struct table_slot slot;
    struct waited_name name = {waited->ns, bytes_of(waited->key, waited->key_len)};
    void *found = table_find(&server->waited_keys, waited->hash, &name, &slot);
    ASSERT(found == waited);
    table_remove(&server->waited_keys, waited->hash, slot);
    mem_free(waited);
}

/* ---- serving ---- */

/* To the first from `at` on that wants what is there; one whose time is over cannot run. */
static void serve_next(struct server *server, struct waited_key *waited, struct key_waiter *at)
{
    if (waited->ready == 0)
        return;
    for (; at; at = at->next) {
        struct request *request = at->owner;
        if (!(at->wants & waited->ready) || request->base.task.state == TASK_ENDED)
            continue;
        waited->served = at;
        task_wake(&request->base.task);
        server->woken = server->busy = true;
        return;
    }
}

/* (2). What came meanwhile may be for those who were passed over. */
static void serve_pass(struct server *server, struct waited_key *waited, struct key_waiter *next)
{
    waited->served = NULL;
    if (waited->again)
        next = waited->of[WAITER_BLOCK].first;
    waited->again = false;
    serve_next(server, waited, next);
}

bool server__serving_pass(struct server *server, const struct key_waiter *list)
{
    bool again = false;
    for (const struct key_waiter *at = list; at; at = at->owner_next)
        if (at->waited->served == at)
            serve_pass(server, at->waited, at->next);
    for (const struct key_waiter *at = list; at; at = at->owner_next)
        again = again || at->waited->served == at;
    return again;
}

bool server__serving_key(const struct key_waiter *list, struct bytes *ret_key)
{
    const struct waited_key *first = NULL;
    for (const struct key_waiter *at = list; at; at = at->owner_next)
        if (at->waited->served == at && (!first || at->waited->ready_seq < first->ready_seq))
            first = at->waited;
    if (first)
        *ret_key = bytes_of(first->key, first->key_len);
    return first != NULL;
}

bool server__serving_is_others(struct server *server, const struct request *request, struct ns *ns,
                               struct bytes key)
{
    const struct waited_key *waited = waited_find(server, ns, key);
    return waited && waited->served && waited->served->owner != request;
}

void server__waiters_free(struct server *server, struct key_waiter **list)
{
    while (*list) {
        struct key_waiter *waiter = *list;
        struct waited_key *waited = waiter->waited;
        struct waiters *of = &waited->of[waiter->kind];
        *list = waiter->owner_next;
        *(waiter->prev ? &waiter->prev->next : &of->first) = waiter->next;
        *(waiter->next ? &waiter->next->prev : &of->last) = waiter->prev;
        *(waiter->kind == WAITER_WATCH ? &server->watch_count : &server->block_count) -= 1;
        if (waited->served == waiter)
            serve_pass(server, waited, waiter->next);
        if (!waited->of[WAITER_WATCH].first && !waited->of[WAITER_BLOCK].first)
            waited_free(server, waited);
        mem_free(waiter);
    }
    server__waiting_update(server);
}

struct bytes server__waiter_key(const struct key_waiter *waiter, struct ns **ret_ns)
{
    *ret_ns = waiter->waited->ns;
    return bytes_of(waiter->waited->key, waiter->waited->key_len);
}

bool server__waiter_has(struct server *server, enum waiter_kind kind, const void *owner,
                        struct ns *ns, struct bytes key)
{
    const struct waited_key *waited = waited_find(server, ns, key);
    const struct key_waiter *at = waited ? waited->of[kind].last : NULL;
    if (kind == WAITER_BLOCK) /* it names its keys at once: nobody came in between */
        return at && at->owner == owner;
    for (; at; at = at->prev)
        if (at->owner == owner)
            return true;
    return false;
}

/* ---- changes ---- */

/* There may be something of these types now (0: nothing). */
static void waited_ready(struct server *server, struct waited_key *waited, unsigned types)
{
    if (types && !(waited->ready && waited->served))
        waited->ready_seq = ++server->ready_seq;
    waited->ready = types;
    if (types && waited->served)
        waited->again = true;
    else if (types)
        serve_next(server, waited, waited->of[WAITER_BLOCK].first);
}

/* What the key may be after a change of this class; an event of no type says nothing. */
static unsigned types_of(enum kv_event class, bool exists)
{
    const unsigned others = KV_EVENT_STRING | KV_EVENT_HASH | KV_EVENT_SET;
    if (!exists || class & others)
        return 0;
    return class & TAKEN_TYPES ? class & TAKEN_TYPES : TAKEN_TYPES;
}

void server__waiters_touch(struct server *server, struct ns *ns, struct bytes key,
                           enum kv_event class, bool exists)
{
    struct waited_key *waited = waited_find(server, ns, key);
    if (!waited)
        return;
    for (struct key_waiter *at = waited->of[WAITER_WATCH].first; at; at = at->next) {
        if (class == KV_EVENT_EXPIRED && at->was_dead)
            at->was_dead = false; /* it was over at WATCH: its removal is no change */
        else
            *at->touched = true;
    }
    waited_ready(server, waited, types_of(class, exists));
}

struct touch_ns {
    struct server *server;
    struct ns *ns;
    bool swapped;
};

/* Who watches a key that was not there has not missed anything when everything goes. What SWAPDB
 * has brought is told key by key. */
static void touch_entry(void *entry, void *arg)
{
    struct waited_key *waited = entry;
    struct touch_ns *touch = arg;
    if (waited->ns != touch->ns)
        return;
    for (struct key_waiter *at = waited->of[WAITER_WATCH].first; at; at = at->next)
        *at->touched = *at->touched || at->existed;
    waited_ready(touch->server, waited, touch->swapped ? TAKEN_TYPES : 0);
}

static void waited_scan(struct server *server, void (*each)(void *entry, void *arg), void *arg)
{
    uint64_t cursor = 0;
    do {
        cursor = table_scan(&server->waited_keys, cursor, each, arg);
    } while (cursor != 0);
}

void server__waiters_touch_ns(struct server *server, struct ns *ns, bool swapped)
{
    struct touch_ns touch = {server, ns, swapped};
    waited_scan(server, touch_entry, &touch);
}

/* A key that is not there and one whose time is over are the same to who watches. */
void server__waiters_swap(struct server *server, struct ns *ns, struct bytes key, bool exists,
                          bool dead)
{
    const struct waited_key *waited = waited_find(server, ns, key);
    for (struct key_waiter *at = waited ? waited->of[WAITER_WATCH].first : NULL; at;
         at = at->next) {
        *at->touched = *at->touched || at->existed || exists;
        at->was_dead = dead;
    }
}

struct look {
    struct server *server;
    const struct run *run;
    struct ns *one, *other;
    enum rc rc;
    struct err *err;
};

static void look_entry(void *entry, void *arg)
{
    const struct waited_key *waited = entry;
    struct look *look = arg;
    struct ns *from = waited->ns == look->one     ? look->other
                      : waited->ns == look->other ? look->one
                                                  : NULL;
    struct bytes name = bytes_of(waited->key, waited->key_len);
    struct key key;
    if (!from || !waited->of[WAITER_WATCH].first || (look->rc != RC_OK && look->rc != RC_COLD))
        return;
    struct run part = run_with(look->run, from, 0);
    enum rc rc = key_write(&part, name, KEY_ANY, &key, look->err);
    if (rc == RC_OK)
        server__key_swapped(look->server, waited->ns, name, key.exists, key.dead);
    else
        look->rc = rc;
}

enum rc server__waiters_look(struct server *server, const struct run *run, struct ns *one,
                             struct ns *other, struct err *err)
{
    struct look look = {
        .server = server, .run = run, .one = one, .other = other, .rc = RC_OK, .err = err};
    if (one != other && server->watch_count > 0)
        waited_scan(server, look_entry, &look);
    return look.rc;
}

static void wake_entry(void *entry, void *arg)
{
    waited_ready(arg, entry, TAKEN_TYPES);
}

void server__waiters_wake(struct server *server)
{
    if (server->block_count > 0)
        waited_scan(server, wake_entry, server);
}

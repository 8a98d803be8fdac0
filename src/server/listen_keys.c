/* listen_keys.c - who wants to know when a key changes: WATCH, and commands that block.
 *
 * An ear is a key of a namespace that somebody listens for, in one table; its listeners are in the
 * order in which they came. */
#include "server/server_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

#include "base/banned.h"

struct key_ear {
    struct ns *ns;
    uint64_t hash;
    struct key_listener *first, *last;
    size_t key_len;
    uint8_t key[];
};

struct ear_name {
    const struct ns *ns;
    struct bytes key;
};

static uint64_t ear_hash(const void *entry, void *arg)
{
    (void)arg;
    return ((const struct key_ear *)entry)->hash;
}

static bool ear_eq(const void *entry, const void *key, void *arg)
{
    const struct key_ear *ear = entry;
    const struct ear_name *name = key;
    (void)arg;
    return ear->ns == name->ns && bytes_eq(bytes_of(ear->key, ear->key_len), name->key);
}

static uint64_t name_hash(const struct ear_name *name)
{
    return XXH3_64bits_withSeed(name->key.ptr, name->key.len, (uint64_t)(uintptr_t)name->ns);
}

void server__ears_init(struct server *server)
{
    table_init(&server->ears, ear_hash, ear_eq, NULL);
}

void server__ears_done(struct server *server)
{
    ASSERT(server->ears.entry_count == 0);
    table_done(&server->ears);
}

static struct key_ear *ear_find(struct server *server, struct ns *ns, struct bytes key)
{
    if (server->ears.entry_count == 0)
        return NULL;
    struct ear_name name = {ns, key};
    return table_find(&server->ears, name_hash(&name), &name, NULL);
}

static struct key_ear *ear_new(struct server *server, struct ns *ns, struct bytes key)
{
    struct ear_name name = {ns, key};
    struct key_ear *ear = mem_try_alloc(sizeof *ear + key.len);
    if (!ear)
        return NULL;
    *ear = (struct key_ear){.ns = ns, .hash = name_hash(&name), .key_len = key.len};
    memcpy(ear->key, key.ptr, key.len);
    table_insert(&server->ears, ear->hash, ear);
    return ear;
}

enum rc server__ear_add(struct server *server, struct ns *ns, struct bytes key, enum ear_kind kind,
                        void *owner, struct key_listener **list, struct err *err)
{
    struct key_ear *ear = ear_find(server, ns, key);
    struct key_listener *listener = mem_alloc(sizeof *listener);
    if (!ear)
        ear = ear_new(server, ns, key);
    if (!ear) {
        mem_free(listener);
        return err_set(err, RC_NOMEM, "could not allocate memory to wait for a key");
    }
    *listener = (struct key_listener){
        .ear = ear, .kind = kind, .owner = owner, .prev = ear->last, .owner_next = *list};
    *(ear->last ? &ear->last->next : &ear->first) = listener;
    ear->last = listener;
    *list = listener;
    *(kind == EAR_WATCH ? &server->watch_count : &server->block_count) += 1;
    server__listening_update(server);
    return RC_OK;
}

static void ear_free(struct server *server, struct key_ear *ear)
{
    struct table_slot slot;
    struct ear_name name = {ear->ns, bytes_of(ear->key, ear->key_len)};
    void *found = table_find(&server->ears, ear->hash, &name, &slot);
    ASSERT(found == ear);
    table_remove(&server->ears, ear->hash, slot);
    mem_free(ear);
}

void server__ears_free(struct server *server, struct key_listener **list)
{
    while (*list) {
        struct key_listener *listener = *list;
        struct key_ear *ear = listener->ear;
        *list = listener->owner_next;
        *(listener->prev ? &listener->prev->next : &ear->first) = listener->next;
        *(listener->next ? &listener->next->prev : &ear->last) = listener->prev;
        *(listener->kind == EAR_WATCH ? &server->watch_count : &server->block_count) -= 1;
        if (!ear->first)
            ear_free(server, ear);
        mem_free(listener);
    }
    server__listening_update(server);
}

struct bytes server__ear_key(const struct key_listener *listener, struct ns **ret_ns)
{
    *ret_ns = listener->ear->ns;
    return bytes_of(listener->ear->key, listener->ear->key_len);
}

bool server__ear_has(struct server *server, const void *owner, struct ns *ns, struct bytes key)
{
    const struct key_ear *ear = ear_find(server, ns, key);
    for (const struct key_listener *at = ear ? ear->last : NULL; at; at = at->prev)
        if (at->owner == owner)
            return true;
    return false;
}

/* Blocked commands run again in the order in which they came; the first takes what there is. */
static void ear_touch(struct server *server, struct key_ear *ear, bool exists)
{
    for (struct key_listener *listener = ear->first; listener; listener = listener->next) {
        if (listener->kind == EAR_WATCH) {
            ((struct conn *)listener->owner)->multi.touched = true;
        } else if (exists) {
            task_wake(&((struct request *)listener->owner)->task);
            server->woken = true;
        }
    }
}

void server__ear_touch(struct server *server, struct ns *ns, struct bytes key, bool exists)
{
    struct key_ear *ear = ear_find(server, ns, key);
    if (ear)
        ear_touch(server, ear, exists);
}

struct touch_ns {
    struct server *server;
    struct ns *ns;
    bool swapped;
};

/* Who watches a key that was not there has not missed anything when everything goes. */
static void touch_entry(void *entry, void *arg)
{
    struct key_ear *ear = entry;
    struct touch_ns *touch = arg;
    if (ear->ns != touch->ns)
        return;
    for (struct key_listener *at = ear->first; at; at = at->next) {
        if (at->kind == EAR_WATCH && at->existed) {
            ((struct conn *)at->owner)->multi.touched = true;
        } else if (at->kind == EAR_WATCH) {
            at->swapped = at->swapped || touch->swapped; /* EXEC looks whether it is there now */
        } else if (touch->swapped) {
            task_wake(&((struct request *)at->owner)->task);
            touch->server->woken = true;
        }
    }
}

void server__ear_touch_ns(struct server *server, struct ns *ns, bool swapped)
{
    struct touch_ns touch = {server, ns, swapped};
    uint64_t cursor = 0;
    do {
        cursor = table_scan(&server->ears, cursor, touch_entry, &touch);
    } while (cursor != 0);
}

/* listen_keys.c - who wants to know when a key changes: WATCH, and commands that block.
 *
 * An ear is a key of a namespace that somebody listens for, in one table; its listeners are in the
 * order in which they came.
 *
 * Invariants of who blocks on a key:
 *   (1) At most one has the turn: it is woken, and nobody behind it takes from the key before it
 *       has run to an end, however long it loads.
 *   (2) Who has the turn gives it to the next one when it goes (served, timed out, killed) or has
 *       found nothing for it, as long as there may be something there.
 *   (3) Nobody has the turn: whoever waits has seen that there is nothing for it. */
#include "server/server_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

#include "base/banned.h"

struct listeners {
    struct key_listener *first, *last;
};

enum { TAKEN_TYPES = KV_EVENT_LIST | KV_EVENT_ZSET }; /* there are commands that wait for these */

struct key_ear {
    struct ns *ns;
    uint64_t hash;
    struct listeners of[EAR_KINDS];
    struct key_listener *turn; /* of those who block; NULL: nobody's */
    unsigned ready;            /* types it may have something of, as far as was told; 0: nothing */
    uint64_t ready_seq;        /* keys are emptied in the order in which they were filled */
    bool again;                /* told of while somebody had the turn */
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
    struct listeners *of = &ear->of[kind];
    *listener = (struct key_listener){
        .ear = ear, .kind = kind, .owner = owner, .prev = of->last, .owner_next = *list};
    *(of->last ? &of->last->next : &of->first) = listener;
    of->last = listener;
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

/* ---- turns ---- */

/* To the first from `at` on that wants what is there; one whose time is over cannot run. */
static void turn_give(struct server *server, struct key_ear *ear, struct key_listener *at)
{
    if (ear->ready == 0)
        return;
    for (; at; at = at->next) {
        struct request *request = at->owner;
        if (!(at->wants & ear->ready) || request->task.state == TASK_ENDED)
            continue;
        ear->turn = at;
        task_wake(&request->task);
        server->woken = server->busy = true;
        return;
    }
}

/* (2). What came meanwhile may be for those who were passed over. */
static void turn_pass(struct server *server, struct key_ear *ear, struct key_listener *next)
{
    ear->turn = NULL;
    if (ear->again)
        next = ear->of[EAR_BLOCK].first;
    ear->again = false;
    turn_give(server, ear, next);
}

bool server__turns_pass(struct server *server, const struct key_listener *list)
{
    bool again = false;
    for (const struct key_listener *at = list; at; at = at->owner_next)
        if (at->ear->turn == at)
            turn_pass(server, at->ear, at->next);
    for (const struct key_listener *at = list; at; at = at->owner_next)
        again = again || at->ear->turn == at;
    return again;
}

bool server__turn_key(const struct key_listener *list, struct bytes *ret_key)
{
    const struct key_ear *first = NULL;
    for (const struct key_listener *at = list; at; at = at->owner_next)
        if (at->ear->turn == at && (!first || at->ear->ready_seq < first->ready_seq))
            first = at->ear;
    if (first)
        *ret_key = bytes_of(first->key, first->key_len);
    return first != NULL;
}

bool server__turn_is_others(struct server *server, const struct request *request, struct ns *ns,
                            struct bytes key)
{
    const struct key_ear *ear = ear_find(server, ns, key);
    return ear && ear->turn && ear->turn->owner != request;
}

void server__ears_free(struct server *server, struct key_listener **list)
{
    while (*list) {
        struct key_listener *listener = *list;
        struct key_ear *ear = listener->ear;
        struct listeners *of = &ear->of[listener->kind];
        *list = listener->owner_next;
        *(listener->prev ? &listener->prev->next : &of->first) = listener->next;
        *(listener->next ? &listener->next->prev : &of->last) = listener->prev;
        *(listener->kind == EAR_WATCH ? &server->watch_count : &server->block_count) -= 1;
        if (ear->turn == listener)
            turn_pass(server, ear, listener->next);
        if (!ear->of[EAR_WATCH].first && !ear->of[EAR_BLOCK].first)
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

bool server__ear_has(struct server *server, enum ear_kind kind, const void *owner, struct ns *ns,
                     struct bytes key)
{
    const struct key_ear *ear = ear_find(server, ns, key);
    const struct key_listener *at = ear ? ear->of[kind].last : NULL;
    if (kind == EAR_BLOCK) /* it names its keys at once: nobody came in between */
        return at && at->owner == owner;
    for (; at; at = at->prev)
        if (at->owner == owner)
            return true;
    return false;
}

/* ---- changes ---- */

/* There may be something of these types now (0: nothing). */
static void ear_ready(struct server *server, struct key_ear *ear, unsigned types)
{
    if (types && !(ear->ready && ear->turn))
        ear->ready_seq = ++server->ready_seq;
    ear->ready = types;
    if (types && ear->turn)
        ear->again = true;
    else if (types)
        turn_give(server, ear, ear->of[EAR_BLOCK].first);
}

/* What the key may be after a change of this class; an event of no type says nothing. */
static unsigned types_of(enum kv_event class, bool exists)
{
    const unsigned others = KV_EVENT_STRING | KV_EVENT_HASH | KV_EVENT_SET;
    if (!exists || class & others)
        return 0;
    return class & TAKEN_TYPES ? class & TAKEN_TYPES : TAKEN_TYPES;
}

void server__ear_touch(struct server *server, struct ns *ns, struct bytes key, enum kv_event class,
                       bool exists)
{
    struct key_ear *ear = ear_find(server, ns, key);
    if (!ear)
        return;
    for (struct key_listener *at = ear->of[EAR_WATCH].first; at; at = at->next) {
        if (class == KV_EVENT_EXPIRED && at->was_dead)
            at->was_dead = false; /* it was over at WATCH: its removal is no change */
        else
            *at->touched = true;
    }
    ear_ready(server, ear, types_of(class, exists));
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
    for (struct key_listener *at = ear->of[EAR_WATCH].first; at; at = at->next) {
        if (at->existed)
            *at->touched = true;
        else
            at->swapped = at->swapped || touch->swapped; /* EXEC looks whether it is there now */
    }
    ear_ready(touch->server, ear, touch->swapped ? TAKEN_TYPES : 0);
}

static void ears_scan(struct server *server, void (*each)(void *entry, void *arg), void *arg)
{
    uint64_t cursor = 0;
    do {
        cursor = table_scan(&server->ears, cursor, each, arg);
    } while (cursor != 0);
}

void server__ear_touch_ns(struct server *server, struct ns *ns, bool swapped)
{
    struct touch_ns touch = {server, ns, swapped};
    ears_scan(server, touch_entry, &touch);
}

static void wake_entry(void *entry, void *arg)
{
    ear_ready(arg, entry, TAKEN_TYPES);
}

void server__ears_wake(struct server *server)
{
    if (server->block_count > 0)
        ears_scan(server, wake_entry, server);
}

// SPDX-License-Identifier: Apache-2.0
/* cache.c - reads of shards: asked for once, answered to many, kept while there is room. */
#include "models/tile/cache.h"

#include "base/mem.h"
#include "models/tile/tile_int.h"

#include "base/banned.h"

enum read_state { READ_OPEN, READ_ASKED, READ_READY, READ_FAILED };

struct tile_want { /* one command's interest in one read */
    struct tile_waiter *waiter;
    struct tile_read *read;
    bool answered;
    struct tile_want *waiter_next;
    struct dlink link; /* of the read */
};

struct tile_read {
    struct tile_work work;
    struct cache *cache;
    struct tile_type *type;
    struct tilekey key;
    bool at;
    enum read_state state;
    bool in_table;
    struct dlist wants;
    struct dlink link; /* of the LRU, or of the open ones */
    struct dlink ats_link, all_link;
    bool in_lru;
    bool used; /* since it came to the front */
    /* the answer; the reader's while it is asked */
    enum rc rc;
    struct buf row;
    struct tilekey found;
    struct err *err; /* NULL unless it failed */
};

struct read_name {
    const struct tile_type *type;
    struct tilekey key;
    bool at;
};

static uint64_t name_hash(uint8_t type, struct tilekey key, bool at)
{
    uint64_t hash = (key.packed ^ (uint64_t)type << 9 ^ at) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (hash >> 29) ^ key.ms) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ (hash >> 32);
}

static uint64_t read_hash(const void *entry, void *arg)
{
    const struct tile_read *read = entry;
    (void)arg;
    return name_hash(read->type->number, read->key, read->at);
}

static bool read_eq(const void *entry, const void *key, void *arg)
{
    const struct tile_read *read = entry;
    const struct read_name *name = key;
    (void)arg;
    return read->type == name->type && read->at == name->at &&
           tilekey_cmp(read->key, name->key) == 0;
}

static struct tile_read *read_find(const struct cache *cache, const struct tile_type *type,
                                   struct tilekey key, bool at)
{
    struct read_name name = {type, key, at};
    return table_find(&cache->table, name_hash(type->number, key, at), &name, NULL);
}

void cache_init(struct cache *cache, struct tiles *tiles, uint64_t bytes_max)
{
    *cache = (struct cache){.tiles = tiles, .bytes_max = bytes_max};
    table_init(&cache->table, read_hash, read_eq, NULL);
}

/* ---- life of a read ---- */

static size_t read_bytes(const struct tile_read *read)
{
    return mem_class_bytes(sizeof *read) + mem_class_bytes(read->row.cap);
}

static void lru_remove(struct tile_read *read)
{
    dlist_remove(&read->cache->lru, &read->link);
    read->in_lru = false;
    read->cache->bytes -= read_bytes(read);
}

static void lru_add(struct tile_read *read)
{
    dlist_add_first(&read->cache->lru, &read->link);
    read->in_lru = true;
    read->cache->bytes += read_bytes(read);
}

static void table_forget(struct tile_read *read)
{
    struct read_name name = {read->type, read->key, read->at};
    struct table_slot slot;
    uint64_t hash = read_hash(read, NULL);
    if (!read->in_table)
        return;
    const struct tile_read *found = table_find(&read->cache->table, hash, &name, &slot);
    ASSERT(found == read);
    table_remove(&read->cache->table, hash, slot);
    read->in_table = false;
}

static void read_free(struct tile_read *read)
{
    struct cache *cache = read->cache;
    ASSERT(!read->wants.first);
    table_forget(read);
    if (read->in_lru)
        lru_remove(read);
    if (read->at)
        dlist_remove(&cache->ats, &read->ats_link);
    for (size_t i = 0; i < cache->wanted_count;) {
        if (cache->wanted[i] == read)
            cache->wanted[i] = cache->wanted[--cache->wanted_count];
        else
            i++;
    }
    dlist_remove(&cache->all, &read->all_link);
    buf_done(&read->row);
    mem_free(read->err);
    mem_free(read);
}

/* (3) */
static void shrink(struct cache *cache)
{
    while (cache->bytes > cache->bytes_max && cache->lru.last) {
        struct tile_read *last = DLIST_ITEM(cache->lru.last, struct tile_read, link);
        if (last->used) { /* a hit costs a bit; the order is made up for here */
            lru_remove(last);
            lru_add(last);
            last->used = false;
        } else {
            read_free(last);
        }
    }
}

/* Nobody holds it: it is kept if it can be an answer. */
static void read_settle(struct tile_read *read)
{
    if (read->wants.first || read->in_lru || read->state == READ_OPEN || read->state == READ_ASKED)
        return;
    if (!read->in_table || read->at || read->state == READ_FAILED) {
        read_free(read);
        return;
    }
    lru_add(read);
    shrink(read->cache);
}

/* ---- asking ---- */

static enum rc read_from(void *arg, struct shard *shard, struct err *err)
{
    struct tile_read *read = arg;
    buf_cut(&read->row, 0);
    return shard->ops->get(shard, read->key, read->at, &read->row, &read->found, err);
}

static void read_run(struct tile_work *work, struct pool *pool)
{
    struct tile_read *read = (struct tile_read *)work;
    struct shard_reader reader = {.run = read_from, .arg = read};
    struct err err = {0};
    read->rc = tile__shard_read(read->type, pool, tilekey_place(read->key.packed), &reader, &err);
    if (read->rc != RC_OK && read->rc != RC_NOT_FOUND)
        read->err = mem_dup(&err, sizeof err);
}

static void read_done(struct tile_work *work)
{
    struct tile_read *read = (struct tile_read *)work;
    read->state = read->err ? READ_FAILED : READ_READY;
    read->cache->failures += read->err != NULL;
    for (struct dlink *at = read->wants.first; at; at = at->next) {
        struct tile_want *want = DLIST_ITEM(at, struct tile_want, link);
        want->answered = true;
        if (--want->waiter->pending_count == 0)
            task_wake(want->waiter->task);
    }
    read_settle(read);
}

static struct tile_read *read_open(struct cache *cache, struct tile_type *type, struct tilekey key,
                                   bool at)
{
    struct tile_read *read = mem_zalloc(sizeof *read);
    read->work = (struct tile_work){.run = read_run, .done = read_done};
    read->cache = cache;
    read->type = type;
    read->key = key;
    read->at = at;
    read->state = READ_OPEN;
    buf_init(&read->row, TILE_HEADER_BYTES_MAX + TILE_DATA_BYTES_MAX);
    table_insert(&cache->table, read_hash(read, NULL), read);
    read->in_table = true;
    dlist_add_first(&cache->open, &read->link);
    dlist_add_first(&cache->all, &read->all_link);
    if (at)
        dlist_add_first(&cache->ats, &read->ats_link);
    return read;
}

void cache_turn(struct cache *cache)
{
    for (struct dlink *link; (link = dlist_take_first(&cache->open));) {
        struct tile_read *read = DLIST_ITEM(link, struct tile_read, link);
        read->state = READ_ASKED;
        cache->reads++;
        workers_give(cache->tiles->workers, TILE_READER, &read->work);
    }
}

static void want_note(struct cache *cache, struct tile_read *read)
{
    if (cache->wanted_run != cache->tiles->kv->run_seq)
        cache->wanted_count = 0;
    cache->wanted_run = cache->tiles->kv->run_seq;
    if (cache->wanted_count == cache->wanted_cap) {
        cache->wanted_cap = cache->wanted_cap ? 2 * cache->wanted_cap : 64;
        cache->wanted = mem_realloc(cache->wanted, cache->wanted_cap * sizeof(struct tile_read *));
    }
    cache->wanted[cache->wanted_count++] = read;
}

static enum rc answer(struct tile_read *read, struct cache_answer *ret_answer)
{
    read->used = true;
    if (read->rc == RC_OK)
        *ret_answer = (struct cache_answer){buf_bytes(&read->row), read->found};
    return read->rc;
}

enum rc cache_peek(struct cache *cache, struct tile_type *type, struct tilekey key,
                   struct cache_answer *ret_answer)
{
    struct tile_read *read = read_find(cache, type, key, false);
    if (!read || read->state != READ_READY)
        return RC_COLD;
    cache->hits++;
    return answer(read, ret_answer);
}

enum rc cache_find(struct cache *cache, struct tile_type *type, struct tilekey key, bool at,
                   struct cache_answer *ret_answer, struct err *err)
{
    struct tile_read *read = read_find(cache, type, key, at);
    if (read && read->state == READ_READY)
        return answer(read, ret_answer);
    if (read && read->state == READ_FAILED) {
        *err = *read->err;
        return read->rc;
    }
    if (!read) {
        cache->misses++;
        read = read_open(cache, type, key, at);
    }
    want_note(cache, read);
    return err_set(err, RC_COLD, "%s", rc_text(RC_COLD));
}

/* ---- changes ---- */

static void read_stale(struct tile_read *read)
{
    table_forget(read);
    if (read->in_lru)
        read_free(read);
    else
        read_settle(read);
}

void cache_forget(struct cache *cache, const struct tile_type *type, struct tilekey key)
{
    struct tile_read *read = read_find(cache, type, key, false);
    if (UNLIKELY(read != NULL))
        read_stale(read);
    for (struct dlink *link = cache->ats.first, *next; UNLIKELY(link != NULL); link = next) {
        struct tile_read *at = DLIST_ITEM(link, struct tile_read, ats_link);
        next = link->next;
        if (at->type == type && at->key.packed == key.packed)
            read_stale(at);
    }
}

/* ---- waiting ---- */

struct tile_waiter *tile__waiter(void **waiter)
{
    if (!*waiter)
        *waiter = mem_zalloc(sizeof(struct tile_waiter));
    return *waiter;
}

static void want_add(struct tile_waiter *waiter, struct tile_read *read)
{
    struct tile_want *want = mem_zalloc(sizeof *want);
    want->waiter = waiter;
    want->read = read;
    want->waiter_next = waiter->wants;
    waiter->wants = want;
    dlist_add_first(&read->wants, &want->link);
    want->answered = read->state == READ_READY || read->state == READ_FAILED;
    waiter->pending_count += !want->answered;
    if (read->in_lru)
        lru_remove(read);
}

bool tiles_wait(struct tiles *tiles, void **to, struct task *task)
{
    struct cache *cache = &tiles->cache;
    bool wants = cache->wanted_run == tiles->kv->run_seq && cache->wanted_count > 0;
    if (!wants && !*to)
        return false;
    struct tile_waiter *waiter = tile__waiter(to);
    waiter->task = task;
    for (size_t i = 0; wants && i < cache->wanted_count; i++)
        want_add(waiter, cache->wanted[i]);
    cache->wanted_count = 0;
    return waiter->pending_count > 0;
}

static void waiter_end(struct tile_waiter *waiter)
{
    while (waiter->wants) {
        struct tile_want *want = waiter->wants;
        struct tile_read *read = want->read;
        waiter->wants = want->waiter_next;
        dlist_remove(&read->wants, &want->link);
        mem_free(want);
        read_settle(read);
    }
    persist__waiter_end(waiter);
    *waiter = (struct tile_waiter){0};
}

void tile_waiter_free(void *waiter)
{
    if (waiter)
        waiter_end(waiter);
    mem_free(waiter);
}

void cache_done(struct cache *cache)
{
    while (cache->all.first) {
        struct tile_read *read = DLIST_ITEM(cache->all.first, struct tile_read, all_link);
        struct tile_want *want = DLIST_ITEM(read->wants.first, struct tile_want, link);
        if (want) /* of a command that goes away with the server; the last one may free the read */
            waiter_end(want->waiter);
        else
            read_free(read);
    }
    mem_free(cache->wanted);
    table_done(&cache->table);
}

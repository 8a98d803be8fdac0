#include "tile/cache.h"

#include "base/mem.h"
#include "tile/tile_int.h"

#include "base/banned.h"

enum read_state { READ_OPEN, READ_ASKED, READ_READY, READ_FAILED };

struct tile_want { /* one command's interest in one read */
    struct tile_waiter *waiter;
    struct tile_read *read;
    bool answered;
    struct tile_want *waiter_next;
    struct tile_want *prev, *next; /* of the read */
};

struct tile_read {
    struct tile_work work;
    struct cache *cache;
    struct tile_type *type;
    struct tilekey key;
    bool at;
    enum read_state state;
    bool in_table;
    struct tile_want *wants;
    struct tile_read *prev, *next; /* of the LRU; next also of the open ones */
    struct tile_read *ats_prev, *ats_next;
    struct tile_read *all_prev, *all_next;
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
    struct cache *cache = read->cache;
    *(read->prev ? &read->prev->next : &cache->lru_first) = read->next;
    *(read->next ? &read->next->prev : &cache->lru_last) = read->prev;
    read->prev = read->next = NULL;
    read->in_lru = false;
    cache->bytes -= read_bytes(read);
}

static void lru_add(struct tile_read *read)
{
    struct cache *cache = read->cache;
    read->prev = NULL;
    read->next = cache->lru_first;
    *(read->next ? &read->next->prev : &cache->lru_last) = read;
    cache->lru_first = read;
    read->in_lru = true;
    cache->bytes += read_bytes(read);
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
    ASSERT(!read->wants);
    table_forget(read);
    if (read->in_lru)
        lru_remove(read);
    if (read->at) {
        *(read->ats_prev ? &read->ats_prev->ats_next : &cache->ats) = read->ats_next;
        if (read->ats_next)
            read->ats_next->ats_prev = read->ats_prev;
    }
    for (size_t i = 0; i < cache->wanted_count;) {
        if (cache->wanted[i] == read)
            cache->wanted[i] = cache->wanted[--cache->wanted_count];
        else
            i++;
    }
    *(read->all_prev ? &read->all_prev->all_next : &cache->all) = read->all_next;
    if (read->all_next)
        read->all_next->all_prev = read->all_prev;
    buf_done(&read->row);
    mem_free(read->err);
    mem_free(read);
}

/* (3) */
static void shrink(struct cache *cache)
{
    while (cache->bytes > cache->bytes_max && cache->lru_last) {
        struct tile_read *last = cache->lru_last;
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
    if (read->wants || read->in_lru || read->state == READ_OPEN || read->state == READ_ASKED)
        return;
    if (!read->in_table || read->at || read->state == READ_FAILED) {
        read_free(read);
        return;
    }
    lru_add(read);
    shrink(read->cache);
}

/* ---- asking ---- */

static void read_run(struct tile_work *work, struct pool *pool)
{
    struct tile_read *read = (struct tile_read *)work;
    struct pool_key key = {tile__reads(read->type), read->type->number,
                           tilekey_place(read->key.packed)};
    struct pool_use use;
    struct err err = {0};
    read->rc = pool_take(pool, &key, SHARD_READ, &use, &err);
    if (read->rc == RC_OK) {
        read->rc =
            use.shard->ops->get(use.shard, read->key, read->at, &read->row, &read->found, &err);
        pool_give(pool, &use);
    }
    if (read->rc != RC_OK && read->rc != RC_NOT_FOUND)
        read->err = mem_dup(&err, sizeof err);
}

static void read_done(struct tile_work *work)
{
    struct tile_read *read = (struct tile_read *)work;
    read->state = read->err ? READ_FAILED : READ_READY;
    read->cache->failures += read->err != NULL;
    for (struct tile_want *want = read->wants; want; want = want->next) {
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
    read->next = cache->open;
    cache->open = read;
    read->all_next = cache->all;
    if (cache->all)
        cache->all->all_prev = read;
    cache->all = read;
    if (at) {
        read->ats_next = cache->ats;
        if (cache->ats)
            cache->ats->ats_prev = read;
        cache->ats = read;
    }
    return read;
}

void cache_turn(struct cache *cache)
{
    while (cache->open) {
        struct tile_read *read = cache->open;
        cache->open = read->next;
        read->next = NULL;
        read->state = READ_ASKED;
        cache->reads++;
        workers_give(cache->tiles->workers, TILE_READER, &read->work);
    }
}

static void want_note(struct cache *cache, struct tile_read *read)
{
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
    for (struct tile_read *at = cache->ats, *next; UNLIKELY(at != NULL); at = next) {
        next = at->ats_next;
        if (at->type == type && at->key.packed == key.packed)
            read_stale(at);
    }
}

/* ---- waiting ---- */

void tiles_run_begin(struct tiles *tiles)
{
    tiles->cache.wanted_count = 0;
}

static void want_add(struct tile_waiter *waiter, struct tile_read *read)
{
    struct tile_want *want = mem_zalloc(sizeof *want);
    want->waiter = waiter;
    want->read = read;
    want->waiter_next = waiter->wants;
    waiter->wants = want;
    want->next = read->wants;
    if (read->wants)
        read->wants->prev = want;
    read->wants = want;
    want->answered = read->state == READ_READY || read->state == READ_FAILED;
    waiter->pending_count += !want->answered;
    if (read->in_lru)
        lru_remove(read);
}

bool tiles_wait(struct tiles *tiles, struct tile_waiter *waiter, struct task *task)
{
    struct cache *cache = &tiles->cache;
    waiter->task = task;
    for (size_t i = 0; i < cache->wanted_count; i++)
        want_add(waiter, cache->wanted[i]);
    cache->wanted_count = 0;
    return waiter->pending_count > 0;
}

void tile_waiter_end(struct tiles *tiles, struct tile_waiter *waiter)
{
    (void)tiles;
    while (waiter->wants) {
        struct tile_want *want = waiter->wants;
        struct tile_read *read = want->read;
        waiter->wants = want->waiter_next;
        *(want->prev ? &want->prev->next : &read->wants) = want->next;
        if (want->next)
            want->next->prev = want->prev;
        mem_free(want);
        read_settle(read);
    }
    persist__waiter_end(waiter);
    *waiter = (struct tile_waiter){0};
}

void cache_done(struct cache *cache)
{
    while (cache->all) {
        struct tile_read *read = cache->all;
        while (read->wants) { /* of commands that go away with the server */
            struct tile_waiter *waiter = read->wants->waiter;
            tile_waiter_end(cache->tiles, waiter);
            if (cache->all != read)
                break; /* it was freed with its last waiter */
        }
        if (cache->all == read)
            read_free(read);
    }
    mem_free(cache->wanted);
    table_done(&cache->table);
}

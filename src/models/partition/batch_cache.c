// SPDX-License-Identifier: Apache-2.0
/* batch_cache.c - a table and an LRU list of opened batches, bounded by bytes. */
#include "models/partition/batch_cache.h"

#include <stdlib.h>

#include "base/codec.h"
#include "base/mem.h"

#include "base/banned.h"

enum { YOUNG_MS = 1000, ENTRY_BYTES = 2048 /* about what an opened batch holds by itself */ };

struct cache_entry {
    uint8_t id[KEY_ID_BYTES];
    struct part_batch *batch;
    uint8_t *frame;
    size_t bytes;
    uint64_t put_ms, used_ms, hit_count;
    struct dlink link;
};

/* LSN and ordinal tell objects apart. */
static uint64_t id_hash(const uint8_t id[KEY_ID_BYTES])
{
    return (be64_get(id) ^ be32_get(id + 12)) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t entry_hash(const void *entry, void *arg)
{
    (void)arg;
    return id_hash(((const struct cache_entry *)entry)->id);
}

static bool entry_eq(const void *entry, const void *key, void *arg)
{
    (void)arg;
    return memcmp(((const struct cache_entry *)entry)->id, key, KEY_ID_BYTES) == 0;
}

void part_cache_init(struct part_cache *cache, size_t bytes_max, uint64_t ttl_ms)
{
    *cache = (struct part_cache){.bytes_max = bytes_max, .ttl_ms = ttl_ms};
    table_init(&cache->table, entry_hash, entry_eq, NULL);
}

static struct cache_entry *entry_of(struct dlink *link)
{
    return DLIST_ITEM(link, struct cache_entry, link);
}

static void entry_drop(struct part_cache *cache, struct cache_entry *entry)
{
    struct table_slot slot;
    if (table_find(&cache->table, id_hash(entry->id), entry->id, &slot))
        table_remove(&cache->table, id_hash(entry->id), slot);
    dlist_remove(&cache->used, &entry->link);
    cache->count--;
    cache->bytes -= entry->bytes;
    part_batch_close(entry->batch);
    mem_free(entry->frame);
    mem_free(entry);
}

void part_cache_done(struct part_cache *cache)
{
    while (cache->used.first)
        entry_drop(cache, entry_of(cache->used.first));
    table_done(&cache->table);
}

/* ---- room ---- */

struct ranked {
    struct cache_entry *entry;
    bool young;
    uint64_t score;
};

/* Those that go first come first. */
static int ranked_cmp(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->young != y->young)
        return x->young ? 1 : -1;
    return (x->score < y->score) - (x->score > y->score);
}

static void old_drop(struct part_cache *cache, uint64_t now_ms)
{
    struct cache_entry *last;
    while ((last = entry_of(cache->used.last)) && now_ms > last->used_ms &&
           now_ms - last->used_ms > cache->ttl_ms)
        entry_drop(cache, last);
}

/* Down to seven eighths, so that it does not happen at every entry. */
static void room_make(struct part_cache *cache, uint64_t now_ms)
{
    size_t wanted = cache->bytes_max - cache->bytes_max / 8, count = 0;
    old_drop(cache, now_ms);
    if (cache->bytes <= cache->bytes_max)
        return;
    struct ranked *ranked = mem_alloc(cache->count * sizeof *ranked + 1);
    for (struct dlink *link = cache->used.first; link; link = link->next) {
        struct cache_entry *entry = entry_of(link);
        uint64_t age_ms = now_ms > entry->put_ms ? now_ms - entry->put_ms : 0;
        ranked[count++] = (struct ranked){
            .entry = entry, .young = age_ms < YOUNG_MS, .score = age_ms / (entry->hit_count + 1)};
    }
    qsort(ranked, count, sizeof *ranked, ranked_cmp);
    for (size_t i = 0; i < count && cache->bytes > wanted; i++)
        entry_drop(cache, ranked[i].entry);
    mem_free(ranked);
}

void part_cache_limit(struct part_cache *cache, size_t bytes_max, uint64_t ttl_ms)
{
    cache->bytes_max = bytes_max;
    cache->ttl_ms = ttl_ms;
}

void part_cache_tidy(struct part_cache *cache, uint64_t now_ms)
{
    room_make(cache, now_ms);
}

/* ---- entries ---- */

struct part_batch *part_cache_get(struct part_cache *cache, const uint8_t id[KEY_ID_BYTES],
                                  uint64_t now_ms)
{
    struct cache_entry *entry = table_find(&cache->table, id_hash(id), id, NULL);
    if (!entry) {
        cache->miss_count++;
        return NULL;
    }
    cache->hit_count++;
    entry->hit_count++;
    entry->used_ms = now_ms;
    dlist_remove(&cache->used, &entry->link);
    dlist_add_first(&cache->used, &entry->link);
    return entry->batch;
}

bool part_cache_has(struct part_cache *cache, const uint8_t id[KEY_ID_BYTES])
{
    return table_find(&cache->table, id_hash(id), id, NULL) != NULL;
}

enum rc part_cache_put(struct part_cache *cache, const uint8_t id[KEY_ID_BYTES], struct bytes frame,
                       uint64_t now_ms, struct part_batch **ret_batch, struct err *err)
{
    room_make(cache, now_ms);
    uint8_t *copy = mem_try_alloc(frame.len);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a batch", frame.len);
    memcpy(copy, frame.ptr, frame.len);
    enum rc rc = part_batch_open(bytes_of(copy, frame.len), ret_batch, err);
    if (rc != RC_OK) {
        mem_free(copy);
        return rc;
    }
    struct cache_entry *entry = mem_zalloc(sizeof *entry);
    memcpy(entry->id, id, KEY_ID_BYTES);
    entry->batch = *ret_batch;
    entry->frame = copy;
    entry->bytes = ENTRY_BYTES + frame.len + part_batch_info(*ret_batch).raw_len;
    entry->put_ms = entry->used_ms = now_ms;
    dlist_add_first(&cache->used, &entry->link);
    cache->count++;
    cache->bytes += entry->bytes;
    table_insert(&cache->table, id_hash(id), entry);
    return RC_OK;
}

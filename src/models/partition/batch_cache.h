// SPDX-License-Identifier: Apache-2.0
/* batch_cache.h - opened batches, kept for whoever asks next.
 *
 * An entry is known by the ID of the string it was read from: no other object ever has that ID, so
 * an entry can be useless but never wrong. When there is no room those go whose age / hits is
 * highest; one younger than a second stays if it can. What nobody asked for in its time to live
 * goes as well.
 *
 * Ownership: the cache owns frames and batches; what it gives out is good until the next
 * part_cache_put() or part_cache_tidy().
 * Threads: one owner. */
#pragma once

#include "base/dlist.h"
#include "base/table.h"
#include "models/partition/archive.h"
#include "types/meta.h"

struct part_cache {
    struct table table;
    struct dlist used; /* of struct cache_entry, last used first */
    size_t count, bytes, bytes_max;
    uint64_t ttl_ms;
    uint64_t hit_count, miss_count;
};

void part_cache_init(struct part_cache *cache, size_t bytes_max, uint64_t ttl_ms);
void part_cache_done(struct part_cache *cache);
void part_cache_limit(struct part_cache *cache, size_t bytes_max, uint64_t ttl_ms);
/* Now and then: what is over its time, or over a limit that has sunk, goes. */
void part_cache_tidy(struct part_cache *cache, uint64_t now_ms);
/* NULL: it is not here. */
struct part_batch *part_cache_get(struct part_cache *cache, const uint8_t id[KEY_ID_BYTES],
                                  uint64_t now_ms);
bool part_cache_has(struct part_cache *cache, const uint8_t id[KEY_ID_BYTES]); /* is no hit */
/* Copies and opens a frame. The entry stays until the next call at least, whatever its size. */
enum rc part_cache_put(struct part_cache *cache, const uint8_t id[KEY_ID_BYTES], struct bytes frame,
                       uint64_t now_ms, struct part_batch **ret_batch, struct err *err) NODISCARD;

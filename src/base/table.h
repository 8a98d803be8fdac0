// SPDX-License-Identifier: Apache-2.0
/* table.h - a hash table of pointers that grows and shrinks one bucket at a time.
 *
 * Linear hashing: no operation ever moves more than one bucket, so there is no pause when the
 * table doubles. A bucket is one cache line: seven slots of (16 bits of hash, 48 bits of pointer)
 * and a link to its overflow. The average load is held near six and a half a bucket.
 *
 * The table does not own what it points to and does not know how to hash it: callers pass hashes,
 * and a callback re-hashes an entry when its bucket is split.
 *
 * Ownership: table_init()/table_done() own the buckets only.
 * Threads: one owner. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_bucket;

typedef uint64_t table_hash_fn(const void *entry, void *arg);
typedef bool table_eq_fn(const void *entry, const void *key, void *arg);

struct table {
    struct table_bucket **chunk; /* chunks of TABLE_CHUNK_BUCKETS buckets */
    size_t chunk_count;
    size_t chunk_cap;
    size_t bucket_count; /* 2^level + split */
    size_t entry_count;
    size_t memory_bytes; /* size classes of everything held here */
    uint32_t level;
    table_hash_fn *hash;
    table_eq_fn *eq;
    void *arg;
};

/* A place in the table; valid until the next insert or remove. */
struct table_slot {
    uint64_t *word;
};

void table_init(struct table *table, table_hash_fn *hash, table_eq_fn *eq, void *arg);
void table_done(struct table *table);

/* The entry for which eq(entry, key) holds, or NULL. ret_slot (may be NULL) is set when found. */
void *table_find(const struct table *table, uint64_t hash, const void *key,
                 struct table_slot *ret_slot);
/* The caller knows that no equal entry is there. Takes a pointer below 2^48. */
void table_insert(struct table *table, uint64_t hash, void *entry);
/* The entry moved in memory (same key): the slot points to the new place. */
void table_slot_replace(struct table_slot slot, void *entry);
/* Removes what table_find() found. */
void table_remove(struct table *table, uint64_t hash, struct table_slot slot);

/* Calls fn for the entries of one bucket and returns the next cursor, 0 when all were visited.
 * Start with 0. An entry that is there from start to end is visited at least once, however the
 * table grows or shrinks in between. fn must not change the table. */
uint64_t table_scan(const struct table *table, uint64_t cursor, void (*fn)(void *entry, void *arg),
                    void *arg);
/* Starts bringing the bucket of this hash into the cache. */
void table_prefetch(const struct table *table, uint64_t hash);
/* The entry that has the hash's tag in a bucket that was brought; nothing is compared. NULL: there
 * is none, or (*ret_more) it may be in the overflow, which is asked for: table_guess_more(). */
void *table_guess(const struct table *table, uint64_t hash, bool *ret_more);
void *table_guess_more(const struct table *table, uint64_t hash);

// SPDX-License-Identifier: Apache-2.0
/* hot.h - the hot tier: every group that is known in memory, and what may leave it.
 *
 * One hash table holds two kinds of entries, told apart by the space of their prefix:
 *   a row    of a SPACE_WHOLE space: header, key and value in one allocation
 *   a group  of the other spaces: header, key and a tree of blocks
 * Both begin with struct hot_head. The key in memory is what follows the prefix; the prefix itself
 * is a number, a "slot".
 *
 * Prefixes: models name them once (hot_prefix()) and get a handle for good. The handle points to a
 * slot. Dropping a prefix gives the handle a fresh slot: everything under the old one is gone at
 * once and is freed in small steps later. No prefix of a space is a prefix of another.
 *
 * Invariants:
 *   (1) Nothing leaves before its last change is at or below the horizon: a row, a tombstone, a
 *       block, an empty group, by its own stamp, its group's (a dropped group) and its slot's
 *       (a dropped prefix).
 *   (2) slot.complete: a key of this slot that is not in the table has no row and no group. It ends
 *       when something with rows leaves the table, and begins with a drop or an empty engine.
 *   (3) Entries are added and removed by loads and evictions only while no change of the turn
 *       could still be undone.
 *
 * Ownership: the hot tier owns its entries.
 * Threads: the executor. */
#pragma once

#include "base/rand.h"
#include "base/table.h"
#include "store/engine/space.h"
#include "store/hot/tree.h"

struct hot_head {
    uint32_t segment;   /* row: of its last change; group: of its last drop or last row's delete */
    uint16_t slot_bits; /* slot << 1 | bit 16 of the key's length */
    uint16_t key_len_low;
};

struct hot_row {
    struct hot_head head;
    uint32_t value_bits; /* length, HOT_ROW_TOMB, HOT_ROW_REF */
    uint8_t bytes[];     /* key, value */
};
_Static_assert(sizeof(struct hot_row) == 12, "a single row costs 12 bytes and its table slot");
#define HOT_ROW_TOMB (UINT32_C(1) << 30)
#define HOT_ROW_REF (UINT32_C(1) << 31)
#define HOT_ROW_LEN (HOT_ROW_TOMB - 1)

struct load;

struct hot_group {
    struct hot_head head;
    struct tree tree;
    struct load *loads; /* in flight or pinned by a task: see load.h */
    uint8_t key[];
};

struct hot_slot {
    uint32_t prefix;  /* the handle it belongs (or belonged) to */
    uint32_t segment; /* of the drop that began it; 0: none */
    uint64_t entry_count;
    uint32_t ref_count; /* loads; the number is not used again while there are any */
    bool used;
    bool whole;    /* its space is a SPACE_WHOLE: its entries are rows */
    bool complete; /* (2) */
    bool dead;     /* dropped: its entries are being freed */
};

struct hot_prefix { /* what a handle means */
    uint8_t space;
    uint32_t slot;
    /* Of the rest of a group key, and of suffixes: what its space and the limits allow. */
    size_t key_len_min, key_len_max, suffix_len_max;
    struct bytes bytes; /* owned */
};

/* Rows of a group that are pinned by a task, ends included. */
struct hot_pin {
    bool has_low, has_high; /* else up to the group's end */
    struct bytes low, high; /* borrowed from a load */
};

enum { HOT_SEEN = 2, HOT_PREFETCHED_MAX = 32, HOT_PREFETCHED_LOOKS = 3 };

struct hot {
    struct table table;
    struct meter meter;
    const struct space_set *spaces;
    uint64_t seed;
    struct hot_slot *slot;
    size_t slot_count;
    struct hot_prefix *prefix;
    size_t prefix_count;
    /* Found last by hot_row_get() and hot_group_get(), and still in the table; or NULL. A command
     * that changes a landed hash goes to and fro between two: the hash and its dirty table. Without
     * the rows an HGET of one hash takes 5 % more instructions, an LINDEX 7 %; without the groups
     * an SADD or SREM of one set 6 %. */
    struct hot_row *seen_row[HOT_SEEN];
    struct hot_group *seen_group[HOT_SEEN];
    uint8_t seen_row_next, seen_group_next; /* the older ones */
    /* Rows of the last prefetch list that are still in the table, in the order in which they will
     * be asked for: then nobody searches it. Only hashes were looked at: one may be another row, or
     * a group. Without it a GET takes 14 % more instructions. */
    struct hot_row *prefetched[HOT_PREFETCHED_MAX];
    uint32_t prefetched_next, prefetched_count;
    uint64_t dead_count;    /* entries of dead slots */
    struct tree *dead_tree; /* of dropped groups: freed in small steps */
    size_t dead_tree_count, dead_tree_cap;
    /* CLOCK */
    uint64_t hand;
    bool hand_in_group;
    uint32_t hand_slot;
    struct buf hand_key;
    struct buf hand_suffix;
    uint64_t sweep_cursor;
    /* Tombstones and empty groups that have come since the last round of hot_purge(), and those it
     * left; some have been filled again. */
    uint64_t trash_count;
    uint32_t purge_count; /* so many begin a round; 0: as hot_purge_begin() finds right */
    bool purging;
    uint64_t purge_cursor, purge_left_count;
    struct hot_head **bucket; /* entries of one bucket while it is visited */
    size_t bucket_count;
    size_t bucket_cap;
    uint64_t evicted_block_count;
    uint64_t evicted_row_count;
    uint64_t purged_count;
    /* Whether a row is pinned by a task; NULL: no row is. */
    bool (*row_pinned)(void *arg, uint32_t slot, struct bytes key);
    void *row_pinned_arg;
    /* Adds what is pinned of a group with hot_pin_add(); NULL: nothing ever is. */
    void (*group_pins)(struct hot *hot, const struct hot_group *group);
    struct hot_pin *pin; /* of the group whose blocks are visited, by their low ends */
    size_t pin_count, pin_cap;
};

void hot_init(struct hot *hot, const struct space_set *spaces, uint64_t seed, uint32_t mark);
void hot_done(struct hot *hot);

/* Finds or adds a prefix. A new one is incomplete until hot_slot_complete(). RC_INVALID: it is a
 * prefix of another of its space, or the other way round. RC_TOO_BIG. */
enum rc hot_prefix_add(struct hot *hot, uint8_t space, struct bytes prefix, uint32_t *ret_prefix,
                       struct err *err) NODISCARD;
/* Forgets the newest prefix, which could not be written down and has no entries. */
void hot_prefix_drop_last(struct hot *hot);
/* Which prefix a full group key belongs to; RC_NOT_FOUND. */
enum rc hot_prefix_match(const struct hot *hot, uint8_t space, struct bytes group,
                         uint32_t *ret_prefix) NODISCARD;
/* A fresh slot for the handle; returns the old one. RC_FULL-like exhaustion sweeps by itself. */
uint32_t hot_prefix_drop(struct hot *hot, uint32_t prefix, uint32_t segment);
/* Takes a drop back: the fresh slot must be empty of live changes. */
void hot_prefix_undrop(struct hot *hot, uint32_t prefix, uint32_t old_slot);
/* The turn of a drop is written: the old slot's entries may be freed. */
void hot_slot_release(struct hot *hot, uint32_t slot);
void hot_slot_ref(struct hot *hot, uint32_t slot);
void hot_slot_unref(struct hot *hot, uint32_t slot);

static inline uint32_t hot_head_slot(const struct hot_head *head)
{
    return head->slot_bits >> 1;
}
static inline size_t hot_head_key_len(const struct hot_head *head)
{
    return (size_t)(head->slot_bits & 1) << 16 | head->key_len_low;
}
static inline struct bytes hot_row_key(const struct hot_row *row)
{
    return bytes_of(row->bytes, hot_head_key_len(&row->head));
}
static inline struct bytes hot_row_value(const struct hot_row *row)
{
    return bytes_of(row->bytes + hot_head_key_len(&row->head), row->value_bits & HOT_ROW_LEN);
}
static inline struct bytes hot_group_key(const struct hot_group *group)
{
    return bytes_of(group->key, hot_head_key_len(&group->head));
}
static inline bool hot_slot_whole(const struct hot *hot, uint32_t slot)
{
    return hot->slot[slot].whole;
}

uint64_t hot_hash(const struct hot *hot, uint32_t slot, struct bytes key);

/* ---- rows ---- */
struct hot_row *hot_row_find(const struct hot *hot, uint32_t slot, struct bytes key, uint64_t hash);
/* The same without a hash if it was asked for lately, or is expected. */
struct hot_row *hot_row_get(struct hot *hot, uint32_t slot, struct bytes key);
/* The row, if it is one of those asked for last; else NULL, whatever the table has. */
static inline struct hot_row *hot_row_seen(const struct hot *hot, uint32_t slot, struct bytes key)
{
    for (unsigned i = 1; i <= HOT_SEEN; i++) { /* the newest one first */
        struct hot_row *row = hot->seen_row[hot->seen_row_next ^ (i & 1)];
        if (row && hot_head_slot(&row->head) == slot && bytes_eq(hot_row_key(row), key))
            return row;
    }
    return NULL;
}
/* Puts another value of the same length into a row of the table that is no tombstone. */
void hot_row_rewrite(struct hot *hot, struct hot_row *row, struct bytes value, uint32_t segment);
/* Allocates a row that is not in the table; NULL: no memory. */
struct hot_row *hot_row_new(uint32_t slot, struct bytes key, struct bytes value, bool tomb,
                            uint32_t segment);
/* Puts the row (taken) in the place of the one with its key. Returns the old one, now the caller's,
 * or NULL. */
struct hot_row *hot_row_swap(struct hot *hot, struct hot_row *row, uint64_t hash);
void hot_row_remove(struct hot *hot, struct hot_row *row, uint64_t hash); /* not freed */
void hot_row_free(struct hot_row *row);

/* ---- groups ---- */
struct hot_group *hot_group_find(const struct hot *hot, uint32_t slot, struct bytes key,
                                 uint64_t hash);
struct hot_group *hot_group_get(struct hot *hot, uint32_t slot, struct bytes key); /* as of rows */
struct hot_group *hot_group_add(struct hot *hot, uint32_t slot, struct bytes key, uint64_t hash,
                                bool complete);
void hot_group_stamp(struct hot *hot, struct hot_group *group, uint32_t segment);
/* Takes a tree that is in no group any more; a large one is freed by later sweeps. */
void hot_tree_free(struct hot *hot, struct tree *tree);

/* ---- leaving ---- */
void hot_pin_add(struct hot *hot, struct hot_pin pin); /* by group_pins() */
struct hot_evict_result {
    uint64_t freed_bytes;
    bool lap; /* the hand came round: everything was seen once */
};
/* The hand goes on in this group, from this suffix on: what is there was passed by a walk that does
 * not come back, and leaves before anything else. */
void hot_hand_set(struct hot *hot, uint32_t slot, struct bytes group_key, struct bytes suffix);
/* Visits some entries from the hand on and evicts what is clean and not used, until freed_bytes
 * reaches want_bytes or visit_max entries and blocks were seen. */
struct hot_evict_result hot_evict(struct hot *hot, uint32_t horizon, uint64_t want_bytes,
                                  uint32_t visit_max);
/* Frees trees of dropped groups, some blocks a bucket, then entries of dead slots, up to the end of
 * the table; true: there is more, or loads pin some. */
bool hot_sweep(struct hot *hot, uint32_t bucket_max);
/* Something was flushed: begins a round of hot_purge() if a good part of the entries is trash. */
void hot_purge_begin(struct hot *hot);
/* Takes clean tombstones that nobody has asked for, and clean empty groups, out of some buckets, as
 * an eviction would. Queues that run empty and keys that come and go would fill the memory with
 * them. */
void hot_purge(struct hot *hot, uint32_t horizon, uint32_t bucket_max);
uint64_t hot_bytes(const struct hot *hot); /* entries, blocks and the table itself */

#include "store/store_int.h"
#include "store/tree_inner.h"

#include "base/banned.h"

/* A get of a random hot row is two cache misses, its bucket and the row itself, and next to nothing
 * else. The misses of one get depend on each other, those of different keys do not: so all buckets
 * are asked for first, then all entries, then the roots of groups, and each step finds what the one
 * before has asked for. Nothing is compared: an entry that only shares its key's 16 bits of hash is
 * brought in vain. */

enum {
    STEP_KEYS = 16, /* about as many misses as a core has in flight */
    LINE_BYTES = 64,
    ROW_LINES = 2,   /* a row's header, its key and the beginning of its value */
    BLOCK_LINES = 4, /* a small block, or the directory of a larger one */
};

static bool any_entry(const void *entry, const void *key, void *arg)
{
    (void)entry;
    (void)key;
    (void)arg;
    return true;
}

static void lines_prefetch(const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch((const uint8_t *)from + i * LINE_BYTES);
}

static void root_prefetch(const struct hot *hot, const struct hot_head *head)
{
    if (hot_slot_whole(hot, hot_head_slot(head)))
        return; /* it only looked like the group */
    const struct tree *tree = &((const struct hot_group *)head)->tree;
    if (tree->root && tree->height > 0)
        inner_prefetch(tree->root);
    else if (tree->root)
        lines_prefetch(tree->root, BLOCK_LINES);
}

/* `any` is the hot tier's table, except that every entry is equal to every key. */
static void keys_prefetch(const struct hot *hot, const struct table *any,
                          const struct store_group *group, size_t count)
{
    uint64_t hash[STEP_KEYS];
    const struct hot_head *root_of[STEP_KEYS];
    size_t root_count = 0;

    for (size_t i = 0; i < count; i++) {
        ASSERT(group[i].prefix < hot->prefix_count);
        struct bytes key = group[i].key;
        if (UNLIKELY(key.len > STORE_GROUP_KEY_BYTES_MAX))
            key.len = 0; /* there is no such key; no time is spent on its hash */
        hash[i] = hot_hash(hot, hot->prefix[group[i].prefix].slot, key);
        table_prefetch(any, hash[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const struct hot_head *head = table_find(any, hash[i], NULL, NULL);
        if (!head)
            continue;
        lines_prefetch(head, ROW_LINES);
        if (!hot_slot_whole(hot, hot->prefix[group[i].prefix].slot))
            root_of[root_count++] = head;
    }
    for (size_t i = 0; i < root_count; i++)
        root_prefetch(hot, root_of[i]);
}

void store_prefetch(struct store *store, const struct store_group *group, size_t count)
{
    struct table any = store->hot.table; /* shares the buckets, which are only read */
    any.eq = any_entry;
    for (size_t at = 0; at < count; at += STEP_KEYS)
        keys_prefetch(&store->hot, &any, group + at,
                      count - at < STEP_KEYS ? count - at : STEP_KEYS);
}

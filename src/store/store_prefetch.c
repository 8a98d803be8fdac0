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

/* ---- rows of groups ---- */

/* One level of all trees after the other; the misses of a level overlap. `at` ends at the blocks,
 * with as many bytes of the suffixes as are known to be theirs, and where rows are that are out of
 * line. */
static void rows_descend(const struct store_row *row, const struct tree **tree, size_t count,
                         const void **at, size_t *known, uint16_t *index)
{
    bool more = true;
    for (size_t i = 0; i < count; i++) {
        at[i] = tree[i] ? tree[i]->root : NULL;
        known[i] = 0;
    }
    for (uint8_t level = 0; more; level++) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            if (!at[i] || level >= tree[i]->height)
                continue;
            const struct inner *node = at[i];
            at[i] = node->child[inner_find(node, row[i].suffix, &known[i])];
            if (level + 1 < tree[i]->height)
                inner_prefetch(at[i]);
            else
                block_prefetch(at[i]);
            more = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (at[i])
            index[i] = block_prefetch_entry(at[i], row[i].suffix);
    for (size_t i = 0; i < count; i++)
        if (at[i])
            index[i] = block_prefetch_out(at[i], row[i].suffix, index[i]);
}

/* Those that are out of line: what is in line is found as fast as it is compared. */
static void rows_foresee(struct store *store, const struct store_row *row, size_t count,
                         const struct tree **tree, const void **block, const uint16_t *index)
{
    for (size_t i = 0; i < count && store->foreseen.count < STORE_FORESEEN_MAX; i++) {
        struct block *found = (struct block *)block[i];
        if (!found || index[i] == found->count || row[i].suffix.len > STORE_FORESEEN_BYTES)
            continue;
        struct store_foreseen *seen = &store->foreseen.row[store->foreseen.count++];
        *seen = (struct store_foreseen){
            .group = (const struct hot_group *)((const uint8_t *)tree[i] -
                                                offsetof(struct hot_group, tree)),
            .block = found,
            .index = index[i],
            .suffix_len = (uint8_t)row[i].suffix.len};
        if (row[i].suffix.len)
            memcpy(seen->suffix, row[i].suffix.ptr, row[i].suffix.len);
    }
}

/* The trees of a step's groups; their roots are asked for. */
static void trees_find(const struct hot *hot, const struct store_row *row, size_t count,
                       const struct tree **tree)
{
    uint64_t hash[STEP_KEYS];
    for (size_t i = 0; i < count; i++) {
        ASSERT(row[i].group.key.len <= STORE_GROUP_KEY_BYTES_MAX);
        if (i > 0 && row[i].group.key.ptr == row[i - 1].group.key.ptr)
            continue;
        hash[i] = hot_hash(hot, hot->prefix[row[i].group.prefix].slot, row[i].group.key);
        table_prefetch(&hot->table, hash[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && row[i].group.key.ptr == row[i - 1].group.key.ptr) {
            tree[i] = tree[i - 1];
            continue;
        }
        const struct hot_group *group =
            hot_group_find(hot, hot->prefix[row[i].group.prefix].slot, row[i].group.key, hash[i]);
        tree[i] = group ? &group->tree : NULL;
        if (group)
            root_prefetch(hot, &group->head);
    }
}

void store_prefetch_rows(struct store *store, const struct store_row *row, size_t count)
{
    const struct tree *tree[STEP_KEYS];
    const void *block[STEP_KEYS];
    size_t known[STEP_KEYS];
    uint16_t index[STEP_KEYS];
    store->foreseen.count = store->foreseen.next = 0;
    store->foreseen.change = store->change_count;
    for (size_t at = 0; at < count; at += STEP_KEYS, row += STEP_KEYS) {
        size_t step = count - at < STEP_KEYS ? count - at : STEP_KEYS;
        trees_find(&store->hot, row, step, tree);
        rows_descend(row, tree, step, block, known, index);
        rows_foresee(store, row, step, tree, block, index);
    }
}

void store_peek_rows(struct store *store, const struct store_row *row, size_t count,
                     struct bytes *ret_packed)
{
    const struct tree *tree[STEP_KEYS];
    const void *block[STEP_KEYS];
    size_t known[STEP_KEYS];
    uint16_t index_out[STEP_KEYS];
    for (size_t at = 0; at < count; at += STEP_KEYS, row += STEP_KEYS, ret_packed += STEP_KEYS) {
        size_t step = count - at < STEP_KEYS ? count - at : STEP_KEYS;
        trees_find(&store->hot, row, step, tree);
        rows_descend(row, tree, step, block, known, index_out);
        for (size_t i = 0; i < step; i++) {
            bool exact = false;
            uint16_t index =
                block[i] ? block_find_skip(block[i], row[i].suffix, known[i], &exact) : 0;
            struct entry entry = {0};
            if (exact)
                entry = block_entry(block[i], index);
            ret_packed[i] = entry.flags & ENTRY_TOMB ? (struct bytes){0} : entry.value;
        }
    }
}

bool store_peek(struct store *store, struct store_group group, struct bytes *ret_packed)
{
    struct hot *hot = &store->hot;
    if (group.key.len > STORE_GROUP_KEY_BYTES_MAX)
        return false;
    const struct hot_row *row = hot_row_get(hot, hot->prefix[group.prefix].slot, group.key);
    if (!row || row->value_bits & HOT_ROW_TOMB)
        return false;
    *ret_packed = hot_row_value(row);
    return true;
}

size_t store_peek_suffixes(struct store *store, struct store_group group, struct bytes from,
                           bool reverse, struct bytes *ret_suffix, size_t max)
{
    size_t count = 0;
    struct hot *hot = &store->hot;
    struct tree_pos pos;
    if (group.key.len > STORE_GROUP_KEY_BYTES_MAX)
        return 0;
    const struct hot_group *found = hot_group_get(hot, hot->prefix[group.prefix].slot, group.key);
    if (!found)
        return 0;
    const struct tree *tree = &found->tree;
    tree_seek(tree, from, &pos);
    bool more = reverse ? tree_prev(tree, &pos) : tree_settle(tree, &pos);
    while (more && count < max && !(block_flags(pos.block, pos.index) & ENTRY_TOMB)) {
        ret_suffix[count++] = block_entry(pos.block, pos.index).suffix;
        more = reverse ? tree_prev(tree, &pos) : tree_next(tree, &pos);
    }
    return count;
}

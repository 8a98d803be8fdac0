// SPDX-License-Identifier: Apache-2.0
/* store_prefetch.c - brings what a command will touch into the processor's cache. */
#include "store/hot/tree_inner.h"
#include "store/rows/store_int.h"

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

void store_prefetch_add(struct store *store, struct store_prefetch_list *list,
                        struct store_group group)
{
    const struct hot *hot = &store->hot;
    ASSERT(group.prefix < hot->prefix_count);
    if (list->count == STORE_PREFETCH_MAX)
        return;
    if (group.key.len > STORE_GROUP_KEY_BYTES_MAX)
        return; /* there is no such key */
    uint64_t hash = hot_hash(hot, hot->prefix[group.prefix].slot, group.key);
    table_prefetch(&hot->table, hash);
    list->hash[list->count] = hash;
    list->prefix[list->count++] = group.prefix;
}

/* Entries in the overflow of their bucket come one step later than the others. */
static void step_bring(struct hot *hot, const uint32_t *prefix, const uint64_t *hash, size_t count)
{
    struct hot_head *head[STEP_KEYS];
    bool more[STEP_KEYS];
    for (size_t i = 0; i < count; i++) {
        head[i] = table_guess(&hot->table, hash[i], &more[i]);
        if (head[i])
            lines_prefetch(head[i], ROW_LINES);
    }
    for (size_t i = 0; i < count; i++) {
        if (UNLIKELY(more[i]))
            head[i] = table_guess_more(&hot->table, hash[i]);
        if (UNLIKELY(more[i]) && head[i])
            lines_prefetch(head[i], ROW_LINES);
    }
    for (size_t i = 0; i < count; i++) {
        if (!head[i])
            continue;
        if (!hot_slot_whole(hot, hot->prefix[prefix[i]].slot))
            root_prefetch(hot, head[i]);
        else if (hot->prefetched_count < HOT_PREFETCHED_MAX)
            hot->prefetched[hot->prefetched_count++] = (struct hot_row *)head[i];
    }
}

void store_prefetch_bring(struct store *store, struct store_prefetch_list *list)
{
    struct hot *hot = &store->hot;
    hot->prefetched_next = hot->prefetched_count = 0;
    for (size_t at = 0; at < list->count; at += STEP_KEYS)
        step_bring(hot, list->prefix + at, list->hash + at,
                   list->count - at < STEP_KEYS ? list->count - at : STEP_KEYS);
    list->count = 0;
}

void store_prefetch(struct store *store, const struct store_group *group, size_t count)
{
    struct store_prefetch_list list;
    for (size_t at = 0; at < count;) {
        list.count = 0;
        for (; at < count && list.count < STORE_PREFETCH_MAX; at++)
            store_prefetch_add(store, &list, group[at]);
        store_prefetch_bring(store, &list);
    }
}

/* ---- rows of groups ---- */

/* One level of all trees after the other; the misses of a level overlap. `at` ends at the blocks.
 * What is known of each path is noted. */
static void rows_descend(const struct store_row *row, struct store_path_hint *hint, size_t count,
                         const void **at)
{
    size_t known[STEP_KEYS];
    bool more = true;
    for (size_t i = 0; i < count; i++) {
        at[i] = hint[i].group ? hint[i].group->tree.root : NULL;
        known[i] = 0;
    }
    for (uint8_t level = 0; more; level++) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            if (!at[i] || level >= hint[i].group->tree.height)
                continue;
            struct inner *node = (struct inner *)(uintptr_t)at[i];
            uint16_t index = inner_find(node, row[i].suffix, &known[i]);
            at[i] = node->child[index];
            if (level + 1 < hint[i].group->tree.height)
                inner_prefetch(at[i]);
            else
                __builtin_prefetch(at[i]); /* it says how long the directory is */
            if (level < STORE_PATH_HINT_LEVELS)
                hint[i].path[level] = (struct tree_step){node, index};
            more = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (at[i])
            block_prefetch_slots(at[i]);
    for (size_t i = 0; i < count; i++) {
        hint[i].known = (uint16_t)known[i];
        if (at[i])
            hint[i].slot = block_prefetch_entry(at[i], row[i].suffix);
    }
    for (size_t i = 0; i < count; i++)
        if (at[i])
            block_prefetch_out(at[i], row[i].suffix, hint[i].slot);
}

/* The groups of a step's rows; the roots of their trees are asked for. */
static void groups_find(const struct hot *hot, const struct store_row *row, size_t count,
                        struct store_path_hint *hint)
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
            hint[i].group = hint[i - 1].group;
            continue;
        }
        hint[i].group =
            hot_group_find(hot, hot->prefix[row[i].group.prefix].slot, row[i].group.key, hash[i]);
        if (hint[i].group)
            root_prefetch(hot, &hint[i].group->head);
    }
}

/* Names the path hints of a step; those that cannot be kept lead nowhere. */
static void path_hints_name(const struct store_row *row, struct store_path_hint *hint, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes suffix = row[i].suffix;
        if (!hint[i].group)
            continue;
        if (suffix.len > STORE_PATH_HINT_BYTES ||
            hint[i].group->tree.height > STORE_PATH_HINT_LEVELS) {
            hint[i].group = NULL;
            continue;
        }
        hint[i].suffix_len = (uint8_t)suffix.len;
        if (suffix.len)
            memcpy(hint[i].suffix, suffix.ptr, suffix.len);
    }
}

void store_prefetch_rows(struct store *store, const struct store_row *row, size_t count)
{
    const void *block[STEP_KEYS];
    struct store_path_hint further[STEP_KEYS];
    store->path_hints.count = store->path_hints.next = 0;
    store->path_hints.shape = store->shape_count;
    for (size_t at = 0; at < count; at += STEP_KEYS, row += STEP_KEYS) {
        size_t step = count - at < STEP_KEYS ? count - at : STEP_KEYS;
        bool kept = at + step <= STORE_PATH_HINTS_MAX;
        struct store_path_hint *hint = kept ? store->path_hints.hint + at : further;
        groups_find(&store->hot, row, step, hint);
        rows_descend(row, hint, step, block);
        if (!kept)
            continue;
        path_hints_name(row, hint, step);
        store->path_hints.count += (uint32_t)step;
    }
}

void store_peek_rows(struct store *store, const struct store_row *row, size_t count,
                     struct bytes *ret_packed)
{
    const void *block[STEP_KEYS];
    struct store_path_hint hint[STEP_KEYS];
    for (size_t at = 0; at < count; at += STEP_KEYS, row += STEP_KEYS, ret_packed += STEP_KEYS) {
        size_t step = count - at < STEP_KEYS ? count - at : STEP_KEYS;
        groups_find(&store->hot, row, step, hint);
        rows_descend(row, hint, step, block);
        for (size_t i = 0; i < step; i++) {
            bool exact = false;
            uint16_t index = block[i] ? block_find_hint(block[i], row[i].suffix, hint[i].known,
                                                        hint[i].slot, &exact)
                                      : 0;
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
    uint32_t next = hot->prefetched_next; /* who asks comes again */
    const struct hot_row *row = hot_row_get(hot, hot->prefix[group.prefix].slot, group.key);
    hot->prefetched_next = next;
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
    bool more = reverse ? tree_prev(tree, &pos) : tree_to_entry(tree, &pos);
    while (more && count < max && !(block_flags(pos.block, pos.index) & ENTRY_TOMB)) {
        ret_suffix[count++] = block_entry(pos.block, pos.index).suffix;
        more = reverse ? tree_prev(tree, &pos) : tree_next(tree, &pos);
    }
    return count;
}

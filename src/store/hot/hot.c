// SPDX-License-Identifier: Apache-2.0
/* hot.c - the table of rows and groups in memory, and what leaves it. */
#include "store/hot/hot.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    SWEEP_BLOCKS = 4, /* of dead trees, a bucket */
    TIDY_TRASH_MIN = 4096,
    TIDY_PART = 4, /* a quarter of the entries: then each piece of trash costs a few looks */
};

struct hot_key {
    uint32_t slot;
    struct bytes bytes;
};

static struct bytes head_key(const struct hot *hot, const struct hot_head *head)
{
    if (hot_slot_whole(hot, hot_head_slot(head)))
        return hot_row_key((const struct hot_row *)head);
    return hot_group_key((const struct hot_group *)head);
}

uint64_t hot_hash(const struct hot *hot, uint32_t slot, struct bytes key)
{
    uint64_t seed = hot->seed ^ slot * UINT64_C(0x9e3779b97f4a7c15);
    return XXH3_64bits_withSeed(key.ptr, key.len, seed);
}

static uint64_t entry_hash(const void *entry, void *arg)
{
    const struct hot_head *head = entry;
    return hot_hash(arg, hot_head_slot(head), head_key(arg, head));
}

static bool entry_eq(const void *entry, const void *key, void *arg)
{
    const struct hot_head *head = entry;
    const struct hot_key *wanted = key;
    return hot_head_slot(head) == wanted->slot && bytes_eq(head_key(arg, head), wanted->bytes);
}

void hot_init(struct hot *hot, const struct space_set *spaces, uint64_t seed, uint32_t mark)
{
    *hot = (struct hot){.spaces = spaces, .seed = seed};
    table_init(&hot->table, entry_hash, entry_eq, hot);
    meter_init(&hot->meter, mark);
    buf_init(&hot->hand_key, STORE_GROUP_KEY_BYTES_MAX);
    buf_init(&hot->hand_suffix, STORE_SUFFIX_BYTES_MAX);
}

static size_t row_bytes(const struct hot_row *row)
{
    return mem_class_bytes(sizeof *row + hot_head_key_len(&row->head) +
                           (row->value_bits & HOT_ROW_LEN));
}

static size_t group_bytes(const struct hot_group *group)
{
    return mem_class_bytes(sizeof *group + hot_head_key_len(&group->head));
}

void hot_tree_free(struct hot *hot, struct tree *tree)
{
    if (tree->height == 0) {
        tree_done(tree, &hot->meter);
        return;
    }
    if (hot->dead_tree_count == hot->dead_tree_cap) {
        hot->dead_tree_cap = hot->dead_tree_cap ? hot->dead_tree_cap * 2 : 16;
        hot->dead_tree = mem_realloc(hot->dead_tree, hot->dead_tree_cap * sizeof *hot->dead_tree);
    }
    hot->dead_tree[hot->dead_tree_count++] = *tree;
    *tree = (struct tree){0};
}

static void dead_trees_free(struct hot *hot, uint32_t blocks)
{
    while (hot->dead_tree_count > 0 &&
           tree_done_some(&hot->dead_tree[hot->dead_tree_count - 1], &hot->meter, &blocks))
        hot->dead_tree_count--;
}

static void entry_free(struct hot *hot, struct hot_head *head)
{
    if (hot_slot_whole(hot, hot_head_slot(head))) {
        struct hot_row *row = (struct hot_row *)head;
        meter_sub(&hot->meter, head->segment, row_bytes(row));
        mem_free(row);
        return;
    }
    struct hot_group *group = (struct hot_group *)head;
    hot_tree_free(hot, &group->tree);
    meter_sub(&hot->meter, head->segment, group_bytes(group));
    mem_free(group);
}

static void bucket_add(void *entry, void *arg)
{
    struct hot *hot = arg;
    if (hot->bucket_count == hot->bucket_cap) {
        hot->bucket_cap = hot->bucket_cap ? hot->bucket_cap * 2 : 64;
        hot->bucket = mem_realloc(hot->bucket, hot->bucket_cap * sizeof(void *));
    }
    hot->bucket[hot->bucket_count++] = entry;
}

static uint64_t bucket_collect(struct hot *hot, uint64_t cursor)
{
    hot->bucket_count = 0;
    return table_scan(&hot->table, cursor, bucket_add, hot);
}

void hot_done(struct hot *hot)
{
    if (!hot || !hot->spaces)
        return;
    uint64_t cursor = 0;
    do {
        cursor = bucket_collect(hot, cursor);
        for (size_t i = 0; i < hot->bucket_count; i++)
            entry_free(hot, hot->bucket[i]);
    } while (cursor);
    dead_trees_free(hot, UINT32_MAX);
    mem_free(hot->dead_tree);
    table_done(&hot->table);
    meter_done(&hot->meter);
    buf_done(&hot->hand_key);
    buf_done(&hot->hand_suffix);
    for (size_t i = 0; i < hot->prefix_count; i++)
        mem_free((void *)(uintptr_t)hot->prefix[i].bytes.ptr);
    mem_free(hot->prefix);
    mem_free(hot->slot);
    mem_free(hot->bucket);
    mem_free(hot->pin);
    *hot = (struct hot){0};
}

/* ---- prefixes ---- */

static uint32_t slot_new(struct hot *hot, uint32_t prefix, uint32_t segment, bool complete)
{
    size_t at = 0;
    while (at < hot->slot_count && hot->slot[at].used)
        at++;
    if (at > STORE_PREFIXES_MAX) { /* only dropped prefixes can fill the numbers: free them now */
        hot->sweep_cursor = 0;
        hot_sweep(hot, UINT32_MAX);
        for (at = 0; at < hot->slot_count && hot->slot[at].used; at++)
            continue;
        ASSERT(at <= STORE_PREFIXES_MAX);
    }
    if (at == hot->slot_count) {
        hot->slot = mem_realloc(hot->slot, (at + 16) * sizeof *hot->slot);
        memset(hot->slot + at, 0, 16 * sizeof *hot->slot);
        hot->slot_count = at + 16;
    }
    uint8_t space = hot->prefix[prefix].space;
    hot->slot[at] = (struct hot_slot){.prefix = prefix,
                                      .segment = segment,
                                      .used = true,
                                      .whole = hot->spaces->space[space].kind == SPACE_WHOLE,
                                      .complete = complete};
    return (uint32_t)at;
}

_Static_assert((int)STORE_PREFIX_BYTES_MAX <= (int)STORE_LENGTH_KEY_BYTES_MAX, "no limit wraps");
_Static_assert(HOT_SEEN == 2, "the newest one and the other");

/* Where the space has no room for such a prefix, no key fits. */
static void prefix_limits(struct hot_prefix *prefix, const struct store_space *space)
{
    size_t len = prefix->bytes.len;
    prefix->key_len_min = 0;
    prefix->key_len_max = STORE_GROUP_KEY_BYTES_MAX;
    prefix->suffix_len_max = space->kind == SPACE_WHOLE ? 0 : STORE_SUFFIX_BYTES_MAX;
    if (space->kind == SPACE_FIXED)
        prefix->key_len_min = prefix->key_len_max = (size_t)space->fixed_bytes - len;
    else if (space->kind == SPACE_LENGTH)
        prefix->key_len_max = (size_t)STORE_LENGTH_KEY_BYTES_MAX - len;
}

enum rc hot_prefix_add(struct hot *hot, uint8_t space, struct bytes prefix, uint32_t *ret_prefix,
                       struct err *err)
{
    if (hot->spaces->space[space].kind == SPACE_NONE)
        return err_set(err, RC_INVALID, "there is no space %u", space);
    if (prefix.len > STORE_PREFIX_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a prefix of %zu bytes is over the limit of %d", prefix.len,
                       STORE_PREFIX_BYTES_MAX);
    for (size_t i = 0; i < hot->prefix_count; i++) {
        const struct hot_prefix *other = &hot->prefix[i];
        if (other->space != space)
            continue;
        if (bytes_eq(other->bytes, prefix)) {
            *ret_prefix = (uint32_t)i;
            return RC_OK;
        }
        if (bytes_start_with(other->bytes, prefix) || bytes_start_with(prefix, other->bytes))
            return err_set(err, RC_INVALID, "prefix \"%.*s\" of space %u collides with \"%.*s\"",
                           (int)prefix.len, (const char *)prefix.ptr, space, (int)other->bytes.len,
                           (const char *)other->bytes.ptr);
    }
    if (hot->prefix_count >= STORE_PREFIXES_MAX / 2)
        return err_set(err, RC_TOO_BIG, "there are %zu prefixes already", hot->prefix_count);
    hot->prefix = mem_realloc(hot->prefix, (hot->prefix_count + 1) * sizeof *hot->prefix);
    uint32_t handle = (uint32_t)hot->prefix_count++;
    hot->prefix[handle] = (struct hot_prefix){
        .space = space, .bytes = bytes_of(mem_dup(prefix.ptr, prefix.len), prefix.len)};
    prefix_limits(&hot->prefix[handle], &hot->spaces->space[space]);
    hot->prefix[handle].slot = slot_new(hot, handle, 0, false);
    *ret_prefix = handle;
    return RC_OK;
}

void hot_prefix_drop_last(struct hot *hot)
{
    struct hot_prefix *last = &hot->prefix[--hot->prefix_count];
    ASSERT(hot->slot[last->slot].entry_count == 0);
    hot->slot[last->slot].used = false;
    mem_free((void *)(uintptr_t)last->bytes.ptr);
}

enum rc hot_prefix_match(const struct hot *hot, uint8_t space, struct bytes group,
                         uint32_t *ret_prefix)
{
    for (size_t i = 0; i < hot->prefix_count; i++) {
        if (hot->prefix[i].space == space && bytes_start_with(group, hot->prefix[i].bytes)) {
            *ret_prefix = (uint32_t)i;
            return RC_OK;
        }
    }
    return RC_NOT_FOUND;
}

uint32_t hot_prefix_drop(struct hot *hot, uint32_t prefix, uint32_t segment)
{
    uint32_t old = hot->prefix[prefix].slot;
    hot->prefix[prefix].slot = slot_new(hot, prefix, segment, true);
    return old;
}

void hot_prefix_undrop(struct hot *hot, uint32_t prefix, uint32_t old_slot)
{
    uint32_t fresh = hot->prefix[prefix].slot;
    hot->prefix[prefix].slot = old_slot;
    hot_slot_release(hot, fresh);
}

/* Its number may be given again. */
static void slot_maybe_free(struct hot_slot *slot)
{
    if (slot->dead && slot->entry_count == 0 && slot->ref_count == 0)
        slot->used = false;
}

void hot_slot_release(struct hot *hot, uint32_t slot)
{
    ASSERT(hot->slot[slot].used && !hot->slot[slot].dead);
    hot->slot[slot].dead = true;
    hot->dead_count += hot->slot[slot].entry_count;
    slot_maybe_free(&hot->slot[slot]);
}

void hot_slot_ref(struct hot *hot, uint32_t slot)
{
    hot->slot[slot].ref_count++;
}

void hot_slot_unref(struct hot *hot, uint32_t slot)
{
    ASSERT(hot->slot[slot].ref_count > 0);
    hot->slot[slot].ref_count--;
    slot_maybe_free(&hot->slot[slot]);
}

/* ---- entries ---- */

static void head_init(struct hot_head *head, uint32_t slot, size_t key_len, uint32_t segment)
{
    ASSERT(key_len <= STORE_GROUP_KEY_BYTES_MAX);
    head->segment = segment;
    head->slot_bits = (uint16_t)(slot << 1 | key_len >> 16);
    head->key_len_low = (uint16_t)key_len;
}

struct hot_row *hot_row_find(const struct hot *hot, uint32_t slot, struct bytes key, uint64_t hash)
{
    struct hot_key wanted = {slot, key};
    return table_find(&hot->table, hash, &wanted, NULL);
}

/* The row, if it is one of the next `looks` of the prefetch list. */
static inline struct hot_row *row_prefetched(struct hot *hot, uint32_t slot, struct bytes key,
                                             uint32_t looks)
{
    for (uint32_t i = hot->prefetched_next; i < hot->prefetched_count && looks > 0; i++, looks--) {
        struct hot_row *row = hot->prefetched[i];
        if (hot_head_slot(&row->head) == slot && bytes_eq(hot_row_key(row), key)) {
            hot->prefetched_next = i + 1;
            return row;
        }
    }
    return NULL;
}

struct hot_row *hot_row_get(struct hot *hot, uint32_t slot, struct bytes key)
{
    struct hot_row *row = row_prefetched(hot, slot, key, 1);
    if (!row)
        row = hot_row_seen(hot, slot, key);
    if (!row)
        row = row_prefetched(hot, slot, key, HOT_PREFETCHED_LOOKS);
    if (!row)
        row = hot_row_find(hot, slot, key, hot_hash(hot, slot, key));
    if (row && hot->seen_row[0] != row && hot->seen_row[1] != row) {
        hot->seen_row[hot->seen_row_next] = row;
        hot->seen_row_next ^= 1;
    }
    return row;
}

void hot_row_rewrite(struct hot *hot, struct hot_row *row, struct bytes value, uint32_t segment)
{
    ASSERT((row->value_bits & (HOT_ROW_LEN | HOT_ROW_TOMB)) == value.len);
    /* It may be the row's own. */
    bytes_move(row->bytes + hot_head_key_len(&row->head), value.ptr, value.len);
    row->value_bits |= HOT_ROW_REF;
    if (segment <= row->head.segment)
        return;
    meter_move(&hot->meter, row->head.segment, segment, row_bytes(row));
    row->head.segment = segment;
}

struct hot_row *hot_row_new(uint32_t slot, struct bytes key, struct bytes value, bool tomb,
                            uint32_t segment)
{
    if (tomb)
        value = bytes_of("", 0);
    struct hot_row *row = mem_try_alloc(sizeof *row + key.len + value.len);
    if (!row)
        return NULL;
    head_init(&row->head, slot, key.len, segment);
    row->value_bits = (uint32_t)value.len | HOT_ROW_REF | (tomb ? HOT_ROW_TOMB : 0);
    if (key.len)
        memcpy(row->bytes, key.ptr, key.len);
    if (value.len)
        memcpy(row->bytes + key.len, value.ptr, value.len);
    return row;
}

struct hot_row *hot_row_swap(struct hot *hot, struct hot_row *row, uint64_t hash)
{
    struct hot_key wanted = {hot_head_slot(&row->head), hot_row_key(row)};
    struct table_slot place;
    struct hot_row *old = table_find(&hot->table, hash, &wanted, &place);
    meter_add(&hot->meter, row->head.segment, row_bytes(row));
    if (row->value_bits & HOT_ROW_TOMB)
        hot->trash_count++;
    if (old) {
        meter_sub(&hot->meter, old->head.segment, row_bytes(old));
        table_slot_replace(place, row);
        for (size_t i = 0; i < HOT_SEEN; i++)
            if (hot->seen_row[i] == old)
                hot->seen_row[i] = row;
        for (uint32_t i = hot->prefetched_next; i < hot->prefetched_count; i++)
            if (hot->prefetched[i] == old)
                hot->prefetched[i] = row;
        return old;
    }
    table_insert(&hot->table, hash, row);
    hot->slot[wanted.slot].entry_count++;
    return NULL;
}

/* Takes an entry out of the table; the caller frees or keeps it. */
static void entry_unhang(struct hot *hot, struct hot_head *head, uint64_t hash)
{
    struct hot_key wanted = {hot_head_slot(head), head_key(hot, head)};
    struct table_slot place;
    void *found = table_find(&hot->table, hash, &wanted, &place);
    ASSERT(found == head);
    table_remove(&hot->table, hash, place);
    for (size_t i = 0; i < HOT_SEEN; i++) {
        if ((void *)hot->seen_row[i] == head)
            hot->seen_row[i] = NULL;
        if ((void *)hot->seen_group[i] == head)
            hot->seen_group[i] = NULL;
    }
    hot->prefetched_count = 0;
    struct hot_slot *slot = &hot->slot[wanted.slot];
    slot->entry_count--;
    if (slot->dead) {
        hot->dead_count--;
        slot_maybe_free(slot);
    }
}

void hot_row_remove(struct hot *hot, struct hot_row *row, uint64_t hash)
{
    entry_unhang(hot, &row->head, hash);
    meter_sub(&hot->meter, row->head.segment, row_bytes(row));
}

void hot_row_free(struct hot_row *row)
{
    mem_free(row);
}

struct hot_group *hot_group_find(const struct hot *hot, uint32_t slot, struct bytes key,
                                 uint64_t hash)
{
    struct hot_key wanted = {slot, key};
    return table_find(&hot->table, hash, &wanted, NULL);
}

struct hot_group *hot_group_get(struct hot *hot, uint32_t slot, struct bytes key)
{
    for (size_t i = 0; i < HOT_SEEN; i++) {
        struct hot_group *seen = hot->seen_group[i];
        if (seen && hot_head_slot(&seen->head) == slot && bytes_eq(hot_group_key(seen), key))
            return seen;
    }
    struct hot_group *group = hot_group_find(hot, slot, key, hot_hash(hot, slot, key));
    if (group) {
        hot->seen_group[hot->seen_group_next] = group;
        hot->seen_group_next ^= 1;
    }
    return group;
}

struct hot_group *hot_group_add(struct hot *hot, uint32_t slot, struct bytes key, uint64_t hash,
                                bool complete)
{
    struct hot_group *group = mem_alloc(sizeof *group + key.len);
    head_init(&group->head, slot, key.len, 0);
    tree_init(&group->tree, complete);
    group->loads = NULL;
    if (key.len)
        memcpy(group->key, key.ptr, key.len);
    meter_add(&hot->meter, 0, group_bytes(group));
    table_insert(&hot->table, hash, group);
    hot->slot[slot].entry_count++;
    return group;
}

void hot_group_stamp(struct hot *hot, struct hot_group *group, uint32_t segment)
{
    if (segment <= group->head.segment)
        return;
    meter_move(&hot->meter, group->head.segment, segment, group_bytes(group));
    group->head.segment = segment;
    if (!group->tree.root)
        hot->trash_count++;
}

/* ---- leaving ---- */

static void entry_drop(struct hot *hot, struct hot_head *head)
{
    /* A slot that gives its number back still says what it meant until it is given again. */
    entry_unhang(hot, head, entry_hash(head, hot));
    entry_free(hot, head);
}

static void row_visit(struct hot *hot, struct hot_row *row, uint32_t horizon)
{
    struct hot_slot *slot = &hot->slot[hot_head_slot(&row->head)];
    if (row->head.segment > horizon || slot->segment > horizon)
        return;
    bool tomb = row->value_bits & HOT_ROW_TOMB;
    if (row->value_bits & HOT_ROW_REF) {
        row->value_bits &= ~HOT_ROW_REF;
        return;
    }
    if (hot->row_pinned &&
        hot->row_pinned(hot->row_pinned_arg, hot_head_slot(&row->head), hot_row_key(row)))
        return;
    if (!tomb)
        slot->complete = false;
    hot->evicted_row_count++;
    entry_drop(hot, &row->head);
}

/* An empty group that nobody needs: its drop is flushed, or it never had rows here. */
static bool group_leave(struct hot *hot, struct hot_group *group, uint32_t horizon)
{
    struct hot_slot *slot = &hot->slot[hot_head_slot(&group->head)];
    if (group->tree.root || group->loads || group->head.segment > horizon ||
        slot->segment > horizon)
        return false;
    if (!tree_complete(&group->tree))
        slot->complete = false; /* rows were evicted from it, or may be in the engine */
    entry_drop(hot, &group->head);
    return true;
}

void hot_pin_add(struct hot *hot, struct hot_pin pin)
{
    if (hot->pin_count == hot->pin_cap) {
        hot->pin_cap = hot->pin_cap ? hot->pin_cap * 2 : 16;
        hot->pin = mem_realloc(hot->pin, hot->pin_cap * sizeof *hot->pin);
    }
    hot->pin[hot->pin_count++] = pin;
}

static int pin_order(const void *a, const void *b)
{
    const struct hot_pin *one = a, *other = b;
    if (!one->has_low || !other->has_low)
        return one->has_low - other->has_low;
    return bytes_cmp(one->low, other->low);
}

/* Many tasks may pin parts of one group: they are asked once for all of its blocks. */
static void pins_collect(struct hot *hot, const struct hot_group *group)
{
    hot->pin_count = 0;
    if (!group->loads || !hot->group_pins)
        return;
    hot->group_pins(hot, group);
    if (hot->pin_count > 1)
        qsort(hot->pin, hot->pin_count, sizeof *hot->pin, pin_order);
}

struct pins_passed { /* those that begin before the end of the last block: blocks come in order */
    size_t count;
    bool endless;
    bool has_high;
    struct bytes high; /* the highest */
};

static bool block_pinned(const struct hot *hot, struct pins_passed *passed,
                         const struct block *block)
{
    struct bytes first = block_entry(block, 0).suffix;
    struct bytes last = block_entry(block, (uint16_t)(block->count - 1)).suffix;
    for (; passed->count < hot->pin_count; passed->count++) {
        const struct hot_pin *pin = &hot->pin[passed->count];
        if (pin->has_low && bytes_cmp(pin->low, last) > 0)
            break;
        if (!pin->has_high)
            passed->endless = true;
        else if (!passed->has_high || bytes_cmp(pin->high, passed->high) > 0)
            passed->high = pin->high;
        passed->has_high |= pin->has_high;
    }
    return passed->endless || (passed->has_high && bytes_cmp(first, passed->high) <= 0);
}

static bool block_may_leave(const struct hot *hot, struct pins_passed *passed, struct block *block,
                            uint32_t horizon)
{
    if (block->segment > horizon)
        return false;
    if (block->ref) {
        block->ref = 0;
        return false;
    }
    return hot->pin_count == 0 || !block_pinned(hot, passed, block);
}

/* Visits blocks from hand_suffix on. True: the group has more blocks than were allowed, and the
 * hand stays in it. */
static bool group_visit(struct hot *hot, struct hot_group *group, uint32_t horizon,
                        uint32_t *visits)
{
    struct hot_slot *slot = &hot->slot[hot_head_slot(&group->head)];
    if (group->head.segment > horizon || slot->segment > horizon) {
        hot->hand_in_group = false;
        return false;
    }
    struct tree_pos pos;
    if (hot->hand_in_group)
        tree_seek(&group->tree, buf_bytes(&hot->hand_suffix), &pos);
    else
        tree_seek_first(&group->tree, &pos);
    if (!hot->hand_in_group)
        hot->hand_suffix.len = 0; /* of another group: with no visits left the hand stays here */
    struct pins_passed passed = {0};
    pins_collect(hot, group);
    bool more = tree_to_entry(&group->tree, &pos);
    while (more && *visits > 0) {
        (*visits)--;
        struct tree_pos next = pos;
        next.index = pos.block->count;
        more = tree_to_entry(&group->tree, &next);
        struct bytes at = more ? block_entry(next.block, 0).suffix : bytes_of("", 0);
        hot->hand_suffix.len = 0;
        if (!buf_add_bytes(&hot->hand_suffix, at))
            break; /* no memory to remember the place: begin this group again next time */
        if (block_may_leave(hot, &passed, pos.block, horizon)) {
            hot->evicted_block_count++;
            tree_evict(&group->tree, &hot->meter, &pos);
            if (more) {
                tree_seek(&group->tree, buf_bytes(&hot->hand_suffix), &next);
                more = tree_to_entry(&group->tree, &next);
            }
        }
        pos = next;
    }
    hot->hand_in_group = more;
    if (!more) {
        group_leave(hot, group, horizon);
        return false;
    }
    hot->hand_slot = hot_head_slot(&group->head);
    hot->hand_key.len = 0;
    if (!buf_add_bytes(&hot->hand_key, hot_group_key(group)))
        hot->hand_in_group = false;
    return hot->hand_in_group;
}

static void entry_visit(struct hot *hot, struct hot_head *head, uint32_t horizon, uint32_t *visits)
{
    uint32_t slot = hot_head_slot(head);
    if (hot->slot[slot].dead) {
        if (hot_slot_whole(hot, slot) || !((struct hot_group *)head)->loads)
            entry_drop(hot, head);
        return;
    }
    if (hot_slot_whole(hot, slot)) {
        row_visit(hot, (struct hot_row *)head, horizon);
        return;
    }
    /* A bucket is finished in one go; only its last entry, the tallest group, may keep the hand. */
    uint32_t all = UINT32_MAX;
    group_visit(hot, (struct hot_group *)head, horizon,
                head == hot->bucket[hot->bucket_count - 1] ? visits : &all);
}

static void bucket_tallest_last(struct hot *hot)
{
    size_t tallest = 0;
    uint8_t height = 0;
    for (size_t i = 0; i < hot->bucket_count; i++) {
        struct hot_head *head = hot->bucket[i];
        if (hot_slot_whole(hot, hot_head_slot(head)))
            continue;
        if (((struct hot_group *)head)->tree.height >= height) {
            height = ((struct hot_group *)head)->tree.height;
            tallest = i;
        }
    }
    if (hot->bucket_count) {
        struct hot_head *last = hot->bucket[hot->bucket_count - 1];
        hot->bucket[hot->bucket_count - 1] = hot->bucket[tallest];
        hot->bucket[tallest] = last;
    }
}

void hot_hand_set(struct hot *hot, uint32_t slot, struct bytes group_key, struct bytes suffix)
{
    hot->hand_slot = slot;
    buf_cut(&hot->hand_key, 0);
    buf_cut(&hot->hand_suffix, 0);
    hot->hand_in_group =
        buf_add_bytes(&hot->hand_key, group_key) && buf_add_bytes(&hot->hand_suffix, suffix);
}

struct hot_evict_result hot_evict(struct hot *hot, uint32_t horizon, uint64_t want_bytes,
                                  uint32_t visit_max)
{
    struct hot_evict_result result = {0};
    uint64_t before = hot->meter.total_bytes;
    uint32_t visits = visit_max;

    while (visits > 0 && before - hot->meter.total_bytes < want_bytes && !result.lap) {
        if (hot->hand_in_group) {
            struct bytes key = buf_bytes(&hot->hand_key);
            struct hot_group *group = NULL;
            if (hot->slot[hot->hand_slot].used && !hot->slot[hot->hand_slot].dead &&
                !hot_slot_whole(hot, hot->hand_slot))
                group =
                    hot_group_find(hot, hot->hand_slot, key, hot_hash(hot, hot->hand_slot, key));
            if (!group)
                hot->hand_in_group = false;
            else if (group_visit(hot, group, horizon, &visits))
                break;
            continue;
        }
        hot->hand = bucket_collect(hot, hot->hand);
        bucket_tallest_last(hot);
        result.lap = hot->hand == 0;
        visits -= visits > 0;
        for (size_t i = 0; i < hot->bucket_count; i++) {
            visits -= visits > 0;
            entry_visit(hot, hot->bucket[i], horizon, &visits);
        }
    }
    result.freed_bytes = before - hot->meter.total_bytes;
    return result;
}

bool hot_sweep(struct hot *hot, uint32_t bucket_max)
{
    dead_trees_free(hot, bucket_max < UINT32_MAX / SWEEP_BLOCKS ? bucket_max * SWEEP_BLOCKS
                                                                : UINT32_MAX);
    for (uint32_t n = 0; n < bucket_max && hot->dead_count > 0; n++) {
        hot->sweep_cursor = bucket_collect(hot, hot->sweep_cursor);
        for (size_t i = 0; i < hot->bucket_count; i++) {
            struct hot_head *head = hot->bucket[i];
            uint32_t slot = hot_head_slot(head);
            if (!hot->slot[slot].dead)
                continue;
            if (hot_slot_whole(hot, slot) || !((struct hot_group *)head)->loads)
                entry_drop(hot, head);
        }
        if (hot->sweep_cursor == 0)
            break; /* what is left is pinned by loads and goes in a later round */
    }
    return hot->dead_count > 0 || hot->dead_tree_count > 0;
}

void hot_purge_begin(struct hot *hot)
{
    uint64_t enough = hot->purge_count;
    if (enough == 0) {
        enough = hot->table.entry_count / TIDY_PART;
        if (enough < TIDY_TRASH_MIN)
            enough = TIDY_TRASH_MIN;
    }
    if (hot->purging || hot->trash_count < enough)
        return;
    hot->purging = true;
    hot->purge_cursor = 0;
    hot->trash_count = hot->purge_left_count = 0;
}

static void entry_purge(struct hot *hot, struct hot_head *head, uint32_t horizon)
{
    uint32_t slot = hot_head_slot(head);
    uint64_t before = hot->table.entry_count;
    if (hot->slot[slot].dead)
        return; /* hot_sweep() */
    if (!hot_slot_whole(hot, slot)) {
        if (((struct hot_group *)head)->tree.root)
            return;
        group_leave(hot, (struct hot_group *)head, horizon);
    } else {
        if (!(((struct hot_row *)head)->value_bits & HOT_ROW_TOMB))
            return;
        row_visit(hot, (struct hot_row *)head, horizon);
    }
    if (hot->table.entry_count == before)
        hot->purge_left_count++;
    else
        hot->purged_count++;
}

void hot_purge(struct hot *hot, uint32_t horizon, uint32_t bucket_max)
{
    for (uint32_t n = 0; n < bucket_max && hot->purging; n++) {
        hot->purge_cursor = bucket_collect(hot, hot->purge_cursor);
        for (size_t i = 0; i < hot->bucket_count; i++)
            entry_purge(hot, hot->bucket[i], horizon);
        hot->purging = hot->purge_cursor != 0;
    }
    if (!hot->purging)
        hot->trash_count += hot->purge_left_count;
}

uint64_t hot_bytes(const struct hot *hot)
{
    return hot->meter.total_bytes + hot->table.memory_bytes;
}

// SPDX-License-Identifier: Apache-2.0
#include "store/hot/hot.h"

#include <stdio.h>

#include "base/codec.h"
#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

enum { META = 1, DATA = 2 };

struct fix {
    struct space_set spaces;
    struct hot hot;
    uint32_t meta, data; /* handles */
    struct buf keep;
    struct err err;
};

static void fix_init(struct fix *fix)
{
    static const struct store_space spaces[] = {
        {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
        {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
    };
    *fix = (struct fix){0};
    space_set_init(&fix->spaces);
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        ASSERT_OK(space_set_add(&fix->spaces, &spaces[i], &fix->err), &fix->err);
    hot_init(&fix->hot, &fix->spaces, 42, 0);
    buf_init(&fix->keep, 1 << 20);
    ASSERT_OK(hot_prefix_add(&fix->hot, META, BYTES("kvm"), &fix->meta, &fix->err), &fix->err);
    ASSERT_OK(hot_prefix_add(&fix->hot, DATA, BYTES("kvd"), &fix->data, &fix->err), &fix->err);
    for (uint32_t i = 0; i < 2; i++)
        fix->hot.slot[fix->hot.prefix[i].slot].complete = true;
}

static void fix_done(struct fix *fix)
{
    buf_done(&fix->keep);
    hot_done(&fix->hot);
    hot_done(&fix->hot); /* twice is allowed */
}

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static uint32_t slot_of(const struct fix *fix, uint32_t prefix)
{
    return fix->hot.prefix[prefix].slot;
}

static struct hot_row *row_find(struct fix *fix, struct bytes key)
{
    uint32_t slot = slot_of(fix, fix->meta);
    return hot_row_find(&fix->hot, slot, key, hot_hash(&fix->hot, slot, key));
}

static void row_put(struct fix *fix, struct bytes key, const char *value, uint32_t segment)
{
    uint32_t slot = slot_of(fix, fix->meta);
    struct hot_row *row = hot_row_new(slot, key, text(value ? value : ""), value == NULL, segment);
    hot_row_free(hot_row_swap(&fix->hot, row, hot_hash(&fix->hot, slot, key)));
}

static struct hot_group *group_find(struct fix *fix, struct bytes key)
{
    uint32_t slot = slot_of(fix, fix->data);
    return hot_group_find(&fix->hot, slot, key, hot_hash(&fix->hot, slot, key));
}

static struct hot_group *group_add(struct fix *fix, struct bytes key, uint32_t row_count,
                                   uint32_t segment)
{
    uint32_t slot = slot_of(fix, fix->data);
    struct hot_group *group =
        hot_group_add(&fix->hot, slot, key, hot_hash(&fix->hot, slot, key), true);
    for (uint32_t i = 0; i < row_count; i++) {
        uint8_t suffix[4];
        struct tree_old old;
        be32_put(suffix, i);
        ASSERT_RC(tree_put(&group->tree, &fix->hot.meter, segment, bytes_of(suffix, 4),
                           BYTES("a value of thirty-two bytes, yes"), &fix->keep, &old),
                  RC_OK);
    }
    return group;
}

/* Two laps: the first takes the reference bits. */
static void evict_all(struct fix *fix, uint32_t horizon)
{
    for (int laps = 0; laps < 3;)
        laps += hot_evict(&fix->hot, horizon, UINT64_MAX, UINT32_MAX).lap;
}

/* ---- entries ---- */

TEST(a_row_is_found_by_slot_and_key)
{
    struct fix fix;
    uint32_t other;
    fix_init(&fix);
    ASSERT_OK(hot_prefix_add(&fix.hot, META, BYTES("other"), &other, &fix.err), &fix.err);
    row_put(&fix, text("k"), "one", 1);
    ASSERT_BYTES(hot_row_value(row_find(&fix, text("k"))), text("one"));
    ASSERT_BYTES(hot_row_key(row_find(&fix, text("k"))), text("k"));
    ASSERT_TRUE(!row_find(&fix, text("kk")));
    uint32_t slot = slot_of(&fix, other);
    ASSERT_TRUE(!hot_row_find(&fix.hot, slot, text("k"), hot_hash(&fix.hot, slot, text("k"))));
    fix_done(&fix);
}

static struct hot_row *row_get(struct fix *fix, const char *key)
{
    return hot_row_get(&fix->hot, slot_of(fix, fix->meta), text(key));
}

/* As a prefetch of these keys, one letter each, leaves it. */
static void rows_ahead(struct fix *fix, const char *keys)
{
    fix->hot.prefetched_next = fix->hot.prefetched_count = 0;
    for (; *keys; keys++)
        fix->hot.prefetched[fix->hot.prefetched_count++] = row_find(fix, bytes_of(keys, 1));
}

TEST(rows_that_are_expected_are_found_in_their_order_and_others_all_the_same)
{
    struct fix fix;
    fix_init(&fix);
    for (const char *key = "abcdefgh"; *key; key++)
        row_put(&fix, bytes_of(key, 1), "one", 1);
    rows_ahead(&fix, "abcdefgh");
    for (const char *asked = "abbxadchgfea"; *asked; asked++) {
        char key[2] = {*asked, 0};
        ASSERT_EQ(row_get(&fix, key), row_find(&fix, text(key)));
    }
    fix_done(&fix);
}

TEST(an_expected_row_that_is_replaced_or_removed_is_not_found_as_it_was)
{
    struct fix fix;
    fix_init(&fix);
    for (const char *key = "abc"; *key; key++)
        row_put(&fix, bytes_of(key, 1), "one", 1);
    rows_ahead(&fix, "abc");
    uint32_t slot = slot_of(&fix, fix.meta);
    struct hot_row *row = hot_row_new(slot, text("b"), text("another"), false, 2);
    struct hot_row *old = hot_row_swap(&fix.hot, row, hot_hash(&fix.hot, slot, text("b")));
    ASSERT_EQ(row_get(&fix, "a"), row_find(&fix, text("a")));
    ASSERT_EQ(row_get(&fix, "b"), row);
    hot_row_free(old); /* its memory is there until here */
    row = row_find(&fix, text("c"));
    hot_row_remove(&fix.hot, row, hot_hash(&fix.hot, slot, text("c")));
    ASSERT_TRUE(!row_get(&fix, "c"));
    hot_row_free(row);
    rows_ahead(&fix, "ab");
    evict_all(&fix, 2);
    ASSERT_TRUE(!row_get(&fix, "a"));
    ASSERT_TRUE(!row_get(&fix, "b"));
    fix_done(&fix);
}

TEST(an_expected_row_of_a_dropped_prefix_is_not_found)
{
    struct fix fix;
    fix_init(&fix);
    row_put(&fix, text("a"), "one", 1);
    rows_ahead(&fix, "a");
    hot_slot_release(&fix.hot, hot_prefix_drop(&fix.hot, fix.meta, 2));
    ASSERT_TRUE(!row_get(&fix, "a"));
    fix_done(&fix);
}

TEST(keys_up_to_their_limit_keep_their_length)
{
    struct fix fix;
    static uint8_t key[STORE_GROUP_KEY_BYTES_MAX];
    fix_init(&fix);
    const size_t lens[] = {0, 1, 255, 65535, STORE_GROUP_KEY_BYTES_MAX};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        row_put(&fix, bytes_of(key, lens[i]), "v", 1);
        ASSERT_EQ(hot_row_key(row_find(&fix, bytes_of(key, lens[i]))).len, lens[i]);
        group_add(&fix, bytes_of(key, lens[i]), 0, 1);
        ASSERT_EQ(hot_group_key(group_find(&fix, bytes_of(key, lens[i]))).len, lens[i]);
    }
    ASSERT_EQ(fix.hot.table.entry_count, 2 * ARRAY_LEN(lens));
    fix_done(&fix);
}

TEST(the_meter_follows_swaps_and_removals)
{
    struct fix fix;
    fix_init(&fix);
    row_put(&fix, text("k"), "a value", 3);
    uint64_t bytes = fix.hot.meter.total_bytes;
    ASSERT_EQ(meter_dirty(&fix.hot.meter), bytes);
    row_put(&fix, text("k"), "a value of another length, which is more", 4);
    ASSERT_GT(fix.hot.meter.total_bytes, bytes);
    meter_mark(&fix.hot.meter, 3);
    ASSERT_EQ(meter_dirty(&fix.hot.meter), fix.hot.meter.total_bytes);
    struct hot_row *row = row_find(&fix, text("k"));
    uint32_t slot = slot_of(&fix, fix.meta);
    hot_row_remove(&fix.hot, row, hot_hash(&fix.hot, slot, text("k")));
    hot_row_free(row);
    ASSERT_EQ(fix.hot.meter.total_bytes, 0);
    ASSERT_EQ(fix.hot.slot[slot].entry_count, 0);
    fix_done(&fix);
}

TEST(a_row_needs_memory)
{
    mem_fail_after(1);
    ASSERT_TRUE(!hot_row_new(0, text("k"), text("v"), false, 1));
    mem_fail_after(-1);
}

/* ---- prefixes ---- */

TEST(no_prefix_of_a_space_begins_another)
{
    struct fix fix;
    uint32_t handle;
    fix_init(&fix);
    ASSERT_OK(hot_prefix_add(&fix.hot, META, BYTES("kvm"), &handle, &fix.err), &fix.err);
    ASSERT_EQ(handle, fix.meta);
    ASSERT_RC(hot_prefix_add(&fix.hot, META, BYTES("kv"), &handle, &fix.err), RC_INVALID);
    ASSERT_RC(hot_prefix_add(&fix.hot, META, BYTES("kvm2"), &handle, &fix.err), RC_INVALID);
    ASSERT_RC(hot_prefix_add(&fix.hot, META, BYTES(""), &handle, &fix.err), RC_INVALID);
    ASSERT_RC(hot_prefix_add(&fix.hot, 77, BYTES("x"), &handle, &fix.err), RC_INVALID);
    uint8_t bytes[STORE_PREFIX_BYTES_MAX + 1] = {0};
    ASSERT_RC(hot_prefix_add(&fix.hot, META, bytes_of(bytes, sizeof bytes), &handle, &fix.err),
              RC_TOO_BIG);
    ASSERT_OK(hot_prefix_add(&fix.hot, DATA, BYTES("kvm"), &handle, &fix.err), &fix.err);
    ASSERT_RC(hot_prefix_match(&fix.hot, META, BYTES("kvm and more"), &handle), RC_OK);
    ASSERT_EQ(handle, fix.meta);
    ASSERT_RC(hot_prefix_match(&fix.hot, META, BYTES("kv"), &handle), RC_NOT_FOUND);
    fix_done(&fix);
}

TEST(prefixes_have_a_limit)
{
    struct fix fix;
    uint32_t handle;
    uint8_t name[4];
    enum rc rc = RC_OK;
    uint32_t count = 0;
    fix_init(&fix);
    /* Only the count matters: the comparison of all with all is left out of the loop. */
    while (rc == RC_OK && count < 3000) {
        be32_put(name, count++);
        rc = hot_prefix_add(&fix.hot, META, bytes_of(name, 4), &handle, &fix.err);
    }
    ASSERT_RC(rc, RC_OK);
    size_t before = fix.hot.prefix_count;
    fix.hot.prefix_count = STORE_PREFIXES_MAX / 2;
    fix.hot.prefix = mem_realloc(fix.hot.prefix, fix.hot.prefix_count * sizeof *fix.hot.prefix);
    for (size_t i = before; i < fix.hot.prefix_count; i++)
        fix.hot.prefix[i] = (struct hot_prefix){0};
    ASSERT_RC(hot_prefix_add(&fix.hot, META, BYTES("one more"), &handle, &fix.err), RC_TOO_BIG);
    fix.hot.prefix_count = before;
    fix_done(&fix);
}

TEST(a_dropped_prefix_is_empty_at_once_and_freed_later)
{
    struct fix fix;
    char key[16];
    fix_init(&fix);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "%d", i);
        row_put(&fix, text(key), "v", 1);
    }
    uint64_t bytes = fix.hot.meter.total_bytes;
    uint32_t old = hot_prefix_drop(&fix.hot, fix.meta, 2);
    ASSERT_TRUE(!row_find(&fix, text("7")));
    ASSERT_TRUE(fix.hot.slot[slot_of(&fix, fix.meta)].complete);
    row_put(&fix, text("7"), "new", 2);
    hot_slot_release(&fix.hot, old);
    ASSERT_EQ(fix.hot.dead_count, 1000);
    ASSERT_TRUE(hot_sweep(&fix.hot, 1)); /* some at a time */
    ASSERT_LT(fix.hot.meter.total_bytes, bytes);
    while (hot_sweep(&fix.hot, 8))
        continue;
    ASSERT_EQ(fix.hot.dead_count, 0);
    ASSERT_FALSE(fix.hot.slot[old].used);
    ASSERT_EQ(fix.hot.table.entry_count, 1);
    ASSERT_BYTES(hot_row_value(row_find(&fix, text("7"))), text("new"));
    ASSERT_EQ(hot_prefix_drop(&fix.hot, fix.data, 3), 1);
    ASSERT_EQ(slot_of(&fix, fix.data), old); /* the number is given again */
    fix_done(&fix);
}

static void purge_round(struct fix *fix, uint32_t horizon)
{
    hot_purge_begin(&fix->hot);
    while (fix->hot.purging)
        hot_purge(&fix->hot, horizon, 8);
}

TEST(clean_tombstones_and_empty_groups_do_not_stay)
{
    struct fix fix;
    char key[16];
    fix_init(&fix);
    row_put(&fix, text("row"), "v", 1);
    group_add(&fix, text("group"), 3, 1);
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "%d", i);
        row_put(&fix, text(key), NULL, i < 4000 ? 1 : 2);
        hot_group_stamp(&fix.hot, group_add(&fix, text(key), 0, 1), i < 4000 ? 1 : 2);
    }
    meter_mark(&fix.hot.meter, 1);
    purge_round(&fix, 1);
    ASSERT_EQ(fix.hot.table.entry_count, 2 + 5000 + 1000); /* tombstones were asked for once */
    purge_round(&fix, 1);
    ASSERT_EQ(fix.hot.table.entry_count, 2 + 1000 + 1000);
    ASSERT_TRUE(row_find(&fix, text("4000")) && group_find(&fix, text("4000")));
    ASSERT_TRUE(row_find(&fix, text("row")) && group_find(&fix, text("group")));
    for (uint32_t i = 0; i < 2; i++)
        ASSERT_TRUE(fix.hot.slot[slot_of(&fix, i)].complete);
    ASSERT_EQ(fix.hot.trash_count, 2000);
    hot_purge_begin(&fix.hot); /* too little for a round */
    ASSERT_FALSE(fix.hot.purging);
    fix_done(&fix);
}

TEST(what_is_pinned_by_a_task_is_not_purged)
{
    struct fix fix;
    char key[16];
    fix_init(&fix);
    struct hot_group *pinned = group_add(&fix, text("pinned"), 0, 1);
    pinned->loads = (struct load *)&fix; /* any */
    hot_group_stamp(&fix.hot, pinned, 1);
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "%d", i);
        hot_group_stamp(&fix.hot, group_add(&fix, text(key), 0, 1), 1);
    }
    purge_round(&fix, 1);
    ASSERT_EQ(fix.hot.table.entry_count, 1);
    pinned->loads = NULL;
    fix_done(&fix);
}

TEST(an_undropped_prefix_has_its_rows_again)
{
    struct fix fix;
    fix_init(&fix);
    row_put(&fix, text("k"), "old", 1);
    uint32_t old = hot_prefix_drop(&fix.hot, fix.meta, 2);
    hot_prefix_undrop(&fix.hot, fix.meta, old);
    ASSERT_BYTES(hot_row_value(row_find(&fix, text("k"))), text("old"));
    ASSERT_EQ(fix.hot.dead_count, 0);
    fix_done(&fix);
}

TEST(a_slot_pinned_by_a_load_keeps_its_number)
{
    struct fix fix;
    fix_init(&fix);
    uint32_t old = slot_of(&fix, fix.meta);
    hot_slot_ref(&fix.hot, old);
    ASSERT_EQ(hot_prefix_drop(&fix.hot, fix.meta, 2), old);
    hot_slot_release(&fix.hot, old);
    ASSERT_TRUE(fix.hot.slot[old].used);
    hot_slot_unref(&fix.hot, old);
    ASSERT_FALSE(fix.hot.slot[old].used);
    fix_done(&fix);
}

TEST(a_prefix_that_could_not_be_written_is_forgotten)
{
    struct fix fix;
    uint32_t handle;
    fix_init(&fix);
    ASSERT_OK(hot_prefix_add(&fix.hot, META, BYTES("x"), &handle, &fix.err), &fix.err);
    hot_prefix_drop_last(&fix.hot);
    ASSERT_RC(hot_prefix_match(&fix.hot, META, BYTES("x"), &handle), RC_NOT_FOUND);
    fix_done(&fix);
}

/* ---- leaving ---- */

TEST(nothing_leaves_before_its_change_is_flushed)
{
    struct fix fix;
    fix_init(&fix);
    row_put(&fix, text("old"), "v", 1);
    row_put(&fix, text("new"), "v", 2);
    row_put(&fix, text("deleted"), NULL, 2);
    group_add(&fix, text("g"), 10, 2);
    evict_all(&fix, 1);
    ASSERT_TRUE(!row_find(&fix, text("old")));
    ASSERT_TRUE(row_find(&fix, text("new")) != NULL);
    ASSERT_TRUE(row_find(&fix, text("deleted")) != NULL);
    ASSERT_EQ(tree_live(&group_find(&fix, text("g"))->tree), 10);
    evict_all(&fix, 2);
    ASSERT_EQ(fix.hot.table.entry_count, 0);
    ASSERT_EQ(fix.hot.meter.total_bytes, 0);
    fix_done(&fix);
}

TEST(a_slot_is_complete_until_a_row_leaves)
{
    struct fix fix;
    fix_init(&fix);
    struct hot_slot *slot = &fix.hot.slot[slot_of(&fix, fix.meta)];
    row_put(&fix, text("deleted"), NULL, 1);
    evict_all(&fix, 1);
    ASSERT_TRUE(slot->complete); /* a tombstone is no row */
    row_put(&fix, text("k"), "v", 1);
    evict_all(&fix, 1);
    ASSERT_FALSE(slot->complete);
    slot = &fix.hot.slot[slot_of(&fix, fix.data)];
    group_add(&fix, text("empty"), 0, 1);
    evict_all(&fix, 1);
    ASSERT_TRUE(!group_find(&fix, text("empty")));
    ASSERT_TRUE(slot->complete);
    group_add(&fix, text("g"), 1, 1);
    evict_all(&fix, 1);
    ASSERT_FALSE(slot->complete);
    fix_done(&fix);
}

TEST(rows_of_a_fresh_slot_stay_until_its_drop_is_flushed)
{
    struct fix fix;
    fix_init(&fix);
    uint32_t old = hot_prefix_drop(&fix.hot, fix.meta, 5);
    hot_slot_release(&fix.hot, old);
    row_put(&fix, text("k"), "v", 0); /* as a load would bring it */
    evict_all(&fix, 4);
    ASSERT_TRUE(row_find(&fix, text("k")) != NULL);
    evict_all(&fix, 5);
    ASSERT_TRUE(!row_find(&fix, text("k")));
    fix_done(&fix);
}

TEST(a_dropped_group_stays_until_its_drop_is_flushed)
{
    struct fix fix;
    fix_init(&fix);
    struct hot_group *group = group_add(&fix, text("g"), 10, 1);
    tree_done(&group->tree, &fix.hot.meter);
    tree_init(&group->tree, true);
    hot_group_stamp(&fix.hot, group, 6);
    hot_group_stamp(&fix.hot, group, 2); /* never older */
    evict_all(&fix, 5);
    ASSERT_TRUE(group_find(&fix, text("g")) == group);
    ASSERT_GT(meter_dirty(&fix.hot.meter), 0);
    evict_all(&fix, 6);
    ASSERT_TRUE(!group_find(&fix, text("g")));
    fix_done(&fix);
}

TEST(what_was_used_gets_a_second_chance)
{
    struct fix fix;
    fix_init(&fix);
    row_put(&fix, text("used"), "v", 1);
    row_put(&fix, text("idle"), "v", 1);
    while (!hot_evict(&fix.hot, 1, UINT64_MAX, UINT32_MAX).lap)
        continue;
    ASSERT_EQ(fix.hot.table.entry_count, 2);
    row_find(&fix, text("used"))->value_bits |= HOT_ROW_REF;
    while (!hot_evict(&fix.hot, 1, UINT64_MAX, UINT32_MAX).lap)
        continue;
    ASSERT_TRUE(row_find(&fix, text("used")) != NULL);
    ASSERT_TRUE(!row_find(&fix, text("idle")));
    fix_done(&fix);
}

static bool pinned_k(void *arg, uint32_t slot, struct bytes key)
{
    (void)slot;
    ++*(int *)arg;
    return bytes_eq(key, BYTES("k"));
}

TEST(a_pinned_row_stays)
{
    struct fix fix;
    int asked = 0;
    fix_init(&fix);
    fix.hot.row_pinned = pinned_k;
    fix.hot.row_pinned_arg = &asked;
    row_put(&fix, text("k"), "v", 1);
    row_put(&fix, text("l"), "v", 1);
    evict_all(&fix, 1);
    ASSERT_TRUE(row_find(&fix, text("k")) != NULL);
    ASSERT_TRUE(!row_find(&fix, text("l")));
    ASSERT_GT(asked, 1);
    fix_done(&fix);
}

static void pin_first(struct hot *hot, const struct hot_group *group)
{
    static const uint8_t zero[4];
    (void)group;
    hot_pin_add(hot, (struct hot_pin){.has_high = true, .high = bytes_of(zero, sizeof zero)});
}

TEST(a_pinned_block_and_its_group_stay)
{
    struct fix fix;
    int load;
    fix_init(&fix);
    fix.hot.group_pins = pin_first;
    struct hot_group *group = group_add(&fix, text("g"), 500, 1);
    group->loads = (struct load *)(void *)&load; /* only whether there is one is looked at */
    evict_all(&fix, 1);
    ASSERT_TRUE(group_find(&fix, text("g")) == group);
    ASSERT_GT(tree_live(&group->tree), 0);
    ASSERT_LT(tree_live(&group->tree), 100);
    tree_check(&group->tree);
    group->loads = NULL;
    evict_all(&fix, 1);
    ASSERT_TRUE(!group_find(&fix, text("g")));
    fix_done(&fix);
}

struct drawn_pins { /* hot.row_pinned_arg: there are no rows */
    size_t count;
    struct hot_pin pin[40];
    uint8_t end[80][4];
    uint64_t asked;
};

static void pins_say(struct hot *hot, const struct hot_group *group)
{
    struct drawn_pins *pins = hot->row_pinned_arg;
    (void)group;
    pins->asked++;
    for (size_t i = 0; i < pins->count; i++)
        hot_pin_add(hot, pins->pin[i]);
}

static struct bytes end_draw(struct rand *rand, uint8_t to[4], uint32_t from, uint32_t range)
{
    be32_put(to, from + (uint32_t)rand_below(rand, range));
    return bytes_of(to, 4);
}

static void pins_draw(struct drawn_pins *pins, struct rand *rand, uint32_t row_count)
{
    pins->count = 1 + rand_below(rand, ARRAY_LEN(pins->pin));
    for (size_t i = 0; i < pins->count; i++) {
        struct bytes low = end_draw(rand, pins->end[2 * i], 0, row_count);
        pins->pin[i] =
            (struct hot_pin){.has_low = rand_below(rand, 50) > 0,
                             .has_high = rand_below(rand, 50) > 0,
                             .low = low,
                             .high = end_draw(rand, pins->end[2 * i + 1], be32_get(low.ptr), 20)};
    }
}

static bool is_pinned(const struct drawn_pins *pins, struct bytes first, struct bytes last)
{
    for (size_t i = 0; i < pins->count; i++)
        if ((!pins->pin[i].has_low || bytes_cmp(pins->pin[i].low, last) <= 0) &&
            (!pins->pin[i].has_high || bytes_cmp(pins->pin[i].high, first) >= 0))
            return true;
    return false;
}

TEST(exactly_the_blocks_with_pinned_rows_stay_and_pins_are_asked_for_once_a_visit)
{
    enum { ROWS = 3000 };
    struct rand rand;
    rand_init_seed(&rand, 7);
    for (int round = 0; round < 50; round++) {
        struct fix fix;
        struct drawn_pins pins = {0};
        struct tree_pos pos;
        uint64_t live = 0;
        fix_init(&fix);
        fix.hot.group_pins = pins_say;
        fix.hot.row_pinned_arg = &pins;
        pins_draw(&pins, &rand, ROWS);
        struct hot_group *group = group_add(&fix, text("g"), ROWS, 1);
        group->loads = (struct load *)(void *)&fix; /* any */
        tree_seek_first(&group->tree, &pos);
        for (bool more = tree_to_entry(&group->tree, &pos); more;) {
            struct bytes first = block_entry(pos.block, 0).suffix;
            pos.index = (uint16_t)(pos.block->count - 1);
            live += is_pinned(&pins, first, block_entry(pos.block, pos.index).suffix)
                        ? pos.block->count
                        : 0;
            more = tree_next(&group->tree, &pos);
        }
        evict_all(&fix, 1);
        ASSERT_EQ(tree_live(&group->tree), live);
        ASSERT_EQ(pins.asked, 3); /* laps */
        group->loads = NULL;
        fix_done(&fix);
    }
}

TEST(a_large_group_leaves_block_by_block_within_the_visits_allowed)
{
    struct fix fix;
    fix_init(&fix);
    struct hot_group *group = group_add(&fix, text("g"), 20000, 1);
    while (!hot_evict(&fix.hot, 1, UINT64_MAX, UINT32_MAX).lap)
        continue; /* the reference bits */
    uint64_t last = 20000;
    int steps = 0;
    while (group_find(&fix, text("g"))) {
        uint64_t blocks = fix.hot.evicted_block_count;
        hot_evict(&fix.hot, 1, UINT64_MAX, 16);
        ASSERT_LE(fix.hot.evicted_block_count - blocks, 16);
        if (!group_find(&fix, text("g")))
            break;
        tree_check(&group->tree);
        ASSERT_LE(tree_live(&group->tree), last);
        last = tree_live(&group->tree);
        ASSERT_LT(++steps, 1000);
    }
    ASSERT_GT(steps, 10);
    ASSERT_EQ(fix.hot.meter.total_bytes, 0);
    fix_done(&fix);
}

TEST(eviction_stops_when_enough_is_free)
{
    struct fix fix;
    char key[16];
    fix_init(&fix);
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof key, "%d", i);
        row_put(&fix, text(key), "some value", 1);
    }
    while (!hot_evict(&fix.hot, 1, UINT64_MAX, UINT32_MAX).lap)
        continue;
    uint64_t before = fix.hot.meter.total_bytes;
    struct hot_evict_result result = hot_evict(&fix.hot, 1, 1000, UINT32_MAX);
    ASSERT_GE(result.freed_bytes, 1000);
    ASSERT_LT(result.freed_bytes, 2000);
    ASSERT_EQ(before - fix.hot.meter.total_bytes, result.freed_bytes);
    ASSERT_FALSE(result.lap);
    fix_done(&fix);
}

TEST(the_hand_survives_the_end_of_its_group)
{
    struct fix fix;
    fix_init(&fix);
    group_add(&fix, text("g"), 2000, 1);
    hot_evict(&fix.hot, 1, UINT64_MAX, 4);
    while (!fix.hot.hand_in_group)
        hot_evict(&fix.hot, 1, UINT64_MAX, 4);
    uint32_t old = hot_prefix_drop(&fix.hot, fix.data, 1);
    hot_slot_release(&fix.hot, old);
    while (hot_sweep(&fix.hot, 64))
        continue;
    ASSERT_FALSE(fix.hot.slot[old].used);
    evict_all(&fix, 1);
    ASSERT_EQ(fix.hot.meter.total_bytes, 0);
    fix_done(&fix);
}

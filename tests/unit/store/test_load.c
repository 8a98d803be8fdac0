// SPDX-License-Identifier: Apache-2.0
/* test_load.c - loads over the engine in memory: without threads, so that a test decides when each
 * step happens, and once with threads, for TSan. */
#include "store/hot/load.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/engine/engine_memory.h"
#include "test.h"

#include "base/banned.h"

enum { META = 1, DATA = 2, WAITERS_MAX = 8 };

struct fix {
    struct space_set spaces;
    struct engine_memory *memory;
    struct engine *engine;
    struct hot hot;
    struct loads loads;
    uint32_t meta, data; /* slots */
    struct load_waiter waiter[WAITERS_MAX];
    int ready[WAITERS_MAX];
    struct buf keep;
    struct err err;
    /* shared with the loader threads, under `lock` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int notify_count;
};

static void ready(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    ++*(int *)arg;
}

static void notify(void *arg)
{
    struct fix *fix = arg;
    pthread_mutex_lock(&fix->lock);
    fix->notify_count++;
    pthread_cond_signal(&fix->changed);
    pthread_mutex_unlock(&fix->lock);
}

static void fix_init_threads(struct fix *fix, uint32_t thread_count)
{
    static const struct store_space spaces[] = {
        {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
        {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
    };
    uint32_t meta, data;
    *fix = (struct fix){.memory = engine_memory_new()};
    pthread_mutex_init(&fix->lock, NULL);
    pthread_cond_init(&fix->changed, NULL);
    space_set_init(&fix->spaces);
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        ASSERT_OK(space_set_add(&fix->spaces, &spaces[i], &fix->err), &fix->err);
    struct engine_options options = {
        .dir = "engine", .spaces = &fix->spaces, .memory = fix->memory};
    ASSERT_OK(engine_memory_ops.open(&options, &fix->engine, &fix->err), &fix->err);
    hot_init(&fix->hot, &fix->spaces, 42, 0);
    ASSERT_OK(hot_prefix_add(&fix->hot, META, BYTES("m"), &meta, &fix->err), &fix->err);
    ASSERT_OK(hot_prefix_add(&fix->hot, DATA, BYTES("d"), &data, &fix->err), &fix->err);
    fix->meta = fix->hot.prefix[meta].slot;
    fix->data = fix->hot.prefix[data].slot;
    ASSERT_OK(loads_init(&fix->loads, &fix->hot, fix->engine, &fix->spaces, thread_count, notify,
                         fix, &fix->err),
              &fix->err);
    buf_init(&fix->keep, 1 << 20);
    for (int i = 0; i < WAITERS_MAX; i++)
        fix->waiter[i] =
            (struct load_waiter){.ticket = (uint64_t)i, .ready = ready, .arg = &fix->ready[i]};
}

static void fix_init(struct fix *fix)
{
    fix_init_threads(fix, 0);
}

static void fix_done(struct fix *fix)
{
    for (int i = 0; i < WAITERS_MAX; i++) {
        load_waiter_release(&fix->loads, &fix->waiter[i]);
        load_waiter_done(&fix->waiter[i]);
    }
    loads_done(&fix->loads);
    loads_done(&fix->loads); /* twice is allowed */
    hot_done(&fix->hot);
    fix->engine->ops->close(fix->engine);
    engine_memory_free(fix->memory);
    buf_done(&fix->keep);
    pthread_mutex_destroy(&fix->lock);
    pthread_cond_destroy(&fix->changed);
}

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

/* One unit with one row: what a flush leaves. NULL deletes. */
static void engine_put(struct fix *fix, uint8_t space, struct bytes key, struct bytes suffix,
                       const char *value)
{
    struct buf group, full;
    struct engine_unit *unit;
    const struct engine_ops *ops = fix->engine->ops;
    buf_init(&group, 1 << 17);
    buf_init(&full, 1 << 17);
    ASSERT_TRUE(buf_add(&group, space == META ? "m" : "d", 1) && buf_add_bytes(&group, key) &&
                space_key_add(&fix->spaces, space, buf_bytes(&group), suffix, &full));
    ASSERT_OK(ops->unit_open(fix->engine, &unit, &fix->err), &fix->err);
    if (value)
        ASSERT_OK(ops->unit_put(unit, buf_bytes(&full), text(value), &fix->err), &fix->err);
    else
        ASSERT_OK(ops->unit_delete(unit, buf_bytes(&full), &fix->err), &fix->err);
    ASSERT_OK(ops->unit_apply(unit, &fix->err), &fix->err);
    ops->unit_close(unit);
    buf_done(&group);
    buf_done(&full);
}

static void engine_fill(struct fix *fix, const char *key, int count)
{
    for (int i = 0; i < count; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "%05d", i);
        engine_put(fix, DATA, text(key), text(suffix), "cold");
    }
}

static void want_meta(struct fix *fix, int waiter, const char *key)
{
    struct load_want want = {.kind = LOAD_ROW, .slot = fix->meta, .key = text(key)};
    load_start(&fix->loads, &want, fix->hot.meter.mark, &fix->waiter[waiter]);
}

static void want_row(struct fix *fix, int waiter, const char *key, const char *suffix)
{
    struct load_want want = {.kind = LOAD_ROW,
                             .slot = fix->data,
                             .key = text(key),
                             .has_from = true,
                             .from = text(suffix)};
    load_start(&fix->loads, &want, fix->hot.meter.mark, &fix->waiter[waiter]);
}

static void want_page(struct fix *fix, int waiter, const char *key, const char *from, bool reverse)
{
    struct load_want want = {.kind = LOAD_PAGE,
                             .slot = fix->data,
                             .key = text(key),
                             .reverse = reverse,
                             .has_from = from != NULL,
                             .from = from ? text(from) : BYTES("")};
    load_start(&fix->loads, &want, fix->hot.meter.mark, &fix->waiter[waiter]);
}

static void load_all(struct fix *fix)
{
    while (loads_step(&fix->loads))
        continue;
    loads_poll(&fix->loads);
}

static void release(struct fix *fix, int waiter)
{
    load_waiter_release(&fix->loads, &fix->waiter[waiter]);
}

static struct hot_row *meta_row(struct fix *fix, const char *key)
{
    return hot_row_find(&fix->hot, fix->meta, text(key), hot_hash(&fix->hot, fix->meta, text(key)));
}

static struct hot_group *data_group(struct fix *fix, const char *key)
{
    return hot_group_find(&fix->hot, fix->data, text(key),
                          hot_hash(&fix->hot, fix->data, text(key)));
}

/* "cold", "hot", ..., "-" where there is none, "?" where it is not known. */
static const char *at(struct fix *fix, const char *key, const char *suffix)
{
    static char value[32];
    struct hot_group *group = data_group(fix, key);
    struct tree_pos pos;
    if (!group)
        return "?";
    tree_seek(&group->tree, text(suffix), &pos);
    if (pos.exact) {
        struct entry entry = block_entry(pos.block, pos.index);
        snprintf(value, sizeof value, "%.*s", (int)entry.value.len, (const char *)entry.value.ptr);
        return entry.flags & ENTRY_TOMB ? "-" : value;
    }
    tree_to_entry(&group->tree, &pos);
    return tree_gap(&group->tree, &pos) ? "?" : "-";
}

static void hot_put(struct fix *fix, const char *key, const char *suffix, const char *value,
                    uint32_t segment)
{
    struct tree_old old = {0};
    struct hot_group *group = data_group(fix, key);
    enum rc rc =
        value ? tree_put(&group->tree, &fix->hot.meter, segment, text(suffix), text(value),
                         &fix->keep, &old)
              : tree_delete(&group->tree, &fix->hot.meter, segment, text(suffix), &fix->keep, &old);
    ASSERT_RC(rc, RC_OK);
    block_out_free(old.out, &fix->hot.meter);
}

static void evict_all(struct fix *fix, uint32_t horizon)
{
    for (int laps = 0; laps < 3;)
        laps += hot_evict(&fix->hot, horizon, UINT64_MAX, UINT32_MAX).lap;
}

/* ---- what a load brings ---- */

TEST(a_cold_row_is_brought_and_an_absent_one_is_known_to_be)
{
    struct fix fix;
    fix_init(&fix);
    engine_put(&fix, META, text("k"), text(""), "cold");
    engine_put(&fix, DATA, text("h"), text("f"), "cold");
    want_meta(&fix, 0, "k");
    want_meta(&fix, 0, "none");
    want_row(&fix, 0, "h", "f");
    want_row(&fix, 0, "h", "g");
    ASSERT_EQ(fix.waiter[0].pending_count, 4);
    ASSERT_TRUE(loads_step(&fix.loads));
    loads_poll(&fix.loads);
    ASSERT_EQ(fix.ready[0], 0); /* not before all of them */
    load_all(&fix);
    ASSERT_EQ(fix.ready[0], 1);
    ASSERT_RC(fix.waiter[0].rc, RC_OK);
    ASSERT_BYTES(hot_row_value(meta_row(&fix, "k")), text("cold"));
    ASSERT_TRUE(meta_row(&fix, "none")->value_bits & HOT_ROW_TOMB);
    ASSERT_STR(at(&fix, "h", "f"), "cold");
    ASSERT_STR(at(&fix, "h", "g"), "-");
    ASSERT_STR(at(&fix, "h", "a"), "?");
    ASSERT_EQ(fix.notify_count, 4);
    fix_done(&fix);
}

TEST(what_is_known_is_not_loaded)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 3);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
    ASSERT_EQ(fix.loads.started_count, 1);
    want_page(&fix, 1, "h", NULL, true);
    want_page(&fix, 1, "h", "00001", false);
    want_row(&fix, 1, "h", "00001");
    want_row(&fix, 1, "h", "nothing");
    ASSERT_EQ(fix.loads.started_count, 1);
    ASSERT_EQ(fix.waiter[1].pending_count, 0);
    ASSERT_EQ(fix.waiter[1].load_count, 0);
    fix_done(&fix);
}

TEST(waiters_of_the_same_place_share_one_flight)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 3);
    want_page(&fix, 0, "h", NULL, false);
    want_page(&fix, 1, "h", NULL, false);
    want_page(&fix, 1, "h", NULL, false); /* the same waiter again */
    want_page(&fix, 2, "h", NULL, true);  /* another place */
    ASSERT_EQ(fix.loads.started_count, 2);
    ASSERT_EQ(fix.waiter[1].pending_count, 1);
    load_all(&fix);
    for (int i = 0; i < 3; i++)
        ASSERT_EQ(fix.ready[i], 1);
    fix_done(&fix);
}

TEST(pages_bring_a_large_group_piece_by_piece_from_both_ends)
{
    struct fix fix;
    char last[16];
    fix_init(&fix);
    engine_fill(&fix, "h", LOAD_PAGE_ROWS_MAX * 3);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    struct tree *tree = &data_group(&fix, "h")->tree;
    ASSERT_EQ(tree_live(tree), LOAD_PAGE_ROWS_MAX);
    ASSERT_STR(at(&fix, "h", "00000x"), "-");
    snprintf(last, sizeof last, "%05d", LOAD_PAGE_ROWS_MAX - 1);
    ASSERT_STR(at(&fix, "h", last), "cold");
    want_page(&fix, 0, "h", NULL, true);
    load_all(&fix);
    ASSERT_EQ(tree_live(tree), 2 * LOAD_PAGE_ROWS_MAX);
    ASSERT_EQ(tree->gap_count, 1);
    want_page(&fix, 0, "h", last, false); /* begins with the row that is known already */
    load_all(&fix);
    ASSERT_EQ(tree_live(tree), 3 * LOAD_PAGE_ROWS_MAX - 1);
    snprintf(last, sizeof last, "%05d", 2 * LOAD_PAGE_ROWS_MAX - 2);
    want_page(&fix, 0, "h", last, false);
    load_all(&fix);
    ASSERT_TRUE(tree_complete(tree));
    tree_check(tree);
    fix_done(&fix);
}

static void want_rows(struct fix *fix, int waiter, const char *from, bool reverse, uint64_t count)
{
    struct load_want want = {.kind = LOAD_PAGE,
                             .slot = fix->data,
                             .key = text("h"),
                             .reverse = reverse,
                             .row_count = count,
                             .has_from = from != NULL,
                             .from = from ? text(from) : BYTES("")};
    load_start(&fix->loads, &want, fix->hot.meter.mark, &fix->waiter[waiter]);
}

/* Until nothing is in flight any more. */
static void load_on_and_on(struct fix *fix)
{
    while (fix->loads.flight_count > 0)
        load_all(fix);
}

TEST(who_wants_more_rows_than_a_page_has_waits_once)
{
    enum { ROWS = 2 * LOAD_BULK_ROWS_MAX + 10 };
    for (int reverse = 0; reverse < 2; reverse++) {
        struct fix fix;
        fix_init(&fix);
        engine_fill(&fix, "h", ROWS);
        want_rows(&fix, 0, NULL, reverse, ROWS - 5);
        want_page(&fix, 1, "h", NULL, reverse); /* the same load; this one has enough after it */
        ASSERT_EQ(fix.loads.flight_count, 1);
        load_all(&fix);
        ASSERT_EQ(fix.ready[0], 0);
        ASSERT_EQ(fix.ready[1], 1);
        load_on_and_on(&fix);
        ASSERT_EQ(fix.ready[0], 1);
        ASSERT_EQ(fix.ready[1], 1);
        uint64_t live = tree_live(&data_group(&fix, "h")->tree);
        ASSERT_TRUE(live >= ROWS - 5 && live < ROWS - 5 + LOAD_PAGE_ROWS_MAX);
        tree_check(&data_group(&fix, "h")->tree);
        fix_done(&fix);
    }
}

TEST(rows_that_are_hot_count_among_those_that_are_wanted)
{
    enum { ROWS = 12 * LOAD_PAGE_ROWS_MAX, PART = 4 * LOAD_PAGE_ROWS_MAX };
    struct fix fix;
    char from[16];
    fix_init(&fix);
    engine_fill(&fix, "h", ROWS);
    snprintf(from, sizeof from, "%05d", PART); /* the second third is known */
    want_rows(&fix, 1, from, false, PART);
    load_on_and_on(&fix);
    struct tree *tree = &data_group(&fix, "h")->tree;
    uint64_t known = tree_live(tree);
    want_rows(&fix, 0, NULL, false, 2 * PART); /* ends where the known ones end */
    load_on_and_on(&fix);
    ASSERT_TRUE(tree_live(tree) <= known + PART + LOAD_PAGE_ROWS_MAX);
    want_rows(&fix, 0, "00000", false, UINT64_MAX);
    load_on_and_on(&fix);
    ASSERT_EQ(fix.ready[0], 1); /* nothing is cold there: it was not started */
    want_rows(&fix, 2, NULL, true, UINT64_MAX);
    load_on_and_on(&fix);
    ASSERT_TRUE(tree_complete(tree));
    ASSERT_EQ(tree_live(tree), ROWS);
    fix_done(&fix);
}

TEST(a_waiter_that_leaves_ends_what_would_follow_its_page)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", LOAD_BULK_ROWS_MAX + LOAD_PAGE_ROWS_MAX);
    want_rows(&fix, 0, NULL, false, UINT64_MAX);
    release(&fix, 0);
    load_on_and_on(&fix);
    ASSERT_EQ(tree_live(&data_group(&fix, "h")->tree), LOAD_BULK_ROWS_MAX);
    fix_done(&fix);
}

TEST(a_bulk_load_brings_many_pages_at_once)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", LOAD_PAGE_ROWS_MAX * 3);
    struct load_want want = {
        .kind = LOAD_PAGE, .slot = fix.data, .key = text("h"), .row_count = LOAD_BULK_ROWS_MAX};
    load_start(&fix.loads, &want, 0, &fix.waiter[0]);
    load_all(&fix);
    ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
    ASSERT_EQ(tree_live(&data_group(&fix, "h")->tree), LOAD_PAGE_ROWS_MAX * 3);
    fix_done(&fix);
}

/* ---- hot rows in the range of a page ---- */

static const char *number(int i)
{
    static char suffix[16];
    snprintf(suffix, sizeof suffix, "%05d", i);
    return suffix;
}

/* Blind: the group is cold. */
static void hot_fill(struct fix *fix, const char *key, int first, int count, int step,
                     uint32_t segment)
{
    uint64_t hash = hot_hash(&fix->hot, fix->data, text(key));
    if (!data_group(fix, key))
        hot_group_add(&fix->hot, fix->data, text(key), hash, false);
    for (int i = 0; i < count; i++)
        hot_put(fix, key, number(first + i * step), "hot", segment);
}

/* Loads what a walk over all of the group meets. The number of loads. */
static uint64_t walk_all(struct fix *fix, const char *key, bool reverse)
{
    uint64_t before = fix->loads.started_count;
    const struct tree *tree = &data_group(fix, key)->tree;
    while (!tree_complete(tree)) {
        struct tree_pos pos;
        char from[16] = "";
        bool more;
        if (reverse) {
            tree_seek_end(tree, &pos);
            more = true;
            while (more && !tree_gap(tree, &pos))
                more = tree_prev(tree, &pos);
            more = pos.block && pos.index < pos.block->count;
        } else {
            tree_seek_first(tree, &pos);
            more = tree_to_entry(tree, &pos);
            while (more && !tree_gap(tree, &pos))
                more = tree_next(tree, &pos);
            if (!more)
                tree_seek_end(tree, &pos);
            more = tree_prev(tree, &pos);
        }
        if (more)
            snprintf(from, sizeof from, "%.5s",
                     (const char *)block_entry(pos.block, pos.index).suffix.ptr);
        want_page(fix, 0, key, more ? from : NULL, reverse);
        load_all(fix);
        release(fix, 0);
        tree_check(tree);
    }
    return fix->loads.started_count - before;
}

TEST(one_load_closes_what_lies_between_any_number_of_hot_rows)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        struct fix fix;
        fix_init(&fix);
        engine_fill(&fix, "h", 10);
        hot_fill(&fix, "h", 10, 5000, 1, 1);
        ASSERT_EQ(data_group(&fix, "h")->tree.gap_count, 5001);
        want_page(&fix, 0, "h", NULL, reverse);
        load_all(&fix);
        ASSERT_EQ(fix.loads.started_count, 1);
        ASSERT_EQ(fix.loads.row_count, 10);
        ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
        ASSERT_EQ(tree_live(&data_group(&fix, "h")->tree), 5010);
        fix_done(&fix);
    }
}

TEST(rows_written_between_cold_ones_cost_no_loads_of_their_own)
{
    enum { COLD = 2000, PAGES = COLD / (LOAD_PAGE_ROWS_MAX - 1) + 2 };
    for (int reverse = 0; reverse < 2; reverse++) {
        struct fix fix;
        fix_init(&fix);
        for (int i = 0; i < COLD; i++)
            engine_put(&fix, DATA, text("h"), text(number(i * 3)), "cold");
        hot_fill(&fix, "h", 1, COLD, 3, 1);        /* behind each cold row */
        hot_fill(&fix, "h", 0, COLD / 2, 6, 1);    /* instead of every second one */
        hot_fill(&fix, "h", 3 * COLD, COLD, 1, 1); /* behind all */
        ASSERT_LE(walk_all(&fix, "h", reverse), PAGES);
        ASSERT_EQ(tree_live(&data_group(&fix, "h")->tree), 3 * COLD);
        ASSERT_STR(at(&fix, "h", "00000"), "hot");
        ASSERT_STR(at(&fix, "h", "00003"), "cold");
        fix_done(&fix);
    }
}

TEST(what_one_load_closes_is_bounded)
{
    enum { HOT = 90000, CLOSED = 64 * 1024 };
    struct fix fix;
    fix_init(&fix);
    hot_fill(&fix, "h", 0, HOT, 1, 1);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    ASSERT_EQ(data_group(&fix, "h")->tree.gap_count, HOT + 1 - CLOSED);
    ASSERT_STR(at(&fix, "h", "00000x"), "-");
    release(&fix, 0);
    ASSERT_EQ(walk_all(&fix, "h", true), 1);
    fix_done(&fix);
}

TEST(a_load_ends_before_rows_that_are_known_anyhow)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", LOAD_PAGE_ROWS_MAX);
    want_page(&fix, 0, "h", "00100", false); /* up to the end */
    load_all(&fix);
    ASSERT_EQ(fix.loads.row_count, LOAD_PAGE_ROWS_MAX - 100);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    ASSERT_EQ(fix.loads.row_count, LOAD_PAGE_ROWS_MAX);
    ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
    fix_done(&fix);
}

TEST(a_load_does_not_read_a_large_row_that_is_hot)
{
    static char large[40 * 1024];
    struct fix fix;
    fix_init(&fix);
    memset(large, 'x', sizeof large - 1);
    engine_fill(&fix, "h", 10);
    engine_put(&fix, DATA, text("h"), text("00005"), large);
    want_row(&fix, 0, "h", "00005");
    load_all(&fix);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    ASSERT_EQ(fix.loads.row_count, 1 + 5);
    want_page(&fix, 0, "h", NULL, true);
    load_all(&fix);
    ASSERT_EQ(fix.loads.row_count, 1 + 5 + 4);
    ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
    fix_done(&fix);
}

/* Rows 0, 3, 6 ... are in the engine, 1, 4, 7 ... are hot and clean and there as well. */
static void mixed_fill(struct fix *fix)
{
    for (int i = 0; i < 60; i++)
        if (i % 3 < 2)
            engine_put(fix, DATA, text("h"), text(number(i)), i % 3 ? "hot" : "cold");
    hot_fill(fix, "h", 1, 20, 3, 1);
    meter_mark(&fix->hot.meter, 1);
}

TEST(rows_that_are_evicted_while_a_load_passes_them_are_brought_by_it)
{
    for (int when = 0; when < 4; when++) {
        struct fix fix;
        fix_init(&fix);
        mixed_fill(&fix);
        want_page(&fix, 0, "h", when % 2 ? NULL : "00004", when % 2);
        if (when < 2)
            evict_all(&fix, loads_horizon(&fix.loads, 1));
        ASSERT_TRUE(loads_step(&fix.loads));
        evict_all(&fix, loads_horizon(&fix.loads, 1));
        ASSERT_TRUE(!data_group(&fix, "h")->tree.root);
        load_all(&fix);
        ASSERT_STR(at(&fix, "h", "00004"), "hot");
        ASSERT_STR(at(&fix, "h", "00005"), "-");
        ASSERT_STR(at(&fix, "h", "00006"), "cold");
        ASSERT_STR(at(&fix, "h", "00058"), "hot");
        ASSERT_STR(at(&fix, "h", "00059"), "-");
        tree_check(&data_group(&fix, "h")->tree);
        fix_done(&fix);
    }
}

TEST(changes_behind_hot_rows_win_over_a_load_that_passes_them)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        struct fix fix;
        fix_init(&fix);
        mixed_fill(&fix);
        want_page(&fix, 0, "h", NULL, reverse);
        hot_put(&fix, "h", "00006", "new", 2);
        hot_put(&fix, "h", "00007", NULL, 2);
        ASSERT_TRUE(loads_step(&fix.loads));
        hot_put(&fix, "h", "00009", NULL, 2);
        hot_put(&fix, "h", "00010", "new", 2);
        hot_put(&fix, "h", "00011", "new", 2);
        for (int i = 6; i < 12; i++) /* a flush, which the load does not see */
            engine_put(&fix, DATA, text("h"), text(number(i)), i == 7 || i == 9 ? NULL : "new");
        meter_mark(&fix.hot.meter, 2);
        evict_all(&fix, loads_horizon(&fix.loads, 2));
        load_all(&fix);
        ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
        ASSERT_STR(at(&fix, "h", "00004"), "hot");
        ASSERT_STR(at(&fix, "h", "00006"), "new");
        ASSERT_STR(at(&fix, "h", "00007"), "-");
        ASSERT_STR(at(&fix, "h", "00009"), "-");
        ASSERT_STR(at(&fix, "h", "00010"), "new");
        ASSERT_STR(at(&fix, "h", "00011"), "new");
        ASSERT_STR(at(&fix, "h", "00012"), "cold");
        fix_done(&fix);
    }
}

TEST(hot_rows_behind_those_that_were_brought_are_not_pinned)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 10);
    hot_fill(&fix, "h", 10, 5000, 1, 1);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    meter_mark(&fix.hot.meter, 1); /* flushed by now */
    evict_all(&fix, 1);
    ASSERT_STR(at(&fix, "h", "00009"), "cold");
    ASSERT_STR(at(&fix, "h", "05000"), "?");
    fix_done(&fix);
}

/* ---- races with changes, flushes and drops ---- */

TEST(what_changed_after_the_start_wins)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 4);
    want_page(&fix, 0, "h", NULL, false);
    hot_put(&fix, "h", "00001", "hot", 1);
    hot_put(&fix, "h", "00002", NULL, 1);
    hot_put(&fix, "h", "00009", "new", 1);
    load_all(&fix);
    ASSERT_STR(at(&fix, "h", "00000"), "cold");
    ASSERT_STR(at(&fix, "h", "00001"), "hot");
    ASSERT_STR(at(&fix, "h", "00002"), "-");
    ASSERT_STR(at(&fix, "h", "00009"), "new");
    ASSERT_TRUE(tree_complete(&data_group(&fix, "h")->tree));
    fix_done(&fix);
}

TEST(the_horizon_is_the_mark_of_the_oldest_load_in_flight)
{
    struct fix fix;
    fix_init(&fix);
    engine_put(&fix, META, text("a"), text(""), "cold");
    meter_mark(&fix.hot.meter, 3);
    want_meta(&fix, 0, "a");
    meter_mark(&fix.hot.meter, 5);
    want_meta(&fix, 0, "b");
    ASSERT_EQ(loads_horizon(&fix.loads, 9), 3);
    ASSERT_TRUE(loads_step(&fix.loads));
    ASSERT_EQ(loads_horizon(&fix.loads, 9), 3); /* read, and not yet taken in */
    loads_poll(&fix.loads);
    ASSERT_EQ(loads_horizon(&fix.loads, 9), 5);
    load_all(&fix);
    ASSERT_EQ(loads_horizon(&fix.loads, 9), 9);
    fix_done(&fix);
}

TEST(a_load_of_a_dropped_prefix_brings_nothing)
{
    struct fix fix;
    fix_init(&fix);
    engine_put(&fix, META, text("k"), text(""), "cold");
    engine_fill(&fix, "h", 4);
    want_meta(&fix, 0, "k");
    want_page(&fix, 0, "h", NULL, false);
    uint32_t meta = hot_prefix_drop(&fix.hot, 0, 1), data = hot_prefix_drop(&fix.hot, 1, 1);
    hot_slot_release(&fix.hot, meta);
    hot_slot_release(&fix.hot, data);
    while (fix.hot.dead_count > 0 && hot_sweep(&fix.hot, 1000) && fix.hot.dead_count > 1)
        continue;
    ASSERT_TRUE(data_group(&fix, "h") != NULL); /* pinned by the load */
    load_all(&fix);
    ASSERT_EQ(fix.ready[0], 1);
    ASSERT_TRUE(!meta_row(&fix, "k"));
    ASSERT_EQ(tree_live(&data_group(&fix, "h")->tree), 0);
    release(&fix, 0);
    hot_sweep(&fix.hot, UINT32_MAX);
    hot_sweep(&fix.hot, UINT32_MAX);
    ASSERT_FALSE(fix.hot.slot[meta].used);
    ASSERT_FALSE(fix.hot.slot[data].used);
    ASSERT_EQ(fix.hot.table.entry_count, 0);
    fix_done(&fix);
}

TEST(a_dropped_group_stays_empty_whatever_a_load_read)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 4);
    want_page(&fix, 0, "h", NULL, false);
    ASSERT_TRUE(loads_step(&fix.loads));
    struct hot_group *group = data_group(&fix, "h");
    tree_done(&group->tree, &fix.hot.meter);
    tree_init(&group->tree, true);
    hot_group_stamp(&fix.hot, group, 1);
    load_all(&fix);
    ASSERT_EQ(tree_live(&group->tree), 0);
    ASSERT_TRUE(tree_complete(&group->tree));
    fix_done(&fix);
}

/* ---- failures ---- */

TEST(a_failure_reaches_every_waiter_and_leaves_the_place_cold)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 4);
    engine_put(&fix, META, text("k"), text(""), "cold");
    const enum engine_memory_op ops[] = {ENGINE_MEMORY_ITER_OPEN, ENGINE_MEMORY_ITER_NEXT,
                                         ENGINE_MEMORY_GET};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        engine_memory_arm(fix.memory, ops[i], i == 1 ? 3 : 1, 1, RC_IO);
        want_page(&fix, 0, "h", NULL, false);
        want_page(&fix, 1, "h", NULL, false);
        if (ops[i] == ENGINE_MEMORY_GET) {
            want_meta(&fix, 0, "k");
            want_meta(&fix, 1, "k");
        }
        load_all(&fix);
        for (int w = 0; w < 2; w++) {
            ASSERT_RC(fix.waiter[w].rc, RC_IO);
            ASSERT_TRUE(fix.waiter[w].err.text[0] != 0);
            release(&fix, w);
            ASSERT_RC(fix.waiter[w].rc, RC_OK);
        }
        ASSERT_EQ(fix.ready[0], (int)i + 1);
        if (ops[i] != ENGINE_MEMORY_GET)
            ASSERT_STR(at(&fix, "h", "00000"), "?");
        ASSERT_TRUE(!meta_row(&fix, "k"));
    }
    ASSERT_EQ(fix.loads.failed_count, 3);
    want_meta(&fix, 0, "k");
    load_all(&fix);
    ASSERT_BYTES(hot_row_value(meta_row(&fix, "k")), text("cold"));
    fix_done(&fix);
}

TEST(every_failed_allocation_is_an_answer)
{
    bool failed = true;
    for (int64_t count = 1; failed; count++) {
        struct fix fix;
        fix_init(&fix);
        engine_fill(&fix, "h", 4);
        engine_put(&fix, DATA, text("h"), text("large"),
                   "01234567890123456789012345678901234567890123456789");
        engine_put(&fix, META, text("k"), text(""), "cold");
        want_page(&fix, 0, "h", NULL, false);
        want_meta(&fix, 0, "k");
        mem_fail_after(count);
        load_all(&fix);
        mem_fail_after(-1);
        ASSERT_EQ(fix.ready[0], 1);
        failed = fix.waiter[0].rc != RC_OK;
        if (failed) {
            ASSERT_RC(fix.waiter[0].rc, RC_NOMEM);
            ASSERT_TRUE(fix.waiter[0].err.text[0] != 0);
        }
        if (data_group(&fix, "h"))
            tree_check(&data_group(&fix, "h")->tree);
        release(&fix, 0);
        want_page(&fix, 0, "h", NULL, false);
        want_meta(&fix, 0, "k");
        load_all(&fix);
        ASSERT_STR(at(&fix, "h", "00003"), "cold");
        ASSERT_BYTES(hot_row_value(meta_row(&fix, "k")), text("cold"));
        fix_done(&fix);
        ASSERT_LT(count, 100);
    }
}

/* ---- pinning ---- */

TEST(what_was_loaded_stays_until_the_waiter_lets_go)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 4);
    engine_put(&fix, META, text("k"), text(""), "cold");
    want_page(&fix, 0, "h", NULL, false);
    want_meta(&fix, 0, "k");
    want_meta(&fix, 1, "k");
    load_all(&fix);
    ASSERT_GT(fix.loads.pinned_bytes, 0);
    evict_all(&fix, 0);
    ASSERT_STR(at(&fix, "h", "00002"), "cold");
    ASSERT_TRUE(meta_row(&fix, "k") != NULL);
    release(&fix, 0);
    evict_all(&fix, 0);
    ASSERT_TRUE(!data_group(&fix, "h"));
    ASSERT_TRUE(meta_row(&fix, "k") != NULL); /* the other waiter's */
    release(&fix, 1);
    evict_all(&fix, 0);
    ASSERT_TRUE(!meta_row(&fix, "k"));
    ASSERT_EQ(fix.loads.pinned_bytes, 0);
    fix_done(&fix);
}

TEST(a_pinned_page_keeps_only_what_it_brought)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", LOAD_PAGE_ROWS_MAX * 4);
    want_page(&fix, 0, "h", NULL, false);
    load_all(&fix);
    struct load_want want = {.kind = LOAD_PAGE,
                             .slot = fix.data,
                             .key = text("h"),
                             .row_count = LOAD_BULK_ROWS_MAX,
                             .has_from = true,
                             .from = text("00255")};
    load_start(&fix.loads, &want, 0, &fix.waiter[1]);
    load_all(&fix);
    ASSERT_EQ(tree_live(&data_group(&fix, "h")->tree), LOAD_PAGE_ROWS_MAX * 4);
    release(&fix, 1);
    evict_all(&fix, 0);
    ASSERT_STR(at(&fix, "h", "00000"), "cold");
    ASSERT_STR(at(&fix, "h", "00255"), "cold");
    ASSERT_STR(at(&fix, "h", "00600"), "?");
    fix_done(&fix);
}

TEST(over_the_limit_everybody_but_the_oldest_gives_back)
{
    struct fix fix;
    fix_init(&fix);
    engine_put(&fix, META, text("a"), text(""), "cold");
    engine_put(&fix, META, text("b"), text(""), "cold");
    want_meta(&fix, 1, "b"); /* the younger one comes first */
    want_meta(&fix, 0, "a");
    load_all(&fix);
    loads_pin_limit(&fix.loads, fix.loads.pinned_bytes);
    ASSERT_EQ(fix.loads.preempted_count, 0);
    loads_pin_limit(&fix.loads, 1);
    ASSERT_EQ(fix.loads.preempted_count, 1);
    evict_all(&fix, 0);
    ASSERT_TRUE(meta_row(&fix, "a") != NULL);
    ASSERT_TRUE(!meta_row(&fix, "b"));
    fix_done(&fix);
}

TEST(a_wounded_waiter_still_waits_for_what_is_in_flight)
{
    struct fix fix;
    fix_init(&fix);
    want_meta(&fix, 0, "old");
    want_meta(&fix, 1, "a");
    ASSERT_TRUE(loads_step(&fix.loads) && loads_step(&fix.loads));
    loads_poll(&fix.loads);
    want_meta(&fix, 1, "b");
    fix.loads.pinned_bytes += 100; /* absent rows bring no bytes */
    loads_pin_limit(&fix.loads, 1);
    fix.loads.pinned_bytes -= 100;
    ASSERT_EQ(fix.waiter[1].load_count, 1);
    load_all(&fix);
    ASSERT_EQ(fix.ready[1], 2);
    fix_done(&fix);
}

TEST(a_waiter_may_go_at_any_time)
{
    for (int steps = 0; steps < 4; steps++) {
        struct fix fix;
        fix_init(&fix);
        engine_fill(&fix, "h", 4);
        want_page(&fix, 0, "h", NULL, false);
        want_meta(&fix, 0, "k");
        if (steps > 0)
            ASSERT_TRUE(loads_step(&fix.loads));
        if (steps > 1)
            ASSERT_TRUE(loads_step(&fix.loads));
        if (steps > 2)
            loads_poll(&fix.loads);
        release(&fix, 0);
        if (steps < 2)
            want_page(&fix, 1, "h", NULL, false); /* joins what nobody waits for */
        load_all(&fix);
        ASSERT_EQ(fix.ready[0], steps > 2);
        ASSERT_EQ(fix.ready[1], steps < 2);
        ASSERT_STR(at(&fix, "h", "00003"), "cold");
        ASSERT_EQ(fix.loads.flight_count, 0);
        release(&fix, 1);
        ASSERT_TRUE(!data_group(&fix, "h")->loads);
        ASSERT_EQ(fix.loads.pinned.entry_count, 0);
        ASSERT_EQ(fix.loads.pinned_bytes, 0);
        fix_done(&fix);
    }
}

TEST(the_end_does_not_wait_for_what_is_queued)
{
    struct fix fix;
    fix_init(&fix);
    engine_fill(&fix, "h", 4);
    want_page(&fix, 0, "h", NULL, false);
    want_meta(&fix, 0, "k");
    ASSERT_TRUE(loads_step(&fix.loads));
    fix_done(&fix);
}

/* ---- threads ---- */

static void notified(struct fix *fix, int *seen)
{
    pthread_mutex_lock(&fix->lock);
    while (fix->notify_count == *seen)
        pthread_cond_wait(&fix->changed, &fix->lock);
    *seen = fix->notify_count;
    pthread_mutex_unlock(&fix->lock);
}

TEST(loader_threads_bring_everything_once)
{
    enum { GROUPS = 20, ROWS = 50, ROUNDS = 5 };
    struct fix fix;
    int seen = 0;
    char key[16];
    fix_init_threads(&fix, 3);
    for (int g = 0; g < GROUPS; g++) {
        snprintf(key, sizeof key, "g%02d", g);
        engine_fill(&fix, key, ROWS);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int g = 0; g < GROUPS; g++) {
            snprintf(key, sizeof key, "g%02d", g);
            want_page(&fix, g % WAITERS_MAX, key, NULL, g % 2);
            want_meta(&fix, g % WAITERS_MAX, key);
        }
        while (fix.loads.flight_count > 0)
            if (!loads_poll(&fix.loads))
                notified(&fix, &seen);
        for (int w = 0; w < WAITERS_MAX; w++) {
            ASSERT_EQ(fix.waiter[w].pending_count, 0);
            ASSERT_GE(fix.ready[w], round + 1);
            ASSERT_RC(fix.waiter[w].rc, RC_OK);
            release(&fix, w);
        }
        for (int g = 0; g < GROUPS; g++) {
            snprintf(key, sizeof key, "g%02d", g);
            ASSERT_EQ(tree_live(&data_group(&fix, key)->tree), ROWS);
            ASSERT_TRUE(tree_complete(&data_group(&fix, key)->tree));
        }
        evict_all(&fix, 0);
        ASSERT_EQ(fix.hot.table.entry_count, 0);
    }
    fix_done(&fix);
}

TEST(loader_threads_end_while_the_engine_is_slow)
{
    struct fix fix;
    fix_init_threads(&fix, 2);
    engine_fill(&fix, "h", 4);
    engine_memory_gate(fix.memory, true);
    want_page(&fix, 0, "h", NULL, false);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        want_meta(&fix, 0, key);
    }
    engine_memory_gate(fix.memory, false);
    fix_done(&fix);
}

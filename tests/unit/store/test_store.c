// SPDX-License-Identifier: Apache-2.0
/* test_store.c - the store over the engine in memory: what every model relies on, one claim a test.
 * */
#include "store/store.h"

#include <stdio.h>

#include "base/file_sim.h"
#include "base/mem.h"
#include "base/rand.h"
#include "store/engine/engine_memory.h"
#include "store/hot/load.h"
#include "store/prefetch.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

enum { META = 1, DATA = 2 };

static const struct store_space spaces[] = {
    {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
};

struct fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock;
    struct store *store;
    uint32_t meta, data;
    struct err err;
};

static void fix_open(struct fix *fix)
{
    struct store_options options = {.dir = "db",
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = 1 << 20,
                                    .segment_bytes = 4096,
                                    .flush_unit_bytes = 16384,
                                    .disk_reserve_bytes = 0,
                                    .durability = DURABILITY_EVERYSEC,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, META, BYTES("kvm"), &fix->meta, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, DATA, BYTES("kvd"), &fix->data, &fix->err), &fix->err);
}

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    fix_open(fix);
}

static void fix_done(struct fix *fix)
{
    ASSERT_OK(store_close(fix->store, &fix->err), &fix->err);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
}

static void fix_crash(struct fix *fix)
{
    store_abandon(fix->store);
    file_sim_process_end(fix->sim);
    fix_open(fix);
}

static void fix_write(struct fix *fix)
{
    store_commit(fix->store);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
}

static struct store_group meta(struct fix *fix, const char *key)
{
    return (struct store_group){fix->meta, bytes_of(key, strlen(key))};
}

static struct store_group data(struct fix *fix, const char *key)
{
    return (struct store_group){fix->data, bytes_of(key, strlen(key))};
}

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static void fix_flush(struct fix *fix)
{
    uint64_t segment = store_flush_ask(fix->store);
    while (store_flush_mark(fix->store) < segment) {
        bool worked = store_step(fix->store, STORE_STEP_JOURNAL);
        worked = store_step(fix->store, STORE_STEP_FLUSH) || worked;
        store_poll(fix->store);
        ASSERT_TRUE(worked);
    }
}

static void ready_count(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    ++*(int *)arg;
}

/* Waits for what the last RC_COLD wanted. */
static void fix_load(struct fix *fix)
{
    int ready = 0;
    struct load_waiter waiter = {.ready = ready_count, .arg = &ready};
    store_undo(fix->store);
    if (store_wait(fix->store, &waiter)) {
        while (store_step(fix->store, STORE_STEP_LOAD))
            store_poll(fix->store); /* what is behind a page may follow it */
        ASSERT_EQ(ready, 1);
    }
    store_wait_release(fix->store, &waiter);
    load_waiter_done(&waiter);
    store_begin(fix->store, 0);
}

static enum rc get_warm(struct fix *fix, struct store_group group, struct bytes suffix,
                        struct bytes *ret_value)
{
    for (;;) {
        enum rc rc = store_get(fix->store, group, suffix, ret_value, &fix->err);
        if (rc != RC_COLD)
            return rc;
        fix_load(fix);
    }
}

TEST(a_row_is_read_back_as_it_was_put)
{
    struct fix fix;
    struct bytes value;
    fix_init(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, meta(&fix, "a"), BYTES(""), &value, &fix.err), RC_NOT_FOUND);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("one"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("f"), BYTES("1"), &fix.err), RC_OK);
    ASSERT_RC(store_get(fix.store, meta(&fix, "a"), BYTES(""), &value, &fix.err), RC_OK);
    ASSERT_BYTES(value, BYTES("one"));
    fix_write(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, data(&fix, "h"), BYTES("f"), &value, &fix.err), RC_OK);
    ASSERT_BYTES(value, BYTES("1"));
    store_undo(fix.store);
    fix_done(&fix);
}

TEST(a_put_tells_whether_there_was_a_row)
{
    struct fix fix;
    struct bytes value;
    bool is_new;
    fix_init(&fix);
    store_begin(fix.store, 0);
    struct store_group group = data(&fix, "h");
    ASSERT_RC(store_put_tell(fix.store, group, BYTES("a"), BYTES("1"), &is_new, &fix.err), RC_OK);
    ASSERT_TRUE(is_new);
    ASSERT_RC(store_put_tell(fix.store, group, BYTES("a"), BYTES("22"), &is_new, &fix.err), RC_OK);
    ASSERT_FALSE(is_new);
    ASSERT_RC(store_delete(fix.store, group, BYTES("a"), &fix.err), RC_OK);
    ASSERT_RC(store_put_tell(fix.store, group, BYTES("a"), BYTES("3"), &is_new, &fix.err), RC_OK);
    ASSERT_TRUE(is_new);
    fix_write(&fix);
    fix_flush(&fix);
    store_evict_all(fix.store);
    store_begin(fix.store, 0);
    enum rc rc;
    while ((rc = store_put_tell(fix.store, group, BYTES("a"), BYTES("4"), &is_new, &fix.err)) ==
           RC_COLD)
        fix_load(&fix);
    ASSERT_RC(rc, RC_OK);
    ASSERT_FALSE(is_new);
    ASSERT_RC(store_get(fix.store, group, BYTES("a"), &value, &fix.err), RC_OK);
    ASSERT_BYTES(value, BYTES("4"));
    store_undo(fix.store);
    fix_done(&fix);
}

TEST(an_undone_commit_leaves_no_trace)
{
    struct fix fix;
    struct bytes value;
    uint32_t counter;
    fix_init(&fix);
    ASSERT_RC(store_counter(fix.store, BYTES("size"), &counter, &fix.err), RC_OK);
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("one"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("f"), BYTES("1"), &fix.err), RC_OK);
    ASSERT_RC(store_counter_add(fix.store, counter, 2, &fix.err), RC_OK);
    fix_write(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("two"), &fix.err), RC_OK);
    ASSERT_RC(store_delete(fix.store, meta(&fix, "a"), BYTES(""), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, meta(&fix, "b"), BYTES(""), BYTES("x"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("f"), BYTES("22"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("g"), BYTES("3"), &fix.err), RC_OK);
    ASSERT_RC(store_group_drop(fix.store, data(&fix, "h"), &fix.err), RC_OK);
    ASSERT_RC(store_prefix_drop(fix.store, fix.meta, &fix.err), RC_OK);
    ASSERT_RC(store_counter_add(fix.store, counter, 5, &fix.err), RC_OK);
    store_undo(fix.store);
    ASSERT_EQ(store_counter_get(fix.store, counter), 2);
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, meta(&fix, "a"), BYTES(""), &value, &fix.err), RC_OK);
    ASSERT_BYTES(value, BYTES("one"));
    ASSERT_RC(store_get(fix.store, meta(&fix, "b"), BYTES(""), &value, &fix.err), RC_NOT_FOUND);
    ASSERT_RC(store_get(fix.store, data(&fix, "h"), BYTES("f"), &value, &fix.err), RC_OK);
    ASSERT_BYTES(value, BYTES("1"));
    ASSERT_RC(store_get(fix.store, data(&fix, "h"), BYTES("g"), &value, &fix.err), RC_NOT_FOUND);
    store_undo(fix.store);
    fix_done(&fix);
}

static void saved_part(struct fix *fix, uint32_t counter, uint32_t other)
{
    struct store *store = fix->store;
    store_save(store);
    ASSERT_RC(store_put(store, meta(fix, "a"), BYTES(""), BYTES("thr"), &fix->err), RC_OK);
    ASSERT_RC(store_put(store, meta(fix, "b"), BYTES(""), BYTES("x"), &fix->err), RC_OK);
    ASSERT_RC(store_put(store, data(fix, "h"), BYTES("f"), BYTES("333"), &fix->err), RC_OK);
    ASSERT_RC(store_delete(store, data(fix, "h"), BYTES("g"), &fix->err), RC_OK);
    ASSERT_RC(store_group_drop(store, data(fix, "h"), &fix->err), RC_OK);
    ASSERT_RC(store_counter_add(store, counter, 100, &fix->err), RC_OK);
    ASSERT_RC(store_counter_add(store, other, 7, &fix->err), RC_OK);
    store_undo_saved(store);
}

static void saved_check(struct fix *fix, uint32_t counter, uint32_t other)
{
    struct bytes value;
    ASSERT_EQ(store_counter_get(fix->store, counter), 5);
    ASSERT_EQ(store_counter_get(fix->store, other), 0);
    store_begin(fix->store, 0);
    ASSERT_RC(store_get(fix->store, meta(fix, "a"), BYTES(""), &value, &fix->err), RC_OK);
    ASSERT_BYTES(value, BYTES("two"));
    ASSERT_RC(store_get(fix->store, meta(fix, "b"), BYTES(""), &value, &fix->err), RC_NOT_FOUND);
    ASSERT_RC(store_get(fix->store, data(fix, "h"), BYTES("f"), &value, &fix->err), RC_OK);
    ASSERT_BYTES(value, BYTES("22"));
    ASSERT_RC(store_get(fix->store, data(fix, "h"), BYTES("g"), &value, &fix->err), RC_OK);
    ASSERT_RC(store_get(fix->store, data(fix, "h"), BYTES("i"), &value, &fix->err), RC_OK);
    store_undo(fix->store);
}

TEST(what_came_after_a_saved_place_is_taken_back_and_the_commit_goes_on)
{
    struct fix fix;
    uint32_t counter, other;
    fix_init(&fix);
    ASSERT_RC(store_counter(fix.store, BYTES("size"), &counter, &fix.err), RC_OK);
    ASSERT_RC(store_counter(fix.store, BYTES("other"), &other, &fix.err), RC_OK);
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("one"), &fix.err), RC_OK);
    fix_write(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("two"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("f"), BYTES("22"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("g"), BYTES("3"), &fix.err), RC_OK);
    ASSERT_RC(store_counter_add(fix.store, counter, 5, &fix.err), RC_OK);
    saved_part(&fix, counter, other);
    saved_part(&fix, counter, other);
    ASSERT_RC(store_put(fix.store, data(&fix, "h"), BYTES("i"), BYTES("4"), &fix.err), RC_OK);
    fix_write(&fix);
    saved_check(&fix, counter, other);
    fix_crash(&fix); /* the journal has the same */
    ASSERT_RC(store_counter(fix.store, BYTES("size"), &counter, &fix.err), RC_OK);
    ASSERT_RC(store_counter(fix.store, BYTES("other"), &other, &fix.err), RC_OK);
    saved_check(&fix, counter, other);
    fix_done(&fix);
}

static void row_is(struct fix *fix, const char *key, struct bytes expected)
{
    struct bytes value;
    ASSERT_RC(store_get(fix->store, meta(fix, key), BYTES(""), &value, &fix->err), RC_OK);
    ASSERT_BYTES(value, expected);
}

TEST(a_row_that_is_written_in_place_can_be_undone)
{
    struct fix fix;
    fix_init(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("one"), &fix.err), RC_OK);
    fix_write(&fix);
    store_begin(fix.store, 0); /* another commit of the turn, which stays */
    row_is(&fix, "a", BYTES("one"));
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("two"), &fix.err), RC_OK);
    store_commit(fix.store);
    store_begin(fix.store, 0);
    row_is(&fix, "a", BYTES("two"));
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("six"), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("seven"), &fix.err), RC_OK);
    row_is(&fix, "a", BYTES("seven"));
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("eight"), &fix.err), RC_OK);
    ASSERT_RC(store_delete(fix.store, meta(&fix, "a"), BYTES(""), &fix.err), RC_OK);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("ten"), &fix.err), RC_OK);
    row_is(&fix, "a", BYTES("ten"));
    store_undo(fix.store);
    row_is(&fix, "a", BYTES("two"));
    ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
    fix_crash(&fix);
    row_is(&fix, "a", BYTES("two"));
    fix_done(&fix);
}

/* Both ends of a group come and go, as those of a list; the place of the last change is used. */
TEST(the_ends_of_a_group_are_found_where_they_were)
{
    enum { COUNT = 2000 };
    struct fix fix;
    struct bytes value;
    char name[16];
    fix_init(&fix);
    for (int turn = 0; turn < 2; turn++) {
        store_begin(fix.store, 0);
        for (int i = 0; i < COUNT; i++) {
            snprintf(name, sizeof name, "%05d", i % 2 ? 50000 + i : 50000 - i);
            ASSERT_RC(store_put(fix.store, data(&fix, "l"), text(name), text(name), &fix.err),
                      RC_OK);
        }
        ASSERT_EQ(store_group_state(fix.store, data(&fix, "l")).row_count, COUNT);
        for (int i = COUNT - 1; i >= 0; i--) {
            snprintf(name, sizeof name, "%05d", i % 2 ? 50000 + i : 50000 - i);
            ASSERT_RC(store_get(fix.store, data(&fix, "l"), text(name), &value, &fix.err), RC_OK);
            ASSERT_BYTES(value, text(name));
            if (turn == 1)
                ASSERT_RC(store_delete(fix.store, data(&fix, "l"), text(name), &fix.err), RC_OK);
        }
        ASSERT_EQ(store_group_state(fix.store, data(&fix, "l")).row_count, turn ? 0 : COUNT);
        store_undo(fix.store);
        ASSERT_EQ(store_group_state(fix.store, data(&fix, "l")).row_count, 0);
    }
    fix_done(&fix);
}

TEST(a_written_turn_survives_the_end_of_the_process)
{
    struct fix fix;
    struct bytes value;
    uint32_t counter;
    fix_init(&fix);
    ASSERT_RC(store_counter(fix.store, BYTES("size"), &counter, &fix.err), RC_OK);
    for (int i = 0; i < 500; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%03d", i);
        store_begin(fix.store, 0);
        ASSERT_RC(store_put(fix.store, meta(&fix, key), BYTES(""), text(key), &fix.err), RC_OK);
        ASSERT_RC(store_put(fix.store, data(&fix, "h"), text(key), text(key), &fix.err), RC_OK);
        ASSERT_RC(store_counter_add(fix.store, counter, 1, &fix.err), RC_OK);
        fix_write(&fix);
    }
    uint64_t lsn = store_last_lsn(fix.store);
    fix_crash(&fix);
    ASSERT_GT(store_last_lsn(fix.store) + 1, lsn);
    ASSERT_RC(store_counter(fix.store, BYTES("size"), &counter, &fix.err), RC_OK);
    ASSERT_EQ(store_counter_get(fix.store, counter), 500);
    fix_flush(&fix);
    store_evict_all(fix.store);
    fix_crash(&fix);
    ASSERT_RC(store_counter(fix.store, BYTES("size"), &counter, &fix.err), RC_OK);
    ASSERT_EQ(store_counter_get(fix.store, counter), 500);
    store_begin(fix.store, 0);
    for (int i = 0; i < 500; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%03d", i);
        ASSERT_RC(get_warm(&fix, meta(&fix, key), BYTES(""), &value), RC_OK);
        ASSERT_BYTES(value, text(key));
        ASSERT_RC(get_warm(&fix, data(&fix, "h"), text(key), &value), RC_OK);
        ASSERT_BYTES(value, text(key));
    }
    store_undo(fix.store);
    store_check(fix.store);
    fix_done(&fix);
}

/* A clock that was set wrong once must neither use them up nor make them go back. */
TEST(lsns_only_grow_and_stay_small_whatever_the_clock_says)
{
    const uint64_t ms[] = {UINT64_C(1700000000000),
                           UINT64_C(4102444800000) /* 2100 */,
                           UINT64_C(1700000000000),
                           UINT64_C(17000000000000),
                           UINT64_MAX,
                           0};
    struct fix fix;
    uint64_t last = 0;
    fix_init(&fix);
    for (size_t i = 0; i < ARRAY_LEN(ms); i++) {
        atomic_store(&fix.clock.unix_ms, ms[i]);
        ASSERT_OK(store_close(fix.store, &fix.err), &fix.err);
        fix_open(&fix);
        store_begin(fix.store, 0);
        ASSERT_RC(store_put(fix.store, meta(&fix, "k"), BYTES(""), BYTES("v"), &fix.err), RC_OK);
        fix_write(&fix);
        ASSERT_TRUE(store_last_lsn(fix.store) > last);
        last = store_last_lsn(fix.store);
        ASSERT_TRUE(last < UINT64_C(1) << 62);
    }
    fix_done(&fix);
}

TEST(a_walk_over_cold_rows_meets_all_of_them_in_both_directions)
{
    struct fix fix;
    fix_init(&fix);
    for (int i = 0; i < 2000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%05d", i * 7 % 2000);
        store_begin(fix.store, 0);
        ASSERT_RC(store_put(fix.store, data(&fix, "h"), text(key), text(key), &fix.err), RC_OK);
        fix_write(&fix);
    }
    for (int reverse = 0; reverse < 2; reverse++) {
        fix_flush(&fix);
        store_evict_all(fix.store);
        ASSERT_EQ(store_group_state(fix.store, data(&fix, "h")).row_count, 0);
        struct store_walk walk;
        struct bytes suffix, value;
        int count = 0;
        enum rc rc;
        store_begin(fix.store, 0);
        store_walk_init(&walk, fix.store, data(&fix, "h"), reverse);
        while ((rc = store_walk_next(&walk, &suffix, &value, &fix.err)) != RC_NOT_FOUND) {
            if (rc == RC_COLD) {
                fix_load(&fix);
                continue;
            }
            char key[16];
            snprintf(key, sizeof key, "%05d", reverse ? 1999 - count : count);
            ASSERT_RC(rc, RC_OK);
            ASSERT_BYTES(suffix, text(key));
            ASSERT_BYTES(value, text(key));
            count++;
        }
        ASSERT_EQ(count, 2000);
        store_walk_done(&walk);
        uint64_t rank;
        ASSERT_RC(store_rank(fix.store, data(&fix, "h"), BYTES("00500"), &rank, &fix.err), RC_OK);
        ASSERT_EQ(rank, 500);
        ASSERT_RC(store_nth(fix.store, data(&fix, "h"), 1234, &suffix, &value, &fix.err), RC_OK);
        ASSERT_BYTES(suffix, BYTES("01234"));
        store_undo(fix.store);
        store_check(fix.store);
    }
    fix_done(&fix);
}

TEST(a_large_group_that_was_dropped_is_freed_in_steps)
{
    struct fix fix;
    struct store_stats stats;
    char value[256] = {0};
    fix_init(&fix);
    store_poll(fix.store);
    store_stats(fix.store, &stats);
    uint64_t before = stats.hot_bytes;
    store_begin(fix.store, 0);
    for (int i = 0; i < 20000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%05d", i);
        ASSERT_RC(store_put(fix.store, data(&fix, "h"), text(key), bytes_of(value, sizeof value),
                            &fix.err),
                  RC_OK);
    }
    fix_write(&fix);
    ASSERT_FALSE(store_busy(fix.store));

    store_begin(fix.store, 0);
    ASSERT_RC(store_group_drop(fix.store, data(&fix, "h"), &fix.err), RC_OK);
    store_undo(fix.store);
    ASSERT_EQ(store_group_state(fix.store, data(&fix, "h")).row_count, 20000);
    store_check(fix.store);

    store_begin(fix.store, 0);
    ASSERT_RC(store_group_drop(fix.store, data(&fix, "h"), &fix.err), RC_OK);
    fix_write(&fix);
    ASSERT_EQ(store_group_state(fix.store, data(&fix, "h")).row_count, 0);
    ASSERT_TRUE(store_busy(fix.store));
    int polls = 0;
    for (; store_busy(fix.store); polls++)
        store_poll(fix.store);
    ASSERT_GT(polls, 1);
    store_stats(fix.store, &stats);
    ASSERT_TRUE(stats.hot_bytes < before + 4096);
    fix_done(&fix);
}

TEST(dropping_a_prefix_without_end_in_one_turn_is_refused_and_can_be_undone)
{
    struct fix fix;
    struct bytes value;
    enum rc rc = RC_OK;
    int drops = 0;
    fix_init(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, meta(&fix, "a"), BYTES(""), BYTES("1"), &fix.err), RC_OK);
    fix_write(&fix);

    store_begin(fix.store, 0);
    for (; rc == RC_OK && drops < 100000; drops++) {
        ASSERT_RC(store_put(fix.store, meta(&fix, "b"), BYTES(""), BYTES("2"), &fix.err), RC_OK);
        rc = store_prefix_drop(fix.store, fix.meta, &fix.err);
    }
    ASSERT_RC(rc, RC_TOO_BIG);
    store_undo(fix.store);
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, meta(&fix, "a"), BYTES(""), &value, &fix.err), RC_OK);
    ASSERT_RC(store_prefix_drop(fix.store, fix.meta, &fix.err), RC_OK);
    for (int i = 0; i < 100000; i++) /* nothing is there any more */
        ASSERT_RC(store_prefix_drop(fix.store, fix.meta, &fix.err), RC_OK);
    fix_write(&fix);
    fix_crash(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(store_get(fix.store, meta(&fix, "a"), BYTES(""), &value, &fix.err), RC_NOT_FOUND);
    store_undo(fix.store);
    fix_done(&fix);
}

static void prefetch_rows_add(struct fix *fix, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%03d", i);
        store_begin(fix->store, 0);
        ASSERT_RC(store_put(fix->store, meta(fix, key), BYTES(""), text(key), &fix->err), RC_OK);
        ASSERT_RC(store_put(fix->store, data(fix, key), text(key), text(key), &fix->err), RC_OK);
        ASSERT_RC(store_put(fix->store, data(fix, "big"), text(key), text(key), &fix->err), RC_OK);
        fix_write(fix);
    }
}

/* Cold rows and groups, hot ones, a tree of several levels, an empty and a dropped group. */
static void prefetch_fix_init(struct fix *fix)
{
    fix_init(fix);
    prefetch_rows_add(fix, 0, 500);
    fix_flush(fix);
    store_evict_all(fix->store);
    prefetch_rows_add(fix, 250, 999);
    store_begin(fix->store, 0);
    ASSERT_RC(store_group_drop(fix->store, data(fix, "k300"), &fix->err), RC_OK);
    ASSERT_RC(store_delete(fix->store, meta(fix, "k301"), BYTES(""), &fix->err), RC_OK);
    fix_write(fix);
}

static void assert_same_stats(struct fix *a, struct fix *b)
{
    struct store_stats x, y;
    store_stats(a->store, &x);
    store_stats(b->store, &y);
    ASSERT_EQ(x.hot_bytes, y.hot_bytes);
    ASSERT_EQ(x.dirty_bytes, y.dirty_bytes);
    ASSERT_EQ(x.pinned_bytes, y.pinned_bytes);
    ASSERT_EQ(x.hot_entry_count, y.hot_entry_count);
    ASSERT_EQ(x.load_count, y.load_count);
    ASSERT_EQ(x.loads_in_flight, y.loads_in_flight);
    ASSERT_EQ(x.cold_count, y.cold_count);
    ASSERT_EQ(x.commit_count, y.commit_count);
    ASSERT_EQ(x.undo_count, y.undo_count);
    ASSERT_EQ(store_last_lsn(a->store), store_last_lsn(b->store));
}

TEST(a_prefetch_changes_no_answer_and_no_figure)
{
    enum { KEYS = 40 };
    static uint8_t long_key[STORE_GROUP_KEY_BYTES_MAX + 1];
    struct fix with, without;
    char key[KEYS][16];
    prefetch_fix_init(&with);
    prefetch_fix_init(&without);
    store_prefetch(with.store, NULL, 0); /* between commits */
    store_begin(with.store, 0);
    store_begin(without.store, 0);
    for (int from = 0; from < 1100; from += KEYS) {
        struct store_group group[2 * KEYS + 4] = {
            {with.meta, bytes_of(long_key, sizeof long_key)},
            {with.data, bytes_of(long_key, sizeof long_key - 1)},
            {with.data, BYTES("big")},
            {with.meta, BYTES("")},
        };
        for (int i = 0; i < KEYS; i++) {
            snprintf(key[i], sizeof key[i], "k%03d", from + i);
            group[4 + 2 * i] = meta(&with, key[i]);
            group[5 + 2 * i] = data(&with, key[i]);
        }
        store_prefetch(with.store, group, ARRAY_LEN(group));
        assert_same_stats(&with, &without);
        for (size_t i = 0; i < ARRAY_LEN(group); i++) {
            struct bytes value = BYTES(""), expected = BYTES("");
            struct bytes suffix = group[i].prefix == with.data ? group[i].key : BYTES("");
            enum rc rc = store_get(without.store, group[i], suffix, &expected, &without.err);
            ASSERT_RC(store_get(with.store, group[i], suffix, &value, &with.err), rc);
            ASSERT_BYTES(value, expected);
        }
        assert_same_stats(&with, &without);
    }
    store_undo(with.store);
    store_undo(without.store);
    store_check(with.store);
    fix_done(&with);
    fix_done(&without);
}

static void rows_put(struct fix *fix, const char *group, int count)
{
    for (int i = 0; i < count;) {
        store_begin(fix->store, 0);
        for (int n = 0; n < 500 && i < count; n++, i++) {
            char key[16];
            snprintf(key, sizeof key, "%06d", i);
            ASSERT_RC(store_put(fix->store, data(fix, group), text(key), BYTES(""), &fix->err),
                      RC_OK);
        }
        fix_write(fix);
        fix_flush(fix);
    }
}

/* The rank of a row in each of two groups in turn, until both are in memory. */
static void both_warm(struct fix *fix)
{
    uint64_t rank[2] = {0};
    store_begin(fix->store, 0);
    for (bool cold = true; cold;) {
        cold = false;
        for (int i = 0; i < 2; i++) {
            enum rc rc = store_rank(fix->store, data(fix, i ? "h" : "g"), BYTES("012345"), &rank[i],
                                    &fix->err);
            if (rc == RC_COLD)
                fix_load(fix);
            cold = cold || rc == RC_COLD;
        }
    }
    store_undo(fix->store);
    ASSERT_EQ(rank[0], 12345);
    ASSERT_EQ(rank[1], 12345);
}

TEST(bringing_in_a_whole_group_passes_each_row_once)
{
    enum { ROWS = 22000, PAGE = LOAD_BULK_FACTOR * LOAD_PAGE_ROWS_MAX };
    struct fix fix;
    struct store_stats before, after;
    fix_init(&fix);
    rows_put(&fix, "g", ROWS);
    rows_put(&fix, "h", ROWS);
    store_evict_all(fix.store);
    store_stats(fix.store, &before);
    both_warm(&fix);
    store_stats(fix.store, &after);
    ASSERT_EQ(after.load_count - before.load_count, 2 * (ROWS / PAGE + 1));
    ASSERT_EQ(after.load_row_count - before.load_row_count,
              2 * (ROWS + ROWS / PAGE)); /* ends meet */
    ASSERT_LE(after.gap_search_count - before.gap_search_count, 2 * ROWS);

    store_evict_all(fix.store); /* the hints are behind what is cold now */
    both_warm(&fix);
    store_check(fix.store);
    fix_done(&fix);
}

/* ---- rows that are foreseen ---- */

enum { FORESEEN_ROWS = 40, FORESEEN_BYTES = 700 /* out of line */ };

struct foreseen {
    char suffix[FORESEEN_ROWS][24];
    uint8_t value[FORESEEN_ROWS][FORESEEN_BYTES];
    struct store_row row[FORESEEN_ROWS];
};

static void foreseen_put(struct fix *fix, struct foreseen *rows, size_t i, uint8_t byte)
{
    memset(rows->value[i], byte, FORESEEN_BYTES);
    ASSERT_RC(store_put(fix->store, rows->row[i].group, rows->row[i].suffix,
                        bytes_of(rows->value[i], FORESEEN_BYTES), &fix->err),
              RC_OK);
}

/* Suffixes that differ in their first eight bytes, behind them, and that are longer than what is
 * remembered. */
static void foreseen_init(struct fix *fix, struct foreseen *rows)
{
    static const char *const formats[] = {"%08zu", "same-own%05zu", "a-long-one-of-some-%03zu"};
    fix_init(fix);
    store_begin(fix->store, 0);
    for (size_t i = 0; i < FORESEEN_ROWS; i++) {
        snprintf(rows->suffix[i], sizeof rows->suffix[i], formats[i % 3], i);
        rows->row[i] = (struct store_row){data(fix, "g"), text(rows->suffix[i])};
        foreseen_put(fix, rows, i, (uint8_t)i);
    }
}

static void foreseen_expect(struct fix *fix, const struct foreseen *rows, size_t i)
{
    struct bytes value;
    ASSERT_RC(store_get(fix->store, rows->row[i].group, rows->row[i].suffix, &value, &fix->err),
              RC_OK);
    ASSERT_BYTES(value, bytes_of(rows->value[i], FORESEEN_BYTES));
}

TEST(rows_that_were_foreseen_are_read_in_any_order)
{
    struct fix fix;
    struct foreseen rows;
    struct bytes value;
    foreseen_init(&fix, &rows);
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS);
    for (size_t i = 0; i < FORESEEN_ROWS; i++)
        foreseen_expect(&fix, &rows, i);
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS);
    for (size_t i = FORESEEN_ROWS; i-- > 0;)
        foreseen_expect(&fix, &rows, i);
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS);
    for (size_t i = 0; i < FORESEEN_ROWS; i += 3)
        foreseen_expect(&fix, &rows, i);
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS); /* another group, the same suffix */
    ASSERT_RC(store_get(fix.store, data(&fix, "h"), rows.row[0].suffix, &value, &fix.err),
              RC_NOT_FOUND);
    ASSERT_RC(store_get(fix.store, data(&fix, "g"), BYTES("same-own99999"), &value, &fix.err),
              RC_NOT_FOUND);
    fix_write(&fix);
    fix_done(&fix);
}

static size_t peek(struct fix *fix, const char *from, bool reverse, struct bytes *ret_suffix,
                   size_t max)
{
    return store_peek_suffixes(fix->store, data(fix, "g"), text(from), reverse, ret_suffix, max);
}

TEST(suffixes_next_to_a_place_are_peeked_at_from_both_sides)
{
    struct fix fix;
    struct bytes found[8];
    fix_init(&fix);
    ASSERT_EQ(peek(&fix, "a", false, found, 8), 0);
    store_begin(fix.store, 0);
    for (char c = 'a'; c <= 'f'; c++)
        ASSERT_RC(store_put(fix.store, data(&fix, "g"), bytes_of(&c, 1), BYTES("v"), &fix.err),
                  RC_OK);
    ASSERT_EQ(peek(&fix, "c", false, found, 2), 2);
    ASSERT_BYTES(found[0], BYTES("c"));
    ASSERT_BYTES(found[1], BYTES("d"));
    ASSERT_EQ(peek(&fix, "c", true, found, 8), 2);
    ASSERT_BYTES(found[0], BYTES("b"));
    ASSERT_BYTES(found[1], BYTES("a"));
    ASSERT_EQ(peek(&fix, "g", false, found, 8), 0);
    ASSERT_EQ(peek(&fix, "a", true, found, 8), 0);
    ASSERT_EQ(peek(&fix, "", false, found, 8), 6);
    fix_write(&fix);
    fix_done(&fix);
}

/* A group of some hundred rows in blocks that split and merge, and what is in it. */
enum { PATH_ROWS = 600, PATH_PREFETCHED = 24 };

struct paths {
    char suffix[PATH_ROWS][12];
    uint8_t len[PATH_ROWS]; /* of the value; 0: there is no row */
    struct rand rand;
};

static void paths_step(struct fix *fix, struct paths *paths, size_t i)
{
    static const uint8_t zeros[256];
    struct store_group group = data(fix, "g");
    struct bytes suffix = text(paths->suffix[i]), value;
    uint8_t len = (uint8_t)(1 + rand_below(&paths->rand, 255));
    bool is_new;
    switch (rand_below(&paths->rand, 4)) {
    case 0:
        ASSERT_RC(store_delete(fix->store, group, suffix, &fix->err),
                  paths->len[i] ? RC_OK : RC_NOT_FOUND);
        paths->len[i] = 0;
        break;
    case 1:
        ASSERT_RC(store_get(fix->store, group, suffix, &value, &fix->err),
                  paths->len[i] ? RC_OK : RC_NOT_FOUND);
        ASSERT_TRUE(!paths->len[i] || value.len == paths->len[i]);
        break;
    default:
        ASSERT_RC(
            store_put_tell(fix->store, group, suffix, bytes_of(zeros, len), &is_new, &fix->err),
            RC_OK);
        ASSERT_EQ(is_new, paths->len[i] == 0);
        paths->len[i] = len;
    }
}

/* Takes the first row at or behind a place, or the last one before it, as pops do. */
static void paths_pop(struct fix *fix, struct paths *paths, const char *from, bool reverse)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    size_t best = PATH_ROWS;
    for (size_t i = 0; i < PATH_ROWS; i++) {
        int order = strcmp(paths->suffix[i], from);
        if (paths->len[i] == 0 || (reverse ? order > 0 : order < 0))
            continue;
        if (best == PATH_ROWS || (strcmp(paths->suffix[i], paths->suffix[best]) < 0) != reverse)
            best = i;
    }
    store_walk_init(&walk, fix->store, data(fix, "g"), reverse);
    ASSERT_RC(store_walk_seek(&walk, text(from), &fix->err), RC_OK);
    ASSERT_RC(store_walk_next(&walk, &suffix, &value, &fix->err),
              best < PATH_ROWS ? RC_OK : RC_NOT_FOUND);
    if (best == PATH_ROWS)
        return;
    ASSERT_BYTES(suffix, text(paths->suffix[best]));
    ASSERT_EQ(value.len, paths->len[best]);
    ASSERT_RC(store_delete(fix->store, data(fix, "g"), text(paths->suffix[best]), &fix->err),
              RC_OK);
    paths->len[best] = 0;
}

/* Rows that are prefetched, and others between them, which move blocks and split and merge them. */
static void paths_round(struct fix *fix, struct paths *paths, size_t round)
{
    struct store_row row[PATH_PREFETCHED];
    size_t ahead[PATH_PREFETCHED];
    size_t near = rand_below(&paths->rand, PATH_ROWS);
    for (size_t i = 0; i < PATH_PREFETCHED; i++) {
        ahead[i] = (near + rand_below(&paths->rand, round % 2 ? PATH_ROWS : 40)) % PATH_ROWS;
        row[i] = (struct store_row){data(fix, "g"), text(paths->suffix[ahead[i]])};
    }
    store_prefetch_rows(fix->store, row, PATH_PREFETCHED);
    for (size_t i = 0; i < PATH_PREFETCHED; i++) {
        if (rand_below(&paths->rand, 3) == 0)
            paths_step(fix, paths, (near + rand_below(&paths->rand, 40)) % PATH_ROWS);
        if (rand_below(&paths->rand, 200) == 0) { /* all of it, in a tree that begins anew */
            (void)!store_group_drop(fix->store, data(fix, "g"), &fix->err);
            memset(paths->len, 0, sizeof paths->len);
        }
        paths_step(fix, paths, ahead[i]);
        if (rand_below(&paths->rand, 3) == 0)
            paths_pop(fix, paths, i % 8 ? "3" : "41", i % 5 == 0);
    }
}

TEST(a_path_hint_is_right_whatever_has_changed_since)
{
    struct fix fix;
    static struct paths paths, before;
    fix_init(&fix);
    paths = (struct paths){0};
    rand_init_seed(&paths.rand, 7);
    for (size_t i = 0; i < PATH_ROWS; i++)
        snprintf(paths.suffix[i], sizeof paths.suffix[i], "%zu", i * 7919);
    for (size_t round = 0; round < 3000; round++) {
        store_begin(fix.store, 0);
        memcpy(before.len, paths.len, sizeof before.len);
        paths_round(&fix, &paths, round);
        if (round % 5 == 0) {
            store_undo(fix.store);
            memcpy(paths.len, before.len, sizeof paths.len);
        } else {
            store_commit(fix.store);
        }
        if (round % 3 == 0)
            ASSERT_RC(store_write(fix.store, &fix.err), RC_OK);
        if (round % 30 == 0)
            store_check(fix.store);
    }
    ASSERT_RC(store_write(fix.store, &fix.err), RC_OK);
    fix_done(&fix);
}

TEST(a_row_that_was_foreseen_and_then_changed_is_read_as_it_is)
{
    struct fix fix;
    struct foreseen rows;
    struct bytes value;
    foreseen_init(&fix, &rows);
    fix_write(&fix);
    store_begin(fix.store, 0);
    for (size_t i = 0; i < FORESEEN_ROWS; i++) {
        store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS);
        foreseen_put(&fix, &rows, i, (uint8_t)(100 + i));
        for (size_t k = 0; k < FORESEEN_ROWS; k++)
            foreseen_expect(&fix, &rows, k);
    }
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS);
    ASSERT_RC(store_delete(fix.store, rows.row[0].group, rows.row[0].suffix, &fix.err), RC_OK);
    ASSERT_RC(store_get(fix.store, rows.row[0].group, rows.row[0].suffix, &value, &fix.err),
              RC_NOT_FOUND);
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS); /* one of them is deleted */
    ASSERT_RC(store_get(fix.store, rows.row[0].group, rows.row[0].suffix, &value, &fix.err),
              RC_NOT_FOUND);
    store_undo(fix.store); /* all of that was not */
    store_begin(fix.store, 0);
    for (size_t i = 0; i < FORESEEN_ROWS; i++)
        memset(rows.value[i], (int)i, FORESEEN_BYTES);
    foreseen_expect(&fix, &rows, 0);
    store_undo(fix.store);
    fix_flush(&fix);
    store_prefetch_rows(fix.store, rows.row, FORESEEN_ROWS);
    store_evict_all(fix.store);
    store_begin(fix.store, 0);
    for (size_t i = 0; i < FORESEEN_ROWS; i++) {
        ASSERT_RC(get_warm(&fix, rows.row[i].group, rows.row[i].suffix, &value), RC_OK);
        ASSERT_BYTES(value, bytes_of(rows.value[i], FORESEEN_BYTES));
    }
    store_undo(fix.store);
    fix_done(&fix);
}

/* The store over the engine in memory: what every model relies on, one claim a test. */
#include "store/store.h"

#include <stdio.h>

#include "base/file_sim.h"
#include "base/mem.h"
#include "store/engine_memory.h"
#include "store/load.h"
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
    ASSERT_OK(store_commit(fix->store, &fix->err), &fix->err);
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
            continue;
        store_poll(fix->store);
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
    for (int i = 0; i < 10000; i++) {
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
    ASSERT_EQ(store_group_state(fix.store, data(&fix, "h")).row_count, 10000);
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

// SPDX-License-Identifier: Apache-2.0
#include "types/expire.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/kv_events.h"
#include "support/kv_keys.h"
#include "test.h"
#include "types/garbage.h"
#include "types/guard.h"

#include "base/banned.h"

/* A keyspace with a sweep. Commands run through kv_fix, between turns of the tasks. */
struct sweep_fix {
    struct kv_fix kv;
    struct tasks *tasks;
    struct expire *expire;
    int safe_count;
};

static void on_safe(void *arg, enum rc rc)
{
    ASSERT_RC(rc, RC_OK);
    ((struct sweep_fix *)arg)->safe_count++;
}

static void sweep_start(struct sweep_fix *fix)
{
    struct tasks_options tasks = {
        .store = fix->kv.store, .clock = &fix->kv.clock, .durability = DURABILITY_EVERYSEC};
    fix->tasks = tasks_new(&tasks);
    struct expire_options options = {
        .kv = &fix->kv.kv, .tasks = fix->tasks, .safe = on_safe, .arg = fix};
    fix->expire = expire_new(&options);
}

static void sweep_stop(struct sweep_fix *fix)
{
    expire_free(fix->expire);
    tasks_free(fix->tasks);
}

static void sweep_init(struct sweep_fix *fix)
{
    *fix = (struct sweep_fix){0};
    kv_fix_init(&fix->kv);
    sweep_start(fix);
}

static void sweep_done(struct sweep_fix *fix)
{
    sweep_stop(fix);
    kv_fix_done(&fix->kv);
}

/* Turns until the sweep sleeps. */
static void turns(struct sweep_fix *fix)
{
    for (int idle = 0; idle < 3;) {
        bool more = tasks_turn(fix->tasks);
        more = store_step(fix->kv.store, STORE_STEP_LOAD) || more;
        idle = more ? 0 : idle + 1;
    }
}

static void later(struct sweep_fix *fix, uint64_t ms)
{
    clock_advance_ms(&fix->kv.clock, ms);
    turns(fix);
}

TEST(a_key_is_removed_at_its_deadline_though_nobody_asks)
{
    struct sweep_fix fix;
    struct kv_events events;
    sweep_init(&fix);
    kv_events_listen(&events, &fix.kv);
    kv_put(&fix.kv, "k", "v", 100);
    kv_put(&fix.kv, "stays", "v", 0);
    turns(&fix);
    later(&fix, 99);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 2);
    kv_events_expect(&events, "");
    later(&fix, 1);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 1);
    ASSERT_EQ(ns_expire_count(fix.kv.ns), 0);
    ASSERT_EQ(kv_index_rows(&fix.kv), 0);
    kv_events_expect(&events, "expired k");
    ASSERT_EQ(fix.safe_count, 1);
    ASSERT_EQ(fix.kv.kv.counts.expired_count, 1);
    sweep_done(&fix);
}

TEST(the_sweep_sleeps_until_the_next_deadline)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    kv_put(&fix.kv, "k", "v", 300);
    turns(&fix);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 300 * 1000 * 1000);
    kv_put(&fix.kv, "earlier", "v", 20);
    turns(&fix);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 20 * 1000 * 1000);
    later(&fix, 20);
    ASSERT_EQ(tasks_next_ns(fix.tasks), 280 * 1000 * 1000);
    sweep_done(&fix);
}

TEST(cold_keys_are_removed_on_time)
{
    struct sweep_fix fix;
    struct kv_events events;
    sweep_init(&fix);
    kv_put(&fix.kv, "k", "v", 100);
    kv_hash_put(&fix.kv, "h", "f", "v");
    kv_expire(&fix.kv, "h", clock_unix_ms(&fix.kv.clock) + 100);
    turns(&fix);
    kv_fix_freeze_out(&fix.kv);
    kv_events_listen(&events, &fix.kv);
    later(&fix, 100);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    ASSERT_EQ(fix.kv.kv.counts.expired_count, 2);
    ASSERT_EQ(kv_index_rows(&fix.kv), 0);
    sweep_done(&fix);
}

TEST(deadlines_that_passed_while_the_server_was_down_are_swept)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    kv_put(&fix.kv, "k", "v", 100);
    kv_put(&fix.kv, "later", "v", 5000);
    sweep_stop(&fix);
    clock_advance_ms(&fix.kv.clock, 1000);
    kv_fix_reopen(&fix.kv);
    sweep_start(&fix);
    turns(&fix);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 1);
    later(&fix, 4000);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    sweep_done(&fix);
}

TEST(stale_index_rows_are_moved_or_removed)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    uint64_t start_ms = clock_unix_ms(&fix.kv.clock);
    kv_put(&fix.kv, "longer", "v", 100);
    kv_expire(&fix.kv, "longer", start_ms + 500);
    kv_put(&fix.kv, "kept", "v", 100);
    kv_expire(&fix.kv, "kept", 0);
    kv_put(&fix.kv, "shorter", "v", 300);
    kv_expire(&fix.kv, "shorter", start_ms + 200);
    ASSERT_EQ(kv_index_rows(&fix.kv), 2); /* longer still at 100; shorter at 200 only */
    later(&fix, 100);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 3);
    ASSERT_EQ(kv_index_rows(&fix.kv), 2); /* longer at 500 */
    later(&fix, 100);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 2);
    later(&fix, 100);
    ASSERT_EQ(kv_index_rows(&fix.kv), 1);
    later(&fix, 200);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 1);
    ASSERT_EQ(kv_index_rows(&fix.kv), 0);
    kv_expect(&fix.kv, "kept", "v");
    sweep_done(&fix);
}

TEST(a_key_made_again_is_not_taken_for_the_old_one)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    kv_put(&fix.kv, "k", "old", 100);
    kv_put(&fix.kv, "k", "new", 0);
    kv_put(&fix.kv, "l", "old", 100);
    kv_put(&fix.kv, "l", "new", 400);
    later(&fix, 100);
    kv_expect(&fix.kv, "k", "new");
    kv_expect(&fix.kv, "l", "new");
    later(&fix, 300);
    kv_expect(&fix.kv, "k", "new");
    ASSERT_EQ(ns_key_count(fix.kv.ns), 1);
    sweep_done(&fix);
}

TEST(many_dead_keys_go_in_many_steps)
{
    struct sweep_fix fix;
    char name[16];
    sweep_init(&fix);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "k%d", i);
        kv_put(&fix.kv, name, "v", (uint64_t)(1 + i % 50));
    }
    kv_fix_freeze_out(&fix.kv);
    later(&fix, 100);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    ASSERT_EQ(kv_index_rows(&fix.kv), 0);
    ASSERT_EQ(fix.kv.kv.counts.expired_count, 500);
    ASSERT_GE(fix.safe_count, 500 / 32);
    sweep_done(&fix);
}

TEST(nothing_is_below_the_low_water_mark_whatever_the_clock_does)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    uint64_t start_ms = clock_unix_ms(&fix.kv.clock);
    kv_put(&fix.kv, "k", "v", 1000);
    later(&fix, 1000);
    ASSERT_EQ(store_counter_get(fix.kv.store, fix.kv.ns->sweep_ms), start_ms + 1000);
    fix.kv.clock.unix_ms = start_ms; /* somebody sets it back */
    kv_put(&fix.kv, "k", "v", 10);
    ASSERT_EQ(store_counter_get(fix.kv.store, fix.kv.ns->sweep_ms), start_ms + 10);
    later(&fix, 10);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    sweep_done(&fix);
}

TEST(a_clock_that_is_set_forward_is_noticed_within_a_second)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    kv_put(&fix.kv, "k", "v", 3600 * 1000);
    turns(&fix);
    ASSERT_LE(tasks_next_ns(fix.tasks), 1000 * 1000 * 1000);
    fix.kv.clock.unix_ms += 3600 * 1000;
    later(&fix, 1000);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    sweep_done(&fix);
}

static enum rc no_digits(void *model, struct bytes name, struct err *err)
{
    (void)model;
    return name.ptr[0] > '9' ? RC_OK : err_set(err, RC_INVALID, "a number is no key");
}

static enum rc no_new_key(void *model, struct key *key, enum key_need need, struct err *err)
{
    (void)model;
    if (key->stored || need == KEY_NEED_TO_SWEEP)
        return RC_NOT_FOUND;
    return err_set(err, RC_INVALID, "there are keys enough");
}

TEST(a_key_goes_whose_name_is_refused_by_a_guard_that_came_later)
{
    struct sweep_fix fix;
    int model;
    struct key_guard guard = {.model = &model, .name_check = no_digits, .found = no_new_key};
    sweep_init(&fix);
    kv_put(&fix.kv, "0123", "v", 10);
    kv_put(&fix.kv, "plain", "v", 20);
    kv_put(&fix.kv, "stale", "v", 30);
    kv_expire(&fix.kv, "stale", clock_unix_ms(&fix.kv.clock) + 60); /* the row at 30 stays */
    kv_remove(&fix.kv, "stale");
    ns_guard_add(fix.kv.ns, &guard);
    later(&fix, 100);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    ASSERT_EQ(kv_index_rows(&fix.kv), 0);
    sweep_done(&fix);
}

TEST(a_sweep_that_is_off_leaves_dead_keys_hidden)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    kv_put(&fix.kv, "k", "v", 100);
    turns(&fix);
    expire_active_set(fix.expire, false);
    later(&fix, 5000);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 1);
    kv_expect(&fix.kv, "k", NULL);
    expire_active_set(fix.expire, true);
    turns(&fix);
    ASSERT_EQ(ns_key_count(fix.kv.ns), 0);
    sweep_done(&fix);
}

TEST(all_databases_are_swept)
{
    struct sweep_fix fix;
    sweep_init(&fix);
    struct ns *first = fix.kv.ns;
    ASSERT_OK(kv_ns_open(&fix.kv.kv, 3, BYTES("default.03"), &fix.kv.ns, &fix.kv.err), &fix.kv.err);
    kv_put(&fix.kv, "k", "v", 100);
    fix.kv.ns = first;
    kv_put(&fix.kv, "k", "v", 100);
    later(&fix, 100);
    ASSERT_EQ(ns_key_count(first), 0);
    ASSERT_EQ(ns_key_count(kv_ns(&fix.kv.kv, 3)), 0);
    sweep_done(&fix);
}

/* ---- garbage ---- */

static size_t data_entries(struct sweep_fix *fix)
{
    struct store_stats stats;
    store_stats(fix->kv.store, &stats);
    return stats.engine.row_count_estimate;
}

TEST(a_small_cold_key_leaves_garbage_that_is_swept)
{
    struct sweep_fix fix;
    char field[16];
    sweep_init(&fix);
    for (int i = 0; i < 30; i++) {
        snprintf(field, sizeof field, "f%d", i);
        kv_hash_put(&fix.kv, "h", field, "v");
    }
    turns(&fix);
    kv_fix_freeze_out(&fix.kv);
    size_t before = data_entries(&fix);
    ASSERT_TRUE(kv_remove(&fix.kv, "h"));
    ASSERT_FALSE(kv_has(&fix.kv, "h"));
    kv_fix_freeze_out(&fix.kv); /* the rows are there, and the garbage row is cold */
    ASSERT_GE(data_entries(&fix), before);
    later(&fix, 1000);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_LE(data_entries(&fix) + 31, before); /* the fields and the meta row */
    struct store_stats stats;
    store_stats(fix.kv.store, &stats);
    ASSERT_EQ(stats.flush_range_delete_count, 0);
    sweep_done(&fix);
}

TEST(garbage_goes_with_its_database)
{
    struct sweep_fix fix;
    size_t count = 1;
    sweep_init(&fix);
    kv_hash_put(&fix.kv, "h", "f", "v");
    kv_fix_freeze_out(&fix.kv);
    ASSERT_TRUE(kv_remove(&fix.kv, "h"));
    store_begin(fix.kv.store, 0);
    ASSERT_OK(ns_flush(kv_fix_now(&fix.kv), &fix.kv.err), &fix.kv.err);
    ASSERT_OK(garbage_sweep(fix.kv.ns, &count, &fix.kv.err), &fix.kv.err);
    ASSERT_EQ(count, 0);
    store_commit(fix.kv.store);
    ASSERT_OK(store_write(fix.kv.store, &fix.kv.err), &fix.kv.err);
    sweep_done(&fix);
}

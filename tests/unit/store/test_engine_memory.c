// SPDX-License-Identifier: Apache-2.0
#include "store/engine/engine_memory.h"

#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

#include "base/banned.h"

struct fix {
    struct engine_memory *memory;
    struct engine *engine;
    struct space_set spaces;
    struct err err;
};

static const struct engine_ops *const ops = &engine_memory_ops;

static enum rc fix_open(struct fix *fix)
{
    struct engine_options options = {.dir = "a", .spaces = &fix->spaces, .memory = fix->memory};
    return ops->open(&options, &fix->engine, &fix->err);
}

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){.memory = engine_memory_new()};
    space_set_init(&fix->spaces);
    ASSERT_RC(fix_open(fix), RC_OK);
}

static void fix_done(struct fix *fix)
{
    ops->close(fix->engine);
    engine_memory_free(fix->memory);
}

static enum rc fix_get(struct fix *fix, enum engine_tier tier)
{
    struct buf value;
    buf_init(&value, 100);
    enum rc rc = ops->get(fix->engine, NULL, BYTES("\0a"), tier, &value, &fix->err);
    buf_done(&value);
    return rc;
}

/* Applies `times` times whatever is answered; the last answer. */
static enum rc fix_put(struct fix *fix, int times)
{
    struct engine_unit *unit = NULL;
    enum rc rc = ops->unit_open(fix->engine, &unit, &fix->err);
    if (rc != RC_OK)
        return rc;
    rc = ops->unit_put(unit, BYTES("\0a"), BYTES("1"), &fix->err);
    for (int i = 0; rc == RC_OK && i < times - 1; i++)
        (void)!ops->unit_apply(unit, &fix->err);
    if (rc == RC_OK)
        rc = ops->unit_apply(unit, &fix->err);
    ops->unit_close(unit);
    return rc;
}

TEST(an_armed_call_fails_as_often_as_told)
{
    struct fix fix;
    fix_init(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 2, 2, RC_IO);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_NOT_FOUND);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_IO);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_IO);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_NOT_FOUND);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_ANY, 1, -1, RC_CORRUPT);
    for (int i = 0; i < 5; i++)
        ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_CORRUPT);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_ANY, 0, 0, RC_OK);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_NOT_FOUND);
    ASSERT_EQ(engine_memory_op_count(fix.memory, ENGINE_MEMORY_GET), 10);
    ASSERT_EQ(engine_memory_op_count(fix.memory, ENGINE_MEMORY_ANY), 11);
    fix_done(&fix);
}

TEST(every_op_can_be_made_to_fail)
{
    struct fix fix;
    struct engine_iter *iter = NULL;
    struct engine_view *view = NULL;
    struct engine_range range = {0};
    struct bytes key, value;
    fix_init(&fix);
    for (int op = ENGINE_MEMORY_OPEN; op <= ENGINE_MEMORY_CHECKPOINT; op++)
        engine_memory_arm(fix.memory, (enum engine_memory_op)op, 1, 1, RC_IO);
    ops->close(fix.engine);
    ASSERT_RC(fix_open(&fix), RC_IO);
    ASSERT_RC(fix_open(&fix), RC_OK);
    ASSERT_RC(ops->view_open(fix.engine, &view, &fix.err), RC_IO);
    ASSERT_RC(ops->iter_open(fix.engine, NULL, &range, &iter, &fix.err), RC_IO);
    ASSERT_RC(ops->iter_open(fix.engine, NULL, &range, &iter, &fix.err), RC_OK);
    ASSERT_RC(ops->iter_next(iter, &key, &value, &fix.err), RC_IO);
    ops->iter_close(iter);
    ASSERT_RC(fix_put(&fix, 1), RC_IO); /* opening */
    ASSERT_RC(fix_put(&fix, 1), RC_IO); /* adding */
    ASSERT_RC(ops->checkpoint(fix.engine, "b", &fix.err), RC_IO);
    ASSERT_EQ(engine_memory_row_count(fix.memory), 0);
    fix_done(&fix);
}

TEST(a_refused_apply_does_nothing_and_a_late_error_comes_after_it)
{
    struct fix fix;
    fix_init(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY, 1, 1, RC_FULL);
    ASSERT_RC(fix_put(&fix, 1), RC_FULL);
    ASSERT_EQ(engine_memory_row_count(fix.memory), 0);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY_LATE, 1, 1, RC_IO);
    ASSERT_RC(fix_put(&fix, 1), RC_IO);
    ASSERT_EQ(engine_memory_row_count(fix.memory), 1);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY_LATE, 1, 1, RC_IO);
    ASSERT_RC(fix_put(&fix, 2), RC_OK); /* the same unit again */
    ASSERT_EQ(engine_memory_row_count(fix.memory), 1);
    fix_done(&fix);
}

TEST(cold_memory_answers_cold_and_pressure_is_what_was_told)
{
    struct fix fix;
    struct engine_pressure told = {.l0_file_count = 9, .debt_bytes = 7, .compacting = true}, got;
    fix_init(&fix);
    ASSERT_RC(fix_put(&fix, 1), RC_OK);
    engine_memory_cold(fix.memory, true);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_MEMORY), RC_COLD);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_ALL), RC_OK);
    engine_memory_cold(fix.memory, false);
    ASSERT_RC(fix_get(&fix, ENGINE_TIER_MEMORY), RC_OK);
    engine_memory_pressure(fix.memory, &told);
    ops->pressure(fix.engine, &got);
    ASSERT_EQ(got.l0_file_count, 9);
    ASSERT_EQ(got.debt_bytes, 7);
    ASSERT_TRUE(got.compacting);
    fix_done(&fix);
}

struct waiter {
    struct fix *fix;
    atomic_int done_count;
};

static void *waiter_run(void *arg)
{
    struct waiter *waiter = arg;
    if (fix_get(waiter->fix, ENGINE_TIER_ALL) == RC_NOT_FOUND)
        atomic_fetch_add(&waiter->done_count, 1);
    return NULL;
}

TEST(a_closed_gate_holds_reads_until_it_opens)
{
    struct fix fix;
    pthread_t thread;
    fix_init(&fix);
    struct waiter waiter = {.fix = &fix};
    engine_memory_gate(fix.memory, true);
    ASSERT_EQ(pthread_create(&thread, NULL, waiter_run, &waiter), 0);
    for (int i = 0; i < 1000; i++)
        ASSERT_RC(fix_get(&fix, ENGINE_TIER_MEMORY), RC_NOT_FOUND);
    ASSERT_EQ(atomic_load(&waiter.done_count), 0);
    engine_memory_gate(fix.memory, false);
    pthread_join(thread, NULL);
    ASSERT_EQ(atomic_load(&waiter.done_count), 1);
    fix_done(&fix);
}

/* Rows that were deleted while views looked at them go away later, under iterators of no effect. */
TEST(dead_rows_are_swept_and_iterators_go_on)
{
    struct fix fix;
    struct engine_unit *unit = NULL;
    struct engine_view *view = NULL;
    uint8_t key[3] = {0};
    fix_init(&fix);
    for (int round = 0; round < 6; round++) {
        ASSERT_RC(ops->unit_open(fix.engine, &unit, &fix.err), RC_OK);
        if (round % 2)
            ASSERT_RC(ops->unit_delete_range(unit, BYTES("\0"), BYTES("\1"), &fix.err), RC_OK);
        for (int i = 0; i < 5000 && round % 2 == 0; i++) {
            key[1] = (uint8_t)(i >> 8);
            key[2] = (uint8_t)i;
            ASSERT_RC(ops->unit_put(unit, bytes_of(key, 3), BYTES("v"), &fix.err), RC_OK);
        }
        ASSERT_RC(ops->unit_apply(unit, &fix.err), RC_OK);
        ops->unit_close(unit);
        ASSERT_EQ(engine_memory_row_count(fix.memory), round % 2 ? 0 : 5000);
        if (round == 0)
            ASSERT_RC(ops->view_open(fix.engine, &view, &fix.err), RC_OK);
    }
    struct engine_range range = {.reverse = true};
    struct engine_iter *iter = NULL;
    struct bytes got_key, got_value;
    int count = 0;
    ASSERT_RC(ops->iter_open(fix.engine, view, &range, &iter, &fix.err), RC_OK);
    while (ops->iter_next(iter, &got_key, &got_value, &fix.err) == RC_OK)
        count++;
    ASSERT_EQ(count, 5000);
    ops->iter_close(iter);
    ops->view_close(fix.engine, view);
    ASSERT_RC(fix_put(&fix, 1), RC_OK);
    ASSERT_EQ(engine_memory_row_count(fix.memory), 1);
    fix_done(&fix);
}

// SPDX-License-Identifier: Apache-2.0
/* test_flush_reopen.c - a flusher whose engine keeps an error and is opened again. */
#include "store/flush/flush.h"

#include "store/engine/engine_memory.h"
#include "support/flush_fix.h"
#include "test.h"

#include "base/banned.h"

/* A segment with a row and a counter. */
static void segment_put(struct flush_fix *fix)
{
    fix_put(fix, FIX_LENGTH, BYTES("g"), BYTES("a"), BYTES("1"));
    fix_count(fix, 0, 5);
    fix_seal(fix);
}

static enum rc row_get(struct flush_fix *fix, const struct engine_view *view)
{
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    buf_init(&key, SIZE_MAX);
    buf_init(&value, SIZE_MAX);
    ASSERT_TRUE(space_key_add(&fix->spaces, FIX_LENGTH, BYTES("g"), BYTES("a"), &key));
    return fix->engine->ops->get(fix->engine, view, buf_bytes(&key), ENGINE_TIER_ALL, &value,
                                 &fix->err);
}

TEST(flush_opens_an_engine_again_that_keeps_an_error_and_goes_on)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    segment_put(&fix);
    engine_memory_break(fix.memory);
    fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
    ASSERT_EQ(fix_status(&fix).reopen_count, 1);
    ASSERT_STR(fix_status(&fix).reopen_reason, "a compaction failed");
    ASSERT_STR(fix_status(&fix).reason, "");
    fix_check(&fix);
}

/* Whether the unit is in the engine is known when it is opened again, not before. */
TEST(flush_counts_a_unit_once_that_was_refused_and_shows_when_the_engine_is_opened_again)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    segment_put(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY_HIDDEN, 1, 2, RC_IO);
    fix_flush(&fix);
    ASSERT_EQ(fix_status(&fix).failure_count, 1);
    ASSERT_EQ(row_get(&fix, NULL), RC_NOT_FOUND);
    ASSERT_TRUE(fix_segment_exists(&fix, 1));
    fix_flush(&fix);
    ASSERT_EQ(fix_status(&fix).failure_count, 2);
    ASSERT_TRUE(fix_segment_exists(&fix, 1));
    fix_flush(&fix);
    ASSERT_EQ(fix_status(&fix).reopen_count, 1);
    ASSERT_EQ(fix_status(&fix).unit_count, 1);
    ASSERT_STR(fix_status(&fix).reason, "");
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
    fix_check(&fix);
}

TEST(flush_says_that_it_fails_until_a_unit_is_in_the_engine)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    segment_put(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY, 1, -1, RC_IO);
    fix_flush(&fix);
    flush_ask(fix.flush, 1);
    for (int i = 0; i < 40; i++) {
        bool worked;
        ASSERT_TRUE(fix_status(&fix).reason[0] != '\0');
        flush_step(fix.flush, &worked); /* builds, which works, and is refused */
    }
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY, 0, 0, RC_OK);
    fix_flush(&fix);
    ASSERT_STR(fix_status(&fix).reason, "");
    fix_check(&fix);
}

TEST(a_view_from_before_the_engine_was_opened_again_answers_an_error)
{
    CLEANUP(fix_done) struct flush_fix fix;
    struct flush_request ready = {.kind = FLUSH_REQUEST_VIEW, .segment = 1};
    struct flush_request waiting = {.kind = FLUSH_REQUEST_VIEW, .segment = 2};
    fix_init(&fix, 1);
    fix_open(&fix);
    segment_put(&fix);
    flush_request(fix.flush, &ready);
    fix_flush(&fix);
    ASSERT_TRUE(ready.done);
    ASSERT_EQ(row_get(&fix, ready.view), RC_OK);

    flush_request(fix.flush, &waiting);
    engine_memory_break(fix.memory);
    fix_flush(&fix);
    ASSERT_TRUE(waiting.done);
    ASSERT_EQ(waiting.rc, RC_IO);
    ASSERT_EQ(row_get(&fix, ready.view), RC_IO);
    ASSERT_EQ(row_get(&fix, NULL), RC_OK);
    fix.engine->ops->view_close(fix.engine, ready.view);
    fix_check(&fix);
}

TEST(an_engine_that_cannot_be_opened_again_is_tried_until_it_can)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    segment_put(&fix);
    fix_flush(&fix);
    segment_put(&fix);
    engine_memory_break(fix.memory);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_REOPEN, 1, 3, RC_IO);
    for (int i = 0; i < 3; i++) {
        fix_flush(&fix);
        ASSERT_TRUE(fix_status(&fix).engine_closed);
        ASSERT_TRUE(fix_status(&fix).reason[0] != '\0');
        ASSERT_EQ(row_get(&fix, NULL), RC_IO);
        ASSERT_TRUE(fix_segment_exists(&fix, 2));
    }
    fix_flush(&fix);
    ASSERT_FALSE(fix_status(&fix).engine_closed);
    ASSERT_EQ(fix_status(&fix).reopen_count, 1);
    ASSERT_EQ(flush_mark_segment(fix.flush), 2);
    fix_check(&fix);
}

/* It has lost a unit, or somebody has put another directory there. */
TEST(flush_leaves_an_engine_alone_that_comes_back_elsewhere)
{
    CLEANUP(fix_done) struct flush_fix fix;
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    struct engine_unit *unit = NULL;
    struct sys_mark mark;
    buf_init(&key, SIZE_MAX);
    buf_init(&value, SIZE_MAX);
    fix_init(&fix, 1);
    fix_open(&fix);
    segment_put(&fix);
    fix_flush(&fix);
    ASSERT_OK(sys_mark_get(fix.engine, NULL, &mark, &fix.err), &fix.err);
    mark.segment = 0;
    ASSERT_TRUE(sys_mark_add(&mark, &key, &value));
    const struct engine_ops *ops = fix.engine->ops;
    ASSERT_OK(ops->unit_open(fix.engine, &unit, &fix.err), &fix.err);
    ASSERT_OK(ops->unit_put(unit, buf_bytes(&key), buf_bytes(&value), &fix.err), &fix.err);
    ASSERT_OK(ops->unit_apply(unit, &fix.err), &fix.err);
    ops->unit_close(unit);

    segment_put(&fix);
    engine_memory_break(fix.memory);
    for (int i = 0; i < 5; i++) {
        fix_flush(&fix);
        ASSERT_TRUE(strstr(fix_status(&fix).reason, "stands at segment 0") != NULL);
        ASSERT_EQ(flush_mark_segment(fix.flush), 1);
        ASSERT_TRUE(fix_segment_exists(&fix, 2));
    }
}

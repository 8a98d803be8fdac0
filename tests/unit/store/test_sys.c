// SPDX-License-Identifier: Apache-2.0
#include "store/engine/sys.h"

#include "store/engine/engine_memory.h"
#include "test.h"

#include "base/banned.h"

struct fix {
    struct engine_memory *memory;
    struct engine *engine;
    struct space_set spaces;
    struct err err;
};

static void fix_done(struct fix *fix)
{
    fix->engine->ops->close(fix->engine);
    engine_memory_free(fix->memory);
}

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){.memory = engine_memory_new()};
    space_set_init(&fix->spaces);
    const struct engine_options options = {
        .dir = "e", .scratch_dir = "s", .spaces = &fix->spaces, .memory = fix->memory};
    ASSERT_OK(engine_memory_ops.open(&options, &fix->engine, &fix->err), &fix->err);
}

static void put(struct fix *fix, struct bytes key, struct bytes value)
{
    const struct engine_ops *ops = fix->engine->ops;
    struct engine_unit *unit = NULL;
    ASSERT_OK(ops->unit_open(fix->engine, &unit, &fix->err), &fix->err);
    ASSERT_OK(ops->unit_put(unit, key, value, &fix->err), &fix->err);
    ASSERT_OK(ops->unit_apply(unit, &fix->err), &fix->err);
    ops->unit_close(unit);
}

static const struct sys_mark some_mark = {
    .uuid = "0123456789abcde",
    .incarnation = 0x01020304,
    .segment = 0x1122334455667788,
    .lsn = UINT64_MAX,
};

TEST(sys_mark_of_a_new_engine_is_not_found)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    struct sys_mark mark;
    ASSERT_RC(sys_mark_get(fix.engine, NULL, &mark, &fix.err), RC_NOT_FOUND);
}

TEST(sys_mark_comes_back_as_it_was_put)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    buf_init(&key, 1000);
    buf_init(&value, 1000);
    ASSERT_TRUE(sys_mark_add(&some_mark, &key, &value));
    ASSERT_BYTES(buf_bytes(&key), BYTES("\0mark"));
    ASSERT_EQ(value.len, 44);
    ASSERT_BYTES(bytes_of(value.ptr + 28, 8), BYTES("\x88\x77\x66\x55\x44\x33\x22\x11"));
    put(&fix, buf_bytes(&key), buf_bytes(&value));

    struct sys_mark mark;
    ASSERT_OK(sys_mark_get(fix.engine, NULL, &mark, &fix.err), &fix.err);
    ASSERT_BYTES(bytes_of(mark.uuid, 16), bytes_of(some_mark.uuid, 16));
    ASSERT_EQ(mark.incarnation, some_mark.incarnation);
    ASSERT_EQ(mark.segment, some_mark.segment);
    ASSERT_EQ(mark.lsn, some_mark.lsn);
}

TEST(sys_mark_that_is_cut_or_newer_is_refused)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    buf_init(&key, 1000);
    buf_init(&value, 1000);
    ASSERT_TRUE(sys_mark_add(&some_mark, &key, &value));
    struct sys_mark mark;
    for (size_t len = 0; len < value.len; len++) {
        put(&fix, buf_bytes(&key), bytes_of(value.ptr, len));
        ASSERT_RC(sys_mark_get(fix.engine, NULL, &mark, &fix.err), RC_CORRUPT);
    }
    value.ptr[0] = 2;
    put(&fix, buf_bytes(&key), buf_bytes(&value));
    ASSERT_RC(sys_mark_get(fix.engine, NULL, &mark, &fix.err), RC_VERSION);
    value.ptr[0] = 1;
    value.ptr[5] = 1;
    put(&fix, buf_bytes(&key), buf_bytes(&value));
    ASSERT_RC(sys_mark_get(fix.engine, NULL, &mark, &fix.err), RC_VERSION);
}

struct walked {
    size_t count;
    int64_t sum;
    enum rc answer;
};

static enum rc walked_add(struct bytes name, int64_t value, void *arg, struct err *err)
{
    struct walked *walked = arg;
    if (walked->count == 0)
        ASSERT_BYTES(name, BYTES(""));
    if (walked->count == 2)
        ASSERT_BYTES(name, BYTES("keys\0\xff"));
    walked->count++;
    walked->sum += value;
    return walked->answer == RC_OK ? RC_OK : err_set(err, walked->answer, "enough");
}

static void put_counter(struct fix *fix, struct bytes name, int64_t count)
{
    CLEANUP(buf_done) struct buf key;
    CLEANUP(buf_done) struct buf value;
    buf_init(&key, 1000);
    buf_init(&value, 1000);
    ASSERT_TRUE(sys_counter_add(name, count, &key, &value));
    put(fix, buf_bytes(&key), buf_bytes(&value));
}

TEST(sys_counters_are_walked_in_order_and_nothing_else_is)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    put_counter(&fix, BYTES("keys\0\xff"), INT64_MIN);
    put_counter(&fix, BYTES(""), 1);
    put_counter(&fix, BYTES("keys"), 10);
    put(&fix, BYTES("\0counter9"), BYTES("before"));
    put(&fix, BYTES("\0counter;"), BYTES("after"));
    put(&fix, BYTES("\1counter:x"), BYTES("elsewhere"));

    struct walked walked = {0};
    ASSERT_OK(sys_counters_walk(fix.engine, NULL, walked_add, &walked, &fix.err), &fix.err);
    ASSERT_EQ(walked.count, 3);
    ASSERT_EQ(walked.sum, INT64_MIN + 11);

    walked = (struct walked){.answer = RC_NOT_FOUND};
    ASSERT_RC(sys_counters_walk(fix.engine, NULL, walked_add, &walked, &fix.err), RC_NOT_FOUND);
    ASSERT_EQ(walked.count, 1);
}

TEST(sys_counter_of_the_wrong_length_is_damage)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    put(&fix, BYTES("\0counter:keys"), BYTES("1234567"));
    struct walked walked = {0};
    ASSERT_RC(sys_counters_walk(fix.engine, NULL, walked_add, &walked, &fix.err), RC_CORRUPT);
}

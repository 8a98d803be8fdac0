// SPDX-License-Identifier: Apache-2.0
#include "models/landing/dirty.h"

#include <stdio.h>

#include "support/kv_fix.h"
#include "test.h"
#include "types/hash.h"

#include "base/banned.h"

struct call {
    struct dirty dirty;
    struct bytes entry;
    bool removed, found, left, take_over;
    enum dirty_part part;
    uint64_t version;
    struct bytes token;
    struct dirty_error error;
};

static void call_init(struct call *call)
{
    *call = (struct call){.entry = BYTES("a&b&c&d&f"), .token = BYTES("me")};
    dirty_init(&call->dirty, call);
}

static struct dirty_table table_of(struct kv_fix *fix, struct call *call)
{
    return dirty_table(&call->dirty, &fix->run, fix->ns, 2);
}

static enum rc run_mark(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    call->version = store_lsn(fix->store);
    return dirty_mark(&table, call->entry, call->removed, &call->found, &fix->err);
}

static enum rc run_version(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_version(&table, call->part, call->entry, &call->version, &fix->err);
}

static enum rc run_remove(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_remove(&table, call->part, call->entry, call->version, &fix->err);
}

static enum rc run_snapshot(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_snapshot(&table, &call->found, &call->left, &fix->err);
}

static enum rc run_find_owner(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_find_owner(&table, call->entry, &call->found, &fix->err);
}

static enum rc run_lock(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_lock(&table, BYTES("rule"), call->token, 1000, call->take_over, &fix->err);
}

static enum rc run_unlock(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_unlock(&table, BYTES("rule"), call->token, &fix->err);
}

static enum rc run_error(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct dirty_table table = table_of(fix, call);
    return dirty_error_put(&table, call->entry, &call->error, &fix->err);
}

struct field {
    const char *name; /* of the hash */
    struct bytes field;
    char value[512];
};

static enum rc run_field(struct kv_fix *fix, void *arg)
{
    struct field *read = arg;
    struct bytes value;
    enum rc rc = hash_get(&fix->run, bytes_of(read->name, strlen(read->name)), read->field, &value,
                          &fix->err);
    if (rc == RC_OK)
        snprintf(read->value, sizeof read->value, "%.*s", (int)value.len, (const char *)value.ptr);
    return rc;
}

TEST(a_mark_is_a_field_of_a_hash_that_anybody_can_read)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call;
    char want[64];
    kv_fix_init(&fix);
    call_init(&call);
    ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err);
    ASSERT_TRUE(call.found);
    struct field mark = {.name = "slug-persist:{dirtyKey:2}", .field = call.entry};
    ASSERT_OK(kv_fix_run(&fix, run_field, &mark), &fix.err);
    snprintf(want, sizeof want, "UPDATE:%llu", (unsigned long long)call.version);
    ASSERT_STR(mark.value, want);
    call.removed = true;
    ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err);
    ASSERT_TRUE(!call.found);
}

TEST(a_mark_goes_only_with_the_version_that_was_seen)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    call_init(&call);
    ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err);
    uint64_t seen = call.version;
    ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err); /* changed again meanwhile */
    uint64_t newer = call.version;
    ASSERT_TRUE(newer > seen);
    call.version = seen;
    ASSERT_OK(kv_fix_run(&fix, run_remove, &call), &fix.err);
    ASSERT_OK(kv_fix_run(&fix, run_version, &call), &fix.err);
    ASSERT_EQ(call.version, newer);
    ASSERT_OK(kv_fix_run(&fix, run_remove, &call), &fix.err);
    ASSERT_EQ(kv_fix_run(&fix, run_version, &call), RC_NOT_FOUND);
}

TEST(a_snapshot_that_is_not_finished_is_left_alone)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    call_init(&call);
    ASSERT_OK(kv_fix_run(&fix, run_snapshot, &call), &fix.err);
    ASSERT_TRUE(!call.found);
    ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err);
    ASSERT_OK(kv_fix_run(&fix, run_snapshot, &call), &fix.err);
    ASSERT_TRUE(call.found && !call.left);
    call.entry = BYTES("a&b&c&d&g");
    ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err); /* into a fresh table */
    ASSERT_OK(kv_fix_run(&fix, run_snapshot, &call), &fix.err);
    ASSERT_TRUE(call.found && call.left);
    call.part = DIRTY_MARKED;
    ASSERT_OK(kv_fix_run(&fix, run_version, &call), &fix.err);
    call.part = DIRTY_SAVING;
    ASSERT_EQ(kv_fix_run(&fix, run_version, &call), RC_NOT_FOUND);
    call.entry = BYTES("a&b&c&d&f");
    ASSERT_OK(kv_fix_run(&fix, run_version, &call), &fix.err);
}

TEST(marks_of_an_owner_are_found_in_all_three_tables_hot_and_cold)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call;
    kv_fix_init(&fix);
    call_init(&call);
    struct bytes entry = call.entry;
    for (int where = 0; where < 3; where++) {
        call.entry = entry;
        if (where < 2)
            ASSERT_OK(kv_fix_run(&fix, run_mark, &call), &fix.err);
        if (where == 1)
            ASSERT_OK(kv_fix_run(&fix, run_snapshot, &call), &fix.err);
        call.error = (struct dirty_error){.version = 7, .reason = "why"};
        if (where == 2)
            ASSERT_OK(kv_fix_run(&fix, run_error, &call), &fix.err);
        kv_fix_freeze_out(&fix);
        call.entry = BYTES("a&b&c&d&");
        ASSERT_OK(kv_fix_run(&fix, run_find_owner, &call), &fix.err);
        ASSERT_TRUE(call.found);
        call.entry = BYTES("a&b&c&");
        ASSERT_OK(kv_fix_run(&fix, run_find_owner, &call), &fix.err);
        ASSERT_TRUE(call.found);
        call.entry = BYTES("a&b&c&e&");
        ASSERT_OK(kv_fix_run(&fix, run_find_owner, &call), &fix.err);
        ASSERT_TRUE(!call.found);
        call.entry = entry;
        call.part = (enum dirty_part)where;
        ASSERT_OK(kv_fix_run(&fix, run_version, &call), &fix.err);
        ASSERT_OK(kv_fix_run(&fix, run_remove, &call), &fix.err);
    }
    call.entry = BYTES("a");
    ASSERT_OK(kv_fix_run(&fix, run_find_owner, &call), &fix.err);
    ASSERT_TRUE(!call.found);
}

TEST(a_hole_the_lock_refuses_and_is_released_by_its_owner_only)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call me, other;
    kv_fix_init(&fix);
    call_init(&me);
    call_init(&other);
    other.token = BYTES("other");
    ASSERT_OK(kv_fix_run(&fix, run_lock, &me), &fix.err);
    ASSERT_EQ(kv_fix_run(&fix, run_lock, &other), RC_BUSY);
    ASSERT_EQ(kv_fix_run(&fix, run_unlock, &other), RC_BUSY);
    ASSERT_EQ(kv_fix_run(&fix, run_lock, &other), RC_BUSY); /* it is still there */
    clock_advance_ms(&fix.clock, 900);
    ASSERT_OK(kv_fix_run(&fix, run_lock, &me), &fix.err); /* renewed */
    clock_advance_ms(&fix.clock, 900);
    ASSERT_EQ(kv_fix_run(&fix, run_lock, &other), RC_BUSY);
    clock_advance_ms(&fix.clock, 200); /* it has run out */
    ASSERT_OK(kv_fix_run(&fix, run_lock, &other), &fix.err);
    ASSERT_EQ(kv_fix_run(&fix, run_unlock, &me), RC_BUSY);
    ASSERT_EQ(kv_fix_run(&fix, run_lock, &me), RC_BUSY);
    ASSERT_OK(kv_fix_run(&fix, run_unlock, &other), &fix.err);
    ASSERT_OK(kv_fix_run(&fix, run_lock, &me), &fix.err);
    other.take_over = true; /* of a process that is dead */
    ASSERT_OK(kv_fix_run(&fix, run_lock, &other), &fix.err);
}

TEST(an_error_comes_back_as_it_was_put)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    struct call call;
    struct dirty_error error;
    kv_fix_init(&fix);
    call_init(&call);
    call.error = (struct dirty_error){.removed = true,
                                      .version = 12345,
                                      .attempts = 3,
                                      .next_ms = 99,
                                      .reason = "\"a\"\n\xc3\xa9"};
    ASSERT_OK(kv_fix_run(&fix, run_error, &call), &fix.err);
    struct field put = {.name = "slug-persist:{dirtyKey:2}:error", .field = call.entry};
    ASSERT_OK(kv_fix_run(&fix, run_field, &put), &fix.err);
    ASSERT_OK(dirty_error_parse(bytes_of(put.value, strlen(put.value)), &error, &fix.err),
              &fix.err);
    ASSERT_TRUE(error.removed);
    ASSERT_EQ(error.version, 12345);
    ASSERT_EQ(error.attempts, 3);
    ASSERT_EQ(error.next_ms, 99);
    ASSERT_STR(error.reason, call.error.reason);
    ASSERT_EQ(dirty_error_parse(BYTES("{}"), &error, &fix.err), RC_CORRUPT);
    ASSERT_EQ(dirty_error_parse(BYTES("nonsense"), &error, &fix.err), RC_CORRUPT);
    ASSERT_EQ(dirty_error_parse(BYTES("{\"op\":1,\"version\":-1}"), &error, &fix.err), RC_CORRUPT);
}

// SPDX-License-Identifier: Apache-2.0
#include "types/rows.h"

#include <stdio.h>

#include "support/kv_fix.h"
#include "test.h"
#include "types/set.h"

#include "base/banned.h"

enum { ROWS_SMALL = 50, ROWS_LARGE = 20000, ADD_AT_ONCE = 1000, MEMBER_BYTES = 16 };

struct call {
    int from;       /* first number to add */
    uint64_t count; /* to add, or to pick */
    bool different;
    int seen[ROWS_LARGE]; /* how often each was picked */
    uint64_t picked;
};

static struct bytes member_text(int number, char to[MEMBER_BYTES])
{
    int len = snprintf(to, MEMBER_BYTES, "user:%08d", number);
    return bytes_of(to, (size_t)len);
}

static enum rc run_add(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    for (uint64_t i = 0; i < call->count; i++) {
        char text[MEMBER_BYTES];
        struct bytes member = member_text(call->from + (int)i, text);
        enum rc rc = set_add(&fix->run, BYTES("s"), &member, 1, NULL, &fix->err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static void seen_add(struct call *call, struct bytes member)
{
    int number = -1;
    char text[MEMBER_BYTES] = {0};
    ASSERT_LT(member.len, sizeof text);
    memcpy(text, member.ptr, member.len);
    ASSERT_EQ(sscanf(text, "user:%d", &number), 1);
    ASSERT_TRUE(number >= 0 && number < ROWS_LARGE);
    call->seen[number]++;
    call->picked++;
}

static enum rc run_pick(struct kv_fix *fix, void *arg)
{
    CLEANUP(rows_pick_done) struct rows_pick pick = {0};
    struct call *call = arg;
    struct key key;
    struct bytes suffix, value;
    memset(call->seen, 0, sizeof call->seen);
    call->picked = 0;
    enum rc rc = key_read(&fix->run, BYTES("s"), TYPE_SET, &key, &fix->err);
    if (rc == RC_OK)
        rc = rows_pick_init(&pick, &key, call->count, call->different, &fix->err);
    if (rc != RC_OK)
        return rc;
    uint64_t promised = rows_pick_count(&pick);
    while ((rc = rows_pick_next(&pick, &suffix, &value, &fix->err)) == RC_OK)
        seen_add(call, suffix);
    if (rc != RC_NOT_FOUND)
        return rc;
    ASSERT_EQ(call->picked, promised);
    return RC_OK;
}

static enum rc run_pop(struct kv_fix *fix, void *arg)
{
    struct call *call = arg;
    struct key key;
    CLEANUP(rows_pick_done) struct rows_pick pick = {0};
    struct bytes member;
    memset(call->seen, 0, sizeof call->seen);
    enum rc rc = key_write(&fix->run, BYTES("s"), TYPE_SET, &key, &fix->err);
    if (rc == RC_OK)
        rc = rows_take_init(&pick, &key, call->count, &fix->err);
    for (uint64_t i = 0; rc == RC_OK && i < call->count; i++) {
        rc = set_pop(&key, &pick, &member, &fix->err);
        if (rc == RC_OK)
            seen_add(call, member);
    }
    return rc == RC_OK ? set_pop_end(&key, &fix->err) : rc;
}

static void fill(struct kv_fix *fix, struct call *call, int count)
{
    for (call->from = 0; call->from < count; call->from += ADD_AT_ONCE) {
        int left = count - call->from;
        call->count = (uint64_t)(left < ADD_AT_ONCE ? left : ADD_AT_ONCE);
        ASSERT_OK(kv_fix_run(fix, run_add, call), &fix->err);
    }
}

static void pick(struct kv_fix *fix, struct call *call, uint64_t count, bool different)
{
    call->count = count;
    call->different = different;
    ASSERT_OK(kv_fix_run(fix, run_pick, call), &fix->err);
}

static int seen_max(const struct call *call)
{
    int max = 0;
    for (int i = 0; i < ROWS_LARGE; i++)
        max = call->seen[i] > max ? call->seen[i] : max;
    return max;
}

/* ---- claims ---- */

TEST(different_rows_are_different_and_all_have_their_chance)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    static struct call call;
    int total[ROWS_SMALL] = {0};
    kv_fix_init(&fix);
    fill(&fix, &call, ROWS_SMALL);
    for (int round = 0; round < 500; round++) {
        pick(&fix, &call, 10, true);
        ASSERT_EQ(call.picked, 10);
        ASSERT_EQ(seen_max(&call), 1);
        for (int i = 0; i < ROWS_SMALL; i++)
            total[i] += call.seen[i];
    }
    for (int i = 0; i < ROWS_SMALL; i++) /* 100 are expected, with a deviation of 9 */
        ASSERT_TRUE(total[i] > 55 && total[i] < 145);
}

TEST(not_more_rows_than_there_are)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    static struct call call;
    kv_fix_init(&fix);
    fill(&fix, &call, ROWS_SMALL);
    for (int i = 0; i < 2; i++) {
        pick(&fix, &call, ROWS_SMALL - 1, true);
        ASSERT_EQ(call.picked, ROWS_SMALL - 1);
        ASSERT_EQ(seen_max(&call), 1);
        pick(&fix, &call, 1000, true);
        ASSERT_EQ(call.picked, ROWS_SMALL);
        ASSERT_EQ(seen_max(&call), 1);
        kv_fix_freeze_out(&fix);
    }
}

TEST(rows_may_repeat_if_they_may)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    static struct call call;
    kv_fix_init(&fix);
    fill(&fix, &call, ROWS_SMALL);
    pick(&fix, &call, 5000, false);
    ASSERT_EQ(call.picked, 5000);
    for (int i = 0; i < ROWS_SMALL; i++)
        ASSERT_TRUE(call.seen[i] > 55 && call.seen[i] < 145);
}

TEST(a_large_cold_group_is_not_loaded_for_a_few_rows)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    static struct call call;
    kv_fix_init(&fix);
    fill(&fix, &call, ROWS_LARGE);
    kv_fix_freeze_out(&fix);
    fix.cold_count = 0;
    pick(&fix, &call, 10, true);
    ASSERT_EQ(call.picked, 10);
    ASSERT_EQ(seen_max(&call), 1);
    pick(&fix, &call, 10, false);
    ASSERT_EQ(call.picked, 10);
    ASSERT_LE(fix.cold_count, 5);
    struct key key;
    store_begin(fix.store, 0);
    ASSERT_OK(key_read(kv_fix_now(&fix), BYTES("s"), TYPE_SET, &key, &fix.err), &fix.err);
    ASSERT_LT(store_group_state(fix.store, key_rows(&key)).row_count, ROWS_LARGE / 10);
    store_undo(fix.store);
}

TEST(places_in_a_large_cold_group_change_with_the_time)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    static struct call call;
    int total[4] = {0}; /* by quarters */
    kv_fix_init(&fix);
    fill(&fix, &call, ROWS_LARGE);
    for (int round = 0; round < 100; round++) {
        kv_fix_freeze_out(&fix);
        clock_advance_ms(&fix.clock, 1024);
        pick(&fix, &call, 1, false);
        for (int i = 0; i < ROWS_LARGE; i++)
            total[4 * i / ROWS_LARGE] += call.seen[i];
    }
    for (int i = 0; i < 4; i++) /* 25 are expected, with a deviation of 4 */
        ASSERT_TRUE(total[i] > 5 && total[i] < 50);
}

TEST(popping_from_a_large_cold_group_takes_each_once)
{
    CLEANUP(kv_fix_done) struct kv_fix fix;
    static struct call call;
    kv_fix_init(&fix);
    fill(&fix, &call, ROWS_LARGE);
    kv_fix_freeze_out(&fix);
    call.count = 500;
    ASSERT_OK(kv_fix_run(&fix, run_pop, &call), &fix.err);
    ASSERT_EQ(seen_max(&call), 1);
    kv_fix_freeze_out(&fix);
    kv_fix_reopen(&fix);
    pick(&fix, &call, ROWS_LARGE, true);
    ASSERT_EQ(call.picked, ROWS_LARGE - 500);
    ASSERT_EQ(seen_max(&call), 1);
}

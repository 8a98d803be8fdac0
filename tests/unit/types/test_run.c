// SPDX-License-Identifier: Apache-2.0
#include "types/run.h"

#include "store/turns.h"
#include "support/kv_events.h"
#include "support/kv_keys.h"
#include "test.h"
#include "types/key.h"
#include "types/string.h"

#include "base/banned.h"

/* A run by hand: a commit around fix->run. */
static void begin(struct kv_fix *fix, unsigned flags)
{
    store_begin(fix->store, 0);
    run_begin(&fix->run, &fix->kv, fix->ns, flags);
}

static void end(struct kv_fix *fix, enum rc rc)
{
    ASSERT_RC(run_end(&fix->run, rc), rc);
    if (rc == RC_OK || rc == RC_WAIT)
        store_commit(fix->store);
    else
        store_undo(fix->store);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
}

static bool has(struct kv_fix *fix, const struct run *run, struct bytes name)
{
    struct key key;
    ASSERT_OK(key_read(run, name, KEY_ANY, &key, &fix->err), &fix->err);
    return key.exists;
}

static enum rc put(struct kv_fix *fix, const struct run *run, struct bytes name)
{
    struct key key;
    enum rc rc = key_write(run, name, KEY_ANY, &key, &fix->err);
    if (rc == RC_OK)
        rc = string_set(&key, BYTES("v"), 0, &fix->err);
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_STRING, "set");
    return rc;
}

/* ---- begin, derive ---- */

TEST(a_run_sees_one_time_from_its_begin_to_its_end)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "a", "1", 10);
    begin(&fix, 0);
    uint64_t now_ms = fix.run.now_ms;
    clock_advance_ms(&fix.clock, 20);
    ASSERT_TRUE(has(&fix, &fix.run, BYTES("a")));
    ASSERT_EQ(fix.run.now_ms, now_ms);
    end(&fix, RC_OK);
    begin(&fix, 0);
    ASSERT_FALSE(has(&fix, &fix.run, BYTES("a")));
    end(&fix, RC_OK);
    kv_fix_done(&fix);
}

TEST(a_derived_run_has_more_rights_and_its_own_database_and_shares_the_rest)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct ns *other;
    ASSERT_OK(kv_ns_open(&fix.kv, 1, BYTES("default.other"), &other, &fix.err), &fix.err);
    begin(&fix, RUN_NO_LIFT);
    struct run part = run_with(&fix.run, other, RUN_QUIET);
    ASSERT_EQ(part.flags, RUN_NO_LIFT | RUN_QUIET | RUN_PART);
    ASSERT_TRUE(part.ns == other);
    ASSERT_EQ(part.now_ms, fix.run.now_ms);
    ASSERT_TRUE(part.arena == fix.run.arena);
    ASSERT_EQ(fix.run.flags, RUN_NO_LIFT); /* what the part may do ends with it */
    ASSERT_TRUE(fix.run.ns == fix.ns);
    ASSERT_RC(put(&fix, &part, BYTES("a")), RC_OK);
    ASSERT_TRUE(has(&fix, &part, BYTES("a")));
    ASSERT_FALSE(has(&fix, &fix.run, BYTES("a")));
    end(&fix, RC_OK);
    ASSERT_EQ(fix.kv.counts.hit_count, 1); /* counted with the run it comes from */
    ASSERT_EQ(fix.kv.counts.miss_count, 1);
    ASSERT_EQ(ns_key_count(other), 1);
    kv_fix_done(&fix);
}

TEST(a_run_cannot_begin_inside_another)
{
    struct kv_fix fix;
    struct run inner;
    kv_fix_init(&fix);
    begin(&fix, 0);
    ASSERT_ABORTS(run_begin(&inner, &fix.kv, fix.ns, 0));
    end(&fix, RC_OK);
    ASSERT_ABORTS(run_end(&fix.run, RC_OK));
    kv_fix_done(&fix);
}

TEST(a_derived_run_cannot_be_ended)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    begin(&fix, 0);
    struct run part = run_with(&fix.run, fix.ns, 0);
    ASSERT_ABORTS(run_end(&part, RC_OK));
    end(&fix, RC_OK);
    kv_fix_done(&fix);
}

TEST(the_next_run_frees_what_the_last_one_has_copied)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    struct bytes copy, again;
    begin(&fix, 0);
    ASSERT_OK(run_copy(&fix.run, BYTES("bytes"), &copy, &fix.err), &fix.err);
    ASSERT_BYTES(copy, BYTES("bytes"));
    end(&fix, RC_OK);
    ASSERT_BYTES(copy, BYTES("bytes")); /* until then it is there */
    begin(&fix, 0);
    ASSERT_OK(run_copy(&fix.run, BYTES("bytes"), &again, &fix.err), &fix.err);
    ASSERT_TRUE(again.ptr == copy.ptr);
    end(&fix, RC_OK);
    kv_fix_done(&fix);
}

/* ---- flags ---- */

TEST(a_quiet_run_tells_nobody)
{
    struct kv_fix fix;
    struct kv_events events;
    kv_fix_init(&fix);
    kv_events_listen(&events, &fix);
    begin(&fix, 0);
    struct run quiet = run_with(&fix.run, fix.ns, RUN_QUIET);
    ASSERT_RC(put(&fix, &quiet, BYTES("a")), RC_OK);
    kv_events_expect(&events, "");
    ASSERT_RC(put(&fix, &fix.run, BYTES("b")), RC_OK); /* the run it comes from is not */
    end(&fix, RC_OK);
    kv_events_expect(&events, "set b");
    kv_fix_done(&fix);
}

/* ---- counting ---- */

/* Reads a key that is there and one that is not, buries a third, and ends so. */
static void read_and_bury(struct kv_fix *fix, enum rc rc)
{
    struct key key;
    fix->kv.counts = (struct run_counts){0};
    begin(fix, 0);
    ASSERT_TRUE(has(fix, &fix->run, BYTES("a")));
    ASSERT_FALSE(has(fix, &fix->run, BYTES("missing")));
    ASSERT_OK(key_write(&fix->run, BYTES("dead"), KEY_ANY, &key, &fix->err), &fix->err);
    ASSERT_TRUE(key.dead);
    ASSERT_OK(key_expire(&key, &fix->err), &fix->err);
    end(fix, rc);
}

static void expect_counts(const struct kv_fix *fix, int hits, int misses, int expired)
{
    ASSERT_EQ(fix->kv.counts.hit_count, hits);
    ASSERT_EQ(fix->kv.counts.miss_count, misses);
    ASSERT_EQ(fix->kv.counts.expired_count, expired);
}

static void dead_put(struct kv_fix *fix)
{
    kv_put(fix, "dead", "1", 10);
    clock_advance_ms(&fix->clock, 20);
}

TEST(a_run_counts_what_stays)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "a", "1", 0);
    kv_put(&fix, "missing", "1", 0); /* so that nothing is cold */
    kv_remove(&fix, "missing");
    dead_put(&fix);
    read_and_bury(&fix, RC_COLD); /* runs again */
    expect_counts(&fix, 0, 0, 0);
    read_and_bury(&fix, RC_INVALID); /* was read, and has changed nothing */
    expect_counts(&fix, 1, 1, 0);
    read_and_bury(&fix, RC_WAIT); /* goes on, and its changes stay */
    expect_counts(&fix, 0, 0, 1);
    dead_put(&fix);
    read_and_bury(&fix, RC_OK);
    expect_counts(&fix, 1, 1, 1);
    kv_fix_done(&fix);
}

/* ---- hooks ---- */

struct hooks {
    struct buf told;
    enum rc ended;
    size_t told_from;
};

static void hook_end(void *arg, const struct run *run, enum rc rc)
{
    struct hooks *hooks = arg;
    hooks->ended = rc;
    hooks->told_from = run->told_from;
}

TEST(the_hooks_hear_how_a_run_ended_that_has_told_something)
{
    struct kv_fix fix;
    struct hooks hooks = {.ended = RC_NOMEM};
    kv_fix_init(&fix);
    buf_init(&hooks.told, 100);
    fix.kv.hooks = (struct kv_hooks){.told = &hooks.told, .end = hook_end, .arg = &hooks};
    begin(&fix, 0);
    end(&fix, RC_OK);
    ASSERT_RC(hooks.ended, RC_NOMEM); /* it has told nothing */
    static const enum rc ends[] = {RC_OK, RC_COLD, RC_WAIT, RC_IO};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        begin(&fix, 0);
        ASSERT_TRUE(buf_add(&hooks.told, "x", 1));
        end(&fix, ends[i]);
        ASSERT_RC(hooks.ended, ends[i]);
        ASSERT_EQ(hooks.told_from, i);
    }
    buf_done(&hooks.told);
    kv_fix_done(&fix);
}

// SPDX-License-Identifier: Apache-2.0
#include "types/build.h"

#include <stdio.h>

#include "store/testing.h"
#include "store/turns.h"
#include "support/kv_fix.h"
#include "test.h"
#include "types/copy.h"
#include "types/garbage.h"
#include "types/set.h"
#include "types/set_op.h"

#include "base/banned.h"

enum { MEMBERS = 3 * BUILD_PIECE_ROWS + 7 };

struct build_fix {
    struct kv_fix kv;
    struct build build;
    struct ns *other; /* another database, if the test has one */
    int listen_count;
    uint64_t count;      /* of the last store */
    struct bytes member; /* for run_add() */
    size_t swept_count;
};

static enum rc listen_count(struct build *build, struct err *err)
{
    struct build_fix *fix =
        (struct build_fix *)((uint8_t *)build - offsetof(struct build_fix, build));
    (void)err;
    fix->listen_count++;
    return RC_OK;
}

static enum rc run_add(struct kv_fix *kv, void *arg)
{
    struct build_fix *fix = arg;
    return set_add(&kv->run, BYTES("s"), &fix->member, 1, NULL, &kv->err);
}

static void add(struct build_fix *fix, int number)
{
    char text[16];
    fix->member = bytes_of(text, (size_t)snprintf(text, sizeof text, "%06d", number));
    ASSERT_OK(kv_fix_run(&fix->kv, run_add, fix), &fix->kv.err);
}

static void build_fix_init(struct build_fix *fix)
{
    *fix = (struct build_fix){.build = {.lasts = true, .listen = listen_count}};
    kv_fix_init(&fix->kv);
    fix->kv.kv.build_rows_min = 1;
    for (int i = 0; i < MEMBERS; i++)
        add(fix, i);
}

static void build_fix_done(struct build_fix *fix)
{
    build_done(&fix->build);
    kv_fix_done(&fix->kv);
}

static enum rc run_store(struct kv_fix *kv, void *arg)
{
    static const struct bytes name[] = {BYTES("s"), BYTES("none")};
    static const struct set_store store = {
        .kind = SET_UNION, .to = BYTES("d"), .name = name, .name_count = 2, .event = "stored"};
    struct build_fix *fix = arg;
    return set_op_store(&kv->run, &store, &fix->build, &fix->count, &kv->err);
}

static enum rc run_sweep(struct kv_fix *kv, void *arg)
{
    return garbage_sweep(kv->ns, &((struct build_fix *)arg)->swept_count, &kv->err);
}

static enum rc run_flush(struct kv_fix *kv, void *arg)
{
    struct run run = run_with(&kv->run, ((struct build_fix *)arg)->other, 0);
    return ns_flush(&run, &kv->err);
}

static enum rc run_copying(struct kv_fix *kv, void *arg)
{
    struct build_fix *fix = arg;
    struct run other = run_with(&kv->run, fix->other, 0);
    struct key from, to;
    enum rc rc = key_write(&kv->run, BYTES("s"), KEY_ANY, &from, &kv->err);
    if (rc == RC_OK)
        rc = key_write(&other, BYTES("d"), KEY_ANY, &to, &kv->err);
    return rc == RC_OK ? key_copy(&from, &to, &fix->build, &kv->err) : rc;
}

/* Members of the copy, as they are walked. */
static enum rc run_count(struct kv_fix *kv, void *arg)
{
    static const struct bytes name[] = {BYTES("d")};
    CLEANUP(set_op_done) struct set_op op;
    struct build_fix *fix = arg;
    struct bytes member;
    fix->count = 0;
    struct run other = run_with(&kv->run, fix->other, 0);
    enum rc rc = set_op_find(&op, &other, SET_UNION, name, 1, &kv->err);
    if (rc == RC_OK)
        rc = set_op_start(&op, NULL, &kv->err);
    while (rc == RC_OK && (rc = set_op_next(&op, &member, &kv->err)) == RC_OK)
        fix->count++;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static size_t sweep(struct build_fix *fix)
{
    ASSERT_OK(kv_fix_run(&fix->kv, run_sweep, fix), &fix->kv.err);
    return fix->swept_count;
}

static int64_t keys(struct build_fix *fix)
{
    return ns_key_count(fix->kv.ns);
}

/* Until it is stored, or `steps` commits were made. */
static enum rc build(struct build_fix *fix, int steps)
{
    enum rc rc = RC_WAIT;
    for (int i = 0; i < steps && rc == RC_WAIT; i++)
        rc = kv_fix_run(&fix->kv, run_store, fix);
    return rc;
}

/* ---- claims ---- */

TEST(a_result_appears_when_all_of_it_is_there)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    for (int cold = 0; cold < 2; cold++) {
        int steps = 0;
        while (build(&fix, 1) == RC_WAIT) {
            ASSERT_EQ(keys(&fix), 1 + cold); /* cold: d is there from before */
            steps++;
        }
        ASSERT_GE(steps, MEMBERS / BUILD_PIECE_ROWS);
        ASSERT_EQ(keys(&fix), 2);
        ASSERT_EQ(fix.count, MEMBERS);
        build_done(&fix.build);
        fix.build = (struct build){.lasts = true, .listen = listen_count};
        kv_fix_freeze_out(&fix.kv);
    }
    ASSERT_EQ(fix.listen_count, 2);
    ASSERT_EQ(sweep(&fix), 0);
}

TEST(who_cannot_go_on_in_further_commits_is_told_to_wait)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    fix.build.lasts = false;
    ASSERT_RC(build(&fix, 3), RC_WAIT);
    ASSERT_EQ(fix.kv.kv.build_count, 0);
    fix.kv.kv.build_rows_min = MEMBERS + 1;
    ASSERT_OK(build(&fix, 1), &fix.kv.err); /* it is not that large */
    ASSERT_EQ(fix.count, MEMBERS);
}

TEST(the_sweep_leaves_what_is_being_built_and_takes_what_was_left)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    ASSERT_RC(build(&fix, 3), RC_WAIT);
    ASSERT_EQ(sweep(&fix), 0);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_EQ(sweep(&fix), 0);
    build_done(&fix.build); /* the client has gone */
    fix.build = (struct build){.lasts = true, .listen = listen_count};
    ASSERT_EQ(sweep(&fix), 1);
    ASSERT_EQ(sweep(&fix), 0);
    struct store_stats stats;
    kv_fix_freeze_out(&fix.kv);
    store_stats(fix.kv.store, &stats);
    ASSERT_EQ(stats.flush_range_delete_count, 1); /* a large one goes as a group */
}

TEST(a_restart_in_between_leaves_garbage_only)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    ASSERT_RC(build(&fix, 3), RC_WAIT);
    build_done(&fix.build);
    fix.build = (struct build){.lasts = true, .listen = listen_count};
    kv_fix_reopen(&fix.kv);
    ASSERT_EQ(keys(&fix), 1);
    ASSERT_EQ(sweep(&fix), 1);
    fix.kv.kv.build_rows_min = 1;
    ASSERT_OK(build(&fix, 100), &fix.kv.err);
    ASSERT_EQ(fix.count, MEMBERS);
}

TEST(a_change_of_a_source_begins_it_again)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    ASSERT_RC(build(&fix, 3), RC_WAIT);
    add(&fix, MEMBERS);
    fix.build.touched = true; /* as who listens says */
    ASSERT_OK(build(&fix, 100), &fix.kv.err);
    ASSERT_EQ(fix.count, MEMBERS + 1);
    ASSERT_EQ(fix.kv.kv.build_count, 2);
    ASSERT_EQ(fix.kv.kv.build_again_count, 1);
    ASSERT_EQ(sweep(&fix), 1); /* the first beginning */
}

TEST(what_changes_all_the_time_is_stored_in_one_commit)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    enum rc rc = RC_WAIT;
    for (int i = 0; rc == RC_WAIT; i++) {
        ASSERT_LT(i, 100);
        rc = build(&fix, 1);
        fix.build.touched = true;
    }
    ASSERT_OK(rc, &fix.kv.err);
    ASSERT_EQ(fix.count, MEMBERS);
    ASSERT_EQ(fix.kv.kv.build_count, BUILD_TRIES_MAX);
    ASSERT_EQ(sweep(&fix), BUILD_TRIES_MAX);
}

/* Nobody tells of it, and the source is as it was: the garbage row is gone, and that is enough. */
TEST(a_target_database_that_is_emptied_begins_it_again)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    ASSERT_OK(kv_ns_open(&fix.kv.kv, 1, BYTES("default.01"), &fix.other, &fix.kv.err), &fix.kv.err);
    for (int i = 0; i < 3; i++)
        ASSERT_RC(kv_fix_run(&fix.kv, run_copying, &fix), RC_WAIT);
    ASSERT_OK(kv_fix_run(&fix.kv, run_flush, &fix), &fix.kv.err);
    enum rc rc = RC_WAIT;
    for (int i = 0; i < 100 && rc == RC_WAIT; i++)
        rc = kv_fix_run(&fix.kv, run_copying, &fix);
    ASSERT_OK(rc, &fix.kv.err);
    ASSERT_EQ(fix.kv.kv.build_again_count, 1);
    ASSERT_OK(kv_fix_run(&fix.kv, run_count, &fix), &fix.kv.err);
    ASSERT_EQ(fix.count, MEMBERS);
}

TEST(every_piece_survives_a_cold_read_at_any_point)
{
    CLEANUP(build_fix_done) struct build_fix fix;
    build_fix_init(&fix);
    for (uint64_t n = 1; n < 2 * MEMBERS; n += 97) {
        store_cold_inject(fix.kv.store, n);
        ASSERT_OK(build(&fix, 100), &fix.kv.err);
        store_cold_inject(fix.kv.store, 0);
        ASSERT_EQ(fix.count, MEMBERS);
        build_done(&fix.build);
        fix.build = (struct build){.lasts = true, .listen = listen_count};
    }
    ASSERT_EQ(keys(&fix), 2);
}

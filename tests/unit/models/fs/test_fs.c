// SPDX-License-Identifier: Apache-2.0
#include "models/fs/fs.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/codec.h"
#include "store/testing.h"
#include "support/fs_fix.h"
#include "test.h"

#include "base/banned.h"

TEST(ids_end_below_two_to_the_fortieth)
{
    struct fs_fix fix;
    uint8_t value[FS_ID_BYTES];
    uint64_t id;
    fs_fix_init(&fix);
    ASSERT_OK(fs_fix_mkdir(&fix, "/d", NULL), &fix.err);
    le64_put(value, FS_ID_END - 2);
    fs_fix_inode_put(&fix, FS_KEY_NEXT_ID, value, sizeof value);
    ASSERT_OK(fs_fix_create(&fix, "/d/a", &id), &fix.err);
    ASSERT_EQ(id, FS_ID_END - 2);
    ASSERT_OK(fs_fix_create(&fix, "/d/b", &id), &fix.err);
    ASSERT_EQ(id, FS_ID_END - 1);
    ASSERT_RC(fs_fix_create(&fix, "/d/c", &id), RC_REPLY);
    ASSERT_EQ(strncmp(fix.err.text, "RESOURCE", 8), 0);
    fs_fix_reopen(&fix);
    ASSERT_RC(fs_fix_create(&fix, "/d/c", &id), RC_REPLY);
    char target[32];
    snprintf(target, sizeof target, "%" PRIu64, FS_ID_END - 1);
    ASSERT_EQ(fs_fix_id(&fix, target), FS_ID_END - 1);
    ASSERT_EQ(fs_fix_id(&fix, "/d/b"), FS_ID_END - 1);
    ASSERT_EQ(fs_fix_check(&fix, false).problems, 0);
    fs_fix_done(&fix);
}

struct reserve {
    struct fs_fix *fix;
    uint64_t id[3];
    bool fail;
};

static enum rc reserve_body(struct kv_fix *kv, void *arg)
{
    struct reserve *reserve = arg;
    struct fs_attrs attrs = {.now_ms = 1};
    char path[16];
    (void)kv;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/r%d", i);
        enum rc rc = fs_create(reserve->fix->fs, bytes_of(path, strlen(path)), &attrs,
                               &reserve->id[i], &reserve->fix->err);
        if (rc != RC_OK)
            return rc;
    }
    return reserve->fail ? err_set(&reserve->fix->err, RC_INVALID, "taken back") : RC_OK;
}

TEST(a_reservation_goes_with_the_commit_that_made_it)
{
    struct fs_fix fix;
    uint64_t id, last = 0;
    fs_fix_init(&fix);
    for (int i = 0; i < 999; i++) {
        char path[16];
        snprintf(path, sizeof path, "/f%d", i);
        ASSERT_OK(fs_fix_create(&fix, path, &id), &fix.err);
        ASSERT_EQ(id, FS_ID_FIRST + i);
        last = id;
    }
    struct reserve reserve = {.fix = &fix, .fail = true};
    ASSERT_RC(kv_fix_run(&fix.kv, reserve_body, &reserve), RC_INVALID);
    ASSERT_EQ(reserve.id[0], last + 1); /* the last of the old reservation, then of a new one */
    ASSERT_EQ(reserve.id[2], last + 3);
    reserve.fail = false;
    ASSERT_RC(kv_fix_run(&fix.kv, reserve_body, &reserve), RC_OK);
    for (int i = 0; i < 3; i++)
        ASSERT_GT(reserve.id[i], last);
    fs_fix_reopen(&fix);
    ASSERT_OK(fs_fix_create(&fix, "/after", &id), &fix.err);
    ASSERT_GE(id, 2002);
    ASSERT_EQ(fs_fix_check(&fix, false).problems, 0);
    fs_fix_done(&fix);
}

/* Every operation, with everything cold before it. */
static enum rc dir_taken_back(struct kv_fix *kv, void *arg)
{
    struct fs_fix *fix = arg;
    struct fs_attrs attrs = {.now_ms = 1};
    struct fs_stat stat;
    uint64_t id;
    (void)kv;
    ASSERT_OK(fs_mkdir(fix->fs, BYTES("/d/new"), false, &attrs, &id, &fix->err), &fix->err);
    ASSERT_RC(fs_stat(fix->fs, BYTES("/d/new/f"), false, &stat, &fix->err), RC_REPLY);
    return err_set(&fix->err, RC_INVALID, "taken back");
}

/* The directory of the last path is remembered (fs_last), but only while no edge changes. */
TEST(a_directory_that_was_taken_back_moved_or_removed_is_not_remembered)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    ASSERT_OK(fs_fix_mkdir(&fix, "/d", NULL), &fix.err);
    ASSERT_RC(kv_fix_run(&fix.kv, dir_taken_back, &fix), RC_INVALID);
    ASSERT_RC(fs_fix_create(&fix, "/d/new/f", NULL), RC_REPLY);
    ASSERT_OK(fs_fix_mkdir(&fix, "/d/new", NULL), &fix.err);
    ASSERT_OK(fs_fix_create(&fix, "/d/new/f", NULL), &fix.err);
    ASSERT_NE(fs_fix_id(&fix, "/d/new/f"), 0);
    ASSERT_OK(fs_fix_move(&fix, "/d/new", "/d/old"), &fix.err);
    ASSERT_EQ(fs_fix_id(&fix, "/d/new/f"), 0);
    ASSERT_NE(fs_fix_id(&fix, "/d/old/f"), 0);
    ASSERT_OK(fs_fix_remove(&fix, "/d/old", true), &fix.err);
    ASSERT_EQ(fs_fix_id(&fix, "/d/old/f"), 0);
    ASSERT_RC(fs_fix_create(&fix, "/d/old/g", NULL), RC_REPLY);
    fs_fix_turns(&fix);
    ASSERT_EQ(fs_fix_check(&fix, false).problems, 0);
    fs_fix_done(&fix);
}

TEST(operations_find_their_rows_cold)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    ASSERT_OK(fs_fix_mkdir(&fix, "/a/b", NULL), &fix.err);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_OK(fs_fix_create(&fix, "/a/b/f", NULL), &fix.err);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_OK(fs_fix_resize(&fix, "/a/b/f", 77), &fix.err);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_OK(fs_fix_chown(&fix, "/a/b/f", "alice"), &fix.err);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_OK(fs_fix_move(&fix, "/a/b", "/c"), &fix.err);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_EQ(fs_fix_stat(&fix, "/c/f").size, 77);
    kv_fix_freeze_out(&fix.kv);
    ASSERT_RC(fs_fix_remove(&fix, "/c", false), RC_REPLY);
    ASSERT_OK(fs_fix_remove(&fix, "/c", true), &fix.err);
    kv_fix_freeze_out(&fix.kv);
    fs_fix_turns(&fix);
    ASSERT_EQ(fs_counts(fix.fs).graves, 0);
    ASSERT_EQ(fs_counts(fix.fs).files, 0);
    ASSERT_EQ(fs_counts(fix.fs).dirs, 1);
    ASSERT_EQ(fs_counts(fix.fs).bytes, 0);
    ASSERT_GT(fix.kv.cold_count, 10);
    ASSERT_EQ(fs_fix_check(&fix, false).problems, 0);
    fs_fix_done(&fix);
}

TEST(a_sweep_goes_on_after_a_restart_at_any_step)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    for (int d = 0; d < 3; d++) {
        for (int i = 0; i < 100; i++) {
            char path[32];
            snprintf(path, sizeof path, "/t/d%d/e", d);
            ASSERT_OK(fs_fix_mkdir(&fix, path, NULL), &fix.err);
            snprintf(path, sizeof path, "/t/d%d/e/f%d", d, i);
            ASSERT_OK(fs_fix_create(&fix, path, NULL), &fix.err);
        }
    }
    ASSERT_OK(fs_fix_remove(&fix, "/t", true), &fix.err);
    int restarts = 0;
    for (; fs_counts(fix.fs).graves > 0; restarts++) {
        fs_fix_reopen(&fix);
        (void)tasks_turn(fix.tasks); /* a step, or the load for one */
        store_step(fix.kv.store, STORE_STEP_LOAD);
        (void)tasks_turn(fix.tasks);
        ASSERT_LT(restarts, 1000);
    }
    ASSERT_GE(restarts, 6);
    ASSERT_EQ(fs_counts(fix.fs).files, 0);
    ASSERT_EQ(fs_counts(fix.fs).dirs, 0);
    ASSERT_EQ(fs_fix_check(&fix, false).inodes, 1);
    fs_fix_done(&fix);
}

TEST(a_long_query_reads_a_view)
{
    struct fs_fix fix;
    struct fs_answer answer;
    fs_fix_init(&fix);
    for (int i = 0; i < 700; i++) {
        char path[32];
        snprintf(path, sizeof path, "/d%d/e", i % 7);
        ASSERT_OK(fs_fix_mkdir(&fix, path, NULL), &fix.err);
        snprintf(path, sizeof path, "/d%d/e/f%d", i % 7, i);
        ASSERT_OK(fs_fix_create(&fix, path, NULL), &fix.err);
        ASSERT_OK(fs_fix_resize(&fix, path, 10), &fix.err);
    }
    struct fs_query query = {.kind = FS_QUERY_DU, .path = BYTES("/"), .pattern = BYTES("")};
    ASSERT_OK(fs_fix_query(&fix, &query, &answer), &fix.err);
    ASSERT_EQ(answer.totals.bytes, 7000);
    ASSERT_EQ(answer.totals.files, 700);
    ASSERT_EQ(answer.totals.dirs, 15);
    fs_answer_done(&answer);
    query = (struct fs_query){.kind = FS_QUERY_FIND,
                              .path = BYTES("/d3"),
                              .pattern = BYTES("f69*"),
                              .line_count_max = UINT64_MAX};
    ASSERT_OK(fs_fix_query(&fix, &query, &answer), &fix.err);
    ASSERT_BYTES(buf_bytes(&answer.names), BYTES("/d3/e/f696 "));
    fs_answer_done(&answer);
    query.path = BYTES("/d3/e/f696/x");
    ASSERT_RC(fs_fix_query(&fix, &query, &answer), RC_REPLY);
    ASSERT_EQ(strncmp(fix.err.text, "NOTDIR", 6), 0);
    fs_answer_done(&answer);
    fs_fix_done(&fix);
}

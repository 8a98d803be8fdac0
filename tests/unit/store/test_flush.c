// SPDX-License-Identifier: Apache-2.0
#include "store/flush/flush.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "support/flush_fix.h"
#include "test.h"

#include "base/banned.h"

static void put_text(struct flush_fix *fix, const char *group, const char *suffix,
                     const char *value)
{
    fix_put(fix, FIX_LENGTH, bytes_of(group, strlen(group)), bytes_of(suffix, strlen(suffix)),
            bytes_of(value, strlen(value)));
}

static void put_rows(struct flush_fix *fix, uint8_t space, struct bytes group, int count)
{
    for (int i = 0; i < count; i++) {
        char suffix[16];
        int len = snprintf(suffix, sizeof suffix, "%05d", i);
        fix_put(fix, space, group, bytes_of(suffix, (size_t)len), BYTES("v"));
    }
}

static bool step_once(struct flush_fix *fix)
{
    bool worked;
    flush_step(fix->flush, &worked);
    return worked;
}

/* ---- what is written ---- */

TEST(flush_keeps_the_last_change_of_a_row)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_text(&fix, "g", "a", "1");
    put_text(&fix, "g", "b", "1");
    put_text(&fix, "g", "a", "2");
    fix_seal(&fix);
    put_text(&fix, "g", "a", "3");
    fix_delete(&fix, FIX_LENGTH, BYTES("g"), BYTES("b"));
    fix_seal(&fix);
    fix_flush(&fix);
    fix_check(&fix);
    ASSERT_EQ(fix.model.count, 1);
    ASSERT_EQ(fix_status(&fix).row_count, 2);
    ASSERT_EQ(fix_status(&fix).unit_count, 1);
}

TEST(flush_writes_the_mark_and_counters_of_the_same_moment)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    for (int i = 0; i < 5; i++) {
        fix_count(&fix, 0, 10);
        fix_count(&fix, 1, -1);
        uint64_t number = fix_seal(&fix);
        fix_flush(&fix);
        fix_check(&fix);
        struct sys_mark mark;
        ASSERT_OK(sys_mark_get(fix.engine, NULL, &mark, &fix.err), &fix.err);
        ASSERT_EQ(mark.segment, number);
        ASSERT_EQ(mark.lsn, fix.lsn);
        ASSERT_EQ(mark.incarnation, 7);
        ASSERT_EQ(flush_mark_segment(fix.flush), number);
        ASSERT_FALSE(fix_segment_exists(&fix, number));
        if (i == 2) { /* values are read back at a start */
            fix_close(&fix);
            fix_open(&fix);
        }
    }
    ASSERT_EQ(fix.model.counter[0], 50);
}

TEST(flush_of_a_segment_without_commits_moves_the_mark)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    fix_seal(&fix);
    fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
}

TEST(flush_of_a_small_cold_group_writes_point_deletes)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_rows(&fix, FIX_FIXED, BYTES("aaa"), STORE_DROP_POINT_ROWS_MAX);
    put_rows(&fix, FIX_LENGTH, BYTES("aaa"), STORE_DROP_POINT_ROWS_MAX);
    fix_seal(&fix);
    fix_flush(&fix);
    uint64_t row_count = fix_status(&fix).row_count;
    fix_drop_group(&fix, FIX_FIXED, BYTES("aaa"));
    fix_drop_prefix(&fix, FIX_LENGTH, BYTES("a"));
    fix_drop_group(&fix, FIX_LENGTH, BYTES("never"));
    fix_seal(&fix);
    fix_flush(&fix);
    fix_check(&fix);
    ASSERT_EQ(fix_status(&fix).range_delete_count, 0);
    ASSERT_EQ(fix_status(&fix).row_count - row_count, 2 * STORE_DROP_POINT_ROWS_MAX);
}

TEST(flush_of_a_large_cold_group_writes_one_range_delete)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_rows(&fix, FIX_FIXED, BYTES("\xff\xff\xff"), STORE_DROP_POINT_ROWS_MAX + 1);
    put_rows(&fix, FIX_LAST, BYTES("\xff"), STORE_DROP_POINT_ROWS_MAX + 1);
    put_rows(&fix, FIX_LENGTH, BYTES(""), 1);
    fix_seal(&fix);
    fix_flush(&fix);
    uint64_t row_count = fix_status(&fix).row_count;
    fix_drop_group(&fix, FIX_FIXED, BYTES("\xff\xff\xff"));
    fix_drop_group(&fix, FIX_LAST, BYTES("\xff"));
    fix_put(&fix, FIX_LAST, BYTES("\xff"), BYTES("00003"), BYTES("again"));
    fix_seal(&fix);
    fix_flush(&fix);
    fix_check(&fix);
    ASSERT_EQ(fix.model.count, 2);
    ASSERT_EQ(fix_status(&fix).range_delete_count, 2);
    ASSERT_EQ(fix_status(&fix).row_count - row_count, 1);
}

TEST(flush_of_a_dropped_prefix_seeks_only_where_there_are_rows)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    static const uint8_t group[255] = "ns:";
    static const size_t lens[] = {3, 40, 255};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++)
        put_rows(&fix, FIX_LENGTH, bytes_of(group, lens[i]), 2);
    put_rows(&fix, FIX_LENGTH, BYTES("other"), 2);
    fix_seal(&fix);
    fix_flush(&fix);
    uint64_t before = engine_memory_op_count(fix.memory, ENGINE_MEMORY_ITER_OPEN);
    fix_drop_prefix(&fix, FIX_LENGTH, BYTES("ns:"));
    fix_seal(&fix);
    fix_flush(&fix);
    ASSERT_LE(engine_memory_op_count(fix.memory, ENGINE_MEMORY_ITER_OPEN) - before, 10);
    fix_check(&fix);
    ASSERT_EQ(fix.model.count, 2);
}

TEST(flush_of_drops_and_rows_in_turn_is_exact)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_text(&fix, "pa", "old", "1");
    put_text(&fix, "pb", "old", "1");
    fix_seal(&fix);
    fix_flush(&fix);

    fix_drop_prefix(&fix, FIX_LENGTH, BYTES("p"));
    put_text(&fix, "pa", "new", "2");
    put_text(&fix, "pb", "old", "2");
    fix_seal(&fix);
    fix_drop_group(&fix, FIX_LENGTH, BYTES("pa"));
    put_text(&fix, "pa", "old", "3");
    fix_seal(&fix);
    fix_drop_prefix(&fix, FIX_LENGTH, BYTES("pb"));
    fix_drop_prefix(&fix, FIX_LENGTH, BYTES("pbx"));
    put_text(&fix, "pb", "newest", "4");
    fix_seal(&fix);
    fix_flush(&fix);
    fix_check(&fix);
    ASSERT_EQ(fix.model.count, 2);
}

/* Rows with long equal beginnings, keys that are prefixes of each other, many changes of one row.
 */
TEST(flush_sorts_keys_that_are_alike)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 3);
    fix_open(&fix);
    uint8_t key[400], value[8];
    for (int segment = 0; segment < 3; segment++) {
        for (int i = 0; i < 4000; i++) {
            size_t len = rand_below(&fix.rand, 120);
            memset(key, rand_below(&fix.rand, 3) ? 'x' : 0, sizeof key);
            if (i % 2 == 0)
                key[rand_below(&fix.rand, len + 1)] = (uint8_t)rand_below(&fix.rand, 3);
            rand_bytes(&fix.rand, value, sizeof value);
            fix_put(&fix, FIX_FIXED, BYTES("abc"), bytes_of(key, len),
                    bytes_of(value, sizeof value));
            if (i % 3 == 0)
                fix_put(&fix, FIX_WHOLE, bytes_of(key, len), BYTES(""), BYTES("w"));
            if (i % 1000 == 999)
                fix_drop_group(&fix, FIX_FIXED, BYTES("abc"));
        }
        fix_seal(&fix);
    }
    fix_flush(&fix);
    fix_check(&fix);
}

TEST(flush_carries_values_and_keys_larger_than_its_buffers)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 4);
    fix_open(&fix);
    size_t len = 700 * 1024;
    uint8_t *large = mem_alloc(len);
    rand_bytes(&fix.rand, large, len);
    static const size_t lens[] = {FLUSH_RUN_READ_BYTES - 24, FLUSH_RUN_READ_BYTES,
                                  FLUSH_RUN_WRITE_BYTES - 30, 700 * 1024, 64};
    for (int segment = 0; segment < 2; segment++) {
        for (uint32_t i = 0; i < 40; i++) {
            uint8_t suffix[4] = {(uint8_t)(i % 30), (uint8_t)segment};
            fix_put(&fix, FIX_LENGTH, BYTES("group"), bytes_of(suffix, 1 + i % 2),
                    bytes_of(large + i, lens[i % ARRAY_LEN(lens)] - i));
        }
        fix_put(&fix, FIX_LENGTH, BYTES("group"), bytes_of(large, 300 * 1024), BYTES("long key"));
        fix_put(&fix, FIX_LENGTH, BYTES("group"), bytes_of(large, 300 * 1024 + 1), BYTES("two"));
        fix_seal(&fix);
    }
    mem_free(large);
    fix.options.unit_bytes = 1024 * 1024 * 1024;
    fix_close(&fix);
    fix_open(&fix);
    fix_flush(&fix);
    fix_check(&fix);
    ASSERT_EQ(fix_status(&fix).unit_count, 1);
}

/* ---- when ---- */

TEST(flush_waits_for_size_age_or_demand)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix.options.unit_bytes = 4000;
    fix.options.age_ms_max = 1000;
    fix_open(&fix);
    ASSERT_FALSE(step_once(&fix));
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    ASSERT_FALSE(step_once(&fix));
    ASSERT_GT(fix_status(&fix).pending_bytes, 0);
    clock_advance_ms(&fix.clock, 999);
    ASSERT_FALSE(step_once(&fix));
    clock_advance_ms(&fix.clock, 1); /* age */
    fix_run(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
    ASSERT_EQ(fix_status(&fix).pending_bytes, 0);

    put_text(&fix, "g", "b", "1");
    fix_seal(&fix);
    ASSERT_FALSE(step_once(&fix));
    flush_ask(fix.flush, 2); /* demand */
    fix_run(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 2);

    for (int i = 0; i < 4; i++) {
        put_rows(&fix, FIX_LENGTH, BYTES("big"), 100);
        fix_seal(&fix);
    }
    fix_run(&fix); /* size */
    ASSERT_EQ(flush_mark_segment(fix.flush), 5);
    ASSERT_EQ(fix_status(&fix).unit_count, 3);
}

TEST(flush_takes_as_many_segments_as_it_has_room_for_runs)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    for (int i = 0; i < FLUSH_RUN_COUNT_MAX + 1; i++) {
        put_text(&fix, "g", i % 2 ? "odd" : "even", i % 3 ? "x" : "y");
        fix_seal(&fix);
    }
    fix_run(&fix); /* due by count */
    ASSERT_EQ(flush_mark_segment(fix.flush), FLUSH_RUN_COUNT_MAX);
    ASSERT_EQ(fix_status(&fix).unit_count, 1);
}

TEST(flush_says_why_it_waits_for_an_engine_that_will_never_catch_up)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix.options.l0_file_count_max = 8;
    fix_open(&fix);
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    engine_memory_pressure(fix.memory,
                           &(struct engine_pressure){.l0_file_count = 9, .failed = true});
    fix_flush(&fix);
    ASSERT_GT(fix_status(&fix).failure_count, 0);
    ASSERT_TRUE(strstr(fix_status(&fix).reason, "stopped compacting") != NULL);
    ASSERT_EQ(fix_status(&fix).reopen_count, 1); /* and not again at once */
    ASSERT_EQ(flush_mark_segment(fix.flush), 0);
    engine_memory_pressure(fix.memory, &(struct engine_pressure){0});
    fix_run(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
    ASSERT_EQ(fix_status(&fix).reason[0], 0);
}

TEST(flush_does_not_wait_for_compactions_that_fail_and_fail)
{
    CLEANUP(fix_done) struct flush_fix fix;
    struct engine_pressure pressure = {.l0_file_count = 9, .compacting = true, .error_count = 3};
    fix_init(&fix, 1);
    fix.options.l0_file_count_max = 8;
    fix_open(&fix);
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    engine_memory_pressure(fix.memory, &pressure);
    clock_advance_ms(&fix.clock, 1);
    fix_flush(&fix);
    clock_advance_ms(&fix.clock, 60 * 1000); /* slow is not stuck */
    ASSERT_FALSE(step_once(&fix));
    ASSERT_TRUE(fix_status(&fix).braked);
    pressure.error_count++;
    engine_memory_pressure(fix.memory, &pressure);
    fix_run(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
    ASSERT_FALSE(fix_status(&fix).braked);

    put_text(&fix, "g", "b", "1"); /* one file less: there is hope again */
    fix_seal(&fix);
    pressure = (struct engine_pressure){.l0_file_count = 8, .debt_bytes = 0, .error_count = 4};
    engine_memory_pressure(fix.memory, &pressure);
    fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 2);
    fix_check(&fix);
}

TEST(flush_waits_while_the_engine_is_under_pressure)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix.options.l0_file_count_max = 8;
    fix.options.debt_bytes_max = 100;
    fix_open(&fix);
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    engine_memory_pressure(fix.memory, &(struct engine_pressure){.l0_file_count = 9});
    fix_flush(&fix);
    ASSERT_TRUE(fix_status(&fix).braked);
    ASSERT_TRUE(fix_status(&fix).working);
    ASSERT_EQ(fix_status(&fix).failure_count, 0);
    engine_memory_pressure(fix.memory, &(struct engine_pressure){.debt_bytes = 101});
    ASSERT_FALSE(step_once(&fix));
    engine_memory_pressure(fix.memory,
                           &(struct engine_pressure){.l0_file_count = 8, .debt_bytes = 100});
    fix_run(&fix);
    ASSERT_FALSE(fix_status(&fix).braked);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
}

/* ---- what goes wrong ---- */

TEST(flush_that_was_applied_although_it_failed_counts_once)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    for (int i = 0; i < 3; i++) {
        fix_count(&fix, 0, 5);
        put_text(&fix, "g", "a", "1");
        fix_drop_group(&fix, FIX_LENGTH, BYTES("g"));
        put_text(&fix, "g", "b", "1");
        fix_seal(&fix);
        engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY_LATE, 1, 1, RC_IO);
        if (i > 0) /* and the mark cannot be read; the second time not even later */
            engine_memory_arm(fix.memory, ENGINE_MEMORY_GET, 1, i, RC_IO);
        fix_flush(&fix);
        for (int retry = 0; retry < 3; retry++)
            fix_run(&fix);
        ASSERT_EQ(flush_mark_segment(fix.flush), i + 1);
        ASSERT_EQ(fix_status(&fix).unit_count, i + 1);
        ASSERT_STR(fix_status(&fix).reason, "");
        fix_check(&fix);
    }
    ASSERT_EQ(fix_status(&fix).failure_count, 3);
}

TEST(flush_without_room_says_why_and_goes_on_later)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_text(&fix, "g", "a", "1");
    fix_count(&fix, 2, 1);
    fix_seal(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY, 1, 3, RC_FULL);
    for (int i = 0; i < 3; i++) {
        fix_flush(&fix);
        ASSERT_TRUE(fix_status(&fix).reason[0] != '\0');
        ASSERT_EQ(fix_status(&fix).failure_count, i + 1);
        ASSERT_EQ(flush_mark_segment(fix.flush), 0);
        ASSERT_TRUE(fix_segment_exists(&fix, 1));
    }
    fix_flush(&fix);
    ASSERT_STR(fix_status(&fix).reason, "");
    fix_check(&fix);
}

TEST(flush_of_a_damaged_segment_keeps_it_and_says_so)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    char path[PATH_BYTES_MAX];
    segment_path(path, fix.journal_dir, 1);
    struct file *file = NULL;
    uint64_t len;
    uint8_t was, is;
    size_t read_len;
    ASSERT_OK(file_open(fix.files, path, FILE_READ | FILE_WRITE, &file, &fix.err), &fix.err);
    ASSERT_OK(file_size(file, &len, &fix.err), &fix.err);
    ASSERT_OK(file_read(file, len - 1, &was, 1, &read_len, &fix.err), &fix.err);
    is = was ^ 1;
    ASSERT_OK(file_write(file, len - 1, bytes_of(&is, 1), &fix.err), &fix.err);
    for (int i = 0; i < 3; i++)
        fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 0);
    ASSERT_TRUE(strstr(fix_status(&fix).reason, "0001.seg") != NULL);
    ASSERT_OK(file_write(file, len - 1, bytes_of(&was, 1), &fix.err), &fix.err);
    file_close(file);
    fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 1);
    fix_check(&fix);
}

TEST(flush_sorts_again_when_a_run_was_lost)
{
    for (int cut = 0; cut < 2; cut++) {
        CLEANUP(fix_done) struct flush_fix fix;
        fix_init(&fix, 1);
        fix_open(&fix);
        fix_count(&fix, 0, 1);
        put_rows(&fix, FIX_LENGTH, BYTES("g"), 100);
        fix_seal(&fix);
        fix_drop_prefix(&fix, FIX_LENGTH, BYTES(""));
        put_rows(&fix, FIX_LENGTH, BYTES("h"), 100);
        fix_seal(&fix);
        flush_ask(fix.flush, 2);
        for (int i = 0; i < 3; i++)
            ASSERT_TRUE(step_once(&fix)); /* PICK, SORT, SORT */
        char path[512];
        snprintf(path, sizeof path, "%s/run-0001", fix.scratch_dir);
        if (cut) {
            struct file *file = NULL;
            ASSERT_OK(file_open(fix.files, path, FILE_WRITE, &file, &fix.err), &fix.err);
            ASSERT_OK(file_truncate(file, 1000, &fix.err), &fix.err);
            file_close(file);
        } else {
            ASSERT_OK(files_remove(fix.files, path, &fix.err), &fix.err);
        }
        ASSERT_FALSE(step_once(&fix));
        ASSERT_EQ(fix_status(&fix).failure_count, 1);
        fix_run(&fix);
        ASSERT_EQ(flush_mark_segment(fix.flush), 2);
        fix_check(&fix);
    }
}

TEST(flush_refuses_rows_of_the_sys_space)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    ASSERT_TRUE(record_add(&fix.writer, RECORD_PUT, SPACE_SYS, BYTES(""), BYTES("mark"), BYTES(""),
                           BYTES("forged"), 0));
    fix_seal(&fix);
    fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 0);
    ASSERT_EQ(engine_memory_row_count(fix.memory), 0);
    ASSERT_EQ(fix_status(&fix).failure_count, 1);
}

static enum rc name_count(const char *name, void *arg, struct err *err)
{
    (void)name;
    (void)err;
    ++*(int *)arg;
    return RC_OK;
}

TEST(flush_leaves_no_scratch_files_and_removes_those_it_finds)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    char path[512];
    snprintf(path, sizeof path, "%s/run-0077", fix.scratch_dir);
    ASSERT_OK(files_replace(fix.files, path, BYTES("old"), &fix.err), &fix.err);
    fix_open(&fix);
    int count = 0;
    ASSERT_RC(files_list(fix.files, fix.scratch_dir, name_count, &count, &fix.err), RC_OK);
    ASSERT_EQ(count, 0);
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    fix_flush(&fix);
    ASSERT_RC(files_list(fix.files, fix.scratch_dir, name_count, &count, &fix.err), RC_OK);
    ASSERT_EQ(count, 0);
}

/* ---- requests ---- */

TEST(flush_view_shows_exactly_its_segment_while_units_go_on)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 8);
    fix_open(&fix);
    struct model frozen[3] = {0};
    struct flush_request request[3] = {0};
    for (int i = 0; i < 30; i++) {
        for (int change = 0; change < 20; change++)
            fix_change_random(&fix);
        uint64_t number = fix_seal(&fix);
        if (i % 10 == 5) {
            model_copy(&frozen[i / 10], &fix.model);
            request[i / 10] = (struct flush_request){.kind = FLUSH_REQUEST_VIEW, .segment = number};
            flush_request(fix.flush, &request[i / 10]);
        }
    }
    fix_flush(&fix);
    ASSERT_EQ(flush_mark_segment(fix.flush), 30);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(atomic_load(&request[i].done));
        ASSERT_RC(request[i].rc, RC_OK);
        ASSERT_EQ(request[i].mark.segment, request[i].segment);
        model_check(&frozen[i], fix.engine, request[i].view, &fix.spaces);
        fix.ops->view_close(fix.engine, request[i].view);
        model_done(&frozen[i]);
    }
    fix_check(&fix);
}

TEST(flush_view_of_a_segment_already_passed_reports_the_real_mark)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    for (int i = 0; i < 3; i++) {
        put_text(&fix, "g", "a", "1");
        fix_seal(&fix);
    }
    fix_flush(&fix);
    struct flush_request request = {.kind = FLUSH_REQUEST_VIEW, .segment = 1};
    flush_request(fix.flush, &request);
    int notified = fix.notify_count;
    ASSERT_TRUE(step_once(&fix));
    ASSERT_GT(fix.notify_count, notified);
    ASSERT_TRUE(atomic_load(&request.done));
    ASSERT_RC(request.rc, RC_OK);
    ASSERT_EQ(request.mark.segment, 3);
    fix.ops->view_close(fix.engine, request.view);
}

TEST(flush_request_can_be_taken_back_and_is_ended_by_closing)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    struct flush_request first = {.kind = FLUSH_REQUEST_VIEW, .segment = 1};
    struct flush_request second = {.kind = FLUSH_REQUEST_BACKUP, .segment = 9, .backup_dir = "/b"};
    flush_request(fix.flush, &first);
    flush_request(fix.flush, &second);
    ASSERT_FALSE(step_once(&fix));
    flush_request_take_back(fix.flush, &first);
    put_text(&fix, "g", "a", "1");
    fix_seal(&fix);
    fix_flush(&fix);
    ASSERT_FALSE(atomic_load(&first.done));
    ASSERT_FALSE(atomic_load(&second.done));
    fix_close(&fix);
    ASSERT_TRUE(atomic_load(&second.done));
    ASSERT_RC(second.rc, RC_IO);
}

TEST(flush_view_that_the_engine_refuses_is_reported)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_VIEW, 1, 1, RC_IO);
    struct flush_request request = {.kind = FLUSH_REQUEST_VIEW};
    flush_request(fix.flush, &request);
    fix_run(&fix);
    ASSERT_TRUE(atomic_load(&request.done));
    ASSERT_RC(request.rc, RC_IO);
    ASSERT_TRUE(request.err.text[0] != '\0');
}

/* A backup is restored: the copy of the engine, and the segments after its mark. */
static void backup_check(struct flush_fix *fix, const char *dir, const struct sys_mark *mark,
                         const struct model *at_mark, uint64_t last)
{
    char engine_dir[PATH_BYTES_MAX], journal_dir[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
    snprintf(engine_dir, sizeof engine_dir, "%s/engine", dir);
    snprintf(journal_dir, sizeof journal_dir, "%s/journal", dir);
    const struct engine_options options = {.dir = engine_dir,
                                           .scratch_dir = fix->scratch_dir,
                                           .spaces = &fix->spaces,
                                           .cache_bytes = 1024 * 1024,
                                           .memory = fix->memory};
    struct engine *copy = NULL;
    struct sys_mark copy_mark;
    ASSERT_OK(fix->ops->open(&options, &copy, &fix->err), &fix->err);
    ASSERT_OK(sys_mark_get(copy, NULL, &copy_mark, &fix->err), &fix->err);
    ASSERT_EQ(copy_mark.segment, mark->segment);
    model_check(at_mark, copy, NULL, &fix->spaces);
    fix->ops->close(copy);
    for (uint64_t number = 1; number <= last + 1; number++) {
        struct file *file = NULL;
        segment_path(path, journal_dir, number);
        enum rc rc = file_open(fix->files, path, FILE_READ, &file, &fix->err);
        ASSERT_RC(rc, number > mark->segment && number <= last ? RC_OK : RC_NOT_FOUND);
        if (rc != RC_OK)
            continue;
        uint64_t bytes;
        ASSERT_OK(file_size(file, &bytes, &fix->err), &fix->err);
        ASSERT_EQ(bytes, fix->sealed[number - 1].bytes);
        file_close(file);
    }
}

static void backup_scenario(struct flush_fix *fix, const char *dir)
{
    struct model at_mark;
    fix_open(fix);
    put_rows(fix, FIX_LENGTH, BYTES("g"), 20);
    fix_count(fix, 0, 3);
    fix_seal(fix);
    fix_flush(fix);
    model_copy(&at_mark, &fix->model);

    struct flush_request request = {.kind = FLUSH_REQUEST_BACKUP, .segment = 2, .backup_dir = dir};
    flush_request(fix->flush, &request);
    fix_run(fix);
    ASSERT_FALSE(atomic_load(&request.done)); /* segment 2 is not sealed */
    put_text(fix, "g", "a", "2");
    fix_seal(fix);
    fix_seal(fix);
    fix_seal(fix);
    fix_run(fix);
    ASSERT_TRUE(atomic_load(&request.done));
    ASSERT_OK(request.rc, &request.err);
    ASSERT_EQ(request.mark.segment, 1);

    struct flush_request again = request;
    flush_request(fix->flush, &again);
    fix_flush(fix);
    ASSERT_TRUE(atomic_load(&again.done));
    ASSERT_RC(again.rc, RC_BUSY);
    ASSERT_EQ(flush_mark_segment(fix->flush), 4);
    ASSERT_FALSE(fix_segment_exists(fix, 3));
    backup_check(fix, dir, &request.mark, &at_mark, 2);
    model_done(&at_mark);
}

TEST(flush_backup_holds_the_engine_and_the_segments_after_it)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    backup_scenario(&fix, "/store/backup");
}

TEST(flush_backup_of_rocksdb_holds_the_engine_and_the_segments_after_it)
{
    if (!fix_has_rocksdb())
        return;
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init_rocksdb(&fix, 1);
    char dir[512];
    snprintf(dir, sizeof dir, "%s/../backup", fix.journal_dir);
    backup_scenario(&fix, dir);
}

TEST(flush_backup_that_fails_is_reported_and_segments_go_on_being_removed)
{
    CLEANUP(fix_done) struct flush_fix fix;
    fix_init(&fix, 1);
    fix_open(&fix);
    put_text(&fix, "g", "a", "2");
    fix_seal(&fix);
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_LINK, .count = 1, .times = 1, .rc = RC_IO});
    struct flush_request request = {
        .kind = FLUSH_REQUEST_BACKUP, .segment = 1, .backup_dir = "/store/backup"};
    flush_request(fix.flush, &request);
    fix_run(&fix);
    ASSERT_TRUE(atomic_load(&request.done));
    ASSERT_RC(request.rc, RC_IO);
    fix_flush(&fix);
    ASSERT_FALSE(fix_segment_exists(&fix, 1));
}

/* ---- threads ---- */

struct bell { /* rung by notify */
    pthread_mutex_t lock;
    pthread_cond_t rung;
    uint64_t count;
};

static void bell_ring(void *arg)
{
    struct bell *bell = arg;
    pthread_mutex_lock(&bell->lock);
    bell->count++;
    pthread_cond_broadcast(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

static uint64_t bell_count(struct bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    uint64_t count = bell->count;
    pthread_mutex_unlock(&bell->lock);
    return count;
}

static void bell_wait(struct bell *bell, uint64_t count)
{
    pthread_mutex_lock(&bell->lock);
    while (bell->count == count)
        pthread_cond_wait(&bell->rung, &bell->lock);
    pthread_mutex_unlock(&bell->lock);
}

static void wait_for_mark(struct flush_fix *fix, struct bell *bell, uint64_t segment)
{
    for (;;) {
        uint64_t count = bell_count(bell);
        if (flush_mark_segment(fix->flush) >= segment)
            return;
        bell_wait(bell, count);
    }
}

static void thread_fix_init(struct flush_fix *fix, struct bell *bell)
{
    *bell = (struct bell){.lock = PTHREAD_MUTEX_INITIALIZER, .rung = PTHREAD_COND_INITIALIZER};
    fix_init(fix, 77);
    fix->options.manual = false;
    fix->options.notify = bell_ring;
    fix->options.notify_arg = bell;
    fix->options.unit_bytes = 3000;
}

TEST(flush_thread_flushes_serves_views_and_reports_meanwhile)
{
    CLEANUP(fix_done) struct flush_fix fix;
    struct bell bell;
    thread_fix_init(&fix, &bell);
    fix_open(&fix);
    for (int round = 0; round < 30; round++) {
        for (int segment = 0; segment < 3; segment++) {
            for (int i = 0; i < 15; i++)
                fix_change_random(&fix);
            fix_seal(&fix);
        }
        struct model frozen;
        model_copy(&frozen, &fix.model);
        struct flush_request request = {.kind = FLUSH_REQUEST_VIEW, .segment = fix.segment_count};
        flush_request(fix.flush, &request);
        for (int i = 0; i < 15; i++)
            fix_change_random(&fix);
        flush_ask(fix.flush, fix_seal(&fix));
        for (;;) {
            uint64_t count = bell_count(&bell);
            uint64_t flushed =
                fix_status(&fix).mark.segment; /* before the look: then it is older */
            if (atomic_load_explicit(&request.done, memory_order_acquire))
                break;
            ASSERT_LE(flushed, request.segment);
            bell_wait(&bell, count);
        }
        ASSERT_OK(request.rc, &request.err);
        ASSERT_EQ(request.mark.segment, request.segment);
        model_check(&frozen, fix.engine, request.view, &fix.spaces);
        fix.ops->view_close(fix.engine, request.view);
        model_done(&frozen);
    }
    wait_for_mark(&fix, &bell, fix.segment_count);
    fix_check(&fix);
}

TEST(flush_thread_can_be_closed_at_any_time)
{
    CLEANUP(fix_done) struct flush_fix fix;
    struct bell bell;
    thread_fix_init(&fix, &bell);
    for (int round = 0; round < 60; round++) {
        fix_open(&fix);
        for (int i = 0; i < 40; i++)
            fix_change_random(&fix);
        flush_ask(fix.flush, fix_seal(&fix));
        struct flush_request request = {.kind = FLUSH_REQUEST_VIEW, .segment = fix.segment_count};
        flush_request(fix.flush, &request);
        if (round % 3 == 0)
            flush_request_take_back(fix.flush, &request);
        if (round % 4 == 0)
            wait_for_mark(&fix, &bell, fix.segment_count);
        flush_close(fix.flush);
        fix.flush = NULL;
        ASSERT_TRUE(atomic_load(&request.done) || round % 3 == 0);
        if (request.view)
            fix.ops->view_close(fix.engine, request.view);
        fix_close(&fix);
    }
    fix_open(&fix);
    flush_ask(fix.flush, fix.segment_count);
    wait_for_mark(&fix, &bell, fix.segment_count);
    fix_check(&fix);
}

static uint64_t segment_of_a_unit(struct flush_fix *fix)
{
    uint8_t value[100] = {0};
    for (int i = 0; i < 10 * 1000; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "%08d", i);
        fix_put(fix, FIX_WHOLE, bytes_of(key, (size_t)len), BYTES(""),
                bytes_of(value, sizeof value));
    }
    return fix_seal(fix);
}

TEST(flush_thread_rests_only_in_units_that_nobody_waits_for)
{
    CLEANUP(fix_done) struct flush_fix fix;
    struct bell bell;
    thread_fix_init(&fix, &bell);
    fix.options.unit_bytes = 1000 * 1000;
    fix_open(&fix);
    wait_for_mark(&fix, &bell, segment_of_a_unit(&fix)); /* due by its size */
    uint64_t rest_count = fix_status(&fix).rest_count;
    ASSERT_GT(rest_count, 0);

    flush_ask(fix.flush, fix.segment_count + 1);
    wait_for_mark(&fix, &bell, segment_of_a_unit(&fix));
    ASSERT_EQ(fix_status(&fix).rest_count, rest_count);
    fix_check(&fix);
}

TEST(flush_thread_tries_again_after_failures_and_under_pressure)
{
    CLEANUP(fix_done) struct flush_fix fix;
    struct bell bell;
    thread_fix_init(&fix, &bell);
    fix_open(&fix);
    engine_memory_arm(fix.memory, ENGINE_MEMORY_APPLY, 1, 1, RC_IO);
    engine_memory_pressure(fix.memory, &(struct engine_pressure){.l0_file_count = 2000});
    fix_change_random(&fix);
    fix_seal(&fix);
    flush_ask(fix.flush, 1);
    for (;;) {
        uint64_t count = bell_count(&bell);
        if (fix_status(&fix).braked)
            break;
        bell_wait(&bell, count);
    }
    engine_memory_pressure(fix.memory, &(struct engine_pressure){0});
    wait_for_mark(&fix, &bell, 1);
    ASSERT_EQ(fix_status(&fix).failure_count, 1);
    fix_check(&fix);
}

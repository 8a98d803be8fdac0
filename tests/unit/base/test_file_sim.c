// SPDX-License-Identifier: Apache-2.0
#include "base/file_sim.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

struct fixture {
    struct file_sim *sim;
    struct files *files;
    struct rand rand;
    struct err err;
};

static void setup(struct fixture *fix)
{
    memset(fix, 0, sizeof *fix);
    fix->sim = file_sim_new();
    fix->files = file_sim_files(fix->sim);
    rand_init_seed(&fix->rand, 6);
    ASSERT_RC(files_make_dir(fix->files, "d", &fix->err), RC_OK);
    ASSERT_RC(files_sync_dir(fix->files, ".", &fix->err), RC_OK);
}

static void teardown(struct fixture *fix)
{
    file_sim_free(fix->sim);
}

static struct file *open_file(struct fixture *fix, const char *path)
{
    struct file *file = NULL;
    unsigned flags = FILE_READ | FILE_WRITE | FILE_CREATE;
    ASSERT_OK(file_open(fix->files, path, flags, &file, &fix->err), &fix->err);
    return file;
}

/* A file that survives a power cut with this content. */
static void put_synced(struct fixture *fix, const char *path, struct bytes content)
{
    struct file *file = open_file(fix, path);
    ASSERT_OK(file_write(file, 0, content, &fix->err), &fix->err);
    ASSERT_OK(file_sync(file, &fix->err), &fix->err);
    ASSERT_OK(files_sync_dir(fix->files, "d", &fix->err), &fix->err);
    file_close(file);
}

static void write_to(struct fixture *fix, const char *path, uint64_t offset, struct bytes content)
{
    struct file *file = open_file(fix, path);
    ASSERT_OK(file_write(file, offset, content, &fix->err), &fix->err);
    file_close(file);
}

static void sync_one(struct fixture *fix, const char *path)
{
    struct file *file = open_file(fix, path);
    ASSERT_OK(file_sync(file, &fix->err), &fix->err);
    file_close(file);
}

static bool exists(struct fixture *fix, const char *path)
{
    struct file *file = NULL;
    bool found = file_open(fix->files, path, FILE_READ, &file, NULL) == RC_OK;
    file_close(file);
    return found;
}

static void assert_content(struct fixture *fix, const char *path, struct bytes expected)
{
    struct buf buf;
    buf_init(&buf, 1 << 20);
    ASSERT_OK(files_read_all(fix->files, path, &buf, &fix->err), &fix->err);
    ASSERT_BYTES(buf_bytes(&buf), expected);
    buf_done(&buf);
}

static void power_cut(struct fixture *fix)
{
    file_sim_power_cut(fix->sim, false, NULL);
}

TEST(a_power_cut_takes_what_was_not_synced)
{
    struct fixture fix;
    setup(&fix);
    put_synced(&fix, "d/a", BYTES("synced"));
    write_to(&fix, "d/a", 2, BYTES("XXXXXXXXXXX"));
    assert_content(&fix, "d/a", BYTES("syXXXXXXXXXXX"));
    power_cut(&fix);
    assert_content(&fix, "d/a", BYTES("synced"));

    write_to(&fix, "d/a", 0, BYTES("S"));
    sync_one(&fix, "d/a");
    struct file *file = open_file(&fix, "d/a");
    ASSERT_RC(file_truncate(file, 1, &fix.err), RC_OK);
    file_close(file);
    assert_content(&fix, "d/a", BYTES("S"));
    power_cut(&fix);
    assert_content(&fix, "d/a", BYTES("Synced"));
    teardown(&fix);
}

TEST(the_name_of_a_new_file_needs_its_directory_synced)
{
    struct fixture fix;
    setup(&fix);
    write_to(&fix, "d/a", 0, BYTES("x"));
    sync_one(&fix, "d/a");
    power_cut(&fix);
    ASSERT_FALSE(exists(&fix, "d/a"));

    write_to(&fix, "d/a", 0, BYTES("x"));
    ASSERT_RC(files_sync_dir(fix.files, "d", &fix.err), RC_OK);
    power_cut(&fix);
    assert_content(&fix, "d/a", BYTES("")); /* the name without the content */
    teardown(&fix);
}

TEST(an_unsynced_directory_takes_what_is_in_it)
{
    struct fixture fix;
    setup(&fix);
    ASSERT_RC(files_make_dir(fix.files, "d/sub/", &fix.err), RC_OK);
    write_to(&fix, "d/sub/a", 0, BYTES("x"));
    sync_one(&fix, "./d//sub/a");
    ASSERT_RC(files_sync_dir(fix.files, "d/sub", &fix.err), RC_OK);
    power_cut(&fix);
    ASSERT_FALSE(exists(&fix, "d/sub/a"));
    ASSERT_RC(files_sync_dir(fix.files, "d/sub", &fix.err), RC_NOT_FOUND);
    teardown(&fix);
}

TEST(removed_renamed_and_linked_names_come_back_or_go)
{
    struct fixture fix;
    setup(&fix);
    put_synced(&fix, "d/a", BYTES("a"));
    put_synced(&fix, "d/b", BYTES("b"));
    ASSERT_RC(files_rename(fix.files, "d/a", "d/b", &fix.err), RC_OK);
    ASSERT_RC(files_link(fix.files, "d/b", "d/c", &fix.err), RC_OK);
    ASSERT_RC(files_remove(fix.files, "d/b", &fix.err), RC_OK);
    assert_content(&fix, "d/c", BYTES("a"));
    power_cut(&fix);
    assert_content(&fix, "d/a", BYTES("a"));
    assert_content(&fix, "d/b", BYTES("b"));
    ASSERT_FALSE(exists(&fix, "d/c"));

    ASSERT_RC(files_rename(fix.files, "d/a", "d/b", &fix.err), RC_OK);
    ASSERT_RC(files_sync_dir(fix.files, "d", &fix.err), RC_OK);
    power_cut(&fix);
    ASSERT_FALSE(exists(&fix, "d/a"));
    assert_content(&fix, "d/b", BYTES("a"));
    teardown(&fix);
}

TEST(a_rename_between_directories_is_there_after_a_sync_of_the_target)
{
    struct fixture fix;
    setup(&fix);
    ASSERT_RC(files_make_dir(fix.files, "e", &fix.err), RC_OK);
    ASSERT_RC(files_sync_dir(fix.files, ".", &fix.err), RC_OK);
    write_to(&fix, "d/a", 0, BYTES("x"));
    sync_one(&fix, "d/a");
    ASSERT_RC(files_rename(fix.files, "d/a", "e/a", &fix.err), RC_OK);
    ASSERT_RC(files_sync_dir(fix.files, "e", &fix.err), RC_OK);
    power_cut(&fix);
    ASSERT_FALSE(exists(&fix, "d/a"));
    assert_content(&fix, "e/a", BYTES("x"));

    ASSERT_RC(files_rename(fix.files, "e", "f", &fix.err), RC_OK);
    assert_content(&fix, "f/a", BYTES("x"));
    ASSERT_FALSE(exists(&fix, "e/a"));
    power_cut(&fix);
    assert_content(&fix, "e/a", BYTES("x"));
    teardown(&fix);
}

TEST(a_replaced_file_is_the_old_or_the_new_one_at_every_fault)
{
    for (uint64_t n = 1;; n++) {
        struct fixture fix;
        setup(&fix);
        put_synced(&fix, "d/a", BYTES("old"));
        struct file_sim_fault fault = {.count = n, .times = -1};
        file_sim_arm(fix.sim, &fault);
        enum rc rc = files_replace(fix.files, "d/a", BYTES("new"), &fix.err);
        fault.count = 0;
        file_sim_arm(fix.sim, &fault);
        file_sim_power_cut(fix.sim, n % 2, &fix.rand);
        struct buf buf;
        buf_init(&buf, 100);
        ASSERT_OK(files_read_all(fix.files, "d/a", &buf, &fix.err), &fix.err);
        ASSERT_TRUE(bytes_eq(buf_bytes(&buf), BYTES("new")) ||
                    (rc != RC_OK && bytes_eq(buf_bytes(&buf), BYTES("old"))));
        buf_done(&buf);
        teardown(&fix);
        if (rc == RC_OK)
            break;
        ASSERT_LT(n, 20);
    }
}

TEST(the_nth_call_fails_as_often_as_armed)
{
    struct fixture fix;
    setup(&fix);
    struct file *file = open_file(&fix, "d/a");
    struct file_sim_fault fault = {
        .op = FILE_SIM_WRITE, .count = 3, .times = 2, .rc = RC_FULL, .short_bytes = 2};
    file_sim_arm(fix.sim, &fault);
    for (int i = 1; i <= 6; i++) {
        bool fails = i == 3 || i == 4;
        ASSERT_RC(file_write(file, (uint64_t)(10 * i), BYTES("abc"), &fix.err),
                  fails ? RC_FULL : RC_OK);
        uint64_t size = 0;
        ASSERT_RC(file_size(file, &size, &fix.err), RC_OK);
        ASSERT_EQ(size, 10 * i + (fails ? 2 : 3)); /* a short write leaves a part */
    }
    ASSERT_EQ(file_sim_op_count(fix.sim, FILE_SIM_WRITE), 6);
    ASSERT_GT(file_sim_op_count(fix.sim, FILE_SIM_ANY), 12);

    fault = (struct file_sim_fault){.op = FILE_SIM_SYNC, .count = 1, .times = -1};
    file_sim_arm(fix.sim, &fault);
    for (int i = 0; i < 5; i++)
        ASSERT_RC(file_sync(file, &fix.err), RC_IO);
    fault.count = 0;
    file_sim_arm(fix.sim, &fault);
    ASSERT_RC(file_sync(file, &fix.err), RC_OK);
    file_close(file);
    teardown(&fix);
}

TEST(a_fault_can_be_for_some_paths_only)
{
    struct fixture fix;
    struct file *file = NULL;
    setup(&fix);
    struct file_sim_fault fault = {
        .op = FILE_SIM_OPEN, .count = 1, .times = -1, .path_part = "journal"};
    file_sim_arm(fix.sim, &fault);
    file_close(open_file(&fix, "d/other"));
    ASSERT_RC(file_open(fix.files, "d/journal.1", FILE_WRITE | FILE_CREATE, &file, &fix.err),
              RC_IO);
    ASSERT_TRUE(strstr(fix.err.text, "journal.1"));
    ASSERT_FALSE(exists(&fix, "d/journal.1"));
    teardown(&fix);
}

TEST(every_kind_of_call_can_fail)
{
    struct fixture fix;
    setup(&fix);
    put_synced(&fix, "d/a", BYTES("x"));
    struct file *file = open_file(&fix, "d/a");
    uint8_t byte;
    size_t len;
    for (enum file_sim_op op = FILE_SIM_OPEN; op <= FILE_SIM_READ; op++) {
        struct file *other = NULL;
        struct file_sim_fault fault = {.op = op, .count = 1, .rc = RC_NOMEM};
        file_sim_arm(fix.sim, &fault);
        enum rc rc[] = {
            file_open(fix.files, "d/a", FILE_READ, &other, NULL),
            file_write(file, 0, BYTES("x"), NULL),
            file_sync(file, NULL),
            file_truncate(file, 1, NULL),
            file_allocate(file, 1, NULL),
            files_rename(fix.files, "d/a", "d/b", NULL),
            files_link(fix.files, op == FILE_SIM_RENAME ? "d/a" : "d/b", "d/c", NULL),
            files_remove(fix.files, "d/c", NULL),
            files_sync_dir(fix.files, "d", NULL),
            file_read(file, 0, &byte, 1, &len, NULL),
        };
        for (size_t i = 0; i < ARRAY_LEN(rc); i++) {
            bool follows = op == FILE_SIM_LINK && i == op; /* nothing to remove */
            ASSERT_RC(rc[i], i + 1 == op ? RC_NOMEM : follows ? RC_NOT_FOUND : RC_OK);
        }
        file_close(other);
        enum rc ignored = files_remove(fix.files, "d/c", NULL);
        ignored = files_rename(fix.files, "d/b", "d/a", NULL);
        (void)ignored;
    }
    file_close(file);
    teardown(&fix);
}

TEST(a_failed_sync_loses_its_writes_although_the_next_one_succeeds)
{
    struct fixture fix;
    setup(&fix);
    put_synced(&fix, "d/a", BYTES("old"));
    struct file *file = open_file(&fix, "d/a");
    ASSERT_RC(file_write(file, 0, BYTES("new"), &fix.err), RC_OK);
    file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_SYNC, .count = 1});
    ASSERT_RC(file_sync(file, &fix.err), RC_IO);
    ASSERT_RC(file_write(file, 3, BYTES("er"), &fix.err), RC_OK);
    ASSERT_RC(file_sync(file, &fix.err), RC_OK);
    file_close(file);
    assert_content(&fix, "d/a", BYTES("newer"));
    power_cut(&fix);
    assert_content(&fix, "d/a", BYTES("older"));
    teardown(&fix);
}

TEST(space_is_used_up_and_given_back)
{
    struct fixture fix;
    uint64_t bytes = 0;
    setup(&fix);
    file_sim_space(fix.sim, 10);
    struct file *file = open_file(&fix, "d/a");
    ASSERT_RC(file_write(file, 0, BYTES("12345678"), &fix.err), RC_OK);
    ASSERT_RC(file_write(file, 0, BYTES("abcd"), &fix.err), RC_OK); /* in place */
    ASSERT_RC(file_write(file, 8, BYTES("9abc"), &fix.err), RC_FULL);
    assert_content(&fix, "d/a", BYTES("abcd56789a"));
    ASSERT_RC(file_write(file, 20, BYTES("x"), &fix.err), RC_FULL);
    ASSERT_RC(files_free_bytes(fix.files, "d", &bytes, &fix.err), RC_OK);
    ASSERT_EQ(bytes, 0);
    ASSERT_RC(file_truncate(file, 4, &fix.err), RC_OK);
    ASSERT_RC(file_allocate(file, 11, &fix.err), RC_FULL);
    ASSERT_RC(file_allocate(file, 9, &fix.err), RC_OK);
    ASSERT_RC(files_free_bytes(fix.files, "d", &bytes, &fix.err), RC_OK);
    ASSERT_EQ(bytes, 1);
    file_close(file);
    ASSERT_RC(files_remove(fix.files, "d/a", &fix.err), RC_OK);
    ASSERT_RC(files_sync_dir(fix.files, "d", &fix.err), RC_OK);
    ASSERT_RC(files_free_bytes(fix.files, "d", &bytes, &fix.err), RC_OK);
    ASSERT_EQ(bytes, 10);
    teardown(&fix);
}

TEST(files_opened_before_a_cut_are_dead_but_can_be_closed)
{
    struct fixture fix;
    uint8_t byte;
    size_t len;
    setup(&fix);
    put_synced(&fix, "d/a", BYTES("x"));
    struct file *file = open_file(&fix, "d/a");
    ASSERT_RC(file_lock(file, &fix.err), RC_OK);
    power_cut(&fix);
    ASSERT_RC(file_write(file, 0, BYTES("y"), &fix.err), RC_IO);
    ASSERT_RC(file_read(file, 0, &byte, 1, &len, &fix.err), RC_IO);
    ASSERT_RC(file_sync(file, &fix.err), RC_IO);
    struct file *next = open_file(&fix, "d/a");
    ASSERT_RC(file_lock(next, &fix.err), RC_OK);
    file_close(file);
    file_close(next);
    assert_content(&fix, "d/a", BYTES("x"));
    teardown(&fix);
}

TEST(the_end_of_a_process_keeps_all_it_wrote_until_the_power_goes)
{
    struct fixture fix;
    setup(&fix);
    put_synced(&fix, "d/a", BYTES("x"));
    struct file *file = open_file(&fix, "d/a");
    ASSERT_RC(file_lock(file, &fix.err), RC_OK);
    ASSERT_RC(file_write(file, 1, BYTES("y"), &fix.err), RC_OK);
    file_sim_process_end(fix.sim);
    ASSERT_RC(file_write(file, 2, BYTES("z"), &fix.err), RC_IO);
    struct file *next = open_file(&fix, "d/a");
    ASSERT_RC(file_lock(next, &fix.err), RC_OK);
    assert_content(&fix, "d/a", BYTES("xy"));
    file_close(file);
    file_close(next);
    power_cut(&fix);
    assert_content(&fix, "d/a", BYTES("x"));
    teardown(&fix);
}

/* Each byte is the old one, the new one, or zero where the file only grew. */
TEST(a_torn_cut_keeps_parts_of_unsynced_writes_and_all_that_was_synced)
{
    enum { OLD_BYTES = 3000, NEW_BYTES = 6000 };
    struct fixture fix;
    static uint8_t old_data[OLD_BYTES];
    static uint8_t new_data[NEW_BYTES];
    unsigned whole = 0;
    unsigned none = 0;
    unsigned part = 0;
    setup(&fix);
    memset(old_data, 'o', sizeof old_data);
    memset(new_data, 'n', sizeof new_data);
    for (int round = 0; round < 200; round++) {
        put_synced(&fix, "d/a", bytes_of(old_data, OLD_BYTES));
        put_synced(&fix, "d/kept", BYTES("kept"));
        write_to(&fix, "d/a", 1000, bytes_of(new_data, NEW_BYTES));
        file_sim_power_cut(fix.sim, true, &fix.rand);
        assert_content(&fix, "d/kept", BYTES("kept"));
        struct buf buf;
        buf_init(&buf, 10000);
        ASSERT_OK(files_read_all(fix.files, "d/a", &buf, &fix.err), &fix.err);
        size_t count = 0;
        ASSERT_GE(buf.len, OLD_BYTES);
        for (size_t i = 0; i < buf.len; i++) {
            count += buf.ptr[i] == 'n';
            ASSERT_TRUE(buf.ptr[i] == 'n' || buf.ptr[i] == (i < OLD_BYTES ? 'o' : 0));
            ASSERT_TRUE(i >= 1000 || buf.ptr[i] == 'o');
        }
        whole += count == NEW_BYTES;
        none += count == 0;
        part += count > 0 && count < NEW_BYTES;
        buf_done(&buf);
        ASSERT_RC(files_remove(fix.files, "d/a", &fix.err), RC_OK);
    }
    ASSERT_GT(whole, 10);
    ASSERT_GT(none, 10);
    ASSERT_GT(part, 10);
    teardown(&fix);
}

TEST(a_torn_cut_keeps_the_order_of_a_directory)
{
    unsigned seen[4] = {0};
    for (uint64_t round = 0; round < 200; round++) {
        struct fixture fix;
        setup(&fix);
        rand_init_seed(&fix.rand, round);
        file_close(open_file(&fix, "d/1"));
        file_close(open_file(&fix, "d/2"));
        ASSERT_RC(files_rename(fix.files, "d/1", "d/3", &fix.err), RC_OK);
        file_sim_power_cut(fix.sim, true, &fix.rand);
        bool one = exists(&fix, "d/1");
        bool two = exists(&fix, "d/2");
        bool three = exists(&fix, "d/3");
        ASSERT_FALSE(two && !one && !three);
        ASSERT_FALSE(one && three);
        ASSERT_FALSE(three && !two);
        seen[one + two + 2 * three]++;
        teardown(&fix);
    }
    for (int i = 0; i < 4; i++)
        ASSERT_GT(seen[i], 0);
}

static void *sync_often(void *arg)
{
    struct err err = {0};
    for (int i = 0; i < 2000; i++) {
        enum rc rc = file_sync(arg, &err);
        ASSERT(rc == RC_OK);
    }
    return NULL;
}

TEST(one_thread_may_sync_while_another_writes)
{
    struct fixture fix;
    pthread_t thread;
    setup(&fix);
    struct file *file = open_file(&fix, "d/a");
    pthread_create(&thread, NULL, sync_often, file);
    for (uint64_t i = 0; i < 2000; i++)
        ASSERT_RC(file_write(file, i, BYTES("x"), &fix.err), RC_OK);
    pthread_join(thread, NULL);
    file_close(file);
    teardown(&fix);
}

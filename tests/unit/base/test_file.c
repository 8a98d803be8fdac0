// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_sim.h"
#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

/* Most claims hold for both backends and are checked for both. */
struct fixture {
    struct files *files;
    struct file_sim *sim; /* NULL: the real one */
    char dir[256];
    char path[2][300];
    struct err err;
};

static void setup(struct fixture *fix, bool real)
{
    memset(fix, 0, sizeof *fix);
    if (real) {
        fix->files = (struct files *)&files_real;
        snprintf(fix->dir, sizeof fix->dir, "%s", test_temp_dir());
    } else {
        fix->sim = file_sim_new();
        fix->files = file_sim_files(fix->sim);
        snprintf(fix->dir, sizeof fix->dir, "/d");
        ASSERT_RC(files_make_dir(fix->files, "/d", &fix->err), RC_OK);
    }
    snprintf(fix->path[0], sizeof fix->path[0], "%s/a", fix->dir);
    snprintf(fix->path[1], sizeof fix->path[1], "%s/b", fix->dir);
}

static void teardown(struct fixture *fix)
{
    file_sim_free(fix->sim);
}

static struct file *open_new(struct fixture *fix, const char *path)
{
    struct file *file = NULL;
    unsigned flags = FILE_READ | FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE;
    ASSERT_OK(file_open(fix->files, path, flags, &file, &fix->err), &fix->err);
    return file;
}

static void put(struct fixture *fix, const char *path, struct bytes content)
{
    struct file *file = open_new(fix, path);
    ASSERT_OK(file_write(file, 0, content, &fix->err), &fix->err);
    file_close(file);
}

static void assert_content(struct fixture *fix, const char *path, struct bytes expected)
{
    struct buf buf;
    buf_init(&buf, 1 << 20);
    ASSERT_OK(files_read_all(fix->files, path, &buf, &fix->err), &fix->err);
    ASSERT_BYTES(buf_bytes(&buf), expected);
    buf_done(&buf);
}

static void check_write_and_read(bool real)
{
    struct fixture fix;
    setup(&fix, real);
    struct file *file = open_new(&fix, fix.path[0]);
    struct iovec iov[] = {{"abc", 3}, {NULL, 0}, {"defg", 4}, {"", 0}};
    uint8_t read[20];
    size_t len = 0;
    uint64_t size = 0;
    ASSERT_OK(file_writev(file, 2, iov, 4, &fix.err), &fix.err);
    ASSERT_OK(file_writev(file, 2, iov, 0, &fix.err), &fix.err);
    ASSERT_OK(file_read(file, 0, read, sizeof read, &len, &fix.err), &fix.err);
    ASSERT_BYTES(bytes_of(read, len), BYTES("\0\0abcdefg"));
    ASSERT_OK(file_read(file, 8, read, 1, &len, &fix.err), &fix.err);
    ASSERT_BYTES(bytes_of(read, len), BYTES("g"));
    ASSERT_OK(file_read(file, 9, read, 1, &len, &fix.err), &fix.err);
    ASSERT_EQ(len, 0);
    ASSERT_OK(file_read(file, 1000, read, 1, &len, &fix.err), &fix.err);
    ASSERT_EQ(len, 0);
    ASSERT_OK(file_size(file, &size, &fix.err), &fix.err);
    ASSERT_EQ(size, 9);
    ASSERT_OK(file_allocate(file, 100000, &fix.err), &fix.err);
    ASSERT_OK(file_size(file, &size, &fix.err), &fix.err);
    ASSERT_EQ(size, 9);
    ASSERT_OK(file_truncate(file, 3, &fix.err), &fix.err);
    ASSERT_OK(file_truncate(file, 5, &fix.err), &fix.err);
    ASSERT_OK(file_sync(file, &fix.err), &fix.err);
    file_close(file);
    file_close(NULL);
    assert_content(&fix, fix.path[0], BYTES("\0\0a\0\0"));
    teardown(&fix);
}

TEST(what_is_written_is_read)
{
    check_write_and_read(true);
    check_write_and_read(false);
}

static void check_codes(bool real)
{
    struct fixture fix;
    struct file *file = NULL;
    uint64_t bytes;
    setup(&fix, real);
    ASSERT_RC(file_open(fix.files, fix.path[0], FILE_READ, &file, &fix.err), RC_NOT_FOUND);
    ASSERT_TRUE(strstr(fix.err.text, fix.path[0]));
    ASSERT_FALSE(file);
    ASSERT_RC(files_remove(fix.files, fix.path[0], &fix.err), RC_NOT_FOUND);
    ASSERT_RC(files_rename(fix.files, fix.path[0], fix.path[1], &fix.err), RC_NOT_FOUND);
    ASSERT_RC(files_link(fix.files, fix.path[0], fix.path[1], NULL), RC_NOT_FOUND);
    put(&fix, fix.path[0], BYTES("x"));
    put(&fix, fix.path[1], BYTES("y"));
    ASSERT_RC(files_link(fix.files, fix.path[0], fix.path[1], &fix.err), RC_BUSY);
    ASSERT_RC(file_open(fix.files, fix.path[0], FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &file,
                        &fix.err),
              RC_BUSY);
    ASSERT_RC(files_make_dir(fix.files, fix.path[0], &fix.err), RC_IO);
    ASSERT_RC(files_make_dir(fix.files, fix.dir, &fix.err), RC_OK);
    ASSERT_RC(files_remove(fix.files, fix.dir, &fix.err), RC_IO);
    ASSERT_RC(files_free_bytes(fix.files, fix.dir, &bytes, &fix.err), RC_OK);
    ASSERT_TRUE(bytes > 0);
    ASSERT_RC(files_sync_dir(fix.files, "/nowhere/at/all", &fix.err), RC_NOT_FOUND);
    teardown(&fix);
}

TEST(errors_have_their_codes_and_name_the_path)
{
    check_codes(true);
    check_codes(false);
}

static void check_names(bool real)
{
    struct fixture fix;
    setup(&fix, real);
    put(&fix, fix.path[0], BYTES("one"));
    ASSERT_OK(files_link(fix.files, fix.path[0], fix.path[1], &fix.err), &fix.err);
    assert_content(&fix, fix.path[1], BYTES("one"));
    ASSERT_OK(files_remove(fix.files, fix.path[0], &fix.err), &fix.err);
    assert_content(&fix, fix.path[1], BYTES("one"));
    put(&fix, fix.path[0], BYTES("two"));
    ASSERT_OK(files_rename(fix.files, fix.path[0], fix.path[1], &fix.err), &fix.err);
    assert_content(&fix, fix.path[1], BYTES("two"));
    struct file *file = NULL;
    ASSERT_RC(file_open(fix.files, fix.path[0], FILE_READ, &file, &fix.err), RC_NOT_FOUND);
    ASSERT_OK(file_open(fix.files, fix.path[1], FILE_WRITE | FILE_TRUNCATE, &file, &fix.err),
              &fix.err);
    file_close(file);
    assert_content(&fix, fix.path[1], BYTES(""));
    teardown(&fix);
}

TEST(names_are_linked_renamed_and_removed)
{
    check_names(true);
    check_names(false);
}

static enum rc collect(const char *name, void *arg, struct err *err)
{
    struct buf *names = arg;
    if (!buf_printf(names, "%s ", name))
        return err_set(err, RC_TOO_BIG, "enough");
    return RC_OK;
}

static void check_list(bool real)
{
    struct fixture fix;
    struct buf names;
    char path[300];
    setup(&fix, real);
    const char *const name[] = {"z", "B", "a", "a-b", "sub"};
    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        snprintf(path, sizeof path, "%s/%s", fix.dir, name[i]);
        if (strcmp(name[i], "sub") == 0)
            ASSERT_OK(files_make_dir(fix.files, path, &fix.err), &fix.err);
        else
            put(&fix, path, BYTES(""));
    }
    snprintf(path, sizeof path, "%s/sub/deep", fix.dir);
    put(&fix, path, BYTES(""));
    buf_init(&names, 15);
    ASSERT_RC(files_list(fix.files, fix.dir, collect, &names, &fix.err), RC_OK);
    ASSERT_BYTES(buf_bytes(&names), BYTES("B a a-b sub z "));
    ASSERT_RC(files_list(fix.files, fix.dir, collect, &names, &fix.err), RC_TOO_BIG);
    ASSERT_STR(fix.err.text, "enough");
    ASSERT_RC(files_list(fix.files, "/nowhere/at/all", collect, &names, &fix.err), RC_NOT_FOUND);
    buf_done(&names);
    teardown(&fix);
}

TEST(a_listing_is_in_byte_order_and_ends_at_the_first_error)
{
    check_list(true);
    check_list(false);
}

static void check_lock(bool real)
{
    struct fixture fix;
    struct file *second = NULL;
    setup(&fix, real);
    struct file *first = open_new(&fix, fix.path[0]);
    ASSERT_OK(file_open(fix.files, fix.path[0], FILE_WRITE, &second, &fix.err), &fix.err);
    ASSERT_RC(file_lock(first, &fix.err), RC_OK);
    ASSERT_RC(file_lock(first, &fix.err), RC_OK);
    ASSERT_RC(file_lock(second, &fix.err), RC_BUSY);
    file_close(first);
    ASSERT_RC(file_lock(second, &fix.err), RC_OK);
    file_close(second);
    teardown(&fix);
}

TEST(a_lock_keeps_others_out_until_it_is_closed)
{
    check_lock(true);
    check_lock(false);
}

static void check_whole(bool real)
{
    struct fixture fix;
    struct buf buf;
    setup(&fix, real);
    ASSERT_OK(files_replace(fix.files, fix.path[0], BYTES("first"), &fix.err), &fix.err);
    ASSERT_OK(files_replace(fix.files, fix.path[0], BYTES("second one"), &fix.err), &fix.err);
    assert_content(&fix, fix.path[0], BYTES("second one"));
    buf_init(&buf, 9);
    ASSERT_RC(files_read_all(fix.files, fix.path[0], &buf, &fix.err), RC_TOO_BIG);
    ASSERT_EQ(buf.len, 0);
    ASSERT_RC(files_read_all(fix.files, fix.path[1], &buf, &fix.err), RC_NOT_FOUND);
    buf_done(&buf);
    char path[PATH_MAX + 10];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    ASSERT_RC(files_replace(fix.files, path, BYTES(""), &fix.err), RC_TOO_BIG);
    teardown(&fix);
}

TEST(whole_files_are_replaced_and_read_up_to_a_limit)
{
    check_whole(true);
    check_whole(false);
}

TEST(more_pieces_than_one_call_takes_are_all_written)
{
    struct fixture fix;
    enum { COUNT = 2 * IOV_MAX + 77 };
    setup(&fix, true);
    uint8_t *data = mem_alloc(3 * COUNT);
    struct iovec *iov = mem_alloc(COUNT * sizeof *iov);
    for (int i = 0; i < 3 * COUNT; i++)
        data[i] = (uint8_t)(i * 31);
    for (int i = 0; i < COUNT; i++)
        iov[i] = (struct iovec){data + 3 * (ptrdiff_t)i, 3};
    struct file *file = open_new(&fix, fix.path[0]);
    ASSERT_OK(file_writev(file, 0, iov, COUNT, &fix.err), &fix.err);
    file_close(file);
    assert_content(&fix, fix.path[0], bytes_of(data, 3 * COUNT));
    mem_free(data);
    mem_free(iov);
}

/* A limit on file sizes is the way to a short write that works everywhere. */
TEST(a_short_write_is_continued_and_then_fails_with_a_text)
{
    struct fixture fix;
    struct rlimit before;
    setup(&fix, true);
    struct file *file = open_new(&fix, fix.path[0]);
    struct iovec iov[] = {{"abcd", 4}, {"efgh", 4}, {"ijkl", 4}};
    getrlimit(RLIMIT_FSIZE, &before);
    struct rlimit limit = {6, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    enum rc rc = file_writev(file, 0, iov, 3, &fix.err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    ASSERT_RC(rc, RC_IO);
    ASSERT_TRUE(strstr(fix.err.text, strerror(EFBIG)));
    ASSERT_STR(fix.err.text + strlen(fix.err.text) - strlen(strerror(EFBIG)), strerror(EFBIG));
    file_close(file);
    assert_content(&fix, fix.path[0], BYTES("abcdef"));
}

TEST(a_full_disk_is_told_from_a_broken_one)
{
    struct fixture fix;
    struct file *file = NULL;
    if (access("/dev/full", W_OK) != 0)
        return;
    setup(&fix, true);
    ASSERT_OK(file_open(fix.files, "/dev/full", FILE_WRITE, &file, &fix.err), &fix.err);
    ASSERT_RC(file_write(file, 0, BYTES("x"), &fix.err), RC_FULL);
    file_close(file);
}

TEST(a_file_opened_for_reading_cannot_be_written)
{
    for (int real = 0; real < 2; real++) {
        struct fixture fix;
        struct file *file = NULL;
        setup(&fix, real);
        put(&fix, fix.path[0], BYTES("x"));
        ASSERT_OK(file_open(fix.files, fix.path[0], FILE_READ, &file, &fix.err), &fix.err);
        ASSERT_RC(file_write(file, 0, BYTES("y"), &fix.err), RC_IO);
        file_close(file);
        assert_content(&fix, fix.path[0], BYTES("x"));
        teardown(&fix);
    }
}

TEST(flags_that_contradict_each_other_are_a_mistake)
{
    struct file *file = NULL;
    struct files *files = (struct files *)&files_real;
    ASSERT_ABORTS((void)!file_open(files, "/nowhere", 0, &file, NULL));
    ASSERT_ABORTS((void)!file_open(files, "/nowhere", FILE_READ | FILE_CREATE, &file, NULL));
    ASSERT_ABORTS((void)!file_open(files, "/nowhere", FILE_WRITE | FILE_EXCLUSIVE, &file, NULL));
}

TEST(path_join_puts_a_slash_between_and_refuses_what_has_no_room)
{
    struct err err = {0};
    char path[PATH_BYTES_MAX], long_name[PATH_BYTES_MAX];
    ASSERT_OK(path_join(path, "/data", "LOCK", &err), &err);
    ASSERT_STR(path, "/data/LOCK");
    memset(long_name, 'x', sizeof long_name);
    long_name[PATH_BYTES_MAX - 3] = 0; /* with "d/" and its end it fills the room */
    ASSERT_OK(path_join(path, "d", long_name, &err), &err);
    ASSERT_EQ(strlen(path), PATH_BYTES_MAX - 1);
    ASSERT_RC(path_join(path, "dd", long_name, &err), RC_TOO_BIG);
}

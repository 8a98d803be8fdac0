// SPDX-License-Identifier: Apache-2.0
/* test_real.c - directories on a real disk, with RocksDB: something is in the way, rights are
 * missing, another process has it. A clear error, and a way on when the cause has gone. */
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/store.h"
#include "store/turns.h"
#include "support_child.h"
#include "test.h"

#include "base/banned.h"

enum { DATA = 1, NOBODY = 65534 };

static const struct store_space spaces[] = {
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
};

struct job {
    char dir[256];
    enum rc rc;           /* what opening has to answer */
    const char *texts[3]; /* what its text has to hold */
    uid_t uid;            /* 0: as it is */
    int ready_fd, end_fd; /* -1: close at once; else tell, and wait for the other end to go */
};

static enum rc open_here(const char *dir, struct store **ret_store, struct err *err)
{
    struct store_options options = {.dir = dir,
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .hot_memory_bytes = 8 << 20,
                                    .disk_reserve_bytes = 0};
    return store_open(&options, ret_store, err);
}

/* One row more; those before are there. */
static void row_add(struct store *store)
{
    struct err err = {0};
    uint32_t prefix, counter;
    struct bytes value;
    child_require(store_prefix(store, DATA, BYTES("p"), &prefix, &err) == RC_OK, "%s", err.text);
    child_require(store_counter(store, BYTES("rows"), &counter, &err) == RC_OK, "%s", err.text);
    int64_t count = store_counter_get(store, counter);
    struct store_group group = {prefix, BYTES("g")};
    store_begin(store, 0);
    for (int64_t i = 0; i < count; i++) {
        enum rc rc = store_get(store, group, bytes_of(&i, sizeof i), &value, &err);
        child_require(rc == RC_OK || rc == RC_COLD, "row %lld of %lld: %s", (long long)i,
                      (long long)count, rc_name(rc));
    }
    child_require(store_put(store, group, bytes_of(&count, sizeof count), BYTES("v"), &err) ==
                      RC_OK,
                  "%s", err.text);
    child_require(store_counter_add(store, counter, 1, &err) == RC_OK, "%s", err.text);
    store_commit(store);
    child_require(store_write(store, &err) == RC_OK, "%s", err.text);
}

static void open_job(void *arg)
{
    struct job *job = arg;
    struct store *store = NULL;
    struct err err = {0};
    if (job->uid)
        child_require(setuid(job->uid) == 0, "could not become user %u", (unsigned)job->uid);
    enum rc rc = open_here(job->dir, &store, &err);
    child_require(rc == job->rc, "%s, not %s: %s", rc_name(rc), rc_name(job->rc), err.text);
    for (size_t i = 0; rc != RC_OK && i < ARRAY_LEN(job->texts) && job->texts[i]; i++)
        child_require(strstr(err.text, job->texts[i]), "no \"%s\" in: %s", job->texts[i], err.text);
    if (rc != RC_OK)
        return;
    row_add(store);
    if (job->ready_fd >= 0) {
        char byte = 'r';
        child_require(write(job->ready_fd, &byte, 1) == 1, "could not tell");
        ssize_t got = read(job->end_fd, &byte, 1); /* until the parent closes it */
        (void)got;
    }
    child_require(store_close(store, &err) == RC_OK, "%s", err.text);
}

static struct job job_at(const char *dir)
{
    struct job job = {.rc = RC_OK, .ready_fd = -1, .end_fd = -1};
    snprintf(job.dir, sizeof job.dir, "%s/db", dir);
    return job;
}

static void file_make(const char *path)
{
    FILE *file = fopen(path, "w");
    ASSERT_TRUE(file);
    fputs("in the way", file);
    fclose(file);
}

TEST(a_file_in_the_place_of_a_directory_is_named)
{
    static const char *const parts[] = {"", "/journal", "/engine", "/flush"};
    const char *top = test_temp_dir();
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char path[512];
        struct job job = job_at(top);
        snprintf(job.dir, sizeof job.dir, "%s/db%zu", top, i);
        if (i > 0)
            ASSERT_EQ(mkdir(job.dir, 0755), 0);
        snprintf(path, sizeof path, "%s%s", job.dir, parts[i]);
        file_make(path);
        job.rc = RC_IO;
        job.texts[0] = path;
        child_run(open_job, &job);
        ASSERT_EQ(unlink(path), 0);
        job.rc = RC_OK;
        child_run(open_job, &job);
        child_run(open_job, &job);
    }
}

TEST(a_directory_in_the_place_of_a_file_is_named)
{
    static const char *const parts[] = {"/LOCK", "/TERRACE"};
    const char *top = test_temp_dir();
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char path[512];
        struct job job = job_at(top);
        snprintf(job.dir, sizeof job.dir, "%s/db%zu", top, i);
        ASSERT_EQ(mkdir(job.dir, 0755), 0);
        snprintf(path, sizeof path, "%s%s", job.dir, parts[i]);
        ASSERT_EQ(mkdir(path, 0755), 0);
        job.rc = RC_IO;
        job.texts[0] = path;
        child_run(open_job, &job);
        ASSERT_EQ(rmdir(path), 0);
        job.rc = RC_OK;
        child_run(open_job, &job);
    }
}

static int to_nobody(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return chown(path, NOBODY, NOBODY);
}

/* Root may do everything, so the child becomes somebody who may not. */
TEST(missing_rights_are_named)
{
    static const char *const parts[] = {"", "/journal", "/engine", "/LOCK", "/TERRACE"};
    const char *top = test_temp_dir();
    bool is_root = geteuid() == 0;
    struct job job = job_at(top);
    ASSERT_EQ(chmod(top, 0755), 0);
    child_run(open_job, &job);
    if (is_root)
        ASSERT_EQ(nftw(job.dir, to_nobody, 16, FTW_PHYS), 0);
    job.uid = is_root ? NOBODY : 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char path[512];
        struct stat before;
        snprintf(path, sizeof path, "%s%s", job.dir, parts[i]);
        ASSERT_EQ(stat(path, &before), 0);
        ASSERT_EQ(chown(path, geteuid(), getegid()), 0);
        ASSERT_EQ(chmod(path, 0), 0);
        job.rc = RC_IO;
        job.texts[0] = path;
        job.texts[1] = "ermission denied";
        child_run(open_job, &job);
        ASSERT_EQ(chmod(path, before.st_mode & 0777), 0);
        ASSERT_EQ(chown(path, before.st_uid, before.st_gid), 0);
        job.rc = RC_OK;
        child_run(open_job, &job); /* nothing was harmed */
    }
}

TEST(a_directory_in_use_is_refused_until_the_other_process_has_gone)
{
    struct job job = job_at(test_temp_dir());
    for (int round = 0; round < 2; round++) {
        int ready[2], end[2];
        char byte;
        ASSERT_EQ(pipe(ready), 0);
        ASSERT_EQ(pipe(end), 0);
        struct job holder = job;
        holder.ready_fd = ready[1];
        holder.end_fd = end[0];
        pid_t pid = child_start(open_job, &holder);
        close(ready[1]); /* if the child ends early, the read ends too */
        ASSERT_EQ(read(ready[0], &byte, 1), 1);
        job.rc = RC_BUSY;
        job.texts[0] = job.dir;
        job.texts[1] = "in use";
        child_run(open_job, &job);
        child_kill(pid); /* a lock does not outlive its process */
        job.rc = RC_OK;
        child_run(open_job, &job);
        close(ready[0]);
        close(end[0]);
        close(end[1]);
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "models/tile/lmdb_check.h"

#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

enum { KEYS = 600, VALUE_BYTES_MAX = 9000 };

struct fix {
    char path[PATH_BYTES_MAX];
    char cut_path[PATH_BYTES_MAX];
    struct rand rand;
};

static void fix_init(struct fix *fix, uint64_t seed)
{
    const char *dir = test_temp_dir();
    snprintf(fix->path, sizeof fix->path, "%s/whole", dir);
    snprintf(fix->cut_path, sizeof fix->cut_path, "%s/cut", dir);
    rand_init_seed(&fix->rand, seed);
}

static MDB_env *env_open(const char *path, MDB_dbi *ret_dbi, MDB_txn **ret_txn)
{
    MDB_env *env;
    ASSERT_EQ(mdb_env_create(&env), 0);
    ASSERT_EQ(mdb_env_set_maxdbs(env, 4), 0);
    ASSERT_EQ(mdb_env_set_mapsize(env, 64 << 20), 0);
    ASSERT_EQ(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC, 0644), 0);
    ASSERT_EQ(mdb_txn_begin(env, NULL, 0, ret_txn), 0);
    ASSERT_EQ(mdb_dbi_open(*ret_txn, "tiles", MDB_CREATE, ret_dbi), 0);
    return env;
}

/* Puts and removes keys with values of all sizes: pages are split, merged, freed and used again. */
static void changes_make(struct fix *fix, size_t count)
{
    MDB_dbi dbi;
    MDB_txn *txn;
    MDB_env *env = env_open(fix->path, &dbi, &txn);
    uint8_t *data = mem_alloc(VALUE_BYTES_MAX);
    memset(data, 7, VALUE_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = rand_below(&fix->rand, KEYS);
        MDB_val key = {.mv_size = sizeof number, .mv_data = &number};
        MDB_val value = {.mv_size = rand_below(&fix->rand, VALUE_BYTES_MAX), .mv_data = data};
        int code = rand_below(&fix->rand, 3) ? mdb_put(txn, dbi, &key, &value, 0)
                                             : mdb_del(txn, dbi, &key, NULL);
        ASSERT_TRUE(code == 0 || code == MDB_NOTFOUND);
    }
    ASSERT_EQ(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    mem_free(data);
}

static bool is_damaged(const char *path, enum lmdb_check_for what)
{
    struct lmdb_check_options options = {.what = what, .table = BYTES("tiles")};
    struct err err = {0};
    bool damaged = false;
    uint8_t txn[2][8];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ASSERT_TRUE(fd >= 0);
    for (int i = 0; i < 2; i++)
        if (pread(fd, txn[i], 8, (off_t)4096 * i + 16 + 128) != 8)
            memset(txn[i], 0, 8);
    options.txn = le64_get(txn[0]) > le64_get(txn[1]) ? le64_get(txn[0]) : le64_get(txn[1]);
    enum rc rc = lmdb_check(fd, &options, &damaged, &err);
    ASSERT_TRUE(rc == RC_OK || rc == RC_NOT_FOUND);
    close(fd);
    return damaged;
}

/* A healthy shard must never be set aside. */
TEST(no_file_that_lmdb_wrote_is_called_damaged)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct fix fix;
        fix_init(&fix, seed);
        for (int commit = 0; commit < 12; commit++) {
            changes_make(&fix, 1 + rand_below(&fix.rand, 300));
            ASSERT_FALSE(is_damaged(fix.path, LMDB_CHECK_OPEN));
            ASSERT_FALSE(is_damaged(fix.path, LMDB_CHECK_READ));
            ASSERT_FALSE(is_damaged(fix.path, LMDB_CHECK_WRITE));
        }
    }
}

/* A file that the check lets through can be read to its end: no SIGBUS. */
TEST(a_file_that_was_cut_short_is_damaged_or_can_be_read)
{
    struct fix fix;
    CLEANUP(buf_done) struct buf whole;
    struct err err = {0};
    size_t damaged_count = 0;
    fix_init(&fix, 3);
    for (int commit = 0; commit < 4; commit++)
        changes_make(&fix, 200);
    buf_init(&whole, 1 << 26);
    ASSERT_OK(files_read_all((struct files *)&files_real, fix.path, &whole, &err), &err);
    for (size_t len = 0; len < whole.len; len += 1 + rand_below(&fix.rand, 20000)) {
        MDB_dbi dbi;
        MDB_txn *txn;
        MDB_cursor *cursor;
        MDB_val key, value;
        struct bytes part = bytes_of(whole.ptr, len);
        ASSERT_OK(files_replace((struct files *)&files_real, fix.cut_path, part, &err), &err);
        if (len == 0 || is_damaged(fix.cut_path, LMDB_CHECK_READ)) {
            damaged_count++;
            continue;
        }
        MDB_env *env = env_open(fix.cut_path, &dbi, &txn);
        ASSERT_EQ(mdb_cursor_open(txn, dbi, &cursor), 0);
        unsigned sum = 0;
        while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0)
            for (size_t i = 0; i < value.mv_size; i++)
                sum += ((const uint8_t *)value.mv_data)[i];
        ASSERT_TRUE(sum > 0);
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
        mdb_env_close(env);
    }
    ASSERT_GT(damaged_count, 10);
}

TEST(another_kind_of_file_is_damaged)
{
    struct fix fix;
    struct err err = {0};
    fix_init(&fix, 1);
    ASSERT_OK(files_replace((struct files *)&files_real, fix.path,
                            BYTES("SQLite format 3\0 and more of it"), &err),
              &err);
    ASSERT_TRUE(is_damaged(fix.path, LMDB_CHECK_OPEN));
}

// SPDX-License-Identifier: Apache-2.0
/* test_restore.c - directories on a real disk with RocksDB: what inspect, repair and restore stand
 * on. */
#include "store/restore.h"

#include <stdio.h>

#include "store/store.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

enum { META = 1, ROWS = 200 };

static const struct store_space spaces[] = {{.number = META, .kind = SPACE_WHOLE, .name = "meta"}};

struct fix {
    struct files *files;
    struct rand rand;
    char data[256], backup[256], copy[256];
    struct err err;
};

static void fix_init(struct fix *fix)
{
    const char *dir = test_temp_dir();
    *fix = (struct fix){.files = (struct files *)(uintptr_t)&files_real};
    rand_init_seed(&fix->rand, 7);
    snprintf(fix->data, sizeof fix->data, "%s/data", dir);
    snprintf(fix->backup, sizeof fix->backup, "%s/backup", dir);
    snprintf(fix->copy, sizeof fix->copy, "%s/copy", dir);
}

static struct store *store_of(struct fix *fix, const char *dir, uint32_t *ret_prefix)
{
    struct store *store = NULL;
    struct store_options options = {.dir = dir,
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .disk_reserve_bytes = 0,
                                    .durability = DURABILITY_ALWAYS,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &store, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(store, META, BYTES("p"), ret_prefix, &fix->err), &fix->err);
    return store;
}

/* The threads' work. */
static void steps(struct store *store)
{
    store_step(store, STORE_STEP_JOURNAL);
    store_step(store, STORE_STEP_FLUSH);
    store_poll(store);
}

/* Every tenth row waits for the disk, so that later frames know what was synced before. */
static void rows_write(struct fix *fix, struct store *store, uint32_t prefix, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "k%d", i);
        store_begin(store, 0);
        ASSERT_OK(store_put(store, (struct store_group){prefix, bytes_of(key, (size_t)len)},
                            BYTES(""), BYTES("value"), &fix->err),
                  &fix->err);
        store_commit(store);
        ASSERT_OK(store_write(store, &fix->err), &fix->err);
        while (i % 10 == 0 && store_durable_lsn(store) < store_commit_lsn(store))
            steps(store);
        store_poll(store);
    }
}

/* Half of the rows in the engine, half in the journal. */
static void data_make(struct fix *fix)
{
    uint32_t prefix;
    struct store *store = store_of(fix, fix->data, &prefix);
    rows_write(fix, store, prefix, 0, ROWS / 2);
    uint64_t segment = store_flush_ask(store);
    while (store_flush_mark(store) < segment) {
        steps(store);
    }
    rows_write(fix, store, prefix, ROWS / 2, ROWS);
    struct store_freeze *backup;
    struct engine_view *view;
    uint64_t lsn;
    ASSERT_OK(store_backup_start(store, fix->backup, &backup, &fix->err), &fix->err);
    enum rc rc;
    while ((rc = store_freeze_ready(backup, &view, &lsn, &fix->err)) == RC_WAIT) {
        steps(store);
    }
    ASSERT_OK(rc, &fix->err);
    store_freeze_end(store, backup);
    ASSERT_OK(store_close(store, &fix->err), &fix->err);
}

static enum rc restore(struct fix *fix, struct store_restore_result *result)
{
    return store_restore(&(struct store_restore_options){.files = fix->files,
                                                         .engine = &engine_rocksdb_ops,
                                                         .rand = &fix->rand,
                                                         .from = fix->backup,
                                                         .to = fix->copy},
                         result, &fix->err);
}

static bool exists(struct fix *fix, const char *dir)
{
    uint64_t bytes;
    struct err ignored = {0};
    return files_free_bytes(fix->files, dir, &bytes, &ignored) == RC_OK;
}

/* The file of the first segment of a directory. */
static enum rc first_name(const char *name, void *arg, struct err *err)
{
    char *to = arg;
    (void)err;
    if (to[0] == 0)
        snprintf(to, 64, "%s", name);
    return RC_OK;
}

static void segment_flip(struct fix *fix, const char *dir)
{
    CLEANUP(file_closep) struct file *file = NULL;
    char journal[300], path[400], name[64] = "";
    uint64_t size;
    uint8_t byte;
    size_t got;
    snprintf(journal, sizeof journal, "%s/journal", dir);
    ASSERT_OK(files_list(fix->files, journal, first_name, name, &fix->err), &fix->err);
    snprintf(path, sizeof path, "%s/%s", journal, name);
    ASSERT_OK(file_open(fix->files, path, FILE_READ | FILE_WRITE, &file, &fix->err), &fix->err);
    ASSERT_OK(file_size(file, &size, &fix->err), &fix->err);
    ASSERT_OK(file_read(file, size / 2, &byte, 1, &got, &fix->err), &fix->err);
    byte ^= 1;
    ASSERT_OK(file_write(file, size / 2, bytes_of(&byte, 1), &fix->err), &fix->err);
}

TEST(a_backup_is_restored_whole_with_a_new_incarnation)
{
    struct fix fix;
    struct store_restore_result result;
    struct bytes value;
    uint32_t prefix;
    fix_init(&fix);
    data_make(&fix);
    ASSERT_OK(restore(&fix, &result), &fix.err);
    ASSERT_EQ(result.turn_count, ROWS / 2);
    ASSERT_GE(result.row_count, ROWS / 2);
    ASSERT_RC(restore(&fix, &result), RC_BUSY);

    struct store *old = store_of(&fix, fix.data, &prefix);
    uint64_t old_lsn = store_last_lsn(old);
    uint32_t old_incarnation = store_incarnation(old);
    ASSERT_OK(store_close(old, &fix.err), &fix.err);
    struct store *store = store_of(&fix, fix.copy, &prefix);
    ASSERT_NE(store_incarnation(store), old_incarnation);
    ASSERT_EQ(store_incarnation(store), result.incarnation);
    ASSERT_GE(store_last_lsn(store), old_lsn);
    store_begin(store, 0);
    ASSERT_OK(
        store_get(store, (struct store_group){prefix, BYTES("k199")}, BYTES(""), &value, &fix.err),
        &fix.err);
    store_undo(store);
    ASSERT_OK(store_close(store, &fix.err), &fix.err);
}

TEST(a_damaged_backup_leaves_nothing_behind)
{
    struct fix fix;
    struct store_restore_result result;
    fix_init(&fix);
    data_make(&fix);
    segment_flip(&fix, fix.backup);
    ASSERT_RC(restore(&fix, &result), RC_CORRUPT);
    ASSERT_TRUE(strstr(fix.err.text, fix.backup) != NULL);
    ASSERT_TRUE(strstr(fix.err.text, fix.copy) == NULL);
    ASSERT_FALSE(exists(&fix, fix.copy));
}

TEST(a_directory_that_is_no_store_is_refused)
{
    struct fix fix;
    struct store_restore_result result;
    struct store_repair_result repaired;
    struct store_dir dir;
    CLEANUP(buf_done) struct buf report;
    buf_init(&report, 4096);
    fix_init(&fix);
    ASSERT_RC(restore(&fix, &result), RC_NOT_FOUND);
    ASSERT_FALSE(exists(&fix, fix.copy));
    ASSERT_RC(store_dir_open(&dir, fix.files, &engine_rocksdb_ops, fix.data, &fix.err),
              RC_NOT_FOUND);
    ASSERT_RC(store_repair(fix.files, &engine_rocksdb_ops, fix.data, &report, &repaired, &fix.err),
              RC_NOT_FOUND);
    ASSERT_FALSE(exists(&fix, fix.data));
}

TEST(a_directory_in_use_is_refused)
{
    struct fix fix;
    struct store_dir dir;
    uint32_t prefix;
    fix_init(&fix);
    struct store *store = store_of(&fix, fix.data, &prefix);
    ASSERT_RC(store_dir_open(&dir, fix.files, &engine_rocksdb_ops, fix.data, &fix.err), RC_BUSY);
    ASSERT_OK(store_close(store, &fix.err), &fix.err);
    ASSERT_OK(store_dir_open(&dir, fix.files, &engine_rocksdb_ops, fix.data, &fix.err), &fix.err);
    ASSERT_FALSE(dir.has_mark);
    store_dir_done(&dir);
}

TEST(a_repair_moves_what_is_damaged_and_the_rest_opens)
{
    struct fix fix;
    struct store_repair_result result;
    uint32_t prefix;
    CLEANUP(buf_done) struct buf report;
    buf_init(&report, 65536);
    fix_init(&fix);
    data_make(&fix);
    segment_flip(&fix, fix.data);
    ASSERT_OK(store_repair(fix.files, &engine_rocksdb_ops, fix.data, &report, &result, &fix.err),
              &fix.err);
    ASSERT_GT(report.len, 0);
    ASSERT_LT(result.turn_count, ROWS / 2);
    ASSERT_GT(result.turn_count, 0);
    struct store *store = store_of(&fix, fix.data, &prefix);
    ASSERT_OK(store_close(store, &fix.err), &fix.err);
}

// SPDX-License-Identifier: Apache-2.0
/* dirs.c - repair, backup, restore: arguments and printing around store/. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/rand.h"
#include "cli/cli.h"
#include "store/restore.h"
#include "store/turns.h"
#include "types/spaces.h"

#include "base/banned.h"

enum { REPORT_BYTES_MAX = 1024 * 1024, BACKUP_STEP_NS = 2 * 1000 * 1000 };

static struct files *files_of_disk(void)
{
    return (struct files *)(uintptr_t)&files_real; /* nothing is written to it */
}

int cli_repair(int argc, char **argv)
{
    struct err err = {0};
    struct store_repair_result result;
    if (argc != 2)
        return cli_fail("usage: terrace repair DIR");
    CLEANUP(buf_done) struct buf report;
    buf_init(&report, REPORT_BYTES_MAX);
    enum rc rc =
        store_repair(files_of_disk(), &engine_rocksdb_ops, argv[1], &report, &result, &err);
    if (report.len > 0)
        fwrite(report.ptr, 1, report.len, stdout);
    if (rc != RC_OK)
        return cli_fail("%s", err.text);
    if (report.len == 0)
        printf("the engine is whole, and nothing had to be moved\n");
    printf("the journal is whole: %" PRIu64 " segments with %" PRIu64
           " turns above the flush mark, last LSN %" PRIu64 "\n",
           result.segment_count, result.turn_count, result.last_lsn);
    if (result.damaged_count > 0)
        return cli_fail("%" PRIu64 " files of the engine are damaged, and commands that need their "
                        "rows answer errors; only a backup has these: terrace restore SRC DEST",
                        result.damaged_count);
    return 0;
}

static enum rc backup_wait(struct store *store, struct store_freeze *backup, uint64_t *ret_lsn,
                           struct err *err)
{
    struct engine_view *view;
    enum rc rc;
    while ((rc = store_freeze_ready(backup, &view, ret_lsn, err)) == RC_WAIT) {
        struct err why;
        if (store_flush_failed(store, &why)) /* nobody knows how long */
            return err_set(err, why.rc, "no backup can be made: %.400s", why.text);
        store_poll(store);
        nanosleep(&(struct timespec){.tv_nsec = BACKUP_STEP_NS}, NULL);
    }
    return rc;
}

static enum rc backup(const char *dir, const char *to, uint64_t *ret_lsn, struct err *err)
{
    struct store_dir look = {0};
    struct store *store = NULL;
    struct store_freeze *freeze = NULL;
    /* Looked at first: opening would make a store of an empty directory. */
    enum rc rc = store_dir_open(&look, files_of_disk(), &engine_rocksdb_ops, dir, err);
    store_dir_done(&look);
    if (rc != RC_OK)
        return rc;
    rc = store_open(&(struct store_options){.dir = dir,
                                            .spaces = types_spaces,
                                            .space_count = TYPES_SPACE_COUNT,
                                            .durability = DURABILITY_EVERYSEC},
                    &store, err);
    if (rc != RC_OK)
        return rc;
    rc = store_backup_start(store, to, &freeze, err);
    if (rc == RC_OK)
        rc = backup_wait(store, freeze, ret_lsn, err);
    store_freeze_end(store, freeze);
    enum rc closed = store_close(store, rc == RC_OK ? err : NULL);
    return rc == RC_OK ? closed : rc;
}

int cli_backup(int argc, char **argv)
{
    struct err err = {0};
    uint64_t lsn;
    if (argc != 3)
        return cli_fail("usage: terrace backup DIR DEST");
    if (backup(argv[1], argv[2], &lsn, &err) != RC_OK)
        return cli_fail("%s", err.text);
    printf("\"%s\" is a backup of \"%s\"; the engine's copy ends at LSN %" PRIu64
           ", the journal follows\n",
           argv[2], argv[1], lsn);
    return 0;
}

int cli_restore(int argc, char **argv)
{
    struct err err = {0};
    struct store_restore_result result;
    struct rand rand;
    if (argc != 3)
        return cli_fail("usage: terrace restore SRC DEST");
    rand_init_os(&rand);
    struct store_restore_options options = {.files = files_of_disk(),
                                            .engine = &engine_rocksdb_ops,
                                            .rand = &rand,
                                            .from = argv[1],
                                            .to = argv[2]};
    if (store_restore(&options, &result, &err) != RC_OK)
        return cli_fail("%s", err.text);
    printf("restored \"%s\" to \"%s\": %" PRIu64 " files, %" PRIu64 " rows in the engine, %" PRIu64
           " segments with %" PRIu64 " turns in the journal; all read and whole\n"
           "last LSN %" PRIu64 ", new incarnation %" PRIu32 "\n",
           argv[1], argv[2], result.file_count, result.row_count, result.segment_count,
           result.turn_count, result.last_lsn, result.incarnation);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* restore.h - directories of stopped stores: looking into them, repairing, restoring a backup.
 *
 * A directory is a store's, or a backup's (the same without LOCK, flush/ and lost/). All of this
 * refuses a directory that another process has open (RC_BUSY).
 *
 * Ownership: store_dir_done() frees; everything in options is borrowed for the call.
 * Threads: one owner. */
#pragma once

#include "store/engine/engine.h"
#include "store/engine/sys.h"
#include "store/rows/catalog.h"

struct store_dir {
    struct files *files;
    struct file *lock; /* NULL: there is no lock file */
    char engine_dir[PATH_BYTES_MAX];
    char journal_dir[PATH_BYTES_MAX];
    struct catalog catalog;
    struct engine *engine; /* read-only */
    bool has_mark;         /* something was flushed */
    struct sys_mark mark;
};

/* Opens for reading; nothing is written, not even by the engine. The struct must not be moved
 * while it is open. RC_NOT_FOUND: no catalogue; RC_CORRUPT, RC_VERSION, RC_BUSY, RC_IO. */
enum rc store_dir_open(struct store_dir *dir, struct files *files, const struct engine_ops *engine,
                       const char *path, struct err *err) NODISCARD;
void store_dir_done(struct store_dir *dir);

struct store_repair_result {
    uint64_t segment_count; /* whole ones above the mark */
    uint64_t turn_count;
    uint64_t last_lsn;
    uint64_t damaged_count; /* files of the engine; nothing but a backup has their rows */
};
/* Verifies the engine, and makes the journal whole again: what is damaged, and all that follows it,
 * is moved to lost/; a line for each thing moved, and for each damaged file of the engine, is added
 * to `report`. */
enum rc store_repair(struct files *files, const struct engine_ops *engine, const char *path,
                     struct buf *report, struct store_repair_result *ret_result,
                     struct err *err) NODISCARD;

struct store_restore_options {
    struct files *files;
    const struct engine_ops *engine;
    struct rand *rand; /* draws the new incarnation */
    const char *from;
    const char *to; /* must not exist */
};
struct store_restore_result {
    uint64_t file_count;
    uint64_t row_count;     /* of the engine, all of them read */
    uint64_t segment_count; /* of the journal */
    uint64_t turn_count;
    uint64_t last_lsn;
    uint32_t incarnation;
};
/* Copies (tables of the engine never change and are linked where possible), reads all of the copy,
 * and gives it a new incarnation. The catalogue is written last: before that `to` is not a store.
 * After an error what was made is removed. */
enum rc store_restore(const struct store_restore_options *options,
                      struct store_restore_result *ret_result, struct err *err) NODISCARD;

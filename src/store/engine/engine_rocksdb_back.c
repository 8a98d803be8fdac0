// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_back.c - goes back by a manifest record whose tables are not there.
 *
 * An ingestion links tables into the database, writes a manifest record that names them and syncs
 * the record. When the sync fails RocksDB removes the tables; the record may be on disk all the
 * same, and the next opening then refuses: a table is missing. Nobody was told that the unit is
 * there, and its segments are still in the journal. So the database is opened as it was before the
 * record, which is the last one of its manifest: after such an error RocksDB writes a new manifest.
 *
 * A table may also be missing because a disk has lost it. Then going back leads to an older state,
 * whose mark does not fit the journal. So that state is first opened for reading, which writes
 * nothing, and whoever opened the engine is asked whether it fits. What the database was before is
 * kept beside it, as links in DIR.before: RocksDB removes tables that no record names. */
#include <stdio.h>

#include "base/file.h"
#include "store/engine/engine_rocksdb_int.h"

#include "base/banned.h"

#define MISSING_TEXT "No such file or directory" /* what RocksDB's status says of a missing table */

bool rocks__misses_a_table(const struct rocks *rocks, enum rc rc, const struct err *err)
{
    return rc == RC_CORRUPT && !rocks->read_only && err && strstr(err->text, MISSING_TEXT);
}

#define SCALE_MAX UINT64_C(1000000000000000000)

struct keeping {
    struct files *files;
    const char *from, *to;
};

static enum rc file_keep(const char *name, void *arg, struct err *err)
{
    const struct keeping *keeping = arg;
    char from[PATH_BYTES_MAX], to[PATH_BYTES_MAX];
    enum rc rc = path_join(from, keeping->from, name, err);
    if (rc == RC_OK)
        rc = path_join(to, keeping->to, name, err);
    if (rc == RC_OK)
        rc = files_link(keeping->files, from, to, err);
    return rc == RC_BUSY ? RC_OK : rc; /* it is kept already */
}

/* What was kept before is of an opening that went well since, or of this one, interrupted. */
static enum rc all_keep(const struct rocks *rocks, struct err *err)
{
    struct files *files = (struct files *)(uintptr_t)&files_real;
    char dir[PATH_BYTES_MAX];
    if (snprintf(dir, sizeof dir, "%s.before", rocks->dir) >= PATH_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "the path of \"%s\" is too long", rocks->dir);
    struct keeping keeping = {files, rocks->dir, dir};
    enum rc rc = files_make_dir(files, dir, err);
    if (rc == RC_OK)
        rc = files_list(files, rocks->dir, file_keep, &keeping, err);
    return rc == RC_OK ? files_sync_dir(files, dir, err) : rc;
}

static enum rc options_new(const struct rocks *rocks, rocksdb_options_t **ret_options,
                           struct err *err)
{
    char *status = NULL;
    *ret_options = rocksdb_options_create();
    rocksdb_get_options_from_string(rocks->options, "best_efforts_recovery=true", *ret_options,
                                    &status);
    enum rc rc = rocks__status_take(status, "set an option of the engine", err);
    if (rc != RC_OK)
        rocksdb_options_destroy(*ret_options);
    return rc;
}

static enum rc before_look(const struct rocks *rocks, struct err *err)
{
    struct engine *before = NULL;
    rocksdb_options_t *options = NULL;
    if (!rocks->back_fits)
        return err_set(err, RC_CORRUPT, "nobody knows what it held");
    enum rc rc = options_new(rocks, &options, err);
    if (rc == RC_OK)
        rc = rocks__open_before(rocks, options, &before, err); /* takes */
    if (rc != RC_OK)
        return rc;
    rc = rocks->back_fits(rocks->back_arg, before, err);
    before->ops->close(before);
    return rc;
}

static enum rc before_take(const struct rocks *rocks, struct err *err)
{
    char *status = NULL;
    rocksdb_options_t *options = NULL;
    enum rc rc = options_new(rocks, &options, err);
    if (rc != RC_OK)
        return rc;
    rocksdb_t *db = rocksdb_open(options, rocks->dir, &status);
    rc = rocks__status_take(status, "open the engine as it was before its last change", err);
    if (db)
        rocksdb_close(db);
    rocksdb_options_destroy(options);
    return rc;
}

/* The number of the table that RocksDB's text names, by the second of the two names it tries. */
static uint64_t missing_number(const struct err *err)
{
    const char *dot = strstr(err->text, ".ldb");
    uint64_t number = 0, scale = 1;
    while (dot && --dot > err->text && *dot >= '0' && *dot <= '9' && scale < SCALE_MAX) {
        number += scale * (uint64_t)(*dot - '0');
        scale *= 10;
    }
    return number;
}

enum rc rocks__go_back(struct rocks *rocks, struct err *err)
{
    struct err why = {0};
    enum rc rc = before_look(rocks, &why);
    if (rc != RC_OK) {
        uint64_t number = missing_number(err);
        return err_set(err, RC_CORRUPT,
                       "%s/%06llu.sst is missing, and nothing was changed: put it back or restore "
                       "a backup; it is not what a failed flush leaves, because %s",
                       rocks->dir, (unsigned long long)number, why.text);
    }
    rc = all_keep(rocks, err);
    if (rc == RC_OK)
        rc = before_take(rocks, err);
    rocks->back_count += rc == RC_OK;
    return rc;
}

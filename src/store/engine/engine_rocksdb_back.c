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
 * whose mark does not fit the journal, and the store refuses it (recover.c, flush.c). What the
 * database was before is kept beside it, as links in DIR.before: RocksDB removes tables that no
 * record names. */
#include <stdio.h>

#include "base/file.h"
#include "store/engine/engine_rocksdb_int.h"

#include "base/banned.h"

#define MISSING_TEXT "No such file or directory" /* what RocksDB's status says of a missing table */

bool rocks__misses_a_table(const struct rocks *rocks, enum rc rc, const struct err *err)
{
    return rc == RC_CORRUPT && !rocks->read_only && err && strstr(err->text, MISSING_TEXT);
}

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

enum rc rocks__go_back(struct rocks *rocks, struct err *err)
{
    char *status = NULL;
    enum rc rc = all_keep(rocks, err);
    if (rc != RC_OK)
        return rc;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_get_options_from_string(rocks->options, "best_efforts_recovery=true", options, &status);
    rc = rocks__status_take(status, "set an option of the engine", err);
    status = NULL;
    rocksdb_t *db = rc == RC_OK ? rocksdb_open(options, rocks->dir, &status) : NULL;
    if (rc == RC_OK)
        rc = rocks__status_take(status, "open the engine as it was before its last change", err);
    if (db)
        rocksdb_close(db);
    rocksdb_options_destroy(options);
    rocks->back_count += rc == RC_OK;
    return rc;
}

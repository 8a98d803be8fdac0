// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_manifest.c - a second name for the manifest, which RocksDB may remove too early.
 *
 * After an error in its manifest RocksDB begins another one, and names it in CURRENT when it is
 * whole. Up to 7.8 at least, an error while the first records are written to that one, or while
 * CURRENT is replaced, makes RocksDB take the new number for the manifest's all the same. From then
 * on the manifest that CURRENT names passes for an old one, and is removed when RocksDB next looks
 * for such files; it does not look while it knows of the error, but it may have forgotten it by
 * then, for want of disk by itself. The process goes on; the next opening finds no manifest.
 *
 * So the manifest that CURRENT names has a link beside it, by a name that RocksDB does not know and
 * leaves alone, and an opening that misses the one gets it back by the other. It is the same file:
 * nothing that was written to it can be missing. The link is made after each opening and looked
 * after around each unit, because a manifest changes after errors only. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "store/engine/engine_rocksdb_int.h"

#include "base/banned.h"

#define KEPT_PREFIX "kept."
#define MANIFEST_PREFIX "MANIFEST-"

static struct files *files(void)
{
    return (struct files *)(uintptr_t)&files_real;
}

/* The manifest's name as CURRENT says it, without the newline; false: it says nothing. */
static bool current_read(const struct rocks *rocks, char name[ROCKS_MANIFEST_BYTES])
{
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    struct err ignored;
    size_t len = 0;

    enum rc rc = path_join(path, rocks->dir, "CURRENT", &ignored);
    if (rc == RC_OK)
        rc = file_open(files(), path, FILE_READ, &file, &ignored);
    if (rc == RC_OK)
        rc = file_read(file, 0, (uint8_t *)name, ROCKS_MANIFEST_BYTES - 1, &len, &ignored);
    if (rc != RC_OK || len == 0 || name[len - 1] != '\n')
        return false;
    name[len - 1] = '\0';
    return strncmp(name, MANIFEST_PREFIX, sizeof MANIFEST_PREFIX - 1) == 0 && !strchr(name, '/');
}

static bool paths_make(const struct rocks *rocks, const char *name, char path[PATH_BYTES_MAX],
                       char kept[PATH_BYTES_MAX])
{
    char kept_name[ROCKS_MANIFEST_BYTES + sizeof KEPT_PREFIX];
    struct err ignored;
    snprintf(kept_name, sizeof kept_name, KEPT_PREFIX "%s", name);
    return path_join(path, rocks->dir, name, &ignored) == RC_OK &&
           path_join(kept, rocks->dir, kept_name, &ignored) == RC_OK;
}

struct others {
    const struct rocks *rocks;
    const char *kept_path;
};

static enum rc other_drop(const char *name, void *arg, struct err *err)
{
    const struct others *others = arg;
    char path[PATH_BYTES_MAX];
    if (strncmp(name, KEPT_PREFIX, sizeof KEPT_PREFIX - 1) != 0)
        return RC_OK;
    enum rc rc = path_join(path, others->rocks->dir, name, err);
    if (rc != RC_OK || strcmp(path, others->kept_path) == 0)
        return rc;
    return files_remove(files(), path, err);
}

void rocks__manifest_keep(struct rocks *rocks)
{
    char name[ROCKS_MANIFEST_BYTES], path[PATH_BYTES_MAX], kept[PATH_BYTES_MAX];
    struct others others = {rocks, kept};
    struct err ignored;

    if (rocks->read_only || !current_read(rocks, name) || strcmp(name, rocks->manifest) == 0 ||
        !paths_make(rocks, name, path, kept))
        return;
    /* Not files_link(): a copy, where there are no links, would not grow with the manifest. */
    if (link(path, kept) != 0 && errno != EEXIST)
        return; /* it is tried again */
    enum rc rc = files_sync_dir(files(), rocks->dir, &ignored);
    if (rc == RC_OK)
        rc = files_list(files(), rocks->dir, other_drop, &others, &ignored);
    if (rc == RC_OK)
        memcpy(rocks->manifest, name, sizeof name);
}

enum rc rocks__manifest_restore(struct rocks *rocks, struct err *err)
{
    char name[ROCKS_MANIFEST_BYTES], path[PATH_BYTES_MAX], kept[PATH_BYTES_MAX];

    rocks->manifest[0] = '\0'; /* an opening begins another one */
    if (!current_read(rocks, name) || !paths_make(rocks, name, path, kept) ||
        access(path, F_OK) == 0 || access(kept, F_OK) != 0)
        return RC_OK;
    if (rocks->read_only)
        return err_set(err, RC_IO,
                       "\"%s\" is missing, and a start of the server gets it back from \"%s\"",
                       path, kept);
    if (link(kept, path) != 0)
        return err_set(err, RC_IO, "could not link \"%s\" to \"%s\": %s", kept, path,
                       strerror(errno));
    log_warn("the engine had removed its own manifest after an error; it was got back from %s",
             kept);
    return files_sync_dir(files(), rocks->dir, err);
}

// SPDX-License-Identifier: Apache-2.0
/* flush_tight.c - the flusher on a disk that is full: the reserve, and what makes room. */
#include "store/flush/flush_int.h"

#include <string.h>

#include "base/clock.h"

#include "base/banned.h"

enum { NAMES_BYTES_MAX = 64 * 1024 * 1024 };
#define LOOK_NS (UINT64_C(1000) * 1000 * 1000)
#define COMPACTING_NS (5 * LOOK_NS) /* a compaction is given so long to free something */

void flush__tight_full(const struct flush_options *options, uint64_t bytes, bool again)
{
    reserve_take(options->reserve, bytes, again ? RESERVE_KEPT_BYTES / 2 : RESERVE_KEPT_BYTES);
}

/* A compaction that has failed is tried again by the engine. Whether that was for want of disk is
 * not told: the free space says it. */
static void compactions_look(struct flush__tight *tight, const struct flush_options *options,
                             const struct engine_pressure *pressure)
{
    uint64_t free_bytes = 0;
    bool more = pressure->error_count > tight->error_count;
    tight->error_count = pressure->error_count;
    if (more &&
        files_free_bytes(options->files, options->scratch_dir, &free_bytes, NULL) == RC_OK &&
        free_bytes < reserve_size(options->reserve))
        flush__tight_full(options, UINT64_MAX, false);
}

/* One that runs frees disk by itself. One that is always running, because it fails for want of disk
 * and is begun again, does not. */
static bool compaction_may_help(struct flush__tight *tight, const struct engine_pressure *pressure,
                                uint64_t now_ns)
{
    if (!pressure->compacting)
        tight->compacting_ns = 0;
    else if (tight->compacting_ns == 0)
        tight->compacting_ns = now_ns;
    return pressure->compacting && now_ns - tight->compacting_ns < COMPACTING_NS;
}

void flush__tight_look(struct flush__tight *tight, const struct flush_options *options)
{
    struct engine *engine = options->engine;
    struct engine_pressure pressure = {0};
    uint64_t now_ns = clock_mono_ns(options->clock);

    if (!options->reserve || now_ns < tight->look_ns)
        return;
    tight->look_ns = now_ns + LOOK_NS;
    engine->ops->pressure(engine, &pressure);
    compactions_look(tight, options, &pressure);
    bool waits = compaction_may_help(tight, &pressure, now_ns);
    if (reserve_fill(options->reserve) || waits || !engine->ops->shrink)
        return;
    if (engine->ops->shrink(engine))
        flush__tight_full(options, UINT64_MAX, false);
    else if (!pressure.compacting)
        reserve_return(options->reserve); /* or others take it */
}

static enum rc name_keep(const char *name, void *arg, struct err *err)
{
    struct buf *names = arg;
    if (!buf_add(names, name, strlen(name) + 1))
        return err_set(err, RC_TOO_BIG, "the scratch directory has too many files");
    return RC_OK;
}

enum rc flush_scratch_empty(struct files *files, const char *dir, struct err *err)
{
    CLEANUP(buf_done) struct buf names;
    buf_init(&names, NAMES_BYTES_MAX);
    enum rc rc = files_make_dir(files, dir, err);
    if (rc != RC_OK)
        return rc;
    rc = files_list(files, dir, name_keep, &names, err);
    if (rc != RC_OK)
        return rc;
    for (size_t at = 0; at < names.len; at += strlen((char *)names.ptr + at) + 1) {
        char path[PATH_BYTES_MAX];
        rc = path_join(path, dir, (char *)names.ptr + at, err);
        if (rc != RC_OK)
            return rc;
        rc = files_remove(files, path, err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
    }
    return RC_OK;
}

// SPDX-License-Identifier: Apache-2.0
/* flush_backup.c - the flusher's part of a backup: a checkpoint and links to segments. */
#include "store/flush/flush_int.h"

#include <stdio.h>

#include "base/banned.h"

static enum rc name_refuse(const char *name, void *arg, struct err *err)
{
    (void)arg;
    return err_set(err, RC_BUSY, "\"%s\" is there", name);
}

static enum rc dirs_make(const struct flush__backup_job *job, const char *journal_dir,
                         struct err *err)
{
    enum rc rc = files_list(job->files, job->to_dir, name_refuse, NULL, err);
    if (rc == RC_OK || rc == RC_BUSY)
        return err_set(err, RC_BUSY, "the backup directory \"%s\" exists", job->to_dir);
    if (rc != RC_NOT_FOUND)
        return rc;
    rc = files_make_dir(job->files, job->to_dir, err);
    if (rc != RC_OK)
        return rc;
    return files_make_dir(job->files, journal_dir, err);
}

/* The segments above the mark, up to job->segment. */
static enum rc segments_link(const struct flush__backup_job *job, const char *journal_dir,
                             struct err *err)
{
    struct journal_sealed sealed = {.number = job->mark_segment};
    while (sealed.number < job->segment) {
        if (!journal_sealed_next(job->journal, sealed.number, &sealed))
            return err_set(err, RC_IO, "the journal has no sealed segment after %llu",
                           (unsigned long long)sealed.number);
        char from[PATH_BYTES_MAX], to[PATH_BYTES_MAX];
        segment_path(from, job->journal_dir, sealed.number);
        segment_path(to, journal_dir, sealed.number);
        enum rc rc = files_link(job->files, from, to, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc dirs_sync(const struct flush__backup_job *job, const char *journal_dir,
                         struct err *err)
{
    enum rc rc = files_sync_dir(job->files, journal_dir, err);
    if (rc != RC_OK)
        return rc;
    rc = files_sync_dir(job->files, job->to_dir, err);
    if (rc != RC_OK)
        return rc;

    char parent[PATH_BYTES_MAX];
    snprintf(parent, sizeof parent, "%s", job->to_dir);
    char *slash = strrchr(parent, '/');
    if (!slash)
        return files_sync_dir(job->files, ".", err);
    slash[slash == parent ? 1 : 0] = '\0';
    return files_sync_dir(job->files, parent, err);
}

enum rc flush__backup(const struct flush__backup_job *job, struct err *err)
{
    char engine_dir[PATH_BYTES_MAX], journal_dir[PATH_BYTES_MAX];
    enum rc rc = path_join(engine_dir, job->to_dir, "engine", err);
    if (rc != RC_OK)
        return rc;
    rc = path_join(journal_dir, job->to_dir, "journal", err);
    if (rc != RC_OK)
        return rc;
    rc = dirs_make(job, journal_dir, err);
    if (rc != RC_OK)
        return rc;

    journal_pin(job->journal);
    rc = job->engine->ops->checkpoint(job->engine, engine_dir, err);
    if (rc == RC_OK)
        rc = segments_link(job, journal_dir, err);
    if (rc == RC_OK)
        rc = dirs_sync(job, journal_dir, err);
    journal_unpin(job->journal);
    return rc;
}

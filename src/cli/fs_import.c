// SPDX-License-Identifier: Apache-2.0
/* fs_import.c - terrace fs import: a real directory goes into the tree, names and attributes only.
 *
 * It is walked twice: once to know how much there is, and once to send it, WINDOW commands ahead of
 * the replies. What is there already gets the new size and time. Symbolic links and devices are
 * left out and counted. */
#include <errno.h>
#include <fts.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/fs.h"
#include "cli/progress.h"

#include "base/banned.h"

enum {
    WINDOW = 4096, /* commands that wait for a reply */
    BATCH = 256,   /* commands that are sent at once */
    REASONS_SHOWN = 5,
    NAME_BYTES = 256,
};

struct import {
    struct link *link;
    struct err err;
    size_t from_len; /* of the directory's own path */
    struct buf path; /* of the tree */
    size_t to_len;
    uint64_t all_count; /* what the first walk has met */
    uint64_t file_count, dir_count, bytes, known_count, skipped_count, failed_count;
    size_t waiting, batched;
    uint64_t seen_count;
    struct progress progress;
    uid_t uid; /* the last ones, and their names */
    gid_t gid;
    bool has_uid, has_gid;
    char owner[NAME_BYTES], group[NAME_BYTES];
};

/* ---- commands ---- */

static enum rc reply_take(struct import *import)
{
    struct reply reply;
    enum rc rc = link_reply(import->link, &reply, &import->err);
    if (rc != RC_OK && rc != RC_REPLY)
        return rc;
    import->waiting--;
    if (rc == RC_OK)
        return RC_OK;
    if (strncmp(import->err.text, "EXISTS", 6) == 0)
        import->known_count++;
    else if (import->failed_count++ < REASONS_SHOWN)
        fprintf(stderr, "%sterrace: %s\n", import->progress.is_on ? "\n" : "", import->err.text);
    return RC_OK;
}

static enum rc command_add(struct import *import, const struct bytes *word, size_t count)
{
    resp_add_array(&import->link->out, count);
    for (size_t i = 0; i < count; i++)
        resp_add_bulk(&import->link->out, word[i]);
    import->waiting++;
    if (++import->batched < BATCH)
        return RC_OK;
    import->batched = 0;
    enum rc rc = link_send(import->link, &import->err);
    while (rc == RC_OK && import->waiting > WINDOW)
        rc = reply_take(import);
    progress_at(&import->progress, import->seen_count);
    return rc;
}

static void owner_find(struct import *import, const struct stat *stat)
{
    if (!import->has_uid || import->uid != stat->st_uid) {
        const struct passwd *user = getpwuid(stat->st_uid);
        snprintf(import->owner, NAME_BYTES, "%u", stat->st_uid);
        if (user)
            snprintf(import->owner, NAME_BYTES, "%s", user->pw_name);
        import->uid = stat->st_uid;
        import->has_uid = true;
    }
    if (!import->has_gid || import->gid != stat->st_gid) {
        const struct group *group = getgrgid(stat->st_gid);
        snprintf(import->group, NAME_BYTES, "%u", stat->st_gid);
        if (group)
            snprintf(import->group, NAME_BYTES, "%s", group->gr_name);
        import->gid = stat->st_gid;
        import->has_gid = true;
    }
}

static uint64_t time_ms(struct timespec time)
{
    return time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static enum rc entry_add(struct import *import, const struct stat *stat, bool is_dir)
{
    char mode[8], size[24], modified[24];
    struct bytes path = buf_bytes(&import->path);
    owner_find(import, stat);
    snprintf(mode, sizeof mode, "%o", stat->st_mode & 07777u);
    snprintf(size, sizeof size, "%" PRIu64, (uint64_t)stat->st_size);
    snprintf(modified, sizeof modified, "%" PRIu64, time_ms(stat->st_mtim));
    struct bytes make[] = {is_dir ? BYTES("FS.MKDIR") : BYTES("FS.CREATE"),
                           path,
                           BYTES("MODE"),
                           fs_text(mode),
                           BYTES("OWNER"),
                           fs_text(import->owner),
                           BYTES("GROUP"),
                           fs_text(import->group)};
    struct bytes complete[] = {BYTES("FS.COMPLETE"), path, fs_text(size)};
    struct bytes utime[] = {BYTES("FS.UTIME"), path, fs_text(modified)};
    enum rc rc = command_add(import, make, ARRAY_LEN(make));
    if (rc == RC_OK && !is_dir)
        rc = command_add(import, complete, ARRAY_LEN(complete));
    if (rc == RC_OK)
        rc = command_add(import, utime, ARRAY_LEN(utime));
    import->file_count += !is_dir;
    import->dir_count += is_dir;
    import->bytes += is_dir ? 0 : (uint64_t)stat->st_size;
    return rc;
}

/* ---- the walk ---- */

static FTS *walk_open(const char *from, struct err *err)
{
    char *paths[] = {(char *)from, NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!walk)
        (void)err_set(err, RC_IO, "could not open \"%s\": %s", from, strerror(errno));
    return walk;
}

static enum rc entry_visit(struct import *import, const FTSENT *entry)
{
    import->seen_count += entry->fts_info != FTS_DP;
    buf_cut(&import->path, import->to_len);
    if (!buf_add(&import->path, entry->fts_path + import->from_len,
                 entry->fts_pathlen - import->from_len))
        return err_set(&import->err, RC_NOMEM, "out of memory for a path");
    switch (entry->fts_info) {
    case FTS_D:
        return import->path.len > import->to_len ? entry_add(import, entry->fts_statp, true)
                                                 : RC_OK;
    case FTS_DP:
        return RC_OK;
    case FTS_F:
        return entry_add(import, entry->fts_statp, false);
    case FTS_DNR:
    case FTS_NS:
    case FTS_ERR:
        import->failed_count++;
        fprintf(stderr, "terrace: \"%s\": %s\n", entry->fts_path, strerror(entry->fts_errno));
        return RC_OK;
    default:
        import->skipped_count++;
        return RC_OK;
    }
}

static enum rc all_count(struct import *import, const char *from)
{
    FTS *walk = walk_open(from, &import->err);
    const FTSENT *entry;
    if (!walk)
        return RC_IO;
    while ((entry = fts_read(walk)))
        import->all_count += entry->fts_info != FTS_DP;
    fts_close(walk);
    return RC_OK;
}

static enum rc all_send(struct import *import, const char *from)
{
    FTS *walk = walk_open(from, &import->err);
    const FTSENT *entry;
    enum rc rc = walk ? RC_OK : RC_IO;
    while (rc == RC_OK && (entry = fts_read(walk)))
        rc = entry_visit(import, entry);
    if (walk)
        fts_close(walk);
    if (rc == RC_OK)
        rc = link_send(import->link, &import->err);
    while (rc == RC_OK && import->waiting > 0)
        rc = reply_take(import);
    return rc;
}

/* The directory that takes it is made if it is missing. */
static enum rc top_make(struct import *import, const char *to)
{
    struct bytes word[] = {BYTES("FS.MKDIR"), fs_text(to), BYTES("PARENTS")};
    struct value value;
    struct arena arena;
    if (strcmp(to, "/") == 0)
        return RC_OK;
    arena_init(&arena);
    enum rc rc = value_ask(import->link, word, ARRAY_LEN(word), &arena, &value, &import->err);
    arena_done(&arena);
    return rc;
}

int fs_import(struct link *link, const char *from, const char *to)
{
    struct import import = {.link = link};
    struct stat stat_of;
    size_t from_len = strlen(from);
    char *top = mem_dup(from, from_len + 1);
    while (from_len > 1 && top[from_len - 1] == '/')
        top[--from_len] = 0;
    import.from_len = strcmp(top, "/") == 0 ? 0 : from_len;
    buf_init(&import.path, SIZE_MAX);
    enum rc rc = RC_OK;
    if (stat(top, &stat_of) != 0 || !S_ISDIR(stat_of.st_mode))
        rc = err_set(&import.err, RC_INVALID, "\"%s\" is no directory", top);
    if (rc == RC_OK && strcmp(to, "/") != 0 && !buf_add(&import.path, to, strlen(to)))
        rc = err_set(&import.err, RC_NOMEM, "out of memory for a path");
    import.to_len = import.path.len;
    if (rc == RC_OK)
        rc = top_make(&import, to);
    if (rc == RC_OK && isatty(STDERR_FILENO))
        rc = all_count(&import, top);
    progress_begin(&import.progress, "entries imported", import.all_count, 0);
    if (rc == RC_OK)
        rc = all_send(&import, top);
    progress_end(&import.progress, import.seen_count);
    buf_done(&import.path);
    mem_free(top);
    if (rc != RC_OK)
        return cli_fail("%s", import.err.text);
    char size[FS_SIZE_TEXT_BYTES];
    fs_size_text(import.bytes, size);
    printf("%" PRIu64 " files, %" PRIu64 " directories, %s", import.file_count, import.dir_count,
           size);
    printf("; %" PRIu64 " were there, %" PRIu64 " skipped (links, devices), %" PRIu64 " failed\n",
           import.known_count, import.skipped_count, import.failed_count);
    return import.failed_count > 0 ? 1 : 0;
}

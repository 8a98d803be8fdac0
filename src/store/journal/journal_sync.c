// SPDX-License-Identifier: Apache-2.0
/* journal_sync.c - what the journal's thread does: sync, seal, prepare, look at the free space.
 *
 * When a sync of a segment has failed (the file's, or its directory entry's), the page cache can no
 * longer be trusted: the kernel may have dropped the pages and would say yes the next time. So the
 * segment is written again, whole and byte for byte, to "<number>.seg.new": what an earlier sync
 * covered is read from the old file, the rest is kept in memory. The copy is read back and checked
 * frame by frame, synced, renamed over the old name, and the directory is synced. Until the rename
 * the old file stands with all that was acknowledged as written, after it the new one does: a
 * process that ends in between loses nothing, and recovery sees nothing unusual. Number, frames and
 * chain stay as they are, so a next segment that was begun meanwhile still fits.
 *
 * It is done with the lock held, by whoever met the failure: the executor must not write to a file
 * that is being replaced, and so it waits for the lock as it would for the copy.
 *
 * If the copy fails too, the segment is `broken` and the journal is read-only until journal_retry()
 * has made a copy. A broken segment is never synced, and nothing after it. */
#include "store/journal/journal_int.h"

#include <stdio.h>

#include "base/mem.h"

#include "base/banned.h"

enum { COPY_BYTES = 1024 * 1024 };

static const uint64_t second_ns = UINT64_C(1000000000);

static uint64_t now_ns(const struct journal *journal)
{
    return clock_mono_ns(journal->options.clock);
}

void journal__io_wait(struct journal *journal)
{
    journal->io_wanted++;
    while (journal->io_busy)
        pthread_cond_wait(&journal->done, &journal->lock);
    journal->io_wanted--;
}

static void synced_to(struct journal *journal, struct journal_seg *seg, uint64_t len, uint64_t lsn)
{
    uint64_t before = seg->synced;
    ASSERT(len >= before);
    journal__kept_drop(journal, &seg->kept, len - before);
    seg->synced = len;
    seg->entry_synced = true;
    if (seg->frame_count > 0 && lsn > journal->durable_lsn)
        journal->durable_lsn = lsn;
}

void journal__record(struct journal *journal, const struct journal_seg *seg, uint64_t len)
{
    struct journal_record record = {.number = seg->number, .bytes = len, .salt = seg->salt};
    uint8_t bytes[JOURNAL_RECORD_BYTES];
    struct err ignored = {0};

    if (!journal->record)
        return;
    memcpy(record.uuid, journal->options.uuid, sizeof record.uuid);
    journal_record_put(bytes, &record);
    enum rc rc = file_write(journal->record, 0, bytes_of(bytes, sizeof bytes), &ignored);
    (void)rc;
}

/* Writing a segment again. */

static enum rc copy_synced(const struct journal_seg *seg, struct file *to, struct err *err)
{
    uint8_t *part = mem_alloc(COPY_BYTES);
    uint64_t at = 0;
    enum rc rc = RC_OK;

    while (rc == RC_OK && at < seg->synced) {
        uint64_t left = seg->synced - at;
        size_t len = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
        size_t got = 0;
        rc = file_read(seg->file, at, part, len, &got, err);
        if (rc == RC_OK && got < len)
            rc = err_set(err, RC_CORRUPT, "\"%s\" is shorter than what was synced of it",
                         seg->file->path);
        if (rc == RC_OK)
            rc = file_write(to, at, bytes_of(part, len), err);
        at += len;
    }
    mem_free(part);
    return rc;
}

static enum rc copy_check(struct journal *journal, const struct journal_seg *seg, const char *path,
                          struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    struct segment_turn turn;

    enum rc rc = segment_open(journal->options.files, path, &reader, err);
    while (rc == RC_OK)
        rc = segment_next(reader, &turn, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    if (segment_reader_offset(reader) != seg->len || segment_reader_chain(reader) != seg->chain)
        return err_set(err, RC_CORRUPT, "what was synced of \"%s\" reads back damaged",
                       seg->file->path);
    return RC_OK;
}

static enum rc copy_make(struct journal *journal, const struct journal_seg *seg, const char *path,
                         struct file **ret_file, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;

    enum rc rc = file_open(journal->options.files, path,
                           FILE_READ | FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file, err);
    if (rc != RC_OK)
        return rc;
    rc = copy_synced(seg, file, err);
    if (rc != RC_OK)
        return rc;
    rc = journal__kept_write(&seg->kept, file, seg->synced, err);
    if (rc != RC_OK)
        return rc;
    rc = copy_check(journal, seg, path, err);
    if (rc != RC_OK)
        return rc;
    rc = file_sync(file, err);
    if (rc != RC_OK)
        return rc;

    *ret_file = file;
    file = NULL;
    return RC_OK;
}

enum rc journal__rewrite(struct journal *journal, struct journal_seg *seg, struct err *err)
{
    struct files *files = journal->options.files;
    struct file *file = NULL;
    char path[PATH_BYTES_MAX], copy_path[PATH_BYTES_MAX + 4];

    seg->broken = true;
    segment_path(path, journal->options.dir, seg->number);
    snprintf(copy_path, sizeof copy_path, "%s.new", path);
    enum rc rc = copy_make(journal, seg, copy_path, &file, err);
    if (rc == RC_OK)
        rc = files_rename(files, copy_path, path, err);
    if (rc != RC_OK) {
        file_close(file);
        struct err ignored = {0}; /* a copy that stays is removed at the next open */
        enum rc removed = files_remove(files, copy_path, &ignored);
        (void)removed;
        return rc;
    }
    file_close(seg->file);
    seg->file = file;
    rc = files_sync_dir(files, journal->options.dir, err);
    if (rc != RC_OK)
        return rc; /* the copy has the name, but perhaps not after a power cut */
    seg->broken = false;
    synced_to(journal, seg, seg->len, seg->last_lsn);
    if (seg->frame_count > 0)
        journal__record(journal, seg, seg->len);
    return RC_OK;
}

/* Syncing. */

static enum rc seg_sync(struct journal *journal, struct journal_seg *seg, uint64_t len, bool seal,
                        bool entry, struct err *err)
{
    /* Gives back what was allocated beyond the end. The length is right already, so a failure
     * costs space only. */
    if (seal) {
        struct err ignored = {0};
        enum rc cut = file_truncate(seg->file, len, &ignored);
        (void)cut;
    }
    enum rc rc = file_sync(seg->file, err);
    if (rc == RC_OK && entry)
        rc = files_sync_dir(journal->options.files, journal->options.dir, err);
    return rc;
}

void journal__seal(struct journal *journal)
{
    struct journal_seg *seg = journal->prev;
    struct journal_sealed sealed = {
        .number = seg->number, .bytes = seg->len, .last_lsn = seg->last_lsn};
    ASSERT(seg->synced == seg->len);
    journal__sealed_add(journal, &sealed);
    journal->prev = NULL;
    journal__seg_free(journal, seg);
    journal->look_ns = 0;
}

/* Syncs prev, and seals it, or cur. With `keep_lock` the lock is not given away. */
static enum rc sync_one(struct journal *journal, bool keep_lock, struct err *err)
{
    bool seal = journal->prev != NULL;
    struct journal_seg *seg = seal ? journal->prev : journal->cur;
    uint64_t len = seg->len;
    uint64_t lsn = seg->last_lsn;
    bool entry = !seg->entry_synced;
    bool has_frames = seg->frame_count > 0; /* a number without frames may be used again */

    ASSERT(!seg->broken);
    ASSERT(!journal->io_busy);
    if (!seal)
        journal->sync_asked = false;
    if (!seal || !journal->cur || journal->cur->frame_count == 0)
        journal->oldest_ns = 0; /* or the thread would wait for a time that has passed */
    journal->io_busy = true;
    if (!keep_lock)
        pthread_mutex_unlock(&journal->lock);
    enum rc rc = seg_sync(journal, seg, len, seal, entry, err);
    if (rc == RC_OK && has_frames)
        journal__record(journal, seg, len);
    if (!keep_lock)
        pthread_mutex_lock(&journal->lock);
    journal->io_busy = false;

    journal->stats.sync_count++;
    journal->notify_due = true;
    if (rc == RC_OK) {
        synced_to(journal, seg, len, lsn);
        if (has_frames)
            journal->record_sync_ns = now_ns(journal) + second_ns;
    } else {
        journal->stats.sync_failure_count++;
        rc = journal__rewrite(journal, seg, err);
        if (rc != RC_OK)
            journal__read_only_set(journal, err->text);
    }
    if (rc == RC_OK && seal)
        journal__seal(journal);
    pthread_cond_broadcast(&journal->done);
    return rc;
}

enum rc journal__sync_prev(struct journal *journal, struct err *err)
{
    if (!journal->prev)
        return RC_OK;
    if (journal->prev->broken)
        return err_set(err, RC_READONLY, "%s", journal->stats.reason);
    return sync_one(journal, true, err);
}

enum rc journal__sync_cur(struct journal *journal, struct err *err)
{
    ASSERT(!journal->prev);
    if (!journal->cur)
        return RC_OK;
    if (journal->cur->broken)
        return err_set(err, RC_READONLY, "%s", journal->stats.reason);
    return sync_one(journal, true, err);
}

void journal__sync_next(struct journal *journal)
{
    struct err err = {0};
    enum rc rc = sync_one(journal, false, &err);
    (void)rc; /* it is in the status: read_only and its reason */
}

/* Whether cur is to be synced now by the durability that was asked for. */
static bool sync_is_due(const struct journal *journal)
{
    const struct journal_seg *cur = journal->cur;
    if (!cur || cur->broken || cur->len == cur->synced)
        return false;
    if (journal->sync_asked || !cur->entry_synced)
        return true;
    if (cur->frame_count == 0)
        return false;
    if (cur->len - cur->synced >= journal->options.unsynced_bytes_max / 4)
        return true;
    switch (journal->durability) {
    case DURABILITY_ALWAYS:
        return true;
    case DURABILITY_EVERYSEC:
        return now_ns(journal) - journal->oldest_ns >= second_ns;
    case DURABILITY_NO:
        return false;
    }
    return false;
}

/* Preparing the next file: empty, its room allocated, its directory entry synced. */

static enum rc spare_make(struct journal *journal, uint64_t number, bool allocate,
                          struct file **ret_file, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];

    segment_path(path, journal->options.dir, number);
    enum rc rc = file_open(journal->options.files, path,
                           FILE_READ | FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file, err);
    if (rc != RC_OK)
        return rc;
    if (allocate) { /* a failure costs speed only */
        rc = file_allocate(file, journal->options.segment_bytes, err);
        (void)rc;
    }
    rc = files_sync_dir(journal->options.files, journal->options.dir, err);
    if (rc != RC_OK)
        return rc;

    *ret_file = file;
    file = NULL;
    return RC_OK;
}

static void spare_prepare(struct journal *journal)
{
    struct err err = {0};
    struct file *file = NULL;
    uint64_t number = journal->number + 1;
    bool allocate = journal->stats.disk_free_bytes >
                        journal->options.disk_reserve_bytes + journal->options.segment_bytes &&
                    reserve_is_whole(journal->options.reserve);

    journal->io_busy = true;
    journal->preparing = true;
    pthread_mutex_unlock(&journal->lock);
    enum rc rc = spare_make(journal, number, allocate, &file, &err);
    pthread_mutex_lock(&journal->lock);
    journal->io_busy = false;
    journal->preparing = false;
    if (rc == RC_FULL)
        journal__reserve_take(journal, RESERVE_PIECE_BYTES);
    if (rc == RC_OK)
        journal->spare = file;
    else
        journal->spare_retry_ns = now_ns(journal) + second_ns;
    if (journal->rotate_asked)
        journal->notify_due = true;
    pthread_cond_broadcast(&journal->done);
}

void journal__look(struct journal *journal)
{
    struct err err = {0};
    uint64_t free_bytes = 0;

    journal->look_ns = now_ns(journal) + second_ns;
    enum rc rc = files_free_bytes(journal->options.files, journal->options.dir, &free_bytes, &err);
    if (rc != RC_OK)
        return;
    bool low = free_bytes + reserve_bytes(journal->options.reserve) <
                   journal->options.disk_reserve_bytes ||
               !reserve_is_whole(journal->options.reserve);
    journal->stats.disk_free_bytes = free_bytes;
    if (low != journal->disk_low || journal->read_only) /* the executor calls journal_retry() */
        journal->notify_due = true;
    journal->disk_low = low;
}

/* For a second nothing was synced: then there is time for the record. */
static void record_sync(struct journal *journal)
{
    struct err ignored = {0};

    journal->record_sync_ns = 0;
    journal->io_busy = true;
    pthread_mutex_unlock(&journal->lock);
    enum rc rc = file_sync(journal->record, &ignored);
    (void)rc; /* what it says is true whether or not it is on disk */
    pthread_mutex_lock(&journal->lock);
    journal->io_busy = false;
    pthread_cond_broadcast(&journal->done);
}

/* The thread's work. */

bool journal__work(struct journal *journal)
{
    if (journal->io_wanted > 0)
        return false; /* who wants the files wakes the thread when it is done */
    if (now_ns(journal) >= journal->look_ns)
        journal__look(journal);
    if (journal->prev && journal->prev->broken)
        return false;
    if (journal->prev || sync_is_due(journal)) {
        journal__sync_next(journal);
        return true;
    }
    journal->sync_asked = false; /* there is nothing to sync */
    if (!journal->spare && journal->cur && !journal->cur->broken &&
        now_ns(journal) >= journal->spare_retry_ns) {
        spare_prepare(journal);
        return true;
    }
    if (journal->record && journal->record_sync_ns != 0 && !journal->options.manual &&
        now_ns(journal) >= journal->record_sync_ns) {
        record_sync(journal);
        return true;
    }
    const struct journal_seg *cur = journal->cur;
    if (journal->options.manual && cur && !cur->broken && cur->frame_count > 0 &&
        cur->len > cur->synced) {
        journal__sync_next(journal);
        return true;
    }
    return false;
}

uint64_t journal__wait_ns(const struct journal *journal)
{
    uint64_t now = now_ns(journal);
    uint64_t wait = journal->look_ns > now ? journal->look_ns - now : 1;
    if (journal->read_only) /* until journal_retry() */
        return second_ns;
    if (journal->oldest_ns != 0 && journal->durability == DURABILITY_EVERYSEC) {
        uint64_t due = journal->oldest_ns + second_ns;
        uint64_t left = due > now ? due - now : 1;
        wait = left < wait ? left : wait;
    }
    return wait;
}

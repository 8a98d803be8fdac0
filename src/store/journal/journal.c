// SPDX-License-Identifier: Apache-2.0
/* journal.c - the journal as the executor sees it: opening, writing, rotating, its state.
 *
 * What is on disk at every moment (journal.h has the rules, journal_sync.c the syncs):
 *   (1) `cur` is the segment written to, `prev` the one before it while it is not sealed. A segment
 *       N+1 is begun only when prev is NULL, so that N-1 is synced whole, and when N's directory
 *       entry is synced. So numbers have no gap after a power cut, and only the last two segments
 *       can be torn.
 *   (2) prev is synced and sealed before cur is synced for the first time. A frame whose
 *       synced-up-to mark is above zero therefore says: the segment before is whole on disk.
 *   (3) The file of N+1 exists before it is begun: empty, with its room allocated and its entry
 *       synced. Beginning it is one write of its header. Recovery drops a last segment that is
 *       empty, has a torn header or holds no frame; such a segment carries nothing.
 *   (4) cur->len is the end of the last turn that was acknowledged as written. After a failed write
 *       the file is cut back to it, and synced, before anything else is written: otherwise a power
 *       cut might bring the failed turn back. Bytes beyond it that could not be cut go with the
 *       file: the segment is written again (journal_sync.c).
 *   (5) The bytes from cur->synced to cur->len, and prev's, are kept in memory until they are
 *       synced.
 *   (6) What recovery sees after the end of the process at any point is every turn up to cur->len;
 *       after a power cut, at least every turn up to the durable LSN, and of the others a first
 *       part: a torn segment drops what comes after it, because of (2). */
#include "store/journal/journal_int.h"

#include <stdio.h>
#include <time.h>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    TURN_FRAMES_MAX = STORE_COMMIT_BYTES_MAX / JOURNAL_FRAME_BODY_BYTES_MAX,
    SPARE_SUFFIX_BYTES = 4, /* ".new" */
    RESERVE_TRIES = 4,
    SEGMENT_PIECE_BYTES = 1024 * 1024, /* allocated at once where there is no disk */
};

/* A turn as it will stand in the file. */
struct turn_frames {
    uint8_t header[TURN_FRAMES_MAX][FRAME_HEADER_BYTES];
    struct iovec iov[2 * TURN_FRAMES_MAX];
    int iov_count;
    size_t bytes;
    uint32_t chain; /* of the segment, with these frames */
};

static uint64_t unsynced_bytes(const struct journal *journal)
{
    uint64_t bytes = 0;
    if (journal->prev)
        bytes += journal->prev->len - journal->prev->synced;
    if (journal->cur)
        bytes += journal->cur->len - journal->cur->synced;
    return bytes;
}

void journal__seg_free(struct journal *journal, struct journal_seg *seg)
{
    if (!seg)
        return;
    journal__kept_done(journal, &seg->kept);
    file_close(seg->file);
    mem_free(seg);
}

void journal__read_only_set(struct journal *journal, const char *reason)
{
    snprintf(journal->stats.reason, sizeof journal->stats.reason, "%s", reason);
    journal->read_only = true;
    journal->notify_due = true;
}

bool journal__reserve_take(struct journal *journal, uint64_t bytes)
{
    if (reserve_take(journal->options.reserve, bytes, 0) == 0)
        return false;
    journal->disk_low = true;
    journal->notify_due = true;
    return true;
}

static uint32_t chain_add(uint32_t chain, uint32_t crc)
{
    uint8_t field[4];
    le32_put(field, crc);
    return crc32c(chain, field, sizeof field);
}

void journal__parent_path(char to[PATH_BYTES_MAX], const char *dir)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    while (len > 0 && dir[len - 1] != '/')
        len--;
    while (len > 1 && dir[len - 1] == '/')
        len--;
    snprintf(to, PATH_BYTES_MAX, "%.*s", len > 0 ? (int)len : 1, len > 0 ? dir : ".");
}

/* Beginning a segment. All with the lock held. */

static enum rc header_make(struct journal *journal, uint64_t number, uint32_t salt,
                           struct buf *header, struct err *err)
{
    struct buf counters;
    const struct journal_seg *cur = journal->cur;
    struct segment_header fields = {
        .format = SEGMENT_FORMAT,
        .incarnation = journal->options.incarnation,
        .salt = salt,
        .number = number,
        .last_lsn_before = journal->last_lsn,
        .bytes_before = cur ? cur->len : journal->bytes_before,
        .chain_before = cur ? cur->chain : journal->chain_before,
    };

    memcpy(fields.uuid, journal->options.uuid, sizeof fields.uuid);
    buf_init(&counters, JOURNAL_HEADER_BYTES_MAX);
    bool added = !journal->options.counters ||
                 journal->options.counters(journal->options.counters_arg, &counters);
    fields.counters = buf_bytes(&counters);
    added = added && segment_header_add(&fields, header);
    buf_done(&counters);
    if (!added)
        return err_set(err, RC_TOO_BIG, "the counters do not fit into a segment header");
    return RC_OK;
}

static enum rc begin_file(struct journal *journal, uint64_t number, struct file **ret_file,
                          bool *ret_entry_synced, struct err *err)
{
    char path[PATH_BYTES_MAX];

    if (journal->spare) {
        *ret_file = journal->spare;
        *ret_entry_synced = true;
        journal->spare = NULL;
        return RC_OK;
    }
    *ret_entry_synced = false;
    segment_path(path, journal->options.dir, number);
    return file_open(journal->options.files, path,
                     FILE_READ | FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, ret_file, err);
}

static enum rc begin_try(struct journal *journal, struct err *err)
{
    uint64_t number = journal->cur ? journal->number + 1 : journal->number;
    uint32_t salt = (uint32_t)rand_u64(journal->options.rand);
    struct file *file = NULL;
    bool entry_synced = false;
    struct buf header;

    ASSERT(!journal->prev);
    buf_init(&header, JOURNAL_HEADER_BYTES_MAX + SEGMENT_FIXED_BYTES + 4);
    enum rc rc = header_make(journal, number, salt, &header, err);
    if (rc == RC_OK)
        rc = begin_file(journal, number, &file, &entry_synced, err);
    if (rc == RC_OK) {
        rc = file_write(file, 0, buf_bytes(&header), err);
        if (rc != RC_OK) { /* (3): if it cannot be removed, recovery drops it */
            struct err ignored = {0};
            enum rc removed = files_remove(journal->options.files, file->path, &ignored);
            (void)removed;
            file_close(file);
        }
    }
    if (rc != RC_OK) {
        journal->spare_retry_ns = clock_mono_ns(journal->options.clock) + 1000000000;
        buf_done(&header);
        return rc;
    }

    struct journal_seg *seg = mem_zalloc(sizeof *seg);
    seg->file = file;
    seg->number = number;
    seg->salt = salt;
    seg->len = header.len;
    seg->chain = crc32c(0, header.ptr + header.len - 4, 4);
    seg->last_lsn = journal->last_lsn;
    seg->entry_synced = entry_synced;
    journal__kept_add(journal, &seg->kept, buf_bytes(&header));
    buf_done(&header);
    journal->prev = journal->cur;
    journal->cur = seg;
    journal->number = number;
    journal->rotate_asked = false;
    return RC_OK;
}

/* Begins the next segment; cur becomes prev. The thread must not be preparing a file. */
static enum rc begin(struct journal *journal, struct err *err)
{
    enum rc rc = begin_try(journal, err);
    for (int tries = 0; rc == RC_FULL && tries < RESERVE_TRIES; tries++) {
        if (!journal__reserve_take(journal, RESERVE_PIECE_BYTES))
            break;
        rc = begin_try(journal, err);
    }
    return rc;
}

/* (1) */
static bool may_begin(const struct journal *journal)
{
    return !journal->read_only && !journal->prev && journal->cur && journal->cur->entry_synced &&
           journal->cur->frame_count > 0;
}

/* Opening and closing. */

static enum rc leftover_remove(const char *name, void *arg, struct err *err)
{
    struct journal *journal = arg;
    char path[PATH_BYTES_MAX];
    size_t len = strlen(name);

    if (len < SPARE_SUFFIX_BYTES || strcmp(name + len - SPARE_SUFFIX_BYTES, ".new") != 0)
        return RC_OK;
    enum rc rc = path_join(path, journal->options.dir, name, err);
    return rc == RC_OK ? files_remove(journal->options.files, path, err) : rc;
}

static void thread_wait(struct journal *journal)
{
    uint64_t until = clock_mono_ns(&journal->wait_clock) + journal__wait_ns(journal);
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    journal->idle = true;
    pthread_cond_timedwait(&journal->work, &journal->lock, &at);
    journal->idle = false;
}

static void notify_if_due(struct journal *journal)
{
    if (!journal->notify_due)
        return;
    journal->notify_due = false;
    pthread_mutex_unlock(&journal->lock);
    if (journal->options.notify)
        journal->options.notify(journal->options.notify_arg);
    pthread_mutex_lock(&journal->lock);
}

static void *thread_run(void *arg)
{
    struct journal *journal = arg;

    pthread_mutex_lock(&journal->lock);
    while (!journal->stop) {
        bool worked = journal__work(journal);
        bool told = journal->notify_due;
        notify_if_due(journal);
        if (!worked && !told && !journal->stop)
            thread_wait(journal);
    }
    pthread_mutex_unlock(&journal->lock);
    return NULL;
}

static void thread_stop(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    journal->stop = true;
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->lock);
    thread_join(&journal->thread);
}

static struct journal *journal_new(const struct journal_options *options,
                                   const struct journal_start *start)
{
    struct journal *journal = mem_zalloc(sizeof *journal);

    journal->options = *options;
    journal->options.dir = mem_dup(options->dir, strlen(options->dir) + 1);
    clock_init(&journal->wait_clock);
    pthread_mutex_init(&journal->lock, NULL);
    thread_cond_init(&journal->work);
    pthread_cond_init(&journal->done, NULL);
    journal->durability = options->durability;
    journal->number = start->next_number;
    journal->last_lsn = start->last_lsn;
    journal->bytes_before = start->bytes_before;
    journal->chain_before = start->chain_before;
    journal->durable_lsn = start->last_lsn;
    return journal;
}

void journal_abandon(struct journal *journal)
{
    if (!journal)
        return;
    thread_stop(journal);
    journal__seg_free(journal, journal->prev);
    journal__seg_free(journal, journal->cur);
    file_close(journal->spare);
    file_close(journal->record);
    journal__chunks_done(journal);
    mem_free(journal->sealed);
    pthread_cond_destroy(&journal->work);
    pthread_cond_destroy(&journal->done);
    pthread_mutex_destroy(&journal->lock);
    mem_free((void *)journal->options.dir);
    mem_free(journal);
}

/* Without it the journal is as good as it was before there was one. */
static void record_open(struct journal *journal)
{
    char path[PATH_BYTES_MAX];
    struct err ignored = {0};
    journal_record_path(path, journal->options.dir);
    enum rc rc = file_open(journal->options.files, path, FILE_READ | FILE_WRITE | FILE_CREATE,
                           &journal->record, &ignored);
    (void)rc;
}

static void abandonp(struct journal **journal)
{
    journal_abandon(*journal);
}

enum rc journal_open(const struct journal_options *options, const struct journal_start *start,
                     struct journal **ret_journal, struct err *err)
{
    ASSERT(options->unsynced_bytes_max > 0);
    ASSERT(options->segment_bytes > 0);
    ASSERT(start->next_number > 0);
    CLEANUP(abandonp) struct journal *journal = journal_new(options, start);

    enum rc rc = files_make_dir(options->files, options->dir, err);
    if (rc != RC_OK)
        return rc;
    char parent[PATH_BYTES_MAX];
    journal__parent_path(parent, options->dir);
    rc = files_sync_dir(options->files, parent, err);
    if (rc != RC_OK)
        return rc;
    rc = files_list(options->files, options->dir, leftover_remove, journal, err);
    if (rc != RC_OK)
        return rc;
    struct err begin_err = {0};
    rc = begin(journal, &begin_err);
    if (rc == RC_FULL) {
        journal__read_only_set(journal, begin_err.text);
    } else if (rc != RC_OK) {
        return err_set(err, rc, "%s", begin_err.text);
    }
    record_open(journal);
    journal__look(journal);
    if (!options->manual) {
        rc = thread_start(&journal->thread, "journal", thread_run, journal, err);
        if (rc != RC_OK)
            return rc;
    }

    *ret_journal = journal;
    journal = NULL;
    return RC_OK;
}

static enum rc repair_broken(struct journal *journal, struct err *err);

enum rc journal_close(struct journal *journal, struct err *err)
{
    struct err local = {0};
    if (!journal)
        return RC_OK;
    if (!err)
        err = &local;
    thread_stop(journal);
    pthread_mutex_lock(&journal->lock);
    enum rc rc = repair_broken(journal, err);
    if (rc == RC_OK)
        rc = journal__sync_prev(journal, err);
    if (rc == RC_OK && journal->cur && journal->cur->len > journal->cur->synced)
        rc = journal__sync_cur(journal, err);
    if (rc == RC_OK && journal->record) {
        struct err ignored = {0};
        enum rc synced = file_sync(journal->record, &ignored);
        (void)synced;
    }
    if (journal->spare) { /* if it stays, recovery drops it */
        struct err ignored = {0};
        enum rc removed = files_remove(journal->options.files, journal->spare->path, &ignored);
        (void)removed;
    }
    pthread_mutex_unlock(&journal->lock);
    journal_abandon(journal);
    return rc;
}

/* Writing. */

/* Reads only what the executor alone changes, and the atomic mark; a mark that is a little old is
 * as true as a new one. */
static void frames_make(const struct journal *journal, uint64_t first_lsn, uint32_t commit_count,
                        struct bytes body, struct turn_frames *frames)
{
    const struct journal_seg *cur = journal->cur;
    struct frame_header frame = {
        .first_lsn = first_lsn,
        .commit_count = commit_count,
        .synced_bytes = cur->synced,
    };

    frames->iov_count = 0;
    frames->bytes = 0;
    frames->chain = cur->chain;
    for (int i = 0; body.len > 0; i++) {
        struct bytes part = body;
        if (part.len > JOURNAL_FRAME_BODY_BYTES_MAX)
            part.len = JOURNAL_FRAME_BODY_BYTES_MAX;
        body = bytes_from(body, part.len);
        frame.flags = body.len > 0 ? FRAME_MORE : 0;
        uint32_t crc;
        frame_header_put(frames->header[i], &frame, part, cur->salt, &crc);
        frames->chain = chain_add(frames->chain, crc);
        frames->iov[frames->iov_count++] = (struct iovec){frames->header[i], FRAME_HEADER_BYTES};
        frames->iov[frames->iov_count++] = (struct iovec){(void *)part.ptr, part.len};
        frames->bytes += FRAME_HEADER_BYTES + part.len;
    }
}

/* (4): nothing of the turn may stay. */
static void cut_back(struct journal *journal)
{
    struct err err = {0};

    journal__io_wait(journal);
    struct journal_seg *cur = journal->cur;
    bool cut = file_truncate(cur->file, cur->len, &err) == RC_OK;
    enum rc rc = RC_IO;
    if (!journal->read_only)
        rc = journal__sync_prev(journal, &err);
    if (rc == RC_OK && cut)
        rc = journal__sync_cur(journal, &err);
    else if (rc == RC_OK)
        rc = journal__rewrite(journal, cur, &err);
    if (rc != RC_OK) {
        cur->broken = true; /* written again before it is used */
        if (!journal->read_only)
            journal__read_only_set(journal, err.text);
    }
    pthread_cond_signal(&journal->work);
}

static enum rc read_only_error(const struct journal *journal, struct err *err)
{
    return err_set(err, RC_READONLY, "the journal is read-only: %s", journal->stats.reason);
}

/* Rule (4) of journal.h: waits until the turn can be kept. */
static enum rc wait_for_room(struct journal *journal, size_t bytes, struct err *err)
{
    while (journal->kept_bytes + bytes > journal->options.unsynced_bytes_max &&
           journal->kept_bytes > 0) {
        if (journal->read_only)
            return read_only_error(journal, err);
        journal->sync_asked = true;
        if (journal->options.manual) {
            journal__sync_next(journal);
            continue;
        }
        pthread_cond_signal(&journal->work);
        pthread_cond_wait(&journal->done, &journal->lock);
    }
    return journal->read_only ? read_only_error(journal, err) : RC_OK;
}

static void written(struct journal *journal, const struct turn_frames *frames, uint64_t last_lsn)
{
    struct journal_seg *cur = journal->cur;
    cur->len += frames->bytes;
    cur->chain = frames->chain;
    cur->last_lsn = last_lsn;
    cur->frame_count++;
    journal->last_lsn = last_lsn;
    journal->stats.frame_count++;
    journal->stats.byte_count += frames->bytes;
}

/* A turn too large to be kept: it is synced before it counts, so it need not be. */
static enum rc write_large(struct journal *journal, const struct turn_frames *frames,
                           uint64_t last_lsn, struct err *err)
{
    struct journal_seg *cur = journal->cur;

    journal__io_wait(journal);
    enum rc rc = journal->read_only ? read_only_error(journal, err) : RC_OK;
    if (rc == RC_OK)
        rc = journal__sync_prev(journal, err);
    if (rc == RC_OK && cur->len > cur->synced)
        rc = journal__sync_cur(journal, err);
    if (rc != RC_OK)
        return rc;
    rc = file_writev(cur->file, cur->len, frames->iov, frames->iov_count, err);
    if (rc == RC_OK)
        rc = file_sync(cur->file, err);
    if (rc != RC_OK) {
        cut_back(journal);
        return rc;
    }
    written(journal, frames, last_lsn);
    journal__record(journal, cur, cur->len);
    cur->synced = cur->len;
    journal->durable_lsn = last_lsn;
    journal->notify_due = true;
    return RC_OK;
}

static enum rc write_small(struct journal *journal, const struct turn_frames *frames,
                           uint64_t last_lsn, struct err *err)
{
    struct journal_seg *cur = journal->cur;

    enum rc rc = wait_for_room(journal, frames->bytes, err);
    if (rc != RC_OK)
        return rc;
    rc = file_writev(cur->file, cur->len, frames->iov, frames->iov_count, err);
    if (UNLIKELY(rc != RC_OK)) {
        cut_back(journal);
        return rc;
    }
    for (int i = 0; i < frames->iov_count; i++)
        journal__kept_add(journal, &cur->kept,
                          bytes_of(frames->iov[i].iov_base, frames->iov[i].iov_len));
    written(journal, frames, last_lsn);
    if (journal->oldest_ns == 0)
        journal->oldest_ns = clock_mono_ns(journal->options.clock);
    return RC_OK;
}

/* Whether the thread has something to do at once; with the lock held. */
static bool thread_is_needed(const struct journal *journal)
{
    return journal->idle &&
           (journal->durability == DURABILITY_ALWAYS || journal->prev || journal->notify_due ||
            journal->cur->len - journal->cur->synced >= journal->options.unsynced_bytes_max / 4 ||
            !journal->cur->entry_synced);
}

static enum rc write_try(struct journal *journal, const struct turn_frames *frames,
                         uint64_t last_lsn, struct err *err)
{
    bool large = frames->bytes > journal->options.unsynced_bytes_max;
    return large ? write_large(journal, frames, last_lsn, err)
                 : write_small(journal, frames, last_lsn, err);
}

/* Without disk a turn may be one that deletes: one that is small enough gets its room from the
 * reserve. From then on only turns that delete come this far. A compaction or another program may
 * take what was given back before the journal does: then more of the reserve is taken. */
static enum rc write_turn(struct journal *journal, const struct turn_frames *frames,
                          uint64_t last_lsn, struct err *err)
{
    enum rc rc = write_try(journal, frames, last_lsn, err);
    if (LIKELY(rc != RC_FULL) || frames->bytes > RESERVE_TURN_BYTES)
        return rc;
    for (int tries = 0; rc == RC_FULL && !journal->read_only && tries < RESERVE_TRIES; tries++) {
        if (!journal__reserve_take(journal, SEGMENT_PIECE_BYTES + frames->bytes))
            break;
        uint64_t len = journal->cur->len + frames->bytes + SEGMENT_PIECE_BYTES;
        rc = file_allocate(journal->cur->file, len, err); /* for this turn and some after it */
        if (rc == RC_OK || rc == RC_INVALID)
            rc = write_try(journal, frames, last_lsn, err);
    }
    return rc;
}

enum rc journal_write(struct journal *journal, uint64_t first_lsn, uint32_t commit_count,
                      struct bytes body, struct err *err)
{
    ASSERT(commit_count > 0);
    ASSERT(body.len > 0);
    ASSERT(body.len <= STORE_COMMIT_BYTES_MAX);
    ASSERT(first_lsn > journal->last_lsn);
    struct turn_frames frames;
    frames.iov_count = 0; /* without a segment nothing is made */
    frames.bytes = 0;
    frames.chain = 0;
    uint64_t last_lsn = first_lsn + commit_count - 1;
    struct err local = {0};
    bool wake = false;

    if (!err)
        err = &local;
    if (journal->cur)
        frames_make(journal, first_lsn, commit_count, body, &frames);
    pthread_mutex_lock(&journal->lock);
    enum rc rc;
    if (journal->read_only)
        rc = read_only_error(journal, err);
    else
        rc = write_turn(journal, &frames, last_lsn, err);
    if (rc == RC_OK) {
        bool full = journal->cur->len >= journal->options.segment_bytes || journal->rotate_asked;
        if (full && journal->spare && may_begin(journal)) {
            enum rc begun = begin(journal, &local);
            (void)begun; /* otherwise the segment grows, and the next turn tries again */
        }
        wake = thread_is_needed(journal);
    } else if (rc == RC_FULL) {
        journal->disk_low = true;
    }
    pthread_mutex_unlock(&journal->lock);
    if (wake)
        pthread_cond_signal(&journal->work);
    return rc;
}

uint64_t journal_segment(const struct journal *journal)
{
    return journal->number;
}

uint64_t journal_rotate(struct journal *journal)
{
    struct err ignored = {0};

    pthread_mutex_lock(&journal->lock);
    if (!journal->cur || journal->cur->frame_count == 0) {
        uint64_t before = journal->number - 1;
        pthread_mutex_unlock(&journal->lock);
        return before;
    }
    uint64_t number = journal->number;
    journal->rotate_asked = true;
    /* While the next file is being made, a directory sync, nobody waits for it: the thread tells
     * when it is there. */
    if (!journal->preparing && may_begin(journal)) {
        enum rc rc = begin(journal, &ignored);
        (void)rc; /* asked for again by the next journal_write() or journal_rotate() */
    }
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->lock);
    return number;
}

void journal_sync_ask(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    journal->sync_asked = true;
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->lock);
}

void journal_durability_set(struct journal *journal, enum durability durability)
{
    pthread_mutex_lock(&journal->lock);
    journal->durability = durability;
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(&journal->lock);
}

/* Writes broken segments again, oldest first. */
static enum rc repair_broken(struct journal *journal, struct err *err)
{
    enum rc rc = RC_OK;
    if (journal->prev && journal->prev->broken) {
        rc = journal__rewrite(journal, journal->prev, err);
        if (rc == RC_OK)
            journal__seal(journal);
    }
    if (rc == RC_OK && journal->cur && journal->cur->broken) {
        rc = journal__sync_prev(journal, err);
        if (rc == RC_OK)
            rc = journal__rewrite(journal, journal->cur, err);
    }
    return rc;
}

enum rc journal_retry(struct journal *journal, struct err *err)
{
    struct err local = {0};

    pthread_mutex_lock(&journal->lock);
    enum rc rc = RC_OK;
    if (journal->read_only) {
        journal__io_wait(journal);
        rc = journal->cur ? repair_broken(journal, &local) : begin(journal, &local);
        if (rc == RC_OK) {
            journal->read_only = false;
            journal->stats.reason[0] = '\0';
            journal->notify_due = true;
        } else {
            if (rc == RC_FULL) /* for the next time: what is written again is a segment */
                journal__reserve_take(journal, journal->options.segment_bytes);
            journal__read_only_set(journal, local.text);
            rc = err_set(err, rc, "%s", local.text);
        }
        pthread_cond_signal(&journal->work);
    }
    pthread_mutex_unlock(&journal->lock);
    return rc;
}

/* State. */

void journal_status(struct journal *journal, struct journal_status *ret_status)
{
    pthread_mutex_lock(&journal->lock);
    *ret_status = journal->stats;
    ret_status->written_lsn = journal->last_lsn;
    ret_status->durable_lsn = journal->durable_lsn;
    ret_status->segment_number = journal->number;
    ret_status->segment_bytes = journal->cur ? journal->cur->len : 0;
    ret_status->unsynced_bytes = unsynced_bytes(journal);
    ret_status->sealed_count = journal->sealed_count;
    ret_status->sealed_bytes = journal->sealed_bytes;
    ret_status->disk_low = journal->disk_low;
    ret_status->read_only = journal->read_only;
    pthread_mutex_unlock(&journal->lock);
}

uint64_t journal_durable_lsn(const struct journal *journal)
{
    return journal->durable_lsn;
}

bool journal_disk_low(const struct journal *journal)
{
    return journal->disk_low;
}

bool journal_read_only(const struct journal *journal)
{
    return journal->read_only;
}

void journal_step(struct journal *journal, bool *ret_worked)
{
    ASSERT(journal->options.manual);
    pthread_mutex_lock(&journal->lock);
    *ret_worked = journal__work(journal);
    notify_if_due(journal);
    pthread_mutex_unlock(&journal->lock);
}

// SPDX-License-Identifier: Apache-2.0
/* recover.c - reads the segments of a journal after the process has ended.
 *
 * What is decided, for segment N that ends at offset t (the end of its last good turn):
 *   (1) A bad frame in N below a synced-up-to mark of a later frame of N: damage at N, t.
 *   (2) N+1's header names the length and the chain of N. If both fit, N is whole, whatever is
 *       behind t: it is cut.
 *   (3) N+1 expects more of N than is there. If a frame of N+1 has a mark above zero, or N+2 has
 *       been begun, N was synced whole: damage at N, t. Otherwise neither N's end nor N+1 was ever
 *       durable: N is cut at t, N+1 and what follows are dropped.
 *   (4) N+1's header is torn as a power cut tears it (a part is missing or zero) and no frame
 *       behind it has a mark above zero: it was never durable and is dropped, unless (3) says of
 *       N+2 that N+1 was whole. A header that is bad in another way is damage at N+1, 0.
 *   (5) A last segment without frames carries nothing and is dropped, so its number is used again:
 *       also one whose header does not fit what was read or flushed before it, because its begin
 *       was taken back and a power cut brought it again, unless a frame of any salt has a mark.
 *   (6) Everything else that does not fit (number, store, chain) is damage at N+1, 0.
 *   (7) The record (journal_record.h) says how much of one segment was synced, whatever its frames
 *       say. If less of it can be read, that is damage there, and it proves that the segment before
 *       is whole.
 * What is cut by (3), and the torn end of the last segment, is kept in lost/. Dropping goes from
 * the last segment back, each removal synced, so that no gap appears if it is interrupted. */
#include "store/journal/recover.h"

#include <stdio.h>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "store/journal/journal_int.h"
#include "store/journal/journal_record.h"

#include "base/banned.h"

enum {
    SECTOR_BYTES = 512,
    LOST_NAMES_MAX = 1000,
    MOVE_BYTES = 1024 * 1024,
    UNPROVEN_SEGMENTS = 3, /* the last two, and an empty one that was prepared */
    REASON_BYTES = 256,
};

struct end_state { /* what the next segment's header has to say about those before it */
    uint64_t bytes;
    uint64_t lsn;
    uint32_t chain;
};

struct recovery {
    const struct journal_recover_options *options;
    struct files *files;
    uint64_t *number; /* segments above the mark, ascending */
    size_t count;
    size_t cap;
    struct end_state before; /* of the last segment that was read */
    struct end_state end;
    size_t read_count;    /* number[0 .. read_count) were read and are good up to their ends */
    uint64_t frame_count; /* turns of the last of them */
    uint64_t synced;      /* the greatest mark in it */
    uint64_t lost_count;  /* turns behind its end */
    bool torn;            /* and something is there */
    struct journal_record record;
    bool done;  /* what follows was dropped or moved */
    bool moved; /* by a repair */
};

static void path_of(const struct recovery *recovery, uint64_t number, char to[PATH_BYTES_MAX])
{
    segment_path(to, recovery->options->dir, number);
}

static enum rc remove_synced(struct recovery *recovery, uint64_t number, struct err *err)
{
    char path[PATH_BYTES_MAX];
    path_of(recovery, number, path);
    enum rc rc = files_remove(recovery->files, path, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    return files_sync_dir(recovery->files, recovery->options->dir, err);
}

/* Writes the bytes [from, to) over themselves. */
static enum rc write_again(struct file *file, uint64_t from, uint64_t to, struct err *err)
{
    uint8_t *part = mem_alloc(MOVE_BYTES);
    enum rc rc = RC_OK;

    while (rc == RC_OK && from < to) {
        size_t len = to - from < MOVE_BYTES ? (size_t)(to - from) : MOVE_BYTES;
        size_t got = 0;
        rc = file_read(file, from, part, len, &got, err);
        if (rc == RC_OK && got < len)
            rc = err_set(err, RC_IO, "\"%s\" became shorter while it was read", file->path);
        if (rc == RC_OK)
            rc = file_write(file, from, bytes_of(part, len), err);
        from += len;
    }
    mem_free(part);
    return rc;
}

/* Cuts number[index] to its good length and makes it durable: after the end of a process its last
 * turns may be in the page cache only. If a sync of theirs has failed they are clean there, and the
 * next sync says yes without writing them: so what no mark covers is written again. */
static enum rc tail_make_durable(struct recovery *recovery, size_t index, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    uint64_t len = recovery->end.bytes;
    uint64_t size = 0;

    path_of(recovery, recovery->number[index], path);
    enum rc rc = file_open(recovery->files, path, FILE_READ | FILE_WRITE, &file, err);
    if (rc != RC_OK)
        return rc;
    rc = file_size(file, &size, err);
    if (rc == RC_OK && size > len)
        rc = file_truncate(file, len, err);
    if (rc == RC_OK && index + UNPROVEN_SEGMENTS >= recovery->count)
        rc = write_again(file, recovery->synced, len, err);
    if (rc == RC_OK)
        rc = file_sync(file, err);
    return rc;
}

/* Moving what is damaged. */

/* A name in lost/ that tells segment and offset and is not in use. */
static enum rc lost_path(struct recovery *recovery, uint64_t number, uint64_t offset,
                         char to[PATH_BYTES_MAX + 64], struct err *err)
{
    char parent[PATH_BYTES_MAX], dir[PATH_BYTES_MAX + 8];

    journal__parent_path(parent, recovery->options->dir);
    snprintf(dir, sizeof dir, "%s/lost", parent);
    enum rc rc = files_make_dir(recovery->files, dir, err);
    if (rc == RC_OK)
        rc = files_sync_dir(recovery->files, parent, err);
    if (rc != RC_OK)
        return rc;
    for (int i = 0; i < LOST_NAMES_MAX; i++) {
        CLEANUP(file_closep) struct file *file = NULL;
        snprintf(to, PATH_BYTES_MAX + 64, "%s/%016llx.seg.at-%llu%s%.0d", dir,
                 (unsigned long long)number, (unsigned long long)offset, i ? "." : "", i);
        struct err ignored = {0};
        rc = file_open(recovery->files, to, FILE_READ, &file, &ignored);
        if (rc == RC_NOT_FOUND)
            return RC_OK;
    }
    return err_set(err, RC_IO, "could not find a free name in \"%s\"", dir);
}

static enum rc lost_sync(struct recovery *recovery, struct err *err)
{
    char parent[PATH_BYTES_MAX], dir[PATH_BYTES_MAX + 8];
    journal__parent_path(parent, recovery->options->dir);
    snprintf(dir, sizeof dir, "%s/lost", parent);
    return files_sync_dir(recovery->files, dir, err);
}

static void report(struct recovery *recovery, const char *from, uint64_t offset, const char *to)
{
    struct buf *text = recovery->options->report;
    if (!text)
        return;
    bool added = buf_printf(text, "\"%s\" from offset %llu on was moved to \"%s\"\n", from,
                            (unsigned long long)offset, to);
    (void)added; /* full: the names in lost/ say the same */
}

static enum rc copy_tail(struct recovery *recovery, const char *from, uint64_t offset,
                         const char *to, struct err *err)
{
    CLEANUP(file_closep) struct file *source = NULL;
    CLEANUP(file_closep) struct file *target = NULL;
    uint8_t *part = mem_alloc(MOVE_BYTES);
    uint64_t at = offset;
    size_t got = 0;

    enum rc rc = file_open(recovery->files, from, FILE_READ, &source, err);
    if (rc == RC_OK)
        rc =
            file_open(recovery->files, to, FILE_WRITE | FILE_CREATE | FILE_EXCLUSIVE, &target, err);
    while (rc == RC_OK) {
        rc = file_read(source, at, part, MOVE_BYTES, &got, err);
        if (rc != RC_OK || got == 0)
            break;
        rc = file_write(target, at - offset, bytes_of(part, got), err);
        at += got;
    }
    if (rc == RC_OK)
        rc = file_sync(target, err);
    mem_free(part);
    return rc;
}

/* Moves number[index] from the offset on; the rest of the file stays until
 * tail_make_durable() cuts it. */
static enum rc move_one(struct recovery *recovery, size_t index, uint64_t offset, struct err *err)
{
    char from[PATH_BYTES_MAX], to[PATH_BYTES_MAX + 64];

    path_of(recovery, recovery->number[index], from);
    enum rc rc = lost_path(recovery, recovery->number[index], offset, to, err);
    if (rc != RC_OK)
        return rc;
    if (offset == 0)
        rc = files_rename(recovery->files, from, to, err);
    else
        rc = copy_tail(recovery, from, offset, to, err);
    if (rc == RC_OK)
        rc = lost_sync(recovery, err);
    if (rc == RC_OK && offset == 0)
        rc = files_sync_dir(recovery->files, recovery->options->dir, err);
    if (rc == RC_OK)
        report(recovery, from, offset, to);
    return rc;
}

static enum rc size_of(struct recovery *recovery, size_t index, uint64_t *ret_size, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];

    *ret_size = 0;
    if (index >= recovery->count)
        return RC_OK;
    path_of(recovery, recovery->number[index], path);
    enum rc rc = file_open(recovery->files, path, FILE_READ, &file, err);
    if (rc == RC_OK)
        rc = file_size(file, ret_size, err);
    return rc;
}

/* Keeps what is cut off in lost/, from the offset on, and tells. Without disk it is only told. */
static enum rc cut_keep(struct recovery *recovery, size_t index, uint64_t offset,
                        uint64_t turn_count, struct err *err)
{
    struct journal_cut cut = {
        .segment = recovery->number[index], .offset = offset, .turn_count = turn_count};
    struct err ignored = {0};
    char from[PATH_BYTES_MAX];
    uint64_t size = 0;

    enum rc rc = size_of(recovery, index, &size, err);
    if (rc != RC_OK)
        return rc;
    cut.bytes = size - offset;
    path_of(recovery, cut.segment, from);
    rc = lost_path(recovery, cut.segment, offset, cut.kept, &ignored);
    if (rc == RC_OK)
        rc = copy_tail(recovery, from, offset, cut.kept, &ignored);
    if (rc == RC_OK)
        rc = lost_sync(recovery, &ignored);
    if (rc == RC_OK) {
        report(recovery, from, offset, cut.kept);
    } else {
        enum rc removed = files_remove(recovery->files, cut.kept, &ignored);
        (void)removed;
        cut.kept[0] = '\0';
    }
    if (recovery->options->cut)
        recovery->options->cut(&cut, recovery->options->arg);
    return RC_OK;
}

/* The turns of number[index], as many as there are up to a bad one and behind it. */
static enum rc turns_count(struct recovery *recovery, size_t index, uint64_t *ret_count,
                           struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    struct segment_turn turn;
    char path[PATH_BYTES_MAX];

    *ret_count = 0;
    path_of(recovery, recovery->number[index], path);
    enum rc rc = segment_open(recovery->files, path, &reader, err);
    if (rc == RC_CORRUPT || rc == RC_NOT_FOUND)
        return RC_OK; /* without a header nothing in it can be recognized */
    while (rc == RC_OK && (rc = segment_next(reader, &turn, err)) == RC_OK)
        (*ret_count)++;
    if (rc != RC_NOT_FOUND)
        return rc;
    *ret_count += segment_reader_lost_count(reader);
    return RC_OK;
}

/* number[from ..] were never durable. */
static enum rc drop_from(struct recovery *recovery, size_t from, struct err *err)
{
    while (recovery->count > from) {
        uint64_t turn_count = 0;
        enum rc rc = turns_count(recovery, recovery->count - 1, &turn_count, err);
        if (rc == RC_OK && turn_count > 0)
            rc = cut_keep(recovery, recovery->count - 1, 0, turn_count, err);
        if (rc == RC_OK)
            rc = remove_synced(recovery, recovery->number[recovery->count - 1], err);
        if (rc != RC_OK)
            return rc;
        recovery->count--;
    }
    recovery->done = true;
    return RC_OK;
}

/* (7): what was synced of the segment; 0: nothing is known. A header of another salt was begun
 * later, by a program that does not know the record. */
static uint64_t recorded_bytes(const struct recovery *recovery, size_t index,
                               const struct segment_header *header)
{
    const struct journal_record *record = &recovery->record;
    if (index >= recovery->count || record->number != recovery->number[index] ||
        (header && header->salt != record->salt))
        return 0;
    return record->bytes;
}

/* What is durable is not whole, from this offset of number[index] on. */
static enum rc damage(struct recovery *recovery, size_t index, uint64_t offset, const char *why,
                      struct err *err)
{
    char path[PATH_BYTES_MAX], parent[PATH_BYTES_MAX];

    if (!recovery->options->repair) {
        path_of(recovery, recovery->number[index], path);
        journal__parent_path(parent, recovery->options->dir);
        return err_set(err, RC_CORRUPT,
                       "the journal is damaged: \"%s\" at offset %llu: %s; to move what follows "
                       "to \"%s/lost\" run: terrace repair %s",
                       path, (unsigned long long)offset, why, parent, parent);
    }
    enum rc rc = RC_OK;
    recovery->moved = true;
    if (offset > 0)
        rc = move_one(recovery, index, offset, err);
    size_t from = offset > 0 ? index + 1 : index;
    while (rc == RC_OK && recovery->count > from) {
        rc = move_one(recovery, recovery->count - 1, 0, err);
        if (rc == RC_OK)
            recovery->count--;
    }
    recovery->done = true;
    return rc;
}

/* Telling a torn header from a damaged one. */

/* Whether a frame anywhere in the file claims that a part was synced. The salt may be among what is
 * damaged, so checksums cannot help: a look-alike in a value leads to a refusal, not to a loss. */
static bool claims_sync(struct bytes bytes)
{
    const uint8_t *at = bytes.ptr;
    const uint8_t *end = bytes.ptr + bytes.len;

    while ((size_t)(end - at) >= FRAME_HEADER_BYTES) {
        at = memmem(at, (size_t)(end - at), FRAME_MAGIC, 4);
        if (!at || (size_t)(end - at) < FRAME_HEADER_BYTES)
            return false;
        uint32_t body_len = le32_get(at + 4);
        uint64_t synced = le64_get(at + 24);
        if (body_len > 0 && body_len <= JOURNAL_FRAME_BODY_BYTES_MAX && le32_get(at + 16) > 0 &&
            le32_get(at + 20) <= FRAME_MORE && synced > 0 && synced <= (uint64_t)(at - bytes.ptr))
            return true;
        at++;
    }
    return false;
}

static bool is_zero(const uint8_t *at, size_t len)
{
    return len == 0 || (at[0] == 0 && memcmp(at, at + 1, len - 1) == 0);
}

/* Whether a header with a wrong checksum looks as a power cut leaves one that was never synced: it
 * ends early, a sector is zero, or its last bytes are. */
static bool looks_torn(struct bytes bytes)
{
    if (bytes.len < SEGMENT_FIXED_BYTES + 4)
        return true;
    uint32_t counters_len = le32_get(bytes.ptr + 68);
    if (counters_len > JOURNAL_HEADER_BYTES_MAX)
        return false;
    size_t len = SEGMENT_FIXED_BYTES + (size_t)counters_len;
    if (bytes.len < len + 4)
        return true;
    for (size_t at = 0; at + SECTOR_BYTES <= len; at += SECTOR_BYTES) {
        if (is_zero(bytes.ptr + at, SECTOR_BYTES))
            return true;
    }
    uint8_t crc[4];
    le32_put(crc, crc32c(0, bytes.ptr, len));
    size_t match = 0;
    while (match < 4 && bytes.ptr[len + match] == crc[match])
        match++;
    return is_zero(bytes.ptr + len + match, 4 - match);
}

/* What a segment looks like without its salt: whether its header is torn, and whether a frame
 * claims a sync. */
static enum rc segment_looks(struct recovery *recovery, const char *path, bool *ret_torn,
                             bool *ret_claims, struct err *err)
{
    CLEANUP(file_closep) struct file *file = NULL;
    uint64_t size = 0;

    enum rc rc = file_open(recovery->files, path, FILE_READ, &file, err);
    if (rc == RC_OK)
        rc = file_size(file, &size, err);
    if (rc != RC_OK)
        return rc;
    uint8_t *bytes = mem_try_alloc((size_t)size);
    if (!bytes)
        return err_set(err, RC_NOMEM, "could not allocate %llu bytes to look at \"%s\"",
                       (unsigned long long)size, path);
    size_t got = 0;
    rc = file_read(file, 0, bytes, (size_t)size, &got, err);
    if (rc == RC_OK) {
        *ret_torn = looks_torn(bytes_of(bytes, got));
        *ret_claims = claims_sync(bytes_of(bytes, got));
    }
    mem_free(bytes);
    return rc;
}

/* Whether number[index], if there is one, proves that the segment before it is whole on disk: a
 * frame of it says so, or the segment after it has been begun (3). */
static enum rc proves_before(struct recovery *recovery, size_t index, bool *ret_proves,
                             struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    struct segment_turn turn;
    char path[PATH_BYTES_MAX];
    uint64_t size = 0;

    *ret_proves = false;
    if (index >= recovery->count)
        return RC_OK;
    enum rc rc = size_of(recovery, index + 1, &size, err);
    if (rc != RC_OK)
        return rc;
    if (size > 0 || recorded_bytes(recovery, index, NULL) > 0) {
        *ret_proves = true;
        return RC_OK;
    }
    path_of(recovery, recovery->number[index], path);
    rc = segment_open(recovery->files, path, &reader, err);
    if (rc == RC_CORRUPT) {
        bool torn = false, claims = false;
        rc = segment_looks(recovery, path, &torn, &claims, err);
        *ret_proves = !torn || claims;
        return rc;
    }
    while (rc == RC_OK)
        rc = segment_next(reader, &turn, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    *ret_proves = segment_reader_synced(reader) > 0;
    return RC_OK;
}

/* Reading. */

static enum rc bad_header(struct recovery *recovery, size_t index, const char *path,
                          const char *why, struct err *err)
{
    bool torn = false, claims = false, proves = false;

    enum rc rc = segment_looks(recovery, path, &torn, &claims, err);
    torn = torn && !claims && recorded_bytes(recovery, index, NULL) == 0;
    if (rc == RC_OK && torn)
        rc = proves_before(recovery, index + 1, &proves, err);
    if (rc != RC_OK)
        return rc;
    if (torn && !proves)
        return drop_from(recovery, index, err); /* (4) */
    return damage(recovery, index, 0, why, err);
}

/* Why this segment cannot stand here; NULL: it can, if the chain fits. */
static const char *why_foreign(const struct recovery *recovery, size_t index,
                               const struct segment_header *header)
{
    if (memcmp(header->uuid, recovery->options->uuid, sizeof header->uuid) != 0)
        return "it belongs to another store";
    if (header->number != recovery->number[index])
        return "its number is not that of its name";
    return NULL;
}

static bool chain_fits(const struct recovery *recovery, size_t index,
                       const struct segment_header *header)
{
    return index == 0 || (header->bytes_before == recovery->end.bytes &&
                          header->chain_before == recovery->end.chain &&
                          header->last_lsn_before == recovery->end.lsn);
}

/* The header speaks of another end of what was before: (5) if its begin was taken back and written
 * again, and a power cut brought the old one back; else damage. */
static enum rc stale_begin(struct recovery *recovery, size_t index, struct segment_reader *reader,
                           const char *why, struct err *err)
{
    struct segment_turn turn;
    char path[PATH_BYTES_MAX];
    bool torn, claims = false;
    uint64_t size = 0;

    enum rc rc = segment_next(reader, &turn, err);
    bool empty = rc == RC_NOT_FOUND && segment_reader_synced(reader) == 0;
    path_of(recovery, recovery->number[index], path);
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = size_of(recovery, index + 1, &size, err);
    if (rc == RC_OK && empty) /* of the second begin: its salt is another */
        rc = segment_looks(recovery, path, &torn, &claims, err);
    if (rc != RC_OK)
        return rc;
    if (empty && !claims && size == 0)
        return drop_from(recovery, index, err);
    return damage(recovery, index, 0, why, err);
}

static enum rc misfit(struct recovery *recovery, size_t index, struct segment_reader *reader,
                      struct err *err)
{
    bool proves = false;

    if (segment_reader_header(reader)->bytes_before > recovery->end.bytes) { /* (3) */
        enum rc rc = proves_before(recovery, index, &proves, err);
        if (rc != RC_OK)
            return rc;
        if (!proves)
            return drop_from(recovery, index, err);
        return damage(recovery, index - 1, recovery->end.bytes,
                      "the segment after it was begun when it was longer", err);
    }
    return stale_begin(recovery, index, reader, "it does not follow the segment before it", err);
}

/* number[index - 1] is whole up to where reading ended. */
static enum rc confirm_before(struct recovery *recovery, size_t index, struct err *err)
{
    if (index == 0)
        return RC_OK;
    uint64_t number = recovery->number[index - 1];
    if (recovery->frame_count > 0 && recovery->options->sealed) {
        struct journal_sealed sealed = {
            .number = number, .bytes = recovery->end.bytes, .last_lsn = recovery->end.lsn};
        recovery->options->sealed(&sealed, recovery->options->arg);
    }
    return tail_make_durable(recovery, index - 1, err);
}

static enum rc read_turns(struct recovery *recovery, size_t index, struct segment_reader *reader,
                          struct err *err)
{
    const struct journal_recover_options *options = recovery->options;
    const struct segment_header *header = segment_reader_header(reader);
    struct segment_turn turn;
    enum rc rc;

    recovery->before =
        (struct end_state){header->bytes_before, header->last_lsn_before, header->chain_before};
    recovery->frame_count = 0;
    while ((rc = segment_next(reader, &turn, err)) == RC_OK) {
        recovery->frame_count++;
        if (options->turn)
            rc = options->turn(&turn, recovery->number[index], options->arg, err);
        if (rc != RC_OK)
            return rc;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    recovery->end =
        (struct end_state){segment_reader_offset(reader), segment_reader_last_lsn(reader),
                           segment_reader_chain(reader)};
    recovery->read_count = index + 1;
    recovery->synced = segment_reader_synced(reader);
    recovery->torn = segment_reader_end(reader) == SEGMENT_END_TORN;
    recovery->lost_count = segment_reader_lost_count(reader);
    uint64_t recorded = recorded_bytes(recovery, index, header);
    if (segment_reader_end(reader) == SEGMENT_END_DAMAGED) /* (1) */
        return damage(recovery, index, recovery->end.bytes, segment_reader_reason(reader), err);
    if (recorded > recovery->end.bytes) { /* (7) */
        char why[REASON_BYTES];
        snprintf(why, sizeof why, "%llu bytes of it were on disk%s%.120s",
                 (unsigned long long)recorded, recovery->torn ? ", and " : "",
                 recovery->torn ? segment_reader_reason(reader) : "");
        return damage(recovery, index, recovery->end.bytes, why, err);
    }
    return RC_OK;
}

static enum rc read_segment(struct recovery *recovery, size_t index, struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = NULL;
    struct err open_err = {0};
    char path[PATH_BYTES_MAX];

    path_of(recovery, recovery->number[index], path);
    enum rc rc = segment_open(recovery->files, path, &reader, &open_err);
    if (rc == RC_CORRUPT)
        return bad_header(recovery, index, path, open_err.text, err);
    if (rc != RC_OK)
        return err_set(err, rc, "%s", open_err.text);
    const char *why = why_foreign(recovery, index, segment_reader_header(reader));
    if (why)
        return damage(recovery, index, 0, why, err); /* (6) */
    if (index == 0 && segment_reader_header(reader)->last_lsn_before < recovery->options->mark_lsn)
        return stale_begin(recovery, index, reader, "it begins before what was flushed", err);
    if (!chain_fits(recovery, index, segment_reader_header(reader)))
        return misfit(recovery, index, reader, err);
    rc = confirm_before(recovery, index, err); /* (2) */
    if (rc != RC_OK)
        return rc;
    return read_turns(recovery, index, reader, err);
}

static enum rc list_name(const char *name, void *arg, struct err *err)
{
    struct recovery *recovery = arg;
    uint64_t number = 0;

    (void)err;
    if (segment_name_parse(name, &number) != RC_OK)
        return RC_OK;
    if (recovery->count == recovery->cap) {
        recovery->cap = recovery->cap ? 2 * recovery->cap : 64;
        recovery->number = mem_realloc(recovery->number, recovery->cap * sizeof number);
    }
    recovery->number[recovery->count++] = number; /* names come in order, so numbers do */
    return RC_OK;
}

/* Removes what the engine has, and finds the first gap. */
static enum rc list_prepare(struct recovery *recovery, struct err *err)
{
    uint64_t mark = recovery->options->mark_segment;
    size_t old_count = 0;
    char path[PATH_BYTES_MAX];

    while (old_count < recovery->count && recovery->number[old_count] <= mark) {
        path_of(recovery, recovery->number[old_count], path);
        enum rc rc = files_remove(recovery->files, path, err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        old_count++;
    }
    recovery->count -= old_count;
    if (recovery->count > 0)
        memmove(recovery->number, recovery->number + old_count,
                recovery->count * sizeof *recovery->number);
    for (size_t i = 0; i < recovery->count; i++) {
        char why[64];
        uint64_t expected = mark + 1 + i;
        if (recovery->number[i] == expected)
            continue;
        snprintf(why, sizeof why, "segment %016llx before it is missing",
                 (unsigned long long)expected);
        return damage(recovery, i, 0, why, err);
    }
    return RC_OK;
}

/* (7): a segment that was durable is not there. */
static enum rc record_present(struct recovery *recovery, struct err *err)
{
    const struct journal_record *record = &recovery->record;
    char path[PATH_BYTES_MAX], parent[PATH_BYTES_MAX];

    if (record->number <= recovery->options->mark_segment ||
        (recovery->count > 0 && record->number <= recovery->number[recovery->count - 1]))
        return RC_OK;
    recovery->moved = recovery->options->repair;
    if (recovery->options->repair)
        return RC_OK;
    path_of(recovery, record->number, path);
    journal__parent_path(parent, recovery->options->dir);
    return err_set(err, RC_CORRUPT,
                   "the journal is damaged: \"%s\" is missing, of which %llu bytes were on disk; "
                   "put it back, or give it up with: terrace repair %s",
                   path, (unsigned long long)record->bytes, parent);
}

static enum rc record_remove(struct recovery *recovery, struct err *err)
{
    char path[PATH_BYTES_MAX];
    journal_record_path(path, recovery->options->dir);
    enum rc rc = files_remove(recovery->files, path, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc; /* finish() syncs the directory */
}

/* The last segment was read to its end. */
static enum rc finish(struct recovery *recovery, struct journal_start *ret_start, struct err *err)
{
    size_t count = recovery->read_count;
    if (count > recovery->count)
        count = recovery->count;
    struct journal_start start = {
        .next_number = recovery->options->mark_segment + count + 1,
        .last_lsn = recovery->options->mark_lsn,
    };
    enum rc rc = RC_OK;
    if (count > 0 && recovery->torn && !recovery->moved)
        rc = cut_keep(recovery, count - 1, recovery->end.bytes, recovery->lost_count, err);
    if (rc != RC_OK)
        return rc;
    if (count > 0 && recovery->frame_count == 0) { /* (5) */
        rc = remove_synced(recovery, recovery->number[count - 1], err);
        start.next_number--;
        recovery->end = recovery->before;
    } else if (count > 0) {
        rc = confirm_before(recovery, count, err);
    }
    if (rc == RC_OK)
        rc = files_sync_dir(recovery->files, recovery->options->dir, err);
    if (rc != RC_OK)
        return rc;
    if (count > 0) {
        start.last_lsn = recovery->end.lsn;
        start.bytes_before = recovery->end.bytes;
        start.chain_before = recovery->end.chain;
    }
    *ret_start = start;
    return RC_OK;
}

enum rc journal_recover(const struct journal_recover_options *options,
                        struct journal_start *ret_start, struct err *err)
{
    struct recovery recovery = {.options = options, .files = options->files};

    enum rc rc = files_make_dir(options->files, options->dir, err);
    if (rc == RC_OK)
        rc = files_list(options->files, options->dir, list_name, &recovery, err);
    if (rc == RC_OK)
        rc = list_prepare(&recovery, err);
    if (rc == RC_OK)
        rc =
            journal_record_read(options->files, options->dir, options->uuid, &recovery.record, err);
    if (rc == RC_OK)
        rc = record_present(&recovery, err);
    recovery.done = false; /* what is before a gap is still to be read */
    for (size_t i = 0; rc == RC_OK && !recovery.done && i < recovery.count; i++)
        rc = read_segment(&recovery, i, err);
    if (rc == RC_OK && recovery.moved) /* (7): it speaks of what is not there any more */
        rc = record_remove(&recovery, err);
    if (rc == RC_OK)
        rc = finish(&recovery, ret_start, err);
    mem_free(recovery.number);
    return rc;
}

struct following {
    uint64_t first, next; /* the first segment that is needed; the one after those that are there */
    bool gap;
};

static enum rc follow_name(const char *name, void *arg, struct err *err)
{
    struct following *following = arg;
    uint64_t number;

    (void)err;
    if (segment_name_parse(name, &number) != RC_OK || number < following->first)
        return RC_OK;
    following->gap = following->gap || number != following->next;
    following->next += !following->gap;
    return RC_OK;
}

enum rc journal_follows(struct files *files, const char *dir, const uint8_t uuid[16],
                        uint64_t mark_segment, struct err *err)
{
    struct following following = {.first = mark_segment + 1, .next = mark_segment + 1};
    struct journal_record record = {0};

    enum rc rc = files_list(files, dir, follow_name, &following, err);
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = journal_record_read(files, dir, uuid, &record, err);
    if (rc != RC_OK)
        return rc;
    bool none = following.next == following.first && mark_segment > 0;
    if (following.gap || none || record.number >= following.next)
        return err_set(err, RC_CORRUPT, "the journal has no segment %016llx any more",
                       (unsigned long long)following.next);
    return RC_OK;
}

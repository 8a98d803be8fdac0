// SPDX-License-Identifier: Apache-2.0
/* segment.c - encodes segment and frame headers, reads segments back.
 *
 * Invariants of the reader:
 *   (1) Nothing of a frame is used before its header's CRC matched, nothing of a body before the
 *       body's CRC matched. A turn is given out only when all its frames are good.
 *   (2) `offset` is the end of the last good turn; `chain` and `last_lsn` belong to exactly that.
 *   (3) Once `end` is set nothing more is read.
 *
 * A header found beyond a bad frame is believed because its CRC is seeded with the segment's salt:
 * journal bytes of another segment or store inside a value do not match. Bytes of this very segment
 * do, but the mark they carry is not above the offset that they were written at first. */
#include "store/journal/segment.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    SEGMENT_CRC_BYTES = 4,
    WINDOW_BYTES = 1024 * 1024, /* read at once; more only for a frame that is larger */
    REASON_BYTES = 160,
};

static const uint8_t segment_magic[8] = SEGMENT_MAGIC;
static const uint8_t frame_magic[4] = FRAME_MAGIC;

struct segment_reader {
    struct file *file;
    struct segment_header header;
    uint8_t *counters; /* owned copy; header.counters borrows it */
    uint64_t size;     /* of the file */
    uint8_t *window;   /* bytes [window_at, window_at + window_len) of the file */
    uint64_t window_at;
    size_t window_len;
    size_t window_cap;
    struct buf joined; /* body of a turn of several frames */
    uint64_t offset;   /* (2) */
    uint32_t chain;
    uint64_t last_lsn;
    uint64_t synced;
    uint64_t lost_count;
    enum segment_end end;
    char reason[REASON_BYTES];
};

/* Encoding. */

bool segment_header_add(const struct segment_header *header, struct buf *to)
{
    ASSERT(header->counters.len <= JOURNAL_HEADER_BYTES_MAX);
    size_t len = SEGMENT_FIXED_BYTES + header->counters.len;
    if (!buf_reserve(to, len + SEGMENT_CRC_BYTES))
        return false;

    uint8_t *at = to->ptr + to->len;
    memcpy(at, segment_magic, sizeof segment_magic);
    le32_put(at + 8, header->format);
    le32_put(at + 12, header->features);
    memcpy(at + 16, header->uuid, sizeof header->uuid);
    le32_put(at + 32, header->incarnation);
    le32_put(at + 36, header->salt);
    le64_put(at + 40, header->number);
    le64_put(at + 48, header->last_lsn_before);
    le64_put(at + 56, header->bytes_before);
    le32_put(at + 64, header->chain_before);
    le32_put(at + 68, (uint32_t)header->counters.len);
    if (header->counters.len)
        memcpy(at + SEGMENT_FIXED_BYTES, header->counters.ptr, header->counters.len);
    le32_put(at + len, crc32c(0, at, len));
    to->len += len + SEGMENT_CRC_BYTES;
    return true;
}

void frame_header_put(uint8_t to[FRAME_HEADER_BYTES], const struct frame_header *frame,
                      struct bytes body, uint32_t salt, uint32_t *ret_crc)
{
    ASSERT(body.len <= JOURNAL_FRAME_BODY_BYTES_MAX);
    memcpy(to, frame_magic, sizeof frame_magic);
    le32_put(to + 4, (uint32_t)body.len);
    le64_put(to + 8, frame->first_lsn);
    le32_put(to + 16, frame->commit_count);
    le32_put(to + 20, frame->flags);
    le64_put(to + 24, frame->synced_bytes);
    le32_put(to + 32, crc32c(salt, body.ptr, body.len));
    uint32_t crc = crc32c(salt, to, FRAME_HEADER_BYTES - 4);
    le32_put(to + 36, crc);
    *ret_crc = crc;
}

bool segment_counter_add(struct buf *to, struct bytes name, int64_t value)
{
    ASSERT(name.len <= STORE_COUNTER_NAME_BYTES_MAX);
    if (!buf_reserve(to, 1 + name.len + 8))
        return false;
    uint8_t *at = to->ptr + to->len;
    *at++ = (uint8_t)name.len;
    if (name.len)
        memcpy(at, name.ptr, name.len);
    le64_put(at + name.len, (uint64_t)value);
    to->len += 1 + name.len + 8;
    return true;
}

enum rc segment_counter_next(struct bytes *counters, struct bytes *ret_name, int64_t *ret_value,
                             struct err *err)
{
    if (counters->len == 0)
        return RC_NOT_FOUND;
    size_t name_len = counters->ptr[0];
    if (counters->len < 1 + name_len + 8)
        return err_set(err, RC_CORRUPT, "a counter in a segment header is cut");
    *ret_name = bytes_of(counters->ptr + 1, name_len);
    *ret_value = (int64_t)le64_get(counters->ptr + 1 + name_len);
    *counters = bytes_from(*counters, 1 + name_len + 8);
    return RC_OK;
}

/* Names. */

void segment_path(char to[PATH_BYTES_MAX], const char *dir, uint64_t number)
{
    snprintf(to, PATH_BYTES_MAX, "%s/%016llx.seg", dir, (unsigned long long)number);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum rc segment_name_parse(const char *name, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        int digit = hex_digit(name[i]);
        if (digit < 0)
            return RC_INVALID;
        number = number << 4 | (uint64_t)digit;
    }
    if (strcmp(name + 16, ".seg") != 0)
        return RC_INVALID;
    *ret_number = number;
    return RC_OK;
}

/* Reading. */

/* Makes `len` bytes at `at` stand in the window. *ret_at: NULL where the file is shorter. */
static enum rc window_need(struct segment_reader *reader, uint64_t at, size_t len,
                           const uint8_t **ret_at, struct err *err)
{
    *ret_at = NULL;
    if (at > reader->size || len > reader->size - at)
        return RC_OK;
    uint64_t window_end = reader->window_at + reader->window_len;
    if (at >= reader->window_at && at + len <= window_end) {
        *ret_at = reader->window + (at - reader->window_at);
        return RC_OK;
    }

    if (len > reader->window_cap) {
        uint8_t *window = mem_try_realloc(reader->window, len);
        if (!window)
            return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a frame", len);
        reader->window = window;
        reader->window_cap = len;
    }
    ASSERT(reader->window);
    size_t kept = 0;
    if (at >= reader->window_at && at < window_end) {
        kept = (size_t)(window_end - at);
        memmove(reader->window, reader->window + (at - reader->window_at), kept);
    }
    uint64_t left = reader->size - at - kept;
    size_t want = reader->window_cap - kept;
    size_t got = 0;
    if (want > left)
        want = (size_t)left;
    reader->window_at = at;
    reader->window_len = kept;
    enum rc rc = file_read(reader->file, at + kept, reader->window + kept, want, &got, err);
    if (rc != RC_OK)
        return rc;
    reader->window_len = kept + got;
    if (got < want) /* it became shorter behind our back */
        reader->size = at + reader->window_len;
    if (reader->window_len >= len)
        *ret_at = reader->window;
    return RC_OK;
}

static enum rc header_bad(struct segment_reader *reader, const char *why, struct err *err)
{
    return err_set(err, RC_CORRUPT, "the header of \"%s\" at offset 0 is damaged: %s",
                   reader->file->path, why);
}

static void header_decode(struct segment_reader *reader, const uint8_t *at, uint32_t counters_len)
{
    struct segment_header *header = &reader->header;
    header->format = le32_get(at + 8);
    header->features = le32_get(at + 12);
    memcpy(header->uuid, at + 16, sizeof header->uuid);
    header->incarnation = le32_get(at + 32);
    header->salt = le32_get(at + 36);
    header->number = le64_get(at + 40);
    header->last_lsn_before = le64_get(at + 48);
    header->bytes_before = le64_get(at + 56);
    header->chain_before = le32_get(at + 64);
    reader->counters = mem_dup(at + SEGMENT_FIXED_BYTES, counters_len);
    header->counters = bytes_of(reader->counters, counters_len);
}

static enum rc header_read(struct segment_reader *reader, struct err *err)
{
    const uint8_t *at;

    enum rc rc = window_need(reader, 0, SEGMENT_FIXED_BYTES, &at, err);
    if (rc != RC_OK)
        return rc;
    if (!at)
        return header_bad(reader, "it is cut", err);
    if (memcmp(at, segment_magic, sizeof segment_magic) != 0)
        return header_bad(reader, "it does not begin with " SEGMENT_MAGIC, err);
    uint32_t counters_len = le32_get(at + 68);
    if (counters_len > JOURNAL_HEADER_BYTES_MAX)
        return header_bad(reader, "its counters are over their limit", err);
    size_t len = SEGMENT_FIXED_BYTES + (size_t)counters_len;
    rc = window_need(reader, 0, len + SEGMENT_CRC_BYTES, &at, err);
    if (rc != RC_OK)
        return rc;
    if (!at)
        return header_bad(reader, "it is cut", err);
    uint32_t crc = le32_get(at + len);
    if (crc != crc32c(0, at, len))
        return header_bad(reader, "its checksum does not match", err);

    header_decode(reader, at, counters_len);
    if (reader->header.format != SEGMENT_FORMAT || reader->header.features != 0)
        return err_set(
            err, RC_VERSION, "\"%s\" has format %u and features 0x%x, this program knows format %d",
            reader->file->path, reader->header.format, reader->header.features, SEGMENT_FORMAT);
    reader->chain = crc32c(0, at + len, SEGMENT_CRC_BYTES);
    reader->last_lsn = reader->header.last_lsn_before;
    reader->offset = len + SEGMENT_CRC_BYTES;
    return RC_OK;
}

enum rc segment_open(struct files *files, const char *path, struct segment_reader **ret_reader,
                     struct err *err)
{
    CLEANUP(segment_closep) struct segment_reader *reader = mem_zalloc(sizeof *reader);

    buf_init(&reader->joined, STORE_COMMIT_BYTES_MAX);
    enum rc rc = file_open(files, path, FILE_READ, &reader->file, err);
    if (rc != RC_OK)
        return rc;
    rc = file_size(reader->file, &reader->size, err);
    if (rc != RC_OK)
        return rc;
    reader->window_cap = reader->size < WINDOW_BYTES ? (size_t)reader->size : WINDOW_BYTES;
    reader->window = mem_alloc(reader->window_cap);
    rc = header_read(reader, err);
    if (rc != RC_OK)
        return rc;

    *ret_reader = reader;
    reader = NULL;
    return RC_OK;
}

void segment_close(struct segment_reader *reader)
{
    if (!reader)
        return;
    file_close(reader->file);
    mem_free(reader->counters);
    mem_free(reader->window);
    buf_done(&reader->joined);
    mem_free(reader);
}

void segment_closep(struct segment_reader **reader)
{
    segment_close(*reader);
}

const struct segment_header *segment_reader_header(const struct segment_reader *reader)
{
    return &reader->header;
}

enum segment_end segment_reader_end(const struct segment_reader *reader)
{
    return reader->end;
}

uint64_t segment_reader_offset(const struct segment_reader *reader)
{
    return reader->offset;
}

uint32_t segment_reader_chain(const struct segment_reader *reader)
{
    return reader->chain;
}

uint64_t segment_reader_last_lsn(const struct segment_reader *reader)
{
    return reader->last_lsn;
}

uint64_t segment_reader_lost_count(const struct segment_reader *reader)
{
    return reader->lost_count;
}

uint64_t segment_reader_synced(const struct segment_reader *reader)
{
    return reader->synced;
}

const char *segment_reader_reason(const struct segment_reader *reader)
{
    return reader->reason;
}

/* What follows a bad frame. */

static bool is_zero(const uint8_t *at, size_t len)
{
    return len == 0 || (at[0] == 0 && memcmp(at, at + 1, len - 1) == 0);
}

/* What whole frame headers say that begin in [at, at + len - 39): the greatest synced-up-to mark,
 * and how many turns end with them. */
static uint64_t scan_part(const uint8_t *at, size_t len, uint64_t file_offset, uint32_t salt,
                          uint64_t *turn_count)
{
    uint64_t greatest = 0;
    const uint8_t *from = at;
    const uint8_t *end = at + len;

    while ((size_t)(end - from) >= FRAME_HEADER_BYTES) {
        from = memmem(from, (size_t)(end - from), frame_magic, sizeof frame_magic);
        if (!from || (size_t)(end - from) < FRAME_HEADER_BYTES)
            break;
        uint64_t synced = le64_get(from + 24);
        if (synced <= file_offset + (uint64_t)(from - at) &&
            le32_get(from + 36) == crc32c(salt, from, FRAME_HEADER_BYTES - 4)) {
            greatest = synced > greatest ? synced : greatest;
            *turn_count += !(le32_get(from + 20) & FRAME_MORE);
        }
        from++;
    }
    return greatest;
}

/* Looks at everything from `from` on: is it only zeros, and what do frames there say was synced? */
static enum rc scan_rest(struct segment_reader *reader, uint64_t from, bool *ret_zero,
                         struct err *err)
{
    bool zero = true;
    uint64_t at = from;

    while (at < reader->size) {
        uint64_t left = reader->size - at;
        size_t len = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        const uint8_t *part;
        enum rc rc = window_need(reader, at, len, &part, err);
        if (rc != RC_OK)
            return rc;
        if (!part)
            continue; /* the file became shorter: reader->size has changed */
        zero = zero && is_zero(part, len);
        uint64_t synced =
            zero ? 0 : scan_part(part, len, at, reader->header.salt, &reader->lost_count);
        if (synced > reader->synced)
            reader->synced = synced;
        if (len == left)
            break;
        at += len - (FRAME_HEADER_BYTES - 1); /* a header may stand across the border */
    }
    *ret_zero = zero;
    return RC_OK;
}

/* The turn that would begin at reader->offset is not whole: its frame at `bad` is not good. */
static enum rc end_bad(struct segment_reader *reader, uint64_t bad, const char *why,
                       struct err *err)
{
    bool zero = false;
    enum rc rc = scan_rest(reader, bad, &zero, err);
    if (rc != RC_OK)
        return rc;
    if (zero && bad == reader->offset) {
        reader->end = SEGMENT_END_CLEAN;
        return RC_NOT_FOUND;
    }
    reader->end = reader->synced > reader->offset ? SEGMENT_END_DAMAGED : SEGMENT_END_TORN;
    snprintf(reader->reason, sizeof reader->reason, "the frame at offset %llu is bad: %s",
             (unsigned long long)bad, why);
    return RC_NOT_FOUND;
}

/* Why a frame header cannot follow; NULL: it can. `first`: the turn's first frame, or NULL. */
static const char *frame_why_bad(const struct segment_reader *reader, const uint8_t *at,
                                 const struct frame_header *frame, const struct frame_header *first)
{
    if (memcmp(at, frame_magic, sizeof frame_magic) != 0)
        return "it does not begin with " FRAME_MAGIC;
    if (le32_get(at + 36) != crc32c(reader->header.salt, at, FRAME_HEADER_BYTES - 4))
        return "its header's checksum does not match";
    if (frame->body_len == 0 || frame->body_len > JOURNAL_FRAME_BODY_BYTES_MAX)
        return "its length is out of bounds";
    if (frame->commit_count == 0 || frame->first_lsn > UINT64_MAX - frame->commit_count)
        return "its number of commits is out of bounds";
    if (frame->flags & ~(uint32_t)FRAME_MORE)
        return "it has unknown flags";
    if (frame->first_lsn <= reader->last_lsn)
        return "its LSN is not above the one before";
    if (first &&
        (first->first_lsn != frame->first_lsn || first->commit_count != frame->commit_count))
        return "it does not go on with the turn before it";
    return NULL;
}

static void frame_decode(const uint8_t *at, struct frame_header *ret_frame)
{
    ret_frame->body_len = le32_get(at + 4);
    ret_frame->first_lsn = le64_get(at + 8);
    ret_frame->commit_count = le32_get(at + 16);
    ret_frame->flags = le32_get(at + 20);
    ret_frame->synced_bytes = le64_get(at + 24);
    ret_frame->body_crc = le32_get(at + 32);
}

/* Reads the frame at `at`. *ret_why: NULL when it is good. */
static enum rc frame_read(struct segment_reader *reader, uint64_t at,
                          const struct frame_header *first, struct frame_header *ret_frame,
                          struct bytes *ret_body, uint32_t *ret_crc, const char **ret_why,
                          struct err *err)
{
    const uint8_t *bytes;

    *ret_why = "it is cut";
    enum rc rc = window_need(reader, at, FRAME_HEADER_BYTES, &bytes, err);
    if (rc != RC_OK || !bytes)
        return rc;
    frame_decode(bytes, ret_frame);
    *ret_why = frame_why_bad(reader, bytes, ret_frame, first);
    if (*ret_why)
        return RC_OK;

    *ret_why = "its body is cut";
    size_t len = FRAME_HEADER_BYTES + (size_t)ret_frame->body_len;
    rc = window_need(reader, at, len, &bytes, err);
    if (rc != RC_OK || !bytes)
        return rc;
    *ret_body = bytes_of(bytes + FRAME_HEADER_BYTES, ret_frame->body_len);
    *ret_crc = le32_get(bytes + 36);
    *ret_why = NULL;
    if (ret_frame->body_crc != crc32c(reader->header.salt, ret_body->ptr, ret_body->len))
        *ret_why = "its body's checksum does not match";
    return RC_OK;
}

/* What a turn has gathered from its frames before it is given out. */
struct turn_state {
    struct frame_header first;
    bool has_first;
    uint64_t at; /* where the next frame begins */
    uint32_t chain;
    uint64_t synced;
};

static uint32_t chain_add(uint32_t chain, uint32_t crc)
{
    uint8_t field[4];
    le32_put(field, crc);
    return crc32c(chain, field, sizeof field);
}

/* *ret_body: the turn's body, when its last frame was read. *ret_why: NULL when the frame is good.
 */
static enum rc turn_step(struct segment_reader *reader, struct turn_state *turn,
                         struct bytes *ret_body, bool *ret_whole, const char **ret_why,
                         struct err *err)
{
    struct frame_header frame;
    struct bytes body;
    uint32_t crc = 0;

    enum rc rc = frame_read(reader, turn->at, turn->has_first ? &turn->first : NULL, &frame, &body,
                            &crc, ret_why, err);
    if (rc != RC_OK || *ret_why)
        return rc;
    bool more = frame.flags & FRAME_MORE;
    if (turn->has_first || more) {
        if (body.len > reader->joined.bytes_max - reader->joined.len) {
            *ret_why = "its turn is over its limit";
            return RC_OK;
        }
        if (!buf_add_bytes(&reader->joined, body))
            return err_set(err, RC_NOMEM, "could not allocate memory for a turn of \"%s\"",
                           reader->file->path);
        body = buf_bytes(&reader->joined);
    }
    if (!turn->has_first)
        turn->first = frame;
    turn->has_first = true;
    turn->at += FRAME_HEADER_BYTES + (uint64_t)frame.body_len;
    turn->chain = chain_add(turn->chain, crc);
    if (frame.synced_bytes > turn->synced)
        turn->synced = frame.synced_bytes;
    *ret_body = body;
    *ret_whole = !more;
    return RC_OK;
}

enum rc segment_next(struct segment_reader *reader, struct segment_turn *ret_turn, struct err *err)
{
    struct turn_state turn = {.at = reader->offset, .chain = reader->chain};
    struct bytes body = {0};
    bool whole = false;

    if (reader->end != SEGMENT_END_NONE) /* (3) */
        return RC_NOT_FOUND;
    if (reader->offset == reader->size) {
        reader->end = SEGMENT_END_CLEAN;
        return RC_NOT_FOUND;
    }
    buf_shrink(&reader->joined, WINDOW_BYTES);
    while (!whole) {
        const char *why = NULL;
        enum rc rc = turn_step(reader, &turn, &body, &whole, &why, err);
        if (rc != RC_OK)
            return rc;
        if (why)
            return end_bad(reader, turn.at, why, err);
    }

    *ret_turn = (struct segment_turn){
        .offset = reader->offset,
        .end = turn.at,
        .first_lsn = turn.first.first_lsn,
        .commit_count = turn.first.commit_count,
        .body = body,
    };
    reader->offset = turn.at;
    reader->chain = turn.chain;
    reader->last_lsn = turn.first.first_lsn + turn.first.commit_count - 1;
    if (turn.synced > reader->synced)
        reader->synced = turn.synced;
    return RC_OK;
}

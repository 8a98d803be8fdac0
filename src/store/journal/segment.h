// SPDX-License-Identifier: Apache-2.0
/* segment.h - journal segments on disk: header, frames, reading, telling a torn tail from damage.
 *
 * Segment file `<dir>/journal/<number, 16 hex digits>.seg`, integers little-endian:
 *   OFFSET  SIZE  WHAT
 *   0       8     magic "TRRCSEG1"
 *   8       4     format (1)
 *   12      4     feature bits (0; an unknown bit is refused)
 *   16      16    uuid of the store
 *   32      4     incarnation of the store
 *   36      4     salt, random
 *   40      8     number of this segment
 *   48      8     last LSN before this segment
 *   56      8     length in bytes of the segment before (0: there is none)
 *   64      4     chain: CRC of the segment before (see below)
 *   68      4     n, bytes of counters
 *   72      n     counters as of the segment's start: { u8 length, name, i64 value } ...
 *   72+n    4     CRC32C of all before
 * Frames follow at once. Frame:
 *   0       4     magic "TFRM"
 *   4       4     length of the body
 *   8       8     LSN of the first commit of the turn
 *   16      4     number of commits of the turn
 *   20      4     flags: bit 0 MORE, the body goes on in the next frame (same LSN and count)
 *   24      8     synced-up-to: bytes of this segment known to be on disk when this was written
 *   32      4     CRC32C of the body, seeded with the salt
 *   36      4     CRC32C of bytes 0..35, seeded with the salt
 *   40      ..    body
 * The chain CRC of a segment is crc32c over the header's CRC field and then the 36..39 field of
 * every frame, in order: a segment that lost a frame, or belongs elsewhere, breaks the chain.
 *
 * Ownership: a turn's body is borrowed from the reader until the next call.
 * Threads: one owner. */
#pragma once

#include "base/file.h"
#include "base/limits.h"

enum { SEGMENT_FORMAT = 1, SEGMENT_FIXED_BYTES = 72, FRAME_HEADER_BYTES = 40 };
enum { FRAME_MORE = 1 };
#define SEGMENT_MAGIC "TRRCSEG1"
#define FRAME_MAGIC "TFRM"

struct segment_header {
    uint32_t format;
    uint32_t features;
    uint8_t uuid[16];
    uint32_t incarnation;
    uint32_t salt;
    uint64_t number;
    uint64_t last_lsn_before;
    uint64_t bytes_before;
    uint32_t chain_before;
    struct bytes counters; /* encoded as drawn */
};

struct frame_header {
    uint32_t body_len;
    uint64_t first_lsn;
    uint32_t commit_count;
    uint32_t flags;
    uint64_t synced_bytes;
    uint32_t body_crc;
};

/* Encoding, used by the journal and by tests. */
bool segment_header_add(const struct segment_header *header, struct buf *to) NODISCARD;
/* Appends the header only; body_crc is computed from body. *ret_crc: the field at 36..39. */
void frame_header_put(uint8_t to[FRAME_HEADER_BYTES], const struct frame_header *frame,
                      struct bytes body, uint32_t salt, uint32_t *ret_crc);

/* Walks encoded counters. RC_NOT_FOUND at the end. */
enum rc segment_counter_next(struct bytes *counters, struct bytes *ret_name, int64_t *ret_value,
                             struct err *err) NODISCARD;
bool segment_counter_add(struct buf *to, struct bytes name, int64_t value) NODISCARD;

enum segment_end {                    /* why reading stopped */
                   SEGMENT_END_NONE,  /* not yet */
                   SEGMENT_END_CLEAN, /* the file ends, or only zeros follow */
                   SEGMENT_END_TORN,  /* a bad frame that nobody was told is durable: it may be cut
                                       */
                   SEGMENT_END_DAMAGED, /* a bad frame below a synced-up-to mark of a later frame */
};

struct segment_turn {
    uint64_t offset; /* of its first frame */
    uint64_t end;    /* after its last frame */
    uint64_t first_lsn;
    uint32_t commit_count;
    struct bytes body;
};

struct segment_reader;

/* RC_CORRUPT (magic, CRC), RC_VERSION (format, feature), RC_NOT_FOUND, RC_IO; the text names file
 * and offset. */
enum rc segment_open(struct files *files, const char *path, struct segment_reader **ret_reader,
                     struct err *err) NODISCARD;
void segment_close(struct segment_reader *reader); /* NULL is allowed */
void segment_closep(struct segment_reader **reader);
const struct segment_header *segment_reader_header(const struct segment_reader *reader);
/* RC_OK: a whole turn. RC_NOT_FOUND: no more; segment_reader_end() says why. RC_IO. A bad frame is
 * not an error here: it is an end. Reads in large steps; memory is bounded by the largest turn. */
enum rc segment_next(struct segment_reader *reader, struct segment_turn *ret_turn,
                     struct err *err) NODISCARD;
enum segment_end segment_reader_end(const struct segment_reader *reader);
uint64_t segment_reader_offset(const struct segment_reader *reader); /* end of the last good turn */
uint32_t segment_reader_chain(const struct segment_reader *reader);  /* over what was read so far */
uint64_t segment_reader_last_lsn(const struct segment_reader *reader);
/* After a bad end: turns that begin behind it, by the headers that are whole. */
uint64_t segment_reader_lost_count(const struct segment_reader *reader);
/* The greatest synced-up-to mark seen, also in frames beyond a bad one. */
uint64_t segment_reader_synced(const struct segment_reader *reader);
/* After a bad end: what was wrong, for people. */
const char *segment_reader_reason(const struct segment_reader *reader);

/* "<dir>/0000000000000001.seg"; and the number of such a name, or RC_INVALID for other names. */
void segment_path(char to[PATH_BYTES_MAX], const char *dir, uint64_t number);
enum rc segment_name_parse(const char *name, uint64_t *ret_number) NODISCARD;

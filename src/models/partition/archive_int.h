// SPDX-License-Identifier: Apache-2.0
/* archive_int.h - the body of a Format 2 frame, and an opened batch.
 *
 *   SIZE  WHAT
 *   1     bits 0-1 how min ids are told: enum min_mode
 *         bits 2-3 how updated_at is told: enum updated_mode
 *         bits 4-5 how created_at is told: enum created_mode
 *   v     unit of durations, milliseconds
 *   c     partition id - lowest id of the frame
 *   c     max id - min id
 *   .     min id:
 *           MIN_SELF   c  min id
 *           MIN_CHAIN  z  the first one; each begins behind the end of the one before
 *           MIN_BY_ID  z  factor
 *                      c  min id - factor * partition id
 *   c     index in the frame's list of workers
 *   c     status
 *   c     duration in its unit, -1: none
 *   .     updated_at - base time; start is that minus the duration in whole seconds:
 *           UPDATED_SELF        c  updated_at
 *           UPDATED_FROM_START  c  start
 *           UPDATED_BY_WORKER   c  for every 512 records, for every worker of the frame's list: the
 *                                  start of its first record among them
 *                               c  start - updated_at of the same worker's record before it among
 *                                  the 512; 0 for its first
 *   c     created_at:
 *           CREATED_SELF          - base time
 *           CREATED_FROM_UPDATED  - updated_at
 *           CREATED_FROM_START    - (updated_at - duration)
 *   c c c version, fence, attempts
 *   c c   error, options: 0 none, else 1 + index of the text
 *   v     count of distinct texts
 *   c     where each text ends, if there are any
 *   rest  texts; compressed by the frame's algorithm if that made them shorter
 *
 * c is a column (column.h), v a uvarint, z a zigzag uvarint. The columns end where the texts begin:
 * raw length - length of the columns is the length of the texts when they are unpacked. */
#pragma once

#include "models/partition/archive.h"
#include "models/partition/column.h"
#include "models/partition/frame.h"

enum min_mode { /* on disk: append, never renumber */
                MIN_SELF = 0,
                MIN_CHAIN = 1, /* each begins behind the end of the one before */
                MIN_BY_ID = 2,
};
enum updated_mode { /* on disk: append, never renumber */
                    UPDATED_SELF = 0,
                    UPDATED_FROM_START = 1,
                    UPDATED_BY_WORKER = 2, /* who is done claims the next one, soon */
};
enum created_mode { /* on disk: append, never renumber */
                    CREATED_SELF = 0,
                    CREATED_FROM_UPDATED = 1,
                    CREATED_FROM_START = 2,
};
enum {
    LAYOUT_MIN_MASK = 3,
    LAYOUT_UPDATED_SHIFT = 2,
    LAYOUT_CREATED_SHIFT = 4,
    LAYOUT_MODE_MASK = 3,
    LAYOUT_KNOWN = 63,
};
enum part_column { /* in the order of the body */
                   PART_COLUMN_ID,
                   PART_COLUMN_SPAN,
                   PART_COLUMN_MIN,
                   PART_COLUMN_WORKER,
                   PART_COLUMN_STATUS,
                   PART_COLUMN_DURATION,
                   PART_COLUMN_FIRST, /* UPDATED_BY_WORKER only */
                   PART_COLUMN_UPDATED,
                   PART_COLUMN_CREATED,
                   PART_COLUMN_VERSION,
                   PART_COLUMN_FENCE,
                   PART_COLUMN_ATTEMPTS,
                   PART_COLUMN_ERROR,
                   PART_COLUMN_OPTIONS,
                   PART_COLUMN_TEXT_ENDS,
};
enum { PART_WORKER_BLOCK = 512 }; /* UPDATED_BY_WORKER begins anew */
enum { PART_READ_PART = 64 };     /* records read at once by part_batch_read() */
enum { PART_COLUMN_COUNT = 15, PART_POOL = 4 * PART_COLUMN_COUNT };

struct part_batch {
    struct frame frame;
    /* columns */
    enum min_mode min_mode;
    enum created_mode created_mode;
    enum updated_mode updated_mode;
    uint64_t unit_ms;
    int64_t min_first;  /* MIN_CHAIN */
    int64_t min_factor; /* MIN_BY_ID */
    const struct column *column[PART_COLUMN_COUNT];
    size_t text_count;
    size_t text_raw_len;
    struct bytes text_stored;
    struct bytes text; /* ptr NULL until it is asked for */
    uint8_t *text_memory;
    /* rows */
    struct part_record *records;
    uint8_t *raw;
    struct part_batch *wide;

    struct column pool[PART_POOL];
};

/* Whole seconds of a duration as it is stored. */
static inline int64_t part__duration_s(int64_t code, uint64_t unit_ms)
{
    return code < 0 ? 0 : (int64_t)((unsigned __int128)(uint64_t)code * unit_ms / 1000);
}

/* Adds the body and says how long it is unpacked and which algorithm was used. `frame` has base,
 * ids, count and workers. */
enum rc part__columns_encode(const struct part_record *records, struct frame *frame,
                             uint32_t unit_ms, enum part_algorithm wished, struct buf *to,
                             struct err *err) NODISCARD;
enum rc part__columns_open(struct part_batch *batch, struct err *err) NODISCARD;
enum rc part__rows_encode(const struct part_record *records, struct frame *frame,
                          const struct part_encode_options *options, struct buf *to,
                          struct err *err) NODISCARD;
enum rc part__rows_open(struct part_batch *batch, struct err *err) NODISCARD;
/* updated_at - base time of some records, at ascending positions; `worker` is what the column of
 * workers has there. */
void part__updated_gather(const struct part_batch *batch, const uint32_t *position, size_t count,
                          const int64_t *worker, int64_t *to);
/* The same of records [from, from + count), which lie between two sync points. `last` has a place
 * for every worker: with UPDATED_BY_WORKER blocks are read in order from the start of their 512.
 */
void part__updated_read(const struct part_batch *batch, size_t from, size_t count, int64_t *last,
                        int64_t *to);

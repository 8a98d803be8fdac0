// SPDX-License-Identifier: Apache-2.0
/* frame.h - what stands in front of a batch. Integers little-endian, v: uvarint, z: zigzag uvarint.
 *
 *   OFFSET  SIZE  WHAT
 *   0       2     "TP"
 *   2       1     format: 1 rows, 2 columns
 *   3       1     bits 0-2 algorithm (0 none, 1 gzip, 2 lz4, 3 zstd), bits 3-7 flags
 *   4       4     CRC-32C of bytes 0-3 and of everything from byte 8 to the end of the frame
 *   8       z     base time, unix seconds: the earliest updated_at or created_at
 *           v     count of records
 *           z     lowest partition id
 *           v     highest partition id - lowest
 *           v     count of runs of worker numbers; for each run
 *                   v  its first number - (last number of the run before + 2; 0 for the first run)
 *                   v  how many numbers follow the first
 *           v     length of the payload when it is unpacked
 *           v,n   with flag NAMES, for every worker number: length of its name, name
 *           rest  payload
 *
 * The frame ends where its bytes end: a cut one fails its CRC.
 * Ownership: a parsed frame borrows the bytes; its worker list is freed by frame_done().
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "models/partition/squeeze.h"

enum { FRAME_HEAD_BYTES = 8 };
enum frame_format { FRAME_ROWS = 1, FRAME_COLUMNS = 2 }; /* on disk: append, never renumber */
enum frame_flag {                                        /* on disk: append, never renumber */
                  FRAME_NAMES = 1 << 3,
                  FRAME_ASCENDING = 1 << 4, /* every id is higher than the one before */
                  FRAME_CREATED = 1 << 5,   /* rows of 29 bytes */
                  FRAME_WIDE = 1 << 6,      /* some records did not fit a row */
};

struct frame {
    enum frame_format format;
    enum part_algorithm algorithm;
    unsigned flags;
    int64_t base_s;
    size_t count;
    int64_t id_min;
    int64_t id_max;
    uint32_t *worker; /* ascending */
    size_t worker_count;
    size_t raw_len;
    struct bytes names; /* as stored, if there are any */
    struct bytes payload;
};

/* The header with room for the CRC, which frame_end() puts in when the payload is behind it. */
bool frame_begin(const struct frame *frame, struct buf *to) NODISCARD;
void frame_end(uint8_t *frame, size_t len);
/* RC_CORRUPT, or RC_VERSION for what a later version may have written. */
enum rc frame_parse(struct bytes bytes, struct frame *ret_frame, struct err *err) NODISCARD;
void frame_done(struct frame *frame);

// SPDX-License-Identifier: Apache-2.0
/* archive.h - batches of completed partitions as frames of a few bytes a record.
 *
 * A frame is self-contained bytes. Format 2 (columns) keeps every field and is read in place: one
 * record, or one column by a filter, without unpacking the rest. Format 1 has the rows of the
 * original archive; records that do not fit a row, or would lose a field in one, are in a second
 * section of the same frame as columns: nothing is wrapped, cut or lost.
 *
 * Ownership: an opened batch borrows the frame's bytes, which must outlive it; errors, options and
 * names it gives out are borrowed from both and die with part_batch_close().
 * Threads: a batch has one owner (texts are decompressed when they are first asked for). */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "models/partition/record.h"
#include "models/partition/squeeze.h"

struct part_worker_name {
    uint32_t worker;
    struct bytes name;
};

enum part_format { PART_FORMAT_ROWS = 1, PART_FORMAT_COLUMNS = 2 };

struct part_encode_options {
    enum part_format format; /* 0: columns */
    enum part_algorithm algorithm;
    uint32_t duration_unit_ms; /* durations are kept in this unit, rounded down; 0: 1000 */
    bool names;                /* an exported frame: carries the names of its workers */
    const struct part_worker_name *name; /* in any order; a missing one is written empty */
    size_t name_count;
};

/* Adds one frame to the buffer. RC_INVALID: no records, a status or a duration that is none;
 * RC_TOO_BIG: more than fits a frame. The buffer is as it was on failure. */
enum rc part_batch_encode(const struct part_record *records, size_t count,
                          const struct part_encode_options *options, struct buf *to,
                          struct err *err) NODISCARD;

struct part_batch; /* defined in models/partition/archive_int.h */

struct part_batch_info {
    enum part_format format;
    enum part_algorithm algorithm;
    size_t count;
    int64_t id_min; /* of partition ids */
    int64_t id_max;
    int64_t base_s;
    bool ascending;         /* every id is higher than the one before */
    const uint32_t *worker; /* the numbers in it, ascending */
    size_t worker_count;
    size_t raw_len; /* of the payload when it is unpacked */
    bool has_names;
};

/* RC_CORRUPT or RC_VERSION with a text that says what; a damaged frame never gives a record. */
enum rc part_batch_open(struct bytes frame, struct part_batch **ret_batch,
                        struct err *err) NODISCARD;
void part_batch_close(struct part_batch *batch); /* NULL is allowed */
struct part_batch_info part_batch_info(const struct part_batch *batch);
/* The names of all worker numbers; empty where the frame carries none. */
void part_batch_names(const struct part_batch *batch, struct bytes *ret_names);

/* The position has to be below the count. */
enum rc part_batch_get(struct part_batch *batch, size_t position, struct part_record *ret_record,
                       struct err *err) NODISCARD;
/* Those at ascending positions, which costs much less than one after the other. On failure records
 * may have been written. */
enum rc part_batch_read(struct part_batch *batch, const uint32_t *position, size_t count,
                        struct part_record *records, struct err *err) NODISCARD;
/* The first position of a partition id; false: it is not in the batch. */
bool part_batch_find(const struct part_batch *batch, int64_t id, size_t *ret_position);
/* All records in order; texts are copied into the arena, so they outlive the batch. */
enum rc part_batch_decode(struct part_batch *batch, struct arena *arena,
                          struct part_record **ret_records, struct err *err) NODISCARD;

/* Everything a checksum does not say: every column is well-formed, every record can be read, and
 * the header's ids, order, base time and workers are those of the records. */
enum rc part_batch_verify(struct part_batch *batch, struct err *err) NODISCARD;

/* What part_batch_scan() looks for; a zeroed filter takes everything. Bounds are inclusive. */
struct part_filter {
    unsigned statuses; /* bit 1 << status; 0: any */
    bool has_worker, has_id, has_updated;
    uint32_t worker;
    int64_t id_min, id_max;
    int64_t updated_min_s, updated_max_s;
};

/* Writes the positions of matching records at or after *position, ascending, up to `max`, and moves
 * *position to where the next call goes on; the count of the batch: there is nothing more. Columns
 * the filter does not name are not read, nor blocks that an earlier column has excluded. */
size_t part_batch_scan(const struct part_batch *batch, const struct part_filter *filter,
                       size_t *position, uint32_t *positions, size_t max);

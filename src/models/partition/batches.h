// SPDX-License-Identifier: Apache-2.0
/* batches.h - packed batches of a job: their index, their frames, opened and kept for a while.
 *
 * A row of the index, by the lowest id of its batch (19 digits):
 *   {"batch":7,"max_id":8000,"count":1000,"bytes":2312,"raw":301230,"from":1794880800,
 *    "to":1794881200,"ids_from":1,"ids_to":8000000,"key":"<ID of the string, 32 hex digits>"}
 * raw: how long the records were as JSON; from and to: when the first and the last was done;
 * ids_from and ids_to: the lowest and the highest id that the records cover, so that a batch that
 * cannot be read is known to cover nothing else. Where they are missing it may cover anything.
 *
 * Invariants:
 *   (1) Batches do not overlap.
 *   (2) A string is written once, with a number and an ID that no other ever has.
 *   (3) The numbers of the archive are sums over the index.
 *
 * Ownership: an opened batch belongs to the cache and is good until the next batch_open(). Threads:
 * the executor. */
#pragma once

#include "models/partition/archive.h"
#include "models/partition/job.h"

struct batch_row {
    int64_t min_id, max_id;
    int64_t number;
    uint64_t count, bytes, raw;
    int64_t from_s, to_s;
    int64_t covers_min, covers_max;
    uint8_t key[KEY_ID_BYTES];
};

/* The batch with the highest min_id that is not above the id; it need not hold it. RC_NOT_FOUND. */
enum rc batch_at(struct part_job *job, int64_t id, struct batch_row *ret_row,
                 struct err *err) NODISCARD;
/* The batch with the lowest min_id that is not below the id. RC_NOT_FOUND. */
enum rc batch_from(struct part_job *job, int64_t id, struct batch_row *ret_row,
                   struct err *err) NODISCARD;
/* The first batch that may hold this id or a higher one. RC_NOT_FOUND. */
enum rc batch_holding(struct part_job *job, int64_t id, struct batch_row *ret_row,
                      struct err *err) NODISCARD;
/* The name of its string, in the command's arena; in front of an error's text; both. */
struct bytes batch_key_name(struct part_job *job, const struct batch_row *row);
enum rc batch_error(const struct part_job *job, const struct batch_row *row, struct err *err);
/* RC_CORRUPT, RC_VERSION name the batch. */
enum rc batch_open(struct part_job *job, const struct batch_row *row, struct part_batch **ret_batch,
                   struct err *err) NODISCARD;

/* The row says what these records of its batch say. */
bool batch_row_holds(const struct batch_row *row, const struct part_record *record, size_t count);

/* It will be needed: RC_OK or RC_COLD. */
enum rc batch_want(struct part_job *job, int64_t number, struct err *err) NODISCARD;

struct archive_sum { /* JOB_ARCHIVE of JOB_META */
    uint64_t records, batches, bytes, raw;
};
enum rc archive_sum(struct part_job *job, struct archive_sum *ret_sum, struct err *err) NODISCARD;

/* Records with ascending ids, and their JSON bytes, become a batch: string, index row, sums. */
enum rc batch_put(struct part_job *job, const struct part_record *record, size_t count,
                  uint64_t raw, struct err *err) NODISCARD;
/* Removes the string and the index row; of a job that is being dropped. */
enum rc batch_forget(struct part_job *job, const struct batch_row *row, struct err *err) NODISCARD;
/* The string alone, if it is there. */
enum rc batch_string_remove(struct part_job *job, int64_t number, struct err *err) NODISCARD;
/* The same, and what they add to the sums. */
enum rc batch_remove(struct part_job *job, const struct batch_row *row, struct err *err) NODISCARD;

/* ---- workers ---- */

/* The number of a worker, given now if it has none. 0 for nobody. */
enum rc job_worker_number(struct part_job *job, struct bytes name, bool make, uint32_t *ret_number,
                          struct err *err) NODISCARD;
/* In the command's arena. RC_CORRUPT: nobody has it. */
enum rc job_worker_name(struct part_job *job, uint32_t number, struct bytes *ret_name,
                        struct err *err) NODISCARD;

/* ---- what has aged out ---- */

struct aged_span {
    int64_t min_id, max_id;
};
/* JOB_DROPPED or JOB_AGED: the first interval that ends at or behind this id. RC_NOT_FOUND. */
enum rc aged_from(struct part_job *job, enum job_key which, int64_t id, struct aged_span *ret_span,
                  struct err *err) NODISCARD;
/* Becomes one with those that it overlaps or touches. */
enum rc aged_add(struct part_job *job, enum job_key which, struct aged_span span,
                 struct err *err) NODISCARD;
enum rc dropped_has(struct part_job *job, int64_t id, bool *ret_has, struct err *err) NODISCARD;

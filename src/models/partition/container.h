// SPDX-License-Identifier: Apache-2.0
/* container.h - the JSON containers of the original archive, in and out:
 *
 *   {"base_timestamp": unix seconds, "compressed_data": base64 of gzip of rows,
 *    "partition_count": n, "compression_algorithm": "gzip", "version": 1}
 *
 * Rows of 25 and of 29 bytes are told apart by which of them uses the bytes up exactly.
 * Ownership: records that were read live in the arena.
 * Threads: any. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "models/partition/record.h"
#include "models/partition/rows.h"

/* Every record of the container. Members it does not know are passed over. */
enum rc part_container_read(struct bytes json, struct arena *arena,
                            struct part_record **ret_records, size_t *ret_count,
                            struct err *err) NODISCARD;

struct part_container_loss { /* what the original has no place for, in records */
    size_t created_count;
    size_t options_count;
    size_t version_count; /* with version, fence, attempts or duration */
};

/* RC_TOO_BIG: a record does not fit a row; its id and the field are named, nothing is written. What
 * rows cannot hold is left out and counted: the caller has to tell. */
enum rc part_container_write(const struct part_record *records, size_t count, enum part_rows form,
                             struct buf *to, struct part_container_loss *ret_loss,
                             struct err *err) NODISCARD;

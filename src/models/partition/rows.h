// SPDX-License-Identifier: Apache-2.0
/* rows.h - Format 1, byte for byte the rows of the original archive, little-endian:
 *
 *   OFFSET  SIZE  WHAT
 *   0       4     partition id
 *   4       8     min id
 *   12      4     range: max id - min id + 1
 *   16      2     worker number
 *   18      1     status
 *   19      4     updated_at - base, seconds
 *   23      4     created_at - base, seconds; in the later form of 29 bytes only
 *   23|27   2     length of the error
 *   25|29   e     error
 *
 * A row has no place for options, version, fence, duration and attempts, and 25-byte rows have none
 * for created_at, which is then read as updated_at. What does not fit is refused, never wrapped.
 * Ownership: errors of rows that were read point into the bytes.
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "models/partition/record.h"

enum part_rows { PART_ROWS_25 = 25, PART_ROWS_29 = 29 };

/* NULL: the row holds every field it has a place for; else the name of one that does not fit. */
const char *rows_misfit(const struct part_record *record, enum part_rows form, int64_t base_s);
/* The name of a field of this record that a row has no place for; NULL: none. */
const char *rows_lost(const struct part_record *record, enum part_rows form);
/* False: the buffer is full. The record fits. */
bool rows_add(const struct part_record *record, enum part_rows form, int64_t base_s,
              struct buf *to) NODISCARD;
/* Exactly `count` rows in exactly these bytes. */
enum rc rows_read(struct bytes raw, size_t count, enum part_rows form, int64_t base_s,
                  struct part_record *to, struct err *err) NODISCARD;
/* Which form uses the bytes up exactly; of two, the one whose errors are texts (UTF-8 without NUL).
 * RC_CORRUPT: none; RC_INVALID: both still, which takes an error made for it. */
enum rc rows_tell(struct bytes raw, size_t count, enum part_rows *ret_form,
                  struct err *err) NODISCARD;

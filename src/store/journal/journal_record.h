// SPDX-License-Identifier: Apache-2.0
/* journal_record.h - the file that says how much of the journal is known to be on disk.
 *
 * A frame says how much was synced before it. What was synced since the last frame, and that a file
 * was longer than it is now, nobody could tell: a tail that was damaged or cut passed for one that
 * a power cut has torn. So the journal writes this down after every sync.
 *
 * File `<dir>/journal/synced`, 48 bytes written in place, integers little-endian:
 *   OFFSET  SIZE  WHAT
 *   0       8     magic "TRRCSYN1"
 *   8       16    uuid of the store
 *   24      8     number of a segment that holds frames
 *   32      8     bytes of it that a completed sync covered
 *   40      4     its salt
 *   44      4     CRC32C of all before
 * What it says is true at any age: it is written after the sync, and no segment gets shorter than
 * what was synced. It is synced itself only when the journal is idle and when it is closed. A
 * file that is missing, torn or of another store says nothing; programs that do not know it need
 * not. Who cuts what was synced (terrace repair) removes it.
 *
 * Ownership: the caller's structs.
 * Threads: one owner. */
#pragma once

#include "base/file.h"
#include "base/limits.h"

enum { JOURNAL_RECORD_BYTES = 48 };

struct journal_record {
    uint8_t uuid[16];
    uint64_t number; /* 0: nothing is known */
    uint64_t bytes;
    uint32_t salt;
};

void journal_record_path(char to[PATH_BYTES_MAX], const char *dir);
void journal_record_put(uint8_t to[JOURNAL_RECORD_BYTES], const struct journal_record *record);
/* Of this store; number 0 where there is none. RC_IO. */
enum rc journal_record_read(struct files *files, const char *dir, const uint8_t uuid[16],
                            struct journal_record *ret_record, struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* record.h - one partition as the archive keeps it.
 *
 * Times are whole seconds in the archive; the duration is kept in the unit of its frame (whole
 * seconds unless the caller asked for finer). Everything else is kept as it is.
 * Ownership: options and error are borrowed.
 * Threads: any. */
#pragma once

#include "base/bytes.h"

enum part_status { /* on disk: append, never renumber */
                   PART_PENDING = 0,
                   PART_CLAIMED = 1,
                   PART_RUNNING = 2,
                   PART_COMPLETED = 3,
                   PART_FAILED = 4,
};
enum { PART_STATUS_COUNT = 5 };

enum { PART_DURATION_NONE = -1 }; /* nobody said how long it took */

struct part_record {
    int64_t id;
    int64_t min_id;
    int64_t max_id;    /* may be below min_id: an empty or inverted range stays as it is */
    uint32_t worker;   /* its number in the job's worker map; 0: none */
    uint8_t status;    /* enum part_status */
    int64_t updated_s; /* unix seconds */
    int64_t created_s;
    int64_t duration_ms; /* or PART_DURATION_NONE */
    uint64_t version;
    uint64_t fence;
    uint64_t attempts;
    struct bytes options; /* JSON as it came */
    struct bytes error;
};

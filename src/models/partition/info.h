// SPDX-License-Identifier: Apache-2.0
/* info.h - one partition as clients see it: a JSON object in a hash row.
 *
 *   {"partition_id":7,"min_id":6001,"max_id":7000,"worker_id":"w1",
 *    "last_heartbeat":"2026-11-17T02:00:00.123Z","status":"running",
 *    "updated_at":"2026-11-17T02:00:00.120Z","options":null,"version":2,"error":"",
 *    "created_at":"2026-11-17T01:59:58Z","fence":9,"attempts":0,"duration_ms":null,"takeovers":1}
 *
 * in one line, always in this order. last_heartbeat is null while nobody has it; options are the
 * JSON value that PART.ADD was given; attempts counts how often it failed; duration_ms is there
 * when it is completed; takeovers is there while it is active and not 0, and is no part of what
 * is stored: it has a row of its own (job_info_put()), so that builds of before it read the record.
 * Records are written by part_info_write() alone, and what part_info_read() does not know again is
 * damaged.
 *
 * Ownership: texts of an info are borrowed.
 * Threads: any. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "models/partition/record.h"

enum { PART_TIME_NONE = -1 };

struct part_info {
    int64_t id, min_id, max_id;
    struct bytes worker;  /* "": nobody */
    uint8_t status;       /* enum part_status */
    int64_t heartbeat_ms; /* or PART_TIME_NONE */
    int64_t updated_ms, created_ms;
    struct bytes options; /* "": none */
    struct bytes error;
    uint64_t version, fence, attempts;
    int64_t duration_ms; /* or PART_DURATION_NONE */
    uint64_t takeovers;  /* from silent workers; not archived */
};

const char *part_status_name(uint8_t status);
bool part_status_parse(struct bytes name, uint8_t *ret_status); /* false: there is none */

/* False: no memory. */
bool part_info_write(const struct part_info *info, struct buf *to) NODISCARD;
/* RC_CORRUPT: no record looks like this. Strings with escapes are put into the arena. */
enum rc part_info_read(struct bytes json, struct arena *arena, struct part_info *ret_info,
                       struct err *err) NODISCARD;

/* What is kept of times: whole seconds, and of durations from 10 s on too. An archived record is
 * the same before and after it is packed. */
int64_t part_duration_kept(int64_t duration_ms);
void part_info_archive(struct part_info *info);
/* A record of the archive, with the name of its worker. */
struct part_info part_info_of_record(const struct part_record *record, struct bytes worker);
struct part_record part_info_record(const struct part_info *info, uint32_t worker);

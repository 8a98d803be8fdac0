// SPDX-License-Identifier: Apache-2.0
/* stat.h - what is known of many completed partitions at once: a JSON row of the statistics.
 *
 *   {"completed":3,"ids":3000,"timed":3,"duration_ms":912,"max_ms":400,"first":1794880800,
 *    "last":1794880860,"min_id":1,"max_id":3000}
 *
 * timed: how many said how long they took; first and last: when the first and the last was done,
 * unix seconds. Where partitions have aged out ("dropped":n,"dropped_ids":n,"dropped_timed":n,
 * "dropped_ms":n) says how many of them are in no record any more. The row of all ends with
 * "running":n. Members that are 0 are left out from "dropped" on.
 *
 * The histogram of durations has 32 buckets for every doubling: a percentile read from it is right
 * within a thirty-second. Histograms are merged by adding.
 *
 * Threads: any. */
#pragma once

#include "base/err.h"
#include "models/partition/info.h"
#include "models/partition/text.h"

enum {
    STAT_BYTES_MAX = 16 * TEXT_NUMBER_BYTES + 256,
    STAT_RANGE_IDS = 100 * 1000, /* partition ids of a range */
    STAT_BUCKET_COUNT = 1280,
    STAT_BUCKET_NAME_BYTES = 22, /* duration:<13 digits> */
};
#define PART_DURATION_MS_MAX INT64_C(9999999999999) /* 13 digits: 316 years */

struct part_stat {
    uint64_t completed;
    text_u128 ids;
    uint64_t timed;
    text_u128 duration_ms;
    uint64_t max_ms;
    int64_t first_s, last_s;
    int64_t min_id, max_id;
    uint64_t dropped;
    text_u128 dropped_ids;
    uint64_t dropped_timed;
    text_u128 dropped_ms;
    uint64_t running; /* of the row of all: how many are running now */
};

void part_stat_add(struct part_stat *stat, const struct part_record *record);
/* The record is among those counted, and is dropped. */
void part_stat_drop(struct part_stat *stat, const struct part_record *record);
/* `from` on top of `to`. */
void part_stat_merge(struct part_stat *to, const struct part_stat *from);
struct bytes part_stat_write(const struct part_stat *stat, uint8_t to[STAT_BYTES_MAX]);
/* RC_CORRUPT. */
enum rc part_stat_read(struct bytes json, struct part_stat *ret_stat, struct err *err) NODISCARD;

/* ---- rows a record counts in ---- */

int64_t part_stat_range(int64_t id); /* the first id of its range */

size_t part_bucket(int64_t duration_ms);
int64_t part_bucket_low(size_t bucket); /* the shortest duration in it */
struct bytes part_bucket_name(size_t bucket, uint8_t to[STAT_BUCKET_NAME_BYTES]);
bool part_bucket_parse(struct bytes name, size_t *ret_bucket);
/* The duration that `percent` of all do not pass, from the counts of all buckets; -1: there are
 * none. */
int64_t part_percentile(const uint64_t count[STAT_BUCKET_COUNT], double percent);

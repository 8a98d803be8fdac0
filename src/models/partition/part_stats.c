// SPDX-License-Identifier: Apache-2.0
/* part_stats.c - partitions' rows of INFO and /metrics. */
#include <inttypes.h>
#include <stdio.h>

#include "models/partition/part.h"
#include "models/partition/part_model.h"

#include "base/banned.h"

/* ---- jobs, as they were a second ago; PART.ARCHIVE STATUS has them as they are ---- */

static bool job_read(void *part, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    size_t count;
    const struct part_seen *seen = part_seen(part, &count);
    if (n >= count)
        return false;
    memcpy(values, &seen[n], sizeof *seen);
    snprintf(labels, STATISTIC_LABELS_BYTES, "db=\"%u\",job=\"%s\"", seen[n].db, seen[n].name);
    return true;
}

#define JOB(metric, member, help)                                                  \
    {                                                                              \
        NULL, metric, STATISTIC_GAUGE, help, offsetof(struct part_seen, member), 0 \
    }
static const struct statistic job_rows[] = {
    JOB("part_active", active, "Partitions that are not completed."),
    JOB("part_completed", completed, "Partitions completed, ever."),
    JOB("part_simple", simple, "Completed partitions that are not packed."),
    JOB("part_packed", packed, "Packed partitions."),
    JOB("part_batches", batches, "Packed batches."),
    JOB("part_archive_bytes", bytes,
        "Bytes of packed partitions; by part_packed: bytes a partition."),
    JOB("part_archive_json_bytes", raw_bytes,
        "The same partitions as JSON; part_archive_bytes by it: the ratio."),
    JOB("part_waiting", waiting, "Completed partitions that wait to be packed."),
};

/* ---- all jobs ---- */

struct sums {
    uint64_t jobs;
    struct part_seen seen;         /* sums */
    uint64_t encode_us, decode_us; /* a batch, on average */
    uint64_t done_p99_us;          /* at most */
    struct part_watch watch;
};

static uint64_t done_p99_us(const struct part_watch *watch)
{
    uint64_t below = 0;
    for (size_t i = 0; i < ARRAY_LEN(watch->done_us) && watch->done_count > 0; i++) {
        below += watch->done_us[i];
        if (below * 100 >= watch->done_count * 99)
            return UINT64_C(1) << i;
    }
    return 0;
}

static bool sums_read(void *part, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    struct sums *sums = values;
    const struct part_watch *watch = &sums->watch;
    (void)labels;
    if (n > 0)
        return false;
    *sums = (struct sums){0};
    const struct part_seen *seen = part_seen(part, &sums->jobs);
    for (size_t i = 0; i < sums->jobs; i++) {
        sums->seen.active += seen[i].active;
        sums->seen.completed += seen[i].completed;
        sums->seen.simple += seen[i].simple;
        sums->seen.packed += seen[i].packed;
        sums->seen.batches += seen[i].batches;
        sums->seen.bytes += seen[i].bytes;
        sums->seen.raw_bytes += seen[i].raw_bytes;
        sums->seen.waiting += seen[i].waiting;
    }
    part_watch(part, &sums->watch);
    sums->encode_us = watch->encode_count ? watch->encode_ns / watch->encode_count / 1000 : 0;
    sums->decode_us = watch->decode_count ? watch->decode_ns / watch->decode_count / 1000 : 0;
    sums->done_p99_us = done_p99_us(watch);
    return true;
}

#define SUM(info, member, help)                                             \
    {                                                                       \
        info, NULL, STATISTIC_GAUGE, help, offsetof(struct sums, member), 0 \
    }
#define TOTAL(info, metric, member, divisor, help)                                          \
    {                                                                                       \
        info, metric, STATISTIC_COUNTER, help, offsetof(struct sums, watch.member), divisor \
    }
static const struct statistic sums_rows[] = {
    SUM("part_jobs", jobs, "Jobs."),
    SUM("part_active", seen.active, "Partitions that are not completed."),
    SUM("part_completed", seen.completed, "Partitions completed, ever."),
    SUM("part_simple", seen.simple, "Completed partitions that are not packed."),
    SUM("part_packed", seen.packed, "Packed partitions."),
    SUM("part_batches", seen.batches, "Packed batches."),
    SUM("part_archive_bytes", seen.bytes, "Bytes of packed partitions."),
    SUM("part_archive_json_bytes", seen.raw_bytes, "The same partitions as JSON."),
    SUM("part_waiting", seen.waiting, "Completed partitions that wait to be packed."),
    SUM("part_encode_us", encode_us, "Time of making a batch, on average."),
    SUM("part_decode_us", decode_us, "Time of opening one."),
    TOTAL(NULL, "part_encodes_total", encode_count, 0, "Batches made."),
    TOTAL(NULL, "part_encode_microseconds_total", encode_ns, 1000, "Time of that."),
    TOTAL(NULL, "part_decodes_total", decode_count, 0, "Batches opened."),
    TOTAL(NULL, "part_decode_microseconds_total", decode_ns, 1000, "Time of that."),
    TOTAL("part_decode_failures", "part_decode_failures_total", decode_failure_count, 0,
          "Batches that could not be opened."),
    TOTAL("part_pack_failures", "part_pack_failures_total", pack_failure_count, 0,
          "Steps of packing that failed."),
    TOTAL(NULL, "part_packed_total", packed_count, 0, "Partitions packed."),
    TOTAL(NULL, "part_merged_batches_total", merged_batch_count, 0,
          "Batches made again for late partitions."),
    TOTAL(NULL, "part_aged_out_total", dropped_count, 0, "Partitions dropped by part-retain."),
    TOTAL("part_cache_hits", "part_cache_hits_total", cache_hit_count, 0,
          "Looks at a batch that was open."),
    TOTAL("part_cache_misses", "part_cache_misses_total", cache_miss_count, 0,
          "Looks at one that was not."),
    {"part_cache_bytes", "part_cache_bytes", STATISTIC_GAUGE, "Memory of open batches.",
     offsetof(struct sums, watch.cache_bytes), 0},
    SUM("part_done_p99_us", done_p99_us, "Time of 99 of 100 PART.DONE, at most."),
    TOTAL("part_takeovers", "part_takeovers_total", takeover_count, 0,
          "Partitions claimed from workers that were silent."),
    TOTAL("part_given_up", "part_given_up_total", given_up_count, 0,
          "Partitions that failed because they were taken over too often."),
    TOTAL("part_verified", "part_verifies_total", verify_count, 0, "PART.ARCHIVE VERIFY."),
    TOTAL("part_verified_bad", "part_verifies_bad_total", verify_bad_count, 0,
          "Those that found a problem."),
};

/* ---- how long PART.DONE takes ---- */

static bool done_add(void *part, struct buf *to)
{
    enum { BUCKETS = 24 }; /* up to 8 s; what takes longer is in +Inf */
    struct part_watch watch;
    uint64_t below = 0;
    part_watch(part, &watch);
    bool good = statistic_head(to, "part_done_microseconds", "histogram", "Time of a PART.DONE.");
    for (size_t i = 0; good && i < BUCKETS; i++) {
        below += watch.done_us[i];
        good = buf_printf(to,
                          "terrace_part_done_microseconds_bucket{le=\"%" PRIu64 "\"} %" PRIu64 "\n",
                          UINT64_C(1) << i, below);
    }
    return good && buf_printf(to,
                              "terrace_part_done_microseconds_bucket{le=\"+Inf\"} %" PRIu64
                              "\nterrace_part_done_microseconds_sum %" PRIu64
                              "\nterrace_part_done_microseconds_count %" PRIu64 "\n",
                              watch.done_count, watch.done_us_sum, watch.done_count);
}

const struct statistics part_statistics[PART_STATISTICS_COUNT] = {
    {NULL, NULL, job_rows, ARRAY_LEN(job_rows), sizeof(struct part_seen), .read = job_read,
     .labels = "db, job", .add = done_add},
    {"partitions", "Partitions", sums_rows, ARRAY_LEN(sums_rows), sizeof(struct sums),
     .read = sums_read},
};

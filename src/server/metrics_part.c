// SPDX-License-Identifier: Apache-2.0
/* metrics_part.c - partitions, for INFO and /metrics. */
#include <inttypes.h>

#include "server/metrics_int.h"
#include "server/server_int.h"

#include "base/banned.h"

void metrics_part_sum(const struct server *server, struct metrics_part *ret_sum)
{
    size_t count;
    const struct part_seen *seen = part_seen(server->part, &count);
    struct metrics_part *sum = ret_sum;
    *sum = (struct metrics_part){.job_count = count};
    part_watch(server->part, &sum->watch);
    for (size_t i = 0; i < count; i++) {
        sum->active += seen[i].active;
        sum->completed += seen[i].completed;
        sum->simple += seen[i].simple;
        sum->packed += seen[i].packed;
        sum->batches += seen[i].batches;
        sum->bytes += seen[i].bytes;
        sum->raw_bytes += seen[i].raw_bytes;
        sum->waiting += seen[i].waiting;
    }
    const struct part_watch *watch = &sum->watch;
    sum->encode_us = watch->encode_count ? watch->encode_ns / watch->encode_count / 1000 : 0;
    sum->decode_us = watch->decode_count ? watch->decode_ns / watch->decode_count / 1000 : 0;
    uint64_t below = 0;
    for (size_t i = 0; i < ARRAY_LEN(watch->done_us) && watch->done_count > 0; i++) {
        below += watch->done_us[i];
        if (below * 100 >= watch->done_count * 99) {
            sum->done_p99_us = UINT64_C(1) << i;
            break;
        }
    }
}

#define OF_SEEN(member) offsetof(struct part_seen, member)
static const struct {
    const char *name, *help;
    size_t member;
} job_metrics[] = {
    {"part_active", "Partitions that are not completed.", OF_SEEN(active)},
    {"part_completed", "Partitions completed, ever.", OF_SEEN(completed)},
    {"part_simple", "Completed partitions that are not packed.", OF_SEEN(simple)},
    {"part_packed", "Packed partitions.", OF_SEEN(packed)},
    {"part_batches", "Packed batches.", OF_SEEN(batches)},
    {"part_archive_bytes", "Bytes of packed partitions; by part_packed: bytes a partition.",
     OF_SEEN(bytes)},
    {"part_archive_json_bytes", "The same partitions as JSON; part_archive_bytes by it: the ratio.",
     OF_SEEN(raw_bytes)},
    {"part_waiting", "Completed partitions that wait to be packed.", OF_SEEN(waiting)},
};

static void add_jobs(struct metrics *out, const struct server *server)
{
    size_t count;
    const struct part_seen *seen = part_seen(server->part, &count);
    for (size_t i = 0; i < ARRAY_LEN(job_metrics); i++) {
        metrics__head(out, job_metrics[i].name, "gauge", job_metrics[i].help);
        for (size_t n = 0; n < count; n++) {
            uint64_t value;
            memcpy(&value, (const char *)&seen[n] + job_metrics[i].member, sizeof value);
            out->failed = out->failed ||
                          !buf_printf(out->to, "terrace_%s{db=\"%u\",job=\"%s\"} %" PRIu64 "\n",
                                      job_metrics[i].name, seen[n].db, seen[n].name, value);
        }
    }
}

static void add_done(struct metrics *out, const struct part_watch *watch)
{
    enum { BUCKETS = 24 }; /* up to 8 s; what takes longer is in +Inf */
    uint64_t below = 0;
    metrics__head(out, "part_done_microseconds", "histogram", "Time of a PART.DONE.");
    for (size_t i = 0; i < BUCKETS; i++) {
        below += watch->done_us[i];
        out->failed =
            out->failed ||
            !buf_printf(out->to,
                        "terrace_part_done_microseconds_bucket{le=\"%" PRIu64 "\"} %" PRIu64 "\n",
                        UINT64_C(1) << i, below);
    }
    out->failed =
        out->failed || !buf_printf(out->to,
                                   "terrace_part_done_microseconds_bucket{le=\"+Inf\"} %" PRIu64
                                   "\nterrace_part_done_microseconds_sum %" PRIu64
                                   "\nterrace_part_done_microseconds_count %" PRIu64 "\n",
                                   watch->done_count, watch->done_us_sum, watch->done_count);
}

void metrics__add_part(struct metrics *out, const struct server *server)
{
    struct part_watch watch;
    part_watch(server->part, &watch);
    add_jobs(out, server);
    add_done(out, &watch);
    metrics__add(out, "part_encodes_total", "counter", "Batches made.", watch.encode_count);
    metrics__add(out, "part_encode_microseconds_total", "counter", "Time of that.",
                 watch.encode_ns / 1000);
    metrics__add(out, "part_decodes_total", "counter", "Batches opened.", watch.decode_count);
    metrics__add(out, "part_decode_microseconds_total", "counter", "Time of that.",
                 watch.decode_ns / 1000);
    metrics__add(out, "part_decode_failures_total", "counter", "Batches that could not be opened.",
                 watch.decode_failure_count);
    metrics__add(out, "part_pack_failures_total", "counter", "Steps of packing that failed.",
                 watch.pack_failure_count);
    metrics__add(out, "part_packed_total", "counter", "Partitions packed.", watch.packed_count);
    metrics__add(out, "part_merged_batches_total", "counter",
                 "Batches made again for late partitions.", watch.merged_batch_count);
    metrics__add(out, "part_aged_out_total", "counter", "Partitions dropped by part-retain.",
                 watch.dropped_count);
    metrics__add(out, "part_cache_hits_total", "counter", "Looks at a batch that was open.",
                 watch.cache_hit_count);
    metrics__add(out, "part_cache_misses_total", "counter", "Looks at one that was not.",
                 watch.cache_miss_count);
    metrics__add(out, "part_cache_bytes", "gauge", "Memory of open batches.", watch.cache_bytes);
    metrics__add(out, "part_takeovers_total", "counter",
                 "Partitions claimed from workers that were silent.", watch.takeover_count);
    metrics__add(out, "part_given_up_total", "counter",
                 "Partitions that failed because they were taken over too often.",
                 watch.given_up_count);
    metrics__add(out, "part_verifies_total", "counter", "PART.ARCHIVE VERIFY.", watch.verify_count);
    metrics__add(out, "part_verifies_bad_total", "counter", "Those that found a problem.",
                 watch.verify_bad_count);
}

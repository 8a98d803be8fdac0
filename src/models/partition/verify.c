// SPDX-License-Identifier: Apache-2.0
/* verify.c - PART.ARCHIVE VERIFY: every batch, every record, and that all statistics are the sums
 * of the records, with what has aged out. */
#include <stdlib.h>
#include <xxhash.h>

#include "base/mem.h"
#include "models/partition/census_int.h"
#include "types/number.h"

#include "base/banned.h"

struct verify_sum {
    enum job_key which;
    struct bytes field;
    struct part_stat stat;
    bool met;
};

struct sum_key {
    enum job_key which;
    struct bytes field;
};

static uint64_t key_hash(enum job_key which, struct bytes field)
{
    return XXH3_64bits_withSeed(field.ptr, field.len, which);
}

static uint64_t sum_hash(const void *entry, void *arg)
{
    const struct verify_sum *sum = entry;
    (void)arg;
    return key_hash(sum->which, sum->field);
}

static bool sum_eq(const void *entry, const void *key, void *arg)
{
    const struct verify_sum *sum = entry;
    const struct sum_key *wanted = key;
    (void)arg;
    return sum->which == wanted->which && bytes_eq(sum->field, wanted->field);
}

void verify_init(struct part_census *census)
{
    table_init(&census->sums, sum_hash, sum_eq, NULL);
    arena_init(&census->sums_arena);
    census->histogram = mem_zalloc(STAT_BUCKET_COUNT * sizeof *census->histogram);
}

void verify_done(struct part_census *census)
{
    if (!census->histogram)
        return;
    table_done(&census->sums);
    arena_done(&census->sums_arena);
    mem_free(census->histogram);
}

/* ---- adding up ---- */

static struct verify_sum *sum_find(struct part_census *census, enum job_key which,
                                   struct bytes field)
{
    struct sum_key key = {which, field};
    return table_find(&census->sums, key_hash(which, field), &key, NULL);
}

static void sum_add(struct part_census *census, enum job_key which, struct bytes field,
                    const struct part_record *record)
{
    struct verify_sum *sum = sum_find(census, which, field);
    if (!sum) {
        sum = arena_alloc(&census->sums_arena, sizeof *sum);
        *sum = (struct verify_sum){.which = which, .field = arena_copy(&census->sums_arena, field)};
        table_insert(&census->sums, key_hash(which, field), sum);
    }
    part_stat_add(&sum->stat, record);
}

enum rc verify_count(struct part_census *census, const struct part_info *info)
{
    struct part_record record = part_info_record(info, 0);
    struct job_field range = job_field(part_stat_range(info->id));
    uint8_t hour[TEXT_HOUR_BYTES];
    text_put_hour(hour, record.updated_s);
    sum_add(census, JOB_STATS, JOB_STAT_ALL, &record);
    sum_add(census, JOB_WORKERS, info->worker, &record);
    sum_add(census, JOB_RANGES, job_field_bytes(&range), &record);
    sum_add(census, JOB_HOURS, bytes_of(hour, sizeof hour), &record);
    if (info->duration_ms >= 0)
        census->histogram[part_bucket(info->duration_ms)]++;
    return RC_OK;
}

/* ---- comparing ---- */

struct compare {
    struct part_census *census;
    struct part_job *job;
    enum job_key which;
};

static void problem(const struct compare *compare, struct bytes field, const char *what)
{
    struct err err;
    err_set(&err, RC_CORRUPT, "elk:{%.*s}:%s, field %.*s: %s", (int)compare->job->name.len,
            (const char *)compare->job->name.ptr, job_key_suffix(compare->which), (int)field.len,
            (const char *)field.ptr, what);
    census_problem_add(compare->census, err.text);
}

static bool sums_fit(const struct part_stat *stat, const struct part_stat *sum)
{
    bool sums = stat->completed == sum->completed + stat->dropped &&
                stat->ids == sum->ids + stat->dropped_ids &&
                stat->timed == sum->timed + stat->dropped_timed &&
                stat->duration_ms == sum->duration_ms + stat->dropped_ms;
    if (!sums || sum->completed == 0)
        return sums;
    bool inside = stat->max_ms >= sum->max_ms && stat->first_s <= sum->first_s &&
                  stat->last_s >= sum->last_s && stat->min_id <= sum->min_id &&
                  stat->max_id >= sum->max_id;
    bool equal = stat->max_ms == sum->max_ms && stat->first_s == sum->first_s &&
                 stat->last_s == sum->last_s && stat->min_id == sum->min_id &&
                 stat->max_id == sum->max_id;
    return stat->dropped > 0 ? inside : equal;
}

static void row_compare(const struct compare *compare, struct bytes field,
                        const struct part_stat *stat)
{
    struct verify_sum *sum = sum_find(compare->census, compare->which, field);
    struct part_stat none = {0};
    if (sum)
        sum->met = true;
    if (!sums_fit(stat, sum ? &sum->stat : &none))
        problem(compare, field, "it is not the sum of the records");
}

static void row_show(void *arg, struct bytes field, const struct part_stat *stat)
{
    row_compare(arg, field, stat);
}

static void unmet_note(void *entry, void *arg)
{
    const struct verify_sum *sum = entry;
    struct compare compare = *(const struct compare *)arg;
    compare.which = sum->which;
    if (!sum->met)
        problem(&compare, sum->field, "there are records, and no row of statistics");
}

static enum rc histogram_compare(struct compare *compare, struct err *err)
{
    uint64_t *stored =
        arena_alloc_array(compare->job->run.arena, STAT_BUCKET_COUNT, sizeof *stored);
    uint64_t total = 0, sum = 0;
    struct part_stat all;
    enum rc rc = part_histogram(compare->job, stored, err);
    if (rc == RC_OK)
        rc = job_stat(compare->job, JOB_STATS, JOB_STAT_ALL, &all, err);
    if (rc != RC_OK)
        return rc;
    bool fits = true;
    for (size_t i = 0; i < STAT_BUCKET_COUNT; i++) {
        total += stored[i];
        sum += compare->census->histogram[i];
        fits = fits && stored[i] >= compare->census->histogram[i];
    }
    if (!fits || total != sum + all.dropped_timed)
        problem(compare, BYTES("duration:*"), "the histogram is not that of the records");
    return RC_OK;
}

/* ---- the active ones ---- */

static enum rc active_compare(struct compare *compare, struct err *err)
{
    const uint64_t *count = compare->census->active.count;
    struct part_counts counts;
    compare->which = JOB_PARTITIONS;
    enum rc rc = part_counts(compare->job, &counts, err);
    if (rc == RC_OK &&
        (counts.pending != count[PART_PENDING] || counts.claimed != count[PART_CLAIMED] ||
         counts.running != count[PART_RUNNING] || counts.failed != count[PART_FAILED]))
        problem(compare, BYTES("*"), "the counts by state are not those of the records");
    return rc;
}

/* ---- the archive's own numbers ---- */

static enum rc index_compare(struct compare *compare, struct err *err)
{
    struct part_job *job = compare->job;
    struct archive_sum stored, sum = {0};
    struct batch_row row;
    int64_t from = 0, last = -1;
    enum rc rc;
    while ((rc = batch_from(job, from, &row, err)) == RC_OK) {
        sum.records += row.count;
        sum.batches++;
        sum.bytes += row.bytes;
        sum.raw += row.raw;
        if (row.min_id <= last)
            problem(compare, BYTES("*"), "two batches overlap");
        last = row.max_id;
        if (row.min_id == INT64_MAX)
            break;
        from = row.min_id + 1;
    }
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = archive_sum(job, &stored, err);
    if (rc == RC_OK && memcmp(&stored, &sum, sizeof sum) != 0)
        problem(compare, BYTES("*"), "the numbers of the archive are not the sums of the index");
    return rc;
}

enum rc verify_end(struct part_census *census, struct part_job *job, struct err *err)
{
    static const enum job_key which[] = {JOB_WORKERS, JOB_RANGES, JOB_HOURS};
    struct compare compare = {.census = census, .job = job, .which = JOB_STATS};
    struct part_stat all;
    uint64_t cursor = 0;
    enum rc rc = job_stat(job, JOB_STATS, JOB_STAT_ALL, &all, err);
    if (rc == RC_OK)
        row_compare(&compare, JOB_STAT_ALL, &all);
    if (rc == RC_OK)
        rc = histogram_compare(&compare, err);
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(which); i++) {
        compare.which = which[i];
        rc = part_stats(job, which[i], row_show, &compare, err);
    }
    compare.which = JOB_INDEX;
    if (rc == RC_OK)
        rc = index_compare(&compare, err);
    if (rc == RC_OK)
        rc = active_compare(&compare, err);
    if (rc == RC_CORRUPT)
        rc = census_problem(census, err);
    if (rc != RC_OK)
        return rc;
    do {
        cursor = table_scan(&census->sums, cursor, unmet_note, &compare);
    } while (cursor != 0);
    census->part->watch.verify_count++;
    census->part->watch.verify_bad_count += census->problem_count > 0;
    return RC_OK;
}

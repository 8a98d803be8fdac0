// SPDX-License-Identifier: Apache-2.0
/* part_look.c - counts, statistics, names of jobs. */
#include "models/partition/part.h"

#include "models/partition/part_int.h"
#include "types/number.h"
#include "types/rows.h"

#include "base/banned.h"

enum rc part_counts(struct part_job *job, struct part_counts *ret_counts, struct err *err)
{
    static const enum job_key counted[] = {JOB_PENDING, JOB_BEATS, JOB_PARTITIONS, JOB_COMPLETED};
    struct bytes paused;
    enum rc rc = RC_OK;
    *ret_counts = (struct part_counts){0};
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(counted); i++) {
        struct key *key;
        rc = job_key(job, counted[i], &key, err);
    }
    if (rc == RC_OK)
        rc = job_stat(job, JOB_STATS, JOB_STAT_ALL, &ret_counts->stat, err);
    if (rc == RC_OK)
        rc = job_get(job, JOB_META, JOB_PAUSED, &paused, err);
    ret_counts->paused = rc == RC_OK;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    uint64_t beats = job_count(job, JOB_BEATS), active = job_count(job, JOB_PARTITIONS);
    ret_counts->pending = job_count(job, JOB_PENDING);
    ret_counts->running = ret_counts->stat.running;
    if (ret_counts->running > beats || ret_counts->pending + beats > active)
        return err_set(err, RC_CORRUPT, "the counts of job %.*s do not fit each other",
                       (int)job->name.len, (const char *)job->name.ptr);
    ret_counts->claimed = beats - ret_counts->running;
    ret_counts->failed = active - beats - ret_counts->pending;
    ret_counts->simple = job_count(job, JOB_COMPLETED);
    ret_counts->dropped = ret_counts->stat.dropped;
    struct archive_sum sum;
    rc = archive_sum(job, &sum, err);
    ret_counts->packed = sum.records;
    ret_counts->batches = sum.batches;
    ret_counts->bytes = sum.bytes;
    ret_counts->raw_bytes = sum.raw;
    return rc;
}

/* ---- rows of statistics ---- */

typedef enum rc row_fn(void *arg, struct bytes field, struct bytes value, struct err *err);

static enum rc rows_each(struct part_job *job, enum job_key which, row_fn *fn, void *arg,
                         struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes field, value;
    struct key *key;
    enum rc rc = job_key(job, which, &key, err);
    if (rc == RC_OK && key->exists)
        rc = rows_need_all(key, err);
    if (rc != RC_OK || !key->exists)
        return rc;
    store_walk_init(&walk, job->run.kv->store, key_rows(key), false);
    while ((rc = store_walk_next(&walk, &field, &value, err)) == RC_OK) {
        rc = fn(arg, field, value, err);
        if (rc != RC_OK) {
            err_prefix(err, "elk:{%.*s}:%s, field %.*s: ", (int)job->name.len,
                       (const char *)job->name.ptr, job_key_suffix(which), (int)field.len,
                       (const char *)field.ptr);
            return rc;
        }
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

struct stats_show {
    part_stat_fn *show;
    void *arg;
};

static enum rc stat_show(void *arg, struct bytes field, struct bytes value, struct err *err)
{
    struct stats_show *to = arg;
    struct part_stat stat;
    enum rc rc = part_stat_read(value, &stat, err);
    if (rc == RC_OK)
        to->show(to->arg, field, &stat);
    return rc;
}

enum rc part_stats(struct part_job *job, enum job_key which, part_stat_fn *show, void *arg,
                   struct err *err)
{
    struct stats_show to = {show, arg};
    ASSERT(which == JOB_WORKERS || which == JOB_RANGES || which == JOB_HOURS);
    return rows_each(job, which, stat_show, &to, err);
}

static enum rc bucket_read(void *arg, struct bytes field, struct bytes value, struct err *err)
{
    uint64_t *count = arg;
    size_t bucket;
    int64_t number;
    if (bytes_eq(field, JOB_STAT_ALL))
        return RC_OK;
    if (!part_bucket_parse(field, &bucket) || !number_int(value, &number) || number < 0)
        return err_set(err, RC_CORRUPT, "it is no bucket of the histogram");
    count[bucket] = (uint64_t)number;
    return RC_OK;
}

enum rc part_histogram(struct part_job *job, uint64_t ret_count[STAT_BUCKET_COUNT], struct err *err)
{
    memset(ret_count, 0, STAT_BUCKET_COUNT * sizeof *ret_count);
    return rows_each(job, JOB_STATS, bucket_read, ret_count, err);
}

/* ---- all jobs ---- */

struct name_node {
    struct bytes name;
    struct name_node *next;
};
struct names_show {
    struct arena *arena;
    struct name_node *first, **last;
};

static enum rc name_note(void *arg, struct bytes field, struct bytes value, struct err *err)
{
    struct names_show *names = arg;
    struct name_node *node = arena_alloc(names->arena, sizeof *node);
    (void)value;
    (void)err;
    *node = (struct name_node){.name = arena_copy(names->arena, field)};
    *names->last = node;
    names->last = &node->next;
    return RC_OK;
}

/* Names first: whoever is shown one may look at other rows. */
enum rc part_jobs(struct part *part, const struct run *run, part_name_fn *show, void *arg,
                  struct err *err)
{
    struct part_job all = {.part = part, .run = run_as(run, run->ns, part)};
    struct names_show names = {.arena = run->arena, .last = &names.first};
    enum rc rc = rows_each(&all, JOB_JOBS, name_note, &names, err);
    for (struct name_node *node = names.first; rc == RC_OK && node; node = node->next)
        rc = show(arg, node->name, err);
    return rc;
}

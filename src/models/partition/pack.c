// SPDX-License-Identifier: Apache-2.0
/* pack.c - one commit of packing: completed records become a batch, or come late into one.
 *
 * Everything is rows: batch in, originals out and the numbers of the archive are one commit, so a
 * kill leaves all of it or nothing, and whoever packs next begins with what is there. */
#include "base/mem.h"
#include "models/partition/idwalk.h"
#include "models/partition/part_int.h"

#include "base/banned.h"

enum {
    TEXTS_BYTES_MAX = 8 * 1024 * 1024, /* of errors and options of a batch */
    LATE_RECORDS_A_BATCH = 8,          /* fewer on average: they wait */
    RETAIN_LOOK_MAX = 256,
};

struct stretch { /* records that are packed together, with ascending ids, in the command's arena */
    struct part_record *record;
    size_t count, cap;
    uint64_t raw;
    size_t text_bytes;
};

struct place { /* where the first record belongs */
    int64_t first;
    bool has_before, has_behind, inside; /* inside: among the ids of `before` */
    struct batch_row before, behind;
};

/* ---- when ---- */

enum rc pack_is_due(struct part_job *job, bool *ret_due, struct err *err)
{
    const struct part_limits *limits = &job->part->limits;
    struct archive_sum sum;
    struct key *key;
    enum rc rc = job_key(job, JOB_COMPLETED, &key, err);
    if (rc == RC_OK)
        rc = archive_sum(job, &sum, err);
    if (rc != RC_OK)
        return rc;
    uint64_t simple = job_count(job, JOB_COMPLETED);
    *ret_due = simple >= limits->batch && (sum.records > 0 || simple >= limits->simple_max);
    return RC_OK;
}

enum rc pack_begin(struct part_job *job, bool all, struct pack_pass *ret_pass, struct err *err)
{
    struct key *key;
    enum rc rc = job_key(job, JOB_COMPLETED, &key, err);
    if (rc != RC_OK)
        return rc;
    uint64_t simple = job_count(job, JOB_COMPLETED);
    bool many = all || simple > job->part->limits.simple_max;
    *ret_pass = (struct pack_pass){.all = all,
                                   .credit = many ? UINT64_MAX : simple / LATE_RECORDS_A_BATCH + 1};
    return RC_OK;
}

/* ---- records ---- */

struct number_memo { /* the workers of a batch are few */
    struct bytes name;
    uint32_t number;
};
enum { MEMO_COUNT = 64 };

static enum rc number_of(struct part_job *job, struct number_memo *memo, struct bytes name,
                         uint32_t *ret_number, struct err *err)
{
    size_t hash = name.len;
    for (size_t i = 0; i < name.len; i++)
        hash = hash * 31 + name.ptr[i];
    struct number_memo *at = &memo[hash % MEMO_COUNT];
    if (at->name.ptr && bytes_eq(at->name, name)) {
        *ret_number = at->number;
        return RC_OK;
    }
    enum rc rc = job_worker_number(job, name, true, ret_number, err);
    if (rc == RC_OK)
        *at = (struct number_memo){.name = name, .number = *ret_number};
    return rc;
}

/* Up to `max` records with ids of at most `limit`. */
static enum rc stretch_read(struct part_job *job, int64_t from, int64_t limit, size_t max,
                            struct stretch *stretch, struct err *err)
{
    CLEANUP(idwalk_done) struct idwalk walk;
    struct number_memo memo[MEMO_COUNT] = {0};
    struct bytes json;
    int64_t id;
    enum rc rc = RC_OK;
    idwalk_init(&walk, &job->key[JOB_COMPLETED], from);
    *stretch = (struct stretch){.cap = max};
    stretch->record = arena_alloc_array(job->run.arena, max, sizeof *stretch->record);
    while (stretch->count < max && stretch->text_bytes < TEXTS_BYTES_MAX) {
        struct part_info info;
        uint32_t number;
        rc = idwalk_next(&walk, &id, &json, err);
        if (rc != RC_OK || id > limit)
            break;
        size_t len = json.len;
        struct job_field field = job_field(id);
        rc = job_info_read(job, JOB_COMPLETED, job_field_bytes(&field), json, &info, err);
        if (rc == RC_CORRUPT) { /* it stays where it is, and does not stop the others */
            job->part->watch.pack_failure_count++;
            rc = RC_OK;
            continue;
        }
        if (rc == RC_OK)
            rc = number_of(job, memo, info.worker, &number, err);
        if (rc != RC_OK)
            break;
        stretch->record[stretch->count++] = part_info_record(&info, number);
        stretch->raw += len;
        stretch->text_bytes += info.error.len + info.options.len;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static bool stretch_is_cut(const struct stretch *stretch)
{
    return stretch->text_bytes >= TEXTS_BYTES_MAX;
}

static enum rc originals_delete(struct part_job *job, const struct stretch *stretch,
                                struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < stretch->count; i++) {
        struct job_field field = job_field(stretch->record[i].id);
        rc = job_delete(job, JOB_COMPLETED, job_field_bytes(&field), err);
    }
    return rc;
}

/* ---- a step ---- */

static enum rc place_find(struct part_job *job, int64_t from, struct place *ret_place,
                          struct err *err)
{
    CLEANUP(idwalk_done) struct idwalk walk;
    struct bytes json;
    struct place *place = ret_place;
    *place = (struct place){0};
    idwalk_init(&walk, &job->key[JOB_COMPLETED], from);
    enum rc rc = idwalk_next(&walk, &place->first, &json, err);
    if (rc != RC_OK)
        return rc;
    rc = batch_at(job, place->first, &place->before, err);
    place->has_before = rc == RC_OK;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    place->inside = place->has_before && place->first <= place->before.max_id;
    if (place->first == INT64_MAX)
        return RC_OK;
    rc = batch_from(job, place->first + 1, &place->behind, err);
    place->has_behind = rc == RC_OK;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* A batch has the stretch's records: the originals go, and the pass goes on behind them. */
static enum rc stretch_packed(struct part_job *job, struct pack_pass *pass,
                              const struct stretch *stretch, struct err *err)
{
    enum rc rc = originals_delete(job, stretch, err);
    if (rc == RC_OK)
        rc = job_save(job, err);
    if (rc != RC_OK)
        return rc;
    int64_t last = stretch->record[stretch->count - 1].id;
    pass->from = last + (last < INT64_MAX);
    pass->packed += stretch->count;
    job->part->watch.packed_count += stretch->count;
    return RC_OK;
}

static enum rc stretch_pack(struct part_job *job, struct pack_pass *pass,
                            const struct stretch *stretch, struct err *err)
{
    enum rc rc = batch_put(job, stretch->record, stretch->count, stretch->raw, err);
    return rc == RC_OK ? stretch_packed(job, pass, stretch, err) : rc;
}

/* Both have ascending ids, and no id is in both. */
static enum rc records_merge(struct part_job *job, const struct part_record *old, size_t old_count,
                             const struct stretch *stretch, struct stretch *ret_all,
                             struct err *err)
{
    size_t total = old_count + stretch->count, a = 0, b = 0;
    struct part_record *all = arena_alloc_array(job->run.arena, total, sizeof *all);
    for (size_t i = 0; i < total; i++) {
        bool first = b == stretch->count || (a < old_count && old[a].id < stretch->record[b].id);
        if (!first && a < old_count && old[a].id == stretch->record[b].id)
            return err_set(err, RC_CORRUPT, "partition %lld of job %.*s is completed twice",
                           (long long)old[a].id, (int)job->name.len, (const char *)job->name.ptr);
        all[i] = first ? old[a++] : stretch->record[b++];
    }
    *ret_all = (struct stretch){.record = all, .count = total};
    return RC_OK;
}

/* One batch, or several of the wanted size if it has grown to more than two. */
static enum rc pieces_put(struct part_job *job, const struct stretch *all, uint64_t raw,
                          struct err *err)
{
    size_t size = job->part->limits.batch;
    ASSERT(all->count > 0);
    size_t pieces = all->count > 2 * size ? (all->count + size - 1) / size : 1;
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < pieces; i++) {
        size_t start = all->count * i / pieces, end = all->count * (i + 1) / pieces;
        uint64_t part = raw * end / all->count - raw * start / all->count;
        rc = batch_put(job, all->record + start, end - start, part, err);
    }
    return rc;
}

/* Late records and the batch they belong to become a new one. */
static enum rc late_pack(struct part_job *job, struct pack_pass *pass, const struct batch_row *into,
                         const struct stretch *stretch, struct err *err)
{
    struct part_batch *batch;
    struct part_record *old;
    struct stretch all;
    enum rc rc = batch_open(job, into, &batch, err);
    if (rc == RC_OK)
        rc = part_batch_decode(batch, job->run.arena, &old, err);
    if (rc == RC_OK)
        rc = records_merge(job, old, part_batch_info(batch).count, stretch, &all, err);
    if (rc == RC_OK)
        rc = batch_remove(job, into, err);
    if (rc == RC_OK)
        rc = pieces_put(job, &all, into->raw + stretch->raw, err);
    if (rc == RC_OK)
        rc = stretch_packed(job, pass, stretch, err);
    if (rc != RC_OK)
        return rc;
    pass->credit--;
    job->part->watch.merged_batch_count++;
    return RC_OK;
}

/* Behind all batches. */
static enum rc tail_step(struct part_job *job, struct pack_pass *pass, const struct place *place,
                         enum pack_end *ret_end, struct err *err)
{
    struct stretch stretch;
    size_t size = job->part->limits.batch;
    enum rc rc = stretch_read(job, place->first, INT64_MAX, size, &stretch, err);
    if (rc != RC_OK)
        return rc;
    *ret_end = PACK_OVER;
    if (stretch.count == 0 || (stretch.count < size && !stretch_is_cut(&stretch) && !pass->all))
        return RC_OK;
    *ret_end = PACK_STEP;
    if (pass->all && place->has_before && place->before.count + stretch.count <= size)
        return late_pack(job, pass, &place->before, &stretch, err);
    return stretch_pack(job, pass, &stretch, err);
}

static enum rc late_step(struct part_job *job, struct pack_pass *pass, const struct place *place,
                         struct err *err)
{
    struct stretch stretch;
    size_t size = job->part->limits.batch;
    int64_t limit = place->has_behind ? place->behind.min_id - 1 : place->before.max_id;
    enum rc rc = stretch_read(job, place->first, limit, 2 * size, &stretch, err);
    if (rc != RC_OK)
        return rc;
    if (stretch.count == 0) { /* those there are cannot be read */
        pass->from = limit + (limit < INT64_MAX);
        return RC_OK;
    }
    if (!place->inside && stretch.count >= size / 2 + 1)
        return stretch_pack(job, pass, &stretch, err);
    if (pass->credit == 0) { /* they wait for company; what is behind all batches is packed */
        struct batch_row last;
        rc = batch_at(job, INT64_MAX, &last, err);
        pass->from = rc == RC_OK && last.max_id < INT64_MAX ? last.max_id + 1 : INT64_MAX;
        return rc;
    }
    const struct batch_row *into = place->has_before ? &place->before : &place->behind;
    struct part_batch *batch;
    rc = batch_open(job, into, &batch, err);
    if (rc == RC_CORRUPT || rc == RC_VERSION) { /* it is left alone, and what belongs into it */
        job->part->watch.pack_failure_count++;
        pass->from = limit + (limit < INT64_MAX);
        return RC_OK;
    }
    return rc == RC_OK ? late_pack(job, pass, into, &stretch, err) : rc;
}

enum rc pack_step(struct part_job *job, struct pack_pass *pass, enum pack_end *ret_end,
                  struct err *err)
{
    struct key *key;
    struct place place;
    enum rc rc = job_key(job, JOB_COMPLETED, &key, err);
    if (rc == RC_OK)
        rc = place_find(job, pass->from, &place, err);
    *ret_end = PACK_OVER;
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc != RC_OK)
        return rc;
    int64_t from = pass->from;
    uint64_t packed = pass->packed;
    *ret_end = PACK_STEP;
    if (!place.inside && !place.has_behind)
        rc = tail_step(job, pass, &place, ret_end, err);
    else
        rc = late_step(job, pass, &place, err);
    if (pass->from == from && pass->packed == packed)
        *ret_end = PACK_OVER; /* the last id there is, and it cannot be packed */
    return rc == RC_OK ? job_save(job, err) : rc; /* workers may have got their numbers */
}

/* ---- part-retain ---- */

struct drops { /* what a dropped batch takes out of one kind of rows */
    struct bytes *field;
    struct part_stat *stat;
    size_t count;
};

static struct part_stat *drop_of(struct part_job *job, struct drops *drops, struct bytes field)
{
    for (size_t i = drops->count; i-- > 0;) /* neighbours are alike */
        if (bytes_eq(drops->field[i], field))
            return &drops->stat[i];
    drops->field[drops->count] = arena_copy(job->run.arena, field);
    drops->stat[drops->count] = (struct part_stat){0};
    return &drops->stat[drops->count++];
}

static void drops_init(struct part_job *job, struct drops *drops, size_t max)
{
    *drops =
        (struct drops){.field = arena_alloc_array(job->run.arena, max, sizeof(struct bytes)),
                       .stat = arena_alloc_array(job->run.arena, max, sizeof(struct part_stat))};
}

static enum rc drops_put(struct part_job *job, enum job_key which, const struct drops *drops,
                         struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < drops->count; i++) {
        const struct part_stat *drop = &drops->stat[i];
        struct part_stat stat;
        rc = job_stat(job, which, drops->field[i], &stat, err);
        stat.dropped += drop->dropped;
        stat.dropped_ids += drop->dropped_ids;
        stat.dropped_timed += drop->dropped_timed;
        stat.dropped_ms += drop->dropped_ms;
        if (rc == RC_OK)
            rc = job_stat_put(job, which, drops->field[i], &stat, err);
    }
    return rc;
}

/* The statistics remember how much of them is in no record any more. */
static enum rc drop_count(struct part_job *job, const struct part_record *record, size_t count,
                          struct err *err)
{
    static const enum job_key which[] = {JOB_STATS, JOB_WORKERS, JOB_RANGES, JOB_HOURS};
    struct drops drops[ARRAY_LEN(which)];
    enum rc rc = RC_OK;
    for (size_t i = 0; i < ARRAY_LEN(which); i++)
        drops_init(job, &drops[i], count);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct job_field range = job_field(part_stat_range(record[i].id));
        uint8_t hour[TEXT_HOUR_BYTES];
        struct bytes worker;
        text_put_hour(hour, record[i].updated_s);
        rc = job_worker_name(job, record[i].worker, &worker, err);
        if (rc != RC_OK)
            return rc;
        part_stat_drop(drop_of(job, &drops[0], JOB_STAT_ALL), &record[i]);
        part_stat_drop(drop_of(job, &drops[1], worker), &record[i]);
        part_stat_drop(drop_of(job, &drops[2], job_field_bytes(&range)), &record[i]);
        part_stat_drop(drop_of(job, &drops[3], bytes_of(hour, sizeof hour)), &record[i]);
    }
    for (size_t i = 0; rc == RC_OK && i < ARRAY_LEN(which); i++)
        rc = drops_put(job, which[i], &drops[i], err);
    return rc;
}

/* Which ids the records covered. Those of neighbours mostly follow each other. */
static enum rc drop_note(struct part_job *job, const struct part_record *record, size_t count,
                         struct err *err)
{
    struct aged_span span = {.max_id = -1};
    int64_t noted;
    enum rc rc = job_number(job, JOB_AGED_COUNT, &noted, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct part_record *one = &record[i];
        if (one->min_id > one->max_id)
            continue; /* it covers nothing */
        if (span.max_id >= 0 && span.max_id == one->min_id - 1) {
            span.max_id = one->max_id;
            continue;
        }
        if (span.max_id >= 0)
            rc = aged_add(job, JOB_AGED, span, err);
        span = (struct aged_span){one->min_id, one->max_id};
    }
    if (rc == RC_OK && span.max_id >= 0)
        rc = aged_add(job, JOB_AGED, span, err);
    return rc == RC_OK ? job_number_put(job, JOB_AGED_COUNT, noted + (int64_t)count, err) : rc;
}

static enum rc batch_drop(struct part_job *job, const struct batch_row *row, struct err *err)
{
    struct part_batch *batch;
    struct part_record *record;
    enum rc rc = batch_open(job, row, &batch, err);
    if (rc == RC_OK)
        rc = part_batch_decode(batch, job->run.arena, &record, err);
    if (rc == RC_OK)
        rc = drop_count(job, record, row->count, err);
    if (rc == RC_OK)
        rc = batch_remove(job, row, err);
    if (rc == RC_OK)
        rc = aged_add(job, JOB_DROPPED, (struct aged_span){row->min_id, row->max_id}, err);
    if (rc == RC_OK)
        rc = drop_note(job, record, row->count, err);
    if (rc == RC_OK)
        rc = job_save(job, err);
    if (rc == RC_OK)
        job->part->watch.dropped_count += row->count;
    return rc;
}

enum rc pack_retain(struct part_job *job, int64_t *from, enum pack_end *ret_end, struct err *err)
{
    const struct part_limits *limits = &job->part->limits;
    struct part_counts counts;
    struct batch_row row;
    *ret_end = PACK_OVER;
    enum rc rc = part_counts(job, &counts, err);
    if (rc != RC_OK || limits->retain_ms == 0 || census_runs(job) ||
        counts.simple + counts.packed <= limits->compressed_max)
        return rc;
    for (size_t i = 0; i < RETAIN_LOOK_MAX; i++) {
        rc = batch_from(job, *from, &row, err);
        if (rc != RC_OK)
            return rc == RC_NOT_FOUND ? RC_OK : rc;
        *from = row.min_id + (row.min_id < INT64_MAX);
        if ((uint64_t)row.to_s * 1000 + limits->retain_ms > job->run.now_ms)
            continue;
        *ret_end = PACK_STEP;
        return batch_drop(job, &row, err);
    }
    *ret_end = PACK_STEP;
    return RC_OK;
}

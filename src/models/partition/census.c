// SPDX-License-Identifier: Apache-2.0
/* census.c - all completed records of a job, some in each commit: PART.GAPS, PART.ARCHIVE VERIFY.
 *
 * Invariants:
 *   (1) Records with ids below the cursor have been counted, but for the late ones.
 *   (2) A record that is completed below the cursor is noted as late. It was active when the cursor
 *       passed it, or it would have been counted; so each late one is counted once, at the end.
 *   (3) Nothing of the job ages out meanwhile. Packing moves records and changes no id. */
#include <stdlib.h>

#include "base/mem.h"
#include "models/partition/census_int.h"
#include "models/partition/idwalk.h"

#include "base/banned.h"

enum { STEP_ROWS = 2000, STEP_CHUNKS = 4, LATE_MAX = 4 * 1000 * 1000, LATE_STEP = 2000 };

/* ---- late ones ---- */

static void ids_add(struct census_ids *ids, int64_t id)
{
    if (ids->count == ids->cap) {
        ids->cap = ids->cap ? 2 * ids->cap : 64;
        ids->id = mem_realloc(ids->id, ids->cap * sizeof *ids->id);
    }
    ids->id[ids->count++] = id;
}

bool census_is_of(const struct part_census *census, const struct part_job *job)
{
    return census->db == job->run.ns->index && bytes_eq(census->name, job->name);
}

void census_note(struct part_job *job, int64_t id)
{
    for (struct part_census *census = job->part->census; census; census = census->next)
        if (census_is_of(census, job) && (census->through || id < census->cursor)) {
            if (census->late.count < LATE_MAX)
                ids_add(&census->late, id);
            else
                census->overrun = true;
        }
}

bool census_runs(const struct part_job *job)
{
    for (const struct part_census *census = job->part->census; census; census = census->next)
        if (census_is_of(census, job))
            return true;
    return false;
}

/* ---- life ---- */

struct part_census *part_census_new(struct part_job *job, const struct part_census_options *options)
{
    struct part_census *census = mem_zalloc(sizeof *census);
    census->part = job->part;
    census->options = *options;
    census->db = job->run.ns->index;
    census->name = bytes_of(mem_dup(job->name.ptr, job->name.len), job->name.len);
    census->next = job->part->census;
    job->part->census = census;
    if (options->kind == PART_VERIFY)
        verify_init(census);
    return census;
}

void part_census_free(void *arg)
{
    struct part_census *census = arg;
    if (!census)
        return;
    struct part_census **at = &census->part->census;
    while (*at != census)
        at = &(*at)->next;
    *at = census->next;
    verify_done(census);
    census_active_done(census);
    census_problems_free(census);
    mem_free((void *)census->name.ptr);
    mem_free(census->late.id);
    mem_free(census->counted.id);
    mem_free(census->covered.span);
    mem_free(census->twice.span);
    mem_free(census->unreadable.span);
    mem_free(census->aged.span);
    mem_free(census->result.span);
    mem_free(census);
}

struct part_census_result part_census_result(const struct part_census *census)
{
    return (struct part_census_result){.batch_count = census->batch_count,
                                       .record_count = census->record_count,
                                       .problem = (const char *const *)census->problem,
                                       .problem_count = census->problem_count,
                                       .span = census->result.span,
                                       .span_count = census->result.count,
                                       .span_more = census->span_more};
}

/* ---- counting ---- */

/* A chunk may turn out to be cold half way: what it has found is counted when it is whole. */
void census_held_clear(struct part_census *census, struct arena *arena)
{
    census->held = (struct census_held){.arena = arena, .last = &census->held.first};
    census->held_batches = 0;
}

enum rc census_hold(struct part_census *census, const struct part_info *info)
{
    struct held_info *held = arena_alloc(census->held.arena, sizeof *held);
    *held = (struct held_info){.info = *info};
    *census->held.last = held;
    census->held.last = &held->next;
    return RC_OK;
}

void census_problem_add(struct part_census *census, const char *text)
{
    for (size_t i = 0; i < census->problem_count; i++)
        if (strcmp(census->problem[i], text) == 0)
            return;
    if (census->problem_count == CENSUS_PROBLEMS_MAX)
        return;
    census->problem =
        mem_realloc(census->problem, (census->problem_count + 1) * sizeof *census->problem);
    census->problem[census->problem_count++] = mem_dup(text, strlen(text) + 1);
}

enum rc census_problem(struct part_census *census, const struct err *err)
{
    if (census->options.kind == PART_GAPS)
        return err->rc; /* what cannot be read may cover anything */
    census_problem_add(census, err->text);
    return RC_OK;
}

void census_problems_free(struct part_census *census)
{
    for (size_t i = 0; i < census->problem_count; i++)
        mem_free(census->problem[i]);
    mem_free(census->problem);
}

static enum rc held_count(struct part_census *census, struct err *err)
{
    enum rc rc = RC_OK;
    for (const struct held_info *held = census->held.first; rc == RC_OK && held;
         held = held->next) {
        census->record_count++;
        rc = census->options.kind == PART_GAPS ? gaps_count(census, &held->info, err)
                                               : verify_count(census, &held->info);
    }
    census->batch_count += census->held_batches;
    census_held_clear(census, census->held.arena);
    return rc;
}

/* Rows of JOB_COMPLETED up to *to; fewer if they are too many, then *to is the last one. */
static enum rc simple_count(struct part_census *census, struct part_job *job, int64_t *to,
                            struct err *err)
{
    CLEANUP(idwalk_done) struct idwalk walk = {0};
    struct bytes json;
    struct key *key;
    int64_t id;
    enum rc rc = job_key(job, JOB_COMPLETED, &key, err);
    if (rc != RC_OK)
        return rc;
    idwalk_init(&walk, key, census->cursor);
    walk.steps_max = STEP_ROWS;
    while (rc == RC_OK) {
        struct part_info info;
        rc = idwalk_next(&walk, &id, &json, err);
        if (rc == RC_WAIT && walk.next_id <= *to) {
            *to = walk.next_id - 1;
            return RC_OK;
        }
        if (rc != RC_OK || id > *to)
            break;
        struct job_field field = job_field(id);
        rc = job_info_read(job, JOB_COMPLETED, job_field_bytes(&field), json, &info, err);
        if (rc == RC_CORRUPT)
            rc = census_problem(census, err);
        else if (rc == RC_OK)
            rc = census_hold(census, &info);
    }
    return rc == RC_NOT_FOUND || rc == RC_WAIT ? RC_OK : rc;
}

static enum rc batch_check(const struct part_census *census, const struct batch_row *row,
                           struct part_batch *batch, struct arena *arena,
                           struct part_record **ret_record, struct err *err)
{
    bool verify = census->options.kind == PART_VERIFY;
    enum rc rc = verify ? part_batch_verify(batch, err) : RC_OK;
    if (rc == RC_OK)
        rc = part_batch_decode(batch, arena, ret_record, err);
    if (rc == RC_OK && verify && !batch_row_holds(row, *ret_record, row->count))
        rc = err_set(err, RC_CORRUPT, "its row of the index is not that of its records");
    return rc;
}

static enum rc batch_count(struct part_census *census, struct part_job *job,
                           const struct batch_row *row, int64_t to, struct err *err)
{
    struct part_batch *batch;
    struct part_record *record;
    enum rc rc = batch_open(job, row, &batch, err);
    if (rc == RC_OK) {
        rc = batch_check(census, row, batch, job->run.arena, &record, err);
        if (rc == RC_CORRUPT || rc == RC_VERSION)
            batch_error(job, row, err);
    }
    if (rc == RC_CORRUPT || rc == RC_VERSION)
        return census->options.kind == PART_GAPS
                   ? gaps_unreadable(census, row->covers_min, row->covers_max, err)
                   : census_problem(census, err);
    for (size_t i = 0; rc == RC_OK && i < row->count; i++) {
        struct bytes worker = BYTES("");
        if (record[i].id < census->cursor || record[i].id > to)
            continue;
        if (census->options.kind == PART_VERIFY)
            rc = job_worker_name(job, record[i].worker, &worker, err);
        if (rc == RC_CORRUPT) {
            rc = census_problem(census, err);
            continue;
        }
        struct part_info info = part_info_of_record(&record[i], worker);
        if (rc == RC_OK)
            rc = census_hold(census, &info);
    }
    census->held_batches++;
    return rc;
}

/* The next records by id: of one batch, and of JOB_COMPLETED beside and before it. */
static enum rc chunk(struct part_census *census, struct part_job *job, struct err *err)
{
    struct batch_row row;
    int64_t to = INT64_MAX;
    enum rc rc = batch_holding(job, census->cursor, &row, err);
    bool has = rc == RC_OK;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (has)
        to = row.max_id;
    rc = simple_count(census, job, &to, err);
    if (rc == RC_OK && has && row.min_id <= to)
        rc = batch_count(census, job, &row, to, err);
    if (rc != RC_OK)
        return rc;
    rc = held_count(census, err);
    census->through = to == INT64_MAX;
    census->cursor = to < INT64_MAX ? to + 1 : INT64_MAX;
    return rc;
}

static int id_cmp(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool is_counted(const struct part_census *census, int64_t id)
{
    const struct census_ids *ids = &census->counted;
    return ids->count > 0 && bsearch(&id, ids->id, ids->count, sizeof id, id_cmp);
}

/* Some of the late ones, each once: a commit that was taken back may have noted one before. */
static enum rc late_count(struct part_census *census, struct part_job *job, struct err *err)
{
    size_t count = census->late.count < LATE_STEP ? census->late.count : LATE_STEP;
    size_t before = census->late.count - count;
    int64_t *id = arena_alloc_array(job->run.arena, count + 1, sizeof *id);
    size_t found = 0;
    enum rc rc = RC_OK;
    if (census->counted.count > 0)
        qsort(census->counted.id, census->counted.count, sizeof *census->counted.id, id_cmp);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct part_info info;
        int64_t one = census->late.id[before + i];
        bool seen = is_counted(census, one);
        for (size_t k = 0; !seen && k < found; k++)
            seen = id[k] == one;
        if (seen)
            continue;
        rc = part__archived(job, one, &info, err);
        if (rc == RC_OK) {
            rc = census_hold(census, &info);
            id[found++] = one;
        } else if (rc == RC_NOT_FOUND) {
            rc = RC_OK;
        }
    }
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < found; i++)
        ids_add(&census->counted, id[i]);
    census->late.count = before;
    return held_count(census, err);
}

enum rc part_census_step(struct part_census *census, struct part_job *job, struct err *err)
{
    enum rc rc = RC_OK;
    census_held_clear(census, job->run.arena);
    if (census->overrun)
        return err_set(err, RC_BUSY, "too many partitions are completed meanwhile: try again");
    if (!census->through) {
        for (size_t i = 0; rc == RC_OK && !census->through && i < STEP_CHUNKS; i++)
            rc = chunk(census, job, err);
        return rc == RC_OK ? RC_WAIT : rc;
    }
    bool more = census->late.count > LATE_STEP;
    rc = late_count(census, job, err);
    if (rc == RC_OK && more)
        return RC_WAIT;
    if (rc == RC_OK && census->options.kind == PART_GAPS)
        rc = gaps_aged(census, job, err);
    if (rc != RC_OK)
        return rc;
    if (census->options.kind == PART_GAPS)
        return gaps_end(census, job, err);
    rc = census_active_step(census, job, err);
    return rc == RC_OK ? verify_end(census, job, err) : rc;
}

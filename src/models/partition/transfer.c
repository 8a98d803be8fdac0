// SPDX-License-Identifier: Apache-2.0
/* transfer.c - completed records out and in: the original's JSON containers, and frames with the
 * names of their workers. */
#include <stdlib.h>

#include "base/mem.h"
#include "models/partition/container.h"
#include "models/partition/idwalk.h"
#include "models/partition/part_int.h"

#include "base/banned.h"

enum { IMPORT_RECORDS_MAX = 10 * 1000 };

/* ---- out ---- */

struct gathered {
    struct part_record *record;
    struct part_worker_name *name;
    size_t count, name_count;
};

static void name_note(struct gathered *to, uint32_t number, struct bytes name)
{
    for (size_t i = 0; i < to->name_count; i++)
        if (to->name[i].worker == number)
            return;
    to->name[to->name_count++] = (struct part_worker_name){.worker = number, .name = name};
}

struct gather {
    struct part_job *job;
    struct gathered *to;
    enum rc rc;
    struct err *err;
};

/* Numbers that workers of unpacked records have not got yet are given here, and kept. */
static enum rc record_take(struct part_job *job, struct gathered *to, const struct part_info *info,
                           struct err *err)
{
    uint32_t number;
    enum rc rc = job_worker_number(job, info->worker, true, &number, err);
    if (rc != RC_OK)
        return rc;
    to->record[to->count++] = part_info_record(info, number);
    if (number > 0)
        name_note(to, number, info->worker);
    return RC_OK;
}

static void gather_show(void *arg, struct bytes json)
{
    struct gather *gather = arg;
    struct part_job *job = gather->job;
    struct part_info info;
    if (gather->rc != RC_OK)
        return;
    struct bytes copy = arena_copy(job->run.arena, json);
    gather->rc = part_info_read(copy, job->run.arena, &info, gather->err);
    if (gather->rc == RC_OK)
        gather->to->record[gather->to->count++] = part_info_record(&info, 0);
    if (gather->rc == RC_OK)
        gather->to->name[gather->to->name_count++].name = info.worker;
}

/* PART.LIST has them in order from all layers; changes come after it. */
static enum rc gather(struct part_job *job, const struct part_export *wanted,
                      struct gathered *ret_to, int64_t *ret_next, struct err *err)
{
    struct arena *arena = job->run.arena;
    struct gathered raw = {0};
    struct gather to = {.job = job, .to = &raw, .err = err};
    raw.record = arena_alloc_array(arena, wanted->count, sizeof *raw.record);
    raw.name = arena_alloc_array(arena, wanted->count, sizeof *raw.name);
    *ret_to =
        (struct gathered){.record = arena_alloc_array(arena, wanted->count, sizeof *raw.record),
                          .name = arena_alloc_array(arena, wanted->count, sizeof *raw.name)};
    struct part_list list = {.statuses = 1u << PART_COMPLETED,
                             .id_min = wanted->from,
                             .id_max = INT64_MAX,
                             .strict = true,
                             .count = wanted->count};
    enum rc rc = part_list(job, &list, gather_show, &to, ret_next, err);
    if (rc == RC_OK)
        rc = to.rc;
    for (size_t i = 0; rc == RC_OK && i < raw.count; i++) {
        struct part_info info = part_info_of_record(&raw.record[i], raw.name[i].name);
        rc = record_take(job, ret_to, &info, err);
    }
    return rc == RC_OK ? job_save(job, err) : rc;
}

static enum rc container_make(const struct gathered *from, unsigned row_bytes, struct buf *to,
                              uint64_t *ret_lost, struct err *err)
{
    struct part_container_loss loss;
    enum part_rows form = row_bytes == PART_ROWS_25 ? PART_ROWS_25 : PART_ROWS_29;
    enum rc rc = part_container_write(from->record, from->count, form, to, &loss, err);
    size_t most = loss.created_count > loss.options_count ? loss.created_count : loss.options_count;
    *ret_lost = rc != RC_OK ? 0 : most > loss.version_count ? most : loss.version_count;
    return rc;
}

enum rc part_export(struct part_job *job, const struct part_export *wanted,
                    struct part_exported *ret_exported, struct err *err)
{
    struct gathered from;
    struct buf to;
    *ret_exported = (struct part_exported){.bytes = BYTES("")};
    enum rc rc = gather(job, wanted, &from, &ret_exported->next, err);
    if (rc != RC_OK || from.count == 0)
        return rc;
    buf_init(&to, PART_FRAME_BYTES_MAX);
    struct part_encode_options options = {.algorithm = job->part->limits.algorithm,
                                          .duration_unit_ms = 1,
                                          .names = true,
                                          .name = from.name,
                                          .name_count = from.name_count};
    rc = wanted->form == PART_FRAME
             ? part_batch_encode(from.record, from.count, &options, &to, err)
             : container_make(&from, wanted->row_bytes, &to, &ret_exported->lost_count, err);
    if (rc == RC_OK) {
        ret_exported->bytes = arena_copy(job->run.arena, buf_bytes(&to));
        ret_exported->count = from.count;
    }
    buf_done(&to);
    return rc;
}

/* ---- in ---- */

struct import {
    const struct part_import_worker *worker; /* by number */
    size_t worker_count;
    struct part_batch *batch; /* a frame has names itself */
    struct bytes *name;       /* of the frame's workers */
    struct part_record *record;
    size_t count;
};

static enum rc import_read(struct part_job *job, struct bytes bytes, struct import *import,
                           struct err *err)
{
    if (!bytes_start_with(bytes, BYTES("TP")))
        return part_container_read(bytes, job->run.arena, &import->record, &import->count, err);
    enum rc rc = part_batch_open(bytes, &import->batch, err);
    if (rc == RC_OK)
        rc = part_batch_decode(import->batch, job->run.arena, &import->record, err);
    if (rc != RC_OK)
        return rc;
    struct part_batch_info info = part_batch_info(import->batch);
    import->count = info.count;
    import->name = arena_alloc_array(job->run.arena, info.worker_count, sizeof *import->name);
    part_batch_names(import->batch, import->name);
    return RC_OK;
}

static int worker_cmp(const void *a, const void *b)
{
    int64_t x = ((const struct part_import_worker *)a)->number;
    int64_t y = ((const struct part_import_worker *)b)->number;
    return (x > y) - (x < y);
}

static int number_cmp(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* What the caller says, what the frame says, or a name made of the number. */
static struct bytes import_name(struct part_job *job, const struct import *import, uint32_t number)
{
    uint8_t text[TEXT_NUMBER_BYTES + 8];
    if (number == 0)
        return BYTES("");
    struct part_import_worker wanted = {.number = number};
    const struct part_import_worker *said =
        bsearch(&wanted, import->worker, import->worker_count, sizeof wanted, worker_cmp);
    if (said)
        return said->name;
    if (import->batch) {
        struct part_batch_info info = part_batch_info(import->batch);
        const uint32_t *at =
            bsearch(&number, info.worker, info.worker_count, sizeof number, number_cmp);
        if (at && import->name[at - info.worker].len > 0)
            return import->name[at - info.worker];
    }
    uint8_t *at = text_put(text, BYTES("worker-"));
    at = text_put_u64(at, number);
    return arena_copy(job->run.arena, bytes_of(text, (size_t)(at - text)));
}

static enum rc import_check(const struct part_record *record, struct err *err)
{
    bool fits = record->id >= 0 && record->min_id >= 0 && record->max_id >= record->min_id &&
                record->updated_s >= 0 && record->updated_s <= TEXT_TIME_MS_MAX / 1000 &&
                record->created_s >= 0 && record->created_s <= TEXT_TIME_MS_MAX / 1000 &&
                record->duration_ms <= PART_DURATION_MS_MAX &&
                record->error.len <= PART_TEXT_BYTES_MAX &&
                record->options.len <= PART_TEXT_BYTES_MAX;
    if (!fits || record->status != PART_COMPLETED)
        return err_set(err, RC_INVALID, "partition %lld is not completed, or out of range",
                       (long long)record->id);
    return RC_OK;
}

static enum rc import_one(struct part_job *job, const struct import *import,
                          const struct part_record *record, uint64_t *added, struct err *err)
{
    struct part_info found;
    enum rc rc = import_check(record, err);
    if (rc != RC_OK)
        return rc;
    struct part_info info = part_info_of_record(record, import_name(job, import, record->worker));
    struct part_new one = {.id = info.id, .min_id = info.min_id, .max_id = info.max_id};
    part_info_archive(&info);
    if (info.worker.len > 0)
        rc = part__worker_check(info.worker, err);
    if (rc == RC_OK)
        rc = part__text_check(&info.options, info.error, err);
    if (rc == RC_OK)
        rc = part__find(job, info.id, &found, err);
    if (rc == RC_OK && found.status == PART_COMPLETED && found.min_id == info.min_id &&
        found.max_id == info.max_id)
        return RC_OK;
    if (rc == RC_OK)
        return err_set(err, RC_INVALID, "partition %lld exists already, in another state or range",
                       (long long)info.id);
    if (rc != RC_NOT_FOUND)
        return rc;
    bool aged_out;
    rc = dropped_has(job, info.id, &aged_out, err);
    if (rc == RC_OK && aged_out)
        return err_set(err, RC_INVALID,
                       "partition %lld lies among completed ones that have aged out",
                       (long long)info.id);
    if (rc == RC_OK)
        rc = job_info_put_new(job, JOB_COMPLETED, &info, err);
    if (rc == RC_OK)
        rc = job_stats_add(job, &info, 0, err);
    if (rc == RC_OK)
        rc = part__bounds_add(job, &one, err);
    *added += rc == RC_OK;
    return rc;
}

static void import_want(struct part_job *job, const struct part_record *record, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (record[i].id < 0)
            continue;
        job_want(job, JOB_PARTITIONS, &record[i].id, 1);
        job_want(job, JOB_COMPLETED, &record[i].id, 1);
    }
}

enum rc part_import(struct part_job *job, struct bytes bytes, struct part_import_worker *worker,
                    size_t worker_count, uint64_t *ret_added, struct err *err)
{
    struct import import = {.worker = worker, .worker_count = worker_count};
    uint64_t added = 0;
    qsort(worker, worker_count, sizeof *worker, worker_cmp);
    enum rc rc = import_read(job, bytes, &import, err);
    if (rc == RC_CORRUPT || rc == RC_VERSION) {
        err_prefix(err, "what comes in is damaged: ");
        rc = RC_INVALID;
    }
    if (rc == RC_OK && import.count > IMPORT_RECORDS_MAX)
        rc = err_set(err, RC_TOO_BIG, "at most %d partitions come in at once", IMPORT_RECORDS_MAX);
    if (rc == RC_OK)
        rc = job_make(job, err);
    for (size_t i = 0; rc == RC_OK && i < import.count; i++) {
        rc = import_one(job, &import, &import.record[i], &added, err);
        if (rc == RC_COLD)
            import_want(job, import.record + i, import.count - i);
    }
    if (rc == RC_OK)
        rc = job_save(job, err);
    for (size_t i = 0; rc == RC_OK && i < import.count; i++)
        part__completed(job, import.record[i].id);
    part_batch_close(import.batch);
    *ret_added = added;
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* part.c - life of the model, and making: PART.ADD, PART.ALLOC, PART.DEL, PART.RETRY, PART.DROP. */
#include "models/partition/part.h"

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "models/partition/idwalk.h"
#include "models/partition/part_int.h"

#include "base/banned.h"

enum { DROP_STEP = 256 };                              /* batches of one commit */
enum { RETRY_LOOK_MAX = 5000, RETRY_COLD_ROWS = 500 }; /* rows of one commit */
enum { RETRY_BYTES_MAX = 1024 * 1024, RETRY_BYTES_MAX_ALONE = 16 * 1024 * 1024 }; /* of them */

/* ---- life ---- */

struct part *part_new(const struct part_options *options)
{
    struct part *part = mem_zalloc(sizeof *part);
    part->options = *options;
    part->limits = options->limits;
    part->kv = options->kv;
    buf_init(&part->frame, PART_FRAME_BYTES_MAX);
    part_cache_init(&part->cache, part->limits.cache_bytes, part->limits.cache_ttl_ms);
    buf_init(&part->json, STORE_VALUE_BYTES_MAX);
    part->guard = (struct key_guard){
        .model = part,
        .prefix = BYTES(PART_PREFIX),
        .locked = "keys that begin with " PART_PREFIX
                  " belong to partitions: they can be read, and only PART.* commands change them"};
    kv_guard_add(part->kv, &part->guard);
    part->may_drop = true; /* from before the start */
    part->packer = packer_new(part);
    return part;
}

void part_free(struct part *part)
{
    if (!part)
        return;
    packer_free(part->packer);
    kv_guard_remove(part->kv, &part->guard);
    part_cache_done(&part->cache);
    buf_done(&part->frame);
    buf_done(&part->json);
    mem_free(part);
}

void part_limits_set(struct part *part, const struct part_limits *limits)
{
    part->limits = *limits;
    part_cache_limit(&part->cache, limits->cache_bytes, limits->cache_ttl_ms);
    packer_look(part->packer);
}

void part_watch(const struct part *part, struct part_watch *ret_watch)
{
    *ret_watch = part->watch;
    ret_watch->cache_hit_count = part->cache.hit_count;
    ret_watch->cache_miss_count = part->cache.miss_count;
    ret_watch->cache_bytes = part->cache.bytes;
    ret_watch->cache_entries = part->cache.count;
}

void part_done_took(struct part *part, uint64_t us)
{
    part->watch.done_count++;
    part->watch.done_us_sum += us;
    part->watch.done_us[us <= 1 ? 0 : 64 - __builtin_clzll(us - 1)]++;
}

/* ---- finding ---- */

static enum rc packed_find(struct part_job *job, int64_t id, struct part_info *ret_info,
                           struct err *err)
{
    struct batch_row row;
    struct part_batch *batch;
    struct part_record record;
    size_t position;
    struct bytes worker;
    enum rc rc = batch_at(job, id, &row, err);
    if (rc == RC_OK && id > row.max_id)
        return RC_NOT_FOUND;
    if (rc == RC_OK)
        rc = batch_open(job, &row, &batch, err);
    if (rc == RC_OK && !part_batch_find(batch, id, &position))
        return RC_NOT_FOUND;
    if (rc == RC_OK)
        rc = part_batch_get(batch, position, &record, err);
    if (rc == RC_OK)
        rc = job_worker_name(job, record.worker, &worker, err);
    if (rc != RC_OK)
        return rc;
    record.options = arena_copy(job->run.arena, record.options);
    record.error = arena_copy(job->run.arena, record.error);
    *ret_info = part_info_of_record(&record, worker);
    return RC_OK;
}

enum rc part__archived(struct part_job *job, int64_t id, struct part_info *ret_info,
                       struct err *err)
{
    enum rc rc = job_info(job, JOB_COMPLETED, id, ret_info, err);
    return rc == RC_NOT_FOUND ? packed_find(job, id, ret_info, err) : rc;
}

enum rc part__find(struct part_job *job, int64_t id, struct part_info *ret_info, struct err *err)
{
    enum rc rc = job_info(job, JOB_PARTITIONS, id, ret_info, err);
    return rc == RC_NOT_FOUND ? part__archived(job, id, ret_info, err) : rc;
}

void part__completed(struct part_job *job, int64_t id)
{
    struct part *part = job->part;
    if (UNLIKELY(part->census != NULL))
        census_note(job, id);
    uint64_t simple = job_count(job, JOB_COMPLETED), batch = part->limits.batch;
    if (simple >= batch && (simple % batch == 0 || simple >= part->limits.simple_max))
        packer_kick(part->packer, job);
}

/* ---- adding ---- */

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Options without the spaces around them; "" for null. */
static enum rc options_check(struct bytes *options, struct err *err)
{
    json_error_t why;
    if (options->len == 0)
        return RC_OK;
    if (options->len > PART_TEXT_BYTES_MAX)
        return err_set(err, RC_INVALID, "options have at most %d bytes", PART_TEXT_BYTES_MAX);
    json_t *json = json_loadb((const char *)options->ptr, options->len,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!json)
        return err_set(err, RC_INVALID, "options are no JSON: %s", why.text);
    bool is_null = json_is_null(json);
    json_decref(json);
    while (is_space(options->ptr[0]))
        *options = bytes_from(*options, 1);
    while (is_space(options->ptr[options->len - 1]))
        options->len--;
    if (is_null)
        *options = BYTES("");
    return RC_OK;
}

enum rc part__text_check(struct bytes *options, struct bytes error, struct err *err)
{
    if (error.len > PART_TEXT_BYTES_MAX || !utf8_is_valid(error))
        return err_set(err, RC_INVALID, "an error is UTF-8 of at most %d bytes",
                       PART_TEXT_BYTES_MAX);
    return options_check(options, err);
}

static enum rc pending_put(struct part_job *job, const struct part_new *one, struct err *err)
{
    int64_t now_ms = (int64_t)job->run.now_ms;
    struct part_info info = {.id = one->id,
                             .min_id = one->min_id,
                             .max_id = one->max_id,
                             .status = PART_PENDING,
                             .heartbeat_ms = PART_TIME_NONE,
                             .updated_ms = now_ms,
                             .created_ms = now_ms,
                             .options = one->options,
                             .duration_ms = PART_DURATION_NONE};
    enum rc rc = job_info_put_new(job, JOB_PARTITIONS, &info, err);
    if (rc == RC_OK)
        rc = job_zset_add(job, JOB_PENDING, one->id, (double)one->id, err);
    return rc;
}

struct bounds { /* numbers of the job that only grow, or sink */
    int64_t last_id, min_id, max_id;
    bool any; /* there are bounds */
};

static enum rc bounds_get(struct part_job *job, struct bounds *ret_bounds, struct err *err)
{
    struct bytes text;
    enum rc rc = job_get(job, JOB_META, JOB_MIN_ID, &text, err);
    ret_bounds->any = rc == RC_OK;
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = job_number(job, JOB_MIN_ID, &ret_bounds->min_id, err);
    if (rc == RC_OK)
        rc = job_number(job, JOB_MAX_ID, &ret_bounds->max_id, err);
    if (rc == RC_OK)
        rc = job_number(job, JOB_LAST_PARTITION, &ret_bounds->last_id, err);
    return rc;
}

static void bounds_add(struct bounds *bounds, const struct part_new *one)
{
    if (!bounds->any || one->min_id < bounds->min_id)
        bounds->min_id = one->min_id;
    if (!bounds->any || one->max_id > bounds->max_id)
        bounds->max_id = one->max_id;
    if (one->id > bounds->last_id)
        bounds->last_id = one->id;
    bounds->any = true;
}

static enum rc bounds_put(struct part_job *job, const struct bounds *bounds, struct err *err)
{
    enum rc rc = job_number_put(job, JOB_MIN_ID, bounds->min_id, err);
    if (rc == RC_OK)
        rc = job_number_put(job, JOB_MAX_ID, bounds->max_id, err);
    if (rc == RC_OK)
        rc = job_number_put(job, JOB_LAST_PARTITION, bounds->last_id, err);
    return rc;
}

enum rc part__bounds_add(struct part_job *job, const struct part_new *one, struct err *err)
{
    struct bounds bounds;
    enum rc rc = bounds_get(job, &bounds, err);
    if (rc != RC_OK)
        return rc;
    bounds_add(&bounds, one);
    return bounds_put(job, &bounds, err);
}

/* RC_OK: it is there as it is wanted. RC_NOT_FOUND: it may be made. */
static enum rc part_is_there(struct part_job *job, const struct bounds *bounds,
                             const struct part_new *one, struct err *err)
{
    struct part_info info;
    if (!bounds->any || one->id > bounds->last_id)
        return RC_NOT_FOUND;
    enum rc rc = part__find(job, one->id, &info, err);
    bool aged_out = false;
    if (rc == RC_NOT_FOUND) {
        rc = dropped_has(job, one->id, &aged_out, err);
        if (rc == RC_OK)
            rc = RC_NOT_FOUND;
    }
    if (aged_out)
        return err_set(err, RC_INVALID,
                       "partition %lld lies among completed ones that have aged out",
                       (long long)one->id);
    if (rc == RC_OK && (info.min_id != one->min_id || info.max_id != one->max_id))
        return err_set(err, RC_INVALID, "partition %lld exists with the range %lld..%lld",
                       (long long)one->id, (long long)info.min_id, (long long)info.max_id);
    return rc;
}

static void parts_want(struct part_job *job, const struct part_new *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        job_want(job, JOB_PARTITIONS, &parts[i].id, 1);
        job_want(job, JOB_COMPLETED, &parts[i].id, 1);
    }
}

enum rc part_add(struct part_job *job, const struct part_new *parts, size_t count,
                 uint64_t *ret_added, struct err *err)
{
    struct bounds bounds;
    uint64_t added = 0;
    enum rc rc = bounds_get(job, &bounds, err);
    if (rc == RC_OK)
        rc = job_make(job, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct part_new one = parts[i];
        if (one.id < 0 || one.min_id < 0 || one.max_id < one.min_id)
            return err_set(err, RC_INVALID,
                           "partition %lld: ids are 0 to 2^63-1, and the lowest comes first",
                           (long long)one.id);
        rc = options_check(&one.options, err);
        if (rc == RC_OK)
            rc = part_is_there(job, &bounds, &one, err);
        if (rc == RC_COLD)
            parts_want(job, parts + i, count - i);
        if (rc != RC_NOT_FOUND)
            continue;
        rc = pending_put(job, &one, err);
        bounds_add(&bounds, &one);
        added++;
    }
    if (rc == RC_OK && added > 0)
        rc = bounds_put(job, &bounds, err);
    if (rc == RC_OK)
        rc = job_save(job, err);
    *ret_added = added;
    return rc;
}

enum rc part_alloc(struct part_job *job, int64_t upto, int64_t size, uint64_t *ret_count,
                   bool *ret_more, struct err *err)
{
    struct bounds bounds;
    int64_t last;
    uint64_t count = 0;
    ASSERT(size > 0 && upto >= 0);
    enum rc rc = bounds_get(job, &bounds, err);
    if (rc == RC_OK)
        rc = job_number(job, JOB_LAST_ALLOCATED, &last, err);
    if (rc == RC_OK)
        rc = job_make(job, err);
    while (rc == RC_OK && last < upto && count < PART_ALLOC_STEP) {
        int64_t width = upto - last < size ? upto - last : size;
        if (bounds.last_id == INT64_MAX)
            return err_set(err, RC_INVALID, "there are no partition ids left");
        struct part_new one = {
            .id = bounds.last_id + 1, .min_id = last + 1, .max_id = last + width};
        rc = pending_put(job, &one, err);
        bounds_add(&bounds, &one);
        last += width;
        count++;
    }
    if (rc == RC_OK && count > 0)
        rc = bounds_put(job, &bounds, err);
    if (rc == RC_OK)
        rc = job_number_put(job, JOB_LAST_ALLOCATED, last, err);
    if (rc == RC_OK)
        rc = job_save(job, err);
    *ret_count = count;
    *ret_more = rc == RC_OK && last < upto;
    return rc;
}

/* ---- retry ---- */

static enum rc retry_one(struct part_job *job, struct part_info *info, struct err *err)
{
    info->status = PART_PENDING;
    info->worker = info->error = BYTES("");
    info->heartbeat_ms = PART_TIME_NONE;
    info->updated_ms = (int64_t)job->run.now_ms;
    info->version++;
    info->takeovers = 0;
    enum rc rc = job_info_put(job, JOB_PARTITIONS, info, NULL, err);
    if (rc == RC_OK)
        rc = job_zset_add(job, JOB_PENDING, info->id, (double)info->id, err);
    return rc;
}

enum rc part_retry(struct part_job *job, int64_t id, bool *ret_done, struct err *err)
{
    struct part_info info;
    *ret_done = false;
    enum rc rc = job_info(job, JOB_PARTITIONS, id, &info, err);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && info.status != PART_FAILED))
        return RC_OK;
    if (rc == RC_OK)
        rc = retry_one(job, &info, err);
    *ret_done = rc == RC_OK;
    return rc;
}

enum rc part_retry_all(struct part_job *job, struct part_retry *retry, bool *ret_more,
                       struct err *err)
{
    CLEANUP(idwalk_done) struct idwalk walk = {0};
    struct key *key;
    struct bytes json;
    int64_t id;
    uint64_t done = 0;
    size_t bytes = 0, bytes_max = retry->one_commit ? RETRY_BYTES_MAX_ALONE : RETRY_BYTES_MAX;
    enum rc rc = job_key(job, JOB_PARTITIONS, &key, err);
    if (rc != RC_OK)
        return rc;
    idwalk_init(&walk, key, retry->from);
    walk.steps_max = RETRY_LOOK_MAX;
    while (bytes < bytes_max) {
        struct part_info info;
        rc = idwalk_next(&walk, &id, &json, err);
        if (rc == RC_COLD && !retry->one_commit && (done > 0 || walk.steps >= RETRY_COLD_ROWS))
            rc = RC_WAIT; /* all of it would be done again */
        if (rc != RC_OK)
            break;
        bytes += json.len;
        struct job_field field = job_field(id);
        rc = job_info_read(job, JOB_PARTITIONS, job_field_bytes(&field), json, &info, err);
        if (rc == RC_OK && info.status == PART_FAILED) {
            rc = retry_one(job, &info, err);
            done++;
        }
        if (rc != RC_OK)
            return rc;
    }
    *ret_more = rc == RC_OK || rc == RC_WAIT;
    if (*ret_more || rc == RC_NOT_FOUND)
        rc = job_save(job, err);
    if (rc != RC_OK)
        return rc;
    retry->from = walk.next_id;
    retry->count += done;
    return RC_OK;
}

/* ---- many at once ---- */

void part_want(struct part_job *job, const int64_t *id, size_t count)
{
    job_want(job, JOB_PARTITIONS, id, count);
    job_want(job, JOB_PENDING, id, count);
    job_want(job, JOB_BEATS, id, count);
    job_want(job, JOB_TAKEOVERS, id, count);
}

/* ---- removing ---- */

enum rc part_delete(struct part_job *job, int64_t id, bool *ret_done, struct err *err)
{
    struct part_info info;
    *ret_done = false;
    enum rc rc = job_info(job, JOB_PARTITIONS, id, &info, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    rc = job_info_delete(job, id, err);
    if (rc == RC_OK && info.status == PART_PENDING)
        rc = job_zset_remove(job, JOB_PENDING, id, err);
    if (rc == RC_OK && (info.status == PART_CLAIMED || info.status == PART_RUNNING))
        rc = job_zset_remove(job, JOB_BEATS, id, err);
    if (rc == RC_OK && info.status == PART_RUNNING)
        rc = job_running_add(job, -1, err);
    *ret_done = rc == RC_OK;
    return rc;
}

/* Some batches; all that are cold are asked for before the first is removed. */
static enum rc batches_drop(struct part_job *job, bool *ret_more, struct err *err)
{
    struct batch_row row;
    bool cold = false;
    int64_t from = 0;
    enum rc rc = RC_OK;
    *ret_more = true;
    for (size_t i = 0; i < DROP_STEP; i++) {
        rc = batch_from(job, from, &row, err);
        if (rc == RC_OK)
            rc = cold ? batch_want(job, row.number, err) : batch_forget(job, &row, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            break;
        *ret_more = row.min_id < INT64_MAX;
        if (!*ret_more)
            break;
        from = row.min_id + 1;
    }
    *ret_more = *ret_more && rc != RC_NOT_FOUND;
    if (cold)
        return RC_COLD;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Without an index: batches are numbered. The highest that may be left stands in the job's own row,
 * so a drop that is killed goes on there. */
static enum rc batches_drop_by_number(struct part_job *job, bool *ret_more, struct err *err)
{
    int64_t number;
    bool cold = false;
    enum rc rc = job_number(job, JOB_NEXT_BATCH, &number, err);
    for (size_t i = 0; rc == RC_OK && number > 0 && i < DROP_STEP; i++, number--) {
        rc = cold ? batch_want(job, number, err) : batch_string_remove(job, number, err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_COLD)
            rc = RC_OK;
    }
    if (rc != RC_OK || cold)
        return rc == RC_OK ? RC_COLD : rc;
    *ret_more = number > 0;
    return job_number_put(job, JOB_NEXT_BATCH, number, err);
}

enum rc part_drop(struct part_job *job, bool *ret_more, struct err *err)
{
    enum rc rc = RC_OK;
    if (!job->dropping)
        rc = job_empty(job, err);
    if (rc == RC_OK)
        rc = batches_drop(job, ret_more, err);
    /* A row that names no batch, or one that no id finds: nobody could ever drop the job. */
    bool damaged = rc == RC_CORRUPT || (rc == RC_OK && !*ret_more && job_count(job, JOB_INDEX) > 0);
    if (damaged)
        rc = batches_drop_by_number(job, ret_more, err);
    if (rc != RC_OK)
        return rc;
    if (*ret_more) {
        packer_drop(job->part->packer, job);
        return job_save(job, err);
    }
    rc = job_remove(job, err);
    if (rc == RC_OK && damaged)
        log_warn("partitions: the index of the archive of job %.*s was damaged; its batches were "
                 "dropped by their numbers",
                 (int)job->name.len, (const char *)job->name.ptr);
    return rc;
}

enum rc part_pause(struct part_job *job, bool paused, struct err *err)
{
    struct bytes value;
    enum rc rc = job_get(job, JOB_META, JOB_PAUSED, &value, err);
    if (paused && rc == RC_NOT_FOUND)
        rc = job_put(job, JOB_META, JOB_PAUSED, BYTES("1"), err);
    else if (!paused && rc == RC_OK)
        rc = job_delete(job, JOB_META, JOB_PAUSED, err);
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = job_save(job, err);
    return rc;
}

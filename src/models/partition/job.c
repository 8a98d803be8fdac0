// SPDX-License-Identifier: Apache-2.0
/* job.c - the keys of a job in one commit: found late, saved once. */
#include "models/partition/job.h"

#include <math.h>

#include "base/utf8.h"
#include "models/partition/part_int.h"
#include "types/number.h"
#include "types/zset.h"

#include "base/banned.h"

static const struct {
    struct bytes suffix;
    uint8_t type;
} keys[JOB_KEY_COUNT] = {
    [JOB_META] = {BYTES_INIT("meta"), TYPE_HASH},
    [JOB_PARTITIONS] = {BYTES_INIT("partitions"), TYPE_HASH},
    [JOB_PENDING] = {BYTES_INIT("pending"), TYPE_ZSET},
    [JOB_BEATS] = {BYTES_INIT("beats"), TYPE_ZSET},
    [JOB_TAKEOVERS] = {BYTES_INIT("takeovers"), TYPE_HASH},
    [JOB_COMPLETED] = {BYTES_INIT("completed"), TYPE_HASH},
    [JOB_INDEX] = {BYTES_INIT("completed:index"), TYPE_HASH},
    [JOB_DROPPED] = {BYTES_INIT("completed:dropped"), TYPE_HASH},
    [JOB_AGED] = {BYTES_INIT("completed:aged"), TYPE_HASH},
    [JOB_STATS] = {BYTES_INIT("stats"), TYPE_HASH},
    [JOB_WORKERS] = {BYTES_INIT("stats:workers"), TYPE_HASH},
    [JOB_RANGES] = {BYTES_INIT("stats:ranges"), TYPE_HASH},
    [JOB_HOURS] = {BYTES_INIT("stats:hours"), TYPE_HASH},
    [JOB_WORKER_MAP] = {BYTES_INIT("worker_map"), TYPE_HASH},
    [JOB_WORKER_RMAP] = {BYTES_INIT("worker_rmap"), TYPE_HASH},
    [JOB_JOBS] = {BYTES_INIT("jobs"), TYPE_HASH},
};

const char *job_key_suffix(enum job_key which)
{
    return (const char *)keys[which].suffix.ptr;
}

/* ---- keys ---- */

struct bytes job_key_name(const struct part_job *job, struct bytes suffix)
{
    size_t prefix = sizeof PART_PREFIX - 1;
    uint8_t *name = arena_alloc(job->run.arena, prefix + job->name.len + 2 + suffix.len);
    uint8_t *at = text_put(name, BYTES(PART_PREFIX));
    if (job->name.len > 0)
        at = text_put(at, job->name);
    at = text_put(at, BYTES("}:"));
    at = text_put(at, suffix);
    return bytes_of(name, (size_t)(at - name));
}

/* By the run of the owner: what is found is not locked. */
static enum rc own_find(struct part_job *job, struct bytes name, uint8_t type, struct key *ret_key,
                        struct err *err)
{
    enum rc rc = key_write(&job->run, name, type, ret_key, err);
    if (rc == RC_WRONGTYPE)
        return err_set(err, RC_CORRUPT, "%.*s is of another type than partitions made it",
                       (int)name.len, (const char *)name.ptr);
    return rc;
}

static void keys_want(struct part_job *job)
{
    for (unsigned i = 0; i < JOB_JOBS; i++) {
        struct bytes name = job_key_name(job, keys[i].suffix);
        key_want(job->run.ns, &name, 1);
    }
}

enum rc job_key(struct part_job *job, enum job_key which, struct key **ret_key, struct err *err)
{
    struct key *key = &job->key[which];
    *ret_key = key;
    if (job->found & 1u << which)
        return RC_OK;
    struct bytes name =
        which == JOB_JOBS ? BYTES(PART_JOBS_KEY) : job_key_name(job, keys[which].suffix);
    enum rc rc = own_find(job, name, keys[which].type, key, err);
    if (rc == RC_COLD)
        keys_want(job);
    if (rc == RC_OK)
        job->found |= 1u << which;
    return rc;
}

enum rc job_key_named(struct part_job *job, struct bytes suffix, uint8_t type, struct key *ret_key,
                      struct err *err)
{
    return own_find(job, job_key_name(job, suffix), type, ret_key, err);
}

uint64_t job_count(struct part_job *job, enum job_key which)
{
    const struct key *key = &job->key[which];
    ASSERT(job->found & 1u << which);
    return key->exists ? key->meta.count : 0;
}

/* ---- life ---- */

static bool name_is_good(struct bytes name)
{
    if (name.len == 0 || name.len > PART_NAME_BYTES_MAX || !utf8_is_valid(name))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] < 0x20 || name.ptr[i] == 0x7f || name.ptr[i] == '{' || name.ptr[i] == '}')
            return false;
    return true;
}

/* Whether it is there for who opens it this way. */
static enum rc presence_check(struct part_job *job, enum job_open how, struct err *err)
{
    struct bytes value;
    bool exists = job_exists(job);
    if (exists && UNLIKELY(job->part->may_drop)) {
        enum rc rc = job_get(job, JOB_META, JOB_DROPPING, &value, err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        job->dropping = rc == RC_OK;
    }
    if (job->dropping && how == JOB_MAKE)
        return err_set(err, RC_BUSY, "job %.*s is being dropped: try again", (int)job->name.len,
                       (const char *)job->name.ptr);
    if ((exists && !job->dropping) || how == JOB_MAKE || (exists && how == JOB_DROP))
        return RC_OK;
    return err_set(err, RC_REPLY, "NOJOB there is no job %.*s", (int)job->name.len,
                   (const char *)job->name.ptr);
}

enum rc job_open(struct part *part, const struct run *run, struct bytes name, enum job_open how,
                 struct part_job *ret_job, struct err *err)
{
    struct key *meta;
    ret_job->part = part;
    ret_job->run = run_as(run, run->ns, part);
    ret_job->name = name;
    ret_job->found = ret_job->changed = 0;
    ret_job->dropping = false;
    if (!name_is_good(name))
        return err_set(err, RC_INVALID,
                       "the name of a job has 1 to %d bytes of UTF-8 without braces and control "
                       "characters",
                       PART_NAME_BYTES_MAX);
    enum rc rc = job_key(ret_job, JOB_META, &meta, err);
    return rc == RC_OK ? presence_check(ret_job, how, err) : rc;
}

bool job_exists(const struct part_job *job)
{
    return job->key[JOB_META].exists;
}

/* Groups are dropped as wholes, however many rows they have. */
static enum rc key_drop(struct part_job *job, enum job_key which, struct err *err)
{
    struct key *key;
    enum rc rc = job_key(job, which, &key, err);
    if (rc != RC_OK || !key->exists)
        return rc;
    rc = key_remove(key, err);
    if (rc == RC_OK)
        key_changed(key, KV_EVENT_GENERIC, "del");
    return rc;
}

enum rc job_make(struct part_job *job, struct err *err)
{
    uint8_t time[TEXT_TIME_BYTES];
    if (job_exists(job))
        return RC_OK;
    uint8_t *end = text_put_time(time, (int64_t)job->run.now_ms);
    struct bytes created = bytes_of(time + 1, (size_t)(end - time) - 2); /* without quotes */
    enum rc rc = key_drop(job, JOB_TAKEOVERS, err); /* an older build has dropped all but it */
    if (rc == RC_OK)
        rc = job_put(job, JOB_META, JOB_CREATED, created, err);
    if (rc == RC_OK)
        rc = job_put(job, JOB_JOBS, job->name, created, err);
    if (rc == RC_OK)
        packer_know(job->part->packer, job);
    return rc;
}

enum rc job_save(struct part_job *job, struct err *err)
{
    enum rc rc = RC_OK;
    for (unsigned i = 0; rc == RC_OK && job->changed >> i != 0; i++)
        if (job->changed & 1u << i)
            rc = key_save_or_remove(&job->key[i], BYTES(""), err);
    job->changed = 0;
    return rc;
}

enum rc job_empty(struct part_job *job, struct err *err)
{
    enum rc rc = RC_OK;
    for (unsigned i = 0; rc == RC_OK && i < JOB_JOBS; i++)
        if (i != JOB_META && i != JOB_INDEX)
            rc = key_drop(job, (enum job_key)i, err);
    job->part->may_drop = true;
    if (rc == RC_OK)
        rc = job_put(job, JOB_META, JOB_DROPPING, BYTES("1"), err);
    return rc == RC_OK ? job_save(job, err) : rc;
}

enum rc job_remove(struct part_job *job, struct err *err)
{
    enum rc rc = key_drop(job, JOB_META, err);
    if (rc == RC_OK)
        rc = key_drop(job, JOB_INDEX, err);
    job->changed = 0;
    struct bytes value;
    if (rc == RC_OK)
        rc = job_get(job, JOB_JOBS, job->name, &value, err);
    if (rc == RC_OK)
        rc = job_delete(job, JOB_JOBS, job->name, err);
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = job_save(job, err);
    return rc;
}

/* ---- rows of hashes ---- */

enum rc job_get(struct part_job *job, enum job_key which, struct bytes field,
                struct bytes *ret_value, struct err *err)
{
    struct key *key;
    enum rc rc = job_key(job, which, &key, err);
    if (rc == RC_OK && !key->exists)
        return RC_NOT_FOUND;
    if (rc == RC_OK)
        rc = store_get(job->run.kv->store, key_rows(key), field, ret_value, err);
    return rc;
}

/* A census that has counted the active records has to know. */
static enum rc touch(struct part_job *job, enum job_key which, struct bytes field, bool is_new,
                     struct err *err)
{
    int64_t id;
    if (LIKELY(job->part->census == NULL) || which != JOB_PARTITIONS || !job_field_read(field, &id))
        return RC_OK;
    return census_touched(job, id, is_new, err);
}

enum rc job_put(struct part_job *job, enum job_key which, struct bytes field, struct bytes value,
                struct err *err)
{
    struct key *key;
    bool is_new;
    enum rc rc = touch(job, which, field, false, err);
    if (rc == RC_OK)
        rc = job_key(job, which, &key, err);
    if (rc == RC_OK && !key->exists)
        rc = key_create(key, TYPE_HASH, err);
    if (rc == RC_OK)
        rc = store_put_tell(job->run.kv->store, key_rows(key), field, value, &is_new, err);
    if (rc != RC_OK)
        return rc;
    if (is_new) {
        key->meta.count++;
        job->changed |= 1u << which;
    }
    key_changed(key, KV_EVENT_HASH, "hset");
    return RC_OK;
}

enum rc job_put_new(struct part_job *job, enum job_key which, struct bytes field,
                    struct bytes value, struct err *err)
{
    struct key *key;
    enum rc rc = touch(job, which, field, true, err);
    if (rc == RC_OK)
        rc = job_key(job, which, &key, err);
    if (rc == RC_OK && !key->exists)
        rc = key_create(key, TYPE_HASH, err);
    if (rc == RC_OK)
        rc = store_put(job->run.kv->store, key_rows(key), field, value, err);
    if (rc != RC_OK)
        return rc;
    key->meta.count++;
    job->changed |= 1u << which;
    key_changed(key, KV_EVENT_HASH, "hset");
    return RC_OK;
}

enum rc job_delete(struct part_job *job, enum job_key which, struct bytes field, struct err *err)
{
    struct key *key;
    enum rc rc = touch(job, which, field, false, err);
    if (rc == RC_OK)
        rc = job_key(job, which, &key, err);
    if (rc == RC_OK)
        rc = store_delete(job->run.kv->store, key_rows(key), field, err);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && key->meta.count == 0))
        return err_set(err, RC_CORRUPT, "%.*s lacks a row, or counts too few", (int)key->name.len,
                       (const char *)key->name.ptr);
    if (rc != RC_OK)
        return rc;
    key->meta.count--;
    job->changed |= 1u << which;
    key_changed(key, KV_EVENT_HASH, "hdel");
    return RC_OK;
}

enum rc job_number(struct part_job *job, struct bytes field, int64_t *ret_value, struct err *err)
{
    struct bytes text;
    enum rc rc = job_get(job, JOB_META, field, &text, err);
    *ret_value = 0;
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK && (!number_int(text, ret_value) || *ret_value < 0))
        return err_set(err, RC_CORRUPT, "%.*s of job %.*s is no number", (int)field.len,
                       (const char *)field.ptr, (int)job->name.len, (const char *)job->name.ptr);
    return rc;
}

enum rc job_number_put(struct part_job *job, struct bytes field, int64_t value, struct err *err)
{
    struct job_field text = job_field(value);
    return job_put(job, JOB_META, field, job_field_bytes(&text), err);
}

/* ---- sorted sets ---- */

enum rc job_zset_add(struct part_job *job, enum job_key which, int64_t id, double score,
                     struct err *err)
{
    struct key *key;
    struct zset_change change;
    struct job_field member = job_field(id);
    enum rc rc = job_key(job, which, &key, err);
    if (rc == RC_OK && !key->exists)
        rc = key_create(key, TYPE_ZSET, err);
    unsigned flags = which == JOB_PENDING ? ZSET_NEW : 0;
    if (rc == RC_OK)
        rc =
            zset_add(key, (struct zset_item){job_field_bytes(&member), score}, flags, &change, err);
    if (rc != RC_OK)
        return rc;
    if (change.what == ZSET_ADDED)
        job->changed |= 1u << which;
    key_changed(key, KV_EVENT_ZSET, "zadd");
    return RC_OK;
}

enum rc job_zset_remove(struct part_job *job, enum job_key which, int64_t id, struct err *err)
{
    struct key *key;
    struct job_field member = job_field(id);
    enum rc rc = job_key(job, which, &key, err);
    if (rc == RC_OK)
        rc = key->exists ? zset_remove(key, job_field_bytes(&member), err) : RC_NOT_FOUND;
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_CORRUPT, "%.*s lacks partition %.*s", (int)key->name.len,
                       (const char *)key->name.ptr, (int)member.len, (const char *)member.text);
    if (rc != RC_OK)
        return rc;
    key_changed(key, KV_EVENT_ZSET, "zrem");
    if (key->meta.count > 0) {
        job->changed |= 1u << which;
        return RC_OK;
    }
    job->changed &= ~(1u << which);
    return zset_save(key, err); /* its last rows go with it, at once */
}

/* ---- ids as fields ---- */

struct job_field job_field(int64_t id)
{
    struct job_field field;
    ASSERT(id >= 0);
    field.len = (size_t)(text_put_u64(field.text, (uint64_t)id) - field.text);
    return field;
}

bool job_field_read(struct bytes field, int64_t *ret_id)
{
    return number_int(field, ret_id) && *ret_id >= 0;
}

void job_want(struct part_job *job, enum job_key which, const int64_t *id, size_t count)
{
    const struct key *key = &job->key[which];
    if (!(job->found & 1u << which) || !key->exists)
        return;
    for (size_t i = 0; i < count; i++) {
        struct job_field field = job_field(id[i]);
        struct bytes bytes = job_field_bytes(&field);
        if (keys[which].type == TYPE_ZSET)
            zset_want(key, &bytes, 1, 1);
        else
            store_want(job->run.kv->store, key_rows(key), bytes, STORE_WANT_ROW);
    }
}

/* ---- records ---- */

enum rc job_info_read(struct part_job *job, enum job_key which, struct bytes field,
                      struct bytes json, struct part_info *ret_info, struct err *err)
{
    int64_t id;
    uint8_t *copy = arena_try_alloc(job->run.arena, json.len);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a record", json.len);
    memcpy(copy, json.ptr, json.len);
    enum rc rc = part_info_read(bytes_of(copy, json.len), job->run.arena, ret_info, err);
    bool completed = rc == RC_OK && ret_info->status == PART_COMPLETED;
    if (rc == RC_OK && (!job_field_read(field, &id) || id != ret_info->id ||
                        completed != (which == JOB_COMPLETED)))
        rc = err_set(err, RC_CORRUPT, "it is the record of another partition, or of another state");
    if (rc != RC_OK)
        err_prefix(err, "elk:{%.*s}:%s, field %.*s: ", (int)job->name.len,
                   (const char *)job->name.ptr, job_key_suffix(which), (int)field.len,
                   (const char *)field.ptr);
    return rc;
}

/* Where there is no row it is as the record has it: some were written with the count in them. */
static enum rc takeovers_get(struct part_job *job, struct part_info *info, struct err *err)
{
    struct bytes text;
    int64_t count;
    struct job_field field = job_field(info->id);
    enum rc rc = job_get(job, JOB_TAKEOVERS, job_field_bytes(&field), &text, err);
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK && !job_field_read(text, &count))
        return err_set(err, RC_CORRUPT, "elk:{%.*s}:takeovers, field %.*s: it is no number",
                       (int)job->name.len, (const char *)job->name.ptr, (int)field.len,
                       (const char *)field.text);
    if (rc == RC_OK)
        info->takeovers = (uint64_t)count;
    return rc;
}

/* 0: no row. */
static enum rc takeovers_put(struct part_job *job, int64_t id, uint64_t count, struct err *err)
{
    struct bytes before;
    int64_t number;
    struct job_field field = job_field(id), text = job_field((int64_t)count);
    enum rc rc = job_get(job, JOB_TAKEOVERS, job_field_bytes(&field), &before, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (count == 0)
        return rc == RC_OK ? job_delete(job, JOB_TAKEOVERS, job_field_bytes(&field), err) : RC_OK;
    if (rc == RC_OK && job_field_read(before, &number) && (uint64_t)number == count)
        return RC_OK;
    return job_put(job, JOB_TAKEOVERS, job_field_bytes(&field), job_field_bytes(&text), err);
}

enum rc job_info(struct part_job *job, enum job_key which, int64_t id, struct part_info *ret_info,
                 struct err *err)
{
    struct bytes json;
    struct job_field field = job_field(id);
    enum rc rc = job_get(job, which, job_field_bytes(&field), &json, err);
    if (rc == RC_OK)
        rc = job_info_read(job, which, job_field_bytes(&field), json, ret_info, err);
    if (rc == RC_OK && which == JOB_PARTITIONS)
        rc = takeovers_get(job, ret_info, err);
    return rc;
}

/* In part->json, until the next one. */
static enum rc info_write(struct part_job *job, const struct part_info *info, struct err *err)
{
    struct buf *json = &job->part->json;
    buf_cut(json, 0);
    if (!part_info_write(info, json))
        return err_set(err, RC_NOMEM, "could not allocate memory for a record");
    return RC_OK;
}

enum rc job_info_put_new(struct part_job *job, enum job_key which, const struct part_info *info,
                         struct err *err)
{
    struct job_field field = job_field(info->id);
    enum rc rc = info_write(job, info, err);
    return rc == RC_OK
               ? job_put_new(job, which, job_field_bytes(&field), buf_bytes(&job->part->json), err)
               : rc;
}

enum rc job_info_put(struct part_job *job, enum job_key which, const struct part_info *info,
                     struct bytes *ret_json, struct err *err)
{
    struct job_field field = job_field(info->id);
    struct part_info row = *info;
    row.takeovers = 0; /* a row of its own: builds before it know no such member */
    enum rc rc = info_write(job, &row, err);
    if (rc == RC_OK)
        rc = job_put(job, which, job_field_bytes(&field), buf_bytes(&job->part->json), err);
    if (rc == RC_OK && which == JOB_PARTITIONS)
        rc = takeovers_put(job, info->id, info->takeovers, err);
    if (rc == RC_OK && ret_json && info->takeovers > 0)
        rc = info_write(job, info, err);
    if (rc == RC_OK && ret_json)
        *ret_json = buf_bytes(&job->part->json);
    return rc;
}

enum rc job_info_delete(struct part_job *job, int64_t id, struct err *err)
{
    struct job_field field = job_field(id);
    enum rc rc = job_delete(job, JOB_PARTITIONS, job_field_bytes(&field), err);
    return rc == RC_OK ? takeovers_put(job, id, 0, err) : rc;
}

/* ---- statistics ---- */

enum rc job_stat(struct part_job *job, enum job_key which, struct bytes field,
                 struct part_stat *ret_stat, struct err *err)
{
    struct bytes json;
    enum rc rc = job_get(job, which, field, &json, err);
    *ret_stat = (struct part_stat){0};
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK)
        rc = part_stat_read(json, ret_stat, err);
    if (rc == RC_CORRUPT)
        err_prefix(err, "elk:{%.*s}:%s, field %.*s: ", (int)job->name.len,
                   (const char *)job->name.ptr, job_key_suffix(which), (int)field.len,
                   (const char *)field.ptr);
    return rc;
}

enum rc job_stat_put(struct part_job *job, enum job_key which, struct bytes field,
                     const struct part_stat *stat, struct err *err)
{
    uint8_t text[STAT_BYTES_MAX];
    return job_put(job, which, field, part_stat_write(stat, text), err);
}

static enum rc stat_add(struct part_job *job, enum job_key which, struct bytes field,
                        const struct part_record *record, int running, struct err *err)
{
    struct part_stat stat;
    enum rc rc = job_stat(job, which, field, &stat, err);
    if (rc != RC_OK)
        return rc;
    part_stat_add(&stat, record);
    stat.running += (uint64_t)(int64_t)running;
    return job_stat_put(job, which, field, &stat, err);
}

static enum rc bucket_add(struct part_job *job, int64_t duration_ms, struct err *err)
{
    uint8_t name[STAT_BUCKET_NAME_BYTES];
    struct bytes field = part_bucket_name(part_bucket(duration_ms), name), text;
    int64_t count = 0;
    enum rc rc = job_get(job, JOB_STATS, field, &text, err);
    if (rc == RC_OK && (!number_int(text, &count) || count < 0 || count == INT64_MAX))
        return err_set(err, RC_CORRUPT, "%.*s of the statistics of job %.*s is no number",
                       (int)field.len, (const char *)field.ptr, (int)job->name.len,
                       (const char *)job->name.ptr);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    struct job_field value = job_field(count + 1);
    return job_put(job, JOB_STATS, field, job_field_bytes(&value), err);
}

enum rc job_stats_add(struct part_job *job, const struct part_info *info, int running,
                      struct err *err)
{
    struct part_record record = part_info_record(info, 0);
    struct job_field range = job_field(part_stat_range(info->id));
    uint8_t hour[TEXT_HOUR_BYTES];
    text_put_hour(hour, record.updated_s);
    enum rc rc = stat_add(job, JOB_STATS, JOB_STAT_ALL, &record, running, err);
    if (rc == RC_OK)
        rc = stat_add(job, JOB_WORKERS, info->worker, &record, 0, err);
    if (rc == RC_OK)
        rc = stat_add(job, JOB_RANGES, job_field_bytes(&range), &record, 0, err);
    if (rc == RC_OK)
        rc = stat_add(job, JOB_HOURS, bytes_of(hour, sizeof hour), &record, 0, err);
    if (rc == RC_OK && info->duration_ms >= 0)
        rc = bucket_add(job, info->duration_ms, err);
    return rc;
}

enum rc job_running_add(struct part_job *job, int delta, struct err *err)
{
    struct part_stat stat;
    enum rc rc = job_stat(job, JOB_STATS, JOB_STAT_ALL, &stat, err);
    if (rc != RC_OK)
        return rc;
    if (delta < 0 && stat.running == 0)
        return err_set(err, RC_CORRUPT, "the statistics of job %.*s count too few that are running",
                       (int)job->name.len, (const char *)job->name.ptr);
    stat.running += (uint64_t)(int64_t)delta;
    return job_stat_put(job, JOB_STATS, JOB_STAT_ALL, &stat, err);
}

// SPDX-License-Identifier: Apache-2.0
/* batches.c - rows of a job's index of batches, and the frames that they name. */
#include "models/partition/batches.h"

#include "base/codec.h"
#include "models/partition/part_int.h"
#include "types/number.h"
#include "types/string.h"

#include "base/banned.h"

enum { ROW_BYTES_MAX = 10 * TEXT_NUMBER_BYTES + 200, SUFFIX_BYTES = 64, MS_A_SECOND = 1000 };
#define BATCH_WORD "completed:batch:"

/* ---- rows of the index ---- */

static uint8_t *put_hex(uint8_t *to, const uint8_t *from, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        *to++ = (uint8_t)digits[from[i] >> 4];
        *to++ = (uint8_t)digits[from[i] & 15];
    }
    return to;
}

static void get_hex(struct text *text, uint8_t *to, size_t len)
{
    for (size_t i = 0; i < 2 * len; i++) {
        uint8_t byte = text->at < text->end ? *text->at++ : 0;
        bool digit = byte >= '0' && byte <= '9', letter = byte >= 'a' && byte <= 'f';
        uint8_t value = (uint8_t)(digit ? byte - '0' : letter ? byte - 'a' + 10 : 0);
        text->bad = text->bad || !(digit || letter);
        to[i / 2] = (uint8_t)(i % 2 ? to[i / 2] << 4 | value : value);
    }
}

static struct bytes row_write(const struct batch_row *row, uint8_t to[ROW_BYTES_MAX])
{
    uint8_t *at = text_put(to, BYTES("{\"batch\":"));
    at = text_put_u64(at, (uint64_t)row->number);
    at = text_put(at, BYTES(",\"max_id\":"));
    at = text_put_u64(at, (uint64_t)row->max_id);
    at = text_put(at, BYTES(",\"count\":"));
    at = text_put_u64(at, row->count);
    at = text_put(at, BYTES(",\"bytes\":"));
    at = text_put_u64(at, row->bytes);
    at = text_put(at, BYTES(",\"raw\":"));
    at = text_put_u64(at, row->raw);
    at = text_put(at, BYTES(",\"from\":"));
    at = text_put_u64(at, (uint64_t)row->from_s);
    at = text_put(at, BYTES(",\"to\":"));
    at = text_put_u64(at, (uint64_t)row->to_s);
    at = text_put(at, BYTES(",\"ids_from\":"));
    at = text_put_u64(at, (uint64_t)row->covers_min);
    at = text_put(at, BYTES(",\"ids_to\":"));
    at = text_put_u64(at, (uint64_t)row->covers_max);
    at = text_put(at, BYTES(",\"key\":\""));
    at = put_hex(at, row->key, KEY_ID_BYTES);
    at = text_put(at, BYTES("\"}"));
    return bytes_of(to, (size_t)(at - to));
}

static enum rc row_read(const struct part_job *job, struct bytes field, struct bytes value,
                        struct batch_row *ret_row, struct err *err)
{
    struct text text = text_of(value);
    struct batch_row *row = ret_row;
    text_want(&text, BYTES("{\"batch\":"));
    row->number = text_get_i64(&text);
    text_want(&text, BYTES(",\"max_id\":"));
    row->max_id = text_get_i64(&text);
    text_want(&text, BYTES(",\"count\":"));
    row->count = text_get_u64(&text);
    text_want(&text, BYTES(",\"bytes\":"));
    row->bytes = text_get_u64(&text);
    text_want(&text, BYTES(",\"raw\":"));
    row->raw = text_get_u64(&text);
    text_want(&text, BYTES(",\"from\":"));
    row->from_s = text_get_i64(&text);
    text_want(&text, BYTES(",\"to\":"));
    row->to_s = text_get_i64(&text);
    row->covers_min = 0;
    row->covers_max = INT64_MAX;
    if (text_has(&text, BYTES(",\"ids_from\":"))) {
        row->covers_min = text_get_i64(&text);
        text_want(&text, BYTES(",\"ids_to\":"));
        row->covers_max = text_get_i64(&text);
    }
    text_want(&text, BYTES(",\"key\":\""));
    get_hex(&text, row->key, KEY_ID_BYTES);
    text_want(&text, BYTES("\"}"));
    if (!text_id_read(field, &row->min_id) || !text_is_whole(&text) || row->max_id < row->min_id)
        return err_set(err, RC_CORRUPT, "elk:{%.*s}:completed:index, field %.*s: it is no batch",
                       (int)job->name.len, (const char *)job->name.ptr, (int)field.len,
                       (const char *)field.ptr);
    return RC_OK;
}

/* The first row at or after the id, or, reversed, at or before it. */
static enum rc row_seek(struct part_job *job, enum job_key which, int64_t id, bool reverse,
                        struct bytes *ret_field, struct bytes *ret_value, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    uint8_t text[TEXT_ID_BYTES];
    struct key *key;
    enum rc rc = job_key(job, which, &key, err);
    if (rc == RC_OK && !key->exists)
        return RC_NOT_FOUND;
    if (rc != RC_OK)
        return rc;
    text_put_id(text, id);
    store_walk_init(&walk, job->run.kv->store, key_rows(key), reverse);
    rc = store_walk_seek(&walk, bytes_of(text, sizeof text), err);
    if (rc == RC_OK)
        rc = store_walk_next(&walk, ret_field, ret_value, err);
    if (rc != RC_OK)
        return rc;
    *ret_field = arena_copy(job->run.arena, *ret_field); /* the walk ends here */
    return RC_OK;
}

static enum rc row_find(struct part_job *job, int64_t id, bool reverse, struct batch_row *ret_row,
                        struct err *err)
{
    struct bytes field, value;
    enum rc rc = row_seek(job, JOB_INDEX, id, reverse, &field, &value, err);
    return rc == RC_OK ? row_read(job, field, value, ret_row, err) : rc;
}

enum rc batch_at(struct part_job *job, int64_t id, struct batch_row *ret_row, struct err *err)
{
    return row_find(job, id, true, ret_row, err);
}

enum rc batch_from(struct part_job *job, int64_t id, struct batch_row *ret_row, struct err *err)
{
    return row_find(job, id, false, ret_row, err);
}

enum rc batch_holding(struct part_job *job, int64_t id, struct batch_row *ret_row, struct err *err)
{
    enum rc rc = batch_at(job, id, ret_row, err);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && ret_row->max_id < id))
        rc = batch_from(job, id, ret_row, err);
    return rc;
}

/* ---- sums ---- */

enum rc archive_sum(struct part_job *job, struct archive_sum *ret_sum, struct err *err)
{
    struct bytes value;
    enum rc rc = job_get(job, JOB_META, JOB_ARCHIVE, &value, err);
    *ret_sum = (struct archive_sum){0};
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc != RC_OK)
        return rc;
    struct text text = text_of(value);
    text_want(&text, BYTES("{\"records\":"));
    ret_sum->records = text_get_u64(&text);
    text_want(&text, BYTES(",\"batches\":"));
    ret_sum->batches = text_get_u64(&text);
    text_want(&text, BYTES(",\"bytes\":"));
    ret_sum->bytes = text_get_u64(&text);
    text_want(&text, BYTES(",\"raw\":"));
    ret_sum->raw = text_get_u64(&text);
    text_want(&text, BYTES("}"));
    if (!text_is_whole(&text))
        return err_set(err, RC_CORRUPT, "the sums of the archive of job %.*s are damaged",
                       (int)job->name.len, (const char *)job->name.ptr);
    return RC_OK;
}

static enum rc sum_add(struct part_job *job, const struct batch_row *row, int sign, struct err *err)
{
    struct archive_sum sum;
    uint8_t value[ROW_BYTES_MAX];
    enum rc rc = archive_sum(job, &sum, err);
    if (rc != RC_OK)
        return rc;
    sum.records += (uint64_t)sign * row->count;
    sum.batches += (uint64_t)sign;
    sum.bytes += (uint64_t)sign * row->bytes;
    sum.raw += (uint64_t)sign * row->raw;
    uint8_t *at = text_put(value, BYTES("{\"records\":"));
    at = text_put_u64(at, sum.records);
    at = text_put(at, BYTES(",\"batches\":"));
    at = text_put_u64(at, sum.batches);
    at = text_put(at, BYTES(",\"bytes\":"));
    at = text_put_u64(at, sum.bytes);
    at = text_put(at, BYTES(",\"raw\":"));
    at = text_put_u64(at, sum.raw);
    *at++ = '}';
    return job_put(job, JOB_META, JOB_ARCHIVE, bytes_of(value, (size_t)(at - value)), err);
}

/* ---- frames ---- */

static struct bytes batch_suffix(int64_t number, uint8_t to[SUFFIX_BYTES])
{
    uint8_t *at = text_put(to, BYTES(BATCH_WORD));
    at = text_put_u64(at, (uint64_t)number);
    return bytes_of(to, (size_t)(at - to));
}

struct bytes batch_key_name(struct part_job *job, const struct batch_row *row)
{
    uint8_t suffix[SUFFIX_BYTES];
    return job_key_name(job, batch_suffix(row->number, suffix));
}

enum rc batch_error(const struct part_job *job, const struct batch_row *row, struct err *err)
{
    return err_prefix(err, "elk:{%.*s}:" BATCH_WORD "%lld: ", (int)job->name.len,
                      (const char *)job->name.ptr, (long long)row->number);
}

static enum rc frame_open(struct part_job *job, const struct batch_row *row, struct bytes frame,
                          struct part_batch **ret_batch, struct err *err)
{
    struct part *part = job->part;
    uint64_t start_ns = clock_mono_ns(part->options.clock);
    enum rc rc = part_cache_put(&part->cache, row->key, frame, job->run.now_ms, ret_batch, err);
    struct part_batch_info info = {0};
    if (rc == RC_OK)
        info = part_batch_info(*ret_batch);
    /* A good frame at the wrong place is as bad as a damaged one. */
    if (rc == RC_OK && (info.count != row->count || info.id_min != row->min_id ||
                        info.id_max != row->max_id || !info.ascending))
        rc = err_set(err, RC_CORRUPT, "it is another batch than the index says");
    part->watch.decode_count++;
    part->watch.decode_ns += clock_mono_ns(part->options.clock) - start_ns;
    part->watch.decode_failure_count += rc == RC_CORRUPT || rc == RC_VERSION;
    return rc;
}

enum rc batch_open(struct part_job *job, const struct batch_row *row, struct part_batch **ret_batch,
                   struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    struct bytes frame;
    struct key key;
    *ret_batch = part_cache_get(&job->part->cache, row->key, job->run.now_ms);
    if (*ret_batch)
        return RC_OK;
    enum rc rc = job_key_named(job, batch_suffix(row->number, suffix), TYPE_STRING, &key, err);
    if (rc == RC_OK && (!key.exists || memcmp(key.meta.id, row->key, KEY_ID_BYTES) != 0)) {
        job->part->watch.decode_count++;
        job->part->watch.decode_failure_count++;
        rc = err_set(err, RC_CORRUPT, "it is not there, or not the one the index names");
    }
    if (rc == RC_OK)
        rc = string_get(&key, &frame, err);
    if (rc == RC_OK)
        rc = frame_open(job, row, frame, ret_batch, err);
    return rc == RC_CORRUPT || rc == RC_VERSION ? batch_error(job, row, err) : rc;
}

/* Durations are in whole seconds where all of them are: nothing is lost (info.h). */
static uint32_t duration_unit(const struct part_record *record, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (record[i].duration_ms > 0 && record[i].duration_ms % MS_A_SECOND != 0)
            return 1;
    return MS_A_SECOND;
}

static struct batch_row row_of(const struct part_record *record, size_t count, uint64_t raw)
{
    struct batch_row row = {.min_id = record[0].id,
                            .max_id = record[count - 1].id,
                            .count = count,
                            .raw = raw,
                            .from_s = record[0].updated_s,
                            .to_s = record[0].updated_s,
                            .covers_min = record[0].min_id,
                            .covers_max = record[0].max_id};
    for (size_t i = 1; i < count; i++) {
        ASSERT(record[i].id > record[i - 1].id);
        row.from_s = record[i].updated_s < row.from_s ? record[i].updated_s : row.from_s;
        row.to_s = record[i].updated_s > row.to_s ? record[i].updated_s : row.to_s;
        row.covers_min = record[i].min_id < row.covers_min ? record[i].min_id : row.covers_min;
        row.covers_max = record[i].max_id > row.covers_max ? record[i].max_id : row.covers_max;
    }
    return row;
}

bool batch_row_holds(const struct batch_row *row, const struct part_record *record, size_t count)
{
    struct batch_row right = row_of(record, count, row->raw);
    return row->count == count && row->from_s == right.from_s && row->to_s == right.to_s &&
           row->covers_min <= right.covers_min && row->covers_max >= right.covers_max;
}

static enum rc frame_make(struct part *part, const struct part_record *record, size_t count,
                          struct err *err)
{
    struct part_encode_options options = {.algorithm = part->limits.algorithm,
                                          .duration_unit_ms = duration_unit(record, count)};
    uint64_t start_ns = clock_mono_ns(part->options.clock);
    buf_cut(&part->frame, 0);
    enum rc rc = part_batch_encode(record, count, &options, &part->frame, err);
    part->watch.encode_count++;
    part->watch.encode_ns += clock_mono_ns(part->options.clock) - start_ns;
    return rc;
}

enum rc batch_put(struct part_job *job, const struct part_record *record, size_t count,
                  uint64_t raw, struct err *err)
{
    struct part *part = job->part;
    struct batch_row row = row_of(record, count, raw);
    uint8_t suffix[SUFFIX_BYTES], field[TEXT_ID_BYTES], value[ROW_BYTES_MAX];
    struct key key;
    enum rc rc = job_number(job, JOB_NEXT_BATCH, &row.number, err);
    row.number++;
    if (rc == RC_OK)
        rc = job_number_put(job, JOB_NEXT_BATCH, row.number, err);
    if (rc == RC_OK)
        rc = frame_make(part, record, count, err);
    if (rc == RC_OK)
        rc = job_key_named(job, batch_suffix(row.number, suffix), TYPE_STRING, &key, err);
    if (rc == RC_OK && key.exists)
        return err_set(err, RC_CORRUPT, "%.*s is there before it was made", (int)key.name.len,
                       (const char *)key.name.ptr);
    if (rc == RC_OK)
        rc = string_set(&key, buf_bytes(&part->frame), 0, err);
    if (rc != RC_OK)
        return rc;
    key_changed(&key, KV_EVENT_STRING, "set");
    row.bytes = part->frame.len;
    memcpy(row.key, key.meta.id, KEY_ID_BYTES);
    text_put_id(field, row.min_id);
    rc = job_put(job, JOB_INDEX, bytes_of(field, sizeof field), row_write(&row, value), err);
    return rc == RC_OK ? sum_add(job, &row, 1, err) : rc;
}

enum rc batch_want(struct part_job *job, int64_t number, struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    struct key key;
    return job_key_named(job, batch_suffix(number, suffix), TYPE_STRING, &key, err);
}

enum rc batch_string_remove(struct part_job *job, int64_t number, struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    struct key key;
    enum rc rc = job_key_named(job, batch_suffix(number, suffix), TYPE_STRING, &key, err);
    if (rc == RC_OK && key.exists) {
        rc = key_remove(&key, err);
        key_changed(&key, KV_EVENT_GENERIC, "del");
    }
    return rc;
}

enum rc batch_forget(struct part_job *job, const struct batch_row *row, struct err *err)
{
    uint8_t field[TEXT_ID_BYTES];
    enum rc rc = batch_string_remove(job, row->number, err);
    text_put_id(field, row->min_id);
    return rc == RC_OK ? job_delete(job, JOB_INDEX, bytes_of(field, sizeof field), err) : rc;
}

enum rc batch_remove(struct part_job *job, const struct batch_row *row, struct err *err)
{
    enum rc rc = batch_forget(job, row, err);
    return rc == RC_OK ? sum_add(job, row, -1, err) : rc;
}

/* ---- workers ---- */

enum rc job_worker_number(struct part_job *job, struct bytes name, bool make, uint32_t *ret_number,
                          struct err *err)
{
    struct bytes value;
    int64_t number = 0;
    *ret_number = 0;
    if (name.len == 0)
        return RC_OK;
    enum rc rc = job_get(job, JOB_WORKER_MAP, name, &value, err);
    if (rc == RC_OK && (!number_int(value, &number) || number <= 0 || number > UINT32_MAX))
        return err_set(err, RC_CORRUPT, "the number of worker %.*s is none", (int)name.len,
                       (const char *)name.ptr);
    if (rc == RC_NOT_FOUND && make) {
        number = (int64_t)job_count(job, JOB_WORKER_MAP) + 1;
        struct job_field text = job_field(number);
        if (number > UINT32_MAX)
            return err_set(err, RC_TOO_BIG, "a job has at most 2^32-1 workers");
        rc = job_put(job, JOB_WORKER_MAP, name, job_field_bytes(&text), err);
        if (rc == RC_OK)
            rc = job_put(job, JOB_WORKER_RMAP, job_field_bytes(&text), name, err);
    }
    *ret_number = (uint32_t)number;
    return rc;
}

enum rc job_worker_name(struct part_job *job, uint32_t number, struct bytes *ret_name,
                        struct err *err)
{
    struct bytes value;
    struct job_field field = job_field(number);
    *ret_name = BYTES("");
    if (number == 0)
        return RC_OK;
    enum rc rc = job_get(job, JOB_WORKER_RMAP, job_field_bytes(&field), &value, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_CORRUPT, "no worker of job %.*s has the number %u",
                       (int)job->name.len, (const char *)job->name.ptr, number);
    if (rc == RC_OK)
        *ret_name = arena_copy(job->run.arena, value);
    return rc;
}

/* ---- what has aged out: intervals that neither overlap nor touch ---- */

static enum rc aged_seek(struct part_job *job, enum job_key which, int64_t id, bool reverse,
                         struct aged_span *ret_span, struct err *err)
{
    struct bytes field, value;
    enum rc rc = row_seek(job, which, id, reverse, &field, &value, err);
    if (rc == RC_OK &&
        (!text_id_read(field, &ret_span->min_id) || !number_int(value, &ret_span->max_id) ||
         ret_span->min_id > ret_span->max_id))
        return err_set(err, RC_CORRUPT, "elk:{%.*s}:%s has a row that is none", (int)job->name.len,
                       (const char *)job->name.ptr, job_key_suffix(which));
    return rc;
}

enum rc aged_from(struct part_job *job, enum job_key which, int64_t id, struct aged_span *ret_span,
                  struct err *err)
{
    enum rc rc = aged_seek(job, which, id, true, ret_span, err);
    if (rc == RC_NOT_FOUND || (rc == RC_OK && ret_span->max_id < id))
        rc = aged_seek(job, which, id, false, ret_span, err);
    return rc;
}

enum rc dropped_has(struct part_job *job, int64_t id, bool *ret_has, struct err *err)
{
    struct aged_span span;
    enum rc rc = aged_from(job, JOB_DROPPED, id, &span, err);
    *ret_has = rc == RC_OK && span.min_id <= id;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc aged_delete(struct part_job *job, enum job_key which, int64_t min_id,
                           struct err *err)
{
    uint8_t field[TEXT_ID_BYTES];
    text_put_id(field, min_id);
    return job_delete(job, which, bytes_of(field, sizeof field), err);
}

enum rc aged_add(struct part_job *job, enum job_key which, struct aged_span span, struct err *err)
{
    uint8_t field[TEXT_ID_BYTES];
    struct aged_span other;
    enum rc rc = aged_seek(job, which, span.min_id, true, &other, err);
    if (rc == RC_OK && other.max_id >= span.min_id - 1) {
        span.min_id = other.min_id;
        span.max_id = other.max_id > span.max_id ? other.max_id : span.max_id;
        rc = aged_delete(job, which, other.min_id, err);
    }
    while (rc == RC_OK || rc == RC_NOT_FOUND) {
        rc = aged_seek(job, which, span.min_id, false, &other, err);
        if (rc != RC_OK || other.min_id - 1 > span.max_id)
            break;
        span.max_id = other.max_id > span.max_id ? other.max_id : span.max_id;
        rc = aged_delete(job, which, other.min_id, err);
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    text_put_id(field, span.min_id);
    struct job_field value = job_field(span.max_id);
    return job_put(job, which, bytes_of(field, sizeof field), job_field_bytes(&value), err);
}

// SPDX-License-Identifier: Apache-2.0
/* stat.c - rows of statistics and the buckets of the histogram of durations. */
#include "models/partition/stat.h"

#include "base/banned.h"

enum { SUB_BITS = 5, EXACT_MS = 2 << SUB_BITS };
#define BUCKET_WORD "duration:"

/* ---- sums ---- */

static text_u128 ids_of(const struct part_record *record)
{
    return (text_u128)(uint64_t)(record->max_id - record->min_id) + 1;
}

void part_stat_add(struct part_stat *stat, const struct part_record *record)
{
    bool first = stat->completed == 0;
    stat->completed++;
    stat->ids += ids_of(record);
    if (record->duration_ms >= 0) {
        uint64_t duration_ms = (uint64_t)record->duration_ms;
        stat->timed++;
        stat->duration_ms += duration_ms;
        stat->max_ms = duration_ms > stat->max_ms ? duration_ms : stat->max_ms;
    }
    if (first || record->updated_s < stat->first_s)
        stat->first_s = record->updated_s;
    if (first || record->updated_s > stat->last_s)
        stat->last_s = record->updated_s;
    if (first || record->min_id < stat->min_id)
        stat->min_id = record->min_id;
    if (first || record->max_id > stat->max_id)
        stat->max_id = record->max_id;
}

void part_stat_drop(struct part_stat *stat, const struct part_record *record)
{
    stat->dropped++;
    stat->dropped_ids += ids_of(record);
    if (record->duration_ms >= 0) {
        stat->dropped_timed++;
        stat->dropped_ms += (uint64_t)record->duration_ms;
    }
}

void part_stat_merge(struct part_stat *to, const struct part_stat *from)
{
    bool first = to->completed == 0;
    if (from->completed == 0)
        return;
    to->completed += from->completed;
    to->ids += from->ids;
    to->timed += from->timed;
    to->duration_ms += from->duration_ms;
    to->max_ms = from->max_ms > to->max_ms ? from->max_ms : to->max_ms;
    to->first_s = first || from->first_s < to->first_s ? from->first_s : to->first_s;
    to->last_s = first || from->last_s > to->last_s ? from->last_s : to->last_s;
    to->min_id = first || from->min_id < to->min_id ? from->min_id : to->min_id;
    to->max_id = first || from->max_id > to->max_id ? from->max_id : to->max_id;
    to->dropped += from->dropped;
    to->dropped_ids += from->dropped_ids;
    to->dropped_timed += from->dropped_timed;
    to->dropped_ms += from->dropped_ms;
}

/* ---- rows ---- */

struct bytes part_stat_write(const struct part_stat *stat, uint8_t to[STAT_BYTES_MAX])
{
    uint8_t *at = text_put(to, BYTES("{\"completed\":"));
    at = text_put_u64(at, stat->completed);
    at = text_put(at, BYTES(",\"ids\":"));
    at = text_put_u128(at, stat->ids);
    at = text_put(at, BYTES(",\"timed\":"));
    at = text_put_u64(at, stat->timed);
    at = text_put(at, BYTES(",\"duration_ms\":"));
    at = text_put_u128(at, stat->duration_ms);
    at = text_put(at, BYTES(",\"max_ms\":"));
    at = text_put_u64(at, stat->max_ms);
    at = text_put(at, BYTES(",\"first\":"));
    at = text_put_u64(at, (uint64_t)stat->first_s);
    at = text_put(at, BYTES(",\"last\":"));
    at = text_put_u64(at, (uint64_t)stat->last_s);
    at = text_put(at, BYTES(",\"min_id\":"));
    at = text_put_u64(at, (uint64_t)stat->min_id);
    at = text_put(at, BYTES(",\"max_id\":"));
    at = text_put_u64(at, (uint64_t)stat->max_id);
    if (stat->dropped > 0) {
        at = text_put(at, BYTES(",\"dropped\":"));
        at = text_put_u64(at, stat->dropped);
        at = text_put(at, BYTES(",\"dropped_ids\":"));
        at = text_put_u128(at, stat->dropped_ids);
        at = text_put(at, BYTES(",\"dropped_timed\":"));
        at = text_put_u64(at, stat->dropped_timed);
        at = text_put(at, BYTES(",\"dropped_ms\":"));
        at = text_put_u128(at, stat->dropped_ms);
    }
    if (stat->running > 0) {
        at = text_put(at, BYTES(",\"running\":"));
        at = text_put_u64(at, stat->running);
    }
    *at++ = '}';
    ASSERT((size_t)(at - to) <= STAT_BYTES_MAX);
    return bytes_of(to, (size_t)(at - to));
}

enum rc part_stat_read(struct bytes json, struct part_stat *ret_stat, struct err *err)
{
    struct text text = text_of(json);
    struct part_stat *stat = ret_stat;
    *stat = (struct part_stat){0};
    text_want(&text, BYTES("{\"completed\":"));
    stat->completed = text_get_u64(&text);
    text_want(&text, BYTES(",\"ids\":"));
    stat->ids = text_get_u128(&text);
    text_want(&text, BYTES(",\"timed\":"));
    stat->timed = text_get_u64(&text);
    text_want(&text, BYTES(",\"duration_ms\":"));
    stat->duration_ms = text_get_u128(&text);
    text_want(&text, BYTES(",\"max_ms\":"));
    stat->max_ms = text_get_u64(&text);
    text_want(&text, BYTES(",\"first\":"));
    stat->first_s = text_get_i64(&text);
    text_want(&text, BYTES(",\"last\":"));
    stat->last_s = text_get_i64(&text);
    text_want(&text, BYTES(",\"min_id\":"));
    stat->min_id = text_get_i64(&text);
    text_want(&text, BYTES(",\"max_id\":"));
    stat->max_id = text_get_i64(&text);
    if (text_has(&text, BYTES(",\"dropped\":"))) {
        stat->dropped = text_get_u64(&text);
        text_want(&text, BYTES(",\"dropped_ids\":"));
        stat->dropped_ids = text_get_u128(&text);
        text_want(&text, BYTES(",\"dropped_timed\":"));
        stat->dropped_timed = text_get_u64(&text);
        text_want(&text, BYTES(",\"dropped_ms\":"));
        stat->dropped_ms = text_get_u128(&text);
    }
    if (text_has(&text, BYTES(",\"running\":")))
        stat->running = text_get_u64(&text);
    text_want(&text, BYTES("}"));
    if (!text_is_whole(&text))
        return err_set(err, RC_CORRUPT, "it is no row of statistics");
    return RC_OK;
}

int64_t part_stat_range(int64_t id)
{
    return id / STAT_RANGE_IDS * STAT_RANGE_IDS;
}

/* ---- the histogram ---- */

size_t part_bucket(int64_t duration_ms)
{
    uint64_t value = (uint64_t)duration_ms;
    ASSERT(duration_ms >= 0 && duration_ms <= PART_DURATION_MS_MAX);
    if (value < EXACT_MS)
        return value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - SUB_BITS;
    return ((size_t)shift << SUB_BITS) + (value >> shift);
}

int64_t part_bucket_low(size_t bucket)
{
    if (bucket < EXACT_MS)
        return (int64_t)bucket;
    unsigned shift = (unsigned)(bucket >> SUB_BITS) - 1;
    return (int64_t)((bucket - ((size_t)shift << SUB_BITS)) << shift);
}

struct bytes part_bucket_name(size_t bucket, uint8_t to[STAT_BUCKET_NAME_BYTES])
{
    uint8_t id[TEXT_ID_BYTES];
    size_t word = sizeof BUCKET_WORD - 1, digits = STAT_BUCKET_NAME_BYTES - word;
    text_put_id(id, part_bucket_low(bucket));
    memcpy(to, BUCKET_WORD, word);
    memcpy(to + word, id + sizeof id - digits, digits);
    return bytes_of(to, STAT_BUCKET_NAME_BYTES);
}

bool part_bucket_parse(struct bytes name, size_t *ret_bucket)
{
    int64_t low = 0;
    if (name.len != STAT_BUCKET_NAME_BYTES || !bytes_start_with(name, BYTES(BUCKET_WORD)))
        return false;
    for (size_t i = sizeof BUCKET_WORD - 1; i < name.len; i++) {
        if (name.ptr[i] < '0' || name.ptr[i] > '9')
            return false;
        low = low * 10 + (name.ptr[i] - '0');
    }
    *ret_bucket = part_bucket(low);
    return *ret_bucket < STAT_BUCKET_COUNT && part_bucket_low(*ret_bucket) == low;
}

int64_t part_percentile(const uint64_t count[STAT_BUCKET_COUNT], double percent)
{
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < STAT_BUCKET_COUNT; i++)
        total += count[i];
    if (total == 0)
        return -1;
    for (size_t i = 0; i < STAT_BUCKET_COUNT; i++) {
        seen += count[i];
        if ((double)seen >= (double)total * percent / 100)
            return part_bucket_low(i);
    }
    return part_bucket_low(STAT_BUCKET_COUNT - 1);
}

// SPDX-License-Identifier: Apache-2.0
/* info.c - a partition's JSON row: read and written. */
#include "models/partition/info.h"

#include "models/partition/text.h"

#include "base/banned.h"

enum {
    INFO_FIXED_BYTES = 336 + 8 * TEXT_NUMBER_BYTES + 3 * TEXT_TIME_BYTES,
    DURATION_EXACT_MS = 10 * 1000,
    MS_A_SECOND = 1000,
};

static const char *const status_names[PART_STATUS_COUNT] = {
    [PART_PENDING] = "pending",     [PART_CLAIMED] = "claimed", [PART_RUNNING] = "running",
    [PART_COMPLETED] = "completed", [PART_FAILED] = "failed",
};

const char *part_status_name(uint8_t status)
{
    return status < PART_STATUS_COUNT ? status_names[status] : NULL;
}

bool part_status_parse(struct bytes name, uint8_t *ret_status)
{
    for (unsigned i = 0; i < PART_STATUS_COUNT; i++) {
        if (name.len == strlen(status_names[i]) &&
            memcmp(name.ptr, status_names[i], name.len) == 0) {
            *ret_status = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* ---- writing ---- */

bool part_info_write(const struct part_info *info, struct buf *to)
{
    size_t texts = (info->worker.len + info->error.len) * TEXT_ESCAPE_FACTOR + info->options.len;
    ASSERT(info->status < PART_STATUS_COUNT);
    if (!buf_reserve(to, INFO_FIXED_BYTES + texts))
        return false;
    const char *status = status_names[info->status];
    uint8_t *at = to->ptr + to->len;
    at = text_put(at, BYTES("{\"partition_id\":"));
    at = text_put_u64(at, (uint64_t)info->id);
    at = text_put(at, BYTES(",\"min_id\":"));
    at = text_put_u64(at, (uint64_t)info->min_id);
    at = text_put(at, BYTES(",\"max_id\":"));
    at = text_put_u64(at, (uint64_t)info->max_id);
    at = text_put(at, BYTES(",\"worker_id\":"));
    at = text_put_string(at, info->worker);
    at = text_put(at, BYTES(",\"last_heartbeat\":"));
    at = text_put_time(at, info->heartbeat_ms);
    at = text_put(at, BYTES(",\"status\":\""));
    at = text_put(at, bytes_of(status, strlen(status)));
    at = text_put(at, BYTES("\",\"updated_at\":"));
    at = text_put_time(at, info->updated_ms);
    at = text_put(at, BYTES(",\"options\":"));
    at = text_put(at, info->options.len > 0 ? info->options : BYTES("null"));
    at = text_put(at, BYTES(",\"version\":"));
    at = text_put_u64(at, info->version);
    at = text_put(at, BYTES(",\"error\":"));
    at = text_put_string(at, info->error);
    at = text_put(at, BYTES(",\"created_at\":"));
    at = text_put_time(at, info->created_ms);
    at = text_put(at, BYTES(",\"fence\":"));
    at = text_put_u64(at, info->fence);
    at = text_put(at, BYTES(",\"attempts\":"));
    at = text_put_u64(at, info->attempts);
    at = text_put(at, BYTES(",\"duration_ms\":"));
    at = info->duration_ms < 0 ? text_put(at, BYTES("null"))
                               : text_put_u64(at, (uint64_t)info->duration_ms);
    if (info->takeovers > 0) {
        at = text_put(at, BYTES(",\"takeovers\":"));
        at = text_put_u64(at, info->takeovers);
    }
    *at++ = '}';
    to->len = (size_t)(at - to->ptr);
    ASSERT(to->len <= to->cap);
    return true;
}

/* ---- reading ---- */

static uint8_t status_get(struct text *text, struct arena *arena)
{
    struct bytes name = text_get_string(text, arena);
    uint8_t status = 0;
    text->bad = text->bad || !part_status_parse(name, &status);
    return status;
}

enum rc part_info_read(struct bytes json, struct arena *arena, struct part_info *ret_info,
                       struct err *err)
{
    struct text text = text_of(json);
    struct part_info *info = ret_info;
    text_want(&text, BYTES("{\"partition_id\":"));
    info->id = text_get_i64(&text);
    text_want(&text, BYTES(",\"min_id\":"));
    info->min_id = text_get_i64(&text);
    text_want(&text, BYTES(",\"max_id\":"));
    info->max_id = text_get_i64(&text);
    text_want(&text, BYTES(",\"worker_id\":"));
    info->worker = text_get_string(&text, arena);
    text_want(&text, BYTES(",\"last_heartbeat\":"));
    info->heartbeat_ms = text_get_time(&text);
    text_want(&text, BYTES(",\"status\":"));
    info->status = status_get(&text, arena);
    text_want(&text, BYTES(",\"updated_at\":"));
    info->updated_ms = text_get_time(&text);
    text_want(&text, BYTES(",\"options\":"));
    info->options = text_has(&text, BYTES("null")) ? BYTES("") : text_get_raw(&text);
    text_want(&text, BYTES(",\"version\":"));
    info->version = text_get_u64(&text);
    text_want(&text, BYTES(",\"error\":"));
    info->error = text_get_string(&text, arena);
    text_want(&text, BYTES(",\"created_at\":"));
    info->created_ms = text_get_time(&text);
    text_want(&text, BYTES(",\"fence\":"));
    info->fence = text_get_u64(&text);
    text_want(&text, BYTES(",\"attempts\":"));
    info->attempts = text_get_u64(&text);
    text_want(&text, BYTES(",\"duration_ms\":"));
    info->duration_ms = text_has(&text, BYTES("null")) ? PART_DURATION_NONE : text_get_i64(&text);
    info->takeovers = text_has(&text, BYTES(",\"takeovers\":")) ? (uint64_t)text_get_i64(&text) : 0;
    text_want(&text, BYTES("}"));
    if (!text_is_whole(&text) || info->min_id > info->max_id || info->updated_ms < 0 ||
        info->created_ms < 0)
        return err_set(err, RC_CORRUPT, "it is no record of a partition");
    return RC_OK;
}

/* ---- the archive ---- */

int64_t part_duration_kept(int64_t duration_ms)
{
    if (duration_ms < DURATION_EXACT_MS)
        return duration_ms;
    return duration_ms / MS_A_SECOND * MS_A_SECOND;
}

static int64_t seconds_kept(int64_t unix_ms)
{
    return unix_ms / MS_A_SECOND * MS_A_SECOND;
}

void part_info_archive(struct part_info *info)
{
    info->created_ms = seconds_kept(info->created_ms);
    info->updated_ms = seconds_kept(info->updated_ms);
    info->heartbeat_ms = info->updated_ms;
    info->duration_ms = part_duration_kept(info->duration_ms);
    info->takeovers = 0;
}

struct part_info part_info_of_record(const struct part_record *record, struct bytes worker)
{
    return (struct part_info){.id = record->id,
                              .min_id = record->min_id,
                              .max_id = record->max_id,
                              .worker = worker,
                              .status = record->status,
                              .heartbeat_ms = record->updated_s * MS_A_SECOND,
                              .updated_ms = record->updated_s * MS_A_SECOND,
                              .created_ms = record->created_s * MS_A_SECOND,
                              .options = record->options,
                              .error = record->error,
                              .version = record->version,
                              .fence = record->fence,
                              .attempts = record->attempts,
                              .duration_ms = record->duration_ms};
}

struct part_record part_info_record(const struct part_info *info, uint32_t worker)
{
    return (struct part_record){.id = info->id,
                                .min_id = info->min_id,
                                .max_id = info->max_id,
                                .worker = worker,
                                .status = info->status,
                                .updated_s = info->updated_ms / MS_A_SECOND,
                                .created_s = info->created_ms / MS_A_SECOND,
                                .duration_ms = info->duration_ms,
                                .version = info->version,
                                .fence = info->fence,
                                .attempts = info->attempts,
                                .options = info->options,
                                .error = info->error};
}

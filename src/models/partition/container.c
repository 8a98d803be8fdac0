// SPDX-License-Identifier: Apache-2.0
/* container.c - reads and writes the JSON containers of the original. */
#include "models/partition/container.h"

#include <jansson.h>

#include "base/limits.h"
#include "models/partition/squeeze.h"

#include "base/banned.h"

static const char base64_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static bool base64_add(struct bytes raw, struct buf *to)
{
    for (size_t i = 0; i < raw.len; i += 3) {
        size_t left = raw.len - i;
        uint32_t group = (uint32_t)raw.ptr[i] << 16 | (left > 1 ? raw.ptr[i + 1] : 0U) << 8 |
                         (left > 2 ? raw.ptr[i + 2] : 0U);
        char text[4] = {base64_letters[group >> 18], base64_letters[group >> 12 & 63],
                        left > 1 ? base64_letters[group >> 6 & 63] : '=',
                        left > 2 ? base64_letters[group & 63] : '='};
        if (!buf_add(to, text, sizeof text))
            return false;
    }
    return true;
}

static int base64_value(uint8_t letter)
{
    const char *at = letter ? strchr(base64_letters, letter) : NULL;
    return at ? (int)(at - base64_letters) : -1;
}

/* Whole groups of four, padded; false: it is something else, or does not fit. */
static bool base64_read(struct bytes text, struct buf *to)
{
    if (text.len % 4 != 0)
        return false;
    for (size_t i = 0; i < text.len; i += 4) {
        const uint8_t *four = text.ptr + i;
        bool is_last = i + 4 == text.len;
        size_t pads = is_last ? (four[3] == '=') + (four[3] == '=' && four[2] == '=') : 0;
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            int value = k >= 4 - pads ? 0 : base64_value(four[k]);
            if (value < 0)
                return false;
            group = group << 6 | (uint32_t)value;
        }
        uint8_t raw[3] = {(uint8_t)(group >> 16), (uint8_t)(group >> 8), (uint8_t)group};
        if (!buf_add(to, raw, 3 - pads))
            return false;
    }
    return true;
}

static void json_free(json_t **json)
{
    json_decref(*json);
}

struct container { /* its members, borrowed from the JSON */
    int64_t base_s;
    size_t count;
    struct bytes data;
};

static enum rc members_read(const json_t *json, struct container *container, struct err *err)
{
    const json_t *base = json_object_get(json, "base_timestamp");
    const json_t *data = json_object_get(json, "compressed_data");
    const json_t *count = json_object_get(json, "partition_count");
    const json_t *algorithm = json_object_get(json, "compression_algorithm");
    if (!json_is_integer(base) || !json_is_string(data) || !json_is_integer(count))
        return err_set(err, RC_INVALID,
                       "not a batch container: base_timestamp, compressed_data or "
                       "partition_count is missing");
    if (algorithm &&
        (!json_is_string(algorithm) || strcmp(json_string_value(algorithm), "gzip") != 0))
        return err_set(err, RC_VERSION, "a batch container has an unknown compression_algorithm");
    if (json_integer_value(count) < 1 || json_integer_value(count) > PART_BATCH_RECORDS_MAX)
        return err_set(err, RC_INVALID, "a batch container has a partition_count of %lld",
                       (long long)json_integer_value(count));
    container->base_s = json_integer_value(base);
    container->count = (size_t)json_integer_value(count);
    container->data = bytes_of(json_string_value(data), json_string_length(data));
    return RC_OK;
}

enum rc part_container_read(struct bytes text, struct arena *arena,
                            struct part_record **ret_records, size_t *ret_count, struct err *err)
{
    json_error_t where;
    struct container container;
    CLEANUP(json_free)
    json_t *json = json_loadb((const char *)text.ptr, text.len, JSON_REJECT_DUPLICATES, &where);
    CLEANUP(buf_done) struct buf packed, raw;
    buf_init(&packed, PART_FRAME_BYTES_MAX);
    buf_init(&raw, PART_FRAME_BYTES_MAX);

    if (!json)
        return err_set(err, RC_INVALID, "not a batch container: %s", where.text);
    enum rc rc = members_read(json, &container, err);
    if (rc != RC_OK)
        return rc;
    if (!base64_read(container.data, &packed))
        return err_set(err, RC_CORRUPT, "compressed_data of a batch container is not base64");
    rc = unsqueeze_gzip(buf_bytes(&packed), &raw, err);
    enum part_rows form;
    if (rc == RC_OK)
        rc = rows_tell(buf_bytes(&raw), container.count, &form, err);
    if (rc != RC_OK)
        return rc;
    uint8_t *rows = arena_try_alloc(arena, raw.len);
    struct part_record *records = arena_try_alloc(arena, container.count * sizeof *records);
    if (!rows || !records)
        return err_set(err, RC_NOMEM, "could not allocate %zu partitions", container.count);
    memcpy(rows, raw.ptr, raw.len);
    rc = rows_read(bytes_of(rows, raw.len), container.count, form, container.base_s, records, err);
    if (rc != RC_OK)
        return rc;
    *ret_records = records;
    *ret_count = container.count;
    return RC_OK;
}

static void loss_count(struct part_container_loss *loss, const struct part_record *record,
                       enum part_rows form)
{
    loss->created_count += form == PART_ROWS_25 && record->created_s != record->updated_s;
    loss->options_count += record->options.len > 0;
    loss->version_count += record->version || record->fence || record->attempts ||
                           record->duration_ms != PART_DURATION_NONE;
}

static int64_t base_of(const struct part_record *records, size_t count, enum part_rows form)
{
    int64_t base_s = records[0].updated_s;
    for (size_t i = 0; i < count; i++) {
        if (records[i].updated_s < base_s)
            base_s = records[i].updated_s;
        if (form == PART_ROWS_29 && records[i].created_s < base_s)
            base_s = records[i].created_s;
    }
    return base_s;
}

enum rc part_container_write(const struct part_record *records, size_t count, enum part_rows form,
                             struct buf *to, struct part_container_loss *ret_loss, struct err *err)
{
    struct part_container_loss loss = {0};
    size_t start = to->len;
    CLEANUP(buf_done) struct buf raw, packed;
    buf_init(&raw, PART_FRAME_BYTES_MAX);
    buf_init(&packed, (size_t)2 * PART_FRAME_BYTES_MAX);

    if (count == 0 || count > PART_BATCH_RECORDS_MAX)
        return err_set(err, RC_INVALID, "a batch container of %zu partitions", count);
    int64_t base_s = base_of(records, count, form);
    for (size_t i = 0; i < count; i++) {
        const char *misfit = rows_misfit(&records[i], form, base_s);
        if (misfit)
            return err_set(err, RC_TOO_BIG,
                           "the %s of partition %lld does not fit the original's rows", misfit,
                           (long long)records[i].id);
        loss_count(&loss, &records[i], form);
        if (!rows_add(&records[i], form, base_s, &raw))
            return err_set(err, RC_TOO_BIG, "a batch container is over its limit");
    }
    enum rc rc = squeeze(PART_GZIP, buf_bytes(&raw), &packed, err);
    if (rc != RC_OK)
        return rc;
    if (!buf_printf(to, "{\"base_timestamp\":%lld,\"compressed_data\":\"", (long long)base_s) ||
        !base64_add(buf_bytes(&packed), to) ||
        !buf_printf(to,
                    "\",\"partition_count\":%zu,\"compression_algorithm\":\"gzip\",\"version\":1}",
                    count)) {
        buf_cut(to, start);
        return err_set(err, RC_TOO_BIG, "a batch container is over its limit");
    }
    *ret_loss = loss;
    return RC_OK;
}

// SPDX-License-Identifier: Apache-2.0
/* rows.c - the rows of Format 1: read, written, and what of a record they lose. */
#include "models/partition/rows.h"

#include "base/codec.h"
#include "base/utf8.h"
#include "models/partition/column_int.h"

#include "base/banned.h"

static bool fits_u32(int64_t from, int64_t value)
{
    int64_t offset;
    return !__builtin_sub_overflow(value, from, &offset) && offset >= 0 && offset <= UINT32_MAX;
}

const char *rows_misfit(const struct part_record *record, enum part_rows form, int64_t base_s)
{
    int64_t last; /* max_id + 1, if there is such a number */
    if (record->id < 0 || record->id > UINT32_MAX)
        return "partition id";
    if (__builtin_add_overflow(record->max_id, 1, &last) || !fits_u32(record->min_id, last))
        return "range";
    if (record->worker > UINT16_MAX)
        return "worker number";
    if (!fits_u32(base_s, record->updated_s))
        return "updated_at";
    if (form == PART_ROWS_29 && !fits_u32(base_s, record->created_s))
        return "created_at";
    if (record->error.len > UINT16_MAX)
        return "error";
    return NULL;
}

const char *rows_lost(const struct part_record *record, enum part_rows form)
{
    if (form == PART_ROWS_25 && record->created_s != record->updated_s)
        return "created_at";
    if (record->options.len)
        return "options";
    if (record->version)
        return "version";
    if (record->fence)
        return "fence";
    if (record->duration_ms != PART_DURATION_NONE)
        return "duration";
    if (record->attempts)
        return "attempts";
    return NULL;
}

bool rows_add(const struct part_record *record, enum part_rows form, int64_t base_s, struct buf *to)
{
    uint8_t row[PART_ROWS_29];
    ASSERT(!rows_misfit(record, form, base_s));
    le32_put(row, (uint32_t)record->id);
    le64_put(row + 4, (uint64_t)record->min_id);
    le32_put(row + 12, (uint32_t)(record->max_id - record->min_id + 1));
    le16_put(row + 16, (uint16_t)record->worker);
    row[18] = record->status;
    le32_put(row + 19, (uint32_t)(record->updated_s - base_s));
    if (form == PART_ROWS_29)
        le32_put(row + 23, (uint32_t)(record->created_s - base_s));
    le16_put(row + form - 2, (uint16_t)record->error.len);
    return buf_add(to, row, form) && buf_add_bytes(to, record->error);
}

/* Length of the row at an offset; 0: it does not end within the bytes. */
static size_t row_len(struct bytes raw, size_t offset, enum part_rows form)
{
    if (raw.len - offset < form)
        return 0;
    size_t len = (size_t)form + le16_get(raw.ptr + offset + form - 2);
    return raw.len - offset < len ? 0 : len;
}

/* Errors are texts; bytes of other fields, read as one, hold zeros sooner or later. */
static bool is_text(struct bytes error)
{
    return (error.len == 0 || !memchr(error.ptr, 0, error.len)) && utf8_is_valid(error);
}

static bool rows_consume(struct bytes raw, size_t count, enum part_rows form, bool *ret_texts)
{
    size_t offset = 0;
    *ret_texts = true;
    for (size_t i = 0; i < count; i++) {
        size_t len = row_len(raw, offset, form);
        if (len == 0 || raw.ptr[offset + 18] >= PART_STATUS_COUNT)
            return false;
        if (!is_text(bytes_of(raw.ptr + offset + form, len - form)))
            *ret_texts = false;
        offset += len;
    }
    return offset == raw.len;
}

enum rc rows_tell(struct bytes raw, size_t count, enum part_rows *ret_form, struct err *err)
{
    bool texts_25, texts_29;
    bool is_25 = rows_consume(raw, count, PART_ROWS_25, &texts_25);
    bool is_29 = rows_consume(raw, count, PART_ROWS_29, &texts_29);
    if (is_25 && is_29 && texts_25 != texts_29) {
        is_25 = texts_25;
        is_29 = texts_29;
    }
    if (is_25 && is_29)
        return err_set(err, RC_INVALID,
                       "%zu rows in %zu bytes can be read as rows of 25 and of 29 bytes", count,
                       raw.len);
    if (!is_25 && !is_29)
        return err_set(err, RC_CORRUPT, "%zu bytes are not %zu rows of 25 or of 29 bytes", raw.len,
                       count);
    *ret_form = is_25 ? PART_ROWS_25 : PART_ROWS_29;
    return RC_OK;
}

enum rc rows_read(struct bytes raw, size_t count, enum part_rows form, int64_t base_s,
                  struct part_record *to, struct err *err)
{
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = raw.ptr + offset;
        size_t len = row_len(raw, offset, form);
        if (len == 0)
            return err_set(err, RC_CORRUPT, "row %zu of %zu is cut", i, count);
        if (row[18] >= PART_STATUS_COUNT)
            return err_set(err, RC_CORRUPT, "row %zu of %zu has status %u", i, count, row[18]);
        int64_t min_id = (int64_t)le64_get(row + 4);
        int64_t updated_s = wrap_add(base_s, le32_get(row + 19));
        to[i] = (struct part_record){
            .id = le32_get(row),
            .min_id = min_id,
            .max_id = wrap_add(min_id, (int64_t)le32_get(row + 12) - 1),
            .worker = le16_get(row + 16),
            .status = row[18],
            .updated_s = updated_s,
            .created_s = form == PART_ROWS_29 ? wrap_add(base_s, le32_get(row + 23)) : updated_s,
            .duration_ms = PART_DURATION_NONE,
            .error = bytes_of(row + form, len - form),
        };
        offset += len;
    }
    if (offset != raw.len)
        return err_set(err, RC_CORRUPT, "%zu bytes follow the last of %zu rows", raw.len - offset,
                       count);
    return RC_OK;
}

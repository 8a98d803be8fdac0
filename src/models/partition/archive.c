// SPDX-License-Identifier: Apache-2.0
/* archive.c - opens a frame of either format and reads records of it. */
#include "models/partition/archive.h"

#include "base/codec.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive_int.h"
#include "models/partition/column_int.h"
#include "models/partition/rows.h"

#include "base/banned.h"

static void memory_free(void *pointer)
{
    mem_free(*(void **)pointer);
}

static enum rc damaged(const char *what, struct err *err)
{
    return err_set(err, RC_CORRUPT, "damaged partition batch: %s", what);
}

/* ---- opening columns ---- */

static enum rc layout_open(struct part_batch *batch, const uint8_t **from, const uint8_t *end,
                           struct err *err)
{
    if (*from >= end)
        return damaged("no columns", err);
    unsigned layout = *(*from)++;
    unsigned created = layout >> LAYOUT_CREATED_SHIFT & LAYOUT_MODE_MASK;
    unsigned updated = layout >> LAYOUT_UPDATED_SHIFT & LAYOUT_MODE_MASK;
    if ((layout & ~(unsigned)LAYOUT_KNOWN) || (layout & LAYOUT_MIN_MASK) > MIN_BY_ID ||
        updated > UPDATED_BY_WORKER || created > CREATED_FROM_START)
        return err_set(err, RC_VERSION, "a partition batch has unknown layout %02x", layout);
    batch->min_mode = (enum min_mode)(layout & LAYOUT_MIN_MASK);
    batch->updated_mode = (enum updated_mode)updated;
    batch->created_mode = (enum created_mode)created;
    if (!uvarint_get(from, end, &batch->unit_ms) || batch->unit_ms == 0 ||
        batch->unit_ms > UINT32_MAX)
        return damaged("unit of durations", err);
    return RC_OK;
}

static bool zigzag_get(const uint8_t **from, const uint8_t *end, int64_t *ret_value)
{
    uint64_t code = 0;
    bool got = uvarint_get(from, end, &code);
    *ret_value = zigzag_decode(code);
    return got;
}

static enum rc texts_open(struct part_batch *batch, const uint8_t *from, const uint8_t *end,
                          struct err *err)
{
    size_t columns_len = (size_t)(from - batch->frame.payload.ptr);
    if (batch->frame.raw_len < columns_len)
        return damaged("unpacked length", err);
    batch->text_stored = bytes_of(from, (size_t)(end - from));
    batch->text_raw_len = batch->frame.raw_len - columns_len;
    bool packed = batch->text_stored.len != batch->text_raw_len;
    if (packed && (batch->frame.algorithm == PART_NONE ||
                   batch->text_stored.len > batch->text_raw_len || batch->text_count == 0))
        return damaged("length of its texts", err);
    if (!packed)
        batch->text = batch->text_stored;
    return RC_OK;
}

enum rc part__columns_open(struct part_batch *batch, struct err *err)
{
    const uint8_t *from = batch->frame.payload.ptr, *end = from + batch->frame.payload.len;
    struct column_pool pool = {.column = batch->pool, .max = PART_POOL};
    uint64_t text_count;

    enum rc rc = layout_open(batch, &from, end, err);
    if (rc != RC_OK)
        return rc;
    for (int i = 0; i < PART_COLUMN_TEXT_ENDS; i++) {
        if (i == PART_COLUMN_MIN && batch->min_mode == MIN_CHAIN) {
            if (!zigzag_get(&from, end, &batch->min_first) ||
                !column_sums_quickly(batch->column[PART_COLUMN_SPAN]))
                return damaged("min ids", err);
            continue;
        }
        if (i == PART_COLUMN_MIN && batch->min_mode == MIN_BY_ID &&
            !zigzag_get(&from, end, &batch->min_factor))
            return damaged("min ids", err);
        size_t count = batch->frame.count;
        if (i == PART_COLUMN_FIRST) {
            if (batch->updated_mode != UPDATED_BY_WORKER)
                continue;
            count = (count + PART_WORKER_BLOCK - 1) / PART_WORKER_BLOCK * batch->frame.worker_count;
        }
        batch->column[i] = column_open(&pool, &from, end, count);
        if (!batch->column[i])
            return err_set(err, RC_CORRUPT, "damaged partition batch: column %d", i);
    }
    if (!uvarint_get(&from, end, &text_count) || text_count > 2 * batch->frame.count)
        return damaged("count of texts", err);
    batch->text_count = (size_t)text_count;
    if (text_count) {
        batch->column[PART_COLUMN_TEXT_ENDS] = column_open(&pool, &from, end, batch->text_count);
        if (!batch->column[PART_COLUMN_TEXT_ENDS])
            return damaged("ends of texts", err);
    }
    return texts_open(batch, from, end, err);
}

/* ---- opening rows ---- */

/* Puts rows and wide records, each in order, into one list. */
static enum rc wide_merge(struct part_batch *batch, const struct column *positions,
                          size_t wide_count, struct err *err)
{
    size_t count = batch->frame.count, row = count - wide_count, at = count;
    /* From the end, so that rows move up inside the list they are in. */
    for (size_t i = wide_count; i-- > 0;) {
        int64_t position = column_get(positions, i);
        if (position < 0 || (size_t)position >= at || at - (size_t)position - 1 > row)
            return damaged("positions of wide records", err);
        while (at > (size_t)position + 1)
            batch->records[--at] = batch->records[--row];
        enum rc rc = part_batch_get(batch->wide, i, &batch->records[--at], err);
        if (rc != RC_OK)
            return rc;
    }
    return at == row ? RC_OK : damaged("positions of wide records", err);
}

static enum rc wide_open(struct part_batch *batch, struct bytes *rows, const uint8_t *from,
                         const uint8_t *end, const struct column **ret_positions, size_t *ret_count,
                         struct err *err)
{
    uint64_t rows_len, wide_count;
    struct column_pool pool = {.column = batch->pool, .max = PART_POOL};
    if (!uvarint_get(&from, end, &rows_len) || rows_len > (size_t)(end - from))
        return damaged("length of its rows", err);
    *rows = bytes_of(from, (size_t)rows_len);
    from += rows_len;
    if (!uvarint_get(&from, end, &wide_count) || wide_count == 0 || wide_count > batch->frame.count)
        return damaged("count of wide records", err);
    const struct column *positions = column_open(&pool, &from, end, (size_t)wide_count);
    if (!positions)
        return damaged("positions of wide records", err);
    /* Only one level: a frame inside is one of columns. */
    if (end - from < FRAME_HEAD_BYTES || from[2] != FRAME_COLUMNS)
        return damaged("frame of wide records", err);
    enum rc rc = part_batch_open(bytes_of(from, (size_t)(end - from)), &batch->wide, err);
    if (rc != RC_OK)
        return rc;
    if (batch->wide->frame.count != wide_count)
        return damaged("count of wide records", err);
    *ret_positions = positions;
    *ret_count = (size_t)wide_count;
    return RC_OK;
}

enum rc part__rows_open(struct part_batch *batch, struct err *err)
{
    struct frame *frame = &batch->frame;
    const struct column *positions = NULL;
    size_t wide_count = 0;
    enum part_rows form = frame->flags & FRAME_CREATED ? PART_ROWS_29 : PART_ROWS_25;

    batch->raw = mem_try_alloc(frame->raw_len);
    batch->records = mem_try_alloc(frame->count * sizeof *batch->records);
    if (!batch->raw || !batch->records)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a partition batch",
                       frame->raw_len);
    enum rc rc = unsqueeze(frame->algorithm, frame->payload, batch->raw, frame->raw_len, err);
    struct bytes rows = bytes_of(batch->raw, frame->raw_len);
    if (rc == RC_OK && frame->flags & FRAME_WIDE)
        rc = wide_open(batch, &rows, rows.ptr, rows.ptr + rows.len, &positions, &wide_count, err);
    if (rc == RC_OK)
        rc = rows_read(rows, frame->count - wide_count, form, frame->base_s, batch->records, err);
    if (rc == RC_OK && wide_count)
        rc = wide_merge(batch, positions, wide_count, err);
    return rc;
}

enum rc part_batch_open(struct bytes bytes, struct part_batch **ret_batch, struct err *err)
{
    struct frame frame;
    enum rc rc = frame_parse(bytes, &frame, err);
    if (rc != RC_OK)
        return rc;
    struct part_batch *batch = mem_alloc(sizeof *batch);
    memset(batch, 0, offsetof(struct part_batch, pool)); /* the pool fills itself */
    batch->frame = frame;
    rc = frame.format == FRAME_ROWS ? part__rows_open(batch, err) : part__columns_open(batch, err);
    if (rc != RC_OK) {
        part_batch_close(batch);
        return rc;
    }
    *ret_batch = batch;
    return RC_OK;
}

void part_batch_close(struct part_batch *batch)
{
    if (!batch)
        return;
    part_batch_close(batch->wide);
    frame_done(&batch->frame);
    mem_free(batch->text_memory);
    mem_free(batch->records);
    mem_free(batch->raw);
    mem_free(batch);
}

struct part_batch_info part_batch_info(const struct part_batch *batch)
{
    const struct frame *frame = &batch->frame;
    return (struct part_batch_info){
        .format = frame->format == FRAME_ROWS ? PART_FORMAT_ROWS : PART_FORMAT_COLUMNS,
        .algorithm = frame->algorithm,
        .count = frame->count,
        .id_min = frame->id_min,
        .id_max = frame->id_max,
        .base_s = frame->base_s,
        .ascending = frame->flags & FRAME_ASCENDING,
        .worker = frame->worker,
        .worker_count = frame->worker_count,
        .raw_len = frame->raw_len,
        .has_names = frame->flags & FRAME_NAMES,
    };
}

void part_batch_names(const struct part_batch *batch, struct bytes *ret_names)
{
    const uint8_t *from = batch->frame.names.ptr, *end = from + batch->frame.names.len;
    for (size_t i = 0; i < batch->frame.worker_count; i++) {
        uint64_t len;
        ret_names[i] = BYTES("");
        if (from < end && uvarint_get(&from, end, &len)) { /* checked when it was opened */
            ret_names[i] = bytes_of(from, (size_t)len);
            from += len;
        }
    }
}

/* ---- some records ---- */

static enum rc texts_unpack(struct part_batch *batch, struct err *err)
{
    if (batch->text.ptr)
        return RC_OK;
    if (!batch->text_memory)
        batch->text_memory = mem_try_alloc(batch->text_raw_len);
    if (!batch->text_memory)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for texts of partitions",
                       batch->text_raw_len);
    enum rc rc = unsqueeze(batch->frame.algorithm, batch->text_stored, batch->text_memory,
                           batch->text_raw_len, err);
    if (rc == RC_OK)
        batch->text = bytes_of(batch->text_memory, batch->text_raw_len);
    return rc;
}

static enum rc text_get(struct part_batch *batch, int64_t code, struct bytes *ret_text,
                        struct err *err)
{
    *ret_text = BYTES("");
    if (code == 0)
        return RC_OK;
    if (code < 0 || (uint64_t)code > batch->text_count)
        return damaged("number of a text", err);
    enum rc rc = texts_unpack(batch, err);
    if (rc != RC_OK)
        return rc;
    const struct column *ends = batch->column[PART_COLUMN_TEXT_ENDS];
    int64_t start = code > 1 ? column_get(ends, (size_t)code - 2) : 0;
    int64_t end = column_get(ends, (size_t)code - 1);
    if (start < 0 || end < start || (uint64_t)end > batch->text.len)
        return damaged("end of a text", err);
    *ret_text = bytes_of(batch->text.ptr + start, (size_t)(end - start));
    return RC_OK;
}

struct codes { /* one record as its columns have it */
    int64_t id, span, min_id, worker, status, duration, updated, created;
    int64_t version, fence, attempts, error, options;
};

static enum rc codes_to_record(struct part_batch *batch, const struct codes *codes,
                               struct part_record *ret_record, struct err *err)
{
    if (codes->worker < 0 || (uint64_t)codes->worker >= batch->frame.worker_count)
        return damaged("number of a worker", err);
    if (codes->status < 0 || codes->status >= PART_STATUS_COUNT)
        return damaged("status", err);
    if (codes->duration < PART_DURATION_NONE ||
        codes->duration > INT64_MAX / (int64_t)batch->unit_ms)
        return damaged("duration", err);
    int64_t duration_s = part__duration_s(codes->duration, batch->unit_ms);
    int64_t updated = wrap_add(batch->frame.base_s, codes->updated);
    int64_t created = codes->created;
    switch (batch->created_mode) {
    case CREATED_SELF:
        created = wrap_add(created, batch->frame.base_s);
        break;
    case CREATED_FROM_UPDATED:
        created = wrap_add(created, updated);
        break;
    case CREATED_FROM_START:
        created = wrap_add(created, wrap_sub(updated, duration_s));
        break;
    }
    struct part_record record = {
        .id = codes->id,
        .min_id = codes->min_id,
        .max_id = wrap_add(codes->min_id, codes->span),
        .worker = batch->frame.worker[codes->worker],
        .status = (uint8_t)codes->status,
        .updated_s = updated,
        .created_s = created,
        .duration_ms =
            codes->duration < 0 ? PART_DURATION_NONE : codes->duration * (int64_t)batch->unit_ms,
        .version = (uint64_t)codes->version,
        .fence = (uint64_t)codes->fence,
        .attempts = (uint64_t)codes->attempts,
    };
    enum rc rc = text_get(batch, codes->error, &record.error, err);
    if (rc == RC_OK)
        rc = text_get(batch, codes->options, &record.options, err);
    if (rc == RC_OK)
        *ret_record = record;
    return rc;
}

/* Their min ids, from what the column has, or from the spans before. */
static void mins_get(const struct part_batch *batch, const uint32_t *position, size_t count,
                     const int64_t *id, int64_t *min_id)
{
    if (batch->min_mode == MIN_CHAIN) {
        column_sums(batch->column[PART_COLUMN_SPAN], position, count, min_id);
        for (size_t i = 0; i < count; i++)
            min_id[i] = wrap_add(min_id[i], wrap_add(batch->min_first, (int64_t)position[i]));
        return;
    }
    for (size_t i = 0; i < count && batch->min_mode == MIN_BY_ID; i++)
        min_id[i] =
            wrap_add(min_id[i], wrap_mul(batch->min_factor, wrap_add(batch->frame.id_min, id[i])));
}

/* Of record i of columns that were read; but for min_id, which has a column only in some modes. */
static inline struct codes codes_at(const struct part_batch *batch, int64_t (*value)[COLUMN_SYNC],
                                    size_t i)
{
    return (struct codes){
        .id = wrap_add(batch->frame.id_min, value[PART_COLUMN_ID][i]),
        .span = value[PART_COLUMN_SPAN][i],
        .worker = value[PART_COLUMN_WORKER][i],
        .status = value[PART_COLUMN_STATUS][i],
        .duration = value[PART_COLUMN_DURATION][i],
        .updated = value[PART_COLUMN_UPDATED][i],
        .created = value[PART_COLUMN_CREATED][i],
        .version = value[PART_COLUMN_VERSION][i],
        .fence = value[PART_COLUMN_FENCE][i],
        .attempts = value[PART_COLUMN_ATTEMPTS][i],
        .error = value[PART_COLUMN_ERROR][i],
        .options = value[PART_COLUMN_OPTIONS][i],
    };
}

_Static_assert((int)PART_READ_PART <= (int)COLUMN_SYNC, "what is read at once fits");

static enum rc some_read(struct part_batch *batch, const uint32_t *position, size_t count,
                         struct part_record *records, struct err *err)
{
    int64_t value[PART_COLUMN_TEXT_ENDS][COLUMN_SYNC];
    for (int i = 0; i < PART_COLUMN_TEXT_ENDS; i++)
        if (batch->column[i] && i != PART_COLUMN_FIRST && i != PART_COLUMN_UPDATED)
            column_gather(batch->column[i], position, count, value[i]);
    mins_get(batch, position, count, value[PART_COLUMN_ID], value[PART_COLUMN_MIN]);
    part__updated_gather(batch, position, count, value[PART_COLUMN_WORKER],
                         value[PART_COLUMN_UPDATED]);
    for (size_t i = 0; i < count; i++) {
        struct codes codes = codes_at(batch, value, i);
        codes.min_id = value[PART_COLUMN_MIN][i];
        enum rc rc = codes_to_record(batch, &codes, &records[i], err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc part_batch_read(struct part_batch *batch, const uint32_t *position, size_t count,
                        struct part_record *records, struct err *err)
{
    ASSERT(count == 0 || position[count - 1] < batch->frame.count);
    for (size_t i = 0; batch->records && i < count; i++)
        records[i] = batch->records[position[i]];
    for (size_t i = 0; !batch->records && i < count; i += PART_READ_PART) {
        size_t part = count - i < PART_READ_PART ? count - i : PART_READ_PART;
        enum rc rc = some_read(batch, position + i, part, records + i, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc part_batch_get(struct part_batch *batch, size_t position, struct part_record *ret_record,
                       struct err *err)
{
    uint32_t one = (uint32_t)position;
    return part_batch_read(batch, &one, 1, ret_record, err);
}

/* ---- all records ---- */

/* Up to COLUMN_SYNC records, column by column. */
static enum rc block_decode(struct part_batch *batch, size_t from, size_t count, int64_t *last,
                            struct part_record *to, struct err *err)
{
    int64_t value[PART_COLUMN_TEXT_ENDS][COLUMN_SYNC];
    for (int i = 0; i < PART_COLUMN_TEXT_ENDS; i++)
        if (batch->column[i] && i != PART_COLUMN_FIRST && i != PART_COLUMN_UPDATED)
            column_read(batch->column[i], from, count, value[i]);
    part__updated_read(batch, from, count, last, value[PART_COLUMN_UPDATED]);
    int64_t chain = 0;
    uint32_t first = (uint32_t)from;
    if (batch->min_mode == MIN_CHAIN)
        mins_get(batch, &first, 1, NULL, &chain);
    for (size_t i = 0; i < count; i++) {
        struct codes codes = codes_at(batch, value, i);
        if (batch->min_mode == MIN_CHAIN) {
            codes.min_id = chain;
            chain = wrap_add(wrap_add(chain, codes.span), 1);
        } else {
            codes.min_id = value[PART_COLUMN_MIN][i];
            if (batch->min_mode == MIN_BY_ID)
                codes.min_id = wrap_add(codes.min_id, wrap_mul(batch->min_factor, codes.id));
        }
        enum rc rc = codes_to_record(batch, &codes, &to[i], err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static bool text_copy(struct arena *arena, struct bytes *text)
{
    if (text->len == 0)
        return true;
    uint8_t *copy = arena_try_alloc(arena, text->len);
    if (!copy)
        return false;
    memcpy(copy, text->ptr, text->len);
    text->ptr = copy;
    return true;
}

enum rc part_batch_decode(struct part_batch *batch, struct arena *arena,
                          struct part_record **ret_records, struct err *err)
{
    size_t count = batch->frame.count;
    struct part_record *records = arena_try_alloc(arena, count * sizeof *records);
    if (!records)
        return err_set(err, RC_NOMEM, "could not allocate %zu partitions", count);
    CLEANUP(memory_free) int64_t *last = mem_alloc(batch->frame.worker_count * sizeof *last);
    if (batch->records)
        memcpy(records, batch->records, count * sizeof *records);
    for (size_t from = 0; !batch->records && from < count; from += COLUMN_SYNC) {
        size_t part = count - from < COLUMN_SYNC ? count - from : COLUMN_SYNC;
        enum rc rc = block_decode(batch, from, part, last, records + from, err);
        if (rc != RC_OK)
            return rc;
    }
    for (size_t i = 0; i < count; i++)
        if (!text_copy(arena, &records[i].error) || !text_copy(arena, &records[i].options))
            return err_set(err, RC_NOMEM, "could not allocate the texts of %zu partitions", count);
    *ret_records = records;
    return RC_OK;
}

/* ---- checking ---- */

static bool header_holds(const struct frame *frame, const struct part_record *records)
{
    int64_t id_min = records[0].id, id_max = records[0].id, base_s = records[0].updated_s;
    bool ascending = true;
    for (size_t i = 0; i < frame->count; i++) {
        const struct part_record *record = &records[i];
        id_min = record->id < id_min ? record->id : id_min;
        id_max = record->id > id_max ? record->id : id_max;
        base_s = record->updated_s < base_s ? record->updated_s : base_s;
        base_s = record->created_s < base_s ? record->created_s : base_s;
        ascending = ascending && (i == 0 || record->id > records[i - 1].id);
    }
    return id_min == frame->id_min && id_max == frame->id_max && base_s == frame->base_s &&
           ascending == ((frame->flags & FRAME_ASCENDING) != 0);
}

/* Every number of the header's list has a record, and every record's number is in it. */
static bool workers_hold(const struct frame *frame, const struct part_record *records)
{
    CLEANUP(memory_free) uint8_t *seen = mem_zalloc(frame->worker_count);
    size_t seen_count = 0;
    for (size_t i = 0; i < frame->count; i++) {
        size_t low = 0, high = frame->worker_count;
        while (low + 1 < high) {
            size_t middle = (low + high) / 2;
            if (frame->worker[middle] <= records[i].worker)
                low = middle;
            else
                high = middle;
        }
        if (frame->worker[low] != records[i].worker)
            return false;
        seen_count += !seen[low];
        seen[low] = 1;
    }
    return seen_count == frame->worker_count;
}

enum rc part_batch_verify(struct part_batch *batch, struct err *err)
{
    struct part_record *records;
    CLEANUP(arena_done) struct arena arena;
    arena_init(&arena);
    for (int i = 0; i < PART_COLUMN_COUNT; i++)
        if (batch->column[i] && !column_check(batch->column[i]))
            return err_set(err, RC_CORRUPT, "damaged partition batch: column %d", i);
    if (batch->wide) {
        enum rc rc = part_batch_verify(batch->wide, err);
        if (rc != RC_OK)
            return rc;
    }
    enum rc rc = part_batch_decode(batch, &arena, &records, err);
    if (rc != RC_OK)
        return rc;
    if (!header_holds(&batch->frame, records) || !workers_hold(&batch->frame, records))
        return damaged("its header is not that of its records", err);
    return RC_OK;
}

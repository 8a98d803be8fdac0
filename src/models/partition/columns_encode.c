// SPDX-License-Identifier: Apache-2.0
/* columns_encode.c - records into the columns of Format 2. */
#include "base/codec.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive_int.h"
#include "models/partition/column_int.h"

#include "base/banned.h"

enum {
    TEXT_SQUEEZE_BYTES_MIN = 256, /* a few bytes less are not worth a look's 10 us */
    TEXT_SQUEEZE_GAIN = 8,        /* at least this fraction has to be won */
};

struct body {
    const struct part_record *records;
    const struct frame *frame;
    size_t count;
    uint64_t unit_ms;
    unsigned layout;
    int64_t *values;    /* of the column being made */
    int64_t *durations; /* as stored */
    struct buf *to;
    /* texts */
    struct buf text;
    int64_t *text_end;
    size_t text_count;
    uint32_t *slot; /* text + 1, by hash */
    size_t slot_count;
};

static void memory_free(void *pointer)
{
    mem_free(*(void **)pointer);
}

static void body_done(struct body *body)
{
    mem_free(body->values);
    mem_free(body->durations);
    mem_free(body->text_end);
    mem_free(body->slot);
    buf_done(&body->text);
}

/* ---- columns that are told as they are ---- */

enum field {
    FIELD_ID,
    FIELD_SPAN,
    FIELD_MIN,
    FIELD_WORKER,
    FIELD_STATUS,
    FIELD_UPDATED,
    FIELD_CREATED,
    FIELD_VERSION,
    FIELD_FENCE,
    FIELD_ATTEMPTS
};

static int64_t worker_index(const struct frame *frame, uint32_t worker)
{
    size_t low = 0, high = frame->worker_count;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (frame->worker[middle] <= worker)
            low = middle;
        else
            high = middle;
    }
    ASSERT(frame->worker[low] == worker);
    return (int64_t)low;
}

static int64_t field_of(const struct body *body, size_t i, enum field field)
{
    const struct part_record *record = &body->records[i];
    switch (field) {
    case FIELD_ID:
        return wrap_sub(record->id, body->frame->id_min);
    case FIELD_SPAN:
        return wrap_sub(record->max_id, record->min_id);
    case FIELD_MIN:
        return record->min_id;
    case FIELD_WORKER:
        return worker_index(body->frame, record->worker);
    case FIELD_STATUS:
        return record->status;
    case FIELD_UPDATED:
        return wrap_sub(record->updated_s, body->frame->base_s);
    case FIELD_CREATED:
        return wrap_sub(record->created_s, body->frame->base_s);
    case FIELD_VERSION:
        return (int64_t)record->version;
    case FIELD_FENCE:
        return (int64_t)record->fence;
    case FIELD_ATTEMPTS:
        return (int64_t)record->attempts;
    }
    return 0;
}

static bool field_add(struct body *body, enum field field)
{
    for (size_t i = 0; i < body->count; i++)
        body->values[i] = field_of(body, i, field);
    return column_encode(body->values, body->count, body->to);
}

/* Encodes body->values as another way to tell the column that begins at `start`: kept, and true, if
 * it is shorter. `head` is what such a column has in front. */
static bool rival_wins(struct body *body, size_t start, struct bytes head, bool *failed)
{
    size_t end = body->to->len;
    if (!buf_add_bytes(body->to, head) || !column_encode(body->values, body->count, body->to)) {
        *failed = true;
        return false;
    }
    size_t rival = body->to->len - end;
    bool wins = rival < end - start;
    if (wins)
        memmove(body->to->ptr + start, body->to->ptr + end, rival);
    buf_cut(body->to, wins ? start + rival : end);
    return wins;
}

/* ---- min ids ---- */

static bool is_chain(const struct body *body, size_t span_start)
{
    for (size_t i = 1; i < body->count; i++)
        if (body->records[i].min_id != wrap_add(body->records[i - 1].max_id, 1))
            return false;
    struct column columns[4];
    struct column_pool pool = {.column = columns, .max = ARRAY_LEN(columns)};
    const uint8_t *from = body->to->ptr + span_start;
    const struct column *span =
        column_open(&pool, &from, body->to->ptr + body->to->len, body->count);
    ASSERT(span);
    return column_sums_quickly(span);
}

static bool min_add(struct body *body, size_t span_start)
{
    const struct part_record *first = &body->records[0], *last = &body->records[body->count - 1];
    if (is_chain(body, span_start)) {
        body->layout |= MIN_CHAIN;
        return buf_add_uvarint(body->to, zigzag_encode(first->min_id));
    }
    size_t start = body->to->len;
    if (!field_add(body, FIELD_MIN))
        return false;
    int64_t ids, mins;
    if (__builtin_sub_overflow(last->id, first->id, &ids) || ids == 0 ||
        __builtin_sub_overflow(last->min_id, first->min_id, &mins))
        return true;
    int64_t factor = ids == -1 ? wrap_sub(0, mins) : mins / ids;
    if (factor == 0)
        return true;
    uint8_t head[UVARINT_BYTES_MAX];
    size_t head_len = uvarint_put(head, zigzag_encode(factor));
    for (size_t i = 0; i < body->count; i++)
        body->values[i] = wrap_sub(body->records[i].min_id, wrap_mul(factor, body->records[i].id));
    bool failed = false;
    if (rival_wins(body, start, bytes_of(head, head_len), &failed))
        body->layout |= MIN_BY_ID;
    return !failed;
}

/* ---- times ---- */

static bool durations_add(struct body *body)
{
    for (size_t i = 0; i < body->count; i++) {
        int64_t ms = body->records[i].duration_ms;
        body->durations[i] = ms < 0 ? PART_DURATION_NONE : ms / (int64_t)body->unit_ms;
    }
    return column_encode(body->durations, body->count, body->to);
}

static int64_t start_of(const struct body *body, size_t i)
{
    return wrap_sub(body->records[i].updated_s,
                    part__duration_s(body->durations[i], body->unit_ms));
}

/* body->values become the gaps between a worker's records; the column of firsts is written. */
static bool gaps_fill(struct body *body, size_t blocks, struct buf *firsts)
{
    size_t worker_count = body->frame->worker_count, first_count = blocks * worker_count;
    CLEANUP(memory_free) int64_t *first = mem_alloc(first_count * sizeof *first);
    CLEANUP(memory_free) int64_t *last = mem_alloc(worker_count * sizeof *last);
    CLEANUP(memory_free) size_t *seen = mem_zalloc(worker_count * sizeof *seen); /* block + 1 */
    for (size_t i = 0; i < body->count; i++) {
        size_t block = i / PART_WORKER_BLOCK;
        size_t worker = (size_t)worker_index(body->frame, body->records[i].worker);
        int64_t start = wrap_sub(start_of(body, i), body->frame->base_s);
        if (i % PART_WORKER_BLOCK == 0) /* for those that have no record in this block */
            for (size_t w = 0; w < worker_count; w++)
                first[block * worker_count + w] = start;
        body->values[i] = 0;
        if (seen[worker] == block + 1)
            body->values[i] = wrap_sub(start, last[worker]);
        else
            first[block * worker_count + worker] = start;
        seen[worker] = block + 1;
        last[worker] = wrap_sub(body->records[i].updated_s, body->frame->base_s);
    }
    return column_encode(first, first_count, firsts);
}

static bool updated_add(struct body *body)
{
    size_t start = body->to->len;
    bool failed = false;
    if (!field_add(body, FIELD_UPDATED))
        return false;
    enum updated_mode mode = UPDATED_SELF;
    for (size_t i = 0; i < body->count; i++)
        body->values[i] = wrap_sub(start_of(body, i), body->frame->base_s);
    if (rival_wins(body, start, BYTES(""), &failed))
        mode = UPDATED_FROM_START;
    CLEANUP(buf_done) struct buf firsts;
    buf_init(&firsts, PART_FRAME_BYTES_MAX);
    size_t blocks = (body->count + PART_WORKER_BLOCK - 1) / PART_WORKER_BLOCK;
    if (!failed && blocks * body->frame->worker_count <= body->count / 2) {
        failed = !gaps_fill(body, blocks, &firsts);
        if (!failed && rival_wins(body, start, buf_bytes(&firsts), &failed))
            mode = UPDATED_BY_WORKER;
    }
    body->layout |= (unsigned)mode << LAYOUT_UPDATED_SHIFT;
    return !failed;
}

static bool created_add(struct body *body)
{
    size_t start = body->to->len;
    enum created_mode mode = CREATED_SELF;
    bool failed = false;
    if (!field_add(body, FIELD_CREATED))
        return false;
    for (size_t i = 0; i < body->count; i++)
        body->values[i] = wrap_sub(body->records[i].created_s, body->records[i].updated_s);
    if (rival_wins(body, start, BYTES(""), &failed))
        mode = CREATED_FROM_UPDATED;
    for (size_t i = 0; i < body->count; i++)
        body->values[i] = wrap_sub(body->records[i].created_s, start_of(body, i));
    if (!failed && rival_wins(body, start, BYTES(""), &failed))
        mode = CREATED_FROM_START;
    body->layout |= (unsigned)mode << LAYOUT_CREATED_SHIFT;
    return !failed;
}

/* ---- texts ---- */

static struct bytes text_at(const struct body *body, size_t index)
{
    size_t start = index ? (size_t)body->text_end[index - 1] : 0;
    return bytes_of(body->text.ptr + start, (size_t)body->text_end[index] - start);
}

/* 1 + index of a text in the table, which gets it if it is new; -1: no room. */
static int64_t text_code(struct body *body, struct bytes text)
{
    if (text.len == 0)
        return 0;
    size_t at = crc32c(0, text.ptr, text.len);
    for (;; at++) {
        uint32_t *slot = &body->slot[at & (body->slot_count - 1)];
        if (*slot && bytes_eq(text_at(body, *slot - 1), text))
            return *slot;
        if (*slot)
            continue;
        if (!buf_add_bytes(&body->text, text))
            return -1;
        body->text_end[body->text_count] = (int64_t)body->text.len;
        *slot = (uint32_t)++body->text_count;
        return *slot;
    }
}

static bool texts_add(struct body *body)
{
    size_t used = 0;
    for (size_t i = 0; i < body->count; i++)
        used += (body->records[i].error.len > 0) + (body->records[i].options.len > 0);
    body->slot_count = 1;
    while (body->slot_count < 2 * used)
        body->slot_count *= 2;
    body->slot = mem_zalloc(body->slot_count * sizeof *body->slot);
    body->text_end = mem_alloc(used * sizeof *body->text_end);
    for (int options = 0; options < 2; options++) {
        for (size_t i = 0; i < body->count; i++) {
            const struct part_record *record = &body->records[i];
            body->values[i] = text_code(body, options ? record->options : record->error);
            if (body->values[i] < 0)
                return false;
        }
        if (!column_encode(body->values, body->count, body->to))
            return false;
    }
    return buf_add_uvarint(body->to, body->text_count) &&
           (body->text_count == 0 || column_encode(body->text_end, body->text_count, body->to));
}

/* ---- the body ---- */

static bool columns_add(struct body *body)
{
    size_t layout_at = body->to->len;
    if (!buf_add(body->to, "", 1) || !buf_add_uvarint(body->to, body->unit_ms) ||
        !field_add(body, FIELD_ID))
        return false;
    size_t span_start = body->to->len;
    if (!field_add(body, FIELD_SPAN) || !min_add(body, span_start) ||
        !field_add(body, FIELD_WORKER) || !field_add(body, FIELD_STATUS) || !durations_add(body) ||
        !updated_add(body) || !created_add(body) || !field_add(body, FIELD_VERSION) ||
        !field_add(body, FIELD_FENCE) || !field_add(body, FIELD_ATTEMPTS) || !texts_add(body))
        return false;
    body->to->ptr[layout_at] = (uint8_t)body->layout;
    return true;
}

/* Compressed texts cost a decompression at the first look, so a little shorter is not enough. */
static enum rc texts_squeeze(struct body *body, struct frame *frame, enum part_algorithm wished,
                             struct err *err)
{
    size_t start = body->to->len, raw_len = body->text.len;
    if (raw_len < TEXT_SQUEEZE_BYTES_MIN)
        wished = PART_NONE;
    enum rc rc = squeeze_best(wished, buf_bytes(&body->text), body->to, &frame->algorithm, err);
    if (rc != RC_OK || frame->algorithm == PART_NONE ||
        body->to->len - start <= raw_len - raw_len / TEXT_SQUEEZE_GAIN)
        return rc;
    buf_cut(body->to, start);
    frame->algorithm = PART_NONE;
    return squeeze(PART_NONE, buf_bytes(&body->text), body->to, err);
}

enum rc part__columns_encode(const struct part_record *records, struct frame *frame,
                             uint32_t unit_ms, enum part_algorithm wished, struct buf *to,
                             struct err *err)
{
    size_t start = to->len;
    CLEANUP(body_done)
    struct body body = {
        .records = records, .frame = frame, .count = frame->count, .unit_ms = unit_ms, .to = to};
    buf_init(&body.text, PART_FRAME_BYTES_MAX);
    body.values = mem_alloc(frame->count * sizeof *body.values);
    body.durations = mem_alloc(frame->count * sizeof *body.durations);
    if (!columns_add(&body))
        return err_set(err, RC_TOO_BIG, "%zu partitions need more than the %d bytes of a batch",
                       frame->count, PART_FRAME_BYTES_MAX);
    frame->raw_len = to->len - start + body.text.len;
    if (frame->raw_len > PART_FRAME_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "texts of %zu bytes are over the limit of a batch, %d",
                       body.text.len, PART_FRAME_BYTES_MAX);
    return texts_squeeze(&body, frame, wished, err);
}

// SPDX-License-Identifier: Apache-2.0
/* archive_encode.c - records into a frame: what both formats share, and the rows of Format 1. */
#include <stdlib.h>

#include "base/codec.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive_int.h"
#include "models/partition/rows.h"

#include "base/banned.h"

enum { DURATION_UNIT_MS = 1000 };

static void memory_free(void *pointer)
{
    mem_free(*(void **)pointer);
}

static enum rc records_check(const struct part_record *records, size_t count,
                             const struct part_encode_options *options, struct err *err)
{
    if (count == 0)
        return err_set(err, RC_INVALID, "a batch of no partitions");
    if (count > PART_BATCH_RECORDS_MAX)
        return err_set(err, RC_TOO_BIG, "%zu partitions are over the limit of a batch, %d", count,
                       PART_BATCH_RECORDS_MAX);
    if (options->format > PART_FORMAT_COLUMNS || !part_algorithm_name(options->algorithm))
        return err_set(err, RC_INVALID, "unknown format %d or algorithm %d", (int)options->format,
                       (int)options->algorithm);
    for (size_t i = 0; i < count; i++) {
        if (records[i].status >= PART_STATUS_COUNT)
            return err_set(err, RC_INVALID, "partition %lld has status %u",
                           (long long)records[i].id, records[i].status);
        if (records[i].duration_ms < PART_DURATION_NONE)
            return err_set(err, RC_INVALID, "partition %lld has a duration of %lld ms",
                           (long long)records[i].id, (long long)records[i].duration_ms);
    }
    return RC_OK;
}

static int worker_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Base, ids, workers and order; the caller frees the frame. */
static void frame_fill(struct frame *frame, const struct part_record *records, size_t count)
{
    *frame = (struct frame){.count = count,
                            .base_s = records[0].updated_s,
                            .id_min = records[0].id,
                            .id_max = records[0].id,
                            .flags = FRAME_ASCENDING};
    frame->worker = mem_alloc(count * sizeof *frame->worker);
    for (size_t i = 0; i < count; i++) {
        const struct part_record *record = &records[i];
        if (record->updated_s < frame->base_s)
            frame->base_s = record->updated_s;
        if (record->created_s < frame->base_s)
            frame->base_s = record->created_s;
        if (record->id < frame->id_min)
            frame->id_min = record->id;
        if (record->id > frame->id_max)
            frame->id_max = record->id;
        if (i > 0 && record->id <= records[i - 1].id)
            frame->flags &= ~(unsigned)FRAME_ASCENDING;
        frame->worker[i] = record->worker;
    }
    qsort(frame->worker, count, sizeof *frame->worker, worker_compare);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || frame->worker[i] != frame->worker[i - 1])
            frame->worker[frame->worker_count++] = frame->worker[i];
}

static enum rc names_add(const struct frame *frame, const struct part_encode_options *options,
                         struct buf *to, struct err *err)
{
    for (size_t i = 0; i < frame->worker_count; i++) {
        struct bytes name = BYTES("");
        for (size_t n = 0; n < options->name_count; n++)
            if (options->name[n].worker == frame->worker[i])
                name = options->name[n].name;
        if (name.len > PART_WORKER_NAME_BYTES_MAX)
            return err_set(err, RC_TOO_BIG, "the name of worker %u has %zu bytes", frame->worker[i],
                           name.len);
        if (!buf_add_uvarint(to, name.len) || !buf_add_bytes(to, name))
            return err_set(err, RC_TOO_BIG, "the names of %zu workers are over the limit",
                           frame->worker_count);
    }
    return RC_OK;
}

static enum rc frame_write(struct frame *frame, struct bytes payload, struct buf *to,
                           struct err *err)
{
    size_t start = to->len;
    bool written = frame_begin(frame, to) && buf_add_bytes(to, payload);
    if (written && to->len - start <= PART_FRAME_BYTES_MAX) {
        frame_end(to->ptr + start, to->len - start);
        return RC_OK;
    }
    buf_cut(to, start);
    return err_set(err, RC_TOO_BIG, "a batch of %zu partitions does not fit the limit of %d bytes",
                   frame->count, PART_FRAME_BYTES_MAX);
}

/* ---- rows ---- */

static enum part_rows rows_choose(const struct part_record *records, const struct frame *frame)
{
    for (size_t i = 0; i < frame->count; i++)
        if (records[i].created_s != records[i].updated_s &&
            !rows_misfit(&records[i], PART_ROWS_29, frame->base_s) &&
            !rows_lost(&records[i], PART_ROWS_29))
            return PART_ROWS_29;
    return PART_ROWS_25;
}

/* With FRAME_WIDE the unpacked payload is: v length of the rows, rows, v count of the others,
 * column of their positions, a whole frame of Format 2 with them. */
static enum rc wide_add(const struct part_record *records, size_t wide_count,
                        const int64_t *positions, const struct part_encode_options *options,
                        struct buf *raw, struct err *err)
{
    CLEANUP(memory_free) struct part_record *wide = mem_alloc(wide_count * sizeof *wide);
    for (size_t i = 0; i < wide_count; i++)
        wide[i] = records[positions[i]];
    const struct part_encode_options columns = {.format = PART_FORMAT_COLUMNS,
                                                .algorithm = PART_NONE,
                                                .duration_unit_ms = options->duration_unit_ms};
    if (!buf_add_uvarint(raw, wide_count) || !column_encode(positions, wide_count, raw))
        return err_set(err, RC_TOO_BIG, "a batch of rows is over its limit");
    return part_batch_encode(wide, wide_count, &columns, raw, err);
}

enum rc part__rows_encode(const struct part_record *records, struct frame *frame,
                          const struct part_encode_options *options, struct buf *to,
                          struct err *err)
{
    enum part_rows form = rows_choose(records, frame);
    size_t wide_count = 0;
    CLEANUP(buf_done) struct buf raw, rows;
    buf_init(&raw, PART_FRAME_BYTES_MAX);
    buf_init(&rows, PART_FRAME_BYTES_MAX);
    CLEANUP(memory_free) int64_t *positions = mem_alloc(frame->count * sizeof *positions);

    frame->flags |= form == PART_ROWS_29 ? FRAME_CREATED : 0U;
    for (size_t i = 0; i < frame->count; i++) {
        if (rows_misfit(&records[i], form, frame->base_s) || rows_lost(&records[i], form))
            positions[wide_count++] = (int64_t)i;
        else if (!rows_add(&records[i], form, frame->base_s, &rows))
            return err_set(err, RC_TOO_BIG, "a batch of rows is over its limit");
    }
    if (wide_count) {
        frame->flags |= FRAME_WIDE;
        if (!buf_add_uvarint(&raw, rows.len))
            return err_set(err, RC_TOO_BIG, "a batch of rows is over its limit");
    }
    if (!buf_add_bytes(&raw, buf_bytes(&rows)))
        return err_set(err, RC_TOO_BIG, "a batch of rows is over its limit");
    enum rc rc = RC_OK;
    if (wide_count)
        rc = wide_add(records, wide_count, positions, options, &raw, err);
    if (rc != RC_OK)
        return rc;
    frame->raw_len = raw.len;
    return squeeze_best(options->algorithm, buf_bytes(&raw), to, &frame->algorithm, err);
}

enum rc part_batch_encode(const struct part_record *records, size_t count,
                          const struct part_encode_options *options, struct buf *to,
                          struct err *err)
{
    uint32_t unit_ms = options->duration_unit_ms ? options->duration_unit_ms : DURATION_UNIT_MS;
    CLEANUP(frame_done) struct frame frame = {0};
    CLEANUP(buf_done) struct buf payload, names;
    buf_init(&payload, (size_t)2 * PART_FRAME_BYTES_MAX);
    buf_init(&names, PART_FRAME_BYTES_MAX);

    enum rc rc = records_check(records, count, options, err);
    if (rc != RC_OK)
        return rc;
    frame_fill(&frame, records, count);
    frame.format = options->format == PART_FORMAT_ROWS ? FRAME_ROWS : FRAME_COLUMNS;
    if (options->names) {
        frame.flags |= FRAME_NAMES;
        rc = names_add(&frame, options, &names, err);
        frame.names = buf_bytes(&names);
    }
    if (rc == RC_OK && frame.format == FRAME_ROWS)
        rc = part__rows_encode(records, &frame, options, &payload, err);
    else if (rc == RC_OK)
        rc = part__columns_encode(records, &frame, unit_ms, options->algorithm, &payload, err);
    if (rc != RC_OK)
        return rc;
    return frame_write(&frame, buf_bytes(&payload), to, err);
}

// SPDX-License-Identifier: Apache-2.0
/* fuzz_partition.c - any bytes as a frame, as a JSON container, as rows and as records to pack.
 *
 * A frame is read as it is and again with a right checksum, so that the columns behind it are
 * reached. What opens and is verified is read whole, one by one and by filters, which must agree;
 * what was read is packed again and must come back. */
#include "base/codec.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive.h"
#include "models/partition/container.h"
#include "support/part_gen.h"

#include "base/banned.h"

enum { COUNT_MAX = 2048, PAGE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repack_check(const struct part_record *records, size_t count, enum part_format format)
{
    const struct part_encode_options options = {
        .format = format, .algorithm = PART_LZ4, .duration_unit_ms = 1};
    struct part_batch *batch;
    struct part_record *back;
    struct arena arena;
    struct buf frame;
    struct err err = {0};
    arena_init(&arena);
    buf_init(&frame, PART_FRAME_BYTES_MAX);
    enum rc rc = part_batch_encode(records, count, &options, &frame, &err);
    ASSERT(rc == RC_OK);
    rc = part_batch_open(buf_bytes(&frame), &batch, &err);
    ASSERT(rc == RC_OK);
    rc = part_batch_decode(batch, &arena, &back, &err);
    ASSERT(rc == RC_OK);
    for (size_t i = 0; i < count; i++)
        ASSERT(part_gen_same(&records[i], &back[i]));
    part_batch_close(batch);
    buf_done(&frame);
    arena_done(&arena);
}

static void scan_check(struct part_batch *batch, const struct part_record *all, size_t count)
{
    const struct part_record *one = &all[count / 2];
    const struct part_filter filter = {
        .has_worker = true,
        .worker = one->worker,
        .has_updated = true,
        .updated_min_s = one->updated_s < 0 ? INT64_MIN : 0,
        .updated_max_s = one->updated_s,
    };
    uint32_t positions[PAGE];
    size_t position = 0, next = 0;
    while (position < count) {
        size_t found = part_batch_scan(batch, &filter, &position, positions, PAGE);
        for (size_t i = 0; i <= found; i++) {
            size_t end = i < found ? positions[i] : position;
            for (; next < end; next++)
                ASSERT(all[next].worker != filter.worker ||
                       all[next].updated_s < filter.updated_min_s ||
                       all[next].updated_s > filter.updated_max_s);
            if (i < found)
                next++;
        }
    }
}

/* Some records at once, whatever the columns say; those of a sound batch are the right ones. */
static void some_check(struct part_batch *batch, const struct part_record *all, size_t count,
                       bool sound)
{
    uint32_t positions[PAGE];
    struct part_record some[PAGE];
    struct err err = {0};
    for (size_t step = 1; step < count + 2; step = step * 3 + 1) {
        size_t found = 0;
        for (size_t at = step / 2; at < count && found < PAGE; at += step)
            positions[found++] = (uint32_t)at;
        enum rc rc = part_batch_read(batch, positions, found, some, &err);
        ASSERT(rc == RC_OK || !sound);
        for (size_t i = 0; i < found && sound; i++)
            ASSERT(part_gen_same(&some[i], &all[positions[i]]));
    }
}

static void frame_check(struct bytes bytes)
{
    struct part_batch *batch;
    struct part_record *all, one;
    struct arena arena;
    struct err err = {0};
    size_t position;
    if (part_batch_open(bytes, &batch, &err) != RC_OK) {
        ASSERT(err.text[0] != 0);
        return;
    }
    size_t count = part_batch_info(batch).count;
    arena_init(&arena);
    bool decoded = count <= COUNT_MAX && part_batch_decode(batch, &arena, &all, &err) == RC_OK;
    if (decoded) {
        (void)part_batch_find(batch, all[0].id, &position);
        some_check(batch, all, count, false);
    }
    if (decoded && part_batch_verify(batch, &err) == RC_OK) {
        some_check(batch, all, count, true);
        for (size_t i = 0; i < count; i++) {
            enum rc rc = part_batch_get(batch, i, &one, &err);
            ASSERT(rc == RC_OK);
            ASSERT(part_gen_same(&one, &all[i]));
        }
        scan_check(batch, all, count);
        repack_check(all, count, PART_FORMAT_COLUMNS);
        repack_check(all, count, PART_FORMAT_ROWS);
    }
    part_batch_close(batch);
    arena_done(&arena);
}

static void container_check(struct bytes bytes)
{
    struct part_record *records;
    struct arena arena;
    struct err err = {0};
    size_t count;
    arena_init(&arena);
    if (part_container_read(bytes, &arena, &records, &count, &err) == RC_OK && count <= COUNT_MAX)
        repack_check(records, count, PART_FORMAT_COLUMNS);
    arena_done(&arena);
}

/* The bytes choose every number of a few records. */
static void records_check(struct bytes bytes)
{
    struct part_record records[32] = {0};
    enum { BYTES_EACH = 40 };
    size_t count = bytes.len / BYTES_EACH;
    if (count > ARRAY_LEN(records))
        count = ARRAY_LEN(records);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = bytes.ptr + i * BYTES_EACH;
        int64_t number = (int64_t)le64_get(from), small = (int64_t)le16_get(from + 8);
        records[i] = (struct part_record){
            .id = from[10] & 1 ? number : small,
            .min_id = from[10] & 2 ? number : small * 1000,
            .max_id = from[10] & 4 ? (int64_t)le64_get(from + 12) : small * 1000 + 999,
            .worker = from[10] & 8 ? le32_get(from + 20) : from[11],
            .status = from[11] % PART_STATUS_COUNT,
            .updated_s = from[10] & 16 ? (int64_t)le64_get(from + 24) : from[25],
            .created_s = from[10] & 32 ? (int64_t)le64_get(from + 32) : from[26],
            .duration_ms = from[10] & 64 ? (int64_t)(le64_get(from + 28) >> 1) : PART_DURATION_NONE,
            .version = from[10] & 128 ? le64_get(from + 16) : 0,
            .error = bytes_of(from, from[27] % BYTES_EACH),
        };
    }
    if (count > 0) {
        repack_check(records, count, PART_FORMAT_COLUMNS);
        repack_check(records, count, PART_FORMAT_ROWS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    frame_check(bytes_of(data, size));
    container_check(bytes_of(data, size));
    records_check(bytes_of(data, size));
    if (size > 8) {
        uint8_t *copy = mem_dup(data, size);
        le32_put(copy + 4, crc32c(crc32c(0, copy, 4), copy + 8, size - 8));
        frame_check(bytes_of(copy, size));
        mem_free(copy);
    }
    return 0;
}

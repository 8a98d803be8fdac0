// SPDX-License-Identifier: Apache-2.0
/* frame.c - the head of a frame: written, parsed, checked. */
#include "models/partition/frame.h"

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"

#include "base/banned.h"

enum { FRAME_MAGIC_LEN = 2, FRAME_ALGORITHM_MASK = 7 };

static uint32_t frame_crc(const uint8_t *frame, size_t len)
{
    uint32_t crc = crc32c(0, frame, 4);
    return crc32c(crc, frame + FRAME_HEAD_BYTES, len - FRAME_HEAD_BYTES);
}

static bool workers_add(const struct frame *frame, struct buf *to)
{
    size_t run_count = 0;
    for (size_t i = 0; i < frame->worker_count; i++)
        run_count += i == 0 || frame->worker[i] != frame->worker[i - 1] + 1;
    if (!buf_add_uvarint(to, run_count))
        return false;
    uint64_t next = 0; /* the lowest number the run can begin with */
    for (size_t i = 0; i < frame->worker_count;) {
        size_t start = i++;
        while (i < frame->worker_count && frame->worker[i] == frame->worker[i - 1] + 1)
            i++;
        if (!buf_add_uvarint(to, frame->worker[start] - next) ||
            !buf_add_uvarint(to, i - start - 1))
            return false;
        next = (uint64_t)frame->worker[i - 1] + 2;
    }
    return true;
}

bool frame_begin(const struct frame *frame, struct buf *to)
{
    uint8_t head[FRAME_HEAD_BYTES] = {'T', 'P', (uint8_t)frame->format,
                                      (uint8_t)(frame->algorithm | frame->flags)};
    return buf_add(to, head, sizeof head) && buf_add_uvarint(to, zigzag_encode(frame->base_s)) &&
           buf_add_uvarint(to, frame->count) && buf_add_uvarint(to, zigzag_encode(frame->id_min)) &&
           buf_add_uvarint(to, (uint64_t)frame->id_max - (uint64_t)frame->id_min) &&
           workers_add(frame, to) && buf_add_uvarint(to, frame->raw_len) &&
           buf_add_bytes(to, frame->names);
}

void frame_end(uint8_t *frame, size_t len)
{
    le32_put(frame + 4, frame_crc(frame, len));
}

static enum rc damaged(const char *what, struct err *err)
{
    return err_set(err, RC_CORRUPT, "damaged partition batch: %s", what);
}

static enum rc workers_parse(struct frame *frame, const uint8_t **from, const uint8_t *end,
                             struct err *err)
{
    uint64_t run_count, gap, more, next = 0;
    if (!uvarint_get(from, end, &run_count) || run_count == 0 || run_count > frame->count)
        return damaged("count of workers", err);
    frame->worker = mem_try_alloc(frame->count * sizeof *frame->worker);
    if (!frame->worker)
        return err_set(err, RC_NOMEM, "could not allocate a list of %zu workers", frame->count);
    for (; run_count > 0; run_count--) {
        if (!uvarint_get(from, end, &gap) || !uvarint_get(from, end, &more) || gap > UINT32_MAX ||
            more >= frame->count - frame->worker_count || next + gap + more > UINT32_MAX)
            return damaged("list of workers", err);
        for (uint64_t i = 0; i <= more; i++)
            frame->worker[frame->worker_count++] = (uint32_t)(next + gap + i);
        next += gap + more + 2;
        if (run_count > 1 && frame->worker_count == frame->count)
            return damaged("list of workers", err);
    }
    return RC_OK;
}

static enum rc names_parse(struct frame *frame, const uint8_t **from, const uint8_t *end,
                           struct err *err)
{
    const uint8_t *start = *from;
    if (!(frame->flags & FRAME_NAMES))
        return RC_OK;
    for (size_t i = 0; i < frame->worker_count; i++) {
        uint64_t len;
        if (!uvarint_get(from, end, &len) || len > PART_WORKER_NAME_BYTES_MAX ||
            len > (size_t)(end - *from))
            return damaged("names of workers", err);
        *from += len;
    }
    frame->names = bytes_of(start, (size_t)(*from - start));
    return RC_OK;
}

static enum rc fields_parse(struct frame *frame, struct bytes bytes, struct err *err)
{
    const uint8_t *from = bytes.ptr + FRAME_HEAD_BYTES, *end = bytes.ptr + bytes.len;
    uint64_t base, count, id_min, id_span, raw_len;
    if (!uvarint_get(&from, end, &base) || !uvarint_get(&from, end, &count))
        return damaged("header", err);
    if (count == 0 || count > PART_BATCH_RECORDS_MAX)
        return damaged("count of records", err);
    if (!uvarint_get(&from, end, &id_min) || !uvarint_get(&from, end, &id_span))
        return damaged("header", err);
    frame->base_s = zigzag_decode(base);
    frame->count = (size_t)count;
    frame->id_min = zigzag_decode(id_min);
    frame->id_max = (int64_t)((uint64_t)frame->id_min + id_span);
    if (frame->id_max < frame->id_min)
        return damaged("highest id", err);
    enum rc rc = workers_parse(frame, &from, end, err);
    if (rc != RC_OK)
        return rc;
    if (!uvarint_get(&from, end, &raw_len) || raw_len > PART_FRAME_BYTES_MAX)
        return damaged("unpacked length", err);
    frame->raw_len = (size_t)raw_len;
    rc = names_parse(frame, &from, end, err);
    frame->payload = bytes_of(from, (size_t)(end - from));
    return rc;
}

static enum rc head_parse(struct frame *frame, struct bytes bytes, struct err *err)
{
    if (bytes.len < FRAME_HEAD_BYTES || memcmp(bytes.ptr, "TP", FRAME_MAGIC_LEN) != 0)
        return damaged("it does not begin as one", err);
    if (bytes.len > PART_FRAME_BYTES_MAX)
        return damaged("longer than any", err);
    unsigned format = bytes.ptr[2], algorithm = bytes.ptr[3] & FRAME_ALGORITHM_MASK;
    unsigned flags = bytes.ptr[3] & ~(unsigned)FRAME_ALGORITHM_MASK;
    unsigned known = FRAME_NAMES | FRAME_ASCENDING;
    if (format == FRAME_ROWS)
        known |= FRAME_CREATED | FRAME_WIDE;
    if (format != FRAME_ROWS && format != FRAME_COLUMNS)
        return err_set(err, RC_VERSION, "a partition batch has format %u, known are 1 and 2",
                       format);
    if (flags & ~known)
        return err_set(err, RC_VERSION, "a partition batch has unknown flags %02x", flags & ~known);
    if (algorithm > PART_ZSTD)
        return err_set(err, RC_VERSION, "a partition batch has unknown algorithm %u", algorithm);
    if (frame_crc(bytes.ptr, bytes.len) != le32_get(bytes.ptr + 4))
        return damaged("its checksum is wrong", err);
    *frame = (struct frame){.format = (enum frame_format)format,
                            .algorithm = (enum part_algorithm)algorithm,
                            .flags = flags};
    return RC_OK;
}

enum rc frame_parse(struct bytes bytes, struct frame *ret_frame, struct err *err)
{
    struct frame frame = {0};
    enum rc rc = head_parse(&frame, bytes, err);
    if (rc == RC_OK)
        rc = fields_parse(&frame, bytes, err);
    if (rc == RC_OK)
        *ret_frame = frame;
    else
        frame_done(&frame);
    return rc;
}

void frame_done(struct frame *frame)
{
    if (!frame)
        return;
    mem_free(frame->worker);
    *frame = (struct frame){0};
}

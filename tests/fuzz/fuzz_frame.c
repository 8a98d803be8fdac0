// SPDX-License-Identifier: Apache-2.0
/* fuzz_frame.c - a segment file of hostile bytes: header, frames, records.
 *
 * Every turn that comes out is checked again against the input with the drawing in segment.h, so a
 * reader that gives out a frame with a wrong checksum is found, not only one that crashes. */
#include "base/codec.h"
#include "base/crc32c.h"
#include "base/file_sim.h"
#include "store/journal/record.h"
#include "store/journal/segment.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The frames of a turn, read once more from the input. */
static void turn_check(struct bytes input, const struct segment_turn *turn, uint32_t salt)
{
    size_t at = (size_t)turn->offset;
    size_t body_at = 0;
    bool more = true;

    while (more) {
        ASSERT(at + FRAME_HEADER_BYTES <= input.len);
        const uint8_t *frame = input.ptr + at;
        size_t len = le32_get(frame + 4);
        ASSERT(memcmp(frame, FRAME_MAGIC, 4) == 0);
        ASSERT(le32_get(frame + 36) == crc32c(salt, frame, FRAME_HEADER_BYTES - 4));
        ASSERT(le64_get(frame + 8) == turn->first_lsn);
        ASSERT(le32_get(frame + 16) == turn->commit_count);
        ASSERT(len <= input.len - at - FRAME_HEADER_BYTES);
        ASSERT(le32_get(frame + 32) == crc32c(salt, frame + FRAME_HEADER_BYTES, len));
        ASSERT(len <= turn->body.len - body_at);
        ASSERT(memcmp(turn->body.ptr + body_at, frame + FRAME_HEADER_BYTES, len) == 0);
        body_at += len;
        at += FRAME_HEADER_BYTES + len;
        more = le32_get(frame + 20) & FRAME_MORE;
    }
    ASSERT(at == turn->end);
    ASSERT(body_at == turn->body.len);
}

static void records_read(struct bytes body)
{
    struct record_reader reader;
    struct record record;
    struct err err = {0};
    uint64_t sum = 0;

    record_reader_init(&reader, body);
    while (record_next_commit(&reader, &err) == RC_OK) {
        while (record_next(&reader, &record, &err) == RC_OK) {
            sum += crc32c(0, record.group.ptr, record.group.len);
            sum += crc32c(0, record.suffix.ptr, record.suffix.len);
            sum += crc32c(0, record.value.ptr, record.value.len);
        }
    }
    __asm__ volatile("" : : "r"(sum)); /* the bytes were read */
}

static void counters_read(struct bytes counters)
{
    struct err err = {0};
    struct bytes name;
    int64_t value;
    while (segment_counter_next(&counters, &name, &value, &err) == RC_OK)
        ASSERT(name.len <= STORE_COUNTER_NAME_BYTES_MAX);
}

static void segment_read(struct files *files, struct bytes input)
{
    struct segment_reader *reader = NULL;
    struct segment_turn turn;
    struct err err = {0};
    uint64_t last_lsn;
    enum rc rc;

    if (segment_open(files, "s.seg", &reader, &err) != RC_OK)
        return;
    last_lsn = segment_reader_header(reader)->last_lsn_before;
    counters_read(segment_reader_header(reader)->counters);
    while ((rc = segment_next(reader, &turn, &err)) == RC_OK) {
        ASSERT(turn.first_lsn > last_lsn);
        last_lsn = turn.first_lsn + turn.commit_count - 1;
        turn_check(input, &turn, segment_reader_header(reader)->salt);
        records_read(turn.body);
    }
    ASSERT(rc == RC_NOT_FOUND);
    ASSERT(segment_reader_end(reader) != SEGMENT_END_NONE);
    ASSERT(segment_reader_offset(reader) <= input.len);
    segment_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file_sim *sim = file_sim_new();
    struct file *file = NULL;
    struct err err = {0};

    enum rc rc = file_open(file_sim_files(sim), "s.seg", FILE_WRITE | FILE_CREATE, &file, &err);
    ASSERT(rc == RC_OK);
    rc = file_write(file, 0, bytes_of(data, size), &err);
    ASSERT(rc == RC_OK);
    file_close(file);
    segment_read(file_sim_files(sim), bytes_of(data, size));
    file_sim_free(sim);
    records_read(bytes_of(data, size)); /* also without a checksum in the way */
    return 0;
}

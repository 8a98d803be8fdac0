// SPDX-License-Identifier: Apache-2.0
#include "store/journal/segment.h"

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/file_sim.h"
#include "base/mem.h"
#include "test.h"

#include "base/banned.h"

enum { SALT = 0x1234567, HEADER_BYTES = 76 + 14, IMAGE_BYTES_MAX = 4 * 1024 * 1024 };

/* A segment in memory, and where its turns end. */
struct image {
    struct buf bytes;
    uint32_t salt;
    uint64_t lsn;
    uint64_t synced;
    size_t turn_end[64];
    size_t turn_count;
};

static void image_init(struct image *image, uint32_t salt)
{
    struct buf counters;
    struct segment_header header = {.format = SEGMENT_FORMAT, .salt = salt, .number = 5};

    *image = (struct image){.salt = salt, .lsn = 100};
    buf_init(&image->bytes, IMAGE_BYTES_MAX);
    buf_init(&counters, 1000);
    ASSERT_TRUE(segment_counter_add(&counters, BYTES("alpha"), -7));
    header.counters = buf_bytes(&counters);
    header.last_lsn_before = 99;
    ASSERT_TRUE(segment_header_add(&header, &image->bytes));
    ASSERT_EQ(image->bytes.len, HEADER_BYTES);
    buf_done(&counters);
}

static void image_frame(struct image *image, struct bytes body, uint32_t flags)
{
    uint8_t to[FRAME_HEADER_BYTES];
    uint32_t crc;
    struct frame_header frame = {
        .first_lsn = image->lsn, .commit_count = 2, .flags = flags, .synced_bytes = image->synced};
    frame_header_put(to, &frame, body, image->salt, &crc);
    ASSERT_TRUE(buf_add(&image->bytes, to, sizeof to));
    ASSERT_TRUE(buf_add_bytes(&image->bytes, body));
    if (flags & FRAME_MORE)
        return;
    image->lsn += 2;
    image->turn_end[image->turn_count++] = image->bytes.len;
}

static struct bytes turn_body(size_t index)
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    return bytes_of(text + index % 7, 8 + index % 20);
}

/* Turns of one frame, the third of three. */
static void image_make(struct image *image, size_t turn_count)
{
    image_init(image, SALT);
    for (size_t i = 0; i < turn_count; i++) {
        struct bytes body = turn_body(i);
        if (i == 2) {
            image_frame(image, bytes_of(body.ptr, 3), FRAME_MORE);
            image_frame(image, bytes_of(body.ptr + 3, 1), FRAME_MORE);
            image_frame(image, bytes_from(body, 4), 0);
        } else {
            image_frame(image, body, 0);
        }
    }
}

struct result {
    enum rc rc;
    enum segment_end end;
    size_t turn_count;
    uint64_t offset;
    uint64_t synced;
    uint32_t chain;
    uint64_t last_lsn;
};

/* Reads the bytes as a segment; every turn has to be the right one, at the right place. */
static struct result image_read(struct bytes bytes, const struct image *expected)
{
    struct file_sim *sim = file_sim_new();
    struct file *file = NULL;
    struct segment_reader *reader = NULL;
    struct segment_turn turn;
    struct err err = {0};
    struct result result = {0};

    ASSERT_OK(file_open(file_sim_files(sim), "s.seg", FILE_WRITE | FILE_CREATE, &file, &err), &err);
    ASSERT_OK(file_write(file, 0, bytes, &err), &err);
    file_close(file);
    result.rc = segment_open(file_sim_files(sim), "s.seg", &reader, &err);
    if (result.rc == RC_OK) {
        while ((result.rc = segment_next(reader, &turn, &err)) == RC_OK) {
            size_t i = result.turn_count++;
            ASSERT_LT(i, expected->turn_count);
            ASSERT_EQ(turn.first_lsn, 100 + 2 * i);
            ASSERT_EQ(turn.commit_count, 2);
            ASSERT_EQ(turn.end, expected->turn_end[i]);
            ASSERT_EQ(turn.offset, i ? expected->turn_end[i - 1] : HEADER_BYTES);
            ASSERT_BYTES(turn.body, turn_body(i));
        }
        result.end = segment_reader_end(reader);
        result.offset = segment_reader_offset(reader);
        result.synced = segment_reader_synced(reader);
        result.chain = segment_reader_chain(reader);
        result.last_lsn = segment_reader_last_lsn(reader);
        if (result.rc == RC_NOT_FOUND)
            ASSERT_RC(segment_next(reader, &turn, &err), RC_NOT_FOUND);
    }
    segment_close(reader);
    file_sim_free(sim);
    return result;
}

TEST(a_segment_reads_back_as_it_was_written)
{
    struct image image;
    image_make(&image, 6);
    struct result result = image_read(buf_bytes(&image.bytes), &image);
    ASSERT_RC(result.rc, RC_NOT_FOUND);
    ASSERT_EQ(result.end, SEGMENT_END_CLEAN);
    ASSERT_EQ(result.turn_count, 6);
    ASSERT_EQ(result.offset, image.bytes.len);
    ASSERT_EQ(result.last_lsn, 111);
    buf_done(&image.bytes);
}

TEST(the_header_comes_back_with_its_counters)
{
    struct file_sim *sim = file_sim_new();
    struct image image;
    struct file *file = NULL;
    struct segment_reader *reader = NULL;
    struct err err = {0};

    image_init(&image, SALT);
    ASSERT_OK(file_open(file_sim_files(sim), "s", FILE_WRITE | FILE_CREATE, &file, &err), &err);
    ASSERT_OK(file_write(file, 0, buf_bytes(&image.bytes), &err), &err);
    file_close(file);
    ASSERT_OK(segment_open(file_sim_files(sim), "s", &reader, &err), &err);
    const struct segment_header *header = segment_reader_header(reader);
    ASSERT_EQ(header->number, 5);
    ASSERT_EQ(header->salt, SALT);
    struct bytes counters = header->counters;
    struct bytes name;
    int64_t value;
    ASSERT_OK(segment_counter_next(&counters, &name, &value, &err), &err);
    ASSERT_BYTES(name, BYTES("alpha"));
    ASSERT_EQ(value, -7);
    ASSERT_RC(segment_counter_next(&counters, &name, &value, &err), RC_NOT_FOUND);
    counters = BYTES("\5alpha1234567");
    ASSERT_RC(segment_counter_next(&counters, &name, &value, &err), RC_CORRUPT);
    segment_close(reader);
    ASSERT_RC(segment_open(file_sim_files(sim), "missing", &reader, &err), RC_NOT_FOUND);
    buf_done(&image.bytes);
    file_sim_free(sim);
}

TEST(a_segment_cut_at_any_length_gives_the_turns_before)
{
    struct image image;
    image_make(&image, 6);
    for (size_t len = 0; len < image.bytes.len; len++) {
        size_t whole = 0;
        while (whole < image.turn_count && image.turn_end[whole] <= len)
            whole++;
        struct result result = image_read(bytes_of(image.bytes.ptr, len), &image);
        if (len < HEADER_BYTES) {
            ASSERT_RC(result.rc, RC_CORRUPT);
            continue;
        }
        ASSERT_RC(result.rc, RC_NOT_FOUND);
        ASSERT_EQ(result.turn_count, whole);
        ASSERT_EQ(result.offset, whole ? image.turn_end[whole - 1] : HEADER_BYTES);
        ASSERT_EQ(result.end, result.offset == len ? SEGMENT_END_CLEAN : SEGMENT_END_TORN);
    }
    buf_done(&image.bytes);
}

/* The frames after the fourth say that the first three were synced. */
static void image_make_synced(struct image *image)
{
    image_make(image, 4);
    image->synced = image->turn_end[2];
    image_frame(image, turn_body(4), 0);
    image_frame(image, turn_body(5), 0);
}

TEST(no_flipped_byte_gives_a_wrong_turn_and_synced_ones_are_damage)
{
    struct image image;
    image_make_synced(&image);
    for (size_t at = 0; at < image.bytes.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            image.bytes.ptr[at] ^= (uint8_t)(1 << bit);
            struct result result = image_read(buf_bytes(&image.bytes), &image);
            image.bytes.ptr[at] ^= (uint8_t)(1 << bit);
            if (at < HEADER_BYTES) {
                ASSERT_RC(result.rc, RC_CORRUPT);
                continue;
            }
            size_t whole = 0;
            while (image.turn_end[whole] <= at)
                whole++;
            ASSERT_RC(result.rc, RC_NOT_FOUND);
            ASSERT_EQ(result.turn_count, whole);
            ASSERT_EQ(result.end, at < image.synced ? SEGMENT_END_DAMAGED : SEGMENT_END_TORN);
        }
    }
    buf_done(&image.bytes);
}

TEST(a_cut_below_a_synced_mark_that_is_gone_is_a_torn_tail)
{
    struct image image;
    image_make_synced(&image);
    struct result result = image_read(bytes_of(image.bytes.ptr, image.turn_end[1] + 5), &image);
    ASSERT_EQ(result.end, SEGMENT_END_TORN);
    ASSERT_EQ(result.turn_count, 2);
    buf_done(&image.bytes);
}

TEST(zeros_after_the_last_frame_are_a_clean_end)
{
    struct image image;
    for (size_t zeros = 1; zeros < 3000000; zeros = zeros * 5 + 1) {
        image_make(&image, 4);
        uint8_t *tail = mem_zalloc(zeros);
        ASSERT_TRUE(buf_add(&image.bytes, tail, zeros));
        struct result result = image_read(buf_bytes(&image.bytes), &image);
        ASSERT_EQ(result.end, SEGMENT_END_CLEAN);
        ASSERT_EQ(result.turn_count, 4);
        ASSERT_EQ(result.offset, image.turn_end[3]);
        image.bytes.ptr[image.bytes.len - 1] = 1;
        result = image_read(buf_bytes(&image.bytes), &image);
        ASSERT_EQ(result.end, SEGMENT_END_TORN);
        ASSERT_EQ(result.offset, image.turn_end[3]);
        mem_free(tail);
        buf_done(&image.bytes);
    }
}

TEST(zeros_inside_a_turn_of_several_frames_are_a_torn_tail)
{
    struct image image;
    static const uint8_t zeros[500];
    image_make(&image, 2);
    image_frame(&image, BYTES("first part"), FRAME_MORE);
    ASSERT_TRUE(buf_add(&image.bytes, zeros, sizeof zeros));
    struct result result = image_read(buf_bytes(&image.bytes), &image);
    ASSERT_EQ(result.end, SEGMENT_END_TORN);
    ASSERT_EQ(result.offset, image.turn_end[1]);
    buf_done(&image.bytes);
}

/* Frames of another segment that claim a sync, in the value of a turn that is torn. */
TEST(journal_bytes_of_another_segment_in_a_value_do_not_count)
{
    struct image other, image;
    image_init(&other, SALT + 1);
    other.synced = 100000000;
    for (size_t i = 0; i < 30; i++)
        image_frame(&other, turn_body(i), 0);
    other.synced = HEADER_BYTES + 1;
    for (size_t i = 0; i < 30; i++)
        image_frame(&other, turn_body(i), 0);

    image_make(&image, 1);
    image_frame(&image, buf_bytes(&other.bytes), 0);
    image.bytes.ptr[image.turn_end[0] + FRAME_HEADER_BYTES] ^= 1;
    struct result result = image_read(buf_bytes(&image.bytes), &image);
    ASSERT_EQ(result.end, SEGMENT_END_TORN);
    ASSERT_EQ(result.turn_count, 1);
    ASSERT_EQ(result.synced, 0);
    buf_done(&image.bytes);
    buf_done(&other.bytes);
}

TEST(journal_bytes_of_the_same_segment_in_a_value_do_not_make_it_damage)
{
    struct image image, copy;
    image_make_synced(&image);
    image_make_synced(&copy);
    image_frame(&image, buf_bytes(&copy.bytes), 0);
    image.bytes.ptr[image.turn_end[5] + FRAME_HEADER_BYTES] ^= 1;
    struct result result = image_read(buf_bytes(&image.bytes), &image);
    ASSERT_EQ(result.end, SEGMENT_END_TORN);
    ASSERT_EQ(result.turn_count, 6);
    buf_done(&image.bytes);
    buf_done(&copy.bytes);
}

TEST(a_frame_whose_lsn_does_not_grow_ends_the_segment)
{
    struct image image;
    image_make(&image, 2);
    image.lsn--;
    image_frame(&image, turn_body(2), 0);
    struct result result = image_read(buf_bytes(&image.bytes), &image);
    ASSERT_EQ(result.turn_count, 2);
    ASSERT_EQ(result.end, SEGMENT_END_TORN);
    buf_done(&image.bytes);
}

static void header_rewrite_u32(struct image *image, size_t at, uint32_t value)
{
    le32_put(image->bytes.ptr + at, value);
    le32_put(image->bytes.ptr + HEADER_BYTES - 4, crc32c(0, image->bytes.ptr, HEADER_BYTES - 4));
}

TEST(an_unknown_format_or_feature_is_refused)
{
    struct image image;
    image_make(&image, 2);
    header_rewrite_u32(&image, 8, 2);
    ASSERT_RC(image_read(buf_bytes(&image.bytes), &image).rc, RC_VERSION);
    header_rewrite_u32(&image, 8, 1);
    header_rewrite_u32(&image, 12, 1);
    ASSERT_RC(image_read(buf_bytes(&image.bytes), &image).rc, RC_VERSION);
    header_rewrite_u32(&image, 12, 0);
    ASSERT_EQ(image_read(buf_bytes(&image.bytes), &image).turn_count, 2);
    buf_done(&image.bytes);
}

TEST(a_lost_frame_changes_the_chain)
{
    struct image image;
    image_make(&image, 3);
    struct result two = image_read(bytes_of(image.bytes.ptr, image.turn_end[1]), &image);
    struct result three = image_read(buf_bytes(&image.bytes), &image);
    ASSERT_NE(two.chain, three.chain);
    buf_done(&image.bytes);
}

TEST(frames_larger_than_the_window_are_read)
{
    struct file_sim *sim = file_sim_new();
    struct image image;
    struct file *file = NULL;
    struct segment_reader *reader = NULL;
    struct segment_turn turn;
    struct err err = {0};
    size_t len = 1500000;
    uint8_t *body = mem_zalloc(len);

    image_init(&image, SALT);
    for (int i = 0; i < 2; i++) {
        memset(body, 'a' + i, len);
        image_frame(&image, bytes_of(body, len - (size_t)i), 0);
    }
    ASSERT_OK(file_open(file_sim_files(sim), "s", FILE_WRITE | FILE_CREATE, &file, &err), &err);
    ASSERT_OK(file_write(file, 0, buf_bytes(&image.bytes), &err), &err);
    file_close(file);
    ASSERT_OK(segment_open(file_sim_files(sim), "s", &reader, &err), &err);
    for (int i = 0; i < 2; i++) {
        memset(body, 'a' + i, len);
        ASSERT_OK(segment_next(reader, &turn, &err), &err);
        ASSERT_BYTES(turn.body, bytes_of(body, len - (size_t)i));
    }
    ASSERT_RC(segment_next(reader, &turn, &err), RC_NOT_FOUND);
    segment_close(reader);
    mem_free(body);
    buf_done(&image.bytes);
    file_sim_free(sim);
}

TEST(names_are_parsed_strictly)
{
    uint64_t number = 0;
    char path[PATH_BYTES_MAX];
    segment_path(path, "dir", 0xabc);
    ASSERT_STR(path, "dir/0000000000000abc.seg");
    ASSERT_RC(segment_name_parse("0000000000000abc.seg", &number), RC_OK);
    ASSERT_EQ(number, 0xabc);
    ASSERT_RC(segment_name_parse("0000000000000ABC.seg", &number), RC_INVALID);
    ASSERT_RC(segment_name_parse("0000000000000abc.seg.new", &number), RC_INVALID);
    ASSERT_RC(segment_name_parse("abc.seg", &number), RC_INVALID);
    ASSERT_RC(segment_name_parse("", &number), RC_INVALID);
}

// SPDX-License-Identifier: Apache-2.0
/* test_damage.c - a frame that is not as it was written gives an error, never another record. */
#include "base/codec.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive.h"
#include "support/part_gen.h"
#include "test.h"

#include "base/banned.h"

struct fix {
    struct part_record records[600];
    size_t count;
    struct part_gen gen;
    struct buf frame;
};

static void fix_init(struct fix *fix, enum part_gen_kind kind, size_t count,
                     const struct part_encode_options *options)
{
    struct err err = {0};
    fix->count = count;
    part_gen_init(&fix->gen, kind, 3);
    part_gen_next(&fix->gen, fix->records, count);
    for (size_t i = 0; i < count; i++)
        if (fix->records[i].error.len > 100)
            fix->records[i].error.len = 100;
    for (size_t i = 0; i < count; i++)
        if (fix->records[i].options.len > 100)
            fix->records[i].options.len = 100;
    buf_init(&fix->frame, PART_FRAME_BYTES_MAX);
    ASSERT_OK(part_batch_encode(fix->records, count, options, &fix->frame, &err), &err);
}

static void fix_done(struct fix *fix)
{
    part_gen_done(&fix->gen);
    buf_done(&fix->frame);
}

/* Refused with a text; `bytes` is copied so that a sanitizer sees reads behind it. */
static void refused_check(const uint8_t *ptr, size_t len)
{
    struct part_batch *batch;
    struct err err = {0};
    uint8_t *copy = mem_dup(ptr, len);
    enum rc rc = part_batch_open(bytes_of(copy, len), &batch, &err);
    ASSERT_TRUE(rc == RC_CORRUPT || rc == RC_VERSION);
    ASSERT_TRUE(err.text[0] != 0);
    mem_free(copy);
}

static void damage_check(enum part_gen_kind kind, size_t count, enum part_format format,
                         enum part_algorithm algorithm, bool names)
{
    const struct part_encode_options options = {
        .format = format, .algorithm = algorithm, .names = names};
    struct fix fix;
    fix_init(&fix, kind, count, &options);
    for (size_t bit = 0; bit < fix.frame.len * 8; bit++) {
        fix.frame.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
        refused_check(fix.frame.ptr, fix.frame.len);
        fix.frame.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t len = 0; len < fix.frame.len; len++)
        refused_check(fix.frame.ptr, len);
    ASSERT_TRUE(buf_add(&fix.frame, "", 1));
    refused_check(fix.frame.ptr, fix.frame.len);
    fix_done(&fix);
}

TEST(every_flipped_bit_and_every_cut_is_seen)
{
    for (enum part_gen_kind kind = PART_GEN_REGULAR; kind <= PART_GEN_EXTREME; kind++) {
        for (int algorithm = PART_NONE; algorithm <= PART_ZSTD; algorithm++) {
            damage_check(kind, 1, PART_FORMAT_COLUMNS, (enum part_algorithm)algorithm, true);
            damage_check(kind, 30, PART_FORMAT_COLUMNS, (enum part_algorithm)algorithm, false);
            damage_check(kind, 30, PART_FORMAT_ROWS, (enum part_algorithm)algorithm, true);
        }
    }
}

/* With a right checksum over wrong bytes nothing may crash or run away; what is read may be
 * anything, but where a verification finds nothing, one record read alone is the one of the batch.
 */
static void forged_check(uint8_t *frame, size_t len)
{
    struct part_batch *batch;
    struct part_record *all, one;
    struct arena arena;
    struct err err = {0};
    uint32_t crc = crc32c(crc32c(0, frame, 4), frame + 8, len - 8);
    le32_put(frame + 4, crc);
    uint8_t *copy = mem_dup(frame, len);
    if (part_batch_open(bytes_of(copy, len), &batch, &err) == RC_OK) {
        size_t count = part_batch_info(batch).count;
        arena_init(&arena);
        if (part_batch_decode(batch, &arena, &all, &err) == RC_OK &&
            part_batch_verify(batch, &err) == RC_OK)
            for (size_t i = 0; i < count; i += 1 + count / 100) {
                ASSERT_OK(part_batch_get(batch, i, &one, &err), &err);
                ASSERT_TRUE(part_gen_same(&one, &all[i]));
            }
        part_batch_close(batch);
        arena_done(&arena);
    }
    mem_free(copy);
}

TEST(a_forged_checksum_does_not_crash_the_reader)
{
    for (enum part_gen_kind kind = PART_GEN_REGULAR; kind <= PART_GEN_EXTREME; kind++) {
        for (int format = PART_FORMAT_ROWS; format <= PART_FORMAT_COLUMNS; format++) {
            const struct part_encode_options options = {.format = (enum part_format)format};
            struct fix fix;
            fix_init(&fix, kind, 30, &options);
            for (size_t bit = 16; bit < fix.frame.len * 8; bit++) {
                if (bit / 32 == 1)
                    continue; /* the checksum itself */
                fix.frame.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                forged_check(fix.frame.ptr, fix.frame.len);
                fix.frame.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
            for (size_t len = 9; len < fix.frame.len; len++) {
                uint8_t *cut = mem_dup(fix.frame.ptr, len);
                forged_check(cut, len);
                mem_free(cut);
            }
            fix_done(&fix);
        }
    }
}

/* Long enough for sync points. */
TEST(a_forged_checksum_of_a_long_batch_does_not_crash_the_reader)
{
    for (enum part_gen_kind kind = PART_GEN_REGULAR; kind <= PART_GEN_RANDOM; kind++) {
        const struct part_encode_options options = {0};
        struct fix fix;
        fix_init(&fix, kind, 600, &options);
        for (size_t bit = 64; bit < fix.frame.len * 8; bit += bit < 1024 ? 1 : 37) {
            fix.frame.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
            forged_check(fix.frame.ptr, fix.frame.len);
            fix.frame.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        fix_done(&fix);
    }
}

TEST(what_a_later_version_wrote_is_named_as_that)
{
    const struct part_encode_options options = {0};
    struct part_batch *batch;
    struct err err = {0};
    struct fix fix;
    fix_init(&fix, PART_GEN_REGULAR, 3, &options);
    fix.frame.ptr[2] = 3;
    ASSERT_RC(part_batch_open(buf_bytes(&fix.frame), &batch, &err), RC_VERSION);
    ASSERT_STR(err.text, "a partition batch has format 3, known are 1 and 2");
    fix.frame.ptr[2] = 2;
    fix.frame.ptr[3] |= 0x80;
    ASSERT_RC(part_batch_open(buf_bytes(&fix.frame), &batch, &err), RC_VERSION);
    ASSERT_STR(err.text, "a partition batch has unknown flags 80");
    fix.frame.ptr[3] = 4;
    ASSERT_RC(part_batch_open(buf_bytes(&fix.frame), &batch, &err), RC_VERSION);
    ASSERT_STR(err.text, "a partition batch has unknown algorithm 4");
    fix.frame.ptr[3] = 0;
    ASSERT_RC(part_batch_open(buf_bytes(&fix.frame), &batch, &err), RC_CORRUPT);
    ASSERT_STR(err.text, "damaged partition batch: its checksum is wrong");
    fix_done(&fix);
}

// SPDX-License-Identifier: Apache-2.0
#include "models/partition/archive.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/mem.h"
#include "support/part_gen.h"
#include "test.h"

#include "base/banned.h"

enum { COUNT_MAX = 65536, UNIT_MS = 1000 };

struct fix {
    struct part_gen gen;
    struct part_record *records;
    struct buf frame;
    struct part_batch *batch;
    struct err err;
};

static void fix_init(struct fix *fix, enum part_gen_kind kind)
{
    *fix = (struct fix){0};
    part_gen_init(&fix->gen, kind, 11);
    fix->records = mem_alloc(COUNT_MAX * sizeof *fix->records);
    buf_init(&fix->frame, PART_FRAME_BYTES_MAX);
}

static void fix_done(struct fix *fix)
{
    part_batch_close(fix->batch);
    part_gen_done(&fix->gen);
    mem_free(fix->records);
    buf_done(&fix->frame);
}

static void fix_open(struct fix *fix, size_t count, const struct part_encode_options *options)
{
    part_batch_close(fix->batch);
    fix->batch = NULL;
    buf_cut(&fix->frame, 0);
    ASSERT_OK(part_batch_encode(fix->records, count, options, &fix->frame, &fix->err), &fix->err);
    ASSERT_OK(part_batch_open(buf_bytes(&fix->frame), &fix->batch, &fix->err), &fix->err);
    ASSERT_EQ(part_batch_info(fix->batch).count, count);
}

/* All at once, and some one by one. */
static void fix_check(struct fix *fix, size_t count, const struct part_encode_options *options)
{
    struct part_record *back, one;
    struct arena arena;
    struct rand rand;
    int64_t unit_ms = options->duration_unit_ms ? options->duration_unit_ms : UNIT_MS;
    rand_init_seed(&rand, count);
    arena_init(&arena);
    fix_open(fix, count, options);
    ASSERT_OK(part_batch_decode(fix->batch, &arena, &back, &fix->err), &fix->err);
    for (size_t i = 0; i < count; i++) {
        struct part_record kept = part_gen_kept(fix->records[i], unit_ms);
        ASSERT_TRUE(part_gen_same(&back[i], &kept));
    }
    for (int i = 0; i < 200; i++) {
        size_t position = rand_below(&rand, count);
        struct part_record kept = part_gen_kept(fix->records[position], unit_ms);
        ASSERT_OK(part_batch_get(fix->batch, position, &one, &fix->err), &fix->err);
        ASSERT_TRUE(part_gen_same(&one, &kept));
    }
    ASSERT_OK(part_batch_verify(fix->batch, &fix->err), &fix->err);
    arena_done(&arena);
}

static void kind_check(enum part_gen_kind kind)
{
    static const size_t counts[] = {1, 2, 3, 100, 255, 256, 257, 1000, 1024, 1025, 3000};
    struct fix fix;
    fix_init(&fix, kind);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        for (int format = PART_FORMAT_ROWS; format <= PART_FORMAT_COLUMNS; format++) {
            const struct part_encode_options options = {
                .format = (enum part_format)format,
                .algorithm = i % 2 ? PART_AUTO : (enum part_algorithm)(i / 2 % 4),
                .duration_unit_ms = i % 3 == 0 ? 1 : 0};
            part_gen_next(&fix.gen, fix.records, counts[i]);
            fix_check(&fix, counts[i], &options);
        }
    }
    fix_done(&fix);
}

TEST(regular_records_come_back)
{
    kind_check(PART_GEN_REGULAR);
}
TEST(realistic_records_come_back)
{
    kind_check(PART_GEN_REALISTIC);
}
TEST(random_records_come_back)
{
    kind_check(PART_GEN_RANDOM);
}
TEST(records_at_every_border_come_back)
{
    kind_check(PART_GEN_EXTREME);
}

TEST(small_batches_at_every_border_come_back)
{
    struct fix fix;
    fix_init(&fix, PART_GEN_EXTREME);
    for (int round = 0; round < 2000; round++) {
        const struct part_encode_options options = {.format = round % 2 ? PART_FORMAT_ROWS
                                                                        : PART_FORMAT_COLUMNS,
                                                    .algorithm = (enum part_algorithm)(round % 4)};
        size_t count = 1 + (size_t)round % 5;
        part_gen_next(&fix.gen, fix.records, count);
        fix_check(&fix, count, &options);
        arena_clear(&fix.gen.arena);
    }
    fix_done(&fix);
}

TEST(batches_of_65536_records_come_back)
{
    for (enum part_gen_kind kind = PART_GEN_REGULAR; kind <= PART_GEN_RANDOM; kind++) {
        const struct part_encode_options options = {.algorithm = PART_NONE};
        struct fix fix;
        fix_init(&fix, kind);
        part_gen_next(&fix.gen, fix.records, COUNT_MAX);
        fix_check(&fix, COUNT_MAX, &options);
        fix_done(&fix);
    }
}

TEST(a_batch_of_equal_records_needs_almost_nothing)
{
    const struct part_encode_options options = {0};
    struct fix fix;
    fix_init(&fix, PART_GEN_REALISTIC);
    part_gen_next(&fix.gen, fix.records, 1);
    for (size_t i = 1; i < COUNT_MAX; i++)
        fix.records[i] = fix.records[0];
    fix_check(&fix, COUNT_MAX, &options);
    ASSERT_LE(fix.frame.len, 120);
    ASSERT_FALSE(part_batch_info(fix.batch).ascending);
    fix_done(&fix);
}

/* ---- sizes ---- */

static double bytes_of_kind(enum part_gen_kind kind)
{
    const struct part_encode_options options = {.algorithm = PART_AUTO};
    struct fix fix;
    size_t bytes = 0;
    fix_init(&fix, kind);
    for (int i = 0; i < 20; i++) {
        part_gen_next(&fix.gen, fix.records, 1000);
        fix_check(&fix, 1000, &options);
        bytes += fix.frame.len;
    }
    fix_done(&fix);
    return (double)bytes / 20000;
}

TEST(a_record_costs_no_more_bytes_than_promised)
{
    ASSERT_TRUE(bytes_of_kind(PART_GEN_REGULAR) <= 0.8);
    ASSERT_TRUE(bytes_of_kind(PART_GEN_REALISTIC) <= 2.6);
    ASSERT_TRUE(bytes_of_kind(PART_GEN_RANDOM) <= 11.0);
}

/* ---- where the original goes wrong ---- */

static struct part_record plain(int64_t id)
{
    return (struct part_record){.id = id,
                                .min_id = id * 1000,
                                .max_id = id * 1000 + 999,
                                .worker = 1,
                                .status = PART_COMPLETED,
                                .updated_s = 1719234405 + id,
                                .created_s = 1719234405 + id,
                                .duration_ms = PART_DURATION_NONE};
}

static void hole_check(struct part_record odd, bool is_wide)
{
    struct fix fix;
    fix_init(&fix, PART_GEN_REGULAR);
    for (int format = PART_FORMAT_ROWS; format <= PART_FORMAT_COLUMNS; format++) {
        for (size_t at = 0; at < 3; at++) {
            const struct part_encode_options options = {.format = (enum part_format)format,
                                                        .algorithm = PART_GZIP};
            for (int64_t i = 0; i < 3; i++)
                fix.records[i] = plain(i + 1);
            fix.records[at] = odd;
            fix_check(&fix, 3, &options);
            if (format == PART_FORMAT_ROWS) /* bit 6 of byte 3: FRAME_WIDE */
                ASSERT_EQ(fix.frame.ptr[3] >> 6 & 1, is_wide);
        }
    }
    fix_done(&fix);
}

TEST(an_error_over_64_KiB_leaves_its_batch_readable)
{
    enum { LEN = 1024 * 1024 };
    uint8_t *text = mem_alloc(LEN);
    struct part_record odd = plain(2);
    for (size_t i = 0; i < LEN; i++)
        text[i] = (uint8_t)("the disk is full "[i % 17] + (i / 1000) % 3);
    odd.error = bytes_of(text, 65535);
    hole_check(odd, false);
    odd.error = bytes_of(text, 65536);
    hole_check(odd, true);
    odd.error = bytes_of(text, LEN);
    hole_check(odd, true);
    mem_free(text);
}

TEST(ids_beyond_32_bits_do_not_wrap)
{
    static const int64_t id[] = {INT64_C(1) << 31, UINT32_MAX, INT64_C(1) << 32,
                                 INT64_C(100000000000000), INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(id); i++) {
        struct part_record odd = plain(2);
        odd.id = id[i];
        hole_check(odd, id[i] > UINT32_MAX);
    }
}

TEST(ranges_beyond_32_bits_and_inverted_ones_do_not_wrap)
{
    static const int64_t span[] = {INT64_C(1) << 32, INT64_C(1) << 40, -2, -1000000};
    for (size_t i = 0; i < ARRAY_LEN(span); i++) {
        struct part_record odd = plain(2);
        odd.max_id = odd.min_id + span[i];
        hole_check(odd, true);
    }
    struct part_record odd = plain(2);
    odd.max_id = odd.min_id - 1; /* empty: a row can say that */
    hole_check(odd, false);
    odd.min_id = 0;
    odd.max_id = INT64_MAX;
    hole_check(odd, true);
    odd.min_id = INT64_MAX;
    odd.max_id = 0;
    hole_check(odd, true);
}

TEST(times_beyond_32_bits_do_not_become_zero)
{
    struct part_record odd = plain(2);
    odd.updated_s = odd.created_s = INT64_C(1719234405) + UINT32_MAX + 5;
    hole_check(odd, true);
    odd.updated_s = odd.created_s = INT64_MAX;
    hole_check(odd, true);
}

TEST(worker_numbers_are_the_numbers_that_were_given)
{
    static const uint32_t worker[] = {0,         1, 7, 300, 65535, 65536, 70000, UINT32_MAX - 1,
                                      UINT32_MAX};
    struct part_encode_options options = {.algorithm = PART_NONE};
    struct fix fix;
    fix_init(&fix, PART_GEN_REGULAR);
    for (size_t i = 0; i < ARRAY_LEN(worker); i++) {
        fix.records[i] = plain((int64_t)i);
        fix.records[i].worker = worker[ARRAY_LEN(worker) - 1 - i];
    }
    for (int format = PART_FORMAT_ROWS; format <= PART_FORMAT_COLUMNS; format++) {
        options.format = (enum part_format)format;
        fix_check(&fix, ARRAY_LEN(worker), &options);
        struct part_batch_info info = part_batch_info(fix.batch);
        ASSERT_EQ(info.worker_count, ARRAY_LEN(worker));
        for (size_t i = 0; i < info.worker_count; i++)
            ASSERT_EQ(info.worker[i], worker[i]);
    }
    fix_done(&fix);
}

/* ---- the rest of the interface ---- */

TEST(rows_keep_in_a_wide_section_what_a_row_would_lose)
{
    struct part_record odd = plain(2);
    odd.version = 9;
    hole_check(odd, true);
    odd = plain(2);
    odd.options = BYTES("{}");
    hole_check(odd, true);
    odd = plain(2);
    odd.duration_ms = 0;
    hole_check(odd, true);
}

TEST(an_exported_frame_carries_the_names_of_its_workers)
{
    const struct part_worker_name names[] = {
        {9, BYTES_INIT("nobody")}, {2, BYTES_INIT("worker-2")}, {1, BYTES_INIT("elk-worker-1")}};
    const struct part_encode_options options = {
        .names = true, .name = names, .name_count = ARRAY_LEN(names)};
    struct fix fix;
    fix_init(&fix, PART_GEN_REGULAR);
    for (int64_t i = 0; i < 3; i++) {
        fix.records[i] = plain(i);
        fix.records[i].worker = (uint32_t)i;
    }
    fix_check(&fix, 3, &options);
    ASSERT_TRUE(part_batch_info(fix.batch).has_names);
    struct bytes name[3];
    ASSERT_EQ(part_batch_info(fix.batch).worker_count, ARRAY_LEN(name));
    part_batch_names(fix.batch, name);
    ASSERT_BYTES(name[0], BYTES(""));
    ASSERT_BYTES(name[1], BYTES("elk-worker-1"));
    ASSERT_BYTES(name[2], BYTES("worker-2"));
    fix_done(&fix);
}

TEST(a_record_is_found_by_its_id)
{
    static const enum part_gen_kind kinds[] = {PART_GEN_REALISTIC, PART_GEN_RANDOM,
                                               PART_GEN_EXTREME};
    for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
        const struct part_encode_options options = {0};
        struct fix fix;
        fix_init(&fix, kinds[kind]);
        part_gen_next(&fix.gen, fix.records, 1500);
        fix_open(&fix, 1500, &options);
        for (size_t i = 0; i < 1500; i++) {
            size_t position;
            ASSERT_TRUE(part_batch_find(fix.batch, fix.records[i].id, &position));
            ASSERT_LE(position, i);
            ASSERT_EQ(fix.records[position].id, fix.records[i].id);
            if (kinds[kind] == PART_GEN_EXTREME)
                continue;
            ASSERT_EQ(position, i);
            bool next = i + 1 < 1500 && fix.records[i + 1].id == fix.records[i].id + 1;
            ASSERT_EQ(part_batch_find(fix.batch, fix.records[i].id + 1, &position), next);
        }
        fix_done(&fix);
    }
}

TEST(ascending_ids_over_the_whole_range_are_found)
{
    const struct part_encode_options options = {0};
    struct fix fix;
    size_t position;
    fix_init(&fix, PART_GEN_REGULAR);
    for (int64_t i = 0; i < 600; i++) {
        fix.records[i] = plain(i);
        fix.records[i].id = (int64_t)((uint64_t)INT64_MIN + (uint64_t)i * (INT64_MAX / 300));
    }
    fix_check(&fix, 600, &options);
    ASSERT_TRUE(part_batch_info(fix.batch).ascending);
    for (size_t i = 0; i < 600; i++) {
        ASSERT_TRUE(part_batch_find(fix.batch, fix.records[i].id, &position));
        ASSERT_EQ(position, i);
        ASSERT_FALSE(part_batch_find(fix.batch, fix.records[i].id + 1, &position));
    }
    fix_done(&fix);
}

TEST(auto_is_never_longer_than_any_algorithm)
{
    struct fix fix;
    fix_init(&fix, PART_GEN_REALISTIC);
    part_gen_next(&fix.gen, fix.records, 1000);
    for (size_t i = 0; i < 1000; i++) { /* texts worth compressing */
        char *text = arena_alloc(&fix.gen.arena, 64);
        int len = snprintf(text, 64, "{\"shard\":%zu,\"source\":\"orders\"}", i * 7919 % 1000);
        fix.records[i].options = bytes_of(text, (size_t)len);
    }
    for (int format = PART_FORMAT_ROWS; format <= PART_FORMAT_COLUMNS; format++) {
        struct part_encode_options options = {.format = (enum part_format)format};
        size_t smallest = SIZE_MAX;
        for (int algorithm = PART_NONE; algorithm <= PART_ZSTD; algorithm++) {
            options.algorithm = (enum part_algorithm)algorithm;
            fix_check(&fix, 1000, &options);
            ASSERT_EQ(part_batch_info(fix.batch).algorithm, algorithm);
            if (fix.frame.len < smallest)
                smallest = fix.frame.len;
        }
        options.algorithm = PART_AUTO;
        fix_check(&fix, 1000, &options);
        ASSERT_EQ(fix.frame.len, smallest);
    }
    fix_done(&fix);
}

TEST(what_is_no_batch_is_refused)
{
    struct part_encode_options options = {0};
    struct part_record record = plain(1);
    struct err err = {0};
    struct buf to;
    buf_init(&to, 1 << 20);
    ASSERT_RC(part_batch_encode(&record, 0, &options, &to, &err), RC_INVALID);
    record.status = PART_STATUS_COUNT;
    ASSERT_RC(part_batch_encode(&record, 1, &options, &to, &err), RC_INVALID);
    record = plain(1);
    record.duration_ms = -2;
    ASSERT_RC(part_batch_encode(&record, 1, &options, &to, &err), RC_INVALID);
    record = plain(1);
    options.format = (enum part_format)3;
    ASSERT_RC(part_batch_encode(&record, 1, &options, &to, &err), RC_INVALID);
    ASSERT_EQ(to.len, 0);
    buf_done(&to);
}

TEST(texts_over_the_limit_of_a_frame_are_refused_and_the_buffer_stays)
{
    enum { LEN = 64 * 1024 * 1024, COUNT = 5 };
    const struct part_encode_options options = {0};
    struct part_record records[COUNT];
    struct err err = {0};
    struct buf to;
    uint8_t *text = mem_zalloc(LEN + COUNT);
    buf_init(&to, PART_FRAME_BYTES_MAX);
    ASSERT_TRUE(buf_add(&to, "x", 1));
    for (size_t i = 0; i < COUNT; i++) {
        records[i] = plain((int64_t)i);
        records[i].error = bytes_of(text, LEN + i);
    }
    ASSERT_RC(part_batch_encode(records, COUNT, &options, &to, &err), RC_TOO_BIG);
    ASSERT_EQ(to.len, 1);
    mem_free(text);
    buf_done(&to);
}

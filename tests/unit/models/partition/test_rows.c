// SPDX-License-Identifier: Apache-2.0
#include "models/partition/rows.h"

#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive.h"
#include "models/partition/container.h"
#include "support/part_gen.h"
#include "test.h"

#include "base/banned.h"

static const int64_t base_s = 1719234405;

/* The sample of the specification. */
static struct part_record sample(void)
{
    return (struct part_record){.id = 4970,
                                .min_id = 4969001,
                                .max_id = 4970000,
                                .worker = 1,
                                .status = PART_COMPLETED,
                                .updated_s = base_s,
                                .created_s = base_s,
                                .duration_ms = PART_DURATION_NONE};
}
static const struct bytes row_25 =
    BYTES_INIT("\x6a\x13\x00\x00\x29\xd2\x4b\x00\x00\x00\x00\x00\xe8\x03\x00\x00\x01\x00\x03"
               "\x00\x00\x00\x00\x00\x00");
static const struct bytes row_29 =
    BYTES_INIT("\x6a\x13\x00\x00\x29\xd2\x4b\x00\x00\x00\x00\x00\xe8\x03\x00\x00\x01\x00\x03"
               "\x3a\x01\x00\x00\x00\x00\x00\x00\x00\x00");

TEST(rows_have_the_bytes_of_the_specification)
{
    struct buf raw;
    struct part_record record = sample(), back;
    struct err err = {0};
    enum part_rows form;
    buf_init(&raw, 1024);
    ASSERT_TRUE(rows_add(&record, PART_ROWS_25, base_s, &raw));
    ASSERT_BYTES(buf_bytes(&raw), row_25);
    ASSERT_OK(rows_tell(row_25, 1, &form, &err), &err);
    ASSERT_EQ(form, PART_ROWS_25);
    ASSERT_OK(rows_read(row_25, 1, form, base_s, &back, &err), &err);
    ASSERT_TRUE(part_gen_same(&record, &back));

    record.updated_s = base_s + 314;
    buf_cut(&raw, 0);
    ASSERT_TRUE(rows_add(&record, PART_ROWS_29, base_s, &raw));
    ASSERT_BYTES(buf_bytes(&raw), row_29);
    ASSERT_OK(rows_tell(row_29, 1, &form, &err), &err);
    ASSERT_EQ(form, PART_ROWS_29);
    ASSERT_OK(rows_read(row_29, 1, form, base_s, &back, &err), &err);
    ASSERT_TRUE(part_gen_same(&record, &back));
    buf_done(&raw);
}

/* Reads what a frame of rows holds when it is not compressed. */
TEST(a_frame_of_format_1_carries_exactly_those_rows)
{
    struct part_encode_options options = {.format = PART_FORMAT_ROWS};
    struct part_record record = sample();
    struct err err = {0};
    struct buf frame;
    buf_init(&frame, 1024);
    ASSERT_OK(part_batch_encode(&record, 1, &options, &frame, &err), &err);
    ASSERT_TRUE(frame.len > row_25.len);
    ASSERT_BYTES(bytes_from(buf_bytes(&frame), frame.len - row_25.len), row_25);
    record.created_s = base_s;
    record.updated_s = base_s + 314;
    buf_cut(&frame, 0);
    ASSERT_OK(part_batch_encode(&record, 1, &options, &frame, &err), &err);
    ASSERT_BYTES(bytes_from(buf_bytes(&frame), frame.len - row_29.len), row_29);
    buf_done(&frame);
}

TEST(both_lengths_of_rows_are_told_apart_by_exact_consumption)
{
    struct rand rand;
    struct buf raw;
    struct err err = {0};
    rand_init_seed(&rand, 7);
    buf_init(&raw, 1 << 20);
    for (int round = 0; round < 2000; round++) {
        enum part_rows form = rand_below(&rand, 2) ? PART_ROWS_25 : PART_ROWS_29, told;
        size_t count = 1 + rand_below(&rand, 20);
        buf_cut(&raw, 0);
        for (size_t i = 0; i < count; i++) {
            struct part_record record = sample();
            record.updated_s += (int64_t)rand_below(&rand, 400);
            record.id += (int64_t)i;
            if (rand_below(&rand, 4) == 0)
                record.error = BYTES("connection reset by peer, retry in 4 s");
            ASSERT_TRUE(rows_add(&record, form, base_s, &raw));
        }
        ASSERT_OK(rows_tell(buf_bytes(&raw), count, &told, &err), &err);
        ASSERT_EQ(told, form);
        ASSERT_EQ(rows_tell(buf_bytes(&raw), count + 1, &told, &err), RC_CORRUPT);
        ASSERT_EQ(rows_tell(bytes_of(raw.ptr, raw.len - 1), count, &told, &err), RC_CORRUPT);
    }
    buf_done(&raw);
}

TEST(rows_that_can_be_read_both_ways_are_refused)
{
    /* One row of 25 with an error of 0x4145 bytes, or one of 29 with an error of 0x4141 bytes. */
    enum { LEN = 0x4145 };
    struct part_record record = sample();
    struct buf raw;
    struct err err = {0};
    enum part_rows form;
    uint8_t *text = mem_alloc(LEN);
    memset(text, 'A', LEN);
    record.error = bytes_of(text, LEN);
    buf_init(&raw, 1 << 20);
    ASSERT_TRUE(rows_add(&record, PART_ROWS_25, base_s, &raw));
    ASSERT_RC(rows_tell(buf_bytes(&raw), 1, &form, &err), RC_INVALID);
    ASSERT_TRUE(strstr(err.text, "25 and of 29") != NULL);
    mem_free(text);
    buf_done(&raw);
}

TEST(what_does_not_fit_a_row_is_named)
{
    struct part_record record = sample();
    ASSERT_TRUE(rows_misfit(&record, PART_ROWS_29, base_s) == NULL);
    record.id = INT64_C(1) << 32;
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "partition id");
    record = sample();
    record.max_id = record.min_id + UINT32_MAX;
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "range");
    record.max_id = record.min_id + UINT32_MAX - 1;
    ASSERT_TRUE(rows_misfit(&record, PART_ROWS_25, base_s) == NULL);
    record.max_id = record.min_id - 2;
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "range");
    record = sample();
    record.max_id = INT64_MAX;
    record.min_id = INT64_MAX;
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "range");
    record = sample();
    record.worker = 65536;
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "worker number");
    record = sample();
    record.updated_s = base_s + UINT32_MAX + INT64_C(1);
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "updated_at");
    record = sample();
    record.created_s = base_s - 1;
    ASSERT_STR(rows_misfit(&record, PART_ROWS_29, base_s), "created_at");
    record = sample();
    record.error = bytes_of(row_25.ptr, 65536);
    ASSERT_STR(rows_misfit(&record, PART_ROWS_25, base_s), "error");
}

/* ---- containers ---- */

/* {"base_timestamp":...} with the sample row, gzip by another implementation (Python). */
static const char foreign[] = "{\"version\":1,\"base_timestamp\":1719234405,\"partition_count\":1,"
                              "\"compression_algorithm\":\"gzip\",\"compressed_data\":\""
                              "H4sIAAAAAAACA8sSZmDQvOTNAAIvmBkYGBmYwWwGAPitXWIZAAAA\"}";

TEST(a_container_of_another_implementation_is_read)
{
    struct arena arena;
    struct part_record *records, record = sample();
    struct err err = {0};
    size_t count;
    arena_init(&arena);
    ASSERT_OK(
        part_container_read(bytes_of(foreign, strlen(foreign)), &arena, &records, &count, &err),
        &err);
    ASSERT_EQ(count, 1);
    ASSERT_TRUE(part_gen_same(&records[0], &record));
    arena_done(&arena);
}

TEST(containers_come_back_and_tell_what_they_cannot_hold)
{
    struct part_record records[100], *back;
    struct part_gen gen;
    struct arena arena;
    struct buf json;
    struct err err = {0};
    size_t count;
    part_gen_init(&gen, PART_GEN_REALISTIC, 1);
    part_gen_next(&gen, records, 100);
    records[5].error = BYTES("lease lost");
    for (enum part_rows form = PART_ROWS_25; form <= PART_ROWS_29; form += 4) {
        struct part_container_loss loss;
        arena_init(&arena);
        buf_init(&json, 1 << 20);
        ASSERT_OK(part_container_write(records, 100, form, &json, &loss, &err), &err);
        ASSERT_EQ(loss.created_count, form == PART_ROWS_25 ? 100 : 0);
        ASSERT_EQ(loss.options_count, 100);
        ASSERT_EQ(loss.version_count, 100);
        ASSERT_OK(part_container_read(buf_bytes(&json), &arena, &back, &count, &err), &err);
        ASSERT_EQ(count, 100);
        for (size_t i = 0; i < count; i++) {
            struct part_record expected = records[i];
            if (form == PART_ROWS_25)
                expected.created_s = expected.updated_s;
            expected.version = expected.fence = expected.attempts = 0;
            expected.duration_ms = PART_DURATION_NONE;
            expected.options = BYTES("");
            ASSERT_TRUE(part_gen_same(&back[i], &expected));
        }
        buf_done(&json);
        arena_done(&arena);
    }
    part_gen_done(&gen);
}

TEST(a_container_refuses_what_would_wrap)
{
    struct part_record record = sample();
    struct part_container_loss loss;
    struct buf json;
    struct err err = {0};
    buf_init(&json, 1 << 20);
    record.id = INT64_C(1) << 33;
    ASSERT_EQ(part_container_write(&record, 1, PART_ROWS_25, &json, &loss, &err), RC_TOO_BIG);
    ASSERT_TRUE(strstr(err.text, "partition id of partition 8589934592") != NULL);
    ASSERT_EQ(json.len, 0);
    buf_done(&json);
}

TEST(damaged_containers_are_refused_with_a_text)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"base_timestamp\":1,\"compressed_data\":\"\",\"partition_count\":1}",
        "{\"base_timestamp\":1,\"compressed_data\":\"????\",\"partition_count\":1}",
        "{\"base_timestamp\":1,\"compressed_data\":\"AAAA\",\"partition_count\":1}",
        "{\"base_timestamp\":1,\"compressed_data\":\"AAA=\",\"partition_count\":-1}",
        ("{\"base_timestamp\":1,\"compressed_data\":\"AAA=\",\"partition_count\":1,"
         "\"compression_algorithm\":\"brotli\"}"),
    };
    struct arena arena;
    struct part_record *records;
    size_t count;
    arena_init(&arena);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        ASSERT_NE(
            part_container_read(bytes_of(bad[i], strlen(bad[i])), &arena, &records, &count, &err),
            RC_OK);
        ASSERT_TRUE(err.text[0] != 0);
    }
    arena_done(&arena);
}

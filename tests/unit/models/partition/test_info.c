// SPDX-License-Identifier: Apache-2.0
#include "models/partition/info.h"

#include "base/limits.h"
#include "base/rand.h"
#include "models/partition/stat.h"
#include "test.h"

#include "base/banned.h"

static struct part_info sample(void)
{
    return (struct part_info){.id = 4970,
                              .min_id = 4969001,
                              .max_id = 4970000,
                              .worker = BYTES("worker1"),
                              .status = PART_RUNNING,
                              .heartbeat_ms = 1719234405123,
                              .updated_ms = 1719234405000,
                              .created_ms = 1719234110007,
                              .options = BYTES("{\"a\":[1,\"}\\\"\"]}"),
                              .error = BYTES("a \"b\"\n\\c\x01"),
                              .version = 2,
                              .fence = 9,
                              .attempts = 1,
                              .duration_ms = PART_DURATION_NONE};
}

static void same(const struct part_info *a, const struct part_info *b)
{
    ASSERT_EQ(a->id, b->id);
    ASSERT_EQ(a->min_id, b->min_id);
    ASSERT_EQ(a->max_id, b->max_id);
    ASSERT_BYTES(a->worker, b->worker);
    ASSERT_EQ(a->status, b->status);
    ASSERT_EQ(a->heartbeat_ms, b->heartbeat_ms);
    ASSERT_EQ(a->updated_ms, b->updated_ms);
    ASSERT_EQ(a->created_ms, b->created_ms);
    ASSERT_BYTES(a->options, b->options);
    ASSERT_BYTES(a->error, b->error);
    ASSERT_EQ(a->version, b->version);
    ASSERT_EQ(a->fence, b->fence);
    ASSERT_EQ(a->attempts, b->attempts);
    ASSERT_EQ(a->duration_ms, b->duration_ms);
    ASSERT_EQ(a->takeovers, b->takeovers);
}

TEST(a_record_is_written_as_it_is_drawn)
{
    struct part_info info = sample();
    struct buf json;
    buf_init(&json, 1 << 20);
    ASSERT_TRUE(part_info_write(&info, &json));
    ASSERT_BYTES(
        buf_bytes(&json),
        BYTES("{\"partition_id\":4970,\"min_id\":4969001,\"max_id\":4970000,\"worker_id\":"
              "\"worker1\",\"last_heartbeat\":\"2024-06-24T13:06:45.123Z\",\"status\":\"running\","
              "\"updated_at\":\"2024-06-24T13:06:45Z\",\"options\":{\"a\":[1,\"}\\\"\"]},"
              "\"version\":2,\"error\":\"a \\\"b\\\"\\n\\\\c\\u0001\",\"created_at\":"
              "\"2024-06-24T13:01:50.007Z\",\"fence\":9,\"attempts\":1,\"duration_ms\":null}"));
    buf_done(&json);
}

TEST(random_records_come_back_as_they_were)
{
    struct rand rand;
    struct arena arena;
    struct buf json;
    rand_init_seed(&rand, 5);
    arena_init(&arena);
    buf_init(&json, 1 << 20);
    for (int round = 0; round < 20000; round++) {
        uint8_t text[40];
        struct err err = {0};
        struct part_info info = sample(), back;
        size_t len = rand_below(&rand, sizeof text);
        for (size_t i = 0; i < len; i++)
            text[i] = (uint8_t)rand_below(&rand, 128);
        unsigned shift = (unsigned)rand_below(&rand, 63);
        info.id = (int64_t)(rand_u64(&rand) >> 1 >> shift);
        info.min_id = (int64_t)(rand_u64(&rand) >> 2);
        info.max_id = info.min_id + (int64_t)(rand_u64(&rand) >> 2 >> shift);
        info.error = info.worker = bytes_of(text, len);
        info.status = (uint8_t)rand_below(&rand, PART_STATUS_COUNT);
        info.created_ms = (int64_t)rand_below(&rand, UINT64_C(253402300800000));
        info.updated_ms = (int64_t)rand_below(&rand, UINT64_C(253402300800000));
        info.heartbeat_ms = rand_below(&rand, 2) ? PART_TIME_NONE : info.updated_ms;
        info.fence = rand_u64(&rand);
        info.takeovers = rand_below(&rand, 2) ? 0 : rand_u64(&rand) >> 1;
        info.options = rand_below(&rand, 2) ? BYTES("") : BYTES("[{\"x\":\"\\\\\"},null]");
        info.duration_ms = rand_below(&rand, 2) ? PART_DURATION_NONE : info.min_id;
        buf_cut(&json, 0);
        ASSERT_TRUE(part_info_write(&info, &json));
        ASSERT_OK(part_info_read(buf_bytes(&json), &arena, &back, &err), &err);
        same(&info, &back);
        arena_clear(&arena);
    }
    buf_done(&json);
    arena_done(&arena);
}

TEST(what_was_not_written_by_us_is_damaged)
{
    struct part_info info = sample(), back;
    struct arena arena;
    struct buf json;
    struct err err;
    size_t read = 0;
    arena_init(&arena);
    buf_init(&json, 1 << 20);
    ASSERT_TRUE(part_info_write(&info, &json));
    for (size_t len = 0; len < json.len; len++)
        ASSERT_RC(part_info_read(bytes_of(json.ptr, len), &arena, &back, &err), RC_CORRUPT);
    for (size_t i = 0; i < json.len; i++) { /* another byte is another record, or none */
        json.ptr[i] ^= 4;
        read += part_info_read(buf_bytes(&json), &arena, &back, &err) == RC_OK;
        json.ptr[i] ^= 4;
    }
    ASSERT_LT(read, json.len / 2);
    buf_done(&json);
    arena_done(&arena);
}

TEST(durations_are_kept_to_the_millisecond_below_ten_seconds_and_in_seconds_above)
{
    ASSERT_EQ(part_duration_kept(9999), 9999);
    ASSERT_EQ(part_duration_kept(10000), 10000);
    ASSERT_EQ(part_duration_kept(10499), 10000);
    ASSERT_EQ(part_duration_kept(10999), 10000);
    ASSERT_EQ(part_duration_kept(PART_DURATION_NONE), PART_DURATION_NONE);
}

TEST(statistics_come_back_as_they_were_up_to_128_bits)
{
    struct part_stat stat = {.completed = UINT64_MAX,
                             .ids = ((text_u128)1 << 100) + 7,
                             .timed = 3,
                             .duration_ms = UINT64_MAX,
                             .max_ms = 1,
                             .first_s = 0,
                             .last_s = INT64_MAX,
                             .min_id = 5,
                             .max_id = INT64_MAX,
                             .dropped = 1,
                             .dropped_ids = (text_u128)UINT64_MAX + 1,
                             .running = 4};
    uint8_t text[STAT_BYTES_MAX];
    struct part_stat back;
    struct err err = {0};
    struct bytes json = part_stat_write(&stat, text);
    ASSERT_OK(part_stat_read(json, &back, &err), &err);
    ASSERT_EQ(back.completed == stat.completed && back.ids == stat.ids && back.timed == stat.timed,
              true);
    ASSERT_EQ(back.dropped_ids == stat.dropped_ids && back.running == 4, true);
    for (size_t len = 0; len < json.len; len++)
        ASSERT_RC(part_stat_read(bytes_of(text, len), &back, &err), RC_CORRUPT);
}

TEST(a_bucket_of_the_histogram_is_at_most_a_thirty_second_wide)
{
    size_t last = 0;
    for (int64_t ms = 0; ms <= PART_DURATION_MS_MAX; ms += 1 + ms / 997) {
        size_t bucket = part_bucket(ms), back;
        uint8_t name[STAT_BUCKET_NAME_BYTES];
        ASSERT_LT(bucket, STAT_BUCKET_COUNT);
        ASSERT_GE(bucket, last);
        ASSERT_LE(part_bucket_low(bucket), ms);
        ASSERT_GE(part_bucket_low(bucket) + part_bucket_low(bucket) / 32 + 1, ms);
        ASSERT_TRUE(part_bucket_parse(part_bucket_name(bucket, name), &back));
        ASSERT_EQ(back, bucket);
        last = bucket;
    }
}

// SPDX-License-Identifier: Apache-2.0
/* fuzz_part_rows.c - bytes are a row of partitions: a record, a row of statistics, or the name of a
 * bucket. What is taken for a record is written again as the same bytes. The first byte says which.
 * */
#include "models/partition/info.h"
#include "models/partition/stat.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void record_check(struct bytes json)
{
    CLEANUP(buf_done) struct buf again;
    struct part_info info;
    struct arena arena;
    struct err err;
    arena_init(&arena);
    buf_init(&again, 16 << 20);
    if (part_info_read(json, &arena, &info, &err) == RC_OK) {
        struct part_info back;
        ASSERT(part_info_write(&info, &again));
        ASSERT(part_info_read(buf_bytes(&again), &arena, &back, &err) == RC_OK);
        ASSERT(back.id == info.id && back.fence == info.fence && bytes_eq(back.error, info.error));
        ASSERT(bytes_eq(back.worker, info.worker) && bytes_eq(back.options, info.options));
    }
    arena_done(&arena);
}

static void stat_check(struct bytes json)
{
    uint8_t text[STAT_BYTES_MAX];
    struct part_stat stat, back;
    struct err err;
    if (part_stat_read(json, &stat, &err) != RC_OK)
        return;
    ASSERT(part_stat_read(part_stat_write(&stat, text), &back, &err) == RC_OK);
    ASSERT(back.completed == stat.completed && back.ids == stat.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t bucket;
    if (size == 0)
        return 0;
    struct bytes row = bytes_of(data + 1, size - 1);
    if (data[0] == 'r')
        record_check(row);
    else if (data[0] == 's')
        stat_check(row);
    else
        (void)part_bucket_parse(row, &bucket);
    return 0;
}

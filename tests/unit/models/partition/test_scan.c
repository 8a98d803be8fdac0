// SPDX-License-Identifier: Apache-2.0
/* test_scan.c - filters over packed columns against a walk over the plain list. */
#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive.h"
#include "support/part_gen.h"
#include "test.h"

#include "base/banned.h"

enum { COUNT_MAX = 3000 };

static bool naive_matches(const struct part_record *record, const struct part_filter *filter)
{
    bool status = !filter->statuses || (filter->statuses & 1U << record->status);
    bool worker = !filter->has_worker || record->worker == filter->worker;
    bool id = !filter->has_id || (filter->id_min <= record->id && record->id <= filter->id_max);
    bool updated = !filter->has_updated || (filter->updated_min_s <= record->updated_s &&
                                            record->updated_s <= filter->updated_max_s);
    return status && worker && id && updated;
}

static struct part_filter random_filter(struct rand *rand, const struct part_record *records,
                                        size_t count)
{
    const struct part_record *a = &records[rand_below(rand, count)];
    const struct part_record *b = &records[rand_below(rand, count)];
    uint64_t what = rand_below(rand, 16);
    struct part_filter filter = {
        .has_worker = what & 1,
        .has_id = what & 2,
        .has_updated = what & 4,
        .statuses = what & 8 ? (unsigned)rand_below(rand, 64) : 0,
        .worker = rand_below(rand, 10) ? a->worker : 12345,
        .id_min = a->id,
        .id_max = rand_below(rand, 4) ? b->id : a->id,
        .updated_min_s = b->updated_s,
        .updated_max_s = rand_below(rand, 4) ? a->updated_s : INT64_MAX,
    };
    if (rand_below(rand, 3) == 0)
        filter.id_min = INT64_MIN;
    if (rand_below(rand, 3) == 0)
        filter.updated_min_s = INT64_MIN;
    return filter;
}

/* What was found, read at once, is what was packed. */
static void read_check(struct part_batch *batch, const struct part_record *records,
                       const uint32_t *positions, size_t found)
{
    struct part_record *read = mem_alloc(found * sizeof *read + 1);
    struct err err = {0};
    ASSERT_OK(part_batch_read(batch, positions, found, read, &err), &err);
    for (size_t i = 0; i < found; i++) {
        struct part_record kept = part_gen_kept(records[positions[i]], 1000);
        ASSERT_TRUE(part_gen_same(&read[i], &kept));
    }
    mem_free(read);
}

/* Pages of a random size, so that a scan goes on in the middle of a block. */
static void scan_check(struct part_batch *batch, const struct part_record *records, size_t count,
                       const struct part_filter *filter, size_t page)
{
    uint32_t positions[COUNT_MAX];
    size_t position = 0, next = 0;
    while (position < count) {
        size_t found = part_batch_scan(batch, filter, &position, positions, page);
        ASSERT_LE(found, page);
        for (size_t i = 0; i < found; i++) {
            while (next < count && !naive_matches(&records[next], filter))
                next++;
            ASSERT_EQ(positions[i], next);
            next++;
        }
        read_check(batch, records, positions, found);
    }
    while (next < count && !naive_matches(&records[next], filter))
        next++;
    ASSERT_EQ(next, count);
}

static void kind_check(enum part_gen_kind kind)
{
    struct part_record *records = mem_alloc(COUNT_MAX * sizeof *records);
    struct rand rand;
    struct err err = {0};
    struct buf frame;
    rand_init_seed(&rand, 9);
    buf_init(&frame, PART_FRAME_BYTES_MAX);
    for (int round = 0; round < 24; round++) {
        const struct part_encode_options options = {.format = round % 4 ? PART_FORMAT_COLUMNS
                                                                        : PART_FORMAT_ROWS};
        size_t count = 1 + rand_below(&rand, COUNT_MAX);
        struct part_batch *batch;
        struct part_gen gen;
        part_gen_init(&gen, kind, (uint64_t)round);
        part_gen_next(&gen, records, count);
        buf_cut(&frame, 0);
        ASSERT_OK(part_batch_encode(records, count, &options, &frame, &err), &err);
        ASSERT_OK(part_batch_open(buf_bytes(&frame), &batch, &err), &err);
        for (int i = 0; i < 100; i++) {
            struct part_filter filter = random_filter(&rand, records, count);
            scan_check(batch, records, count, &filter, 1 + rand_below(&rand, 400));
        }
        part_batch_close(batch);
        part_gen_done(&gen);
    }
    buf_done(&frame);
    mem_free(records);
}

TEST(scans_of_regular_records_find_what_a_walk_finds)
{
    kind_check(PART_GEN_REGULAR);
}
TEST(scans_of_realistic_records_find_what_a_walk_finds)
{
    kind_check(PART_GEN_REALISTIC);
}
TEST(scans_of_random_records_find_what_a_walk_finds)
{
    kind_check(PART_GEN_RANDOM);
}
TEST(scans_of_records_at_every_border_find_what_a_walk_finds)
{
    kind_check(PART_GEN_EXTREME);
}

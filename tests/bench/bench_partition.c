// SPDX-License-Identifier: Apache-2.0
/* bench_partition.c - bytes a record of the three kinds, in both formats and as the original stores
 * them, and the speed of reading one record, scanning a column, packing and unpacking. Batches of
 * 1000. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/limits.h"
#include "base/mem.h"
#include "models/partition/archive.h"
#include "models/partition/rows.h"
#include "support/part_gen.h"

#include "base/banned.h"

enum { BATCH = 1000, BATCHES_SIZE = 100, BATCHES_SCAN = 1000, GETS = 200000 };

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(enum rc rc, const struct err *err)
{
    if (rc == RC_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void print(const char *name, const char *suffix, double value, const char *unit)
{
    printf("bench partition.%s%s %.3f %s\n", name, suffix, value, unit);
}

/* The original: rows of 25 bytes, gzip. What they do not hold is lost there. */
static size_t source_bytes(const struct part_record *records)
{
    struct buf raw, packed;
    struct err err = {0};
    int64_t base_s = records[0].updated_s;
    buf_init(&raw, PART_FRAME_BYTES_MAX);
    buf_init(&packed, PART_FRAME_BYTES_MAX);
    for (size_t i = 0; i < BATCH; i++)
        if (records[i].updated_s < base_s)
            base_s = records[i].updated_s;
    for (size_t i = 0; i < BATCH; i++)
        if (!rows_add(&records[i], PART_ROWS_25, base_s, &raw))
            exit(1);
    must(squeeze(PART_GZIP, buf_bytes(&raw), &packed, &err), &err);
    size_t bytes = packed.len;
    buf_done(&raw);
    buf_done(&packed);
    return bytes;
}

static void bench_size(enum part_gen_kind kind, const char *name)
{
    const struct part_encode_options options = {.algorithm = PART_AUTO};
    struct part_record records[BATCH];
    struct part_gen gen;
    struct buf frame;
    struct err err = {0};
    size_t bytes = 0, source = 0;
    double encode_s = 0, decode_s = 0;
    part_gen_init(&gen, kind, 1);
    buf_init(&frame, PART_FRAME_BYTES_MAX);
    for (int i = 0; i < BATCHES_SIZE; i++) {
        struct part_batch *batch;
        struct part_record *back;
        struct arena arena;
        arena_init(&arena);
        part_gen_next(&gen, records, BATCH);
        source += source_bytes(records);
        buf_cut(&frame, 0);
        double start = cpu_s();
        must(part_batch_encode(records, BATCH, &options, &frame, &err), &err);
        encode_s += cpu_s() - start;
        bytes += frame.len;
        start = cpu_s();
        must(part_batch_open(buf_bytes(&frame), &batch, &err), &err);
        must(part_batch_decode(batch, &arena, &back, &err), &err);
        decode_s += cpu_s() - start;
        for (int r = 0; r < BATCH; r++) {
            struct part_record kept = part_gen_kept(records[r], 1000);
            if (!part_gen_same(&kept, &back[r]))
                exit(1);
        }
        part_batch_close(batch);
        arena_done(&arena);
    }
    const double count = (double)BATCH * BATCHES_SIZE;
    print("bytes_", name, (double)bytes / count, "B");
    printf("bench partition.bytes_%s_source %.3f B\n", name, (double)source / count);
    print("encode_mrows_", name, count / encode_s / 1e6, "Mrows/s");
    print("decode_mrows_", name, count / decode_s / 1e6, "Mrows/s");
    buf_done(&frame);
    part_gen_done(&gen);
}

/* How much the realistic figure owes to its model: workers that pause up to a minute before they
 * claim again, and batches in the order of completion, whose ids have gaps. */
static int updated_compare(const void *a, const void *b)
{
    int64_t x = ((const struct part_record *)a)->updated_s;
    int64_t y = ((const struct part_record *)b)->updated_s;
    return (x > y) - (x < y);
}

static int id_compare(const void *a, const void *b)
{
    int64_t x = ((const struct part_record *)a)->id, y = ((const struct part_record *)b)->id;
    return (x > y) - (x < y);
}

static void bench_variant(const char *name, uint64_t pause_ms_max, bool by_completion)
{
    const struct part_encode_options options = {.algorithm = PART_AUTO};
    const size_t count = (size_t)BATCH * BATCHES_SIZE;
    struct part_record *records = mem_alloc(count * sizeof *records);
    struct part_gen gen;
    struct buf frame;
    struct err err = {0};
    part_gen_init(&gen, PART_GEN_REALISTIC, 1);
    gen.pause_ms_max = pause_ms_max;
    part_gen_next(&gen, records, count);
    if (by_completion)
        qsort(records, count, sizeof *records, updated_compare);
    buf_init(&frame, PART_FRAME_BYTES_MAX);
    for (size_t i = 0; i < count; i += BATCH) {
        qsort(records + i, BATCH, sizeof *records, id_compare);
        must(part_batch_encode(records + i, BATCH, &options, &frame, &err), &err);
    }
    print("bytes_realistic_", name, (double)frame.len / (double)count, "B");
    buf_done(&frame);
    part_gen_done(&gen);
    mem_free(records);
}

struct frames {
    struct buf bytes;
    size_t start[BATCHES_SCAN + 1];
};

static struct bytes frame_at(const struct frames *frames, size_t i)
{
    return bytes_of(frames->bytes.ptr + frames->start[i], frames->start[i + 1] - frames->start[i]);
}

static void frames_make(struct frames *frames, enum part_gen_kind kind)
{
    const struct part_encode_options options = {.algorithm = PART_AUTO};
    struct part_record records[BATCH];
    struct part_gen gen;
    struct err err = {0};
    part_gen_init(&gen, kind, 2);
    buf_init(&frames->bytes, PART_FRAME_BYTES_MAX);
    for (int i = 0; i < BATCHES_SCAN; i++) {
        frames->start[i] = frames->bytes.len;
        part_gen_next(&gen, records, BATCH);
        must(part_batch_encode(records, BATCH, &options, &frames->bytes, &err), &err);
    }
    frames->start[BATCHES_SCAN] = frames->bytes.len;
    part_gen_done(&gen);
}

/* Open (checksum included), find by id, get, close: nothing is kept between two. */
static void bench_get(const struct frames *frames, const char *name)
{
    struct rand rand;
    struct err err = {0};
    rand_init_seed(&rand, 3);
    double start = cpu_s();
    for (int i = 0; i < GETS; i++) {
        struct part_batch *batch;
        struct part_record record;
        size_t position;
        must(part_batch_open(frame_at(frames, rand_below(&rand, BATCHES_SCAN)), &batch, &err),
             &err);
        struct part_batch_info info = part_batch_info(batch);
        int64_t id =
            info.id_min + (int64_t)rand_below(&rand, (uint64_t)(info.id_max - info.id_min) + 1);
        if (part_batch_find(batch, id, &position))
            must(part_batch_get(batch, position, &record, &err), &err);
        part_batch_close(batch);
    }
    print("get_us", name, (cpu_s() - start) / GETS * 1e6, "us");
}

static void bench_scan(const struct frames *frames, const char *name,
                       const struct part_filter *filter)
{
    uint32_t positions[BATCH];
    struct err err = {0};
    size_t found = 0;
    enum { ROUNDS = 5 };
    double start = cpu_s();
    for (int i = 0; i < BATCHES_SCAN * ROUNDS; i++) {
        struct part_batch *batch;
        size_t position = 0;
        must(part_batch_open(frame_at(frames, (size_t)i % BATCHES_SCAN), &batch, &err), &err);
        found += part_batch_scan(batch, filter, &position, positions, BATCH);
        part_batch_close(batch);
    }
    if (found == 0)
        exit(1);
    print("scan_archive_mrows", name,
          (double)BATCH * BATCHES_SCAN * ROUNDS / (cpu_s() - start) / 1e6, "Mrows/s");
}

/* For tools/bench_partition.py: length (4, little-endian) and frame with names, by turns. */
static int frames_print(size_t total)
{
    struct part_worker_name name[PART_GEN_WORKERS];
    char text[PART_GEN_WORKERS][16];
    struct part_record records[BATCH];
    struct part_gen gen;
    struct buf frame;
    struct err err = {0};
    for (uint32_t i = 0; i < PART_GEN_WORKERS; i++) {
        int len = snprintf(text[i], sizeof text[i], "worker-%u", i + 1);
        name[i] =
            (struct part_worker_name){.worker = i + 1, .name = bytes_of(text[i], (size_t)len)};
    }
    const struct part_encode_options options = {
        .duration_unit_ms = 1, .names = true, .name = name, .name_count = PART_GEN_WORKERS};
    part_gen_init(&gen, PART_GEN_REALISTIC, 1);
    buf_init(&frame, PART_FRAME_BYTES_MAX);
    for (size_t done = 0; done < total;) {
        size_t count = total - done < BATCH ? total - done : BATCH;
        part_gen_next(&gen, records, count);
        buf_cut(&frame, 0);
        must(part_batch_encode(records, count, &options, &frame, &err), &err);
        uint32_t len = (uint32_t)frame.len;
        if (fwrite(&len, sizeof len, 1, stdout) != 1 ||
            fwrite(frame.ptr, 1, frame.len, stdout) != frame.len)
            return 1;
        done += count;
    }
    buf_done(&frame);
    part_gen_done(&gen);
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "frames") == 0)
        return frames_print(strtoull(argv[2], NULL, 10));
    const struct part_filter worker = {.has_worker = true, .worker = 7};
    struct frames *frames = mem_alloc(sizeof *frames);
    bench_size(PART_GEN_REGULAR, "regular");
    bench_size(PART_GEN_REALISTIC, "realistic");
    bench_size(PART_GEN_RANDOM, "random");

    bench_variant("pauses", 60000, false);
    bench_variant("by_completion", 500, true);
    frames_make(frames, PART_GEN_REALISTIC);
    bench_get(frames, "");
    bench_scan(frames, "", &worker);
    struct part_batch *batch;
    struct err err = {0};
    must(part_batch_open(frame_at(frames, BATCHES_SCAN / 2), &batch, &err), &err);
    int64_t base_s = part_batch_info(batch).base_s;
    part_batch_close(batch);
    const struct part_filter updated = {
        .has_updated = true, .updated_min_s = base_s, .updated_max_s = base_s + 3600};
    bench_scan(frames, "_updated", &updated);
    buf_done(&frames->bytes);
    frames_make(frames, PART_GEN_RANDOM);
    bench_get(frames, "_random");
    bench_scan(frames, "_random", &worker);
    buf_done(&frames->bytes);
    mem_free(frames);
    return 0;
}

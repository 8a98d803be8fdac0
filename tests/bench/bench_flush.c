// SPDX-License-Identifier: Apache-2.0
/* bench_flush.c - CPU of the flusher by step: SORT, BUILD into an engine that does nothing, BUILD
 * and APPLY into RocksDB. One unit of 64 MiB in segments of 16 MiB, 16-byte keys, 64-byte values.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/mem.h"
#include "store/flush/flush.h"
#include "store/journal/record.h"

#include "base/banned.h"

enum {
    UNIT_BYTES = 64 * 1024 * 1024,
    SEGMENT_BYTES = 16 * 1024 * 1024,
    TURN_COMMITS = 100,
    SPACE_STRINGS = 1,
    SPACE_ELEMENTS = 2,
};

/* ---- an engine that does nothing ---- */

static enum rc null_get(struct engine *engine, const struct engine_view *view, struct bytes key,
                        enum engine_tier tier, struct buf *value, struct err *err)
{
    (void)engine, (void)view, (void)key, (void)tier, (void)value, (void)err;
    return RC_NOT_FOUND;
}
static enum rc null_iter_open(struct engine *engine, const struct engine_view *view,
                              const struct engine_range *range, struct engine_iter **ret_iter,
                              struct err *err)
{
    (void)engine, (void)view, (void)range, (void)err;
    *ret_iter = NULL;
    return RC_OK;
}
static enum rc null_iter_next(struct engine_iter *iter, struct bytes *ret_key,
                              struct bytes *ret_value, struct err *err)
{
    (void)iter, (void)ret_key, (void)ret_value, (void)err;
    return RC_NOT_FOUND;
}
static void null_iter_close(struct engine_iter *iter)
{
    (void)iter;
}
static enum rc null_unit_open(struct engine *engine, struct engine_unit **ret_unit, struct err *err)
{
    static struct engine_unit unit;
    (void)err;
    unit.engine = engine;
    *ret_unit = &unit;
    return RC_OK;
}
static enum rc null_unit_put(struct engine_unit *unit, struct bytes key, struct bytes value,
                             struct err *err)
{
    (void)unit, (void)key, (void)value, (void)err;
    return RC_OK;
}
static enum rc null_unit_apply(struct engine_unit *unit, struct err *err)
{
    (void)unit, (void)err;
    return RC_OK;
}
static void null_unit_close(struct engine_unit *unit)
{
    (void)unit;
}
static void null_pressure(struct engine *engine, struct engine_pressure *ret_pressure)
{
    (void)engine;
    *ret_pressure = (struct engine_pressure){0};
}

static const struct engine_ops null_ops = {
    .name = "null",
    .get = null_get,
    .iter_open = null_iter_open,
    .iter_next = null_iter_next,
    .iter_close = null_iter_close,
    .unit_open = null_unit_open,
    .unit_put = null_unit_put,
    .unit_apply = null_unit_apply,
    .unit_close = null_unit_close,
    .pressure = null_pressure,
};

/* ---- the journal to flush ---- */

struct bench {
    char dir[256], journal_dir[512], scratch_dir[512], engine_dir[512];
    struct files *files;
    struct clock clock;
    struct rand rand;
    struct space_set spaces;
    struct journal *journal;
    struct record_writer writer;
    uint64_t lsn;
    uint64_t row_count;
    struct err err;
};

static void must(struct bench *bench, enum rc rc)
{
    if (rc == RC_OK)
        return;
    fprintf(stderr, "%s\n", bench->err.text);
    exit(1);
}

static bool no_counters(void *arg, struct buf *to)
{
    (void)arg, (void)to;
    return true;
}

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.files = (struct files *)&files_real};
    snprintf(bench->dir, sizeof bench->dir, "/tmp/bench_flush.%d", (int)getpid());
    snprintf(bench->journal_dir, sizeof bench->journal_dir, "%s/journal", bench->dir);
    snprintf(bench->scratch_dir, sizeof bench->scratch_dir, "%s/scratch", bench->dir);
    snprintf(bench->engine_dir, sizeof bench->engine_dir, "%s/engine", bench->dir);
    must(bench, files_make_dir(bench->files, bench->dir, &bench->err));
    must(bench, files_make_dir(bench->files, bench->scratch_dir, &bench->err));
    clock_init(&bench->clock);
    rand_init_seed(&bench->rand, 1);
    space_set_init(&bench->spaces);
    const struct store_space strings = {
        .number = SPACE_STRINGS, .kind = SPACE_WHOLE, .name = "strings"};
    const struct store_space elements = {
        .number = SPACE_ELEMENTS, .kind = SPACE_FIXED, .fixed_bytes = 24, .name = "elements"};
    must(bench, space_set_add(&bench->spaces, &strings, &bench->err));
    must(bench, space_set_add(&bench->spaces, &elements, &bench->err));
    record_writer_init(&bench->writer, JOURNAL_FRAME_BODY_BYTES_MAX);
    const struct journal_options options = {
        .files = bench->files,
        .dir = bench->journal_dir,
        .clock = &bench->clock,
        .rand = &bench->rand,
        .durability = DURABILITY_NO,
        .segment_bytes = SEGMENT_BYTES,
        .unsynced_bytes_max = JOURNAL_UNSYNCED_BYTES_MAX,
        .manual = true,
        .counters = no_counters,
    };
    const struct journal_start start = {.next_number = 1};
    must(bench, journal_open(&options, &start, &bench->journal, &bench->err));
}

/* Half of the rows are strings, half are elements of a thousand objects; each counts. */
static void turn_write(struct bench *bench)
{
    static const uint8_t prefix[8] = "kv\0\0\0\1d";
    uint8_t group[16] = {0, 5, 0x93}, key[16], value[64];
    bool ok = true;
    record_writer_clear(&bench->writer);
    for (int i = 0; i < TURN_COMMITS; i++) {
        ok = ok && record_commit_begin(&bench->writer);
        snprintf((char *)key, sizeof key, "key:%011u",
                 (unsigned)rand_below(&bench->rand, 100 * 1000 * 1000));
        rand_bytes(&bench->rand, value, sizeof value);
        if (i % 2 == 0) {
            ok = ok && record_add(&bench->writer, RECORD_PUT, SPACE_STRINGS, bytes_of(prefix, 8),
                                  bytes_of(key, 16), BYTES(""), bytes_of(value, 64), 0);
        } else {
            be64_put(group + 8, rand_below(&bench->rand, 1000));
            ok = ok && record_add(&bench->writer, RECORD_PUT, SPACE_ELEMENTS, bytes_of(prefix, 8),
                                  bytes_of(group, 16), bytes_of(key, 16), bytes_of(value, 64), 0);
        }
        ok = ok && record_add(&bench->writer, RECORD_COUNTER_ADD, SPACE_SYS, BYTES(""),
                              BYTES("keys"), BYTES(""), BYTES(""), 1);
        record_commit_end(&bench->writer);
    }
    if (!ok)
        exit(1);
    must(bench, journal_write(bench->journal, bench->lsn + 1, TURN_COMMITS,
                              buf_bytes(&bench->writer.body), &bench->err));
    bench->lsn += TURN_COMMITS;
    bench->row_count += TURN_COMMITS;
    bool worked = true;
    while (worked)
        journal_step(bench->journal, &worked);
}

static void journal_fill(struct bench *bench)
{
    struct journal_status status;
    do {
        turn_write(bench);
        journal_status(bench->journal, &status);
    } while (status.sealed_bytes < UNIT_BYTES);
}

/* ---- measuring ---- */

static double step_ns(struct flush *flush, const struct bench *bench)
{
    struct flush_status before, after;
    bool worked;
    flush_status(flush, &before);
    flush_step(flush, &worked);
    flush_status(flush, &after);
    if (!worked) {
        fprintf(stderr, "%s\n", after.reason);
        exit(1);
    }
    return (double)(after.cpu_ns - before.cpu_ns) / (double)bench->row_count;
}

static void measure(struct bench *bench, struct engine *engine)
{
    const struct flush_options options = {
        .files = bench->files,
        .scratch_dir = bench->scratch_dir,
        .journal = bench->journal,
        .journal_dir = bench->journal_dir,
        .engine = engine,
        .spaces = &bench->spaces,
        .clock = &bench->clock,
        .unit_bytes = 2 * UNIT_BYTES,
        .l0_file_count_max = 100,
        .debt_bytes_max = UINT64_MAX,
        .manual = true,
    };
    struct flush *flush = NULL;
    size_t resident = mem_resident_bytes(), resident_max = 0;
    must(bench, flush_open(&options, &flush, &bench->err));
    flush_ask(flush, UINT64_MAX);
    double pick_ns = step_ns(flush, bench), sort_ns = 0;
    (void)pick_ns;
    for (int i = 0; i < UNIT_BYTES / SEGMENT_BYTES; i++) {
        sort_ns += step_ns(flush, bench);
        if (mem_resident_bytes() > resident_max)
            resident_max = mem_resident_bytes();
    }
    double build_ns = step_ns(flush, bench), apply_ns = step_ns(flush, bench);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%-8s rows %llu  ns a row: sort %.0f  build %.0f  apply %.0f  resident MiB: before %zu"
           "  after a sort %zu  peak %ld\n",
           engine->ops->name, (unsigned long long)bench->row_count, sort_ns, build_ns, apply_ns,
           resident >> 20, resident_max >> 20, usage.ru_maxrss >> 10);
    flush_close(flush); /* before DONE: the segments stay for the next measurement */
}

int main(void)
{
    struct bench bench;
    bench_init(&bench);
    journal_fill(&bench);
    mem_trim();

    struct engine null_engine = {&null_ops};
    for (int i = 0; i < 3; i++)
        measure(&bench, &null_engine);

    const struct engine_options options = {
        .dir = bench.engine_dir,
        .scratch_dir = bench.scratch_dir,
        .spaces = &bench.spaces,
        .cache_bytes = 64 * 1024 * 1024,
    };
    struct engine *engine = NULL;
    must(&bench, engine_rocksdb_ops.open(&options, &engine, &bench.err));
    measure(&bench, engine);
    engine->ops->close(engine);

    journal_abandon(bench.journal);
    record_writer_done(&bench.writer);
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", bench.dir);
    return system(command) == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
/* bench_landing.c - how much faster rows land in batches than one by one: sink_land() of 1000 rows
 * against sink_land() of one row, which is an upsert and a commit, both durable. The median of
 * rounds that alternate.
 *
 *     bench landing.mariadb_bulk VALUE x     wanted: at least 8
 *     bench landing.sqlite_bulk VALUE x      wanted: at least 4 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "models/landing/sink.h"
#include "support/mariadb_fix.h"

#include "base/banned.h"

enum {
    BATCH_ROWS = 1000,
    BATCHES = 5, /* of one round */
    SINGLE_ROWS = 400,
    ROUNDS = 7,
    VALUE_BYTES = 200,
    COLUMNS = 11,
};

static struct sink_column columns[COLUMNS] = {{.name = BYTES("primary_key"), .type = SINK_KEY},
                                              {.name = BYTES("logic_type"), .type = SINK_KEY},
                                              {.name = BYTES("owner_id"), .type = SINK_KEY},
                                              {.name = BYTES("key"), .type = SINK_KEY},
                                              {.name = BYTES("value"), .type = SINK_BLOB},
                                              {.name = BYTES("up_version"), .type = SINK_BIGINT},
                                              {.name = BYTES("is_del"), .type = SINK_BIGINT},
                                              {.name = BYTES("del_time"), .type = SINK_BIGINT},
                                              {.name = BYTES("create_time"), .type = SINK_BIGINT},
                                              {.name = BYTES("update_time"), .type = SINK_BIGINT},
                                              {.name = BYTES("query_all_key"), .type = SINK_KEY}};
static const struct sink_table table = {
    .name = BYTES("app_eu"), .column = columns, .column_count = COLUMNS, .version = 5, .index = 10};

struct rows { /* cells of a batch, and the texts they point to */
    struct sink_cell cell[BATCH_ROWS * COLUMNS];
    char key[BATCH_ROWS][64];
    char owner[BATCH_ROWS][32];
    char all[BATCH_ROWS][40];
    char value[VALUE_BYTES];
};

struct bench {
    struct clock clock;
    struct sink *sink;
    struct rows *rows;
    int64_t version;
    uint64_t next; /* row */
    struct err err;
};

static void must(struct bench *bench, enum rc rc)
{
    if (rc == RC_OK)
        return;
    fprintf(stderr, "%s\n", bench->err.text);
    exit(1);
}

static struct sink_cell text_cell(const char *text, size_t len)
{
    return (struct sink_cell){.kind = SINK_BYTES, .bytes = bytes_of(text, len)};
}

static struct sink_cell number_cell(int64_t number)
{
    return (struct sink_cell){.kind = SINK_INT, .number = number};
}

/* Two thirds are new rows, the rest are updates of the batch before. */
static void make_rows(struct bench *bench, size_t count)
{
    struct rows *rows = bench->rows;
    for (size_t i = 0; i < count; i++) {
        unsigned long long id = bench->next + i;
        struct sink_cell *cell = &rows->cell[i * COLUMNS];
        snprintf(rows->owner[i], sizeof rows->owner[i], "%010llu", id / 10);
        snprintf(rows->all[i], sizeof rows->all[i], "player:%s", rows->owner[i]);
        snprintf(rows->key[i], sizeof rows->key[i], "%s:field%llu", rows->all[i], id % 10);
        cell[0] = text_cell(rows->key[i], strlen(rows->key[i]));
        cell[1] = text_cell("player", 6);
        cell[2] = text_cell(rows->owner[i], strlen(rows->owner[i]));
        cell[3] = text_cell(rows->key[i] + strlen(rows->all[i]) + 1, 6);
        cell[4] = text_cell(rows->value, VALUE_BYTES);
        cell[5] = number_cell(++bench->version);
        cell[6] = cell[7] = number_cell(0);
        cell[8] = cell[9] = number_cell(1700000000000);
        cell[10] = text_cell(rows->all[i], strlen(rows->all[i]));
    }
    bench->next += count - count / 3;
}

static void land(struct bench *bench, size_t row, size_t count)
{
    static const size_t places[COLUMNS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const enum sink_use uses[COLUMNS] = {[8] = SINK_KEEP};
    const struct sink_change change = {.table = &table,
                                       .kind = SINK_UPSERT,
                                       .upsert = {.column = places,
                                                  .use = uses,
                                                  .column_count = COLUMNS,
                                                  .cell = &bench->rows->cell[row * COLUMNS],
                                                  .row_count = count}};
    must(bench, sink_land(bench->sink, &change, 1, NULL, &bench->err));
}

/* Rows a second. */
static double measure(struct bench *bench, size_t batch_rows, size_t row_count)
{
    uint64_t spent_ns = 0;
    for (size_t done = 0; done < row_count;) {
        size_t count = row_count - done < BATCH_ROWS ? row_count - done : BATCH_ROWS;
        make_rows(bench, count);
        uint64_t start_ns = clock_mono_ns(&bench->clock);
        for (size_t row = 0; row < count; row += batch_rows)
            land(bench, row, batch_rows);
        spent_ns += clock_mono_ns(&bench->clock) - start_ns;
        done += count;
    }
    return (double)row_count * 1e9 / (double)spent_ns;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value)
{
    qsort(value, ROUNDS, sizeof *value, by_value);
    return value[ROUNDS / 2];
}

static void run(struct bench *bench, const char *url, const char *name)
{
    double bulk[ROUNDS], single[ROUNDS];
    must(bench, sink_open(url, "", &bench->sink, &bench->err));
    must(bench, sink_create(bench->sink, &table, &bench->err));
    (void)measure(bench, BATCH_ROWS, BATCH_ROWS); /* statements are prepared */
    for (size_t i = 0; i < ROUNDS; i++) {
        single[i] = measure(bench, 1, SINGLE_ROWS);
        bulk[i] = measure(bench, BATCH_ROWS, (size_t)BATCH_ROWS * BATCHES);
    }
    double fast = median(bulk), slow = median(single);
    printf("%-8s %9.0f rows/s in batches of %d, %7.0f one by one\n", name, fast, BATCH_ROWS, slow);
    printf("bench landing.%s_bulk %.1f x\n", name, fast / slow);
    sink_close(bench->sink);
}

static void run_mariadb(struct bench *bench)
{
    struct mariadb server;
    char url[400];
    if (!mariadb_init(&server))
        exit(1);
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%u/mysql", server.port);
    run(bench, url, "mariadb");
    mariadb_done(&server);
}

static void run_sqlite(struct bench *bench)
{
    const char *top = getenv("TMPDIR");
    char path[300], url[400];
    snprintf(path, sizeof path, "%s/bench_landing.%d.db", top && *top ? top : "/tmp",
             (int)getpid());
    snprintf(url, sizeof url, "sqlite:%s", path);
    run(bench, url, "sqlite");
    unlink(path);
}

int main(void)
{
    struct bench bench = {.rows = mem_zalloc(sizeof *bench.rows)};
    clock_init(&bench.clock);
    memset(bench.rows->value, 'v', sizeof bench.rows->value);
    run_sqlite(&bench);
    run_mariadb(&bench);
    mem_free(bench.rows);
    return 0;
}

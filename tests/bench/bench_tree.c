// SPDX-License-Identifier: Apache-2.0
/* bench_tree.c - CPU and memory of rows in a tree: random puts into a million rows of 16 + 64
 * bytes, and puts into groups of a few. */
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/rand.h"
#include "store/hot/tree.h"

#include "base/banned.h"

enum { ROWS = 1000000, PART = 10000, GROUPS = 1000, FIELDS = 10, ROUNDS = 200 };
_Static_assert(GROUPS *FIELDS == PART, "one round is one part");

struct bench {
    struct meter meter;
    struct tree tree;
    struct buf keep;
    struct rand rand;
    uint8_t value[64];
};

/* Keys follow from their number: a table of them would cost a cache miss of its own. */
static struct bytes key_of(uint64_t number, uint64_t to[2])
{
    for (int i = 0; i < 2; i++) {
        number += UINT64_C(0x9e3779b97f4a7c15);
        number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
        to[i] = number ^ number >> 31;
    }
    return bytes_of(to, 16);
}

static void put(struct bench *bench, struct tree *tree, struct bytes suffix, struct bytes value)
{
    struct tree_old old;
    enum rc rc = tree_put(tree, &bench->meter, 1, suffix, value, &bench->keep, &old);
    ASSERT(rc == RC_OK);
    bench->keep.len = 0;
}

/* Times parts of the work and tells the average and the best part: what the machine does when
 * nobody else uses its caches. */
struct timing {
    uint64_t start_ns, sum_ns, best_ns, count;
};

static void timing_start(struct timing *timing)
{
    timing->start_ns = clock_thread_cpu_ns();
}

static void timing_stop(struct timing *timing)
{
    uint64_t took_ns = clock_thread_cpu_ns() - timing->start_ns;
    timing->sum_ns += took_ns;
    timing->best_ns = timing->count++ && timing->best_ns < took_ns ? timing->best_ns : took_ns;
}

static void timing_print(const struct timing *timing, const char *what)
{
    printf("%-40s %6.1f ns, at best %6.1f\n", what,
           (double)timing->sum_ns / (double)(timing->count * PART), (double)timing->best_ns / PART);
}

static void bench_large(struct bench *bench)
{
    uint64_t key[2];
    struct bytes value = bytes_of(bench->value, sizeof bench->value);
    struct timing insert = {0}, overwrite = {0}, more = {0}, seek = {0}, remove = {0};
    struct tree_pos pos;
    struct tree_old old;
    tree_init(&bench->tree, true);
    for (uint64_t i = 0; i < ROWS; i += PART) {
        timing_start(&insert);
        for (uint64_t n = 0; n < PART; n++)
            put(bench, &bench->tree, key_of(i + n, key), value);
        timing_stop(&insert);
    }
    printf("%.1f bytes a row of 16+64, height %d\n", (double)bench->meter.total_bytes / ROWS,
           bench->tree.height);
    for (uint64_t i = 0; i < ROWS; i += PART) {
        timing_start(&overwrite);
        for (uint64_t n = 0; n < PART; n++)
            put(bench, &bench->tree, key_of(rand_below(&bench->rand, ROWS), key), value);
        timing_stop(&overwrite);
    }
    for (uint64_t i = 0; i < ROWS / 4; i += PART) {
        timing_start(&more);
        for (uint64_t n = 0; n < PART; n++)
            put(bench, &bench->tree, key_of(ROWS + i + n, key), value);
        timing_stop(&more);
    }
    for (uint64_t i = 0; i < ROWS; i += PART) {
        timing_start(&seek);
        for (uint64_t n = 0; n < PART; n++) {
            tree_seek(&bench->tree, key_of(rand_below(&bench->rand, ROWS), key), &pos);
            ASSERT(pos.exact);
        }
        timing_stop(&seek);
    }
    for (uint64_t i = 0; i < ROWS / 4; i += PART) {
        timing_start(&remove);
        for (uint64_t n = 0; n < PART; n++) {
            enum rc rc = tree_delete(&bench->tree, &bench->meter, 1, key_of((i + n) * 3, key),
                                     &bench->keep, &old);
            ASSERT(rc == RC_OK);
            bench->keep.len = 0;
        }
        timing_stop(&remove);
    }
    timing_print(&insert, "insert, random, 0 to 1M rows");
    timing_print(&more, "insert, random, 1M to 1.25M rows");
    timing_print(&overwrite, "overwrite, random, of 1M rows");
    timing_print(&seek, "seek, random, of 1.25M rows");
    timing_print(&remove, "delete, random, of 1.25M rows");
    tree_done(&bench->tree, &bench->meter);
    ASSERT(bench->meter.total_bytes == 0);
}

static void fields_put(struct bench *bench, struct tree *tree)
{
    for (int i = 0; i < FIELDS; i++) {
        uint8_t field[8] = "field_x";
        field[6] = (uint8_t)('a' + i * 7 % 26);
        put(bench, tree, bytes_of(field, 7), bytes_of(bench->value, 10));
    }
}

static void bench_small(struct bench *bench)
{
    static struct tree tree[GROUPS];
    struct timing insert = {0}, overwrite = {0};
    for (int round = 0; round < ROUNDS; round++) {
        timing_start(&insert);
        for (int g = 0; g < GROUPS; g++) {
            tree_init(&tree[g], true);
            fields_put(bench, &tree[g]);
        }
        timing_stop(&insert);
        timing_start(&overwrite);
        for (int g = 0; g < GROUPS; g++)
            fields_put(bench, &tree[g]);
        timing_stop(&overwrite);
        for (int g = 0; g < GROUPS; g++)
            tree_done(&tree[g], &bench->meter);
    }
    timing_print(&insert, "insert into a group of up to 10 rows");
    timing_print(&overwrite, "overwrite in a group of 10 rows");
}

int main(void)
{
    struct bench bench = {0};
    meter_init(&bench.meter, 0);
    buf_init(&bench.keep, 1 << 20);
    rand_init_seed(&bench.rand, 7);
    rand_bytes(&bench.rand, bench.value, sizeof bench.value);
    bench_large(&bench);
    bench_small(&bench);
    buf_done(&bench.keep);
    meter_done(&bench.meter);
    return 0;
}

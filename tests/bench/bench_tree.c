/* CPU and memory of rows in a tree: random puts into a million rows of 16 + 64 bytes, and puts into
 * groups of a few. */
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/rand.h"
#include "store/tree.h"

#include "base/banned.h"

enum { ROWS = 1000000, GROUPS = 1000, FIELDS = 10, ROUNDS = 100 };

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

static void report(const char *what, uint64_t start_ns, uint64_t count)
{
    printf("%-40s %6.1f ns\n", what, (double)(clock_thread_cpu_ns() - start_ns) / (double)count);
}

static void bench_large(struct bench *bench)
{
    uint64_t key[2];
    struct bytes value = bytes_of(bench->value, sizeof bench->value);
    tree_init(&bench->tree, true);
    uint64_t start_ns = clock_thread_cpu_ns();
    for (uint64_t i = 0; i < ROWS; i++)
        put(bench, &bench->tree, key_of(i, key), value);
    report("insert, random, 0 to 1M rows", start_ns, ROWS);
    printf("%-40s %6.1f bytes a row, height %d\n", "", (double)bench->meter.total_bytes / ROWS,
           bench->tree.height);

    start_ns = clock_thread_cpu_ns();
    for (int i = 0; i < ROWS; i++)
        put(bench, &bench->tree, key_of(rand_below(&bench->rand, ROWS), key), value);
    report("overwrite, random, of 1M rows", start_ns, ROWS);

    start_ns = clock_thread_cpu_ns();
    for (uint64_t i = 0; i < ROWS / 4; i++)
        put(bench, &bench->tree, key_of(ROWS + i, key), value);
    report("insert, random, 1M to 1.25M rows", start_ns, ROWS / 4);

    struct tree_pos pos;
    start_ns = clock_thread_cpu_ns();
    for (int i = 0; i < ROWS; i++) {
        tree_seek(&bench->tree, key_of(rand_below(&bench->rand, ROWS), key), &pos);
        ASSERT(pos.exact);
    }
    report("seek, random, of 1.25M rows", start_ns, ROWS);

    struct tree_old old;
    start_ns = clock_thread_cpu_ns();
    for (uint64_t i = 0; i < ROWS / 4; i++) {
        enum rc rc =
            tree_delete(&bench->tree, &bench->meter, 1, key_of(i * 3, key), &bench->keep, &old);
        ASSERT(rc == RC_OK);
        bench->keep.len = 0;
    }
    report("delete, random, of 1.25M rows", start_ns, ROWS / 4);
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
    uint64_t insert_ns = 0, overwrite_ns = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start_ns = clock_thread_cpu_ns();
        for (int g = 0; g < GROUPS; g++) {
            tree_init(&tree[g], true);
            fields_put(bench, &tree[g]);
        }
        uint64_t middle_ns = clock_thread_cpu_ns();
        for (int g = 0; g < GROUPS; g++)
            fields_put(bench, &tree[g]);
        overwrite_ns += clock_thread_cpu_ns() - middle_ns;
        insert_ns += middle_ns - start_ns;
        for (int g = 0; g < GROUPS; g++)
            tree_done(&tree[g], &bench->meter);
    }
    double count = (double)GROUPS * FIELDS * ROUNDS;
    printf("%-40s %6.1f ns\n", "insert into a group of up to 10 rows", (double)insert_ns / count);
    printf("%-40s %6.1f ns\n", "overwrite in a group of 10 rows", (double)overwrite_ns / count);
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

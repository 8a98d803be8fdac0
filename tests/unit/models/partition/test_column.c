// SPDX-License-Identifier: Apache-2.0
#include "models/partition/column.h"

#include "base/mem.h"
#include "base/rand.h"
#include "models/partition/column_int.h"
#include "test.h"

#include "base/banned.h"

enum { VALUES_MAX = 5000, BYTES_MAX = 1 << 20 };

struct fix {
    struct rand rand;
    int64_t *values;
    int64_t *back;
    struct buf buf;
    struct column columns[4];
    const struct column *column;
};

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){0};
    rand_init_seed(&fix->rand, 5);
    fix->values = mem_alloc(VALUES_MAX * sizeof *fix->values);
    fix->back = mem_alloc(VALUES_MAX * sizeof *fix->back);
    buf_init(&fix->buf, BYTES_MAX);
}

static void fix_done(struct fix *fix)
{
    mem_free(fix->values);
    mem_free(fix->back);
    buf_done(&fix->buf);
}

/* Values at some indexes, up to `step` from each other, and sums before them. */
static void gather_check(struct fix *fix, size_t count, uint64_t step)
{
    uint32_t *index = mem_alloc(count * sizeof *index);
    size_t gathered = 0, summed = 0;
    int64_t sum = 0;
    for (size_t at = rand_below(&fix->rand, step); at < count;
         at += 1 + rand_below(&fix->rand, step))
        index[gathered++] = (uint32_t)at;
    column_gather(fix->column, index, gathered, fix->back);
    for (size_t i = 0; i < gathered; i++)
        ASSERT_EQ(fix->back[i], fix->values[index[i]]);
    if (column_sums_quickly(fix->column)) {
        column_sums(fix->column, index, gathered, fix->back);
        for (size_t i = 0; i < gathered; i++) {
            while (summed < index[i])
                sum = wrap_add(sum, fix->values[summed++]);
            ASSERT_EQ(fix->back[i], sum);
        }
    }
    mem_free(index);
}

/* Encodes, opens, and compares whole, piece by piece and one by one. */
static void fix_check(struct fix *fix, size_t count)
{
    struct column_pool pool = {.column = fix->columns, .max = ARRAY_LEN(fix->columns)};
    buf_cut(&fix->buf, 0);
    ASSERT_TRUE(column_encode(fix->values, count, &fix->buf));
    /* Exactly as large as the column: a sanitizer sees a read behind it. */
    uint8_t *copy = mem_dup(fix->buf.ptr, fix->buf.len);
    const uint8_t *from = copy;
    fix->column = column_open(&pool, &from, copy + fix->buf.len, count);
    ASSERT_TRUE(fix->column != NULL);
    ASSERT_EQ(from - copy, fix->buf.len);
    column_read(fix->column, 0, count, fix->back);
    ASSERT_TRUE(memcmp(fix->back, fix->values, count * sizeof *fix->values) == 0);
    for (int i = 0; i < 20; i++) {
        size_t start = rand_below(&fix->rand, count);
        size_t part = 1 + rand_below(&fix->rand, count - start);
        column_read(fix->column, start, part, fix->back);
        ASSERT_TRUE(memcmp(fix->back, fix->values + start, part * sizeof *fix->values) == 0);
        ASSERT_EQ(column_get(fix->column, start), fix->values[start]);
    }
    for (uint64_t step = 1; step < 1000; step *= 6)
        gather_check(fix, count, step);
    mem_free(copy);
}

static size_t random_count(struct rand *rand)
{
    static const size_t counts[] = {1,   2,   3,   4,    255,  256,  257,
                                    258, 512, 513, 1000, 1024, 1025, 4097};
    return rand_below(rand, 2) ? counts[rand_below(rand, ARRAY_LEN(counts))]
                               : 1 + rand_below(rand, VALUES_MAX);
}

enum { SHAPES = 11 };

static int64_t shaped(struct rand *rand, uint64_t shape, size_t i, int64_t before)
{
    switch (shape) {
    case 0:
        return 7;
    case 1:
        return (int64_t)rand_u64(rand);
    case 2:
        return (int64_t)rand_below(rand, 50);
    case 3:
        return 1000 + (int64_t)i * 6;
    case 4:
        return wrap_add(before, (int64_t)rand_below(rand, 12) - 1);
    case 5:
        return rand_below(rand, 50) ? 1000 : (int64_t)rand_below(rand, 1000);
    case 6:
        return rand_below(rand, 40) ? before : (int64_t)rand_below(rand, 1 << 20);
    case 7:
        return (int64_t)i * (int64_t)i * 3 + (int64_t)rand_below(rand, 2);
    case 8:
        return INT64_MAX - (int64_t)(rand_below(rand, 3) * 0x123456789ab);
    case 10: { /* geometric */
        int64_t value = 0;
        while (rand_below(rand, 200))
            value++;
        return value;
    }
    default: /* many small ones, a few huge */
        return (int64_t)(rand_u64(rand) >> (rand_below(rand, 30) ? 56 : 1));
    }
}

TEST(a_column_gives_back_what_was_put_in)
{
    struct fix fix;
    fix_init(&fix);
    for (int round = 0; round < 400; round++) {
        size_t count = random_count(&fix.rand);
        uint64_t shape = (uint64_t)round % SHAPES;
        for (size_t i = 0; i < count; i++)
            fix.values[i] = shaped(&fix.rand, shape, i, i ? fix.values[i - 1] : 1 << 20);
        fix_check(&fix, count);
    }
    fix_done(&fix);
}

TEST(a_column_of_borders_of_64_bits_comes_back)
{
    static const int64_t border[] = {INT64_MIN, INT64_MAX, 0, -1, 1, INT64_C(1) << 32};
    struct fix fix;
    fix_init(&fix);
    for (int round = 0; round < 200; round++) {
        size_t count = 1 + rand_below(&fix.rand, 600);
        for (size_t i = 0; i < count; i++)
            fix.values[i] = border[rand_below(&fix.rand, ARRAY_LEN(border))];
        fix_check(&fix, count);
    }
    fix_done(&fix);
}

/* The shapes the design names take the forms it names, and the bytes. */
TEST(every_form_is_chosen_where_it_is_the_smallest)
{
    static const struct {
        uint64_t shape;
        enum column_transform transform;
        enum column_kind kind;
        size_t bytes_max;
    } row[] = {
        {0, COLUMN_PLAIN, COLUMN_CONST, 2},    {1, COLUMN_PLAIN, COLUMN_BITS, 8020},
        {2, COLUMN_PLAIN, COLUMN_RADIX, 725},  {3, COLUMN_LINEAR, COLUMN_CONST, 8},
        {4, COLUMN_DELTA, COLUMN_RADIX, 480},  {5, COLUMN_PLAIN, COLUMN_PATCH, 70},
        {6, COLUMN_PLAIN, COLUMN_RUNS, 130},   {7, COLUMN_DELTA2, COLUMN_RADIX, 420},
        {9, COLUMN_PLAIN, COLUMN_PATCH, 1400}, {10, COLUMN_PLAIN, COLUMN_RICE, 1200},
    };
    struct fix fix;
    fix_init(&fix);
    for (size_t r = 0; r < ARRAY_LEN(row); r++) {
        for (size_t i = 0; i < 1000; i++)
            fix.values[i] = shaped(&fix.rand, row[r].shape, i, i ? fix.values[i - 1] : 1 << 20);
        fix_check(&fix, 1000);
        ASSERT_EQ(fix.column->transform, row[r].transform);
        ASSERT_EQ(fix.column->kind, row[r].kind);
        ASSERT_LE(fix.buf.len, row[r].bytes_max);
    }
    for (size_t i = 0; i < 1000; i++) /* far apart, and only five of them */
        fix.values[i] = (int64_t)(rand_below(&fix.rand, 5) * 0x1111111111111);
    fix_check(&fix, 1000);
    ASSERT_EQ(fix.column->kind, COLUMN_DICT);
    fix_done(&fix);
}

TEST(lower_bound_finds_the_first_value_that_is_not_less)
{
    struct fix fix;
    fix_init(&fix);
    for (int round = 0; round < 100; round++) {
        size_t count = random_count(&fix.rand);
        int64_t value = (int64_t)rand_below(&fix.rand, 100);
        for (size_t i = 0; i < count; i++)
            fix.values[i] = value += (int64_t)rand_below(&fix.rand, 1 + (uint64_t)round / 10);
        struct column_pool pool = {.column = fix.columns, .max = ARRAY_LEN(fix.columns)};
        buf_cut(&fix.buf, 0);
        ASSERT_TRUE(column_encode(fix.values, count, &fix.buf));
        const uint8_t *from = fix.buf.ptr;
        const struct column *column = column_open(&pool, &from, from + fix.buf.len, count);
        for (int i = 0; i < 50; i++) {
            int64_t wanted = (int64_t)rand_below(&fix.rand, (uint64_t)value + 10);
            size_t expected = 0;
            while (expected < count && fix.values[expected] < wanted)
                expected++;
            ASSERT_EQ(column_lower_bound(column, wanted), expected);
        }
    }
    fix_done(&fix);
}

TEST(a_cut_column_does_not_open)
{
    struct fix fix;
    fix_init(&fix);
    for (uint64_t shape = 0; shape < SHAPES; shape++) {
        for (size_t i = 0; i < 300; i++)
            fix.values[i] = shaped(&fix.rand, shape, i, i ? fix.values[i - 1] : 0);
        buf_cut(&fix.buf, 0);
        ASSERT_TRUE(column_encode(fix.values, 300, &fix.buf));
        for (size_t len = 0; len < fix.buf.len; len++) {
            uint8_t *copy = mem_dup(fix.buf.ptr, len);
            const uint8_t *from = copy;
            struct column_pool pool = {.column = fix.columns, .max = ARRAY_LEN(fix.columns)};
            ASSERT_TRUE(column_open(&pool, &from, copy + len, 300) == NULL);
            mem_free(copy);
        }
    }
    fix_done(&fix);
}

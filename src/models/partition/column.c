// SPDX-License-Identifier: Apache-2.0
/* column.c - reads packed columns: one value, a run, a search. */
#include "models/partition/column.h"

#include "base/macros.h"
#include "models/partition/bits.h"
#include "models/partition/column_int.h"

#include "base/banned.h"

/* ---- opening: every length is checked here, so that reading needs no checks of its own ---- */

static bool zigzag_get(const uint8_t **from, const uint8_t *end, int64_t *ret_value)
{
    uint64_t code;
    if (!uvarint_get(from, end, &code))
        return false;
    *ret_value = zigzag_decode(code);
    return true;
}

static bool byte_get(const uint8_t **from, const uint8_t *end, uint8_t max, uint8_t *ret_value)
{
    if (*from >= end || **from > max)
        return false;
    *ret_value = *(*from)++;
    return true;
}

static bool data_get(const uint8_t **from, const uint8_t *end, size_t len, struct bytes *ret_data)
{
    if ((size_t)(end - *from) < len)
        return false;
    *ret_data = bytes_of(*from, len);
    *from += len;
    return true;
}

static bool sync_open(struct column_sync *sync, const uint8_t **from, const uint8_t *end,
                      size_t count)
{
    uint8_t width;
    size_t point_count = (count - 1) / COLUMN_SYNC;
    if (point_count == 0)
        return true;
    if (!zigzag_get(from, end, &sync->base) || !byte_get(from, end, 64, &width))
        return false;
    sync->width = width;
    return data_get(from, end, bits_bytes(point_count, width), &sync->data);
}

static bool transform_open(struct column *column, const uint8_t **from, const uint8_t *end)
{
    size_t count = column->count;
    switch ((enum column_transform)column->transform) {
    case COLUMN_PLAIN:
        column->inner_count = (uint32_t)count;
        return true;
    case COLUMN_LINEAR:
        column->inner_count = (uint32_t)count;
        return zigzag_get(from, end, &column->slope);
    case COLUMN_DELTA:
        column->inner_count = (uint32_t)count - 1;
        return count >= 2 && zigzag_get(from, end, &column->first) &&
               sync_open(&column->sync, from, end, count);
    case COLUMN_DELTA2:
        column->inner_count = (uint32_t)count - 2;
        return count >= 3 && zigzag_get(from, end, &column->first) &&
               zigzag_get(from, end, &column->first_delta) &&
               sync_open(&column->sync, from, end, count) &&
               sync_open(&column->sync_delta, from, end, count);
    }
    return false;
}

static size_t ones_count(struct bytes data)
{
    size_t count = 0;
    for (size_t at = 0; at < data.len; at += 8)
        count += bits_ones(bits_word(data, at));
    return count;
}

static bool radix_open(struct column *column, const uint8_t **from, const uint8_t *end)
{
    if (!uvarint_get(from, end, &column->radix) || column->radix < 2 ||
        column->radix > COLUMN_RADIX_MAX)
        return false;
    if (!byte_get(from, end, 48, &column->group_codes) || column->group_codes == 0 ||
        !byte_get(from, end, 6, &column->group_bytes) || column->group_bytes == 0)
        return false;
    column->inverse = UINT64_MAX / column->radix + 1;
    size_t group_count = (column->inner_count + column->group_codes - 1) / column->group_codes;
    return data_get(from, end, group_count * column->group_bytes, &column->data);
}

static bool rice_open(struct column *column, const uint8_t **from, const uint8_t *end)
{
    uint64_t high_bytes;
    size_t count = column->inner_count;
    if (!byte_get(from, end, 63, &column->width) || !uvarint_get(from, end, &high_bytes))
        return false;
    if (high_bytes > (size_t)(end - *from))
        return false;
    return data_get(from, end, (count - 1) / COLUMN_SAMPLE * 4, &column->samples) &&
           data_get(from, end, bits_bytes(count, column->width), &column->data) &&
           data_get(from, end, (size_t)high_bytes, &column->high) &&
           ones_count(column->high) == count;
}

static struct column *open_at(struct column_pool *pool, const uint8_t **from, const uint8_t *end,
                              size_t count, bool inside);

static bool children_open(struct column *column, struct column_pool *pool, const uint8_t **from,
                          const uint8_t *end)
{
    uint64_t child_count;
    if (!uvarint_get(from, end, &child_count) || child_count == 0 ||
        child_count > column->inner_count)
        return false;
    column->child_count = (uint32_t)child_count;
    size_t counts[3] = {column->child_count, column->child_count, 0};
    if (column->kind == COLUMN_PATCH) {
        counts[0] = column->inner_count;
        counts[2] = column->child_count;
    } else if (column->kind == COLUMN_DICT) {
        counts[1] = column->inner_count;
    }
    for (size_t i = 0; i < ARRAY_LEN(counts) && counts[i] > 0; i++) {
        column->child[i] = open_at(pool, from, end, counts[i], true);
        if (!column->child[i])
            return false;
    }
    return true;
}

static bool kind_open(struct column *column, struct column_pool *pool, const uint8_t **from,
                      const uint8_t *end, bool inside)
{
    if (column->kind <= COLUMN_RICE && !zigzag_get(from, end, &column->base))
        return false;
    switch ((enum column_kind)column->kind) {
    case COLUMN_CONST:
        return true;
    case COLUMN_BITS:
        return byte_get(from, end, 64, &column->width) &&
               data_get(from, end, bits_bytes(column->inner_count, column->width), &column->data);
    case COLUMN_RADIX:
        return radix_open(column, from, end);
    case COLUMN_RICE:
        return rice_open(column, from, end);
    case COLUMN_RUNS:
    case COLUMN_PATCH:
    case COLUMN_DICT:
        return !inside && children_open(column, pool, from, end);
    }
    return false;
}

static struct column *open_at(struct column_pool *pool, const uint8_t **from, const uint8_t *end,
                              size_t count, bool inside)
{
    if (pool->count == pool->max || *from >= end)
        return NULL;
    struct column *column = &pool->column[pool->count++];
    *column = (struct column){
        .count = (uint32_t)count, .kind = **from & 15, .transform = (uint8_t)(**from >> 4)};
    (*from)++;
    if (!transform_open(column, from, end) || !kind_open(column, pool, from, end, inside))
        return NULL;
    return column;
}

struct column *column_open(struct column_pool *pool, const uint8_t **from, const uint8_t *end,
                           size_t count)
{
    ASSERT(count > 0 && count <= UINT32_MAX);
    return open_at(pool, from, end, count, false);
}

/* ---- reading what a kind stores ---- */

static void bits_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    unsigned width = column->width;
    uint64_t bit = (uint64_t)from * width, mask = bits_mask(width);
    struct bytes data = column->data;
    size_t i = 0;

    if (width <= 56) /* one unaligned word holds a whole field */
        for (; i < count && (bit >> 3) + 8 <= data.len; i++, bit += width)
            to[i] = wrap_add(column->base,
                             (int64_t)(le64_get(data.ptr + (bit >> 3)) >> (bit & 7) & mask));
    for (; i < count; i++, bit += width)
        to[i] = wrap_add(column->base, (int64_t)bits_get(data, bit, width));
}

static inline uint64_t radix_divide(const struct column *column, uint64_t value)
{
    return (uint64_t)(((unsigned __int128)value * column->inverse) >> 64);
}

static void radix_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    size_t codes = column->group_codes, bytes = column->group_bytes;
    size_t group = from / codes, skip = from % codes;
    uint64_t mask = bits_mask((unsigned)bytes * 8);

    for (size_t done = 0; done < count; group++, skip = 0) {
        uint64_t number = bits_word(column->data, group * bytes) & mask;
        size_t part = codes - skip < count - done ? codes - skip : count - done;
        for (size_t i = 0; i < skip; i++)
            number = radix_divide(column, number);
        for (size_t i = 0; i < part; i++) {
            uint64_t rest = radix_divide(column, number);
            to[done++] = wrap_add(column->base, (int64_t)(number - rest * column->radix));
            number = rest;
        }
    }
}

/* The bit behind the n-th one after `bit`; n may be 0. */
static uint64_t ones_skip(struct bytes data, uint64_t bit, size_t n)
{
    if (n == 0)
        return bit;
    uint64_t base = bit & ~UINT64_C(63);
    uint64_t word = bits_word(data, (size_t)(base >> 3)) & ~bits_mask((unsigned)(bit & 63));
    for (;;) {
        size_t ones = bits_ones(word);
        if (ones >= n)
            break;
        n -= ones;
        base += 64;
        if (base >> 3 >= data.len)
            return (uint64_t)data.len * 8;
        word = bits_word(data, (size_t)(base >> 3));
    }
    while (--n)
        word &= word - 1;
    return base + (unsigned)__builtin_ctzll(word) + 1;
}

static uint64_t rice_start(const struct column *column, size_t index)
{
    size_t sample = index / COLUMN_SAMPLE;
    uint64_t bit = sample ? le32_get(column->samples.ptr + (sample - 1) * 4) : 0;
    return ones_skip(column->high, bit, index % COLUMN_SAMPLE);
}

static void rice_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    struct bytes high = column->high;
    uint64_t bit = rice_start(column, from), base = bit & ~UINT64_C(63);
    uint64_t word = bits_word(high, (size_t)(base >> 3)) & ~bits_mask((unsigned)(bit & 63));
    unsigned width = column->width;
    uint64_t low_bit = (uint64_t)from * width, mask = bits_mask(width);

    for (size_t i = 0; i < count; i++, low_bit += width) {
        while (word == 0 && base >> 3 < high.len) {
            base += 64;
            word = bits_word(high, (size_t)(base >> 3));
        }
        uint64_t one = word ? base + (unsigned)__builtin_ctzll(word) : bit;
        word &= word - 1;
        uint64_t upper = (one - bit) << width, low;
        if (LIKELY(width <= 56 && (low_bit >> 3) + 8 <= column->data.len))
            low = le64_get(column->data.ptr + (low_bit >> 3)) >> (low_bit & 7) & mask;
        else
            low = bits_get(column->data, low_bit, width);
        to[i] = wrap_add(column->base, (int64_t)(upper | low));
        bit = one + 1;
    }
}

static void runs_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    const struct column *values = column->child[0], *ends = column->child[1];
    size_t run = column_lower_bound(ends, (int64_t)from + 1), done = 0;

    for (; done < count && run < column->child_count; run++) {
        int64_t end = column_get(ends, run), value = column_get(values, run);
        while (done < count && (int64_t)(from + done) < end)
            to[done++] = value;
    }
    while (done < count) /* the ends were damaged before they were checksummed */
        to[done++] = 0;
}

static size_t lower_bound_in(const int64_t *values, size_t count, int64_t value)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = (low + count) / 2;
        if (values[middle] < value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static void patch_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    const struct column *positions = column->child[1], *values = column->child[2];
    int64_t position[COLUMN_SYNC];
    size_t start = 0, exceptions = column->child_count;

    column_read(column->child[0], from, count, to);
    if (exceptions > COLUMN_SYNC)
        start = column_lower_bound(positions, (int64_t)from);
    for (; start < exceptions; start += COLUMN_SYNC) {
        size_t part = exceptions - start < COLUMN_SYNC ? exceptions - start : COLUMN_SYNC;
        column_read(positions, start, part, position);
        for (size_t i = lower_bound_in(position, part, (int64_t)from); i < part; i++) {
            uint64_t offset = (uint64_t)position[i] - from;
            if (offset >= count)
                return;
            to[offset] = column_get(values, start + i);
        }
    }
}

static void dict_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    column_read(column->child[1], from, count, to);
    for (size_t i = 0; i < count; i++) {
        uint64_t code = (uint64_t)to[i];
        to[i] = code < column->child_count ? column_get(column->child[0], (size_t)code) : 0;
    }
}

static void inner_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    switch ((enum column_kind)column->kind) {
    case COLUMN_CONST:
        for (size_t i = 0; i < count; i++)
            to[i] = column->base;
        return;
    case COLUMN_BITS:
        bits_read(column, from, count, to);
        return;
    case COLUMN_RADIX:
        radix_read(column, from, count, to);
        return;
    case COLUMN_RICE:
        rice_read(column, from, count, to);
        return;
    case COLUMN_RUNS:
        runs_read(column, from, count, to);
        return;
    case COLUMN_PATCH:
        patch_read(column, from, count, to);
        return;
    case COLUMN_DICT:
        dict_read(column, from, count, to);
        return;
    }
}

/* ---- undoing the transforms ---- */

static int64_t sync_get(const struct column_sync *sync, int64_t first, size_t block)
{
    if (block == 0)
        return first;
    uint64_t field = bits_get(sync->data, (uint64_t)(block - 1) * sync->width, sync->width);
    return wrap_add(sync->base, (int64_t)field);
}

/* Values [from, to_index) of one block between sync points. */
static void delta_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    int64_t step[COLUMN_SYNC];
    size_t block = from / COLUMN_SYNC, start = block * COLUMN_SYNC, last = from + count - 1;
    int64_t value = sync_get(&column->sync, column->first, block);

    if (last > start)
        inner_read(column, start, last - start, step);
    for (size_t i = start; i <= last; i++) {
        if (i >= from)
            to[i - from] = value;
        if (i < last)
            value = wrap_add(value, step[i - start]);
    }
}

static void delta2_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    int64_t step[COLUMN_SYNC];
    size_t block = from / COLUMN_SYNC, start = block * COLUMN_SYNC, last = from + count - 1;
    int64_t value = sync_get(&column->sync, column->first, block);
    int64_t delta = sync_get(&column->sync_delta, column->first_delta, block);

    if (last > start + 1)
        inner_read(column, start, last - start - 1, step);
    for (size_t i = start; i <= last; i++) {
        if (i >= from)
            to[i - from] = value;
        value = wrap_add(value, delta);
        if (i + 1 < last)
            delta = wrap_add(delta, step[i - start]);
    }
}

void column_read(const struct column *column, size_t from, size_t count, int64_t *to)
{
    ASSERT(from + count <= column->count);
    if (column->transform == COLUMN_PLAIN || column->transform == COLUMN_LINEAR) {
        inner_read(column, from, count, to);
        if (column->transform == COLUMN_LINEAR)
            for (size_t i = 0; i < count; i++)
                to[i] = wrap_add(to[i], column_slope_at(column->slope, from + i));
        return;
    }
    while (count > 0) {
        size_t part = COLUMN_SYNC - from % COLUMN_SYNC;
        if (part > count)
            part = count;
        if (column->transform == COLUMN_DELTA)
            delta_read(column, from, part, to);
        else
            delta2_read(column, from, part, to);
        from += part;
        to += part;
        count -= part;
    }
}

int64_t column_get(const struct column *column, size_t index)
{
    int64_t value;
    if (column->kind == COLUMN_CONST && column->transform == COLUMN_PLAIN)
        return column->base;
    column_read(column, index, 1, &value);
    return value;
}

size_t column_lower_bound(const struct column *column, int64_t value)
{
    int64_t part[COLUMN_SYNC];
    size_t low = 0, high = (column->count + COLUMN_SYNC - 1) / COLUMN_SYNC;

    /* Blocks first: at their first values nothing has to be summed up. */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (column_get(column, middle * COLUMN_SYNC) < value)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    size_t start = (low - 1) * COLUMN_SYNC, count = column->count - start;
    if (count > COLUMN_SYNC)
        count = COLUMN_SYNC;
    column_read(column, start, count, part);
    return start + lower_bound_in(part, count, value);
}

/* ---- some values, at ascending indexes ---- */

static void rice_gather(const struct column *column, const uint32_t *index, size_t count,
                        int64_t *to)
{
    size_t at = 0;
    uint64_t bit = 0; /* where the code of `at` begins */
    for (size_t i = 0; i < count; i++) {
        if (index[i] / COLUMN_SAMPLE != at / COLUMN_SAMPLE)
            bit = rice_start(column, index[i]);
        else
            bit = ones_skip(column->high, bit, index[i] - at);
        uint64_t end = ones_skip(column->high, bit, 1);
        uint64_t upper = end > bit ? (end - 1 - bit) << column->width : 0;
        uint64_t low = bits_get(column->data, (uint64_t)index[i] * column->width, column->width);
        to[i] = wrap_add(column->base, (int64_t)(upper | low));
        at = (size_t)index[i] + 1;
        bit = end;
    }
}

struct part_of { /* some values of an ascending column, for who asks for ascending ones */
    const struct column *column;
    size_t start, count;
    int64_t value[COLUMN_SYNC];
};

/* The index of the first value that is at least this; the column's count: there is none. */
static size_t part_find(struct part_of *part, int64_t value)
{
    if (part->count == 0 || part->value[part->count - 1] < value) {
        if (part->count > 0 && part->start + part->count == part->column->count)
            return part->column->count;
        bool all = part->count == 0 && part->column->count <= COLUMN_SYNC;
        part->start = all ? 0 : column_lower_bound(part->column, value);
        size_t left = part->column->count - part->start;
        if (left == 0)
            return part->column->count;
        part->count = left < COLUMN_SYNC ? left : COLUMN_SYNC;
        column_read(part->column, part->start, part->count, part->value);
    }
    size_t at = lower_bound_in(part->value, part->count, value);
    return at < part->count ? part->start + at : part->column->count;
}

static void runs_gather(const struct column *column, const uint32_t *index, size_t count,
                        int64_t *to)
{
    struct part_of ends = {.column = column->child[1]};
    for (size_t i = 0; i < count; i++) {
        size_t run = part_find(&ends, (int64_t)index[i] + 1);
        to[i] = run < column->child_count ? column_get(column->child[0], run) : 0;
    }
}

static void patch_gather(const struct column *column, const uint32_t *index, size_t count,
                         int64_t *to)
{
    struct part_of positions = {.column = column->child[1]};
    column_gather(column->child[0], index, count, to);
    for (size_t i = 0; i < count; i++) {
        size_t found = part_find(&positions, index[i]);
        if (found < column->child_count &&
            positions.value[found - positions.start] == (int64_t)index[i])
            to[i] = column_get(column->child[2], found);
    }
}

static void inner_gather(const struct column *column, const uint32_t *index, size_t count,
                         int64_t *to)
{
    switch ((enum column_kind)column->kind) {
    case COLUMN_CONST:
        inner_read(column, 0, count, to);
        return;
    case COLUMN_BITS:
        for (size_t i = 0; i < count; i++)
            to[i] = wrap_add(
                column->base,
                (int64_t)bits_get(column->data, (uint64_t)index[i] * column->width, column->width));
        return;
    case COLUMN_RADIX:
        for (size_t i = 0; i < count; i++)
            radix_read(column, index[i], 1, &to[i]);
        return;
    case COLUMN_RICE:
        rice_gather(column, index, count, to);
        return;
    case COLUMN_RUNS:
        runs_gather(column, index, count, to);
        return;
    case COLUMN_PATCH:
        patch_gather(column, index, count, to);
        return;
    case COLUMN_DICT:
        column_gather(column->child[1], index, count, to);
        for (size_t i = 0; i < count; i++) {
            uint64_t code = (uint64_t)to[i];
            to[i] = code < column->child_count ? column_get(column->child[0], (size_t)code) : 0;
        }
        return;
    }
}

void column_gather(const struct column *column, const uint32_t *index, size_t count, int64_t *to)
{
    int64_t block[COLUMN_SYNC];
    ASSERT(count == 0 || index[count - 1] < column->count);
    if (column->transform == COLUMN_PLAIN || column->transform == COLUMN_LINEAR) {
        inner_gather(column, index, count, to);
        if (column->transform == COLUMN_LINEAR)
            for (size_t i = 0; i < count; i++)
                to[i] = wrap_add(to[i], column_slope_at(column->slope, index[i]));
        return;
    }
    for (size_t i = 0; i < count;) { /* deltas have to be summed up, but once a block */
        size_t first = index[i], last = i;
        while (last + 1 < count && index[last + 1] / COLUMN_SYNC == first / COLUMN_SYNC)
            last++;
        column_read(column, first, index[last] - first + 1, block);
        for (; i <= last; i++)
            to[i] = block[index[i] - first];
    }
}

/* ---- sums ---- */

bool column_sums_quickly(const struct column *column)
{
    if (column->transform != COLUMN_PLAIN)
        return false;
    if (column->kind == COLUMN_CONST)
        return true;
    return column->kind == COLUMN_PATCH && column->child[0]->kind == COLUMN_CONST &&
           column->child[0]->transform == COLUMN_PLAIN;
}

void column_sums(const struct column *column, const uint32_t *index, size_t count, int64_t *to)
{
    int64_t position[COLUMN_SYNC], value[COLUMN_SYNC];
    bool patched = column->kind == COLUMN_PATCH;
    int64_t usual = patched ? column->child[0]->base : column->base, extra = 0;
    size_t done = 0;
    ASSERT(column_sums_quickly(column));
    for (size_t at = 0; patched && done < count && at < column->child_count; at += COLUMN_SYNC) {
        size_t part = column->child_count - at;
        if (part > COLUMN_SYNC)
            part = COLUMN_SYNC;
        column_read(column->child[1], at, part, position);
        column_read(column->child[2], at, part, value);
        for (size_t i = 0; i < part; i++) {
            for (; done < count && (uint64_t)position[i] >= index[done]; done++)
                to[done] = extra;
            extra = wrap_add(extra, wrap_sub(value[i], usual));
        }
    }
    for (; done < count; done++)
        to[done] = extra;
    for (size_t i = 0; i < count; i++)
        to[i] = wrap_add(to[i], wrap_mul(usual, (int64_t)index[i]));
}

/* ---- checking ---- */

/* Each value is above the one before, all are within [low, high]. */
static bool ascends(const struct column *column, int64_t low, int64_t high)
{
    int64_t part[COLUMN_SYNC], before = low - 1;
    for (size_t from = 0; from < column->count; from += COLUMN_SYNC) {
        size_t count = column->count - from < COLUMN_SYNC ? column->count - from : COLUMN_SYNC;
        column_read(column, from, count, part);
        for (size_t i = 0; i < count; i++) {
            if (part[i] <= before || part[i] > high)
                return false;
            before = part[i];
        }
    }
    return true;
}

static bool within(const struct column *column, int64_t low, int64_t high)
{
    for (size_t i = 0; i < column->count; i++) {
        int64_t value = column_get(column, i);
        if (value < low || value > high)
            return false;
    }
    return true;
}

static bool samples_check(const struct column *column)
{
    uint64_t bit = 0;
    for (size_t i = 0; i < column->samples.len / 4; i++) {
        bit = ones_skip(column->high, bit, COLUMN_SAMPLE);
        if (bit != le32_get(column->samples.ptr + i * 4))
            return false;
    }
    return true;
}

bool column_check(const struct column *column)
{
    int64_t last = (int64_t)column->inner_count;
    for (size_t i = 0; i < ARRAY_LEN(column->child); i++)
        if (column->child[i] && !column_check(column->child[i]))
            return false;
    bool has_child =
        column->kind == COLUMN_RUNS || column->kind == COLUMN_PATCH || column->kind == COLUMN_DICT;
    ASSERT(!has_child || column->child[1]); /* column_open() has made them */
    if (column->kind == COLUMN_RUNS &&
        (!ascends(column->child[1], 1, last) ||
         column_get(column->child[1], column->child_count - 1) != last))
        return false;
    if (column->kind == COLUMN_PATCH && !ascends(column->child[1], 0, last - 1))
        return false;
    if (column->kind == COLUMN_DICT &&
        !within(column->child[1], 0, (int64_t)column->child_count - 1))
        return false;
    return column->kind != COLUMN_RICE || samples_check(column);
}

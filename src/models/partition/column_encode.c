// SPDX-License-Identifier: Apache-2.0
/* column_encode.c - writing a column: every form is measured or tried, the smallest is kept. */
#include "models/partition/column.h"

#include <stdlib.h>

#include "base/macros.h"
#include "base/mem.h"
#include "models/partition/bits.h"
#include "models/partition/column_int.h"

#include "base/banned.h"

enum {
    TRY_BYTES_MIN = 8,       /* below this a composed form cannot win anything */
    DICT_ENTRIES_MAX = 1024, /* distinct values beyond this are no dictionary */
    DICT_SLOTS = 4 * DICT_ENTRIES_MAX,
    HIGH_BITS_MAX = 64 * 1024 * 1024,
};

static bool zigzag_add(struct buf *to, int64_t value)
{
    return buf_add_uvarint(to, zigzag_encode(value));
}

static bool byte_add(struct buf *to, unsigned value)
{
    uint8_t byte = (uint8_t)value;
    return buf_add(to, &byte, 1);
}

static size_t zigzag_len(int64_t value)
{
    return uvarint_len(zigzag_encode(value));
}

/* ---- leaves: CONST, BITS, RADIX, RICE ---- */

struct shape { /* what a pass over the values tells */
    int64_t min;
    uint64_t span;         /* max - min */
    unsigned __int128 sum; /* of value - min */
};

static struct shape shape_of(const int64_t *values, size_t count)
{
    int64_t min = values[0], max = values[0];
    unsigned __int128 sum = 0;
    for (size_t i = 1; i < count; i++) {
        if (values[i] < min)
            min = values[i];
        if (values[i] > max)
            max = values[i];
    }
    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)values[i] - (uint64_t)min;
    return (struct shape){.min = min, .span = (uint64_t)max - (uint64_t)min, .sum = sum};
}

struct leaf { /* a form, and how many bytes it needs behind the kind */
    enum column_kind kind;
    unsigned width;
    unsigned group_codes;
    unsigned group_bytes;
    uint64_t high_bits;
    size_t bytes;
};

static void radix_choose(struct leaf *best, const struct shape *shape, size_t count)
{
    uint64_t radix = shape->span + 1;
    if (radix < 3 || radix > COLUMN_RADIX_MAX)
        return;
    for (unsigned bytes = 1; bytes <= 6; bytes++) {
        unsigned codes = 0;
        for (uint64_t number = 1; number <= bits_mask(bytes * 8) / radix; number *= radix)
            codes++;
        if (codes == 0)
            continue;
        size_t size =
            zigzag_len(shape->min) + uvarint_len(radix) + 2 + (count + codes - 1) / codes * bytes;
        if (size < best->bytes)
            *best = (struct leaf){
                .kind = COLUMN_RADIX, .group_codes = codes, .group_bytes = bytes, .bytes = size};
    }
}

static void rice_choose(struct leaf *best, const struct shape *shape, const int64_t *values,
                        size_t count)
{
    uint64_t mean = (uint64_t)(shape->sum / count);
    unsigned top = bits_width(mean);
    for (unsigned low = top > 2 ? top - 2 : 0; low <= top && low < 63; low++) {
        unsigned __int128 high = count;
        for (size_t i = 0; i < count; i++)
            high += ((uint64_t)values[i] - (uint64_t)shape->min) >> low;
        if (high > HIGH_BITS_MAX)
            continue;
        size_t high_bytes = (size_t)(high + 7) / 8;
        size_t size = zigzag_len(shape->min) + 1 + uvarint_len(high_bytes) + high_bytes +
                      (count - 1) / COLUMN_SAMPLE * 4 + bits_bytes(count, low);
        if (size < best->bytes)
            *best = (struct leaf){
                .kind = COLUMN_RICE, .width = low, .high_bits = (uint64_t)high, .bytes = size};
    }
}

static struct leaf leaf_choose(const struct shape *shape, const int64_t *values, size_t count)
{
    struct leaf best = {.kind = COLUMN_CONST, .bytes = zigzag_len(shape->min)};
    if (shape->span == 0)
        return best;
    best.kind = COLUMN_BITS;
    best.width = bits_width(shape->span);
    best.bytes += 1 + bits_bytes(count, best.width);
    radix_choose(&best, shape, count);
    rice_choose(&best, shape, values, count);
    return best;
}

static bool bits_write(const int64_t *values, size_t count, int64_t base, unsigned width,
                       struct buf *to)
{
    struct bits_out out = {.buf = to};
    for (size_t i = 0; i < count; i++)
        bits_put(&out, (uint64_t)values[i] - (uint64_t)base, width);
    bits_out_flush(&out);
    return !out.failed;
}

static bool radix_write(const struct leaf *leaf, const struct shape *shape, const int64_t *values,
                        size_t count, struct buf *to)
{
    uint64_t radix = shape->span + 1;
    if (!buf_add_uvarint(to, radix) || !byte_add(to, leaf->group_codes) ||
        !byte_add(to, leaf->group_bytes))
        return false;
    for (size_t from = 0; from < count; from += leaf->group_codes) {
        uint64_t number = 0;
        uint8_t bytes[8];
        for (size_t i = leaf->group_codes; i-- > 0;)
            number = number * radix +
                     (from + i < count ? (uint64_t)values[from + i] - (uint64_t)shape->min : 0);
        le64_put(bytes, number);
        if (!buf_add(to, bytes, leaf->group_bytes))
            return false;
    }
    return true;
}

static bool rice_write(const struct leaf *leaf, const struct shape *shape, const int64_t *values,
                       size_t count, struct buf *to)
{
    uint64_t bit = 0;
    if (!byte_add(to, leaf->width) || !buf_add_uvarint(to, (leaf->high_bits + 7) / 8))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        le32_put(bytes, (uint32_t)bit);
        if (i > 0 && i % COLUMN_SAMPLE == 0 && !buf_add(to, bytes, sizeof bytes))
            return false;
        bit += (((uint64_t)values[i] - (uint64_t)shape->min) >> leaf->width) + 1;
    }
    if (!bits_write(values, count, shape->min, leaf->width, to))
        return false;
    struct bits_out out = {.buf = to};
    for (size_t i = 0; i < count; i++) {
        uint64_t zeros = ((uint64_t)values[i] - (uint64_t)shape->min) >> leaf->width;
        for (; zeros >= 32; zeros -= 32)
            bits_put(&out, 0, 32);
        bits_put(&out, UINT64_C(1) << zeros, (unsigned)zeros + 1);
    }
    bits_out_flush(&out);
    return !out.failed;
}

static bool leaf_write(const struct leaf *leaf, const struct shape *shape, const int64_t *values,
                       size_t count, struct buf *to)
{
    if (!zigzag_add(to, shape->min))
        return false;
    switch (leaf->kind) {
    case COLUMN_BITS:
        return byte_add(to, leaf->width) && bits_write(values, count, shape->min, leaf->width, to);
    case COLUMN_RADIX:
        return radix_write(leaf, shape, values, count, to);
    case COLUMN_RICE:
        return rice_write(leaf, shape, values, count, to);
    case COLUMN_CONST:
    case COLUMN_RUNS:
    case COLUMN_PATCH:
    case COLUMN_DICT:
        break;
    }
    return true;
}

/* ---- composed kinds: each writes what follows the kind, or nothing if it does not apply ---- */

static bool encode_at(const int64_t *values, size_t count, bool inside, struct buf *to);

struct work { /* room for three runs of values, freed together */
    int64_t *a, *b, *c;
    int64_t *memory;
};

static void work_done(struct work *work)
{
    mem_free(work->memory);
}

static struct work work_new(size_t count)
{
    int64_t *memory = mem_alloc(3 * count * sizeof *memory);
    return (struct work){memory, memory + count, memory + 2 * count, memory};
}

static bool runs_write(const int64_t *values, size_t count, struct buf *to)
{
    size_t run_count = 1, run = 0;
    for (size_t i = 1; i < count; i++)
        run_count += values[i] != values[i - 1];
    if (run_count > count / 3)
        return true;
    CLEANUP(work_done) struct work work = work_new(run_count);
    for (size_t i = 0; i < count; i++) {
        work.a[run] = values[i];
        work.b[run] = (int64_t)i + 1;
        if (i + 1 < count && values[i + 1] != values[i])
            run++;
    }
    return buf_add_uvarint(to, run_count) && encode_at(work.a, run_count, true, to) &&
           encode_at(work.b, run_count, true, to);
}

/* The value of more than half of them, if there is one. */
static int64_t majority_of(const int64_t *values, size_t count)
{
    int64_t winner = values[0];
    size_t lead = 0;
    for (size_t i = 0; i < count; i++) {
        if (lead == 0)
            winner = values[i];
        lead = values[i] == winner ? lead + 1 : lead - 1;
    }
    return winner;
}

/* Values that are `usual`, or whose distance from base fits the width, stay; others are patched. */
struct patch {
    bool is_width;
    int64_t usual;
    unsigned width;
};

static bool patch_write(const struct patch *patch, const int64_t *values, size_t count,
                        struct buf *to)
{
    size_t patched = 0;
    CLEANUP(work_done) struct work work = work_new(count);
    for (size_t i = 0; i < count; i++) {
        uint64_t distance = (uint64_t)values[i] - (uint64_t)patch->usual;
        work.a[i] = values[i];
        if (patch->is_width ? distance <= bits_mask(patch->width) : distance == 0)
            continue;
        work.a[i] = patch->usual;
        work.b[patched] = (int64_t)i;
        work.c[patched++] = values[i];
    }
    if (patched == 0 || patched > count / 4)
        return true;
    return buf_add_uvarint(to, patched) && encode_at(work.a, count, true, to) &&
           encode_at(work.b, patched, true, to) && encode_at(work.c, patched, true, to);
}

/* The width at which fields and exceptions together are smallest. */
static unsigned patch_width(const struct shape *shape, const int64_t *values, size_t count)
{
    size_t wider[65] = {0}; /* values that need more bits than the index */
    unsigned full = bits_width(shape->span), best = full;
    for (size_t i = 0; i < count; i++)
        wider[bits_width((uint64_t)values[i] - (uint64_t)shape->min)]++;
    for (unsigned width = 64; width-- > 0;)
        wider[width] += wider[width + 1];
    unsigned __int128 cost_best = (unsigned __int128)count * full;
    for (unsigned width = 0; width < full; width++) {
        size_t exceptions = wider[width + 1];
        unsigned __int128 cost = (unsigned __int128)count * width +
                                 (unsigned __int128)exceptions * (full + bits_width(count));
        if (cost < cost_best) {
            cost_best = cost;
            best = width;
        }
    }
    return best;
}

struct dict {
    size_t count;
    int64_t entry[DICT_ENTRIES_MAX];
    uint16_t slot[DICT_SLOTS]; /* entry + 1, by hash */
};

static uint16_t *dict_slot(struct dict *dict, int64_t value)
{
    uint64_t hash = (uint64_t)value * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = hash >> 40;; at++) {
        uint16_t *slot = &dict->slot[at % DICT_SLOTS];
        if (*slot == 0 || dict->entry[*slot - 1] == value)
            return slot;
    }
}

static int value_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool dict_fill(struct dict *dict, const int64_t *values, size_t count)
{
    size_t max = count / 4 < DICT_ENTRIES_MAX ? count / 4 : DICT_ENTRIES_MAX;
    for (size_t i = 0; i < count; i++) {
        uint16_t *slot = dict_slot(dict, values[i]);
        if (*slot)
            continue;
        if (dict->count == max)
            return false;
        dict->entry[dict->count++] = values[i];
        *slot = (uint16_t)dict->count;
    }
    qsort(dict->entry, dict->count, sizeof dict->entry[0], value_compare);
    memset(dict->slot, 0, sizeof dict->slot);
    for (size_t i = 0; i < dict->count; i++) {
        uint64_t hash = (uint64_t)dict->entry[i] * UINT64_C(0x9e3779b97f4a7c15);
        size_t at = hash >> 40;
        while (dict->slot[at % DICT_SLOTS])
            at++;
        dict->slot[at % DICT_SLOTS] = (uint16_t)(i + 1);
    }
    return true;
}

static void memory_free(void *pointer)
{
    mem_free(*(void **)pointer);
}

static bool dict_write(const int64_t *values, size_t count, struct buf *to)
{
    CLEANUP(memory_free) struct dict *dict = mem_zalloc(sizeof *dict);
    if (!dict_fill(dict, values, count))
        return true;
    CLEANUP(memory_free) int64_t *codes = mem_alloc(count * sizeof *codes);
    for (size_t i = 0; i < count; i++)
        codes[i] = *dict_slot(dict, values[i]) - 1;
    return buf_add_uvarint(to, dict->count) && encode_at(dict->entry, dict->count, true, to) &&
           encode_at(codes, count, true, to);
}

/* ---- one transform: the smallest kind for its residuals ---- */

struct choice { /* the best so far: head, then what follows the kind */
    struct buf *best;
    size_t start; /* of this column in best */
    bool any;
};

/* Puts `form` (kind byte, transform, content) in the place of the best if it is smaller. */
static bool choice_offer(struct choice *choice, const struct buf *form)
{
    if (choice->any && form->len >= choice->best->len - choice->start)
        return true;
    buf_cut(choice->best, choice->start);
    choice->any = true;
    return buf_add(choice->best, form->ptr, form->len);
}

static bool compose(enum column_kind kind, const struct shape *shape, const int64_t *values,
                    size_t count, struct buf *form)
{
    switch (kind) {
    case COLUMN_RUNS:
        return runs_write(values, count, form);
    case COLUMN_PATCH: {
        struct patch usual = {.usual = majority_of(values, count)};
        struct patch fields = {
            .is_width = true, .usual = shape->min, .width = patch_width(shape, values, count)};
        size_t start = form->len;
        if (!patch_write(&usual, values, count, form))
            return false;
        if (form->len > start || fields.width == bits_width(shape->span))
            return true;
        return patch_write(&fields, values, count, form);
    }
    case COLUMN_DICT:
        return dict_write(values, count, form);
    case COLUMN_CONST:
    case COLUMN_BITS:
    case COLUMN_RADIX:
    case COLUMN_RICE:
        break;
    }
    return true;
}

/* `head` is the first byte without its kind, then the transform's numbers. */
static bool inner_offer(struct choice *choice, struct buf *head, const int64_t *values,
                        size_t count, bool inside)
{
    struct shape shape = shape_of(values, count);
    struct leaf leaf = leaf_choose(&shape, values, count);
    size_t head_len = head->len;

    if (!choice->any || head_len + leaf.bytes < choice->best->len - choice->start) {
        head->ptr[0] = (uint8_t)((head->ptr[0] & 0xf0) | leaf.kind);
        if (!leaf_write(&leaf, &shape, values, count, head) || !choice_offer(choice, head))
            return false;
        buf_cut(head, head_len);
    }
    if (inside || leaf.bytes < TRY_BYTES_MIN)
        return true;
    for (enum column_kind kind = COLUMN_RUNS; kind <= COLUMN_DICT; kind++) {
        head->ptr[0] = (uint8_t)((head->ptr[0] & 0xf0) | kind);
        if (!compose(kind, &shape, values, count, head))
            return false;
        if (head->len > head_len && !choice_offer(choice, head))
            return false;
        buf_cut(head, head_len);
    }
    return true;
}

/* ---- transforms ---- */

static bool head_begin(struct buf *head, enum column_transform transform)
{
    buf_cut(head, 0);
    return byte_add(head, (unsigned)transform << 4);
}

static bool linear_offer(struct choice *choice, struct buf *head, const int64_t *values,
                         size_t count, bool inside, int64_t *room)
{
    int64_t whole = wrap_sub(values[count - 1], values[0]);
    const int64_t limit = INT64_C(1) << 46;
    int64_t slopes[2], step = wrap_sub(values[1], values[0]);
    size_t slope_count = 0;

    if (whole > -limit && whole < limit)
        slopes[slope_count++] = whole * (1 << COLUMN_SLOPE_BITS) / (int64_t)(count - 1);
    if (step > -limit && step < limit && whole != wrap_mul(step, (int64_t)count - 1))
        slopes[slope_count++] = step * (1 << COLUMN_SLOPE_BITS);
    for (size_t s = 0; s < slope_count; s++) {
        if (slopes[s] == 0)
            continue;
        for (size_t i = 0; i < count; i++)
            room[i] = wrap_sub(values[i], column_slope_at(slopes[s], i));
        if (!head_begin(head, COLUMN_LINEAR) || !zigzag_add(head, slopes[s]) ||
            !inner_offer(choice, head, room, count, inside))
            return false;
    }
    return true;
}

/* Every 256th of the values but the first. */
static bool sync_add(struct buf *to, const int64_t *values, size_t count)
{
    size_t point_count = (count - 1) / COLUMN_SYNC;
    if (point_count == 0)
        return true;
    CLEANUP(memory_free) int64_t *points = mem_alloc(point_count * sizeof *points);
    for (size_t i = 0; i < point_count; i++)
        points[i] = values[(i + 1) * COLUMN_SYNC];
    struct shape shape = shape_of(points, point_count);
    unsigned width = bits_width(shape.span);
    return zigzag_add(to, shape.min) && byte_add(to, width) &&
           bits_write(points, point_count, shape.min, width, to);
}

static bool delta_offer(struct choice *choice, struct buf *head, const int64_t *values,
                        size_t count, bool inside, int64_t *room)
{
    for (size_t i = 0; i + 1 < count; i++)
        room[i] = wrap_sub(values[i + 1], values[i]);
    if (!head_begin(head, COLUMN_DELTA) || !zigzag_add(head, values[0]) ||
        !sync_add(head, values, count) || !inner_offer(choice, head, room, count - 1, inside))
        return false;
    if (count < 3)
        return true;

    int64_t first = room[0];
    room[count - 1] = 0; /* a sync point at the last value has no delta */
    if (!head_begin(head, COLUMN_DELTA2) || !zigzag_add(head, values[0]) ||
        !zigzag_add(head, first) || !sync_add(head, values, count) || !sync_add(head, room, count))
        return false;
    for (size_t i = 0; i + 2 < count; i++)
        room[i] = wrap_sub(room[i + 1], room[i]);
    return inner_offer(choice, head, room, count - 2, inside);
}

static bool encode_at(const int64_t *values, size_t count, bool inside, struct buf *to)
{
    struct choice choice = {.best = to, .start = to->len};
    CLEANUP(buf_done) struct buf head;
    buf_init(&head, to->bytes_max);

    if (!head_begin(&head, COLUMN_PLAIN) || !inner_offer(&choice, &head, values, count, inside))
        return false;
    if (count == 1 || to->len - choice.start <= 4)
        return true;
    CLEANUP(memory_free) int64_t *room = mem_alloc(count * sizeof *room);
    return linear_offer(&choice, &head, values, count, inside, room) &&
           delta_offer(&choice, &head, values, count, inside, room);
}

bool column_encode(const int64_t *values, size_t count, struct buf *to)
{
    ASSERT(count > 0 && count <= UINT32_MAX);
    return encode_at(values, count, false, to);
}

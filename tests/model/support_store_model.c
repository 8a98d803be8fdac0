// SPDX-License-Identifier: Apache-2.0
/* support_store_model.c - the naive store: rows, counters, undo. */
#include "model/support_store_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

/* ---- spaces ---- */

static bool xor_add(struct bytes group, struct bytes suffix, struct bytes from, struct buf *to)
{
    uint8_t key = (uint8_t)(0x5a + group.len + suffix.len);
    if (!buf_reserve(to, from.len + 1))
        return false;
    for (size_t i = 0; i < from.len; i++)
        to->ptr[to->len++] = from.ptr[i] ^ key;
    return true;
}

static enum space_packed xor_pack(struct bytes group, struct bytes suffix, struct bytes value,
                                  struct buf *to)
{
    uint8_t sum = (uint8_t)(value.len * 7 + group.len);
    return space_packed(xor_add(group, suffix, value, to) && buf_add(to, &sum, 1));
}

static enum space_packed xor_unpack(struct bytes group, struct bytes suffix, struct bytes packed,
                                    struct buf *to)
{
    ASSERT(packed.len > 0);
    ASSERT(packed.ptr[packed.len - 1] == (uint8_t)((packed.len - 1) * 7 + group.len));
    return space_packed(xor_add(group, suffix, bytes_of(packed.ptr, packed.len - 1), to));
}

/* One byte, whether the group's key stood in front, and the rest. */
static enum space_packed strip_pack(struct bytes group, struct bytes suffix, struct bytes value,
                                    struct buf *to)
{
    (void)suffix;
    uint8_t stripped = bytes_start_with(value, group);
    return space_packed(buf_add(to, &stripped, 1) &&
                        buf_add_bytes(to, bytes_from(value, stripped ? group.len : 0)));
}

static enum space_packed strip_unpack(struct bytes group, struct bytes suffix, struct bytes packed,
                                      struct buf *to)
{
    (void)suffix;
    ASSERT(packed.len > 0);
    return space_packed((!packed.ptr[0] || buf_add_bytes(to, group)) &&
                        buf_add_bytes(to, bytes_from(packed, 1)));
}

const struct store_space mirror_spaces[MODEL_SPACES] = {
    {.number = 1, .kind = SPACE_WHOLE, .name = "whole"},
    {.number = 2,
     .kind = SPACE_WHOLE,
     .name = "whole_packed",
     .pack = strip_pack,
     .unpack = strip_unpack},
    {.number = 3, .kind = SPACE_FIXED, .fixed_bytes = 8, .name = "fixed"},
    {.number = 4, .kind = SPACE_LENGTH, .name = "length"},
    {.number = 5,
     .kind = SPACE_LENGTH,
     .name = "length_packed",
     .pack = strip_pack,
     .unpack = strip_unpack},
    {.number = 254,
     .kind = SPACE_FIXED,
     .fixed_bytes = 5,
     .name = "fixed_packed",
     .pack = xor_pack,
     .unpack = xor_unpack},
};

const struct mirror_prefix mirror_prefixes[MODEL_PREFIXES] = {
    {1, {(const uint8_t *)"m1", 2}},  {1, {(const uint8_t *)"m2", 2}},
    {2, {(const uint8_t *)"p", 1}},   {3, {(const uint8_t *)"", 0}},
    {4, {(const uint8_t *)"d", 1}},   {4, {(const uint8_t *)"\xff", 1}},
    {5, {(const uint8_t *)"kk", 2}},  {254, {(const uint8_t *)"\xff\xff", 2}},
    {254, {(const uint8_t *)"a", 1}},
};

/* ---- making ---- */

static int suffix_order(const void *a, const void *b)
{
    return bytes_cmp(*(const struct bytes *)a, *(const struct bytes *)b);
}

static struct bytes suffix_draw(struct rand *rand, unsigned number)
{
    size_t len = 2 + rand_below(rand, 9);
    if (rand_below(rand, 40) == 0)
        len = 300 + rand_below(rand, 1700);
    uint8_t *ptr = mem_zalloc(len);
    /* Few distinct leading bytes, so that separators get long. */
    ptr[0] = (uint8_t)(rand_below(rand, 4) * 85);
    for (size_t i = 1; i < len && i < 12; i++)
        ptr[i] = (uint8_t)rand_below(rand, i < 4 ? 16 : 256);
    if (len > 12)
        memcpy(ptr + len - 2, &(uint16_t){(uint16_t)number}, 2);
    return bytes_of(ptr, len);
}

static void suffixes_init(struct mirror *model, struct rand *rand)
{
    model->suffix[0] = bytes_of(mem_dup("", 0), 0);
    for (unsigned i = 1; i < MODEL_SUFFIXES; i++)
        model->suffix[i] = suffix_draw(rand, i);
    for (;;) {
        qsort(model->suffix, MODEL_SUFFIXES, sizeof model->suffix[0], suffix_order);
        bool twice = false;
        for (unsigned i = 1; i < MODEL_SUFFIXES; i++) {
            if (!bytes_eq(model->suffix[i - 1], model->suffix[i]))
                continue;
            twice = true;
            mem_free((void *)(uintptr_t)model->suffix[i].ptr);
            model->suffix[i] = suffix_draw(rand, i);
        }
        if (!twice)
            return;
    }
}

static void group_add(struct mirror *model, uint32_t prefix, struct bytes key, uint32_t id_count)
{
    ASSERT(model->group_count < MODEL_GROUPS_MAX);
    model->group[model->group_count++] =
        (struct mirror_group){.prefix = prefix,
                              .key = bytes_of(mem_dup(key.ptr, key.len), key.len),
                              .id_count = id_count,
                              .id_step = MODEL_SUFFIXES / id_count,
                              .whole = mirror_prefixes[prefix].space <= 2};
}

static void groups_init(struct mirror *model, struct rand *rand)
{
    static const uint16_t sizes[] = {1, 3, 12, 40, 63, 70, 130, 400, 2048};
    char key[64];
    for (uint32_t i = 0; i < 150; i++) { /* whole ones; some keys are long, one is empty */
        int len =
            snprintf(key, sizeof key, i % 16 == 3 ? "%u-a-longer-key-that-takes-room" : "%u", i);
        group_add(model, i % 3, bytes_of(key, i < 3 ? 0 : (size_t)len), 1);
    }
    model->tree_first = model->group_count;
    for (uint32_t i = 0; i < 48; i++) {
        uint32_t prefix = 3 + i % 6;
        uint16_t size = i < 2 ? 2048 : sizes[rand_below(rand, i < 12 ? 9 : 7)];
        size_t len = rand_below(rand, 12);
        snprintf(key, sizeof key, "%02u-group-of-rows", i);
        if (mirror_prefixes[prefix].space == 3)
            len = 8;
        if (mirror_prefixes[prefix].space == 254)
            len = 5 - mirror_prefixes[prefix].bytes.len;
        else
            len = len < 2 ? 2 : len;
        group_add(model, prefix, bytes_of(key, len), size);
    }
    group_add(model, 7, BYTES("\xff\xff\xff"), 130);
}

void mirror_init(struct mirror *model, struct rand *rand)
{
    *model = (struct mirror){.pattern = mem_alloc(MODEL_PATTERN_BYTES)};
    rand_bytes(rand, model->pattern, MODEL_PATTERN_BYTES);
    buf_init(&model->scratch[0], SIZE_MAX);
    buf_init(&model->scratch[1], SIZE_MAX);
    suffixes_init(model, rand);
    groups_init(model, rand);
}

void mirror_done(struct mirror *model)
{
    for (unsigned i = 0; i < MODEL_SUFFIXES; i++)
        mem_free((void *)(uintptr_t)model->suffix[i].ptr);
    for (size_t i = 0; i < model->group_count; i++) {
        mem_free((void *)(uintptr_t)model->group[i].key.ptr);
        mem_free(model->group[i].row);
    }
    mem_free(model->pattern);
    mem_free(model->log);
    buf_done(&model->scratch[0]);
    buf_done(&model->scratch[1]);
}

/* ---- values and suffixes ---- */

struct bytes mirror_value_bytes(struct mirror *model, struct mirror_value value, int place)
{
    struct bytes slice = bytes_of(model->pattern + value.offset, value.len);
    struct buf *buf = &model->scratch[place];
    if (!value.keyed)
        return slice;
    buf->len = 0;
    bool added = buf_add_bytes(buf, model->group[value.key_group].key) && buf_add_bytes(buf, slice);
    ASSERT(added);
    return buf_bytes(buf);
}

struct mirror_value mirror_value_draw(struct mirror *model, struct rand *rand, uint32_t group)
{
    struct mirror_value value = {.present = true, .key_group = (uint16_t)group};
    uint64_t kind = rand_below(rand, 100);
    if (kind < 10)
        value.len = 0;
    else if (kind < 80)
        value.len = (uint16_t)(1 + rand_below(rand, 40));
    else if (kind < 96)
        value.len = (uint16_t)rand_below(rand, 700);
    else
        value.len = (uint16_t)rand_below(rand, MODEL_VALUE_BYTES_MAX);
    value.offset = (uint32_t)rand_below(rand, MODEL_PATTERN_BYTES - value.len);
    value.keyed = model->group[group].key.len > 0 && rand_below(rand, 4) == 0;
    return value;
}

size_t mirror_suffix_place(const struct mirror *model, struct bytes suffix, bool *ret_exact)
{
    size_t low = 0, high = MODEL_SUFFIXES;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bytes_cmp(model->suffix[middle], suffix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_exact = low < MODEL_SUFFIXES && bytes_eq(model->suffix[low], suffix);
    return low;
}

uint16_t mirror_id_draw(const struct mirror *model, struct rand *rand, uint32_t group)
{
    const struct mirror_group *from = &model->group[group];
    if (from->whole)
        return 0;
    return (uint16_t)(rand_below(rand, from->id_count) * from->id_step);
}

/* ---- rows ---- */

size_t mirror_row_place(const struct mirror_group *group, size_t id)
{
    size_t low = 0, high = group->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->row[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct mirror_value *mirror_get(const struct mirror *model, uint32_t group, uint16_t id)
{
    const struct mirror_group *from = &model->group[group];
    size_t place = mirror_row_place(from, id);
    if (place == from->count || from->row[place].id != id)
        return NULL;
    return &from->row[place].value;
}

static void row_set(struct mirror_group *group, uint16_t id, struct mirror_value value)
{
    size_t place = mirror_row_place(group, id);
    bool found = place < group->count && group->row[place].id == id;
    if (!value.present) {
        if (!found)
            return;
        group->count--;
        memmove(&group->row[place], &group->row[place + 1],
                (group->count - place) * sizeof *group->row);
        return;
    }
    if (!found) {
        if (group->count == group->cap) {
            group->cap = group->cap ? group->cap * 2 : 4;
            group->row = mem_realloc(group->row, group->cap * sizeof *group->row);
        }
        memmove(&group->row[place + 1], &group->row[place],
                (group->count - place) * sizeof *group->row);
        group->count++;
    }
    group->row[place] = (struct mirror_row){id, value};
}

static struct mirror_change *log_add(struct mirror *model)
{
    ASSERT(model->log_at == model->log_count);
    if (model->log_count == model->log_cap) {
        model->log_cap = model->log_cap ? model->log_cap * 2 : 256;
        model->log = mem_realloc(model->log, model->log_cap * sizeof *model->log);
    }
    model->log_at++;
    return &model->log[model->log_count++];
}

void mirror_set(struct mirror *model, uint32_t group, uint16_t id, struct mirror_value value)
{
    const struct mirror_value *old = mirror_get(model, group, id);
    struct mirror_change *change = log_add(model);
    *change = (struct mirror_change){.group = group, .id = id, .after = value};
    if (old)
        change->before = *old;
    model->group[group].used = true;
    row_set(&model->group[group], id, value);
}

void mirror_group_drop(struct mirror *model, uint32_t group)
{
    struct mirror_group *from = &model->group[group];
    while (from->count > 0)
        mirror_set(model, group, from->row[from->count - 1].id, (struct mirror_value){0});
}

void mirror_prefix_drop(struct mirror *model, uint32_t prefix)
{
    for (uint32_t i = 0; i < model->group_count; i++)
        if (model->group[i].prefix == prefix)
            mirror_group_drop(model, i);
}

void mirror_counter_add(struct mirror *model, uint32_t counter, int64_t delta)
{
    *log_add(model) = (struct mirror_change){.group = MODEL_GROUPS_MAX + counter, .delta = delta};
    model->counter[counter] += delta;
}

uint64_t mirror_row_count(const struct mirror *model)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->group_count; i++)
        count += model->group[i].count;
    return count;
}

/* ---- time ---- */

static void change_apply(struct mirror *model, const struct mirror_change *change, bool forward)
{
    if (change->group >= MODEL_GROUPS_MAX)
        model->counter[change->group - MODEL_GROUPS_MAX] +=
            forward ? change->delta : -change->delta;
    else
        row_set(&model->group[change->group], change->id, forward ? change->after : change->before);
}

void mirror_commit(struct mirror *model, uint64_t lsn)
{
    for (size_t i = model->log_count; i > 0 && model->log[i - 1].lsn == 0; i--)
        model->log[i - 1].lsn = lsn;
}

void mirror_undo_to(struct mirror *model, size_t log_count)
{
    ASSERT(model->log_at == model->log_count);
    while (model->log_count > log_count)
        change_apply(model, &model->log[--model->log_count], false);
    model->log_at = model->log_count;
}

void mirror_cut(struct mirror *model, uint64_t lsn)
{
    size_t keep = model->log_count;
    while (keep > 0 && (model->log[keep - 1].lsn > lsn || model->log[keep - 1].lsn == 0))
        keep--;
    mirror_undo_to(model, keep);
}

void mirror_shift(struct mirror *model, uint64_t lsn)
{
    while (model->log_at > 0 && model->log[model->log_at - 1].lsn > lsn)
        change_apply(model, &model->log[--model->log_at], false);
    while (model->log_at < model->log_count && model->log[model->log_at].lsn <= lsn)
        change_apply(model, &model->log[model->log_at++], true);
}

void mirror_forget(struct mirror *model, uint64_t lsn)
{
    size_t gone = 0;
    while (gone < model->log_count && model->log[gone].lsn && model->log[gone].lsn <= lsn)
        gone++;
    if (gone == 0)
        return;
    memmove(model->log, model->log + gone, (model->log_count - gone) * sizeof *model->log);
    model->log_count -= gone;
    model->log_at = model->log_count;
}

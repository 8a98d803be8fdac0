// SPDX-License-Identifier: Apache-2.0
/* flush_unit.c - counters and dropped groups of a unit, gathered and merged. */
#include "store/flush/flush_int.h"

#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

static struct bytes counter_name(const struct flush__counter *counter)
{
    return bytes_of(counter->name, counter->name_len);
}

/* The place of the name, or where it would stand. */
static size_t counters_find(const struct flush__counters *counters, struct bytes name,
                            bool *ret_found)
{
    size_t from = 0, to = counters->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = bytes_cmp(counter_name(&counters->at[middle]), name);
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *ret_found = false;
    return from;
}

static void counter_value_add(struct flush__counter *counter, int64_t delta)
{
    counter->value = (int64_t)((uint64_t)counter->value + (uint64_t)delta);
}

static void counters_put(struct flush__counters *counters, size_t index, struct bytes name)
{
    if (counters->count == counters->cap) {
        counters->cap = counters->cap ? counters->cap * 2 : 16;
        counters->at = mem_realloc(counters->at, counters->cap * sizeof *counters->at);
    }
    memmove(&counters->at[index + 1], &counters->at[index],
            (counters->count - index) * sizeof *counters->at);
    counters->at[index] = (struct flush__counter){mem_dup(name.ptr, name.len), name.len, 0};
    counters->count++;
}

enum rc flush__counters_add(struct flush__counters *counters, struct bytes name, int64_t delta,
                            struct err *err)
{
    size_t index = counters->last_index;
    bool found = index < counters->count && bytes_eq(counter_name(&counters->at[index]), name);
    if (!found)
        index = counters_find(counters, name, &found);
    if (!found) {
        if (counters->count >= STORE_COUNTERS_MAX || name.len > STORE_COUNTER_NAME_BYTES_MAX)
            return err_set(err, RC_TOO_BIG, "more than %d counters, or a name of %zu bytes",
                           (int)STORE_COUNTERS_MAX, name.len);
        counters_put(counters, index, name);
    }
    counters->last_index = index;
    counter_value_add(&counters->at[index], delta);
    return RC_OK;
}

void flush__counters_merge(struct flush__counters *into, const struct flush__counters *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct bytes name = counter_name(&from->at[i]);
        bool found;
        size_t index = counters_find(into, name, &found);
        if (!found)
            counters_put(into, index, name);
        counter_value_add(&into->at[index], from->at[i].value);
    }
}

int64_t flush__counters_get(const struct flush__counters *counters, struct bytes name)
{
    bool found;
    size_t index = counters_find(counters, name, &found);
    return found ? counters->at[index].value : 0;
}

void flush__counters_done(struct flush__counters *counters)
{
    if (!counters)
        return;
    for (size_t i = 0; i < counters->count; i++)
        mem_free(counters->at[i].name);
    mem_free(counters->at);
    *counters = (struct flush__counters){0};
}

void flush__drops_init(struct flush__drops *drops)
{
    *drops = (struct flush__drops){0};
    arena_init(&drops->arena);
}

void flush__drops_done(struct flush__drops *drops)
{
    if (!drops)
        return;
    mem_free(drops->at);
    arena_done(&drops->arena);
    *drops = (struct flush__drops){0};
}

void flush__drops_clear(struct flush__drops *drops)
{
    drops->count = 0;
    arena_clear(&drops->arena);
}

void flush__drops_add(struct flush__drops *drops, uint8_t space, struct bytes prefix,
                      uint64_t order)
{
    if (drops->count > 0) { /* FLUSHDB in a loop */
        struct flush__drop *last = &drops->at[drops->count - 1];
        if (last->space == space && bytes_eq(last->prefix, prefix)) {
            last->order = order > last->order ? order : last->order;
            return;
        }
    }
    if (drops->count == drops->cap) {
        drops->cap = drops->cap ? drops->cap * 2 : 16;
        drops->at = mem_realloc(drops->at, drops->cap * sizeof *drops->at);
    }
    drops->at[drops->count++] =
        (struct flush__drop){space, arena_copy(&drops->arena, prefix), order};
}

static int drop_cmp(const void *left, const void *right)
{
    const struct flush__drop *a = left, *b = right;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    int order = bytes_cmp(a->prefix, b->prefix);
    if (order != 0)
        return order;
    return (a->order < b->order) - (a->order > b->order);
}

void flush__drops_sort(struct flush__drops *drops)
{
    if (drops->count < 2)
        return;
    qsort(drops->at, drops->count, sizeof *drops->at, drop_cmp);
    size_t kept = 1;
    for (size_t i = 1; i < drops->count; i++) {
        const struct flush__drop *last = &drops->at[kept - 1], *drop = &drops->at[i];
        if (last->space != drop->space || !bytes_eq(last->prefix, drop->prefix))
            drops->at[kept++] = *drop;
    }
    drops->count = kept;
}

void flush__drops_merge(struct flush__drops *into, const struct flush__drops *from)
{
    for (size_t i = 0; i < from->count; i++)
        flush__drops_add(into, from->at[i].space, from->at[i].prefix, from->at[i].order);
    flush__drops_sort(into);
}

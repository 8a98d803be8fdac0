// SPDX-License-Identifier: Apache-2.0
/* shape_many.c - lifting several owners at once: LAND.VERIFY. */
#include <stdio.h>
#include <stdlib.h>

#include "models/landing/shape_int.h"

#include "base/banned.h"

const struct many_owner *many_find(const struct many *many, const struct sink_cell *id)
{
    char text[32];
    struct bytes wanted = id->bytes;
    size_t low = 0, high = many->count;
    if (id->kind == SINK_NULL)
        return NULL;
    if (id->kind == SINK_INT)
        wanted = bytes_of(text, (size_t)snprintf(text, sizeof text, "%lld", (long long)id->number));
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = bytes_cmp(many->owner[middle].id, wanted);
        if (order == 0)
            return &many->owner[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int table_order(const struct many_owner *a, const struct many_owner *b)
{
    int order = bytes_cmp(a->address->app, b->address->app);
    return order != 0 ? order : bytes_cmp(a->address->region, b->address->region);
}

/* By table, then by id. The parts of an address of shape columns are empty: it has one table. */
static int owner_order(const void *one, const void *other)
{
    const struct many_owner *a = one, *b = other;
    int order = table_order(a, b);
    return order != 0 ? order : bytes_cmp(a->id, b->id);
}

/* Owners of one table. As in shape_lift(), a table that is not as it was is looked at again once.
 */
static enum rc table_lift(struct shape_db *db, struct many *many, struct arena *arena,
                          struct err *err)
{
    struct bytes *value = arena_alloc_array(arena, many->count, sizeof *value);
    for (size_t i = 0; i < many->count; i++)
        value[i] = many->owner[i].id;
    for (int attempt = 0; attempt < 2; attempt++) {
        enum rc rc = db->spec->shape == LAND_OBJECT ? object_lift_many(db, many, value, err)
                                                    : columns_lift_many(db, many, value, err);
        if (rc != RC_NOT_FOUND)
            return rc;
        object_forget(db);
        columns_forget(db);
    }
    return err_set(err, RC_IO, "a table of \"%s\" changed while it was read", shape_name(db));
}

enum rc shape_lift_many(struct shape_db *db, const struct address *const *address, size_t count,
                        shape_row_fn *fn, void *arg, struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    struct many_owner *owner = arena_alloc_array(&arena, count + 1, sizeof *owner);
    for (size_t i = 0; i < count; i++) {
        bool object = db->spec->shape == LAND_OBJECT;
        struct bytes id = address[i]->id;
        if (object)
            id = arena_join(&arena, address[i]->type, BYTES(":"), address[i]->owner);
        owner[i] = (struct many_owner){.address = address[i], .id = id, .owner = i};
    }
    qsort(owner, count, sizeof *owner, owner_order);
    enum rc rc = RC_OK;
    shape__begin(db);
    for (size_t from = 0, to; rc == RC_OK && from < count; from = to) {
        for (to = from + 1; to < count && table_order(&owner[from], &owner[to]) == 0;)
            to++;
        struct many many = {.owner = owner + from, .count = to - from, .fn = fn, .arg = arg};
        rc = table_lift(db, &many, &arena, err);
    }
    arena_done(&arena);
    return shape__end(db, rc, err);
}

// SPDX-License-Identifier: Apache-2.0
/* garbage.c - the list of IDs whose rows have to go, and the removal of these rows. */
#include "types/garbage.h"

#include "types/build.h"

#include "base/banned.h"

enum { GARBAGE_STEP_OBJECTS = 8 };

static struct store_group garbage_group(const struct ns *ns)
{
    return (struct store_group){.prefix = ns->garbage, .key = BYTES("")};
}

enum rc garbage_add(struct ns *ns, const uint8_t id[KEY_ID_BYTES], uint8_t type, struct err *err)
{
    return store_put(ns->kv->store, garbage_group(ns), bytes_of(id, KEY_ID_BYTES),
                     bytes_of(&type, 1), err);
}

enum rc garbage_find(struct ns *ns, const uint8_t id[KEY_ID_BYTES], struct err *err)
{
    struct bytes type;
    return store_get(ns->kv->store, garbage_group(ns), bytes_of(id, KEY_ID_BYTES), &type, err);
}

enum rc garbage_remove(struct ns *ns, const uint8_t id[KEY_ID_BYTES], struct err *err)
{
    return store_delete(ns->kv->store, garbage_group(ns), bytes_of(id, KEY_ID_BYTES), err);
}

static bool is_build(const struct kv *kv, const uint8_t *id)
{
    for (struct dlink *link = kv->builds.first; link; link = link->next)
        if (memcmp(DLIST_ITEM(link, struct build, link)->key.meta.id, id, KEY_ID_BYTES) == 0)
            return true;
    return false;
}

struct garbage {
    uint8_t id[GARBAGE_STEP_OBJECTS][KEY_ID_BYTES];
    size_t count;
};

static enum rc garbage_read(struct ns *ns, struct garbage *ret_garbage, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    store_walk_init(&walk, ns->kv->store, garbage_group(ns), false);
    enum rc rc = RC_OK;
    ret_garbage->count = 0;
    while (ret_garbage->count < GARBAGE_STEP_OBJECTS) {
        struct bytes suffix, value;
        rc = store_walk_next(&walk, &suffix, &value, err);
        if (rc != RC_OK)
            break;
        if (suffix.len != KEY_ID_BYTES)
            return err_set(err, RC_CORRUPT, "a garbage row has an ID of %zu bytes", suffix.len);
        if (!is_build(ns->kv, suffix.ptr))
            memcpy(ret_garbage->id[ret_garbage->count++], suffix.ptr, KEY_ID_BYTES);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static struct store_group rows_of(const struct ns *ns, const uint8_t id[KEY_ID_BYTES])
{
    return (struct store_group){.prefix = ns->data, .key = bytes_of(id, KEY_ID_BYTES)};
}

/* RC_OK: all rows are in memory, or there are too many for point deletes. */
static enum rc rows_warm(struct ns *ns, const uint8_t *id, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    enum rc rc = RC_OK;
    store_walk_init(&walk, ns->kv->store, rows_of(ns, id), false);
    for (int n = 0; n <= STORE_DROP_POINT_ROWS_MAX && rc == RC_OK; n++)
        rc = store_walk_next(&walk, &suffix, &value, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* RC_COLD until all rows of all small objects are in memory: then a drop is a delete of each. */
static enum rc garbage_warm(struct ns *ns, const struct garbage *garbage, struct err *err)
{
    enum rc cold = RC_OK;
    for (size_t i = 0; i < garbage->count; i++) {
        enum rc rc = rows_warm(ns, garbage->id[i], err);
        if (rc == RC_COLD)
            cold = rc;
        else if (rc != RC_OK)
            return rc;
    }
    return cold;
}

enum rc garbage_sweep(struct ns *ns, size_t *ret_count, struct err *err)
{
    struct store *store = ns->kv->store;
    struct garbage garbage;
    enum rc rc = garbage_read(ns, &garbage, err);
    if (rc == RC_OK)
        rc = garbage_warm(ns, &garbage, err);
    for (size_t i = 0; rc == RC_OK && i < garbage.count; i++) {
        rc = store_group_drop(store, rows_of(ns, garbage.id[i]), err);
        if (rc == RC_OK || rc == RC_NOT_FOUND)
            rc = garbage_remove(ns, garbage.id[i], err);
    }
    if (rc == RC_OK)
        *ret_count = garbage.count;
    return rc;
}

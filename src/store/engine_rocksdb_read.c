#include "store/engine_rocksdb_int.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

struct rocks_iter {
    struct engine_iter iter;
    struct rocks_view *view; /* a reference; NULL: none */
    rocksdb_readoptions_t *read;
    rocksdb_iterator_t *it; /* NULL: the range is empty */
    uint8_t *bounds;        /* RocksDB borrows the ends */
    bool reverse;
    bool started;
};

/* ---- views and the shelter ---- */

rocksdb_readoptions_t *rocks__read_options_new(enum engine_tier tier)
{
    enum { BLOCK_CACHE_TIER = 1 };
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_total_order_seek(read, 1);
    rocksdb_readoptions_set_background_purge_on_iterator_cleanup(read, 1);
    if (tier == ENGINE_TIER_MEMORY)
        rocksdb_readoptions_set_read_tier(read, BLOCK_CACHE_TIER);
    return read;
}

static struct rocks_view *view_new(struct rocks *rocks)
{
    struct rocks_view *view = mem_zalloc(sizeof *view);

    view->snapshot = rocksdb_create_snapshot(rocks->db);
    view->ref_count = 1;
    for (size_t i = 0; i < ROCKS_TIERS; i++) {
        view->read[i] = rocks__read_options_new((enum engine_tier)i);
        rocksdb_readoptions_set_snapshot(view->read[i], view->snapshot);
    }
    return view;
}

/* What the read has to use: a view, referenced until read_end(), or NULL: no snapshot. A read
 * without one ends as soon as it has its files: a unit with range deletes waits for it. */
static struct rocks_view *read_begin(struct rocks *rocks, const struct engine_view *view)
{
    pthread_mutex_lock(&rocks->view_lock);
    struct rocks_view *seen = view ? (struct rocks_view *)(uintptr_t)view : rocks->shelter;
    if (seen)
        seen->ref_count++;
    else
        rocks->bare_count++;
    pthread_mutex_unlock(&rocks->view_lock);
    return seen;
}

static void read_end(struct rocks *rocks, struct rocks_view *seen)
{
    pthread_mutex_lock(&rocks->view_lock);
    if (!seen) {
        if (--rocks->bare_count == 0)
            pthread_cond_signal(&rocks->bare_gone);
    } else if (--seen->ref_count == 0) {
        seen->next = rocks->retired;
        rocks->retired = seen;
    }
    pthread_mutex_unlock(&rocks->view_lock);
}

void rocks__views_release(struct rocks *rocks)
{
    pthread_mutex_lock(&rocks->view_lock);
    struct rocks_view *view = rocks->retired;
    rocks->retired = NULL;
    pthread_mutex_unlock(&rocks->view_lock);
    while (view) {
        struct rocks_view *next = view->next;
        for (size_t i = 0; i < ROCKS_TIERS; i++)
            rocksdb_readoptions_destroy(view->read[i]);
        rocksdb_release_snapshot(rocks->db, view->snapshot);
        mem_free(view);
        view = next;
    }
}

void rocks__shelter_begin(struct rocks *rocks)
{
    struct rocks_view *view = view_new(rocks);

    pthread_mutex_lock(&rocks->view_lock);
    rocks->shelter = view;
    while (rocks->bare_count > 0) /* no new ones come */
        pthread_cond_wait(&rocks->bare_gone, &rocks->view_lock);
    pthread_mutex_unlock(&rocks->view_lock);
}

void rocks__shelter_end(struct rocks *rocks)
{
    pthread_mutex_lock(&rocks->view_lock);
    struct rocks_view *view = rocks->shelter;
    rocks->shelter = NULL;
    pthread_mutex_unlock(&rocks->view_lock);
    read_end(rocks, view);
    rocks__views_release(rocks);
}

/* ---- reads ---- */

/* A plain get of the cache tier answers an empty value where a table is not open. This call says
 * whether it has found the value, but takes every error for absence. */
static enum rc get_cached(struct rocks *rocks, const rocksdb_readoptions_t *read, struct bytes key,
                          struct buf *value, struct err *err)
{
    unsigned char found = 0;
    char *ptr = NULL;
    size_t len = 0;

    if (atomic_load(&rocks->ingesting))
        return RC_COLD; /* (6) */
    enum rc rc = RC_NOT_FOUND;
    if (rocksdb_key_may_exist(rocks->db, read, (const char *)key.ptr, key.len, &ptr, &len, NULL, 0,
                              &found))
        rc = found ? engine__value_add(value, bytes_of(ptr, len), err) : RC_COLD;
    rocksdb_free(ptr); /* it may be there without having been found */
    return rc;
}

static enum rc get_all(struct rocks *rocks, const rocksdb_readoptions_t *read, struct bytes key,
                       struct buf *value, struct err *err)
{
    char *status = NULL;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(rocks->db, read, (const char *)key.ptr, key.len, &status);
    enum rc rc = rocks__status_take(status, "read a row", err);
    if (rc == RC_OK && !slice)
        return RC_NOT_FOUND;
    if (rc == RC_OK) {
        size_t len = 0;
        const char *ptr = rocksdb_pinnableslice_value(slice, &len);
        rc = engine__value_add(value, bytes_of(ptr, len), err);
    }
    if (slice)
        rocksdb_pinnableslice_destroy(slice);
    return rc;
}

enum rc rocks__get(struct engine *engine, const struct engine_view *view, struct bytes key,
                   enum engine_tier tier, struct buf *value, struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;
    struct rocks_view *seen = read_begin(rocks, view);
    const rocksdb_readoptions_t *read = seen ? seen->read[tier] : rocks->read[tier];

    enum rc rc = tier == ENGINE_TIER_MEMORY ? get_cached(rocks, read, key, value, err)
                                            : get_all(rocks, read, key, value, err);
    read_end(rocks, seen);
    return rc;
}

bool rocks__may_have(struct engine *engine, struct bytes key)
{
    struct rocks *rocks = (struct rocks *)engine;

    if (atomic_load(&rocks->ingesting))
        return true; /* (6) */
    struct rocks_view *seen = read_begin(rocks, NULL);
    const rocksdb_readoptions_t *read =
        seen ? seen->read[ENGINE_TIER_MEMORY] : rocks->read[ENGINE_TIER_MEMORY];
    bool may_have = rocksdb_key_may_exist(rocks->db, read, (const char *)key.ptr, key.len, NULL,
                                          NULL, NULL, 0, NULL);
    read_end(rocks, seen);
    return may_have;
}

/* The caller's word is checked: a prefix seek outside of one group would miss rows. */
static bool range_is_one_group(const struct rocks *rocks, const struct engine_range *range)
{
    struct bytes group, suffix;
    uint8_t space;
    bool is_inside = false;
    struct buf end;

    if (!range->one_group || range->upper.len == 0 ||
        space_key_split(rocks->spaces, range->lower, &space, &group, &suffix, NULL) != RC_OK ||
        !rocks__key_is_grouped(rocks->spaces, (const char *)range->lower.ptr, range->lower.len))
        return false;
    struct bytes head = bytes_of(range->lower.ptr, range->lower.len - suffix.len);
    buf_init(&end, ENGINE_KEY_BYTES_MAX);
    if (space_successor_add(head, &end))
        is_inside = bytes_cmp(range->upper, buf_bytes(&end)) <= 0;
    buf_done(&end);
    return is_inside;
}

void rocks__iter_close(struct engine_iter *iter)
{
    struct rocks_iter *self = (struct rocks_iter *)iter;
    if (!self)
        return;
    if (self->it)
        rocksdb_iter_destroy(self->it);
    if (self->read)
        rocksdb_readoptions_destroy(self->read);
    if (self->view)
        read_end((struct rocks *)iter->engine, self->view);
    mem_free(self->bounds);
    mem_free(self);
}

static void iter_set_bounds(struct rocks_iter *iter, const struct engine_range *range)
{
    iter->bounds = mem_alloc(range->lower.len + range->upper.len);
    char *upper = (char *)iter->bounds + range->lower.len;
    if (range->lower.len > 0) {
        memcpy(iter->bounds, range->lower.ptr, range->lower.len);
        rocksdb_readoptions_set_iterate_lower_bound(iter->read, (char *)iter->bounds,
                                                    range->lower.len);
    }
    if (range->upper.len > 0) {
        memcpy(upper, range->upper.ptr, range->upper.len);
        rocksdb_readoptions_set_iterate_upper_bound(iter->read, upper, range->upper.len);
    }
}

enum rc rocks__iter_open(struct engine *engine, const struct engine_view *view,
                         const struct engine_range *range, struct engine_iter **ret_iter,
                         struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;
    struct rocks_iter *iter = mem_zalloc(sizeof *iter);

    (void)err;
    iter->iter.engine = engine;
    iter->reverse = range->reverse;
    *ret_iter = &iter->iter;
    if (range->upper.len > 0 && bytes_cmp(range->lower, range->upper) >= 0)
        return RC_OK; /* (3): no rows, and no iterator with inverted bounds */
    iter->read = rocks__read_options_new(ENGINE_TIER_ALL);
    iter_set_bounds(iter, range);
    if (range->once)
        rocksdb_readoptions_set_fill_cache(iter->read, 0);
    /* In reverse the filters of partitions have had too many errors to be trusted. */
    if (!range->reverse && range_is_one_group(rocks, range))
        rocksdb_readoptions_set_total_order_seek(iter->read, 0);
    iter->view = read_begin(rocks, view);
    if (iter->view)
        rocksdb_readoptions_set_snapshot(iter->read, iter->view->snapshot);
    iter->it = rocksdb_create_iterator(rocks->db, iter->read);
    if (!iter->view)
        read_end(rocks, NULL); /* (7): it has its files now */
    return RC_OK;
}

static void iter_step(struct rocks_iter *iter)
{
    if (!iter->started && iter->reverse)
        rocksdb_iter_seek_to_last(iter->it); /* below the upper bound */
    else if (!iter->started)
        rocksdb_iter_seek_to_first(iter->it);
    else if (iter->reverse)
        rocksdb_iter_prev(iter->it);
    else
        rocksdb_iter_next(iter->it);
    iter->started = true;
}

enum rc rocks__iter_next(struct engine_iter *iter, struct bytes *ret_key, struct bytes *ret_value,
                         struct err *err)
{
    struct rocks_iter *self = (struct rocks_iter *)iter;
    size_t len = 0;
    char *status = NULL;

    if (!self->it || (self->started && !rocksdb_iter_valid(self->it)))
        return RC_NOT_FOUND;
    iter_step(self);
    if (!rocksdb_iter_valid(self->it)) {
        rocksdb_iter_get_error(self->it, &status);
        enum rc rc = rocks__status_take(status, "read rows", err);
        return rc == RC_OK ? RC_NOT_FOUND : rc;
    }
    const char *key = rocksdb_iter_key(self->it, &len);
    *ret_key = bytes_of(key, len);
    const char *value = rocksdb_iter_value(self->it, &len);
    *ret_value = bytes_of(value, len);
    return RC_OK;
}

enum rc rocks__view_open(struct engine *engine, struct engine_view **ret_view, struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;

    (void)err;
    pthread_mutex_lock(&rocks->apply_lock); /* (9) */
    *ret_view = (struct engine_view *)view_new(rocks);
    pthread_mutex_unlock(&rocks->apply_lock);
    return RC_OK;
}

void rocks__view_close(struct engine *engine, struct engine_view *view)
{
    if (view)
        read_end((struct rocks *)engine, (struct rocks_view *)view);
}

// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_read.c - reads from RocksDB: views, gets, iterators, and the gate before them. */
#include "store/engine/engine_rocksdb_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

enum { ROW_BYTES_KEPT = 64 * 1024 }; /* of an iterator's row, after a larger one */

struct rocks_iter {
    struct engine_iter iter;
    struct dlink link;       /* of rocks->iters */
    struct rocks_view *view; /* a reference; NULL: none */
    rocksdb_readoptions_t *read;
    rocksdb_iterator_t *it; /* NULL: the range is empty, or it was detached */
    uint8_t *bounds;        /* RocksDB borrows the ends */
    struct buf row;         /* a copy of the row given last (10): key and value */
    bool reverse;
    bool started;
    bool detached; /* changed with the gate held for writing */
};

/* ---- the gate ---- */

bool rocks__gate_try(struct rocks *rocks)
{
    if (pthread_rwlock_tryrdlock(&rocks->gate) != 0)
        return false;
    if (rocks->db)
        return true;
    pthread_rwlock_unlock(&rocks->gate);
    return false;
}

enum rc rocks__gate_enter(struct rocks *rocks, struct err *err)
{
    pthread_rwlock_rdlock(&rocks->gate);
    if (rocks->db)
        return RC_OK;
    pthread_rwlock_unlock(&rocks->gate);
    return err_set(err, RC_IO, "the engine is closed after an error, and could not be opened yet");
}

void rocks__gate_leave(struct rocks *rocks)
{
    pthread_rwlock_unlock(&rocks->gate);
}

static enum rc detached_error(struct err *err)
{
    return err_set(err, RC_IO, "the engine was closed and opened again after an error");
}

/* rocks__gate_enter() for a read of a view, which may be from before. */
static enum rc read_enter(struct rocks *rocks, const struct engine_view *view, struct err *err)
{
    enum rc rc = rocks__gate_enter(rocks, err);
    if (rc != RC_OK || !view || !((const struct rocks_view *)view)->detached)
        return rc;
    rocks__gate_leave(rocks);
    return detached_error(err);
}

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
    pthread_mutex_lock(&rocks->view_lock);
    dlist_add_first(&rocks->views, &view->link);
    pthread_mutex_unlock(&rocks->view_lock);
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
        dlist_remove(&rocks->views, &seen->link);
        dlist_add_first(&rocks->retired, &seen->link);
    }
    pthread_mutex_unlock(&rocks->view_lock);
}

void rocks__views_release(struct rocks *rocks)
{
    pthread_mutex_lock(&rocks->view_lock);
    struct dlist retired = rocks->retired;
    rocks->retired = (struct dlist){0};
    pthread_mutex_unlock(&rocks->view_lock);
    for (struct dlink *link; (link = dlist_take_first(&retired));) {
        struct rocks_view *view = DLIST_ITEM(link, struct rocks_view, link);
        for (size_t i = 0; i < ROCKS_TIERS; i++)
            rocksdb_readoptions_destroy(view->read[i]);
        if (!view->detached)
            rocksdb_release_snapshot(rocks->db, view->snapshot);
        mem_free(view);
    }
}

static void views_detach(struct rocks *rocks, const struct dlist *views)
{
    for (struct dlink *link = views->first; link; link = link->next) {
        struct rocks_view *view = DLIST_ITEM(link, struct rocks_view, link);
        if (!view->detached)
            rocksdb_release_snapshot(rocks->db, view->snapshot);
        view->detached = true;
    }
}

/* Both lists under one lock: a view whose last reader leaves meanwhile moves from one to the other.
 */
void rocks__detach(struct rocks *rocks)
{
    pthread_mutex_lock(&rocks->view_lock);
    for (struct dlink *link = rocks->iters.first; link; link = link->next) {
        struct rocks_iter *iter = DLIST_ITEM(link, struct rocks_iter, link);
        if (iter->it)
            rocksdb_iter_destroy(iter->it);
        iter->it = NULL;
        iter->detached = true;
    }
    views_detach(rocks, &rocks->views);
    views_detach(rocks, &rocks->retired);
    pthread_mutex_unlock(&rocks->view_lock);
    rocks__views_release(rocks);
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

/* What RocksDB knows without a disk. The status of a get is its only exact word: KeyMayExist()
 * calls a value found until something says otherwise, which a missing block of the index does not,
 * and takes every error for absence. An empty value is no answer: RocksDB before 9.1 gives one
 * where a table is not open. */
static enum rc get_cached(struct rocks *rocks, const rocksdb_readoptions_t *read, struct bytes key,
                          struct buf *value, struct err *err)
{
    if (atomic_load(&rocks->ingesting))
        return RC_COLD; /* (6) */
    char *status = NULL;
    size_t len = 0;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(rocks->db, read, (const char *)key.ptr, key.len, &status);
    if (status) { /* a block is missing, or an error that a read of the disk will meet again */
        rocksdb_free(status);
        return RC_COLD;
    }
    if (!slice)
        return RC_NOT_FOUND;
    const char *ptr = rocksdb_pinnableslice_value(slice, &len);
    enum rc rc = RC_COLD;
    if (len > 0)
        rc = value ? engine__value_add(value, bytes_of(ptr, len), err) : RC_OK;
    rocksdb_pinnableslice_destroy(slice);
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
    bool memory = tier == ENGINE_TIER_MEMORY;

    if (memory && !rocks__gate_try(rocks))
        return RC_COLD;
    enum rc rc = memory ? RC_OK : read_enter(rocks, view, err);
    if (rc != RC_OK)
        return rc;
    struct rocks_view *seen = read_begin(rocks, view);
    const rocksdb_readoptions_t *read = seen ? seen->read[tier] : rocks->read[tier];
    if (memory && seen && seen->detached)
        rc = RC_COLD; /* who reads all tiers is told */
    else
        rc = memory ? get_cached(rocks, read, key, value, err)
                    : get_all(rocks, read, key, value, err);
    read_end(rocks, seen);
    rocks__gate_leave(rocks);
    return rc;
}

bool rocks__may_have(struct engine *engine, struct bytes key)
{
    struct rocks *rocks = (struct rocks *)engine;

    if (!rocks__gate_try(rocks))
        return true;
    struct rocks_view *seen = read_begin(rocks, NULL);
    const rocksdb_readoptions_t *read =
        seen ? seen->read[ENGINE_TIER_MEMORY] : rocks->read[ENGINE_TIER_MEMORY];
    bool may_have = get_cached(rocks, read, key, NULL, NULL) != RC_NOT_FOUND;
    read_end(rocks, seen);
    rocks__gate_leave(rocks);
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

static void iter_link(struct rocks *rocks, struct rocks_iter *iter)
{
    pthread_mutex_lock(&rocks->view_lock);
    dlist_add_first(&rocks->iters, &iter->link);
    pthread_mutex_unlock(&rocks->view_lock);
}

static void iter_unlink(struct rocks *rocks, struct rocks_iter *iter)
{
    pthread_mutex_lock(&rocks->view_lock);
    dlist_remove(&rocks->iters, &iter->link);
    pthread_mutex_unlock(&rocks->view_lock);
}

void rocks__iter_close(struct engine_iter *iter)
{
    struct rocks_iter *self = (struct rocks_iter *)iter;
    if (!self)
        return;
    struct rocks *rocks = (struct rocks *)iter->engine;
    pthread_rwlock_rdlock(&rocks->gate);
    if (self->it)
        rocksdb_iter_destroy(self->it);
    iter_unlink(rocks, self);
    rocks__gate_leave(rocks);
    if (self->read)
        rocksdb_readoptions_destroy(self->read);
    if (self->view)
        read_end(rocks, self->view);
    buf_done(&self->row);
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

    enum rc rc = read_enter(rocks, view, err);
    if (rc != RC_OK)
        return rc;
    struct rocks_iter *iter = mem_zalloc(sizeof *iter);
    iter->iter.engine = engine;
    iter->reverse = range->reverse;
    buf_init(&iter->row, SIZE_MAX);
    iter_link(rocks, iter);
    *ret_iter = &iter->iter;
    if (range->upper.len > 0 && bytes_cmp(range->lower, range->upper) >= 0) {
        rocks__gate_leave(rocks);
        return RC_OK; /* (3): no rows, and no iterator with inverted bounds */
    }
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
    rocks__gate_leave(rocks);
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

/* One step; the row is copied (10). The gate is held. */
static enum rc iter_row(struct rocks_iter *iter, struct bytes *ret_key, struct bytes *ret_value,
                        struct err *err)
{
    size_t key_len = 0, value_len = 0;
    char *status = NULL;

    if (!iter->it || (iter->started && !rocksdb_iter_valid(iter->it)))
        return RC_NOT_FOUND;
    iter_step(iter);
    if (!rocksdb_iter_valid(iter->it)) {
        rocksdb_iter_get_error(iter->it, &status);
        enum rc rc = rocks__status_take(status, "read rows", err);
        return rc == RC_OK ? RC_NOT_FOUND : rc;
    }
    const char *key = rocksdb_iter_key(iter->it, &key_len);
    const char *value = rocksdb_iter_value(iter->it, &value_len);
    buf_shrink(&iter->row, ROW_BYTES_KEPT);
    if (!buf_add(&iter->row, key, key_len) || !buf_add(&iter->row, value, value_len))
        return err_set(err, RC_NOMEM, "could not allocate a row of %zu bytes", key_len + value_len);
    *ret_key = bytes_of(iter->row.ptr, key_len);
    *ret_value = bytes_of(iter->row.ptr + key_len, value_len);
    return RC_OK;
}

enum rc rocks__iter_next(struct engine_iter *iter, struct bytes *ret_key, struct bytes *ret_value,
                         struct err *err)
{
    struct rocks *rocks = (struct rocks *)iter->engine;
    struct rocks_iter *self = (struct rocks_iter *)iter;

    pthread_rwlock_rdlock(&rocks->gate);
    enum rc rc = self->detached ? detached_error(err) : iter_row(self, ret_key, ret_value, err);
    rocks__gate_leave(rocks);
    return rc;
}

enum rc rocks__view_open(struct engine *engine, struct engine_view **ret_view, struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;

    enum rc rc = rocks__gate_enter(rocks, err);
    if (rc != RC_OK)
        return rc;
    pthread_mutex_lock(&rocks->apply_lock); /* (9) */
    *ret_view = (struct engine_view *)view_new(rocks);
    pthread_mutex_unlock(&rocks->apply_lock);
    rocks__gate_leave(rocks);
    return RC_OK;
}

void rocks__view_close(struct engine *engine, struct engine_view *view)
{
    if (view)
        read_end((struct rocks *)engine, (struct rocks_view *)view);
}

/* ---- verifying ---- */

/* Reads from `from` on. RC_OK: to the end. After an error *last is the last row's key, if any. */
static enum rc rows_verify(struct rocks *rocks, struct bytes from, struct buf *last,
                           struct err *err)
{
    char *status = NULL;
    bool copied = true;
    rocksdb_readoptions_t *read = rocks__read_options_new(ENGINE_TIER_ALL);
    rocksdb_readoptions_set_fill_cache(read, 0);
    rocksdb_readoptions_set_verify_checksums(read, 1);
    rocksdb_iterator_t *it = rocksdb_create_iterator(rocks->db, read);
    rocksdb_iter_seek(it, (const char *)from.ptr, from.len);
    for (; copied && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        size_t len = 0;
        const char *key = rocksdb_iter_key(it, &len);
        buf_cut(last, 0);
        copied = buf_add(last, key, len);
    }
    rocksdb_iter_get_error(it, &status);
    rocksdb_iter_destroy(it);
    rocksdb_readoptions_destroy(read);
    enum rc rc = rocks__status_take(status, "read a table", err);
    return copied ? rc : err_set(err, RC_NOMEM, "could not allocate a key");
}

static int end_cmp(const void *left, const void *right)
{
    return bytes_cmp(*(const struct bytes *)left, *(const struct bytes *)right);
}

/* Where tables begin and end, in order. */
static struct bytes *table_ends(const rocksdb_livefiles_t *files, size_t *ret_count)
{
    size_t count = 2 * (size_t)rocksdb_livefiles_count(files);
    struct bytes *end = mem_alloc((count + 1) * sizeof *end);
    for (size_t i = 0; i < count; i++) {
        size_t len = 0;
        const char *key = i % 2 == 0 ? rocksdb_livefiles_smallestkey(files, (int)(i / 2), &len)
                                     : rocksdb_livefiles_largestkey(files, (int)(i / 2), &len);
        end[i] = bytes_of(key, len);
    }
    qsort(end, count, sizeof *end, end_cmp);
    *ret_count = count;
    return end;
}

/* Whether the error is of a table that an error before it was of. */
static bool verify_told(struct buf *told, const char *text)
{
    enum { NAME_BYTES = 10 }; /* "000012.sst" */
    const char *end = strstr(text, ".sst");
    if (!end || end - text < NAME_BYTES - 4)
        return false;
    struct bytes name = bytes_of(end + 4 - NAME_BYTES, NAME_BYTES);
    if (told->len > 0 && memmem(told->ptr, told->len, name.ptr, name.len))
        return true;
    bool added = buf_add_bytes(told, name);
    (void)added; /* without memory it may be told twice */
    return false;
}

/* Tables that lie over one another are read together, each row once. An iterator does not pass an
 * error, so reading goes on where the next table begins or ends: what is not read is what lies
 * between. */
enum rc rocks__verify(struct engine *engine, void (*fn)(void *arg, const char *text), void *arg,
                      struct err *err)
{
    struct rocks *rocks = (struct rocks *)engine;
    CLEANUP(buf_done) struct buf told;
    CLEANUP(buf_done) struct buf last;
    struct err found = {0};
    size_t count = 0, at = 0;

    enum rc rc = rocks__gate_enter(rocks, err);
    if (rc != RC_OK)
        return rc;
    buf_init(&told, SIZE_MAX);
    buf_init(&last, SIZE_MAX);
    const rocksdb_livefiles_t *files = rocksdb_livefiles(rocks->db);
    struct bytes *end = table_ends(files, &count);
    while (at < count && (rc = rows_verify(rocks, end[at], &last, &found)) != RC_OK) {
        if (!verify_told(&told, found.text))
            fn(arg, found.text);
        struct bytes from = end[at];
        if (last.len > 0 && bytes_cmp(buf_bytes(&last), from) > 0)
            from = buf_bytes(&last);
        while (at < count && bytes_cmp(end[at], from) <= 0)
            at++;
    }
    mem_free(end);
    rocksdb_livefiles_destroy(files);
    rocks__gate_leave(rocks);
    return RC_OK;
}

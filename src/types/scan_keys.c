// SPDX-License-Identifier: Apache-2.0
/* scan_keys.c - walks the keys of a namespace, those in memory first, then those in the engine. */
#include "types/scan_keys.h"

#include <strings.h>

#include "base/codec.h"
#include "types/glob.h"

#include "base/banned.h"

enum {
    BUCKETS_A_KEY = 10,     /* buckets a step of SCAN looks at for each key it may give */
    BUCKETS_MIN = 512,      /* and at least: a small namespace in a large table ends soon */
    RANDOM_BUCKETS = 1024,  /* before the engine is asked */
    RANDOM_PAGE_KEYS = 256, /* of the engine, one of which is taken */
    PAGE_KEYS_MAX = 65536,
    POSITION_HOT = 'h',
    POSITION_ENGINE = 'e',
    POSITION_HOT_BYTES = 1 + 8,
};

/* ---- one row ---- */

struct visit { /* what a walk is looking for, and what it has found */
    const struct run *run;
    const struct scan_keys *filter; /* NULL: every key that is alive */
    bool cold_only;                 /* a walk over the memory shows the others */
    scan_keys_fn *fn;
    void *arg;
    uint64_t looked_count;
    uint64_t alive_count;
    enum rc rc; /* of the first row that could not be read */
    struct err *err;
};

static bool type_is(uint8_t type, struct bytes wanted)
{
    const char *name = type_name(type);
    return strlen(name) == wanted.len &&
           strncasecmp(name, (const char *)wanted.ptr, wanted.len) == 0;
}

static bool filter_passes(const struct scan_keys *filter, const struct store_scan_row *row,
                          const struct meta *meta)
{
    if (filter->has_type && !type_is(meta->type, filter->type))
        return false;
    return !filter->has_pattern || glob_is_all(filter->pattern) ||
           glob_match(filter->pattern, row->key, false);
}

static void row_visit(void *arg, const struct store_scan_row *row)
{
    struct visit *visit = arg;
    struct meta meta;
    if (visit->rc != RC_OK)
        return;
    visit->looked_count++;
    if (row->hot && visit->cold_only)
        return;
    visit->rc = row->packed ? meta_decode_packed(row->value, &meta, visit->err)
                            : meta_decode(row->value, &meta, visit->err);
    if (visit->rc != RC_OK)
        return;
    bool is_dead = meta.expire_ms != 0 && meta.expire_ms <= visit->run->now_ms;
    if (is_dead && !(visit->filter && visit->filter->takes_dead))
        return;
    if (visit->filter && !filter_passes(visit->filter, row, &meta))
        return;
    visit->alive_count++;
    visit->fn(visit->arg, row->key);
}

/* ---- SCAN ---- */

/* kind ‖ rest ‖ the zero that follows a key that was looked at */
static enum rc position_put(struct buf *to, uint8_t kind, struct bytes rest, bool behind,
                            struct err *err)
{
    buf_cut(to, 0);
    if (!buf_add(to, &kind, 1) || !buf_add_bytes(to, rest) || !buf_add(to, "", behind ? 1 : 0))
        return err_set(err, RC_NOMEM, "could not allocate memory for a cursor");
    return RC_OK;
}

static enum rc hot_step(struct visit *visit, const struct scan_keys *scan, uint64_t table_cursor,
                        struct buf *ret_next, struct err *err)
{
    struct ns *ns = visit->run->ns;
    uint64_t buckets = BUCKETS_MIN;
    uint8_t cursor[8];
    if (scan->count > BUCKETS_MIN / BUCKETS_A_KEY)
        buckets = scan->count < UINT32_MAX ? scan->count * BUCKETS_A_KEY : UINT64_MAX;
    do {
        table_cursor = store_scan_hot(ns->kv->store, ns->meta, table_cursor, row_visit, visit);
    } while (table_cursor != 0 && visit->looked_count < scan->count && --buckets > 0);
    be64_put(cursor, table_cursor);
    if (table_cursor != 0)
        return position_put(ret_next, POSITION_HOT, bytes_of(cursor, sizeof cursor), false, err);
    if (!store_scan_complete(ns->kv->store, ns->meta))
        return position_put(ret_next, POSITION_ENGINE, BYTES(""), false, err);
    buf_cut(ret_next, 0);
    return RC_OK;
}

static enum rc engine_step(struct visit *visit, const struct scan_keys *scan, struct bytes from,
                           struct buf *ret_next, struct err *err)
{
    struct store_scan_page page = {
        .prefix = visit->run->ns->meta,
        .from = from,
        .look_count_max = scan->count < PAGE_KEYS_MAX ? (uint32_t)scan->count : PAGE_KEYS_MAX,
    };
    bool more;
    struct bytes last;
    enum rc rc =
        store_scan_engine(visit->run->ns->kv->store, &page, row_visit, visit, &more, &last, err);
    if (rc != RC_OK)
        return rc;
    if (more)
        return position_put(ret_next, POSITION_ENGINE, last, true, err);
    buf_cut(ret_next, 0);
    return RC_OK;
}

enum rc scan_keys_step(const struct run *run, const struct scan_keys *scan, struct bytes position,
                       scan_keys_fn *fn, void *arg, struct buf *ret_next, struct err *err)
{
    struct visit visit = {.run = run, .filter = scan, .fn = fn, .arg = arg, .err = err};
    enum rc rc;
    if (position.len == 0)
        rc = hot_step(&visit, scan, 0, ret_next, err);
    else if (position.ptr[0] == POSITION_HOT)
        rc = hot_step(&visit, scan, be64_get(position.ptr + 1), ret_next, err);
    else
        rc = engine_step(&visit, scan, bytes_from(position, 1), ret_next, err);
    return rc == RC_OK ? visit.rc : rc;
}

/* Any cursor may be given to any command: one of HSCAN is as unknown as one that was forgotten. */
static enum rc position_find(struct kv *kv, uint64_t cursor, struct bytes *ret_position,
                             struct err *err)
{
    *ret_position = BYTES("");
    if (cursor == 0)
        return RC_OK;
    enum rc rc = scan_cursor_find(kv, cursor, ret_position, err);
    if (rc != RC_OK)
        return rc;
    struct bytes is = *ret_position;
    bool hot = is.len == POSITION_HOT_BYTES && is.ptr[0] == POSITION_HOT;
    bool engine = is.len > 0 && is.len <= KEY_BYTES_MAX + 2 && is.ptr[0] == POSITION_ENGINE;
    if (!hot && !engine)
        return err_set(err, RC_INVALID, "the cursor is not one of SCAN");
    return RC_OK;
}

enum rc scan_keys(const struct run *run, const struct scan_keys *scan, scan_keys_fn *fn, void *arg,
                  uint64_t *ret_cursor, struct err *err)
{
    struct kv *kv = run->kv;
    struct bytes position;
    enum rc rc = position_find(kv, scan->cursor, &position, err);
    if (rc == RC_OK)
        rc = scan_keys_step(run, scan, position, fn, arg, &kv->row, err);
    if (rc == RC_OK)
        *ret_cursor = kv->row.len > 0 ? scan_cursor_keep(kv, buf_bytes(&kv->row)) : 0;
    return rc;
}

/* ---- KEYS ---- */

static bool page_match(struct bytes pattern, struct bytes name)
{
    return glob_match(pattern, name, false);
}

/* All pages of the engine, one after the other. fn NULL: only asks for them. */
static enum rc pages_walk(struct ns *ns, struct bytes pattern, store_scan_fn *fn, void *arg,
                          struct err *err)
{
    CLEANUP(buf_done) struct buf from;
    buf_init(&from, KEY_BYTES_MAX + 1);
    struct store_scan_page page = {.prefix = ns->meta, .look_count_max = PAGE_KEYS_MAX};
    if (!glob_is_all(pattern)) {
        page.match = page_match;
        page.pattern = pattern;
    }
    for (bool more = true; more;) {
        struct bytes last;
        page.from = buf_bytes(&from);
        enum rc rc = store_scan_engine(ns->kv->store, &page, fn, arg, &more, &last, err);
        if (rc != RC_OK)
            return rc;
        buf_cut(&from, 0);
        if (more && (!buf_add_bytes(&from, last) || !buf_add(&from, "", 1)))
            return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    }
    return RC_OK;
}

enum rc scan_keys_all(const struct run *run, struct bytes pattern, scan_keys_fn *fn, void *arg,
                      struct err *err)
{
    struct scan_keys filter = {.has_pattern = true, .pattern = pattern};
    struct visit visit = {.run = run, .filter = &filter, .fn = fn, .arg = arg, .err = err};
    /* The pages come one by one, and the command runs again for each: until all are there it does
     * nothing else. */
    enum rc rc = pages_walk(run->ns, pattern, NULL, NULL, err);
    if (rc != RC_OK)
        return rc;
    uint64_t cursor = 0;
    do {
        cursor = store_scan_hot(run->kv->store, run->ns->meta, cursor, row_visit, &visit);
    } while (cursor != 0);
    visit.cold_only = true;
    rc = pages_walk(run->ns, pattern, row_visit, &visit, err);
    return rc == RC_OK ? visit.rc : rc;
}

/* ---- RANDOMKEY ---- */

struct lot { /* one of those seen so far, each with the same chance */
    struct kv *kv;
    uint64_t seen_count;
    struct buf name;
    bool failed;
};

static void lot_draw(void *arg, struct bytes name)
{
    struct lot *lot = arg;
    if (rand_below(&lot->kv->rand, ++lot->seen_count) != 0)
        return;
    buf_cut(&lot->name, 0);
    lot->failed = !buf_add_bytes(&lot->name, name);
}

/* From one bucket on until a key was seen; `buckets` at most, 0: all that follow. */
static void hot_draw(struct visit *visit, uint64_t table_cursor, uint64_t buckets)
{
    struct ns *ns = visit->run->ns;
    do {
        table_cursor = store_scan_hot(ns->kv->store, ns->meta, table_cursor, row_visit, visit);
    } while (table_cursor != 0 && visit->alive_count == 0 && --buckets != 0);
}

static enum rc engine_draw(struct visit *visit, struct err *err)
{
    struct kv *kv = visit->run->ns->kv;
    CLEANUP(buf_done) struct buf from;
    buf_init(&from, KEY_BYTES_MAX + 1);
    for (bool more = true; more && visit->alive_count == 0;) {
        struct store_scan_page page = {.prefix = visit->run->ns->meta,
                                       .from = buf_bytes(&from),
                                       .look_count_max = RANDOM_PAGE_KEYS};
        struct bytes last;
        enum rc rc = store_scan_engine(kv->store, &page, row_visit, visit, &more, &last, err);
        if (rc != RC_OK)
            return rc;
        buf_cut(&from, 0);
        if (more && (!buf_add_bytes(&from, last) || !buf_add(&from, "", 1)))
            return err_set(err, RC_NOMEM, "could not allocate memory for a key");
    }
    return RC_OK;
}

enum rc scan_keys_random(const struct run *run, scan_keys_fn *fn, void *arg, struct err *err)
{
    struct kv *kv = run->kv;
    struct lot lot = {.kv = kv};
    struct visit visit = {.run = run, .fn = lot_draw, .arg = &lot, .err = err};
    enum rc rc = RC_OK;
    if (ns_key_count(run->ns) == 0)
        return RC_OK;
    buf_init(&lot.name, KEY_BYTES_MAX);
    hot_draw(&visit, store_scan_hot_random(kv->store, &kv->rand), RANDOM_BUCKETS);
    if (visit.alive_count == 0)
        rc = engine_draw(&visit, err);
    if (rc == RC_OK && visit.alive_count == 0)
        hot_draw(&visit, 0, 0);
    if (rc == RC_OK)
        rc = visit.rc;
    if (rc == RC_OK && lot.failed)
        rc = err_set(err, RC_NOMEM, "could not allocate memory for a key");
    if (rc == RC_OK && visit.alive_count > 0)
        fn(arg, buf_bytes(&lot.name));
    buf_done(&lot.name);
    return rc;
}

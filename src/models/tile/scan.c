// SPDX-License-Identifier: Apache-2.0
/* scan.c - ranges of keys: pages and counts, store and shards merged.
 *
 * An interval of the range at a time: its marks are read in a commit, then a reader asks the shards
 * for the same interval, then both are put together. A key is there if its mark says so; without a
 * mark, if a shard has it. A row without a mark is in the shards too, so rows are not looked at.
 *
 * Invariants:
 *   (1) Nothing outside the range is looked at, in the store or in a shard.
 *   (2) Marks are read before shards: what is persisted and cleared in between is in both, and
 *       counts once.
 *   (3) A page is whole up to its last key; the next one begins behind it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/tile/tile_int.h"

#include "base/banned.h"

enum {
    MARKS_MAX = 4096,     /* of an interval */
    MARKS_A_COMMIT = 512, /* read in one step */
};

enum scan_state { SCAN_MARKS, SCAN_ASKED, SCAN_ANSWERED, SCAN_READY };

struct scan_mark {
    struct tile_scan_row row;
    bool removed;
};

struct rows {
    struct tile_scan_row *row;
    size_t count, cap;
};

struct tile_scan {
    struct tile_work work;
    struct tiles *tiles;
    struct tile_scan_options options;
    struct dlink link; /* of tiles->scans */
    struct task *task;
    enum scan_state state;
    bool orphan;             /* its owner has gone while it was asked */
    struct tilekey from, to; /* what is left of the range */
    struct tilekey end;      /* of the interval */
    struct scan_mark *mark;
    size_t mark_count, mark_cap;
    bool marks_over; /* those of the interval are known */
    /* the reader's */
    struct rows shard;
    struct tilekey shard_end; /* up to here the shards were read */
    struct shard_count counted;
    enum rc rc;
    struct err err;
    /* the result */
    struct rows page;
    bool more;
    bool no_memory; /* the page is not what it should be */
    struct shard_count total;
};

/* ---- life ---- */

static struct tilekey key_after(struct tilekey key, bool tm)
{
    if (tm && key.ms < TILE_MS_MAX)
        return (struct tilekey){key.packed, key.ms + 1};
    return (struct tilekey){key.packed + 1, 0};
}

struct tile_scan *tile_scan_new(struct tiles *tiles, const struct tile_scan_options *options)
{
    bool tm = options->type->kind == TILE_TM;
    struct tile_scan *scan = mem_zalloc(sizeof *scan);
    scan->tiles = tiles;
    scan->options = *options;
    scan->from.packed = options->root;
    scan->to = (struct tilekey){tilekey_subtree_last(options->root), tm ? TILE_MS_MAX : 0};
    if (options->has_after && tilekey_cmp(options->after, scan->from) >= 0)
        scan->from = key_after(options->after, tm);
    dlist_add_first(&tiles->scans, &scan->link);
    return scan;
}

static void scan_end(struct tile_scan *scan)
{
    dlist_remove(&scan->tiles->scans, &scan->link);
    mem_free(scan->mark);
    mem_free(scan->shard.row);
    mem_free(scan->page.row);
    mem_free(scan);
}

void tile_scan_free(void *arg)
{
    struct tile_scan *scan = arg;
    if (!scan)
        return;
    if (scan->state == SCAN_ASKED)
        scan->orphan = true;
    else
        scan_end(scan);
}

void tiles__scans_end(struct tiles *tiles)
{
    while (tiles->scans.first)
        scan_end(DLIST_ITEM(tiles->scans.first, struct tile_scan, link));
}

static bool row_add(struct rows *rows, const struct tile_scan_row *row)
{
    if (rows->count == rows->cap) {
        size_t cap = rows->cap ? 2 * rows->cap : 256;
        struct tile_scan_row *more = mem_try_realloc(rows->row, cap * sizeof *more);
        if (!more)
            return false;
        rows->row = more;
        rows->cap = cap;
    }
    rows->row[rows->count++] = *row;
    return true;
}

static struct shard_range range_of(const struct tile_scan *scan, struct tilekey from,
                                   struct tilekey to)
{
    const struct tile_scan_options *options = &scan->options;
    return (struct shard_range){.from = from,
                                .to = to,
                                .level_from = options->level_from,
                                .level_to = options->level_to,
                                .ms_from = options->ms_from,
                                .ms_to = options->ms_to,
                                .status = options->status,
                                .bytes = options->bytes};
}

/* ---- the marks of an interval ---- */

static enum rc mark_add(struct tile_scan *scan, struct tilekey key, struct bytes suffix,
                        struct bytes value, struct err *err)
{
    struct tile_type *type = scan->options.type;
    struct scan_mark one = {.row.key = key};
    struct tile_mark mark;
    struct bytes row;
    struct err why = {0};
    enum rc rc = tile__mark_decode(value, &mark, &why);
    if (rc != RC_OK)
        return tile__damaged(type, key, why.text, err);
    one.removed = mark.op == TILE_MARK_DEL;
    one.row.bytes = mark.bytes;
    if (type->kind == TILE_META && !one.removed) {
        rc = store_get(scan->tiles->store, tile__rows(type), suffix, &row, err);
        if (rc == RC_NOT_FOUND || (rc == RC_OK && row.len == 0))
            return tile__damaged(type, key, "it is marked, but it is not there", err);
        if (rc != RC_OK)
            return rc;
        one.row.status = row.ptr[0];
    }
    if (scan->mark_count == scan->mark_cap) {
        scan->mark_cap = scan->mark_cap ? 2 * scan->mark_cap : 64;
        scan->mark = mem_realloc(scan->mark, scan->mark_cap * sizeof *scan->mark);
    }
    scan->mark[scan->mark_count++] = one;
    return RC_OK;
}

/* It is somewhere in the range, and of a tile that nobody can name. */
static enum rc key_error(const struct tile_type *type, struct bytes suffix, struct err *err)
{
    char hex[2 * TILEKEY_TM_BYTES + 1] = "";
    for (size_t i = 0; i < suffix.len && i < TILEKEY_TM_BYTES; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", suffix.ptr[i]);
    return err_set(err, RC_CORRUPT, "a mark of type %s has a key that is no tilekey: %s",
                   type->name, hex);
}

/* A step of them, behind those that are known. */
static enum rc marks_read(struct tile_scan *scan, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct tile_type *type = scan->options.type;
    bool tm = type->kind == TILE_TM;
    struct tilekey key = scan->from;
    struct bytes suffix, value;
    if (scan->mark_count > 0)
        key = key_after(scan->mark[scan->mark_count - 1].row.key, tm);
    struct tile_suffix from = tile__suffix(type, key), to = tile__suffix(type, scan->to);
    store_walk_init(&walk, scan->tiles->store, tile__marks(type), false);
    enum rc rc = store_walk_seek(&walk, tile__suffix_bytes(&from), err);
    for (size_t n = 0; rc == RC_OK && n < MARKS_A_COMMIT && scan->mark_count < MARKS_MAX; n++) {
        rc = store_walk_next(&walk, &suffix, &value, err);
        if (rc == RC_NOT_FOUND ||
            (rc == RC_OK && bytes_cmp(suffix, tile__suffix_bytes(&to)) > 0)) { /* (1) */
            scan->marks_over = true;
            scan->end = scan->to;
            return RC_OK;
        }
        if (rc == RC_OK)
            rc = tilekey_get(suffix, tm, &key) ? mark_add(scan, key, suffix, value, err)
                                               : key_error(type, suffix, err);
    }
    if (rc == RC_OK && scan->mark_count == MARKS_MAX) {
        scan->marks_over = true;
        scan->end = scan->mark[scan->mark_count - 1].row.key;
    }
    return rc;
}

/* ---- the shards of an interval: on a reader's thread ---- */

struct scan_file {
    struct tile_scan *scan;
    struct shard_range range;
    size_t start; /* rows of the scan before it */
    size_t count_max, count;
    bool full;
    struct tilekey last;
    bool no_memory;
};

static bool file_row(void *arg, const struct tile_scan_row *row)
{
    struct scan_file *file = arg;
    if (file->count == file->count_max) {
        file->full = true;
        return false;
    }
    file->no_memory = !row_add(&file->scan->shard, row);
    file->last = row->key;
    file->count++;
    return !file->no_memory;
}

static enum rc file_scan(void *arg, struct shard *shard, struct err *err)
{
    struct scan_file *file = arg;
    file->scan->shard.count = file->start;
    file->count = 0;
    file->full = file->no_memory = false;
    enum rc rc = shard->ops->scan(shard, &file->range, file_row, file, err);
    if (rc == RC_OK && file->no_memory)
        rc = err_set(err, RC_NOMEM, "could not allocate memory for a range of tiles");
    return rc;
}

static int row_order(const void *a, const void *b)
{
    return tilekey_cmp(((const struct tile_scan_row *)a)->key,
                       ((const struct tile_scan_row *)b)->key);
}

static bool folder_fits(const struct tile_scan *scan, uint8_t folder)
{
    unsigned from, to;
    tile_folder_levels(folder, &from, &to);
    return from <= scan->options.level_to && to >= scan->options.level_from;
}

static struct tile_place place_of(uint8_t folder, uint8_t prefix4)
{
    return (struct tile_place){folder, folder == 0 ? 0 : prefix4};
}

/* All files with keys of one prefix4, at most count_max rows from `from` on. The keys of a prefix4
 * are an interval of their own. *ret_end: up to where all of them were read. */
static enum rc block_scan(struct tile_scan *scan, struct pool *pool, uint8_t prefix4,
                          struct tilekey from, struct tilekey to, size_t count_max,
                          struct tilekey *ret_end)
{
    size_t start = scan->shard.count;
    *ret_end = to;
    for (size_t i = 0; i < TILE_FOLDER_COUNT; i++) {
        struct scan_file file = {.scan = scan,
                                 .range = range_of(scan, from, *ret_end),
                                 .start = scan->shard.count,
                                 .count_max = count_max};
        struct shard_reader reader = {.run = file_scan, .arg = &file, .needs_all = true};
        if (!folder_fits(scan, tile_folders[i]))
            continue;
        enum rc rc = tile__shard_read(scan->options.type, pool, place_of(tile_folders[i], prefix4),
                                      &reader, &scan->err);
        if (rc == RC_NOT_FOUND)
            continue;
        if (rc != RC_OK)
            return rc;
        if (file.full)
            *ret_end = file.last;
    }
    struct tile_scan_row *row = scan->shard.row;
    if (scan->shard.count > start)
        qsort(row + start, scan->shard.count - start, sizeof *row, row_order);
    while (scan->shard.count > start && tilekey_cmp(row[scan->shard.count - 1].key, *ret_end) > 0)
        scan->shard.count--;
    return RC_OK;
}

static struct tilekey key_max(struct tilekey a, struct tilekey b)
{
    return tilekey_cmp(a, b) > 0 ? a : b;
}

static struct tilekey key_min(struct tilekey a, struct tilekey b)
{
    return tilekey_cmp(a, b) < 0 ? a : b;
}

static struct tilekey block_first(unsigned prefix4)
{
    return (struct tilekey){(uint64_t)prefix4 << 56, 0};
}

static struct tilekey block_last(unsigned prefix4, bool tm)
{
    return (struct tilekey){(uint64_t)prefix4 << 56 | UINT64_C(0x00ffffffffffffff),
                            tm ? TILE_MS_MAX : 0};
}

/* As many as a page needs whatever the marks take away. */
static void rows_run(struct tile_work *work, struct pool *pool)
{
    struct tile_scan *scan = (struct tile_scan *)work;
    bool tm = scan->options.type->kind == TILE_TM;
    size_t wanted = (size_t)scan->options.count_max + scan->mark_count;
    unsigned last = tilekey_prefix4(scan->end.packed);
    scan->rc = RC_OK;
    for (unsigned p = tilekey_prefix4(scan->from.packed); p <= last && scan->rc == RC_OK; p++) {
        struct tilekey from = key_max(scan->from, block_first(p));
        struct tilekey to = key_min(scan->end, block_last(p, tm));
        scan->rc = block_scan(scan, pool, (uint8_t)p, from, to, wanted, &scan->shard_end);
        if (tilekey_cmp(scan->shard_end, to) < 0 || scan->shard.count >= wanted)
            return; /* (3) */
    }
    scan->shard_end = scan->end;
}

/* ---- counting ---- */

static void count_add(struct shard_count *to, const struct shard_count *from)
{
    to->count += from->count;
    to->bytes += from->bytes;
    for (int i = 0; i < TILE_STATUS_COUNT; i++)
        to->by_status[i] += from->by_status[i];
}

static void count_row(struct shard_count *to, const struct tile_scan_row *row, bool add)
{
    uint64_t one = add ? 1 : ~UINT64_C(0);
    to->count += one;
    to->bytes += add ? row->bytes : ~row->bytes + 1;
    if (row->status < TILE_STATUS_COUNT)
        to->by_status[row->status] += one;
}

struct count_file {
    struct shard_range range;
    struct shard_look *look;
    size_t looks;
    struct shard_count count;
};

static enum rc shard_count(void *arg, struct shard *shard, struct err *err)
{
    struct count_file *file = arg;
    return shard->ops->count(shard, &file->range, file->look, file->looks, &file->count, err);
}

/* What the file has of the interval, without what is marked. */
static enum rc file_count(struct tile_scan *scan, struct pool *pool, uint8_t folder,
                          uint8_t prefix4, struct shard_look *look)
{
    struct count_file file = {.range = range_of(scan, scan->from, scan->end), .look = look};
    struct shard_reader reader = {.run = shard_count, .arg = &file, .needs_all = true};
    bool tm = scan->options.type->kind == TILE_TM;
    for (size_t i = 0; i < scan->mark_count; i++) {
        struct tile_place place = tilekey_place(scan->mark[i].row.key.packed);
        if (place.folder == folder && (folder == 0 || place.prefix4 == prefix4))
            look[file.looks++] = (struct shard_look){.key = scan->mark[i].row.key};
    }
    enum rc rc =
        tile__shard_read(scan->options.type, pool, place_of(folder, prefix4), &reader, &scan->err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    for (size_t i = 0; i < file.looks; i++)
        if (look[i].found && shard_range_takes(&file.range, tm, &look[i].row))
            count_row(&file.count, &look[i].row, false);
    count_add(&scan->counted, &file.count);
    return RC_OK;
}

static void count_run(struct tile_work *work, struct pool *pool)
{
    struct tile_scan *scan = (struct tile_scan *)work;
    unsigned first = tilekey_prefix4(scan->from.packed), last = tilekey_prefix4(scan->end.packed);
    struct shard_look *look = mem_alloc((scan->mark_count + 1) * sizeof *look);
    scan->counted = (struct shard_count){0};
    scan->rc = RC_OK;
    for (size_t i = 0; i < TILE_FOLDER_COUNT; i++) {
        uint8_t folder = tile_folders[i];
        if (!folder_fits(scan, folder))
            continue;
        for (unsigned p = first; p <= (folder == 0 ? first : last) && scan->rc == RC_OK; p++)
            scan->rc = file_count(scan, pool, folder, (uint8_t)p, look);
    }
    mem_free(look);
}

/* ---- putting together ---- */

static void scan_done(struct tile_work *work)
{
    struct tile_scan *scan = (struct tile_scan *)work;
    scan->state = SCAN_ANSWERED;
    if (scan->orphan)
        scan_end(scan);
    else
        task_wake(scan->task);
}

static void shards_ask(struct tile_scan *scan, struct task *task)
{
    scan->task = task;
    scan->state = SCAN_ASKED;
    scan->shard.count = 0;
    scan->work =
        (struct tile_work){.run = scan->options.counting ? count_run : rows_run, .done = scan_done};
    workers_give(scan->tiles->workers, TILE_READER, &scan->work);
}

static bool page_add(struct tile_scan *scan, const struct tile_scan_row *row)
{
    bool has_room = scan->page.count < scan->options.count_max;
    if (has_room && row_add(&scan->page, row))
        return true;
    scan->no_memory = has_room;
    scan->more = true;
    return false;
}

/* Both lists in order; of a key that is in both the mark counts. False: the page is full. */
static bool merge(struct tile_scan *scan)
{
    struct shard_range range = range_of(scan, scan->from, scan->end);
    bool tm = scan->options.type->kind == TILE_TM;
    size_t m = 0, s = 0;
    for (;;) {
        bool has_mark =
            m < scan->mark_count && tilekey_cmp(scan->mark[m].row.key, scan->shard_end) <= 0;
        bool has_row = s < scan->shard.count;
        if (!has_mark && !has_row)
            return true;
        int order = !has_mark  ? 1
                    : !has_row ? -1
                               : tilekey_cmp(scan->mark[m].row.key, scan->shard.row[s].key);
        if (order > 0) {
            if (!page_add(scan, &scan->shard.row[s++]))
                return false;
            continue;
        }
        s += order == 0;
        const struct scan_mark *mark = &scan->mark[m++];
        if (!mark->removed && shard_range_takes(&range, tm, &mark->row) &&
            !page_add(scan, &mark->row))
            return false;
    }
}

static void marks_count(struct tile_scan *scan)
{
    struct shard_range range = range_of(scan, scan->from, scan->end);
    bool tm = scan->options.type->kind == TILE_TM;
    for (size_t i = 0; i < scan->mark_count; i++)
        if (!scan->mark[i].removed && shard_range_takes(&range, tm, &scan->mark[i].row))
            count_row(&scan->total, &scan->mark[i].row, true);
}

/* True: there is another interval. */
static bool interval_over(struct tile_scan *scan)
{
    bool tm = scan->options.type->kind == TILE_TM;
    bool full = false;
    if (scan->options.counting) {
        count_add(&scan->total, &scan->counted);
        marks_count(scan);
        scan->shard_end = scan->end;
    } else {
        full = !merge(scan);
    }
    bool last = tilekey_cmp(scan->shard_end, scan->to) >= 0;
    scan->from = key_after(scan->shard_end, tm);
    scan->mark_count = 0;
    scan->marks_over = false;
    scan->state = full || last ? SCAN_READY : SCAN_MARKS;
    return scan->state == SCAN_MARKS;
}

/* All marks of the range are in memory, and each is of a tile: the tree counts. */
static bool count_at_once(struct tile_scan *scan, struct err *err)
{
    const struct tile_scan_options *options = &scan->options;
    struct tile_type *type = options->type;
    struct tilekey end = {scan->to.packed + 1, 0};
    uint64_t count;
    bool filtered = options->level_from > 0 || options->level_to < TILE_LEVEL_MAX ||
                    options->bytes || options->ms_from > 0 || options->ms_to < TILE_MS_MAX ||
                    type->kind == TILE_META;
    if (type->removals || !options->counting || filtered ||
        !store_group_state(scan->tiles->store, tile__marks(type)).complete)
        return false;
    struct tile_suffix from = tile__suffix(type, scan->from), to = tile__suffix(type, end);
    if (store_range_count(scan->tiles->store, tile__marks(type), tile__suffix_bytes(&from), true,
                          tile__suffix_bytes(&to), &count, err) != RC_OK)
        return false;
    scan->total.count = count;
    scan->state = SCAN_READY;
    return true;
}

static enum rc interval_end(struct tile_scan *scan, struct err *err)
{
    if (interval_over(scan))
        return RC_WAIT;
    return scan->no_memory ? err_set(err, RC_NOMEM, "could not allocate memory for a range")
                           : RC_OK;
}

enum rc tile_scan_step(struct tile_scan *scan, struct task *task, struct err *err)
{
    switch (scan->state) {
    case SCAN_READY:
        return RC_OK;
    case SCAN_ASKED:
        task_wait_event(task);
        return RC_WAIT;
    case SCAN_ANSWERED:
        if (scan->rc != RC_OK) {
            *err = scan->err;
            return scan->rc;
        }
        return interval_end(scan, err);
    case SCAN_MARKS:
        break;
    }
    if (count_at_once(scan, err) || tilekey_cmp(scan->from, scan->to) > 0) {
        scan->state = SCAN_READY;
        return RC_OK;
    }
    enum rc rc = marks_read(scan, err);
    if (rc != RC_OK || !scan->marks_over)
        return rc == RC_OK ? RC_WAIT : rc;
    if (scan->options.type->shards) { /* (2) */
        shards_ask(scan, task);
        task_wait_event(task);
        return RC_WAIT;
    }
    scan->shard_end = scan->end;
    return interval_end(scan, err);
}

const struct tile_scan_row *tile_scan_rows(const struct tile_scan *scan, size_t *ret_count,
                                           bool *ret_more)
{
    *ret_count = scan->page.count;
    *ret_more = scan->more;
    return scan->page.row;
}

void tile_scan_next(struct tile_scan *scan)
{
    ASSERT(scan->state == SCAN_READY && scan->page.count > 0);
    scan->from =
        key_after(scan->page.row[scan->page.count - 1].key, scan->options.type->kind == TILE_TM);
    scan->page.count = 0;
    scan->more = false;
    scan->state = SCAN_MARKS;
}

struct tile_counted tile_scan_counted(const struct tile_scan *scan)
{
    struct tile_counted counted = {.count = scan->total.count, .bytes = scan->total.bytes};
    memcpy(counted.by_status, scan->total.by_status, sizeof counted.by_status);
    return counted;
}

// SPDX-License-Identifier: Apache-2.0
/* sort_work.c - sorting many elements in many commits: they are read in pieces into memory and
 * sorted there in slices, runs first, which are then merged. */
#include "types/sort_int.h"

#include <stdlib.h>

#include "base/mem.h"
#include "types/zset.h"

#include "base/banned.h"

enum {
    RUN_ITEMS = 1024,
    SLICE_ITEMS = 16 * 1024, /* looked at in one commit: a few milliseconds */
};

enum sort_step { SORT_GATHER, SORT_RUNS, SORT_MERGE, SORT_DONE };

struct sort_work {
    enum sort_step step;
    struct arena arena; /* elements */
    struct buf read_to; /* the last row that was read */
    struct sort_item *item, *spare;
    size_t count, cap;
    /* runs, and pairs of them that are merged into `spare` */
    size_t width, at;   /* items of a run; where the pair begins */
    size_t left, right; /* taken of each */
};

void sort_work_free(void *arg)
{
    struct sort_work *work = arg;
    if (!work)
        return;
    arena_done(&work->arena);
    buf_done(&work->read_to);
    mem_free(work->item);
    mem_free(work->spare);
    mem_free(work);
}

enum rc sort_work_new(uint64_t count, struct sort_work **ret_work, struct err *err)
{
    struct sort_work *work = mem_zalloc(sizeof *work);
    arena_init(&work->arena);
    buf_init(&work->read_to, STORE_SUFFIX_BYTES_MAX);
    work->cap = (size_t)count;
    if (count <= SIZE_MAX / sizeof *work->item) {
        work->item = mem_try_alloc(work->cap * sizeof *work->item);
        work->spare = mem_try_alloc(work->cap * sizeof *work->spare);
    }
    *ret_work = work;
    if (work->item && work->spare)
        return RC_OK;
    sort_work_free(work);
    *ret_work = NULL;
    return err_set(err, RC_NOMEM, "could not allocate memory to sort %llu elements",
                   (unsigned long long)count);
}

/* ---- reading ---- */

enum rc sort_work_add(struct sort_work *work, struct bytes element, double score, struct err *err)
{
    ASSERT(work->step == SORT_GATHER && work->count < work->cap);
    uint8_t *copy = arena_try_alloc(&work->arena, element.len);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes to sort", element.len);
    if (element.len > 0)
        memcpy(copy, element.ptr, element.len);
    work->item[work->count] = (struct sort_item){
        .element = bytes_of(copy, element.len), .score = score, .position = work->count};
    work->count++;
    return RC_OK;
}

void sort_work_gathered(struct sort_work *work)
{
    work->step = SORT_RUNS;
}

bool sort_work_is_gathering(const struct sort_work *work)
{
    return work->step == SORT_GATHER;
}

static enum rc row_add(struct sort_work *work, const struct key *key, struct bytes suffix,
                       struct bytes value, const struct sort_options *options, struct err *err)
{
    struct zset_item member = {.member = suffix, .score = (double)work->count};
    enum rc rc = RC_OK;
    if (key->meta.type == TYPE_ZSET)
        rc = zset_item_of_row(suffix, value, &member, err);
    struct bytes element = key->meta.type == TYPE_LIST ? value : member.member;
    double score = member.score; /* the order they have, which BY without a star keeps */
    if (rc == RC_OK && !options->has_by && !options->alpha)
        rc = sort__score(key->run, element, &score, err);
    return rc == RC_OK ? sort_work_add(work, element, score, err) : rc;
}

/* Rows come in any order but that of positions, which only lists have: they are ordered by it. */
static enum rc gather(struct sort_work *work, const struct key *key,
                      const struct sort_options *options, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    size_t before = work->count, bytes = 0;
    store_walk_init(&walk, key->ns->kv->store, key_rows(key), false);
    walk.once = true;
    enum rc rc = RC_OK;
    if (before > 0)
        rc = store_walk_seek_behind(&walk, buf_bytes(&work->read_to), err);
    while (rc == RC_OK && work->count < work->cap && work->count - before < BUILD_PIECE_ROWS &&
           bytes < BUILD_PIECE_BYTES) {
        rc = store_walk_next(&walk, &suffix, &value, err);
        if (rc == RC_OK)
            rc = row_add(work, key, suffix, value, options, err);
        bytes += rc == RC_OK ? work->item[work->count - 1].element.len : 0;
    }
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_CORRUPT, "a key has fewer elements than its count says");
    if (rc == RC_COLD && work->count > before)
        rc = RC_OK; /* the next piece begins with what is cold */
    if (rc != RC_OK)
        return rc;
    if (work->count == work->cap)
        sort_work_gathered(work);
    buf_cut(&work->read_to, 0);
    if (!buf_add_bytes(&work->read_to, buf_bytes(&walk.at)))
        return err_set(err, RC_NOMEM, "could not allocate memory for a position");
    return RC_WAIT;
}

/* ---- sorting ---- */

static void runs_sort(struct sort_work *work, const struct sort_options *options)
{
    size_t end = work->at + SLICE_ITEMS < work->count ? work->at + SLICE_ITEMS : work->count;
    for (size_t len; work->at < end; work->at += len) {
        len = end - work->at < RUN_ITEMS ? end - work->at : RUN_ITEMS;
        qsort_r(work->item + work->at, len, sizeof *work->item, sort__items_cmp,
                (void *)(uintptr_t)options);
    }
    if (work->at < work->count)
        return;
    work->at = 0;
    work->width = RUN_ITEMS;
    work->step = SORT_MERGE;
}

/* The next item of the pair of runs, or on to the next pair, or to runs twice as long. */
static void merge_one(struct sort_work *work, const struct sort_options *options)
{
    size_t rest = work->count - work->at;
    size_t middle = work->at + (rest < work->width ? rest : work->width);
    size_t end = work->at + (rest < 2 * work->width ? rest : 2 * work->width);
    size_t left = work->at + work->left, right = middle + work->right;
    if (left < middle && (right == end || sort__items_cmp(&work->item[left], &work->item[right],
                                                          (void *)(uintptr_t)options) <= 0)) {
        work->spare[left + work->right] = work->item[left];
        work->left++;
        return;
    }
    if (right < end) {
        work->spare[left + work->right] = work->item[right];
        work->right++;
        return;
    }
    work->at = end;
    work->left = work->right = 0;
    if (end < work->count)
        return;
    struct sort_item *merged = work->spare;
    work->spare = work->item;
    work->item = merged;
    work->at = 0;
    work->width *= 2;
}

static void runs_merge(struct sort_work *work, const struct sort_options *options)
{
    for (int i = 0; i < SLICE_ITEMS && work->width < work->count; i++)
        merge_one(work, options);
    if (work->width >= work->count)
        work->step = SORT_DONE;
}

enum rc sort_work_step(struct sort_work *work, const struct key *key,
                       const struct sort_options *options, struct err *err)
{
    switch (work->step) {
    case SORT_GATHER:
        return gather(work, key, options, err);
    case SORT_RUNS:
        runs_sort(work, options);
        return RC_WAIT;
    case SORT_MERGE:
        runs_merge(work, options);
        return RC_WAIT;
    case SORT_DONE:
        break;
    }
    return RC_OK;
}

const struct sort_item *sort_work_items(const struct sort_work *work)
{
    return work->item;
}

size_t sort_work_count(const struct sort_work *work)
{
    return work->count;
}

// SPDX-License-Identifier: Apache-2.0
/* zset_op.c - merges walks over sorted sets, or looks members up one by one. */
#include "types/zset_op.h"

#include <math.h>
#include <stdlib.h>

#include "base/heap.h"
#include "types/rows.h"
#include "types/zset_int.h"

#include "base/banned.h"

enum {
    COLD_ROWS_MAX = 1024, /* asked for at once; then the command waits, and begins again */
    PROBE_FACTOR = 8,     /* so many times larger: asked about single members, and may stay cold */
};

/* ---- sources ---- */

static uint64_t source_count(const struct zset_source *source)
{
    return source->key.exists ? source->key.meta.count : 0;
}

static int source_cmp_count(const void *a, const void *b)
{
    const struct zset_source *const *left = a, *const *right = b;
    uint64_t left_count = source_count(*left), right_count = source_count(*right);
    if (left_count != right_count)
        return left_count < right_count ? -1 : 1;
    return (*left > *right) - (*left < *right); /* equal ones as they were given */
}

/* The sources, the smallest first. */
static enum rc sources_sort(const struct run *run, struct zset_source *source, size_t count,
                            struct zset_source ***ret_sorted, struct err *err)
{
    struct zset_source **sorted = arena_try_alloc(run->arena, count * sizeof(*sorted));
    if (!sorted)
        return err_set(err, RC_NOMEM, "could not allocate memory for %zu keys", count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &source[i];
    qsort(sorted, count, sizeof(*sorted), source_cmp_count);
    *ret_sorted = sorted;
    return RC_OK;
}

/* RC_NOT_FOUND: not a member. */
static enum rc source_score(const struct zset_source *source, struct bytes member,
                            double *ret_score, struct err *err)
{
    struct bytes packed;
    const struct key *key = &source->key;
    if (!key->exists)
        return RC_NOT_FOUND;
    if (key->meta.type == TYPE_ZSET)
        return zset_score(key, member, ret_score, err);
    *ret_score = 1;
    return store_get_packed(key->ns->kv->store, key_rows(key), member, &packed, err);
}

/* ---- walking one ---- */

struct source_walk { /* in order of members */
    struct zset_walk zset;
    struct store_walk set;
    bool is_zset;
};

/* piece NULL: all of it. */
static enum rc source_walk_init(struct source_walk *walk, const struct zset_source *source,
                                const struct build_piece *piece, struct err *err)
{
    const struct key *key = &source->key;
    struct kv *kv = key->ns->kv;
    bool has_after = piece && piece->has_after;
    struct zset_span span = zset_span_by_member();
    enum rc rc = RC_OK;
    walk->is_zset = key->meta.type == TYPE_ZSET;
    if (walk->is_zset) {
        if (has_after)
            rc = zset_span_after(key->run, piece->after, &span, err);
        enum rc init_rc = zset_walk_init(&walk->zset, key, span, false, err);
        walk->zset.rows.once = piece != NULL;
        return rc == RC_OK ? init_rc : rc;
    }
    store_walk_init(&walk->set, kv->store, key_rows(key), false);
    walk->set.once = piece != NULL;
    return has_after ? store_walk_seek_behind(&walk->set, piece->after, err) : RC_OK;
}

static void source_walk_done(struct source_walk *walk)
{
    if (walk->is_zset)
        zset_walk_done(&walk->zset);
    else
        store_walk_done(&walk->set);
}

static enum rc source_walk_next(struct source_walk *walk, struct zset_item *ret_item,
                                struct err *err)
{
    struct bytes value;
    if (walk->is_zset)
        return zset_walk_next(&walk->zset, ret_item, err);
    ret_item->score = 1;
    return store_walk_next(&walk->set, &ret_item->member, &value, err);
}

/* ---- scores ---- */

/* An infinite score of weight 0 counts as 0. */
static double weighted(const struct zset_source *source, double score)
{
    double product = source->weight * score;
    return isnan(product) ? 0 : product;
}

static double aggregate(enum zset_aggregate how, double a, double b)
{
    switch (how) {
    case ZSET_SUM:
        return isnan(a + b) ? 0 : a + b; /* of inf and -inf */
    case ZSET_MIN:
        return b < a ? b : a;
    case ZSET_MAX:
        return b > a ? b : a;
    }
    return a;
}

/* ---- union: the sources side by side ---- */

struct union_source {
    const struct zset_source *source;
    size_t order;
    bool ended;
    struct zset_item item; /* where the walk stands, unless it has ended */
    struct source_walk walk;
};

struct zset_union {
    struct union_source *all;
    size_t all_count;
    void **heap; /* of struct union_source */
    size_t count;
};

/* Equal members in the order of the sources: sums of doubles depend on it. */
static bool union_before(const void *a, const void *b)
{
    const struct union_source *left = a, *right = b;
    int order = bytes_cmp(left->item.member, right->item.member);
    return order != 0 ? order < 0 : left->order < right->order;
}

static enum rc union_step(struct union_source *source, struct err *err)
{
    enum rc rc = source_walk_next(&source->walk, &source->item, err);
    source->ended = rc == RC_NOT_FOUND;
    source->item.score = rc == RC_OK ? weighted(source->source, source->item.score) : 0;
    return source->ended ? RC_OK : rc;
}

/* To the first members; all that are cold are asked for. */
static enum rc union_init(struct zset_union *all, const struct run *run,
                          struct zset_source **sorted, size_t count,
                          const struct build_piece *piece, struct err *err)
{
    bool cold = false;
    *all = (struct zset_union){.all = arena_try_alloc(run->arena, count * sizeof *all->all),
                               .heap = arena_try_alloc(run->arena, count * sizeof(void *))};
    if (!all->all || !all->heap)
        return err_set(err, RC_NOMEM, "could not allocate memory for %zu keys", count);
    for (size_t i = 0; i < count; i++) {
        struct union_source *source = &all->all[all->all_count];
        if (!sorted[i]->key.exists)
            continue;
        *source = (struct union_source){.source = sorted[i], .order = i};
        all->all_count++;
        enum rc rc = source_walk_init(&source->walk, sorted[i], piece, err);
        if (rc == RC_OK)
            rc = union_step(source, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        if (!source->ended)
            all->heap[all->count++] = source;
    }
    if (cold)
        return RC_COLD;
    heap_make(all->heap, all->count, union_before);
    return RC_OK;
}

static void union_done(struct zset_union *all)
{
    for (size_t i = 0; i < all->all_count; i++)
        source_walk_done(&all->all[i].walk);
}

/* RC_COLD: one of those that have the member, or what is behind it, is not known. */
static enum rc union_next(struct zset_union *all, enum zset_aggregate how,
                          struct zset_item *ret_item, struct err *err)
{
    bool first = true;
    if (all->count == 0)
        return RC_NOT_FOUND;
    struct union_source *source = all->heap[0];
    struct bytes member = source->item.member;
    while (all->count > 0 && bytes_eq(source->item.member, member)) {
        double score = source->item.score;
        ret_item->score = first ? score : aggregate(how, ret_item->score, score);
        first = false;
        enum rc rc = union_step(source, err);
        if (rc != RC_OK)
            return rc;
        if (source->ended)
            all->heap[0] = all->heap[--all->count];
        if (all->count > 0)
            heap_sink(all->heap, all->count, 0, union_before);
        source = all->heap[0];
    }
    ret_item->member = member;
    return RC_OK;
}

/* piece NULL: all of it, and all of every source has to be in memory. */
static enum rc union_run(const struct run *run, struct zset_source **sorted, size_t count,
                         enum zset_aggregate how, struct build_piece *piece,
                         struct zset_items *items, struct err *err)
{
    CLEANUP(union_done) struct zset_union all;
    struct zset_item item;
    size_t bytes = 0;
    enum rc rc = union_init(&all, run, sorted, count, piece, err);
    while (rc == RC_OK &&
           !(piece && (items->count >= piece->count_max || bytes >= piece->bytes_max))) {
        rc = union_next(&all, how, &item, err);
        if (rc == RC_OK)
            rc = zset_items_add(run, items, item, err);
        bytes += rc == RC_OK ? item.member.len : 0;
    }
    if (piece)
        piece->ended = rc == RC_NOT_FOUND;
    if (rc == RC_NOT_FOUND || (rc == RC_COLD && piece && items->count > 0))
        return RC_OK; /* the next piece begins with what is cold */
    return rc;
}

static enum rc union_load(struct zset_source **sorted, size_t count, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count && (rc == RC_OK || rc == RC_COLD); i++)
        if (sorted[i]->key.exists) {
            enum rc one_rc = rows_need_all(&sorted[i]->key, err);
            rc = one_rc == RC_OK ? rc : one_rc; /* all are asked for */
        }
    return rc;
}

/* ---- intersection and difference: members of one source are looked for in the others ---- */

struct search {
    const struct zset_op_options *options;
    struct zset_source *lead;
    struct zset_source **other;
    size_t other_count;
    struct build_piece *piece; /* NULL: all */
    size_t decided_count, bytes;
    struct bytes at;   /* the last member that was decided; in the arena */
    size_t cold_count; /* answers that were cold: looked for again when the command runs again */
};

static bool is_much_larger(const struct search *search, const struct zset_source *other)
{
    return source_count(other) / PROBE_FACTOR > source_count(search->lead);
}

/* A source that is not much larger than the lead comes as a whole. */
static enum rc search_load(const struct search *search, struct err *err)
{
    enum rc rc = rows_need_all(&search->lead->key, err);
    for (size_t i = 0; i < search->other_count && (rc == RC_OK || rc == RC_COLD); i++) {
        const struct zset_source *other = search->other[i];
        if (source_count(other) == 0 || is_much_larger(search, other))
            continue;
        enum rc one_rc = rows_need_all(&other->key, err);
        rc = one_rc == RC_OK ? rc : one_rc;
    }
    return rc;
}

/* The row was cold: so are those around it, which the next members of the lead will ask for. Not in
 * a source that is much larger, where they are far apart. */
static void search_cold(struct search *search, const struct zset_source *other, struct bytes member)
{
    struct store *store = other->key.ns->kv->store;
    struct zset_suffix suffix;
    struct err ignored = {0};
    if (!search->piece || is_much_larger(search, other))
        return;
    search->cold_count = COLD_ROWS_MAX; /* no need to look further */
    if (other->key.meta.type == TYPE_SET)
        store_want(store, key_rows(&other->key), member, STORE_WANT_WINDOW);
    else if (zset__suffix(other->key.ns->kv, member, &suffix, &ignored) == RC_OK)
        store_want(store, key_rows(&other->key), zset__member_suffix(suffix), STORE_WANT_WINDOW);
}

/* RC_NOT_FOUND: not in the result. */
static enum rc search_one(struct search *search, struct zset_item *item, struct err *err)
{
    bool inter = search->options->op == ZSET_INTER;
    bool cold = false;
    if (inter)
        item->score = weighted(search->lead, item->score);
    for (size_t i = 0; i < search->other_count; i++) {
        double score;
        enum rc rc = source_score(search->other[i], item->member, &score, err);
        cold = cold || rc == RC_COLD;
        if (rc == RC_COLD) {
            search_cold(search, search->other[i], item->member);
            continue;
        }
        if (rc == (inter ? RC_NOT_FOUND : RC_OK))
            return RC_NOT_FOUND;
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        if (inter)
            item->score = aggregate(search->options->aggregate, item->score,
                                    search->other[i]->weight * score);
    }
    search->cold_count += cold;
    return cold ? RC_NOT_FOUND : RC_OK;
}

static bool search_is_full(const struct search *search)
{
    const struct build_piece *piece = search->piece;
    return piece &&
           (search->decided_count >= piece->count_max || search->bytes >= piece->bytes_max);
}

/* RC_NOT_FOUND: that was all. */
static enum rc search_run(const struct run *run, struct search *search, struct zset_items *items,
                          struct err *err)
{
    CLEANUP(source_walk_done) struct source_walk walk;
    uint64_t count_max = search->options->count_max;
    struct zset_item item;
    enum rc rc = source_walk_init(&walk, search->lead, search->piece, err);
    while (rc == RC_OK && search->cold_count < COLD_ROWS_MAX && !search_is_full(search)) {
        rc = source_walk_next(&walk, &item, err);
        if (rc != RC_OK)
            break;
        rc = search_one(search, &item, err);
        if (search->cold_count == 0) {
            search->at = item.member;
            search->bytes += item.member.len;
            search->decided_count++;
        }
        if (rc == RC_OK && (!search->piece || search->cold_count == 0))
            rc = zset_items_add(run, items, item, err);
        else if (rc == RC_NOT_FOUND)
            rc = RC_OK;
        if (count_max > 0 && items->count >= count_max)
            return rc;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    return search->cold_count > 0 ? RC_COLD : rc;
}

/* The walk's members are borrowed: where it stopped is copied. */
static enum rc search_piece(const struct run *run, struct search *search, struct zset_items *items,
                            struct bytes *ret_at, struct err *err)
{
    enum rc rc = search_run(run, search, items, err);
    search->piece->ended = rc == RC_NOT_FOUND;
    if (rc == RC_NOT_FOUND || (rc == RC_COLD && search->decided_count > 0))
        rc = RC_OK;
    return rc == RC_OK ? run_copy(run, search->at, ret_at, err) : rc;
}

static void search_init(struct search *search, struct zset_source *source,
                        struct zset_source **sorted, size_t count,
                        const struct zset_op_options *options, struct build_piece *piece)
{
    *search = (struct search){.options = options,
                              .lead = sorted[0],
                              .other = sorted + 1,
                              .other_count = count - 1,
                              .piece = piece};
    if (options->op != ZSET_DIFF)
        return;
    search->lead = source; /* the others in any order, the first apart */
    for (size_t i = 1; i < count; i++)
        sorted[i] = &source[i];
}

enum rc zset_combine(const struct run *run, struct zset_source *source, size_t count,
                     const struct zset_op_options *options, struct zset_items *ret_items,
                     struct err *err)
{
    struct zset_source **sorted;
    struct search search;
    *ret_items = (struct zset_items){0};
    ASSERT(count > 0);
    enum rc rc = sources_sort(run, source, count, &sorted, err);
    if (rc != RC_OK)
        return rc;
    if (options->op == ZSET_UNION) {
        rc = union_load(sorted, count, err);
        return rc == RC_OK ? union_run(run, sorted, count, options->aggregate, NULL, ret_items, err)
                           : rc;
    }
    search_init(&search, source, sorted, count, options, NULL);
    if (source_count(search.lead) == 0)
        return RC_OK;
    rc = search_load(&search, err);
    if (rc == RC_OK)
        rc = search_run(run, &search, ret_items, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc zset_combine_piece(const struct run *run, struct zset_source *source, size_t count,
                           const struct zset_op_options *options, struct build_piece *piece,
                           struct zset_items *ret_items, struct bytes *ret_at, struct err *err)
{
    struct zset_source **sorted;
    struct search search;
    *ret_items = (struct zset_items){0};
    *ret_at = (struct bytes){0};
    ASSERT(count > 0);
    enum rc rc = sources_sort(run, source, count, &sorted, err);
    if (rc != RC_OK)
        return rc;
    if (options->op == ZSET_UNION) {
        rc = union_run(run, sorted, count, options->aggregate, piece, ret_items, err);
        if (rc == RC_OK && ret_items->count > 0)
            *ret_at = ret_items->item[ret_items->count - 1].member;
        return rc;
    }
    search_init(&search, source, sorted, count, options, piece);
    piece->ended = source_count(search.lead) == 0;
    return piece->ended ? RC_OK : search_piece(run, &search, ret_items, ret_at, err);
}

uint64_t zset_combine_max(const struct zset_source *source, size_t count, enum zset_op op)
{
    uint64_t most = source_count(&source[0]);
    for (size_t i = 1; i < count && op != ZSET_DIFF; i++) {
        uint64_t one = source_count(&source[i]);
        most = op == ZSET_UNION ? most + one : one < most ? one : most;
    }
    return most;
}

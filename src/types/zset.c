// SPDX-License-Identifier: Apache-2.0
/* zset.c - members and scores: added, removed, ranked, saved. */
#include "types/zset_int.h"

#include <math.h>
#include <stdlib.h>

#include "base/codec.h"
#include "types/number.h"
#include "types/pack.h"

#include "base/banned.h"

/* ---- rows ---- */

enum rc zset__suffix(struct kv *kv, struct bytes member, struct zset_suffix *ret_suffix,
                     struct err *err)
{
    buf_cut(&kv->row, 0);
    if (!buf_reserve(&kv->row, ZSET_HEAD_BYTES + member.len))
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a member", member.len);
    *ret_suffix = (struct zset_suffix){kv->row.ptr, member.len};
    if (member.len > 0)
        memcpy(kv->row.ptr + ZSET_HEAD_BYTES, member.ptr, member.len);
    return RC_OK;
}

struct bytes zset__member_suffix(struct zset_suffix suffix)
{
    suffix.ptr[ZSET_CODE_BYTES] = ZSET_MEMBER_ROWS;
    return bytes_of(suffix.ptr + ZSET_CODE_BYTES, 1 + suffix.member_len);
}

struct bytes zset__score_suffix(struct zset_suffix suffix, double score)
{
    suffix.ptr[0] = ZSET_SCORE_ROWS;
    be64_put(suffix.ptr + 1, order_from_double(score));
    return bytes_of(suffix.ptr, ZSET_HEAD_BYTES + suffix.member_len);
}

static enum rc row_corrupt(struct err *err)
{
    return err_set(err, RC_CORRUPT, "a row of a sorted set has no score");
}

enum rc zset_item_of_row(struct bytes suffix, struct bytes value, struct zset_item *ret_item,
                         struct err *err)
{
    if (suffix.len > 0 && suffix.ptr[0] == ZSET_MEMBER_ROWS) {
        ret_item->member = bytes_from(suffix, 1);
        return data_packed_score(value, &ret_item->score) ? RC_OK : row_corrupt(err);
    }
    if (suffix.len < ZSET_HEAD_BYTES)
        return row_corrupt(err);
    ret_item->member = bytes_from(suffix, ZSET_HEAD_BYTES);
    ret_item->score = order_to_double(be64_get(suffix.ptr + 1));
    return RC_OK;
}

static enum rc rows_put(const struct key *key, struct zset_suffix suffix, double score,
                        struct err *err)
{
    struct store *store = key->ns->kv->store;
    char text[NUMBER_DOUBLE_BYTES];
    struct bytes value = bytes_of(text, number_double_text(text, score));
    enum rc rc = key_may_change(key, err);
    if (rc == RC_OK)
        rc = store_put(store, key_rows(key), zset__member_suffix(suffix), value, err);
    if (rc == RC_OK)
        rc = store_put(store, key_rows(key), zset__score_suffix(suffix, score), value, err);
    return rc;
}

static enum rc row_delete(const struct key *key, struct bytes suffix, struct err *err)
{
    enum rc rc = store_delete(key->ns->kv->store, key_rows(key), suffix, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_CORRUPT, "a member of a sorted set lacks one of its rows");
    return rc;
}

enum rc zset__rows_remove(struct key *key, struct zset_suffix suffix, double score, struct err *err)
{
    ASSERT(key->meta.count > 0);
    if (--key->meta.count == 0)
        return RC_OK; /* zset_save() drops the group */
    enum rc rc = row_delete(key, zset__score_suffix(suffix, score), err);
    if (rc == RC_OK)
        rc = row_delete(key, zset__member_suffix(suffix), err);
    return rc;
}

/* ---- one member ---- */

static enum rc score_read(const struct key *key, struct zset_suffix suffix, double *ret_score,
                          struct err *err)
{
    struct bytes packed;
    enum rc rc = store_get_packed(key->ns->kv->store, key_rows(key), zset__member_suffix(suffix),
                                  &packed, err);
    if (rc != RC_OK)
        return rc;
    return data_packed_score(packed, ret_score) ? RC_OK : row_corrupt(err);
}

enum rc zset_score(const struct key *key, struct bytes member, double *ret_score, struct err *err)
{
    struct zset_suffix suffix;
    enum rc rc = zset__suffix(key->ns->kv, member, &suffix, err);
    if (rc == RC_OK)
        rc = score_read(key, suffix, ret_score, err);
    return rc;
}

void zset_want(const struct key *key, const struct bytes *member, size_t count, size_t step)
{
    struct zset_suffix suffix;
    for (size_t i = 0; i < count; i++)
        if (zset__suffix(key->ns->kv, member[i * step], &suffix, NULL) == RC_OK)
            store_want(key->ns->kv->store, key_rows(key), zset__member_suffix(suffix),
                       STORE_WANT_ROW);
}

static enum rc member_new(struct key *key, struct zset_suffix suffix, double score, unsigned flags,
                          struct zset_change *ret_change, struct err *err)
{
    *ret_change = (struct zset_change){ZSET_SKIPPED, score};
    if (flags & ZSET_XX)
        return RC_OK;
    enum rc rc = rows_put(key, suffix, score + 0.0, err); /* -0 as 0 */
    if (rc != RC_OK)
        return rc;
    key->meta.count++;
    ret_change->what = ZSET_ADDED;
    return RC_OK;
}

enum rc zset_add(struct key *key, struct zset_item item, unsigned flags,
                 struct zset_change *ret_change, struct err *err)
{
    struct zset_suffix suffix;
    double old, score = item.score;
    enum rc rc = zset__suffix(key->ns->kv, item.member, &suffix, err);
    bool is_new = key->meta.count == 0 || flags & ZSET_NEW;
    if (rc == RC_OK)
        rc = is_new ? RC_NOT_FOUND : score_read(key, suffix, &old, err);
    if (rc == RC_NOT_FOUND)
        return member_new(key, suffix, score, flags, ret_change, err);
    if (rc != RC_OK)
        return rc;
    *ret_change = (struct zset_change){ZSET_SKIPPED, score};
    if (flags & ZSET_NX)
        return RC_OK;
    if (flags & ZSET_INCR)
        score += old;
    if (isnan(score))
        return err_set(err, RC_INVALID, "resulting score is not a number (NaN)");
    if (((flags & ZSET_GT) && score <= old) || ((flags & ZSET_LT) && score >= old))
        return RC_OK;
    *ret_change = (struct zset_change){ZSET_SAME, score};
    if (score == old)
        return RC_OK;
    rc = row_delete(key, zset__score_suffix(suffix, old), err);
    if (rc == RC_OK)
        rc = rows_put(key, suffix, score + 0.0, err);
    ret_change->what = ZSET_UPDATED;
    return rc;
}

enum rc zset_remove(struct key *key, struct bytes member, struct err *err)
{
    struct zset_suffix suffix;
    double score;
    enum rc rc = zset__suffix(key->ns->kv, member, &suffix, err);
    if (rc == RC_OK)
        rc = score_read(key, suffix, &score, err);
    if (rc == RC_OK)
        rc = zset__rows_remove(key, suffix, score, err);
    return rc;
}

enum rc zset_rank(const struct key *key, struct bytes member, bool reverse, uint64_t *ret_rank,
                  struct err *err)
{
    struct zset_suffix suffix;
    double score;
    uint64_t row;
    enum rc rc = zset__suffix(key->ns->kv, member, &suffix, err);
    if (rc == RC_OK)
        rc = score_read(key, suffix, &score, err);
    if (rc == RC_OK)
        rc = store_rank(key->ns->kv->store, key_rows(key), zset__score_suffix(suffix, score), &row,
                        err);
    if (rc != RC_OK)
        return rc;
    uint64_t count = key->meta.count;
    if (row < count || row >= 2 * count)
        return err_set(err, RC_CORRUPT, "a sorted set has other rows than its count says");
    *ret_rank = reverse ? 2 * count - 1 - row : row - count;
    return RC_OK;
}

/* ---- all of it ---- */

enum rc zset_items_add(const struct run *run, struct zset_items *items, struct zset_item item,
                       struct err *err)
{
    enum { FIRST_CAP = 16 };
    if (items->count == items->cap) {
        size_t cap = items->cap ? items->cap * 2 : FIRST_CAP;
        struct zset_item *grown = arena_try_alloc(run->arena, cap * sizeof *grown);
        if (!grown)
            return err_set(err, RC_NOMEM, "could not allocate memory for %zu elements", cap);
        if (items->count > 0)
            memcpy(grown, items->item, items->count * sizeof *grown);
        items->item = grown;
        items->cap = cap;
    }
    enum rc rc = run_copy(run, item.member, &item.member, err);
    if (rc == RC_OK)
        items->item[items->count++] = item;
    return rc;
}

int zset_item_cmp(const void *a, const void *b)
{
    const struct zset_item *left = a, *right = b;
    if (left->score != right->score)
        return left->score < right->score ? -1 : 1;
    return bytes_cmp(left->member, right->member);
}

static int item_cmp_member(const void *a, const void *b)
{
    return bytes_cmp(((const struct zset_item *)a)->member, ((const struct zset_item *)b)->member);
}

/* Rows that arrive in order leave full blocks behind. So the two kinds are written one after the
 * other, each sorted. */
static enum rc rows_fill(const struct key *key, const struct zset_items *items, bool by_score,
                         struct err *err)
{
    struct kv *kv = key->ns->kv;
    for (size_t i = 0; i < items->count; i++) {
        struct zset_suffix suffix;
        char text[NUMBER_DOUBLE_BYTES];
        double score = items->item[i].score + 0.0; /* -0 as 0 */
        size_t len = number_double_text(text, score);
        enum rc rc = zset__suffix(kv, items->item[i].member, &suffix, err);
        if (rc == RC_OK)
            rc = store_put(kv->store, key_rows(key),
                           by_score ? zset__score_suffix(suffix, score)
                                    : zset__member_suffix(suffix),
                           bytes_of(text, len), err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc zset_fill(struct key *key, struct zset_items *items, struct err *err)
{
    if (items->count == 0)
        return RC_OK;
    qsort(items->item, items->count, sizeof *items->item, item_cmp_member);
    enum rc rc = rows_fill(key, items, false, err);
    if (rc != RC_OK)
        return rc;
    qsort(items->item, items->count, sizeof *items->item, zset_item_cmp);
    key->meta.count += items->count;
    return rows_fill(key, items, true, err);
}

enum rc zset_save(struct key *key, struct err *err)
{
    return key_save_or_remove(key, BYTES(""), err);
}

/* RC_NOT_FOUND: no member is longer. */
static enum rc longer_find(const struct key *key, uint64_t len_max, struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_item item;
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_member(), false, err);
    do {
        if (rc == RC_OK)
            rc = zset_walk_next(&walk, &item, err);
    } while (rc == RC_OK && item.member.len <= len_max);
    return rc;
}

enum rc zset_encoding(const struct key *key, const char **ret_name, struct err *err)
{
    const struct kv_encodings *limits = &key->ns->kv->encodings;
    enum rc rc = RC_OK;
    if (key->meta.count <= limits->zset_listpack_count)
        rc = longer_find(key, limits->zset_listpack_bytes, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_name = rc == RC_OK ? "skiplist" : "listpack";
    return RC_OK;
}

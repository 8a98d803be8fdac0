// SPDX-License-Identifier: Apache-2.0
/* zset_renew.c - removals of very many elements of a sorted set: what stays is built aside. */
#include "types/zset_renew.h"

#include "base/mem.h"
#include "types/zset_int.h"

#include "base/banned.h"

struct zset_renew {
    struct zset_gone gone; /* the span is that of low and high */
    struct buf low, high;
    uint64_t seen; /* elements from where they are counted, up to `at` */
    struct buf at;
};

bool zset_renew_wanted(const struct build *build, const struct key *key, uint64_t count)
{
    return renew_wanted(build, key->run, 2 * key->meta.count, 2 * count);
}

bool zset_renew_is_begun(const struct build *build)
{
    return build && build->work;
}

static void work_free(void *arg)
{
    struct zset_renew *work = arg;
    if (work->gone.arg)
        work->gone.arg_free(work->gone.arg);
    buf_done(&work->low);
    buf_done(&work->high);
    buf_done(&work->at);
    mem_free(work);
}

/* suffix, and a zero byte when `behind`: the first one after it. */
static enum rc bound_set(struct buf *to, struct bytes suffix, bool behind, struct err *err)
{
    buf_cut(to, 0);
    if (!buf_add_bytes(to, suffix) || !buf_add(to, "", behind ? 1 : 0))
        return err_set(err, RC_NOMEM, "could not allocate memory for a range");
    return RC_OK;
}

/* ---- who goes ---- */

static bool are_told(const struct zset_renew *work)
{
    return work->gone.has_span;
}

static enum rc one_seen(struct zset_renew *work, struct bytes suffix, struct zset_item item,
                        struct err *err)
{
    struct zset_gone *gone = &work->gone;
    enum rc rc = RC_OK;
    uint64_t number = ++work->seen;
    if (number == gone->skip + 1)
        rc = bound_set(gone->reverse ? &work->high : &work->low, suffix, gone->reverse, err);
    if (rc == RC_OK && number == gone->skip + gone->count)
        rc = bound_set(gone->reverse ? &work->low : &work->high, suffix, !gone->reverse, err);
    if (rc == RC_OK && number > gone->skip && gone->tell)
        gone->tell(gone->arg, item);
    return rc;
}

/* Some of them. Nothing is changed: what is seen counts whether or not the commit comes to be. */
static enum rc some_see(const struct key *key, struct zset_renew *work, struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk;
    struct zset_gone *gone = &work->gone;
    struct zset_item item;
    uint64_t from = work->seen;
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_score(), gone->reverse, err);
    walk.rows.once = true;
    if (rc == RC_OK && from > 0)
        rc = zset_walk_resume(&walk, buf_bytes(&work->at), err);
    while (rc == RC_OK && work->seen < gone->skip + gone->count &&
           work->seen - from < BUILD_PIECE_ROWS) {
        rc = zset_walk_next(&walk, &item, err);
        if (rc == RC_OK)
            rc = one_seen(work, zset_walk_at(&walk), item, err);
    }
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_CORRUPT, "a sorted set has fewer rows than its count says");
    if (rc == RC_OK || (rc == RC_COLD && work->seen > from)) {
        enum rc at_rc = bound_set(&work->at, zset_walk_at(&walk), false, err);
        if (at_rc != RC_OK)
            return at_rc;
    }
    if (rc != RC_OK)
        return rc;
    gone->has_span = work->seen == gone->skip + gone->count;
    return RC_WAIT;
}

/* ---- who stays ---- */

static enum rc row_stays(void *arg, struct bytes suffix, struct bytes value, bool *ret_stays,
                         struct err *err)
{
    const struct renew *renew = arg;
    const struct zset_renew *work = renew->build->work;
    struct zset_item item;
    struct zset_suffix both;
    if (suffix.len > 0 && suffix.ptr[0] == ZSET_MEMBER_ROWS) {
        enum rc rc = zset_item_of_row(suffix, value, &item, err);
        if (rc == RC_OK)
            rc = zset__suffix(renew->key->ns->kv, item.member, &both, err);
        if (rc != RC_OK)
            return rc;
        suffix = zset__score_suffix(both, item.score);
    }
    *ret_stays = bytes_cmp(suffix, buf_bytes(&work->low)) < 0 ||
                 bytes_cmp(suffix, buf_bytes(&work->high)) >= 0;
    return RC_OK;
}

/* ---- commits ---- */

static enum rc work_new(const struct zset_gone *gone, struct zset_renew **ret_work, struct err *err)
{
    struct zset_renew *work = mem_zalloc(sizeof *work);
    buf_init(&work->low, STORE_SUFFIX_BYTES_MAX + 1);
    buf_init(&work->high, STORE_SUFFIX_BYTES_MAX + 1);
    buf_init(&work->at, STORE_SUFFIX_BYTES_MAX);
    enum rc rc = RC_OK;
    if (gone->has_span)
        rc = bound_set(&work->low, gone->span.low, false, err);
    if (rc == RC_OK && gone->has_span)
        rc = bound_set(&work->high, gone->span.high, false, err);
    if (rc != RC_OK) {
        work_free(work);
        return rc;
    }
    work->gone = *gone;
    *ret_work = work;
    return RC_OK;
}

enum rc zset_renew_begin(const struct key *key, const struct zset_gone *gone, struct build *build,
                         bool *ret_taken, struct err *err)
{
    struct zset_renew *work;
    ASSERT(!build->work);
    *ret_taken = false;
    enum rc rc = build_step(build, key->run, TYPE_ZSET, build_input(0, key), err);
    if (rc == RC_OK)
        rc = work_new(gone, &work, err);
    if (rc != RC_OK)
        return rc;
    *ret_taken = true;
    build->work = work;
    build->work_free = work_free;
    return RC_WAIT;
}

enum rc zset_renew_step(struct key *key, struct build *build, uint64_t *ret_count, void **ret_arg,
                        struct err *err)
{
    struct renew renew = {.build = build, .key = key, .stays = row_stays, .arg = &renew};
    enum rc rc = build_step(build, key->run, TYPE_ZSET, build_input(0, key), err);
    if (rc != RC_OK)
        return rc;
    struct zset_renew *work = build->work;
    uint64_t count = key->meta.count, gone_count = work->gone.count;
    if (!are_told(work))
        return some_see(key, work, err);
    bool all = gone_count == count; /* its rows go with the key */
    if (build->phase == BUILD_FILLING && !all)
        return renew_piece(&renew, err);
    if (!all)
        rc = renew_end(build, key, err);
    if (rc != RC_OK)
        return rc;
    key->meta.count = count - gone_count;
    *ret_count = gone_count;
    *ret_arg = work->gone.arg;
    return RC_OK;
}

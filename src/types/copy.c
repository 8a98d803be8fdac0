// SPDX-License-Identifier: Apache-2.0
/* copy.c - copies a key's rows, at once or piece by piece. */
#include "types/copy.h"

#include "types/guard.h"
#include "types/renew.h"
#include "types/rows.h"
#include "types/string.h"

#include "base/banned.h"

/* Reads on with the walk. RC_NOT_FOUND: that was the rest. */
static enum rc rows_read(struct store_walk *walk, struct buf *rows, struct err *err)
{
    struct bytes suffix, value;
    enum rc rc = RC_OK;
    buf_cut(rows, 0);
    while (rc == RC_OK && rows->len < BUILD_PIECE_BYTES) {
        rc = store_walk_next(walk, &suffix, &value, err);
        if (rc == RC_OK && !rows_carry_add(rows, suffix, value))
            return err_set(err, RC_NOMEM, "could not allocate memory for rows on their way");
    }
    return rc;
}

static enum rc all_copy(const struct key *from, const struct key *to, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, SIZE_MAX);
    store_walk_init(&walk, from->ns->kv->store, key_rows(from), false);
    bool ended = false;
    while (!ended) {
        enum rc rc = rows_read(&walk, &rows, err);
        ended = rc == RC_NOT_FOUND;
        if (rc == RC_OK || ended)
            rc = rows_carry_put(to, &rows, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* `to` becomes what `from` is; its rows come, or have come, on their own. */
static enum rc meta_copy(const struct key *from, struct key *to, struct build *build,
                         struct err *err)
{
    const struct meta *meta = &from->meta;
    struct bytes extra;
    enum rc rc = key_extra_copy(from, &extra, err);
    if (rc == RC_OK)
        rc = key_remove(to, err);
    if (rc == RC_OK)
        rc = guard_change(to, NULL, GUARD_SET, err);
    if (rc == RC_OK)
        rc = build ? build_adopt(build, to, err) : key_create(to, meta->type, err);
    if (rc == RC_OK && !build && meta->type != TYPE_STRING)
        rc = all_copy(from, to, err);
    if (rc != RC_OK)
        return rc;
    to->meta.count = meta->count;
    to->meta.expire_ms = from->is_copy && !to->is_copy ? 0 : meta->expire_ms;
    return key_save(to, extra, err);
}

static enum rc row_count(const struct key *key, uint64_t *ret_count, struct err *err)
{
    uint64_t len;
    *ret_count = key->meta.type == TYPE_ZSET ? 2 * key->meta.count : key->meta.count;
    if (key->meta.type != TYPE_STRING_CHUNKED)
        return RC_OK;
    enum rc rc = string_len(key, &len, err);
    if (rc == RC_OK)
        *ret_count = string_cost_rows(len);
    return rc;
}

enum rc key_copy(const struct key *from, struct key *to, struct build *build, struct err *err)
{
    uint64_t rows;
    ASSERT(from->exists);
    enum rc rc = row_count(from, &rows, err);
    if (rc != RC_OK)
        return rc;
    if (!build_wanted(build, to->run, rows) || run_is_heard(from->run)) {
        rc = from->meta.type != TYPE_STRING ? rows_need_all(from, err) : RC_OK;
        return rc == RC_OK ? meta_copy(from, to, NULL, err) : rc;
    }
    rc = build_step(build, to->run, from->meta.type, build_input(0, from), err);
    if (rc != RC_OK)
        return rc;
    if (build->phase == BUILD_FILLING)
        return renew_piece(&(struct renew){.build = build, .key = from}, err);
    return meta_copy(from, to, build, err);
}

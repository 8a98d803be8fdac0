// SPDX-License-Identifier: Apache-2.0
/* renew.c - whether a key that loses many rows is built anew, and a piece of that. */
#include "types/renew.h"

#include "store/turns.h"
#include "types/rows.h"

#include "base/banned.h"

bool renew_wanted(const struct build *build, const struct run *run, uint64_t row_count,
                  uint64_t gone_count)
{
    uint64_t gone_min = RENEW_ROWS_MIN;
    if (!build)
        return false;
    if (run->kv->build_rows_min < BUILD_ROWS_MIN) /* a test */
        gone_min = run->kv->build_rows_min;
    ASSERT(gone_count <= row_count);
    return gone_count >= gone_min && row_count - gone_count <= RENEW_TIMES_MAX * gone_count &&
           build_wanted(build, run, row_count) && !store_is_short(run->kv->store);
}

static enum rc rows_read(const struct renew *renew, struct store_walk *walk, struct buf *rows,
                         size_t *ret_count, struct err *err)
{
    struct bytes suffix, value;
    size_t count = 0;
    enum rc rc = RC_OK;
    while (rc == RC_OK && count < BUILD_PIECE_ROWS && rows->len < BUILD_PIECE_BYTES) {
        bool stays = true;
        rc = store_walk_next(walk, &suffix, &value, err);
        if (rc == RC_OK && renew->stays)
            rc = renew->stays(renew->arg, suffix, value, &stays, err);
        if (rc != RC_OK)
            break;
        count++;
        if (stays && !rows_carry_add(rows, suffix, value))
            return err_set(err, RC_NOMEM, "could not allocate memory for rows on their way");
    }
    *ret_count = count;
    return rc;
}

enum rc renew_piece(const struct renew *renew, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    CLEANUP(buf_done) struct buf rows = {0};
    struct build *build = renew->build;
    struct build_piece piece = build_piece(build);
    size_t count = 0;
    enum rc rc = RC_OK;
    if (renew->stays && store_is_short(renew->key->ns->kv->store)) {
        build->touched = true; /* begins again, and what remains to it is one commit of deletes */
        build->tries = BUILD_TRIES_MAX;
        return RC_WAIT;
    }
    buf_init(&rows, SIZE_MAX);
    store_walk_init(&walk, renew->key->ns->kv->store, key_rows(renew->key), false);
    walk.once = true;
    if (piece.has_after)
        rc = store_walk_seek_behind(&walk, piece.after, err);
    if (rc == RC_OK)
        rc = rows_read(renew, &walk, &rows, &count, err);
    if (rc == RC_COLD && count > 0)
        rc = RC_OK; /* the next piece begins with what is cold */
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    bool ended = rc == RC_NOT_FOUND;
    rc = rows_carry_put(&build->key, &rows, err);
    return rc == RC_OK ? build_piece_end(build, 0, buf_bytes(&walk.at), ended, err) : rc;
}

enum rc renew_end(struct build *build, struct key *key, struct err *err)
{
    uint64_t create_s = key->meta.create_s;
    enum rc rc = build_adopt(build, key, err);
    key->meta.create_s = create_s;
    return rc;
}

#include "types/copy.h"

#include "base/codec.h"
#include "types/rows.h"
#include "types/string.h"

#include "base/banned.h"

/* Rows on their way: { uvarint length, suffix, uvarint length, value } ... Nothing may change while
 * they are read, so they are put after that. */
struct copy_rows {
    struct buf rows;
    uint64_t count;
    struct bytes last; /* suffix; borrowed from the walk */
};

static bool rows_add(struct buf *rows, struct bytes suffix, struct bytes value)
{
    return buf_add_uvarint(rows, suffix.len) && buf_add_bytes(rows, suffix) &&
           buf_add_uvarint(rows, value.len) && buf_add_bytes(rows, value);
}

/* Reads on with the walk. RC_NOT_FOUND: that was the rest. */
static enum rc rows_read(struct store_walk *walk, struct copy_rows *to, struct err *err)
{
    struct bytes suffix, value;
    enum rc rc = RC_OK;
    buf_cut(&to->rows, 0);
    to->count = 0;
    while (rc == RC_OK && to->count < ASIDE_PIECE_ROWS && to->rows.len < ASIDE_PIECE_BYTES) {
        rc = store_walk_next(walk, &suffix, &value, err);
        if (rc != RC_OK)
            break;
        if (!rows_add(&to->rows, suffix, value))
            return err_set(err, RC_NOMEM, "could not allocate memory for rows on their way");
        to->last = buf_bytes(&walk->at);
        to->count++;
    }
    return rc;
}

static struct bytes rows_part(const uint8_t **at, const uint8_t *end)
{
    uint64_t len;
    bool is_whole = uvarint_get(at, end, &len);
    ASSERT(is_whole);
    struct bytes part = bytes_of(*at, len);
    *at += len;
    return part;
}

static enum rc rows_put(const struct key *to, const struct buf *rows, struct err *err)
{
    const uint8_t *at = rows->ptr, *end = rows->ptr + rows->len;
    enum rc rc = RC_OK;
    while (rc == RC_OK && at < end) {
        struct bytes suffix = rows_part(&at, end), value = rows_part(&at, end);
        rc = store_put(to->ns->kv->store, key_rows(to), suffix, value, err);
    }
    return rc;
}

static void rows_done(struct copy_rows *rows)
{
    buf_done(&rows->rows);
}

static enum rc all_copy(const struct key *from, const struct key *to, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    CLEANUP(rows_done) struct copy_rows piece;
    buf_init(&piece.rows, SIZE_MAX);
    store_walk_init(&walk, from->ns->kv->store, key_rows(from), false);
    bool ended = false;
    while (!ended) {
        enum rc rc = rows_read(&walk, &piece, err);
        ended = rc == RC_NOT_FOUND;
        if (rc == RC_OK || ended)
            rc = rows_put(to, &piece.rows, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc piece_copy(const struct key *from, struct aside *aside, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    CLEANUP(rows_done) struct copy_rows piece = {0};
    buf_init(&piece.rows, SIZE_MAX);
    store_walk_init(&walk, from->ns->kv->store, key_rows(from), false);
    struct aside_piece part = aside_piece(aside);
    enum rc rc = RC_OK;
    if (part.has_after)
        rc = store_walk_seek_behind(&walk, part.after, err);
    if (rc == RC_OK)
        rc = rows_read(&walk, &piece, err);
    if (rc == RC_COLD && piece.count > 0)
        rc = RC_OK; /* the next piece begins with what is cold */
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    bool ended = rc == RC_NOT_FOUND;
    rc = rows_put(&aside->key, &piece.rows, err);
    return rc == RC_OK ? aside_piece_end(aside, 0, piece.last, ended, err) : rc;
}

/* `to` becomes what `from` is; its rows come, or have come, on their own. */
static enum rc meta_copy(const struct key *from, struct key *to, struct aside *aside,
                         struct err *err)
{
    const struct meta *meta = &from->meta;
    struct bytes extra;
    enum rc rc = key_extra_copy(from, &extra, err);
    if (rc == RC_OK)
        rc = key_remove(to, err);
    if (rc == RC_OK && to->rule)
        rc = to->ns->kv->land.key_change(to->ns->kv->land.arg, to, false, false, err);
    if (rc == RC_OK)
        rc = aside ? aside_adopt(aside, to, err) : key_create(to, meta->type, err);
    if (rc == RC_OK && !aside && meta->type != TYPE_STRING)
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
        *ret_count = len / STRING_CHUNK_BYTES;
    return rc;
}

enum rc key_copy(const struct key *from, struct key *to, struct aside *aside, struct err *err)
{
    uint64_t rows;
    ASSERT(from->exists);
    enum rc rc = row_count(from, &rows, err);
    if (rc != RC_OK)
        return rc;
    if (!aside_wanted(aside, to->ns, rows) || from->ns->landed) {
        rc = from->meta.type != TYPE_STRING ? rows_need_all(from, err) : RC_OK;
        return rc == RC_OK ? meta_copy(from, to, NULL, err) : rc;
    }
    rc = aside_step(aside, to->ns, from->meta.type, aside_input(0, from), err);
    if (rc != RC_OK)
        return rc;
    if (aside->phase == ASIDE_FILLING)
        return piece_copy(from, aside, err);
    return meta_copy(from, to, aside, err);
}

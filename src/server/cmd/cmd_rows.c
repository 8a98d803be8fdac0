// SPDX-License-Identifier: Apache-2.0
/* cmd_rows.c - replies with all rows of a key, a page of them, or some at random. */
#include "server/cmd/cmd_rows.h"

#include "types/glob.h"
#include "types/rows.h"
#include "types/scan.h"

#include "base/banned.h"

enum {
    SCAN_WHOLE_MAX = 128, /* up to this many rows come at once, as a listpack's in Redis */
    SCAN_COUNT = 10,
};

static void row_add(struct resp_out *to, struct bytes suffix, struct bytes value,
                    enum cmd_rows_part part)
{
    if (part & ROWS_SUFFIX)
        resp_add_bulk(to, suffix);
    if (part & ROWS_VALUE)
        resp_add_bulk(to, value);
}

/* From where the slices before have stopped. Only who has all of it in one go needs all of it at
 * once. */
static enum rc walk_begin(const struct key *key, const struct cmd_long *slow,
                          struct store_walk *walk, struct err *err)
{
    if (slow && slow->has_at)
        return store_walk_seek_behind(walk, buf_bytes(&slow->at), err);
    return walk->once ? RC_OK : rows_need_all(key, err);
}

enum rc cmd_rows_add(struct cmd_ctx *ctx, const struct key *key, enum cmd_rows_part part,
                     struct cmd_long *slow)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value, at = slow ? buf_bytes(&slow->at) : BYTES("");
    uint64_t count = slow ? slow->done : 0;
    store_walk_init(&walk, ctx->run->kv->store, key_rows(key), false);
    walk.once = slow && key->meta.count > ROWS_WHOLE_MAX;
    enum rc rc = walk_begin(key, slow, &walk, ctx->err);
    while (rc == RC_OK && !ctx->reply->failed &&
           (rc = store_walk_next(&walk, &suffix, &value, ctx->err)) == RC_OK) {
        row_add(ctx->reply, suffix, value, part);
        count++;
        at = suffix;
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    if (slow)
        slow->done = count;
    if (rc == RC_WAIT || rc == RC_COLD)
        return cmd_long_keep(ctx, slow, at, rc);
    if (rc != RC_NOT_FOUND)
        return rc;
    if (count != key->meta.count) /* the head of the reply says another number */
        return err_set(ctx->err, RC_CORRUPT, "a key has not as many rows as its count says");
    return RC_OK;
}

/* ---- scans ---- */

enum rc cmd_scan_options(struct cmd_ctx *ctx, struct cmd_scan *scan)
{
    for (size_t i = 3; i < ctx->argc; i += 2) {
        int64_t count;
        if (i + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        if (cmd_arg_is(ctx->argv[i], "COUNT")) {
            enum rc rc = cmd_int(ctx, i + 1, &count);
            if (rc != RC_OK)
                return rc;
            if (count < 1)
                return cmd_syntax_error(ctx);
            scan->count_max = count < CMD_SCAN_COUNT_MAX ? (uint64_t)count : CMD_SCAN_COUNT_MAX;
        } else if (cmd_arg_is(ctx->argv[i], "MATCH")) {
            scan->pattern = ctx->argv[i + 1];
            scan->has_pattern = !glob_is_all(scan->pattern);
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    return RC_OK;
}

static void scan_reply(struct cmd_ctx *ctx, uint64_t cursor, uint64_t count,
                       const struct resp_out *rows)
{
    resp_add_array(ctx->reply, 2);
    resp_add_int_text(ctx->reply, (int64_t)cursor);
    resp_add_array(ctx->reply, count);
    if (rows)
        resp_add_out(ctx->reply, rows);
}

/* The page goes to memory of its own first: the cursor stands before it and is known after it. */
static enum rc scan_page(struct cmd_ctx *ctx, const struct cmd_scan *scan, enum cmd_rows_part part,
                         struct store_walk *walk, struct bytes position)
{
    CLEANUP(resp_out_done) struct resp_out page;
    struct bytes suffix, value, last = position;
    uint64_t added = 0;
    enum rc rc = RC_OK;
    resp_out_init(&page, ctx->reply->buf.bytes_max);
    walk->row_count = scan->count_max;
    for (uint64_t seen = 0; seen < scan->count_max;) {
        rc = store_walk_next(walk, &suffix, &value, ctx->err);
        if (rc != RC_OK)
            break;
        if (scan->cursor != 0 && bytes_eq(suffix, position))
            continue; /* it was the last of the page before */
        last = suffix;
        seen++;
        if (scan->has_pattern && !glob_match(scan->pattern, suffix, false))
            continue;
        row_add(&page, suffix, value, part);
        added += part == ROWS_BOTH ? 2 : 1;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    bool has_more = rc == RC_OK && store_walk_next(walk, &suffix, &value, ctx->err) != RC_NOT_FOUND;
    scan_reply(ctx, has_more ? scan_cursor_keep(ctx->run->kv, last) : 0, added, &page);
    return RC_OK;
}

enum rc cmd_rows_scan(struct cmd_ctx *ctx, uint8_t type, enum cmd_rows_part part)
{
    struct cmd_scan scan = {.count_max = SCAN_COUNT};
    struct key key;
    if (!scan_cursor_parse(ctx->argv[2], &scan.cursor))
        return cmd_error(ctx, "invalid cursor");
    enum rc rc = key_read(ctx->run, ctx->argv[1], type, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists) { /* Redis looks at the options only if there is something to scan */
        scan_reply(ctx, 0, 0, NULL);
        return RC_OK;
    }
    rc = cmd_scan_options(ctx, &scan);
    if (rc != RC_OK)
        return rc;
    if (key.meta.count <= SCAN_WHOLE_MAX) {
        scan.cursor = 0;
        scan.count_max = UINT64_MAX;
    }
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes position = BYTES("");
    store_walk_init(&walk, ctx->run->kv->store, key_rows(&key), false);
    if (scan.cursor != 0) {
        rc = scan_cursor_find(ctx->run->kv, scan.cursor, &position, ctx->err);
        if (rc == RC_OK)
            rc = store_walk_seek(&walk, position, ctx->err);
        if (rc != RC_OK)
            return rc;
    }
    return scan_page(ctx, &scan, part, &walk, position);
}

/* ---- random rows ---- */

enum rc cmd_rows_random(struct cmd_ctx *ctx, uint8_t type)
{
    struct key key;
    struct bytes suffix, value;
    enum rc rc = key_read(ctx->run, ctx->argv[1], type, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    rc = rows_random(&key, &suffix, &value, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, suffix);
    return rc;
}

enum rc cmd_rows_random_count(struct cmd_ctx *ctx, int64_t *ret_count)
{
    enum rc rc = cmd_int(ctx, 2, ret_count);
    if (rc == RC_OK && *ret_count < -INT64_MAX)
        return err_set(ctx->err, RC_INVALID,
                       "value is out of range, value must between %lld and %lld",
                       (long long)-INT64_MAX, (long long)INT64_MAX);
    return rc;
}

uint64_t cmd_rows_pick_count(const struct key *key, int64_t count)
{
    if (count < 0)
        return (uint64_t)-count;
    return (uint64_t)count < key->meta.count ? (uint64_t)count : key->meta.count;
}

/* A RESP3 client gets a field and its value as a pair of their own. */
static void pick_head(struct resp_out *reply, uint64_t count, enum cmd_rows_part part)
{
    resp_add_array(reply, part == ROWS_BOTH && reply->proto < 3 ? 2 * count : count);
}

enum rc cmd_rows_pick_begin(struct cmd_ctx *ctx, const struct key *key, int64_t count,
                            struct cmd_long **slow, struct rows_pick *pick)
{
    uint64_t row_count = cmd_rows_pick_count(key, count);
    if (*slow && (*slow)->begun)
        return rows_pick_resume(pick, key, row_count, (*slow)->done, buf_bytes(&(*slow)->at),
                                ctx->err);
    enum rc rc = rows_pick_init(pick, key, row_count, count > 0, ctx->err);
    if (rc == RC_OK && !rows_pick_can_stop(pick))
        *slow = NULL;
    bool in_one_go = !*slow && (pick->kind == PICK_ALL || pick->kind == PICK_IN_ORDER);
    return rc == RC_OK && in_one_go ? rows_need_all(key, ctx->err) : rc;
}

enum rc cmd_rows_pick_end(struct cmd_ctx *ctx, struct cmd_long *slow, struct rows_pick *pick,
                          enum rc rc)
{
    if (rc != RC_WAIT && rc != RC_COLD)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    if (!slow || (pick->done == 0 && pick->number == 0)) /* nothing is lost */
        return rc;
    struct bytes place = rows_pick_place(pick);
    if (!place.ptr)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for a position");
    slow->done = pick->done;
    return cmd_long_keep(ctx, slow, place, rc);
}

enum rc cmd_rows_random_some(struct cmd_ctx *ctx, uint8_t type, int64_t count,
                             enum cmd_rows_part part)
{
    struct key key;
    struct bytes suffix, value;
    enum rc rc = key_read(ctx->run, ctx->argv[1], type, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists || count == 0) {
        resp_add_array(ctx->reply, 0);
        return RC_OK;
    }
    uint64_t row_count = cmd_rows_pick_count(&key, count);
    pick_head(ctx->reply, row_count, part);
    struct cmd_long *slow;
    rc = cmd_long_begin(ctx, build_input(0, &key), row_count, &slow);
    if (rc != RC_OK)
        return rc;
    CLEANUP(rows_pick_done) struct rows_pick pick;
    rc = cmd_rows_pick_begin(ctx, &key, count, &slow, &pick);
    while (rc == RC_OK && !ctx->reply->failed &&
           (rc = rows_pick_next(&pick, &suffix, &value, ctx->err)) == RC_OK) {
        if (part == ROWS_BOTH && ctx->reply->proto >= 3)
            resp_add_array(ctx->reply, 2);
        row_add(ctx->reply, suffix, value, part);
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    return cmd_rows_pick_end(ctx, slow, &pick, rc);
}

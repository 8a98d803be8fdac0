// SPDX-License-Identifier: Apache-2.0
/* request_long.c - replies that are written in slices: a commit and a turn each.
 *
 * Invariants:
 *   (1) What is in the reply is of one state of the keys: their IDs are the same in every slice,
 *       and nobody has told of a change (`touched`). Otherwise the reply is thrown away and begins
 *       again; after LONG_TRIES_MAX beginnings it is written in one go.
 *   (2) What slices have written is `kept` bytes: in the reply while a slice is written, else aside
 *       (`saved`). So a run that ends in another way (the key is gone, its type is another) has a
 *       reply of its own. A slice that meets something cold keeps what it has written. */
#include "server/server_int.h"

#include "base/mem.h"

#include "base/banned.h"

enum {
    LONG_TRIES_MAX = 3,
    SLICE_ELEMENTS = 2048,
    SLICE_BYTES = 256 * 1024,
    DIRECT_ELEMENTS = 16 * 1024, /* written at once by a command that is no request */
    DIRECT_BYTES = 1024 * 1024,
    RESERVE_TIMES = 4,
    LONG_AT_HEAD_BYTES = 64, /* what a handler keeps beside a suffix */
};

static void work_forget(struct cmd_long *slow)
{
    if (slow->work)
        slow->work_free(slow->work);
    slow->work = NULL;
    slow->work_bytes = 0;
}

void server__request_long_free(struct cmd_long *slow)
{
    if (!slow)
        return;
    work_forget(slow);
    buf_done(&slow->at);
    buf_done(&slow->saved);
    mem_free(slow);
}

static void reply_swap(struct request *request)
{
    struct buf *reply = &request->reply.buf, saved = request->slow->saved;
    size_t bytes_max = reply->bytes_max;
    request->slow->saved = *reply;
    *reply = saved;
    reply->bytes_max = bytes_max;
    request->slow->in_reply = !request->slow->in_reply;
}

void server__request_reply_begin(struct request *request)
{
    if (request->slow && request->slow->in_reply)
        reply_swap(request);
    resp_out_clear(&request->reply);
}

void server__requests_touch(struct server *server)
{
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        if (conn->parked && conn->parked->slow)
            conn->parked->slow->touched = true;
}

/* Tests make slices small, as they do results that are built aside. */
static uint64_t elements_max(const struct cmd_ctx *ctx)
{
    uint64_t most = ctx->request ? SLICE_ELEMENTS : DIRECT_ELEMENTS;
    bool is_test = ctx->run->kv->build_rows_min < BUILD_ROWS_MIN;
    return is_test && ctx->run->kv->build_rows_min < most ? ctx->run->kv->build_rows_min : most;
}

static enum rc long_new(struct request *request, struct err *err)
{
    struct cmd_long *slow = mem_zalloc(sizeof *slow);
    buf_init(&slow->at, STORE_SUFFIX_BYTES_MAX + LONG_AT_HEAD_BYTES);
    buf_init(&slow->saved, SIZE_MAX);
    request->slow = slow;
    return server__request_watch(request, 0, &slow->touched, err);
}

/* As much as all of it will need, by what there is: a buffer that doubles would copy hundreds of
 * megabytes at once. No more than a few times what there is: the elements behind may be small, and
 * what is reserved counts as held by the client. */
static void reply_reserve(struct resp_out *reply, const struct cmd_long *slow, uint64_t elements)
{
    size_t room = reply->buf.cap - reply->buf.len;
    if (!slow->begun || slow->done == 0 || slow->done >= elements || room >= 2 * SLICE_BYTES)
        return;
    double more = (double)slow->kept / (double)slow->done * (double)(elements - slow->done);
    size_t most = reply->buf.bytes_max > reply->buf.len ? reply->buf.bytes_max - reply->buf.len : 0;
    size_t want = more < (double)most ? (size_t)more : most;
    if (want / RESERVE_TIMES > slow->kept)
        want = RESERVE_TIMES * slow->kept;
    if (want > SLICE_BYTES && !buf_reserve(&reply->buf, want))
        return; /* the reply will find out by itself, or need less */
}

enum rc cmd_long_begin(struct cmd_ctx *ctx, uint64_t inputs, uint64_t elements,
                       struct cmd_long **ret_long)
{
    struct request *request = server__request(ctx);
    *ret_long = NULL;
    if (ctx->in_exec || cmd_keys(ctx->cmd, ctx->argv, ctx->argc, NULL, 0) > REQUEST_WANT_KEYS_MAX)
        return RC_OK;
    if (!request) {
        struct cmd_long *asked = &ctx->asked->slow;
        *asked = (struct cmd_long){.reply_start = ctx->reply->buf.len};
        asked->elements_left = elements_max(ctx);
        *ret_long = asked;
        return elements > asked->elements_left ? RC_WAIT : RC_OK; /* it becomes a request */
    }
    if (!request->slow) {
        enum rc rc = long_new(request, ctx->err);
        if (rc != RC_OK)
            return rc;
    }
    struct cmd_long *slow = request->slow;
    if (slow->begun &&
        (slow->touched || slow->inputs != inputs || slow->ns != ctx->run->ns)) { /* (1) */
        slow->begun = false;
        work_forget(slow);
        buf_shrink(&slow->saved, 0);
        slow->tries++;
        ctx->server->stats.long_again_count++;
        return RC_WAIT;
    }
    if (slow->tries >= LONG_TRIES_MAX)
        return RC_OK;
    if (slow->begun) {
        reply_swap(request); /* the head is there already */
        resp_out_cut(ctx->reply, slow->kept);
    } else {
        slow->inputs = inputs;
        slow->ns = ctx->run->ns;
        slow->touched = slow->has_at = false;
        slow->at.len = 0; /* a first slice that is cold keeps this place */
        slow->done = 0;
    }
    reply_reserve(ctx->reply, slow, elements);
    slow->elements_left = elements_max(ctx);
    slow->reply_start = ctx->reply->buf.len;
    *ret_long = slow;
    return RC_OK;
}

void cmd_long_expect(struct cmd_ctx *ctx, const struct cmd_long *slow, uint64_t bytes)
{
    struct buf *reply = &ctx->reply->buf;
    if (!slow || !ctx->request || slow->begun || reply->bytes_max <= reply->len)
        return;
    size_t most = reply->bytes_max - reply->len;
    if (!buf_reserve(reply, bytes < most ? (size_t)bytes : most))
        return; /* the reply will find out by itself */
}

bool cmd_long_full(struct cmd_ctx *ctx, struct cmd_long *slow)
{
    if (!slow)
        return false;
    size_t bytes_max = ctx->request ? SLICE_BYTES : DIRECT_BYTES;
    return --slow->elements_left == 0 || ctx->reply->buf.len - slow->reply_start >= bytes_max;
}

uint64_t cmd_long_count(const struct cmd_long *slow)
{
    return slow->elements_left;
}

enum rc cmd_long_keep(struct cmd_ctx *ctx, struct cmd_long *slow, struct bytes at, enum rc rc)
{
    if (!slow || !ctx->request || (rc != RC_WAIT && rc != RC_COLD))
        return rc;
    if (at.ptr != slow->at.ptr) {
        slow->at.len = 0;
        if (!buf_add_bytes(&slow->at, at))
            return err_set(ctx->err, RC_NOMEM, "could not allocate memory for a position");
    }
    slow->has_at = slow->has_at || at.len > 0 || slow->done > 0; /* a row may have no name */
    ctx->server->stats.long_slice_count++;
    slow->begun = slow->in_reply = true;
    slow->kept = ctx->reply->buf.len; /* (2) */
    return rc;
}

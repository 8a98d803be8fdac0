// SPDX-License-Identifier: Apache-2.0
/* cmd_string_edit.c - strings as numbers, and in parts. */
#include "server/cmd/cmd_string.h"

#include "types/number.h"
#include "types/string_lcs.h"

#include "base/banned.h"

/* ---- numbers ---- */

static enum rc add(struct cmd_ctx *ctx, int64_t delta)
{
    struct key key;
    int64_t sum;
    enum rc rc = key_write(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = string_add_int(&key, delta, &sum, ctx->err);
    if (rc != RC_OK)
        return rc;
    key_changed(&key, KV_EVENT_STRING, "incrby");
    resp_add_int(ctx->reply, sum);
    return RC_OK;
}

enum rc cmd_incr(struct cmd_ctx *ctx)
{
    return add(ctx, 1);
}

enum rc cmd_decr(struct cmd_ctx *ctx)
{
    return add(ctx, -1);
}

enum rc cmd_incrby(struct cmd_ctx *ctx)
{
    int64_t delta;
    enum rc rc = cmd_int(ctx, 2, &delta);
    return rc == RC_OK ? add(ctx, delta) : rc;
}

enum rc cmd_decrby(struct cmd_ctx *ctx)
{
    int64_t delta;
    enum rc rc = cmd_int(ctx, 2, &delta);
    if (rc != RC_OK)
        return rc;
    if (delta == INT64_MIN)
        return cmd_error(ctx, "decrement would overflow");
    return add(ctx, -delta);
}

enum rc cmd_incrbyfloat(struct cmd_ctx *ctx)
{
    struct key key;
    long double delta;
    struct bytes sum;
    enum rc rc = key_write(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK && !number_long_double(ctx->argv[2], &delta))
        return cmd_error(ctx, "value is not a valid float");
    if (rc == RC_OK)
        rc = string_add_float(&key, delta, &sum, ctx->err);
    if (rc != RC_OK)
        return rc;
    key_changed(&key, KV_EVENT_STRING, "incrbyfloat");
    resp_add_bulk(ctx->reply, sum);
    return RC_OK;
}

/* ---- parts ---- */

enum rc cmd_strlen(struct cmd_ctx *ctx)
{
    struct key key;
    uint64_t len;
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = string_len(&key, &len, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)len);
    return rc;
}

enum rc cmd_append(struct cmd_ctx *ctx)
{
    struct key key;
    struct bytes part = ctx->argv[2];
    uint64_t len;
    enum rc rc = key_write(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = string_len(&key, &len, ctx->err);
    if (rc == RC_OK) /* also nothing appended to nothing makes a key */
        rc = key.exists ? string_write(&key, len, part, ctx->err)
                        : string_set(&key, part, 0, ctx->err);
    if (rc != RC_OK)
        return rc;
    key_changed(&key, KV_EVENT_STRING, "append");
    resp_add_int(ctx->reply, (int64_t)(len + part.len));
    return RC_OK;
}

enum rc cmd_setrange(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t offset;
    struct bytes part = ctx->argv[3];
    uint64_t len;
    enum rc rc = cmd_int(ctx, 2, &offset);
    if (rc != RC_OK)
        return rc;
    if (offset < 0)
        return cmd_error(ctx, "offset is out of range");
    rc = key_write(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = string_len(&key, &len, ctx->err);
    if (rc == RC_OK && part.len > 0) {
        rc = string_write(&key, (uint64_t)offset, part, ctx->err);
        if (rc == RC_OK)
            key_changed(&key, KV_EVENT_STRING, "setrange");
        if (len < (uint64_t)offset + part.len)
            len = (uint64_t)offset + part.len;
    }
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)len);
    return rc;
}

bool cmd_string__range(int64_t *start, int64_t *end, uint64_t len)
{
    int64_t signed_len = (int64_t)len;
    if (*start < 0)
        *start += signed_len;
    if (*end < 0)
        *end += signed_len;
    if (*start < 0)
        *start = 0;
    if (*end < 0)
        *end = 0;
    if (*end >= signed_len)
        *end = signed_len - 1;
    return *start <= *end;
}

enum rc cmd_getrange(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t start, end;
    uint64_t len;
    enum rc rc = cmd_int(ctx, 2, &start);
    if (rc == RC_OK)
        rc = cmd_int(ctx, 3, &end);
    if (rc == RC_OK)
        rc = key_read(ctx->run, ctx->argv[1], TYPE_STRING, &key, ctx->err);
    if (rc == RC_OK)
        rc = string_len(&key, &len, ctx->err);
    if (rc != RC_OK)
        return rc;
    bool backwards = start < 0 && end < 0 && start > end; /* also where both are before the start */
    if (!backwards && cmd_string__range(&start, &end, len))
        return cmd_string__reply(ctx, &key, (uint64_t)start, (uint64_t)end + 1, true);
    resp_add_bulk(ctx->reply, BYTES(""));
    return RC_OK;
}

/* ---- LCS ---- */

struct lcs_options {
    bool index;
    bool len;
    bool with_match_len;
    int64_t match_len_min;
};

static enum rc lcs_options_parse(struct cmd_ctx *ctx, struct lcs_options *options)
{
    for (size_t i = 3; i < ctx->argc; i++) {
        struct bytes arg = ctx->argv[i];
        if (cmd_arg_is(arg, "IDX")) {
            options->index = true;
        } else if (cmd_arg_is(arg, "LEN")) {
            options->len = true;
        } else if (cmd_arg_is(arg, "WITHMATCHLEN")) {
            options->with_match_len = true;
        } else if (cmd_arg_is(arg, "MINMATCHLEN") && i + 1 < ctx->argc) {
            enum rc rc = cmd_int(ctx, ++i, &options->match_len_min);
            if (rc != RC_OK)
                return rc;
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    if (options->index && options->len)
        return cmd_error(ctx, "If you want both the length and indexes, please just use IDX.");
    return RC_OK;
}

static void lcs_index_reply(struct resp_out *reply, struct lcs *lcs,
                            const struct lcs_options *options)
{
    size_t count = 0;
    struct lcs_match match;
    resp_add_map(reply, 2);
    resp_add_text(reply, "matches");
    size_t mark = resp_open(reply);
    while (lcs_next(lcs, &match)) {
        if ((int64_t)match.len < options->match_len_min)
            continue;
        resp_add_array(reply, 2 + options->with_match_len);
        resp_add_array(reply, 2);
        resp_add_int(reply, (int64_t)match.a_from);
        resp_add_int(reply, (int64_t)(match.a_from + match.len - 1));
        resp_add_array(reply, 2);
        resp_add_int(reply, (int64_t)match.b_from);
        resp_add_int(reply, (int64_t)(match.b_from + match.len - 1));
        if (options->with_match_len)
            resp_add_int(reply, (int64_t)match.len);
        count++;
    }
    resp_close_array(reply, mark, count);
    resp_add_text(reply, "len");
    resp_add_int(reply, lcs_len(lcs));
}

static enum rc lcs_text_reply(struct cmd_ctx *ctx, struct lcs *lcs)
{
    size_t len = lcs_len(lcs), at = len;
    struct lcs_match match;
    uint8_t *text = arena_try_alloc(ctx->run->arena, len);
    if (!text)
        return err_set(ctx->err, RC_NOMEM, "could not allocate %zu bytes for a value", len);
    while (lcs_next(lcs, &match)) {
        at -= match.len;
        memcpy(text + at, lcs->a.ptr + match.a_from, match.len);
    }
    ASSERT(at == 0);
    resp_add_bulk(ctx->reply, bytes_of(text, len));
    return RC_OK;
}

static enum rc lcs_keys(struct cmd_ctx *ctx, struct key key[2])
{
    bool cold = false;
    for (size_t i = 0; i < 2; i++) {
        enum rc rc = key_read(ctx->run, ctx->argv[1 + i], KEY_ANY, &key[i], ctx->err);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD;
    }
    if (cold)
        return RC_COLD;
    for (size_t i = 0; i < 2; i++)
        if (key[i].exists && !string_is(&key[i]))
            return cmd_error(ctx, "The specified keys must contain string values");
    return RC_OK;
}

/* Nothing is read if it would be too long. */
static enum rc lcs_values(struct cmd_ctx *ctx, const struct key key[2], struct bytes value[2])
{
    uint64_t a_len, b_len;
    enum rc rc = string_len(&key[0], &a_len, ctx->err);
    if (rc == RC_OK)
        rc = string_len(&key[1], &b_len, ctx->err);
    if (rc == RC_OK)
        rc = lcs_check(a_len, b_len, ctx->err);
    if (rc != RC_OK)
        return rc;
    rc = string_get(&key[0], &value[0], ctx->err);
    if (rc != RC_OK && rc != RC_COLD)
        return rc;
    enum rc b_rc = string_get(&key[1], &value[1], ctx->err);
    return b_rc == RC_OK ? rc : b_rc;
}

enum rc cmd_lcs(struct cmd_ctx *ctx)
{
    struct lcs_options options = {0};
    struct key key[2];
    struct bytes value[2];
    struct lcs lcs;
    enum rc rc = lcs_keys(ctx, key);
    if (rc == RC_OK)
        rc = lcs_options_parse(ctx, &options);
    if (rc == RC_OK)
        rc = lcs_values(ctx, key, value);
    if (rc == RC_OK)
        rc = lcs_init(&lcs, ctx->run->arena, value[0], value[1], ctx->err);
    if (rc != RC_OK)
        return rc;
    if (options.index)
        lcs_index_reply(ctx->reply, &lcs, &options);
    else if (options.len)
        resp_add_int(ctx->reply, lcs_len(&lcs));
    else
        rc = lcs_text_reply(ctx, &lcs);
    return rc;
}

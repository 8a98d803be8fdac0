// SPDX-License-Identifier: Apache-2.0
/* cmd_sort.c - SORT and SORT_RO. */
#include "server/cmd.h"

#include "types/list.h"
#include "types/sort.h"

#include "base/banned.h"

struct sort_call {
    struct sort_options options;
    struct sort_pattern *get; /* in the command's arena */
    size_t get_count;
    struct bytes store;
    size_t store_arg;
    struct sort_item *item;
    size_t item_count;
};

/* ---- arguments ---- */

static enum rc limit_parse(struct cmd_ctx *ctx, size_t arg, struct sort_options *options)
{
    enum rc rc = cmd_int(ctx, arg, &options->first);
    return rc == RC_OK ? cmd_int(ctx, arg + 1, &options->count) : rc;
}

/* A text without a star, "#" too, says that nothing is sorted, also when another BY follows. */
static void by_parse(struct bytes text, struct sort_options *options)
{
    if (!options->has_by || options->by.kind != SORT_NOTHING)
        sort_pattern_parse(text, &options->by);
    if (options->by.kind == SORT_SELF)
        options->by.kind = SORT_NOTHING;
    options->has_by = true;
}

/* The option at *arg, which is moved to its last argument. */
static enum rc option_parse(struct cmd_ctx *ctx, bool may_store, size_t *arg,
                            struct sort_call *call)
{
    struct bytes word = ctx->argv[*arg];
    size_t at = *arg, left = ctx->argc - at - 1;
    struct sort_options *options = &call->options;
    if (cmd_arg_is(word, "ASC")) {
        options->descending = false;
    } else if (cmd_arg_is(word, "DESC")) {
        options->descending = true;
    } else if (cmd_arg_is(word, "ALPHA")) {
        options->alpha = true;
    } else if (cmd_arg_is(word, "LIMIT") && left >= 2) {
        *arg += 2;
        return limit_parse(ctx, at + 1, options);
    } else if (may_store && cmd_arg_is(word, "STORE") && left >= 1) {
        call->store = ctx->argv[++*arg];
        call->store_arg = *arg;
        options->stored = true;
    } else if (cmd_arg_is(word, "BY") && left >= 1) {
        by_parse(ctx->argv[++*arg], options);
    } else if (cmd_arg_is(word, "GET") && left >= 1) {
        sort_pattern_parse(ctx->argv[++*arg], &call->get[call->get_count++]);
    } else {
        return cmd_syntax_error(ctx);
    }
    return RC_OK;
}

static enum rc call_parse(struct cmd_ctx *ctx, bool may_store, struct sort_call *call)
{
    *call = (struct sort_call){.options.count = -1};
    call->get = arena_try_alloc(ctx->run->arena, ctx->argc / 2 * sizeof *call->get);
    if (!call->get)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu arguments",
                       ctx->argc);
    enum rc rc = RC_OK;
    for (size_t arg = 2; rc == RC_OK && arg < ctx->argc; arg++)
        rc = option_parse(ctx, may_store, &arg, call);
    return rc;
}

/* ---- results ---- */

static size_t output_count(const struct sort_call *call)
{
    return call->item_count * (call->get_count > 0 ? call->get_count : 1);
}

/* One value of the result: kept for STORE, or written. NULL: there is none. */
static enum rc output_add(struct cmd_ctx *ctx, const struct bytes *value, struct bytes *kept)
{
    if (kept)
        return run_copy(ctx->run, value ? *value : BYTES(""), kept, ctx->err);
    if (value)
        resp_add_bulk(ctx->reply, *value);
    else
        resp_add_null(ctx->reply);
    return RC_OK;
}

/* What the GET patterns make of the elements: into the reply, or into an array. Cold things are
 * asked for together. */
static enum rc outputs_get(struct cmd_ctx *ctx, const struct sort_call *call, struct bytes *kept)
{
    CLEANUP(buf_done) struct buf name;
    size_t cold_count = 0;
    buf_init(&name, KEY_BYTES_MAX);
    for (size_t i = 0; i < output_count(call) && cold_count < SORT_COLD_MAX; i++) {
        struct bytes value;
        enum rc rc = sort_lookup(ctx->run, &call->get[i % call->get_count],
                                 call->item[i / call->get_count].element, &name, &value, ctx->err);
        if (rc == RC_COLD)
            cold_count++;
        else if (rc == RC_OK || rc == RC_NOT_FOUND)
            rc = output_add(ctx, rc == RC_OK ? &value : NULL, kept ? &kept[i] : NULL);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
    }
    return cold_count > 0 ? RC_COLD : RC_OK;
}

static enum rc result_reply(struct cmd_ctx *ctx, const struct sort_call *call)
{
    resp_add_array(ctx->reply, output_count(call));
    if (call->get_count > 0)
        return outputs_get(ctx, call, NULL);
    for (size_t i = 0; i < call->item_count; i++)
        resp_add_bulk(ctx->reply, call->item[i].element);
    return RC_OK;
}

static enum rc items_reply(struct cmd_ctx *ctx, const struct sort_item *item, uint64_t count,
                           struct cmd_long *slow)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && slow->done < count && !ctx->reply->failed) {
        resp_add_bulk(ctx->reply, item[slow->done++].element);
        if (cmd_long_full(ctx, slow))
            rc = RC_WAIT;
    }
    return cmd_long_keep(ctx, slow, BYTES(""), rc);
}

/* Elements are gathered, sorted and written in slices. RC_NOT_FOUND: they are few, or looked up in
 * other keys, which nobody could listen to: it is done in one go. */
static enum rc reply_in_slices(struct cmd_ctx *ctx, const struct sort_call *call,
                               const struct key *key)
{
    struct sort_options how;
    struct cmd_long *slow;
    if (call->options.stored || call->get_count > 0 || !key->exists ||
        !sort_by_itself(&call->options, key->meta.type, &how))
        return RC_NOT_FOUND;
    uint64_t count = key->meta.count;
    struct sort_range range = sort_range(&call->options, count);
    size_t mark = ctx->reply->buf.len;
    resp_add_array(ctx->reply, range.count);
    enum rc rc =
        cmd_long_begin(ctx, build_input(0, key), ctx->request ? range.count : count, &slow);
    if (rc != RC_OK)
        return rc;
    if (!slow || count <= cmd_long_count(slow)) {
        resp_out_cut(ctx->reply, mark);
        return RC_NOT_FOUND;
    }
    if (!slow->work) {
        struct sort_work *work;
        rc = sort_work_new(count, &work, ctx->err);
        if (rc != RC_OK)
            return rc;
        slow->work = work;
        slow->work_free = sort_work_free;
    }
    rc = sort_work_step(slow->work, key, &how, ctx->err);
    if (rc == RC_OK)
        return items_reply(ctx, sort_work_items(slow->work) + range.first, range.count, slow);
    return cmd_long_keep(ctx, slow, BYTES(""), rc);
}

static enum rc list_replace(struct cmd_ctx *ctx, struct key *key, const struct bytes *element,
                            size_t count)
{
    enum rc rc = key_replace(key, TYPE_LIST, ctx->err);
    if (rc != RC_OK)
        return rc;
    key->meta.expire_ms = 0;
    rc = list_fill(key, element, count, ctx->err);
    if (rc == RC_OK)
        key_changed(key, KV_EVENT_LIST, "sortstore");
    return rc;
}

static enum rc result_store(struct cmd_ctx *ctx, const struct sort_call *call)
{
    size_t count = output_count(call);
    struct key key;
    struct bytes *element = arena_try_alloc(ctx->run->arena, count * sizeof *element);
    if (!element)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for %zu elements", count);
    enum rc rc = RC_OK;
    if (call->get_count > 0)
        rc = outputs_get(ctx, call, element);
    for (size_t i = 0; call->get_count == 0 && i < count; i++)
        element[i] = call->item[i].element;
    if (rc == RC_OK)
        rc = key_write(ctx->run, call->store, KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (count > 0) {
        rc = list_replace(ctx, &key, element, count);
    } else if (key.exists) {
        rc = key_remove(&key, ctx->err);
        if (rc == RC_OK)
            key_changed(&key, KV_EVENT_GENERIC, "del");
    }
    resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

/* RC_NOT_FOUND: it is small enough for one commit, or looks up other keys. */
static enum rc store_build(struct cmd_ctx *ctx, const struct sort_call *call)
{
    uint64_t count;
    enum rc rc = sort_build(ctx->run, ctx->argv[1], &call->options, call->store,
                            cmd_build(ctx, call->store_arg), &count, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

static enum rc sort(struct cmd_ctx *ctx, bool may_store)
{
    struct sort_call call;
    struct key key;
    enum rc rc = call_parse(ctx, may_store, &call);
    if (rc == RC_OK && call.options.stored && call.get_count == 0) {
        rc = store_build(ctx, &call);
        if (rc != RC_NOT_FOUND)
            return rc;
        rc = RC_OK;
    }
    if (rc == RC_OK)
        rc = sort_key_read(ctx->run, ctx->argv[1], &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    rc = reply_in_slices(ctx, &call, &key);
    if (rc != RC_NOT_FOUND)
        return rc;
    rc = sort_run(&key, &call.options, &call.item, &call.item_count, ctx->err);
    if (rc != RC_OK)
        return rc;
    return call.options.stored ? result_store(ctx, &call) : result_reply(ctx, &call);
}

enum rc cmd_sort(struct cmd_ctx *ctx)
{
    return sort(ctx, true);
}

enum rc cmd_sort_ro(struct cmd_ctx *ctx)
{
    return sort(ctx, false);
}

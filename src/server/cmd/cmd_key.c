// SPDX-License-Identifier: Apache-2.0
/* cmd_key.c - commands on keys of any type, and on whole databases. */
#include "server/server_int.h"

#include <limits.h>

#include "types/copy.h"
#include "types/names.h"

#include "base/banned.h"

/* ---- several keys ---- */

/* One key was cold: those behind it are asked for as well. */
static enum rc rest_want(struct cmd_ctx *ctx, size_t arg, enum rc rc)
{
    if (rc == RC_COLD)
        key_want(ctx->run->ns, ctx->argv + arg + 1, ctx->argc - arg - 1);
    return rc;
}

enum rc cmd_del(struct cmd_ctx *ctx)
{
    int64_t count = 0;
    for (size_t i = 1; i < ctx->argc; i++) {
        struct key key;
        enum rc rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc != RC_OK)
            return rest_want(ctx, i, rc);
        if (!key.exists)
            continue;
        rc = key_remove(&key, ctx->err);
        if (rc != RC_OK)
            return rc;
        key_changed(&key, KV_EVENT_GENERIC, "del");
        count++;
    }
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

/* EXISTS and TOUCH. */
enum rc cmd_exists(struct cmd_ctx *ctx)
{
    int64_t count = 0;
    for (size_t i = 1; i < ctx->argc; i++) {
        struct key key;
        enum rc rc = key_read(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc != RC_OK)
            return rest_want(ctx, i, rc);
        count += key.exists;
    }
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

enum rc cmd_type(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = key_read(ctx->run, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, key.exists ? type_name(key.meta.type) : "none");
    return rc;
}

/* ---- RENAME ---- */

/* RC_NOT_FOUND: nothing was done, because RENAMENX found the new name taken. */
static enum rc rename_key(struct cmd_ctx *ctx, bool only_new)
{
    struct key from, to;
    enum rc rc = key_write(ctx->run, ctx->argv[1], KEY_ANY, &from, ctx->err);
    if (rc != RC_OK)
        return rest_want(ctx, 1, rc);
    if (!from.exists)
        return cmd_error(ctx, "no such key");
    if (bytes_eq(ctx->argv[1], ctx->argv[2]))
        return only_new ? RC_NOT_FOUND : RC_OK;
    rc = key_write(ctx->run, ctx->argv[2], KEY_ANY, &to, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (only_new && to.exists)
        return RC_NOT_FOUND;
    rc = key_rename(&from, &to, ctx->err);
    if (rc != RC_OK)
        return rc;
    key_changed(&from, KV_EVENT_GENERIC, "rename_from");
    key_changed(&to, KV_EVENT_GENERIC, "rename_to");
    return RC_OK;
}

enum rc cmd_rename(struct cmd_ctx *ctx)
{
    enum rc rc = rename_key(ctx, false);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_renamenx(struct cmd_ctx *ctx)
{
    enum rc rc = rename_key(ctx, true);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    resp_add_int(ctx->reply, rc == RC_OK);
    return RC_OK;
}

/* ---- COPY and MOVE ---- */

static enum rc db_arg(struct cmd_ctx *ctx, size_t arg, struct ns **ret_ns)
{
    int64_t index;
    enum rc rc = cmd_int(ctx, arg, &index);
    if (rc != RC_OK)
        return rc;
    if (index < INT_MIN || index > INT_MAX)
        return err_set(ctx->err, RC_INVALID, "value is out of range, value must between %d and %d",
                       INT_MIN, INT_MAX);
    *ret_ns = index >= 0 ? kv_ns(ctx->run->kv, (uint64_t)index) : NULL;
    return *ret_ns ? RC_OK : cmd_error(ctx, "DB index is out of range");
}

/* Both keys are found, or both are asked for. RC_NOT_FOUND: there is nothing to copy, or no place
 * for it. */
static enum rc pair_find(struct cmd_ctx *ctx, const struct run *to_run, struct bytes to_name,
                         bool replace, bool moves, struct key *ret_from, struct key *ret_to)
{
    enum rc rc = moves ? key_write(ctx->run, ctx->argv[1], KEY_ANY, ret_from, ctx->err)
                       : key_read(ctx->run, ctx->argv[1], KEY_ANY, ret_from, ctx->err);
    if (rc == RC_COLD)
        key_want(to_run->ns, &to_name, 1);
    if (rc != RC_OK)
        return rc;
    if (!ret_from->exists)
        return RC_NOT_FOUND;
    rc = key_write(to_run, to_name, KEY_ANY, ret_to, ctx->err);
    if (rc == RC_OK && ret_to->exists && !replace)
        return RC_NOT_FOUND;
    return rc;
}

enum rc cmd_copy(struct cmd_ctx *ctx)
{
    struct ns *to_ns = ctx->run->ns;
    bool replace = false;
    for (size_t i = 3; i < ctx->argc; i++) {
        if (cmd_arg_is(ctx->argv[i], "REPLACE")) {
            replace = true;
        } else if (cmd_arg_is(ctx->argv[i], "DB") && i + 1 < ctx->argc) {
            enum rc rc = db_arg(ctx, ++i, &to_ns);
            if (rc != RC_OK)
                return rc;
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    if (to_ns == ctx->run->ns && bytes_eq(ctx->argv[1], ctx->argv[2]))
        return cmd_error(ctx, "source and destination objects are the same");
    struct run to_run = run_with(ctx->run, to_ns, 0);
    struct key from, to;
    enum rc rc = pair_find(ctx, &to_run, ctx->argv[2], replace, false, &from, &to);
    if (rc == RC_OK)
        rc = key_copy(&from, &to, cmd_build(ctx, 2), ctx->err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_OK)
        key_changed(&to, KV_EVENT_GENERIC, "copy_to");
    resp_add_int(ctx->reply, rc == RC_OK);
    return RC_OK;
}

enum rc cmd_move(struct cmd_ctx *ctx)
{
    struct ns *to_ns;
    enum rc rc = db_arg(ctx, 2, &to_ns);
    if (rc != RC_OK)
        return rc;
    if (to_ns == ctx->run->ns)
        return cmd_error(ctx, "source and destination objects are the same");
    struct run to_run = run_with(ctx->run, to_ns, 0);
    struct key from, to;
    rc = pair_find(ctx, &to_run, ctx->argv[1], false, true, &from, &to);
    if (rc == RC_OK)
        rc = key_copy(&from, &to, cmd_build(ctx, 0), ctx->err);
    if (rc == RC_OK)
        rc = key_remove(&from, ctx->err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_OK) {
        key_changed(&from, KV_EVENT_GENERIC, "move_from");
        key_changed(&to, KV_EVENT_GENERIC, "move_to");
    }
    resp_add_int(ctx->reply, rc == RC_OK);
    return RC_OK;
}

/* ---- databases ---- */

enum rc cmd_dbsize(struct cmd_ctx *ctx)
{
    resp_add_int(ctx->reply, ns_key_count(ctx->run->ns));
    return RC_OK;
}

/* Both ways are the same here: nothing is freed while the client waits. */
static enum rc flush_args(struct cmd_ctx *ctx)
{
    if (ctx->argc == 1)
        return RC_OK;
    if (ctx->argc == 2 && (cmd_arg_is(ctx->argv[1], "SYNC") || cmd_arg_is(ctx->argv[1], "ASYNC")))
        return RC_OK;
    return cmd_syntax_error(ctx);
}

enum rc cmd_flushdb(struct cmd_ctx *ctx)
{
    enum rc rc = flush_args(ctx);
    if (rc == RC_OK)
        rc = ns_flush(ctx->run, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_flushall(struct cmd_ctx *ctx)
{
    const struct kv *kv = ctx->run->kv;
    enum rc rc = flush_args(ctx);
    for (size_t i = 0; rc == RC_OK && i < 2 * kv->ns_count; i++) { /* all of them are asked first */
        struct run part = run_with(ctx->run, kv_ns(kv, i % kv->ns_count), 0);
        if (part.ns)
            rc = i < kv->ns_count ? ns_flush_check(&part, ctx->err) : ns_flush(&part, ctx->err);
    }
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_swapdb(struct cmd_ctx *ctx)
{
    int64_t one, other;
    enum rc rc = cmd_int_range(ctx, 1, INT_MIN, INT_MAX, "invalid first DB index", &one);
    if (rc == RC_OK)
        rc = cmd_int_range(ctx, 2, INT_MIN, INT_MAX, "invalid second DB index", &other);
    if (rc != RC_OK)
        return rc;
    struct ns *one_ns = one >= 0 ? kv_ns(ctx->run->kv, (uint64_t)one) : NULL;
    struct ns *other_ns = other >= 0 ? kv_ns(ctx->run->kv, (uint64_t)other) : NULL;
    if (!one_ns || !other_ns)
        return cmd_error(ctx, "DB index is out of range");
    rc = server__waiters_look(ctx->server, ctx->run, one_ns, other_ns, ctx->err);
    if (rc == RC_OK)
        rc = names_swap(ctx->run, one_ns, other_ns, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* ---- WAIT ---- */

static void wait_give_up(struct resp_out *reply)
{
    resp_add_int(reply, 0);
}

/* There are no replicas: who wants one waits for nothing. */
enum rc cmd_wait(struct cmd_ctx *ctx)
{
    int64_t replica_count, timeout_ms;
    enum rc rc = cmd_int(ctx, 1, &replica_count);
    if (rc == RC_OK)
        rc = cmd_int_range(ctx, 2, INT64_MIN, INT64_MAX,
                           "timeout is not an integer or out of range", &timeout_ms);
    if (rc != RC_OK)
        return rc;
    if (timeout_ms < 0)
        return cmd_error(ctx, "timeout is negative");
    if (replica_count > 0)
        return cmd_block(ctx, &(struct cmd_blocking){.timeout_ms = (uint64_t)timeout_ms,
                                                     .give_up = wait_give_up});
    resp_add_int(ctx->reply, 0);
    return RC_OK;
}

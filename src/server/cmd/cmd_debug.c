// SPDX-License-Identifier: Apache-2.0
/* cmd_debug.c - DEBUG: what test suites ask for. */
#include "server/server_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "store/testing.h"
#include "types/number.h"

#include "base/banned.h"

/* As in Redis everybody waits: that is what it is for. */
enum rc cmd_debug_sleep(struct cmd_ctx *ctx)
{
    double seconds;
    enum rc rc = cmd_double(ctx, 2, &seconds);
    if (rc != RC_OK)
        return rc;
    if (seconds > 0 && seconds < 3600) {
        struct timespec time = {.tv_sec = (time_t)seconds};
        time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
        (void)nanosleep(&time, NULL);
        ctx->server->now_ms = clock_unix_ms(ctx->server->clock); /* of those behind it */
    }
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_debug_set_active_expire(struct cmd_ctx *ctx)
{
    int64_t on;
    enum rc rc = cmd_int(ctx, 2, &on);
    if (rc != RC_OK)
        return rc;
    expire_active_set(ctx->server->expire, on != 0);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

/* Flushes everything and makes all of it cold. */
enum rc cmd_debug_reload(struct cmd_ctx *ctx)
{
    enum rc rc = cmd_flush_wait(ctx);
    if (rc != RC_OK)
        return rc;
    ctx->server->evict_asked = true;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_debug_cold_inject(struct cmd_ctx *ctx)
{
    int64_t count;
    enum rc rc = cmd_int_range(ctx, 2, 0, INT64_MAX, NULL, &count);
    if (rc != RC_OK)
        return rc;
    store_cold_inject(ctx->server->store, (uint64_t)count);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_debug_build_rows(struct cmd_ctx *ctx)
{
    int64_t count;
    enum rc rc = cmd_int_range(ctx, 2, 0, INT64_MAX, NULL, &count);
    if (rc != RC_OK)
        return rc;
    ctx->run->kv->build_rows_min = (uint64_t)count;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_debug_object(struct cmd_ctx *ctx)
{
    struct key key;
    char text[256];
    enum rc rc = key_write(ctx->run, ctx->argv[2], KEY_ANY, &key, ctx->err);
    if (rc == RC_OK && !key.exists)
        return cmd_error(ctx, "no such key");
    if (rc != RC_OK)
        return rc;
    struct store_group_state state = store_group_state(ctx->run->kv->store, key_rows(&key));
    snprintf(text, sizeof text,
             "Value at:0x0 refcount:1 type:%s serializedlength:%zu lru:0 lru_seconds_idle:0 "
             "count:%" PRIu64 " hot_rows:%" PRIu64 " complete:%d",
             type_name(key.meta.type), key.meta.extra.len, key.meta.count, state.row_count,
             state.complete);
    resp_add_status(ctx->reply, text);
    return RC_OK;
}

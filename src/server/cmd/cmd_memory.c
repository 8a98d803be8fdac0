// SPDX-License-Identifier: Apache-2.0
/* cmd_memory.c - MEMORY: what a key, and everything, takes in memory. */
#include "server/server_int.h"

#include "base/mem.h"
#include "store/turns.h"
#include "types/string.h"

#include "base/banned.h"

enum {
    SAMPLES_USUAL = 5,
    ROW_HEAD_BYTES = 12,   /* of a single row, and its slot in the table */
    TABLE_SLOT_BYTES = 12, /* a bucket's share */
    ENTRY_BYTES = 8,       /* of a row in a block */
};

static enum rc row_count(const struct key *key, uint64_t *ret_count, struct err *err)
{
    uint64_t len;
    if (!string_is(key)) {
        *ret_count = key->meta.type == TYPE_ZSET ? 2 * key->meta.count : key->meta.count;
        return RC_OK;
    }
    enum rc rc = string_len(key, &len, err);
    if (rc == RC_OK)
        *ret_count = (len + STRING_CHUNK_BYTES - 1) / STRING_CHUNK_BYTES;
    return rc;
}

/* The average of the first `samples` rows, times their number; rows that are cold count as well:
 * they are what the key would take. */
static enum rc rows_bytes(struct cmd_ctx *ctx, const struct key *key, uint64_t samples,
                          uint64_t *ret_bytes)
{
    struct store_walk walk;
    struct bytes suffix, value;
    uint64_t bytes = 0, seen = 0, rows = 0;
    enum rc rc = row_count(key, &rows, ctx->err);
    if (rc != RC_OK)
        return rc;
    store_walk_init(&walk, ctx->run->kv->store, key_rows(key), false);
    while (rc == RC_OK && (samples == 0 || seen < samples)) {
        rc = store_walk_next(&walk, &suffix, &value, ctx->err);
        if (rc == RC_OK) {
            bytes += suffix.len + value.len + ENTRY_BYTES;
            seen++;
        }
    }
    store_walk_done(&walk);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_bytes = seen == 0 ? 0 : rows > seen ? bytes * rows / seen : bytes;
    return RC_OK;
}

enum rc cmd_memory_usage(struct cmd_ctx *ctx)
{
    struct key key;
    int64_t samples = SAMPLES_USUAL;
    uint64_t bytes = 0;
    if (ctx->argc == 5 && cmd_arg_is(ctx->argv[3], "SAMPLES")) {
        enum rc rc = cmd_int(ctx, 4, &samples);
        if (rc != RC_OK)
            return rc;
        if (samples < 0)
            return cmd_syntax_error(ctx);
    } else if (ctx->argc != 3) {
        return cmd_syntax_error(ctx);
    }
    enum rc rc = key_write(ctx->run, ctx->argv[2], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!key.exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    size_t row = ROW_HEAD_BYTES + key.name.len + META_HEAD_BYTES + key.meta.extra.len;
    if (key.meta.type != TYPE_STRING)
        rc = rows_bytes(ctx, &key, (uint64_t)samples, &bytes);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)(bytes + mem_class_bytes(row) + TABLE_SLOT_BYTES));
    return rc;
}

enum rc cmd_memory_stats(struct cmd_ctx *ctx)
{
    struct store_stats stats;
    int64_t keys = 0;
    store_stats(ctx->server->store, &stats);
    for (size_t i = 0; i < ctx->run->kv->ns_count; i++)
        keys += kv_ns(ctx->run->kv, i) ? ns_key_count(kv_ns(ctx->run->kv, i)) : 0;
    resp_add_map(ctx->reply, 7);
    resp_add_pair(ctx->reply, "total.allocated", stats.hot_bytes);
    resp_add_pair(ctx->reply, "dataset.bytes", stats.hot_bytes);
    resp_add_pair(ctx->reply, "dataset.dirty", stats.dirty_bytes);
    resp_add_pair(ctx->reply, "dataset.pinned", stats.pinned_bytes);
    resp_add_pair(ctx->reply, "engine.cache", stats.engine.cache_bytes);
    resp_add_pair(ctx->reply, "keys.count", (uint64_t)keys);
    resp_add_pair(ctx->reply, "allocator.resident", mem_resident_bytes());
    return RC_OK;
}

enum rc cmd_memory_purge(struct cmd_ctx *ctx)
{
    mem_trim();
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_memory_doctor(struct cmd_ctx *ctx)
{
    struct store_stats stats;
    store_stats(ctx->server->store, &stats);
    const char *text = stats.flush_reason[0]    ? stats.flush_reason
                       : stats.flush_braked     ? "The flush waits for the engine's compaction."
                       : stats.journal.disk_low ? "The disk is below its reserve."
                                                : "Memory is within hot-memory; nothing to say.";
    resp_add_verbatim(ctx->reply, bytes_of(text, strlen(text)));
    return RC_OK;
}

static void text_add(void *arg, const char *text)
{
    struct buf *to = arg;
    if (!buf_add(to, text, strlen(text)))
        return; /* what fits is told */
}

enum rc cmd_memory_malloc_stats(struct cmd_ctx *ctx)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, MALLOC_STATS_BYTES_MAX);
    mem_stats_print(text_add, &text);
    if (text.len == 0)
        text_add(&text, "Stats not supported for the current allocator");
    resp_add_verbatim(ctx->reply, buf_bytes(&text));
    return RC_OK;
}

// SPDX-License-Identifier: Apache-2.0
/* cmd_tile_care.c - TILE.SYNC, TILE.STATS: what is persisted. */
#include "models/tile/cmd_tile.h"

#include "base/mem.h"

#include "base/banned.h"

struct sync { /* what a TILE.SYNC waits for */
    uint64_t lsn;
    uint64_t failed_rounds;
};

enum rc cmd_tile_sync(struct cmd_ctx *ctx)
{
    struct tiles *tiles = cmd_model(ctx);
    struct cmd_request *request = ctx->request;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    struct sync *sync = request->state;
    if (!sync) {
        sync = request->state = mem_alloc(sizeof *sync);
        request->state_free = mem_free;
        sync->lsn = store_last_lsn(ctx->run->kv->store);
        sync->failed_rounds = tiles_failed_rounds(tiles);
        tiles_sync_ask(tiles, sync->lsn);
    }
    if (tiles_is_synced(tiles, sync->lsn)) {
        resp_add_status(ctx->reply, "OK");
        return RC_OK;
    }
    if (tiles_failed_rounds(tiles) != sync->failed_rounds)
        return err_set(ctx->err, RC_IO, "not everything could be persisted, it is tried again: %s",
                       tiles_trouble(tiles) ? tiles_trouble(tiles) : "");
    tiles_sync_wait(tiles, cmd_waiter(ctx), &request->task);
    task_wait_event(&request->task);
    return RC_WAIT;
}

/* ---- TILE.STATS ---- */

static void type_reply(struct resp_out *out, const struct tile_type *type)
{
    static const char *const kinds[] = {
        [TILE_PLAIN] = "tiles", [TILE_TM] = "tiles with a time", [TILE_META] = "metadata"};
    struct tile_stats stats;
    tile_type_stats(type, &stats);
    resp_add_map(out, 7);
    resp_add_text(out, "type");
    resp_add_text(out, tile_type_name(type));
    resp_add_text(out, "kind");
    resp_add_text(out, kinds[tile_type_kind(type)]);
    resp_add_pair(out, "db", tile_type_db(type));
    resp_add_pair(out, "bare", tile_type_is_bare(type));
    resp_add_text(out, "shards");
    resp_add_text(out, stats.shards);
    resp_add_pair(out, "pending", stats.pending);
    resp_add_text(out, "pending_is_all");
    resp_add_int(out, stats.pending_is_all);
}

static void all_reply(struct resp_out *out, const struct tiles *tiles)
{
    struct tiles_stats stats;
    const char *trouble = tiles_trouble(tiles);
    struct err damage = {0};
    tiles_stats(tiles, &stats);
    resp_add_pair(out, "persisted", stats.persisted);
    resp_add_pair(out, "removed", stats.removed);
    resp_add_pair(out, "in_flight", stats.in_flight);
    resp_add_pair(out, "batches", stats.batches);
    resp_add_pair(out, "failed_batches", stats.failures);
    resp_add_pair(out, "shards_set_aside", stats.set_aside);
    resp_add_pair(out, "damaged_tiles", stats.damaged);
    resp_add_pair(out, "damaged_shards", stats.damaged_shards);
    resp_add_pair(out, "write_ms", stats.write_ns / 1000000);
    resp_add_pair(out, "cache_bytes", stats.cache_bytes);
    resp_add_pair(out, "cache_hits", stats.cache_hits);
    resp_add_pair(out, "cache_misses", stats.cache_misses);
    resp_add_pair(out, "shard_reads", stats.shard_reads);
    resp_add_pair(out, "shard_read_failures", stats.shard_read_failures);
    resp_add_text(out, "trouble");
    resp_add_text(out, trouble ? trouble : "");
    resp_add_text(out, "damage");
    resp_add_text(out, tiles_damage(tiles, &damage) ? damage.text : "");
}

enum { STATS_FIELDS = 16 };

enum rc cmd_tile_stats(struct cmd_ctx *ctx)
{
    const struct tiles *tiles = cmd_model(ctx);
    struct tile_type *type;
    if (ctx->argc > 2)
        return cmd_arity_error(ctx);
    if (ctx->argc == 2) {
        enum rc rc = cmd_tile_type(ctx, 1, &type);
        if (rc == RC_OK)
            type_reply(ctx->reply, type);
        return rc;
    }
    size_t count = 0;
    while (tiles_type_at(tiles, count))
        count++;
    resp_add_map(ctx->reply, STATS_FIELDS + 1);
    all_reply(ctx->reply, tiles);
    resp_add_text(ctx->reply, "types");
    resp_add_array(ctx->reply, count);
    for (size_t i = 0; i < count; i++)
        type_reply(ctx->reply, tiles_type_at(tiles, i));
    return RC_OK;
}

/* ---- TILE.PROVIDER ---- */

enum rc cmd_tile_provider_load(struct cmd_ctx *ctx)
{
    uint64_t count;
    enum rc rc = tile_provider_load(cmd_model(ctx), ctx->run, ctx->argv[2], &count, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

enum rc cmd_tile_provider_set(struct cmd_ctx *ctx)
{
    uint64_t id;
    enum rc rc = cmd_tile_number(ctx, 2, &id);
    if (rc == RC_OK)
        rc = tile_provider_set(cmd_model(ctx), id, ctx->argv[3], ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_tile_provider_get(struct cmd_ctx *ctx)
{
    struct bytes text;
    uint64_t id;
    enum rc rc = cmd_tile_number(ctx, 2, &id);
    if (rc == RC_OK)
        rc = tile_provider_get(cmd_model(ctx), id, &text, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, text);
    else if (rc == RC_NOT_FOUND)
        resp_add_null(ctx->reply);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

struct provider_list {
    struct resp_out *reply;
    size_t count;
};

static void provider_add(void *arg, uint64_t id, struct bytes text)
{
    struct provider_list *list = arg;
    resp_add_int(list->reply, (int64_t)id);
    resp_add_bulk(list->reply, text);
    list->count++;
}

enum rc cmd_tile_provider_list(struct cmd_ctx *ctx)
{
    struct provider_list list = {.reply = ctx->reply};
    size_t mark = resp_open(ctx->reply);
    enum rc rc = tile_provider_list(cmd_model(ctx), provider_add, &list, ctx->err);
    if (rc == RC_OK)
        resp_close_map(ctx->reply, mark, list.count);
    return rc;
}

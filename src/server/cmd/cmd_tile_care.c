/* TILE.SYNC, TILE.STATS: what is persisted. */
#include "server/cmd/cmd_tile.h"

#include "base/mem.h"

#include "base/banned.h"

struct sync { /* what a TILE.SYNC waits for */
    uint64_t lsn;
    uint64_t failed_rounds;
};

enum rc cmd_tile_sync(struct cmd_ctx *ctx)
{
    struct tiles *tiles = ctx->server->tiles;
    struct request *request = ctx->request;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    struct sync *sync = request->state;
    if (!sync) {
        sync = request->state = mem_alloc(sizeof *sync);
        request->state_free = mem_free;
        sync->lsn = store_last_lsn(ctx->server->store);
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
    tiles_sync_wait(tiles, &request->tile, &request->task);
    task_wait_event(&request->task);
    return RC_WAIT;
}

// SPDX-License-Identifier: Apache-2.0
/* metrics_tile.c - tiles, for /metrics. */
#include <inttypes.h>

#include "server/metrics_int.h"
#include "server/server_int.h"

#include "base/banned.h"

#define OF_STATS(member) offsetof(struct tiles_stats, member)
static const struct {
    const char *name, *type, *help;
    size_t member; /* of struct tiles_stats, a uint64_t */
    uint64_t divisor;
} lines[] = {
    {"tile_in_flight", "gauge", "Tiles that are being written to shards.", OF_STATS(in_flight), 1},
    {"tile_persisted_total", "counter", "Tiles written to shards.", OF_STATS(persisted), 1},
    {"tile_removed_total", "counter", "Deletes written to shards.", OF_STATS(removed), 1},
    {"tile_batches_total", "counter", "Batches of both.", OF_STATS(batches), 1},
    {"tile_failed_batches_total", "counter", "Batches of which a part could not be written.",
     OF_STATS(failures), 1},
    {"tile_write_microseconds_total", "counter", "Time of writing batches.", OF_STATS(write_ns),
     1000},
    {"tile_shards_set_aside_total", "counter", "Damaged files that were renamed.",
     OF_STATS(set_aside), 1},
    {"tile_damaged", "gauge", "Tiles in the store that are damaged and cannot be persisted.",
     OF_STATS(damaged), 1},
    {"tile_damaged_shards", "gauge", "Shards that are damaged, or were and lie there still.",
     OF_STATS(damaged_shards), 1},
    {"tile_cache_bytes", "gauge", "Memory of tiles read from shards.", OF_STATS(cache_bytes), 1},
    {"tile_cache_hits_total", "counter", "Tiles found there.", OF_STATS(cache_hits), 1},
    {"tile_cache_misses_total", "counter", "Tiles that a shard was asked for.",
     OF_STATS(cache_misses), 1},
    {"tile_shard_read_failures_total", "counter", "Reads of shards that failed.",
     OF_STATS(shard_read_failures), 1},
};

static void add_types(struct metrics *to, const struct tiles *tiles)
{
    struct tile_type *type;
    struct tile_stats stats;
    metrics__head(to, "tile_pending", "gauge", "Tiles in memory that shards do not have yet.");
    for (size_t i = 0; (type = tiles_type_at(tiles, i)); i++) {
        tile_type_stats(type, &stats);
        to->failed =
            to->failed || !buf_printf(to->to, "terrace_tile_pending{type=\"%s\"} %" PRIu64 "\n",
                                      tile_type_name(type), stats.pending);
    }
}

void metrics__add_tile(struct metrics *to, const struct server *server)
{
    struct tiles_stats stats;
    tiles_stats(server->tiles, &stats);
    add_types(to, server->tiles);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        uint64_t value;
        memcpy(&value, (const char *)&stats + lines[i].member, sizeof value);
        metrics__add(to, lines[i].name, lines[i].type, lines[i].help, value / lines[i].divisor);
    }
    metrics__add(to, "tile_trouble", "gauge", "1: the last round failed; TILE.STATS why.",
                 tiles_trouble(server->tiles) != NULL);
}

// SPDX-License-Identifier: Apache-2.0
/* tile_stats.c - tiles' rows of INFO and /metrics. */
#include <stdio.h>

#include "models/tile/tile.h"
#include "models/tile/tile_model.h"

#include "base/banned.h"

/* ---- types ---- */

static bool type_read(void *tiles, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    struct tile_type *type = tiles_type_at(tiles, n);
    if (!type)
        return false;
    tile_type_stats(type, values);
    snprintf(labels, STATISTIC_LABELS_BYTES, "type=\"%s\"", tile_type_name(type));
    return true;
}

static const struct statistic type_rows[] = {
    {NULL, "tile_pending", STATISTIC_GAUGE, "Tiles in memory that shards do not have yet.",
     offsetof(struct tile_stats, pending), 0},
};

/* ---- all types ---- */

struct sums {
    uint64_t types, trouble;
    struct tiles_stats stats;
};

static bool sums_read(void *tiles, size_t n, void *values, char labels[STATISTIC_LABELS_BYTES])
{
    struct sums *sums = values;
    (void)labels;
    if (n > 0)
        return false;
    tiles_stats(tiles, &sums->stats);
    sums->trouble = tiles_trouble(tiles) != NULL;
    for (sums->types = 0; tiles_type_at(tiles, sums->types);)
        sums->types++;
    return true;
}

#define TROUBLE(info, metric)                                                       \
    {                                                                               \
        info, metric, STATISTIC_GAUGE, "1: the last round failed; TILE.STATS why.", \
            offsetof(struct sums, trouble), 0                                       \
    }
#define STAT(info, metric, kind, member, help)                                       \
    {                                                                                \
        info, metric, STATISTIC_##kind, help, offsetof(struct sums, stats.member), 0 \
    }
static const struct statistic sums_rows[] = {
    {"tile_types", NULL, STATISTIC_GAUGE, "Types.", offsetof(struct sums, types), 0},
    STAT("tile_pending", NULL, GAUGE, pending, "Tiles in memory that shards do not have yet."),
    STAT("tile_in_flight", "tile_in_flight", GAUGE, in_flight,
         "Tiles that are being written to shards."),
    STAT("tile_persisted", "tile_persisted_total", COUNTER, persisted, "Tiles written to shards."),
    STAT("tile_removed", "tile_removed_total", COUNTER, removed, "Deletes written to shards."),
    STAT("tile_batches", "tile_batches_total", COUNTER, batches, "Batches of both."),
    STAT("tile_failed_batches", "tile_failed_batches_total", COUNTER, failures,
         "Batches of which a part could not be written."),
    {"tile_write_us", "tile_write_microseconds_total", STATISTIC_COUNTER,
     "Time of writing batches.", offsetof(struct sums, stats.write_ns), 1000},
    STAT("tile_shards_set_aside", "tile_shards_set_aside_total", COUNTER, set_aside,
         "Damaged files that were renamed."),
    STAT("tile_damaged", "tile_damaged", GAUGE, damaged,
         "Tiles in the store that are damaged and cannot be persisted."),
    STAT("tile_damaged_shards", "tile_damaged_shards", GAUGE, damaged_shards,
         "Shards that are damaged, or were and lie there still."),
    TROUBLE("tile_trouble", NULL),
    STAT("tile_cache_bytes", "tile_cache_bytes", GAUGE, cache_bytes,
         "Memory of tiles read from shards."),
    STAT("tile_cache_hits", "tile_cache_hits_total", COUNTER, cache_hits, "Tiles found there."),
    STAT("tile_cache_misses", "tile_cache_misses_total", COUNTER, cache_misses,
         "Tiles that a shard was asked for."),
    STAT("tile_shard_reads", NULL, COUNTER, shard_reads, "Reads of shards."),
    STAT("tile_shard_read_failures", "tile_shard_read_failures_total", COUNTER, shard_read_failures,
         "Reads of shards that failed."),
    TROUBLE(NULL, "tile_trouble"),
};

const struct statistics tile_statistics[TILE_STATISTICS_COUNT] = {
    {NULL, NULL, type_rows, ARRAY_LEN(type_rows), sizeof(struct tile_stats), .read = type_read,
     .labels = "type"},
    {"tiles", "Tiles", sums_rows, ARRAY_LEN(sums_rows), sizeof(struct sums), .read = sums_read},
};

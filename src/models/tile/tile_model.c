// SPDX-License-Identifier: Apache-2.0
/* tile_model.c - tiles as a model: its options, and what the server calls. */
#include "models/tile/tile_model.h"

#include "models/tile/cmd_tile.h"
#include "models/tile/queue_lease.h"
#include "models/tile/tile.h"
#include "store/prefetch.h"

#include "base/banned.h"

enum {
    DESCRIPTORS_A_SHARD = 3,
    PREFETCH_TILES_MAX = 32, /* a batch of the server's */
};

/* ---- options ---- */

struct tile_config {
    struct option_list types; /* "imagery=1" */
    char *sqlite, *kv;        /* directories of shards; "": none */
    bool clear;
    uint32_t batch;
    uint64_t interval_ms;
    uint64_t cache_bytes;
    uint32_t open_shards;
};

static enum rc types_set(const struct option *row, void *field, const struct bytes *word,
                         size_t word_count, struct err *err)
{
    struct tile_binding binding;
    if (word_count == 1 && word[0].len == 0) {
        option_list_done(field);
        return RC_OK;
    }
    for (size_t i = 0; i < word_count; i++) {
        enum rc rc = tile_binding_parse(word[i], &binding, err);
        if (rc != RC_OK)
            return rc;
    }
    return option_list_set(row, field, word, word_count, err);
}

static const struct option_kind types_kind = {"TYPE=DB...",           .many = true,
                                              .set = types_set,       .text = option_list_text,
                                              .dup = option_list_dup, .done = option_list_done};

#define FIELD(member) OPTION_FIELD(struct tile_config, member)
static const struct option options[] = {
    {"tile-types", NULL, "Tiles", &types_kind, OPTION_LIVE_NO, FIELD(types), "",
     .help = "types of tiles and the number of the database that each is bound to, for good: "
             "imagery=1 photos=2:bare; see docs/tile.md"},
    {"tile-sqlite", NULL, "Tiles", &option_text, OPTION_LIVE_NO, FIELD(sqlite), "", 0,
     TILE_DIR_BYTES_MAX, .help = "directory of SQLite shards that tiles are persisted to"},
    {"tile-kv", NULL, "Tiles", &option_text, OPTION_LIVE_NO, FIELD(kv), "", 0, TILE_DIR_BYTES_MAX,
     .help = "directory of LMDB shards that tiles are persisted to"},
    {"tile-clear", NULL, "Tiles", &option_bool, OPTION_LIVE_NO, FIELD(clear), "yes",
     .help = "a tile that is persisted is removed from the store, if it is still that version"},
    {"tile-batch", NULL, "Tiles", &option_int, OPTION_LIVE_NO, FIELD(batch), "100", 1, 1000000,
     .help = "tiles are persisted when so many have changed,"},
    {"tile-interval", NULL, "Tiles", &option_time, OPTION_LIVE_NO, FIELD(interval_ms), "5s", 1,
     86400000, .help = "or so long after the first of them"},
    {"tile-cache", NULL, "Tiles", &option_size, OPTION_LIVE_NO, FIELD(cache_bytes), "64mb", 0,
     16 * OPTION_TB, .help = "memory for tiles read from shards, beside hot-memory"},
    {"tile-open-shards", NULL, "Tiles", &option_int, OPTION_LIVE_NO, FIELD(open_shards), "256", 1,
     65536, .help = "shards that are held open"},
};

/* ---- life ---- */

static enum rc model_open(const struct model_host *host, const void *of, void **ret_tiles,
                          struct err *err)
{
    const struct tile_config *config = of;
    struct tiles *tiles;
    enum rc rc =
        tiles_open(&(struct tiles_options){.kv = host->kv,
                                           .tasks = host->tasks,
                                           .clock = host->clock,
                                           .types = (const char *const *)config->types.text,
                                           .type_count = config->types.count,
                                           .data_dir = host->dir,
                                           .sqlite_dir = config->sqlite,
                                           .kv_dir = config->kv,
                                           .clear = config->clear,
                                           .batch_count = config->batch,
                                           .interval_ms = config->interval_ms,
                                           .cache_bytes = config->cache_bytes,
                                           .open_shards = config->open_shards,
                                           .command = cmd_tile_plain,
                                           .wake = host->wake,
                                           .wake_arg = host->wake_arg},
                   &tiles, err);
    if (rc != RC_OK)
        return rc;
    queue_lease_start(tiles);
    *ret_tiles = tiles;
    return RC_OK;
}

static void model_close(void *tiles)
{
    queue_lease_end(tiles);
    tiles_close(tiles);
}

static bool model_turn(void *tiles)
{
    return tiles_turn(tiles);
}

static bool model_drained(void *tiles)
{
    return tiles_drained(tiles);
}

static size_t model_descriptors(const void *of)
{
    const struct tile_config *config = of;
    bool has_shards = config->sqlite[0] || config->kv[0];
    return has_shards ? (size_t)config->open_shards * DESCRIPTORS_A_SHARD : 0;
}

static bool model_wait(void *tiles, void **waiter, struct task *task)
{
    return tiles_wait(tiles, waiter, task);
}

static void model_prefetch(void *of, const struct model_call *call, size_t count)
{
    const struct tiles *tiles = of;
    struct store_row row[PREFETCH_TILES_MAX];
    uint8_t suffix[PREFETCH_TILES_MAX][TILEKEY_TM_BYTES];
    size_t rows = 0;
    for (size_t i = 0; i < count && rows < ARRAY_LEN(row); i++)
        if (call[i].argc > 2)
            rows += tile_row_of(tiles, call[i].argv[1], call[i].argv[2], suffix[rows], &row[rows]);
    if (rows > 1)
        store_prefetch_rows(tiles_store(tiles), row, rows);
}

const struct model tile_model = {
    .name = "tile",
    .options = options,
    .option_count = ARRAY_LEN(options),
    .options_bytes = sizeof(struct tile_config),
    .statistics = tile_statistics,
    .statistics_count = TILE_STATISTICS_COUNT,
    .open = model_open,
    .close = model_close,
    .turn = model_turn,
    .drained = model_drained,
    .undrained = "not all tiles were persisted; the next start goes on",
    .descriptors = model_descriptors,
    .wait = model_wait,
    .waiter_free = tile_waiter_free,
    .prefetch = model_prefetch,
    .pages = "/tiles/<type>.json, /tiles/<type>/<z>/<x>/<y> and /tiles/<type>/<tilekey>",
    .page_find = tile_page_find,
    .page_make = tile_page_make,
};

// SPDX-License-Identifier: Apache-2.0
/* tile.c - rows, marks and shards as one set of tiles.
 *
 * Invariants:
 *   (1) A change and its mark are one commit.
 *   (2) A row is the tile. Without one a mark of a removal says that there is none. Without both
 *       the shards say what there is. */
#include "base/mem.h"
#include "models/tile/tile_int.h"
#include "store/prefetch.h"
#include "types/spaces.h"

#include "base/banned.h"

enum {
    ROW_BYTES_MAX = TILE_HEADER_BYTES_MAX + TILE_DATA_BYTES_MAX,
    READERS = 2,
};

/* ---- life ---- */

static enum rc prefixes_open(struct tiles *tiles, struct err *err)
{
    enum rc rc = store_prefix(tiles->store, SPACE_TILE, BYTES(""), &tiles->rows, err);
    if (rc == RC_OK)
        rc = store_prefix(tiles->store, SPACE_TILEMARK, BYTES(""), &tiles->marks, err);
    if (rc == RC_OK)
        rc = store_prefix(tiles->store, SPACE_TILEMETA, BYTES(""), &tiles->meta, err);
    return rc;
}

static bool has_shards(const struct tiles *tiles)
{
    for (size_t i = 0; i < tiles->type_count; i++)
        if (tiles->type[i].shards)
            return true;
    return false;
}

static enum rc shards_open(struct tiles *tiles, struct err *err)
{
    const struct tiles_options *options = &tiles->options;
    if (!has_shards(tiles))
        return RC_OK;
    for (size_t i = 0; i < tiles->type_count; i++) {
        struct shard_table *table = &tiles->pool_type[i].table;
        memcpy(table->name, tiles->type[i].name, sizeof table->name);
        table->kind = tiles->type[i].kind;
        table->bare = tiles->type[i].bare;
    }
    tiles->pool = pool_new(&(struct pool_options){.sqlite_dir = options->sqlite_dir,
                                                  .kv_dir = options->kv_dir,
                                                  .open_count_max = options->open_shards,
                                                  .clock = options->clock,
                                                  .types = tiles->pool_type});
    enum rc rc = workers_new(&(struct workers_options){.pool = tiles->pool,
                                                       .reader_count = READERS,
                                                       .wake = options->wake,
                                                       .wake_arg = options->wake_arg},
                             &tiles->workers, err);
    return rc == RC_OK ? persist_new(tiles, &tiles->persist, err) : rc;
}

static const char *text_dup(const char *text)
{
    return text ? mem_dup(text, strlen(text) + 1) : NULL;
}

enum rc tiles_open(const struct tiles_options *options, struct tiles **ret_tiles, struct err *err)
{
    struct tiles *tiles = mem_zalloc(sizeof *tiles);
    tiles->options = *options;
    tiles->options.sqlite_dir = text_dup(options->sqlite_dir); /* the caller's may go */
    tiles->options.kv_dir = text_dup(options->kv_dir);
    tiles->options.data_dir = text_dup(options->data_dir);
    tiles->kv = options->kv;
    tiles->store = options->kv->store;
    buf_init(&tiles->row, ROW_BYTES_MAX);
    cache_init(&tiles->cache, tiles, options->cache_bytes);
    enum rc rc = prefixes_open(tiles, err);
    if (rc == RC_OK)
        rc = tiles__types_parse(tiles, err);
    tiles->options.types = NULL;
    if (rc == RC_OK)
        rc = tiles__types_bind(tiles, err);
    if (rc == RC_OK)
        rc = shards_open(tiles, err);
    if (rc != RC_OK) {
        tiles_close(tiles);
        return rc;
    }
    tiles__guards_add(tiles);
    *ret_tiles = tiles;
    return RC_OK;
}

void tiles_close(struct tiles *tiles)
{
    if (!tiles)
        return;
    tiles__guards_remove(tiles);
    workers_free(tiles->workers);
    persist_free(tiles->persist);
    cache_done(&tiles->cache);
    tiles__scans_end(tiles);
    pool_free(tiles->pool);
    buf_done(&tiles->row);
    mem_free((void *)tiles->options.sqlite_dir);
    mem_free((void *)tiles->options.kv_dir);
    mem_free((void *)tiles->options.data_dir);
    mem_free(tiles);
}

bool tiles_turn(struct tiles *tiles)
{
    if (!tiles->workers)
        return false;
    cache_turn(&tiles->cache);
    bool woken = workers_turn(tiles->workers);
    return persist_turn(tiles->persist) || woken;
}

/* ---- rows and marks ---- */

static enum rc mark_put(struct tile_type *type, const struct tile_suffix *suffix,
                        enum tile_mark_op op, uint64_t bytes, struct err *err)
{
    struct store *store = type->tiles->store;
    struct tile_mark mark = {.op = op, .version = store_lsn(store), .bytes = bytes};
    uint8_t value[TILE_MARK_BYTES_MAX];
    size_t len = tile__mark_put(&mark, value);
    return store_put(store, tile__marks(type), tile__suffix_bytes(suffix), bytes_of(value, len),
                     err);
}

/* Whatever becomes of the commit: a shard is asked once more, a pass finds nothing. */
static void change_note(struct tile_type *type, struct tilekey key)
{
    struct tiles *tiles = type->tiles;
    if (!tiles->persist)
        return;
    cache_forget(&tiles->cache, type, key);
    persist_marked(tiles->persist);
}

enum rc tile__row_put(struct tile_type *type, struct tilekey key, struct bytes row,
                      uint64_t data_bytes, struct err *err)
{
    struct tile_suffix suffix = tile__suffix(type, key);
    change_note(type, key);
    enum rc rc =
        store_put(type->tiles->store, tile__rows(type), tile__suffix_bytes(&suffix), row, err);
    return rc == RC_OK ? mark_put(type, &suffix, TILE_MARK_SET, data_bytes, err) : rc; /* (1) */
}

static enum rc row_delete(struct store *store, struct store_group group, struct bytes suffix,
                          struct err *err)
{
    enum rc rc = store_delete(store, group, suffix, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Without shards nothing has to be told that it is gone. */
enum rc tile__row_del(struct tile_type *type, struct tilekey key, struct err *err)
{
    struct tile_suffix suffix = tile__suffix(type, key);
    struct store *store = type->tiles->store;
    change_note(type, key);
    enum rc rc = row_delete(store, tile__rows(type), tile__suffix_bytes(&suffix), err);
    if (rc != RC_OK)
        return rc;
    if (type->shards == 0)
        return row_delete(store, tile__marks(type), tile__suffix_bytes(&suffix), err);
    return mark_put(type, &suffix, TILE_MARK_DEL, 0, err); /* (1) */
}

enum rc tile__row_find(struct tile_type *type, struct tilekey key, struct bytes *ret_row,
                       bool *ret_gone, struct err *err)
{
    struct tile_suffix suffix = tile__suffix(type, key);
    struct store *store = type->tiles->store;
    struct tile_mark mark;
    struct bytes value;
    *ret_gone = !tile__in_shards(type);
    enum rc rc =
        store_get(store, tile__rows(type), tile__suffix_bytes(&suffix), ret_row, err); /* (2) */
    if (LIKELY(rc == RC_OK) || *ret_gone || (rc != RC_NOT_FOUND && rc != RC_COLD))
        return rc;
    bool cold = rc == RC_COLD;
    rc = store_get(store, tile__marks(type), tile__suffix_bytes(&suffix), &value, err);
    if (rc == RC_NOT_FOUND && cold && tile__keeps_rows(type))
        return RC_COLD; /* a shard may have been set aside since */
    if (rc != RC_OK)    /* without a mark the shards have what a row that was to be cleared has */
        return rc;
    struct err why = {0};
    if (tile__mark_decode(value, &mark, &why) != RC_OK)
        return tile__damaged(type, key, why.text, err);
    if (mark.op == TILE_MARK_SET)
        return cold ? RC_COLD : tile__damaged(type, key, "it is marked, but it is not there", err);
    *ret_gone = true;
    return RC_NOT_FOUND;
}

enum rc tile__find(struct tile_type *type, struct tilekey key, struct bytes *ret_row,
                   struct err *err)
{
    struct cache *cache = &type->tiles->cache;
    struct cache_answer answer;
    bool gone;
    enum rc rc = tile__in_shards(type) ? cache_peek(cache, type, key, &answer) : RC_COLD;
    if (rc == RC_COLD) {
        rc = tile__row_find(type, key, ret_row, &gone, err);
        if (rc != RC_NOT_FOUND || gone)
            return rc;
        rc = cache_find(cache, type, key, false, &answer, err);
    }
    if (rc == RC_OK)
        *ret_row = answer.row;
    return rc;
}

/* ---- tiles ---- */

static enum rc kind_check(const struct tile_type *type, struct err *err)
{
    if (UNLIKELY(type->kind == TILE_META))
        return err_set(err, RC_INVALID, "%s holds sets of metadata: use TILE.META", type->name);
    return RC_OK;
}

enum rc tile_set(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                 const struct tile_value *value, struct err *err)
{
    uint8_t header[TILE_HEADER_BYTES_MAX];
    struct buf *row = &tiles->row;
    enum rc rc = kind_check(type, err);
    if (rc != RC_OK)
        return rc;
    if (value->epoch > TILE_NUMBER_MAX || value->provider > TILE_NUMBER_MAX)
        return err_set(err, RC_INVALID, "epoch and provider are numbers from 0 to %lld",
                       (long long)TILE_NUMBER_MAX);
    if (value->data.len > TILE_DATA_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a tile of %zu bytes is over the limit of %d",
                       value->data.len, TILE_DATA_BYTES_MAX);
    if (UNLIKELY(type->bare) && (value->epoch != 0 || value->provider != 0))
        return err_set(err, RC_INVALID, "type %s is bare: its tiles have no epoch and no provider",
                       type->name);
    buf_shrink(row, TILE_ROW_KEPT_BYTES);
    if (!buf_add(row, header, tile_header_put(value, header)) || !buf_add_bytes(row, value->data))
        return err_set(err, RC_NOMEM, "could not allocate memory for a tile");
    return tile__row_put(type, key, buf_bytes(row), value->data.len, err);
}

static enum rc found_decode(const struct tile_type *type, struct bytes row, struct tilekey key,
                            struct tile_found *ret_found, struct err *err)
{
    ret_found->key = key;
    ret_found->row = row;
    if (UNLIKELY(tile_value_decode(row, &ret_found->value, err) != RC_OK))
        return tile__damaged(type, key, "it has no header", err);
    if (type->bare)
        ret_found->row = ret_found->value.data;
    return RC_OK;
}

enum rc tile_get(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                 struct tile_found *ret_found, struct err *err)
{
    struct bytes row;
    (void)tiles;
    enum rc rc = kind_check(type, err);
    if (rc == RC_OK)
        rc = tile__find(type, key, &row, err);
    return rc == RC_OK ? found_decode(type, row, key, ret_found, err) : rc;
}

enum rc tile_exists(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                    bool *ret_exists, struct err *err)
{
    struct tile_found found;
    enum rc rc = tile_get(tiles, type, key, &found, err);
    *ret_exists = rc == RC_OK;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc tile_del(struct tiles *tiles, struct tile_type *type, struct tilekey key, bool *ret_existed,
                 struct err *err)
{
    enum rc rc = tile_exists(tiles, type, key, ret_existed, err);
    if (rc != RC_OK || !*ret_existed)
        return rc;
    return tile__row_del(type, key, err);
}

enum rc tile_drop(struct tiles *tiles, struct tile_type *type, struct tilekey key, struct err *err)
{
    (void)tiles;
    return tile__row_del(type, key, err);
}

bool tile_row_of(const struct tiles *tiles, struct bytes name, struct bytes text,
                 uint8_t to[TILEKEY_TM_BYTES], struct store_row *ret_row)
{
    const struct tile_type *type = tiles_type(tiles, name);
    struct tilekey key;
    if (!type || tile_key_parse(type, text, &key, NULL) != RC_OK)
        return false;
    size_t len = tilekey_put(key, type->kind == TILE_TM, to);
    *ret_row = (struct store_row){.group = tile__rows(type), .suffix = bytes_of(to, len)};
    return true;
}

/* ---- for people ---- */

void tile_type_stats(const struct tile_type *type, struct tile_stats *ret_stats)
{
    static const char *const names[] = {"none", "sqlite", "kv", "sqlite kv"};
    struct store_group_state marks = store_group_state(type->tiles->store, tile__marks(type));
    *ret_stats = (struct tile_stats){.pending = marks.row_count,
                                     .pending_is_all = !marks.known || marks.complete,
                                     .shards = names[type->shards]};
}

void tiles_stats(const struct tiles *tiles, struct tiles_stats *ret_stats)
{
    *ret_stats = (struct tiles_stats){.cache_bytes = tiles->cache.bytes,
                                      .cache_hits = tiles->cache.hits,
                                      .cache_misses = tiles->cache.misses,
                                      .shard_reads = tiles->cache.reads,
                                      .shard_read_failures = tiles->cache.failures};
    for (size_t i = 0; i < tiles->type_count; i++)
        ret_stats->pending +=
            store_group_state(tiles->store, tile__marks(&tiles->type[i])).row_count;
    if (!tiles->persist)
        return;
    const struct persist_stats *persist = persist_stats(tiles->persist);
    ret_stats->persisted = persist->persisted;
    ret_stats->removed = persist->removed;
    ret_stats->batches = persist->batches;
    ret_stats->failures = persist->failures;
    ret_stats->set_aside = persist->set_aside;
    ret_stats->write_ns = persist->write_ns;
    ret_stats->damaged = persist->damaged;
    ret_stats->damaged_shards = pool_damaged_count(tiles->pool);
    ret_stats->in_flight = persist_in_flight(tiles->persist);
}

bool tiles_damage(const struct tiles *tiles, struct err *ret_err)
{
    return tiles->pool && pool_damage(tiles->pool, ret_err);
}

/* ---- the newest not after a time ---- */

/* In the store. RC_NOT_FOUND. */
static enum rc row_at(struct tile_type *type, struct tilekey key, struct bytes *ret_row,
                      struct tilekey *ret_key, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct tile_suffix suffix = tile__suffix(type, key);
    struct bytes at;
    store_walk_init(&walk, type->tiles->store, tile__rows(type), true);
    enum rc rc = store_walk_seek(&walk, tile__suffix_bytes(&suffix), err);
    if (rc == RC_OK)
        rc = store_walk_next(&walk, &at, ret_row, err);
    if (rc != RC_OK)
        return rc;
    if (!tilekey_get(at, true, ret_key))
        return err_set(err, RC_CORRUPT, "the key of a stored tile is damaged");
    return ret_key->packed == key.packed ? RC_OK : RC_NOT_FOUND;
}

/* In the shards: the newest that no mark hides. */
static enum rc shard_at(struct tile_type *type, struct tilekey key, struct cache_answer *ret_answer,
                        struct err *err)
{
    struct tiles *tiles = type->tiles;
    struct bytes mark;
    for (;;) {
        enum rc rc = cache_find(&tiles->cache, type, key, true, ret_answer, err);
        if (rc != RC_OK)
            return rc;
        struct tile_suffix suffix = tile__suffix(type, ret_answer->key);
        rc = store_get(tiles->store, tile__marks(type), tile__suffix_bytes(&suffix), &mark, err);
        if (rc == RC_NOT_FOUND)
            return RC_OK;
        if (rc != RC_OK)
            return rc;
        if (ret_answer->key.ms == 0)
            return RC_NOT_FOUND;
        key.ms = ret_answer->key.ms - 1;
    }
}

enum rc tile_get_at(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                    struct tile_found *ret_found, struct err *err)
{
    struct cache_answer answer;
    struct tilekey there;
    struct bytes row;
    (void)tiles;
    if (type->kind != TILE_TM)
        return err_set(err, RC_INVALID, "tiles of type %s have no time", type->name);
    enum rc in_store = row_at(type, key, &row, &there, err);
    if (in_store != RC_OK && in_store != RC_NOT_FOUND)
        return in_store;
    if (type->shards == 0 || (in_store == RC_OK && there.ms == key.ms))
        return in_store == RC_OK ? found_decode(type, row, there, ret_found, err) : in_store;
    enum rc rc = shard_at(type, key, &answer, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_OK && (in_store != RC_OK || answer.key.ms > there.ms))
        return found_decode(type, answer.row, answer.key, ret_found, err);
    if (in_store != RC_OK)
        return RC_NOT_FOUND;
    rc = row_at(type, key, &row, &there, err); /* the look at a mark may have moved it */
    return rc == RC_OK ? found_decode(type, row, there, ret_found, err) : rc;
}

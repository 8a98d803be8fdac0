// SPDX-License-Identifier: Apache-2.0
/* tile_mbtiles.c - the tiles of an MBTiles file, a SQLite database.
 *
 * A table is read in the order of its rowids, the fastest way through it. What has none (a view
 * over two tables is usual), and parts of a map, are read level by level in the order of the index
 * that MBTiles has. Positions are "row N" or "z/x/y". */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/tile_source.h"

#include "base/banned.h"

struct mbtiles {
    struct source source;
    sqlite3 *db;
    sqlite3_stmt *walk;
    bool by_row;
    bool seeks;     /* a position was given */
    bool is_part;   /* a row of this level was given: position holds it */
    unsigned level; /* of the walk; by level */
    bool has_level; /* the walk is bound to it */
    int64_t row;    /* the last one */
    int64_t x, y;   /* the last ones */
};

static enum rc sql_error(struct mbtiles *tiles, struct err *err)
{
    return err_set(err, RC_CORRUPT, "\"%s\": %s", sqlite3_db_filename(tiles->db, "main"),
                   sqlite3_errmsg(tiles->db));
}

static enum rc prepare(struct mbtiles *tiles, const char *sql, sqlite3_stmt **ret_stmt,
                       struct err *err)
{
    if (sqlite3_prepare_v2(tiles->db, sql, -1, ret_stmt, NULL) == SQLITE_OK)
        return RC_OK;
    return sql_error(tiles, err);
}

static enum rc number_ask(struct mbtiles *tiles, const char *sql, int64_t *ret_number,
                          struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    enum rc rc = prepare(tiles, sql, &stmt, err);
    if (rc == RC_OK && sqlite3_step(stmt) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(stmt, 0);
    else if (rc == RC_OK)
        rc = sql_error(tiles, err);
    sqlite3_finalize(stmt);
    return rc;
}

/* ---- the walk ---- */

static enum rc walk_prepare(struct mbtiles *tiles, struct err *err)
{
    static const char by_row[] = "SELECT zoom_level, tile_column, tile_row, tile_data, rowid "
                                 "FROM tiles WHERE rowid > ?1 ORDER BY rowid";
    static const char by_level[] =
        "SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles WHERE zoom_level = ?1 "
        "AND tile_column BETWEEN ?2 AND ?3 AND tile_row BETWEEN ?4 AND ?5 "
        "AND (tile_column > ?6 OR (tile_column = ?6 AND tile_row > ?7)) "
        "ORDER BY tile_column, tile_row";
    int64_t is_table = 0; /* a view may have a column rowid as well: NULL in every row */
    enum rc rc = number_ask(tiles,
                            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = "
                            "'tiles' COLLATE NOCASE",
                            &is_table, err);
    if (rc != RC_OK)
        return rc;
    tiles->by_row = is_table && tile_filter_is_all(&tiles->source.filter) &&
                    sqlite3_prepare_v2(tiles->db, by_row, -1, &tiles->walk, NULL) == SQLITE_OK;
    if (!tiles->by_row)
        return prepare(tiles, by_level, &tiles->walk, err);
    sqlite3_bind_int64(tiles->walk, 1, tiles->seeks ? tiles->row : INT64_MIN);
    return RC_OK;
}

/* Rows that no walk by level can meet. */
static enum rc strays_count(struct mbtiles *tiles, struct err *err)
{
    int64_t count = 0;
    if (tiles->by_row || !tile_filter_is_all(&tiles->source.filter))
        return RC_OK;
    enum rc rc =
        number_ask(tiles,
                   "SELECT count(*) FROM tiles WHERE typeof(zoom_level) <> 'integer' OR "
                   "zoom_level NOT BETWEEN 0 AND 24 OR typeof(tile_column) <> 'integer' "
                   "OR typeof(tile_row) <> 'integer' OR tile_column < 0 OR tile_row < 0 OR "
                   "tile_column >= (1 << zoom_level) OR tile_row >= (1 << zoom_level)",
                   &count, err);
    for (int64_t i = 0; i < count && rc == RC_OK; i++)
        source__bad(&tiles->source, "%" PRId64 " rows have no place on the map", count);
    return rc;
}

static void level_bind(struct mbtiles *tiles)
{
    struct tile_span span = tile_filter_span(&tiles->source.filter, tiles->level);
    sqlite3_stmt *walk = tiles->walk;
    sqlite3_reset(walk);
    sqlite3_bind_int64(walk, 1, tiles->level);
    sqlite3_bind_int64(walk, 2, span.x_from);
    sqlite3_bind_int64(walk, 3, span.x_to);
    sqlite3_bind_int64(walk, 4, span.y_from);
    sqlite3_bind_int64(walk, 5, span.y_to);
    sqlite3_bind_int64(walk, 6, tiles->is_part ? tiles->x : -1);
    sqlite3_bind_int64(walk, 7, tiles->is_part ? tiles->y : -1);
    tiles->has_level = true;
}

/* The next row, of the next level that has one. RC_NOT_FOUND: there is none. */
static enum rc row_next(struct mbtiles *tiles, struct err *err)
{
    const struct tile_filter *filter = &tiles->source.filter;
    for (;;) {
        if (!tiles->by_row && tiles->level < filter->level_from)
            tiles->level = filter->level_from;
        if (!tiles->by_row && tiles->level > filter->level_to)
            return RC_NOT_FOUND;
        if (!tiles->by_row && !tiles->has_level)
            level_bind(tiles);
        int rc = sqlite3_step(tiles->walk);
        if (rc == SQLITE_ROW)
            return RC_OK;
        if (rc != SQLITE_DONE)
            return sql_error(tiles, err);
        if (tiles->by_row)
            return RC_NOT_FOUND;
        tiles->level++;
        tiles->is_part = tiles->has_level = false;
    }
}

/* False: it is no tile, and was counted. */
static bool row_read(struct mbtiles *tiles, struct source_tile *ret_tile)
{
    sqlite3_stmt *walk = tiles->walk;
    int64_t number[3];
    for (int i = 0; i < 3; i++) {
        if (sqlite3_column_type(walk, i) != SQLITE_INTEGER) {
            source__bad(&tiles->source, "row %" PRId64 ": %s is no number", tiles->row,
                        sqlite3_column_name(walk, i));
            return false;
        }
        number[i] = sqlite3_column_int64(walk, i);
    }
    int64_t count = number[0] >= 0 && number[0] <= TILE_LEVEL_MAX ? INT64_C(1) << number[0] : 0;
    if (number[1] < 0 || number[1] >= count || number[2] < 0 || number[2] >= count) {
        source__bad(&tiles->source, "there is no place %" PRId64 "/%" PRId64 "/%" PRId64, number[0],
                    number[1], number[2]);
        return false;
    }
    int kind = sqlite3_column_type(walk, 3);
    int len = sqlite3_column_bytes(walk, 3);
    if ((kind != SQLITE_BLOB && kind != SQLITE_TEXT) || len == 0) {
        source__bad(&tiles->source, "%" PRId64 "/%" PRId64 "/%" PRId64 " has no data", number[0],
                    number[1], number[2]);
        return false;
    }
    tiles->x = number[1];
    tiles->y = number[2];
    tiles->is_part = true;
    ret_tile->place =
        (struct tile_xyz){(unsigned)number[0], (uint32_t)number[1], (uint32_t)number[2]};
    ret_tile->data = bytes_of(sqlite3_column_blob(walk, 3), (size_t)len);
    return true;
}

static enum rc mbtiles_next(struct source *source, struct source_tile *ret_tile, struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)source;
    if (!tiles->walk) {
        enum rc rc = walk_prepare(tiles, err);
        if (rc == RC_OK)
            rc = strays_count(tiles, err);
        if (rc != RC_OK)
            return rc;
    }
    for (;;) {
        enum rc rc = row_next(tiles, err);
        if (rc != RC_OK)
            return rc;
        if (tiles->by_row)
            tiles->row = sqlite3_column_int64(tiles->walk, 4);
        if (row_read(tiles, ret_tile))
            return RC_OK;
    }
}

static void mbtiles_position(const struct source *source, char to[SOURCE_POSITION_BYTES])
{
    const struct mbtiles *tiles = (const struct mbtiles *)source;
    if (tiles->by_row)
        snprintf(to, SOURCE_POSITION_BYTES, "row %" PRId64, tiles->row);
    else
        snprintf(to, SOURCE_POSITION_BYTES, "%u/%" PRId64 "/%" PRId64, tiles->level, tiles->x,
                 tiles->y);
}

static enum rc mbtiles_seek(struct source *source, const char *position, struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)source;
    tiles->seeks = true;
    if (sscanf(position, "row %" SCNd64, &tiles->row) == 1)
        return RC_OK;
    tiles->is_part = true;
    if (sscanf(position, "%u/%" SCNd64 "/%" SCNd64, &tiles->level, &tiles->x, &tiles->y) == 3)
        return RC_OK;
    return err_set(err, RC_INVALID, "\"%s\" is no place in an MBTiles file", position);
}

/* ---- the rest ---- */

static enum rc mbtiles_count(struct source *source, uint64_t *ret_count, struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)source;
    const struct tile_filter *filter = &source->filter;
    int64_t all = 0;
    if (tile_filter_is_all(filter)) {
        enum rc rc = number_ask(tiles, "SELECT count(*) FROM tiles", &all, err);
        *ret_count = (uint64_t)all;
        return rc;
    }
    sqlite3_stmt *stmt = NULL;
    enum rc rc = prepare(tiles,
                         "SELECT count(*) FROM tiles WHERE zoom_level = ?1 AND tile_column BETWEEN "
                         "?2 AND ?3 AND tile_row BETWEEN ?4 AND ?5",
                         &stmt, err);
    for (unsigned z = filter->level_from; z <= filter->level_to && rc == RC_OK; z++) {
        struct tile_span span = tile_filter_span(filter, z);
        sqlite3_bind_int64(stmt, 1, z);
        sqlite3_bind_int64(stmt, 2, span.x_from);
        sqlite3_bind_int64(stmt, 3, span.x_to);
        sqlite3_bind_int64(stmt, 4, span.y_from);
        sqlite3_bind_int64(stmt, 5, span.y_to);
        if (sqlite3_step(stmt) != SQLITE_ROW)
            rc = sql_error(tiles, err);
        else
            all += sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    *ret_count = (uint64_t)all;
    return rc;
}

static struct bytes column_bytes(sqlite3_stmt *stmt, int column)
{
    const void *ptr = sqlite3_column_blob(stmt, column);
    return bytes_of(ptr, (size_t)sqlite3_column_bytes(stmt, column));
}

static enum rc mbtiles_metadata(struct source *source,
                                void (*fn)(void *arg, struct bytes name, struct bytes value),
                                void *arg, struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)source;
    sqlite3_stmt *stmt = NULL;
    int64_t exists = 0;
    enum rc rc = number_ask(tiles, "SELECT count(*) FROM sqlite_master WHERE name = 'metadata'",
                            &exists, err);
    if (rc != RC_OK || exists == 0)
        return rc;
    rc = prepare(tiles,
                 "SELECT name, value FROM metadata WHERE name IS NOT NULL AND value IS NOT NULL",
                 &stmt, err);
    if (rc != RC_OK)
        return rc;
    int step;
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW)
        fn(arg, column_bytes(stmt, 0), column_bytes(stmt, 1));
    if (step != SQLITE_DONE)
        rc = sql_error(tiles, err);
    sqlite3_finalize(stmt);
    return rc;
}

static void mbtiles_close(struct source *source)
{
    struct mbtiles *tiles = (struct mbtiles *)source;
    sqlite3_finalize(tiles->walk);
    sqlite3_close(tiles->db);
    mem_free(tiles);
}

static const struct source_ops ops = {
    .next = mbtiles_next,
    .position = mbtiles_position,
    .seek = mbtiles_seek,
    .count = mbtiles_count,
    .metadata = mbtiles_metadata,
    .close = mbtiles_close,
};

enum rc source__mbtiles_open(const char *path, struct source **ret_source, struct err *err)
{
    struct mbtiles *tiles = mem_zalloc(sizeof *tiles);
    int64_t count;
    tiles->source.ops = &ops;
    enum rc rc = RC_OK;
    if (sqlite3_open_v2(path, &tiles->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        rc = err_set(err, RC_IO, "could not open \"%s\": %s", path, sqlite3_errmsg(tiles->db));
    if (rc == RC_OK) { /* nobody knows who made the file */
        sqlite3_db_config(tiles->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_limit(tiles->db, SQLITE_LIMIT_LENGTH, SOURCE_TILE_BYTES_MAX);
        rc = number_ask(tiles,
                        "SELECT count(*) FROM pragma_table_xinfo('tiles') WHERE name IN "
                        "('zoom_level', 'tile_column', 'tile_row', 'tile_data')",
                        &count, err);
    }
    if (rc == RC_OK && count != 4)
        rc = err_set(err, RC_INVALID,
                     "\"%s\" is no MBTiles: it has no table or view \"tiles\" with zoom_level, "
                     "tile_column, tile_row and tile_data",
                     path);
    if (rc != RC_OK) {
        mbtiles_close(&tiles->source);
        return rc;
    }
    *ret_source = &tiles->source;
    return RC_OK;
}

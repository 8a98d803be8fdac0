// SPDX-License-Identifier: Apache-2.0
/* tile_dest.c - both destinations of an export: the MBTiles file and the directory. */
#include "cli/tile_dest.h"

#include <inttypes.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/tile/format.h"

#include "base/banned.h"

static struct files *files_of_disk(void)
{
    return (struct files *)(uintptr_t)&files_real; /* nothing is written to it */
}

void dest_close(struct dest *dest)
{
    if (dest)
        dest->ops->close(dest);
}

/* ---- MBTiles ---- */

struct mbtiles {
    struct dest dest;
    sqlite3 *db;
    sqlite3_stmt *put, *note, *pair;
    const char *path;
    char part[PATH_BYTES_MAX];
};

static enum rc sql_error(struct mbtiles *tiles, struct err *err)
{
    return err_set(err, RC_IO, "could not write \"%s\": %s", tiles->part,
                   sqlite3_errmsg(tiles->db));
}

static enum rc sql_run(struct mbtiles *tiles, const char *sql, struct err *err)
{
    if (sqlite3_exec(tiles->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return RC_OK;
    return sql_error(tiles, err);
}

static enum rc step_end(struct mbtiles *tiles, sqlite3_stmt *stmt, struct err *err)
{
    int rc = sqlite3_step(stmt);
    enum rc result = rc == SQLITE_DONE ? RC_OK : sql_error(tiles, err);
    sqlite3_reset(stmt);
    return result;
}

static enum rc mbtiles_put(struct dest *dest, struct tile_xyz place, struct bytes data,
                           struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)dest;
    sqlite3_bind_int64(tiles->put, 1, place.z);
    sqlite3_bind_int64(tiles->put, 2, place.x);
    sqlite3_bind_int64(tiles->put, 3, place.y);
    sqlite3_bind_blob64(tiles->put, 4, data.ptr, data.len, SQLITE_STATIC);
    return step_end(tiles, tiles->put, err);
}

static enum rc mbtiles_note(struct dest *dest, const char *key, struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)dest;
    sqlite3_bind_text(tiles->note, 1, key, -1, SQLITE_STATIC);
    enum rc rc = step_end(tiles, tiles->note, err);
    return rc == RC_OK ? sql_run(tiles, "COMMIT; BEGIN", err) : rc;
}

static enum rc mbtiles_metadata(struct dest *dest, struct bytes name, struct bytes value,
                                struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)dest;
    sqlite3_bind_text(tiles->pair, 1, (const char *)name.ptr, (int)name.len, SQLITE_STATIC);
    sqlite3_bind_text(tiles->pair, 2, (const char *)value.ptr, (int)value.len, SQLITE_STATIC);
    return step_end(tiles, tiles->pair, err);
}

static void statements_end(struct mbtiles *tiles)
{
    sqlite3_finalize(tiles->put);
    sqlite3_finalize(tiles->note);
    sqlite3_finalize(tiles->pair);
    tiles->put = tiles->note = tiles->pair = NULL;
}

static enum rc mbtiles_finish(struct dest *dest, struct err *err)
{
    struct mbtiles *tiles = (struct mbtiles *)dest;
    statements_end(tiles);
    enum rc rc = sql_run(tiles, "DROP TABLE terrace_export; COMMIT", err);
    if (rc == RC_OK && sqlite3_close(tiles->db) != SQLITE_OK)
        rc = sql_error(tiles, err);
    if (rc != RC_OK)
        return rc;
    tiles->db = NULL;
    return files_rename(files_of_disk(), tiles->part, tiles->path, err);
}

static void mbtiles_close(struct dest *dest)
{
    struct mbtiles *tiles = (struct mbtiles *)dest;
    statements_end(tiles);
    sqlite3_close(tiles->db); /* what was not committed is undone */
    mem_free(tiles);
}

static const struct dest_ops mbtiles_ops = {
    .put = mbtiles_put,
    .note = mbtiles_note,
    .metadata = mbtiles_metadata,
    .finish = mbtiles_finish,
    .close = mbtiles_close,
};

/* Where the part of the same export stopped; false: there is none. */
static bool part_read(struct mbtiles *tiles, const char *identity)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;
    /* Without a key not even one page was written. */
    if (sqlite3_prepare_v2(tiles->db,
                           "SELECT key FROM terrace_export WHERE what = ?1 AND key IS NOT NULL", -1,
                           &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, identity, -1, SQLITE_STATIC);
        found = sqlite3_step(stmt) == SQLITE_ROW;
        if (found)
            snprintf(tiles->dest.after, sizeof tiles->dest.after, "%s",
                     (const char *)sqlite3_column_text(stmt, 0));
    }
    sqlite3_finalize(stmt);
    return found;
}

static enum rc part_make(struct mbtiles *tiles, const char *identity, struct err *err)
{
    sqlite3_close(tiles->db);
    tiles->db = NULL;
    (void)!unlink(tiles->part);
    if (sqlite3_open(tiles->part, &tiles->db) != SQLITE_OK)
        return sql_error(tiles, err);
    enum rc rc = sql_run(tiles,
                         "CREATE TABLE metadata (name TEXT PRIMARY KEY, value TEXT);"
                         "CREATE TABLE tiles (zoom_level INTEGER, tile_column INTEGER, "
                         "tile_row INTEGER, tile_data BLOB);"
                         "CREATE UNIQUE INDEX tile_index ON tiles "
                         "(zoom_level, tile_column, tile_row);"
                         "CREATE TABLE terrace_export (what TEXT, key TEXT)",
                         err);
    sqlite3_stmt *stmt = NULL;
    if (rc == RC_OK && sqlite3_prepare_v2(tiles->db, "INSERT INTO terrace_export VALUES (?1, NULL)",
                                          -1, &stmt, NULL) != SQLITE_OK)
        rc = sql_error(tiles, err);
    if (rc == RC_OK) {
        sqlite3_bind_text(stmt, 1, identity, -1, SQLITE_STATIC);
        rc = step_end(tiles, stmt, err);
    }
    sqlite3_finalize(stmt);
    return rc;
}

static enum rc statements_make(struct mbtiles *tiles, struct err *err)
{
    const struct {
        const char *sql;
        sqlite3_stmt **to;
    } line[] = {{"INSERT OR REPLACE INTO tiles VALUES (?1, ?2, ?3, ?4)", &tiles->put},
                {"UPDATE terrace_export SET key = ?1", &tiles->note},
                {"INSERT OR REPLACE INTO metadata VALUES (?1, ?2)", &tiles->pair}};
    for (size_t i = 0; i < ARRAY_LEN(line); i++)
        if (sqlite3_prepare_v2(tiles->db, line[i].sql, -1, line[i].to, NULL) != SQLITE_OK)
            return sql_error(tiles, err);
    return sql_run(tiles, "BEGIN", err);
}

enum rc dest_mbtiles_open(const char *path, const char *identity, bool again,
                          struct dest **ret_dest, struct err *err)
{
    struct stat stat_of;
    if (stat(path, &stat_of) == 0)
        return err_set(err, RC_BUSY, "\"%s\" exists already", path);
    struct mbtiles *tiles = mem_zalloc(sizeof *tiles);
    tiles->dest.ops = &mbtiles_ops;
    tiles->path = path;
    snprintf(tiles->part, sizeof tiles->part, "%s.part", path);
    enum rc rc = RC_OK;
    bool has_part = !again && stat(tiles->part, &stat_of) == 0 &&
                    sqlite3_open(tiles->part, &tiles->db) == SQLITE_OK;
    tiles->dest.goes_on = has_part && part_read(tiles, identity);
    if (!tiles->dest.goes_on)
        rc = part_make(tiles, identity, err);
    if (rc == RC_OK)
        rc = statements_make(tiles, err);
    if (rc != RC_OK) {
        mbtiles_close(&tiles->dest);
        return rc;
    }
    *ret_dest = &tiles->dest;
    return RC_OK;
}

/* ---- directories ---- */

struct dir {
    struct dest dest;
    const char *path;
    const char *identity;
    enum tile_rows rows;
    struct tile_xyz made; /* the directory of this place exists */
    bool has_made;
    json_t *metadata;
};

static enum rc dir_make(struct dir *dir, struct tile_xyz place, struct err *err)
{
    char path[PATH_BYTES_MAX];
    if (dir->has_made && dir->made.z == place.z && dir->made.x == place.x)
        return RC_OK;
    snprintf(path, sizeof path, "%s/%u", dir->path, place.z);
    enum rc rc = files_make_dir(files_of_disk(), path, err);
    snprintf(path, sizeof path, "%s/%u/%" PRIu32, dir->path, place.z, place.x);
    if (rc == RC_OK)
        rc = files_make_dir(files_of_disk(), path, err);
    dir->made = place;
    dir->has_made = rc == RC_OK;
    return rc;
}

static enum rc dir_put(struct dest *dest, struct tile_xyz place, struct bytes data, struct err *err)
{
    struct dir *dir = (struct dir *)dest;
    CLEANUP(file_closep) struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    uint32_t y = dir->rows == TILE_ROWS_TMS ? place.y : (uint32_t)((1u << place.z) - 1 - place.y);
    enum rc rc = dir_make(dir, place, err);
    if (rc != RC_OK)
        return rc;
    snprintf(path, sizeof path, "%s/%u/%" PRIu32 "/%" PRIu32 ".%s", dir->path, place.z, place.x, y,
             tile_format_of(data)->ext);
    rc = file_open(files_of_disk(), path, FILE_WRITE | FILE_CREATE | FILE_TRUNCATE, &file, err);
    return rc == RC_OK ? file_write(file, 0, data, err) : rc;
}

static void note_path(const struct dir *dir, char to[PATH_BYTES_MAX])
{
    snprintf(to, PATH_BYTES_MAX, "%s/.terrace-export", dir->path);
}

static enum rc dir_note(struct dest *dest, const char *key, struct err *err)
{
    struct dir *dir = (struct dir *)dest;
    char path[PATH_BYTES_MAX], text[1024];
    note_path(dir, path);
    int len = snprintf(text, sizeof text, "%s\n%s\n", dir->identity, key);
    return files_replace(files_of_disk(), path, bytes_of(text, (size_t)len), err);
}

static enum rc dir_metadata(struct dest *dest, struct bytes name, struct bytes value,
                            struct err *err)
{
    struct dir *dir = (struct dir *)dest;
    char text[256];
    (void)err;
    snprintf(text, sizeof text, "%.*s", (int)name.len, (const char *)name.ptr);
    json_object_set_new(dir->metadata, text,
                        json_stringn((const char *)value.ptr, value.len)); /* NULL: no UTF-8 */
    return RC_OK;
}

static enum rc dir_finish(struct dest *dest, struct err *err)
{
    struct dir *dir = (struct dir *)dest;
    char path[PATH_BYTES_MAX];
    enum rc rc = RC_OK;
    char *text = json_dumps(dir->metadata, JSON_INDENT(2));
    snprintf(path, sizeof path, "%s/metadata.json", dir->path);
    if (text && json_object_size(dir->metadata) > 0)
        rc = files_replace(files_of_disk(), path, bytes_of(text, strlen(text)), err);
    free(text);
    note_path(dir, path);
    if (rc == RC_OK)
        rc = files_remove(files_of_disk(), path, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void dir_close(struct dest *dest)
{
    struct dir *dir = (struct dir *)dest;
    json_decref(dir->metadata);
    mem_free(dir);
}

static const struct dest_ops dir_ops = {
    .put = dir_put,
    .note = dir_note,
    .metadata = dir_metadata,
    .finish = dir_finish,
    .close = dir_close,
};

/* Two lines: what was exported, and up to which key. */
static void note_read(struct dir *dir)
{
    CLEANUP(buf_done) struct buf text;
    char path[PATH_BYTES_MAX];
    struct err ignored;
    size_t len = strlen(dir->identity);
    buf_init(&text, 2048);
    note_path(dir, path);
    if (files_read_all(files_of_disk(), path, &text, &ignored) != RC_OK || text.len < len + 2 ||
        memcmp(text.ptr, dir->identity, len) != 0 || text.ptr[len] != '\n' ||
        text.ptr[text.len - 1] != '\n' || text.len - len - 2 >= sizeof dir->dest.after)
        return;
    memcpy(dir->dest.after, text.ptr + len + 1, text.len - len - 2);
    dir->dest.goes_on = true;
}

enum rc dest_dir_open(const char *path, const char *identity, bool again, enum tile_rows rows,
                      struct dest **ret_dest, struct err *err)
{
    if (strlen(path) > PATH_BYTES_MAX / 2)
        return err_set(err, RC_INVALID, "the path is too long");
    enum rc rc = files_make_dir(files_of_disk(), path, err);
    if (rc != RC_OK)
        return rc;
    struct dir *dir = mem_zalloc(sizeof *dir);
    dir->dest.ops = &dir_ops;
    dir->path = path;
    dir->identity = identity;
    dir->rows = rows;
    dir->metadata = json_object();
    if (!again)
        note_read(dir);
    *ret_dest = &dir->dest;
    return RC_OK;
}

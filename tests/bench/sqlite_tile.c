// SPDX-License-Identifier: Apache-2.0
/* sqlite_tile.c - what SQLite does alone with the tiles that tools/bench_tile.py gives a server.
 *
 *   sqlite_tile loop FILE COUNT          upserts, 1000 a transaction, synchronous=FULL, one
 * connection sqlite_tile select FILE COUNT SECONDS   random tiles of such a file, one prepared
 * SELECT sqlite_tile make FILE COUNT          an MBTiles file with level-9 tiles of 2 to 4 KiB
 *   sqlite_tile copy MBTILES FILE        INSERT ... SELECT of all of them into one shard
 *   sqlite_tile shards DIR COUNT         shards with COUNT tiles of level 12 and 16 bytes, for
 * ranges
 *
 * Keys and sizes are those of load_server.c with prefix=0123 digits=8. Prints: ops N seconds S rate
 * R.
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { TRANSACTION = 1000, VALUE_BYTES_MAX = 8192 };

static char value[VALUE_BYTES_MAX];

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void check(int rc, sqlite3 *db, const char *what)
{
    if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW)
        return;
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static void run(sqlite3 *db, const char *sql)
{
    check(sqlite3_exec(db, sql, NULL, NULL, NULL), db, sql);
}

static void packed_put(uint64_t digits, int count, uint64_t prefix, uint8_t to[8])
{
    uint64_t packed = prefix;
    int level = (prefix ? 4 : 0) + count;
    packed |= digits << (64 - 2 * level);
    packed |= (uint64_t)level;
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(packed >> (56 - 8 * i));
}

/* "0123" and eight digits. */
static void key_put(uint64_t n, uint8_t to[8])
{
    packed_put((n * 2654435761u) & 0xffff, 8, UINT64_C(0x1b) << 56, to);
}

static sqlite3 *shard_open(const char *path)
{
    sqlite3 *db;
    check(sqlite3_open(path, &db), db, path);
    run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE IF NOT EXISTS imagery (tile_id BLOB PRIMARY KEY, epoch INTEGER NOT NULL "
            "DEFAULT 0, provider_id INTEGER NULL, data BLOB NOT NULL)");
    return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt;
    check(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), db, sql);
    return stmt;
}

static uint64_t loop(const char *path, uint64_t count)
{
    sqlite3 *db = shard_open(path);
    sqlite3_stmt *put = prepare(
        db, "INSERT INTO imagery VALUES (?1, 0, NULL, ?2) ON CONFLICT(tile_id) DO UPDATE "
            "SET epoch = excluded.epoch, provider_id = excluded.provider_id, data = excluded.data");
    for (uint64_t n = 0; n < count; n++) {
        uint8_t key[8];
        key_put(n, key);
        memcpy(value, &n, sizeof n);
        if (n % TRANSACTION == 0)
            run(db, "BEGIN");
        sqlite3_bind_blob(put, 1, key, sizeof key, SQLITE_STATIC);
        sqlite3_bind_blob(put, 2, value, (int)(2048 + mix(n) % 2049), SQLITE_STATIC);
        check(sqlite3_step(put), db, "upsert");
        sqlite3_reset(put);
        if (n % TRANSACTION == TRANSACTION - 1 || n + 1 == count)
            run(db, "COMMIT");
    }
    sqlite3_finalize(put);
    sqlite3_close(db);
    return count;
}

static uint64_t look(const char *path, uint64_t count, double seconds)
{
    sqlite3 *db = shard_open(path);
    sqlite3_stmt *get =
        prepare(db, "SELECT epoch, provider_id, data FROM imagery WHERE tile_id = ?1");
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), ops = 0, missing = 0;
    while (now_ns() < end) {
        uint8_t key[8];
        key_put(mix(ops) % count, key);
        sqlite3_bind_blob(get, 1, key, sizeof key, SQLITE_STATIC);
        if (sqlite3_step(get) == SQLITE_ROW)
            memcpy(value, sqlite3_column_blob(get, 2), (size_t)sqlite3_column_bytes(get, 2));
        else
            missing++;
        sqlite3_reset(get);
        ops++;
    }
    sqlite3_finalize(get);
    sqlite3_close(db);
    if (missing > 0)
        fprintf(stderr, "%llu are missing\n", (unsigned long long)missing);
    return ops;
}

/* Level 9: the tiles below "0123", 1024 of them in each of 64 rows of columns; one shard. */
static uint64_t make(const char *path, uint64_t count)
{
    sqlite3 *db;
    check(sqlite3_open(path, &db), db, path);
    run(db,
        "PRAGMA synchronous=OFF; CREATE TABLE metadata (name TEXT, value TEXT); CREATE TABLE tiles "
        "(zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_data BLOB); BEGIN");
    sqlite3_stmt *put = prepare(db, "INSERT INTO tiles VALUES (12, ?1, ?2, ?3)");
    /* "0123": column 0b0110, row (from the south) 0b0011 of level 4 */
    for (uint64_t n = 0; n < count; n++) {
        memcpy(value, &n, sizeof n);
        sqlite3_bind_int64(put, 1, (6 << 8) + (sqlite3_int64)(n >> 8 & 255));
        sqlite3_bind_int64(put, 2, (3 << 8) + (sqlite3_int64)(n & 255));
        sqlite3_bind_blob(put, 3, value, (int)(2048 + mix(n) % 2049), SQLITE_STATIC);
        check(sqlite3_step(put), db, "insert");
        sqlite3_reset(put);
    }
    sqlite3_finalize(put);
    run(db, "COMMIT; CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row)");
    sqlite3_close(db);
    return count;
}

static void tile_id(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    uint64_t z = (uint64_t)sqlite3_value_int64(argv[0]), x = (uint64_t)sqlite3_value_int64(argv[1]),
             y = (uint64_t)sqlite3_value_int64(argv[2]), packed = z;
    uint8_t key[8];
    (void)argc;
    for (uint64_t j = 0; j < z; j++) {
        uint64_t right = x >> (z - 1 - j) & 1, up = y >> (z - 1 - j) & 1;
        packed |= (up ? 3 - right : right) << (62 - 2 * j);
    }
    for (int i = 0; i < 8; i++)
        key[i] = (uint8_t)(packed >> (56 - 8 * i));
    sqlite3_result_blob(context, key, sizeof key, SQLITE_TRANSIENT);
}

static uint64_t copy(const char *from, const char *path)
{
    sqlite3 *db = shard_open(path);
    sqlite3_stmt *attach = prepare(db, "ATTACH ?1 AS source");
    sqlite3_bind_text(attach, 1, from, -1, SQLITE_STATIC);
    check(sqlite3_step(attach), db, "attach");
    sqlite3_finalize(attach);
    sqlite3_create_function(db, "tile_id", 3, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, tile_id,
                            NULL, NULL);
    run(db,
        "INSERT INTO imagery SELECT tile_id(zoom_level, tile_column, tile_row), 0, NULL, tile_data "
        "FROM source.tiles");
    uint64_t count = (uint64_t)sqlite3_changes64(db);
    sqlite3_close(db);
    return count;
}

/* Level 12 in the order of keys: a file for each first four digits. */
static uint64_t shards(const char *dir, uint64_t count)
{
    char path[4096];
    uint64_t each = count / 256, made = 0;
    snprintf(path, sizeof path, "%s/imagery", dir);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/imagery/8", dir);
    mkdir(path, 0777);
    for (uint64_t p4 = 0; p4 < 256; p4++) {
        snprintf(path, sizeof path, "%s/imagery/8/%d%d%d%d.g3db", dir, (int)(p4 >> 6 & 3),
                 (int)(p4 >> 4 & 3), (int)(p4 >> 2 & 3), (int)(p4 & 3));
        sqlite3 *db = shard_open(path);
        run(db, "PRAGMA synchronous=OFF; BEGIN");
        sqlite3_stmt *put = prepare(db, "INSERT INTO imagery VALUES (?1, 0, NULL, ?2)");
        for (uint64_t n = 0; n < each && n < 65536; n++, made++) {
            uint8_t key[8];
            packed_put(p4 << 16 | n, 12, 0, key);
            sqlite3_bind_blob(put, 1, key, sizeof key, SQLITE_STATIC);
            sqlite3_bind_blob(put, 2, value, 16, SQLITE_STATIC);
            check(sqlite3_step(put), db, "insert");
            sqlite3_reset(put);
        }
        sqlite3_finalize(put);
        run(db, "COMMIT");
        sqlite3_close(db);
    }
    return made;
}

int main(int argc, char **argv)
{
    uint64_t begin = now_ns(), ops = 0;
    const char *mode = argc > 3 ? argv[1] : "";
    for (size_t i = 0; i < sizeof value; i++) /* half of it compresses */
        value[i] = i % 2 ? 'x' : (char)('a' + mix(i) % 26);
    if (strcmp(mode, "loop") == 0)
        ops = loop(argv[2], strtoull(argv[3], NULL, 10));
    else if (strcmp(mode, "select") == 0 && argc > 4)
        ops = look(argv[2], strtoull(argv[3], NULL, 10), strtod(argv[4], NULL));
    else if (strcmp(mode, "make") == 0)
        ops = make(argv[2], strtoull(argv[3], NULL, 10));
    else if (strcmp(mode, "copy") == 0)
        ops = copy(argv[2], argv[3]);
    else if (strcmp(mode, "shards") == 0)
        ops = shards(argv[2], strtoull(argv[3], NULL, 10));
    else
        return fprintf(stderr, "usage: sqlite_tile loop|select|make|copy|shards ...\n"), 2;
    double seconds = (double)(now_ns() - begin) / 1e9;
    printf("ops %llu seconds %.3f rate %.0f\n", (unsigned long long)ops, seconds,
           (double)ops / seconds);
    return 0;
}

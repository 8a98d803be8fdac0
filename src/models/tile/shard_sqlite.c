// SPDX-License-Identifier: Apache-2.0
/* shard_sqlite.c - shards as SQLite files.
 *
 *   <type>   tile_id BLOB PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 0, provider_id INTEGER NULL,
 *            data BLOB NOT NULL
 *   tm       tile_id BLOB, t INTEGER (ms), epoch, provider_id, data; PRIMARY KEY(tile_id, t), and
 *            an index on t
 *   q2, qp   tile_id BLOB PRIMARY KEY, level, prefix4, data, status; indexes on the three numbers;
 *            view tasks(tile_id, level, prefix4, status_code)
 * tile_id is the packed key, 8 bytes. There is no header in these columns. The mark of the format:
 * application_id "TTil", user_version 1. A file without it is taken if its table has our columns.
 *
 * Invariants:
 *   (1) WAL mode, synchronous=FULL: what COMMIT has acknowledged is on disk.
 *   (2) One thread at a time uses the connection: lock.
 *   (3) What apply() has acknowledged is in the file itself, synced, and the WAL is empty: a wrong
 *       byte in a WAL loses nothing but what is still in the store.
 *   (4) A WAL that is left is looked through before SQLite reads it, and a file whose WAL has lost
 *       its last commit is believed only if it is whole itself. */
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/mem.h"
#include "models/tile/magic.h"
#include "models/tile/shard.h"
#include "models/tile/wal_check.h"

#include "base/banned.h"

enum {
    APPLICATION_ID = 0x5454696c, /* "TTil" */
    FORMAT = 1,
    BUSY_MS = 1000,
    CHECKPOINT_BUSY_MS = 2000, /* readers of the old state are waited for */
    SQL_BYTES = 640,
    ROW_BYTES_MAX = TILE_DATA_BYTES_MAX + 4096,
};

enum statement { SQL_PUT, SQL_DEL, SQL_GET, SQL_AT, SQL_BEGIN, SQL_COMMIT, SQL_COUNT_ };

struct sqlite_shard {
    struct shard shard;
    pthread_mutex_t lock; /* (2) */
    sqlite3 *db;
    sqlite3_stmt *stmt[SQL_COUNT_]; /* prepared when first used */
    uint8_t id[2][TILEKEY_BYTES];   /* that are bound */
    bool empty;                     /* a reader's: the table is not there yet */
    int64_t page_bytes;
    _Atomic uint64_t file_bytes; /* shared: of the file when it was looked at last */
};

/* ---- errors ---- */

static enum rc rc_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return RC_CORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return RC_BUSY;
    case SQLITE_FULL:
        return RC_FULL;
    case SQLITE_NOMEM:
        return RC_NOMEM;
    default:
        return RC_IO;
    }
}

static enum rc sql_error(sqlite3 *db, struct err *err)
{
    const char *path = sqlite3_db_filename(db, "main");
    return err_set(err, rc_of(sqlite3_errcode(db)), "shard \"%s\": %s", path ? path : "",
                   sqlite3_errmsg(db));
}

static enum rc sql_exec(sqlite3 *db, const char *sql, struct err *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? RC_OK : sql_error(db, err);
}

static enum rc sql_number(sqlite3 *db, const char *sql, int64_t *ret_number, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(stmt, 0);
    enum rc rc = code == SQLITE_ROW ? RC_OK : sql_error(db, err);
    sqlite3_finalize(stmt);
    return rc;
}

/* What SQLite does not take for a database may be another program's file, and is no damage then.
 * Through SQLite alone: a descriptor of our own would, when it is closed, take the locks of all
 * handles of the file away. */
static enum rc foreign_check(sqlite3 *db, const char *path, struct err *err)
{
    uint8_t head[MAGIC_BYTES] = {0};
    sqlite3_file *file = NULL;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file ||
        !file->pMethods)
        return RC_OK;
    int code = file->pMethods->xRead(file, head, sizeof head, 0);
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ)
        return RC_OK;
    const char *foreign = magic_foreign(bytes_of(head, sizeof head), "SQLite");
    return foreign ? shard_foreign(path, foreign, "SQLite", err) : RC_OK;
}

/* ---- the schema ---- */

static const char *const columns[][6] = {
    [TILE_PLAIN] = {"tile_id", "epoch", "provider_id", "data", NULL},
    [TILE_TM] = {"tile_id", "t", "epoch", "provider_id", "data", NULL},
    [TILE_META] = {"tile_id", "level", "prefix4", "data", "status", NULL},
};

static const char *const schemas[] = {
    [TILE_PLAIN] =
        "CREATE TABLE IF NOT EXISTS \"%s\"(tile_id BLOB PRIMARY KEY, epoch INTEGER NOT NULL "
        "DEFAULT 0, provider_id INTEGER NULL, data BLOB NOT NULL);",
    [TILE_TM] =
        "CREATE TABLE IF NOT EXISTS \"%s\"(tile_id BLOB NOT NULL, t INTEGER NOT NULL, epoch "
        "INTEGER NOT NULL DEFAULT 0, provider_id INTEGER NULL, data BLOB NOT NULL, PRIMARY "
        "KEY(tile_id, t)); CREATE INDEX IF NOT EXISTS idx_t ON \"%s\"(t);",
    [TILE_META] =
        "CREATE TABLE IF NOT EXISTS \"%s\"(tile_id BLOB PRIMARY KEY, level INTEGER NOT NULL "
        "CHECK(level %% 4 = 0), prefix4 INTEGER NOT NULL, data BLOB NOT NULL, status "
        "INTEGER NOT NULL DEFAULT 0); CREATE INDEX IF NOT EXISTS idx_status ON "
        "\"%s\"(status); CREATE INDEX IF NOT EXISTS idx_level ON \"%s\"(level); CREATE INDEX IF "
        "NOT EXISTS idx_prefix4 ON \"%s\"(prefix4); CREATE VIEW IF NOT EXISTS tasks AS SELECT "
        "tile_id, level, prefix4, status AS status_code FROM \"%s\";",
};

/* Each %s is the name of the table, without a quote in it: type_name_check(). */
static void sql_print(char to[SQL_BYTES], const char *format, const char *table)
{
    int len = snprintf(to, SQL_BYTES, format, table, table, table, table, table);
    ASSERT(len > 0 && len < SQL_BYTES);
}

static enum rc schema_check(const struct sqlite_shard *shard, bool *ret_there, struct err *err)
{
    const struct shard_table *table = &shard->shard.table;
    char sql[SQL_BYTES];
    int64_t found = 0, wanted = 0, tables;
    sql_print(sql, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '%s'",
              table->name);
    enum rc rc = sql_number(shard->db, sql, &tables, err);
    if (rc != RC_OK)
        return rc;
    *ret_there = tables > 0;
    if (tables == 0)
        return RC_OK;
    for (const char *const *name = columns[table->kind]; *name && rc == RC_OK; name++) {
        int64_t one;
        snprintf(sql, sizeof sql, "SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s'",
                 table->name, *name);
        rc = sql_number(shard->db, sql, &one, err);
        found += rc == RC_OK ? one : 0;
        wanted++;
    }
    if (rc == RC_OK && found != wanted)
        return err_set(err, RC_VERSION, "shard \"%s\": table %s has other columns than ours",
                       sqlite3_db_filename(shard->db, "main"), table->name);
    return rc;
}

static enum rc format_look(const struct sqlite_shard *shard, bool *ret_marked, bool *ret_there,
                           struct err *err)
{
    const char *path = sqlite3_db_filename(shard->db, "main");
    int64_t application = 0, version = 0, tables = 0;
    enum rc rc = sql_number(shard->db, "PRAGMA application_id", &application, err);
    if (rc == RC_OK)
        rc = sql_number(shard->db, "PRAGMA user_version", &version, err);
    if (rc == RC_OK)
        rc = schema_check(shard, ret_there, err);
    if (rc != RC_OK)
        return rc;
    *ret_marked = application == APPLICATION_ID;
    if (*ret_marked && version == FORMAT)
        return RC_OK;
    if (*ret_marked)
        return err_set(err, RC_VERSION, "shard \"%s\" has the unknown format %lld", path,
                       (long long)version);
    if (application != 0)
        return err_set(err, RC_VERSION,
                       "shard \"%s\" belongs to another program: application_id %lld", path,
                       (long long)application);
    rc = sql_number(shard->db, "SELECT count(*) FROM sqlite_master", &tables, err);
    if (rc == RC_OK && !*ret_there && tables > 0)
        return err_set(err, RC_VERSION, "shard \"%s\" has no table %s, but others", path,
                       shard->shard.table.name);
    return rc;
}

/* ---- a file that is whole ---- */

/* A file that was cut: SQLite fills the last page with zeros, and where another handle is open it
 * does not look at the size at all. Inside a transaction: where the WAL is empty then, nobody
 * brings pages from it into the file meanwhile. */
static enum rc size_check(struct sqlite_shard *shard, struct err *err)
{
    const char *path = sqlite3_db_filename(shard->db, "main");
    struct shard_file file = {0}, wal = {0};
    int64_t pages = 0;
    enum rc rc = sql_number(shard->db, "PRAGMA page_size", &shard->page_bytes, err);
    if (rc == RC_OK)
        rc = sql_number(shard->db, "PRAGMA page_count", &pages, err);
    if (rc != RC_OK || shard->page_bytes <= 0)
        return rc;
    (void)shard_file_look(sqlite3_filename_wal(path), &wal);
    if (!shard_file_look(path, &file) || wal.bytes > 0)
        return RC_OK;
    shard->file_bytes = file.bytes;
    if (file.bytes % (uint64_t)shard->page_bytes == 0 &&
        file.bytes / (uint64_t)shard->page_bytes >= (uint64_t)pages)
        return RC_OK;
    return err_set(err, RC_CORRUPT,
                   "shard \"%s\" is cut: it has %llu bytes, not %lld pages of %lld", path,
                   (unsigned long long)file.bytes, (long long)pages, (long long)shard->page_bytes);
}

static int integrity_row(void *arg, int count, char **text, char **names)
{
    (void)names;
    if (count > 0 && text[0] && strcmp(text[0], "ok") == 0)
        *(bool *)arg = true;
    return 0;
}

/* (3). RC_BUSY: somebody reads, or writes, an earlier state. */
static enum rc wal_empty(sqlite3 *db, struct err *err)
{
    (void)sqlite3_busy_timeout(db, CHECKPOINT_BUSY_MS);
    int code = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    return code == SQLITE_OK ? RC_OK : sql_error(db, err);
}

/* (4), before the first look into the file. */
static enum rc wal_look(const char *path, enum wal_state *ret_state, struct err *err)
{
    CLEANUP(buf_done) struct buf wal;
    buf_init(&wal, PATH_BYTES_MAX + 16);
    if (!buf_printf(&wal, "%s-wal", path) || !buf_add(&wal, "", 1))
        return err_set(err, RC_INVALID, "the directory of shards has too long a name");
    enum rc rc = wal_check((const char *)wal.ptr, ret_state, err);
    if (rc == RC_OK && *ret_state == WAL_DAMAGED)
        return err_set(err, RC_CORRUPT, "shard \"%s\" is damaged: its \"-wal\" has lost commits",
                       path);
    return rc;
}

/* The part of a torn commit that is in the file already must not have made it another one. */
static enum rc torn_check(struct sqlite_shard *shard, struct err *err)
{
    bool ok = false;
    if (sqlite3_exec(shard->db, "PRAGMA integrity_check(1)", integrity_row, &ok, NULL) != SQLITE_OK)
        return sql_error(shard->db, err);
    if (!ok)
        return err_set(err, RC_CORRUPT,
                       "shard \"%s\" is damaged: its last commit is in it in parts",
                       sqlite3_db_filename(shard->db, "main"));
    struct err ignored = {0};
    (void)wal_empty(shard->db, &ignored); /* so that it is not checked again */
    return RC_OK;
}

/* Of one moment: somebody may be making the file. */
static enum rc format_check(struct sqlite_shard *shard, bool *ret_marked, bool *ret_there,
                            struct err *err)
{
    enum rc rc = sql_exec(shard->db, "BEGIN", err);
    if (rc == RC_OK)
        rc = format_look(shard, ret_marked, ret_there, err);
    if (rc == RC_OK)
        rc = size_check(shard, err);
    if (!sqlite3_get_autocommit(shard->db))
        (void)sqlite3_exec(shard->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* (1). Of new files the pages have 16 KiB: with SQLite's 4 KiB there is one tile of 2 to 4 KiB in
 * each, and larger ones are chains of pages; writing them took half as much CPU again. */
static enum rc writer_prepare(struct sqlite_shard *shard, struct err *err)
{
    char sql[SQL_BYTES], schema[2 * SQL_BYTES];
    bool marked, there;
    enum rc rc = sql_exec(shard->db,
                          "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; "
                          "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0",
                          err);
    if (rc == RC_OK)
        rc = format_check(shard, &marked, &there, err);
    if (rc != RC_OK || (marked && there))
        return rc;
    sql_print(sql, schemas[shard->shard.table.kind], shard->shard.table.name);
    snprintf(schema, sizeof schema,
             "BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
             sql, APPLICATION_ID, FORMAT);
    rc = sql_exec(shard->db, schema, err);
    if (rc != RC_OK && !sqlite3_get_autocommit(shard->db))
        (void)sqlite3_exec(shard->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

static enum rc reader_prepare(struct sqlite_shard *shard, struct err *err)
{
    bool marked, there;
    enum rc rc = format_check(shard, &marked, &there, err);
    shard->empty = rc == RC_OK && !there;
    return rc;
}

/* ---- life ---- */

static void sqlite_close(struct shard *base)
{
    struct sqlite_shard *shard = (struct sqlite_shard *)base;
    if (!shard)
        return;
    for (int i = 0; i < SQL_COUNT_; i++)
        sqlite3_finalize(shard->stmt[i]);
    (void)sqlite3_close(shard->db);
    pthread_mutex_destroy(&shard->lock);
    mem_free(shard);
}

/* An empty file has no tiles, one that cannot be looked at may have some. */
static enum rc file_look(const char *path, struct err *err)
{
    struct stat stat_of;
    if (stat(path, &stat_of) == 0)
        return stat_of.st_size > 0 ? RC_OK : RC_NOT_FOUND;
    if (errno == ENOENT)
        return RC_NOT_FOUND;
    return err_set(err, RC_IO, "shard \"%s\": %s", path, strerror(errno));
}

static enum rc handle_open(struct sqlite_shard *shard, const char *path, enum shard_open how,
                           struct err *err)
{
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (how == SHARD_WRITE ? SQLITE_OPEN_CREATE : 0);
    if (sqlite3_open_v2(path, &shard->db, flags, NULL) != SQLITE_OK)
        return err_set(err, rc_of(sqlite3_errcode(shard->db)), "shard \"%s\": %s", path,
                       sqlite3_errmsg(shard->db));
    (void)sqlite3_busy_timeout(shard->db, BUSY_MS);
    (void)sqlite3_extended_result_codes(shard->db, 1);
    /* The file may come from anywhere: its schema runs no functions, no row fills the memory. */
    (void)sqlite3_db_config(shard->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_limit(shard->db, SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX);
    return RC_OK;
}

static enum rc sqlite_open(const char *path, const struct shard_table *table, enum shard_open how,
                           const struct shard_seen *seen, struct shard **ret_shard, struct err *err)
{
    (void)seen;
    enum wal_state wal = WAL_EMPTY;
    enum rc rc = how == SHARD_READ ? file_look(path, err) : RC_OK;
    if (rc == RC_OK)
        rc = wal_look(path, &wal, err);
    if (rc != RC_OK)
        return rc;
    struct sqlite_shard *shard = mem_zalloc(sizeof *shard);
    shard->shard = (struct shard){.ops = &shard_sqlite_ops, .table = *table};
    pthread_mutex_init(&shard->lock, NULL);
    rc = handle_open(shard, path, how, err);
    if (rc == RC_OK && wal == WAL_TORN)
        rc = torn_check(shard, err);
    if (rc == RC_OK)
        rc = how == SHARD_WRITE ? writer_prepare(shard, err) : reader_prepare(shard, err);
    if (rc == RC_OK && shard->empty)
        rc = RC_NOT_FOUND;
    if (rc == RC_CORRUPT && foreign_check(shard->db, path, err) != RC_OK)
        rc = RC_VERSION;
    if (rc != RC_OK) {
        sqlite_close(&shard->shard);
        return rc;
    }
    *ret_shard = &shard->shard;
    return RC_OK;
}

/* A file that has become shorter is opened anew, which says whether it was cut. */
static enum rc sqlite_look(struct shard *base, enum shard_open how, const struct shard_file *now,
                           struct err *err)
{
    struct sqlite_shard *shard = (struct sqlite_shard *)base;
    (void)how;
    uint64_t before = atomic_exchange(&shard->file_bytes, now->bytes);
    if (LIKELY(now->bytes >= before && now->bytes % (uint64_t)shard->page_bytes == 0))
        return RC_OK;
    base->broken = true;
    return err_set(err, RC_CORRUPT, "shard \"%s\" is shorter than it was",
                   sqlite3_db_filename(shard->db, "main"));
}

/* ---- statements ---- */

static const char *const statements[][SQL_COUNT_] = {
    [TILE_PLAIN] =
        {
            [SQL_PUT] =
                "INSERT INTO \"%s\"(tile_id, epoch, provider_id, data) VALUES(?1, ?3, ?4, ?5) "
                "ON CONFLICT(tile_id) DO UPDATE SET epoch = excluded.epoch, provider_id = "
                "excluded.provider_id, data = excluded.data",
            [SQL_DEL] = "DELETE FROM \"%s\" WHERE tile_id = ?1",
            [SQL_GET] = "SELECT data, epoch, provider_id, 0 FROM \"%s\" WHERE tile_id = ?1",
        },
    [TILE_TM] =
        {
            [SQL_PUT] =
                "INSERT INTO \"%s\"(tile_id, t, epoch, provider_id, data) VALUES(?1, ?2, ?3, "
                "?4, ?5) ON CONFLICT(tile_id, t) DO UPDATE SET epoch = excluded.epoch, "
                "provider_id = excluded.provider_id, data = excluded.data",
            [SQL_DEL] = "DELETE FROM \"%s\" WHERE tile_id = ?1 AND t = ?2",
            [SQL_GET] =
                "SELECT data, epoch, provider_id, t FROM \"%s\" WHERE tile_id = ?1 AND t = ?2",
            [SQL_AT] =
                "SELECT data, epoch, provider_id, t FROM \"%s\" WHERE tile_id = ?1 AND t BETWEEN "
                "0 AND ?2 ORDER BY t DESC LIMIT 1",
        },
    [TILE_META] =
        {
            [SQL_PUT] =
                "INSERT INTO \"%s\"(tile_id, level, prefix4, data, status) VALUES(?1, ?3, ?4, "
                "?5, ?6) ON CONFLICT(tile_id) DO UPDATE SET data = excluded.data, status = "
                "excluded.status",
            [SQL_DEL] = "DELETE FROM \"%s\" WHERE tile_id = ?1",
            [SQL_GET] = "SELECT data, status, 0, 0 FROM \"%s\" WHERE tile_id = ?1",
        },
};

static enum rc stmt_get(struct sqlite_shard *shard, enum statement which, sqlite3_stmt **ret_stmt,
                        struct err *err)
{
    if (!shard->stmt[which]) {
        char sql[SQL_BYTES];
        const char *text = which == SQL_BEGIN    ? "BEGIN IMMEDIATE"
                           : which == SQL_COMMIT ? "COMMIT"
                                                 : statements[shard->shard.table.kind][which];
        sql_print(sql, text, shard->shard.table.name);
        if (sqlite3_prepare_v3(shard->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &shard->stmt[which],
                               NULL) != SQLITE_OK)
            return sql_error(shard->db, err);
    }
    *ret_stmt = shard->stmt[which];
    return RC_OK;
}

static enum rc stmt_run(struct sqlite_shard *shard, sqlite3_stmt *stmt, struct err *err)
{
    int code = sqlite3_step(stmt);
    enum rc rc = code == SQLITE_DONE ? RC_OK : sql_error(shard->db, err);
    (void)sqlite3_reset(stmt);
    return rc;
}

static enum rc run(struct sqlite_shard *shard, enum statement which, struct err *err)
{
    sqlite3_stmt *stmt;
    enum rc rc = stmt_get(shard, which, &stmt, err);
    return rc == RC_OK ? stmt_run(shard, stmt, err) : rc;
}

/* At 1 or 2. Nothing is allocated, so it cannot fail: a key that is not bound would be NULL, and a
 * row with it a tile that is lost. */
static void id_bind(struct sqlite_shard *shard, sqlite3_stmt *stmt, int at, uint64_t packed)
{
    uint8_t *id = shard->id[at - 1];
    be64_put(id, packed);
    int code = sqlite3_bind_blob(stmt, at, id, TILEKEY_BYTES, SQLITE_STATIC);
    ASSERT(code == SQLITE_OK);
}

/* ---- writing ---- */

static void row_bind(sqlite3_stmt *stmt, enum tile_kind kind, const struct shard_change *change)
{
    const struct tile_value *value = &change->value;
    if (kind == TILE_META) {
        (void)sqlite3_bind_int(stmt, 3, (int)tilekey_level(change->key.packed));
        (void)sqlite3_bind_int(stmt, 4, tilekey_prefix4(change->key.packed));
        (void)sqlite3_bind_int(stmt, 6, change->status);
    } else {
        (void)sqlite3_bind_int64(stmt, 3, (int64_t)value->epoch);
        if (value->provider != 0)
            (void)sqlite3_bind_int64(stmt, 4, (int64_t)value->provider);
        else
            (void)sqlite3_bind_null(stmt, 4);
    }
    if (value->data.len > 0)
        (void)sqlite3_bind_blob64(stmt, 5, value->data.ptr, value->data.len, SQLITE_STATIC);
    else
        (void)sqlite3_bind_zeroblob(stmt, 5, 0);
}

static enum rc change_apply(struct sqlite_shard *shard, const struct shard_change *change,
                            struct err *err)
{
    enum tile_kind kind = shard->shard.table.kind;
    sqlite3_stmt *stmt;
    enum rc rc = stmt_get(shard, change->removed ? SQL_DEL : SQL_PUT, &stmt, err);
    if (rc != RC_OK)
        return rc;
    id_bind(shard, stmt, 1, change->key.packed);
    if (kind == TILE_TM)
        (void)sqlite3_bind_int64(stmt, 2, (int64_t)change->key.ms);
    if (!change->removed)
        row_bind(stmt, kind, change);
    rc = stmt_run(shard, stmt, err);
    (void)sqlite3_clear_bindings(stmt); /* the data is borrowed */
    return rc;
}

static enum rc sqlite_apply(struct shard *base, const struct shard_change *const *change,
                            size_t count, struct err *err)
{
    struct sqlite_shard *shard = (struct sqlite_shard *)base;
    pthread_mutex_lock(&shard->lock);
    enum rc rc = wal_empty(shard->db, err); /* what waits in it does not grow: (3) */
    if (rc == RC_OK)
        rc = run(shard, SQL_BEGIN, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = change_apply(shard, change[i], err);
    if (rc == RC_OK)
        rc = run(shard, SQL_COMMIT, err);
    if (rc != RC_OK && !sqlite3_get_autocommit(shard->db))
        (void)sqlite3_exec(shard->db, "ROLLBACK", NULL, NULL, NULL);
    if (rc == RC_OK)
        rc = wal_empty(shard->db, err); /* (3) */
    pthread_mutex_unlock(&shard->lock);
    return rc;
}

/* ---- reading ---- */

static enum rc row_add(const struct sqlite_shard *shard, sqlite3_stmt *stmt, struct buf *to,
                       struct err *err)
{
    uint8_t head[TILE_HEADER_BYTES_MAX];
    size_t head_len = 1;
    struct bytes data =
        bytes_of(sqlite3_column_blob(stmt, 0), (size_t)sqlite3_column_bytes(stmt, 0));
    int64_t epoch = sqlite3_column_int64(stmt, 1), provider = sqlite3_column_int64(stmt, 2);
    if (data.len > TILE_DATA_BYTES_MAX || epoch < 0 || provider < 0)
        return err_set(err, RC_VERSION, "shard \"%s\" has a tile that cannot be",
                       sqlite3_db_filename(shard->db, "main"));
    if (shard->shard.table.kind == TILE_META) {
        if (epoch >= TILE_STATUS_COUNT)
            return err_set(err, RC_VERSION, "shard \"%s\" has the unknown status %lld",
                           sqlite3_db_filename(shard->db, "main"), (long long)epoch);
        head[0] = (uint8_t)epoch;
    } else {
        struct tile_value value = {.epoch = (uint64_t)epoch, .provider = (uint64_t)provider};
        head_len = tile_header_put(&value, head);
    }
    if (!buf_reserve(to, head_len + data.len) || !buf_add(to, head, head_len) ||
        !buf_add_bytes(to, data))
        return err_set(err, RC_NOMEM, "could not allocate memory for a tile");
    return RC_OK;
}

static enum rc sqlite_get(struct shard *base, struct tilekey key, bool at, struct buf *to,
                          struct tilekey *ret_key, struct err *err)
{
    struct sqlite_shard *shard = (struct sqlite_shard *)base;
    sqlite3_stmt *stmt;
    pthread_mutex_lock(&shard->lock);
    enum rc rc = stmt_get(shard, at ? SQL_AT : SQL_GET, &stmt, err);
    if (rc == RC_OK) {
        id_bind(shard, stmt, 1, key.packed);
        if (base->table.kind == TILE_TM)
            (void)sqlite3_bind_int64(stmt, 2, (int64_t)key.ms);
        int code = sqlite3_step(stmt);
        if (code == SQLITE_ROW) {
            rc = row_add(shard, stmt, to, err);
            *ret_key = (struct tilekey){key.packed, (uint64_t)sqlite3_column_int64(stmt, 3)};
        } else {
            rc = code == SQLITE_DONE ? RC_NOT_FOUND : sql_error(shard->db, err);
        }
        (void)sqlite3_reset(stmt);
    }
    pthread_mutex_unlock(&shard->lock);
    return rc;
}

/* Then the indexes of status and level answer alone. */
static bool is_all_metadata(const struct shard_table *table, const struct shard_range *range)
{
    return table->kind == TILE_META && range->from.packed == 0 &&
           range->to.packed >= tilekey_subtree_last(0);
}

/* What of a range SQL itself can leave out. The last byte of a key is its level. */
static void range_sql(const struct shard_table *table, const struct shard_range *range,
                      const char *what, const char *end, char to[SQL_BYTES])
{
    char filter[200] = "";
    int len = 0;
    if (range->level_from > 0 || range->level_to < TILE_LEVEL_MAX)
        len += snprintf(filter, sizeof filter,
                        table->kind == TILE_META
                            ? " AND level BETWEEN %u AND %u"
                            : " AND substr(tile_id, 8, 1) BETWEEN x'%02x' AND x'%02x'",
                        range->level_from, range->level_to);
    if (table->kind == TILE_TM && (range->ms_from > 0 || range->ms_to < TILE_MS_MAX))
        len += snprintf(filter + len, sizeof filter - (size_t)len, " AND t BETWEEN %lld AND %lld",
                        (long long)range->ms_from, (long long)range->ms_to);
    if (table->kind == TILE_META && range->status >= 0)
        len +=
            snprintf(filter + len, sizeof filter - (size_t)len, " AND status = %d", range->status);
    ASSERT(len < (int)sizeof filter);
    len = snprintf(to, SQL_BYTES, "SELECT %s FROM \"%s\" WHERE %s%s%s", what, table->name,
                   table->kind == TILE_TM          ? "(tile_id, t) BETWEEN (?1, ?3) AND (?2, ?4)"
                   : is_all_metadata(table, range) ? "1"
                                                   : "tile_id BETWEEN ?1 AND ?2",
                   filter, end);
    ASSERT(len > 0 && len < SQL_BYTES);
}

static enum rc range_open(struct sqlite_shard *shard, const struct shard_range *range,
                          const char *what, const char *end, sqlite3_stmt **ret_stmt,
                          struct err *err)
{
    char sql[SQL_BYTES];
    range_sql(&shard->shard.table, range, what, end, sql);
    if (sqlite3_prepare_v2(shard->db, sql, -1, ret_stmt, NULL) != SQLITE_OK)
        return sql_error(shard->db, err);
    if (!is_all_metadata(&shard->shard.table, range)) {
        id_bind(shard, *ret_stmt, 1, range->from.packed);
        id_bind(shard, *ret_stmt, 2, range->to.packed);
    }
    if (shard->shard.table.kind == TILE_TM) {
        (void)sqlite3_bind_int64(*ret_stmt, 3, (int64_t)range->from.ms);
        (void)sqlite3_bind_int64(*ret_stmt, 4, (int64_t)range->to.ms);
    }
    return RC_OK;
}

static bool scan_row(const struct sqlite_shard *shard, sqlite3_stmt *stmt,
                     struct tile_scan_row *ret_row)
{
    struct bytes id = bytes_of(sqlite3_column_blob(stmt, 0), (size_t)sqlite3_column_bytes(stmt, 0));
    int64_t number = sqlite3_column_int64(stmt, 2); /* t, or the status */
    *ret_row = (struct tile_scan_row){.bytes = (uint64_t)sqlite3_column_int64(stmt, 1)};
    if (number < 0 || !tilekey_get(id, false, &ret_row->key))
        return false; /* not one of ours: nothing that we name */
    if (shard->shard.table.kind == TILE_TM)
        ret_row->key.ms = (uint64_t)number;
    else
        ret_row->status = (uint8_t)(number < UINT8_MAX ? number : UINT8_MAX);
    return true;
}

static const char *const scan_columns[] = {
    [TILE_PLAIN] = "tile_id, length(data), 0",
    [TILE_TM] = "tile_id, length(data), t",
    [TILE_META] = "tile_id, length(data), status",
};

static enum rc scan(struct sqlite_shard *shard, const struct shard_range *range, shard_scan_fn *fn,
                    void *arg, struct err *err)
{
    enum tile_kind kind = shard->shard.table.kind;
    sqlite3_stmt *stmt = NULL;
    struct tile_scan_row row;
    int code;
    enum rc rc =
        range_open(shard, range, scan_columns[kind],
                   kind == TILE_TM ? " ORDER BY tile_id, t" : " ORDER BY tile_id", &stmt, err);
    if (rc != RC_OK)
        return rc;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        if (scan_row(shard, stmt, &row) && tilekey_cmp(row.key, range->from) >= 0 &&
            tilekey_cmp(row.key, range->to) <= 0 && !fn(arg, &row))
            break;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        rc = sql_error(shard->db, err);
    sqlite3_finalize(stmt);
    return rc;
}

static enum rc sqlite_scan(struct shard *base, const struct shard_range *range, shard_scan_fn *fn,
                           void *arg, struct err *err)
{
    struct sqlite_shard *shard = (struct sqlite_shard *)base;
    pthread_mutex_lock(&shard->lock);
    enum rc rc = scan(shard, range, fn, arg, err);
    pthread_mutex_unlock(&shard->lock);
    return rc;
}

static enum rc count_rows(struct sqlite_shard *shard, const struct shard_range *range,
                          struct shard_count *ret_count, struct err *err)
{
    enum tile_kind kind = shard->shard.table.kind;
    sqlite3_stmt *stmt = NULL;
    char what[64];
    int code;
    snprintf(what, sizeof what, "count(*), %s, %s", kind == TILE_META ? "status" : "0",
             range->bytes ? "total(length(data))" : "0"); /* without it the index says all */
    enum rc rc =
        range_open(shard, range, what, kind == TILE_META ? " GROUP BY status" : "", &stmt, err);
    if (rc != RC_OK)
        return rc;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        uint64_t count = (uint64_t)sqlite3_column_int64(stmt, 0);
        int64_t status = sqlite3_column_int64(stmt, 1);
        ret_count->count += count;
        ret_count->bytes += (uint64_t)sqlite3_column_double(stmt, 2);
        if (status >= 0 && status < TILE_STATUS_COUNT)
            ret_count->by_status[status] += count;
    }
    if (code != SQLITE_DONE)
        rc = sql_error(shard->db, err);
    sqlite3_finalize(stmt);
    return rc;
}

static enum rc looks_do(struct sqlite_shard *shard, struct shard_look *look, size_t count,
                        struct err *err)
{
    char sql[SQL_BYTES];
    sqlite3_stmt *stmt = NULL;
    bool tm = shard->shard.table.kind == TILE_TM;
    int len = snprintf(sql, sizeof sql, "SELECT %s FROM \"%s\" WHERE tile_id = ?1%s",
                       scan_columns[shard->shard.table.kind], shard->shard.table.name,
                       tm ? " AND t = ?2" : "");
    ASSERT(len > 0 && len < (int)sizeof sql);
    if (sqlite3_prepare_v2(shard->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return sql_error(shard->db, err);
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        id_bind(shard, stmt, 1, look[i].key.packed);
        if (tm)
            (void)sqlite3_bind_int64(stmt, 2, (int64_t)look[i].key.ms);
        int code = sqlite3_step(stmt);
        look[i].found = code == SQLITE_ROW && scan_row(shard, stmt, &look[i].row);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            rc = sql_error(shard->db, err);
        (void)sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc;
}

static enum rc sqlite_count(struct shard *base, const struct shard_range *range,
                            struct shard_look *look, size_t look_count,
                            struct shard_count *ret_count, struct err *err)
{
    struct sqlite_shard *shard = (struct sqlite_shard *)base;
    *ret_count = (struct shard_count){0};
    pthread_mutex_lock(&shard->lock);
    enum rc rc = sql_exec(shard->db, "BEGIN", err);
    if (rc == RC_OK)
        rc = count_rows(shard, range, ret_count, err);
    if (rc == RC_OK && look_count > 0)
        rc = looks_do(shard, look, look_count, err);
    if (!sqlite3_get_autocommit(shard->db))
        (void)sqlite3_exec(shard->db, "ROLLBACK", NULL, NULL, NULL);
    pthread_mutex_unlock(&shard->lock);
    return rc;
}

/* ---- damage ---- */

static bool is_cut(struct sqlite_shard *shard)
{
    struct err ignored = {0};
    bool cut =
        sql_exec(shard->db, "BEGIN; SELECT count(*) FROM sqlite_master", &ignored) == RC_OK &&
        size_check(shard, &ignored) == RC_CORRUPT;
    if (!sqlite3_get_autocommit(shard->db))
        (void)sqlite3_exec(shard->db, "ROLLBACK", NULL, NULL, NULL);
    return cut;
}

/* Through SQLite alone, as foreign_check(). */
static enum rc sqlite_prove(const char *path, const struct shard_table *table, bool *ret_damaged,
                            struct err *err)
{
    struct sqlite_shard shard = {.shard.table = *table};
    enum wal_state wal;
    bool ok = false;
    enum rc rc = wal_look(path, &wal, err);
    if (rc != RC_OK) {
        *ret_damaged = rc == RC_CORRUPT;
        return rc == RC_CORRUPT ? RC_OK : rc;
    }
    int code = sqlite3_open_v2(path, &shard.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        (void)sqlite3_busy_timeout(shard.db, BUSY_MS);
        code = sqlite3_exec(shard.db, "PRAGMA integrity_check(1)", integrity_row, &ok, NULL);
    }
    if (code == SQLITE_OK && ok)
        *ret_damaged = is_cut(&shard);
    else if (code == SQLITE_OK)
        *ret_damaged = true;
    else if (rc_of(code) == RC_CORRUPT)
        *ret_damaged = (rc = foreign_check(shard.db, path, err)) == RC_OK;
    else
        rc = err_set(err, rc_of(code), "shard \"%s\": %s", path, sqlite3_errmsg(shard.db));
    (void)sqlite3_close(shard.db);
    return rc;
}

static const char *const beside[] = {"-wal", "-shm", NULL};

const struct shard_ops shard_sqlite_ops = {
    .name = "sqlite",
    .open = sqlite_open,
    .close = sqlite_close,
    .look = sqlite_look,
    .apply = sqlite_apply,
    .get = sqlite_get,
    .scan = sqlite_scan,
    .count = sqlite_count,
    .prove = sqlite_prove,
    .beside = beside,
    .beside_has_changes = true,
};

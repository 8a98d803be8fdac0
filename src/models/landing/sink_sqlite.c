// SPDX-License-Identifier: Apache-2.0
/* sink_sqlite.c - SQLite: one connection to one file.
 *
 * Durable: WAL with synchronous=FULL syncs the log at every commit. Statements are kept, keyed by
 * their text. A file that was moved or removed under us would swallow commits, so its inode is
 * compared before each transaction. */
#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "models/landing/sink_int.h"

#include "base/banned.h"

enum {
    BUSY_WAIT_MS = 5000, /* for another process that writes */
    BUSY_STEP_MS = 5,
};

struct statement {
    sqlite3_stmt *stmt;
    char *sql;
    uint64_t used;
};

struct sink_sqlite {
    struct sink sink;
    char *path;
    sqlite3 *db;
    pthread_mutex_t lock; /* of db as sink_interrupt() sees it */
    dev_t device;
    ino_t inode;
    struct sink_defs defs;
    struct statement statement[SINK_STATEMENTS_MAX];
    uint64_t use_count;
    struct buf sql;
};

static const struct sink_dialect sqlite_dialect = {
    .quote = '"',
    .type = {[SINK_KEY] = "VARCHAR(512)",
             [SINK_TEXT] = "TEXT",
             [SINK_BLOB] = "BLOB",
             [SINK_BIGINT] = "BIGINT"},
};

static struct sink_sqlite *of(struct sink *sink)
{
    return (struct sink_sqlite *)sink;
}

/* ---- errors ---- */

static enum rc classify(int code, const char *text)
{
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_RANGE:
        return RC_INVALID;
    case SQLITE_ERROR: /* one number for everything that is wrong with a statement */
        if (strstr(text, "no such table") || strstr(text, "no such column") ||
            strstr(text, "has no column"))
            return RC_NOT_FOUND;
        return RC_INVALID;
    case SQLITE_NOMEM:
        return RC_NOMEM;
    default:
        return RC_IO;
    }
}

static void disconnect(struct sink_sqlite *sqlite);

static enum rc fail(struct sink_sqlite *sqlite, int code, const char *doing, struct err *err)
{
    const char *text = sqlite->db ? sqlite3_errmsg(sqlite->db) : sqlite3_errstr(code);
    enum rc rc = classify(code, text);
    if (atomic_load(&sqlite->sink.interrupted))
        rc = RC_IO;
    return err_set(err, rc, "could not %s \"%s\": %s", doing, sqlite->path, text);
}

/* ---- life ---- */

static struct sink *sqlite_open(struct sink_url *url)
{
    struct sink_sqlite *sqlite = mem_zalloc(sizeof *sqlite);
    sqlite->path = url->path;
    url->path = NULL;
    pthread_mutex_init(&sqlite->lock, NULL);
    buf_init(&sqlite->sql, SINK_SQL_BYTES_MAX);
    sqlite->sink.query_bytes_max = SIZE_MAX;
    return &sqlite->sink;
}

static void disconnect(struct sink_sqlite *sqlite)
{
    for (size_t i = 0; i < SINK_STATEMENTS_MAX; i++) {
        sqlite3_finalize(sqlite->statement[i].stmt);
        mem_free(sqlite->statement[i].sql);
        sqlite->statement[i] = (struct statement){0};
    }
    sink__defs_drop(&sqlite->defs);
    pthread_mutex_lock(&sqlite->lock);
    sqlite3_close(sqlite->db);
    sqlite->db = NULL;
    pthread_mutex_unlock(&sqlite->lock);
}

static void sqlite_close(struct sink *sink)
{
    struct sink_sqlite *sqlite = of(sink);
    disconnect(sqlite);
    pthread_mutex_destroy(&sqlite->lock);
    buf_done(&sqlite->sql);
    mem_free(sqlite->path);
    mem_free(sqlite);
}

static void sqlite_interrupt(struct sink *sink)
{
    struct sink_sqlite *sqlite = of(sink);
    pthread_mutex_lock(&sqlite->lock);
    if (sqlite->db)
        sqlite3_interrupt(sqlite->db);
    pthread_mutex_unlock(&sqlite->lock);
}

/* SQLite's own wait cannot be interrupted. */
static int busy(void *arg, int count)
{
    struct sink_sqlite *sqlite = arg;
    if (atomic_load(&sqlite->sink.interrupted) || count >= BUSY_WAIT_MS / BUSY_STEP_MS)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = BUSY_STEP_MS * 1000000L}, NULL);
    return 1;
}

/* The directory of the file, one level, durable before the file is. */
static enum rc make_dir(struct sink_sqlite *sqlite, struct err *err)
{
    struct files *files = (struct files *)&files_real;
    char dir[PATH_BYTES_MAX], parent[PATH_BYTES_MAX];
    struct stat stat_buf;
    if (strlen(sqlite->path) >= PATH_BYTES_MAX)
        return err_set(err, RC_IO, "the path of a database is too long");
    memcpy(dir, sqlite->path, strlen(sqlite->path) + 1);
    char *name = dirname(dir);
    if (stat(name, &stat_buf) == 0)
        return RC_OK;
    memcpy(parent, name, strlen(name) + 1);
    enum rc rc = files_make_dir(files, name, err);
    if (rc == RC_OK)
        rc = files_sync_dir(files, dirname(parent), err);
    return rc == RC_OK ? RC_OK : err_set(err, RC_IO, "%s", err ? err->text : "");
}

/* A file that has to be there: a disk that is not mounted is no empty database. */
static enum rc check_file(struct sink_sqlite *sqlite, struct err *err)
{
    struct stat now;
    if (stat(sqlite->path, &now) == 0)
        return RC_OK;
    sqlite->sink.is_missing = errno == ENOENT || errno == ENOTDIR;
    return err_set(err, RC_IO, "could not open \"%s\": %s", sqlite->path, strerror(errno));
}

/* ---- statements ---- */

static enum rc prepare(struct sink_sqlite *sqlite, sqlite3_stmt **ret_stmt, struct err *err)
{
    const char *sql = (const char *)sqlite->sql.ptr;
    struct statement *oldest = &sqlite->statement[0];
    sqlite->use_count++;
    for (size_t i = 0; i < SINK_STATEMENTS_MAX; i++) {
        struct statement *statement = &sqlite->statement[i];
        if (statement->sql && strcmp(statement->sql, sql) == 0) {
            statement->used = sqlite->use_count;
            *ret_stmt = statement->stmt;
            return RC_OK;
        }
        if (statement->used < oldest->used)
            oldest = statement;
    }
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v3(sqlite->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (code != SQLITE_OK)
        return fail(sqlite, code, "prepare a statement for", err);
    sqlite3_finalize(oldest->stmt);
    mem_free(oldest->sql);
    *oldest = (struct statement){stmt, mem_dup(sql, strlen(sql) + 1), sqlite->use_count};
    *ret_stmt = stmt;
    return RC_OK;
}

/* The text that was built in sqlite->sql. */
static enum rc prepare_built(struct sink_sqlite *sqlite, bool is_built, sqlite3_stmt **ret_stmt,
                             struct err *err)
{
    if (!is_built || !buf_add(&sqlite->sql, "", 1))
        return err_set(err, RC_NOMEM, "no room for the text of a statement");
    return prepare(sqlite, ret_stmt, err);
}

static enum rc prepare_text(struct sink_sqlite *sqlite, const char *sql, sqlite3_stmt **ret_stmt,
                            struct err *err)
{
    buf_cut(&sqlite->sql, 0);
    return prepare_built(sqlite, buf_add(&sqlite->sql, sql, strlen(sql)), ret_stmt, err);
}

/* Runs to the end; rows are not wanted. */
static enum rc step_all(struct sink_sqlite *sqlite, sqlite3_stmt *stmt, const char *doing,
                        struct err *err)
{
    int code;
    enum rc rc = RC_OK;
    do
        code = sqlite3_step(stmt);
    while (code == SQLITE_ROW);
    if (code != SQLITE_DONE)
        rc = fail(sqlite, code, doing, err);
    sqlite3_reset(stmt);
    return rc;
}

static enum rc run(struct sink_sqlite *sqlite, const char *sql, const char *doing, struct err *err)
{
    sqlite3_stmt *stmt;
    enum rc rc = prepare_text(sqlite, sql, &stmt, err);
    return rc == RC_OK ? step_all(sqlite, stmt, doing, err) : rc;
}

static enum rc run_built(struct sink_sqlite *sqlite, bool is_built, const char *doing,
                         struct err *err)
{
    sqlite3_stmt *stmt;
    enum rc rc = prepare_built(sqlite, is_built, &stmt, err);
    return rc == RC_OK ? step_all(sqlite, stmt, doing, err) : rc;
}

/* A statement whose answer is one number. */
static enum rc ask_number(struct sink_sqlite *sqlite, const char *sql, int64_t *ret_number,
                          struct err *err)
{
    sqlite3_stmt *stmt;
    enum rc rc = prepare_text(sqlite, sql, &stmt, err);
    if (rc != RC_OK)
        return rc;
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(stmt, 0);
    else
        rc = fail(sqlite, code, "read", err);
    sqlite3_reset(stmt);
    return rc;
}

/* ---- connection ---- */

/* Two that open a file at once are in each other's way, above all after a crash: both read it and
 * want to write, and SQLite does not call busy() for that. So this has its own wait, within the
 * same time: *ret_busy says that the same again may work. */
static enum rc switch_to_wal(struct sink_sqlite *sqlite, bool *ret_busy, struct err *err)
{
    sqlite3_stmt *stmt;
    enum rc rc = prepare_text(sqlite, "PRAGMA journal_mode=WAL", &stmt, err);
    *ret_busy = rc != RC_OK && (sqlite3_errcode(sqlite->db) & 0xff) == SQLITE_BUSY;
    if (rc != RC_OK)
        return rc;
    int code = sqlite3_step(stmt);
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    *ret_busy = (code & 0xff) == SQLITE_BUSY;
    if (code != SQLITE_ROW)
        rc = fail(sqlite, code, "open", err);
    else if (!mode || strcmp(mode, "wal") != 0)
        rc = err_set(err, RC_IO, "could not switch \"%s\" to a write-ahead log", sqlite->path);
    sqlite3_reset(stmt);
    return rc;
}

static enum rc set_up(struct sink_sqlite *sqlite, struct err *err)
{
    struct clock clock;
    bool is_busy;
    clock_init(&clock);
    uint64_t end_ns = clock_mono_ns(&clock) + BUSY_WAIT_MS * UINT64_C(1000000);
    enum rc rc = switch_to_wal(sqlite, &is_busy, err);
    while (rc != RC_OK && is_busy && clock_mono_ns(&clock) < end_ns && busy(sqlite, 0))
        rc = switch_to_wal(sqlite, &is_busy, err);
    if (rc == RC_OK)
        rc = run(sqlite, "PRAGMA synchronous=FULL", "set up", err);
    if (rc == RC_OK)
        rc = run(sqlite, "PRAGMA foreign_keys=ON", "set up", err);
    return rc;
}

static bool is_same_file(struct sink_sqlite *sqlite)
{
    struct stat now;
    return stat(sqlite->path, &now) == 0 && now.st_dev == sqlite->device &&
           now.st_ino == sqlite->inode;
}

static enum rc sqlite_connect(struct sink *sink, struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    if (sqlite->db && is_same_file(sqlite))
        return RC_OK;
    disconnect(sqlite);
    enum rc rc = sink->never_makes ? check_file(sqlite, err) : make_dir(sqlite, err);
    if (rc != RC_OK)
        return rc;
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX;
    if (!sink->never_makes)
        flags |= SQLITE_OPEN_CREATE;
    int code = sqlite3_open_v2(sqlite->path, &db, flags, NULL);
    pthread_mutex_lock(&sqlite->lock);
    sqlite->db = db;
    pthread_mutex_unlock(&sqlite->lock);
    struct stat opened;
    if (code != SQLITE_OK) {
        rc = fail(sqlite, code, "open", err);
    } else if (stat(sqlite->path, &opened) != 0) {
        rc = err_set(err, RC_IO, "could not look at \"%s\": %s", sqlite->path, strerror(errno));
    } else {
        sqlite->device = opened.st_dev;
        sqlite->inode = opened.st_ino;
        sink->is_new = true;
        sqlite3_busy_handler(db, busy, sqlite);
        /* Else the quoted name of a column that is not there is read as a text. */
        sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
        rc = set_up(sqlite, err);
    }
    if (rc == RC_OK)
        rc = sink__check_interrupt(sink, err);
    if (rc != RC_OK)
        disconnect(sqlite);
    if (rc == RC_OK || rc == RC_NOMEM)
        return rc;
    if (err)
        err->rc = RC_IO; /* whatever is wrong with a file that cannot be opened */
    return RC_IO;
}

static void sqlite_disconnect(struct sink *sink)
{
    disconnect(of(sink));
}

static enum rc sqlite_ping(struct sink *sink, struct err *err)
{
    int64_t number;
    enum rc rc = ask_number(of(sink), "SELECT count(*) FROM sqlite_schema", &number, err);
    if (rc == RC_IO)
        disconnect(of(sink));
    return rc;
}

/* ---- declarations ---- */

static bool has_word(const char *declared, const char *word)
{
    return sqlite3_strlike(word, declared, 0) == 0;
}

/* The numbers of DECIMAL(5,2). */
static void parse_size(const char *declared, unsigned *ret_first, unsigned *ret_second)
{
    const char *at = strchr(declared, '(');
    unsigned first = 0, second = 0;
    if (at && sscanf(at, "(%9u ,%9u", &first, &second) >= 1) {
        *ret_first = first;
        *ret_second = second;
    }
}

/* SQLite's own rules for affinity, in their order (datatype3.html, 3.1), refined. */
static void declare(struct sink_decl *decl, bool is_key)
{
    const char *declared = decl->declared;
    unsigned first = 0, second = 0;
    parse_size(declared, &first, &second);
    decl->chars_max = decl->bytes_max = UINT64_MAX;
    decl->is_byte_ordered = true;
    if (has_word(declared, "%INT%")) {
        decl->kind = DECL_INT;
        decl->type = SINK_BIGINT;
        decl->min = INT64_MIN;
        decl->max = INT64_MAX;
    } else if (has_word(declared, "%CHAR%") || has_word(declared, "%CLOB%") ||
               has_word(declared, "%TEXT%")) {
        decl->kind = DECL_TEXT;
        decl->chars_max = first ? first : UINT64_MAX;
        decl->takes_bytes = !first && !is_key;
        decl->type = !first ? SINK_TEXT : first >= SINK_KEY_CHARS_MAX ? SINK_KEY : SINK_OTHER;
    } else if (has_word(declared, "%BLOB%")) {
        decl->kind = DECL_BYTES;
        decl->type = SINK_BLOB;
    } else if (!*declared) {
        decl->kind = DECL_ANY;
    } else if (has_word(declared, "%REAL%") || has_word(declared, "%FLOA%") ||
               has_word(declared, "%DOUB%")) {
        decl->kind = DECL_REAL;
    } else if (has_word(declared, "%NUM%") || has_word(declared, "%DEC%")) {
        decl->kind = DECL_NUMBER;
        decl->precision = first;
        decl->scale = second;
    } else {
        decl->kind = DECL_NUMERIC;
    }
    if (is_key && decl->kind != DECL_TEXT && decl->kind != DECL_BYTES)
        decl->is_byte_ordered = false; /* 10 is before 9 as bytes */
}

/* Rows of PRAGMA table_xinfo: name, type, notnull, pk, hidden (not 0: generated). */
static enum rc read_columns(struct sink_sqlite *sqlite, sqlite3_stmt *stmt, struct sink_def *def,
                            struct err *err)
{
    int code;
    size_t key_count = 0;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *declared = (const char *)sqlite3_column_text(stmt, 1);
        bool is_key = sqlite3_column_int(stmt, 3) > 0;
        if (!name || def->decl_count == SINK_COLUMNS_MAX)
            return err_set(err, RC_INVALID, "the table has more than %d columns", SINK_COLUMNS_MAX);
        struct sink_decl *decl =
            sink__def_add(def, bytes_of(name, strlen(name)), declared ? declared : "");
        declare(decl, is_key);
        decl->is_nullable = !is_key && sqlite3_column_int(stmt, 2) == 0;
        decl->is_generated = sqlite3_column_int(stmt, 4) != 0;
        if (is_key)
            def->key = def->decl_count - 1;
        key_count += is_key;
    }
    if (code != SQLITE_DONE)
        return fail(sqlite, code, "read the columns of", err);
    if (def->decl_count == 0)
        return err_set(err, RC_NOT_FOUND, "no such table: \"%.*s\"", (int)def->name.len,
                       (const char *)def->name.ptr);
    if (key_count != 1)
        return err_set(err, RC_INVALID, "table \"%.*s\" has no primary key of one column",
                       (int)def->name.len, (const char *)def->name.ptr);
    return RC_OK;
}

/* A collation other than BINARY finds things equal that differ. */
static enum rc read_collations(struct sink_sqlite *sqlite, struct sink_def *def, struct err *err)
{
    char table[SINK_NAME_BYTES_MAX + 1];
    memcpy(table, def->name.ptr, def->name.len);
    table[def->name.len] = '\0';
    for (size_t i = 0; i < def->decl_count; i++) {
        struct sink_decl *decl = &def->decl[i];
        const char *collation = NULL;
        char *column = mem_alloc(decl->name.len + 1);
        memcpy(column, decl->name.ptr, decl->name.len);
        column[decl->name.len] = '\0';
        int code = sqlite3_table_column_metadata(sqlite->db, NULL, table, column, NULL, &collation,
                                                 NULL, NULL, NULL);
        mem_free(column);
        if (code != SQLITE_OK)
            return fail(sqlite, code, "read the columns of", err);
        if (collation && strcmp(collation, "BINARY") != 0)
            decl->is_byte_ordered = false;
    }
    const struct sink_decl *key = &def->decl[def->key];
    def->has_shared_keys = sink__decl_is_loose(key);
    return RC_OK;
}

/* An index of some rows only does not help who asks for any. */
static enum rc read_indexes(struct sink_sqlite *sqlite, struct sink_def *def, struct err *err)
{
    sqlite3_stmt *stmt;
    int code;
    enum rc rc = prepare_text(sqlite,
                              "SELECT x.name FROM pragma_index_list(?) i, pragma_index_info(i.name)"
                              " x WHERE x.seqno=0 AND i.partial=0 AND x.name IS NOT NULL",
                              &stmt, err);
    if (rc != RC_OK)
        return rc;
    sqlite3_bind_text(stmt, 1, (const char *)def->name.ptr, (int)def->name.len, SQLITE_STATIC);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct bytes name =
            bytes_of(sqlite3_column_text(stmt, 0), (size_t)sqlite3_column_bytes(stmt, 0));
        for (size_t i = 0; i < def->decl_count; i++)
            def->decl[i].is_indexed = def->decl[i].is_indexed || bytes_eq(def->decl[i].name, name);
    }
    if (code != SQLITE_DONE)
        rc = fail(sqlite, code, "read the indexes of", err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return rc;
}

static enum rc read_def(struct sink_sqlite *sqlite, struct bytes name, struct sink_def **ret_def,
                        struct err *err)
{
    sqlite3_stmt *stmt;
    enum rc rc = prepare_text(
        sqlite, "SELECT name, type, \"notnull\", pk, hidden FROM pragma_table_xinfo(?)", &stmt,
        err);
    if (rc != RC_OK)
        return rc;
    struct sink_def *def = sink__def_new(name);
    sqlite3_bind_text(stmt, 1, (const char *)name.ptr, (int)name.len, SQLITE_STATIC);
    rc = read_columns(sqlite, stmt, def, err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    if (rc == RC_OK)
        rc = read_collations(sqlite, def, err);
    if (rc == RC_OK)
        rc = read_indexes(sqlite, def, err);
    if (rc != RC_OK) {
        sink__def_free(def);
        return rc;
    }
    *ret_def = def;
    return RC_OK;
}

static enum rc sqlite_define(struct sink *sink, struct bytes name, const struct sink_def **ret_def,
                             struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    int64_t version = 0;
    enum rc rc = ask_number(sqlite, "PRAGMA schema_version", &version, err);
    struct sink_def *def = rc == RC_OK ? sink__defs_find(&sqlite->defs, name) : NULL;
    if (rc == RC_OK && (!def || def->fingerprint != (uint64_t)version)) {
        rc = read_def(sqlite, name, &def, err);
        if (rc == RC_OK) {
            def->fingerprint = (uint64_t)version;
            sink__defs_put(&sqlite->defs, def);
        }
    }
    if (rc == RC_IO)
        disconnect(sqlite);
    else if (rc == RC_OK)
        *ret_def = def;
    return rc;
}

/* ---- binding ---- */

static enum rc bind(struct sink_sqlite *sqlite, sqlite3_stmt *stmt, int place,
                    const struct sink_bound *bound, struct err *err)
{
    /* A NULL pointer would bind NULL, and an empty value is not NULL. */
    const void *ptr = bound->bytes.len ? (const void *)bound->bytes.ptr : "";
    int code = SQLITE_OK;
    switch (bound->bind) {
    case SINK_BIND_NULL:
        code = sqlite3_bind_null(stmt, place);
        break;
    case SINK_BIND_INT:
        code = sqlite3_bind_int64(stmt, place, bound->number);
        break;
    case SINK_BIND_TEXT:
        code = sqlite3_bind_text64(stmt, place, ptr, bound->bytes.len, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case SINK_BIND_BLOB:
        code = sqlite3_bind_blob64(stmt, place, ptr, bound->bytes.len, SQLITE_STATIC);
        break;
    }
    return code == SQLITE_OK ? RC_OK : fail(sqlite, code, "bind a value for", err);
}

static enum rc bind_cell(struct sink_sqlite *sqlite, sqlite3_stmt *stmt, int place,
                         const struct sink_decl *decl, const struct sink_cell *cell,
                         struct sink_bound *bound, struct err *err)
{
    enum rc rc = sink__fit(decl, cell, bound, err);
    return rc == RC_OK ? bind(sqlite, stmt, place, bound, err) : rc;
}

/* ---- landing ---- */

struct row_check {
    const struct sink_table *table;
    const struct sink_bound *key;
    int64_t version; /* that was given */
    bool is_shared;  /* the key: has_shared_keys */
    bool was_taken;
    int64_t *newest; /* NULL: nobody asks */
};

static enum rc check_found(sqlite3_stmt *stmt, const struct row_check *check, struct err *err)
{
    const struct sink_column *key = &check->table->column[0];
    struct bytes found =
        bytes_of(sqlite3_column_blob(stmt, 0), (size_t)sqlite3_column_bytes(stmt, 0));
    if (check->is_shared && !bytes_eq(check->key->bytes, found))
        return err_set(err, RC_INVALID, "another key is equal in the collation of column \"%.*s\"",
                       (int)key->name.len, (const char *)key->name.ptr);
    if (check->was_taken || !check->newest)
        return RC_OK;
    if (sqlite3_column_type(stmt, 1) != SQLITE_INTEGER)
        return err_set(err, RC_INVALID, "the row that is there has a version that is no number");
    int64_t version = sqlite3_column_int64(stmt, 1);
    if (version > check->version && version > *check->newest)
        *check->newest = version;
    return RC_OK;
}

/* What is there under this key has to be this key, not one its collation calls equal; and if it was
 * not taken, what is there is equal or newer. */
static enum rc check_row(struct sink_sqlite *sqlite, const struct row_check *check, struct err *err)
{
    sqlite3_stmt *stmt;
    const size_t column[] = {0, check->table->version};
    const struct bytes value = check->key->bytes;
    const struct sink_query query = {.table = check->table,
                                     .column = column,
                                     .column_count = ARRAY_LEN(column),
                                     .value = &value,
                                     .value_count = 1};
    const struct sink_select select = {.query = &query, .in_count = 1};
    buf_cut(&sqlite->sql, 0);
    enum rc rc =
        prepare_built(sqlite, sink__sql_select(&sqlite->sql, &sqlite_dialect, &select), &stmt, err);
    if (rc == RC_OK)
        rc = bind(sqlite, stmt, 1, check->key, err);
    if (rc != RC_OK)
        return rc;
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        rc = check_found(stmt, check, err);
    else if (code == SQLITE_DONE) /* a trigger, or a constraint that says ON CONFLICT IGNORE */
        rc = err_set(err, RC_INVALID, "the database passes over a row without an error");
    else
        rc = fail(sqlite, code, "read", err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return rc;
}

static enum rc land_row(struct sink_sqlite *sqlite, sqlite3_stmt *stmt,
                        const struct sink_decl **decl, const struct sink_cell *cell,
                        struct sink_bound *bound, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        enum rc rc = bind_cell(sqlite, stmt, (int)i + 1, decl[i], &cell[i], &bound[i], err);
        if (rc != RC_OK)
            return rc;
    }
    return step_all(sqlite, stmt, "write to", err);
}

static enum rc land_upsert(struct sink_sqlite *sqlite, const struct sink_def *def,
                           const struct sink_change *change, int64_t *newest, struct err *err)
{
    const struct sink_upsert *upsert = &change->upsert;
    size_t count = upsert->column_count;
    const struct sink_decl **decl = mem_alloc(count * sizeof *decl);
    struct sink_bound *bound = mem_alloc(count * sizeof *bound);
    sqlite3_stmt *stmt = NULL;
    enum rc rc = sink__def_match(def, change->table, upsert->column, count, decl, err);
    buf_cut(&sqlite->sql, 0);
    if (rc == RC_OK)
        rc = prepare_built(
            sqlite, sink__sql_upsert(&sqlite->sql, &sqlite_dialect, change->table, upsert, 1),
            &stmt, err);
    for (size_t row = 0; row < upsert->row_count && rc == RC_OK; row++) {
        rc = land_row(sqlite, stmt, decl, &upsert->cell[row * count], bound, count, err);
        const struct row_check check = {.table = change->table,
                                        .key = &bound[0],
                                        .version = sink__row_version(change->table, upsert, row),
                                        .is_shared = def->has_shared_keys,
                                        .was_taken = sqlite3_changes(sqlite->db) > 0,
                                        .newest = newest};
        if (rc == RC_OK && (def->has_shared_keys || (newest && !check.was_taken)))
            rc = check_row(sqlite, &check, err);
    }
    if (stmt)
        sqlite3_clear_bindings(stmt); /* they point into what is the caller's */
    mem_free(bound);
    mem_free(decl);
    return rc;
}

static enum rc bind_sweep(struct sink_sqlite *sqlite, sqlite3_stmt *stmt,
                          const struct sink_decl **decl, const struct sink_decl *where,
                          const struct sink_sweep *sweep, struct err *err)
{
    struct sink_bound *bound = mem_alloc((sweep->column_count + 2) * sizeof *bound);
    const struct sink_bound version = {.bind = SINK_BIND_INT, .number = sweep->version};
    int place = 1;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < sweep->column_count && rc == RC_OK; i++)
        rc = bind_cell(sqlite, stmt, place++, decl[i], &sweep->cell[i], &bound[i], err);
    if (rc == RC_OK)
        rc = bind(sqlite, stmt, place++, &version, err);
    struct sink_bound *equals = &bound[sweep->column_count];
    if (rc == RC_OK)
        rc = bind_cell(sqlite, stmt, place++, where, &sweep->equals, equals, err);
    if (rc == RC_OK && sink__decl_is_loose(where)) {
        equals->bind = SINK_BIND_BLOB;
        rc = bind(sqlite, stmt, place++, equals, err);
    }
    if (rc == RC_OK)
        rc = bind(sqlite, stmt, place, &version, err);
    if (rc == RC_OK)
        rc = step_all(sqlite, stmt, "write to", err);
    sqlite3_clear_bindings(stmt);
    mem_free(bound);
    return rc;
}

static enum rc land_sweep(struct sink_sqlite *sqlite, const struct sink_def *def,
                          const struct sink_change *change, struct err *err)
{
    const struct sink_sweep *sweep = &change->sweep;
    const struct sink_decl **decl = mem_alloc((sweep->column_count + 1) * sizeof *decl);
    const struct sink_decl *where;
    sqlite3_stmt *stmt;
    enum rc rc = sink__def_match(def, change->table, &sweep->where, 1, &where, err);
    if (rc == RC_OK)
        rc = sink__def_match(def, change->table, sweep->column, sweep->column_count, decl, err);
    buf_cut(&sqlite->sql, 0);
    if (rc == RC_OK)
        rc = prepare_built(sqlite,
                           sink__sql_sweep(&sqlite->sql, &sqlite_dialect, change->table, sweep,
                                           sink__decl_is_loose(where)),
                           &stmt, err);
    if (rc == RC_OK)
        rc = bind_sweep(sqlite, stmt, decl, where, sweep, err);
    mem_free(decl);
    return rc;
}

static enum rc land_change(struct sink_sqlite *sqlite, const struct sink_change *change,
                           int64_t *newest, struct err *err)
{
    const struct sink_def *def;
    enum rc rc = sqlite_define(&sqlite->sink, change->table->name, &def, err);
    if (rc == RC_OK)
        rc = sink__def_check_version(def, change->table, err);
    if (rc != RC_OK)
        return rc;
    return change->kind == SINK_UPSERT ? land_upsert(sqlite, def, change, newest, err)
                                       : land_sweep(sqlite, def, change, err);
}

static enum rc sqlite_land(struct sink *sink, const struct sink_change *change, size_t count,
                           int64_t *newest, struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    if (newest)
        *newest = SINK_NONE_NEWER;
    enum rc rc = run(sqlite, "BEGIN IMMEDIATE", "begin a transaction in", err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = land_change(sqlite, &change[i], newest, err);
    if (rc == RC_OK)
        rc = sink__check_newer(sink, newest, err);
    if (rc == RC_OK)
        rc = run(sqlite, newest ? "COMMIT" : "ROLLBACK", "commit to", err);
    if (rc == RC_OK)
        return RC_OK;
    /* Closing rolls back as well, and an error of the disk is worth a new look at the file. */
    if (rc == RC_IO || !sqlite->db ||
        sqlite3_exec(sqlite->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
        disconnect(sqlite);
    return rc;
}

/* ---- queries ---- */

static void read_cell(sqlite3_stmt *stmt, int place, enum sink_type type, struct sink_cell *ret)
{
    int stored = sqlite3_column_type(stmt, place);
    if (stored == SQLITE_NULL) {
        *ret = (struct sink_cell){.kind = SINK_NULL};
    } else if (stored == SQLITE_INTEGER && type == SINK_BIGINT) {
        *ret = (struct sink_cell){.kind = SINK_INT, .number = sqlite3_column_int64(stmt, place)};
    } else {
        const void *ptr = stored == SQLITE_BLOB ? sqlite3_column_blob(stmt, place)
                                                : sqlite3_column_text(stmt, place);
        size_t len = (size_t)sqlite3_column_bytes(stmt, place);
        *ret = (struct sink_cell){.kind = SINK_BYTES, .bytes = bytes_of(ptr ? ptr : "", len)};
    }
}

static enum rc read_rows(struct sink_sqlite *sqlite, sqlite3_stmt *stmt,
                         const struct sink_select *select, sink_row_fn *fn, void *arg,
                         struct err *err)
{
    const struct sink_query *query = select->query;
    struct sink_cell *cell = mem_alloc((query->column_count + 1) * sizeof *cell);
    enum rc rc = RC_OK;
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        for (size_t i = 0; i < query->column_count; i++)
            read_cell(stmt, (int)i, query->table->column[query->column[i]].type, &cell[i]);
        if (select->wants_where) {
            read_cell(stmt, (int)query->column_count, SINK_OTHER, &cell[query->column_count]);
            if (!sink__query_has(query, &cell[query->column_count]))
                continue;
        }
        rc = fn(arg, cell, err);
        if (rc != RC_OK)
            break;
    }
    if (rc == RC_OK && code != SQLITE_DONE)
        rc = fail(sqlite, code, "read", err);
    mem_free(cell);
    return rc;
}

/* NULL is equal to nothing: it stands for values that do not fit, and are in no row, and for those
 * that are not there. */
static enum rc bind_values(struct sink_sqlite *sqlite, sqlite3_stmt *stmt,
                           const struct sink_decl *where, const struct sink_query *query,
                           size_t in_count, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; i < in_count && rc == RC_OK; i++) {
        struct sink_bound bound = {.bind = SINK_BIND_NULL};
        struct sink_cell cell = {.kind = SINK_BYTES};
        if (i < query->value_count)
            cell.bytes = query->value[i];
        if (i >= query->value_count || sink__fit(where, &cell, &bound, NULL) != RC_OK)
            bound.bind = SINK_BIND_NULL;
        rc = bind(sqlite, stmt, (int)i + 1, &bound, err);
    }
    return rc;
}

static enum rc sqlite_select(struct sink *sink, const struct sink_query *query, sink_row_fn *fn,
                             void *arg, struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    const struct sink_def *def;
    const struct sink_decl *where;
    sqlite3_stmt *stmt;
    size_t where_column = query->value_count ? query->where : 0;
    enum rc rc = sqlite_define(sink, query->table->name, &def, err);
    if (rc == RC_OK)
        rc = sink__def_match(def, query->table, &where_column, 1, &where, err);
    if (rc != RC_OK)
        return rc;
    const struct sink_select select = {.query = query,
                                       .in_count = sink__in_count(query->value_count),
                                       .is_loose = !where->is_byte_ordered,
                                       .wants_where = query->value_count > 0};
    buf_cut(&sqlite->sql, 0);
    rc =
        prepare_built(sqlite, sink__sql_select(&sqlite->sql, &sqlite_dialect, &select), &stmt, err);
    if (rc != RC_OK)
        return rc;
    if (query->value_count) {
        rc = bind_values(sqlite, stmt, where, query, select.in_count, err);
    } else if (query->has_after) {
        const struct sink_bound after = {
            .bind = select.is_loose || where->kind == DECL_BYTES ? SINK_BIND_BLOB : SINK_BIND_TEXT,
            .bytes = query->after};
        rc = bind(sqlite, stmt, 1, &after, err);
    }
    if (rc == RC_OK)
        rc = read_rows(sqlite, stmt, &select, fn, arg, err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return rc;
}

/* ---- tables ---- */

static enum rc sqlite_add_index(struct sink *sink, const struct sink_table *table, struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    buf_cut(&sqlite->sql, 0);
    return run_built(sqlite, sink__sql_index(&sqlite->sql, &sqlite_dialect, table),
                     "create an index in", err);
}

static enum rc sqlite_create(struct sink *sink, const struct sink_table *table, struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    const struct sink_def *def;
    enum rc rc = run(sqlite, "BEGIN IMMEDIATE", "begin a transaction in", err);
    if (rc != RC_OK)
        return rc;
    rc = sqlite_define(sink, table->name, &def, err);
    bool is_there = rc != RC_NOT_FOUND;
    if (rc == RC_INVALID)
        rc = RC_OK; /* a table that is there is left as it is */
    buf_cut(&sqlite->sql, 0);
    if (!is_there)
        rc = run_built(sqlite, sink__sql_create(&sqlite->sql, &sqlite_dialect, table, ""),
                       "create a table in", err);
    if (rc == RC_OK && !is_there && table->index)
        rc = sqlite_add_index(sink, table, err);
    if (rc == RC_OK)
        rc = run(sqlite, "COMMIT", "commit to", err);
    if (rc != RC_OK)
        disconnect(sqlite); /* rolls back */
    return rc;
}

static enum rc sqlite_add_column(struct sink *sink, struct bytes table,
                                 const struct sink_column *column, struct err *err)
{
    struct sink_sqlite *sqlite = of(sink);
    const struct sink_def *def;
    enum rc rc = sqlite_define(sink, table, &def, err);
    if (rc != RC_OK || sink__def_find(def, column->name))
        return rc;
    buf_cut(&sqlite->sql, 0);
    rc = run_built(sqlite, sink__sql_add_column(&sqlite->sql, &sqlite_dialect, table, column),
                   "add a column in", err);
    if (rc == RC_INVALID && sqlite_define(sink, table, &def, NULL) == RC_OK &&
        sink__def_find(def, column->name))
        return RC_OK; /* another was faster */
    return rc;
}

const struct sink_ops sink__sqlite_ops = {
    .name = "sqlite",
    .dialect = &sqlite_dialect,
    .open = sqlite_open,
    .close = sqlite_close,
    .connect = sqlite_connect,
    .disconnect = sqlite_disconnect,
    .ping = sqlite_ping,
    .land = sqlite_land,
    .select = sqlite_select,
    .define = sqlite_define,
    .create = sqlite_create,
    .add_index = sqlite_add_index,
    .add_column = sqlite_add_column,
    .interrupt = sqlite_interrupt,
};

// SPDX-License-Identifier: Apache-2.0
/* support_sink.c - opens a sink of either kind and looks at its tables from outside. */
#include "contract/support_sink.h"

#include <mariadb/mysql.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

enum { FIX_CELLS_MAX = 4096, FIX_COLUMNS_MAX = 64, FIX_TEXT_BYTES_MAX = 256 * 1024 * 1024 };

static struct sink_column object_columns[OBJ_COLUMNS] = {
    [OBJ_KEY] = {.name = BYTES("primary_key"), .type = SINK_KEY},
    [OBJ_LOGIC] = {.name = BYTES("logic_type"), .type = SINK_TEXT},
    [OBJ_OWNER] = {.name = BYTES("owner_id"), .type = SINK_TEXT},
    [OBJ_FIELD] = {.name = BYTES("key"), .type = SINK_TEXT},
    [OBJ_VALUE] = {.name = BYTES("value"), .type = SINK_BLOB},
    [OBJ_VERSION] = {.name = BYTES("up_version"), .type = SINK_BIGINT},
    [OBJ_IS_DEL] = {.name = BYTES("is_del"), .type = SINK_BIGINT},
    [OBJ_DEL_TIME] = {.name = BYTES("del_time"), .type = SINK_BIGINT},
    [OBJ_CREATE_TIME] = {.name = BYTES("create_time"), .type = SINK_BIGINT},
    [OBJ_UPDATE_TIME] = {.name = BYTES("update_time"), .type = SINK_BIGINT},
    [OBJ_ALL] = {.name = BYTES("query_all_key"), .type = SINK_KEY},
};
const struct sink_table sink_fix_object = {.name = BYTES("app_eu"),
                                           .column = object_columns,
                                           .column_count = OBJ_COLUMNS,
                                           .version = OBJ_VERSION,
                                           .index = OBJ_ALL};

static struct sink_column small_columns[SMALL_COLUMNS] = {
    [SMALL_K] = {.name = BYTES("k"), .type = SINK_KEY},
    [SMALL_V] = {.name = BYTES("v"), .type = SINK_BLOB},
    [SMALL_VERSION] = {.name = BYTES("up_version"), .type = SINK_BIGINT},
    [SMALL_MADE] = {.name = BYTES("made"), .type = SINK_BIGINT},
    [SMALL_OWNER] = {.name = BYTES("owner"), .type = SINK_KEY},
};
const struct sink_table sink_fix_small = {.name = BYTES("small"),
                                          .column = small_columns,
                                          .column_count = SMALL_COLUMNS,
                                          .version = SMALL_VERSION,
                                          .index = SMALL_OWNER};

/* ---- the server ---- */

static struct { /* one a program: to start it takes half a second */
    struct mariadb mariadb;
    bool is_there;
    unsigned database_count;
} shared;

static void stop_server(void)
{
    mariadb_done(&shared.mariadb);
}

struct mariadb *sink_fix_server(void)
{
    if (!shared.is_there) {
        if (!mariadb_init(&shared.mariadb))
            test_fail(__FILE__, __LINE__, "MariaDB did not start");
        shared.is_there = true;
        atexit(stop_server);
    }
    if (shared.mariadb.pid == 0 && !mariadb_start(&shared.mariadb, NULL))
        test_fail(__FILE__, __LINE__, "MariaDB did not start again");
    return &shared.mariadb;
}

struct mariadb *sink_fix_server_there(void)
{
    return &shared.mariadb;
}

/* ---- another client ---- */

static void raw_open(struct sink_fix *fix)
{
    if (fix->raw)
        return;
    if (fix->kind == SINK_FIX_SQLITE) {
        sqlite3 *db;
        if (sqlite3_open(fix->path, &db) != SQLITE_OK)
            test_fail(__FILE__, __LINE__, "could not open %s", fix->path);
        sqlite3_busy_timeout(db, 5000);
        fix->raw = db;
        return;
    }
    MYSQL *mysql = mysql_init(NULL);
    fix->raw = mysql;
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(mysql, NULL, "root", "", *fix->database ? fix->database : NULL, 0,
                            sink_fix_server()->socket, 0))
        test_fail(__FILE__, __LINE__, "%s", mysql_error(mysql));
}

void sink_fix_raw_close(struct sink_fix *fix)
{
    if (fix->raw && fix->kind == SINK_FIX_SQLITE)
        sqlite3_close(fix->raw);
    else if (fix->raw)
        mysql_close(fix->raw);
    fix->raw = NULL;
}

static void add_text(struct sink_fix *fix, const void *ptr, size_t len)
{
    if (!buf_add(&fix->text, ptr, len))
        test_fail(__FILE__, __LINE__, "the answer is too long");
}

static void add_value(struct sink_fix *fix, unsigned column, bool is_first_row, const char *ptr,
                      size_t len)
{
    if (column)
        add_text(fix, "|", 1);
    else if (!is_first_row)
        add_text(fix, ";", 1);
    add_text(fix, ptr ? ptr : "-", ptr ? len : 1);
}

static void ask_sqlite(struct sink_fix *fix, const char *sql)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(fix->raw, sql, -1, &stmt, NULL) != SQLITE_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(fix->raw));
    int code;
    for (bool is_first = true; (code = sqlite3_step(stmt)) == SQLITE_ROW; is_first = false)
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *value = (const char *)sqlite3_column_text(stmt, i);
            add_value(fix, (unsigned)i, is_first, value, (size_t)sqlite3_column_bytes(stmt, i));
        }
    if (code != SQLITE_DONE)
        test_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(fix->raw));
    sqlite3_finalize(stmt);
}

static void ask_mysql(struct sink_fix *fix, const char *sql)
{
    if (mysql_query(fix->raw, sql) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", sql, mysql_error(fix->raw));
    MYSQL_RES *res = mysql_store_result(fix->raw);
    if (!res)
        return;
    MYSQL_ROW row;
    for (bool is_first = true; (row = mysql_fetch_row(res)); is_first = false)
        for (unsigned i = 0; i < mysql_num_fields(res); i++)
            add_value(fix, i, is_first, row[i], mysql_fetch_lengths(res)[i]);
    mysql_free_result(res);
}

const char *sink_fix_ask(struct sink_fix *fix, const char *sql)
{
    raw_open(fix);
    buf_cut(&fix->text, 0);
    if (fix->kind == SINK_FIX_SQLITE)
        ask_sqlite(fix, sql);
    else
        ask_mysql(fix, sql);
    add_text(fix, "", 1);
    return (const char *)fix->text.ptr;
}

void sink_fix_sql(struct sink_fix *fix, const char *sql)
{
    (void)sink_fix_ask(fix, sql);
}

/* ---- life ---- */

struct sink *sink_fix_open(struct sink_fix *fix)
{
    struct sink *sink = NULL;
    ASSERT_OK(sink_open(fix->url, "", &sink, &fix->err), &fix->err);
    return sink;
}

void sink_fix_init(struct sink_fix *fix, enum sink_fix_kind kind)
{
    *fix = (struct sink_fix){.kind = kind};
    buf_init(&fix->text, FIX_TEXT_BYTES_MAX);
    if (kind == SINK_FIX_SQLITE) {
        snprintf(fix->path, sizeof fix->path, "%s/data/sink.db", test_temp_dir());
        snprintf(fix->url, sizeof fix->url, "sqlite:%s", fix->path);
    } else {
        char sql[128], name[64];
        snprintf(name, sizeof name, "test%u", ++shared.database_count);
        snprintf(sql, sizeof sql, "CREATE DATABASE %s", name);
        sink_fix_sql(fix, sql);
        sink_fix_raw_close(fix);
        snprintf(fix->database, sizeof fix->database, "%s", name);
        snprintf(fix->url, sizeof fix->url, "mysql://root@localhost/%s?socket=%s", name,
                 sink_fix_server()->socket);
    }
    fix->sink = sink_fix_open(fix);
    ASSERT_OK(sink_ping(fix->sink, &fix->err), &fix->err);
}

void sink_fix_done(struct sink_fix *fix)
{
    sink_close(fix->sink);
    sink_fix_raw_close(fix);
    buf_done(&fix->text);
}

static void run_one(void (*fn)(struct sink_fix *fix), enum sink_fix_kind kind)
{
    struct sink_fix fix;
    sink_fix_init(&fix, kind);
    fn(&fix);
    sink_fix_done(&fix);
}

void sink_fix_each(void (*fn)(struct sink_fix *fix))
{
    run_one(fn, SINK_FIX_SQLITE);
    run_one(fn, SINK_FIX_MYSQL);
}

void sink_fix_mysql(void (*fn)(struct sink_fix *fix))
{
    run_one(fn, SINK_FIX_MYSQL);
}

void sink_fix_sqlite(void (*fn)(struct sink_fix *fix))
{
    run_one(fn, SINK_FIX_SQLITE);
}

/* ---- landing and reading ---- */

struct sink_cell sink_fix_cell(const char *text)
{
    if (strcmp(text, "-") == 0)
        return (struct sink_cell){.kind = SINK_NULL};
    if (*text == '#')
        return (struct sink_cell){.kind = SINK_INT, .number = strtoll(text + 1, NULL, 10)};
    return (struct sink_cell){.kind = SINK_BYTES, .bytes = bytes_of(text, strlen(text))};
}

/* "k +v" as places in a table. */
static size_t find_columns(const struct sink_table *table, const char *columns, size_t *place,
                           enum sink_use *use)
{
    size_t count = 0;
    while (*columns) {
        bool is_kept = *columns == '+';
        columns += is_kept;
        struct bytes name = bytes_of(columns, strcspn(columns, " "));
        for (place[count] = 0; place[count] < table->column_count; place[count]++)
            if (bytes_eq(table->column[place[count]].name, name))
                break;
        if (place[count] == table->column_count || count == FIX_COLUMNS_MAX)
            test_fail(__FILE__, __LINE__, "no column \"%s\"", columns);
        use[count++] = is_kept ? SINK_KEEP : SINK_SET;
        columns += name.len;
        columns += *columns == ' ';
    }
    return count;
}

enum rc sink_fix_land(struct sink_fix *fix, const struct sink_table *table, const char *columns,
                      const char *const *text, size_t row_count)
{
    size_t place[FIX_COLUMNS_MAX];
    enum sink_use use[FIX_COLUMNS_MAX];
    size_t count = find_columns(table, columns, place, use);
    struct sink_cell cell[FIX_CELLS_MAX];
    ASSERT_LE(count * row_count, FIX_CELLS_MAX);
    for (size_t i = 0; i < count * row_count; i++)
        cell[i] = sink_fix_cell(text[i]);
    const struct sink_change change = {.table = table,
                                       .kind = SINK_UPSERT,
                                       .upsert = {.column = place,
                                                  .use = use,
                                                  .column_count = count,
                                                  .cell = cell,
                                                  .row_count = row_count}};
    return sink_land(fix->sink, &change, 1, NULL, &fix->err);
}

enum rc sink_fix_put(struct sink_fix *fix, const char *key, const char *value, int64_t version)
{
    char number[32];
    snprintf(number, sizeof number, "#%lld", (long long)version);
    const char *row[] = {key, value, number, "#1", "o"};
    return sink_fix_land(fix, &sink_fix_small, "k v up_version +made owner", row, 1);
}

struct read_rows {
    struct sink_fix *fix;
    size_t count;
    bool is_next;
};

static enum rc add_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct read_rows *read = arg;
    char number[32];
    (void)err;
    for (size_t i = 0; i < read->count; i++) {
        int len = snprintf(number, sizeof number, "#%lld", (long long)cell[i].number);
        const char *text = cell[i].kind == SINK_INT     ? number
                           : cell[i].kind == SINK_BYTES ? (const char *)cell[i].bytes.ptr
                                                        : NULL;
        add_value(read->fix, (unsigned)i, !read->is_next, text,
                  cell[i].kind == SINK_INT ? (size_t)len : cell[i].bytes.len);
    }
    read->is_next = true;
    return RC_OK;
}

const char *sink_fix_rows(struct sink_fix *fix, const struct sink_table *table, const char *columns)
{
    size_t place[FIX_COLUMNS_MAX];
    enum sink_use use[FIX_COLUMNS_MAX];
    struct read_rows read = {.fix = fix, .count = find_columns(table, columns, place, use)};
    const struct sink_query query = {.table = table, .column = place, .column_count = read.count};
    buf_cut(&fix->text, 0);
    ASSERT_OK(sink_select(fix->sink, &query, add_row, &read, &fix->err), &fix->err);
    add_text(fix, "", 1);
    return (const char *)fix->text.ptr;
}

// SPDX-License-Identifier: Apache-2.0
/* sink_mysql_read.c - reading from MySQL: rows as they come, and what the server says about a
 * table. */
#include <mariadb/mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/landing/sink_mysql_int.h"

#include "base/banned.h"

enum { CELL_BYTES_LEAST = 256 };

/* ---- rows ---- */

struct reader { /* one a column */
    uint8_t *ptr;
    unsigned long cap;
    unsigned long len;
    int64_t number;
    my_bool is_null;
    my_bool is_cut;
    bool is_number;
};

static void reader_bind(struct reader *reader, MYSQL_BIND *bind)
{
    *bind = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_STRING,
                         .buffer = reader->ptr,
                         .buffer_length = reader->cap,
                         .length = &reader->len,
                         .is_null = &reader->is_null,
                         .error = &reader->is_cut};
    if (reader->is_number) {
        bind->buffer_type = MYSQL_TYPE_LONGLONG;
        bind->buffer = &reader->number;
        bind->buffer_length = sizeof reader->number;
    }
}

/* A value longer than its buffer is fetched again into one that holds it. */
static enum rc fetch_long(struct sink_mysql *mysql, MYSQL_STMT *stmt, struct reader *reader,
                          MYSQL_BIND *bind, unsigned column, struct err *err)
{
    unsigned long cap = reader->len > 2 * reader->cap ? reader->len : 2 * reader->cap;
    uint8_t *ptr = mem_try_alloc(cap);
    if (!ptr)
        return err_set(err, RC_NOMEM, "could not allocate %lu bytes", cap);
    mem_free(reader->ptr);
    reader->ptr = ptr;
    reader->cap = cap;
    reader_bind(reader, bind);
    if (mysql_stmt_fetch_column(stmt, bind, column, 0) != 0)
        return sink__mysql_fail(mysql, stmt, "read from", err);
    return RC_OK;
}

static enum rc read_row(struct sink_mysql *mysql, MYSQL_STMT *stmt, struct reader *reader,
                        MYSQL_BIND *bind, struct sink_cell *cell, size_t count, struct err *err)
{
    bool has_grown = false;
    for (size_t i = 0; i < count; i++) {
        if (reader[i].is_null) {
            cell[i] = (struct sink_cell){.kind = SINK_NULL};
            continue;
        }
        if (reader[i].is_number) {
            cell[i] = (struct sink_cell){.kind = SINK_INT, .number = reader[i].number};
            continue;
        }
        if (reader[i].len > reader[i].cap) {
            enum rc rc = fetch_long(mysql, stmt, &reader[i], &bind[i], (unsigned)i, err);
            if (rc != RC_OK)
                return rc;
            has_grown = true;
        }
        cell[i] =
            (struct sink_cell){.kind = SINK_BYTES, .bytes = bytes_of(reader[i].ptr, reader[i].len)};
    }
    if (has_grown && mysql_stmt_bind_result(stmt, bind) != 0)
        return sink__mysql_fail(mysql, stmt, "read from", err);
    return RC_OK;
}

struct row_buffers {
    struct reader *reader;
    MYSQL_BIND *bind;
    struct sink_cell *cell;
    size_t count;
};

static void buffers_init(struct row_buffers *buffers, const struct mysql_rows *rows,
                         MYSQL_RES *meta)
{
    size_t count = buffers->count = mysql_num_fields(meta);
    const MYSQL_FIELD *field = mysql_fetch_fields(meta);
    buffers->reader = mem_zalloc(count * sizeof *buffers->reader);
    buffers->bind = mem_alloc(count * sizeof *buffers->bind);
    buffers->cell = mem_alloc(count * sizeof *buffers->cell);
    for (size_t i = 0; i < count; i++) {
        struct reader *reader = &buffers->reader[i];
        reader->is_number =
            rows->type && rows->type[i] == SINK_BIGINT &&
            (field[i].type == MYSQL_TYPE_LONGLONG || field[i].type == MYSQL_TYPE_LONG) &&
            !(field[i].flags & UNSIGNED_FLAG);
        reader->cap = CELL_BYTES_LEAST;
        reader->ptr = mem_alloc(reader->cap);
        reader_bind(reader, &buffers->bind[i]);
    }
}

static void buffers_done(struct row_buffers *buffers)
{
    for (size_t i = 0; i < buffers->count; i++)
        mem_free(buffers->reader[i].ptr);
    mem_free(buffers->reader);
    mem_free(buffers->bind);
    mem_free(buffers->cell);
}

static enum rc read_rows(struct sink_mysql *mysql, const struct mysql_rows *rows,
                         struct row_buffers *buffers, struct err *err)
{
    if (mysql_stmt_bind_result(rows->stmt, buffers->bind) != 0)
        return sink__mysql_fail(mysql, rows->stmt, "read from", err);
    for (;;) {
        int code = mysql_stmt_fetch(rows->stmt);
        if (code == MYSQL_NO_DATA)
            return RC_OK;
        if (code != 0 && code != MYSQL_DATA_TRUNCATED)
            return sink__mysql_fail(mysql, rows->stmt, "read from", err);
        enum rc rc = read_row(mysql, rows->stmt, buffers->reader, buffers->bind, buffers->cell,
                              buffers->count, err);
        if (rc == RC_OK)
            rc = rows->fn(rows->arg, buffers->cell, err);
        if (rc != RC_OK) {
            sink__mysql_disconnect(mysql, true);
            return rc;
        }
    }
}

enum rc sink__mysql_rows(struct sink_mysql *mysql, const struct mysql_rows *rows, struct err *err)
{
    MYSQL_RES *meta = mysql_stmt_result_metadata(rows->stmt);
    if (!meta)
        return sink__mysql_fail(mysql, rows->stmt, "read from", err);
    struct row_buffers buffers;
    buffers_init(&buffers, rows, meta);
    mysql_free_result(meta);
    enum rc rc = read_rows(mysql, rows, &buffers, err);
    if (mysql->mysql)
        mysql_stmt_free_result(rows->stmt);
    buffers_done(&buffers);
    return rc;
}

/* ---- declarations ---- */

struct define { /* a table while its columns are read */
    struct sink_def *def;
    size_t key_count;
    bool has_other_unique;
};

enum {
    COL_NAME,
    COL_DATA,
    COL_TYPE,
    COL_NULL,
    COL_CHARS,
    COL_BYTES,
    COL_PRECISION,
    COL_SCALE,
    COL_FRACTION,
    COL_COLLATION,
    COL_KEY,
    COL_EXTRA
};
static const char columns_sql[] =
    "SELECT COLUMN_NAME,DATA_TYPE,COLUMN_TYPE,IS_NULLABLE,CHARACTER_MAXIMUM_LENGTH,"
    "CHARACTER_OCTET_LENGTH,NUMERIC_PRECISION,NUMERIC_SCALE,DATETIME_PRECISION,COLLATION_NAME,"
    "COLUMN_KEY,EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() AND "
    "TABLE_NAME=?"
    " ORDER BY ORDINAL_POSITION";

static uint64_t number_of(const struct sink_cell *cell)
{
    uint64_t value = 0;
    for (size_t i = 0; cell->kind == SINK_BYTES && i < cell->bytes.len; i++)
        if (cell->bytes.ptr[i] >= '0' && cell->bytes.ptr[i] <= '9')
            value = value * 10 + (uint64_t)(cell->bytes.ptr[i] - '0');
    return value;
}

static bool is_word(const struct sink_cell *cell, const char *word)
{
    return cell->kind == SINK_BYTES && bytes_eq(cell->bytes, bytes_of(word, strlen(word)));
}

static bool has_text(const struct sink_cell *cell, const char *text)
{
    return cell->kind == SINK_BYTES && cell->bytes.len &&
           memmem(cell->bytes.ptr, cell->bytes.len, text, strlen(text));
}

/* 10 of "int(10) unsigned zerofill". */
static unsigned declared_width(struct bytes type)
{
    const uint8_t *at = memchr(type.ptr, '(', type.len), *end = type.ptr + type.len;
    unsigned width = 0;
    if (!at)
        return 1;
    for (at++; at < end && *at >= '0' && *at <= '9' && width <= UINT8_MAX; at++)
        width = 10 * width + (*at - (unsigned)'0');
    return width;
}

static bool declare_int(struct sink_decl *decl, const struct sink_cell *cell)
{
    static const struct {
        const char *name;
        unsigned bits;
    } ints[] = {{"tinyint", 8}, {"smallint", 16}, {"mediumint", 24}, {"int", 32}, {"bigint", 64}};
    for (size_t i = 0; i < ARRAY_LEN(ints); i++) {
        if (!is_word(&cell[COL_DATA], ints[i].name))
            continue;
        unsigned bits = ints[i].bits;
        decl->kind = DECL_INT;
        decl->is_unsigned = has_text(&cell[COL_TYPE], "unsigned");
        decl->min = decl->is_unsigned ? 0 : -(int64_t)((uint64_t)1 << (bits - 2)) * 2;
        decl->max = UINT64_MAX >> (64 - bits + !decl->is_unsigned);
        if (has_text(&cell[COL_TYPE], "zerofill"))
            decl->fill_width = declared_width(cell[COL_TYPE].bytes);
        if (bits == 64 && !decl->is_unsigned)
            decl->type = SINK_BIGINT;
        return true;
    }
    return false;
}

/* Collations that compare bytes: the old _bin ones ignore spaces at the end. */
static bool is_byte_collation(const struct sink_cell *cell)
{
    return has_text(cell, "nopad_bin") || has_text(cell, "0900_bin");
}

static bool declare_text(struct sink_decl *decl, const struct sink_cell *cell)
{
    static const char *const texts[] = {"char", "varchar",    "tinytext",
                                        "text", "mediumtext", "longtext"};
    static const char *const blobs[] = {"binary", "varbinary",  "tinyblob",
                                        "blob",   "mediumblob", "longblob"};
    decl->chars_max = number_of(&cell[COL_CHARS]);
    decl->bytes_max = number_of(&cell[COL_BYTES]);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (is_word(&cell[COL_DATA], texts[i])) {
            bool is_utf8mb4 = has_text(&cell[COL_COLLATION], "utf8mb4");
            decl->kind = DECL_TEXT;
            decl->is_padded = i == 0;
            decl->is_byte_ordered = is_byte_collation(&cell[COL_COLLATION]);
            if (i > 1)
                decl->chars_max = decl->bytes_max; /* a limit of bytes only */
            else if (!has_text(&cell[COL_COLLATION], "utf8"))
                decl->bytes_max = UINT64_MAX; /* counted in another character set than ours */
            if (i == 5 && is_utf8mb4)
                decl->type = SINK_TEXT;
            if (i == 1 && is_utf8mb4 && decl->is_byte_ordered &&
                decl->chars_max >= SINK_KEY_CHARS_MAX)
                decl->type = SINK_KEY;
            return true;
        }
        if (is_word(&cell[COL_DATA], blobs[i])) {
            decl->kind = DECL_BYTES;
            decl->is_padded = i == 0;
            decl->is_byte_ordered = true;
            decl->type = i == 5 ? SINK_BLOB : SINK_OTHER;
            return true;
        }
    }
    return false;
}

static bool declare_real(struct sink_decl *decl, const struct sink_cell *cell)
{
    bool is_float = is_word(&cell[COL_DATA], "float"),
         is_double = is_word(&cell[COL_DATA], "double");
    if (!is_float && !is_double && !is_word(&cell[COL_DATA], "decimal"))
        return false;
    decl->kind = is_float || is_double ? DECL_FLOAT : DECL_DECIMAL;
    decl->digits = is_float ? 6 : 15;
    decl->precision = (unsigned)number_of(&cell[COL_PRECISION]);
    decl->has_scale = cell[COL_SCALE].kind == SINK_BYTES;
    decl->scale = (unsigned)number_of(&cell[COL_SCALE]);
    decl->is_unsigned = has_text(&cell[COL_TYPE], "unsigned");
    decl->fill_width = has_text(&cell[COL_TYPE], "zerofill") ? decl->precision : 0;
    return true;
}

static void declare_rest(struct sink_decl *decl, const struct sink_cell *cell)
{
    static const struct {
        const char *name;
        enum sink_decl_kind kind;
    } kinds[] = {{"date", DECL_DATE}, {"datetime", DECL_DATETIME}, {"timestamp", DECL_DATETIME},
                 {"time", DECL_TIME}, {"year", DECL_YEAR},         {"enum", DECL_ENUM},
                 {"set", DECL_SET},   {"uuid", DECL_UUID}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (is_word(&cell[COL_DATA], kinds[i].name))
            decl->kind = kinds[i].kind;
    decl->scale = (unsigned)number_of(&cell[COL_FRACTION]);
    if (decl->kind != DECL_ENUM && decl->kind != DECL_SET)
        return;
    const char *open = strchr(decl->declared, '(');
    const char *close = strrchr(decl->declared, ')');
    if (!open || !close || close < open) {
        decl->kind = DECL_IMPOSSIBLE;
        return;
    }
    size_t len = (size_t)(close - open - 1);
    decl->members = mem_alloc(len + 1);
    memcpy(decl->members, open + 1, len);
    decl->members[len] = '\0';
}

static enum rc add_column(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct define *define = arg;
    struct bytes type = cell[COL_TYPE].bytes;
    if (define->def->decl_count == SINK_COLUMNS_MAX)
        return err_set(err, RC_INVALID, "the table has more than %d columns", SINK_COLUMNS_MAX);
    char *declared = mem_alloc(type.len + 1);
    memcpy(declared, type.ptr, type.len);
    declared[type.len] = '\0';
    struct sink_decl *decl = sink__def_add(define->def, cell[COL_NAME].bytes, declared);
    mem_free(declared);
    decl->is_nullable = is_word(&cell[COL_NULL], "YES");
    decl->is_indexed = cell[COL_KEY].kind == SINK_BYTES && cell[COL_KEY].bytes.len > 0;
    decl->is_automatic = has_text(&cell[COL_EXTRA], "on update");
    decl->is_generated = has_text(&cell[COL_EXTRA], "VIRTUAL") ||
                         has_text(&cell[COL_EXTRA], "STORED") ||
                         has_text(&cell[COL_EXTRA], "PERSISTENT");
    if (!declare_int(decl, cell) && !declare_real(decl, cell) && !declare_text(decl, cell))
        declare_rest(decl, cell);
    if (is_word(&cell[COL_KEY], "PRI")) {
        define->def->key = define->def->decl_count - 1;
        define->key_count++;
    }
    return RC_OK;
}

/* ON DUPLICATE KEY UPDATE goes for every unique index, and for a part of a column if one has it. */
static const char unique_sql[] =
    "SELECT INDEX_NAME,SUB_PART FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE()"
    " AND TABLE_NAME=? AND NON_UNIQUE=0";

static enum rc add_unique(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct define *define = arg;
    (void)err;
    if (!is_word(&cell[0], "PRIMARY") || cell[1].kind != SINK_NULL)
        define->has_other_unique = true;
    return RC_OK;
}

static const char engine_sql[] =
    "SELECT e.TRANSACTIONS FROM information_schema.TABLES t JOIN information_schema.ENGINES e"
    " ON e.ENGINE=t.ENGINE WHERE t.TABLE_SCHEMA=DATABASE() AND t.TABLE_NAME=?";

static enum rc check_engine(void *arg, const struct sink_cell *cell, struct err *err)
{
    const struct define *define = arg;
    if (!is_word(&cell[0], "YES"))
        return err_set(err, RC_INVALID, "table \"%.*s\" is of an engine without transactions",
                       (int)define->def->name.len, (const char *)define->def->name.ptr);
    return RC_OK;
}

static enum rc ask_of(struct sink_mysql *mysql, const char *sql, struct bytes name, sink_row_fn *fn,
                      void *arg, struct err *err)
{
    MYSQL_STMT *stmt;
    MYSQL_BIND bind;
    const struct sink_bound bound = {.bind = SINK_BIND_TEXT, .bytes = name};
    buf_cut(&mysql->sql, 0);
    enum rc rc = sink__mysql_prepare(mysql, buf_add(&mysql->sql, sql, strlen(sql)), &stmt, err);
    if (rc != RC_OK)
        return rc;
    sink__mysql_bind(&bind, &bound);
    rc = sink__mysql_execute(mysql, stmt, &bind, "read the columns of", err);
    const struct mysql_rows rows = {.stmt = stmt, .fn = fn, .arg = arg};
    return rc == RC_OK ? sink__mysql_rows(mysql, &rows, err) : rc;
}

static enum rc read_def(struct sink_mysql *mysql, struct define *define, struct err *err)
{
    struct sink_def *def = define->def;
    enum rc rc = ask_of(mysql, columns_sql, def->name, add_column, define, err);
    if (rc == RC_OK && def->decl_count == 0)
        return err_set(err, RC_NOT_FOUND, "no such table: \"%.*s\"", (int)def->name.len,
                       (const char *)def->name.ptr);
    if (rc == RC_OK && define->key_count != 1)
        return err_set(err, RC_INVALID, "table \"%.*s\" has no primary key of one column",
                       (int)def->name.len, (const char *)def->name.ptr);
    if (rc == RC_OK)
        rc = ask_of(mysql, engine_sql, def->name, check_engine, define, err);
    if (rc == RC_OK)
        rc = ask_of(mysql, unique_sql, def->name, add_unique, define, err);
    if (rc == RC_OK)
        def->has_shared_keys =
            define->has_other_unique || sink__decl_is_loose(&def->decl[def->key]);
    return rc;
}

enum rc sink__mysql_define(struct sink *sink, struct bytes name, const struct sink_def **ret_def,
                           struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    struct define define = {.def = sink__def_new(name)};
    enum rc rc = read_def(mysql, &define, err);
    if (rc != RC_OK) {
        sink__def_free(define.def);
        return rc;
    }
    sink__defs_put(&mysql->defs, define.def);
    *ret_def = define.def;
    return RC_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3; /* as FNV-1a does with bytes */
}

static uint64_t fingerprint(MYSQL_RES *res)
{
    uint64_t hash = 0xcbf29ce484222325;
    const MYSQL_FIELD *field = mysql_fetch_fields(res);
    for (unsigned i = 0; i < mysql_num_fields(res); i++) {
        for (const char *c = field[i].name; *c; c++)
            hash = mix(hash, (uint8_t)*c);
        hash = mix(mix(hash, field[i].type), field[i].length);
        hash = mix(mix(mix(hash, field[i].decimals), field[i].flags), field[i].charsetnr);
    }
    return hash;
}

/* What is remembered of a table may be old, and a type that has changed would make values inexact.
 * Reading no row of it gives its columns, and holds the table as it is until the transaction ends.
 */
enum rc sink__mysql_define_locked(struct sink_mysql *mysql, struct bytes name,
                                  const struct sink_def **ret_def, struct err *err)
{
    struct sink_def *def = sink__defs_find(&mysql->defs, name);
    if (def && def->checked_in == mysql->transaction) {
        *ret_def = def;
        return RC_OK;
    }
    buf_cut(&mysql->sql, 0);
    bool is_built = buf_add(&mysql->sql, "SELECT * FROM ", 14) &&
                    sink__sql_name(&mysql->sql, &mysql->dialect, name) &&
                    buf_add(&mysql->sql, " LIMIT 0", 8);
    enum rc rc = sink__mysql_run_built(mysql, is_built, "look at a table of", err);
    if (rc != RC_OK)
        return rc;
    MYSQL_RES *res = mysql_store_result(mysql->mysql);
    if (!res)
        return sink__mysql_fail(mysql, NULL, "look at a table of", err);
    uint64_t hash = fingerprint(res);
    mysql_free_result(res);
    if (!def || def->fingerprint != hash) {
        const struct sink_def *fresh;
        rc = sink__mysql_define(&mysql->sink, name, &fresh, err);
        if (rc != RC_OK)
            return rc;
        def = sink__defs_find(&mysql->defs, name);
    }
    def->fingerprint = hash;
    def->checked_in = mysql->transaction;
    *ret_def = def;
    return RC_OK;
}

enum rc sink__mysql_describe(struct sink *sink, struct bytes name, const struct sink_def **ret_def,
                             struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    mysql->transaction++; /* what was compared before does not count */
    return sink__mysql_define_locked(mysql, name, ret_def, err);
}

/* ---- queries ---- */

/* Types that the client would write in another way than the server does. */
static bool needs_cast(const struct sink_decl *decl)
{
    switch (decl->kind) {
    case DECL_FLOAT:
    case DECL_DATE:
    case DECL_DATETIME:
    case DECL_TIME:
    case DECL_YEAR:
        return true;
    default:
        return decl->fill_width > 0;
    }
}

/* The same of what the server says with its rows, which is never old. */
static bool is_of_cast(const MYSQL_FIELD *field)
{
    switch (field->type) {
    case MYSQL_TYPE_FLOAT:
    case MYSQL_TYPE_DOUBLE:
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_NEWDATE:
    case MYSQL_TYPE_TIME:
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_TIMESTAMP:
    case MYSQL_TYPE_YEAR:
        return true;
    default:
        return (field->flags & ZEROFILL_FLAG) != 0;
    }
}

struct filter { /* leaves the column `where` out, and rows equal in a collation only */
    const struct sink_query *query;
    sink_row_fn *fn;
    void *arg;
};

static enum rc filter_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    const struct filter *filter = arg;
    if (filter->query->value_count &&
        !sink__query_has(filter->query, &cell[filter->query->column_count]))
        return RC_OK;
    return filter->fn(filter->arg, cell, err);
}

static void bind_query(const struct sink_query *query, const struct sink_select *select,
                       const struct sink_decl *where, struct sink_bound *bound, MYSQL_BIND *bind)
{
    for (size_t i = 0; i < select->in_count; i++) {
        struct sink_cell cell = {.kind = SINK_BYTES};
        if (i < query->value_count)
            cell.bytes = query->value[i];
        /* NULL is equal to nothing: it stands for values that do not fit, and are in no row, and
         * for those that are not there. */
        if (i >= query->value_count || sink__fit(where, &cell, &bound[i], NULL) != RC_OK)
            bound[i].bind = SINK_BIND_NULL;
        sink__mysql_bind(&bind[i], &bound[i]);
    }
    if (select->in_count == 0) {
        bool is_text = !select->is_loose && where->kind == DECL_TEXT;
        bound[0].bind = is_text ? SINK_BIND_TEXT : SINK_BIND_BLOB;
        bound[0].bytes = query->after;
        sink__mysql_bind(&bind[0], &bound[0]);
    }
}

struct reading { /* a query, and what is known of its table */
    const struct sink_query *query;
    struct sink_select select;
    const struct sink_decl *where;
    const struct sink_decl **decl; /* of the wanted columns */
    bool *as_text;
    enum sink_type *type;
    bool is_known; /* not only remembered: compared with the table just now */
    bool is_stale; /* out: the table has changed, nothing was read */
};

/* With the declaration that is remembered, if it is good enough: a CAST of something that has
 * become binary would change it, so who needs one looks at the table first. */
static enum rc match_table(struct sink_mysql *mysql, struct reading *reading, struct err *err)
{
    const struct sink_query *query = reading->query;
    size_t where_column = query->value_count ? query->where : 0;
    const struct sink_def *def = sink__defs_find(&mysql->defs, query->table->name);
    enum rc rc = RC_OK;
    if (reading->is_known || !def) {
        mysql->transaction++;
        rc = sink__mysql_define_locked(mysql, query->table->name, &def, err);
        reading->is_known = true;
    }
    if (rc == RC_OK)
        rc = sink__def_match(def, query->table, &where_column, 1, &reading->where, err);
    if (rc == RC_OK)
        rc = sink__def_match(def, query->table, query->column, query->column_count, reading->decl,
                             err);
    bool is_cast = rc == RC_OK && reading->select.wants_where && needs_cast(reading->where);
    for (size_t i = 0; i < query->column_count && rc == RC_OK; i++) {
        reading->as_text[i] = needs_cast(reading->decl[i]);
        reading->type[i] = query->table->column[query->column[i]].type;
        is_cast = is_cast || reading->as_text[i];
    }
    if ((rc == RC_NOT_FOUND || is_cast) && !reading->is_known) {
        reading->is_known = true;
        return match_table(mysql, reading, err);
    }
    if (rc == RC_OK) {
        reading->as_text[query->column_count] = needs_cast(reading->where);
        reading->type[query->column_count] = SINK_OTHER;
        reading->select.is_loose = !reading->where->is_byte_ordered;
        reading->select.as_text = reading->as_text;
    }
    return rc;
}

/* Whether a column that is read as it is should have been cast. */
static enum rc check_fields(struct sink_mysql *mysql, MYSQL_STMT *stmt, struct reading *reading,
                            struct err *err)
{
    MYSQL_RES *meta = mysql_stmt_result_metadata(stmt);
    if (!meta)
        return sink__mysql_fail(mysql, stmt, "read from", err);
    const MYSQL_FIELD *field = mysql_fetch_fields(meta);
    for (unsigned i = 0; i < mysql_num_fields(meta); i++)
        if (!reading->as_text[i] && is_of_cast(&field[i]))
            reading->is_stale = true;
    mysql_free_result(meta);
    return RC_OK;
}

static enum rc run_select(struct sink_mysql *mysql, struct reading *reading,
                          const struct filter *filter, struct err *err)
{
    const struct sink_query *query = reading->query;
    const struct sink_select *select = &reading->select;
    size_t params = select->in_count ? select->in_count : 1;
    struct sink_bound *bound = mem_alloc(params * sizeof *bound);
    MYSQL_BIND *bind = mem_alloc(params * sizeof *bind);
    MYSQL_STMT *stmt;
    buf_cut(&mysql->sql, 0);
    enum rc rc = sink__mysql_prepare(mysql, sink__sql_select(&mysql->sql, &mysql->dialect, select),
                                     &stmt, err);
    if (rc == RC_OK) {
        bind_query(query, select, reading->where, bound, bind);
        rc = sink__mysql_execute(mysql, stmt, select->in_count || query->has_after ? bind : NULL,
                                 "read from", err);
    }
    if (rc == RC_OK)
        rc = check_fields(mysql, stmt, reading, err);
    if (rc == RC_OK && reading->is_stale)
        sink__mysql_disconnect(mysql, true); /* there may be a lot to read */
    if (rc == RC_OK && !reading->is_stale) {
        const struct mysql_rows rows = {
            .stmt = stmt, .type = reading->type, .fn = filter_row, .arg = (void *)filter};
        rc = sink__mysql_rows(mysql, &rows, err);
    }
    mem_free(bind);
    mem_free(bound);
    return rc;
}

enum rc sink__mysql_select(struct sink *sink, const struct sink_query *query, sink_row_fn *fn,
                           void *arg, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    size_t columns = query->column_count + 1;
    const struct filter filter = {query, fn, arg};
    struct reading reading = {.query = query,
                              .select = {.query = query,
                                         .in_count = sink__in_count(query->value_count),
                                         .wants_where = query->value_count > 0},
                              .decl = mem_alloc(columns * sizeof *reading.decl),
                              .as_text = mem_zalloc(columns * sizeof *reading.as_text),
                              .type = mem_alloc(columns * sizeof *reading.type)};
    enum rc rc = match_table(mysql, &reading, err);
    if (rc == RC_OK)
        rc = run_select(mysql, &reading, &filter, err);
    if (rc == RC_OK && reading.is_stale) {
        reading.is_stale = false;
        reading.is_known = true;
        rc = sink__connect(sink, err);
        if (rc == RC_OK)
            rc = match_table(mysql, &reading, err);
        if (rc == RC_OK)
            rc = run_select(mysql, &reading, &filter, err);
        if (rc == RC_OK && reading.is_stale)
            rc = err_set(err, RC_IO, "a table of \"%s\" changed while it was read", sink->name);
    }
    mem_free(reading.type);
    mem_free(reading.as_text);
    mem_free(reading.decl);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* sink_mysql_land.c - landing in MySQL: one transaction of statements with many rows each.
 *
 * ON DUPLICATE KEY UPDATE fires for any unique index, and for keys that the collation calls equal.
 * Where that can be, the keys are read again before the commit: each of them has to be there.
 * Versions are read again as well: how many rows were changed does not say whether all of them
 * were, unless all of them were there before. */
#include <mariadb/mysqld_error.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "models/landing/sink_mysql_int.h"

#include "base/banned.h"

enum {
    LAND_ATTEMPTS_MAX = 6,
    LAND_WAITS_MAX = 2,            /* attempts that waited for a lock until the server gave up */
    BACKOFF_MS = 10,               /* doubled each time */
    PARAMS_MAX = 16 * 1024,        /* of one statement; the protocol allows 65535 */
    ROWS_MAX = 1024,               /* of one statement */
    PARAM_OVERHEAD_BYTES = 12,     /* type, length and NULL bit of a bound value */
    PACKET_RESERVE_BYTES = 256,    /* header of the packet */
    LONG_DATA_BYTES = 1024 * 1024, /* a piece of a long value */
};

/* ---- warnings ---- */

static bool is_harmless(unsigned number)
{
    enum { DEPRECATED = 1287, DEPRECATED_TOO = 1681, UNSAFE_FOR_BINLOG = 1592 };
    return number == DEPRECATED || number == DEPRECATED_TOO || number == UNSAFE_FOR_BINLOG;
}

/* Even in strict mode some values are cut with no more than a note. */
static enum rc check_warnings(struct sink_mysql *mysql, struct err *err)
{
    if (mysql_warning_count(mysql->mysql) == 0)
        return RC_OK;
    if (mysql_query(mysql->mysql, "SHOW WARNINGS") != 0)
        return sink__mysql_fail(mysql, NULL, "read the warnings of", err);
    MYSQL_RES *res = mysql_store_result(mysql->mysql);
    if (!res)
        return sink__mysql_fail(mysql, NULL, "read the warnings of", err);
    enum rc rc = RC_OK;
    MYSQL_ROW row;
    while (rc == RC_OK && (row = mysql_fetch_row(res))) {
        int64_t number = 0;
        (void)sink__parse_int(bytes_of(row[1], strlen(row[1])), &number);
        if (!is_harmless((unsigned)number))
            rc = err_set(err, RC_INVALID, "\"%s\" would not store a value exactly: %s (%s)",
                         mysql->sink.name, row[2] ? row[2] : "", row[1]);
    }
    mysql_free_result(res);
    return rc;
}

/* ---- a statement of some rows ---- */

struct batch {
    struct sink_mysql *mysql;
    const struct sink_table *table;
    const struct sink_def *def;
    const struct sink_upsert *upsert;
    const struct sink_decl **decl;
    struct sink_bound *bound; /* of the rows of one statement */
    MYSQL_BIND *bind;
    size_t rows_max;
    int64_t *newest; /* NULL: nobody asks */
};

static size_t cell_bytes(const struct sink_cell *cell)
{
    return PARAM_OVERHEAD_BYTES + (cell->kind == SINK_BYTES ? cell->bytes.len : 8);
}

static size_t row_bytes(const struct batch *batch, size_t row)
{
    size_t count = batch->upsert->column_count, bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += cell_bytes(&batch->upsert->cell[row * count + i]);
    return bytes;
}

/* How many rows the next statement takes: those that fit the packet, rounded down to a power of
 * two, so that few different statements are prepared. 0: not even one fits. */
static size_t choose_rows(const struct batch *batch, size_t row)
{
    size_t left = batch->upsert->row_count - row, count = 0, chosen = 0;
    size_t room = batch->mysql->packet_max - PACKET_RESERVE_BYTES;
    size_t wanted = left < batch->rows_max ? left : batch->rows_max;
    while (count < wanted) {
        size_t bytes = row_bytes(batch, row + count);
        if (bytes > room)
            break;
        room -= bytes;
        count++;
        if ((count & (count - 1)) == 0)
            chosen = count;
    }
    return count == batch->rows_max ? count : chosen;
}

static enum rc bind_rows(struct batch *batch, size_t row, size_t row_count, struct err *err)
{
    size_t count = batch->upsert->column_count;
    const struct sink_cell *cell = &batch->upsert->cell[row * count];
    for (size_t i = 0; i < row_count * count; i++) {
        enum rc rc = sink__fit(batch->decl[i % count], &cell[i], &batch->bound[i], err);
        if (rc != RC_OK)
            return rc;
        sink__mysql_bind(&batch->bind[i], &batch->bound[i]);
    }
    return RC_OK;
}

/* A row that is larger than a packet: its long values are sent before it, in pieces. */
static enum rc send_long(struct batch *batch, MYSQL_STMT *stmt, struct err *err)
{
    struct sink_mysql *mysql = batch->mysql;
    size_t piece_max =
        mysql->packet_max / 2 < LONG_DATA_BYTES ? mysql->packet_max / 2 : LONG_DATA_BYTES;
    if (mysql_stmt_bind_param(stmt, batch->bind) != 0)
        return sink__mysql_fail(mysql, stmt, "write to", err);
    for (size_t i = 0; i < batch->upsert->column_count; i++) {
        const struct sink_bound *bound = &batch->bound[i];
        bool is_bytes = bound->bind == SINK_BIND_TEXT || bound->bind == SINK_BIND_BLOB;
        if (!is_bytes || bound->bytes.len < PACKET_RESERVE_BYTES)
            continue;
        if (bound->bytes.len >= mysql->packet_max)
            return err_set(err, RC_INVALID,
                           "a value of %zu bytes is longer than max_allowed_packet (%zu) of \"%s\"",
                           bound->bytes.len, mysql->packet_max, mysql->sink.name);
        for (size_t at = 0; at < bound->bytes.len; at += piece_max) {
            size_t left = bound->bytes.len - at;
            if (mysql_stmt_send_long_data(stmt, (unsigned)i, (const char *)bound->bytes.ptr + at,
                                          left < piece_max ? left : piece_max) != 0)
                return sink__mysql_fail(mysql, stmt, "write to", err);
        }
    }
    if (mysql_stmt_execute(stmt) != 0)
        return sink__mysql_fail(mysql, stmt, "write to", err);
    return RC_OK;
}

/* ---- what is there now ---- */

struct rows_check { /* of the rows of one statement */
    struct batch *batch;
    size_t row, row_count;
    size_t found;
};

static const struct sink_cell *key_of(const struct rows_check *check, size_t i)
{
    const struct sink_upsert *upsert = check->batch->upsert;
    return &upsert->cell[(check->row + i) * upsert->column_count];
}

/* Which row has this key, byte by byte; row_count: none. Keys that are bytes are in order. */
static size_t row_find(const struct rows_check *check, const struct sink_cell *key)
{
    size_t low = 0, high = check->row_count;
    if (key->kind == SINK_INT) {
        while (low < high && key_of(check, low)->number != key->number)
            low++;
        return low;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = bytes_cmp(key_of(check, middle)->bytes, key->bytes);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return check->row_count;
}

static enum rc check_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct rows_check *check = arg;
    struct batch *batch = check->batch;
    (void)err;
    if (cell[0].kind != key_of(check, 0)->kind)
        return RC_OK;
    size_t row = row_find(check, &cell[0]);
    if (row == check->row_count)
        return RC_OK;
    check->found++;
    if (!batch->newest || cell[1].kind == SINK_NULL)
        return RC_OK;
    int64_t version = sink_cell_version(&cell[1]);
    if (version > sink__row_version(batch->table, batch->upsert, check->row + row) &&
        version > *batch->newest)
        *batch->newest = version;
    return RC_OK;
}

static int64_t oldest_version(const struct rows_check *check)
{
    const struct batch *batch = check->batch;
    int64_t oldest = INT64_MAX;
    for (size_t i = 0; i < check->row_count; i++) {
        int64_t version = sink__row_version(batch->table, batch->upsert, check->row + i);
        oldest = version < oldest ? version : oldest;
    }
    return oldest;
}

/* Where keys may be shared each of them has to be there; otherwise only those are asked for that
 * may be newer. What was taken has the version that it was given. */
static enum rc check_rows(struct batch *batch, size_t row, size_t row_count, struct err *err)
{
    struct sink_mysql *mysql = batch->mysql;
    struct rows_check check = {.batch = batch, .row = row, .row_count = row_count};
    const size_t column[] = {0, batch->table->version};
    const bool is_shared = batch->def->has_shared_keys;
    const bool as_text[] = {batch->decl[0]->kind != DECL_INT && batch->decl[0]->kind != DECL_TEXT &&
                                batch->decl[0]->kind != DECL_BYTES,
                            false};
    const struct sink_query query = {
        .table = batch->table, .column = column, .column_count = ARRAY_LEN(column)};
    const struct sink_select select = {.query = &query,
                                       .in_count = row_count,
                                       .as_text = as_text,
                                       .is_newer = !is_shared,
                                       .locks = true};
    const enum sink_type type[] = {key_of(&check, 0)->kind == SINK_INT ? SINK_BIGINT : SINK_OTHER,
                                   SINK_BIGINT};
    const struct sink_bound oldest = {.bind = SINK_BIND_INT, .number = oldest_version(&check)};
    MYSQL_STMT *stmt;
    MYSQL_BIND *bind = mem_alloc((row_count + 1) * sizeof *bind);
    for (size_t i = 0; i < row_count; i++)
        bind[i] = batch->bind[i * batch->upsert->column_count];
    sink__mysql_bind(&bind[row_count], &oldest);
    buf_cut(&mysql->sql, 0);
    enum rc rc = sink__mysql_prepare(mysql, sink__sql_select(&mysql->sql, &mysql->dialect, &select),
                                     &stmt, err);
    if (rc == RC_OK)
        rc = sink__mysql_execute(mysql, stmt, bind, "read the versions of", err);
    if (rc == RC_OK) {
        const struct mysql_rows rows = {.stmt = stmt, .type = type, .fn = check_row, .arg = &check};
        rc = sink__mysql_rows(mysql, &rows, err);
    }
    mem_free(bind);
    if (rc == RC_OK && is_shared && check.found != row_count)
        return err_set(err, RC_INVALID,
                       "table \"%.*s\": another row is equal in a unique index or a collation",
                       (int)batch->table->name.len, (const char *)batch->table->name.ptr);
    return rc;
}

/* ---- changes ---- */

static enum rc land_rows(struct batch *batch, size_t row, size_t row_count, bool is_long,
                         struct err *err)
{
    struct sink_mysql *mysql = batch->mysql;
    MYSQL_STMT *stmt;
    enum rc rc = bind_rows(batch, row, row_count, err);
    if (rc != RC_OK)
        return rc;
    buf_cut(&mysql->sql, 0);
    bool is_built =
        sink__sql_upsert(&mysql->sql, &mysql->dialect, batch->table, batch->upsert, row_count);
    rc = sink__mysql_prepare(mysql, is_built, &stmt, err);
    if (rc != RC_OK)
        return rc;
    rc = is_long ? send_long(batch, stmt, err)
                 : sink__mysql_execute(mysql, stmt, batch->bind, "write to", err);
    if (rc != RC_OK && is_long && mysql->mysql)
        mysql_stmt_reset(stmt); /* forgets the pieces */
    if (rc != RC_OK)
        return rc;
    /* 0: as it was, 1: inserted, 2: updated; a row that is taken changes at least its version. */
    uint64_t changed = mysql_stmt_affected_rows(stmt);
    bool all_taken = changed == 2 * row_count || (changed == 1 && row_count == 1);
    rc = check_warnings(mysql, err);
    if (rc == RC_OK && (batch->def->has_shared_keys || (batch->newest && !all_taken)))
        rc = check_rows(batch, row, row_count, err);
    return rc;
}

static enum rc land_upsert(struct sink_mysql *mysql, const struct sink_def *def,
                           const struct sink_change *change, int64_t *newest, struct err *err)
{
    const struct sink_upsert *upsert = &change->upsert;
    size_t rows_max = PARAMS_MAX / upsert->column_count;
    struct batch batch = {
        .mysql = mysql, .table = change->table, .def = def, .upsert = upsert, .newest = newest};
    batch.rows_max = rows_max < 1 ? 1 : rows_max < ROWS_MAX ? rows_max : ROWS_MAX;
    size_t rows = upsert->row_count < batch.rows_max ? upsert->row_count : batch.rows_max;
    batch.decl = mem_alloc(upsert->column_count * sizeof *batch.decl);
    batch.bound = mem_alloc(rows * upsert->column_count * sizeof *batch.bound);
    batch.bind = mem_alloc(rows * upsert->column_count * sizeof *batch.bind);
    enum rc rc =
        sink__def_match(def, change->table, upsert->column, upsert->column_count, batch.decl, err);
    for (size_t row = 0; row < upsert->row_count && rc == RC_OK;) {
        size_t count = choose_rows(&batch, row);
        rc = land_rows(&batch, row, count ? count : 1, count == 0, err);
        row += count ? count : 1;
    }
    mem_free(batch.bind);
    mem_free(batch.bound);
    mem_free(batch.decl);
    return rc;
}

static enum rc fit_sweep(const struct sink_decl **decl, const struct sink_decl *where,
                         const struct sink_sweep *sweep, struct sink_bound *bound, struct err *err)
{
    size_t count = sweep->column_count;
    enum rc rc = RC_OK;
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = sink__fit(decl[i], &sweep->cell[i], &bound[i], err);
    bound[count].bind = bound[count + 3].bind = SINK_BIND_INT;
    bound[count].number = bound[count + 3].number = sweep->version;
    if (rc == RC_OK)
        rc = sink__fit(where, &sweep->equals, &bound[count + 1], err);
    if (rc == RC_OK)
        rc = sink__fit(where, &sweep->equals, &bound[count + 2], err);
    bound[count + 2].bind = SINK_BIND_BLOB;
    return rc;
}

static enum rc land_sweep(struct sink_mysql *mysql, const struct sink_def *def,
                          const struct sink_change *change, struct err *err)
{
    const struct sink_sweep *sweep = &change->sweep;
    size_t count = sweep->column_count, bind_count = 0;
    const struct sink_decl **decl = mem_alloc((count + 1) * sizeof *decl);
    struct sink_bound *bound = mem_alloc((count + 4) * sizeof *bound);
    MYSQL_BIND *bind = mem_alloc((count + 4) * sizeof *bind);
    const struct sink_decl *where;
    MYSQL_STMT *stmt = NULL;
    enum rc rc = sink__def_match(def, change->table, &sweep->where, 1, &where, err);
    if (rc == RC_OK)
        rc = sink__def_match(def, change->table, sweep->column, count, decl, err);
    if (rc == RC_OK)
        rc = fit_sweep(decl, where, sweep, bound, err);
    if (rc == RC_OK) {
        bool is_loose = sink__decl_is_loose(where);
        for (size_t i = 0; i < count + 4; i++)
            if (i != count + 2 || is_loose)
                sink__mysql_bind(&bind[bind_count++], &bound[i]);
        buf_cut(&mysql->sql, 0);
        rc = sink__mysql_prepare(
            mysql, sink__sql_sweep(&mysql->sql, &mysql->dialect, change->table, sweep, is_loose),
            &stmt, err);
    }
    if (rc == RC_OK)
        rc = sink__mysql_execute(mysql, stmt, bind, "write to", err);
    if (rc == RC_OK)
        rc = check_warnings(mysql, err);
    mem_free(bind);
    mem_free(bound);
    mem_free(decl);
    return rc;
}

static enum rc land_change(struct sink_mysql *mysql, const struct sink_change *change,
                           int64_t *newest, struct err *err)
{
    const struct sink_def *def;
    enum rc rc = sink__mysql_define_locked(mysql, change->table->name, &def, err);
    if (rc == RC_OK)
        rc = sink__def_check_version(def, change->table, err);
    if (rc != RC_OK)
        return rc;
    return change->kind == SINK_UPSERT ? land_upsert(mysql, def, change, newest, err)
                                       : land_sweep(mysql, def, change, err);
}

static enum rc land_once(struct sink_mysql *mysql, const struct sink_change *change, size_t count,
                         int64_t *newest, struct err *err)
{
    if (newest)
        *newest = SINK_NONE_NEWER;
    mysql->transaction++;
    mysql->error = 0;
    enum rc rc = sink__mysql_run(mysql, "START TRANSACTION", "begin a transaction in", err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = land_change(mysql, &change[i], newest, err);
    if (rc == RC_OK)
        rc = sink__check_newer(&mysql->sink, newest, err);
    if (rc == RC_OK)
        rc = sink__mysql_run(mysql, newest ? "COMMIT" : "ROLLBACK", "commit to", err);
    if (rc != RC_OK && mysql->mysql && mysql_query(mysql->mysql, "ROLLBACK") != 0)
        sink__mysql_disconnect(mysql, true); /* rolls back as well */
    return rc;
}

enum rc sink__mysql_land(struct sink *sink, const struct sink_change *change, size_t count,
                         int64_t *newest, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    enum rc rc = land_once(mysql, change, count, newest, err);
    for (unsigned attempt = 1; attempt < LAND_ATTEMPTS_MAX; attempt++) {
        if (rc != RC_IO || !sink__mysql_may_retry(mysql->error) || !mysql->mysql)
            break;
        if (mysql->error == ER_LOCK_WAIT_TIMEOUT && attempt >= LAND_WAITS_MAX)
            break;
        /* Two that met once should not meet again: half of the wait is by chance. */
        long wait_ms = BACKOFF_MS << attempt;
        long chance = (long)(((uintptr_t)mysql >> 6) * 2654435761u + mysql->transaction) % wait_ms;
        nanosleep(&(struct timespec){.tv_nsec = (wait_ms + (chance < 0 ? -chance : chance)) / 2 *
                                                1000000L},
                  NULL);
        rc = sink__check_interrupt(sink, err);
        if (rc != RC_OK)
            break;
        rc = land_once(mysql, change, count, newest, err);
    }
    return rc;
}

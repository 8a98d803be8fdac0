/* Landing in MySQL: one transaction of statements with many rows each.
 *
 * ON DUPLICATE KEY UPDATE fires for any unique index, and for keys that the collation calls equal.
 * Where that can be, the keys are read again before the commit: each of them has to be there. */
#include <mariadb/mysqld_error.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "landing/sink_mysql_int.h"

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

/* ---- keys that may be shared ---- */

struct key_check {
    struct batch *batch;
    size_t row, row_count;
    size_t found;
};

static enum rc check_key(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct key_check *check = arg;
    const struct sink_upsert *upsert = check->batch->upsert;
    (void)err;
    for (size_t i = 0; i < check->row_count; i++) {
        const struct sink_cell *key = &upsert->cell[(check->row + i) * upsert->column_count];
        bool is_same = key->kind == SINK_INT
                           ? cell->kind == SINK_INT && cell->number == key->number
                           : cell->kind == SINK_BYTES && bytes_eq(cell->bytes, key->bytes);
        if (is_same) {
            check->found++;
            break;
        }
    }
    return RC_OK;
}

static enum rc check_keys(struct batch *batch, size_t row, size_t row_count, struct err *err)
{
    struct sink_mysql *mysql = batch->mysql;
    static const size_t key_column = 0;
    MYSQL_STMT *stmt;
    const struct sink_query query = {
        .table = batch->table, .column = &key_column, .column_count = 1};
    const bool as_text = batch->decl[0]->kind != DECL_INT && batch->decl[0]->kind != DECL_TEXT &&
                         batch->decl[0]->kind != DECL_BYTES;
    const struct sink_select select = {.query = &query, .in_count = row_count, .as_text = &as_text};
    const bool is_number = batch->upsert->cell[row * batch->upsert->column_count].kind == SINK_INT;
    const enum sink_type type = is_number ? SINK_BIGINT : SINK_OTHER;
    MYSQL_BIND *bind = mem_alloc(row_count * sizeof *bind);
    for (size_t i = 0; i < row_count; i++)
        bind[i] = batch->bind[i * batch->upsert->column_count];
    buf_cut(&mysql->sql, 0);
    /* A locking read sees what is there now, not what was when the transaction began. */
    enum rc rc = sink__mysql_prepare(mysql,
                                     sink__sql_select(&mysql->sql, &mysql->dialect, &select) &&
                                         buf_add(&mysql->sql, " FOR UPDATE", 11),
                                     &stmt, err);
    if (rc == RC_OK)
        rc = sink__mysql_execute(mysql, stmt, bind, "read the keys of", err);
    struct key_check check = {.batch = batch, .row = row, .row_count = row_count};
    const struct mysql_rows rows = {.stmt = stmt, .type = &type, .fn = check_key, .arg = &check};
    if (rc == RC_OK)
        rc = sink__mysql_rows(mysql, &rows, err);
    mem_free(bind);
    if (rc == RC_OK && check.found != row_count)
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
    if (rc == RC_OK)
        rc = check_warnings(mysql, err);
    if (rc == RC_OK && batch->def->has_shared_keys)
        rc = check_keys(batch, row, row_count, err);
    return rc;
}

static enum rc land_upsert(struct sink_mysql *mysql, const struct sink_def *def,
                           const struct sink_change *change, struct err *err)
{
    const struct sink_upsert *upsert = &change->upsert;
    size_t rows_max = PARAMS_MAX / upsert->column_count;
    struct batch batch = {.mysql = mysql, .table = change->table, .def = def, .upsert = upsert};
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
                           struct err *err)
{
    const struct sink_def *def;
    const struct sink_decl *version;
    enum rc rc = sink__mysql_define_locked(mysql, change->table->name, &def, err);
    if (rc == RC_OK)
        rc = sink__def_match(def, change->table, &change->table->version, 1, &version, err);
    if (rc == RC_OK)
        rc = sink__fit_version(version, err);
    if (rc != RC_OK)
        return rc;
    return change->kind == SINK_UPSERT ? land_upsert(mysql, def, change, err)
                                       : land_sweep(mysql, def, change, err);
}

static enum rc land_once(struct sink_mysql *mysql, const struct sink_change *change, size_t count,
                         bool is_check, struct err *err)
{
    mysql->transaction++;
    mysql->error = 0;
    enum rc rc = sink__mysql_run(mysql, "START TRANSACTION", "begin a transaction in", err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = land_change(mysql, &change[i], err);
    if (rc == RC_OK)
        rc = sink__mysql_run(mysql, is_check ? "ROLLBACK" : "COMMIT", "commit to", err);
    if (rc != RC_OK && mysql->mysql && mysql_query(mysql->mysql, "ROLLBACK") != 0)
        sink__mysql_disconnect(mysql, true); /* rolls back as well */
    return rc;
}

enum rc sink__mysql_land(struct sink *sink, const struct sink_change *change, size_t count,
                         bool is_check, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    enum rc rc = land_once(mysql, change, count, is_check, err);
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
        rc = land_once(mysql, change, count, is_check, err);
    }
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* sink_sql.c - SQL texts for both dialects. Invariant (4) of sink.h: the only thing of a caller
 * that enters a text is a name, through sink__sql_name(); values are always ?. */
#include "models/landing/sink_int.h"

#include "base/banned.h"

static bool add(struct buf *to, const char *text)
{
    return buf_add(to, text, strlen(text));
}

bool sink__sql_name(struct buf *to, const struct sink_dialect *dialect, struct bytes name)
{
    if (!buf_add(to, &dialect->quote, 1))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == (uint8_t)dialect->quote && !buf_add(to, &dialect->quote, 1))
            return false;
        if (!buf_add(to, &name.ptr[i], 1))
            return false;
    }
    return buf_add(to, &dialect->quote, 1);
}

struct sql { /* what every part of a text needs */
    struct buf *to;
    const struct sink_dialect *dialect;
    const struct sink_table *table;
};

static bool add_column(const struct sql *sql, const char *before, size_t column, const char *after)
{
    return add(sql->to, before) &&
           sink__sql_name(sql->to, sql->dialect, sql->table->column[column].name) &&
           add(sql->to, after);
}

static bool add_table(const struct sql *sql, const char *before, const char *after)
{
    return add(sql->to, before) && sink__sql_name(sql->to, sql->dialect, sql->table->name) &&
           add(sql->to, after);
}

static bool add_rows(const struct sql *sql, size_t row_count, size_t column_count)
{
    for (size_t row = 0; row < row_count; row++)
        for (size_t i = 0; i < column_count; i++)
            if (!add(sql->to, i ? ",?" : row ? "),(?" : "(?"))
                return false;
    return add(sql->to, ")");
}

/* What a column is without a value. The row that would be inserted has its default: it is not among
 * the columns that are set. */
static bool add_cleared(const struct sql *sql, size_t column)
{
    if (!sql->table->column[column].is_required)
        return add(sql->to, "NULL");
    return sql->dialect->is_mysql ? add_column(sql, "VALUES(", column, ")")
                                  : add_column(sql, "excluded.", column, "");
}

/* `version` is assigned last: MySQL's assignments see the ones before them. */
static bool add_mysql_update(const struct sql *sql, const struct sink_upsert *upsert)
{
    size_t version = sql->table->version;
    if (!add(sql->to, " ON DUPLICATE KEY UPDATE "))
        return false;
    for (size_t i = 0; i < upsert->clear_count; i++) /* before `deleted` is assigned */
        if (!add_column(sql, "", upsert->clear[i], "=IF((") ||
            !add_column(sql, "", version, " IS NULL OR ") ||
            !add_column(sql, "", version, "<VALUES(") || !add_column(sql, "", version, ")) AND ") ||
            !add_column(sql, "", upsert->deleted, "<>0,") || !add_cleared(sql, upsert->clear[i]) ||
            !add_column(sql, ",", upsert->clear[i], "),"))
            return false;
    for (size_t i = 0; i < upsert->reset_count; i++)
        if (!add_column(sql, "", upsert->reset[i], "=IF(") ||
            !add_column(sql, "", version, " IS NULL OR ") ||
            !add_column(sql, "", version, "<VALUES(") ||
            !add_column(sql, "", version, "),VALUES(") ||
            !add_column(sql, "", upsert->reset[i], "),") ||
            !add_column(sql, "", upsert->reset[i], "),"))
            return false;
    for (size_t i = 1; i <= upsert->column_count; i++) {
        bool is_last = i == upsert->column_count;
        size_t column = is_last ? version : upsert->column[i];
        if (!is_last && (column == version || upsert->use[i] == SINK_KEEP))
            continue;
        if (!add_column(sql, "", column, "=IF(") || !add_column(sql, "", version, " IS NULL OR ") ||
            !add_column(sql, "", version, "<VALUES(") || !add_column(sql, "", version, "),") ||
            !add_column(sql, "VALUES(", column, "),") ||
            !add_column(sql, "", column, is_last ? ")" : "),"))
            return false;
    }
    return true;
}

static bool add_sqlite_update(const struct sql *sql, const struct sink_upsert *upsert)
{
    const char *before = "";
    if (!add_column(sql, " ON CONFLICT(", 0, ") DO UPDATE SET "))
        return false;
    for (size_t i = 0; i < upsert->clear_count; i++)
        if (!add_column(sql, "", upsert->clear[i], "=CASE WHEN t.") ||
            !add_column(sql, "", upsert->deleted, "<>0 THEN ") ||
            !add_cleared(sql, upsert->clear[i]) ||
            !add_column(sql, " ELSE t.", upsert->clear[i], " END,"))
            return false;
    for (size_t i = 0; i < upsert->reset_count; i++)
        if (!add_column(sql, "", upsert->reset[i], "=excluded.") ||
            !add_column(sql, "", upsert->reset[i], ","))
            return false;
    for (size_t i = 1; i < upsert->column_count; i++) {
        if (upsert->use[i] == SINK_KEEP && upsert->column[i] != sql->table->version)
            continue;
        if (!add_column(sql, before, upsert->column[i], "=excluded.") ||
            !add_column(sql, "", upsert->column[i], ""))
            return false;
        before = ",";
    }
    return add_column(sql, " WHERE t.", sql->table->version, " IS NULL OR t.") &&
           add_column(sql, "", sql->table->version, "<excluded.") &&
           add_column(sql, "", sql->table->version, "");
}

bool sink__sql_upsert(struct buf *to, const struct sink_dialect *dialect,
                      const struct sink_table *table, const struct sink_upsert *upsert,
                      size_t row_count)
{
    const struct sql sql = {to, dialect, table};
    if (!add_table(&sql, "INSERT INTO ", dialect->is_mysql ? " (" : " AS t ("))
        return false;
    for (size_t i = 0; i < upsert->column_count; i++)
        if (!add_column(&sql, i ? "," : "", upsert->column[i], ""))
            return false;
    if (!add(to, ") VALUES ") || !add_rows(&sql, row_count, upsert->column_count))
        return false;
    return dialect->is_mysql ? add_mysql_update(&sql, upsert) : add_sqlite_update(&sql, upsert);
}

/* The bytes of a column as they are read, to be compared with a ? that is a blob. */
static bool add_bytes_of(const struct sql *sql, size_t column)
{
    if (!sql->dialect->is_mysql)
        return add_column(sql, "CAST(", column, " AS BLOB)");
    return add_column(sql, "CAST(CAST(", column, " AS CHAR CHARACTER SET utf8mb4) AS BINARY)");
}

bool sink__sql_sweep(struct buf *to, const struct sink_dialect *dialect,
                     const struct sink_table *table, const struct sink_sweep *sweep, bool is_loose)
{
    const struct sql sql = {to, dialect, table};
    if (!add_table(&sql, "UPDATE ", " SET "))
        return false;
    for (size_t i = 0; i < sweep->column_count; i++)
        if (!add_column(&sql, "", sweep->column[i], "=?,"))
            return false;
    if (!add_column(&sql, "", table->version, "=? WHERE ") ||
        !add_column(&sql, "", sweep->where, "=?"))
        return false;
    if (is_loose && (!add(to, " AND ") || !add_bytes_of(&sql, sweep->where) || !add(to, "=?")))
        return false;
    return add_column(&sql, " AND (", table->version, " IS NULL OR ") &&
           add_column(&sql, "", table->version, "<?)");
}

static bool add_wanted(const struct sql *sql, const struct sink_select *select)
{
    const struct sink_query *query = select->query;
    size_t count = query->column_count + select->wants_where;
    for (size_t i = 0; i < count; i++) {
        size_t column = i < query->column_count ? query->column[i] : query->where;
        bool as_text = select->as_text && select->as_text[i];
        if (!add_column(sql,
                        !i        ? (as_text ? "CAST(" : "")
                        : as_text ? ",CAST("
                                  : ",",
                        column, as_text ? " AS CHAR)" : ""))
            return false;
    }
    return count > 0 || add(sql->to, "1");
}

static bool add_key(const struct sql *sql, const struct sink_select *select)
{
    return select->is_loose ? add_bytes_of(sql, 0) : add_column(sql, "", 0, "");
}

bool sink__sql_select(struct buf *to, const struct sink_dialect *dialect,
                      const struct sink_select *select)
{
    const struct sink_query *query = select->query;
    const struct sql sql = {to, dialect, query->table};
    if (!add(to, "SELECT ") || !add_wanted(&sql, select) || !add_table(&sql, " FROM ", ""))
        return false;
    if (select->locks && !add(to, " FORCE INDEX (PRIMARY)"))
        return false;
    if (select->in_count) {
        if (!add_column(&sql, " WHERE ", query->where, " IN "))
            return false;
        if (!add_rows(&sql, 1, select->in_count))
            return false;
    } else {
        if (query->has_after && (!add(to, " WHERE ") || !add_key(&sql, select) || !add(to, ">?")))
            return false;
        if (!add(to, " ORDER BY ") || !add_key(&sql, select))
            return false;
    }
    if (select->is_newer && !add_column(&sql, " AND ", query->table->version, ">?"))
        return false;
    if (query->limit != 0 && !buf_printf(to, " LIMIT %zu", query->limit))
        return false;
    return !select->locks || add(to, " FOR UPDATE");
}

size_t sink__in_count(size_t value_count)
{
    size_t count = 1;
    while (count < value_count)
        count *= 2;
    return value_count ? count : 0;
}

/* The index has a name of its own in MySQL's table, and in SQLite in the whole database. */
static bool add_index_name(const struct sql *sql)
{
    struct bytes column = sql->table->column[sql->table->index].name;
    if (sql->dialect->is_mysql)
        return sink__sql_name(sql->to, sql->dialect, column);
    struct buf name;
    buf_init(&name, SINK_SQL_BYTES_MAX);
    bool ok = buf_add_bytes(&name, sql->table->name) && buf_add(&name, "_by_", 4) &&
              buf_add_bytes(&name, column) &&
              sink__sql_name(sql->to, sql->dialect, buf_bytes(&name));
    buf_done(&name);
    return ok;
}

bool sink__sql_create(struct buf *to, const struct sink_dialect *dialect,
                      const struct sink_table *table, const char *tail)
{
    const struct sql sql = {to, dialect, table};
    if (!add_table(&sql, "CREATE TABLE IF NOT EXISTS ", " ("))
        return false;
    for (size_t i = 0; i < table->column_count; i++)
        if (!add_column(&sql, "", i, " ") || !add(to, dialect->type[table->column[i].type]) ||
            !add(to, table->column[i].starts_at_0 ? " DEFAULT 0" : "") ||
            !add(to, i ? "," : " NOT NULL,"))
            return false;
    if (!add_column(&sql, "PRIMARY KEY (", 0, ")"))
        return false;
    if (table->index && dialect->is_mysql &&
        (!add(to, ",KEY ") || !add_index_name(&sql) || !add_column(&sql, " (", table->index, ")")))
        return false;
    return add(to, ")") && add(to, tail);
}

bool sink__sql_index(struct buf *to, const struct sink_dialect *dialect,
                     const struct sink_table *table)
{
    const struct sql sql = {to, dialect, table};
    /* MySQL has no IF NOT EXISTS here. */
    return add(to, dialect->is_mysql ? "CREATE INDEX " : "CREATE INDEX IF NOT EXISTS ") &&
           add_index_name(&sql) && add_table(&sql, " ON ", " (") &&
           add_column(&sql, "", table->index, ")");
}

bool sink__sql_add_column(struct buf *to, const struct sink_dialect *dialect, struct bytes table,
                          const struct sink_column *column)
{
    return add(to, "ALTER TABLE ") && sink__sql_name(to, dialect, table) &&
           add(to, " ADD COLUMN ") && sink__sql_name(to, dialect, column->name) && add(to, " ") &&
           add(to, dialect->type[column->type]) && add(to, column->starts_at_0 ? " DEFAULT 0" : "");
}

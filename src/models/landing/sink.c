// SPDX-License-Identifier: Apache-2.0
/* sink.c - checks every call of a sink before its database gets it. */
#include "models/landing/sink.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "models/landing/sink_int.h"

#include "base/banned.h"

/* ---- life ---- */

enum rc sink_open(const char *url_text, const char *password, struct sink **ret_sink,
                  struct err *err)
{
    struct sink_url url;
    enum rc rc = sink__url_parse(url_text, &url, err);
    if (rc != RC_OK)
        return rc;
    if (*password) {
        mem_free(url.password);
        url.password = mem_dup(password, strlen(password) + 1);
    }
    struct sink *sink = url.ops->open(&url);
    sink->ops = url.ops;
    sink->name = url.name;
    url.name = NULL;
    sink__url_done(&url);
    *ret_sink = sink;
    return RC_OK;
}

void sink_close(struct sink *sink)
{
    if (!sink)
        return;
    mem_free(sink->name);
    sink->ops->close(sink);
}

const char *sink_name(const struct sink *sink)
{
    return sink->name;
}

void sink_interrupt(struct sink *sink)
{
    atomic_store(&sink->interrupted, true);
    sink->ops->interrupt(sink);
}

enum rc sink__check_interrupt(struct sink *sink, struct err *err)
{
    if (atomic_load(&sink->interrupted))
        return err_set(err, RC_IO, "\"%s\" was interrupted", sink->name);
    return RC_OK;
}

void sink_greet_set(struct sink *sink, sink_greet_fn *fn, void *arg)
{
    sink->greet = fn;
    sink->greet_arg = arg;
}

void sink_make_set(struct sink *sink, bool makes)
{
    sink->never_makes = !makes;
}

bool sink_is_missing(const struct sink *sink)
{
    return sink->is_missing;
}

enum rc sink__connect(struct sink *sink, struct err *err)
{
    enum rc rc = sink__check_interrupt(sink, err);
    sink->is_missing = false;
    if (rc == RC_OK)
        rc = sink->ops->connect(sink, err);
    if (rc != RC_OK || !sink->is_new || !sink->greet)
        return rc;
    if (sink->is_greeting) { /* it was lost, and this one is another */
        sink->ops->disconnect(sink);
        return err_set(err, RC_IO, "the connection to \"%s\" was lost", sink->name);
    }
    sink->is_new = false;
    sink->is_greeting = true;
    rc = sink->greet(sink->greet_arg, err);
    sink->is_greeting = false;
    if (rc == RC_OK)
        return rc;
    sink->ops->disconnect(sink);
    if (err && rc != RC_NOMEM)
        err->rc = RC_IO;
    return rc == RC_NOMEM ? rc : RC_IO;
}

enum rc sink_ping(struct sink *sink, struct err *err)
{
    enum rc rc = sink__connect(sink, err);
    if (rc != RC_OK)
        return rc;
    rc = sink->ops->ping(sink, err);
    if (rc != RC_IO)
        return rc;
    sink->ops->disconnect(sink); /* one that was lost since: a new one says what is there now */
    rc = sink__connect(sink, err);
    return rc == RC_OK ? sink->ops->ping(sink, err) : rc;
}

/* ---- names ---- */

/* What both databases can take: MySQL's names are of the basic plane and end in no space. */
enum rc sink_check_name(struct bytes name, const char *what, struct err *err)
{
    if (name.len == 0 || name.len > SINK_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "the name of a %s has to have 1 to %d bytes", what,
                       SINK_NAME_BYTES_MAX);
    bool is_good = utf8_is_valid(name) && name.ptr[name.len - 1] != ' ';
    for (size_t i = 0; i < name.len; i++)
        is_good = is_good && name.ptr[i] != 0 && name.ptr[i] < 0xf0;
    if (!is_good)
        return err_set(err, RC_INVALID, "the name of a %s cannot be \"%.*s\"", what, (int)name.len,
                       (const char *)name.ptr);
    return RC_OK;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

void sink_fold_name(uint8_t *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        name[i] = lower(name[i]);
}

static bool is_same_but_case(struct bytes a, struct bytes b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

static enum rc check_table(const struct sink_table *table, struct err *err)
{
    if (table->column_count < 1 || table->column_count > SINK_COLUMNS_MAX)
        return err_set(err, RC_INVALID, "a table has 1 to %d columns", SINK_COLUMNS_MAX);
    enum rc rc = sink_check_name(table->name, "table", err);
    for (size_t i = 0; i < table->column_count && rc == RC_OK; i++)
        rc = sink_check_name(table->column[i].name, "column", err);
    return rc;
}

/* ---- changes ---- */

static void check_upsert(const struct sink_table *table, const struct sink_upsert *upsert)
{
    size_t count = upsert->column_count, version = count;
    ASSERT(count > 0);
    ASSERT(upsert->column[0] == 0);
    for (size_t i = 0; i < count; i++) {
        ASSERT(upsert->column[i] < table->column_count);
        if (upsert->column[i] == table->version)
            version = i;
    }
    ASSERT(version < count);
    for (size_t row = 0; row < upsert->row_count; row++) {
        const struct sink_cell *cell = &upsert->cell[row * count];
        ASSERT(cell[version].kind == SINK_INT);
        ASSERT(cell[0].kind != SINK_NULL);
        if (row && cell[0].kind == SINK_BYTES)
            ASSERT(bytes_cmp((cell - count)->bytes, cell[0].bytes) < 0);
    }
}

static void check_sweep(const struct sink_table *table, const struct sink_sweep *sweep)
{
    ASSERT(sweep->where < table->column_count);
    ASSERT(sweep->equals.kind != SINK_NULL);
    for (size_t i = 0; i < sweep->column_count; i++) {
        ASSERT(sweep->column[i] < table->column_count);
        ASSERT(sweep->column[i] != table->version);
    }
}

static enum rc check_change(const struct sink_change *change, struct err *err)
{
    enum rc rc = check_table(change->table, err);
    if (rc != RC_OK)
        return rc;
    if (change->table->version == 0)
        return err_set(err, RC_INVALID, "table \"%.*s\" has no column for versions",
                       (int)change->table->name.len, (const char *)change->table->name.ptr);
    if (change->kind == SINK_UPSERT)
        check_upsert(change->table, &change->upsert);
    else
        check_sweep(change->table, &change->sweep);
    return RC_OK;
}

int64_t sink__row_version(const struct sink_table *table, const struct sink_upsert *upsert,
                          size_t row)
{
    const struct sink_cell *cell = &upsert->cell[row * upsert->column_count];
    size_t place = 0;
    while (upsert->column[place] != table->version)
        place++;
    return cell[place].number;
}

enum rc sink__check_newer(const struct sink *sink, const int64_t *newest, struct err *err)
{
    if (!newest || *newest == SINK_NONE_NEWER)
        return RC_OK;
    return err_set(err, RC_NEWER, "\"%s\" holds a newer version of a row: %lld", sink->name,
                   (long long)*newest);
}

static enum rc land(struct sink *sink, const struct sink_change *change, size_t count,
                    int64_t *newest, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        enum rc rc = check_change(&change[i], err);
        if (rc != RC_OK)
            return rc;
    }
    enum rc rc = sink__connect(sink, err);
    if (rc != RC_OK || count == 0)
        return rc;
    return sink->ops->land(sink, change, count, newest, err);
}

enum rc sink_land(struct sink *sink, const struct sink_change *change, size_t count,
                  int64_t *ret_newer, struct err *err)
{
    int64_t newest = SINK_NONE_NEWER;
    enum rc rc = land(sink, change, count, &newest, err);
    if (rc == RC_NEWER && ret_newer)
        *ret_newer = newest;
    return rc;
}

enum rc sink_check(struct sink *sink, const struct sink_change *change, size_t count,
                   struct err *err)
{
    return land(sink, change, count, NULL, err);
}

/* ---- queries ---- */

bool sink__query_has(const struct sink_query *query, const struct sink_cell *where)
{
    struct bytes is = where->bytes;
    char digits[24];
    if (where->kind == SINK_NULL)
        return false;
    if (where->kind == SINK_INT)
        is = bytes_of(digits,
                      (size_t)snprintf(digits, sizeof digits, "%lld", (long long)where->number));
    for (size_t i = 0; i < query->value_count; i++)
        if (bytes_eq(query->value[i], is))
            return true;
    return false;
}

int64_t sink_cell_version(const struct sink_cell *cell)
{
    struct bytes text = cell->bytes;
    int64_t version = 0;
    if (cell->kind != SINK_BYTES)
        return cell->kind == SINK_INT ? cell->number : 0;
    while (text.len > 1 && text.ptr[0] == '0') /* ZEROFILL */
        text = bytes_from(text, 1);
    if (text.len == 0 || sink__parse_int(text, &version))
        return version;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return 0;
    return INT64_MAX;
}

/* The limit of a query with values is counted here: it goes over several statements, and rows that
 * are equal for the database only do not count. */
struct counted {
    sink_row_fn *fn;
    void *arg;
    size_t left;
};

static enum rc count_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct counted *counted = arg;
    if (counted->left == 0)
        return RC_OK;
    counted->left--;
    return counted->fn(counted->arg, cell, err);
}

/* How many values the next statement takes: those that fit, but at least one. */
static size_t count_values(const struct sink *sink, const struct sink_query *query, size_t at)
{
    enum { VALUE_OVERHEAD_BYTES = 16 };
    size_t count = 0, bytes = 0;
    while (at + count < query->value_count && count < SINK_IN_VALUES_MAX) {
        bytes += query->value[at + count].len + VALUE_OVERHEAD_BYTES;
        if (count && bytes > sink->query_bytes_max)
            break;
        count++;
    }
    return count;
}

enum rc sink_select(struct sink *sink, const struct sink_query *query, sink_row_fn *fn, void *arg,
                    struct err *err)
{
    enum rc rc = check_table(query->table, err);
    if (rc == RC_OK)
        rc = sink__connect(sink, err);
    if (rc != RC_OK)
        return rc;
    if (query->value_count == 0)
        return sink->ops->select(sink, query, fn, arg, err);
    struct counted counted = {fn, arg, query->limit ? query->limit : SIZE_MAX};
    for (size_t at = 0; at < query->value_count && counted.left && rc == RC_OK;) {
        struct sink_query part = *query;
        part.value += at;
        part.value_count = count_values(sink, query, at);
        part.limit = 0;
        at += part.value_count;
        rc = sink->ops->select(sink, &part, count_row, &counted, err);
    }
    return rc;
}

/* ---- what is there ---- */

enum rc sink_describe(struct sink *sink, struct bytes name, struct sink_table **ret_table,
                      struct err *err)
{
    const struct sink_def *def;
    enum rc rc = sink_check_name(name, "table", err);
    if (rc == RC_OK)
        rc = sink__connect(sink, err);
    if (rc == RC_OK)
        rc = sink->ops->define(sink, name, &def, err);
    if (rc == RC_OK)
        *ret_table = sink__def_table(def);
    return rc;
}

void sink_table_free(struct sink_table *table)
{
    mem_free(table);
}

enum rc sink_create(struct sink *sink, const struct sink_table *table, struct err *err)
{
    enum rc rc = check_table(table, err);
    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < table->column_count; i++) {
        ASSERT(table->column[i].type != SINK_OTHER);
        for (size_t j = 0; j < i; j++)
            if (is_same_but_case(table->column[i].name, table->column[j].name))
                return err_set(err, RC_INVALID, "column \"%.*s\" is there twice",
                               (int)table->column[i].name.len,
                               (const char *)table->column[i].name.ptr);
    }
    ASSERT(table->index < table->column_count);
    ASSERT(table->column[0].type == SINK_KEY || table->column[0].type == SINK_BIGINT);
    rc = sink__connect(sink, err);
    return rc == RC_OK ? sink->ops->create(sink, table, err) : rc;
}

enum rc sink_add_index(struct sink *sink, const struct sink_table *table, struct err *err)
{
    ASSERT(table->index > 0 && table->index < table->column_count);
    enum rc rc = check_table(table, err);
    if (rc == RC_OK)
        rc = sink__connect(sink, err);
    return rc == RC_OK ? sink->ops->add_index(sink, table, err) : rc;
}

enum rc sink_add_column(struct sink *sink, struct bytes table, const struct sink_column *column,
                        struct err *err)
{
    ASSERT(column->type != SINK_OTHER);
    enum rc rc = sink_check_name(table, "table", err);
    if (rc == RC_OK)
        rc = sink_check_name(column->name, "column", err);
    if (rc == RC_OK)
        rc = sink__connect(sink, err);
    return rc == RC_OK ? sink->ops->add_column(sink, table, column, err) : rc;
}

/* ---- texts ---- */

static enum rc text_done(struct buf *to, bool is_written, struct err *err)
{
    if (!is_written || !buf_add(to, "\n", 1))
        return err_set(err, RC_NOMEM, "no room for the text of a statement");
    return RC_OK;
}

enum rc sink_change_text(struct sink *sink, const struct sink_change *change, struct buf *to,
                         struct err *err)
{
    const struct sink_dialect *dialect = sink->ops->dialect;
    if (change->kind == SINK_SWEEP)
        return text_done(to, sink__sql_sweep(to, dialect, change->table, &change->sweep, false),
                         err);
    return text_done(to, sink__sql_upsert(to, dialect, change->table, &change->upsert, 1), err);
}

enum rc sink_query_text(struct sink *sink, const struct sink_query *query, struct buf *to,
                        struct err *err)
{
    const struct sink_select select = {.query = query, .in_count = query->value_count};
    return text_done(to, sink__sql_select(to, sink->ops->dialect, &select), err);
}

// SPDX-License-Identifier: Apache-2.0
/* shape_columns.c - shape columns: one row a key, one column a field.
 *
 * Columns of ours: up_version, is_del, del_time. They and columns of fields are added to a table
 * that lacks them; types are never changed. A removed field is NULL, a removed key has is_del = 1
 * and keeps its values. */
#include "models/landing/shape_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/utf8.h"

#include "base/banned.h"

enum { LAND_COLUMNS_MAX = 512 }; /* fields are the clients' choice: what is added has a limit */

static const struct sink_column own_column[] = {
    {.name = BYTES_INIT(LAND_COLUMN_VERSION), .type = SINK_BIGINT},
    {.name = BYTES_INIT(LAND_COLUMN_IS_DEL), .type = SINK_BIGINT, .starts_at_0 = true},
    {.name = BYTES_INIT(LAND_COLUMN_DEL_TIME), .type = SINK_BIGINT},
};

/* ---- the table ---- */

/* Its place; 0, the key's, if there is none. */
static size_t column_find(const struct sink_table *table, struct bytes name)
{
    for (size_t i = 1; i < table->column_count; i++)
        if (bytes_eq(table->column[i].name, name))
            return i;
    return 0;
}

static bool is_own(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(own_column); i++)
        if (bytes_eq(own_column[i].name, name))
            return true;
    return false;
}

void columns_forget(struct shape_db *db)
{
    sink_table_free(db->columns);
    db->columns = NULL;
}

static enum rc table_describe(struct shape_db *db, struct err *err)
{
    columns_forget(db);
    enum rc rc = sink_describe(db->sink, db->spec->table, &db->columns, err);
    if (rc != RC_OK)
        return rc;
    struct bytes key = db->columns->column[0].name;
    if (bytes_eq(key, db->spec->key))
        return RC_OK;
    rc = err_set(err, RC_INVALID, "the primary key of %.*s is %.*s, not %.*s",
                 (int)db->spec->table.len, (const char *)db->spec->table.ptr, (int)key.len,
                 (const char *)key.ptr, (int)db->spec->key.len, (const char *)db->spec->key.ptr);
    columns_forget(db);
    return rc;
}

static enum rc table_make(struct shape_db *db, struct err *err)
{
    struct sink_column column[1 + ARRAY_LEN(own_column)] = {
        {.name = db->spec->key, .type = SINK_KEY}};
    memcpy(column + 1, own_column, sizeof own_column);
    const struct sink_table table = {
        .name = db->spec->table, .column = column, .column_count = ARRAY_LEN(column), .version = 1};
    enum rc rc = sink_create(db->sink, &table, err);
    return rc == RC_OK ? table_describe(db, err) : rc;
}

/* make: it is made if it is not there, with the columns of ours; otherwise RC_NOT_FOUND. */
static enum rc table_get(struct shape_db *db, bool make, struct err *err)
{
    if (db->columns)
        return RC_OK;
    enum rc rc = table_describe(db, err);
    if (rc == RC_NOT_FOUND && make)
        rc = table_make(db, err);
    bool added = false;
    for (size_t i = 0; rc == RC_OK && make && i < ARRAY_LEN(own_column); i++) {
        if (column_find(db->columns, own_column[i].name) > 0)
            continue;
        rc = sink_add_column(db->sink, db->spec->table, &own_column[i], err);
        added = true;
    }
    if (rc == RC_OK && added)
        rc = table_describe(db, err);
    if (rc != RC_OK)
        columns_forget(db);
    return rc;
}

static bool is_left_out(const struct land_field *field)
{
    return field->refused != NULL || field->unlandable;
}

struct columns_new { /* fields of a batch that have no column yet, each once */
    struct bytes name[LAND_COLUMNS_MAX];
    size_t count;
};

static bool is_new(const struct columns_new *new, struct bytes name)
{
    for (size_t i = 0; i < new->count; i++)
        if (bytes_eq(new->name[i], name))
            return false;
    return true;
}

/* Columns for fields that have none: one statement each, however many rows have the field. */
static enum rc columns_add(struct shape_db *db, const struct slice *slice, size_t count,
                           struct err *err)
{
    struct columns_new new = {.count = 0};
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        for (size_t f = slice[i].from; rc == RC_OK && f < slice[i].to; f++) {
            const struct land_field *field = &slice[i].owner->field[f];
            if (is_left_out(field) || !field->here || column_find(db->columns, field->name) > 0 ||
                !is_new(&new, field->name))
                continue;
            struct sink_column column = {
                .name = field->name, .type = utf8_is_valid(field->value) ? SINK_TEXT : SINK_BLOB};
            if (db->columns->column_count + new.count >= LAND_COLUMNS_MAX)
                return err_set(err, RC_INVALID, "the table %.*s has %d columns, and gets no more",
                               (int)db->spec->table.len, (const char *)db->spec->table.ptr,
                               LAND_COLUMNS_MAX);
            rc = sink_add_column(db->sink, db->spec->table, &column, err);
            new.name[new.count++] = field->name;
        }
    }
    return rc == RC_OK && new.count > 0 ? table_describe(db, err) : rc;
}

/* A database that does not tell apart upper and lower case has no second column for a field. */
static enum rc columns_check(const struct shape_db *db, const struct slice *slice, size_t count,
                             struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t f = slice[i].from; f < slice[i].to; f++) {
            const struct land_field *field = &slice[i].owner->field[f];
            if (is_left_out(field) || !field->here || column_find(db->columns, field->name) > 0)
                continue;
            return err_set(err, RC_INVALID, "the table %.*s has no column \"%.*s\"",
                           (int)db->spec->table.len, (const char *)db->spec->table.ptr,
                           (int)field->name.len, (const char *)field->name.ptr);
        }
    }
    return RC_OK;
}

/* ---- landing ---- */

struct columns_row {
    struct bytes key;
    size_t *column;
    struct sink_cell *cell;
    size_t count;
    size_t *clear; /* not set: NULL if the row was removed before */
    size_t clear_count;
    size_t *reset; /* to be empty, but NOT NULL: their defaults */
    size_t reset_count;
};

static void cell_add(struct columns_row *row, size_t column, struct sink_cell cell)
{
    row->column[row->count] = column;
    row->cell[row->count++] = cell;
}

static uint64_t row_version(const struct slice *slice)
{
    uint64_t version = slice->sweep ? slice->owner->owner_version : 0;
    for (size_t i = slice->from; i < slice->to; i++)
        if (slice->owner->field[i].version > version)
            version = slice->owner->field[i].version;
    return version;
}

static const struct land_field *field_of(const struct slice *slice, struct bytes name)
{
    for (size_t i = slice->from; i < slice->to; i++)
        if (bytes_eq(slice->owner->field[i].name, name))
            return &slice->owner->field[i];
    return NULL;
}

/* The key first, then columns in the order of the table: rows that set the same ones look alike. */
static void row_make(const struct sink_table *table, const struct slice *slice, struct arena *arena,
                     struct columns_row *row)
{
    const struct land_owner *owner = slice->owner;
    uint64_t version = row_version(slice);
    *row = (struct columns_row){
        .key = owner->address.id,
        .column = arena_alloc_array(arena, table->column_count, sizeof *row->column),
        .cell = arena_alloc_array(arena, table->column_count, sizeof *row->cell),
        .clear = arena_alloc_array(arena, table->column_count, sizeof *row->clear),
        .reset = arena_alloc_array(arena, table->column_count, sizeof *row->reset)};
    cell_add(row, 0, cell_bytes(row->key));
    for (size_t i = 1; i < table->column_count; i++) {
        struct bytes name = table->column[i].name;
        if (bytes_eq(name, own_column[0].name)) {
            cell_add(row, i, cell_int((int64_t)version));
        } else if (bytes_eq(name, own_column[1].name)) {
            cell_add(row, i, cell_int(owner->exists ? 0 : 1));
        } else if (bytes_eq(name, own_column[2].name)) {
            cell_add(row, i, owner->exists ? cell_null() : cell_int(owner->time_ms));
        } else if (owner->exists) {
            const struct land_field *field = field_of(slice, name);
            if (field && !is_left_out(field))
                cell_add(row, i, field->here ? cell_bytes(field->value) : cell_null());
            else if (table->column[i].is_automatic)
                continue; /* assigned to, it would no longer change by itself */
            else if (!field && slice->sweep && table->column[i].is_required)
                row->reset[row->reset_count++] = i;
            else if (!field && slice->sweep)
                cell_add(row, i, cell_null());
            else
                row->clear[row->clear_count++] = i;
        }
    }
}

static int row_columns_cmp(const struct columns_row *a, const struct columns_row *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    if (a->reset_count != b->reset_count)
        return a->reset_count < b->reset_count ? -1 : 1;
    int order = memcmp(a->column, b->column, a->count * sizeof *a->column);
    return order != 0 ? order : memcmp(a->reset, b->reset, a->reset_count * sizeof *a->reset);
}

static int row_order(const void *one, const void *other)
{
    const struct columns_row *a = one, *b = other;
    int order = row_columns_cmp(a, b);
    return order != 0 ? order : bytes_cmp(a->key, b->key);
}

static void rows_upsert(const struct sink_table *table, const struct columns_row *row, size_t count,
                        struct change_list *list)
{
    size_t columns = row->count, deleted = column_find(table, own_column[1].name);
    struct sink_cell *cell = arena_alloc_array(list->arena, count * columns, sizeof *cell);
    enum sink_use *use = arena_alloc_array(list->arena, columns, sizeof *use);
    for (size_t i = 0; i < columns; i++)
        use[i] = SINK_SET;
    for (size_t i = 0; i < count; i++)
        memcpy(cell + i * columns, row[i].cell, columns * sizeof *cell);
    change_add(list, &(struct sink_change){.table = table,
                                           .kind = SINK_UPSERT,
                                           .upsert = {.column = row->column,
                                                      .use = use,
                                                      .column_count = columns,
                                                      .cell = cell,
                                                      .row_count = count,
                                                      .clear = row->clear,
                                                      .clear_count = row->clear_count,
                                                      .deleted = deleted,
                                                      .reset = row->reset,
                                                      .reset_count = row->reset_count}});
}

/* LAND.EXPLAIN of a table that nobody has looked at: as it would be made. One allocation, as
 * sink_table_free() wants it; names are borrowed, they outlive the explanation. */
static void table_imagine(struct shape_db *db, const struct slice *slice)
{
    const size_t own = 1 + ARRAY_LEN(own_column);
    size_t count = slice->to - slice->from + own;
    struct sink_table *table = mem_zalloc(sizeof *table + count * sizeof *table->column);
    table->column = (struct sink_column *)(table + 1);
    table->column_count = count;
    table->name = db->spec->table;
    table->version = 1;
    table->column[0] = (struct sink_column){.name = db->spec->key, .type = SINK_KEY};
    memcpy(table->column + 1, own_column, sizeof own_column);
    for (size_t i = own; i < count; i++)
        table->column[i] = (struct sink_column){
            .name = slice->owner->field[slice->from + i - own].name, .type = SINK_TEXT};
    db->columns = table;
}

/* What an owner's mark empties are all other columns, also those that somebody has added since. */
static bool any_sweeps(const struct slice *slice, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice[i].sweep && slice[i].owner->exists)
            return true;
    return false;
}

enum rc columns_changes(struct shape_db *db, const struct slice *slice, size_t count,
                        struct change_list *list, struct err *err)
{
    enum rc rc = RC_OK;
    if (!db->explaining && any_sweeps(slice, count))
        columns_forget(db);
    if (db->explaining && !db->columns)
        table_imagine(db, slice);
    rc = table_get(db, true, err);
    if (rc == RC_OK && !db->explaining)
        rc = columns_add(db, slice, count, err);
    if (rc == RC_OK)
        rc = columns_check(db, slice, count, err);
    if (rc != RC_OK)
        return rc;
    struct columns_row *row = arena_alloc_array(list->arena, count, sizeof *row);
    for (size_t i = 0; i < count; i++)
        row_make(db->columns, &slice[i], list->arena, &row[i]);
    qsort(row, count, sizeof *row, row_order);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && row_columns_cmp(&row[from], &row[to]) == 0;)
            to++;
        rows_upsert(db->columns, row + from, to - from, list);
    }
    return RC_OK;
}

/* ---- lifting ---- */

/* Every column of a row that is a field and not NULL, unless the row is deleted. */
static enum rc row_fields(const struct sink_table *table, const struct sink_cell *cell,
                          enum rc (*fn)(void *arg, const struct lift_row *row, struct err *err),
                          void *arg, struct err *err)
{
    size_t is_del = column_find(table, own_column[1].name);
    size_t up_version = column_find(table, own_column[0].name);
    uint64_t version = up_version > 0 ? cell_version(&cell[up_version]) : 0;
    if (is_del > 0 && cell_is_deleted(&cell[is_del]))
        return RC_OK;
    for (size_t i = 1; i < table->column_count; i++) {
        char text[32];
        struct bytes value = cell[i].bytes;
        if (is_own(table->column[i].name) || cell[i].kind == SINK_NULL)
            continue;
        if (cell[i].kind == SINK_INT)
            value = bytes_of(
                text, (size_t)snprintf(text, sizeof text, "%lld", (long long)cell[i].number));
        const struct lift_row row = {table->column[i].name, value, version};
        enum rc rc = fn(arg, &row, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

struct lift_take {
    const struct sink_table *table;
    struct lift_rows *to;
};

static enum rc lift_field(void *arg, const struct lift_row *row, struct err *err)
{
    return lift_row_add(arg, row->field, row->value, row->version, err);
}

static enum rc lift_take(void *arg, const struct sink_cell *cell, struct err *err)
{
    const struct lift_take *take = arg;
    return row_fields(take->table, cell, lift_field, take->to, err);
}

static struct sink_query lift_query(const struct sink_table *table, const struct bytes *id,
                                    size_t id_count, struct arena *arena)
{
    size_t *column = arena_alloc_array(arena, table->column_count, sizeof *column);
    for (size_t i = 0; i < table->column_count; i++)
        column[i] = i;
    return (struct sink_query){.table = table,
                               .column = column,
                               .column_count = table->column_count,
                               .value = id,
                               .value_count = id_count};
}

enum rc columns_lift(struct shape_db *db, const struct address *address, struct lift_rows *to,
                     struct err *err)
{
    struct arena arena;
    /* Landers add columns, and so do people: one that is not asked for is a field that is lost to
     * the clients, because the copy counts as complete. */
    columns_forget(db);
    enum rc rc = table_get(db, false, err);
    if (rc != RC_OK) /* without a table nothing has landed yet */
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    arena_init(&arena);
    struct lift_take take = {.table = db->columns, .to = to};
    struct sink_query query = lift_query(db->columns, &address->id, 1, &arena);
    rc = sink_select(db->sink, &query, lift_take, &take, err);
    arena_done(&arena);
    return rc;
}

struct many_row {
    const struct many *many;
    size_t owner;
};

static enum rc many_field(void *arg, const struct lift_row *row, struct err *err)
{
    const struct many_row *at = arg;
    return at->many->fn(at->many->arg, at->owner, row, err);
}

static enum rc many_take(void *arg, const struct sink_cell *cell, struct err *err)
{
    const struct many *many = arg;
    const struct many_owner *owner = many_find(many, &cell[0]);
    struct many_row row = {.many = many};
    if (!owner)
        return RC_OK;
    row.owner = owner->owner;
    return row_fields(many->table, cell, many_field, &row, err);
}

enum rc columns_lift_many(struct shape_db *db, struct many *many, const struct bytes *value,
                          struct err *err)
{
    struct arena arena;
    columns_forget(db); /* whoever compares wants the columns of now */
    enum rc rc = table_get(db, false, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    arena_init(&arena);
    many->table = db->columns;
    struct sink_query query = lift_query(db->columns, value, many->count, &arena);
    rc = sink_select(db->sink, &query, many_take, many, err);
    arena_done(&arena);
    return rc;
}

enum rc columns_lift_text(struct shape_db *db, const struct address *address, struct buf *to,
                          struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    struct sink_query query = lift_query(db->columns, &address->id, 1, &arena);
    enum rc rc = sink_query_text(db->sink, &query, to, err);
    arena_done(&arena);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* shape_object.c - shape object: every field of a hash is a row of table app_region.
 *
 * A table belongs to the first (app, region) that used it: a_b + c and a + b_c are both a_b_c. Who
 * that is stands in the table terrace_tables of the same database (shape_owner.c), where the first
 * writer wins. Names stand there in lower case: A_b and a_b are one table for SQLite, and for MySQL
 * on some systems.
 *
 * A table that nobody has claimed is read all the same: it may be older than the rule, or restored
 * without terrace_tables. Who lands in it, or finds rows in it, claims it. A read that finds none
 * does not: it may be that of the wrong pair. */
#include "models/landing/shape_int.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum { /* columns of an object table */
       OBJECT_PRIMARY_KEY,
       OBJECT_LOGIC_TYPE,
       OBJECT_OWNER_ID,
       OBJECT_KEY,
       OBJECT_VALUE,
       OBJECT_UP_VERSION,
       OBJECT_IS_DEL,
       OBJECT_DEL_TIME,
       OBJECT_CREATE_TIME,
       OBJECT_UPDATE_TIME,
       OBJECT_QUERY_ALL_KEY,
       OBJECT_COLUMNS,
};
static struct sink_column object_column[OBJECT_COLUMNS] = {
    [OBJECT_PRIMARY_KEY] = {.name = BYTES_INIT("primary_key"), .type = SINK_KEY},
    [OBJECT_LOGIC_TYPE] = {.name = BYTES_INIT("logic_type"), .type = SINK_KEY},
    [OBJECT_OWNER_ID] = {.name = BYTES_INIT("owner_id"), .type = SINK_KEY},
    [OBJECT_KEY] = {.name = BYTES_INIT("key"), .type = SINK_KEY},
    [OBJECT_VALUE] = {.name = BYTES_INIT("value"), .type = SINK_BLOB},
    [OBJECT_UP_VERSION] = {.name = BYTES_INIT(LAND_COLUMN_VERSION), .type = SINK_BIGINT},
    [OBJECT_IS_DEL] = {.name = BYTES_INIT(LAND_COLUMN_IS_DEL),
                       .type = SINK_BIGINT,
                       .starts_at_0 = true},
    [OBJECT_DEL_TIME] = {.name = BYTES_INIT(LAND_COLUMN_DEL_TIME), .type = SINK_BIGINT},
    [OBJECT_CREATE_TIME] = {.name = BYTES_INIT("create_time"), .type = SINK_BIGINT},
    [OBJECT_UPDATE_TIME] = {.name = BYTES_INIT("update_time"), .type = SINK_BIGINT},
    [OBJECT_QUERY_ALL_KEY] = {.name = BYTES_INIT("query_all_key"), .type = SINK_KEY},
};

/* A row with a value, and one that is removed and keeps the value it has. */
static const size_t put_column[] = {OBJECT_PRIMARY_KEY, OBJECT_LOGIC_TYPE,   OBJECT_OWNER_ID,
                                    OBJECT_KEY,         OBJECT_VALUE,        OBJECT_UP_VERSION,
                                    OBJECT_IS_DEL,      OBJECT_DEL_TIME,     OBJECT_CREATE_TIME,
                                    OBJECT_UPDATE_TIME, OBJECT_QUERY_ALL_KEY};
static const enum sink_use put_use[] = {SINK_SET, SINK_SET, SINK_SET,  SINK_SET, SINK_SET, SINK_SET,
                                        SINK_SET, SINK_SET, SINK_KEEP, SINK_SET, SINK_SET};
static const size_t remove_column[] = {OBJECT_PRIMARY_KEY,  OBJECT_LOGIC_TYPE,  OBJECT_OWNER_ID,
                                       OBJECT_KEY,          OBJECT_UP_VERSION,  OBJECT_IS_DEL,
                                       OBJECT_DEL_TIME,     OBJECT_CREATE_TIME, OBJECT_UPDATE_TIME,
                                       OBJECT_QUERY_ALL_KEY};
static const enum sink_use remove_use[] = {SINK_SET, SINK_SET, SINK_SET,  SINK_SET, SINK_SET,
                                           SINK_SET, SINK_SET, SINK_KEEP, SINK_SET, SINK_SET};

/* ---- which table ---- */

/* Whose table it is. RC_NOT_FOUND: nobody has used it; RC_BUSY: another has. */
static enum rc pair_check(struct shape_db *db, struct bytes name, struct bytes pair,
                          struct err *err)
{
    struct arena arena;
    struct bytes found;
    arena_init(&arena);
    enum rc rc = owner_get(db, name, &arena, &found, err);
    if (rc == RC_OK && !bytes_eq(found, pair))
        rc = err_set(err, RC_BUSY, "the table %.*s belongs to another app and region",
                     (int)name.len, (const char *)name.ptr);
    arena_done(&arena);
    return rc;
}

static enum rc pair_claim(struct shape_db *db, struct bytes name, struct bytes pair,
                          struct err *err)
{
    enum rc rc = owner_put(db, name, pair, err);
    return rc == RC_OK ? pair_check(db, name, pair, err) : rc;
}

static struct object_table *table_known(const struct shape_db *db, struct bytes pair)
{
    struct object_table *table = db->tables;
    while (table && !bytes_eq(table->pair, pair))
        table = table->next;
    return table;
}

static struct object_table *table_remember(struct shape_db *db, struct bytes name,
                                           struct bytes pair)
{
    struct object_table *table = mem_zalloc(sizeof *table);
    table->name = bytes_of(mem_dup(name.ptr, name.len), name.len);
    table->pair = bytes_of(mem_dup(pair.ptr, pair.len), pair.len);
    table->table = (struct sink_table){.name = table->name,
                                       .column = object_column,
                                       .column_count = OBJECT_COLUMNS,
                                       .version = OBJECT_UP_VERSION,
                                       .index = OBJECT_QUERY_ALL_KEY};
    table->next = db->tables;
    db->tables = table;
    return table;
}

void object_forget(struct shape_db *db)
{
    while (db->tables) {
        struct object_table *table = db->tables;
        db->tables = table->next;
        mem_free((void *)table->name.ptr);
        mem_free((void *)table->pair.ptr);
        mem_free(table);
    }
}

/* Whether the table can be landed in and lifted from, which it has to be before anybody claims it:
 * what cannot be read is an error, and not an empty answer. RC_NOT_FOUND: there is no such table.
 */
static enum rc table_look(struct shape_db *db, struct bytes name, bool *ret_indexed,
                          struct err *err)
{
    struct sink_table *there = NULL;
    enum rc rc = sink_describe(db->sink, name, &there, err);
    for (size_t i = 0; rc == RC_OK && i < OBJECT_COLUMNS; i++) {
        const struct sink_column *column = NULL;
        for (size_t at = 0; !column && at < there->column_count; at++)
            if (bytes_eq(there->column[at].name, object_column[i].name))
                column = &there->column[at];
        if (!column)
            rc = err_set(err, RC_INVALID, "the table %.*s has no column \"%.*s\"", (int)name.len,
                         (const char *)name.ptr, (int)object_column[i].name.len,
                         (const char *)object_column[i].name.ptr);
        else if (i == OBJECT_QUERY_ALL_KEY)
            *ret_indexed = column->is_indexed;
    }
    sink_table_free(there);
    return rc;
}

/* The table becomes ours, for good. Without an index on query_all_key every lift of a whole key
 * would read all of it; a database that refuses the index is used as it is. */
static enum rc table_claim(struct shape_db *db, struct object_table *table, struct err *err)
{
    struct bytes folded = bytes_of(mem_dup(table->name.ptr, table->name.len), table->name.len);
    enum rc rc = RC_OK;
    sink_fold_name((uint8_t *)folded.ptr, folded.len);
    if (!table->is_indexed)
        rc = sink_add_index(db->sink, &table->table, err);
    if (rc == RC_INVALID) {
        log_warn("landing: the table %.*s has no index on query_all_key, and gets none: %s",
                 (int)table->name.len, (const char *)table->name.ptr, err->text);
        rc = RC_OK;
    }
    if (rc == RC_OK)
        rc = pair_claim(db, folded, table->pair, err);
    table->is_claimed = rc == RC_OK;
    mem_free((void *)folded.ptr);
    return rc;
}

/* make: the table is claimed, and one that is not there is made; otherwise RC_NOT_FOUND. RC_BUSY:
 * it is another's. */
static enum rc table_open(struct shape_db *db, struct bytes name, struct bytes pair, bool make,
                          struct object_table **ret_table, struct err *err)
{
    struct object_table look = {.is_indexed = true};
    struct bytes folded = bytes_of(mem_dup(name.ptr, name.len), name.len);
    sink_fold_name((uint8_t *)folded.ptr, folded.len);
    enum rc rc = pair_check(db, folded, pair, err);
    mem_free((void *)folded.ptr);
    look.is_claimed = rc == RC_OK;
    if (rc == RC_OK || rc == RC_NOT_FOUND)
        rc = table_look(db, name, &look.is_indexed, err);
    bool is_missing = rc == RC_NOT_FOUND;
    if (rc != RC_OK && !(is_missing && make))
        return rc;
    struct object_table *table = table_remember(db, name, pair);
    table->is_claimed = look.is_claimed;
    table->is_indexed = look.is_indexed;
    rc = make && !table->is_claimed ? table_claim(db, table, err) : RC_OK;
    if (rc == RC_OK && is_missing)
        rc = sink_create(db->sink, &table->table, err);
    if (rc == RC_OK)
        *ret_table = table;
    else
        object_forget(db); /* it is not known to be ours */
    return rc;
}

static enum rc table_get(struct shape_db *db, const struct address *address, bool make,
                         struct object_table **ret_table, struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    struct bytes pair = arena_join(&arena, address->app, BYTES("&"), address->region);
    struct bytes name = arena_join(&arena, address->app, BYTES("_"), address->region);
    struct object_table *table = table_known(db, pair);
    enum rc rc = RC_OK;
    if (!table && db->explaining)
        table = table_remember(db, name, pair);
    else if (!table)
        rc = table_open(db, name, pair, make, &table, err);
    if (rc == RC_OK)
        *ret_table = table;
    arena_done(&arena);
    return rc;
}

/* ---- landing ---- */

struct object_row {
    const struct sink_table *table;
    struct bytes primary_key;
    const struct address *address;
    const struct land_field *field;
    struct bytes query_all_key;
    int64_t time_ms;
};

/* By table, then rows with a value before those without, then by key. */
static int row_order(const void *one, const void *other)
{
    const struct object_row *a = one, *b = other;
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->field->here != b->field->here)
        return a->field->here ? -1 : 1;
    return bytes_cmp(a->primary_key, b->primary_key);
}

static void row_cells(const struct object_row *row, struct sink_cell *to)
{
    const struct land_field *field = row->field;
    int64_t time_ms = row->time_ms;
    *to++ = cell_bytes(row->primary_key);
    *to++ = cell_bytes(row->address->type);
    *to++ = cell_bytes(row->address->owner);
    *to++ = cell_bytes(field->name);
    if (field->here)
        *to++ = cell_bytes(field->value);
    *to++ = cell_int((int64_t)field->version);
    *to++ = cell_int(field->here ? 0 : 1);
    *to++ = field->here ? cell_null() : cell_int(time_ms);
    *to++ = cell_int(time_ms); /* create_time */
    *to++ = cell_int(time_ms); /* update_time */
    *to = cell_bytes(row->query_all_key);
}

/* Rows of one table and one kind. */
static void rows_upsert(const struct object_row *row, size_t count, struct change_list *list)
{
    bool here = row->field->here;
    size_t columns = here ? ARRAY_LEN(put_column) : ARRAY_LEN(remove_column);
    struct sink_cell *cell = arena_alloc_array(list->arena, count * columns, sizeof *cell);
    for (size_t i = 0; i < count; i++)
        row_cells(&row[i], cell + i * columns);
    change_add(list, &(struct sink_change){.table = row->table,
                                           .kind = SINK_UPSERT,
                                           .upsert = {.column = here ? put_column : remove_column,
                                                      .use = here ? put_use : remove_use,
                                                      .column_count = columns,
                                                      .cell = cell,
                                                      .row_count = count}});
}

static void owner_sweep(const struct land_owner *owner, const struct sink_table *table,
                        struct bytes query_all_key, struct change_list *list)
{
    static const size_t column[] = {OBJECT_IS_DEL, OBJECT_DEL_TIME, OBJECT_UPDATE_TIME};
    int64_t time_ms = owner->time_ms;
    struct sink_cell *cell = arena_alloc_array(list->arena, ARRAY_LEN(column), sizeof *cell);
    cell[0] = cell_int(1);
    cell[1] = cell[2] = cell_int(time_ms);
    change_add(list, &(struct sink_change){.table = table,
                                           .kind = SINK_SWEEP,
                                           .sweep = {.where = OBJECT_QUERY_ALL_KEY,
                                                     .equals = cell_bytes(query_all_key),
                                                     .version = (int64_t)owner->owner_version,
                                                     .column = column,
                                                     .cell = cell,
                                                     .column_count = ARRAY_LEN(column)}});
}

static size_t slice_rows(const struct slice *slice, const struct sink_table *table,
                         struct bytes query_all_key, struct arena *arena, struct object_row *to)
{
    size_t count = 0;
    for (size_t i = slice->from; i < slice->to; i++) {
        const struct land_field *field = &slice->owner->field[i];
        if (field->unlandable)
            continue;
        to[count++] = (struct object_row){
            .table = table,
            .primary_key = arena_join(arena, query_all_key, BYTES(":"), field->name),
            .address = &slice->owner->address,
            .field = field,
            .query_all_key = query_all_key,
            .time_ms = slice->owner->time_ms};
    }
    return count;
}

enum rc object_changes(struct shape_db *db, const struct slice *slice, size_t count,
                       struct change_list *list, struct err *err)
{
    size_t row_count = 0, rows_max = 0;
    for (size_t i = 0; i < count; i++)
        rows_max += slice[i].to - slice[i].from;
    struct object_row *row = arena_alloc_array(list->arena, rows_max + 1, sizeof *row);
    const struct sink_table **table = arena_alloc_array(list->arena, count, sizeof *table);
    struct bytes *query_all_key = arena_alloc_array(list->arena, count, sizeof *query_all_key);
    for (size_t i = 0; i < count; i++) {
        const struct address *address = &slice[i].owner->address;
        struct object_table *known;
        enum rc rc = table_get(db, address, true, &known, err);
        if (rc != RC_OK) /* for a sink, what it refuses is invalid */
            return rc == RC_BUSY ? RC_INVALID : rc;
        table[i] = &known->table;
        query_all_key[i] = arena_join(list->arena, address->type, BYTES(":"), address->owner);
        row_count +=
            slice_rows(&slice[i], table[i], query_all_key[i], list->arena, row + row_count);
    }
    qsort(row, row_count, sizeof *row, row_order);
    for (size_t from = 0, to; from < row_count; from = to) {
        for (to = from + 1; to < row_count && row[to].table == row[from].table &&
                            row[to].field->here == row[from].field->here;)
            to++;
        rows_upsert(row + from, to - from, list);
    }
    for (size_t i = 0; i < count; i++)
        if (slice[i].sweep)
            owner_sweep(slice[i].owner, table[i], query_all_key[i], list);
    return RC_OK;
}

/* ---- lifting ---- */

static const size_t lift_column[] = {OBJECT_KEY, OBJECT_VALUE, OBJECT_UP_VERSION, OBJECT_IS_DEL};

static enum rc lift_take(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct lift_rows *to = arg;
    if (cell_is_deleted(&cell[3]) || cell[0].kind != SINK_BYTES || cell[1].kind != SINK_BYTES)
        return RC_OK;
    return lift_row_add(to, cell[0].bytes, cell[1].bytes, cell_version(&cell[2]), err);
}

static struct sink_query lift_query(const struct sink_table *table, const struct address *address,
                                    const struct bytes *field, size_t field_count,
                                    struct arena *arena)
{
    struct bytes owner = arena_join(arena, address->type, BYTES(":"), address->owner);
    size_t count = field_count > 0 ? field_count : 1;
    struct bytes *value = arena_alloc_array(arena, count, sizeof *value);
    value[0] = owner;
    for (size_t i = 0; i < field_count; i++)
        value[i] = arena_join(arena, owner, BYTES(":"), field[i]);
    return (struct sink_query){.table = table,
                               .column = lift_column,
                               .column_count = ARRAY_LEN(lift_column),
                               .where = field_count > 0 ? OBJECT_PRIMARY_KEY : OBJECT_QUERY_ALL_KEY,
                               .value = value,
                               .value_count = count};
}

enum rc object_lift(struct shape_db *db, const struct address *address, const struct bytes *field,
                    size_t field_count, struct lift_rows *to, struct err *err)
{
    struct object_table *table;
    struct arena arena;
    enum rc rc = table_get(db, address, false, &table, err);
    if (rc != RC_OK) /* without a table, or in another's, nothing of this key has landed */
        return rc == RC_BUSY || rc == RC_NOT_FOUND ? RC_OK : rc;
    arena_init(&arena);
    struct sink_query query = lift_query(&table->table, address, field, field_count, &arena);
    rc = sink_select(db->sink, &query, lift_take, to, err);
    arena_done(&arena);
    if (rc == RC_OK && to->count > 0 && !table->is_claimed)
        rc = table_claim(db, table, err);
    if (rc == RC_BUSY) { /* another was faster: the rows are its own */
        to->count = 0;
        rc = RC_OK;
    }
    return rc;
}

static enum rc many_take(void *arg, const struct sink_cell *cell, struct err *err)
{
    const struct many *many = arg;
    const struct many_owner *owner = many_find(many, &cell[4]);
    if (!owner || cell_is_deleted(&cell[3]) || cell[0].kind != SINK_BYTES ||
        cell[1].kind != SINK_BYTES)
        return RC_OK;
    struct lift_row row = {
        .field = cell[0].bytes, .value = cell[1].bytes, .version = cell_version(&cell[2])};
    return many->fn(many->arg, owner->owner, &row, err);
}

enum rc object_lift_many(struct shape_db *db, struct many *many, const struct bytes *value,
                         struct err *err)
{
    static const size_t column[] = {OBJECT_KEY, OBJECT_VALUE, OBJECT_UP_VERSION, OBJECT_IS_DEL,
                                    OBJECT_QUERY_ALL_KEY};
    struct object_table *table;
    enum rc rc = table_get(db, many->owner->address, false, &table, err);
    if (rc != RC_OK) /* without a table, or in another's, there is nothing of these */
        return rc == RC_BUSY || rc == RC_NOT_FOUND ? RC_OK : rc;
    const struct sink_query query = {.table = &table->table,
                                     .column = column,
                                     .column_count = ARRAY_LEN(column),
                                     .where = OBJECT_QUERY_ALL_KEY,
                                     .value = value,
                                     .value_count = many->count};
    return sink_select(db->sink, &query, many_take, many, err);
}

enum rc object_lift_text(struct shape_db *db, const struct address *address, struct buf *to,
                         struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    const struct sink_table table = {
        .name = arena_join(&arena, address->app, BYTES("_"), address->region),
        .column = object_column,
        .column_count = OBJECT_COLUMNS,
        .version = OBJECT_UP_VERSION};
    struct sink_query query = lift_query(&table, address, NULL, 0, &arena);
    enum rc rc = sink_query_text(db->sink, &query, to, err);
    arena_done(&arena);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* shape_int.h - what the files of shapes share. */
#pragma once

#include "models/landing/shape.h"

struct object_table { /* of shape object, known to be there and no other pair's */
    struct object_table *next;
    struct bytes name, pair; /* app&region */
    struct sink_table table;
    bool is_claimed; /* ours, for good */
    bool is_indexed; /* query_all_key */
};

struct shape_db {
    const struct rule_spec *spec;
    struct sink *sink;
    struct identity *identity;   /* NULL: nobody asks which database it is */
    struct object_table *tables; /* shape object */
    struct sink_table *columns;  /* shape columns: as described; NULL: not yet */
    bool explaining;             /* nothing is asked or made: tables are as they would be */
};

/* shape_owner.c: what terrace_tables says of a name. RC_NOT_FOUND: nothing. */
enum rc owner_get(struct shape_db *db, struct bytes name, struct arena *arena,
                  struct bytes *ret_pair, struct err *err) NODISCARD;
/* Unless it says something already. */
enum rc owner_put(struct shape_db *db, struct bytes name, struct bytes pair,
                  struct err *err) NODISCARD;
/* A sink_greet_fn: whether this is the database of the rule. */
enum rc shape__greet(void *db, struct err *err) NODISCARD;

/* Around all that may connect. */
void shape__begin(struct shape_db *db);
enum rc shape__end(struct shape_db *db, enum rc rc, const struct err *err); /* returns rc */

/* Some fields of an owner, and whether what is left of it is swept. */
struct slice {
    struct land_owner *owner;
    size_t from, to;
    bool sweep;
};

/* A transaction under construction; everything is in the arena, which the caller clears. */
struct change_list {
    struct arena *arena;
    struct sink_change *change;
    size_t count, cap;
};
void change_add(struct change_list *list, const struct sink_change *change);

/* The changes of these slices. RC_INVALID, RC_NOT_FOUND as sinks have them. */
enum rc object_changes(struct shape_db *db, const struct slice *slice, size_t count,
                       struct change_list *list, struct err *err) NODISCARD;
enum rc columns_changes(struct shape_db *db, const struct slice *slice, size_t count,
                        struct change_list *list, struct err *err) NODISCARD;
/* No such table: RC_OK, and no rows. RC_NOT_FOUND: it has changed since it was looked at. */
enum rc object_lift(struct shape_db *db, const struct address *address, const struct bytes *field,
                    size_t field_count, struct lift_rows *to, struct err *err) NODISCARD;
enum rc columns_lift(struct shape_db *db, const struct address *address, struct lift_rows *to,
                     struct err *err) NODISCARD;
/* shape_many.c: owners of one table, in byte order of what SQL calls them. */
struct many_owner {
    const struct address *address;
    struct bytes id; /* query_all_key, or the key column */
    size_t owner;    /* its place in the caller's list */
};
struct many {
    const struct many_owner *owner;
    size_t count;
    shape_row_fn *fn;
    void *arg;
    const struct sink_table *table; /* shape columns */
};
/* Which of them has this id; NULL: none. */
const struct many_owner *many_find(const struct many *many, const struct sink_cell *id);
/* `value` holds the ids. No such table: RC_OK, and no rows. RC_NOT_FOUND: it has changed since it
 * was looked at. */
enum rc object_lift_many(struct shape_db *db, struct many *many, const struct bytes *value,
                         struct err *err) NODISCARD;
enum rc columns_lift_many(struct shape_db *db, struct many *many, const struct bytes *value,
                          struct err *err) NODISCARD;
/* What is known of tables may be wrong: it is asked for again. */
void object_forget(struct shape_db *db);
void columns_forget(struct shape_db *db);
/* The query that lifts an owner, for people. */
enum rc object_lift_text(struct shape_db *db, const struct address *address, struct buf *to,
                         struct err *err) NODISCARD;
enum rc columns_lift_text(struct shape_db *db, const struct address *address, struct buf *to,
                          struct err *err) NODISCARD;

/* What is_del says. In a table that was there before us it is of any type (TINYINT, BIT, CHAR, ...)
 * and may come as bytes. Anything but 0 is deleted. */
bool cell_is_deleted(const struct sink_cell *cell);
static inline uint64_t cell_version(const struct sink_cell *cell) /* 0: none */
{
    int64_t version = sink_cell_version(cell);
    return version > 0 ? (uint64_t)version : 0;
}

/* A row of SQL becomes a field. RC_NOMEM, RC_TOO_BIG. */
enum rc lift_row_add(struct lift_rows *to, struct bytes field, struct bytes value, uint64_t version,
                     struct err *err) NODISCARD;
struct bytes arena_join(struct arena *arena, struct bytes a, struct bytes separator,
                        struct bytes b);

static inline struct sink_cell cell_int(int64_t number)
{
    return (struct sink_cell){.kind = SINK_INT, .number = number};
}
static inline struct sink_cell cell_bytes(struct bytes bytes)
{
    return (struct sink_cell){.kind = SINK_BYTES, .bytes = bytes};
}
static inline struct sink_cell cell_null(void)
{
    return (struct sink_cell){.kind = SINK_NULL};
}

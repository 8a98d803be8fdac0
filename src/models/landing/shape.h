// SPDX-License-Identifier: Apache-2.0
/* shape.h - what changes of keys become in SQL, and what SQL rows become in a hash.
 *
 * A batch is filled by the lander on the executor, landed by shape_land() on a worker's thread, and
 * read by the lander again. Shape object is in shape_object.c, shape columns in shape_columns.c.
 *
 * Ownership: a batch owns copies of everything in its arena.
 * Threads: one at a time, handed over. */
#pragma once

#include "models/landing/address.h"
#include "models/landing/identity.h"
#include "models/landing/sink.h"

/* ---- changes ---- */

struct mark_seen { /* of an entry when it was read; 0: it was not there */
    struct bytes entry;
    uint64_t marked, saving, error;
};

struct land_field {
    struct bytes name, value;
    bool here;        /* false: it is to be removed */
    uint64_t version; /* its newest mark */
    struct mark_seen seen;
    const char *refused; /* why the database does not take it; NULL: it landed */
    bool unlandable;     /* its name: it is not sent, and refused if it is here */
};

struct land_owner {
    struct address address;
    struct bytes key;
    uint32_t table;  /* number of its dirty table */
    int64_t time_ms; /* when it was read: create_time, update_time, del_time */
    bool exists;     /* there is a hash */
    struct land_field *field;
    size_t field_count, field_cap;
    /* The key changed as a whole: what SQL has besides these fields and is older goes. */
    uint64_t owner_version; /* 0: it did not */
    bool sweep;             /* all its fields are in this batch or were in those before */
    struct mark_seen seen;
    const char *refused;
};

struct land_batch {
    struct arena arena;
    struct land_owner *owner;
    size_t owner_count, owner_cap;
    size_t field_count; /* of all owners */
    size_t bytes;       /* of all values */
    uint64_t newest;    /* version; it leaves when this one is durable */
    uint64_t future;    /* a version above this one is no version: see shape_stats.newer */
};
void land_batch_init(struct land_batch *batch);
void land_batch_done(struct land_batch *batch);
void land_batch_clear(struct land_batch *batch);
struct land_owner *land_batch_owner(struct land_batch *batch); /* a new one, zeroed */
struct land_field *land_batch_field(struct land_batch *batch, struct land_owner *owner);
const char *shape_reason(struct land_batch *batch, const struct err *err); /* in its arena */

/* ---- a database, as a rule sees it ---- */

struct shape_db; /* defined in models/landing/shape_int.h; a sink and what is known of its tables */
/* Connects to nothing. RC_INVALID: the URL, or the password file. Borrows the identity of the
 * database, which every connection has to meet; NULL: it may be any. */
enum rc shape_open(const struct rule_spec *spec, struct identity *identity,
                   struct shape_db **ret_db, struct err *err) NODISCARD;
void shape_close(struct shape_db *db);             /* NULL is allowed */
void shape_interrupt(struct shape_db *db);         /* any thread: see sink_interrupt() */
const char *shape_name(const struct shape_db *db); /* for people, without the password */

/* Connects if there is no connection, and asks for a sign of life. RC_IO. */
enum rc shape_ping(struct shape_db *db, struct err *err) NODISCARD;

struct shape_stats { /* of one call */
    uint64_t row_count, refused_count, statement_count;
    uint64_t newer; /* the highest version in SQL that was above ours; 0: none was */
};
/* Lands the batch in one transaction, or, if the database refuses it, in halves until what it
 * refuses stands alone: `refused` says why. A row that SQL has a newer version of is refused as
 * well. RC_OK: everything has landed or is refused. RC_IO: the database is away; what has landed
 * may land again. */
enum rc shape_land(struct shape_db *db, struct land_batch *batch, struct shape_stats *ret_stats,
                   struct err *err) NODISCARD;

/* ---- lifting ---- */

struct lift_row {
    struct bytes field, value;
    uint64_t version; /* 0: none */
};
struct lift_rows { /* of one owner */
    struct arena arena;
    struct lift_row *row;
    size_t count, cap;
    uint64_t newest;
};
void lift_rows_init(struct lift_rows *rows);
void lift_rows_done(struct lift_rows *rows);
/* Fields of an owner that are in SQL and not deleted; without fields all of them. A database
 * without the table has none. RC_IO, RC_INVALID, RC_NOMEM. */
enum rc shape_lift(struct shape_db *db, const struct address *address, const struct bytes *field,
                   size_t field_count, struct lift_rows *to, struct err *err) NODISCARD;

/* The same of several owners at once, a query a table: rows as they come, the owner by its place in
 * `address`. Nothing is held in memory. After an error some rows may have been given. */
typedef enum rc shape_row_fn(void *arg, size_t owner, const struct lift_row *row, struct err *err);
enum rc shape_lift_many(struct shape_db *db, const struct address *const *address, size_t count,
                        shape_row_fn *fn, void *arg, struct err *err) NODISCARD;

/* LAND.EXPLAIN: statements that land this batch, and those that lift its first owner, a line each.
 */
enum rc shape_explain(struct shape_db *db, struct land_batch *batch, struct buf *to,
                      struct err *err) NODISCARD;

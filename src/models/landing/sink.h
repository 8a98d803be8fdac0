// SPDX-License-Identifier: Apache-2.0
/* sink.h - where changes land: one connection to a SQL database.
 *
 * A sink knows tables, columns and versions. It knows nothing of rules, keys or the store: what
 * rows a change becomes is the shape's business (shape.h). Everything that differs between
 * databases is behind this header; one contract suite runs over all of them.
 *
 * Invariants every sink keeps:
 *   (1) sink_land() is one transaction: all of it or nothing, and RC_OK only when it is committed
 *       and would survive a power cut of the database.
 *   (2) A row is taken only if its version is newer than the one that is there; NULL is the oldest,
 *       and an equal version changes nothing: it is a replay. So landing the same thing twice is
 *       harmless; whoever does not know whether a commit happened does it again. Something older
 *       is never put over something newer, and never passed over in silence: an upsert with a row
 *       that is older than the one that is there is RC_NEWER. A sweep passes by what is newer.
 *   (3) A value is stored exactly or refused, never cut, rounded or converted to something else:
 *       what is taken is read as the same bytes. So '007' and '1.5' are refused by an INT, and
 *       '1.5' by a DECIMAL(5,2), which would give '1.50' back.
 *   (4) Names are quoted and values are bound. No byte of a name or a value is ever read as SQL.
 *
 * What all functions answer:
 *   RC_OK
 *   RC_IO         the database is away or cannot now: no connection, lost while waiting for the
 *                 answer, read-only, disk full, locked, deadlocks that do not end. Nothing may have
 *                 happened, or all of it: the same again later is right.
 *   RC_INVALID    the database refuses this, now and later: a value that does not fit its column,
 *                 an invalid name, a constraint. Nothing has happened.
 *   RC_NOT_FOUND  no such table, or no such column: nothing has happened.
 *   RC_NEWER      sink_land() only: the database holds a newer version of a row (2). Nothing has
 *                 happened.
 *   RC_NOMEM
 * Every function connects first if there is no connection; after RC_IO the next one tries anew.
 *
 * Ownership: sink_open() gives the sink to its caller. Arguments are borrowed for the call, rows
 * given to a sink_row_fn until it returns.
 * Threads: one at a time. Several sinks of the same database may be open at once. */
#pragma once

#include "base/bytes.h"
#include "base/err.h"

struct sink; /* defined in models/landing/sink_int.h */

/* ---- tables ---- */

enum sink_type {              /* what a column can hold, as far as it matters to us */
                 SINK_KEY,    /* VARCHAR(512), compared as bytes: a key or indexed column */
                 SINK_TEXT,   /* valid UTF-8 of any length; *_bin collation where we create it */
                 SINK_BLOB,   /* any bytes */
                 SINK_BIGINT, /* 64 bits, signed */
                 SINK_OTHER,  /* of a table that is not ours: the database says whether a value fits
                               */
};
enum {
    SINK_COLUMNS_MAX = 4096,  /* no database has more */
    SINK_NAME_BYTES_MAX = 64, /* of tables and columns; a limit of MySQL */
    SINK_KEY_CHARS_MAX = 512, /* characters, not bytes */
};

struct sink_column {
    struct bytes name;
    enum sink_type type;
    bool is_required;  /* NOT NULL */
    bool is_automatic; /* the database changes it with the row: ON UPDATE CURRENT_TIMESTAMP */
    bool is_indexed;   /* sink_describe(): an index begins with it */
    bool starts_at_0;  /* where we add it: DEFAULT 0, also in rows that are there; else NULL */
};

/* Column 0 is the primary key. Who looks for a table's columns by name does it byte by byte, except
 * that databases do not tell apart upper and lower case: two columns that differ in nothing else
 * are RC_INVALID. */
struct sink_table {
    struct bytes name;
    struct sink_column *column;
    size_t column_count;
    size_t version; /* which column holds the version */
    size_t index;   /* which has an index of its own; 0: none */
};

/* What any database can have as a name. */
enum rc sink_check_name(struct bytes name, const char *what, struct err *err) NODISCARD;
/* Names that are equal after this may be one table. */
void sink_fold_name(uint8_t *name, size_t len);

/* ---- changes ---- */

enum sink_kind { SINK_NULL, SINK_INT, SINK_BYTES };
struct sink_cell {
    enum sink_kind kind;
    int64_t number;
    struct bytes bytes;
};

enum sink_use {
    SINK_SET,  /* inserted, and overwrites what is there */
    SINK_KEEP, /* inserted; a row that is there keeps its own (create_time) */
};

/* INSERT rows, or update those that are there with an older version. Rows of one upsert have
 * different keys, in byte order of the keys. */
struct sink_upsert {
    const size_t *column;     /* which columns of the table, the key (0) first */
    const enum sink_use *use; /* of each of them */
    size_t column_count;
    const struct sink_cell *cell; /* row by row */
    size_t row_count;
    /* Columns that become NULL if the row that is there has anything but 0 in `deleted`: a removed
     * row keeps its values, and must not get them back with the one that is set now. Required ones
     * take their default. */
    const size_t *clear;
    size_t clear_count;
    size_t deleted;
    /* Columns that take their default. */
    const size_t *reset;
    size_t reset_count;
};

/* Sets columns of every row with an older version in which column `where` has this value: what is
 * left of an owner that was replaced or removed. */
struct sink_sweep {
    size_t where;
    struct sink_cell equals;
    int64_t version; /* is set as well */
    const size_t *column;
    const struct sink_cell *cell;
    size_t column_count;
};

struct sink_change {
    const struct sink_table *table;
    enum sink_change_kind { SINK_UPSERT, SINK_SWEEP } kind;
    union {
        struct sink_upsert upsert;
        struct sink_sweep sweep;
    };
};

/* One transaction, changes in order. Statements are made as large as the server's packet limit
 * allows, and no larger. A deadlock is tried again, a few times, before it is RC_IO.
 * RC_INVALID says nothing about which row it was: the caller halves. After RC_NEWER *ret_newer (may
 * be NULL) is the highest version of all rows that are newer than those given; otherwise it is as
 * it was. */
enum rc sink_land(struct sink *sink, const struct sink_change *change, size_t count,
                  int64_t *ret_newer, struct err *err) NODISCARD;

/* The same, and takes it back: whether it would land. Nobody asks for versions: a row that is newer
 * is no error. What others write meanwhile may change that. */
enum rc sink_check(struct sink *sink, const struct sink_change *change, size_t count,
                   struct err *err) NODISCARD;

/* ---- queries ---- */

/* SELECT columns WHERE where IN (values), or, without values, of all rows whose key is above
 * `after` (has_after), in byte order of the key, at most limit. */
struct sink_query {
    const struct sink_table *table;
    const size_t *column; /* which are wanted */
    size_t column_count;
    size_t where;
    const struct bytes *value;
    size_t value_count;
    bool has_after;
    struct bytes after;
    size_t limit; /* 0: all */
};
/* Values are compared as bytes, whatever the column's collation says; there are no two alike.
 * cell: one a wanted column. Numbers of SINK_BIGINT columns come as SINK_INT, everything else as
 * bytes, written as the database writes it as text. An error ends the query and is returned. */
typedef enum rc sink_row_fn(void *arg, const struct sink_cell *cell, struct err *err);
/* A version that was read. In a table that is not ours its column may be no SINK_BIGINT: one above
 * INT64_MAX (BIGINT UNSIGNED) is INT64_MAX, and what is no number is 0. */
int64_t sink_cell_version(const struct sink_cell *cell);
/* Rows are streamed: a large answer is never held in memory. */
enum rc sink_select(struct sink *sink, const struct sink_query *query, sink_row_fn *fn, void *arg,
                    struct err *err) NODISCARD;

/* ---- what is there ---- */

/* The table as the database has it: all columns that can be written, the key first. `version` is
 * the column named up_version, 0 if there is none; `index` is 0. RC_NOT_FOUND: no such table;
 * RC_INVALID: it has no primary key of one column, more than SINK_COLUMNS_MAX columns, or an engine
 * without transactions. Free with sink_table_free(). */
enum rc sink_describe(struct sink *sink, struct bytes name, struct sink_table **ret_table,
                      struct err *err) NODISCARD;
void sink_table_free(struct sink_table *table); /* NULL is allowed */
/* CREATE TABLE IF NOT EXISTS, with its index. A table that is there is left as it is. */
enum rc sink_create(struct sink *sink, const struct sink_table *table, struct err *err) NODISCARD;
/* CREATE INDEX on the column that table->index names, under our own name for it. */
enum rc sink_add_index(struct sink *sink, const struct sink_table *table,
                       struct err *err) NODISCARD;
/* ALTER TABLE ADD COLUMN; RC_OK as well if another has added it meanwhile. The new column is NULL
 * in every row, or 0 if it starts so. */
enum rc sink_add_column(struct sink *sink, struct bytes table, const struct sink_column *column,
                        struct err *err) NODISCARD;

/* ---- life ---- */

/* sqlite:PATH
 * mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?OPTION=VALUE&...], host may be [::1]; USER,
 * PASSWORD and values may be %-encoded. Options: socket=PATH (instead of host), ssl-ca, ssl-cert,
 * ssl-key (paths), ssl=required|verify|off (ssl-ca alone: verify), connect-timeout (5), timeout
 * (30; seconds). An unknown option is refused. password: "" or what a password file holds; wins
 * over the one in the URL. Connects to nothing: RC_INVALID for what cannot be understood. */
enum rc sink_open(const char *url, const char *password, struct sink **ret_sink,
                  struct err *err) NODISCARD;
/* Whether there is a password in the URL; it, and the URL without it, are the caller's to free. */
bool sink_url_password(const char *url, char **ret_password, char **ret_bare);
void sink_close(struct sink *sink); /* NULL is allowed */
/* A connection that was made is greeted before it is used for anything else. fn may use the sink;
 * its error ends the connection, and is RC_IO for who wanted it. */
typedef enum rc sink_greet_fn(void *arg, struct err *err);
void sink_greet_set(struct sink *sink, sink_greet_fn *fn, void *arg);
/* SQLite: whether a file that is not there is made. It is, unless told otherwise. */
void sink_make_set(struct sink *sink, bool makes);
/* The last attempt to connect found that there is no such file, or no such database. */
bool sink_is_missing(const struct sink *sink);
/* Connects if there is no connection and asks for a sign of life. */
enum rc sink_ping(struct sink *sink, struct err *err) NODISCARD;
/* The URL without its password, for people. Borrowed from the sink. */
const char *sink_name(const struct sink *sink);
/* From any thread: what the sink does now, and everything after it, ends soon with RC_IO. For
 * closing a server whose database hangs. Only the making of a connection cannot be cut short: it
 * ends after connect-timeout. */
void sink_interrupt(struct sink *sink);

struct buf;
/* The SQL these would run, one statement a line, with ? for values. For LAND.EXPLAIN. RC_NOMEM. */
enum rc sink_change_text(struct sink *sink, const struct sink_change *change, struct buf *to,
                         struct err *err) NODISCARD;
enum rc sink_query_text(struct sink *sink, const struct sink_query *query, struct buf *to,
                        struct err *err) NODISCARD;

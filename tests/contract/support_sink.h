// SPDX-License-Identifier: Apache-2.0
/* support_sink.h - a sink of either kind over a fresh database, and short ways to use it.
 *
 * One MariaDB server serves all tests of a program; each test has a database of its own in it.
 * Values of scripts are text: "-" is NULL, "#5" the number 5, everything else bytes.
 *
 * Ownership: sink_fix_done() closes and frees all.
 * Threads: one. */
#pragma once

#include "base/buf.h"
#include "models/landing/sink.h"
#include "support/mariadb_fix.h"
#include "test.h"

enum sink_fix_kind { SINK_FIX_SQLITE, SINK_FIX_MYSQL };

struct sink_fix {
    enum sink_fix_kind kind;
    struct sink *sink;
    struct err err;
    char url[700];
    char database[64]; /* MariaDB's */
    char path[400];    /* SQLite's file */
    void *raw;         /* sqlite3 * or MYSQL *: another client of the same database */
    struct buf text;   /* of the last sink_fix_ask() or sink_fix_rows() */
};

void sink_fix_init(struct sink_fix *fix, enum sink_fix_kind kind);
void sink_fix_done(struct sink_fix *fix);
/* Runs fn with a fresh database of each kind. */
void sink_fix_each(void (*fn)(struct sink_fix *fix));
void sink_fix_mysql(void (*fn)(struct sink_fix *fix)); /* of one kind only */
void sink_fix_sqlite(void (*fn)(struct sink_fix *fix));
struct mariadb *sink_fix_server(void);       /* the one of this program; is started if need be */
struct mariadb *sink_fix_server_there(void); /* as it is */
struct sink *sink_fix_open(struct sink_fix *fix); /* one more of the same database */

/* Another client: a statement, or a question whose rows come as "a|b;c|d". NULL is "-". */
void sink_fix_sql(struct sink_fix *fix, const char *sql);
const char *sink_fix_ask(struct sink_fix *fix, const char *sql);
void sink_fix_raw_close(struct sink_fix *fix);

/* The object table of spec/landing.md. */
enum {
    OBJ_KEY,
    OBJ_LOGIC,
    OBJ_OWNER,
    OBJ_FIELD,
    OBJ_VALUE,
    OBJ_VERSION,
    OBJ_IS_DEL,
    OBJ_DEL_TIME,
    OBJ_CREATE_TIME,
    OBJ_UPDATE_TIME,
    OBJ_ALL,
    OBJ_COLUMNS
};
extern const struct sink_table sink_fix_object;

/* A small table: k (key), v (blob), ver (version), made (bigint, kept), owner (key, indexed). */
enum { SMALL_K, SMALL_V, SMALL_VERSION, SMALL_MADE, SMALL_OWNER, SMALL_COLUMNS };
extern const struct sink_table sink_fix_small;

struct sink_cell sink_fix_cell(const char *text);
/* Lands rows of one table: columns names a list "k v up_version", `+k` is KEEP. rows is a list of
 * row_count * columns texts. */
enum rc sink_fix_land(struct sink_fix *fix, const struct sink_table *table, const char *columns,
                      const char *const *text, size_t row_count);
/* One row of the small table: (k, v, version, made, owner "o"). */
enum rc sink_fix_put(struct sink_fix *fix, const char *key, const char *value, int64_t version);
/* Everything of a table through sink_select(), as "a|b;c|d", in order of keys. */
const char *sink_fix_rows(struct sink_fix *fix, const struct sink_table *table,
                          const char *columns);

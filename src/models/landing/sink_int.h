// SPDX-License-Identifier: Apache-2.0
/* sink_int.h - what the files behind sink.h share: URLs, declarations of columns, SQL texts, and
 * the table of operations of a database.
 *
 * Ownership: a struct sink is embedded first in the database's own struct; a struct sink_def owns
 * all it points to.
 * Threads: as sink.h says; `interrupted` is the one field that two threads touch. */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "models/landing/sink.h"

enum {
    SINK_SQL_BYTES_MAX = 16 * 1024 * 1024,
    SINK_URL_BYTES_MAX = 4096,
    SINK_SECONDS_MAX = 3600, /* of a time limit in a URL */
    SINK_IN_VALUES_MAX = 512,
    SINK_DEFS_MAX = 64,       /* tables whose declaration is remembered */
    SINK_STATEMENTS_MAX = 48, /* prepared and kept */
    SINK_MEMBERS_BYTES_MAX = 128 * 1024,
};

/* ---- URLs ---- */

enum sink_tls { SINK_TLS_OFF, SINK_TLS_REQUIRED, SINK_TLS_VERIFY };

struct sink_url { /* strings are owned; NULL where the URL says nothing */
    const struct sink_ops *ops;
    char *path; /* of SQLite's file */
    char *user;
    char *password;
    char *host;
    unsigned port;
    char *database;
    char *socket;
    char *ssl_ca, *ssl_cert, *ssl_key;
    enum sink_tls tls;
    unsigned connect_timeout_s;
    unsigned timeout_s;
    char *name; /* the URL without its password */
};

enum rc sink__url_parse(const char *text, struct sink_url *ret_url, struct err *err) NODISCARD;
void sink__url_done(struct sink_url *url);

/* ---- what the database has declared ---- */

/* Each kind is a rule for which bytes come back as they were given; see sink_fit.c. */
enum sink_decl_kind {
    DECL_INT,        /* min..max */
    DECL_DECIMAL,    /* precision, scale: always scale digits */
    DECL_FLOAT,      /* digits; has_scale: and precision and scale as DECIMAL */
    DECL_TEXT,       /* chars_max, bytes_max, takes_bytes; is_padded: loses spaces at its end */
    DECL_BYTES,      /* bytes_max; is_padded: BINARY, is filled up */
    DECL_DATE,       /* 2024-02-29 */
    DECL_DATETIME,   /* 2024-02-29 10:20:30, scale digits after the point */
    DECL_TIME,       /* -838:59:59 */
    DECL_YEAR,       /* 1901..2155 */
    DECL_ENUM,       /* one of members */
    DECL_SET,        /* some of members, in their order */
    DECL_UUID,       /* lower case, with hyphens */
    DECL_ANY,        /* SQLite without a type: bytes stay what they are */
    DECL_REAL,       /* SQLite: is read with a point */
    DECL_NUMERIC,    /* SQLite: what looks like a number becomes one */
    DECL_NUMBER,     /* SQLite: has to be a number; precision 0: of any size */
    DECL_IMPOSSIBLE, /* no rule is known: every value is refused */
};

struct sink_decl {
    struct bytes name; /* owned by the definition */
    enum sink_decl_kind kind;
    enum sink_type type; /* what sink_describe() calls it */
    int64_t min;
    uint64_t max;
    uint64_t chars_max;
    uint64_t bytes_max;
    unsigned precision;
    unsigned scale;
    unsigned fill_width; /* ZEROFILL; 0: none */
    unsigned digits;     /* significant ones that a FLOAT keeps */
    bool has_scale;
    bool takes_bytes; /* SQLite: a text that is none is kept as a blob */
    bool is_unsigned;
    bool is_padded;
    bool is_nullable;
    bool is_generated; /* nobody can write it */
    bool is_automatic;
    bool is_indexed;      /* an index begins with it */
    bool is_byte_ordered; /* compared as bytes: equal means identical */
    char *members;        /* of ENUM and SET: 'a','b''c' as the database writes it */
    char *declared;       /* for people */
};

struct sink_def {
    struct bytes name;
    struct sink_decl *decl;
    size_t decl_count;
    size_t key;           /* which is the primary key */
    bool has_shared_keys; /* rows may collide although their keys differ in a byte */
    uint64_t fingerprint; /* changes when the table does */
    uint64_t checked_in;  /* the transaction that has compared it */
};

/* Values that differ in a byte may be equal to the database. */
bool sink__decl_is_loose(const struct sink_decl *decl);
struct sink_def *sink__def_new(struct bytes name);
void sink__def_free(struct sink_def *def); /* NULL is allowed */
/* Copies name and declared. */
struct sink_decl *sink__def_add(struct sink_def *def, struct bytes name, const char *declared);
const struct sink_decl *sink__def_find(const struct sink_def *def, struct bytes name);
/* What sink_describe() returns. */
struct sink_table *sink__def_table(const struct sink_def *def);
/* The declarations of these columns of a table; RC_NOT_FOUND names the first that is not there. */
enum rc sink__def_match(const struct sink_def *def, const struct sink_table *table,
                        const size_t *column, size_t count, const struct sink_decl **ret_decl,
                        struct err *err) NODISCARD;

struct sink_defs { /* remembered; the oldest makes room */
    struct sink_def *def[SINK_DEFS_MAX];
    size_t count;
};
struct sink_def *sink__defs_find(struct sink_defs *defs, struct bytes name);
void sink__defs_put(struct sink_defs *defs, struct sink_def *def); /* takes; replaces its like */
void sink__defs_drop(struct sink_defs *defs);                      /* all */

/* ---- whether a value fits ---- */

enum sink_bind { SINK_BIND_NULL, SINK_BIND_INT, SINK_BIND_TEXT, SINK_BIND_BLOB };
struct sink_bound {
    enum sink_bind bind;
    int64_t number;
    struct bytes bytes; /* borrowed from the cell, or from digits */
    char digits[24];    /* a number that is stored as bytes; do not copy the struct */
};
/* How the cell is bound to its column, or RC_INVALID if it would not be read as the same bytes. */
enum rc sink__fit(const struct sink_decl *decl, const struct sink_cell *cell,
                  struct sink_bound *ret_bound, struct err *err) NODISCARD;
/* Versions are compared by the database: their column has to be a number of 64 bits. */
enum rc sink__def_check_version(const struct sink_def *def, const struct sink_table *table,
                                struct err *err) NODISCARD;
bool sink__parse_int(struct bytes text, int64_t *ret_number); /* canonical, whole */

/* ---- SQL texts ---- */

struct sink_dialect {
    char quote; /* around names */
    bool is_mysql;
    const char *type[SINK_OTHER];
};

bool sink__sql_name(struct buf *to, const struct sink_dialect *dialect, struct bytes name);
bool sink__sql_upsert(struct buf *to, const struct sink_dialect *dialect,
                      const struct sink_table *table, const struct sink_upsert *upsert,
                      size_t row_count);
/* is_loose: `where` is compared by a collation, so its bytes are compared as well (a second ?). */
bool sink__sql_sweep(struct buf *to, const struct sink_dialect *dialect,
                     const struct sink_table *table, const struct sink_sweep *sweep, bool is_loose);

struct sink_select {
    const struct sink_query *query;
    size_t in_count;     /* values of IN; 0: a walk over keys */
    bool is_loose;       /* the key is not byte ordered by itself */
    const bool *as_text; /* a wanted column: is read through a CAST; NULL: none */
    bool wants_where;    /* one column more: `where`, to be compared */
    bool is_newer;       /* only rows with a version above a last ? */
    bool locks;          /* MySQL: rows as they are now, and nobody changes them. By the primary key
                            alone: a scan would lock what others write. */
};
bool sink__sql_select(struct buf *to, const struct sink_dialect *dialect,
                      const struct sink_select *select);
bool sink__sql_create(struct buf *to, const struct sink_dialect *dialect,
                      const struct sink_table *table, const char *tail);
bool sink__sql_index(struct buf *to, const struct sink_dialect *dialect,
                     const struct sink_table *table);
bool sink__sql_add_column(struct buf *to, const struct sink_dialect *dialect, struct bytes table,
                          const struct sink_column *column);
/* Values of IN are padded to a power of two with NULL, so that few statements exist. */
size_t sink__in_count(size_t value_count);

/* ---- a database ---- */

#define SINK_NONE_NEWER INT64_MIN /* no version is older */

struct sink_ops {
    const char *name;
    const struct sink_dialect *dialect;
    /* Takes what it wants out of url, leaving NULL. Connects to nothing. */
    struct sink *(*open)(struct sink_url *url);
    void (*close)(struct sink *sink);
    /* RC_OK: there is a connection, as far as one can know without asking. Sets is_new with one
     * that was made, is_missing if there is nothing to connect to. */
    enum rc (*connect)(struct sink *sink, struct err *err);
    void (*disconnect)(struct sink *sink);
    enum rc (*ping)(struct sink *sink, struct err *err);
    /* newest NULL: a check, rolled back at the end instead of committed. Otherwise *newest becomes
     * SINK_NONE_NEWER, or, with RC_NEWER, the highest version that kept a row from being taken. */
    enum rc (*land)(struct sink *sink, const struct sink_change *change, size_t count,
                    int64_t *newest, struct err *err);
    /* values: at most SINK_IN_VALUES_MAX of query->value, or 0 and a walk. limit: 0 is none. */
    enum rc (*select)(struct sink *sink, const struct sink_query *query, sink_row_fn *fn, void *arg,
                      struct err *err);
    enum rc (*define)(struct sink *sink, struct bytes name, const struct sink_def **ret_def,
                      struct err *err);
    enum rc (*create)(struct sink *sink, const struct sink_table *table, struct err *err);
    enum rc (*add_index)(struct sink *sink, const struct sink_table *table, struct err *err);
    enum rc (*add_column)(struct sink *sink, struct bytes table, const struct sink_column *column,
                          struct err *err);
    void (*interrupt)(struct sink *sink); /* from any thread */
};
extern const struct sink_ops sink__sqlite_ops;
extern const struct sink_ops sink__mysql_ops;

struct sink {
    const struct sink_ops *ops;
    char *name;
    size_t query_bytes_max; /* of the values of one statement; known once there is a connection */
    sink_greet_fn *greet;
    void *greet_arg;
    bool is_new;      /* the connection, which is to be greeted */
    bool is_greeting; /* what the greeting asks is not greeted again */
    bool is_missing;
    bool never_makes;
    _Atomic bool interrupted; /* shared: atomic */
};

/* There is a connection, and it was greeted. */
enum rc sink__connect(struct sink *sink, struct err *err) NODISCARD;

/* Before the commit: RC_NEWER if a row was not taken. */
enum rc sink__check_newer(const struct sink *sink, const int64_t *newest,
                          struct err *err) NODISCARD;
/* The version of a row of an upsert. */
int64_t sink__row_version(const struct sink_table *table, const struct sink_upsert *upsert,
                          size_t row);
/* RC_IO if sink_interrupt() was called. */
enum rc sink__check_interrupt(struct sink *sink, struct err *err) NODISCARD;
/* Whether a row that the database found equal is one of the values, byte by byte. */
bool sink__query_has(const struct sink_query *query, const struct sink_cell *where);

// SPDX-License-Identifier: Apache-2.0
/* sink_mysql_int.h - what the files of the MySQL sink share: the connection, its statements, rows.
 *
 * Threads: as sink.h says; `lock` guards `fd` against sink_interrupt(). */
#pragma once

#include <mariadb/mysql.h>
#include <pthread.h>

#include "models/landing/sink_int.h"

struct mysql_statement {
    MYSQL_STMT *stmt;
    char *sql;
    uint64_t used;
};

struct sink_mysql {
    struct sink sink;
    struct sink_url url;
    struct sink_dialect dialect; /* its types have the collation that this server knows */
    MYSQL *mysql;                /* NULL: no connection */
    pthread_mutex_t lock;
    int fd;            /* under lock; -1: none */
    size_t packet_max; /* max_allowed_packet of this session */
    unsigned error;    /* number of the last error */
    uint64_t transaction;
    struct sink_defs defs;
    struct mysql_statement statement[SINK_STATEMENTS_MAX];
    uint64_t use_count;
    struct buf sql;
};

static inline struct sink_mysql *sink__mysql_of(struct sink *sink)
{
    return (struct sink_mysql *)sink;
}

/* Errors that end a transaction and leave the connection as it is: the same again may work. */
bool sink__mysql_may_retry(unsigned error);
/* err from the statement, or from the connection if stmt is NULL. RC_IO ends the connection, unless
 * the same again may work. */
enum rc sink__mysql_fail(struct sink_mysql *mysql, MYSQL_STMT *stmt, const char *doing,
                         struct err *err);
/* is_rude: nothing is sent or read any more, because there may be a lot of it. */
void sink__mysql_disconnect(struct sink_mysql *mysql, bool is_rude);
/* A statement without values and without an answer. */
enum rc sink__mysql_run(struct sink_mysql *mysql, const char *sql, const char *doing,
                        struct err *err) NODISCARD;
enum rc sink__mysql_run_built(struct sink_mysql *mysql, bool is_built, const char *doing,
                              struct err *err) NODISCARD;
/* The text that was built in mysql->sql; the statement is kept. */
enum rc sink__mysql_prepare(struct sink_mysql *mysql, bool is_built, MYSQL_STMT **ret_stmt,
                            struct err *err) NODISCARD;
/* bound stays where it is until the statement has been executed. */
void sink__mysql_bind(MYSQL_BIND *bind, const struct sink_bound *bound);
/* Binds and executes. count is what the statement has. */
enum rc sink__mysql_execute(struct sink_mysql *mysql, MYSQL_STMT *stmt, MYSQL_BIND *bind,
                            const char *doing, struct err *err) NODISCARD;
/* The rows of an executed statement. type: a column; SINK_BIGINT comes as a number if it is one.
 * An error of fn ends the connection: what is left of the answer may be long. */
struct mysql_rows {
    MYSQL_STMT *stmt;
    const enum sink_type *type; /* NULL: everything is bytes */
    sink_row_fn *fn;
    void *arg;
};
enum rc sink__mysql_rows(struct sink_mysql *mysql, const struct mysql_rows *rows,
                         struct err *err) NODISCARD;

/* Fresh from the database. */
enum rc sink__mysql_define(struct sink *sink, struct bytes name, const struct sink_def **ret_def,
                           struct err *err) NODISCARD;
/* What is remembered, if the table still looks so: one short statement. */
enum rc sink__mysql_describe(struct sink *sink, struct bytes name, const struct sink_def **ret_def,
                             struct err *err) NODISCARD;
/* In a transaction: the table cannot be altered until its end. */
enum rc sink__mysql_define_locked(struct sink_mysql *mysql, struct bytes name,
                                  const struct sink_def **ret_def, struct err *err) NODISCARD;
enum rc sink__mysql_land(struct sink *sink, const struct sink_change *change, size_t count,
                         int64_t *newest, struct err *err) NODISCARD;
enum rc sink__mysql_select(struct sink *sink, const struct sink_query *query, sink_row_fn *fn,
                           void *arg, struct err *err) NODISCARD;

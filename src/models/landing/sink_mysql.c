// SPDX-License-Identifier: Apache-2.0
/* sink_mysql.c - MySQL and MariaDB: one connection through MariaDB Connector/C.
 *
 * Every connection is set up anew: strict mode, utf8mb4, UTC (a TIMESTAMP has no hour that is there
 * twice), and limits for waiting. Nothing of a session is trusted to survive. */
#include <mariadb/errmsg.h>
#include <mariadb/mysqld_error.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "models/landing/sink_mysql_int.h"

#include "base/banned.h"

enum {
    LOCK_WAIT_S = 5,         /* for a row or a table that another has */
    PACKET_MAX_LEAST = 1024, /* what the server itself allows */
};

/* ---- errors ---- */

bool sink__mysql_may_retry(unsigned error)
{
    return error == ER_LOCK_DEADLOCK || error == ER_LOCK_WAIT_TIMEOUT || error == ER_NEED_REPREPARE;
}

/* Numbers that no header of Connector/C names. */
enum {
    MYSQL_OPTION_PREVENTS = 1290, /* --read-only and its like */
    MYSQL_READ_ONLY_MODE = 1836,
    MYSQL_READ_ONLY_TRANSACTION = 1792,
    MYSQL_DISK_FULL = 28, /* the errno itself, from some engines */
    MYSQL_CLIENT_ERRORS = 2000,
    MYSQL_CLIENT_ERRORS_END = 3000,
    MYSQL_CLIENT_TLS_ERRORS = 5000,
    MYSQL_CLIENT_TLS_ERRORS_END = 5100,
    MYSQL_SLAVE_CANNOT_WRITE = 1793,
    MYSQL_GALERA_NOT_READY = 1047,
    MYSQL_LOG_FULL = 1026,
    MYSQL_INNODB_READ_ONLY = 1874,
    MYSQL_STATEMENT_TIMEOUT = 1969,
    MYSQL_QUERY_TIMEOUT = 3024,
    MYSQL_INNODB_FORCED_RECOVERY = 1881,
    MYSQL_TOO_MANY_USER_CONNECTIONS = 1203,
    MYSQL_USER_LIMIT = 1226,
    MYSQL_MUST_CHANGE_PASSWORD = 1820,
    MYSQL_PASSWORD_EXPIRED = 1862,
    MYSQL_CONNECTION_KILLED = 1927,
    MYSQL_TEMP_FILE = 1878,
    MYSQL_LOCK_ABORTED = 1689,
    MYSQL_TABLESPACE_FULL = 1114,
};

/* The server cannot now. Everything else that it says is about the statement or its values and is
 * RC_INVALID: a row that is refused for a reason unknown here then stands alone in the error table
 * and is tried again there, while as RC_IO it would stop all others for ever. */
static bool is_away(unsigned error)
{
    static const unsigned numbers[] = {
        MYSQL_OPTION_PREVENTS, MYSQL_READ_ONLY_MODE, MYSQL_READ_ONLY_TRANSACTION, MYSQL_DISK_FULL,
        MYSQL_SLAVE_CANNOT_WRITE, MYSQL_GALERA_NOT_READY, MYSQL_LOG_FULL, MYSQL_INNODB_READ_ONLY,
        MYSQL_STATEMENT_TIMEOUT, MYSQL_QUERY_TIMEOUT, MYSQL_INNODB_FORCED_RECOVERY,
        MYSQL_TOO_MANY_USER_CONNECTIONS, MYSQL_USER_LIMIT, MYSQL_MUST_CHANGE_PASSWORD,
        MYSQL_PASSWORD_EXPIRED, MYSQL_CONNECTION_KILLED, MYSQL_TEMP_FILE, MYSQL_LOCK_ABORTED,
        MYSQL_TABLESPACE_FULL,
        /* access: a person can grant it, and the rows are right */
        ER_ACCESS_DENIED_ERROR, ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR,
        ER_COLUMNACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_HOST_NOT_PRIVILEGED,
        ER_HOST_IS_BLOCKED, ER_BAD_DB_ERROR, ER_NO_DB_ERROR,
        /* files and memory of the server */
        ER_DISK_FULL, ER_ERROR_ON_WRITE, ER_ERROR_ON_READ, ER_ERROR_ON_RENAME, ER_CANT_CREATE_FILE,
        ER_CANT_OPEN_FILE, ER_CANT_READ_DIR, ER_CANT_LOCK, ER_CANT_GET_STAT, ER_FILE_NOT_FOUND,
        ER_FILE_USED, ER_GET_ERRNO, ER_OUTOFMEMORY, ER_OUT_OF_SORTMEMORY, ER_OUT_OF_RESOURCES,
        ER_CON_COUNT_ERROR, ER_CANT_CREATE_THREAD, ER_OPEN_AS_READONLY, ER_NOT_KEYFILE,
        ER_OLD_KEYFILE, ER_CRASHED_ON_USAGE, ER_CRASHED_ON_REPAIR, ER_LOCK_TABLE_FULL,
        ER_READ_ONLY_TRANSACTION, ER_ERROR_DURING_COMMIT, ER_ERROR_DURING_ROLLBACK,
        /* the connection */
        ER_SERVER_SHUTDOWN, ER_NORMAL_SHUTDOWN, ER_NEW_ABORTING_CONNECTION, ER_ABORTING_CONNECTION,
        ER_HANDSHAKE_ERROR, ER_NET_READ_ERROR, ER_NET_READ_INTERRUPTED, ER_NET_ERROR_ON_WRITE,
        ER_NET_WRITE_INTERRUPTED, ER_NET_PACKETS_OUT_OF_ORDER, ER_NET_UNCOMPRESS_ERROR,
        ER_NET_FCNTL_ERROR, ER_NET_READ_ERROR_FROM_PIPE, ER_QUERY_INTERRUPTED, ER_UNKNOWN_COM_ERROR,
        ER_UNKNOWN_STMT_HANDLER, ER_MAX_PREPARED_STMT_COUNT_REACHED};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (numbers[i] == error)
            return true;
    return (error >= MYSQL_CLIENT_ERRORS && error < MYSQL_CLIENT_ERRORS_END) ||
           (error >= MYSQL_CLIENT_TLS_ERRORS && error < MYSQL_CLIENT_TLS_ERRORS_END);
}

static enum rc classify(unsigned error)
{
    switch (error) {
    case CR_OUT_OF_MEMORY:
        return RC_NOMEM;
    case ER_NO_SUCH_TABLE:
    case ER_BAD_TABLE_ERROR:
    case ER_BAD_FIELD_ERROR:
    case ER_KEY_COLUMN_DOES_NOT_EXIST:
        return RC_NOT_FOUND;
    case CR_NET_PACKET_TOO_LARGE:
    case ER_NET_PACKET_TOO_LARGE:
        return RC_INVALID;
    default:
        return sink__mysql_may_retry(error) || is_away(error) ? RC_IO : RC_INVALID;
    }
}

enum rc sink__mysql_fail(struct sink_mysql *mysql, MYSQL_STMT *stmt, const char *doing,
                         struct err *err)
{
    unsigned error = stmt ? mysql_stmt_errno(stmt) : mysql_errno(mysql->mysql);
    const char *text = stmt ? mysql_stmt_error(stmt) : mysql_error(mysql->mysql);
    enum rc rc = classify(error);
    mysql->error = error;
    if (atomic_load(&mysql->sink.interrupted))
        rc = RC_IO;
    rc = err_set(err, rc, "could not %s \"%s\": %s (%u)", doing, mysql->sink.name, text, error);
    bool is_lost = error >= MYSQL_CLIENT_ERRORS && error < MYSQL_CLIENT_ERRORS_END;
    if (is_lost || error == ER_NET_PACKET_TOO_LARGE ||
        (rc == RC_IO && !sink__mysql_may_retry(error)))
        sink__mysql_disconnect(mysql, true);
    return rc;
}

/* ---- life ---- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void library_init(void)
{
    mysql_library_init(0, NULL, NULL); /* the first call is not safe from two threads */
}

static struct sink *mysql_sink_open(struct sink_url *url)
{
    struct sink_mysql *mysql = mem_zalloc(sizeof *mysql);
    pthread_once(&library_once, library_init);
    mysql->url = *url;
    mysql->url.name = NULL;
    *url = (struct sink_url){.ops = url->ops, .name = url->name};
    mysql->fd = -1;
    pthread_mutex_init(&mysql->lock, NULL);
    buf_init(&mysql->sql, SINK_SQL_BYTES_MAX);
    return &mysql->sink;
}

void sink__mysql_disconnect(struct sink_mysql *mysql, bool is_rude)
{
    if (!mysql->mysql)
        return;
    pthread_mutex_lock(&mysql->lock);
    if (is_rude && mysql->fd >= 0)
        shutdown(mysql->fd, SHUT_RDWR);
    mysql->fd = -1;
    pthread_mutex_unlock(&mysql->lock);
    for (size_t i = 0; i < SINK_STATEMENTS_MAX; i++) {
        if (mysql->statement[i].stmt)
            mysql_stmt_close(mysql->statement[i].stmt);
        mem_free(mysql->statement[i].sql);
        mysql->statement[i] = (struct mysql_statement){0};
    }
    sink__defs_drop(&mysql->defs);
    mysql_close(mysql->mysql);
    mysql->mysql = NULL;
}

static void mysql_sink_close(struct sink *sink)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    sink__mysql_disconnect(mysql, false);
    pthread_mutex_destroy(&mysql->lock);
    buf_done(&mysql->sql);
    sink__url_done(&mysql->url);
    mem_free(mysql);
}

/* A blocking read or write of the other thread ends when its socket is shut down. */
static void mysql_sink_interrupt(struct sink *sink)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    pthread_mutex_lock(&mysql->lock);
    if (mysql->fd >= 0)
        shutdown(mysql->fd, SHUT_RDWR);
    pthread_mutex_unlock(&mysql->lock);
}

/* ---- connection ---- */

static void set_options(struct sink_mysql *mysql)
{
    const struct sink_url *url = &mysql->url;
    MYSQL *to = mysql->mysql;
    const unsigned protocol = url->socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    const unsigned off = 0;
    const my_bool on = 1;
    mysql_options(to, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(to, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(to, MYSQL_OPT_CONNECT_TIMEOUT, &url->connect_timeout_s);
    mysql_options(to, MYSQL_OPT_READ_TIMEOUT, &url->timeout_s);
    mysql_options(to, MYSQL_OPT_WRITE_TIMEOUT, &url->timeout_s);
    mysql_options(to, MYSQL_OPT_LOCAL_INFILE, &off); /* a server must not read our files */
    /* nor ask for the password itself */
    mysql_options(to, MARIADB_OPT_RESTRICTED_AUTH,
                  "mysql_native_password,client_ed25519,caching_sha2_password,sha256_password,"
                  "auth_gssapi_client");
    if (url->tls == SINK_TLS_OFF)
        return;
    mysql_options(to, MYSQL_OPT_SSL_ENFORCE, &on);
    if (url->tls == SINK_TLS_VERIFY)
        mysql_options(to, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
    if (url->ssl_ca)
        mysql_options(to, MYSQL_OPT_SSL_CA, url->ssl_ca);
    if (url->ssl_cert)
        mysql_options(to, MYSQL_OPT_SSL_CERT, url->ssl_cert);
    if (url->ssl_key)
        mysql_options(to, MYSQL_OPT_SSL_KEY, url->ssl_key);
}

/* One row of the answer to a question that is ours. */
static enum rc ask(struct sink_mysql *mysql, const char *sql, char *to, size_t to_bytes,
                   struct err *err)
{
    enum rc rc = RC_OK;
    if (mysql_real_query(mysql->mysql, sql, strlen(sql)) != 0)
        return sink__mysql_fail(mysql, NULL, "set up", err);
    MYSQL_RES *res = mysql_store_result(mysql->mysql);
    if (!res)
        return sink__mysql_fail(mysql, NULL, "set up", err);
    MYSQL_ROW row = mysql_fetch_row(res);
    snprintf(to, to_bytes, "%s", row && row[0] ? row[0] : "");
    mysql_free_result(res);
    return rc;
}

/* Columns of ours are compared as bytes. The old _bin collations are not: 'a' and 'a ' are equal.
 */
static void set_types(struct sink_mysql *mysql, const char *collation)
{
    struct sink_dialect *dialect = &mysql->dialect;
    *dialect = *mysql->sink.ops->dialect;
    if (strcmp(collation, "utf8mb4_nopad_bin") == 0)
        dialect->type[SINK_KEY] = "VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";
    else if (strcmp(collation, "utf8mb4_0900_bin") == 0)
        dialect->type[SINK_KEY] = "VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin";
}

static enum rc set_up(struct sink_mysql *mysql, struct err *err)
{
    char sql[512], answer[64];
    /* NO_AUTO_VALUE_ON_ZERO: else 0 in an AUTO_INCREMENT column is stored as another number. */
    snprintf(sql, sizeof sql,
             "SET SESSION sql_mode='STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION,"
             "NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO',"
             "time_zone='+00:00',autocommit=1,lock_wait_timeout=%d,innodb_lock_wait_timeout=%d,"
             "net_write_timeout=600",
             LOCK_WAIT_S, LOCK_WAIT_S);
    enum rc rc = sink__mysql_run(mysql, sql, "set up", err);
    if (rc == RC_OK)
        rc = ask(mysql, "SELECT @@max_allowed_packet", answer, sizeof answer, err);
    if (rc != RC_OK)
        return rc;
    int64_t packet_max = 0;
    if (!sink__parse_int(bytes_of(answer, strlen(answer)), &packet_max) ||
        packet_max < PACKET_MAX_LEAST)
        return err_set(err, RC_IO, "\"%s\" has no max_allowed_packet", mysql->sink.name);
    mysql->packet_max = (size_t)packet_max;
    mysql->sink.query_bytes_max = mysql->packet_max / 2;
    rc = ask(mysql,
             "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME IN"
             " ('utf8mb4_nopad_bin','utf8mb4_0900_bin') ORDER BY COLLATION_NAME DESC LIMIT 1",
             answer, sizeof answer, err);
    if (rc == RC_OK)
        set_types(mysql, answer);
    return rc;
}

/* An idle connection on which something can be read has been closed by the other side. */
static bool is_stale(struct sink_mysql *mysql)
{
    struct pollfd poll_fd = {.fd = mysql->fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) != 0;
}

/* Whatever a server says while it is connected to: it is not there for us now. */
static enum rc away(enum rc rc, struct err *err)
{
    if (rc == RC_OK || rc == RC_NOMEM)
        return rc;
    if (err)
        err->rc = RC_IO;
    return RC_IO;
}

static enum rc mysql_sink_connect(struct sink *sink, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    const struct sink_url *url = &mysql->url;
    if (mysql->mysql && !is_stale(mysql))
        return RC_OK;
    sink__mysql_disconnect(mysql, true);
    mysql->mysql = mysql_init(NULL);
    if (!mysql->mysql)
        return err_set(err, RC_NOMEM, "no memory for a connection");
    set_options(mysql);
    if (!mysql_real_connect(mysql->mysql, url->socket ? NULL : url->host, url->user,
                            url->password ? url->password : "", url->database, url->port,
                            url->socket, 0)) {
        enum rc rc = sink__mysql_fail(mysql, NULL, "connect to", err);
        sink->is_missing = mysql->error == ER_BAD_DB_ERROR;
        sink__mysql_disconnect(mysql, true);
        return away(rc, err);
    }
    pthread_mutex_lock(&mysql->lock);
    mysql->fd = (int)mysql_get_socket(mysql->mysql);
    pthread_mutex_unlock(&mysql->lock);
    sink->is_new = true;
    enum rc rc = sink__check_interrupt(sink, err); /* it may have come before there was an fd */
    /* The library takes a server without TLS all the same. */
    if (rc == RC_OK && url->tls != SINK_TLS_OFF && !mysql_get_ssl_cipher(mysql->mysql))
        rc = err_set(err, RC_IO, "\"%s\" has no TLS, and its URL asks for it", sink->name);
    if (rc == RC_OK)
        rc = set_up(mysql, err);
    if (rc != RC_OK)
        sink__mysql_disconnect(mysql, true);
    return away(rc, err);
}

static void mysql_sink_disconnect(struct sink *sink)
{
    sink__mysql_disconnect(sink__mysql_of(sink), true);
}

static enum rc mysql_sink_ping(struct sink *sink, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    /* Not mysql_ping(): a database that was dropped under its connection is not there. */
    if (mysql_select_db(mysql->mysql, mysql->url.database) != 0)
        return sink__mysql_fail(mysql, NULL, "reach", err);
    return RC_OK;
}

/* ---- statements ---- */

static enum rc run(struct sink_mysql *mysql, struct bytes sql, const char *doing, struct err *err)
{
    if (mysql_real_query(mysql->mysql, (const char *)sql.ptr, sql.len) != 0)
        return sink__mysql_fail(mysql, NULL, doing, err);
    return RC_OK;
}

enum rc sink__mysql_run(struct sink_mysql *mysql, const char *sql, const char *doing,
                        struct err *err)
{
    return run(mysql, bytes_of(sql, strlen(sql)), doing, err);
}

enum rc sink__mysql_run_built(struct sink_mysql *mysql, bool is_built, const char *doing,
                              struct err *err)
{
    if (!is_built)
        return err_set(err, RC_NOMEM, "no room for the text of a statement");
    return run(mysql, buf_bytes(&mysql->sql), doing, err);
}

static struct mysql_statement *find_statement(struct sink_mysql *mysql, struct bytes sql)
{
    struct mysql_statement *oldest = &mysql->statement[0];
    for (size_t i = 0; i < SINK_STATEMENTS_MAX; i++) {
        struct mysql_statement *statement = &mysql->statement[i];
        if (statement->sql && bytes_eq(bytes_of(statement->sql, strlen(statement->sql)), sql))
            return statement;
        if (statement->used < oldest->used)
            oldest = statement;
    }
    if (oldest->stmt)
        mysql_stmt_close(oldest->stmt);
    mem_free(oldest->sql);
    *oldest = (struct mysql_statement){0};
    return oldest;
}

enum rc sink__mysql_prepare(struct sink_mysql *mysql, bool is_built, MYSQL_STMT **ret_stmt,
                            struct err *err)
{
    if (!is_built)
        return err_set(err, RC_NOMEM, "no room for the text of a statement");
    struct bytes sql = buf_bytes(&mysql->sql);
    struct mysql_statement *statement = find_statement(mysql, sql);
    statement->used = ++mysql->use_count;
    if (statement->stmt) {
        *ret_stmt = statement->stmt;
        return RC_OK;
    }
    MYSQL_STMT *stmt = mysql_stmt_init(mysql->mysql);
    if (!stmt)
        return err_set(err, RC_NOMEM, "no memory for a statement");
    if (mysql_stmt_prepare(stmt, (const char *)sql.ptr, sql.len) != 0) {
        /* The statement is not kept, so it has to go before the connection might. */
        unsigned error = mysql->error = mysql_stmt_errno(stmt);
        enum rc rc = err_set(err, classify(error), "could not prepare for \"%s\": %s (%u)",
                             mysql->sink.name, mysql_stmt_error(stmt), error);
        mysql_stmt_close(stmt);
        if (rc == RC_IO && !sink__mysql_may_retry(error))
            sink__mysql_disconnect(mysql, true);
        return rc;
    }
    statement->stmt = stmt;
    statement->sql = mem_alloc(sql.len + 1);
    memcpy(statement->sql, sql.ptr, sql.len);
    statement->sql[sql.len] = '\0';
    *ret_stmt = stmt;
    return RC_OK;
}

void sink__mysql_bind(MYSQL_BIND *bind, const struct sink_bound *bound)
{
    *bind = (MYSQL_BIND){0};
    switch (bound->bind) {
    case SINK_BIND_NULL:
        bind->buffer_type = MYSQL_TYPE_NULL;
        return;
    case SINK_BIND_INT:
        bind->buffer_type = MYSQL_TYPE_LONGLONG;
        bind->buffer = (void *)&bound->number;
        return;
    case SINK_BIND_TEXT:
        bind->buffer_type = MYSQL_TYPE_STRING;
        break;
    case SINK_BIND_BLOB:
        bind->buffer_type = MYSQL_TYPE_BLOB;
        break;
    }
    bind->buffer = bound->bytes.len ? (void *)bound->bytes.ptr : (void *)"";
    bind->buffer_length = bound->bytes.len;
}

enum rc sink__mysql_execute(struct sink_mysql *mysql, MYSQL_STMT *stmt, MYSQL_BIND *bind,
                            const char *doing, struct err *err)
{
    if (bind && mysql_stmt_bind_param(stmt, bind) != 0)
        return sink__mysql_fail(mysql, stmt, doing, err);
    if (mysql_stmt_execute(stmt) != 0)
        return sink__mysql_fail(mysql, stmt, doing, err);
    return RC_OK;
}

/* ---- tables ---- */

static enum rc mysql_sink_create(struct sink *sink, const struct sink_table *table, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    buf_cut(&mysql->sql, 0);
    bool is_built = sink__sql_create(&mysql->sql, &mysql->dialect, table,
                                     " CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC");
    return sink__mysql_run_built(mysql, is_built, "create a table in", err);
}

static enum rc mysql_sink_add_index(struct sink *sink, const struct sink_table *table,
                                    struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    buf_cut(&mysql->sql, 0);
    bool is_built = sink__sql_index(&mysql->sql, &mysql->dialect, table);
    enum rc rc = sink__mysql_run_built(mysql, is_built, "create an index in", err);
    return rc == RC_INVALID && mysql->error == ER_DUP_KEYNAME ? RC_OK : rc; /* another was faster */
}

static enum rc mysql_sink_add_column(struct sink *sink, struct bytes table,
                                     const struct sink_column *column, struct err *err)
{
    struct sink_mysql *mysql = sink__mysql_of(sink);
    const struct sink_def *def;
    buf_cut(&mysql->sql, 0);
    bool is_built = sink__sql_add_column(&mysql->sql, &mysql->dialect, table, column);
    enum rc rc = sink__mysql_run_built(mysql, is_built, "add a column in", err);
    if (rc == RC_INVALID && mysql->error == ER_DUP_FIELDNAME &&
        sink__mysql_define(sink, table, &def, NULL) == RC_OK && sink__def_find(def, column->name))
        return RC_OK; /* another was faster */
    return rc;
}

static const struct sink_dialect mysql_dialect = {
    .quote = '`',
    .is_mysql = true,
    .type = {[SINK_KEY] = "VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
             [SINK_TEXT] = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
             [SINK_BLOB] = "LONGBLOB",
             [SINK_BIGINT] = "BIGINT"},
};

const struct sink_ops sink__mysql_ops = {
    .name = "mysql",
    .dialect = &mysql_dialect,
    .open = mysql_sink_open,
    .close = mysql_sink_close,
    .connect = mysql_sink_connect,
    .disconnect = mysql_sink_disconnect,
    .ping = mysql_sink_ping,
    .land = sink__mysql_land,
    .select = sink__mysql_select,
    .define = sink__mysql_describe,
    .create = mysql_sink_create,
    .add_index = mysql_sink_add_index,
    .add_column = mysql_sink_add_column,
    .interrupt = mysql_sink_interrupt,
};

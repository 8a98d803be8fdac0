/* server_int.h - what the files of server/ share.
 *
 * Threads: the executor. */
#pragma once

#include "server/cmd.h"
#include "server/server.h"
#include "store/task.h"

#define TERRACE_VERSION "0.1.0"
#define REDIS_VERSION "7.0.0" /* whose protocol and answers are followed */

enum { REQUEST_ARGS_FEW = 6 };

struct request { /* one command of one connection */
    struct task task;
    struct conn *conn;
    const struct cmd *cmd; /* NULL: unknown */
    struct bytes *argv;    /* argv_few, or owned; the bytes are the connection's input */
    size_t argc;
    struct bytes argv_few[REQUEST_ARGS_FEW];
    struct resp_out reply;
    bool answered; /* its reply is final */
    struct request *next;
};

/* Invariants of a connection:
 *   (1) Requests are answered to the client in the order of the list.
 *   (2) A request runs only while it is `runnable`, the first that has not run to its end.
 *   (3) While there are requests the input does not move: their arguments point into it. */
struct conn {
    struct server *server;
    struct loop_watch watch;
    struct resp_parser parser;
    struct buf in;
    struct buf out;
    size_t out_sent; /* of out */
    struct request *first, *last, *runnable;
    size_t request_count;
    uint64_t reply_bytes; /* of requests that have run, and of out */
    bool eof;             /* the client sends no more */
    bool quit;            /* nothing more is read; closed when everything is sent */
    bool deaf;            /* QUIT has run: the commands behind it are not */
    bool broken;          /* nothing more is sent */
    bool touched;         /* in the server's list */
    struct conn *touched_next;
    struct conn *prev, *next;
};

struct server_watch { /* what was last said about the store's health */
    uint64_t next_ns;
    bool read_only, disk_low, flush_failing;
};

struct server {
    struct loop *loop;
    struct store *store;
    const struct clock *clock;
    const struct options *config;
    struct tasks *tasks;
    struct ns ns;
    struct ns_ids ids;
    struct loop_watch listener;
    struct loop_watch signals;
    uint16_t port;
    uint64_t start_ms;
    struct conn *conns;
    size_t conn_count;
    size_t conn_count_max;
    struct conn *touched;
    struct request *spare; /* kept for the next commands */
    size_t spare_count;
    bool busy; /* something was parsed: another turn at once */
    unsigned signal_count;
    struct server_watch watch;
    struct {
        uint64_t connection_count, rejected_count, command_count, error_count;
        uint64_t input_bytes, output_bytes;
    } stats;
};

/* Takes the descriptor. */
void server__conn_new(struct server *server, int fd);
void server__conn_close(struct conn *conn); /* and frees it */
/* Closes it after the replies so far; commands that were sent after this one do not run. */
void server__conn_quit(struct conn *conn);
/* After a turn: sends what is ready, and goes on with the input. */
void server__conns_settle(struct server *server);
/* Takes a parsed request and starts its task. False: no memory. */
bool server__request_start(struct conn *conn, const uint8_t *in,
                           const struct resp_parser *parser) NODISCARD;
/* A reply of our own, in its place after those of the requests before it. */
bool server__request_refuse(struct conn *conn, const char *prefix, const char *text) NODISCARD;
void server__request_free(struct request *request);
void server__request_cancel(struct request *request);
void server__runnable_wake(struct conn *conn);
/* Once a second: says in the log what has become wrong with the store, or right again. */
void server__watch(struct server *server);

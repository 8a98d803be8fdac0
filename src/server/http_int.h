// SPDX-License-Identifier: Apache-2.0
/* http_int.h - the two sides of the HTTP port. For src/server/http*.c.
 *
 * Ownership: an ask belongs to its connection and lives until the request is over; between asked
 * and answered only the executor touches it.
 * Threads: stands at each field. */
#pragma once

#include <microhttpd.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/thread.h"
#include "command/model.h"
#include "server/http.h"
#include "server/loop.h"
#include "store/task.h"

struct ask {          /* a request */
    struct task task; /* on the executor, where it has to wait for something cold */
    struct http *http;
    struct MHD_Connection *connection;
    struct ask *next;                        /* in a list of asks or answers */
    struct ask *waiting_prev, *waiting_next; /* executor: in http->waiting */
    void *waiter[CMD_MODELS_MAX];            /* executor: as cmd_request.waiter */
    size_t model; /* whose page it is; MODEL_COUNT: the server's, /metrics */
    struct page page;
    bool answered;
    size_t counted_bytes; /* of http->waiting_bytes */
};

enum http_conn_state {
    HTTP_CONN_WAITING, /* no whole request has come */
    HTTP_CONN_ASKING,  /* one has, and is being answered */
    HTTP_CONN_ENDING,  /* it was told to go */
    HTTP_CONN_STATES,
};
struct http_conn {
    struct MHD_Connection *connection;
    enum http_conn_state state;
    uint64_t since_ns; /* in this state */
    struct http_conn *prev, *next;
};
struct http_conns {
    struct http_conn *first, *last; /* the first has been in its state for the longest */
    size_t count;
};

struct http_counts { /* shared: atomic */
    _Atomic uint64_t ok, not_modified, bad, not_found, not_allowed, unavailable;
};

struct http {
    struct server *server;
    struct MHD_Daemon *daemon;                 /* the thread's, until it has ended */
    struct loop *loop;                         /* the thread's */
    struct loop_source daemon_fd;              /* the thread's */
    struct http_conns conns[HTTP_CONN_STATES]; /* the thread's */
    struct ask *fresh, **fresh_end;            /* the thread's: of this round */
    struct thread thread;
    uint64_t max_age_s;                   /* constant */
    struct task task;                     /* the executor's: answers what it can at once */
    struct ask *taken;                    /* the executor's: not looked at yet */
    struct ask *waiting;                  /* the executor's: those that wait for something cold */
    struct ask *answered, **answered_end; /* the executor's: until their turn is safe */
    uint64_t answered_lsn;                /* the executor's: that has to be durable; 0: none */
    pthread_mutex_t lock;
    struct ask *asks, **asks_end;       /* shared: under lock */
    struct ask *answers, **answers_end; /* shared: under lock */
    atomic_size_t waiting_bytes;        /* shared: atomic; of answers that are not sent */
    atomic_bool starved;                /* shared: atomic; `taken` waits for them to be fewer */
    atomic_bool closing;                /* shared: atomic */
    struct http_counts counts;
};

/* http_ask.c: the executor's side */
void http__asks_start(struct http *http);
/* Whoever has the ask: of the answers that are not sent it holds as much as its data now does. */
void http__ask_count(struct ask *ask);
/* No thread runs any more: whatever waits is answered with 503. */
void http__asks_end(struct http *http);

/* http_reply.c: the thread's side */
enum MHD_Result http__reply(struct ask *ask);
/* A short text. */
enum MHD_Result http__reply_text(struct http *http, struct MHD_Connection *connection,
                                 unsigned status, struct bytes text);

/* http_conn.c; the thread's */
void http__conn_notify(void *http, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode code);
/* A whole request has come on it, or is over. */
void http__conn_asks(struct http *http, struct MHD_Connection *connection, bool asks);
void http__conns_look(struct http *http); /* closes those that have waited for too long */

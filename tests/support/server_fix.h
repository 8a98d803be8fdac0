// SPDX-License-Identifier: Apache-2.0
/* server_fix.h - a whole server on a store in memory: no sockets, no threads of the store, and time
 * that a test turns by hand.
 *
 * A fake client is a struct conn without a descriptor (server__conn_new() with -1). A test gives it
 * requests, runs turns, and takes what may leave: everything between the parser and the output is
 * the server's own code. Nothing happens between two calls of the fixture, so a test sees every
 * turn, every load and every sync by itself.
 *
 * Text of replies: every end of a line is one space, and the last one is left out: "+OK $1 v".
 *
 * Ownership: the test owns the fixture; connections are the server's. Threads: the test's. */
#pragma once

#include "base/file_sim.h"
#include "server/server_int.h"
#include "store/engine/engine_memory.h"

enum { SERVER_FIX_TEXT_BYTES = 4096 };

struct server_fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock; /* by hand */
    struct config config;
    struct loop *loop; /* nobody waits for it */
    struct store *store;
    struct server *server;
    char text[SERVER_FIX_TEXT_BYTES]; /* of the last server_fix_take() */
    struct err err;
};

void server_fix_init(struct server_fix *fix);
/* With lines of a configuration file: "durability always". */
void server_fix_init_with(struct server_fix *fix, const char *config);
void server_fix_done(struct server_fix *fix);

struct conn *server_fix_conn(struct server_fix *fix); /* a new client */
/* Whether the server still has it; the pointer may have been freed. */
bool server_fix_has(const struct server_fix *fix, const struct conn *conn);
/* Its next request: words that are separated by one space each. It runs in the next turn. */
void server_fix_send(struct conn *conn, const char *words);
void server_fix_send_bytes(struct conn *conn, struct bytes bytes); /* as they are */
void server_fix_hang_up(struct conn *conn); /* it sends no more, and takes no more */

/* One turn; what other threads would do meanwhile has not happened. */
void server_fix_turn(struct server_fix *fix);
void server_fix_load(struct server_fix *fix); /* everything that was asked for, and no turn */
void server_fix_sync(struct server_fix *fix); /* the journal, and no turn */
/* Turns and loads until nobody has anything to do. */
void server_fix_run(struct server_fix *fix);
/* Flushes, and evicts everything: every key is cold. */
void server_fix_cool(struct server_fix *fix);

/* Everything that may leave to the client. Valid until the next call. */
const char *server_fix_take(struct server_fix *fix, struct conn *conn);
/* Sends, runs and takes. */
const char *server_fix_call(struct server_fix *fix, struct conn *conn, const char *words);

/* Runs of commands and tasks that were taken back. */
uint64_t server_fix_undone(struct server_fix *fix);

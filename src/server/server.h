/* server.h - the RESP server: sockets in, commands, replies out.
 *
 * A turn: read all ready sockets, run, one journal frame, reply. The commands of a connection run
 * in order, each when the one before it has run; its replies leave in that order. A command that
 * waits (for the engine, for room in memory) holds up its own connection only.
 *
 * Ownership: everything in the options is borrowed for the server's life.
 * Threads: the executor. */
#pragma once

#include "base/clock.h"
#include "server/loop.h"
#include "server/config.h"
#include "store/store.h"

struct server; /* defined in server/server_int.h */

struct server_options {
    struct loop *loop;
    struct store *store;
    const struct clock *clock;
    struct config *config; /* CONFIG SET changes it */
    int signal_fd; /* a signalfd; SIGHUP opens the log again, any other signal ends server_run() */
};

/* Listens. */
enum rc server_new(const struct server_options *options, struct server **ret_server,
                   struct err *err) NODISCARD;
void server_free(struct server *server); /* NULL is allowed */
const char *server_version(void);
uint16_t server_port(const struct server *server);
/* Serves until a signal comes; then finishes what was sent, and flushes for a bounded time. A
 * second signal ends that at once. */
enum rc server_run(struct server *server, struct err *err) NODISCARD;

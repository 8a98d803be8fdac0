// SPDX-License-Identifier: Apache-2.0
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
#include "base/limits.h"
#include "server/loop.h"
#include "server/config.h"
#include "store/store.h"

struct server; /* defined in server/server_int.h */

/* TCP sockets that have their address and do not listen yet. They are bound before a store is
 * opened: a port that is taken ends the start before a data directory is made, and nobody connects
 * to a server that is not there. The Unix socket comes later: its path belongs to whom the
 * directory belongs. */
struct ports {
    int fd[LISTENERS_MAX];
    size_t count;
    int http_fd;   /* -1: none */
    uint16_t port; /* of the first */
};
enum rc ports_bind(const struct config *config, struct ports *ret_ports, struct err *err) NODISCARD;
void ports_close(struct ports *ports); /* those that no server has taken */

struct server_options {
    struct loop *loop;
    struct store *store;
    const struct clock *clock;
    struct config *config; /* CONFIG SET changes it */
    struct ports *ports;   /* the server takes its sockets */
    /* A signalfd; SIGHUP opens the log again, any other signal ends server_run(). -1: none. */
    int signal_fd;
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

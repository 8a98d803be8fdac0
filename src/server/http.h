// SPDX-License-Identifier: Apache-2.0
/* http.h - the HTTP port: /metrics for Prometheus, and the pages of models (command/page.h).
 *
 * A thread of its own takes requests and writes replies; what they ask about belongs to the
 * executor. docs/design/0008-tile-tasks-http.md says how the two meet.
 *
 * Ownership: the server is borrowed for its life.
 * Threads: the executor; the thread is inside. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct http; /* defined in server/http_int.h */
struct server;

/* Takes the socket, which has its address, and sets *fd to -1. */
enum rc http_open(struct server *server, int *fd, struct http **ret_http,
                  struct err *err) NODISCARD;
void http_close(struct http *http); /* NULL is allowed */
/* A turn was written, or could not be: its answers leave, when the LSN is durable (0: at once). */
void http_turn_end(struct http *http, enum rc rc, uint64_t lsn);
void http_durable(struct http *http, uint64_t lsn); /* everything up to it is */
/* Nobody knows when something will be durable again: those that wait for it are answered 503. */
void http_give_up(struct http *http, const char *text);

struct http_stats { /* replies by what they were */
    uint64_t ok, not_modified, bad, not_found, not_allowed, unavailable;
};
void http_stats(const struct http *http, struct http_stats *ret_stats);

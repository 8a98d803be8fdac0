/* http.h - the HTTP port: /metrics.
 *
 * A thread of its own takes requests; what they ask about belongs to the executor, so a request is
 * handed to a job there and its thread waits for the answer.
 *
 * Ownership: the server is borrowed for its life. Threads: the executor; the thread is inside. */
#pragma once

#include "base/err.h"

struct http; /* defined in server/http.c */
struct server;

enum rc http_open(struct server *server, struct http **ret_http, struct err *err) NODISCARD;
void http_close(struct http *http); /* NULL is allowed */

// SPDX-License-Identifier: Apache-2.0
/* metrics.h - the server's figures in Prometheus's text format.
 *
 * Threads: the executor. */
#pragma once

#include "base/buf.h"

struct server;

/* False: no memory. */
bool metrics_add(struct server *server, struct buf *to) NODISCARD;

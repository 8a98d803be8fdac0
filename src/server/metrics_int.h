// SPDX-License-Identifier: Apache-2.0
/* metrics_int.h - how metrics.c, metrics_part.c and metrics_tile.c write.
 *
 * Threads: the executor. */
#pragma once

#include "server/metrics.h"

struct metrics {
    struct buf *to;
    bool failed; /* no memory: nothing more is written */
};

/* What comes before the values of a name; "terrace_" is put in front of it. */
void metrics__head(struct metrics *to, const char *name, const char *type, const char *help);
/* A name with one value. */
void metrics__add(struct metrics *to, const char *name, const char *type, const char *help,
                  uint64_t value);
void metrics__add_part(struct metrics *to, const struct server *server);
void metrics__add_tile(struct metrics *to, const struct server *server);

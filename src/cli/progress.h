// SPDX-License-Identifier: Apache-2.0
/* progress.h - a bar on standard error, if that is a terminal.
 *
 * Ownership: the caller owns the struct; the name is borrowed.
 * Threads: one. */
#pragma once

#include "base/clock.h"

struct progress {
    const char *what;     /* "tiles imported" */
    uint64_t total;       /* 0: unknown */
    uint64_t begin_count; /* were there when it began */
    struct clock clock;
    uint64_t begin_ns, shown_ns;
    bool is_on;
};

void progress_begin(struct progress *progress, const char *what, uint64_t total,
                    uint64_t begin_count);
/* Cheap: draws ten times a second at most. */
void progress_at(struct progress *progress, uint64_t count);
void progress_end(struct progress *progress, uint64_t count); /* the line is finished */

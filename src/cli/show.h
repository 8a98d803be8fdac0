// SPDX-License-Identifier: Apache-2.0
/* show.h - prints the replies of a server as redis-cli prints them, while they are read.
 *
 * Ownership: the stream is borrowed.
 * Threads: one. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct show {
    FILE *stream;
    bool raw;       /* not for a terminal: bulks as they are, nothing about types */
    bool no_end;    /* the text brings its last line end itself */
    bool has_begun; /* a line of a reply was read */
    bool had_error; /* a reply, or a part of it, was an error */
    FILE *to;       /* while it is printed: standard output, or what is kept for later */
};

/* Reads a reply, of RESP2 or RESP3, and prints it on standard output, which is flushed.
 * RC_IO: the connection is gone, or standard output takes nothing. */
enum rc show_reply(struct show *show, struct err *err) NODISCARD;
/* Reads a reply and prints nothing. RC_REPLY: it is an error, whose text it is. */
enum rc show_skip(struct show *show, struct err *err) NODISCARD;
/* Waits for a reply, and reads nothing. False: it is no push, or the connection is gone. */
bool show_push_is_next(struct show *show);

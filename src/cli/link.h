// SPDX-License-Identifier: Apache-2.0
/* link.h - a connection that is used for many commands: written in batches, read in order.
 *
 * Commands are collected in `out` (command/resp_out.h) and sent by link_send(); every command has
 * one reply, read in the same order.
 *
 * Ownership: texts and bulks of a reply are borrowed until the next one is read.
 * Threads: one. */
#pragma once

#include "cli/cli.h"
#include "command/resp_out.h"

struct link {
    int fd;
    struct resp_out out;
    uint8_t *in;
    size_t in_at, in_len, in_cap;
};

enum reply_kind { REPLY_STATUS, REPLY_INT, REPLY_BULK, REPLY_NULL, REPLY_ARRAY };
struct reply {
    enum reply_kind kind;
    struct bytes text; /* REPLY_STATUS, REPLY_BULK */
    int64_t number;    /* REPLY_INT; REPLY_ARRAY: how many replies follow */
};

enum rc link_open(struct link *link, const struct cli_server *server, struct err *err) NODISCARD;
void link_close(struct link *link); /* also of a link that was zeroed and not opened */
/* Sends what is in `out`, and empties it. */
enum rc link_send(struct link *link, struct err *err) NODISCARD;
/* RC_REPLY: the server answered with an error, whose text it is. RC_IO: the connection is gone. */
enum rc link_reply(struct link *link, struct reply *ret_reply, struct err *err) NODISCARD;
/* One command of words, and its reply. */
enum rc link_ask(struct link *link, const char *const *word, size_t count, struct reply *ret_reply,
                 struct err *err) NODISCARD;

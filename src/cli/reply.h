/* reply.h - a connection to a server, and its replies as values.
 *
 * Ownership: a reply lives in the link's arena until link_clear(). Threads: one. */
#pragma once

#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "cli/cli.h"
#include "server/resp_out.h"

enum reply_kind { REPLY_NULL, REPLY_TEXT, REPLY_ERROR, REPLY_INT, REPLY_ARRAY };

struct reply {
    enum reply_kind kind;
    int64_t number;     /* REPLY_INT */
    struct bytes text;  /* REPLY_TEXT, REPLY_ERROR */
    struct reply *item; /* REPLY_ARRAY */
    size_t item_count;
};

struct link {
    int fd;
    struct resp_out out;
    uint8_t *in;
    size_t in_at, in_len;
    struct arena arena;
};

enum rc link_open(struct link *link, const struct cli_server *server, struct err *err) NODISCARD;
void link_close(struct link *link);
void link_clear(struct link *link); /* replies so far are forgotten */
/* Adds a command; nothing is sent before link_flush(). */
void link_add(struct link *link, const struct bytes *word, size_t count);
enum rc link_flush(struct link *link, struct err *err) NODISCARD;
enum rc link_reply(struct link *link, struct reply *ret_reply, struct err *err) NODISCARD;
/* All of it; an error reply is RC_REPLY with its text. */
enum rc link_ask(struct link *link, const struct bytes *word, size_t count, struct reply *ret_reply,
                 struct err *err) NODISCARD;
/* The value of a pair of a map. NULL: there is none. */
const struct reply *reply_field(const struct reply *map, const char *label);

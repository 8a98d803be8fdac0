// SPDX-License-Identifier: Apache-2.0
/* resp.h - RESP: requests are parsed; resp_out.h writes replies.
 *
 * A parser is fed the same growing bytes again and again and goes on where it stopped, so a long
 * bulk is not read twice. Requests are arrays of bulks, or lines ("inline commands") with Redis's
 * quoting. Limits, texts and what is tolerated are those of Redis 7.0.
 *
 * Ownership: the parser owns its list of arguments; they are offsets into the caller's bytes.
 * Threads: one owner. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

struct resp_arg {
    size_t offset;
    size_t len;
};

struct resp_parser {
    size_t at;         /* bytes of the input that were understood */
    int64_t args_left; /* of an array; 0: between requests */
    int64_t bulk_len;  /* of the argument being read; -1: its length is still to come */
    struct resp_arg *arg;
    size_t arg_count;
    size_t arg_cap;
    int64_t bulk_bytes_max; /* of one argument */
    bool limited;           /* who sends has not authenticated: few and short arguments */
};

enum resp_result {
    RESP_MORE,    /* everything before `at` was used; bytes are missing */
    RESP_REQUEST, /* arg[0 .. arg_count), at least one */
    RESP_BAD,     /* err has the text, "Protocol error: ..."; the connection cannot go on */
};

void resp_parser_init(struct resp_parser *parser);
void resp_parser_done(struct resp_parser *parser);
/* The next request in in[0 .. len). Quotes of an inline command are undone in place. */
enum resp_result resp_parse(struct resp_parser *parser, uint8_t *in, size_t len, struct err *err);
/* Bytes at the front of the input that are needed no more: nothing of an incomplete request. */
size_t resp_parser_spent(const struct resp_parser *parser);
/* That many of them, or fewer, were removed. */
void resp_parser_rewind(struct resp_parser *parser, size_t count);
/* How many bytes more the incomplete request needs at least. */
size_t resp_parser_need(const struct resp_parser *parser, size_t len);

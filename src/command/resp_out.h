// SPDX-License-Identifier: Apache-2.0
/* resp_out.h - replies are written, as RESP2 or RESP3.
 *
 * What the older protocol does not have is written as Redis writes it there: a map as an array of
 * pairs, a set as an array, a double as a bulk.
 *
 * A write that finds no memory is remembered in `failed`, and everything after it is dropped.
 * `over` says that it was not the memory that ended, but the limit of the buffer.
 *
 * Ownership: the owner of the struct owns the bytes.
 * Threads: one owner. */
#pragma once

#include "base/buf.h"

struct resp_out {
    struct buf buf;
    uint8_t proto; /* 2 or 3 */
    bool failed, over;
};

void resp_out_init(struct resp_out *out, size_t bytes_max); /* RESP2 */
void resp_out_done(struct resp_out *out);
void resp_out_clear(struct resp_out *out);           /* keeps a little memory */
void resp_out_cut(struct resp_out *out, size_t len); /* back to len bytes, as if nothing failed */

void resp_add_status(struct resp_out *out, const char *text);
/* "-<prefix> <text>"; line ends in the text become spaces. An empty prefix: the text has its own.
 */
void resp_add_error(struct resp_out *out, const char *prefix, const char *text);
void resp_add_int(struct resp_out *out, int64_t value);
/* Over what an integer holds: a big number; RESP2: its digits as a bulk. */
void resp_add_uint(struct resp_out *out, uint64_t value);
void resp_add_bulk(struct resp_out *out, struct bytes bytes);
/* A bulk of so many bytes, which follow in pieces (resp_add_raw()), and then its end. */
void resp_add_bulk_begin(struct resp_out *out, size_t len);
void resp_add_bulk_end(struct resp_out *out);
void resp_add_text(struct resp_out *out, const char *text);  /* as a bulk */
void resp_add_int_text(struct resp_out *out, int64_t value); /* a number as a bulk */
void resp_add_double(struct resp_out *out, double value);
void resp_add_bool(struct resp_out *out, bool value);            /* RESP2: 1 or 0 */
void resp_add_verbatim(struct resp_out *out, struct bytes text); /* RESP2: a bulk */
void resp_add_null(struct resp_out *out);
void resp_add_null_array(struct resp_out *out);
void resp_add_array(struct resp_out *out, size_t count); /* the elements follow */
void resp_add_map(struct resp_out *out, size_t count);   /* count pairs follow */
void resp_add_set(struct resp_out *out, size_t count);
void resp_add_push(struct resp_out *out, size_t count);
/* A label and a number, as one of a map. */
void resp_add_pair(struct resp_out *out, const char *label, uint64_t value);
/* Bytes that are a reply already. */
void resp_add_raw(struct resp_out *out, struct bytes bytes);
/* What was written to another one; if that failed, this one has failed for the same reason. */
void resp_add_out(struct resp_out *out, const struct resp_out *part);

/* A length that is known only at the end: open, write the elements, close. They nest. */
size_t resp_open(const struct resp_out *out);
void resp_close_array(struct resp_out *out, size_t mark, size_t count);
void resp_close_map(struct resp_out *out, size_t mark, size_t count);
void resp_close_set(struct resp_out *out, size_t mark, size_t count);
/* A cursor and an array: what SCAN and its kin answer. */
void resp_close_page(struct resp_out *out, size_t mark, int64_t cursor, size_t count);

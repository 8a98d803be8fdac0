// SPDX-License-Identifier: Apache-2.0
/* text.h - the small words of our JSON rows, written and read fast: numbers, times, strings.
 *
 * Rows have one fixed order of members and no spaces: whoever reads them goes over the bytes once.
 * A writer has made room before; a reader never passes the end. What does not look as it was
 * written sets `bad`, and everything after it is empty.
 *
 * Ownership: strings that were read are borrowed from the text, or from the arena if they had
 * escapes.
 * Threads: any. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum {
    TEXT_NUMBER_BYTES = 40, /* room for 128 bits */
    TEXT_TIME_BYTES = 32,   /* room for a time with quotes */
    TEXT_ESCAPE_FACTOR = 6, /* a byte of a string becomes at most this many */
    TEXT_HOUR_BYTES = 13,   /* 2026-11-17T02 */
    TEXT_ID_BYTES = 19,     /* an id with leading zeros: its order is that of the numbers */
};
#define TEXT_TIME_MS_MAX INT64_C(253402300799999) /* the end of the year 9999 */

__extension__ typedef unsigned __int128 text_u128;

/* ---- writing: all return the end of what they wrote ---- */

uint8_t *text_put_u64(uint8_t *to, uint64_t value);
uint8_t *text_put_u128(uint8_t *to, text_u128 value);
/* RFC 3339 in UTC with quotes; milliseconds only if there are any. Negative: null. */
uint8_t *text_put_time(uint8_t *to, int64_t unix_ms);
/* With quotes and escapes. */
uint8_t *text_put_string(uint8_t *to, struct bytes string);
static inline uint8_t *text_put(uint8_t *to, struct bytes literal)
{
    memcpy(to, literal.ptr, literal.len);
    return to + literal.len;
}
void text_put_hour(uint8_t to[TEXT_HOUR_BYTES], int64_t unix_s);
void text_put_id(uint8_t to[TEXT_ID_BYTES], int64_t id);

/* ---- reading ---- */

struct text {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct text text_of(struct bytes bytes)
{
    return (struct text){.at = bytes.ptr, .end = bytes.ptr + bytes.len};
}
/* These bytes come next. */
static inline void text_want(struct text *text, struct bytes literal)
{
    if ((size_t)(text->end - text->at) < literal.len ||
        memcmp(text->at, literal.ptr, literal.len) != 0)
        text->bad = true;
    else
        text->at += literal.len;
}
/* Passes over them if they come next. */
static inline bool text_has(struct text *text, struct bytes literal)
{
    if (text->bad || (size_t)(text->end - text->at) < literal.len ||
        memcmp(text->at, literal.ptr, literal.len) != 0)
        return false;
    text->at += literal.len;
    return true;
}
static inline bool text_is_whole(const struct text *text) /* all of it was read, and was right */
{
    return !text->bad && text->at == text->end;
}
uint64_t text_get_u64(struct text *text);
int64_t text_get_i64(struct text *text); /* 0 .. 2^63-1 */
text_u128 text_get_u128(struct text *text);
int64_t text_get_time(struct text *text); /* -1: null */
struct bytes text_get_string(struct text *text, struct arena *arena);
/* Any JSON value as it stands there: ends before the comma or brace that closes its member. */
struct bytes text_get_raw(struct text *text);
/* 19 digits. */
bool text_id_read(struct bytes text, int64_t *ret_id);

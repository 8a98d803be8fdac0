// SPDX-License-Identifier: Apache-2.0
/* string.h - strings: a value in the meta row of its key, or in rows of 4 KiB when it is longer.
 *
 *   type 'r'  at most 4 KiB: meta.extra is the value.
 *   type 'R'  meta.extra = length(8, big-endian); byte i of the value is in the row with
 *             the suffix i / 4096 (4 bytes, big-endian) of the key's group.
 *
 * Invariants:
 *   (1) A chunked string is longer than 4 KiB. It never becomes plain under the same ID, and never
 *       shorter: only a new value does that, and that has a new ID.
 *   (2) No row holds bytes at or past the length, or more than 4 KiB.
 *   (3) Bytes below the length that no row holds are zeros: a row may be missing, or end early.
 * By (3) a SETBIT or SETRANGE far behind the end writes one row, and a bitmap with large holes
 * costs what is set in it.
 *
 * The functions take a key that key_read() or key_write() found. One that does not exist reads as
 * an empty string. After a change the key has to be found again before it is read.
 *
 * Ownership: bytes that were read are borrowed from the store until its next change, or from the
 * arena of the command.
 * Threads: the executor. */
#pragma once

#include "types/build.h"

enum {
    STRING_CHUNK_BYTES = 4096,
    STRING_PLAIN_BYTES_MAX = STRING_CHUNK_BYTES,
};
/* Redis's, and so an error reply. */
#define STRING_TOO_LONG "string exceeds maximum allowed size (proto-max-bulk-len)"
#define STRING_KEEP_DEADLINE UINT64_MAX

/* ---- reading ---- */

static inline bool string_is(const struct key *key) /* it exists, and is a string */
{
    return key->exists && (key->meta.type == TYPE_STRING || key->meta.type == TYPE_STRING_CHUNKED);
}
enum rc string_len(const struct key *key, uint64_t *ret_len, struct err *err) NODISCARD;
/* All of it; put together in the arena if it is chunked. */
enum rc string_get(const struct key *key, struct bytes *ret_value, struct err *err) NODISCARD;
/* from <= end <= length. A range within one row is borrowed. */
enum rc string_get_range(const struct key *key, uint64_t from, uint64_t end,
                         struct bytes *ret_value, struct err *err) NODISCARD;
/* The beginning of a range (from < end) that lies together in memory, at least one byte: to go over
 * a long string without copying it. RC_COLD asks for the rest of the range as well. */
enum rc string_get_run(const struct key *key, uint64_t from, uint64_t end, struct bytes *ret_run,
                       struct err *err) NODISCARD;
/* As OBJECT ENCODING answers: "int", "embstr" or "raw", by what the string holds. Redis also
 * remembers how a string was made, which nobody can see otherwise and is not stored here: a short
 * one is "raw" there after APPEND, SETRANGE or SETBIT, and never "int" after INCRBYFLOAT. */
const char *string_encoding(const struct key *key);

/* ---- changing ---- */

/* The key becomes this string, whatever it was. expire_ms: 0 for none, or STRING_KEEP_DEADLINE;
 * with one that has passed the key is removed. A value over 4 KiB must not be borrowed from the
 * store. */
enum rc string_set(struct key *key, struct bytes value, uint64_t expire_ms,
                   struct err *err) NODISCARD;
/* Overwrites from `at` on, and grows: with zeros if `at` is behind the end. Makes the key if there
 * is none; an empty part does nothing. RC_INVALID: STRING_TOO_LONG. */
enum rc string_write(struct key *key, uint64_t at, struct bytes part, struct err *err) NODISCARD;
/* RC_INVALID with Redis's texts: not a number, or the sum would be none. */
enum rc string_add_int(struct key *key, int64_t delta, int64_t *ret_sum, struct err *err) NODISCARD;
/* ret_text: the sum as it is stored, in the arena. */
enum rc string_add_float(struct key *key, long double delta, struct bytes *ret_text,
                         struct err *err) NODISCARD;

/* ---- changing bytes here and there ---- */

struct string_edit {
    struct key *key;
    uint64_t len;          /* when it is done */
    uint64_t stored_len;   /* when it began */
    uint64_t stored_count; /* chunks from this one on have no row */
    uint64_t chunk;        /* in `bytes`; UINT64_MAX: none */
    bool dirty;            /* set by who writes to `bytes` */
    uint8_t bytes[STRING_CHUNK_BYTES];
};

/* Begins to change a string that will have at least len_min bytes. Nothing is created or stored
 * when it has them already and no byte is changed. */
enum rc string_edit_begin(struct string_edit *edit, struct key *key, uint64_t len_min,
                          struct err *err) NODISCARD;
/* Byte `at`, which is below edit->len; good until the next call. */
enum rc string_edit_at(struct string_edit *edit, uint64_t at, uint8_t **ret_byte,
                       struct err *err) NODISCARD;
/* After RC_COLD: these bytes will be needed as well. */
void string_edit_want(const struct string_edit *edit, uint64_t from, uint64_t end);
enum rc string_edit_end(struct string_edit *edit, struct err *err) NODISCARD;

/* ---- strings that are built aside (build.h) ---- */

/* What so many bytes cost, in rows of other types: a chunk is a large row. */
uint64_t string_cost_rows(uint64_t len);
/* Bytes from `at` on, a multiple of STRING_CHUNK_BYTES, of an object that nobody sees yet. */
enum rc string_build_put(const struct build *build, uint64_t at, struct bytes part,
                         struct err *err) NODISCARD;
/* It takes the place of the key. */
enum rc string_build_end(struct build *build, struct key *key, uint64_t len, uint64_t expire_ms,
                         struct err *err) NODISCARD;
/* string_set(), in many commits if the value is large: RC_WAIT before the last. */
enum rc string_set_build(struct key *key, struct bytes value, uint64_t expire_ms,
                         struct build *build, struct err *err) NODISCARD;
/* After RC_COLD: bytes from here on will be read once, in many commits. */
void string_want_window(const struct key *key, uint64_t at);

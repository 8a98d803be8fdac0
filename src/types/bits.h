// SPDX-License-Identifier: Apache-2.0
/* bits.h - a string as an array of bits: bit 0 is the highest of byte 0.
 *
 * Positions and ends of ranges are counted in bits; a range is [from, end), not empty and within
 * the string. Keys are found with TYPE_STRING; one that does not exist is an empty string.
 *
 * Threads: the executor. */
#pragma once

#include "types/string.h"

enum rc bits_get(const struct key *key, uint64_t at, bool *ret_bit, struct err *err) NODISCARD;
/* Makes and grows the string as needed. ret_changed: a bit, or the length. */
enum rc bits_set(struct key *key, uint64_t at, bool bit, bool *ret_old, bool *ret_changed,
                 struct err *err) NODISCARD;
enum rc bits_count(const struct key *key, uint64_t from, uint64_t end, uint64_t *ret_count,
                   struct err *err) NODISCARD;
/* The first of the range that is like `bit`. RC_NOT_FOUND: none. */
enum rc bits_find(const struct key *key, bool bit, uint64_t from, uint64_t end, uint64_t *ret_at,
                  struct err *err) NODISCARD;

enum bits_op { BITS_AND, BITS_OR, BITS_XOR, BITS_NOT };
/* The result is as long as the longest of them; shorter ones end in zeros. */
enum rc bits_combined_len(const struct key *source, size_t count, uint64_t *ret_len,
                          struct err *err) NODISCARD;
/* Bytes from..end of the result, in the arena. BITS_NOT takes one source. */
enum rc bits_combine(const struct run *run, enum bits_op op, const struct key *source, size_t count,
                     uint64_t from, uint64_t end, struct bytes *ret_result,
                     struct err *err) NODISCARD;

/* ---- BITFIELD: integers anywhere in the string, the highest bit first ---- */

enum bits_field_op { BITS_FIELD_GET, BITS_FIELD_SET, BITS_FIELD_ADD };
enum bits_overflow { BITS_WRAP, BITS_SATURATE, BITS_FAIL };
enum { BITS_FIELD_BITS_MAX = 64, BITS_FIELD_UNSIGNED_BITS_MAX = 63 };

struct bits_field {
    enum bits_field_op op;
    enum bits_overflow overflow;
    bool is_signed;
    unsigned bits;
    uint64_t at;
    int64_t value; /* to set, or to add */
    /* written by bits_fields_run() */
    bool failed;    /* it did not fit, and BITS_FAIL: nothing was changed */
    int64_t result; /* what was there (get, set), or is there now (add) */
};
/* Runs them in their order. The string grows to the end of the last field that one of them sets or
 * adds to, even if that fails. */
enum rc bits_fields_run(struct key *key, struct bits_field *field, size_t count, bool *ret_changed,
                        struct err *err) NODISCARD;

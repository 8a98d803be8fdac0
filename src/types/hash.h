// SPDX-License-Identifier: Apache-2.0
/* hash.h - hashes: a row of the data space for every field, in byte order of the fields.
 *
 *   group   the key's (key_rows())
 *   suffix  field
 *   value   value
 * The count of fields is in the meta row, which is written only when that count changes. Its extra
 * is empty, or one byte of bits: KEY_HASH_WHOLE.
 *
 * A caller that found the key with key_read(.., TYPE_HASH, ..) reads its rows himself: one with
 * hash_field(), all with rows_need_all() and a walk over key_rows().
 *
 * Ownership: values are borrowed from the store until the next change.
 * Threads: the executor. */
#pragma once

#include "types/key.h"
#include "types/number.h"

/* RC_NOT_FOUND: no such field, or the key does not exist. */
enum rc hash_field(const struct key *key, struct bytes field, struct bytes *ret_value,
                   struct err *err) NODISCARD;
/* The same by the key's name. */
enum rc hash_get(const struct run *run, struct bytes name, struct bytes field,
                 struct bytes *ret_value, struct err *err) NODISCARD;

/* Fields and values by turns. ret_added (may be NULL): how many fields are new. */
enum rc hash_set(const struct run *run, struct bytes name, const struct bytes *field_value,
                 size_t pair_count, size_t *ret_added, struct err *err) NODISCARD;
/* Only if the field is not there. */
enum rc hash_set_new(const struct run *run, struct bytes name, struct bytes field,
                     struct bytes value, bool *ret_added, struct err *err) NODISCARD;
/* ret_deleted (may be NULL): how many there were. */
enum rc hash_delete(const struct run *run, struct bytes name, const struct bytes *field,
                    size_t count, size_t *ret_deleted, struct err *err) NODISCARD;

/* RC_INVALID: the value is no number, or the sum is none. */
enum rc hash_incr(const struct run *run, struct bytes name, struct bytes field, int64_t delta,
                  int64_t *ret_value, struct err *err) NODISCARD;
enum rc hash_incr_float(const struct run *run, struct bytes name, struct bytes field,
                        long double delta, char to[NUMBER_LONG_DOUBLE_BYTES], size_t *ret_len,
                        struct err *err) NODISCARD;

/* Landing: all fields that the database has are here. The key exists. */
enum rc hash_whole_set(struct key *key, struct err *err) NODISCARD;

/* As OBJECT ENCODING of Redis with its usual settings. Reads few rows; they may be cold. */
enum rc hash_encoding(const struct key *key, const char **ret_name, struct err *err) NODISCARD;

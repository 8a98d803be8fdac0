// SPDX-License-Identifier: Apache-2.0
/* set.h - sets: a row of the data space for every member, in byte order of the members.
 *
 *   group   the key's (key_rows())
 *   suffix  member
 *   value   member
 * The count of members is in the meta row. What is read is the suffix; the value is for those who
 * read the rows without this program.
 *
 * All members: rows_need_all() and a walk over key_rows() (types/rows.h). Several sets at once:
 * types/set_op.h.
 *
 * Threads: the executor. */
#pragma once

#include "types/rows.h"

/* RC_NOT_FOUND: no such member, or the key does not exist. */
enum rc set_has(const struct key *key, struct bytes member, struct err *err) NODISCARD;

/* ret_added, ret_removed (may be NULL): how many were new, or were there. */
enum rc set_add(const struct run *run, struct bytes name, const struct bytes *member, size_t count,
                size_t *ret_added, struct err *err) NODISCARD;
enum rc set_remove(const struct run *run, struct bytes name, const struct bytes *member,
                   size_t count, size_t *ret_removed, struct err *err) NODISCARD;
/* ret_moved: `from` had it. */
enum rc set_move(const struct run *run, struct bytes from, struct bytes to, struct bytes member,
                 bool *ret_moved, struct err *err) NODISCARD;

/* Takes a random member out of a set, of those that rows_take_init() was told of; in the command's
 * arena. set_pop_end() saves the key after the last of them. */
enum rc set_pop(struct key *key, struct rows_pick *pick, struct bytes *ret_member,
                struct err *err) NODISCARD;
enum rc set_pop_end(struct key *key, struct err *err) NODISCARD;

/* As OBJECT ENCODING of Redis with its usual settings. Reads few rows; they may be cold. */
enum rc set_encoding(const struct key *key, const char **ret_name, struct err *err) NODISCARD;

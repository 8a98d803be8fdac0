// SPDX-License-Identifier: Apache-2.0
/* rdb_string.h - lengths and strings as Redis writes them into dumps and RDB files.
 *
 *   LENGTH   00pppppp                     6 bits
 *            01pppppp pppppppp            14 bits, big-endian
 *            10000000 (4 bytes)           32 bits, big-endian
 *            10000001 (8 bytes)           64 bits, big-endian
 *   STRING   LENGTH and the bytes; or
 *            11000000 (1), 11000001 (2), 11000010 (4 bytes)   an integer, little-endian: its text
 *            11000011 LENGTH LENGTH       LZF: bytes stored, bytes of the string; then those stored
 *
 * Strings are written plain: Redis reads that as well as what it would have written itself.
 * Reading checks every byte: it is a client's.
 *
 * Threads: any. */
#pragma once

#include "base/buf.h"

/* False: no memory, or over the buffer's limit. */
bool rdb_length_put(struct buf *to, uint64_t length) NODISCARD;
bool rdb_string_put(struct buf *to, struct bytes string) NODISCARD;

/* Both move *from past what was read. False: cut short, or no length or string. */
bool rdb_length_get(struct bytes *from, uint64_t *ret_length) NODISCARD;
/* Appends the string to `to`. False as well: no memory, or over the limit of `to`. */
bool rdb_string_get(struct bytes *from, struct buf *to) NODISCARD;

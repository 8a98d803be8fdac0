// SPDX-License-Identifier: Apache-2.0
/* value.h - a tile's value as the store and KV shards keep it.
 *
 *   uvarint(epoch) ‖ uvarint(provider id, 0: none) ‖ data
 * epoch 1029, provider 124, "AB": 85 08 7c 41 42. Uvarints are LEB128; over-long ones are read,
 * ones above TILE_NUMBER_MAX are not.
 *
 * Ownership: a decoded value borrows its data.
 * Threads: any. */
#pragma once

#include "base/bytes.h"
#include "base/codec.h"
#include "base/err.h"

enum {
    TILE_HEADER_BYTES_MAX = 2 * UVARINT_BYTES_MAX,
    TILE_DATA_BYTES_MAX = 64 * 1024 * 1024,
};
#define TILE_NUMBER_MAX ((uint64_t)INT64_MAX) /* of epoch and provider: SQL has signed numbers */

struct tile_value {
    uint64_t epoch;
    uint64_t provider; /* 0: none */
    struct bytes data;
};

/* The header alone; the data follows it. Returns its length. */
size_t tile_header_put(const struct tile_value *value, uint8_t to[TILE_HEADER_BYTES_MAX]);
/* RC_INVALID: there is no header, a number is out of range, or the data is too large. */
enum rc tile_value_decode(struct bytes bytes, struct tile_value *ret_value,
                          struct err *err) NODISCARD;
/* The same for what a client writes: RC_INVALID also where a number has more bytes than it needs,
 * because it would be stored with fewer. No client writes that, but pictures begin so. */
enum rc tile_value_decode_canonical(struct bytes bytes, struct tile_value *ret_value,
                                    struct err *err) NODISCARD;
/* What a KV shard holds. Values of a shard that is marked legacy or bare have no header at all; in
 * others only those whose two uvarints cannot be read have none. Epoch and provider are then 0. */
struct tile_value tile_value_of_shard(struct bytes bytes, bool no_header);

/* The header of fixed width that newer files in the wild have, integers big-endian:
 *   OFFSET  SIZE  WHAT
 *   0       1     flag
 *   1       4     epoch
 *   5       1     1: there is a provider; 0: there is none
 *   6       4     provider; 0, or left out, where there is none
 *   ..      4     n: length of the data
 *   ..      n     data, to the end
 * False: it is not that. For importers that were told so: nothing of ours writes it. */
bool tile_value_decode_fixed(struct bytes bytes, struct tile_value *ret_value);

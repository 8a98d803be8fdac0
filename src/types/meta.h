// SPDX-License-Identifier: Apache-2.0
/* meta.h - how keys and meta rows look on disk and in memory; every key encoding is here.
 *
 * Key of a meta row: "kv" ‖ namespace ‖ 'm' ‖ user key.
 * Value of a meta row, integers big-endian:
 *   OFFSET  SIZE  WHAT
 *   0       1     type (enum type_tag)
 *   1       16    ID: LSN(8) ‖ incarnation(4) ‖ ordinal in the commit(4)
 *   17      8     count of elements
 *   25      8     createAt, Unix seconds
 *   33      8     expireAt, Unix milliseconds; 0: never
 *   41      ..    extra: what the type says; the value of a string
 *
 * The hot tier keeps the same in a packed form, 17 bytes before the value of an ordinary string:
 *   0       1     bits 0-2: number of the type; 3: ordinal, 4: expireAt, 5: count are there;
 *                 6: createAt has 8 bytes; 7: the row is kept as it is after this byte
 *   1       12    LSN ‖ incarnation
 *   13      4|8   createAt
 *   ..      0|4   ordinal
 *   ..      0|8   expireAt
 *   ..      0|8   count
 *   ..      ..    extra
 *
 * Ownership: decoded rows borrow the value.
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "store/engine/space.h"

enum type_tag { /* on disk: append, never renumber */
                TYPE_STRING = 'r',
                TYPE_STRING_CHUNKED = 'R',
                TYPE_HASH = 'h',
                TYPE_LIST = 'l',
                TYPE_SET = 's',
                TYPE_ZSET = 'z',
};
enum {
    KEY_ID_BYTES = 16,
    META_HEAD_BYTES = 41,
    META_PACKED_HEAD_BYTES_MAX = 41,
    KEY_BYTES_MAX = STORE_GROUP_KEY_BYTES_MAX,
    NS_NAME_BYTES_MAX = 64,
};
#define NS_NAME_DEFAULT "default.default"

struct meta {
    uint8_t type;
    uint8_t id[KEY_ID_BYTES];
    uint64_t count;
    uint64_t create_s;
    uint64_t expire_ms;
    struct bytes extra;
};

/* "kv" ‖ namespace ‖ tag: what all rows of one kind and namespace begin with. */
bool key_prefix_add(struct bytes ns_name, char tag, struct buf *to) NODISCARD;
/* The 41 bytes before extra. */
void meta_head_put(uint8_t to[META_HEAD_BYTES], const struct meta *meta);
/* RC_CORRUPT where no meta row looks like this; an unknown type is RC_VERSION. */
enum rc meta_decode(struct bytes value, struct meta *ret_meta, struct err *err) NODISCARD;
/* For struct store_space: any value, also one that is no meta row, comes back as it was. */
enum space_packed meta_pack(struct bytes group, struct bytes suffix, struct bytes value,
                            struct buf *to);
enum space_packed meta_unpack(struct bytes group, struct bytes suffix, struct bytes packed,
                              struct buf *to);
/* What meta_pack() puts before extra; returns its length. */
size_t meta_packed_head_put(uint8_t to[META_PACKED_HEAD_BYTES_MAX], const struct meta *meta);
/* meta_decode() of what meta_pack() made. */
enum rc meta_decode_packed(struct bytes packed, struct meta *ret_meta, struct err *err) NODISCARD;
const char *type_name(uint8_t type); /* as TYPE answers; NULL: unknown */

// SPDX-License-Identifier: Apache-2.0
/* space.h - spaces: where a group key ends, and how a row's key looks in the engine.
 *
 * Engine key of a row:
 *   OFFSET  SIZE  WHAT
 *   0       1     number of the space
 *   1       0|1   SPACE_LENGTH only: length of the group key
 *   ..      n     group key (its first bytes are the prefix)
 *   ..      m     suffix
 * No two (group key, suffix) pairs of a space share an engine key: the group key has a fixed
 * length, a stored length, or takes all of the key and the suffix is empty.
 *
 * Ownership: a space set borrows nothing and can be copied.
 * Threads: read-only after open. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

enum space_kind {                 /* on disk: append, never renumber */
                  SPACE_NONE = 0, /* no such space */
                  SPACE_WHOLE =
                      1, /* the group key is the whole key: one row a group, empty suffix */
                  SPACE_FIXED = 2,  /* the group key has fixed_bytes bytes */
                  SPACE_LENGTH = 3, /* a length byte stands in front of the group key */
};

enum { SPACE_SYS = 0, SPACE_NAME_BYTES_MAX = 31 }; /* the store's own space; SPACE_WHOLE */

enum space_packed {
    SPACE_PACKED_FULL, /* no room in `to` */
    SPACE_PACKED_DONE,
    SPACE_PACKED_SAME, /* the other form is these very bytes; `to` is as it was */
};

struct store_space {
    uint8_t number; /* 1..254, for ever; a space ends where the next would begin */
    enum space_kind kind;
    uint8_t fixed_bytes; /* SPACE_FIXED: 1..255 */
    char name[SPACE_NAME_BYTES_MAX + 1];
    /* Optional, both or none: the hot tier keeps pack(value) instead of the value. `group` is the
     * group key after its prefix. They append to `to`, or say that nothing has to be changed.
     * unpack must give back exactly what pack got; what was never packed by this code does not
     * reach unpack. */
    enum space_packed (*pack)(struct bytes group, struct bytes suffix, struct bytes value,
                              struct buf *to);
    enum space_packed (*unpack)(struct bytes group, struct bytes suffix, struct bytes packed,
                                struct buf *to);
};

static inline enum space_packed space_packed(bool had_room)
{
    return had_room ? SPACE_PACKED_DONE : SPACE_PACKED_FULL;
}

/* The other form of a value; borrowed from it, or from `scratch`, which is emptied first. False:
 * scratch is full. */
bool space_pack(const struct store_space *space, struct bytes group, struct bytes suffix,
                struct bytes value, struct buf *scratch, struct bytes *ret_packed) NODISCARD;
bool space_unpack(const struct store_space *space, struct bytes group, struct bytes suffix,
                  struct bytes packed, struct buf *scratch, struct bytes *ret_value) NODISCARD;

struct space_set {
    struct store_space space[STORE_SPACES_MAX]; /* by number; SPACE_NONE where there is none */
};

/* Starts with the sys space only. */
void space_set_init(struct space_set *set);
enum rc space_set_add(struct space_set *set, const struct store_space *space,
                      struct err *err) NODISCARD;

/* Checks group key and suffix against the space and the limits. */
enum rc space_check(const struct space_set *set, uint8_t space, struct bytes group,
                    struct bytes suffix, struct err *err) NODISCARD;

/* Appends the engine key. The caller has checked. False: `to` is full. */
bool space_key_add(const struct space_set *set, uint8_t space, struct bytes group,
                   struct bytes suffix, struct buf *to) NODISCARD;
/* The engine keys of a group are exactly [from, to) in byte order; both are appended to bufs. A
 * group whose successor does not exist (all 0xff) ends at the start of the next space. */
bool space_group_range_add(const struct space_set *set, uint8_t space, struct bytes group,
                           struct buf *from, struct buf *to) NODISCARD;
/* The smallest key above every key that starts with `prefix`; false when there is none. */
bool space_successor_add(struct bytes prefix, struct buf *to) NODISCARD;
/* Length of space byte, length byte and group key of an engine key, for the prefix filter. Never
 * more than key.len; a damaged or foreign key counts as a whole. */
size_t space_group_len(const struct space_set *set, struct bytes key);
/* RC_CORRUPT where no row of a known space has this key. */
enum rc space_key_split(const struct space_set *set, struct bytes key, uint8_t *ret_space,
                        struct bytes *ret_group, struct bytes *ret_suffix,
                        struct err *err) NODISCARD;

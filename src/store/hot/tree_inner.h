// SPDX-License-Identifier: Apache-2.0
/* tree_inner.h - the inner nodes of a tree: children, the rows below each, and what parts them.
 *
 * A search reads `head` and `child`, eight cache lines, and looks at whole separators only where
 * eight bytes do not decide. What all separators of a node share is skipped, so that the eight
 * bytes are telling; it stands in the node, because separators of more than 12 bytes do not.
 *
 * Invariants:
 *   (1) Everything below child i is >= sep[i] and < sep[i+1]; sep[0] is empty and not looked at.
 *   (2) skip = bytes shared by sep[1] and sep[count-1], and so by all between, up to a limit.
 *   (3) head[i] = 8 bytes of sep[i] after skip, big-endian, filled up with zeros; from count on the
 *       largest number, so that a search compares a fixed number of them.
 *   (4) shared = the last of the skipped bytes, as many as fit: what was found to be shared
 *       further up is not compared again, so a long common beginning stays in the node.
 *
 * Ownership: a node owns its separators, not its children.
 * Threads: the executor. */
#pragma once

#include "base/bytes.h"
#include "store/hot/meter.h"

enum { INNER_CHILDREN_MAX = 31, INNER_HEADS = 32, INNER_SEP_BYTES = 12, INNER_SHARED_BYTES = 28 };

/* A separator: a short one in place, a long one behind a pointer. */
struct inner_sep {
    uint32_t len;
    uint8_t in[INNER_SEP_BYTES]; /* or, unaligned, the pointer */
};

struct inner {
    uint16_t count;
    uint16_t skip;
    uint8_t shared[INNER_SHARED_BYTES];
    uint64_t head[INNER_HEADS];
    void *child[INNER_CHILDREN_MAX];
    uint64_t live[INNER_CHILDREN_MAX];
    struct inner_sep sep[INNER_CHILDREN_MAX];
};
_Static_assert(sizeof(struct inner) <= 1280, "one size class");

struct inner_child { /* on its way from one node to another; owns its separator */
    void *ptr;
    uint64_t live;
    struct inner_sep sep;
};

struct inner *inner_new(struct meter *meter);
void inner_free(struct inner *node, struct meter *meter); /* and its separators */

void inner_sep_init(struct inner_sep *sep, struct bytes bytes, struct meter *meter); /* copies */
struct bytes inner_sep_bytes(const struct inner_sep *sep);

/* The child whose interval holds the suffix. *known: so many bytes everything in the node's own
 * interval begins with, as the suffix does; what it is for the child. 0 at the root. */
uint16_t inner_find(const struct inner *node, struct bytes suffix, size_t *known);
uint64_t inner_live(const struct inner *node);

/* There must be room. Takes the separator. */
void inner_insert(struct inner *node, uint16_t index, struct inner_child child);
/* Frees the separator; the child is the caller's. */
void inner_remove(struct inner *node, uint16_t index, struct meter *meter);
/* Moves the children from `at` on to a new node. */
struct inner_child inner_split(struct inner *node, uint16_t at, struct meter *meter);
/* Moves what child index+1, a node as well, holds into child index, if it fits well. The empty
 * node is freed and has to be removed by the caller; false: nothing was done. */
bool inner_merge(struct inner *parent, uint16_t index, struct meter *meter);

void inner_check(const struct inner *node); /* (2), (3), (4); for tests */

static inline void inner_prefetch(const void *node)
{
#pragma GCC unroll 8
    for (size_t at = 0; at < offsetof(struct inner, live); at += 64)
        __builtin_prefetch((const uint8_t *)node + at);
}

// SPDX-License-Identifier: Apache-2.0
/* prefetch.h - rows that will be needed in a moment are brought into the processor's cache.
 *
 * Reads meet the cache misses of a row one after the other; who knows a batch of rows asks for all
 * of them at once. What is asked for here is a hint: nothing is answered but by store_peek*(), no
 * row and no figure changes, and nothing becomes wrong if it is never read.
 *
 * Ownership: the list is the caller's. Group keys and suffixes are borrowed for the call; what
 * store_peek*() shows, until the next change.
 * Threads: the executor, at any time, inside a commit or between two. */
#pragma once

#include "store/store.h"

/* A prefetch list: groups (SPACE_WHOLE: rows) that will be needed in a moment. store_prefetch_add()
 * asks for a group's place in the table, store_prefetch_bring() for the groups themselves, and
 * empties the list: work between the two hides the first wait. Rows that are then read in the order
 * of the list are not searched. Pays from two keys on. */
enum { STORE_PREFETCH_MAX = 128 };
struct store_prefetch_list {
    size_t count; /* 0 at first; what there is no room for is left out */
    uint32_t prefix[STORE_PREFETCH_MAX];
    uint64_t hash[STORE_PREFETCH_MAX];
};
void store_prefetch_add(struct store *store, struct store_prefetch_list *list,
                        struct store_group group);
void store_prefetch_bring(struct store *store, struct store_prefetch_list *list);
/* Both, of groups that are known already. */
void store_prefetch(struct store *store, const struct store_group *group, size_t count);
/* The same for single rows of groups. */
struct store_row {
    struct store_group group;
    struct bytes suffix;
};
void store_prefetch_rows(struct store *store, const struct store_row *row, size_t count);
/* The row of a SPACE_WHOLE space, packed, if it is hot. Nothing is counted, nothing is asked for:
 * false says nothing. */
bool store_peek(struct store *store, struct store_group group, struct bytes *ret_packed);
/* store_prefetch_rows(), and what is there of them in the same way; ptr NULL: nothing is known. */
void store_peek_rows(struct store *store, const struct store_row *row, size_t count,
                     struct bytes *ret_packed);
/* Suffixes of rows of a group that are hot, from the first one not before `from` on, or back from
 * the last one before it: as many as there are next to each other, up to max. Borrowed until the
 * next change. */
size_t store_peek_suffixes(struct store *store, struct store_group group, struct bytes from,
                           bool reverse, struct bytes *ret_suffix, size_t max);

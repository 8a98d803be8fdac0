// SPDX-License-Identifier: Apache-2.0
/* list.h - lists: elements in rows that are numbered without a gap.
 *
 * extra of the meta row, big-endian, signed:
 *   0       8     head: number of the first element
 *   8       8     tail: number of the last one
 * Suffix of an element's row:
 *   0       1     '<' for a negative number, '>' otherwise: byte order is the order of numbers
 *   1       8     number, two's complement
 *
 * Pushing goes below the head or above the tail, and nobody has to read what is there: cold lists
 * take pushes, pops of what was just pushed, and trims, without a load. An element in the middle is
 * found by its number; making or closing a hole there moves the shorter side.
 *
 * Invariants:
 *   (1) count = tail - head + 1, and every number between them has its row.
 *   (2) A list that does not exist has head 0 and tail -1.
 *
 * Functions that change a list save it and tell the hooks, in Redis's order: the command's event,
 * then "del" when it became empty.
 *
 * Ownership: elements that were read are borrowed until the next change or the end of the commit.
 * The list must stay where it is while a walk over it lives.
 * Threads: the executor. */
#pragma once

#include "types/build.h"

enum list_end { LIST_HEAD, LIST_TAIL };

struct list {
    struct key key;
    int64_t head, tail;
};

/* As key_read() and key_write() with TYPE_LIST. RC_CORRUPT: the meta row contradicts (1). */
enum rc list_read(const struct run *run, struct bytes name, struct list *ret_list,
                  struct err *err) NODISCARD;
enum rc list_write(const struct run *run, struct bytes name, struct list *ret_list,
                   struct err *err) NODISCARD;
/* The list that a key found with KEY_ANY is; copies the key. */
enum rc list_of(const struct key *key, struct list *ret_list, struct err *err) NODISCARD;
/* As OBJECT ENCODING answers. */
const char *list_encoding(const struct key *key);

static inline uint64_t list_count(const struct list *list)
{
    return (uint64_t)list->tail - (uint64_t)list->head + 1;
}

/* ---- reading; positions count from 0 and are below list_count() ---- */

enum rc list_get(const struct list *list, uint64_t position, struct bytes *ret_element,
                 struct err *err) NODISCARD;
/* The outermost element; a cold one comes with its neighbours, which are the next to be popped. */
enum rc list_peek(const struct list *list, enum list_end end, struct bytes *ret_element,
                  struct err *err) NODISCARD;

struct list_walk { /* for list_walk_*() only */
    struct store_walk rows;
    int64_t at;    /* number of the next element */
    uint64_t left; /* elements still to give */
    bool reverse;
};
/* From a position on towards the tail (the head, reversed), at most `count` elements. Elements may
 * be changed behind the walk, not before it. */
enum rc list_walk_init(struct list_walk *walk, const struct list *list, uint64_t position,
                       uint64_t count, bool reverse, struct err *err) NODISCARD;
/* For who goes on in other commits: what is cold is loaded a window at a time. */
enum rc list_walk_init_once(struct list_walk *walk, const struct list *list, uint64_t position,
                            uint64_t count, struct err *err) NODISCARD;
/* It may end long before `count`: what is cold is not loaded all at once. */
void list_walk_searches(struct list_walk *walk);
void list_walk_done(struct list_walk *walk);
/* RC_NOT_FOUND after the last. */
enum rc list_walk_next(struct list_walk *walk, struct bytes *ret_element,
                       struct err *err) NODISCARD;

/* ---- changing ---- */

/* Makes the list where there is none; elements have to follow in the same commit. */
enum rc list_make(struct list *list, struct err *err) NODISCARD;
/* One after the other at this end. "lpush" or "rpush". An element borrowed from the store needs
 * list_make() before it is read. */
enum rc list_push(struct list *list, enum list_end end, const struct bytes *element, size_t count,
                  struct err *err) NODISCARD;
/* Elements of a key that was just made or replaced; saved, without an event. */
enum rc list_fill(struct key *key, const struct bytes *element, size_t count,
                  struct err *err) NODISCARD;
/* Elements of a list that is built aside, by position; and it takes the place of the key. */
enum rc list_build_put(const struct build *build, uint64_t position, struct bytes element,
                       struct err *err) NODISCARD;
enum rc list_build_end(struct build *build, struct key *key, uint64_t count,
                       struct err *err) NODISCARD;
/* Removes that many (at least one, at most all) without reading them. "lpop" or "rpop". */
enum rc list_pop(struct list *list, enum list_end end, uint64_t count, struct err *err) NODISCARD;
/* The element of one end goes to the other, or stays where it is; `element` is what list_peek()
 * gave. "rpush" and "lpop", or the like. */
enum rc list_rotate(struct list *list, enum list_end from, enum list_end to, struct bytes element,
                    struct err *err) NODISCARD;
/* Keeps `count` elements from a position on; 0: none. "ltrim". */
enum rc list_trim(struct list *list, uint64_t position, uint64_t count, struct err *err) NODISCARD;
/* "lset" */
enum rc list_set(struct list *list, uint64_t position, struct bytes element,
                 struct err *err) NODISCARD;
/* Next to the first element equal to the pivot. RC_NOT_FOUND: there is none. "linsert". Where very
 * many rows would move the list is built anew, if `build` is not NULL: RC_WAIT: call it again in
 * the next commit. */
enum rc list_insert(struct list *list, struct bytes pivot, bool before, struct bytes element,
                    struct build *build, struct err *err) NODISCARD;
/* The first `count` equal elements from an end on, all of them if count is 0. "lrem" if there was
 * one. `build`: as above. */
enum rc list_remove(struct list *list, enum list_end end, uint64_t count, struct bytes element,
                    struct build *build, uint64_t *ret_removed_count, struct err *err) NODISCARD;

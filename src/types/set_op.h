// SPDX-License-Identifier: Apache-2.0
/* set_op.h - union, intersection and difference of sets.
 *
 *   rc = set_op_find(&op, run, SET_UNION, name, count, err);
 *   if (rc == RC_OK) rc = set_op_start(&op, NULL, err);
 *   while (rc == RC_OK && (rc = set_op_next(&op, &member, err)) == RC_OK) ... member ...
 *   set_op_done(&op);
 *
 * Sets are sorted, so that large ones are walked side by side, and results are in order. A set much
 * larger than the one it is compared with is asked about each member instead, and may stay cold.
 *
 * Ownership: the op takes memory from the command's arena; the names are borrowed. Members are
 * borrowed from the store: no row may change between start and done. Threads: the executor. */
#pragma once

#include "types/build.h"

enum set_op_kind {
    SET_UNION,
    SET_INTER, /* what all have */
    SET_DIFF,  /* what only the first has */
};

struct set_input; /* one of the sets */
struct set_op {   /* for set_op_*() only */
    enum set_op_kind kind;
    struct set_input *all; /* the sets that exist, in the order of the names */
    size_t all_count;
    /* UNION: a heap, the one with the smallest head first. Otherwise [0] gives the members and the
     * others are compared. */
    void **input; /* of struct set_input; a heap knows no types */
    size_t count;
    bool is_empty;      /* already clear from the keys */
    uint64_t count_max; /* no more members than this */
    uint64_t inputs;    /* see build_input() */
    bool in_pieces;     /* only `piece` of the result is wanted, not all */
    struct build_piece piece;
    struct bytes decided; /* the last member that is known to be in the result or not */
    size_t decided_count;
    bool walk_cold; /* a set that is walked was cold where it was needed */
};

/* Finds the keys: count_max and inputs are known then. RC_WRONGTYPE if any of them is no set. The
 * op is to be ended also after an error. */
enum rc set_op_find(struct set_op *op, const struct run *run, enum set_op_kind kind,
                    const struct bytes *name, size_t count, struct err *err) NODISCARD;
/* And goes to the first members. piece: only that part of the result; NULL: all of it. */
enum rc set_op_start(struct set_op *op, const struct build_piece *piece, struct err *err) NODISCARD;
void set_op_done(struct set_op *op);
/* RC_NOT_FOUND: that was all. RC_WAIT: that was the piece; `decided` is where it ends. */
enum rc set_op_next(struct set_op *op, struct bytes *ret_member, struct err *err) NODISCARD;

struct set_store {
    enum set_op_kind kind;
    struct bytes to;
    const struct bytes *name; /* the sets */
    size_t name_count;
    const char *event; /* "sunionstore" ... */
};
/* Puts the result in the place of the key `to`, whatever that was, or removes it if there is no
 * member. A large one is built aside, if `build` is not NULL: RC_WAIT: call it again in the next
 * commit. */
enum rc set_op_store(const struct run *run, const struct set_store *store, struct build *build,
                     uint64_t *ret_count, struct err *err) NODISCARD;

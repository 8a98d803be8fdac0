// SPDX-License-Identifier: Apache-2.0
/* rows.h - what hashes and sets do alike with the rows of a key: all of them, or some at random.
 *
 * The key exists and has been found in this commit; key.meta.count is the number of its rows.
 *
 * Ownership: rows are borrowed from the store until the next change. A pick borrows its key and
 * takes memory from the command's arena.
 * Threads: the executor. */
#pragma once

#include "types/key.h"

/* Before all rows are read: RC_COLD until the whole group is in memory. It is loaded in one go,
 * where a walk would meet cold rows again and again. */
enum rc rows_need_all(const struct key *key, struct err *err) NODISCARD;

/* Rows on their way from one group to another: { uvarint length, suffix, uvarint length, value }
 * ... Nothing may change while rows are read, so they are put after that. False: no memory. */
bool rows_carry_add(struct buf *rows, struct bytes suffix, struct bytes value) NODISCARD;
enum rc rows_carry_put(const struct key *to, const struct buf *rows, struct err *err) NODISCARD;

/* One row, each with the same chance, unless the group is large and partly cold: it is not brought
 * into memory for a few rows. Then one near a place that changes every second: a command that had
 * to wait for the place finds it in memory when it runs again. */
enum rc rows_random(const struct key *key, struct bytes *ret_suffix, struct bytes *ret_value,
                    struct err *err) NODISCARD;

enum { ROWS_WHOLE_MAX = 16 * 1024 }; /* who reads in many commits does not wait for all of more */

enum rows_pick_kind {
    PICK_ALL,       /* there are not more than were asked for */
    PICK_REPEATED,  /* a row may come again */
    PICK_DIFFERENT, /* numbers that did not come yet */
    PICK_TAKEN,     /* those that came are gone */
    PICK_NEAR,      /* neighbours: see rows_random() */
    PICK_IN_ORDER,  /* many different ones, from the first to the last */
};
struct rows_pick { /* for rows_pick_*() only */
    const struct key *key;
    enum rows_pick_kind kind;
    uint64_t left, done;
    /* PICK_IN_ORDER: of the row behind the last that was picked or passed, and how many are still
     * to be passed, if that was drawn. */
    uint64_t number, gap;
    bool has_gap;
    uint64_t *seen; /* PICK_DIFFERENT: row numbers + 1, by hash; 0 where there is none */
    uint64_t seen_mask;
    struct store_walk walk; /* PICK_ALL, PICK_NEAR, PICK_IN_ORDER */
    struct buf place;       /* as rows_pick_place() gives it */
};
/* count random rows, or all there are if `different` and there are fewer: rows_pick_done() it also
 * after an error. */
enum rc rows_pick_init(struct rows_pick *pick, const struct key *key, uint64_t count,
                       bool different, struct err *err) NODISCARD;
/* The same to remove them: the caller deletes each row, and counts it as deleted, before it asks
 * for the next. There are at least as many. */
enum rc rows_take_init(struct rows_pick *pick, const struct key *key, uint64_t count,
                       struct err *err) NODISCARD;
void rows_pick_done(struct rows_pick *pick);
uint64_t rows_pick_count(const struct rows_pick *pick); /* how many are still to come */
/* Whether another pick can go on where this one stands: with rows_pick_resume(), in a later commit,
 * while the key has not changed. False: it has to be taken in one go, which is not long. */
bool rows_pick_can_stop(const struct rows_pick *pick);
/* Where it stands, if nothing failed: ptr NULL without memory. Borrowed from the pick. */
struct bytes rows_pick_place(struct rows_pick *pick);
/* Instead of rows_pick_init(), with the same count: `done` rows are given already. */
enum rc rows_pick_resume(struct rows_pick *pick, const struct key *key, uint64_t count,
                         uint64_t done, struct bytes place, struct err *err) NODISCARD;
/* RC_NOT_FOUND: that was all. */
enum rc rows_pick_next(struct rows_pick *pick, struct bytes *ret_suffix, struct bytes *ret_value,
                       struct err *err) NODISCARD;

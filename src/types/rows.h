/* rows.h - what hashes and sets do alike with the rows of a key: all of them, or some at random.
 *
 * The key exists and has been found in this commit; key.meta.count is the number of its rows.
 *
 * Ownership: rows are borrowed from the store until the next change. A pick borrows its key and
 * takes memory from the command's arena. Threads: the executor. */
#pragma once

#include "types/key.h"

/* Before all rows are read: RC_COLD until the whole group is in memory. It is asked for in large
 * pages, where a walk would meet one small page after the other. */
enum rc rows_need_all(const struct key *key, struct err *err) NODISCARD;

/* One row, each with the same chance, unless the group is large and partly cold: it is not brought
 * into memory for one row. Then one near a place that changes every second: a command that had to
 * wait for the place finds it in memory when it runs again. */
enum rc rows_random(const struct key *key, struct bytes *ret_suffix, struct bytes *ret_value,
                    struct err *err) NODISCARD;

enum rows_pick_kind {
    PICK_ALL,       /* there are not more than were asked for */
    PICK_REPEATED,  /* a row may come again */
    PICK_DIFFERENT, /* numbers that did not come yet */
    PICK_NEAR,      /* neighbours: see rows_random() */
};
struct rows_pick { /* for rows_pick_*() only */
    const struct key *key;
    enum rows_pick_kind kind;
    uint64_t left;
    uint64_t *seen; /* PICK_DIFFERENT: row numbers + 1, by hash; 0 where there is none */
    uint64_t seen_mask;
    struct store_walk walk; /* PICK_ALL, PICK_NEAR */
};
/* count random rows, or all there are if `different` and there are fewer. */
enum rc rows_pick_init(struct rows_pick *pick, const struct key *key, uint64_t count,
                       bool different, struct err *err) NODISCARD;
void rows_pick_done(struct rows_pick *pick);
uint64_t rows_pick_count(const struct rows_pick *pick); /* how many are still to come */
/* RC_NOT_FOUND: that was all. */
enum rc rows_pick_next(struct rows_pick *pick, struct bytes *ret_suffix, struct bytes *ret_value,
                       struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* zset.h - sorted sets: members with a score each, found by member and in order of their scores.
 *
 * Two rows a member in the group of the key:
 *   00 ‖ member                -> score as text
 *   01 ‖ score code ‖ member   -> score as text
 * The code (base/codec.h) sorts as the score does; equal scores sort by member. Rows of the first
 * kind come before those of the second, so the element of rank r is row number count + r. A score
 * is never nan, and -0 is stored as 0.
 *
 * The caller finds and makes the key (types/key.h), changes elements here, tells of it with
 * key_changed() and ends with zset_save(). A key whose count has become 0 has to be saved at once:
 * its last rows go with it.
 *
 * Elements of every kind of range are an interval of rows, a zset_span, that a zset_walk reads from
 * either end. What is cold is loaded as the walk comes to it. A rank further than ZSET_WALK_MAX
 * from both ends needs the whole group.
 *
 * Ownership: members are borrowed until the next change or the next call of this file.
 * Threads: the executor. */
#pragma once

#include "types/key.h"

enum {
    ZSET_WALK_MAX = 16 * 1024,
};

struct zset_item {
    struct bytes member;
    double score;
};

struct zset_items { /* in the arena of the command that runs; starts as {0} */
    struct zset_item *item;
    size_t count, cap;
};
/* Copies the member. */
enum rc zset_items_add(const struct run *run, struct zset_items *items, struct zset_item item,
                       struct err *err) NODISCARD;
/* Order of score, then of member; for qsort(). */
int zset_item_cmp(const void *a, const void *b);

/* ---- one member; the key exists ---- */

/* RC_NOT_FOUND: not a member. */
enum rc zset_score(const struct key *key, struct bytes member, double *ret_score,
                   struct err *err) NODISCARD;
/* Names the rows of members (every step-th of an array) that will be needed. */
void zset_want(const struct key *key, const struct bytes *member, size_t count, size_t step);

/* Members at one end of the sorted set whose rows these are, lowest or highest first, as far as
 * they are hot: to prefetch, no answer. */
size_t zset_peek_ends(struct ns *ns, struct store_group rows, bool highest,
                      struct bytes *ret_member, size_t max);

enum zset_add_flags {
    ZSET_NX = 1,
    ZSET_XX = 2,
    ZSET_GT = 4,
    ZSET_LT = 8,
    ZSET_INCR = 16, /* the score is added to the one that is there */
    ZSET_NEW = 32,  /* the caller knows that it is no member: nothing is read */
};
enum zset_added { ZSET_SKIPPED, ZSET_SAME, ZSET_UPDATED, ZSET_ADDED };
struct zset_change {
    enum zset_added what;
    double score; /* the member's, unless it was skipped */
};
/* RC_INVALID: the sum is not a number. */
enum rc zset_add(struct key *key, struct zset_item item, unsigned flags,
                 struct zset_change *ret_change, struct err *err) NODISCARD;
/* RC_NOT_FOUND: not a member. */
enum rc zset_remove(struct key *key, struct bytes member, struct err *err) NODISCARD;
/* Members before it; after it, reversed. RC_NOT_FOUND: not a member. */
enum rc zset_rank(const struct key *key, struct bytes member, bool reverse, uint64_t *ret_rank,
                  struct err *err) NODISCARD;
/* The element that a row of either kind stands for. */
enum rc zset_item_of_row(struct bytes suffix, struct bytes value, struct zset_item *ret_item,
                         struct err *err) NODISCARD;

/* ---- all of it ---- */

/* Elements of a key that was just made or replaced: distinct members, new ones, which are sorted
 * here. */
enum rc zset_fill(struct key *key, struct zset_items *items, struct err *err) NODISCARD;
/* key_save(), or key_remove() and "del" where nothing is left. */
enum rc zset_save(struct key *key, struct err *err) NODISCARD;
/* As OBJECT ENCODING answers: "listpack" or "skiplist". */
enum rc zset_encoding(const struct key *key, const char **ret_name, struct err *err) NODISCARD;

/* ---- ranges ---- */

struct zset_span { /* rows with low <= suffix < high */
    struct bytes low, high;
};
struct zset_scores {
    double min, max;
    bool min_open, max_open; /* without min, max themselves */
};
enum zset_lex_kind { ZSET_LEX_CLOSED, ZSET_LEX_OPEN, ZSET_LEX_FIRST, ZSET_LEX_LAST };
struct zset_lex {
    struct bytes min, max;
    enum zset_lex_kind min_kind, max_kind; /* FIRST and LAST: "-" and "+", at either side */
};
struct zset_span zset_span_by_score(void);  /* all, in order of scores */
struct zset_span zset_span_by_member(void); /* all, in order of members */
/* In order of members, from behind this one on. */
enum rc zset_span_after(const struct run *run, struct bytes member, struct zset_span *ret_span,
                        struct err *err) NODISCARD;
enum rc zset_span_scores(const struct run *run, const struct zset_scores *scores,
                         struct zset_span *ret_span, struct err *err) NODISCARD;
/* Means something where all scores are equal, as in Redis; `reverse` matters only where they are
 * not. */
enum rc zset_span_lex(const struct key *key, const struct zset_lex *lex, bool reverse,
                      struct zset_span *ret_span, struct err *err) NODISCARD;
enum rc zset_count(const struct key *key, struct zset_span span, uint64_t *ret_count,
                   struct err *err) NODISCARD;
/* Removes the elements of an interval in order of scores. */
enum rc zset_remove_span(struct key *key, struct zset_span span, uint64_t *ret_count,
                         struct err *err) NODISCARD;
/* Removes count elements (at least 1, all of them there) from this rank on. */
enum rc zset_remove_ranks(struct key *key, uint64_t rank, uint64_t count,
                          struct err *err) NODISCARD;

struct zset_walk {
    struct store_walk rows;
    const struct key *key;
    struct zset_span span;
    bool ended;
};
/* The key and the span are borrowed for the walk's life. zset_walk_done() also after an error. */
enum rc zset_walk_init(struct zset_walk *walk, const struct key *key, struct zset_span span,
                       bool reverse, struct err *err) NODISCARD;
void zset_walk_done(struct zset_walk *walk);
/* So many elements will be read, if there are as many: what is cold of them is loaded in one go. */
void zset_walk_expect(struct zset_walk *walk, uint64_t count);
/* RC_NOT_FOUND at the end. */
enum rc zset_walk_next(struct zset_walk *walk, struct zset_item *ret_item,
                       struct err *err) NODISCARD;
/* Passes over count elements, or what there is. Before the first zset_walk_next(). */
enum rc zset_walk_skip(struct zset_walk *walk, uint64_t count, struct err *err) NODISCARD;
/* A walk of zset_span_by_score(): goes on with the element of this rank, counted from where the
 * walk began. */
enum rc zset_walk_rank(struct zset_walk *walk, uint64_t rank, struct err *err) NODISCARD;
/* Where it stands, and on from there with another walk over the same span. */
struct bytes zset_walk_at(const struct zset_walk *walk);
enum rc zset_walk_resume(struct zset_walk *walk, struct bytes at, struct err *err) NODISCARD;
/* zset_walk_next(), and the element is removed. The member lives until zset_save(). */
enum rc zset_walk_take(struct zset_walk *walk, struct key *key, struct zset_item *ret_item,
                       struct err *err) NODISCARD;

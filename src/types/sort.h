// SPDX-License-Identifier: Apache-2.0
/* sort.h - the elements of a list, a set or a sorted set in order: SORT.
 *
 * The order is that of numbers or of bytes (Redis asks the locale's strcoll(); here it is always
 * the "C" locale), of the elements themselves or of what a pattern makes of each:
 *   "a*b"        the string at the key where the element stands for the star
 *   "a*b->f"     field f of the hash at that key
 *   "#"          the element itself
 *   without "*"  nothing
 *
 * Ownership: elements and their order are in the command's arena, or in the sort_work.
 * Threads: the executor. */
#pragma once

#include "types/build.h"

enum {
    SORT_COLD_MAX = 16384, /* cold things that one run asks for before it gives up its turn */
};

enum sort_pattern_kind { SORT_NOTHING, SORT_SELF, SORT_STRING, SORT_FIELD };
struct sort_pattern { /* borrows the text */
    enum sort_pattern_kind kind;
    struct bytes before, after; /* the star */
    struct bytes field;
};
void sort_pattern_parse(struct bytes text, struct sort_pattern *ret_pattern);
/* `name` is scratch memory. RC_NOT_FOUND: no such key or field, or one of another type. */
enum rc sort_lookup(const struct run *run, const struct sort_pattern *pattern, struct bytes element,
                    struct buf *name, struct bytes *ret_value, struct err *err) NODISCARD;

struct sort_options {
    bool descending;
    bool alpha;
    bool has_by;
    struct sort_pattern by; /* SORT_NOTHING: elements stay in the order they have */
    int64_t first;          /* below 0: 0 */
    int64_t count;          /* below 0: all */
    bool stored;            /* the result is kept: members of a set are ordered in any case */
};
struct sort_range {
    uint64_t first, count;
};
/* What LIMIT leaves of so many elements. */
struct sort_range sort_range(const struct sort_options *options, uint64_t all_count);
/* *ret_key may not exist. RC_WRONGTYPE: it has no elements that could be sorted. */
enum rc sort_key_read(const struct run *run, struct bytes name, struct key *ret_key,
                      struct err *err) NODISCARD;
struct sort_item {
    struct bytes element;
    struct bytes text; /* alpha with has_by: what it is compared by; ptr NULL: nothing */
    double score;      /* else */
    size_t position;   /* equal ones keep their order */
};
/* A key as sort_key_read() found it, in one go. RC_INVALID: an element, or what stands for it, is
 * no number. */
enum rc sort_run(const struct key *key, const struct sort_options *options,
                 struct sort_item **ret_item, size_t *ret_count, struct err *err) NODISCARD;
/* Whether elements of such a key are ordered without a look at other keys, and how (sort_work). */
bool sort_by_itself(const struct sort_options *options, enum type_tag type,
                    struct sort_options *ret_how);
/* Many elements, by themselves, into a list: built aside. RC_WAIT: there is another commit to come.
 * RC_NOT_FOUND: it is to be sorted and stored in one. */
enum rc sort_build(const struct run *run, struct bytes name, const struct sort_options *options,
                   struct bytes to, struct build *build, uint64_t *ret_count,
                   struct err *err) NODISCARD;

/* Many elements in order, by themselves, in many commits in which the key does not change. */
struct sort_work;
enum rc sort_work_new(uint64_t count, struct sort_work **ret_work, struct err *err) NODISCARD;
void sort_work_free(void *work); /* NULL is allowed */
/* `options` are those of sort_by_itself(). RC_WAIT: there is another step to come, in another
 * commit. RC_OK: they are sorted. RC_INVALID: one is no number. */
enum rc sort_work_step(struct sort_work *work, const struct key *key,
                       const struct sort_options *options, struct err *err) NODISCARD;
const struct sort_item *sort_work_items(const struct sort_work *work); /* all of them */
size_t sort_work_count(const struct sort_work *work);
/* For who gathers by himself, up to the count of sort_work_new(): steps follow when it is said that
 * those are all, and need no key. */
enum rc sort_work_add(struct sort_work *work, struct bytes element, double score,
                      struct err *err) NODISCARD;
void sort_work_gathered(struct sort_work *work);
bool sort_work_is_gathering(const struct sort_work *work);

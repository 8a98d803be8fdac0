/* sort.h - the elements of a list, a set or a sorted set in order: SORT.
 *
 * The order is that of numbers or of bytes (Redis asks the locale's strcoll(); here it is always
 * the "C" locale), of the elements themselves or of what a pattern makes of each: "a*b"        the
 * string at the key where the element stands for the star "a*b->f"     field f of the hash at that
 * key
 *   "#"          the element itself
 *   without "*"  nothing
 *
 * Ownership: elements and their order are in the command's arena. Threads: the executor. */
#pragma once

#include "types/key.h"

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
enum rc sort_lookup(struct ns *ns, const struct sort_pattern *pattern, struct bytes element,
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
struct sort_item {
    struct bytes element;
    struct bytes text; /* alpha with has_by: what it is compared by; ptr NULL: nothing */
    double score;      /* else */
    size_t position;   /* equal ones keep their order */
};
/* RC_INVALID: an element, or what stands for it, is no number. RC_WRONGTYPE. */
enum rc sort_run(struct ns *ns, struct bytes name, const struct sort_options *options,
                 struct sort_item **ret_item, size_t *ret_count, struct err *err) NODISCARD;
/* A copy in the command's arena. */
enum rc sort_copy(struct kv *kv, struct bytes bytes, struct bytes *ret_copy,
                  struct err *err) NODISCARD;

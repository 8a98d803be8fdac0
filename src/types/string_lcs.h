// SPDX-License-Identifier: Apache-2.0
/* string_lcs.h - the longest common subsequence of two strings.
 *
 * Ownership: the strings are borrowed, the table is the arena's.
 * Threads: the executor. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

struct lcs {
    struct bytes a, b;
    const uint32_t *table; /* [i][j]: the length for the first i bytes of a and the first j of b */
    size_t i, j;           /* lcs_next() goes on before these */
};
struct lcs_match { /* bytes that follow each other in both */
    size_t a_from, b_from, len;
};

/* RC_INVALID, RC_NOMEM with Redis's texts; the product of the lengths is limited. */
enum rc lcs_check(uint64_t a_len, uint64_t b_len, struct err *err) NODISCARD;
enum rc lcs_init(struct lcs *lcs, struct arena *arena, struct bytes a, struct bytes b,
                 struct err *err) NODISCARD;
uint32_t lcs_len(const struct lcs *lcs);
/* The matches that make up the subsequence, from the last to the first. */
bool lcs_next(struct lcs *lcs, struct lcs_match *ret_match);

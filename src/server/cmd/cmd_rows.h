// SPDX-License-Identifier: Apache-2.0
/* cmd_rows.h - what the commands of hashes and sets share: all rows of a key, a page, some at
 * random; and what all scans of a key do.
 *
 * All take the key from argv[1].
 * Threads: the executor. */
#pragma once

#include "server/cmd.h"
#include "types/rows.h"

enum cmd_rows_part { ROWS_SUFFIX = 1, ROWS_VALUE = 2, ROWS_BOTH = 3 }; /* of a row */

/* The rows of a key that exists, without the reply's head; key.meta.count of them. slow: begun
 * behind the head, or NULL. */
enum rc cmd_rows_add(struct cmd_ctx *ctx, const struct key *key, enum cmd_rows_part part,
                     struct cmd_long *slow) NODISCARD;
struct cmd_scan { /* HSCAN, SSCAN, ZSCAN */
    uint64_t cursor;
    uint64_t count_max;
    bool has_pattern;
    struct bytes pattern;
};
/* [MATCH pattern] [COUNT count], from argv[3] on */
enum rc cmd_scan_options(struct cmd_ctx *ctx, struct cmd_scan *scan) NODISCARD;
/* KEY CURSOR [MATCH pattern] [COUNT count] */
enum rc cmd_rows_scan(struct cmd_ctx *ctx, uint8_t type, enum cmd_rows_part part) NODISCARD;
/* One suffix at random, or null. */
enum rc cmd_rows_random(struct cmd_ctx *ctx, uint8_t type) NODISCARD;
/* The count is argv[2]: that many different rows, or, below 0, rows that may repeat. */
enum rc cmd_rows_random_count(struct cmd_ctx *ctx, int64_t *ret_count) NODISCARD;
uint64_t cmd_rows_pick_count(const struct key *key, int64_t count); /* how many there will be */
/* A pick in slices: the first, or from where the last one stopped. *slow becomes NULL if it has to
 * be taken in one go. rows_pick_done() it also after an error. */
enum rc cmd_rows_pick_begin(struct cmd_ctx *ctx, const struct key *key, int64_t count,
                            struct cmd_long **slow, struct rows_pick *pick) NODISCARD;
/* rc is that of the last rows_pick_next(), or RC_WAIT: the slice is full. Returns what the handler
 * has to return. */
enum rc cmd_rows_pick_end(struct cmd_ctx *ctx, struct cmd_long *slow, struct rows_pick *pick,
                          enum rc rc) NODISCARD;
enum rc cmd_rows_random_some(struct cmd_ctx *ctx, uint8_t type, int64_t count,
                             enum cmd_rows_part part) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* zset_int.h - the rows of sorted sets; for zset*.c only. */
#pragma once

#include "types/zset.h"

enum {
    ZSET_MEMBER_ROWS = 0x00, /* first byte of a suffix */
    ZSET_SCORE_ROWS = 0x01,
    ZSET_ROWS_END = 0x02,
    ZSET_CODE_BYTES = 8,
    ZSET_HEAD_BYTES = 1 + ZSET_CODE_BYTES, /* before the member in a score row */
};

/* Both suffixes of a member share one copy of it, in kv->row: one at a time is good, until the next
 * zset__suffix(), zset__member_suffix(), zset__score_suffix() or key_save(). */
struct zset_suffix {
    uint8_t *ptr;
    size_t member_len;
};
enum rc zset__suffix(struct kv *kv, struct bytes member, struct zset_suffix *ret_suffix,
                     struct err *err) NODISCARD;
struct bytes zset__member_suffix(struct zset_suffix suffix);
struct bytes zset__score_suffix(struct zset_suffix suffix, double score);
/* Both rows of a member, and the count. Of the last member nothing but the count. */
enum rc zset__rows_remove(struct key *key, struct zset_suffix suffix, double score,
                          struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* pack.h - how the hot tier keeps rows of the data space: without what their suffix says already.
 *
 *   SUFFIX               PACKED           THE VALUE IS
 *   01 ‖ score(8) ‖ ..   (empty)          the text of the score, as in a sorted set
 *   any other            (empty)          the suffix itself, as in a set
 *   01 ‖ score(8) ‖ ..   f5               the suffix itself
 *   00 ‖ ..              f6 ‖ 1..8 bytes  an integer as text: its zigzag code, big-endian
 *   00 ‖ ..              f7 ‖ 8 bytes     a double as text: its bits, big-endian
 *   any                  f8 ‖ v           v, which is empty or begins with f5..f8
 *   any                  v                v
 * A suffix does not tell its type: a hash field may look like a row of a sorted set, and its value
 * like anything. So every value comes back as it was, whatever the suffix; f5..f8 are no UTF-8, and
 * an ordinary value is kept without a byte more.
 *
 * Threads: any. */
#pragma once

#include "store/engine/space.h"

/* For struct store_space. */
enum space_packed data_pack(struct bytes group, struct bytes suffix, struct bytes value,
                            struct buf *to);
enum space_packed data_unpack(struct bytes group, struct bytes suffix, struct bytes packed,
                              struct buf *to);

/* The score in a packed row 00 ‖ member of a sorted set; its text itself is taken as well. False:
 * it is no score. */
bool data_packed_score(struct bytes packed, double *ret_score);

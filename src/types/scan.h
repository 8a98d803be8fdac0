// SPDX-License-Identifier: Apache-2.0
/* scan.h - cursors: numbers for the places where scans go on.
 *
 * SCAN, HSCAN, SSCAN and ZSCAN stand at a place (a key, a suffix), but clients carry a number. The
 * newest SCAN_CURSORS_MAX places are remembered, within SCAN_CURSOR_BYTES_MAX; an older cursor, or
 * one from before a restart, is an error and never another place. A cursor may be used many times.
 *
 * A cursor is nonzero and below 2^53, which a JavaScript number holds.
 *
 * Ownership: a place found is borrowed until the next scan_cursor_keep().
 * Threads: the executor. */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/rand.h"

struct kv;
struct scan_cursors {      /* embedded by struct kv */
    uint8_t **place;       /* u32 length, then the bytes; by cursor modulo SCAN_CURSORS_MAX */
    uint64_t oldest, next; /* cursors: [oldest, next) are remembered */
    size_t bytes;
};

void scan_cursors_init(struct scan_cursors *cursors, struct rand *rand);
void scan_cursors_done(struct scan_cursors *cursors);

/* As Redis reads a cursor; false: "invalid cursor". */
bool scan_cursor_parse(struct bytes text, uint64_t *ret_cursor);
/* RC_INVALID: forgotten, or never given. Not for 0, which is the start. */
enum rc scan_cursor_find(struct kv *kv, uint64_t cursor, struct bytes *ret_position,
                         struct err *err) NODISCARD;
/* Copies the position. Without memory for it the cursor is given, and forgotten at once. */
uint64_t scan_cursor_keep(struct kv *kv, struct bytes position);

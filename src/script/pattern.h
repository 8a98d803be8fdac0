// SPDX-License-Identifier: Apache-2.0
/* pattern.h - Lua 5.1's patterns, with bounds on depth and time.
 *
 * Lua's own matcher recurses as deep as the pattern is long, and its time is nobody's concern. This
 * one refuses what is too deep, and looks around (vm__tick) while it works.
 *
 * Ownership: a struct pattern borrows both texts, which must be on the Lua stack.
 * Threads: one owner. */
#pragma once

#include "script/vm.h"

enum { PATTERN_CAPTURES_MAX = 32 };

struct pattern {
    lua_State *L;
    const uint8_t *text, *text_end;
    const uint8_t *end; /* of the pattern */
    size_t steps;
    unsigned depth;
    int count; /* of captures */
    struct {
        const uint8_t *from;
        ptrdiff_t len; /* or one of those in pattern.c */
    } capture[PATTERN_CAPTURES_MAX];
};

/* Where a match that begins at `at` ends; NULL: there is none. Raises errors of the pattern. */
const uint8_t *pattern_match(struct pattern *pattern, const uint8_t *at, const uint8_t *from);
/* Pushes a capture; the whole match if there are none and i is 0. */
void pattern_push(struct pattern *pattern, int i, const uint8_t *from, const uint8_t *to);
/* Pushes all captures, or the whole match (`from` NULL: nothing) if there are none: how many. */
int pattern_push_all(struct pattern *pattern, const uint8_t *from, const uint8_t *to);

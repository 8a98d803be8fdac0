// SPDX-License-Identifier: Apache-2.0
/* utf8.h - is it text?
 *
 * Valid is what RFC 3629 says: no overlong forms, no surrogates, nothing above U+10FFFF.
 * Threads: any. */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"

/* The number of characters; SIZE_MAX: it is no valid UTF-8. */
size_t utf8_count(struct bytes text);
/* A byte that is no part of a character becomes a question mark: for people. */
void utf8_repair(uint8_t *text, size_t len);
static inline bool utf8_is_valid(struct bytes text)
{
    return utf8_count(text) != SIZE_MAX;
}

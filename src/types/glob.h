// SPDX-License-Identifier: Apache-2.0
/* glob.h - patterns as KEYS, SCAN and PSUBSCRIBE take them.
 *
 *   *      any bytes       ?      one byte      \x     x itself
 *   [abc]  one of these    [^a]   none of these [a-z]  one in between; ] ends, also by the
 * pattern's end What stringmatchlen() of Redis 7.0 answers, oddities included: an empty text is
 * matched by the empty pattern only (KEYS and SCAN do not ask about the pattern "*"), and bytes in
 * a range are signed. In time of at most pattern times text.
 *
 * Threads: any. */
#pragma once

#include "base/bytes.h"

bool glob_match(struct bytes pattern, struct bytes text, bool nocase);
/* "*": everything, also the empty text. */
bool glob_is_all(struct bytes pattern);

/* copy.h - a key again under another name: COPY and MOVE.
 *
 * Threads: the executor. */
#pragma once

#include "types/key.h"

/* Makes `to`, which is not there or is overwritten, what `from` is: of any type, with its deadline,
 * in the same namespace or in another. The elements are copied in this commit; RC_COLD until all
 * are in memory, before anything is changed. No event. */
enum rc key_copy(const struct key *from, struct key *to, struct err *err) NODISCARD;

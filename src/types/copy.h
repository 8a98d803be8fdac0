// SPDX-License-Identifier: Apache-2.0
/* copy.h - a key again under another name: COPY and MOVE.
 *
 * Threads: the executor. */
#pragma once

#include "types/build.h"

/* Makes `to`, which is not there or is overwritten, what `from` is: of any type, with its deadline,
 * in the same namespace or in another. No event. The elements of a large key are copied aside, if
 * `build` is not NULL: RC_WAIT: call it again in the next commit. Those of others are copied in
 * this commit; RC_COLD until all are in memory, before anything is changed. */
enum rc key_copy(const struct key *from, struct key *to, struct build *build,
                 struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* magic.h - which program wrote a file, by the bytes that it begins with.
 *
 * A file of another program that lies where a shard should be is no damaged shard: it is refused
 * and stays what it is.
 *
 * Threads: any. */
#pragma once

#include "base/bytes.h"

enum { MAGIC_BYTES = 64 }; /* that are looked at */

/* Which other program writes files that begin so: "BBolt"; NULL: none that is known, or the one
 * whose files these should be. */
const char *magic_foreign(struct bytes head, const char *own);

/* string.h - strings: a value in the meta row of its key.
 *
 * Ownership: a value that was read is borrowed until the next change or the end of the commit.
 * Threads: the executor. */
#pragma once

#include "types/ns.h"

enum { STRING_BYTES_MAX = 512 * 1024 * 1024 };

/* RC_NOT_FOUND, RC_COLD, RC_WRONGTYPE. */
enum rc string_get(struct ns *ns, struct bytes key, struct bytes *ret_value,
                   struct err *err) NODISCARD;
/* Whatever was there is replaced. RC_COLD: whether the key is new has to be known. */
enum rc string_set(struct ns *ns, struct bytes key, struct bytes value, struct err *err) NODISCARD;

/* cmd_string.h - what the files of the string and bitmap commands share.
 *
 * Threads: the executor. */
#pragma once

#include "server/cmd.h"
#include "types/string.h"

/* Turns start and end (included) of GETRANGE and its like, where negative ones count from the end,
 * into places of a string of this length. False: nothing is between them. */
bool cmd_string__range(int64_t *start, int64_t *end, uint64_t len);

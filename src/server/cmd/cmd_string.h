// SPDX-License-Identifier: Apache-2.0
/* cmd_string.h - what the files of the string and bitmap commands share.
 *
 * Threads: the executor. */
#pragma once

#include "server/cmd.h"
#include "types/string.h"

/* Turns start and end (included) of GETRANGE and its like, where negative ones count from the end,
 * into places of a string of this length. False: nothing is between them. */
bool cmd_string__range(int64_t *start, int64_t *end, uint64_t len);
/* A part of a string that exists, as a bulk; from <= end <= length. A long one is not put together
 * first. in_slices: the command does nothing but this. */
enum rc cmd_string__reply(struct cmd_ctx *ctx, const struct key *key, uint64_t from, uint64_t end,
                          bool in_slices) NODISCARD;

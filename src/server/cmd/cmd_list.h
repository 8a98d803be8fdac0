// SPDX-License-Identifier: Apache-2.0
/* cmd_list.h - what the files of the list commands share.
 *
 * Threads: the executor. */
#pragma once

#include "server/cmd.h"
#include "types/list.h"

/* Writes the outermost element, and removes it. The list exists. */
enum rc cmd_list__pop_one(struct cmd_ctx *ctx, struct list *list, enum list_end end) NODISCARD;
/* Writes an array of up to count_max elements, and removes them. */
enum rc cmd_list__pop_some(struct cmd_ctx *ctx, struct list *list, enum list_end end,
                           uint64_t count_max) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* cmd_zset.h - what the commands of sorted sets share; for cmd_zset*.c only.
 *
 * Threads: the executor. */
#pragma once

#include "server/cmd.h"
#include "types/zset.h"

/* An element of a reply: RESP2 clients get members and scores in one array, RESP3 clients pairs. */
void cmd_zset__item(struct resp_out *reply, struct zset_item item, bool with_scores);
/* How long the array around count elements is. */
size_t cmd_zset__len(const struct resp_out *reply, size_t count, bool with_scores);
/* argv[arg] becomes a sorted set of these elements, or is removed if there are none; with the
 * reply. */
enum rc cmd_zset__store(struct cmd_ctx *ctx, size_t arg, struct zset_items *items,
                        const char *event) NODISCARD;
/* The same with what was built aside: BUILD_FULL. */
enum rc cmd_zset__store_build(struct cmd_ctx *ctx, size_t arg, struct build *build,
                              const char *event) NODISCARD;
/* A piece of it, read up to `at`: RC_WAIT. */
enum rc cmd_zset__piece(struct cmd_ctx *ctx, struct build *build, struct zset_items *items,
                        struct bytes at, bool ended) NODISCARD;

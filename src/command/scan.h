// SPDX-License-Identifier: Apache-2.0
/* scan.h - parts of SCAN, for models whose names come behind the keys of a database.
 *
 * Threads: the executor. */
#pragma once

#include "command/command.h"
#include "types/scan_keys.h"

enum rc cmd_scan_parse(struct cmd_ctx *ctx, struct scan_keys *ret_scan) NODISCARD;
/* A page of keys. *ret_cursor 0: that was the last. */
enum rc cmd_scan_keys(struct cmd_ctx *ctx, const struct scan_keys *scan, struct resp_out *names,
                      uint64_t *ret_cursor, size_t *ret_count) NODISCARD;
/* The answer: names that are written already. */
void cmd_scan_reply(struct cmd_ctx *ctx, uint64_t cursor, const struct resp_out *names,
                    size_t count);

/* scan_name_fn: a bulk each, counted. */
struct cmd_names {
    struct resp_out *reply;
    size_t count;
};
void cmd_names_add(void *names, struct bytes name);

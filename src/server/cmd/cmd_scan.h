// SPDX-License-Identifier: Apache-2.0
/* cmd_scan.h - SCAN goes on from the keys of a database to its tiles. */
#pragma once

#include "server/cmd.h"
#include "types/scan_keys.h"

/* What a cursor among tiles stands for begins with this; the last key follows, as it is stored. */
enum { CMD_SCAN_TILES = 't' };

/* The answer: names that are written already. */
enum rc cmd_scan_reply(struct cmd_ctx *ctx, uint64_t cursor, const struct resp_out *names,
                       size_t count) NODISCARD;
/* A page of tiles behind this key (empty: from the first). */
enum rc cmd_tile_scan(struct cmd_ctx *ctx, const struct scan_keys *scan, struct bytes after,
                      struct resp_out *names) NODISCARD;

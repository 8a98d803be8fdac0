// SPDX-License-Identifier: Apache-2.0
/* cmd_tile.h - what the files cmd_tile*.c share. */
#pragma once

#include "command/command.h"
#include "models/tile/tile.h"

/* The type that argument 1 (of a subcommand: 2) names. */
enum rc cmd_tile_type(struct cmd_ctx *ctx, size_t arg, struct tile_type **ret_type) NODISCARD;
/* The number of a tile: epoch or provider. */
enum rc cmd_tile_number(struct cmd_ctx *ctx, size_t arg, uint64_t *ret_value) NODISCARD;

/* Handlers in the database of a type of tiles: see key_guard.command(). */
enum rc cmd_tile_plain(void *type, struct cmd_ctx *ctx) NODISCARD;
enum rc cmd_tile_scan(struct cmd_ctx *ctx) NODISCARD;

#define CMD CMD_DECLARE
#include "models/tile/cmd_tile.def"
#include "models/tile/cmd_task.def"
#undef CMD

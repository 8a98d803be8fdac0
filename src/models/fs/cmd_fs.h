// SPDX-License-Identifier: Apache-2.0
/* cmd_fs.h - what the files of FS.* share.
 *
 * Threads: the executor. */
#pragma once

#include "command/command.h"
#include "models/fs/fs.h"

enum { CMD_FS_STAT_PAIRS = 12, CMD_FS_PAGE_COUNT = 1000 /* unless COUNT says otherwise */ };
/* A map of attributes; the last one is the name, or the path, as `label` says. */
void cmd_fs_stat_add(struct resp_out *reply, const struct fs_stat *stat, const char *label,
                     struct bytes text);
enum rc cmd_fs_count_arg(struct cmd_ctx *ctx, size_t arg, int64_t *ret_count) NODISCARD;

#define CMD CMD_DECLARE
#include "models/fs/cmd_fs.def"
#undef CMD

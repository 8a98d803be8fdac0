// SPDX-License-Identifier: Apache-2.0
/* cmd_part.h - what the files of PART.* share. */
#pragma once

#include "command/command.h"
#include "models/partition/part.h"

/* argv[1] names a job that exists. */
enum rc cmd_part_job(struct cmd_ctx *ctx, struct part_job *ret_job) NODISCARD;
/* An id, or another number of 0 to 2^63-1. */
enum rc cmd_part_id(struct cmd_ctx *ctx, size_t arg, int64_t *ret_id) NODISCARD;
/* part_show_fn: a bulk, counted. */
struct cmd_part_shown {
    struct resp_out *out;
    size_t count;
};
void cmd_part_show(void *shown, struct bytes json);

#define CMD CMD_DECLARE
#include "models/partition/cmd_part.def"
#undef CMD

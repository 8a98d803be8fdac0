/* cmd_land.h - what the files of LAND.* share. Threads: the executor. */
#pragma once

#include "landing/landing.h"
#include "server/cmd.h"

/* The rule an argument names; an error if there is none. */
enum rc cmd_land_rule_arg(struct cmd_ctx *ctx, size_t arg, struct land_rule **ret_rule) NODISCARD;

enum land_entries { LAND_ENTRIES_COUNT, LAND_ENTRIES_DROP };
/* All that has not landed of a rule, refused entries too: counted, or given up as well. */
enum rc cmd_land_entries(struct cmd_ctx *ctx, const struct land_rule *rule, enum land_entries what,
                         uint64_t *ret_count) NODISCARD;
/* How many entries of any rule up to this version stand among the errors. */
enum rc cmd_land_refused(struct cmd_ctx *ctx, uint64_t lsn, uint64_t *ret_count) NODISCARD;

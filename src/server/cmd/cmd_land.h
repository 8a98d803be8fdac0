/* cmd_land.h - what the files of LAND.* share. Threads: the executor. */
#pragma once

#include "landing/landing.h"
#include "server/cmd.h"

/* The rule an argument names; an error if there is none. */
enum rc cmd_land_rule_arg(struct cmd_ctx *ctx, size_t arg, struct land_rule **ret_rule) NODISCARD;

/* All that has not landed of a rule, refused entries too: how many. */
enum rc cmd_land_count(struct cmd_ctx *ctx, const struct land_rule *rule,
                       uint64_t *ret_count) NODISCARD;
/* Gives all of it up, in steps. RC_WAIT: there is more; RC_OK: in this commit nothing is left. */
enum rc cmd_land_drop_all(struct cmd_ctx *ctx, const struct land_rule *rule) NODISCARD;
/* Whether an entry of any rule up to this version stands among the errors. */
enum rc cmd_land_refused(struct cmd_ctx *ctx, uint64_t lsn, bool *ret_refused) NODISCARD;

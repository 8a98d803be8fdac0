// SPDX-License-Identifier: Apache-2.0
/* cmd_land.h - what the files of LAND.* share.
 * Threads: the executor. */
#pragma once

#include "command/command.h"
#include "models/landing/landing.h"

/* The rule an argument names; an error if there is none. */
enum rc cmd_land_rule_arg(struct cmd_ctx *ctx, size_t arg, struct land_rule **ret_rule) NODISCARD;

/* All that has not landed of a rule, refused entries too: how many. */
enum rc cmd_land_count(struct cmd_ctx *ctx, const struct land_rule *rule,
                       uint64_t *ret_count) NODISCARD;
/* Gives all of it up, in steps. RC_WAIT: there is more; RC_OK: in this commit nothing is left. */
enum rc cmd_land_drop_all(struct cmd_ctx *ctx, const struct land_rule *rule) NODISCARD;
/* Whether an entry of the rule (NULL: of any) stands among the errors. Its version says nothing
 * about how old the change is: one that is tried again has a new one. */
enum rc cmd_land_refused(struct cmd_ctx *ctx, const struct land_rule *wanted,
                         bool *ret_refused) NODISCARD;

#define CMD CMD_DECLARE
#include "models/landing/cmd_land.def"
#undef CMD

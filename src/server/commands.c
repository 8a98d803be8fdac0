// SPDX-License-Identifier: Apache-2.0
/* commands.c - the rows of all commands. */
#include "server/cmd.h"
#include "server/models.h"

#include "base/banned.h"

static const struct cmd rows[] = {
#define CMD(name, arity, flags, first, last, step, numkeys, handler, group, since, complexity, \
            syntax, summary)                                                                   \
    {name,    arity, flags, first,      last,   step,    numkeys,                              \
     handler, group, since, complexity, syntax, summary, CMD_MODEL},
#include "server/commands.def"
#undef CMD
};

const struct cmd *cmd_list(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(rows);
    return rows;
}

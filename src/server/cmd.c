#include "server/cmd.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "base/banned.h"

enum { UNKNOWN_SHOWN_BYTES = 128 };

static const struct cmd cmds[] = {
#define CMD(name, arity, flags, first, last, step, handler, summary) \
    {name, arity, flags, first, last, step, handler, summary},
#include "server/commands.def"
#undef CMD
};

bool cmd_arg_is(struct bytes arg, const char *word)
{
    size_t len = strlen(word);
    return arg.len == len && strncasecmp((const char *)arg.ptr, word, len) == 0;
}

const struct cmd *cmd_find(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(cmds); i++)
        if (cmd_arg_is(name, cmds[i].name))
            return &cmds[i];
    return NULL;
}

const struct cmd *cmd_list(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(cmds);
    return cmds;
}

enum rc cmd_syntax_error(struct cmd_ctx *ctx)
{
    return err_set(ctx->err, RC_INVALID, "syntax error");
}

enum rc cmd_arity_error(struct cmd_ctx *ctx)
{
    char name[32];
    size_t len = strnlen(ctx->cmd->name, sizeof name - 1);
    for (size_t i = 0; i < len; i++)
        name[i] = (char)tolower((unsigned char)ctx->cmd->name[i]);
    name[len] = 0;
    return err_set(ctx->err, RC_INVALID, "wrong number of arguments for '%s' command", name);
}

/* Redis prints both as C strings, and stops after 128 bytes of arguments. */
static enum rc unknown_error(struct cmd_ctx *ctx)
{
    char args[2 * UNKNOWN_SHOWN_BYTES] = "";
    size_t len = 0;
    for (size_t i = 1; i < ctx->argc && len < UNKNOWN_SHOWN_BYTES; i++) {
        size_t shown = UNKNOWN_SHOWN_BYTES - len;
        if (shown > ctx->argv[i].len)
            shown = ctx->argv[i].len;
        int added = snprintf(args + len, sizeof args - len, "'%.*s' ", (int)shown,
                             (const char *)ctx->argv[i].ptr);
        len += added > 0 ? (size_t)added : 0;
    }
    size_t name_len = ctx->argv[0].len;
    return err_set(ctx->err, RC_INVALID, "unknown command '%.*s', with args beginning with: %s",
                   (int)(name_len < UNKNOWN_SHOWN_BYTES ? name_len : UNKNOWN_SHOWN_BYTES),
                   (const char *)ctx->argv[0].ptr, args);
}

enum rc cmd_run(struct cmd_ctx *ctx)
{
    if (!ctx->cmd)
        return unknown_error(ctx);
    int arity = ctx->cmd->arity;
    if (arity >= 0 ? ctx->argc != (size_t)arity : ctx->argc < (size_t)-arity)
        return cmd_arity_error(ctx);
    return ctx->cmd->run(ctx);
}

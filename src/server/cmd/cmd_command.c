// SPDX-License-Identifier: Apache-2.0
/* cmd_command.c - COMMAND: what commands.def says, in Redis's words. */
#include "server/server_int.h"

#include <stdio.h>

#include "base/mem.h"
#include "types/glob.h"

#include "base/banned.h"

static bool is_sub(const struct cmd *cmd)
{
    return strchr(cmd->name, '|') != NULL;
}

static bool is_sub_of(const struct cmd *sub, const struct cmd *cmd)
{
    size_t len = strlen(cmd->name);
    return strncmp(sub->name, cmd->name, len) == 0 && sub->name[len] == '|';
}

/* ---- one command, as COMMAND INFO tells it ---- */

static void flags_add(struct resp_out *reply, const struct cmd *cmd)
{
    static const struct {
        unsigned flag;
        const char *name;
    } names[] = {
        {CMD_WRITE, "write"},    {CMD_READ, "readonly"},     {CMD_ADMIN, "admin"},
        {CMD_PUBSUB, "pubsub"},  {CMD_NOSCRIPT, "noscript"}, {CMD_BLOCKING, "blocking"},
        {CMD_FAST, "fast"},      {CMD_NOAUTH, "no_auth"},    {CMD_MOVABLE, "movablekeys"},
        {CMD_ALONE, "no_multi"},
    };
    size_t mark = resp_open(reply), count = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!(cmd->flags & names[i].flag))
            continue;
        resp_add_status(reply, names[i].name);
        count++;
    }
    resp_close_set(reply, mark, count);
}

/* Categories of ACLs; a command is in several. What flags and group do not say, as in Redis: */
enum { CATEGORIES_MAX = 8, CATEGORIES_MORE = 4 };
static const struct {
    const char *pattern; /* of names */
    bool no_group;       /* it is not in that of its group */
    const char *more[CATEGORIES_MORE];
} categories[] = {
    {"DBSIZE", false, {"keyspace"}},
    {"FLUSH*", false, {"keyspace", "dangerous"}},
    {"SWAPDB", false, {"keyspace", "dangerous"}},
    {"SORT*", true, {"set", "sortedset", "list", "dangerous"}},
    {"OBJECT", true, {0}},
    {"WAIT", true, {"connection"}},
    {"INFO", false, {"dangerous"}},
    {"KEYS", false, {"dangerous"}},
    {"LASTSAVE", false, {"admin", "dangerous"}},
    {"ROLE", false, {"admin", "dangerous"}},
    {"PUBSUB", true, {0}},
    {"PUBSUB|HELP", true, {0}},
    {"CLIENT", true, {0}},
    {"SCRIPT", true, {0}},
    {"FUNCTION", true, {0}},
    {"COMMAND*", false, {"connection"}},
    {"LAND.*", true, {0}},
};

static const char *group_category(const struct cmd *cmd)
{
    return strcmp(cmd->group, "generic") == 0        ? "keyspace"
           : strcmp(cmd->group, "sorted-set") == 0   ? "sortedset"
           : strcmp(cmd->group, "transactions") == 0 ? "transaction"
                                                     : cmd->group;
}

static size_t categories_of(const struct cmd *cmd, const char *to[CATEGORIES_MAX])
{
    size_t count = 0;
    /* A model's commands, LAND.FLUSH and the like, are in none of Redis's categories. */
    bool in_group = strcmp(cmd->group, "server") != 0 && !strchr(cmd->name, '.');
    if (cmd->flags & CMD_WRITE)
        to[count++] = "write";
    if (cmd->flags & CMD_READ && !(cmd->flags & CMD_SCRIPT))
        to[count++] = "read";
    if (cmd->flags & CMD_ADMIN) {
        to[count++] = "admin";
        to[count++] = "dangerous";
    }
    for (size_t i = 0; i < ARRAY_LEN(categories); i++) {
        const char *pattern = categories[i].pattern;
        if (!glob_match(bytes_of(pattern, strlen(pattern)), bytes_of(cmd->name, strlen(cmd->name)),
                        false))
            continue;
        in_group = in_group && !categories[i].no_group;
        for (size_t k = 0; k < CATEGORIES_MORE && categories[i].more[k]; k++)
            to[count++] = categories[i].more[k];
    }
    if (in_group)
        to[count++] = group_category(cmd);
    to[count++] = cmd->flags & CMD_FAST ? "fast" : "slow";
    if (cmd->flags & CMD_BLOCKING && cmd->flags & CMD_WRITE)
        to[count++] = "blocking";
    ASSERT(count <= CATEGORIES_MAX);
    return count;
}

static void categories_add(struct resp_out *reply, const struct cmd *cmd)
{
    const char *category[CATEGORIES_MAX];
    char name[32];
    size_t count = categories_of(cmd, category);
    resp_add_set(reply, count);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "@%s", category[i]);
        resp_add_status(reply, name);
    }
}

static bool is_in_category(const struct cmd *cmd, struct bytes name)
{
    const char *category[CATEGORIES_MAX];
    size_t count = categories_of(cmd, category);
    while (count > 0 && !cmd_arg_is(name, category[count - 1]))
        count--;
    return count > 0;
}

static void spec_part(struct resp_out *reply, const char *type)
{
    resp_add_text(reply, "type");
    resp_add_text(reply, type);
    resp_add_text(reply, "spec");
}

static void spec_begin(struct resp_out *reply, const char *name, int64_t index)
{
    resp_add_text(reply, name);
    resp_add_map(reply, 2);
    spec_part(reply, "index");
    resp_add_map(reply, 1);
    resp_add_text(reply, "index");
    resp_add_int(reply, index);
    resp_add_text(reply, "find_keys");
    resp_add_map(reply, 2);
}

static void spec_flags(struct resp_out *reply, const struct cmd *cmd)
{
    resp_add_map(reply, 3);
    resp_add_text(reply, "flags");
    resp_add_set(reply, 1);
    resp_add_status(reply, cmd->flags & CMD_WRITE ? "RW" : "RO");
}

static void key_specs_add(struct resp_out *reply, const struct cmd *cmd)
{
    resp_add_set(reply, (size_t)(cmd->key_first > 0) + (size_t)(cmd->key_numkeys > 0));
    if (cmd->key_first > 0) {
        spec_flags(reply, cmd);
        spec_begin(reply, "begin_search", cmd->key_first);
        spec_part(reply, "range");
        resp_add_map(reply, 3);
        resp_add_text(reply, "lastkey");
        resp_add_int(reply, cmd->key_last < 0 ? cmd->key_last : cmd->key_last - cmd->key_first);
        resp_add_text(reply, "keystep");
        resp_add_int(reply, cmd->key_step);
        resp_add_text(reply, "limit");
        resp_add_int(reply, 0);
    }
    if (cmd->key_numkeys > 0) {
        spec_flags(reply, cmd);
        spec_begin(reply, "begin_search", cmd->key_numkeys);
        spec_part(reply, "keynum");
        resp_add_map(reply, 3);
        resp_add_text(reply, "keynumidx");
        resp_add_int(reply, 0);
        resp_add_text(reply, "firstkey");
        resp_add_int(reply, 1);
        resp_add_text(reply, "keystep");
        resp_add_int(reply, 1);
    }
}

static void info_add_one(struct resp_out *reply, const struct cmd *cmd)
{
    char name[CMD_NAME_BYTES];
    size_t count, subs = 0;
    const struct cmd *all = cmd_list(&count);
    resp_add_array(reply, 10);
    resp_add_bulk(reply, cmd_name_lower(cmd, name));
    resp_add_int(reply, cmd->arity);
    flags_add(reply, cmd);
    resp_add_int(reply, cmd->key_first);
    resp_add_int(reply, cmd->key_last);
    resp_add_int(reply, cmd->key_step);
    categories_add(reply, cmd);
    resp_add_set(reply, 0); /* tips */
    key_specs_add(reply, cmd);
    size_t mark = resp_open(reply);
    for (size_t i = 0; i < count; i++) {
        if (!is_sub_of(&all[i], cmd))
            continue;
        info_add_one(reply, &all[i]);
        subs++;
    }
    resp_close_set(reply, mark, subs);
}

enum rc cmd_command(struct cmd_ctx *ctx)
{
    size_t count, shown = 0;
    const struct cmd *cmd = cmd_list(&count);
    size_t mark = resp_open(ctx->reply);
    for (size_t i = 0; i < count; i++) {
        if (is_sub(&cmd[i]))
            continue;
        info_add_one(ctx->reply, &cmd[i]);
        shown++;
    }
    resp_close_array(ctx->reply, mark, shown);
    return RC_OK;
}

enum rc cmd_command_info(struct cmd_ctx *ctx)
{
    if (ctx->argc == 2)
        return cmd_command(ctx);
    resp_add_array(ctx->reply, ctx->argc - 2);
    for (size_t i = 2; i < ctx->argc; i++) {
        const struct cmd *cmd = cmd_find_name(ctx->server->cmds, ctx->argv[i]);
        if (cmd)
            info_add_one(ctx->reply, cmd);
        else
            resp_add_null(ctx->reply);
    }
    return RC_OK;
}

enum rc cmd_command_count(struct cmd_ctx *ctx)
{
    size_t count, shown = 0;
    const struct cmd *cmd = cmd_list(&count);
    for (size_t i = 0; i < count; i++)
        shown += !is_sub(&cmd[i]);
    resp_add_int(ctx->reply, (int64_t)shown);
    return RC_OK;
}

enum list_filter { LIST_ALL, LIST_PATTERN, LIST_ACLCAT, LIST_MODULE };

static bool list_has(const struct cmd_ctx *ctx, enum list_filter filter, const struct cmd *cmd)
{
    char name[CMD_NAME_BYTES];
    switch (filter) {
    case LIST_ALL:
        return true;
    case LIST_PATTERN:
        return glob_match(ctx->argv[4], cmd_name_lower(cmd, name), true);
    case LIST_ACLCAT:
        return is_in_category(cmd, ctx->argv[4]);
    case LIST_MODULE:
        return false; /* there are none */
    }
    return false;
}

enum rc cmd_command_list(struct cmd_ctx *ctx)
{
    static const char *const words[] = {
        [LIST_PATTERN] = "PATTERN", [LIST_ACLCAT] = "ACLCAT", [LIST_MODULE] = "MODULE"};
    size_t count, shown = 0;
    const struct cmd *cmd = cmd_list(&count);
    char name[CMD_NAME_BYTES];
    enum list_filter filter = LIST_ALL;
    for (enum list_filter i = LIST_PATTERN; ctx->argc == 5 && i <= LIST_MODULE; i++)
        if (cmd_arg_is(ctx->argv[3], words[i]))
            filter = i;
    if (ctx->argc != 2 && (filter == LIST_ALL || !cmd_arg_is(ctx->argv[2], "FILTERBY")))
        return cmd_syntax_error(ctx);
    size_t mark = resp_open(ctx->reply);
    for (size_t i = 0; i < count; i++) {
        if (!list_has(ctx, filter, &cmd[i]))
            continue;
        resp_add_bulk(ctx->reply, cmd_name_lower(&cmd[i], name));
        shown++;
    }
    resp_close_array(ctx->reply, mark, shown);
    return RC_OK;
}

/* ---- DOCS ---- */

static void docs_text(struct resp_out *reply, const char *name, const char *text)
{
    resp_add_text(reply, name);
    resp_add_text(reply, text);
}

static void docs_add_one(struct resp_out *reply, const struct cmd *cmd)
{
    char name[CMD_NAME_BYTES];
    size_t count, subs = 0;
    const struct cmd *all = cmd_list(&count);
    resp_add_bulk(reply, cmd_name_lower(cmd, name));
    for (size_t i = 0; i < count; i++)
        subs += is_sub_of(&all[i], cmd);
    resp_add_map(reply, 4 + (size_t)(cmd->syntax[0] != 0) + (size_t)(subs > 0));
    docs_text(reply, "summary", cmd->summary);
    docs_text(reply, "since", cmd->since);
    docs_text(reply, "group", cmd->group);
    docs_text(reply, "complexity", cmd->complexity);
    if (cmd->syntax[0])
        docs_text(reply, "syntax", cmd->syntax);
    if (subs == 0)
        return;
    resp_add_text(reply, "subcommands");
    resp_add_map(reply, subs);
    for (size_t i = 0; i < count; i++)
        if (is_sub_of(&all[i], cmd))
            docs_add_one(reply, &all[i]);
}

enum rc cmd_command_docs(struct cmd_ctx *ctx)
{
    size_t count, shown = 0;
    const struct cmd *all = cmd_list(&count);
    size_t mark = resp_open(ctx->reply);
    for (size_t i = 0; ctx->argc == 2 && i < count; i++) {
        if (is_sub(&all[i]))
            continue;
        docs_add_one(ctx->reply, &all[i]);
        shown++;
    }
    for (size_t i = 2; i < ctx->argc; i++) {
        const struct cmd *cmd = cmd_find_name(ctx->server->cmds, ctx->argv[i]);
        if (!cmd)
            continue;
        docs_add_one(ctx->reply, cmd);
        shown++;
    }
    resp_close_map(ctx->reply, mark, shown);
    return RC_OK;
}

/* ---- GETKEYS ---- */

static enum rc getkeys(struct cmd_ctx *ctx, bool with_flags)
{
    const struct bytes *argv = ctx->argv + 2;
    size_t argc = ctx->argc - 2;
    const struct cmd *cmd = cmd_find(ctx->server->cmds, argv, argc);
    if (!cmd || (cmd->flags & CMD_CONTAINER))
        return cmd_error(ctx, "Invalid command specified");
    if (cmd->arity >= 0 ? argc != (size_t)cmd->arity : argc < (size_t)-cmd->arity)
        return cmd_error(ctx, "Invalid number of arguments specified for command");
    size_t max = argc < COMMAND_KEYS_SHOWN_MAX ? argc : COMMAND_KEYS_SHOWN_MAX;
    size_t *index = arena_try_alloc(ctx->run->arena, max * sizeof *index);
    if (!index)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
    size_t count = cmd_keys(cmd, argv, argc, index, max);
    if (count == 0)
        return cmd_error(ctx, cmd->key_numkeys > 0 ? "Invalid arguments specified for command"
                                                   : "The command has no key arguments");
    resp_add_array(ctx->reply, count < max ? count : max);
    for (size_t i = 0; i < count && i < max; i++) {
        if (with_flags)
            resp_add_array(ctx->reply, 2);
        resp_add_bulk(ctx->reply, argv[index[i]]);
        if (with_flags) {
            resp_add_set(ctx->reply, 1);
            resp_add_status(ctx->reply, cmd->flags & CMD_WRITE ? "RW" : "RO");
        }
    }
    return RC_OK;
}

enum rc cmd_command_getkeys(struct cmd_ctx *ctx)
{
    return getkeys(ctx, false);
}

enum rc cmd_command_getkeysandflags(struct cmd_ctx *ctx)
{
    return getkeys(ctx, true);
}

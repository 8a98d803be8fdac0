// SPDX-License-Identifier: Apache-2.0
/* command.c - commands by name, and arguments, arity and keys of a call. */
#include "command/command.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    UNKNOWN_SHOWN_BYTES = 128,
    SLOTS = 1024, /* of the table by name: a power of two, at least twice the commands */
};

/* ---- by name ---- */

struct cmd_table {
    const struct cmd *slot[SLOTS];
};

static size_t name_hash(const char *name, size_t len)
{
    uint64_t hash = len;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)name[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(hash >> 32) & (SLOTS - 1);
}

struct cmd_table *cmd_table_new(const struct cmd *row, size_t count)
{
    struct cmd_table *table = mem_zalloc(sizeof *table);
    ASSERT(2 * count <= SLOTS);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(row[i].name), at = name_hash(row[i].name, len);
        ASSERT(len < CMD_NAME_BYTES);
        while (table->slot[at])
            at = (at + 1) & (SLOTS - 1);
        table->slot[at] = &row[i];
    }
    return table;
}

void cmd_table_free(struct cmd_table *table)
{
    mem_free(table);
}

static const struct cmd *upper_find(const struct cmd_table *table, const char *name, size_t len)
{
    for (size_t at = name_hash(name, len); table->slot[at]; at = (at + 1) & (SLOTS - 1))
        if (strncmp(table->slot[at]->name, name, len) == 0 && table->slot[at]->name[len] == 0)
            return table->slot[at];
    return NULL;
}

/* Appends in upper case; 0: too long for any command. */
static size_t upper_add(char to[CMD_NAME_BYTES], size_t len, struct bytes word)
{
    if (word.len >= CMD_NAME_BYTES - len)
        return 0;
    for (size_t i = 0; i < word.len; i++)
        to[len + i] =
            (char)(word.ptr[i] >= 'a' && word.ptr[i] <= 'z' ? word.ptr[i] - 32 : word.ptr[i]);
    return len + word.len;
}

const struct cmd *cmd_find_name(const struct cmd_table *table, struct bytes name)
{
    char upper[CMD_NAME_BYTES];
    size_t len = upper_add(upper, 0, name);
    return len > 0 ? upper_find(table, upper, len) : NULL;
}

const struct cmd *cmd_find(const struct cmd_table *table, const struct bytes *argv, size_t argc)
{
    char upper[CMD_NAME_BYTES];
    size_t len = upper_add(upper, 0, argv[0]);
    const struct cmd *cmd = len > 0 ? upper_find(table, upper, len) : NULL;
    if (!cmd || strchr(cmd->name, '|'))
        return NULL;
    if (!(cmd->flags & CMD_CONTAINER) || argc < 2)
        return cmd;
    upper[len++] = '|';
    len = upper_add(upper, len, argv[1]);
    const struct cmd *sub = len > 0 ? upper_find(table, upper, len) : NULL;
    return sub ? sub : cmd;
}

/* ---- errors ---- */

struct bytes cmd_name_lower(const struct cmd *cmd, char to[CMD_NAME_BYTES])
{
    size_t len = 0;
    for (; cmd->name[len] && len + 1 < CMD_NAME_BYTES; len++)
        to[len] = (char)tolower((unsigned char)cmd->name[len]);
    to[len] = 0;
    return bytes_of(to, len);
}

void cmd_arity_text(struct cmd_ctx *ctx)
{
    char name[CMD_NAME_BYTES];
    (void)cmd_name_lower(ctx->cmd, name);
    (void)err_set(ctx->err, RC_INVALID, "wrong number of arguments for '%s' command", name);
}

/* As Redis prints what a client sent: a C string, at most 128 bytes. */
static int shown_len(struct bytes arg)
{
    const uint8_t *end = memchr(arg.ptr, 0, arg.len);
    size_t len = end ? (size_t)(end - arg.ptr) : arg.len;
    return (int)(len < UNKNOWN_SHOWN_BYTES ? len : UNKNOWN_SHOWN_BYTES);
}

void cmd_sub_arity_text(struct cmd_ctx *ctx)
{
    (void)err_set(ctx->err, RC_INVALID,
                  "unknown subcommand or wrong number of arguments for '%.*s'. Try %.*s HELP.",
                  shown_len(ctx->argv[1]), (const char *)ctx->argv[1].ptr,
                  (int)strcspn(ctx->cmd->name, "|"), ctx->cmd->name);
}

static enum rc unknown_error(struct cmd_ctx *ctx)
{
    char args[2 * UNKNOWN_SHOWN_BYTES] = "";
    size_t len = 0;
    for (size_t i = 1; i < ctx->argc && len < UNKNOWN_SHOWN_BYTES; i++) {
        size_t shown = UNKNOWN_SHOWN_BYTES - len;
        if (shown > (size_t)shown_len(ctx->argv[i]))
            shown = (size_t)shown_len(ctx->argv[i]);
        int added = snprintf(args + len, sizeof args - len, "'%.*s' ", (int)shown,
                             (const char *)ctx->argv[i].ptr);
        len += added > 0 ? (size_t)added : 0;
    }
    return err_set(ctx->err, RC_INVALID, "unknown command '%.*s', with args beginning with: %s",
                   shown_len(ctx->argv[0]), (const char *)ctx->argv[0].ptr, args);
}

static enum rc unknown_sub_error(struct cmd_ctx *ctx)
{
    return err_set(ctx->err, RC_INVALID, "unknown subcommand '%.*s'. Try %s HELP.",
                   shown_len(ctx->argv[1]), (const char *)ctx->argv[1].ptr, ctx->cmd->name);
}

/* ---- arguments ---- */

bool cmd_arg_is(struct bytes arg, const char *word)
{
    size_t len = strlen(word);
    return arg.len == len && strncasecmp((const char *)arg.ptr, word, len) == 0;
}

bool cmd_arg_is_secret(const struct bytes *argv, size_t argc, size_t arg)
{
    if (cmd_arg_is(argv[0], "AUTH"))
        return arg > 0;
    if (cmd_arg_is(argv[0], "HELLO"))
        return (arg > 2 && cmd_arg_is(argv[arg - 1], "AUTH")) ||
               (arg > 3 && cmd_arg_is(argv[arg - 2], "AUTH"));
    if (cmd_arg_is(argv[0], "LAND.RULE")) /* the URL of a sink may hold one */
        return arg == 4;
    static const char *const options[] = {"requirepass", "masterauth", "masteruser",
                                          "tls-key-file-pass", "tls-client-key-file-pass"};
    bool secret = false;
    if (cmd_arg_is(argv[0], "CONFIG") && argc > 3 && cmd_arg_is(argv[1], "SET") && arg > 2 &&
        arg % 2 == 1)
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
            secret = secret || cmd_arg_is(argv[arg - 1], options[i]);
    return secret;
}

enum rc cmd_int(struct cmd_ctx *ctx, size_t arg, int64_t *ret_value)
{
    if (!number_int(ctx->argv[arg], ret_value))
        return cmd_error(ctx, "value is not an integer or out of range");
    return RC_OK;
}

enum rc cmd_int_range(struct cmd_ctx *ctx, size_t arg, int64_t min, int64_t max, const char *text,
                      int64_t *ret_value)
{
    if (!number_int(ctx->argv[arg], ret_value) || *ret_value < min || *ret_value > max)
        return cmd_error(ctx, text ? text : "value is not an integer or out of range");
    return RC_OK;
}

enum rc cmd_double(struct cmd_ctx *ctx, size_t arg, double *ret_value)
{
    if (!number_double(ctx->argv[arg], ret_value))
        return cmd_error(ctx, "value is not a valid float");
    return RC_OK;
}

enum rc cmd_timeout(struct cmd_ctx *ctx, size_t arg, uint64_t *ret_ms)
{
    long double seconds;
    if (!number_long_double(ctx->argv[arg], &seconds))
        return cmd_error(ctx, "timeout is not a float or out of range");
    if (seconds < 0)
        return cmd_error(ctx, "timeout is negative");
    long double ms = ceill(seconds * 1000);
    if (ms >= 0x1p63L) /* where Redis's cast wraps around */
        return cmd_error(ctx, "timeout is negative");
    if (ms > (long double)INT64_MAX - (long double)ctx->run->now_ms)
        return cmd_error(ctx, "timeout is out of range");
    *ret_ms = (uint64_t)ms;
    return RC_OK;
}

/* ---- keys ---- */

static void key_add(size_t *index, size_t max, size_t *count, size_t arg)
{
    if (*count < max)
        index[*count] = arg;
    ++*count;
}

size_t cmd_keys(const struct cmd *cmd, const struct bytes *argv, size_t argc, size_t *ret_index,
                size_t max)
{
    size_t count = 0;
    if (cmd->key_first > 0) {
        size_t last = cmd->key_last >= 0 ? (size_t)cmd->key_last : argc - (size_t)-cmd->key_last;
        for (size_t i = (size_t)cmd->key_first; i <= last && i < argc; i += (size_t)cmd->key_step)
            key_add(ret_index, max, &count, i);
    }
    size_t store = 0;
    for (size_t i = 2; cmd->flags & CMD_STORE && i + 1 < argc; i++)
        if (cmd_arg_is(argv[i], "STORE"))
            store = i + 1;
    if (store > 0)
        key_add(ret_index, max, &count, store);
    int64_t number;
    size_t at = (size_t)cmd->key_numkeys;
    if (at == 0)
        return count;
    if (at >= argc || !number_int(argv[at], &number) || number < 1 ||
        (uint64_t)number > argc - at - 1)
        return 0;
    for (size_t i = at + 1; i <= at + (size_t)number; i++)
        key_add(ret_index, max, &count, i);
    return count;
}

/* ---- checking ---- */

/* Handlers check before they change (multi.c): a key that cannot be must not turn up half way. */
static enum rc keys_check(struct cmd_ctx *ctx)
{
    bool long_arg = false;
    for (size_t i = 1; i < ctx->argc; i++)
        long_arg = long_arg || ctx->argv[i].len > KEY_BYTES_MAX;
    if (LIKELY(!long_arg))
        return RC_OK;
    size_t *index = arena_try_alloc(ctx->run->arena, ctx->argc * sizeof *index);
    if (!index)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for a command");
    size_t count = cmd_keys(ctx->cmd, ctx->argv, ctx->argc, index, ctx->argc);
    for (size_t i = 0; i < count; i++)
        if (ctx->argv[index[i]].len > KEY_BYTES_MAX)
            return err_set(ctx->err, RC_INVALID, "a key of %zu bytes is over the limit of %d",
                           ctx->argv[index[i]].len, KEY_BYTES_MAX);
    return RC_OK;
}

enum rc cmd_check(struct cmd_ctx *ctx)
{
    if (!ctx->cmd)
        return unknown_error(ctx);
    if (ctx->cmd->flags & CMD_CONTAINER && ctx->argc >= 2)
        return unknown_sub_error(ctx);
    int arity = ctx->cmd->arity;
    if (arity >= 0 ? ctx->argc != (size_t)arity : ctx->argc < (size_t)-arity)
        return cmd_arity_error(ctx);
    return keys_check(ctx);
}

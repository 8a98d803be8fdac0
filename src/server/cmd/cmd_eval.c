// SPDX-License-Identifier: Apache-2.0
/* cmd_eval.c - EVAL, EVALSHA, SCRIPT: scripts by their text, and by its SHA-1. */
#include "server/scripts.h"
#include "types/number.h"

#include "base/banned.h"

enum rc script_numkeys_check(struct cmd_ctx *ctx, int64_t count)
{
    if (count > (int64_t)ctx->argc - 3)
        return cmd_error(ctx, "Number of keys can't be greater than number of args");
    if (count < 0)
        return cmd_error(ctx, "Number of keys can't be negative");
    return RC_OK;
}

static enum rc numkeys_read(struct cmd_ctx *ctx, size_t *ret_count)
{
    int64_t count;
    enum rc rc = cmd_int(ctx, 2, &count);
    if (rc == RC_OK)
        rc = script_numkeys_check(ctx, count);
    if (rc == RC_OK)
        *ret_count = (size_t)count;
    return rc;
}

static enum rc script_call(struct cmd_ctx *ctx, struct script *script, size_t key_count,
                           bool read_only)
{
    return scripts_run(ctx, &(struct script_what){.script = script,
                                                  .name = script->sha,
                                                  .flags = script->flags,
                                                  .read_only = read_only,
                                                  .key_count = key_count});
}

static enum rc eval(struct cmd_ctx *ctx, bool read_only)
{
    struct scripts *scripts = ctx->server->scripts;
    char sha[SHA1_HEX_BYTES + 1];
    size_t key_count;
    enum rc rc = numkeys_read(ctx, &key_count);
    if (rc != RC_OK)
        return rc;
    sha1_hex(scripts->sha1, ctx->argv[1], sha);
    struct script *script = scripts_find(scripts, sha);
    if (!script)
        rc = scripts_add(scripts, ctx->argv[1], sha, false, &script, ctx->err);
    return rc == RC_OK ? script_call(ctx, script, key_count, read_only) : rc;
}

/* In lower case; false: it is no SHA-1. */
static bool sha_read(struct bytes text, char to[SHA1_HEX_BYTES + 1])
{
    if (text.len != SHA1_HEX_BYTES)
        return false;
    for (size_t i = 0; i < SHA1_HEX_BYTES; i++)
        to[i] = (char)(text.ptr[i] >= 'A' && text.ptr[i] <= 'Z' ? text.ptr[i] + 32 : text.ptr[i]);
    to[SHA1_HEX_BYTES] = 0;
    return true;
}

static enum rc evalsha(struct cmd_ctx *ctx, bool read_only)
{
    char sha[SHA1_HEX_BYTES + 1];
    size_t key_count;
    struct script *script = NULL;
    if (sha_read(ctx->argv[1], sha)) {
        enum rc rc = numkeys_read(ctx, &key_count);
        if (rc != RC_OK)
            return rc;
        script = scripts_find(ctx->server->scripts, sha);
    }
    if (!script)
        return err_set(ctx->err, RC_REPLY, "NOSCRIPT No matching script. Please use EVAL.");
    return script_call(ctx, script, key_count, read_only);
}

enum rc cmd_eval(struct cmd_ctx *ctx)
{
    return eval(ctx, false);
}

enum rc cmd_eval_ro(struct cmd_ctx *ctx)
{
    return eval(ctx, true);
}

enum rc cmd_evalsha(struct cmd_ctx *ctx)
{
    return evalsha(ctx, false);
}

enum rc cmd_evalsha_ro(struct cmd_ctx *ctx)
{
    return evalsha(ctx, true);
}

bool server__script_writes(struct server *server, const struct cmd *cmd, const struct bytes *argv,
                           size_t argc)
{
    struct err err;
    char sha[SHA1_HEX_BYTES + 1];
    unsigned flags = SCRIPT_COMPAT;
    size_t line;
    if (cmd->run == cmd_eval_ro || cmd->run == cmd_evalsha_ro || cmd->run == cmd_fcall_ro ||
        argc < 2)
        return false;
    if (cmd->run == cmd_eval) {
        if (script_shebang(argv[1], &flags, &line, &err) != RC_OK)
            return true;
    } else if (cmd->run == cmd_evalsha && sha_read(argv[1], sha)) {
        const struct script *script = scripts_find(server->scripts, sha);
        flags = script ? script->flags : SCRIPT_COMPAT;
    } else if (cmd->run == cmd_fcall) { /* one that is not loaded yet may */
        const struct function *function =
            library_function(&server->scripts->functions.set, argv[1]);
        flags = function ? function->is->flags : SCRIPT_COMPAT;
    }
    return flags & SCRIPT_COMPAT || !(flags & SCRIPT_NO_WRITES);
}

/* ---- SCRIPT ---- */

enum rc cmd_script_load(struct cmd_ctx *ctx)
{
    struct scripts *scripts = ctx->server->scripts;
    char sha[SHA1_HEX_BYTES + 1];
    sha1_hex(scripts->sha1, ctx->argv[2], sha);
    struct script *script = scripts_find(scripts, sha);
    enum rc rc = RC_OK;
    if (!script)
        rc = scripts_add(scripts, ctx->argv[2], sha, true, &script, ctx->err);
    if (rc != RC_OK)
        return rc;
    scripts_loaded(scripts, script);
    resp_add_text(ctx->reply, sha);
    return RC_OK;
}

enum rc cmd_script_exists(struct cmd_ctx *ctx)
{
    resp_add_array(ctx->reply, ctx->argc - 2);
    for (size_t i = 2; i < ctx->argc; i++) {
        bool is = ctx->argv[i].len == SHA1_HEX_BYTES &&
                  scripts_find(ctx->server->scripts, (const char *)ctx->argv[i].ptr);
        resp_add_int(ctx->reply, is);
    }
    return RC_OK;
}

bool script_is_sync_or_async(struct bytes word)
{
    return cmd_arg_is(word, "SYNC") || cmd_arg_is(word, "ASYNC");
}

enum rc cmd_script_flush(struct cmd_ctx *ctx)
{
    if (ctx->argc > 3 || (ctx->argc == 3 && !script_is_sync_or_async(ctx->argv[2])))
        return cmd_error(ctx, "SCRIPT FLUSH only support SYNC|ASYNC option");
    scripts_flush(ctx->server->scripts);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

/* While a script is busy, busy.c answers. */
enum rc cmd_script_kill(struct cmd_ctx *ctx)
{
    return err_set(ctx->err, RC_REPLY, "NOTBUSY No scripts in execution right now.");
}

enum rc cmd_script_debug(struct cmd_ctx *ctx)
{
    return cmd_error(ctx, "SCRIPT DEBUG is not supported: there is no debugger of scripts");
}

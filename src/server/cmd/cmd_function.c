// SPDX-License-Identifier: Apache-2.0
/* cmd_function.c - FUNCTION and FCALL: libraries of functions, which are rows. */
#include "base/codec.h"
#include "base/crc64.h"
#include "base/rdb_string.h"
#include "server/scripts.h"
#include "types/glob.h"
#include "types/number.h"

#include "base/banned.h"

enum {
    LOAD_LIMIT_MS = 500,
    DUMP_OPCODE = 245,
    DUMP_OPCODE_EARLY = 246, /* of Redis 7.0's release candidates */
    DUMP_VERSION = 10,       /* of RDB: Redis 7.0 */
    DUMP_TAIL_BYTES = 10,    /* version(2) ‖ CRC-64(8), little-endian */
};
#define LOAD_LIMIT_NS (LOAD_LIMIT_MS * UINT64_C(1000000))

static struct functions *functions_of(const struct cmd_ctx *ctx)
{
    return &ctx->server->scripts->functions;
}

static enum rc name_error(struct cmd_ctx *ctx, const char *format, struct bytes name)
{
    return err_set(ctx->err, RC_INVALID, format, (int)(name.len < 128 ? name.len : 128),
                   (const char *)name.ptr);
}

static enum rc ok(struct cmd_ctx *ctx)
{
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

/* ---- FCALL ---- */

static enum rc not_found(struct cmd_ctx *ctx)
{
    const struct library_set *set = &functions_of(ctx)->set;
    for (size_t i = 0; i < set->count && set->broken_count > 0; i++)
        if (!set->at[i]->lib)
            return err_set(ctx->err, RC_INVALID,
                           "Function not found (library %.*s could not be loaded: %s)",
                           (int)(set->at[i]->name.len < 128 ? set->at[i]->name.len : 128),
                           (const char *)set->at[i]->name.ptr, set->at[i]->why);
    return cmd_error(ctx, "Function not found");
}

static enum rc fcall(struct cmd_ctx *ctx, bool read_only)
{
    int64_t key_count;
    enum rc rc = functions_refresh(ctx);
    if (rc != RC_OK)
        return rc;
    const struct function *function = library_function(&functions_of(ctx)->set, ctx->argv[1]);
    if (!function)
        return not_found(ctx);
    if (!number_int(ctx->argv[2], &key_count))
        return cmd_error(ctx, "Bad number of keys provided");
    rc = script_numkeys_check(ctx, key_count);
    if (rc != RC_OK)
        return rc;
    return scripts_run(ctx, &(struct script_what){.lib = function->library->lib,
                                                  .name = (const char *)function->is->name.ptr,
                                                  .flags = function->is->flags,
                                                  .read_only = read_only,
                                                  .key_count = (size_t)key_count});
}

enum rc cmd_fcall(struct cmd_ctx *ctx)
{
    return fcall(ctx, false);
}

enum rc cmd_fcall_ro(struct cmd_ctx *ctx)
{
    return fcall(ctx, true);
}

/* ---- changes ---- */

static enum rc room_check(struct cmd_ctx *ctx, size_t bytes)
{
    size_t bytes_max = ctx->server->config->lua_memory_bytes / SCRIPT_CACHE_SHARE;
    if (bytes <= bytes_max)
        return RC_OK;
    return err_set(ctx->err, RC_INVALID,
                   "libraries of functions may have %zu bytes, a quarter of lua-memory", bytes_max);
}

static enum rc clash_error(struct cmd_ctx *ctx, const struct function *other)
{
    return name_error(ctx, "Function %.*s already exists", other->is->name);
}

/* A library that is compiled, in the place of `old` (may be NULL). */
static enum rc library_put(struct cmd_ctx *ctx, struct library *library, struct library *old)
{
    struct functions *functions = functions_of(ctx);
    const struct function *other = library_clash(&functions->set, library, old);
    if (other)
        return clash_error(ctx, other);
    enum rc rc = room_check(ctx, functions->set.bytes + library->bytes - (old ? old->bytes : 0));
    if (rc == RC_OK)
        rc = functions_row_put(functions, ctx, library);
    if (rc == RC_OK)
        rc = functions_changed(functions, ctx);
    if (rc != RC_OK)
        return rc;
    if (old)
        library_take_out(&functions->set, old);
    library_free(old, functions->vm);
    library_add(&functions->set, library);
    return RC_OK;
}

enum rc cmd_function_load(struct cmd_ctx *ctx)
{
    struct functions *functions = functions_of(ctx);
    struct bytes code = ctx->argv[ctx->argc - 1], name;
    struct library *library;
    bool replace = false;
    for (size_t i = 2; i + 1 < ctx->argc; i++) {
        if (!cmd_arg_is(ctx->argv[i], "REPLACE"))
            return name_error(ctx, "Unknown option given: %.*s", ctx->argv[i]);
        replace = true;
    }
    enum rc rc = functions_refresh(ctx);
    if (rc == RC_OK)
        rc = script_lib_name(code, &name, ctx->err);
    if (rc != RC_OK)
        return rc;
    struct library *old = library_find(&functions->set, name);
    if (old && !replace)
        return name_error(ctx, "Library '%.*s' already exists", name);
    rc = room_check(ctx, code.len);
    if (rc == RC_OK)
        rc = functions_load(functions, code, LOAD_LIMIT_NS, &library, ctx->err);
    if (rc != RC_OK)
        return rc;
    rc = library_put(ctx, library, old);
    if (rc != RC_OK) {
        library_free(library, functions->vm);
        return rc;
    }
    resp_add_bulk(ctx->reply, library->name);
    return RC_OK;
}

enum rc cmd_function_delete(struct cmd_ctx *ctx)
{
    struct functions *functions = functions_of(ctx);
    enum rc rc = functions_refresh(ctx);
    if (rc != RC_OK)
        return rc;
    struct library *library = library_find(&functions->set, ctx->argv[2]);
    if (!library)
        return cmd_error(ctx, "Library not found");
    rc = functions_row_delete(functions, ctx, library);
    if (rc == RC_OK)
        rc = functions_changed(functions, ctx);
    if (rc != RC_OK)
        return rc;
    library_take_out(&functions->set, library);
    library_free(library, functions->vm);
    return ok(ctx);
}

/* The set is cleared now, so that its memory is free: SYNC and ASYNC are the same. */
enum rc cmd_function_flush(struct cmd_ctx *ctx)
{
    if (ctx->argc > 3)
        return cmd_sub_arity_error(ctx);
    if (ctx->argc == 3 && !script_is_sync_or_async(ctx->argv[2]))
        return cmd_error(ctx, "FUNCTION FLUSH only supports SYNC|ASYNC option");
    enum rc rc = functions_flush(functions_of(ctx), ctx);
    return rc == RC_OK ? ok(ctx) : rc;
}

/* ---- what is there ---- */

static void function_reply(struct resp_out *reply, const struct script_function *function)
{
    const char *name;
    size_t count = 0;
    resp_add_map(reply, 3);
    resp_add_text(reply, "name");
    resp_add_bulk(reply, function->name);
    resp_add_text(reply, "description");
    if (function->text.ptr)
        resp_add_bulk(reply, function->text);
    else
        resp_add_null(reply);
    resp_add_text(reply, "flags");
    size_t mark = resp_open(reply);
    for (size_t i = 0; script_flag(i, &name) != 0; i++)
        if (function->flags & script_flag(i, &name)) {
            resp_add_status(reply, name);
            count++;
        }
    resp_close_set(reply, mark, count);
}

static void library_reply(struct resp_out *reply, const struct library *library, bool with_code)
{
    resp_add_map(reply, with_code ? 4 : 3);
    resp_add_text(reply, "library_name");
    resp_add_bulk(reply, library->name);
    resp_add_text(reply, "engine");
    resp_add_text(reply, "LUA");
    resp_add_text(reply, "functions");
    resp_add_array(reply, library->function_count);
    for (size_t i = 0; i < library->function_count; i++)
        function_reply(reply, library->function[i].is);
    if (!with_code)
        return;
    resp_add_text(reply, "library_code");
    resp_add_bulk(reply, library->code);
}

enum rc cmd_function_list(struct cmd_ctx *ctx)
{
    const struct library_set *set = &functions_of(ctx)->set;
    bool with_code = false;
    struct bytes pattern = {0};
    for (size_t i = 2; i < ctx->argc; i++) {
        if (!with_code && cmd_arg_is(ctx->argv[i], "WITHCODE")) {
            with_code = true;
        } else if (!pattern.ptr && cmd_arg_is(ctx->argv[i], "LIBRARYNAME")) {
            if (i + 1 == ctx->argc)
                return cmd_error(ctx, "library name argument was not given");
            pattern = ctx->argv[++i];
        } else {
            return name_error(ctx, "Unknown argument %.*s", ctx->argv[i]);
        }
    }
    enum rc rc = functions_refresh(ctx);
    if (rc != RC_OK)
        return rc;
    size_t mark = resp_open(ctx->reply), count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (!pattern.ptr || glob_match(pattern, set->at[i]->name, true)) {
            library_reply(ctx->reply, set->at[i], with_code);
            count++;
        }
    resp_close_array(ctx->reply, mark, count);
    return RC_OK;
}

static void running_reply(const struct scripts *scripts, struct resp_out *reply)
{
    const struct script_work *work = &scripts->work;
    if (!work->ctx) {
        resp_add_null(reply);
        return;
    }
    uint64_t now_ns = clock_steps_ns(&scripts->server->steps);
    resp_add_map(reply, 3);
    resp_add_text(reply, "name");
    resp_add_text(reply, work->name);
    resp_add_text(reply, "command");
    resp_add_array(reply, work->ctx->argc);
    for (size_t i = 0; i < work->ctx->argc; i++)
        resp_add_bulk(reply, work->ctx->argv[i]);
    resp_add_pair(reply, "duration_ms",
                  now_ns > work->start_ns ? (now_ns - work->start_ns) / 1000000 : 0);
}

void functions_stats_reply(struct scripts *scripts, struct resp_out *reply)
{
    const struct library_set *set = &scripts->functions.set;
    resp_add_map(reply, 2);
    resp_add_text(reply, "running_script");
    running_reply(scripts, reply);
    resp_add_text(reply, "engines");
    resp_add_map(reply, 1);
    resp_add_text(reply, "LUA");
    resp_add_map(reply, 2);
    resp_add_pair(reply, "libraries_count", set->count);
    resp_add_pair(reply, "functions_count", set->by_function.entry_count);
}

enum rc cmd_function_stats(struct cmd_ctx *ctx)
{
    enum rc rc = functions_refresh(ctx);
    if (rc == RC_OK)
        functions_stats_reply(ctx->server->scripts, ctx->reply);
    return rc;
}

/* While a function is busy, busy.c answers. */
enum rc cmd_function_kill(struct cmd_ctx *ctx)
{
    return cmd_script_kill(ctx);
}

/* ---- DUMP and RESTORE ---- */

static bool dump_make(const struct library_set *set, struct buf *to)
{
    uint8_t tail[DUMP_TAIL_BYTES];
    const uint8_t opcode = DUMP_OPCODE;
    for (size_t i = 0; i < set->count; i++)
        if (!buf_add(to, &opcode, 1) || !rdb_string_put(to, set->at[i]->code))
            return false;
    le16_put(tail, DUMP_VERSION);
    if (!buf_add(to, tail, 2))
        return false;
    le64_put(tail + 2, crc64(0, to->ptr, to->len));
    return buf_add(to, tail + 2, 8);
}

enum rc cmd_function_dump(struct cmd_ctx *ctx)
{
    enum rc rc = functions_refresh(ctx);
    if (rc != RC_OK)
        return rc;
    CLEANUP(buf_done) struct buf dump;
    buf_init(&dump, SIZE_MAX);
    if (!dump_make(&functions_of(ctx)->set, &dump))
        return err_set(ctx->err, RC_NOMEM, "out of memory for a dump");
    resp_add_bulk(ctx->reply, buf_bytes(&dump));
    return RC_OK;
}

static bool dump_check(struct bytes dump)
{
    if (dump.len < DUMP_TAIL_BYTES)
        return false;
    const uint8_t *tail = dump.ptr + dump.len - DUMP_TAIL_BYTES;
    if (le16_get(tail) > DUMP_VERSION)
        return false;
    return le64_get(tail + 2) == crc64(0, dump.ptr, dump.len - 8);
}

/* The next library of a dump, compiled, into `to`. */
static enum rc dump_library(struct cmd_ctx *ctx, struct bytes *from, struct library_set *to)
{
    struct functions *functions = functions_of(ctx);
    CLEANUP(buf_done) struct buf code;
    struct library *library;
    uint8_t opcode = from->ptr[0];
    buf_init(&code, SCRIPT_TEXT_BYTES_MAX);
    *from = bytes_from(*from, 1);
    if (opcode == DUMP_OPCODE_EARLY)
        return cmd_error(ctx, "Pre-GA function format not supported");
    if (opcode != DUMP_OPCODE)
        return cmd_error(ctx, "given type is not a function");
    if (!rdb_string_get(from, &code))
        return cmd_error(ctx, "Failed loading library data");
    enum rc rc = room_check(ctx, to->bytes + code.len);
    if (rc == RC_OK)
        rc = functions_load(functions, buf_bytes(&code), LOAD_LIMIT_NS, &library, ctx->err);
    if (rc != RC_OK)
        return rc;
    const struct function *other = library_clash(to, library, NULL);
    if (library_find(to, library->name))
        rc = name_error(ctx, "Library '%.*s' already exists", library->name);
    else if (other)
        rc = clash_error(ctx, other);
    if (rc == RC_OK)
        library_add(to, library);
    else
        library_free(library, functions->vm);
    return rc;
}

enum policy { POLICY_APPEND, POLICY_REPLACE, POLICY_FLUSH };

static enum rc policy_read(struct cmd_ctx *ctx, enum policy *ret_policy)
{
    *ret_policy = POLICY_APPEND;
    if (ctx->argc == 3 || cmd_arg_is(ctx->argv[3], "APPEND"))
        return RC_OK;
    *ret_policy = POLICY_REPLACE;
    if (cmd_arg_is(ctx->argv[3], "REPLACE"))
        return RC_OK;
    *ret_policy = POLICY_FLUSH;
    if (cmd_arg_is(ctx->argv[3], "FLUSH"))
        return RC_OK;
    return cmd_error(ctx, "Wrong restore policy given, value should be either FLUSH, APPEND or "
                          "REPLACE.");
}

/* Whether the new ones go well with those that stay. */
static enum rc join_check(struct cmd_ctx *ctx, const struct library_set *anew, bool replace)
{
    const struct library_set *set = &functions_of(ctx)->set;
    size_t bytes = set->bytes + anew->bytes;
    for (size_t i = 0; i < anew->count; i++) {
        const struct library *old = library_find(set, anew->at[i]->name);
        if (old && !replace)
            return name_error(ctx, "Library %.*s already exists", old->name);
        bytes -= old ? old->bytes : 0;
    }
    for (size_t i = 0; i < anew->count; i++)
        for (size_t k = 0; k < anew->at[i]->function_count; k++) {
            const struct function *other = library_function(set, anew->at[i]->function[k].is->name);
            if (other && !library_find(anew, other->library->name))
                return clash_error(ctx, other);
        }
    return room_check(ctx, bytes);
}

static enum rc restored_put(struct cmd_ctx *ctx, struct library_set *anew, enum policy policy)
{
    struct functions *functions = functions_of(ctx);
    enum rc rc = RC_OK;
    if (policy == POLICY_FLUSH)
        rc = functions_rows_drop(functions, ctx);
    else
        rc = join_check(ctx, anew, policy == POLICY_REPLACE);
    for (size_t i = 0; i < anew->count && rc == RC_OK; i++)
        rc = functions_row_put(functions, ctx, anew->at[i]);
    return rc == RC_OK ? functions_changed(functions, ctx) : rc;
}

/* All rows are written: the set follows. What is left in `anew` goes. */
static void restored_take(struct functions *functions, struct library_set *anew, bool flush)
{
    if (flush) {
        struct library_set old = functions->set;
        functions->set = *anew;
        *anew = old;
        return;
    }
    for (size_t i = 0; i < anew->count; i++) { /* all, before the first comes: functions may move */
        struct library *old = library_find(&functions->set, anew->at[i]->name);
        if (old)
            library_take_out(&functions->set, old);
        library_free(old, functions->vm);
    }
    while (anew->count > 0) {
        struct library *library = anew->at[anew->count - 1];
        library_take_out(anew, library);
        library_add(&functions->set, library);
    }
}

enum rc cmd_function_restore(struct cmd_ctx *ctx)
{
    struct functions *functions = functions_of(ctx);
    struct library_set anew;
    enum policy policy;
    if (ctx->argc > 4)
        return cmd_sub_arity_error(ctx);
    enum rc rc = policy_read(ctx, &policy);
    if (rc == RC_OK)
        rc = functions_refresh(ctx);
    if (rc != RC_OK)
        return rc;
    if (!dump_check(ctx->argv[2]))
        return cmd_error(ctx, "DUMP payload version or checksum are wrong");
    struct bytes from = bytes_of(ctx->argv[2].ptr, ctx->argv[2].len - DUMP_TAIL_BYTES);
    library_set_init(&anew);
    while (from.len > 0 && rc == RC_OK)
        rc = dump_library(ctx, &from, &anew);
    if (rc == RC_OK)
        rc = restored_put(ctx, &anew, policy);
    if (rc == RC_OK)
        restored_take(functions, &anew, policy == POLICY_FLUSH);
    library_set_done(&anew, functions->vm);
    return rc == RC_OK ? ok(ctx) : rc;
}

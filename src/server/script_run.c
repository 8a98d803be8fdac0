// SPDX-License-Identifier: Apache-2.0
/* script_run.c - a run of a script inside a command's commit.
 *
 * Each call of a command goes through server__nested(), as EXEC's do. What a run tells besides rows
 * (statistics, lines of MONITOR and of the log) is kept aside and told when it has run for the last
 * time: a run that finds something cold is thrown away, and nobody has heard of it.
 *
 * Whether a script writes is known when it does. One that has found no room for that is undone and
 * becomes a request of a writer (conn->script), which waits for room before it runs again. */
#include "server/scripts.h"

#include "base/codec.h"
#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

enum { REPLY_KEPT_BYTES = 64 * 1024, LOG_HEAD_BYTES = 5 };

/* ---- what is kept until the end ---- */

static struct script_stats *stats_of(struct script_work *work, const struct cmd *cmd)
{
    for (size_t i = work->stats_count; i-- > 0;)
        if (work->stats[i].cmd == cmd)
            return &work->stats[i];
    if (work->stats_count == work->stats_cap) {
        work->stats_cap = work->stats_cap ? 2 * work->stats_cap : 8;
        work->stats = mem_realloc(work->stats, work->stats_cap * sizeof *work->stats);
    }
    work->stats[work->stats_count] = (struct script_stats){.cmd = cmd};
    return &work->stats[work->stats_count++];
}

static void stats_tell(struct server *server, struct script_work *work)
{
    size_t count;
    const struct cmd *first = cmd_list(&count);
    for (size_t i = 0; i < work->stats_count; i++) {
        const struct script_stats *from = &work->stats[i];
        struct cmd_stats *to = &server->cmd_stats[from->cmd - first];
        to->calls += from->calls;
        to->failed += from->failed;
        to->rejected += from->rejected;
        to->usec += from->usec;
        server->stats.error_count += from->failed + from->rejected;
    }
}

static void host_log(void *arg, enum script_log_level level, struct bytes text)
{
    struct scripts *scripts = arg;
    uint8_t head[LOG_HEAD_BYTES];
    head[0] = (uint8_t)level;
    le32_put(head + 1, (uint32_t)text.len);
    struct buf *log = &scripts->work.log;
    if (text.len <= log->bytes_max && buf_reserve(log, sizeof head + text.len)) /* else too much */
        (void)(buf_add(log, head, sizeof head) && buf_add_bytes(log, text));
}

static void log_tell(const struct buf *log)
{
    static const enum log_level levels[] = {[SCRIPT_LOG_DEBUG] = LOG_DEBUG,
                                            [SCRIPT_LOG_VERBOSE] = LOG_DEBUG,
                                            [SCRIPT_LOG_NOTICE] = LOG_INFO,
                                            [SCRIPT_LOG_WARNING] = LOG_WARN};
    for (size_t at = 0; at < log->len;) {
        uint32_t len = le32_get(log->ptr + at + 1);
        log_line(levels[log->ptr[at]], "%.*s", (int)len,
                 (const char *)log->ptr + at + LOG_HEAD_BYTES);
        at += LOG_HEAD_BYTES + len;
    }
}

/* ---- calls ---- */

/* An answer of ours in the place of a command's. */
static enum rc refuse(struct scripts *scripts, const struct cmd *cmd, const char *text)
{
    if (cmd)
        stats_of(&scripts->work, cmd)->rejected++;
    resp_add_error(&scripts->reply, "ERR", text);
    return RC_OK;
}

static const char *call_check(const struct script_work *work, const struct cmd *cmd, size_t argc)
{
    if (!cmd || (cmd->flags & CMD_CONTAINER && argc > 1))
        return "Unknown Redis command called from script";
    if (cmd->arity >= 0 ? argc != (size_t)cmd->arity : argc < (size_t)-cmd->arity)
        return "Wrong number of args calling Redis command from script";
    if (cmd->flags & (CMD_NOSCRIPT | CMD_ALONE))
        return "This Redis command is not allowed from script";
    if (work->read_only && cmd->flags & (CMD_WRITE | CMD_PUBLISH))
        return "Write commands are not allowed from read-only scripts.";
    return NULL;
}

/* It runs again as one that writes, or that deletes. */
static enum rc again_as(struct cmd_ctx *ctx, unsigned flags)
{
    ctx->conn->script.flags = flags;
    if (!ctx->request)
        return RC_WAIT;
    ctx->request->task.flags =
        (flags & CMD_WRITE ? TASK_WRITES : 0u) | (flags & CMD_DELETES ? TASK_DELETES : 0u);
    ctx->request->task.needs_room = true;
    return RC_COLD;
}

/* Before a command that writes: whether there is room. EXEC has seen to that for all it runs. */
static enum rc room_look(struct scripts *scripts, const struct cmd *cmd)
{
    struct script_work *work = &scripts->work;
    struct cmd_ctx *ctx = work->ctx;
    const struct conn_script *as = &ctx->conn->script;
    bool deletes = cmd->flags & CMD_DELETES;
    work->only_deletes = (work->only_deletes || !work->wrote) && deletes;
    work->wrote = true;
    if (ctx->in_exec)
        return RC_OK;
    if (as->flags & CMD_DELETES) /* it has deleted so far, and goes on with something else */
        return work->only_deletes ? RC_OK
                                  : (ctx->conn->script.is_mixed = true, again_as(ctx, CMD_WRITE));
    if (as->flags & CMD_WRITE || store_room(scripts->server->store))
        return RC_OK;
    if (deletes && store_room_to_delete(scripts->server->store))
        return RC_OK;
    return again_as(ctx, work->only_deletes && !as->is_mixed ? CMD_WRITE | CMD_DELETES : CMD_WRITE);
}

static void monitor_note(struct scripts *scripts, const struct cmd *cmd, const struct bytes *argv,
                         size_t argc)
{
    struct server *server = scripts->server;
    if (server->monitor_count > 0 && !(cmd->flags & CMD_ADMIN))
        monitor_feed_lua(server, scripts->work.ctx->conn, argv, argc);
}

static enum rc command_run(struct scripts *scripts, const struct cmd *cmd, const struct bytes *argv,
                           size_t argc)
{
    struct script_work *work = &scripts->work;
    struct cmd_ctx *ctx = work->ctx;
    struct nested nested = {.reply = &scripts->reply, .cmd = cmd, .argv = argv, .argc = argc};
    enum rc rc = server__nested(ctx, &nested);
    if (rc == RC_FULL && work->only_deletes && !ctx->in_exec && !ctx->conn->script.is_mixed &&
        !(ctx->conn->script.flags & CMD_DELETES))
        return again_as(ctx, CMD_WRITE | CMD_DELETES);
    if (rc != RC_OK)
        return rc;
    struct script_stats *stats = stats_of(work, cmd);
    stats->calls++;
    stats->failed += nested.rc != RC_OK;
    stats->usec += nested.usec;
    monitor_note(scripts, cmd, argv, argc);
    if (scripts->reply.failed)
        return err_set(ctx->err, RC_NOMEM, "a command's reply was too long for a script");
    return RC_OK;
}

static enum rc host_call(void *arg, const struct bytes *argv, size_t argc, uint8_t proto,
                         struct bytes *ret_reply, struct err *err)
{
    struct scripts *scripts = arg;
    const struct cmd *cmd = cmd_find(scripts->server->cmds, argv, argc);
    resp_out_clear(&scripts->reply);
    scripts->reply.proto = proto;
    const char *why = call_check(&scripts->work, cmd, argc);
    enum rc rc = RC_OK;
    if (why) {
        rc = refuse(scripts, cmd, why);
    } else {
        if (cmd->flags & CMD_WRITE)
            rc = room_look(scripts, cmd);
        if (rc == RC_OK)
            rc = command_run(scripts, cmd, argv, argc);
    }
    *ret_reply = buf_bytes(&scripts->reply.buf);
    if (rc != RC_OK)
        return err_set(err, rc, "%s", scripts->work.ctx->err->text);
    return RC_OK;
}

static bool host_is_command(void *arg, const struct bytes *argv, size_t argc)
{
    struct scripts *scripts = arg;
    const struct cmd *cmd = cmd_find(scripts->server->cmds, argv, argc);
    return cmd && !(cmd->flags & CMD_CONTAINER && argc > 1);
}

static enum rc host_tick(void *arg, struct err *err)
{
    struct scripts *scripts = arg;
    return server__busy_look(scripts, err);
}

void server__script_host_init(struct scripts *scripts)
{
    scripts->host = (struct script_host){.call = host_call,
                                         .tick = host_tick,
                                         .log = host_log,
                                         .is_command = host_is_command,
                                         .arg = scripts};
}

/* ---- a run ---- */

/* Redis checks in this order. */
static enum rc flags_check(struct cmd_ctx *ctx, const struct script_what *what)
{
    if (what->read_only && !(what->flags & (SCRIPT_COMPAT | SCRIPT_NO_WRITES)))
        return cmd_error(ctx, "Can not execute a script with write flag using *_ro command.");
    return RC_OK;
}

static void work_begin(struct scripts *scripts, struct cmd_ctx *ctx, const struct script_what *what)
{
    struct script_work *work = &scripts->work;
    work->ctx = ctx;
    work->is_function = !what->script;
    work->name = what->name;
    work->read_only =
        what->read_only || (!(what->flags & SCRIPT_COMPAT) && what->flags & SCRIPT_NO_WRITES);
    work->wrote = work->only_deletes = work->is_killed = false;
    work->start_ns = clock_steps_ns(&scripts->server->steps);
    work->stats_count = 0;
    buf_cut(&work->log, 0);
}

/* It has run for the last time, or is taken back. */
static void work_end(struct scripts *scripts, size_t monitor_from, bool is_last)
{
    struct script_work *work = &scripts->work;
    if (is_last) {
        stats_tell(scripts->server, work);
        log_tell(&work->log);
    } else {
        buf_cut(&scripts->server->monitor_feed, monitor_from);
    }
    work->ctx = NULL;
    buf_shrink(&work->log, REPLY_KEPT_BYTES);
    buf_shrink(&scripts->reply.buf, REPLY_KEPT_BYTES);
    server__busy_end(scripts);
}

/* The state that random numbers begin with is the same in every run of one call. */
static void random_begin(struct cmd_ctx *ctx, struct script_vm *vm, struct script_run *run)
{
    struct conn_script *state = &ctx->conn->script;
    if (!ctx->request) {
        *state = (struct conn_script){.random = script_random(vm)};
    } else if (++state->run_count == 1) {
        state->random = script_random(vm);
    }
    run->random = ctx->in_exec ? script_random(vm) : state->random;
}

enum rc scripts_run(struct cmd_ctx *ctx, const struct script_what *what)
{
    struct server *server = ctx->server;
    struct scripts *scripts = server->scripts;
    struct conn *conn = ctx->conn;
    struct ns *ns = conn->ns;
    size_t monitor_from = server->monitor_feed.len;
    enum rc rc = flags_check(ctx, what);
    if (rc != RC_OK)
        return rc;
    struct script_run run = {.host = &scripts->host,
                             .name = what->name,
                             .key = ctx->argv + 3,
                             .key_count = what->key_count,
                             .arg = ctx->argv + 3 + what->key_count,
                             .arg_count = ctx->argc - 3 - what->key_count,
                             .reply = ctx->reply};
    struct script_vm *vm = what->script ? scripts->eval : scripts->functions.vm;
    random_begin(ctx, vm, &run);
    if (conn->script.run_count > SCRIPT_RUNS_MAX)
        return cmd_error(ctx, "the script needs other data each time that it is run");
    if (server->monitor_count > 0)
        monitor_feed(server, conn, ctx->argv, ctx->argc);
    work_begin(scripts, ctx, what);
    rc = what->script ? script_run(vm, what->script->ref, &run, ctx->err)
                      : script_lib_run(vm, what->lib, bytes_of(what->name, strlen(what->name)),
                                       &run, ctx->err);
    conn->ns = ns; /* SELECT in a script is the script's */
    ctx->failed = rc == RC_OK && run.is_error;
    bool is_last = rc != RC_COLD && rc != RC_WAIT;
    work_end(scripts, monitor_from, is_last);
    if (is_last)
        conn->script = (struct conn_script){0};
    return rc;
}

/* No command runs meanwhile: a library that is loaded has none to call. */
enum rc scripts_lib_load(struct scripts *scripts, struct bytes code, uint64_t limit_ns,
                         struct script_lib **ret_lib, struct err *err)
{
    struct script_work *work = &scripts->work;
    ASSERT(!work->ctx);
    work->start_ns = clock_steps_ns(&scripts->server->steps);
    work->limit_ns = limit_ns;
    buf_cut(&work->log, 0);
    enum rc rc = script_lib_new(scripts->functions.vm, &scripts->host, code, ret_lib, err);
    work->limit_ns = 0;
    log_tell(&work->log);
    buf_shrink(&work->log, REPLY_KEPT_BYTES);
    return rc;
}

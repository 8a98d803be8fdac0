// SPDX-License-Identifier: Apache-2.0
/* batch.c - commands that find everything in memory: parsed, prefetched, run in the turn.
 *
 * Up to 32 commands are parsed, from as many connections as have input; the cache lines of their
 * keys are asked for on the way; then they run one after another. Two cache misses a key cost more
 * than everything else a GET does, and this way they overlap.
 *
 * Each command is a commit of its own. One that cannot run to its end (cold, blocking, no room)
 * leaves nothing behind and becomes a request, a task; what its connection has in the batch behind
 * it is given back to the input.
 *
 * Replies are written into the connections' output at once but are sent after turn_end(): when the
 * frame could not be written, those of commands that read or changed keys become errors. */
#include "server/server_int.h"

#include "base/mem.h"
#include "server/http.h"
#include "store/prefetch.h"
#include "store/turns.h"
#include "types/zset.h"

#include "base/banned.h"

enum {
    CLIENTS_SLICE_NS = 400 * 1000, /* of a turn: then replies leave, as below */
    TURN_BYTES_MAX = 1 << 20,
    TURN_CALLS_ENOUGH = 384, /* then replies leave: clients work while the next turn runs */
    AHEAD_KEYS_MAX = 128,    /* of a connection whose command waits */
    PREFETCH_CALL_KEYS_MAX = 16,
    PREFETCH_MEMBER_BYTES_MAX = 64,
};
_Static_assert(TURN_CALLS_ENOUGH + BATCH_CALLS_MAX <= TURN_CALLS_MAX, "a turn's calls are noted");

/* ---- parsing ---- */

static bool args_reserve(struct server *server, size_t more)
{
    if (server->arg_count + more <= server->arg_cap)
        return true;
    if (server->call_count > 0) /* the pool must not move under calls of the batch */
        return false;
    struct bytes *arg = mem_try_realloc(server->arg, more * sizeof *arg);
    if (!arg)
        return false;
    server->arg = arg;
    server->arg_cap = more;
    return true;
}

/* A pipeline is mostly one command again and again. */
static const struct cmd *call_cmd(const struct server *server, const struct bytes *argv,
                                  size_t argc)
{
    const struct call *before = server->call_count ? &server->call[server->call_count - 1] : NULL;
    if (before && before->cmd && !(before->cmd->flags & CMD_CONTAINER) &&
        bytes_eq(before->argv[0], argv[0]) && before->cmd->name[argv[0].len] == 0)
        return before->cmd; /* and not the subcommand of a container */
    return cmd_find(server->cmds, argv, argc);
}

static bool is_same_key(const struct call *a, const struct call *b)
{
    return a->conn->ns == b->conn->ns && bytes_eq(a->argv[1], b->argv[1]);
}

/* Its keys are asked for while the next commands are parsed. */
static void call_prefetch(struct server *server, const struct call *call)
{
    const struct cmd *cmd = call->cmd;
    size_t key[PREFETCH_CALL_KEYS_MAX] = {1}, found = 1;
    if (!cmd || cmd->key_first == 0 || call->argc < 2)
        return;
    bool one =
        cmd->key_first == 1 && cmd->key_last == 1 && !cmd->key_numkeys && !(cmd->flags & CMD_STORE);
    if (one && call > server->call && call[-1].argc > 1 && is_same_key(call, call - 1))
        return; /* many push to one list */
    if (!one)
        found = cmd_keys(cmd, call->argv, call->argc, key, PREFETCH_CALL_KEYS_MAX);
    for (size_t i = 0; i < found && i < PREFETCH_CALL_KEYS_MAX; i++)
        store_prefetch_add(server->store, &server->prefetch,
                           (struct store_group){call->conn->ns->meta, call->argv[key[i]]});
}

/* False: there is no room in this batch. */
static bool call_add(struct server *server, struct conn *conn, size_t in_start)
{
    const struct resp_parser *parser = &conn->parser;
    if (!args_reserve(server, parser->arg_count))
        return false;
    struct call *call = &server->call[server->call_count];
    struct bytes *argv = server->arg + server->arg_count;
    for (size_t i = 0; i < parser->arg_count; i++)
        argv[i] = bytes_of(conn->in.ptr + parser->arg[i].offset, parser->arg[i].len);
    *call =
        (struct call){.conn = conn, .argv = argv, .argc = parser->arg_count, .in_start = in_start};
    call->cmd = call_cmd(server, argv, call->argc);
    call_prefetch(server, call);
    server->arg_count += call->argc;
    server->call_count++;
    conn->batch_calls++;
    return true;
}

static bool conn_can_run(const struct conn *conn)
{
    return !conn->parked && !conn->quit && !conn->broken;
}

/* Who does not take his replies gets no more of them: once they are sent, it goes on. */
static bool conn_is_full(const struct conn *conn)
{
    return conn->out.buf.len - conn->out_sent >= CONN_OUT_WAITING_BYTES;
}

/* What begins at `start` will be parsed again. */
static void parser_return(struct conn *conn, size_t start)
{
    conn->parser.at = start;
    conn->parser.args_left = 0;
    conn->parser.bulk_len = -1;
    conn->parsed = false;
}

/* Takes commands of the connection into the batch. False: its input holds no further whole one. */
static bool conn_parse(struct server *server, struct conn *conn)
{
    struct err err;
    err.text[0] = 0;
    while (server->call_count < server->batch_max && conn->batch_calls < BATCH_CALLS_A_CONN) {
        /* Only the first of a batch can have been begun in an earlier one, and only those behind
         * it are ever given back: `start` is right where it is used. */
        size_t start = conn->parser.at;
        /* The quotes of an inline command are undone in place: it could not be given back. */
        if (conn->batch_calls > 0 && start < conn->in.len && conn->in.ptr[start] != '*')
            return true;
        enum resp_result result = RESP_REQUEST;
        if (!conn->parsed)
            result = resp_parse(&conn->parser, conn->in.ptr, conn->in.len, &err);
        if (result == RESP_MORE)
            return false;
        if (result == RESP_BAD && conn->batch_calls > 0) {
            parser_return(conn, start); /* its reply comes after theirs */
            return true;
        }
        conn->parsed = result == RESP_REQUEST && !call_add(server, conn, start);
        if (conn->parsed && server->call_count > 0)
            return true; /* the first of the next batch */
        if (conn->parsed || result == RESP_BAD) {
            server__conn_error(conn, "ERR",
                               conn->parsed ? "out of memory for the arguments of a command"
                                            : err.text);
            server__conn_quit(conn);
            return false;
        }
    }
    return true;
}

/* The next batch begins with it, and has as much room as it needs. */
static void queue_first(struct server *server, struct conn *conn)
{
    conn->queued = true;
    conn->queued_next = server->queued_first;
    server->queued_first = conn;
    if (!server->queued_last)
        server->queued_last = conn;
}

static void batch_fill(struct server *server)
{
    server->call_count = server->call_next = server->arg_count = server->prefetch.count = 0;
    while (server->call_count < server->batch_max && server->queued_first) {
        struct conn *conn = server->queued_first;
        if (conn->batch_calls > 0)
            return; /* it has had its share, and so has everybody else */
        server->queued_first = conn->queued_next;
        if (!server->queued_first)
            server->queued_last = NULL;
        conn->queued = false;
        conn->throttled = conn_can_run(conn) && conn_is_full(conn);
        bool more = conn_can_run(conn) && !conn->throttled && conn_parse(server, conn);
        server__conn_touch(conn);
        if (more && conn->parsed) { /* its arguments found no room behind those of others */
            queue_first(server, conn);
            return;
        }
        if (more)
            server__conn_queue(conn);
    }
}

/* Rows that the commands of a batch will look at. */
struct rows_ahead {
    struct store_row row[BATCH_CALLS_MAX];
    uint8_t member[BATCH_CALLS_MAX][PREFETCH_MEMBER_BYTES_MAX];
    size_t count;
    uint8_t id[BATCH_CALLS_MAX][KEY_ID_BYTES];
    size_t id_count;
    struct store_group group; /* of the last call's key */
    const struct call *last;
};

static bool ahead_group(struct rows_ahead *ahead, const struct call *call)
{
    if (ahead->last && is_same_key(call, ahead->last))
        return true;
    if (!key_peek_rows(call->conn->ns, call->argv[1], ahead->id[ahead->id_count], &ahead->group))
        return false;
    ahead->id_count++;
    ahead->last = call;
    return true;
}

static void ahead_add(struct rows_ahead *ahead, struct bytes suffix)
{
    ahead->row[ahead->count++] = (struct store_row){ahead->group, suffix};
}

static void ahead_add_member(struct rows_ahead *ahead, struct bytes member)
{
    if (member.len >= PREFETCH_MEMBER_BYTES_MAX)
        return;
    uint8_t *to = ahead->member[ahead->count]; /* 0x00 ‖ member */
    to[0] = 0;
    if (member.len > 0)
        memcpy(to + 1, member.ptr, member.len);
    ahead_add(ahead, bytes_of(to, member.len + 1));
}

/* Commands that pop one after the other: each finds the next element. How many there are. */
static size_t ahead_add_pops(struct rows_ahead *ahead, const struct call *call,
                             const struct call *end)
{
    struct bytes member[BATCH_CALLS_MAX];
    const struct call *at = call + 1;
    while (at < end && at->cmd == call->cmd && at->argc > 1 && is_same_key(at, call))
        at++;
    size_t pops = (size_t)(at - call);
    if (ahead_group(ahead, call)) {
        bool highest = call->cmd->flags & CMD_ZLAST;
        size_t found = zset_peek_ends(call->conn->ns, ahead->group, highest, member, pops);
        for (size_t i = 0; i < found; i++)
            ahead_add_member(ahead, member[i]);
    }
    return pops;
}

/* Large hashes, sets and sorted sets are trees: a path of misses from the root to the row. */
static void batch_prefetch_rows(struct server *server)
{
    struct rows_ahead ahead;
    ahead.count = ahead.id_count = 0;
    ahead.last = NULL;
    const struct call *call = server->call, *end = server->call + server->call_count;
    for (; call < end; call++) {
        unsigned flags = call->cmd ? call->cmd->flags & CMD_AHEAD : 0;
        size_t at = flags & CMD_ZROW3 ? 3 : flags & (CMD_ZFIRST | CMD_ZLAST) ? 1 : 2;
        if (flags == 0 || call->argc <= at)
            continue;
        if (at == 1)
            call += ahead_add_pops(&ahead, call, end) - 1;
        else if (!ahead_group(&ahead, call))
            continue;
        else if (flags & CMD_ROW2)
            ahead_add(&ahead, call->argv[at]);
        else
            ahead_add_member(&ahead, call->argv[at]);
    }
    if (ahead.count > 1)
        store_prefetch_rows(server->store, ahead.row, ahead.count);
}

static void batch_prefetch_models(struct server *server)
{
    for (size_t m = 0; m < MODEL_COUNT; m++) {
        struct model_call call[BATCH_CALLS_MAX];
        size_t count = 0;
        for (size_t i = 0; models[m]->prefetch && i < server->call_count; i++) {
            const struct call *at = &server->call[i];
            if (at->cmd && at->cmd->model == m && at->cmd->flags & CMD_PREFETCH)
                call[count++] = (struct model_call){at->argv, at->argc};
        }
        if (count > 1)
            models[m]->prefetch(server->host.model[m], call, count);
    }
}

static void batch_prefetch(struct server *server)
{
    unsigned flags = 0;
    if (server->prefetch.count > 1)
        store_prefetch_bring(server->store, &server->prefetch);
    if (server->call_count < 2)
        return;
    for (size_t i = 0; i < server->call_count; i++)
        flags |= server->call[i].cmd ? server->call[i].cmd->flags : 0;
    if (flags & CMD_AHEAD) /* not the marks of landed rows: both are more than a cache holds */
        batch_prefetch_rows(server);
    if (flags & CMD_PREFETCH)
        batch_prefetch_models(server);
}

/* ---- running ---- */

/* The commands of the connection behind the one that waits are parsed already: what they will need
 * is loaded at the same time, not one after the other. */
static size_t keys_ahead(const struct server *server, const struct call *call,
                         struct bytes key[AHEAD_KEYS_MAX])
{
    size_t count = 0;
    const struct call *end = server->call + server->call_count;
    for (const struct call *at = call + 1; at < end; at++) {
        size_t index[PREFETCH_CALL_KEYS_MAX];
        if (at->conn != call->conn || !at->cmd)
            continue;
        size_t found = cmd_keys(at->cmd, at->argv, at->argc, index, PREFETCH_CALL_KEYS_MAX);
        for (size_t i = 0; i < found && i < PREFETCH_CALL_KEYS_MAX && count < AHEAD_KEYS_MAX; i++)
            key[count++] = at->argv[index[i]];
    }
    return count;
}

/* It has to wait, and its connection with it: see server__request_park(). */
static RARE void call_park(struct server *server, const struct call *call, enum rc rc)
{
    struct bytes key[AHEAD_KEYS_MAX];
    size_t count = call->conn->batch_calls > 0 ? keys_ahead(server, call, key) : 0;
    if (!server__request_park(call, rc, key, count))
        server__conn_error(call->conn, "ERR", "out of memory for a command that has to wait");
}

static void turn_note(struct server *server, const struct call *call, uint64_t start)
{
    if (!call->cmd ||
        !(call->cmd->flags & (CMD_READ | CMD_WRITE | CMD_EXEC | CMD_PUBLISH | CMD_SCRIPT)))
        return;
    server->turn_call[server->turn_call_count++] = (struct turn_call){
        .conn = call->conn, .start = start, .end = server__conn_out_end(call->conn)};
}

static bool is_queued(const struct call *call)
{
    return call->conn->multi.open && !(call->cmd->flags & CMD_NOMULTI);
}

static bool has_room(const struct server *server, const struct call *call, unsigned flags,
                     bool room)
{
    if (LIKELY(room && !(flags & CMD_DELETES)) || !(flags & CMD_WRITE) || is_queued(call))
        return true;
    return flags & CMD_DELETES ? store_room_to_delete(server->store) : room;
}

/* Whether its meta row can be held for the next command (types/held.h). */
static bool call_can_hold(const struct call *call)
{
    return call->cmd && call->cmd->flags & CMD_RUN && call->argc > 1 && !call->conn->multi.open;
}

/* What is held is for this call, and what it leaves is for the one behind it, or it is written. */
static void call_hold(struct server *server, const struct call *call)
{
    struct kv *kv = &server->kv;
    const struct call *next = call + 1, *end = server->call + server->call_count;
    bool can = call_can_hold(call);
    if (kv->held.row.is && !(can && held_is(&kv->held, call->conn->ns, call->argv[1])))
        held_write(kv);
    held_begin(kv, can && next < end && call_can_hold(next) && is_same_key(call, next));
}

/* Runs in a commit. RC_COLD, RC_WAIT: nothing has happened. */
static enum rc call_commit(struct cmd_ctx *ctx, unsigned flags)
{
    struct server *server = ctx->server;
    struct cmd_asked asked;
    struct run run;
    run_begin_at(&run, &server->kv, ctx->conn->ns, 0, server->now_ms);
    store_begin(server->store, flags & CMD_DELETES ? STORE_DELETES : 0);
    ctx->run = &run;
    ctx->asked = &asked;
    enum rc rc = server__execute(ctx);
    if (LIKELY(rc == RC_OK))
        store_commit(server->store);
    else
        store_undo(server->store);
    if (UNLIKELY(rc != RC_OK))
        held_undo(&server->kv);
    (void)run_end(&run, rc == RC_WAIT ? RC_COLD : rc);
    ctx->run = NULL; /* both end here */
    ctx->asked = NULL;
    return rc;
}

/* What it has done stays done, as in Redis. */
static RARE void reply_over(struct conn *conn, size_t from)
{
    size_t bytes = conn->out.over ? conn->out.buf.bytes_max : conn->out.buf.len;
    server__conn_out_end_over(conn, bytes - conn->out_sent);
    resp_out_cut(&conn->out, from);
}

void server__batch_give_back(struct server *server, const struct conn *of_script)
{
    size_t kept = server->call_next + 1;
    for (size_t i = kept; i < server->call_count; i++) {
        struct call *call = &server->call[i];
        struct conn *conn = call->conn;
        /* An inline command has been changed where it stands. */
        bool stays = conn == of_script || conn->is_kept || conn->in.ptr[call->in_start] != '*';
        conn->is_kept = stays;
        if (stays) {
            server->call[kept++] = *call;
        } else if (conn->batch_calls > 0) { /* the first of them: the others are behind it */
            conn->batch_calls = 0;
            parser_return(conn, call->in_start);
            server__conn_queue(conn);
        }
    }
    for (size_t i = server->call_next + 1; i < kept; i++)
        server->call[i].conn->is_kept = false;
    if (kept < server->call_count)
        server->call_count = kept;
}

/* The reply is written, or the call waits (RC_COLD, RC_WAIT) as if it had not run. */
static enum rc call_execute(struct server *server, struct call *call, unsigned flags)
{
    struct conn *conn = call->conn;
    size_t from = conn->out.buf.len;
    uint64_t start_ns = server->now_ns;
    struct err err;
    struct cmd_ctx ctx = {.host = &server->host,
                          .server = server,
                          .conn = conn,
                          .cmd = call->cmd,
                          .argv = call->argv,
                          .argc = call->argc,
                          .reply = &conn->out,
                          .err = &err};
    err.text[0] = 0;
    server__conn_out_ready(conn);
    conn->out.buf.bytes_max = from + server__conn_out_room(conn);
    call_hold(server, call);
    enum rc rc = call_commit(&ctx, flags);
    if (UNLIKELY(rc != RC_OK)) {
        resp_out_cut(&conn->out, from);
        if (rc == RC_COLD || rc == RC_WAIT)
            return rc;
        server__error_add(&conn->out, rc, &err);
        server->stats.error_count++;
    }
    call->cmd = ctx.cmd; /* NULL: it was refused, or queued */
    if (!server__reply_is_wanted(conn, call->cmd))
        resp_out_cut(&conn->out, from);
    else if (UNLIKELY(conn->out.buf.len > conn->out.buf.bytes_max || conn->out.over))
        reply_over(conn, from);
    server->stats.command_count++;
    server->now_ns = clock_steps_ns(&server->steps);
    server__call_note(&ctx, (server->now_ns - start_ns) / 1000, rc);
    return RC_OK;
}

static void call_run(struct server *server, struct call *call, bool room)
{
    struct conn *conn = call->conn;
    conn->batch_calls--;
    if (!conn_can_run(conn)) { /* one before it waits, or said QUIT */
        if (conn->parked && conn->parser.at > call->in_start)
            parser_return(conn, call->in_start);
        return;
    }
    unsigned flags = call->cmd ? server__call_flags(conn, call->cmd) : 0;
    if (!has_room(server, call, flags, room)) {
        call_park(server, call, RC_WAIT);
        return;
    }
    uint64_t start = server__conn_out_end(conn);
    if (conn->turn != server->turn) {
        conn->turn = server->turn;
        conn->turn_start = start;
    }
    conn->last_cmd = call->cmd;
    conn->call_start = call->in_start;
    enum rc rc = call_execute(server, call, flags);
    if (UNLIKELY(rc != RC_OK))
        call_park(server, call, rc);
    else
        turn_note(server, call, start);
}

/* Blocked commands that were woken come before the next one, as in Redis. One of them may wake
 * others. */
static void blocked_run(struct server *server)
{
    while (UNLIKELY(server->woken)) {
        server->woken = false;
        held_write(&server->kv);
        tasks_run_ready(server->tasks);
        server->now_ms = clock_unix_ms(server->clock);
    }
}

/* As many as fit a slice, if they cost what the last ones did. */
static void batch_size(struct server *server, uint64_t batch_ns)
{
    uint64_t each_ns = batch_ns / server->call_count + 1;
    uint64_t fit = CLIENTS_SLICE_NS / each_ns;
    server->batch_max = fit < 1 ? 1 : fit < BATCH_CALLS_MAX ? (size_t)fit : BATCH_CALLS_MAX;
}

bool server__clients(void *arg, bool room)
{
    struct server *server = arg;
    uint64_t end_ns = 0;
    server->now_ms = clock_unix_ms(server->clock);
    blocked_run(server); /* woken by tasks of this turn */
    while (server->queued_first) {
        batch_fill(server);
        if (server->call_count == 0)
            continue;
        batch_prefetch(server);
        uint64_t start_ns = server->now_ns = clock_steps_look(&server->steps);
        if (end_ns == 0)
            end_ns = start_ns + CLIENTS_SLICE_NS;
        for (; server->call_next < server->call_count; server->call_next++) {
            call_run(server, &server->call[server->call_next], room);
            blocked_run(server);
        }
        held_write(&server->kv);
        batch_size(server, server->now_ns - start_ns);
        if (server->turn_call_count >= TURN_CALLS_ENOUGH ||
            store_turn_bytes(server->store) >= TURN_BYTES_MAX || server->now_ns >= end_ns)
            break;
    }
    return server->queued_first != NULL;
}

/* ---- the end of the turn ---- */

/* Replaces one reply by an error; those behind it have been looked at before. */
static void reply_take_back(struct turn_call *call, struct bytes error)
{
    struct conn *conn = call->conn;
    size_t start = (size_t)(call->start - conn->out_base);
    size_t end = (size_t)(call->end - conn->out_base), rest = conn->out.buf.len - end;
    if (!buf_reserve(&conn->out.buf, error.len)) {
        conn->broken = true;
        return;
    }
    uint8_t *at = conn->out.buf.ptr + start;
    memmove(at + error.len, at + (end - start), rest);
    memcpy(at, error.ptr, error.len);
    conn->out.buf.len = start + error.len + rest;
}

static void turn_take_back(struct server *server, enum rc rc, const struct err *err)
{
    struct resp_out error;
    resp_out_init(&error, RESP_LINE_BYTES_MAX);
    resp_add_error(&error, rc_prefix(rc), err->text);
    for (size_t i = server->turn_call_count; i-- > 0;) {
        struct turn_call *call = &server->turn_call[i];
        if (call->conn && call->end > call->start)
            reply_take_back(call, buf_bytes(&error.buf));
    }
    resp_out_done(&error);
    buf_cut(&server->effects.buf, 0);
    server__waiters_wake(server);
}

/* Durability always: the turn's replies, reads included, leave when its last LSN is durable. */
static void replies_unsafe(struct server *server, uint64_t lsn)
{
    for (struct conn *conn = server->touched; conn; conn = conn->touched_next)
        if (conn->turn == server->turn && server__conn_out_end(conn) > conn->turn_start)
            server__conn_unsafe(conn, lsn, conn->turn_start);
}

void server__turn_end(void *arg, enum rc rc, const struct err *err)
{
    struct server *server = arg;
    uint64_t lsn = store_commit_lsn(server->store);
    if (rc != RC_OK) {
        turn_take_back(server, rc, err);
        server__requests_touch(server);
    }
    server->turn_call_count = 0;
    bool unsafe =
        server->config->durability == DURABILITY_ALWAYS && lsn > store_durable_lsn(server->store);
    if (unsafe)
        replies_unsafe(server, lsn);
    server__effects_leave(server, unsafe ? lsn : 0);
    if (server->http)
        http_turn_end(server->http, rc, unsafe ? lsn : 0);
    server->turn++;
}

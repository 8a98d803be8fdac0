// SPDX-License-Identifier: Apache-2.0
/* cmd_connection.c - commands about the connection itself: PING, AUTH, HELLO, SELECT, RESET ...
 * (CLIENT is in cmd_client.c). */
#include "server/server_int.h"

#include "base/mem.h"
#include "types/number.h"

#include "base/banned.h"

enum rc cmd_ping(struct cmd_ctx *ctx)
{
    const struct subs *subs = &ctx->conn->subs;
    bool subscribed = subs->first != NULL;
    if (ctx->argc > 2)
        return cmd_arity_error(ctx);
    if (subscribed && ctx->reply->proto < 3) {
        resp_add_array(ctx->reply, 2);
        resp_add_text(ctx->reply, "pong");
        resp_add_bulk(ctx->reply, ctx->argc == 2 ? ctx->argv[1] : BYTES(""));
    } else if (ctx->argc == 2) {
        resp_add_bulk(ctx->reply, ctx->argv[1]);
    } else {
        resp_add_status(ctx->reply, "PONG");
    }
    return RC_OK;
}

enum rc cmd_echo(struct cmd_ctx *ctx)
{
    resp_add_bulk(ctx->reply, ctx->argv[1]);
    return RC_OK;
}

enum rc cmd_quit(struct cmd_ctx *ctx)
{
    resp_add_status(ctx->reply, "OK");
    server__conn_quit(ctx->conn);
    return RC_OK;
}

enum rc cmd_select(struct cmd_ctx *ctx)
{
    int64_t index;
    if (!number_int(ctx->argv[1], &index) || index < INT32_MIN || index > INT32_MAX)
        return cmd_error(ctx, number_int(ctx->argv[1], &index)
                                  ? "value is out of range, value must between -2147483648 and "
                                    "2147483647"
                                  : "value is not an integer or out of range");
    struct ns *ns = kv_ns(ctx->run->kv, (uint64_t)index);
    if (!ns)
        return cmd_error(ctx, "DB index is out of range");
    ctx->conn->ns = ns;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

/* ---- who it is ---- */

/* Takes the same time whatever is wrong with the guess. */
static bool password_eq(struct bytes guess, struct bytes password)
{
    unsigned differs = guess.len != password.len;
    for (size_t i = 0; i < password.len; i++)
        differs |= (unsigned)(i < guess.len ? guess.ptr[i] : 0) ^ password.ptr[i];
    return differs == 0;
}

static enum rc auth(struct cmd_ctx *ctx, struct bytes user, struct bytes password)
{
    struct bytes wanted = ctx->server->config->requirepass;
    bool good =
        bytes_eq(user, BYTES("default")) && (wanted.len == 0 || password_eq(password, wanted));
    if (!good)
        return err_set(ctx->err, RC_REPLY,
                       "WRONGPASS invalid username-password pair or user is disabled.");
    ctx->conn->authed = true;
    ctx->conn->parser.limited = false;
    return RC_OK;
}

enum rc cmd_auth(struct cmd_ctx *ctx)
{
    if (ctx->argc > 3)
        return cmd_syntax_error(ctx);
    if (ctx->argc == 2 && ctx->server->config->requirepass.len == 0)
        return cmd_error(ctx, "AUTH <password> called without any password configured for the "
                              "default user. Are you sure your configuration is correct?");
    enum rc rc =
        auth(ctx, ctx->argc == 3 ? ctx->argv[1] : BYTES("default"), ctx->argv[ctx->argc - 1]);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc server__client_word_set(struct cmd_ctx *ctx, const char *what, struct bytes word,
                                struct bytes *to)
{
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] < '!' || word.ptr[i] > '~')
            return err_set(ctx->err, RC_INVALID,
                           "%s cannot contain spaces, newlines or special characters.", what);
    uint8_t *copy = word.len > 0 ? mem_try_alloc(word.len) : NULL;
    if (word.len > 0 && !copy)
        return err_set(ctx->err, RC_NOMEM, "could not allocate memory for a name");
    if (word.len > 0)
        memcpy(copy, word.ptr, word.len);
    mem_free((void *)to->ptr);
    *to = bytes_of(copy, word.len);
    return RC_OK;
}

enum rc server__client_name_set(struct cmd_ctx *ctx, struct bytes name)
{
    return server__client_word_set(ctx, "Client names", name, &ctx->conn->name);
}

static void hello_reply(struct cmd_ctx *ctx)
{
    struct resp_out *reply = ctx->reply;
    resp_add_map(reply, 7);
    resp_add_text(reply, "server");
    resp_add_text(reply, "redis");
    resp_add_text(reply, "version");
    resp_add_text(reply, REDIS_VERSION);
    resp_add_text(reply, "proto");
    resp_add_int(reply, reply->proto);
    resp_add_text(reply, "id");
    resp_add_int(reply, (int64_t)ctx->conn->id);
    resp_add_text(reply, "mode");
    resp_add_text(reply, "standalone");
    resp_add_text(reply, "role");
    resp_add_text(reply, "master");
    resp_add_text(reply, "modules");
    resp_add_array(reply, 0);
}

/* Options act one after another, as in Redis: what comes before a wrong one has happened. */
static enum rc hello_options(struct cmd_ctx *ctx)
{
    for (size_t i = 2; i < ctx->argc; i++) {
        size_t more = ctx->argc - 1 - i;
        enum rc rc;
        if (cmd_arg_is(ctx->argv[i], "AUTH") && more >= 2) {
            rc = auth(ctx, ctx->argv[i + 1], ctx->argv[i + 2]);
            i += 2;
        } else if (cmd_arg_is(ctx->argv[i], "SETNAME") && more >= 1) {
            rc = server__client_name_set(ctx, ctx->argv[++i]);
        } else {
            rc = err_set(ctx->err, RC_INVALID, "Syntax error in HELLO option '%.*s'",
                         (int)(ctx->argv[i].len < 128 ? ctx->argv[i].len : 128),
                         (const char *)ctx->argv[i].ptr);
        }
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc cmd_hello(struct cmd_ctx *ctx)
{
    int64_t proto = 0;
    if (ctx->argc > 1) {
        if (!number_int(ctx->argv[1], &proto))
            return cmd_error(ctx, "Protocol version is not an integer or out of range");
        if (proto < 2 || proto > 3)
            return err_set(ctx->err, RC_REPLY, "NOPROTO unsupported protocol version");
    }
    enum rc rc = hello_options(ctx);
    if (rc != RC_OK)
        return rc;
    if (!ctx->conn->authed)
        return err_set(ctx->err, RC_REPLY,
                       "NOAUTH HELLO must be called with the client already authenticated, "
                       "otherwise the HELLO AUTH <user> <pass> option can be used to "
                       "authenticate the client and select the RESP protocol version at the same "
                       "time");
    if (proto != 0) {
        ctx->conn->out.proto = (uint8_t)proto;
        ctx->reply->proto = (uint8_t)proto;
    }
    hello_reply(ctx);
    return RC_OK;
}

enum rc cmd_reset(struct cmd_ctx *ctx)
{
    struct conn *conn = ctx->conn;
    server__multi_end(conn);
    server__subs_done(conn);
    ctx->server->monitor_count -= conn->monitor;
    conn->monitor = false; /* as in Redis NO-EVICT stays */
    conn->reply_mode = REPLY_ON;
    conn->ns = kv_ns(ctx->run->kv, 0);
    conn->out.proto = ctx->reply->proto = 2;
    conn->authed = ctx->server->config->requirepass.len == 0;
    conn->parser.limited = !conn->authed;
    mem_free((void *)conn->name.ptr);
    conn->name = bytes_of(NULL, 0); /* its library is still the same */
    resp_add_status(ctx->reply, "RESET");
    return RC_OK;
}

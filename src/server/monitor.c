// SPDX-License-Identifier: Apache-2.0
/* monitor.c - MONITOR: every command, as it was run. */
#include "server/server_int.h"

#include <ctype.h>
#include <inttypes.h>

#include "base/banned.h"

static bool quoted_add(struct buf *to, struct bytes text)
{
    bool good = buf_add(to, "\"", 1);
    for (size_t i = 0; good && i < text.len; i++) {
        uint8_t c = text.ptr[i];
        const char *escape = c == '\n'   ? "\\n"
                             : c == '\r' ? "\\r"
                             : c == '\t' ? "\\t"
                             : c == '\a' ? "\\a"
                             : c == '\b' ? "\\b"
                                         : NULL;
        if (escape)
            good = buf_add(to, escape, 2);
        else if (c == '"' || c == '\\')
            good = buf_add(to, "\\", 1) && buf_add(to, &c, 1);
        else if (isprint(c))
            good = buf_add(to, &c, 1);
        else
            good = buf_printf(to, "\\x%02x", c);
    }
    return good && buf_add(to, "\"", 1);
}

static void feed(struct server *server, const struct conn *conn, const char *from_whom,
                 const struct bytes *argv, size_t argc)
{
    struct buf *feed = &server->monitor_feed;
    size_t from = feed->len;
    uint64_t now_us = clock_unix_us(server->clock);
    bool good = buf_printf(feed, "+%" PRIu64 ".%06" PRIu64 " [%u %s]", now_us / 1000000,
                           now_us % 1000000, conn->ns->index, from_whom);
    for (size_t i = 0; good && i < argc; i++)
        good = buf_add(feed, " ", 1) &&
               quoted_add(feed, cmd_arg_is_secret(argv, argc, i) ? BYTES("(redacted)") : argv[i]);
    if (!good || !buf_add(feed, "\r\n", 2))
        buf_cut(feed, from);
}

void monitor_feed(struct server *server, const struct conn *conn, const struct bytes *argv,
                  size_t argc)
{
    feed(server, conn, conn->is_unix ? "unix" : conn->peer, argv, argc);
}

void monitor_feed_lua(struct server *server, const struct conn *conn, const struct bytes *argv,
                      size_t argc)
{
    feed(server, conn, "lua", argv, argc);
}

void monitor_deliver(struct server *server)
{
    if (server->monitor_feed.len == 0)
        return;
    for (struct conn *conn = server->conns; conn; conn = conn->next)
        if (conn->monitor)
            server__conn_push(conn, buf_bytes(&server->monitor_feed));
    buf_shrink(&server->monitor_feed, 0);
}

enum rc cmd_monitor(struct cmd_ctx *ctx)
{
    if (ctx->in_exec)
        return cmd_error(ctx, "MONITOR isn't allowed for DENY BLOCKING client");
    if (!ctx->conn->monitor)
        ctx->server->monitor_count++;
    ctx->conn->monitor = true;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

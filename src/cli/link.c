// SPDX-License-Identifier: Apache-2.0
/* link.c - the pipelined connection of the tool: what is sent, and replies as they are read. */
#include "cli/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"

#include "base/banned.h"

enum { IN_BYTES = 256 * 1024, LINE_BYTES_MAX = 64 * 1024 };

enum rc link_open(struct link *link, const struct cli_server *server, struct err *err)
{
    *link = (struct link){.fd = -1};
    resp_out_init(&link->out, SIZE_MAX);
    enum rc rc = cli_connect(server, &link->fd, err);
    if (rc != RC_OK)
        return rc;
    link->in_cap = IN_BYTES;
    link->in = mem_alloc(link->in_cap);
    return RC_OK;
}

void link_close(struct link *link)
{
    if (!link || !link->in)
        return;
    if (link->fd >= 0)
        close(link->fd);
    resp_out_done(&link->out);
    mem_free(link->in);
    *link = (struct link){.fd = -1};
}

enum rc link_send(struct link *link, struct err *err)
{
    struct bytes left = buf_bytes(&link->out.buf);
    if (link->out.failed)
        return err_set(err, RC_NOMEM, "could not allocate memory for a command");
    while (left.len > 0) {
        ssize_t sent = send(link->fd, left.ptr, left.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_set(err, RC_IO, "could not send to the server: %s", strerror(errno));
        left = bytes_from(left, (size_t)sent);
    }
    buf_cut(&link->out.buf, 0);
    return RC_OK;
}

/* ---- reading ---- */

/* What was read and not used moves to the front; room for `len` bytes in all. */
static enum rc in_make_room(struct link *link, size_t len, struct err *err)
{
    if (link->in_at > 0) {
        memmove(link->in, link->in + link->in_at, link->in_len - link->in_at);
        link->in_len -= link->in_at;
        link->in_at = 0;
    }
    if (len <= link->in_cap)
        return RC_OK;
    uint8_t *in = mem_try_alloc(len);
    if (!in)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a reply", len);
    memcpy(in, link->in, link->in_len);
    mem_free(link->in);
    link->in = in;
    link->in_cap = len;
    return RC_OK;
}

/* At least `len` unread bytes are there. */
static enum rc in_fill(struct link *link, size_t len, struct err *err)
{
    if (link->in_len - link->in_at >= len)
        return RC_OK;
    enum rc rc = in_make_room(link, len, err);
    while (rc == RC_OK && link->in_len < len) {
        ssize_t got = recv(link->fd, link->in + link->in_len, link->in_cap - link->in_len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, RC_IO, "could not read from the server: %s", strerror(errno));
        if (got == 0)
            return err_set(err, RC_IO, "the server closed the connection");
        link->in_len += (size_t)got;
    }
    return rc;
}

/* A line without its end; from in_at on, which moves behind it. */
static enum rc line_read(struct link *link, struct bytes *ret_line, struct err *err)
{
    for (size_t want = 1;;) {
        enum rc rc = in_fill(link, want, err);
        if (rc != RC_OK)
            return rc;
        const uint8_t *from = link->in + link->in_at;
        size_t have = link->in_len - link->in_at;
        const uint8_t *end = memchr(from, '\n', have);
        if (end) {
            size_t len = (size_t)(end - from);
            if (len < 2 || from[len - 1] != '\r')
                break;
            *ret_line = bytes_of(from, len - 1);
            link->in_at += len + 1;
            return RC_OK;
        }
        if (have > LINE_BYTES_MAX)
            break;
        want = have + 1;
    }
    return err_set(err, RC_INVALID, "the server does not speak RESP");
}

static bool number_read(struct bytes text, int64_t *ret_value)
{
    char copy[24], *end;
    if (text.len == 0 || text.len >= sizeof copy)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    *ret_value = strtoll(copy, &end, 10);
    return *end == 0;
}

static enum rc bulk_read(struct link *link, int64_t len, struct reply *reply, struct err *err)
{
    if (len > RESP_BULK_BYTES_MAX)
        return err_set(err, RC_INVALID, "the server announced a reply of %lld bytes",
                       (long long)len);
    enum rc rc = in_fill(link, (size_t)len + 2, err);
    if (rc != RC_OK)
        return rc;
    *reply = (struct reply){REPLY_BULK, bytes_of(link->in + link->in_at, (size_t)len), 0};
    link->in_at += (size_t)len + 2;
    return RC_OK;
}

enum rc link_reply(struct link *link, struct reply *ret_reply, struct err *err)
{
    struct bytes line;
    int64_t number = 0;
    enum rc rc = line_read(link, &line, err);
    if (rc != RC_OK)
        return rc;
    char kind = (char)line.ptr[0];
    struct bytes rest = bytes_from(line, 1);
    if (kind == '-')
        return err_set(err, RC_REPLY, "%.*s", (int)rest.len, (const char *)rest.ptr);
    if (kind == '+') {
        *ret_reply = (struct reply){REPLY_STATUS, rest, 0};
        return RC_OK;
    }
    if ((kind != ':' && kind != '$' && kind != '*') || !number_read(rest, &number))
        return err_set(err, RC_INVALID, "the server does not speak RESP2");
    if (kind == '$' && number >= 0)
        return bulk_read(link, number, ret_reply, err);
    *ret_reply = (struct reply){.kind = kind == ':'  ? REPLY_INT
                                        : number < 0 ? REPLY_NULL
                                                     : REPLY_ARRAY,
                                .number = number};
    return RC_OK;
}

enum rc link_ask(struct link *link, const char *const *word, size_t count, struct reply *ret_reply,
                 struct err *err)
{
    resp_add_array(&link->out, count);
    for (size_t i = 0; i < count; i++)
        resp_add_text(&link->out, word[i]);
    enum rc rc = link_send(link, err);
    return rc == RC_OK ? link_reply(link, ret_reply, err) : rc;
}

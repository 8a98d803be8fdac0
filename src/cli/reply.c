#include "cli/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"

#include "base/banned.h"

enum { IN_BYTES = 256 * 1024, LINE_BYTES = 1024, DEPTH_MAX = 8, ITEMS_MAX = 64 * 1024 * 1024 };

enum rc link_open(struct link *link, const struct cli_server *server, struct err *err)
{
    *link = (struct link){.fd = -1};
    enum rc rc = cli_connect(server, &link->fd, err);
    if (rc != RC_OK)
        return rc;
    link->in = mem_alloc(IN_BYTES);
    resp_out_init(&link->out, SIZE_MAX);
    arena_init(&link->arena);
    return RC_OK;
}

void link_close(struct link *link)
{
    if (!link || link->fd < 0)
        return;
    close(link->fd);
    mem_free(link->in);
    resp_out_done(&link->out);
    arena_done(&link->arena);
    link->fd = -1;
}

void link_clear(struct link *link)
{
    arena_clear(&link->arena);
}

void link_add(struct link *link, const struct bytes *word, size_t count)
{
    resp_add_array(&link->out, count);
    for (size_t i = 0; i < count; i++)
        resp_add_bulk(&link->out, word[i]);
}

enum rc link_flush(struct link *link, struct err *err)
{
    struct bytes rest = buf_bytes(&link->out.buf);
    if (link->out.failed)
        return err_set(err, RC_NOMEM, "could not allocate memory for a command");
    while (rest.len > 0) {
        ssize_t sent = send(link->fd, rest.ptr, rest.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_set(err, RC_IO, "could not send: %s", strerror(errno));
        rest = bytes_from(rest, (size_t)sent);
    }
    resp_out_cut(&link->out, 0);
    return RC_OK;
}

/* ---- replies ---- */

static enum rc more_read(struct link *link, struct err *err)
{
    ssize_t got;
    do
        got = recv(link->fd, link->in, IN_BYTES, 0);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return err_set(err, RC_IO, "the server closed the connection");
    link->in_at = 0;
    link->in_len = (size_t)got;
    return RC_OK;
}

/* Without its end. */
static enum rc line_read(struct link *link, char line[LINE_BYTES], struct err *err)
{
    for (size_t len = 0;; len++) {
        enum rc rc = link->in_at == link->in_len ? more_read(link, err) : RC_OK;
        if (rc != RC_OK)
            return rc;
        if (len == LINE_BYTES)
            return err_set(err, RC_INVALID, "the server does not speak RESP");
        line[len] = (char)link->in[link->in_at++];
        if (line[len] == '\n' && len > 1) {
            line[len - 1] = 0;
            return RC_OK;
        }
    }
}

static enum rc bulk_read(struct link *link, size_t len, struct bytes *ret_bytes, struct err *err)
{
    uint8_t *bytes = arena_try_alloc(&link->arena, len + 2);
    if (!bytes)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a reply", len);
    for (size_t at = 0; at < len + 2;) {
        enum rc rc = link->in_at == link->in_len ? more_read(link, err) : RC_OK;
        if (rc != RC_OK)
            return rc;
        size_t part = link->in_len - link->in_at;
        part = part < len + 2 - at ? part : len + 2 - at;
        memcpy(bytes + at, link->in + link->in_at, part);
        link->in_at += part;
        at += part;
    }
    *ret_bytes = bytes_of(bytes, len);
    return RC_OK;
}

static enum rc reply_read(struct link *link, int depth, struct reply *reply, struct err *err);

static enum rc array_read(struct link *link, int depth, int64_t count, struct reply *reply,
                          struct err *err)
{
    if (depth == DEPTH_MAX || count > ITEMS_MAX)
        return err_set(err, RC_INVALID, "the reply is nested too deep, or too long");
    reply->kind = count < 0 ? REPLY_NULL : REPLY_ARRAY;
    reply->item_count = count < 0 ? 0 : (size_t)count;
    reply->item = arena_try_alloc(&link->arena, (reply->item_count + 1) * sizeof *reply->item);
    if (!reply->item)
        return err_set(err, RC_NOMEM, "could not allocate memory for a reply");
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < reply->item_count; i++)
        rc = reply_read(link, depth + 1, &reply->item[i], err);
    return rc;
}

static enum rc reply_read(struct link *link, int depth, struct reply *reply, struct err *err)
{
    char line[LINE_BYTES];
    *reply = (struct reply){.kind = REPLY_NULL};
    enum rc rc = line_read(link, line, err);
    if (rc != RC_OK)
        return rc;
    int64_t number = strtoll(line + 1, NULL, 10);
    switch (line[0]) {
    case ':':
        reply->kind = REPLY_INT;
        reply->number = number;
        return RC_OK;
    case '+':
    case '-':
        reply->kind = line[0] == '+' ? REPLY_TEXT : REPLY_ERROR;
        reply->text = arena_copy(&link->arena, bytes_of(line + 1, strlen(line + 1)));
        return RC_OK;
    case '$':
        if (number < 0)
            return RC_OK;
        if (number > RESP_BULK_BYTES_MAX)
            return err_set(err, RC_INVALID, "the server announced %lld bytes", (long long)number);
        reply->kind = REPLY_TEXT;
        return bulk_read(link, (size_t)number, &reply->text, err);
    case '*':
        return array_read(link, depth, number, reply, err);
    default:
        return err_set(err, RC_INVALID, "the server does not speak RESP2");
    }
}

enum rc link_reply(struct link *link, struct reply *ret_reply, struct err *err)
{
    return reply_read(link, 0, ret_reply, err);
}

enum rc link_ask(struct link *link, const struct bytes *word, size_t count, struct reply *ret_reply,
                 struct err *err)
{
    link_add(link, word, count);
    enum rc rc = link_flush(link, err);
    if (rc == RC_OK)
        rc = link_reply(link, ret_reply, err);
    if (rc == RC_OK && ret_reply->kind == REPLY_ERROR)
        return err_set(err, RC_REPLY, "%.*s", (int)ret_reply->text.len,
                       (const char *)ret_reply->text.ptr);
    return rc;
}

const struct reply *reply_field(const struct reply *map, const char *label)
{
    for (size_t i = 0; i + 1 < map->item_count; i += 2)
        if (bytes_eq(map->item[i].text, bytes_of(label, strlen(label))))
            return &map->item[i + 1];
    return NULL;
}

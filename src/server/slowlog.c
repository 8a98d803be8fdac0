// SPDX-License-Identifier: Apache-2.0
/* slowlog.c - the commands that took longest to run, newest first. */
#include "server/server_int.h"

#include <stdio.h>

#include "base/mem.h"

#include "base/banned.h"

struct slow {
    struct slow *prev, *next; /* newest first */
    uint64_t id;
    uint64_t unix_s;
    uint64_t usec;
    char peer[80];
    struct bytes name;  /* in the allocation of argv */
    struct bytes *argv; /* owned, with the bytes */
    size_t argc;
};

struct slowlog {
    struct slow *first, *last;
    size_t count;
    uint64_t next_id;
};

struct slowlog *slowlog_new(void)
{
    return mem_zalloc(sizeof(struct slowlog));
}

static void oldest_drop(struct slowlog *log)
{
    struct slow *slow = log->last;
    log->last = slow->prev;
    *(slow->prev ? &slow->prev->next : &log->first) = NULL;
    log->count--;
    mem_free(slow->argv);
    mem_free(slow);
}

static void slowlog_trim(struct slowlog *log, size_t count_max)
{
    while (log->count > count_max)
        oldest_drop(log);
}

void slowlog_free(struct slowlog *log)
{
    if (!log)
        return;
    slowlog_trim(log, 0);
    mem_free(log);
}

/* Long arguments and many arguments are cut, as Redis does. */
static struct bytes *args_shown(const struct bytes *argv, size_t argc, struct bytes name,
                                size_t *ret_argc)
{
    char more[SLOWLOG_ARG_COUNT_MAX + 1][48];
    char text[SLOWLOG_ARG_COUNT_MAX][SLOWLOG_ARG_BYTES_MAX + 48];
    struct bytes shown[SLOWLOG_ARG_COUNT_MAX + 1];
    size_t count = argc < SLOWLOG_ARG_COUNT_MAX ? argc : SLOWLOG_ARG_COUNT_MAX;
    for (size_t i = 0; i < count; i++) {
        shown[i] = argv[i];
        if (argc > SLOWLOG_ARG_COUNT_MAX && i == count - 1) {
            int len = snprintf(more[i], sizeof more[i], "... (%zu more arguments)",
                               argc - SLOWLOG_ARG_COUNT_MAX + 1);
            shown[i] = bytes_of(more[i], (size_t)len);
        } else if (cmd_arg_is_secret(argv, argc, i)) {
            shown[i] = BYTES("(redacted)");
        } else if (argv[i].len > SLOWLOG_ARG_BYTES_MAX) {
            memcpy(text[i], argv[i].ptr, SLOWLOG_ARG_BYTES_MAX);
            int len = snprintf(text[i] + SLOWLOG_ARG_BYTES_MAX, 48, "... (%zu more bytes)",
                               argv[i].len - SLOWLOG_ARG_BYTES_MAX);
            shown[i] = bytes_of(text[i], SLOWLOG_ARG_BYTES_MAX + (size_t)len);
        }
    }
    shown[count] = name;
    *ret_argc = count;
    return server__args_copy(shown, count + 1);
}

void slowlog_note(struct server *server, const struct conn *conn, const struct bytes *argv,
                  size_t argc, uint64_t usec)
{
    struct slowlog *log = server->slowlog;
    if (server->config->slowlog_log_slower_than_us < 0 || server->config->slowlog_max_len == 0)
        return;
    struct slow *slow = mem_zalloc(sizeof *slow);
    slow->argv = args_shown(argv, argc, conn->name, &slow->argc);
    if (!slow->argv) {
        mem_free(slow);
        return;
    }
    slow->id = log->next_id++;
    slow->unix_s = server->now_ms / 1000;
    slow->usec = usec;
    slow->name = slow->argv[slow->argc];
    memcpy(slow->peer, conn->peer, sizeof slow->peer);
    slow->next = log->first;
    *(slow->next ? &slow->next->prev : &log->last) = slow;
    log->first = slow;
    log->count++;
    slowlog_trim(log, server->config->slowlog_max_len);
}

/* ---- commands ---- */

enum rc cmd_slowlog_get(struct cmd_ctx *ctx)
{
    const struct slowlog *log = ctx->server->slowlog;
    int64_t count = 10;
    if (ctx->argc > 3)
        return cmd_sub_arity_error(ctx);
    if (ctx->argc == 3) {
        enum rc rc = cmd_int_range(ctx, 2, -1, INT64_MAX,
                                   "count should be greater than or equal to -1", &count);
        if (rc != RC_OK)
            return rc;
    }
    size_t left = count < 0 || (uint64_t)count > log->count ? log->count : (size_t)count;
    resp_add_array(ctx->reply, left);
    for (const struct slow *slow = log->first; slow && left > 0; slow = slow->next, left--) {
        resp_add_array(ctx->reply, 6);
        resp_add_int(ctx->reply, (int64_t)slow->id);
        resp_add_int(ctx->reply, (int64_t)slow->unix_s);
        resp_add_int(ctx->reply, (int64_t)slow->usec);
        resp_add_array(ctx->reply, slow->argc);
        for (size_t i = 0; i < slow->argc; i++)
            resp_add_bulk(ctx->reply, slow->argv[i]);
        resp_add_text(ctx->reply, slow->peer);
        resp_add_bulk(ctx->reply, slow->name);
    }
    return RC_OK;
}

enum rc cmd_slowlog_len(struct cmd_ctx *ctx)
{
    resp_add_int(ctx->reply, (int64_t)ctx->server->slowlog->count);
    return RC_OK;
}

enum rc cmd_slowlog_reset(struct cmd_ctx *ctx)
{
    slowlog_trim(ctx->server->slowlog, 0);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

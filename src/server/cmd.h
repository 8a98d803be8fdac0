/* cmd.h - commands: a row of commands.def each, and what a handler gets.
 *
 * A handler parses and replies; types/ stores. It runs inside a commit and may run many times
 * (RC_COLD): it leaves nothing behind but rows and its reply. It returns RC_OK after writing a
 * reply, or an error whose text is in ctx->err: then the dispatcher writes the error reply.
 *
 * Threads: the executor. */
#pragma once

#include "server/resp.h"
#include "types/ns.h"

struct conn;
struct server;

enum cmd_flags {
    CMD_READ = 1,
    CMD_WRITE = 2,   /* may have to wait for room in memory */
    CMD_DELETES = 4, /* frees: runs below the disk reserve */
    CMD_LOAD = 8,    /* may wait for the engine */
    CMD_META = 16,   /* touches no keys */
};

struct cmd_ctx {
    struct server *server;
    struct conn *conn;
    struct ns *ns;
    const struct cmd *cmd;
    const struct bytes *argv; /* argv[0] is the name as it was sent */
    size_t argc;
    struct resp_out *reply;
    struct err *err;
};

struct cmd {
    const char *name;
    int arity; /* with the name; negative: at least */
    unsigned flags;
    int key_first, key_last, key_step;
    enum rc (*run)(struct cmd_ctx *ctx);
    const char *summary;
};

const struct cmd *cmd_find(struct bytes name); /* NULL: unknown */
const struct cmd *cmd_list(size_t *ret_count);
/* Arity, then the handler; an unknown command (cmd NULL) is answered as Redis does. */
enum rc cmd_run(struct cmd_ctx *ctx) NODISCARD;
bool cmd_arg_is(struct bytes arg, const char *word); /* whatever the case */
enum rc cmd_syntax_error(struct cmd_ctx *ctx);
enum rc cmd_arity_error(struct cmd_ctx *ctx);

#define CMD(name, arity, flags, first, last, step, handler, summary) \
    enum rc handler(struct cmd_ctx *ctx);
#include "server/commands.def"
#undef CMD

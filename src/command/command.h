// SPDX-License-Identifier: Apache-2.0
/* command.h - commands: a row each, and what a handler gets.
 *
 * A handler parses and replies; types/ and the models store. It runs inside a commit and may run
 * many times (RC_COLD): it leaves nothing behind but rows and its reply. It returns RC_OK after
 * writing its reply, or an error whose text is in ctx->err: the dispatcher then cuts what was
 * written and writes the error. RC_REPLY is an error whose text has its own prefix ("NOAUTH ...").
 * RC_COLD of the store is returned as it is. A handler that needs several cold things should ask
 * for all of them before it returns RC_COLD: reads that answered RC_COLD are remembered, and
 * key_want() names keys.
 *
 * Nothing here knows sockets: the server fills in a struct cmd_ctx and calls cmd->run().
 *
 * Threads: the executor. */
#pragma once

#include "base/err.h"
#include "command/resp_out.h"
#include "store/task.h"
#include "types/kv.h"

struct conn;
struct server;
struct cmd_asked;
struct cmd_ctx;
struct cmd_table;

enum cmd_flags {
    CMD_READ = 1 << 0,        /* reads keys */
    CMD_WRITE = 1 << 1,       /* changes keys; may have to wait for room in memory */
    CMD_DELETES = 1 << 2,     /* frees: runs below the disk reserve and without room */
    CMD_FAST = 1 << 3,        /* Redis's flag, for COMMAND INFO */
    CMD_ADMIN = 1 << 4,       /* Redis's flag */
    CMD_PUBSUB = 1 << 5,      /* Redis's flag */
    CMD_NOSCRIPT = 1 << 6,    /* not from scripts */
    CMD_BLOCKING = 1 << 7,    /* may wait for keys */
    CMD_NOAUTH = 1 << 8,      /* runs before AUTH */
    CMD_NOMULTI = 1 << 9,     /* is not queued by MULTI: it runs at once */
    CMD_SUBSCRIBED = 1 << 10, /* allowed to a RESP2 client that is subscribed */
    CMD_CONTAINER = 1 << 11,  /* only its subcommands ("NAME|SUB") run */
    CMD_MOVABLE = 1 << 12,    /* where its keys are, the arguments say */
    CMD_NOPAUSE = 1 << 13,    /* runs while clients are paused */
    CMD_STORE = 1 << 14, /* STORE and a key may stand among the arguments; the last one counts */
    CMD_ALONE = 1 << 15, /* refused inside a MULTI */
    /* What it does or tells is not in the store, and cannot be undone: an EXEC runs it last. */
    CMD_OUTSIDE = 1 << 16,
    /* Which rows it will look at: they are prefetched. */
    CMD_ROW2 = 1 << 17,     /* of argument 2, a field or a member of a set */
    CMD_ZROW2 = 1 << 18,    /* of a member of a sorted set, argument 2 */
    CMD_ZROW3 = 1 << 19,    /* argument 3 */
    CMD_PREFETCH = 1 << 20, /* its model says: model.prefetch() */
    CMD_ZFIRST = 1 << 22,   /* of the lowest element of a sorted set, argument 1 */
    CMD_ZLAST = 1 << 23,    /* of the highest */
    CMD_RUN = 1 << 24,      /* changes one key, argument 1, by key.h alone: types/held.h */
    CMD_EXEC = 1 << 25,     /* runs what MULTI has queued: server__call_flags() */
    CMD_PUBLISH = 1 << 26,  /* its message leaves with the commit */
    CMD_SCRIPT = 1 << 27,   /* runs a script, which may do anything: server__call_flags() */
    CMD_AHEAD = CMD_ROW2 | CMD_ZROW2 | CMD_ZROW3 | CMD_ZFIRST | CMD_ZLAST,
};

enum {
    CMD_NAME_BYTES = 48, /* of "CONTAINER|SUBCOMMAND" and a NUL */
    CMD_MODELS_MAX = 8,
    CMD_NO_MODEL = CMD_MODELS_MAX - 1, /* there is none of this number */
};

struct cmd {
    const char *name; /* upper case; a subcommand is "CONFIG|GET" */
    int arity;        /* with the name (and the subcommand's); negative: at least */
    unsigned flags;
    int key_first, key_last, key_step; /* 0: no keys there; last -1: up to the end */
    int key_numkeys;                   /* which argument says how many keys follow it; 0: none */
    enum rc (*run)(struct cmd_ctx *ctx);
    const char *group;
    const char *since;
    const char *complexity;
    const char *syntax; /* the arguments */
    const char *summary;
    uint8_t model; /* whose it is: cmd_model(); or CMD_NO_MODEL */
};

/* A row as the declaration of its handler: #define CMD CMD_DECLARE before the rows. */
#define CMD_DECLARE(name, arity, flags, first, last, step, numkeys, handler, ...) \
    enum rc handler(struct cmd_ctx *ctx);

/* A command that waits: what its handler keeps from run to run. The server's struct request begins
 * with it. */
struct cmd_request {
    struct task task;
    void (*give_up)(struct resp_out *reply); /* writes the reply when the task's time is over */
    unsigned step;                           /* of a command that waits several times */
    void *state; /* of a command that goes on in many commits; NULL: none */
    void (*state_free)(void *state);
    /* What it waits for at a model, or holds there; the model's, which ends it with the request.
     * NULL: nothing. */
    void *waiter[CMD_MODELS_MAX];
};

/* There is nothing to take: wait for changes of these keys, then run from the start again. After
 * timeout_ms (0: never) `give_up` writes the reply. Inside a MULTI, or where waiting is not
 * allowed, that happens at once. */
struct cmd_blocking {
    const struct bytes *key;
    size_t key_count;
    enum kv_event type; /* what it takes from: KV_EVENT_LIST, KV_EVENT_ZSET */
    uint64_t timeout_ms;
    void (*give_up)(struct resp_out *reply);
};

/* What the server lends to handlers. */
struct cmd_host {
    enum rc (*block)(struct cmd_ctx *ctx, const struct cmd_blocking *wait);
    bool (*key_try)(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                    struct bytes *ret_key);
    const struct cmd_table *cmds;
    void *model[CMD_MODELS_MAX]; /* the object of each model */
};

struct cmd_ctx {
    const struct cmd_host *host;
    struct server *server;
    struct conn *conn;
    const struct run *run; /* its database, time and scratch memory */
    const struct cmd *cmd;
    const struct bytes *argv; /* argv[0] is the name as it was sent */
    size_t argc;
    struct resp_out *reply;
    struct err *err;
    struct cmd_request *request; /* NULL: it runs directly, and has not waited */
    struct cmd_asked *asked;     /* then for cmd_build() and cmd_long_begin() of the server */
    bool in_exec;                /* it is one of a MULTI's */
    bool late;                   /* CMD_OUTSIDE in an EXEC: the others have run */
    uint64_t message_seq;        /* late: the last message that was collected before its place */
    bool failed;                 /* set by a handler: its reply is an error, what it did stays */
    bool guards;                 /* set by a handler: its error is that of the whole EXEC */
};

/* ---- for handlers ---- */

/* The object of the model whose command it is, and what the request has of it. */
static inline void *cmd_model(const struct cmd_ctx *ctx)
{
    return ctx->host->model[ctx->cmd->model];
}
static inline void **cmd_waiter(const struct cmd_ctx *ctx)
{
    return &ctx->request->waiter[ctx->cmd->model];
}

bool cmd_arg_is(struct bytes arg, const char *word); /* whatever the case */
/* As Redis writes it; borrowed from `to`, which ends with a NUL. */
struct bytes cmd_name_lower(const struct cmd *cmd, char to[CMD_NAME_BYTES]);
/* Whether an argument is part of a password: nobody else may see it. */
bool cmd_arg_is_secret(const struct bytes *argv, size_t argc, size_t arg);
/* All set ctx->err and return what the handler has to return; inline, so that compilers see that it
 * is never RC_OK. */
static inline enum rc cmd_error(struct cmd_ctx *ctx, const char *text) /* "ERR " comes in front */
{
    return err_set(ctx->err, RC_INVALID, "%s", text);
}
static inline enum rc cmd_syntax_error(struct cmd_ctx *ctx)
{
    return cmd_error(ctx, "syntax error");
}
void cmd_arity_text(struct cmd_ctx *ctx);
void cmd_sub_arity_text(struct cmd_ctx *ctx);
static inline enum rc cmd_arity_error(struct cmd_ctx *ctx)
{
    cmd_arity_text(ctx);
    return RC_INVALID;
}
/* As some subcommands of Redis say it: "unknown subcommand or wrong number of arguments for ..." */
static inline enum rc cmd_sub_arity_error(struct cmd_ctx *ctx)
{
    cmd_sub_arity_text(ctx);
    return RC_INVALID;
}
/* "value is not an integer or out of range" */
enum rc cmd_int(struct cmd_ctx *ctx, size_t arg, int64_t *ret_value) NODISCARD;
/* The same, and with its own text (NULL: the usual one) when it is below min or above max. */
enum rc cmd_int_range(struct cmd_ctx *ctx, size_t arg, int64_t min, int64_t max, const char *text,
                      int64_t *ret_value) NODISCARD;
/* "value is not a valid float" */
enum rc cmd_double(struct cmd_ctx *ctx, size_t arg, double *ret_value) NODISCARD;
/* Seconds of a blocking command as milliseconds; 0: for ever. "timeout is not a float or out of
 * range", "timeout is negative". */
enum rc cmd_timeout(struct cmd_ctx *ctx, size_t arg, uint64_t *ret_ms) NODISCARD;

/* Waits for keys: struct cmd_blocking. The handler returns what this returns. */
NODISCARD static inline enum rc cmd_block(struct cmd_ctx *ctx, const struct cmd_blocking *wait)
{
    return ctx->host->block(ctx, wait);
}
/* The key that a command which may block tries as its n-th, n from 0 to key_count: first the one
 * it was woken for, then those it names. False: leave it out, a command that came before is being
 * served. */
static inline bool cmd_key_try(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                               struct bytes *ret_key)
{
    return ctx->host->key_try(ctx, key, n, ret_key);
}

/* COUNT of SCAN, HSCAN, SSCAN and ZSCAN is a hint: no call looks at more than these, so that others
 * do not wait. */
enum { CMD_SCAN_COUNT_MAX = 16 * 1024 };

/* The keys among the arguments: indexes into argv, at most `max` of them; returns how many there
 * are. 0 as well if the arguments do not say. */
size_t cmd_keys(const struct cmd *cmd, const struct bytes *argv, size_t argc, size_t *ret_index,
                size_t max);

/* Whether the arguments are those of the command: it is known, their number, the length of keys.
 * The errors are as Redis gives them. */
enum rc cmd_check(struct cmd_ctx *ctx) NODISCARD;

/* ---- rows by name ---- */

struct cmd_table *cmd_table_new(const struct cmd *row, size_t count); /* the rows are borrowed */
void cmd_table_free(struct cmd_table *table);
/* The command, or the subcommand, that these arguments name. NULL: unknown. A container whose
 * subcommand is missing or unknown is returned itself. */
const struct cmd *cmd_find(const struct cmd_table *table, const struct bytes *argv, size_t argc);
const struct cmd *cmd_find_name(const struct cmd_table *table, struct bytes name);

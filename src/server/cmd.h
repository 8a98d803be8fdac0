// SPDX-License-Identifier: Apache-2.0
/* cmd.h - commands: a row of commands.def each, and what a handler gets.
 *
 * A handler parses and replies; types/ stores. It runs inside a commit and may run many times
 * (RC_COLD): it leaves nothing behind but rows and its reply. It returns RC_OK after writing its
 * reply, or an error whose text is in ctx->err: the dispatcher then cuts what was written and
 * writes the error. RC_REPLY is an error whose text has its own prefix ("NOAUTH ...").
 * RC_COLD of the store is returned as it is. A handler that needs several cold things should ask
 * for all of them before it returns RC_COLD: reads that answered RC_COLD are remembered, and
 * key_want() names keys.
 *
 * Threads: the executor. */
#pragma once

#include "base/err.h"
#include "server/resp_out.h"
#include "types/build.h"

struct conn;
struct server;
struct request;
struct cmd_ctx;

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
    CMD_ROW2 = 1 << 17,    /* of argument 2, a field or a member of a set */
    CMD_ZROW2 = 1 << 18,   /* of a member of a sorted set, argument 2 */
    CMD_ZROW3 = 1 << 19,   /* argument 3 */
    CMD_TILE2 = 1 << 20,   /* of a tile: argument 1 is its type, 2 its key */
    CMD_PATH = 1 << 21,    /* of a path of the file system, argument 1 */
    CMD_ZFIRST = 1 << 22,  /* of the lowest element of a sorted set, argument 1 */
    CMD_ZLAST = 1 << 23,   /* of the highest */
    CMD_RUN = 1 << 24,     /* changes one key, argument 1, by key.h alone: types/held.h */
    CMD_EXEC = 1 << 25,    /* runs what MULTI has queued: server__call_flags() */
    CMD_PUBLISH = 1 << 26, /* its message leaves with the commit */
    CMD_AHEAD = CMD_ROW2 | CMD_ZROW2 | CMD_ZROW3 | CMD_TILE2 | CMD_ZFIRST | CMD_ZLAST,
};

enum { CMD_NAME_BYTES = 48 }; /* of "CONTAINER|SUBCOMMAND" and a NUL */

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
};

struct cmd_asked;
struct cmd_ctx {
    struct server *server;
    struct conn *conn;
    const struct run *run; /* its database, time and scratch memory */
    const struct cmd *cmd;
    const struct bytes *argv; /* argv[0] is the name as it was sent */
    size_t argc;
    struct resp_out *reply;
    struct err *err;
    struct request *request; /* NULL: it runs directly, and has not waited */
    struct cmd_asked *asked; /* then for cmd_build() and cmd_long_begin() */
    bool in_exec;            /* it is one of a MULTI's */
    bool late;               /* CMD_OUTSIDE in an EXEC: the others have run */
    uint64_t message_seq;    /* late: the last message that was collected before its place */
    bool guards;             /* set by a handler: its error is that of the whole EXEC */
};

/* ---- for handlers ---- */

bool cmd_arg_is(struct bytes arg, const char *word); /* whatever the case */
/* A key of another type is an error for who asks; who has waited for it goes on waiting. */
bool cmd_has_waited(const struct cmd_ctx *ctx);
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

/* There is nothing to take: wait for changes of these keys, then run from the start again. After
 * timeout_ms (0: never) `give_up` writes the reply. Inside a MULTI, or where waiting is not
 * allowed, that happens at once. The handler returns what this returns. */
struct cmd_blocking {
    const struct bytes *key;
    size_t key_count;
    enum kv_event type; /* what it takes from: KV_EVENT_LIST, KV_EVENT_ZSET */
    uint64_t timeout_ms;
    void (*give_up)(struct resp_out *reply);
};
enum rc cmd_block(struct cmd_ctx *ctx, const struct cmd_blocking *wait) NODISCARD;
/* The key that a command which may block tries as its n-th, n from 0 to key_count: first the one
 * it was woken for, then those it names. False: leave it out, a command that came before is being
 * served. */
bool cmd_key_try(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                 struct bytes *ret_key);

/* Waits until everything committed before is in the engine. RC_OK, at last, or what the handler has
 * to return. */
enum rc cmd_flush_wait(struct cmd_ctx *ctx) NODISCARD;

/* For a result that may be large (types/build.h); NULL: it has to be put in one commit. RC_WAIT of
 * who builds is what the handler returns. target_arg: where the key stands that is written and not
 * read; 0: there is none in this database. */
struct build *cmd_build(struct cmd_ctx *ctx, size_t target_arg);

/* A reply that may be long is written in slices, so that others do not wait for it: between two of
 * them the handler returns RC_WAIT, and runs again from its start. It writes its head, begins, goes
 * on from where it stood, and keeps its place when the slice is full or something is cold. */
struct cmd_long {
    bool begun; /* there were slices before this one */
    bool has_at;
    struct buf at; /* where to go on, if has_at */
    uint64_t done; /* what is written: elements or bytes; the handler counts */
    /* What else the handler keeps until the reply is whole, or begins again. */
    void *work;
    void (*work_free)(void *work);
    size_t work_bytes;
    /* for request_long.c */
    struct ns *ns;
    uint64_t inputs;
    bool touched, in_reply;
    unsigned tries;
    struct buf saved;
    size_t kept, reply_start;
    uint64_t elements_left;
};
/* What a command that is no request yet is given: with RC_WAIT it becomes one. */
struct cmd_asked {
    struct build build;
    struct cmd_long slow;
};
/* Behind the reply's head, which is cut if it is there already. `inputs`: build_input() of the
 * keys; `elements`: about so many will follow. *ret_long NULL: all of it is written in one go.
 * RC_WAIT: not in this run. */
enum rc cmd_long_begin(struct cmd_ctx *ctx, uint64_t inputs, uint64_t elements,
                       struct cmd_long **ret_long) NODISCARD;
/* So many bytes will follow in all: a buffer that grows would copy them again and again. */
void cmd_long_expect(struct cmd_ctx *ctx, const struct cmd_long *slow, uint64_t bytes);
/* After each element: whether the slice ends here. slow may be NULL: it does not. */
bool cmd_long_full(struct cmd_ctx *ctx, struct cmd_long *slow);
/* How many elements may be looked at in this slice, for who does not ask cmd_long_full(). */
uint64_t cmd_long_count(const struct cmd_long *slow);
/* What is written stays written if rc is RC_WAIT or RC_COLD, and `at` is where to go on; returns
 * rc.
 */
enum rc cmd_long_keep(struct cmd_ctx *ctx, struct cmd_long *slow, struct bytes at,
                      enum rc rc) NODISCARD;

/* COUNT of SCAN, HSCAN, SSCAN and ZSCAN is a hint: no call looks at more than these, so that others
 * do not wait. */
enum { CMD_SCAN_COUNT_MAX = 16 * 1024 };

/* The keys among the arguments: indexes into argv, at most `max` of them; returns how many there
 * are. 0 as well if the arguments do not say. */
size_t cmd_keys(const struct cmd *cmd, const struct bytes *argv, size_t argc, size_t *ret_index,
                size_t max);

/* ---- the list ---- */

struct cmd_table; /* commands by name */
struct cmd_table *cmd_table_new(void);
void cmd_table_free(struct cmd_table *table);
/* The command, or the subcommand, that these arguments name. NULL: unknown. A container whose
 * subcommand is missing or unknown is returned itself. */
const struct cmd *cmd_find(const struct cmd_table *table, const struct bytes *argv, size_t argc);
const struct cmd *cmd_find_name(const struct cmd_table *table, struct bytes name);
const struct cmd *cmd_list(size_t *ret_count);
/* Whether the arguments are those of the command: it is known, their number, the length of keys.
 * The errors are as Redis gives them. */
enum rc cmd_check(struct cmd_ctx *ctx) NODISCARD;

#define CMD(name, arity, flags, first, last, step, numkeys, handler, group, since, complexity, \
            syntax, summary)                                                                   \
    enum rc handler(struct cmd_ctx *ctx);
#include "server/commands.def"
#undef CMD

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
#include "types/aside.h"

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
    CMD_ROW2 = 1 << 17,   /* of argument 2, a field or a member of a set */
    CMD_ZROW2 = 1 << 18,  /* of a member of a sorted set, argument 2 */
    CMD_ZROW3 = 1 << 19,  /* argument 3 */
    CMD_TILE2 = 1 << 20,  /* of a tile: argument 1 is its type, 2 its key */
    CMD_PATH = 1 << 21,   /* of a path of the file system, argument 1 */
    CMD_ZFIRST = 1 << 22, /* of the lowest element of a sorted set, argument 1 */
    CMD_ZLAST = 1 << 23,  /* of the highest */
    CMD_RUN = 1 << 24,    /* changes one key, argument 1, by key.h alone: types/held.h */
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

struct cmd_ctx {
    struct server *server;
    struct conn *conn;
    struct kv *kv;
    struct ns *ns;
    const struct cmd *cmd;
    const struct bytes *argv; /* argv[0] is the name as it was sent */
    size_t argc;
    struct resp_out *reply;
    struct err *err;
    struct request *request; /* NULL: it runs directly, and has not waited */
    bool in_exec;            /* it is one of a MULTI's */
    bool late;               /* CMD_OUTSIDE in an EXEC: the others have run */
    uint64_t message_seq;    /* late: the last message that was collected before its place */
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
static inline enum rc cmd_arity_error(struct cmd_ctx *ctx)
{
    cmd_arity_text(ctx);
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
 * it was woken for, then those it names. False: leave it out, whoever came before has the turn. */
bool cmd_key_try(const struct cmd_ctx *ctx, const struct bytes *key, size_t n,
                 struct bytes *ret_key);

/* Waits until everything committed before is in the engine. RC_OK, at last, or what the handler has
 * to return. */
enum rc cmd_flush_wait(struct cmd_ctx *ctx) NODISCARD;

/* For a result that may be large (types/aside.h); NULL: it has to be put in one commit. RC_WAIT of
 * who builds is what the handler returns. target_arg: where the key stands that is written and not
 * read; 0: there is none in this database. */
struct aside *cmd_aside(struct cmd_ctx *ctx, size_t target_arg);

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
/* Arity, then the handler; an unknown command (cmd NULL) is answered as Redis does. */
enum rc cmd_run(struct cmd_ctx *ctx) NODISCARD;

#define CMD(name, arity, flags, first, last, step, numkeys, handler, group, since, complexity, \
            syntax, summary)                                                                   \
    enum rc handler(struct cmd_ctx *ctx);
#include "server/commands.def"
#undef CMD

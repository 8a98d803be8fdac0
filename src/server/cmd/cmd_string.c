/* Strings as wholes: GET, SET and their relatives. */
#include "server/cmd/cmd_string.h"

#include "base/banned.h"

/* ---- options of SET and GETEX ---- */

enum option_flag {
    OPTION_NX = 1 << 0,
    OPTION_XX = 1 << 1,
    OPTION_GET = 1 << 2,
    OPTION_KEEPTTL = 1 << 3,
    OPTION_PERSIST = 1 << 4,
    OPTION_EX = 1 << 5,
    OPTION_PX = 1 << 6,
    OPTION_EXAT = 1 << 7,
    OPTION_PXAT = 1 << 8,
    OPTION_TIMES = OPTION_EX | OPTION_PX | OPTION_EXAT | OPTION_PXAT,
    OPTION_DEADLINE = OPTION_TIMES | OPTION_KEEPTTL | OPTION_PERSIST, /* at most one of them */
    OPTIONS_OF_SET = OPTION_NX | OPTION_XX | OPTION_GET | OPTION_KEEPTTL | OPTION_TIMES,
    OPTIONS_OF_GETEX = OPTION_TIMES | OPTION_PERSIST,
};

struct options {
    unsigned flags;
    size_t time_arg;     /* where the time of OPTION_TIMES is */
    const char *command; /* for the error about it */
};

static const struct option_word {
    const char *word;
    unsigned flag;
    unsigned excluded;
} option_words[] = {
    {"NX", OPTION_NX, OPTION_XX},
    {"XX", OPTION_XX, OPTION_NX},
    {"GET", OPTION_GET, 0},
    {"KEEPTTL", OPTION_KEEPTTL, OPTION_DEADLINE},
    {"PERSIST", OPTION_PERSIST, OPTION_DEADLINE},
    {"EX", OPTION_EX, OPTION_DEADLINE},
    {"PX", OPTION_PX, OPTION_DEADLINE},
    {"EXAT", OPTION_EXAT, OPTION_DEADLINE},
    {"PXAT", OPTION_PXAT, OPTION_DEADLINE},
};

static const struct option_word *option_find(struct bytes arg)
{
    for (size_t i = 0; i < ARRAY_LEN(option_words); i++)
        if (cmd_arg_is(arg, option_words[i].word))
            return &option_words[i];
    return NULL;
}

/* An option may be said twice: the last one counts. */
static enum rc options_parse(struct cmd_ctx *ctx, size_t arg, unsigned allowed,
                             struct options *options)
{
    for (; arg < ctx->argc; arg++) {
        const struct option_word *word = option_find(ctx->argv[arg]);
        if (!word || !(word->flag & allowed) || (options->flags & word->excluded & ~word->flag))
            return cmd_syntax_error(ctx);
        options->flags |= word->flag;
        if (!(word->flag & OPTION_TIMES))
            continue;
        if (++arg == ctx->argc)
            return cmd_syntax_error(ctx);
        options->time_arg = arg;
    }
    return RC_OK;
}

static enum rc expire_error(struct cmd_ctx *ctx, const struct options *options)
{
    return err_set(ctx->err, RC_INVALID, "invalid expire time in '%s' command", options->command);
}

/* The deadline that OPTION_TIMES asks for; it may have passed. */
static enum rc deadline_parse(struct cmd_ctx *ctx, const struct options *options, uint64_t *ret_ms)
{
    int64_t time;
    bool seconds = options->flags & (OPTION_EX | OPTION_EXAT);
    enum rc rc = cmd_int(ctx, options->time_arg, &time);
    if (rc != RC_OK)
        return rc;
    if (time <= 0 || (seconds && time > INT64_MAX / 1000))
        return expire_error(ctx, options);
    if (seconds)
        time *= 1000;
    if ((options->flags & (OPTION_EX | OPTION_PX)) &&
        __builtin_add_overflow(time, (int64_t)ctx->kv->now_ms, &time))
        return expire_error(ctx, options);
    *ret_ms = (uint64_t)time;
    return RC_OK;
}

/* ---- GET ---- */

static enum rc value_reply(struct cmd_ctx *ctx, const struct key *key)
{
    struct bytes value;
    if (!key->exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    enum rc rc = string_get(key, &value, ctx->err);
    if (rc == RC_OK)
        resp_add_bulk(ctx->reply, value);
    return rc;
}

static enum rc get(struct cmd_ctx *ctx, struct key *ret_key)
{
    enum rc rc = key_read(ctx->ns, ctx->argv[1], TYPE_STRING, ret_key, ctx->err);
    return rc == RC_OK ? value_reply(ctx, ret_key) : rc;
}

enum rc cmd_get(struct cmd_ctx *ctx)
{
    struct key key;
    return get(ctx, &key);
}

enum rc cmd_getdel(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = get(ctx, &key);
    if (rc != RC_OK || !key.exists)
        return rc;
    rc = key_remove(&key, ctx->err);
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_GENERIC, "del");
    return rc;
}

enum rc cmd_getex(struct cmd_ctx *ctx)
{
    struct key key;
    struct options options = {.command = "getex"};
    uint64_t expire_ms = 0;
    enum rc rc = options_parse(ctx, 2, OPTIONS_OF_GETEX, &options);
    if (rc == RC_OK)
        rc = get(ctx, &key);
    if (rc != RC_OK || !key.exists || options.flags == 0)
        return rc;
    if (options.flags & OPTION_TIMES)
        rc = deadline_parse(ctx, &options, &expire_ms);
    if (rc != RC_OK || (expire_ms == 0 && key.meta.expire_ms == 0))
        return rc;
    if (expire_ms != 0 && expire_ms <= ctx->kv->now_ms) {
        rc = key_remove(&key, ctx->err);
    } else {
        key.meta.expire_ms = expire_ms;
        rc = key_save(&key, key.meta.extra, ctx->err);
    }
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_GENERIC, !key.exists ? "del" : expire_ms ? "expire" : "persist");
    return rc;
}

enum rc cmd_mget(struct cmd_ctx *ctx)
{
    bool cold = false;
    resp_add_array(ctx->reply, ctx->argc - 1);
    for (size_t i = 1; i < ctx->argc; i++) {
        struct key key;
        enum rc rc = key_read(ctx->ns, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc == RC_OK) {
            key.exists = string_is(&key); /* others read as if they were not there */
            rc = value_reply(ctx, &key);
        }
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD; /* the others are asked for as well */
    }
    return cold ? RC_COLD : RC_OK;
}

/* ---- SET ---- */

static enum rc set(struct cmd_ctx *ctx, struct key *key, struct bytes value, uint64_t expire_ms)
{
    enum rc rc = string_set(key, value, expire_ms, ctx->err);
    if (rc != RC_OK)
        return rc;
    key_changed(key, KV_EVENT_STRING, "set");
    if (expire_ms != 0 && expire_ms != STRING_KEEP_DEADLINE)
        key_changed(key, KV_EVENT_GENERIC, "expire");
    if (UNLIKELY(!key->exists)) /* its deadline has passed */
        key_changed(key, KV_EVENT_EXPIRED, "expired");
    return RC_OK;
}

/* SET and those that are SET with fixed options. ret_done: the condition of NX or XX held. */
static enum rc set_with(struct cmd_ctx *ctx, struct bytes value, const struct options *options,
                        bool *ret_done)
{
    unsigned flags = options->flags;
    uint64_t expire_ms = flags & OPTION_KEEPTTL ? STRING_KEEP_DEADLINE : 0;
    enum rc rc = flags & OPTION_TIMES ? deadline_parse(ctx, options, &expire_ms) : RC_OK;
    if (rc != RC_OK)
        return rc;
    struct key key;
    rc = flags & OPTION_GET ? get(ctx, &key)
                            : key_write(ctx->ns, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    *ret_done = !(flags & (key.exists ? OPTION_NX : OPTION_XX));
    return *ret_done ? set(ctx, &key, value, expire_ms) : RC_OK;
}

enum rc cmd_set(struct cmd_ctx *ctx)
{
    struct options options = {.command = "set"};
    bool done;
    enum rc rc = RC_OK;
    if (ctx->argc > 3)
        rc = options_parse(ctx, 3, OPTIONS_OF_SET, &options);
    if (rc == RC_OK)
        rc = set_with(ctx, ctx->argv[2], &options, &done);
    if (rc != RC_OK || (options.flags & OPTION_GET)) /* which was answered with the old value */
        return rc;
    if (done)
        resp_add_status(ctx->reply, "OK");
    else
        resp_add_null(ctx->reply);
    return RC_OK;
}

static enum rc set_timed(struct cmd_ctx *ctx, unsigned flag, const char *command)
{
    struct options options = {.flags = flag, .time_arg = 2, .command = command};
    bool done;
    enum rc rc = set_with(ctx, ctx->argv[3], &options, &done);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_setex(struct cmd_ctx *ctx)
{
    return set_timed(ctx, OPTION_EX, "setex");
}

enum rc cmd_psetex(struct cmd_ctx *ctx)
{
    return set_timed(ctx, OPTION_PX, "psetex");
}

enum rc cmd_setnx(struct cmd_ctx *ctx)
{
    struct options options = {.flags = OPTION_NX};
    bool done;
    enum rc rc = set_with(ctx, ctx->argv[2], &options, &done);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, done);
    return rc;
}

enum rc cmd_getset(struct cmd_ctx *ctx)
{
    struct options options = {.flags = OPTION_GET};
    bool done;
    return set_with(ctx, ctx->argv[2], &options, &done);
}

/* Once something is cold nothing more is set: the commit will be undone, and the other keys are
 * only asked for. */
static enum rc pairs_set(struct cmd_ctx *ctx)
{
    bool cold = false;
    for (size_t i = 1; i < ctx->argc; i += 2) {
        struct key key;
        enum rc rc = key_write(ctx->ns, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc == RC_OK && !cold)
            rc = set(ctx, &key, ctx->argv[i + 1], 0);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD;
    }
    return cold ? RC_COLD : RC_OK;
}

enum rc cmd_mset(struct cmd_ctx *ctx)
{
    if (ctx->argc % 2 == 0)
        return cmd_arity_error(ctx);
    enum rc rc = pairs_set(ctx);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_msetnx(struct cmd_ctx *ctx)
{
    bool cold = false;
    if (ctx->argc % 2 == 0)
        return cmd_arity_error(ctx);
    for (size_t i = 1; i < ctx->argc; i += 2) {
        struct key key;
        enum rc rc = key_write(ctx->ns, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc == RC_OK && key.exists) {
            resp_add_int(ctx->reply, 0);
            return RC_OK;
        }
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD;
    }
    enum rc rc = cold ? RC_COLD : pairs_set(ctx);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, 1);
    return rc;
}

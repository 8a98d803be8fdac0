// SPDX-License-Identifier: Apache-2.0
/* cmd_string.c - strings as wholes: GET, SET and their relatives. */
#include "server/cmd/cmd_string.h"

#include "base/codec.h"

#include "base/banned.h"

enum { ELEMENT_BYTES = 128 }; /* of a string count as much as an element of a collection */

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
        __builtin_add_overflow(time, (int64_t)ctx->run->now_ms, &time))
        return expire_error(ctx, options);
    *ret_ms = (uint64_t)time;
    return RC_OK;
}

/* ---- GET ---- */

/* The string's bytes from *at on, as many as the slice takes. RC_WAIT: there are more. */
static enum rc bytes_reply(struct cmd_ctx *ctx, const struct key *key, uint64_t *at, uint64_t end,
                           struct cmd_long *slow)
{
    enum rc rc = RC_OK;
    while (rc == RC_OK && *at < end && !ctx->reply->failed) {
        struct bytes run;
        uint64_t chunk_end = (*at / STRING_CHUNK_BYTES + 1) * STRING_CHUNK_BYTES;
        bool by_window = slow && ctx->request && chunk_end < end;
        rc = string_get_run(key, *at, by_window ? chunk_end : end, &run, ctx->err);
        if (rc == RC_COLD && by_window) /* all of it may not fit, and slices would load it again */
            string_want_window(key, *at);
        if (rc != RC_OK)
            break;
        resp_add_raw(ctx->reply, run);
        *at += run.len;
        if (cmd_long_full(ctx, slow) && *at < end)
            rc = RC_WAIT;
    }
    return rc;
}

enum rc cmd_string__reply(struct cmd_ctx *ctx, const struct key *key, uint64_t from, uint64_t end,
                          bool in_slices)
{
    struct cmd_long *slow = NULL;
    enum rc rc = RC_OK;
    resp_add_bulk_begin(ctx->reply, end - from);
    if (in_slices && end - from > ELEMENT_BYTES)
        rc = cmd_long_begin(ctx, build_input(0, key), (end - from) / ELEMENT_BYTES, &slow);
    uint64_t at = from + (slow ? slow->done : 0);
    cmd_long_expect(ctx, slow, end - from + ELEMENT_BYTES);
    if (rc == RC_OK)
        rc = bytes_reply(ctx, key, &at, end, slow);
    if (slow)
        slow->done = at - from;
    if (rc != RC_OK)
        return at > from ? cmd_long_keep(ctx, slow, BYTES(""), rc) : rc;
    resp_add_bulk_end(ctx->reply);
    return RC_OK;
}

static enum rc value_reply(struct cmd_ctx *ctx, const struct key *key, bool in_slices)
{
    if (!key->exists) {
        resp_add_null(ctx->reply);
        return RC_OK;
    }
    if (LIKELY(key->meta.type == TYPE_STRING)) {
        struct bytes value;
        enum rc rc = string_get(key, &value, ctx->err);
        if (rc == RC_OK)
            resp_add_bulk(ctx->reply, value);
        return rc;
    }
    uint64_t len;
    enum rc rc = string_len(key, &len, ctx->err);
    return rc == RC_OK ? cmd_string__reply(ctx, key, 0, len, in_slices) : rc;
}

static enum rc get(struct cmd_ctx *ctx, struct key *ret_key, bool in_slices)
{
    enum rc rc = key_read(ctx->run, ctx->argv[1], TYPE_STRING, ret_key, ctx->err);
    return rc == RC_OK ? value_reply(ctx, ret_key, in_slices) : rc;
}

enum rc cmd_get(struct cmd_ctx *ctx)
{
    struct key key;
    return get(ctx, &key, true);
}

enum rc cmd_getdel(struct cmd_ctx *ctx)
{
    struct key key;
    enum rc rc = get(ctx, &key, false);
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
        rc = get(ctx, &key, options.flags == 0);
    if (rc != RC_OK || !key.exists || options.flags == 0)
        return rc;
    if (options.flags & OPTION_TIMES)
        rc = deadline_parse(ctx, &options, &expire_ms);
    if (rc != RC_OK || (expire_ms == 0 && key.meta.expire_ms == 0))
        return rc;
    if (expire_ms != 0 && expire_ms <= ctx->run->now_ms) {
        rc = key_remove(&key, ctx->err);
    } else {
        key.meta.expire_ms = expire_ms;
        rc = key_save(&key, key.meta.extra, ctx->err);
    }
    if (rc == RC_OK)
        key_changed(&key, KV_EVENT_GENERIC, !key.exists ? "del" : expire_ms ? "expire" : "persist");
    return rc;
}

/* ---- MGET ---- */

/* Keys of other types read as if they were not there. `counts`: a hit or a miss, once a command. */
static enum rc mget_key(struct cmd_ctx *ctx, size_t arg, bool counts, struct key *ret_key)
{
    enum rc rc = counts ? key_read(ctx->run, ctx->argv[arg], KEY_ANY, ret_key, ctx->err)
                        : key_write(ctx->run, ctx->argv[arg], KEY_ANY, ret_key, ctx->err);
    ret_key->exists = rc == RC_OK && string_is(ret_key);
    return rc;
}

/* Which keys there are, as one number; those that are cold are asked for together. *ret_bytes: the
 * length of those in chunks, which may be many. */
static enum rc mget_look(struct cmd_ctx *ctx, uint64_t *ret_inputs, uint64_t *ret_bytes)
{
    bool cold = false;
    *ret_inputs = *ret_bytes = 0;
    for (size_t i = 1; i < ctx->argc; i++) {
        struct key key;
        uint64_t len = 0;
        enum rc rc = mget_key(ctx, i, true, &key);
        if (rc == RC_OK && key.exists && key.meta.type != TYPE_STRING)
            rc = string_len(&key, &len, ctx->err);
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold = cold || rc == RC_COLD;
        *ret_bytes += len;
        if (rc == RC_OK)
            *ret_inputs = build_input(*ret_inputs, &key);
    }
    return cold ? RC_COLD : RC_OK;
}

/* The value of one key, from *at on if it is in chunks. */
static enum rc mget_value(struct cmd_ctx *ctx, const struct key *key, uint64_t *at,
                          struct cmd_long *slow)
{
    uint64_t len;
    size_t mark = ctx->reply->buf.len;
    if (!key->exists || key->meta.type == TYPE_STRING)
        return value_reply(ctx, key, false);
    enum rc rc = string_len(key, &len, ctx->err);
    if (rc == RC_OK && *at == 0)
        resp_add_bulk_begin(ctx->reply, len);
    if (rc == RC_OK)
        rc = bytes_reply(ctx, key, at, len, slow);
    if (rc != RC_OK) {
        if (*at == 0)
            resp_out_cut(ctx->reply, mark);
        return rc;
    }
    resp_add_bulk_end(ctx->reply);
    *at = 0;
    return RC_OK;
}

/* slow: RC_WAIT if it becomes large; NULL: it does not. */
static enum rc mget_at_once(struct cmd_ctx *ctx, struct cmd_long *slow)
{
    bool cold = false;
    for (size_t i = 1; i < ctx->argc; i++) {
        struct key key;
        uint64_t at = 0;
        enum rc rc = mget_key(ctx, i, !ctx->request, &key); /* a request has looked */
        if (rc == RC_OK)
            rc = mget_value(ctx, &key, &at, slow);
        if (rc == RC_OK && cmd_long_full(ctx, slow) && i + 1 < ctx->argc)
            rc = RC_WAIT;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        cold |= rc == RC_COLD; /* the others are asked for as well */
    }
    return cold ? RC_COLD : RC_OK;
}

/* slow->done values are written, and of the next one as many bytes as slow->at says. */
static enum rc mget_slice(struct cmd_ctx *ctx, struct cmd_long *slow)
{
    uint8_t place[8];
    uint64_t at = slow->begun ? be64_get(slow->at.ptr) : 0;
    size_t count = ctx->argc - 1;
    enum rc rc = RC_OK;
    while (rc == RC_OK && slow->done < count && !ctx->reply->failed) {
        struct key key;
        rc = mget_key(ctx, (size_t)slow->done + 1, false, &key);
        if (rc == RC_OK)
            rc = mget_value(ctx, &key, &at, slow);
        if (rc != RC_OK)
            break;
        slow->done++;
        if (cmd_long_full(ctx, slow) && slow->done < count)
            rc = RC_WAIT;
    }
    be64_put(place, at);
    return cmd_long_keep(ctx, slow, bytes_of(place, sizeof place), rc);
}

/* What is large is written in slices: by a request, which knows all keys before it writes. */
enum rc cmd_mget(struct cmd_ctx *ctx)
{
    struct cmd_long *slow = NULL;
    uint64_t inputs = 0, bytes = 0;
    enum rc rc = RC_OK;
    resp_add_array(ctx->reply, ctx->argc - 1);
    if (ctx->request)
        rc = mget_look(ctx, &inputs, &bytes);
    if (rc == RC_OK && (bytes > 0 || !ctx->request))
        rc = cmd_long_begin(ctx, inputs, 0, &slow);
    if (rc != RC_OK)
        return rc;
    cmd_long_expect(ctx, slow, bytes + ELEMENT_BYTES * ctx->argc);
    return slow && ctx->request ? mget_slice(ctx, slow) : mget_at_once(ctx, slow);
}

/* ---- SET ---- */

/* build may be NULL: in one commit. */
static enum rc set(struct cmd_ctx *ctx, struct key *key, struct bytes value, uint64_t expire_ms,
                   struct build *build)
{
    enum rc rc = UNLIKELY(build != NULL) ? string_set_build(key, value, expire_ms, build, ctx->err)
                                         : string_set(key, value, expire_ms, ctx->err);
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
    rc = flags & OPTION_GET ? get(ctx, &key, false)
                            : key_write(ctx->run, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    *ret_done = !(flags & (key.exists ? OPTION_NX : OPTION_XX));
    if (!*ret_done)
        return RC_OK;
    bool is_large = value.len > STRING_PLAIN_BYTES_MAX;
    bool is_once = flags & OPTION_GET; /* the old value is not read again for every piece */
    struct build *build = UNLIKELY(is_large) && !is_once ? cmd_build(ctx, 1) : NULL;
    return set(ctx, &key, value, expire_ms, build);
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
        enum rc rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
        if (rc == RC_OK && !cold)
            rc = set(ctx, &key, ctx->argv[i + 1], 0, NULL);
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
        enum rc rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
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

/* LAND.ERRORS, LAND.RETRY, LAND.DROP: what the database refused. */
#include "landing/address.h"
#include "server/cmd/cmd_land.h"
#include "server/server_int.h"
#include "types/hash.h"

#include "base/banned.h"

enum { ERRORS_COUNT = 100 };

typedef enum rc entry_fn(struct cmd_ctx *ctx, const struct dirty_table *table, enum dirty_part part,
                         struct bytes entry, struct bytes value, void *arg);

/* fn may change the entry it is given, and no other. The entry is in the command's arena. */
static enum rc part_walk(struct cmd_ctx *ctx, const struct land_rule *rule, uint32_t number,
                         enum dirty_part part, entry_fn *fn, void *arg)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct dirty_table table = land_rule_table(rule, number);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, part, &key, ctx->err);
    if (rc != RC_OK || !key.exists)
        return rc;
    store_walk_init(&walk, ctx->kv->store, key_rows(&key), false);
    while ((rc = store_walk_next(&walk, &entry, &value, ctx->err)) == RC_OK) {
        struct land_entry parts;
        if (!land_rule_has_entry(rule, entry, &parts))
            continue;
        struct bytes copy = arena_copy(&ctx->kv->arena, entry);
        rc = fn(ctx, &table, part, copy, value, arg);
        if (rc != RC_OK)
            return rc;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc tables_walk(struct cmd_ctx *ctx, const struct land_rule *rule, enum dirty_part part,
                           entry_fn *fn, void *arg)
{
    enum rc rc = RC_OK;
    for (uint32_t n = 0; rc == RC_OK && n < land_rule_spec(rule)->tables; n++)
        rc = part_walk(ctx, rule, n, part, fn, arg);
    return rc;
}

/* ---- counting and giving up ---- */

struct entries {
    enum land_entries what;
    uint64_t count;
};

static enum rc entry_count(struct cmd_ctx *ctx, const struct dirty_table *table,
                           enum dirty_part part, struct bytes entry, struct bytes value, void *arg)
{
    struct entries *entries = arg;
    uint64_t version;
    (void)value;
    entries->count++;
    if (entries->what == LAND_ENTRIES_COUNT)
        return RC_OK;
    enum rc rc = dirty_version(table, part, entry, &version, ctx->err);
    return rc == RC_OK ? dirty_remove(table, part, entry, version, ctx->err) : rc;
}

enum rc cmd_land_entries(struct cmd_ctx *ctx, const struct land_rule *rule, enum land_entries what,
                         uint64_t *ret_count)
{
    struct entries entries = {.what = what};
    enum rc rc = RC_OK;
    for (enum dirty_part part = DIRTY_MARKED; rc == RC_OK && part <= DIRTY_ERROR; part++)
        rc = tables_walk(ctx, rule, part, entry_count, &entries);
    *ret_count = entries.count;
    return rc;
}

struct refused {
    uint64_t lsn, count;
};

static enum rc refused_count(struct cmd_ctx *ctx, const struct dirty_table *table,
                             enum dirty_part part, struct bytes entry, struct bytes value,
                             void *arg)
{
    struct refused *refused = arg;
    struct dirty_error error;
    (void)table;
    (void)part;
    (void)entry;
    if (dirty_error_parse(value, &error, ctx->err) == RC_OK && error.version <= refused->lsn)
        refused->count++;
    return RC_OK;
}

enum rc cmd_land_refused(struct cmd_ctx *ctx, uint64_t lsn, uint64_t *ret_count)
{
    struct refused refused = {.lsn = lsn};
    struct land_rule *rule = NULL;
    enum rc rc = RC_OK;
    while (rc == RC_OK && (rule = landing_rule_next(ctx->server->landing, rule)))
        rc = tables_walk(ctx, rule, DIRTY_ERROR, refused_count, &refused);
    *ret_count = refused.count;
    return rc;
}

/* ---- LAND.ERRORS ---- */

struct errors {
    const char *rule;
    size_t count, max;
};

static enum rc error_reply(struct cmd_ctx *ctx, const struct dirty_table *table,
                           enum dirty_part part, struct bytes entry, struct bytes value, void *arg)
{
    struct errors *errors = arg;
    struct dirty_error error;
    (void)table;
    (void)part;
    if (errors->count == errors->max)
        return RC_OK;
    enum rc rc = dirty_error_parse(value, &error, ctx->err);
    if (rc != RC_OK)
        return rc;
    errors->count++;
    resp_add_map(ctx->reply, 7);
    resp_add_text(ctx->reply, "rule");
    resp_add_text(ctx->reply, errors->rule);
    resp_add_text(ctx->reply, "entry");
    resp_add_bulk(ctx->reply, entry);
    resp_add_text(ctx->reply, "op");
    resp_add_text(ctx->reply, error.removed ? "REMOVE" : "UPDATE");
    resp_add_text(ctx->reply, "version");
    resp_add_int(ctx->reply, (int64_t)error.version);
    resp_add_text(ctx->reply, "attempts");
    resp_add_int(ctx->reply, (int64_t)error.attempts);
    resp_add_text(ctx->reply, "error");
    resp_add_text(ctx->reply, error.reason);
    resp_add_text(ctx->reply, "next_ms");
    resp_add_int(ctx->reply, (int64_t)error.next_ms);
    return RC_OK;
}

static enum rc errors_parse(struct cmd_ctx *ctx, struct land_rule **ret_rule, size_t *ret_max)
{
    size_t at = 1;
    int64_t count;
    *ret_rule = NULL;
    *ret_max = ERRORS_COUNT;
    if (at < ctx->argc && !cmd_arg_is(ctx->argv[at], "COUNT")) {
        enum rc rc = cmd_land_rule_arg(ctx, at++, ret_rule);
        if (rc != RC_OK)
            return rc;
    }
    if (at == ctx->argc)
        return RC_OK;
    if (at + 2 != ctx->argc || !cmd_arg_is(ctx->argv[at], "COUNT"))
        return cmd_syntax_error(ctx);
    enum rc rc = cmd_int_range(ctx, at + 1, 0, INT32_MAX, NULL, &count);
    *ret_max = (size_t)count;
    return rc;
}

enum rc cmd_land_errors(struct cmd_ctx *ctx)
{
    struct land_rule *wanted, *rule = NULL;
    struct errors errors = {0};
    enum rc rc = errors_parse(ctx, &wanted, &errors.max);
    size_t mark = resp_open(ctx->reply);
    while (rc == RC_OK && (rule = landing_rule_next(ctx->server->landing, rule))) {
        errors.rule = land_rule_spec(rule)->name;
        if (!wanted || rule == wanted)
            rc = tables_walk(ctx, rule, DIRTY_ERROR, error_reply, &errors);
    }
    if (rc == RC_OK)
        resp_close_array(ctx->reply, mark, errors.count);
    return rc;
}

/* ---- LAND.RETRY, LAND.DROP ---- */

static bool is_named(const struct cmd_ctx *ctx, struct bytes entry)
{
    for (size_t i = 2; i < ctx->argc; i++)
        if (bytes_eq(ctx->argv[i], entry))
            return true;
    return ctx->argc == 2;
}

/* Due at once; the attempts stay counted. */
static enum rc entry_retry(struct cmd_ctx *ctx, const struct dirty_table *table,
                           enum dirty_part part, struct bytes entry, struct bytes value, void *arg)
{
    struct dirty_error error;
    size_t *count = arg;
    (void)part;
    if (!is_named(ctx, entry))
        return RC_OK;
    enum rc rc = dirty_error_parse(value, &error, ctx->err);
    if (rc != RC_OK)
        return rc;
    error.next_ms = 0;
    (*count)++;
    return dirty_error_put(table, entry, &error, ctx->err);
}

static enum rc entry_drop(struct cmd_ctx *ctx, const struct dirty_table *table,
                          enum dirty_part part, struct bytes entry, struct bytes value, void *arg)
{
    uint64_t version;
    size_t *count = arg;
    (void)value;
    if (!is_named(ctx, entry))
        return RC_OK;
    enum rc rc = dirty_version(table, part, entry, &version, ctx->err);
    if (rc == RC_OK)
        rc = dirty_remove(table, part, entry, version, ctx->err);
    *count += rc == RC_OK;
    return rc;
}

static enum rc errors_change(struct cmd_ctx *ctx, entry_fn *fn, struct land_rule **ret_rule)
{
    size_t count = 0;
    enum rc rc = cmd_land_rule_arg(ctx, 1, ret_rule);
    if (rc == RC_OK)
        rc = tables_walk(ctx, *ret_rule, DIRTY_ERROR, fn, &count);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)count);
    return rc;
}

enum rc cmd_land_retry(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    enum rc rc = errors_change(ctx, entry_retry, &rule);
    if (rc == RC_OK)
        landing_kick(ctx->server->landing, rule, UINT64_MAX);
    return rc;
}

enum rc cmd_land_drop(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    return errors_change(ctx, entry_drop, &rule);
}

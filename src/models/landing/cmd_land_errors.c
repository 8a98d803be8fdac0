// SPDX-License-Identifier: Apache-2.0
/* cmd_land_errors.c - LAND.ERRORS, LAND.RETRY, LAND.DROP: what the database refused. */
#include "base/mem.h"
#include "models/landing/address.h"
#include "models/landing/cmd_land.h"
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
    struct dirty_table table = land_rule_table(rule, ctx->run, number);
    struct bytes entry, value;
    struct key key;
    enum rc rc = dirty_open(&table, part, &key, ctx->err);
    if (rc != RC_OK || !key.exists)
        return rc;
    store_walk_init(&walk, ctx->run->kv->store, key_rows(&key), false);
    while ((rc = store_walk_next(&walk, &entry, &value, ctx->err)) == RC_OK) {
        struct land_entry parts;
        if (!land_rule_has_entry(rule, ctx->run, entry, &parts))
            continue;
        struct bytes copy = arena_copy(ctx->run->arena, entry);
        rc = fn(ctx, &table, part, copy, value, arg);
        if (rc != RC_OK)
            return rc; /* RC_NOT_FOUND too: fn has seen enough */
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

/* ---- counting ---- */

static enum rc entry_count(struct cmd_ctx *ctx, const struct dirty_table *table,
                           enum dirty_part part, struct bytes entry, struct bytes value, void *arg)
{
    (void)ctx;
    (void)table;
    (void)part;
    (void)entry;
    (void)value;
    ++*(uint64_t *)arg;
    return RC_OK;
}

enum rc cmd_land_count(struct cmd_ctx *ctx, const struct land_rule *rule, uint64_t *ret_count)
{
    enum rc rc = RC_OK;
    *ret_count = 0;
    for (enum dirty_part part = DIRTY_MARKED; rc == RC_OK && part <= DIRTY_ERROR; part++)
        rc = tables_walk(ctx, rule, part, entry_count, ret_count);
    return rc;
}

/* RC_NOT_FOUND ends the walk: one is enough. */
static enum rc entry_refused(struct cmd_ctx *ctx, const struct dirty_table *table,
                             enum dirty_part part, struct bytes entry, struct bytes value,
                             void *arg)
{
    (void)ctx;
    (void)table;
    (void)part;
    (void)entry;
    (void)value;
    *(bool *)arg = true;
    return RC_NOT_FOUND;
}

enum rc cmd_land_refused(struct cmd_ctx *ctx, const struct land_rule *wanted, bool *ret_refused)
{
    struct land_rule *rule = NULL;
    enum rc rc = RC_OK;
    *ret_refused = false;
    while (rc == RC_OK && (rule = landing_rule_next(cmd_model(ctx), rule)))
        if (!wanted || rule == wanted)
            rc = tables_walk(ctx, rule, DIRTY_ERROR, entry_refused, ret_refused);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
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
        return RC_NOT_FOUND; /* ends the walk */
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
    while (rc == RC_OK && (rule = landing_rule_next(cmd_model(ctx), rule))) {
        errors.rule = land_rule_spec(rule)->name;
        if (!wanted || rule == wanted)
            rc = tables_walk(ctx, rule, DIRTY_ERROR, error_reply, &errors);
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    resp_close_array(ctx->reply, mark, errors.count);
    return RC_OK;
}

/* ---- LAND.RETRY, LAND.DROP: those that are named ---- */

/* Due at once; the attempts stay counted. RC_NOT_FOUND. */
static enum rc entry_retry(struct cmd_ctx *ctx, const struct dirty_table *table, struct bytes entry)
{
    struct dirty_error error;
    struct bytes value;
    struct key key;
    enum rc rc = dirty_open(table, DIRTY_ERROR, &key, ctx->err);
    if (rc == RC_OK)
        rc = hash_field(&key, entry, &value, ctx->err);
    if (rc == RC_OK)
        rc = dirty_error_parse(value, &error, ctx->err);
    if (rc != RC_OK)
        return rc;
    error.next_ms = 0;
    return dirty_error_put(table, entry, &error, ctx->err);
}

static enum rc entry_drop(struct cmd_ctx *ctx, const struct dirty_table *table, struct bytes entry)
{
    uint64_t version;
    enum rc rc = dirty_version(table, DIRTY_ERROR, entry, &version, ctx->err);
    return rc == RC_OK ? dirty_remove(table, DIRTY_ERROR, entry, version, ctx->err) : rc;
}

typedef enum rc named_fn(struct cmd_ctx *ctx, const struct dirty_table *table, struct bytes entry);

static enum rc named_change(struct cmd_ctx *ctx, const struct land_rule *rule, named_fn *fn)
{
    int64_t count = 0;
    for (size_t i = 2; i < ctx->argc; i++) {
        struct land_entry parts;
        uint32_t number;
        if (!land_rule_has_entry(rule, ctx->run, ctx->argv[i], &parts) ||
            !land_rule_entry_table(rule, &parts, &number))
            continue;
        struct dirty_table table = land_rule_table(rule, ctx->run, number);
        enum rc rc = fn(ctx, &table, ctx->argv[i]);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        count += rc == RC_OK;
    }
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

/* ---- LAND.RETRY, LAND.DROP, LAND.RULE DEL FORCE: all, in steps ---- */

enum { STEP_ENTRIES = 256 }; /* in one commit */

struct all { /* kept by the request from step to step */
    enum dirty_part part;
    uint32_t table;
    struct buf after; /* the last entry of the part that was looked at */
    int64_t count;
};

static void all_free(void *arg)
{
    struct all *all = arg;
    buf_done(&all->after);
    mem_free(all);
}

static struct all *all_of(struct cmd_request *request, enum dirty_part part)
{
    if (!request->state) {
        struct all *all = mem_zalloc(sizeof *all);
        all->part = part;
        buf_init(&all->after, STORE_SUFFIX_BYTES_MAX);
        request->state = all;
        request->state_free = all_free;
    }
    return request->state;
}

struct all_step {
    struct bytes entry[STEP_ENTRIES];
    size_t count, looked;
    struct bytes after; /* in the command's arena, as all here */
};

/* RC_WAIT: there are more behind step->after. */
static enum rc step_look(struct cmd_ctx *ctx, const struct land_rule *rule,
                         const struct dirty_table *table, enum dirty_part part,
                         struct all_step *step)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes entry, value, first = step->after;
    struct key key;
    enum rc rc = dirty_open(table, part, &key, ctx->err);
    if (rc != RC_OK || !key.exists)
        return rc;
    store_walk_init(&walk, ctx->run->kv->store, key_rows(&key), false);
    rc = store_walk_seek(&walk, first, ctx->err);
    while (rc == RC_OK) {
        struct land_entry parts;
        if (step->looked >= STEP_ENTRIES)
            return RC_WAIT;
        rc = store_walk_next(&walk, &entry, &value, ctx->err);
        if (rc != RC_OK || (first.len > 0 && bytes_eq(entry, first)))
            continue;
        step->looked++;
        step->after = arena_copy(ctx->run->arena, entry);
        if (land_rule_has_entry(rule, ctx->run, step->after, &parts))
            step->entry[step->count++] = step->after;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc step_change(struct cmd_ctx *ctx, const struct dirty_table *table,
                           enum dirty_part part, const struct all_step *step, bool retry)
{
    if (!retry)
        return step->count == 0 ? RC_OK
                                : dirty_take_many(table, part, step->entry, step->count, ctx->err);
    for (size_t i = 0; i < step->count; i++) {
        enum rc rc = entry_retry(ctx, table, step->entry[i]);
        if (rc != RC_OK && rc != RC_CORRUPT) /* somebody else's: it stays as it is */
            return rc;
    }
    return RC_OK;
}

/* Entries of one table, from `part` to the errors. RC_WAIT: there are more, RC_OK: those were all.
 */
static enum rc all_step(struct cmd_ctx *ctx, const struct land_rule *rule, struct all *all,
                        bool retry)
{
    struct all_step step = {.after = arena_copy(ctx->run->arena, buf_bytes(&all->after))};
    struct dirty_table table = land_rule_table(rule, ctx->run, all->table);
    if (all->table >= land_rule_spec(rule)->tables)
        return RC_OK;
    enum rc rc = step_look(ctx, rule, &table, all->part, &step), changed_rc = RC_OK;
    if (rc == RC_OK || rc == RC_WAIT)
        changed_rc = step_change(ctx, &table, all->part, &step, retry);
    if ((rc != RC_OK && rc != RC_WAIT) || changed_rc != RC_OK)
        return changed_rc != RC_OK ? changed_rc : rc;
    all->count += (int64_t)step.count;
    buf_cut(&all->after, 0);
    if (rc == RC_WAIT)
        return buf_add_bytes(&all->after, step.after)
                   ? RC_WAIT
                   : err_set(ctx->err, RC_NOMEM, "could not allocate memory for an entry");
    if (++all->table == land_rule_spec(rule)->tables && all->part < DIRTY_ERROR) {
        all->table = 0;
        all->part++;
    }
    return RC_WAIT;
}

enum rc cmd_land_drop_all(struct cmd_ctx *ctx, const struct land_rule *rule)
{
    if (!ctx->request)
        return RC_WAIT; /* runs again, as a request */
    enum rc rc = all_step(ctx, rule, all_of(ctx->request, DIRTY_MARKED), false);
    if (rc != RC_OK)
        return rc;
    struct all rest = {.part = DIRTY_MARKED}; /* what was written since the first step */
    buf_init(&rest.after, STORE_SUFFIX_BYTES_MAX);
    do
        rc = all_step(ctx, rule, &rest, false);
    while (rc == RC_WAIT);
    buf_done(&rest.after);
    return rc;
}

static enum rc errors_change(struct cmd_ctx *ctx, bool retry, struct land_rule **ret_rule)
{
    enum rc rc = cmd_land_rule_arg(ctx, 1, ret_rule);
    if (rc != RC_OK || ctx->argc > 2)
        return rc == RC_OK ? named_change(ctx, *ret_rule, retry ? entry_retry : entry_drop) : rc;
    if (!ctx->request)
        return RC_WAIT; /* runs again, as a request */
    struct all *all = all_of(ctx->request, DIRTY_ERROR);
    rc = all_step(ctx, *ret_rule, all, retry);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, all->count);
    return rc;
}

enum rc cmd_land_retry(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    enum rc rc = errors_change(ctx, true, &rule);
    if (rc == RC_OK)
        land_rule_retry(rule);
    return rc;
}

enum rc cmd_land_drop(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    return errors_change(ctx, false, &rule);
}

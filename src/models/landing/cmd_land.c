// SPDX-License-Identifier: Apache-2.0
/* cmd_land.c - LAND.*: rules, and what becomes of their keys. */
#include "base/mem.h"
#include "models/landing/shape.h"
#include "models/landing/cmd_land.h"
#include "types/hash.h"
#include "types/number.h"

#include "base/banned.h"

enum { EXPLAIN_FIELDS_MAX = 100, EXPLAIN_BYTES_MAX = 16 * 1024 * 1024 };

enum rc cmd_land_rule_arg(struct cmd_ctx *ctx, size_t arg, struct land_rule **ret_rule)
{
    *ret_rule = landing_rule(cmd_model(ctx), ctx->argv[arg]);
    if (!*ret_rule)
        return cmd_error(ctx, "there is no such rule");
    return RC_OK;
}

/* ---- rules ---- */

/* The database is asked and entries are settled in steps; in the last one the rule is stored and
 * in force. */
enum rc cmd_land_rule_add(struct cmd_ctx *ctx)
{
    struct cmd_request *request = ctx->request;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    enum rc rc = RC_OK;
    if (!request->state) {
        struct land_adding *adding = NULL;
        struct rule_spec *spec;
        rc = rule_parse(ctx->argv + 2, ctx->argc - 2, &spec, ctx->err);
        if (rc == RC_OK)
            rc = land_adding_new(cmd_model(ctx), spec, &adding, ctx->err);
        request->state = adding;
        request->state_free = land_adding_free;
    }
    if (rc == RC_OK)
        rc = land_adding_step(request->state, ctx->run, &request->task, ctx->err);
    if (rc == RC_BUSY)
        return cmd_error(ctx, ctx->err->text);
    if (rc != RC_OK)
        return rc;
    land_adding_free(request->state); /* the next one need not wait for our reply */
    request->state = NULL;
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_land_rule_del(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    bool force = ctx->argc == 4 && cmd_arg_is(ctx->argv[3], "FORCE");
    uint64_t count = 0;
    enum rc rc = cmd_land_rule_arg(ctx, 2, &rule);
    if (rc != RC_OK)
        return rc;
    if (ctx->argc > 4 || (ctx->argc == 4 && !force))
        return cmd_syntax_error(ctx);
    if (land_rule_is_from_config(rule))
        return cmd_error(ctx, "the rule is in the configuration file");
    rc = force ? cmd_land_drop_all(ctx, rule) : cmd_land_count(ctx, rule, &count);
    if (rc == RC_OK && count > 0)
        return err_set(ctx->err, RC_INVALID,
                       "%llu entries have not landed: LAND.FLUSH it first, or say FORCE",
                       (unsigned long long)count);
    if (rc == RC_OK)
        rc = landing_rule_unstore(rule, ctx->run, ctx->err);
    if (rc != RC_OK)
        return rc;
    landing_rule_delete(rule);
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

enum rc cmd_land_rule_list(struct cmd_ctx *ctx)
{
    struct landing *landing = cmd_model(ctx);
    size_t mark = resp_open(ctx->reply), count = 0;
    struct land_rule *rule = NULL;
    while ((rule = landing_rule_next(landing, rule))) {
        const struct rule_spec *spec = land_rule_spec(rule);
        struct buf text;
        buf_init(&text, EXPLAIN_BYTES_MAX);
        if (!rule_text_shown(spec, land_rule_sink(rule), &text)) {
            buf_done(&text);
            return err_set(ctx->err, RC_NOMEM, "could not allocate memory for the answer");
        }
        resp_add_bulk(ctx->reply, buf_bytes(&text));
        buf_done(&text);
        count++;
    }
    resp_close_array(ctx->reply, mark, count);
    return RC_OK;
}

/* ---- status ---- */

static void add_number(struct resp_out *out, const char *name, uint64_t value, size_t *count)
{
    resp_add_text(out, name);
    resp_add_int(out, (int64_t)value);
    (*count)++;
}

static void add_word(struct resp_out *out, const char *name, const char *value, size_t *count)
{
    resp_add_text(out, name);
    resp_add_text(out, value);
    (*count)++;
}

static enum rc backlog_add(struct cmd_ctx *ctx, const struct land_rule *rule, uint64_t *ret_total,
                           uint64_t *ret_errors)
{
    uint32_t tables = land_rule_spec(rule)->tables;
    *ret_total = *ret_errors = 0;
    resp_add_text(ctx->reply, "tables");
    resp_add_array(ctx->reply, tables);
    for (uint32_t n = 0; n < tables; n++) {
        uint64_t marked, saving, errors;
        enum rc rc = land_rule_backlog(rule, ctx->run, n, &marked, &saving, &errors, ctx->err);
        if (rc != RC_OK)
            return rc;
        resp_add_array(ctx->reply, 3);
        resp_add_int(ctx->reply, (int64_t)marked);
        resp_add_int(ctx->reply, (int64_t)saving);
        resp_add_int(ctx->reply, (int64_t)errors);
        *ret_total += marked + saving;
        *ret_errors += errors;
    }
    return RC_OK;
}

static enum rc status_add(struct cmd_ctx *ctx, const struct land_rule *rule)
{
    struct resp_out *out = ctx->reply;
    const struct rule_spec *spec = land_rule_spec(rule);
    struct land_status status;
    uint64_t backlog, errors;
    size_t mark = resp_open(out), count = 0;
    land_rule_status(rule, &status);
    add_word(out, "rule", spec->name, &count);
    add_word(out, "sink", land_rule_sink(rule), &count);
    add_word(out, "shape", spec->shape == LAND_OBJECT ? "object" : "columns", &count);
    add_word(out, "state",
             status.missing      ? "missing"
             : status.trouble[0] ? "failing"
                                 : "ok",
             &count);
    add_word(out, "last_error", status.trouble, &count);
    enum rc rc = backlog_add(ctx, rule, &backlog, &errors);
    if (rc != RC_OK)
        return rc;
    count++;
    uint64_t oldest = backlog > 0 ? status.oldest_ms : 0;
    uint64_t age = oldest != 0 && oldest < ctx->run->now_ms ? ctx->run->now_ms - oldest : 0;
    uint64_t reads = status.hits + status.misses;
    add_number(out, "backlog", backlog, &count);
    add_number(out, "oldest_dirty_ms", age, &count);
    add_number(out, "errors", errors, &count);
    add_number(out, "landed_rows", status.landed_rows, &count);
    add_number(out, "refused_rows", status.refused_rows, &count);
    add_number(out, "rows_per_second", status.rows_per_s, &count);
    add_number(out, "batches", status.batches, &count);
    add_number(out, "batch_rows", status.batches > 0 ? status.landed_rows / status.batches : 0,
               &count);
    add_number(out, "failures", status.failures, &count);
    add_number(out, "sql_us", status.batches > 0 ? status.sql_ns / status.batches / 1000 : 0,
               &count);
    add_number(out, "lifts", status.lifts, &count);
    add_number(out, "lifted_rows", status.lifted_rows, &count);
    add_number(out, "lift_failures", status.lift_failures, &count);
    add_number(out, "lift_us", status.lifts > 0 ? status.lift_ns / status.lifts / 1000 : 0, &count);
    add_number(out, "known_absent", status.absences, &count);
    add_number(out, "hit_percent", reads > 0 ? status.hits * 100 / reads : 100, &count);
    resp_close_map(out, mark, count);
    return RC_OK;
}

enum rc cmd_land_status(struct cmd_ctx *ctx)
{
    struct land_rule *rule = NULL;
    size_t count = 0;
    if (ctx->argc > 2)
        return cmd_arity_error(ctx);
    if (ctx->argc == 2) {
        enum rc rc = cmd_land_rule_arg(ctx, 1, &rule);
        return rc == RC_OK ? status_add(ctx, rule) : rc;
    }
    size_t mark = resp_open(ctx->reply);
    while ((rule = landing_rule_next(cmd_model(ctx), rule))) {
        enum rc rc = status_add(ctx, rule);
        if (rc != RC_OK)
            return rc;
        count++;
    }
    resp_close_array(ctx->reply, mark, count);
    return RC_OK;
}

/* ---- waiting ---- */

struct land_wait {     /* when the command began to wait */
    uint64_t lsn;      /* what is waited for */
    uint64_t since_ns; /* FLUSH: the database has to answer after that */
};

static struct land_wait *wait_of(struct cmd_request *request)
{
    if (!request->state) {
        request->state = mem_zalloc(sizeof(struct land_wait));
        request->state_free = mem_free;
    }
    return request->state;
}

static enum rc pass_wait(struct cmd_ctx *ctx, struct land_rule *rule, const struct land_wait *wait)
{
    landing_kick(cmd_model(ctx), rule, wait->lsn, wait->since_ns);
    landing_wait_pass(cmd_model(ctx), cmd_waiter(ctx), &ctx->request->task);
    task_wait_event(&ctx->request->task);
    return RC_WAIT;
}

static const char *trouble_of(struct cmd_ctx *ctx, const struct land_rule *wanted,
                              const struct land_wait *wait)
{
    struct landing *landing = cmd_model(ctx);
    struct land_rule *rule = NULL;
    while ((rule = landing_rule_next(landing, rule))) {
        const char *trouble = land_rule_trouble(rule);
        if ((!wanted || rule == wanted) && trouble &&
            !landing_is_through(landing, rule, wait->lsn, wait->since_ns))
            return trouble;
    }
    return NULL;
}

/* OK means that SQL has everything: whoever hears it may empty the store. */
static enum rc flush_reply(struct cmd_ctx *ctx, const struct land_rule *rule)
{
    bool refused;
    enum rc rc = cmd_land_refused(ctx, rule, &refused);
    if (rc == RC_OK && refused)
        return err_set(ctx->err, RC_REPLY,
                       "LANDREFUSED not everything has landed: the database refused some of it, "
                       "see LAND.ERRORS");
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_land_flush(struct cmd_ctx *ctx)
{
    struct landing *landing = cmd_model(ctx);
    struct land_rule *rule = NULL;
    enum rc rc = ctx->argc == 2 ? cmd_land_rule_arg(ctx, 1, &rule) : RC_OK;
    if (rc != RC_OK)
        return rc;
    if (ctx->argc > 2)
        return cmd_arity_error(ctx);
    if (!ctx->request)
        return RC_WAIT; /* runs again, as a request */
    struct land_wait *wait = wait_of(ctx->request);
    bool begins = wait->lsn == 0;
    if (begins)
        *wait = (struct land_wait){.lsn = store_last_lsn(ctx->run->kv->store),
                                   .since_ns = clock_mono_ns(ctx->run->kv->clock)};
    if (begins && landing_rule_next(landing, NULL))
        return pass_wait(ctx, rule, wait); /* also if nothing is new: refused entries are tried */
    if (landing_is_through(landing, rule, wait->lsn, wait->since_ns))
        return flush_reply(ctx, rule);
    const char *trouble = trouble_of(ctx, rule, wait);
    if (trouble)
        return err_set(ctx->err, RC_REPLY, "LANDDOWN not everything has landed: %s", trouble);
    return pass_wait(ctx, rule, wait);
}

static void wait_give_up(struct resp_out *reply)
{
    resp_add_int(reply, 0);
}

enum rc cmd_land_wait(struct cmd_ctx *ctx)
{
    int64_t timeout_ms;
    bool refused = false;
    enum rc rc = cmd_int_range(ctx, 1, 0, INT32_MAX, "timeout is negative", &timeout_ms);
    if (rc != RC_OK)
        return rc;
    if (!ctx->request)
        return RC_WAIT;
    struct land_wait *wait = wait_of(ctx->request);
    if (wait->lsn == 0) {
        wait->lsn = store_last_lsn(ctx->run->kv->store);
        ctx->request->give_up = wait_give_up;
        if (timeout_ms > 0)
            ctx->request->task.deadline_ns =
                clock_mono_ns(ctx->run->kv->clock) + (uint64_t)timeout_ms * 1000000;
        if (landing_rule_next(cmd_model(ctx), NULL))
            return pass_wait(ctx, NULL, wait);
    }
    bool through = landing_is_through(cmd_model(ctx), NULL, wait->lsn, 0);
    if (through)
        rc = cmd_land_refused(ctx, NULL, &refused);
    if (rc != RC_OK)
        return rc;
    if (!through || refused) {
        landing_wait_pass(cmd_model(ctx), cmd_waiter(ctx), &ctx->request->task);
        task_wait_event(&ctx->request->task);
        return RC_WAIT;
    }
    resp_add_int(ctx->reply, 1);
    return RC_OK;
}

/* ---- copies ---- */

enum rc cmd_land_load(struct cmd_ctx *ctx)
{
    int64_t count = 0;
    bool cold = false; /* all of them are asked for before the command waits */
    for (size_t i = 1; i < ctx->argc; i++) {
        struct key key;
        enum rc rc = key_write(ctx->run, ctx->argv[i], KEY_ANY, &key, ctx->err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_COLD)
            return rc;
        count += rc == RC_OK && key.exists;
    }
    if (cold)
        return RC_COLD;
    resp_add_int(ctx->reply, count);
    return RC_OK;
}

/* A copy goes only if there is another one: the databases of all keys are asked after the command
 * came, before the first copy goes. RC_WAIT: they are being asked. */
static enum rc evict_ask(struct cmd_ctx *ctx, uint64_t *ret_since_ns)
{
    struct landing *landing = cmd_model(ctx);
    struct land_wait *wait = wait_of(ctx->request);
    bool waits = false;
    if (wait->since_ns == 0)
        wait->since_ns = clock_mono_ns(ctx->run->kv->clock);
    for (size_t i = 1; i < ctx->argc; i++) {
        struct land_rule *rule = landing_rule_of(landing, ctx->run->ns, ctx->argv[i]);
        struct err ignored;
        if (!rule)
            return cmd_error(ctx, "no rule takes this key: there is no other copy");
        waits = land_rule_presence(rule, wait->since_ns, &ignored) == RC_WAIT || waits;
    }
    *ret_since_ns = wait->since_ns;
    if (!waits)
        return RC_OK;
    landing_wait_pass(landing, cmd_waiter(ctx), &ctx->request->task);
    task_wait_event(&ctx->request->task);
    return RC_WAIT;
}

enum rc cmd_land_evict(struct cmd_ctx *ctx)
{
    int64_t count = 0;
    uint64_t since_ns;
    if (!ctx->request)
        return RC_WAIT; /* runs again, as a request */
    enum rc rc = evict_ask(ctx, &since_ns);
    for (size_t i = 1; rc == RC_OK && i < ctx->argc; i++) {
        struct land_rule *rule = landing_rule_of(cmd_model(ctx), ctx->run->ns, ctx->argv[i]);
        bool dropped = false;
        rc = land_evict(rule, ctx->run, ctx->argv[i], since_ns, &dropped, ctx->err);
        count += dropped;
    }
    if (rc == RC_OK)
        resp_add_int(ctx->reply, count);
    return rc;
}

/* ---- explaining ---- */

static enum rc explain_fields(struct cmd_ctx *ctx, const struct key *key, struct land_batch *batch,
                              struct land_owner *owner)
{
    CLEANUP(store_walk_done) struct store_walk walk = {0};
    struct bytes name, value;
    enum rc rc = RC_OK;
    owner->exists = key->exists && key->meta.type == TYPE_HASH;
    owner->owner_version = 1;
    owner->sweep = true;
    if (!owner->exists)
        return RC_OK;
    store_walk_init(&walk, ctx->run->kv->store, key_rows(key), false);
    while (owner->field_count < EXPLAIN_FIELDS_MAX &&
           (rc = store_walk_next(&walk, &name, &value, ctx->err)) == RC_OK) {
        struct land_field *field = land_batch_field(batch, owner);
        field->name = arena_copy(&batch->arena, name);
        field->value = arena_copy(&batch->arena, value);
        field->here = true;
        field->version = 1;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void lines_reply(struct cmd_ctx *ctx, struct bytes text)
{
    size_t mark = resp_open(ctx->reply), count = 0, start = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '\n')
            continue;
        resp_add_bulk(ctx->reply, bytes_of(text.ptr + start, i - start));
        start = i + 1;
        count++;
    }
    resp_close_array(ctx->reply, mark, count);
}

static enum rc explain(struct cmd_ctx *ctx, const struct land_rule *rule, const struct key *key,
                       struct land_batch *batch, struct buf *text)
{
    struct land_owner *owner = land_batch_owner(batch);
    struct shape_db *db = NULL;
    enum rc rc = address_of(land_rule_spec(rule), ctx->argv[1], &owner->address, ctx->err);
    if (rc == RC_OK)
        rc = explain_fields(ctx, key, batch, owner);
    if (rc == RC_OK)
        rc = shape_open(land_rule_spec(rule), NULL, &db, ctx->err);
    if (rc == RC_OK)
        rc = shape_explain(db, batch, text, ctx->err);
    shape_close(db);
    return rc;
}

enum rc cmd_land_explain(struct cmd_ctx *ctx)
{
    struct land_rule *rule = landing_rule_of(cmd_model(ctx), ctx->run->ns, ctx->argv[1]);
    struct land_batch batch;
    struct buf text;
    struct key key;
    if (!rule)
        return cmd_error(ctx, "no rule takes this key");
    struct run part = run_with(ctx->run, ctx->run->ns, RUN_NO_LIFT);
    enum rc rc = key_write(&part, ctx->argv[1], KEY_ANY, &key, ctx->err);
    if (rc != RC_OK)
        return rc;
    land_batch_init(&batch);
    buf_init(&text, EXPLAIN_BYTES_MAX);
    rc = explain(ctx, rule, &key, &batch, &text);
    if (rc == RC_OK)
        lines_reply(ctx, buf_bytes(&text));
    buf_done(&text);
    land_batch_done(&batch);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* cmd_land_care.c - LAND.SYNC, LAND.RULE SINK, LAND.VERIFY: the whole of a rule. */
#include "models/landing/cmd_land.h"

#include "base/banned.h"

/* Each step is a commit of its own; others are served between two of them. RC_OK: those of this one
 * were the last. */
static enum rc sync_step(struct cmd_ctx *ctx, struct land_rule *rule)
{
    struct cmd_request *request = ctx->request;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    if (!request->state) {
        request->state = land_sync_new(rule);
        request->state_free = land_sync_free;
    }
    return land_sync_step(request->state, ctx->run, rule, ctx->err);
}

static void sync_reply(struct cmd_ctx *ctx)
{
    uint64_t marked, skipped;
    land_sync_result(ctx->request->state, &marked, &skipped);
    resp_add_array(ctx->reply, 2);
    resp_add_int(ctx->reply, (int64_t)marked);
    resp_add_int(ctx->reply, (int64_t)skipped);
}

enum rc cmd_land_sync(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    enum rc rc = cmd_land_rule_arg(ctx, 1, &rule);
    if (rc == RC_OK)
        rc = sync_step(ctx, rule);
    if (rc == RC_OK)
        sync_reply(ctx);
    return rc;
}

/* What is here may be the only copy by now: it is marked before the rule takes another database. */
enum rc cmd_land_rule_sink(struct cmd_ctx *ctx)
{
    struct land_rule *rule;
    enum rc rc = cmd_land_rule_arg(ctx, 2, &rule);
    if (rc != RC_OK)
        return rc;
    if (!cmd_arg_is(ctx->argv[3], "NEW"))
        return cmd_syntax_error(ctx);
    if (!land_rule_is_missing(rule))
        return cmd_error(ctx, "the database of this rule is not missing: nothing is given up");
    rc = sync_step(ctx, rule);
    if (rc == RC_OK)
        rc = land_rule_sink_new(rule, ctx->run, ctx->err);
    if (rc == RC_OK)
        sync_reply(ctx);
    return rc;
}

static void verify_reply(struct resp_out *out, const struct land_verify_result *result)
{
    resp_add_map(out, 8);
    resp_add_pair(out, "checked_keys", result->checked_keys);
    resp_add_pair(out, "checked_fields", result->checked_fields);
    resp_add_pair(out, "different", result->different);
    resp_add_pair(out, "missing_in_sql", result->missing);
    resp_add_pair(out, "extra_in_sql", result->extra);
    resp_add_pair(out, "skipped", result->skipped);
    resp_add_pair(out, "repaired", result->repaired);
    resp_add_text(out, "examples");
    resp_add_array(out, result->example_count);
    for (size_t i = 0; i < result->example_count; i++) {
        resp_add_array(out, 3);
        resp_add_bulk(out, result->example[i].key);
        resp_add_bulk(out, result->example[i].field);
        resp_add_text(out, result->example[i].what);
    }
}

enum rc cmd_land_verify(struct cmd_ctx *ctx)
{
    struct cmd_request *request = ctx->request;
    struct land_rule *rule;
    bool repair = ctx->argc == 3 && cmd_arg_is(ctx->argv[2], "REPAIR");
    if (ctx->argc > 3 || (ctx->argc == 3 && !repair))
        return cmd_syntax_error(ctx);
    if (!request || !request->state) {
        enum rc rc = cmd_land_rule_arg(ctx, 1, &rule);
        if (rc != RC_OK)
            return rc;
        if (!request)
            return RC_WAIT; /* runs again, as a request */
        request->state = land_verify_start(rule, repair);
        request->state_free = land_verify_end;
    }
    const struct land_verify_result *result = land_verify_result(request->state);
    if (!result->over) {
        land_verify_wait(request->state, cmd_waiter(ctx), &request->task);
        task_wait_event(&request->task);
        return RC_WAIT;
    }
    if (result->rc != RC_OK) {
        *ctx->err = result->err;
        return result->rc;
    }
    verify_reply(ctx->reply, result);
    return RC_OK;
}

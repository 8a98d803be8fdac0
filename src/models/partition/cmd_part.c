// SPDX-License-Identifier: Apache-2.0
/* cmd_part.c - PART.*: what workers and those who give them work say. */
#include "models/partition/cmd_part.h"

#include "base/mem.h"

#include "base/banned.h"

enum rc cmd_part_job(struct cmd_ctx *ctx, struct part_job *ret_job)
{
    return job_open(cmd_model(ctx), ctx->run, ctx->argv[1], JOB_MUST_EXIST, ret_job, ctx->err);
}

enum rc cmd_part_id(struct cmd_ctx *ctx, size_t arg, int64_t *ret_id)
{
    return cmd_int_range(ctx, arg, 0, INT64_MAX, "an id is a number from 0 to 2^63-1", ret_id);
}

void cmd_part_show(void *arg, struct bytes json)
{
    struct cmd_part_shown *shown = arg;
    resp_add_bulk(shown->out, json);
    shown->count++;
}

/* ---- making ---- */

enum rc cmd_part_add(struct cmd_ctx *ctx)
{
    struct part_job job;
    size_t count = 0;
    uint64_t added;
    struct part_new *parts = arena_alloc_array(ctx->run->arena, ctx->argc / 3, sizeof *parts);
    for (size_t at = 2; at < ctx->argc; count++) {
        struct part_new *one = &parts[count];
        if (ctx->argc - at < 3)
            return cmd_syntax_error(ctx);
        *one = (struct part_new){0};
        enum rc rc = cmd_part_id(ctx, at, &one->id);
        if (rc == RC_OK)
            rc = cmd_part_id(ctx, at + 1, &one->min_id);
        if (rc == RC_OK)
            rc = cmd_part_id(ctx, at + 2, &one->max_id);
        if (rc != RC_OK)
            return rc;
        at += 3;
        if (at + 1 < ctx->argc && cmd_arg_is(ctx->argv[at], "OPTIONS")) {
            one->options = ctx->argv[at + 1];
            if (one->options.len == 0)
                return cmd_error(ctx, "options are no JSON: they are empty");
            at += 2;
        }
    }
    enum rc rc = job_open(cmd_model(ctx), ctx->run, ctx->argv[1], JOB_MAKE, &job, ctx->err);
    if (rc == RC_OK)
        rc = part_add(&job, parts, count, &added, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)added);
    return rc;
}

/* A request of many commits; an EXEC is none, and is not that of one of its commands. */
static struct cmd_request *request_of(const struct cmd_ctx *ctx)
{
    return ctx->in_exec ? NULL : ctx->request;
}

/* How many the commits before this one have changed; the commits of a request that goes on. */
static uint64_t *steps_count(struct cmd_request *request)
{
    if (!request->state) {
        request->state = mem_zalloc(sizeof(uint64_t));
        request->state_free = mem_free;
    }
    return request->state;
}

/* Many are made in many commits: a kill leaves the first ones, and the next ALLOC goes on. */
enum rc cmd_part_alloc(struct cmd_ctx *ctx)
{
    struct part_job job;
    int64_t upto, size;
    uint64_t count;
    bool more;
    enum rc rc = cmd_part_id(ctx, 2, &upto);
    if (rc == RC_OK && !cmd_arg_is(ctx->argv[3], "SIZE"))
        return cmd_syntax_error(ctx);
    if (rc == RC_OK)
        rc = cmd_int_range(ctx, 4, 1, INT64_MAX, "a size is a number from 1 on", &size);
    if (rc == RC_OK)
        rc = job_open(cmd_model(ctx), ctx->run, ctx->argv[1], JOB_MAKE, &job, ctx->err);
    if (rc == RC_OK)
        rc = part_alloc(&job, upto, size, &count, &more, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (more && ctx->in_exec)
        return cmd_error(ctx, "a MULTI can allocate 5000 partitions a command");
    if (more && !ctx->request)
        return RC_WAIT; /* runs again, as a request */
    if (request_of(ctx)) {
        uint64_t *before = steps_count(ctx->request);
        *before += count;
        count = *before;
    }
    if (more)
        return RC_WAIT;
    resp_add_int(ctx->reply, (int64_t)count);
    return RC_OK;
}

/* ---- claiming ---- */

static enum rc claim_ids(struct cmd_ctx *ctx, size_t *at, struct part_claim *claim)
{
    int64_t *id = arena_alloc_array(ctx->run->arena, ctx->argc, sizeof *id);
    claim->id = id;
    while (*at < ctx->argc && !cmd_arg_is(ctx->argv[*at], "FORCE") &&
           !cmd_arg_is(ctx->argv[*at], "COUNT") && !cmd_arg_is(ctx->argv[*at], "STALE")) {
        enum rc rc = cmd_part_id(ctx, (*at)++, &id[claim->id_count]);
        if (rc != RC_OK)
            return rc;
        claim->id_count++;
    }
    if (claim->id_count == 0 || claim->id_count > PART_CLAIM_COUNT_MAX)
        return cmd_error(ctx, "ID takes 1 to 10000 ids");
    return RC_OK;
}

static enum rc claim_parse(struct cmd_ctx *ctx, struct part_claim *claim, bool *ret_counted)
{
    int64_t count;
    enum rc rc = RC_OK;
    *claim = (struct part_claim){.worker = ctx->argv[2], .count = 1, .stale_ms = PART_STALE_MS};
    *ret_counted = false;
    for (size_t at = 3; rc == RC_OK && at < ctx->argc;) {
        struct bytes word = ctx->argv[at++];
        if (cmd_arg_is(word, "FORCE") && claim->id_count > 0) {
            claim->force = true;
        } else if (at == ctx->argc) {
            return cmd_syntax_error(ctx);
        } else if (cmd_arg_is(word, "COUNT")) {
            rc = cmd_int_range(ctx, at++, 1, PART_CLAIM_COUNT_MAX, "COUNT is 1 to 10000", &count);
            claim->count = rc == RC_OK ? (uint64_t)count : 1;
            *ret_counted = true;
        } else if (cmd_arg_is(word, "STALE")) {
            rc = cmd_int_range(ctx, at++, 0, INT64_MAX / 2, "STALE is a number of milliseconds",
                               &claim->stale_ms);
        } else if (cmd_arg_is(word, "ID") && claim->id_count == 0) {
            rc = claim_ids(ctx, &at, claim);
        } else {
            return cmd_syntax_error(ctx);
        }
    }
    return rc;
}

enum rc cmd_part_claim(struct cmd_ctx *ctx)
{
    struct part_job job;
    struct part_claim claim;
    bool counted;
    struct cmd_part_shown shown = {.out = ctx->reply};
    enum rc rc = claim_parse(ctx, &claim, &counted);
    if (rc == RC_OK && claim.id_count > 0 && !counted)
        claim.count = claim.id_count;
    if (rc == RC_OK)
        rc = cmd_part_job(ctx, &job);
    if (rc != RC_OK)
        return rc;
    size_t mark = resp_open(ctx->reply);
    rc = part_claim(&job, &claim, cmd_part_show, &shown, ctx->err);
    if (rc == RC_OK)
        resp_close_array(ctx->reply, mark, shown.count);
    return rc;
}

/* ---- working ---- */

/* A last word GUARD behind `argc_min` others: in a MULTI an error ends all of it. What is left is
 * given back. */
static struct cmd_ctx guard_take(struct cmd_ctx *ctx, size_t argc_min)
{
    ctx->guards = ctx->argc > argc_min && cmd_arg_is(ctx->argv[ctx->argc - 1], "GUARD");
    struct cmd_ctx rest = *ctx;
    rest.argc -= ctx->guards;
    return rest;
}

/* id [FENCE fence], from *at on. */
static enum rc hold_parse(struct cmd_ctx *ctx, size_t *at, struct part_hold *ret_hold)
{
    int64_t fence;
    *ret_hold = (struct part_hold){.worker = ctx->argv[2]};
    enum rc rc = cmd_part_id(ctx, (*at)++, &ret_hold->id);
    if (rc != RC_OK || *at == ctx->argc || !cmd_arg_is(ctx->argv[*at], "FENCE"))
        return rc;
    if (*at + 1 == ctx->argc)
        return cmd_syntax_error(ctx);
    rc = cmd_int_range(ctx, *at + 1, 0, INT64_MAX, "a fence is a number from 0 on", &fence);
    ret_hold->has_fence = true;
    ret_hold->fence = rc == RC_OK ? (uint64_t)fence : 0;
    *at += 2;
    return rc;
}

typedef enum rc hold_fn(struct part_job *job, const struct part_hold *hold, struct err *err);

/* All of them, or an error that names the one that cannot be, and none. */
static enum rc holds_run(struct cmd_ctx *ctx, hold_fn *fn)
{
    struct part_job job;
    struct cmd_ctx rest = guard_take(ctx, 4);
    enum rc rc = cmd_part_job(ctx, &job);
    bool cold = false;
    for (size_t at = 3; rc == RC_OK && at < rest.argc;) {
        struct part_hold hold;
        rc = hold_parse(&rest, &at, &hold);
        if (rc == RC_OK && !cold)
            rc = fn(&job, &hold, ctx->err);
        else if (rc == RC_OK)
            part_want(&job, &hold.id, 1);
        if (rc == RC_COLD) { /* the others are named before all are waited for */
            cold = true;
            rc = RC_OK;
        }
    }
    if (rc == RC_OK && cold)
        return RC_COLD;
    if (rc == RC_OK)
        rc = job_save(&job, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_part_start(struct cmd_ctx *ctx)
{
    return holds_run(ctx, part_start);
}

enum rc cmd_part_beat(struct cmd_ctx *ctx)
{
    return holds_run(ctx, part_beat);
}

enum rc cmd_part_release(struct cmd_ctx *ctx)
{
    return holds_run(ctx, part_release);
}

enum rc cmd_part_done(struct cmd_ctx *ctx)
{
    struct part_job job;
    struct part_hold hold;
    int64_t duration_ms = PART_DURATION_NONE;
    size_t at = 3;
    bool done;
    struct cmd_ctx rest = guard_take(ctx, 4);
    enum rc rc = hold_parse(&rest, &at, &hold);
    if (rc == RC_OK && at + 2 == rest.argc && cmd_arg_is(ctx->argv[at], "DURATION")) {
        rc = cmd_int_range(ctx, at + 1, 0, PART_DURATION_MS_MAX,
                           "a duration is 0 to 9999999999999 milliseconds", &duration_ms);
        at += 2;
    }
    if (rc != RC_OK)
        return rc;
    if (at != rest.argc)
        return cmd_syntax_error(ctx);
    uint64_t start_ns = clock_mono_ns(ctx->run->kv->clock);
    rc = cmd_part_job(ctx, &job);
    if (rc == RC_OK)
        rc = part_done(&job, &hold, duration_ms, &done, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (!done && ctx->guards) /* and so were the commands that it guards */
        return err_set(ctx->err, RC_REPLY, "COMPLETED partition %lld was completed before",
                       (long long)hold.id);
    part_done_took(cmd_model(ctx), (clock_mono_ns(ctx->run->kv->clock) - start_ns) / 1000);
    resp_add_int(ctx->reply, done);
    return RC_OK;
}

enum rc cmd_part_fail(struct cmd_ctx *ctx)
{
    struct part_job job;
    struct part_hold hold = {.worker = ctx->argv[2]};
    struct cmd_ctx rest = guard_take(ctx, 5);
    int64_t fence;
    enum rc rc = cmd_part_id(ctx, 3, &hold.id);
    if (rc == RC_OK && rest.argc > 5) {
        if (rest.argc != 7 || !cmd_arg_is(ctx->argv[5], "FENCE"))
            return cmd_syntax_error(ctx);
        rc = cmd_int_range(ctx, 6, 0, INT64_MAX, "a fence is a number from 0 on", &fence);
        hold.has_fence = true;
        hold.fence = rc == RC_OK ? (uint64_t)fence : 0;
    }
    if (rc == RC_OK)
        rc = cmd_part_job(ctx, &job);
    if (rc == RC_OK)
        rc = part_fail(&job, &hold, ctx->argv[4], ctx->err);
    if (rc == RC_OK)
        rc = job_save(&job, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

/* ---- people ---- */

typedef enum rc id_fn(struct part_job *job, int64_t id, bool *ret_done, struct err *err);

static enum rc ids_run(struct cmd_ctx *ctx, struct part_job *job, id_fn *fn)
{
    int64_t count = 0;
    enum rc rc = RC_OK;
    bool cold = false;
    for (size_t at = 2; rc == RC_OK && at < ctx->argc; at++) {
        int64_t id;
        bool done = false;
        rc = cmd_part_id(ctx, at, &id);
        if (rc == RC_OK && !cold)
            rc = fn(job, id, &done, ctx->err);
        else if (rc == RC_OK)
            part_want(job, &id, 1);
        if (rc == RC_COLD) { /* the others are named before all are waited for */
            cold = true;
            rc = RC_OK;
        }
        count += done;
    }
    if (rc == RC_OK && cold)
        return RC_COLD;
    if (rc == RC_OK)
        rc = job_save(job, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, count);
    return rc;
}

static enum rc retry_all(struct cmd_ctx *ctx, struct part_job *job)
{
    struct part_retry first = {.one_commit = ctx->in_exec}, *retry = &first;
    struct cmd_request *request = request_of(ctx);
    bool more;
    if (request && !request->state) {
        request->state = mem_zalloc(sizeof *retry);
        request->state_free = mem_free;
    }
    if (request)
        retry = request->state;
    enum rc rc = part_retry_all(job, retry, &more, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (more && ctx->in_exec)
        return cmd_error(ctx, "there are too many partitions for a MULTI: name the ids");
    if (more)
        return RC_WAIT; /* without a request: runs again, as one */
    resp_add_int(ctx->reply, (int64_t)retry->count);
    return RC_OK;
}

enum rc cmd_part_retry(struct cmd_ctx *ctx)
{
    struct part_job job;
    enum rc rc = cmd_part_job(ctx, &job);
    if (rc != RC_OK)
        return rc;
    return ctx->argc == 2 ? retry_all(ctx, &job) : ids_run(ctx, &job, part_retry);
}

enum rc cmd_part_del(struct cmd_ctx *ctx)
{
    struct part_job job;
    enum rc rc = cmd_part_job(ctx, &job);
    return rc == RC_OK ? ids_run(ctx, &job, part_delete) : rc;
}

/* The job is gone with the first commit; many batches are removed in many, here or by the packer.
 */
enum rc cmd_part_drop(struct cmd_ctx *ctx)
{
    struct part_job job;
    bool more = false;
    bool begun = request_of(ctx) && *steps_count(ctx->request) > 0;
    enum rc rc = job_open(cmd_model(ctx), ctx->run, ctx->argv[1], begun ? JOB_DROP : JOB_MUST_EXIST,
                          &job, ctx->err);
    if (rc == RC_OK)
        rc = part_drop(&job, &more, ctx->err);
    else if (rc == RC_REPLY && begun)
        rc = RC_OK; /* the packer was faster */
    if (rc != RC_OK)
        return rc;
    if (more && ctx->in_exec)
        return cmd_error(ctx, "the job has too many batches for a MULTI");
    if (more && !ctx->request)
        return RC_WAIT; /* runs again, as a request */
    if (more) {
        *steps_count(ctx->request) = 1;
        return RC_WAIT;
    }
    resp_add_status(ctx->reply, "OK");
    return RC_OK;
}

static enum rc pause_run(struct cmd_ctx *ctx, bool paused)
{
    struct part_job job;
    enum rc rc = cmd_part_job(ctx, &job);
    if (rc == RC_OK)
        rc = part_pause(&job, paused, ctx->err);
    if (rc == RC_OK)
        resp_add_status(ctx->reply, "OK");
    return rc;
}

enum rc cmd_part_pause(struct cmd_ctx *ctx)
{
    return pause_run(ctx, true);
}

enum rc cmd_part_resume(struct cmd_ctx *ctx)
{
    return pause_run(ctx, false);
}

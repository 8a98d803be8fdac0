// SPDX-License-Identifier: Apache-2.0
/* cmd_part_archive.c - PART.GAPS, PART.ARCHIVE: all that was completed. */
#include "base/mem.h"
#include "models/partition/cmd_part.h"

#include "base/banned.h"

enum { EXPORT_COUNT = 1000, EXPORT_COUNT_MAX = 10000 };

/* ---- a census ---- */

/* One step of it; RC_OK: it is over. Each step is a commit, others are served in between. */
static enum rc census_run(struct cmd_ctx *ctx, const struct part_census_options *options,
                          struct part_census **ret_census)
{
    struct cmd_request *request = ctx->request;
    struct part_job job;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    enum rc rc = cmd_part_job(ctx, &job);
    if (rc != RC_OK)
        return rc;
    if (!request->state) {
        request->state = part_census_new(&job, options);
        request->state_free = part_census_free;
    }
    *ret_census = request->state;
    return part_census_step(request->state, &job, ctx->err);
}

enum rc cmd_part_gaps(struct cmd_ctx *ctx)
{
    static const char *const kind[] = {[PART_MISSING] = "missing",
                                       [PART_TWICE] = "twice",
                                       [PART_UNREADABLE] = "unreadable",
                                       [PART_AGED] = "aged",
                                       [PART_UNKNOWN] = "unknown"};
    struct part_census_options options = {.kind = PART_GAPS};
    struct part_census *census;
    enum rc rc = RC_OK;
    for (size_t at = 2; rc == RC_OK && at < ctx->argc; at += 2) {
        bool from = cmd_arg_is(ctx->argv[at], "FROM"), to = cmd_arg_is(ctx->argv[at], "TO");
        if (at + 1 == ctx->argc || !(from || to))
            return cmd_syntax_error(ctx);
        options.has_from = options.has_from || from;
        options.has_to = options.has_to || to;
        rc = cmd_part_id(ctx, at + 1, from ? &options.from : &options.to);
    }
    if (rc == RC_OK)
        rc = census_run(ctx, &options, &census);
    if (rc != RC_OK)
        return rc;
    struct part_census_result result = part_census_result(census);
    resp_add_array(ctx->reply, result.span_count);
    for (size_t i = 0; i < result.span_count; i++) {
        resp_add_array(ctx->reply, 3);
        resp_add_text(ctx->reply, kind[result.span[i].kind]);
        resp_add_int(ctx->reply, result.span[i].min_id);
        resp_add_int(ctx->reply, result.span[i].max_id);
    }
    return RC_OK;
}

static enum rc archive_verify(struct cmd_ctx *ctx)
{
    struct part_census *census;
    enum rc rc = census_run(ctx, &(struct part_census_options){.kind = PART_VERIFY}, &census);
    if (rc != RC_OK)
        return rc;
    struct part_census_result result = part_census_result(census);
    resp_add_map(ctx->reply, 3);
    resp_add_pair(ctx->reply, "batches", result.batch_count);
    resp_add_pair(ctx->reply, "records", result.record_count);
    resp_add_text(ctx->reply, "problems");
    resp_add_array(ctx->reply, result.problem_count);
    for (size_t i = 0; i < result.problem_count; i++)
        resp_add_text(ctx->reply, result.problem[i]);
    return RC_OK;
}

/* ---- sizes, packing ---- */

static enum rc archive_status(struct cmd_ctx *ctx)
{
    struct resp_out *out = ctx->reply;
    struct part_job job;
    struct part_counts counts;
    enum rc rc = cmd_part_job(ctx, &job);
    if (rc == RC_OK)
        rc = part_counts(&job, &counts, ctx->err);
    if (rc != RC_OK)
        return rc;
    const char *strategy = counts.packed == 0    ? "simple"
                           : counts.dropped == 0 ? "compressed"
                                                 : "statistics";
    resp_add_map(out, 10);
    resp_add_text(out, "strategy");
    resp_add_text(out, strategy);
    resp_add_pair(out, "completed", counts.stat.completed);
    resp_add_pair(out, "simple", counts.simple);
    resp_add_pair(out, "packed", counts.packed);
    resp_add_pair(out, "batches", counts.batches);
    resp_add_pair(out, "bytes", counts.bytes);
    resp_add_pair(out, "json_bytes", counts.raw_bytes);
    resp_add_text(out, "bytes_per_partition");
    resp_add_double(out, counts.packed > 0 ? (double)counts.bytes / (double)counts.packed : 0);
    resp_add_text(out, "ratio");
    resp_add_double(out,
                    counts.raw_bytes > 0 ? (double)counts.bytes / (double)counts.raw_bytes : 0);
    resp_add_pair(out, "aged_out", counts.dropped);
    return RC_OK;
}

static enum rc archive_compact(struct cmd_ctx *ctx)
{
    struct cmd_request *request = ctx->request;
    struct part_job job;
    bool more;
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    enum rc rc = cmd_part_job(ctx, &job);
    if (rc != RC_OK)
        return rc;
    if (!request->state) {
        request->state = mem_zalloc(sizeof(struct part_compact));
        request->state_free = mem_free;
    }
    struct part_compact *compact = request->state;
    rc = part_compact_step(&job, compact, &more, ctx->err);
    if (rc != RC_OK)
        return rc;
    if (more)
        return RC_WAIT;
    resp_add_int(ctx->reply, (int64_t)compact->packed);
    return RC_OK;
}

/* ---- out and in ---- */

static enum rc export_parse(struct cmd_ctx *ctx, struct part_export *wanted)
{
    int64_t value;
    *wanted = (struct part_export){.form = PART_CONTAINER, .row_bytes = 29, .count = EXPORT_COUNT};
    for (size_t at = 3; at < ctx->argc; at++) {
        if (cmd_arg_is(ctx->argv[at], "FRAME")) {
            wanted->form = PART_FRAME;
            continue;
        }
        if (at + 1 == ctx->argc)
            return cmd_syntax_error(ctx);
        bool from = cmd_arg_is(ctx->argv[at], "FROM"), count = cmd_arg_is(ctx->argv[at], "COUNT");
        bool rows = cmd_arg_is(ctx->argv[at], "ROWS");
        enum rc rc = cmd_part_id(ctx, ++at, &value);
        if (rc != RC_OK)
            return rc;
        if (from)
            wanted->from = value;
        else if (count && value >= 1 && value <= EXPORT_COUNT_MAX)
            wanted->count = (uint64_t)value;
        else if (rows && (value == 25 || value == 29))
            wanted->row_bytes = (unsigned)value;
        else
            return cmd_syntax_error(ctx);
    }
    return RC_OK;
}

static enum rc archive_export(struct cmd_ctx *ctx)
{
    struct part_job job;
    struct part_export wanted;
    struct part_exported exported;
    enum rc rc = export_parse(ctx, &wanted);
    if (rc == RC_OK)
        rc = cmd_part_job(ctx, &job);
    if (rc == RC_OK)
        rc = part_export(&job, &wanted, &exported, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_map(ctx->reply, 4);
    resp_add_text(ctx->reply, "bytes");
    resp_add_bulk(ctx->reply, exported.bytes);
    resp_add_pair(ctx->reply, "records", exported.count);
    resp_add_pair(ctx->reply, "records_with_lost_fields", exported.lost_count);
    resp_add_pair(ctx->reply, "next", (uint64_t)exported.next);
    return RC_OK;
}

static enum rc archive_import(struct cmd_ctx *ctx)
{
    struct part_job job;
    uint64_t added;
    if (ctx->argc < 4)
        return cmd_syntax_error(ctx);
    size_t count = 0;
    struct part_import_worker *worker =
        arena_alloc_array(ctx->run->arena, ctx->argc, sizeof *worker);
    if (ctx->argc > 4 && (!cmd_arg_is(ctx->argv[4], "WORKER") || ctx->argc % 2 == 0))
        return cmd_syntax_error(ctx);
    enum rc rc = RC_OK;
    for (size_t at = 5; rc == RC_OK && at + 1 < ctx->argc; at += 2, count++) {
        rc = cmd_part_id(ctx, at, &worker[count].number);
        worker[count].name = ctx->argv[at + 1];
    }
    if (rc == RC_OK)
        rc = job_open(cmd_model(ctx), ctx->run, ctx->argv[1], JOB_MAKE, &job, ctx->err);
    if (rc == RC_OK)
        rc = part_import(&job, ctx->argv[3], worker, count, &added, ctx->err);
    if (rc == RC_OK)
        resp_add_int(ctx->reply, (int64_t)added);
    return rc;
}

enum rc cmd_part_archive(struct cmd_ctx *ctx)
{
    struct bytes what = ctx->argv[2];
    if (cmd_arg_is(what, "EXPORT"))
        return archive_export(ctx);
    if (cmd_arg_is(what, "IMPORT"))
        return archive_import(ctx);
    if (ctx->argc > 3)
        return cmd_syntax_error(ctx);
    if (cmd_arg_is(what, "STATUS"))
        return archive_status(ctx);
    if (cmd_arg_is(what, "COMPACT"))
        return archive_compact(ctx);
    return cmd_arg_is(what, "VERIFY") ? archive_verify(ctx) : cmd_syntax_error(ctx);
}

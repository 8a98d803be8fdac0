// SPDX-License-Identifier: Apache-2.0
/* cmd_fs_long.c - FS.*: what may meet millions of rows, and waits for a frozen view then. */
#include "models/fs/check.h"
#include "models/fs/query.h"
#include "models/fs/cmd_fs.h"

#include "base/banned.h"

/* ---- DU, TREE, FIND ---- */

enum { COLD_RUNS_MAX = 16 }; /* a page of a directory each; a view costs a flush */

typedef void answer_fn(struct resp_out *reply, const struct fs_answer *answer);

/* In this commit, if it is little; else as a job, for which the request waits. */
static enum rc query_run(struct cmd_ctx *ctx, const struct fs_query *query, answer_fn *fn)
{
    struct cmd_request *request = ctx->request;
    const struct fs_answer *answer;
    if (!request || !request->state) {
        struct fs_answer small;
        fs_answer_init(&small);
        enum rc rc = fs_query_try(cmd_model(ctx), query, &small, ctx->err);
        if (rc == RC_OK)
            fn(ctx->reply, &small);
        fs_answer_done(&small);
        if (rc == RC_COLD && request && request->step++ == COLD_RUNS_MAX)
            rc = RC_WAIT; /* it is no small one */
        if (rc != RC_WAIT || !request)
            return rc; /* RC_WAIT: runs again, as a request */
        request->state = fs_query_start(cmd_model(ctx), query);
        request->state_free = fs_query_end;
    }
    enum rc rc = fs_query_result(request->state, &request->task, &answer, ctx->err);
    if (rc == RC_OK)
        fn(ctx->reply, answer);
    return rc;
}

static void du_add(struct resp_out *reply, const struct fs_answer *answer)
{
    resp_add_map(reply, 3);
    resp_add_pair(reply, "bytes", answer->totals.bytes);
    resp_add_pair(reply, "files", answer->totals.files);
    resp_add_pair(reply, "directories", answer->totals.dirs);
}

enum rc cmd_fs_du(struct cmd_ctx *ctx)
{
    struct fs_query query = {.kind = FS_QUERY_DU, .path = ctx->argv[1], .pattern = BYTES("")};
    return query_run(ctx, &query, du_add);
}

static struct bytes line_name(const struct fs_answer *answer, const struct fs_line *line)
{
    return bytes_of(answer->names.ptr + line->name_at, line->name_len);
}

/* depth, name, type, and what is in it */
static void tree_add(struct resp_out *reply, const struct fs_answer *answer)
{
    resp_add_array(reply, answer->line_count);
    for (size_t i = 0; i < answer->line_count; i++) {
        const struct fs_line *line = &answer->line[i];
        resp_add_array(reply, 6);
        resp_add_int(reply, (int64_t)line->depth);
        resp_add_bulk(reply, line_name(answer, line));
        resp_add_bulk(reply, line->is_dir ? BYTES("directory") : BYTES("file"));
        resp_add_int(reply, (int64_t)line->totals.bytes);
        resp_add_int(reply, (int64_t)line->totals.files);
        resp_add_int(reply, (int64_t)line->totals.dirs);
    }
}

enum rc cmd_fs_tree(struct cmd_ctx *ctx)
{
    struct fs_query query = {
        .kind = FS_QUERY_TREE, .path = ctx->argv[1], .pattern = BYTES(""), .depth_max = UINT64_MAX};
    if (ctx->argc > 2) {
        int64_t depth;
        if (ctx->argc != 4 || !cmd_arg_is(ctx->argv[2], "DEPTH"))
            return cmd_syntax_error(ctx);
        enum rc rc = cmd_int_range(ctx, 3, 0, INT64_MAX, NULL, &depth);
        if (rc != RC_OK)
            return rc;
        query.depth_max = (uint64_t)depth;
    }
    return query_run(ctx, &query, tree_add);
}

static void find_add(struct resp_out *reply, const struct fs_answer *answer)
{
    resp_add_array(reply, answer->line_count);
    for (size_t i = 0; i < answer->line_count; i++)
        resp_add_bulk(reply, line_name(answer, &answer->line[i]));
}

enum rc cmd_fs_find(struct cmd_ctx *ctx)
{
    struct fs_query query = {.kind = FS_QUERY_FIND,
                             .path = ctx->argv[1],
                             .pattern = ctx->argv[2],
                             .line_count_max = UINT64_MAX};
    if (ctx->argc > 3) {
        int64_t count;
        if (ctx->argc != 5 || !cmd_arg_is(ctx->argv[3], "COUNT"))
            return cmd_syntax_error(ctx);
        enum rc rc = cmd_int_range(ctx, 4, 1, INT64_MAX, NULL, &count);
        if (rc != RC_OK)
            return rc;
        query.line_count_max = (uint64_t)count;
    }
    return query_run(ctx, &query, find_add);
}

/* ---- CHECK ---- */

static void check_add(struct resp_out *reply, const struct fs_check_result *result)
{
    static const char *const counters[] = {[FS_COUNTERS_EXACT] = "exact",
                                           [FS_COUNTERS_CHANGING] = "not compared",
                                           [FS_COUNTERS_WRONG] = "wrong",
                                           [FS_COUNTERS_REPAIRED] = "repaired"};
    resp_add_map(reply, 12);
    resp_add_pair(reply, "inodes", result->inodes);
    resp_add_pair(reply, "edges", result->edges);
    resp_add_pair(reply, "files", result->files);
    resp_add_pair(reply, "directories", result->dirs);
    resp_add_pair(reply, "bytes", result->bytes);
    resp_add_pair(reply, "graves", result->graves);
    resp_add_pair(reply, "mounts", result->mounts);
    resp_add_pair(reply, "problems", result->problems);
    resp_add_pair(reply, "repaired", result->repaired);
    resp_add_pair(reply, "left", result->left);
    resp_add_text(reply, "counters");
    resp_add_text(reply, counters[result->counters]);
    resp_add_text(reply, "examples");
    resp_add_array(reply, result->example_count);
    for (size_t i = 0; i < result->example_count; i++)
        resp_add_text(reply, result->example[i]);
}

enum rc cmd_fs_check(struct cmd_ctx *ctx)
{
    struct cmd_request *request = ctx->request;
    bool repair = ctx->argc == 2 && cmd_arg_is(ctx->argv[1], "REPAIR");
    if (ctx->argc > 2 || (ctx->argc == 2 && !repair))
        return cmd_syntax_error(ctx);
    if (!request)
        return RC_WAIT; /* runs again, as a request */
    if (!request->state) {
        request->state = fs_check_new(cmd_model(ctx), repair);
        request->state_free = fs_check_free;
    }
    enum rc rc = fs_check_step(request->state, &request->task, ctx->err);
    if (rc == RC_OK)
        check_add(ctx->reply, fs_check_result(request->state));
    return rc;
}

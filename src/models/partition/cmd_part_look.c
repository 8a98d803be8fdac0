// SPDX-License-Identifier: Apache-2.0
/* cmd_part_look.c - PART.*: looking at partitions. */
#include <math.h>

#include "models/partition/text.h"
#include "models/partition/cmd_part.h"
#include "types/number.h"

#include "base/banned.h"

enum { LIST_COUNT = 100, LIST_COUNT_MAX = 10000, DAY_BYTES = 10 };

enum rc cmd_part_get(struct cmd_ctx *ctx)
{
    struct part_job job;
    struct cmd_part_shown shown = {.out = ctx->reply};
    int64_t id;
    enum rc rc = cmd_part_id(ctx, 2, &id);
    if (rc == RC_OK)
        rc = cmd_part_job(ctx, &job);
    if (rc == RC_OK)
        rc = part_get(&job, id, cmd_part_show, &shown, ctx->err);
    if (rc != RC_NOT_FOUND)
        return rc;
    resp_add_null(ctx->reply);
    return RC_OK;
}

/* ---- lists ---- */

/* Unix seconds, or a time as records have it. */
static enum rc time_arg(struct cmd_ctx *ctx, size_t arg, int64_t *ret_s)
{
    uint8_t quoted[TEXT_TIME_BYTES];
    struct bytes word = ctx->argv[arg];
    if (number_int(word, ret_s) && *ret_s >= 0)
        return RC_OK;
    if (word.len + 2 <= sizeof quoted) {
        quoted[0] = quoted[word.len + 1] = '"';
        memcpy(quoted + 1, word.ptr, word.len);
        struct text text = text_of(bytes_of(quoted, word.len + 2));
        int64_t ms = text_get_time(&text);
        *ret_s = ms / 1000;
        if (text_is_whole(&text))
            return RC_OK;
    }
    return cmd_error(ctx, "a time is a number of unix seconds, or like 2026-11-17T02:00:00Z");
}

static enum rc statuses_parse(struct cmd_ctx *ctx, size_t *at, struct part_list *list)
{
    uint8_t status;
    size_t start = *at;
    for (; *at < ctx->argc; (*at)++) {
        if (part_status_parse(ctx->argv[*at], &status))
            list->statuses |= 1u << status;
        else if (bytes_eq(ctx->argv[*at], BYTES("aged")))
            list->statuses |= PART_LIST_AGED;
        else
            break;
    }
    if (*at == start)
        return cmd_error(ctx, "a status is pending, claimed, running, completed, failed or aged");
    return RC_OK;
}

static enum rc pair_parse(struct cmd_ctx *ctx, size_t *at, bool times, int64_t *ret_min,
                          int64_t *ret_max)
{
    if (ctx->argc - *at < 2)
        return cmd_syntax_error(ctx);
    enum rc rc = times ? time_arg(ctx, *at, ret_min) : cmd_part_id(ctx, *at, ret_min);
    if (rc == RC_OK)
        rc = times ? time_arg(ctx, *at + 1, ret_max) : cmd_part_id(ctx, *at + 1, ret_max);
    *at += 2;
    return rc;
}

static enum rc list_option(struct cmd_ctx *ctx, size_t *at, struct part_list *list)
{
    struct bytes word = ctx->argv[(*at)++];
    int64_t count;
    if (cmd_arg_is(word, "ARCHIVED")) {
        list->archived = true;
        return RC_OK;
    }
    if (*at == ctx->argc)
        return cmd_syntax_error(ctx);
    if (cmd_arg_is(word, "STATUS"))
        return statuses_parse(ctx, at, list);
    if (cmd_arg_is(word, "ID"))
        return pair_parse(ctx, at, false, &list->id_min, &list->id_max);
    if (cmd_arg_is(word, "UPDATED")) {
        list->has_updated = true;
        return pair_parse(ctx, at, true, &list->updated_min_s, &list->updated_max_s);
    }
    size_t arg = (*at)++;
    if (cmd_arg_is(word, "WORKER")) {
        list->has_worker = true;
        list->worker = ctx->argv[arg];
        return RC_OK;
    }
    if (cmd_arg_is(word, "STALE")) {
        list->has_stale = true;
        return cmd_int_range(ctx, arg, 0, INT64_MAX / 2, "STALE is a number of milliseconds",
                             &list->stale_ms);
    }
    if (cmd_arg_is(word, "CURSOR"))
        return cmd_int_range(ctx, arg, 0, INT64_MAX, "invalid cursor", &list->cursor);
    if (!cmd_arg_is(word, "COUNT"))
        return cmd_syntax_error(ctx);
    enum rc rc = cmd_int_range(ctx, arg, 1, LIST_COUNT_MAX, "COUNT is 1 to 10000", &count);
    list->count = rc == RC_OK ? (uint64_t)count : 0;
    return rc;
}

enum rc cmd_part_list(struct cmd_ctx *ctx)
{
    struct part_job job;
    struct part_list list = {.id_max = INT64_MAX, .count = LIST_COUNT};
    struct cmd_part_shown shown = {.out = ctx->reply};
    int64_t cursor;
    enum rc rc = RC_OK;
    for (size_t at = 2; rc == RC_OK && at < ctx->argc;)
        rc = list_option(ctx, &at, &list);
    if (rc == RC_OK)
        rc = cmd_part_job(ctx, &job);
    if (rc != RC_OK)
        return rc;
    size_t mark = resp_open(ctx->reply);
    rc = part_list(&job, &list, cmd_part_show, &shown, &cursor, ctx->err);
    if (rc == RC_OK)
        resp_close_page(ctx->reply, mark, cursor, shown.count);
    return rc;
}

/* ---- statistics ---- */

/* Sums of ids may need more than 63 bits: a text. */
static void add_sum(struct resp_out *out, const char *name, text_u128 value)
{
    uint8_t text[TEXT_NUMBER_BYTES];
    resp_add_text(out, name);
    resp_add_bulk(out, bytes_of(text, (size_t)(text_put_u128(text, value) - text)));
}

enum { STAT_PAIRS = 10 };
static void stat_pairs(struct resp_out *out, const struct part_stat *stat)
{
    uint64_t mean_ms = stat->timed > 0 ? (uint64_t)(stat->duration_ms / stat->timed) : 0;
    resp_add_pair(out, "completed", stat->completed);
    add_sum(out, "ids", stat->ids);
    resp_add_pair(out, "timed", stat->timed);
    add_sum(out, "duration_ms", stat->duration_ms);
    resp_add_pair(out, "mean_ms", mean_ms);
    resp_add_pair(out, "max_ms", stat->max_ms);
    resp_add_pair(out, "first", (uint64_t)stat->first_s);
    resp_add_pair(out, "last", (uint64_t)stat->last_s);
    resp_add_pair(out, "min_id", (uint64_t)stat->min_id);
    resp_add_pair(out, "max_id", (uint64_t)stat->max_id);
}

struct rows_shown {
    struct resp_out *out;
    size_t count;
};

static void row_show(void *arg, struct bytes name, const struct part_stat *stat)
{
    struct rows_shown *shown = arg;
    resp_add_bulk(shown->out, name);
    resp_add_map(shown->out, STAT_PAIRS);
    stat_pairs(shown->out, stat);
    shown->count++;
}

static enum rc rows_reply(struct cmd_ctx *ctx, struct part_job *job, enum job_key which)
{
    struct rows_shown shown = {.out = ctx->reply};
    size_t mark = resp_open(ctx->reply);
    enum rc rc = part_stats(job, which, row_show, &shown, ctx->err);
    if (rc == RC_OK)
        resp_close_map(ctx->reply, mark, shown.count);
    return rc;
}

struct days_shown { /* rows of hours come in order: a day is summed up until the next one begins */
    struct resp_out *out;
    size_t count, hours_mark, hours;
    uint8_t day[DAY_BYTES];
    struct part_stat sum;
};

static void day_end(struct days_shown *days)
{
    if (days->count == 0)
        return;
    resp_close_map(days->out, days->hours_mark, days->hours);
    stat_pairs(days->out, &days->sum);
}

static void hour_show(void *arg, struct bytes name, const struct part_stat *stat)
{
    struct days_shown *days = arg;
    if (name.len != TEXT_HOUR_BYTES)
        return;
    if (days->count == 0 || memcmp(days->day, name.ptr, DAY_BYTES) != 0) {
        day_end(days);
        memcpy(days->day, name.ptr, DAY_BYTES);
        days->sum = (struct part_stat){0};
        days->count++;
        days->hours = 0;
        resp_add_bulk(days->out, bytes_of(days->day, DAY_BYTES));
        resp_add_map(days->out, 1 + STAT_PAIRS);
        resp_add_text(days->out, "hours");
        days->hours_mark = resp_open(days->out);
    }
    resp_add_bulk(days->out, bytes_from(name, DAY_BYTES + 1));
    resp_add_int(days->out, (int64_t)stat->completed);
    days->hours++;
    part_stat_merge(&days->sum, stat);
}

static enum rc days_reply(struct cmd_ctx *ctx, struct part_job *job)
{
    struct days_shown days = {.out = ctx->reply};
    size_t mark = resp_open(ctx->reply);
    enum rc rc = part_stats(job, JOB_HOURS, hour_show, &days, ctx->err);
    if (rc != RC_OK)
        return rc;
    day_end(&days);
    resp_close_map(ctx->reply, mark, days.count);
    return RC_OK;
}

enum { COUNT_PAIRS = 6 };
static void count_pairs(struct resp_out *out, const struct part_counts *counts)
{
    resp_add_pair(out, "pending", counts->pending);
    resp_add_pair(out, "claimed", counts->claimed);
    resp_add_pair(out, "running", counts->running);
    resp_add_pair(out, "failed", counts->failed);
    resp_add_pair(out, "paused", counts->paused);
    resp_add_pair(out, "aged_out", counts->dropped);
}

static enum rc all_reply(struct cmd_ctx *ctx, struct part_job *job)
{
    static const struct {
        const char *name;
        double percent;
    } percentile[] = {{"p50_ms", 50}, {"p90_ms", 90}, {"p95_ms", 95}, {"p99_ms", 99}};
    uint64_t *histogram = arena_alloc_array(ctx->run->arena, STAT_BUCKET_COUNT, sizeof *histogram);
    struct part_counts counts;
    enum rc rc = part_counts(job, &counts, ctx->err);
    if (rc == RC_OK)
        rc = part_histogram(job, histogram, ctx->err);
    if (rc != RC_OK)
        return rc;
    resp_add_map(ctx->reply, COUNT_PAIRS + STAT_PAIRS + ARRAY_LEN(percentile));
    count_pairs(ctx->reply, &counts);
    stat_pairs(ctx->reply, &counts.stat);
    for (size_t i = 0; i < ARRAY_LEN(percentile); i++) {
        int64_t ms = part_percentile(histogram, percentile[i].percent);
        resp_add_pair(ctx->reply, percentile[i].name, ms > 0 ? (uint64_t)ms : 0);
    }
    return RC_OK;
}

enum rc cmd_part_stats(struct cmd_ctx *ctx)
{
    struct part_job job;
    if (ctx->argc > 3)
        return cmd_arity_error(ctx);
    enum rc rc = cmd_part_job(ctx, &job);
    if (rc != RC_OK)
        return rc;
    if (ctx->argc == 2)
        return all_reply(ctx, &job);
    if (cmd_arg_is(ctx->argv[2], "WORKERS"))
        return rows_reply(ctx, &job, JOB_WORKERS);
    if (cmd_arg_is(ctx->argv[2], "RANGES"))
        return rows_reply(ctx, &job, JOB_RANGES);
    return cmd_arg_is(ctx->argv[2], "DAYS") ? days_reply(ctx, &job) : cmd_syntax_error(ctx);
}

struct jobs_shown {
    struct cmd_ctx *ctx;
    size_t count;
};

static enum rc job_show(void *arg, struct bytes name, struct err *err)
{
    struct jobs_shown *shown = arg;
    struct cmd_ctx *ctx = shown->ctx;
    struct part_job job;
    struct part_counts counts;
    enum rc rc = job_open(cmd_model(ctx), ctx->run, name, JOB_DROP, &job, err);
    if (rc == RC_OK && job.dropping)
        return RC_OK;
    if (rc == RC_OK)
        rc = part_counts(&job, &counts, err);
    if (rc != RC_OK)
        return rc;
    resp_add_bulk(ctx->reply, name);
    resp_add_map(ctx->reply, COUNT_PAIRS + 1);
    count_pairs(ctx->reply, &counts);
    resp_add_pair(ctx->reply, "completed", counts.stat.completed);
    shown->count++;
    return RC_OK;
}

enum rc cmd_part_jobs(struct cmd_ctx *ctx)
{
    struct jobs_shown shown = {.ctx = ctx};
    size_t mark = resp_open(ctx->reply);
    enum rc rc = part_jobs(cmd_model(ctx), ctx->run, job_show, &shown, ctx->err);
    if (rc == RC_OK)
        resp_close_map(ctx->reply, mark, shown.count);
    return rc;
}

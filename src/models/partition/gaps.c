// SPDX-License-Identifier: Apache-2.0
/* gaps.c - PART.GAPS: which ids no completed partition covers, and which more than one.
 *
 * What is covered is a list of spans. Partitions that were cut in order make it one span, whatever
 * their number. */
#include "base/mem.h"
#include "models/partition/census_int.h"

#include "base/banned.h"

enum { SPANS_MAX = 2 * 1000 * 1000, RESULT_MAX = 1000, AGED_STEP = 2000 };

/* The first span that ends at or behind this id. */
static size_t spans_find(const struct spans *spans, int64_t id)
{
    size_t low = 0, high = spans->count;
    if (high > 0 && spans->span[high - 1].max_id < id)
        return high; /* most come in order */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (spans->span[middle].max_id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum rc spans_insert(struct spans *spans, size_t at, int64_t min_id, int64_t max_id,
                            struct err *err)
{
    if (spans->count == SPANS_MAX)
        return err_set(err, RC_TOO_BIG,
                       "the ranges lie too far apart to be looked at together: use FROM and TO");
    if (spans->count == spans->cap) {
        spans->cap = spans->cap ? 2 * spans->cap : 64;
        spans->span = mem_realloc(spans->span, spans->cap * sizeof *spans->span);
    }
    memmove(spans->span + at + 1, spans->span + at, (spans->count - at) * sizeof *spans->span);
    spans->span[at] = (struct part_span){.min_id = min_id, .max_id = max_id};
    spans->count++;
    return RC_OK;
}

/* The union; `overlap` (may be NULL) gets what was there before. */
static enum rc spans_add(struct spans *spans, int64_t min_id, int64_t max_id, struct spans *overlap,
                         struct err *err)
{
    size_t first = spans_find(spans, min_id > 0 ? min_id - 1 : 0), end = first;
    int64_t low = min_id, high = max_id;
    enum rc rc = RC_OK;
    for (; end < spans->count; end++) {
        const struct part_span *span = &spans->span[end];
        if (max_id < INT64_MAX && span->min_id > max_id + 1)
            break;
        int64_t from = span->min_id > min_id ? span->min_id : min_id;
        int64_t to = span->max_id < max_id ? span->max_id : max_id;
        if (overlap && from <= to)
            rc = spans_add(overlap, from, to, NULL, err);
        if (rc != RC_OK)
            return rc;
        low = span->min_id < low ? span->min_id : low;
        high = span->max_id > high ? span->max_id : high;
    }
    if (end == first)
        return spans_insert(spans, first, min_id, max_id, err);
    spans->span[first] = (struct part_span){.min_id = low, .max_id = high};
    memmove(spans->span + first + 1, spans->span + end, (spans->count - end) * sizeof *spans->span);
    spans->count -= end - first - 1;
    return RC_OK;
}

/* What of it is asked about; false: nothing. */
static bool bounds_cut(const struct part_census_options *options, int64_t *min_id, int64_t *max_id)
{
    if (options->has_from && *min_id < options->from)
        *min_id = options->from;
    if (options->has_to && *max_id > options->to)
        *max_id = options->to;
    return *min_id <= *max_id;
}

enum rc gaps_count(struct part_census *census, const struct part_info *info, struct err *err)
{
    int64_t min_id = info->min_id, max_id = info->max_id;
    return bounds_cut(&census->options, &min_id, &max_id)
               ? spans_add(&census->covered, min_id, max_id, &census->twice, err)
               : RC_OK;
}

enum rc gaps_unreadable(struct part_census *census, int64_t min_id, int64_t max_id, struct err *err)
{
    return bounds_cut(&census->options, &min_id, &max_id)
               ? spans_add(&census->unreadable, min_id, max_id, NULL, err)
               : RC_OK;
}

/* Nothing ages out while a census runs. A step that is taken back adds the same again. */
enum rc gaps_aged(struct part_census *census, struct part_job *job, struct err *err)
{
    const struct part_census_options *options = &census->options;
    int64_t cursor = census->aged_cursor;
    enum rc rc = RC_OK;
    if (cursor == 0 && options->has_from)
        cursor = options->from;
    for (int i = 0; rc == RC_OK && !census->aged_through && i < AGED_STEP; i++) {
        struct aged_span span;
        rc = aged_from(job, JOB_AGED, cursor, &span, err);
        census->aged_through =
            rc == RC_NOT_FOUND ||
            (rc == RC_OK && span.max_id >= (options->has_to ? options->to : INT64_MAX));
        if (rc != RC_OK)
            break;
        cursor = span.max_id < INT64_MAX ? span.max_id + 1 : span.max_id;
        if (bounds_cut(options, &span.min_id, &span.max_id))
            rc = spans_add(&census->aged, span.min_id, span.max_id, NULL, err);
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    census->aged_cursor = cursor;
    return census->aged_through ? RC_OK : RC_WAIT;
}

/* ---- the answer ---- */

struct holes { /* what no span covers, from `next` up to `to` */
    enum part_span_kind kind;
    const struct spans *covered;
    size_t at;
    int64_t next, to;
    bool over;
};

static bool hole_next(struct holes *holes, struct part_span *ret_hole)
{
    while (!holes->over) {
        int64_t from = holes->next;
        const struct part_span *span =
            holes->at < holes->covered->count ? &holes->covered->span[holes->at++] : NULL;
        if (!span || span->min_id > holes->to) {
            holes->over = true;
            *ret_hole = (struct part_span){from, holes->to, holes->kind};
            return from <= holes->to;
        }
        holes->over = span->max_id >= holes->to;
        if (!holes->over && span->max_id >= from)
            holes->next = span->max_id + 1;
        if (span->min_id > from) {
            *ret_hole = (struct part_span){from, span->min_id - 1, holes->kind};
            return true;
        }
    }
    return false;
}

struct list { /* spans of one kind */
    const struct spans *spans;
    enum part_span_kind kind;
    size_t at;
};

static bool list_next(struct list *list, struct part_span *ret_span)
{
    if (list->at == list->spans->count)
        return false;
    *ret_span = list->spans->span[list->at++];
    ret_span->kind = list->kind;
    return true;
}

/* What aged out was covered, and what is unreadable is not missing. */
static enum rc covered_end(struct part_census *census, struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < census->aged.count; i++) {
        const struct part_span *span = &census->aged.span[i];
        rc = spans_add(&census->covered, span->min_id, span->max_id, &census->twice, err);
    }
    for (size_t i = 0; rc == RC_OK && i < census->unreadable.count; i++) {
        const struct part_span *span = &census->unreadable.span[i];
        rc = spans_add(&census->covered, span->min_id, span->max_id, NULL, err);
    }
    return rc;
}

/* All kinds in order of their ids. */
static void result_make(struct part_census *census, struct holes *holes)
{
    enum { LISTS = 3, HEADS = LISTS + 1 };
    struct list list[LISTS] = {{&census->twice, PART_TWICE, 0},
                               {&census->unreadable, PART_UNREADABLE, 0},
                               {&census->aged, PART_AGED, 0}};
    struct part_span head[HEADS];
    bool has[HEADS];
    for (size_t i = 0; i < LISTS; i++)
        has[i] = list_next(&list[i], &head[i]);
    has[LISTS] = hole_next(holes, &head[LISTS]);
    census->result.span = mem_alloc(RESULT_MAX * sizeof *census->result.span);
    for (;;) {
        size_t first = HEADS;
        for (size_t i = 0; i < HEADS; i++)
            if (has[i] && (first == HEADS || head[i].min_id < head[first].min_id))
                first = i;
        census->span_more = first < HEADS && census->result.count == RESULT_MAX;
        if (first == HEADS || census->span_more)
            return;
        census->result.span[census->result.count++] = head[first];
        has[first] =
            first < LISTS ? list_next(&list[first], &head[first]) : hole_next(holes, &head[first]);
    }
}

/* Without bounds: all ids that any partition of the job ever had. */
enum rc gaps_end(struct part_census *census, struct part_job *job, struct err *err)
{
    const struct part_census_options *options = &census->options;
    struct bytes text;
    struct part_stat all = {0};
    int64_t from = options->from, to = options->to, noted = 0;
    bool any = true;
    enum rc rc = RC_OK;
    if (!options->has_from || !options->has_to) {
        rc = job_get(job, JOB_META, JOB_MIN_ID, &text, err);
        any = rc == RC_OK;
        rc = rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    if (rc == RC_OK && !options->has_from)
        rc = job_number(job, JOB_MIN_ID, &from, err);
    if (rc == RC_OK && !options->has_to)
        rc = job_number(job, JOB_MAX_ID, &to, err);
    if (rc == RC_OK)
        rc = job_stat(job, JOB_STATS, JOB_STAT_ALL, &all, err);
    if (rc == RC_OK)
        rc = job_number(job, JOB_AGED_COUNT, &noted, err);
    if (rc == RC_OK)
        rc = covered_end(census, err);
    if (rc != RC_OK)
        return rc;
    bool all_noted =
        all.dropped <= (uint64_t)noted; /* older versions have dropped without a note */
    struct holes holes = {.kind = all_noted ? PART_MISSING : PART_UNKNOWN,
                          .covered = &census->covered,
                          .next = from,
                          .to = to,
                          .over = !any || from > to};
    result_make(census, &holes);
    return RC_OK;
}

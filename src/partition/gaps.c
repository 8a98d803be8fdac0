/* gaps.c - PART.GAPS: which ids no completed partition covers, and which more than one.
 *
 * What is covered is a list of spans. Partitions that were cut in order make it one span, whatever
 * their number. */
#include "base/mem.h"
#include "partition/census_int.h"

#include "base/banned.h"

enum { SPANS_MAX = 2 * 1000 * 1000, RESULT_MAX = 1000 };

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

/* ---- the answer ---- */

struct holes { /* what no span covers, from `next` up to `to` */
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
            *ret_hole = (struct part_span){from, holes->to, PART_MISSING};
            return from <= holes->to;
        }
        holes->over = span->max_id >= holes->to;
        if (!holes->over && span->max_id >= from)
            holes->next = span->max_id + 1;
        if (span->min_id > from) {
            *ret_hole = (struct part_span){from, span->min_id - 1, PART_MISSING};
            return true;
        }
    }
    return false;
}

static bool list_next(const struct spans *spans, size_t *at, enum part_span_kind kind,
                      struct part_span *ret_span)
{
    if (*at == spans->count)
        return false;
    *ret_span = spans->span[(*at)++];
    ret_span->kind = kind;
    return true;
}

/* All kinds in order of their ids. What is unreadable is not missing. */
static enum rc result_make(struct part_census *census, int64_t from, int64_t to, struct err *err)
{
    struct part_span head[3];
    size_t at[2] = {0};
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < census->unreadable.count; i++) {
        const struct part_span *span = &census->unreadable.span[i];
        rc = spans_add(&census->covered, span->min_id, span->max_id, NULL, err);
    }
    if (rc != RC_OK)
        return rc;
    struct holes holes = {.covered = &census->covered, .next = from, .to = to, .over = from > to};
    bool has[3] = {hole_next(&holes, &head[0]),
                   list_next(&census->twice, &at[0], PART_TWICE, &head[1]),
                   list_next(&census->unreadable, &at[1], PART_UNREADABLE, &head[2])};
    census->result.span = mem_alloc(RESULT_MAX * sizeof *census->result.span);
    for (;;) {
        size_t first = ARRAY_LEN(head);
        for (size_t i = 0; i < ARRAY_LEN(head); i++)
            if (has[i] && (first == ARRAY_LEN(head) || head[i].min_id < head[first].min_id))
                first = i;
        census->span_more = first < ARRAY_LEN(head) && census->result.count == RESULT_MAX;
        if (first == ARRAY_LEN(head) || census->span_more)
            return RC_OK;
        census->result.span[census->result.count++] = head[first];
        if (first == 0)
            has[0] = hole_next(&holes, &head[0]);
        else if (first == 1)
            has[1] = list_next(&census->twice, &at[0], PART_TWICE, &head[1]);
        else
            has[2] = list_next(&census->unreadable, &at[1], PART_UNREADABLE, &head[2]);
    }
}

/* Without bounds: all ids that any partition of the job ever had. */
enum rc gaps_end(struct part_census *census, struct part_job *job, struct err *err)
{
    const struct part_census_options *options = &census->options;
    struct bytes text;
    int64_t from = options->from, to = options->to;
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
    if (rc != RC_OK)
        return rc;
    if (!any)
        to = from - 1;
    return result_make(census, from, to, err);
}

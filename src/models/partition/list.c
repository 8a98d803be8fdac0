// SPDX-License-Identifier: Apache-2.0
/* list.c - PART.GET and PART.LIST: one record, or a page of them in order of ids, from all layers.
 *
 * A page merges three sources by id. Rows of hashes are read and compared one by one. Batches are
 * left out by their row of the index, then by the header and the columns of their frame: only
 * records that match are read. A batch that cannot be read is shown as that, in its place, and so
 * are ids whose partitions have aged out. */
#include "models/partition/idwalk.h"
#include "models/partition/part_int.h"

#include "base/banned.h"

enum {
    LIST_LOOK_ROWS = 20000,        /* of partitions and completed, looked at for one page */
    LIST_LOOK_BATCHES = 100,       /* opened for one page */
    LIST_LOOK_INDEX = 2000,        /* rows of the index, passed over for one page */
    LIST_BYTES = 16 * 1024 * 1024, /* of JSON, read or written for one page */
    LIST_AHEAD = 16,               /* batches that are asked for when one is cold */
    LIST_COLD_ROWS = 100,          /* looked at: the page ends at the next cold one */
    READ_MAX = 64,                 /* records read at once */
    BROKEN_BYTES = 3 * TEXT_NUMBER_BYTES + 100,
    HASH_SOURCES = 2,
    AGED_BYTES = 2 * TEXT_NUMBER_BYTES + 50,
};

/* ---- one ---- */

static enum rc json_show(struct part_job *job, const struct part_info *info, part_show_fn *show,
                         void *arg, struct err *err)
{
    struct buf *json = &job->part->json;
    buf_cut(json, 0);
    if (!part_info_write(info, json))
        return err_set(err, RC_NOMEM, "could not allocate memory for a record");
    show(arg, buf_bytes(json));
    return RC_OK;
}

/* {"partition_id":7,"status":"completed","aged_out":true,"range":{...}} */
static enum rc aged_out_show(struct part_job *job, int64_t id, part_show_fn *show, void *arg,
                             struct err *err)
{
    uint8_t row[STAT_BYTES_MAX], text[STAT_BYTES_MAX + 256];
    struct job_field range = job_field(part_stat_range(id));
    struct part_stat stat;
    bool dropped;
    enum rc rc = dropped_has(job, id, &dropped, err);
    if (rc == RC_OK && !dropped)
        return RC_NOT_FOUND;
    if (rc == RC_OK)
        rc = job_stat(job, JOB_RANGES, job_field_bytes(&range), &stat, err);
    if (rc != RC_OK)
        return rc;
    uint8_t *at = text_put(text, BYTES("{\"partition_id\":"));
    at = text_put_u64(at, (uint64_t)id);
    at = text_put(at, BYTES(",\"status\":\"completed\",\"aged_out\":true,\"range_from\":"));
    at = text_put(at, job_field_bytes(&range));
    at = text_put(at, BYTES(",\"range\":"));
    at = text_put(at, part_stat_write(&stat, row));
    *at++ = '}';
    show(arg, bytes_of(text, (size_t)(at - text)));
    return RC_OK;
}

enum rc part_get(struct part_job *job, int64_t id, part_show_fn *show, void *arg, struct err *err)
{
    struct part_info info;
    enum rc rc = part__find(job, id, &info, err);
    if (rc == RC_NOT_FOUND)
        return aged_out_show(job, id, show, arg, err);
    return rc == RC_OK ? json_show(job, &info, show, arg, err) : rc;
}

/* ---- a page ---- */

struct source { /* a hash of records, in order of ids */
    enum job_key which;
    struct idwalk walk;
    bool open, has;
    bool ends;  /* it was looked at enough: the page ends there, before what comes next */
    int64_t id; /* the next one, if it has any */
};

struct packed { /* the batches, in order of ids */
    bool has, in_batch;
    bool broken; /* what comes next is a batch that cannot be read, for the reason `why` */
    int64_t id;  /* the next one, if it has any */
    int64_t low; /* lower ids of this batch have been passed */
    int64_t from;
    struct batch_row row;
    struct part_batch *batch;
    struct part_filter filter;
    size_t scan_at, count, next; /* record[next] to record[count - 1] are still to be shown */
    struct part_record record[READ_MAX];
    uint32_t worker; /* the last one that was shown, and its name */
    struct bytes worker_name;
    struct err why;
};

struct aged { /* the next interval in which partitions have aged out */
    bool has;
    struct aged_span span;
};

struct page {
    struct part_job *job;
    const struct part_list *list;
    part_show_fn *show;
    void *arg;
    uint64_t shown;
    size_t looked, opened, passed, bytes;
    struct source source[HASH_SOURCES];
    size_t source_count;
    struct packed packed;
    struct aged aged;
};

static bool matches(const struct page *page, const struct part_info *info)
{
    const struct part_list *list = page->list;
    int64_t updated_s = info->updated_ms / 1000;
    if (list->statuses != 0 && !(list->statuses & 1u << info->status))
        return false;
    if (list->has_worker && !bytes_eq(list->worker, info->worker))
        return false;
    if (list->has_updated && (updated_s < list->updated_min_s || updated_s > list->updated_max_s))
        return false;
    if (!list->has_stale)
        return true;
    return (info->status == PART_CLAIMED || info->status == PART_RUNNING) &&
           info->heartbeat_ms <= (int64_t)page->job->run.now_ms - list->stale_ms;
}

/* ---- hashes ---- */

static enum rc source_next(struct source *source, struct page *page, struct err *err)
{
    struct bytes json;
    size_t steps = source->walk.steps;
    source->walk.steps_max = steps + LIST_LOOK_ROWS;
    enum rc rc = idwalk_next(&source->walk, &source->id, &json, err);
    page->looked += source->walk.steps - steps;
    if (rc == RC_WAIT || (rc == RC_COLD && source->walk.steps > LIST_COLD_ROWS)) {
        source->ends = true; /* cold: all of it would be read again */
        source->id = source->walk.next_id;
        rc = RC_OK;
    }
    source->has = rc == RC_OK && source->id <= page->list->id_max;
    if (source->ends)
        return rc;
    page->bytes += rc == RC_OK ? json.len : 0;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc source_open(struct source *source, struct page *page, int64_t from, struct err *err)
{
    struct key *key;
    enum rc rc = job_key(page->job, source->which, &key, err);
    if (rc != RC_OK)
        return rc;
    idwalk_init(&source->walk, key, from);
    source->open = true;
    return source_next(source, page, err);
}

static enum rc source_show(struct source *source, struct page *page, struct err *err)
{
    struct part_info info;
    enum rc rc = job_info(page->job, source->which, source->id, &info, err);
    if (rc == RC_OK && matches(page, &info)) {
        rc = json_show(page->job, &info, page->show, page->arg, err);
        page->shown++;
    }
    if (rc == RC_OK)
        rc = source_next(source, page, err);
    return rc;
}

/* ---- batches ---- */

static bool page_is_worn(const struct page *page)
{
    return page->looked >= LIST_LOOK_ROWS || page->bytes >= LIST_BYTES ||
           page->opened >= LIST_LOOK_BATCHES || page->passed >= LIST_LOOK_INDEX;
}

/* Whether the index lets the batch be passed over. */
static bool row_is_out(const struct page *page, const struct batch_row *row)
{
    const struct part_list *list = page->list;
    return list->has_updated &&
           (row->to_s < list->updated_min_s || row->from_s > list->updated_max_s);
}

/* What comes behind a cold batch is asked for with it. */
static void ahead_want(struct page *page, int64_t from)
{
    struct err ignored;
    struct batch_row row;
    for (size_t i = 0; i < LIST_AHEAD && from >= 0; i++) {
        if (batch_from(page->job, from, &row, &ignored) != RC_OK || row.min_id > page->list->id_max)
            return;
        if (!row_is_out(page, &row) && !part_cache_has(&page->job->part->cache, row.key))
            (void)!batch_want(page->job, row.number, &ignored);
        from = row.max_id < INT64_MAX ? row.max_id + 1 : -1;
    }
}

/* An error of the batch: it is shown in its place. */
static enum rc packed_break(struct page *page, enum rc rc, const struct err *err)
{
    struct packed *packed = &page->packed;
    if (page->list->strict || (rc != RC_CORRUPT && rc != RC_VERSION))
        return rc;
    packed->in_batch = packed->broken = packed->has = true;
    packed->id = packed->low;
    packed->next = packed->count = 0;
    packed->scan_at = packed->row.count;
    packed->why = *err;
    return RC_OK;
}

/* The next batch that may have something; `in_batch` false: there is none, or the page has looked
 * at enough (then `has`, and the cursor goes on from `id`). */
static enum rc packed_open(struct page *page, struct err *err)
{
    struct packed *packed = &page->packed;
    enum rc rc = RC_OK;
    packed->has = packed->in_batch = packed->broken = false;
    while (packed->from >= 0) {
        rc = batch_holding(page->job, packed->from, &packed->row, err);
        if (rc == RC_NOT_FOUND || (rc == RC_OK && packed->row.min_id > page->list->id_max)) {
            packed->from = -1;
            return RC_OK;
        }
        if (rc != RC_OK)
            return rc;
        int64_t first = packed->row.min_id > packed->from ? packed->row.min_id : packed->from;
        if (page_is_worn(page)) {
            packed->has = true;
            packed->id = first;
            return RC_OK;
        }
        packed->filter.id_min = first;
        packed->filter.has_id =
            first > packed->row.min_id || packed->row.max_id > page->list->id_max;
        packed->from = packed->row.max_id < INT64_MAX ? packed->row.max_id + 1 : -1;
        page->passed++;
        if (row_is_out(page, &packed->row))
            continue;
        page->opened++;
        packed->scan_at = packed->count = packed->next = 0;
        packed->in_batch = true;
        packed->low = first;
        rc = batch_open(page->job, &packed->row, &packed->batch, err);
        if (rc == RC_COLD)
            ahead_want(page, packed->from);
        return rc == RC_OK ? rc : packed_break(page, rc, err);
    }
    return RC_OK;
}

/* Reads records that match, not many more than the page can show. */
static enum rc packed_read(struct page *page, struct err *err)
{
    struct packed *packed = &page->packed;
    uint32_t position[READ_MAX];
    uint64_t room = page->list->count - page->shown + 1;
    packed->next = 0;
    packed->count = part_batch_scan(packed->batch, &packed->filter, &packed->scan_at, position,
                                    room < READ_MAX ? (size_t)room : READ_MAX);
    enum rc rc = part_batch_read(packed->batch, position, packed->count, packed->record, err);
    if (rc == RC_CORRUPT || rc == RC_VERSION)
        batch_error(page->job, &packed->row, err);
    return rc == RC_OK ? rc : packed_break(page, rc, err);
}

/* The record that comes next, in this batch or in one behind it. */
static enum rc packed_next(struct page *page, struct err *err)
{
    struct packed *packed = &page->packed;
    for (;;) {
        if (packed->broken)
            return RC_OK;
        if (packed->in_batch && packed->next < packed->count) {
            packed->has = true;
            packed->id = packed->record[packed->next].id;
            return RC_OK;
        }
        enum rc rc = packed->in_batch && packed->scan_at < packed->row.count
                         ? packed_read(page, err)
                         : packed_open(page, err);
        if (rc != RC_OK || !packed->in_batch)
            return rc;
    }
}

static enum rc packed_begin(struct page *page, int64_t from, struct err *err)
{
    const struct part_list *list = page->list;
    struct packed *packed = &page->packed;
    struct part_filter filter = {.statuses = list->statuses,
                                 .id_max = list->id_max,
                                 .has_worker = list->has_worker,
                                 .has_updated = list->has_updated,
                                 .updated_min_s = list->updated_min_s,
                                 .updated_max_s = list->updated_max_s};
    packed->from = from;
    if (list->has_stale)
        return RC_OK; /* nothing that is completed is stale */
    if (list->has_worker) {
        enum rc rc = job_worker_number(page->job, list->worker, false, &filter.worker, err);
        if (rc != RC_OK)
            return rc == RC_NOT_FOUND ? RC_OK : rc; /* nothing of it was ever packed */
    }
    packed->filter = filter;
    return packed_next(page, err);
}

static enum rc broken_show(struct page *page, struct err *err)
{
    struct packed *packed = &page->packed;
    struct buf *json = &page->job->part->json;
    struct bytes key = batch_key_name(page->job, &packed->row);
    struct bytes why = bytes_of(packed->why.text, strlen(packed->why.text));
    buf_cut(json, 0);
    if (!buf_reserve(json, BROKEN_BYTES + (key.len + why.len) * TEXT_ESCAPE_FACTOR))
        return err_set(err, RC_NOMEM, "could not allocate memory for a record");
    uint8_t *at = text_put(json->ptr, BYTES("{\"unreadable\":"));
    at = text_put_string(at, key);
    at = text_put(at, BYTES(",\"from_id\":"));
    at = text_put_u64(at, (uint64_t)packed->low);
    at = text_put(at, BYTES(",\"to_id\":"));
    at = text_put_u64(at, (uint64_t)packed->row.max_id);
    at = text_put(at, BYTES(",\"records\":"));
    at = text_put_u64(at, packed->row.count);
    at = text_put(at, BYTES(",\"error\":"));
    at = text_put_string(at, why);
    *at++ = '}';
    json->len = (size_t)(at - json->ptr);
    page->show(page->arg, buf_bytes(json));
    page->shown++;
    page->bytes += json->len;
    return packed_open(page, err);
}

static enum rc packed_show(struct page *page, struct err *err)
{
    struct packed *packed = &page->packed;
    const struct part_record *record = &packed->record[packed->next];
    enum rc rc = RC_OK;
    ASSERT(packed->in_batch);
    if (packed->broken) {
        rc = broken_show(page, err);
        return rc == RC_OK && packed->in_batch ? packed_next(page, err) : rc;
    }
    if (!packed->worker_name.ptr || record->worker != packed->worker)
        rc = job_worker_name(page->job, record->worker, &packed->worker_name, err);
    if (rc != RC_OK)
        return rc;
    packed->worker = record->worker;
    struct part_info info = part_info_of_record(record, packed->worker_name);
    rc = json_show(page->job, &info, page->show, page->arg, err);
    page->shown++;
    page->bytes += page->job->part->json.len;
    packed->low = record->id + (record->id < INT64_MAX);
    packed->next++;
    return rc == RC_OK ? packed_next(page, err) : rc;
}

/* ---- what has aged out ---- */

static bool aged_is_wanted(const struct part_list *list)
{
    if (list->statuses != 0)
        return list->statuses & PART_LIST_AGED;
    return list->archived && !list->has_worker && !list->has_updated && !list->has_stale;
}

static enum rc aged_next(struct page *page, int64_t from, struct err *err)
{
    struct aged *aged = &page->aged;
    aged->has = false;
    if (from > page->list->id_max)
        return RC_OK;
    enum rc rc = aged_from(page->job, JOB_DROPPED, from, &aged->span, err);
    aged->has = rc == RC_OK && aged->span.min_id <= page->list->id_max;
    if (aged->has && aged->span.min_id < from)
        aged->span.min_id = from; /* the page before has shown the rest */
    if (aged->has && aged->span.max_id > page->list->id_max)
        aged->span.max_id = page->list->id_max;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc aged_show(struct page *page, struct err *err)
{
    uint8_t text[AGED_BYTES];
    struct aged *aged = &page->aged;
    uint8_t *at = text_put(text, BYTES("{\"aged_out\":true,\"from_id\":"));
    at = text_put_u64(at, (uint64_t)aged->span.min_id);
    at = text_put(at, BYTES(",\"to_id\":"));
    at = text_put_u64(at, (uint64_t)aged->span.max_id);
    *at++ = '}';
    page->show(page->arg, bytes_of(text, (size_t)(at - text)));
    page->shown++;
    aged->has = aged->span.max_id < INT64_MAX;
    return aged->has ? aged_next(page, aged->span.max_id + 1, err) : RC_OK;
}

/* ---- merging ---- */

static enum rc page_fill(struct page *page, int64_t *ret_cursor, struct err *err)
{
    enum rc rc = RC_OK;
    *ret_cursor = 0;
    while (rc == RC_OK) {
        struct source *next = NULL;
        for (size_t i = 0; i < page->source_count; i++)
            if (page->source[i].has && (!next || page->source[i].id < next->id))
                next = &page->source[i];
        bool packed = page->packed.has && (!next || page->packed.id < next->id);
        int64_t id = packed ? page->packed.id : next ? next->id : INT64_MAX;
        bool aged = page->aged.has && page->aged.span.min_id <= id;
        if (!next && !packed && !aged)
            break;
        bool ends = aged ? false : packed ? !page->packed.in_batch : next->ends;
        if (ends || page->shown >= page->list->count || page->looked >= LIST_LOOK_ROWS ||
            page->bytes >= LIST_BYTES) {
            *ret_cursor = aged ? page->aged.span.min_id : id;
            break;
        }
        rc = aged     ? aged_show(page, err)
             : packed ? packed_show(page, err)
                      : source_show(next, page, err);
    }
    return rc;
}

enum rc part_list(struct part_job *job, const struct part_list *list, part_show_fn *show, void *arg,
                  int64_t *ret_cursor, struct err *err)
{
    struct page page = {.job = job,
                        .list = list,
                        .show = show,
                        .arg = arg,
                        .source = {{.which = JOB_PARTITIONS}, {.which = JOB_COMPLETED}}};
    bool completed = list->archived || list->statuses & 1u << PART_COMPLETED;
    int64_t from = list->cursor > list->id_min ? list->cursor : list->id_min;
    enum rc rc = RC_OK;
    page.source_count = completed ? HASH_SOURCES : list->statuses == PART_LIST_AGED ? 0 : 1;
    *ret_cursor = 0;
    for (size_t i = 0; rc == RC_OK && i < page.source_count; i++)
        rc = source_open(&page.source[i], &page, from, err);
    if (rc == RC_OK && completed)
        rc = packed_begin(&page, from, err);
    if (rc == RC_OK && aged_is_wanted(list))
        rc = aged_next(&page, from, err);
    if (rc == RC_OK)
        rc = page_fill(&page, ret_cursor, err);
    for (size_t i = 0; i < page.source_count; i++)
        if (page.source[i].open)
            idwalk_done(&page.source[i].walk);
    return rc;
}

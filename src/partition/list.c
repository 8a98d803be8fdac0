/* list.c - PART.GET and PART.LIST: one record, or a page of them in order of ids, from all layers.
 */
#include "partition/part.h"

#include "partition/idwalk.h"
#include "partition/part_int.h"

#include "base/banned.h"

enum { LIST_LOOK_ROWS = 20000 /* of partitions and completed, looked at for one page */ };

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

enum rc part_get(struct part_job *job, int64_t id, part_show_fn *show, void *arg, struct err *err)
{
    struct part_info info;
    enum rc rc = part__find(job, id, &info, err);
    return rc == RC_OK ? json_show(job, &info, show, arg, err) : rc;
}

/* ---- a page ---- */

struct source { /* a hash of records, in order of ids */
    enum job_key which;
    struct idwalk walk;
    bool open, has;
    int64_t id; /* the next one, if it has any */
};

struct page {
    struct part_job *job;
    const struct part_list *list;
    part_show_fn *show;
    void *arg;
    uint64_t shown;
    size_t looked;
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
           info->heartbeat_ms <= (int64_t)page->job->kv->now_ms - list->stale_ms;
}

static enum rc source_next(struct source *source, struct page *page, struct err *err)
{
    struct bytes json;
    enum rc rc = idwalk_next(&source->walk, &source->id, &json, err);
    source->has = rc == RC_OK && source->id <= page->list->id_max;
    page->looked++;
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

static bool page_is_full(const struct page *page)
{
    return page->shown >= page->list->count || page->looked >= LIST_LOOK_ROWS;
}

static enum rc page_fill(struct page *page, struct source *source, size_t count,
                         int64_t *ret_cursor, struct err *err)
{
    enum rc rc = RC_OK;
    *ret_cursor = 0;
    while (rc == RC_OK) {
        struct source *next = NULL;
        for (size_t i = 0; i < count; i++)
            if (source[i].has && (!next || source[i].id < next->id))
                next = &source[i];
        if (!next)
            break;
        if (page_is_full(page)) {
            *ret_cursor = next->id;
            break;
        }
        rc = source_show(next, page, err);
    }
    return rc;
}

enum rc part_list(struct part_job *job, const struct part_list *list, part_show_fn *show, void *arg,
                  int64_t *ret_cursor, struct err *err)
{
    struct page page = {.job = job, .list = list, .show = show, .arg = arg};
    struct source source[2] = {{.which = JOB_PARTITIONS}, {.which = JOB_COMPLETED}};
    bool completed = list->archived || list->statuses & 1u << PART_COMPLETED;
    size_t count = completed ? 2 : 1;
    int64_t from = list->cursor > list->id_min ? list->cursor : list->id_min;
    enum rc rc = RC_OK;
    *ret_cursor = 0;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = source_open(&source[i], &page, from, err);
    if (rc == RC_OK)
        rc = page_fill(&page, source, count, ret_cursor, err);
    for (size_t i = 0; i < count; i++)
        if (source[i].open)
            idwalk_done(&source[i].walk);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* queue.c - TASK.*: lists, hashes and sorted sets of a type's tasks, changed together. */
#include "models/tile/queue.h"

#include <stdio.h>

#include "models/tile/queue_int.h"
#include "types/list.h"
#include "types/set.h"
#include "types/zset.h"

#include "base/banned.h"

static const struct bytes bad_key = BYTES_INIT("queue:bad");

static int64_t now_ms(const struct queue *queue)
{
    return (int64_t)queue->run->now_ms;
}

static enum rc element_push(const struct queue *queue, struct bytes name, struct bytes element,
                            struct err *err)
{
    struct list list;
    enum rc rc = list_write(queue->run, name, &list, err);
    if (rc == RC_OK)
        rc = list_push(&list, LIST_HEAD, &element, 1, err);
    if (rc == RC_WRONGTYPE)
        return err_prefix(err, "\"%.*s\": ", (int)name.len, (const char *)name.ptr);
    return rc;
}

/* Pending, at the end of the queue. With an item of a newer version it has that one from now on. */
static enum rc pend(const struct queue *queue, struct queue_task *task, unsigned write,
                    const struct bytes *error, struct err *err)
{
    struct queue_item item;
    if (task->next.len > 0 && queue_item_read(task->next, &item, err) == RC_OK) {
        task->item = task->next;
        task->version = item.version;
        write |= QUEUE_WRITE_ITEM;
    }
    if (task->next.len > 0) {
        task->next = (struct bytes){0};
        write |= QUEUE_WRITE_NEXT;
    }
    enum rc rc = queue__task_move(queue, task, QUEUE_PENDING, write, error, err);
    return rc == RC_OK ? element_push(queue, queue_key, task->item, err) : rc;
}

static struct bytes *ids_new(const struct queue *queue, size_t count)
{
    return arena_alloc_array(queue->run->arena, count + 1, sizeof(struct bytes));
}

/* ---- adding ---- */

static enum rc add_one(const struct queue *queue, const struct queue_item *item, bool *ret_added,
                       struct err *err)
{
    struct queue_task task;
    enum rc rc = queue__task_read(queue, item->id, &task, err);
    if (rc != RC_OK)
        return rc;
    *ret_added = task.status == QUEUE_NONE || item->version > task.version;
    if (!*ret_added)
        return RC_OK;
    if (task.status == QUEUE_IN_PROGRESS) {
        struct queue_item next;
        *ret_added = task.next.len == 0 || queue_item_read(task.next, &next, err) != RC_OK ||
                     item->version > next.version;
        task.next = item->json;
        return *ret_added ? queue__task_save(queue, &task, QUEUE_WRITE_NEXT, err) : RC_OK;
    }
    task.item = item->json;
    task.version = item->version;
    if (task.status == QUEUE_PENDING) /* its element keeps its place */
        return queue__task_save(queue, &task, QUEUE_WRITE_ITEM, err);
    return pend(queue, &task, QUEUE_WRITE_ITEM, NULL, err);
}

/* What was counted one by one is settled once for each run of tasks of one set. */
static enum rc settle(const struct queue *queue, const struct bytes *id, size_t count, bool mark,
                      struct err *err)
{
    enum rc rc = RC_OK;
    for (size_t i = 0; queue__has_sets(queue) && i < count && rc == RC_OK; i++) {
        if (i + 1 < count && bytes_eq(queue__anchor(id[i]), queue__anchor(id[i + 1])))
            continue;
        if (mark)
            rc = queue__set_mark(queue, id[i], err);
        if (rc == RC_OK)
            rc = queue__set_settle(queue, id[i], err);
    }
    return rc;
}

enum rc queue_add(const struct queue *queue, const struct queue_item *item, size_t count,
                  size_t *ret_added, struct err *err)
{
    struct bytes *id = ids_new(queue, count);
    size_t added_count = 0;
    for (size_t i = 0; i < count; i++)
        id[i] = item[i].id;
    enum rc rc = queue__warm(queue, id, count, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        bool added;
        rc = add_one(queue, &item[i], &added, err);
        added_count += rc == RC_OK && added;
    }
    if (rc == RC_OK)
        rc = settle(queue, id, count, true, err);
    if (rc == RC_OK)
        *ret_added = added_count;
    return rc;
}

/* ---- times ---- */

/* The first members by time, copied. */
static enum rc times_read(const struct queue *queue, enum queue_status status, size_t max,
                          struct zset_items *items, struct err *err)
{
    struct key key;
    struct bytes name = queue__time_key[status];
    enum rc rc = key_write(queue->run, name, TYPE_ZSET, &key, err);
    if (rc == RC_WRONGTYPE)
        return err_prefix(err, "\"%.*s\": ", (int)name.len, (const char *)name.ptr);
    if (rc != RC_OK || !key.exists)
        return rc;
    struct zset_walk walk;
    struct zset_item item;
    rc = zset_walk_init(&walk, &key, zset_span_by_score(), false, err);
    while (rc == RC_OK && items->count < max) {
        rc = zset_walk_next(&walk, &item, err);
        if (rc == RC_OK)
            rc = zset_items_add(queue->run, items, item, err);
    }
    zset_walk_done(&walk);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static int64_t time_of(double score)
{
    if (score < 0)
        return 0; /* -inf is no integer */
    return score < (double)(INT64_MAX / 2) ? (int64_t)score : INT64_MAX;
}

/* Those of the first `count` that are ids; the others were put there by hand and are removed.
 */
static enum rc times_sort_out(const struct queue *queue, enum queue_status status,
                              const struct zset_items *items, size_t count, struct bytes *to,
                              size_t *ret_count, struct err *err)
{
    enum rc rc = RC_OK;
    *ret_count = 0;
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        if (queue_id_is(items->item[i].member))
            to[(*ret_count)++] = items->item[i].member;
        else
            rc = queue__index_remove(queue, items->item[i].member, status, err);
    }
    return rc;
}

/* ---- leases ---- */

static enum rc release_one(const struct queue *queue, struct bytes id, struct err *err)
{
    struct queue_task task;
    enum rc rc = queue__task_read(queue, id, &task, err);
    if (rc == RC_INVALID || rc == RC_WRONGTYPE || (rc == RC_OK && task.status == QUEUE_NONE))
        return queue__task_forget(queue, id, err);
    if (rc != RC_OK)
        return rc;
    if (task.status != QUEUE_IN_PROGRESS)
        return queue__index_remove(queue, id, QUEUE_IN_PROGRESS, err);
    if (task.lease_ms > now_ms(queue)) /* the time was changed by hand */
        return queue__task_move(queue, &task, QUEUE_IN_PROGRESS, 0, NULL, err);
    return pend(queue, &task, 0, NULL, err);
}

enum rc queue_release(const struct queue *queue, size_t count_max, size_t *ret_count,
                      int64_t *ret_next_ms, struct err *err)
{
    struct zset_items items = {0};
    size_t due_count = 0, count = 0;
    enum rc rc = times_read(queue, QUEUE_IN_PROGRESS, count_max + 1, &items, err);
    while (due_count < items.count && due_count < count_max &&
           time_of(items.item[due_count].score) <= now_ms(queue))
        due_count++;
    struct bytes *id = ids_new(queue, due_count);
    if (rc == RC_OK)
        rc = times_sort_out(queue, QUEUE_IN_PROGRESS, &items, due_count, id, &count, err);
    if (rc == RC_OK)
        rc = queue__warm(queue, id, count, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = release_one(queue, id[i], err);
    if (rc == RC_OK)
        rc = settle(queue, id, count, false, err);
    if (rc != RC_OK)
        return rc;
    *ret_count = due_count;
    *ret_next_ms = due_count < items.count ? time_of(items.item[due_count].score) : INT64_MAX;
    return RC_OK;
}

/* ---- taking ---- */

static enum rc task_take(const struct queue *queue, struct queue_take *take,
                         struct queue_task *task, unsigned write, struct err *err)
{
    task->attempts += task->attempts < INT64_MAX; /* a hand may have written that */
    task->lease_ms = now_ms(queue) + take->lease_ms;
    enum rc rc = queue__task_move(queue, task, QUEUE_IN_PROGRESS, write, NULL, err);
    if (rc == RC_OK)
        take->taken[take->taken_count++] =
            (struct queue_taken){task->id, task->item, task->attempts, task->lease_ms};
    return rc;
}

/* The task of an element. One that an older server has stored has no kind in its id, whatever is in
 * its item. RC_INVALID: a kind that is no word, and no such task. */
static enum rc element_task(const struct queue *queue, const struct queue_item *item,
                            struct queue_task *ret_task, struct err *err)
{
    enum rc rc = queue__task_read(queue, queue__copy(queue, item->id), ret_task, err);
    struct bytes tilekey = queue_id_tilekey(item->id);
    struct queue_task old;
    if (rc == RC_OK && item->kind_is_theirs && ret_task->status == QUEUE_NONE)
        return err_set(err, RC_INVALID, "the \"kind\" of a task is a word");
    if (rc != RC_OK || ret_task->status != QUEUE_NONE || tilekey.len == item->id.len)
        return rc;
    rc = queue__task_read(queue, queue__copy(queue, tilekey), &old, err);
    if (rc == RC_OK && old.status != QUEUE_NONE && bytes_eq(old.item, item->json))
        *ret_task = old;
    return rc == RC_COLD ? rc : RC_OK; /* one that is wrong is not this one */
}

/* An element of the list. What is no task goes where somebody can look at it; one whose task is not
 * pending is what is left of it. */
static enum rc element_take(const struct queue *queue, struct queue_take *take,
                            struct bytes element, struct err *err)
{
    struct queue_task task;
    struct queue_item item;
    struct err why = {0};
    enum rc rc = queue_item_read(element, &item, &why);
    if (rc == RC_OK)
        rc = element_task(queue, &item, &task, &why);
    if (rc == RC_INVALID || rc == RC_TOO_BIG || rc == RC_WRONGTYPE)
        return element_push(queue, bad_key, element, err);
    if (rc != RC_OK) {
        *err = why;
        return rc;
    }
    if (task.status != QUEUE_PENDING && task.status != QUEUE_NONE)
        return RC_OK;
    bool is_new = task.status == QUEUE_NONE || task.item.len == 0;
    if (is_new) {
        task.item = element;
        task.version = item.version;
    }
    return task_take(queue, take, &task, is_new ? QUEUE_WRITE_ITEM : 0, err);
}

/* Up to `count` elements from the tail on, copied. */
static enum rc elements_read(const struct queue *queue, const struct list *list, size_t count,
                             struct bytes *to, size_t *ret_count, struct err *err)
{
    struct list_walk walk;
    struct bytes element;
    *ret_count = 0;
    uint64_t have = list_count(list);
    enum rc rc = list_walk_init(&walk, list, have - 1, count < have ? count : have, true, err);
    while (rc == RC_OK && (rc = list_walk_next(&walk, &element, err)) == RC_OK)
        to[(*ret_count)++] = queue__copy(queue, element);
    list_walk_done(&walk);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc elements_warm(const struct queue *queue, const struct bytes *element, size_t count,
                             struct err *err)
{
    struct bytes *id = ids_new(queue, count);
    size_t good_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct queue_item item;
        struct err ignored;
        if (queue_item_read(element[i], &item, &ignored) == RC_OK)
            id[good_count++] = queue__copy(queue, item.id);
    }
    return queue__warm(queue, id, good_count, err);
}

/* ret_looked: 0: the list is empty. */
static enum rc list_take(const struct queue *queue, struct queue_take *take, size_t *ret_looked,
                         struct err *err)
{
    struct list list;
    size_t count = take->count - take->taken_count;
    *ret_looked = 0;
    enum rc rc = list_write(queue->run, queue_key, &list, err);
    if (rc == RC_WRONGTYPE)
        return err_prefix(err, "\"queue\": ");
    if (rc != RC_OK || !list.key.exists)
        return rc;
    struct bytes *element = ids_new(queue, count);
    rc = elements_read(queue, &list, count, element, &count, err);
    if (rc == RC_OK)
        rc = elements_warm(queue, element, count, err);
    if (rc == RC_OK)
        rc = list_pop(&list, LIST_TAIL, count, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = element_take(queue, take, element[i], err);
    *ret_looked = count;
    return rc;
}

/* A pending task without an element in the list: somebody has removed that. */
static enum rc pending_take(const struct queue *queue, struct queue_take *take, struct bytes id,
                            struct err *err)
{
    struct queue_task task;
    char text[QUEUE_NAME_BYTES];
    enum rc rc = queue__task_read(queue, id, &task, err);
    if (rc == RC_INVALID || rc == RC_WRONGTYPE || (rc == RC_OK && task.status == QUEUE_NONE))
        return queue__task_forget(queue, id, err);
    if (rc != RC_OK)
        return rc;
    if (task.status != QUEUE_PENDING)
        return queue__index_remove(queue, id, QUEUE_PENDING, err);
    bool is_new = task.item.len == 0;
    if (is_new) {
        struct bytes kind = queue_id_kind(id), tilekey = queue_id_tilekey(id);
        int len = snprintf(text, sizeof text, "{\"tilekey\":\"%.*s\"%s%.*s%s}", (int)tilekey.len,
                           (const char *)tilekey.ptr, kind.len > 0 ? ",\"kind\":\"" : "",
                           (int)kind.len, (const char *)kind.ptr, kind.len > 0 ? "\"" : "");
        ASSERT(len > 0 && len < (int)sizeof text);
        task.item = queue__copy(queue, bytes_of(text, (size_t)len));
    }
    return task_take(queue, take, &task, is_new ? QUEUE_WRITE_ITEM : 0, err);
}

static enum rc times_take(const struct queue *queue, struct queue_take *take, size_t *ret_looked,
                          struct err *err)
{
    struct zset_items items = {0};
    size_t count = take->count - take->taken_count;
    *ret_looked = 0;
    enum rc rc = times_read(queue, QUEUE_PENDING, count, &items, err);
    struct bytes *id = ids_new(queue, items.count);
    *ret_looked = items.count;
    if (rc == RC_OK)
        rc = times_sort_out(queue, QUEUE_PENDING, &items, items.count, id, &count, err);
    if (rc == RC_OK)
        rc = queue__warm(queue, id, count, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        rc = pending_take(queue, take, id[i], err);
    return rc;
}

enum rc queue_take(const struct queue *queue, struct queue_take *take, struct err *err)
{
    size_t released, looked = 1, look_count = 0;
    int64_t next_ms;
    bool listed = true; /* first what is in the list */
    take->taken_count = 0;
    take->more = false;
    enum rc rc = queue_release(queue, QUEUE_RETRY_MAX, &released, &next_ms, err);
    while (rc == RC_OK && take->taken_count < take->count) {
        rc = listed ? list_take(queue, take, &looked, err) : times_take(queue, take, &looked, err);
        look_count += looked;
        if (looked == 0 && !listed)
            break;
        listed = listed && looked > 0;
        if (look_count >= QUEUE_LOOKS_MAX) {
            take->more = take->taken_count < take->count;
            break;
        }
    }
    struct bytes *id = ids_new(queue, take->taken_count);
    for (size_t i = 0; i < take->taken_count; i++)
        id[i] = take->taken[i].id;
    return rc == RC_OK ? settle(queue, id, take->taken_count, false, err) : rc;
}

/* ---- ending ---- */

/* The task, in progress and in this attempt; or done, for who may say it twice. */
static enum rc ending_read(const struct queue *queue, const struct queue_end *end,
                           struct queue_task *ret_task, bool done_is_good, struct err *err)
{
    int len = (int)end->id.len;
    const char *text = (const char *)end->id.ptr;
    enum rc rc = queue__task_read(queue, end->id, ret_task, err);
    if (rc != RC_OK)
        return rc;
    if (ret_task->status == QUEUE_NONE)
        return err_set(err, RC_INVALID, "there is no task %.*s", len, text);
    if (ret_task->status == QUEUE_DONE && done_is_good)
        return RC_OK;
    if (end->attempt != 0 &&
        (ret_task->status != QUEUE_IN_PROGRESS || end->attempt != ret_task->attempts))
        return err_set(err, RC_REPLY, "LEASELOST attempt %lld of task %.*s is over",
                       (long long)end->attempt, len, text);
    if (ret_task->status != QUEUE_IN_PROGRESS)
        return err_set(err, RC_INVALID, "task %.*s is not in progress but %s", len, text,
                       (const char *)queue__status_text[ret_task->status].ptr);
    return RC_OK;
}

static enum rc done_one(const struct queue *queue, const struct queue_end *end, bool *ret_done,
                        struct err *err)
{
    struct queue_task task;
    *ret_done = false;
    enum rc rc = ending_read(queue, end, &task, true, err);
    if (rc != RC_OK || task.status == QUEUE_DONE)
        return rc;
    if (task.next.len > 0) /* this version is; there is a newer one to do */
        return pend(queue, &task, 0, NULL, err);
    *ret_done = true;
    return queue__task_move(queue, &task, QUEUE_DONE, 0, NULL, err);
}

enum rc queue_done(const struct queue *queue, const struct queue_end *end, size_t count,
                   size_t *ret_done, struct err *err)
{
    struct bytes *id = ids_new(queue, count);
    size_t done_count = 0;
    for (size_t i = 0; i < count; i++)
        id[i] = end[i].id;
    enum rc rc = queue__warm(queue, id, count, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        bool done;
        rc = done_one(queue, &end[i], &done, err);
        done_count += done;
    }
    if (rc == RC_OK)
        rc = settle(queue, id, count, false, err);
    if (rc == RC_OK)
        *ret_done = done_count;
    return rc;
}

enum rc queue_fail(const struct queue *queue, const struct queue_end *end, struct bytes error,
                   struct err *err)
{
    struct queue_task task;
    enum rc rc = queue__warm(queue, &end->id, 1, err);
    if (rc == RC_OK)
        rc = ending_read(queue, end, &task, false, err);
    if (rc == RC_OK && task.next.len > 0)
        rc = pend(queue, &task, 0, &error, err);
    else if (rc == RC_OK)
        rc = queue__task_move(queue, &task, QUEUE_ERROR, 0, &error, err);
    return rc == RC_OK ? settle(queue, &end->id, 1, false, err) : rc;
}

enum rc queue_extend(const struct queue *queue, const struct queue_end *end, int64_t lease_ms,
                     int64_t *ret_lease_ms, struct err *err)
{
    struct queue_task task;
    enum rc rc = queue__warm(queue, &end->id, 1, err);
    if (rc == RC_OK)
        rc = ending_read(queue, end, &task, false, err);
    if (rc != RC_OK)
        return rc;
    *ret_lease_ms = task.lease_ms = now_ms(queue) + lease_ms;
    return queue__task_move(queue, &task, QUEUE_IN_PROGRESS, 0, NULL, err);
}

/* ---- trying again ---- */

enum rc queue_retry(const struct queue *queue, const struct bytes *id, size_t count,
                    size_t *ret_count, struct err *err)
{
    size_t retried_count = 0;
    enum rc rc = queue__warm(queue, id, count, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        struct queue_task task;
        rc = queue__task_read(queue, id[i], &task, err);
        if (rc != RC_OK || task.status != QUEUE_ERROR)
            continue;
        retried_count++;
        rc = pend(queue, &task, 0, NULL, err);
    }
    if (rc == RC_OK)
        rc = settle(queue, id, count, false, err);
    if (rc == RC_OK)
        *ret_count = retried_count;
    return rc;
}

/* Members of status:ERROR; what is there by hand and is no failed task leaves it. */
static enum rc failed_read(const struct queue *queue, size_t count_max, struct bytes *to,
                           size_t *ret_count, struct err *err)
{
    struct key key;
    struct bytes suffix, value, *member = ids_new(queue, count_max);
    size_t member_count = 0;
    *ret_count = 0;
    enum rc rc = key_write(queue->run, queue__status_key[QUEUE_ERROR], TYPE_SET, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    struct store_walk walk;
    store_walk_init(&walk, queue->run->kv->store, key_rows(&key), false);
    while (member_count < count_max && (rc = store_walk_next(&walk, &suffix, &value, err)) == RC_OK)
        member[member_count++] = queue__copy(queue, suffix);
    store_walk_done(&walk);
    rc = rc == RC_NOT_FOUND ? RC_OK : rc;
    for (size_t i = 0; i < member_count && rc == RC_OK; i++) {
        struct queue_task task = {.status = QUEUE_NONE};
        bool good = queue_id_is(member[i]);
        if (good)
            rc = queue__task_read(queue, member[i], &task, err);
        if (rc == RC_COLD)
            return queue__warm(queue, member, good ? i + 1 : i, err);
        if (rc == RC_INVALID || rc == RC_WRONGTYPE)
            rc = RC_OK;
        if (rc == RC_OK && task.status == QUEUE_ERROR)
            to[(*ret_count)++] = member[i];
        else if (rc == RC_OK)
            rc = queue__index_remove(queue, member[i], QUEUE_ERROR, err);
    }
    return rc;
}

enum rc queue_retry_all(const struct queue *queue, size_t count_max, size_t *ret_count,
                        struct err *err)
{
    struct bytes *id = ids_new(queue, count_max);
    size_t count;
    enum rc rc = failed_read(queue, count_max, id, &count, err);
    return rc == RC_OK ? queue_retry(queue, id, count, ret_count, err) : rc;
}

/* ---- looking ---- */

static enum rc count_of(const struct queue *queue, struct bytes name, uint8_t type,
                        uint64_t *ret_count, struct err *err)
{
    struct key key;
    *ret_count = 0;
    enum rc rc = key_read(queue->run, name, type, &key, err);
    if (rc == RC_WRONGTYPE)
        return err_prefix(err, "\"%.*s\": ", (int)name.len, (const char *)name.ptr);
    if (rc == RC_OK && key.exists)
        *ret_count = key.meta.count;
    return rc;
}

static enum rc first_time(const struct queue *queue, enum queue_status status, int64_t *ret_ms,
                          struct err *err)
{
    struct zset_items items = {0};
    enum rc rc = times_read(queue, status, 1, &items, err);
    *ret_ms = rc == RC_OK && items.count > 0 ? time_of(items.item[0].score) : 0;
    return rc;
}

enum rc queue_stats(const struct queue *queue, struct queue_stats *ret_stats, struct err *err)
{
    enum rc rc = RC_OK;
    for (enum queue_status status = 0; status < QUEUE_NONE && rc == RC_OK; status++)
        rc = count_of(queue, queue__status_key[status], TYPE_SET, &ret_stats->count[status], err);
    if (rc == RC_OK)
        rc = count_of(queue, queue_key, TYPE_LIST, &ret_stats->queued, err);
    if (rc == RC_OK)
        rc = count_of(queue, bad_key, TYPE_LIST, &ret_stats->bad, err);
    if (rc == RC_OK)
        rc = first_time(queue, QUEUE_PENDING, &ret_stats->pending_since_ms, err);
    if (rc == RC_OK)
        rc = first_time(queue, QUEUE_IN_PROGRESS, &ret_stats->next_lease_ms, err);
    return rc;
}

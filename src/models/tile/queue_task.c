// SPDX-License-Identifier: Apache-2.0
/* queue_task.c - one task. Invariants:
 *   (1) The hash is the truth. The sets, the zsets and the counts of its set say the same after
 *       every function of this file that returned RC_OK. */
#include <stdio.h>

#include "models/tile/queue_int.h"
#include "types/hash.h"
#include "types/set.h"
#include "types/zset.h"

#include "base/banned.h"

const struct bytes queue_key = BYTES_INIT("queue");
const struct bytes queue__status_text[] = {BYTES_INIT("PENDING"), BYTES_INIT("IN_PROGRESS"),
                                           BYTES_INIT("DONE"), BYTES_INIT("ERROR")};
const struct bytes queue__status_key[] = {BYTES_INIT("status:PENDING"),
                                          BYTES_INIT("status:IN_PROGRESS"),
                                          BYTES_INIT("status:DONE"), BYTES_INIT("status:ERROR")};
const struct bytes queue__time_key[] = {
    BYTES_INIT("status:PENDING:ts"), BYTES_INIT("status:IN_PROGRESS:ts"), {0}, {0}};

struct bytes queue__name(char to[QUEUE_NAME_BYTES], const char *prefix, struct bytes rest)
{
    int len =
        snprintf(to, QUEUE_NAME_BYTES, "%s%.*s", prefix, (int)rest.len, (const char *)rest.ptr);
    ASSERT(len > 0 && len < QUEUE_NAME_BYTES);
    return bytes_of(to, (size_t)len);
}

struct bytes queue__copy(const struct queue *queue, struct bytes bytes)
{
    return arena_copy(queue->run->arena, bytes);
}

/* Which of the queue's keys it was. */
static enum rc of_key(enum rc rc, struct bytes name, struct err *err)
{
    if (rc == RC_OK || rc == RC_COLD || rc == RC_NOT_FOUND)
        return rc;
    if (!err->text[0])
        err_set(err, rc, "%s", rc_text(rc));
    return err_prefix(err, "\"%.*s\": ", (int)name.len, (const char *)name.ptr);
}

/* ---- reading ---- */

static enum rc field_read(const struct queue *queue, const struct key *key, struct bytes field,
                          struct bytes *ret_value, struct err *err)
{
    enum rc rc = hash_field(key, field, ret_value, err);
    if (rc == RC_NOT_FOUND)
        *ret_value = (struct bytes){0};
    else if (rc == RC_OK)
        *ret_value = queue__copy(queue, *ret_value);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc number_read(const struct key *key, struct bytes field, int64_t *ret_value,
                           struct err *err)
{
    struct bytes value;
    enum rc rc = hash_field(key, field, &value, err);
    *ret_value = 0;
    if (rc == RC_NOT_FOUND)
        return RC_OK;
    if (rc == RC_OK && (!number_int(value, ret_value) || *ret_value < 0))
        return err_set(err, RC_INVALID, "the field \"%.*s\" is no number of a task", (int)field.len,
                       (const char *)field.ptr);
    return rc;
}

static enum rc status_read(const struct key *key, enum queue_status *ret_status, struct err *err)
{
    struct bytes value;
    enum rc rc = hash_field(key, BYTES("status"), &value, err);
    if (rc == RC_NOT_FOUND)
        return err_set(err, RC_INVALID, "this is no task: it has no field \"status\"");
    if (rc != RC_OK)
        return rc;
    for (*ret_status = 0; *ret_status < QUEUE_NONE; (*ret_status)++)
        if (bytes_eq(value, queue__status_text[*ret_status]))
            return RC_OK;
    return err_set(err, RC_INVALID, "there is no such status of a task");
}

static enum rc fields_read(const struct queue *queue, const struct key *key,
                           struct queue_task *task, struct err *err)
{
    enum rc rc = status_read(key, &task->status, err);
    if (rc == RC_OK)
        rc = number_read(key, BYTES("version"), &task->version, err);
    if (rc == RC_OK)
        rc = number_read(key, BYTES("attempts"), &task->attempts, err);
    if (rc == RC_OK)
        rc = number_read(key, BYTES("lease"), &task->lease_ms, err);
    if (rc == RC_OK)
        rc = field_read(queue, key, BYTES("item"), &task->item, err);
    if (rc == RC_OK)
        rc = field_read(queue, key, BYTES("next"), &task->next, err);
    return rc;
}

enum rc queue__task_read(const struct queue *queue, struct bytes id, struct queue_task *ret_task,
                         struct err *err)
{
    char text[QUEUE_NAME_BYTES];
    struct bytes name = queue__name(text, "status:", id);
    struct key key = {0};
    *ret_task = (struct queue_task){.id = id, .status = QUEUE_NONE};
    enum rc rc = key_write(queue->run, name, TYPE_HASH, &key, err);
    if (rc == RC_OK && key.exists)
        rc = fields_read(queue, &key, ret_task, err);
    if (rc == RC_COLD && key.exists) /* all its fields at once */
        store_want(queue->run->kv->store, key_rows(&key), (struct bytes){0}, STORE_WANT_FIRST);
    return of_key(rc, name, err);
}

/* ---- what follows it ---- */

static enum rc time_add(const struct queue *queue, struct bytes name, struct bytes member,
                        int64_t time_ms, struct err *err)
{
    struct key key;
    struct zset_change change;
    enum rc rc = key_write(queue->run, name, TYPE_ZSET, &key, err);
    if (rc == RC_OK && !key.exists)
        rc = key_create(&key, TYPE_ZSET, err);
    if (rc == RC_OK)
        rc = zset_add(&key, (struct zset_item){member, (double)time_ms}, 0, &change, err);
    if (rc != RC_OK)
        return rc;
    key_changed(&key, KV_EVENT_ZSET, "zadd");
    return zset_save(&key, err);
}

static enum rc time_remove(const struct queue *queue, struct bytes name, struct bytes member,
                           struct err *err)
{
    struct key key;
    enum rc rc = key_write(queue->run, name, TYPE_ZSET, &key, err);
    if (rc != RC_OK || !key.exists)
        return rc;
    rc = zset_remove(&key, member, err);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    key_changed(&key, KV_EVENT_ZSET, "zrem");
    return zset_save(&key, err);
}

enum rc queue__index_remove(const struct queue *queue, struct bytes id, enum queue_status status,
                            struct err *err)
{
    struct bytes name = queue__status_key[status];
    enum rc rc = set_remove(queue->run, name, &id, 1, NULL, err);
    if (rc == RC_OK && queue__time_key[status].len > 0) {
        name = queue__time_key[status];
        rc = time_remove(queue, name, id, err);
    }
    return of_key(rc, name, err);
}

static enum rc index_add(const struct queue *queue, const struct queue_task *task,
                         enum queue_status status, struct err *err)
{
    struct bytes name = queue__status_key[status];
    int64_t time_ms = status == QUEUE_IN_PROGRESS ? task->lease_ms : (int64_t)queue->run->now_ms;
    enum rc rc = set_add(queue->run, name, &task->id, 1, NULL, err);
    if (rc == RC_OK && queue__time_key[status].len > 0) {
        name = queue__time_key[status];
        rc = time_add(queue, name, task->id, time_ms, err);
    }
    return of_key(rc, name, err);
}

/* ---- writing ---- */

struct fields { /* names and values by turns */
    struct bytes at[18];
    size_t count; /* of both */
    char number[3][NUMBER_INT_BYTES];
    size_t number_count;
};

static void field_add(struct fields *fields, struct bytes name, struct bytes value)
{
    ASSERT(fields->count + 2 <= ARRAY_LEN(fields->at));
    fields->at[fields->count++] = name;
    fields->at[fields->count++] = value;
}

static void number_add(struct fields *fields, struct bytes name, int64_t value)
{
    ASSERT(fields->number_count < ARRAY_LEN(fields->number));
    char *text = fields->number[fields->number_count++];
    field_add(fields, name, bytes_of(text, number_int_text(text, value)));
}

static enum rc fields_write(const struct queue *queue, const struct queue_task *task,
                            struct fields *fields, unsigned write, struct err *err)
{
    char text[QUEUE_NAME_BYTES];
    struct bytes name = queue__name(text, "status:", task->id);
    struct bytes next = BYTES("next");
    enum rc rc = RC_OK;
    if (write & QUEUE_WRITE_ITEM) {
        number_add(fields, BYTES("version"), task->version);
        field_add(fields, BYTES("item"), task->item);
    }
    if ((write & QUEUE_WRITE_NEXT) && task->next.len > 0)
        field_add(fields, next, task->next);
    if (fields->count > 0)
        rc = hash_set(queue->run, name, fields->at, fields->count / 2, NULL, err);
    if (rc == RC_OK && (write & QUEUE_WRITE_NEXT) && task->next.len == 0)
        rc = hash_delete(queue->run, name, &next, 1, NULL, err);
    return of_key(rc, name, err);
}

enum rc queue__task_save(const struct queue *queue, const struct queue_task *task, unsigned write,
                         struct err *err)
{
    struct fields fields = {.count = 0};
    return fields_write(queue, task, &fields, write, err);
}

enum rc queue__task_move(const struct queue *queue, struct queue_task *task, enum queue_status to,
                         unsigned write, const struct bytes *error, struct err *err)
{
    struct fields fields = {.count = 0};
    enum queue_status from = task->status;
    ASSERT(to != QUEUE_NONE);
    if (to != QUEUE_IN_PROGRESS)
        task->lease_ms = 0;
    task->status = to;
    field_add(&fields, BYTES("status"), queue__status_text[to]);
    field_add(&fields, BYTES("completed"), to == QUEUE_DONE ? BYTES("true") : BYTES("false"));
    number_add(&fields, BYTES("attempts"), task->attempts);
    number_add(&fields, BYTES("lease"), task->lease_ms);
    if (error)
        field_add(&fields, BYTES("last_error"), *error);
    enum rc rc = RC_OK;
    if (from == QUEUE_NONE && queue_id_kind(task->id).len > 0)
        rc = tile_type_kinds_note(queue->type, err); /* an older server would take it for another */
    if (rc == RC_OK)
        rc = fields_write(queue, task, &fields, write, err);
    if (rc == RC_OK && from != QUEUE_NONE)
        rc = queue__index_remove(queue, task->id, from, err);
    if (rc == RC_OK)
        rc = index_add(queue, task, to, err);
    if (rc == RC_OK)
        rc = queue__set_count(queue, task->id, from, to, err);
    return rc;
}

enum rc queue__task_forget(const struct queue *queue, struct bytes id, struct err *err)
{
    enum rc rc = RC_OK;
    for (enum queue_status status = 0; status < QUEUE_NONE && rc == RC_OK; status++)
        rc = queue__index_remove(queue, id, status, err);
    return rc;
}

/* ---- cold things ---- */

static void warm_note(enum rc rc, enum rc *cold)
{
    if (rc == RC_COLD)
        *cold = RC_COLD; /* other errors come again when they count */
}

static void warm_indexes(const struct queue *queue, const struct bytes *id, size_t count,
                         enum rc *cold)
{
    for (enum queue_status status = 0; status < QUEUE_NONE; status++) {
        struct err ignored = {0};
        struct key set, times = {0};
        double score;
        enum rc rc = key_write(queue->run, queue__status_key[status], TYPE_SET, &set, &ignored);
        warm_note(rc, cold);
        for (size_t i = 0; rc == RC_OK && set.exists && i < count; i++)
            warm_note(set_has(&set, id[i], &ignored), cold);
        if (queue__time_key[status].len == 0)
            continue;
        rc = key_write(queue->run, queue__time_key[status], TYPE_ZSET, &times, &ignored);
        warm_note(rc, cold);
        for (size_t i = 0; rc == RC_OK && times.exists && i < count; i++)
            warm_note(zset_score(&times, id[i], &score, &ignored), cold);
    }
}

enum rc queue__warm(const struct queue *queue, const struct bytes *id, size_t count,
                    struct err *err)
{
    enum rc cold = RC_OK;
    warm_indexes(queue, id, count, &cold);
    for (size_t i = 0; i < count; i++) {
        struct err ignored = {0};
        struct queue_task task;
        warm_note(queue__task_read(queue, id[i], &task, &ignored), &cold);
        warm_note(queue__set_warm(queue, id[i], &ignored), &cold);
    }
    return cold == RC_COLD ? err_set(err, RC_COLD, "%s", rc_text(RC_COLD)) : RC_OK;
}

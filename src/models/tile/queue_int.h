// SPDX-License-Identifier: Apache-2.0
/* queue_int.h - one task: its hash and everything that follows it. For src/tile/queue*.c.
 *
 * Ownership: see queue.h.
 * Threads: the executor. */
#pragma once

#include "models/tile/queue.h"
#include "types/key.h"

enum { QUEUE_NAME_BYTES = 96 }; /* of "status:<id>", "anchor_status:<anchor>", the shortest item */

struct queue_task {
    struct bytes id;          /* borrowed */
    enum queue_status status; /* as it is stored */
    int64_t version, attempts, lease_ms;
    struct bytes item, next; /* next: empty, or the item of a newer version */
};

/* RC_OK with QUEUE_NONE where there is none. RC_INVALID: it was written by hand, and wrong. */
enum rc queue__task_read(const struct queue *queue, struct bytes id, struct queue_task *ret_task,
                         struct err *err) NODISCARD;

enum queue_write { QUEUE_WRITE_ITEM = 1, QUEUE_WRITE_NEXT = 2 };
/* Stores the task with a new status; sets, zsets and its set's counts follow. `error`: NULL keeps
 * what is there. */
enum rc queue__task_move(const struct queue *queue, struct queue_task *task, enum queue_status to,
                         unsigned write, const struct bytes *error, struct err *err) NODISCARD;
/* item and next without a new status. */
enum rc queue__task_save(const struct queue *queue, const struct queue_task *task, unsigned write,
                         struct err *err) NODISCARD;
/* Out of the set and the times of a status; any bytes. */
enum rc queue__index_remove(const struct queue *queue, struct bytes id, enum queue_status status,
                            struct err *err) NODISCARD;
/* Its hash is gone: nothing else may speak of it. Any bytes. */
enum rc queue__task_forget(const struct queue *queue, struct bytes id, struct err *err) NODISCARD;
/* Reads everything that a move of these tasks needs, so that what is cold comes at once. */
enum rc queue__warm(const struct queue *queue, const struct bytes *id, size_t count,
                    struct err *err) NODISCARD;

/* queue_set.c; nothing happens where there are no sets */
bool queue__has_sets(const struct queue *queue);
struct bytes queue__anchor(struct bytes id); /* that describes it */
enum rc queue__set_warm(const struct queue *queue, struct bytes id, struct err *err) NODISCARD;
enum rc queue__set_count(const struct queue *queue, struct bytes id, enum queue_status from,
                         enum queue_status to, struct err *err) NODISCARD;
/* Tasks of this set are being added: they were made from the data it has now. */
enum rc queue__set_mark(const struct queue *queue, struct bytes id, struct err *err) NODISCARD;
/* The packet's status becomes what the counts say. */
enum rc queue__set_settle(const struct queue *queue, struct bytes id, struct err *err) NODISCARD;

/* "<prefix><rest>" in `to`. */
struct bytes queue__name(char to[QUEUE_NAME_BYTES], const char *prefix, struct bytes rest);
struct bytes queue__copy(const struct queue *queue, struct bytes bytes);
extern const struct bytes queue__status_text[QUEUE_STATUS_COUNT];
extern const struct bytes queue__status_key[QUEUE_STATUS_COUNT]; /* of the set of ids */
/* By time; empty: there is none. */
extern const struct bytes queue__time_key[QUEUE_STATUS_COUNT];

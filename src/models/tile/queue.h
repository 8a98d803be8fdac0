// SPDX-License-Identifier: Apache-2.0
/* queue.h - tasks of a tile type: added, taken under a lease, done or failed; as Redis keys.
 *
 * docs/design/0008-tile-tasks-http.md says which keys there are and what happens to keys that were
 * written by hand. A function here is one step of a command: it runs inside a commit, may return
 * RC_COLD anywhere and then leaves nothing behind.
 *
 * Ownership: what is given back lies in the arena of the queue's run.
 * Threads: the executor, except queue_item_parse() and queue_item_read(). */
#pragma once

#include "models/tile/tile.h"
#include "types/kv.h"

enum {
    QUEUE_ITEM_BYTES_MAX = 64 * 1024,
    QUEUE_TAKE_MAX = 1000,
    QUEUE_ADD_MAX = 10000,
    QUEUE_RETRY_MAX = 1000,
    QUEUE_LOOKS_MAX = 10000, /* elements that are no tasks, thrown out by one command */
    QUEUE_LEASE_MS = 60 * 1000,
};
#define QUEUE_LEASE_MS_MAX (INT64_C(366) * 24 * 3600 * 1000)

enum queue_status {
    QUEUE_PENDING = TILE_PENDING,
    QUEUE_IN_PROGRESS = TILE_IN_PROGRESS,
    QUEUE_DONE = TILE_DONE,
    QUEUE_ERROR = TILE_ERROR,
    QUEUE_NONE, /* there is no such task */
};
enum { QUEUE_STATUS_COUNT = QUEUE_NONE };

/* The database of a tile type, in which the run works. In that of a metadata type (q2, qp) the
 * tasks whose tiles a packet describes are its set, and its status follows them. */
struct queue {
    const struct run *run; /* borrowed */
    struct tiles *tiles;
    struct tile_type *type;
};

/* A task's id is what it is to be done with: "0123", or with its kind "imagery:0123". Tasks of one
 * tilekey and different kinds are different tasks. */
enum {
    QUEUE_KIND_BYTES_MAX = 31,
    QUEUE_ID_BYTES_MAX = QUEUE_KIND_BYTES_MAX + 1 + TILE_LEVEL_MAX,
};
bool queue_id_is(struct bytes text);
struct bytes queue_id_kind(struct bytes id);    /* empty: it has none */
struct bytes queue_id_tilekey(struct bytes id); /* both borrow from it */

struct queue_item {
    struct bytes json; /* borrowed */
    struct bytes id;
    char id_text[QUEUE_ID_BYTES_MAX];
    int64_t version;     /* 0: none was given */
    bool kind_is_theirs; /* its "kind" is no word, and no part of the id: see queue_item_read() */
};
/* {"tilekey": "0123", "kind": "imagery", "version": 7, ...}; other members are the takers'
 * business. The item must stay where it is: id points into it. RC_INVALID. */
enum rc queue_item_parse(struct bytes json, struct queue_item *item, struct err *err) NODISCARD;
/* The same for one that is stored. To a server before kinds a "kind" was the takers' business:
 * whatever it is, the item can be read. */
enum rc queue_item_read(struct bytes json, struct queue_item *item, struct err *err) NODISCARD;

/* ret_added: how many have become pending, or have a newer item by now. */
enum rc queue_add(const struct queue *queue, const struct queue_item *item, size_t count,
                  size_t *ret_added, struct err *err) NODISCARD;

struct queue_taken {
    struct bytes id, item;
    int64_t attempt;
    int64_t lease_ms; /* when it ends */
};
struct queue_take {
    size_t count;              /* at most QUEUE_TAKE_MAX */
    int64_t lease_ms;          /* for how long */
    bool more;                 /* ret: there may be more, behind what was thrown out */
    size_t taken_count;        /* ret */
    struct queue_taken *taken; /* room for count */
};
/* Leases that are over end first. */
enum rc queue_take(const struct queue *queue, struct queue_take *take, struct err *err) NODISCARD;

struct queue_end {
    struct bytes id;
    int64_t attempt; /* 0: whichever it is in */
};
/* RC_INVALID: it is not in progress. RC_REPLY "LEASELOST ...": not in this attempt.
 * ret_done: how many have become done; one that was done before is no error. */
enum rc queue_done(const struct queue *queue, const struct queue_end *end, size_t count,
                   size_t *ret_done, struct err *err) NODISCARD;
enum rc queue_fail(const struct queue *queue, const struct queue_end *end, struct bytes error,
                   struct err *err) NODISCARD;
/* Its lease ends lease_ms from now, be that later or earlier. ret_lease_ms: when that is. */
enum rc queue_extend(const struct queue *queue, const struct queue_end *end, int64_t lease_ms,
                     int64_t *ret_lease_ms, struct err *err) NODISCARD;
/* Failed tasks become pending. ret_count: how many of them had failed. */
enum rc queue_retry(const struct queue *queue, const struct bytes *id, size_t count,
                    size_t *ret_count, struct err *err) NODISCARD;
/* The same for all, at most QUEUE_RETRY_MAX of them. */
enum rc queue_retry_all(const struct queue *queue, size_t count_max, size_t *ret_count,
                        struct err *err) NODISCARD;

/* Leases that are over at the run's time, at most count_max; ret_count: how many there were.
 * ret_next_ms: when the next one ends; INT64_MAX: there is none. */
enum rc queue_release(const struct queue *queue, size_t count_max, size_t *ret_count,
                      int64_t *ret_next_ms, struct err *err) NODISCARD;

struct queue_stats {
    uint64_t count[QUEUE_STATUS_COUNT];
    uint64_t queued, bad;
    int64_t pending_since_ms; /* of the oldest; 0: none is pending */
    int64_t next_lease_ms;    /* 0: none runs */
};
enum rc queue_stats(const struct queue *queue, struct queue_stats *ret_stats,
                    struct err *err) NODISCARD;

extern const struct bytes queue_key; /* "queue": what a taker waits for */

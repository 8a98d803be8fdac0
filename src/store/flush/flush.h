// SPDX-License-Identifier: Apache-2.0
/* flush.h - sealed journal segments become one atomic unit in the engine.
 *
 * Steps of a unit (each may be the last before a crash; all are repeatable):
 *   PICK    a run of sealed segments after the mark: up to unit_bytes, or what was asked for; never
 *           passes a freeze point
 *   SORT    one segment at a time: its last changes in key order go to a run file in scratch_dir,
 *           so memory is bounded by one segment, not by the unit
 *   BUILD   wait while the engine is under pressure; merge the runs into an engine unit, newest
 *           change wins, drops expanded (see below), mark and counters in front
 *   APPLY   one atomic call
 *   DONE    publish the mark, remove runs and segments
 * An engine that keeps an error from the background, or refuses a unit twice, is opened again
 * before the next BUILD, for as long as that takes: requests that wait then fail, the unit goes on.
 * Without disk the reserve is taken, a unit is one segment, and the engine is asked to compact.
 * A crash before APPLY leaves scratch files, removed at the next open. A crash after it leaves
 * segments at or below the mark, removed at the next open.
 *
 * Drops: a dropped group hides what is older in the unit. What the engine has of it is found by a
 * bounded look: up to STORE_DROP_POINT_ROWS_MAX rows become point deletes, more become one range
 * delete. A dropped prefix the same way, for each length byte where the space has one.
 *
 * Threads: flush_open/close/ask belong to the executor; the flusher has a thread of its own, at
 * low priority. With `manual` flush_step() does one step. Getters marked (any) are safe anywhere.
 * Ownership: everything in the options is borrowed for the flusher's life. */
#pragma once

#include "base/clock.h"
#include "store/engine/engine.h"
#include "store/engine/sys.h"
#include "store/journal/journal.h"

struct flush;

struct flush_options {
    struct files *files;
    const char *scratch_dir; /* emptied at open */
    struct journal *journal;
    const char *journal_dir;
    struct engine *engine;
    const struct space_set *spaces;
    const struct clock *clock;
    struct sys_mark mark; /* where the engine stands; uuid and incarnation are kept */
    size_t unit_bytes;
    uint64_t
        age_ms_max; /* a sealed segment older than this is flushed although the unit is small */
    uint32_t l0_file_count_max;
    uint64_t debt_bytes_max;
    struct reserve *reserve; /* taken where there is no disk; NULL */
    bool manual;
    /* From the flusher's thread: the mark moved, a request is done, or the state changed. */
    void (*notify)(void *arg);
    void *notify_arg;
};

enum rc flush_open(const struct flush_options *options, struct flush **ret_flush,
                   struct err *err) NODISCARD;
/* What a crash has left of units; also to make room before anything is open. */
enum rc flush_scratch_empty(struct files *files, const char *dir, struct err *err) NODISCARD;
/* Stops after the step it is in; nothing is flushed by closing. NULL is allowed. */
void flush_close(struct flush *flush);

/* Somebody may soon have to wait: the unit in work is not slowed down any more. Nobody has asked
 * for a unit that is due by size or age, so it leaves the cores to clients most of the time. */
void flush_hurry(struct flush *flush); /* (any) */
/* From how many pending bytes on it is called for. */
static inline uint64_t flush_hurry_bytes(uint64_t unit_bytes)
{
    return unit_bytes / 2 * 3;
}
/* Flush everything up to this segment as soon as it is sealed, whatever the unit size. */
void flush_ask(struct flush *flush, uint64_t segment); /* (any) */

/* A request is owned by the caller and stays in place until done is set or it was taken back. */
enum flush_request_kind { FLUSH_REQUEST_VIEW, FLUSH_REQUEST_BACKUP };
struct flush_request {
    enum flush_request_kind kind;
    uint64_t segment;       /* a view shows exactly the commits up to this segment; a backup holds
                             * at least them */
    const char *backup_dir; /* must not exist; gets engine/ and journal/ */
    /* results, valid once done */
    _Atomic bool done; /* shared: atomic */
    enum rc rc;
    struct err err;
    struct engine_view *view;
    struct sys_mark mark; /* of the view, or of the engine copy */
    struct flush_request *next;
};
void flush_request(struct flush *flush, struct flush_request *request); /* (any) */
void flush_request_take_back(struct flush *flush,
                             struct flush_request *request); /* waits if it runs */

struct flush_status {
    struct sys_mark mark;
    uint64_t unit_count;
    uint64_t row_count; /* rows put or deleted by units */
    uint64_t range_delete_count;
    uint64_t pending_bytes; /* sealed and not flushed */
    uint64_t cpu_ns;        /* of the flusher's thread */
    uint64_t failure_count;
    uint64_t rest_count;                /* pauses for the sake of clients */
    uint64_t reopen_count;              /* how often the engine was opened again */
    char reopen_reason[ERR_TEXT_BYTES]; /* what had happened before the last time */
    bool braked;                        /* waiting for the engine's pressure to fall */
    bool working;
    bool engine_closed;          /* it could not be opened again yet */
    char reason[ERR_TEXT_BYTES]; /* of the last failure; empty once a unit is in the engine */
    bool disk_full;              /* it was a lack of disk, and nothing was flushed since */
};
void flush_status(struct flush *flush, struct flush_status *ret_status); /* (any) */
uint64_t flush_mark_segment(const struct flush *flush);                  /* (any) atomic */
bool flush_disk_full(struct flush *flush);                               /* (any) */
bool flush_failed(struct flush *flush, struct err *ret_why);             /* (any) */

/* Manual mode: one step. *ret_worked false: nothing to do, braked, or it failed (status.reason).
 * After a failed step the same step is tried again by the next call (with threads: after a
 * back-off). */
void flush_step(struct flush *flush, bool *ret_worked);

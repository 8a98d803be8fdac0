// SPDX-License-Identifier: Apache-2.0
/* journal.h - the journal as the executor writes it: a frame a turn, segments sealed behind it.
 *
 * Rules that hold on disk:
 *   (1) Segment numbers are continuous; LSNs only grow. A segment's directory entry is synced
 *       before the next one is begun.
 *   (2) Syncs happen in order: no byte of segment N+1 is synced before all of N is. N+2 gets its
 *       first byte only after N was synced whole. So at most the last two segments can be torn, and
 *       if N is torn then no frame of N+1 carries a synced-up-to mark above zero.
 *   (3) The durable LSN covers exactly what a completed sync covered.
 *   (4) What is written and not yet synced is kept in memory (at most `unsynced_bytes_max`, else
 *       the writer waits for a sync), so a failed fdatasync is answered by writing the segment
 *       again to a fresh file: what was synced of it is copied, the rest comes from memory. The
 *       copy is checked, synced and renamed over the old file. Number, frames and chain stay the
 *       same, so no turn ever moves to another segment. A turn too large to be kept is synced
 *       before journal_write() returns.
 *   (5) A failed write is cut back (truncate) to the turn's start, and synced. If that fails too,
 *       the segment is written again as in (4). When neither works the journal is read-only until
 *       journal_retry() succeeds. Never pretend.
 *
 * Threads: journal_write(), _rotate(), _retry() belong to the executor; the journal's own thread
 * syncs, seals and prepares the next file; the getters marked (any) are safe everywhere. With
 * `manual` there is no thread and journal_step() does one piece of its work.
 * Ownership: the journal owns its files; bytes given to journal_write() are copied. */
#pragma once

#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "store/journal/reserve.h"
#include "store/journal/segment.h"

enum durability { DURABILITY_ALWAYS, DURABILITY_EVERYSEC, DURABILITY_NO };

struct journal;

struct journal_options {
    struct files *files;
    const char *dir; /* of the segments; copied */
    const struct clock *clock;
    struct rand *rand; /* borrowed; used by the executor only */
    uint8_t uuid[16];
    uint32_t incarnation;
    enum durability durability;
    size_t segment_bytes;      /* a segment is sealed when it is at least this long */
    size_t unsynced_bytes_max; /* a sync is asked for at a quarter of it */
    uint64_t disk_reserve_bytes;
    struct reserve
        *reserve; /* borrowed, counts as free, and is taken where there is no disk; NULL */
    bool manual;
    /* Called from the journal thread (or journal_step) when the durable LSN, the sealed segments or
     * the state changed. */
    void (*notify)(void *arg);
    void *notify_arg;
    /* Appends the counters as encoded in a segment header; called by the executor when a segment
     * is begun. False: full. */
    bool (*counters)(void *arg, struct buf *to);
    void *counters_arg;
};

/* Where the last run ended; from recovery. Sealed segments that are still needed are handed over
 * with journal_adopt(). */
struct journal_start {
    uint64_t next_number;
    uint64_t last_lsn;
    uint64_t bytes_before;
    uint32_t chain_before;
};

/* Does not fail for want of disk space: without a first segment the journal starts read-only. */
enum rc journal_open(const struct journal_options *options, const struct journal_start *start,
                     struct journal **ret_journal, struct err *err) NODISCARD;
/* Syncs (unless it fails: the error is only for the log) and closes. NULL is allowed. */
enum rc journal_close(struct journal *journal, struct err *err);
/* As a crash would leave it: nothing is written any more. */
void journal_abandon(struct journal *journal);

/* Writes a turn. Afterwards it survives the end of the process. On an error nothing of the turn is
 * in the journal: RC_FULL or RC_IO (try again later), RC_READONLY. (If the error made the journal
 * read-only, a turn could not be taken back for sure: a power cut before journal_retry() succeeds
 * may bring it back.) Waits only when rule (4) makes it; in manual mode it then does the step
 * itself. */
enum rc journal_write(struct journal *journal, uint64_t first_lsn, uint32_t commit_count,
                      struct bytes body, struct err *err) NODISCARD;
/* The number that the next turn's changes belong to. Constant from one journal_write() to the
 * next: a rotation takes effect inside journal_write(), after its frame. */
uint64_t journal_segment(const struct journal *journal);
/* Between turns. The segment written to is ended, if it holds any frame, and a fresh one is begun:
 * at once, or, while the segment before is not synced yet or the next file is being made, in a
 * later journal_write(), or in a journal_rotate() that is called again after a notify. Returns the
 * number that will have been sealed when everything written so far is flushed: the flush mark to
 * wait for. */
uint64_t journal_rotate(struct journal *journal);
void journal_sync_ask(struct journal *journal); /* (any) a sync soon, whatever the durability */
void journal_durability_set(struct journal *journal, enum durability durability);
/* Read-only: tries to begin a new segment. RC_OK when writing works again. */
enum rc journal_retry(struct journal *journal, struct err *err) NODISCARD;

struct journal_status {
    uint64_t written_lsn; /* last LSN written */
    uint64_t durable_lsn;
    uint64_t segment_number;
    uint64_t segment_bytes;
    uint64_t unsynced_bytes;
    uint64_t frame_count; /* since the start */
    uint64_t byte_count;
    uint64_t sync_count;
    uint64_t sync_failure_count;
    uint64_t sealed_count; /* sealed and not removed */
    uint64_t sealed_bytes;
    uint64_t disk_free_bytes; /* at the last look */
    bool disk_low;            /* free < reserve, or what was held was taken */
    bool read_only;
    char reason[ERR_TEXT_BYTES]; /* of read_only */
};
void journal_status(struct journal *journal, struct journal_status *ret_status); /* (any) */
uint64_t journal_durable_lsn(const struct journal *journal);                     /* (any) */
bool journal_disk_low(const struct journal *journal);                            /* (any) */
bool journal_read_only(const struct journal *journal);                           /* (any) */

struct journal_sealed { /* a segment that will not change any more and is synced */
    uint64_t number;
    uint64_t bytes;
    uint64_t last_lsn;
};
void journal_adopt(struct journal *journal, const struct journal_sealed *sealed);
/* (any) The first sealed segment with a number above `after`; false: none. */
bool journal_sealed_next(struct journal *journal, uint64_t after,
                         struct journal_sealed *ret_sealed);
/* (any) Segments up to `number` are in the engine: their files go. A missing file is fine. Pinned
 * ones stay until they are unpinned. */
enum rc journal_remove(struct journal *journal, uint64_t number, struct err *err) NODISCARD;
void journal_pin(struct journal *journal);   /* (any) no file is removed */
void journal_unpin(struct journal *journal); /* (any) */

/* Manual mode: does one piece of background work (a sync, a seal, preparing a file).
 * *ret_worked: whether there was any. Errors are kept in the status, not returned. */
void journal_step(struct journal *journal, bool *ret_worked);

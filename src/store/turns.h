// SPDX-License-Identifier: Apache-2.0
/* turns.h - the store as its owner drives it: opening, turns, waiting for cold rows, room, freeze.
 *
 * The owner ends every turn with store_write(), calls store_poll() between turns, and asks
 * store_room() before a writer starts. task.h does that for a server, tests and tools by hand.
 *
 * Ownership: a store is its opener's, a freeze or backup its starter's until store_freeze_end(). A
 * load_waiter is embedded by the caller and lives until store_wait_release().
 * Threads: the executor, except reading a frozen view (one other thread), and wake(), which any
 * thread calls. */
#pragma once

#include "base/clock.h"
#include "base/file.h"
#include "store/engine/engine.h"
#include "store/journal/journal.h"
#include "store/store.h"

struct engine_memory;
struct load_waiter; /* store/hot/load.h */
struct journal_cut; /* store/journal/recover.h */

/* ---- opening ---- */

struct store_options {
    const char *dir;                  /* made if missing */
    const struct store_space *spaces; /* what this program knows; stored ones must agree */
    size_t space_count;
    const struct engine_ops *engine;     /* NULL: RocksDB */
    struct engine_memory *engine_memory; /* engine_memory only */
    struct files *files;                 /* NULL: the real ones */
    const struct clock *clock;           /* NULL: the real one */
    uint64_t seed;                       /* of all randomness; 0: from the system */
    size_t hot_memory_bytes;             /* 0: 1 GiB */
    uint64_t disk_reserve_bytes;         /* UINT64_MAX: 1 GiB */
    uint64_t full_reserve_bytes;         /* held as a file for a full disk (reserve.h); 0: none */
    enum durability durability;
    size_t segment_bytes;    /* 0: from hot_memory_bytes */
    size_t flush_unit_bytes; /* 0: a quarter of hot_memory_bytes, 64..512 MiB */
    uint64_t flush_age_ms;   /* 0: 60 s */
    size_t cache_bytes;      /* of the engine; 0: 64 MiB */
    uint32_t loader_count;   /* 0: 1 */
    bool manual;             /* no threads: store_step() does their work */
    bool always_cold;        /* tests: never ask the engine's memory from the executor */
    uint32_t purge_count;    /* tests: so many tombstones and empty groups begin a round; 0: many */
    /* From any thread: store_poll() has something to do. May be NULL. */
    void (*wake)(void *arg);
    void *wake_arg;
};

/* RC_CORRUPT names file, offset and the command that repairs; RC_VERSION, RC_BUSY, RC_IO, RC_FULL.
 * A full disk does not prevent opening: the store is read-only until there is room. */
enum rc store_open(const struct store_options *options, struct store **ret_store,
                   struct err *err) NODISCARD;
/* What opening has cut off the journal's end: nobody was told that it is on disk. */
size_t store_cuts(const struct store *store, const struct journal_cut **ret_cut);
/* Writes what is committed, syncs and closes; does not flush (store_flush_ask() and wait before).
 * NULL is allowed. Everything is freed whatever is returned. */
enum rc store_close(struct store *store, struct err *err);

/* ---- turns ---- */

/* Ends the turn. On an error every commit since the last store_write() is taken back. */
enum rc store_write(struct store *store, struct err *err) NODISCARD;
/* Between commits, for who finds that the turn cannot be ended as it was begun: every commit since
 * the last store_write() is taken back at once, changes are refused with this error until the next
 * one, and that answers it too. */
void store_turn_refuse(struct store *store, enum rc rc, const struct err *err);
size_t store_turn_bytes(const struct store *store); /* waiting to be written */
void store_durability_set(struct store *store, enum durability durability);

/* ---- cold rows ---- */

/* After RC_COLD and store_undo(): starts the loads of everything wanted since store_begin(). The
 * waiter's ready() is called by store_poll() once, unless false is returned: nothing has to be
 * waited for, try again at once. */
bool store_wait(struct store *store, struct load_waiter *waiter);
/* The task is through: what was loaded for it may be evicted. */
void store_wait_release(struct store *store, struct load_waiter *waiter);

/* ---- between turns ---- */

/* Takes in what other threads finished, evicts, tries a read-only journal again (once a second).
 * True: something happened. Call it when woken and once a turn. */
bool store_poll(struct store *store);
/* store_poll() has more to do at once: dropped groups are freed in small steps. */
bool store_busy(const struct store *store);
/* Whether a writer may start; false: park it until store_poll() makes it true. Also asks for the
 * flush that makes room. True as well while changes are refused (read-only, below the disk
 * reserve, that flush fails): the writer gets that error. */
bool store_room(struct store *store);
/* The same for who deletes, after a store_room(), whatever that said: what frees goes on for a
 * while, but a deletion is a dirty row as well, until it is flushed. True as well where the flush
 * fails: beyond that bound the deletion gets this error. */
bool store_room_to_delete(struct store *store);
/* Changes that free nothing are refused: the disk is full, or nearly, or there is no end of waiting
 * for room. */
bool store_is_short(const struct store *store);
/* Everything committed so far goes to the engine soon; returns the segment to wait for. */
uint64_t store_flush_ask(struct store *store);
uint64_t store_flush_mark(const struct store *store); /* segments up to this one are flushed */

/* Between turns; memory over a smaller limit is given back by the next store_poll()s. */
void store_hot_memory_set(struct store *store, size_t bytes);

/* The journal cannot be written or synced: nothing more becomes durable, and it is tried again. */
bool store_journal_failed(struct store *store, struct err *ret_why);
/* What was committed last cannot be flushed, and it is tried again: *ret_why says why. */
bool store_flush_failed(struct store *store, struct err *ret_why);

/* An exact view at one LSN, with everything committed so far (a busy journal may seal a little
 * later), readable by one other thread. It is made by a flush: ask with store_freeze_ready(). */
struct store_freeze;
enum rc store_freeze_start(struct store *store, struct store_freeze **ret_freeze,
                           struct err *err) NODISCARD;
/* RC_WAIT: not yet; where nothing can be flushed, for as long as that (store_flush_failed). RC_OK:
 * use the view until store_freeze_end(). Other: failed. */
enum rc store_freeze_ready(struct store_freeze *freeze, struct engine_view **ret_view,
                           uint64_t *ret_lsn, struct err *err) NODISCARD;
void store_freeze_end(struct store *store, struct store_freeze *freeze);
struct engine *store_engine(struct store *store);
const struct space_set *store_spaces(const struct store *store);

/* A consistent copy of the store in a directory that must not exist. Same protocol. */
enum rc store_backup_start(struct store *store, const char *dir, struct store_freeze **ret_backup,
                           struct err *err) NODISCARD;

/* ---- watching ---- */

struct store_stats {
    uint64_t hot_bytes, hot_bytes_max, dirty_bytes, pinned_bytes;
    uint64_t hot_entry_count, evicted_block_count, evicted_row_count, purged_count;
    uint64_t load_count, load_row_count, load_failed_count, loads_in_flight, preempted_count;
    char load_failed_reason[ERR_TEXT_BYTES]; /* of the last one */
    uint64_t cold_count;                     /* reads answered RC_COLD */
    uint64_t cold_injected_count;            /* by store_cold_inject() */
    uint64_t gap_search_count;               /* rows passed to find what of a group is cold */
    uint64_t commit_count, turn_count, undo_count;
    struct journal_status journal;
    uint64_t flush_unit_count, flush_row_count, flush_range_delete_count, flush_failure_count;
    uint64_t flush_pending_bytes;
    bool flush_braked;
    bool engine_closed; /* after an error; it is tried again and again */
    uint64_t engine_reopen_count;
    char engine_reopen_reason[ERR_TEXT_BYTES];
    char flush_reason[ERR_TEXT_BYTES];
    struct engine_pressure pressure;
    struct engine_stats engine;
    uint64_t recovered_turn_count, recovered_bytes;
    uint64_t recovered_cut_bytes, recovered_cut_turn_count; /* store_cuts(), all together */
    uint64_t full_reserve_bytes, full_reserve_bytes_max;    /* held; when it is whole */
};
void store_stats(struct store *store, struct store_stats *ret_stats);

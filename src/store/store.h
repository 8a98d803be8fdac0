// SPDX-License-Identifier: Apache-2.0
/* store.h - spaces, groups and rows: what every data model is written on.
 *
 * A row is (prefix, group key, suffix) -> value in a space. Rows of a group are in byte order of
 * their suffixes. Changes happen in commits, commits in turns:
 *
 *   store_begin()  ...reads and changes...  store_commit() | store_undo()     any number of times
 *   store_write()                             one journal frame; from here on the turn is safe
 *   store_poll()                              between turns: loads, flush marks, evictions
 *
 * A read that needs the engine answers RC_COLD and remembers what it wanted. The caller undoes the
 * commit, calls store_wait() and tries again when its waiter is ready; task.h does that for whole
 * commands.
 *
 * Ownership: bytes from store_get() and walks are borrowed and die with the next call that changes
 * rows, the next read of the same kind, or the end of the commit. Arguments are copied.
 * Threads: a store belongs to one thread, the executor; nothing here may be called from another,
 * except reading a frozen view. */
#pragma once

#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "store/engine.h"
#include "store/journal.h"
#include "store/space.h"

struct store; /* defined in store/store_int.h */
struct engine_memory;
struct load_waiter; /* store/load.h */
struct journal_cut; /* store/recover.h */

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
    uint32_t tidy_count;     /* tests: so many tombstones and empty groups begin a round; 0: many */
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
/* As kill -9 would leave it; for tests. */
void store_abandon(struct store *store);

/* ---- naming ---- */

struct store_group {
    uint32_t prefix;  /* from store_prefix() */
    struct bytes key; /* what follows the prefix */
};

/* Finds or registers a prefix; for good, synced to disk, so not on a hot path. Not inside a commit.
 */
enum rc store_prefix(struct store *store, uint8_t space, struct bytes prefix, uint32_t *ret_prefix,
                     struct err *err) NODISCARD;
/* Finds or makes a counter's number; it starts at 0. */
enum rc store_counter(struct store *store, struct bytes name, uint32_t *ret_counter,
                      struct err *err) NODISCARD;

/* ---- commits and turns ---- */

enum store_begin_flags {
    STORE_DELETES = 1, /* allowed below the disk reserve */
};
void store_begin(struct store *store, unsigned flags);
/* Closes the commit, which cannot fail: each change has taken the room of its record. A commit
 * without changes takes no LSN. */
void store_commit(struct store *store);
/* Takes the open commit back. */
void store_undo(struct store *store);
/* A place in the open commit, one at a time: store_undo_saved() takes back what was changed since
 * store_save(), and the commit goes on. For one of a MULTI's commands that is refused. */
void store_save(struct store *store);
void store_undo_saved(struct store *store);
/* Ends the turn. On an error every commit since the last store_write() is taken back. */
enum rc store_write(struct store *store, struct err *err) NODISCARD;
/* Between commits, for who finds that the turn cannot be ended as it was begun: every commit since
 * the last store_write() is taken back at once, changes are refused with this error until the next
 * one, and that answers it too. */
void store_turn_refuse(struct store *store, enum rc rc, const struct err *err);
size_t store_turn_bytes(const struct store *store); /* waiting to be written */

uint64_t store_lsn(const struct store *store);         /* of the open commit */
uint64_t store_last_lsn(const struct store *store);    /* last one given */
uint64_t store_commit_lsn(const struct store *store);  /* of the last commit that was not undone */
uint64_t store_durable_lsn(const struct store *store); /* survives a power cut */
uint32_t store_incarnation(const struct store *store);
/* Between turns: LSNs from here on are above this one. RC_INVALID more than a day ahead of now. */
enum rc store_lsn_raise(struct store *store, uint64_t lsn, struct err *err) NODISCARD;
void store_durability_set(struct store *store, enum durability durability);
void store_sync_ask(struct store *store); /* a sync soon, whatever the durability */

/* ---- rows ---- */

/* Groups (SPACE_WHOLE: rows) that will be needed in a moment are brought into the processor's cache
 * all at once, where reads would meet its misses one after the other. store_ahead_add() asks for a
 * group's place in the table, store_ahead_bring() for the groups themselves, and empties the list:
 * work between the two hides the first wait. Who asks for the first rows in this order does not
 * search them. Pays from two keys on. Changes no row and no figure, answers nothing; at any time.
 */
enum { STORE_AHEAD_MAX = 128 };
struct store_ahead {
    size_t count; /* 0 at first; what there is no room for is left out */
    uint32_t prefix[STORE_AHEAD_MAX];
    uint64_t hash[STORE_AHEAD_MAX];
};
void store_ahead_add(struct store *store, struct store_ahead *ahead, struct store_group group);
void store_ahead_bring(struct store *store, struct store_ahead *ahead);
/* Both, of groups that are known already. */
void store_prefetch(struct store *store, const struct store_group *group, size_t count);
/* The same for single rows of groups. */
struct store_row {
    struct store_group group;
    struct bytes suffix;
};
void store_prefetch_rows(struct store *store, const struct store_row *row, size_t count);
/* The row of a SPACE_WHOLE space, packed, if it is hot. Nothing is counted, nothing is asked for:
 * false says nothing. */
bool store_peek(struct store *store, struct store_group group, struct bytes *ret_packed);
/* store_prefetch_rows(), and what is there of them in the same way; ptr NULL: nothing is known. */
void store_peek_rows(struct store *store, const struct store_row *row, size_t count,
                     struct bytes *ret_packed);
/* Suffixes of rows of a group that are hot, from the first one not before `from` on, or back from
 * the last one before it: as many as there are next to each other, up to max. Borrowed until the
 * next change. */
size_t store_peek_suffixes(struct store *store, struct store_group group, struct bytes from,
                           bool reverse, struct bytes *ret_suffix, size_t max);
/* RC_OK, RC_NOT_FOUND, RC_COLD. */
enum rc store_get(struct store *store, struct store_group group, struct bytes suffix,
                  struct bytes *ret_value, struct err *err) NODISCARD;
/* store_get() in the form the space's pack() made: nothing is copied. */
enum rc store_get_packed(struct store *store, struct store_group group, struct bytes suffix,
                         struct bytes *ret_packed, struct err *err) NODISCARD;
/* Blind: does not need to know what is there. RC_FULL, RC_READONLY, RC_TOO_BIG, RC_NOMEM. */
enum rc store_put(struct store *store, struct store_group group, struct bytes suffix,
                  struct bytes value, struct err *err) NODISCARD;
/* The same for a row of a SPACE_WHOLE space whose packed form is known: what the space's pack()
 * makes of the value, with or without a call. */
enum rc store_put_packed(struct store *store, struct store_group group, struct bytes value,
                         struct bytes packed, struct err *err) NODISCARD;
/* store_put() of a row of a group, and whether there was none before: one search where a get and a
 * put make two. RC_COLD: nothing was put. */
enum rc store_put_tell(struct store *store, struct store_group group, struct bytes suffix,
                       struct bytes value, bool *ret_new, struct err *err) NODISCARD;
/* RC_NOT_FOUND if it is known that there is none; RC_OK if there was one, or may have been. */
enum rc store_delete(struct store *store, struct store_group group, struct bytes suffix,
                     struct err *err) NODISCARD;
/* The caller knows that this group has never existed (its ID was just drawn). */
enum rc store_group_new(struct store *store, struct store_group group, struct err *err) NODISCARD;
/* All rows of a group; O(1) in its size, except that small ones become point deletes. The memory of
 * a large one is freed by later store_poll()s. */
enum rc store_group_drop(struct store *store, struct store_group group, struct err *err) NODISCARD;
/* All groups of a prefix; O(1). RC_TOO_BIG: thousands of drops in one turn. */
enum rc store_prefix_drop(struct store *store, uint32_t prefix, struct err *err) NODISCARD;

enum rc store_counter_add(struct store *store, uint32_t counter, int64_t delta,
                          struct err *err) NODISCARD;
int64_t store_counter_get(const struct store *store, uint32_t counter);
/* Counters by number, from 0 on; false: that is no number of one. */
bool store_counter_name(const struct store *store, uint32_t counter, struct bytes *ret_name);

/* While this is the same, every row that was read of a group is as it was: it grows with changes
 * and undos of all spaces but SPACE_WHOLE ones, and between. */
uint64_t store_group_changes(const struct store *store);

/* ---- order ---- */

enum { STORE_WALK_WORDS = 36 };
struct store_walk { /* for store_walk_*() only */
    struct store *store;
    struct store_group group;
    bool reverse;
    bool has_at;
    bool inclusive; /* the row at `at` itself comes next */
    /* The caller may set it after store_walk_init(): how many rows it will read from where the walk
     * stands. What is cold of them is loaded in one go. 0: nobody knows; a page, and more each time
     * that the command has to begin again. */
    uint64_t row_count;
    /* Likewise: rows are passed once, in many commits. A window is loaded: much, but so little that
     * it is still in memory when its time comes, although nobody holds it. What was passed leaves
     * before what others use. */
    bool once;
    uint64_t change; /* `tree` and `pos` are good while the store's change count is this */
    const void *tree;
    struct buf at; /* where the walk stands: the last suffix given, or sought */
    uint64_t pos[STORE_WALK_WORDS];
};
/* From the first row (the last, reversed). The group key is borrowed for the walk's life. */
void store_walk_init(struct store_walk *walk, struct store *store, struct store_group group,
                     bool reverse);
void store_walk_done(struct store_walk *walk);
/* From the first row at or after the suffix (at or before it, reversed). RC_NOMEM. */
enum rc store_walk_seek(struct store_walk *walk, struct bytes suffix, struct err *err) NODISCARD;
/* The same from the first row behind the suffix on (the last before it, reversed). */
enum rc store_walk_seek_behind(struct store_walk *walk, struct bytes suffix,
                               struct err *err) NODISCARD;
/* RC_OK, RC_NOT_FOUND at the end, RC_COLD. The suffix is good until the next change, whatever is
 * read meanwhile; the value is not. Changes between two calls are seen. After RC_COLD the
 * walk stands where it stood. */
enum rc store_walk_next(struct store_walk *walk, struct bytes *ret_suffix, struct bytes *ret_value,
                        struct err *err) NODISCARD;

/* These need the group to be complete in memory; otherwise RC_COLD, and all of it is wanted, page
 * by page. */
enum rc store_nth(struct store *store, struct store_group group, uint64_t n,
                  struct bytes *ret_suffix, struct bytes *ret_value, struct err *err) NODISCARD;
/* Rows before the suffix, whether or not there is a row at it. */
enum rc store_rank(struct store *store, struct store_group group, struct bytes suffix,
                   uint64_t *ret_rank, struct err *err) NODISCARD;
/* Rows with from <= suffix < to; has_to false: to the end. */
enum rc store_range_count(struct store *store, struct store_group group, struct bytes from,
                          bool has_to, struct bytes to, uint64_t *ret_count,
                          struct err *err) NODISCARD;

struct store_group_state {
    bool known;         /* there is an entry in memory */
    bool complete;      /* all of it is */
    uint64_t row_count; /* rows in memory; all of them if complete */
};
struct store_group_state store_group_state(struct store *store, struct store_group group);

/* ---- all rows of a prefix (SPACE_WHOLE) ---- */

struct store_scan_row {
    struct bytes key;   /* after the prefix; borrowed until the next change */
    struct bytes value; /* not packed: at least its first 64 bytes */
    bool packed;        /* the value is in the form the space's pack() made */
    bool hot;           /* store_scan_hot() shows it as well */
};
typedef void store_scan_fn(void *arg, const struct store_scan_row *row); /* reads nothing itself */

/* Everything is in memory: store_scan_hot() alone shows all there is. */
bool store_scan_complete(const struct store *store, uint32_t prefix);
/* Rows in memory, in no order; 0 is the start and the end. A row that is there, in memory, from
 * start to end is shown at least once. */
uint64_t store_scan_hot(struct store *store, uint32_t prefix, uint64_t cursor, store_scan_fn *fn,
                        void *arg);
/* The same from a random place on. */
uint64_t store_scan_hot_random(struct store *store, struct rand *rand);

struct store_scan_page {
    uint32_t prefix;
    struct bytes from; /* the first key, included */
    uint32_t look_count_max;
    /* NULL: every key. Called by loader threads: it depends on its arguments alone. */
    bool (*match)(struct bytes pattern, struct bytes key);
    struct bytes pattern;
};
/* Rows in the engine, in key order, as the open commit sees them; those that are in memory only are
 * not among them. RC_COLD: the page is wanted; a command that asks for several pages, one after
 * the other, holds them all until it is through. RC_OK: *ret_last is the last key looked at if
 * *ret_more. fn may be NULL. */
enum rc store_scan_engine(struct store *store, const struct store_scan_page *page,
                          store_scan_fn *fn, void *arg, bool *ret_more, struct bytes *ret_last,
                          struct err *err) NODISCARD;

/* ---- cold things ---- */

/* Names something that will be needed; nothing happens if it is in memory: a row, a page of rows
 * from the suffix on in either direction, or the first (last) page of the group. */
enum store_want_kind {
    STORE_WANT_ROW,
    STORE_WANT_PAGE,
    STORE_WANT_PAGE_REVERSE,
    STORE_WANT_WINDOW, /* of a walk that passes rows once */
    STORE_WANT_FIRST,
    STORE_WANT_LAST,
    STORE_WANT_KEYS, /* store_scan_engine()'s */
};
void store_want(struct store *store, struct store_group group, struct bytes suffix,
                enum store_want_kind kind);
/* So many rows from the suffix on. */
void store_want_rows(struct store *store, struct store_group group, struct bytes suffix,
                     uint64_t row_count);
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
    uint64_t hot_entry_count, evicted_block_count, evicted_row_count, tidied_count;
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

/* ---- tests ---- */

enum store_step { STORE_STEP_JOURNAL, STORE_STEP_FLUSH, STORE_STEP_LOAD };
/* Manual mode: one piece of a thread's work. False: there was none. */
bool store_step(struct store *store, enum store_step step);
/* Evicts everything that may leave. */
void store_evict_all(struct store *store);
/* The count-th read from now that could be answered answers RC_COLD instead. 0: off. */
void store_cold_inject(struct store *store, uint64_t count);
void store_check(struct store *store); /* asserts the invariants of the hot tier; slow */

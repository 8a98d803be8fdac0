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
 * Commits and rows are here. The other headers of a store: turns.h for its owner (opening, turns,
 * room, freeze), prefetch.h for who knows ahead of time what will be read, testing.h.
 *
 * Ownership: bytes from store_get() and walks are borrowed and die with the next call that changes
 * rows, the next read of the same kind, or the end of the commit. Arguments are copied.
 * Threads: a store belongs to one thread, the executor; nothing here may be called from another. */
#pragma once

#include "base/rand.h"
#include "store/engine/space.h"

struct store; /* defined in store/rows/store_int.h */

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

/* ---- commits ---- */

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

uint64_t store_lsn(const struct store *store);      /* of the open commit */
uint64_t store_last_lsn(const struct store *store); /* last one given */
/* The least LSN that a store which starts at this time gives. They stay below 2^62, whatever a
 * clock says: versions of landed rows are signed, and a store that had used them up is lost. */
uint64_t store_lsn_of_ms(uint64_t unix_ms);
uint64_t store_commit_lsn(const struct store *store);  /* of the last commit that was not undone */
uint64_t store_durable_lsn(const struct store *store); /* survives a power cut */
uint32_t store_incarnation(const struct store *store);
/* Between turns: LSNs from here on are above this one. RC_INVALID more than a day ahead of now. */
enum rc store_lsn_raise(struct store *store, uint64_t lsn, struct err *err) NODISCARD;
void store_sync_ask(struct store *store); /* a sync soon, whatever the durability */

/* ---- rows ---- */

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
     * it is still in memory when its time comes, although nobody pins it. What was passed leaves
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
 * the other, pins them all until it is through. RC_OK: *ret_last is the last key looked at if
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

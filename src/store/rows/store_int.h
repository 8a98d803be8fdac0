// SPDX-License-Identifier: Apache-2.0
/* store_int.h - the store's struct, for the files of this folder.
 *
 *   store.c           rows: get, put, delete, drops, counters; the changes recovery replays
 *   store_prefetch.c  rows on their way into the processor's cache
 *   store_turn.c      commits, undo, the end of a turn
 *   store_walk.c      order: walks, n-th, rank, counts
 *   store_scan.c      all rows of a prefix, in no order or page by page
 *   store_idle.c      idle work: loads, marks, room, evictions, freeze, backup, statistics
 *   store_open.c      open, recovery, close
 *
 * Threads: the executor, except store__notify(). */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "store/flush/flush.h"
#include "store/hot/hot.h"
#include "store/hot/load.h"
#include "store/journal/record.h"
#include "store/journal/recover.h"
#include "store/prefetch.h"
#include "store/rows/catalog.h"
#include "store/testing.h"
#include "store/turns.h"

/* One change of the turn, and how to take it back. The suffix of a row is not copied: it stands in
 * the turn's record. */
enum undo_kind {
    UNDO_ROW,
    UNDO_ROW_VALUE,
    UNDO_TREE,
    UNDO_GROUP_DROP,
    UNDO_PREFIX_DROP,
    UNDO_COUNTER
};
struct undo {
    enum undo_kind kind;
    union {
        struct {
            struct hot_row *old; /* owned; NULL: there was none */
            struct hot_row *new; /* in the table */
        } row;
        struct {
            struct hot_row *row; /* in the table; it keeps its newer stamp */
            size_t keep_offset;  /* of the old value, which is as long as the new one */
        } row_value;
        struct {
            struct hot_group *group;
            size_t suffix_offset; /* in the body of the turn */
            size_t suffix_len;
            struct tree_old old;
        } tree;
        struct {
            struct hot_group *group;
            struct tree tree; /* owned: what was there; the group keeps its newer stamp */
        } group_drop;
        struct {
            uint32_t prefix;
            uint32_t slot;
        } prefix_drop;
        struct {
            uint32_t counter;
            int64_t delta;
        } counter;
    } as;
};

struct store_counter {
    struct bytes name; /* owned */
    int64_t value;
    int64_t commit_delta; /* of the open commit, not yet recorded */
};

struct store_want_row {
    enum store_want_kind kind;
    uint32_t prefix;
    struct bytes key, suffix; /* in want_arena */
    uint64_t row_count;       /* of a page: what the caller will read; 0: nobody knows */
    bool walks;               /* one of a walk, which may come again for more */
    bool once;                /* a window is enough */
    /* STORE_WANT_KEYS; its suffix is the pattern */
    bool (*match)(struct bytes pattern, struct bytes key);
    uint32_t look_count_max;
};

enum {
    STORE_CURSOR_BYTES = 64,
    STORE_PATH_HINTS_MAX = 32,
    STORE_PATH_HINT_LEVELS = 5,
    STORE_PATH_HINT_BYTES = 36, /* of a suffix */
    STORE_PATH_HINT_LOOKS = 4,  /* hints that are passed over */
    STORE_WALK_KEPT_BYTES = 1024,
};

/* The path to a row that is about to be read or changed: tree_seek_path(). */
struct store_path_hint {
    const struct hot_group *group; /* NULL: there is none, or the path cannot be kept */
    uint16_t known, slot; /* of the block's suffixes, and where in its directory to look first */
    uint8_t suffix_len;
    uint8_t suffix[STORE_PATH_HINT_BYTES];
    struct tree_step path[STORE_PATH_HINT_LEVELS];
};

struct store {
    struct store_options options; /* pointers resolved; dir is owned */
    char *dir, *journal_dir, *engine_dir, *scratch_dir;
    struct files *files;
    const struct clock *clock;
    struct clock own_clock;
    struct rand rand;
    struct file *lock;
    struct catalog catalog;
    struct engine *engine;
    struct journal *journal;
    struct flush *flush;
    struct hot hot;
    struct loads loads;

    /* the turn */
    struct record_writer writer;
    struct undo *undo;
    size_t undo_count, undo_cap;
    struct buf keep; /* old values */
    uint32_t stamp;  /* segment of this turn's changes */
    uint64_t last_lsn;
    uint64_t turn_first_lsn;
    uint32_t prefix_drop_count; /* of the turn: each holds a slot until it is written */
    uint64_t commit_lsn;        /* of the last commit that was not undone */
    uint64_t written_lsn;       /* of the last one in the journal */
    enum rc refused;            /* what store_write() answers; RC_OK: it writes */
    struct err refused_err;
    /* the commit */
    bool open;
    bool begin_failed; /* the turn is refused, or no memory for the header: so are changes */
    unsigned begin_flags;
    size_t commit_undo_count;
    size_t commit_keep_len;
    struct store_saved { /* store_save() */
        size_t undo_count, keep_len;
        struct record_place place;
        size_t counter_count;
        int64_t *delta; /* of the commit's changed counters */
        size_t delta_cap;
    } saved;
    uint32_t commit_ordinal;
    uint64_t change_count; /* of the trees: walks look at it */
    uint64_t shape_count;  /* of their inner nodes: path hints look at it */
    /* The cursor: where the last read or change of a row in a tree was. A change of the same row
     * need not search: else an SREM takes 25 % more instructions, an SADD 17 %. The next row is
     * often in the same block (lists, queues): else an RPOP takes 13 % more. */
    struct {
        struct hot_group *group;
        uint64_t change; /* it is good while the store's change count is this */
        bool near;       /* the last two were in one block: look there first */
        bool has_suffix; /* `pos` is exactly where the search for this one has ended */
        size_t suffix_len;
        uint8_t suffix[STORE_CURSOR_BYTES];
        struct tree_pos pos;
    } cursor;
    /* What store_prefetch_rows() has come by, in the order in which it will be asked for: then
     * nobody goes down from the root again. Without hints an HGET takes 9 % more instructions, an
     * SREM 5 %. */
    struct {
        uint64_t shape; /* they are good while the store's shape count is this */
        uint32_t count, next;
        struct store_path_hint hint[STORE_PATH_HINTS_MAX];
    } path_hints;
    /* Where the last walk began. Without it a ZPOPMIN or LRANGE of ten takes 4 % more instructions,
     * a ZRANGEBYSCORE from a fixed bound on, as queues by time send it, 5 to 8 %. */
    struct {
        const struct tree *tree;
        uint64_t shape; /* as above */
        struct store_path_hint hint;
    } walked;
    struct buf walk_at; /* of the last walk that ended: the next one's; 3 % of a ZPOPMIN */

    struct store_counter *counter;
    size_t counter_count;
    uint32_t *changed_counter; /* of the open commit */
    size_t changed_counter_count;

    struct store_want_row *want;
    size_t want_count, want_cap;
    struct arena want_arena;
    uint64_t cold_inject, cold_injected_count;

    struct buf value;       /* unpacked values handed out */
    struct buf pack;        /* packed values on their way in */
    struct buf key;         /* engine keys */
    uint64_t asked_segment; /* a flush up to here was asked for */
    bool stuck;             /* nothing more can be evicted at this mark */
    enum rc no_room;        /* RC_OK, or there is no room and the flush that would make it fails */
    struct err no_room_err, no_room_to_delete_err;
    struct reserve *reserve;
    uint64_t start_bytes;     /* taken from it to open; what is left of them goes back */
    uint64_t shrink_ns;       /* when deletions are flushed next, while the reserve is not whole */
    uint64_t unflushed_bytes; /* at the last store_room() */
    uint64_t journal_try_ns;  /* when a read-only journal is tried next */
    _Atomic bool notified;    /* shared: atomic */

    uint64_t cold_count, commit_count, turn_count, undo_total;
    uint64_t recovered_turn_count, recovered_bytes;
    struct journal_cut *cut; /* what recovery has cut off */
    size_t cut_count;
};

void store__notify(void *store); /* any thread */
/* Changes fill memory or the journal so far that not even what deletes goes on. */
bool store__deletes_over(const struct store *store);

/* Changes without a record, for recovery and for the public calls. `offset` is where the suffix
 * stands in the turn's body. */
enum rc store__row_put(struct store *store, uint32_t prefix, struct bytes key, struct bytes value,
                       bool tomb, struct err *err) NODISCARD;
enum rc store__tree_put(struct store *store, uint32_t prefix, struct bytes key, struct bytes suffix,
                        size_t offset, struct bytes value, struct tree_pos *pos,
                        struct err *err) NODISCARD;
enum rc store__tree_delete(struct store *store, uint32_t prefix, struct bytes key,
                           struct bytes suffix, size_t offset, struct tree_pos *pos,
                           struct err *err) NODISCARD;
void store__group_drop(struct store *store, uint32_t prefix, struct bytes key);
void store__prefix_drop(struct store *store, uint32_t prefix);
void store__counter_add(struct store *store, uint32_t counter, int64_t delta);

/* The group's entry, made if it is missing. */
struct hot_group *store__group(struct store *store, uint32_t prefix, struct bytes key);
/* RC_OK with the group (NULL: known to be empty), or RC_COLD: nothing is known of it. */
enum rc store__group_find(struct store *store, struct store_group group,
                          struct hot_group **ret_group) NODISCARD;
/* Remembers what was cold; returns RC_COLD, or RC_NOMEM. */
enum rc store__cold(struct store *store, struct store_group group, struct bytes suffix,
                    enum store_want_kind kind, uint64_t row_count, struct err *err) NODISCARD;
/* True: a test wants this read to be cold. */
bool store__cold_injected(struct store *store);
enum rc store__unpack(struct store *store, struct store_group group, struct bytes suffix,
                      struct bytes packed, struct bytes *ret_value, struct err *err) NODISCARD;

/* Blocks or inner nodes may be gone: nothing that points to them is good any more. */
static inline void store__trees_changed(struct store *store)
{
    store->change_count++;
    store->shape_count++;
}

/* Sets the cursor: the row at the position is likely to be changed next. */
void store__cursor_set(struct store *store, struct hot_group *group, const struct tree_pos *pos,
                       struct bytes suffix);

struct undo *store__undo_add(struct store *store, enum undo_kind kind);
/* The turn is safe, or recovered: what could be taken back is freed. */
void store__undo_release(struct store *store);

uint8_t store__space(const struct store *store, uint32_t prefix);

// SPDX-License-Identifier: Apache-2.0
/* engine.h - what an ordered engine must do for the store: the lower waist.
 *
 * An engine holds one ordered map from bytes to bytes. It is written by one thread (the flusher) in
 * units that are atomic and durable, and read by any. It may live in this process, on this disk, or
 * across a network: nothing here asks for a file or a lock, but for one question (`back_fits`) it
 * does not call into the store, a view may be missing (`has_views`), and every call may fail and be
 * tried again.
 *
 * Errors: RC_IO where trying again may help, RC_CORRUPT where stored data is damaged, RC_FULL.
 * Ownership: engines, units, iterators and views are closed by their own verb, NULL is allowed.
 * All of an engine's children are closed before it. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "store/engine/space.h"

struct engine;      /* embedded first by each backend */
struct engine_unit; /* a unit being built */
struct engine_iter;
struct engine_view;

struct engine_options {
    const char *dir;                /* where the engine keeps its files; made if missing */
    const char *scratch_dir;        /* same file system as dir; for files in construction */
    const struct space_set *spaces; /* borrowed for the engine's life: the prefix filter */
    size_t cache_bytes;             /* blocks, indexes and filters together */
    struct engine_memory *memory;   /* engine_memory only: contents that outlive the engine */
    bool read_only;                 /* inspect: nothing is written, units are refused */
    /* What was left of a unit that failed may be in the way of an opening. The engine is then
     * opened as it was before, if this says RC_OK of that state: it is asked by open() and
     * reopen(), in their thread, with an engine that can only be read, and nothing was changed yet.
     * NULL: such an opening fails. */
    enum rc (*back_fits)(void *arg, struct engine *before, struct err *err);
    void *back_arg;
};

enum engine_tier {
    ENGINE_TIER_ALL,
    ENGINE_TIER_MEMORY, /* answers RC_COLD where it would have to read a disk or ask a network */
};

struct engine_range { /* lower <= key < upper; an empty upper has no end */
    struct bytes lower;
    struct bytes upper;
    bool reverse;
    /* All keys of the range belong to one group (space_group_len() of both ends agrees): filters
     * may be used. Otherwise the iterator must be exact across groups. */
    bool one_group;
    /* A scan that will not come back: do not fill caches with it. */
    bool once;
};

struct engine_pressure {
    uint64_t l0_file_count; /* that lie over one another: what a read may have to look into */
    uint64_t debt_bytes;    /* compaction still to be done */
    bool compacting;
    uint64_t error_count; /* compactions that failed since it was opened */
    bool failed;          /* had an error in the background and does not compact: reopen() helps */
    bool closed; /* a reopen() failed: nothing can be read or written until another succeeds */
};

struct engine_stats {
    uint64_t row_count_estimate;
    uint64_t disk_bytes;
    uint64_t cache_bytes;
    uint64_t index_bytes; /* memory held outside the cache */
    uint64_t unit_count;  /* applied since open */
    uint64_t back_count;  /* openings that went back by a unit that had failed */
};

struct engine_ops {
    const char *name;
    bool has_views; /* false: view_open answers RC_INVALID, and the store offers no freeze */

    /* Opening recovers by itself. RC_BUSY: another process has it. RC_VERSION: another format. */
    enum rc (*open)(const struct engine_options *options, struct engine **ret_engine,
                    struct err *err);
    void (*close)(struct engine *engine);

    /* ---- reads; any thread. view NULL: the state of now ---- */

    /* RC_OK: the value was appended to `value`. RC_NOT_FOUND. RC_COLD with ENGINE_TIER_MEMORY. */
    enum rc (*get)(struct engine *engine, const struct engine_view *view, struct bytes key,
                   enum engine_tier tier, struct buf *value, struct err *err);
    /* False: no row has this key, known from memory alone. May be NULL: everything may be there. */
    bool (*may_have)(struct engine *engine, struct bytes key);
    /* Rows of the range in order. The iterator sees one state of each space, at least as new as the
     * call; only in a view all spaces are of one state. Ranges are copied. */
    enum rc (*iter_open)(struct engine *engine, const struct engine_view *view,
                         const struct engine_range *range, struct engine_iter **ret_iter,
                         struct err *err);
    /* RC_OK with the next row, borrowed until the next call; RC_NOT_FOUND at the end. After any
     * other answer the iterator is only good for closing. */
    enum rc (*iter_next)(struct engine_iter *iter, struct bytes *ret_key, struct bytes *ret_value,
                         struct err *err);
    void (*iter_close)(struct engine_iter *iter);
    /* An unchanging state of everything. */
    enum rc (*view_open)(struct engine *engine, struct engine_view **ret_view, struct err *err);
    void (*view_close)(struct engine *engine, struct engine_view *view);

    /* ---- writes; the flusher only, one unit at a time ---- */

    enum rc (*unit_open)(struct engine *engine, struct engine_unit **ret_unit, struct err *err);
    /* Keys of puts and deletes strictly ascend. A range delete covers [from, to) and everything
     * older than this unit, nothing of this unit, whatever the order of calls; its `from` is at
     * most the next key given, both ends lie in one space (`to` may be the start of the next), and
     * no later space has been met. Whatever is not so, and empty and inverted ranges: RC_INVALID,
     * and the unit is as before. A second unit at the same time: RC_BUSY. */
    enum rc (*unit_put)(struct engine_unit *unit, struct bytes key, struct bytes value,
                        struct err *err);
    enum rc (*unit_delete)(struct engine_unit *unit, struct bytes key, struct err *err);
    enum rc (*unit_delete_range)(struct engine_unit *unit, struct bytes from, struct bytes to,
                                 struct err *err);
    /* All or nothing, durable when RC_OK is returned. After an error the unit may have been applied
     * or not: the caller reads the mark row it put in, and applies the same unit again (applying
     * twice is harmless). */
    enum rc (*unit_apply)(struct engine_unit *unit, struct err *err);
    void (*unit_close)(struct engine_unit *unit); /* frees it; what was not applied is dropped */

    /* ---- state, copies, repair, compaction ---- */

    void (*pressure)(struct engine *engine, struct engine_pressure *ret_pressure); /* cheap */
    void (*stats)(struct engine *engine, struct engine_stats *ret_stats);
    /* A consistent copy in `dir` (which must not exist), by links where possible. */
    enum rc (*checkpoint)(struct engine *engine, const char *dir, struct err *err);
    /* The writer's, with no unit open: closes everything and opens it again. That ends an error
     * which the engine had in the background and keeps. Reads under way end first; those that
     * come meanwhile wait, but ENGINE_TIER_MEMORY never does. Views and iterators from before
     * answer RC_IO from now on and are only good for closing. Afterwards the engine holds what is
     * on its disk: a unit whose apply failed may be there or not.
     * An error leaves it as it was where its files could not be written anyhow, for want of disk
     * mostly. Otherwise it is `closed` then, and every call that can fail answers RC_IO. May be
     * NULL: this engine keeps no errors. */
    enum rc (*reopen)(struct engine *engine, struct err *err);
    /* Reads everything that is stored and tells of each file that is damaged; RC_OK although some
     * are. May be NULL: there is nothing that could be. */
    enum rc (*verify)(struct engine *engine, void (*fn)(void *arg, const char *text), void *arg,
                      struct err *err);
    /* The disk is full: begins, in the background, what frees the room of deleted rows. Called
     * again and again. False: there is nothing to do. May be NULL: it never has. */
    bool (*shrink)(struct engine *engine);
    /* Compacts until there is nothing to do; for bench and operations. */
    enum rc (*compact_all)(struct engine *engine, struct err *err);
};

struct engine {
    const struct engine_ops *ops;
};
struct engine_unit {
    struct engine *engine;
};
struct engine_iter {
    struct engine *engine;
};

extern const struct engine_ops engine_rocksdb_ops;
extern const struct engine_ops engine_memory_ops;
/* By name, or NULL. */
const struct engine_ops *engine_find(const char *name);

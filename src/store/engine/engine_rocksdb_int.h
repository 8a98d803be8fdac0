// SPDX-License-Identifier: Apache-2.0
/* engine_rocksdb_int.h - the inside of the engine on RocksDB.
 *
 *   engine_rocksdb.c       options, open and close, units, state and repair
 *   engine_rocksdb_read.c  gets, iterators, views, and the shelter of readers
 *   engine_rocksdb_version.c  the library of the start against that of the build
 *   engine_rocksdb_quiet.cc   what RocksDB does by itself, turned off
 *
 * Invariants of this engine:
 *   (1) The memtable stays empty: everything enters as files that are ingested. So there is no
 *       write-ahead log, no flush, and no stall inside RocksDB.
 *   (2) The files of a unit are ingested by one call into one column family: one manifest record.
 *   (3) No argument reaches RocksDB unchecked: Debian's build has its assertions on.
 *   (4) The last sequence number is never 0: a compaction beside a snapshot of number 0 takes every
 *       row of number 0 for a hidden one, and drops it.
 *   (5) A file in the scratch directory may be the second name of a live file, if the process was
 *       killed inside an ingestion. So names are removed before they are used, never truncated.
 *   (6) An ingestion syncs files under the database's mutex, and the first read of a thread after a
 *       change takes that mutex. So reads of memory, which must not wait, stay out meanwhile.
 *   (7) While a unit with range deletes is ingested, every read has a snapshot from before it.
 *       When a compaction ends inside an ingestion, it may show the unit's files before the
 *       last number counts them. A read without a snapshot takes the last number for rows and no
 *       limit for range deletes: it would meet the unit's range deletes but not its rows. What
 *       counts is when a read takes its set of files: a get does so once, an iterator when
 *       it is made.
 *   (8) Otherwise there is no snapshot but those of views. With one, RocksDB numbers every file,
 *       and those that lie at the bottom are later rewritten to take the number off again. Without,
 *       a file that overlaps nothing has the number 0 and shows its rows as soon as it
 *       is there; files of the same unit with a number may follow a moment later. A file holds all
 *       of a space, so each space changes at once, which is what engine.h promises.
 *   (9) No view is made while a unit is ingested: files without a number would show in it.
 *  (10) RocksDB keeps an error from the background until the database is opened again, and a
 *       database is closed only when no iterator and no snapshot of it is left. So every call of
 *       another thread than the flusher is inside the gate, or does not touch the database, and
 *       nothing that it gives out points into the database. rocks__detach() takes iterators and
 *       snapshots away from their owners, who find out at their next call.
 *
 * Locks: gate before apply_lock before view_lock; depth_lock inside the gate alone. */
#pragma once

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

#include "base/dlist.h"
#include "store/engine/engine_int.h"

enum { ROCKS_TIERS = 2, ROCKS_MANIFEST_BYTES = 40 }; /* of enum engine_tier */

struct rocks_iter;

struct rocks {
    struct engine engine;
    rocksdb_t *db; /* changed with the gate held for writing; NULL: a reopen failed */
    char *dir;
    pthread_rwlock_t gate; /* (10): held for reading by who uses db, but the flusher */
    rocksdb_env_t *env;
    rocksdb_cache_t *cache;
    rocksdb_options_t *options;
    rocksdb_envoptions_t *env_options;
    rocksdb_readoptions_t *read[ROCKS_TIERS]; /* without a snapshot */
    const struct space_set *spaces;           /* borrowed */
    char *scratch_dir;
    bool read_only;
    enum rc (*back_fits)(void *arg, struct engine *before, struct err *err);
    void *back_arg;
    char manifest[ROCKS_MANIFEST_BYTES]; /* the flusher's: the one that has a second name */
    bool unit_is_open;                   /* the flusher's */
    uint64_t file_number;                /* the flusher's */
    _Atomic uint64_t unit_count;         /* shared: atomic */
    _Atomic uint64_t back_count;         /* shared: atomic */
    atomic_bool ingesting;               /* shared: atomic; (6) */
    pthread_mutex_t apply_lock; /* held while a unit is ingested and while a view is made; (9) */
    pthread_mutex_t view_lock;  /* those down to `retired`, and ref_count of every view */
    pthread_cond_t bare_gone;   /* bare_count is 0 */
    uint64_t bare_count;        /* reads without a snapshot that may not have their files yet */
    struct rocks_view *shelter; /* (7): what reads without a view use meanwhile; else NULL */
    struct dlist retired;       /* views without references, released by the flusher */
    struct dlist views;         /* those with references */
    struct dlist iters;         /* all; (10) */
    pthread_mutex_t depth_lock; /* the three below */
    uint64_t depth;
    uint64_t depth_file_count; /* what depth was computed for */
    uint64_t depth_unit_count;
};

struct rocks_view { /* what struct engine_view is here */
    const rocksdb_snapshot_t *snapshot;
    rocksdb_readoptions_t *read[ROCKS_TIERS];
    uint64_t ref_count;
    struct dlink link; /* of `views` or `retired` */
    bool detached;     /* the snapshot is gone; changed with the gate held for writing */
};

/* Frees the status text of a RocksDB call; NULL is RC_OK. */
enum rc rocks__status_take(char *status, const char *what, struct err *err) NODISCARD;
/* Gives the manifest of now a second name; as far as that is possible. */
void rocks__manifest_keep(struct rocks *rocks);
/* The closed database gets a manifest back that RocksDB has removed. */
enum rc rocks__manifest_restore(struct rocks *rocks, struct err *err) NODISCARD;
/* Whether an opening was refused for a table that is not there. */
bool rocks__misses_a_table(const struct rocks *rocks, enum rc rc, const struct err *err);
/* The closed database becomes what it was before the record that names the table, if that fits.
 * RC_CORRUPT: it does not, and nothing was changed. */
enum rc rocks__go_back(struct rocks *rocks, struct err *err) NODISCARD;
/* The same database as it was before that record, for reading, with options that find it. */
enum rc rocks__open_before(const struct rocks *rocks, rocksdb_options_t *options,
                           struct engine **ret_engine, struct err *err) NODISCARD;
enum rc rocks__version_check(struct err *err) NODISCARD; /* RC_VERSION: another library */
/* Whether the key lies in a space of groups with many rows. Those of whole-key spaces are filtered
 * by their key, and those of unknown spaces not at all. */
bool rocks__key_is_grouped(const struct space_set *spaces, const char *key, size_t len);

rocksdb_readoptions_t *rocks__read_options_new(enum engine_tier tier);
/* (7): returns when no read is left that could meet the unit; ended by rocks__shelter_end(). */
void rocks__shelter_begin(struct rocks *rocks);
void rocks__shelter_end(struct rocks *rocks);
/* (10): the gate is held for writing. */
void rocks__detach(struct rocks *rocks);
/* For who must not wait, or does not care whether it is closed. Both false: not entered. */
bool rocks__gate_try(struct rocks *rocks) NODISCARD;
/* RC_IO: it is closed, and not entered. */
enum rc rocks__gate_enter(struct rocks *rocks, struct err *err) NODISCARD;
void rocks__gate_leave(struct rocks *rocks);
/* Releases the snapshots nobody uses any more. That takes the database's mutex: it is the
 * flusher's work, not a reader's. */
void rocks__views_release(struct rocks *rocks);

/* Members of engine_rocksdb_ops. */
enum rc rocks__get(struct engine *engine, const struct engine_view *view, struct bytes key,
                   enum engine_tier tier, struct buf *value, struct err *err);
bool rocks__may_have(struct engine *engine, struct bytes key);
enum rc rocks__iter_open(struct engine *engine, const struct engine_view *view,
                         const struct engine_range *range, struct engine_iter **ret_iter,
                         struct err *err);
enum rc rocks__iter_next(struct engine_iter *iter, struct bytes *ret_key, struct bytes *ret_value,
                         struct err *err);
void rocks__iter_close(struct engine_iter *iter);
enum rc rocks__view_open(struct engine *engine, struct engine_view **ret_view, struct err *err);
enum rc rocks__verify(struct engine *engine, void (*fn)(void *arg, const char *text), void *arg,
                      struct err *err);
void rocks__view_close(struct engine *engine, struct engine_view *view);

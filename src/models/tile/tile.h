// SPDX-License-Identifier: Apache-2.0
/* tile.h - tiles: types bound to databases, rows in the store, shards behind them.
 *
 *   rc = tile_get(tiles, type, key, &found, err);
 *   if (rc == RC_COLD) ... the command is undone; tiles_wait() says whether a shard is being read
 *
 * A tile is a row of space tile until it is persisted into shard files, then (tile-clear yes) it is
 * in the shards only. Every function that reads merges the two, so callers see one set of tiles.
 *
 * Functions that take an err run inside a commit, may answer RC_COLD anywhere and then leave
 * nothing behind, as those of types/ do: the caller's command runs again. RC_COLD is the store's,
 * or says that a shard has to be read: tiles_wait().
 *
 * Ownership: what is found is borrowed until the next call that changes rows, or the end of the
 * commit.
 * Threads: the executor. */
#pragma once

#include "store/prefetch.h"
#include "store/task.h"
#include "models/tile/tilekey.h"
#include "models/tile/value.h"
#include "types/guard.h"

struct tiles; /* defined in models/tile/tile_int.h */
struct tile_type;

enum tile_kind { /* on disk: append, never renumber */
                 TILE_PLAIN = 0,
                 TILE_TM = 1,   /* each tile has a time */
                 TILE_META = 2, /* sets of metadata: q2, qp */
};

enum { TILE_TYPES_MAX = 16, TILE_TYPE_NAME_BYTES_MAX = 31 };

struct tiles_options { /* its texts are the caller's again when tiles_open() has returned */
    struct kv *kv;
    struct tasks *tasks;
    const struct clock *clock;
    const char *const *types; /* "imagery=1": tile-types */
    size_t type_count;
    const char *data_dir;   /* of the store; NULL: it has none */
    const char *sqlite_dir; /* tile-sqlite; "" or NULL: none, or where its tiles are */
    const char *kv_dir;     /* tile-kv */
    bool clear;             /* tile-clear */
    uint32_t batch_count;   /* tile-batch */
    uint64_t interval_ms;   /* tile-interval */
    uint64_t cache_bytes;   /* tile-cache */
    uint32_t open_shards;   /* tile-open-shards */
    /* Plain commands in the database of a type, which is the model: key_guard.command(). */
    enum rc (*command)(void *type, struct cmd_ctx *ctx);
    /* From any thread: tiles_turn() has something to do. */
    void (*wake)(void *arg);
    void *wake_arg;
};

/* Before the first command; runs turns of the tasks to read what is stored about types. RC_INVALID:
 * another binding over existing data, a bad name, directories that cannot be. */
enum rc tiles_open(const struct tiles_options *options, struct tiles **ret_tiles,
                   struct err *err) NODISCARD;
void tiles_close(struct tiles *tiles); /* before its kv and tasks; NULL is allowed */
struct store *tiles_store(const struct tiles *tiles);
/* Between two turns: takes in what was read from shards. True: tasks were woken. */
bool tiles_turn(struct tiles *tiles);
/* At shutdown: everything is persisted as soon as it can be. True: there is nothing left to
 * persist, or it cannot be now: the store keeps it. */
bool tiles_drained(struct tiles *tiles);

/* ---- types ---- */

struct tile_binding {
    struct bytes name; /* borrowed */
    uint32_t db;
    bool bare; /* plain commands carry tiles without a header, and KV shards have none */
};
/* "imagery=1", "photos=2:bare", without their quotes. RC_INVALID: the text begins with "argument",
 * or names the type. */
enum rc tile_binding_parse(struct bytes text, struct tile_binding *ret_binding,
                           struct err *err) NODISCARD;
struct tile_type *tiles_type(const struct tiles *tiles, struct bytes name); /* NULL: unknown */
struct tile_type *tiles_type_at(const struct tiles *tiles, size_t index);   /* NULL: the end */
const char *tile_type_name(const struct tile_type *type);
enum tile_kind tile_type_kind(const struct tile_type *type);
bool tile_type_is_bare(const struct tile_type *type);
struct tiles *tile_type_tiles(const struct tile_type *type);
/* Inside a commit: tasks of this type have kinds from now on, and an older server, which would mix
 * them up, refuses to start. */
enum rc tile_type_kinds_note(struct tile_type *type, struct err *err) NODISCARD;
uint32_t tile_type_db(const struct tile_type *type);
/* The type bound to this database, NULL if none is. */
struct tile_type *tiles_type_of(const struct ns *ns);
/* Whether plain commands in that database take the name for a tile's. */
bool tile_is_name(const struct tile_type *type, struct bytes name);
/* A key of this type as its text has it: "0123", for tm "0123:1732612345678". */
enum rc tile_key_parse(const struct tile_type *type, struct bytes text, struct tilekey *ret_key,
                       struct err *err) NODISCARD;
size_t tile_key_print(const struct tile_type *type, struct tilekey key,
                      char to[TILEKEY_TEXT_BYTES]);

/* ---- tiles: TILE_PLAIN and TILE_TM ---- */

struct tile_found {
    struct tilekey key; /* of tile_get_at(): with the time it has */
    struct bytes row;   /* as a plain GET answers: header and data; of bare types the data */
    struct tile_value value;
};
enum rc tile_set(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                 const struct tile_value *value, struct err *err) NODISCARD;
/* RC_NOT_FOUND, RC_COLD. */
enum rc tile_get(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                 struct tile_found *ret_found, struct err *err) NODISCARD;
/* TILE_TM: the newest that is not after key.ms. */
enum rc tile_get_at(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                    struct tile_found *ret_found, struct err *err) NODISCARD;
enum rc tile_exists(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                    bool *ret_exists, struct err *err) NODISCARD;
/* Cancels what is not persisted, and is persisted itself. */
enum rc tile_del(struct tiles *tiles, struct tile_type *type, struct tilekey key, bool *ret_existed,
                 struct err *err) NODISCARD;

/* Where the row of a tile would be, to prefetch it; no answer. False: it cannot be said. The suffix
 * is in `to`. */
bool tile_row_of(const struct tiles *tiles, struct bytes type, struct bytes key,
                 uint8_t to[TILEKEY_TM_BYTES], struct store_row *ret_row);

/* ---- sets of metadata: TILE_META ---- */

enum tile_status { /* on disk: append, never renumber */
                   TILE_PENDING = 0,
                   TILE_IN_PROGRESS = 1,
                   TILE_DONE = 2,
                   TILE_ERROR = 3,
};
enum { TILE_STATUS_COUNT = 4 };
const char *tile_status_name(enum tile_status status);                   /* "PENDING" */
bool tile_status_parse(struct bytes text, enum tile_status *ret_status); /* a name or a number */

struct tile_meta_found {
    uint64_t anchor;
    enum tile_status status;
    struct bytes data;
};
/* Any key: it is stored under its anchor. Other data than was there sets the status to PENDING. */
enum rc tile_meta_set(struct tiles *tiles, struct tile_type *type, uint64_t packed,
                      struct bytes data, bool *ret_changed, struct err *err) NODISCARD;
enum rc tile_meta_get(struct tiles *tiles, struct tile_type *type, uint64_t packed,
                      struct tile_meta_found *ret_found, struct err *err) NODISCARD;
/* Legal moves: PENDING to IN_PROGRESS, that to DONE or ERROR, ERROR to PENDING; to what it is:
 * nothing happens. RC_INVALID: any other. RC_NOT_FOUND: there is no such set. */
enum rc tile_meta_move(struct tiles *tiles, const struct run *run, struct tile_type *type,
                       uint64_t packed, enum tile_status status, struct err *err) NODISCARD;
enum rc tile_meta_del(struct tiles *tiles, struct tile_type *type, uint64_t packed,
                      bool *ret_existed, struct err *err) NODISCARD;

/* ---- ranges: commands that go on in many commits ---- */

struct tile_scan_options {
    struct tile_type *type;
    uint64_t root; /* the subtree below and with this key */
    unsigned level_from, level_to;
    uint64_t ms_from, ms_to; /* TILE_TM */
    bool has_after;
    struct tilekey after; /* keys behind this one */
    uint32_t count_max;   /* of a page */
    int status;           /* TILE_META: of this status only; -1: of any */
    bool counting;        /* no page: tile_scan_counted() */
    bool bytes;           /* counting: those of data as well */
};
struct tile_scan_row {
    struct tilekey key;
    uint64_t bytes; /* of data */
    uint8_t status; /* TILE_META */
};
/* A page of keys in their order, store and shards merged. Made by the first run of a command, kept
 * between its runs (request->state). A run calls tile_scan_step() and returns RC_WAIT or RC_COLD as
 * it got it: it runs again when there is more to do. RC_OK: the page is there. */
struct tile_scan; /* defined in models/tile/scan.c */
struct tile_scan *tile_scan_new(struct tiles *tiles, const struct tile_scan_options *options);
void tile_scan_free(void *scan); /* NULL is allowed */
enum rc tile_scan_step(struct tile_scan *scan, struct task *task, struct err *err) NODISCARD;
const struct tile_scan_row *tile_scan_rows(const struct tile_scan *scan, size_t *ret_count,
                                           bool *ret_more);
/* The page behind this one, which has rows. */
void tile_scan_next(struct tile_scan *scan);
struct tile_counted {
    uint64_t count, bytes;
    uint64_t by_status[TILE_STATUS_COUNT]; /* TILE_META */
};
struct tile_counted tile_scan_counted(const struct tile_scan *scan);
/* Inside a commit: removes what a scan has found, without looking. */
enum rc tile_drop(struct tiles *tiles, struct tile_type *type, struct tilekey key,
                  struct err *err) NODISCARD;

/* ---- providers: what a tile's provider id stands for ---- */

/* The JSON of a dbroot: {"124": "copyright", "125": {"copyright": "..."}}, or a list of
 * {"provider_id": 124, "copyright": "..."}, perhaps as "providers" of an object. Replaces all. */
enum rc tile_provider_load(struct tiles *tiles, const struct run *run, struct bytes json,
                           uint64_t *ret_count, struct err *err) NODISCARD;
/* RC_NOT_FOUND. */
enum rc tile_provider_get(struct tiles *tiles, uint64_t id, struct bytes *ret_text,
                          struct err *err) NODISCARD;
enum rc tile_provider_set(struct tiles *tiles, uint64_t id, struct bytes text,
                          struct err *err) NODISCARD;
/* fn for every provider, by its number. */
enum rc tile_provider_list(struct tiles *tiles,
                           void (*fn)(void *arg, uint64_t id, struct bytes text), void *arg,
                           struct err *err) NODISCARD;

/* ---- for people ---- */

struct tile_stats {
    uint64_t pending; /* marks in memory */
    bool pending_is_all;
    const char *shards; /* "sqlite", "kv", "sqlite kv", "none" */
};
void tile_type_stats(const struct tile_type *type, struct tile_stats *ret_stats);
struct tiles_stats {
    uint64_t pending; /* marks in memory, of all types */
    uint64_t persisted, removed, batches, failures, set_aside, write_ns;
    uint64_t damaged; /* tiles in the store that cannot be persisted: tiles_trouble() names one */
    uint64_t damaged_shards; /* files that cannot be read, or were set aside and lie there still */
    uint64_t in_flight;      /* tiles that are being written to shards now */
    uint64_t cache_bytes, cache_hits, cache_misses, shard_reads, shard_read_failures;
};
void tiles_stats(const struct tiles *tiles, struct tiles_stats *ret_stats);
/* What is wrong with a shard that is damaged now, and what to do. False: none is. */
bool tiles_damage(const struct tiles *tiles, struct err *ret_err);

/* ---- waiting ---- */

/* What a command waits for, and holds, is in *waiter, which is NULL before the first of these. */
/* After RC_COLD of the last run: true if a shard has to be read; the task is woken when everything
 * that the run asked for is there. The caller tells the task to wait: task_wait_event(). */
bool tiles_wait(struct tiles *tiles, void **waiter, struct task *task);
/* The command has ended, or goes away: what was read for it may be dropped. NULL is allowed. */
void tile_waiter_free(void *waiter);

/* ---- persistence ---- */

/* TILE.SYNC: persists now. */
void tiles_sync_ask(struct tiles *tiles, uint64_t lsn);
/* Everything up to the LSN is in the shards. */
bool tiles_is_synced(const struct tiles *tiles, uint64_t lsn);
/* The task is woken at the end of the next round, good or bad; only if there are shards. */
void tiles_sync_wait(struct tiles *tiles, void **waiter, struct task *task);
uint64_t tiles_failed_rounds(const struct tiles *tiles); /* since the start */
const char *tiles_trouble(const struct tiles *tiles);    /* of the last round; NULL: it went well */

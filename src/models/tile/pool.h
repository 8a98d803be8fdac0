// SPDX-License-Identifier: Apache-2.0
/* pool.h - open shards: as many as are allowed, those used last.
 *
 *   rc = pool_take(pool, &key, SHARD_READ, &use, err);      RC_NOT_FOUND: there is no such file
 *   ... use.shard->ops->get(use.shard, ...) ...
 *   pool_give(pool, &use);
 *
 * Invariants:
 *   (1) A file has one handle of a role; kinds that share have one at all.
 *   (2) A handle that somebody has is not closed.
 *   (3) Closing happens under the lock: the same file is not opened meanwhile (LMDB).
 *   (4) A file gets another name while no handle of it is open.
 *   (5) A handle is used while its file is the one at its path, and has not been changed by others
 *       without being looked through: otherwise it is closed and opened anew.
 *   (6) The directory of a type, "<dir>/<type>", is made before the first tile is persisted, and
 *       never again: where it is missing its disk is, and that is an error, not a lack of tiles.
 *
 * Threads: any but the executor. */
#pragma once

#include "models/tile/shard.h"

struct pool; /* defined in models/tile/pool.c */

struct pool_type { /* by tile_type.number */
    struct shard_table table;
};
struct pool_options {
    const char *sqlite_dir, *kv_dir; /* borrowed */
    uint32_t open_count_max;
    const struct clock *clock;
    const struct pool_type *types; /* borrowed */
};
struct pool *pool_new(const struct pool_options *options);
void pool_free(struct pool *pool); /* nobody uses it any more; NULL is allowed */

struct pool_key {
    const struct shard_ops *ops;
    uint8_t type;
    struct tile_place place;
};
struct pool_use {
    struct shard *shard;
    struct pool_entry *entry;
    bool lost; /* when it was opened a damaged forerunner lay beside it: pool_lost() */
};
enum rc pool_take(struct pool *pool, const struct pool_key *key, enum shard_open how,
                  struct pool_use *ret_use, struct err *err) NODISCARD;
void pool_give(struct pool *pool, const struct pool_use *use);
/* Before what was written is believed to be there: that the file is still the one at its path. */
enum rc pool_confirm(struct pool *pool, const struct pool_key *key, const struct pool_use *use,
                     struct err *err) NODISCARD;
/* The writer's, after RC_CORRUPT and pool_give(): looks whether it is sure. RC_OK: it is.
 * RC_NOT_FOUND: it is not damaged for sure. */
enum rc pool_prove(struct pool *pool, const struct pool_key *key, struct err *err) NODISCARD;
/* The same, then renames the file. *ret_path (PATH_BYTES_MAX) is where it is now. */
enum rc pool_set_aside(struct pool *pool, const struct pool_key *key, char *ret_path,
                       struct err *err) NODISCARD;
/* After a miss: whether a file that was set aside lies where this one is, with tiles that this one
 * does not have. RC_CORRUPT: it does, and the error names it. RC_NOT_FOUND: it does not. */
enum rc pool_lost(struct pool *pool, const struct pool_key *key, struct err *err) NODISCARD;
/* The file is damaged: counted and logged once, until it is opened again and found whole. */
void pool_damage_note(struct pool *pool, const struct pool_key *key, const struct err *err);
uint32_t pool_damaged_count(const struct pool *pool); /* on any thread */
/* The last of them, on any thread: what was wrong. False: none is damaged now. */
bool pool_damage(struct pool *pool, struct err *ret_err);
/* Before there is a pool; on any thread. (6): made for good when it returns. */
enum rc pool_dir_make(const char *dir, const char *type, struct err *err) NODISCARD;
/* RC_IO: it is missing, or cannot be looked at. */
enum rc pool_dir_look(const char *dir, const char *type, struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* tile_int.h - what the files of tile/ share.
 *
 * Rows (types/spaces.h), integers big-endian:
 *   tile      type  packed key [‖ ms]    uvarint epoch ‖ uvarint provider ‖ data
 *   tilemark  type  packed key [‖ ms]    op(1) ‖ version(8) ‖ uvarint bytes of data
 *   tilemeta  type  packed key           status(1) ‖ data
 *   tilemeta  "."   't' ‖ type           db(4) ‖ kind(1) ‖ bits(1): kinds of shards that have
 *                                        everything; 16 times those whose directory was made;
 *                                        4: tasks have kinds; 0x40: bare; 0x80: it had shards once,
 *                                        marks may be of removals
 *   tilemeta  "."   'p' ‖ provider(8)    text
 * A mark says that the shards do not have what the store has; its version is the LSN of the commit
 * that wrote it. */
#pragma once

#include "models/tile/cache.h"
#include "models/tile/tile.h"
#include "models/tile/worker.h"

enum tile_mark_op { /* on disk: append, never renumber */
                    TILE_MARK_SET = 'S',
                    TILE_MARK_DEL = 'D',
};
struct tile_mark {
    enum tile_mark_op op;
    uint64_t version;
    uint64_t bytes; /* of data */
};

enum {
    TILE_MARK_BYTES_MAX = 1 + 8 + UVARINT_BYTES_MAX,
    TILE_ROW_KEPT_BYTES = 64 * 1024, /* of the row in construction, between two */
};

enum tile_shards { /* kinds of shards; on disk as bits: append, never renumber */
                   TILE_SHARDS_SQLITE = 1,
                   TILE_SHARDS_KV = 2,
};

struct tile_type {
    struct tiles *tiles;
    char name[TILE_TYPE_NAME_BYTES_MAX + 1];
    uint8_t name_len;
    uint8_t number; /* its place in tiles->type */
    uint8_t shards; /* enum tile_shards: what it is written to */
    /* Which of them have everything that was ever persisted; all, if nothing was. Reads use the
     * first of them. */
    uint8_t complete;
    uint8_t stored_complete; /* as the binding says; 0: nothing was persisted */
    uint8_t made;            /* kinds whose directory is, or was once */
    bool removals;           /* it has or had shards: some marks may be of removals */
    bool stored;             /* the binding is, and is right */
    bool bound;              /* it was there before this start */
    bool bare;               /* plain commands and KV shards have no header */
    bool kinds;              /* its tasks may have kinds */
    enum tile_kind kind;
    uint32_t db;
    struct key_guard guard; /* on that database */
};

struct persist;
enum { TILE_PLAIN_COMMANDS = 10 };

struct tiles {
    struct tiles_options options;
    struct kv *kv;
    struct store *store;
    uint32_t rows, marks, meta; /* prefixes, one a space: the group key is the type's name */
    struct tile_type type[TILE_TYPES_MAX];
    size_t type_count;
    struct buf row; /* a row in construction */
    /* Shards; all NULL where none are configured. */
    struct pool_type pool_type[TILE_TYPES_MAX];
    struct pool *pool;
    struct workers *workers;
    struct persist *persist;
    struct cache cache;
    struct dlist scans;
    struct queue_lease *lease;
    const struct cmd *plain[TILE_PLAIN_COMMANDS]; /* cmd_tile_plain.c; NULL: not found yet */
};

/* A key as a suffix. */
struct tile_suffix {
    uint8_t byte[TILEKEY_TM_BYTES];
    size_t len;
};
static inline struct tile_suffix tile__suffix(const struct tile_type *type, struct tilekey key)
{
    struct tile_suffix suffix;
    suffix.len = tilekey_put(key, type->kind == TILE_TM, suffix.byte);
    return suffix;
}
static inline struct bytes tile__suffix_bytes(const struct tile_suffix *suffix)
{
    return bytes_of(suffix->byte, suffix->len);
}

static inline struct bytes tile__name(const struct tile_type *type)
{
    return bytes_of(type->name, type->name_len);
}
static inline struct store_group tile__rows(const struct tile_type *type)
{
    uint32_t prefix = type->kind == TILE_META ? type->tiles->meta : type->tiles->rows;
    return (struct store_group){.prefix = prefix, .key = tile__name(type)};
}
static inline struct store_group tile__marks(const struct tile_type *type)
{
    return (struct store_group){.prefix = type->tiles->marks, .key = tile__name(type)};
}
static inline struct store_group tile__own(const struct tiles *tiles)
{
    return (struct store_group){.prefix = tiles->meta, .key = BYTES(".")};
}

/* Rows stay when they are persisted. */
static inline bool tile__keeps_rows(const struct tile_type *type)
{
    return type->kind == TILE_META || !type->tiles->options.clear;
}

/* The shards may have what the store has not. */
static inline bool tile__in_shards(const struct tile_type *type)
{
    return type->shards && type->kind != TILE_META;
}

/* types.c */
enum rc tiles__types_parse(struct tiles *tiles, struct err *err) NODISCARD;
enum rc tiles__types_bind(struct tiles *tiles, struct err *err) NODISCARD; /* runs turns */
/* Inside a commit: that these kinds of shards have everything. */
enum rc tile__binding_put(struct tile_type *type, uint8_t complete, struct err *err) NODISCARD;

/* RC_CORRUPT, with the name of the tile. Setting it again repairs it. */
enum rc tile__damaged(const struct tile_type *type, struct tilekey key, const char *why,
                      struct err *err);

/* tile_guard.c */
void tiles__guards_add(struct tiles *tiles); /* on the databases of their types */
void tiles__guards_remove(struct tiles *tiles);

/* mark.c */
size_t tile__mark_put(const struct tile_mark *mark, uint8_t to[TILE_MARK_BYTES_MAX]);
enum rc tile__mark_decode(struct bytes bytes, struct tile_mark *ret_mark,
                          struct err *err) NODISCARD;

/* shard_read.c: on a reader's thread */
struct shard_reader {
    /* May run once more, with the file of another kind: what it gathered before is void then. */
    enum rc (*run)(void *arg, struct shard *shard, struct err *err);
    void *arg;
    bool needs_all; /* what is found is an answer only if the file has all of its tiles */
};
/* RC_NOT_FOUND: the shards have no such tile, or no such file. */
enum rc tile__shard_read(const struct tile_type *type, struct pool *pool, struct tile_place place,
                         const struct shard_reader *reader, struct err *err) NODISCARD;

/* scan.c */
void tiles__scans_end(struct tiles *tiles); /* the workers have ended */

/* persist.c */
enum rc persist_new(struct tiles *tiles, struct persist **ret_persist, struct err *err) NODISCARD;
void persist_free(struct persist *persist);   /* the workers have ended; NULL is allowed */
void persist_marked(struct persist *persist); /* something has changed */
bool persist_turn(struct persist *persist);   /* between turns; true: its task runs again */
struct tile_waiter {
    struct task *task;
    struct tile_want *wants;  /* what it asked for and holds until it ends */
    size_t pending_count;     /* that have not been answered */
    struct dlist *round_list; /* of tiles_sync_wait(); NULL: it is in none */
    struct dlink round_link;
};
struct tile_waiter *tile__waiter(void **waiter); /* made if it is not there */
void persist__waiter_end(struct tile_waiter *waiter);
struct persist_stats {
    uint64_t persisted, removed, batches, failures; /* since the start */
    uint64_t set_aside;                             /* damaged shards */
    uint64_t damaged; /* tiles of the last round that could not be understood */
    uint64_t write_ns;
};
const struct persist_stats *persist_stats(const struct persist *persist);
uint64_t persist_in_flight(const struct persist *persist); /* given to the writer */

/* tile.c */
/* The row as it is in the store. RC_NOT_FOUND: neither row nor mark says anything; shards may. With
 * *ret_gone it is known that there is none. */
enum rc tile__row_find(struct tile_type *type, struct tilekey key, struct bytes *ret_row,
                       bool *ret_gone, struct err *err) NODISCARD;
/* In the store, or in the shards. */
enum rc tile__find(struct tile_type *type, struct tilekey key, struct bytes *ret_row,
                   struct err *err) NODISCARD;
enum rc tile__row_put(struct tile_type *type, struct tilekey key, struct bytes row,
                      uint64_t data_bytes, struct err *err) NODISCARD;
enum rc tile__row_del(struct tile_type *type, struct tilekey key, struct err *err) NODISCARD;

// SPDX-License-Identifier: Apache-2.0
/* shard_read.c - a file of a type, of whichever kind of shards can answer.
 *
 * The kinds that have everything are asked in their order. What one of them answers from a file
 * that is whole is the answer, also that it has no such tile; a kind that fails, or whose file was
 * set aside as damaged and begun anew, is passed over. Only where no kind can answer there is an
 * error, that of the first. */
#include "models/tile/tile_int.h"

#include "base/banned.h"

static const struct {
    enum tile_shards bit;
    const struct shard_ops *ops;
} kinds[] = {{TILE_SHARDS_SQLITE, &shard_sqlite_ops}, {TILE_SHARDS_KV, &shard_lmdb_ops}};

/* A tile that the file does not have may be in the one that was set aside. */
static enum rc kind_read(const struct tile_type *type, struct pool *pool,
                         const struct pool_key *key, const struct shard_reader *reader,
                         struct err *err)
{
    struct pool_use use = {0};
    bool lost = true;
    enum rc rc = pool_take(pool, key, SHARD_READ, &use, err);
    if (rc == RC_OK) {
        rc = reader->run(reader->arg, use.shard, err);
        lost = use.lost;
        pool_give(pool, &use);
    }
    bool is_answer = rc == RC_OK && !reader->needs_all;
    if (lost && !is_answer && (rc == RC_OK || rc == RC_NOT_FOUND) && !tile__keeps_rows(type)) {
        enum rc found = pool_lost(pool, key, err);
        rc = found == RC_NOT_FOUND ? rc : found;
    }
    if (rc == RC_CORRUPT)
        pool_damage_note(pool, key, err);
    return rc;
}

enum rc tile__shard_read(const struct tile_type *type, struct pool *pool, struct tile_place place,
                         const struct shard_reader *reader, struct err *err)
{
    enum rc first = RC_NOT_FOUND;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct pool_key key = {kinds[i].ops, type->number, place};
        struct err why = {0};
        if (!(type->complete & kinds[i].bit))
            continue;
        enum rc rc = kind_read(type, pool, &key, reader, &why);
        if (rc == RC_OK || rc == RC_NOT_FOUND)
            return rc;
        if (first == RC_NOT_FOUND) {
            first = rc;
            *err = why;
        }
    }
    return first;
}

// SPDX-License-Identifier: Apache-2.0
/* tile_guard.c - names of tiles are no keys of their database (types/guard.h). */
#include "models/tile/tile_int.h"

#include "base/banned.h"

enum { NAME_SHOWN_BYTES = 64 }; /* of a name in an error */

bool tile_is_name(const struct tile_type *type, struct bytes name)
{
    return type->kind == TILE_TM ? tilekey_is_tm(name) : tilekey_is(name);
}

static enum rc name_check(void *model, struct bytes name, struct err *err)
{
    if (!tile_is_name(model, name))
        return RC_OK;
    return err_set(err, RC_INVALID,
                   "\"%.*s\" is a tile in this database: use TILE.GET, TILE.SET and the other TILE "
                   "commands, or GET, SET, MGET, MSET, DEL, EXISTS, TYPE",
                   (int)name.len, (const char *)name.ptr);
}

/* A name that was meant to be a tile's: digits, perhaps a colon and digits. */
static bool is_almost_name(struct bytes name)
{
    size_t colons = 0;
    for (size_t i = 0; i < name.len; i++) {
        bool colon = name.ptr[i] == ':' && i > 0;
        if (!colon && (name.ptr[i] < '0' || name.ptr[i] > '9'))
            return false;
        colons += colon;
    }
    return name.len > 0 && colons <= 1;
}

/* Whoever writes a tile under a name that is almost one must not find it as a string that is never
 * persisted. Ordinary keys that an older server took are keys still. */
static enum rc found(void *model, struct key *key, enum key_need need, struct err *err)
{
    (void)model;
    if (key->stored || need == KEY_NEED_TO_SWEEP || !is_almost_name(key->name))
        return RC_NOT_FOUND;
    int len = key->name.len < NAME_SHOWN_BYTES ? (int)key->name.len : NAME_SHOWN_BYTES;
    return err_set(err, RC_INVALID,
                   "\"%.*s\" is no tilekey of this database: that is 1 to 24 digits from 0 to 3, "
                   "and \":\" and milliseconds behind them where tiles have a time",
                   len, (const char *)key->name.ptr);
}

/* FLUSHDB is about ordinary keys. Those that SWAPDB brings could have names of tiles. A type whose
 * database is gone could not be bound at the next start. */
static enum rc end(void *model, const struct run *run, enum guard_end end, struct err *err)
{
    (void)model, (void)run;
    if (end == GUARD_FLUSH)
        return RC_OK;
    return err_set(err, RC_INVALID, "the database of a tile type cannot be %s",
                   end == GUARD_SWAP ? "swapped" : "dropped");
}

void tiles__guards_add(struct tiles *tiles)
{
    for (size_t i = 0; i < tiles->type_count; i++) {
        struct tile_type *type = &tiles->type[i];
        type->guard = (struct key_guard){.model = type,
                                         .name_check = name_check,
                                         .found = found,
                                         .end = end,
                                         .command = tiles->options.command};
        ns_guard_add(kv_ns(tiles->kv, type->db), &type->guard);
    }
}

void tiles__guards_remove(struct tiles *tiles)
{
    for (size_t i = 0; i < tiles->type_count; i++)
        kv_guard_remove(tiles->kv, &tiles->type[i].guard);
}

struct tile_type *tiles_type_of(const struct ns *ns)
{
    const struct key_guard *guard = ns->name_guard;
    return guard && guard->name_check == name_check ? guard->model : NULL;
}

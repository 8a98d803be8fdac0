#include "types/copy.h"

#include "types/rows.h"

#include "base/banned.h"

static enum rc rows_copy(const struct key *from, const struct key *to, struct err *err)
{
    struct store *store = from->ns->kv->store;
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    enum rc rc = RC_OK;
    store_walk_init(&walk, store, key_rows(from), false);
    while (rc == RC_OK) {
        rc = store_walk_next(&walk, &suffix, &value, err);
        if (rc == RC_OK)
            rc = store_put(store, key_rows(to), suffix, value, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc key_copy(const struct key *from, struct key *to, struct err *err)
{
    const struct meta *meta = &from->meta;
    bool has_rows = meta->type != TYPE_STRING;
    struct bytes extra;
    ASSERT(from->exists);
    enum rc rc = has_rows ? rows_need_all(from, err) : RC_OK;
    if (rc == RC_OK)
        rc = key_extra_copy(from, &extra, err);
    if (rc == RC_OK)
        rc = key_remove(to, err);
    if (rc == RC_OK && to->rule)
        rc = to->ns->kv->land.key_change(to->ns->kv->land.arg, to, false, false, err);
    if (rc == RC_OK)
        rc = key_create(to, meta->type, err);
    if (rc == RC_OK && has_rows)
        rc = rows_copy(from, to, err);
    if (rc != RC_OK)
        return rc;
    to->meta.count = meta->count;
    to->meta.expire_ms = from->is_copy && !to->is_copy ? 0 : meta->expire_ms;
    return key_save(to, extra, err);
}

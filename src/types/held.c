// SPDX-License-Identifier: Apache-2.0
/* held.c - keeps the meta row of a run of commands until the last one writes it. */
#include "types/held.h"

#include "store/turns.h"
#include "types/key.h"

#include "base/banned.h"

void held_begin(struct kv *kv, bool allowed)
{
    struct held *held = &kv->held;
    held->allowed = allowed;
    if (held->row.is)
        held->before = held->row;
    else
        held->before.is = false;
}

void held_undo(struct kv *kv)
{
    struct held *held = &kv->held;
    if (held->before.is)
        held->row = held->before;
    else
        held->row.is = false;
}

void held_write(struct kv *kv)
{
    struct held *held = &kv->held;
    struct err err = {0};
    held->allowed = false;
    if (LIKELY(!held->row.is))
        return;
    /* The change itself was let in: neither a disk that has just become full nor the want of room
     * may keep it out now. */
    store_begin(kv->store, STORE_DELETES);
    enum rc rc = key_meta_put(held->ns, bytes_of(held->name, held->name_len), &held->row.meta,
                              bytes_of(held->row.extra, held->row.extra_len), &err);
    if (rc == RC_OK)
        store_commit(kv->store);
    else
        store_undo(kv->store);
    held->row.is = false;
    if (rc != RC_OK)
        store_turn_refuse(kv->store, rc, &err); /* (2) */
}

bool held_get(const struct held *held, const struct ns *ns, struct bytes name,
              struct meta *ret_meta)
{
    if (!held_is(held, ns, name))
        return false;
    *ret_meta = held->row.meta;
    ret_meta->extra = bytes_of(held->row.extra, held->row.extra_len);
    return true;
}

bool held_put(struct held *held, struct ns *ns, struct bytes name, const struct meta *meta,
              struct bytes extra)
{
    bool fits = name.len <= HELD_NAME_BYTES_MAX && extra.len <= HELD_EXTRA_BYTES_MAX;
    if (!held->allowed || !fits)
        return false;
    if (!held->row.is) {
        held->ns = ns;
        held->name_len = name.len;
        if (name.len > 0)
            memcpy(held->name, name.ptr, name.len);
    }
    ASSERT(!held->row.is || held_is(held, ns, name)); /* (1) */
    held->row.is = true;
    held->row.meta = *meta;
    held->row.extra_len = (uint8_t)extra.len;
    if (extra.len > 0)
        memmove(held->row.extra, extra.ptr, extra.len); /* it may be borrowed from here */
    return true;
}

void held_drop(struct held *held, const struct ns *ns, struct bytes name)
{
    if (held_is(held, ns, name))
        held->row.is = false;
}

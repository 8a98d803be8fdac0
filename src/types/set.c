// SPDX-License-Identifier: Apache-2.0
/* set.c - members of a set: added, removed, moved, popped. */
#include "types/set.h"

#include "types/number.h"

#include "base/banned.h"

/* ---- reading ---- */

enum rc set_has(const struct key *key, struct bytes member, struct err *err)
{
    struct bytes value;
    if (!key->exists)
        return RC_NOT_FOUND;
    return store_get_packed(key->ns->kv->store, key_rows(key), member, &value, err);
}

enum rc set_encoding(const struct key *key, const char **ret_name, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes member, value;
    int64_t number;
    bool is_intset = key->meta.count <= key->ns->kv->encodings.set_intset_count;
    enum rc rc = RC_OK;
    store_walk_init(&walk, key->ns->kv->store, key_rows(key), false);
    while (is_intset && (rc = store_walk_next(&walk, &member, &value, err)) == RC_OK)
        is_intset = number_int(member, &number);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_name = is_intset ? "intset" : "hashtable";
    return RC_OK;
}

/* ---- writing ---- */

/* Adds one that is not there. */
static enum rc member_put(struct key *key, struct bytes member, struct err *err)
{
    key->meta.count++;
    return store_put(key->ns->kv->store, key_rows(key), member, member, err);
}

/* Removes one that is there. */
static enum rc member_delete(struct key *key, struct bytes member, struct err *err)
{
    key->meta.count--;
    return store_delete(key->ns->kv->store, key_rows(key), member, err);
}

/* After members were added. */
static enum rc save_and_tell(struct key *key, struct err *err)
{
    enum rc rc = key_save(key, BYTES(""), err);
    if (rc == RC_OK)
        key_changed(key, KV_EVENT_SET, "sadd");
    return rc;
}

/* After members were removed: if they were the last, a "del" follows the event. */
static enum rc tell_and_save(struct key *key, const char *event, struct err *err)
{
    key_changed(key, KV_EVENT_SET, event);
    return key_save_or_remove(key, BYTES(""), err);
}

enum rc set_add(const struct run *run, struct bytes name, const struct bytes *member, size_t count,
                size_t *ret_added, struct err *err)
{
    struct key key;
    enum rc rc = key_write(run, name, TYPE_SET, &key, err);
    if (rc == RC_OK && !key.exists)
        rc = key_create(&key, TYPE_SET, err);
    if (rc != RC_OK)
        return rc;
    size_t added = 0;
    bool cold = false; /* then only the rest of the cold members is asked for */
    for (size_t i = 0; i < count; i++) {
        rc = set_has(&key, member[i], err);
        cold = cold || rc == RC_COLD;
        if (cold || rc == RC_OK)
            continue;
        if (rc == RC_NOT_FOUND)
            rc = member_put(&key, member[i], err);
        if (rc != RC_OK)
            return rc;
        added++;
    }
    if (cold)
        return RC_COLD;
    if (added > 0) {
        rc = save_and_tell(&key, err);
        if (rc != RC_OK)
            return rc;
    }
    if (ret_added)
        *ret_added = added;
    return RC_OK;
}

enum rc set_remove(const struct run *run, struct bytes name, const struct bytes *member,
                   size_t count, size_t *ret_removed, struct err *err)
{
    struct key key;
    enum rc rc = key_write(run, name, TYPE_SET, &key, err);
    if (rc != RC_OK)
        return rc;
    size_t removed = 0;
    bool cold = false;
    for (size_t i = 0; i < count && key.exists; i++) {
        rc = set_has(&key, member[i], err);
        cold = cold || rc == RC_COLD;
        if (cold || rc == RC_NOT_FOUND)
            continue;
        if (rc == RC_OK)
            rc = member_delete(&key, member[i], err);
        if (rc != RC_OK)
            return rc;
        removed++;
    }
    if (cold)
        return RC_COLD;
    if (removed > 0) {
        rc = tell_and_save(&key, "srem", err);
        if (rc != RC_OK)
            return rc;
    }
    if (ret_removed)
        *ret_removed = removed;
    return RC_OK;
}

/* ---- moving ---- */

/* Redis asks about the type of the target only if there is a source. */
static enum rc move_find(const struct run *run, struct bytes from, struct bytes to,
                         struct key *ret_from, struct key *ret_to, struct err *err)
{
    enum rc rc = key_write(run, from, TYPE_SET, ret_from, err);
    if (rc == RC_COLD)
        key_want(run->ns, &to, 1);
    if (rc != RC_OK || !ret_from->exists)
        return rc;
    return key_write(run, to, TYPE_SET, ret_to, err);
}

/* RC_OK: `from` has it and ret_has says whether `to` does. */
static enum rc move_check(const struct key *from, const struct key *to, struct bytes member,
                          bool *ret_has, struct err *err)
{
    enum rc rc = set_has(from, member, err);
    if (rc != RC_OK && rc != RC_COLD)
        return rc;
    enum rc rc_to = set_has(to, member, err); /* if both are cold, both are asked for */
    *ret_has = rc_to == RC_OK;
    if (rc == RC_OK && rc_to != RC_NOT_FOUND)
        rc = rc_to;
    return rc;
}

/* From a set that has it to one that may have it. */
static enum rc move_rows(struct key *from, struct key *to, struct bytes member, bool has,
                         struct err *err)
{
    enum rc rc = member_delete(from, member, err);
    if (rc == RC_OK)
        rc = tell_and_save(from, "srem", err);
    if (rc != RC_OK || has)
        return rc;
    if (!to->exists)
        rc = key_create(to, TYPE_SET, err);
    if (rc == RC_OK)
        rc = member_put(to, member, err);
    if (rc == RC_OK)
        rc = save_and_tell(to, err);
    return rc;
}

enum rc set_move(const struct run *run, struct bytes from, struct bytes to, struct bytes member,
                 bool *ret_moved, struct err *err)
{
    struct key source, target;
    bool has;
    enum rc rc = move_find(run, from, to, &source, &target, err);
    if (rc == RC_OK)
        rc = source.exists ? move_check(&source, &target, member, &has, err) : RC_NOT_FOUND;
    if (rc == RC_OK && !bytes_eq(from, to))
        rc = move_rows(&source, &target, member, has, err);
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_moved = rc == RC_OK;
    return RC_OK;
}

/* ---- popping ---- */

enum rc set_pop(struct key *key, struct rows_pick *pick, struct bytes *ret_member, struct err *err)
{
    struct bytes member, value;
    ASSERT(key->meta.count > 0);
    enum rc rc = rows_pick_next(pick, &member, &value, err);
    if (rc != RC_OK)
        return rc;
    uint8_t *copy = arena_try_alloc(key->run->arena, member.len);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate memory for a member");
    memcpy(copy, member.ptr, member.len);
    rc = member_delete(key, member, err);
    if (rc == RC_OK)
        *ret_member = bytes_of(copy, member.len);
    return rc;
}

enum rc set_pop_end(struct key *key, struct err *err)
{
    return tell_and_save(key, "spop", err);
}

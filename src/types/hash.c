// SPDX-License-Identifier: Apache-2.0
/* hash.c - fields of a hash: read, set, removed, counted up. */
#include "types/hash.h"

#include <math.h>

#include "types/guard.h"

#include "base/banned.h"

/* ---- guards ---- */

/* A field that is not here may be elsewhere. */
static enum rc field_missing(const struct key *key, struct bytes field, struct err *err)
{
    return key->whole ? RC_NOT_FOUND : guard_missing(key, field, err);
}

/* Before rows change. `step`: fields are every step-th of them. */
static enum rc fields_change(const struct key *key, const struct bytes *field, size_t count,
                             size_t step, enum guard_change change, struct err *err)
{
    enum rc rc = RC_OK;
    if (LIKELY(!key->guard))
        return RC_OK;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = guard_change(key, &field[i * step], change, err);
    return rc;
}

/* What the meta row holds besides the head. */
static struct bytes extra_of(const struct key *key)
{
    static const uint8_t whole = KEY_HASH_WHOLE;
    return key->whole ? bytes_of(&whole, 1) : BYTES("");
}

enum rc hash_whole_set(struct key *key, struct err *err)
{
    ASSERT(key->exists && key->meta.type == TYPE_HASH);
    key->whole = true;
    return key_save(key, extra_of(key), err);
}

/* ---- reading ---- */

enum rc hash_field(const struct key *key, struct bytes field, struct bytes *ret_value,
                   struct err *err)
{
    enum rc rc = RC_NOT_FOUND;
    if (key->exists)
        rc = store_get(key->ns->kv->store, key_rows(key), field, ret_value, err);
    return rc == RC_NOT_FOUND && UNLIKELY(key->guard != NULL) ? field_missing(key, field, err) : rc;
}

enum rc hash_get(const struct run *run, struct bytes name, struct bytes field,
                 struct bytes *ret_value, struct err *err)
{
    struct key key;
    enum rc rc = key_read_part(run, name, TYPE_HASH, &key, err);
    if (rc != RC_OK)
        return rc;
    return hash_field(&key, field, ret_value, err);
}

enum rc hash_encoding(const struct key *key, const char **ret_name, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes field, value;
    const struct kv_encodings *limits = &key->ns->kv->encodings;
    bool is_small = key->meta.count <= limits->hash_listpack_count;
    enum rc rc = RC_OK;
    store_walk_init(&walk, key->ns->kv->store, key_rows(key), false);
    while (is_small && (rc = store_walk_next(&walk, &field, &value, err)) == RC_OK)
        is_small =
            field.len <= limits->hash_listpack_bytes && value.len <= limits->hash_listpack_bytes;
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_name = is_small ? "listpack" : "hashtable";
    return RC_OK;
}

/* ---- writing ---- */

static enum rc find_or_create(const struct run *run, struct bytes name, bool whole,
                              struct key *ret_key, struct err *err)
{
    enum rc rc = whole ? key_write(run, name, TYPE_HASH, ret_key, err)
                       : key_write_part(run, name, TYPE_HASH, ret_key, err);
    if (rc == RC_OK && !ret_key->exists)
        rc = key_create(ret_key, TYPE_HASH, err);
    return rc;
}

/* RC_OK, RC_NOT_FOUND, RC_COLD. */
static enum rc field_find(const struct key *key, struct bytes field, struct err *err)
{
    struct bytes packed;
    return store_get_packed(key->ns->kv->store, key_rows(key), field, &packed, err);
}

/* Puts one field and counts it if it is new. */
static enum rc field_put(struct key *key, struct bytes field, struct bytes value, bool is_new,
                         struct err *err)
{
    key->meta.count += is_new;
    return store_put(key->ns->kv->store, key_rows(key), field, value, err);
}

/* After a change of `added` new fields. */
static enum rc save_and_tell(struct key *key, size_t added, const char *event, struct err *err)
{
    if (added > 0) {
        enum rc rc = key_save(key, extra_of(key), err);
        if (rc != RC_OK)
            return rc;
    }
    key_changed(key, KV_EVENT_HASH, event);
    return RC_OK;
}

enum rc hash_set(const struct run *run, struct bytes name, const struct bytes *field_value,
                 size_t pair_count, size_t *ret_added, struct err *err)
{
    struct key key;
    enum rc rc = find_or_create(run, name, false, &key, err);
    if (rc == RC_OK)
        rc = fields_change(&key, field_value, pair_count, 2, GUARD_SET, err);
    if (rc != RC_OK)
        return rc;
    size_t added = 0;
    bool cold = false; /* then only the rest of the cold fields is asked for */
    for (size_t i = 0; i < pair_count; i++) {
        struct bytes field = field_value[2 * i], value = field_value[2 * i + 1];
        bool is_new = false;
        rc = cold ? field_find(&key, field, err)
                  : store_put_tell(run->kv->store, key_rows(&key), field, value, &is_new, err);
        cold = cold || rc == RC_COLD;
        if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_COLD)
            return rc;
        added += is_new;
    }
    if (cold)
        return RC_COLD;
    key.meta.count += added;
    rc = save_and_tell(&key, added, "hset", err);
    if (rc == RC_OK && ret_added)
        *ret_added = added;
    return rc;
}

enum rc hash_set_new(const struct run *run, struct bytes name, struct bytes field,
                     struct bytes value, bool *ret_added, struct err *err)
{
    struct key key;
    enum rc rc = find_or_create(run, name, false, &key, err);
    if (rc != RC_OK)
        return rc;
    rc = field_find(&key, field, err);
    if (rc == RC_NOT_FOUND && UNLIKELY(key.guard != NULL))
        rc = field_missing(&key, field, err);
    if (rc == RC_OK)
        *ret_added = false;
    if (rc != RC_NOT_FOUND)
        return rc;
    rc = fields_change(&key, &field, 1, 1, GUARD_SET, err);
    if (rc == RC_OK)
        rc = field_put(&key, field, value, true, err);
    if (rc == RC_OK)
        rc = save_and_tell(&key, 1, "hset", err);
    if (rc == RC_OK)
        *ret_added = true;
    return rc;
}

enum rc hash_delete(const struct run *run, struct bytes name, const struct bytes *field,
                    size_t count, size_t *ret_deleted, struct err *err)
{
    struct key key;
    enum rc rc = key_write(run, name, TYPE_HASH, &key, err);
    if (rc != RC_OK)
        return rc;
    size_t deleted = 0;
    bool cold = false;
    for (size_t i = 0; i < count && key.exists; i++) {
        rc = field_find(&key, field[i], err);
        cold = cold || rc == RC_COLD;
        if (cold || rc == RC_NOT_FOUND)
            continue;
        if (rc == RC_OK)
            rc = fields_change(&key, &field[i], 1, 1, GUARD_REMOVED, err);
        if (rc == RC_OK)
            rc = store_delete(run->kv->store, key_rows(&key), field[i], err);
        if (rc != RC_OK)
            return rc;
        deleted++;
    }
    if (cold)
        return RC_COLD;
    if (deleted > 0) {
        key.meta.count -= deleted;
        key_changed(&key, KV_EVENT_HASH, "hdel");
        rc = key_save_or_remove(&key, extra_of(&key), err);
        if (rc != RC_OK)
            return rc;
    }
    if (ret_deleted)
        *ret_deleted = deleted;
    return RC_OK;
}

/* ---- numbers ---- */

/* The field's value; a field that is not there counts as 0. */
static enum rc number_field(const struct run *run, struct bytes name, struct bytes field,
                            struct key *ret_key, struct bytes *ret_value, bool *ret_is_new,
                            struct err *err)
{
    enum rc rc = find_or_create(run, name, true, ret_key, err);
    if (rc != RC_OK)
        return rc;
    rc = hash_field(ret_key, field, ret_value, err);
    *ret_is_new = rc == RC_NOT_FOUND;
    if (!*ret_is_new)
        return rc;
    *ret_value = BYTES("0");
    return RC_OK;
}

enum rc hash_incr(const struct run *run, struct bytes name, struct bytes field, int64_t delta,
                  int64_t *ret_value, struct err *err)
{
    struct key key;
    struct bytes old = {0};
    bool is_new;
    int64_t value;
    char text[NUMBER_INT_BYTES];
    enum rc rc = number_field(run, name, field, &key, &old, &is_new, err);
    if (rc != RC_OK)
        return rc;
    if (!number_int(old, &value))
        return err_set(err, RC_INVALID, "hash value is not an integer");
    if (__builtin_add_overflow(value, delta, &value))
        return err_set(err, RC_INVALID, "increment or decrement would overflow");
    rc = fields_change(&key, &field, 1, 1, GUARD_SET, err);
    if (rc == RC_OK)
        rc = field_put(&key, field, bytes_of(text, number_int_text(text, value)), is_new, err);
    if (rc == RC_OK)
        rc = save_and_tell(&key, is_new, "hincrby", err);
    if (rc == RC_OK)
        *ret_value = value;
    return rc;
}

enum rc hash_incr_float(const struct run *run, struct bytes name, struct bytes field,
                        long double delta, char to[NUMBER_LONG_DOUBLE_BYTES], size_t *ret_len,
                        struct err *err)
{
    struct key key;
    struct bytes old = {0};
    bool is_new;
    long double value;
    enum rc rc = number_field(run, name, field, &key, &old, &is_new, err);
    if (rc != RC_OK)
        return rc;
    if (!number_long_double(old, &value))
        return err_set(err, RC_INVALID, "hash value is not a float");
    value += delta;
    if (isnan(value) || isinf(value))
        return err_set(err, RC_INVALID, "increment would produce NaN or Infinity");
    size_t len = number_long_double_text(to, value);
    rc = fields_change(&key, &field, 1, 1, GUARD_SET, err);
    if (rc == RC_OK)
        rc = field_put(&key, field, bytes_of(to, len), is_new, err);
    if (rc == RC_OK)
        rc = save_and_tell(&key, is_new, "hincrbyfloat", err);
    if (rc == RC_OK)
        *ret_len = len;
    return rc;
}

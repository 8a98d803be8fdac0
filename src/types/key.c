// SPDX-License-Identifier: Apache-2.0
/* key.c - meta rows and the expiry index: found, saved, renamed, removed. */
#include "types/key.h"

#include "base/codec.h"
#include "store/prefetch.h"
#include "types/expire.h"
#include "types/garbage.h"
#include "types/guard.h"

#include "base/banned.h"

enum {
    ROW_KEPT_BYTES = 64 * 1024, /* of kv->row, between two calls */
    EXPIRY_VALUE_BYTES = KEY_ID_BYTES + 1,
};

/* ---- finding ---- */

static struct store_group meta_group(const struct ns *ns, struct bytes name)
{
    return (struct store_group){.prefix = ns->meta, .key = name};
}

static bool type_fits(uint8_t type, uint8_t wanted)
{
    return wanted == KEY_ANY || type == wanted ||
           (wanted == TYPE_STRING && type == TYPE_STRING_CHUNKED);
}

/* A hash says in the first byte of its extra what else is to be known of it. */
static bool is_whole(const struct meta *meta)
{
    return meta->type == TYPE_HASH && meta->extra.len > 0 && meta->extra.ptr[0] & KEY_HASH_WHOLE;
}

static enum rc meta_find(const struct run *run, struct bytes name, struct key *ret_key,
                         struct err *err)
{
    struct kv *kv = run->kv;
    struct ns *ns = run->ns;
    struct bytes packed;
    if (UNLIKELY(name.len > KEY_BYTES_MAX))
        return err_set(err, RC_INVALID, "a key of %zu bytes is over the limit of %d", name.len,
                       KEY_BYTES_MAX);
    ret_key->ns = ns;
    ret_key->run = run;
    ret_key->name = name;
    ret_key->exists = false;
    ret_key->dead = false;
    ret_key->whole = false;
    ret_key->locked = NULL;
    ret_key->guard = NULL;
    ret_key->is_copy = false;
    ret_key->stored = false;
    ret_key->saved_expire_ms = 0;
    if (!held_get(&kv->held, ns, name, &ret_key->meta)) {
        enum rc rc = store_get_packed(kv->store, meta_group(ns, name), BYTES(""), &packed, err);
        if (rc == RC_NOT_FOUND)
            return RC_OK;
        if (rc == RC_OK)
            rc = meta_decode_packed(packed, &ret_key->meta, err);
        if (rc != RC_OK)
            return rc;
    }
    ret_key->stored = true;
    ret_key->saved_expire_ms = ret_key->meta.expire_ms;
    ret_key->whole = is_whole(&ret_key->meta);
    ret_key->dead = ret_key->meta.expire_ms != 0 && ret_key->meta.expire_ms <= run->now_ms;
    ret_key->exists = !ret_key->dead;
    return RC_OK;
}

/* Whatever the name is. */
static inline enum rc key_find_any(const struct run *run, struct bytes name, uint8_t type,
                                   enum key_need need, struct key *ret_key, struct err *err)
{
    enum rc rc = meta_find(run, name, ret_key, err);
    if (UNLIKELY(guards_ask(run->ns, name)) && rc == RC_OK)
        rc = guards_found(ret_key, need, err);
    if (rc == RC_OK && ret_key->exists && UNLIKELY(!type_fits(ret_key->meta.type, type)))
        return err_set(err, RC_WRONGTYPE, "%s", rc_text(RC_WRONGTYPE));
    return rc;
}

static inline enum rc key_find(const struct run *run, struct bytes name, uint8_t type,
                               enum key_need need, struct key *ret_key, struct err *err)
{
    enum rc rc = guard_name_check(run->ns, name, err);
    return rc == RC_OK ? key_find_any(run, name, type, need, ret_key, err) : rc;
}

enum rc key_write(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                  struct err *err)
{
    return key_find(run, name, type, KEY_NEED_ALL, ret_key, err);
}

enum rc key_write_part(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                       struct err *err)
{
    return key_find(run, name, type, KEY_NEED_TO_WRITE, ret_key, err);
}

/* Tells that a key was missed or is new: it has not changed. */
static void quiet_tell(const struct key *key, enum kv_event kind, const char *event)
{
    const struct kv *kv = key->ns->kv;
    if (kv->miss_event & kind && !(key->run->flags & RUN_QUIET))
        kv->hooks.changed(kv->hooks.arg, key->run, key->name, kind, event, key->exists);
}

/* A key of another type was found all the same. */
static enum rc key_count(enum rc rc, const struct key *key)
{
    if (rc != RC_OK && rc != RC_WRONGTYPE)
        return rc;
    if (key->exists) {
        key->ns->kv->counts.hit_count++;
        return rc;
    }
    key->ns->kv->counts.miss_count++;
    quiet_tell(key, KV_EVENT_MISS, "keymiss");
    return RC_OK;
}

enum rc key_read(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                 struct err *err)
{
    return key_count(key_find(run, name, type, KEY_NEED_ALL, ret_key, err), ret_key);
}

enum rc key_read_part(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                      struct err *err)
{
    return key_count(key_find(run, name, type, KEY_NEED_TO_READ, ret_key, err), ret_key);
}

void key_want(struct ns *ns, const struct bytes *name, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (name[i].len <= KEY_BYTES_MAX && guard_name_check(ns, name[i], NULL) == RC_OK)
            store_want(ns->kv->store, meta_group(ns, name[i]), BYTES(""), STORE_WANT_ROW);
}

bool key_peek_rows(struct ns *ns, struct bytes name, uint8_t id[KEY_ID_BYTES],
                   struct store_group *ret_rows)
{
    struct bytes packed;
    struct meta meta;
    if (!store_peek(ns->kv->store, meta_group(ns, name), &packed) ||
        meta_decode_packed(packed, &meta, NULL) != RC_OK || meta.type == TYPE_STRING)
        return false;
    memcpy(id, meta.id, KEY_ID_BYTES);
    *ret_rows = (struct store_group){.prefix = ns->data, .key = bytes_of(id, KEY_ID_BYTES)};
    return true;
}

/* ---- making ---- */

struct store_group key_rows(const struct key *key)
{
    return (struct store_group){.prefix = key->ns->data,
                                .key = bytes_of(key->meta.id, KEY_ID_BYTES)};
}

static bool has_rows(uint8_t type)
{
    return type != TYPE_STRING;
}

/* A fresh identity, or that of an object whose rows are there; meta.expire_ms stays as it is. */
static enum rc object_start(struct key *key, uint8_t type, const uint8_t *id, struct err *err)
{
    struct kv *kv = key->ns->kv;
    if (id)
        memcpy(key->meta.id, id, KEY_ID_BYTES);
    else
        kv_id_draw(kv, key->meta.id);
    key->meta.type = type;
    key->meta.count = 0;
    key->whole = false;
    key->meta.create_s = key->run->now_ms / 1000;
    key->meta.extra = BYTES("");
    if (!has_rows(type) || id)
        return RC_OK;
    return store_group_new(kv->store, key_rows(key), err);
}

static enum rc object_create(struct key *key, uint8_t type, const uint8_t *id, struct err *err)
{
    struct kv *kv = key->ns->kv;
    ASSERT(!key->exists);
    enum rc rc = key_may_change(key, err);
    if (rc == RC_OK && key->dead)
        rc = key_expire(key, err);
    if (rc == RC_OK)
        rc = store_counter_add(kv->store, key->ns->key_count, 1, err);
    if (rc != RC_OK)
        return rc;
    key->meta.expire_ms = 0;
    key->exists = true;
    quiet_tell(key, KV_EVENT_NEW, "new");
    return object_start(key, type, id, err);
}

enum rc key_create(struct key *key, uint8_t type, struct err *err)
{
    return object_create(key, type, NULL, err);
}

/* Few rows, and not all of them known. A chunked string does not count its rows. */
static bool is_small_and_cold(const struct key *key)
{
    uint64_t rows = key->meta.type == TYPE_ZSET ? 2 * key->meta.count : key->meta.count;
    return rows > 0 && rows <= STORE_DROP_POINT_ROWS_MAX &&
           !store_group_state(key->ns->kv->store, key_rows(key)).complete;
}

static enum rc rows_drop(const struct key *key, struct err *err)
{
    if (!has_rows(key->meta.type))
        return RC_OK;
    if (is_small_and_cold(key))
        return garbage_add(key->ns, key->meta.id, key->meta.type, err);
    enum rc rc = store_group_drop(key->ns->kv->store, key_rows(key), err);
    return rc == RC_NOT_FOUND ? RC_OK : rc; /* its last element has just been deleted */
}

/* The guard hears of it first: it may refuse. */
static enum rc whole_change(const struct key *key, enum guard_change change, struct err *err)
{
    return LIKELY(!key->guard) ? RC_OK : guard_change(key, NULL, change, err);
}

enum rc key_adopt(struct key *key, uint8_t type, const uint8_t *id, struct err *err)
{
    if (!key->exists)
        return object_create(key, type, id, err);
    enum rc rc = whole_change(key, GUARD_REMOVED, err);
    if (rc == RC_OK)
        rc = rows_drop(key, err);
    if (rc != RC_OK)
        return rc;
    return object_start(key, type, id, err);
}

enum rc key_replace(struct key *key, uint8_t type, struct err *err)
{
    return key_adopt(key, type, NULL, err);
}

/* ---- saving ---- */

/* The row and its packed form stand one after the other in kv->row. */
enum rc key_meta_put(struct ns *ns, struct bytes name, const struct meta *meta, struct bytes extra,
                     struct err *err)
{
    struct kv *kv = ns->kv;
    buf_cut(&kv->row, 0);
    if (!buf_reserve(&kv->row, META_HEAD_BYTES + META_PACKED_HEAD_BYTES_MAX + 2 * extra.len))
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes for a value", extra.len);
    uint8_t *value = kv->row.ptr, *packed = value + META_HEAD_BYTES + extra.len;
    meta_head_put(value, meta);
    bytes_move(value + META_HEAD_BYTES, extra.ptr, extra.len);
    size_t head_len = meta_packed_head_put(packed, meta);
    bytes_move(packed + head_len, extra.ptr, extra.len);
    enum rc rc = store_put_packed(kv->store, meta_group(ns, name),
                                  bytes_of(value, META_HEAD_BYTES + extra.len),
                                  bytes_of(packed, head_len + extra.len), err);
    if (UNLIKELY(kv->row.cap > ROW_KEPT_BYTES))
        buf_shrink(&kv->row, ROW_KEPT_BYTES);
    return rc;
}

/* expireAt(8) ‖ key, in kv->row. */
static enum rc index_suffix(const struct key *key, uint64_t expire_ms, struct bytes *ret_suffix,
                            struct err *err)
{
    struct kv *kv = key->ns->kv;
    uint8_t time[KEY_DEADLINE_BYTES];
    be64_put(time, expire_ms);
    buf_cut(&kv->row, 0);
    if (!buf_add(&kv->row, time, sizeof time) || !buf_add_bytes(&kv->row, key->name))
        return err_set(err, RC_NOMEM, "could not allocate memory for a deadline");
    *ret_suffix = buf_bytes(&kv->row);
    return RC_OK;
}

struct store_group key_index(const struct ns *ns)
{
    return (struct store_group){.prefix = ns->expiry, .key = BYTES("")};
}

/* Nothing is below the low-water mark, and the sweep wakes up in time, whatever the clock did. */
static enum rc index_put(const struct key *key, struct err *err)
{
    struct kv *kv = key->ns->kv;
    uint64_t expire_ms = key->meta.expire_ms;
    int64_t below = (int64_t)expire_ms - store_counter_get(kv->store, key->ns->sweep_ms);
    enum rc rc = RC_OK;
    if (below < 0)
        rc = store_counter_add(kv->store, key->ns->sweep_ms, below, err);
    struct bytes suffix;
    if (rc == RC_OK)
        rc = index_suffix(key, expire_ms, &suffix, err);
    if (rc != RC_OK)
        return rc;
    if (kv->expire)
        expire_deadline_set(kv->expire, expire_ms);
    uint8_t value[EXPIRY_VALUE_BYTES];
    memcpy(value, key->meta.id, KEY_ID_BYTES);
    value[KEY_ID_BYTES] = key->meta.type;
    return store_put(kv->store, key_index(key->ns), suffix, bytes_of(value, sizeof value), err);
}

/* A blind delete: no read, no load. */
static enum rc index_delete(const struct key *key, uint64_t expire_ms, struct err *err)
{
    struct bytes suffix;
    enum rc rc = index_suffix(key, expire_ms, &suffix, err);
    if (rc == RC_OK)
        rc = store_delete(key->ns->kv->store, key_index(key->ns), suffix, err);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* The stored deadline was saved_expire_ms and is meta.expire_ms now. A later deadline writes no row
 * (1): the sweep meets the earlier one and moves it. */
static enum rc deadline_save(struct key *key, struct err *err)
{
    struct kv *kv = key->ns->kv;
    uint64_t old_ms = key->saved_expire_ms, new_ms = key->meta.expire_ms;
    enum rc rc = RC_OK;
    key->saved_expire_ms = new_ms;
    if ((old_ms != 0) != (new_ms != 0))
        rc = store_counter_add(kv->store, key->ns->expire_count, new_ms ? 1 : -1, err);
    /* The row of a deadline that is taken back would stay until then. */
    if (rc == RC_OK && old_ms != 0 && (new_ms == 0 || new_ms < old_ms))
        rc = index_delete(key, old_ms, err);
    if (rc != RC_OK || new_ms == 0 || (old_ms != 0 && old_ms <= new_ms))
        return rc;
    ASSERT(new_ms > key->run->now_ms); /* (2) */
    return index_put(key, err);
}

/* Only the key of the command itself, and only where nobody else writes in its commit. */
static bool may_hold(const struct key *key)
{
    return LIKELY(!key->guard) && !key->run->model;
}

enum rc key_save(struct key *key, struct bytes extra, struct err *err)
{
    ASSERT(key->exists);
    struct held *held = &key->ns->kv->held;
    enum rc rc = key_may_change(key, err);
    if (rc != RC_OK)
        return rc;
    if (key->stored && key->meta.expire_ms == key->saved_expire_ms && may_hold(key) &&
        held_put(held, key->ns, key->name, &key->meta, extra))
        return RC_OK;
    rc = key_meta_put(key->ns, key->name, &key->meta, extra, err);
    if (rc == RC_OK)
        held_drop(held, key->ns, key->name);
    if (rc == RC_OK && UNLIKELY(key->meta.expire_ms != key->saved_expire_ms))
        rc = deadline_save(key, err);
    return rc;
}

/* ---- removing ---- */

/* The meta row, what is counted, and the index row when it stands at the stored deadline; an
 * earlier one is the sweep's. The elements stay. */
static enum rc name_remove(struct key *key, struct err *err)
{
    struct store *store = key->ns->kv->store;
    held_drop(&key->ns->kv->held, key->ns, key->name);
    key->stored = false;
    enum rc rc = store_delete(store, meta_group(key->ns, key->name), BYTES(""), err);
    if (rc == RC_NOT_FOUND) /* made and removed by one command */
        rc = RC_OK;
    if (rc == RC_OK)
        rc = store_counter_add(store, key->ns->key_count, -1, err);
    if (rc == RC_OK && key->saved_expire_ms != 0)
        rc = index_delete(key, key->saved_expire_ms, err);
    if (rc == RC_OK && key->saved_expire_ms != 0)
        rc = store_counter_add(store, key->ns->expire_count, -1, err);
    key->saved_expire_ms = 0;
    return rc;
}

static enum rc rows_remove(struct key *key, struct err *err)
{
    enum rc rc = rows_drop(key, err);
    return rc == RC_OK ? name_remove(key, err) : rc;
}

enum rc key_remove(struct key *key, struct err *err)
{
    if (!key->exists)
        return RC_OK;
    enum rc rc = whole_change(key, GUARD_REMOVED, err);
    if (rc == RC_OK)
        rc = rows_remove(key, err);
    key->exists = false;
    return rc;
}

enum rc key_save_or_remove(struct key *key, struct bytes extra, struct err *err)
{
    if (key->meta.count > 0)
        return key_save(key, extra, err);
    /* The guard has heard of every field, but not that there is nothing else to be asked for. */
    enum rc rc = whole_change(key, GUARD_REMOVED, err);
    if (rc == RC_OK)
        rc = rows_remove(key, err);
    key->exists = false;
    if (rc == RC_OK)
        key_changed(key, KV_EVENT_GENERIC, "del");
    return rc;
}

enum rc key_expire(struct key *key, struct err *err)
{
    ASSERT(key->dead && !key->exists);
    enum rc rc = whole_change(key, GUARD_EXPIRED, err);
    if (rc == RC_OK)
        rc = rows_remove(key, err);
    if (rc != RC_OK)
        return rc;
    key->dead = false;
    key->ns->kv->counts.expired_count++;
    key_changed(key, KV_EVENT_EXPIRED, "expired");
    return RC_OK;
}

/* ---- moving ---- */

enum rc key_extra_copy(const struct key *key, struct bytes *ret_extra, struct err *err)
{
    return run_copy(key->run, key->meta.extra, ret_extra, err);
}

enum rc key_rename(struct key *from, struct key *to, struct err *err)
{
    struct kv *kv = from->ns->kv;
    struct bytes extra;
    ASSERT(from->exists && from->ns == to->ns);
    enum rc rc = key_extra_copy(from, &extra, err);
    if (rc == RC_OK)
        rc = to->dead ? key_expire(to, err) : key_remove(to, err);
    if (rc == RC_OK)
        rc = whole_change(from, GUARD_REMOVED, err);
    if (rc == RC_OK)
        rc = whole_change(to, GUARD_SET, err);
    if (rc == RC_OK)
        rc = name_remove(from, err);
    if (rc == RC_OK)
        rc = store_counter_add(kv->store, to->ns->key_count, 1, err);
    if (rc != RC_OK)
        return rc;
    from->exists = false;
    to->exists = true;
    quiet_tell(to, KV_EVENT_NEW, "new");
    to->meta = from->meta;
    to->meta.extra = extra;
    to->whole = from->whole;
    if (from->is_copy && !to->is_copy)
        to->meta.expire_ms = 0; /* it would become the end of the key */
    return key_save(to, extra, err);
}

/* ---- the sweep ---- */

/* Its guard wants it to stay; it is looked at again. */
static enum rc key_outlive(struct key *key, uint64_t row_ms, struct err *err)
{
    struct bytes extra;
    enum rc rc = key_extra_copy(key, &extra, err);
    key->meta.expire_ms = key->saved_expire_ms = key->run->now_ms + KEY_OUTLIVE_MS;
    if (rc == RC_OK)
        rc = key_save(key, extra, err);
    if (rc == RC_OK)
        rc = index_put(key, err);
    return rc == RC_OK ? index_delete(key, row_ms, err) : rc;
}

enum rc key_sweep_look(const struct run *run, struct bytes name, struct err *err)
{
    struct key key;
    enum rc rc = key_find_any(run, name, KEY_ANY, KEY_NEED_TO_SWEEP, &key, err);
    return rc == RC_WAIT ? RC_OK : rc;
}

enum rc key_sweep(const struct run *run, struct bytes name, uint64_t row_ms, struct err *err)
{
    struct key key;
    enum rc rc = key_find_any(run, name, KEY_ANY, KEY_NEED_TO_SWEEP, &key, err);
    if (rc != RC_OK)
        return rc;
    bool stale = key.saved_expire_ms != row_ms;
    if (key.exists && key.saved_expire_ms != 0 && key.saved_expire_ms <= run->now_ms)
        return key_outlive(&key, row_ms, err);
    if (key.dead)
        rc = key_expire(&key, err);
    else if (stale && key.exists && key.meta.expire_ms != 0)
        rc = index_put(&key, err); /* moved to where it belongs (1) */
    if (rc == RC_OK && stale)
        rc = index_delete(&key, row_ms, err);
    return rc;
}

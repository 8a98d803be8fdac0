// SPDX-License-Identifier: Apache-2.0
/* key.h - a key as a command sees it: found, made, saved, removed.
 *
 *   struct key key;
 *   rc = key_write(run, name, TYPE_HASH, &key, err);        absent and expired keys are RC_OK too
 *   if (rc == RC_OK && !key.exists) rc = key_create(&key, TYPE_HASH, err);
 *   ... store_put(store, key_rows(&key), field, value, err) ... key.meta.count += added;
 *   rc = key_save(&key, extra, err);    (key_save_or_remove() when elements may have gone)
 *   key_changed(&key, KV_EVENT_HASH, "hset");
 *
 * A deadline is changed by setting key.meta.expire_ms before key_save(), which keeps the expiry
 * index: group header ‖ 'e', suffix expireAt(8) ‖ key, value ID(16) ‖ type(1).
 *
 * Invariants:
 *   (1) Every key with a deadline has an index row at that deadline or at an earlier one. Others
 *       may be stale: the sweep looks at the meta row, and moves or removes them.
 *   (2) Index rows are never written at or below now; the sweep's low-water mark is never above it.
 *   (3) A key without elements has no meta row.
 *
 * Ownership: the name is borrowed from the caller; meta.extra from the store, until the next
 * change. A struct key must stay where it is while a walk over key_rows() lives: that points into
 * it.
 * Threads: the executor. */
#pragma once

#include "types/kv.h"

struct key {
    struct ns *ns;
    const struct run *run; /* that found it */
    struct bytes name;
    bool exists;
    bool dead;  /* expired and not swept: not there for anybody, key_create() removes its remains */
    bool whole; /* a hash that may have fields elsewhere: all of them are here */
    bool is_copy; /* its guard says that its deadline is the end of what is here, not of the key */
    const char *locked; /* why whatever would change it is refused; NULL: it is nobody's own */
    const struct key_guard *guard; /* that has taken it (guard.h); NULL: it is nobody's but ours */
    void *claim;                   /* of that guard */
    bool stored;                   /* there is a meta row */
    uint64_t saved_expire_ms;      /* what the stored meta row says; 0: none, or no row */
    struct meta meta;              /* if it exists, or is dead */
};

enum key_need {                    /* what somebody who looks for a key needs of it */
                KEY_NEED_ALL,      /* all that there is, wherever it is */
                KEY_NEED_TO_READ,  /* a part: it asks for what it misses */
                KEY_NEED_TO_WRITE, /* the same, and what it writes replaces a key whose time is over
                                    */
                KEY_NEED_TO_SWEEP, /* nothing: it removes a key whose time is over */
};

enum { KEY_ANY = 0 };            /* whatever its type */
enum { KEY_HASH_WHOLE = 1 };     /* a bit of the first byte of a hash's extra: key.whole */
enum { KEY_DEADLINE_BYTES = 8 }; /* what an index row's suffix begins with */
enum { KEY_OUTLIVE_MS = 5000 };  /* for so long a key whose time is over stays for its guard */

/* For reading: counts hits and misses. type: an enum type_tag (TYPE_STRING: chunked ones as well)
 * or KEY_ANY. RC_OK: see key.exists. RC_WRONGTYPE, RC_COLD, RC_INVALID for a name over the limit.
 */
enum rc key_read(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                 struct err *err) NODISCARD;
/* The same for a command that will change the key, or only asks about it (no hit, no miss). */
enum rc key_write(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                  struct err *err) NODISCARD;
/* The same two for who can do with a part of a hash whose guard may have more of it. */
enum rc key_read_part(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                      struct err *err) NODISCARD;
enum rc key_write_part(const struct run *run, struct bytes name, uint8_t type, struct key *ret_key,
                       struct err *err) NODISCARD;
/* Names the meta rows of keys that will be needed, so that a cold command is parked once. */
void key_want(struct ns *ns, const struct bytes *name, size_t count);

/* The group of its elements, as key_rows() gives it, if the key is hot: to prefetch, no answer. */
bool key_peek_rows(struct ns *ns, struct bytes name, uint8_t id[KEY_ID_BYTES],
                   struct store_group *ret_rows);

/* A fresh object where there is none: ID, times, an empty group. Nothing is stored before
 * key_save(). */
enum rc key_create(struct key *key, uint8_t type, struct err *err) NODISCARD;
/* Turns the key into a fresh, empty object of any type, whatever it was. The deadline is kept in
 * meta.expire_ms: clear it, or not. */
enum rc key_replace(struct key *key, uint8_t type, struct err *err) NODISCARD;
/* key_replace() by an object whose rows are there already (build.h); id NULL: by a fresh one. */
enum rc key_adopt(struct key *key, uint8_t type, const uint8_t *id, struct err *err) NODISCARD;
/* Writes the meta row, or leaves it with kv->held. extra may be borrowed from the store. */
enum rc key_save(struct key *key, struct bytes extra, struct err *err) NODISCARD;
/* For held_write(): the meta row and nothing else. */
enum rc key_meta_put(struct ns *ns, struct bytes name, const struct meta *meta, struct bytes extra,
                     struct err *err) NODISCARD;
/* key_save(), or key_remove() and a "del" event when count is 0. */
enum rc key_save_or_remove(struct key *key, struct bytes extra, struct err *err) NODISCARD;
/* Meta row, elements and index row. No event: the caller knows which. RC_OK also if it does not
 * exist. */
enum rc key_remove(struct key *key, struct err *err) NODISCARD;
/* Removes what an expired key left, with its "expired" event. Only if key->dead. */
enum rc key_expire(struct key *key, struct err *err) NODISCARD;

/* `from` exists, `to` is another name in the same namespace: what it held goes, and it becomes what
 * `from` was, deadline included. Only the meta row moves. No event. */
enum rc key_rename(struct key *from, struct key *to, struct err *err) NODISCARD;

/* meta.extra in the command's arena: to outlive the next change. */
enum rc key_extra_copy(const struct key *key, struct bytes *ret_extra, struct err *err) NODISCARD;

/* The group of a namespace's index rows. */
struct store_group key_index(const struct ns *ns);
/* The sweep met the index row of this name and deadline, which is over: expires the key, or puts
 * the row where it belongs. RC_COLD. */
enum rc key_sweep(const struct run *run, struct bytes name, uint64_t row_ms,
                  struct err *err) NODISCARD;
/* RC_COLD if key_sweep() would need what is not in memory. The name is as it is stored, whatever a
 * guard thinks of it by now. */
enum rc key_sweep_look(const struct run *run, struct bytes name, struct err *err) NODISCARD;

/* Before a change that none of the functions above sees: of rows alone. */
static inline enum rc key_may_change(const struct key *key, struct err *err)
{
    if (LIKELY(!key->locked))
        return RC_OK;
    return err_set(err, RC_INVALID, "%s", key->locked);
}

/* The group of its elements; meaningful while the key exists. */
struct store_group key_rows(const struct key *key);

/* Tells the hooks that the key changed. `event`: as Redis names it; a literal. */
static inline void key_changed(const struct key *key, enum kv_event kind, const char *event)
{
    const struct kv *kv = key->ns->kv;
    if (kv->listening && !(key->run->flags & RUN_QUIET))
        kv->hooks.changed(kv->hooks.arg, key->run, key->name, kind, event, key->exists);
}

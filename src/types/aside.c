#include "types/aside.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "types/garbage.h"

#include "base/banned.h"

/* ---- life ---- */

/* What it has put is the sweep's from here on. */
static void forget(struct aside *aside)
{
    if (aside->phase == ASIDE_NONE)
        return;
    *(aside->prev ? &aside->prev->next : &aside->key.ns->kv->asides) = aside->next;
    if (aside->next)
        aside->next->prev = aside->prev;
    aside->phase = ASIDE_NONE;
}

void aside_done(struct aside *aside)
{
    if (!aside)
        return;
    forget(aside);
    buf_done(&aside->at);
}

bool aside_wanted(const struct aside *aside, const struct ns *ns, uint64_t row_count)
{
    return aside && row_count >= ns->kv->aside_rows_min && aside->tries < ASIDE_TRIES_MAX &&
           !ns->landed; /* landing hears of every field */
}

uint64_t aside_input(uint64_t inputs, const struct key *key)
{
    static const uint8_t none[KEY_ID_BYTES];
    return XXH3_64bits_withSeed(key->exists ? key->meta.id : none, KEY_ID_BYTES, inputs);
}

/* ---- commits ---- */

/* Listed only when nothing can fail any more (3). */
static enum rc begin(struct aside *aside, struct ns *ns, uint8_t type, uint64_t inputs,
                     struct err *err)
{
    struct kv *kv = ns->kv;
    struct key key = {.ns = ns, .exists = true, .meta = {.type = type}};
    kv_id_draw(kv, key.meta.id);
    enum rc rc = garbage_add(ns, key.meta.id, type, err);
    if (rc == RC_OK)
        rc = store_group_new(kv->store, key_rows(&key), err);
    if (rc == RC_OK && aside->tries == 0)
        rc = aside->listen(aside, err);
    if (rc != RC_OK)
        return rc;
    buf_done(&aside->at);
    buf_init(&aside->at, STORE_SUFFIX_BYTES_MAX);
    aside->has_at = aside->touched = false;
    aside->key = key;
    aside->inputs = inputs;
    aside->phase = ASIDE_FILLING;
    aside->prev = NULL;
    aside->next = kv->asides;
    if (aside->next)
        aside->next->prev = aside;
    kv->asides = aside;
    kv->aside_count++;
    return RC_WAIT;
}

enum rc aside_step(struct aside *aside, struct ns *ns, uint8_t type, uint64_t inputs,
                   struct err *err)
{
    if (!aside->lasts)
        return RC_WAIT;
    if (aside->phase == ASIDE_NONE)
        return begin(aside, ns, type, inputs, err);
    enum rc rc = garbage_find(ns, aside->key.meta.id, err); /* (2) */
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_OK && !aside->touched && inputs == aside->inputs && ns == aside->key.ns) /* (1) */
        return RC_OK;
    forget(aside);
    ns->kv->aside_again_count++;
    aside->tries++;
    return RC_WAIT;
}

struct aside_piece aside_piece(const struct aside *aside)
{
    return (struct aside_piece){.has_after = aside->has_at,
                                .after = buf_bytes(&aside->at),
                                .count_max = ASIDE_PIECE_ROWS,
                                .bytes_max = ASIDE_PIECE_BYTES};
}

enum rc aside_piece_end(struct aside *aside, uint64_t element_count, struct bytes at, bool ended,
                        struct err *err)
{
    ASSERT(aside->phase == ASIDE_FILLING);
    if (!ended) {
        aside->at.len = 0;
        if (!buf_add_bytes(&aside->at, at))
            return err_set(err, RC_NOMEM, "could not allocate memory for a position");
        aside->has_at = true;
    }
    aside->key.meta.count += element_count;
    aside->phase = ended ? ASIDE_FULL : ASIDE_FILLING;
    return RC_WAIT;
}

enum rc aside_adopt(struct aside *aside, struct key *to, struct err *err)
{
    ASSERT(aside->phase == ASIDE_FULL);
    ASSERT(to->ns == aside->key.ns);
    enum rc rc = garbage_remove(to->ns, aside->key.meta.id, err);
    if (rc == RC_OK)
        rc = key_adopt(to, aside->key.meta.type, aside->key.meta.id, err);
    return rc;
}

enum rc aside_store(struct aside *aside, struct bytes to, enum kv_event kind, const char *event,
                    struct err *err)
{
    struct key key;
    enum rc rc = key_write(aside->key.ns, to, KEY_ANY, &key, err);
    if (rc != RC_OK)
        return rc;
    if (aside->key.meta.count == 0) { /* its garbage row stays, and is swept */
        if (!key.exists)
            return RC_OK;
        rc = key_remove(&key, err);
        if (rc == RC_OK)
            key_changed(&key, KV_EVENT_GENERIC, "del");
        return rc;
    }
    rc = aside_adopt(aside, &key, err);
    if (rc != RC_OK)
        return rc;
    key.meta.count = aside->key.meta.count;
    key.meta.expire_ms = 0;
    rc = key_save(&key, BYTES(""), err);
    if (rc == RC_OK)
        key_changed(&key, kind, event);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* build.c - builds a large object in many commits under an ID that no key has yet. */
#include "types/build.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "types/garbage.h"
#include "types/guard.h"

#include "base/banned.h"

/* ---- life ---- */

/* What it has put is the sweep's from here on. */
static void forget(struct build *build)
{
    if (build->work)
        build->work_free(build->work);
    build->work = NULL;
    if (build->phase == BUILD_NONE)
        return;
    dlist_remove(&build->key.ns->kv->builds, &build->link);
    build->phase = BUILD_NONE;
}

void build_done(struct build *build)
{
    if (!build)
        return;
    forget(build);
    buf_done(&build->at);
}

bool build_wanted(const struct build *build, const struct run *run, uint64_t row_count)
{
    return build && row_count >= run->kv->build_rows_min && build->tries < BUILD_TRIES_MAX &&
           !run_is_heard(run);
}

uint64_t build_input(uint64_t inputs, const struct key *key)
{
    static const uint8_t none[KEY_ID_BYTES];
    return XXH3_64bits_withSeed(key->exists ? key->meta.id : none, KEY_ID_BYTES, inputs);
}

/* ---- commits ---- */

/* Listed only when nothing can fail any more (3). */
static enum rc begin(struct build *build, const struct run *run, uint8_t type, uint64_t inputs,
                     struct err *err)
{
    struct kv *kv = run->kv;
    struct key key = {.ns = run->ns, .exists = true, .meta = {.type = type}};
    kv_id_draw(kv, key.meta.id);
    enum rc rc = garbage_add(run->ns, key.meta.id, type, err);
    if (rc == RC_OK)
        rc = store_group_new(kv->store, key_rows(&key), err);
    if (rc == RC_OK && build->tries == 0)
        rc = build->listen(build, err);
    if (rc != RC_OK)
        return rc;
    buf_done(&build->at);
    buf_init(&build->at, STORE_SUFFIX_BYTES_MAX);
    build->has_at = build->touched = false;
    build->key = key;
    build->inputs = inputs;
    build->phase = BUILD_FILLING;
    dlist_add_first(&kv->builds, &build->link);
    kv->build_count++;
    return RC_WAIT;
}

enum rc build_step(struct build *build, const struct run *run, uint8_t type, uint64_t inputs,
                   struct err *err)
{
    if (!build->lasts)
        return RC_WAIT;
    if (build->phase == BUILD_NONE)
        return begin(build, run, type, inputs, err);
    enum rc rc = garbage_find(run->ns, build->key.meta.id, err); /* (2) */
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    if (rc == RC_OK && !build->touched && inputs == build->inputs &&
        run->ns == build->key.ns) /* (1) */
        return RC_OK;
    forget(build);
    run->kv->build_again_count++;
    build->tries++;
    return RC_WAIT;
}

struct build_piece build_piece(const struct build *build)
{
    return (struct build_piece){.has_after = build->has_at,
                                .after = buf_bytes(&build->at),
                                .count_max = BUILD_PIECE_ROWS,
                                .bytes_max = BUILD_PIECE_BYTES};
}

enum rc build_piece_end(struct build *build, uint64_t element_count, struct bytes at, bool ended,
                        struct err *err)
{
    ASSERT(build->phase == BUILD_FILLING);
    if (!ended) {
        build->at.len = 0;
        if (!buf_add_bytes(&build->at, at))
            return err_set(err, RC_NOMEM, "could not allocate memory for a position");
        build->has_at = true;
    }
    build->key.meta.count += element_count;
    build->phase = ended ? BUILD_FULL : BUILD_FILLING;
    return RC_WAIT;
}

enum rc build_adopt(struct build *build, struct key *to, struct err *err)
{
    ASSERT(build->phase == BUILD_FULL);
    ASSERT(to->ns == build->key.ns);
    enum rc rc = garbage_remove(to->ns, build->key.meta.id, err);
    if (rc == RC_OK)
        rc = key_adopt(to, build->key.meta.type, build->key.meta.id, err);
    return rc;
}

enum rc build_store(struct build *build, const struct run *run, struct bytes to, enum kv_event kind,
                    const char *event, struct err *err)
{
    struct key key;
    enum rc rc = key_write(run, to, KEY_ANY, &key, err);
    if (rc != RC_OK)
        return rc;
    if (build->key.meta.count == 0) { /* its garbage row stays, and is swept */
        if (!key.exists)
            return RC_OK;
        rc = key_remove(&key, err);
        if (rc == RC_OK)
            key_changed(&key, KV_EVENT_GENERIC, "del");
        return rc;
    }
    rc = build_adopt(build, &key, err);
    if (rc != RC_OK)
        return rc;
    key.meta.count = build->key.meta.count;
    key.meta.expire_ms = 0;
    rc = key_save(&key, BYTES(""), err);
    if (rc == RC_OK)
        key_changed(&key, kind, event);
    return rc;
}

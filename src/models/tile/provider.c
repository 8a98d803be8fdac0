// SPDX-License-Identifier: Apache-2.0
/* provider.c - texts of providers: rows of tile's own group, 'p' ‖ id(8) → text. */
#include <jansson.h>

#include "models/tile/tile_int.h"

#include "base/banned.h"

enum {
    PROVIDER_TAG = 'p',
    SUFFIX_BYTES = 9,
    PROVIDERS_MAX = 100 * 1000,
    TEXT_BYTES_MAX = 64 * 1024
};

static void suffix_put(uint64_t id, uint8_t to[SUFFIX_BYTES])
{
    to[0] = PROVIDER_TAG;
    be64_put(to + 1, id);
}

enum rc tile_provider_set(struct tiles *tiles, uint64_t id, struct bytes text, struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    if (id == 0 || id > TILE_NUMBER_MAX)
        return err_set(err, RC_INVALID, "a provider is a number from 1 to %lld",
                       (long long)TILE_NUMBER_MAX);
    if (text.len > TEXT_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "the text of a provider has at most %d bytes",
                       TEXT_BYTES_MAX);
    suffix_put(id, suffix);
    return store_put(tiles->store, tile__own(tiles), bytes_of(suffix, sizeof suffix), text, err);
}

enum rc tile_provider_get(struct tiles *tiles, uint64_t id, struct bytes *ret_text, struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    suffix_put(id, suffix);
    return store_get(tiles->store, tile__own(tiles), bytes_of(suffix, sizeof suffix), ret_text,
                     err);
}

enum rc tile_provider_list(struct tiles *tiles,
                           void (*fn)(void *arg, uint64_t id, struct bytes text), void *arg,
                           struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, text;
    uint8_t tag = PROVIDER_TAG;
    store_walk_init(&walk, tiles->store, tile__own(tiles), false);
    enum rc rc = store_walk_seek(&walk, bytes_of(&tag, 1), err);
    while (rc == RC_OK && (rc = store_walk_next(&walk, &suffix, &text, err)) == RC_OK) {
        if (suffix.len != SUFFIX_BYTES || suffix.ptr[0] != PROVIDER_TAG)
            break; /* those of bindings are behind them */
        fn(arg, be64_get(suffix.ptr + 1), text);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- JSON ---- */

static enum rc json_error(struct err *err)
{
    return err_set(err, RC_INVALID,
                   "providers are {\"124\": \"copyright\"} or a list of {\"provider_id\": 124, "
                   "\"copyright\": \"...\"}");
}

static bool text_of(const json_t *value, struct bytes *ret_text)
{
    const json_t *text = json_is_object(value) ? json_object_get(value, "copyright") : value;
    if (!json_is_string(text))
        return false;
    *ret_text = bytes_of(json_string_value(text), json_string_length(text));
    return true;
}

static bool id_of_name(const char *name, uint64_t *ret_id)
{
    uint64_t id = 0;
    size_t len = strlen(name);
    if (len == 0 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        id = 10 * id + (uint64_t)(name[i] - '0');
    }
    *ret_id = id;
    return true;
}

static enum rc list_load(struct tiles *tiles, const json_t *list, uint64_t *count, struct err *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const json_t *id = json_object_get(one, "provider_id");
        struct bytes text;
        if (!json_is_integer(id) || json_integer_value(id) < 0 || !text_of(one, &text))
            return json_error(err);
        enum rc rc = tile_provider_set(tiles, (uint64_t)json_integer_value(id), text, err);
        if (rc != RC_OK)
            return rc;
        ++*count;
    }
    return RC_OK;
}

static enum rc object_load(struct tiles *tiles, json_t *object, uint64_t *count, struct err *err)
{
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct bytes text;
        uint64_t id;
        if (!id_of_name(json_object_iter_key(at), &id) ||
            !text_of(json_object_iter_value(at), &text))
            return json_error(err);
        enum rc rc = tile_provider_set(tiles, id, text, err);
        if (rc != RC_OK)
            return rc;
        ++*count;
    }
    return RC_OK;
}

struct old_ids {
    struct arena *arena;
    uint64_t *id;
    size_t count, cap;
};

static void old_add(void *arg, uint64_t id, struct bytes text)
{
    struct old_ids *old = arg;
    (void)text;
    if (old->count == old->cap) {
        size_t cap = old->cap ? 2 * old->cap : 64;
        uint64_t *more = arena_alloc_array(old->arena, cap, sizeof *more);
        if (old->count)
            memcpy(more, old->id, old->count * sizeof *more);
        old->id = more;
        old->cap = cap;
    }
    old->id[old->count++] = id;
}

static enum rc old_drop(struct tiles *tiles, const struct run *run, struct err *err)
{
    struct old_ids old = {.arena = run->arena};
    enum rc rc = tile_provider_list(tiles, old_add, &old, err);
    for (size_t i = 0; i < old.count && rc == RC_OK; i++) {
        uint8_t suffix[SUFFIX_BYTES];
        suffix_put(old.id[i], suffix);
        rc = store_delete(tiles->store, tile__own(tiles), bytes_of(suffix, sizeof suffix), err);
        rc = rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    return rc;
}

enum rc tile_provider_load(struct tiles *tiles, const struct run *run, struct bytes json,
                           uint64_t *ret_count, struct err *err)
{
    json_error_t error;
    *ret_count = 0;
    json_t *root = json_loadb((const char *)json.ptr, json.len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return err_set(err, RC_INVALID, "the JSON cannot be read: %s, line %d", error.text,
                       error.line);
    json_t *list = json_is_object(root) ? json_object_get(root, "providers") : root;
    bool too_many = json_array_size(list) > PROVIDERS_MAX || json_object_size(root) > PROVIDERS_MAX;
    enum rc rc = too_many
                     ? err_set(err, RC_TOO_BIG, "there are more than %d providers", PROVIDERS_MAX)
                     : old_drop(tiles, run, err);
    if (rc == RC_OK && json_is_array(list))
        rc = list_load(tiles, list, ret_count, err);
    else if (rc == RC_OK && json_is_object(list ? list : root))
        rc = object_load(tiles, list ? list : root, ret_count, err);
    else if (rc == RC_OK)
        rc = json_error(err);
    json_decref(root);
    return rc;
}

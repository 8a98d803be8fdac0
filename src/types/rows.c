#include "types/rows.h"

#include <ctype.h>

#include "base/codec.h"

#include "base/banned.h"

enum {
    NEAR_COUNT_MIN = 16 * 1024, /* groups up to this size are loaded as a whole */
    NEAR_PLACE_MS = 1024,
    NEAR_ROWS = 64, /* of these behind the place, one is taken */
    PLACE_TRIES = 16,
    PLACE_SHARED_BYTES_MAX = 120,
    PLACE_DRAWN_BYTES = 8,
};

enum rc rows_need_all(const struct key *key, struct err *err)
{
    uint64_t rank;
    return store_rank(key->ns->kv->store, key_rows(key), BYTES(""), &rank, err);
}

static enum rc count_error(const struct key *key, struct err *err)
{
    return err_set(err, RC_CORRUPT, "a key has fewer rows than its count %llu",
                   (unsigned long long)key->meta.count);
}

static enum rc row_nth(const struct key *key, uint64_t n, struct bytes *ret_suffix,
                       struct bytes *ret_value, struct err *err)
{
    enum rc rc = store_nth(key->ns->kv->store, key_rows(key), n, ret_suffix, ret_value, err);
    return rc == RC_NOT_FOUND ? count_error(key, err) : rc;
}

/* ---- a place in a group that is not in memory ---- */

static bool is_large_and_cold(const struct key *key)
{
    return key->meta.count > NEAR_COUNT_MIN &&
           !store_group_state(key->ns->kv->store, key_rows(key)).complete;
}

/* A byte as it may stand between these two: text stays text, so that all of a range of names or
 * numbers is hit, and not only where letters begin. */
static uint8_t byte_draw(struct rand *rand, uint8_t low, uint8_t high)
{
    static const char digits[] = "0123456789";
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (isdigit(low) && isdigit(high))
        return (uint8_t)digits[rand_below(rand, sizeof digits - 1)];
    if (isalnum(low) && isalnum(high))
        return (uint8_t)letters[rand_below(rand, sizeof letters - 1)];
    return (uint8_t)rand_below(rand, 256);
}

/* A suffix between the first and the last; the same one for NEAR_PLACE_MS. */
static struct bytes place_draw(const struct key *key, struct bytes first, struct bytes last,
                               uint8_t to[PLACE_SHARED_BYTES_MAX + PLACE_DRAWN_BYTES])
{
    struct rand rand;
    size_t shared = bytes_shared_len(first, last);
    if (shared > PLACE_SHARED_BYTES_MAX)
        return first;
    rand_init_seed(&rand, be64_get(key->meta.id) ^ key->ns->kv->now_ms / NEAR_PLACE_MS);
    memcpy(to, first.ptr, shared);
    for (int i = 0; i < PLACE_TRIES; i++) {
        size_t len = shared;
        for (; len < shared + PLACE_DRAWN_BYTES && len < last.len; len++)
            to[len] =
                byte_draw(&rand, len < first.len ? first.ptr[len] : last.ptr[len], last.ptr[len]);
        struct bytes place = bytes_of(to, len);
        if (bytes_cmp(first, place) <= 0 && bytes_cmp(place, last) <= 0)
            return place;
    }
    return first;
}

static enum rc end_row(const struct key *key, bool last, struct bytes *ret_suffix, struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes value;
    store_walk_init(&walk, key->ns->kv->store, key_rows(key), last);
    enum rc rc = store_walk_next(&walk, ret_suffix, &value, err);
    return rc == RC_NOT_FOUND ? count_error(key, err) : rc;
}

/* The walk (initialised) goes on from the place. */
static enum rc near_seek(const struct key *key, struct store_walk *walk, struct err *err)
{
    uint8_t place[PLACE_SHARED_BYTES_MAX + PLACE_DRAWN_BYTES];
    struct bytes first, last;
    enum rc rc_first = end_row(key, false, &first, err);
    enum rc rc = end_row(key, true, &last, err); /* if both are cold, both are asked for */
    if (rc_first != RC_OK)
        rc = rc_first;
    if (rc == RC_OK)
        rc = store_walk_seek(walk, place_draw(key, first, last, place), err);
    return rc;
}

static enum rc near_random(const struct key *key, struct bytes *ret_suffix, struct bytes *ret_value,
                           struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct kv *kv = key->ns->kv;
    struct bytes suffix, value;
    store_walk_init(&walk, kv->store, key_rows(key), false);
    enum rc rc = near_seek(key, &walk, err);
    if (rc == RC_OK)
        rc = store_walk_next(&walk, ret_suffix, ret_value, err);
    if (rc != RC_OK) /* the place is not behind the last row, so there is one */
        return rc == RC_NOT_FOUND ? count_error(key, err) : rc;
    for (uint64_t i = rand_below(&kv->rand, NEAR_ROWS); i > 0; i--) {
        if (store_walk_next(&walk, &suffix, &value, err) != RC_OK)
            break; /* what is in memory is near enough */
        *ret_suffix = suffix;
        *ret_value = value;
    }
    return RC_OK;
}

enum rc rows_random(const struct key *key, struct bytes *ret_suffix, struct bytes *ret_value,
                    struct err *err)
{
    if (UNLIKELY(is_large_and_cold(key)))
        return near_random(key, ret_suffix, ret_value, err);
    return row_nth(key, rand_below(&key->ns->kv->rand, key->meta.count), ret_suffix, ret_value,
                   err);
}

/* ---- several ---- */

/* Room for all numbers that will be drawn, at most half full. */
static enum rc seen_init(struct rows_pick *pick, struct err *err)
{
    size_t cap = 16;
    while (cap < 2 * pick->left)
        cap *= 2;
    pick->seen = arena_try_alloc(&pick->key->ns->kv->arena, cap * sizeof *pick->seen);
    if (!pick->seen)
        return err_set(err, RC_NOMEM, "could not allocate memory to draw %llu rows",
                       (unsigned long long)pick->left);
    memset(pick->seen, 0, cap * sizeof *pick->seen);
    pick->seen_mask = cap - 1;
    return RC_OK;
}

/* False: it was there. */
static bool seen_add(struct rows_pick *pick, uint64_t number)
{
    uint64_t at = (number * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & pick->seen_mask;
    while (pick->seen[at] != 0 && pick->seen[at] != number + 1)
        at = (at + 1) & pick->seen_mask;
    bool is_new = pick->seen[at] == 0;
    pick->seen[at] = number + 1;
    return is_new;
}

/* Floyd: the number below a limit that rises by one each time, or, if that came already, the new
 * largest one. All choices have the same chance. */
static uint64_t number_draw(struct rows_pick *pick)
{
    uint64_t largest = pick->key->meta.count - pick->left;
    uint64_t number = rand_below(&pick->key->ns->kv->rand, largest + 1);
    if (seen_add(pick, number))
        return number;
    seen_add(pick, largest);
    return largest;
}

enum rc rows_pick_init(struct rows_pick *pick, const struct key *key, uint64_t count,
                       bool different, struct err *err)
{
    pick->key = key;
    pick->left = count;
    store_walk_init(&pick->walk, key->ns->kv->store, key_rows(key), false);
    if (!different) {
        pick->kind = PICK_REPEATED;
        return RC_OK;
    }
    if (count >= key->meta.count) {
        pick->kind = PICK_ALL;
        pick->left = key->meta.count;
        return rows_need_all(key, err);
    }
    if (is_large_and_cold(key)) {
        pick->kind = PICK_NEAR;
        return near_seek(key, &pick->walk, err);
    }
    pick->kind = PICK_DIFFERENT;
    return seen_init(pick, err);
}

void rows_pick_done(struct rows_pick *pick)
{
    if (pick)
        store_walk_done(&pick->walk);
}

uint64_t rows_pick_count(const struct rows_pick *pick)
{
    return pick->left;
}

/* Behind the last row comes the first. */
static enum rc walk_round(struct rows_pick *pick, struct bytes *ret_suffix, struct bytes *ret_value,
                          struct err *err)
{
    enum rc rc = store_walk_next(&pick->walk, ret_suffix, ret_value, err);
    if (rc != RC_NOT_FOUND)
        return rc;
    rc = store_walk_seek(&pick->walk, BYTES(""), err);
    if (rc == RC_OK)
        rc = store_walk_next(&pick->walk, ret_suffix, ret_value, err);
    return rc == RC_NOT_FOUND ? count_error(pick->key, err) : rc;
}

enum rc rows_pick_next(struct rows_pick *pick, struct bytes *ret_suffix, struct bytes *ret_value,
                       struct err *err)
{
    enum rc rc = RC_OK;
    if (pick->left == 0)
        return RC_NOT_FOUND;
    switch (pick->kind) {
    case PICK_ALL:
    case PICK_NEAR:
        rc = walk_round(pick, ret_suffix, ret_value, err);
        break;
    case PICK_REPEATED:
        rc = rows_random(pick->key, ret_suffix, ret_value, err);
        break;
    case PICK_DIFFERENT:
        rc = row_nth(pick->key, number_draw(pick), ret_suffix, ret_value, err);
        break;
    }
    pick->left--;
    return rc;
}

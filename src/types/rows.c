// SPDX-License-Identifier: Apache-2.0
/* rows.c - draws rows of a key at random, with and without repetition. */
#include "types/rows.h"

#include <ctype.h>

#include "base/codec.h"

#include "base/banned.h"

enum {
    NEAR_COUNT_MIN = 16 * 1024, /* groups up to this size are loaded as a whole */
    NEAR_PLACE_MS = 1024,
    NEAR_ROWS = 64, /* of these behind the place, one is taken */
    NEAR_PART = 8,  /* who wants so much of a group, or more, gets it from all of it */
    PLACE_TRIES = 16,
    PLACE_SHARED_BYTES_MAX = 120,
    PLACE_DRAWN_BYTES = 8,
    PLACE_IN_ORDER_BYTES = 1 + 8 + 8,
    SEEN_COUNT_MAX = 16 * 1024, /* more different rows are picked in order */
};

enum rc rows_need_all(const struct key *key, struct err *err)
{
    uint64_t rank;
    return store_rank(key->ns->kv->store, key_rows(key), BYTES(""), &rank, err);
}

bool rows_carry_add(struct buf *rows, struct bytes suffix, struct bytes value)
{
    return buf_add_uvarint(rows, suffix.len) && buf_add_bytes(rows, suffix) &&
           buf_add_uvarint(rows, value.len) && buf_add_bytes(rows, value);
}

static struct bytes carried_part(const uint8_t **at, const uint8_t *end)
{
    uint64_t len;
    bool is_whole = uvarint_get(at, end, &len);
    ASSERT(is_whole);
    struct bytes part = bytes_of(*at, len);
    *at += len;
    return part;
}

enum rc rows_carry_put(const struct key *to, const struct buf *rows, struct err *err)
{
    const uint8_t *at = rows->ptr, *end = rows->ptr + rows->len;
    enum rc rc = RC_OK;
    while (rc == RC_OK && at < end) {
        struct bytes suffix = carried_part(&at, end), value = carried_part(&at, end);
        rc = store_put(to->ns->kv->store, key_rows(to), suffix, value, err);
    }
    return rc;
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

static bool is_near(const struct key *key, uint64_t count)
{
    return count < key->meta.count / NEAR_PART && is_large_and_cold(key);
}

/* Where to look for so many rows: the same for NEAR_PLACE_MS, and longer if it takes longer to load
 * them. */
static uint64_t place_seed(const struct key *key, uint64_t count)
{
    return be64_get(key->meta.id) ^
           key->run->now_ms / (NEAR_PLACE_MS * (1 + count / NEAR_COUNT_MIN));
}

/* A suffix between the first and the last. */
static struct bytes place_draw(uint64_t seed, struct bytes first, struct bytes last,
                               uint8_t to[PLACE_SHARED_BYTES_MAX + PLACE_DRAWN_BYTES])
{
    struct rand rand;
    size_t shared = bytes_shared_len(first, last);
    if (shared > PLACE_SHARED_BYTES_MAX)
        return first;
    rand_init_seed(&rand, seed);
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

/* The walk (initialised) goes on from a place for so many rows. */
static enum rc near_seek(const struct key *key, uint64_t count, struct store_walk *walk,
                         struct err *err)
{
    uint8_t place[PLACE_SHARED_BYTES_MAX + PLACE_DRAWN_BYTES];
    struct bytes first, last;
    walk->row_count = count;
    enum rc rc_first = end_row(key, false, &first, err);
    enum rc rc = end_row(key, true, &last, err); /* if both are cold, both are asked for */
    if (rc_first != RC_OK)
        rc = rc_first;
    if (rc == RC_OK)
        rc = store_walk_seek(walk, place_draw(place_seed(key, count), first, last, place), err);
    return rc;
}

static enum rc near_random(const struct key *key, struct bytes *ret_suffix, struct bytes *ret_value,
                           struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct kv *kv = key->ns->kv;
    struct bytes suffix, value;
    store_walk_init(&walk, kv->store, key_rows(key), false);
    enum rc rc = near_seek(key, 1, &walk, err);
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
    pick->seen = arena_try_alloc(pick->key->run->arena, cap * sizeof *pick->seen);
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

/* 0 <= number < 1 */
static double unit_draw(struct rand *rand)
{
    return (double)(rand_u64(rand) >> 11) * 0x1p-53;
}

/* How many rows to pass over so that all choices of `left` rows among those from `number` on have
 * the same chance (Vitter's method A): one random number and a division a row that is passed. */
static uint64_t gap_draw(const struct rows_pick *pick)
{
    double rest = (double)(pick->key->meta.count - pick->number), left = (double)pick->left;
    double limit = unit_draw(&pick->key->ns->kv->rand), chance = (rest - left) / rest;
    uint64_t gap = 0;
    for (; chance > limit && rest > left; gap++) {
        rest -= 1;
        chance *= (rest - left) / rest;
    }
    return gap;
}

/* Of a group that is in memory by its number; otherwise by passing the rows before it, so that the
 * group passes through memory once. */
static enum rc in_order_next(struct rows_pick *pick, struct bytes *ret_suffix,
                             struct bytes *ret_value, struct err *err)
{
    const struct key *key = pick->key;
    enum rc rc = RC_OK;
    if (!pick->has_gap)
        pick->gap = gap_draw(pick);
    pick->has_gap = true;
    if (store_group_state(key->ns->kv->store, key_rows(key)).complete) {
        pick->number += pick->gap;
        pick->gap = 0;
        rc = row_nth(key, pick->number, ret_suffix, ret_value, err);
        if (rc == RC_OK)
            rc = store_walk_seek_behind(&pick->walk, *ret_suffix, err);
    } else {
        for (; rc == RC_OK && pick->gap > 0; pick->gap -= rc == RC_OK, pick->number += rc == RC_OK)
            rc = store_walk_next(&pick->walk, ret_suffix, ret_value, err);
        if (rc == RC_OK)
            rc = store_walk_next(&pick->walk, ret_suffix, ret_value, err);
    }
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? count_error(key, err) : rc;
    pick->number++;
    pick->has_gap = false;
    return RC_OK;
}

static void pick_begin(struct rows_pick *pick, const struct key *key, uint64_t count)
{
    *pick = (struct rows_pick){.key = key, .left = count};
    store_walk_init(&pick->walk, key->ns->kv->store, key_rows(key), false);
    buf_init(&pick->place, STORE_SUFFIX_BYTES_MAX + PLACE_IN_ORDER_BYTES);
}

enum rc rows_pick_init(struct rows_pick *pick, const struct key *key, uint64_t count,
                       bool different, struct err *err)
{
    pick_begin(pick, key, count);
    if (!different) {
        pick->kind = PICK_REPEATED;
        return RC_OK;
    }
    if (count >= key->meta.count) {
        pick->kind = PICK_ALL;
        pick->left = key->meta.count;
        pick->walk.once = pick->left > ROWS_WHOLE_MAX;
        return pick->walk.once ? RC_OK : rows_need_all(key, err);
    }
    if (is_near(key, count)) {
        pick->kind = PICK_NEAR;
        return near_seek(key, count, &pick->walk, err);
    }
    pick->kind = count > SEEN_COUNT_MAX ? PICK_IN_ORDER : PICK_DIFFERENT;
    pick->walk.once = pick->kind == PICK_IN_ORDER;
    if (pick->walk.once)
        return RC_OK;
    enum rc rc = rows_need_all(key, err);
    return rc == RC_OK ? seen_init(pick, err) : rc;
}

enum rc rows_take_init(struct rows_pick *pick, const struct key *key, uint64_t count,
                       struct err *err)
{
    ASSERT(count <= key->meta.count);
    pick_begin(pick, key, count);
    pick->kind = count == 1 ? PICK_REPEATED : PICK_TAKEN;
    if (count == 1)
        return RC_OK;
    if (!is_near(key, count))
        return rows_need_all(key, err);
    pick->kind = PICK_NEAR;
    return near_seek(key, count, &pick->walk, err);
}

bool rows_pick_can_stop(const struct rows_pick *pick)
{
    return pick->kind != PICK_DIFFERENT;
}

/* kind(1) ‖ PICK_IN_ORDER: number(8) ‖ rows to pass + 1, or 0(8) ‖ the last suffix */
struct bytes rows_pick_place(struct rows_pick *pick)
{
    uint8_t head[PLACE_IN_ORDER_BYTES] = {(uint8_t)pick->kind};
    bool in_order = pick->kind == PICK_IN_ORDER;
    be64_put(head + 1, pick->number);
    be64_put(head + 1 + 8, pick->has_gap ? pick->gap + 1 : 0);
    buf_cut(&pick->place, 0);
    bool good = buf_add(&pick->place, head, in_order ? sizeof head : 1);
    if (good && pick->walk.has_at)
        good = buf_add_bytes(&pick->place, buf_bytes(&pick->walk.at));
    return good ? buf_bytes(&pick->place) : (struct bytes){0};
}

enum rc rows_pick_resume(struct rows_pick *pick, const struct key *key, uint64_t count,
                         uint64_t done, struct bytes place, struct err *err)
{
    pick_begin(pick, key, count);
    ASSERT(place.len > 0 && place.ptr[0] != PICK_DIFFERENT);
    pick->kind = place.ptr[0];
    if (pick->kind == PICK_ALL) {
        pick->left = key->meta.count;
        pick->walk.once = pick->left > ROWS_WHOLE_MAX;
    }
    ASSERT(done <= pick->left);
    pick->done = done;
    pick->left -= done;
    if (pick->kind == PICK_IN_ORDER) {
        pick->number = be64_get(place.ptr + 1);
        pick->gap = be64_get(place.ptr + 1 + 8);
        pick->has_gap = pick->gap > 0;
        pick->gap -= pick->has_gap;
        pick->walk.once = true;
        if (pick->number == 0)
            return RC_OK;
        return store_walk_seek_behind(&pick->walk, bytes_from(place, PLACE_IN_ORDER_BYTES), err);
    }
    if ((pick->kind != PICK_ALL && pick->kind != PICK_NEAR) || done == 0)
        return RC_OK;
    return store_walk_seek_behind(&pick->walk, bytes_from(place, 1), err);
}

void rows_pick_done(struct rows_pick *pick)
{
    if (!pick)
        return;
    store_walk_done(&pick->walk);
    buf_done(&pick->place);
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
    case PICK_TAKEN:
        rc = rows_random(pick->key, ret_suffix, ret_value, err);
        break;
    case PICK_DIFFERENT:
        rc = row_nth(pick->key, number_draw(pick), ret_suffix, ret_value, err);
        break;
    case PICK_IN_ORDER:
        rc = in_order_next(pick, ret_suffix, ret_value, err);
        break;
    }
    pick->left -= rc == RC_OK;
    pick->done += rc == RC_OK;
    return rc;
}

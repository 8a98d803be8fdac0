// SPDX-License-Identifier: Apache-2.0
/* idwalk.c - walks a hash by number, although its rows stand in byte order. */
#include "models/partition/idwalk.h"

#include "models/partition/text.h"
#include "types/number.h"

#include "base/banned.h"

void idwalk_init(struct idwalk *walk, const struct key *key, int64_t from)
{
    *walk = (struct idwalk){.key = key, .next_id = from, .ended = !key->exists};
    if (key->exists)
        store_walk_init(&walk->rows, key->ns->kv->store, key_rows(key), false);
}

void idwalk_done(struct idwalk *walk)
{
    if (walk->key && walk->rows.store)
        store_walk_done(&walk->rows);
}

static enum rc row_next(struct idwalk *walk, struct bytes *ret_field, struct bytes *ret_value,
                        struct err *err)
{
    int64_t id;
    enum rc rc = store_walk_next(&walk->rows, ret_field, ret_value, err);
    if (rc == RC_OK && (!number_int(*ret_field, &id) || id < 0))
        return err_set(err, RC_CORRUPT, "%.*s has a field that is no id", (int)walk->key->name.len,
                       (const char *)walk->key->name.ptr);
    return rc;
}

/* 10^digits, the least number with one digit more; 0: there is none. */
static uint64_t longer(size_t digits)
{
    uint64_t value = 1;
    while (digits-- > 0)
        value *= 10;
    return value <= INT64_MAX ? value : 0;
}

/* The least number with as many digits as `next` that comes behind a field of another length, which
 * stands where `next` would; 0: it has more digits. */
static uint64_t jump(struct bytes field, size_t digits)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (i < field.len ? (uint64_t)(field.ptr[i] - '0') : 0);
    if (field.len > digits)
        value++; /* the number it begins with is not there, or it would have come first */
    return value < longer(digits) || longer(digits) == 0 ? value : 0;
}

static enum rc found(struct idwalk *walk, struct bytes field, int64_t *ret_id)
{
    (void)number_int(field, ret_id);
    walk->ended = *ret_id == INT64_MAX;
    walk->next_id = *ret_id + !walk->ended;
    /* The next number is the next row, unless it is longer: 9, 90, 91, and 10 is far before. What
     * stands between is not looked at, so that it may stay cold. */
    walk->sought = (uint64_t)walk->next_id != longer(field.len) && walk->mixed != field.len;
    return RC_OK;
}

enum rc idwalk_next(struct idwalk *walk, int64_t *ret_id, struct bytes *ret_value, struct err *err)
{
    uint8_t text[TEXT_NUMBER_BYTES];
    struct bytes field;
    uint64_t next = (uint64_t)walk->next_id;
    while (!walk->ended) {
        walk->next_id = (int64_t)next;
        if (walk->steps_max > 0 && walk->steps >= walk->steps_max)
            return RC_WAIT;
        walk->steps++;
        size_t digits = (size_t)(text_put_u64(text, next) - text);
        bool sought = walk->sought;
        enum rc rc = RC_OK;
        if (!sought)
            rc = store_walk_seek(&walk->rows, bytes_of(text, digits), err);
        walk->sought = false;
        if (rc == RC_OK)
            rc = row_next(walk, &field, ret_value, err);
        if (rc == RC_OK && field.len == digits)
            return found(walk, field, ret_id);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
        if (sought && rc == RC_OK && field.len > digits)
            walk->mixed = digits;
        uint64_t at = rc == RC_OK ? jump(field, digits) : 0;
        next = at != 0 ? at : longer(digits);
        walk->ended = next == 0 || next > INT64_MAX;
    }
    return RC_NOT_FOUND;
}

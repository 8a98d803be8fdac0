// SPDX-License-Identifier: Apache-2.0
/* sort.c - SORT in one commit: elements, weights, order. */
#include "types/sort_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "types/hash.h"
#include "types/list.h"
#include "types/number.h"
#include "types/rows.h"
#include "types/string.h"
#include "types/zset.h"

#include "base/banned.h"

enum { NUMBER_TEXT_BYTES = 128 };

/* ---- patterns ---- */

void sort_pattern_parse(struct bytes text, struct sort_pattern *ret_pattern)
{
    *ret_pattern = (struct sort_pattern){.kind = SORT_NOTHING};
    if (bytes_eq(text, BYTES("#"))) {
        ret_pattern->kind = SORT_SELF;
        return;
    }
    const uint8_t *star = memchr(text.ptr, '*', text.len);
    if (!star)
        return;
    ret_pattern->kind = SORT_STRING;
    ret_pattern->before = bytes_of(text.ptr, (size_t)(star - text.ptr));
    ret_pattern->after = bytes_from(text, ret_pattern->before.len + 1);
    const uint8_t *arrow = memmem(ret_pattern->after.ptr, ret_pattern->after.len, "->", 2);
    if (!arrow || arrow + 2 == text.ptr + text.len) /* without a name it is part of the key */
        return;
    ret_pattern->kind = SORT_FIELD;
    ret_pattern->field = bytes_from(text, (size_t)(arrow + 2 - text.ptr));
    ret_pattern->after.len = (size_t)(arrow - ret_pattern->after.ptr);
}

static enum rc pattern_name(const struct sort_pattern *pattern, struct bytes element,
                            struct buf *name, struct err *err)
{
    name->len = 0;
    if (!buf_add_bytes(name, pattern->before) || !buf_add_bytes(name, element) ||
        !buf_add_bytes(name, pattern->after))
        return err_set(err, RC_NOMEM, "could not allocate memory for the name of a key");
    return RC_OK;
}

enum rc sort_lookup(const struct run *run, const struct sort_pattern *pattern, struct bytes element,
                    struct buf *name, struct bytes *ret_value, struct err *err)
{
    struct key key;
    if (pattern->kind == SORT_NOTHING)
        return RC_NOT_FOUND;
    if (pattern->kind == SORT_SELF) {
        *ret_value = element;
        return RC_OK;
    }
    if (pattern->before.len + element.len + pattern->after.len > KEY_BYTES_MAX)
        return RC_NOT_FOUND; /* no key is that long */
    enum rc rc = pattern_name(pattern, element, name, err);
    if (rc == RC_OK)
        rc = key_read(run, buf_bytes(name), KEY_ANY, &key, err);
    if (rc != RC_OK)
        return rc;
    if (pattern->kind == SORT_STRING)
        return string_is(&key) ? string_get(&key, ret_value, err) : RC_NOT_FOUND;
    if (!key.exists || key.meta.type != TYPE_HASH)
        return RC_NOT_FOUND;
    return hash_field(&key, pattern->field, ret_value, err);
}

/* ---- gathering ---- */

struct items {
    const struct run *run;
    struct sort_item *item;
    size_t count, cap;
};

static enum rc items_init(struct items *items, const struct run *run, uint64_t cap, struct err *err)
{
    *items = (struct items){.run = run};
    if (cap <= SIZE_MAX / sizeof *items->item)
        items->item = arena_try_alloc(run->arena, (size_t)cap * sizeof *items->item);
    if (!items->item)
        return err_set(err, RC_NOMEM, "could not allocate memory to sort");
    items->cap = (size_t)cap;
    return RC_OK;
}

static enum rc items_add(struct items *items, struct bytes element, struct err *err)
{
    if (items->count == items->cap)
        return err_set(err, RC_CORRUPT, "a key has more elements than its count says");
    struct sort_item *item = &items->item[items->count];
    *item = (struct sort_item){.position = items->count};
    enum rc rc = run_copy(items->run, element, &item->element, err);
    if (rc == RC_OK)
        items->count++;
    return rc;
}

struct range { /* which elements are read: all of them where they have to be sorted first */
    uint64_t first, count;
    bool reverse;
};

static enum rc list_gather(const struct key *key, const struct range *range, struct items *items,
                           struct err *err)
{
    CLEANUP(list_walk_done) struct list_walk walk = {0};
    struct list list;
    struct bytes element;
    enum rc rc = list_of(key, &list, err);
    if (rc != RC_OK)
        return rc;
    uint64_t position = range->reverse ? list_count(&list) - 1 - range->first : range->first;
    rc = list_walk_init(&walk, &list, position, range->count, range->reverse, err);
    while (rc == RC_OK) {
        rc = list_walk_next(&walk, &element, err);
        if (rc == RC_OK)
            rc = items_add(items, element, err);
    }
    return rc;
}

static enum rc set_gather(const struct key *key, const struct range *range, struct items *items,
                          struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes member, value;
    store_walk_init(&walk, items->run->kv->store, key_rows(key), false);
    enum rc rc = RC_OK;
    if (range->count == key->meta.count)
        rc = rows_need_all(key, err);
    walk.row_count = range->first + range->count;
    for (uint64_t i = 0; rc == RC_OK && i < range->first + range->count; i++) {
        rc = store_walk_next(&walk, &member, &value, err);
        if (rc == RC_OK && i >= range->first)
            rc = items_add(items, member, err);
    }
    return rc;
}

static enum rc zset_gather(const struct key *key, const struct range *range, struct items *items,
                           struct err *err)
{
    CLEANUP(zset_walk_done) struct zset_walk walk = {0};
    struct zset_item item;
    enum rc rc = zset_walk_init(&walk, key, zset_span_by_score(), range->reverse, err);
    zset_walk_expect(&walk, range->first + range->count);
    if (rc == RC_OK)
        rc = zset_walk_skip(&walk, range->first, err);
    for (uint64_t i = 0; rc == RC_OK && i < range->count; i++) {
        rc = zset_walk_next(&walk, &item, err);
        if (rc == RC_OK)
            rc = items_add(items, item.member, err);
    }
    return rc;
}

static enum rc gather(const struct key *key, const struct range *range, struct items *items,
                      struct err *err)
{
    enum rc rc = items_init(items, key->run, range->count, err);
    if (rc != RC_OK || range->count == 0)
        return rc;
    if (key->meta.type == TYPE_LIST)
        rc = list_gather(key, range, items, err);
    else if (key->meta.type == TYPE_SET)
        rc = set_gather(key, range, items, err);
    else
        rc = zset_gather(key, range, items, err);
    if ((rc == RC_OK || rc == RC_NOT_FOUND) && items->count < items->cap)
        return err_set(err, RC_CORRUPT, "a key has fewer elements than its count says");
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* ---- ordering ---- */

enum rc sort__score(const struct run *run, struct bytes text, double *ret_score, struct err *err)
{
    char few[NUMBER_TEXT_BYTES], *copy = few, *end;
    int64_t integer;
    if (LIKELY(number_int(text, &integer))) {
        *ret_score = (double)integer;
        return RC_OK;
    }
    if (text.len >= sizeof few)
        copy = arena_try_alloc(run->arena, text.len + 1);
    if (!copy)
        return err_set(err, RC_NOMEM, "could not allocate %zu bytes to sort", text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    errno = 0;
    *ret_score = strtod(copy, &end);
    if (*end || errno == ERANGE || isnan(*ret_score))
        return err_set(err, RC_INVALID, "One or more scores can't be converted into double");
    return RC_OK;
}

/* What one item is compared by. RC_NOT_FOUND: there is nothing, it comes as an empty text or 0. */
static enum rc item_weigh(const struct run *run, const struct sort_options *options,
                          struct buf *name, struct sort_item *item, struct err *err)
{
    struct bytes value = item->element;
    enum rc rc = RC_OK;
    if (options->has_by)
        rc = sort_lookup(run, &options->by, item->element, name, &value, err);
    if (rc != RC_OK)
        return rc;
    if (!options->alpha)
        return sort__score(run, value, &item->score, err);
    return options->has_by ? run_copy(run, value, &item->text, err) : RC_OK;
}

/* Cold things are asked for together; an element that is no number is an error only when all is
 * known. */
static enum rc items_weigh(const struct run *run, const struct sort_options *options,
                           struct items *items, struct err *err)
{
    CLEANUP(buf_done) struct buf name;
    size_t cold_count = 0;
    bool odd = false;
    buf_init(&name, KEY_BYTES_MAX);
    for (size_t i = 0; i < items->count && cold_count < SORT_COLD_MAX; i++) {
        enum rc rc = item_weigh(run, options, &name, &items->item[i], err);
        cold_count += rc == RC_COLD;
        odd = odd || rc == RC_INVALID;
        if (rc != RC_OK && rc != RC_NOT_FOUND && rc != RC_COLD && rc != RC_INVALID)
            return rc;
    }
    if (cold_count > 0)
        return RC_COLD;
    return odd ? RC_INVALID : RC_OK;
}

static int texts_cmp(const struct sort_item *a, const struct sort_item *b)
{
    if (!a->text.ptr || !b->text.ptr)
        return (a->text.ptr != NULL) - (b->text.ptr != NULL);
    return bytes_cmp(a->text, b->text);
}

int sort__items_cmp(const void *a, const void *b, void *arg)
{
    const struct sort_options *options = arg;
    const struct sort_item *left = a, *right = b;
    int order;
    if (options->alpha)
        order = options->has_by ? texts_cmp(left, right) : bytes_cmp(left->element, right->element);
    else if (left->score != right->score)
        order = left->score < right->score ? -1 : 1;
    else
        order = bytes_cmp(left->element, right->element);
    if (order == 0)
        return (left->position > right->position) - (left->position < right->position);
    return options->descending ? -order : order;
}

enum rc sort__type_check(const struct key *key, struct err *err)
{
    if (key->exists && key->meta.type != TYPE_LIST && key->meta.type != TYPE_SET &&
        key->meta.type != TYPE_ZSET)
        return err_set(err, RC_WRONGTYPE, "%s", rc_text(RC_WRONGTYPE));
    return RC_OK;
}

enum rc sort_key_read(const struct run *run, struct bytes name, struct key *ret_key,
                      struct err *err)
{
    enum rc rc = key_read(run, name, KEY_ANY, ret_key, err);
    return rc == RC_OK ? sort__type_check(ret_key, err) : rc;
}

struct sort_range sort_range(const struct sort_options *options, uint64_t all_count)
{
    struct sort_range range = {.first = options->first < 0 ? 0 : (uint64_t)options->first};
    range.first = range.first < all_count ? range.first : all_count;
    range.count = all_count - range.first;
    if (options->count >= 0 && (uint64_t)options->count < range.count)
        range.count = (uint64_t)options->count;
    return range;
}

/* BY a text without a star leaves elements in the order that they have: that of a list, or that of
 * a sorted set's scores, both of which DESC turns round. A set has none, unless it is stored. */
bool sort_by_itself(const struct sort_options *options, enum type_tag type,
                    struct sort_options *ret_how)
{
    *ret_how = *options;
    if (!options->has_by)
        return true;
    if (options->by.kind != SORT_NOTHING)
        return false;
    ret_how->alpha = type == TYPE_SET && options->stored;
    ret_how->has_by = !ret_how->alpha;
    ret_how->descending = options->descending && (type != TYPE_SET || options->stored);
    return true;
}

enum rc sort_run(const struct key *key, const struct sort_options *options,
                 struct sort_item **ret_item, size_t *ret_count, struct err *err)
{
    struct sort_options how = *options;
    struct items items;
    uint64_t all_count = key->exists ? key->meta.count : 0;
    struct sort_range wanted = sort_range(&how, all_count);

    if (key->exists)
        sort_by_itself(options, key->meta.type, &how);
    bool sorted = !how.has_by || how.by.kind != SORT_NOTHING;
    struct range range = {.first = wanted.first, .count = wanted.count, .reverse = how.descending};
    if (sorted)
        range = (struct range){.count = all_count};
    enum rc rc = gather(key, &range, &items, err);
    if (rc == RC_OK && sorted)
        rc = items_weigh(key->run, &how, &items, err);
    if (rc != RC_OK)
        return rc;
    if (sorted)
        qsort_r(items.item, items.count, sizeof *items.item, sort__items_cmp, &how);
    *ret_item = items.item + (sorted ? wanted.first : 0);
    *ret_count = (size_t)wanted.count;
    return RC_OK;
}

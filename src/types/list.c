// SPDX-License-Identifier: Apache-2.0
/* list.c - elements of a list: pushed, popped, found, moved up and down. */
#include "types/list.h"

#include <inttypes.h>

#include "base/codec.h"
#include "base/mem.h"
#include "types/renew.h"
#include "types/rows.h"

#include "base/banned.h"

enum {
    EXTRA_BYTES = 16,
    SUFFIX_BYTES = 9,
    CUT_POINTS_MAX = STORE_DROP_POINT_ROWS_MAX, /* up to this many rows are always deleted singly */
};

/* ---- rows ---- */

static struct bytes suffix_put(uint8_t to[SUFFIX_BYTES], int64_t number)
{
    to[0] = number < 0 ? '<' : '>';
    be64_put(to + 1, (uint64_t)number);
    return bytes_of(to, SUFFIX_BYTES);
}

static bool suffix_is(struct bytes suffix, int64_t number)
{
    return suffix.len == SUFFIX_BYTES && (int64_t)be64_get(suffix.ptr + 1) == number;
}

static struct store *store_of(const struct list *list)
{
    return list->key.ns->kv->store;
}

static enum rc row_put(struct list *list, int64_t number, struct bytes element, struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    return store_put(store_of(list), key_rows(&list->key), suffix_put(suffix, number), element,
                     err);
}

static enum rc row_missing(int64_t number, struct err *err)
{
    return err_set(err, RC_CORRUPT, "a list has no row for its element number %" PRId64, number);
}

static enum rc row_get(const struct list *list, int64_t number, struct bytes *ret_element,
                       struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    enum rc rc = store_get(store_of(list), key_rows(&list->key), suffix_put(suffix, number),
                           ret_element, err);
    return rc == RC_NOT_FOUND ? row_missing(number, err) : rc;
}

/* Blind: what is deleted is not read. */
static enum rc rows_delete(struct list *list, int64_t first, uint64_t count, struct err *err)
{
    uint8_t suffix[SUFFIX_BYTES];
    for (uint64_t i = 0; i < count; i++) {
        enum rc rc = store_delete(store_of(list), key_rows(&list->key),
                                  suffix_put(suffix, first + (int64_t)i), err);
        if (rc != RC_OK && rc != RC_NOT_FOUND)
            return rc;
    }
    return RC_OK;
}

/* ---- opening and saving ---- */

static enum rc list_decode(struct list *list, struct err *err)
{
    if (!list->key.exists) {
        list->head = 0; /* (2) */
        list->tail = -1;
        return RC_OK;
    }
    const struct meta *meta = &list->key.meta;
    if (UNLIKELY(meta->extra.len != EXTRA_BYTES))
        return err_set(err, RC_CORRUPT, "the meta row of a list has %zu bytes of extra, not %d",
                       meta->extra.len, EXTRA_BYTES);
    list->head = (int64_t)be64_get(meta->extra.ptr);
    list->tail = (int64_t)be64_get(meta->extra.ptr + 8);
    if (UNLIKELY(list->head > list->tail || list_count(list) != meta->count)) /* (1) */
        return err_set(err, RC_CORRUPT,
                       "a list of %" PRIu64 " elements is numbered from %" PRId64 " to %" PRId64,
                       meta->count, list->head, list->tail);
    return RC_OK;
}

enum rc list_read(const struct run *run, struct bytes name, struct list *ret_list, struct err *err)
{
    enum rc rc = key_read(run, name, TYPE_LIST, &ret_list->key, err);
    return rc == RC_OK ? list_decode(ret_list, err) : rc;
}

enum rc list_write(const struct run *run, struct bytes name, struct list *ret_list, struct err *err)
{
    enum rc rc = key_write(run, name, TYPE_LIST, &ret_list->key, err);
    return rc == RC_OK ? list_decode(ret_list, err) : rc;
}

enum rc list_of(const struct key *key, struct list *ret_list, struct err *err)
{
    ASSERT(!key->exists || key->meta.type == TYPE_LIST);
    ret_list->key = *key;
    return list_decode(ret_list, err);
}

static enum rc list_save(struct list *list, struct err *err)
{
    uint8_t extra[EXTRA_BYTES];
    be64_put(extra, (uint64_t)list->head);
    be64_put(extra + 8, (uint64_t)list->tail);
    list->key.meta.count = list_count(list);
    return key_save(&list->key, bytes_of(extra, sizeof extra), err);
}

enum rc list_make(struct list *list, struct err *err)
{
    return list->key.exists ? RC_OK : key_create(&list->key, TYPE_LIST, err);
}

static enum rc list_erase(struct list *list, struct err *err)
{
    enum rc rc = key_remove(&list->key, err);
    list->head = 0;
    list->tail = -1;
    if (rc == RC_OK)
        key_changed(&list->key, KV_EVENT_GENERIC, "del");
    return rc;
}

static void changed(const struct list *list, const char *event)
{
    key_changed(&list->key, KV_EVENT_LIST, event);
}

const char *list_encoding(const struct key *key)
{
    (void)key; /* Redis 7.0 has one encoding, whatever the size */
    return "quicklist";
}

/* ---- reading ---- */

enum rc list_get(const struct list *list, uint64_t position, struct bytes *ret_element,
                 struct err *err)
{
    ASSERT(position < list_count(list));
    return row_get(list, list->head + (int64_t)position, ret_element, err);
}

enum rc list_peek(const struct list *list, enum list_end end, struct bytes *ret_element,
                  struct err *err)
{
    ASSERT(list->key.exists);
    int64_t number = end == LIST_HEAD ? list->head : list->tail;
    enum rc rc = row_get(list, number, ret_element, err);
    if (rc == RC_COLD) {
        uint8_t suffix[SUFFIX_BYTES];
        store_want(store_of(list), key_rows(&list->key), suffix_put(suffix, number),
                   end == LIST_HEAD ? STORE_WANT_PAGE : STORE_WANT_PAGE_REVERSE);
    }
    return rc;
}

static enum rc walk_begin(struct list_walk *walk, const struct list *list, uint64_t position,
                          uint64_t count, bool reverse, bool once, struct err *err)
{
    ASSERT(position < list_count(list));
    uint8_t suffix[SUFFIX_BYTES];
    uint64_t left = reverse ? position + 1 : list_count(list) - position;
    walk->at = list->head + (int64_t)position;
    walk->left = count < left ? count : left;
    walk->reverse = reverse;
    store_walk_init(&walk->rows, store_of(list), key_rows(&list->key), reverse);
    walk->rows.row_count = once ? 0 : walk->left;
    walk->rows.once = once;
    return store_walk_seek(&walk->rows, suffix_put(suffix, walk->at), err);
}

enum rc list_walk_init(struct list_walk *walk, const struct list *list, uint64_t position,
                       uint64_t count, bool reverse, struct err *err)
{
    return walk_begin(walk, list, position, count, reverse, false, err);
}

enum rc list_walk_init_once(struct list_walk *walk, const struct list *list, uint64_t position,
                            uint64_t count, struct err *err)
{
    return walk_begin(walk, list, position, count, false, true, err);
}

void list_walk_done(struct list_walk *walk)
{
    if (walk)
        store_walk_done(&walk->rows);
}

void list_walk_searches(struct list_walk *walk)
{
    walk->rows.row_count = 0;
}

enum rc list_walk_next(struct list_walk *walk, struct bytes *ret_element, struct err *err)
{
    struct bytes suffix;
    if (walk->left == 0)
        return RC_NOT_FOUND;
    enum rc rc = store_walk_next(&walk->rows, &suffix, ret_element, err);
    if (UNLIKELY(rc == RC_NOT_FOUND || (rc == RC_OK && !suffix_is(suffix, walk->at))))
        return row_missing(walk->at, err);
    if (rc != RC_OK)
        return rc;
    walk->at += walk->reverse ? -1 : 1;
    walk->left--;
    return RC_OK;
}

/* ---- the ends ---- */

/* Gives one end a number more; its row has to follow. */
static enum rc end_grow(struct list *list, enum list_end end, struct err *err)
{
    bool full = end == LIST_HEAD ? __builtin_sub_overflow(list->head, 1, &list->head)
                                 : __builtin_add_overflow(list->tail, 1, &list->tail);
    if (UNLIKELY(full))
        return err_set(err, RC_TOO_BIG, "the list has used up the numbers of this end");
    return RC_OK;
}

static enum rc end_put(struct list *list, enum list_end end, struct bytes element, struct err *err)
{
    enum rc rc = end_grow(list, end, err);
    if (rc != RC_OK)
        return rc;
    return row_put(list, end == LIST_HEAD ? list->head : list->tail, element, err);
}

static enum rc rows_push(struct list *list, enum list_end end, const struct bytes *element,
                         size_t count, struct err *err)
{
    enum rc rc = list_make(list, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = end_put(list, end, element[i], err);
    return rc == RC_OK ? list_save(list, err) : rc;
}

static const char *push_event(enum list_end end)
{
    return end == LIST_HEAD ? "lpush" : "rpush";
}

enum rc list_push(struct list *list, enum list_end end, const struct bytes *element, size_t count,
                  struct err *err)
{
    enum rc rc = rows_push(list, end, element, count, err);
    if (rc == RC_OK)
        changed(list, push_event(end));
    return rc;
}

enum rc list_fill(struct key *key, const struct bytes *element, size_t count, struct err *err)
{
    struct list list = {.key = *key, .head = 0, .tail = -1};
    ASSERT(key->meta.type == TYPE_LIST);
    ASSERT(key->meta.count == 0);
    enum rc rc = rows_push(&list, LIST_TAIL, element, count, err);
    *key = list.key;
    return rc;
}

enum rc list_build_put(const struct build *build, uint64_t position, struct bytes element,
                       struct err *err)
{
    struct list list = {.key = build->key};
    return row_put(&list, (int64_t)position, element, err);
}

enum rc list_build_end(struct build *build, struct key *key, uint64_t count, struct err *err)
{
    ASSERT(count > 0);
    struct list list = {.key = *key, .head = 0, .tail = (int64_t)(count - 1)};
    enum rc rc = build_adopt(build, &list.key, err);
    list.key.meta.expire_ms = 0;
    if (rc == RC_OK)
        rc = list_save(&list, err);
    *key = list.key;
    return rc;
}

/* The elements that stay get a new group, and the old one is dropped as a whole: a cut of millions
 * costs what it keeps. */
static enum rc rows_renew(struct list *list, struct err *err)
{
    struct store *store = store_of(list);
    struct key old = list->key;
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes element;

    enum rc rc = list_walk_init(&walk, list, 0, list_count(list), false, err);
    if (rc != RC_OK)
        return rc;
    walk.rows.group = key_rows(&old);
    kv_id_draw(list->key.ns->kv, list->key.meta.id);
    rc = store_group_new(store, key_rows(&list->key), err);
    for (int64_t number = list->head; rc == RC_OK && number <= list->tail; number++) {
        rc = list_walk_next(&walk, &element, err);
        if (rc == RC_OK)
            rc = row_put(list, number, element, err);
    }
    return rc == RC_OK ? store_group_drop(store, key_rows(&old), err) : rc;
}

/* Takes elements off both ends. */
static enum rc list_cut(struct list *list, uint64_t from_head, uint64_t from_tail, struct err *err)
{
    uint64_t cut_count = from_head + from_tail, count = list_count(list);
    ASSERT(cut_count <= count);
    if (cut_count == count)
        return list_erase(list, err);
    if (cut_count == 0)
        return RC_OK;
    enum rc rc;
    int64_t head = list->head;
    list->head += (int64_t)from_head;
    list->tail -= (int64_t)from_tail;
    if (cut_count > CUT_POINTS_MAX && cut_count > list_count(list)) {
        rc = rows_renew(list, err);
    } else {
        rc = rows_delete(list, head, from_head, err);
        if (rc == RC_OK)
            rc = rows_delete(list, list->tail + 1, from_tail, err);
    }
    return rc == RC_OK ? list_save(list, err) : rc;
}

static const char *pop_event(enum list_end end)
{
    return end == LIST_HEAD ? "lpop" : "rpop";
}

enum rc list_pop(struct list *list, enum list_end end, uint64_t count, struct err *err)
{
    ASSERT(count > 0);
    changed(list, pop_event(end));
    return list_cut(list, end == LIST_HEAD ? count : 0, end == LIST_TAIL ? count : 0, err);
}

enum rc list_rotate(struct list *list, enum list_end from, enum list_end to, struct bytes element,
                    struct err *err)
{
    enum rc rc = RC_OK;
    if (from != to && list_count(list) > 1) {
        rc = end_put(list, to, element, err);
        if (rc == RC_OK)
            rc = rows_delete(list, from == LIST_HEAD ? list->head++ : list->tail--, 1, err);
        if (rc == RC_OK)
            rc = list_save(list, err);
    }
    changed(list, push_event(to));
    changed(list, pop_event(from));
    return rc;
}

enum rc list_trim(struct list *list, uint64_t position, uint64_t count, struct err *err)
{
    uint64_t all_count = list_count(list);
    ASSERT(position <= all_count);
    ASSERT(count <= all_count - position);
    changed(list, "ltrim");
    return list_cut(list, position, all_count - position - count, err);
}

/* ---- built anew ---- */

/* A hole that is made or closed in the middle of millions moves hundreds of thousands of rows. Then
 * the list is built aside as it will be (renew.h), numbered from 0 on. */
struct list_edit {
    bool inserts;      /* an element at `first`; otherwise those that are equal to it go: */
    int64_t first;     /* numbers in the list as it is */
    int64_t last;      /* included */
    uint64_t count;    /* how many go */
    uint64_t from, to; /* elements read and put, of all pieces */
};

static bool edit_is_begun(const struct build *build)
{
    return build && build->work;
}

static enum rc edit_begin(const struct list *list, const struct list_edit *edit,
                          struct build *build, struct err *err)
{
    enum rc rc = build_step(build, list->key.run, TYPE_LIST, build_input(0, &list->key), err);
    if (rc != RC_OK)
        return rc;
    build->work = mem_dup(edit, sizeof *edit);
    build->work_free = mem_free;
    return RC_WAIT;
}

/* The next elements, with what the edit makes of them; counted in the edit when they are put. */
static enum rc edit_piece(const struct list *list, struct bytes element, struct build *build,
                          struct err *err)
{
    CLEANUP(list_walk_done) struct list_walk walk = {0};
    CLEANUP(buf_done) struct buf rows = {0};
    struct list_edit edit = *(struct list_edit *)build->work;
    uint64_t before = edit.from, count = list_count(list);
    uint8_t suffix[SUFFIX_BYTES];
    struct bytes other;
    bool good = true;
    buf_init(&rows, SIZE_MAX);
    enum rc rc = before < count ? list_walk_init_once(&walk, list, before, count, err) : RC_OK;
    while (rc == RC_OK && edit.from < count && edit.from - before < BUILD_PIECE_ROWS &&
           rows.len < BUILD_PIECE_BYTES) {
        int64_t number = walk.at;
        rc = list_walk_next(&walk, &other, err);
        if (rc != RC_OK)
            break;
        edit.from++;
        if (edit.inserts && number == edit.first)
            good = good && rows_carry_add(&rows, suffix_put(suffix, (int64_t)edit.to++), element);
        if (!edit.inserts && number >= edit.first && number <= edit.last &&
            bytes_eq(other, element))
            continue;
        good = good && rows_carry_add(&rows, suffix_put(suffix, (int64_t)edit.to++), other);
    }
    if (rc == RC_COLD && edit.from > before)
        rc = RC_OK; /* the next piece begins with what is cold */
    if (rc == RC_OK && !good)
        rc = err_set(err, RC_NOMEM, "could not allocate memory for rows on their way");
    if (rc == RC_OK)
        rc = rows_carry_put(&build->key, &rows, err);
    if (rc != RC_OK)
        return rc;
    *(struct list_edit *)build->work = edit;
    return build_piece_end(build, 0, BYTES(""), edit.from == count, err);
}

/* RC_OK: the list is the new one, and has to be saved. */
static enum rc edit_step(struct list *list, struct bytes element, struct build *build,
                         struct list_edit *ret_edit, struct err *err)
{
    enum rc rc = build_step(build, list->key.run, TYPE_LIST, build_input(0, &list->key), err);
    if (rc != RC_OK)
        return rc;
    *ret_edit = *(struct list_edit *)build->work;
    if (build->phase == BUILD_FILLING)
        return edit_piece(list, element, build, err);
    rc = renew_end(build, &list->key, err);
    list->head = 0;
    list->tail = (int64_t)ret_edit->to - 1;
    return rc;
}

/* ---- the middle ---- */

enum rc list_set(struct list *list, uint64_t position, struct bytes element, struct err *err)
{
    ASSERT(position < list_count(list));
    enum rc rc = row_put(list, list->head + (int64_t)position, element, err);
    if (rc == RC_OK)
        changed(list, "lset");
    return rc;
}

/* Position of the first element that is equal. RC_NOT_FOUND. */
static enum rc list_find(const struct list *list, struct bytes element, uint64_t *ret_position,
                         struct err *err)
{
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes other;
    enum rc rc = list_walk_init(&walk, list, 0, list_count(list), false, err);
    list_walk_searches(&walk);
    for (uint64_t position = 0; rc == RC_OK; position++) {
        rc = list_walk_next(&walk, &other, err);
        if (rc == RC_OK && bytes_eq(other, element)) {
            *ret_position = position;
            return RC_OK;
        }
    }
    return rc;
}

/* Copies a run of elements one place towards the head (the tail, reversed), its front first. */
static enum rc rows_shift(struct list *list, uint64_t position, uint64_t count, bool reverse,
                          struct err *err)
{
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes element;
    enum rc rc = list_walk_init(&walk, list, position, count, reverse, err);
    while (rc == RC_OK) {
        int64_t number = walk.at;
        rc = list_walk_next(&walk, &element, err);
        if (rc == RC_OK)
            rc = row_put(list, number + (reverse ? 1 : -1), element, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* The shorter side makes room. */
static enum rc insert_at(struct list *list, uint64_t position, struct bytes element,
                         struct err *err)
{
    uint64_t count = list_count(list);
    bool at_head = position < count - position;
    enum rc rc = end_grow(list, at_head ? LIST_HEAD : LIST_TAIL, err);
    if (rc != RC_OK)
        return rc;
    if (at_head && position > 0)
        rc = rows_shift(list, 1, position, false, err);
    else if (!at_head && position < count)
        rc = rows_shift(list, count - 1, count - position, true, err);
    if (rc == RC_OK)
        rc = row_put(list, list->head + (int64_t)position, element, err);
    return rc;
}

enum rc list_insert(struct list *list, struct bytes pivot, bool before, struct bytes element,
                    struct build *build, struct err *err)
{
    uint64_t position, count = list_count(list);
    struct list_edit edit = {.inserts = true};
    enum rc rc;
    if (edit_is_begun(build)) {
        rc = edit_step(list, element, build, &edit, err);
    } else {
        rc = list_find(list, pivot, &position, err);
        if (rc != RC_OK)
            return rc;
        position += !before; /* where the new one will be */
        uint64_t moved = position < count - position ? position : count - position;
        edit.first = list->head + (int64_t)position;
        if (renew_wanted(build, list->key.run, count, moved))
            return edit_begin(list, &edit, build, err);
        rc = insert_at(list, position, element, err);
    }
    if (rc == RC_OK)
        rc = list_save(list, err);
    if (rc == RC_OK)
        changed(list, "linsert");
    return rc;
}

/* ---- removing what is equal ---- */

struct matches { /* the elements to remove: all equal ones between first and last */
    struct bytes element;
    uint64_t count;
    int64_t first, last; /* numbers */
};

static enum rc matches_find(const struct list *list, enum list_end end, uint64_t count_max,
                            struct matches *matches, struct err *err)
{
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes other;
    bool reverse = end == LIST_TAIL;
    uint64_t count = list_count(list);
    enum rc rc = list_walk_init(&walk, list, reverse ? count - 1 : 0, count, reverse, err);
    if (count_max > 0)
        list_walk_searches(&walk);
    while (rc == RC_OK && (count_max == 0 || matches->count < count_max)) {
        int64_t number = walk.at;
        rc = list_walk_next(&walk, &other, err);
        if (rc != RC_OK || !bytes_eq(other, matches->element))
            continue;
        if (matches->count == 0 || reverse)
            matches->first = number;
        if (matches->count == 0 || !reverse)
            matches->last = number;
        matches->count++;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

/* Everything from the first match to the tail (reversed: from the last one to the head) moves over
 * the matches it has behind it. The rows of the end are free then. */
static enum rc matches_close(struct list *list, const struct matches *matches, bool reverse,
                             struct err *err)
{
    CLEANUP(list_walk_done) struct list_walk walk;
    struct bytes other;
    int64_t start = reverse ? matches->last : matches->first, passed = 0;
    enum rc rc = list_walk_init(&walk, list, (uint64_t)start - (uint64_t)list->head,
                                list_count(list), reverse, err);
    while (rc == RC_OK) {
        int64_t number = walk.at;
        rc = list_walk_next(&walk, &other, err);
        if (rc != RC_OK)
            break;
        if (number >= matches->first && number <= matches->last &&
            bytes_eq(other, matches->element))
            passed++;
        else
            rc = row_put(list, reverse ? number + passed : number - passed, other, err);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc edit_remove(struct list *list, struct bytes element, struct build *build,
                           uint64_t *ret_removed_count, struct err *err)
{
    struct list_edit edit;
    enum rc rc = edit_step(list, element, build, &edit, err);
    if (rc != RC_OK)
        return rc;
    *ret_removed_count = edit.count;
    changed(list, "lrem");
    return list_save(list, err);
}

enum rc list_remove(struct list *list, enum list_end end, uint64_t count, struct bytes element,
                    struct build *build, uint64_t *ret_removed_count, struct err *err)
{
    struct matches matches = {.element = element};
    if (edit_is_begun(build))
        return edit_remove(list, element, build, ret_removed_count, err);
    enum rc rc = matches_find(list, end, count, &matches, err);
    if (rc != RC_OK)
        return rc;
    *ret_removed_count = matches.count;
    if (matches.count == 0)
        return RC_OK;
    bool at_head = matches.last - list->head < list->tail - matches.first;
    uint64_t moved = (uint64_t)(at_head ? matches.last - list->head : list->tail - matches.first);
    bool all = matches.count == list_count(list);
    if (!all && renew_wanted(build, list->key.run, list_count(list), moved)) {
        struct list_edit edit = {
            .first = matches.first, .last = matches.last, .count = matches.count};
        return edit_begin(list, &edit, build, err);
    }
    if (!all)
        rc = matches_close(list, &matches, at_head, err);
    if (rc != RC_OK)
        return rc;
    changed(list, "lrem");
    return list_cut(list, at_head ? matches.count : 0, at_head ? 0 : matches.count, err);
}

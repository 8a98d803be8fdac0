// SPDX-License-Identifier: Apache-2.0
/* flush_merge.c - BUILD: the runs of a unit are merged into one engine unit.
 *
 * Three ordered streams meet here: the changes of the runs, the prefixes that were dropped, and the
 * rows that the engine still has of what was dropped.
 *
 * Invariants:
 *   (1) A row that is older than the newest drop of its group or of a prefix of it is hidden.
 *   (2) The ranges looked up in the engine are disjoint and ascend: those of the outermost dropped
 *       prefixes, and those of dropped groups outside of all of them. Everything the engine has in
 *       such a range is older than the drop.
 *   (3) While point deletes are pending, no further range begins before the last of them.
 *   (4) A key is given to the unit once: a change of the unit takes the place of a point delete. */
#include "store/flush/flush_int.h"

#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

enum {
    KEY_BYTES_MAX = 4 + STORE_PREFIX_BYTES_MAX + STORE_GROUP_KEY_BYTES_MAX + STORE_SUFFIX_BYTES_MAX,
    LARGE_KEPT_BYTES = 1024 * 1024,
    SPACE_NUMBER_NONE = 256,
};

struct prefix_ranges { /* (2) walks the ranges of the outermost dropped prefixes */
    const struct flush__drop **outer;
    size_t outer_count;
    size_t index;    /* of the next one; of the first of its space for SPACE_LENGTH */
    struct buf from; /* the next range, if has_range */
    struct buf to;
    bool has_range;
    /* SPACE_LENGTH: each prefix has a range for each length byte; only those are visited where
     * the engine has a row. */
    unsigned length;
    size_t length_index; /* in outer */
    struct buf probe;    /* the first key of the space at or after the last place asked for */
    bool has_probe;
};

struct group_walk {  /* (1) the group that the merge is in */
    struct buf head; /* its engine key without the suffix */
    bool inside;
    bool in_prefix;                 /* a dropped prefix covers it */
    uint64_t hidden_below;          /* rows with a smaller order are hidden */
    unsigned space;                 /* whose prefixes follow; SPACE_NUMBER_NONE: none yet */
    const struct flush__drop *drop; /* prefixes of the space, sorted */
    size_t drop_count;
    size_t *length; /* distinct lengths of these prefixes; room for all */
    size_t length_count;
};

struct pending { /* (3) keys of the engine that are to be deleted one by one */
    struct buf keys;
    size_t end[STORE_DROP_POINT_ROWS_MAX];
    size_t count;
    size_t index;
};

struct merge {
    const struct flush__merge_job *job;
    struct engine *engine;
    struct engine_unit *unit;
    struct flush__merge_result result;
    bool runs_bad;

    struct flush__cursor *cursor; /* one a run */
    size_t *tree;                 /* [0]: the cursor with the least row; others: losers */
    struct buf last_key;
    bool has_last;
    bool last_is_drop;
    struct buf large; /* a value that is longer than a cursor's buffer */

    struct group_walk group;
    struct prefix_ranges ranges;
    struct pending pending;
    struct buf group_to;
};

/* ---- the engine's rows of what was dropped ---- */

static enum rc key_full(struct err *err)
{
    return err_set(err, RC_NOMEM, "could not allocate a key");
}

static struct bytes pending_key(const struct pending *pending)
{
    size_t start = pending->index > 0 ? pending->end[pending->index - 1] : 0;
    return bytes_of(pending->keys.ptr + start, pending->end[pending->index] - start);
}

/* Collects the keys of the range. *ret_all false: there are more than are deleted one by one. */
static enum rc range_look(struct merge *merge, const struct engine_range *range, bool *ret_all,
                          struct err *err)
{
    struct pending *pending = &merge->pending;
    ASSERT(pending->index == pending->count);
    pending->count = pending->index = 0;
    buf_cut(&pending->keys, 0);

    struct engine_iter *iter = NULL;
    enum rc rc = merge->engine->ops->iter_open(merge->engine, NULL, range, &iter, err);
    if (rc != RC_OK)
        return rc;
    bool all = false;
    for (;;) {
        struct bytes key, value;
        rc = merge->engine->ops->iter_next(iter, &key, &value, err);
        if (rc == RC_NOT_FOUND) {
            all = true;
            rc = RC_OK;
            break;
        }
        if (rc != RC_OK)
            break;
        if (pending->count == STORE_DROP_POINT_ROWS_MAX || !buf_add_bytes(&pending->keys, key)) {
            pending->count = 0;
            break;
        }
        pending->end[pending->count++] = pending->keys.len;
    }
    merge->engine->ops->iter_close(iter);
    if (rc != RC_OK) {
        pending->count = 0;
        return rc;
    }
    *ret_all = all;
    return RC_OK;
}

/* The engine's rows in [from, to) are older than everything of the unit and go: one by one if they
 * are few, else by a range delete. */
static enum rc range_drop(struct merge *merge, struct bytes from, struct bytes to, bool one_group,
                          struct err *err)
{
    ASSERT(bytes_cmp(from, to) < 0);
    const struct engine_range range = {
        .lower = from, .upper = to, .one_group = one_group, .once = true};
    bool all;
    enum rc rc = range_look(merge, &range, &all, err);
    if (rc != RC_OK || all)
        return rc;
    rc = merge->engine->ops->unit_delete_range(merge->unit, from, to, err);
    if (rc != RC_OK)
        return rc;
    merge->result.range_delete_count++;
    return RC_OK;
}

static bool range_set(struct prefix_ranges *ranges, struct bytes from)
{
    buf_cut(&ranges->to, 0);
    return space_successor_add(from, &ranges->to); /* at most the start of the next space */
}

/* The first key that the engine has at or after ranges->from, within its space. */
static enum rc range_probe(struct merge *merge, struct err *err)
{
    struct prefix_ranges *ranges = &merge->ranges;
    const uint8_t space_end = ranges->from.ptr[0] + 1; /* spaces end below 255 */
    const struct engine_range range = {
        .lower = buf_bytes(&ranges->from), .upper = bytes_of(&space_end, 1), .once = true};
    struct engine_iter *iter = NULL;
    struct bytes key, value;

    ranges->has_probe = false;
    enum rc rc = merge->engine->ops->iter_open(merge->engine, NULL, &range, &iter, err);
    if (rc != RC_OK)
        return rc;
    rc = merge->engine->ops->iter_next(iter, &key, &value, err);
    if (rc == RC_OK) {
        buf_cut(&ranges->probe, 0);
        ranges->has_probe = true;
        if (!buf_add_bytes(&ranges->probe, key))
            rc = key_full(err);
    }
    merge->engine->ops->iter_close(iter);
    return rc;
}

static bool range_from_put(struct prefix_ranges *ranges, const struct flush__drop *drop,
                           bool has_length)
{
    const uint8_t head[] = {drop->space, (uint8_t)ranges->length};
    buf_cut(&ranges->from, 0);
    return buf_add(&ranges->from, head, has_length ? 2 : 1) &&
           buf_add_bytes(&ranges->from, drop->prefix);
}

/* The next range of a space with length bytes, where the engine has a row. The engine's next key
 * tells which lengths and prefixes can be passed over. */
static enum rc length_range_next(struct merge *merge, struct err *err)
{
    struct prefix_ranges *ranges = &merge->ranges;
    const uint8_t space = ranges->outer[ranges->index]->space;

    while (ranges->length <= STORE_LENGTH_KEY_BYTES_MAX) {
        const struct flush__drop *drop =
            ranges->length_index < ranges->outer_count ? ranges->outer[ranges->length_index] : NULL;
        if (!drop || drop->space != space) {
            ranges->length++;
            ranges->length_index = ranges->index;
            continue;
        }
        ranges->length_index++;
        if (drop->prefix.len > ranges->length)
            continue;
        if (!range_from_put(ranges, drop, true))
            return key_full(err);
        struct bytes from = buf_bytes(&ranges->from);
        if (!ranges->has_probe || bytes_cmp(buf_bytes(&ranges->probe), from) < 0) {
            enum rc rc = range_probe(merge, err);
            if (rc == RC_NOT_FOUND)
                break;
            if (rc != RC_OK)
                return rc;
        }
        if (ranges->probe.ptr[1] > ranges->length) {
            ranges->length = ranges->probe.ptr[1];
            ranges->length_index = ranges->index;
        } else if (bytes_start_with(buf_bytes(&ranges->probe), from)) {
            ranges->has_range = range_set(ranges, from);
            return ranges->has_range ? RC_OK : key_full(err);
        }
    }
    while (ranges->index < ranges->outer_count && ranges->outer[ranges->index]->space == space)
        ranges->index++;
    ranges->length = 0;
    ranges->length_index = ranges->index;
    ranges->has_probe = false;
    return RC_OK;
}

static enum rc range_next(struct merge *merge, struct err *err)
{
    struct prefix_ranges *ranges = &merge->ranges;
    ranges->has_range = false;
    while (ranges->index < ranges->outer_count) {
        const struct flush__drop *drop = ranges->outer[ranges->index];
        if (merge->job->spaces->space[drop->space].kind == SPACE_LENGTH) {
            enum rc rc = length_range_next(merge, err);
            if (rc != RC_OK || ranges->has_range)
                return rc;
            continue;
        }
        if (!range_from_put(ranges, drop, false) || !range_set(ranges, buf_bytes(&ranges->from)))
            return key_full(err);
        ranges->index++;
        ranges->length_index = ranges->index;
        ranges->has_range = true;
        break;
    }
    return RC_OK;
}

static void ranges_start(struct merge *merge)
{
    const struct flush__drops *drops = merge->job->drops;
    struct prefix_ranges *ranges = &merge->ranges;
    ranges->outer = mem_alloc(drops->count * sizeof(struct flush__drop *));
    for (size_t i = 0; i < drops->count; i++) {
        const struct flush__drop *drop = &drops->at[i];
        const struct flush__drop *last =
            ranges->outer_count > 0 ? ranges->outer[ranges->outer_count - 1] : NULL;
        if (!last || last->space != drop->space || !bytes_start_with(drop->prefix, last->prefix))
            ranges->outer[ranges->outer_count++] = drop;
    }
}

/* Everything that drops delete before this key (NULL: everything that is left). Ranges that begin
 * at the key are opened. */
static enum rc drain(struct merge *merge, const struct bytes *before, struct err *err)
{
    struct pending *pending = &merge->pending;
    for (;;) {
        while (pending->index < pending->count) {
            struct bytes key = pending_key(pending);
            if (before && bytes_cmp(key, *before) >= 0)
                return RC_OK; /* (3) */
            enum rc rc = merge->engine->ops->unit_delete(merge->unit, key, err);
            if (rc != RC_OK)
                return rc;
            merge->result.row_count++;
            pending->index++;
        }
        struct prefix_ranges *ranges = &merge->ranges;
        if (!ranges->has_range || (before && bytes_cmp(buf_bytes(&ranges->from), *before) > 0))
            return RC_OK;
        enum rc rc =
            range_drop(merge, buf_bytes(&ranges->from), buf_bytes(&ranges->to), false, err);
        if (rc != RC_OK)
            return rc;
        rc = range_next(merge, err);
        if (rc != RC_OK)
            return rc;
    }
}

/* ---- what is hidden ---- */

static int size_cmp(const void *left, const void *right)
{
    const size_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Finds the dropped prefixes of the space. */
static void group_space_enter(struct group_walk *group, const struct flush__drops *drops,
                              uint8_t space)
{
    size_t from = 0, to = drops->count;
    while (from < to && drops->at[from].space < space)
        from++;
    for (to = from; to < drops->count && drops->at[to].space == space;)
        to++;
    group->space = space;
    group->drop = drops->at + from;
    group->drop_count = to - from;
    group->length_count = 0;
    for (size_t i = 0; i < group->drop_count; i++)
        group->length[i] = group->drop[i].prefix.len;
    if (group->drop_count > 0)
        qsort(group->length, group->drop_count, sizeof *group->length, size_cmp);
    for (size_t i = 0; i < group->drop_count; i++)
        if (i == 0 || group->length[i] != group->length[i - 1])
            group->length[group->length_count++] = group->length[i];
}

static const struct flush__drop *prefix_find(const struct group_walk *group, struct bytes prefix)
{
    size_t from = 0, to = group->drop_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = bytes_cmp(group->drop[middle].prefix, prefix);
        if (order == 0)
            return &group->drop[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

static enum rc group_enter(struct merge *merge, struct bytes key, struct err *err)
{
    struct group_walk *group = &merge->group;
    const struct space_set *spaces = merge->job->spaces;
    buf_cut(&group->head, 0);
    if (!buf_add(&group->head, key.ptr, space_group_len(spaces, key)))
        return key_full(err);
    group->inside = true;
    group->in_prefix = false;
    group->hidden_below = 0;

    size_t head = spaces->space[key.ptr[0]].kind == SPACE_LENGTH ? 2 : 1;
    struct bytes group_key = bytes_from(buf_bytes(&group->head), head);
    for (size_t i = 0; i < group->length_count && group->length[i] <= group_key.len; i++) {
        const struct flush__drop *drop =
            prefix_find(group, bytes_of(group_key.ptr, group->length[i]));
        if (!drop)
            continue;
        group->in_prefix = true;
        if (drop->order > group->hidden_below)
            group->hidden_below = drop->order;
    }
    return RC_OK;
}

static bool group_has(const struct merge *merge, struct bytes key)
{
    const struct group_walk *group = &merge->group;
    if (!group->inside || !bytes_start_with(key, buf_bytes(&group->head)))
        return false;
    return key.len == group->head.len || merge->job->spaces->space[key.ptr[0]].kind != SPACE_WHOLE;
}

/* Moves the walk to the group of this key, where there are drops to look out for. */
static enum rc group_move(struct merge *merge, struct bytes key, bool is_drop, struct err *err)
{
    struct group_walk *group = &merge->group;
    if (!is_drop && group_has(merge, key))
        return RC_OK;
    if (group->space != key.ptr[0])
        group_space_enter(group, merge->job->drops, key.ptr[0]);
    if (is_drop || group->drop_count > 0)
        return group_enter(merge, key, err);
    group->inside = false;
    return RC_OK;
}

static enum rc group_drop(struct merge *merge, const struct flush__cursor *cursor, struct err *err)
{
    struct group_walk *group = &merge->group;
    if (cursor->order > group->hidden_below)
        group->hidden_below = cursor->order;
    if (group->in_prefix)
        return RC_OK; /* (2) the range of the prefix does it */

    enum rc rc = drain(merge, &cursor->key, err);
    if (rc != RC_OK)
        return rc;
    buf_cut(&merge->group_to, 0);
    if (!space_successor_add(cursor->key, &merge->group_to))
        return key_full(err);
    return range_drop(merge, cursor->key, buf_bytes(&merge->group_to), true, err);
}

/* ---- the runs ---- */

static bool cursor_before(const struct flush__cursor *a, const struct flush__cursor *b)
{
    if (a->ended || b->ended)
        return !a->ended;
    int order = bytes_cmp(a->key, b->key);
    if (order != 0)
        return order < 0;
    bool a_drop = a->kind == FLUSH_DROP, b_drop = b->kind == FLUSH_DROP;
    if (a_drop != b_drop)
        return a_drop;
    return a->order > b->order;
}

static enum rc cursor_result(struct merge *merge, enum rc rc)
{
    if (rc == RC_CORRUPT || rc == RC_NOT_FOUND)
        merge->runs_bad = true;
    return rc;
}

static enum rc cursors_open(struct merge *merge, struct err *err)
{
    size_t count = merge->job->run_count;
    merge->cursor = mem_zalloc(count * sizeof *merge->cursor);
    for (size_t i = 0; i < count; i++) {
        enum rc rc =
            flush__cursor_open(merge->job->files, &merge->job->run[i], &merge->cursor[i], err);
        if (rc == RC_OK)
            rc = flush__cursor_next(&merge->cursor[i], err);
        if (rc != RC_OK)
            return cursor_result(merge, rc);
    }
    return RC_OK;
}

static void tree_build(struct merge *merge)
{
    size_t count = merge->job->run_count;
    size_t *winner = mem_alloc(2 * count * sizeof *winner);
    merge->tree = mem_alloc(count * sizeof *merge->tree);
    for (size_t i = 0; i < count; i++)
        winner[count + i] = i;
    for (size_t node = count - 1; node > 0; node--) {
        size_t left = winner[2 * node], right = winner[2 * node + 1];
        bool left_wins = cursor_before(&merge->cursor[left], &merge->cursor[right]);
        winner[node] = left_wins ? left : right;
        merge->tree[node] = left_wins ? right : left;
    }
    merge->tree[0] = winner[1];
    mem_free(winner);
}

/* The cursor with the least row goes on, and the next one is found. */
static enum rc tree_next(struct merge *merge, struct err *err)
{
    size_t winner = merge->tree[0];
    enum rc rc = flush__cursor_next(&merge->cursor[winner], err);
    if (rc != RC_OK)
        return cursor_result(merge, rc);
    for (size_t node = (winner + merge->job->run_count) / 2; node > 0; node /= 2) {
        size_t loser = merge->tree[node];
        if (cursor_before(&merge->cursor[loser], &merge->cursor[winner])) {
            merge->tree[node] = winner;
            winner = loser;
        }
    }
    merge->tree[0] = winner;
    return RC_OK;
}

static enum rc row_write(struct merge *merge, struct flush__cursor *cursor, struct err *err)
{
    struct pending *pending = &merge->pending;
    enum rc rc = RC_OK;
    if (pending->index < pending->count || merge->ranges.has_range)
        rc = drain(merge, &cursor->key, err);
    if (rc != RC_OK)
        return rc;

    if (cursor->kind == FLUSH_PUT) {
        struct bytes value;
        rc = flush__cursor_value(cursor, &merge->large, &value, err);
        if (rc != RC_OK)
            return cursor_result(merge, rc);
        rc = merge->engine->ops->unit_put(merge->unit, cursor->key, value, err);
        if (merge->large.cap > LARGE_KEPT_BYTES)
            buf_shrink(&merge->large, LARGE_KEPT_BYTES);
    } else {
        rc = merge->engine->ops->unit_delete(merge->unit, cursor->key, err);
    }
    if (rc != RC_OK)
        return rc;
    merge->result.row_count++;
    if (pending->index < pending->count && bytes_eq(pending_key(pending), cursor->key))
        pending->index++; /* (4) */
    return RC_OK;
}

/* One change: the newest drop or the newest row of its key goes on, others are passed over. */
static enum rc change_merge(struct merge *merge, struct flush__cursor *cursor, struct err *err)
{
    bool is_drop = cursor->kind == FLUSH_DROP;
    if (merge->has_last && flush__key_eq(cursor->key, buf_bytes(&merge->last_key))) {
        if (is_drop || !merge->last_is_drop)
            return RC_OK;
    } else {
        buf_cut(&merge->last_key, 0);
        if (!buf_add_bytes(&merge->last_key, cursor->key))
            return key_full(err);
        merge->has_last = true;
    }
    merge->last_is_drop = is_drop;

    enum rc rc = group_move(merge, cursor->key, is_drop, err);
    if (rc != RC_OK)
        return rc;
    if (is_drop)
        return group_drop(merge, cursor, err);
    if (merge->group.inside && cursor->order < merge->group.hidden_below)
        return RC_OK; /* (1) */
    return row_write(merge, cursor, err);
}

static enum rc merge_run(struct merge *merge, struct err *err)
{
    ranges_start(merge);
    enum rc rc = range_next(merge, err);
    if (rc != RC_OK)
        return rc;
    rc = cursors_open(merge, err);
    if (rc != RC_OK)
        return rc;
    tree_build(merge);

    for (size_t i = 0;; i++) {
        if (i % FLUSH_PIECE_ROWS == 0 && !flush__go_on(merge->job->pace))
            return err_set(err, RC_WAIT, "stopped");
        struct flush__cursor *cursor = &merge->cursor[merge->tree[0]];
        if (cursor->ended)
            break;
        rc = change_merge(merge, cursor, err);
        if (rc != RC_OK)
            return rc;
        rc = tree_next(merge, err);
        if (rc != RC_OK)
            return rc;
    }
    return drain(merge, NULL, err);
}

static struct merge *merge_new(const struct flush__merge_job *job, struct engine_unit *unit)
{
    struct merge *merge = mem_zalloc(sizeof *merge);
    merge->job = job;
    merge->engine = job->engine;
    merge->unit = unit;
    merge->group.space = SPACE_NUMBER_NONE;
    merge->group.length = mem_alloc(job->drops->count * sizeof *merge->group.length);
    buf_init(&merge->last_key, KEY_BYTES_MAX);
    buf_init(&merge->large, STORE_VALUE_BYTES_MAX);
    buf_init(&merge->group.head, KEY_BYTES_MAX);
    buf_init(&merge->ranges.from, KEY_BYTES_MAX);
    buf_init(&merge->ranges.to, KEY_BYTES_MAX);
    buf_init(&merge->ranges.probe, KEY_BYTES_MAX);
    buf_init(&merge->pending.keys, FLUSH_DROP_KEYS_BYTES_MAX);
    buf_init(&merge->group_to, KEY_BYTES_MAX);
    return merge;
}

static void merge_free(struct merge *merge)
{
    for (size_t i = 0; merge->cursor && i < merge->job->run_count; i++)
        flush__cursor_close(&merge->cursor[i]);
    mem_free(merge->cursor);
    mem_free(merge->tree);
    mem_free(merge->group.length);
    mem_free(merge->ranges.outer);
    buf_done(&merge->last_key);
    buf_done(&merge->large);
    buf_done(&merge->group.head);
    buf_done(&merge->ranges.from);
    buf_done(&merge->ranges.to);
    buf_done(&merge->ranges.probe);
    buf_done(&merge->pending.keys);
    buf_done(&merge->group_to);
    mem_free(merge);
}

enum rc flush__merge(const struct flush__merge_job *job, struct engine_unit *unit,
                     struct flush__merge_result *ret_result, bool *ret_runs_bad, struct err *err)
{
    ASSERT(job->run_count > 0);
    struct merge *merge = merge_new(job, unit);
    enum rc rc = merge_run(merge, err);
    *ret_runs_bad = merge->runs_bad;
    if (rc == RC_OK)
        *ret_result = merge->result;
    merge_free(merge);
    return rc;
}

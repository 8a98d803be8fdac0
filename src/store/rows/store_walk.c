// SPDX-License-Identifier: Apache-2.0
/* store_walk.c - rows of a group in order, by number and by rank. */
#include "store/rows/store_int.h"

#include "base/macros.h"

#include "base/banned.h"

_Static_assert(sizeof(struct tree_pos) <= STORE_WALK_WORDS * sizeof(uint64_t), "opaque in store.h");

void store_walk_init(struct store_walk *walk, struct store *store, struct store_group group,
                     bool reverse)
{
    *walk = (struct store_walk){
        .store = store, .group = group, .reverse = reverse, .change = UINT64_MAX};
    walk->at = store->walk_at;
    store->walk_at = (struct buf){0};
    walk->at.len = 0;
    walk->at.bytes_max = STORE_SUFFIX_BYTES_MAX;
}

/* Its buffer is the next walk's: a command that pops has one walk, and no allocation. */
void store_walk_done(struct store_walk *walk)
{
    if (!walk || !walk->store)
        return;
    if (walk->at.cap > STORE_WALK_KEPT_BYTES || walk->store->walk_at.ptr)
        buf_done(&walk->at);
    else
        walk->store->walk_at = walk->at;
    walk->at = (struct buf){0};
}

enum rc store_walk_seek(struct store_walk *walk, struct bytes suffix, struct err *err)
{
    walk->at.len = 0;
    if (suffix.len > STORE_SUFFIX_BYTES_MAX)
        return err_set(err, RC_TOO_BIG, "a suffix of %zu bytes is over the limit", suffix.len);
    if (!buf_add_bytes(&walk->at, suffix))
        return err_set(err, RC_NOMEM, "could not allocate memory for a position");
    walk->has_at = true;
    walk->inclusive = true;
    walk->change = UINT64_MAX;
    return RC_OK;
}

enum rc store_walk_seek_behind(struct store_walk *walk, struct bytes suffix, struct err *err)
{
    enum rc rc = store_walk_seek(walk, suffix, err);
    if (rc == RC_OK)
        walk->inclusive = false;
    return rc;
}

static enum rc walk_cold(struct store_walk *walk, struct err *err)
{
    enum store_want_kind kind = walk->reverse ? STORE_WANT_PAGE_REVERSE : STORE_WANT_PAGE;
    if (!walk->has_at)
        kind = walk->reverse ? STORE_WANT_LAST : STORE_WANT_FIRST;
    walk->store->cold_count++;
    walk->change = UINT64_MAX;
    struct store *store = walk->store;
    uint64_t row_count = walk->row_count;
    row_count +=
        row_count > 0 && row_count < UINT64_MAX; /* the page begins where the walk stands */
    enum rc rc = store__cold(store, walk->group, buf_bytes(&walk->at), kind, row_count, err);
    if (walk->once) /* it has passed what lies before: that is the first to make room */
        hot_hand_set(&store->hot, store->hot.prefix[walk->group.prefix].slot, walk->group.key,
                     walk->reverse ? buf_bytes(&walk->at) : bytes_of("", 0));
    if (rc == RC_COLD) {
        store->want[store->want_count - 1].walks = true;
        store->want[store->want_count - 1].once = walk->once;
    }
    return rc;
}

/* Goes to where the walk begins, or begins again. Pops begin where the last one did. */
static void walk_place(struct store_walk *walk, const struct tree *tree, struct tree_pos *pos)
{
    struct store *store = walk->store;
    struct store_path_hint *hint = &store->walked.hint;
    struct bytes at = buf_bytes(&walk->at);
    if (store->walked.tree == tree && store->walked.shape == store->shape_count && tree->root &&
        bytes_eq(bytes_of(hint->suffix, hint->suffix_len), at)) {
        tree_seek_path(tree, at, hint->path, 0, hint->slot, pos);
        return;
    }
    tree_seek(tree, at, pos);
    if (!walk->inclusive || at.len > STORE_PATH_HINT_BYTES || tree->height > STORE_PATH_HINT_LEVELS)
        return;
    store->walked.tree = tree;
    store->walked.shape = store->shape_count;
    hint->slot = pos->index;
    hint->suffix_len = (uint8_t)at.len;
    if (at.len)
        memcpy(hint->suffix, at.ptr, at.len);
    memcpy(hint->path, pos->path, tree->height * sizeof hint->path[0]);
}

/* One entry forward. RC_OK: the position holds an entry that is connected to where the walk stood.
 */
static enum rc step_forward(struct store_walk *walk, const struct tree *tree, struct tree_pos *pos,
                            bool placed)
{
    bool more;
    if (placed) {
        more = tree_next(tree, pos);
    } else if (walk->has_at) {
        walk_place(walk, tree, pos);
        if (pos->exact && walk->inclusive)
            return RC_OK;
        if (pos->exact)
            pos->index++;
        more = tree_to_entry(tree, pos);
    } else {
        tree_seek_first(tree, pos);
        more = tree_to_entry(tree, pos);
    }
    if (!more)
        tree_seek_end(tree, pos);
    if (tree_gap(tree, pos))
        return RC_COLD;
    return more ? RC_OK : RC_NOT_FOUND;
}

static enum rc step_back(struct store_walk *walk, const struct tree *tree, struct tree_pos *pos,
                         bool placed)
{
    if (!placed) {
        if (walk->has_at) {
            walk_place(walk, tree, pos);
            if (pos->exact && walk->inclusive)
                return RC_OK;
            if (!tree_to_entry(tree, pos))
                tree_seek_end(tree, pos);
        } else {
            tree_seek_end(tree, pos);
        }
    }
    if (tree_gap(tree, pos))
        return RC_COLD;
    return tree_prev(tree, pos) ? RC_OK : RC_NOT_FOUND;
}

enum rc store_walk_next(struct store_walk *walk, struct bytes *ret_suffix, struct bytes *ret_value,
                        struct err *err)
{
    struct store *store = walk->store;
    ASSERT(store->catalog.spaces.space[store__space(store, walk->group.prefix)].kind !=
           SPACE_WHOLE);
    if (store__cold_injected(store))
        return RC_COLD;
    bool placed = walk->change == store->change_count;
    struct hot_group *group = NULL;
    if (!placed) {
        if (store__group_find(store, walk->group, &group) == RC_COLD)
            return walk_cold(walk, err);
        if (!group)
            return RC_NOT_FOUND;
        walk->tree = &group->tree;
    }
    const struct tree *tree = walk->tree;
    struct tree_pos *pos = (struct tree_pos *)walk->pos;
    for (;;) {
        enum rc rc = walk->reverse ? step_back(walk, tree, pos, placed)
                                   : step_forward(walk, tree, pos, placed);
        if (rc == RC_COLD)
            return walk_cold(walk, err);
        if (rc != RC_OK)
            return rc;
        struct entry entry = block_entry(pos->block, pos->index);
        walk->at.len = 0;
        if (!buf_add_bytes(&walk->at, entry.suffix))
            return err_set(err, RC_NOMEM, "could not allocate memory for a position");
        walk->has_at = true;
        walk->inclusive = false;
        walk->change = store->change_count;
        placed = true;
        if (entry.flags & ENTRY_TOMB)
            continue;
        if (!walk->once)
            pos->block->ref = 1;
        walk->row_count -= walk->row_count > 0;
        if (group)
            store__cursor_set(store, group, pos, entry.suffix); /* it may be a pop */
        *ret_suffix = entry.suffix;
        return store__unpack(store, walk->group, entry.suffix, entry.value, ret_value, err);
    }
}

/* ---- what needs the whole group ---- */

/* Wants everything from the first open interval of the group on. */
static enum rc group_cold(struct store *store, struct store_group group, const struct tree *tree,
                          struct err *err)
{
    struct tree_pos pos;
    store->cold_count++;
    tree_seek_first(tree, &pos);
    bool more = tree_to_entry(tree, &pos);
    for (; more && !tree_gap(tree, &pos); more = tree_next(tree, &pos))
        store->loads.gap_search_count++;
    if (!more)
        tree_seek_end(tree, &pos);
    if (!tree_prev(tree, &pos))
        return store__cold(store, group, bytes_of("", 0), STORE_WANT_FIRST, UINT64_MAX, err);
    return store__cold(store, group, block_entry(pos.block, pos.index).suffix, STORE_WANT_PAGE,
                       UINT64_MAX, err);
}

/* RC_OK with a complete group (NULL: it is empty), or RC_COLD. */
static enum rc group_complete(struct store *store, struct store_group group,
                              struct hot_group **ret_group, struct err *err)
{
    struct hot_group *found;
    if (store__cold_injected(store))
        return RC_COLD;
    if (store__group_find(store, group, &found) == RC_COLD) {
        store->cold_count++;
        return store__cold(store, group, bytes_of("", 0), STORE_WANT_FIRST, UINT64_MAX, err);
    }
    *ret_group = found;
    if (found && !tree_complete(&found->tree))
        return group_cold(store, group, &found->tree, err);
    return RC_OK;
}

enum rc store_nth(struct store *store, struct store_group group, uint64_t n,
                  struct bytes *ret_suffix, struct bytes *ret_value, struct err *err)
{
    struct hot_group *found = NULL;
    enum rc rc = group_complete(store, group, &found, err);
    if (rc != RC_OK)
        return rc;
    struct tree_pos pos;
    if (!found || !tree_nth(&found->tree, n, &pos))
        return RC_NOT_FOUND;
    struct entry entry = block_entry(pos.block, pos.index);
    pos.block->ref = 1;
    store__cursor_set(store, found, &pos, entry.suffix); /* SPOP */
    *ret_suffix = entry.suffix;
    return store__unpack(store, group, entry.suffix, entry.value, ret_value, err);
}

enum rc store_rank(struct store *store, struct store_group group, struct bytes suffix,
                   uint64_t *ret_rank, struct err *err)
{
    (void)err;
    struct hot_group *found = NULL;
    enum rc rc = group_complete(store, group, &found, err);
    if (rc != RC_OK)
        return rc;
    struct tree_pos pos;
    *ret_rank = 0;
    if (found) {
        tree_seek(&found->tree, suffix, &pos);
        *ret_rank = tree_rank(&found->tree, &pos);
    }
    return RC_OK;
}

enum rc store_range_count(struct store *store, struct store_group group, struct bytes from,
                          bool has_to, struct bytes to, uint64_t *ret_count, struct err *err)
{
    uint64_t low = 0, high = 0;
    enum rc rc = store_rank(store, group, from, &low, err);
    if (rc != RC_OK)
        return rc;
    if (has_to) {
        rc = store_rank(store, group, to, &high, err);
        if (rc != RC_OK)
            return rc;
    } else {
        high = store_group_state(store, group).row_count;
    }
    *ret_count = high > low ? high - low : 0;
    return RC_OK;
}

// SPDX-License-Identifier: Apache-2.0
/* tree.c - the B+tree of a group: positions, gaps, changes, undo, eviction. */
#include "store/hot/tree.h"

#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "store/hot/tree_inner.h"

#include "base/banned.h"

enum {
    MERGE_BELOW_BYTES = BLOCK_BYTES_MAX / 4,
    INNER_MERGE_BELOW = INNER_CHILDREN_MAX / 4,
};

void tree_init(struct tree *tree, bool complete)
{
    *tree = (struct tree){.gap_end = !complete, .gap_count = !complete};
}

static void node_free(void *ptr, uint8_t height, struct meter *meter)
{
    if (height == 0) {
        block_free(ptr, meter);
        return;
    }
    struct inner *node = ptr;
    for (uint16_t i = 0; i < node->count; i++)
        node_free(node->child[i], (uint8_t)(height - 1), meter);
    inner_free(node, meter);
}

void tree_done(struct tree *tree, struct meter *meter)
{
    if (tree->root)
        node_free(tree->root, tree->height, meter);
    tree->root = NULL;
    tree->height = 0;
}

/* ---- positions ---- */

void tree_seek(const struct tree *tree, struct bytes suffix, struct tree_pos *ret_pos)
{
    void *at = tree->root;
    size_t skip = 0; /* what everything below begins with, as the suffix does */
    ret_pos->exact = false;
    ret_pos->index = 0;
    ret_pos->block = NULL;
    if (!at)
        return;
    for (uint8_t level = 0; level < tree->height; level++) {
        struct inner *node = at;
        uint16_t index = inner_find(node, suffix, &skip);
        ret_pos->path[level].node = node;
        ret_pos->path[level].index = index;
        at = node->child[index];
        if (level + 1 < tree->height)
            inner_prefetch(at);
        else
            block_prefetch(at);
    }
    ret_pos->block = at;
    ret_pos->index = block_find_skip(at, suffix, skip, &ret_pos->exact);
}

void tree_seek_path(const struct tree *tree, struct bytes suffix, const struct tree_step *path,
                    size_t known, uint16_t hint, struct tree_pos *ret_pos)
{
    void *at = tree->root;
    for (uint8_t level = 0; level < tree->height; level++) {
        ret_pos->path[level] = path[level];
        at = path[level].node->child[path[level].index];
    }
    ret_pos->block = at;
    ret_pos->index = block_find_hint(at, suffix, known, hint, &ret_pos->exact);
}

/* Whether nothing is left of the position's block, or right of it. */
static bool path_is_edge(const struct tree *tree, const struct tree_pos *pos, bool right)
{
    for (uint8_t level = 0; level < tree->height; level++)
        if (pos->path[level].index != (right ? pos->path[level].node->count - 1 : 0))
            return false;
    return true;
}

bool tree_seek_near(const struct tree *tree, struct bytes suffix, struct tree_pos *pos)
{
    bool exact;
    if (!pos->block)
        return false;
    uint16_t index = block_find_end(pos->block, suffix, &exact);
    if (!exact && (index == 0 || index == pos->block->count) && !path_is_edge(tree, pos, index > 0))
        return false;
    pos->index = index;
    pos->exact = exact;
    return true;
}

/* Goes down to the first or last block below what path[level] points to. */
static void path_descend(const struct tree *tree, struct tree_pos *pos, uint8_t level, bool last)
{
    void *at =
        level == 0 ? tree->root : pos->path[level - 1].node->child[pos->path[level - 1].index];
    for (; level < tree->height; level++) {
        struct inner *node = at;
        uint16_t index = last ? (uint16_t)(node->count - 1) : 0;
        pos->path[level].node = node;
        pos->path[level].index = index;
        at = node->child[index];
    }
    pos->block = at;
    pos->index = last ? pos->block->count : 0;
}

void tree_seek_first(const struct tree *tree, struct tree_pos *ret_pos)
{
    *ret_pos = (struct tree_pos){0};
    if (tree->root)
        path_descend(tree, ret_pos, 0, false);
}

void tree_seek_end(const struct tree *tree, struct tree_pos *ret_pos)
{
    *ret_pos = (struct tree_pos){0};
    if (tree->root)
        path_descend(tree, ret_pos, 0, true);
}

/* To the neighbouring block; false and unchanged if there is none. */
static bool path_step(const struct tree *tree, struct tree_pos *pos, bool forward)
{
    for (int level = tree->height - 1; level >= 0; level--) {
        uint16_t index = pos->path[level].index;
        if (forward ? index + 1 < pos->path[level].node->count : index > 0) {
            pos->path[level].index = (uint16_t)(forward ? index + 1 : index - 1);
            path_descend(tree, pos, (uint8_t)(level + 1), !forward);
            return true;
        }
    }
    return false;
}

bool tree_to_entry(const struct tree *tree, struct tree_pos *pos)
{
    if (!pos->block)
        return false;
    return pos->index < pos->block->count || path_step(tree, pos, true);
}

bool tree_next(const struct tree *tree, struct tree_pos *pos)
{
    pos->index++;
    pos->exact = false;
    return tree_to_entry(tree, pos);
}

bool tree_prev(const struct tree *tree, struct tree_pos *pos)
{
    if (!pos->block)
        return false;
    pos->exact = false;
    if (pos->index == 0 && !path_step(tree, pos, false))
        return false;
    pos->index--;
    return true;
}

bool tree_gap(const struct tree *tree, const struct tree_pos *pos)
{
    if (!pos->block || pos->index >= pos->block->count)
        return tree->gap_end;
    return block_flags(pos->block, pos->index) & ENTRY_GAP;
}

/* As tree_gap(), of a position that may be behind the last entry of a block. */
static bool pos_gap(const struct tree *tree, const struct tree_pos *pos)
{
    if (tree_complete(tree))
        return false;
    if (!pos->block || pos->index < pos->block->count)
        return tree_gap(tree, pos);
    struct tree_pos next = *pos;
    tree_to_entry(tree, &next);
    return tree_gap(tree, &next);
}

/* Whether the interval right of the entry at the position is open. */
static bool pos_gap_after(const struct tree *tree, const struct tree_pos *pos)
{
    if (tree_complete(tree))
        return false;
    struct tree_pos next = *pos;
    next.index++;
    return pos_gap(tree, &next);
}

/* ---- counting ---- */

uint64_t tree_live(const struct tree *tree)
{
    if (!tree->root)
        return 0;
    if (tree->height == 0)
        return ((const struct block *)tree->root)->live;
    return inner_live(tree->root);
}

bool tree_nth(const struct tree *tree, uint64_t n, struct tree_pos *ret_pos)
{
    void *at = tree->root;
    *ret_pos = (struct tree_pos){0};
    if (!at || n >= tree_live(tree))
        return false;
    for (uint8_t level = 0; level < tree->height; level++) {
        struct inner *node = at;
        uint16_t index = 0;
        while (n >= node->live[index])
            n -= node->live[index++];
        ret_pos->path[level].node = node;
        ret_pos->path[level].index = index;
        at = node->child[index];
    }
    ret_pos->block = at;
    if (ret_pos->block->live == ret_pos->block->count) {
        ret_pos->index = (uint16_t)n;
        return true;
    }
    while ((block_flags(at, ret_pos->index) & ENTRY_TOMB) || n-- > 0)
        ret_pos->index++;
    return true;
}

uint64_t tree_rank(const struct tree *tree, const struct tree_pos *pos)
{
    if (!pos->block)
        return 0;
    uint64_t rank = block_live_before(pos->block, pos->index);
    for (uint8_t level = 0; level < tree->height; level++)
        for (uint16_t i = 0; i < pos->path[level].index; i++)
            rank += pos->path[level].node->live[i];
    return rank;
}

/* ---- structure ---- */

static void pos_block_set(struct tree *tree, struct tree_pos *pos, struct block *block)
{
    pos->block = block;
    if (tree->height == 0)
        tree->root = block;
    else
        pos->path[tree->height - 1].node->child[pos->path[tree->height - 1].index] = block;
}

static void pos_live_add(struct tree *tree, struct tree_pos *pos, int64_t delta)
{
    if (delta == 0)
        return;
    for (uint8_t level = 0; level < tree->height; level++)
        pos->path[level].node->live[pos->path[level].index] += (uint64_t)delta;
}

/* The shortest bytes above `left` and not above `right`. */
static struct bytes separator(struct bytes left, struct bytes right)
{
    size_t shared = bytes_shared_len(left, right);
    ASSERT(shared < right.len);
    return bytes_of(right.ptr, shared + 1);
}

/* Hangs `child` behind the position's child at each level that has to split. The live counts of
 * the path are right again afterwards. */
static void path_insert(struct tree *tree, struct tree_pos *pos, struct inner_child child,
                        struct meter *meter)
{
    tree->reshaped = true;
    for (int level = tree->height - 1; level >= 0; level--) {
        struct inner *node = pos->path[level].node;
        uint16_t index = pos->path[level].index;
        node->live[index] -= child.live; /* it was counted there */
        if (node->count < INNER_CHILDREN_MAX) {
            inner_insert(node, (uint16_t)(index + 1), child);
            return;
        }
        /* Appending keeps the left node full: sequential groups pack densely. */
        uint16_t at = (uint16_t)(index + 1 == node->count ? node->count - 1 : node->count / 2);
        struct inner_child right = inner_split(node, at, meter);
        if (index + 1 > at)
            inner_insert(right.ptr, (uint16_t)(index + 1 - at), child);
        else
            inner_insert(node, (uint16_t)(index + 1), child);
        right.live = inner_live(right.ptr);
        child = right;
    }
    struct inner_child first = {.ptr = tree->root, .live = tree_live(tree)};
    struct inner *root = inner_new(meter);
    ASSERT(tree->height < TREE_HEIGHT_MAX);
    inner_insert(root, 0, first);
    inner_insert(root, 1, child);
    tree->root = root;
    tree->height++;
}

/* The block at the position was split into itself and `right`. */
static void path_insert_block(struct tree *tree, struct tree_pos *pos, struct block *right,
                              struct bytes sep, struct meter *meter)
{
    struct inner_child child = {.ptr = right, .live = right->live};
    inner_sep_init(&child.sep, sep, meter);
    path_insert(tree, pos, child, meter);
}

/* Joins a node of few children with a neighbour under the same parent. True: the position's child
 * in the parent is what has to be removed now. */
static bool path_merge_inner(struct tree_pos *pos, int level, struct meter *meter)
{
    if (level == 0 || pos->path[level].node->count > INNER_MERGE_BELOW)
        return false;
    struct inner *parent = pos->path[level - 1].node;
    uint16_t index = pos->path[level - 1].index;
    if (index + 1 < parent->count && inner_merge(parent, index, meter))
        index++;
    else if (index == 0 || !inner_merge(parent, (uint16_t)(index - 1), meter))
        return false;
    pos->path[level - 1].index = index;
    return true;
}

/* Unhangs the child at the position from its parent, and parents that become empty. The caller
 * owns the block and has taken its rows off the live counts. The position is dead. */
static void path_remove(struct tree *tree, struct tree_pos *pos, struct meter *meter)
{
    tree->reshaped = true;
    for (int level = tree->height - 1; level >= 0; level--) {
        struct inner *node = pos->path[level].node;
        inner_remove(node, pos->path[level].index, meter);
        if (node->count == 0) {
            inner_free(node, meter);
            continue;
        }
        if (path_merge_inner(pos, level, meter))
            continue;
        while (tree->height > 0 && ((struct inner *)tree->root)->count == 1) {
            struct inner *root = tree->root;
            tree->root = root->child[0];
            tree->height--;
            inner_free(root, meter);
        }
        return;
    }
    tree->root = NULL;
    tree->height = 0;
}

bool tree_done_some(struct tree *tree, struct meter *meter, uint32_t *blocks)
{
    for (; tree->root && *blocks > 0; (*blocks)--) {
        struct tree_pos pos;
        tree_seek_end(tree, &pos);
        block_free(pos.block, meter);
        if (tree->height == 0)
            tree->root = NULL;
        else
            path_remove(tree, &pos, meter); /* counts of rows are wrong now: nobody asks */
    }
    return tree->root == NULL;
}

/* Joins a small block with its right or left neighbour under the same parent; then the position is
 * dead. */
static void path_merge(struct tree *tree, struct tree_pos *pos, struct meter *meter)
{
    if (tree->height == 0 || pos->block->size > MERGE_BELOW_BYTES)
        return;
    struct inner *node = pos->path[tree->height - 1].node;
    uint16_t index = pos->path[tree->height - 1].index;
    for (int side = 0; side < 2; side++) {
        uint16_t left = (uint16_t)(side == 0 ? index : index - 1);
        if (left >= node->count || left + 1 >= node->count)
            continue; /* index - 1 wrapped, or there is no right neighbour */
        struct block *block = node->child[left];
        if (!block_merge(&block, node->child[left + 1], meter))
            continue;
        node->child[left] = block;
        node->live[left] = block->live;
        pos->path[tree->height - 1].index = (uint16_t)(left + 1);
        path_remove(tree, pos, meter);
        pos->block = NULL;
        return;
    }
}

static struct bytes block_last(const struct block *block)
{
    return block_entry(block, (uint16_t)(block->count - 1)).suffix;
}

/* Makes room at a position whose block is full; the position is sought again. */
static void pos_split(struct tree *tree, struct meter *meter, struct tree_pos *pos,
                      struct bytes suffix)
{
    struct block *block = pos->block;
    uint16_t at;
    ASSERT(block);
    if (pos->index == block->count)
        at = (uint16_t)(block->count - 1); /* ascending: leave the left block full */
    else if (pos->index == 0)
        at = 1; /* descending: leave the right block full */
    else
        at = block_middle(block);
    struct block *right = block_split(&block, meter, at);
    pos_block_set(tree, pos, block);
    path_insert_block(tree, pos, right, separator(block_last(block), block_entry(right, 0).suffix),
                      meter);
    tree_seek(tree, suffix, pos);
}

/* Inserts where tree_seek() has ended, if the suffix is not there. Cannot fail: what has to be out
 * of line was allocated by the caller. */
static void pos_insert(struct tree *tree, struct meter *meter, uint32_t segment,
                       struct tree_pos *pos, uint8_t flags, struct bytes suffix, struct bytes value,
                       struct block_out *out)
{
    if (!pos->block) {
        tree->root = pos->block = block_new(meter, segment);
        pos->index = 0;
    }
    for (;;) {
        struct block *block = pos->block;
        enum block_answer answer =
            block_insert(&block, meter, pos->index, flags, suffix, value, out);
        ASSERT(answer != BLOCK_NOMEM);
        if (answer == BLOCK_OK) {
            block_stamp(block, meter, segment);
            block->ref = 1;
            pos_block_set(tree, pos, block);
            break;
        }
        pos_split(tree, meter, pos, suffix);
    }
    if (!(flags & ENTRY_TOMB))
        pos_live_add(tree, pos, 1);
    if (flags & ENTRY_GAP)
        tree->gap_count++;
}

/* Removes the entry at the position, which stays and may be behind the block's last entry then. The
 * block may be empty afterwards. */
static void pos_remove(struct tree *tree, struct meter *meter, struct tree_pos *pos,
                       struct block_out **ret_out)
{
    struct block *block = pos->block;
    uint8_t flags = block_flags(block, pos->index);
    if (flags & ENTRY_GAP)
        tree->gap_count--;
    if (!(flags & ENTRY_TOMB))
        pos_live_add(tree, pos, -1);
    block_remove(&block, meter, pos->index, ret_out);
    pos_block_set(tree, pos, block);
}

static void pos_gap_set(struct tree *tree, struct tree_pos *pos, bool open)
{
    if (tree_gap(tree, pos) == open)
        return;
    if (!pos->block || pos->index >= pos->block->count) {
        tree->gap_end = open;
    } else {
        uint8_t flags = block_flags(pos->block, pos->index);
        block_flags_set(pos->block, pos->index,
                        (uint8_t)(open ? flags | ENTRY_GAP : flags & ~ENTRY_GAP));
    }
    tree->gap_count += open ? 1 : (uint32_t)-1;
}

/* Removes an entry for good. Its open interval, if any, becomes part of the next one. The blocks
 * around the place are stamped: invariant (4). *ret_out (may be NULL: it is freed) takes what was
 * out of line. The position is dead where it has no block any more. */
static void pos_cut(struct tree *tree, struct meter *meter, uint32_t segment, struct tree_pos *pos,
                    struct block_out **ret_out)
{
    struct block *block = pos->block;
    block_stamp(block, meter, segment);
    bool is_last = pos->index + 1 == block->count, open = tree_gap(tree, pos);
    if (is_last || open) {
        struct tree_pos next = *pos;
        bool has_next = tree_next(tree, &next);
        if (open)
            pos_gap_set(tree, &next, true);
        if (has_next)
            block_stamp(next.block, meter, segment);
    }
    if (pos->index == 0) {
        struct tree_pos prev = *pos;
        if (tree_prev(tree, &prev))
            block_stamp(prev.block, meter, segment);
    }
    pos_remove(tree, meter, pos, ret_out);
    if (pos->block->count == 0) {
        block_free(pos->block, meter);
        if (tree->height == 0)
            tree->root = NULL;
        else
            path_remove(tree, pos, meter);
        pos->block = NULL;
    } else {
        path_merge(tree, pos, meter);
    }
}

/* ---- changes ---- */

static bool old_keep(const struct entry *entry, struct buf *keep, struct tree_old *ret_old)
{
    *ret_old = (struct tree_old){.kind = entry->flags & ENTRY_TOMB ? TREE_OLD_TOMB : TREE_OLD_ROW};
    if (entry->out || ret_old->kind == TREE_OLD_TOMB)
        return true; /* out of line: taken when the entry is removed */
    ret_old->keep_offset = keep->len;
    ret_old->keep_len = entry->value.len;
    return buf_add_bytes(keep, entry->value);
}

/* Puts another row or tombstone in the place of the entry at the position. */
static void pos_replace(struct tree *tree, struct meter *meter, uint32_t segment,
                        struct tree_pos *pos, const struct entry *entry, bool tomb,
                        struct bytes suffix, struct bytes value, struct block_out *out,
                        struct block_out **ret_old_out)
{
    uint8_t gap = entry->flags & ENTRY_GAP;
    bool was_tomb = entry->flags & ENTRY_TOMB;
    *ret_old_out = NULL;
    if (!out && !entry->out && block_replace(pos->block, pos->index, entry, tomb, value)) {
        pos_live_add(tree, pos, was_tomb - tomb);
        block_stamp(pos->block, meter, segment);
        pos->block->ref = 1;
        return;
    }
    pos_remove(tree, meter, pos, ret_old_out);
    pos_insert(tree, meter, segment, pos, (uint8_t)((tomb ? ENTRY_TOMB : 0) | gap), suffix, value,
               out);
}

enum rc tree_put_at(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
                    struct bytes value, struct tree_pos *pos, struct buf *keep,
                    struct tree_old *ret_old)
{
    struct tree_pos place;
    struct block_out *out = NULL;
    if (!entry_fits_inline(suffix.len, value.len)) {
        out = block_out_new(suffix, value, segment, meter);
        if (!out)
            return RC_NOMEM;
    }
    if (!pos) {
        pos = &place;
        tree_seek(tree, suffix, pos);
    }
    if (pos->exact) {
        struct entry entry = block_entry(pos->block, pos->index);
        if (!old_keep(&entry, keep, ret_old)) {
            block_out_free(out, meter);
            return RC_NOMEM;
        }
        pos_replace(tree, meter, segment, pos, &entry, false, suffix, value, out, &ret_old->out);
        return RC_OK;
    }
    *ret_old = (struct tree_old){.kind = TREE_OLD_NONE};
    uint8_t gap = pos_gap(tree, pos) ? ENTRY_GAP : 0;
    pos_insert(tree, meter, segment, pos, gap, suffix, value, out);
    return RC_OK;
}

/* A tombstone's suffix may have to be out of line as well. */
static bool tomb_out(struct meter *meter, uint32_t segment, struct bytes suffix,
                     struct block_out **ret_out)
{
    *ret_out = NULL;
    if (entry_fits_inline(suffix.len, 0))
        return true;
    *ret_out = block_out_new(suffix, bytes_of("", 0), segment, meter);
    return *ret_out != NULL;
}

enum rc tree_delete_at(struct tree *tree, struct meter *meter, uint32_t segment,
                       struct bytes suffix, struct tree_pos *pos, struct buf *keep,
                       struct tree_old *ret_old)
{
    struct tree_pos place;
    if (!pos) {
        pos = &place;
        tree_seek(tree, suffix, pos);
    }
    if (!pos->exact) {
        if (!pos_gap(tree, pos))
            return RC_NOT_FOUND;
        struct block_out *out;
        if (!tomb_out(meter, segment, suffix, &out))
            return RC_NOMEM;
        *ret_old = (struct tree_old){.kind = TREE_OLD_NONE};
        pos_insert(tree, meter, segment, pos, ENTRY_TOMB | ENTRY_GAP, suffix, suffix, out);
        return RC_OK;
    }
    struct entry entry = block_entry(pos->block, pos->index);
    if (entry.flags & ENTRY_TOMB)
        return RC_NOT_FOUND;
    if (!(entry.flags & ENTRY_GAP) && !pos_gap_after(tree, pos)) {
        if (!old_keep(&entry, keep, ret_old))
            return RC_NOMEM;
        pos_cut(tree, meter, segment, pos, &ret_old->out);
        return RC_OK;
    }
    struct block_out *out;
    if (!tomb_out(meter, segment, suffix, &out))
        return RC_NOMEM;
    if (!old_keep(&entry, keep, ret_old)) {
        block_out_free(out, meter);
        return RC_NOMEM;
    }
    pos_replace(tree, meter, segment, pos, &entry, true, suffix, suffix, out, &ret_old->out);
    return RC_OK;
}

void tree_undo(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
               struct tree_old *old, const struct buf *keep)
{
    struct tree_pos pos;
    tree_seek(tree, suffix, &pos);
    if (old->kind == TREE_OLD_NONE) {
        ASSERT(pos.exact);
        pos_cut(tree, meter, segment, &pos, NULL);
        return;
    }
    struct bytes value = bytes_of("", 0);
    if (!old->out && old->keep_len)
        value = bytes_of(keep->ptr + old->keep_offset, old->keep_len);
    bool tomb = old->kind == TREE_OLD_TOMB;
    if (pos.exact) {
        struct block_out *gone;
        struct entry entry = block_entry(pos.block, pos.index);
        pos_replace(tree, meter, segment, &pos, &entry, tomb, suffix, value, old->out, &gone);
        block_out_free(gone, meter);
    } else {
        pos_insert(tree, meter, segment, &pos, tomb ? ENTRY_TOMB : 0, suffix, value, old->out);
    }
    old->out = NULL;
}

/* ---- loads ---- */

enum rc tree_fill_row(struct tree *tree, struct meter *meter, struct bytes suffix,
                      struct bytes value)
{
    struct tree_pos pos;
    tree_seek(tree, suffix, &pos);
    if (pos.exact)
        return RC_OK; /* what is here is newer */
    if (!pos_gap(tree, &pos))
        return RC_OK; /* known to be absent: removed after the load's view */
    struct block_out *out = NULL;
    if (!entry_fits_inline(suffix.len, value.len)) {
        out = block_out_new(suffix, value, 0, meter);
        if (!out)
            return RC_NOMEM;
    }
    pos_insert(tree, meter, 0, &pos, ENTRY_GAP, suffix, value, out);
    return RC_OK;
}

/* Makes sure that an entry stands at the edge. RC_NOT_FOUND: the entry that bounded the load has
 * gone, and what is in its place was not read. */
static enum rc edge_place(struct tree *tree, struct meter *meter, const struct tree_edge *edge)
{
    if (!edge->has)
        return RC_OK;
    struct tree_pos pos;
    tree_seek(tree, edge->suffix, &pos);
    if (pos.exact)
        return RC_OK;
    if (!pos_gap(tree, &pos))
        return RC_OK; /* already closed around it */
    if (!edge->known)
        return RC_NOT_FOUND;
    struct block_out *out;
    if (!tomb_out(meter, 0, edge->suffix, &out))
        return RC_NOMEM;
    pos_insert(tree, meter, 0, &pos, ENTRY_TOMB | ENTRY_GAP, edge->suffix, edge->suffix, out);
    return RC_OK;
}

/* Moves an edge that has gone to the last entry before it: up to there all was read. False: there
 * is none. */
static bool edge_retreat(const struct tree *tree, bool reverse, struct tree_edge *edge)
{
    struct tree_pos pos;
    tree_seek(tree, edge->suffix, &pos);
    if (reverse ? !tree_to_entry(tree, &pos) : !tree_prev(tree, &pos))
        return false;
    edge->suffix = block_entry(pos.block, pos.index).suffix;
    return true;
}

/* Whether the entry is the last trace of a delete that the engine may not have: without it no stamp
 * would keep the group in memory. */
static bool pos_is_last_trace(const struct tree *tree, const struct meter *meter,
                              const struct tree_pos *pos)
{
    return tree->height == 0 && pos->block->count == 1 && pos->block->segment > meter->mark;
}

/* Tombstones between closed intervals say nothing any more. Their block's stamp covers them. Looks
 * at so many entries from the position on, and removes no more than `max`. The rest, also without
 * memory to remember the place, goes with a later load or an eviction. */
static void tombs_remove(struct tree *tree, struct meter *meter, struct tree_pos pos,
                         uint32_t count, uint32_t max)
{
    struct buf after;
    buf_init(&after, STORE_SUFFIX_BYTES_MAX);
    bool more = tree_to_entry(tree, &pos);
    for (; more && count > 0 && max > 0; count--) {
        uint8_t flags = block_flags(pos.block, pos.index);
        if (!(flags & ENTRY_TOMB) || (flags & ENTRY_GAP) || pos_gap_after(tree, &pos) ||
            pos_is_last_trace(tree, meter, &pos)) {
            more = tree_next(tree, &pos);
            continue;
        }
        struct tree_pos next = pos;
        more = tree_next(tree, &next);
        after.len = 0;
        if (more && !buf_add_bytes(&after, block_entry(next.block, next.index).suffix))
            break;
        pos_cut(tree, meter, pos.block->segment, &pos, NULL);
        max--;
        if (more) {
            tree_seek(tree, buf_bytes(&after), &pos);
            more = tree_to_entry(tree, &pos);
        }
    }
    buf_done(&after);
}

/* Where a page begins: at its edge's entry, if there is one; else what lies between the edge and
 * the position is closed already, or the edge is the group's. */
static void page_seek(const struct tree *tree, const struct tree_page *page,
                      struct tree_pos *ret_pos)
{
    if (page->from.has)
        tree_seek(tree, page->from.suffix, ret_pos);
    else if (page->reverse)
        tree_seek_end(tree, ret_pos);
    else
        tree_seek_first(tree, ret_pos);
    if (!tree_to_entry(tree, ret_pos))
        tree_seek_end(tree, ret_pos);
}

/* Whether the entry at the position lies before (low) or behind the far edge. */
static bool is_beyond(const struct tree_pos *pos, const struct tree_edge *to, bool low)
{
    if (!to->has)
        return false;
    int order = bytes_cmp(block_entry(pos->block, pos->index).suffix, to->suffix);
    return low ? order <= 0 : order > 0;
}

/* Closes upwards; the position is where the page begins. Returns how many entries were passed. */
static uint32_t close_up(struct tree *tree, const struct tree_page *page, struct tree_pos pos)
{
    uint32_t count = 0, run = 0;
    bool more = pos.block && pos.index < pos.block->count;
    if (more && pos.exact)
        more = tree_next(tree, &pos);
    for (; more && count < page->entry_count_max && run < page->closed_run_max; count++) {
        if (is_beyond(&pos, &page->to, false))
            return count;
        run = tree_gap(tree, &pos) ? 0 : run + 1;
        pos_gap_set(tree, &pos, false);
        more = tree_next(tree, &pos);
    }
    if (!more && !page->to.has) {
        tree_seek_end(tree, &pos);
        pos_gap_set(tree, &pos, false);
    }
    return count;
}

/* Closes downwards; the position comes back where that ended. */
static uint32_t close_down(struct tree *tree, const struct tree_page *page, struct tree_pos *pos)
{
    uint32_t count = 0, run = 0;
    bool is_end = !pos->block || pos->index >= pos->block->count;
    for (; count < page->entry_count_max && run < page->closed_run_max; count++) {
        if (!is_end && is_beyond(pos, &page->to, true))
            return count;
        run = tree_gap(tree, pos) ? 0 : run + 1;
        pos_gap_set(tree, pos, false);
        if (!tree_prev(tree, pos))
            return count;
        is_end = false;
    }
    return count;
}

enum rc tree_fill_close(struct tree *tree, struct meter *meter, const struct tree_page *page)
{
    struct tree_page known = *page;
    ASSERT(page->from.known || !page->from.has);
    enum rc rc = edge_place(tree, meter, &page->from);
    if (rc == RC_OK)
        rc = edge_place(tree, meter, &page->to);
    if (rc == RC_NOT_FOUND && !edge_retreat(tree, page->reverse, &known.to))
        return RC_OK;
    if (rc == RC_NOMEM)
        return rc;
    struct tree_pos pos;
    page_seek(tree, &known, &pos);
    uint32_t count = known.reverse ? close_down(tree, &known, &pos) : close_up(tree, &known, pos);
    /* From the low end of what was closed: upwards that is where it began. Both ends included. */
    tombs_remove(tree, meter, pos, count + 1, page->tomb_count_max);
    return RC_OK;
}

void tree_evict(struct tree *tree, struct meter *meter, struct tree_pos *pos)
{
    struct block *block = pos->block;
    struct tree_pos next = *pos;
    next.index = block->count;
    tree_to_entry(tree, &next); /* or it stands at the end */
    pos_gap_set(tree, &next, true);
    for (uint16_t i = 0; i < block->count; i++)
        tree->gap_count -= block_flags(block, i) & ENTRY_GAP;
    pos_live_add(tree, pos, -(int64_t)block->live);
    block_free(block, meter);
    if (tree->height == 0)
        tree->root = NULL;
    else
        path_remove(tree, pos, meter);
}

/* ---- checking ---- */

static uint64_t node_check(const void *ptr, uint8_t height, struct bytes low,
                           const struct bytes *high, uint32_t *gap_count)
{
    if (height == 0) {
        const struct block *block = ptr;
        block_check(block);
        ASSERT(block->count > 0);
        ASSERT(bytes_cmp(block_entry(block, 0).suffix, low) >= 0);
        if (high)
            ASSERT(bytes_cmp(block_last(block), *high) < 0);
        for (uint16_t i = 0; i < block->count; i++)
            *gap_count += block_flags(block, i) & ENTRY_GAP;
        return block->live;
    }
    const struct inner *node = ptr;
    uint64_t live = 0;
    inner_check(node);
    for (uint16_t i = 0; i < node->count; i++) {
        struct bytes from = i ? inner_sep_bytes(&node->sep[i]) : low;
        struct bytes to;
        if (i + 1 < node->count)
            to = inner_sep_bytes(&node->sep[i + 1]);
        uint64_t below = node_check(node->child[i], (uint8_t)(height - 1), from,
                                    i + 1 < node->count ? &to : high, gap_count);
        ASSERT(below == node->live[i]);
        live += below;
    }
    return live;
}

void tree_check(const struct tree *tree)
{
    uint32_t gap_count = tree->gap_end;
    if (tree->root)
        node_check(tree->root, tree->height, bytes_of("", 0), NULL, &gap_count);
    ASSERT(gap_count == tree->gap_count);
}

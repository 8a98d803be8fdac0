#include "store/tree.h"

#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum { SEP_INLINE_MAX = 12, MERGE_BELOW_BYTES = BLOCK_BYTES_MAX / 4 };

/* A separator: short ones in place, long ones behind a pointer. */
struct sep {
    uint32_t len;
    uint8_t in[SEP_INLINE_MAX]; /* or, unaligned, a pointer */
};

struct child {
    void *ptr;
    uint64_t live;
    struct sep sep; /* of child 0: empty and not looked at */
};

struct inner {
    uint16_t count;
    uint16_t unused[3];
    struct child child[TREE_CHILDREN_MAX];
};
_Static_assert(sizeof(struct inner) <= 1024, "one size class");

static struct bytes sep_bytes(const struct sep *sep)
{
    if (sep->len <= SEP_INLINE_MAX)
        return bytes_of(sep->in, sep->len);
    const uint8_t *ptr;
    memcpy(&ptr, sep->in, sizeof ptr);
    return bytes_of(ptr, sep->len);
}

static void sep_init(struct sep *sep, struct bytes bytes, struct meter *meter)
{
    *sep = (struct sep){.len = (uint32_t)bytes.len};
    if (bytes.len <= SEP_INLINE_MAX) {
        if (bytes.len)
            memcpy(sep->in, bytes.ptr, bytes.len);
        return;
    }
    void *copy = mem_dup(bytes.ptr, bytes.len);
    memcpy(sep->in, &copy, sizeof copy);
    meter_add(meter, 0, mem_class_bytes(bytes.len));
}

static void sep_done(struct sep *sep, struct meter *meter)
{
    if (sep->len > SEP_INLINE_MAX) {
        meter_sub(meter, 0, mem_class_bytes(sep->len));
        mem_free((void *)(uintptr_t)sep_bytes(sep).ptr);
    }
    *sep = (struct sep){0};
}

static struct inner *inner_new(struct meter *meter)
{
    struct inner *node = mem_zalloc(sizeof *node);
    meter_add(meter, 0, mem_class_bytes(sizeof *node));
    return node;
}

static void inner_free(struct inner *node, struct meter *meter)
{
    for (uint16_t i = 0; i < node->count; i++)
        sep_done(&node->child[i].sep, meter);
    meter_sub(meter, 0, mem_class_bytes(sizeof *node));
    mem_free(node);
}

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
        node_free(node->child[i].ptr, (uint8_t)(height - 1), meter);
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

static uint16_t inner_find(const struct inner *node, struct bytes suffix)
{
    uint16_t low = 1, high = node->count;
    while (low < high) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (bytes_cmp(sep_bytes(&node->child[middle].sep), suffix) <= 0)
            low = (uint16_t)(middle + 1);
        else
            high = middle;
    }
    return (uint16_t)(low - 1);
}

void tree_seek(const struct tree *tree, struct bytes suffix, struct tree_pos *ret_pos)
{
    void *at = tree->root;
    ret_pos->exact = false;
    ret_pos->index = 0;
    ret_pos->block = NULL;
    if (!at)
        return;
    for (uint8_t level = 0; level < tree->height; level++) {
        struct inner *node = at;
        uint16_t index = inner_find(node, suffix);
        ret_pos->path[level].node = node;
        ret_pos->path[level].index = index;
        at = node->child[index].ptr;
    }
    ret_pos->block = at;
    ret_pos->index = block_find(at, suffix, &ret_pos->exact);
}

/* Goes down to the first or last block below what path[level] points to. */
static void path_descend(const struct tree *tree, struct tree_pos *pos, uint8_t level, bool last)
{
    void *at =
        level == 0 ? tree->root : pos->path[level - 1].node->child[pos->path[level - 1].index].ptr;
    for (; level < tree->height; level++) {
        struct inner *node = at;
        uint16_t index = last ? (uint16_t)(node->count - 1) : 0;
        pos->path[level].node = node;
        pos->path[level].index = index;
        at = node->child[index].ptr;
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

bool tree_settle(const struct tree *tree, struct tree_pos *pos)
{
    if (!pos->block)
        return false;
    return pos->index < pos->block->count || path_step(tree, pos, true);
}

bool tree_next(const struct tree *tree, struct tree_pos *pos)
{
    pos->index++;
    pos->exact = false;
    return tree_settle(tree, pos);
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

/* ---- counting ---- */

uint64_t tree_live(const struct tree *tree)
{
    if (!tree->root)
        return 0;
    if (tree->height == 0)
        return ((const struct block *)tree->root)->live;
    const struct inner *node = tree->root;
    uint64_t live = 0;
    for (uint16_t i = 0; i < node->count; i++)
        live += node->child[i].live;
    return live;
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
        while (n >= node->child[index].live)
            n -= node->child[index++].live;
        ret_pos->path[level].node = node;
        ret_pos->path[level].index = index;
        at = node->child[index].ptr;
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
            rank += pos->path[level].node->child[i].live;
    return rank;
}

/* ---- structure ---- */

static void pos_block_set(struct tree *tree, struct tree_pos *pos, struct block *block)
{
    pos->block = block;
    if (tree->height == 0)
        tree->root = block;
    else
        pos->path[tree->height - 1].node->child[pos->path[tree->height - 1].index].ptr = block;
}

static void pos_live_add(struct tree *tree, struct tree_pos *pos, int64_t delta)
{
    for (uint8_t level = 0; level < tree->height; level++)
        pos->path[level].node->child[pos->path[level].index].live += (uint64_t)delta;
}

/* The shortest bytes above `left` and not above `right`. */
static struct bytes separator(struct bytes left, struct bytes right)
{
    size_t shared = bytes_shared_len(left, right);
    ASSERT(shared < right.len);
    return bytes_of(right.ptr, shared + 1);
}

static void inner_insert(struct inner *node, uint16_t index, struct child child)
{
    memmove(&node->child[index + 1], &node->child[index],
            (size_t)(node->count - index) * sizeof child);
    node->child[index] = child;
    node->count++;
}

static uint64_t inner_live(const struct inner *node)
{
    uint64_t live = 0;
    for (uint16_t i = 0; i < node->count; i++)
        live += node->child[i].live;
    return live;
}

/* Splits a full node before `at`; *ret_right gets the upper part with its separator. */
static void inner_split(struct inner *node, uint16_t at, struct meter *meter,
                        struct child *ret_right)
{
    struct inner *right = inner_new(meter);
    right->count = (uint16_t)(node->count - at);
    memcpy(right->child, &node->child[at], right->count * sizeof *right->child);
    node->count = at;
    ret_right->ptr = right;
    ret_right->sep = right->child[0].sep; /* moves up: below it says nothing */
    right->child[0].sep = (struct sep){0};
    ret_right->live = inner_live(right);
}

/* Hangs `child` behind the position's child at each level that has to split. The live counts of
 * the path are right again afterwards. */
static void path_insert(struct tree *tree, struct tree_pos *pos, struct child child,
                        struct meter *meter)
{
    for (int level = tree->height - 1; level >= 0; level--) {
        struct inner *node = pos->path[level].node;
        uint16_t index = pos->path[level].index;
        node->child[index].live -= child.live; /* it was counted there */
        if (node->count < TREE_CHILDREN_MAX) {
            inner_insert(node, (uint16_t)(index + 1), child);
            return;
        }
        /* Appending keeps the left node full: sequential groups pack densely. */
        uint16_t at = (uint16_t)(index + 1 == node->count ? node->count - 1 : node->count / 2);
        struct child right;
        inner_split(node, at, meter, &right);
        if (index + 1 > at)
            inner_insert(right.ptr, (uint16_t)(index + 1 - at), child);
        else
            inner_insert(node, (uint16_t)(index + 1), child);
        right.live = inner_live(right.ptr);
        child = right;
    }
    struct inner *root = inner_new(meter);
    ASSERT(tree->height < TREE_HEIGHT_MAX);
    root->child[0].ptr = tree->root;
    root->child[0].live = tree_live(tree);
    root->child[1] = child;
    root->count = 2;
    tree->root = root;
    tree->height++;
}

/* The block at the position was split into itself and `right`. */
static void path_insert_block(struct tree *tree, struct tree_pos *pos, struct block *right,
                              struct bytes sep, struct meter *meter)
{
    struct child child = {.ptr = right, .live = right->live};
    sep_init(&child.sep, sep, meter);
    path_insert(tree, pos, child, meter);
}

/* Unhangs the child at the position from its parent, and parents that become empty. The caller
 * owns the block and has taken its rows off the live counts. */
static void path_remove(struct tree *tree, struct tree_pos *pos, struct meter *meter)
{
    for (int level = tree->height - 1; level >= 0; level--) {
        struct inner *node = pos->path[level].node;
        uint16_t index = pos->path[level].index;
        sep_done(&node->child[index].sep, meter);
        memmove(&node->child[index], &node->child[index + 1],
                (size_t)(node->count - index - 1) * sizeof *node->child);
        node->count--;
        if (node->count > 0) {
            if (index == 0)
                sep_done(&node->child[0].sep, meter);
            while (tree->height > 0 && ((struct inner *)tree->root)->count == 1) {
                struct inner *root = tree->root;
                tree->root = root->child[0].ptr;
                tree->height--;
                inner_free(root, meter);
            }
            return;
        }
        inner_free(node, meter);
    }
    tree->root = NULL;
    tree->height = 0;
}

/* Joins a small block with its right or left neighbour under the same parent. */
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
        struct block *block = node->child[left].ptr;
        if (!block_merge(&block, node->child[left + 1].ptr, meter))
            continue;
        node->child[left].ptr = block;
        node->child[left].live = block->live;
        pos->path[tree->height - 1].index = (uint16_t)(left + 1);
        path_remove(tree, pos, meter);
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

/* Inserts at an unsettled position that does not hold the suffix. Cannot fail: what has to be out
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

/* Removes the entry at a settled position; the position keeps its place and may be unsettled. The
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
 * around the place are stamped: invariant (4). */
static void pos_cut(struct tree *tree, struct meter *meter, uint32_t segment, struct tree_pos *pos)
{
    struct tree_pos next = *pos, prev = *pos;
    bool has_next = tree_next(tree, &next);
    bool has_prev = tree_prev(tree, &prev);
    if (!has_next)
        tree_seek_end(tree, &next);
    if (tree_gap(tree, pos))
        pos_gap_set(tree, &next, true);
    if (has_prev && prev.block != pos->block)
        block_stamp(prev.block, meter, segment);
    if (has_next && next.block != pos->block)
        block_stamp(next.block, meter, segment);
    block_stamp(pos->block, meter, segment);
    pos_remove(tree, meter, pos, NULL);
    if (pos->block->count == 0) {
        block_free(pos->block, meter);
        if (tree->height == 0)
            tree->root = NULL;
        else
            path_remove(tree, pos, meter);
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
                        struct tree_pos *pos, uint8_t flags, struct bytes suffix,
                        struct bytes value, struct block_out *out, struct block_out **ret_old_out)
{
    struct entry entry = block_entry(pos->block, pos->index);
    uint8_t gap = entry.flags & ENTRY_GAP;
    if (!out && !entry.out && !((flags | entry.flags) & ENTRY_TOMB) &&
        entry.value.len == value.len) {
        if (value.len)
            memcpy((uint8_t *)(uintptr_t)entry.value.ptr, value.ptr, value.len);
        block_stamp(pos->block, meter, segment);
        pos->block->ref = 1;
        *ret_old_out = NULL;
        return;
    }
    uint8_t plain = (uint8_t)((flags & ENTRY_TOMB) | gap);
    pos_remove(tree, meter, pos, ret_old_out);
    pos_insert(tree, meter, segment, pos, plain, suffix, value, out);
}

enum rc tree_put(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
                 struct bytes value, struct buf *keep, struct tree_old *ret_old)
{
    struct block_out *out = NULL;
    if (!entry_fits_inline(suffix.len, value.len)) {
        out = block_out_new(suffix, value, segment, meter);
        if (!out)
            return RC_NOMEM;
    }
    struct tree_pos pos;
    tree_seek(tree, suffix, &pos);
    if (pos.exact) {
        struct entry entry = block_entry(pos.block, pos.index);
        if (!old_keep(&entry, keep, ret_old)) {
            block_out_free(out, meter);
            return RC_NOMEM;
        }
        pos_replace(tree, meter, segment, &pos, 0, suffix, value, out, &ret_old->out);
        return RC_OK;
    }
    *ret_old = (struct tree_old){.kind = TREE_OLD_NONE};
    struct tree_pos next = pos;
    tree_settle(tree, &next);
    uint8_t gap = tree_gap(tree, &next) ? ENTRY_GAP : 0;
    pos_insert(tree, meter, segment, &pos, gap, suffix, value, out);
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

enum rc tree_delete(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
                    struct buf *keep, struct tree_old *ret_old)
{
    struct tree_pos pos;
    tree_seek(tree, suffix, &pos);
    struct tree_pos next = pos;
    if (!pos.exact) {
        tree_settle(tree, &next);
        if (!tree_gap(tree, &next))
            return RC_NOT_FOUND;
        struct block_out *out;
        if (!tomb_out(meter, segment, suffix, &out))
            return RC_NOMEM;
        *ret_old = (struct tree_old){.kind = TREE_OLD_NONE};
        pos_insert(tree, meter, segment, &pos, ENTRY_TOMB | ENTRY_GAP, suffix, suffix, out);
        return RC_OK;
    }
    struct entry entry = block_entry(pos.block, pos.index);
    if (entry.flags & ENTRY_TOMB)
        return RC_NOT_FOUND;
    if (!tree_next(tree, &next))
        tree_seek_end(tree, &next);
    if (!(entry.flags & ENTRY_GAP) && !tree_gap(tree, &next)) {
        if (!old_keep(&entry, keep, ret_old))
            return RC_NOMEM;
        if (entry.out) { /* pos_cut would free it: leave an empty shell in its place */
            struct block_out *shell = block_out_new(suffix, bytes_of("", 0), segment, meter);
            if (!shell)
                return RC_NOMEM;
            pos_replace(tree, meter, segment, &pos, 0, suffix, suffix, shell, &ret_old->out);
        }
        pos_cut(tree, meter, segment, &pos);
        return RC_OK;
    }
    struct block_out *out;
    if (!tomb_out(meter, segment, suffix, &out))
        return RC_NOMEM;
    if (!old_keep(&entry, keep, ret_old)) {
        block_out_free(out, meter);
        return RC_NOMEM;
    }
    pos_replace(tree, meter, segment, &pos, ENTRY_TOMB, suffix, suffix, out, &ret_old->out);
    return RC_OK;
}

void tree_undo(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
               struct tree_old *old, const struct buf *keep)
{
    struct tree_pos pos;
    tree_seek(tree, suffix, &pos);
    if (old->kind == TREE_OLD_NONE) {
        ASSERT(pos.exact);
        pos_cut(tree, meter, segment, &pos);
        return;
    }
    struct bytes value = old->out
                             ? bytes_of(old->out->bytes + old->out->suffix_len, old->out->value_len)
                             : bytes_of(keep->ptr + old->keep_offset, old->keep_len);
    uint8_t flags = old->kind == TREE_OLD_TOMB ? ENTRY_TOMB : 0;
    if (pos.exact) {
        struct block_out *gone;
        pos_replace(tree, meter, segment, &pos, flags, suffix, value, old->out, &gone);
        block_out_free(gone, meter);
    } else {
        pos_insert(tree, meter, segment, &pos, flags, suffix, value, old->out);
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
    struct tree_pos next = pos;
    tree_settle(tree, &next);
    if (!tree_gap(tree, &next))
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

/* Makes sure that an entry stands at the edge, or moves the edge inwards to the outermost row.
 * *ret_has: whether anything is left to close from there. */
static enum rc edge_place(struct tree *tree, struct meter *meter, struct tree_edge *edge,
                          struct tree_edge row, bool *ret_has)
{
    *ret_has = true;
    if (!edge->has)
        return RC_OK;
    struct tree_pos pos;
    tree_seek(tree, edge->suffix, &pos);
    if (pos.exact)
        return RC_OK;
    struct tree_pos next = pos;
    tree_settle(tree, &next);
    if (!tree_gap(tree, &next))
        return RC_OK; /* already closed around it */
    if (!edge->known) {
        *edge = row;
        *ret_has = row.has;
        return RC_OK;
    }
    struct block_out *out;
    if (!tomb_out(meter, 0, edge->suffix, &out))
        return RC_NOMEM;
    pos_insert(tree, meter, 0, &pos, ENTRY_TOMB | ENTRY_GAP, edge->suffix, edge->suffix, out);
    return RC_OK;
}

/* Tombstones between closed intervals say nothing any more. Their block's stamp covers them. */
static void tombs_remove(struct tree *tree, struct meter *meter, struct tree_edge low,
                         struct tree_edge high)
{
    struct tree_pos pos;
    if (low.has)
        tree_seek(tree, low.suffix, &pos);
    else
        tree_seek_first(tree, &pos);
    bool more = tree_settle(tree, &pos);
    while (more) {
        struct entry entry = block_entry(pos.block, pos.index);
        if (high.has && bytes_cmp(entry.suffix, high.suffix) > 0)
            return;
        struct tree_pos next = pos;
        more = tree_next(tree, &next);
        if (!more)
            tree_seek_end(tree, &next);
        if (!(entry.flags & ENTRY_TOMB) || (entry.flags & ENTRY_GAP) || tree_gap(tree, &next)) {
            pos = next;
            continue;
        }
        struct bytes after = more ? block_entry(next.block, next.index).suffix : bytes_of("", 0);
        uint8_t copy[64];
        bool fits = after.len <= sizeof copy;
        if (fits && after.len)
            memcpy(copy, after.ptr, after.len);
        pos_cut(tree, meter, pos.block->segment, &pos);
        if (!more || !fits)
            return; /* the rest goes with a later load or an eviction */
        tree_seek(tree, bytes_of(copy, after.len), &pos);
        more = tree_settle(tree, &pos);
    }
}

enum rc tree_fill_close(struct tree *tree, struct meter *meter, struct tree_edge low,
                        struct tree_edge high, struct tree_edge first_row,
                        struct tree_edge last_row)
{
    bool has_low, has_high;
    enum rc rc = edge_place(tree, meter, &low, first_row, &has_low);
    if (rc != RC_OK)
        return rc;
    rc = edge_place(tree, meter, &high, last_row, &has_high);
    if (rc != RC_OK || !has_low || !has_high)
        return rc;
    struct tree_pos pos;
    if (low.has) {
        tree_seek(tree, low.suffix, &pos);
        if (pos.exact)
            pos.index++;
    } else {
        tree_seek_first(tree, &pos);
    }
    bool more = tree_settle(tree, &pos);
    while (more) {
        if (high.has && bytes_cmp(block_entry(pos.block, pos.index).suffix, high.suffix) > 0)
            break;
        pos_gap_set(tree, &pos, false);
        more = tree_next(tree, &pos);
    }
    if (!high.has) {
        tree_seek_end(tree, &pos);
        pos_gap_set(tree, &pos, false);
    }
    tombs_remove(tree, meter, low, high);
    return RC_OK;
}

void tree_evict(struct tree *tree, struct meter *meter, struct tree_pos *pos)
{
    struct block *block = pos->block;
    struct tree_pos next = *pos;
    next.index = block->count;
    if (!tree_settle(tree, &next))
        tree_seek_end(tree, &next);
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
    ASSERT(node->count > 0);
    for (uint16_t i = 0; i < node->count; i++) {
        struct bytes from = i ? sep_bytes(&node->child[i].sep) : low;
        struct bytes to;
        if (i + 1 < node->count)
            to = sep_bytes(&node->child[i + 1].sep);
        uint64_t below = node_check(node->child[i].ptr, (uint8_t)(height - 1), from,
                                    i + 1 < node->count ? &to : high, gap_count);
        ASSERT(below == node->child[i].live);
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

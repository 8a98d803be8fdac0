// SPDX-License-Identifier: Apache-2.0
/* tree.h - the rows of one group: a counted B+tree of blocks that knows what it does not know.
 *
 * Every entry is a row or a tombstone. Between two neighbours, before the first and after the last
 * lies an interval without entries; it is closed (the engine has no row there, or none that counts)
 * or open (the engine may have rows there). The bit is kept on the entry at the interval's right
 * end (ENTRY_GAP) and in `gap_end` for the last interval. `gap_count` is the number of open ones:
 * 0 means that the group is complete, and then absence is an answer and ranks are exact.
 *
 * Invariants:
 *   (1) Blocks are never empty; a tree without entries has no root.
 *   (2) gap_count = number of entries with ENTRY_GAP + gap_end.
 *   (3) child.live = live entries below; separators: everything below child i is >= sep[i] and
 *       < sep[i+1].
 *   (4) A row that is removed for good (both neighbour intervals closed) may still be in the
 *       engine until its delete is flushed. So the blocks on both sides of the place where it stood
 *       carry a stamp at least as new as the delete: opening that interval means evicting one
 *       of them.
 *   (5) A delete beside an open interval leaves a tombstone.
 *
 * Ownership: the tree owns nodes and blocks. A tree_pos borrows and dies with the next change.
 * Threads: the executor. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "store/hot/block.h"

enum { TREE_HEIGHT_MAX = 16 };

struct inner; /* store/hot/tree_inner.h */

struct tree {
    void *root; /* NULL, a block (height 0) or an inner node */
    uint32_t gap_count;
    uint8_t height;
    bool gap_end;  /* the interval after the last entry is open */
    bool reshaped; /* inner nodes have changed, all paths are dead; the owner takes it back */
};

struct tree_step {
    struct inner *node;
    uint16_t index; /* of the child below which it goes on */
};

struct tree_pos {
    struct tree_step path[TREE_HEIGHT_MAX]; /* from the root to the parent of the block */
    struct block *block;                    /* NULL: the tree is empty */
    uint16_t index;                         /* may be block->count: before the next block's first */
    bool exact;
};

/* What stood at a suffix before a change; enough to take the change back. */
enum tree_old_kind { TREE_OLD_NONE, TREE_OLD_ROW, TREE_OLD_TOMB };
struct tree_old {
    enum tree_old_kind kind;
    struct block_out *out; /* owned, if the row was out of line */
    size_t keep_offset;    /* else its value in the keep buffer */
    size_t keep_len;
};

void tree_init(struct tree *tree, bool complete); /* no entries; else one open interval */
void tree_done(struct tree *tree, struct meter *meter);
/* Frees up to *blocks blocks of a tree that nobody reads any more, and takes them off; true: it is
 * empty. */
bool tree_done_some(struct tree *tree, struct meter *meter, uint32_t *blocks);

/* The first entry at or above suffix. */
void tree_seek(const struct tree *tree, struct bytes suffix, struct tree_pos *ret_pos);
/* The same from a position that is good but somewhere else: in the same block, or beyond the tree's
 * first or last row. False: it is not so near, and the position is as it was. */
bool tree_seek_near(const struct tree *tree, struct bytes suffix, struct tree_pos *pos);
/* The same by a path that a search for this suffix has taken, with what it then knew of the block
 * (block_find_hint()). Inner nodes must not have changed since. */
void tree_seek_path(const struct tree *tree, struct bytes suffix, const struct tree_step *path,
                    size_t known, uint16_t hint, struct tree_pos *ret_pos);
void tree_seek_first(const struct tree *tree, struct tree_pos *ret_pos);
/* Behind the last entry. */
void tree_seek_end(const struct tree *tree, struct tree_pos *ret_pos);
/* Goes on to the next block's first entry from behind a block's last; false: there is none. */
bool tree_to_entry(const struct tree *tree, struct tree_pos *pos);
bool tree_next(const struct tree *tree, struct tree_pos *pos); /* from an entry */
bool tree_prev(const struct tree *tree, struct tree_pos *pos); /* false: there is none before */
/* Whether the interval left of the position (an entry, or the end) is open. */
bool tree_gap(const struct tree *tree, const struct tree_pos *pos);

static inline bool tree_complete(const struct tree *tree)
{
    return tree->gap_count == 0;
}
uint64_t tree_live(const struct tree *tree); /* rows known here */
/* Complete trees only. False: fewer than n+1 rows. */
bool tree_nth(const struct tree *tree, uint64_t n, struct tree_pos *ret_pos);
/* Rows before the position. */
uint64_t tree_rank(const struct tree *tree, const struct tree_pos *pos);

/* Changes. `segment` stamps what they touch. Old inline values are appended to keep. RC_NOMEM
 * leaves everything as it was. `pos`: where tree_seek() of this suffix has been, and nothing has
 * changed since. It comes back somewhere near, or without a block where none is near. NULL: search.
 */
enum rc tree_put_at(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
                    struct bytes value, struct tree_pos *pos, struct buf *keep,
                    struct tree_old *ret_old) NODISCARD;
/* RC_NOT_FOUND: known to be absent, nothing changed. */
enum rc tree_delete_at(struct tree *tree, struct meter *meter, uint32_t segment,
                       struct bytes suffix, struct tree_pos *pos, struct buf *keep,
                       struct tree_old *ret_old) NODISCARD;
static inline enum rc tree_put(struct tree *tree, struct meter *meter, uint32_t segment,
                               struct bytes suffix, struct bytes value, struct buf *keep,
                               struct tree_old *ret_old)
{
    return tree_put_at(tree, meter, segment, suffix, value, NULL, keep, ret_old);
}
static inline enum rc tree_delete(struct tree *tree, struct meter *meter, uint32_t segment,
                                  struct bytes suffix, struct buf *keep, struct tree_old *ret_old)
{
    return tree_delete_at(tree, meter, segment, suffix, NULL, keep, ret_old);
}
/* Takes a put or delete of this suffix back. Takes old->out. Never fails for rows that were there.
 */
void tree_undo(struct tree *tree, struct meter *meter, uint32_t segment, struct bytes suffix,
               struct tree_old *old, const struct buf *keep);

/* One end of what a load has read. Without `has` it is the group's end. An end that was not read
 * itself (`known` false) is the entry that bounded the load. */
struct tree_edge {
    bool has;
    bool known;
    struct bytes suffix;
};
/* What a load knows: every row of the engine between `from` and `to`. Whatever is hot there wins.
 */
struct tree_page {
    bool reverse;          /* it began at the high end */
    struct tree_edge from; /* where it began; always known */
    struct tree_edge to;
    /* Not everything has to be closed at once. It begins at `from` and may end after so many
     * entries, or behind so many intervals on end that others have closed. */
    uint32_t entry_count_max;
    uint32_t closed_run_max;
    uint32_t tomb_count_max; /* so many tombstones that say nothing any more are removed */
};
/* Adds a row found by a load, unless what is here is newer. RC_NOMEM. */
enum rc tree_fill_row(struct tree *tree, struct meter *meter, struct bytes suffix,
                      struct bytes value) NODISCARD;
/* Closes the open intervals of a page, however many rows were hot between them. */
enum rc tree_fill_close(struct tree *tree, struct meter *meter,
                        const struct tree_page *page) NODISCARD;

/* Drops the block at the position and opens its interval. The caller has checked the stamps. */
void tree_evict(struct tree *tree, struct meter *meter, struct tree_pos *pos);
void tree_check(const struct tree *tree); /* invariants (1), (2), (3); for tests */

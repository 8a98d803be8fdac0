// SPDX-License-Identifier: Apache-2.0
/* block.h - packed sorted rows of one group: the unit of residency in the hot tier.
 *
 *   OFFSET  SIZE  WHAT (in memory only)
 *   0       16    struct block
 *   16      4n    directory: a slot an entry, in suffix order
 *   ..      ..    free
 *   ..size  ..    heap: entries, the newest first; holes are counted as garbage
 * Slot, a number of 32 bits:
 *   31..16  head: the two bytes of the suffix behind the first `skip`, filled up with zeros; in a
 *           block of digits four bits of each of the four bytes there
 *   14..12  flags (enum entry_flags)
 *   11..0   where the entry begins, counted from the block's end
 * Entry:
 *   ENTRY_OUT: 8   pointer to a struct block_out with suffix and value
 *              8   the first bytes of the suffix: a search goes past without touching the row
 *   otherwise  v   uvarint length of the suffix, then the suffix; rows: uvarint length of the
 *                  value, then the value
 * A search needs the directory and, where heads are equal, an entry: a cache line or two of each,
 * of the up to 64 that a block has.
 *
 * A block is as large as its allocator size class, so it grows by classes and wastes little.
 *
 * ENTRY_GAP says that the interval between this entry and the one before it in the group is open:
 * the engine may have rows there. A tombstone says that its suffix has no row.
 *
 * Invariants:
 *   (1) count > 0 except for a block just made; suffixes strictly ascend.
 *   (2) size <= BLOCK_BYTES_MAX; an entry over BLOCK_INLINE_MAX is out of line.
 *   (3) live counts the entries that are rows.
 *   (4) The heap's bytes are those of the entries and the garbage.
 *   (5) All suffixes begin with the same `skip` bytes; heads are what follows them, so they ascend.
 *   (6) In a block of digits the four bytes behind those are digits in all suffixes, as far as they
 *       are there.
 *
 * Ownership: a block owns its block_outs; an operation that returns one gives it away.
 * Threads: the executor. */
#pragma once

#include "base/bytes.h"
#include "store/hot/meter.h"

enum {
    BLOCK_BYTES_MAX = 4096,
    BLOCK_INLINE_MAX = 512,
    BLOCK_SKIP_MAX = UINT8_MAX,
    BLOCK_PREFETCH_BYTES = 256,
};

enum entry_flags {
    ENTRY_GAP = 1,  /* the interval on its left is open */
    ENTRY_TOMB = 2, /* no row here */
    ENTRY_OUT = 4,  /* suffix and value are out of line */
};

struct block_out {
    uint32_t segment; /* for the meter */
    uint32_t suffix_len;
    uint32_t value_len;
    uint8_t bytes[];
};

struct block {
    uint32_t segment; /* of the last change */
    uint16_t size;
    uint16_t count;
    uint16_t live;
    uint16_t heap; /* bytes, garbage included */
    uint16_t garbage;
    uint8_t ref : 1;    /* CLOCK */
    uint8_t digits : 1; /* (6) */
    uint8_t skip;
};
_Static_assert(sizeof(struct block) == 16, "drawn above");

struct entry { /* decoded; borrowed from the block */
    uint8_t flags;
    struct bytes suffix;
    struct bytes value; /* as packed by the space */
    struct block_out *out;
};

struct block *block_new(struct meter *meter, uint32_t segment);
/* Frees the block and its out-of-line entries. NULL is allowed. */
void block_free(struct block *block, struct meter *meter);

/* Moves the block's bytes to a newer segment. Never to an older one. */
void block_stamp(struct block *block, struct meter *meter, uint32_t segment);

/* The first entry at or above the suffix; *ret_exact whether it is equal. */
uint16_t block_find(const struct block *block, struct bytes suffix, bool *ret_exact);
/* The same where the suffix and all of the block are known to begin with the same `skip` bytes. */
uint16_t block_find_skip(const struct block *block, struct bytes suffix, size_t skip,
                         bool *ret_exact);
/* The same where the first entry with the suffix's head may be the one at `hint`: as
 * block_prefetch_entry() has found it, the block may have changed since. */
uint16_t block_find_hint(const struct block *block, struct bytes suffix, size_t skip, uint16_t hint,
                         bool *ret_exact);
/* The same where it is likely to be at the block's beginning or end. */
uint16_t block_find_end(const struct block *block, struct bytes suffix, bool *ret_exact);
/* When the directory is there: begins to bring the entry of this suffix into the cache. Where it
 * is, or the first of those that it may be. */
uint16_t block_prefetch_entry(const struct block *block, struct bytes suffix);
/* After block_prefetch_entry(), which gave the index: begins to bring the row itself, if it is out
 * of line. */
void block_prefetch_out(const struct block *block, struct bytes suffix, uint16_t index);
struct entry block_entry(const struct block *block, uint16_t index);
uint8_t block_flags(const struct block *block, uint16_t index);
void block_flags_set(struct block *block, uint16_t index, uint8_t flags); /* GAP only */

/* Makes the out-of-line form; NULL: no memory. */
struct block_out *block_out_new(struct bytes suffix, struct bytes value, uint32_t segment,
                                struct meter *meter);
void block_out_free(struct block_out *out, struct meter *meter);

enum block_answer { BLOCK_OK, BLOCK_FULL, BLOCK_NOMEM };
/* Inserts before index. The block may move: *block is updated. BLOCK_FULL: it has to be split.
 * `out` (may be NULL) is taken on BLOCK_OK; then suffix and value come from it. */
enum block_answer block_insert(struct block **block, struct meter *meter, uint16_t index,
                               uint8_t flags, struct bytes suffix, struct bytes value,
                               struct block_out *out);
/* Puts another row or tombstone in the place of the entry (as block_entry() gave it), if that needs
 * no more room than it has; false: nothing was done. Neither may be out of line. Its interval stays
 * as it is. */
bool block_replace(struct block *block, uint16_t index, const struct entry *entry, bool tomb,
                   struct bytes value);
/* Removes; *ret_out (may be NULL: it is freed) takes what was out of line. */
void block_remove(struct block **block, struct meter *meter, uint16_t index,
                  struct block_out **ret_out);
/* Moves the entries from index on (1 .. count-1) to a new block with the same stamp. */
struct block *block_split(struct block **block, struct meter *meter, uint16_t index);
/* Appends all entries of right and frees it, if they fit well; false: nothing was done. */
bool block_merge(struct block **left, struct block *right, struct meter *meter);
/* Where to split, 1 .. count-1: of the indexes that about halve the bytes the one whose neighbours
 * share the least, so that each half shares the more, and what parts them is short. */
uint16_t block_middle(const struct block *block);
/* Live entries before index. */
uint16_t block_live_before(const struct block *block, uint16_t index);
/* Checks the invariants; for tests and fuzzing. */
void block_check(const struct block *block);

static inline bool entry_fits_inline(size_t suffix_len, size_t value_len)
{
    return suffix_len + value_len <= BLOCK_INLINE_MAX - 8;
}

/* The directory of a block of middle-sized rows: for one search, which cannot wait to see how long
 * it is. */
static inline void block_prefetch(const struct block *block)
{
#pragma GCC unroll 8
    for (size_t at = 0; at < BLOCK_PREFETCH_BYTES; at += 64)
        __builtin_prefetch((const uint8_t *)block + at);
}

/* What is behind the first line of it, when that is there. */
static inline void block_prefetch_slots(const struct block *block)
{
    size_t end = sizeof *block + block->count * sizeof(uint32_t);
    for (size_t at = 64; at < end; at += 64)
        __builtin_prefetch((const uint8_t *)block + at);
}

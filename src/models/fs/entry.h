// SPDX-License-Identifier: Apache-2.0
/* entry.h - how the file system's rows look on disk.
 *
 *   SPACE  KEY                               VALUE
 *   inode  id(8)                             the entry, below
 *   inode  FF…FD, FF…FE                      dictionary of owners, of groups, below
 *   inode  FF…FF                             next_id, 8 bytes little-endian: the first id that is
 *                                            not reserved
 *   edge   parent's id(8) ‖ name             child's id(8)
 *   edge   0(8) ‖ id(8)                      the same id(8): the top of a subtree that was removed
 *   edge   FF…FC ‖ path                      URI: a mount
 * Ids in keys and in values of edges are big-endian.
 *
 * An entry, integers little-endian:
 *   OFFSET  SIZE  WHAT
 *   0       8     parent's id; 0: the root, or the top of a subtree that was removed
 *   8       8     size in bytes
 *   16      8     block size
 *   24      8     creation, Unix milliseconds
 *   32      8     modification, Unix milliseconds
 *   40      4     mode
 *   44      1     flags: bit 0 directory, bit 1 complete
 *   45      1     owner: position in the dictionary + 1; 0: none
 *   46      1     group, alike
 *   47      1     0
 *   48      ..    name
 *
 * A dictionary: count(1), then { length(1), bytes } of each.
 *
 * Ownership: decoded entries borrow the value.
 * Threads: any. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

enum {
    FS_ID_BYTES = 8,
    FS_ENTRY_HEAD_BYTES = 48,
    FS_ENTRY_BYTES_MAX = FS_ENTRY_HEAD_BYTES + FS_NAME_BYTES_MAX,
    FS_DICT_NAMES_MAX = 255,
    FS_DICT_NAME_BYTES_MAX = 255,
    FS_DICT_BYTES_MAX = 1 + FS_DICT_NAMES_MAX * (1 + FS_DICT_NAME_BYTES_MAX),
    FS_MODE_MAX = 07777,
};
enum fs_flags { /* on disk: append, never renumber */
                FS_DIRECTORY = 1,
                FS_COMPLETE = 2,
};
#define FS_ID_GRAVEYARD UINT64_C(0)
#define FS_ID_ROOT UINT64_C(1)
#define FS_ID_FIRST UINT64_C(2)
#define FS_ID_END (UINT64_C(1) << 40) /* a block's id is inode << 24 | index */
/* An inode this far above next_id was not made by us: it would take as many others to get there. */
#define FS_ID_GAP (UINT64_C(1) << 36)
#define FS_BLOCKS_MAX (UINT64_C(1) << 24)
#define FS_BLOCK_BYTES_MAX (UINT64_C(1) << 38)
#define FS_BLOCK_BYTES_DEFAULT (UINT64_C(64) << 20)
/* Keys that are no ids. */
#define FS_KEY_MOUNTS UINT64_C(0xfffffffffffffffc)
#define FS_KEY_OWNERS UINT64_C(0xfffffffffffffffd)
#define FS_KEY_GROUPS UINT64_C(0xfffffffffffffffe)
#define FS_KEY_NEXT_ID UINT64_C(0xffffffffffffffff)

struct fs_entry {
    uint64_t parent;
    uint64_t size;
    uint64_t block_size;
    uint64_t create_ms, modify_ms;
    uint32_t mode;
    uint8_t flags;
    uint8_t owner, group;
    struct bytes name;
};

static inline bool fs_entry_is_dir(const struct fs_entry *entry)
{
    return entry->flags & FS_DIRECTORY;
}

/* What the tree can hold as a name: RC_INVALID says why not. */
enum rc fs_name_check(struct bytes name, struct err *err) NODISCARD;
/* The same for what is known to hold no slash and no NUL. */
enum rc fs_component_check(struct bytes name, struct err *err) NODISCARD;

/* Returns the length. */
size_t fs_entry_encode(const struct fs_entry *entry, uint8_t to[FS_ENTRY_BYTES_MAX]);
/* RC_CORRUPT: no entry looks like this. */
enum rc fs_entry_decode(struct bytes value, struct fs_entry *ret_entry, struct err *err) NODISCARD;
/* The root of a tree that holds nothing, and what stands in for an entry that was lost. */
void fs_entry_root(uint64_t now_ms, struct fs_entry *ret_entry);

/* RC_CORRUPT. */
enum rc fs_edge_decode(struct bytes value, uint64_t *ret_child, struct err *err) NODISCARD;
enum rc fs_next_id_decode(struct bytes value, uint64_t *ret_id, struct err *err) NODISCARD;

struct fs_dict { /* a dictionary's row, being read */
    struct bytes value;
    size_t at;
    unsigned count, seen;
};
/* RC_CORRUPT where the lengths do not fit; checks all of it. An empty value: no names. */
enum rc fs_dict_open(struct bytes value, struct fs_dict *ret_dict, struct err *err) NODISCARD;
bool fs_dict_next(struct fs_dict *dict, struct bytes *ret_name);

// SPDX-License-Identifier: Apache-2.0
/* prefetch.c - a batch of paths: their last edges and their inodes are asked for together.
 *
 * In a large tree these are the reads that miss the processor's caches. The directories above are
 * few, and hot: where they lead was seen a moment ago. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "models/fs/fs_int.h"
#include "store/prefetch.h"

#include "base/banned.h"

enum { PREFETCH_MAX = 32 };

static struct fs_hint *hint_of(struct fs *fs, struct bytes dir, uint64_t *ret_hash)
{
    *ret_hash = XXH3_64bits(dir.ptr, dir.len);
    return &fs->hint[*ret_hash % FS_HINTS];
}

void fs__hint_set(struct fs *fs, struct bytes text, struct bytes name, uint64_t id)
{
    uint64_t hash;
    struct fs_hint *hint = hint_of(fs, bytes_of(text.ptr, text.len - name.len), &hash);
    *hint = (struct fs_hint){hash, id};
}

/* False: nothing is known of its directory. */
static bool row_of(struct fs *fs, struct bytes path, struct fs_key *ret_key, struct store_row *row)
{
    uint64_t hash;
    const uint8_t *slash =
        path.len > 0 && path.len <= FS_PATH_BYTES_MAX ? memrchr(path.ptr, '/', path.len) : NULL;
    if (!slash)
        return false;
    size_t dir_len = (size_t)(slash - path.ptr) + 1;
    const struct fs_hint *hint = hint_of(fs, bytes_of(path.ptr, dir_len), &hash);
    if (hint->hash != hash || hint->id == 0)
        return false;
    *ret_key = fs__key(hint->id);
    *row = (struct store_row){fs__edges(fs, ret_key), bytes_from(path, dir_len)};
    return true;
}

void fs_prefetch(struct fs *fs, const struct bytes *path, size_t count)
{
    struct fs_key key[PREFETCH_MAX];
    struct store_row row[PREFETCH_MAX];
    struct store_group group[PREFETCH_MAX];
    struct bytes value[PREFETCH_MAX];
    size_t row_count = 0, group_count = 0;
    for (size_t i = 0; i < count && i < PREFETCH_MAX; i++)
        row_count += row_of(fs, path[i], &key[row_count], &row[row_count]);
    if (row_count == 0)
        return;
    store_peek_rows(fs->store, row, row_count, value);
    for (size_t i = 0; i < row_count; i++)
        if (value[i].ptr && value[i].len == FS_ID_BYTES) /* an edge's value is an inode's key */
            group[group_count++] = (struct store_group){fs->inode, value[i]};
    store_prefetch(fs->store, group, group_count);
}

// SPDX-License-Identifier: Apache-2.0
/* file_info.c - an inode as the protobuf message FileInfo. */
#include "models/fs/fs.h"

#include <file_info.pb-c.h> /* made from file_info.proto */

#include "base/mem.h"

#include "base/banned.h"

static ProtobufCBinaryData binary(struct bytes bytes)
{
    return (ProtobufCBinaryData){.len = bytes.len, .data = (uint8_t *)bytes.ptr};
}

enum rc fs_info_encode(const struct fs_stat *stat, struct buf *to, struct err *err)
{
    const struct fs_entry *entry = &stat->entry;
    uint64_t count = fs_block_count(entry);
    Terrace__FileInfo info = TERRACE__FILE_INFO__INIT;
    if (count > FS_INFO_BLOCKS_MAX)
        return err_set(err, RC_REPLY,
                       "RESOURCE the file has more blocks than a FileInfo holds (%d): FS.BLOCKS "
                       "tells them in pages",
                       FS_INFO_BLOCKS_MAX);
    info.inode_id = stat->id;
    info.name = binary(entry->name);
    info.path = binary(stat->path);
    info.is_directory = fs_entry_is_dir(entry);
    info.size = entry->size;
    info.mode = entry->mode;
    info.owner = binary(stat->owner);
    info.group = binary(stat->group);
    info.creation_time_ms = entry->create_ms;
    info.modification_time_ms = entry->modify_ms;
    info.parent_id = entry->parent;
    info.block_size = entry->block_size;
    info.is_complete = entry->flags & FS_COMPLETE;
    info.n_block_ids = count;
    info.block_ids = mem_alloc((count + 1) * sizeof *info.block_ids);
    for (uint64_t i = 0; i < count; i++)
        info.block_ids[i] = fs_block_id(stat->id, i);
    size_t bytes = terrace__file_info__get_packed_size(&info);
    bool fits = buf_reserve(to, bytes);
    if (fits)
        to->len += terrace__file_info__pack(&info, to->ptr + to->len);
    mem_free(info.block_ids);
    return fits ? RC_OK : err_set(err, RC_NOMEM, "could not allocate %zu bytes", bytes);
}

// SPDX-License-Identifier: Apache-2.0
/* entry.c - inodes, edges and their dictionary, encoded and decoded. */
#include "models/fs/entry.h"

#include "base/codec.h"
#include "base/macros.h"

#include "base/banned.h"

enum rc fs_component_check(struct bytes name, struct err *err)
{
    if (name.len == 0)
        return err_set(err, RC_INVALID, "a name is empty");
    if (name.len > FS_NAME_BYTES_MAX)
        return err_set(err, RC_INVALID, "a name of %zu bytes is over the limit of %d", name.len,
                       FS_NAME_BYTES_MAX);
    if (name.ptr[0] == '.' && (name.len == 1 || (name.len == 2 && name.ptr[1] == '.')))
        return err_set(err, RC_INVALID, "\".\" and \"..\" are no names");
    return RC_OK;
}

enum rc fs_name_check(struct bytes name, struct err *err)
{
    if (name.len > 0 && (memchr(name.ptr, 0, name.len) || memchr(name.ptr, '/', name.len)))
        return err_set(err, RC_INVALID, "a name holds a NUL or a slash");
    return fs_component_check(name, err);
}

size_t fs_entry_encode(const struct fs_entry *entry, uint8_t to[FS_ENTRY_BYTES_MAX])
{
    ASSERT(entry->name.len <= FS_NAME_BYTES_MAX);
    ASSERT((entry->flags & ~(FS_DIRECTORY | FS_COMPLETE)) == 0);
    ASSERT(entry->parent < FS_ID_END);
    le64_put(to, entry->parent);
    le64_put(to + 8, entry->size);
    le64_put(to + 16, entry->block_size);
    le64_put(to + 24, entry->create_ms);
    le64_put(to + 32, entry->modify_ms);
    le32_put(to + 40, entry->mode);
    to[44] = entry->flags;
    to[45] = entry->owner;
    to[46] = entry->group;
    to[47] = 0;
    if (entry->name.len > 0)
        memcpy(to + FS_ENTRY_HEAD_BYTES, entry->name.ptr, entry->name.len);
    return FS_ENTRY_HEAD_BYTES + entry->name.len;
}

enum rc fs_entry_decode(struct bytes value, struct fs_entry *ret_entry, struct err *err)
{
    if (value.len < FS_ENTRY_HEAD_BYTES)
        return err_set(err, RC_CORRUPT, "an inode's entry has %zu bytes, less than %d", value.len,
                       FS_ENTRY_HEAD_BYTES);
    const uint8_t *from = value.ptr;
    struct fs_entry entry = {.parent = le64_get(from),
                             .size = le64_get(from + 8),
                             .block_size = le64_get(from + 16),
                             .create_ms = le64_get(from + 24),
                             .modify_ms = le64_get(from + 32),
                             .mode = le32_get(from + 40),
                             .flags = from[44],
                             .owner = from[45],
                             .group = from[46],
                             .name = bytes_from(value, FS_ENTRY_HEAD_BYTES)};
    if (entry.flags & ~(FS_DIRECTORY | FS_COMPLETE) || from[47] != 0)
        return err_set(err, RC_CORRUPT, "an inode's entry has unknown flags %02x%02x", entry.flags,
                       from[47]);
    if (entry.parent >= FS_ID_END || entry.size > INT64_MAX ||
        entry.block_size > FS_BLOCK_BYTES_MAX ||
        (entry.block_size > 0 && entry.size > entry.block_size * FS_BLOCKS_MAX))
        return err_set(err, RC_CORRUPT, "an inode's entry has a parent or a size out of range");
    if (entry.name.len == 0 ? entry.parent != 0 : fs_name_check(entry.name, err) != RC_OK)
        return err_set(err, RC_CORRUPT, "an inode's entry has a name that can not be");
    *ret_entry = entry;
    return RC_OK;
}

void fs_entry_root(uint64_t now_ms, struct fs_entry *ret_entry)
{
    *ret_entry = (struct fs_entry){.block_size = FS_BLOCK_BYTES_DEFAULT,
                                   .create_ms = now_ms,
                                   .modify_ms = now_ms,
                                   .mode = 0755,
                                   .flags = FS_DIRECTORY | FS_COMPLETE,
                                   .name = BYTES("")};
}

enum rc fs_edge_decode(struct bytes value, uint64_t *ret_child, struct err *err)
{
    if (value.len != FS_ID_BYTES)
        return err_set(err, RC_CORRUPT, "an edge has a value of %zu bytes, not %d", value.len,
                       FS_ID_BYTES);
    uint64_t child = be64_get(value.ptr);
    if (child < FS_ID_FIRST || child >= FS_ID_END)
        return err_set(err, RC_CORRUPT, "an edge leads to %llu, which is no inode",
                       (unsigned long long)child);
    *ret_child = child;
    return RC_OK;
}

enum rc fs_next_id_decode(struct bytes value, uint64_t *ret_id, struct err *err)
{
    uint64_t id = value.len == FS_ID_BYTES ? le64_get(value.ptr) : 0;
    if (id < FS_ID_FIRST || id > FS_ID_END)
        return err_set(err, RC_CORRUPT, "the row of the next inode id is damaged");
    *ret_id = id;
    return RC_OK;
}

enum rc fs_dict_open(struct bytes value, struct fs_dict *ret_dict, struct err *err)
{
    size_t at = 1;
    unsigned count = value.len > 0 ? value.ptr[0] : 0;
    for (unsigned i = 0; i < count; i++) {
        if (at >= value.len || value.ptr[at] >= value.len - at)
            return err_set(err, RC_CORRUPT, "the dictionary of owners or groups is damaged");
        at += 1u + value.ptr[at];
    }
    if (value.len > 0 && at != value.len)
        return err_set(err, RC_CORRUPT, "the dictionary of owners or groups is damaged");
    *ret_dict = (struct fs_dict){.value = value, .at = 1, .count = count};
    return RC_OK;
}

bool fs_dict_next(struct fs_dict *dict, struct bytes *ret_name)
{
    if (dict->seen == dict->count)
        return false;
    size_t len = dict->value.ptr[dict->at];
    *ret_name = bytes_of(dict->value.ptr + dict->at + 1, len);
    dict->at += 1 + len;
    dict->seen++;
    return true;
}

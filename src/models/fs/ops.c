// SPDX-License-Identifier: Apache-2.0
/* ops.c - directories and files are made, and their attributes set. */
#include "models/fs/fs_int.h"

#include "base/banned.h"

/* ---- making ---- */

static enum rc owners_find(struct fs *fs, const struct fs_attrs *attrs, struct fs_entry *entry,
                           struct err *err)
{
    enum rc rc = RC_OK;
    if (attrs->has_owner)
        rc = fs__dict_id(fs, FS_KEY_OWNERS, attrs->owner, &entry->owner, err);
    if (rc == RC_OK && attrs->has_group)
        rc = fs__dict_id(fs, FS_KEY_GROUPS, attrs->group, &entry->group, err);
    return rc;
}

static enum rc entry_new(struct fs *fs, const struct fs_attrs *attrs, bool is_dir,
                         struct fs_entry *ret_entry, struct err *err)
{
    uint32_t mode = is_dir ? 0755 : 0644;
    *ret_entry = (struct fs_entry){.block_size = attrs->block_size,
                                   .create_ms = attrs->now_ms,
                                   .modify_ms = attrs->now_ms,
                                   .mode = attrs->has_mode ? attrs->mode : mode,
                                   .flags = is_dir ? FS_DIRECTORY | FS_COMPLETE : 0};
    return owners_find(fs, attrs, ret_entry, err);
}

/* Everything has been checked. */
static enum rc child_add(struct fs *fs, uint64_t parent, struct bytes name, struct fs_entry *entry,
                         uint64_t *ret_id, struct err *err)
{
    uint64_t id;
    enum rc rc = fs__id_new(fs, entry->create_ms, &id, err);
    entry->parent = parent;
    entry->name = name;
    if (rc == RC_OK)
        rc = fs__edge_put(fs, parent, name, id, err);
    if (rc == RC_OK)
        rc = fs__entry_put(fs, id, entry, err);
    if (rc == RC_OK)
        rc = fs__count(fs, entry, 1, err);
    if (rc == RC_OK && fs_entry_is_dir(entry)) {
        struct fs_key key = fs__key(id);
        rc = store_group_new(fs->store, fs__edges(fs, &key), err);
    }
    if (rc == RC_OK)
        *ret_id = id;
    return rc;
}

static enum rc child_new(struct fs *fs, struct bytes text, bool is_dir,
                         const struct fs_attrs *attrs, uint64_t *ret_id, struct err *err)
{
    struct fs_place place;
    struct fs_entry entry;
    arena_clear(&fs->arena);
    enum rc rc = fs__place(fs, text, 0, &place, err);
    if (rc != RC_OK)
        return rc;
    if (place.id != 0)
        return fs__refuse(err, "EXISTS", "there is such a file or directory", text);
    rc = fs__dir_check(fs, place.parent, text, err);
    if (rc == RC_OK)
        rc = entry_new(fs, attrs, is_dir, &entry, err);
    if (rc == RC_OK)
        rc = child_add(fs, place.parent, place.name, &entry, ret_id, err);
    return rc;
}

enum rc fs_create(struct fs *fs, struct bytes path, const struct fs_attrs *attrs, uint64_t *ret_id,
                  struct err *err)
{
    return child_new(fs, path, false, attrs, ret_id, err);
}

/* Down to the last directory that is there; *path holds what is missing. */
static enum rc dirs_pass(struct fs *fs, struct fs_path *path, uint64_t *ret_id, struct err *err)
{
    uint64_t id = FS_ID_ROOT;
    enum rc rc = RC_OK;
    while (rc == RC_OK && !fs_path_is_through(path)) {
        struct fs_path next = *path;
        struct bytes name;
        (void)fs_path_next(&next, &name);
        rc = fs__edge_get(fs, id, name, &id, err);
        if (rc == RC_OK)
            *path = next;
    }
    *ret_id = id;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc dirs_make(struct fs *fs, struct bytes text, const struct fs_attrs *attrs,
                         uint64_t *ret_id, struct err *err)
{
    struct fs_path path;
    struct bytes name;
    struct fs_entry entry = {0};
    uint64_t id;
    arena_clear(&fs->arena);
    enum rc rc = fs_path_open(text, &path, err);
    if (rc == RC_OK)
        rc = dirs_pass(fs, &path, &id, err);
    if (rc != RC_OK)
        return rc;
    if (fs_path_is_through(&path) && id != FS_ID_ROOT) {
        rc = fs__entry_get(fs, id, &entry, err);
        if (rc == RC_OK && !fs_entry_is_dir(&entry))
            return fs__refuse(err, "EXISTS", "there is such a file", text);
        if (rc == RC_NOT_FOUND)
            return fs__missing(fs, id, text, err);
    } else {
        rc = fs__dir_check(fs, id, text, err);
    }
    if (rc == RC_OK && !fs_path_is_through(&path))
        rc = entry_new(fs, attrs, true, &entry, err);
    while (rc == RC_OK && fs_path_next(&path, &name))
        rc = child_add(fs, id, name, &entry, &id, err);
    if (rc == RC_OK)
        *ret_id = id;
    return rc;
}

enum rc fs_mkdir(struct fs *fs, struct bytes path, bool parents, const struct fs_attrs *attrs,
                 uint64_t *ret_id, struct err *err)
{
    if (parents)
        return dirs_make(fs, path, attrs, ret_id, err);
    return child_new(fs, path, true, attrs, ret_id, err);
}

/* ---- attributes ---- */

static enum rc size_check(const struct fs_entry *entry, uint64_t size, struct err *err)
{
    if (entry->block_size > 0 && size > 0 && (size - 1) / entry->block_size >= FS_BLOCKS_MAX)
        return err_set(err, RC_REPLY, "RESOURCE a file has at most %llu blocks",
                       (unsigned long long)FS_BLOCKS_MAX);
    return RC_OK;
}

enum rc fs_resize(struct fs *fs, struct bytes target, uint64_t size, bool complete, uint64_t now_ms,
                  struct err *err)
{
    struct fs_entry entry;
    uint64_t id;
    enum rc rc = fs__target(fs, target, &id, &entry, err);
    if (rc != RC_OK)
        return rc;
    if (fs_entry_is_dir(&entry))
        return fs__refuse(err, "ISDIR", "it is a directory", target);
    rc = size_check(&entry, size, err);
    if (rc == RC_OK)
        rc = fs__count_bytes(fs, entry.size, size, err);
    entry.size = size;
    entry.modify_ms = now_ms;
    entry.flags |= complete ? FS_COMPLETE : 0;
    entry.name = arena_copy(&fs->arena, entry.name);
    if (rc == RC_OK)
        rc = fs__entry_put(fs, id, &entry, err);
    return rc;
}

enum rc fs_attrs_set(struct fs *fs, struct bytes target, const struct fs_attrs *attrs,
                     struct err *err)
{
    struct fs_entry entry;
    uint64_t id;
    enum rc rc = fs__target(fs, target, &id, &entry, err);
    if (rc != RC_OK)
        return rc;
    entry.name = arena_copy(&fs->arena, entry.name);
    rc = owners_find(fs, attrs, &entry, err);
    if (attrs->has_mode)
        entry.mode = attrs->mode;
    if (attrs->has_create)
        entry.create_ms = attrs->create_ms;
    if (attrs->has_modify)
        entry.modify_ms = attrs->modify_ms;
    if (rc == RC_OK)
        rc = fs__entry_put(fs, id, &entry, err);
    return rc;
}

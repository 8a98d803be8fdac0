// SPDX-License-Identifier: Apache-2.0
/* move.c - names move and go. */
#include "models/fs/fs_int.h"

#include "base/banned.h"

/* ---- removing ---- */

static enum rc root_refuse(struct err *err)
{
    return err_set(err, RC_REPLY, "ROOT the root can not be moved, replaced or removed");
}

enum rc fs_remove(struct fs *fs, struct bytes path, bool recursive, struct err *err)
{
    struct fs_entry entry;
    uint64_t id;
    bool has = false;
    if (path.len > 0 && path.ptr[0] != '/')
        return err_set(err, RC_INVALID, "a path has to begin with a slash");
    enum rc rc = fs__target(fs, path, &id, &entry, err);
    if (rc != RC_OK)
        return rc;
    if (id == FS_ID_ROOT)
        return root_refuse(err);
    entry.name = arena_copy(&fs->arena, entry.name);
    if (fs_entry_is_dir(&entry))
        rc = fs__has_children(fs, id, &has, err);
    if (rc != RC_OK)
        return rc;
    if (has && !recursive)
        return fs__refuse(err, "NOTEMPTY", "the directory is not empty", path);
    return has ? fs__bury(fs, id, &entry, err) : fs__erase(fs, id, &entry, err);
}

/* ---- moving ---- */

/* As rename(2): what may take the place of what. */
static enum rc replace_check(struct fs *fs, const struct fs_entry *entry, uint64_t there_id,
                             const struct fs_entry *there, struct bytes to, struct err *err)
{
    bool has = false;
    if (!fs_entry_is_dir(entry) && fs_entry_is_dir(there))
        return fs__refuse(err, "ISDIR", "a file can not replace a directory", to);
    if (fs_entry_is_dir(entry) && !fs_entry_is_dir(there))
        return fs__refuse(err, "NOTDIR", "a directory can not replace a file", to);
    enum rc rc = RC_OK;
    if (fs_entry_is_dir(there))
        rc = fs__has_children(fs, there_id, &has, err);
    if (rc == RC_OK && has)
        return fs__refuse(err, "NOTEMPTY", "the directory is not empty", to);
    return rc;
}

static enum rc there_remove(struct fs *fs, const struct fs_entry *entry,
                            const struct fs_place *place, struct bytes to, struct err *err)
{
    struct fs_entry there;
    enum rc rc = fs__entry_at(fs, place, &there, err);
    if (rc != RC_OK)
        return rc;
    there.name = arena_copy(&fs->arena, there.name);
    rc = replace_check(fs, entry, place->id, &there, to, err);
    if (rc == RC_OK)
        rc = fs__erase(fs, place->id, &there, err);
    return rc;
}

/* The place is free, or what is there may be replaced, if only its kind allows it. */
static enum rc places_check(const struct fs_place *place, bool replace, struct bytes from,
                            struct bytes to, struct err *err)
{
    if (place->parent == 0)
        return root_refuse(err);
    if (place->id != 0 && !replace)
        return fs__refuse(err, "EXISTS", "there is such a file or directory", to);
    if (place->passed)
        return fs__refuse(err, "SUBTREE", "a directory can not be moved below itself", to);
    if (bytes_start_with(from, to) && from.len > to.len && from.ptr[to.len] == '/')
        return fs__refuse(err, "NOTEMPTY", "it holds what would replace it", to);
    return RC_OK;
}

/* In the order of rename(2): what is above either comes first. */
static enum rc places_find(struct fs *fs, struct bytes from, struct bytes to,
                           struct fs_place *ret_source, struct fs_place *ret_place, struct err *err)
{
    enum rc rc = fs__place(fs, from, 0, ret_source, err);
    if (rc == RC_OK && ret_source->parent == 0)
        return root_refuse(err);
    if (rc == RC_OK && ret_source->id == 0)
        rc = fs__dir_check(fs, ret_source->parent, from, err);
    if (rc == RC_OK)
        rc = fs__place(fs, to, ret_source->id, ret_place, err);
    if (rc == RC_OK && ret_place->id == 0)
        rc = fs__dir_check(fs, ret_place->parent, to, err);
    return rc;
}

enum rc fs_move(struct fs *fs, struct bytes from, struct bytes to, bool replace, struct err *err)
{
    struct fs_place source, place;
    struct fs_entry entry;
    uint64_t id;
    arena_clear(&fs->arena);
    enum rc rc = places_find(fs, from, to, &source, &place, err);
    if (rc != RC_OK)
        return rc;
    if (source.id == 0)
        return fs__missing(fs, source.parent, from, err);
    rc = places_check(&place, replace, from, to, err);
    if (rc == RC_OK)
        rc = fs__target(fs, from, &id, &entry, err);
    if (rc != RC_OK || place.id == id)
        return rc; /* onto itself: nothing happens */
    if (place.id != 0)
        rc = there_remove(fs, &entry, &place, to, err);
    if (rc == RC_OK)
        rc = fs__edge_delete(fs, source.parent, source.name, err);
    if (rc == RC_OK)
        rc = fs__edge_put(fs, place.parent, place.name, id, err);
    entry.parent = place.parent;
    entry.name = place.name;
    if (rc == RC_OK)
        rc = fs__entry_put(fs, id, &entry, err);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
/* mount.c - which paths belong to other stores: a group of rows, path → URI. The tree need not have
 * the path, and moving or removing what is there does not touch the mount. */
#include "models/fs/fs_int.h"

#include "base/banned.h"

static enum rc mount_get(struct fs *fs, struct bytes path, struct bytes *ret_uri, struct err *err)
{
    struct fs_key key = fs__key(FS_KEY_MOUNTS);
    enum rc rc = store_get(fs->store, fs__edges(fs, &key), path, ret_uri, err);
    if (rc == RC_OK && (ret_uri->len == 0 || ret_uri->len > FS_URI_BYTES_MAX))
        return fs__refuse(err, "CORRUPT", "a mount without a URI: FS.UMOUNT forgets it", path);
    return rc;
}

enum rc fs_mount(struct fs *fs, struct bytes path, struct bytes uri, struct err *err)
{
    struct fs_key key = fs__key(FS_KEY_MOUNTS);
    struct fs_path checked;
    struct bytes known;
    enum rc rc = fs_path_open(path, &checked, err);
    if (rc != RC_OK)
        return rc;
    if (uri.len == 0 || uri.len > FS_URI_BYTES_MAX)
        return err_set(err, RC_INVALID, "a URI has 1 to %d bytes", FS_URI_BYTES_MAX);
    rc = mount_get(fs, path, &known, err);
    if (rc == RC_OK)
        return fs__refuse(err, "EXISTS", "something is mounted there", path);
    if (rc != RC_NOT_FOUND)
        return rc;
    return store_put(fs->store, fs__edges(fs, &key), path, uri, err);
}

enum rc fs_unmount(struct fs *fs, struct bytes path, struct err *err)
{
    struct fs_key key = fs__key(FS_KEY_MOUNTS);
    struct fs_path checked;
    struct bytes known;
    enum rc rc = fs_path_open(path, &checked, err);
    if (rc == RC_OK)
        rc = store_get(fs->store, fs__edges(fs, &key), path, &known, err);
    if (rc == RC_NOT_FOUND)
        return fs__refuse(err, "NOTFOUND", "nothing is mounted there", path);
    if (rc != RC_OK)
        return rc;
    return store_delete(fs->store, fs__edges(fs, &key), path, err);
}

enum rc fs_mounts(struct fs *fs, struct bytes from, size_t count_max, struct fs_mounts *ret_mounts,
                  struct err *err)
{
    CLEANUP(store_walk_done) struct store_walk walk;
    struct fs_key key = fs__key(FS_KEY_MOUNTS);
    struct fs_mounts page = {0};
    struct fs_mount mount;
    enum rc rc = RC_OK;
    arena_clear(&fs->arena);
    page.mount = arena_alloc_array(&fs->arena, count_max, sizeof *page.mount);
    store_walk_init(&walk, fs->store, fs__edges(fs, &key), false);
    if (from.len > 0)
        rc = store_walk_seek(&walk, from, err);
    while (rc == RC_OK && !page.more &&
           (rc = store_walk_next(&walk, &mount.path, &mount.uri, err)) == RC_OK) {
        page.more = page.count == count_max;
        mount.uri = arena_copy(&fs->arena, mount.uri); /* the next read takes it */
        if (page.more)
            page.next = mount.path;
        else
            page.mount[page.count++] = mount;
    }
    if (rc != RC_OK && rc != RC_NOT_FOUND)
        return rc;
    *ret_mounts = page;
    return RC_OK;
}

/* The path without its last component; false: it is the root. */
static bool path_up(struct bytes *path)
{
    if (path->len <= 1)
        return false;
    do
        path->len--;
    while (path->ptr[path->len] != '/');
    if (path->len == 0)
        path->len = 1;
    return true;
}

enum rc fs_resolve(struct fs *fs, struct bytes path, struct fs_mount *ret_mount,
                   struct bytes *ret_rest, struct err *err)
{
    struct fs_path checked;
    struct fs_mount mount = {.path = path};
    enum rc rc = fs_path_open(path, &checked, err);
    if (rc != RC_OK)
        return rc;
    do
        rc = mount_get(fs, mount.path, &mount.uri, err);
    while (rc == RC_NOT_FOUND && path_up(&mount.path));
    if (rc == RC_NOT_FOUND)
        return fs__refuse(err, "NOTFOUND", "nothing is mounted at or above", path);
    if (rc != RC_OK)
        return rc;
    struct bytes rest = bytes_from(path, mount.path.len);
    *ret_rest = rest.len > 0 && rest.ptr[0] == '/' ? bytes_from(rest, 1) : rest;
    *ret_mount = mount;
    return RC_OK;
}

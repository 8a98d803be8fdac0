// SPDX-License-Identifier: Apache-2.0
/* path.c - takes paths apart. */
#include "models/fs/path.h"

#include "base/banned.h"

bool fs_path_next(struct fs_path *path, struct bytes *ret_name)
{
    if (path->rest.len == 0)
        return false;
    struct bytes name = bytes_from(path->rest, 1);
    const uint8_t *slash = name.len ? memchr(name.ptr, '/', name.len) : NULL;
    if (slash)
        name.len = (size_t)(slash - name.ptr);
    path->rest = bytes_from(path->rest, 1 + name.len);
    *ret_name = name;
    return true;
}

enum rc fs_path_open(struct bytes text, struct fs_path *ret_path, struct err *err)
{
    struct bytes name;
    if (text.len > FS_PATH_BYTES_MAX)
        return err_set(err, RC_INVALID, "a path of %zu bytes is over the limit of %d", text.len,
                       FS_PATH_BYTES_MAX);
    if (text.len == 0 || text.ptr[0] != '/')
        return err_set(err, RC_INVALID, "a path has to begin with a slash");
    if (memchr(text.ptr, 0, text.len))
        return err_set(err, RC_INVALID, "a name holds a NUL or a slash");
    struct fs_path path = {.rest = text.len > 1 ? text : bytes_of(text.ptr, 0)};
    *ret_path = path;
    while (fs_path_next(&path, &name)) {
        enum rc rc = fs_component_check(name, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

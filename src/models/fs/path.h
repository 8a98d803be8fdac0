// SPDX-License-Identifier: Apache-2.0
/* path.h - paths: "/", or components with a slash before each.
 *
 * Ownership: everything is borrowed from the path.
 * Threads: any. */
#pragma once

#include "models/fs/entry.h"

struct fs_path {
    struct bytes rest; /* begins with a slash, or is empty: through */
};

/* RC_INVALID: no slash first, an empty component, a name that can not be, over the limit. */
enum rc fs_path_open(struct bytes text, struct fs_path *ret_path, struct err *err) NODISCARD;
/* The next component; false: there is none. */
bool fs_path_next(struct fs_path *path, struct bytes *ret_name);

static inline bool fs_path_is_through(const struct fs_path *path)
{
    return path->rest.len == 0;
}

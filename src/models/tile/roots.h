// SPDX-License-Identifier: Apache-2.0
/* roots.h - whether two directories of shards are one, or one lies inside the other.
 *
 * Threads: any. */
#pragma once

#include <stdbool.h>

/* Also of directories that are not there yet, through links and through mounts. False where that
 * cannot be told: whoever makes the directory meets the error. */
bool roots_overlap(const char *a, const char *b);
/* The path from the root of the file system on, also of a directory that is not there yet. `to` has
 * PATH_BYTES_MAX. False: it cannot be told. */
bool root_absolute(const char *path, char *to);
/* `path` without `above` and the slash, if it is inside it; both absolute. NULL: it is not. */
const char *root_below(const char *path, const char *above);

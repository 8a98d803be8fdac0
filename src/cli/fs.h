// SPDX-License-Identifier: Apache-2.0
/* fs.h - terrace fs: what its files share.
 *
 * Threads: one. */
#pragma once

#include "cli/value.h"

enum { FS_SIZE_TEXT_BYTES = 32 };
/* "1.5 MiB" */
void fs_size_text(uint64_t bytes, char to[FS_SIZE_TEXT_BYTES]);
/* A name for a terminal: bytes that cannot be seen are shown as \xNN. */
void fs_name_print(struct bytes name);
static inline struct bytes fs_text(const char *text)
{
    return bytes_of(text, __builtin_strlen(text));
}
/* A directory of this machine goes below `to`. Returns the exit code. */
int fs_import(struct link *link, const char *from, const char *to);

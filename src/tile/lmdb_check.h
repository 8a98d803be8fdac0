/* lmdb_check.h - whether an LMDB file is whole, read page by page.
 *
 * LMDB maps its file and trusts it: a file that was cut short would be a SIGBUS, not an error. So
 * the header is looked at before a file is opened, and where that is doubtful every page that the
 * trees reach.
 *
 * Threads: any. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* *ret_damaged: the header is not LMDB's, or (deep, or when the file is shorter than its header
 * says) a tree leads to a page that is not there or is no page of a tree. RC_NOT_FOUND: no such
 * file, or an empty one. */
enum rc lmdb_check(const char *path, bool deep, bool *ret_damaged, struct err *err) NODISCARD;

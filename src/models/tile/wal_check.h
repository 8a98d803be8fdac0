// SPDX-License-Identifier: Apache-2.0
/* wal_check.h - whether the write-ahead log beside a SQLite file is whole.
 *
 * SQLite reads a log up to the first frame whose checksum is wrong, and takes what follows for the
 * rest of a commit that never was. That is right after a power cut, and silent loss after damage.
 * Frames behind the wrong one tell the two apart: a program that syncs each commit
 * (synchronous=FULL) begins the next one only when the one before it is on disk.
 *
 * Threads: any. */
#pragma once

#include "base/err.h"

enum wal_state {
    WAL_EMPTY,   /* there is no log, or nothing in it */
    WAL_WHOLE,   /* every frame of it is right */
    WAL_TORN,    /* its last commit is not: it may never have been one */
    WAL_DAMAGED, /* a commit in it is not, and others stand behind it */
};

/* RC_IO: it could not be read. */
enum rc wal_check(const char *path, enum wal_state *ret_state, struct err *err) NODISCARD;

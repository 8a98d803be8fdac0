// SPDX-License-Identifier: Apache-2.0
/* renew.h - a key that loses very many of its rows in one instant, and nobody waits for it.
 *
 * Rows that are deleted one by one in one commit hold the executor: half a second a million. Here
 * the rows that stay are built aside (build.h), a piece a commit, and in the last commit they take
 * the key's place; what goes is dropped as a group. Until then the key is as it was, for everybody
 * and after a crash. If it changes meanwhile it begins again, and after BUILD_TRIES_MAX beginnings
 * the command deletes the rows in one commit. So it does where the disk is full: what stays would
 * need room that is not there.
 *
 * Threads: the executor. */
#pragma once

#include "types/build.h"

enum {
    RENEW_ROWS_MIN = 32 * 1024, /* fewer rows are deleted in one commit: some 20 ms */
    RENEW_TIMES_MAX = 16,       /* so many times the rows that go may stay and be put again */
};

/* Whether a key that loses so many rows, of all it has, is to be renewed. build may be NULL: it is
 * not. */
bool renew_wanted(const struct build *build, const struct run *run, uint64_t row_count,
                  uint64_t gone_count);

struct renew {
    struct build *build; /* BUILD_FILLING */
    const struct key *key;
    /* Whether a row stays; asked once for each, in order. NULL: all do. What it answers counts: it
     * fails only for good. */
    enum rc (*stays)(void *arg, struct bytes suffix, struct bytes value, bool *ret_stays,
                     struct err *err);
    void *arg;
};
/* The next piece: RC_WAIT, RC_COLD. After the last one the build is BUILD_FULL. */
enum rc renew_piece(const struct renew *renew, struct err *err) NODISCARD;
/* BUILD_FULL: the key has the rows that were built from here on. The caller sets the count and
 * saves; deadline and time of creation stay. */
enum rc renew_end(struct build *build, struct key *key, struct err *err) NODISCARD;

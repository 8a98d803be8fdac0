// SPDX-License-Identifier: Apache-2.0
/* build.h - an object that is made in many commits and appears in one.
 *
 * COPY, MOVE and the STORE commands may have results of millions of rows. One commit of them would
 * hold the executor for seconds, and memory for everything at once. So they are built aside: rows
 * of a fresh ID, a piece a commit, that nobody can see, and last the meta row that names the ID.
 *
 *   commit 1       the garbage row of the ID (garbage.h): whatever happens, the sweep knows of it
 *   commits 2..n   pieces of rows; kv->builds tells the sweep to leave them alone
 *   commit n+1     the meta row, and the garbage row goes
 *
 * A crash, or a client that goes away, leaves the garbage row, and the sweep removes what was put.
 *
 * Invariants:
 *   (1) What is read is the same from the first piece to the last commit: the keys have the same
 *       IDs, and nobody has told of a change (`touched`). Otherwise it begins again with another
 *       ID; after BUILD_TRIES_MAX beginnings the command runs in one commit, as small ones do.
 *       So it is as atomic as it would be in one commit: as of the last one.
 *   (2) No row is put and no meta row names the ID unless its garbage row is in the namespace:
 *       FLUSHDB, SWAPDB and NAMESPACE DROP take both along.
 *   (3) What the struct says of rows has been committed: it changes when nothing of the commit can
 *       be cold any more or fail, but for what ends the command.
 *
 * Ownership: the owner has the struct for the time of the command and calls build_done().
 * Threads: the executor. */
#pragma once

#include "types/key.h"

enum {
    BUILD_ROWS_MIN = 4096, /* fewer rows are put in one commit */
    BUILD_PIECE_ROWS = 1024,
    BUILD_PIECE_BYTES = 256 * 1024,
    BUILD_TRIES_MAX = 3,
};

enum build_phase { BUILD_NONE, BUILD_FILLING, BUILD_FULL };

struct build {
    /* set by the owner; the rest starts as zero */
    bool lasts; /* there will be further commits; false: who needs them gets RC_WAIT */
    /* From now on `touched` is set when a key of the command changes. */
    enum rc (*listen)(struct build *build, struct err *err) NODISCARD;
    bool touched;
    /* for who builds */
    enum build_phase phase;
    struct key key; /* stands for the object: key_rows() are its rows, meta.count its elements */
    struct buf at;  /* how far the sources were read, if has_at */
    bool has_at;
    uint64_t left; /* of a result with a limit */
    void *work;    /* what else is kept between commits; freed when it begins again */
    void (*work_free)(void *work);
    /* for build.c */
    uint64_t inputs;
    unsigned tries;
    struct dlink link; /* in kv->builds unless phase is BUILD_NONE */
};

/* A part of a result: what is behind `after`, up to so many rows, or as much as is in memory. */
struct build_piece {
    bool has_after;
    struct bytes after;
    size_t count_max, bytes_max;
    bool ended; /* told by who reads: nothing is behind it */
};

void build_done(struct build *build);

/* Whether a result of so many rows is to be built aside. build may be NULL: it is not. */
bool build_wanted(const struct build *build, const struct run *run, uint64_t row_count);
/* Which keys a command reads, as one number: folds them, in order, beginning with 0. */
uint64_t build_input(uint64_t inputs, const struct key *key);
/* First in every commit: RC_OK: the next piece is to be put (BUILD_FILLING), or the object is to
 * appear (BUILD_FULL). RC_WAIT: this commit is for beginning, or beginning again. RC_COLD. */
enum rc build_step(struct build *build, const struct run *run, uint8_t type, uint64_t inputs,
                   struct err *err) NODISCARD;
struct build_piece build_piece(const struct build *build);
/* Last in a commit with a piece, which was read up to `at`: RC_WAIT. */
enum rc build_piece_end(struct build *build, uint64_t element_count, struct bytes at, bool ended,
                        struct err *err) NODISCARD;
/* key_replace() by the object that was built. The caller sets count and deadline, and saves. */
enum rc build_adopt(struct build *build, struct key *to, struct err *err) NODISCARD;
/* What a STORE command ends with: the object takes the place of the key, or, without elements, the
 * key goes. `event`: as Redis names it. */
enum rc build_store(struct build *build, const struct run *run, struct bytes to, enum kv_event kind,
                    const char *event, struct err *err) NODISCARD;

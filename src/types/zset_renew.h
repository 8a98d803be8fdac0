// SPDX-License-Identifier: Apache-2.0
/* zset_renew.h - very many elements of a sorted set go in one instant (renew.h).
 *
 *   first commits   who goes is told, one after the other, if somebody wants to know or if only
 *                   their ranks are known; nothing changes
 *   then            the rows of all others are built aside
 *   last            they take the key's place
 *
 * Threads: the executor. */
#pragma once

#include "types/renew.h"
#include "types/zset.h"

struct zset_gone { /* elements next to each other in order of scores */
    uint64_t count;
    bool has_span; /* these; otherwise: */
    struct zset_span span;
    bool reverse;  /* counted from the highest */
    uint64_t skip; /* those before them stay */
    /* NULL, or told of each, once and in order. `arg` is given to the work, which frees it when it
     * ends or begins again. */
    void (*tell)(void *arg, struct zset_item item);
    void *arg;
    void (*arg_free)(void *arg);
};

/* Whether a sorted set that loses so many elements is to be renewed; see renew_wanted(). */
bool zset_renew_wanted(const struct build *build, const struct key *key, uint64_t count);
/* Whether it has begun, and knows what goes. */
bool zset_renew_is_begun(const struct build *build);
/* Begins: the first piece, RC_WAIT, or RC_WAIT because it is not the time yet, and it is called
 * again. *ret_taken: `gone->arg` was taken. */
enum rc zset_renew_begin(const struct key *key, const struct zset_gone *gone, struct build *build,
                         bool *ret_taken, struct err *err) NODISCARD;
/* In every commit after that. RC_OK: they are gone, *ret_count of them, and the caller tells of it
 * and saves. *ret_arg: of who was told, good until the build ends. */
enum rc zset_renew_step(struct key *key, struct build *build, uint64_t *ret_count, void **ret_arg,
                        struct err *err) NODISCARD;

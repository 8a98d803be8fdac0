// SPDX-License-Identifier: Apache-2.0
/* set_renew.h - very many random members of a set go in one instant (renew.h). They are told as the
 * others are built aside, in order of members.
 *
 * Threads: the executor. */
#pragma once

#include "types/renew.h"

struct set_gone {
    uint64_t count; /* how many; at least 1, and no more than there are */
    /* Told of each, once. `arg` is given to the work, which frees it when it ends or begins again.
     */
    void (*tell)(void *arg, struct bytes member);
    void *arg;
    void (*arg_free)(void *arg);
};

/* Whether it has begun, and drawn some. */
bool set_renew_is_begun(const struct build *build);
/* Begins: RC_WAIT, if only because it is not the time yet, and it is called again. *ret_taken:
 * `gone->arg` was taken. */
enum rc set_renew_begin(const struct key *key, const struct set_gone *gone, struct build *build,
                        bool *ret_taken, struct err *err) NODISCARD;
/* In every commit after that. RC_OK: they are gone, and the caller tells of it and saves. *ret_arg:
 * of who was told, good until the build ends. */
enum rc set_renew_step(struct key *key, struct build *build, void **ret_arg,
                       struct err *err) NODISCARD;

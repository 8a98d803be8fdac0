// SPDX-License-Identifier: Apache-2.0
/* cmd.h - what the server's own handlers get beside command/command.h: results and replies that
 * take many commits, and the list of commands.
 *
 * Threads: the executor. */
#pragma once

#include "command/command.h"
#include "types/build.h"

/* A key of another type is an error for who asks; who has waited for it goes on waiting. */
bool cmd_has_waited(const struct cmd_ctx *ctx);

/* Waits until everything committed before is in the engine. RC_OK, at last, or what the handler has
 * to return. */
enum rc cmd_flush_wait(struct cmd_ctx *ctx) NODISCARD;

/* For a result that may be large (types/build.h); NULL: it has to be put in one commit. RC_WAIT of
 * who builds is what the handler returns. target_arg: where the key stands that is written and not
 * read; 0: there is none in this database. */
struct build *cmd_build(struct cmd_ctx *ctx, size_t target_arg);

/* A reply that may be long is written in slices, so that others do not wait for it: between two of
 * them the handler returns RC_WAIT, and runs again from its start. It writes its head, begins, goes
 * on from where it stood, and keeps its place when the slice is full or something is cold. */
struct cmd_long {
    bool begun; /* there were slices before this one */
    bool has_at;
    struct buf at; /* where to go on, if has_at */
    uint64_t done; /* what is written: elements or bytes; the handler counts */
    /* What else the handler keeps until the reply is whole, or begins again. */
    void *work;
    void (*work_free)(void *work);
    size_t work_bytes;
    /* for request_long.c */
    struct ns *ns;
    uint64_t inputs;
    bool touched, in_reply;
    unsigned tries;
    struct buf saved;
    size_t kept, reply_start;
    uint64_t elements_left;
};
/* What a command that is no request yet is given: with RC_WAIT it becomes one. */
struct cmd_asked {
    struct build build;
    struct cmd_long slow;
};
/* Behind the reply's head, which is cut if it is there already. `inputs`: build_input() of the
 * keys; `elements`: about so many will follow. *ret_long NULL: all of it is written in one go.
 * RC_WAIT: not in this run. */
enum rc cmd_long_begin(struct cmd_ctx *ctx, uint64_t inputs, uint64_t elements,
                       struct cmd_long **ret_long) NODISCARD;
/* So many bytes will follow in all: a buffer that grows would copy them again and again. */
void cmd_long_expect(struct cmd_ctx *ctx, const struct cmd_long *slow, uint64_t bytes);
/* After each element: whether the slice ends here. slow may be NULL: it does not. */
bool cmd_long_full(struct cmd_ctx *ctx, struct cmd_long *slow);
/* How many elements may be looked at in this slice, for who does not ask cmd_long_full(). */
uint64_t cmd_long_count(const struct cmd_long *slow);
/* What is written stays written if rc is RC_WAIT or RC_COLD, and `at` is where to go on; returns
 * rc.
 */
enum rc cmd_long_keep(struct cmd_ctx *ctx, struct cmd_long *slow, struct bytes at,
                      enum rc rc) NODISCARD;

/* ---- the list ---- */

const struct cmd *cmd_list(size_t *ret_count);

#define CMD CMD_DECLARE
#include "server/commands.def"
#undef CMD

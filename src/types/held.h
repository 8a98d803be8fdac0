// SPDX-License-Identifier: Apache-2.0
/* held.h - the meta row of a key that commands change one after the other, written once.
 *
 * A push changes two rows: its element, and the meta row with the count and the ends. Of sixteen
 * pushes in a pipeline fifteen meta rows are there only to be read by the next push. So who runs
 * commands and sees the next one before it runs may let a command leave its meta row here.
 *
 *   held_begin(kv, next_is_same)      before the command: may it leave its row here?
 *   ... key_write(), key_save() ...   look here first; key.c alone knows how
 *   held_undo(kv)                     if the command was taken back
 *   held_write(kv)                   before anything else may look, and before the turn ends
 *
 * Invariants:
 *   (1) While a row is held, only commands that find and save their key by key.c run, and only on
 *       that key. It is written before every other command, task and end of a turn.
 *   (2) A turn is safe as a whole or taken back as a whole: elements and held row too. If the row
 *       cannot be put at the end, the turn is refused.
 *   (3) What is held is newer than the stored row, and there is a stored row.
 *   (4) A command that is taken back leaves what was held before it.
 *
 * Threads: the executor. */
#pragma once

#include "types/meta.h"

struct kv;
struct ns;

enum { HELD_NAME_BYTES_MAX = 128, HELD_EXTRA_BYTES_MAX = 16 };

struct held_row {
    bool is; /* otherwise nothing is held */
    uint8_t extra_len;
    uint8_t extra[HELD_EXTRA_BYTES_MAX];
    struct meta meta; /* but for extra */
};

struct held { /* a part of struct kv */
    bool allowed;
    struct held_row row;
    struct held_row before; /* as the command that runs found it: (4) */
    struct ns *ns;
    size_t name_len;
    uint8_t name[HELD_NAME_BYTES_MAX];
};

/* Outside commits, before a command runs; allowed: it may leave its meta row here. */
void held_begin(struct kv *kv, bool allowed);
/* After store_undo() of that command. */
void held_undo(struct kv *kv);
/* Outside commits: puts the row in a commit of its own. */
void held_write(struct kv *kv);

static inline bool held_is(const struct held *held, const struct ns *ns, struct bytes name)
{
    return held->row.is && held->ns == ns && bytes_eq(bytes_of(held->name, held->name_len), name);
}

/* ---- for key.c ---- */

/* The held row of this key, extra borrowed until the next change. */
bool held_get(const struct held *held, const struct ns *ns, struct bytes name,
              struct meta *ret_meta);
/* Keeps the row of a key that is stored; false: it has to be put. */
bool held_put(struct held *held, struct ns *ns, struct bytes name, const struct meta *meta,
              struct bytes extra);
/* The stored row of this key was put or deleted. */
void held_drop(struct held *held, const struct ns *ns, struct bytes name);

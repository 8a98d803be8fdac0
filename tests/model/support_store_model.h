// SPDX-License-Identifier: Apache-2.0
/* support_store_model.h - what a store should hold, as simply as it can be written down.
 *
 * A fixed set of groups, each a sorted array of rows. Suffixes come from one sorted list for all
 * groups, so a suffix is a number and numbers are in byte order. Values are slices of random bytes,
 * some with a group key in front of them (for spaces that strip it). Every change is kept with what
 * was there before, so the model can go back to any commit that may still be asked for.
 *
 * Ownership: mirror_done() frees everything.
 * Threads: one. */
#pragma once

#include "base/buf.h"
#include "base/rand.h"
#include "store/engine/space.h"

enum {
    MODEL_SUFFIXES = 2048,
    MODEL_PATTERN_BYTES = 1 << 16,
    MODEL_VALUE_BYTES_MAX = 5000,
    MODEL_PREFIXES = 9,
    MODEL_COUNTERS = 3,
    MODEL_GROUPS_MAX = 512,
    MODEL_SPACES = 6,
};

struct mirror_value {
    bool present;
    bool keyed; /* the key of group `key_group` stands in front */
    uint16_t key_group;
    uint16_t len; /* of the slice */
    uint32_t offset;
};

struct mirror_row {
    uint16_t id;
    struct mirror_value value;
};

struct mirror_group {
    uint32_t prefix;   /* index into mirror_prefixes */
    struct bytes key;  /* owned: what follows the prefix */
    uint32_t id_count; /* rows use this many suffixes, `id_step` apart */
    uint32_t id_step;
    bool whole; /* one row, empty suffix */
    bool used;  /* has ever been written */
    struct mirror_row *row;
    size_t count, cap;
};

struct mirror_change {
    uint64_t lsn;   /* 0: its commit is open */
    uint32_t group; /* MODEL_GROUPS_MAX + n: counter n */
    uint16_t id;
    struct mirror_value before, after;
    int64_t delta;
};

struct mirror_prefix {
    uint8_t space;
    struct bytes bytes;
};

struct mirror {
    struct bytes suffix[MODEL_SUFFIXES]; /* sorted; the first is empty */
    uint8_t *pattern;
    struct mirror_group group[MODEL_GROUPS_MAX];
    size_t group_count;
    size_t tree_first; /* groups from here on have many rows, those before are whole */
    int64_t counter[MODEL_COUNTERS];
    struct mirror_change *log; /* oldest first */
    size_t log_count, log_cap;
    size_t log_at; /* changes from here on are taken back for a while: mirror_shift() */
    struct buf scratch[2];
};

extern const struct store_space mirror_spaces[MODEL_SPACES];
extern const struct mirror_prefix mirror_prefixes[MODEL_PREFIXES];

void mirror_init(struct mirror *model, struct rand *rand);
void mirror_done(struct mirror *model);

/* The bytes are borrowed until the next call with the same place (0 or 1). */
struct bytes mirror_value_bytes(struct mirror *model, struct mirror_value value, int place);
struct mirror_value mirror_value_draw(struct mirror *model, struct rand *rand, uint32_t group);
/* Suffixes below this one: the number it has or would have. */
size_t mirror_suffix_place(const struct mirror *model, struct bytes suffix, bool *ret_exact);
uint16_t mirror_id_draw(const struct mirror *model, struct rand *rand, uint32_t group);

/* The first row with a number >= id; count: none. */
size_t mirror_row_place(const struct mirror_group *group, size_t id);
const struct mirror_value *mirror_get(const struct mirror *model, uint32_t group, uint16_t id);
void mirror_set(struct mirror *model, uint32_t group, uint16_t id, struct mirror_value value);
void mirror_group_drop(struct mirror *model, uint32_t group);
void mirror_prefix_drop(struct mirror *model, uint32_t prefix);
void mirror_counter_add(struct mirror *model, uint32_t counter, int64_t delta);
uint64_t mirror_row_count(const struct mirror *model);

/* Changes without a commit get this LSN. */
void mirror_commit(struct mirror *model, uint64_t lsn);
void mirror_undo_to(struct mirror *model, size_t log_count);
/* Takes back everything after the LSN, for good. */
void mirror_cut(struct mirror *model, uint64_t lsn);
/* Shows the state at an LSN; UINT64_MAX: of now. Nothing may be changed in between. */
void mirror_shift(struct mirror *model, uint64_t lsn);
/* Nobody will ask for a state before this LSN any more. */
void mirror_forget(struct mirror *model, uint64_t lsn);

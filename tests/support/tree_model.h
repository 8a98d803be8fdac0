// SPDX-License-Identifier: Apache-2.0
/* tree_model.h - a tree beside what it must agree with: the truth, and an engine that lags behind.
 *
 * Each step is a commit (that may be undone), a seal, a flush, a part of a load, an eviction, or
 * the end of an empty group; who chooses is given, so that randomness and a fuzzer can drive it.
 * After each step everything the tree claims to know is compared with the truth, and what it does
 * not claim to know must be in the engine exactly as it is true. A disagreement aborts.
 *
 * Ownership: the model owns all.
 * Threads: one owner. */
#pragma once

#include <stdint.h>

struct tree_model;

struct tree_model_options {
    uint32_t key_count;
    uint32_t suffix_bytes_max; /* 0: short numbers; else of random lengths, up to this */
    uint32_t value_bytes_max;
    uint32_t check_every; /* steps between two comparisons of everything; 0: each */
    uint32_t (*choose)(void *arg, uint32_t limit); /* 0 .. limit-1 */
    void *arg;
};

struct tree_model *tree_model_new(const struct tree_model_options *options);
/* Checks that nothing is left in the meter. */
void tree_model_free(struct tree_model *model);
void tree_model_step(struct tree_model *model);
void tree_model_fill(struct tree_model *model); /* puts every key, in one commit each */
void tree_model_check(struct tree_model *model);

struct tree_model_counts { /* so that a test can see that something happened */
    uint32_t height_max;
    uint64_t undo_count, evict_count, finish_count, row_fill_count, complete_count, leave_count;
    uint64_t pass_count; /* entries behind which a load read on */
};
struct tree_model_counts tree_model_counts(const struct tree_model *model);

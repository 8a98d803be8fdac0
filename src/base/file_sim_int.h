// SPDX-License-Identifier: Apache-2.0
/* file_sim_int.h - what a simulated file holds; for file_sim*.c only.
 *
 * free_bytes is the simulated disk's, UINT64_MAX without a limit.
 * Ownership: nodes are counted.
 * Threads: under the lock of their struct file_sim. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rand.h"

struct file;

struct change { /* of a file's content, not synced yet */
    bool truncates;
    bool lost;
    uint64_t offset; /* the new length where it truncates */
    size_t len;
    uint8_t *data; /* owned */
};

struct content {
    uint8_t *ptr;
    size_t len;
    size_t cap;
};

struct node {
    unsigned ref_count;
    bool is_dir;
    struct content seen;
    struct content synced;
    struct change *change; /* pending, oldest first */
    size_t change_count;
    size_t change_cap;
    uint64_t charged_bytes;     /* taken from the free space */
    const struct file *lock_of; /* borrowed, NULL: not locked */
};

struct node *file_sim__node_new(bool is_dir);       /* with no reference yet */
struct node *file_sim__node_ref(struct node *node); /* NULL is allowed */
void file_sim__node_unref(uint64_t *free_bytes, struct node *node);
void file_sim__node_change(struct node *node, struct change change); /* takes change.data */
void file_sim__node_sync(struct node *node);
void file_sim__node_sync_failed(struct node *node);
void file_sim__node_power_cut(uint64_t *free_bytes, struct node *node, bool torn,
                              struct rand *rand);
/* True if the node may grow to len bytes; then they are taken from the free space. */
bool file_sim__node_charge(uint64_t *free_bytes, struct node *node, uint64_t len);
void file_sim__node_charge_at_most(uint64_t *free_bytes, struct node *node, uint64_t len);

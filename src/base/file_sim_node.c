// SPDX-License-Identifier: Apache-2.0
/* file_sim_node.c - the content of a simulated file: what is seen, what is synced.
 *
 * Invariant:
 *   (1) A node's synced content plus its pending changes, in order, is its seen content, unless a
 *       sync failed: then the changes it was asked for are lost, as in the Linux page cache, which
 *       drops what it could not write and says yes to the next sync. */
#include "base/file_sim_int.h"

#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

enum { SIM_SECTOR_BYTES = 512 };

static void content_resize(struct content *content, size_t len)
{
    if (len > content->cap) {
        content->cap = len > 2 * content->cap ? len : 2 * content->cap;
        content->ptr = mem_realloc(content->ptr, content->cap);
    }
    if (len > content->len)
        memset(content->ptr + content->len, 0, len - content->len);
    content->len = len;
}

static void content_write(struct content *content, uint64_t offset, const void *data, size_t len)
{
    if (len == 0)
        return;
    if (offset + len > content->len)
        content_resize(content, offset + len);
    memcpy(content->ptr + offset, data, len);
}

static void content_apply(struct content *content, const struct change *change)
{
    if (change->truncates)
        content_resize(content, change->offset);
    else
        content_write(content, change->offset, change->data, change->len);
}

static void content_copy(struct content *to, const struct content *from)
{
    to->len = 0;
    content_resize(to, from->len);
    if (from->len)
        memcpy(to->ptr, from->ptr, from->len);
}

/* What a disk may have of a write that nobody waited for: a first part, or any of its sectors; the
 * length may have grown although the bytes did not arrive. */
static void content_apply_torn(struct content *content, const struct change *change,
                               struct rand *rand)
{
    uint64_t kind = rand_below(rand, 4);
    if (kind == 0)
        return;
    if (kind == 1 || change->truncates) {
        content_apply(content, change);
        return;
    }
    if (kind == 2) {
        content_write(content, change->offset, change->data, rand_below(rand, change->len + 1));
        return;
    }
    if (rand_below(rand, 2) && change->offset + change->len > content->len)
        content_resize(content, change->offset + change->len);
    for (size_t at = 0; at < change->len;) {
        size_t part = SIM_SECTOR_BYTES - (change->offset + at) % SIM_SECTOR_BYTES;
        if (part > change->len - at)
            part = change->len - at;
        if (rand_below(rand, 2))
            content_write(content, change->offset + at, change->data + at, part);
        at += part;
    }
}

struct node *file_sim__node_new(bool is_dir)
{
    struct node *node = mem_zalloc(sizeof *node);
    node->is_dir = is_dir;
    return node;
}

struct node *file_sim__node_ref(struct node *node)
{
    if (node)
        node->ref_count++;
    return node;
}

static void node_clear_changes(struct node *node)
{
    for (size_t i = 0; i < node->change_count; i++)
        mem_free(node->change[i].data);
    node->change_count = 0;
}

void file_sim__node_unref(uint64_t *free_bytes, struct node *node)
{
    if (!node || --node->ref_count > 0)
        return;
    if (*free_bytes != UINT64_MAX)
        *free_bytes += node->charged_bytes;
    node_clear_changes(node);
    mem_free(node->change);
    mem_free(node->seen.ptr);
    mem_free(node->synced.ptr);
    mem_free(node);
}

void file_sim__node_change(struct node *node, struct change change)
{
    if (node->change_count == node->change_cap) {
        node->change_cap = node->change_cap ? 2 * node->change_cap : 8;
        node->change = mem_realloc(node->change, node->change_cap * sizeof *node->change);
    }
    node->change[node->change_count++] = change;
    content_apply(&node->seen, &change);
}

void file_sim__node_sync_failed(struct node *node)
{
    for (size_t i = 0; i < node->change_count; i++)
        node->change[i].lost = true; /* (1) */
}

void file_sim__node_sync(struct node *node)
{
    for (size_t i = 0; i < node->change_count; i++) {
        if (!node->change[i].lost)
            content_apply(&node->synced, &node->change[i]); /* (1) */
    }
    node_clear_changes(node);
}

/* True if the node may grow to len bytes; then they are taken from the free space. */
bool file_sim__node_charge(uint64_t *free_bytes, struct node *node, uint64_t len)
{
    if (len <= node->charged_bytes)
        return true;
    uint64_t more = len - node->charged_bytes;
    if (*free_bytes != UINT64_MAX) {
        if (more > *free_bytes)
            return false;
        *free_bytes -= more;
    }
    node->charged_bytes = len;
    return true;
}

void file_sim__node_charge_at_most(uint64_t *free_bytes, struct node *node, uint64_t len)
{
    if (len >= node->charged_bytes)
        return;
    if (*free_bytes != UINT64_MAX)
        *free_bytes += node->charged_bytes - len;
    node->charged_bytes = len;
}

void file_sim__node_power_cut(uint64_t *free_bytes, struct node *node, bool torn, struct rand *rand)
{
    if (torn) {
        for (size_t i = 0; i < node->change_count; i++)
            content_apply_torn(&node->synced, &node->change[i], rand);
    }
    node_clear_changes(node);
    content_copy(&node->seen, &node->synced);
    file_sim__node_charge_at_most(free_bytes, node, node->seen.len);
    node->lock_of = NULL;
}

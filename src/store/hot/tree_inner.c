// SPDX-License-Identifier: Apache-2.0
/* tree_inner.c - inner nodes: children and separators, searched, split, merged. */
#include "store/hot/tree_inner.h"

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

struct bytes inner_sep_bytes(const struct inner_sep *sep)
{
    if (sep->len <= INNER_SEP_BYTES)
        return bytes_of(sep->in, sep->len);
    const uint8_t *ptr;
    memcpy(&ptr, sep->in, sizeof ptr);
    return bytes_of(ptr, sep->len);
}

void inner_sep_init(struct inner_sep *sep, struct bytes bytes, struct meter *meter)
{
    *sep = (struct inner_sep){.len = (uint32_t)bytes.len};
    if (bytes.len <= INNER_SEP_BYTES) {
        if (bytes.len)
            memcpy(sep->in, bytes.ptr, bytes.len);
        return;
    }
    void *copy = mem_dup(bytes.ptr, bytes.len);
    memcpy(sep->in, &copy, sizeof copy);
    meter_add(meter, 0, mem_class_bytes(bytes.len));
}

static void sep_done(struct inner_sep *sep, struct meter *meter)
{
    if (sep->len > INNER_SEP_BYTES) {
        meter_sub(meter, 0, mem_class_bytes(sep->len));
        mem_free((void *)(uintptr_t)inner_sep_bytes(sep).ptr);
    }
    *sep = (struct inner_sep){0};
}

struct inner *inner_new(struct meter *meter)
{
    struct inner *node = mem_zalloc(sizeof *node);
    meter_add(meter, 0, mem_class_bytes(sizeof *node));
    return node;
}

void inner_free(struct inner *node, struct meter *meter)
{
    for (uint16_t i = 0; i < node->count; i++)
        sep_done(&node->sep[i], meter);
    meter_sub(meter, 0, mem_class_bytes(sizeof *node));
    mem_free(node);
}

/* ---- searching ---- */

static struct bytes sep_rest(const struct inner *node, uint16_t index)
{
    return bytes_from(inner_sep_bytes(&node->sep[index]), node->skip);
}

static size_t shared_len(const struct inner *node)
{
    return node->skip < INNER_SHARED_BYTES ? node->skip : INNER_SHARED_BYTES;
}

/* How the suffix compares with what all separators begin with; 0: it begins with it as well. Both
 * begin with the same `known` bytes. */
static int shared_cmp(const struct inner *node, struct bytes suffix, size_t known)
{
    size_t len = node->skip - known;
    const uint8_t *at;
    if (LIKELY(len <= INNER_SHARED_BYTES))
        at = node->shared + (shared_len(node) - len);
    else /* a jump of more bytes than the node holds */
        at = inner_sep_bytes(&node->sep[1]).ptr + known;
    struct bytes shared = bytes_of(at, len), rest = bytes_from(suffix, known);
    return bytes_start_with(rest, shared) ? 0 : bytes_cmp(rest, shared);
}

/* How many separators have a head that is not above. Compared in parallel, eighths first: a binary
 * search would wait for each comparison before the next. */
static uint32_t heads_upto(const uint64_t *head, uint64_t wanted)
{
    uint32_t at = 8 * ((uint32_t)(head[8] <= wanted) + (head[16] <= wanted) + (head[24] <= wanted));
    head += at;
    return at + (head[1] <= wanted) + (head[2] <= wanted) + (head[3] <= wanted) +
           (head[4] <= wanted) + (head[5] <= wanted) + (head[6] <= wanted) + (head[7] <= wanted);
}

uint16_t inner_find(const struct inner *node, struct bytes suffix, size_t *known)
{
    if (node->skip > *known) {
        int order = shared_cmp(node, suffix, *known);
        if (order != 0)
            return order < 0 ? 0 : (uint16_t)(node->count - 1);
    }
    uint64_t head = be64_head(suffix, node->skip);
    uint32_t index = heads_upto(node->head, head);
    if (UNLIKELY(index >= node->count)) /* those behind the last are as large */
        index = node->count - 1u;
    while (index > 0 && UNLIKELY(node->head[index] == head) &&
           bytes_cmp(sep_rest(node, (uint16_t)index), bytes_from(suffix, node->skip)) > 0)
        index--;
    if (index > 0 && index + 1 < node->count) /* between two separators that share it */
        *known = node->skip;
    return (uint16_t)index;
}

uint64_t inner_live(const struct inner *node)
{
    uint64_t live = 0;
    for (uint16_t i = 0; i < node->count; i++)
        live += node->live[i];
    return live;
}

/* ---- changing ---- */

static uint16_t skip_of(const struct inner *node)
{
    if (node->count < 2)
        return 0;
    struct bytes first = inner_sep_bytes(&node->sep[1]);
    struct bytes last = inner_sep_bytes(&node->sep[node->count - 1]);
    if (first.len > UINT16_MAX)
        first.len = UINT16_MAX;
    return (uint16_t)bytes_shared_len(first, last);
}

/* Makes (2), (3) and (4) hold again after the separators `from` to `to` came or moved. */
static void heads_update(struct inner *node, uint16_t from, uint16_t to)
{
    uint16_t skip = skip_of(node);
    if (skip != node->skip) {
        node->skip = skip;
        from = 1;
        to = node->count;
    }
    if (skip)
        memcpy(node->shared, inner_sep_bytes(&node->sep[1]).ptr + skip - shared_len(node),
               shared_len(node));
    for (uint16_t i = from ? from : 1; i < to; i++)
        node->head[i] = be64_head(inner_sep_bytes(&node->sep[i]), skip);
    for (size_t i = node->count; i < INNER_HEADS; i++)
        node->head[i] = UINT64_MAX;
}

/* Shifts the children from `from` on to `to`; the places between are undefined. */
static void children_shift(struct inner *node, uint16_t from, uint16_t to)
{
    size_t count = (size_t)node->count - from;
    memmove(&node->head[to], &node->head[from], count * sizeof *node->head);
    memmove(&node->child[to], &node->child[from], count * sizeof *node->child);
    memmove(&node->live[to], &node->live[from], count * sizeof *node->live);
    memmove(&node->sep[to], &node->sep[from], count * sizeof *node->sep);
}

void inner_insert(struct inner *node, uint16_t index, struct inner_child child)
{
    ASSERT(node->count < INNER_CHILDREN_MAX);
    children_shift(node, index, (uint16_t)(index + 1));
    node->child[index] = child.ptr;
    node->live[index] = child.live;
    node->sep[index] = child.sep;
    node->count++;
    heads_update(node, index, (uint16_t)(index + 1));
}

void inner_remove(struct inner *node, uint16_t index, struct meter *meter)
{
    sep_done(&node->sep[index], meter);
    children_shift(node, (uint16_t)(index + 1), index);
    node->count--;
    if (index == 0 && node->count > 0)
        sep_done(&node->sep[0], meter); /* its interval begins with the node's now */
    heads_update(node, 0, 0);
}

/* Copies the children from `from` on behind those of `to`. */
static void children_append(struct inner *to, const struct inner *node, uint16_t from)
{
    size_t count = (size_t)node->count - from;
    memcpy(&to->child[to->count], &node->child[from], count * sizeof *node->child);
    memcpy(&to->live[to->count], &node->live[from], count * sizeof *node->live);
    memcpy(&to->sep[to->count], &node->sep[from], count * sizeof *node->sep);
    to->count = (uint16_t)(to->count + count);
}

struct inner_child inner_split(struct inner *node, uint16_t at, struct meter *meter)
{
    struct inner *right = inner_new(meter);
    children_append(right, node, at);
    node->count = at;
    struct inner_child child = {.ptr = right, .live = inner_live(right), .sep = right->sep[0]};
    right->sep[0] = (struct inner_sep){0}; /* moved up: below it says nothing */
    heads_update(node, 0, 0);
    heads_update(right, 1, right->count);
    return child;
}

bool inner_merge(struct inner *parent, uint16_t index, struct meter *meter)
{
    struct inner *left = parent->child[index], *right = parent->child[index + 1];
    uint16_t before = left->count;
    if (before + right->count > INNER_CHILDREN_MAX * 3 / 4)
        return false;
    right->sep[0] = parent->sep[index + 1]; /* moves down */
    parent->sep[index + 1] = (struct inner_sep){0};
    children_append(left, right, 0);
    heads_update(left, before, left->count);
    parent->live[index] += parent->live[index + 1];
    right->count = 0; /* its separators moved */
    inner_free(right, meter);
    return true;
}

void inner_check(const struct inner *node)
{
    ASSERT(node->count > 0);
    ASSERT(node->count <= INNER_CHILDREN_MAX);
    ASSERT(node->sep[0].len == 0);
    ASSERT(node->skip == skip_of(node));
    if (node->skip)
        ASSERT(memcmp(node->shared,
                      inner_sep_bytes(&node->sep[1]).ptr + node->skip - shared_len(node),
                      shared_len(node)) == 0);
    for (uint16_t i = 1; i < node->count; i++)
        ASSERT(node->head[i] == be64_head(inner_sep_bytes(&node->sep[i]), node->skip));
    for (size_t i = node->count; i < INNER_HEADS; i++)
        ASSERT(node->head[i] == UINT64_MAX);
}

#include "store/block.h"

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    BLOCK_BYTES_FIRST = 64,
    SHRINK_ABOVE_BYTES = 256, /* smaller blocks are not worth a copy */
    HEAD_BYTES = 8,
    OUT_PREFETCH_LINES = 4, /* the processor sees that more are read */
    OUT_ENTRY_BYTES = 1 + sizeof(struct block_out *) + HEAD_BYTES,
};

static uint8_t *block_base(const struct block *block)
{
    return (uint8_t *)(uintptr_t)block;
}

static uint16_t *block_slot(const struct block *block, uint16_t index)
{
    return (uint16_t *)(void *)(block_base(block) + sizeof *block) + index;
}

/* Offsets count from the end, so that a block grows by moving two pieces. */
static uint8_t *block_at(const struct block *block, uint16_t index)
{
    return block_base(block) + block->size - *block_slot(block, index);
}

static struct block *block_alloc(struct meter *meter, uint32_t segment, size_t needed)
{
    size_t size = mem_class_bytes(needed);
    ASSERT(size <= BLOCK_BYTES_MAX);
    struct block *block = mem_alloc(size);
    *block = (struct block){.segment = segment, .size = (uint16_t)size, .ref = 1};
    meter_add(meter, segment, size);
    return block;
}

struct block *block_new(struct meter *meter, uint32_t segment)
{
    return block_alloc(meter, segment, BLOCK_BYTES_FIRST);
}

static size_t out_bytes(const struct block_out *out)
{
    return mem_class_bytes(sizeof *out + out->suffix_len + out->value_len);
}

struct block_out *block_out_new(struct bytes suffix, struct bytes value, uint32_t segment,
                                struct meter *meter)
{
    struct block_out *out = mem_try_alloc(sizeof *out + suffix.len + value.len);
    if (!out)
        return NULL;
    out->segment = segment;
    out->suffix_len = (uint32_t)suffix.len;
    out->value_len = (uint32_t)value.len;
    if (suffix.len)
        memcpy(out->bytes, suffix.ptr, suffix.len);
    if (value.len)
        memcpy(out->bytes + suffix.len, value.ptr, value.len);
    meter_add(meter, segment, out_bytes(out));
    return out;
}

void block_out_free(struct block_out *out, struct meter *meter)
{
    if (!out)
        return;
    meter_sub(meter, out->segment, out_bytes(out));
    mem_free(out);
}

/* Entries are our own memory, so lengths are read without checking ends. One byte is the common
 * case. */
static inline size_t length_get(const uint8_t **at)
{
    size_t len = *(*at)++;
    if (LIKELY(len < 0x80))
        return len;
    len = (len & 0x7f) | (size_t)(*(*at)++) << 7; /* inline lengths are below 2^14 */
    return len;
}

static inline struct block_out *out_get(const uint8_t *at)
{
    struct block_out *out;
    memcpy(&out, at, sizeof out);
    return out;
}

static size_t entry_len(const uint8_t *at)
{
    if (*at & ENTRY_OUT)
        return OUT_ENTRY_BYTES;
    const uint8_t *from = at;
    bool tomb = *at++ & ENTRY_TOMB;
    size_t len = length_get(&at);
    at += len;
    if (!tomb) {
        len = length_get(&at);
        at += len;
    }
    return (size_t)(at - from);
}

static size_t entry_len_for(uint8_t flags, struct bytes suffix, struct bytes value)
{
    if (flags & ENTRY_OUT)
        return OUT_ENTRY_BYTES;
    size_t len = 1 + (suffix.len < 0x80 ? 1 : 2) + suffix.len;
    if (!(flags & ENTRY_TOMB))
        len += (value.len < 0x80 ? 1 : 2) + value.len;
    return len;
}

/* The first eight bytes as a number that orders as they do, filled up with zeros. What follows a
 * short suffix in the block is read along, up to `end`, and masked. */
static inline uint64_t head_of(struct bytes suffix, const uint8_t *end)
{
    if (LIKELY(suffix.len >= 8))
        return be64_get(suffix.ptr);
    if (LIKELY(suffix.len > 0 && end - suffix.ptr >= 8))
        return be64_get(suffix.ptr) & UINT64_MAX << (64 - 8 * suffix.len);
    return be64_head(suffix, 0);
}

static void entry_put(uint8_t *to, uint8_t flags, struct bytes suffix, struct bytes value,
                      struct block_out *out)
{
    *to++ = flags;
    if (flags & ENTRY_OUT) {
        ASSERT(out);
        struct bytes own = bytes_of(out->bytes, out->suffix_len);
        memcpy(to, &out, sizeof out);
        be64_put(to + sizeof out, be64_head(own, 0));
        return;
    }
    to += uvarint_put(to, suffix.len);
    if (suffix.len)
        memcpy(to, suffix.ptr, suffix.len);
    to += suffix.len;
    if (flags & ENTRY_TOMB)
        return;
    to += uvarint_put(to, value.len);
    if (value.len)
        memcpy(to, value.ptr, value.len);
}

/* ---- searching ---- */

struct wanted {
    struct bytes suffix, rest; /* rest: behind what all entries share */
    size_t skip;               /* that is so long */
    uint64_t head, rest_head;  /* the first eight bytes of both */
};

static inline struct wanted wanted_of(struct bytes suffix, size_t skip)
{
    struct wanted wanted = {.suffix = suffix, .rest = bytes_from(suffix, skip), .skip = skip};
    wanted.head = be64_head(suffix, 0);
    wanted.rest_head = be64_head(suffix, skip);
    return wanted;
}

static int out_cmp(const uint8_t *at, const struct wanted *wanted)
{
    uint64_t mine = be64_get(at + 1 + sizeof(struct block_out *));
    if (LIKELY(mine != wanted->head))
        return mine < wanted->head ? -1 : 1;
    const struct block_out *out = out_get(at + 1);
    return bytes_cmp(bytes_of(out->bytes, out->suffix_len), wanted->suffix);
}

/* Most suffixes differ in the first eight bytes behind what all share. */
static inline int entry_cmp(const struct block *block, uint16_t index, const struct wanted *wanted)
{
    const uint8_t *at = block_at(block, index);
    if (UNLIKELY(*at & ENTRY_OUT))
        return out_cmp(at, wanted);
    at++;
    size_t len = length_get(&at);
    struct bytes rest = bytes_from(bytes_of(at, len), wanted->skip);
    uint64_t mine = head_of(rest, block_base(block) + block->size);
    if (LIKELY(mine != wanted->rest_head))
        return mine < wanted->rest_head ? -1 : 1;
    return bytes_cmp(rest, wanted->rest);
}

uint16_t block_find_skip(const struct block *block, struct bytes suffix, size_t skip,
                         bool *ret_exact)
{
    uint32_t low = 0, left = block->count;
    struct wanted wanted = wanted_of(suffix, skip);
    while (left > 0) { /* which half it is would not be foreseen: no branch */
        uint32_t half = (left + 1) / 2;
        low += half & -(uint32_t)(entry_cmp(block, (uint16_t)(low + half - 1), &wanted) < 0);
        left -= half;
    }
    *ret_exact = low < block->count && entry_cmp(block, (uint16_t)low, &wanted) == 0;
    return (uint16_t)low;
}

uint16_t block_find(const struct block *block, struct bytes suffix, bool *ret_exact)
{
    return block_find_skip(block, suffix, 0, ret_exact);
}

uint16_t block_find_end(const struct block *block, struct bytes suffix, bool *ret_exact)
{
    struct wanted wanted = wanted_of(suffix, 0);
    uint16_t last = (uint16_t)(block->count - 1);
    int order = entry_cmp(block, last, &wanted);
    *ret_exact = order == 0;
    if (order <= 0)
        return (uint16_t)(last + (order < 0));
    order = entry_cmp(block, 0, &wanted);
    *ret_exact = order == 0;
    if (order >= 0)
        return 0;
    return block_find(block, suffix, ret_exact);
}

uint16_t block_prefetch_out(const struct block *block, struct bytes suffix)
{
    uint16_t low = 0, high = block->count;
    uint64_t head = be64_head(suffix, 0);
    while (low < high) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        const uint8_t *at = block_at(block, middle);
        if (!(*at & ENTRY_OUT))
            break;
        uint64_t mine = be64_get(at + 1 + sizeof(struct block_out *));
        if (mine == head) {
            for (size_t line = 0; line < OUT_PREFETCH_LINES; line++)
                __builtin_prefetch((const uint8_t *)out_get(at + 1) + 64 * line);
            return middle;
        }
        if (mine < head)
            low = (uint16_t)(middle + 1);
        else
            high = middle;
    }
    return block->count;
}

struct entry block_entry(const struct block *block, uint16_t index)
{
    const uint8_t *at = block_at(block, index);
    struct entry entry = {.flags = *at};
    if (UNLIKELY(entry.flags & ENTRY_OUT)) {
        entry.out = out_get(at + 1);
        entry.suffix = bytes_of(entry.out->bytes, entry.out->suffix_len);
        entry.value = bytes_of(entry.out->bytes + entry.out->suffix_len, entry.out->value_len);
        return entry;
    }
    at++;
    entry.suffix.len = length_get(&at);
    entry.suffix.ptr = at;
    at += entry.suffix.len;
    if (!(entry.flags & ENTRY_TOMB)) {
        entry.value.len = length_get(&at);
        entry.value.ptr = at;
    }
    return entry;
}

uint8_t block_flags(const struct block *block, uint16_t index)
{
    return *block_at(block, index);
}

void block_flags_set(struct block *block, uint16_t index, uint8_t flags)
{
    uint8_t *at = block_at(block, index);
    ASSERT(((*at ^ flags) & ~ENTRY_GAP) == 0);
    *at = flags;
}

/* ---- changing ---- */

void block_stamp(struct block *block, struct meter *meter, uint32_t segment)
{
    if (segment <= block->segment)
        return;
    meter_move(meter, block->segment, segment, block->size);
    block->segment = segment;
}

static size_t block_needed(const struct block *block)
{
    return sizeof *block + (size_t)block->count * sizeof(uint16_t) + block->heap - block->garbage;
}

/* Copies the entries from `from` up to `to` behind those of `block`, which has the room. */
static void entries_append(struct block *block, const struct block *old, uint16_t from, uint16_t to)
{
    for (uint16_t i = from; i < to; i++) {
        const uint8_t *at = block_at(old, i);
        size_t len = entry_len(at);
        block->heap = (uint16_t)(block->heap + len);
        *block_slot(block, block->count++) = block->heap;
        memcpy(block_base(block) + block->size - block->heap, at, len);
        block->live = (uint16_t)(block->live + !(*at & ENTRY_TOMB));
    }
}

/* Puts a copy that has the room for `more` bytes, and no garbage, in the place of the block. */
static void block_rebuild(struct block **block, struct meter *meter, size_t more)
{
    struct block *old = *block;
    struct block *new = block_alloc(meter, old->segment, block_needed(old) + more);
    new->ref = old->ref;
    if (old->garbage) {
        entries_append(new, old, 0, old->count);
    } else {
        new->count = old->count;
        new->live = old->live;
        new->heap = old->heap;
        memcpy(block_slot(new, 0), block_slot(old, 0), old->count * sizeof(uint16_t));
        memcpy(block_base(new) + new->size - new->heap, block_base(old) + old->size - old->heap,
               old->heap);
    }
    meter_sub(meter, old->segment, old->size);
    mem_free(old);
    *block = new;
}

enum block_answer block_insert(struct block **block_ptr, struct meter *meter, uint16_t index,
                               uint8_t flags, struct bytes suffix, struct bytes value,
                               struct block_out *out)
{
    struct block *block = *block_ptr;
    struct block_out *made = NULL;
    ASSERT(index <= block->count);

    if (flags & ENTRY_TOMB)
        value = bytes_of("", 0);
    if (!out && !entry_fits_inline(suffix.len, value.len)) {
        made = block_out_new(suffix, value, block->segment, meter);
        if (!made)
            return BLOCK_NOMEM;
        out = made;
    }
    flags = (uint8_t)(out ? flags | ENTRY_OUT : flags & ~ENTRY_OUT);
    size_t len = entry_len_for(flags, suffix, value);
    size_t more = len + sizeof(uint16_t);
    if (block_needed(block) + block->garbage + more > block->size) {
        if (mem_class_bytes(block_needed(block) + more) > BLOCK_BYTES_MAX) {
            block_out_free(made, meter);
            return BLOCK_FULL;
        }
        block_rebuild(block_ptr, meter, more);
        block = *block_ptr;
    }
    uint16_t *slot = block_slot(block, index);
    memmove(slot + 1, slot, (size_t)(block->count - index) * sizeof *slot);
    block->heap = (uint16_t)(block->heap + len);
    *slot = block->heap;
    entry_put(block_base(block) + block->size - block->heap, flags, suffix, value, out);
    block->count++;
    if (!(flags & ENTRY_TOMB))
        block->live++;
    return BLOCK_OK;
}

bool block_replace(struct block *block, uint16_t index, const struct entry *entry, bool tomb,
                   struct bytes value)
{
    uint8_t *at = block_at(block, index);
    ASSERT(!(entry->flags & ENTRY_OUT));
    uint8_t flags = (uint8_t)((entry->flags & ENTRY_GAP) | (tomb ? ENTRY_TOMB : 0));
    const uint8_t *end = entry->flags & ENTRY_TOMB ? entry->suffix.ptr + entry->suffix.len
                                                   : entry->value.ptr + entry->value.len;
    size_t len = (size_t)(end - at), new_len = entry_len_for(flags, entry->suffix, value);
    if (new_len > len)
        return false;
    *at = flags;
    if (!tomb) {
        uint8_t *to = at + (entry->suffix.ptr - at) + entry->suffix.len;
        to += uvarint_put(to, value.len);
        if (value.len)
            memcpy(to, value.ptr, value.len);
    }
    block->garbage = (uint16_t)(block->garbage + len - new_len);
    block->live = (uint16_t)(block->live + ((entry->flags & ENTRY_TOMB) != 0) - tomb);
    return true;
}

void block_remove(struct block **block_ptr, struct meter *meter, uint16_t index,
                  struct block_out **ret_out)
{
    struct block *block = *block_ptr;
    ASSERT(index < block->count);
    const uint8_t *at = block_at(block, index);
    size_t len = entry_len(at);

    struct block_out *out = *at & ENTRY_OUT ? out_get(at + 1) : NULL;
    if (ret_out)
        *ret_out = out;
    else
        block_out_free(out, meter);
    if (!(*at & ENTRY_TOMB))
        block->live--;
    uint16_t *slot = block_slot(block, index);
    if (*slot == block->heap)
        block->heap = (uint16_t)(block->heap - len);
    else
        block->garbage = (uint16_t)(block->garbage + len);
    block->count--;
    memmove(slot, slot + 1, (size_t)(block->count - index) * sizeof *slot);
    if (block->count && block->size > SHRINK_ABOVE_BYTES && block_needed(block) < block->size / 2)
        block_rebuild(block_ptr, meter, 0);
}

static size_t entries_len(const struct block *block, uint16_t from, uint16_t to)
{
    size_t len = 0;
    for (uint16_t i = from; i < to; i++)
        len += entry_len(block_at(block, i));
    return len;
}

struct block *block_split(struct block **block_ptr, struct meter *meter, uint16_t index)
{
    struct block *old = *block_ptr;
    ASSERT(index > 0);
    ASSERT(index < old->count);
    uint16_t bounds[] = {0, index, old->count};
    struct block *half[2];
    for (int i = 0; i < 2; i++) {
        size_t len = entries_len(old, bounds[i], bounds[i + 1]) +
                     (size_t)(bounds[i + 1] - bounds[i]) * sizeof(uint16_t);
        half[i] = block_alloc(meter, old->segment, sizeof *old + len);
        half[i]->ref = old->ref;
        entries_append(half[i], old, bounds[i], bounds[i + 1]);
    }
    meter_sub(meter, old->segment, old->size);
    mem_free(old); /* its block_outs moved */
    *block_ptr = half[0];
    return half[1];
}

bool block_merge(struct block **left, struct block *right, struct meter *meter)
{
    size_t more = block_needed(right) - sizeof *right;
    if (mem_class_bytes(block_needed(*left) + more) > BLOCK_BYTES_MAX * 3 / 4)
        return false;
    block_stamp(*left, meter, right->segment);
    block_rebuild(left, meter, more);
    entries_append(*left, right, 0, right->count);
    (*left)->ref |= right->ref;
    meter_sub(meter, right->segment, right->size);
    mem_free(right); /* its block_outs moved */
    return true;
}

uint16_t block_middle(const struct block *block)
{
    ASSERT(block->count > 1);
    size_t half = (block_needed(block) - sizeof *block) / 2, sum = 0;
    for (uint16_t i = 0; i < block->count - 1; i++) {
        sum += entry_len(block_at(block, i)) + sizeof(uint16_t);
        if (sum >= half)
            return (uint16_t)(i + 1);
    }
    return (uint16_t)(block->count - 1);
}

uint16_t block_live_before(const struct block *block, uint16_t index)
{
    if (block->live == block->count)
        return index;
    uint16_t live = 0;
    for (uint16_t i = 0; i < index; i++)
        live = (uint16_t)(live + !(block_flags(block, i) & ENTRY_TOMB));
    return live;
}

void block_free(struct block *block, struct meter *meter)
{
    if (!block)
        return;
    for (uint16_t i = 0; i < block->count; i++) {
        const uint8_t *at = block_at(block, i);
        if (*at & ENTRY_OUT)
            block_out_free(out_get(at + 1), meter);
    }
    meter_sub(meter, block->segment, block->size);
    mem_free(block);
}

void block_check(const struct block *block)
{
    size_t live = 0;
    ASSERT(block->size <= BLOCK_BYTES_MAX);
    ASSERT(block_needed(block) + block->garbage <= block->size);
    for (uint16_t i = 0; i < block->count; i++) {
        struct entry entry = block_entry(block, i);
        ASSERT(*block_slot(block, i) <= block->heap);
        ASSERT(entry_len(block_at(block, i)) <= BLOCK_INLINE_MAX);
        live += !(entry.flags & ENTRY_TOMB);
        if (i > 0)
            ASSERT(bytes_cmp(block_entry(block, (uint16_t)(i - 1)).suffix, entry.suffix) < 0);
    }
    ASSERT(live == block->live);
    ASSERT(entries_len(block, 0, block->count) + block->garbage == block->heap);
}

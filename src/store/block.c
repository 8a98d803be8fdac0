#include "store/block.h"

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum { BLOCK_BYTES_FIRST = 64 };

static uint8_t *block_base(const struct block *block)
{
    return (uint8_t *)(uintptr_t)block;
}

/* The directory grows down from the end, so that growing the block moves it as one piece. */
static uint16_t *block_slot(const struct block *block, uint16_t index)
{
    return (uint16_t *)(void *)(block_base(block) + block->size) - 1 - index;
}

struct block *block_new(struct meter *meter, uint32_t segment)
{
    size_t size = mem_class_bytes(BLOCK_BYTES_FIRST);
    struct block *block = mem_alloc(size);
    *block = (struct block){
        .segment = segment, .size = (uint16_t)size, .heap_end = sizeof(struct block), .ref = 1};
    meter_add(meter, segment, size);
    return block;
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

static inline struct bytes suffix_at(const uint8_t *at)
{
    if (UNLIKELY(*at & ENTRY_OUT)) {
        const struct block_out *out = out_get(at + 1);
        return bytes_of(out->bytes, out->suffix_len);
    }
    at++;
    size_t len = length_get(&at);
    return bytes_of(at, len);
}

static size_t entry_len(const uint8_t *at)
{
    if (*at & ENTRY_OUT)
        return 1 + sizeof(struct block_out *);
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
        return 1 + sizeof(struct block_out *);
    size_t len = 1 + (suffix.len < 0x80 ? 1 : 2) + suffix.len;
    if (!(flags & ENTRY_TOMB))
        len += (value.len < 0x80 ? 1 : 2) + value.len;
    return len;
}

static void entry_put(uint8_t *to, uint8_t flags, struct bytes suffix, struct bytes value,
                      struct block_out *out)
{
    *to++ = flags;
    if (flags & ENTRY_OUT) {
        memcpy(to, &out, sizeof out);
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

uint16_t block_find(const struct block *block, struct bytes suffix, bool *ret_exact)
{
    uint16_t low = 0, high = block->count;
    const uint8_t *base = block_base(block);
    while (low < high) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        int order = bytes_cmp(suffix_at(base + *block_slot(block, middle)), suffix);
        if (order == 0) {
            *ret_exact = true;
            return middle;
        }
        if (order < 0)
            low = (uint16_t)(middle + 1);
        else
            high = middle;
    }
    *ret_exact = false;
    return low;
}

struct entry block_entry(const struct block *block, uint16_t index)
{
    const uint8_t *at = block_base(block) + *block_slot(block, index);
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
    return block_base(block)[*block_slot(block, index)];
}

void block_flags_set(struct block *block, uint16_t index, uint8_t flags)
{
    uint8_t *at = block_base(block) + *block_slot(block, index);
    ASSERT(((*at ^ flags) & ~ENTRY_GAP) == 0);
    *at = flags;
}

void block_stamp(struct block *block, struct meter *meter, uint32_t segment)
{
    if (segment <= block->segment)
        return;
    meter_move(meter, block->segment, segment, block->size);
    block->segment = segment;
}

static size_t block_needed(const struct block *block)
{
    return (size_t)block->heap_end - block->garbage + (size_t)block->count * sizeof(uint16_t);
}

/* A copy without garbage and with room for `more` bytes. */
static void block_rebuild(struct block **block, struct meter *meter, size_t more)
{
    struct block *old = *block;
    size_t size = mem_class_bytes(block_needed(old) + more);
    ASSERT(size <= BLOCK_BYTES_MAX);
    struct block *new = mem_alloc(size);
    *new = *old;
    new->size = (uint16_t)size;
    new->heap_end = sizeof *new;
    new->garbage = 0;
    for (uint16_t i = 0; i < old->count; i++) {
        const uint8_t *from = block_base(old) + *block_slot(old, i);
        size_t len = entry_len(from);
        memcpy(block_base(new) + new->heap_end, from, len);
        *block_slot(new, i) = new->heap_end;
        new->heap_end = (uint16_t)(new->heap_end + len);
    }
    meter_sub(meter, old->segment, old->size);
    meter_add(meter, new->segment, new->size);
    mem_free(old);
    *block = new;
}

enum block_answer block_insert(struct block **block_at, struct meter *meter, uint16_t index,
                               uint8_t flags, struct bytes suffix, struct bytes value,
                               struct block_out *out)
{
    struct block *block = *block_at;
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
    if ((size_t)block->heap_end + (block->count + 1) * sizeof(uint16_t) + len > block->size) {
        if (mem_class_bytes(block_needed(block) + more) > BLOCK_BYTES_MAX) {
            block_out_free(made, meter);
            return BLOCK_FULL;
        }
        block_rebuild(block_at, meter, more);
        block = *block_at;
    }
    uint16_t *lowest = block_slot(block, block->count);
    memmove(lowest, lowest + 1, (size_t)(block->count - index) * sizeof *lowest);
    *block_slot(block, index) = block->heap_end;
    entry_put(block_base(block) + block->heap_end, flags, suffix, value, out);
    block->heap_end = (uint16_t)(block->heap_end + len);
    block->count++;
    if (!(flags & ENTRY_TOMB))
        block->live++;
    return BLOCK_OK;
}

void block_remove(struct block **block_at, struct meter *meter, uint16_t index,
                  struct block_out **ret_out)
{
    struct block *block = *block_at;
    ASSERT(index < block->count);
    const uint8_t *at = block_base(block) + *block_slot(block, index);
    size_t len = entry_len(at);

    struct block_out *out = *at & ENTRY_OUT ? out_get(at + 1) : NULL;
    if (ret_out)
        *ret_out = out;
    else
        block_out_free(out, meter);
    if (!(*at & ENTRY_TOMB))
        block->live--;
    block->count--;
    if ((size_t)*block_slot(block, index) + len == block->heap_end)
        block->heap_end = (uint16_t)(block->heap_end - len);
    else
        block->garbage = (uint16_t)(block->garbage + len);
    uint16_t *lowest = block_slot(block, block->count);
    memmove(lowest + 1, lowest, (size_t)(block->count - index) * sizeof *lowest);
    if (block->count && block->size > 256 && block_needed(block) < block->size / 2)
        block_rebuild(block_at, meter, 0);
}

struct block *block_split(struct block **block_at, struct meter *meter, uint16_t index)
{
    struct block *block = *block_at;
    ASSERT(index > 0 && index < block->count);
    struct block *right = block_new(meter, block->segment);
    right->ref = block->ref;
    for (uint16_t i = index; i < block->count; i++) {
        struct entry entry = block_entry(block, i);
        enum block_answer answer = block_insert(&right, meter, right->count, entry.flags,
                                                entry.suffix, entry.value, entry.out);
        ASSERT(answer == BLOCK_OK);
        block->garbage =
            (uint16_t)(block->garbage + entry_len(block_base(block) + *block_slot(block, i)));
    }
    block->live = (uint16_t)(block->live - right->live);
    block->count = index;
    block_rebuild(block_at, meter, 0);
    return right;
}

bool block_merge(struct block **left, struct block *right, struct meter *meter)
{
    size_t more = block_needed(right) - sizeof(struct block);
    if (mem_class_bytes(block_needed(*left) + more) > BLOCK_BYTES_MAX * 3 / 4)
        return false;
    block_stamp(*left, meter, right->segment);
    block_rebuild(left, meter, more);
    for (uint16_t i = 0; i < right->count; i++) {
        struct entry entry = block_entry(right, i);
        enum block_answer answer = block_insert(left, meter, (*left)->count, entry.flags,
                                                entry.suffix, entry.value, entry.out);
        ASSERT(answer == BLOCK_OK);
    }
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
        sum += entry_len(block_base(block) + *block_slot(block, i)) + sizeof(uint16_t);
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
        const uint8_t *at = block_base(block) + *block_slot(block, i);
        if (*at & ENTRY_OUT)
            block_out_free(out_get(at + 1), meter);
    }
    meter_sub(meter, block->segment, block->size);
    mem_free(block);
}

void block_check(const struct block *block)
{
    size_t used = sizeof *block, live = 0;
    ASSERT(block->size <= BLOCK_BYTES_MAX);
    ASSERT((size_t)block->heap_end + (size_t)block->count * sizeof(uint16_t) <= block->size);
    for (uint16_t i = 0; i < block->count; i++) {
        struct entry entry = block_entry(block, i);
        used += entry_len(block_base(block) + *block_slot(block, i));
        live += !(entry.flags & ENTRY_TOMB);
        if (i > 0)
            ASSERT(bytes_cmp(block_entry(block, (uint16_t)(i - 1)).suffix, entry.suffix) < 0);
    }
    ASSERT(live == block->live);
    ASSERT(used + block->garbage == block->heap_end);
}

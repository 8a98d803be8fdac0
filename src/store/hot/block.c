// SPDX-License-Identifier: Apache-2.0
/* block.c - packed rows in one piece of memory: searched, changed, split, merged. */
#include "store/hot/block.h"

#include "base/codec.h"
#include "base/macros.h"
#include "base/mem.h"

#include "base/banned.h"

enum {
    BLOCK_BYTES_FIRST = 64,
    SHRINK_ABOVE_BYTES = 256, /* smaller blocks are not worth a copy */
    MIDDLE_PART = 8,          /* so much of the entries on either side of the middle are near it */
    HEAD_BYTES = 8,
    LINE_BYTES = 64,
    OUT_PREFETCH_LINES = 4,    /* the processor sees that more are read */
    ENTRIES_PREFETCH_MAX = 12, /* of the same head */
    DIGITS = 4,                /* in a head */
    OUT_ENTRY_BYTES = sizeof(struct block_out *) + HEAD_BYTES,
    SLOT_OFFSET = 0xfff, /* bits of a slot: enough for BLOCK_BYTES_MAX */
    SLOT_FLAGS_SHIFT = 12,
    SLOT_FLAGS = 7,
    SLOT_HEAD_SHIFT = 16,
};
_Static_assert((int)BLOCK_BYTES_MAX - (int)sizeof(struct block) <= (int)SLOT_OFFSET,
               "an offset fits into a slot");

static uint8_t *block_base(const struct block *block)
{
    return (uint8_t *)(uintptr_t)block;
}

static uint32_t *block_slot(const struct block *block, uint32_t index)
{
    return (uint32_t *)(void *)(block_base(block) + sizeof *block) + index;
}

/* Offsets count from the end, so that a block grows by moving two pieces. */
static uint8_t *block_at(const struct block *block, uint32_t index)
{
    return block_base(block) + block->size - (*block_slot(block, index) & SLOT_OFFSET);
}

static uint16_t slot_head(const struct block *block, uint32_t index)
{
    return (uint16_t)(*block_slot(block, index) >> SLOT_HEAD_SHIFT);
}

uint8_t block_flags(const struct block *block, uint16_t index)
{
    return *block_slot(block, index) >> SLOT_FLAGS_SHIFT & SLOT_FLAGS;
}

static uint32_t slot_of(uint16_t offset, uint8_t flags, uint16_t head)
{
    return (uint32_t)head << SLOT_HEAD_SHIFT | (uint32_t)flags << SLOT_FLAGS_SHIFT | offset;
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

static size_t entry_len(const struct block *block, uint16_t index)
{
    const uint8_t *at = block_at(block, index), *from = at;
    uint8_t flags = block_flags(block, index);
    if (flags & ENTRY_OUT)
        return OUT_ENTRY_BYTES;
    size_t len = length_get(&at);
    at += len;
    if (!(flags & ENTRY_TOMB)) {
        len = length_get(&at);
        at += len;
    }
    return (size_t)(at - from);
}

static size_t entry_len_for(uint8_t flags, struct bytes suffix, struct bytes value)
{
    if (flags & ENTRY_OUT)
        return OUT_ENTRY_BYTES;
    size_t len = (suffix.len < 0x80 ? 1 : 2) + suffix.len;
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

struct entry block_entry(const struct block *block, uint16_t index)
{
    const uint8_t *at = block_at(block, index);
    struct entry entry = {.flags = block_flags(block, index)};
    if (UNLIKELY(entry.flags & ENTRY_OUT)) {
        entry.out = out_get(at);
        entry.suffix = bytes_of(entry.out->bytes, entry.out->suffix_len);
        entry.value = bytes_of(entry.out->bytes + entry.out->suffix_len, entry.out->value_len);
        return entry;
    }
    entry.suffix.len = length_get(&at);
    entry.suffix.ptr = at;
    at += entry.suffix.len;
    if (!(entry.flags & ENTRY_TOMB)) {
        entry.value.len = length_get(&at);
        entry.value.ptr = at;
    }
    return entry;
}

/* ---- heads ---- */

static inline uint16_t head_after(struct bytes suffix, size_t skip)
{
    if (LIKELY(suffix.len >= skip + 2))
        return be16_get(suffix.ptr + skip);
    return (uint16_t)(suffix.len > skip ? suffix.ptr[skip] << 8 : 0);
}

/* Numbers are what suffixes mostly end with, and two digits tell a hundred of them apart: a block
 * has more. So four bits a byte: 1 to 10 a digit, 0 behind the suffix's end and for what is below
 * the digits, 11 for what is above them. No entry has such bytes (6): a search that has them ends
 * there, and what follows them does not count. */
static uint16_t digits_slowly(struct bytes rest)
{
    uint16_t head = 0;
    size_t i = 0;
    for (; i < DIGITS && i < rest.len && rest.ptr[i] >= '0' && rest.ptr[i] <= '9'; i++)
        head = (uint16_t)(head << 4 | (rest.ptr[i] - '0' + 1));
    if (i == DIGITS)
        return head;
    unsigned other = i == rest.len || rest.ptr[i] < '0' ? 0 : 11;
    return (uint16_t)((head << 4 | other) << 4 * (DIGITS - 1 - i));
}

/* Each byte 0 to 9. */
static inline bool are_digits(uint32_t four)
{
    return ((four | (four + 0x06060606)) & 0xf0f0f0f0) == 0;
}

static inline uint16_t digits_after(struct bytes suffix, size_t skip)
{
    uint32_t four = suffix.len >= skip + DIGITS ? be32_get(suffix.ptr + skip) ^ 0x30303030 : ~0u;
    if (LIKELY(are_digits(four)))
        return (uint16_t)(0x1111 + ((four >> 12 & 0xf000) | (four >> 8 & 0x0f00) |
                                    (four >> 4 & 0x00f0) | (four & 0x000f)));
    return suffix.len > skip ? digits_slowly(bytes_from(suffix, skip)) : 0;
}

/* Whether (6) allows this suffix. */
static bool digits_fit(struct bytes suffix, size_t skip)
{
    for (size_t i = skip; i < suffix.len && i < skip + DIGITS; i++)
        if (suffix.ptr[i] < '0' || suffix.ptr[i] > '9')
            return false;
    return true;
}

static inline uint16_t head_in(const struct block *block, struct bytes suffix)
{
    return block->digits ? digits_after(suffix, block->skip) : head_after(suffix, block->skip);
}

/* What the entry's suffix begins with, at least block->skip bytes of it: without touching a row
 * that is out of line, if it can be. */
static inline struct bytes entry_beginning(const struct block *block, uint32_t index)
{
    const uint8_t *at = block_at(block, index);
    if (LIKELY(!(block_flags(block, (uint16_t)index) & ENTRY_OUT))) {
        size_t len = length_get(&at);
        return bytes_of(at, len);
    }
    if (block->skip <= HEAD_BYTES)
        return bytes_of(at + sizeof(struct block_out *), block->skip);
    return bytes_of(out_get(at)->bytes, out_get(at)->suffix_len);
}

/* Makes (5) and (6) hold again for other shared bytes than before; digits: what is about to be
 * inserted allows them. */
static void heads_set(struct block *block, size_t skip, bool digits)
{
    block->skip = (uint8_t)(skip < BLOCK_SKIP_MAX ? skip : BLOCK_SKIP_MAX);
    for (uint16_t i = 0; i < block->count && digits; i++)
        digits = digits_fit(block_entry(block, i).suffix, block->skip);
    block->digits = digits;
    for (uint16_t i = 0; i < block->count; i++) {
        uint32_t *slot = block_slot(block, i);
        uint32_t head = head_in(block, block_entry(block, i).suffix);
        *slot = (*slot & ((1u << SLOT_HEAD_SHIFT) - 1)) | head << SLOT_HEAD_SHIFT;
    }
}

/* For what the first and the last entry share, and so all of them. */
static void heads_renew(struct block *block)
{
    struct bytes first = block_entry(block, 0).suffix;
    struct bytes last = block_entry(block, (uint16_t)(block->count - 1)).suffix;
    heads_set(block, bytes_shared_len(first, last), true);
}

/* Before this suffix comes to stand at index. */
static void heads_admit(struct block *block, struct bytes suffix, uint16_t index)
{
    size_t skip = suffix.len < BLOCK_SKIP_MAX ? suffix.len : BLOCK_SKIP_MAX;
    if (block->count > 0) {
        struct bytes begins = entry_beginning(block, index ? index - 1u : 0);
        struct bytes shared = bytes_of(begins.ptr, block->skip);
        bool shares = LIKELY(bytes_start_with(suffix, shared));
        skip = shares ? block->skip : bytes_shared_len(suffix, shared);
    }
    bool digits = digits_fit(suffix, skip);
    if (UNLIKELY(block->count == 0 || skip != block->skip || (block->digits && !digits)))
        heads_set(block, skip, digits);
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
    uint64_t mine = be64_get(at + sizeof(struct block_out *));
    if (LIKELY(mine != wanted->head))
        return mine < wanted->head ? -1 : 1;
    const struct block_out *out = out_get(at);
    return bytes_cmp(bytes_of(out->bytes, out->suffix_len), wanted->suffix);
}

/* Most suffixes differ in the first eight bytes behind what all share. */
static inline int entry_cmp(const struct block *block, uint32_t index, const struct wanted *wanted)
{
    const uint8_t *at = block_at(block, index);
    if (UNLIKELY(block_flags(block, (uint16_t)index) & ENTRY_OUT))
        return out_cmp(at, wanted);
    size_t len = length_get(&at);
    struct bytes rest = bytes_from(bytes_of(at, len), wanted->skip);
    uint64_t mine = head_of(rest, block_base(block) + block->size);
    if (LIKELY(mine != wanted->rest_head))
        return mine < wanted->rest_head ? -1 : 1;
    if (rest.len <= HEAD_BYTES && wanted->rest.len <= HEAD_BYTES) /* zeros may have filled up one */
        return (rest.len > wanted->rest.len) - (rest.len < wanted->rest.len);
    return bytes_cmp(rest, wanted->rest);
}

/* The first slot whose head is not below. Which half it is in would not be foreseen: no branch. */
static inline uint32_t heads_find(const struct block *block, uint32_t head)
{
    const uint32_t *slot = block_slot(block, 0);
    uint32_t low = 0, left = block->count;
    head <<= SLOT_HEAD_SHIFT;
    while (left > 0) {
        uint32_t half = (left + 1) / 2;
        low += half & -(uint32_t)(slot[low + half - 1] < head);
        left -= half;
    }
    return low;
}

/* Among entries of the same head, from `low` on. */
static uint16_t entries_find(const struct block *block, uint32_t low, const struct wanted *wanted,
                             bool *ret_exact)
{
    uint32_t high = low + 1;
    uint16_t head = slot_head(block, low);
    if (UNLIKELY(high < block->count && slot_head(block, high) == head))
        high = head == UINT16_MAX ? block->count : heads_find(block, head + 1u);
    for (;;) {
        uint32_t middle = (low + high) / 2;
        int order = entry_cmp(block, middle, wanted);
        *ret_exact = order == 0;
        if (order == 0)
            return (uint16_t)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
        if (low == high)
            return (uint16_t)low;
    }
}

/* What heads_find() gave is `low`. */
static inline uint16_t find_from(const struct block *block, struct bytes suffix, size_t skip,
                                 uint16_t head, uint32_t low, bool *ret_exact)
{
    if (block->skip > skip) {
        /* Whether it begins as all entries do says the one that has to be looked at anyway. */
        struct bytes begins = entry_beginning(block, low < block->count ? low : low - 1);
        struct bytes shared = bytes_of(begins.ptr + skip, block->skip - skip);
        struct bytes rest = bytes_from(suffix, skip);
        if (UNLIKELY(!bytes_start_with(rest, shared)))
            return bytes_cmp(rest, shared) < 0 ? 0 : block->count;
        skip = block->skip;
    }
    if (low == block->count || slot_head(block, low) != head)
        return (uint16_t)low;
    struct wanted wanted = wanted_of(suffix, skip);
    return entries_find(block, low, &wanted, ret_exact);
}

uint16_t block_find_skip(const struct block *block, struct bytes suffix, size_t skip,
                         bool *ret_exact)
{
    *ret_exact = false;
    if (UNLIKELY(block->count == 0))
        return 0;
    uint16_t head = head_in(block, suffix);
    return find_from(block, suffix, skip, head, heads_find(block, head), ret_exact);
}

uint16_t block_find_hint(const struct block *block, struct bytes suffix, size_t skip, uint16_t hint,
                         bool *ret_exact)
{
    uint16_t head = head_in(block, suffix);
    if (UNLIKELY(hint >= block->count || slot_head(block, hint) < head ||
                 (hint > 0 && slot_head(block, hint - 1u) >= head)))
        return block_find_skip(block, suffix, skip, ret_exact);
    *ret_exact = false;
    return find_from(block, suffix, skip, head, hint, ret_exact);
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

uint16_t block_prefetch_entry(const struct block *block, struct bytes suffix)
{
    ASSERT(block->count > 0); /* (1) */
    uint16_t head = head_in(block, suffix);
    uint32_t index = heads_find(block, head), last = index + ENTRIES_PREFETCH_MAX;
    const uint8_t *at = block_at(block, index < block->count ? index : index - 1);
    __builtin_prefetch(at);
    __builtin_prefetch(at + LINE_BYTES);
    if (last > block->count)
        last = block->count;
    for (uint32_t i = index + 1; i < last && slot_head(block, i) == head; i++)
        __builtin_prefetch(block_at(block, i)); /* entries_find() looks at some of these */
    return (uint16_t)index;
}

void block_prefetch_out(const struct block *block, struct bytes suffix, uint16_t index)
{
    uint64_t head = be64_head(suffix, 0);
    for (; index < block->count && block_flags(block, index) & ENTRY_OUT; index++) {
        const uint8_t *at = block_at(block, index);
        uint64_t mine = be64_get(at + sizeof(struct block_out *));
        if (mine > head)
            break;
        if (mine < head)
            continue;
        for (size_t line = 0; line < OUT_PREFETCH_LINES; line++)
            __builtin_prefetch((const uint8_t *)out_get(at) + LINE_BYTES * line);
        return;
    }
}

void block_flags_set(struct block *block, uint16_t index, uint8_t flags)
{
    uint32_t *slot = block_slot(block, index);
    ASSERT(((block_flags(block, index) ^ flags) & ~ENTRY_GAP) == 0);
    *slot = (*slot & ~((uint32_t)SLOT_FLAGS << SLOT_FLAGS_SHIFT)) | (uint32_t)flags
                                                                        << SLOT_FLAGS_SHIFT;
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
    return sizeof *block + (size_t)block->count * sizeof(uint32_t) + block->heap - block->garbage;
}

/* Copies the entries from `from` up to `to` behind those of `block`, which has the room; their
 * heads as well. */
static void entries_append(struct block *block, const struct block *old, uint16_t from, uint16_t to)
{
    for (uint16_t i = from; i < to; i++) {
        size_t len = entry_len(old, i);
        uint8_t flags = block_flags(old, i);
        block->heap = (uint16_t)(block->heap + len);
        *block_slot(block, block->count++) = slot_of(block->heap, flags, slot_head(old, i));
        memcpy(block_base(block) + block->size - block->heap, block_at(old, i), len);
        block->live = (uint16_t)(block->live + !(flags & ENTRY_TOMB));
    }
}

/* Puts a copy that has the room for `more` bytes, and no garbage, in the place of the block. */
static void block_rebuild(struct block **block, struct meter *meter, size_t more)
{
    struct block *old = *block;
    struct block *new = block_alloc(meter, old->segment, block_needed(old) + more);
    new->ref = old->ref;
    new->skip = old->skip;
    new->digits = old->digits;
    if (old->garbage) {
        entries_append(new, old, 0, old->count);
    } else {
        new->count = old->count;
        new->live = old->live;
        new->heap = old->heap;
        memcpy(block_slot(new, 0), block_slot(old, 0), old->count * sizeof(uint32_t));
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
    size_t more = len + sizeof(uint32_t);
    if (block_needed(block) + block->garbage + more > block->size) {
        if (mem_class_bytes(block_needed(block) + more) > BLOCK_BYTES_MAX) {
            block_out_free(made, meter);
            return BLOCK_FULL;
        }
        block_rebuild(block_ptr, meter, more);
        block = *block_ptr;
    }
    struct bytes own = out ? bytes_of(out->bytes, out->suffix_len) : suffix;
    heads_admit(block, own, index);
    uint32_t *slot = block_slot(block, index);
    memmove(slot + 1, slot, (size_t)(block->count - index) * sizeof *slot);
    block->heap = (uint16_t)(block->heap + len);
    *slot = slot_of(block->heap, flags, head_in(block, own));
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
    uint32_t *slot = block_slot(block, index);
    *slot = slot_of(*slot & SLOT_OFFSET, flags, slot_head(block, index));
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
    size_t len = entry_len(block, index);
    uint8_t flags = block_flags(block, index);

    struct block_out *out = flags & ENTRY_OUT ? out_get(block_at(block, index)) : NULL;
    if (ret_out)
        *ret_out = out;
    else
        block_out_free(out, meter);
    if (!(flags & ENTRY_TOMB))
        block->live--;
    uint32_t *slot = block_slot(block, index);
    if ((*slot & SLOT_OFFSET) == block->heap)
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
        len += entry_len(block, i);
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
                     (size_t)(bounds[i + 1] - bounds[i]) * sizeof(uint32_t);
        half[i] = block_alloc(meter, old->segment, sizeof *old + len);
        half[i]->ref = old->ref;
        entries_append(half[i], old, bounds[i], bounds[i + 1]);
        heads_renew(half[i]);
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
    heads_renew(*left);
    (*left)->ref |= right->ref;
    meter_sub(meter, right->segment, right->size);
    mem_free(right); /* its block_outs moved */
    return true;
}

static uint16_t halving_index(const struct block *block)
{
    size_t half = (block_needed(block) - sizeof *block) / 2, sum = 0;
    for (uint16_t i = 0; i < block->count - 1; i++) {
        sum += entry_len(block, i) + sizeof(uint32_t);
        if (sum >= half)
            return (uint16_t)(i + 1);
    }
    return (uint16_t)(block->count - 1);
}

uint16_t block_middle(const struct block *block)
{
    ASSERT(block->count > 1);
    int middle = halving_index(block), best = middle, count = block->count;
    size_t least = SIZE_MAX;
    for (int i = 0; i <= count / MIDDLE_PART * 2; i++) { /* 0, 1, -1, 2, -2 .. from the middle */
        int index = middle + (i % 2 ? (i + 1) / 2 : -i / 2);
        if (index < 1 || index >= count)
            continue;
        size_t shared = bytes_shared_len(block_entry(block, (uint16_t)(index - 1)).suffix,
                                         block_entry(block, (uint16_t)index).suffix);
        if (shared < least) {
            least = shared;
            best = index;
        }
    }
    return (uint16_t)best;
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
    for (uint16_t i = 0; i < block->count; i++)
        if (block_flags(block, i) & ENTRY_OUT)
            block_out_free(out_get(block_at(block, i)), meter);
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
        ASSERT((*block_slot(block, i) & SLOT_OFFSET) <= block->heap);
        ASSERT(entry_len(block, i) <= BLOCK_INLINE_MAX);
        ASSERT(entry.suffix.len >= block->skip);
        ASSERT(slot_head(block, i) == head_in(block, entry.suffix));
        ASSERT(!block->digits || digits_fit(entry.suffix, block->skip));
        live += !(entry.flags & ENTRY_TOMB);
        if (i > 0)
            ASSERT(bytes_cmp(block_entry(block, (uint16_t)(i - 1)).suffix, entry.suffix) < 0);
        if (block->skip)
            ASSERT(memcmp(entry.suffix.ptr, block_entry(block, 0).suffix.ptr, block->skip) == 0);
    }
    ASSERT(live == block->live);
    ASSERT(entries_len(block, 0, block->count) + block->garbage == block->heap);
}

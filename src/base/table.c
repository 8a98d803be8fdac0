// SPDX-License-Identifier: Apache-2.0
/* table.c - linear hashing in buckets of a cache line.
 *
 * Invariants:
 *   (1) bucket_count = 2^level + split, 0 <= split < 2^level. The bucket of a hash is its low
 *       `level` bits; where these are below split, that bucket was split and one more bit counts.
 *   (2) The words of a bucket, then those of its overflow, are filled from the first without a gap.
 *       Overflow exists only behind seven full slots.
 *   (3) An overflow holds mem_class_bytes(8 * its word count) bytes: its capacity is not stored.
 *   (4) Chunks hold TABLE_CHUNK_BUCKETS buckets. While there is one chunk, it holds
 *       first_chunk_buckets(), so that a small table is small.
 *
 * A bucket, and the word of a slot:
 *   OFFSET  SIZE  WHAT
 *   0       56    seven words: pointer in the low 48 bits, top 16 bits of the hash above; 0: empty
 *   56      8     pointer to the overflow in the low 48 bits, its word count above; 0: none
 *
 * The overflow is one array that grows by size classes and not a chain of buckets: in the middle of
 * a doubling the buckets not yet split hold more than seven entries on average, and chained lines
 * would cost more bytes an entry. A hash is taken to be keyed (nobody can choose 65,535 entries
 * that meet in a bucket); an overflow beyond that stops the process. */
#include "base/table.h"

#include <emmintrin.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

enum {
    TABLE_SLOTS = 7,
    TABLE_BUCKETS_MIN = 4, /* a power of two */
    TABLE_LEVEL_MIN = 2,
    TABLE_CHUNK_BUCKETS = 512,
    TABLE_OVERFLOW_WORDS_MAX = 65535,
    TABLE_POINTER_BITS = 48,
    /* Entries for two buckets: split above thirteen, join below five. */
    TABLE_SPLIT_LOAD = 13,
    TABLE_JOIN_LOAD = 5,
};
#define POINTER_MASK ((UINT64_C(1) << TABLE_POINTER_BITS) - 1)

struct table_bucket {
    _Alignas(64) uint64_t slot[TABLE_SLOTS];
    uint64_t link;
};
_Static_assert(sizeof(struct table_bucket) == 64, "a bucket is a cache line");
_Static_assert(1 << TABLE_LEVEL_MIN == TABLE_BUCKETS_MIN, "the least table has no split buckets");

static void *word_pointer(uint64_t word)
{
    return (void *)(uintptr_t)(word & POINTER_MASK);
}

static uint64_t word_of(uint64_t tag, const void *entry)
{
    uint64_t pointer = (uint64_t)(uintptr_t)entry;
    ASSERT(pointer != 0);
    ASSERT(pointer <= POINTER_MASK);
    return tag << TABLE_POINTER_BITS | pointer;
}

static uint64_t hash_tag(uint64_t hash)
{
    return hash >> TABLE_POINTER_BITS;
}

static uint64_t *overflow_words(const struct table_bucket *bucket)
{
    return word_pointer(bucket->link);
}

static size_t overflow_count(const struct table_bucket *bucket)
{
    return bucket->link >> TABLE_POINTER_BITS;
}

static size_t split_of(const struct table *table)
{
    return table->bucket_count - ((size_t)1 << table->level);
}

/* (1) */
static size_t bucket_index(const struct table *table, uint64_t hash)
{
    size_t wide = hash & (((size_t)2 << table->level) - 1);
    size_t narrow = hash & (((size_t)1 << table->level) - 1);
    return wide < table->bucket_count ? wide : narrow;
}

static struct table_bucket *bucket_at(const struct table *table, size_t index)
{
    return &table->chunk[index / TABLE_CHUNK_BUCKETS][index % TABLE_CHUNK_BUCKETS];
}

/* (4): the least power of two that holds bucket_count buckets, at most a chunk. */
static size_t first_chunk_buckets(size_t bucket_count)
{
    size_t count = TABLE_BUCKETS_MIN;
    while (count < bucket_count && count < TABLE_CHUNK_BUCKETS)
        count *= 2;
    return count;
}

static struct table_bucket *chunk_new(struct table *table, size_t count)
{
    size_t bytes = count * sizeof(struct table_bucket);
    table->memory_bytes += mem_class_bytes(bytes);
    struct table_bucket *chunk = mem_alloc_aligned(sizeof(struct table_bucket), bytes);
    memset(chunk, 0, bytes);
    return chunk;
}

static void chunk_free(struct table *table, struct table_bucket *chunk, size_t count)
{
    table->memory_bytes -= mem_class_bytes(count * sizeof(struct table_bucket));
    mem_free(chunk);
}

static void first_chunk_resize(struct table *table, size_t from, size_t to)
{
    struct table_bucket *chunk = chunk_new(table, to);
    memcpy(chunk, table->chunk[0], (from < to ? from : to) * sizeof *chunk);
    chunk_free(table, table->chunk[0], from);
    table->chunk[0] = chunk;
}

void table_init(struct table *table, table_hash_fn *hash, table_eq_fn *eq, void *arg)
{
    *table = (struct table){
        .bucket_count = TABLE_BUCKETS_MIN,
        .level = TABLE_LEVEL_MIN,
        .chunk_count = 1,
        .chunk_cap = 1,
        .hash = hash,
        .eq = eq,
        .arg = arg,
    };
    table->chunk = mem_alloc(sizeof *table->chunk);
    table->memory_bytes = mem_class_bytes(sizeof *table->chunk);
    table->chunk[0] = chunk_new(table, TABLE_BUCKETS_MIN);
}

void table_done(struct table *table)
{
    if (!table || !table->chunk)
        return;
    for (size_t i = 0; i < table->bucket_count; i++)
        mem_free(overflow_words(bucket_at(table, i)));
    for (size_t i = 0; i < table->chunk_count; i++)
        mem_free(table->chunk[i]);
    mem_free(table->chunk);
    *table = (struct table){0};
}

static void *find_in_overflow(const struct table *table, const struct table_bucket *bucket,
                              uint64_t tag, const void *key, struct table_slot *ret_slot)
{
    uint64_t *word = overflow_words(bucket);
    for (size_t i = 0, count = overflow_count(bucket); i < count; i++) {
        if (word[i] >> TABLE_POINTER_BITS != tag)
            continue;
        void *entry = word_pointer(word[i]);
        if (!table->eq(entry, key, table->arg))
            continue;
        if (ret_slot)
            ret_slot->word = &word[i];
        return entry;
    }
    return NULL;
}

/* Compares all tags at once, without a branch: bit 4 i + 3 is set where slot i has this tag. The
 * tag is the highest of the four 16-bit lanes of a word. */
static uint32_t fitting_slots(const struct table_bucket *bucket, uint64_t tag)
{
    const __m128i *pair = (const __m128i *)bucket;
    __m128i wanted = _mm_set1_epi16((short)tag);
    __m128i low = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_load_si128(&pair[0]), wanted),
                                  _mm_cmpeq_epi16(_mm_load_si128(&pair[1]), wanted));
    __m128i high = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_load_si128(&pair[2]), wanted),
                                   _mm_cmpeq_epi16(_mm_load_si128(&pair[3]), wanted));
    uint32_t lanes = (uint32_t)_mm_movemask_epi8(low) | (uint32_t)_mm_movemask_epi8(high) << 16;
    return lanes & 0x08888888; /* the eighth word is the link */
}

void *table_find(const struct table *table, uint64_t hash, const void *key,
                 struct table_slot *ret_slot)
{
    struct table_bucket *bucket = bucket_at(table, bucket_index(table, hash));
    uint64_t tag = hash_tag(hash);

    for (uint32_t fit = fitting_slots(bucket, tag); fit; fit &= fit - 1) {
        unsigned i = (unsigned)__builtin_ctz(fit) / 4;
        void *entry = word_pointer(bucket->slot[i]);
        if (!entry)
            break; /* an empty slot has tag 0; by (2) nothing follows it */
        if (!table->eq(entry, key, table->arg))
            continue;
        if (ret_slot)
            ret_slot->word = &bucket->slot[i];
        return entry;
    }
    if (LIKELY(!bucket->link))
        return NULL;
    return find_in_overflow(table, bucket, tag, key, ret_slot);
}

/* (3): gives the overflow room for count words; none at 0. */
static void overflow_resize(struct table *table, struct table_bucket *bucket, size_t count)
{
    ASSERT(count <= TABLE_OVERFLOW_WORDS_MAX);
    uint64_t *word = overflow_words(bucket);
    size_t old_bytes = overflow_count(bucket) * sizeof *word;
    size_t old_class = old_bytes ? mem_class_bytes(old_bytes) : 0;
    size_t new_class = count ? mem_class_bytes(count * sizeof *word) : 0;

    if (new_class == 0) {
        mem_free(word);
        word = NULL;
    } else if (new_class != old_class) {
        word = mem_realloc(word, new_class);
    }
    table->memory_bytes += new_class - old_class;
    bucket->link = word ? word_of(count, word) : 0;
}

static void bucket_add(struct table *table, struct table_bucket *bucket, uint64_t word)
{
    for (unsigned i = 0; i < TABLE_SLOTS; i++) {
        if (bucket->slot[i] == 0) {
            bucket->slot[i] = word;
            return;
        }
    }
    size_t count = overflow_count(bucket);
    overflow_resize(table, bucket, count + 1);
    overflow_words(bucket)[count] = word;
}

/* Takes everything out of the bucket: calls bucket_add() for each word, with the bucket that its
 * entry belongs to now. */
static void bucket_spread(struct table *table, struct table_bucket *bucket, bool rehash,
                          struct table_bucket *target)
{
    struct table_bucket from = *bucket;
    uint64_t *overflow = overflow_words(&from);
    size_t count = overflow_count(&from);

    *bucket = (struct table_bucket){0};
    if (rehash) { /* the entries lie anywhere: let their cache misses overlap */
        for (unsigned i = 0; i < TABLE_SLOTS; i++)
            __builtin_prefetch(word_pointer(from.slot[i]));
        for (size_t i = 0; i < count; i++)
            __builtin_prefetch(word_pointer(overflow[i]));
    }
    for (size_t i = 0; i < TABLE_SLOTS + count; i++) {
        uint64_t word = i < TABLE_SLOTS ? from.slot[i] : overflow[i - TABLE_SLOTS];
        if (word == 0)
            break;
        if (rehash)
            target =
                bucket_at(table, bucket_index(table, table->hash(word_pointer(word), table->arg)));
        bucket_add(table, target, word);
    }
    if (count)
        table->memory_bytes -= mem_class_bytes(count * sizeof *overflow);
    mem_free(overflow);
}

/* Room for one bucket more. */
static void bucket_append(struct table *table)
{
    size_t count = table->bucket_count;
    if (count < TABLE_CHUNK_BUCKETS) {
        size_t cap = first_chunk_buckets(count);
        if (count == cap)
            first_chunk_resize(table, cap, 2 * cap);
    } else if (count % TABLE_CHUNK_BUCKETS == 0) {
        if (table->chunk_count == table->chunk_cap) {
            size_t bytes = table->chunk_cap * sizeof *table->chunk;
            table->memory_bytes += mem_class_bytes(2 * bytes) - mem_class_bytes(bytes);
            table->chunk = mem_realloc(table->chunk, 2 * bytes);
            table->chunk_cap *= 2;
        }
        table->chunk[table->chunk_count++] = chunk_new(table, TABLE_CHUNK_BUCKETS);
    }
    table->bucket_count++;
}

/* The last bucket is empty and goes. */
static void bucket_drop_last(struct table *table)
{
    size_t count = --table->bucket_count;
    if (count < TABLE_CHUNK_BUCKETS) {
        size_t cap = first_chunk_buckets(count + 1);
        if (first_chunk_buckets(count) < cap)
            first_chunk_resize(table, cap, first_chunk_buckets(count));
    } else if (count % TABLE_CHUNK_BUCKETS == 0) {
        chunk_free(table, table->chunk[--table->chunk_count], TABLE_CHUNK_BUCKETS);
    }
}

static void split_one(struct table *table)
{
    size_t split = split_of(table);
    bucket_append(table);
    bucket_spread(table, bucket_at(table, split), true, NULL);
    if (table->bucket_count == (size_t)2 << table->level)
        table->level++;
}

static void join_one(struct table *table)
{
    size_t last = table->bucket_count - 1;
    if (last < (size_t)1 << table->level)
        table->level--;
    struct table_bucket *target = bucket_at(table, last - ((size_t)1 << table->level));
    bucket_spread(table, bucket_at(table, last), false, target);
    bucket_drop_last(table);
}

void table_insert(struct table *table, uint64_t hash, void *entry)
{
    uint64_t word = word_of(hash_tag(hash), entry);
    bucket_add(table, bucket_at(table, bucket_index(table, hash)), word);
    table->entry_count++;
    if (2 * table->entry_count > TABLE_SPLIT_LOAD * table->bucket_count)
        split_one(table);
}

void table_slot_replace(struct table_slot slot, void *entry)
{
    *slot.word = word_of(*slot.word >> TABLE_POINTER_BITS, entry);
}

/* (2): the last word of the bucket takes the place of the removed one. */
void table_remove(struct table *table, uint64_t hash, struct table_slot slot)
{
    struct table_bucket *bucket = bucket_at(table, bucket_index(table, hash));
    size_t count = overflow_count(bucket);

    if (count) {
        *slot.word = overflow_words(bucket)[count - 1];
        overflow_resize(table, bucket, count - 1);
    } else {
        unsigned last = TABLE_SLOTS - 1;
        while (bucket->slot[last] == 0)
            last--;
        *slot.word = bucket->slot[last];
        bucket->slot[last] = 0;
    }
    table->entry_count--;
    if (2 * table->entry_count < TABLE_JOIN_LOAD * table->bucket_count &&
        table->bucket_count > TABLE_BUCKETS_MIN)
        join_one(table);
}

static uint64_t reversed(uint64_t value)
{
    value = (value >> 1 & UINT64_C(0x5555555555555555)) | (value & UINT64_C(0x5555555555555555))
                                                              << 1;
    value = (value >> 2 & UINT64_C(0x3333333333333333)) | (value & UINT64_C(0x3333333333333333))
                                                              << 2;
    value = (value >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (value & UINT64_C(0x0f0f0f0f0f0f0f0f))
                                                              << 4;
    return __builtin_bswap64(value);
}

/* Reads a hash from its lowest bit on as a fraction between 0 and 1. Then a bucket is an interval,
 * splitting halves it and joining unites two neighbours, and the cursor is the point up to which
 * all was visited. A visit goes to the end of the interval the cursor is in, whatever intervals
 * there were before, so nothing between two visits is jumped over. */
uint64_t table_scan(const struct table *table, uint64_t cursor, void (*fn)(void *entry, void *arg),
                    void *arg)
{
    size_t index = bucket_index(table, cursor);
    uint64_t mask = ((uint64_t)1 << table->level) - 1;
    if ((cursor & mask) < split_of(table))
        mask = mask << 1 | 1;

    const struct table_bucket *bucket = bucket_at(table, index);
    for (unsigned i = 0; i < TABLE_SLOTS && bucket->slot[i]; i++)
        fn(word_pointer(bucket->slot[i]), arg);
    const uint64_t *word = overflow_words(bucket);
    for (size_t i = 0, count = overflow_count(bucket); i < count; i++)
        fn(word_pointer(word[i]), arg);

    return reversed(reversed(cursor | ~mask) + 1);
}

void table_prefetch(const struct table *table, uint64_t hash)
{
    __builtin_prefetch(bucket_at(table, bucket_index(table, hash)));
}

void *table_guess(const struct table *table, uint64_t hash, bool *ret_more)
{
    const struct table_bucket *bucket = bucket_at(table, bucket_index(table, hash));
    uint32_t fit = fitting_slots(bucket, hash_tag(hash));
    *ret_more = fit == 0 && bucket->link;
    if (*ret_more)
        __builtin_prefetch(overflow_words(bucket));
    return fit ? word_pointer(bucket->slot[__builtin_ctz(fit) / 4]) : NULL;
}

void *table_guess_more(const struct table *table, uint64_t hash)
{
    const struct table_bucket *bucket = bucket_at(table, bucket_index(table, hash));
    const uint64_t *word = overflow_words(bucket);
    for (size_t i = 0, count = overflow_count(bucket); i < count; i++)
        if (word[i] >> TABLE_POINTER_BITS == hash_tag(hash))
            return word_pointer(word[i]);
    return NULL;
}

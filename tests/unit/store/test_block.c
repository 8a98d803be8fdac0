// SPDX-License-Identifier: Apache-2.0
#include "store/hot/block.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

struct fix {
    struct meter meter;
    struct block *block;
};

static uint8_t zeros[100 * 1024];

static void fix_init(struct fix *fix)
{
    meter_init(&fix->meter, 0);
    fix->block = block_new(&fix->meter, 1);
}

static void fix_done(struct fix *fix)
{
    block_free(fix->block, &fix->meter);
    ASSERT_EQ(fix->meter.total_bytes, 0);
    meter_done(&fix->meter);
}

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static enum block_answer add(struct fix *fix, struct bytes suffix, struct bytes value,
                             uint8_t flags)
{
    bool exact;
    uint16_t index = block_find(fix->block, suffix, &exact);
    ASSERT_FALSE(exact);
    enum block_answer answer =
        block_insert(&fix->block, &fix->meter, index, flags, suffix, value, NULL);
    block_check(fix->block);
    return answer;
}

static const char *shown(const struct block *block)
{
    static char to[4096];
    size_t at = 0;
    for (uint16_t i = 0; i < block->count; i++) {
        struct entry entry = block_entry(block, i);
        at += (size_t)snprintf(
            to + at, sizeof to - at, "%s%s%.*s=%.*s ", entry.flags & ENTRY_GAP ? "?" : "",
            entry.flags & ENTRY_TOMB ? "-" : "", (int)entry.suffix.len,
            (const char *)entry.suffix.ptr, (int)entry.value.len, (const char *)entry.value.ptr);
    }
    to[at] = 0;
    return to;
}

TEST(entries_stand_in_suffix_order)
{
    struct fix fix;
    fix_init(&fix);
    add(&fix, text("m"), text("1"), 0);
    add(&fix, text("z"), text("2"), ENTRY_GAP);
    add(&fix, text("a"), text(""), 0);
    add(&fix, text(""), text("4"), 0);
    add(&fix, text("mm"), text("thrown away"), ENTRY_TOMB);
    ASSERT_STR(shown(fix.block), "=4 a= m=1 -mm= ?z=2 ");
    ASSERT_EQ(fix.block->live, 4);
    ASSERT_EQ(block_live_before(fix.block, 5), 4);
    ASSERT_EQ(block_live_before(fix.block, 4), 3);
    bool exact;
    ASSERT_EQ(block_find(fix.block, text("mm"), &exact), 3);
    ASSERT_TRUE(exact);
    ASSERT_EQ(block_find(fix.block, text("n"), &exact), 4);
    ASSERT_FALSE(exact);
    ASSERT_EQ(block_find(fix.block, text("zz"), &exact), 5);
    fix_done(&fix);
}

TEST(suffixes_of_eight_bytes_and_more_order_as_shorter_ones)
{
    const char *const suffixes[] = {"",
                                    "12345678",
                                    "1234567",
                                    "123456789",
                                    "12345679",
                                    "\xff",
                                    "1234567a",
                                    "12345678a",
                                    "2",
                                    "12345678b",
                                    "\xff\xff\xff\xff\xff\xff\xff\xff",
                                    "123456780"};
    struct fix fix;
    fix_init(&fix);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        add(&fix, text(suffixes[i]), text("v"), 0); /* checks the order */
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        bool exact;
        block_find(fix.block, text(suffixes[i]), &exact);
        ASSERT_TRUE(exact);
    }
    fix_done(&fix);
}

TEST(a_block_grows_by_size_classes_and_is_full_at_its_limit)
{
    struct fix fix;
    fix_init(&fix);
    enum block_answer answer;
    char suffix[16];
    int count = 0;
    do {
        snprintf(suffix, sizeof suffix, "%06d", count * 7919 % 1000003);
        uint16_t before = fix.block->size;
        answer = add(&fix, text(suffix), bytes_of(zeros, 20), 0);
        ASSERT_EQ(fix.block->size, mem_class_bytes(fix.block->size));
        ASSERT_EQ(fix.meter.total_bytes, fix.block->size);
        ASSERT_GE(fix.block->size, before);
        count++;
    } while (answer == BLOCK_OK);
    ASSERT_EQ(answer, BLOCK_FULL);
    ASSERT_EQ(fix.block->size, BLOCK_BYTES_MAX);
    ASSERT_GT(fix.block->count, BLOCK_BYTES_MAX / (6 + 20 + 2 + 4) - 2);
    fix_done(&fix);
}

TEST(what_is_too_large_stands_out_of_line)
{
    struct fix fix;
    fix_init(&fix);
    ASSERT_EQ(add(&fix, text("inline"), bytes_of(zeros, BLOCK_INLINE_MAX - 8 - 6), 0), BLOCK_OK);
    ASSERT_EQ(add(&fix, text("out"), bytes_of(zeros, BLOCK_INLINE_MAX), 0), BLOCK_OK);
    ASSERT_EQ(add(&fix, bytes_of(zeros, 70 * 1024), text("v"), 0), BLOCK_OK);
    ASSERT_EQ(add(&fix, bytes_of(zeros, 70 * 1024 + 1), text("no value"), ENTRY_TOMB), BLOCK_OK);
    ASSERT_EQ(block_entry(fix.block, 0).suffix.len, 70 * 1024);
    ASSERT_BYTES(block_entry(fix.block, 0).value, text("v"));
    ASSERT_TRUE(block_entry(fix.block, 1).out != NULL);
    ASSERT_EQ(block_entry(fix.block, 1).value.len, 0);
    ASSERT_TRUE(!block_entry(fix.block, 2).out);
    ASSERT_EQ(block_entry(fix.block, 3).value.len, BLOCK_INLINE_MAX);
    ASSERT_GT(fix.meter.total_bytes, 140 * 1024);
    struct block_out *out = NULL;
    block_remove(&fix.block, &fix.meter, 0, &out);
    ASSERT_EQ(out->suffix_len, 70 * 1024);
    block_out_free(out, &fix.meter);
    block_remove(&fix.block, &fix.meter, 0, NULL);
    ASSERT_LT(fix.meter.total_bytes, 4096);
    block_check(fix.block);
    fix_done(&fix);
}

TEST(out_of_line_entries_need_memory)
{
    struct fix fix;
    fix_init(&fix);
    mem_fail_after(1);
    ASSERT_EQ(add(&fix, text("a"), bytes_of(zeros, 4000), 0), BLOCK_NOMEM);
    mem_fail_after(-1);
    ASSERT_EQ(fix.block->count, 0);
    fix_done(&fix);
}

static bool replace(struct fix *fix, uint16_t index, bool tomb, struct bytes value)
{
    struct entry entry = block_entry(fix->block, index);
    return block_replace(fix->block, index, &entry, tomb, value);
}

TEST(a_value_is_replaced_in_place_only_where_it_fits)
{
    struct fix fix;
    fix_init(&fix);
    add(&fix, text("a"), text("12345"), ENTRY_GAP);
    add(&fix, text("b"), text("other"), 0);
    ASSERT_TRUE(replace(&fix, 0, false, text("54321")));
    ASSERT_TRUE(replace(&fix, 0, false, text("12")));
    ASSERT_EQ(fix.block->garbage, 3);
    ASSERT_FALSE(replace(&fix, 0, false, text("123456")));
    ASSERT_STR(shown(fix.block), "?a=12 b=other ");
    block_check(fix.block);
    ASSERT_TRUE(replace(&fix, 0, true, text("")));
    ASSERT_STR(shown(fix.block), "?-a= b=other ");
    ASSERT_EQ(fix.block->live, 1);
    block_check(fix.block);
    ASSERT_FALSE(replace(&fix, 0, false, text("")));
    ASSERT_TRUE(replace(&fix, 0, true, text("")));
    block_remove(&fix.block, &fix.meter, 0, NULL);
    block_check(fix.block);
    fix_done(&fix);
}

TEST(only_the_gap_flag_can_be_changed)
{
    struct fix fix;
    fix_init(&fix);
    add(&fix, text("a"), text("1"), 0);
    block_flags_set(fix.block, 0, ENTRY_GAP);
    ASSERT_EQ(block_flags(fix.block, 0), ENTRY_GAP);
    block_flags_set(fix.block, 0, 0);
    ASSERT_EQ(block_flags(fix.block, 0), 0);
    ASSERT_ABORTS(block_flags_set(fix.block, 0, ENTRY_TOMB));
    fix_done(&fix);
}

TEST(a_stamp_only_gets_newer)
{
    struct fix fix;
    fix_init(&fix);
    block_stamp(fix.block, &fix.meter, 5);
    block_stamp(fix.block, &fix.meter, 3);
    ASSERT_EQ(fix.block->segment, 5);
    meter_mark(&fix.meter, 4);
    ASSERT_EQ(meter_dirty(&fix.meter), fix.block->size);
    meter_mark(&fix.meter, 5);
    ASSERT_EQ(meter_dirty(&fix.meter), 0);
    fix_done(&fix);
}

TEST(a_split_gives_both_halves_the_size_they_need)
{
    for (uint16_t at = 1; at < 20; at++) {
        struct fix fix;
        char suffix[16];
        fix_init(&fix);
        for (int i = 0; i < 20; i++) {
            snprintf(suffix, sizeof suffix, "%02d", i);
            add(&fix, text(suffix), bytes_of(zeros, i % 5 ? 60 : 900),
                i % 3 ? 0 : ENTRY_TOMB | ENTRY_GAP);
        }
        block_remove(&fix.block, &fix.meter, 19, NULL); /* some garbage */
        add(&fix, text("19"), bytes_of(zeros, 30), 0);
        block_stamp(fix.block, &fix.meter, 7);
        fix.block->ref = 0;
        uint16_t live = fix.block->live;
        struct block *right = block_split(&fix.block, &fix.meter, at);
        block_check(fix.block);
        block_check(right);
        ASSERT_EQ(fix.block->count, at);
        ASSERT_EQ(right->count, 20 - at);
        ASSERT_EQ(fix.block->live + right->live, live);
        ASSERT_EQ(right->segment, 7);
        ASSERT_EQ(right->ref, 0);
        ASSERT_EQ(right->garbage + fix.block->garbage, 0);
        ASSERT_LE(fix.block->size, mem_class_bytes(16 + at * (size_t)70));
        for (uint16_t i = 0; i < right->count; i++) {
            snprintf(suffix, sizeof suffix, "%02d", i + at);
            ASSERT_BYTES(block_entry(right, i).suffix, text(suffix));
        }
        block_free(right, &fix.meter);
        fix_done(&fix);
    }
}

TEST(a_merge_keeps_entries_the_newer_stamp_and_the_reference)
{
    struct fix fix;
    fix_init(&fix);
    add(&fix, text("a"), text("1"), 0);
    add(&fix, text("b"), bytes_of(zeros, 2000), 0);
    fix.block->ref = 0;
    struct block *right = block_new(&fix.meter, 8);
    ASSERT_EQ(block_insert(&right, &fix.meter, 0, ENTRY_GAP, text("c"), text("3"), NULL), BLOCK_OK);
    ASSERT_EQ(block_insert(&right, &fix.meter, 1, ENTRY_TOMB, text("d"), text(""), NULL), BLOCK_OK);
    ASSERT_TRUE(block_merge(&fix.block, right, &fix.meter));
    block_check(fix.block);
    ASSERT_EQ(fix.block->count, 4);
    ASSERT_EQ(fix.block->live, 3);
    ASSERT_EQ(fix.block->segment, 8);
    ASSERT_EQ(fix.block->ref, 1);
    ASSERT_EQ(block_flags(fix.block, 2), ENTRY_GAP);
    ASSERT_EQ(block_entry(fix.block, 1).value.len, 2000);
    fix_done(&fix);
}

TEST(blocks_that_would_be_nearly_full_are_not_merged)
{
    struct fix fix;
    fix_init(&fix);
    struct block *right = block_new(&fix.meter, 1);
    for (int i = 0; i < 4; i++) {
        add(&fix, bytes_of(&"abcd"[i], 1), bytes_of(zeros, 400), 0);
        ASSERT_EQ(block_insert(&right, &fix.meter, (uint16_t)i, 0, bytes_of(&"wxyz"[i], 1),
                               bytes_of(zeros, 400), NULL),
                  BLOCK_OK);
    }
    ASSERT_FALSE(block_merge(&fix.block, right, &fix.meter));
    ASSERT_EQ(fix.block->count, 4);
    ASSERT_EQ(right->count, 4);
    block_free(right, &fix.meter);
    fix_done(&fix);
}

TEST(the_middle_halves_the_bytes)
{
    struct fix fix;
    fix_init(&fix);
    add(&fix, text("a"), bytes_of(zeros, 490), 0);
    for (char c = 'b'; c <= 'k'; c++)
        add(&fix, bytes_of(&c, 1), bytes_of(zeros, 40), 0);
    ASSERT_EQ(block_middle(fix.block), 1);
    fix_done(&fix);
    fix_init(&fix);
    for (char c = 'a'; c <= 'j'; c++)
        add(&fix, bytes_of(&c, 1), bytes_of(zeros, 40), 0);
    ASSERT_EQ(block_middle(fix.block), 5);
    add(&fix, text("z"), bytes_of(zeros, 490), 0);
    ASSERT_EQ(block_middle(fix.block), 10);
    fix_done(&fix);
}

TEST(a_block_that_loses_most_of_its_rows_shrinks)
{
    struct fix fix;
    fix_init(&fix);
    for (char c = 'a'; c <= 'z'; c++)
        add(&fix, bytes_of(&c, 1), bytes_of(zeros, 60), 0);
    uint16_t before = fix.block->size;
    while (fix.block->count > 1) {
        block_remove(&fix.block, &fix.meter, 0, NULL);
        block_check(fix.block);
    }
    ASSERT_LE(fix.block->size, 256);
    ASSERT_GT(before, 1500);
    fix_done(&fix);
}

/* Values of changing lengths come and go; the block must always be what a plain array says. */
/* Suffixes over an alphabet of the bytes at the edges, short ones: many share a beginning, many are
 * the beginning of others, and zeros are not taken for what is missing. */
static struct bytes odd_suffix(struct rand *rand, size_t begin, uint8_t *to)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff};
    size_t len = begin + rand_below(rand, 5);
    memset(to, 'p', begin);
    for (size_t i = begin; i < len; i++)
        to[i] = odd[rand_below(rand, sizeof odd)];
    if (len > 0 && rand_below(rand, 20) == 0)
        len = rand_below(rand, (uint32_t)len); /* shorter than what the others share */
    if (len > 0 && rand_below(rand, 20) == 0)
        to[rand_below(rand, (uint32_t)len)] ^= 1; /* not as the others */
    return bytes_of(to, len);
}

static uint16_t find_plainly(const struct block *block, struct bytes suffix, bool *ret_exact)
{
    uint16_t index = 0;
    while (index < block->count && bytes_cmp(block_entry(block, index).suffix, suffix) < 0)
        index++;
    *ret_exact = index < block->count && bytes_eq(block_entry(block, index).suffix, suffix);
    return index;
}

TEST(a_search_by_heads_finds_what_looking_at_every_suffix_finds)
{
    static const size_t begins[] = {0, 1, 7, 8, 9, 60, BLOCK_SKIP_MAX, 300};
    uint8_t bytes[512];
    struct rand rand;
    rand_init_seed(&rand, 7);
    for (size_t b = 0; b < sizeof begins / sizeof *begins; b++) {
        struct fix fix;
        fix_init(&fix);
        for (int i = 0; i < 4000; i++) {
            struct bytes suffix = odd_suffix(&rand, begins[b], bytes);
            size_t value = rand_below(&rand, 8) ? rand_below(&rand, 4) : 600; /* out of line */
            bool exact, wanted_exact;
            uint16_t wanted = find_plainly(fix.block, suffix, &wanted_exact);
            ASSERT_EQ(block_find(fix.block, suffix, &exact), wanted);
            ASSERT_EQ(exact, wanted_exact);
            if (fix.block->count > 0) {
                ASSERT_EQ(block_find_end(fix.block, suffix, &exact), wanted);
                ASSERT_EQ(exact, wanted_exact);
            }
            if (exact)
                block_remove(&fix.block, &fix.meter, wanted, NULL);
            else if (block_insert(&fix.block, &fix.meter, wanted, 0, suffix, bytes_of(zeros, value),
                                  NULL) == BLOCK_FULL)
                block_free(block_split(&fix.block, &fix.meter, block_middle(fix.block)),
                           &fix.meter);
            block_check(fix.block);
        }
        fix_done(&fix);
    }
}

/* Digits behind "id:", of changing length; one in `strange` has something else among them. */
static struct bytes digits_suffix(struct rand *rand, uint32_t strange, uint8_t to[16])
{
    static const uint8_t others[] = {0, ' ', '/', ':', 'a', 0xff};
    size_t len = 3 + rand_below(rand, 7);
    memcpy(to, "id:", 3);
    for (size_t i = 3; i < len; i++)
        to[i] = (uint8_t)('0' + rand_below(rand, 10));
    if (rand_below(rand, strange) == 0)
        to[rand_below(rand, 10)] = others[rand_below(rand, sizeof others)];
    return bytes_of(to, len);
}

TEST(a_search_in_a_block_of_digits_finds_what_looking_at_every_suffix_finds)
{
    struct rand rand;
    int digits_count = 0, change_count = 0;
    rand_init_seed(&rand, 8);
    for (uint32_t round = 0; round < 60; round++) {
        struct fix fix;
        fix_init(&fix);
        for (int i = 0; i < 400; i++) {
            uint8_t bytes[16];
            bool exact, wanted_exact, before = fix.block->digits;
            struct bytes suffix = digits_suffix(&rand, 4, bytes); /* only looked for */
            uint16_t wanted = find_plainly(fix.block, suffix, &wanted_exact);
            ASSERT_EQ(block_find(fix.block, suffix, &exact), wanted);
            ASSERT_EQ(exact, wanted_exact);
            suffix = digits_suffix(&rand, 1 + round * 20, bytes);
            wanted = find_plainly(fix.block, suffix, &wanted_exact);
            ASSERT_EQ(block_find(fix.block, suffix, &exact), wanted);
            ASSERT_EQ(exact, wanted_exact);
            if (exact)
                block_remove(&fix.block, &fix.meter, wanted, NULL);
            else if (block_insert(&fix.block, &fix.meter, wanted, 0, suffix, bytes_of(zeros, 1),
                                  NULL) == BLOCK_FULL)
                block_free(block_split(&fix.block, &fix.meter, block_middle(fix.block)),
                           &fix.meter);
            block_check(fix.block);
            digits_count += fix.block->count > 100 && fix.block->digits;
            change_count += before && !fix.block->digits;
        }
        fix_done(&fix);
    }
    ASSERT_GT(digits_count, 1000);
    ASSERT_GT(change_count, 20);
}

TEST(a_block_of_numbers_tells_them_apart_by_its_directory_alone)
{
    struct fix fix;
    fix_init(&fix);
    for (int i = 0; i < 150; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "id:%04d", i * 60);
        ASSERT_EQ(add(&fix, text(suffix), text(""), 0), BLOCK_OK);
    }
    for (uint16_t i = 0; i < 150; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "id:%04d", i * 60);
        ASSERT_EQ(block_prefetch_entry(fix.block, text(suffix)), i); /* not one before it */
    }
    fix_done(&fix);
}

TEST(suffixes_that_differ_by_zeros_at_their_end_are_told_apart)
{
    static const uint8_t suffix[12] = {'k', 'e', 'y', ':', 'a'}; /* "key:a", "key:a\0", ... */
    struct fix fix;
    bool exact;
    fix_init(&fix);
    for (size_t len = 5; len <= sizeof suffix; len += 2)
        ASSERT_EQ(add(&fix, bytes_of(suffix, len), bytes_of(zeros, len), 0), BLOCK_OK);
    block_check(fix.block);
    for (size_t len = 4; len <= sizeof suffix; len++) {
        uint16_t index = block_find(fix.block, bytes_of(suffix, len), &exact);
        ASSERT_EQ(exact, len % 2 == 1);
        ASSERT_EQ(index, (len - 4) / 2);
    }
    fix_done(&fix);
}

TEST(a_search_with_any_hint_finds_what_one_without_finds)
{
    struct fix fix;
    fix_init(&fix);
    char suffix[16];
    for (int i = 0; i < 30; i++) {
        snprintf(suffix, sizeof suffix, "%c%07d", i < 15 ? 'a' : 'b', i);
        ASSERT_EQ(add(&fix, text(suffix), bytes_of(zeros, i < 27 ? 600 : 4), 0), BLOCK_OK);
    }
    for (int i = -1; i < 31; i++) { /* the first and the last are not there */
        bool exact, hinted;
        snprintf(suffix, sizeof suffix, "%c%07d", i < 15 ? 'a' : 'b', i);
        uint16_t wanted = block_find(fix.block, text(suffix), &exact);
        uint16_t hint = block_prefetch_entry(fix.block, text(suffix));
        block_prefetch_out(fix.block, text(suffix), hint);
        ASSERT_EQ(exact, i >= 0 && i < 30);
        ASSERT_LE(hint, wanted);
        for (hint = 0; hint <= fix.block->count + 1; hint++) {
            ASSERT_EQ(block_find_hint(fix.block, text(suffix), 0, hint, &hinted), wanted);
            ASSERT_EQ(hinted, exact);
        }
    }
    fix_done(&fix);
}

TEST(a_block_agrees_with_a_plain_array)
{
    enum { KEYS = 40 };
    struct fix fix;
    struct rand rand;
    size_t lens[KEYS]; /* of the value + 1; 0: none */
    memset(lens, 0, sizeof lens);
    rand_init_seed(&rand, 4);
    fix_init(&fix);
    for (int i = 0; i < 30000; i++) {
        uint8_t key = (uint8_t)rand_below(&rand, KEYS);
        struct bytes suffix = bytes_of(&key, 1);
        size_t len = rand_below(&rand, rand_below(&rand, 50) ? 40 : 700);
        bool exact;
        uint16_t index = block_find(fix.block, suffix, &exact);
        ASSERT_EQ(exact, lens[key] > 0);
        if (exact && rand_below(&rand, 2)) {
            if (!block_entry(fix.block, index).out && len + 1 <= BLOCK_INLINE_MAX - 8 &&
                replace(&fix, index, false, bytes_of(zeros, len)))
                lens[key] = len + 1;
        } else if (exact) {
            block_remove(&fix.block, &fix.meter, index, NULL);
            lens[key] = 0;
        } else if (block_insert(&fix.block, &fix.meter, index, 0, suffix, bytes_of(zeros, len),
                                NULL) == BLOCK_OK) {
            lens[key] = len + 1;
        }
        block_check(fix.block);
        uint16_t count = 0;
        for (uint8_t n = 0; n < KEYS; n++) {
            if (!lens[n])
                continue;
            struct entry entry = block_entry(fix.block, count++);
            ASSERT_EQ(entry.suffix.ptr[0], n);
            ASSERT_EQ(entry.value.len, lens[n] - 1);
        }
        ASSERT_EQ(count, fix.block->count);
    }
    fix_done(&fix);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

struct item {
    uint64_t key;
    uint64_t hash;
    bool in_table;
    unsigned visited;
};

static uint64_t item_hash(const void *entry, void *arg)
{
    (void)arg;
    return ((const struct item *)entry)->hash;
}

static bool item_eq(const void *entry, const void *key, void *arg)
{
    ++*(uint64_t *)arg; /* how often a tag was not enough */
    return ((const struct item *)entry)->key == *(const uint64_t *)key;
}

struct fixture {
    struct table table;
    struct rand rand;
    struct item *item;
    size_t count;
    uint64_t eq_count;
};

static void setup(struct fixture *fix, size_t count)
{
    *fix = (struct fixture){.item = mem_zalloc(count * sizeof *fix->item), .count = count};
    rand_init_seed(&fix->rand, count);
    for (size_t i = 0; i < count; i++) {
        fix->item[i].key = i;
        fix->item[i].hash = rand_u64(&fix->rand);
    }
    table_init(&fix->table, item_hash, item_eq, &fix->eq_count);
}

static void teardown(struct fixture *fix)
{
    table_done(&fix->table);
    mem_free(fix->item);
}

static struct item *find(struct fixture *fix, size_t i, struct table_slot *ret_slot)
{
    return table_find(&fix->table, fix->item[i].hash, &fix->item[i].key, ret_slot);
}

static void add(struct fixture *fix, size_t i)
{
    table_insert(&fix->table, fix->item[i].hash, &fix->item[i]);
    fix->item[i].in_table = true;
}

static void take(struct fixture *fix, size_t i)
{
    struct table_slot slot = {NULL};
    ASSERT_EQ(find(fix, i, &slot), &fix->item[i]);
    table_remove(&fix->table, fix->item[i].hash, slot);
    fix->item[i].in_table = false;
}

static void check_all(struct fixture *fix)
{
    size_t count = 0;
    for (size_t i = 0; i < fix->count; i++) {
        ASSERT_EQ(find(fix, i, NULL), fix->item[i].in_table ? &fix->item[i] : NULL);
        count += fix->item[i].in_table;
    }
    ASSERT_EQ(fix->table.entry_count, count);
}

TEST(an_empty_table_is_small_finds_nothing_and_may_be_ended_twice)
{
    struct fixture fix;
    setup(&fix, 1);
    ASSERT_FALSE(find(&fix, 0, NULL));
    ASSERT_LE(fix.table.memory_bytes, 512);
    table_done(&fix.table);
    teardown(&fix);
    table_done(NULL);
}

TEST(random_inserts_and_removes_agree_with_a_naive_set)
{
    struct fixture fix;
    setup(&fix, 5000);
    for (int phase = 0; phase < 8; phase++) {
        for (int i = 0; i < 20000; i++) {
            size_t at = rand_below(&fix.rand, fix.count);
            bool adds = rand_below(&fix.rand, 10) < (phase % 2 ? 1u : 9u);
            if (adds && !fix.item[at].in_table)
                add(&fix, at);
            else if (!adds && fix.item[at].in_table)
                take(&fix, at);
        }
        check_all(&fix);
    }
    teardown(&fix);
}

TEST(a_million_entries_take_thirteen_bytes_each_and_go_again)
{
    struct fixture fix;
    setup(&fix, 1000000);
    size_t empty_bytes = fix.table.memory_bytes;
    for (size_t i = 0; i < fix.count; i++) {
        add(&fix, i);
        if (i > 300000 && i % 9973 == 0) /* at every point of a doubling, and not only at its end */
            ASSERT_LE(fix.table.memory_bytes, 13 * fix.table.entry_count);
    }
    ASSERT_LE(fix.table.memory_bytes, 13 * fix.count);
    printf("  %.2f bytes an entry\n", (double)fix.table.memory_bytes / (double)fix.count);
    fix.eq_count = 0;
    check_all(&fix);
    ASSERT_LE(fix.eq_count, fix.count + fix.count / 500); /* tags keep others away */

    for (size_t i = 0; i < 100000; i++) {
        size_t at = rand_below(&fix.rand, fix.count);
        if (fix.item[at].in_table)
            take(&fix, at);
        else
            add(&fix, at);
    }
    check_all(&fix);
    for (size_t i = 0; i < fix.count; i++) {
        if (fix.item[i].in_table)
            take(&fix, i);
    }
    ASSERT_EQ(fix.table.entry_count, 0);
    ASSERT_LE(fix.table.memory_bytes, empty_bytes + 8 * 1024); /* the list of chunks stays */
    teardown(&fix);
}

TEST(entries_with_one_hash_are_told_apart_by_their_keys)
{
    struct fixture fix;
    setup(&fix, 300);
    for (size_t i = 0; i < fix.count; i++) {
        fix.item[i].hash = 0; /* the tag of an empty slot, too */
        ASSERT_FALSE(find(&fix, i, NULL));
        add(&fix, i);
    }
    check_all(&fix);
    for (size_t i = 0; i < fix.count; i += 3)
        take(&fix, i);
    check_all(&fix);
    teardown(&fix);
}

TEST(a_moved_entry_is_found_at_its_new_place)
{
    struct fixture fix;
    setup(&fix, 100);
    for (size_t i = 0; i < fix.count; i++)
        add(&fix, i);
    struct item moved = fix.item[50];
    struct table_slot slot = {NULL};
    ASSERT_TRUE(find(&fix, 50, &slot));
    table_slot_replace(slot, &moved);
    ASSERT_EQ(find(&fix, 50, NULL), &moved);
    table_prefetch(&fix.table, moved.hash);
    teardown(&fix);
}

TEST(a_pointer_of_more_than_48_bits_is_a_mistake)
{
    struct fixture fix;
    setup(&fix, 1);
    ASSERT_ABORTS(table_insert(&fix.table, 1, (void *)(uintptr_t)(UINT64_C(1) << 48)));
    ASSERT_ABORTS(table_insert(&fix.table, 1, NULL));
    teardown(&fix);
}

static void visit(void *entry, void *arg)
{
    struct item *item = entry;
    item->visited++;
    ++*(size_t *)arg;
}

TEST(a_scan_of_a_table_at_rest_visits_everything_once)
{
    struct fixture fix;
    setup(&fix, 3000);
    for (size_t i = 0; i < fix.count; i++) {
        add(&fix, i);
        if (i % 97 != 0)
            continue;
        size_t visits = 0;
        uint64_t cursor = 0;
        do {
            cursor = table_scan(&fix.table, cursor, visit, &visits);
        } while (cursor != 0);
        ASSERT_EQ(visits, i + 1);
        for (size_t j = 0; j <= i; j++) {
            ASSERT_EQ(fix.item[j].visited, 1);
            fix.item[j].visited = 0;
        }
    }
    teardown(&fix);
}

/* Items below `stays` are there from start to end; the others come and go between two calls, in
 * waves that let the table grow and shrink several times during one scan. */
static void scan_under_change(struct fixture *fix, size_t stays)
{
    size_t visits = 0;
    size_t step = 0;
    uint64_t cursor = 0;
    bool grows = rand_below(&fix->rand, 2);

    for (size_t i = 0; i < fix->count; i++)
        fix->item[i].visited = 0;
    do {
        cursor = table_scan(&fix->table, cursor, visit, &visits);
        if (rand_below(&fix->rand, 200) == 0)
            grows = !grows;
        for (uint64_t n = rand_below(&fix->rand, 200); n > 0; n--) {
            size_t at = stays + rand_below(&fix->rand, fix->count - stays);
            if (grows && !fix->item[at].in_table)
                add(fix, at);
            else if (!grows && fix->item[at].in_table)
                take(fix, at);
        }
        ASSERT_LT(step++, 1000000);
    } while (cursor != 0);
    for (size_t i = 0; i < stays; i++)
        ASSERT_GE(fix->item[i].visited, 1);
}

TEST(a_scan_visits_what_stays_however_the_table_grows_and_shrinks)
{
    struct fixture fix;
    size_t stays = 200;
    setup(&fix, 20000);
    for (size_t i = 0; i < stays; i++)
        add(&fix, i);
    for (int round = 0; round < (test_is_long() ? 2000 : 60); round++)
        scan_under_change(&fix, stays);
    check_all(&fix);
    teardown(&fix);
}

TEST(a_guess_is_an_entry_with_the_same_tag_also_in_the_overflow)
{
    struct fixture fix;
    size_t more_count = 0;
    setup(&fix, 3000); /* in the middle of a doubling: some buckets are full */
    for (size_t i = 0; i < fix.count; i++)
        add(&fix, i);
    fix.eq_count = 0;
    for (size_t i = 0; i < fix.count; i++) {
        bool more = false;
        uint64_t hash = fix.item[i].hash;
        const struct item *found = table_guess(&fix.table, hash, &more);
        ASSERT_EQ(found == NULL, more); /* it is there */
        if (more)
            found = table_guess_more(&fix.table, hash);
        more_count += more;
        ASSERT_TRUE(found != NULL);
        ASSERT_EQ(found->hash >> 48, hash >> 48);
    }
    ASSERT_GT(more_count, 0);
    ASSERT_EQ(fix.eq_count, 0);
    teardown(&fix);
}

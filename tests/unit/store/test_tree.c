// SPDX-License-Identifier: Apache-2.0
#include "store/hot/tree.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/mem.h"
#include "base/rand.h"
#include "support/tree_model.h"
#include "test.h"

#include "base/banned.h"

struct fix {
    struct tree tree;
    struct meter meter;
    struct buf keep;
    struct buf dump[2];
    uint32_t segment;
};

static void fix_init(struct fix *fix, bool complete)
{
    *fix = (struct fix){.segment = 1};
    tree_init(&fix->tree, complete);
    meter_init(&fix->meter, 0);
    buf_init(&fix->keep, 1 << 28);
    buf_init(&fix->dump[0], 1 << 28);
    buf_init(&fix->dump[1], 1 << 28);
}

static void fix_done(struct fix *fix)
{
    tree_check(&fix->tree);
    tree_done(&fix->tree, &fix->meter);
    ASSERT_EQ(fix->meter.total_bytes, 0);
    meter_done(&fix->meter);
    buf_done(&fix->keep);
    buf_done(&fix->dump[0]);
    buf_done(&fix->dump[1]);
}

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static void put(struct fix *fix, struct bytes suffix, struct bytes value)
{
    struct tree_old old;
    ASSERT_RC(tree_put(&fix->tree, &fix->meter, fix->segment, suffix, value, &fix->keep, &old),
              RC_OK);
    block_out_free(old.out, &fix->meter);
    fix->keep.len = 0;
}

static enum rc delete (struct fix *fix, struct bytes suffix) {
    struct tree_old old = {0};
    enum rc rc = tree_delete(&fix->tree, &fix->meter, fix->segment, suffix, &fix->keep, &old);
    block_out_free(old.out, &fix->meter);
    fix->keep.len = 0;
    return rc;
}

static void fill(struct fix *fix, const char *suffix)
{
    ASSERT_RC(tree_fill_row(&fix->tree, &fix->meter, text(suffix), text("cold")), RC_OK);
}

static struct tree_edge edge(const char *suffix, bool known)
{
    return (struct tree_edge){.has = true, .known = known, .suffix = text(suffix)};
}

static const struct tree_edge no_edge;

static struct tree_page page(struct tree_edge from, struct tree_edge to)
{
    return (struct tree_page){.from = from,
                              .to = to,
                              .entry_count_max = UINT32_MAX,
                              .closed_run_max = UINT32_MAX,
                              .tomb_count_max = UINT32_MAX};
}

static void page_close(struct fix *fix, struct tree_page page)
{
    ASSERT_RC(tree_fill_close(&fix->tree, &fix->meter, &page), RC_OK);
    tree_check(&fix->tree);
}

static void fill_close(struct fix *fix, struct tree_edge from, struct tree_edge to)
{
    page_close(fix, page(from, to));
}

/* Entries in order: "a=value", "-b" a tombstone, "?" an open interval before the next. */
static const char *shown(struct fix *fix)
{
    struct buf *to = &fix->dump[0];
    struct tree_pos pos;
    to->len = 0;
    tree_seek_first(&fix->tree, &pos);
    for (bool more = tree_to_entry(&fix->tree, &pos); more; more = tree_next(&fix->tree, &pos)) {
        struct entry entry = block_entry(pos.block, pos.index);
        bool tomb = entry.flags & ENTRY_TOMB;
        ASSERT_TRUE(buf_printf(to, "%s%s%.*s%s%.*s ", entry.flags & ENTRY_GAP ? "? " : "",
                               tomb ? "-" : "", (int)entry.suffix.len,
                               (const char *)entry.suffix.ptr, tomb ? "" : "=",
                               (int)entry.value.len, (const char *)entry.value.ptr));
    }
    ASSERT_TRUE(buf_add(to, fix->tree.gap_end ? "?" : ".", 2)); /* with the end of the string */
    return (const char *)to->ptr;
}

static void dump(struct fix *fix, struct buf *to)
{
    struct tree_pos pos;
    to->len = 0;
    tree_seek_first(&fix->tree, &pos);
    for (bool more = tree_to_entry(&fix->tree, &pos); more; more = tree_next(&fix->tree, &pos)) {
        struct entry entry = block_entry(pos.block, pos.index);
        uint8_t flags = entry.flags & (ENTRY_GAP | ENTRY_TOMB);
        ASSERT_TRUE(buf_add(to, &flags, 1) && buf_add_uvarint(to, entry.suffix.len) &&
                    buf_add_bytes(to, entry.suffix) && buf_add_uvarint(to, entry.value.len) &&
                    buf_add_bytes(to, entry.value));
    }
    ASSERT_TRUE(buf_add(to, &fix->tree.gap_count, sizeof fix->tree.gap_count));
}

static const char *value_at(struct fix *fix, struct bytes suffix)
{
    struct tree_pos pos;
    static char value[64];
    tree_seek(&fix->tree, suffix, &pos);
    if (!pos.exact)
        return "nothing";
    struct entry entry = block_entry(pos.block, pos.index);
    snprintf(value, sizeof value, "%.*s", (int)entry.value.len, (const char *)entry.value.ptr);
    return value;
}

/* ---- changes ---- */

/* The heads of unused places in a node are as large as theirs. */
TEST(suffixes_of_the_largest_bytes_are_found)
{
    struct fix fix;
    uint8_t suffix[24];
    memset(suffix, 0xff, sizeof suffix);
    fix_init(&fix, true);
    for (uint32_t i = 0; i < 5000; i++) {
        be32_put(suffix + 8 + i % 3 * 4, i * UINT32_C(2654435761));
        put(&fix, bytes_of(suffix, 8 + i % 17), text("v"));
    }
    tree_check(&fix.tree);
    struct tree_pos pos, found;
    tree_seek_first(&fix.tree, &pos);
    for (bool more = tree_to_entry(&fix.tree, &pos); more; more = tree_next(&fix.tree, &pos)) {
        tree_seek(&fix.tree, block_entry(pos.block, pos.index).suffix, &found);
        ASSERT_TRUE(found.exact);
        ASSERT_TRUE(found.block == pos.block && found.index == pos.index);
    }
    fix_done(&fix);
}

TEST(rows_are_found_in_byte_order)
{
    struct fix fix;
    fix_init(&fix, true);
    put(&fix, text("b"), text("2"));
    put(&fix, text("a"), text("1"));
    put(&fix, text("ab"), text("3"));
    put(&fix, text(""), text("0"));
    put(&fix, text("b"), text("two"));
    ASSERT_STR(shown(&fix), "=0 a=1 ab=3 b=two .");
    ASSERT_EQ(tree_live(&fix.tree), 4);
    ASSERT_STR(value_at(&fix, text("ab")), "3");
    ASSERT_STR(value_at(&fix, text("aa")), "nothing");
    fix_done(&fix);
}

TEST(a_delete_between_closed_intervals_leaves_nothing)
{
    struct fix fix;
    fix_init(&fix, true);
    put(&fix, text("a"), text("1"));
    put(&fix, text("b"), text("2"));
    ASSERT_RC(delete (&fix, text("a")), RC_OK);
    ASSERT_RC(delete (&fix, text("a")), RC_NOT_FOUND);
    ASSERT_STR(shown(&fix), "b=2 .");
    ASSERT_RC(delete (&fix, text("b")), RC_OK);
    ASSERT_STR(shown(&fix), ".");
    ASSERT_TRUE(!fix.tree.root);
    fix_done(&fix);
}

TEST(a_delete_beside_an_open_interval_leaves_a_tombstone)
{
    struct fix fix;
    fix_init(&fix, false);
    put(&fix, text("b"), text("2"));
    ASSERT_STR(shown(&fix), "? b=2 ?");
    ASSERT_RC(delete (&fix, text("b")), RC_OK);
    ASSERT_STR(shown(&fix), "? -b ?");
    ASSERT_RC(delete (&fix, text("b")), RC_NOT_FOUND);
    ASSERT_RC(delete (&fix, text("c")), RC_OK); /* there may have been one */
    ASSERT_STR(shown(&fix), "? -b ? -c ?");
    put(&fix, text("c"), text("3"));
    ASSERT_STR(shown(&fix), "? -b ? c=3 ?");
    ASSERT_EQ(tree_live(&fix.tree), 1);
    fix_done(&fix);
}

TEST(an_undo_gives_back_bytes_and_gap_flags)
{
    static uint8_t large[4000];
    const struct bytes values[] = {BYTES(""), BYTES("x"), BYTES("longer"), bytes_of(large, 3000),
                                   bytes_of(large, 4000)};
    for (int complete = 0; complete < 2; complete++) {
        for (size_t before = 0; before < 2 * ARRAY_LEN(values); before++) {
            for (size_t after = 0; after <= ARRAY_LEN(values); after++) {
                struct fix fix;
                struct tree_old old = {0};
                fix_init(&fix, complete);
                put(&fix, text("k"), text("left"));
                if (before < ARRAY_LEN(values))
                    put(&fix, text("l"), values[before]);
                else if (before == ARRAY_LEN(values))
                    delete (&fix, text("l"));
                put(&fix, text("m"), text("right"));
                dump(&fix, &fix.dump[0]);
                enum rc rc = RC_OK;
                if (after < ARRAY_LEN(values))
                    rc = tree_put(&fix.tree, &fix.meter, 1, text("l"), values[after], &fix.keep,
                                  &old);
                else
                    rc = tree_delete(&fix.tree, &fix.meter, 1, text("l"), &fix.keep, &old);
                if (rc == RC_OK)
                    tree_undo(&fix.tree, &fix.meter, 1, text("l"), &old, &fix.keep);
                dump(&fix, &fix.dump[1]);
                ASSERT_BYTES(buf_bytes(&fix.dump[0]), buf_bytes(&fix.dump[1]));
                fix_done(&fix);
            }
        }
    }
}

TEST(a_removed_row_stamps_the_blocks_on_both_sides)
{
    struct fix fix;
    struct tree_pos pos;
    uint8_t value[400];
    fix_init(&fix, true);
    memset(value, 'v', sizeof value);
    for (char c = 'a'; c <= 'z'; c++)
        put(&fix, bytes_of(&c, 1), bytes_of(value, sizeof value));
    ASSERT_EQ(fix.tree.height, 1);
    tree_seek(&fix.tree, text("m"), &pos);
    pos.index = 0; /* the first row of its block */
    uint8_t first = block_entry(pos.block, 0).suffix.ptr[0];
    struct tree_pos next = pos;
    next.index = pos.block->count;
    ASSERT_TRUE(tree_to_entry(&fix.tree, &next));
    uint8_t after = block_entry(next.block, 0).suffix.ptr[0];
    fix.segment = 9;
    ASSERT_RC(delete (&fix, bytes_of(&first, 1)), RC_OK);
    uint8_t before = (uint8_t)(first - 1);
    tree_seek(&fix.tree, bytes_of(&before, 1), &pos);
    ASSERT_EQ(pos.block->segment, 9);
    tree_seek(&fix.tree, text("m"), &pos);
    ASSERT_EQ(pos.block->segment, 9);
    tree_seek(&fix.tree, bytes_of(&after, 1), &pos);
    ASSERT_EQ(pos.block->segment, 1);
    fix.segment = 12;
    uint8_t last = (uint8_t)(after - 1);
    ASSERT_RC(delete (&fix, bytes_of(&last, 1)), RC_OK);
    tree_seek(&fix.tree, bytes_of(&after, 1), &pos);
    ASSERT_EQ(pos.block->segment, 12);
    fix_done(&fix);
}

/* ---- loads and evictions ---- */

TEST(a_page_closes_exactly_what_it_has_read)
{
    struct fix fix;
    fix_init(&fix, false);
    fill(&fix, "d");
    fill(&fix, "f");
    fill_close(&fix, edge("c", true), edge("f", true));
    ASSERT_STR(shown(&fix), "? -c d=cold f=cold ?");
    fill_close(&fix, no_edge, edge("c", false));
    ASSERT_STR(shown(&fix), "d=cold f=cold ?");
    fill(&fix, "z");
    fill_close(&fix, edge("f", true), no_edge);
    ASSERT_STR(shown(&fix), "d=cold f=cold z=cold .");
    ASSERT_TRUE(tree_complete(&fix.tree));
    fix_done(&fix);
}

TEST(a_page_whose_bound_was_evicted_closes_up_to_its_last_row)
{
    struct fix fix;
    struct tree_pos pos;
    fix_init(&fix, false);
    fill(&fix, "p");
    fill_close(&fix, edge("p", true), edge("p", true));
    tree_seek(&fix.tree, text("p"), &pos);
    tree_evict(&fix.tree, &fix.meter, &pos);
    ASSERT_STR(shown(&fix), "?");
    fill(&fix, "c");
    fill(&fix, "e");
    fill_close(&fix, no_edge, edge("p", false));
    ASSERT_STR(shown(&fix), "c=cold e=cold ?");
    fix_done(&fix);
}

/* Rows b, d, f, h and a tombstone g that were written blindly. */
static void sprinkle(struct fix *fix)
{
    fix_init(fix, false);
    put(fix, text("b"), text("hot"));
    put(fix, text("d"), text("hot"));
    put(fix, text("f"), text("hot"));
    ASSERT_RC(delete (fix, text("g")), RC_OK);
    put(fix, text("h"), text("hot"));
    ASSERT_STR(shown(fix), "? b=hot ? d=hot ? f=hot ? -g ? h=hot ?");
}

TEST(a_page_whose_bound_was_evicted_closes_up_to_the_last_hot_row_before_it)
{
    struct fix fix;
    sprinkle(&fix);
    fill_close(&fix, edge("b", true), edge("e", false));
    ASSERT_STR(shown(&fix), "? b=hot d=hot ? f=hot ? -g ? h=hot ?");
    struct tree_page down = page(edge("h", true), edge("e", false));
    down.reverse = true;
    page_close(&fix, down);
    ASSERT_STR(shown(&fix), "? b=hot d=hot ? f=hot h=hot ?");
    down = page(edge("b", true), edge("a", false));
    down.reverse = true;
    page_close(&fix, down);
    ASSERT_STR(shown(&fix), "? b=hot d=hot ? f=hot h=hot ?");
    fix_done(&fix);
}

TEST(a_page_without_rows_and_without_its_bound_closes_nothing)
{
    struct fix fix;
    fix_init(&fix, false);
    fill_close(&fix, no_edge, edge("p", false));
    ASSERT_STR(shown(&fix), "?");
    fill_close(&fix, edge("b", true), edge("p", false));
    ASSERT_STR(shown(&fix), "? -b ?");
    fix_done(&fix);
}

TEST(what_is_hot_wins_over_what_was_read)
{
    struct fix fix;
    fix_init(&fix, false);
    put(&fix, text("a"), text("hot"));
    ASSERT_RC(delete (&fix, text("b")), RC_OK);
    fill(&fix, "a");
    fill(&fix, "b");
    fill(&fix, "c");
    fill_close(&fix, no_edge, no_edge);
    ASSERT_STR(shown(&fix), "a=hot c=cold .");
    ASSERT_RC(delete (&fix, text("c")), RC_OK);
    fill(&fix, "c"); /* a slower load of the same interval */
    ASSERT_STR(shown(&fix), "a=hot .");
    fix_done(&fix);
}

TEST(a_page_closes_every_interval_between_hot_rows_in_its_range)
{
    struct fix fix;
    sprinkle(&fix);
    fill(&fix, "c");
    fill(&fix, "d");
    fill(&fix, "g");
    fill_close(&fix, edge("b", true), edge("g", true));
    ASSERT_STR(shown(&fix), "? b=hot c=cold d=hot f=hot -g ? h=hot ?");
    fill_close(&fix, edge("f", true), no_edge);
    ASSERT_STR(shown(&fix), "? b=hot c=cold d=hot f=hot h=hot .");
    struct tree_page all = page(no_edge, no_edge);
    all.reverse = true;
    page_close(&fix, all);
    ASSERT_STR(shown(&fix), "b=hot c=cold d=hot f=hot h=hot .");
    fix_done(&fix);
}

TEST(a_page_may_close_less_and_then_begins_where_it_was_asked_for)
{
    struct fix fix;
    sprinkle(&fix);
    struct tree_page some = page(edge("b", true), no_edge);
    some.entry_count_max = 2;
    page_close(&fix, some);
    ASSERT_STR(shown(&fix), "? b=hot d=hot f=hot ? -g ? h=hot ?");
    some = page(no_edge, no_edge);
    some.reverse = true;
    some.entry_count_max = 2; /* the group's end, and the last row */
    page_close(&fix, some);
    ASSERT_STR(shown(&fix), "? b=hot d=hot f=hot ? -g h=hot .");
    fix_done(&fix);
}

TEST(a_page_removes_only_so_many_tombstones_and_the_next_one_the_rest)
{
    struct fix fix;
    struct tree_old old;
    sprinkle(&fix);
    ASSERT_RC(tree_delete(&fix.tree, &fix.meter, 1, text("d"), &fix.keep, &old), RC_OK);
    ASSERT_RC(tree_delete(&fix.tree, &fix.meter, 1, text("f"), &fix.keep, &old), RC_OK);
    struct tree_page some = page(edge("b", true), no_edge);
    some.tomb_count_max = 2;
    page_close(&fix, some);
    ASSERT_STR(shown(&fix), "? b=hot -g h=hot .");
    page_close(&fix, some);
    ASSERT_STR(shown(&fix), "? b=hot h=hot .");
    fix_done(&fix);
}

TEST(a_page_ends_behind_a_run_that_others_have_closed)
{
    struct fix fix;
    sprinkle(&fix);
    fill_close(&fix, edge("b", true), edge("f", true));
    struct tree_page late = page(edge("b", true), no_edge);
    late.closed_run_max = 2;
    page_close(&fix, late);
    ASSERT_STR(shown(&fix), "? b=hot d=hot f=hot ? -g ? h=hot ?");
    late.closed_run_max = 3;
    page_close(&fix, late);
    ASSERT_STR(shown(&fix), "? b=hot d=hot f=hot h=hot .");
    late = page(edge("g", true), no_edge);
    late.reverse = true;
    late.closed_run_max = 2;
    page_close(&fix, late);
    ASSERT_STR(shown(&fix), "? b=hot d=hot f=hot h=hot .");
    late.closed_run_max = 4;
    page_close(&fix, late);
    ASSERT_STR(shown(&fix), "b=hot d=hot f=hot h=hot .");
    fix_done(&fix);
}

TEST(a_tombstone_that_a_load_removes_leaves_its_stamp)
{
    struct fix fix;
    struct tree_pos pos;
    fix_init(&fix, false);
    fill(&fix, "a");
    fix.segment = 7;
    ASSERT_RC(delete (&fix, text("b")), RC_OK);
    fill_close(&fix, no_edge, no_edge);
    ASSERT_STR(shown(&fix), "a=cold .");
    tree_seek(&fix.tree, text("a"), &pos);
    ASSERT_EQ(pos.block->segment, 7);
    fix_done(&fix);
}

TEST(a_tombstone_that_a_load_removes_stamps_the_blocks_on_both_sides)
{
    struct fix fix;
    struct tree_pos pos;
    uint8_t value[400];
    fix_init(&fix, false);
    memset(value, 'v', sizeof value);
    for (char c = 'a'; c <= 'z'; c++)
        put(&fix, bytes_of(&c, 1), bytes_of(value, sizeof value));
    ASSERT_EQ(fix.tree.height, 1);
    tree_seek(&fix.tree, text("m"), &pos);
    uint8_t first = block_entry(pos.block, 0).suffix.ptr[0], before = (uint8_t)(first - 1);
    uint8_t last = (uint8_t)(first + pos.block->count - 1), after = (uint8_t)(last + 1);
    fix.segment = 9;
    ASSERT_RC(delete (&fix, bytes_of(&first, 1)), RC_OK);
    ASSERT_RC(delete (&fix, bytes_of(&last, 1)), RC_OK);
    tree_seek(&fix.tree, bytes_of(&before, 1), &pos);
    ASSERT_EQ(pos.block->segment, 1);
    fill_close(&fix, no_edge, no_edge);
    ASSERT_EQ(tree_live(&fix.tree), 24);
    ASSERT_STR(value_at(&fix, bytes_of(&first, 1)), "nothing");
    tree_seek(&fix.tree, bytes_of(&before, 1), &pos);
    ASSERT_EQ(pos.block->segment, 9);
    tree_seek(&fix.tree, bytes_of(&after, 1), &pos);
    ASSERT_EQ(pos.block->segment, 9);
    fix_done(&fix);
}

TEST(the_last_trace_of_a_delete_stays_until_it_is_flushed)
{
    struct fix fix;
    fix_init(&fix, false);
    fix.segment = 7;
    ASSERT_RC(delete (&fix, text("b")), RC_OK);
    ASSERT_RC(delete (&fix, text("c")), RC_OK);
    fill_close(&fix, no_edge, no_edge);
    ASSERT_STR(shown(&fix), "-c ."); /* its block carries the stamp */
    ASSERT_TRUE(tree_complete(&fix.tree));
    meter_mark(&fix.meter, 7);
    fill_close(&fix, no_edge, no_edge);
    ASSERT_STR(shown(&fix), ".");
    fix_done(&fix);
}

TEST(tombstones_with_long_suffixes_are_removed_as_well)
{
    struct fix fix;
    uint8_t suffix[2000];
    fix_init(&fix, false);
    memset(suffix, 's', sizeof suffix);
    put(&fix, text("a"), text("1"));
    for (size_t len = 1; len <= sizeof suffix; len += 100)
        ASSERT_RC(delete (&fix, bytes_of(suffix, len)), RC_OK);
    fill_close(&fix, no_edge, no_edge);
    ASSERT_STR(shown(&fix), "a=1 .");
    fix_done(&fix);
}

TEST(an_evicted_block_opens_exactly_its_interval)
{
    struct fix fix;
    struct tree_pos pos;
    uint8_t value[400];
    fix_init(&fix, true);
    memset(value, 'v', sizeof value);
    for (char c = 'a'; c <= 'z'; c++)
        put(&fix, bytes_of(&c, 1), bytes_of(value, sizeof value));
    tree_seek(&fix.tree, text("m"), &pos);
    uint8_t first = block_entry(pos.block, 0).suffix.ptr[0];
    uint8_t last = block_entry(pos.block, (uint16_t)(pos.block->count - 1)).suffix.ptr[0];
    tree_evict(&fix.tree, &fix.meter, &pos);
    tree_check(&fix.tree);
    ASSERT_EQ(fix.tree.gap_count, 1);
    ASSERT_EQ(tree_live(&fix.tree), 26 - (last - first + 1));
    for (uint8_t c = 'a'; c <= 'z'; c++) {
        tree_seek(&fix.tree, bytes_of(&c, 1), &pos);
        ASSERT_EQ(pos.exact, c < first || c > last);
        tree_to_entry(&fix.tree, &pos);
        ASSERT_EQ(tree_gap(&fix.tree, &pos), c >= first && c <= last + 1);
    }
    while (fix.tree.root) {
        tree_seek_first(&fix.tree, &pos);
        tree_evict(&fix.tree, &fix.meter, &pos);
        tree_check(&fix.tree);
    }
    ASSERT_EQ(fix.tree.gap_count, 1);
    ASSERT_TRUE(fix.tree.gap_end);
    ASSERT_EQ(fix.meter.total_bytes, 0);
    fix_done(&fix);
}

/* ---- size and shape ---- */

enum order { ASCENDING, DESCENDING, RANDOM };

static void number_suffix(uint8_t to[4], uint32_t number, uint32_t count, enum order order)
{
    if (order == DESCENDING)
        number = count - 1 - number;
    if (order == RANDOM)
        number = (uint32_t)((uint64_t)number * 7919 % count);
    be32_put(to, number);
}

static void check_numbers(struct fix *fix, uint32_t count)
{
    struct tree_pos pos;
    uint32_t number = 0;
    tree_check(&fix->tree);
    tree_seek_first(&fix->tree, &pos);
    for (bool more = tree_to_entry(&fix->tree, &pos); more; more = tree_next(&fix->tree, &pos))
        ASSERT_EQ(be32_get(block_entry(pos.block, pos.index).suffix.ptr), number++);
    ASSERT_EQ(number, count);
    tree_seek_end(&fix->tree, &pos);
    while (tree_prev(&fix->tree, &pos))
        ASSERT_EQ(be32_get(block_entry(pos.block, pos.index).suffix.ptr), --number);
    ASSERT_EQ(number, 0);
    for (uint32_t n = 0; n < count; n += 997) {
        ASSERT_TRUE(tree_nth(&fix->tree, n, &pos));
        ASSERT_EQ(be32_get(block_entry(pos.block, pos.index).suffix.ptr), n);
        ASSERT_EQ(tree_rank(&fix->tree, &pos), n);
    }
}

TEST(four_levels_keep_their_order_however_rows_come_and_go)
{
    enum { COUNT = 400000 };
    for (enum order order = ASCENDING; order <= RANDOM; order++) {
        struct fix fix;
        uint8_t suffix[4];
        fix_init(&fix, true);
        for (uint32_t i = 0; i < COUNT; i++) {
            number_suffix(suffix, i, COUNT, order);
            put(&fix, bytes_of(suffix, 4), bytes_of(suffix, 4));
        }
        ASSERT_GE(fix.tree.height, 3);
        check_numbers(&fix, COUNT);
        double bytes = (double)fix.meter.total_bytes / COUNT;
        printf("order %d: height %d, %.1f bytes a row of 4+4\n", order, fix.tree.height, bytes);
        ASSERT_LE((int)bytes, order == RANDOM ? 20 : 16);
        for (uint32_t i = 0; i < COUNT; i++) {
            number_suffix(suffix, i, COUNT, order);
            ASSERT_RC(delete (&fix, bytes_of(suffix, 4)), RC_OK);
            if (i % 50000 == 0)
                tree_check(&fix.tree);
        }
        ASSERT_EQ(fix.meter.total_bytes, 0);
        fix_done(&fix);
    }
}

TEST(a_search_from_near_finds_what_a_search_from_the_root_finds)
{
    enum { COUNT = 3000, SPREAD = 4 };
    struct fix fix;
    struct rand rand;
    struct tree_pos pos, near;
    uint8_t suffix[4];
    size_t found = 0;
    fix_init(&fix, true);
    rand_init_seed(&rand, 7);
    for (uint32_t i = 0; i < COUNT; i++) {
        be32_put(suffix, 100 + SPREAD * i);
        put(&fix, bytes_of(suffix, 4), bytes_of(suffix, 4));
    }
    tree_seek_first(&fix.tree, &near);
    for (int i = 0; i < 20000; i++) {
        uint32_t number = (uint32_t)rand_below(&rand, 200 + SPREAD * COUNT);
        if (i % 2) /* around the last one */
            number = be32_get(suffix) + (uint32_t)rand_below(&rand, 40);
        be32_put(suffix, number);
        tree_seek(&fix.tree, bytes_of(suffix, 4), &pos);
        if (tree_seek_near(&fix.tree, bytes_of(suffix, 4), &near)) {
            found++;
            ASSERT_EQ(near.exact, pos.exact);
            ASSERT_EQ(tree_rank(&fix.tree, &near), tree_rank(&fix.tree, &pos));
        }
        near = pos;
    }
    ASSERT_GE(found, 8000);
    fix_done(&fix);
}

TEST(few_rows_left_of_many_take_little_memory)
{
    enum { COUNT = 200000 };
    struct fix fix;
    uint8_t suffix[4];
    fix_init(&fix, true);
    for (uint32_t i = 0; i < COUNT; i++) {
        be32_put(suffix, i);
        put(&fix, bytes_of(suffix, 4), bytes_of(suffix, 4));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        be32_put(suffix, i);
        if (i % 1000)
            ASSERT_RC(delete (&fix, bytes_of(suffix, 4)), RC_OK);
    }
    tree_check(&fix.tree);
    ASSERT_EQ(tree_live(&fix.tree), COUNT / 1000);
    ASSERT_LT(fix.meter.total_bytes, COUNT / 1000 * 100);
    fix_done(&fix);
}

TEST(suffixes_of_any_length_are_kept_in_order)
{
    enum { LEN_MAX = 70 * 1024 };
    struct fix fix;
    struct rand rand;
    uint8_t *bytes = mem_zalloc(LEN_MAX + 8);
    uint32_t count = 0;
    fix_init(&fix, true);
    rand_init_seed(&rand, 3);
    /* All share one run, so every separator is long: the worst case for inner nodes. */
    for (size_t len = 0; len <= LEN_MAX; len += 1 + rand_below(&rand, len / 8 + 2)) {
        put(&fix, bytes_of(bytes, len), bytes_of(bytes, len % 700));
        count++;
        if (count % 16 == 0)
            tree_check(&fix.tree);
    }
    ASSERT_EQ(tree_live(&fix.tree), count);
    struct tree_pos pos;
    size_t last = 0;
    tree_seek_first(&fix.tree, &pos);
    for (bool more = tree_to_entry(&fix.tree, &pos); more; more = tree_next(&fix.tree, &pos)) {
        struct entry entry = block_entry(pos.block, pos.index);
        ASSERT_TRUE(entry.suffix.len == 0 || entry.suffix.len > last);
        ASSERT_EQ(entry.value.len, entry.suffix.len % 700);
        last = entry.suffix.len;
    }
    for (size_t len = LEN_MAX + 1; len-- > 0;)
        delete (&fix, bytes_of(bytes, len));
    ASSERT_EQ(fix.meter.total_bytes, 0);
    mem_free(bytes);
    fix_done(&fix);
}

/* As entries of a dirty table: owners that begin alike, with more than a node remembers, and leave
 * each other at any byte. */
static struct bytes owner_suffix(char to[200], unsigned owner, unsigned field)
{
    int len = snprintf(to, 200, "app&region&type&%0*u&field:%06u", (int)(owner * 7 % 90) + 1,
                       owner % 10, field);
    return bytes_of(to, (size_t)len);
}

TEST(rows_with_long_common_beginnings_are_found_and_missed)
{
    enum { OWNERS = 40, FIELDS = 400 };
    struct fix fix;
    char suffix[200];
    struct tree_pos pos, next;
    fix_init(&fix, true);
    for (unsigned i = 0; i < OWNERS * FIELDS; i++) {
        struct bytes row = owner_suffix(suffix, i % OWNERS, i / OWNERS * 2);
        put(&fix, row, row);
    }
    tree_check(&fix.tree);
    for (unsigned i = 0; i < OWNERS * FIELDS; i++) {
        tree_seek(&fix.tree, owner_suffix(suffix, i % OWNERS, i / OWNERS * 2), &pos);
        ASSERT_TRUE(pos.exact);
        struct bytes row = owner_suffix(suffix, i % OWNERS, i / OWNERS * 2 + 1);
        tree_seek(&fix.tree, row, &next);
        ASSERT_FALSE(next.exact);
        if (tree_to_entry(&fix.tree, &next)) /* the first that is greater */
            ASSERT_TRUE(bytes_cmp(block_entry(next.block, next.index).suffix, row) > 0);
        ASSERT_TRUE(tree_prev(&fix.tree, &next));
        ASSERT_TRUE(next.block == pos.block && next.index == pos.index);
    }
    fix_done(&fix);
}

/* The architecture promises less memory a row than Redis takes; the row itself is 80 bytes. */
TEST(a_million_rows_of_16_and_64_bytes_take_at_most_104_bytes_each)
{
    uint32_t count = 1000000;
    struct fix fix;
    struct rand rand;
    uint8_t suffix[16], value[64];
    fix_init(&fix, true);
    rand_init_seed(&rand, 11);
    rand_bytes(&rand, value, sizeof value);
    uint64_t start_ns = clock_thread_cpu_ns();
    for (uint32_t i = 0; i < count; i++) {
        rand_bytes(&rand, suffix, sizeof suffix);
        put(&fix, bytes_of(suffix, sizeof suffix), bytes_of(value, sizeof value));
    }
    uint64_t took_ns = clock_thread_cpu_ns() - start_ns;
    ASSERT_EQ(tree_live(&fix.tree), count);
    printf("%.1f bytes a row of 16+64, height %d, %llu ns a put\n",
           (double)fix.meter.total_bytes / count, fix.tree.height,
           (unsigned long long)(took_ns / count));
    ASSERT_GE(fix.tree.height, 3);
    ASSERT_LE(fix.meter.total_bytes, (uint64_t)count * 104);
    fix_done(&fix);
}

/* ---- no memory ---- */

TEST(without_memory_a_change_leaves_everything_as_it_was)
{
    static uint8_t large[2000];
    struct fix fix;
    struct tree_old old;
    fix_init(&fix, false);
    put(&fix, text("inline"), text("1"));
    put(&fix, text("out"), bytes_of(large, 1000));
    uint64_t bytes = fix.meter.total_bytes;
    buf_done(&fix.keep); /* the next old value needs memory */
    buf_init(&fix.keep, 1 << 20);
    dump(&fix, &fix.dump[0]);
    mem_fail_after(1);
    ASSERT_RC(
        tree_put(&fix.tree, &fix.meter, 2, text("new"), bytes_of(large, 2000), &fix.keep, &old),
        RC_NOMEM);
    mem_fail_after(1);
    ASSERT_RC(tree_put(&fix.tree, &fix.meter, 2, text("inline"), text("2"), &fix.keep, &old),
              RC_NOMEM);
    mem_fail_after(1);
    ASSERT_RC(tree_delete(&fix.tree, &fix.meter, 2, text("inline"), &fix.keep, &old), RC_NOMEM);
    mem_fail_after(1);
    ASSERT_RC(tree_delete(&fix.tree, &fix.meter, 2, bytes_of(large, 900), &fix.keep, &old),
              RC_NOMEM);
    mem_fail_after(1);
    ASSERT_RC(tree_fill_row(&fix.tree, &fix.meter, text("x"), bytes_of(large, 2000)), RC_NOMEM);
    mem_fail_after(-1);
    dump(&fix, &fix.dump[1]);
    ASSERT_BYTES(buf_bytes(&fix.dump[0]), buf_bytes(&fix.dump[1]));
    ASSERT_EQ(fix.meter.total_bytes, bytes);
    fix_done(&fix);
}

/* ---- the model ---- */

static uint32_t choose_random(void *arg, uint32_t limit)
{
    return (uint32_t)rand_below(arg, limit);
}

static struct tree_model_counts model_play(struct tree_model_options options, uint64_t seed,
                                           uint32_t step_count)
{
    struct rand rand;
    rand_init_seed(&rand, seed);
    options.choose = choose_random;
    options.arg = &rand;
    struct tree_model *model = tree_model_new(&options);
    if (options.key_count > 100)
        tree_model_fill(model);
    for (uint32_t i = 0; i < step_count * (test_is_long() ? 20 : 1); i++)
        tree_model_step(model);
    struct tree_model_counts counts = tree_model_counts(model);
    tree_model_free(model);
    return counts;
}

TEST(a_small_tree_never_claims_what_is_not_true)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct tree_model_options options = {.key_count = seed % 2 ? 3 : 12, .value_bytes_max = 30};
        struct tree_model_counts counts = model_play(options, seed, 2000);
        ASSERT_GT(counts.undo_count, 10);
        ASSERT_GT(counts.complete_count, 10);
        ASSERT_GT(counts.leave_count, 0);
    }
}

TEST(a_tree_of_several_blocks_never_claims_what_is_not_true)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct tree_model_options options = {.key_count = 300, .value_bytes_max = 900};
        struct tree_model_counts counts = model_play(options, seed, 1500);
        ASSERT_GT(counts.evict_count, 10);
        ASSERT_GT(counts.finish_count, 10);
        ASSERT_GT(counts.row_fill_count, 10);
        ASSERT_GT(counts.pass_count, 100);
        ASSERT_GE(counts.height_max, 1);
    }
}

TEST(a_tree_of_long_suffixes_never_claims_what_is_not_true)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct tree_model_options options = {
            .key_count = 80, .suffix_bytes_max = seed % 2 ? 700 : 40, .value_bytes_max = 600};
        model_play(options, seed, 3000);
    }
    struct tree_model_options options = {
        .key_count = 24, .suffix_bytes_max = 70 * 1024, .value_bytes_max = 100};
    model_play(options, 99, 1000);
}

TEST(a_tall_tree_never_claims_what_is_not_true)
{
    struct tree_model_options options = {
        .key_count = 12000, .value_bytes_max = 4000, .check_every = 20};
    struct tree_model_counts counts = model_play(options, 5, 400);
    ASSERT_GE(counts.height_max, 2);
}

// SPDX-License-Identifier: Apache-2.0
/* test_engine.c - what every engine promises, over RocksDB and memory. */
#include "store/engine/engine.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "contract/support_engine.h"
#include "test.h"

#include "base/banned.h"

/* ---- finding engines, opening and closing ---- */

TEST(engines_are_found_by_name)
{
    ASSERT_TRUE(engine_find("rocksdb") == &engine_rocksdb_ops);
    ASSERT_TRUE(engine_find("memory") == &engine_memory_ops);
    ASSERT_TRUE(engine_find("paper") == NULL);
}

static void null_is_closed(struct engine_fix *fix)
{
    fix->ops->close(NULL);
    fix->ops->iter_close(NULL);
    fix->ops->unit_close(NULL);
    fix->ops->view_close(fix->engine, NULL);
}

TEST(null_may_be_closed)
{
    engine_fix_each(null_is_closed);
}

static void reopen_keeps(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+fab1=x +wkey=y");
    engine_fix_reopen(fix);
    ASSERT_STR(engine_fix_all(fix), "fab1=x wkey=y");
    engine_fix_unit(fix, "-fab1 +fab2=z");
    engine_fix_reopen(fix);
    engine_fix_reopen(fix);
    ASSERT_STR(engine_fix_all(fix), "fab2=z wkey=y");
}

TEST(reopening_keeps_everything)
{
    engine_fix_each(reopen_keeps);
}

static void second_open_is_busy(struct engine_fix *fix)
{
    struct engine_options options = engine_fix_options(fix);
    struct engine *second = NULL;
    engine_fix_begin(fix);
    engine_fix_add(fix, "+wa=1");
    ASSERT_RC(fix->ops->open(&options, &second, &fix->err), RC_BUSY);
    ASSERT_TRUE(second == NULL);
    engine_fix_apply(fix); /* the refused one has not touched what is in construction */
    ASSERT_STR(engine_fix_all(fix), "wa=1");
}

TEST(a_second_open_of_the_same_directory_is_busy)
{
    engine_fix_each(second_open_is_busy);
}

static void read_only_reads(struct engine_fix *fix)
{
    struct engine_options options = engine_fix_options(fix);
    struct engine_unit *unit = NULL;
    options.read_only = true;
    engine_fix_unit(fix, "+wa=1 +wb=2");
    fix->ops->close(fix->engine);
    fix->engine = NULL;
    ASSERT_OK(fix->ops->open(&options, &fix->engine, &fix->err), &fix->err);
    ASSERT_STR(engine_fix_all(fix), "wa=1 wb=2");
    ASSERT_RC(fix->ops->unit_open(fix->engine, &unit, &fix->err), RC_READONLY);
    ASSERT_RC(fix->ops->compact_all(fix->engine, &fix->err), RC_OK);
}

TEST(a_read_only_engine_reads_and_refuses_units)
{
    engine_fix_each(read_only_reads);
}

static void open_checks_options(struct engine_fix *fix)
{
    struct engine_options none = {0};
    struct engine *engine = NULL;
    ASSERT_RC(fix->ops->open(&none, &engine, &fix->err), RC_INVALID);
    ASSERT_TRUE(engine == NULL);
}

TEST(open_refuses_missing_options)
{
    engine_fix_each(open_checks_options);
}

/* ---- gets ---- */

static void get_answers(struct engine_fix *fix)
{
    ASSERT_STR(engine_fix_get(fix, NULL, "wa"), "RC_NOT_FOUND");
    engine_fix_unit(fix, "+wa=1 +wab= +wb=3");
    ASSERT_STR(engine_fix_get(fix, NULL, "wa"), "1");
    ASSERT_STR(engine_fix_get(fix, NULL, "wab"), "");
    ASSERT_STR(engine_fix_get(fix, NULL, "wb"), "3");
    ASSERT_STR(engine_fix_get(fix, NULL, "w"), "RC_NOT_FOUND");
    ASSERT_STR(engine_fix_get(fix, NULL, "waa"), "RC_NOT_FOUND");
    ASSERT_STR(engine_fix_get(fix, NULL, ""), "RC_NOT_FOUND");
    ASSERT_STR(engine_fix_get(fix, NULL, "zz"), "RC_NOT_FOUND");
}

TEST(get_finds_what_is_there_and_nothing_else)
{
    engine_fix_each(get_answers);
}

static void get_appends(struct engine_fix *fix)
{
    struct buf value;
    buf_init(&value, 8);
    engine_fix_unit(fix, "+wa=1234 +wb=56789");
    ASSERT_RC(fix->ops->get(fix->engine, NULL, BYTES("wa"), ENGINE_TIER_ALL, &value, &fix->err),
              RC_OK);
    ASSERT_RC(fix->ops->get(fix->engine, NULL, BYTES("wb"), ENGINE_TIER_ALL, &value, &fix->err),
              RC_TOO_BIG);
    ASSERT_RC(fix->ops->get(fix->engine, NULL, BYTES("wa"), ENGINE_TIER_ALL, &value, NULL), RC_OK);
    ASSERT_BYTES(buf_bytes(&value), BYTES("12341234"));
    buf_done(&value);
}

TEST(get_appends_to_the_buffer_up_to_its_limit)
{
    engine_fix_each(get_appends);
}

static enum rc get_from_memory(struct engine_fix *fix, struct bytes key)
{
    buf_cut(&fix->text, 0);
    return fix->ops->get(fix->engine, NULL, key, ENGINE_TIER_MEMORY, &fix->text, &fix->err);
}

/* Cold: a fresh engine has read nothing of its data. */
static void memory_tier_is_cold_then_warm(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+wa=1 +wb=2");
    engine_fix_reopen(fix);
    if (fix->memory)
        engine_memory_cold(fix->memory, true);
    ASSERT_RC(get_from_memory(fix, BYTES("wa")), RC_COLD);
    ASSERT_TRUE(fix->ops->may_have(fix->engine, BYTES("wa")));
    ASSERT_STR(engine_fix_get(fix, NULL, "wa"), "1");
    if (fix->memory)
        engine_memory_cold(fix->memory, false);
    ASSERT_RC(get_from_memory(fix, BYTES("wa")), RC_OK);
    ASSERT_BYTES(buf_bytes(&fix->text), BYTES("1"));
    ASSERT_TRUE(fix->ops->may_have(fix->engine, BYTES("wa")));
    ASSERT_RC(get_from_memory(fix, BYTES("zz")), RC_NOT_FOUND);
    ASSERT_FALSE(fix->ops->may_have(fix->engine, BYTES("zz")));
}

TEST(the_memory_tier_is_cold_until_a_read_has_warmed_it)
{
    engine_fix_each(memory_tier_is_cold_then_warm);
}

/* A cache far smaller than the indexes: blocks of every kind are missing at one time or another,
 * also below a table that is open and an index whose top is there. */
static void memory_tier_is_right_or_cold(struct engine_fix *fix)
{
    enum { ROWS = 60000, VALUE_BYTES = 100, STEP = 7919 };
    struct engine_options options = engine_fix_options(fix);
    int found = 0;
    options.cache_bytes = (size_t)256 * 1024;
    fix->ops->close(fix->engine);
    ASSERT_OK(fix->ops->open(&options, &fix->engine, &fix->err), &fix->err);
    char key[16], value[VALUE_BYTES + 1];
    engine_fix_begin(fix);
    for (int i = 0; i < ROWS; i++) {
        snprintf(key, sizeof key, "w%08d", i);
        snprintf(value, sizeof value, "%0*d", VALUE_BYTES, i);
        ASSERT_OK(fix->ops->unit_put(fix->unit, bytes_of(key, strlen(key)),
                                     bytes_of(value, VALUE_BYTES), &fix->err),
                  &fix->err);
    }
    engine_fix_apply(fix);
    /* Below the first level nothing is pinned. */
    ASSERT_OK(fix->ops->compact_all(fix->engine, &fix->err), &fix->err);
    for (int i = 0, at = 0; i < ROWS; i++, at = (at + STEP) % ROWS) {
        snprintf(key, sizeof key, "w%08d", at);
        snprintf(value, sizeof value, "%0*d", VALUE_BYTES, at);
        if (i % 2 == 0) /* what is near it has now been read */
            ASSERT_STR(engine_fix_get(fix, NULL, key), value);
        enum rc rc = get_from_memory(fix, bytes_of(key, strlen(key)));
        ASSERT_TRUE(rc == RC_OK || rc == RC_COLD);
        ASSERT_TRUE(fix->ops->may_have(fix->engine, bytes_of(key, strlen(key))));
        if (rc != RC_OK)
            continue;
        ASSERT_BYTES(buf_bytes(&fix->text), bytes_of(value, VALUE_BYTES));
        found++;
    }
    ASSERT_GE(found, ROWS / 4);
}

TEST(the_memory_tier_answers_the_value_or_that_it_is_cold)
{
    engine_fix_each(memory_tier_is_right_or_cold);
}

/* ---- ranges ---- */

static void check_range(struct engine_fix *fix, const char *lower, const char *upper,
                        bool one_group, const char *forward, const char *backward)
{
    struct engine_fix_range range = {.lower = lower, .upper = upper, .one_group = one_group};
    ASSERT_STR(engine_fix_rows(fix, range), forward);
    range.reverse = true;
    ASSERT_STR(engine_fix_rows(fix, range), backward);
}

static void ranges_obey_bounds(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+fab=0 +fab1=1 +fab3=3 +fac2=2 +gaa1=g +wx=w");
    check_range(fix, "", "", false, "fab=0 fab1=1 fab3=3 fac2=2 gaa1=g wx=w",
                "wx=w gaa1=g fac2=2 fab3=3 fab1=1 fab=0");
    check_range(fix, "fab1", "", false, "fab1=1 fab3=3 fac2=2 gaa1=g wx=w",
                "wx=w gaa1=g fac2=2 fab3=3 fab1=1");
    check_range(fix, "fab2", "fac2", false, "fab3=3", "fab3=3");
    check_range(fix, "", "fab3", false, "fab=0 fab1=1", "fab1=1 fab=0");
    check_range(fix, "fab", "fac", true, "fab=0 fab1=1 fab3=3", "fab3=3 fab1=1 fab=0");
    check_range(fix, "fab1", "fab3", true, "fab1=1", "fab1=1");
    check_range(fix, "fab2", "fab9", true, "fab3=3", "fab3=3");
    check_range(fix, "fab1", "fac", true, "fab1=1 fab3=3", "fab3=3 fab1=1");
    check_range(fix, "fab4", "fac", true, "", "");
    check_range(fix, "faa", "fab", true, "", "");
    check_range(fix, "fzz", "g", true, "", "");
    check_range(fix, "fab3", "fab3", false, "", "");
    check_range(fix, "fab3", "fab1", false, "", "");
    check_range(fix, "wx", "wx0", true, "wx=w", "wx=w");
    check_range(fix, "x", "", false, "", "");
    check_range(fix, "", "a", false, "", "");
}

TEST(ranges_give_exactly_what_lies_between_their_bounds)
{
    engine_fix_each(ranges_obey_bounds);
}

static void wrong_group_claim(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+faa1=1 +fab1=2 +fac1=3");
    engine_fix_unit(fix, "+faa2=4 +fad1=5");
    check_range(fix, "f", "g", true, "faa1=1 faa2=4 fab1=2 fac1=3 fad1=5",
                "fad1=5 fac1=3 fab1=2 faa2=4 faa1=1");
    check_range(fix, "faa9", "fz", true, "fab1=2 fac1=3 fad1=5", "fad1=5 fac1=3 fab1=2");
    check_range(fix, "", "", true, "faa1=1 faa2=4 fab1=2 fac1=3 fad1=5",
                "fad1=5 fac1=3 fab1=2 faa2=4 faa1=1");
}

TEST(a_wrong_claim_of_one_group_loses_no_rows)
{
    engine_fix_each(wrong_group_claim);
}

static void iterators_keep_their_state(struct engine_fix *fix)
{
    struct engine_range range = {.lower = BYTES("wa"), .upper = BYTES("wz")};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    engine_fix_unit(fix, "+wa=1 +wb=2 +wc=3");
    ASSERT_OK(fix->ops->iter_open(fix->engine, NULL, &range, &iter, &fix->err), &fix->err);
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_BYTES(key, BYTES("wa"));
    engine_fix_unit(fix, "~wa:wz +wba=new");
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_BYTES(key, BYTES("wb"));
    ASSERT_BYTES(value, BYTES("2"));
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_BYTES(key, BYTES("wc"));
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_NOT_FOUND);
    fix->ops->iter_close(iter);
    ASSERT_STR(engine_fix_all(fix), "wba=new");
}

TEST(an_open_iterator_sees_one_state)
{
    engine_fix_each(iterators_keep_their_state);
}

static void ranges_are_copied(struct engine_fix *fix)
{
    char lower[] = "wb", upper[] = "wd";
    struct engine_range range = {.lower = bytes_of(lower, 2), .upper = bytes_of(upper, 2)};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    engine_fix_unit(fix, "+wa=1 +wb=2 +wc=3 +wd=4");
    ASSERT_OK(fix->ops->iter_open(fix->engine, NULL, &range, &iter, &fix->err), &fix->err);
    memset(lower, 'a', 2);
    memset(upper, 'a', 2);
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_BYTES(key, BYTES("wb"));
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_BYTES(key, BYTES("wc"));
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_NOT_FOUND);
    fix->ops->iter_close(iter);
}

TEST(the_bounds_of_a_range_are_copied)
{
    engine_fix_each(ranges_are_copied);
}

static void once_reads_all(struct engine_fix *fix)
{
    struct engine_range range = {.lower = BYTES("w"), .upper = BYTES("x"), .once = true};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    engine_fix_unit(fix, "+wa=1 +wb=2");
    ASSERT_OK(fix->ops->iter_open(fix->engine, NULL, &range, &iter, &fix->err), &fix->err);
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_OK);
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_NOT_FOUND);
    fix->ops->iter_close(iter);
}

TEST(a_scan_that_does_not_come_back_sees_the_same_rows)
{
    engine_fix_each(once_reads_all);
}

/* ---- views ---- */

static void views_do_not_change(struct engine_fix *fix)
{
    struct engine_view *first = NULL, *second = NULL;
    ASSERT_TRUE(fix->ops->has_views);
    engine_fix_unit(fix, "+wa=1 +wb=2 +wc=3");
    ASSERT_OK(fix->ops->view_open(fix->engine, &first, &fix->err), &fix->err);
    engine_fix_unit(fix, "+wa=9 -wb +wd=4");
    ASSERT_OK(fix->ops->view_open(fix->engine, &second, &fix->err), &fix->err);
    engine_fix_unit(fix, "~w:x +wz=5");
    struct engine_fix_range range = {.lower = "", .upper = "", .view = first};
    ASSERT_STR(engine_fix_rows(fix, range), "wa=1 wb=2 wc=3");
    ASSERT_STR(engine_fix_get(fix, first, "wa"), "1");
    ASSERT_STR(engine_fix_get(fix, first, "wb"), "2");
    ASSERT_STR(engine_fix_get(fix, first, "wd"), "RC_NOT_FOUND");
    range.view = second;
    ASSERT_STR(engine_fix_rows(fix, range), "wa=9 wc=3 wd=4");
    range.reverse = true;
    ASSERT_STR(engine_fix_rows(fix, range), "wd=4 wc=3 wa=9");
    ASSERT_STR(engine_fix_get(fix, second, "wb"), "RC_NOT_FOUND");
    fix->ops->view_close(fix->engine, first);
    ASSERT_STR(engine_fix_get(fix, second, "wc"), "3");
    fix->ops->view_close(fix->engine, second);
    ASSERT_STR(engine_fix_all(fix), "wz=5");
}

TEST(a_view_stays_as_it_was)
{
    engine_fix_each(views_do_not_change);
}

/* A compaction beside a view of the very first rows once dropped them. */
static void first_rows_survive(struct engine_fix *fix)
{
    struct engine_view *view = NULL, *empty = NULL;
    ASSERT_OK(fix->ops->view_open(fix->engine, &empty, &fix->err), &fix->err);
    fix->ops->view_close(fix->engine, empty);
    engine_fix_unit(fix, "+lab=1 -wa +wf=1");
    ASSERT_OK(fix->ops->view_open(fix->engine, &view, &fix->err), &fix->err);
    for (int i = 0; i < 3; i++) {
        engine_fix_unit(fix, "-l_ +lc=2 +wc=2");
        engine_fix_unit(fix, "-lZ +laa=3 +wf=3");
        ASSERT_OK(fix->ops->compact_all(fix->engine, &fix->err), &fix->err);
    }
    struct engine_fix_range range = {.lower = "", .upper = "", .view = view};
    ASSERT_STR(engine_fix_rows(fix, range), "lab=1 wf=1");
    ASSERT_STR(engine_fix_all(fix), "laa=3 lab=1 lc=2 wc=2 wf=3");
    fix->ops->view_close(fix->engine, view);
}

TEST(the_first_rows_survive_a_compaction_beside_a_view)
{
    engine_fix_each(first_rows_survive);
}

/* ---- units ---- */

static void unapplied_units_leave_nothing(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+wa=1");
    engine_fix_begin(fix);
    engine_fix_add(fix, "+fab1=x ~ga:gb +gab=y -wa +wb=2");
    ASSERT_STR(engine_fix_all(fix), "wa=1");
    engine_fix_drop(fix);
    ASSERT_STR(engine_fix_all(fix), "wa=1");
    engine_fix_reopen(fix);
    ASSERT_STR(engine_fix_all(fix), "wa=1");
}

TEST(a_unit_closed_without_apply_leaves_nothing)
{
    engine_fix_each(unapplied_units_leave_nothing);
}

static void empty_units_apply(struct engine_fix *fix)
{
    struct engine_stats stats;
    engine_fix_unit(fix, "");
    ASSERT_STR(engine_fix_all(fix), "");
    engine_fix_unit(fix, "+wa=1");
    engine_fix_unit(fix, "");
    ASSERT_STR(engine_fix_all(fix), "wa=1");
    fix->ops->stats(fix->engine, &stats);
    ASSERT_EQ(stats.unit_count, 3);
}

TEST(an_empty_unit_applies)
{
    engine_fix_each(empty_units_apply);
}

static void later_units_win(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+wa=1 +wb=1 +wc=1");
    engine_fix_unit(fix, "-wa +wb=2 -wd");
    ASSERT_STR(engine_fix_all(fix), "wb=2 wc=1");
    engine_fix_unit(fix, "+wa=3 -wb");
    ASSERT_STR(engine_fix_all(fix), "wa=3 wc=1");
    ASSERT_STR(engine_fix_get(fix, NULL, "wb"), "RC_NOT_FOUND");
    engine_fix_unit(fix, "-wa -wb -wc");
    ASSERT_STR(engine_fix_all(fix), "");
}

TEST(deletes_and_puts_of_later_units_win)
{
    engine_fix_each(later_units_win);
}

static void ranges_cover_older(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+fab1=1 +fab2=1 +fab3=1 +fac1=1 +gaa1=1");
    engine_fix_unit(fix, "~fab:fac +fab2=2 +fab4=2"); /* before the keys it covers */
    ASSERT_STR(engine_fix_all(fix), "fab2=2 fab4=2 fac1=1 gaa1=1");
    engine_fix_unit(fix, "+fab1=3 +fab2=3 ~fab:fac +fab5=3"); /* between them */
    ASSERT_STR(engine_fix_all(fix), "fab1=3 fab2=3 fab5=3 fac1=1 gaa1=1");
    engine_fix_unit(fix, "+fab1=4 ~fab:fab2 ~fab1:fac"); /* overlapping, after its key */
    ASSERT_STR(engine_fix_all(fix), "fab1=4 fac1=1 gaa1=1");
    engine_fix_unit(fix, "~f:g"); /* up to the next space, and only a range */
    ASSERT_STR(engine_fix_all(fix), "gaa1=1");
    engine_fix_unit(fix, "+fab1=5 ~ga:h +gz1=5");
    ASSERT_STR(engine_fix_all(fix), "fab1=5 gz1=5");
}

TEST(a_range_delete_covers_what_is_older_than_its_unit)
{
    engine_fix_each(ranges_cover_older);
}

static void range_only_units(struct engine_fix *fix)
{
    engine_fix_unit(fix, "~fab:fac ~gaa:gab ~wa:wz"); /* over nothing */
    ASSERT_STR(engine_fix_all(fix), "");
    engine_fix_unit(fix, "+fab1=1 +gaa1=1 +wb=1");
    ASSERT_STR(engine_fix_all(fix), "fab1=1 gaa1=1 wb=1");
    for (int i = 0; i < 12; i++) { /* enough of them for a compaction */
        engine_fix_unit(fix, "+fab1=1 +fad1=1 +gaa1=1 +wb=1 +wz=9");
        engine_fix_unit(fix, "~fab:fac ~gaa:gab ~gc:h ~wa:wz");
    }
    ASSERT_STR(engine_fix_all(fix), "fad1=1 wz=9");
    ASSERT_OK(fix->ops->compact_all(fix->engine, &fix->err), &fix->err);
    ASSERT_STR(engine_fix_all(fix), "fad1=1 wz=9");
    engine_fix_reopen(fix);
    ASSERT_STR(engine_fix_all(fix), "fad1=1 wz=9");
    ASSERT_STR(engine_fix_get(fix, NULL, "wb"), "RC_NOT_FOUND");
}

TEST(units_of_range_deletes_alone_work)
{
    engine_fix_each(range_only_units);
}

static void next_space_starts_there(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+fab1=1 +g=1 +gaa1=1");
    engine_fix_unit(fix, "~fab:g +g=2"); /* the end of the range is the next file's first key */
    ASSERT_STR(engine_fix_all(fix), "g=2 gaa1=1");
    engine_fix_unit(fix, "+fab1=1");
    engine_fix_unit(fix, "~f:g ~g:h");
    ASSERT_STR(engine_fix_all(fix), "");
}

TEST(a_range_may_end_at_the_first_key_of_the_next_space)
{
    engine_fix_each(next_space_starts_there);
}

static void applying_twice_is_harmless(struct engine_fix *fix)
{
    engine_fix_unit(fix, "+fab1=0 +fab2=0 +wa=0");
    for (int i = 0; i < 3; i++) {
        engine_fix_unit(fix, "~fab:fac +fab2=1 -wa +wb=1");
        ASSERT_STR(engine_fix_all(fix), "fab2=1 wb=1");
    }
    engine_fix_begin(fix);
    engine_fix_add(fix, "+wc=1");
    ASSERT_OK(fix->ops->unit_apply(fix->unit, &fix->err), &fix->err);
    ASSERT_OK(fix->ops->unit_apply(fix->unit, &fix->err), &fix->err);
    ASSERT_RC(fix->ops->unit_put(fix->unit, BYTES("wd"), BYTES(""), &fix->err), RC_INVALID);
    engine_fix_drop(fix);
    ASSERT_STR(engine_fix_all(fix), "fab2=1 wb=1 wc=1");
}

TEST(applying_the_same_unit_twice_is_harmless)
{
    engine_fix_each(applying_twice_is_harmless);
}

static void expect_bad_range(struct engine_fix *fix, const char *from, const char *to)
{
    ASSERT_RC(fix->ops->unit_delete_range(fix->unit, bytes_of(from, strlen(from)),
                                          bytes_of(to, strlen(to)), &fix->err),
              RC_INVALID);
}

static void bad_arguments(struct engine_fix *fix)
{
    struct engine_unit *second = NULL;
    engine_fix_begin(fix);
    ASSERT_RC(fix->ops->unit_open(fix->engine, &second, &fix->err), RC_BUSY);
    ASSERT_RC(fix->ops->unit_put(fix->unit, BYTES(""), BYTES("x"), &fix->err), RC_INVALID);
    ASSERT_RC(fix->ops->unit_delete(fix->unit, BYTES(""), NULL), RC_INVALID);
    engine_fix_add(fix, "+gab1=1");
    ASSERT_RC(fix->ops->unit_put(fix->unit, BYTES("gab1"), BYTES("x"), &fix->err), RC_INVALID);
    ASSERT_RC(fix->ops->unit_put(fix->unit, BYTES("gab0"), BYTES("x"), &fix->err), RC_INVALID);
    ASSERT_RC(fix->ops->unit_delete(fix->unit, BYTES("gab1"), &fix->err), RC_INVALID);
    ASSERT_RC(fix->ops->unit_delete(fix->unit, BYTES("fab1"), &fix->err), RC_INVALID);
    expect_bad_range(fix, "", "");
    expect_bad_range(fix, "gab", "");
    expect_bad_range(fix, "", "gab");
    expect_bad_range(fix, "gab", "gab");
    expect_bad_range(fix, "gac", "gab");
    expect_bad_range(fix, "gac", "h1");  /* into the next space */
    expect_bad_range(fix, "gac", "i");   /* over it */
    expect_bad_range(fix, "fab", "fac"); /* a space that is done */
    engine_fix_add(fix, "~gad:gae");
    ASSERT_RC(fix->ops->unit_put(fix->unit, BYTES("gac1"), BYTES("x"), &fix->err), RC_INVALID);
    engine_fix_add(fix, "~gaa:gab +gad1=2"); /* the unit is as before each of these */
    engine_fix_apply(fix);
    ASSERT_STR(engine_fix_all(fix), "gab1=1 gad1=2");
}

TEST(bad_arguments_are_refused_and_the_unit_goes_on)
{
    engine_fix_each(bad_arguments);
}

static void too_big(struct engine_fix *fix)
{
    size_t len = (size_t)STORE_VALUE_BYTES_MAX + 1;
    uint8_t *huge = mem_zalloc(len); /* never touched */
    engine_fix_begin(fix);
    ASSERT_RC(fix->ops->unit_put(fix->unit, BYTES("wa"), bytes_of(huge, len), &fix->err),
              RC_TOO_BIG);
    ASSERT_RC(fix->ops->unit_put(fix->unit, bytes_of(huge, len), BYTES(""), &fix->err), RC_TOO_BIG);
    ASSERT_RC(fix->ops->unit_delete_range(fix->unit, BYTES("\0"), bytes_of(huge, len), &fix->err),
              RC_TOO_BIG);
    engine_fix_drop(fix);
    mem_free(huge);
}

TEST(rows_over_the_limits_are_too_big)
{
    engine_fix_each(too_big);
}

static void sizes_round_trip(struct engine_fix *fix)
{
    static const size_t value_len[] = {0, 1, 4095, 16384, 65537, 1 << 20, 8 << 20};
    static const size_t key_len[] = {1, 2, 255, 4096, 65536 + 257, 1 << 20};
    uint8_t *bytes = mem_alloc((8 << 20) + 64);
    for (size_t i = 0; i < (8 << 20) + 64; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    bytes[0] = 'w';
    engine_fix_begin(fix);
    for (size_t i = 0; i < ARRAY_LEN(key_len); i++)
        ASSERT_OK(fix->ops->unit_put(fix->unit, bytes_of(bytes, key_len[i]),
                                     bytes_of(bytes + i, value_len[i + 1]), &fix->err),
                  &fix->err);
    engine_fix_apply(fix);
    engine_fix_reopen(fix);
    for (size_t i = 0; i < ARRAY_LEN(key_len); i++) {
        buf_cut(&fix->text, 0);
        ASSERT_OK(fix->ops->get(fix->engine, NULL, bytes_of(bytes, key_len[i]), ENGINE_TIER_ALL,
                                &fix->text, &fix->err),
                  &fix->err);
        ASSERT_BYTES(buf_bytes(&fix->text), bytes_of(bytes + i, value_len[i + 1]));
    }
    mem_free(bytes);
}

TEST(keys_and_values_of_all_sizes_come_back)
{
    engine_fix_each(sizes_round_trip);
}

/* ---- state, copies, repair, compaction ---- */

static void checkpoints_are_engines(struct engine_fix *fix)
{
    struct engine_options options = engine_fix_options(fix);
    char dir[320], scratch[320];
    engine_fix_unit(fix, "+fab1=1 +wa=1");
    engine_fix_unit(fix, "+wb=2");
    snprintf(dir, sizeof dir, "%s/copy", fix->top);
    snprintf(scratch, sizeof scratch, "%s/copy-scratch", fix->top);
    ASSERT_OK(fix->ops->checkpoint(fix->engine, dir, &fix->err), &fix->err);
    ASSERT_RC(fix->ops->checkpoint(fix->engine, dir, &fix->err), RC_INVALID);
    engine_fix_unit(fix, "~w:x");
    struct engine_fix copy = *fix;
    copy.engine = NULL;
    buf_init(&copy.text, 1 << 20);
    options.dir = dir;
    options.scratch_dir = scratch;
    ASSERT_OK(fix->ops->open(&options, &copy.engine, &fix->err), &fix->err);
    ASSERT_STR(engine_fix_all(&copy), "fab1=1 wa=1 wb=2");
    engine_fix_unit(&copy, "-fab1 +wc=3");
    ASSERT_STR(engine_fix_all(&copy), "wa=1 wb=2 wc=3");
    ASSERT_STR(engine_fix_all(fix), "fab1=1");
    fix->ops->close(copy.engine);
    buf_done(&copy.text);
}

TEST(a_checkpoint_opens_as_an_engine_of_its_own)
{
    engine_fix_each(checkpoints_are_engines);
}

static void compact_all_and_stats(struct engine_fix *fix)
{
    struct engine_stats stats;
    struct engine_pressure pressure = {0};
    for (int i = 0; i < 30; i++) {
        engine_fix_unit(fix, "+fab1=1 +gaa1=2 +wa=3");
        fix->ops->pressure(fix->engine, &pressure);
        ASSERT_LE(pressure.l0_file_count, i + 1);
    }
    ASSERT_OK(fix->ops->compact_all(fix->engine, &fix->err), &fix->err);
    fix->ops->pressure(fix->engine, &pressure);
    ASSERT_LE(pressure.l0_file_count, 8);
    ASSERT_EQ(pressure.debt_bytes, 0);
    ASSERT_FALSE(pressure.compacting);
    fix->ops->stats(fix->engine, &stats);
    ASSERT_EQ(stats.unit_count, 30);
    ASSERT_GE(stats.row_count_estimate, 1);
    ASSERT_GT(stats.disk_bytes, 0);
    ASSERT_STR(engine_fix_all(fix), "fab1=1 gaa1=2 wa=3");
}

TEST(compact_all_leaves_nothing_to_compact)
{
    engine_fix_each(compact_all_and_stats);
}

/* ---- one engine only: files on a disk ---- */

static int files_count(const char *dir, const char *part)
{
    int count = 0;
    DIR *handle = opendir(dir);
    ASSERT_TRUE(handle != NULL);
    for (struct dirent *entry; (entry = readdir(handle));)
        count += strstr(entry->d_name, part) != NULL;
    closedir(handle);
    return count;
}

TEST(rocksdb_leaves_nothing_in_the_scratch_directory)
{
    struct engine_fix fix;
    engine_fix_init(&fix, &engine_rocksdb_ops);
    engine_fix_unit(&fix, "+fab1=1 +wa=1");
    engine_fix_begin(&fix);
    engine_fix_add(&fix, "+fab1=1 +wa=1");
    ASSERT_GT(files_count(fix.scratch, ".sst"), 0);
    engine_fix_drop(&fix);
    ASSERT_EQ(files_count(fix.scratch, ".sst"), 0);
    engine_fix_done(&fix);
}

/* As after a kill inside an ingestion: a live file has a second name in the scratch directory. */
static void link_live_file(struct engine_fix *fix, const char *name)
{
    char from[600], to[600];
    DIR *handle = opendir(fix->dir);
    bool linked = false;
    for (struct dirent *entry; (entry = readdir(handle)) && !linked;) {
        if (!strstr(entry->d_name, ".sst"))
            continue;
        snprintf(from, sizeof from, "%s/%s", fix->dir, entry->d_name);
        snprintf(to, sizeof to, "%s/%s", fix->scratch, name);
        linked = link(from, to) == 0;
    }
    closedir(handle);
    ASSERT_TRUE(linked);
}

TEST(rocksdb_removes_leftovers_and_never_writes_into_them)
{
    struct engine_fix fix;
    engine_fix_init(&fix, &engine_rocksdb_ops);
    engine_fix_unit(&fix, "+wa=1");
    link_live_file(&fix, "unit-0-119.sst");
    link_live_file(&fix, "unit-7-102.sst");
    link_live_file(&fix, "somebody.else");
    engine_fix_reopen(&fix);
    ASSERT_EQ(files_count(fix.scratch, "unit-"), 0);
    ASSERT_EQ(files_count(fix.scratch, "somebody"), 1);
    link_live_file(&fix, "unit-0-119.sst");
    engine_fix_unit(&fix, "+wb=2");
    engine_fix_reopen(&fix);
    ASSERT_STR(engine_fix_all(&fix), "wa=1 wb=2");
    engine_fix_done(&fix);
}

TEST(rocksdb_names_damage_as_corrupt)
{
    struct engine_fix fix;
    char path[600];
    uint8_t junk[4096];
    engine_fix_init(&fix, &engine_rocksdb_ops);
    engine_fix_unit(&fix, "+wa=1 +wb=2");
    fix.ops->close(fix.engine);
    fix.engine = NULL;
    DIR *handle = opendir(fix.dir);
    for (struct dirent *entry; (entry = readdir(handle));) {
        if (strstr(entry->d_name, ".sst"))
            snprintf(path, sizeof path, "%s/%s", fix.dir, entry->d_name);
    }
    closedir(handle);
    FILE *file = fopen(path, "r+");
    ASSERT_TRUE(file != NULL);
    memset(junk, 0x5a, sizeof junk);
    ASSERT_EQ(fwrite(junk, 20, 1, file), 1); /* the first block */
    fclose(file);
    engine_fix_reopen(&fix);
    ASSERT_STR(engine_fix_get(&fix, NULL, "wa"), "RC_CORRUPT");
    struct engine_range range = {.lower = BYTES("w"), .upper = BYTES("x")};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    ASSERT_OK(fix.ops->iter_open(fix.engine, NULL, &range, &iter, &fix.err), &fix.err);
    ASSERT_RC(fix.ops->iter_next(iter, &key, &value, &fix.err), RC_CORRUPT);
    fix.ops->iter_close(iter);
    engine_fix_done(&fix);
}

TEST(rocksdb_counts_files_over_one_another_by_space)
{
    struct engine_fix fix;
    struct engine_pressure pressure;
    engine_fix_init(&fix, &engine_rocksdb_ops);
    for (int i = 0; i < 2; i++) /* the first goes to the bottom */
        engine_fix_unit(&fix, "+fab1=1 +fab3=1 +gaa1=2 +gaa3=1 +wa=3 +wc=3");
    fix.ops->pressure(fix.engine, &pressure);
    ASSERT_EQ(pressure.l0_file_count, 1);
    engine_fix_done(&fix);
}

// SPDX-License-Identifier: Apache-2.0
/* test_sink.c - what every sink promises, over SQLite and a real MariaDB. The numbers are those of
 * sink.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "contract/support_sink.h"

#include "base/banned.h"

static void create_small(struct sink_fix *fix)
{
    ASSERT_OK(sink_create(fix->sink, &sink_fix_small, &fix->err), &fix->err);
}

/* ---- (2) versions ---- */

static void versions(struct sink_fix *fix)
{
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "one", 10), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|one|#10");
    ASSERT_RC(sink_fix_put(fix, "a", "older", 9), RC_NEWER);
    ASSERT_TRUE(strstr(fix->err.text, "newer version") != NULL);
    ASSERT_OK(sink_fix_put(fix, "a", "equal", 10), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|one|#10");
    ASSERT_OK(sink_fix_put(fix, "a", "newer", 11), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), "a|newer|#11");
    sink_fix_sql(fix, "UPDATE small SET up_version=NULL");
    ASSERT_OK(sink_fix_put(fix, "a", "over null", INT64_MIN), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"),
               "a|over null|#-9223372036854775808");
    ASSERT_OK(sink_fix_put(fix, "a", "last", INT64_MAX), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"),
               "a|last|#9223372036854775807");
}

TEST(a_row_is_taken_only_if_its_version_is_newer)
{
    sink_fix_each(versions);
}

enum { NEWER_ROWS = 5 };

/* Lands rows k0, k1 ... of these versions; which version is said to be newer, 0: none. */
static int64_t land_versions(struct sink_fix *fix, const int64_t *version, size_t count)
{
    static const size_t places[] = {SMALL_K, SMALL_V, SMALL_VERSION};
    static const enum sink_use uses[3] = {SINK_SET};
    static const char *const keys[NEWER_ROWS] = {"k0", "k1", "k2", "k3", "k4"};
    struct sink_cell cell[3 * NEWER_ROWS];
    for (size_t i = 0; i < count; i++) {
        cell[3 * i] = sink_fix_cell(keys[i]);
        cell[3 * i + 1] = sink_fix_cell("ours");
        cell[3 * i + 2] = (struct sink_cell){.kind = SINK_INT, .number = version[i]};
    }
    const struct sink_change change = {
        .table = &sink_fix_small,
        .kind = SINK_UPSERT,
        .upsert = {
            .column = places, .use = uses, .column_count = 3, .cell = cell, .row_count = count}};
    int64_t newer = 0;
    ASSERT_OK(sink_check(fix->sink, &change, 1, &fix->err), &fix->err); /* asks for no version */
    enum rc rc = sink_land(fix->sink, &change, 1, &newer, &fix->err);
    if (rc != RC_NEWER)
        ASSERT_OK(rc, &fix->err);
    ASSERT_EQ(rc == RC_NEWER, newer != 0);
    return newer;
}

static void newer_rows(struct sink_fix *fix)
{
    const char *before = "k0|-|#20;k1|-|#10;k2|-|#30;k3|-|-";
    create_small(fix);
    sink_fix_sql(fix, "INSERT INTO small (k, up_version) VALUES ('k0', 20), ('k1', 10), "
                      "('k2', 30), ('k3', NULL)");
    /* Each of these versions is that of another row: the highest one alone says nothing. */
    ASSERT_EQ(land_versions(fix, (int64_t[]){19}, 1), 20);
    ASSERT_EQ(land_versions(fix, (int64_t[]){10, 20, 30, 1, 1}, NEWER_ROWS), 20);
    ASSERT_EQ(land_versions(fix, (int64_t[]){10, 9, 29, 1, 50}, NEWER_ROWS), 30);
    ASSERT_EQ(land_versions(fix, (int64_t[]){20, 9, 30, 1, 50}, NEWER_ROWS), 10);
    ASSERT_EQ(land_versions(fix, (int64_t[]){40, 40, 29}, 3), 30);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), before); /* nothing of it */
    ASSERT_EQ(land_versions(fix, (int64_t[]){20, 10, 30}, 3), 0);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"), before); /* replays */
    ASSERT_EQ(land_versions(fix, (int64_t[]){20, 11, 30, 1, 5}, NEWER_ROWS), 0);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"),
               "k0|-|#20;k1|ours|#11;k2|-|#30;k3|ours|#1;k4|ours|#5");
    ASSERT_EQ(land_versions(fix, (int64_t[]){31, 31, 31, 31, 31}, NEWER_ROWS), 0);
    sink_fix_sql(fix, "UPDATE small SET up_version=9223372036854775807 WHERE k='k4'");
    ASSERT_EQ(land_versions(fix, (int64_t[]){32, 32, 32, 32, 32}, NEWER_ROWS), INT64_MAX);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small WHERE up_version=31"), "4");
}

TEST(what_is_newer_is_told_and_nothing_lands)
{
    sink_fix_each(newer_rows);
}

/* ---- what is kept, what is swept ---- */

static void keep_columns(struct sink_fix *fix)
{
    const char *rows[] = {"a", "1", "#1", "#100", "o"};
    create_small(fix);
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version +made owner", rows, 1),
              &fix->err);
    rows[1] = "2", rows[2] = "#2", rows[3] = "#200";
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version +made owner", rows, 1),
              &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version made"), "a|2|#2|#100");
    /* The version may stand anywhere among the columns: it is assigned last all the same. */
    const char *early[] = {"a", "#3", "o", "3", "#300"};
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k up_version owner v made", early, 1),
              &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version made"), "a|3|#3|#300");
}

TEST(a_kept_column_is_inserted_and_not_updated)
{
    sink_fix_each(keep_columns);
}

/* Lands (k, made = 0) with a version, and clears v and owner of rows where made was not 0. */
static enum rc land_cleared(struct sink_fix *fix, const char *key, int64_t version)
{
    static const size_t places[] = {SMALL_K, SMALL_MADE, SMALL_VERSION};
    static const enum sink_use uses[3] = {SINK_SET};
    static const size_t clear[] = {SMALL_V, SMALL_OWNER};
    const struct sink_cell cell[] = {
        sink_fix_cell(key), sink_fix_cell("#0"), {.kind = SINK_INT, .number = version}};
    const struct sink_change change = {.table = &sink_fix_small,
                                       .kind = SINK_UPSERT,
                                       .upsert = {.column = places,
                                                  .use = uses,
                                                  .column_count = 3,
                                                  .cell = cell,
                                                  .row_count = 1,
                                                  .clear = clear,
                                                  .clear_count = 2,
                                                  .deleted = SMALL_MADE}};
    return sink_land(fix->sink, &change, 1, NULL, &fix->err);
}

static void cleared_columns(struct sink_fix *fix)
{
    const char *rows[] = {"gone", "1", "#5",   "#1", "o",  "here", "1", "#5",
                          "#0",   "o", "null", "1",  "#5", "-",    "o"};
    create_small(fix);
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version made owner", rows, 3), &fix->err);
    ASSERT_RC(land_cleared(fix, "gone", 4), RC_NEWER);
    ASSERT_OK(land_cleared(fix, "gone", 5), &fix->err); /* not newer: nothing changes */
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version made owner"),
               "gone|1|#5|#1|o;here|1|#5|#0|o;null|1|#5|-|o");
    ASSERT_OK(land_cleared(fix, "gone", 6), &fix->err);
    ASSERT_OK(land_cleared(fix, "here", 6), &fix->err);
    ASSERT_OK(land_cleared(fix, "null", 6), &fix->err);
    ASSERT_OK(land_cleared(fix, "new", 6), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version made owner"),
               "gone|-|#6|#0|-;here|1|#6|#0|o;new|-|#6|#0|-;null|1|#6|#0|o");
}

TEST(a_removed_row_does_not_get_its_old_values_back)
{
    sink_fix_each(cleared_columns);
}

static struct sink_change sweep_of(const char *owner, int64_t version, const struct sink_cell *cell,
                                   const size_t *column)
{
    return (struct sink_change){.table = &sink_fix_small,
                                .kind = SINK_SWEEP,
                                .sweep = {.where = SMALL_OWNER,
                                          .equals = sink_fix_cell(owner),
                                          .version = version,
                                          .column = column,
                                          .cell = cell,
                                          .column_count = 1}};
}

static void sweeps(struct sink_fix *fix)
{
    static const size_t column = SMALL_V;
    const struct sink_cell gone = sink_fix_cell("gone");
    const char *rows[] = {"a",  "1", "#1", "x", "b",  "2", "#5", "x", "c",  "3",
                          "#9", "x", "d",  "4", "#1", "y", "e",  "5", "#1", "x "};
    create_small(fix);
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version owner", rows, 5), &fix->err);
    sink_fix_sql(fix, "UPDATE small SET up_version=NULL WHERE k='a'");
    struct sink_change change = sweep_of("x", 9, &gone, &column);
    ASSERT_OK(sink_land(fix->sink, &change, 1, NULL, &fix->err), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &sink_fix_small, "k v up_version"),
               "a|gone|#9;b|gone|#9;c|3|#9;d|4|#1;e|5|#1");
    change = sweep_of("nobody", 10, &gone, &column);
    ASSERT_OK(sink_land(fix->sink, &change, 1, NULL, &fix->err), &fix->err);
}

TEST(a_sweep_takes_the_older_rows_of_one_owner)
{
    sink_fix_each(sweeps);
}

/* ---- (1) all or nothing ---- */

enum { MANY = 1000, MANY_COLUMNS = 4 };

struct many { /* MANY rows of the small table: k v up_version owner */
    char key[MANY][16];
    struct sink_cell cell[MANY * MANY_COLUMNS];
    size_t column[MANY_COLUMNS];
    enum sink_use use[MANY_COLUMNS];
    struct sink_change change;
};

static void many_init(struct many *many, int64_t version)
{
    static const size_t places[] = {SMALL_K, SMALL_V, SMALL_VERSION, SMALL_OWNER};
    *many = (struct many){0};
    memcpy(many->column, places, sizeof places);
    for (size_t i = 0; i < MANY; i++) {
        struct sink_cell *cell = &many->cell[i * MANY_COLUMNS];
        snprintf(many->key[i], sizeof many->key[i], "key%06zu", i);
        cell[0] = sink_fix_cell(many->key[i]);
        cell[1] = sink_fix_cell("value");
        cell[2] = (struct sink_cell){.kind = SINK_INT, .number = version};
        cell[3] = sink_fix_cell("o");
    }
    many->change = (struct sink_change){.table = &sink_fix_small,
                                        .kind = SINK_UPSERT,
                                        .upsert = {.column = many->column,
                                                   .use = many->use,
                                                   .column_count = MANY_COLUMNS,
                                                   .cell = many->cell,
                                                   .row_count = MANY}};
}

/* Of several statements and changes the newest is told. */
static void newer_among_many(struct sink_fix *fix)
{
    static struct many many;
    int64_t newer = 0;
    create_small(fix);
    struct sink_table second = sink_fix_small;
    second.name = BYTES("second");
    ASSERT_OK(sink_create(fix->sink, &second, &fix->err), &fix->err);
    many_init(&many, 100);
    struct sink_change two[2] = {many.change, many.change};
    two[1].table = &second;
    ASSERT_OK(sink_land(fix->sink, two, 2, &newer, &fix->err), &fix->err);
    ASSERT_OK(sink_land(fix->sink, two, 2, &newer, &fix->err), &fix->err);
    sink_fix_sql(fix, "UPDATE small SET up_version=300 WHERE k='key000003'");
    sink_fix_sql(fix, "UPDATE second SET up_version=200 WHERE k='key000999'");
    many_init(&many, 150);
    two[0] = two[1] = many.change;
    two[1].table = &second;
    ASSERT_RC(sink_land(fix->sink, two, 2, &newer, &fix->err), RC_NEWER);
    ASSERT_EQ(newer, 300);
    ASSERT_RC(sink_land(fix->sink, two + 1, 1, &newer, &fix->err), RC_NEWER);
    ASSERT_EQ(newer, 200);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small WHERE up_version=150"), "0");
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM second WHERE up_version=150"), "0");
    sink_fix_sql(fix, "UPDATE small SET up_version=150 WHERE k='key000003'");
    ASSERT_OK(sink_land(fix->sink, two, 1, &newer, &fix->err), &fix->err);
}

TEST(the_newest_of_many_rows_is_told)
{
    sink_fix_each(newer_among_many);
}

static void one_bad_row(struct sink_fix *fix)
{
    static struct many many;
    static char too_long[SINK_KEY_CHARS_MAX + 2];
    create_small(fix);
    memset(too_long, 'x', sizeof too_long - 1);
    many_init(&many, 1);
    struct sink_cell *bad = &many.cell[777 * MANY_COLUMNS + 3];
    *bad = sink_fix_cell(too_long);
    ASSERT_RC(sink_land(fix->sink, &many.change, 1, NULL, &fix->err), RC_INVALID);
    ASSERT_TRUE(strstr(fix->err.text, "owner") && strstr(fix->err.text, "too long"));
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "0");
    /* The same when it is the database that finds it, in another change of the transaction. */
    *bad = sink_fix_cell("o");
    struct sink_change two[2] = {many.change, many.change};
    struct sink_table missing = sink_fix_small;
    missing.name = BYTES("missing");
    two[1].table = &missing;
    ASSERT_RC(sink_land(fix->sink, two, 2, NULL, &fix->err), RC_NOT_FOUND);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "0");
    ASSERT_OK(sink_land(fix->sink, &many.change, 1, NULL, &fix->err), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "1000");
}

TEST(one_bad_row_among_a_thousand_lands_nothing)
{
    sink_fix_each(one_bad_row);
}

static void check_takes_back(struct sink_fix *fix)
{
    static struct many many;
    create_small(fix);
    many_init(&many, 1);
    ASSERT_OK(sink_check(fix->sink, &many.change, 1, &fix->err), &fix->err);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "0");
    many.cell[3] = (struct sink_cell){.kind = SINK_BYTES, .bytes = BYTES("\xff")};
    ASSERT_RC(sink_check(fix->sink, &many.change, 1, &fix->err), RC_INVALID);
}

TEST(a_check_lands_nothing)
{
    sink_fix_each(check_takes_back);
}

/* ---- (3) bytes ---- */

static enum rc put_bytes(struct sink_fix *fix, struct bytes key, struct bytes value,
                         int64_t version)
{
    static const size_t places[] = {SMALL_K, SMALL_V, SMALL_VERSION};
    static const enum sink_use uses[] = {SINK_SET, SINK_SET, SINK_SET};
    const struct sink_cell cell[] = {{.kind = SINK_BYTES, .bytes = key},
                                     {.kind = SINK_BYTES, .bytes = value},
                                     {.kind = SINK_INT, .number = version}};
    const struct sink_change change = {
        .table = &sink_fix_small,
        .kind = SINK_UPSERT,
        .upsert = {.column = places, .use = uses, .column_count = 3, .cell = cell, .row_count = 1}};
    return sink_land(fix->sink, &change, 1, NULL, &fix->err);
}

struct got { /* the first row of an answer */
    struct buf value;
    size_t count;
    enum sink_kind kind;
};

static enum rc get_value(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct got *got = arg;
    (void)err;
    got->count++;
    got->kind = cell[0].kind;
    buf_cut(&got->value, 0);
    ASSERT_TRUE(buf_add_bytes(&got->value, cell[0].bytes));
    return RC_OK;
}

/* The value under a key; how many rows there are. The caller frees. */
static struct got get_bytes(struct sink_fix *fix, struct bytes key)
{
    static const size_t column = SMALL_V;
    struct got got = {0};
    const struct sink_query query = {.table = &sink_fix_small,
                                     .column = &column,
                                     .column_count = 1,
                                     .value = &key,
                                     .value_count = 1};
    buf_init(&got.value, 64 * 1024 * 1024);
    ASSERT_OK(sink_select(fix->sink, &query, get_value, &got, &fix->err), &fix->err);
    return got;
}

static void expect_bytes(struct sink_fix *fix, struct bytes key, struct bytes value)
{
    struct got got = get_bytes(fix, key);
    ASSERT_EQ(got.count, 1);
    ASSERT_BYTES(buf_bytes(&got.value), value);
    buf_done(&got.value);
}

static void every_byte(struct sink_fix *fix)
{
    uint8_t all[256];
    create_small(fix);
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    ASSERT_OK(put_bytes(fix, BYTES("all"), bytes_of(all, sizeof all), 1), &fix->err);
    ASSERT_OK(put_bytes(fix, BYTES("empty"), bytes_of(NULL, 0), 1), &fix->err);
    const char *row[] = {"null", "-", "#1"};
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version", row, 1), &fix->err);
    expect_bytes(fix, BYTES("all"), bytes_of(all, sizeof all));
    expect_bytes(fix, BYTES("empty"), BYTES(""));
    struct got got = get_bytes(fix, BYTES("empty"));
    ASSERT_EQ(got.kind, SINK_BYTES);
    buf_done(&got.value);
    got = get_bytes(fix, BYTES("null"));
    ASSERT_EQ(got.kind, SINK_NULL);
    buf_done(&got.value);
    ASSERT_STR(sink_fix_ask(fix, "SELECT k, length(v) FROM small ORDER BY k"),
               "all|256;empty|0;null|-");
}

TEST(every_byte_is_kept_and_empty_is_not_null)
{
    sink_fix_each(every_byte);
}

static void keys_of_all_kinds(struct sink_fix *fix)
{
    /* Each of these has been equal to, or in the way of, another one somewhere. */
    static const struct bytes keys[] = {BYTES(""),
                                        BYTES("\0"),
                                        BYTES("\0a"),
                                        BYTES("\x01"),
                                        BYTES(" "),
                                        BYTES("  "),
                                        BYTES("\""),
                                        BYTES("'"),
                                        BYTES("' OR 1"),
                                        BYTES("%"),
                                        BYTES("1"),
                                        BYTES("1.0"),
                                        BYTES("01"),
                                        BYTES("?"),
                                        BYTES("A"),
                                        BYTES("A "),
                                        BYTES("A\0"),
                                        BYTES("A\x01"),
                                        BYTES("B"),
                                        BYTES("\\"),
                                        BYTES("_"),
                                        BYTES("`"),
                                        BYTES("a"),
                                        BYTES("a "),
                                        BYTES("a:b&c"),
                                        BYTES("\x7f"),
                                        BYTES("\xc2\x80"),
                                        BYTES("\xc3\x84"),
                                        BYTES("\xc3\xa4"),
                                        BYTES("\xc3\xa4 "),
                                        BYTES("\xe6\xbc\xa2"),
                                        BYTES("\xef\xbf\xbf"),
                                        BYTES("\xf0\x9f\x98\x80")};
    create_small(fix);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        ASSERT_OK(put_bytes(fix, keys[i], keys[ARRAY_LEN(keys) - 1 - i], 1), &fix->err);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        expect_bytes(fix, keys[i], keys[ARRAY_LEN(keys) - 1 - i]);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "33");
    ASSERT_RC(put_bytes(fix, BYTES("\xff"), BYTES(""), 1), RC_INVALID);
    ASSERT_RC(put_bytes(fix, BYTES("\xed\xa0\x80"), BYTES(""), 1), RC_INVALID);
}

TEST(keys_are_compared_as_bytes)
{
    sink_fix_each(keys_of_all_kinds);
}

static void key_lengths(struct sink_fix *fix)
{
    static char key[4 * SINK_KEY_CHARS_MAX + 4];
    create_small(fix);
    for (size_t i = 0; i <= SINK_KEY_CHARS_MAX; i++)
        memcpy(key + 4 * i, "\xf0\x9f\x98\x80", 4);
    ASSERT_OK(put_bytes(fix, bytes_of(key, 4 * SINK_KEY_CHARS_MAX), BYTES("x"), 1), &fix->err);
    expect_bytes(fix, bytes_of(key, 4 * SINK_KEY_CHARS_MAX), BYTES("x"));
    ASSERT_RC(put_bytes(fix, bytes_of(key, sizeof key), BYTES("x"), 1), RC_INVALID);
    memset(key, ' ', sizeof key);
    ASSERT_RC(put_bytes(fix, bytes_of(key, SINK_KEY_CHARS_MAX + 1), BYTES("x"), 1), RC_INVALID);
    ASSERT_STR(sink_fix_ask(fix, "SELECT count(*) FROM small"), "1");
}

TEST(a_key_has_512_characters_and_no_more)
{
    sink_fix_each(key_lengths);
}

static void long_values(struct sink_fix *fix)
{
    enum { LONG_BYTES = 16 * 1024 * 1024 };
    uint8_t *value = mem_alloc(LONG_BYTES);
    create_small(fix);
    for (size_t i = 0; i < LONG_BYTES; i++)
        value[i] = (uint8_t)(i * 2654435761u >> 24);
    if (fix->kind == SINK_FIX_MYSQL) { /* the largest that its packet takes */
        ASSERT_RC(put_bytes(fix, BYTES("long"), bytes_of(value, LONG_BYTES), 1), RC_INVALID);
        ASSERT_TRUE(strstr(fix->err.text, "max_allowed_packet"));
        sink_fix_sql(fix, "SET GLOBAL max_allowed_packet=33554432");
        sink_close(fix->sink);
        fix->sink = sink_fix_open(fix);
    }
    ASSERT_OK(put_bytes(fix, BYTES("long"), bytes_of(value, LONG_BYTES), 1), &fix->err);
    expect_bytes(fix, BYTES("long"), bytes_of(value, LONG_BYTES));
    if (fix->kind == SINK_FIX_MYSQL)
        sink_fix_sql(fix, "SET GLOBAL max_allowed_packet=16777216");
    mem_free(value);
}

TEST(a_value_of_16_mib_lands_whole)
{
    sink_fix_each(long_values);
}

/* ---- (4) names ---- */

static void odd_names(struct sink_fix *fix)
{
    static struct sink_column columns[] = {
        {.name = BYTES("k\"`'; DROP TABLE x"), .type = SINK_KEY},
        {.name = BYTES("\xe6\xbc\xa2 ?"), .type = SINK_TEXT},
        {.name = BYTES("select"), .type = SINK_BIGINT},
        {.name = BYTES("a.b"), .type = SINK_KEY},
        {.name = BYTES("%s\\"), .type = SINK_BLOB},
    };
    const struct sink_table table = {.name = BYTES("t`\"'/.--\xc3\xa4"),
                                     .column = columns,
                                     .column_count = ARRAY_LEN(columns),
                                     .version = 2,
                                     .index = 3};
    static const size_t places[] = {0, 1, 2, 3, 4};
    static const enum sink_use uses[5] = {SINK_SET};
    const struct sink_cell cell[] = {sink_fix_cell("a'b"), sink_fix_cell("\xe6\xbc\xa2"),
                                     sink_fix_cell("#7"), sink_fix_cell("`"), sink_fix_cell("\"")};
    const struct sink_change change = {
        .table = &table,
        .kind = SINK_UPSERT,
        .upsert = {.column = places, .use = uses, .column_count = 5, .cell = cell, .row_count = 1}};
    ASSERT_OK(sink_create(fix->sink, &table, &fix->err), &fix->err);
    ASSERT_OK(sink_create(fix->sink, &table, &fix->err), &fix->err); /* is left as it is */
    ASSERT_OK(sink_land(fix->sink, &change, 1, NULL, &fix->err), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &table, "select a.b %s\\"), "#7|`|\"");
    struct sink_table *described;
    ASSERT_OK(sink_describe(fix->sink, table.name, &described, &fix->err), &fix->err);
    ASSERT_EQ(described->column_count, 5);
    for (size_t i = 0; i < 5; i++) {
        ASSERT_BYTES(described->column[i].name, columns[i].name);
        ASSERT_EQ(described->column[i].type, columns[i].type);
    }
    sink_table_free(described);
}

TEST(names_may_have_quotes_and_all_letters)
{
    sink_fix_each(odd_names);
}

static void bad_names(struct sink_fix *fix)
{
    static const struct bytes names[] = {BYTES(""), BYTES("a\0b"), BYTES("\xff"), BYTES("a "),
                                         BYTES("\xf0\x9f\x98\x80")};
    static struct sink_column columns[3] = {{.name = BYTES("k"), .type = SINK_KEY},
                                            {.name = BYTES("up_version"), .type = SINK_BIGINT},
                                            {.name = BYTES("K"), .type = SINK_TEXT}};
    struct sink_table table = {
        .name = BYTES("t"), .column = columns, .column_count = 3, .version = 1};
    char name[SINK_NAME_BYTES_MAX + 1];
    ASSERT_RC(sink_create(fix->sink, &table, &fix->err), RC_INVALID); /* k and K */
    table.column_count = 2;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        table.name = names[i];
        ASSERT_RC(sink_create(fix->sink, &table, &fix->err), RC_INVALID);
        const struct sink_column column = {.name = names[i], .type = SINK_TEXT};
        ASSERT_RC(sink_add_column(fix->sink, BYTES("t"), &column, &fix->err), RC_INVALID);
    }
    memset(name, 'n', sizeof name);
    table.name = bytes_of(name, sizeof name);
    ASSERT_RC(sink_create(fix->sink, &table, &fix->err), RC_INVALID);
    table.name = bytes_of(name, SINK_NAME_BYTES_MAX);
    ASSERT_OK(sink_create(fix->sink, &table, &fix->err), &fix->err);
    if (fix->kind == SINK_FIX_SQLITE) {
        table.name = BYTES("sqlite_x");
        ASSERT_RC(sink_create(fix->sink, &table, &fix->err), RC_INVALID);
    }
}

TEST(a_name_that_no_database_takes_is_refused)
{
    sink_fix_each(bad_names);
}

/* ---- queries ---- */

struct listed { /* keys of an answer, in their order */
    char text[4096];
    size_t count;
    size_t fail_at; /* 0: never */
};

static enum rc list_key(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct listed *listed = arg;
    size_t len = strlen(listed->text);
    snprintf(listed->text + len, sizeof listed->text - len, "%s%.*s", len ? " " : "",
             (int)cell[0].bytes.len, (const char *)cell[0].bytes.ptr);
    if (++listed->count == listed->fail_at)
        return err_set(err, RC_TOO_BIG, "enough");
    return RC_OK;
}

static const char *list(struct sink_fix *fix, struct sink_query query, struct listed *listed)
{
    static const size_t column = SMALL_K;
    *listed = (struct listed){0};
    query.table = &sink_fix_small;
    query.column = &column;
    query.column_count = 1;
    ASSERT_OK(sink_select(fix->sink, &query, list_key, listed, &fix->err), &fix->err);
    return listed->text;
}

static void queries(struct sink_fix *fix)
{
    const char *rows[] = {"a",  "1", "#1", "x", "b",  "2", "#1", "y", "c",  "3",
                          "#1", "x", "d",  "4", "#1", "X", "e",  "5", "#1", "x "};
    const struct bytes owners[] = {BYTES("x"), BYTES("nobody"), BYTES("y"), BYTES("\xff")};
    struct listed listed;
    create_small(fix);
    ASSERT_STR(list(fix, (struct sink_query){0}, &listed), "");
    ASSERT_OK(sink_fix_land(fix, &sink_fix_small, "k v up_version owner", rows, 5), &fix->err);
    struct sink_query query = {.where = SMALL_OWNER, .value = owners, .value_count = 1};
    ASSERT_STR(list(fix, query, &listed), "a c");
    query.value_count = 4;
    list(fix, query, &listed);
    ASSERT_EQ(listed.count, 3);
    query.limit = 2;
    list(fix, query, &listed);
    ASSERT_EQ(listed.count, 2);
    ASSERT_STR(list(fix, (struct sink_query){.limit = 2}, &listed), "a b");
    query = (struct sink_query){.has_after = true, .after = BYTES("b"), .limit = 2};
    ASSERT_STR(list(fix, query, &listed), "c d");
    query.after = BYTES("d");
    ASSERT_STR(list(fix, query, &listed), "e");
    query.after = BYTES("");
    query.limit = 0;
    ASSERT_STR(list(fix, query, &listed), "a b c d e");
}

TEST(a_query_finds_its_values_or_walks_over_keys)
{
    sink_fix_each(queries);
}

static void many_values(struct sink_fix *fix)
{
    static struct many many;
    static struct bytes values[2 * MANY];
    static char absent[MANY][16];
    struct listed listed;
    create_small(fix);
    many_init(&many, 1);
    ASSERT_OK(sink_land(fix->sink, &many.change, 1, NULL, &fix->err), &fix->err);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(absent[i], sizeof absent[i], "none%06zu", i);
        values[2 * i] = bytes_of(many.key[i], strlen(many.key[i]));
        values[2 * i + 1] = bytes_of(absent[i], strlen(absent[i]));
    }
    struct sink_query query = {.where = SMALL_K, .value = values, .value_count = 2 * MANY};
    list(fix, query, &listed);
    ASSERT_EQ(listed.count, MANY);
    query.limit = 600;
    list(fix, query, &listed);
    ASSERT_EQ(listed.count, 600);
}

TEST(a_query_may_have_more_values_than_a_statement)
{
    sink_fix_each(many_values);
}

static void error_of_row_function(struct sink_fix *fix)
{
    static struct many many;
    static const size_t column = SMALL_K;
    struct listed listed = {.fail_at = 3};
    const struct sink_query query = {
        .table = &sink_fix_small, .column = &column, .column_count = 1};
    create_small(fix);
    many_init(&many, 1);
    ASSERT_OK(sink_land(fix->sink, &many.change, 1, NULL, &fix->err), &fix->err);
    ASSERT_RC(sink_select(fix->sink, &query, list_key, &listed, &fix->err), RC_TOO_BIG);
    ASSERT_STR(fix->err.text, "enough");
    ASSERT_EQ(listed.count, 3);
    listed = (struct listed){0};
    ASSERT_OK(sink_select(fix->sink, &query, list_key, &listed, &fix->err), &fix->err);
    ASSERT_EQ(listed.count, MANY);
    ASSERT_OK(sink_land(fix->sink, &many.change, 1, NULL, &fix->err), &fix->err);
}

TEST(an_error_of_the_row_function_ends_the_query)
{
    sink_fix_each(error_of_row_function);
}

struct streamed {
    size_t count;
    size_t bytes_max; /* resident, at most */
};

static enum rc stream_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct streamed *streamed = arg;
    (void)err;
    ASSERT_EQ(cell[0].bytes.len, 1000);
    if (streamed->count++ % 1000 == 0) {
        size_t bytes = mem_anonymous_bytes();
        streamed->bytes_max = bytes > streamed->bytes_max ? bytes : streamed->bytes_max;
    }
    return RC_OK;
}

static void streaming(struct sink_fix *fix)
{
    static const size_t column = SMALL_V;
    struct streamed streamed = {0};
    const struct sink_query query = {
        .table = &sink_fix_small, .column = &column, .column_count = 1};
    create_small(fix);
    if (fix->kind == SINK_FIX_SQLITE)
        sink_fix_sql(fix, "INSERT INTO small (k, v, up_version)"
                          " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT"
                          " 100000) SELECT printf('%08d', i), zeroblob(1000), 1 FROM n");
    else
        sink_fix_sql(fix, "INSERT INTO small (k, v, up_version)"
                          " SELECT lpad(seq, 8, '0'), repeat('x', 1000), 1 FROM seq_1_to_100000");
    ASSERT_OK(sink_ping(fix->sink, &fix->err), &fix->err);
    size_t before = mem_anonymous_bytes();
    ASSERT_OK(sink_select(fix->sink, &query, stream_row, &streamed, &fix->err), &fix->err);
    ASSERT_EQ(streamed.count, 100000);
    /* The answer is 100 MB; a sanitizer has memory of its own for each byte that was touched. */
    ASSERT_LT(streamed.bytes_max, before + 32 * 1024 * 1024);
}

TEST(a_large_answer_is_not_held_in_memory)
{
    sink_fix_each(streaming);
}

/* ---- tables that are missing, grow, or are another's ---- */

static void missing_things(struct sink_fix *fix)
{
    struct sink_table *table = NULL;
    struct listed listed = {0};
    static const size_t column = SMALL_K;
    const struct sink_query query = {
        .table = &sink_fix_small, .column = &column, .column_count = 1};
    const struct sink_column extra = {.name = BYTES("extra"), .type = SINK_TEXT};
    ASSERT_RC(sink_describe(fix->sink, BYTES("small"), &table, &fix->err), RC_NOT_FOUND);
    ASSERT_RC(sink_fix_put(fix, "a", "1", 1), RC_NOT_FOUND);
    ASSERT_RC(sink_select(fix->sink, &query, list_key, &listed, &fix->err), RC_NOT_FOUND);
    ASSERT_RC(sink_add_column(fix->sink, BYTES("small"), &extra, &fix->err), RC_NOT_FOUND);
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 1), &fix->err);
    /* A column that is not there, and then is: statements and declarations are not remembered
     * beyond the change of a table. */
    static struct sink_column columns[SMALL_COLUMNS + 1];
    memcpy(columns, sink_fix_small.column, sizeof columns - sizeof columns[0]);
    columns[SMALL_COLUMNS] = extra;
    struct sink_table wide = sink_fix_small;
    wide.column = columns;
    wide.column_count++;
    const char *row[] = {"a", "#2", "text"};
    ASSERT_RC(sink_fix_land(fix, &wide, "k up_version extra", row, 1), RC_NOT_FOUND);
    struct sink *other = sink_fix_open(fix);
    ASSERT_OK(sink_add_column(other, BYTES("small"), &extra, &fix->err), &fix->err);
    ASSERT_OK(sink_add_column(fix->sink, BYTES("small"), &extra, &fix->err), &fix->err);
    const struct sink_column upper = {.name = BYTES("EXTRA"), .type = SINK_TEXT};
    ASSERT_RC(sink_add_column(fix->sink, BYTES("small"), &upper, &fix->err), RC_INVALID);
    sink_close(other);
    ASSERT_STR(sink_fix_ask(fix, "SELECT extra FROM small"), "-");
    ASSERT_OK(sink_fix_land(fix, &wide, "k up_version extra", row, 1), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, &wide, "k v extra up_version"), "a|1|text|#2");
    sink_fix_sql(fix, "DROP TABLE small");
    ASSERT_RC(sink_fix_put(fix, "a", "1", 3), RC_NOT_FOUND);
    create_small(fix);
    ASSERT_OK(sink_fix_put(fix, "a", "1", 3), &fix->err);
}

TEST(a_missing_table_or_column_is_said_and_can_be_added)
{
    sink_fix_each(missing_things);
}

static void describes_ours(struct sink_fix *fix)
{
    struct sink_table *table;
    ASSERT_OK(sink_create(fix->sink, &sink_fix_object, &fix->err), &fix->err);
    ASSERT_OK(sink_describe(fix->sink, BYTES("app_eu"), &table, &fix->err), &fix->err);
    ASSERT_BYTES(table->name, BYTES("app_eu"));
    ASSERT_EQ(table->column_count, OBJ_COLUMNS);
    ASSERT_EQ(table->version, OBJ_VERSION);
    for (size_t i = 0; i < OBJ_COLUMNS; i++) {
        ASSERT_BYTES(table->column[i].name, sink_fix_object.column[i].name);
        ASSERT_EQ(table->column[i].type, sink_fix_object.column[i].type);
    }
    sink_table_free(table);
    const char *plan =
        fix->kind == SINK_FIX_SQLITE
            ? "SELECT count(*) FROM pragma_index_list('app_eu') WHERE origin='c'"
            : "SELECT count(*) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE()"
              " AND TABLE_NAME='app_eu' AND COLUMN_NAME='query_all_key'";
    ASSERT_STR(sink_fix_ask(fix, plan), "1");
}

TEST(a_table_of_ours_is_described_as_it_was_made)
{
    sink_fix_each(describes_ours);
}

static void foreign_tables(struct sink_fix *fix)
{
    struct sink_table *table;
    sink_fix_sql(fix, "CREATE TABLE f1 (a INT, id BIGINT PRIMARY KEY, up_version BIGINT,"
                      " name VARCHAR(40), d DECIMAL(5,2))");
    sink_fix_sql(fix, "CREATE TABLE f2 (a INT, b INT, PRIMARY KEY (a, b))");
    sink_fix_sql(fix, "CREATE TABLE f3 (a INT)");
    sink_fix_sql(fix, "CREATE TABLE f4 (a VARCHAR(20) PRIMARY KEY, v VARCHAR(20))");
    ASSERT_OK(sink_describe(fix->sink, BYTES("f1"), &table, &fix->err), &fix->err);
    ASSERT_EQ(table->column_count, 5);
    ASSERT_BYTES(table->column[0].name, BYTES("id"));
    ASSERT_EQ(table->column[0].type, SINK_BIGINT);
    ASSERT_BYTES(table->column[1].name, BYTES("a"));
    ASSERT_EQ(table->version, 2);
    ASSERT_EQ(table->column[3].type, SINK_OTHER);
    const char *rows[] = {"10", "5", "#1", "x", "1.25", "9", "6", "#1", "y", "-0.25"};
    if (fix->kind == SINK_FIX_MYSQL)
        rows[3] = "\xc3\xa4";
    ASSERT_OK(sink_fix_land(fix, table, "id a up_version name d", rows, 2), &fix->err);
    ASSERT_STR(sink_fix_rows(fix, table, "id a name d"), fix->kind == SINK_FIX_MYSQL
                                                             ? "#10|5|\xc3\xa4|1.25;#9|6|y|-0.25"
                                                             : "#10|#5|x|1.25;#9|#6|y|-0.25");
    const char *bad[] = {"ten", "#2"};
    ASSERT_RC(sink_fix_land(fix, table, "id up_version", bad, 1), RC_INVALID);
    sink_table_free(table);
    ASSERT_RC(sink_describe(fix->sink, BYTES("f2"), &table, &fix->err), RC_INVALID);
    ASSERT_RC(sink_describe(fix->sink, BYTES("f3"), &table, &fix->err), RC_INVALID);
    ASSERT_OK(sink_describe(fix->sink, BYTES("f4"), &table, &fix->err), &fix->err);
    ASSERT_EQ(table->version, 0);
    sink_table_free(table);
}

TEST(a_foreign_table_is_described_and_used)
{
    sink_fix_each(foreign_tables);
}

/* ---- texts ---- */

static void texts(struct sink_fix *fix)
{
    static struct many many;
    static const size_t column = SMALL_V;
    const struct bytes value = BYTES("x");
    const struct sink_query query = {.table = &sink_fix_small,
                                     .column = &column,
                                     .column_count = 1,
                                     .where = SMALL_OWNER,
                                     .value = &value,
                                     .value_count = 1};
    const struct sink_cell gone = sink_fix_cell("gone");
    const struct sink_change sweep = sweep_of("x", 9, &gone, &column);
    bool is_mysql = fix->kind == SINK_FIX_MYSQL;
    many_init(&many, 1);
    buf_cut(&fix->text, 0);
    ASSERT_OK(sink_change_text(fix->sink, &many.change, &fix->text, &fix->err), &fix->err);
    ASSERT_OK(sink_change_text(fix->sink, &sweep, &fix->text, &fix->err), &fix->err);
    ASSERT_OK(sink_query_text(fix->sink, &query, &fix->text, &fix->err), &fix->err);
    ASSERT_TRUE(buf_add(&fix->text, "", 1));
    ASSERT_STR((const char *)fix->text.ptr,
               is_mysql
                   ? "INSERT INTO `small` (`k`,`v`,`up_version`,`owner`) VALUES (?,?,?,?) ON"
                     " DUPLICATE KEY UPDATE `v`=IF(`up_version` IS NULL OR `up_version`<VALUES("
                     "`up_version`),VALUES(`v`),`v`),`owner`=IF(`up_version` IS NULL OR"
                     " `up_version`<VALUES(`up_version`),VALUES(`owner`),`owner`),`up_version`=IF("
                     "`up_version` IS NULL OR `up_version`<VALUES(`up_version`),"
                     "VALUES(`up_version`),`up_version`)\n"
                     "UPDATE `small` SET `v`=?,`up_version`=? WHERE `owner`=? AND (`up_version` IS"
                     " NULL OR `up_version`<?)\n"
                     "SELECT `v` FROM `small` WHERE `owner` IN (?)\n"
                   : "INSERT INTO \"small\" AS t (\"k\",\"v\",\"up_version\",\"owner\") VALUES"
                     " (?,?,?,?) ON CONFLICT(\"k\") DO UPDATE SET \"v\"=excluded.\"v\","
                     "\"up_version\"=excluded.\"up_version\",\"owner\"=excluded.\"owner\" WHERE"
                     " t.\"up_version\" IS NULL OR t.\"up_version\"<excluded.\"up_version\"\n"
                     "UPDATE \"small\" SET \"v\"=?,\"up_version\"=? WHERE \"owner\"=? AND"
                     " (\"up_version\" IS NULL OR \"up_version\"<?)\n"
                     "SELECT \"v\" FROM \"small\" WHERE \"owner\" IN (?)\n");
}

TEST(the_sql_can_be_shown)
{
    sink_fix_each(texts);
}

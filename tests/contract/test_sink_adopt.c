// SPDX-License-Identifier: Apache-2.0
/* test_sink_adopt.c - tables that are there before us: their indexes, and columns that they do not
 * have. */
#include "contract/support_sink.h"

#include "base/banned.h"

static bool owner_is_indexed(struct sink_fix *fix)
{
    struct sink_table *table;
    bool is_indexed = false;
    ASSERT_OK(sink_describe(fix->sink, sink_fix_small.name, &table, &fix->err), &fix->err);
    for (size_t i = 0; i < table->column_count; i++)
        if (bytes_eq(table->column[i].name, sink_fix_small.column[SMALL_OWNER].name))
            is_indexed = table->column[i].is_indexed;
    sink_table_free(table);
    return is_indexed;
}

static void indexes(struct sink_fix *fix)
{
    sink_fix_sql(fix, "CREATE TABLE small (k VARCHAR(512) PRIMARY KEY, v BLOB, up_version BIGINT, "
                      "made BIGINT, owner VARCHAR(512))");
    ASSERT_FALSE(owner_is_indexed(fix));
    ASSERT_OK(sink_add_index(fix->sink, &sink_fix_small, &fix->err), &fix->err);
    ASSERT_TRUE(owner_is_indexed(fix));
    ASSERT_OK(sink_add_index(fix->sink, &sink_fix_small, &fix->err), &fix->err);
    sink_fix_sql(fix, "DROP TABLE small");
    sink_fix_sql(fix, "CREATE TABLE small (k VARCHAR(512) PRIMARY KEY, v BLOB, up_version BIGINT, "
                      "made BIGINT, owner VARCHAR(512))");
    sink_fix_sql(fix, "CREATE INDEX theirs ON small (made, owner)");
    ASSERT_FALSE(owner_is_indexed(fix)); /* it is not the first of it */
    sink_fix_sql(fix, "CREATE INDEX theirs_too ON small (owner, made)");
    ASSERT_TRUE(owner_is_indexed(fix));
}

TEST(an_index_that_begins_with_a_column_is_seen_and_one_is_added_once)
{
    sink_fix_each(indexes);
}

static enum rc row_any(void *arg, const struct sink_cell *cell, struct err *err)
{
    (void)cell;
    (void)err;
    ++*(size_t *)arg;
    return RC_OK;
}

/* SQLite reads the quoted name of a column that is not there as a text, unless it is told not to.
 */
static void no_column(struct sink_fix *fix)
{
    static const size_t wanted[] = {SMALL_V};
    const struct bytes key = BYTES("a");
    const struct sink_query query = {.table = &sink_fix_small,
                                     .column = wanted,
                                     .column_count = 1,
                                     .value = &key,
                                     .value_count = 1};
    size_t count = 0;
    sink_fix_sql(fix, "CREATE TABLE small (k VARCHAR(512) PRIMARY KEY, up_version BIGINT)");
    sink_fix_sql(fix, "INSERT INTO small VALUES ('a', 1)");
    ASSERT_RC(sink_select(fix->sink, &query, row_any, &count, &fix->err), RC_NOT_FOUND);
    ASSERT_EQ(count, 0);
}

TEST(a_column_that_is_not_there_cannot_be_read)
{
    sink_fix_each(no_column);
}

// SPDX-License-Identifier: Apache-2.0
/* test_sink_exact.c - invariant (3) of sink.h over the types of foreign tables: what a sink takes
 * is read as the same bytes, and what would be changed is refused. Every type meets every value of
 * one pool; a list a type says which of them have to be taken. */
#include <stdio.h>
#include <stdlib.h>

#include "contract/support_sink.h"

#include "base/banned.h"

static const char *const pool[] = {
    "",
    "0",
    "1",
    "-1",
    "-0",
    "+1",
    "7",
    "007",
    "00007",
    " 7",
    "7 ",
    "7\n",
    "1e2",
    "1E2",
    "1e-7",
    "0x10",
    "1.5",
    "1.50",
    "1.25",
    "1.239",
    "-1.25",
    ".5",
    "5.",
    "0.5",
    "-0.5",
    "-0.00",
    "0.00",
    "00.50",
    "5.0",
    "5.00",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "65536",
    "8388608",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "123456",
    "1234567",
    "16777217",
    "999.99",
    "1000.00",
    "0.1",
    "0.1234567890123456789",
    "123456789012345",
    "1234567890123456",
    "0.0001",
    "0.00001",
    "1e15",
    "1e20",
    "1e39",
    "1e400",
    "nan",
    "NULL",
    "inf",
    "Infinity",
    "-inf",
    "true",
    "TRUE",
    "false",
    "a",
    "A",
    "a ",
    " a",
    "b",
    "B",
    "b,a",
    "a,b",
    "a,",
    ",",
    "a,a",
    "it's",
    "abc",
    "abcd",
    "abc ",
    "abcde",
    "abcdef",
    "ab",
    "x",
    "2024-02-29",
    "2023-02-29",
    "2024-02-30",
    "2024-2-3",
    "20240203",
    "24-02-03",
    "0000-00-00",
    "2024-00-01",
    "2024-13-01",
    "0001-01-01",
    "2024-02-03 10:11:12",
    "2024-02-03T10:11:12",
    "2024-02-03 10:11:12.7",
    "2024-02-03 10:11:12.123",
    "2024-02-03 10:11:12.1234",
    "2024-02-03 24:00:00",
    "2024-02-03 10:11:60",
    "2024-02-03 10:11:12+02:00",
    "2040-01-01 00:00:00",
    "1970-01-01 00:00:00",
    "1969-01-01 00:00:00",
    "2024-03-31 02:30:00",
    "10:11:12",
    "10:11",
    "1011",
    "-10:11:12",
    "838:59:59",
    "839:00:00",
    "100:00:00",
    "010:00:00",
    "-00:00:00",
    "10:11:12.5",
    "10:11:12.500",
    "24",
    "1900",
    "1901",
    "2024",
    "2155",
    "2156",
    "0000",
    "2024.5",
    "c0ffee00-0000-0000-0000-000000000001",
    "C0FFEE00-0000-0000-0000-000000000001",
    "c0ffee00000000000000000000000001",
    "\xc3\xa4",
    "\xc3\x84",
    "\xe2\x82\xac",
    "\xe6\xbc\xa2\xe5\xad\x97",
    "\xf0\x9f\x98\x80",
    "\xff",
    "\x80 ",
    "{\"a\":1}",
    "{ \"b\":1, \"a\":2}",
    "::1",
    "1.2.3.4",
    "\t1",
    "1\t",
    "--1",
    "1-1",
    "1.2.3",
    "1e",
    "e1",
    ".",
    "-",
    "-.",
    "-5",
    "+-5",
    "0.30000000000000004",
    "99999999999999999999",
    "3.14",
};

struct exact {
    const char *type;
    const char *taken; /* values that have to be taken, between bars */
};

static const struct exact mysql_types[] = {
    {"TINYINT", "|0|1|-1|127|-128|"},
    {"TINYINT(1)", "|0|1|"},
    {"BOOL", "|0|1|"},
    {"TINYINT UNSIGNED", "|0|255|"},
    {"SMALLINT", "|32767|"},
    {"MEDIUMINT", "|65536|"},
    {"INT", "|0|7|-1|2147483647|"},
    {"INT UNSIGNED", "|4294967295|"},
    {"INT(5) ZEROFILL", "|00007|123456|65536|"},
    {"BIGINT", "|9223372036854775807|-9223372036854775808|9007199254740993|"},
    {"BIGINT UNSIGNED", "|18446744073709551615|0|"},
    {"DECIMAL(5,2)", "|1.25|-1.25|0.00|999.99|1.50|"},
    {"DECIMAL(5,2) UNSIGNED", "|1.25|"},
    {"DECIMAL(10,0)", "|1|2147483648|"},
    {"DECIMAL(30,20)", ""},
    {"FLOAT", "|0.1|1.5|-0.5|123456|7|0|"},
    {"FLOAT UNSIGNED", "|1.5|"},
    {"FLOAT(7,2)", "|1.25|"},
    {"DOUBLE", "|0.1|1.5|123456789012345|3.14|-1|"},
    {"DOUBLE(10,3)", ""},
    {"CHAR(5)", "|abc|abcde||\xc3\xa4|007| a|"},
    {"VARCHAR(3) CHARACTER SET utf8mb4", "|abc|a |007||\xf0\x9f\x98\x80|"},
    {"VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "|a|A|"},
    {"VARCHAR(9) CHARACTER SET latin1", "|\xc3\xa4|\xe2\x82\xac|abc|"},
    {"VARCHAR(9) CHARACTER SET ascii", "|abc|"},
    {"VARCHAR(9) CHARACTER SET utf8mb3", "|\xe6\xbc\xa2\xe5\xad\x97|"},
    {"VARCHAR(9) CHARACTER SET ucs2", "|abc|"},
    {"TINYTEXT CHARACTER SET utf8mb4", "|abc|\xf0\x9f\x98\x80|"},
    {"TEXT CHARACTER SET utf8mb4", "|abc|"},
    {"BINARY(4)", "|abcd|"},
    {"VARBINARY(3)", "|abc|a ||\xff|"},
    {"TINYBLOB", "|abc|\xff|"},
    {"DATE", "|2024-02-29|"},
    {"DATETIME", "|2024-02-03 10:11:12|1969-01-01 00:00:00|2024-03-31 02:30:00|"},
    {"DATETIME(3)", "|2024-02-03 10:11:12.123|"},
    {"TIMESTAMP NULL", "|2024-02-03 10:11:12|2024-03-31 02:30:00|"},
    {"TIME", "|10:11:12|-10:11:12|838:59:59|100:00:00|"},
    {"TIME(3)", "|10:11:12.500|"},
    {"YEAR", "|2024|1901|2155|"},
    {"ENUM('a','B','3','it''s')", "|a|B|it's|"},
    {"SET('a','b','it''s')", "|a|b|a,b||"},
    {"BIT(8)", ""},
    {"UUID", "|c0ffee00-0000-0000-0000-000000000001|"},
    {"INET6", ""},
    {"JSON", "|{\"a\":1}|{ \"b\":1, \"a\":2}|"},
    {"POINT", ""},
};

static const struct exact sqlite_types[] = {
    {"INTEGER", "|0|7|-1|9223372036854775807|-9223372036854775808|"},
    {"TINYINT", "|0|1|"},
    {"REAL", "|0.1|1.5|-0.5|5.0|3.14|"},
    {"DOUBLE PRECISION", "|1.5|"},
    {"NUMERIC", "|0|7|1.5|-0.5|9223372036854775807|"},
    {"DECIMAL(5,2)", "|1.25|7|-1.25|999.99|"},
    {"VARCHAR(3)", "|abc|a |007||\xf0\x9f\x98\x80|1.5|"},
    {"CHAR(5)", "|abc|a |"},
    {"TEXT", "|abc|007|1.50||\xff|"},
    {"CLOB", "|abc|"},
    {"BLOB", "|abc|007|\xff||"},
    {"", "|abc|007|1.50|\xff|"},
    {"DATE", "|2024-02-29|abc|1|"},
    {"DATETIME", "|2024-02-03 10:11:12|"},
    {"BOOLEAN", "|0|1|true|"},
    {"VARCHAR(3) COLLATE NOCASE", "|a|A|"},
    {"JSON", "|{\"a\":1}|"},
};

static bool has_to_be_taken(const struct exact *exact, const char *value)
{
    char word[256];
    snprintf(word, sizeof word, "|%s|", value);
    return strstr(exact->taken, word) != NULL;
}

static void one_value(struct sink_fix *fix, const struct sink_table *table,
                      const struct exact *exact, size_t index)
{
    char key[32];
    const char *value = pool[index];
    snprintf(key, sizeof key, "%zu", index);
    struct sink_cell cells[3] = {sink_fix_cell(key), {.kind = SINK_BYTES}, sink_fix_cell("#1")};
    cells[1].bytes = bytes_of(value, strlen(value));
    static const size_t places[] = {0, 1, 2};
    static const enum sink_use uses[3] = {SINK_SET};
    const struct sink_change change = {
        .table = table,
        .kind = SINK_UPSERT,
        .upsert = {
            .column = places, .use = uses, .column_count = 3, .cell = cells, .row_count = 1}};
    enum rc rc = sink_land(fix->sink, &change, 1, NULL, &fix->err);
    if (rc != RC_OK && rc != RC_INVALID)
        test_fail(__FILE__, __LINE__, "%s, '%s': %s", exact->type, value, fix->err.text);
    if (rc == RC_INVALID && has_to_be_taken(exact, value))
        test_fail(__FILE__, __LINE__, "%s refuses '%s': %s", exact->type, value, fix->err.text);
}

struct compare {
    const struct exact *exact;
    size_t count;
};

/* A row that is there has the value of the pool that its key says. */
static enum rc compare_row(void *arg, const struct sink_cell *cell, struct err *err)
{
    struct compare *compare = arg;
    char number[24], key[24];
    (void)err;
    snprintf(key, sizeof key, "%.*s", (int)cell[0].bytes.len, (const char *)cell[0].bytes.ptr);
    const char *value = pool[strtoul(key, NULL, 10)];
    struct bytes is = cell[1].bytes;
    if (cell[1].kind == SINK_INT)
        is = bytes_of(number,
                      (size_t)snprintf(number, sizeof number, "%lld", (long long)cell[1].number));
    if (cell[1].kind == SINK_NULL || !bytes_eq(is, bytes_of(value, strlen(value))))
        test_fail(__FILE__, __LINE__, "%s took '%s' and gives '%.*s'", compare->exact->type, value,
                  (int)is.len, (const char *)is.ptr);
    compare->count++;
    return RC_OK;
}

static void one_type(struct sink_fix *fix, const struct exact *exact)
{
    char sql[200];
    struct sink_table *table;
    static const size_t places[] = {0, 1};
    struct compare compare = {.exact = exact};
    snprintf(sql, sizeof sql,
             "CREATE TABLE foreigner (k VARCHAR(20) PRIMARY KEY, v %s, up_version BIGINT)",
             exact->type);
    sink_fix_sql(fix, sql);
    ASSERT_OK(sink_describe(fix->sink, BYTES("foreigner"), &table, &fix->err), &fix->err);
    for (size_t i = 0; i < ARRAY_LEN(pool); i++)
        one_value(fix, table, exact, i);
    const struct sink_query query = {.table = table, .column = places, .column_count = 2};
    ASSERT_OK(sink_select(fix->sink, &query, compare_row, &compare, &fix->err), &fix->err);
    ASSERT_TRUE(compare.count > 0 || !*exact->taken);
    sink_table_free(table);
    sink_fix_sql(fix, "DROP TABLE foreigner");
}

static void mysql_exact(struct sink_fix *fix)
{
    sink_fix_sql(fix, "SET GLOBAL innodb_flush_log_at_trx_commit=0"); /* thousands of commits */
    for (size_t i = 0; i < ARRAY_LEN(mysql_types); i++)
        one_type(fix, &mysql_types[i]);
}

TEST(mysql_stores_a_value_exactly_or_refuses_it)
{
    sink_fix_mysql(mysql_exact);
}

static void sqlite_exact(struct sink_fix *fix)
{
    for (size_t i = 0; i < ARRAY_LEN(sqlite_types); i++)
        one_type(fix, &sqlite_types[i]);
}

TEST(sqlite_stores_a_value_exactly_or_refuses_it)
{
    sink_fix_sqlite(sqlite_exact);
}

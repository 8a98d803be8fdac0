// SPDX-License-Identifier: Apache-2.0
#include "models/landing/rule.h"

#include "test.h"

#include "base/banned.h"

static struct rule_spec *parse(const char *text)
{
    struct rule_spec *spec = NULL;
    struct err err = {0};
    ASSERT_OK(rule_parse_text(bytes_of(text, strlen(text)), &spec, &err), &err);
    return spec;
}

static void expect_refused(const char *text, const char *why)
{
    struct rule_spec *spec = NULL;
    struct err err = {0};
    ASSERT_EQ(rule_parse_text(bytes_of(text, strlen(text)), &spec, &err), RC_INVALID);
    if (!strstr(err.text, why))
        test_fail(__FILE__, __LINE__, "\"%s\": \"%s\" does not say \"%s\"", text, err.text, why);
}

TEST(a_rule_has_defaults_for_what_it_does_not_say)
{
    struct rule_spec *spec = parse("players slug-data:{*} sqlite:data/players.db");
    ASSERT_STR(spec->name, "players");
    ASSERT_STR(spec->url, "sqlite:data/players.db");
    ASSERT_BYTES(spec->prefix, BYTES("slug-data:{"));
    ASSERT_BYTES(spec->suffix, BYTES("}"));
    ASSERT_EQ(spec->shape, LAND_OBJECT);
    ASSERT_EQ(spec->db, 0);
    ASSERT_EQ(spec->tables, 4);
    ASSERT_EQ(spec->batch, 1000);
    ASSERT_EQ(spec->delay_ms, 10000);
    ASSERT_EQ(spec->keep_ms, 0);
    ASSERT_TRUE(!spec->flush_store_only && !spec->expire_delete);
    rule_free(spec);
}

TEST(every_word_of_a_rule_is_read_and_its_text_reads_the_same)
{
    struct rule_spec *spec =
        parse("u user:*:x sqlite:d.db SHAPE columns table users key id db 3 tables 7 batch 5 delay "
              "20 keep 30 password-file /p flush store-only");
    ASSERT_EQ(spec->shape, LAND_COLUMNS);
    ASSERT_BYTES(spec->table, BYTES("users"));
    ASSERT_BYTES(spec->key, BYTES("id"));
    ASSERT_EQ(spec->db, 3);
    ASSERT_EQ(spec->tables, 7);
    ASSERT_EQ(spec->batch, 5);
    ASSERT_EQ(spec->delay_ms, 20);
    ASSERT_EQ(spec->keep_ms, 30);
    ASSERT_STR(spec->password_file, "/p");
    ASSERT_TRUE(spec->flush_store_only && !spec->expire_delete);
    struct rule_spec *again = NULL;
    struct err err = {0};
    ASSERT_OK(rule_parse_text(spec->text, &again, &err), &err);
    ASSERT_BYTES(again->text, spec->text);
    rule_free(again);
    rule_free(spec);
}

TEST(a_password_is_not_shown)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 1000);
    struct rule_spec *spec =
        parse("u user:* mysql://app:secret@h/d shape columns table t key id delay 5");
    ASSERT_TRUE(rule_text_shown(spec, "mysql://app@h/d", &text));
    ASSERT_BYTES(buf_bytes(&text),
                 BYTES("u user:* mysql://app@h/d shape columns table t key id delay 5"));
    rule_free(spec);
}

TEST(a_rule_that_cannot_work_is_refused)
{
    expect_refused("", "a rule is");
    expect_refused("a b", "a rule is");
    expect_refused("n& slug-data:{*} sqlite:x", "letters, digits");
    expect_refused("n slug-data:{} sqlite:x", "one *");
    expect_refused("n slug-data:{**} sqlite:x", "one *");
    expect_refused("n user:* sqlite:x", "pattern of shape object");
    expect_refused("n slug-data:{* sqlite:x", "pattern of shape object");
    expect_refused("n slug-persist:{*} sqlite:x shape columns table t key k", "landing's own");
    expect_refused("n user:* sqlite:x shape columns", "table T key K");
    expect_refused("n user:* sqlite:x shape rows", "object or columns");
    expect_refused("n slug-data:{*} sqlite:x table t", "words of shape columns");
    expect_refused("n slug-data:{*} sqlite:x tables 0", "number from 1");
    expect_refused("n slug-data:{*} sqlite:x batch 1x", "number from 1");
    expect_refused("n slug-data:{*} sqlite:x db -1", "number from 0");
    expect_refused("n slug-data:{*} sqlite:x delay", "no value after");
    expect_refused("n slug-data:{*} sqlite:x speed 1", "no word");
    expect_refused("n slug-data:{*} sqlite:x flush all", "store-only");
    expect_refused("n slug-data:{*} sqlite:x expire keep", "delete");
    expect_refused("n slug-data:{*} sqlite:x expire delete keep 5", "do not go together");
    expect_refused("n slug-data:{*} oracle:x", "");
    expect_refused("n slug-data:{*} sqlite:\"x\"", "no blanks, quotes");
}

static bool overlap(const char *one, const char *other)
{
    struct rule_spec *a = parse(one), *b = parse(other);
    bool both = rules_overlap(a, b);
    ASSERT_EQ(rules_overlap(b, a), both);
    rule_free(a);
    rule_free(b);
    return both;
}

TEST(rules_overlap_if_one_key_fits_both)
{
#define COLUMNS " shape columns table t key k"
    ASSERT_TRUE(overlap("a user:* sqlite:x" COLUMNS, "b user:1* sqlite:y" COLUMNS));
    ASSERT_TRUE(overlap("a user:* sqlite:x" COLUMNS, "b user:*:x sqlite:y" COLUMNS));
    ASSERT_TRUE(!overlap("a user:* sqlite:x" COLUMNS, "b item:* sqlite:x" COLUMNS));
    ASSERT_TRUE(!overlap("a user:*:x sqlite:x" COLUMNS, "b user:*:y sqlite:x" COLUMNS));
    ASSERT_TRUE(!overlap("a user:* sqlite:x" COLUMNS, "b user:* sqlite:y" COLUMNS " db 1"));
    ASSERT_TRUE(overlap("a user:* sqlite:x" COLUMNS, "b user:* sqlite:x" COLUMNS " db 1"));
}

TEST(a_rule_takes_what_its_star_matches)
{
    struct rule_spec *spec = parse("a user:*:x sqlite:x" COLUMNS);
    struct bytes star;
    ASSERT_TRUE(rule_takes(spec, BYTES("user:42:x"), &star));
    ASSERT_BYTES(star, BYTES("42"));
    ASSERT_TRUE(rule_takes(spec, BYTES("user::x"), &star));
    ASSERT_EQ(star.len, 0);
    ASSERT_TRUE(!rule_takes(spec, BYTES("user:x"), NULL)); /* head and tail do not share a byte */
    ASSERT_TRUE(!rule_takes(spec, BYTES("user:42"), NULL));
    ASSERT_TRUE(!rule_takes(spec, BYTES(""), NULL));
    rule_free(spec);
}

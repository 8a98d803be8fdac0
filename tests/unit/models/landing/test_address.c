// SPDX-License-Identifier: Apache-2.0
#include "models/landing/address.h"

#include "test.h"

#include "base/banned.h"

struct fix {
    struct rule_spec *object, *columns;
    struct arena arena;
    struct buf text;
};

static void fix_init(struct fix *fix)
{
    struct err err = {0};
    ASSERT_OK(rule_parse_text(BYTES("o slug-data:{*} sqlite:x"), &fix->object, &err), &err);
    ASSERT_OK(rule_parse_text(BYTES("c user:* sqlite:x shape columns table t key id"),
                              &fix->columns, &err),
              &err);
    arena_init(&fix->arena);
    buf_init(&fix->text, 1 << 20);
}

static void fix_done(struct fix *fix)
{
    rule_free(fix->object);
    rule_free(fix->columns);
    arena_done(&fix->arena);
    buf_done(&fix->text);
}

/* The entry of a field, and back: the same address, the same key. */
static struct bytes entry_round_trip(struct fix *fix, const struct rule_spec *spec,
                                     struct bytes key, struct bytes field)
{
    struct address address;
    struct land_entry entry;
    struct err err = {0};
    ASSERT_OK(address_of(spec, key, &address, &err), &err);
    buf_cut(&fix->text, 0);
    ASSERT_TRUE(address_entry_add(&address, field, &fix->text));
    struct bytes text = arena_copy(&fix->arena, buf_bytes(&fix->text));
    ASSERT_OK(entry_parse(text, &fix->arena, &entry, &err), &err);
    ASSERT_EQ(entry.shape, spec->shape);
    ASSERT_BYTES(entry.field, field);
    entry.address.spec = spec;
    buf_cut(&fix->text, 0);
    ASSERT_TRUE(address_key_add(&entry.address, &fix->text));
    ASSERT_BYTES(buf_bytes(&fix->text), key);
    struct bytes owner = entry_owner_part(text, spec->shape);
    ASSERT_TRUE(bytes_start_with(text, owner));
    ASSERT_EQ(owner.ptr[owner.len - 1], '&');
    return text;
}

TEST(an_object_entry_names_its_parts_and_the_field_as_it_is)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    struct bytes key = BYTES("slug-data:{game:eu:hero:42}");
    ASSERT_BYTES(entry_round_trip(&fix, fix.object, key, BYTES("name")),
                 BYTES("game&eu&hero&42&name"));
    ASSERT_BYTES(entry_round_trip(&fix, fix.object, key, BYTES("a:b&c%26")),
                 BYTES("game&eu&hero&42&a:b&c%26"));
    ASSERT_BYTES(entry_round_trip(&fix, fix.object, key, BYTES("")), BYTES("game&eu&hero&42&"));
}

TEST(a_columns_entry_encodes_what_separates)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    ASSERT_BYTES(entry_round_trip(&fix, fix.columns, BYTES("user:7"), BYTES("name")),
                 BYTES("c&7&name"));
    ASSERT_BYTES(entry_round_trip(&fix, fix.columns, BYTES("user:a&b%c"), BYTES("x%y&z")),
                 BYTES("c&a%26b%25c&x%25y%26z"));
    ASSERT_BYTES(entry_round_trip(&fix, fix.columns, BYTES("user:7"), BYTES("")), BYTES("c&7&"));
}

TEST(a_hole_delimiter_in_an_id_is_refused_before_anything_is_stored)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    static const char *const bad[] = {
        "slug-data:{a:b:c}",      "slug-data:{a:b:c:d:e}",   "slug-data:{a:b:c:d&e}",
        "slug-data:{a&b:c:d:e}",  "slug-data:{:b:c:d}",      "slug-data:{a::c:d}",
        "slug-data:{a:b::d}",     "slug-data:{a:b:c:}",      "slug-data:{}",
        "slug-data:{a:b:c:\xff}", "slug-data:{a:b:c:d\xc3}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct address address;
        struct err err = {0};
        ASSERT_EQ(address_of(fix.object, bytes_of(bad[i], strlen(bad[i])), &address, &err),
                  RC_INVALID);
        ASSERT_TRUE(err.text[0] != 0);
    }
    struct address address;
    struct err err = {0};
    ASSERT_EQ(address_of(fix.columns, BYTES("user:"), &address, &err), RC_INVALID);
    ASSERT_EQ(address_of(fix.columns, BYTES("user:\xff"), &address, &err), RC_INVALID);
}

TEST(a_field_that_no_row_can_hold_is_refused)
{
    CLEANUP(fix_done) struct fix fix;
    struct address object, columns;
    struct err err = {0};
    char longest[600];
    fix_init(&fix);
    ASSERT_OK(address_of(fix.object, BYTES("slug-data:{a:b:c:d}"), &object, &err), &err);
    ASSERT_OK(address_of(fix.columns, BYTES("user:1"), &columns, &err), &err);
    memset(longest, 'x', sizeof longest);
    ASSERT_OK(address_check_field(&object, bytes_of(longest, 508), &err), &err); /* c:d: */
    ASSERT_EQ(address_check_field(&object, bytes_of(longest, 509), &err), RC_INVALID);
    ASSERT_OK(address_check_field(&columns, bytes_of(longest, 64), &err), &err);
    ASSERT_EQ(address_check_field(&columns, bytes_of(longest, 65), &err), RC_INVALID);
    ASSERT_EQ(address_check_field(&object, BYTES(""), &err), RC_INVALID);
    ASSERT_EQ(address_check_field(&object, BYTES("\xff"), &err), RC_INVALID);
    ASSERT_EQ(address_check_field(&object, BYTES("cachedAllKey"), &err), RC_INVALID);
    ASSERT_EQ(address_check_field(&columns, BYTES("id"), &err), RC_INVALID);
    ASSERT_EQ(address_check_field(&columns, BYTES("up_version"), &err), RC_INVALID);
    ASSERT_OK(address_check_field(&object, BYTES("up_version"), &err), &err);
}

TEST(what_is_no_entry_is_told_apart)
{
    CLEANUP(fix_done) struct fix fix;
    struct land_entry entry;
    struct err err = {0};
    fix_init(&fix);
    ASSERT_EQ(entry_parse(BYTES(""), &fix.arena, &entry, &err), RC_CORRUPT);
    ASSERT_EQ(entry_parse(BYTES("abc"), &fix.arena, &entry, &err), RC_CORRUPT);
    ASSERT_EQ(entry_parse(BYTES("a&b"), &fix.arena, &entry, &err), RC_CORRUPT);
    ASSERT_EQ(entry_parse(BYTES("a&b&c&d"), &fix.arena, &entry, &err), RC_CORRUPT);
    ASSERT_EQ(entry_parse(BYTES("r&%2&f"), &fix.arena, &entry, &err), RC_CORRUPT);
    ASSERT_EQ(entry_parse(BYTES("r&%27&f"), &fix.arena, &entry, &err), RC_CORRUPT);
    ASSERT_EQ(entry_parse(BYTES("r&1&f%"), &fix.arena, &entry, &err), RC_CORRUPT);
}

/* XXH64 with seed 0, as the reference says: a client can compute where its key is. */
TEST(the_table_of_a_key_is_its_xxh64)
{
    CLEANUP(fix_done) struct fix fix;
    fix_init(&fix);
    fix.object->tables = LAND_TABLES_MAX;
    ASSERT_EQ(address_table(fix.object, BYTES("")), UINT64_C(0xef46db3751d8e999) % LAND_TABLES_MAX);
    ASSERT_EQ(address_table(fix.object, BYTES("a")),
              UINT64_C(0xd24ec4f1a98c6e5b) % LAND_TABLES_MAX);
}

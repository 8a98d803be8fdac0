#include "types/meta.h"
#include "types/spaces.h"
#include "test.h"

#include "base/banned.h"

/* The vector of the specification: SET k1 hello with ID 000102...0f at 1546300800. */
static const uint8_t vector[] = {
    0x72, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
    0x0f, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x5c, 0x2a, 0xad,
    0x80, 0,    0,    0,    0,    0,    0,    0,    0,    'h',  'e',  'l',  'l',  'o'};

TEST(a_prefix_is_kv_and_namespace_and_tag)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 64);
    ASSERT_TRUE(key_prefix_add(BYTES(NS_NAME_DEFAULT), 'm', &text));
    ASSERT_BYTES(buf_bytes(&text), BYTES("kvdefault.defaultm"));
}

TEST(a_meta_row_is_written_as_specified)
{
    struct meta meta = {.type = TYPE_STRING, .create_s = 1546300800};
    uint8_t head[META_HEAD_BYTES];
    for (uint8_t i = 0; i < KEY_ID_BYTES; i++)
        meta.id[i] = i;
    meta_head_put(head, &meta);
    ASSERT_BYTES(bytes_of(head, sizeof head), bytes_of(vector, META_HEAD_BYTES));
}

TEST(a_meta_row_is_read_as_specified)
{
    struct meta meta;
    struct err err = {0};
    ASSERT_OK(meta_decode(bytes_of(vector, sizeof vector), &meta, &err), &err);
    ASSERT_EQ(meta.type, TYPE_STRING);
    ASSERT_EQ(meta.create_s, 1546300800);
    ASSERT_EQ(meta.expire_ms, 0);
    ASSERT_BYTES(meta.extra, BYTES("hello"));
}

TEST(what_is_no_meta_row_is_refused)
{
    struct meta meta;
    struct err err = {0};
    uint8_t other[sizeof vector];
    for (size_t len = 0; len < META_HEAD_BYTES; len++)
        ASSERT_RC(meta_decode(bytes_of(vector, len), &meta, &err), RC_CORRUPT);
    memcpy(other, vector, sizeof other);
    other[0] = '?';
    ASSERT_RC(meta_decode(bytes_of(other, sizeof other), &meta, &err), RC_VERSION);
}

TEST(the_spaces_fit_one_set)
{
    struct space_set set;
    struct err err = {0};
    space_set_init(&set);
    for (size_t i = 0; i < TYPES_SPACE_COUNT; i++)
        ASSERT_OK(space_set_add(&set, &types_spaces[i], &err), &err);
    ASSERT_EQ(set.space[SPACE_META].kind, SPACE_WHOLE);
    ASSERT_EQ(set.space[SPACE_EXPIRY].kind, SPACE_LENGTH);
}

// SPDX-License-Identifier: Apache-2.0
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

/* Every combination of what is left out, and values that are no meta rows. */
TEST(what_is_packed_comes_back_and_is_read_without_unpacking)
{
    const struct store_space space = {.pack = meta_pack, .unpack = meta_unpack};
    static const uint8_t types[] = {TYPE_STRING, TYPE_STRING_CHUNKED, TYPE_HASH, TYPE_LIST,
                                    TYPE_SET,    TYPE_ZSET,           '?'};
    for (unsigned bits = 0; bits < 16 * ARRAY_LEN(types); bits++) {
        CLEANUP(buf_done) struct buf packed;
        CLEANUP(buf_done) struct buf again;
        uint8_t row[sizeof vector];
        struct meta meta, direct;
        struct err err = {0};
        struct bytes form, back;
        buf_init(&packed, 128);
        buf_init(&again, 128);
        memcpy(row, vector, sizeof row);
        row[0] = types[bits / 16];
        memset(row + 13, bits & 1 ? 7 : 0, 4); /* the ordinal */
        memset(row + 17, bits & 2 ? 7 : 0, 8); /* count */
        memset(row + 25, bits & 4 ? 7 : 0, 4); /* createAt over 32 bits */
        memset(row + 33, bits & 8 ? 7 : 0, 8); /* expireAt */
        struct bytes value = bytes_of(row, sizeof row);
        ASSERT_TRUE(space_pack(&space, BYTES(""), BYTES(""), value, &packed, &form));
        ASSERT_LE(form.len, value.len + 1);
        ASSERT_TRUE(space_unpack(&space, BYTES(""), BYTES(""), form, &again, &back));
        ASSERT_BYTES(back, value);
        enum rc rc = meta_decode(value, &meta, &err);
        ASSERT_RC(meta_decode_packed(form, &direct, &err), rc);
        if (rc != RC_OK)
            continue;
        ASSERT_EQ(direct.type, meta.type);
        ASSERT_EQ(direct.count, meta.count);
        ASSERT_EQ(direct.create_s, meta.create_s);
        ASSERT_EQ(direct.expire_ms, meta.expire_ms);
        ASSERT_EQ(memcmp(direct.id, meta.id, sizeof meta.id), 0);
        ASSERT_BYTES(direct.extra, meta.extra);
        uint8_t head[META_PACKED_HEAD_BYTES_MAX];
        size_t head_len = meta_packed_head_put(head, &meta);
        ASSERT_BYTES(bytes_of(form.ptr, head_len), bytes_of(head, head_len));
        ASSERT_BYTES(bytes_from(form, head_len), meta.extra);
    }
    for (size_t len = 0; len < META_HEAD_BYTES; len++) {
        CLEANUP(buf_done) struct buf packed;
        CLEANUP(buf_done) struct buf again;
        struct bytes form, back;
        buf_init(&packed, 128);
        buf_init(&again, 128);
        ASSERT_TRUE(
            space_pack(&space, BYTES(""), BYTES(""), bytes_of(vector, len), &packed, &form));
        ASSERT_TRUE(space_unpack(&space, BYTES(""), BYTES(""), form, &again, &back));
        ASSERT_BYTES(back, bytes_of(vector, len));
    }
}

TEST(every_type_that_has_a_name_can_be_packed)
{
    for (unsigned type = 0; type <= UINT8_MAX; type++) {
        uint8_t head[META_PACKED_HEAD_BYTES_MAX];
        struct meta meta = {.type = (uint8_t)type}, back;
        struct err err = {0};
        if (!type_name(meta.type))
            continue;
        size_t len = meta_packed_head_put(head, &meta); /* aborts where it cannot be */
        ASSERT_OK(meta_decode_packed(bytes_of(head, len), &back, &err), &err);
        ASSERT_EQ(back.type, type);
    }
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

// SPDX-License-Identifier: Apache-2.0
#include "models/fs/entry.h"

#include <stdio.h>

#include "base/codec.h"
#include "models/fs/path.h"
#include "test.h"

#include "base/banned.h"

static size_t unhex(const char *text, uint8_t *to)
{
    size_t len = 0;
    for (; *text; text += *text == ' ' ? 1 : 2) {
        unsigned byte;
        if (*text == ' ')
            continue;
        ASSERT_EQ(sscanf(text, "%2x", &byte), 1);
        to[len++] = (uint8_t)byte;
    }
    return len;
}

static const char vector_text[] =
    "0100000000000000 0000800c00000000 0000000400000000 0068e5cf8b010000 e86be5cf8b010000 a4010000 "
    "02 01 01 00 747261696e2e637376";

TEST(an_entry_is_the_bytes_of_the_spec)
{
    struct fs_entry entry = {.parent = 1,
                             .size = 200 << 20,
                             .block_size = 64 << 20,
                             .create_ms = 1700000000000,
                             .modify_ms = 1700000001000,
                             .mode = 0644,
                             .flags = FS_COMPLETE,
                             .owner = 1,
                             .group = 1,
                             .name = BYTES("train.csv")};
    uint8_t bytes[FS_ENTRY_BYTES_MAX], vector[FS_ENTRY_BYTES_MAX];
    size_t len = unhex(vector_text, vector);
    ASSERT_BYTES(bytes_of(bytes, fs_entry_encode(&entry, bytes)), bytes_of(vector, len));

    struct fs_entry back;
    struct err err = {0};
    ASSERT_OK(fs_entry_decode(bytes_of(vector, len), &back, &err), &err);
    ASSERT_EQ(back.parent, 1);
    ASSERT_EQ(back.size, 200 << 20);
    ASSERT_EQ(back.block_size, 64 << 20);
    ASSERT_EQ(back.create_ms, 1700000000000);
    ASSERT_EQ(back.modify_ms, 1700000001000);
    ASSERT_EQ(back.mode, 0644);
    ASSERT_EQ(back.flags, FS_COMPLETE);
    ASSERT_EQ(back.owner, 1);
    ASSERT_EQ(back.group, 1);
    ASSERT_BYTES(back.name, BYTES("train.csv"));
}

TEST(edges_and_next_id_are_the_bytes_of_the_spec)
{
    uint8_t bytes[16];
    struct err err = {0};
    uint64_t id = 0;
    ASSERT_EQ(unhex("0000000000000003", bytes), 8);
    ASSERT_OK(fs_edge_decode(bytes_of(bytes, 8), &id, &err), &err);
    ASSERT_EQ(id, 3);
    ASSERT_EQ(unhex("ea03000000000000", bytes), 8);
    ASSERT_OK(fs_next_id_decode(bytes_of(bytes, 8), &id, &err), &err);
    ASSERT_EQ(id, 1002);
}

TEST(a_dictionary_is_the_bytes_of_the_spec)
{
    uint8_t bytes[16];
    struct err err = {0};
    struct fs_dict dict;
    struct bytes name;
    size_t len = unhex("02 05616c696365 03626f62", bytes);
    ASSERT_OK(fs_dict_open(bytes_of(bytes, len), &dict, &err), &err);
    ASSERT_TRUE(fs_dict_next(&dict, &name));
    ASSERT_BYTES(name, BYTES("alice"));
    ASSERT_TRUE(fs_dict_next(&dict, &name));
    ASSERT_BYTES(name, BYTES("bob"));
    ASSERT_FALSE(fs_dict_next(&dict, &name));
    ASSERT_OK(fs_dict_open(BYTES(""), &dict, &err), &err);
    ASSERT_FALSE(fs_dict_next(&dict, &name));
}

TEST(a_short_entry_is_damage_and_no_default_inode)
{
    uint8_t bytes[FS_ENTRY_BYTES_MAX];
    struct fs_entry entry;
    struct err err = {0};
    size_t len = unhex(vector_text, bytes);
    for (size_t cut = 0; cut <= FS_ENTRY_HEAD_BYTES; cut++) /* 48: parent 1 and no name */
        ASSERT_RC(fs_entry_decode(bytes_of(bytes, cut), &entry, &err), RC_CORRUPT);
    for (size_t cut = FS_ENTRY_HEAD_BYTES + 1; cut <= len; cut++)
        ASSERT_RC(fs_entry_decode(bytes_of(bytes, cut), &entry, &err), RC_OK);
}

TEST(an_entry_with_what_cannot_be_is_damage)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } damage[] = {{5, 1}, {15, 0x80}, {14, 0x40}, {21, 0x80}, {44, 4}, {47, 1}, {48, 0}, {50, '/'}};
    struct fs_entry entry;
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(damage); i++) {
        uint8_t bytes[FS_ENTRY_BYTES_MAX];
        size_t len = unhex(vector_text, bytes);
        bytes[damage[i].at] = damage[i].byte;
        ASSERT_RC(fs_entry_decode(bytes_of(bytes, len), &entry, &err), RC_CORRUPT);
    }
}

TEST(damaged_small_rows_are_found)
{
    static const char *const dict[] = {"01", "01 05 61", "02 01 61", "01 01 61 62", "00 00"};
    uint8_t bytes[64];
    struct fs_dict read;
    struct err err = {0};
    uint64_t id;
    for (size_t i = 0; i < ARRAY_LEN(dict); i++)
        ASSERT_RC(fs_dict_open(bytes_of(bytes, unhex(dict[i], bytes)), &read, &err), RC_CORRUPT);
    be64_put(bytes, FS_ID_END);
    ASSERT_RC(fs_edge_decode(bytes_of(bytes, 8), &id, &err), RC_CORRUPT);
    ASSERT_RC(fs_edge_decode(bytes_of(bytes, 7), &id, &err), RC_CORRUPT);
    be64_put(bytes, FS_ID_ROOT);
    ASSERT_RC(fs_edge_decode(bytes_of(bytes, 8), &id, &err), RC_CORRUPT);
    le64_put(bytes, FS_ID_END);
    ASSERT_RC(fs_next_id_decode(bytes_of(bytes, 8), &id, &err), RC_OK);
    le64_put(bytes, FS_ID_END + 1);
    ASSERT_RC(fs_next_id_decode(bytes_of(bytes, 8), &id, &err), RC_CORRUPT);
    le64_put(bytes, 1);
    ASSERT_RC(fs_next_id_decode(bytes_of(bytes, 8), &id, &err), RC_CORRUPT);
    ASSERT_RC(fs_next_id_decode(bytes_of(bytes, 9), &id, &err), RC_CORRUPT);
}

TEST(every_byte_but_nul_and_slash_is_a_name)
{
    struct err err = {0};
    uint8_t name[FS_NAME_BYTES_MAX + 1];
    for (unsigned byte = 0; byte < 256; byte++) {
        name[0] = (uint8_t)byte;
        name[1] = 'x';
        bool can = byte != 0 && byte != '/';
        ASSERT_EQ(fs_name_check(bytes_of(name, 2), &err) == RC_OK, can);
        ASSERT_EQ(fs_name_check(bytes_of(name, 1), &err) == RC_OK, can && byte != '.');
    }
    ASSERT_RC(fs_name_check(BYTES(".."), &err), RC_INVALID);
    ASSERT_RC(fs_name_check(BYTES("..."), &err), RC_OK);
    ASSERT_RC(fs_name_check(BYTES(""), &err), RC_INVALID);
    memset(name, 'n', sizeof name);
    ASSERT_RC(fs_name_check(bytes_of(name, 255), &err), RC_OK);
    ASSERT_RC(fs_name_check(bytes_of(name, 256), &err), RC_INVALID);
}

TEST(paths_are_slashes_and_names)
{
    static const char *const bad[] = {"",      "a",       "a/b", "//",  "/a/",
                                      "/a//b", "/a/../b", "/.",  "/a/."};
    struct fs_path path;
    struct err err = {0};
    struct bytes name;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ASSERT_RC(fs_path_open(bytes_of(bad[i], strlen(bad[i])), &path, &err), RC_INVALID);
    ASSERT_OK(fs_path_open(BYTES("/"), &path, &err), &err);
    ASSERT_FALSE(fs_path_next(&path, &name));
    ASSERT_OK(fs_path_open(BYTES("/a/bc"), &path, &err), &err);
    ASSERT_TRUE(fs_path_next(&path, &name));
    ASSERT_BYTES(name, BYTES("a"));
    ASSERT_FALSE(fs_path_is_through(&path));
    ASSERT_TRUE(fs_path_next(&path, &name));
    ASSERT_BYTES(name, BYTES("bc"));
    ASSERT_TRUE(fs_path_is_through(&path));
    uint8_t text[FS_PATH_BYTES_MAX + 2];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 ? 'a' : '/';
    ASSERT_OK(fs_path_open(bytes_of(text, FS_PATH_BYTES_MAX), &path, &err), &err);
    ASSERT_RC(fs_path_open(bytes_of(text, FS_PATH_BYTES_MAX + 2), &path, &err), RC_INVALID);
}

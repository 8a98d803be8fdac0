// SPDX-License-Identifier: Apache-2.0
#include "models/tile/tilekey.h"

#include <stdio.h>

#include "base/rand.h"
#include "test.h"

#include "base/banned.h"

static uint64_t pack(const char *text)
{
    uint64_t packed = ~UINT64_C(0);
    struct err err = {0};
    ASSERT_OK(tilekey_parse(bytes_of(text, strlen(text)), &packed, &err), &err);
    return packed;
}

static const char threes[] = "333333333333333333333333";

TEST(keys_pack_to_the_bytes_of_the_specification)
{
    static const struct {
        const char *text;
        uint64_t packed;
    } vector[] = {
        {"", 0},
        {"0", 0x0000000000000001},
        {"3", 0xC000000000000001},
        {"0123", 0x1B00000000000004},
        {"01230123", 0x1B1B000000000008},
        {"012301230", 0x1B1B000000000009},
        {"01230123012301230", 0x1B1B1B1B00000011},
        {threes, 0xFFFFFFFFFFFF0018},
    };
    for (size_t i = 0; i < ARRAY_LEN(vector); i++) {
        char text[TILEKEY_TEXT_BYTES];
        ASSERT_TRUE(pack(vector[i].text) == vector[i].packed);
        ASSERT_EQ(tilekey_print(vector[i].packed, text), strlen(vector[i].text));
        ASSERT_STR(text, vector[i].text);
        ASSERT_TRUE(tilekey_is_packed(vector[i].packed));
    }
}

TEST(a_key_with_a_time_is_sixteen_bytes_and_divides_at_the_last_colon)
{
    static const uint8_t expected[] = {0x1b, 0x1b, 0, 0,    0,    0,    0,    8,
                                       0,    0,    1, 0x93, 0x67, 0xbe, 0x4f, 0x4e};
    struct tilekey key, again;
    struct err err = {0};
    uint8_t bytes[TILEKEY_TM_BYTES];
    char text[TILEKEY_TEXT_BYTES];
    ASSERT_OK(tilekey_parse_tm(BYTES("01230123:1732612345678"), &key, &err), &err);
    ASSERT_EQ(tilekey_put(key, true, bytes), sizeof expected);
    ASSERT_BYTES(bytes_of(bytes, sizeof bytes), bytes_of(expected, sizeof expected));
    ASSERT_TRUE(tilekey_get(bytes_of(bytes, sizeof bytes), true, &again));
    ASSERT_EQ(tilekey_cmp(key, again), 0);
    (void)tilekey_print_tm(again, text);
    ASSERT_STR(text, "01230123:1732612345678");
    ASSERT_TRUE(tilekey_is_tm(BYTES("01230123:1732612345678")));
    ASSERT_TRUE(tilekey_is_tm(BYTES("333333333333333333333333:9223372036854775807")));
    ASSERT_OK(tilekey_parse_tm(BYTES(":5"), &key, &err), &err); /* of level 0 */
    ASSERT_EQ(key.packed, 0);
}

TEST(anything_else_is_no_key)
{
    static const char *const bad[] = {"4",  "012a", "-1", " 0",
                                      "0 ", "0:1",  "１", "0000000000000000000000000"};
    static const char *const bad_tm[] = {"0123",
                                         "0123:",
                                         "0123:-1",
                                         "0123:01",
                                         "0123:1x",
                                         "4:1",
                                         "0:1:1",
                                         "0123:+1",
                                         ":",
                                         "",
                                         "0000000000000000000000000:1",
                                         "0:9223372036854775808",
                                         "0:99999999999999999999"};
    struct tilekey key;
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct bytes text = bytes_of(bad[i], strlen(bad[i]));
        ASSERT_FALSE(tilekey_is(text));
        ASSERT_RC(tilekey_parse(text, &key.packed, &err), RC_INVALID);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_tm); i++) {
        struct bytes text = bytes_of(bad_tm[i], strlen(bad_tm[i]));
        ASSERT_FALSE(tilekey_is_tm(text));
        ASSERT_RC(tilekey_parse_tm(text, &key, &err), RC_INVALID);
    }
    ASSERT_FALSE(tilekey_is(BYTES(""))); /* no plain command names the tile of level 0 */
    ASSERT_FALSE(tilekey_is_packed(0x1B00000000000019));
    ASSERT_FALSE(tilekey_is_packed(0x1B00000000000104));
    ASSERT_FALSE(tilekey_is_packed(0x1B00000000000003));
}

static uint64_t key_draw(struct rand *rand)
{
    unsigned level = (unsigned)(rand_u64(rand) % (TILE_LEVEL_MAX + 1));
    return tilekey_ancestor((rand_u64(rand) & ~UINT64_C(0xffff)) | TILE_LEVEL_MAX, level);
}

/* What the range is for: it holds exactly the keys whose text begins with the key's. */
TEST(a_subtree_is_one_range_in_byte_order)
{
    struct rand rand;
    rand_init_seed(&rand, 7);
    for (int i = 0; i < 20000; i++) {
        char a[TILEKEY_TEXT_BYTES], b[TILEKEY_TEXT_BYTES];
        uint64_t root = tilekey_ancestor(key_draw(&rand), (unsigned)i % 6);
        uint64_t key = i % 2 ? key_draw(&rand)
                             : tilekey_first_below(root, (unsigned)i % 19 + 5) |
                                   (rand_u64(&rand) & 0x00ff0000);
        if (!tilekey_is_packed(key))
            key = tilekey_ancestor(key, tilekey_level(key));
        size_t len = tilekey_print(root, a);
        (void)tilekey_print(key, b);
        bool below = strncmp(a, b, len) == 0;
        ASSERT_EQ(key >= root && key <= tilekey_subtree_last(root), below);
    }
    ASSERT_TRUE(tilekey_subtree_last(0) == 0xFFFFFFFFFFFF0018);
    ASSERT_TRUE(tilekey_subtree_last(pack("3")) == 0xFFFFFFFFFFFF0018);
    ASSERT_TRUE(tilekey_subtree_last(pack("0")) == 0x3FFFFFFFFFFF0018);
    ASSERT_TRUE(tilekey_subtree_last(pack(threes)) == pack(threes));
}

TEST(keys_of_one_level_follow_each_other)
{
    uint64_t key = tilekey_first_below(pack("2"), 3), count = 1;
    ASSERT_TRUE(key == pack("200"));
    while (tilekey_next_same_level(key, &key) && key <= tilekey_subtree_last(pack("2")))
        count++;
    ASSERT_EQ(count, 16);
    ASSERT_FALSE(tilekey_next_same_level(pack("333"), &key));
    ASSERT_FALSE(tilekey_next_same_level(0, &key));
}

TEST(anchors_are_multiples_of_four_and_tiles_there_are_described_from_above)
{
    ASSERT_TRUE(tilekey_anchor(pack("")) == 0);
    ASSERT_TRUE(tilekey_anchor(pack("0")) == 0);
    ASSERT_TRUE(tilekey_anchor(pack("321")) == 0);
    ASSERT_TRUE(tilekey_anchor(pack("0123")) == pack("0123"));
    ASSERT_TRUE(tilekey_anchor(pack("0123012")) == pack("0123"));
    ASSERT_TRUE(tilekey_anchor(pack("01230123")) == pack("01230123"));
    ASSERT_TRUE(tilekey_anchor_for(pack("")) == 0);
    ASSERT_TRUE(tilekey_anchor_for(pack("0123")) == 0);
    ASSERT_TRUE(tilekey_anchor_for(pack("01230")) == pack("0123"));
    ASSERT_TRUE(tilekey_anchor_for(pack("01230123")) == pack("0123"));
}

TEST(the_schemes_name_the_same_tile)
{
    char text[TILEKEY_TEXT_BYTES];
    struct err err = {0};
    uint64_t packed;
    /* the quadrants of level 1, each by its corner */
    static const struct {
        const char *key, *bing;
        uint32_t x, y_xyz, y_tms;
    } corner[] = {
        {"0", "2", 0, 1, 0}, {"1", "3", 1, 1, 0}, {"2", "1", 1, 0, 1}, {"3", "0", 0, 0, 1}};
    for (size_t i = 0; i < ARRAY_LEN(corner); i++) {
        struct tile_xyz xyz = tilekey_to_xyz(pack(corner[i].key), TILE_ROWS_XYZ);
        struct tile_xyz tms = tilekey_to_xyz(pack(corner[i].key), TILE_ROWS_TMS);
        ASSERT_TRUE(xyz.z == 1 && xyz.x == corner[i].x && xyz.y == corner[i].y_xyz);
        ASSERT_TRUE(tms.z == 1 && tms.x == corner[i].x && tms.y == corner[i].y_tms);
        (void)tilekey_to_quadkey(pack(corner[i].key), text);
        ASSERT_STR(text, corner[i].bing);
    }
    /* Bing's own example: tile 3/3/5 is quadkey 213 */
    ASSERT_OK(tilekey_from_xyz((struct tile_xyz){3, 3, 5}, TILE_ROWS_XYZ, &packed, &err), &err);
    (void)tilekey_to_quadkey(packed, text);
    ASSERT_STR(text, "213");
    ASSERT_RC(tilekey_from_xyz((struct tile_xyz){3, 8, 0}, TILE_ROWS_XYZ, &packed, &err),
              RC_INVALID);
    ASSERT_RC(tilekey_from_xyz((struct tile_xyz){3, 0, 8}, TILE_ROWS_TMS, &packed, &err),
              RC_INVALID);
    ASSERT_RC(tilekey_from_xyz((struct tile_xyz){25, 0, 0}, TILE_ROWS_XYZ, &packed, &err),
              RC_INVALID);
    ASSERT_RC(tilekey_from_quadkey(BYTES("0124"), &packed, &err), RC_INVALID);
}

TEST(every_scheme_comes_back_to_the_key)
{
    struct rand rand;
    rand_init_seed(&rand, 3);
    for (int i = 0; i < 20000; i++) {
        char text[TILEKEY_TEXT_BYTES];
        struct err err = {0};
        uint64_t key = key_draw(&rand), back;
        for (int rows = TILE_ROWS_XYZ; rows <= TILE_ROWS_TMS; rows++) {
            struct tile_xyz xyz = tilekey_to_xyz(key, (enum tile_rows)rows);
            ASSERT_OK(tilekey_from_xyz(xyz, (enum tile_rows)rows, &back, &err), &err);
            ASSERT_TRUE(back == key);
        }
        size_t len = tilekey_to_quadkey(key, text);
        ASSERT_OK(tilekey_from_quadkey(bytes_of(text, len), &back, &err), &err);
        ASSERT_TRUE(back == key);
        len = tilekey_print(key, text);
        ASSERT_OK(tilekey_parse(bytes_of(text, len), &back, &err), &err);
        ASSERT_TRUE(back == key);
    }
}

TEST(levels_lie_in_the_files_of_the_table)
{
    CLEANUP(buf_done) struct buf path;
    buf_init(&path, 1000);
    for (unsigned level = 0; level <= TILE_LEVEL_MAX; level++) {
        char key[TILEKEY_TEXT_BYTES] = "", expected[64];
        for (unsigned i = 0; i < level; i++)
            key[i] = "3120"[i % 4];
        key[level] = 0;
        if (level <= 8)
            snprintf(expected, sizeof expected, "base.g3db");
        else
            snprintf(expected, sizeof expected, "%u/3120.g3db",
                     level <= 12   ? 8
                     : level <= 16 ? 12
                                   : level);
        struct tile_place place = tilekey_place(pack(key));
        buf_cut(&path, 0);
        ASSERT_TRUE(tile_place_add(place, &path));
        ASSERT_BYTES(buf_bytes(&path), bytes_of(expected, strlen(expected)));
        unsigned from, to;
        tile_folder_levels(place.folder, &from, &to);
        ASSERT_TRUE(from <= level && level <= to);
    }
    uint8_t prefix4;
    ASSERT_TRUE(tile_place_name_parse("3120.g3db", &prefix4));
    ASSERT_EQ(prefix4, 0xD8);
    ASSERT_FALSE(tile_place_name_parse("3120.g3db-wal", &prefix4));
    ASSERT_FALSE(tile_place_name_parse("base.g3db", &prefix4));
    ASSERT_FALSE(tile_place_name_parse("312", &prefix4));
}

// SPDX-License-Identifier: Apache-2.0
#include "models/tile/tile_url.h"

#include "test.h"

#include "base/banned.h"

static struct tile_url parse(const char *path)
{
    return tile_url_parse(bytes_of(path, strlen(path)));
}

static void assert_tile(const char *path, const char *type, const char *tilekey)
{
    char text[TILEKEY_TEXT_BYTES];
    struct tile_url url = parse(path);
    ASSERT_EQ(url.page, TILE_PAGE_TILE);
    ASSERT_STR(url.type, type);
    tilekey_print(url.packed, text);
    ASSERT_STR(text, tilekey);
}

TEST(a_tile_is_named_by_its_place_with_rows_from_the_north)
{
    assert_tile("/tiles/imagery/0/0/0", "imagery", "");
    assert_tile("/tiles/imagery/1/0/0.png", "imagery", "3"); /* top-left */
    assert_tile("/tiles/imagery/1/1/0.png", "imagery", "2");
    assert_tile("/tiles/imagery/1/0/1.jpg", "imagery", "0"); /* bottom-left */
    assert_tile("/tiles/imagery/1/1/1", "imagery", "1");
    assert_tile("/tiles/v_2/2/0/0.vector.pbf", "v_2", "33");
    assert_tile("/tiles/imagery/24/16777215/0", "imagery", "222222222222222222222222");
}

TEST(a_tile_is_named_by_its_tilekey)
{
    assert_tile("/tiles/imagery/0123", "imagery", "0123");
    assert_tile("/tiles/tm/3.png", "tm", "3");
    assert_tile("/tiles/imagery/012301230123012301230123", "imagery", "012301230123012301230123");
}

TEST(other_pages_are_found)
{
    struct tile_url url = parse("/tiles/imagery.json");
    ASSERT_EQ(url.page, TILE_PAGE_JSON);
    ASSERT_STR(url.type, "imagery");
}

TEST(numbers_that_no_tile_has_are_bad)
{
    static const char *const paths[] = {"/tiles/imagery/25/0/0",
                                        "/tiles/imagery/1/2/0",
                                        "/tiles/imagery/1/0/2",
                                        "/tiles/imagery/1/-1/0",
                                        "/tiles/imagery/1/0/+0",
                                        "/tiles/imagery/a/0/0",
                                        "/tiles/imagery/1//0",
                                        "/tiles/imagery/1/0/",
                                        "/tiles/imagery/4",
                                        "/tiles/imagery/0123x",
                                        "/tiles/imagery/1/0/0.PNG",
                                        "/tiles/imagery/1/0/0.",
                                        "/tiles/imagery/1/0/0 ",
                                        "/tiles/imagery/",
                                        "/tiles/imagery/%30",
                                        "/tiles/imagery/.png",
                                        "/tiles/imagery/1/0/4294967296",
                                        "/tiles/imagery/1/0/00000000000",
                                        "/tiles/imagery/0123012301230123012301230",
                                        "/tiles/imagery/1/0/0.abcdefghijklmnopq"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (parse(paths[i]).page != TILE_PAGE_BAD)
            test_fail(__FILE__, __LINE__, "%s is page %d", paths[i], parse(paths[i]).page);
}

TEST(other_paths_are_no_pages)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "/tiles",
                                        "/tiles/",
                                        "/tiles/imagery",
                                        "/metrics/",
                                        "/tiles//0",
                                        "/tiles/Imagery/0",
                                        "/tiles/.json",
                                        "/tiles/i.json/0",
                                        "/tiles/imagery/1/0",
                                        "/tiles/imagery/1/0/0/0",
                                        "/tiles/1x/0",
                                        "/tiles/../0",
                                        "/tiles/abcdefghijklmnopqrstuvwxyzabcdef/0",
                                        "/tiles/im%61gery/0",
                                        "tiles/imagery/0"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (parse(paths[i]).page != TILE_PAGE_NONE)
            test_fail(__FILE__, __LINE__, "%s is page %d", paths[i], parse(paths[i]).page);
}

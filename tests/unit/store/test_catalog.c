// SPDX-License-Identifier: Apache-2.0
#include "store/rows/catalog.h"

#include <stdio.h>

#include "base/crc32c.h"
#include "base/file_sim.h"
#include "test.h"

#include "base/banned.h"

struct fix {
    struct file_sim *sim;
    struct files *files;
    struct catalog catalog; /* as written */
    struct buf text;        /* of the file */
    struct err err;
};

static const struct store_space spaces[] = {
    {.number = 1, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = 2, .kind = SPACE_FIXED, .fixed_bytes = 16, .name = "fixed"},
    {.number = 254, .kind = SPACE_LENGTH, .name = "name_of_thirty-one_characters_x"},
};

static void fix_init(struct fix *fix)
{
    struct rand rand;
    *fix = (struct fix){.sim = file_sim_new()};
    fix->files = file_sim_files(fix->sim);
    buf_init(&fix->text, 1 << 20);
    rand_init_seed(&rand, 1);
    catalog_init(&fix->catalog, &rand);
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        ASSERT_OK(space_set_add(&fix->catalog.spaces, &spaces[i], &fix->err), &fix->err);
    catalog_prefix_add(&fix->catalog, 1, BYTES("kv\0\xff"));
    catalog_prefix_add(&fix->catalog, 2, BYTES(""));
    ASSERT_OK(files_make_dir(fix->files, "db", &fix->err), &fix->err);
    ASSERT_OK(catalog_write(&fix->catalog, fix->files, "db", &fix->err), &fix->err);
    ASSERT_OK(files_read_all(fix->files, "db/TERRACE", &fix->text, &fix->err), &fix->err);
}

static void fix_done(struct fix *fix)
{
    catalog_done(&fix->catalog);
    buf_done(&fix->text);
    file_sim_free(fix->sim);
}

static enum rc read_bytes(struct fix *fix, struct bytes content)
{
    struct catalog catalog;
    ASSERT_OK(files_replace(fix->files, "db/TERRACE", content, &fix->err), &fix->err);
    fix->err = (struct err){0};
    enum rc rc = catalog_read(&catalog, fix->files, "db", &fix->err);
    if (rc == RC_OK)
        catalog_done(&catalog);
    else
        ASSERT_TRUE(strstr(fix->err.text, "\"db/TERRACE\"") != NULL);
    return rc;
}

/* Hostile, but with a CRC that fits. */
static enum rc read_lines(struct fix *fix, const char *lines)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    size_t len = strlen(lines);
    ASSERT_TRUE(buf_add(&text, lines, len) &&
                buf_printf(&text, "crc %08x\n", (unsigned)crc32c(0, lines, len)));
    enum rc rc = read_bytes(fix, buf_bytes(&text));
    buf_done(&text);
    return rc;
}

#define UUID "uuid 000102030405060708090a0b0c0d0e0f\n"
#define HEAD "terrace store 1\nfeatures 0\n" UUID "incarnation 7\n"

TEST(what_was_written_is_read_back)
{
    struct fix fix;
    struct catalog catalog;
    fix_init(&fix);
    ASSERT_OK(catalog_read(&catalog, fix.files, "db", &fix.err), &fix.err);
    ASSERT_BYTES(bytes_of(catalog.uuid, 16), bytes_of(fix.catalog.uuid, 16));
    ASSERT_EQ(catalog.incarnation, fix.catalog.incarnation);
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
        const struct store_space *space = &catalog.spaces.space[spaces[i].number];
        ASSERT_EQ(space->kind, spaces[i].kind);
        ASSERT_EQ(space->fixed_bytes, spaces[i].fixed_bytes);
        ASSERT_STR(space->name, spaces[i].name);
    }
    ASSERT_EQ(catalog.prefix_count, 2);
    ASSERT_EQ(catalog.prefix[0].space, 1);
    ASSERT_BYTES(catalog.prefix[0].bytes, BYTES("kv\0\xff"));
    ASSERT_BYTES(catalog.prefix[1].bytes, BYTES(""));
    catalog_done(&catalog);
    fix_done(&fix);
}

TEST(uuid_and_incarnation_are_drawn)
{
    struct rand rand;
    struct catalog a, b;
    rand_init_seed(&rand, 5);
    catalog_init(&a, &rand);
    catalog_init(&b, &rand);
    ASSERT_TRUE(memcmp(a.uuid, b.uuid, 16) != 0);
    ASSERT_NE(a.incarnation, b.incarnation);
    catalog_done(&a);
    catalog_done(&b);
    catalog_done(NULL);
}

TEST(a_missing_file_is_told_apart_from_a_damaged_one)
{
    struct fix fix;
    struct catalog catalog;
    fix_init(&fix);
    ASSERT_RC(catalog_read(&catalog, fix.files, "elsewhere", &fix.err), RC_NOT_FOUND);
    fix_done(&fix);
}

TEST(a_prefix_that_could_not_be_written_is_forgotten)
{
    struct fix fix;
    fix_init(&fix);
    catalog_prefix_add(&fix.catalog, 1, BYTES("new"));
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_FULL});
    ASSERT_RC(catalog_write(&fix.catalog, fix.files, "db", &fix.err), RC_FULL);
    catalog_prefix_drop_last(&fix.catalog);
    ASSERT_EQ(fix.catalog.prefix_count, 2);
    struct catalog catalog;
    ASSERT_OK(catalog_read(&catalog, fix.files, "db", &fix.err), &fix.err);
    ASSERT_EQ(catalog.prefix_count, 2);
    catalog_done(&catalog);
    fix_done(&fix);
}

TEST(every_flipped_bit_is_refused)
{
    struct fix fix;
    fix_init(&fix);
    for (size_t at = 0; at < fix.text.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            fix.text.ptr[at] ^= (uint8_t)(1 << bit);
            enum rc rc = read_bytes(&fix, buf_bytes(&fix.text));
            ASSERT_TRUE(rc == RC_CORRUPT || rc == RC_VERSION);
            fix.text.ptr[at] ^= (uint8_t)(1 << bit);
        }
    }
    ASSERT_RC(read_bytes(&fix, buf_bytes(&fix.text)), RC_OK);
    fix_done(&fix);
}

TEST(every_cut_is_refused)
{
    struct fix fix;
    fix_init(&fix);
    for (size_t len = 0; len < fix.text.len; len++)
        ASSERT_RC(read_bytes(&fix, bytes_of(fix.text.ptr, len)), RC_CORRUPT);
    ASSERT_TRUE(buf_add(&fix.text, "\n", 1));
    ASSERT_RC(read_bytes(&fix, buf_bytes(&fix.text)), RC_CORRUPT);
    fix_done(&fix);
}

TEST(an_unknown_version_or_feature_is_named)
{
    struct fix fix;
    fix_init(&fix);
    ASSERT_RC(read_lines(&fix, HEAD), RC_OK);
    ASSERT_RC(read_lines(&fix, "terrace store 2\nsomething else\n"), RC_VERSION);
    ASSERT_TRUE(strstr(fix.err.text, "format 2") != NULL);
    ASSERT_RC(read_lines(&fix, "terrace store 18446744073709551617\n"), RC_VERSION);
    ASSERT_RC(read_lines(&fix, "terrace store x\n"), RC_VERSION);
    ASSERT_RC(read_lines(&fix, "terrace store 1\nfeatures 4\n" UUID "incarnation 7\n"), RC_VERSION);
    ASSERT_TRUE(strstr(fix.err.text, "features 4") != NULL);
    /* Newer formats may end in another way; the version is still what is told. */
    ASSERT_RC(read_bytes(&fix, BYTES("terrace store 3\nlight and water\n")), RC_VERSION);
    fix_done(&fix);
}

TEST(unknown_lines_and_kinds_are_refused_even_with_a_right_crc)
{
    static const char *const lines[] = {
        HEAD "space 1 whole 0\n",
        HEAD "space 1 round 0 name\n",
        HEAD "space 1 none 0 name\n",
        HEAD "space 0 whole 0 sys\n",
        HEAD "space 255 whole 0 name\n",
        HEAD "space 256 whole 0 name\n",
        HEAD "space 1 fixed 0 name\n",
        HEAD "space 1 whole 3 name\n",
        HEAD "space 1 fixed 256 name\n",
        HEAD "space 1 whole 0 name_of_more_than_thirty-one_bytes\n",
        HEAD "space 1 whole 0 two words\n",
        HEAD "space 1 whole 0 name\nspace 1 length 0 name\n",
        HEAD "space 1 whole 0 name\nspace 1 whole 0 name\n",
        HEAD "space 2 whole 0 b\nspace 1 whole 0 a\n",
        HEAD "space 01 whole 0 name\n",
        HEAD "space 1 whole 0 \n",
        HEAD "prefix 1 ab\n",
        HEAD "prefix 1 ab\nspace 1 whole 0 name\n",
        HEAD "space 1 whole 0 name\nprefix 0 ab\n",
        HEAD "space 1 whole 0 name\nprefix 1 a\n",
        HEAD "space 1 whole 0 name\nprefix 1 AB\n",
        HEAD "space 1 whole 0 name\nprefix 1 \n",
        HEAD "space 1 whole 0 name\nprefix 1 ab cd\n",
        HEAD "space 1 whole 0 name\nprefix 1 zz\n",
        HEAD "space 1 whole 0 name\nprefix 300 ab\n",
        HEAD "colour blue\n",
        HEAD "\n",
        HEAD " \n",
        HEAD HEAD,
        HEAD "uuid 000102030405060708090a0b0c0d0e0f\n",
        HEAD "incarnation 8\n",
        "terrace store 1\nfeatures 0\n" UUID,
        "terrace store 1\nfeatures 0\nincarnation 7\n",
        "terrace store 1\n" UUID "incarnation 7\n",
        "terrace store 1\nfeatures 0\nincarnation 7\n" UUID,
        "terrace store 1\nfeatures 0\nuuid 0001\nincarnation 7\n",
        "terrace store 1\nfeatures 0\nuuid 000102030405060708090a0b0c0d0e0g\nincarnation 7\n",
        "terrace store 1\nfeatures 0\n" UUID "incarnation 4294967296\n",
        "terrace store 1\nfeatures 0\n" UUID "incarnation -1\n",
        "terrace store 1\nfeatures 0\n" UUID "incarnation \n",
        "terrace store 1\nfeatures 0\n" UUID "incarnation 07\n",
    };
    struct fix fix;
    fix_init(&fix);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (read_lines(&fix, lines[i]) != RC_CORRUPT)
            test_fail(__FILE__, __LINE__, "not refused: %s", lines[i]);
    fix_done(&fix);
}

TEST(a_prefix_over_its_limit_is_refused)
{
    struct fix fix;
    struct buf lines;
    fix_init(&fix);
    for (int len = STORE_PREFIX_BYTES_MAX; len <= STORE_PREFIX_BYTES_MAX + 1; len++) {
        buf_init(&lines, 1 << 16);
        ASSERT_TRUE(buf_printf(&lines, HEAD "space 1 whole 0 name\nprefix 1 "));
        for (int i = 0; i < len; i++)
            ASSERT_TRUE(buf_printf(&lines, "ab"));
        ASSERT_TRUE(buf_add(&lines, "\n", 2));
        ASSERT_RC(read_lines(&fix, (const char *)lines.ptr),
                  len == STORE_PREFIX_BYTES_MAX ? RC_OK : RC_CORRUPT);
        buf_done(&lines);
    }
    fix_done(&fix);
}

TEST(bytes_that_are_no_text_are_refused)
{
    struct fix fix;
    fix_init(&fix);
    ASSERT_RC(read_bytes(&fix, BYTES("")), RC_CORRUPT);
    ASSERT_RC(read_bytes(&fix, BYTES("terrace store 1\n")), RC_CORRUPT);
    ASSERT_RC(read_bytes(&fix, BYTES("terrace store 1\0features 0\n")), RC_CORRUPT);
    ASSERT_RC(read_bytes(&fix, BYTES("\x7f"
                                     "ELF and other things that begin in another way\n")),
              RC_CORRUPT);
    struct rand rand;
    uint8_t noise[400];
    rand_init_seed(&rand, 9);
    for (int i = 0; i < 200; i++) {
        rand_bytes(&rand, noise, sizeof noise);
        memcpy(noise, "terrace store 1\n", i % 2 ? 16 : 0);
        ASSERT_RC(read_bytes(&fix, bytes_of(noise, rand_below(&rand, sizeof noise))), RC_CORRUPT);
    }
    fix_done(&fix);
}

TEST(a_path_over_its_limit_is_refused)
{
    struct fix fix;
    struct catalog catalog;
    static char dir[PATH_BYTES_MAX];
    fix_init(&fix);
    memset(dir, 'd', sizeof dir - 1);
    ASSERT_RC(catalog_write(&fix.catalog, fix.files, dir, &fix.err), RC_INVALID);
    ASSERT_RC(catalog_read(&catalog, fix.files, dir, &fix.err), RC_INVALID);
    fix_done(&fix);
}

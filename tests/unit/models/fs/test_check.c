// SPDX-License-Identifier: Apache-2.0
#include "models/fs/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/rand.h"
#include "support/fs_fix.h"
#include "test.h"

#include "base/banned.h"

/* /d/e/f (5 bytes, of alice), /d/g, /h */
struct small {
    struct fs_fix fix;
    uint64_t d, e, f, g, h;
};

static void small_init(struct small *tree)
{
    struct fs_fix *fix = &tree->fix;
    fs_fix_init(fix);
    ASSERT_OK(fs_fix_mkdir(fix, "/d/e", &tree->e), &fix->err);
    tree->d = fs_fix_id(fix, "/d");
    ASSERT_OK(fs_fix_create(fix, "/d/e/f", &tree->f), &fix->err);
    ASSERT_OK(fs_fix_create(fix, "/d/g", &tree->g), &fix->err);
    ASSERT_OK(fs_fix_mkdir(fix, "/h", &tree->h), &fix->err);
    ASSERT_OK(fs_fix_resize(fix, "/d/e/f", 5), &fix->err);
    ASSERT_OK(fs_fix_chown(fix, "/d/e/f", "alice"), &fix->err);
}

static void small_done(struct small *tree)
{
    fs_fix_done(&tree->fix);
}

static void assert_sound(struct fs_fix *fix)
{
    struct fs_check_result result = fs_fix_check(fix, false);
    ASSERT_STR(result.example_count > 0 ? result.example[0] : "", "");
    ASSERT_EQ(result.problems, 0);
    ASSERT_EQ(result.left, 0);
    ASSERT_EQ(result.counters, FS_COUNTERS_EXACT);
}

/* It is found, healed, and nothing is found any more. */
static void assert_heals(struct fs_fix *fix)
{
    ASSERT_GT(fs_fix_check(fix, false).problems, 0);
    struct fs_check_result result = fs_fix_check(fix, true);
    ASSERT_GT(result.problems, 0);
    ASSERT_GT(result.repaired, 0);
    ASSERT_EQ(result.left, 0);
    assert_sound(fix);
}

static void edge_set(struct fs_fix *fix, uint64_t parent, const char *name, uint64_t child)
{
    uint8_t value[FS_ID_BYTES];
    be64_put(value, child);
    fs_fix_edge_put(fix, parent, bytes_of(name, strlen(name)), child ? value : NULL, sizeof value);
}

static void entry_set(struct fs_fix *fix, uint64_t id, const struct fs_entry *entry)
{
    uint8_t value[FS_ENTRY_BYTES_MAX];
    fs_fix_inode_put(fix, id, value, fs_entry_encode(entry, value));
}

static const char *lost(uint64_t id)
{
    static _Thread_local char path[64];
    snprintf(path, sizeof path, "/lost+found/#%" PRIu64, id);
    return path;
}

TEST(a_sound_tree_is_sound_hot_and_cold_and_empty)
{
    struct small tree;
    struct fs_fix empty;
    fs_fix_init(&empty);
    assert_sound(&empty);
    fs_fix_done(&empty);
    small_init(&tree);
    assert_sound(&tree.fix);
    kv_fix_freeze_out(&tree.fix.kv);
    struct fs_check_result result = fs_fix_check(&tree.fix, true);
    ASSERT_EQ(result.inodes, 6);
    ASSERT_EQ(result.edges, 5);
    ASSERT_EQ(result.files, 2);
    ASSERT_EQ(result.dirs, 3);
    ASSERT_EQ(result.bytes, 5);
    ASSERT_EQ(result.repaired, 0);
    small_done(&tree);
}

TEST(a_short_entry_is_reported_by_whoever_reads_it_and_healed)
{
    struct small tree;
    small_init(&tree);
    fs_fix_inode_put(&tree.fix, tree.g, "short", 5);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/g"), 0);
    ASSERT_EQ(strncmp(tree.fix.err.text, "CORRUPT", 7), 0);
    ASSERT_RC(fs_fix_remove(&tree.fix, "/d/g", false), RC_REPLY);
    assert_heals(&tree.fix);
    struct fs_entry entry = fs_fix_stat(&tree.fix, "/d/g");
    ASSERT_EQ(entry.flags, 0);
    ASSERT_EQ(entry.size, 0);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/g"), tree.g);
    ASSERT_OK(fs_fix_remove(&tree.fix, "/d/g", false), &tree.fix.err);
    assert_sound(&tree.fix);
    small_done(&tree);
}

TEST(a_damaged_directory_is_one_again_with_all_that_is_in_it)
{
    struct small tree;
    for (int gone = 0; gone < 2; gone++) {
        small_init(&tree);
        fs_fix_inode_put(&tree.fix, tree.e, gone ? NULL : "short", 5);
        assert_heals(&tree.fix);
        ASSERT_EQ(fs_fix_id(&tree.fix, "/d/e/f"), tree.f);
        ASSERT_EQ(fs_fix_stat(&tree.fix, "/d/e").flags, FS_DIRECTORY | FS_COMPLETE);
        ASSERT_EQ(fs_fix_stat(&tree.fix, "/d/e/f").size, 5);
        small_done(&tree);
    }
}

TEST(an_edge_without_inode_goes_and_its_name_can_be_used_again)
{
    struct small tree;
    small_init(&tree);
    fs_fix_inode_put(&tree.fix, tree.g, NULL, 0);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/g"), 0);
    ASSERT_EQ(strncmp(tree.fix.err.text, "CORRUPT", 7), 0);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/g"), 0);
    ASSERT_EQ(strncmp(tree.fix.err.text, "NOTFOUND", 8), 0);
    ASSERT_OK(fs_fix_create(&tree.fix, "/d/g", NULL), &tree.fix.err);
    small_done(&tree);
}

TEST(an_inode_without_edge_comes_back_to_its_name)
{
    struct small tree;
    small_init(&tree);
    edge_set(&tree.fix, tree.d, "e", 0);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/e/f"), 0);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/e/f"), tree.f);
    small_done(&tree);
}

TEST(an_inode_whose_name_is_taken_or_whose_parent_is_gone_is_found_again)
{
    struct small tree;
    small_init(&tree);
    edge_set(&tree.fix, tree.d, "g", 0);
    ASSERT_OK(fs_fix_create(&tree.fix, "/d/g", NULL), &tree.fix.err);
    fs_fix_inode_put(&tree.fix, tree.e, NULL, 0);
    edge_set(&tree.fix, tree.d, "e", 0);
    edge_set(&tree.fix, tree.e, "f", 0);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, lost(tree.g)), tree.g);
    ASSERT_EQ(fs_fix_id(&tree.fix, lost(tree.f)), tree.f);
    ASSERT_EQ(fs_fix_stat(&tree.fix, lost(tree.f)).size, 5);
    small_done(&tree);
}

TEST(what_is_below_a_file_or_below_nothing_is_found_again)
{
    struct small tree;
    struct fs_entry entry;
    small_init(&tree);
    entry = fs_fix_stat(&tree.fix, "/d/e"); /* a file with something in it */
    entry.flags = FS_COMPLETE;
    entry.name = BYTES("e");
    entry_set(&tree.fix, tree.e, &entry);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, lost(tree.f)), tree.f);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/e"), tree.e);
    fs_fix_inode_put(&tree.fix, tree.d, NULL, 0); /* a directory without inode and edge */
    edge_set(&tree.fix, FS_ID_ROOT, "d", 0);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, lost(tree.d)), tree.d);
    char path[80];
    snprintf(path, sizeof path, "%s/g", lost(tree.d));
    ASSERT_EQ(fs_fix_id(&tree.fix, path), tree.g);
    small_done(&tree);
}

TEST(a_second_edge_to_an_inode_goes)
{
    struct small tree;
    small_init(&tree);
    edge_set(&tree.fix, tree.h, "link", tree.f);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/h/link"), 0);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/e/f"), tree.f);
    edge_set(&tree.fix, tree.e, "f", 0); /* and the only one there is names the place */
    edge_set(&tree.fix, tree.h, "link", tree.f);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/h/link"), tree.f);
    small_done(&tree);
}

TEST(damaged_edges_dictionaries_owners_and_next_id_are_healed)
{
    struct small tree;
    uint8_t id[FS_ID_BYTES];
    struct fs_entry entry;
    small_init(&tree);
    fs_fix_edge_put(&tree.fix, tree.d, BYTES("g"), "xyz", 3);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/d/g"), tree.g);
    fs_fix_edge_put(&tree.fix, tree.d, BYTES(".."), "12345678", 8);
    assert_heals(&tree.fix);
    entry = fs_fix_stat(&tree.fix, "/d/g");
    entry.owner = 9;
    entry.name = BYTES("g");
    entry_set(&tree.fix, tree.g, &entry);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_stat(&tree.fix, "/d/g").owner, 0);
    ASSERT_EQ(fs_fix_stat(&tree.fix, "/d/e/f").owner, 1);
    fs_fix_inode_put(&tree.fix, FS_KEY_OWNERS,
                     "\x02\x05"
                     "alice\x09"
                     "bo",
                     10);
    assert_heals(&tree.fix);
    ASSERT_EQ(fs_fix_stat(&tree.fix, "/d/e/f").owner, 1);
    le64_put(id, 3);
    fs_fix_inode_put(&tree.fix, FS_KEY_NEXT_ID, id, sizeof id);
    assert_heals(&tree.fix);
    uint64_t made;
    ASSERT_OK(fs_fix_create(&tree.fix, "/new", &made), &tree.fix.err);
    ASSERT_GT(made, tree.h);
    fs_fix_inode_put(&tree.fix, FS_ID_ROOT, "x", 1);
    assert_heals(&tree.fix);
    small_done(&tree);
}

TEST(directories_in_a_circle_are_found_again)
{
    struct small tree;
    struct fs_entry entry;
    small_init(&tree);
    entry = fs_fix_stat(&tree.fix, "/d"); /* below its own child */
    entry.parent = tree.e;
    entry.name = BYTES("d");
    edge_set(&tree.fix, FS_ID_ROOT, "d", 0);
    edge_set(&tree.fix, tree.e, "d", tree.d);
    entry_set(&tree.fix, tree.d, &entry);
    ASSERT_EQ(fs_fix_id(&tree.fix, "4"), 0); /* no way up */
    assert_heals(&tree.fix);
    struct fs_query query = {.kind = FS_QUERY_FIND,
                             .path = BYTES("/"),
                             .pattern = BYTES("[fg]"),
                             .line_count_max = UINT64_MAX};
    struct fs_answer answer;
    ASSERT_OK(fs_fix_query(&tree.fix, &query, &answer), &tree.fix.err);
    ASSERT_GT(answer.names.len, 0);
    ASSERT_EQ(answer.totals.files, 2);
    fs_answer_done(&answer);
    small_done(&tree);
}

TEST(a_grave_without_edge_is_swept_after_repair)
{
    struct small tree;
    struct fs_entry entry;
    small_init(&tree);
    entry = fs_fix_stat(&tree.fix, "/d");
    entry.parent = FS_ID_GRAVEYARD;
    entry.name = BYTES("d");
    edge_set(&tree.fix, FS_ID_ROOT, "d", 0);
    entry_set(&tree.fix, tree.d, &entry);
    ASSERT_EQ(fs_fix_id(&tree.fix, "4"), 0);
    ASSERT_GT(fs_fix_check(&tree.fix, true).repaired, 0);
    fs_fix_turns(&tree.fix);
    assert_sound(&tree.fix);
    ASSERT_EQ(fs_counts(tree.fix.fs).files, 0);
    ASSERT_EQ(fs_counts(tree.fix.fs).dirs, 1);
    small_done(&tree);
}

TEST(the_sweep_passes_what_is_damaged)
{
    struct small tree;
    small_init(&tree);
    fs_fix_inode_put(&tree.fix, tree.e, "short", 5);
    fs_fix_inode_put(&tree.fix, tree.g, NULL, 0);
    fs_fix_edge_put(&tree.fix, tree.d, BYTES("odd"), "xyz", 3);
    edge_set(&tree.fix, tree.d, "link", tree.h);
    ASSERT_OK(fs_fix_remove(&tree.fix, "/d", true), &tree.fix.err);
    fs_fix_turns(&tree.fix);
    struct fs_check_result result = fs_fix_check(&tree.fix, true);
    ASSERT_EQ(result.problems, 0);
    ASSERT_EQ(result.inodes, 2);
    ASSERT_EQ(result.graves, 0);
    ASSERT_EQ(fs_fix_id(&tree.fix, "/h"), tree.h);
    assert_sound(&tree.fix);
    small_done(&tree);
}

/* ---- any damage ---- */

enum { RANDOM_INODES = 40, RANDOM_DAMAGES = 6 };

static void random_tree(struct fs_fix *fix, struct rand *rand)
{
    char path[64][200] = {""};
    size_t dirs = 1;
    for (int i = 0; i < RANDOM_INODES; i++) {
        char one[200];
        const char *above = path[rand_below(rand, dirs)];
        snprintf(one, sizeof one, "%s/n%d", above, i);
        if (rand_below(rand, 2) == 0 && strlen(one) < 100) {
            ASSERT_OK(fs_fix_mkdir(fix, one, NULL), &fix->err);
            snprintf(path[dirs++], sizeof path[0], "%s", one);
        } else {
            ASSERT_OK(fs_fix_create(fix, one, NULL), &fix->err);
            ASSERT_OK(fs_fix_resize(fix, one, rand_below(rand, 1000)), &fix->err);
        }
    }
}

static void random_damage(struct fs_fix *fix, struct rand *rand)
{
    static const uint8_t zeros[FS_ENTRY_HEAD_BYTES + 4] = {0};
    uint64_t id = FS_ID_FIRST + rand_below(rand, RANDOM_INODES);
    uint64_t other = FS_ID_ROOT + rand_below(rand, RANDOM_INODES + 1);
    char name[16];
    struct fs_entry entry = {
        .parent = other, .size = 7, .flags = (uint8_t)rand_below(rand, 4), .name = BYTES("moved")};
    snprintf(name, sizeof name, "n%d", (int)(id - FS_ID_FIRST));
    switch (rand_below(rand, 7)) {
    case 0:
        fs_fix_inode_put(fix, id, NULL, 0);
        break;
    case 1:
        fs_fix_inode_put(fix, id, zeros, rand_below(rand, sizeof zeros));
        break;
    case 2:
        entry_set(fix, id, &entry);
        break;
    case 3:
        edge_set(fix, other, "stray", id);
        break;
    case 4:
        edge_set(fix, other, name, 0);
        break;
    case 5:
        fs_fix_edge_put(fix, other, BYTES("odd"), zeros, rand_below(rand, 12));
        break;
    case 6:
        edge_set(fix, other, "nothing", 100000);
        break;
    }
}

TEST(whatever_is_damaged_is_sound_after_repair)
{
    for (uint64_t seed = 1; seed <= (test_is_long() ? 1000 : 60); seed++) {
        struct fs_fix fix;
        struct rand rand;
        rand_init_seed(&rand, seed);
        fs_fix_init(&fix);
        random_tree(&fix, &rand);
        assert_sound(&fix);
        uint64_t count = 1 + rand_below(&rand, RANDOM_DAMAGES);
        for (uint64_t i = 0; i < count; i++)
            random_damage(&fix, &rand);
        if (rand_below(&rand, 2) == 0)
            kv_fix_freeze_out(&fix.kv);
        struct fs_check_result result = fs_fix_check(&fix, true);
        if (result.left > 0)
            test_fail(__FILE__, __LINE__, "seed %d: %d left", (int)seed, (int)result.left);
        fs_fix_turns(&fix);
        assert_sound(&fix);
        fs_fix_done(&fix);
    }
}

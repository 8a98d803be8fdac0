// SPDX-License-Identifier: Apache-2.0
/* test_damage.c - rows that no commit of ours has left so, and what must not follow from them. */
#include "models/fs/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/codec.h"
#include "support/fs_fix.h"
#include "test.h"

#include "base/banned.h"

static void edge_set(struct fs_fix *fix, uint64_t parent, struct bytes name, uint64_t child)
{
    uint8_t value[FS_ID_BYTES];
    be64_put(value, child);
    fs_fix_edge_put(fix, parent, name, child ? value : NULL, sizeof value);
}

static void entry_set(struct fs_fix *fix, uint64_t id, const struct fs_entry *entry)
{
    uint8_t value[FS_ENTRY_BYTES_MAX];
    fs_fix_inode_put(fix, id, value, fs_entry_encode(entry, value));
}

static uint64_t made_dir(struct fs_fix *fix, const char *path)
{
    uint64_t id;
    ASSERT_OK(fs_fix_mkdir(fix, path, &id), &fix->err);
    return id;
}

static uint64_t made_file(struct fs_fix *fix, const char *path)
{
    uint64_t id;
    ASSERT_OK(fs_fix_create(fix, path, &id), &fix->err);
    return id;
}

static void assert_sound(struct fs_fix *fix)
{
    struct fs_check_result result = fs_fix_check(fix, false);
    ASSERT_STR(result.example_count > 0 ? result.example[0] : "", "");
    ASSERT_EQ(result.problems, 0);
    ASSERT_EQ(result.counters, FS_COUNTERS_EXACT);
}

static void assert_heals(struct fs_fix *fix)
{
    ASSERT_GT(fs_fix_check(fix, false).problems, 0);
    ASSERT_EQ(fs_fix_check(fix, true).left, 0);
    assert_sound(fix);
}

static void assert_corrupt(struct fs_fix *fix, enum rc rc)
{
    ASSERT_RC(rc, RC_REPLY);
    ASSERT_EQ(strncmp(fix->err.text, "CORRUPT", 7), 0);
}

TEST(an_edge_below_what_can_be_no_inode_is_healed)
{
    const uint64_t above[] = {FS_ID_END, FS_ID_END + 5, FS_KEY_OWNERS, FS_KEY_GROUPS,
                              FS_KEY_NEXT_ID};
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++) {
        for (int own = 0; own < 2; own++) { /* it has its own edge as well, or has none */
            struct fs_fix fix;
            fs_fix_init(&fix);
            uint64_t id = made_file(&fix, "/d");
            if (!own)
                edge_set(&fix, FS_ID_ROOT, BYTES("d"), 0);
            edge_set(&fix, above[i], BYTES("d"), id);
            assert_heals(&fix);
            ASSERT_EQ(fs_fix_id(&fix, "/d"), id);
            ASSERT_EQ(made_file(&fix, "/next"), id + 1);
            fs_fix_done(&fix);
        }
    }
}

TEST(a_name_whose_inode_stands_elsewhere_is_told_and_takes_nothing_along)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    uint64_t a = made_file(&fix, "/a"), b = made_file(&fix, "/b");
    struct fs_entry entry = fs_fix_stat(&fix, "/a");
    entry.name = BYTES("b");
    entry_set(&fix, a, &entry);
    assert_corrupt(&fix, fs_fix_remove(&fix, "/a", false));
    assert_corrupt(&fix, fs_fix_remove(&fix, "/a", true));
    assert_corrupt(&fix, fs_fix_move(&fix, "/a", "/c"));
    ASSERT_EQ(fs_fix_id(&fix, "/b"), b);
    assert_heals(&fix);
    ASSERT_EQ(fs_fix_id(&fix, "/a"), a);
    ASSERT_EQ(fs_fix_id(&fix, "/b"), b);
    fs_fix_done(&fix);
}

TEST(a_grave_that_leads_to_the_living_takes_nobody_along)
{
    struct fs_fix fix;
    uint8_t name[FS_ID_BYTES];
    fs_fix_init(&fix);
    uint64_t d = made_dir(&fix, "/d"), f = made_file(&fix, "/d/f");
    (void)made_dir(&fix, "/r/below");
    be64_put(name, d);
    edge_set(&fix, FS_ID_GRAVEYARD, bytes_of(name, sizeof name), d);
    ASSERT_OK(fs_fix_remove(&fix, "/r", true), &fix.err); /* the sweep has something to do */
    fs_fix_turns(&fix);
    ASSERT_EQ(fs_fix_id(&fix, "/d"), d);
    ASSERT_EQ(fs_fix_id(&fix, "/d/f"), f);
    ASSERT_EQ(fs_fix_check(&fix, true).left, 0);
    assert_sound(&fix);
    fs_fix_done(&fix);
}

/* The last of a page, where a walk goes on from; and above something, so that it becomes a grave.
 */
TEST(an_edge_with_a_name_that_is_too_long_stops_neither_walks_nor_the_sweep)
{
    struct fs_fix fix;
    struct fs_answer answer;
    struct fs_query query = {.kind = FS_QUERY_DU, .path = BYTES("/d"), .pattern = BYTES("")};
    uint8_t name[FS_NAME_BYTES_MAX + 100];
    char path[32];
    fs_fix_init(&fix);
    uint64_t d = made_dir(&fix, "/d"), lost = made_dir(&fix, "/lost");
    for (int i = 0; i < FS_DIR_PAGE_ITEMS - 1; i++) {
        snprintf(path, sizeof path, "/d/%03d", i);
        (void)made_file(&fix, path);
    }
    (void)made_file(&fix, "/d/zz");
    (void)made_file(&fix, "/lost/f");
    memset(name, 'x', sizeof name);
    edge_set(&fix, FS_ID_ROOT, BYTES("lost"), 0);
    fs_fix_inode_put(&fix, lost, NULL, 0);
    edge_set(&fix, d, bytes_of(name, sizeof name), lost);
    enum rc rc = fs_fix_query(&fix, &query, &answer);
    fs_answer_done(&answer);
    assert_corrupt(&fix, rc);
    ASSERT_OK(fs_fix_remove(&fix, "/d", true), &fix.err);
    fs_fix_turns(&fix);
    ASSERT_EQ(fs_counts(fix.fs).graves, 0);
    ASSERT_EQ(fs_fix_check(&fix, true).left, 0);
    ASSERT_EQ(fs_counts(fix.fs).files, 0);
    assert_sound(&fix);
    fs_fix_done(&fix);
}

TEST(a_root_whose_owner_is_not_known_is_healed)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    (void)made_file(&fix, "/f");
    ASSERT_OK(fs_fix_chown(&fix, "/", "alice"), &fix.err);
    fs_fix_inode_put(&fix, FS_KEY_OWNERS, NULL, 0);
    ASSERT_EQ(fs_fix_id(&fix, "/"), 0);
    assert_heals(&fix);
    ASSERT_EQ(fs_fix_id(&fix, "/"), FS_ID_ROOT);
    fs_fix_done(&fix);
}

TEST(a_root_that_was_changed_before_there_was_a_file_is_sound)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    ASSERT_OK(fs_fix_chown(&fix, "/", "alice"), &fix.err);
    assert_sound(&fix);
    fs_fix_done(&fix);
}

TEST(ids_are_not_used_twice_when_their_row_is_lost)
{
    for (int reopened = 0; reopened < 2; reopened++) {
        struct fs_fix fix;
        fs_fix_init(&fix);
        uint64_t id = made_file(&fix, "/f");
        fs_fix_inode_put(&fix, FS_KEY_NEXT_ID, NULL, 0);
        if (reopened)
            fs_fix_reopen(&fix);
        assert_corrupt(&fix, fs_fix_create(&fix, "/g", NULL));
        ASSERT_EQ(fs_fix_id(&fix, "/f"), id);
        assert_heals(&fix);
        ASSERT_GT(made_file(&fix, "/g"), id);
        ASSERT_EQ(fs_fix_id(&fix, "/f"), id);
        fs_fix_done(&fix);
    }
}

/* ---- ids that were not given ---- */

enum { FAR_STRAY, FAR_FLIPPED_FILE, FAR_FLIPPED_DIR, FAR_WITH_EDGE, FAR_WITH_CHILDREN, FAR_KINDS };

/* /d, /d/e, /d/e/f and /d/g are there. */
static void far_damage(struct fs_fix *fix, int kind, uint64_t far)
{
    uint64_t e = fs_fix_id(fix, "/d/e"), g = fs_fix_id(fix, "/d/g");
    struct fs_entry entry = fs_fix_stat(fix, kind == FAR_FLIPPED_FILE ? "/d/g" : "/d/e");
    entry.name = kind == FAR_FLIPPED_FILE ? BYTES("g") : BYTES("e");
    if (kind == FAR_STRAY)
        entry = (struct fs_entry){.parent = fs_fix_id(fix, "/d"), .size = 3, .name = BYTES("x")};
    else
        fs_fix_inode_put(fix, kind == FAR_FLIPPED_FILE ? g : e, NULL, 0);
    if (kind == FAR_WITH_EDGE || kind == FAR_WITH_CHILDREN)
        edge_set(fix, entry.parent, entry.name, far);
    entry_set(fix, far, &entry);
    if (kind != FAR_WITH_CHILDREN)
        return;
    entry = fs_fix_stat(fix, "/d/g");
    entry.parent = far;
    entry.name = BYTES("g");
    edge_set(fix, far, BYTES("g"), g);
    edge_set(fix, fs_fix_id(fix, "/d"), BYTES("g"), 0);
    entry_set(fix, g, &entry);
}

static void far_try(int kind, uint64_t far, bool next_id_is_lost)
{
    struct fs_fix fix;
    char path[32];
    fs_fix_init(&fix);
    uint64_t e = made_dir(&fix, "/d/e"), f = made_file(&fix, "/d/e/f"), g = made_file(&fix, "/d/g");
    ASSERT_OK(fs_fix_resize(&fix, "/d/g", 5), &fix.err);
    far_damage(&fix, kind, far);
    if (next_id_is_lost)
        fs_fix_inode_put(&fix, FS_KEY_NEXT_ID, NULL, 0);
    assert_heals(&fix);
    snprintf(path, sizeof path, "%" PRIu64, far);
    ASSERT_EQ(fs_fix_id(&fix, path), 0);
    snprintf(path, sizeof path, "%" PRIu64, f); /* nothing is lost, wherever it is */
    ASSERT_EQ(fs_fix_id(&fix, path), f);
    snprintf(path, sizeof path, "%" PRIu64, g);
    ASSERT_EQ(fs_fix_stat(&fix, path).size, 5);
    if (kind == FAR_STRAY)
        ASSERT_EQ(fs_fix_stat(&fix, "/d/x").size, 3);
    if (kind == FAR_STRAY || kind == FAR_FLIPPED_DIR || kind == FAR_FLIPPED_FILE) {
        ASSERT_EQ(fs_fix_id(&fix, "/d/e"), e);
        ASSERT_EQ(fs_fix_id(&fix, "/d/e/f"), f);
        ASSERT_EQ(fs_fix_id(&fix, "/d/g"), g);
    }
    uint64_t id = made_file(&fix, "/new");
    ASSERT_GT(id, g);
    ASSERT_LT(id, 10 * 1000);
    fs_fix_done(&fix);
}

TEST(an_inode_far_above_the_ids_that_were_given_does_not_use_them_up)
{
    const uint64_t far[] = {FS_ID_END - 1, FS_ID_END / 2, FS_ID_GAP + 5000};
    for (int kind = 0; kind < FAR_KINDS; kind++)
        for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
            for (int lost = 0; lost < 2; lost++)
                far_try(kind, far[i], lost);
}

/* next_id is behind, as after a lost write: those that are near are believed. */
TEST(an_inode_near_next_id_keeps_its_id)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    uint64_t f = made_file(&fix, "/f"), near = f + FS_ID_GAP / 2;
    struct fs_entry entry = {.parent = FS_ID_ROOT, .size = 3, .name = BYTES("x")};
    entry_set(&fix, near, &entry);
    edge_set(&fix, FS_ID_ROOT, BYTES("x"), near);
    assert_heals(&fix);
    ASSERT_EQ(fs_fix_id(&fix, "/x"), near);
    ASSERT_EQ(made_file(&fix, "/new"), near + 1);
    fs_fix_done(&fix);
}

TEST(sizes_that_cannot_be_summed_stop_no_sweep)
{
    struct fs_fix fix;
    char path[32];
    fs_fix_init(&fix);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "/d/%d", i);
        (void)made_dir(&fix, "/d");
        uint64_t id = made_file(&fix, path);
        struct fs_entry entry = fs_fix_stat(&fix, path);
        entry.block_size = FS_BLOCK_BYTES_MAX;
        entry.size = FS_BLOCK_BYTES_MAX * FS_BLOCKS_MAX;
        entry_set(&fix, id, &entry);
    }
    ASSERT_EQ(fs_fix_check(&fix, true).left, 0);
    ASSERT_OK(fs_fix_remove(&fix, "/d/0", false), &fix.err);
    ASSERT_OK(fs_fix_remove(&fix, "/d", true), &fix.err);
    fs_fix_turns(&fix);
    ASSERT_EQ(fs_counts(fix.fs).graves, 0);
    ASSERT_EQ(fs_counts(fix.fs).bytes, 0);
    assert_sound(&fix);
    fs_fix_done(&fix);
}

TEST(names_stay_when_more_is_damaged_than_one_reading_keeps)
{
    struct fs_fix fix;
    char path[32];
    uint64_t id = 0;
    fs_fix_init(&fix);
    (void)made_dir(&fix, "/d");
    for (int i = 0; i <= FS_CHECK_FINDINGS_MAX; i++) {
        snprintf(path, sizeof path, "/d/%d", i);
        id = made_file(&fix, path);
        fs_fix_inode_put(&fix, id, "short", 5);
    }
    fs_fix_inode_put(&fix, FS_KEY_NEXT_ID, "short", 5);
    assert_heals(&fix);
    struct fs_counts counts = fs_counts(fix.fs);
    ASSERT_EQ(counts.files, FS_CHECK_FINDINGS_MAX + 1);
    ASSERT_EQ(counts.dirs, 1);
    ASSERT_EQ(fs_fix_id(&fix, path), id);
    fs_fix_done(&fix);
}

TEST(totals_of_a_view_are_those_of_a_commit_where_two_edges_lead_to_one_inode)
{
    struct fs_fix fix;
    struct fs_answer answer;
    struct fs_query query = {.kind = FS_QUERY_DU, .path = BYTES("/"), .pattern = BYTES("")};
    fs_fix_init(&fix);
    for (int i = 0; i < 6; i++) {
        char path[2][32];
        snprintf(path[0], sizeof path[0], "/%d", i);
        uint64_t id = made_file(&fix, path[0]);
        ASSERT_OK(fs_fix_resize(&fix, path[0], 10), &fix.err);
        if (i == 2)
            edge_set(&fix, FS_ID_ROOT, BYTES("z"), id);
    }
    ASSERT_OK(fs_fix_query(&fix, &query, &answer), &fix.err);
    ASSERT_EQ(answer.totals.files, 7);
    ASSERT_EQ(answer.totals.bytes, 70);
    fs_answer_done(&answer);
    assert_heals(&fix);
    fs_fix_done(&fix);
}

/* ---- while others write ---- */

struct writer {
    struct task task;
    struct fs_fix *fix;
    uint64_t count;
    bool stopped;
};

static enum rc writer_run(struct task *task, struct store *store, struct err *err)
{
    struct writer *writer = (struct writer *)task;
    struct fs_attrs attrs = {.now_ms = 1, .block_size = FS_BLOCK_BYTES_DEFAULT};
    char path[32];
    uint64_t id;
    (void)store;
    if (writer->stopped)
        return RC_OK;
    snprintf(path, sizeof path, "/w%" PRIu64, writer->count);
    enum rc rc =
        fs_create(writer->fix->fs, bytes_of(path, strlen(path)), &attrs, &id, &writer->fix->err);
    if (rc != RC_OK)
        return rc == RC_COLD ? rc : err_set(err, rc, "%s", writer->fix->err.text);
    writer->count++;
    return RC_WAIT;
}

static void writer_done(struct task *task, enum rc rc, const struct err *err)
{
    (void)task;
    ASSERT_OK(rc, err);
}

TEST(counters_are_compared_and_repaired_while_others_write)
{
    struct fs_fix fix;
    fs_fix_init(&fix);
    uint64_t id = made_file(&fix, "/gone");
    ASSERT_OK(fs_fix_resize(&fix, "/gone", 10), &fix.err);
    fs_fix_inode_put(&fix, id, NULL, 0); /* it goes, and is not counted */
    edge_set(&fix, FS_ID_ROOT, BYTES("gone"), 0);
    struct writer writer = {.task = {.run = writer_run, .done = writer_done, .flags = TASK_WRITES},
                            .fix = &fix};
    task_start(fix.tasks, &writer.task);
    ASSERT_EQ(fs_fix_check(&fix, false).counters, FS_COUNTERS_WRONG);
    ASSERT_EQ(fs_fix_check(&fix, true).counters, FS_COUNTERS_REPAIRED);
    uint64_t before = writer.count;
    ASSERT_EQ(fs_fix_check(&fix, false).counters, FS_COUNTERS_EXACT);
    ASSERT_GT(writer.count, before);
    writer.stopped = true;
    fs_fix_turns(&fix);
    ASSERT_EQ(fs_counts(fix.fs).files, writer.count);
    ASSERT_EQ(fs_counts(fix.fs).bytes, 0);
    fs_fix_done(&fix);
}

/* ---- any bytes ---- */

enum { ANY_INODES = 30, ANY_DAMAGES = 5 };

static uint64_t any_id(struct rand *rand)
{
    static const uint64_t odd[] = {FS_ID_GRAVEYARD, FS_ID_ROOT,     FS_ID_END,      FS_KEY_OWNERS,
                                   FS_KEY_GROUPS,   FS_KEY_NEXT_ID, FS_ID_END << 1, ANY_INODES + 1,
                                   1000 * 1000,     FS_ID_END - 1,  FS_ID_END / 2,  FS_ID_GAP};
    if (rand_below(rand, 4) == 0)
        return odd[rand_below(rand, sizeof odd / sizeof odd[0])];
    return FS_ID_FIRST + rand_below(rand, ANY_INODES);
}

static void any_damage(struct fs_fix *fix, struct rand *rand)
{
    uint8_t bytes[FS_ENTRY_HEAD_BYTES + 8], name[FS_ID_BYTES];
    size_t len = rand_below(rand, sizeof bytes + 1);
    uint64_t id = any_id(rand), child = any_id(rand);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(rand_below(rand, 3) == 0 ? rand_below(rand, 256) : 0);
    if (rand_below(rand, 2) == 0) { /* an entry that can be read */
        le64_put(bytes, child);
        memset(bytes + 8, 0, FS_ENTRY_HEAD_BYTES - 8);
        bytes[44] = (uint8_t)rand_below(rand, 4);
        bytes[FS_ENTRY_HEAD_BYTES] = 'n';
        len = FS_ENTRY_HEAD_BYTES + 1;
    }
    if (rand_below(rand, 2) == 0) {
        fs_fix_inode_put(fix, id, rand_below(rand, 4) == 0 ? NULL : bytes, len);
        return;
    }
    be64_put(name, child);
    if (rand_below(rand, 2) == 0 && child >= FS_ID_FIRST && child < FS_ID_END)
        fs_fix_inode_put(fix, child, bytes, len);
    switch (rand_below(rand, 3)) {
    case 0:
        edge_set(fix, id, bytes_of(name, sizeof name), child);
        break;
    case 1:
        edge_set(fix, id, BYTES("n"), child);
        break;
    case 2:
        fs_fix_edge_put(fix, id, BYTES("f0"), rand_below(rand, 2) ? bytes : NULL, len);
        break;
    }
}

static void any_tree(struct fs_fix *fix, struct rand *rand)
{
    char dir[ANY_INODES][160] = {""};
    size_t count = 1;
    for (int i = 0; i < ANY_INODES; i++) {
        char path[160];
        snprintf(path, sizeof path, "%.140s/%s%d", dir[rand_below(rand, count)], i % 2 ? "f" : "d",
                 i);
        if (i % 2) {
            (void)made_file(fix, path);
        } else {
            (void)made_dir(fix, path);
            snprintf(dir[count++], sizeof dir[0], "%s", path);
        }
    }
    ASSERT_OK(fs_fix_chown(fix, "/d0", "alice"), &fix->err);
}

TEST(whatever_bytes_stand_in_the_rows_one_repair_is_enough)
{
    for (uint64_t seed = 1; seed <= (test_is_long() ? 5000 : 200); seed++) {
        struct fs_fix fix;
        struct rand rand;
        rand_init_seed(&rand, seed);
        fs_fix_init(&fix);
        any_tree(&fix, &rand);
        for (uint64_t i = 0; i <= rand_below(&rand, ANY_DAMAGES); i++)
            any_damage(&fix, &rand);
        if (rand_below(&rand, 2) == 0)
            fs_fix_turns(&fix);
        struct fs_check_result first = fs_fix_check(&fix, true), second = fs_fix_check(&fix, true);
        if (second.repaired > 0 || second.problems != first.left)
            test_fail(__FILE__, __LINE__, "seed %d: %s", (int)seed, second.example[0]);
        fs_fix_turns(&fix);
        ASSERT_EQ(fs_counts(fix.fs).graves, 0);
        fs_fix_done(&fix);
    }
}

// SPDX-License-Identifier: Apache-2.0
/* test_shard_damage.c - LMDB shards with damage anywhere: never a signal, always an error or what
 * was there. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/rand.h"
#include "test.h"
#include "models/tile/shard.h"

#include "base/banned.h"

enum {
    KEYS = 90,
    NEW_KEYS = 40,
    DATA_BYTES_MAX = 9000,
    PAGE = 4096,
    CHILD_MUTATIONS = 250,
    RANDOM_MUTATIONS = 3000,
    WRONG_TILES_MAX = 2, /* a byte of a tile is wrong in that tile, one of a key makes it another */
};

struct fix {
    char path[PATH_BYTES_MAX];
    struct buf whole;
    struct rand rand;
    bool there[KEYS];
    uint8_t data[KEYS][DATA_BYTES_MAX];
    size_t len[KEYS];
};

static const struct shard_table table = {.name = "imagery", .kind = TILE_PLAIN};
static const struct shard_seen never = {0};

static struct tilekey key_of(size_t i)
{
    char text[TILEKEY_TEXT_BYTES];
    struct tilekey key = {0};
    struct err err;
    for (int d = 0; d < 8; d++)
        text[d] = (char)('0' + (i >> (2 * d)) % 4);
    ASSERT_RC(tilekey_parse(bytes_of(text, 8), &key.packed, &err), RC_OK);
    return key;
}

/* Opens it; NULL: that was refused. */
static struct shard *shard_open(const struct fix *fix, enum shard_open how)
{
    struct shard *shard = NULL;
    struct err err = {0};
    return shard_lmdb_ops.open(fix->path, &table, how, &never, &shard, &err) == RC_OK ? shard
                                                                                      : NULL;
}

static enum rc changes_apply(struct shard *shard, const struct shard_change *change, size_t count)
{
    const struct shard_change *list[KEYS + NEW_KEYS];
    struct err err = {0};
    for (size_t i = 0; i < count; i++)
        list[i] = &change[i];
    return shard_lmdb_ops.apply(shard, list, count, &err);
}

/* Several commits with tiles of all sizes, some of them replaced and some deleted: there are a
 * branch, leaves, long values and a free list. */
static void fix_init(struct fix *fix, uint64_t seed)
{
    struct err err = {0};
    rand_init_seed(&fix->rand, seed);
    snprintf(fix->path, sizeof fix->path, "%s/shard", test_memory_dir());
    struct shard *shard = shard_open(fix, SHARD_WRITE);
    ASSERT_TRUE(shard != NULL);
    for (int commit = 0; commit < 5; commit++) {
        struct shard_change change[KEYS];
        size_t count = 0;
        for (size_t i = 0; i < KEYS; i++) {
            if (commit > 0 && rand_below(&fix->rand, 4) > 0)
                continue;
            bool removed = commit > 0 && rand_below(&fix->rand, 4) == 0;
            fix->len[i] = rand_below(&fix->rand, i % 2 ? 400 : DATA_BYTES_MAX);
            for (size_t b = 0; b < fix->len[i]; b++)
                fix->data[i][b] = (uint8_t)rand_below(&fix->rand, 256);
            fix->there[i] = !removed;
            change[count++] =
                (struct shard_change){.key = key_of(i),
                                      .removed = removed,
                                      .value = {.data = bytes_of(fix->data[i], fix->len[i])}};
        }
        ASSERT_RC(changes_apply(shard, change, count), RC_OK);
    }
    shard_lmdb_ops.close(shard);
    buf_init(&fix->whole, 1 << 26);
    ASSERT_OK(files_read_all((struct files *)&files_real, fix->path, &fix->whole, &err), &err);
}

static bool count_row(void *arg, const struct tile_scan_row *row)
{
    (void)row;
    ++*(size_t *)arg;
    return true;
}

/* How many tiles are answered, and answered wrongly. */
static size_t tiles_read(const struct fix *fix, struct shard *shard)
{
    struct err err = {0};
    size_t wrong = 0, rows = 0;
    struct buf row;
    struct tilekey found;
    buf_init(&row, 1 << 26);
    for (size_t i = 0; i < KEYS; i++) {
        buf_cut(&row, 0);
        enum rc rc = shard_lmdb_ops.get(shard, key_of(i), false, &row, &found, &err);
        struct bytes data = row.len >= 2 ? bytes_from(buf_bytes(&row), 2) : buf_bytes(&row);
        if (rc == RC_OK)
            wrong += !fix->there[i] || !bytes_eq(data, bytes_of(fix->data[i], fix->len[i]));
        else if (rc == RC_NOT_FOUND)
            wrong += fix->there[i];
    }
    struct shard_range all = {.to = {.packed = UINT64_MAX},
                              .level_to = TILE_LEVEL_MAX,
                              .ms_to = TILE_MS_MAX,
                              .status = -1,
                              .bytes = true};
    struct shard_look look[2] = {{.key = key_of(1)}, {.key = key_of(KEYS)}};
    struct shard_count count;
    (void)shard_lmdb_ops.scan(shard, &all, count_row, &rows, &err);
    (void)shard_lmdb_ops.count(shard, &all, look, ARRAY_LEN(look), &count, &err);
    buf_done(&row);
    return wrong;
}

/* Replaces, removes and adds tiles, as much as splits and merges pages and uses the free list. */
static void tiles_write(struct fix *fix, struct shard *shard)
{
    struct shard_change change[KEYS + NEW_KEYS];
    for (size_t i = 0; i < KEYS + NEW_KEYS; i++)
        change[i] = (struct shard_change){
            .key = key_of(i),
            .removed = i % 3 == 0,
            .value = {.data = bytes_of(fix->data[i % KEYS], 50 + 97 * i % (DATA_BYTES_MAX - 50))}};
    if (changes_apply(shard, change, KEYS) == RC_OK)
        (void)changes_apply(shard, change + KEYS, NEW_KEYS);
    for (size_t i = 0; i < KEYS; i++)
        change[i].removed = true;
    (void)changes_apply(shard, change, KEYS);
}

/* False: more tiles are wrong than one byte can make so. */
static bool shard_is_used(struct fix *fix)
{
    struct err err = {0};
    bool damaged = false;
    size_t wrong = 0;
    struct shard *shard = shard_open(fix, SHARD_READ);
    if (shard)
        wrong = tiles_read(fix, shard);
    shard_lmdb_ops.close(shard);
    shard = shard_open(fix, SHARD_WRITE);
    if (shard)
        tiles_write(fix, shard);
    shard_lmdb_ops.close(shard);
    (void)shard_lmdb_ops.prove(fix->path, &table, &damaged, &err);
    return wrong <= WRONG_TILES_MAX;
}

static void shard_write_file(const struct fix *fix, struct bytes bytes)
{
    FILE *file = fopen(fix->path, "we");
    ASSERT_TRUE(file != NULL);
    ASSERT_EQ(fwrite(bytes.ptr, 1, bytes.len, file), bytes.len);
    ASSERT_EQ(fclose(file), 0);
}

struct mutation {
    size_t at;
    uint8_t flip; /* 0: the page `at` is lost: it has what page `from` has */
    size_t from;  /* SIZE_MAX: zeros, SIZE_MAX - 1: anything */
};

static void mutation_make(struct fix *fix, const struct mutation *now, uint8_t kept[PAGE])
{
    uint8_t *page = fix->whole.ptr + now->at * PAGE;
    if (now->flip) {
        fix->whole.ptr[now->at] ^= now->flip;
        return;
    }
    memcpy(kept, page, PAGE);
    if (now->from < SIZE_MAX - 1)
        memmove(page, fix->whole.ptr + now->from * PAGE, PAGE);
    for (size_t i = 0; i < PAGE && now->from >= SIZE_MAX - 1; i++)
        page[i] = now->from == SIZE_MAX ? 0 : (uint8_t)rand_below(&fix->rand, 256);
}

static void mutation_undo(struct fix *fix, const struct mutation *now, const uint8_t kept[PAGE])
{
    if (now->flip)
        fix->whole.ptr[now->at] ^= now->flip;
    else
        memcpy(fix->whole.ptr + now->at * PAGE, kept, PAGE);
}

/* In a child, so that a signal is this test's failure and says where. */
static void mutations_run(struct fix *fix, const struct mutation *mutation, size_t count)
{
    size_t *done = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t kept[PAGE];
    ASSERT_TRUE(done != MAP_FAILED);
    for (size_t first = 0; first < count; first += CHILD_MUTATIONS) {
        pid_t child = fork();
        ASSERT_TRUE(child >= 0);
        if (child == 0) {
            for (*done = first; *done < count && *done < first + CHILD_MUTATIONS; ++*done) {
                const struct mutation *now = &mutation[*done];
                mutation_make(fix, now, kept);
                shard_write_file(fix, buf_bytes(&fix->whole));
                mutation_undo(fix, now, kept);
                if (!shard_is_used(fix))
                    _exit(1);
            }
            _exit(0);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        if (status != 0) {
            const struct mutation *bad = &mutation[*done];
            fprintf(stderr, "status %d: at %zu (%zu, %zu) flip %02x from %zu\n", status, bad->at,
                    bad->at / PAGE, bad->at % PAGE, bad->flip, bad->from);
        }
        ASSERT_EQ(status, 0);
    }
    munmap(done, PAGE);
}

static struct mutation flip_at(size_t at, unsigned flip)
{
    return (struct mutation){.at = at, .flip = (uint8_t)flip};
}

/* The headers of all pages, bit by bit, and bytes anywhere. */
TEST(no_flipped_byte_of_a_kv_shard_is_a_signal_or_more_than_two_wrong_tiles)
{
    struct fix *fix = mem_zalloc(sizeof *fix);
    fix_init(fix, 11);
    size_t pages = fix->whole.len / PAGE, count = 0;
    struct mutation *mutation =
        mem_alloc((pages * 64 + 4096 + RANDOM_MUTATIONS) * sizeof *mutation);
    for (size_t page = 0; page < pages; page++)
        for (size_t i = 0; i < 16; i++)
            mutation[count++] = flip_at(page * PAGE + i, 1u << rand_below(&fix->rand, 8));
    for (size_t page = 0; page < 2; page++)
        for (size_t i = 0; i < 136; i++)
            for (unsigned flip = 1; flip < 256; flip <<= 2)
                mutation[count++] = flip_at(page * PAGE + 16 + i, flip);
    for (size_t i = 0; i < RANDOM_MUTATIONS; i++) {
        size_t at = rand_below(&fix->rand, fix->whole.len);
        mutation[count++] = flip_at(at, 1 + (unsigned)rand_below(&fix->rand, 255));
    }
    mutations_run(fix, mutation, count);
    mem_free(mutation);
    buf_done(&fix->whole);
    mem_free(fix);
}

/* The pages of trees, where a byte decides where LMDB goes: all of it. */
TEST(no_flipped_byte_of_a_tree_is_a_signal_or_more_than_two_wrong_tiles)
{
    struct fix *fix = mem_zalloc(sizeof *fix);
    fix_init(fix, 12);
    size_t pages = fix->whole.len / PAGE, count = 0;
    struct mutation *mutation = mem_alloc(fix->whole.len * sizeof *mutation);
    for (size_t page = 2; page < pages; page++) {
        const uint8_t *at = fix->whole.ptr + page * PAGE;
        uint16_t flags = le16_get(at + 10), lower = le16_get(at + 12);
        if (le64_get(at) != page || (flags != 1 && flags != 2) || lower > PAGE)
            continue;
        for (size_t i = 16; i < lower; i++)
            mutation[count++] = flip_at(page * PAGE + i, 1 + (unsigned)rand_below(&fix->rand, 255));
        for (size_t n = 16; n < lower; n += 2) {
            size_t node = le16_get(at + n);
            for (size_t i = node; i < node + 24 && i < PAGE; i++)
                mutation[count++] = flip_at(page * PAGE + i, 1u << rand_below(&fix->rand, 8));
        }
    }
    ASSERT_GT(count, 1000);
    mutations_run(fix, mutation, count);
    mem_free(mutation);
    buf_done(&fix->whole);
    mem_free(fix);
}

/* As a disk does it: a page is zeros, or garbage, or another page. Tiles are wrong where it was a
 * page of a long one; where it was a page of a tree that is found. */
TEST(no_lost_page_of_a_kv_shard_is_a_signal_or_more_than_two_wrong_tiles)
{
    struct fix *fix = mem_zalloc(sizeof *fix);
    fix_init(fix, 14);
    size_t pages = fix->whole.len / PAGE, count = 0;
    struct mutation *mutation = mem_alloc(pages * 6 * sizeof *mutation);
    for (size_t page = 0; page < pages; page++) {
        mutation[count++] = (struct mutation){.at = page, .from = SIZE_MAX};
        mutation[count++] = (struct mutation){.at = page, .from = SIZE_MAX - 1};
        for (int i = 0; i < 4; i++)
            mutation[count++] =
                (struct mutation){.at = page, .from = rand_below(&fix->rand, pages)};
    }
    mutations_run(fix, mutation, count);
    mem_free(mutation);
    buf_done(&fix->whole);
    mem_free(fix);
}

/* A whole shard is whole: what the tests above allow is not what they always see. */
TEST(a_shard_without_damage_is_read_and_written)
{
    struct fix *fix = mem_zalloc(sizeof *fix);
    fix_init(fix, 13);
    struct shard *shard = shard_open(fix, SHARD_READ);
    ASSERT_TRUE(shard != NULL);
    ASSERT_EQ(tiles_read(fix, shard), 0);
    shard_lmdb_ops.close(shard);
    shard = shard_open(fix, SHARD_WRITE);
    ASSERT_TRUE(shard != NULL);
    tiles_write(fix, shard);
    shard_lmdb_ops.close(shard);
    bool damaged = true;
    struct err err = {0};
    ASSERT_OK(shard_lmdb_ops.prove(fix->path, &table, &damaged, &err), &err);
    ASSERT_FALSE(damaged);
    buf_done(&fix->whole);
    mem_free(fix);
}

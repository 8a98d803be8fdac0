// SPDX-License-Identifier: Apache-2.0
/* test_dirs.c - directories that are not as they should be: damaged, mixed up, foreign, without
 * rights, in use, full. The store opens with everything before a torn tail, or says what is wrong,
 * where, and what to do. It never serves a wrong row. */
#include <stdio.h>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "store/testing.h"
#include "store/turns.h"
#include "support_world.h"
#include "test.h"

#include "base/banned.h"

enum { FILES_MAX = 64, TURNS_BEFORE = 6, TURNS_AFTER = 16 };

/* ---- a journal that can be put back ---- */

struct disk_file {
    char path[256];
    struct buf content;
};

/* A store of some turns, flushed and not, whose process has ended. */
struct disk {
    struct world world;
    struct disk_file file[FILES_MAX];
    size_t file_count;
    /* where each turn that is not flushed ends */
    uint64_t turn_segment[WORLD_TURNS_MAX];
    uint64_t turn_end[WORLD_TURNS_MAX];
    struct world_state *history; /* as it was at the end */
    size_t history_count;
};

static struct files *disk_files(struct disk *disk)
{
    return file_sim_files(disk->world.sim);
}

static enum rc file_keep(const char *name, void *arg, struct err *err)
{
    struct disk *disk = arg;
    uint64_t number;
    if (segment_name_parse(name, &number) != RC_OK)
        return RC_OK; /* the record: frames alone say what was synced */
    ASSERT_LT(disk->file_count, FILES_MAX);
    struct disk_file *file = &disk->file[disk->file_count++];
    snprintf(file->path, sizeof file->path, "db/journal/%s", name);
    buf_init(&file->content, SIZE_MAX);
    return files_read_all(disk_files(disk), file->path, &file->content, err);
}

static enum rc file_remove(const char *name, void *arg, struct err *err)
{
    char path[256];
    struct disk *disk = arg;
    snprintf(path, sizeof path, "db/journal/%s", name);
    return files_remove(disk_files(disk), path, err);
}

/* As it was, the journal and nothing else; history is complete again. */
static void disk_restore(struct disk *disk)
{
    struct err err = {0};
    struct world *world = &disk->world;
    if (world->store)
        world_process_end(world);
    ASSERT_OK(files_list(disk_files(disk), "db/journal", file_remove, disk, &err), &err);
    for (size_t i = 0; i < disk->file_count; i++)
        ASSERT_OK(files_replace(disk_files(disk), disk->file[i].path,
                                buf_bytes(&disk->file[i].content), &err),
                  &err);
    memcpy(world->history, disk->history, disk->history_count * sizeof *disk->history);
    world->history_count = disk->history_count;
    world->acked = world->history[world->history_count - 1];
}

static void disk_turn(struct disk *disk, uint64_t seed)
{
    struct store_stats before, after;
    struct world *world = &disk->world;
    store_stats(world->store, &before);
    size_t count = world->history_count;
    world_turn(world, seed);
    store_stats(world->store, &after);
    if (world->history_count == count)
        return;
    disk->turn_segment[count] = before.journal.segment_number;
    disk->turn_end[count] =
        before.journal.segment_bytes + after.journal.byte_count - before.journal.byte_count;
}

static void disk_init(struct disk *disk, uint64_t seed)
{
    struct err err = {0};
    struct world *world = &disk->world;
    *disk = (struct disk){0};
    world_init(world, DURABILITY_EVERYSEC);
    world->small = true;
    ASSERT_TRUE(world_open(world));
    for (int i = 0; i < TURNS_BEFORE; i++)
        disk_turn(disk, seed + (uint64_t)i);
    world_flush(world);
    for (int i = 0; i < TURNS_AFTER; i++) {
        disk_turn(disk, seed + 100 + (uint64_t)i);
        if (i % 5 == 4) { /* a segment ends, in a sync; others are synced in the middle */
            store_sync_ask(world->store);
            world_steps(world, STORE_STEP_JOURNAL, 3);
            (void)store_flush_ask(world->store);
            store_poll(world->store);
        } else if (i % 3 == 1) {
            store_sync_ask(world->store);
            world_steps(world, STORE_STEP_JOURNAL, 2);
        }
    }
    world_process_end(world);
    ASSERT_OK(files_list(disk_files(disk), "db/journal", file_keep, disk, &err), &err);
    disk->history_count = world->history_count;
    disk->history = mem_dup(world->history, world->history_count * sizeof *world->history);
}

static void disk_done(struct disk *disk)
{
    for (size_t i = 0; i < disk->file_count; i++)
        buf_done(&disk->file[i].content);
    mem_free(disk->history);
    world_done(&disk->world);
}

static uint64_t file_number(const struct disk_file *file)
{
    uint64_t number = 0;
    const char *name = strrchr(file->path, '/') + 1;
    ASSERT_OK(segment_name_parse(name, &number), &(struct err){0});
    return number;
}

/* ---- opening what is damaged ---- */

/* The text names the file, the place and what to do. */
static void refusal_check(const struct err *err, const char *path)
{
    if (path)
        ASSERT_TRUE(strstr(err->text, path));
    ASSERT_TRUE(strstr(err->text, "at offset "));
    ASSERT_TRUE(strstr(err->text, "terrace repair db"));
}

/* Opens. What is there is a state that was acknowledged, at least the first `turn_min` turns.
 * False: it was refused, with the text that is asked for. */
static bool open_checked(struct disk *disk, const char *path, uint32_t turn_min)
{
    struct world *world = &disk->world;
    struct err err = {0};
    enum rc rc = world_try(world, &err);
    if (rc == RC_OK) {
        world_settle(world, 0);
        ASSERT_GE(world->acked.turn, turn_min);
        world_check(world);
        return true;
    }
    if (rc == RC_VERSION) { /* a changed version or feature field */
        ASSERT_TRUE(strstr(err.text, path));
        return false;
    }
    ASSERT_RC(rc, RC_CORRUPT);
    refusal_check(&err, NULL);
    return false;
}

/* The last turn that ends before this place of this segment. */
static uint32_t turn_before(const struct disk *disk, uint64_t segment, uint64_t offset)
{
    uint32_t turn = 0;
    for (size_t i = 1; i < disk->history_count; i++) {
        bool before = disk->turn_segment[i] < segment ||
                      (disk->turn_segment[i] == segment && disk->turn_end[i] <= offset);
        if (before)
            turn = disk->history[i].turn;
    }
    return turn;
}

/* Something was changed in a file at this offset. */
static bool try_changed(struct disk *disk, size_t index, uint64_t offset, struct bytes content)
{
    struct err err = {0};
    const struct disk_file *file = &disk->file[index];
    ASSERT_OK(files_replace(disk_files(disk), file->path, content, &err), &err);
    bool opened = open_checked(disk, file->path, turn_before(disk, file_number(file), offset));
    disk_restore(disk);
    return opened;
}

TEST(any_flipped_byte_is_a_torn_tail_or_a_refusal)
{
    struct disk disk;
    uint64_t opened = 0, refused = 0;
    disk_init(&disk, 100);
    ASSERT_GE(disk.file_count, 3);
    for (size_t i = 0; i < disk.file_count; i++) {
        CLEANUP(buf_done) struct buf bytes;
        buf_init(&bytes, SIZE_MAX);
        ASSERT_TRUE(buf_add_bytes(&bytes, buf_bytes(&disk.file[i].content)));
        for (size_t at = 0; at < bytes.len; at++) {
            for (int bit = 0; bit < 8; bit++) {
                if (!test_is_long() && bit != (int)(at * 5 % 8))
                    continue;
                bytes.ptr[at] ^= (uint8_t)(1 << bit);
                if (try_changed(&disk, i, at, buf_bytes(&bytes)))
                    opened++;
                else
                    refused++;
                bytes.ptr[at] ^= (uint8_t)(1 << bit);
            }
        }
    }
    ASSERT_GT(opened, 0);
    ASSERT_GT(refused, 0);
    disk_done(&disk);
}

TEST(any_cut_is_a_torn_tail_or_a_refusal)
{
    struct disk disk;
    uint64_t opened = 0, refused = 0;
    disk_init(&disk, 200);
    for (size_t i = 0; i < disk.file_count; i++) {
        struct bytes all = buf_bytes(&disk.file[i].content);
        for (size_t len = 0; len <= all.len; len++) {
            if (try_changed(&disk, i, len, bytes_of(all.ptr, len)))
                opened++;
            else
                refused++;
        }
    }
    ASSERT_GT(opened, 0);
    ASSERT_GT(refused, 0);
    disk_done(&disk);
}

/* A power cut leaves zeros where nothing was written; a file system may leave other bytes. */
TEST(what_stands_behind_the_end_of_a_segment_is_not_served)
{
    struct disk disk;
    disk_init(&disk, 300);
    for (size_t i = 0; i < disk.file_count; i++) {
        for (int kind = 0; kind < 4; kind++) {
            CLEANUP(buf_done) struct buf bytes;
            struct bytes all = buf_bytes(&disk.file[i].content);
            buf_init(&bytes, SIZE_MAX);
            ASSERT_TRUE(buf_add_bytes(&bytes, all) && buf_reserve(&bytes, 4096 + all.len));
            if (kind < 2)
                memset(bytes.ptr + bytes.len, kind ? 0xff : 0, 4096);
            else if (kind == 2) /* the same frames again, whole */
                memcpy(bytes.ptr + bytes.len, all.ptr, all.len);
            else /* frames of another segment */
                memcpy(bytes.ptr + bytes.len, disk.file[0].content.ptr,
                       all.len < disk.file[0].content.len ? all.len : disk.file[0].content.len);
            bytes.len += kind < 2 ? 4096 : 256 < all.len ? 256 : all.len;
            try_changed(&disk, i, all.len, buf_bytes(&bytes));
        }
    }
    disk_done(&disk);
}

/* ---- mixed up ---- */

static void put_file(struct disk *disk, const char *path, struct bytes content)
{
    struct err err = {0};
    ASSERT_OK(files_replace(disk_files(disk), path, content, &err), &err);
}

TEST(swapped_segments_are_refused)
{
    struct disk disk;
    disk_init(&disk, 400);
    for (size_t i = 0; i < disk.file_count; i++) {
        for (size_t j = i + 1; j < disk.file_count; j++) {
            if (disk.file[j].content.len == 0)
                continue; /* a file that was only prepared */
            put_file(&disk, disk.file[i].path, buf_bytes(&disk.file[j].content));
            put_file(&disk, disk.file[j].path, buf_bytes(&disk.file[i].content));
            ASSERT_FALSE(open_checked(&disk, NULL, 0));
            disk_restore(&disk);
        }
    }
    disk_done(&disk);
}

TEST(a_segment_of_another_store_is_refused)
{
    struct disk disk, other;
    disk_init(&disk, 500);
    disk_init(&other, 600);
    ASSERT_EQ(disk.file_count, other.file_count);
    for (size_t i = 0; i < disk.file_count; i++) {
        if (other.file[i].content.len == 0)
            continue;
        /* Both worlds draw the same uuid, as their seeds are the same: another one is written. */
        CLEANUP(buf_done) struct buf bytes;
        buf_init(&bytes, SIZE_MAX);
        ASSERT_TRUE(buf_add_bytes(&bytes, buf_bytes(&other.file[i].content)));
        bytes.ptr[16] ^= 0x55;
        uint32_t counters_len = le32_get(bytes.ptr + 68);
        size_t header = SEGMENT_FIXED_BYTES + counters_len;
        le32_put(bytes.ptr + header, crc32c(0, bytes.ptr, header));
        put_file(&disk, disk.file[i].path, buf_bytes(&bytes));
        ASSERT_FALSE(open_checked(&disk, NULL, 0));
        ASSERT_TRUE(strstr(disk.world.err.text, "another store"));
        disk_restore(&disk);
        /* The same uuid and another content: the chain tells. */
        put_file(&disk, disk.file[i].path, buf_bytes(&other.file[i].content));
        bool opened = open_checked(&disk, NULL, 0);
        ASSERT_FALSE(opened);
        disk_restore(&disk);
    }
    disk_done(&disk);
    disk_done(&other);
}

TEST(a_segment_under_a_second_number_is_refused)
{
    struct disk disk;
    char path[256];
    disk_init(&disk, 700);
    uint64_t last = file_number(&disk.file[disk.file_count - 1]);
    for (size_t i = 0; i < disk.file_count; i++) {
        if (disk.file[i].content.len == 0)
            continue;
        for (uint64_t number = last + 1; number < last + 3; number++) {
            snprintf(path, sizeof path, "db/journal/%016llx.seg", (unsigned long long)number);
            put_file(&disk, path, buf_bytes(&disk.file[i].content));
            ASSERT_FALSE(open_checked(&disk, NULL, 0));
            disk_restore(&disk);
        }
    }
    disk_done(&disk);
}

TEST(a_missing_segment_is_refused_unless_it_is_the_last)
{
    struct disk disk;
    struct err err = {0};
    disk_init(&disk, 800);
    for (size_t i = 0; i + 1 < disk.file_count; i++) {
        if (disk.file[i + 1].content.len == 0)
            continue;
        ASSERT_OK(files_remove(disk_files(&disk), disk.file[i].path, &err), &err);
        ASSERT_FALSE(open_checked(&disk, NULL, 0));
        ASSERT_TRUE(strstr(disk.world.err.text, "is missing"));
        disk_restore(&disk);
    }
    disk_done(&disk);
}

/* ---- journal bytes as values ---- */

TEST(journal_bytes_in_values_are_never_taken_for_frames)
{
    struct disk disk;
    struct err err = {0};
    disk_init(&disk, 900);
    struct world *world = &disk.world;
    disk_restore(&disk);
    ASSERT_TRUE(world_open(world));
    struct store_group group = {world->turn_prefix, BYTES("segment")};
    for (size_t i = 0; i < disk.file_count; i++) {
        store_begin(world->store, 0);
        ASSERT_OK(
            store_put(world->store, group, bytes_of("", 0), buf_bytes(&disk.file[i].content), &err),
            &err);
        store_commit(world->store);
        ASSERT_OK(store_write(world->store, &err), &err);
    }
    world_process_end(world);
    size_t old_count = disk.file_count;
    disk.file_count = 0;
    for (size_t i = 0; i < old_count; i++)
        buf_done(&disk.file[i].content);
    ASSERT_OK(files_list(disk_files(&disk), "db/journal", file_keep, &disk, &err), &err);
    for (size_t i = 0; i < disk.file_count; i++) {
        struct bytes all = buf_bytes(&disk.file[i].content);
        for (size_t len = 0; len < all.len; len += 7)
            try_changed(&disk, i, len, bytes_of(all.ptr, len));
        CLEANUP(buf_done) struct buf bytes;
        buf_init(&bytes, SIZE_MAX);
        ASSERT_TRUE(buf_add_bytes(&bytes, all));
        for (size_t at = 0; at < bytes.len; at += 11) {
            bytes.ptr[at] ^= 0xff;
            try_changed(&disk, i, at, buf_bytes(&bytes));
            bytes.ptr[at] ^= 0xff;
        }
    }
    disk_done(&disk);
}

/* ---- catalogue and engine ---- */

TEST(a_damaged_catalogue_is_refused_by_name)
{
    struct disk disk;
    struct err err = {0};
    CLEANUP(buf_done) struct buf bytes;
    buf_init(&bytes, SIZE_MAX);
    disk_init(&disk, 1000);
    ASSERT_OK(files_read_all(disk_files(&disk), "db/TERRACE", &bytes, &err), &err);
    for (size_t at = 0; at < bytes.len; at++) {
        uint8_t is = bytes.ptr[at];
        for (int with = 1; with < 256; with = with * 3 + 1) {
            bytes.ptr[at] = (uint8_t)(is ^ with);
            put_file(&disk, "db/TERRACE", buf_bytes(&bytes));
            enum rc rc = world_try(&disk.world, &err);
            ASSERT_TRUE(rc == RC_CORRUPT || rc == RC_VERSION);
            ASSERT_TRUE(strstr(err.text, "db/TERRACE"));
        }
        bytes.ptr[at] = is;
        put_file(&disk, "db/TERRACE", bytes_of(bytes.ptr, at));
        ASSERT_RC(world_try(&disk.world, &err), RC_CORRUPT);
        ASSERT_TRUE(strstr(err.text, "db/TERRACE"));
    }
    ASSERT_OK(files_remove(disk_files(&disk), "db/TERRACE", &err), &err);
    ASSERT_RC(world_try(&disk.world, &err), RC_CORRUPT);
    ASSERT_TRUE(strstr(err.text, "TERRACE"));
    put_file(&disk, "db/TERRACE", buf_bytes(&bytes));
    ASSERT_TRUE(open_checked(&disk, NULL, disk.history[disk.history_count - 1].turn));
    disk_done(&disk);
}

static void catalog_replace(struct disk *disk, const char *from, const char *to)
{
    struct err err = {0};
    CLEANUP(buf_done) struct buf bytes;
    CLEANUP(buf_done) struct buf changed;
    buf_init(&bytes, SIZE_MAX);
    buf_init(&changed, SIZE_MAX);
    ASSERT_OK(files_read_all(disk_files(disk), "db/TERRACE", &bytes, &err), &err);
    char *at = memmem(bytes.ptr, bytes.len, from, strlen(from));
    ASSERT_TRUE(at);
    size_t before = (size_t)(at - (char *)bytes.ptr), after = before + strlen(from);
    ASSERT_TRUE(buf_add(&changed, bytes.ptr, before) && buf_add(&changed, to, strlen(to)) &&
                buf_add(&changed, bytes.ptr + after, bytes.len - 13 - after) &&
                buf_printf(&changed, "crc %08x\n", crc32c(0, changed.ptr, changed.len)));
    put_file(disk, "db/TERRACE", buf_bytes(&changed));
}

TEST(a_directory_of_another_version_is_refused_as_such)
{
    struct disk disk;
    struct err err = {0};
    disk_init(&disk, 1100);
    catalog_replace(&disk, "terrace store 1", "terrace store 2");
    ASSERT_RC(world_try(&disk.world, &err), RC_VERSION);
    ASSERT_TRUE(strstr(err.text, "db/TERRACE"));
    catalog_replace(&disk, "terrace store 2", "terrace store 1");
    catalog_replace(&disk, "features 0", "features 4");
    ASSERT_RC(world_try(&disk.world, &err), RC_VERSION);
    catalog_replace(&disk, "features 4", "features 0");
    catalog_replace(&disk, "space 2 length", "space 2 whole");
    ASSERT_RC(world_try(&disk.world, &err), RC_VERSION);
    ASSERT_TRUE(strstr(err.text, "space 2"));
    catalog_replace(&disk, "space 2 whole", "space 2 length");
    /* A segment of a later format, whole by itself. */
    CLEANUP(buf_done) struct buf bytes;
    buf_init(&bytes, SIZE_MAX);
    ASSERT_TRUE(buf_add_bytes(&bytes, buf_bytes(&disk.file[0].content)));
    bytes.ptr[8]++;
    size_t header = SEGMENT_FIXED_BYTES + le32_get(bytes.ptr + 68);
    le32_put(bytes.ptr + header, crc32c(0, bytes.ptr, header));
    put_file(&disk, disk.file[0].path, buf_bytes(&bytes));
    ASSERT_RC(world_try(&disk.world, &err), RC_VERSION);
    ASSERT_TRUE(strstr(err.text, disk.file[0].path));
    disk_restore(&disk);
    ASSERT_TRUE(open_checked(&disk, NULL, disk.history[disk.history_count - 1].turn));
    disk_done(&disk);
}

TEST(the_engine_of_another_store_is_refused)
{
    struct disk disk, other;
    struct err err = {0};
    disk_init(&disk, 1200);
    disk_init(&other, 1300);
    /* The seeds are the same, so the stores are told apart by a catalogue that was changed. */
    CLEANUP(buf_done) struct buf bytes;
    buf_init(&bytes, SIZE_MAX);
    ASSERT_OK(files_read_all(disk_files(&disk), "db/TERRACE", &bytes, &err), &err);
    char from[16], to[16];
    char *uuid = memmem(bytes.ptr, bytes.len, "uuid ", 5);
    ASSERT_TRUE(uuid);
    snprintf(from, sizeof from, "uuid %c", uuid[5]);
    snprintf(to, sizeof to, "uuid %c", uuid[5] == '0' ? '1' : '0');
    catalog_replace(&disk, from, to);
    ASSERT_RC(world_try(&disk.world, &err), RC_CORRUPT);
    ASSERT_TRUE(strstr(err.text, "db/engine"));
    ASSERT_TRUE(strstr(err.text, "another store"));
    catalog_replace(&disk, to, from);
    /* An engine that has lost everything: the journal begins too late for it. */
    struct engine_memory *mine = disk.world.memory;
    disk.world.memory = engine_memory_new();
    ASSERT_FALSE(open_checked(&disk, NULL, 0));
    ASSERT_TRUE(strstr(disk.world.err.text, "is missing"));
    engine_memory_free(disk.world.memory);
    disk.world.memory = mine;
    disk_restore(&disk);
    ASSERT_TRUE(open_checked(&disk, NULL, disk.history[disk.history_count - 1].turn));
    disk_done(&disk);
    disk_done(&other);
}

/* ---- a full disk ---- */

TEST(a_full_disk_at_the_start_leaves_reading_and_later_writing)
{
    struct disk disk;
    struct world *world = &disk.world;
    struct store_stats stats;
    disk_init(&disk, 1400);
    disk_restore(&disk);
    file_sim_space(world->sim, 0);
    ASSERT_TRUE(open_checked(&disk, NULL, disk.history[disk.history_count - 1].turn));
    store_stats(world->store, &stats);
    ASSERT_TRUE(stats.journal.read_only);
    ASSERT_NE(stats.journal.reason[0], '\0');
    uint32_t acked = world->acked.turn;
    world_turn(world, 1);
    ASSERT_EQ(world->acked.turn, acked);
    ASSERT_GT(world->error_count, 0);
    clock_advance_ms(&world->clock, 1500);
    store_poll(world->store); /* tried again, in vain */
    world_check(world);
    file_sim_space(world->sim, UINT64_MAX);
    world_recover(world);
    uint64_t errors = world->error_count;
    for (uint64_t i = 0; i < 5; i++)
        world_turn(world, 2 + i);
    ASSERT_GT(world->acked.turn, acked);
    ASSERT_EQ(world->error_count, errors);
    world_process_end(world);
    ASSERT_TRUE(world_open(world));
    world_check(world);
    disk_done(&disk);
}

TEST(a_disk_that_fills_up_at_any_byte_refuses_and_goes_on)
{
    for (uint64_t space = 0; space < 12000; space += test_is_long() ? 53 : 331) {
        struct world world;
        world_init(&world, DURABILITY_EVERYSEC);
        world.small = true;
        file_sim_space(world.sim, space);
        for (uint64_t i = 0; i < 30; i++) {
            if (!world.store && !world_open(&world))
                continue;
            world_turn(&world, 10 + i);
            world_steps(&world, STORE_STEP_JOURNAL, 2);
            world_steps(&world, STORE_STEP_FLUSH, 2);
            store_poll(world.store);
        }
        file_sim_space(world.sim, UINT64_MAX);
        if (!world.store)
            ASSERT_TRUE(world_open(&world));
        world_recover(&world);
        world_check(&world);
        uint32_t acked = world.acked.turn;
        world_turn(&world, 99);
        ASSERT_GT(world.acked.turn, acked);
        world_process_end(&world);
        ASSERT_TRUE(world_open(&world));
        world_check(&world);
        world_flush(&world);
        world_done(&world);
    }
}

// SPDX-License-Identifier: Apache-2.0
/* fuzz_replay.c - a turn of hostile records with good checksums at the end of a store's journal.
 *
 * The store is opened over it. What it refuses it must name; what it takes it must be able to
 * flush, and then the engine has to show the same rows as the memory did: two readers of one turn,
 * the recovery and the flusher, agree. */
#include "base/codec.h"
#include "base/file_sim.h"
#include "base/mem.h"
#include "store/engine/engine_memory.h"
#include "store/hot/load.h"
#include "store/journal/record.h"
#include "store/journal/segment.h"
#include "store/store.h"
#include "store/testing.h"
#include "store/turns.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MAX = 64, SEGMENT_FIRST = 1 };

static const struct store_space spaces[] = {
    {.number = 1, .kind = SPACE_WHOLE, .name = "whole"},
    {.number = 2, .kind = SPACE_LENGTH, .name = "length"},
    {.number = 3, .kind = SPACE_FIXED, .fixed_bytes = 4, .name = "fixed"},
};

struct world {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock;
    struct store *store;
    uint32_t prefix[ARRAY_LEN(spaces)];
    struct err err;
};

static enum rc world_open(struct world *world)
{
    struct store_options options = {.dir = "db",
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .engine = &engine_memory_ops,
                                    .engine_memory = world->memory,
                                    .files = file_sim_files(world->sim),
                                    .clock = &world->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = 1 << 20,
                                    .segment_bytes = 1 << 20,
                                    .flush_unit_bytes = 1 << 20,
                                    .manual = true};
    enum rc rc = store_open(&options, &world->store, &world->err);
    for (size_t i = 0; i < ARRAY_LEN(spaces) && rc == RC_OK; i++)
        rc = store_prefix(world->store, spaces[i].number, BYTES("p"), &world->prefix[i],
                          &world->err);
    return rc;
}

static void put(struct world *world, uint32_t prefix, struct bytes key, struct bytes suffix)
{
    struct store_group group = {world->prefix[prefix], key};
    enum rc rc = store_put(world->store, group, suffix, BYTES("old"), &world->err);
    ASSERT(rc == RC_OK);
}

/* Some rows that the hostile turn may meet. */
static void world_begin(struct world *world)
{
    clock_init_manual(&world->clock, 1700000000000);
    enum rc rc = world_open(world);
    ASSERT(rc == RC_OK);
    store_begin(world->store, 0);
    put(world, 0, BYTES("a"), BYTES(""));
    put(world, 1, BYTES("a"), BYTES("s"));
    put(world, 2, BYTES("abc"), BYTES("s"));
    store_commit(world->store);
    rc = store_write(world->store, &world->err);
    ASSERT(rc == RC_OK);
    store_abandon(world->store);
    world->store = NULL;
    file_sim_process_end(world->sim);
}

static uint32_t commits_of(struct bytes body)
{
    uint32_t count = 0;
    while (body.len >= 4 && le32_get(body.ptr) <= body.len - 4) {
        body = bytes_from(body, 4 + (size_t)le32_get(body.ptr));
        count++;
    }
    return count ? count : 1;
}

static void turn_append(struct world *world, struct bytes body)
{
    struct segment_reader *reader = NULL;
    struct segment_turn turn;
    struct file *file = NULL;
    char path[PATH_BYTES_MAX];
    uint8_t header[FRAME_HEADER_BYTES];
    uint32_t crc;
    segment_path(path, "db/journal", SEGMENT_FIRST);
    enum rc rc = segment_open(file_sim_files(world->sim), path, &reader, &world->err);
    while (rc == RC_OK)
        rc = segment_next(reader, &turn, &world->err);
    ASSERT(rc == RC_NOT_FOUND);
    struct frame_header frame = {.body_len = (uint32_t)body.len,
                                 .first_lsn = segment_reader_last_lsn(reader) + 1,
                                 .commit_count = commits_of(body)};
    frame_header_put(header, &frame, body, segment_reader_header(reader)->salt, &crc);
    uint64_t at = segment_reader_offset(reader);
    segment_close(reader);
    rc = file_open(file_sim_files(world->sim), path, FILE_WRITE, &file, &world->err);
    if (rc == RC_OK)
        rc = file_write(file, at, bytes_of(header, sizeof header), &world->err);
    if (rc == RC_OK)
        rc = file_write(file, at + sizeof header, body, &world->err);
    ASSERT(rc == RC_OK);
    file_close(file);
}

/* ---- what the store answers ---- */

struct answer {
    enum rc rc;
    uint64_t sum;
};

static void ready(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    (void)arg;
}

static enum rc get_warm(struct world *world, struct store_group group, struct bytes suffix,
                        struct bytes *ret_value)
{
    struct load_waiter waiter = {.ready = ready};
    for (;;) {
        store_begin(world->store, 0);
        enum rc rc = store_get(world->store, group, suffix, ret_value, &world->err);
        store_undo(world->store);
        if (rc != RC_COLD) {
            store_wait_release(world->store, &waiter);
            load_waiter_done(&waiter);
            return rc;
        }
        store_wait(world->store, &waiter);
        while (store_step(world->store, STORE_STEP_LOAD))
            continue;
        store_poll(world->store);
    }
}

/* Of every row that the turn names. */
static size_t answers(struct world *world, struct bytes body, struct answer *answer)
{
    struct record_reader reader;
    struct record record;
    struct bytes value = {0};
    size_t count = 0;
    record_reader_init(&reader, body);
    while (record_next_commit(&reader, &world->err) == RC_OK) {
        while (record_next(&reader, &record, &world->err) == RC_OK && count < ROWS_MAX) {
            if (record.kind == RECORD_COUNTER_ADD || record.kind == RECORD_DROP_PREFIX)
                continue;
            struct store_group group = {world->prefix[record.space - 1],
                                        bytes_from(record.group, 1)};
            struct answer *one = &answer[count++];
            one->rc = get_warm(world, group, record.suffix, &value);
            one->sum = 0;
            for (size_t i = 0; one->rc == RC_OK && i < value.len; i++)
                one->sum = one->sum * 31 + value.ptr[i];
        }
    }
    return count;
}

static void flush_all(struct world *world)
{
    uint64_t segment = store_flush_ask(world->store);
    for (int i = 0; store_flush_mark(world->store) < segment; i++) {
        store_step(world->store, STORE_STEP_JOURNAL);
        store_step(world->store, STORE_STEP_FLUSH);
        store_poll(world->store);
        ASSERT(!store_flush_failed(world->store, &world->err));
        ASSERT(i < 1000);
    }
    store_evict_all(world->store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world = {.sim = file_sim_new(), .memory = engine_memory_new()};
    struct answer before[ROWS_MAX], after[ROWS_MAX];
    struct bytes body = bytes_of(data, size);
    world_begin(&world);
    if (size > 0)
        turn_append(&world, body);
    enum rc rc = world_open(&world);
    ASSERT(rc == RC_OK || rc == RC_CORRUPT || rc == RC_VERSION);
    if (rc == RC_OK) {
        store_check(world.store);
        size_t count = answers(&world, body, before);
        flush_all(&world);
        ASSERT(answers(&world, body, after) == count);
        for (size_t i = 0; i < count; i++) {
            ASSERT(before[i].rc == RC_OK || before[i].rc == RC_NOT_FOUND);
            ASSERT(before[i].rc == after[i].rc);
            ASSERT(before[i].sum == after[i].sum);
        }
        store_check(world.store);
    }
    store_abandon(world.store);
    engine_memory_free(world.memory);
    file_sim_free(world.sim);
    return 0;
}

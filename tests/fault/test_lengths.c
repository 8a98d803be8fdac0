// SPDX-License-Identifier: Apache-2.0
/* test_lengths.c - keys, suffixes and values of every length, up to the limits and over them: hot,
 * after the end of the process, and cold. Sampled: all small ones, those around the powers of two,
 * the limits. */
#include <stdio.h>

#include "base/file_sim.h"
#include "base/mem.h"
#include "store/engine/engine_memory.h"
#include "store/hot/load.h"
#include "store/store.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

enum { META = 1, DATA = 2, TILE = 3, TILE_KEY_BYTES = 9, LENS_MAX = 256 };

static const struct store_space spaces[] = {
    {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
    {.number = TILE, .kind = SPACE_FIXED, .fixed_bytes = TILE_KEY_BYTES, .name = "tile"},
};

struct fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock;
    struct store *store;
    uint32_t meta, data, tile;
    struct err err;
    uint8_t *bytes; /* STORE_VALUE_BYTES_MAX + 1 of a pattern, in long runs; else less */
    size_t bytes_len;
    size_t len[LENS_MAX];
    size_t len_count;
};

static void fix_open(struct fix *fix)
{
    struct store_options options = {.dir = "db",
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 3,
                                    .hot_memory_bytes = (size_t)4 << 30,
                                    .segment_bytes = 1 << 20,
                                    .flush_unit_bytes = 4 << 20,
                                    .disk_reserve_bytes = 0,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, META, BYTES(""), &fix->meta, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, DATA, BYTES("dd"), &fix->data, &fix->err), &fix->err);
    ASSERT_OK(store_prefix(fix->store, TILE, BYTES("t"), &fix->tile, &fix->err), &fix->err);
}

static void fix_init(struct fix *fix)
{
    *fix = (struct fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    fix->bytes_len = (test_is_long() ? STORE_VALUE_BYTES_MAX : STORE_SUFFIX_BYTES_MAX) + 1;
    fix->bytes = mem_alloc(fix->bytes_len);
    for (size_t i = 0; i < fix->bytes_len; i++)
        fix->bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    fix_open(fix);
}

static void fix_done(struct fix *fix)
{
    ASSERT_OK(store_close(fix->store, &fix->err), &fix->err);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
    mem_free(fix->bytes);
}

static void fix_flush(struct fix *fix)
{
    uint64_t segment = store_flush_ask(fix->store);
    for (int i = 0; store_flush_mark(fix->store) < segment; i++) {
        store_step(fix->store, STORE_STEP_JOURNAL);
        store_step(fix->store, STORE_STEP_FLUSH);
        store_poll(fix->store);
        ASSERT_LT(i, 100000);
    }
}

/* 0 .. 100, the powers of two and their neighbours, and the limit itself. */
static void lens_make(struct fix *fix, size_t limit)
{
    fix->len_count = 0;
    for (size_t i = 0; i <= 100 && i <= limit; i++)
        fix->len[fix->len_count++] = i;
    for (size_t power = 128; power <= limit; power *= power < 1 << 20 || test_is_long() ? 2 : 8)
        for (size_t i = power - 1; i <= power + 1 && i < limit; i++)
            fix->len[fix->len_count++] = i;
    if (limit > 100)
        fix->len[fix->len_count++] = limit;
}

static void ready(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    (void)arg;
}

static enum rc get_warm(struct fix *fix, struct store_group group, struct bytes suffix,
                        struct bytes *ret_value)
{
    for (;;) {
        enum rc rc = store_get(fix->store, group, suffix, ret_value, &fix->err);
        if (rc != RC_COLD)
            return rc;
        struct load_waiter waiter = {.ready = ready};
        store_undo(fix->store);
        if (store_wait(fix->store, &waiter)) {
            while (store_step(fix->store, STORE_STEP_LOAD))
                continue;
            store_poll(fix->store);
        }
        rc = waiter.rc;
        store_wait_release(fix->store, &waiter);
        load_waiter_done(&waiter);
        store_begin(fix->store, 0);
        if (rc != RC_OK)
            return rc;
    }
}

/* What is varied in a run. */
enum part { PART_META_KEY, PART_DATA_KEY, PART_TILE_SUFFIX, PART_DATA_SUFFIX, PART_VALUE, PARTS };

static size_t part_limit(enum part part)
{
    switch (part) {
    case PART_META_KEY:
        return STORE_GROUP_KEY_BYTES_MAX;
    case PART_DATA_KEY:
        return STORE_LENGTH_KEY_BYTES_MAX - 2; /* the prefix counts */
    case PART_TILE_SUFFIX:
    case PART_DATA_SUFFIX:
        return STORE_SUFFIX_BYTES_MAX;
    case PART_VALUE:
    case PARTS:
        break;
    }
    return STORE_VALUE_BYTES_MAX;
}

struct place {
    struct store_group group;
    struct bytes suffix, value;
};

static struct place place_of(const struct fix *fix, enum part part, size_t len)
{
    struct bytes bytes = bytes_of(fix->bytes, len);
    struct bytes few = bytes_of(fix->bytes + len % 64, len % 5);
    struct place place = {{fix->data, BYTES("fixed")}, BYTES("s"), few};
    switch (part) {
    case PART_META_KEY:
        place.group = (struct store_group){fix->meta, bytes};
        place.suffix = bytes_of("", 0);
        break;
    case PART_DATA_KEY:
        place.group.key = bytes;
        break;
    case PART_TILE_SUFFIX:
        place.group = (struct store_group){fix->tile, bytes_of(fix->bytes, TILE_KEY_BYTES - 1)};
        place.suffix = bytes;
        break;
    case PART_DATA_SUFFIX:
        place.suffix = bytes;
        break;
    case PART_VALUE:
    case PARTS: /* a row a length, told apart by the suffix */
        place.suffix = bytes_of(fix->bytes, 300 + len % 97);
        place.value = bytes;
        break;
    }
    return place;
}

static void all_check(struct fix *fix, enum part part)
{
    store_begin(fix->store, 0);
    for (size_t i = 0; i < fix->len_count; i++) {
        struct place place = place_of(fix, part, fix->len[i]);
        struct bytes value;
        ASSERT_OK(get_warm(fix, place.group, place.suffix, &value), &fix->err);
        ASSERT_BYTES(value, place.value);
    }
    store_undo(fix->store);
}

static void put_one(struct fix *fix, const struct place *place)
{
    store_begin(fix->store, 0);
    ASSERT_OK(store_put(fix->store, place->group, place->suffix, place->value, &fix->err),
              &fix->err);
    store_commit(fix->store);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
    store_step(fix->store, STORE_STEP_JOURNAL);
}

static void lengths(enum part part)
{
    struct fix fix;
    fix_init(&fix);
    size_t limit = part_limit(part);
    if (!test_is_long() && part == PART_DATA_SUFFIX)
        limit = 256 << 10; /* the limit itself is met in the other space */
    if (!test_is_long() && part == PART_VALUE)
        limit = 2 << 20;
    lens_make(&fix, limit);
    size_t count = fix.len_count;
    if (part == PART_VALUE) /* one at a time: each has its row for itself */
        fix.len_count = 1;
    for (size_t i = 0; i < count; i++) {
        struct place place = place_of(&fix, part, fix.len[i]);
        put_one(&fix, &place);
        if (part != PART_VALUE && i + 1 < count)
            continue;
        size_t len = fix.len[0];
        fix.len[0] = part == PART_VALUE ? fix.len[i] : len;
        all_check(&fix, part);
        store_abandon(fix.store);
        file_sim_process_end(fix.sim);
        fix_open(&fix);
        all_check(&fix, part);
        fix_flush(&fix);
        store_evict_all(fix.store);
        all_check(&fix, part);
        fix.len[0] = len;
    }
    fix_done(&fix);
}

TEST(keys_of_every_length_are_kept)
{
    lengths(PART_META_KEY);
    lengths(PART_DATA_KEY);
}

TEST(suffixes_of_every_length_are_kept)
{
    lengths(PART_TILE_SUFFIX);
    lengths(PART_DATA_SUFFIX);
}

TEST(values_of_every_length_are_kept)
{
    lengths(PART_VALUE);
}

TEST(one_byte_over_a_limit_is_refused)
{
    struct fix fix;
    struct bytes value;
    fix_init(&fix);
    for (int part = 0; part < PARTS; part++) {
        if (part == PART_VALUE && !test_is_long())
            continue;
        struct place place = place_of(&fix, (enum part)part, part_limit((enum part)part) + 1);
        store_begin(fix.store, 0);
        ASSERT_RC(store_put(fix.store, place.group, place.suffix, place.value, &fix.err),
                  RC_TOO_BIG);
        ASSERT_NE(fix.err.text[0], '\0');
        if (part != PART_VALUE)
            ASSERT_RC(store_get(fix.store, place.group, place.suffix, &value, &fix.err),
                      RC_TOO_BIG);
        store_undo(fix.store);
    }
    struct store_group group = {fix.tile, bytes_of(fix.bytes, TILE_KEY_BYTES)};
    store_begin(fix.store, 0);
    ASSERT_RC(store_put(fix.store, group, BYTES("s"), BYTES("v"), &fix.err), RC_INVALID);
    group = (struct store_group){fix.meta, BYTES("k")};
    ASSERT_RC(store_put(fix.store, group, BYTES("s"), BYTES("v"), &fix.err), RC_INVALID);
    store_undo(fix.store);
    fix_done(&fix);
}

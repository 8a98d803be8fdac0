// SPDX-License-Identifier: Apache-2.0
/* support_world.c - a simulated store and the cells that it must hold. */
#include "support_world.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/hot/load.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"

#include "base/banned.h"

enum { SPACE_META = 1, SPACE_DATA = 2, SPACE_TILE = 3, TILE_KEY_BYTES = 6, LOADS_MAX = 200 };

static const struct store_space spaces[] = {
    {.number = SPACE_META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = SPACE_DATA, .kind = SPACE_LENGTH, .name = "data"},
    {.number = SPACE_TILE, .kind = SPACE_FIXED, .fixed_bytes = TILE_KEY_BYTES, .name = "tile"},
};

static const struct {
    uint8_t space;
    const char *name;
} prefixes[WORLD_PREFIXES] = {
    {SPACE_META, "m:"}, {SPACE_DATA, "a"}, {SPACE_DATA, "bb"}, {SPACE_TILE, "t1"}};

static const size_t value_lens[] = {0,  1,   5,    20,   60,  100,  12,  200,
                                    30, 400, 1000, 2100, 128, 4000, 255, 600};

/* ---- names and values ---- */

size_t world_group_count(int prefix)
{
    return prefix == 0 ? WORLD_GROUPS_MAX : WORLD_GROUPS;
}

size_t world_suffix_count(int prefix, int group)
{
    if (prefix == 0)
        return 1;
    return group == 0 ? WORLD_SUFFIXES_MAX : WORLD_SUFFIXES;
}

static uint32_t *cell_at(struct world_state *state, int prefix, int group, int suffix)
{
    int at = group;
    if (prefix > 0) {
        at = WORLD_GROUPS_MAX + (prefix - 1) * WORLD_CELLS_OF_PREFIX + suffix;
        at += group > 0 ? WORLD_SUFFIXES_MAX + (group - 1) * WORLD_SUFFIXES : 0;
    }
    return &state->cell[at];
}

struct name {
    uint8_t bytes[400];
    size_t len;
};

static struct bytes name_bytes(const struct name *name)
{
    return bytes_of(name->bytes, name->len);
}

static struct store_group group_of(const struct world *world, int prefix, int group,
                                   struct name *name)
{
    if (prefix == 3) {
        name->len = (size_t)snprintf((char *)name->bytes, sizeof name->bytes, "g%03d", group);
    } else if (prefix == 0 && group == 0) {
        name->len = 0;
    } else {
        memset(name->bytes, '-', sizeof name->bytes);
        name->len = (size_t)snprintf((char *)name->bytes, sizeof name->bytes, "k%02d", group);
        name->len += (size_t)(group % 4) * (prefix == 0 ? 90 : 40);
    }
    return (struct store_group){world->prefix[prefix], name_bytes(name)};
}

static struct bytes suffix_of(int prefix, int suffix, struct name *name)
{
    name->len = 0;
    if (prefix == 0 || suffix == 0)
        return bytes_of("", 0);
    memset(name->bytes, '.', sizeof name->bytes);
    name->len = (size_t)snprintf((char *)name->bytes, sizeof name->bytes, "s%03d", suffix);
    name->len += (size_t)(suffix % 5) * 25;
    return name_bytes(name);
}

static size_t value_len(const struct world *world, uint32_t value)
{
    if (world->small)
        return value % 12;
    if (value % 80 == 40)
        return 40000; /* out of line, and a segment of its own */
    return value_lens[value % ARRAY_LEN(value_lens)];
}

static struct bytes value_of(struct world *world, uint32_t value)
{
    size_t len = value_len(world, value);
    memset(world->value, (int)(value * 31), len);
    for (size_t i = 0; i + sizeof value <= len; i += 50)
        memcpy(world->value + i, &value, sizeof value);
    return bytes_of(world->value, len);
}

/* ---- errors ---- */

/* Whether it went well. What a fault may lead to has a text; damage is never among it. */
static bool went_well(struct world *world, enum rc rc)
{
    if (rc == RC_OK)
        return true;
    if (rc != RC_IO && rc != RC_NOMEM && rc != RC_FULL && rc != RC_READONLY && rc != RC_TOO_BIG)
        test_fail(__FILE__, __LINE__, "%s: %s", rc_name(rc), world->err.text);
    ASSERT_NE(world->err.text[0], '\0');
    world->error_count++;
    return false;
}

static struct err *err_of(struct world *world)
{
    world->err = (struct err){0};
    return &world->err;
}

/* ---- life ---- */

static bool is_read_only(struct world *world)
{
    struct store_stats stats;
    store_stats(world->store, &stats);
    return stats.journal.read_only;
}

void world_init(struct world *world, enum durability durability)
{
    *world = (struct world){.sim = file_sim_new(),
                            .memory = engine_memory_new(),
                            .durability = durability,
                            .dir = "db",
                            .next_turn = 1,
                            .next_value = 1};
    world->history = mem_zalloc(WORLD_TURNS_MAX * sizeof *world->history);
    world->value = mem_alloc(WORLD_VALUE_BYTES_MAX);
    world->history_count = 1; /* the empty one */
    clock_init_manual(&world->clock, 1700000000000);
}

void world_done(struct world *world)
{
    store_abandon(world->store);
    engine_memory_free(world->memory);
    file_sim_free(world->sim);
    mem_free(world->history);
    mem_free(world->value);
}

static enum rc open_at(struct world *world, const char *dir, struct store **ret_store)
{
    struct store_options options = {.dir = dir,
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .engine = &engine_memory_ops,
                                    .engine_memory = world->memory,
                                    .files = file_sim_files(world->sim),
                                    .clock = &world->clock,
                                    .seed = 7,
                                    .hot_memory_bytes = 1 << 20,
                                    .segment_bytes = 8192,
                                    .flush_unit_bytes = 32768,
                                    .disk_reserve_bytes = 0,
                                    .durability = world->durability,
                                    .manual = true};
    return store_open(&options, ret_store, err_of(world));
}

/* What is not registered yet is registered; false: not all. */
static bool names_open(struct world *world)
{
    bool all = true;
    for (int i = 0; i < WORLD_PREFIXES; i++) {
        struct bytes name = bytes_of(prefixes[i].name, strlen(prefixes[i].name));
        all = went_well(world, store_prefix(world->store, prefixes[i].space, name,
                                            &world->prefix[i], err_of(world))) &&
              all;
    }
    all = went_well(world, store_prefix(world->store, SPACE_META, BYTES("turn"),
                                        &world->turn_prefix, err_of(world))) &&
          all;
    all = went_well(world,
                    store_counter(world->store, BYTES("rows"), &world->counter, err_of(world))) &&
          all;
    return all;
}

enum rc world_try(struct world *world, struct err *ret_err)
{
    ASSERT_TRUE(!world->store);
    enum rc rc = open_at(world, world->dir, &world->store);
    if (rc == RC_OK)
        ASSERT_TRUE(names_open(world));
    *ret_err = world->err;
    return rc;
}

bool world_open(struct world *world)
{
    ASSERT_TRUE(!world->store);
    if (!went_well(world, open_at(world, world->dir, &world->store)))
        return false;
    /* A prefix that could not be registered leaves the store as it was: it is asked for again. */
    for (int i = 0; i < 3; i++)
        if (names_open(world))
            return true;
    store_abandon(world->store);
    world->store = NULL;
    return false;
}

void world_close(struct world *world)
{
    if (!is_read_only(world))
        world->has_failed = false;
    world->err = (struct err){0};
    enum rc rc = store_close(world->store, &world->err);
    world->store = NULL;
    if (went_well(world, rc))
        world->closed_lsn = world->acked.lsn;
    file_sim_process_end(world->sim);
}

/* ---- changes ---- */

static void cell_set(struct world *world, int prefix, int group, int suffix, uint32_t value)
{
    uint32_t *cell = cell_at(&world->now, prefix, group, suffix);
    world->now.row_count += (value != 0) - (*cell != 0);
    *cell = value;
}

static enum rc change_put(struct world *world, int prefix, int group, int suffix)
{
    struct name key, name;
    uint32_t value = world->next_value++;
    enum rc rc = store_put(world->store, group_of(world, prefix, group, &key),
                           suffix_of(prefix, suffix, &name), value_of(world, value), err_of(world));
    if (rc == RC_OK)
        cell_set(world, prefix, group, suffix, value);
    return rc;
}

static enum rc change_delete(struct world *world, int prefix, int group, int suffix)
{
    struct name key, name;
    enum rc rc = store_delete(world->store, group_of(world, prefix, group, &key),
                              suffix_of(prefix, suffix, &name), err_of(world));
    if (rc == RC_NOT_FOUND) {
        ASSERT_EQ(*cell_at(&world->now, prefix, group, suffix), 0);
        return RC_OK;
    }
    if (rc == RC_OK)
        cell_set(world, prefix, group, suffix, 0);
    return rc;
}

static enum rc change_drop_group(struct world *world, int prefix, int group)
{
    struct name key;
    enum rc rc =
        store_group_drop(world->store, group_of(world, prefix, group, &key), err_of(world));
    for (int i = 0; i < (int)world_suffix_count(prefix, group); i++) {
        if (rc == RC_NOT_FOUND)
            ASSERT_EQ(*cell_at(&world->now, prefix, group, i), 0);
        if (rc == RC_OK)
            cell_set(world, prefix, group, i, 0);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc change_drop_prefix(struct world *world, int prefix)
{
    enum rc rc = store_prefix_drop(world->store, world->prefix[prefix], err_of(world));
    for (int group = 0; rc == RC_OK && group < (int)world_group_count(prefix); group++)
        for (int i = 0; i < (int)world_suffix_count(prefix, group); i++)
            cell_set(world, prefix, group, i, 0);
    return rc;
}

/* Reads within a commit: what is cold is not waited for. */
static enum rc change_read(struct world *world, int prefix, int group, int suffix)
{
    struct name key, name;
    struct bytes value;
    uint32_t is = *cell_at(&world->now, prefix, group, suffix);
    enum rc rc = store_get(world->store, group_of(world, prefix, group, &key),
                           suffix_of(prefix, suffix, &name), &value, err_of(world));
    if (rc == RC_OK) {
        ASSERT_NE(is, 0);
        ASSERT_BYTES(value, value_of(world, is));
    } else if (rc == RC_NOT_FOUND) {
        ASSERT_EQ(is, 0);
    }
    return rc == RC_NOT_FOUND || rc == RC_COLD ? RC_OK : rc;
}

static enum rc change_one(struct world *world, struct rand *rand)
{
    int prefix = (int)rand_below(rand, WORLD_PREFIXES);
    int group = (int)rand_below(rand, world_group_count(prefix));
    int suffix = (int)rand_below(rand, world_suffix_count(prefix, group));
    uint64_t what = rand_below(rand, world->small ? 83 : 100);
    if (what < 60)
        return change_put(world, prefix, group, suffix);
    if (what < 75)
        return change_delete(world, prefix, group, suffix);
    if (what < 81)
        return change_drop_group(world, prefix, group);
    if (what < 83)
        return change_drop_prefix(world, prefix);
    if (what <
        90) { /* a run of neighbours: blocks split, and the group gets too large for points */
        enum rc rc = RC_OK;
        for (int i = 0; rc == RC_OK && i < (int)world_suffix_count(prefix, group); i++)
            rc = change_put(world, prefix, group, i);
        return rc;
    }
    return change_read(world, prefix, group, suffix);
}

static enum rc change_turn_row(struct world *world, uint32_t turn)
{
    struct store_group group = {world->turn_prefix, BYTES("number")};
    enum rc rc = store_put(world->store, group, bytes_of("", 0), bytes_of(&turn, sizeof turn),
                           err_of(world));
    if (rc == RC_OK)
        world->now.turn = turn;
    return rc;
}

/* One commit; what fails, or is meant to be undone, leaves no trace. */
static void commit_one(struct world *world, struct rand *rand, uint32_t turn)
{
    struct world_state before = world->now;
    bool undo = rand_below(rand, 12) == 0;
    int count = 1 + (int)rand_below(rand, 6);
    store_begin(world->store, 0);
    enum rc rc = change_turn_row(world, turn);
    for (int i = 0; rc == RC_OK && i < count; i++)
        rc = change_one(world, rand);
    if (rc == RC_OK)
        rc = store_counter_add(world->store, world->counter,
                               world->now.row_count - before.row_count, err_of(world));
    if (went_well(world, rc) && !undo) {
        store_commit(world->store);
        return;
    }
    store_undo(world->store);
    world->now = before;
}

void world_turn(struct world *world, uint64_t seed)
{
    struct rand rand;
    rand_init_seed(&rand, seed);
    uint32_t turn = world->next_turn++;
    int count = 1 + (int)rand_below(&rand, 3);
    for (int i = 0; i < count; i++)
        commit_one(world, &rand, turn);
    world->now.lsn = store_commit_lsn(world->store);
    if (store_turn_bytes(world->store) == 0)
        return;
    if (went_well(world, store_write(world->store, err_of(world)))) {
        world->acked = world->now;
        ASSERT_LT(world->history_count, WORLD_TURNS_MAX);
        world->history[world->history_count++] = world->acked;
        world->has_failed = false;
        return;
    }
    world->failed = world->now;
    world->has_failed = is_read_only(world);
    world->now = world->acked;
}

/* ---- reads ---- */

static void ready_count(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    ++*(int *)arg;
}

/* Waits for what the last RC_COLD wanted; the commit is begun again. */
static enum rc load(struct world *world)
{
    int ready = 0;
    struct load_waiter waiter = {.ready = ready_count, .arg = &ready};
    store_undo(world->store);
    if (store_wait(world->store, &waiter)) {
        while (store_step(world->store, STORE_STEP_LOAD))
            store_poll(world->store); /* what is behind a page may follow it */
        ASSERT_EQ(ready, 1);
    }
    enum rc rc = waiter.rc;
    if (rc != RC_OK)
        world->err = waiter.err;
    store_wait_release(world->store, &waiter);
    load_waiter_done(&waiter);
    store_begin(world->store, 0);
    return rc;
}

/* False: an error. */
static bool cell_check(struct world *world, int prefix, int group, int suffix)
{
    struct name key, name;
    struct bytes value;
    uint32_t is = *cell_at(&world->now, prefix, group, suffix);
    enum rc rc = RC_COLD;
    for (int i = 0; rc == RC_COLD; i++) {
        ASSERT_LT(i, LOADS_MAX);
        rc = store_get(world->store, group_of(world, prefix, group, &key),
                       suffix_of(prefix, suffix, &name), &value, err_of(world));
        if (rc == RC_COLD) {
            enum rc loaded = load(world);
            rc = loaded == RC_OK ? rc : loaded;
        }
    }
    if (rc != RC_NOT_FOUND && !went_well(world, rc))
        return false;
    ASSERT_EQ(rc == RC_OK, is != 0);
    if (rc == RC_OK)
        ASSERT_BYTES(value, value_of(world, is));
    return true;
}

void world_read(struct world *world, uint64_t seed)
{
    struct rand rand;
    rand_init_seed(&rand, seed);
    store_begin(world->store, 0);
    for (int i = 0; i < 12; i++) {
        int prefix = (int)rand_below(&rand, WORLD_PREFIXES);
        int group = (int)rand_below(&rand, world_group_count(prefix));
        cell_check(world, prefix, group, (int)rand_below(&rand, world_suffix_count(prefix, group)));
    }
    store_undo(world->store);
}

static enum rc walk_next(struct world *world, struct store_walk *walk, struct bytes *ret_suffix,
                         struct bytes *ret_value)
{
    for (int i = 0; i < LOADS_MAX; i++) {
        enum rc rc = store_walk_next(walk, ret_suffix, ret_value, err_of(world));
        if (rc != RC_COLD)
            return rc;
        rc = load(world);
        if (rc != RC_OK)
            return rc;
    }
    ASSERT_TRUE(false);
    return RC_IO;
}

/* All rows of the group in order; false: an error. */
static bool group_check(struct world *world, int prefix, int group, bool reverse)
{
    struct name key, name;
    struct store_walk walk;
    struct bytes suffix, value;
    int count = (int)world_suffix_count(prefix, group);
    enum rc rc = RC_OK;
    store_walk_init(&walk, world->store, group_of(world, prefix, group, &key), reverse);
    for (int i = 0; rc == RC_OK && i < count; i++) {
        int at = reverse ? count - 1 - i : i;
        uint32_t is = *cell_at(&world->now, prefix, group, at);
        if (is == 0)
            continue;
        rc = walk_next(world, &walk, &suffix, &value);
        ASSERT_NE(rc, RC_NOT_FOUND);
        if (rc != RC_OK)
            break;
        ASSERT_BYTES(suffix, suffix_of(prefix, at, &name));
        ASSERT_BYTES(value, value_of(world, is));
    }
    if (rc == RC_OK) {
        rc = walk_next(world, &walk, &suffix, &value);
        ASSERT_NE(rc, RC_OK);
    }
    store_walk_done(&walk);
    return rc == RC_NOT_FOUND || went_well(world, rc);
}

void world_walk(struct world *world, uint64_t seed)
{
    struct rand rand;
    rand_init_seed(&rand, seed);
    store_begin(world->store, 0);
    for (int i = 0; i < 3; i++) {
        int prefix = 1 + (int)rand_below(&rand, WORLD_PREFIXES - 1);
        int group = (int)rand_below(&rand, world_group_count(prefix));
        group_check(world, prefix, group, rand_below(&rand, 2));
    }
    store_undo(world->store);
}

void world_check(struct world *world)
{
    store_check(world->store);
    store_begin(world->store, 0);
    for (int prefix = 0; prefix < WORLD_PREFIXES; prefix++) {
        for (int group = 0; group < (int)world_group_count(prefix); group++) {
            ASSERT_TRUE(cell_check(world, prefix, group, 0));
            for (int i = group % 5; i < (int)world_suffix_count(prefix, group); i += 5)
                ASSERT_TRUE(cell_check(world, prefix, group, i));
            if (prefix > 0)
                ASSERT_TRUE(group_check(world, prefix, group, (group + prefix) % 2));
        }
    }
    store_undo(world->store);
    ASSERT_EQ(store_counter_get(world->store, world->counter), world->now.row_count);
}

/* ---- background ---- */

void world_steps(struct world *world, enum store_step step, int count)
{
    struct store_stats stats;
    for (int i = 0; i < count; i++)
        if (!store_step(world->store, step))
            break;
    store_stats(world->store, &stats);
    if (stats.journal.read_only)
        ASSERT_NE(stats.journal.reason[0], '\0');
}

void world_flush(struct world *world)
{
    uint64_t segment = store_flush_ask(world->store);
    for (int i = 0; store_flush_mark(world->store) < segment; i++) {
        bool worked = store_step(world->store, STORE_STEP_JOURNAL);
        worked = store_step(world->store, STORE_STEP_FLUSH) || worked;
        if (!worked)
            clock_advance_ms(&world->clock, 1100); /* something waits for its next try */
        store_poll(world->store);
        ASSERT_LT(i, 1000);
    }
}

void world_recover(struct world *world)
{
    struct store_stats stats;
    for (int i = 0; i < 3; i++) {
        clock_advance_ms(&world->clock, 1100);
        store_step(world->store, STORE_STEP_JOURNAL);
        while (store_step(world->store, STORE_STEP_FLUSH)) /* it may have had no disk for it */
            continue;
        store_poll(world->store);
        (void)store_room(world->store);
    }
    store_stats(world->store, &stats);
    ASSERT_FALSE(stats.journal.read_only);
    ASSERT_FALSE(stats.journal.disk_low);
}

/* ---- freeze and backup ---- */

/* Drives the store until the request is served, or for a while. */
static enum rc freeze_wait(struct world *world, struct store_freeze *freeze,
                           struct engine_view **ret_view)
{
    uint64_t lsn;
    enum rc rc = RC_WAIT;
    for (int i = 0; i < 200 && rc == RC_WAIT; i++) {
        bool worked = store_step(world->store, STORE_STEP_JOURNAL);
        worked = store_step(world->store, STORE_STEP_FLUSH) || worked;
        if (!worked)
            clock_advance_ms(&world->clock, 1100);
        store_poll(world->store);
        rc = store_freeze_ready(freeze, ret_view, &lsn, err_of(world));
    }
    return rc;
}

static bool view_count(struct world *world, struct engine_view *view, int64_t *ret_count)
{
    struct engine *engine = store_engine(world->store);
    struct engine_iter *iter;
    struct engine_range range = {.lower = BYTES("\x01"), .once = true};
    struct bytes key, value;
    enum rc rc = engine->ops->iter_open(engine, view, &range, &iter, err_of(world));
    if (!went_well(world, rc))
        return false;
    while ((rc = engine->ops->iter_next(iter, &key, &value, err_of(world))) == RC_OK)
        ++*ret_count;
    engine->ops->iter_close(iter);
    return rc == RC_NOT_FOUND || went_well(world, rc);
}

void world_freeze(struct world *world)
{
    struct store_freeze *freeze;
    struct engine_view *view = NULL;
    int64_t count = 0;
    int64_t expected = world->acked.row_count + (world->acked.turn > 0);
    if (!went_well(world, store_freeze_start(world->store, &freeze, err_of(world))))
        return;
    enum rc rc = freeze_wait(world, freeze, &view);
    if (rc != RC_WAIT && went_well(world, rc) && view_count(world, view, &count))
        ASSERT_EQ(count, expected);
    store_freeze_end(world->store, freeze);
}

/* The copy is opened beside the original, and holds what was acknowledged. */
static void backup_check(struct world *world, const char *dir)
{
    struct store *original = world->store;
    const char *original_dir = world->dir;
    world->store = NULL;
    world->dir = dir;
    if (world_open(world)) {
        store_begin(world->store, 0);
        for (int prefix = 0; prefix < WORLD_PREFIXES; prefix++) {
            for (int group = 0; group < (int)world_group_count(prefix); group++) {
                if (prefix == 0)
                    cell_check(world, prefix, group, 0);
                else
                    group_check(world, prefix, group, false);
            }
        }
        store_undo(world->store);
        ASSERT_EQ(store_counter_get(world->store, world->counter), world->now.row_count);
        enum rc rc = store_close(world->store, err_of(world));
        went_well(world, rc);
    }
    world->store = original;
    world->dir = original_dir;
    while (!names_open(world)) /* the numbers are those of the original again */
        continue;
}

void world_backup(struct world *world, uint64_t number)
{
    struct store_freeze *backup;
    struct engine_view *view;
    char dir[32];
    snprintf(dir, sizeof dir, "backup-%llu", (unsigned long long)number);
    if (!went_well(world, store_backup_start(world->store, dir, &backup, err_of(world))))
        return;
    enum rc rc = freeze_wait(world, backup, &view);
    bool made = rc != RC_WAIT && went_well(world, rc);
    store_freeze_end(world->store, backup);
    if (made)
        backup_check(world, dir);
}

/* ---- crashes ---- */

/* A journal that can be written again has taken the refused turn back for good. */
static void crash_prepare(struct world *world)
{
    if (world->store && !is_read_only(world))
        world->has_failed = false;
}

void world_process_end(struct world *world)
{
    crash_prepare(world);
    store_abandon(world->store);
    world->store = NULL;
    file_sim_process_end(world->sim);
}

void world_power_cut(struct world *world, bool torn, uint64_t seed)
{
    struct rand rand;
    rand_init_seed(&rand, seed);
    crash_prepare(world);
    file_sim_power_cut(world->sim, torn, &rand);
    store_abandon(world->store);
    world->store = NULL;
}

static uint32_t turn_read(struct world *world)
{
    uint32_t turn = 0;
    struct bytes value;
    struct store_group group = {world->turn_prefix, BYTES("number")};
    enum rc rc = RC_COLD;
    store_begin(world->store, 0);
    while (rc == RC_COLD) {
        rc = store_get(world->store, group, bytes_of("", 0), &value, err_of(world));
        if (rc == RC_COLD)
            ASSERT_OK(load(world), &world->err);
    }
    if (rc != RC_NOT_FOUND) {
        ASSERT_OK(rc, &world->err);
        ASSERT_EQ(value.len, sizeof turn);
        memcpy(&turn, value.ptr, sizeof turn);
    }
    store_undo(world->store);
    return turn;
}

void world_settle(struct world *world, uint64_t lsn)
{
    uint32_t turn = turn_read(world);
    if (world->has_failed && world->failed.turn == turn) {
        world->acked = world->failed;
        world->history[world->history_count++] = world->failed;
    } else {
        while (world->history_count > 1 && world->history[world->history_count - 1].turn > turn)
            world->history_count--;
        world->acked = world->history[world->history_count - 1];
    }
    ASSERT_EQ(world->acked.turn, turn);
    ASSERT_GE(world->acked.lsn, lsn);
    world->has_failed = false;
    world->now = world->acked;
    ASSERT_GE(store_last_lsn(world->store), world->acked.lsn);
}

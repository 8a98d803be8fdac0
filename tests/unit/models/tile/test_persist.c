// SPDX-License-Identifier: Apache-2.0
/* test_persist.c - tiles against time: turns that fail, shards that change between two runs of
 * a command. */
#include <stdio.h>

#include "base/file_sim.h"
#include "base/mem.h"
#include "store/engine/engine_memory.h"
#include "store/turns.h"
#include "test.h"
#include "models/tile/tile.h"
#include "types/spaces.h"

#include "base/banned.h"

struct fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock; /* by hand: nothing is persisted unless it is asked for */
    struct store *store;
    struct kv kv;
    struct tasks *tasks;
    struct tiles *tiles;
    struct err err;
};

static void wake_nobody(void *arg)
{
    (void)arg;
}

static void fix_init(struct fix *fix)
{
    static const char *const types[] = {"imagery=0", "tm=1", "q2=2"};
    struct ns *ns;
    *fix = (struct fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    struct store_options options = {.dir = "db",
                                    .spaces = types_spaces,
                                    .space_count = TYPES_SPACE_COUNT,
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = 64 << 20,
                                    .disk_reserve_bytes = 0};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    kv_init(&fix->kv, fix->store, &fix->clock);
    ASSERT_OK(kv_ns_open(&fix->kv, 0, BYTES("a"), &ns, &fix->err), &fix->err);
    ASSERT_OK(kv_ns_open(&fix->kv, 1, BYTES("b"), &ns, &fix->err), &fix->err);
    ASSERT_OK(kv_ns_open(&fix->kv, 2, BYTES("c"), &ns, &fix->err), &fix->err);
    fix->tasks = tasks_new(&(struct tasks_options){.store = fix->store, .clock = &fix->clock});
    ASSERT_OK(tiles_open(&(struct tiles_options){.kv = &fix->kv,
                                                 .tasks = fix->tasks,
                                                 .clock = &fix->clock,
                                                 .types = types,
                                                 .type_count = ARRAY_LEN(types),
                                                 .sqlite_dir = test_temp_dir(),
                                                 .clear = true,
                                                 .batch_count = 1000000,
                                                 .interval_ms = 3600000,
                                                 .cache_bytes = 1 << 20,
                                                 .open_shards = 8,
                                                 .wake = wake_nobody},
                         &fix->tiles, &fix->err),
              &fix->err);
}

static void fix_done(struct fix *fix)
{
    tiles_close(fix->tiles);
    tasks_free(fix->tasks);
    kv_done(&fix->kv);
    (void)store_close(fix->store, &fix->err);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
}

static void turn(struct fix *fix)
{
    tasks_turn(fix->tasks);
    tiles_turn(fix->tiles);
}

static void persist_all(struct fix *fix)
{
    uint64_t lsn = store_last_lsn(fix->store);
    tiles_sync_ask(fix->tiles, lsn);
    while (!tiles_is_synced(fix->tiles, lsn))
        turn(fix);
}

/* ---- commands ---- */

struct command {
    struct task task;
    struct fix *fix;
    struct tile_type *type;
    struct tilekey key;
    const char *data; /* NULL: it is removed, or asked for */
    bool asks, at;
    bool pauses; /* after it has what it has asked for first, until the test goes on */
    int run_count;
    void *waiter;
    bool over;
    enum rc rc;
    char found[32];
};

static enum rc command_try(struct command *command, struct err *err)
{
    struct tiles *tiles = command->fix->tiles;
    struct tile_found found;
    bool existed;
    if (command->data)
        return tile_set(
            tiles, command->type, command->key,
            &(struct tile_value){.data = bytes_of(command->data, strlen(command->data))}, err);
    if (!command->asks)
        return tile_del(tiles, command->type, command->key, &existed, err);
    enum rc rc = command->at ? tile_get_at(tiles, command->type, command->key, &found, err)
                             : tile_get(tiles, command->type, command->key, &found, err);
    if (rc == RC_OK)
        snprintf(command->found, sizeof command->found, "%.*s", (int)found.value.data.len,
                 (const char *)found.value.data.ptr);
    if (rc == RC_NOT_FOUND)
        snprintf(command->found, sizeof command->found, "none");
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc command_run(struct task *task, struct store *store, struct err *err)
{
    struct command *command = (struct command *)task;
    (void)store;
    if (++command->run_count == 2 && command->pauses) {
        task_wait_event(task);
        return RC_WAIT;
    }
    struct run run;
    run_begin(&run, &command->fix->kv, NULL, 0);
    enum rc rc = run_end(&run, command_try(command, err));
    if (rc == RC_COLD && tiles_wait(command->fix->tiles, &command->waiter, task))
        task_wait_event(task);
    return rc;
}

static void command_done(struct task *task, enum rc rc, const struct err *err)
{
    struct command *command = (struct command *)task;
    (void)err;
    tile_waiter_free(command->waiter);
    command->over = true;
    command->rc = rc;
}

static void command_start(struct fix *fix, struct command *command, const char *type)
{
    command->fix = fix;
    command->type = tiles_type(fix->tiles, bytes_of(type, strlen(type)));
    command->task.run = command_run;
    command->task.done = command_done;
    task_start(fix->tasks, &command->task);
}

static enum rc command_do(struct fix *fix, struct command command, const char *type)
{
    command_start(fix, &command, type);
    while (!command.over)
        turn(fix);
    return command.rc;
}

static void expect(struct fix *fix, struct command command, const char *type, const char *found)
{
    command.asks = true;
    command_start(fix, &command, type);
    while (!command.over)
        turn(fix);
    ASSERT_RC(command.rc, RC_OK);
    ASSERT_STR(command.found, found);
}

static const struct tilekey key = {.packed = UINT64_C(0x1b00000000000004)};
static const struct tilekey key_50 = {.packed = UINT64_C(0x1b00000000000004), .ms = 50};
static const struct tilekey key_60 = {.packed = UINT64_C(0x1b00000000000004), .ms = 60};

/* ---- the tests ---- */

/* The job reads marks in the turn that wrote them, and that turn cannot be written. */
static void change_and_fail(struct fix *fix, struct command change)
{
    command_start(fix, &change, "imagery");
    tiles_sync_ask(fix->tiles, store_last_lsn(fix->store) + 1);
    tiles_turn(fix->tiles); /* the job is ready as well */
    file_sim_arm(fix->sim, &(struct file_sim_fault){
                               .op = FILE_SIM_WRITE, .count = 1, .times = 1, .rc = RC_FULL});
    while (!change.over)
        turn(fix);
    ASSERT_TRUE(change.rc != RC_OK);
    do { /* until the journal has found that there is room again */
        clock_advance_ms(&fix->clock, 1000);
        change = (struct command){.key = {.packed = 1}, .data = "x"};
    } while (command_do(fix, change, "imagery") != RC_OK);
    persist_all(fix);
}

TEST(a_set_that_was_refused_reaches_no_shard)
{
    struct fix fix;
    fix_init(&fix);
    ASSERT_RC(command_do(&fix, (struct command){.key = key, .data = "old"}, "imagery"), RC_OK);
    persist_all(&fix);
    change_and_fail(&fix, (struct command){.key = key, .data = "refused"});
    expect(&fix, (struct command){.key = key}, "imagery", "old");
    fix_done(&fix);
}

TEST(a_delete_that_was_refused_reaches_no_shard)
{
    struct fix fix;
    fix_init(&fix);
    ASSERT_RC(command_do(&fix, (struct command){.key = key, .data = "old"}, "imagery"), RC_OK);
    persist_all(&fix);
    expect(&fix, (struct command){.key = key}, "imagery",
           "old"); /* cached: the delete is one run */
    change_and_fail(&fix, (struct command){.key = key});
    expect(&fix, (struct command){.key = key}, "imagery", "old");
    fix_done(&fix);
}

/* A command that waits holds what it has read while marks are persisted and cleared. */
static void at_while_persisting(struct fix *fix, struct command change, const char *found)
{
    struct command get = {.key = key_60, .asks = true, .at = true, .pauses = true};
    ASSERT_RC(command_do(fix, (struct command){.key = key_50, .data = "old"}, "tm"), RC_OK);
    persist_all(fix);
    ASSERT_RC(command_do(fix, change, "tm"), RC_OK);
    command_start(fix, &get, "tm");
    while (get.run_count < 2)
        turn(fix);
    persist_all(fix);
    task_wake(&get.task);
    while (!get.over)
        turn(fix);
    ASSERT_RC(get.rc, RC_OK);
    ASSERT_STR(get.found, found);
}

TEST(the_newest_not_after_is_never_one_that_was_replaced_meanwhile)
{
    struct fix fix;
    fix_init(&fix);
    at_while_persisting(&fix, (struct command){.key = key_50, .data = "new"}, "new");
    fix_done(&fix);
}

TEST(the_newest_not_after_is_never_one_that_was_deleted_meanwhile)
{
    struct fix fix;
    fix_init(&fix);
    at_while_persisting(&fix, (struct command){.key = key_50}, "none");
    fix_done(&fix);
}

/* ---- damaged rows and marks ---- */

struct raw { /* a row of the store, past the model */
    struct task task;
    uint32_t prefix;
    struct bytes type, suffix, value;
    bool sets; /* of metadata, as a command does */
    struct tiles *tiles;
    bool over;
};

static enum rc raw_run(struct task *task, struct store *store, struct err *err)
{
    struct raw *raw = (struct raw *)task;
    struct store_group group = {.prefix = raw->prefix, .key = raw->type};
    bool changed;
    if (raw->sets)
        return tile_meta_set(raw->tiles, tiles_type(raw->tiles, raw->type),
                             be64_get(raw->suffix.ptr), raw->value, &changed, err);
    return store_put(store, group, raw->suffix, raw->value, err);
}

static void raw_done(struct task *task, enum rc rc, const struct err *err)
{
    (void)err;
    ASSERT_RC(rc, RC_OK);
    ((struct raw *)task)->over = true;
}

static void raw_do(struct fix *fix, uint8_t space, struct raw raw)
{
    raw.task = (struct task){.run = raw_run, .done = raw_done};
    raw.tiles = fix->tiles;
    ASSERT_OK(store_prefix(fix->store, space, BYTES(""), &raw.prefix, &fix->err), &fix->err);
    task_start(fix->tasks, &raw.task);
    while (!raw.over)
        turn(fix);
}

static void raw_put(struct fix *fix, uint8_t space, struct bytes suffix, struct bytes value)
{
    raw_do(fix, space, (struct raw){.type = BYTES("imagery"), .suffix = suffix, .value = value});
}

static struct tilekey key_of(const char *text)
{
    struct tilekey found = {0};
    struct err err;
    ASSERT_RC(tilekey_parse(bytes_of(text, strlen(text)), &found.packed, &err), RC_OK);
    return found;
}

static struct bytes packed_of(const char *text, uint8_t to[TILEKEY_TM_BYTES])
{
    return bytes_of(to, tilekey_put(key_of(text), false, to));
}

static void tile_put(struct fix *fix, const char *text, const char *data)
{
    ASSERT_RC(command_do(fix, (struct command){.key = key_of(text), .data = data}, "imagery"),
              RC_OK);
}

static void persist_all_but_the_damaged(struct fix *fix)
{
    uint64_t rounds = tiles_failed_rounds(fix->tiles);
    tiles_sync_ask(fix->tiles, store_last_lsn(fix->store));
    while (tiles_failed_rounds(fix->tiles) == rounds)
        turn(fix);
}

TEST(a_damaged_mark_or_row_is_passed_over_and_told_and_all_others_are_persisted)
{
    struct fix fix;
    struct tiles_stats stats;
    uint8_t bytes[TILEKEY_TM_BYTES];
    char many[16];
    fix_init(&fix);
    tile_put(&fix, "0", "first");
    raw_put(&fix, SPACE_TILEMARK, packed_of("1", bytes), BYTES("no mark"));
    raw_put(&fix, SPACE_TILE, packed_of("12", bytes), BYTES("\xff")); /* no header */
    raw_put(&fix, SPACE_TILEMARK, packed_of("12", bytes), BYTES("S\0\0\0\0\0\0\0\1\1"));
    raw_put(&fix, SPACE_TILEMARK, packed_of("13", bytes), BYTES("S\0\0\0\0\0\0\0\1\1"));
    for (int i = 0; i < 300; i++) { /* more than are read in one step */
        snprintf(many, sizeof many, "x%d", i);
        raw_put(&fix, SPACE_TILEMARK, bytes_of(many, strlen(many)), BYTES("?"));
    }
    tile_put(&fix, "3", "last");
    persist_all_but_the_damaged(&fix);
    tiles_stats(fix.tiles, &stats);
    ASSERT_EQ(stats.persisted, 2);
    ASSERT_EQ(stats.damaged, 303);
    ASSERT_TRUE(strstr(tiles_trouble(fix.tiles), "the tile 1 of type imagery") != NULL);
    expect(&fix, (struct command){.key = key_of("0")}, "imagery", "first");
    expect(&fix, (struct command){.key = key_of("3")}, "imagery", "last");
    tile_put(&fix, "1", "again");
    tile_put(&fix, "12", "again");
    persist_all_but_the_damaged(&fix);
    tiles_stats(fix.tiles, &stats);
    ASSERT_EQ(stats.persisted, 4);
    ASSERT_EQ(stats.damaged, 301);
    fix_done(&fix);
}

/* ---- ranges over what is damaged ---- */

struct range {
    struct task task;
    struct tile_scan *scan;
    bool over;
    enum rc rc;
    struct err err;
};

static enum rc range_run(struct task *task, struct store *store, struct err *err)
{
    (void)store;
    return tile_scan_step(((struct range *)task)->scan, task, err);
}

static void range_done(struct task *task, enum rc rc, const struct err *err)
{
    struct range *range = (struct range *)task;
    range->over = true;
    range->rc = rc;
    range->err = *err;
}

static struct range range_do(struct fix *fix, const char *root, bool counting)
{
    struct range range = {.task = {.run = range_run, .done = range_done}};
    struct tile_scan_options options = {.type = tiles_type(fix->tiles, BYTES("imagery")),
                                        .root = key_of(root).packed,
                                        .level_to = TILE_LEVEL_MAX,
                                        .ms_to = TILE_MS_MAX,
                                        .count_max = 10,
                                        .status = -1,
                                        .counting = counting};
    range.scan = tile_scan_new(fix->tiles, &options);
    task_start(fix->tasks, &range.task);
    while (!range.over)
        turn(fix);
    tile_scan_free(range.scan);
    return range;
}

TEST(a_range_over_a_damaged_mark_names_its_tile_and_others_do_not_meet_it)
{
    struct fix fix;
    uint8_t bytes[TILEKEY_TM_BYTES];
    fix_init(&fix);
    tile_put(&fix, "0", "first");
    tile_put(&fix, "213", "last");
    raw_put(&fix, SPACE_TILEMARK, packed_of("21", bytes), BYTES("no mark"));
    raw_put(&fix, SPACE_TILEMARK, BYTES("\xff\xee"), BYTES("no key"));
    for (int counting = 0; counting < 2; counting++) {
        struct range range = range_do(&fix, "2", counting);
        ASSERT_RC(range.rc, RC_CORRUPT);
        ASSERT_TRUE(strstr(range.err.text, "the tile \"21\" of type imagery") != NULL);
        range = range_do(&fix, "3", counting);
        ASSERT_RC(range.rc, RC_CORRUPT);
        ASSERT_TRUE(strstr(range.err.text, "type imagery") != NULL);
        ASSERT_TRUE(strstr(range.err.text, "ffee") != NULL);
        ASSERT_RC(range_do(&fix, "0", counting).rc, RC_OK);
        ASSERT_RC(range_do(&fix, "213", counting).rc, RC_OK);
    }
    tile_put(&fix, "21", "again");
    ASSERT_RC(range_do(&fix, "2", false).rc, RC_OK);
    fix_done(&fix);
}

TEST(a_damaged_set_of_metadata_is_repaired_by_setting_it_again)
{
    struct fix fix;
    struct tiles_stats stats;
    uint8_t bytes[TILEKEY_TM_BYTES];
    struct raw row = {.type = BYTES("q2"), .suffix = packed_of("0123", bytes)};
    fix_init(&fix);
    row.value = BYTES("\x09 no status");
    raw_do(&fix, SPACE_TILEMETA, row);
    row.value = BYTES("data");
    row.sets = true;
    raw_do(&fix, SPACE_TILEMETA, row);
    persist_all(&fix);
    tiles_stats(fix.tiles, &stats);
    ASSERT_EQ(stats.persisted, 1);
    ASSERT_EQ(stats.damaged, 0);
    fix_done(&fix);
}

TEST(the_interval_passes_whatever_the_wall_clock_does)
{
    struct fix fix;
    struct tiles_stats stats = {0};
    fix_init(&fix);
    persist_all(&fix); /* what an earlier run may have left */
    tile_put(&fix, "0", "x");
    fix.clock.unix_ms -= 10 * 3600000;
    clock_advance_ms(&fix.clock, 3600000 + 1);
    while (stats.persisted == 0) {
        turn(&fix);
        tiles_stats(fix.tiles, &stats);
    }
    tile_put(&fix, "1", "x");
    fix.clock.unix_ms += 10 * 3600000; /* is not the interval */
    for (int i = 0; i < 100; i++)
        turn(&fix);
    tiles_stats(fix.tiles, &stats);
    ASSERT_EQ(stats.persisted, 1);
    fix_done(&fix);
}

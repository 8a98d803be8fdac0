// SPDX-License-Identifier: Apache-2.0
/* test_load.c - full load on a store with threads, RocksDB and real files: the engine stays quick
 * to read, memory stays within its bound whatever is created and dropped, a backup can be made
 * meanwhile, and LSNs only grow, also through a restore. Costs are compared as CPU time within one
 * run. */
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/mem.h"
#include "store/restore.h"
#include "store/turns.h"
#include "support_child.h"
#include "support_live.h"
#include "test.h"

#include "base/banned.h"

enum {
    META = 1,
    DATA = 2,
    MIB = 1024 * 1024,
    TURN_COMMITS = 16,
    L0_FILES_MAX = 12,
    SEEK_COST_MAX = 5, /* times the idle one */
    SEEKS_MIN = 200,   /* under load, however long they take */
    FLUSH_UNITS_MIN = 5,
    SEEK_GROUPS = 4000,
    SEEK_ROWS = 64, /* that a group can have */
    SEEKS_IDLE = 2000,
    SEEKS_MAX = 20000,
    GROUPS_CI = 200 * 1000,
    GROUPS_LONG = 1000 * 1000,
    GROUPS_ALIVE = 5000,
    GROUP_ROWS = 3,
    RSS_OVER_HOT = 256 * MIB,
};

static const struct store_space spaces[] = {
    {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
};

struct load {
    struct live live;
    struct clock clock;
    struct rand rand;
    uint32_t meta, data, counter;
    uint64_t seek_ns[SEEKS_MAX];
    size_t seek_count;
    char dir[512];
};

static void load_open(struct load *load, size_t hot_bytes)
{
    struct live *live = &load->live;
    struct store_options options = {.dir = load->dir,
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .hot_memory_bytes = hot_bytes,
                                    .segment_bytes = hot_bytes / 32,
                                    .flush_unit_bytes = hot_bytes / 8,
                                    .cache_bytes = 16 * MIB,
                                    .disk_reserve_bytes = 0,
                                    .durability = DURABILITY_EVERYSEC};
    live_open(live, &options);
    live_ok(live, store_prefix(live->store, META, BYTES("m"), &load->meta, &live->err));
    live_ok(live, store_prefix(live->store, DATA, BYTES("d"), &load->data, &live->err));
    live_ok(live, store_counter(live->store, BYTES("commits"), &load->counter, &live->err));
}

static struct load *load_new(const char *dir)
{
    struct load *load = mem_zalloc(sizeof *load);
    clock_init(&load->clock);
    rand_init_seed(&load->rand, 11);
    snprintf(load->dir, sizeof load->dir, "%s", dir);
    return load;
}

static struct store_group group_of(const struct load *load, uint64_t number, uint8_t key[8])
{
    be64_put(key, number);
    return (struct store_group){load->data, bytes_of(key, 8)};
}

/* ---- seeks under load ---- */

static void write_random(struct load *load)
{
    struct live *live = &load->live;
    uint8_t key[8], suffix[8], value[64];
    live_room(live);
    for (int i = 0; i < TURN_COMMITS; i++) {
        rand_bytes(&load->rand, value, sizeof value);
        be64_put(suffix, rand_below(&load->rand, SEEK_ROWS));
        store_begin(live->store, 0);
        live_ok(live,
                store_put(live->store, group_of(load, rand_below(&load->rand, SEEK_GROUPS), key),
                          bytes_of(suffix, 8), bytes_of(value, sizeof value), &live->err));
        live_commit(live);
    }
    live_write(live);
}

/* Reads some rows of a group from the engine; its CPU time is kept. Cold means cold: caches are not
 * filled, or the seeks of an idle engine would soon be warm, and those under load never. */
static void seek(struct load *load)
{
    struct live *live = &load->live;
    struct engine *engine = store_engine(live->store);
    CLEANUP(buf_done) struct buf from;
    CLEANUP(buf_done) struct buf to;
    uint8_t name[9] = {'d'};
    struct engine_iter *iter;
    struct bytes key, value;
    buf_init(&from, SIZE_MAX);
    buf_init(&to, SIZE_MAX);
    be64_put(name + 1, rand_below(&load->rand, SEEK_GROUPS));
    child_require(
        space_group_range_add(store_spaces(live->store), DATA, bytes_of(name, 9), &from, &to),
        "no memory for a range");
    struct engine_range range = {
        .lower = buf_bytes(&from), .upper = buf_bytes(&to), .one_group = true, .once = true};
    uint64_t before_ns = clock_thread_cpu_ns();
    live_ok(live, engine->ops->iter_open(engine, NULL, &range, &iter, &live->err));
    enum rc rc = RC_OK;
    for (int i = 0; rc == RC_OK && i < 10; i++)
        rc = engine->ops->iter_next(iter, &key, &value, &live->err);
    engine->ops->iter_close(iter);
    child_require(rc == RC_OK || rc == RC_NOT_FOUND, "%s", live->err.text);
    uint64_t ns = clock_thread_cpu_ns() - before_ns;
    uint64_t place = load->seek_count++;
    if (place >= SEEKS_MAX) /* a fair part of all that were made */
        place = rand_below(&load->rand, load->seek_count);
    if (place < SEEKS_MAX)
        load->seek_ns[place] = ns;
}

static int ns_order(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* And begins a new series. */
static uint64_t seeks_median(struct load *load)
{
    size_t count = load->seek_count < SEEKS_MAX ? load->seek_count : SEEKS_MAX;
    qsort(load->seek_ns, count, sizeof load->seek_ns[0], ns_order);
    uint64_t median = load->seek_ns[count / 2];
    load->seek_count = 0;
    return median;
}

/* The engine at rest: everything flushed, and nothing left to compact. Returns the files in L0. */
static uint64_t rest(struct load *load)
{
    struct live *live = &load->live;
    struct engine *engine = store_engine(live->store);
    struct engine_pressure pressure;
    live_flush(live);
    live_ok(live, engine->ops->compact_all(engine, &live->err));
    engine->ops->pressure(engine, &pressure);
    return pressure.l0_file_count;
}

/* The middle of what a seek costs before and after the load. */
static uint64_t idle_median(struct load *load, const uint64_t *before_ns)
{
    for (int i = 0; i < SEEKS_IDLE; i++)
        seek(load);
    memcpy(load->seek_ns + SEEKS_IDLE, before_ns, SEEKS_IDLE * sizeof *before_ns);
    load->seek_count = 2 * SEEKS_IDLE;
    return seeks_median(load);
}

static void seek_child(void *arg)
{
    struct load *load = load_new(arg);
    struct store_stats stats;
    load_open(load, 32 * MIB);
    for (int i = 0; i < SEEK_GROUPS * SEEK_ROWS / TURN_COMMITS; i++)
        write_random(load);
    uint64_t l0_before = rest(load);
    for (int i = 0; i < SEEKS_IDLE; i++)
        seek(load);
    uint64_t before_ns[SEEKS_IDLE];
    memcpy(before_ns, load->seek_ns, sizeof before_ns);
    load->seek_count = 0;

    uint64_t seconds = test_is_long() ? 60 : 10, l0_max = 0, turns = 0;
    uint64_t until_ns = clock_mono_ns(&load->clock) + seconds * UINT64_C(1000000000);
    store_stats(load->live.store, &stats);
    for (; clock_mono_ns(&load->clock) < until_ns || load->seek_count < SEEKS_MIN ||
           stats.flush_unit_count < FLUSH_UNITS_MIN;
         turns++) {
        write_random(load);
        if (turns % 4 == 0)
            seek(load);
        if (turns % 16 != 0)
            continue;
        store_stats(load->live.store, &stats);
        if (stats.pressure.l0_file_count > l0_max)
            l0_max = stats.pressure.l0_file_count;
    }
    size_t seeks = load->seek_count;
    uint64_t busy_ns = seeks_median(load);
    uint64_t l0_after = rest(load);
    uint64_t idle_ns = idle_median(load, before_ns);
    printf("%llu turns, %llu units, at most %llu files in L0 (at rest %llu and %llu); a seek: "
           "%llu ns idle, %llu ns under load (%zu)\n",
           (unsigned long long)turns, (unsigned long long)stats.flush_unit_count,
           (unsigned long long)l0_max, (unsigned long long)l0_before, (unsigned long long)l0_after,
           (unsigned long long)idle_ns, (unsigned long long)busy_ns, seeks);
    child_require(l0_max <= L0_FILES_MAX, "too many files in L0");
    child_require(busy_ns <= SEEK_COST_MAX * idle_ns, "seeks got too dear");
    live_close(&load->live);
    mem_free(load);
}

TEST(full_write_load_leaves_the_engine_quick_to_read)
{
    child_run(seek_child, (void *)(uintptr_t)test_temp_dir());
}

/* ---- many small groups ---- */

static uint64_t group_total(void)
{
    return test_is_long() ? GROUPS_LONG : GROUPS_CI;
}

/* Makes a group, and drops the one that was made some time before. */
static void group_turnover(struct load *load, uint64_t number)
{
    struct live *live = &load->live;
    uint8_t key[8], suffix[8];
    store_begin(live->store, 0);
    struct store_group group = group_of(load, number, key);
    for (uint64_t i = 0; i < GROUP_ROWS; i++) {
        be64_put(suffix, i);
        live_ok(live,
                store_put(live->store, group, bytes_of(suffix, 8), bytes_of(key, 8), &live->err));
    }
    if (number >= GROUPS_ALIVE) {
        enum rc rc =
            store_group_drop(live->store, group_of(load, number - GROUPS_ALIVE, key), &live->err);
        child_require(rc == RC_OK, "group %llu: %s", (unsigned long long)number, live->err.text);
    }
    live_commit(live);
}

static void memory_check(struct load *load)
{
    struct store_stats stats;
    store_stats(load->live.store, &stats);
    child_require(stats.hot_bytes <= stats.hot_bytes_max, "%llu bytes are hot, %llu allowed",
                  (unsigned long long)stats.hot_bytes, (unsigned long long)stats.hot_bytes_max);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    size_t rss = mem_resident_bytes();
    child_require(rss <= stats.hot_bytes_max + RSS_OVER_HOT, "%zu bytes are resident", rss);
#endif
}

static void group_check(struct load *load, uint64_t number, bool alive)
{
    struct bytes value;
    uint8_t key[8], suffix[8];
    be64_put(suffix, number % GROUP_ROWS);
    store_begin(load->live.store, 0);
    enum rc rc = live_get(&load->live, group_of(load, number, key), bytes_of(suffix, 8), &value);
    child_require((rc == RC_OK) == alive, "group %llu: %s", (unsigned long long)number,
                  rc_name(rc));
    store_undo(load->live.store);
}

static void groups_child(void *arg)
{
    struct load *load = load_new(arg);
    uint64_t total = group_total();
    load_open(load, 16 * MIB);
    for (uint64_t number = 0; number < total; number++) {
        if (number % TURN_COMMITS == 0)
            live_room(&load->live);
        group_turnover(load, number);
        if (number % TURN_COMMITS == TURN_COMMITS - 1)
            live_write(&load->live);
        if (number % 1024 == 1023)
            memory_check(load);
    }
    live_write(&load->live);
    for (int reopened = 0; reopened < 2; reopened++) {
        for (int i = 0; i < 300; i++) {
            group_check(load, rand_below(&load->rand, total - GROUPS_ALIVE), false);
            group_check(load, total - 1 - rand_below(&load->rand, GROUPS_ALIVE), true);
        }
        memory_check(load);
        live_flush(&load->live);
        live_close(&load->live);
        load_open(load, 16 * MIB);
    }
    struct store_stats stats;
    store_stats(load->live.store, &stats);
    printf("%llu groups, %zu MiB resident, %llu rows in the engine\n", (unsigned long long)total,
           mem_resident_bytes() / MIB, (unsigned long long)stats.engine.row_count_estimate);
    live_close(&load->live);
    mem_free(load);
}

TEST(many_small_groups_created_and_dropped_stay_within_the_memory_bound)
{
    child_run(groups_child, (void *)(uintptr_t)test_temp_dir());
}

/* ---- backup and restore ---- */

/* Commit n puts the row n % 5000 in both spaces. */
static void commits_write(struct load *load)
{
    struct live *live = &load->live;
    uint8_t key[8], suffix[8], value[200];
    live_room(live);
    for (int i = 0; i < TURN_COMMITS; i++) {
        uint64_t number = (uint64_t)store_counter_get(live->store, load->counter) + 1;
        memset(value, (int)number, sizeof value);
        be64_put(value, number);
        be64_put(suffix, number % 5000);
        struct store_group row = {load->meta, bytes_of(suffix, 8)};
        struct bytes content = bytes_of(value, sizeof value);
        store_begin(live->store, 0);
        live_ok(live, store_put(live->store, row, bytes_of("", 0), content, &live->err));
        live_ok(live, store_put(live->store, group_of(load, number % 7, key), bytes_of(suffix, 8),
                                content, &live->err));
        live_ok(live, store_counter_add(live->store, load->counter, 1, &live->err));
        live_commit(live);
    }
    live_write(live);
}

/* Everything is there as the last commit left it. */
static void commits_check(struct load *load)
{
    struct live *live = &load->live;
    uint8_t key[8], suffix[8];
    struct bytes value;
    uint64_t last = (uint64_t)store_counter_get(live->store, load->counter);
    store_begin(live->store, 0);
    for (uint64_t number = last; number > 0 && number + 5000 > last; number--) {
        be64_put(suffix, number % 5000);
        struct store_group row = {load->meta, bytes_of(suffix, 8)};
        child_require(
            live_get(live, row, bytes_of("", 0), &value) == RC_OK && be64_get(value.ptr) == number,
            "commit %llu of %llu has no row", (unsigned long long)number, (unsigned long long)last);
        child_require(
            live_get(live, group_of(load, number % 7, key), bytes_of(suffix, 8), &value) == RC_OK &&
                be64_get(value.ptr) == number,
            "commit %llu of %llu is half there", (unsigned long long)number,
            (unsigned long long)last);
    }
    store_undo(live->store);
}

/* A backup is made while writing goes on. Returns the commit it has at least. */
static uint64_t backup_make(struct load *load, const char *dir)
{
    struct live *live = &load->live;
    struct store_freeze *backup;
    struct engine_view *view;
    uint64_t lsn;
    uint64_t first = (uint64_t)store_counter_get(live->store, load->counter);
    live_ok(live, store_backup_start(live->store, dir, &backup, &live->err));
    enum rc rc = RC_WAIT;
    while (rc == RC_WAIT) {
        commits_write(load);
        rc = store_freeze_ready(backup, &view, &lsn, &live->err);
    }
    live_ok(live, rc);
    store_freeze_end(live->store, backup);
    return first;
}

/* The backup comes back at `to`; its LSNs go on above all that were ever given. */
static uint64_t restore_check(struct load *load, const char *from, const char *to, uint64_t first,
                              uint64_t lsn_before)
{
    struct err err = {0};
    struct store_restore_result result;
    struct rand rand;
    rand_init_os(&rand);
    struct store_restore_options options = {.files = (struct files *)(uintptr_t)&files_real,
                                            .engine = &engine_rocksdb_ops,
                                            .rand = &rand,
                                            .from = from,
                                            .to = to};
    enum rc rc = store_restore(&options, &result, &err);
    child_require(rc == RC_OK, "%s", err.text);
    snprintf(load->dir, sizeof load->dir, "%s", to);
    load_open(load, 16 * MIB);
    child_require((uint64_t)store_counter_get(load->live.store, load->counter) >= first,
                  "the backup is older than its start");
    commits_check(load);
    child_require(store_lsn(load->live.store) > lsn_before, "LSNs went back by a restore");
    child_require(store_incarnation(load->live.store) == result.incarnation,
                  "the incarnation is another");
    for (int i = 0; i < 50; i++)
        commits_write(load);
    commits_check(load);
    uint64_t lsn = store_last_lsn(load->live.store);
    live_close(&load->live);
    return lsn;
}

static void backup_child(void *arg)
{
    const char *top = arg;
    char backup[300], to[300];
    struct load *load = load_new(top);
    snprintf(load->dir, sizeof load->dir, "%s/db", top);
    load_open(load, 16 * MIB);
    uint64_t first[3];
    for (int i = 0; i < 3; i++) {
        for (int turn = 0; turn < 1500; turn++)
            commits_write(load);
        snprintf(backup, sizeof backup, "%s/backup-%d", top, i);
        first[i] = backup_make(load, backup);
    }
    for (int turn = 0; turn < 500; turn++)
        commits_write(load);
    commits_check(load);
    uint32_t incarnation = store_incarnation(load->live.store);
    uint64_t lsn = store_last_lsn(load->live.store);
    live_close(&load->live);
    for (int i = 0; i < 3; i++) { /* the oldest comes last: LSNs grow all the same */
        snprintf(backup, sizeof backup, "%s/backup-%d", top, 2 - i);
        snprintf(to, sizeof to, "%s/restored-%d", top, i);
        lsn = restore_check(load, backup, to, first[2 - i], lsn);
    }
    snprintf(load->dir, sizeof load->dir, "%s/db", top);
    load_open(load, 16 * MIB);
    child_require(store_incarnation(load->live.store) == incarnation, "the original has changed");
    commits_check(load);
    live_close(&load->live);
    mem_free(load);
}

TEST(a_backup_under_load_can_be_restored_and_lsns_only_grow)
{
    child_run(backup_child, (void *)(uintptr_t)test_temp_dir());
}

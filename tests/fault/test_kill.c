// SPDX-License-Identifier: Apache-2.0
/* test_kill.c - a process that writes is ended with SIGKILL at some moment, again and again:
 * everything it has acknowledged is there, every commit is whole or absent, and only the newest
 * ones can be absent.
 *
 * Commit n writes a row in each space in slot n % SLOTS, all carrying n, and one row of a scratch
 * group that is dropped every EPOCH commits. So the last commit that is there says what every row
 * has to be. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/mem.h"
#include "store/turns.h"
#include "support_child.h"
#include "support_live.h"
#include "test.h"

#include "base/banned.h"

enum {
    META = 1,
    DATA = 2,
    TILE = 3,
    SLOTS = 1500,
    GROUPS = 8, /* of slots, in DATA and TILE */
    EPOCH = 50, /* commits between two drops */
    SCRATCH_GROUPS = 4,
    TURN_COMMITS = 8,
    VALUE_BYTES_MAX = 2048,
    ROUNDS = 200,
    ROUNDS_SANITIZED = 30,
};

static const struct store_space spaces[] = {
    {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
    {.number = TILE, .kind = SPACE_FIXED, .fixed_bytes = 8, .name = "tile"},
};

struct shared {                                /* between the processes */
    _Atomic uint64_t acked;                    /* the last commit of the last written turn */
    _Atomic uint64_t attempted;                /* the last commit that was made at all */
    _Atomic uint64_t lsn;                      /* of `acked` */
    _Atomic uint64_t evicted, flushed, loaded; /* to know that all of it happens */
};

struct round {
    const char *dir;
    struct shared *shared;
    uint64_t seed;
    enum durability durability;
    int tell_fd; /* a byte a stage: about to open, open and checked, then a turn each */
};

struct writer {
    struct live live;
    struct round *round;
    struct rand rand;
    uint32_t meta, data, tile, counter;
    uint64_t last; /* commit */
    uint8_t value[VALUE_BYTES_MAX];
};

/* ---- the rows ---- */

struct key {
    uint8_t bytes[16];
};

static struct store_group group_of(uint32_t prefix, uint64_t number, struct key *key)
{
    be64_put(key->bytes, number);
    return (struct store_group){prefix, bytes_of(key->bytes, 8)};
}

static struct store_group tile_of(const struct writer *writer, uint64_t number, struct key *key)
{
    be64_put(key->bytes, number);
    return (struct store_group){writer->tile, bytes_of(key->bytes + 1, 7)};
}

static struct bytes value_of(struct writer *writer, uint64_t number, uint64_t part)
{
    size_t len = 8 + (size_t)((number * 131 + part * 977) % (VALUE_BYTES_MAX - 8));
    memset(writer->value, (int)(number + part), len);
    be64_put(writer->value, number);
    return bytes_of(writer->value, len);
}

/* The last commit up to `last` that wrote this slot; 0: none. */
static uint64_t slot_number(uint64_t last, uint64_t slot)
{
    uint64_t number = last / SLOTS * SLOTS + slot;
    if (number > last)
        number = number >= SLOTS ? number - SLOTS : 0;
    return number;
}

static void put(struct writer *writer, struct store_group group, struct bytes suffix,
                uint64_t number, uint64_t part)
{
    struct live *live = &writer->live;
    live_ok(live,
            store_put(live->store, group, suffix, value_of(writer, number, part), &live->err));
}

static void commit_one(struct writer *writer, uint64_t number)
{
    struct live *live = &writer->live;
    struct key key, name;
    uint64_t slot = number % SLOTS;
    be64_put(name.bytes, slot);
    struct bytes suffix = bytes_of(name.bytes, 8);
    store_begin(live->store, 0);
    put(writer, group_of(writer->meta, slot, &key), bytes_of("", 0), number, 0);
    put(writer, group_of(writer->data, slot % GROUPS, &key), suffix, number, 1);
    put(writer, tile_of(writer, slot % GROUPS, &key), suffix, number, 2);
    uint64_t epoch = number / EPOCH;
    struct store_group scratch = group_of(writer->data, 1000 + epoch % SCRATCH_GROUPS, &key);
    if (number % EPOCH == 0) {
        enum rc rc = store_group_drop(live->store, scratch, &live->err);
        child_require(rc == RC_OK || rc == RC_NOT_FOUND, "%s", live->err.text);
    }
    be64_put(name.bytes, number % EPOCH);
    put(writer, scratch, suffix, number, 3);
    live_ok(live, store_counter_add(live->store, writer->counter, 1, &live->err));
    live_commit(live);
}

/* ---- checking ---- */

static void row_check(struct writer *writer, struct store_group group, struct bytes suffix,
                      uint64_t number, uint64_t part)
{
    struct bytes value;
    enum rc rc = live_get(&writer->live, group, suffix, &value);
    child_require((rc == RC_OK) == (number > 0), "commit %llu part %llu: %s",
                  (unsigned long long)number, (unsigned long long)part, rc_name(rc));
    if (rc == RC_OK)
        child_require(bytes_eq(value, value_of(writer, number, part)),
                      "commit %llu part %llu is another, of %zu bytes", (unsigned long long)number,
                      (unsigned long long)part, value.len);
}

static void slot_check(struct writer *writer, uint64_t slot)
{
    struct key key, name;
    uint64_t number = slot_number(writer->last, slot);
    be64_put(name.bytes, slot);
    struct bytes suffix = bytes_of(name.bytes, 8);
    row_check(writer, group_of(writer->meta, slot, &key), bytes_of("", 0), number, 0);
    row_check(writer, group_of(writer->data, slot % GROUPS, &key), suffix, number, 1);
    row_check(writer, tile_of(writer, slot % GROUPS, &key), suffix, number, 2);
}

/* All rows of a group of slots, in order. */
static void slots_walk(struct writer *writer, struct store_group group, uint64_t first,
                       uint64_t part)
{
    struct live *live = &writer->live;
    struct store_walk walk;
    struct bytes suffix, value;
    store_walk_init(&walk, live->store, group, false);
    for (uint64_t slot = first; slot < SLOTS; slot += GROUPS) {
        uint64_t number = slot_number(writer->last, slot);
        if (number == 0)
            continue;
        child_require(live_next(live, &walk, &suffix, &value) == RC_OK &&
                          be64_get(suffix.ptr) == slot &&
                          bytes_eq(value, value_of(writer, number, part)),
                      "slot %llu of part %llu is not that of commit %llu", (unsigned long long)slot,
                      (unsigned long long)part, (unsigned long long)number);
    }
    child_require(live_next(live, &walk, &suffix, &value) == RC_NOT_FOUND, "a row too many");
    store_walk_done(&walk);
}

/* What commits have put there since the group was dropped last. */
static void scratch_check(struct writer *writer, uint64_t index)
{
    struct live *live = &writer->live;
    struct store_walk walk;
    struct bytes suffix, value;
    struct key key;
    uint64_t epoch = writer->last / EPOCH;
    while (epoch > 0 && epoch % SCRATCH_GROUPS != index)
        epoch--;
    uint64_t number = epoch * EPOCH + (epoch == 0); /* there is no commit 0 */
    uint64_t end = epoch % SCRATCH_GROUPS == index ? (epoch + 1) * EPOCH : 0;
    store_walk_init(&walk, live->store, group_of(writer->data, 1000 + index, &key), false);
    for (; number < end && number <= writer->last; number++)
        child_require(live_next(live, &walk, &suffix, &value) == RC_OK &&
                          bytes_eq(value, value_of(writer, number, 3)),
                      "commit %llu is not in its scratch group", (unsigned long long)number);
    child_require(live_next(live, &walk, &suffix, &value) == RC_NOT_FOUND,
                  "a dropped row is there");
    store_walk_done(&walk);
}

static void all_check(struct writer *writer)
{
    struct live *live = &writer->live;
    struct key key;
    store_begin(live->store, 0);
    for (uint64_t i = 0; i < GROUPS; i++) {
        slots_walk(writer, group_of(writer->data, i, &key), i, 1);
        slots_walk(writer, tile_of(writer, i, &key), i, 2);
    }
    for (uint64_t i = 0; i < SCRATCH_GROUPS; i++)
        scratch_check(writer, i);
    /* META has a row a group: the newest commits, and a part of the others. */
    for (uint64_t i = 0; i < 200 && i < writer->last; i++)
        slot_check(writer, (writer->last - i) % SLOTS);
    for (uint64_t slot = rand_below(&writer->rand, 9); slot < SLOTS; slot += 9)
        slot_check(writer, slot);
    store_undo(live->store);
}

/* ---- the child ---- */

static void tell(struct writer *writer, char what)
{
    ssize_t written = write(writer->round->tell_fd, &what, 1);
    child_require(written == 1, "could not tell");
}

static void writer_open(struct writer *writer)
{
    struct live *live = &writer->live;
    struct shared *shared = writer->round->shared;
    struct store_options options = {.dir = writer->round->dir,
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .hot_memory_bytes = 4 << 20,
                                    .segment_bytes = 128 << 10,
                                    .flush_unit_bytes = 512 << 10,
                                    .cache_bytes = 4 << 20,
                                    .disk_reserve_bytes = 0,
                                    .durability = writer->round->durability};
    live_open(live, &options);
    live_ok(live, store_prefix(live->store, META, BYTES("m"), &writer->meta, &live->err));
    live_ok(live, store_prefix(live->store, DATA, BYTES("d"), &writer->data, &live->err));
    live_ok(live, store_prefix(live->store, TILE, BYTES("t"), &writer->tile, &live->err));
    live_ok(live, store_counter(live->store, BYTES("commits"), &writer->counter, &live->err));
    writer->last = (uint64_t)store_counter_get(live->store, writer->counter);
    child_require(writer->last >= shared->acked && writer->last <= shared->attempted,
                  "%llu commits are there, %llu were acknowledged, %llu made",
                  (unsigned long long)writer->last, (unsigned long long)shared->acked,
                  (unsigned long long)shared->attempted);
    child_require(store_last_lsn(live->store) >= shared->lsn, "LSNs went back");
}

static void writer_stats(struct writer *writer)
{
    struct store_stats stats;
    store_stats(writer->live.store, &stats);
    atomic_fetch_or(&writer->round->shared->evicted, stats.evicted_block_count > 0);
    atomic_fetch_or(&writer->round->shared->flushed, stats.flush_unit_count > 0);
    atomic_fetch_or(&writer->round->shared->loaded, stats.load_count > 0);
}

static void writer_run(void *arg)
{
    struct round *round = arg;
    struct writer *writer = mem_zalloc(sizeof *writer);
    struct shared *shared = round->shared;
    writer->round = round;
    rand_init_seed(&writer->rand, round->seed);
    tell(writer, 'o');
    writer_open(writer);
    all_check(writer);
    tell(writer, 'v');
    for (;;) {
        live_room(&writer->live);
        for (int i = 0; i < TURN_COMMITS; i++) {
            shared->attempted = writer->last + 1;
            commit_one(writer, ++writer->last);
        }
        live_write(&writer->live);
        shared->lsn = store_commit_lsn(writer->live.store);
        shared->acked = writer->last;
        tell(writer, 't');
        store_begin(writer->live.store, 0);
        slot_check(writer, rand_below(&writer->rand, SLOTS));
        store_undo(writer->live.store);
        writer_stats(writer);
    }
}

/* ---- the rounds ---- */

static int round_count(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return ROUNDS_SANITIZED;
#else
    return test_is_long() ? 10 * ROUNDS : ROUNDS;
#endif
}

/* Until the child has told so many times, or ended by itself: then the test fails. */
static void round_play(struct round *round, uint64_t tell_count)
{
    int ends[2];
    char what;
    ASSERT_EQ(pipe(ends), 0);
    round->tell_fd = ends[1];
    pid_t pid = child_start(writer_run, round);
    close(ends[1]);
    uint64_t told = 0;
    while (told < tell_count && read(ends[0], &what, 1) == 1)
        told++;
    if (told < tell_count)
        child_wait(pid); /* it has said why */
    child_kill(pid);
    close(ends[0]);
    ASSERT_EQ(told, tell_count);
}

TEST(a_killed_process_loses_nothing_it_has_acknowledged)
{
    struct rand rand;
    uint64_t seed;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(shared != MAP_FAILED);
    const char *text = getenv("TERRACE_SEED");
    rand_init_os(&rand);
    seed = text ? strtoull(text, NULL, 0) : rand_u64(&rand);
    printf("TERRACE_SEED=0x%llx\n", (unsigned long long)seed);
    rand_init_seed(&rand, seed);
    struct round round = {.dir = test_temp_dir(), .shared = shared};
    int rounds = round_count();
    for (int i = 0; i < rounds; i++) {
        round.seed = rand_u64(&rand);
        round.durability = (enum durability)(i % 3);
        /* Mostly in the middle of writing; sometimes while it opens or checks. */
        uint64_t tells =
            rand_below(&rand, 8) == 0 ? 1 + rand_below(&rand, 2) : 2 + rand_below(&rand, 60);
        round_play(&round, tells);
    }
    ASSERT_GT(shared->acked, (uint64_t)rounds);
    ASSERT_TRUE(shared->evicted);
    ASSERT_TRUE(shared->flushed);
    ASSERT_TRUE(shared->loaded);
    printf("%d rounds, %llu commits acknowledged\n", rounds, (unsigned long long)shared->acked);
    munmap(shared, sizeof *shared);
}

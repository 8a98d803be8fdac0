// SPDX-License-Identifier: Apache-2.0
/* bench_store.c - the store against RocksDB on the same rows: one line a figure, `bench store.NAME
 * VALUE UNIT`.
 *
 * 16-byte keys, 64-byte values, random order, durability everysec, one row a commit and 16 commits
 * a turn; RocksDB gets the same 16 rows as one write batch with its log on, its best case. Gets
 * come 16 a turn as well, as the server runs a pipeline: their keys are known before the first of
 * them runs, so ours begin with store_prefetch(), inside the measured time. CPU is what counts, not
 * time: the calling thread's, or all threads' including flush and compaction. Each section runs in
 * a process of its own, so memory figures start from nothing. */
#include <rocksdb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/mem.h"
#include "base/rand.h"
#include "store/hot/load.h"
#include "store/prefetch.h"
#include "store/store.h"
#include "store/testing.h"
#include "store/turns.h"

#include "base/banned.h"

enum {
    ROWS = 1000 * 1000,
    KEY_BYTES = 16,
    VALUE_BYTES = 64,
    TURN = 16,
    WALKS = 20000,
    MIB = 1024 * 1024,
    META = 1,
    DATA = 2,
};

static const struct store_space spaces[] = {
    {.number = META, .kind = SPACE_WHOLE, .name = "meta"},
    {.number = DATA, .kind = SPACE_LENGTH, .name = "data"},
};

struct bench {
    const char *dir;
    struct store *store;
    uint32_t meta, data;
    struct err err;
};

static void die(const char *what, const char *text)
{
    fprintf(stderr, "bench store: %s: %s\n", what, text);
    exit(1);
}

static void check(enum rc rc, const struct err *err, const char *what)
{
    if (rc != RC_OK)
        die(what, err->text[0] ? err->text : rc_text(rc));
}

static void figure(const char *name, double value, const char *unit)
{
    printf("bench store.%s %.3f %s\n", name, value, unit);
    fflush(stdout);
}

/* The i-th key: the same for every store, in an order that no store likes. */
static void key_at(uint64_t i, uint8_t key[KEY_BYTES])
{
    uint64_t x = i * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    be64_put(key, x);
    be64_put(key + 8, i);
}

/* Which key the i-th read asks for. */
static uint64_t read_at(uint64_t i)
{
    return i * 7919 % ROWS;
}

static void bench_open(struct bench *bench, const char *name, size_t hot_bytes, size_t unit_bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", bench->dir, name);
    struct store_options options = {.dir = path,
                                    .spaces = spaces,
                                    .space_count = ARRAY_LEN(spaces),
                                    .hot_memory_bytes = hot_bytes,
                                    .flush_unit_bytes = unit_bytes,
                                    .disk_reserve_bytes = 0,
                                    .flush_age_ms = UINT64_C(3600) * 1000,
                                    .durability = DURABILITY_EVERYSEC};
    check(store_open(&options, &bench->store, &bench->err), &bench->err, "open");
    check(store_prefix(bench->store, META, BYTES(""), &bench->meta, &bench->err), &bench->err,
          "prefix");
    check(store_prefix(bench->store, DATA, BYTES(""), &bench->data, &bench->err), &bench->err,
          "prefix");
}

static void bench_close(struct bench *bench)
{
    check(store_close(bench->store, &bench->err), &bench->err, "close");
}

static void wait_room(struct bench *bench)
{
    while (!store_room(bench->store)) {
        usleep(1000);
        store_poll(bench->store);
    }
}

/* Puts rows [from, to) as single-row groups, or as rows of one group. */
static void put_rows(struct bench *bench, uint64_t from, uint64_t to, bool one_group,
                     const uint8_t *value, size_t value_bytes)
{
    struct store *store = bench->store;
    for (uint64_t i = from; i < to;) {
        for (int n = 0; n < TURN && i < to; n++, i++) {
            uint8_t key[KEY_BYTES];
            key_at(i, key);
            struct bytes bytes = bytes_of(key, KEY_BYTES);
            struct store_group group = one_group ? (struct store_group){bench->data, BYTES("g")}
                                                 : (struct store_group){bench->meta, bytes};
            store_begin(store, 0);
            check(store_put(store, group, one_group ? bytes : BYTES(""),
                            bytes_of(value, value_bytes), &bench->err),
                  &bench->err, "put");
            store_commit(store);
        }
        check(store_write(store, &bench->err), &bench->err, "write");
        store_poll(store);
        wait_room(bench);
    }
}

static void flush_wait(struct bench *bench)
{
    uint64_t segment = store_flush_ask(bench->store);
    while (store_flush_mark(bench->store) < segment) {
        usleep(1000);
        store_poll(bench->store);
    }
}

static void compact_all(struct bench *bench)
{
    struct engine *engine = store_engine(bench->store);
    check(engine->ops->compact_all(engine, &bench->err), &bench->err, "compact_all");
}

/* ---- the peer ---- */

struct peer {
    rocksdb_t *db;
    rocksdb_column_family_handle_t *family; /* the default one */
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
};

static void peer_check(char *text, const char *what)
{
    if (text)
        die(what, text);
}

static void peer_open(struct peer *peer, const char *dir)
{
    char path[4096], *text = NULL;
    snprintf(path, sizeof path, "%s/peer", dir);
    peer->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(peer->options, 1);
    rocksdb_options_set_max_background_jobs(peer->options, 2);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(512 * MIB));
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(peer->options, table);
    const char *name = "default";
    const rocksdb_options_t *options = peer->options;
    peer->db =
        rocksdb_open_column_families(peer->options, path, 1, &name, &options, &peer->family, &text);
    peer_check(text, "rocksdb open");
    peer->read = rocksdb_readoptions_create();
    peer->write = rocksdb_writeoptions_create();
}

static void peer_put(struct peer *peer, uint64_t from, uint64_t to, const uint8_t *value)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (uint64_t i = from; i < to;) {
        char *text = NULL;
        rocksdb_writebatch_clear(batch);
        for (int n = 0; n < TURN && i < to; n++, i++) {
            uint8_t key[KEY_BYTES];
            key_at(i, key);
            rocksdb_writebatch_put(batch, (const char *)key, KEY_BYTES, (const char *)value,
                                   VALUE_BYTES);
        }
        rocksdb_write(peer->db, peer->write, batch, &text);
        peer_check(text, "rocksdb write");
    }
    rocksdb_writebatch_destroy(batch);
}

static void peer_compact_all(struct peer *peer)
{
    char *text = NULL;
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flush(peer->db, flush, &text);
    peer_check(text, "rocksdb flush");
    rocksdb_flushoptions_destroy(flush);
    uint64_t pending = 1, running = 1;
    while (pending || running) {
        usleep(10000);
        rocksdb_property_int(peer->db, "rocksdb.compaction-pending", &pending);
        rocksdb_property_int(peer->db, "rocksdb.num-running-compactions", &running);
    }
}

static void peer_get(struct peer *peer, uint64_t i)
{
    uint8_t key[KEY_BYTES];
    char *text = NULL;
    key_at(i, key);
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(peer->db, peer->read, (const char *)key, KEY_BYTES, &text);
    if (!slice)
        die("rocksdb get", "missing");
    rocksdb_pinnableslice_destroy(slice);
}

static void peer_gets(struct peer *peer, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        peer_get(peer, read_at(i));
}

/* A turn's keys in one call, which is what RocksDB offers to callers that know several. */
static void peer_gets_batched(struct peer *peer, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i += TURN) {
        uint8_t key[TURN][KEY_BYTES];
        const char *ptr[TURN];
        size_t len[TURN];
        char *text[TURN] = {0};
        rocksdb_pinnableslice_t *slice[TURN] = {0};
        for (uint64_t n = 0; n < TURN; n++) {
            key_at(read_at(i + n), key[n]);
            ptr[n] = (const char *)key[n];
            len[n] = KEY_BYTES;
        }
        rocksdb_batched_multi_get_cf(peer->db, peer->read, peer->family, TURN, ptr, len, slice,
                                     text, false);
        for (int n = 0; n < TURN; n++) {
            if (!slice[n])
                die("rocksdb multi get", "missing");
            rocksdb_pinnableslice_destroy(slice[n]);
        }
    }
}

static void peer_walk(struct peer *peer, uint64_t i)
{
    uint8_t key[KEY_BYTES];
    size_t len;
    key_at(i, key);
    rocksdb_iterator_t *iter = rocksdb_create_iterator(peer->db, peer->read);
    rocksdb_iter_seek(iter, (const char *)key, KEY_BYTES);
    for (int n = 0; n < 100 && rocksdb_iter_valid(iter); n++) {
        rocksdb_iter_value(iter, &len);
        rocksdb_iter_next(iter);
    }
    rocksdb_iter_destroy(iter);
}

static void peer_walks(struct peer *peer, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        peer_walk(peer, read_at(i));
}

static void our_get(struct bench *bench, struct store_group group)
{
    struct bytes value;
    if (store_get(bench->store, group, BYTES(""), &value, &bench->err) != RC_OK)
        die("get", "missing");
}

static void our_gets(struct bench *bench, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i += TURN) {
        uint8_t key[TURN][KEY_BYTES];
        struct store_group group[TURN];
        for (uint64_t n = 0; n < TURN; n++) {
            key_at(read_at(i + n), key[n]);
            group[n] = (struct store_group){bench->meta, bytes_of(key[n], KEY_BYTES)};
        }
        store_prefetch(bench->store, group, TURN);
        for (int n = 0; n < TURN; n++)
            our_get(bench, group[n]);
    }
}

/* Each key is known only when its turn has come. */
static void our_gets_single(struct bench *bench, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        uint8_t key[KEY_BYTES];
        key_at(read_at(i), key);
        our_get(bench, (struct store_group){bench->meta, bytes_of(key, KEY_BYTES)});
    }
}

static void our_walk(struct bench *bench, uint64_t i)
{
    uint8_t key[KEY_BYTES];
    struct bytes suffix, value;
    struct store_walk walk;
    key_at(i, key);
    store_walk_init(&walk, bench->store, (struct store_group){bench->data, BYTES("g")}, false);
    check(store_walk_seek(&walk, bytes_of(key, KEY_BYTES), &bench->err), &bench->err, "seek");
    for (int n = 0; n < 100; n++)
        if (store_walk_next(&walk, &suffix, &value, &bench->err) != RC_OK)
            break;
    store_walk_done(&walk);
}

static void our_walks(struct bench *bench, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        our_walk(bench, read_at(i));
}

/* ---- sections ---- */

/* A virtual machine may have to get a page that was free for some seconds from its host again, at
 * a hundred times the usual price. What both sides are about to use is touched just before. */
static void touch_memory(size_t bytes)
{
    uint8_t *piece = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED)
        die("memory", "could not map any");
    for (size_t at = 0; at < bytes; at += 4096)
        piece[at] = 1;
    munmap(piece, bytes);
}

static void random_value(uint8_t *value, size_t bytes)
{
    struct rand rand;
    rand_init_seed(&rand, 7);
    rand_bytes(&rand, value, bytes);
}

/* Machines are noisy, so both sides take turns and the median of the slices' ratios counts. */
enum { SLICES = 10 };
struct slices {
    double ours[SLICES], peer[SLICES]; /* nanoseconds of CPU an operation */
};

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(const double *values)
{
    double sorted[SLICES];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, SLICES, sizeof *sorted, compare_doubles);
    return (sorted[SLICES / 2 - 1] + sorted[SLICES / 2]) / 2;
}

static void slices_print(const struct slices *slices, const char *name)
{
    double ratio[SLICES];
    char text[64];
    for (int i = 0; i < SLICES; i++)
        ratio[i] = slices->ours[i] / slices->peer[i];
    figure(name, median(ratio), "x");
    snprintf(text, sizeof text, "%s_ns", name);
    figure(text, median(slices->ours), "ns");
    snprintf(text, sizeof text, "%s_peer_ns", name);
    figure(text, median(slices->peer), "ns");
}

struct read_kind {
    const char *name;
    uint64_t count;
    void (*peer)(struct peer *peer, uint64_t first, uint64_t count);
    void (*ours)(struct bench *bench, uint64_t first, uint64_t count);
};
_Static_assert(ROWS / SLICES % TURN == 0, "a slice is whole turns");

static void slice_put(struct slices *slices, int n, struct bench *bench, struct peer *peer,
                      const uint8_t *value)
{
    uint64_t from = (uint64_t)n * (ROWS / SLICES), to = from + ROWS / SLICES;
    uint64_t start = clock_thread_cpu_ns();
    peer_put(peer, from, to, value);
    uint64_t middle = clock_thread_cpu_ns();
    put_rows(bench, from, to, false, value, VALUE_BYTES);
    uint64_t end = clock_thread_cpu_ns();
    slices->peer[n] = (double)(middle - start) / (ROWS / SLICES);
    slices->ours[n] = (double)(end - middle) / (ROWS / SLICES);
}

static void slice_read(struct slices *slices, int n, uint64_t count, struct bench *bench,
                       struct peer *peer, const struct read_kind *kind)
{
    uint64_t first = (uint64_t)n * count;
    uint64_t start = clock_thread_cpu_ns();
    kind->peer(peer, first, count);
    uint64_t middle = clock_thread_cpu_ns();
    kind->ours(bench, first, count);
    uint64_t end = clock_thread_cpu_ns();
    slices->peer[n] = (double)(middle - start) / (double)count;
    slices->ours[n] = (double)(end - middle) / (double)count;
}

/* Both sides read the same rows in the same order. */
static void reads_print(struct bench *bench, struct peer *peer)
{
    static const struct read_kind kinds[] = {
        {"get_hot", ROWS, peer_gets, our_gets},
        {"get_hot_single", ROWS, peer_gets, our_gets_single},
        {"get_hot_batched", ROWS, peer_gets_batched, our_gets},
        {"walk100", WALKS, peer_walks, our_walks},
    };
    struct slices slices;
    store_begin(bench->store, 0);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        for (int n = 0; n < SLICES; n++)
            slice_read(&slices, n, kinds[i].count / SLICES, bench, peer, &kinds[i]);
        slices_print(&slices, kinds[i].name);
    }
    store_undo(bench->store);
}

/* What no store can be faster than: the journal's bytes copied once, one hash probe. */
static double floor_cost(void)
{
    enum { RECORD = 4 + 1 + 1 + 1 + KEY_BYTES + 1 + 1 + VALUE_BYTES };
    size_t slots = 2 * ROWS;
    uint64_t *table = mem_zalloc(slots * sizeof *table);
    uint8_t *journal = mem_zalloc(MIB), record[RECORD] = {0}, key[KEY_BYTES];
    uint64_t sum = 0, mine = clock_thread_cpu_ns();
    for (uint64_t i = 0; i < ROWS; i++) {
        key_at(i, key);
        memcpy(record + 7, key, KEY_BYTES);
        memcpy(journal + i * RECORD % (MIB - RECORD), record, RECORD);
        sum += ++table[be64_get(key) % slots];
    }
    double cost = (double)(clock_thread_cpu_ns() - mine) / ROWS;
    if (sum == 0)
        die("floor", "nothing was counted");
    mem_free(table);
    mem_free(journal);
    return cost;
}

static double section_cpu(const char *dir)
{
    struct bench bench = {.dir = dir};
    struct peer peer;
    struct slices slices;
    uint8_t value[VALUE_BYTES];
    random_value(value, sizeof value);
    peer_open(&peer, dir);
    bench_open(&bench, "ours", 2048 * (size_t)MIB, 0);
    touch_memory(1024 * (size_t)MIB);
    for (int n = 0; n < SLICES; n++)
        slice_put(&slices, n, &bench, &peer, value);
    slices_print(&slices, "put_cpu");
    double least = floor_cost();
    figure("put_floor_ns", least, "ns");
    figure("put_over_floor", median(slices.ours) / least, "x");

    flush_wait(&bench);
    compact_all(&bench);
    peer_compact_all(&peer);
    put_rows(&bench, 0, ROWS, true, value, sizeof value);
    for (uint64_t i = 0; i < ROWS; i++) /* the peer's block cache is warm */
        peer_get(&peer, i);
    reads_print(&bench, &peer);
    bench_close(&bench);
    return 0;
}

/* All threads, until there is nothing left to flush or compact. */
static double all_peer(const char *dir)
{
    struct peer peer;
    uint8_t value[VALUE_BYTES];
    random_value(value, sizeof value);
    peer_open(&peer, dir);
    touch_memory(1024 * (size_t)MIB);
    uint64_t start = clock_process_cpu_ns();
    peer_put(&peer, 0, ROWS, value);
    peer_compact_all(&peer);
    return (double)(clock_process_cpu_ns() - start) / ROWS;
}

static double all_ours(const char *dir)
{
    struct bench bench = {.dir = dir};
    uint8_t value[VALUE_BYTES];
    random_value(value, sizeof value);
    bench_open(&bench, "ours", 1024 * (size_t)MIB, 0);
    touch_memory(1024 * (size_t)MIB);
    uint64_t start = clock_process_cpu_ns();
    put_rows(&bench, 0, ROWS, false, value, sizeof value);
    flush_wait(&bench);
    compact_all(&bench);
    double cost = (double)(clock_process_cpu_ns() - start) / ROWS;
    bench_close(&bench);
    return cost;
}

static void remove_dir(const char *dir)
{
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "could not remove \"%s\"\n", dir);
}

/* In a process and a directory of its own, so that CPU and memory are its own. */
static double run_alone(double (*fn)(const char *dir))
{
    char dir[] = "/tmp/terrace-bench-XXXXXX";
    int pipe_fd[2], status = 1;
    double result = 0;
    if (!mkdtemp(dir) || pipe(pipe_fd) != 0)
        die("temporary directory", dir);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        result = fn(dir);
        _exit(write(pipe_fd[1], &result, sizeof result) != (ssize_t)sizeof result);
    }
    close(pipe_fd[1]);
    if (read(pipe_fd[0], &result, sizeof result) != (ssize_t)sizeof result)
        result = -1;
    close(pipe_fd[0]);
    waitpid(child, &status, 0);
    remove_dir(dir);
    if (status != 0)
        die("section", "failed");
    return result;
}

static void section_cpu_all(void)
{
    enum { ROUNDS = 3 };
    double ours[ROUNDS], peer[ROUNDS], ratio[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        peer[i] = run_alone(all_peer);
        ours[i] = run_alone(all_ours);
        ratio[i] = ours[i] / peer[i];
    }
    qsort(ours, ROUNDS, sizeof *ours, compare_doubles);
    qsort(peer, ROUNDS, sizeof *peer, compare_doubles);
    qsort(ratio, ROUNDS, sizeof *ratio, compare_doubles);
    figure("put_cpu_all", ratio[ROUNDS / 2], "x");
    figure("put_cpu_all_ns", ours[ROUNDS / 2], "ns");
    figure("put_cpu_all_peer_ns", peer[ROUNDS / 2], "ns");
}

/* Growth of resident memory a row. The first rows fill what does not grow with the data (the
 * journal's buffers, the turn's), so growth is counted from there to a million rows more. */
static double section_mem(const char *dir, bool one_group, const char *name)
{
    enum { WARM = 400 * 1000 };
    struct bench bench = {.dir = dir};
    uint8_t value[VALUE_BYTES];
    random_value(value, sizeof value);
    bench_open(&bench, name, 4096 * (size_t)MIB, 2048 * (size_t)MIB);
    put_rows(&bench, 0, WARM, one_group, value, sizeof value);
    size_t before = mem_resident_bytes();
    put_rows(&bench, WARM, WARM + ROWS, one_group, value, sizeof value);
    figure(name, (double)(mem_resident_bytes() - before) / ROWS, "B");
    bench_close(&bench);
    return 0;
}

static double section_mem_single(const char *dir)
{
    return section_mem(dir, false, "mem_single");
}

static double section_mem_group(const char *dir)
{
    return section_mem(dir, true, "mem_group");
}

static void nothing(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    (void)arg;
}

static void get_cold(struct bench *bench, uint64_t i)
{
    uint8_t key[KEY_BYTES];
    struct load_waiter waiter = {.ready = nothing};
    struct bytes value;
    key_at(i, key);
    for (;;) {
        store_begin(bench->store, 0);
        enum rc rc =
            store_get(bench->store, (struct store_group){bench->meta, bytes_of(key, KEY_BYTES)},
                      BYTES(""), &value, &bench->err);
        store_undo(bench->store);
        if (rc == RC_OK)
            break;
        if (rc != RC_COLD)
            die("get", rc_text(rc));
        if (store_wait(bench->store, &waiter))
            while (waiter.pending_count)
                store_poll(bench->store);
    }
    store_wait_release(bench->store, &waiter);
    load_waiter_done(&waiter);
    store_poll(bench->store);
}

static double section_rss(const char *dir)
{
    enum { HOT = 128 * MIB, VALUE = 400, TIMES = 20, READS = 100 * 1000 };
    struct bench bench = {.dir = dir};
    uint8_t value[VALUE];
    uint64_t rows = (uint64_t)TIMES * HOT / (KEY_BYTES + VALUE);
    size_t peak = 0;
    random_value(value, sizeof value);
    bench_open(&bench, "rss", HOT, 0);
    for (uint64_t i = 0; i < rows; i += rows / 100) {
        put_rows(&bench, i, i + rows / 100 < rows ? i + rows / 100 : rows, false, value,
                 sizeof value);
        size_t now = mem_resident_bytes();
        peak = now > peak ? now : peak;
    }
    struct rand rand;
    rand_init_seed(&rand, 3);
    for (int i = 0; i < READS; i++) {
        get_cold(&bench, rand_below(&rand, rows));
        size_t now = i % 1000 ? 0 : mem_resident_bytes();
        peak = now > peak ? now : peak;
    }
    figure("rss_bound", (double)peak / (HOT + 256 * MIB), "x");
    figure("rss_peak", (double)peak / MIB, "MiB");
    bench_close(&bench);
    return 0;
}

/* Open after a crash: the same unflushed bytes over few and many flushed rows. */
static double open_cost(const char *dir, const char *name, uint64_t flushed)
{
    enum { UNFLUSHED = 50 * 1000 };
    struct bench bench = {.dir = dir};
    struct clock clock;
    uint8_t value[VALUE_BYTES];
    random_value(value, sizeof value);
    clock_init(&clock);
    bench_open(&bench, name, 256 * (size_t)MIB, 0);
    put_rows(&bench, 0, flushed, false, value, sizeof value);
    flush_wait(&bench);
    compact_all(&bench);
    put_rows(&bench, flushed, flushed + UNFLUSHED, false, value, sizeof value);
    store_abandon(bench.store);
    uint64_t start = clock_mono_ns(&clock);
    bench_open(&bench, name, 256 * (size_t)MIB, 0);
    double cost = (double)(clock_mono_ns(&clock) - start) / 1e6;
    bench_close(&bench);
    return cost;
}

/* Rows of one large group, known 16 at a time: what a pipeline of HSET and HGET asks of the store.
 */
static void rows_turn(struct bench *bench, uint64_t first, bool change)
{
    static const uint8_t value[VALUE_BYTES];
    struct store_group group = {bench->data, BYTES("g")};
    uint8_t key[TURN][KEY_BYTES];
    struct store_row row[TURN];
    for (uint64_t n = 0; n < TURN; n++) {
        key_at(read_at(first + n), key[n]);
        row[n] = (struct store_row){group, bytes_of(key[n], KEY_BYTES)};
    }
    store_prefetch_rows(bench->store, row, TURN);
    for (int n = 0; n < TURN; n++) {
        struct bytes found;
        bool is_new;
        store_begin(bench->store, 0);
        check(change ? store_put_tell(bench->store, group, row[n].suffix,
                                      bytes_of(value, VALUE_BYTES), &is_new, &bench->err)
                     : store_get(bench->store, group, row[n].suffix, &found, &bench->err),
              &bench->err, "row");
        store_commit(bench->store);
    }
}

static double section_rows(const char *dir)
{
    uint8_t value[VALUE_BYTES] = {0};
    struct bench bench = {.dir = dir};
    bench_open(&bench, "rows", (size_t)4096 * MIB, (size_t)512 * MIB);
    put_rows(&bench, 0, ROWS, true, value, VALUE_BYTES);
    for (int change = 0; change < 2; change++) {
        uint64_t spent = 0;
        for (uint64_t i = 0; i < ROWS; i += TURN) {
            uint64_t start = clock_thread_cpu_ns();
            rows_turn(&bench, i, change);
            spent += clock_thread_cpu_ns() - start;
            check(store_write(bench.store, &bench.err), &bench.err, "write");
            store_poll(bench.store);
        }
        figure(change ? "row_put_ns" : "row_get_ns", (double)spent / ROWS, "ns");
    }
    bench_close(&bench);
    return 0;
}

static double section_open(const char *dir)
{
    double small = open_cost(dir, "open-small", 100 * 1000);
    double large = open_cost(dir, "open-large", 10 * 1000 * 1000);
    figure("open_100k", small, "ms");
    figure("open_10m", large, "ms");
    figure("open_ratio", large / small, "x");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double (*run)(const char *dir);
    } sections[] = {{"mem_single", section_mem_single},
                    {"mem_group", section_mem_group},
                    {"cpu", section_cpu},
                    {"rows", section_rows},
                    {"rss", section_rss},
                    {"open", section_open}};
    const char *only = argc > 1 ? argv[1] : NULL;
    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        if (!only || strcmp(only, sections[i].name) == 0)
            run_alone(sections[i].run);
    if (!only || strcmp(only, "cpu_all") == 0)
        section_cpu_all();
    return 0;
}

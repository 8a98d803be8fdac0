// SPDX-License-Identifier: Apache-2.0
/* test_engine_reopen.c - an engine is closed and opened again under readers. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rand.h"
#include "contract/support_engine.h"
#include "store/engine/engine.h"
#include "test.h"

#include "base/banned.h"

enum { READERS = 3, REOPENS = 40 };

static void older_readers_end(struct engine_fix *fix)
{
    struct engine_view *view = NULL;
    struct engine_iter *iter = NULL, *of_view = NULL, *late = NULL;
    struct engine_range range = {0};
    struct bytes key, value;
    CLEANUP(buf_done) struct buf got;
    buf_init(&got, SIZE_MAX);
    engine_fix_unit(fix, "+wa=1 +wb=2");
    ASSERT_OK(fix->ops->view_open(fix->engine, &view, &fix->err), &fix->err);
    ASSERT_OK(fix->ops->iter_open(fix->engine, NULL, &range, &iter, &fix->err), &fix->err);
    ASSERT_OK(fix->ops->iter_open(fix->engine, view, &range, &of_view, &fix->err), &fix->err);
    ASSERT_OK(fix->ops->iter_next(iter, &key, &value, &fix->err), &fix->err);

    ASSERT_OK(fix->ops->reopen(fix->engine, &fix->err), &fix->err);
    ASSERT_TRUE(key.len > 0 && value.len > 0); /* what was given stays until the next call */
    ASSERT_RC(fix->ops->iter_next(iter, &key, &value, &fix->err), RC_IO);
    ASSERT_RC(fix->ops->iter_next(of_view, &key, &value, &fix->err), RC_IO);
    ASSERT_RC(fix->ops->iter_open(fix->engine, view, &range, &late, &fix->err), RC_IO);
    ASSERT_STR(engine_fix_get(fix, view, "wa"), "RC_IO");
    fix->ops->iter_close(of_view);
    fix->ops->view_close(fix->engine, view);
    fix->ops->iter_close(iter);

    ASSERT_STR(engine_fix_all(fix), "wa=1 wb=2");
    engine_fix_unit(fix, "-wa +wc=3");
    ASSERT_STR(engine_fix_all(fix), "wb=2 wc=3");
}

TEST(views_and_iterators_end_when_the_engine_is_opened_again)
{
    engine_fix_each(older_readers_end);
}

/* ---- readers beside it ---- */

struct reader {
    struct engine_fix *fix;
    _Atomic bool stop;
    _Atomic uint64_t read_count, ended_count;
};

/* Every row it is given is whole, and the only error is that the engine was opened again. */
static void reader_scan(struct reader *reader)
{
    const struct engine_ops *ops = reader->fix->ops;
    struct engine *engine = reader->fix->engine;
    struct engine_range range = {0};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    struct err err = {0};
    uint64_t count = 0;
    enum rc rc = ops->iter_open(engine, NULL, &range, &iter, &err);
    while (rc == RC_OK && (rc = ops->iter_next(iter, &key, &value, &err)) == RC_OK) {
        ASSERT_EQ(key.len, value.len);
        for (size_t i = 1; i < key.len; i++)
            ASSERT_EQ(key.ptr[i], value.ptr[i]);
        count++;
    }
    ops->iter_close(iter);
    ASSERT_TRUE(rc == RC_NOT_FOUND || rc == RC_IO);
    ASSERT_TRUE(rc == RC_IO || count == 100);
    atomic_fetch_add(rc == RC_IO ? &reader->ended_count : &reader->read_count, 1);
}

static void *reader_run(void *arg)
{
    struct reader *reader = arg;
    while (!atomic_load(&reader->stop))
        reader_scan(reader);
    return NULL;
}

static void reopened_beside_readers(struct engine_fix *fix)
{
    struct reader reader = {.fix = fix};
    pthread_t thread[READERS];
    engine_fix_begin(fix);
    for (int i = 0; i < 100; i++) {
        char word[32];
        snprintf(word, sizeof word, "+w%03d=w%03d", i, i);
        engine_fix_add(fix, word);
    }
    engine_fix_apply(fix);
    for (int i = 0; i < READERS; i++)
        ASSERT_EQ(pthread_create(&thread[i], NULL, reader_run, &reader), 0);
    for (int i = 0; i < REOPENS; i++) {
        uint64_t before = atomic_load(&reader.read_count);
        ASSERT_OK(fix->ops->reopen(fix->engine, &fix->err), &fix->err);
        while (atomic_load(&reader.read_count) == before)
            continue; /* somebody has read all of it since */
    }
    atomic_store(&reader.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
}

TEST(readers_beside_an_engine_that_is_opened_again_see_whole_rows_or_an_error)
{
    engine_fix_each(reopened_beside_readers);
}

/* Views whose last reader leaves at any moment of a reopen: each snapshot is released once, and of
 * the database that it was made of. An iterator outlives its view. */
static void *viewer_run(void *arg)
{
    struct reader *reader = arg;
    const struct engine_ops *ops = reader->fix->ops;
    struct engine *engine = reader->fix->engine;
    struct engine_range range = {0};
    while (!atomic_load(&reader->stop)) {
        struct engine_view *view = NULL;
        struct engine_iter *iter = NULL;
        struct bytes key, value;
        struct err err = {0};
        if (ops->view_open(engine, &view, &err) != RC_OK)
            continue;
        enum rc rc = ops->iter_open(engine, view, &range, &iter, &err);
        ops->view_close(engine, view);
        if (rc == RC_OK)
            rc = ops->iter_next(iter, &key, &value, &err);
        ops->iter_close(iter);
        ASSERT_TRUE(rc == RC_OK || rc == RC_IO);
        atomic_fetch_add(rc == RC_OK ? &reader->read_count : &reader->ended_count, 1);
    }
    return NULL;
}

static void reopened_beside_views(struct engine_fix *fix)
{
    struct reader reader = {.fix = fix};
    pthread_t thread[READERS];
    engine_fix_unit(fix, "+wa=1 +wb=2");
    for (int i = 0; i < READERS; i++)
        ASSERT_EQ(pthread_create(&thread[i], NULL, viewer_run, &reader), 0);
    for (int i = 0; i < REOPENS; i++) {
        uint64_t before = atomic_load(&reader.read_count);
        ASSERT_OK(fix->ops->reopen(fix->engine, &fix->err), &fix->err);
        while (atomic_load(&reader.read_count) == before)
            continue;
        engine_fix_unit(fix, "+wc=3 ~wx:wy"); /* releases those that nobody uses any more */
    }
    atomic_store(&reader.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    ASSERT_STR(engine_fix_all(fix), "wa=1 wb=2 wc=3");
}

TEST(views_that_end_while_the_engine_is_opened_again_are_released_once)
{
    CLEANUP(engine_fix_done) struct engine_fix fix;
    engine_fix_init(&fix, &engine_rocksdb_ops);
    reopened_beside_views(&fix);
}

/* ---- RocksDB ---- */

TEST(rocksdb_that_cannot_be_opened_again_answers_errors_until_it_can)
{
    CLEANUP(engine_fix_done) struct engine_fix fix;
    char current[600], away[600];
    struct engine_pressure pressure;
    struct engine_unit *unit = NULL;
    engine_fix_init(&fix, &engine_rocksdb_ops);
    engine_fix_unit(&fix, "+wa=1");
    snprintf(current, sizeof current, "%s/CURRENT", fix.dir);
    snprintf(away, sizeof away, "%s/CURRENT.away", fix.dir);

    ASSERT_EQ(rename(current, away), 0);
    ASSERT_EQ(mkdir(current, 0700), 0);
    ASSERT_TRUE(fix.ops->reopen(fix.engine, &fix.err) != RC_OK);
    fix.ops->pressure(fix.engine, &pressure);
    ASSERT_TRUE(pressure.closed);
    ASSERT_STR(engine_fix_get(&fix, NULL, "wa"), "RC_IO");
    ASSERT_RC(fix.ops->unit_open(fix.engine, &unit, &fix.err), RC_IO);
    ASSERT_RC(fix.ops->checkpoint(fix.engine, "unused", &fix.err), RC_IO);

    ASSERT_EQ(rmdir(current), 0);
    ASSERT_EQ(rename(away, current), 0);
    ASSERT_OK(fix.ops->reopen(fix.engine, &fix.err), &fix.err);
    ASSERT_STR(engine_fix_all(&fix), "wa=1");
}

/* ---- reading everything ---- */

static uint64_t read_bytes(void)
{
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    ASSERT_TRUE(file && fscanf(file, "rchar: %llu", &bytes) == 1);
    fclose(file);
    return bytes;
}

static void damage_count(void *arg, const char *text)
{
    (void)text;
    ++*(int *)arg;
}

/* A unit of keys w000 to w399 in steps, with values that do not compress. */
static uint64_t wide_unit(struct engine_fix *fix, struct rand *rand, int first)
{
    enum { VALUE_BYTES = 8192 };
    uint8_t value[VALUE_BYTES];
    char key[16];
    uint64_t bytes = 0;
    engine_fix_begin(fix);
    for (int i = first; i < 400; i += 3) {
        snprintf(key, sizeof key, "w%03d", i);
        for (size_t at = 0; at < sizeof value; at += 8)
            memcpy(value + at, &(uint64_t){rand_u64(rand)}, 8);
        ASSERT_OK(fix->ops->unit_put(fix->unit, bytes_of(key, strlen(key)),
                                     bytes_of(value, sizeof value), &fix->err),
                  &fix->err);
        bytes += sizeof value;
    }
    engine_fix_apply(fix);
    return bytes;
}

TEST(rocksdb_tables_that_lie_over_one_another_are_verified_by_one_read)
{
    CLEANUP(engine_fix_done) struct engine_fix fix;
    struct rand rand;
    uint64_t bytes = 0;
    int damaged = 0;
    rand_init_seed(&rand, 1);
    engine_fix_init(&fix, &engine_rocksdb_ops);
    for (int i = 0; i < 3; i++)
        bytes += wide_unit(&fix, &rand, i);
    uint64_t before = read_bytes();
    ASSERT_OK(fix.ops->verify(fix.engine, damage_count, &damaged, &fix.err), &fix.err);
    uint64_t read = read_bytes() - before;
    ASSERT_EQ(damaged, 0);
    ASSERT_TRUE(read > bytes / 10 * 9); /* some blocks are in the cache */
    ASSERT_LT(read, 2 * bytes);         /* once a table it was three times as much */
}

// SPDX-License-Identifier: Apache-2.0
/* test_engine_model.c - random units and reads on every engine beside a naive map. */
#include "store/engine/engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/rand.h"
#include "contract/support_engine.h"
#include "test.h"

#include "base/banned.h"

/* Two engines get the same units and have to give the same answers. */

enum { KEY_BYTES_MAX = 16, EVENTS_MAX = 48, VIEWS_MAX = 3 };

struct key {
    uint8_t bytes[KEY_BYTES_MAX];
    size_t len;
};

struct pair {
    struct engine_fix a;
    struct engine_fix b;
    struct engine_view *view_a[VIEWS_MAX];
    struct engine_view *view_b[VIEWS_MAX];
    struct rand rand;
};

static struct bytes key_bytes(const struct key *key)
{
    return bytes_of(key->bytes, key->len);
}

/* Small alphabets, so that keys meet again and are prefixes of one another. */
static struct key random_key(struct rand *rand)
{
    static const char spaces[] = "fgllww";
    static const uint8_t some[] = {0, 'a', 'b', 0xff};
    struct key key = {.len = 1};
    key.bytes[0] = (uint8_t)spaces[rand_below(rand, sizeof spaces - 1)];
    size_t more = rand_below(rand, 3);
    if (key.bytes[0] == 'l') {
        key.bytes[key.len++] = (uint8_t)rand_below(rand, 3);
        more += key.bytes[1];
    } else {
        more += 2;
    }
    while (more-- > 0)
        key.bytes[key.len++] = some[rand_below(rand, sizeof some)];
    return key;
}

static void pair_init(struct pair *pair, uint64_t seed)
{
    *pair = (struct pair){0};
    engine_fix_init(&pair->a, &engine_memory_ops);
    engine_fix_init(&pair->b, &engine_rocksdb_ops);
    rand_init_seed(&pair->rand, seed);
}

static void pair_views_close(struct pair *pair)
{
    for (int i = 0; i < VIEWS_MAX; i++) {
        pair->a.ops->view_close(pair->a.engine, pair->view_a[i]);
        pair->b.ops->view_close(pair->b.engine, pair->view_b[i]);
        pair->view_a[i] = NULL;
        pair->view_b[i] = NULL;
    }
}

static void pair_done(struct pair *pair)
{
    pair_views_close(pair);
    engine_fix_done(&pair->a);
    engine_fix_done(&pair->b);
}

static void pair_put(struct pair *pair, struct bytes key, struct bytes value)
{
    ASSERT_OK(pair->a.ops->unit_put(pair->a.unit, key, value, &pair->a.err), &pair->a.err);
    ASSERT_OK(pair->b.ops->unit_put(pair->b.unit, key, value, &pair->b.err), &pair->b.err);
}

/* What one refuses, the other refuses. */
static void pair_delete_range(struct pair *pair, struct bytes from, struct bytes to)
{
    enum rc rc = pair->a.ops->unit_delete_range(pair->a.unit, from, to, &pair->a.err);
    ASSERT_RC(pair->b.ops->unit_delete_range(pair->b.unit, from, to, &pair->b.err), rc);
}

static void pair_delete(struct pair *pair, struct bytes key)
{
    enum rc rc = pair->a.ops->unit_delete(pair->a.unit, key, &pair->a.err);
    ASSERT_RC(pair->b.ops->unit_delete(pair->b.unit, key, &pair->b.err), rc);
}

static void pair_begin(struct pair *pair)
{
    engine_fix_begin(&pair->a);
    engine_fix_begin(&pair->b);
}

static void pair_apply(struct pair *pair)
{
    engine_fix_apply(&pair->a);
    engine_fix_apply(&pair->b);
}

static int key_compare(const void *a, const void *b)
{
    return bytes_cmp(key_bytes(a), key_bytes(b));
}

static void random_range(struct pair *pair, struct bytes from)
{
    struct key to = random_key(&pair->rand);
    if (rand_below(&pair->rand, 4) == 0)
        to = (struct key){.bytes = {(uint8_t)(from.ptr[0] + 1)}, .len = 1};
    else if (rand_below(&pair->rand, 2) == 0)
        to.bytes[0] = from.ptr[0];
    pair_delete_range(pair, from, key_bytes(&to)); /* many are bad, and refused alike */
}

static void random_unit(struct pair *pair)
{
    struct key keys[EVENTS_MAX];
    size_t count = rand_below(&pair->rand, EVENTS_MAX);
    uint8_t value[32];

    for (size_t i = 0; i < count; i++)
        keys[i] = random_key(&pair->rand);
    qsort(keys, count, sizeof keys[0], key_compare);
    pair_begin(pair);
    for (size_t i = 0; i < count; i++) {
        struct bytes key = key_bytes(&keys[i]);
        bool repeated = i > 0 && bytes_eq(key, key_bytes(&keys[i - 1]));
        uint64_t dice = rand_below(&pair->rand, 20);
        if (dice < 2)
            random_range(pair, key);
        if (dice == 3)
            random_range(pair, key_bytes(&keys[rand_below(&pair->rand, i + 1)]));
        if (dice < 7 || repeated) {
            pair_delete(pair, key);
            continue;
        }
        rand_bytes(&pair->rand, value, sizeof value);
        pair_put(pair, key, bytes_of(value, rand_below(&pair->rand, sizeof value)));
    }
    if (rand_below(&pair->rand, 10) == 0) {
        engine_fix_drop(&pair->a);
        engine_fix_drop(&pair->b);
        return;
    }
    pair_apply(pair);
}

static size_t compare_range(struct pair *pair, int view, const struct engine_range *range)
{
    const struct engine_ops *ops_a = pair->a.ops, *ops_b = pair->b.ops;
    struct engine_view *view_a = view < 0 ? NULL : pair->view_a[view];
    struct engine_view *view_b = view < 0 ? NULL : pair->view_b[view];
    struct engine_iter *a = NULL, *b = NULL;
    struct bytes key_a, key_b, value_a, value_b;
    size_t count = 0;

    ASSERT_OK(ops_a->iter_open(pair->a.engine, view_a, range, &a, &pair->a.err), &pair->a.err);
    ASSERT_OK(ops_b->iter_open(pair->b.engine, view_b, range, &b, &pair->b.err), &pair->b.err);
    for (;;) {
        enum rc rc = ops_a->iter_next(a, &key_a, &value_a, &pair->a.err);
        ASSERT_RC(ops_b->iter_next(b, &key_b, &value_b, &pair->b.err), rc);
        if (rc != RC_OK)
            break;
        ASSERT_BYTES(key_a, key_b);
        ASSERT_BYTES(value_a, value_b);
        count++;
    }
    ops_a->iter_close(a);
    ops_b->iter_close(b);
    return count;
}

static void compare_get(struct pair *pair, int view, struct bytes key)
{
    struct engine_view *view_a = view < 0 ? NULL : pair->view_a[view];
    struct engine_view *view_b = view < 0 ? NULL : pair->view_b[view];
    buf_cut(&pair->a.text, 0);
    buf_cut(&pair->b.text, 0);
    enum rc rc =
        pair->a.ops->get(pair->a.engine, view_a, key, ENGINE_TIER_ALL, &pair->a.text, &pair->a.err);
    ASSERT_RC(
        pair->b.ops->get(pair->b.engine, view_b, key, ENGINE_TIER_ALL, &pair->b.text, &pair->b.err),
        rc);
    if (rc == RC_OK) {
        ASSERT_BYTES(buf_bytes(&pair->a.text), buf_bytes(&pair->b.text));
        if (view < 0)
            ASSERT_TRUE(pair->b.ops->may_have(pair->b.engine, key));
    }
    buf_cut(&pair->b.text, 0);
    enum rc cached = pair->b.ops->get(pair->b.engine, view_b, key, ENGINE_TIER_MEMORY,
                                      &pair->b.text, &pair->b.err);
    ASSERT_TRUE(cached == rc || cached == RC_COLD);
    if (cached == RC_OK)
        ASSERT_BYTES(buf_bytes(&pair->a.text), buf_bytes(&pair->b.text));
}

/* The range of the group of this key, cut at random in front. */
static void compare_group(struct pair *pair, int view, const struct key *key, bool reverse)
{
    struct bytes group, suffix;
    uint8_t space;
    struct buf from, to;
    buf_init(&from, 64);
    buf_init(&to, 64);
    if (space_key_split(&pair->a.spaces, key_bytes(key), &space, &group, &suffix, NULL) == RC_OK) {
        ASSERT_TRUE(space_group_range_add(&pair->a.spaces, space, group, &from, &to));
        struct engine_range range = {.lower = buf_bytes(&from), .upper = buf_bytes(&to)};
        range.reverse = reverse;
        range.one_group = true;
        compare_range(pair, view, &range);
        range.lower = key_bytes(key);
        compare_range(pair, view, &range);
    }
    buf_done(&from);
    buf_done(&to);
}

static void random_reads(struct pair *pair)
{
    int view = (int)rand_below(&pair->rand, VIEWS_MAX + 1) - 1;
    if (view >= 0 && !pair->view_a[view])
        view = -1;
    for (int i = 0; i < 8; i++) {
        struct key lower = random_key(&pair->rand), upper = random_key(&pair->rand);
        bool reverse = rand_below(&pair->rand, 2) == 0;
        compare_get(pair, view, key_bytes(&lower));
        compare_group(pair, view, &upper, reverse);
        struct engine_range range = {
            .lower = bytes_of(lower.bytes, rand_below(&pair->rand, lower.len + 1)),
            .upper = bytes_of(upper.bytes, rand_below(&pair->rand, upper.len + 1)),
            .reverse = reverse,
            .one_group = rand_below(&pair->rand, 3) == 0,
        };
        compare_range(pair, view, &range);
    }
}

static void random_view(struct pair *pair)
{
    size_t i = rand_below(&pair->rand, VIEWS_MAX);
    if (pair->view_a[i]) {
        pair->a.ops->view_close(pair->a.engine, pair->view_a[i]);
        pair->b.ops->view_close(pair->b.engine, pair->view_b[i]);
        pair->view_a[i] = NULL;
        pair->view_b[i] = NULL;
        return;
    }
    ASSERT_OK(pair->a.ops->view_open(pair->a.engine, &pair->view_a[i], &pair->a.err), &pair->a.err);
    ASSERT_OK(pair->b.ops->view_open(pair->b.engine, &pair->view_b[i], &pair->b.err), &pair->b.err);
}

TEST(random_units_give_the_same_answers_from_both_engines)
{
    struct pair pair;
    struct engine_range all = {0};
    int unit_count = test_is_long() ? 20000 : 400;

    pair_init(&pair, 1);
    for (int i = 0; i < unit_count; i++) {
        random_unit(&pair);
        random_reads(&pair);
        if (rand_below(&pair.rand, 20) == 0)
            random_view(&pair);
        if (rand_below(&pair.rand, 100) == 0)
            ASSERT_OK(pair.b.ops->compact_all(pair.b.engine, &pair.b.err), &pair.b.err);
        if (rand_below(&pair.rand, 300) == 0) {
            pair_views_close(&pair);
            engine_fix_reopen(&pair.a);
            engine_fix_reopen(&pair.b);
        }
        if (i % 10 == 0) {
            all.reverse = !all.reverse;
            compare_range(&pair, -1, &all);
        }
    }
    pair_done(&pair);
}

/* ---- many groups in large files: the filters and indexes are in parts ---- */

enum { GROUPS = 1 << 16, GROUPS_A_UNIT = GROUPS / 16 };

static struct key group_key(uint32_t group, uint8_t suffix)
{
    struct key key = {.bytes = {'f', (uint8_t)(group >> 8), (uint8_t)group, suffix}, .len = 4};
    return key;
}

static void put_groups(struct pair *pair, uint32_t first, uint32_t end, uint32_t step)
{
    uint8_t value[8];
    pair_begin(pair);
    for (uint32_t group = first; group < end; group += step) {
        for (uint8_t suffix = 1; suffix <= 2; suffix++) {
            struct key key = group_key(group, suffix);
            be64_put(value, rand_u64(&pair->rand));
            pair_put(pair, key_bytes(&key), bytes_of(value, sizeof value));
        }
    }
    pair_apply(pair);
}

static void drop_groups(struct pair *pair)
{
    pair_begin(pair);
    for (uint32_t group = 5; group + 300 < GROUPS; group += 701) {
        struct key from = group_key(group, 0);
        struct key to = group_key(group + (group % 3 ? 1 : 300), 0);
        pair_delete_range(pair, bytes_of(from.bytes, 3), bytes_of(to.bytes, 3));
        pair_put(pair, key_bytes(&from), BYTES("kept"));
    }
    pair_apply(pair);
}

static void compare_groups(struct pair *pair)
{
    for (uint32_t group = 0; group < GROUPS; group += 13) {
        struct key key = group_key(group, 1);
        compare_group(pair, -1, &key, group % 5 == 0);
        compare_get(pair, -1, key_bytes(&key));
    }
    struct engine_range all = {0};
    ASSERT_GT(compare_range(pair, -1, &all), GROUPS / 4);
    all.reverse = true;
    compare_range(pair, -1, &all);
}

TEST(every_group_is_found_in_files_with_many)
{
    struct pair pair;
    pair_init(&pair, 2);
    for (uint32_t group = 0; group < GROUPS; group += GROUPS_A_UNIT) /* files side by side */
        put_groups(&pair, group, group + GROUPS_A_UNIT, 2);
    compare_groups(&pair);
    put_groups(&pair, 0, GROUPS, 3); /* one file over all of them */
    drop_groups(&pair);
    compare_groups(&pair);
    for (uint32_t i = 0; i < 6; i++)
        put_groups(&pair, i, GROUPS, 97 + i);
    ASSERT_OK(pair.b.ops->compact_all(pair.b.engine, &pair.b.err), &pair.b.err);
    drop_groups(&pair);
    compare_groups(&pair);
    engine_fix_reopen(&pair.b);
    compare_groups(&pair);
    pair_done(&pair);
}

/* ---- units that overlap little: their files come to lie side by side, above and below ---- */

enum { NARROW_GROUPS = 600, NARROW_WIDTH_MAX = 12 };

static void narrow_rows(struct pair *pair, uint32_t from, uint32_t to)
{
    bool drops = rand_below(&pair->rand, 4) == 0;
    uint64_t puts = rand_below(&pair->rand, 4); /* of four */
    uint8_t value[8];
    if (drops) {
        struct key first = group_key(from, 0), end = group_key(to, 0);
        pair_delete_range(pair, bytes_of(first.bytes, 3), bytes_of(end.bytes, 3));
    }
    for (uint32_t group = from; group < to; group++) {
        struct key key = group_key(group, (uint8_t)rand_below(&pair->rand, 3));
        if (rand_below(&pair->rand, 4) < puts) {
            be64_put(value, rand_u64(&pair->rand));
            pair_put(pair, key_bytes(&key), bytes_of(value, sizeof value));
        } else if (!drops) {
            pair_delete(pair, key_bytes(&key));
        }
    }
}

static void narrow_unit(struct pair *pair)
{
    uint32_t from = (uint32_t)rand_below(&pair->rand, NARROW_GROUPS);
    uint32_t to = from + 1 + (uint32_t)rand_below(&pair->rand, NARROW_WIDTH_MAX);
    pair_begin(pair);
    narrow_rows(pair, from, to);
    pair_apply(pair);
    struct key near = group_key(from > 20 ? from - 20 : 0, 0), far = group_key(to + 20, 0);
    struct engine_range range = {.lower = key_bytes(&near), .upper = key_bytes(&far)};
    compare_range(pair, -1, &range);
    for (uint32_t group = from; group < to; group++) {
        struct key key = group_key(group, (uint8_t)rand_below(&pair->rand, 3));
        compare_get(pair, -1, key_bytes(&key));
        compare_group(pair, -1, &key, false);
    }
}

TEST(narrow_units_give_the_same_answers_from_both_engines)
{
    struct pair pair;
    struct engine_range all = {0};
    int unit_count = test_is_long() ? 30000 : 300;

    pair_init(&pair, 4);
    for (int i = 0; i < unit_count; i++) {
        narrow_unit(&pair);
        if (i % 200 < 20 && rand_below(&pair.rand, 3) == 0) /* mostly there are none */
            random_view(&pair);
        if (i % 200 == 20)
            pair_views_close(&pair);
        if (rand_below(&pair.rand, 60) == 0)
            ASSERT_OK(pair.b.ops->compact_all(pair.b.engine, &pair.b.err), &pair.b.err);
        if (rand_below(&pair.rand, 200) == 0) {
            pair_views_close(&pair);
            engine_fix_reopen(&pair.a);
            engine_fix_reopen(&pair.b);
        }
        if (i % 10 == 0)
            compare_range(&pair, -1, &all);
        for (int view = 0; view < VIEWS_MAX; view++)
            if (pair.view_a[view])
                compare_range(&pair, view, &all);
    }
    pair_done(&pair);
}

/* ---- readers beside units ---- */

enum { READERS = 3, SHARED_ROWS = 50, SHARED_UNITS = 200, SHARED_UNITS_LONG = 8000 };

struct reader {
    struct engine_fix *fix;
    pthread_t thread;
    atomic_bool *stop;
    const char *broken; /* what went wrong, or NULL */
};

/* Every unit writes one number into all rows, so every state shows one number only. */
static const char *read_once(struct engine_fix *fix, const struct engine_view *view, bool reverse,
                             uint64_t *ret_number)
{
    struct engine_range range = {.lower = BYTES("f"), .upper = BYTES("x"), .reverse = reverse};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    uint64_t first = 0, count = 0;
    const char *broken = NULL;

    if (fix->ops->iter_open(fix->engine, view, &range, &iter, NULL) != RC_OK)
        return "could not open an iterator";
    while (!broken && fix->ops->iter_next(iter, &key, &value, NULL) == RC_OK) {
        if (count++ == 0)
            first = le64_get(value.ptr);
        else if (first != le64_get(value.ptr))
            broken = "rows of two units in one state";
    }
    if (count != 2 * SHARED_ROWS)
        broken = "rows are missing";
    fix->ops->iter_close(iter);
    *ret_number = first;
    return broken;
}

/* A view shows the same number however often it is read. */
static const char *read_view(struct engine_fix *fix)
{
    struct engine_view *view = NULL;
    uint64_t first = 0, number = 0;
    const char *broken = NULL;

    if (fix->ops->view_open(fix->engine, &view, NULL) != RC_OK)
        return "could not open a view";
    broken = read_once(fix, view, false, &first);
    for (int i = 0; i < 12 && !broken; i++) {
        broken = read_once(fix, view, i % 2 == 0, &number);
        if (!broken && number != first)
            broken = "a view has changed";
    }
    fix->ops->view_close(fix->engine, view);
    return broken;
}

static void *reader_run(void *arg)
{
    struct reader *reader = arg;
    struct engine_fix *fix = reader->fix;
    uint64_t number, last = 0;
    struct buf value;
    buf_init(&value, 64);
    while (!atomic_load(reader->stop) && !reader->broken) {
        reader->broken = read_view(fix);
        if (!reader->broken)
            reader->broken = read_once(fix, NULL, false, &number);
        if (!reader->broken && number < last)
            reader->broken = "a unit went away";
        last = number;
        buf_cut(&value, 0);
        enum rc rc =
            fix->ops->get(fix->engine, NULL, BYTES("fab\0"), ENGINE_TIER_ALL, &value, NULL);
        if (rc != RC_OK)
            reader->broken = rc == RC_NOT_FOUND ? "a row is missing" : "a row could not be read";
        if (!fix->ops->may_have(fix->engine, BYTES("fab\0")))
            reader->broken = "a row is denied";
    }
    buf_done(&value);
    return NULL;
}

static void shared_unit(struct engine_fix *fix, uint64_t number)
{
    uint8_t key[4] = "fab", value[8];
    le64_put(value, number);
    engine_fix_begin(fix);
    for (int space = 0; space < 2; space++) {
        key[0] = space ? 'w' : 'f';
        struct bytes from = bytes_of(key, 3), to = space ? BYTES("x") : BYTES("g");
        if (number % 2 == 0)
            ASSERT_OK(fix->ops->unit_delete_range(fix->unit, from, to, &fix->err), &fix->err);
        for (int i = 0; i < SHARED_ROWS; i++) {
            key[3] = (uint8_t)i;
            ASSERT_OK(
                fix->ops->unit_put(fix->unit, bytes_of(key, 4), bytes_of(value, 8), &fix->err),
                &fix->err);
        }
    }
    engine_fix_apply(fix);
}

static void readers_beside_units(struct engine_fix *fix)
{
    struct reader readers[READERS];
    struct engine_pressure pressure;
    atomic_bool stop = false;

    shared_unit(fix, 0);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fix = fix, .stop = &stop};
        ASSERT_EQ(pthread_create(&readers[i].thread, NULL, reader_run, &readers[i]), 0);
    }
    uint64_t unit_count = test_is_long() ? SHARED_UNITS_LONG : SHARED_UNITS;
    for (uint64_t i = 1; i < unit_count; i++) {
        shared_unit(fix, i);
        fix->ops->pressure(fix->engine, &pressure);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    for (int i = 0; i < READERS; i++)
        ASSERT_STR(readers[i].broken ? readers[i].broken : "", "");
}

TEST(readers_beside_units_see_whole_units)
{
    engine_fix_each(readers_beside_units);
}

/* Every unit brings a group of its own, which overlaps nothing, and writes its number over a row
 * that does: from its number on the group is there, and a group is whole or not there. */
enum { FRESH_ROWS = 20, FRESH_UNITS = 300 };

static struct key fresh_key(uint64_t number, uint64_t row)
{
    return (struct key){.bytes = {'f', (uint8_t)(number >> 8), (uint8_t)number, (uint8_t)row},
                        .len = 4};
}

static void fresh_unit(struct engine_fix *fix, uint64_t number)
{
    uint8_t value[8];
    le64_put(value, number);
    engine_fix_begin(fix);
    if (number > 3 && number % 4 == 0) {
        struct key from = fresh_key(number - 3, 0), to = fresh_key(number - 2, 0);
        ASSERT_OK(fix->ops->unit_delete_range(fix->unit, bytes_of(from.bytes, 3),
                                              bytes_of(to.bytes, 3), &fix->err),
                  &fix->err);
    }
    for (uint64_t row = 0; row < FRESH_ROWS; row++) {
        struct key key = fresh_key(number, row);
        ASSERT_OK(fix->ops->unit_put(fix->unit, key_bytes(&key), bytes_of(value, 8), &fix->err),
                  &fix->err);
    }
    ASSERT_OK(fix->ops->unit_put(fix->unit, BYTES("wn"), bytes_of(value, 8), &fix->err), &fix->err);
    engine_fix_apply(fix);
}

static uint64_t fresh_count(struct engine_fix *fix, const struct engine_view *view, uint64_t number)
{
    struct key from = fresh_key(number, 0), to = fresh_key(number + 1, 0);
    struct engine_range range = {.lower = bytes_of(from.bytes, 3),
                                 .upper = bytes_of(to.bytes, 3),
                                 .one_group = number % 2 == 0};
    struct engine_iter *iter = NULL;
    struct bytes key, value;
    uint64_t count = 0;
    if (fix->ops->iter_open(fix->engine, view, &range, &iter, NULL) != RC_OK)
        return UINT64_MAX;
    while (fix->ops->iter_next(iter, &key, &value, NULL) == RC_OK)
        count += le64_get(value.ptr) == number;
    fix->ops->iter_close(iter);
    return count;
}

static const char *fresh_read(struct engine_fix *fix, const struct engine_view *view)
{
    struct buf value;
    uint64_t number = 0;
    buf_init(&value, 64);
    if (fix->ops->get(fix->engine, view, BYTES("wn"), ENGINE_TIER_ALL, &value, NULL) == RC_OK)
        number = le64_get(value.ptr);
    buf_done(&value);
    if (number == 0)
        return "the number is missing";
    if (fresh_count(fix, view, number) != FRESH_ROWS && (view || number % 4 != 1))
        return "a group is not there with its number"; /* or has been dropped since */
    uint64_t next = fresh_count(fix, view, number + 1);
    if (next != 0 && (view || next != FRESH_ROWS))
        return view ? "a view shows rows of a later unit" : "a group is there in part";
    return NULL;
}

static void *fresh_run(void *arg)
{
    struct reader *reader = arg;
    struct engine_fix *fix = reader->fix;
    for (uint64_t round = 1; !atomic_load(reader->stop) && !reader->broken; round++) {
        struct engine_view *view = NULL;
        reader->broken = fresh_read(fix, NULL);
        if (reader->broken || round % 256 != 0) /* mostly there are no views */
            continue;
        if (fix->ops->view_open(fix->engine, &view, NULL) != RC_OK)
            reader->broken = "could not open a view";
        for (int i = 0; i < 3 && !reader->broken; i++)
            reader->broken = fresh_read(fix, view);
        fix->ops->view_close(fix->engine, view);
    }
    return NULL;
}

static void readers_beside_fresh_units(struct engine_fix *fix)
{
    struct reader readers[READERS];
    struct engine_pressure pressure;
    atomic_bool stop = false;

    fresh_unit(fix, 1);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fix = fix, .stop = &stop};
        ASSERT_EQ(pthread_create(&readers[i].thread, NULL, fresh_run, &readers[i]), 0);
    }
    for (uint64_t i = 2; i < FRESH_UNITS; i++) {
        fresh_unit(fix, i);
        fix->ops->pressure(fix->engine, &pressure);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i].thread, NULL);
    for (int i = 0; i < READERS; i++)
        ASSERT_STR(readers[i].broken ? readers[i].broken : "", "");
}

TEST(readers_beside_units_of_fresh_rows_see_whole_groups)
{
    engine_fix_each(readers_beside_fresh_units);
}

/* ---- kill -9 ---- */

static const char victim_variable[] = "TERRACE_ENGINE_VICTIM";

/* Plays in a process of its own until it is killed; a byte says that a unit has been applied. */
static void victim_play(const char *top)
{
    struct engine_fix fix = {.ops = &engine_rocksdb_ops};
    engine_fix_init(&fix, &engine_rocksdb_ops);
    fix.ops->close(fix.engine);
    fix.engine = NULL;
    snprintf(fix.dir, sizeof fix.dir, "%s/engine", top);
    snprintf(fix.scratch, sizeof fix.scratch, "%s/scratch", top);
    engine_fix_reopen(&fix);
    for (uint64_t number = 1;; number++) {
        shared_unit(&fix, number);
        if (write(STDERR_FILENO, ".", 1) != 1)
            _exit(1);
    }
}

static pid_t victim_start(const char *top, int *ret_pipe)
{
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv(victim_variable, top, 1);
        execl("/proc/self/exe", "victim", "a_killed_unit_is_there_or_not", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    *ret_pipe = ends[0];
    return pid;
}

TEST(a_killed_unit_is_there_or_not)
{
    struct engine_fix fix;
    struct rand rand;
    uint64_t number;
    const char *top = getenv(victim_variable);
    int rounds = test_is_long() ? 200 : 12;

    if (top)
        victim_play(top);
    engine_fix_init(&fix, &engine_rocksdb_ops);
    rand_init_seed(&rand, 3);
    shared_unit(&fix, 0);
    for (int i = 0; i < rounds; i++) {
        int end = -1, status = 0;
        char byte;
        fix.ops->close(fix.engine);
        fix.engine = NULL;
        pid_t pid = victim_start(fix.top, &end);
        for (uint64_t units = 1 + rand_below(&rand, 8); units > 0; units--)
            ASSERT_EQ(read(end, &byte, 1), 1);
        for (volatile uint64_t spin = rand_below(&rand, 4000000); spin > 0; spin--)
            ;
        kill(pid, SIGKILL);
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        close(end);
        engine_fix_reopen(&fix);
        const char *broken = read_once(&fix, NULL, false, &number);
        ASSERT_STR(broken ? broken : "", "");
    }
    engine_fix_done(&fix);
}

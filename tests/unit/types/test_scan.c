// SPDX-License-Identifier: Apache-2.0
#include "types/scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/turns.h"
#include "support/kv_keys.h"
#include "test.h"
#include "types/key.h"
#include "types/scan_keys.h"

#include "base/banned.h"

enum { NAMES_MAX = 4096, NAME_BYTES = 32 };

/* ---- cursors ---- */

TEST(a_kept_place_is_found_by_its_cursor)
{
    struct kv_fix fix;
    struct bytes place;
    kv_fix_init(&fix);
    uint64_t one = scan_cursor_keep(&fix.kv, BYTES("one"));
    uint64_t none = scan_cursor_keep(&fix.kv, BYTES(""));
    ASSERT_NE(one, 0);
    ASSERT_LT(one, UINT64_C(1) << 53);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(scan_cursor_find(&fix.kv, one, &place, &fix.err), &fix.err);
        ASSERT_BYTES(place, BYTES("one"));
        ASSERT_OK(scan_cursor_find(&fix.kv, none, &place, &fix.err), &fix.err);
        ASSERT_EQ(place.len, 0);
    }
    ASSERT_RC(scan_cursor_find(&fix.kv, none + 1, &place, &fix.err), RC_INVALID);
    kv_fix_done(&fix);
}

TEST(the_oldest_place_is_forgotten_first)
{
    struct kv_fix fix;
    struct bytes place;
    kv_fix_init(&fix);
    uint64_t first = scan_cursor_keep(&fix.kv, BYTES("first"));
    uint64_t second = scan_cursor_keep(&fix.kv, BYTES("second"));
    for (int i = 0; i < SCAN_CURSORS_MAX - 1; i++)
        scan_cursor_keep(&fix.kv, BYTES("x"));
    ASSERT_RC(scan_cursor_find(&fix.kv, first, &place, &fix.err), RC_INVALID);
    ASSERT_OK(scan_cursor_find(&fix.kv, second, &place, &fix.err), &fix.err);
    ASSERT_BYTES(place, BYTES("second"));
    kv_fix_done(&fix);
}

TEST(long_places_are_forgotten_sooner)
{
    struct kv_fix fix;
    struct bytes place;
    size_t len = SCAN_CURSOR_BYTES_MAX / 4;
    uint8_t *bytes = mem_zalloc(len);
    kv_fix_init(&fix);
    uint64_t first = scan_cursor_keep(&fix.kv, bytes_of(bytes, len));
    for (int i = 0; i < 3; i++)
        scan_cursor_keep(&fix.kv, bytes_of(bytes, len));
    ASSERT_OK(scan_cursor_find(&fix.kv, first, &place, &fix.err), &fix.err);
    scan_cursor_keep(&fix.kv, BYTES("x"));
    ASSERT_RC(scan_cursor_find(&fix.kv, first, &place, &fix.err), RC_INVALID);
    ASSERT_LE(fix.kv.cursors.bytes, SCAN_CURSOR_BYTES_MAX);
    kv_fix_done(&fix);
    mem_free(bytes);
}

TEST(a_cursor_of_another_life_is_unknown)
{
    struct kv_fix fix;
    struct bytes place;
    kv_fix_init(&fix);
    uint64_t cursor = scan_cursor_keep(&fix.kv, BYTES("one"));
    kv_fix_reopen(&fix);
    scan_cursor_keep(&fix.kv, BYTES("two"));
    ASSERT_RC(scan_cursor_find(&fix.kv, cursor, &place, &fix.err), RC_INVALID);
    kv_fix_done(&fix);
}

TEST(a_cursor_is_read_as_redis_reads_it)
{
    uint64_t cursor = 7;
    ASSERT_TRUE(scan_cursor_parse(BYTES("0"), &cursor));
    ASSERT_EQ(cursor, 0);
    ASSERT_TRUE(scan_cursor_parse(BYTES("18446744073709551615"), &cursor));
    ASSERT_EQ(cursor, UINT64_MAX);
    ASSERT_FALSE(scan_cursor_parse(BYTES("18446744073709551616"), &cursor));
    ASSERT_FALSE(scan_cursor_parse(BYTES("1x"), &cursor));
    ASSERT_FALSE(scan_cursor_parse(BYTES(" 1"), &cursor));
    ASSERT_FALSE(scan_cursor_parse(BYTES("abc"), &cursor));
}

/* ---- names that were met ---- */

struct names {
    char name[NAMES_MAX][NAME_BYTES];
    size_t count;
    size_t kept_count; /* of earlier steps of a scan; this one may be run again */
};

static void names_add(void *arg, struct bytes name)
{
    struct names *names = arg;
    ASSERT_LT(names->count, NAMES_MAX);
    ASSERT_LT(name.len, NAME_BYTES);
    memcpy(names->name[names->count], name.ptr, name.len);
    names->name[names->count++][name.len] = 0;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sorted, each once. */
static void names_tidy(struct names *names)
{
    size_t count = 0;
    qsort(names->name, names->count, NAME_BYTES, name_order);
    for (size_t i = 0; i < names->count; i++)
        if (i == 0 || strcmp(names->name[i], names->name[count - 1]) != 0)
            memmove(names->name[count++], names->name[i], NAME_BYTES);
    names->count = count;
}

static bool names_have(const struct names *names, const char *name)
{
    return bsearch(name, names->name, names->count, NAME_BYTES, name_order) != NULL;
}

static void names_expect(struct names *names, const char *text)
{
    char all[NAMES_MAX] = "";
    size_t len = 0;
    names_tidy(names);
    for (size_t i = 0; i < names->count; i++)
        len += (size_t)snprintf(all + len, sizeof all - len, i ? " %s" : "%s", names->name[i]);
    ASSERT_STR(all, text);
}

/* ---- SCAN ---- */

struct scan_call {
    struct scan_keys scan;
    struct names *names;
    uint64_t cursor;
};

static enum rc run_scan(struct kv_fix *fix, void *arg)
{
    struct scan_call *call = arg;
    call->names->count = call->names->kept_count;
    return scan_keys(&fix->run, &call->scan, names_add, call->names, &call->cursor, &fix->err);
}

static enum rc scan_step(struct kv_fix *fix, struct scan_call *call)
{
    call->names->kept_count = call->names->count;
    enum rc rc = kv_fix_run(fix, run_scan, call);
    call->scan.cursor = call->cursor;
    return rc;
}

static void scan_whole(struct kv_fix *fix, struct scan_keys scan, struct names *names)
{
    struct scan_call call = {.scan = scan, .names = names};
    *names = (struct names){0};
    call.scan.count = scan.count ? scan.count : 10;
    int steps = 0;
    do {
        ASSERT_OK(scan_step(fix, &call), &fix->err);
        ASSERT_LT(++steps, 10000);
    } while (call.cursor != 0);
}

static struct names met; /* large; each test begins anew */

TEST(a_scan_of_an_empty_database_ends_at_once)
{
    struct kv_fix fix;
    struct scan_call call = {.scan = {.count = 10}, .names = &met};
    kv_fix_init(&fix);
    met = (struct names){0};
    ASSERT_OK(scan_step(&fix, &call), &fix.err);
    ASSERT_EQ(call.cursor, 0);
    ASSERT_EQ(met.count, 0);
    kv_fix_done(&fix);
}

TEST(a_scan_meets_every_key_hot_cold_and_reopened)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 300);
    for (int round = 0; round < 4; round++) {
        scan_whole(&fix, (struct scan_keys){0}, &met);
        names_tidy(&met);
        ASSERT_EQ(met.count, 300);
        if (round == 0)
            kv_fix_freeze_out(&fix);
        if (round == 1)
            kv_put_many(&fix, "k", 100, 200); /* some are hot again */
        if (round == 2)
            kv_fix_reopen(&fix);
    }
    kv_fix_done(&fix);
}

TEST(a_scan_does_not_meet_what_was_deleted_or_is_over)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "alive", "v", 0);
    kv_put(&fix, "deleted", "v", 0);
    kv_put(&fix, "dead", "v", 100);
    kv_fix_freeze_out(&fix);
    ASSERT_TRUE(kv_remove(&fix, "deleted"));
    clock_advance_ms(&fix.clock, 100);
    for (int round = 0; round < 2; round++) {
        scan_whole(&fix, (struct scan_keys){0}, &met);
        names_expect(&met, "alive");
        kv_fix_freeze_out(&fix);
    }
    kv_fix_done(&fix);
}

TEST(a_scan_picks_by_pattern_and_type)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "user:1", "v", 0);
    kv_put(&fix, "user:2", "v", 0);
    kv_put(&fix, "item:1", "v", 0);
    kv_hash_put(&fix, "user:h", "f", "v");
    struct scan_keys users = {.has_pattern = true, .pattern = BYTES("user:*")};
    struct scan_keys hashes = {.has_type = true, .type = BYTES("HASH")};
    struct scan_keys nothing = {.has_type = true, .type = BYTES("unknown")};
    for (int round = 0; round < 2; round++) {
        scan_whole(&fix, users, &met);
        names_expect(&met, "user:1 user:2 user:h");
        scan_whole(&fix, hashes, &met);
        names_expect(&met, "user:h");
        scan_whole(&fix, nothing, &met);
        names_expect(&met, "");
        kv_fix_freeze_out(&fix);
    }
    kv_fix_done(&fix);
}

TEST(a_scan_stays_in_its_database)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 50);
    ASSERT_OK(kv_ns_open(&fix.kv, 1, BYTES("default.01"), &fix.ns, &fix.err), &fix.err);
    kv_put(&fix, "other", "v", 0);
    scan_whole(&fix, (struct scan_keys){0}, &met);
    names_expect(&met, "other");
    kv_fix_freeze_out(&fix);
    scan_whole(&fix, (struct scan_keys){0}, &met);
    names_expect(&met, "other");
    kv_fix_done(&fix);
}

TEST(a_count_bounds_what_a_cold_step_gives)
{
    struct kv_fix fix;
    struct scan_call call = {.scan = {.count = 7}, .names = &met};
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 100);
    kv_fix_freeze_out(&fix);
    met = (struct names){0};
    ASSERT_OK(scan_step(&fix, &call), &fix.err); /* nothing is hot */
    ASSERT_EQ(met.count, 0);
    ASSERT_OK(scan_step(&fix, &call), &fix.err);
    ASSERT_EQ(met.count, 7);
    ASSERT_NE(call.cursor, 0);
    kv_fix_done(&fix);
}

TEST(a_scan_does_not_load_what_it_meets)
{
    struct kv_fix fix;
    struct store_stats before, after;
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 100);
    kv_fix_freeze_out(&fix);
    store_stats(fix.store, &before);
    scan_whole(&fix, (struct scan_keys){.count = 1000}, &met);
    store_stats(fix.store, &after);
    ASSERT_EQ(after.load_count, before.load_count + 1);
    ASSERT_EQ(after.hot_entry_count, before.hot_entry_count);
    ASSERT_EQ(after.pinned_bytes, 0);
    kv_fix_done(&fix);
}

TEST(a_cursor_that_is_no_place_of_a_scan_is_refused)
{
    struct kv_fix fix;
    struct scan_call call = {.scan = {.count = 10}, .names = &met};
    kv_fix_init(&fix);
    met = (struct names){0};
    call.scan.cursor = scan_cursor_keep(&fix.kv, BYTES("a field"));
    ASSERT_RC(scan_step(&fix, &call), RC_INVALID);
    call.scan.cursor = 12345;
    ASSERT_RC(scan_step(&fix, &call), RC_INVALID);
    kv_fix_done(&fix);
}

/* Something moves between two steps: keys are made, deleted, flushed, evicted, read again. */
static void disturb(struct kv_fix *fix, struct rand *rand, int round)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "t%04d", (int)rand_below(rand, 200));
    switch (rand_below(rand, 6)) {
    case 0:
        kv_fix_freeze_out(fix);
        break;
    case 1:
        kv_put(fix, name, "v", 0);
        break;
    case 2:
        kv_remove(fix, name);
        break;
    case 3:
        snprintf(name, sizeof name, "k%04d", (int)rand_below(rand, 150));
        ASSERT_TRUE(kv_has(fix, name)); /* loads it */
        break;
    case 4:
        snprintf(name, sizeof name, "k%04d", (int)rand_below(rand, 150));
        kv_put(fix, name, "again", 0);
        break;
    case 5:
        kv_put_many(fix, "n", round * 20, round * 20 + 20); /* the table grows */
        break;
    }
}

TEST(a_key_that_stays_is_met_however_keys_move_meanwhile)
{
    struct rand rand;
    rand_init_seed(&rand, 3);
    for (int round = 0; round < 20; round++) {
        struct kv_fix fix;
        struct scan_call call = {.scan = {.count = 1 + rand_below(&rand, 20)}, .names = &met};
        kv_fix_init(&fix);
        kv_put_many(&fix, "k", 0, 150);
        met = (struct names){0};
        do {
            ASSERT_OK(scan_step(&fix, &call), &fix.err);
            disturb(&fix, &rand, round);
        } while (call.cursor != 0);
        names_tidy(&met);
        for (int i = 0; i < 150; i++) {
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "k%04d", i);
            ASSERT_TRUE(names_have(&met, name));
        }
        kv_fix_done(&fix);
    }
}

/* ---- KEYS ---- */

struct keys_call {
    struct bytes pattern;
    struct names *names;
};

static enum rc run_keys(struct kv_fix *fix, void *arg)
{
    struct keys_call *call = arg;
    call->names->count = 0;
    return scan_keys_all(&fix->run, call->pattern, names_add, call->names, &fix->err);
}

static size_t keys(struct kv_fix *fix, struct bytes pattern, struct names *names)
{
    struct keys_call call = {.pattern = pattern, .names = names};
    ASSERT_OK(kv_fix_run(fix, run_keys, &call), &fix->err);
    return names->count;
}

TEST(keys_gives_every_key_once)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 300);
    kv_put(&fix, "", "the empty key", 0);
    for (int round = 0; round < 4; round++) {
        ASSERT_EQ(keys(&fix, BYTES("*"), &met), 301);
        names_tidy(&met);
        ASSERT_EQ(met.count, 301);
        ASSERT_EQ(keys(&fix, BYTES("k000*"), &met), 10);
        ASSERT_EQ(keys(&fix, BYTES("k0001"), &met), 1);
        ASSERT_EQ(keys(&fix, BYTES("none*"), &met), 0);
        kv_fix_freeze_out(&fix);
        if (round == 1)
            kv_put_many(&fix, "k", 50, 100);
        if (round == 2)
            ASSERT_TRUE(kv_has(&fix, "k0001")); /* in both tiers */
    }
    kv_fix_done(&fix);
}

TEST(keys_does_not_show_what_is_deleted_or_over)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 20);
    kv_put(&fix, "dead", "v", 100);
    kv_fix_freeze_out(&fix);
    ASSERT_TRUE(kv_remove(&fix, "k0007"));
    clock_advance_ms(&fix.clock, 100);
    ASSERT_EQ(keys(&fix, BYTES("*"), &met), 19);
    kv_fix_freeze_out(&fix);
    ASSERT_EQ(keys(&fix, BYTES("*"), &met), 19);
    kv_fix_done(&fix);
}

/* KEYS in a command that has changed keys before: MULTI, or a script. */
static enum rc run_change_and_keys(struct kv_fix *fix, void *arg)
{
    struct key key;
    enum rc rc = key_write(&fix->run, BYTES("k0003"), KEY_ANY, &key, &fix->err);
    if (rc == RC_OK)
        rc = key_remove(&key, &fix->err);
    if (rc == RC_OK)
        rc = key_write(&fix->run, BYTES("new"), KEY_ANY, &key, &fix->err);
    if (rc == RC_OK)
        rc = key_create(&key, TYPE_STRING, &fix->err);
    if (rc == RC_OK)
        rc = key_save(&key, BYTES("v"), &fix->err);
    return rc == RC_OK ? run_keys(fix, arg) : rc;
}

TEST(keys_sees_the_changes_of_its_own_commit)
{
    struct kv_fix fix;
    struct keys_call call = {.pattern = BYTES("*"), .names = &met};
    kv_fix_init(&fix);
    kv_put_many(&fix, "k", 0, 5);
    kv_fix_freeze_out(&fix);
    ASSERT_OK(kv_fix_run(&fix, run_change_and_keys, &call), &fix.err);
    names_expect(&met, "k0000 k0001 k0002 k0004 new");
    kv_fix_done(&fix);
}

/* ---- RANDOMKEY ---- */

static enum rc run_random(struct kv_fix *fix, void *arg)
{
    struct names *names = arg;
    names->count = names->kept_count;
    return scan_keys_random(&fix->run, names_add, names, &fix->err);
}

static void random_many(struct kv_fix *fix, int times, struct names *names)
{
    *names = (struct names){0};
    for (int i = 0; i < times; i++) {
        ASSERT_OK(kv_fix_run(fix, run_random, names), &fix->err);
        names->kept_count = names->count;
    }
}

TEST(a_random_key_is_any_key_that_is_alive)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    random_many(&fix, 1, &met);
    ASSERT_EQ(met.count, 0);
    kv_put_many(&fix, "k", 0, 10);
    kv_put(&fix, "dead", "v", 100);
    clock_advance_ms(&fix.clock, 100);
    for (int cold = 0; cold < 2; cold++) {
        random_many(&fix, 400, &met);
        ASSERT_EQ(met.count, 400);
        names_tidy(&met);
        ASSERT_EQ(met.count, 10);
        ASSERT_FALSE(names_have(&met, "dead"));
        kv_fix_freeze_out(&fix);
    }
    kv_fix_done(&fix);
}

TEST(there_is_no_random_key_where_all_are_over)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "dead", "v", 100);
    clock_advance_ms(&fix.clock, 100);
    for (int cold = 0; cold < 2; cold++) {
        random_many(&fix, 1, &met);
        ASSERT_EQ(met.count, 0);
        kv_fix_freeze_out(&fix);
    }
    kv_fix_done(&fix);
}

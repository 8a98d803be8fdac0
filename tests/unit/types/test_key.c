// SPDX-License-Identifier: Apache-2.0
#include "types/key.h"

#include <stdio.h>

#include "store/turns.h"
#include "support/kv_events.h"
#include "support/kv_keys.h"
#include "test.h"
#include "types/copy.h"
#include "types/hash.h"
#include "types/string.h"

#include "base/banned.h"

struct pair_call { /* a command on two keys, or on one */
    const char *from, *to;
    struct ns *to_ns; /* NULL: the same */
    enum rc fail;
};

static struct bytes text(const char *name)
{
    return bytes_of(name, strlen(name));
}

static enum rc pair_find(struct kv_fix *fix, const struct pair_call *call, struct key *from,
                         struct key *to)
{
    struct ns *to_ns = call->to_ns ? call->to_ns : fix->ns;
    fix->other = run_with(&fix->run, to_ns, 0);
    enum rc rc = key_write(&fix->run, text(call->from), KEY_ANY, from, &fix->err);
    if (rc == RC_OK)
        rc = key_write(&fix->other, text(call->to), KEY_ANY, to, &fix->err);
    return rc;
}

static enum rc run_rename(struct kv_fix *fix, void *arg)
{
    struct pair_call *call = arg;
    struct key from, to;
    enum rc rc = pair_find(fix, call, &from, &to);
    if (rc == RC_OK)
        rc = key_rename(&from, &to, &fix->err);
    return rc == RC_OK ? call->fail : rc;
}

static void rename_key(struct kv_fix *fix, const char *from, const char *to)
{
    struct pair_call call = {.from = from, .to = to};
    ASSERT_OK(kv_fix_run(fix, run_rename, &call), &fix->err);
}

static enum rc run_copying(struct kv_fix *fix, void *arg)
{
    struct pair_call *call = arg;
    struct key from, to;
    enum rc rc = pair_find(fix, call, &from, &to);
    return rc == RC_OK ? key_copy(&from, &to, NULL, &fix->err) : rc;
}

static void copy_key(struct kv_fix *fix, const char *from, const char *to)
{
    struct pair_call call = {.from = from, .to = to};
    ASSERT_OK(kv_fix_run(fix, run_copying, &call), &fix->err);
}

static enum rc run_flush(struct kv_fix *fix, void *arg)
{
    (void)arg;
    return ns_flush(&fix->run, &fix->err);
}

static enum rc run_hash_delete(struct kv_fix *fix, void *arg)
{
    struct bytes field = text(arg);
    return hash_delete(&fix->run, BYTES("h"), &field, 1, NULL, &fix->err);
}

static uint64_t now_ms(struct kv_fix *fix)
{
    return clock_unix_ms(&fix->clock);
}

static void hash_fill(struct kv_fix *fix, const char *name, int count)
{
    char field[16];
    for (int i = 0; i < count; i++) {
        snprintf(field, sizeof field, "f%05d", i);
        kv_hash_put(fix, name, field, field);
    }
}

/* ---- being there ---- */

TEST(a_key_without_elements_is_gone)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_hash_put(&fix, "h", "a", "1");
    kv_expire(&fix, "h", now_ms(&fix) + 1000);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    ASSERT_OK(kv_fix_run(&fix, run_hash_delete, "a"), &fix.err);
    ASSERT_FALSE(kv_has(&fix, "h"));
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    ASSERT_EQ(kv_index_rows(&fix), 0);
    kv_fix_done(&fix);
}

TEST(a_key_of_another_type_is_refused)
{
    struct kv_fix fix;
    struct key key;
    kv_fix_init(&fix);
    kv_put(&fix, "s", "1", 0);
    store_begin(fix.store, 0);
    ASSERT_RC(key_read(kv_fix_now(&fix), BYTES("s"), TYPE_HASH, &key, &fix.err), RC_WRONGTYPE);
    ASSERT_OK(key_read(kv_fix_now(&fix), BYTES("s"), TYPE_STRING, &key, &fix.err), &fix.err);
    ASSERT_OK(key_read(kv_fix_now(&fix), BYTES("s"), KEY_ANY, &key, &fix.err), &fix.err);
    store_undo(fix.store);
    kv_fix_done(&fix);
}

TEST(a_name_over_the_limit_is_an_error)
{
    struct kv_fix fix;
    struct key key;
    static char name[KEY_BYTES_MAX + 1];
    kv_fix_init(&fix);
    store_begin(fix.store, 0);
    ASSERT_RC(key_write(kv_fix_now(&fix), bytes_of(name, sizeof name), KEY_ANY, &key, &fix.err),
              RC_INVALID);
    ASSERT_OK(key_write(kv_fix_now(&fix), bytes_of(name, sizeof name - 1), KEY_ANY, &key, &fix.err),
              &fix.err);
    store_undo(fix.store);
    kv_fix_done(&fix);
}

TEST(reads_are_counted_as_hits_and_misses)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "a", "1", 0);
    ASSERT_EQ(fix.kv.counts.hit_count + fix.kv.counts.miss_count, 0);
    ASSERT_TRUE(kv_has(&fix, "a"));
    ASSERT_FALSE(kv_has(&fix, "b"));
    ASSERT_EQ(fix.kv.counts.hit_count, 1);
    ASSERT_EQ(fix.kv.counts.miss_count, 1);
    kv_fix_done(&fix);
}

/* ---- deadlines ---- */

TEST(a_key_is_gone_in_the_millisecond_of_its_deadline)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "k", "v", 10);
    clock_advance_ms(&fix.clock, 9);
    kv_expect(&fix, "k", "v");
    clock_advance_ms(&fix.clock, 1);
    kv_expect(&fix, "k", NULL);
    ASSERT_EQ(ns_key_count(fix.ns), 1); /* reads hide, they do not remove */
    ASSERT_FALSE(kv_remove(&fix, "k"));
    kv_fix_done(&fix);
}

TEST(a_cold_key_is_gone_at_its_deadline_as_well)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "k", "v", 10);
    kv_fix_freeze_out(&fix);
    clock_advance_ms(&fix.clock, 10);
    kv_expect(&fix, "k", NULL);
    kv_fix_reopen(&fix);
    kv_expect(&fix, "k", NULL);
    kv_fix_done(&fix);
}

TEST(a_key_made_over_a_dead_one_buries_it_first)
{
    struct kv_fix fix;
    struct kv_events events;
    kv_fix_init(&fix);
    kv_hash_put(&fix, "h", "old", "1");
    kv_expire(&fix, "h", now_ms(&fix) + 10);
    kv_events_listen(&events, &fix);
    clock_advance_ms(&fix.clock, 10);
    kv_hash_put(&fix, "h", "new", "2");
    kv_events_expect(&events, "expired h, hset h");
    kv_hash_expect(&fix, "h", "old", NULL);
    kv_hash_expect(&fix, "h", "new", "2");
    ASSERT_EQ(kv_deadline(&fix, "h"), 0);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    ASSERT_EQ(fix.kv.counts.expired_count, 1);
    kv_fix_done(&fix);
}

TEST(a_later_deadline_writes_no_index_row)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "k", "v", 1000);
    ASSERT_EQ(kv_index_rows(&fix), 1);
    kv_expire(&fix, "k", now_ms(&fix) + 2000);
    ASSERT_EQ(kv_index_rows(&fix), 1);
    kv_expire(&fix, "k", now_ms(&fix) + 500);
    ASSERT_EQ(kv_index_rows(&fix), 2);
    ASSERT_EQ(ns_expire_count(fix.ns), 1);
    kv_expire(&fix, "k", 0);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    kv_fix_done(&fix);
}

TEST(a_removed_key_takes_its_index_row_along)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "k", "v", 1000);
    ASSERT_TRUE(kv_remove(&fix, "k"));
    ASSERT_EQ(kv_index_rows(&fix), 0);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    kv_fix_done(&fix);
}

/* ---- removing ---- */

TEST(removing_a_large_hash_writes_a_few_bytes)
{
    struct kv_fix fix;
    struct key key;
    kv_fix_init(&fix);
    hash_fill(&fix, "h", 2000);
    store_begin(fix.store, 0);
    ASSERT_OK(key_write(kv_fix_now(&fix), BYTES("h"), KEY_ANY, &key, &fix.err), &fix.err);
    ASSERT_OK(key_remove(&key, &fix.err), &fix.err);
    ASSERT_LT(store_turn_bytes(fix.store), 256);
    store_commit(fix.store);
    ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
    kv_hash_expect(&fix, "h", "f00001", NULL);
    kv_fix_done(&fix);
}

TEST(removing_a_cold_hash_loads_its_meta_row_only)
{
    struct kv_fix fix;
    struct store_stats before, after;
    kv_fix_init(&fix);
    hash_fill(&fix, "h", 500);
    kv_fix_freeze_out(&fix);
    store_stats(fix.store, &before);
    ASSERT_TRUE(kv_remove(&fix, "h"));
    store_stats(fix.store, &after);
    ASSERT_EQ(after.load_count, before.load_count + 1);
    kv_hash_expect(&fix, "h", "f00001", NULL);
    kv_hash_put(&fix, "h", "new", "1"); /* a new ID: nothing of the old one shows */
    kv_hash_expect(&fix, "h", "f00001", NULL);
    kv_fix_freeze_out(&fix);
    kv_hash_expect(&fix, "h", "f00001", NULL);
    kv_hash_expect(&fix, "h", "new", "1");
    kv_fix_done(&fix);
}

TEST(a_flushed_database_is_empty_at_once_and_stays_so)
{
    struct kv_fix fix;
    struct ns *other;
    kv_fix_init(&fix);
    ASSERT_OK(kv_ns_open(&fix.kv, 1, BYTES("default.01"), &other, &fix.err), &fix.err);
    kv_put(&fix, "k", "v", 1000);
    hash_fill(&fix, "h", 100);
    struct ns *first = fix.ns;
    fix.ns = other;
    kv_put(&fix, "k", "other", 0);
    fix.ns = first;
    kv_fix_freeze_out(&fix);
    kv_put(&fix, "hot", "v", 0);
    ASSERT_OK(kv_fix_run(&fix, run_flush, NULL), &fix.err);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    ASSERT_EQ(kv_index_rows(&fix), 0);
    kv_expect(&fix, "k", NULL);
    kv_expect(&fix, "hot", NULL);
    kv_fix_reopen(&fix);
    ASSERT_FALSE(kv_has(&fix, "h"));
    kv_fix_freeze_out(&fix);
    ASSERT_FALSE(kv_has(&fix, "h"));
    ASSERT_OK(kv_ns_open(&fix.kv, 1, BYTES("default.01"), &fix.ns, &fix.err), &fix.err);
    kv_expect(&fix, "k", "other");
    kv_fix_done(&fix);
}

/* ---- moving ---- */

TEST(a_renamed_key_keeps_value_elements_and_deadline)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    uint64_t at_ms = now_ms(&fix) + 1000;
    kv_put(&fix, "s", "value", 0);
    hash_fill(&fix, "h", 300);
    kv_expire(&fix, "h", at_ms);
    rename_key(&fix, "s", "s2");
    rename_key(&fix, "h", "h2");
    for (int round = 0; round < 3; round++) {
        kv_expect(&fix, "s2", "value");
        kv_expect(&fix, "s", NULL);
        kv_hash_expect(&fix, "h2", "f00299", "f00299");
        ASSERT_FALSE(kv_has(&fix, "h"));
        ASSERT_EQ(kv_deadline(&fix, "h2"), at_ms);
        ASSERT_EQ(ns_key_count(fix.ns), 2);
        ASSERT_EQ(ns_expire_count(fix.ns), 1);
        if (round == 0)
            kv_fix_reopen(&fix);
        else
            kv_fix_freeze_out(&fix);
    }
    ASSERT_EQ(kv_index_rows(&fix), 1);
    clock_advance_ms(&fix.clock, 1000);
    ASSERT_FALSE(kv_has(&fix, "h2"));
    kv_fix_done(&fix);
}

TEST(a_rename_takes_what_the_new_name_held)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    hash_fill(&fix, "h", 10);
    kv_put(&fix, "s", "value", 0);
    kv_expire(&fix, "h", now_ms(&fix) + 1000);
    rename_key(&fix, "s", "h");
    kv_expect(&fix, "h", "value");
    ASSERT_EQ(kv_deadline(&fix, "h"), 0);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    kv_fix_done(&fix);
}

TEST(a_rename_over_a_dead_key_buries_it)
{
    struct kv_fix fix;
    struct kv_events events;
    kv_fix_init(&fix);
    kv_put(&fix, "dead", "old", 10);
    kv_put(&fix, "s", "value", 0);
    clock_advance_ms(&fix.clock, 10);
    kv_events_listen(&events, &fix);
    rename_key(&fix, "s", "dead");
    kv_events_expect(&events, "expired dead");
    kv_expect(&fix, "dead", "value");
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    kv_fix_done(&fix);
}

TEST(a_rename_of_a_cold_hash_loads_meta_rows_only)
{
    struct kv_fix fix;
    struct store_stats before, after;
    kv_fix_init(&fix);
    hash_fill(&fix, "h", 500);
    kv_fix_freeze_out(&fix);
    store_stats(fix.store, &before);
    rename_key(&fix, "h", "g");
    store_stats(fix.store, &after);
    ASSERT_EQ(after.load_count, before.load_count + 2);
    kv_hash_expect(&fix, "g", "f00499", "f00499");
    kv_fix_done(&fix);
}

TEST(a_rename_that_is_taken_back_did_not_happen)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "a", "1", 1000);
    kv_put(&fix, "b", "2", 0);
    struct pair_call call = {.from = "a", .to = "b", .fail = RC_INVALID};
    ASSERT_RC(kv_fix_run(&fix, run_rename, &call), RC_INVALID);
    kv_expect(&fix, "a", "1");
    kv_expect(&fix, "b", "2");
    ASSERT_EQ(ns_key_count(fix.ns), 2);
    ASSERT_EQ(ns_expire_count(fix.ns), 1);
    ASSERT_EQ(kv_index_rows(&fix), 1);
    kv_fix_done(&fix);
}

/* ---- copying ---- */

TEST(a_copy_is_another_key_with_the_same_elements_and_deadline)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    hash_fill(&fix, "h", 700);
    kv_put(&fix, "s", "value", 1000);
    for (int cold = 0; cold < 2; cold++) {
        copy_key(&fix, "h", "h2");
        copy_key(&fix, "s", "s2");
        kv_expect(&fix, "s2", "value");
        ASSERT_EQ(kv_deadline(&fix, "s2"), now_ms(&fix) + 1000);
        kv_hash_expect(&fix, "h2", "f00000", "f00000");
        kv_hash_expect(&fix, "h2", "f00699", "f00699");
        kv_hash_put(&fix, "h2", "f00000", "changed");
        kv_hash_expect(&fix, "h", "f00000", "f00000");
        ASSERT_EQ(ns_key_count(fix.ns), 4);
        ASSERT_TRUE(kv_remove(&fix, "h2"));
        ASSERT_TRUE(kv_remove(&fix, "s2"));
        kv_hash_expect(&fix, "h", "f00699", "f00699");
        kv_fix_freeze_out(&fix);
    }
    kv_fix_done(&fix);
}

TEST(a_copy_may_be_in_another_database_and_over_another_key)
{
    struct kv_fix fix;
    struct pair_call call = {.from = "h", .to = "h"};
    kv_fix_init(&fix);
    ASSERT_OK(kv_ns_open(&fix.kv, 1, BYTES("default.01"), &call.to_ns, &fix.err), &fix.err);
    hash_fill(&fix, "h", 3);
    struct ns *first = fix.ns;
    fix.ns = call.to_ns;
    kv_hash_put(&fix, "h", "old", "1");
    fix.ns = first;
    ASSERT_OK(kv_fix_run(&fix, run_copying, &call), &fix.err);
    fix.ns = call.to_ns;
    kv_hash_expect(&fix, "h", "f00002", "f00002");
    kv_hash_expect(&fix, "h", "old", NULL);
    ASSERT_EQ(ns_key_count(call.to_ns), 1);
    kv_fix_done(&fix);
}

static enum rc run_put_long(struct kv_fix *fix, void *arg)
{
    struct key key;
    enum rc rc = key_write(&fix->run, BYTES("long"), KEY_ANY, &key, &fix->err);
    return rc == RC_OK ? string_set(&key, *(struct bytes *)arg, 0, &fix->err) : rc;
}

static enum rc run_check_long(struct kv_fix *fix, void *arg)
{
    struct key key;
    struct bytes value;
    enum rc rc = key_read(&fix->run, BYTES("copy"), TYPE_STRING, &key, &fix->err);
    if (rc == RC_OK)
        rc = string_get(&key, &value, &fix->err);
    if (rc == RC_OK)
        ASSERT_BYTES(value, *(struct bytes *)arg);
    return rc;
}

TEST(a_long_string_is_copied_with_its_chunks)
{
    struct kv_fix fix;
    static char bytes[20000];
    struct bytes value = bytes_of(bytes, sizeof bytes);
    kv_fix_init(&fix);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    ASSERT_OK(kv_fix_run(&fix, run_put_long, &value), &fix.err);
    kv_fix_freeze_out(&fix);
    copy_key(&fix, "long", "copy");
    ASSERT_TRUE(kv_remove(&fix, "long"));
    kv_fix_freeze_out(&fix);
    ASSERT_OK(kv_fix_run(&fix, run_check_long, &value), &fix.err);
    kv_fix_done(&fix);
}

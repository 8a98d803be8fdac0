// SPDX-License-Identifier: Apache-2.0
#include "types/held.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/testing.h"
#include "store/turns.h"
#include "support/kv_events.h"
#include "support/kv_keys.h"
#include "support/kv_run.h"
#include "test.h"
#include "types/guard.h"
#include "types/hash.h"
#include "types/list.h"
#include "types/set.h"
#include "types/string.h"
#include "types/zset.h"

#include "base/banned.h"

enum {
    WORDS_MAX = KV_RUN_WORDS_MAX,
    RUN_COUNT = 16,
    LIST_EXTRA_BYTES = 16,
    /* of a list's key that the turn has named before: kind, two lengths, the row */
    META_RECORD_BYTES = 3 + META_HEAD_BYTES + LIST_EXTRA_BYTES,
};

/* ---- commands: bodies as kv_fix_run() takes them ---- */

static struct bytes text(const char *of)
{
    return bytes_of(of, strlen(of));
}

static enum rc run_sadd(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct bytes word[WORDS_MAX];
    size_t count = kv_fix_words(call->words, word, WORDS_MAX);
    return set_add(&fix->run, call->key, word, count, NULL, &fix->err);
}

static enum rc run_hset(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct bytes pair[2] = {text(call->words), text(call->words)};
    return hash_set(&fix->run, call->key, pair, 1, NULL, &fix->err);
}

static enum rc run_zadd(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct bytes word[WORDS_MAX];
    struct zset_change change;
    struct key key;
    size_t count = kv_fix_words(call->words, word, WORDS_MAX);
    enum rc rc = key_write(&fix->run, call->key, TYPE_ZSET, &key, &fix->err);
    if (rc == RC_OK && !key.exists)
        rc = key_create(&key, TYPE_ZSET, &fix->err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = zset_add(&key, (struct zset_item){word[i], (double)i}, 0, &change, &fix->err);
    return rc == RC_OK ? zset_save(&key, &fix->err) : rc;
}

static enum rc run_zrem(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct bytes word[WORDS_MAX];
    struct key key;
    size_t count = kv_fix_words(call->words, word, WORDS_MAX);
    enum rc rc = key_write(&fix->run, call->key, TYPE_ZSET, &key, &fix->err);
    if (rc != RC_OK || !key.exists)
        return rc;
    uint64_t before = key.meta.count;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        rc = zset_remove(&key, word[i], &fix->err);
        rc = rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    return rc == RC_OK && key.meta.count < before ? zset_save(&key, &fix->err) : rc;
}

static enum rc run_string(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->key, KEY_ANY, &key, &fix->err);
    return rc == RC_OK ? string_set(&key, text(call->words), 0, &fix->err) : rc;
}

/* The deadline is count; 0: none. */
static enum rc run_expire(struct kv_fix *fix, void *arg)
{
    struct kv_run *call = arg;
    struct key key;
    enum rc rc = key_write(&fix->run, call->key, KEY_ANY, &key, &fix->err);
    if (rc != RC_OK || !key.exists)
        return rc;
    key.meta.expire_ms = call->count;
    return key_save(&key, key.meta.extra, &fix->err);
}

/* ---- a command as server/batch.c runs it, in a turn that goes on ---- */

enum { LAST = false, MORE = true };

static void push(struct kv_fix *fix, bool more, const char *key, const char *words)
{
    struct kv_run call = {.key = text(key), .words = words};
    ASSERT_OK(kv_run_step(fix, more, kv_run_push, &call), &fix->err);
}

static void pop(struct kv_fix *fix, bool more, const char *key, uint64_t count)
{
    struct kv_run call = {.key = text(key), .count = count};
    ASSERT_OK(kv_run_step(fix, more, kv_run_pop, &call), &fix->err);
}

static void words(struct kv_fix *fix, bool more, kv_run_body *run, const char *key,
                  const char *words)
{
    struct kv_run call = {.key = text(key), .words = words};
    ASSERT_OK(kv_run_step(fix, more, run, &call), &fix->err);
}

static void expire(struct kv_fix *fix, bool more, const char *key, uint64_t at_ms)
{
    struct kv_run call = {.key = text(key), .count = at_ms};
    ASSERT_OK(kv_run_step(fix, more, run_expire, &call), &fix->err);
}

/* A list that is stored. */
static void begin(struct kv_fix *fix)
{
    kv_fix_init(fix);
    push(fix, LAST, "k", "a");
    kv_run_end(fix);
}

/* ---- what is to be seen ---- */

/* What the store's row says, whatever is held. -1: there is none. */
static int64_t stored_count(struct kv_fix *fix, const char *key)
{
    struct bytes value;
    struct meta meta;
    struct store_group group = {.prefix = fix->ns->meta, .key = text(key)};
    enum rc rc = store_get(fix->store, group, BYTES(""), &value, &fix->err);
    if (rc == RC_NOT_FOUND)
        return -1;
    ASSERT_OK(rc, &fix->err);
    ASSERT_OK(meta_decode(value, &meta, &fix->err), &fix->err);
    return (int64_t)meta.count;
}

static int64_t seen_count(struct kv_fix *fix, const char *key)
{
    struct key found;
    ASSERT_OK(key_write(kv_fix_now(fix), text(key), KEY_ANY, &found, &fix->err), &fix->err);
    return found.exists ? (int64_t)found.meta.count : -1;
}

/* The meta row fits the rows, and no row is left over: all of them are these. */
static void list_expect(struct kv_fix *fix, const char *key, const char *elements)
{
    struct kv_run_text found = {.key = key};
    struct key at;
    (void)kv_fix_now(fix);
    ASSERT_OK(kv_run_text(fix, &found), &fix->err);
    ASSERT_STR(found.text, elements);
    ASSERT_OK(key_write(&fix->run, text(key), TYPE_LIST, &at, &fix->err), &fix->err);
    if (at.exists)
        ASSERT_EQ(store_group_state(fix->store, key_rows(&at)).row_count, at.meta.count);
    else
        ASSERT_STR(elements, "");
}

/* Now, and after the journal was read. */
static void list_expect_always(struct kv_fix *fix, const char *key, const char *elements)
{
    list_expect(fix, key, elements);
    kv_fix_reopen(fix);
    list_expect(fix, key, elements);
}

/* ---- written once ---- */

static size_t run_bytes(bool hold)
{
    struct kv_fix fix;
    begin(&fix);
    for (int i = 0; i < RUN_COUNT; i++)
        push(&fix, hold && i + 1 < RUN_COUNT, "k", "x");
    ASSERT_FALSE(fix.kv.held.row.is); /* the last one has written it */
    size_t bytes = store_turn_bytes(fix.store);
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a x x x x x x x x x x x x x x x x");
    kv_fix_done(&fix);
    return bytes;
}

TEST(a_run_writes_its_meta_row_once)
{
    ASSERT_EQ(run_bytes(false) - run_bytes(true), (RUN_COUNT - 1) * META_RECORD_BYTES);
}

TEST(a_run_whose_last_command_changes_nothing_is_settled)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    words(&fix, LAST, run_sadd, "s", "a");
    kv_run_end(&fix);
    words(&fix, MORE, run_sadd, "s", "b");
    words(&fix, LAST, run_sadd, "s", "b a");
    ASSERT_TRUE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "s"), 1);
    held_write(&fix.kv);
    ASSERT_EQ(stored_count(&fix, "s"), 2);
    kv_run_end(&fix);
    kv_fix_reopen(&fix);
    ASSERT_EQ(seen_count(&fix, "s"), 2);
    kv_fix_done(&fix);
}

TEST(a_settle_without_a_row_writes_nothing)
{
    struct kv_fix fix;
    begin(&fix);
    uint64_t lsn = store_last_lsn(fix.store);
    held_write(&fix.kv);
    ASSERT_EQ(store_turn_bytes(fix.store), 0);
    ASSERT_EQ(store_last_lsn(fix.store), lsn);
    kv_fix_done(&fix);
}

TEST(after_a_settle_no_command_may_hold)
{
    struct kv_fix fix;
    struct kv_run call = {.key = BYTES("k"), .words = "b"};
    begin(&fix);
    held_begin(&fix.kv, true);
    held_write(&fix.kv);
    store_begin(fix.store, 0); /* a task: nobody says held_begin() */
    ASSERT_OK(kv_run_push(&fix, &call), &fix.err);
    store_commit(fix.store);
    ASSERT_FALSE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "k"), 2);
    kv_run_end(&fix);
    kv_fix_done(&fix);
}

TEST(runs_of_every_type_end_with_the_right_count)
{
    static const struct {
        kv_run_body *run;
        const char *key, *word[3];
    } type[] = {{kv_run_push, "l", {"a", "b", "c"}},
                {run_sadd, "s", {"a", "b", "c"}},
                {run_hset, "h", {"a", "b", "c"}},
                {run_zadd, "z", {"a", "b", "c"}}};
    struct kv_fix fix;
    kv_fix_init(&fix);
    for (size_t i = 0; i < 4; i++) {
        words(&fix, MORE, type[i].run, type[i].key, type[i].word[0]);
        words(&fix, MORE, type[i].run, type[i].key, type[i].word[1]);
        words(&fix, MORE, type[i].run, type[i].key, type[i].word[2]);
        ASSERT_EQ(stored_count(&fix, type[i].key), 1);
        ASSERT_EQ(seen_count(&fix, type[i].key), 3);
        held_write(&fix.kv);
        ASSERT_EQ(stored_count(&fix, type[i].key), 3);
    }
    kv_run_end(&fix);
    kv_fix_reopen(&fix);
    for (size_t i = 0; i < 4; i++)
        ASSERT_EQ(seen_count(&fix, type[i].key), 3);
    kv_fix_done(&fix);
}

/* ---- (1) one key ---- */

TEST(reads_see_what_is_held)
{
    struct kv_fix fix;
    struct list list;
    begin(&fix);
    expire(&fix, LAST, "k", clock_unix_ms(&fix.clock) + 1000);
    push(&fix, MORE, "k", "b c");
    ASSERT_EQ(stored_count(&fix, "k"), 1);
    ASSERT_OK(list_read(kv_fix_now(&fix), BYTES("k"), &list, &fix.err), &fix.err);
    ASSERT_EQ(list_count(&list), 3);
    ASSERT_EQ(list.key.meta.expire_ms, clock_unix_ms(&fix.clock) + 1000);
    ASSERT_TRUE(list.key.stored);
    list_expect(&fix, "k", "a b c");
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b c");
    kv_fix_done(&fix);
}

TEST(what_is_held_is_of_its_name_and_database_alone)
{
    struct kv_fix fix;
    struct ns *other, *first;
    begin(&fix);
    ASSERT_OK(kv_ns_open(&fix.kv, 1, BYTES("default.01"), &other, &fix.err), &fix.err);
    push(&fix, LAST, "kk", "x");
    push(&fix, MORE, "k", "b");
    ASSERT_EQ(seen_count(&fix, "kk"), 1);
    ASSERT_EQ(seen_count(&fix, ""), -1);
    first = fix.ns;
    fix.ns = other;
    ASSERT_EQ(seen_count(&fix, "k"), -1);
    fix.ns = first;
    ASSERT_EQ(seen_count(&fix, "k"), 2);
    kv_run_end(&fix);
    kv_fix_done(&fix);
}

TEST(a_key_with_an_empty_name_is_held_too)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    push(&fix, MORE, "", "a");
    push(&fix, MORE, "", "b");
    ASSERT_TRUE(fix.kv.held.row.is);
    ASSERT_EQ(seen_count(&fix, ""), 2);
    kv_run_end(&fix);
    list_expect_always(&fix, "", "a b");
    kv_fix_done(&fix);
}

TEST(two_keys_cannot_be_held)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, LAST, "other", "x");
    push(&fix, MORE, "k", "b");
    ASSERT_ABORTS(push(&fix, MORE, "other", "y"));
    kv_run_end(&fix);
    kv_fix_done(&fix);
}

/* ---- (3) there is a stored row ---- */

TEST(a_key_that_is_not_stored_yet_is_written_at_once)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    push(&fix, MORE, "k", "a");
    ASSERT_FALSE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "k"), 1);
    push(&fix, MORE, "k", "b");
    ASSERT_TRUE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "k"), 1);
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

TEST(a_name_over_the_limit_is_written_at_once)
{
    struct kv_fix fix;
    char name[HELD_NAME_BYTES_MAX + 2];
    memset(name, 'n', sizeof name);
    kv_fix_init(&fix);
    for (size_t len = HELD_NAME_BYTES_MAX; len <= HELD_NAME_BYTES_MAX + 1; len++) {
        name[len] = 0;
        push(&fix, MORE, name, "a");
        push(&fix, MORE, name, "b");
        ASSERT_EQ(fix.kv.held.row.is, len == HELD_NAME_BYTES_MAX);
        kv_run_end(&fix);
        list_expect_always(&fix, name, "a b");
        name[len] = 'n';
    }
    kv_fix_done(&fix);
}

TEST(an_extra_over_the_limit_is_written_at_once)
{
    static const char *value[] = {"", "0123456789abcdef", "0123456789abcdefg", "short"};
    struct kv_fix fix;
    kv_fix_init(&fix);
    kv_put(&fix, "k", "first", 0);
    for (size_t i = 0; i < 4; i++) {
        words(&fix, MORE, run_string, "k", value[i]);
        ASSERT_EQ(fix.kv.held.row.is, strlen(value[i]) <= HELD_EXTRA_BYTES_MAX);
    }
    kv_run_end(&fix);
    kv_expect(&fix, "k", "short");
    words(&fix, MORE, run_string, "k", "short");
    words(&fix, LAST, run_string, "k", "0123456789abcdefg"); /* what was held is older */
    ASSERT_FALSE(fix.kv.held.row.is);
    kv_run_end(&fix);
    kv_fix_reopen(&fix);
    kv_expect(&fix, "k", "0123456789abcdefg");
    kv_fix_done(&fix);
}

TEST(a_new_deadline_is_written_at_once)
{
    struct kv_fix fix;
    begin(&fix);
    uint64_t at_ms = clock_unix_ms(&fix.clock) + 1000;
    push(&fix, MORE, "k", "b");
    expire(&fix, MORE, "k", at_ms);
    ASSERT_FALSE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "k"), 2);
    push(&fix, MORE, "k", "c");
    ASSERT_TRUE(fix.kv.held.row.is);
    expire(&fix, MORE, "k", at_ms); /* no change of it: held */
    ASSERT_TRUE(fix.kv.held.row.is);
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b c");
    ASSERT_EQ(kv_deadline(&fix, "k"), at_ms);
    ASSERT_EQ(kv_index_rows(&fix), 1);
    push(&fix, MORE, "k", "d");
    expire(&fix, MORE, "k", 0);
    ASSERT_FALSE(fix.kv.held.row.is);
    kv_run_end(&fix);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    list_expect_always(&fix, "k", "a b c d");
    ASSERT_EQ(kv_deadline(&fix, "k"), 0);
    kv_fix_done(&fix);
}

static enum rc take(void *model, struct key *key, enum key_need need, struct err *err)
{
    (void)model, (void)key, (void)need, (void)err;
    return RC_OK;
}

TEST(keys_with_a_guard_are_written_at_once)
{
    struct kv_fix fix;
    int model;
    struct key_guard guard = {.model = &model, .found = take};
    begin(&fix);
    ns_guard_add(fix.ns, &guard);
    push(&fix, MORE, "k", "b");
    ASSERT_FALSE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "k"), 2);
    kv_run_end(&fix);
    ns_guard_remove(fix.ns, &guard);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

/* What a guard adds to the commit of a command: two hashes. */
static enum rc mark_two(void *model, const struct key *key, const struct bytes *field,
                        enum guard_change change, struct err *err)
{
    const struct run own = run_as(key->run, key->ns, model);
    const struct bytes pair[2] = {*field, BYTES("set")};
    (void)change;
    enum rc rc = hash_set(&own, BYTES("marks"), pair, 1, NULL, err);
    return rc == RC_OK ? hash_set(&own, BYTES("more marks"), pair, 1, NULL, err) : rc;
}

TEST(what_a_guard_writes_beside_a_held_key_is_written_at_once)
{
    struct kv_fix fix;
    int model;
    struct key_guard guard = {.model = &model, .found = take, .change = mark_two};
    begin(&fix);
    ns_guard_add(fix.ns, &guard);
    words(&fix, MORE, run_hset, "h", "a");
    words(&fix, MORE, run_hset, "h", "b");
    words(&fix, MORE, run_hset, "h", "c");
    ASSERT_FALSE(fix.kv.held.row.is);
    ASSERT_EQ(stored_count(&fix, "marks"), 3);
    ASSERT_EQ(stored_count(&fix, "more marks"), 3);
    kv_run_end(&fix);
    kv_fix_done(&fix);
}

/* ---- keys that go within a run ---- */

TEST(a_key_that_is_removed_in_a_run_is_gone)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    pop(&fix, MORE, "k", 2);
    ASSERT_FALSE(fix.kv.held.row.is);
    ASSERT_EQ(seen_count(&fix, "k"), -1);
    size_t bytes = store_turn_bytes(fix.store);
    held_write(&fix.kv);
    ASSERT_EQ(store_turn_bytes(fix.store), bytes);
    ASSERT_EQ(stored_count(&fix, "k"), -1);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "");
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    kv_fix_done(&fix);
}

TEST(a_key_that_is_removed_and_made_again_in_a_run_has_its_new_row)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    pop(&fix, MORE, "k", 2);
    push(&fix, MORE, "k", "c");
    ASSERT_FALSE(fix.kv.held.row.is); /* it is not stored */
    push(&fix, MORE, "k", "d");
    ASSERT_TRUE(fix.kv.held.row.is);
    pop(&fix, MORE, "k", 1);
    kv_run_end(&fix);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    list_expect_always(&fix, "k", "d");
    kv_fix_done(&fix);
}

TEST(a_key_that_becomes_another_type_in_a_run_is_that)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    words(&fix, MORE, run_string, "k", "text");
    ASSERT_TRUE(fix.kv.held.row.is); /* the same row */
    kv_run_end(&fix);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    kv_fix_reopen(&fix);
    kv_expect(&fix, "k", "text");
    kv_fix_done(&fix);
}

TEST(a_held_key_whose_time_is_over_is_buried_by_the_next_push)
{
    struct kv_fix fix;
    struct kv_events events;
    begin(&fix);
    expire(&fix, LAST, "k", clock_unix_ms(&fix.clock) + 10);
    kv_run_end(&fix);
    push(&fix, MORE, "k", "b");
    kv_events_listen(&events, &fix);
    clock_advance_ms(&fix.clock, 10);
    ASSERT_EQ(seen_count(&fix, "k"), -1);
    push(&fix, MORE, "k", "c");
    kv_events_expect(&events, "expired k, rpush k");
    ASSERT_FALSE(fix.kv.held.row.is); /* the new one is not stored */
    ASSERT_EQ(stored_count(&fix, "k"), 1);
    push(&fix, MORE, "k", "d");
    kv_run_end(&fix);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    ASSERT_EQ(ns_expire_count(fix.ns), 0);
    ASSERT_EQ(kv_index_rows(&fix), 0);
    list_expect_always(&fix, "k", "c d");
    ASSERT_EQ(kv_deadline(&fix, "k"), 0);
    kv_fix_done(&fix);
}

TEST(a_held_key_may_be_swept_when_it_is_settled)
{
    struct kv_fix fix;
    begin(&fix);
    uint64_t at_ms = clock_unix_ms(&fix.clock) + 10;
    expire(&fix, LAST, "k", at_ms);
    kv_run_end(&fix);
    push(&fix, MORE, "k", "b");
    clock_advance_ms(&fix.clock, 10);
    held_write(&fix.kv);
    store_begin(fix.store, 0);
    ASSERT_OK(key_sweep(kv_fix_now(&fix), BYTES("k"), at_ms, &fix.err), &fix.err);
    store_commit(fix.store);
    kv_run_end(&fix);
    ASSERT_EQ(ns_key_count(fix.ns), 0);
    list_expect_always(&fix, "k", "");
    kv_fix_done(&fix);
}

TEST(a_list_whose_elements_move_in_a_run_is_found_where_they_are)
{
    struct kv_fix fix;
    struct key before, after;
    char many[2 * WORDS_MAX];
    memset(many, ' ', sizeof many);
    for (int i = 0; i < WORDS_MAX; i++)
        many[2 * i] = 'x';
    many[sizeof many - 1] = 0;
    begin(&fix);
    push(&fix, LAST, "k", many);
    kv_run_end(&fix);
    ASSERT_OK(key_write(kv_fix_now(&fix), BYTES("k"), TYPE_LIST, &before, &fix.err), &fix.err);
    push(&fix, MORE, "k", "b");
    pop(&fix, MORE, "k", before.meta.count - 1); /* what stays gets a new group */
    ASSERT_TRUE(fix.kv.held.row.is);
    push(&fix, MORE, "k", "c");
    ASSERT_OK(key_write(kv_fix_now(&fix), BYTES("k"), TYPE_LIST, &after, &fix.err), &fix.err);
    ASSERT_FALSE(memcmp(before.meta.id, after.meta.id, KEY_ID_BYTES) == 0);
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "x b c");
    kv_fix_done(&fix);
}

/* ---- (4) commands that are taken back ---- */

static void failing(struct kv_fix *fix, bool more, kv_run_body *run, struct kv_run call)
{
    call.key = BYTES("k");
    call.fail = RC_INVALID;
    ASSERT_RC(kv_run_step(fix, more, run, &call), RC_INVALID);
}

TEST(a_command_that_is_taken_back_leaves_what_was_held)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    failing(&fix, MORE, kv_run_push, (struct kv_run){.words = "x y z"});
    ASSERT_TRUE(fix.kv.held.row.is);
    list_expect(&fix, "k", "a b");
    failing(&fix, MORE, kv_run_pop, (struct kv_run){.count = 1});
    list_expect(&fix, "k", "a b");
    push(&fix, MORE, "k", "c");
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b c");
    kv_fix_done(&fix);
}

TEST(a_first_command_that_is_taken_back_leaves_nothing_held)
{
    struct kv_fix fix;
    begin(&fix);
    failing(&fix, MORE, kv_run_push, (struct kv_run){.words = "x"});
    ASSERT_FALSE(fix.kv.held.row.is);
    list_expect(&fix, "k", "a");
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a");
    kv_fix_done(&fix);
}

TEST(a_last_command_that_is_taken_back_leaves_what_was_held)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    failing(&fix, LAST, kv_run_push, (struct kv_run){.words = "x"}); /* it had put the row */
    ASSERT_TRUE(fix.kv.held.row.is);
    list_expect(&fix, "k", "a b");
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

TEST(a_removal_that_is_taken_back_leaves_what_was_held)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    failing(&fix, MORE, kv_run_pop, (struct kv_run){.count = 2});
    ASSERT_TRUE(fix.kv.held.row.is);
    list_expect(&fix, "k", "a b");
    failing(&fix, LAST, kv_run_pop, (struct kv_run){.count = 2});
    kv_run_end(&fix);
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

TEST(a_burial_that_is_taken_back_leaves_what_was_held)
{
    struct kv_fix fix;
    begin(&fix);
    expire(&fix, LAST, "k", clock_unix_ms(&fix.clock) + 10);
    push(&fix, MORE, "k", "b");
    clock_advance_ms(&fix.clock, 10);
    failing(&fix, MORE, kv_run_push, (struct kv_run){.words = "x"}); /* over the dead one */
    ASSERT_TRUE(fix.kv.held.row.is);
    ASSERT_EQ(fix.kv.held.row.meta.count, 2);
    kv_run_end(&fix);
    ASSERT_EQ(stored_count(&fix, "k"), 2);
    ASSERT_EQ(seen_count(&fix, "k"), -1);
    kv_fix_done(&fix);
}

TEST(a_run_goes_on_after_a_cold_row)
{
    struct kv_fix fix;
    kv_fix_init(&fix);
    push(&fix, LAST, "k", "a b c d");
    kv_run_end(&fix);
    kv_fix_freeze_out(&fix);
    ASSERT_OK(kv_fix_run(&fix, kv_run_push, &(struct kv_run){.key = BYTES("k"), .words = "e"}),
              &fix.err); /* the meta row is hot now; the first elements are not */
    push(&fix, MORE, "k", "f");
    struct kv_run call = {.key = BYTES("k"), .count = 1};
    ASSERT_RC(kv_run_step(&fix, MORE, kv_run_pop, &call), RC_COLD);
    ASSERT_TRUE(fix.kv.held.row.is);
    ASSERT_EQ(seen_count(&fix, "k"), 6);
    kv_run_end(&fix); /* as before a task */
    ASSERT_OK(kv_fix_run(&fix, kv_run_pop, &call), &fix.err);
    kv_run_end(&fix);
    kv_fix_reopen(&fix);
    ASSERT_EQ(seen_count(&fix, "k"), 5);
    kv_fix_done(&fix);
}

/* ---- (2) the turn as a whole ---- */

TEST(a_turn_that_cannot_be_written_takes_elements_and_row_back)
{
    struct kv_fix fix;
    begin(&fix);
    push(&fix, MORE, "k", "b");
    push(&fix, MORE, "k", "c");
    held_write(&fix.kv);
    ASSERT_EQ(stored_count(&fix, "k"), 3);
    file_sim_arm(fix.sim, &(struct file_sim_fault){
                              .op = FILE_SIM_WRITE, .count = 1, .times = -1, .rc = RC_IO});
    ASSERT_TRUE(store_write(fix.store, &fix.err) != RC_OK);
    file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_WRITE});
    list_expect(&fix, "k", "a");
    ASSERT_EQ(stored_count(&fix, "k"), 1);
    kv_fix_done(&fix);
}

TEST(a_row_is_put_though_the_disk_has_become_full)
{
    enum { RESERVE_BYTES = 1 << 20 };
    struct kv_fix fix;
    struct kv_run call = {.key = BYTES("k"), .words = "c"};
    begin(&fix);
    fix.disk_reserve_bytes = RESERVE_BYTES;
    file_sim_space(fix.sim, 100 * RESERVE_BYTES);
    kv_fix_reopen(&fix);
    push(&fix, MORE, "k", "b");
    file_sim_space(fix.sim, RESERVE_BYTES / 2);
    clock_advance_ms(&fix.clock, 2000); /* then the journal looks */
    store_step(fix.store, STORE_STEP_JOURNAL);
    ASSERT_RC(kv_run_step(&fix, MORE, kv_run_push, &call), RC_FULL);
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

/* Two keys of the turn before, and what a turn has done when its row cannot be put. */
static void refused_turn(struct kv_fix *fix)
{
    begin(fix);
    words(fix, LAST, run_zadd, "z", "m");
    kv_run_end(fix);
    push(fix, LAST, "new", "x");
    words(fix, MORE, run_zadd, "z", "n o");
}

static void refused_check(struct kv_fix *fix)
{
    ASSERT_EQ(seen_count(fix, "z"), 1);
    ASSERT_EQ(seen_count(fix, "new"), -1);
    ASSERT_EQ(ns_key_count(fix->ns), 2);
    list_expect(fix, "k", "a");
}

/* Lets the journal fail: it takes nothing more until store_poll() has tried again. */
static void journal_break(struct kv_fix *fix)
{
    struct store_stats stats;
    file_sim_arm(fix->sim, &(struct file_sim_fault){
                               .op = FILE_SIM_SYNC, .count = 1, .times = -1, .rc = RC_IO});
    store_sync_ask(fix->store);
    store_step(fix->store, STORE_STEP_JOURNAL);
    store_stats(fix->store, &stats);
    ASSERT_TRUE(stats.journal.read_only);
}

TEST(a_row_that_cannot_be_put_refuses_the_turn)
{
    struct kv_fix fix;
    struct kv_run remove = {.key = BYTES("z"), .words = "n o"};
    struct kv_run more = {.key = BYTES("k"), .words = "b"};
    refused_turn(&fix);
    journal_break(&fix);
    held_write(&fix.kv);
    ASSERT_FALSE(fix.kv.held.row.is);
    refused_check(&fix); /* at once: what runs next finds rows and counts that fit */
    ASSERT_OK(kv_run_step(&fix, MORE, run_zrem, &remove), &fix.err); /* they are no members */
    ASSERT_RC(kv_run_step(&fix, MORE, kv_run_push, &more), RC_READONLY);
    ASSERT_FALSE(fix.kv.held.row.is);
    held_write(&fix.kv);
    ASSERT_RC(store_write(fix.store, &fix.err), RC_READONLY);
    refused_check(&fix);
    file_sim_arm(fix.sim, &(struct file_sim_fault){.op = FILE_SIM_SYNC});
    kv_fix_reopen(&fix);
    refused_check(&fix);
    push(&fix, MORE, "k", "b"); /* the next turn is not refused */
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

TEST(a_refused_turn_refuses_every_change_until_it_ends)
{
    struct kv_fix fix;
    struct err why = {0};
    struct kv_run call = {.key = BYTES("k"), .words = "b"};
    refused_turn(&fix);
    held_write(&fix.kv);
    ASSERT_EQ(seen_count(&fix, "z"), 3);
    ASSERT_RC(err_set(&why, RC_NOMEM, "no memory, as a test"), RC_NOMEM);
    store_turn_refuse(fix.store, RC_NOMEM, &why);
    refused_check(&fix);
    ASSERT_RC(kv_run_step(&fix, LAST, kv_run_push, &call), RC_NOMEM);
    ASSERT_STR(fix.err.text, "no memory, as a test");
    struct key key;
    store_begin(fix.store, STORE_DELETES);
    ASSERT_OK(key_write(kv_fix_now(&fix), BYTES("k"), KEY_ANY, &key, &fix.err), &fix.err);
    ASSERT_RC(key_remove(&key, &fix.err), RC_NOMEM);
    store_undo(fix.store);
    store_begin(fix.store, 0); /* an empty commit is none */
    store_commit(fix.store);
    (void)store_room(fix.store); /* it writes a turn of its own where there is none */
    fix.err.text[0] = 0;
    ASSERT_RC(store_write(fix.store, &fix.err), RC_NOMEM);
    ASSERT_STR(fix.err.text, "no memory, as a test");
    ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
    refused_check(&fix);
    push(&fix, LAST, "k", "b");
    kv_run_end(&fix);
    list_expect_always(&fix, "k", "a b");
    kv_fix_done(&fix);
}

#ifdef TERRACE_FAULTS
TEST(a_settle_without_memory_takes_the_turn_back)
{
    bool struck = true;
    int refused_count = 0;
    for (int64_t count = 1; struck; count++) {
        struct kv_fix fix;
        struct kv_run remove = {.key = BYTES("z"), .words = "n o"};
        refused_turn(&fix);
        buf_done(&fix.kv.row); /* what it would find is there no more */
        buf_init(&fix.kv.row, STORE_VALUE_BYTES_MAX);
        int64_t before = mem_try_count();
        mem_fail_after(count);
        held_write(&fix.kv);
        struck = mem_try_count() - before >= count;
        mem_fail_after(-1);
        ASSERT_FALSE(fix.kv.held.row.is);
        if (struck && seen_count(&fix, "z") == 1) { /* not every failure is one of the put */
            refused_count++;
            refused_check(&fix);
            ASSERT_OK(kv_run_step(&fix, LAST, run_zrem, &remove), &fix.err);
            ASSERT_RC(store_write(fix.store, &fix.err), RC_NOMEM);
            refused_check(&fix);
            kv_fix_reopen(&fix);
            refused_check(&fix);
        } else {
            ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
            ASSERT_EQ(seen_count(&fix, "z"), 3);
            ASSERT_EQ(stored_count(&fix, "z"), 3);
        }
        kv_fix_done(&fix);
    }
    ASSERT_GT(refused_count, 0);
}

TEST(a_run_without_memory_at_any_point_is_whole)
{
    bool struck = true;
    for (int64_t count = 1; struck; count++) {
        struct kv_fix fix;
        char expected[KV_RUN_TEXT_BYTES] = "a", word[] = "0";
        size_t len = 1;
        begin(&fix);
        int64_t before = mem_try_count();
        mem_fail_after(count);
        for (int i = 0; i < 6; i++) {
            word[0] = (char)('0' + i);
            struct kv_run call = {.key = BYTES("k"), .words = word};
            if (kv_run_step(&fix, i < 5, kv_run_push, &call) == RC_OK)
                len += (size_t)snprintf(expected + len, sizeof expected - len, " %s", word);
        }
        held_write(&fix.kv);
        struck = mem_try_count() - before >= count;
        mem_fail_after(-1);
        enum rc rc = store_write(fix.store, &fix.err);
        list_expect_always(&fix, "k", rc == RC_OK ? expected : "a");
        kv_fix_done(&fix);
    }
}
#endif

// SPDX-License-Identifier: Apache-2.0
/* test_scan.c - rows of a prefix: those in memory, and pages of those in the engine. */
#include <stdio.h>

#include "store/hot/load.h"
#include "store/testing.h"
#include "store/turns.h"
#include "support/task_fix.h"
#include "test.h"

#include "base/banned.h"

enum { TEXT_BYTES = 1024 };

struct seen {
    char text[TEXT_BYTES]; /* "a b*": a star where a row is hot */
    size_t len;
    bool more;
    char last[32];
};

static void row_see(void *arg, const struct store_scan_row *row)
{
    struct seen *seen = arg;
    int len = snprintf(seen->text + seen->len, sizeof seen->text - seen->len, "%s%.*s%s",
                       seen->len ? " " : "", (int)row->key.len, (const char *)row->key.ptr,
                       row->hot ? "*" : "");
    seen->len += (size_t)len;
}

static void put(struct task_fix *fix, const char *key, bool deletes)
{
    struct store_group group = {.prefix = fix->meta, .key = bytes_of(key, strlen(key))};
    store_begin(fix->store, 0);
    if (deletes)
        ASSERT_OK(store_delete(fix->store, group, BYTES(""), &fix->err), &fix->err);
    else
        ASSERT_OK(store_put(fix->store, group, BYTES(""), BYTES("v"), &fix->err), &fix->err);
    store_commit(fix->store);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
}

static void put_all(struct task_fix *fix, const char *letters)
{
    for (; *letters; letters++)
        put(fix, (char[]){*letters, 0}, false);
}

/* In a commit of its own, which is taken back. */
static enum rc page(struct task_fix *fix, const struct store_scan_page *what, struct seen *seen)
{
    struct bytes last;
    *seen = (struct seen){0};
    store_begin(fix->store, 0);
    enum rc rc = store_scan_engine(fix->store, what, row_see, seen, &seen->more, &last, &fix->err);
    if (rc == RC_OK && seen->more)
        snprintf(seen->last, sizeof seen->last, "%.*s", (int)last.len, (const char *)last.ptr);
    store_undo(fix->store);
    return rc;
}

static void ready_note(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    *(bool *)arg = true;
}

/* Asks for the page and waits for it. */
static void page_hold(struct task_fix *fix, const struct store_scan_page *what,
                      struct load_waiter *waiter)
{
    struct seen seen;
    bool ready = false;
    waiter->ready = ready_note;
    waiter->arg = &ready;
    ASSERT_RC(page(fix, what, &seen), RC_COLD);
    if (!store_wait(fix->store, waiter))
        return;
    while (!ready) {
        store_step(fix->store, STORE_STEP_LOAD);
        store_poll(fix->store);
    }
    ASSERT_RC(waiter->rc, RC_OK);
}

static void page_release(struct task_fix *fix, struct load_waiter *waiter)
{
    store_wait_release(fix->store, waiter);
    load_waiter_done(waiter);
}

/* Everything is in the engine, nothing in memory. */
static void cold_init(struct task_fix *fix, const char *letters)
{
    task_fix_init(fix);
    put_all(fix, letters);
    task_fix_cool(fix);
}

TEST(rows_in_memory_are_shown_and_no_others)
{
    struct task_fix fix;
    struct seen seen = {0};
    cold_init(&fix, "ab");
    ASSERT_FALSE(store_scan_complete(fix.store, fix.meta));
    put(&fix, "c", false);
    put(&fix, "a", true);
    uint64_t cursor = 0;
    do {
        cursor = store_scan_hot(fix.store, fix.meta, cursor, row_see, &seen);
    } while (cursor != 0);
    ASSERT_STR(seen.text, "c*");
    task_fix_done(&fix);
}

TEST(pages_follow_one_another_in_key_order)
{
    struct task_fix fix;
    struct load_waiter waiter = {0};
    struct seen seen;
    cold_init(&fix, "abcde");
    struct store_scan_page what = {.prefix = fix.meta, .look_count_max = 2};
    page_hold(&fix, &what, &waiter);
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "a b");
    ASSERT_TRUE(seen.more);
    ASSERT_STR(seen.last, "b");
    what.from = BYTES("d");
    page_hold(&fix, &what, &waiter);
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "d e");
    what.from = BYTES("e\0");
    page_hold(&fix, &what, &waiter);
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "");
    ASSERT_FALSE(seen.more);
    page_release(&fix, &waiter);
    ASSERT_RC(page(&fix, &what, &seen), RC_COLD); /* let go is let go */
    task_fix_done(&fix);
}

static bool is_vowel(struct bytes pattern, struct bytes key)
{
    return key.len == 1 && memchr(pattern.ptr, key.ptr[0], pattern.len);
}

TEST(a_page_leaves_out_what_does_not_match)
{
    struct task_fix fix;
    struct load_waiter waiter = {0};
    struct seen seen;
    cold_init(&fix, "abcdefghi");
    struct store_scan_page what = {
        .prefix = fix.meta, .look_count_max = 100, .match = is_vowel, .pattern = BYTES("aeiou")};
    page_hold(&fix, &what, &waiter);
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "a e i");
    ASSERT_FALSE(seen.more);
    page_release(&fix, &waiter);
    task_fix_done(&fix);
}

TEST(what_is_hot_wins_over_the_page)
{
    struct task_fix fix;
    struct load_waiter waiter = {0};
    struct seen seen;
    cold_init(&fix, "abc");
    struct store_scan_page what = {.prefix = fix.meta, .look_count_max = 100};
    page_hold(&fix, &what, &waiter);
    put(&fix, "a", true);
    put(&fix, "b", false);
    put(&fix, "new", false);
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "b* c");
    page_release(&fix, &waiter);
    task_fix_done(&fix);
}

TEST(a_page_that_is_pinned_never_goes_stale)
{
    struct task_fix fix;
    struct load_waiter waiter = {0};
    struct seen seen;
    cold_init(&fix, "abc");
    struct store_scan_page what = {.prefix = fix.meta, .look_count_max = 100};
    page_hold(&fix, &what, &waiter);
    put(&fix, "a", true);
    put(&fix, "b", false);
    task_fix_cool(&fix); /* flushed, but what has changed since stays in memory */
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "b* c");
    page_release(&fix, &waiter);
    task_fix_cool(&fix);
    page_hold(&fix, &what, &waiter);
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "b c");
    page_release(&fix, &waiter);
    task_fix_done(&fix);
}

TEST(a_dropped_prefix_has_no_pages)
{
    struct task_fix fix;
    struct load_waiter waiter = {0};
    struct seen seen;
    cold_init(&fix, "abc");
    struct store_scan_page what = {.prefix = fix.meta, .look_count_max = 100};
    page_hold(&fix, &what, &waiter);
    store_begin(fix.store, 0);
    ASSERT_OK(store_prefix_drop(fix.store, fix.meta, &fix.err), &fix.err);
    store_commit(fix.store);
    ASSERT_OK(store_write(fix.store, &fix.err), &fix.err);
    ASSERT_TRUE(store_scan_complete(fix.store, fix.meta));
    ASSERT_OK(page(&fix, &what, &seen), &fix.err);
    ASSERT_STR(seen.text, "");
    page_release(&fix, &waiter);
    task_fix_done(&fix);
}

TEST(counters_are_found_by_number)
{
    struct task_fix fix;
    struct bytes name;
    uint32_t counter;
    task_fix_init(&fix);
    ASSERT_OK(store_counter(fix.store, BYTES("keys"), &counter, &fix.err), &fix.err);
    ASSERT_TRUE(store_counter_name(fix.store, counter, &name));
    ASSERT_BYTES(name, BYTES("keys"));
    ASSERT_FALSE(store_counter_name(fix.store, counter + 1, &name));
    task_fix_done(&fix);
}

// SPDX-License-Identifier: Apache-2.0
#include "types/sort.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/kv_fix.h"
#include "test.h"
#include "types/hash.h"
#include "types/list.h"
#include "types/set.h"
#include "types/string.h"

#include "base/banned.h"

enum { WORDS_MAX = 16 };

static void fix_freep(struct kv_fix **fix)
{
    kv_fix_done(*fix);
    free(*fix);
}

static struct kv_fix *fix_new(void)
{
    struct kv_fix *fix = malloc(sizeof *fix);
    ASSERT_TRUE(fix != NULL);
    kv_fix_init(fix);
    return fix;
}

/* ---- keys ---- */

struct words {
    enum rc (*run)(struct kv_fix *fix, struct words *words);
    struct bytes key;
    struct bytes word[WORDS_MAX];
    size_t count;
};

static enum rc run_list(struct kv_fix *fix, struct words *words)
{
    struct list list;
    enum rc rc = list_write(&fix->run, words->key, &list, &fix->err);
    return rc == RC_OK ? list_push(&list, LIST_TAIL, words->word, words->count, &fix->err) : rc;
}

static enum rc run_set(struct kv_fix *fix, struct words *words)
{
    return set_add(&fix->run, words->key, words->word, words->count, NULL, &fix->err);
}

static enum rc run_hash(struct kv_fix *fix, struct words *words)
{
    return hash_set(&fix->run, words->key, words->word, words->count / 2, NULL, &fix->err);
}

static enum rc run_string(struct kv_fix *fix, struct words *words)
{
    struct key key;
    enum rc rc = key_write(&fix->run, words->key, KEY_ANY, &key, &fix->err);
    return rc == RC_OK ? string_set(&key, words->word[0], 0, &fix->err) : rc;
}

static enum rc words_body(struct kv_fix *fix, void *arg)
{
    struct words *words = arg;
    return words->run(fix, words);
}

static void make(struct kv_fix *fix, enum rc (*run)(struct kv_fix *fix, struct words *words),
                 const char *key, const char *text)
{
    struct words words = {.run = run, .key = bytes_of(key, strlen(key))};
    while (*text) {
        size_t len = strcspn(text, " ");
        words.word[words.count++] = bytes_of(text, len);
        text += len + (text[len] != 0);
    }
    ASSERT_OK(kv_fix_run(fix, words_body, &words), &fix->err);
}

/* ---- sorting ---- */

struct sorting {
    struct sort_options options;
    char text[256]; /* the elements, with spaces between */
};

static enum rc sort_body(struct kv_fix *fix, void *arg)
{
    struct sorting *sorting = arg;
    struct sort_item *item;
    size_t count, len = 0;
    struct key key;
    enum rc rc = sort_key_read(&fix->run, BYTES("k"), &key, &fix->err);
    if (rc == RC_OK)
        rc = sort_run(&key, &sorting->options, &item, &count, &fix->err);
    if (rc != RC_OK)
        return rc;
    sorting->text[0] = 0;
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(sorting->text + len, sizeof sorting->text - len, "%s%.*s",
                                i ? " " : "", (int)item[i].element.len,
                                (const char *)item[i].element.ptr);
    return RC_OK;
}

static void assert_sorted(struct kv_fix *fix, struct sort_options options, const char *by,
                          const char *words, int line)
{
    struct sorting sorting = {.options = options};
    if (options.count == 0) /* not said */
        sorting.options.count = -1;
    if (by) {
        sorting.options.has_by = true;
        sort_pattern_parse(bytes_of(by, strlen(by)), &sorting.options.by);
    }
    ASSERT_OK(kv_fix_run(fix, sort_body, &sorting), &fix->err);
    test_assert_str(__FILE__, line, "the order", sorting.text, words);
}
#define ASSERT_SORTED(fix, by, words, ...) \
    assert_sorted(fix, (struct sort_options){__VA_ARGS__}, by, words, __LINE__)

TEST(a_pattern_is_cut_at_its_first_star_and_arrow)
{
    struct sort_pattern pattern;
    sort_pattern_parse(BYTES("a*b->c->d"), &pattern);
    ASSERT_EQ(pattern.kind, SORT_FIELD);
    ASSERT_BYTES(pattern.before, BYTES("a"));
    ASSERT_BYTES(pattern.after, BYTES("b"));
    ASSERT_BYTES(pattern.field, BYTES("c->d"));
    sort_pattern_parse(BYTES("->*->"), &pattern);
    ASSERT_EQ(pattern.kind, SORT_STRING);
    ASSERT_BYTES(pattern.before, BYTES("->"));
    ASSERT_BYTES(pattern.after, BYTES("->"));
    sort_pattern_parse(BYTES("#"), &pattern);
    ASSERT_EQ(pattern.kind, SORT_SELF);
    sort_pattern_parse(BYTES(""), &pattern);
    ASSERT_EQ(pattern.kind, SORT_NOTHING);
}

TEST(elements_are_sorted_as_numbers_or_as_bytes)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    make(fix, run_list, "k", "10 9 -1 1e1 2.5");
    ASSERT_SORTED(fix, NULL, "-1 2.5 9 10 1e1");
    ASSERT_SORTED(fix, NULL, "1e1 10 9 2.5 -1", .descending = true);
    ASSERT_SORTED(fix, NULL, "-1 10 1e1 2.5 9", .alpha = true);
    ASSERT_SORTED(fix, NULL, "2.5 9", .first = 1, .count = 2);
    ASSERT_SORTED(fix, "nosort", "9 -1", .first = 1, .count = 2);
    ASSERT_SORTED(fix, "nosort", "1e1 -1", .first = 1, .count = 2, .descending = true);
}

TEST(what_is_no_number_is_refused)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct sorting sorting = {.options.count = -1};
    make(fix, run_list, "k", "1 x");
    ASSERT_RC(kv_fix_run(fix, sort_body, &sorting), RC_INVALID);
    make(fix, run_string, "w1", "5");
    make(fix, run_string, "wx", "4");
    ASSERT_SORTED(fix, "w*", "x 1");
}

TEST(cold_weights_are_asked_for_together)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    make(fix, run_set, "k", "a b c d");
    make(fix, run_string, "wa", "3");
    make(fix, run_string, "wb", "1");
    make(fix, run_string, "wc", "2");
    kv_fix_freeze_out(fix);
    ASSERT_SORTED(fix, "w*", "d b c a");
    ASSERT_LE(fix->cold_count, 3); /* the set, its members, all weights */
    make(fix, run_hash, "ha", "f z");
    make(fix, run_hash, "hb", "f y g x");
    make(fix, run_hash, "hc", "f x");
    kv_fix_freeze_out(fix);
    ASSERT_SORTED(fix, "h*->f", "d c b a", .alpha = true);
    ASSERT_SORTED(fix, "h*->f", "a b c d", .alpha = true, .descending = true);
}

TEST(a_stored_result_of_a_set_is_sorted_in_any_case)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    make(fix, run_set, "k", "b a c");
    ASSERT_SORTED(fix, "nosort", "c b a", .descending = true, .stored = true);
}

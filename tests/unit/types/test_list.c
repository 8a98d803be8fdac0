// SPDX-License-Identifier: Apache-2.0
#include "types/list.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "store/turns.h"
#include "support/kv_fix.h"
#include "test.h"

#include "base/banned.h"

enum { WORDS_MAX = 16, BIG_COUNT = 5000 };

/* ---- one change, as kv_fix_run() runs it ---- */

struct op {
    enum rc (*run)(struct list *list, struct op *op, struct err *err);
    struct bytes key;
    enum list_end end, to;
    uint64_t position, count;
    bool before;
    struct bytes element; /* or pivot */
    struct bytes word[WORDS_MAX];
    size_t word_count;
    uint64_t removed_count;
};

static enum rc run_push(struct list *list, struct op *op, struct err *err)
{
    return list_push(list, op->end, op->word, op->word_count, err);
}

static enum rc run_pop(struct list *list, struct op *op, struct err *err)
{
    return list_pop(list, op->end, op->count, err);
}

static enum rc run_rotate(struct list *list, struct op *op, struct err *err)
{
    struct bytes element;
    enum rc rc = list_peek(list, op->end, &element, err);
    return rc == RC_OK ? list_rotate(list, op->end, op->to, element, err) : rc;
}

static enum rc run_trim(struct list *list, struct op *op, struct err *err)
{
    return list_trim(list, op->position, op->count, err);
}

static enum rc run_set(struct list *list, struct op *op, struct err *err)
{
    return list_set(list, op->position, op->element, err);
}

static enum rc run_insert(struct list *list, struct op *op, struct err *err)
{
    return list_insert(list, op->element, op->before, op->word[0], NULL, err);
}

static enum rc run_remove(struct list *list, struct op *op, struct err *err)
{
    return list_remove(list, op->end, op->count, op->element, NULL, &op->removed_count, err);
}

static enum rc run_expire(struct list *list, struct op *op, struct err *err)
{
    uint8_t extra[16];
    be64_put(extra, (uint64_t)list->head);
    be64_put(extra + 8, (uint64_t)list->tail);
    list->key.meta.expire_ms = op->count;
    return key_save(&list->key, bytes_of(extra, sizeof extra), err);
}

/* What no list has: numbers that do not fit the count. */
static enum rc run_damage(struct list *list, struct op *op, struct err *err)
{
    (void)op;
    return key_save(&list->key, BYTES("0123456789abcdef"), err);
}

static enum rc op_body(struct kv_fix *fix, void *arg)
{
    struct op *op = arg;
    struct list list;
    enum rc rc = list_write(&fix->run, op->key, &list, &fix->err);
    return rc == RC_OK ? op->run(&list, op, &fix->err) : rc;
}

static void op_run(struct kv_fix *fix, struct op *op)
{
    if (op->key.len == 0)
        op->key = BYTES("k");
    ASSERT_OK(kv_fix_run(fix, op_body, op), &fix->err);
}

static void words_split(struct op *op, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, " ");
        op->word[op->word_count++] = bytes_of(text, len);
        text += len + (text[len] != 0);
    }
}

static void push(struct kv_fix *fix, enum list_end end, const char *words)
{
    struct op op = {.run = run_push, .end = end};
    words_split(&op, words);
    op_run(fix, &op);
}

static void pop(struct kv_fix *fix, enum list_end end, uint64_t count)
{
    op_run(fix, &(struct op){.run = run_pop, .end = end, .count = count});
}

static void trim(struct kv_fix *fix, uint64_t position, uint64_t count)
{
    op_run(fix, &(struct op){.run = run_trim, .position = position, .count = count});
}

static enum rc insert(struct kv_fix *fix, bool before, const char *pivot, const char *word)
{
    struct op op = {.run = run_insert, .key = BYTES("k"), .before = before};
    op.element = bytes_of(pivot, strlen(pivot));
    words_split(&op, word);
    return kv_fix_run(fix, op_body, &op);
}

static uint64_t take(struct kv_fix *fix, enum list_end end, uint64_t count, const char *word)
{
    struct op op = {.run = run_remove, .end = end, .count = count};
    op.element = bytes_of(word, strlen(word));
    op_run(fix, &op);
    return op.removed_count;
}

static void rotate(struct kv_fix *fix, enum list_end from, enum list_end to)
{
    op_run(fix, &(struct op){.run = run_rotate, .end = from, .to = to});
}

static void fill(struct kv_fix *fix, int count)
{
    for (int i = 0; i < count; i++) {
        char text[16];
        int len = snprintf(text, sizeof text, "%d", i);
        struct op op = {.run = run_push, .end = LIST_TAIL, .word_count = 1};
        op.word[0] = bytes_of(text, (size_t)len);
        op_run(fix, &op);
    }
}

/* ---- what is there ---- */

struct look {
    struct list list;
    struct buf text;  /* the elements, with spaces between */
    size_t row_count; /* of the group */
    uint64_t position;
    uint64_t count;
    bool reverse;
};

static enum rc walk_body(struct kv_fix *fix, void *arg)
{
    struct look *look = arg;
    CLEANUP(list_walk_done) struct list_walk walk = {0};
    struct bytes element;
    look->text.len = 0;
    enum rc rc = list_read(&fix->run, BYTES("k"), &look->list, &fix->err);
    if (rc != RC_OK || !look->list.key.exists)
        return rc;
    rc = list_walk_init(&walk, &look->list, look->position, look->count, look->reverse, &fix->err);
    while (rc == RC_OK) {
        rc = list_walk_next(&walk, &element, &fix->err);
        if (rc == RC_OK)
            ASSERT_TRUE((look->text.len == 0 || buf_add(&look->text, " ", 1)) &&
                        buf_add_bytes(&look->text, element));
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc rows_body(struct kv_fix *fix, void *arg)
{
    struct look *look = arg;
    CLEANUP(store_walk_done) struct store_walk walk;
    struct bytes suffix, value;
    enum rc rc = RC_OK;
    look->row_count = 0;
    store_walk_init(&walk, fix->store, key_rows(&look->list.key), false);
    while ((rc = store_walk_next(&walk, &suffix, &value, &fix->err)) == RC_OK)
        look->row_count++;
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static void assert_list(struct kv_fix *fix, const char *words, const char *file, int line)
{
    struct look look = {.count = UINT64_MAX};
    buf_init(&look.text, 1 << 20);
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    test_assert_bytes(file, line, "the list", buf_bytes(&look.text),
                      bytes_of(words, strlen(words)));
    ASSERT_EQ(look.list.key.exists, words[0] != 0);
    ASSERT_EQ(ns_key_count(fix->ns), words[0] != 0);
    if (look.list.key.exists) {
        ASSERT_OK(kv_fix_run(fix, rows_body, &look), &fix->err);
        ASSERT_EQ(look.row_count, list_count(&look.list));
    }
    buf_done(&look.text);
}
#define ASSERT_LIST(fix, words) assert_list(fix, words, __FILE__, __LINE__)

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

/* ---- the layout ---- */

static enum rc raw_body(struct kv_fix *fix, void *arg)
{
    struct look *look = arg;
    struct bytes value;
    enum rc rc = list_read(&fix->run, BYTES("k"), &look->list, &fix->err);
    if (rc != RC_OK)
        return rc;
    struct store_group rows = key_rows(&look->list.key);
    ASSERT_BYTES(look->list.key.meta.extra,
                 BYTES("\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x00\x00\x00"));
    ASSERT_EQ(look->list.key.meta.count, 3);
    ASSERT_OK(
        store_get(fix->store, rows, BYTES("<\xff\xff\xff\xff\xff\xff\xff\xff"), &value, &fix->err),
        &fix->err);
    ASSERT_BYTES(value, BYTES("b"));
    ASSERT_OK(
        store_get(fix->store, rows, BYTES("<\xff\xff\xff\xff\xff\xff\xff\xfe"), &value, &fix->err),
        &fix->err);
    ASSERT_BYTES(value, BYTES("c"));
    ASSERT_OK(store_get(fix->store, rows, BYTES(">\0\0\0\0\0\0\0\0"), &value, &fix->err),
              &fix->err);
    ASSERT_BYTES(value, BYTES("a"));
    return RC_OK;
}

TEST(numbers_are_signed_and_written_as_specified)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct look look = {0};
    push(fix, LIST_TAIL, "a");
    push(fix, LIST_HEAD, "b c");
    ASSERT_OK(kv_fix_run(fix, raw_body, &look), &fix->err);
    ASSERT_LIST(fix, "c b a");
}

TEST(a_first_push_at_the_head_has_number_minus_one)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct look look = {.count = UINT64_MAX};
    buf_init(&look.text, 100);
    push(fix, LIST_HEAD, "a b");
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_EQ(look.list.head, -2);
    ASSERT_EQ(look.list.tail, -1);
    buf_done(&look.text);
}

TEST(a_meta_row_that_contradicts_its_count_is_corrupt)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct op op = {.run = run_pop, .key = BYTES("k"), .count = 1};
    push(fix, LIST_TAIL, "a b");
    op_run(fix, &(struct op){.run = run_damage});
    ASSERT_RC(kv_fix_run(fix, op_body, &op), RC_CORRUPT);
}

/* ---- the ends ---- */

TEST(elements_are_pushed_one_after_the_other)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_HEAD, "a b c");
    push(fix, LIST_TAIL, "d e");
    ASSERT_LIST(fix, "c b a d e");
    kv_fix_reopen(fix);
    ASSERT_LIST(fix, "c b a d e");
}

TEST(a_cold_list_takes_pushes_without_a_load_of_its_rows)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    fill(fix, 10);
    kv_fix_freeze_out(fix);
    push(fix, LIST_HEAD, "x");
    push(fix, LIST_TAIL, "y");
    ASSERT_EQ(fix->cold_count, 1); /* the meta row */
    pop(fix, LIST_HEAD, 1);
    pop(fix, LIST_TAIL, 1);
    ASSERT_EQ(fix->cold_count, 1);
    ASSERT_LIST(fix, "0 1 2 3 4 5 6 7 8 9");
}

TEST(popping_the_last_element_removes_the_key)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_TAIL, "a b");
    pop(fix, LIST_TAIL, 1);
    ASSERT_LIST(fix, "a");
    pop(fix, LIST_HEAD, 1);
    ASSERT_LIST(fix, "");
    push(fix, LIST_TAIL, "c");
    kv_fix_freeze_out(fix);
    pop(fix, LIST_HEAD, 1);
    ASSERT_LIST(fix, "");
}

TEST(pops_of_a_cold_list_load_a_page_once)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    fill(fix, 100);
    for (enum list_end end = LIST_HEAD; end <= LIST_TAIL; end++) {
        kv_fix_freeze_out(fix);
        fix->cold_count = 0;
        for (int i = 0; i < 20; i++)
            rotate(fix, end, end == LIST_HEAD ? LIST_TAIL : LIST_HEAD);
        ASSERT_EQ(fix->cold_count, 2); /* the meta row, the page */
    }
}

TEST(a_rotation_moves_an_element_or_leaves_it)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_TAIL, "a b c");
    rotate(fix, LIST_TAIL, LIST_HEAD);
    ASSERT_LIST(fix, "c a b");
    rotate(fix, LIST_HEAD, LIST_TAIL);
    ASSERT_LIST(fix, "a b c");
    rotate(fix, LIST_TAIL, LIST_TAIL);
    ASSERT_LIST(fix, "a b c");
    pop(fix, LIST_HEAD, 2);
    rotate(fix, LIST_TAIL, LIST_HEAD);
    ASSERT_LIST(fix, "c");
}

/* ---- reading ---- */

static enum rc get_body(struct kv_fix *fix, void *arg)
{
    uint64_t position = *(uint64_t *)arg;
    struct list list;
    struct bytes element;
    char text[16];
    enum rc rc = list_read(&fix->run, BYTES("k"), &list, &fix->err);
    if (rc == RC_OK)
        rc = list_get(&list, position, &element, &fix->err);
    if (rc != RC_OK)
        return rc;
    ASSERT_BYTES(element, bytes_of(text, (size_t)snprintf(text, sizeof text, "%d", (int)position)));
    return RC_OK;
}

TEST(an_element_is_found_by_its_number)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    fill(fix, 1000);
    for (int round = 0; round < 2; round++) {
        for (uint64_t position = 0; position < 1000; position += 111)
            ASSERT_OK(kv_fix_run(fix, get_body, &position), &fix->err);
        kv_fix_freeze_out(fix);
    }
}

TEST(a_walk_goes_both_ways_from_anywhere)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct look look = {.position = 5, .count = 3};
    buf_init(&look.text, 100);
    fill(fix, 10);
    kv_fix_freeze_out(fix);
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_BYTES(buf_bytes(&look.text), BYTES("5 6 7"));
    look.reverse = true;
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_BYTES(buf_bytes(&look.text), BYTES("5 4 3"));
    look.count = 100;
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_BYTES(buf_bytes(&look.text), BYTES("5 4 3 2 1 0"));
    buf_done(&look.text);
}

TEST(a_cold_walk_asks_for_all_its_pages_at_once)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct look look = {.count = UINT64_MAX};
    buf_init(&look.text, 1 << 20);
    fill(fix, BIG_COUNT);
    for (int round = 0; round < 2; round++) {
        kv_fix_freeze_out(fix);
        fix->cold_count = 0;
        look.reverse = round == 1;
        look.position = look.reverse ? BIG_COUNT - 1 : 0;
        ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
        ASSERT_EQ(fix->cold_count, 2); /* the meta row, twenty pages */
    }
    buf_done(&look.text);
}

TEST(an_expired_list_is_not_there)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct look look = {.count = UINT64_MAX};
    buf_init(&look.text, 100);
    push(fix, LIST_TAIL, "a b");
    op_run(fix, &(struct op){.run = run_expire, .count = clock_unix_ms(&fix->clock) + 10});
    clock_advance_ms(&fix->clock, 10);
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_FALSE(look.list.key.exists);
    ASSERT_EQ(list_count(&look.list), 0);
    push(fix, LIST_TAIL, "c");
    ASSERT_LIST(fix, "c");
    buf_done(&look.text);
}

/* ---- the middle ---- */

TEST(an_element_is_replaced_without_a_load)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct op op = {.run = run_set, .position = 1, .element = BYTES("x")};
    push(fix, LIST_TAIL, "a b c");
    kv_fix_freeze_out(fix);
    op_run(fix, &op);
    ASSERT_EQ(fix->cold_count, 1);
    ASSERT_LIST(fix, "a x c");
}

TEST(an_element_is_inserted_beside_the_first_pivot)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_TAIL, "a b c b d");
    ASSERT_OK(insert(fix, true, "b", "1"), &fix->err);
    ASSERT_LIST(fix, "a 1 b c b d");
    ASSERT_OK(insert(fix, false, "d", "2"), &fix->err);
    ASSERT_OK(insert(fix, true, "a", "3"), &fix->err);
    ASSERT_LIST(fix, "3 a 1 b c b d 2");
    ASSERT_OK(insert(fix, true, "d", "4"), &fix->err);
    ASSERT_LIST(fix, "3 a 1 b c b 4 d 2");
    kv_fix_freeze_out(fix);
    ASSERT_OK(insert(fix, false, "c", "5"), &fix->err);
    ASSERT_LIST(fix, "3 a 1 b c 5 b 4 d 2");
    ASSERT_RC(insert(fix, true, "none", "6"), RC_NOT_FOUND);
}

TEST(inserting_moves_the_shorter_side)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct look look = {.count = UINT64_MAX};
    buf_init(&look.text, 100);
    push(fix, LIST_TAIL, "a b c d e f");
    ASSERT_OK(insert(fix, false, "a", "x"), &fix->err);
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_EQ(look.list.head, -1);
    ASSERT_EQ(look.list.tail, 5);
    ASSERT_OK(insert(fix, true, "f", "y"), &fix->err);
    ASSERT_OK(kv_fix_run(fix, walk_body, &look), &fix->err);
    ASSERT_EQ(look.list.head, -1);
    ASSERT_EQ(look.list.tail, 6);
    buf_done(&look.text);
}

TEST(equal_elements_are_removed_from_either_end)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_TAIL, "a b a c a d a");
    ASSERT_EQ(take(fix, LIST_HEAD, 1, "a"), 1);
    ASSERT_LIST(fix, "b a c a d a");
    ASSERT_EQ(take(fix, LIST_TAIL, 2, "a"), 2);
    ASSERT_LIST(fix, "b a c d");
    ASSERT_EQ(take(fix, LIST_HEAD, 0, "none"), 0);
    push(fix, LIST_HEAD, "c c");
    kv_fix_freeze_out(fix);
    ASSERT_EQ(take(fix, LIST_HEAD, 0, "c"), 3);
    ASSERT_LIST(fix, "b a d");
}

TEST(removing_every_element_removes_the_key)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_TAIL, "a a a");
    ASSERT_EQ(take(fix, LIST_TAIL, 0, "a"), 3);
    ASSERT_LIST(fix, "");
}

/* ---- trimming ---- */

TEST(a_trim_keeps_a_range)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    push(fix, LIST_TAIL, "a b c d e");
    trim(fix, 0, 5);
    ASSERT_LIST(fix, "a b c d e");
    trim(fix, 1, 3);
    ASSERT_LIST(fix, "b c d");
    trim(fix, 0, 0);
    ASSERT_LIST(fix, "");
}

TEST(a_small_cut_of_a_cold_list_loads_no_row)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    fill(fix, 50);
    kv_fix_freeze_out(fix);
    trim(fix, 45, 4);
    ASSERT_EQ(fix->cold_count, 1);
    ASSERT_LIST(fix, "45 46 47 48");
}

TEST(a_large_cut_of_a_cold_list_reads_only_what_it_keeps)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct store_stats stats;
    fill(fix, BIG_COUNT);
    kv_fix_freeze_out(fix);
    trim(fix, 3000, 5);
    store_stats(fix->store, &stats);
    ASSERT_LE(stats.load_row_count, 600); /* the meta row, a page or two */
    ASSERT_LIST(fix, "3000 3001 3002 3003 3004");
    kv_fix_freeze_out(fix);
    ASSERT_LIST(fix, "3000 3001 3002 3003 3004");
    kv_fix_reopen(fix);
    ASSERT_LIST(fix, "3000 3001 3002 3003 3004");
}

/* ---- events ---- */

static void note(void *arg, const struct run *run, struct bytes key, enum kv_event kind,
                 const char *event, bool exists)
{
    (void)run;
    (void)kind;
    (void)exists;
    ASSERT_TRUE(buf_printf(arg, "%s:%.*s ", event, (int)key.len, (const char *)key.ptr));
}

TEST(changes_are_told_in_the_order_of_redis)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    CLEANUP(buf_done) struct buf said;
    buf_init(&said, 1000);
    fix->kv.hooks.changed = note;
    fix->kv.hooks.arg = &said;
    fix->kv.listening = 1;
    push(fix, LIST_TAIL, "a b c");
    push(fix, LIST_HEAD, "d");
    rotate(fix, LIST_HEAD, LIST_TAIL);
    ASSERT_OK(insert(fix, true, "a", "x"), &fix->err);
    take(fix, LIST_HEAD, 1, "x");
    take(fix, LIST_HEAD, 1, "none");
    op_run(fix, &(struct op){.run = run_set, .element = BYTES("y")});
    trim(fix, 0, 2);
    pop(fix, LIST_TAIL, 1);
    pop(fix, LIST_HEAD, 1);
    ASSERT_BYTES(buf_bytes(&said), BYTES("rpush:k lpush:k rpush:k lpop:k linsert:k lrem:k lset:k "
                                         "ltrim:k rpop:k lpop:k del:k "));
    fix->kv.listening = 0;
}

/* ---- against an array ---- */

struct model {
    char item[4096][4];
    size_t count;
};

static void model_open(struct model *model, size_t at)
{
    memmove(model->item[at + 1], model->item[at], (model->count - at) * sizeof *model->item);
    model->count++;
}

static void model_close(struct model *model, size_t at)
{
    model->count--;
    memmove(model->item[at], model->item[at + 1], (model->count - at) * sizeof *model->item);
}

static uint64_t model_take(struct model *model, enum list_end end, uint64_t count, const char *word)
{
    uint64_t removed = 0;
    size_t at = end == LIST_HEAD ? 0 : model->count - 1;
    while (at < model->count && (count == 0 || removed < count)) {
        bool equal = strcmp(model->item[at], word) == 0;
        if (equal) {
            model_close(model, at);
            removed++;
        }
        if (end == LIST_TAIL)
            at--; /* below 0 it ends the loop */
        else
            at += !equal;
    }
    return removed;
}

static void model_insert(struct kv_fix *fix, struct model *model, bool before, const char *pivot,
                         const char *word)
{
    size_t at = 0;
    while (at < model->count && strcmp(model->item[at], pivot) != 0)
        at++;
    enum rc rc = insert(fix, before, pivot, word);
    ASSERT_RC(rc, at < model->count ? RC_OK : RC_NOT_FOUND);
    if (rc != RC_OK)
        return;
    model_open(model, at + !before);
    snprintf(model->item[at + !before], sizeof *model->item, "%s", word);
}

static void model_step(struct kv_fix *fix, struct model *model, struct rand *rand)
{
    char word[4];
    snprintf(word, sizeof word, "%d", (int)rand_below(rand, 20));
    enum list_end end = rand_below(rand, 2) ? LIST_HEAD : LIST_TAIL;
    uint64_t what = rand_below(rand, 12);
    if (model->count == 0 || what < 6) {
        push(fix, end, word);
        size_t at = end == LIST_HEAD ? 0 : model->count;
        model_open(model, at);
        memcpy(model->item[at], word, sizeof word);
    } else if (what < 8) {
        pop(fix, end, 1);
        model_close(model, end == LIST_HEAD ? 0 : model->count - 1);
    } else if (what < 10) {
        char pivot[4];
        snprintf(pivot, sizeof pivot, "%d", (int)rand_below(rand, 20));
        model_insert(fix, model, rand_below(rand, 2), pivot, word);
    } else if (what < 11) {
        uint64_t count = rand_below(rand, 3);
        uint64_t removed = take(fix, end, count, word);
        ASSERT_EQ(removed, model_take(model, end, count, word));
    } else {
        size_t first = rand_below(rand, model->count / 8 + 1);
        size_t last = model->count - 1 - rand_below(rand, model->count / 8 + 1);
        trim(fix, first, last - first + 1);
        while (model->count > last + 1)
            model_close(model, model->count - 1);
        for (size_t i = 0; i < first; i++)
            model_close(model, 0);
    }
}

TEST(random_changes_of_hot_and_cold_lists_agree_with_an_array)
{
    CLEANUP(fix_freep) struct kv_fix *fix = fix_new();
    struct model *model = calloc(1, sizeof *model);
    CLEANUP(buf_done) struct buf words;
    struct rand rand;
    ASSERT_TRUE(model != NULL);
    buf_init(&words, 1 << 20);
    rand_init_seed(&rand, 7);
    for (int i = 0; i < 4000; i++) {
        model_step(fix, model, &rand);
        if (rand_below(&rand, 50) == 0)
            kv_fix_freeze_out(fix);
        if (rand_below(&rand, 400) == 0)
            kv_fix_reopen(fix);
        if (i % 10 > 0)
            continue;
        words.len = 0;
        for (size_t j = 0; j < model->count; j++)
            ASSERT_TRUE(buf_printf(&words, "%s%s", j ? " " : "", model->item[j]));
        ASSERT_TRUE(buf_add(&words, "", 1));
        ASSERT_LIST(fix, (const char *)words.ptr);
    }
    free(model);
}

// SPDX-License-Identifier: Apache-2.0
#include "types/guard.h"

#include <stdio.h>

#include "store/turns.h"
#include "support/kv_keys.h"
#include "test.h"
#include "types/build.h"
#include "types/hash.h"
#include "types/names.h"
#include "types/string.h"

#include "base/banned.h"

/* A model that writes down what its guard is asked, and takes keys that begin with a letter. */
struct model {
    struct key_guard guard;
    char takes;   /* 0: every key */
    enum rc says; /* to every change, flush and swap */
    char heard[256];
};

static void hear(struct model *model, const char *what, struct bytes name)
{
    size_t len = strlen(model->heard);
    snprintf(model->heard + len, sizeof model->heard - len, "%s%s %.*s", len > 0 ? "; " : "", what,
             (int)name.len, (const char *)name.ptr);
}

static void expect(struct model *model, const char *heard)
{
    ASSERT_STR(model->heard, heard);
    model->heard[0] = 0;
}

static enum rc found(void *arg, struct key *key, enum key_need need, struct err *err)
{
    struct model *model = arg;
    (void)need, (void)err;
    if (model->takes && (key->name.len == 0 || key->name.ptr[0] != model->takes))
        return RC_NOT_FOUND;
    hear(model, "found", key->name);
    return RC_OK;
}

static enum rc missing(void *arg, const struct key *key, struct bytes field, struct err *err)
{
    (void)key, (void)err;
    hear(arg, "missing", field);
    return RC_NOT_FOUND;
}

static enum rc change(void *arg, const struct key *key, const struct bytes *field,
                      enum guard_change change, struct err *err)
{
    static const char *const text[] = {
        [GUARD_SET] = "set", [GUARD_REMOVED] = "removed", [GUARD_EXPIRED] = "expired"};
    struct model *model = arg;
    hear(model, text[change], field ? *field : key->name);
    return model->says == RC_OK ? RC_OK : err_set(err, model->says, "the guard says no");
}

static enum rc end(void *arg, const struct run *run, enum guard_end end, struct err *err)
{
    static const char *const text[] = {
        [GUARD_FLUSH] = "flush", [GUARD_SWAP] = "swap", [GUARD_DROP] = "drop"};
    struct model *model = arg;
    hear(model, text[end], run->ns->name);
    return model->says == RC_OK ? RC_OK : err_set(err, model->says, "the guard says no");
}

static void model_init(struct model *model, char takes)
{
    *model = (struct model){.takes = takes};
    model->guard = (struct key_guard){
        .model = model, .found = found, .missing = missing, .change = change, .end = end};
}

/* ---- runs ---- */

static void begin(struct kv_fix *fix)
{
    store_begin(fix->store, 0);
    run_begin(&fix->run, &fix->kv, fix->ns, 0);
}

static void commit(struct kv_fix *fix)
{
    ASSERT_RC(run_end(&fix->run, RC_OK), RC_OK);
    store_commit(fix->store);
    ASSERT_OK(store_write(fix->store, &fix->err), &fix->err);
}

static enum rc put(struct kv_fix *fix, const struct run *run, struct bytes name)
{
    struct key key;
    enum rc rc = key_write(run, name, KEY_ANY, &key, &fix->err);
    return rc == RC_OK ? string_set(&key, BYTES("v"), 0, &fix->err) : rc;
}

static bool has(struct kv_fix *fix, const struct run *run, struct bytes name)
{
    struct key key;
    ASSERT_OK(key_read(run, name, KEY_ANY, &key, &fix->err), &fix->err);
    return key.exists;
}

/* ---- whose a key is ---- */

TEST(a_key_that_nobody_takes_has_no_guard)
{
    struct kv_fix fix;
    struct model model;
    struct key key;
    kv_fix_init(&fix);
    model_init(&model, 'a');
    ns_guard_add(fix.ns, &model.guard);
    begin(&fix);
    ASSERT_OK(key_write(&fix.run, BYTES("b"), KEY_ANY, &key, &fix.err), &fix.err);
    ASSERT_TRUE(key.guard == NULL && key.locked == NULL);
    ASSERT_OK(key_write(&fix.run, BYTES("a"), KEY_ANY, &key, &fix.err), &fix.err);
    ASSERT_TRUE(key.guard == &model.guard);
    expect(&model, "found a");
    commit(&fix);
    kv_fix_done(&fix);
}

TEST(a_key_has_the_first_guard_that_takes_it)
{
    struct kv_fix fix;
    struct model first, second;
    kv_fix_init(&fix);
    model_init(&first, 'a');
    model_init(&second, 0);
    ns_guard_add(fix.ns, &first.guard);
    ns_guard_add(fix.ns, &second.guard);
    begin(&fix);
    ASSERT_FALSE(has(&fix, &fix.run, BYTES("a")));
    expect(&first, "found a");
    expect(&second, "");
    ASSERT_FALSE(has(&fix, &fix.run, BYTES("b")));
    expect(&first, "");
    expect(&second, "found b");
    commit(&fix);
    kv_fix_done(&fix);
}

static enum rc any_name(void *arg, struct bytes name, struct err *err)
{
    (void)arg, (void)name, (void)err;
    return RC_OK;
}

TEST(the_order_of_guards_does_not_depend_on_who_came_first)
{
    struct kv_fix fix;
    struct model owner, namer, third, fourth;
    kv_fix_init(&fix);
    model_init(&third, 0);
    model_init(&fourth, 0);
    model_init(&namer, 0);
    model_init(&owner, 0);
    namer.guard.name_check = any_name;
    owner.guard.prefix = BYTES("own:");
    ns_guard_add(fix.ns, &third.guard);
    ns_guard_add(fix.ns, &namer.guard);
    ns_guard_add(fix.ns, &fourth.guard);
    ns_guard_add(fix.ns, &owner.guard);
    ns_guard_add(fix.ns, &third.guard); /* it is there */
    const struct key_guard *want[] = {&owner.guard, &namer.guard, &third.guard, &fourth.guard,
                                      NULL};
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        ASSERT_TRUE(fix.ns->guards[i] == want[i]);
    ASSERT_TRUE(fix.ns->name_guard == &namer.guard);
    kv_fix_done(&fix);
}

TEST(guards_that_are_removed_leave_nothing)
{
    struct kv_fix fix;
    struct model one, other;
    kv_fix_init(&fix);
    model_init(&one, 0);
    model_init(&other, 0);
    one.guard.name_check = any_name;
    ns_guard_add(fix.ns, &one.guard);
    ns_guard_add(fix.ns, &other.guard);
    ns_guard_remove(fix.ns, &one.guard);
    ASSERT_TRUE(fix.ns->name_guard == NULL);
    begin(&fix);
    ASSERT_FALSE(has(&fix, &fix.run, BYTES("a")));
    expect(&one, "");
    expect(&other, "found a");
    commit(&fix);
    ns_guard_remove(fix.ns, &other.guard);
    ns_guard_remove(fix.ns, &other.guard); /* it is not there */
    ASSERT_TRUE(fix.ns->guards == NULL);
    kv_fix_done(&fix);
}

/* ---- a model's own ---- */

TEST(only_the_model_writes_its_own_keys)
{
    struct kv_fix fix;
    int model, other;
    struct key_guard guard = {
        .model = &model, .prefix = BYTES("own:"), .locked = "a key of the model"};
    kv_fix_init(&fix);
    ns_guard_add(fix.ns, &guard);
    begin(&fix);
    ASSERT_RC(put(&fix, &fix.run, BYTES("own:a")), RC_INVALID);
    ASSERT_STR(fix.err.text, "a key of the model");
    struct run own = run_as(&fix.run, fix.ns, &model);
    ASSERT_RC(put(&fix, &own, BYTES("own:a")), RC_OK);
    struct run others = run_as(&fix.run, fix.ns, &other);
    ASSERT_RC(put(&fix, &others, BYTES("own:a")), RC_INVALID);
    ASSERT_RC(put(&fix, &fix.run, BYTES("own:b")), RC_INVALID);
    ASSERT_TRUE(has(&fix, &fix.run, BYTES("own:a"))); /* everybody reads them */
    ASSERT_RC(put(&fix, &fix.run, BYTES("others")), RC_OK);
    ASSERT_TRUE(ns_owns(fix.ns, BYTES("own:c")));
    ASSERT_FALSE(ns_owns(fix.ns, BYTES("own")));
    commit(&fix);
    kv_fix_done(&fix);
}

TEST(no_other_guard_is_asked_about_a_models_own_names)
{
    struct kv_fix fix;
    struct model all;
    int model;
    struct key_guard guard = {.model = &model, .prefix = BYTES("own:"), .locked = "locked"};
    kv_fix_init(&fix);
    model_init(&all, 0);
    ns_guard_add(fix.ns, &all.guard);
    ns_guard_add(fix.ns, &guard);
    begin(&fix);
    struct run own = run_as(&fix.run, fix.ns, &model);
    ASSERT_RC(put(&fix, &own, BYTES("own:a")), RC_OK);
    ASSERT_TRUE(has(&fix, &fix.run, BYTES("own:a")));
    expect(&all, "");
    ASSERT_RC(put(&fix, &own, BYTES("a")), RC_OK); /* a name as any other, to the others */
    expect(&all, "found a");
    commit(&fix);
    kv_fix_done(&fix);
}

TEST(a_models_own_run_does_not_ask_its_guards)
{
    struct kv_fix fix;
    struct model model;
    kv_fix_init(&fix);
    model_init(&model, 0);
    ns_guard_add(fix.ns, &model.guard);
    begin(&fix);
    struct run own = run_as(&fix.run, fix.ns, &model);
    ASSERT_FALSE(has(&fix, &own, BYTES("a")));
    ASSERT_RC(put(&fix, &own, BYTES("a")), RC_OK);
    ASSERT_OK(ns_flush_check(&own, &fix.err), &fix.err);
    ASSERT_FALSE(run_is_heard(&own));
    expect(&model, "");
    ASSERT_TRUE(has(&fix, &fix.run, BYTES("a")));
    ASSERT_TRUE(run_is_heard(&fix.run));
    expect(&model, "found a");
    commit(&fix);
    kv_fix_done(&fix);
}

/* ---- names that are no keys ---- */

static enum rc no_digits(void *arg, struct bytes name, struct err *err)
{
    (void)arg;
    if (name.len == 0 || name.ptr[0] < '0' || name.ptr[0] > '9')
        return RC_OK;
    return err_set(err, RC_INVALID, "a number is no key");
}

static enum rc run_put_number(struct kv_fix *fix, void *arg)
{
    (void)arg;
    return put(fix, &fix->run, BYTES("7"));
}

static enum rc run_want(struct kv_fix *fix, void *arg)
{
    const struct bytes names[] = {BYTES("7"), BYTES("a")};
    struct key key;
    (void)arg;
    key_want(fix->ns, names, ARRAY_LEN(names));
    return key_read(&fix->run, names[1], KEY_ANY, &key, &fix->err);
}

TEST(no_row_is_looked_for_under_a_name_that_is_no_key)
{
    struct kv_fix fix;
    int model;
    struct key_guard guard = {.model = &model, .name_check = no_digits};
    kv_fix_init(&fix);
    kv_put(&fix, "7", "old", 0);
    kv_put(&fix, "a", "v", 0);
    ns_guard_add(fix.ns, &guard);
    kv_fix_freeze_out(&fix);
    ASSERT_RC(kv_fix_run(&fix, run_put_number, NULL), RC_INVALID);
    ASSERT_STR(fix.err.text, "a number is no key");
    ASSERT_EQ(fix.cold_count, 0); /* cold as the row is, nobody waits for it */
    ASSERT_OK(kv_fix_run(&fix, run_want, NULL), &fix.err);
    ASSERT_EQ(fix.cold_count, 1);
    ns_guard_remove(fix.ns, &guard);
    kv_expect(&fix, "7", "old");
    ASSERT_EQ(fix.cold_count, 2); /* it was not even prefetched */
    kv_fix_done(&fix);
}

TEST(only_one_guard_of_a_database_has_names_that_are_no_keys)
{
    struct kv_fix fix;
    struct model one, other;
    kv_fix_init(&fix);
    model_init(&one, 0);
    model_init(&other, 0);
    one.guard.name_check = other.guard.name_check = no_digits;
    ns_guard_add(fix.ns, &one.guard);
    ASSERT_ABORTS(ns_guard_add(fix.ns, &other.guard));
    kv_fix_done(&fix);
}

/* ---- changes ---- */

static enum rc run_hash(struct kv_fix *fix, void *arg)
{
    const struct bytes pairs[] = {BYTES("f"), BYTES("1"), BYTES("g"), BYTES("2")};
    struct bytes value, field = BYTES("f");
    enum rc rc = hash_set(&fix->run, BYTES("h"), pairs, 2, NULL, &fix->err);
    (void)arg;
    if (rc == RC_OK)
        rc = hash_delete(&fix->run, BYTES("h"), &field, 1, NULL, &fix->err);
    if (rc == RC_OK)
        ASSERT_RC(hash_get(&fix->run, BYTES("h"), BYTES("x"), &value, &fix->err), RC_NOT_FOUND);
    return rc;
}

TEST(a_guard_hears_of_fields_that_change_or_are_missing)
{
    struct kv_fix fix;
    struct model model;
    kv_fix_init(&fix);
    model_init(&model, 0);
    ns_guard_add(fix.ns, &model.guard);
    ASSERT_OK(kv_fix_run(&fix, run_hash, NULL), &fix.err);
    expect(&model, "found h; set f; set g; found h; removed f; found h; missing x");
    kv_remove(&fix, "h");
    expect(&model, "found h; removed h");
    kv_fix_done(&fix);
}

TEST(a_key_whose_time_is_over_is_told_as_expired)
{
    struct kv_fix fix;
    struct model model;
    kv_fix_init(&fix);
    model_init(&model, 0);
    kv_put(&fix, "a", "1", 10);
    clock_advance_ms(&fix.clock, 20);
    ns_guard_add(fix.ns, &model.guard);
    kv_put(&fix, "a", "2", 0);
    expect(&model, "found a; expired a");
    kv_fix_done(&fix);
}

TEST(a_change_that_a_guard_refuses_is_not_made)
{
    struct kv_fix fix;
    struct model model;
    kv_fix_init(&fix);
    model_init(&model, 0);
    kv_hash_put(&fix, "h", "f", "old");
    ns_guard_add(fix.ns, &model.guard);
    model.says = RC_INVALID;
    ASSERT_RC(kv_fix_run(&fix, run_hash, NULL), RC_INVALID);
    ASSERT_STR(fix.err.text, "the guard says no");
    ns_guard_remove(fix.ns, &model.guard);
    kv_hash_expect(&fix, "h", "f", "old");
    kv_hash_expect(&fix, "h", "g", NULL);
    kv_fix_done(&fix);
}

TEST(where_a_guard_hears_of_changes_nothing_is_built_beside_its_key)
{
    struct kv_fix fix;
    struct model model;
    struct build build = {0};
    kv_fix_init(&fix);
    model_init(&model, 0);
    begin(&fix);
    ASSERT_TRUE(build_wanted(&build, &fix.run, UINT64_MAX));
    ns_guard_add(fix.ns, &model.guard);
    ASSERT_FALSE(build_wanted(&build, &fix.run, UINT64_MAX));
    model.guard.change = NULL;
    ASSERT_TRUE(build_wanted(&build, &fix.run, UINT64_MAX));
    commit(&fix);
    kv_fix_done(&fix);
}

/* ---- databases ---- */

static enum rc put_back(void *arg, const struct run *run, struct err *err)
{
    struct run own = run_as(run, run->ns, arg);
    struct key key;
    enum rc rc = key_write(&own, BYTES("kept"), KEY_ANY, &key, err);
    return rc == RC_OK ? string_set(&key, BYTES("v"), 0, err) : rc;
}

static enum rc run_flush(struct kv_fix *fix, void *arg)
{
    (void)arg;
    return ns_flush(&fix->run, &fix->err);
}

TEST(a_guard_puts_back_what_a_flush_must_not_take)
{
    struct kv_fix fix;
    struct model model;
    kv_fix_init(&fix);
    model_init(&model, 'k');
    model.guard.flushed = put_back;
    kv_put(&fix, "a", "1", 0);
    ns_guard_add(fix.ns, &model.guard);
    ASSERT_OK(kv_fix_run(&fix, run_flush, NULL), &fix.err);
    expect(&model, "flush default.default");
    ASSERT_FALSE(kv_has(&fix, "a"));
    kv_expect(&fix, "kept", "v");
    ASSERT_EQ(ns_key_count(fix.ns), 1);
    kv_fix_done(&fix);
}

TEST(a_guard_refuses_a_flush)
{
    struct kv_fix fix;
    struct model model;
    kv_fix_init(&fix);
    model_init(&model, 'k');
    kv_put(&fix, "a", "1", 0);
    model.says = RC_INVALID;
    ns_guard_add(fix.ns, &model.guard);
    ASSERT_RC(kv_fix_run(&fix, run_flush, NULL), RC_INVALID);
    kv_expect(&fix, "a", "1");
    kv_fix_done(&fix);
}

static void names_fix_init(struct kv_fix *fix)
{
    kv_fix_init(fix);
    kv_done(&fix->kv);
    kv_init(&fix->kv, fix->store, &fix->clock);
    ASSERT_OK(names_open(&fix->kv, &fix->err), &fix->err);
    fix->ns = kv_ns(&fix->kv, 0);
}

static enum rc run_swap(struct kv_fix *fix, void *arg)
{
    (void)arg;
    return names_swap(&fix->run, kv_ns(&fix->kv, 1), kv_ns(&fix->kv, 2), &fix->err);
}

static enum rc run_register(struct kv_fix *fix, void *arg)
{
    (void)arg;
    return names_register(&fix->kv, BYTES("some.service"), 20, &fix->err);
}

static enum rc run_drop(struct kv_fix *fix, void *arg)
{
    struct run part = run_with(&fix->run, kv_ns(&fix->kv, 20), 0);
    (void)arg;
    return names_drop(&part, &fix->err);
}

TEST(a_swap_leaves_guards_where_they_are)
{
    struct kv_fix fix;
    struct model model;
    names_fix_init(&fix);
    model_init(&model, 0);
    ns_guard_add(kv_ns(&fix.kv, 2), &model.guard);
    ASSERT_OK(kv_fix_run(&fix, run_swap, NULL), &fix.err);
    expect(&model, "swap default.02");
    ASSERT_TRUE(kv_ns(&fix.kv, 1)->guards == NULL);
    ASSERT_TRUE(kv_ns(&fix.kv, 2)->guards[0] == &model.guard);
    model.says = RC_INVALID;
    ASSERT_RC(kv_fix_run(&fix, run_swap, NULL), RC_INVALID);
    kv_fix_done(&fix);
}

TEST(a_guard_of_all_databases_is_on_those_that_come_later)
{
    struct kv_fix fix;
    struct model model;
    names_fix_init(&fix);
    model_init(&model, 0);
    kv_guard_add(&fix.kv, &model.guard);
    ASSERT_TRUE(fix.ns->guards[0] == &model.guard);
    ASSERT_OK(kv_fix_run(&fix, run_register, NULL), &fix.err);
    ASSERT_TRUE(kv_ns(&fix.kv, 20)->guards[0] == &model.guard);
    model.says = RC_INVALID;
    ASSERT_RC(kv_fix_run(&fix, run_drop, NULL), RC_INVALID);
    expect(&model, "drop some.service");
    kv_guard_remove(&fix.kv, &model.guard);
    ASSERT_TRUE(fix.ns->guards == NULL && kv_ns(&fix.kv, 20)->guards == NULL);
    ASSERT_OK(kv_fix_run(&fix, run_drop, NULL), &fix.err);
    kv_fix_done(&fix);
}

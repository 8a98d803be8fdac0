// SPDX-License-Identifier: Apache-2.0
#include "types/names.h"

#include "support/kv_keys.h"
#include "test.h"

#include "base/banned.h"

/* The fixture has database 0 open; these have all of them. */
static void names_fix_open(struct kv_fix *fix)
{
    kv_done(&fix->kv);
    kv_init(&fix->kv, fix->store, &fix->clock);
    ASSERT_OK(names_open(&fix->kv, &fix->err), &fix->err);
    fix->ns = kv_ns(&fix->kv, 0);
}

static void names_fix_init(struct kv_fix *fix)
{
    kv_fix_init(fix);
    names_fix_open(fix);
}

static void names_fix_reopen(struct kv_fix *fix)
{
    kv_fix_reopen(fix);
    names_fix_open(fix);
}

struct names_call {
    const char *name;
    uint64_t one, other;
    enum rc fail; /* what the command ends with after its change */
};

static enum rc run_swap(struct kv_fix *fix, void *arg)
{
    struct names_call *call = arg;
    enum rc rc =
        names_swap(&fix->run, kv_ns(&fix->kv, call->one), kv_ns(&fix->kv, call->other), &fix->err);
    return rc == RC_OK ? call->fail : rc;
}

static void swap(struct kv_fix *fix, uint64_t one, uint64_t other)
{
    struct names_call call = {.one = one, .other = other};
    ASSERT_OK(kv_fix_run(fix, run_swap, &call), &fix->err);
}

static enum rc run_register(struct kv_fix *fix, void *arg)
{
    struct names_call *call = arg;
    enum rc rc = names_register(&fix->kv, bytes_of(call->name, strlen(call->name)),
                                (uint32_t)call->one, &fix->err);
    return rc == RC_OK ? call->fail : rc;
}

static enum rc name_add(struct kv_fix *fix, const char *name, uint64_t index)
{
    struct names_call call = {.name = name, .one = index};
    return kv_fix_run(fix, run_register, &call);
}

static enum rc run_drop(struct kv_fix *fix, void *arg)
{
    struct names_call *call = arg;
    struct run run = run_with(&fix->run, kv_ns(&fix->kv, call->one), 0);
    enum rc rc = names_drop(&run, &fix->err);
    return rc == RC_OK ? call->fail : rc;
}

static enum rc name_drop(struct kv_fix *fix, uint64_t index)
{
    struct names_call call = {.one = index};
    return kv_fix_run(fix, run_drop, &call);
}

static void put_in(struct kv_fix *fix, uint64_t index, const char *name, const char *value)
{
    fix->ns = kv_ns(&fix->kv, index);
    kv_put(fix, name, value, 0);
    fix->ns = kv_ns(&fix->kv, 0);
}

static void expect_in(struct kv_fix *fix, uint64_t index, const char *name, const char *value)
{
    fix->ns = kv_ns(&fix->kv, index);
    kv_expect(fix, name, value);
    fix->ns = kv_ns(&fix->kv, 0);
}

static enum rc run_nothing(struct kv_fix *fix, void *arg)
{
    (void)fix;
    (void)arg;
    return RC_OK;
}

TEST(sixteen_databases_are_there_from_the_start)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    ASSERT_BYTES(kv_ns(&fix.kv, 0)->name, BYTES("default.default"));
    ASSERT_BYTES(kv_ns(&fix.kv, 1)->name, BYTES("default.01"));
    ASSERT_BYTES(kv_ns(&fix.kv, 15)->name, BYTES("default.15"));
    ASSERT_TRUE(kv_ns(&fix.kv, 16) == NULL);
    ASSERT_TRUE(names_find(&fix.kv, BYTES("default.07")) == kv_ns(&fix.kv, 7));
    kv_fix_done(&fix);
}

TEST(databases_do_not_share_keys)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    put_in(&fix, 0, "k", "zero");
    put_in(&fix, 1, "k", "one");
    expect_in(&fix, 0, "k", "zero");
    expect_in(&fix, 1, "k", "one");
    expect_in(&fix, 2, "k", NULL);
    kv_fix_done(&fix);
}

TEST(a_swap_exchanges_what_two_databases_hold)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    struct ns *zero = kv_ns(&fix.kv, 0);
    put_in(&fix, 0, "k", "zero");
    swap(&fix, 0, 3);
    ASSERT_TRUE(kv_ns(&fix.kv, 0) == zero); /* who has selected it stays in it */
    ASSERT_EQ(zero->index, 0);
    expect_in(&fix, 0, "k", NULL);
    expect_in(&fix, 3, "k", "zero");
    ASSERT_EQ(ns_key_count(kv_ns(&fix.kv, 3)), 1);
    swap(&fix, 3, 3);
    expect_in(&fix, 3, "k", "zero");
    kv_fix_done(&fix);
}

TEST(swaps_survive_a_restart)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    put_in(&fix, 0, "k", "zero");
    swap(&fix, 0, 3);
    swap(&fix, 3, 4);
    names_fix_reopen(&fix);
    expect_in(&fix, 4, "k", "zero");
    expect_in(&fix, 0, "k", NULL);
    swap(&fix, 0, 4);
    kv_fix_freeze_out(&fix);
    names_fix_reopen(&fix);
    expect_in(&fix, 0, "k", "zero");
    kv_fix_done(&fix);
}

TEST(a_swap_that_is_taken_back_did_not_happen)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    put_in(&fix, 0, "k", "zero");
    struct names_call call = {.one = 0, .other = 3, .fail = RC_INVALID};
    ASSERT_RC(kv_fix_run(&fix, run_swap, &call), RC_INVALID);
    expect_in(&fix, 0, "k", "zero");
    expect_in(&fix, 3, "k", NULL);
    kv_fix_done(&fix);
}

TEST(a_registered_name_survives_a_restart)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    ASSERT_OK(name_add(&fix, "shop.cart", 20), &fix.err);
    put_in(&fix, 20, "k", "cart");
    names_fix_reopen(&fix);
    ASSERT_BYTES(kv_ns(&fix.kv, 20)->name, BYTES("shop.cart"));
    expect_in(&fix, 20, "k", "cart");
    ASSERT_TRUE(kv_ns(&fix.kv, 19) == NULL);
    kv_fix_done(&fix);
}

TEST(a_registration_that_is_taken_back_can_be_done_again)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    struct names_call call = {.name = "shop.cart", .one = 20, .fail = RC_INVALID};
    ASSERT_RC(kv_fix_run(&fix, run_register, &call), RC_INVALID);
    ASSERT_OK(kv_fix_run(&fix, run_nothing, NULL), &fix.err);
    ASSERT_TRUE(kv_ns(&fix.kv, 20) == NULL);
    ASSERT_OK(name_add(&fix, "shop.cart", 21), &fix.err);
    ASSERT_TRUE(kv_ns(&fix.kv, 21) != NULL);
    kv_fix_done(&fix);
}

TEST(names_that_would_collide_are_refused)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    ASSERT_OK(name_add(&fix, "shop.cart", 20), &fix.err);
    ASSERT_RC(name_add(&fix, "shop.cart", 21), RC_BUSY);
    ASSERT_RC(name_add(&fix, "shop.other", 20), RC_BUSY);
    ASSERT_RC(name_add(&fix, "shop.cartm", 21), RC_INVALID);
    ASSERT_RC(name_add(&fix, "shop.c", 21), RC_INVALID);
    ASSERT_RC(name_add(&fix, "default.1", 21), RC_INVALID);
    kv_fix_done(&fix);
}

TEST(a_name_is_a_group_and_a_service)
{
    struct kv_fix fix;
    static const char *const bad[] = {"shop",    ".cart",         "shop.", "a.b.c",
                                      "sh op.x", "shop.\xc3\xa4", ""};
    names_fix_init(&fix);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ASSERT_RC(name_add(&fix, bad[i], 20), RC_INVALID);
    ASSERT_RC(name_add(&fix, "shop.cart", KV_NS_MAX), RC_INVALID);
    ASSERT_OK(name_add(&fix, "Shop-1.cart_2", KV_NS_MAX - 1), &fix.err);
    kv_fix_done(&fix);
}

TEST(a_dropped_name_takes_its_keys_along)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    ASSERT_OK(name_add(&fix, "shop.cart", 20), &fix.err);
    put_in(&fix, 20, "k", "cart");
    ASSERT_OK(name_drop(&fix, 20), &fix.err);
    ASSERT_TRUE(kv_ns(&fix.kv, 20) == NULL);
    names_fix_reopen(&fix);
    ASSERT_TRUE(kv_ns(&fix.kv, 20) == NULL);
    ASSERT_OK(name_add(&fix, "shop.cart", 22), &fix.err);
    expect_in(&fix, 22, "k", NULL);
    kv_fix_done(&fix);
}

TEST(databases_of_the_start_cannot_be_dropped)
{
    struct kv_fix fix;
    names_fix_init(&fix);
    ASSERT_OK(name_add(&fix, "shop.cart", 20), &fix.err);
    ASSERT_RC(name_drop(&fix, 3), RC_INVALID);
    swap(&fix, 3, 20); /* shop.cart is in a database that has to be there */
    ASSERT_RC(name_drop(&fix, 3), RC_INVALID);
    ASSERT_RC(name_drop(&fix, 20), RC_INVALID);
    swap(&fix, 3, 20);
    ASSERT_OK(name_drop(&fix, 20), &fix.err);
    kv_fix_done(&fix);
}

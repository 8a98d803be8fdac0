// SPDX-License-Identifier: Apache-2.0
/* kv_fix.c - a keyspace over a store in memory, for unit tests. */
#include "support/kv_fix.h"

#include "store/hot/load.h"
#include "store/testing.h"
#include "store/turns.h"
#include "test.h"
#include "types/spaces.h"

#include "base/banned.h"

static void fix_open(struct kv_fix *fix)
{
    struct store_options options = {.dir = "db",
                                    .spaces = types_spaces,
                                    .space_count = TYPES_SPACE_COUNT,
                                    .engine = &engine_memory_ops,
                                    .engine_memory = fix->memory,
                                    .files = file_sim_files(fix->sim),
                                    .clock = &fix->clock,
                                    .seed = 1,
                                    .hot_memory_bytes = 64 << 20,
                                    .disk_reserve_bytes = fix->disk_reserve_bytes,
                                    .always_cold = true,
                                    .manual = true};
    ASSERT_OK(store_open(&options, &fix->store, &fix->err), &fix->err);
    kv_init(&fix->kv, fix->store, &fix->clock);
    rand_init_seed(&fix->kv.rand, 1);
    ASSERT_OK(kv_ns_open(&fix->kv, 0, BYTES(NS_NAME_DEFAULT), &fix->ns, &fix->err), &fix->err);
}

static void fix_close(struct kv_fix *fix)
{
    kv_done(&fix->kv);
    ASSERT_OK(store_close(fix->store, &fix->err), &fix->err);
}

void kv_fix_init(struct kv_fix *fix)
{
    *fix = (struct kv_fix){.sim = file_sim_new(), .memory = engine_memory_new()};
    clock_init_manual(&fix->clock, 1700000000000);
    fix_open(fix);
}

void kv_fix_done(struct kv_fix *fix)
{
    fix_close(fix);
    engine_memory_free(fix->memory);
    file_sim_free(fix->sim);
}

void kv_fix_reopen(struct kv_fix *fix)
{
    fix_close(fix);
    fix_open(fix);
}

static void waiter_ready(struct load_waiter *waiter, void *arg)
{
    (void)waiter;
    *(bool *)arg = true;
}

static void load_all(struct kv_fix *fix, struct load_waiter *waiter)
{
    bool ready = false;
    waiter->ready = waiter_ready;
    waiter->arg = &ready;
    if (!store_wait(fix->store, waiter))
        return;
    while (!ready) {
        store_step(fix->store, STORE_STEP_LOAD);
        store_poll(fix->store);
    }
    ASSERT_RC(waiter->rc, RC_OK);
}

enum rc kv_fix_run(struct kv_fix *fix, enum rc (*body)(struct kv_fix *fix, void *arg), void *arg)
{
    struct load_waiter waiter = {0};
    enum rc rc;
    do {
        store_begin(fix->store, 0);
        run_begin(&fix->run, &fix->kv, fix->ns, 0);
        rc = run_end(&fix->run, body(fix, arg));
        if (rc == RC_OK || rc == RC_WAIT)
            store_commit(fix->store);
        else
            store_undo(fix->store);
        if (rc == RC_COLD) {
            fix->cold_count++;
            load_all(fix, &waiter);
        }
    } while (rc == RC_COLD);
    struct err err = {0};
    ASSERT_OK(store_write(fix->store, &err), &err);
    store_wait_release(fix->store, &waiter);
    load_waiter_done(&waiter);
    return rc;
}

const struct run *kv_fix_now(struct kv_fix *fix)
{
    run_begin(&fix->run, &fix->kv, fix->ns, 0);
    (void)run_end(&fix->run, RC_OK); /* nobody else does; good until the next one begins */
    return &fix->run;
}

void kv_fix_freeze_out(struct kv_fix *fix)
{
    uint64_t segment = store_flush_ask(fix->store);
    for (int i = 0; i < 1000 && store_flush_mark(fix->store) < segment; i++) {
        store_step(fix->store, STORE_STEP_JOURNAL);
        store_step(fix->store, STORE_STEP_FLUSH);
        store_poll(fix->store);
    }
    ASSERT_GE(store_flush_mark(fix->store), segment);
    store_evict_all(fix->store);
}

size_t kv_fix_words(const char *text, struct bytes *to, size_t max)
{
    size_t count = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        ASSERT_LT(count, max);
        to[count++] = bytes_of(text, len);
        text += len + (text[len] != 0);
    }
    return count;
}

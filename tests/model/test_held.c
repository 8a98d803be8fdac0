// SPDX-License-Identifier: Apache-2.0
/* test_held.c - runs of commands that hold their meta row leave what the same commands leave one by
 * one. */
#include "types/held.h"

#include <stdio.h>

#include "support/kv_keys.h"
#include "support/kv_run.h"
#include "test.h"
#include "types/list.h"

#include "base/banned.h"

enum { RANDOM_STEPS = 4000 };

struct random_op {
    kv_run_body *run;
    struct kv_run call;
    bool more;
    char word[32];
    unsigned after; /* what happens behind it */
};

static void op_draw(struct rand *rand, const char *key, struct random_op *op)
{
    *op = (struct random_op){.call = {.key = bytes_of(key, strlen(key))}};
    snprintf(op->word, sizeof op->word, "%u", (unsigned)rand_below(rand, 40));
    op->call.words = op->word;
    op->call.count = 1 + (rand_below(rand, 12) == 0 ? rand_below(rand, 90) : rand_below(rand, 3));
    op->call.fail = rand_below(rand, 8) == 0 ? RC_INVALID : RC_OK;
    op->run = rand_below(rand, 5) < 3 ? kv_run_push : kv_run_pop;
    op->more = rand_below(rand, 6) != 0;
    op->after = (unsigned)rand_below(rand, 200);
}

/* As the server would: what is cold is run again by a task, and nothing is held before that. */
static void op_play(struct kv_fix *fix, struct random_op op, bool hold, bool same)
{
    if (fix->kv.held.row.is && !held_is(&fix->kv.held, fix->ns, op.call.key))
        held_write(&fix->kv);
    enum rc rc = kv_run_step(fix, hold && same, op.run, &op.call);
    if (rc == RC_COLD) {
        kv_run_end(fix);
        rc = kv_fix_run(fix, op.run, &op.call);
    }
    ASSERT_RC(rc == RC_INVALID ? RC_OK : rc, RC_OK);
}

static void after_play(struct kv_fix *fix, unsigned after)
{
    if (after >= 40)
        return;
    kv_run_end(fix);
    if (after == 0)
        kv_fix_freeze_out(fix);
    else if (after == 1)
        kv_fix_reopen(fix);
    else if (after < 6 && kv_has(fix, "p"))
        kv_expire(fix, "p", clock_unix_ms(&fix->clock) + 50);
    clock_advance_ms(&fix->clock, after);
}

static void fixes_compare(struct kv_fix *held, struct kv_fix *plain, const char *key)
{
    struct kv_run_text a = {.key = key}, b = {.key = key};
    ASSERT_OK(kv_fix_run(held, kv_run_text, &a), &held->err);
    ASSERT_OK(kv_fix_run(plain, kv_run_text, &b), &plain->err);
    ASSERT_STR(a.text, b.text);
    ASSERT_EQ(kv_deadline(held, key), kv_deadline(plain, key));
    ASSERT_EQ(ns_key_count(held->ns), ns_key_count(plain->ns));
    ASSERT_EQ(ns_expire_count(held->ns), ns_expire_count(plain->ns));
    ASSERT_EQ(kv_index_rows(held), kv_index_rows(plain));
}

TEST(random_runs_leave_what_single_commands_leave)
{
    static const char *const key[] = {"p", "q"};
    struct kv_fix held, plain;
    struct rand rand;
    struct random_op op, next;
    size_t which = 0;
    int held_count = 0;
    kv_fix_init(&held);
    kv_fix_init(&plain);
    rand_init_seed(&rand, 7);
    op_draw(&rand, key[which], &next);
    for (int i = 0; i < RANDOM_STEPS; i++) {
        op = next;
        op.call.words = op.word;
        size_t at = which;
        which ^= !op.more;
        op_draw(&rand, key[which], &next);
        bool same = at == which && op.after >= 40;
        op_play(&held, op, true, same);
        op_play(&plain, op, false, same);
        held_count += held.kv.held.row.is;
        ASSERT_FALSE(plain.kv.held.row.is);
        after_play(&held, op.after);
        after_play(&plain, op.after);
        if (op.after >= 2 && op.after < 10) {
            fixes_compare(&held, &plain, "p");
            fixes_compare(&held, &plain, "q");
        }
    }
    kv_run_end(&held);
    kv_run_end(&plain);
    ASSERT_GT(held_count, RANDOM_STEPS / 3);
    ASSERT_GT(held.cold_count, 0);
    kv_fix_reopen(&held);
    fixes_compare(&held, &plain, "p");
    fixes_compare(&held, &plain, "q");
    kv_fix_done(&held);
    kv_fix_done(&plain);
}

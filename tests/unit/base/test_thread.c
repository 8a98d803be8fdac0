// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <signal.h>

#include "base/clock.h"
#include "test.h"

#include "base/banned.h"

struct seen {
    sigset_t blocked;
    bool has_run;
};

static void *look(void *arg)
{
    struct seen *seen = arg;
    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    seen->has_run = true;
    return NULL;
}

TEST(a_thread_has_signals_blocked_that_are_for_the_executor)
{
    struct err err = {0};
    struct thread thread = {0};
    struct seen seen = {0};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ASSERT_OK(thread_start(&thread, "looker", look, &seen, &err), &err);
    thread_join(&thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ASSERT_TRUE(seen.has_run);
    ASSERT_TRUE(sigismember(&seen.blocked, SIGTERM) && sigismember(&seen.blocked, SIGINT));
    ASSERT_TRUE(!sigismember(&seen.blocked, SIGSEGV) && !sigismember(&seen.blocked, SIGBUS));
    ASSERT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

TEST(a_thread_that_was_not_started_is_joined_at_once)
{
    struct thread thread = {0};
    thread_join(&thread);
    thread_join(&thread);
    ASSERT_TRUE(!thread.is_started);
}

TEST(a_condition_takes_times_of_the_steady_clock)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    struct clock clock;
    clock_init(&clock);
    thread_cond_init(&cond);
    uint64_t until = clock_mono_ns(&clock) + 1000000;
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&cond, &lock, &at) == 0)
        ;
    pthread_mutex_unlock(&lock);
    ASSERT_GE(clock_mono_ns(&clock), until); /* Unix time would have been over long ago */
    pthread_cond_destroy(&cond);
}

// SPDX-License-Identifier: Apache-2.0
#include "server/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/macros.h"
#include "test.h"

/* A loop, spinning or not, with one descriptor that counts how often it was ready. */
struct fix {
    struct loop *loop;
    struct loop_source source;
    int ready_count;
    struct err err;
};

static void fix_ready(struct loop_source *source, unsigned events)
{
    struct fix *fix = source->arg;
    uint64_t count;
    ASSERT_EQ(events, LOOP_READ);
    ASSERT_EQ(read(source->fd, &count, sizeof count), (ssize_t)sizeof count);
    fix->ready_count++;
}

static void fix_init(struct fix *fix, bool spins)
{
    *fix = (struct fix){.source = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                   .events = LOOP_READ,
                                   .ready = fix_ready,
                                   .arg = fix}};
    ASSERT_OK(loop_open(&fix->loop, &fix->err), &fix->err);
    loop_spin_set(fix->loop, spins);
    ASSERT_OK(loop_add(fix->loop, &fix->source, &fix->err), &fix->err);
}

static void fix_done(struct fix *fix)
{
    loop_del(fix->loop, &fix->source);
    close(fix->source.fd);
    loop_close(fix->loop);
}

static void fix_send(struct fix *fix)
{
    const uint64_t one = 1;
    ASSERT_EQ(write(fix->source.fd, &one, sizeof one), (ssize_t)sizeof one);
}

static void fix_wait(struct fix *fix, uint64_t timeout_ns)
{
    ASSERT_OK(loop_wait(fix->loop, timeout_ns, &fix->err), &fix->err);
}

TEST(loop_calls_back_once_for_what_is_ready_spinning_or_not)
{
    for (int spins = 0; spins < 2; spins++) {
        CLEANUP(fix_done) struct fix fix;
        fix_init(&fix, spins);
        for (int i = 0; i < 100; i++) {
            fix_send(&fix);
            fix_wait(&fix, UINT64_MAX); /* for ever, if it were missed */
            ASSERT_EQ(fix.ready_count, i + 1);
        }
        fix_wait(&fix, 0);
        ASSERT_EQ(fix.ready_count, 100);
    }
}

TEST(loop_that_nothing_comes_for_ends_in_time_spinning_or_not)
{
    for (int spins = 0; spins < 2; spins++) {
        CLEANUP(fix_done) struct fix fix;
        fix_init(&fix, spins);
        for (int i = 0; i < 5; i++)
            fix_wait(&fix, 1000 * 1000);
        ASSERT_EQ(fix.ready_count, 0);
    }
}

struct waker {
    struct loop *loop;
    _Atomic int wanted; /* shared: atomic; wake-ups that the loop has asked for; -1: end */
};

static void *waker_run(void *arg)
{
    struct waker *waker = arg;
    for (int woken = 0, wanted; (wanted = atomic_load(&waker->wanted)) >= 0;)
        for (; woken < wanted; woken++)
            loop_wake(waker->loop);
    return NULL;
}

TEST(loop_is_woken_by_another_thread_spinning_or_not)
{
    for (int spins = 0; spins < 2; spins++) {
        CLEANUP(fix_done) struct fix fix;
        fix_init(&fix, spins);
        struct waker waker = {.loop = fix.loop};
        pthread_t thread;
        ASSERT_EQ(pthread_create(&thread, NULL, waker_run, &waker), 0);
        for (int i = 0; i < 200; i++) {
            atomic_fetch_add(&waker.wanted, 1);
            fix_wait(&fix, UINT64_MAX);
        }
        atomic_store(&waker.wanted, -1);
        pthread_join(thread, NULL);
    }
}

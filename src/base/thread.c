// SPDX-License-Identifier: Apache-2.0
/* thread.c - starts threads with their signals blocked, and waits for their end. */
#include "base/thread.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"

#include "base/banned.h"

enum rc thread_start(struct thread *thread, const char *name, void *(*run)(void *arg), void *arg,
                     struct err *err)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t blocked, before;
    ASSERT(!thread->is_started && strlen(name) <= THREAD_NAME_BYTES_MAX);
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failed = pthread_create(&thread->id, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return err_set(err, RC_NOMEM, "could not start the thread \"%s\": %s", name,
                       strerror(failed));
    pthread_setname_np(thread->id, name); /* refused if the thread has ended already */
    thread->is_started = true;
    return RC_OK;
}

void thread_join(struct thread *thread)
{
    if (!thread->is_started)
        return;
    ASSERT(pthread_join(thread->id, NULL) == 0);
    thread->is_started = false;
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

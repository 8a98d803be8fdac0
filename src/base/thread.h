// SPDX-License-Identifier: Apache-2.0
/* thread.h - threads of ours: started with a name and without signals, and waited for.
 *
 * Signals are for the executor, so a new thread has all of them blocked, except those that its own
 * faults raise.
 *
 * Ownership: the caller owns the struct; one of zeros is a thread that was not started.
 * Threads: the one that starts a thread waits for it. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

enum { THREAD_NAME_BYTES_MAX = 15 };

struct thread {
    pthread_t id;
    bool is_started;
};

/* The name is shown by top and gdb. RC_NOMEM: the system has no more threads. */
enum rc thread_start(struct thread *thread, const char *name, void *(*run)(void *arg), void *arg,
                     struct err *err) NODISCARD;
/* Waits for the end of run(); does nothing if the thread was not started. */
void thread_join(struct thread *thread);
/* A condition whose pthread_cond_timedwait() takes times of clock_mono_ns(). */
void thread_cond_init(pthread_cond_t *cond);

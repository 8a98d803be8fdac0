// SPDX-License-Identifier: Apache-2.0
/* support_child.h - parts of a test that run in a process of their own.
 *
 * RocksDB's threads do not survive a fork, so a test that forks opens stores in children only. A
 * child has no harness: it answers by its exit status, with a text on standard output.
 * Threads: the test's; the process that forks has no others. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/macros.h"

/* Runs fn in a child, up to its end. */
pid_t child_start(void (*fn)(void *arg), void *arg);
/* The test fails unless the child ended by itself, and well. */
void child_wait(pid_t pid);
/* Ends the child with SIGKILL, wherever it is. */
void child_kill(pid_t pid);
/* child_start() and child_wait(). */
void child_run(void (*fn)(void *arg), void *arg);

/* In a child: ends it badly, with a text, unless the condition holds. */
void child_require(bool holds, const char *format, ...) PRINTF_LIKE(2, 3);

// SPDX-License-Identifier: Apache-2.0
/* signals.h - which signals a program leaves alone.
 *
 * Threads: any. */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* A shell script ignores SIGINT for what it puts in the background, so that Ctrl-C ends the script
 * alone. A program that waits for signals would undo that: the kernel keeps a blocked signal for it
 * even if it is ignored. */
static inline bool signal_is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

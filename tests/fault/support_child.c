// SPDX-License-Identifier: Apache-2.0
/* support_child.c - runs a part of a test in a child process and ends it. */
#include "support_child.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "base/banned.h"

enum { CHILD_BAD = 9 };

pid_t child_start(void (*fn)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        test_fail(__FILE__, __LINE__, "could not fork");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that ends early leaves nobody behind */
    signal(SIGABRT, SIG_DFL);
    fn(arg);
    fflush(NULL);
    _exit(0);
}

void child_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        test_fail(__FILE__, __LINE__, "a child ended with status 0x%x", (unsigned)status);
}

void child_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0)
        continue;
}

void child_run(void (*fn)(void *arg), void *arg)
{
    child_wait(child_start(fn, arg));
}

void child_require(bool holds, const char *format, ...)
{
    va_list args;
    if (holds)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    _exit(CHILD_BAD);
}

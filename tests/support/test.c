// SPDX-License-Identifier: Apache-2.0
/* test.c - the main() of every test program: registers tests, runs them, prints counts. */
#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/banned.h"

enum { TEST_DIRS_MAX = 16, TEST_BYTES_SHOWN_MAX = 64 };

/* The harness is the one place in tests that keeps state of its own: constructors that run before
 * main() have nowhere else to put what they register. */
static struct {
    struct test *first;
    struct test **last;
    const struct test *running;
    jmp_buf end;
    char dir[TEST_DIRS_MAX][256];
    int dir_count;
} harness;

void test_register(struct test *test)
{
    if (!harness.last)
        harness.last = &harness.first;
    *harness.last = test;
    harness.last = &test->next;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    printf("%s:%d: ", file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    longjmp(harness.end, 1);
}

bool test_is_long(void)
{
    const char *value = getenv("TERRACE_LONG");
    return value && *value && strcmp(value, "0") != 0;
}

static const char *dir_make(const char *top)
{
    if (harness.dir_count == TEST_DIRS_MAX)
        test_fail(__FILE__, __LINE__, "more than %d directories in one test", TEST_DIRS_MAX);
    char *path = harness.dir[harness.dir_count];
    snprintf(path, sizeof harness.dir[0], "%s/terrace-test-XXXXXX", top);
    if (!mkdtemp(path))
        test_fail(__FILE__, __LINE__, "could not make \"%s\"", path);
    harness.dir_count++;
    return path;
}

const char *test_temp_dir(void)
{
    const char *top = getenv("TMPDIR");
    return dir_make(top && *top ? top : "/tmp");
}

const char *test_memory_dir(void)
{
    return dir_make("/dev/shm");
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_dirs(void)
{
    while (harness.dir_count > 0)
        nftw(harness.dir[--harness.dir_count], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void test_assert_compare(const char *file, int line, const char *text, bool holds, long long a,
                         long long b)
{
    if (!holds)
        test_fail(file, line, "%s is false: %lld (0x%llx) and %lld (0x%llx)", text, a,
                  (unsigned long long)a, b, (unsigned long long)b);
}

void test_assert_rc(const char *file, int line, const char *text, enum rc is, enum rc expected,
                    const char *err_text)
{
    if (is != expected)
        test_fail(file, line, "%s is %s, not %s%s%s", text, rc_name(is), rc_name(expected),
                  err_text ? ": " : "", err_text ? err_text : "");
}

static void print_bytes(const char *label, struct bytes bytes)
{
    size_t shown = bytes.len < TEST_BYTES_SHOWN_MAX ? bytes.len : TEST_BYTES_SHOWN_MAX;
    printf("  %s %zu bytes: \"", label, bytes.len);
    for (size_t i = 0; i < shown; i++) {
        if (bytes.ptr[i] >= ' ' && bytes.ptr[i] < 127 && bytes.ptr[i] != '"')
            putchar(bytes.ptr[i]);
        else
            printf("\\x%02x", bytes.ptr[i]);
    }
    printf("\"%s\n", shown < bytes.len ? "..." : "");
}

void test_assert_bytes(const char *file, int line, const char *text, struct bytes a, struct bytes b)
{
    if (bytes_eq(a, b))
        return;
    print_bytes("left ", a);
    print_bytes("right", b);
    test_fail(file, line, "%s is false: they differ at byte %zu", text, bytes_shared_len(a, b));
}

void test_assert_str(const char *file, int line, const char *text, const char *a, const char *b)
{
    bool equal = a && b ? strcmp(a, b) == 0 : a == b;
    if (!equal)
        test_fail(file, line, "%s is false: \"%s\" and \"%s\"", text, a ? a : "(null)",
                  b ? b : "(null)");
}

pid_t test_fork(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        test_fail(__FILE__, __LINE__, "could not fork");
    if (pid == 0) {
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(fd, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
    }
    return pid;
}

void test_assert_aborted(const char *file, int line, const char *text, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        test_fail(file, line, "%s did not abort (status 0x%x)", text, (unsigned)status);
}

/* Names the test that stopped the process; a signal handler may only write. */
static void on_abort(int number)
{
    const char *name = harness.running ? harness.running->name : "?";
    ssize_t written = write(STDOUT_FILENO, "FAIL ", 5);
    written = write(STDOUT_FILENO, name, strlen(name));
    written = write(STDOUT_FILENO, " (aborted)\n", 11);
    (void)written;
    signal(number, SIG_DFL);
    raise(number);
}

static bool run_one(const struct test *test)
{
    volatile bool passed = false;
    harness.running = test;
    if (setjmp(harness.end) == 0) {
        test->fn();
        passed = true;
    }
    remove_dirs();
    printf("%s %s\n", passed ? "ok" : "FAIL", test->name);
    fflush(stdout);
    return passed;
}

int main(int argc, char **argv)
{
    unsigned passed_count = 0;
    unsigned failed_count = 0;

    signal(SIGABRT, on_abort);
    for (const struct test *test = harness.first; test; test = test->next) {
        if (argc > 1 && !strstr(test->name, argv[1]))
            continue;
        if (run_one(test))
            passed_count++;
        else
            failed_count++;
    }
    if (argc > 1 && passed_count + failed_count == 0) {
        fprintf(stderr, "no test has \"%s\" in its name\n", argv[1]);
        return 2;
    }
    printf("%u passed, %u failed\n", passed_count, failed_count);
    return failed_count ? 1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* test.h - the test harness: TEST(a_claim) { ... } registers itself, main() is in support/test.c.
 *
 * A failed ASSERT_* prints where and what, and ends that test; the others still run. The program
 * runs all tests, or those whose name contains its first argument. Its last line is
 * "N passed, N failed".
 * Threads: ASSERT_* belongs to the thread that runs the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"

struct test {
    const char *name;
    void (*fn)(void);
    struct test *next;
};

void test_register(struct test *test); /* keeps the pointer */
_Noreturn void test_fail(const char *file, int line, const char *format, ...) PRINTF_LIKE(3, 4);

/* A new empty directory, removed with its contents when the test has ended. */
const char *test_temp_dir(void);
const char *test_memory_dir(void); /* the same, where a sync costs nothing */
/* Set by `make test-long`: tests may take minutes. */
bool test_is_long(void);

void test_assert_compare(const char *file, int line, const char *text, bool holds, long long a,
                         long long b);
void test_assert_rc(const char *file, int line, const char *text, enum rc is, enum rc expected,
                    const char *err_text);
void test_assert_bytes(const char *file, int line, const char *text, struct bytes a,
                       struct bytes b);
void test_assert_str(const char *file, int line, const char *text, const char *a, const char *b);
/* A child process for ASSERT_ABORTS: 0 in the child, whose error output is thrown away. */
pid_t test_fork(void);
void test_assert_aborted(const char *file, int line, const char *text, pid_t pid);

#define TEST(name)                                            \
    static void name(void);                                   \
    __attribute__((constructor)) static void name##_add(void) \
    {                                                         \
        static struct test test = {#name, name, NULL};        \
        test_register(&test);                                 \
    }                                                         \
    static void name(void)

/* Integers and pointers, compared as 64 signed bits, so that int, size_t and enum may meet. */
#define ASSERT_COMPARE(a, op, b)                                                      \
    do {                                                                              \
        long long a_ = (long long)(a);                                                \
        long long b_ = (long long)(b);                                                \
        test_assert_compare(__FILE__, __LINE__, #a " " #op " " #b, a_ op b_, a_, b_); \
    } while (0)
#define ASSERT_EQ(a, b) ASSERT_COMPARE(a, ==, b)
#define ASSERT_NE(a, b) ASSERT_COMPARE(a, !=, b)
#define ASSERT_LT(a, b) ASSERT_COMPARE(a, <, b)
#define ASSERT_LE(a, b) ASSERT_COMPARE(a, <=, b)
#define ASSERT_GT(a, b) ASSERT_COMPARE(a, >, b)
#define ASSERT_GE(a, b) ASSERT_COMPARE(a, >=, b)

#define ASSERT_TRUE(condition) \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "%s is false", #condition))
#define ASSERT_FALSE(condition) \
    ((condition) ? test_fail(__FILE__, __LINE__, "%s is true", #condition) : (void)0)
#define ASSERT_RC(expr, rc) test_assert_rc(__FILE__, __LINE__, #expr, (expr), (rc), NULL)
/* RC_OK, or the error's text is shown. err is a pointer to the struct err that expr fills. */
#define ASSERT_OK(expr, err) test_assert_rc(__FILE__, __LINE__, #expr, (expr), RC_OK, (err)->text)
#define ASSERT_BYTES(a, b) test_assert_bytes(__FILE__, __LINE__, #a " == " #b, (a), (b))
#define ASSERT_STR(a, b) test_assert_str(__FILE__, __LINE__, #a " == " #b, (a), (b))
/* The statement stops the process, as a failed ASSERT() does. */
#define ASSERT_ABORTS(statement)                                   \
    do {                                                           \
        pid_t pid_ = test_fork();                                  \
        if (pid_ == 0) {                                           \
            statement;                                             \
            _exit(0);                                              \
        }                                                          \
        test_assert_aborted(__FILE__, __LINE__, #statement, pid_); \
    } while (0)

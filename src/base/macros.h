// SPDX-License-Identifier: Apache-2.0
/* macros.h - attributes and assertions; the only macros that are not lists or literals. */
#pragma once

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define CLEANUP(function) __attribute__((cleanup(function)))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define RARE __attribute__((cold, noinline)) /* a function that stays out of a fast one */
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Stays in release builds: our own mistakes stop the process before they reach a disk. */
#define ASSERT(condition) \
    (LIKELY(condition) ? (void)0 : assert_fail(#condition, __FILE__, __LINE__))

_Noreturn void assert_fail(const char *condition, const char *file, int line);

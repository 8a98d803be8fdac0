// SPDX-License-Identifier: Apache-2.0
/* double_text.h - doubles as "%.17g" writes them, several times faster than printf where 128 bits
 * are enough to be exact.
 *
 * Threads: any. */
#pragma once

#include <stddef.h>

enum { DOUBLE_TEXT_BYTES = 32 };

/* For magnitudes from 1e-10 up to 1e16; others, 0, inf and nan: returns 0. No NUL is written. */
size_t double_text(char to[DOUBLE_TEXT_BYTES], double value);

// SPDX-License-Identifier: Apache-2.0
/* number.h - numbers as Redis reads and writes them.
 *
 * Threads: any. */
#pragma once

#include "base/bytes.h"

enum {
    NUMBER_INT_BYTES = 24,    /* room for an int64 as text */
    NUMBER_DOUBLE_BYTES = 64, /* room for a double as text */
    NUMBER_LONG_DOUBLE_BYTES = 5 * 1024,
};

/* Only the one text that number_int_text() would write: no spaces, no plus, no leading zeros. */
bool number_int(struct bytes text, int64_t *ret_value);
/* What strtod takes, all of it, without leading spaces; nan is refused. */
bool number_double(struct bytes text, double *ret_value);
bool number_long_double(struct bytes text, long double *ret_value);

size_t number_int_text(char to[NUMBER_INT_BYTES], int64_t value);
/* %.17g; integers without exponent or point, inf and -inf. */
size_t number_double_text(char to[NUMBER_DOUBLE_BYTES], double value);
/* INCRBYFLOAT's: 17 digits after the point, without trailing zeros. */
size_t number_long_double_text(char to[NUMBER_LONG_DOUBLE_BYTES], long double value);

// SPDX-License-Identifier: Apache-2.0
/* sort_int.h - what sorting in one commit and in many have in common; for sort*.c only. */
#pragma once

#include "types/sort.h"

enum rc sort__type_check(const struct key *key, struct err *err) NODISCARD;
/* What strtod() reads to the end of the C string, as Redis does: nothing at all is 0. */
enum rc sort__score(const struct run *run, struct bytes text, double *ret_score,
                    struct err *err) NODISCARD;
int sort__items_cmp(const void *a, const void *b, void *options); /* for qsort_r() */

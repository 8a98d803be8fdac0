// SPDX-License-Identifier: Apache-2.0
/* print.h - bytes and rows on standard output.
 *
 * Threads: one. */
#pragma once

#include <stdio.h>

#include "base/bytes.h"
#include "store/engine/space.h"

/* At most `max` bytes, then "..." and the length. */
void print_hex(struct bytes bytes, size_t max);
void print_quoted(struct bytes bytes, size_t max);  /* "text\x00" */
void print_quoted_to(FILE *to, struct bytes bytes); /* all of it */
/* A row as far as its space and its type byte are understood. */
void print_row(const struct store_space *space, struct bytes group, struct bytes suffix,
               struct bytes value, size_t max);

// SPDX-License-Identifier: Apache-2.0
/* sha1.h - SHA-1, by which scripts are named. It is no protection against anybody.
 *
 * Ownership: a struct sha1 keeps what libcrypto needs, so that a digest allocates nothing.
 * Threads: one owner. */
#pragma once

#include "base/bytes.h"

enum { SHA1_HEX_BYTES = 40 };

struct sha1;
struct sha1 *sha1_new(void);
void sha1_free(struct sha1 *sha1); /* NULL is allowed */
/* 40 digits in lower case, and a NUL. */
void sha1_hex(struct sha1 *sha1, struct bytes bytes, char to[SHA1_HEX_BYTES + 1]);

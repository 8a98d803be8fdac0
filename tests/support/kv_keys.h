// SPDX-License-Identifier: Apache-2.0
/* kv_keys.h - keys in a kv_fix, one command a call: strings by C names, and hashes to copy and
 * move.
 *
 * Ownership: texts are copied.
 * Threads: the test's. */
#pragma once

#include "support/kv_fix.h"

/* A string; ttl_ms 0: without a deadline. */
void kv_put(struct kv_fix *fix, const char *name, const char *value, uint64_t ttl_ms);
void kv_put_many(struct kv_fix *fix, const char *front, int from, int to); /* front0007 ... */
void kv_hash_put(struct kv_fix *fix, const char *name, const char *field, const char *value);
void kv_expire(struct kv_fix *fix, const char *name, uint64_t at_ms); /* 0: PERSIST */
bool kv_remove(struct kv_fix *fix, const char *name); /* DEL; whether it was there */
bool kv_has(struct kv_fix *fix, const char *name);
void kv_expect(struct kv_fix *fix, const char *name, const char *value); /* NULL: not there */
void kv_hash_expect(struct kv_fix *fix, const char *name, const char *field, const char *value);
uint64_t kv_deadline(struct kv_fix *fix, const char *name); /* 0: none, or no such key */
size_t kv_index_rows(struct kv_fix *fix);                   /* of the expiry index */

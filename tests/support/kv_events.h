// SPDX-License-Identifier: Apache-2.0
/* kv_events.h - what a keyspace tells about its keys, as text: "hset a, del a".
 *
 * Ownership: the test owns the struct; it must live as long as the keyspace tells it something.
 * Threads: the test's. */
#pragma once

#include "support/kv_fix.h"

enum { KV_EVENTS_BYTES = 1024 };

struct kv_events {
    char text[KV_EVENTS_BYTES]; /* since the last kv_events_expect(), taken back ones included */
};

void kv_events_listen(struct kv_events *events, struct kv_fix *fix); /* again after a reopen */
/* Compares, and begins anew. */
void kv_events_expect(struct kv_events *events, const char *text);

// SPDX-License-Identifier: Apache-2.0
/* kv_run.h - commands in a kv_fix that may leave their meta row for the next one (types/held.h), as
 * server/batch.c runs them.
 *
 * Ownership: texts are borrowed for the call.
 * Threads: the test's. */
#pragma once

#include "support/kv_fix.h"

enum { KV_RUN_WORDS_MAX = 256, KV_RUN_TEXT_BYTES = 4096 };

struct kv_run {
    struct bytes key;
    const char *words;
    uint64_t count;
    enum rc fail; /* what it answers when everything is done */
};

typedef enum rc kv_run_body(struct kv_fix *fix, void *arg); /* as kv_fix_run() takes it */

/* One command in a turn that goes on. more: the next one is on the same key. */
enum rc kv_run_step(struct kv_fix *fix, bool more, kv_run_body *run, struct kv_run *call);
void kv_run_end(struct kv_fix *fix); /* the turn's */

/* Lists; a struct kv_run each. */
enum rc kv_run_push(struct kv_fix *fix, void *arg); /* the words, at the tail */
enum rc kv_run_pop(struct kv_fix *fix, void *arg);  /* count from the head, or what there is */

struct kv_run_text {
    const char *key;
    char text[KV_RUN_TEXT_BYTES];
};
/* All elements, one after the other; of a list that is not there none. A struct kv_run_text. */
enum rc kv_run_text(struct kv_fix *fix, void *arg);

// SPDX-License-Identifier: Apache-2.0
/* kv_fix.h - a keyspace on a store in memory without threads, whose rows can be made cold.
 *
 * Ownership: the test owns the fixture.
 * Threads: the test's. */
#pragma once

#include "base/file_sim.h"
#include "store/engine/engine_memory.h"
#include "types/kv.h"

struct kv_fix {
    struct file_sim *sim;
    struct engine_memory *memory;
    struct clock clock; /* by hand */
    struct store *store;
    struct kv kv;
    struct ns *ns;               /* default.default */
    struct run run;              /* in it; of the body that kv_fix_run() calls */
    struct run other;            /* of a test that works in another database as well */
    uint64_t disk_reserve_bytes; /* from the next kv_fix_reopen() on */
    int cold_count; /* runs of kv_fix_run() that were undone because something was cold */
    struct err err;
};

void kv_fix_init(struct kv_fix *fix);
void kv_fix_done(struct kv_fix *fix);
void kv_fix_reopen(struct kv_fix *fix); /* closes and opens: recovery, then everything as before */
/* One commit and one turn. RC_COLD is answered by loading and running again; RC_WAIT is returned;
 * any other error is taken back and returned. */
enum rc kv_fix_run(struct kv_fix *fix, enum rc (*body)(struct kv_fix *fix, void *arg), void *arg);
/* Begins fix->run, for a test that opens its commits itself. */
const struct run *kv_fix_now(struct kv_fix *fix);
/* Flushes, and evicts everything: every key is cold. */
void kv_fix_freeze_out(struct kv_fix *fix);

/* The words of a text, separated by one space each; borrowed from it. Returns how many. */
size_t kv_fix_words(const char *text, struct bytes *to, size_t max);

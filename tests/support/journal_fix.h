// SPDX-License-Identifier: Apache-2.0
/* journal_fix.h - a journal on simulated files, and a list of what it acknowledged.
 *
 * Ownership: the caller owns the struct.
 * Threads: one. */
#pragma once

#include "base/file_sim.h"
#include "store/journal/recover.h"

enum { JOURNAL_FIX_TURNS_MAX = 512, JOURNAL_FIX_BODY_BYTES_MAX = 16 * 1024 };

struct journal_fix_turn {
    uint64_t first_lsn;
    uint32_t commit_count;
    uint64_t seed; /* of its body */
    size_t body_len;
};

struct journal_fix {
    struct file_sim *sim;
    struct clock clock;
    struct rand rand;
    struct journal *journal;
    struct journal_options options;
    struct journal_fix_turn acked[JOURNAL_FIX_TURNS_MAX]; /* as written, in order */
    size_t acked_count;
    /* A turn that was refused and could not be taken back: the journal is read-only because of it.
     * It may be seen after a crash, as the last one. */
    struct journal_fix_turn uncertain;
    bool has_uncertain;
    bool writing;
    uint64_t next_lsn;
    uint64_t next_seed;
    uint64_t durable_lsn; /* when it was crashed */
    uint64_t notify_count;
    /* what the last recovery found */
    size_t recovered_count;
    uint64_t recovered_segment;
    struct journal_start start;
    struct journal_sealed sealed[JOURNAL_FIX_TURNS_MAX];
    size_t sealed_count;
};

void journal_fix_init(struct journal_fix *fix); /* small segments, everysec, manual; not open */
void journal_fix_done(struct journal_fix *fix);
void journal_fix_open(struct journal_fix *fix); /* where the last recovery ended */
enum rc journal_fix_write(struct journal_fix *fix, size_t body_len, struct err *err);
void journal_fix_drain(struct journal_fix *fix); /* steps until there is nothing to do */

enum journal_fix_crash { JOURNAL_FIX_PROCESS_END, JOURNAL_FIX_POWER_CUT, JOURNAL_FIX_TORN };
/* Disarms all faults. `seed` is for a torn power cut. */
void journal_fix_crash(struct journal_fix *fix, enum journal_fix_crash how, uint64_t seed);
void journal_fix_disarm(struct journal_fix *fix);
/* Recovers; every turn found has to be the next one that was acknowledged. */
enum rc journal_fix_recover(struct journal_fix *fix, uint64_t mark_segment, bool repair,
                            struct buf *report, struct err *err);
/* Recovers and checks what a crash of this kind must leave; then forgets the other turns. */
void journal_fix_check(struct journal_fix *fix, enum journal_fix_crash how);
/* A file of the simulated directory, for damaging it. */
void journal_fix_read(struct journal_fix *fix, uint64_t number, struct buf *to);
void journal_fix_replace(struct journal_fix *fix, uint64_t number, struct bytes bytes);
bool journal_fix_exists(struct journal_fix *fix, const char *path);

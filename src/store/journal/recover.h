// SPDX-License-Identifier: Apache-2.0
/* recover.h - reads a journal directory after the process has ended, and leaves it whole.
 *
 * Segments above the mark are read in order of their numbers; every turn goes to `turn`. What is
 * not known to have been durable and is not whole is cut off, moved to "<dir>/../lost/" and told
 * (`cut`). What was durable and is not whole is damage: the start
 * is refused with a text that names file and offset, or, with `repair`, everything from there on is
 * moved to "<dir>/../lost/". Segments at or below the mark are removed.
 *
 * Calling it again after it was interrupted at any point gives the same result.
 * Ownership: everything is borrowed for the call.
 * Threads: the journal must not be open. */
#pragma once

#include "store/journal/journal.h"

/* Something that was cut off. After a power cut that is as it should be, also with turns in it:
 * none of them was known to be on disk. */
struct journal_cut {
    uint64_t segment;
    uint64_t offset; /* 0: all of the segment */
    uint64_t bytes;
    uint64_t turn_count; /* that can be recognized in it */
    /* Where it is now; empty: it could not be kept, for want of disk. */
    char kept[PATH_BYTES_MAX + 64];
};

struct journal_recover_options {
    struct files *files;
    const char *dir; /* of the segments; created if it is missing */
    uint8_t uuid[16];
    uint64_t mark_segment; /* every commit of segments up to this one is in the engine */
    uint64_t mark_lsn;     /* the last LSN among them */
    bool repair;
    struct buf *report; /* with repair: a line for each thing that was moved; NULL: none */
    /* A whole turn; its first error ends the recovery and is returned. NULL: nobody listens. */
    enum rc (*turn)(const struct segment_turn *turn, uint64_t segment, void *arg, struct err *err);
    /* A segment that is still needed, in order, for journal_adopt(). NULL: nobody listens. */
    void (*sealed)(const struct journal_sealed *sealed, void *arg);
    /* NULL: nobody listens. */
    void (*cut)(const struct journal_cut *cut, void *arg);
    void *arg;
};

/* RC_CORRUPT: damage, a missing or foreign segment. RC_VERSION: written by a newer program. RC_IO.
 * On RC_OK the segments that are left are whole, cut to their length and synced. */
enum rc journal_recover(const struct journal_recover_options *options,
                        struct journal_start *ret_start, struct err *err) NODISCARD;

/* Whether all that was written above the mark is in the journal: RC_OK, or RC_CORRUPT with what is
 * missing. A journal in which nothing was ever written follows no mark but 0. Nothing is changed,
 * so the journal may be open. */
enum rc journal_follows(struct files *files, const char *dir, const uint8_t uuid[16],
                        uint64_t mark_segment, struct err *err) NODISCARD;

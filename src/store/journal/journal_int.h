// SPDX-License-Identifier: Apache-2.0
/* journal_int.h - what the files of the journal share; not for anyone else.
 *
 * Threads: one lock. Fields of struct journal are touched with it held unless they are marked:
 *   executor   only the executor touches it, or: the executor alone changes it, with the lock held,
 *              and may therefore read it without
 *   fixed      set at open
 *   atomic     shared, an atomic
 * io_busy: the journal's thread is at a file without the lock. Who needs the files for itself takes
 * the lock and waits for io_busy to end with journal__io_wait(). */
#pragma once

#include "base/thread.h"
#include "store/journal/journal.h"
#include "store/journal/journal_record.h"

/* With its head a chunk fills an allocator's size class. */
enum { KEPT_CHUNK_BYTES = 256 * 1024 - 3 * (int)sizeof(void *), KEPT_CHUNKS_FREE_MAX = 4 };

struct kept_chunk {
    struct kept_chunk *next;
    size_t from; /* bytes [from, to) are kept */
    size_t to;
    uint8_t bytes[KEPT_CHUNK_BYTES];
};
_Static_assert(sizeof(struct kept_chunk) == (size_t)256 * 1024, "one size class");

/* The bytes of a segment from its synced length to its length, in order. */
struct kept {
    struct kept_chunk *first;
    struct kept_chunk *last;
};

struct journal_seg {
    struct file *file;
    uint64_t number;         /* fixed */
    uint32_t salt;           /* fixed */
    uint64_t len;            /* executor: whole turns that were written */
    _Atomic uint64_t synced; /* atomic: of them, how much a completed sync covered */
    uint32_t chain;          /* executor */
    uint64_t last_lsn;       /* executor */
    uint64_t frame_count;    /* executor */
    bool entry_synced;       /* its directory entry is on disk */
    bool broken;             /* the file cannot be trusted beyond `synced`; see journal_sync.c */
    struct kept kept;
};

struct journal {
    struct journal_options options; /* fixed; dir is an owned copy */
    struct clock wait_clock;        /* fixed: the real one, for timed waits */
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the thread */
    pthread_cond_t done; /* the thread has finished a piece */
    struct thread thread;
    bool stop;
    bool idle;      /* the thread waits on `work` */
    bool io_busy;   /* see above */
    bool preparing; /* and it is the next file that is being made */
    int io_wanted;

    enum durability durability;
    struct journal_seg *cur;  /* executor; NULL: none could be begun */
    struct journal_seg *prev; /* written to its end, not sealed yet */
    struct file *spare;       /* the empty file of the next number, its entry synced; or NULL */
    struct file *record;      /* fixed; NULL: it could not be made, and nothing is written down */
    uint64_t number;          /* executor: of cur, or of the one to begin */
    uint64_t last_lsn;        /* executor */
    uint64_t bytes_before;    /* executor: for the first header */
    uint32_t chain_before;

    struct kept_chunk *chunk_free;
    size_t chunk_free_count;
    size_t kept_bytes;  /* in all segments */
    uint64_t oldest_ns; /* when the oldest turn that no sync has begun for was written; 0: none */
    bool sync_asked;
    bool rotate_asked;
    bool notify_due;
    uint64_t spare_retry_ns;
    uint64_t record_sync_ns; /* when the record is synced if nothing else happens; 0: it is */
    uint64_t look_ns;        /* when to look at the free space next */

    struct journal_sealed *sealed; /* by number */
    size_t sealed_count;
    size_t sealed_cap;
    uint64_t sealed_bytes;
    uint64_t removed_to; /* what journal_remove() was asked for */
    int pin_count;
    bool removing;

    struct journal_status stats; /* the counts and the reason */
    _Atomic uint64_t durable_lsn;
    _Atomic bool disk_low;
    _Atomic bool read_only;
};

/* journal_kept.c */
void journal__kept_add(struct journal *journal, struct kept *kept, struct bytes bytes);
void journal__kept_drop(struct journal *journal, struct kept *kept, uint64_t bytes);
void journal__kept_done(struct journal *journal, struct kept *kept);
enum rc journal__kept_write(const struct kept *kept, struct file *file, uint64_t offset,
                            struct err *err) NODISCARD;
void journal__chunks_done(struct journal *journal);

/* journal_sync.c; all with the lock held */
void journal__io_wait(struct journal *journal);
/* Seals prev if there is one; syncs cur, which needs prev to be gone. Without giving the lock away;
 * the thread must not be at a file. */
enum rc journal__sync_prev(struct journal *journal, struct err *err) NODISCARD;
enum rc journal__sync_cur(struct journal *journal, struct err *err) NODISCARD;
/* Syncs what comes first: prev, and seals it, or cur. The lock is given away meanwhile. */
void journal__sync_next(struct journal *journal);
/* Writes down that so much of the segment is synced. Best effort: nothing is written wrongly. By
 * who is at the files, with or without the lock. */
void journal__record(struct journal *journal, const struct journal_seg *seg, uint64_t len);
/* Writes the segment again to a fresh file; RC_OK: all of it is synced. */
enum rc journal__rewrite(struct journal *journal, struct journal_seg *seg,
                         struct err *err) NODISCARD;
void journal__seal(struct journal *journal); /* prev, which is synced whole */
bool journal__work(struct journal *journal); /* one piece; false: nothing to do */
uint64_t journal__wait_ns(const struct journal *journal);
void journal__look(struct journal *journal);

/* journal.c */
void journal__parent_path(char to[PATH_BYTES_MAX], const char *dir);
void journal__seg_free(struct journal *journal, struct journal_seg *seg);
/* For want of disk; true: something was given, and may be tried again. What is left of the reserve
 * is for who deletes. */
bool journal__reserve_take(struct journal *journal, uint64_t bytes);
void journal__read_only_set(struct journal *journal, const char *reason);

/* journal_sealed.c */
void journal__sealed_add(struct journal *journal, const struct journal_sealed *sealed);

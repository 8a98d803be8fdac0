// SPDX-License-Identifier: Apache-2.0
/* flush_int.h - the inside of the flusher: runs, what SORT collects, the merge of BUILD.
 *
 * Order of a change in its unit: index of its segment << 32 | ordinal in the segment. The greater
 * one is newer.
 *
 * Run file: the last changes of one segment, one after the other, sorted by engine key; for equal
 * keys a drop comes first, then the newest. Never synced, never read by another process.
 *   OFFSET  SIZE  WHAT                                   integers little-endian
 *   0       4     length of the engine key << 2 | kind (enum flush__kind)
 *   4       4     length of the value
 *   8       4     ordinal of the change in its segment
 *   12      n     engine key; of a drop: the first possible key of the group
 *   12+n    m     value
 *
 * Threads: everything here belongs to the flusher. */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "base/codec.h"
#include "store/flush/flush.h"

enum flush__kind { /* sorts: a drop stands before the rows of its group */
                   FLUSH_DROP = 0,
                   FLUSH_PUT = 1,
                   FLUSH_DELETE = 2,
};
enum { FLUSH_ROW_HEADER_BYTES = 12, FLUSH_PIECE_ROWS = 1024, FLUSH_PIECE_TURNS = 64 };

/* How fast the flusher goes. Nobody waits for a unit that is only large enough: after each piece of
 * work it rests, so that clients who share a few cores with it hardly notice. When somebody waits,
 * or will soon, it does not. */
struct flush__pace {
    _Atomic bool stop;           /* shared: atomic */
    _Atomic bool hurry;          /* shared: atomic */
    _Atomic uint64_t rest_count; /* shared: atomic */
    uint64_t piece_ns;           /* CPU of the thread when the last piece ended */
};
/* Between two pieces of work. False: stop. */
bool flush__go_on(struct flush__pace *pace) NODISCARD;

static inline size_t flush__row_key_len(const uint8_t *row)
{
    return le32_get(row) >> 2;
}
static inline enum flush__kind flush__row_kind(const uint8_t *row)
{
    return (enum flush__kind)(le32_get(row) & 3);
}
static inline size_t flush__row_value_len(const uint8_t *row)
{
    return le32_get(row + 4);
}
static inline uint32_t flush__row_ordinal(const uint8_t *row)
{
    return le32_get(row + 8);
}
static inline size_t flush__row_len(const uint8_t *row)
{
    return FLUSH_ROW_HEADER_BYTES + flush__row_key_len(row) + flush__row_value_len(row);
}

/* For neighbours in key order, which mostly differ at their ends. */
static inline bool flush__key_eq(struct bytes a, struct bytes b)
{
    if (a.len != b.len)
        return false;
    if (a.len >= 8 && le64_get(a.ptr + a.len - 8) != le64_get(b.ptr + b.len - 8))
        return false;
    return bytes_eq(a, b);
}

/* ---- runs: flush_run.c ---- */

struct flush__run {
    char path[PATH_BYTES_MAX];
    uint64_t bytes;
    uint64_t row_count;
    uint32_t segment_index; /* in the unit */
};

struct flush__run_writer {
    struct file *file;
    uint8_t *buf; /* FLUSH_RUN_WRITE_BYTES */
    size_t len;
    uint64_t offset; /* of buf in the file */
    uint64_t row_count;
};

enum rc flush__run_writer_open(struct files *files, const char *path,
                               struct flush__run_writer *ret_writer, struct err *err) NODISCARD;
void flush__run_writer_close(struct flush__run_writer *writer);
/* The row as it stands in the file. */
enum rc flush__run_add(struct flush__run_writer *writer, const uint8_t *row,
                       struct err *err) NODISCARD;
/* Writes what is left and fills bytes and row_count. */
enum rc flush__run_end(struct flush__run_writer *writer, struct flush__run *run,
                       struct err *err) NODISCARD;

struct flush__cursor { /* walks a run; key is borrowed until the next call */
    struct bytes key;
    uint64_t order;
    enum flush__kind kind;
    bool ended;
    struct file *file;
    uint64_t run_bytes;
    uint64_t row_offset; /* of the current row in the file */
    uint64_t row_len;
    uint64_t order_base;
    uint8_t *buf;
    size_t cap;
    size_t at;  /* of the current row */
    size_t end; /* of what was read */
};

/* Stands before the first row. */
enum rc flush__cursor_open(struct files *files, const struct flush__run *run,
                           struct flush__cursor *ret_cursor, struct err *err) NODISCARD;
void flush__cursor_close(struct flush__cursor *cursor);
/* RC_OK with `ended` at the end. */
enum rc flush__cursor_next(struct flush__cursor *cursor, struct err *err) NODISCARD;
/* The value of the current row, read into `large` where the cursor's buffer does not hold it. */
enum rc flush__cursor_value(struct flush__cursor *cursor, struct buf *large,
                            struct bytes *ret_value, struct err *err) NODISCARD;

/* ---- what a unit collects beside rows: flush_unit.c ---- */

struct flush__counter {
    uint8_t *name; /* owned */
    size_t name_len;
    int64_t value;
};
struct flush__counters { /* by name, in byte order */
    struct flush__counter *at;
    size_t count;
    size_t cap;
    size_t last_index; /* where the last one was found */
};

/* RC_TOO_BIG: more names than STORE_COUNTERS_MAX, or too long a name. Sums wrap. */
enum rc flush__counters_add(struct flush__counters *counters, struct bytes name, int64_t delta,
                            struct err *err) NODISCARD;
/* Has no limit: what it is given had one, and a unit that was applied cannot be refused. */
void flush__counters_merge(struct flush__counters *into, const struct flush__counters *from);
int64_t flush__counters_get(const struct flush__counters *counters, struct bytes name);
void flush__counters_done(struct flush__counters *counters); /* empty, and ready for use */

struct flush__drop { /* a dropped prefix */
    uint8_t space;
    struct bytes prefix; /* in the arena of its set */
    uint64_t order;
};
struct flush__drops {
    struct flush__drop *at; /* after _sort(): by space and prefix, the newest of each */
    size_t count;
    size_t cap;
    struct arena arena;
};

void flush__drops_init(struct flush__drops *drops);
void flush__drops_done(struct flush__drops *drops);
void flush__drops_clear(struct flush__drops *drops);
void flush__drops_add(struct flush__drops *drops, uint8_t space, struct bytes prefix,
                      uint64_t order); /* copies */
void flush__drops_sort(struct flush__drops *drops);
void flush__drops_merge(struct flush__drops *into, const struct flush__drops *from);

/* ---- SORT: flush_sort.c ---- */

struct flush__sorter; /* memory of one segment, used again for the next */

struct flush__sort_job {
    struct files *files;
    const struct space_set *spaces;
    const char *segment_path;
    struct journal_sealed sealed;
    const uint8_t *uuid;
    struct flush__pace *pace;
};

struct flush__sorter *flush__sorter_new(void);
void flush__sorter_free(struct flush__sorter *sorter);
/* Writes the run named by run->path with order numbers of run->segment_index and fills the rest of
 * it; counters and prefix drops are added to. After an error these two are to be thrown away.
 * RC_WAIT: it was stopped. */
enum rc flush__sort(struct flush__sorter *sorter, const struct flush__sort_job *job,
                    struct flush__run *run, struct flush__counters *counters,
                    struct flush__drops *drops, struct err *err) NODISCARD;

/* ---- BUILD: flush_merge.c ---- */

struct flush__merge_job {
    struct files *files;
    struct engine *engine;
    const struct space_set *spaces;
    const struct flush__run *run;
    size_t run_count;
    const struct flush__drops *drops; /* of the whole unit, sorted */
    struct flush__pace *pace;
};

struct flush__merge_result {
    uint64_t row_count;
    uint64_t range_delete_count;
};

/* Adds the rows of all runs to the unit. *ret_runs_bad, also after an error: a run file does not
 * hold what was written, the segments have to be sorted again. RC_WAIT: it was stopped. */
enum rc flush__merge(const struct flush__merge_job *job, struct engine_unit *unit,
                     struct flush__merge_result *ret_result, bool *ret_runs_bad,
                     struct err *err) NODISCARD;

/* ---- brake: flush_brake.c ---- */

struct flush__brake {
    bool on;
    bool failing;      /* a compaction has failed since */
    uint64_t since_ns; /* since when the pressure has not fallen */
    uint64_t l0_file_count, debt_bytes;
    uint64_t error_count; /* of the engine, at the last look */
};

/* Whether the next unit waits for the engine to catch up. It does not where compactions fail,
 * mostly for want of disk, and the pressure does not fall: a unit makes room in memory and in the
 * journal, and brings in the deletes that free disk. If there is no disk for it, that is the error.
 */
bool flush__braked(struct flush__brake *brake, const struct flush_options *options,
                   const struct engine_pressure *pressure);

/* ---- a full disk: flush_tight.c ---- */

struct flush__tight {
    uint64_t look_ns;       /* when to look next */
    uint64_t error_count;   /* of the engine, at the last look */
    uint64_t compacting_ns; /* since when each look has found a compaction; 0: the last has not */
};

/* There is no disk: so much of the reserve is taken, but for the journal's part; `again`: half
 * of that, too, because nothing but a unit that lands makes room. */
void flush__tight_full(const struct flush_options *options, uint64_t bytes, bool again);
/* Once a second: takes the reserve for compactions that fail without disk, fills it again where
 * there is room, and otherwise asks the engine for some, which gets what is left of it. */
void flush__tight_look(struct flush__tight *tight, const struct flush_options *options);

/* ---- backup: flush_backup.c ---- */

struct flush__backup_job {
    struct files *files;
    struct journal *journal;
    const char *journal_dir;
    struct engine *engine;
    uint64_t mark_segment; /* of the engine */
    uint64_t segment;      /* sealed up to here */
    const char *to_dir;
};

/* Between two units. After an error what was made stays. */
enum rc flush__backup(const struct flush__backup_job *job, struct err *err) NODISCARD;

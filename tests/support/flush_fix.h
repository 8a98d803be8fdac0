// SPDX-License-Identifier: Apache-2.0
/* flush_fix.h - a flusher between hand-made segments and an engine, with a naive model beside it.
 *
 * Every change goes to the segment being made and to the model. Segments are written as files and
 * adopted by a real journal, so a test decides where they end. The journal's
 * own numbers begin far above.
 * Threads: one owner. */
#pragma once

#include "base/file_sim.h"
#include "store/engine/engine_memory.h"
#include "store/flush/flush.h"
#include "store/journal/record.h"

enum { /* the spaces of the fixture */
       FIX_WHOLE = 1,
       FIX_FIXED = 2, /* 3 bytes */
       FIX_LENGTH = 3,
       FIX_LENGTH_NEXT = 4,
       FIX_LAST = 254, /* fixed, 1 byte */
};
enum { FIX_COUNTERS = 4, FIX_SEGMENTS_MAX = 100000 };

struct model_row {
    uint8_t space;
    struct bytes group;
    struct bytes suffix;
    struct bytes value;
    uint8_t *memory; /* of all three */
};
struct model {
    struct model_row *row; /* by space, group, suffix */
    size_t count;
    size_t cap;
    int64_t counter[FIX_COUNTERS];
};

void model_done(struct model *model);
void model_copy(struct model *to, const struct model *from);
/* The engine (or a view of it) holds exactly the rows and counters of the model. */
void model_check(const struct model *model, struct engine *engine, const struct engine_view *view,
                 const struct space_set *spaces);

struct flush_fix {
    struct file_sim *sim; /* NULL: real files */
    struct files *files;
    struct clock clock;
    struct rand rand;
    struct engine_memory *memory;
    const struct engine_ops *ops;
    struct engine *engine;
    struct space_set spaces;
    struct journal *journal;
    struct flush *flush;
    char engine_dir[256], journal_dir[256], scratch_dir[256];
    struct flush_options options; /* a test may change it before fix_open() */
    _Atomic int notify_count;
    struct err err;

    uint64_t lsn;
    uint64_t segment_count;        /* sealed ones */
    struct journal_sealed *sealed; /* all ever made, by number - 1 */
    struct record_writer writer;
    struct buf segment;
    uint32_t salt;
    struct model model; /* of everything sealed or being made */
};

void fix_init(struct flush_fix *fix, uint64_t seed); /* in memory */
/* False under ThreadSanitizer: it does not see the locks of RocksDB. */
bool fix_has_rocksdb(void);
void fix_init_rocksdb(struct flush_fix *fix, uint64_t seed); /* in a temporary directory */
void fix_done(struct flush_fix *fix);
/* Journal and flusher as after a start; the engine stays open between. */
void fix_open(struct flush_fix *fix);
void fix_close(struct flush_fix *fix);

void fix_put(struct flush_fix *fix, uint8_t space, struct bytes group, struct bytes suffix,
             struct bytes value);
void fix_delete(struct flush_fix *fix, uint8_t space, struct bytes group, struct bytes suffix);
void fix_drop_group(struct flush_fix *fix, uint8_t space, struct bytes group);
void fix_drop_prefix(struct flush_fix *fix, uint8_t space, struct bytes prefix);
void fix_count(struct flush_fix *fix, unsigned counter, int64_t delta);
void fix_change_random(struct flush_fix *fix);
uint64_t fix_seal(struct flush_fix *fix); /* its number */
bool fix_segment_exists(struct flush_fix *fix, uint64_t number);

void fix_run(struct flush_fix *fix);   /* steps until there is nothing to do */
void fix_flush(struct flush_fix *fix); /* asks for everything sealed, and runs */
void fix_check(struct flush_fix *fix); /* the engine holds the model */
struct flush_status fix_status(struct flush_fix *fix);

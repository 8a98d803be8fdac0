// SPDX-License-Identifier: Apache-2.0
/* part_gen.h - partitions of three kinds, the same for the same seed.
 *
 * regular    ids and ranges of 1000 in a row, 20 workers in any order, one done every 6 s (or 7),
 *            each after 300 s
 * realistic  50 workers that claim in order of ids whenever they are free, durations log-normal
 *            (median 250 s, sigma 0.5: a mean of 283 s), 2 % ranges of another size, 0.5 % failed
 * once and kept the error; created by 500 at a time; ranges follow each other random     every
 * field uniform: ids 1..31 apart, min below 2^24, 1..10000 ids, 256 workers, all statuses, done
 * within a day, up to an hour long, version 3..10 extreme    for tests: every number at a border of
 * its type or of a 32-bit field, texts now and then
 *
 * Ownership: texts are literals or belong to the generator.
 * Threads: one owner. */
#pragma once

#include "base/arena.h"
#include "base/rand.h"
#include "models/partition/record.h"

enum part_gen_kind { PART_GEN_REGULAR, PART_GEN_REALISTIC, PART_GEN_RANDOM, PART_GEN_EXTREME };
enum { PART_GEN_WORKERS = 50 };

struct part_gen {
    enum part_gen_kind kind;
    struct rand rand;
    struct arena arena;
    int64_t next_id;
    int64_t next_min;
    uint64_t next_fence;
    int64_t now_ms;
    int64_t created_s;
    uint64_t pause_ms_max; /* realistic: a free worker claims within this; a test may change it */
    int64_t free_ms[PART_GEN_WORKERS + 1];
};

void part_gen_init(struct part_gen *gen, enum part_gen_kind kind, uint64_t seed);
void part_gen_done(struct part_gen *gen);
void part_gen_next(struct part_gen *gen, struct part_record *to, size_t count);

/* What an archive keeps of a record: durations in whole units. */
struct part_record part_gen_kept(struct part_record record, int64_t unit_ms);
bool part_gen_same(const struct part_record *a, const struct part_record *b);

// SPDX-License-Identifier: Apache-2.0
/* part_int.h - what the files of the model share. */
#pragma once

#include "models/partition/batches.h"
#include "models/partition/batch_cache.h"
#include "models/partition/part.h"
#include "types/guard.h"

struct packer;
struct part_census;

struct part {
    struct part_options options;
    struct part_limits limits;
    struct kv *kv;
    struct key_guard guard; /* of its keys, in every database */
    struct buf json;        /* a record in construction */
    struct buf frame;       /* a frame in construction */
    struct part_cache cache;
    struct packer *packer;
    bool may_drop;              /* a job may be being dropped: rows decide */
    struct part_census *census; /* those under way */
    struct part_watch watch;
};

/* Active or completed, wherever it is. RC_NOT_FOUND: nowhere; it may have aged out. */
enum rc part__find(struct part_job *job, int64_t id, struct part_info *ret_info,
                   struct err *err) NODISCARD;
/* A completed record, wherever it is. RC_NOT_FOUND. */
enum rc part__archived(struct part_job *job, int64_t id, struct part_info *ret_info,
                       struct err *err) NODISCARD;
/* RC_INVALID: no name of a worker. */
enum rc part__worker_check(struct bytes worker, struct err *err) NODISCARD;
/* A record has been completed, in a commit that may still be taken back: there may be something to
 * pack, and a census may have passed it. */
void part__completed(struct part_job *job, int64_t id);
/* Options (see part_new) and an error that JSON can hold; options lose the spaces around them. */
enum rc part__text_check(struct bytes *options, struct bytes error, struct err *err) NODISCARD;
/* Lowest and highest ids, and the last partition id, with this one. */
enum rc part__bounds_add(struct part_job *job, const struct part_new *one,
                         struct err *err) NODISCARD;

/* packer.c */
struct packer *packer_new(struct part *part);
void packer_free(struct packer *packer);
void packer_know(struct packer *packer, const struct part_job *job); /* it was made */
void packer_kick(struct packer *packer, const struct part_job *job);
/* PART.DROP has begun: if whoever asked for it goes away, the packer ends it. */
void packer_drop(struct packer *packer, const struct part_job *job);
/* Something may have to be done by other limits. */
void packer_look(struct packer *packer);

/* pack.c: one commit of packing. */
enum pack_end {
    PACK_STEP, /* something was packed, or passed over; there may be more */
    PACK_OVER, /* nothing more to do in this pass */
};
struct pack_pass {
    int64_t from;    /* records below it have been looked at */
    uint64_t credit; /* batches that may still be rewritten for late records */
    bool all;        /* all completed, also less than a batch */
    uint64_t packed; /* records so far */
};
/* Whether there is enough to begin a pass. */
enum rc pack_is_due(struct part_job *job, bool *ret_due, struct err *err) NODISCARD;
enum rc pack_begin(struct part_job *job, bool all, struct pack_pass *ret_pass,
                   struct err *err) NODISCARD;
/* The pass is changed when the step is RC_OK. */
enum rc pack_step(struct part_job *job, struct pack_pass *pass, enum pack_end *ret_end,
                  struct err *err) NODISCARD;
/* part-retain: looks at some batches from the id *from on, and drops at most one. */
enum rc pack_retain(struct part_job *job, int64_t *from, enum pack_end *ret_end,
                    struct err *err) NODISCARD;

/* census.c */
void census_note(struct part_job *job, int64_t id);
/* A row of JOB_PARTITIONS is about to be made, changed or deleted. */
enum rc census_touched(struct part_job *job, int64_t id, bool is_new, struct err *err) NODISCARD;
bool census_runs(const struct part_job *job); /* nothing of the job may age out meanwhile */
